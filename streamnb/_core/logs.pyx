# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Logarithms, sums of logarithms and powers of e, bit-identical on every machine."""

import array

import numpy as np

cimport numpy as cnp
from cpython cimport array
from libc.math cimport NAN, fabs, sqrt
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from streamnb._core.arrays cimport LARGEST_COUNT, checked, grown, new_array, new_matrix
from streamnb._core.table cimport DENSE

cnp.import_array()

cdef array.array DOUBLES = array.array("d")


cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
    #define SNB_WIDE __attribute__((target_clones("avx2", "default")))
    #else
    #define SNB_WIDE
    #endif

    /* log(max(x, 0) + alpha) of many x, bit-identical to snb_log. Without branches, so compilers
       vectorise it. Zeros and subnormal numbers, if any, are corrected afterwards. */
    SNB_WIDE static void snb_logs(const double *__restrict__ x, double alpha, double *__restrict__ out, ptrdiff_t n) {
        ptrdiff_t i;
        int64_t has_tiny = 0;
        for (i = 0; i < n; i++) {
            double v = (x[i] > 0 ? x[i] : 0.0) + alpha, m, f, s, z, r, k, exponent, bias;
            int64_t bits, mantissa, word, high;
            memcpy(&bits, &v, 8);
            mantissa = bits & 0x000fffffffffffffLL;
            word = (int64_t)((uint64_t)bits >> 52) | 0x4330000000000000LL;    /* as a double: 2^52 + exponent */
            memcpy(&exponent, &word, 8);
            high = -(int64_t)(mantissa > 0x6a09e667f3bcdLL);
            bits = (mantissa | 0x3ff0000000000000LL) - (high & 0x0010000000000000LL);
            memcpy(&m, &bits, 8);
            word = 0x408ff80000000000LL - (high & 0x0000080000000000LL);      /* 1023.0, or 1022.0 */
            memcpy(&bias, &word, 8);
            k = (exponent - 4503599627370496.0) - bias;
            f = m - 1.0; s = f / (2.0 + f); z = s * s;
            r = z * (2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 +
                z * (2.0 / 13 + z * (2.0 / 15 + z * (2.0 / 17 + z * (2.0 / 19 + z * (2.0 / 21))))))))));
            out[i] = k * 6.93147180369123816490e-01 - ((s * (f - r) - k * 1.90821492927058770002e-10) - f);
            has_tiny |= -(int64_t)!(v >= 2.2250738585072014e-308);
        }
        for (i = 0; has_tiny && i < n; i++) {
            double v = (x[i] > 0 ? x[i] : 0.0) + alpha;
            if (!(v >= 2.2250738585072014e-308)) out[i] = v > 0 ? snb_log(v) : -(double)INFINITY;
        }
    }

    /* Add amounts[i] * (logs[i, j] - less[j]) to hi[j] + lo[j], for each row i and cell j, as
       snb_accumulate does. With a constant `cells` the sums stay in registers. */
    __attribute__((always_inline)) static inline void snb_add_rows_of(
        const double *__restrict__ logs, const double *__restrict__ amounts, const double *__restrict__ less,
        double *__restrict__ hi, double *__restrict__ lo, ptrdiff_t rows, const ptrdiff_t cells
    ) {
        ptrdiff_t i, j;
        for (i = 0; i < rows; i++, logs += cells)
            for (j = 0; j < cells; j++) {
                double x = amounts[i] * (logs[j] - less[j]), sum = hi[j] + x, back = sum - hi[j];
                lo[j] += (hi[j] - (sum - back)) + (x - back);
                hi[j] = sum;
            }
    }

    SNB_WIDE static void snb_add_rows(
        const double *__restrict__ logs, const double *__restrict__ amounts, const double *__restrict__ less,
        double *__restrict__ hi, double *__restrict__ lo, ptrdiff_t rows, ptrdiff_t cells
    ) {
        switch (cells) {
            case 2: snb_add_rows_of(logs, amounts, less, hi, lo, rows, 2); break;
            case 4: snb_add_rows_of(logs, amounts, less, hi, lo, rows, 4); break;
            case 8: snb_add_rows_of(logs, amounts, less, hi, lo, rows, 8); break;
            default: snb_add_rows_of(logs, amounts, less, hi, lo, rows, cells);
        }
    }

    /* For each row of counts and each alpha: alpha + each count or, with `complement`, + the sum of
       the other counts. With constant `alphas_n` and `width` the loops are unrolled. */
    __attribute__((always_inline)) static inline void snb_smooth_rows_of(
        const double *__restrict__ numbers, const double *__restrict__ alphas, double *__restrict__ cells,
        ptrdiff_t rows, const ptrdiff_t alphas_n, const ptrdiff_t width, const int complement
    ) {
        ptrdiff_t i, s, k;
        for (i = 0; i < rows; i++, numbers += width) {
            double total = 0;
            for (k = 0; k < width; k++) total += numbers[k];
            for (s = 0; s < alphas_n; s++, cells += width) {
                double alpha = alphas[s];
                for (k = 0; k < width; k++) {
                    double others = total - numbers[k];
                    cells[k] = alpha + (complement ? (others > 0 ? others : 0.0) : numbers[k]);
                }
            }
        }
    }

    SNB_WIDE static void snb_smooth_rows(
        const double *__restrict__ numbers, const double *__restrict__ alphas, double *__restrict__ cells,
        ptrdiff_t rows, ptrdiff_t alphas_n, ptrdiff_t width, int complement
    ) {
        if (complement) snb_smooth_rows_of(numbers, alphas, cells, rows, alphas_n, width, 1);
        else if (alphas_n == 4 && width == 2) snb_smooth_rows_of(numbers, alphas, cells, rows, 4, 2, 0);
        else if (alphas_n == 4 && width == 1) snb_smooth_rows_of(numbers, alphas, cells, rows, 4, 1, 0);
        else snb_smooth_rows_of(numbers, alphas, cells, rows, alphas_n, width, 0);
    }

    /* Add entries of rows to hi[k][s] + lo[k][s], for the class k of each entry and each alpha s. The entry
       with k = width begins a row: its logarithms are the base of the row's other entries, and are added to
       hi[width]. The amounts are added to hi[width + 1][0]. */
    __attribute__((always_inline)) static inline void snb_add_entries_of(
        const uint32_t *columns, const double *amounts, const double *logs, double *__restrict__ base,
        double *amount, double *__restrict__ hi, double *__restrict__ lo, ptrdiff_t entries, ptrdiff_t width,
        const ptrdiff_t alphas_n
    ) {
        ptrdiff_t i, s;
        for (i = 0; i < entries; i++, logs += alphas_n) {
            double *high = hi + columns[i] * alphas_n, *low = lo + columns[i] * alphas_n;
            if (columns[i] == width) {
                *amount = amounts[i];
                snb_accumulate(&hi[(width + 1) * alphas_n], &lo[(width + 1) * alphas_n], *amount);
                for (s = 0; s < alphas_n; s++) {
                    base[s] = logs[s];
                    snb_accumulate(&high[s], &low[s], *amount * logs[s]);
                }
            } else
                for (s = 0; s < alphas_n; s++) snb_accumulate(&high[s], &low[s], *amount * (logs[s] - base[s]));
        }
    }

    SNB_WIDE static void snb_add_entries(
        const uint32_t *columns, const double *amounts, const double *logs, double *base, double *amount,
        double *hi, double *lo, ptrdiff_t entries, ptrdiff_t width, ptrdiff_t alphas_n
    ) {
        if (alphas_n == 4) snb_add_entries_of(columns, amounts, logs, base, amount, hi, lo, entries, width, 4);
        else snb_add_entries_of(columns, amounts, logs, base, amount, hi, lo, entries, width, alphas_n);
    }
    """
    void snb_logs(const double *x, double alpha, double *out, Py_ssize_t n) noexcept nogil
    void snb_add_rows(
        const double *logs, const double *amounts, const double *less, double *hi, double *lo, Py_ssize_t rows,
        Py_ssize_t cells,
    ) noexcept nogil
    void snb_smooth_rows(
        const double *numbers, const double *alphas, double *cells, Py_ssize_t rows,
        Py_ssize_t alphas_n, Py_ssize_t width, bint complement,
    ) noexcept nogil
    void snb_add_entries(
        const uint32_t *columns, const double *amounts, const double *logs, double *base, double *amount,
        double *hi, double *lo, Py_ssize_t entries, Py_ssize_t width, Py_ssize_t alphas_n,
    ) noexcept nogil


def log(double x) -> float:
    """Return the natural logarithm of x >= 0, bit-identical on every machine; -inf for 0."""
    if not 0 <= x < 1.7976931348623157e308:
        raise ValueError(f"log: {x} is not a finite number >= 0")
    return snb_log(x) if x > 0 else -np.inf


def exp(double x) -> float:
    """Return e to the power of x, bit-identical on every machine; inf on overflow."""
    return snb_exp(x)


cpdef double length_divisor(double length_norm, Py_ssize_t used, double power) except *:
    """Return the divisor of the log-likelihoods of `used` features: length_norm times a power of their number.

    Return 1 if `length_norm` or `used` is 0.
    """
    if length_norm == 0 or used == 0:
        return 1.0
    return length_norm * (sqrt(used) if power == 0.5 else snb_exp(power * snb_log(used)))


def log_cells(cells, double alpha=0.0, less=None):
    """Return log(cells + alpha) elementwise; float64 of any shape.

    `less` has one number per column, which is subtracted.
    """
    cdef Py_ssize_t i, k, n = cells.size, width = 0 if less is None else len(less)
    cdef double *v = <double *> cnp.PyArray_DATA(checked(cells, cnp.NPY_FLOAT64, n, "cells"))
    cdef cnp.ndarray source = cells
    cdef cnp.ndarray out = cnp.PyArray_EMPTY(source.ndim, source.shape, cnp.NPY_FLOAT64, 0)
    cdef double *target = <double *> cnp.PyArray_DATA(out)
    cdef double minus
    snb_logs(v, alpha, target, n)
    if less is None:
        return out
    if width == 0 or n % width:
        raise ValueError(f"less: {width} numbers do not fit {n} cells")
    for k in range(width):
        minus = less[k]
        i = k
        while i < n:
            target[i] -= minus
            i += width
    return out


def weighted_sums(counts, values, presence=None):
    """Return the sum of counts[i] * values[i, k] over i, for each column k.

    The result does not depend on the order of the rows, except if 106 bits are too few to round correctly.

    Parameters
    ----------
    counts
        float64, shape (n,): the count of each feature in the message.
    values
        float64, shape (n, K).
    presence
        uint8, shape (n,), or None for all: rows with 0 are skipped.

    Returns
    -------
    The K sums as a list, and the number of rows used.
    """
    cdef Py_ssize_t i, k, n = len(counts), columns = values.shape[1], used = 0
    cdef double *x = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
    cdef double *v = <double *> cnp.PyArray_DATA(checked(values, cnp.NPY_FLOAT64, n * columns, "values"))
    cdef uint8_t *mask = NULL
    cdef double *hi
    cdef double *lo
    if presence is not None:
        mask = <uint8_t *> cnp.PyArray_DATA(checked(presence, cnp.NPY_UINT8, n, "presence"))
    hi = <double *> calloc(2 * columns + 2, sizeof(double))
    if hi == NULL:
        raise MemoryError
    lo = hi + columns
    with nogil:
        for i in range(n):
            if mask == NULL or mask[i]:
                used += 1
                for k in range(columns):
                    snb_accumulate(&hi[k], &lo[k], x[i] * v[i * columns + k])
    sums = [hi[k] + lo[k] for k in range(columns)]
    free(hi)
    return sums, used


cdef class LogSums:
    """Sums of amount * (log(n_k + alpha) - log(N_k + alpha V)) over rows of counts n, for several alphas.

    N_k is the total of class k, V the number of features. With `complement`, n_k and N_k are the counts of all other
    classes, and the sums are negated.

    Rows are collected in a buffer, so many logarithms are computed at a time; the cells of a row's alphas are
    adjacent, so the processor computes their sums in parallel. The sums do not depend on the order of the rows (see
    `weighted_sums`).

    With at most DENSE classes, a row has a count for each. With more, a row is an entry for the logarithm of a count of
    0, which is summed once for all classes, and a correction for each class that has a count.
    """

    def __dealloc__(self):
        free(self.alphas)

    cdef int prepare(
        self, double alpha, list factors, const double *totals, Py_ssize_t width, Py_ssize_t features, bint complement
    ) except -1:
        """Start sums with the totals N of `width` classes, V features, and each of `factors` times alpha."""
        cdef Py_ssize_t s, k, n = len(factors), sums = max(n, 1) * (width + 2)
        cdef double hi = 0, lo = 0
        if n != self.n_alphas or width != self.width:
            self.n_alphas = self.width = 0
            self.alphas = <double *> grown(self.alphas, (2 * n * (1 + HELD) + 3 * sums) * sizeof(double))
            self.base, self.cells, self.logs = self.alphas + n, self.alphas + 2 * n, self.alphas + n * (2 + HELD)
            self.less = self.alphas + 2 * n * (1 + HELD)
            self.hi, self.lo = self.less + sums, self.less + 2 * sums
            self.n_alphas, self.width = n, width
        self.held, self.used, self.complement = 0, 0, complement
        for k in range(width if complement else 0):
            snb_accumulate(&hi, &lo, totals[k])
        for k in range(width):
            self.hi[k] = hi + lo - totals[k] if complement else totals[k]
        for s in range(n):
            self.alphas[s] = alpha * <double> factors[s]
            snb_logs(self.hi, self.alphas[s] * features, self.less + s * width, width)
        memset(self.hi, 0, 2 * sums * sizeof(double))
        return 0

    cdef void add_entries(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil:
        cdef Py_ssize_t i
        cdef double total = 0
        if self.complement:
            for i in range(n):
                total += numbers[i]
        self.add_entry(self.width, total, amount)
        for i in range(n):
            if numbers[i] != 0:
                self.add_entry(
                    i if columns == NULL else columns[i],
                    max(total - numbers[i], 0.0) if self.complement else numbers[i],
                    amount,
                )

    cdef inline void add_entry(self, Py_ssize_t column, double number, double amount) noexcept nogil:
        if self.held == HELD:
            self.flush()
        self.columns[self.held], self.numbers[self.held] = <uint32_t> column, number
        self.amounts[self.held] = amount
        self.held += 1

    cdef void flush(self) noexcept nogil:
        cdef Py_ssize_t n = self.n_alphas, cells = n * self.width
        if self.width <= DENSE:
            snb_smooth_rows(self.numbers, self.alphas, self.cells, self.held, n, self.width, self.complement)
            snb_logs(self.cells, 0.0, self.logs, self.held * cells)
            snb_add_rows(self.logs, self.amounts, self.less, self.hi, self.lo, self.held, cells)
        else:
            snb_smooth_rows(self.numbers, self.alphas, self.cells, self.held, n, 1, False)
            snb_logs(self.cells, 0.0, self.logs, self.held * n)
            snb_add_entries(
                self.columns, self.amounts, self.logs, self.base, &self.amount, self.hi, self.lo, self.held,
                self.width, n,
            )
        self.held = 0

    cdef tuple finish(self, double length_norm, double length_power):
        """Return the sums by alpha and class, divided by `length_divisor`, and the number of rows."""
        cdef Py_ssize_t s, k, n = self.n_alphas, width = self.width
        cdef double divisor = length_divisor(length_norm, self.used, length_power), base, amounts
        cdef array.array grid = array.clone(DOUBLES, n * width, False)
        cdef double *target = grid.data.as_doubles
        if self.complement:
            divisor = -divisor
        self.flush()
        if width <= DENSE or self.used == 0:
            for k in range(n * width):
                target[k] = (self.hi[k] + self.lo[k]) / divisor
            return grid, self.used
        amounts = self.hi[(width + 1) * n] + self.lo[(width + 1) * n]
        for s in range(n):
            base = self.hi[width * n + s] + self.lo[width * n + s]
            for k in range(width):
                target[s * width + k] = (
                    base + (self.hi[k * n + s] + self.lo[k * n + s]) - amounts * self.less[s * width + k]
                ) / divisor
        return grid, self.used


ctypedef fused index_t:
    int32_t
    int64_t


cdef inline double usable(double x, double threshold) noexcept nogil:
    """Return the count of an entry, or NaN if it is invalid."""
    if threshold == threshold:  # not NaN: binary counts
        return (1.0 if x > threshold else 0.0) if fabs(x) <= LARGEST_COUNT else NAN
    return x if 0 <= x <= LARGEST_COUNT else NAN


def subtract_exactly(double before, double amount) -> float:
    """Return before - amount; a rounding error near 0 becomes 0. Negative if amount is larger."""
    return difference(before, amount)


cdef int check_rows(const int64_t *starts, Py_ssize_t rows, Py_ssize_t entries) except -1:
    cdef Py_ssize_t r
    if rows < 0 or starts[0] != 0 or starts[rows] > entries:
        raise ValueError("the sparse matrix is damaged: its row pointers do not fit its entries")
    for r in range(rows):
        if starts[r] > starts[r + 1]:
            raise ValueError("the sparse matrix is damaged: its row pointers decrease")
    return 0


cdef int64_t sum_rows(const int64_t *starts, const index_t *column, const double *x, Py_ssize_t rows, double threshold,
                      Py_ssize_t columns, const double *values, Py_ssize_t width, const uint8_t *mask,
                      double *hi, double *out, int64_t *used) noexcept nogil:
    cdef Py_ssize_t r, i, j, k
    cdef double *lo = hi + width
    cdef double amount
    for r in range(rows):
        memset(hi, 0, 2 * width * sizeof(double))
        used[r] = 0
        for i in range(starts[r], starts[r + 1]):
            j = column[i]
            amount = usable(x[i], threshold) if x != NULL else 1.0
            if amount != amount or not 0 <= j < columns:
                return i
            if amount == 0 or (mask != NULL and not mask[j]):
                continue
            used[r] += 1
            for k in range(width):
                snb_accumulate(&hi[k], &lo[k], amount * values[j * width + k])
        for k in range(width):
            out[r * width + k] = hi[k] + lo[k]
    return -1


cdef int64_t sum_columns(const int64_t *starts, const index_t *column, const double *x, Py_ssize_t rows, double threshold,
                         const int64_t *label, const double *w, Py_ssize_t columns, Py_ssize_t classes,
                         double *sums) noexcept nogil:
    cdef Py_ssize_t r, i, j
    cdef double amount
    cdef double *class_sums
    for r in range(rows):
        class_sums = sums + label[r]
        for i in range(starts[r], starts[r + 1]):
            j = column[i]
            amount = usable(x[i], threshold)
            if amount != amount or not 0 <= j < columns:
                return i
            class_sums[j * classes] += w[r] * amount
    return -1


def row_sums(indptr, indices, data, values, presence=None, double threshold=NAN):
    """Return `weighted_sums` for each row of a CSR matrix whose columns are the features.

    Parameters
    ----------
    indptr, indices, data
        The CSR matrix: indptr int64, indices int32 or int64, data float64. Zeros are skipped.
        If data is None, all entries are 1.
    values
        float64, shape (columns, K).
    presence
        uint8, shape (columns,), or None for all: columns with 0 are skipped.
    threshold
        If not NaN, data above it count 1 and others 0.

    Returns
    -------
    The sums, shape (rows, K); the number of entries used in each row; and the index of the first
    invalid entry (not finite, negative without a threshold, or beyond the columns), or -1.
    """
    cdef Py_ssize_t rows = len(indptr) - 1, width = values.shape[1]
    cdef Py_ssize_t columns = len(values), entries = len(indices)
    cdef int64_t *starts = <int64_t *> cnp.PyArray_DATA(checked(indptr, cnp.NPY_INT64, rows + 1, "indptr"))
    cdef double *x = NULL
    cdef double *v = <double *> cnp.PyArray_DATA(checked(values, cnp.NPY_FLOAT64, columns * width, "values"))
    cdef uint8_t *mask = NULL
    cdef cnp.ndarray column = checked(indices, cnp.NPY_INT32 if indices.dtype == np.int32 else cnp.NPY_INT64, entries, "indices")
    cdef cnp.ndarray sums = new_matrix(rows, width, cnp.NPY_FLOAT64)
    cdef cnp.ndarray used = new_array(rows, cnp.NPY_INT64)
    cdef int64_t bad
    cdef double *hi
    check_rows(starts, rows, entries)
    if data is not None:
        x = <double *> cnp.PyArray_DATA(checked(data, cnp.NPY_FLOAT64, entries, "data"))
    if presence is not None:
        mask = <uint8_t *> cnp.PyArray_DATA(checked(presence, cnp.NPY_UINT8, columns, "presence"))
    hi = <double *> calloc(2 * width + 2, sizeof(double))
    if hi == NULL:
        raise MemoryError
    if cnp.PyArray_TYPE(column) == cnp.NPY_INT32:
        bad = sum_rows[int32_t](starts, <int32_t *> cnp.PyArray_DATA(column), x, rows, threshold, columns, v, width, mask,
                                hi, <double *> cnp.PyArray_DATA(sums), <int64_t *> cnp.PyArray_DATA(used))
    else:
        bad = sum_rows[int64_t](starts, <int64_t *> cnp.PyArray_DATA(column), x, rows, threshold, columns, v, width, mask,
                                hi, <double *> cnp.PyArray_DATA(sums), <int64_t *> cnp.PyArray_DATA(used))
    free(hi)
    return sums, used, bad


def column_sums(indptr, indices, data, labels, weights, Py_ssize_t columns, Py_ssize_t classes, double threshold=NAN):
    """Return the sum of weights[row] * data over the rows of each class, for each column.

    Parameters as in `row_sums`; labels int64 and weights float64, shape (rows,). Returns float64,
    shape (columns, classes), and the index of the first invalid entry or -1.
    """
    cdef Py_ssize_t rows = len(indptr) - 1, entries = len(indices)
    cdef int64_t *starts = <int64_t *> cnp.PyArray_DATA(checked(indptr, cnp.NPY_INT64, rows + 1, "indptr"))
    cdef double *x = <double *> cnp.PyArray_DATA(checked(data, cnp.NPY_FLOAT64, entries, "data"))
    cdef int64_t *label = <int64_t *> cnp.PyArray_DATA(checked(labels, cnp.NPY_INT64, rows, "labels"))
    cdef double *w = <double *> cnp.PyArray_DATA(checked(weights, cnp.NPY_FLOAT64, rows, "weights"))
    cdef cnp.ndarray column = checked(indices, cnp.NPY_INT32 if indices.dtype == np.int32 else cnp.NPY_INT64, entries, "indices")
    cdef cnp.ndarray sums = np.zeros((columns, classes))
    cdef int64_t bad
    check_rows(starts, rows, entries)
    if rows and not (0 <= labels.min() and labels.max() < classes):
        raise IndexError(f"labels must be class indices below {classes}")
    if cnp.PyArray_TYPE(column) == cnp.NPY_INT32:
        bad = sum_columns[int32_t](starts, <int32_t *> cnp.PyArray_DATA(column), x, rows, threshold,
                                   label, w, columns, classes, <double *> cnp.PyArray_DATA(sums))
    else:
        bad = sum_columns[int64_t](starts, <int64_t *> cnp.PyArray_DATA(column), x, rows, threshold,
                                   label, w, columns, classes, <double *> cnp.PyArray_DATA(sums))
    return sums, bad
