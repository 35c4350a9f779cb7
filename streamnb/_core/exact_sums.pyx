# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Exact sums over the examples of one class (the representation: limbs.pxd), and normal densities."""

from operator import index

import numpy as np

cimport numpy as cnp
from libc.math cimport INFINITY, NAN, fabs, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from streamnb._core.arrays cimport checked, grown, new_array, new_matrix
from streamnb._core.limbs cimport (
    EXACT_BASE, EXACT_LATER, EXACT_LIMBS, exact_about, exact_add, exact_carry, exact_divide, exact_highest,
    exact_lowest, exact_product, exact_read, exact_weighted,
)
from streamnb._core.logs cimport snb_accumulate, snb_log

cnp.import_array()

cdef enum:
    EXACT_FEATURES = 1 << 24
    EXACT_PAIRED = 1 << 12  # 1.3 GB per class

MAX_PAIRED_FEATURES = EXACT_PAIRED


cdef class ExactSums:
    """Exact sums of weights, values and products over the examples of one class.

    Cell 0 is the sum of all weights w. Without `pairs`, each feature has three cells: the sums of w, w x and w x^2.
    With `pairs`, feature j has four cells for each i <= j: the sums of w, w x_i, w x_j and w x_i x_j over the examples
    with both values.
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
        """Return the number of cells for a number of features; 0 if there are too many features."""
        if not 0 <= features <= (EXACT_PAIRED if self.pairs else EXACT_FEATURES):
            return 0
        return 1 + (2 * features * (features + 1) if self.pairs else 3 * features)

    def grow(self, Py_ssize_t features):
        """Add features with zero sums, up to the given number."""
        cdef Py_ssize_t cells = self.cells_of(features), room
        if features < self.features or not cells:
            raise ValueError(f"grow: cannot have {features} features")
        if cells > self.room:
            room = max(cells, self.room + (0 if self.pairs else self.room // 2))
            self.limbs = <int64_t *> grown(self.limbs, room * self.width * sizeof(int64_t))
            self.room = room
        if cells > self.cells:
            memset(self.limbs + self.cells * self.width, 0, (cells - self.cells) * self.width * sizeof(int64_t))
        self.cells = cells
        self.features = features

    def cut(self, Py_ssize_t features):
        """Remove the last features; their sums must be zero."""
        if not 0 <= features <= self.features:
            raise ValueError(f"cut: cannot have {features} features")
        self.cells = self.cells_of(features)
        self.features = features

    cdef int widen(self, int64_t lowest, int64_t highest) except -1:
        """Allocate limbs for numbers with bits from `lowest` to below `highest`, and two more for their sums."""
        cdef Py_ssize_t low = max(lowest + EXACT_BASE, 0) >> 5
        if lowest < highest:
            self.cover(low, max(low + 5, ((highest + EXACT_BASE) >> 5) + 3))
        return 0

    cdef int cover(self, Py_ssize_t low, Py_ssize_t top) except -1:
        """Allocate the limbs from `low` to below `top`."""
        cdef Py_ssize_t width, i, shift
        cdef int64_t *limbs
        low = min(low, self.low)
        top = max(top, self.low + self.width)
        width = top - low
        shift = self.low - low
        if width == self.width:
            return 0
        if top > EXACT_LIMBS:
            raise OverflowError("a number is too large for exact sums")
        limbs = <int64_t *> calloc(max(self.room, 1) * width, sizeof(int64_t))
        if limbs == NULL:
            raise MemoryError(f"out of memory: cannot allocate {self.room * width} limbs")
        for i in range(self.cells):
            exact_carry(self.limbs + i * self.width, self.width)
            memcpy(limbs + i * width + shift, self.limbs + i * self.width, self.width * sizeof(int64_t))
            exact_carry(limbs + i * width + shift + self.width - 1, width - shift - self.width + 1)
        free(self.limbs)
        self.limbs, self.low, self.width = limbs, low, width
        return 0

    cdef int prepare(self, const double *x, const int64_t *label, int64_t k, const double *w, Py_ssize_t rows,
                     Py_ssize_t columns) except -1:
        """Allocate the limbs for these examples; carry if necessary."""
        cdef int64_t low_w = 4096, high_w = -4096, low_x = 4096, high_x = -4096, v
        cdef Py_ssize_t r, j
        if columns > self.features:
            raise ValueError(f"X has {columns} columns, but there are {self.features} features")
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
        """Carry, unless the given number of additions fits without it."""
        self.waiting += additions
        if self.waiting > EXACT_LATER:
            self.carry()
            self.waiting = additions

    cdef void carry(self) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.cells):
            exact_carry(self.limbs + i * self.width, self.width)

    def add(self, X, labels, int64_t k, weights, double sign=1.0):
        """Add the rows of X of class k; subtract them if the sign is -1.

        Parameters
        ----------
        X
            float64, shape (n, d): finite, at most 1e100; NaN for a missing value.
        labels, k
            Class of each row, int64, shape (n,); the class to add.
        weights
            float64, shape (n,): 0, or from 1e-100 to 1e100.
        """
        cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], r
        cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
        cdef int64_t *label = <int64_t *> cnp.PyArray_DATA(checked(labels, cnp.NPY_INT64, rows, "labels"))
        cdef double *w = <double *> cnp.PyArray_DATA(checked(weights, cnp.NPY_FLOAT64, rows, "weights"))
        if rows > 1 << 26:
            raise ValueError(f"{rows} rows: at most {1 << 26} can be added at a time")
        self.prepare(x, label, k, w, rows, columns)
        for r in range(rows):  # hold the interpreter's lock: another thread may grow these sums
            if label[r] == k and w[r] != 0:
                exact_add(self.limbs, self.low, sign * w[r])
                if self.pairs:
                    self.add_pairs(x + r * columns, columns, sign * w[r])
                else:
                    self.add_squares(x + r * columns, columns, sign * w[r])

    def add_cells(self, values, double sign=1.0):
        """Add one number to each cell: sums that were computed elsewhere without rounding."""
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

    def merge(self, ExactSums other, feature_map=None):
        """Add other sums; feature_map[j] is the index here of their feature j (None: j)."""
        cdef Py_ssize_t i, j, a, b, other_cell, self_cell
        cdef list target = list(range(other.features)) if feature_map is None else [index(j) for j in feature_map]
        if other.pairs != self.pairs or len(target) != other.features:
            raise ValueError("merge: the sums have other features or no pairs")
        if any(not 0 <= j < self.features for j in target) or len(set(target)) != len(target):
            raise IndexError(f"feature_map must have distinct indices below {self.features}")
        self.cover(other.low, other.low + other.width)
        self.carry()
        other.carry()
        if self.is_full() or other.is_full():
            self.cover(self.low, self.low + self.width + 1)
        self.add_cell(0, other, 0)
        if not self.pairs:
            for j in range(other.features):
                for i in range(3):
                    self.add_cell(1 + 3 * <Py_ssize_t> target[j] + i, other, 1 + 3 * j + i)
            return
        other_cell = 1
        for j in range(other.features):
            for i in range(j + 1):
                a, b = min(target[i], target[j]), max(target[i], target[j])
                self_cell = 1 + 4 * (b * (b + 1) // 2 + a)
                self.add_cell(self_cell, other, other_cell)
                self.add_cell(self_cell + (1 if target[i] <= target[j] else 2), other, other_cell + 1)
                self.add_cell(self_cell + (2 if target[i] <= target[j] else 1), other, other_cell + 2)
                self.add_cell(self_cell + 3, other, other_cell + 3)
                other_cell += 4

    cdef bint is_full(self) noexcept nogil:
        """Return True if the highest limb could overflow when a sum of the same size is added."""
        cdef Py_ssize_t i
        for i in range(self.cells):
            if not -(1LL << 60) < self.limbs[(i + 1) * self.width - 1] < 1LL << 60:
                return True
        return False

    cdef void add_cell(self, Py_ssize_t self_cell, ExactSums other, Py_ssize_t other_cell) noexcept nogil:
        """Add a carried cell of other sums to a carried cell."""
        cdef int64_t *target = self.limbs + self_cell * self.width
        cdef int64_t *source = other.limbs + other_cell * other.width
        cdef Py_ssize_t i
        for i in range(other.width):
            target[i + other.low - self.low] += source[i]
        exact_carry(target, self.width)

    @property
    def weight(self) -> float:
        """The sum of all weights."""
        return self.value(self.limbs)

    def moments(self):
        """Return the weight, mean and sum of squares about the mean of each feature: float64, (3, d).

        The mean of a feature without values is NaN. Raises ValueError for sums of pairs.
        """
        cdef cnp.ndarray out = new_matrix(3, self.features, cnp.NPY_FLOAT64)
        cdef double *n = <double *> cnp.PyArray_DATA(out)
        cdef double *mean = n + self.features
        cdef double *squares = mean + self.features
        cdef Py_ssize_t j
        cdef int64_t *cell = self.limbs + self.width
        if self.pairs:
            raise ValueError("moments: these are sums of pairs; use means and products")
        for j in range(self.features):
            self.mean(cell, &n[j], &mean[j])
            squares[j] = exact_about(
                cell + 2 * self.width, cell + self.width, cell + self.width, cell, self.low, self.width)
            cell += 3 * self.width
        return out

    cdef void mean(self, const int64_t *cell, double *n, double *mean) noexcept nogil:
        """Set the weight from a cell, and the mean from the sum in the next cell."""
        cdef double[4] s
        cdef double error
        exact_read(cell, self.low, self.width, &s[0], &s[1])
        exact_read(cell + self.width, self.low, self.width, &s[2], &s[3])
        n[0] = s[0]
        mean[0] = NAN
        if s[0] != 0:
            exact_divide(&s[2], &s[0], mean, &error)

    def possible(self):
        """Return False if no examples have these sums, as in a damaged file."""
        cdef Py_ssize_t i, j
        cdef int64_t *cell = self.limbs + self.width
        cdef double total = self.weight
        if total < 0:
            return False
        if not self.pairs:
            for j in range(self.features):
                if not self.holds(cell, cell + self.width, cell + self.width, cell + 2 * self.width, total, True):
                    return False
                cell += 3 * self.width
            return True
        for j in range(self.features):
            for i in range(j + 1):
                if not self.holds(
                    cell, cell + self.width, cell + 2 * self.width, cell + 3 * self.width,
                    min(self.value(self.own(i)), self.value(self.own(j))) if i < j else total, i == j,
                ):
                    return False
                cell += 4 * self.width
        return True

    cdef int64_t *own(self, Py_ssize_t j) noexcept nogil:
        """Return the first cell of the pair of a feature with itself."""
        return self.limbs + (1 + 4 * (j * (j + 1) // 2 + j)) * self.width

    cdef double value(self, const int64_t *cell) noexcept nogil:
        cdef double hi, lo
        exact_read(cell, self.low, self.width, &hi, &lo)
        return hi

    cdef bint holds(self, const int64_t *n, const int64_t *a, const int64_t *b, const int64_t *s,
                    double max_weight, bint squares) noexcept nogil:
        """Return True if the weight is within 0 to `max_weight`, squares are >= 0, and sums of weight 0 are 0."""
        cdef double weight = self.value(n)
        if not 0 <= weight <= max_weight:
            return False
        if weight == 0:
            return self.value(a) == 0 and self.value(b) == 0 and self.value(s) == 0
        # At most 2^40 squares lost their bits below 2^-640.
        return not squares or exact_about(s, a, b, n, self.low, self.width) >= -1e-25 * fabs(self.value(s)) - 1e-180

    def products(self):
        """Return the weights of all pairs and their sums of products about the means: float64, (2, d, d).

        Each mean is over the examples with both values.
        """
        cdef Py_ssize_t i, j, d = self.features
        cdef cnp.ndarray out = new_matrix(2 * d, d, cnp.NPY_FLOAT64)
        cdef double *n = <double *> cnp.PyArray_DATA(out)
        cdef double *about = n + d * d
        cdef int64_t *cell = self.limbs + self.width
        if not self.pairs:
            raise ValueError("these are no sums of pairs; use moments")
        for j in range(d):
            for i in range(j + 1):
                n[i * d + j] = n[j * d + i] = self.value(cell)
                about[i * d + j] = about[j * d + i] = exact_about(
                    cell + 3 * self.width, cell + self.width, cell + 2 * self.width, cell, self.low, self.width)
                cell += 4 * self.width
        return out.reshape(2, d, d)

    def means(self):
        """Return the mean of each feature from sums of pairs: float64, (d,); NaN for one without values."""
        cdef cnp.ndarray out = new_array(self.features, cnp.NPY_FLOAT64)
        cdef double *mean = <double *> cnp.PyArray_DATA(out)
        cdef Py_ssize_t j
        cdef double n
        if not self.pairs:
            raise ValueError("these are no sums of pairs; use moments")
        for j in range(self.features):
            self.mean(self.own(j), &n, &mean[j])
        return out

    def arrays(self):
        """Return the index of the lowest limb, and the limbs, int64, shape (cells, width), for a file.

        Equal sums give equal arrays.
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
        """Set the sums from the result of `arrays`; raise ValueError if it is damaged."""
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
        """Return an independent copy."""
        duplicate = ExactSums(self.pairs)
        duplicate.load(self.features, *self.arrays())
        return duplicate

    def __eq__(self, other):
        if not isinstance(other, ExactSums):
            return NotImplemented
        (low, limbs), (other_low, other_limbs) = self.arrays(), other.arrays()
        return low == other_low and limbs.shape == other_limbs.shape and bool((limbs == other_limbs).all())

    __hash__ = None

    def __reduce__(self):
        return ExactSums, (), self.__getstate__()

    def __getstate__(self):  # skops calls it instead of __reduce__
        return self.pairs, self.features, *self.arrays()

    def __setstate__(self, state):
        self.pairs, features, low, limbs = state
        self.load(features, low, limbs)


