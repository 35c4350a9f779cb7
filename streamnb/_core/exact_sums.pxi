# Exact sums of what a class has learned: see _exact.pxi for how a sum is kept.

cdef enum:
    EXACT_FEATURES = 1 << 24
    EXACT_PAIRED = 1 << 12  # whose pairs take 1.3 gigabytes a class

MAX_PAIRED_FEATURES = EXACT_PAIRED


cdef class ExactSums:
    """Exact sums over the examples of one class: of weights, values and their products.

    Cell 0 is the sum of all weights w. With `pairs`, feature j has for each i <= j four cells: sums of w,
    w x_i, w x_j and w x_i x_j over the examples that have both; without, it has three: w, w x, w x^2.
    """

    cdef int64_t *limbs
    cdef Py_ssize_t cells, room, low, width, features
    cdef int64_t waiting
    cdef readonly bint pairs

    def __cinit__(self, bint pairs=False):
        self.pairs = pairs
        self.width = 1
        self.low = EXACT_BASE // 32
        self.grow(0)

    def __dealloc__(self):
        free(self.limbs)

    def __sizeof__(self):
        return sizeof(ExactSums) + self.room * self.width * sizeof(int64_t)

    def __len__(self):
        return self.features

    cdef Py_ssize_t cells_of(self, Py_ssize_t features) noexcept nogil:
        """How many sums there are of so many features; 0 where that are too many."""
        if not 0 <= features <= (EXACT_PAIRED if self.pairs else EXACT_FEATURES):
            return 0
        return 1 + (2 * features * (features + 1) if self.pairs else 3 * features)

    def grow(self, Py_ssize_t features):
        """Make room for features; what is new is 0."""
        cdef Py_ssize_t cells = self.cells_of(features), room
        if features < self.features or not cells:
            raise ValueError(f"{features} features")
        if cells > self.room:
            room = max(cells, self.room + (0 if self.pairs else self.room // 2))
            self.limbs = <int64_t *> grown(self.limbs, room * self.width * sizeof(int64_t))
            self.room = room
        if cells > self.cells:
            memset(self.limbs + self.cells * self.width, 0, (cells - self.cells) * self.width * sizeof(int64_t))
        self.cells = cells
        self.features = features

    def cut(self, Py_ssize_t features):
        """Forget the last features, of which nothing was learned."""
        if not 0 <= features <= self.features:
            raise ValueError(f"{features} features")
        self.cells = self.cells_of(features)
        self.features = features

    cdef int widen(self, int64_t lowest, int64_t highest) except -1:
        """Have the limbs for numbers of bits from `lowest` to below `highest`, and two for sums of many."""
        cdef Py_ssize_t low = max(lowest + EXACT_BASE, 0) >> 5
        if lowest < highest:
            self.cover(low, max(low + 4, ((highest + EXACT_BASE) >> 5) + 3))
        return 0

    cdef int cover(self, Py_ssize_t low, Py_ssize_t top) except -1:
        """Have limbs `low` to below `top`."""
        cdef Py_ssize_t width, i, shift
        cdef int64_t *limbs
        low = min(low, self.low)
        top = max(top, self.low + self.width)
        width = top - low
        shift = self.low - low
        if width == self.width:
            return 0
        if top > EXACT_LIMBS:
            raise OverflowError("a number is too large to be summed")
        limbs = <int64_t *> calloc(max(self.room, 1) * width, sizeof(int64_t))
        if limbs == NULL:
            raise MemoryError(f"cannot have {self.room * width} limbs")
        for i in range(self.cells):
            exact_carry(self.limbs + i * self.width, self.width)
            memcpy(limbs + i * width + shift, self.limbs + i * self.width, self.width * sizeof(int64_t))
            exact_carry(limbs + i * width + shift + self.width - 1, width - shift - self.width + 1)
        free(self.limbs)
        self.limbs, self.low, self.width = limbs, low, width
        return 0

    cdef int prepare(self, const double *x, const int64_t *label, int64_t k, const double *w, Py_ssize_t rows,
                     Py_ssize_t columns) except -1:
        """Have the limbs that these examples will need, and the carries that cannot wait done."""
        cdef int64_t low_w = 4096, high_w = -4096, low_x = 4096, high_x = -4096, v
        cdef Py_ssize_t r, j
        if columns > self.features:
            raise ValueError(f"{columns} columns, {self.features} features")
        for r in range(rows):
            if label[r] != k or w[r] == 0:
                continue
            low_w, high_w = min(low_w, exact_lowest(w[r])), max(high_w, exact_highest(w[r]))
            for j in range(columns):
                if x[r * columns + j] == x[r * columns + j] and x[r * columns + j] != 0:
                    v = exact_lowest(x[r * columns + j])
                    low_x = min(low_x, v)
                    v = exact_highest(x[r * columns + j])
                    high_x = max(high_x, v)
        if low_w > high_w:
            return 0
        self.widen(low_w, high_w)
        if low_x <= high_x:
            self.widen(low_w + min(low_x, 2 * low_x), high_w + max(high_x, 2 * high_x))
        self.expect(4 * rows)
        return 0

    cdef void expect(self, int64_t additions) noexcept nogil:
        """Have the carries done that cannot wait for so many more additions."""
        self.waiting += additions
        if self.waiting > EXACT_LATER:
            self.carry()
            self.waiting = additions

    cdef void carry(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.cells):
            exact_carry(self.limbs + i * self.width, self.width)

    def add(self, X, labels, int64_t k, weights, double sign=1.0):
        """Add the rows of X that belong to class k; take them away with sign -1.

        Parameters
        ----------
        X
            float64, shape (n, d): finite, at most 1e100; NaN where a value is missing.
        labels, k
            int64, shape (n,): the class of each row; and the one to add.
        weights
            float64, shape (n,): 0, or from 1e-100 to 1e100.
        """
        cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], r
        cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
        cdef int64_t *label = <int64_t *> cnp.PyArray_DATA(checked(labels, cnp.NPY_INT64, rows, "labels"))
        cdef double *w = <double *> cnp.PyArray_DATA(checked(weights, cnp.NPY_FLOAT64, rows, "weights"))
        if rows > 1 << 26:
            raise ValueError(f"{rows} rows; at most {1 << 26} at a time")
        self.prepare(x, label, k, w, rows, columns)
        for r in range(rows):  # holding the lock of the interpreter: another thread may grow these sums
            if label[r] == k and w[r] != 0:
                exact_add(self.limbs, self.low, sign * w[r])
                if self.pairs:
                    self.add_pairs(x + r * columns, columns, sign * w[r])
                else:
                    self.add_squares(x + r * columns, columns, sign * w[r])

    def add_cells(self, values, double sign=1.0):
        """Add numbers to all cells, in their order: what was summed unloaded without rounding."""
        cdef Py_ssize_t i
        cdef double *v = <double *> cnp.PyArray_DATA(checked(values, cnp.NPY_FLOAT64, self.cells, "values"))
        cdef int64_t low = 4096, high = -4096
        for i in range(self.cells):
            if v[i] != 0:
                low, high = min(low, exact_lowest(v[i])), max(high, exact_highest(v[i]))
        self.widen(low, high)
        self.expect(1)
        for i in range(self.cells):
            exact_add(self.limbs + i * self.width, self.low, sign * v[i])

    cdef void add_squares(self, const double *x, Py_ssize_t columns, double w) noexcept nogil:
        cdef Py_ssize_t j
        cdef int64_t *cell = self.limbs + self.width
        for j in range(columns):
            if x[j] == x[j]:
                exact_add(cell, self.low, w)
                exact_product(cell + self.width, self.low, w, x[j])
                exact_weighted(cell + 2 * self.width, self.low, w, x[j], x[j])
            cell += 3 * self.width

    cdef void add_pairs(self, const double *x, Py_ssize_t columns, double w) noexcept nogil:
        cdef Py_ssize_t i, j
        cdef int64_t *cell = self.limbs + self.width
        for j in range(columns):
            for i in range(j + 1):
                if x[i] == x[i] and x[j] == x[j]:
                    exact_add(cell, self.low, w)
                    exact_product(cell + self.width, self.low, w, x[i])
                    exact_product(cell + 2 * self.width, self.low, w, x[j])
                    exact_weighted(cell + 3 * self.width, self.low, w, x[i], x[j])
                cell += 4 * self.width

    def merge(self, ExactSums other, places=None):
        """Add other sums; feature j of theirs is feature places[j] of ours (None: j)."""
        cdef Py_ssize_t i, j, a, b, theirs, ours
        cdef list at = list(range(other.features)) if places is None else [index(place) for place in places]
        if other.pairs != self.pairs or len(at) != other.features:
            raise ValueError("the sums are of different things")
        if any(not 0 <= place < self.features for place in at) or len(set(at)) != len(at):
            raise IndexError("no such feature")
        self.cover(other.low, other.low + other.width)
        self.carry()
        other.carry()
        if self.full() or other.full():
            self.cover(self.low, self.low + self.width + 1)
        self.plus(0, other, 0)
        if not self.pairs:
            for j in range(other.features):
                for i in range(3):
                    self.plus(1 + 3 * <Py_ssize_t> at[j] + i, other, 1 + 3 * j + i)
            return
        theirs = 1
        for j in range(other.features):
            for i in range(j + 1):
                a, b = min(at[i], at[j]), max(at[i], at[j])
                ours = 1 + 4 * (b * (b + 1) // 2 + a)
                self.plus(ours, other, theirs)
                self.plus(ours + (1 if at[i] <= at[j] else 2), other, theirs + 1)
                self.plus(ours + (2 if at[i] <= at[j] else 1), other, theirs + 2)
                self.plus(ours + 3, other, theirs + 3)
                theirs += 4

    cdef bint full(self) noexcept nogil:
        """Whether the highest limb of a sum may not hold another such sum."""
        cdef Py_ssize_t i
        for i in range(self.cells):
            if not -(1LL << 60) < self.limbs[(i + 1) * self.width - 1] < 1LL << 60:
                return True
        return False

    cdef void plus(self, Py_ssize_t ours, ExactSums other, Py_ssize_t theirs) noexcept nogil:
        """Add another's sum to one of ours, the carries of both done."""
        cdef int64_t *target = self.limbs + ours * self.width
        cdef int64_t *source = other.limbs + theirs * other.width
        cdef Py_ssize_t i
        for i in range(other.width):
            target[i + other.low - self.low] += source[i]
        exact_carry(target, self.width)

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return self.value(self.limbs)

    def moments(self):
        """Of each feature the sum of weights, the mean, and the sum of squares about it: float64, (3, d).

        Where nothing is known the mean is NaN. Not for sums of pairs.
        """
        cdef cnp.ndarray out = new_matrix(3, self.features, cnp.NPY_FLOAT64)
        cdef double *n = <double *> cnp.PyArray_DATA(out)
        cdef double *mean = n + self.features
        cdef double *squares = mean + self.features
        cdef Py_ssize_t j
        cdef int64_t *cell = self.limbs + self.width
        if self.pairs:
            raise ValueError("these are sums of pairs")
        for j in range(self.features):
            self.mean(cell, &n[j], &mean[j])
            squares[j] = exact_about(
                cell + 2 * self.width, cell + self.width, cell + self.width, cell, self.low, self.width)
            cell += 3 * self.width
        return out

    cdef void mean(self, const int64_t *cell, double *n, double *mean) noexcept nogil:
        """The sum of weights that a cell holds, and the mean whose sum is in the next one."""
        cdef double[4] s
        cdef double rest
        exact_read(cell, self.low, self.width, &s[0], &s[1])
        exact_read(cell + self.width, self.low, self.width, &s[2], &s[3])
        n[0] = s[0]
        mean[0] = NAN
        if s[0] != 0:
            exact_divide(&s[2], &s[0], mean, &rest)

    def possible(self):
        """Whether examples could have these sums, as far as these tell."""
        cdef Py_ssize_t i, j
        cdef int64_t *cell = self.limbs + self.width
        cdef double all = self.weight
        if all < 0:
            return False
        if not self.pairs:
            for j in range(self.features):
                if not self.holds(cell, cell + self.width, cell + self.width, cell + 2 * self.width, all, True):
                    return False
                cell += 3 * self.width
            return True
        for j in range(self.features):
            for i in range(j + 1):
                if not self.holds(
                    cell, cell + self.width, cell + 2 * self.width, cell + 3 * self.width,
                    min(self.value(self.own(i)), self.value(self.own(j))) if i < j else all, i == j,
                ):
                    return False
                cell += 4 * self.width
        return True

    cdef int64_t *own(self, Py_ssize_t j) noexcept nogil:
        """Of sums of pairs, the first cell of a feature with itself."""
        return self.limbs + (1 + 4 * (j * (j + 1) // 2 + j)) * self.width

    cdef double value(self, const int64_t *cell) noexcept nogil:
        cdef double hi, lo
        exact_read(cell, self.low, self.width, &hi, &lo)
        return hi

    cdef bint holds(self, const int64_t *n, const int64_t *a, const int64_t *b, const int64_t *s,
                    double most, bint squares) noexcept nogil:
        """Whether a weight is from 0 to `most`, nothing is the sum of nothing, and squares not negative."""
        cdef double weight = self.value(n)
        if not 0 <= weight <= most:
            return False
        if weight == 0:
            return self.value(a) == 0 and self.value(b) == 0 and self.value(s) == 0
        # Of squares what is below 2^-640 has been cut off, 2^40 times at most.
        return not squares or exact_about(s, a, b, n, self.low, self.width) >= -1e-25 * fabs(self.value(s)) - 1e-180

    def products(self):
        """Of each pair the sum of weights and the sum of products about the means: float64, (2, d, d).

        Means are those over the examples that have both.
        """
        cdef Py_ssize_t i, j, d = self.features
        cdef cnp.ndarray out = new_matrix(2 * d, d, cnp.NPY_FLOAT64)
        cdef double *n = <double *> cnp.PyArray_DATA(out)
        cdef double *about = n + d * d
        cdef int64_t *cell = self.limbs + self.width
        if not self.pairs:
            raise ValueError("these are not sums of pairs")
        for j in range(d):
            for i in range(j + 1):
                n[i * d + j] = n[j * d + i] = self.value(cell)
                about[i * d + j] = about[j * d + i] = exact_about(
                    cell + 3 * self.width, cell + self.width, cell + 2 * self.width, cell, self.low, self.width)
                cell += 4 * self.width
        return out.reshape(2, d, d)

    def means(self):
        """Mean of each feature, of pairs: float64, (d,); NaN where nothing is known."""
        cdef cnp.ndarray out = new_array(self.features, cnp.NPY_FLOAT64)
        cdef double *mean = <double *> cnp.PyArray_DATA(out)
        cdef Py_ssize_t j
        cdef double n
        if not self.pairs:
            raise ValueError("these are not sums of pairs")
        for j in range(self.features):
            self.mean(self.own(j), &n, &mean[j])
        return out

    def arrays(self):
        """The sums as they can be kept: the number of the lowest limb, and int64 limbs, shape (cells, width).

        Equal sums give equal arrays, whatever they have been through.
        """
        cdef cnp.ndarray copy
        self.carry()
        copy = new_matrix(self.cells, self.width, cnp.NPY_INT64)
        memcpy(cnp.PyArray_DATA(copy), self.limbs, self.cells * self.width * sizeof(int64_t))
        limbs, low = copy, self.low
        limbs = np.column_stack((limbs[:, :-1], limbs[:, -1] & 0xffffffff, limbs[:, -1] >> 32))
        while limbs.shape[1] > 1 and not limbs[:, 0].any():
            limbs, low = limbs[:, 1:], low + 1
        while limbs.shape[1] > 1 and ((limbs[:, -1] == 0) | (limbs[:, -1] == -1)).all():
            limbs = np.column_stack((limbs[:, :-2], limbs[:, -2] + (limbs[:, -1] << 32)))
        if limbs.shape[1] == 1 and not limbs.any():
            low = EXACT_BASE // 32
        return low, np.ascontiguousarray(limbs)

    def load(self, Py_ssize_t features, Py_ssize_t low, limbs):
        """Take over what `arrays` gave; ValueError where it is none."""
        cdef Py_ssize_t cells = self.cells_of(features), width
        cdef int64_t *block
        cdef cnp.ndarray values
        if self.features or not cells or limbs.ndim != 2 or limbs.shape[0] != cells:
            raise ValueError("the sums are damaged: their number is wrong")
        width = limbs.shape[1]
        if not 1 <= width < EXACT_LIMBS or not 0 <= low < EXACT_LIMBS - width:
            raise ValueError("the sums are damaged: their size is wrong")
        high = limbs >> 32
        if high[:, :-1].any() or (high[:, -1] < -1).any() or (high[:, -1] > 0).any():
            raise ValueError("the sums are damaged: a digit is too large")
        values = checked(np.ascontiguousarray(limbs, dtype=np.int64), cnp.NPY_INT64, cells * width, "limbs")
        block = <int64_t *> grown(NULL, cells * width * sizeof(int64_t))
        memcpy(block, cnp.PyArray_DATA(values), cells * width * sizeof(int64_t))
        free(self.limbs)
        self.limbs, self.low, self.width = block, low, width
        self.features, self.cells, self.room = features, cells, cells
        self.cover(low, low + width + 1)  # room for sums with others

    def copy(self):
        """Sums of their own."""
        made = ExactSums(self.pairs)
        made.load(self.features, *self.arrays())
        return made

    def __eq__(self, other):
        if not isinstance(other, ExactSums):
            return NotImplemented
        (low, limbs), (their_low, theirs) = self.arrays(), other.arrays()
        return low == their_low and limbs.shape == theirs.shape and bool((limbs == theirs).all())

    __hash__ = None

    def __reduce__(self):
        return _restored_sums, (self.pairs, self.features, *self.arrays())


def _restored_sums(pairs, features, low, limbs):
    sums = ExactSums(pairs)
    sums.load(features, low, limbs)
    return sums
