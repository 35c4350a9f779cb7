# Sums without rounding: what was added can be taken away again to the last bit, in any order.
#
# A sum is one whole number of 2^-640, its 32-bit digits ("limbs") in 64-bit integers, so that carries can
# wait (the superaccumulator of Kulisch; R. M. Neal 2015, arXiv:1505.05571). A double touches three limbs.
# Products go in as the two doubles that they are exactly. What is below 2^-640 is cut off, the same way
# for a number and its negative. Only the limbs that the numbers so far have needed are there.

cdef extern from "math.h" nogil:
    double fma(double x, double y, double z)
    double sqrt(double x)
    double ldexp(double x, int n)

cdef enum:
    EXACT_BASE = 640       # the lowest bit stands for 2^-640
    EXACT_LIMBS = 56       # up to 2^1152: sums of 10^19 numbers of 10^300
    EXACT_LATER = 1 << 29  # additions after which carries cannot wait any more


cdef double SMALLEST_VARIANCE = 1e-200  # without smoothing: a point, as nearly as numbers have it


cdef inline int64_t exact_lowest(double x) noexcept nogil:
    """Position of the lowest bit that is set; of 0, above all."""
    cdef uint64_t bits, m
    cdef int64_t e
    memcpy(&bits, &x, 8)
    e = (bits >> 52) & 0x7ff
    if e == 0:
        return 4096
    m = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL
    e -= 1075
    while not m & 0xff:
        m >>= 8
        e += 8
    while not m & 1:
        m >>= 1
        e += 1
    return e


cdef inline int64_t exact_highest(double x) noexcept nogil:
    """Position above the highest bit; of 0, below all."""
    cdef uint64_t bits
    memcpy(&bits, &x, 8)
    bits = (bits >> 52) & 0x7ff
    return <int64_t> bits - 1022 if bits else -4096


cdef inline void exact_add(int64_t *cell, Py_ssize_t low, double x) noexcept nogil:
    cdef uint64_t bits, m, part
    cdef int64_t at
    cdef int64_t *limb
    cdef int shift
    memcpy(&bits, &x, 8)
    at = <int64_t> ((bits >> 52) & 0x7ff)
    if at == 0:
        return
    m = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL
    at += EXACT_BASE - 1075
    if at < 0:
        if at <= -53:
            return
        m >>= -at
        at = 0
    limb = cell + ((at >> 5) - low)
    shift = at & 31
    part = m << shift
    if bits >> 63:
        limb[0] -= <int64_t> (part & 0xffffffffULL)
        limb[1] -= <int64_t> (part >> 32)
        if shift > 11:
            limb[2] -= <int64_t> (m >> (64 - shift))
    else:
        limb[0] += <int64_t> (part & 0xffffffffULL)
        limb[1] += <int64_t> (part >> 32)
        if shift > 11:
            limb[2] += <int64_t> (m >> (64 - shift))


cdef inline void exact_product(int64_t *cell, Py_ssize_t low, double x, double y) noexcept nogil:
    cdef double product = x * y
    exact_add(cell, low, product)
    exact_add(cell, low, fma(x, y, -product))


cdef inline void exact_weighted(int64_t *cell, Py_ssize_t low, double w, double x, double y) noexcept nogil:
    """Add w x y."""
    cdef double product = x * y, rest = fma(x, y, -product)
    if w == 1 or w == -1:
        exact_add(cell, low, w * product)
        exact_add(cell, low, w * rest)
    else:
        exact_product(cell, low, w, product)
        exact_product(cell, low, w, rest)


cdef inline void exact_carry(int64_t *cell, Py_ssize_t width) noexcept nogil:
    """Bring all limbs but the last into [0, 2^32)."""
    cdef Py_ssize_t i
    cdef int64_t carry = 0
    for i in range(width - 1):
        carry += cell[i]
        cell[i] = carry & 0xffffffffLL
        carry >>= 32  # of a negative number, too, what C compilers do everywhere
    cell[width - 1] += carry


cdef void exact_read(const int64_t *cell, Py_ssize_t low, Py_ssize_t width, double *hi, double *lo) noexcept nogil:
    """The sum as two doubles, to 106 bits: of its top five limbs."""
    cdef int64_t[EXACT_LIMBS] limbs
    cdef Py_ssize_t i, used = 0
    cdef double sign = 1.0, sum
    memcpy(limbs, cell, width * sizeof(int64_t))
    exact_carry(limbs, width)
    if limbs[width - 1] < 0:
        sign = -1.0
        for i in range(width):
            limbs[i] = -limbs[i]
        exact_carry(limbs, width)
    hi[0] = 0.0
    lo[0] = 0.0
    for i in range(width - 1, -1, -1):
        if used or limbs[i]:
            used += 1
            snb_accumulate(hi, lo, ldexp(<double> limbs[i], <int> (32 * (low + i) - EXACT_BASE)))
            if used == 5:
                break
    sum = hi[0] + lo[0]
    lo[0] = sign * (lo[0] - (sum - hi[0]))
    hi[0] = sign * sum