cdef double SMALLEST_VARIANCE = 1e-200  # minimum: without smoothing, equal values have variance 0


def normal_parameters(sums, int ddof, double relative, double epsilon):
    """Return the parameters of `gaussian_rows` from the sums of each class.

    The variance is the sum of squares about the mean, divided by weight - ddof. `relative` times the largest variance
    over all classes (ddof 0) is added to it, and `epsilon` to its root. A class without values of a feature gets the
    mean and variance over all classes.

    Parameters
    ----------
    sums
        K `ExactSums` of the same features.
    ddof, relative, epsilon
        Degrees of freedom to subtract, relative smoothing, and absolute smoothing.

    Returns
    -------
    Means, 1 / (2 variance) and -log(2 pi variance) / 2; float64, shape (K, d).
    """
    cdef Py_ssize_t classes = len(sums), columns = len(sums[0]) if sums else 0, k, j
    cdef cnp.ndarray means = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray halves = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef cnp.ndarray constants = new_matrix(classes, columns, cnp.NPY_FLOAT64)
    cdef double *mean = <double *> cnp.PyArray_DATA(means)
    cdef double *half = <double *> cnp.PyArray_DATA(halves)
    cdef double *constant = <double *> cnp.PyArray_DATA(constants)
    cdef double *pooled
    cdef double *moments
    cdef double largest = 0.0, variance
    cdef ExactSums total = ExactSums()
    cdef cnp.ndarray total_moments, class_moments
    if any(len(class_sums) != columns for class_sums in sums):
        raise ValueError("the sums of classes differ in their number of features")
    total.grow(columns)
    for class_sums in sums:
        total.merge(class_sums)
    total_moments = total.moments()
    pooled = <double *> cnp.PyArray_DATA(total_moments)
    for j in range(columns):
        if pooled[j] > 0:
            largest = max(largest, pooled[2 * columns + j] / pooled[j])
    for k in range(classes):
        class_moments = sums[k].moments()
        for j in range(columns):
            moments = <double *> cnp.PyArray_DATA(class_moments)
            if not moments[j] > 0:
                moments = pooled
            mean[k * columns + j] = moments[columns + j]
            variance = moments[2 * columns + j] / (moments[j] - ddof) if moments[j] > ddof else 0.0
            variance = max(variance, 0.0) + relative * largest
            if epsilon > 0:
                variance = sqrt(variance) + epsilon
                variance *= variance
            variance = max(variance, SMALLEST_VARIANCE)
            half[k * columns + j] = 1 / (2 * variance)
            constant[k * columns + j] = -0.5 * snb_log(6.283185307179586 * variance)
    return means, halves, constants


