# Parts of header fields and of HTML.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memchr
from streamnb._core.buffers cimport Buffer, begins, is_letter, is_space, lowered


cdef inline bint has_pair(bytes value, uint8_t first, uint8_t second) noexcept:
    """Return True if a value contains two bytes in a row. (CPython's `in` is slower: it raises a TypeError first.)"""
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(value)
    cdef const uint8_t *end = p + len(value)
    while True:
        p = <const uint8_t *> memchr(p, first, end - p)
        if p == NULL:
            return False
        p += 1
        if p < end and p[0] == second:
            return True


cdef inline bint is_encoded(bytes value) noexcept:
    """Return True if a value contains bytes beyond ASCII, encoded words, or escapes of ISO-2022 or HZ."""
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(value)
    cdef Py_ssize_t i
    cdef uint8_t bits = 0
    for i in range(len(value)):
        bits |= p[i]
    if bits & 0x80:
        return True
    if has_pair(value, c"=", c"?") or has_pair(value, c"~", c"{"):
        return True
    return memchr(PyBytes_AS_STRING(value), 0x1B, len(value)) != NULL


cdef inline bytes slice_of(const uint8_t *p, Py_ssize_t begin, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *> p + begin, end - begin)


cdef inline Py_ssize_t field_start(const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Return the position after the NULs and byte order marks that some programs write before a line."""
    while i < n:
        if p[i] == 0:
            i += 1
        elif p[i] == 0xEF and i + 2 < n and p[i + 1] == 0xBB and p[i + 2] == 0xBF:
            i += 3
        else:
            break
    return i


cdef inline Py_ssize_t field_name_end(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, Py_ssize_t *colon) noexcept nogil:
    """Return the end of the field name at p[i], and set the position of its colon; i if the line is no field.

    A name has one or more of the characters 33 to 126, except the colon; blanks may precede the colon (RFC 5322, 4.5).
    The regular expression `streamnb.mail.FIELD_NAME` has the same rule.
    """
    cdef Py_ssize_t j = i, k
    while j < n and 33 <= p[j] <= 126 and p[j] != c":":
        j += 1
    k = j
    while k < n and (p[k] == c" " or p[k] == c"\t"):
        k += 1
    if j == i or k >= n or p[k] != c":":
        return i
    colon[0] = k
    return j


cdef inline bint is_separator(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Return True if a line is the separator of an mbox."""
    return begins(p, length, b"From ", 5) or begins(p, length, b">From ", 6)


cdef inline Py_ssize_t find_bytes(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, bytes pattern) noexcept:
    """Return the position of a lower-case pattern at or after i, ignoring case; -1 if absent."""
    cdef const uint8_t *w = <const uint8_t *> PyBytes_AS_STRING(pattern)
    cdef const uint8_t *first
    cdef Py_ssize_t size = len(pattern), k
    while i + size <= n:
        if not is_letter(w[0]):
            first = <const uint8_t *> memchr(p + i, w[0], n - size + 1 - i)
            if first == NULL:
                return -1
            i = first - p
        k = 0
        while k < size and lowered(p[i + k]) == w[k]:
            k += 1
        if k == size:
            return i
        i += 1
    return -1


cdef inline bytes lowered_bytes(const uint8_t *p, Py_ssize_t n):
    return PyBytes_FromStringAndSize(<const char *> p, n).lower()


cdef inline Py_ssize_t comment_end(const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Return the end of the comment whose <!-- ends at i, by the rules of browsers; -1 if none."""
    cdef Py_ssize_t begin
    cdef const uint8_t *close
    if i < n and p[i] == c">":
        return i + 1
    if i + 1 < n and p[i] == c"-" and p[i + 1] == c">":
        return i + 2
    begin = i
    while i < n:
        close = <const uint8_t *> memchr(p + i, c">", n - i)
        if close == NULL:
            return -1
        i = close - p + 1
        if i - begin >= 3 and p[i - 2] == c"-" and p[i - 3] == c"-":
            return i
        if i - begin >= 4 and p[i - 2] == c"!" and p[i - 3] == c"-" and p[i - 4] == c"-":
            return i
    return -1


cdef enum:  # kinds of tags and attributes; `markup.pyx` has further ones
    RAW = 4                     # tags in the element are text
    BREAKS_WORD = 1 << 18
    LINK_VALUE = 1 << 24        # the value of the attribute is a link
    SEEN_VALUE = 1 << 25        # the value is text
    VALUE_WITH_LINKS = 1 << 26  # a style, <meta http-equiv=refresh>, pictures of several sizes

cdef struct Tag:
    uint64_t id
    uint32_t kind
    bint is_end
    Py_ssize_t start   # position of its <
    Py_ssize_t name, name_end


cdef uint32_t kind_of_name(const uint8_t *p, Py_ssize_t n, uint64_t *name_id) noexcept nogil
cdef Py_ssize_t read_tag_name(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, Tag *tag) noexcept nogil


cdef struct Attribute:
    Py_ssize_t name, name_end
    Py_ssize_t value, value_end # equal for an attribute without a value

cdef struct Quotes:  # for each quotation mark, a position without another one after it; at first the page's end
    Py_ssize_t double, single


cdef inline Py_ssize_t read_attribute(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, Quotes *quotes,
                                      Attribute *attribute) noexcept nogil:
    """Set the bounds of the next attribute of a tag by the rules of browsers; return the position after it.

    At the end of the tag the name is empty. A quoted value without an end is read as an unquoted one.
    """
    cdef Py_ssize_t after
    cdef Py_ssize_t *last
    cdef const uint8_t *close
    while i < n and (is_space(p[i]) or p[i] == c"/"):
        i += 1
    attribute.name = i
    while i < n and not is_space(p[i]) and p[i] != c"/" and p[i] != c">" and (p[i] != c"=" or i == attribute.name):
        i += 1
    attribute.name_end = attribute.value = attribute.value_end = after = i
    while after < n and is_space(p[after]):
        after += 1
    if i == attribute.name or after >= n or p[after] != c"=":
        return i
    i = after + 1
    while i < n and is_space(p[i]):
        i += 1
    if i < n and (p[i] == c'"' or p[i] == c"'"):
        last = &quotes.double if p[i] == c'"' else &quotes.single
        if i < last[0]:
            close = <const uint8_t *> memchr(p + i + 1, p[i], n - i - 1)
            if close != NULL:
                attribute.value, attribute.value_end = i + 1, close - p
                return attribute.value_end + 1
            last[0] = i  # later tags do not search again
    attribute.value = i
    while i < n and not is_space(p[i]) and p[i] != c">":
        i += 1
    attribute.value_end = i
    return i


cdef Py_ssize_t read_entity(
    Buffer *out, const uint8_t *p, Py_ssize_t i, Py_ssize_t n, bint in_attribute,
) except -1
cdef bytes unescaped(const uint8_t *p, Py_ssize_t n)
