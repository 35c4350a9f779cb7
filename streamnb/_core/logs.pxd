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
    """
    double snb_log(double x) noexcept nogil
    double snb_exp(double x) noexcept nogil
    void snb_accumulate(double *hi, double *lo, double x) noexcept nogil

cdef enum:
    HELD_ROWS = 32  # rows of up to DENSE classes whose logarithms are computed at a time
    HELD = HELD_ROWS * DENSE


@cython.final
cdef class LogSums:
    cdef Py_ssize_t n_alphas, width, held, used
    cdef bint complement
    cdef double amount          # count in the message of the row that is being read
    cdef double[HELD] numbers   # [held, width]; with more than DENSE classes, [held] for single entries
    cdef double[HELD] amounts   # by row; with more than DENSE classes, by the entry that begins a row
    cdef uint32_t[HELD] columns # class of each entry; `width` for an entry that begins a row
    cdef double *alphas         # [n_alphas]
    cdef double *base           # [n_alphas]
    cdef double *cells          # [HELD * n_alphas], like logs
    cdef double *logs
    cdef double *less           # [n_alphas, width]
    cdef double *hi             # like less or, with more than DENSE classes, [width + 2, n_alphas]; lo, too
    cdef double *lo

    cdef int prepare(
        self, double alpha, list factors, const double *totals, Py_ssize_t width, Py_ssize_t features, bint complement
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
    cdef tuple finish(self, double length_norm, double length_power)


cdef inline double difference(double before, double amount) noexcept nogil:
    """Return before - amount: exact for multiples of 2^-16; otherwise a rounding error becomes 0."""
    cdef double after = before - amount
    if before < 137438953472.0 and before * 65536 == floor(before * 65536) and amount * 65536 == floor(amount * 65536):
        return after
    return 0.0 if fabs(after) <= 1e-9 * amount else after