def gaussian_rows(X, means, halves, constants):
    """Return the log densities of independent normal distributions, summed over features.

    Parameters
    ----------
    X
        float64, shape (n, d); NaN values are skipped.
    means, halves, constants
        float64, shape (K, d): mean, 1 / (2 variance) and -log(2 pi variance) / 2. A feature with mean NaN is skipped.

    Returns
    -------
    float64, shape (n, K); independent of the order of the features.
    """
    cdef Py_ssize_t rows = X.shape[0], columns = X.shape[1], classes = means.shape[0], r, j, k
    cdef double *x = <double *> cnp.PyArray_DATA(checked(X, cnp.NPY_FLOAT64, rows * columns, "X"))
    cdef double *m = <double *> cnp.PyArray_DATA(checked(means, cnp.NPY_FLOAT64, classes * columns, "means"))
    cdef double *h = <double *> cnp.PyArray_DATA(checked(halves, cnp.NPY_FLOAT64, classes * columns, "halves"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(constants, cnp.NPY_FLOAT64, classes * columns, "constants"))
    cdef cnp.ndarray out = new_matrix(rows, classes, cnp.NPY_FLOAT64)
    cdef double *score = <double *> cnp.PyArray_DATA(out)
    cdef double hi, lo, deviation
    with nogil:
        for r in range(rows):
            for k in range(classes):
                hi = 0.0
                lo = 0.0
                for j in range(columns):
                    deviation = x[r * columns + j] - m[k * columns + j]
                    if deviation == deviation:
                        snb_accumulate(&hi, &lo, c[k * columns + j] - deviation * deviation * h[k * columns + j])
                score[r * classes + k] = hi + lo if fabs(hi) < INFINITY else -INFINITY
    return out