cdef inline void exact_divide(const double *a, const double *n, double *hi, double *lo) noexcept nogil:
    """a / n, each in two doubles, to 100 bits."""
    cdef double q = a[0] / n[0]
    cdef double rest = (fma(-q, n[0], a[0]) - q * n[1] + a[1]) / n[0]
    hi[0] = q + rest
    lo[0] = rest - (hi[0] - q)


cdef double exact_less(const double *s, const double *a, const double *b, const double *n) noexcept nogil:
    """S - a b / n, each in two doubles, to 100 bits of S: a sum of products about the means."""
    cdef double hi, lo, p, rest, sum, back
    exact_divide(a, n, &hi, &lo)
    p = hi * b[0]
    rest = fma(hi, b[0], -p) + (hi * b[1] + lo * b[0])
    sum = s[0] - p
    back = sum - s[0]
    return sum + ((s[0] - (sum - back)) - (p + back) + (s[1] - rest))


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

    def grow(self, Py_ssize_t features):
        """Make room for features; what is new is 0."""
        cdef Py_ssize_t cells = 1 + (2 * features * (features + 1) if self.pairs else 3 * features), room
        if features < self.features or features > 1 << 24:
            raise ValueError(f"{features} features")
        if cells > self.room:
            room = max(cells, self.room + (0 if self.pairs else self.room // 2))
            self.limbs = <int64_t *> grown(self.limbs, room * self.width * sizeof(int64_t))
            self.room = room
        if cells > self.cells:
            memset(self.limbs + self.cells * self.width, 0, (cells - self.cells) * self.width * sizeof(int64_t))
        self.cells = cells
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
        self.waiting += 4 * rows
        if self.waiting > EXACT_LATER:
            for r in range(self.cells):
                exact_carry(self.limbs + r * self.width, self.width)
            self.waiting = 4 * rows
        return 0

    def add(self, X, labels, int64_t k, weights, double sign=1.0):
        """Add the rows of X that belong to class k; take them away with sign -1.

        Parameters
        ----------
        X
            float64, shape (n, d): finite, at most 1e100; NaN where a value is missing.
        labels, k
            int64, shape (n,): the class of each row; and the one to add.
        weights
            float64, shape (n,): finite, at most 1e100.
        """
        cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], r
        cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
        cdef int64_t *label = <int64_t *> cnp.PyArray_DATA(checked(labels, cnp.NPY_INT64, rows, "labels"))
        cdef double *w = <double *> cnp.PyArray_DATA(checked(weights, cnp.NPY_FLOAT64, rows, "weights"))
        if rows > 1 << 26:
            raise ValueError(f"{rows} rows; at most {1 << 26} at a time")
        self.prepare(x, label, k, w, rows, columns)
        with nogil:
            for r in range(rows):
                if label[r] == k and w[r] != 0:
                    exact_add(self.limbs, self.low, sign * w[r])
                    if self.pairs:
                        self.add_pairs(x + r * columns, columns, sign * w[r])
                    else:
                        self.add_squares(x + r * columns, columns, sign * w[r])

    def add_cells(self, values, double sign=1.0):
        """Add numbers to all cells, in their order: what was summed elsewhere without rounding."""
        cdef Py_ssize_t i
        cdef double *v = <double *> cnp.PyArray_DATA(checked(values, cnp.NPY_FLOAT64, self.cells, "values"))
        cdef int64_t low = 4096, high = -4096
        for i in range(self.cells):
            if v[i] != 0:
                low, high = min(low, exact_lowest(v[i])), max(high, exact_highest(v[i]))
        self.widen(low, high)
        self.waiting += 1
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

    cdef void plus(self, Py_ssize_t ours, ExactSums other, Py_ssize_t theirs) noexcept nogil:
        cdef int64_t *target = self.limbs + ours * self.width
        cdef int64_t *source = other.limbs + theirs * other.width
        cdef Py_ssize_t i
        exact_carry(source, other.width)
        exact_carry(target, self.width)
        for i in range(other.width):
            target[i + other.low - self.low] += source[i]
        exact_carry(target, self.width)

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        cdef double hi, lo
        exact_read(self.limbs, self.low, self.width, &hi, &lo)
        return hi

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
        cdef double[6] s
        cdef double rest
        if self.pairs:
            raise ValueError("these are sums of pairs")
        for j in range(self.features):
            exact_read(cell, self.low, self.width, &s[0], &s[1])
            exact_read(cell + self.width, self.low, self.width, &s[2], &s[3])
            exact_read(cell + 2 * self.width, self.low, self.width, &s[4], &s[5])
            cell += 3 * self.width
            n[j] = s[0]
            mean[j] = NAN
            if s[0] != 0:
                exact_divide(&s[2], &s[0], &mean[j], &rest)
            squares[j] = exact_less(&s[4], &s[2], &s[2], &s[0]) if s[0] != 0 else s[4]
        return out

    def products(self):
        """Of each pair the sum of weights and the sum of products about the means: float64, (2, d, d).

        Means are those over the examples that have both.
        """
        cdef Py_ssize_t i, j, d = self.features
        cdef cnp.ndarray out = new_matrix(2 * d, d, cnp.NPY_FLOAT64)
        cdef double *n = <double *> cnp.PyArray_DATA(out)
        cdef double *about = n + d * d
        cdef int64_t *cell = self.limbs + self.width
        cdef double[8] s
        if not self.pairs:
            raise ValueError("these are not sums of pairs")
        for j in range(d):
            for i in range(j + 1):
                exact_read(cell, self.low, self.width, &s[0], &s[1])
                exact_read(cell + self.width, self.low, self.width, &s[2], &s[3])
                exact_read(cell + 2 * self.width, self.low, self.width, &s[4], &s[5])
                exact_read(cell + 3 * self.width, self.low, self.width, &s[6], &s[7])
                cell += 4 * self.width
                n[i * d + j] = s[0]
                about[i * d + j] = exact_less(&s[6], &s[2], &s[4], &s[0]) if s[0] != 0 else s[6]
                n[j * d + i] = n[i * d + j]
                about[j * d + i] = about[i * d + j]
        return out.reshape(2, d, d)

    def means(self):
        """Mean of each feature, of pairs: float64, (d,); NaN where nothing is known."""
        cdef cnp.ndarray out = new_array(self.features, cnp.NPY_FLOAT64)
        cdef double *mean = <double *> cnp.PyArray_DATA(out)
        cdef Py_ssize_t j
        cdef int64_t *cell
        cdef double[4] s
        cdef double rest
        if not self.pairs:
            raise ValueError("these are not sums of pairs")
        for j in range(self.features):
            cell = self.limbs + (1 + 4 * (j * (j + 1) // 2 + j)) * self.width
            exact_read(cell, self.low, self.width, &s[0], &s[1])
            exact_read(cell + self.width, self.low, self.width, &s[2], &s[3])
            mean[j] = NAN
            if s[0] != 0:
                exact_divide(&s[2], &s[0], &mean[j], &rest)
        return out

    def arrays(self):
        """The sums as they can be kept: the number of the lowest limb, and int64 limbs, shape (cells, width).

        Equal sums give equal arrays, whatever they have been through.
        """
        cdef Py_ssize_t i
        cdef cnp.ndarray copy
        for i in range(self.cells):
            exact_carry(self.limbs + i * self.width, self.width)
        copy = new_matrix(self.cells, self.width, cnp.NPY_INT64)
        memcpy(cnp.PyArray_DATA(copy), self.limbs, self.cells * self.width * sizeof(int64_t))
        limbs, low = copy, self.low
        while limbs.shape[1] > 1 and not limbs[:, 0].any():
            limbs, low = limbs[:, 1:], low + 1
        while limbs.shape[1] > 1 and ((limbs[:, -1] == 0) | (limbs[:, -1] == -1)).all():
            limbs = np.column_stack((limbs[:, :-2], limbs[:, -2] + (limbs[:, -1] << 32)))
        if limbs.shape[1] == 1 and not limbs.any():
            low = EXACT_BASE // 32
        return low, np.ascontiguousarray(limbs)

    def load(self, Py_ssize_t features, Py_ssize_t low, limbs):
        """Take over what `arrays` gave; ValueError where it is none."""
        cdef Py_ssize_t cells = 1 + (2 * features * (features + 1) if self.pairs else 3 * features), width, i
        cdef cnp.ndarray values
        if self.features or features < 0 or features > 1 << 24 or limbs.ndim != 2 or limbs.shape[0] != cells:
            raise ValueError("the sums are damaged: their number is wrong")
        width = limbs.shape[1]
        if not 1 <= width <= EXACT_LIMBS or not 0 <= low <= EXACT_LIMBS - width:
            raise ValueError("the sums are damaged: their size is wrong")
        if (np.abs(limbs[:, :-1] - (1 << 31)) > 1 << 31).any() or (np.abs(limbs[:, -1]) > 1 << 61).any():
            raise ValueError("the sums are damaged: a digit is too large")
        values = checked(np.ascontiguousarray(limbs, dtype=np.int64), cnp.NPY_INT64, cells * width, "limbs")
        free(self.limbs)
        self.limbs = NULL
        self.room = 0
        self.cells = 0
        self.low, self.width = low, width
        self.grow(features)
        memcpy(self.limbs, cnp.PyArray_DATA(values), cells * width * sizeof(int64_t))
        for i in range(self.cells):
            exact_carry(self.limbs + i * self.width, self.width)

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


def normal_parameters(sums, int ddof, double relative, double epsilon):
    """What `gaussian_rows` wants to know of classes, from the sums of each.

    A variance is the sum of squares about the mean, divided by the weight less ddof. To it `relative` times
    the largest variance (ddof 0) over all classes is added, and `epsilon` to its root. A class that has no
    value of a feature takes mean and variance of all classes together, so that it says nothing.

    Parameters
    ----------
    sums
        K `ExactSums` of the same features.
    ddof, relative, epsilon
        As said.

    Returns
    -------
    Means, 1 / (2 variance) and -log(2 pi variance) / 2: float64, shape (K, d).
    """
    cdef Py_ssize_t classes = len(sums), columns = len(sums[0]) if sums else 0, k, j
    cdef cnp.ndarray means = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray halves = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray constants = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef double *mean = <double *> cnp.PyArray_DATA(means)
    cdef double *half = <double *> cnp.PyArray_DATA(halves)
    cdef double *constant = <double *> cnp.PyArray_DATA(constants)
    cdef double *whole
    cdef double *mine
    cdef double largest = 0.0, variance
    cdef ExactSums total = ExactSums()
    cdef cnp.ndarray every, one
    total.grow(columns)
    for one_sums in sums:
        total.merge(one_sums)
    every = total.moments()
    whole = <double *> cnp.PyArray_DATA(every)
    for j in range(columns):
        if whole[j] > 0:
            largest = max(largest, whole[2 * columns + j] / whole[j])
    for k in range(classes):
        one = sums[k].moments()
        for j in range(columns):
            mine = <double *> cnp.PyArray_DATA(one)
            if not mine[j] > 0:
                mine = whole
            mean[k * columns + j] = mine[columns + j]
            variance = mine[2 * columns + j] / (mine[j] - ddof) if mine[j] > ddof else 0.0
            variance = max(variance, 0.0) + relative * largest
            if epsilon > 0:
                variance = sqrt(variance) + epsilon
                variance *= variance
            variance = max(variance, SMALLEST_VARIANCE)
            half[k * columns + j] = 1 / (2 * variance)
            constant[k * columns + j] = -0.5 * snb_log(6.283185307179586 * variance)
    return means, halves, constants


def gaussian_rows(X, means, halves, constants):
    """Log densities of independent normal distributions, summed over the features of each row.

    Parameters
    ----------
    X
        float64, shape (n, d); NaN takes no part.
    means, halves, constants
        float64, shape (K, d): mean, 1 / (2 variance) and -log(2 pi variance) / 2; a feature whose mean is
        NaN takes no part.

    Returns
    -------
    float64, shape (n, K); each sum does not depend on the order of the features.
    """
    cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], classes = means.shape[0], r, j, k
    cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
    cdef double *m = <double *> cnp.PyArray_DATA(checked(means, cnp.NPY_FLOAT64, classes * columns, "means"))
    cdef double *h = <double *> cnp.PyArray_DATA(checked(halves, cnp.NPY_FLOAT64, classes * columns, "halves"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(constants, cnp.NPY_FLOAT64, classes * columns, "constants"))
    cdef cnp.ndarray out = new_matrix(rows, classes, cnp.NPY_FLOAT64)
    cdef double *score = <double *> cnp.PyArray_DATA(out)
    cdef double hi, lo, away
    with nogil:
        for r in range(rows):
            for k in range(classes):
                hi = 0.0
                lo = 0.0
                for j in range(columns):
                    away = x[r * columns + j] - m[k * columns + j]
                    if away == away:
                        snb_accumulate(&hi, &lo, c[k * columns + j] - away * away * h[k * columns + j])
                score[r * classes + k] = hi + lo if fabs(hi) < INFINITY else -INFINITY
    return out
