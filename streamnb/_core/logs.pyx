# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Logarithms, sums of logarithms and powers of e, bit-identical on every machine."""

import numpy as np

cimport numpy as cnp
from libc.math cimport NAN, fabs
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from streamnb._core.arrays cimport LARGEST_COUNT, checked, grown, new_array, new_matrix
from streamnb._core.table cimport DENSE

cnp.import_array()


def log(double x) -> float:
    """Return the natural logarithm of x >= 0, bit-identical on every machine; -inf for 0."""
    if not 0 <= x < 1.7976931348623157e308:
        raise ValueError(f"log: {x} is not a finite number >= 0")
    return snb_log(x) if x > 0 else -np.inf


def exp(double x) -> float:
    """Return e to the power of x, bit-identical on every machine; inf on overflow."""
    return snb_exp(x)


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


def weighted_sums(counts, values, seen=None):
    """Return the sum of counts[i] * values[i, k] over i, for each column k.

    The result does not depend on the order of the rows, except if 106 bits are too few to round correctly.

    Parameters
    ----------
    counts
        float64, shape (n,): the count of each feature in the message.
    values
        float64, shape (n, K).
    seen
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
    if seen is not None:
        mask = <uint8_t *> cnp.PyArray_DATA(checked(seen, cnp.NPY_UINT8, n, "seen"))
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
        self, list alphas, const double *totals, Py_ssize_t width, Py_ssize_t features, bint complement
    ) except -1:
        """Start sums with the totals N of `width` classes, V features and the smoothing."""
        cdef Py_ssize_t s, k, n = len(alphas), sums = max(n, 1) * (width + 2)
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
            self.alphas[s] = alphas[s]
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

    cdef tuple finish(self):
        """Return a list of sums for each alpha, and the number of rows."""
        cdef Py_ssize_t s, k, n = self.n_alphas, width = self.width
        cdef double sign = -1 if self.complement else 1, base, amounts
        cdef list grid = []
        self.flush()
        if width <= DENSE or self.used == 0:
            for s in range(n):
                grid.append([sign * (self.hi[s * width + k] + self.lo[s * width + k]) for k in range(width)])
            return grid, self.used
        amounts = self.hi[(width + 1) * n] + self.lo[(width + 1) * n]
        for s in range(n):
            base = self.hi[width * n + s] + self.lo[width * n + s]
            grid.append([
                sign * (base + (self.hi[k * n + s] + self.lo[k * n + s]) - amounts * self.less[s * width + k])
                for k in range(width)
            ])
        return grid, self.used


def log_likelihood_grid(
    cells, seen, counts, list totals, Py_ssize_t features, list alphas, bint complement=False
):
    """Return `CountTable.log_likelihood_grid` for counts (n, K); `seen` has shape (n,), None for all rows."""
    cdef Py_ssize_t i, n = len(counts), width = len(totals)
    cdef double *v = <double *> cnp.PyArray_DATA(checked(cells, cnp.NPY_FLOAT64, n * width, "cells"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
    cdef cnp.ndarray totals_array = np.array(totals, dtype=np.float64)
    cdef uint8_t *mask = NULL
    cdef LogSums sums = LogSums()
    sums.prepare(alphas, <double *> cnp.PyArray_DATA(totals_array), width, features, complement)
    if seen is not None:
        mask = <uint8_t *> cnp.PyArray_DATA(checked(seen, cnp.NPY_UINT8, n, "seen"))
    for i in range(n):
        if mask == NULL or mask[i]:
            sums.add(v + i * width, NULL, width, c[i])
    return sums.finish()


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
            amount = usable(x[i], threshold)
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


def row_sums(indptr, indices, data, values, seen=None, double threshold=NAN):
    """Return `weighted_sums` for each row of a CSR matrix whose columns are the features.

    Parameters
    ----------
    indptr, indices, data
        The CSR matrix: indptr int64, indices int32 or int64, data float64. Zeros are skipped.
    values
        float64, shape (columns, K).
    seen
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
    cdef double *x = <double *> cnp.PyArray_DATA(checked(data, cnp.NPY_FLOAT64, entries, "data"))
    cdef double *v = <double *> cnp.PyArray_DATA(checked(values, cnp.NPY_FLOAT64, columns * width, "values"))
    cdef uint8_t *mask = NULL
    cdef cnp.ndarray column = checked(indices, cnp.NPY_INT32 if indices.dtype == np.int32 else cnp.NPY_INT64, entries, "indices")
    cdef cnp.ndarray sums = new_matrix(rows, width, cnp.NPY_FLOAT64)
    cdef cnp.ndarray used = new_array(rows, cnp.NPY_INT64)
    cdef int64_t bad
    cdef double *hi
    check_rows(starts, rows, entries)
    if seen is not None:
        mask = <uint8_t *> cnp.PyArray_DATA(checked(seen, cnp.NPY_UINT8, columns, "seen"))
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
