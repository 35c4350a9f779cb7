# Sums without rounding: any added number can be subtracted exactly, in any order.
#
# A sum is a multiple of 2^-640. Its 32-bit digits ("limbs") are stored in 64-bit integers, so carries can be postponed
# (the superaccumulator of Kulisch; R. M. Neal 2015, arXiv:1505.05571). A double changes three limbs, the product of two
# doubles changes five. Bits below 2^-640 are cut off, symmetrically for negative numbers. Only limbs that
# were needed so far are allocated.

from libc.math cimport fabs, fma, frexp, ldexp
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from streamnb._core.logs cimport snb_accumulate

cdef extern from *:
    """
    #ifdef __SIZEOF_INT128__
    typedef unsigned __int128 snb_wide;
    #define SNB_HAS_WIDE 1
    #else  /* 32-bit processors */
    typedef unsigned long long snb_wide;
    #define SNB_HAS_WIDE 0
    #endif
    """
    ctypedef unsigned long long snb_wide
    const bint SNB_HAS_WIDE
    int lowest_bit "__builtin_ctzll"(unsigned long long x) nogil

cdef enum:
    EXACT_BASE = 640       # the lowest bit stands for 2^-640
    EXACT_LIMBS = 56       # numbers up to 2^1152, above any sum of valid products
    EXACT_LATER = 1 << 29  # number of additions before carries are necessary


cdef inline int64_t exact_lowest(double x) noexcept nogil:
    """Return the position of the lowest set bit; 4096 for 0."""
    cdef uint64_t bits, m
    cdef int64_t e
    memcpy(&bits, &x, 8)
    e = (bits >> 52) & 0x7ff
    if e == 0:
        return 4096
    m = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL
    return e - 1075 + lowest_bit(m)


cdef inline int64_t exact_highest(double x) noexcept nogil:
    """Return the position above the highest set bit; -4096 for 0."""
    cdef uint64_t bits
    memcpy(&bits, &x, 8)
    bits = (bits >> 52) & 0x7ff
    return <int64_t> bits - 1022 if bits else -4096


cdef inline void exact_add(int64_t *cell, Py_ssize_t low, double x) noexcept nogil:
    cdef uint64_t bits, mantissa
    cdef int64_t position, sign
    cdef int64_t *limb
    memcpy(&bits, &x, 8)
    position = <int64_t> ((bits >> 52) & 0x7ff)
    if position == 0:
        return
    mantissa = (bits & 0xfffffffffffffULL) | 0x10000000000000ULL
    position += EXACT_BASE - 1075 - 32 * low
    if position < 0:  # bits of value 0, or below 2^-640
        if position <= -53:
            return
        mantissa >>= -position
        position = 0
    limb = cell + (position >> 5)
    position &= 31
    sign = 1 - 2 * <int64_t> (bits >> 63)
    limb[0] += sign * <int64_t> (<uint32_t> mantissa << position)
    mantissa >>= 32 - position
    limb[1] += sign * <int64_t> <uint32_t> mantissa
    limb[2] += sign * <int64_t> (mantissa >> 32)


cdef inline void exact_product(int64_t *cell, Py_ssize_t low, double x, double y) noexcept nogil:
    """Add x y: the product of two mantissas has 106 bits."""
    if x == 1 or x == -1 or not SNB_HAS_WIDE:
        exact_add(cell, low, x * y)
        if not SNB_HAS_WIDE:
            exact_add(cell, low, fma(x, y, -(x * y)))
        return
    cdef uint64_t x_bits, y_bits
    cdef int64_t x_exponent, y_exponent, position, sign
    cdef int64_t *limb
    cdef snb_wide product
    memcpy(&x_bits, &x, 8)
    memcpy(&y_bits, &y, 8)
    x_exponent = <int64_t> ((x_bits >> 52) & 0x7ff)
    y_exponent = <int64_t> ((y_bits >> 52) & 0x7ff)
    if x_exponent == 0 or y_exponent == 0:
        return
    product = <snb_wide> ((x_bits & 0xfffffffffffffULL) | 0x10000000000000ULL)
    product *= (y_bits & 0xfffffffffffffULL) | 0x10000000000000ULL
    position = x_exponent + y_exponent + EXACT_BASE - 2 * 1075 - 32 * low
    if position < 0:  # bits of value 0, or below 2^-640
        if position <= -106:
            return
        product >>= -position
        position = 0
    limb = cell + (position >> 5)
    position &= 31
    sign = 1 - 2 * <int64_t> ((x_bits ^ y_bits) >> 63)
    limb[0] += sign * <int64_t> (<uint32_t> product << position)
    product >>= 32 - position
    limb[1] += sign * <int64_t> <uint32_t> product
    product >>= 32
    limb[2] += sign * <int64_t> <uint32_t> product
    product >>= 32
    limb[3] += sign * <int64_t> <uint32_t> product
    limb[4] += sign * <int64_t> (product >> 32)


cdef inline void exact_weighted(int64_t *cell, Py_ssize_t low, double w, double x, double y) noexcept nogil:
    """Add w x y."""
    cdef double product
    if w == 1 or w == -1:
        exact_product(cell, low, w * x, y)
    else:
        product = x * y
        exact_product(cell, low, w, product)
        exact_product(cell, low, w, fma(x, y, -product))


