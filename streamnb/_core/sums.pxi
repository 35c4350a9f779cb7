# Logarithms, sums of logarithms and powers of e, bit-identical on every machine.

cdef extern from *:
    """
    #include <math.h>
    #include <stddef.h>
    #include <string.h>

    /* Natural logarithm of a finite x > 0. C libraries differ in the last digit; this function uses
       only operations that IEEE 754 defines exactly.
       x = 2^e (1 + f), s = f / (2 + f), log(1 + f) = f - s (f - R), R = 2 (s^2/3 + s^4/5 + ...). */
    static inline double snb_log(double x) {
        uint64_t bits;
        int64_t e = 0;
        double m, f, s, z, r, k;
        memcpy(&bits, &x, 8);
        if (bits < 0x0010000000000000ULL) {            /* subnormal */
            x *= 18014398509481984.0; e = -54;
            memcpy(&bits, &x, 8);
        }
        e += (int64_t)(bits >> 52) - 1023;
        bits = (bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL;
        if (bits > 0x3ff6a09e667f3bcdULL) {            /* keep m in [sqrt(1/2), sqrt(2)] */
            bits -= 0x0010000000000000ULL; e += 1;
        }
        memcpy(&m, &bits, 8);
        f = m - 1.0; s = f / (2.0 + f); z = s * s; k = (double)e;
        r = z * (2.0 / 3 + z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 +
            z * (2.0 / 13 + z * (2.0 / 15 + z * (2.0 / 17 + z * (2.0 / 19 + z * (2.0 / 21))))))))));
        /* log 2 in two parts; the first ends in 32 zero bits, so k times it is exact */
        return k * 6.93147180369123816490e-01 - ((s * (f - r) - k * 1.90821492927058770002e-10) - f);
    }

    #if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
    #define SNB_WIDE __attribute__((target_clones("avx2", "default")))
    #else
    #define SNB_WIDE
    #endif

    /* log(max(x, 0) + alpha) of many x, bit-identical to snb_log. Without branches, so compilers
       vectorise it. Zeros and subnormal numbers are corrected afterwards. */
    SNB_WIDE static void snb_logs(const double *__restrict__ x, double alpha, double *__restrict__ out, ptrdiff_t n) {
        ptrdiff_t i;
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
        }
        for (i = 0; i < n; i++) {
            double v = (x[i] > 0 ? x[i] : 0.0) + alpha;
            if (!(v >= 2.2250738585072014e-308)) out[i] = v > 0 ? snb_log(v) : -(double)INFINITY;
        }
    }

    /* e to the power of x, bit-identical everywhere. x = k log 2 + r with |r| <= log(2)/2; e^r by
       its Taylor series, whose next term is below 2^-57. */
    static inline double snb_exp(double x) {
        double k, r, y;
        int64_t e;
        uint64_t bits;
        if (!(x > -745.2)) return x == x ? 0.0 : x;
        if (x > 709.78) return (double)INFINITY;
        k = floor(x * 1.44269504088896338700e+00 + 0.5);
        r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
        y = 1.0 + r * (1.0 + r * (1.0 / 2 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720 +
            r * (1.0 / 5040 + r * (1.0 / 40320 + r * (1.0 / 362880 + r * (1.0 / 3628800 +
            r * (1.0 / 39916800 + r * (1.0 / 479001600 + r / 6227020800.0))))))))))));
        e = (int64_t)k;
        if (e < -1021) { y *= 5.55111512312578270212e-17; e += 54; }  /* 2^-54, for subnormal results */
        if (e > 1023) { y *= 2.0; e -= 1; }
        bits = (uint64_t)(e + 1023) << 52;
        memcpy(&r, &bits, 8);
        return y * r;
    }

    /* Add x to hi + lo (Knuth's two-sum), so the rounded sum does not depend on the order. */
    static inline void snb_accumulate(double *hi, double *lo, double x) {
        double sum = *hi + x, back = sum - *hi;
        *lo += (*hi - (sum - back)) + (x - back);
        *hi = sum;
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
    """
    double snb_log(double x) noexcept nogil
    double snb_exp(double x) noexcept nogil
    void snb_logs(const double *x, double alpha, double *out, Py_ssize_t n) noexcept nogil
    void snb_accumulate(double *hi, double *lo, double x) noexcept nogil
    void snb_add_rows(
        const double *logs, const double *amounts, const double *less, double *hi, double *lo, Py_ssize_t rows,
        Py_ssize_t cells,
    ) noexcept nogil

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

    `less` has one number per column, which is subtract_exactly.
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

    The result does not depend on the order of the rows, unless 106 bits cannot decide the rounding.

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
    """Sums of amount * (log(n_k + a) - log(N_k + A)) over rows of counts n.

    N_k is the total of class k; a is alpha (1 + background V f), with f the fraction of all counts
    in the row and V the number of features; A is the sum of a over all features.

    Rows are collected in a buffer, so that logarithms are computed many at a time. The sums do not
    depend on the order of the rows (see `weighted_sums`).

    Up to DENSE classes, a row has a count for each. With more, the log(a) of classes without a
    count is summed once, and a correction for each class that has one.
    """

    cdef double alpha, per_count
    cdef Py_ssize_t width, held, room, used
    cdef double *cells      # [room]
    cdef double *logs       # [room]
    cdef double *amounts    # [room], at the first cell of each row
    cdef uint32_t *columns  # [room], with many classes; `width` marks a row's alpha
    cdef double *less       # [width + 2], like hi and lo: classes, then log(alpha), then amounts
    cdef double *hi
    cdef double *lo

    def __cinit__(self):
        self.width = -1

    def __dealloc__(self):
        free(self.cells)
        free(self.less)

    cdef int prepare(self, const double *totals, Py_ssize_t width, Py_ssize_t features, double alpha, double background) except -1:
        """Start a sum with the totals N of `width` classes, V features and the smoothing."""
        cdef Py_ssize_t k
        cdef double alpha_sum = alpha * features, per_count = 0, hi = 0, lo = 0
        if background != 0:
            for k in range(width):
                snb_accumulate(&hi, &lo, totals[k])
        if hi + lo > 0:
            per_count = alpha_sum * background / (hi + lo)
            alpha_sum *= 1 + background
        if width != self.width:
            self.width = -1
            self.room = max(1024, width + 1)
            self.less = <double *> grown(self.less, 3 * (width + 2) * sizeof(double))
            self.cells = <double *> grown(self.cells, self.room * (3 * sizeof(double) + sizeof(uint32_t)))
            self.hi, self.lo = self.less + width + 2, self.less + 2 * (width + 2)
            self.logs, self.amounts = self.cells + self.room, self.cells + 2 * self.room
            self.columns = <uint32_t *> (self.cells + 3 * self.room)
            self.width = width
        self.alpha, self.per_count, self.held, self.used = alpha, per_count, 0, 0
        snb_logs(totals, alpha_sum, self.less, width)
        memset(self.hi, 0, 2 * (width + 2) * sizeof(double))
        return 0

    cdef inline void add(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil:
        """Add a row of n numbers of the classes `columns` (NULL: all); n = 0 for a row of zeros."""
        cdef Py_ssize_t i, cell, width = self.width
        cdef double alpha
        self.used += 1
        if width > DENSE:
            self.add_sparse(numbers, columns, n, amount)
            return
        if self.held + width > self.room:
            self.flush()
        cell = self.held
        self.held += width
        self.amounts[cell] = amount
        if n == 0:
            memset(self.cells + cell, 0, width * sizeof(double))
        elif width == 2:
            self.cells[cell], self.cells[cell + 1] = numbers[0], numbers[1]
        else:
            memcpy(self.cells + cell, numbers, width * sizeof(double))
        if self.per_count != 0:
            alpha = 0
            for i in range(n):
                alpha += numbers[i]
            alpha = self.alpha + self.per_count * alpha
            for i in range(width):
                self.cells[cell + i] += alpha

    cdef void add_sparse(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil:
        cdef Py_ssize_t i, cell
        cdef double alpha = 0
        if self.held + n + 1 > self.room:
            self.flush()
        if self.per_count != 0:
            for i in range(n):
                alpha += numbers[i]
        alpha = self.alpha + self.per_count * alpha
        cell = self.held
        self.cells[cell], self.columns[cell], self.amounts[cell] = alpha, <uint32_t> self.width, amount
        for i in range(n):
            if numbers[i] != 0:
                cell += 1
                self.cells[cell], self.columns[cell] = numbers[i] + alpha, <uint32_t> i if columns == NULL else columns[i]
        self.held = cell + 1

    cdef void flush(self) noexcept nogil:
        cdef Py_ssize_t i = 0, k, width = self.width
        cdef double amount = 0, base = 0
        cdef double *logs = self.logs
        cdef double *less = self.less
        cdef double *hi = self.hi
        cdef double *lo = self.lo
        snb_logs(self.cells, 0.0 if self.per_count != 0 or width > DENSE else self.alpha, logs, self.held)
        if width <= DENSE:
            while i < self.held:
                amount = self.amounts[i]
                for k in range(width):
                    snb_accumulate(&hi[k], &lo[k], amount * (logs[i + k] - less[k]))
                i += width
        else:
            for i in range(self.held):
                k = self.columns[i]
                if k < width:
                    snb_accumulate(&hi[k], &lo[k], amount * (logs[i] - base))
                else:
                    amount, base = self.amounts[i], logs[i]
                    snb_accumulate(&hi[width], &lo[width], amount * base)
                    snb_accumulate(&hi[width + 1], &lo[width + 1], amount)
        self.held = 0

    cdef tuple finish(self):
        """Return the sums and the number of rows."""
        cdef Py_ssize_t k, width = self.width
        cdef double base, amounts
        self.flush()
        if width <= DENSE or self.used == 0:
            return [self.hi[k] + self.lo[k] for k in range(width)], self.used
        base, amounts = self.hi[width] + self.lo[width], self.hi[width + 1] + self.lo[width + 1]
        return [base + (self.hi[k] + self.lo[k]) - amounts * self.less[k] for k in range(width)], self.used


def log_likelihood_sums(cells, seen, counts, list totals, Py_ssize_t features, double alpha, double background=0.0):
    """Return `CountTable.log_likelihood_sums` of given counts (n, K); `seen` (n,), or None for all rows."""
    cdef Py_ssize_t i, n = len(counts), width = len(totals)
    cdef double *v = <double *> cnp.PyArray_DATA(checked(cells, cnp.NPY_FLOAT64, n * width, "cells"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
    cdef cnp.ndarray totals_array = np.array(totals, dtype=np.float64)
    cdef uint8_t *mask = NULL
    cdef LogSums sums = LogSums()
    sums.prepare(<double *> cnp.PyArray_DATA(totals_array), width, features, alpha, background)
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
    if threshold == threshold:  # not NaN: count presence
        return (1.0 if x > threshold else 0.0) if fabs(x) <= LARGEST_COUNT else NAN
    return x if 0 <= x <= LARGEST_COUNT else NAN


cdef double difference(double before, double amount) noexcept nogil:
    """Return before - amount: exact for multiples of 2^-16; otherwise rounding errors become 0."""
    cdef double after = before - amount
    if before < 137438953472.0 and before * 65536 == floor(before * 65536) and amount * 65536 == floor(amount * 65536):
        return after
    return 0.0 if fabs(after) <= 1e-9 * amount else after


def subtract_exactly(double before, double amount) -> float:
    """Return before - amount, without rounding errors near 0; negative if amount is larger."""
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
        The matrix: int64, int32 or int64, float64. Zeros are skipped.
    values
        float64, shape (columns, K).
    seen
        uint8, shape (columns,), or None for all: columns with 0 are skipped.
    threshold
        If given, data above it count 1 and others 0.

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
