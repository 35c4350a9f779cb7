# Logarithms, their sums and powers of e, the same to the last bit on every machine.

cdef extern from *:
    """
    #include <math.h>
    #include <stddef.h>
    #include <string.h>

    /* Natural logarithm of a finite x > 0. The C library's differs in the last digit between
       versions and processors; this one uses only operations that IEEE 754 fixes.
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
        /* log 2 in two parts, the first with 32 zero bits at its end: k times it is exact */
        return k * 6.93147180369123816490e-01 - ((s * (f - r) - k * 1.90821492927058770002e-10) - f);
    }

    #if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
    #define SNB_WIDE __attribute__((target_clones("avx2", "default")))
    #else
    #define SNB_WIDE
    #endif

    /* log(max(x, 0) + alpha) of many x, digit for digit as snb_log has it, but without branches, so that
       a processor can take several at a time. What is 0 or subnormal is put right afterwards. */
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

    /* e to the power of x, likewise. x = k log 2 + r with |r| <= log(2)/2; e^r by its Taylor series,
       whose next term is below 2^-57. */
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

    /* Add x to hi + lo (Knuth's two-sum): the sum's last digit does not depend on the order. */
    static inline void snb_accumulate(double *hi, double *lo, double x) {
        double sum = *hi + x, back = sum - *hi;
        *lo += (*hi - (sum - back)) + (x - back);
        *hi = sum;
    }
    """
    double snb_log(double x) noexcept nogil
    double snb_exp(double x) noexcept nogil
    void snb_logs(const double *x, double alpha, double *out, Py_ssize_t n) noexcept nogil
    void snb_accumulate(double *hi, double *lo, double x) noexcept nogil

def log(double x) -> float:
    """Natural logarithm of a positive number, identical on every machine; -inf at 0."""
    if not 0 <= x < 1.7976931348623157e308:
        raise ValueError(f"no logarithm of {x}")
    return snb_log(x) if x > 0 else -np.inf


def exp(double x) -> float:
    """Take e to the power of x, identical on every machine; inf beyond the largest number."""
    return snb_exp(x)