cdef inline void exact_carry(int64_t *cell, Py_ssize_t width) noexcept nogil:
    """Carry, so that all limbs but the last are in [0, 2^32)."""
    cdef Py_ssize_t i
    cdef int64_t carry = 0
    for i in range(width - 1):
        carry += cell[i]
        cell[i] = carry & 0xffffffffLL
        carry >>= 32  # arithmetic shift, also for negative numbers
    cell[width - 1] += carry


cdef inline double exact_sign(int64_t *limbs, Py_ssize_t width) noexcept nogil:
    """Replace a sum by its absolute value, carried; return its sign."""
    cdef Py_ssize_t i
    exact_carry(limbs, width)
    if limbs[width - 1] >= 0:
        return 1.0
    for i in range(width):
        limbs[i] = -limbs[i]
    exact_carry(limbs, width)
    return -1.0


cdef inline void exact_read(const int64_t *cell, Py_ssize_t low, Py_ssize_t width, double *hi, double *lo) noexcept nogil:
    """Set two doubles to the sum, from its top five limbs: 106 bits."""
    cdef int64_t[EXACT_LIMBS] limbs
    cdef Py_ssize_t i, used = 0
    cdef double sign, sum
    memcpy(limbs, cell, width * sizeof(int64_t))
    sign = exact_sign(limbs, width)
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
    """Set the quotient a / n of two double pairs, precise to 100 bits."""
    cdef double q = a[0] / n[0]
    cdef double remainder = (fma(-q, n[0], a[0]) - q * n[1] + a[1]) / n[0]
    hi[0] = q + remainder
    lo[0] = remainder - (hi[0] - q)


cdef inline double exact_digits(const int64_t *cell, Py_ssize_t width, uint32_t *digits) noexcept nogil:
    """Set the width + 1 digits of the absolute value of a sum; return its sign."""
    cdef int64_t[EXACT_LIMBS] limbs
    cdef double sign
    cdef Py_ssize_t i
    memcpy(limbs, cell, width * sizeof(int64_t))
    sign = exact_sign(limbs, width)
    for i in range(width):
        digits[i] = <uint32_t> (limbs[i] & 0xffffffffLL)
    digits[width] = <uint32_t> (limbs[width - 1] >> 32)
    return sign


cdef inline void exact_multiply(const int64_t *a, const int64_t *b, Py_ssize_t width, int sign, int64_t *out) noexcept nogil:
    """Add sign * a b to 2 (width + 1) limbs exactly, by long multiplication."""
    cdef uint32_t[EXACT_LIMBS + 1] x, y
    cdef uint32_t[2 * (EXACT_LIMBS + 1)] product
    cdef Py_ssize_t i, j
    cdef uint64_t carry
    sign *= <int> (exact_digits(a, width, x) * exact_digits(b, width, y))
    memset(product, 0, sizeof(product))
    for i in range(width + 1):
        carry = 0
        if x[i]:
            for j in range(width + 1):
                carry += <uint64_t> x[i] * y[j] + product[i + j]
                product[i + j] = <uint32_t> (carry & 0xffffffffULL)
                carry >>= 32
            product[i + width + 1] = <uint32_t> carry
    for i in range(2 * (width + 1)):
        out[i] += sign * <int64_t> product[i]


cdef inline double exact_about(const int64_t *s, const int64_t *a, const int64_t *b, const int64_t *n, Py_ssize_t low,
                        Py_ssize_t width) noexcept nogil:
    """Return S - a b / n, a sum of products about the means, with full precision; S if n is 0."""
    cdef double[8] v
    cdef double hi, lo, p, error, sum, back
    cdef int64_t[2 * (EXACT_LIMBS + 1)] limbs
    cdef Py_ssize_t top = 2 * (width + 1) - 1, i
    cdef int exponent
    cdef double sign
    exact_read(s, low, width, &v[0], &v[1])
    exact_read(n, low, width, &v[6], &v[7])
    if v[6] == 0:
        return v[0]
    exact_read(a, low, width, &v[2], &v[3])
    exact_read(b, low, width, &v[4], &v[5])
    exact_divide(&v[2], &v[6], &hi, &lo)
    p = hi * v[4]
    error = fma(hi, v[4], -p) + (hi * v[5] + lo * v[4])
    sum = v[0] - p
    back = sum - v[0]
    sum += (v[0] - (sum - back)) - (p + back) + (v[1] - error)
    if fabs(sum) > 1e-12 * fabs(v[0]) or (v[0] == 0 and p == 0):
        return sum  # the result of the pairs of doubles is precise
    memset(limbs, 0, sizeof(limbs))
    exact_multiply(n, s, width, 1, limbs)
    exact_multiply(a, b, width, -1, limbs)
    sign = exact_sign(limbs, top + 1)
    while top and limbs[top] == 0:
        top -= 1
    sum = <double> limbs[top]
    for i in range(1, min(top, 3) + 1):
        sum += ldexp(<double> limbs[top - i], <int> (-32 * i))
    error = frexp(v[6], &exponent)
    return ldexp(sign * sum / error, <int> (32 * top + 2 * (32 * low - EXACT_BASE) - exponent))
