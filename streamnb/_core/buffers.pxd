# Growing buffers of bytes, UTF-8 and ASCII.

from libc.stdint cimport uint32_t, uint8_t
from libc.string cimport memcmp, memcpy
from streamnb._core.arrays cimport grown

cdef enum:
    CODE_POINTS = 0x110000


cdef inline bint begins(const uint8_t *p, Py_ssize_t length, const char *prefix, Py_ssize_t size) noexcept nogil:
    return length >= size and memcmp(p, prefix, size) == 0


cdef inline uint8_t lowered(uint8_t c) noexcept nogil:
    return c + 32 if c"A" <= c <= c"Z" else c


cdef inline bint is_letter(uint8_t c) noexcept nogil:
    return c"a" <= lowered(c) <= c"z"


cdef inline bint is_space(uint8_t c) noexcept nogil:
    return c == 32 or 9 <= c <= 13


cdef inline uint32_t decode_utf8(const uint8_t *p, Py_ssize_t length, int *size) noexcept nogil:
    """Return the code point at p and set its size in bytes; U+FFFD (size 1) for an invalid byte."""
    cdef uint32_t c = p[0]
    cdef int extra, i
    size[0] = 1
    if c < 0x80:
        return c
    if 0xC2 <= c < 0xE0:
        extra = 1
        c &= 0x1F
    elif 0xE0 <= c < 0xF0:
        extra = 2
        c &= 0x0F
    elif 0xF0 <= c < 0xF5:
        extra = 3
        c &= 0x07
    else:
        return 0xFFFD
    if length <= extra:
        return 0xFFFD
    for i in range(1, extra + 1):
        if p[i] & 0xC0 != 0x80:
            return 0xFFFD
        c = c << 6 | (p[i] & 0x3F)
    if c >= CODE_POINTS or (extra == 2 and c < 0x800) or (extra == 3 and c < 0x10000):
        return 0xFFFD
    size[0] = extra + 1
    return c


cdef inline int encode_utf8(uint32_t c, uint8_t *p) noexcept nogil:
    if c < 0x80:
        p[0] = c
        return 1
    if c < 0x800:
        p[0] = 0xC0 | (c >> 6)
        p[1] = 0x80 | (c & 0x3F)
        return 2
    if c < 0x10000:
        p[0] = 0xE0 | (c >> 12)
        p[1] = 0x80 | ((c >> 6) & 0x3F)
        p[2] = 0x80 | (c & 0x3F)
        return 3
    p[0] = 0xF0 | (c >> 18)
    p[1] = 0x80 | ((c >> 12) & 0x3F)
    p[2] = 0x80 | ((c >> 6) & 0x3F)
    p[3] = 0x80 | (c & 0x3F)
    return 4


cdef struct Buffer:
    uint8_t *bytes
    Py_ssize_t size
    Py_ssize_t capacity


cdef inline int buffer_room(Buffer *b, Py_ssize_t growth) except -1:
    # Allocate 16 spare bytes, because short copies and hashes read or write bytes beyond the end.
    if b.size + growth + 16 > b.capacity:
        b.bytes = <uint8_t *> grown(b.bytes, 2 * (b.size + growth) + 256)
        b.capacity = 2 * (b.size + growth) + 256
    return 0


cdef inline int buffer_put(Buffer *b, const void *p, Py_ssize_t n) except -1:
    buffer_room(b, n)
    memcpy(b.bytes + b.size, p, n)
    b.size += n
    return 0


cdef inline int buffer_shrink(Buffer *b) except -1:
    if b.capacity <= 1 << 20:
        return 0
    b.bytes = <uint8_t *> grown(b.bytes, 256)
    b.size = 0
    b.capacity = 256
    return 0
