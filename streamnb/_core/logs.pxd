# Logarithms, sums of logarithms and powers of e, bit-identical on every machine.

cimport cython
from libc.math cimport fabs, floor
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memset
from streamnb._core.table cimport DENSE

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
                    double rest = total - numbers[k];
                    cells[k] = alpha + (complement ? (rest > 0 ? rest : 0.0) : numbers[k]);
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
            double *top = hi + columns[i] * alphas_n, *rest = lo + columns[i] * alphas_n;
            if (columns[i] == width) {
                *amount = amounts[i];
                snb_accumulate(&hi[(width + 1) * alphas_n], &lo[(width + 1) * alphas_n], *amount);
                for (s = 0; s < alphas_n; s++) {
                    base[s] = logs[s];
                    snb_accumulate(&top[s], &rest[s], *amount * logs[s]);
                }
            } else
                for (s = 0; s < alphas_n; s++) snb_accumulate(&top[s], &rest[s], *amount * (logs[s] - base[s]));
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
    double snb_log(double x) noexcept nogil
    double snb_exp(double x) noexcept nogil
    void snb_logs(const double *x, double alpha, double *out, Py_ssize_t n) noexcept nogil
    void snb_accumulate(double *hi, double *lo, double x) noexcept nogil
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

cdef enum:
    HELD_ROWS = 32  # rows of up to DENSE classes whose logarithms are computed at a time
    HELD = HELD_ROWS * DENSE


@cython.final
cdef class LogSums:
    cdef Py_ssize_t n_alphas, width, held, used
    cdef bint complement
    cdef double amount          # of the row of the last entry
    cdef double[HELD] numbers   # of rows of `width` classes; with more than DENSE classes, of entries
    cdef double[HELD] amounts   # of rows, or of entries that begin a row
    cdef uint32_t[HELD] columns # of entries; `width` begins a row
    cdef double *alphas         # [n_alphas]
    cdef double *base           # [n_alphas]
    cdef double *cells          # [HELD * n_alphas], like logs
    cdef double *logs
    cdef double *less           # [n_alphas, width]
    cdef double *hi             # like less or, with more than DENSE classes, [width + 2, n_alphas]; lo, too
    cdef double *lo

    cdef int prepare(
        self, list alphas, const double *totals, Py_ssize_t width, Py_ssize_t features, bint complement
    ) except -1

    cdef inline void add(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil:
        """Add a row with n numbers of the classes `columns` (NULL: all); n = 0 is a row of zeros."""
        cdef double *target
        self.used += 1
        if self.width > DENSE:
            self.add_entries(numbers, columns, n, amount)
            return
        if self.held == HELD_ROWS:
            self.flush()
        target = self.numbers + self.held * self.width
        self.amounts[self.held] = amount
        self.held += 1
        if n == 2:
            target[0], target[1] = numbers[0], numbers[1]
        elif n == 0:
            memset(target, 0, self.width * sizeof(double))
        else:
            memcpy(target, numbers, n * sizeof(double))

    cdef void add_entries(self, const double *numbers, const uint32_t *columns, Py_ssize_t n, double amount) noexcept nogil
    cdef void add_entry(self, Py_ssize_t column, double number, double amount) noexcept nogil
    cdef void flush(self) noexcept nogil
    cdef tuple finish(self)


cdef inline double difference(double before, double amount) noexcept nogil:
    """Return before - amount: exact for multiples of 2^-16; otherwise a rounding error becomes 0."""
    cdef double after = before - amount
    if before < 137438953472.0 and before * 65536 == floor(before * 65536) and amount * 65536 == floor(amount * 65536):
        return after
    return 0.0 if fabs(after) <= 1e-9 * amount else after