def log_cells(cells, double alpha=0.0, less=None):
    """Take log(cells + alpha), elementwise; float64 in and out, of any shape.

    `less` is subtract_exactly: a number for each column.
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
        raise ValueError(f"less: {width} numbers do not go with {n} cells")
    for k in range(width):
        minus = less[k]
        i = k
        while i < n:
            target[i] -= minus
            i += width
    return out


def weighted_sums(counts, values, seen=None):
    """Sum counts[i] * values[i, k] over i, for each column k.

    The sum does not depend on the order of the rows, save where its exact value lies so close to
    the middle between two floating-point numbers that 106 bits cannot tell.

    Parameters
    ----------
    counts
        float64, shape (n,): how often each feature occurs in the message.
    values
        float64, shape (n, K).
    seen
        uint8, shape (n,), or None for all: rows with 0 take no part.

    Returns
    -------
    The K sums as a list, and how many rows took part.
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

    N_k is the total of class k, a is alpha (1 + background V f) with f the row's share of all counts
    and V the number of features, and A the sum of a over all of those.

    Rows are held until there are as many as a processor has near, for their logarithms are taken
    together. The sums do not depend on the order of the rows (see `weighted_sums`).

    With few classes (DENSE), a row has a count for each. With more, what all classes have where a
    row has no count, log(alpha), is summed once, and only the rest for the classes that have one.
    """

    cdef double alpha, more
    cdef Py_ssize_t width, held, room, used
    cdef double *cells      # [room]
    cdef double *logs       # [room]
    cdef double *amounts    # [room], of each row where it begins
    cdef uint32_t *columns  # [room], with many classes; `width` for a row's alpha
    cdef double *less       # [width + 2], and so the sums: classes, then log(alpha), then amounts
    cdef double *hi
    cdef double *lo

    def __cinit__(self):
        self.width = -1

    def __dealloc__(self):
        free(self.cells)
        free(self.less)

    cdef int prepare(self, const double *totals, Py_ssize_t width, Py_ssize_t features, double alpha, double background) except -1:
        """Begin a sum: totals N of `width` classes, V features, and the smoothing."""
        cdef Py_ssize_t k
        cdef double every = alpha * features, more = 0, hi = 0, lo = 0
        if background != 0:
            for k in range(width):
                snb_accumulate(&hi, &lo, totals[k])
        if hi + lo > 0:
            more = every * background / (hi + lo)
            every *= 1 + background
        if width != self.width:
            self.width = -1
            self.room = max(1024, width + 1)
            self.less = <double *> grown(self.less, 3 * (width + 2) * sizeof(double))
            self.cells = <double *> grown(self.cells, self.room * (3 * sizeof(double) + sizeof(uint32_t)))
            self.hi, self.lo = self.less + width + 2, self.less + 2 * (width + 2)
            self.logs, self.amounts = self.cells + self.room, self.cells + 2 * self.room
            self.columns = <uint32_t *> (self.cells + 3 * self.room)
            self.width = width
        self.alpha, self.more, self.held, self.used = alpha, more, 0, 0
        snb_logs(totals, every, self.less, width)
        memset(self.hi, 0, 2 * (width + 2) * sizeof(double))
        return 0

    cdef inline void add(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil:
        """Take a row of n numbers, of the classes `columns` (NULL: all); none of a row of zeros."""
        cdef Py_ssize_t i, at, width = self.width
        cdef double alpha
        self.used += 1
        if width > DENSE:
            self.add_sparse(numbers, columns, n, amount)
            return
        if self.held + width > self.room:
            self.flush()
        at = self.held
        self.held += width
        self.amounts[at] = amount
        if n == 0:
            memset(self.cells + at, 0, width * sizeof(double))
        elif width == 2:
            self.cells[at], self.cells[at + 1] = numbers[0], numbers[1]
        else:
            memcpy(self.cells + at, numbers, width * sizeof(double))
        if self.more != 0:
            alpha = 0
            for i in range(n):
                alpha += numbers[i]
            alpha = self.alpha + self.more * alpha
            for i in range(width):
                self.cells[at + i] += alpha

    cdef void add_sparse(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil:
        cdef Py_ssize_t i, at
        cdef double alpha = 0
        if self.held + n + 1 > self.room:
            self.flush()
        if self.more != 0:
            for i in range(n):
                alpha += numbers[i]
        alpha = self.alpha + self.more * alpha
        at = self.held
        self.cells[at], self.columns[at], self.amounts[at] = alpha, <uint32_t> self.width, amount
        for i in range(n):
            if numbers[i] != 0:
                at += 1
                self.cells[at], self.columns[at] = numbers[i] + alpha, <uint32_t> i if columns == NULL else columns[i]
        self.held = at + 1

    cdef void flush(self) noexcept nogil:
        cdef Py_ssize_t i = 0, k, width = self.width
        cdef double amount = 0, base = 0
        cdef double *logs = self.logs
        cdef double *less = self.less
        cdef double *hi = self.hi
        cdef double *lo = self.lo
        snb_logs(self.cells, 0.0 if self.more != 0 or width > DENSE else self.alpha, logs, self.held)
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
        """The sums, and how many rows there were."""
        cdef Py_ssize_t k, width = self.width
        cdef double base, amounts
        self.flush()
        if width <= DENSE or self.used == 0:
            return [self.hi[k] + self.lo[k] for k in range(width)], self.used
        base, amounts = self.hi[width] + self.lo[width], self.hi[width + 1] + self.lo[width + 1]
        return [base + (self.hi[k] + self.lo[k]) - amounts * self.less[k] for k in range(width)], self.used


def log_likelihood_sums(cells, seen, counts, list totals, Py_ssize_t features, double alpha, double background=0.0):
    """Do as `CountTable.log_likelihood_sums`, with counts (n, K) that are given; `seen` (n,) or None for all."""
    cdef Py_ssize_t i, n = len(counts), width = len(totals)
    cdef double *v = <double *> cnp.PyArray_DATA(checked(cells, cnp.NPY_FLOAT64, n * width, "cells"))
    cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
    cdef cnp.ndarray of_classes = np.array(totals, dtype=np.float64)
    cdef uint8_t *mask = NULL
    cdef LogSums sums = LogSums()
    sums.prepare(<double *> cnp.PyArray_DATA(of_classes), width, features, alpha, background)
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
    """The value as the model sees it, or NaN for one that no model takes."""
    if threshold == threshold:  # not NaN: presence is asked for
        return (1.0 if x > threshold else 0.0) if fabs(x) <= LARGEST_COUNT else NAN
    return x if 0 <= x <= LARGEST_COUNT else NAN


cdef double left_of(double before, double amount) noexcept nogil:
    """What is left of a count: exact for multiples of 2^-16; of other fractions, what rounding left
    is nothing.
    """
    cdef double after = before - amount
    if before < 137438953472.0 and before * 65536 == floor(before * 65536) and amount * 65536 == floor(amount * 65536):
        return after
    return 0.0 if fabs(after) <= 1e-9 * amount else after


def subtract_exactly(double before, double amount) -> float:
    """What is left of a weight after an amount was taken away; below zero if it was not there."""
    return left_of(before, amount)


cdef int check_rows(const int64_t *starts, Py_ssize_t rows, Py_ssize_t entries) except -1:
    cdef Py_ssize_t r
    if rows < 0 or starts[0] != 0 or starts[rows] > entries:
        raise ValueError("the matrix is damaged: its row pointers do not fit its entries")
    for r in range(rows):
        if starts[r] > starts[r + 1]:
            raise ValueError("the matrix is damaged: its row pointers do not rise")
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
    cdef double *mine
    for r in range(rows):
        mine = sums + label[r]
        for i in range(starts[r], starts[r + 1]):
            j = column[i]
            amount = usable(x[i], threshold)
            if amount != amount or not 0 <= j < columns:
                return i
            mine[j * classes] += w[r] * amount
    return -1


def row_sums(indptr, indices, data, values, seen=None, double threshold=NAN):
    """Do as `weighted_sums`, for each row of a CSR matrix whose columns are the features.

    Parameters
    ----------
    indptr, indices, data
        The matrix: int64, int32 or int64, float64. Zeros take no part.
    values
        float64, shape (columns, K).
    seen
        uint8, shape (columns,), or None for all: columns with 0 take no part.
    threshold
        If given, data above it count 1 and the rest 0.

    Returns
    -------
    The sums, shape (rows, K); how many entries of each row took part; and the first entry that is
    not finite, (without a threshold) negative or beyond the columns, or -1.
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
    """Sum weights[row] * data over the rows of each class, for each column of a CSR matrix.

    Parameters as for `row_sums`; labels int64 and weights float64, shape (rows,). Returns float64,
    shape (columns, classes), and the first bad entry or -1.
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
        raise IndexError("a label's number is not that of a class")
    if cnp.PyArray_TYPE(column) == cnp.NPY_INT32:
        bad = sum_columns[int32_t](starts, <int32_t *> cnp.PyArray_DATA(column), x, rows, threshold,
                                   label, w, columns, classes, <double *> cnp.PyArray_DATA(sums))
    else:
        bad = sum_columns[int64_t](starts, <int64_t *> cnp.PyArray_DATA(column), x, rows, threshold,
                                   label, w, columns, classes, <double *> cnp.PyArray_DATA(sums))
    return sums, bad
