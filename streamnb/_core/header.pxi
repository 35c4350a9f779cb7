# Header fields of a message, in one pass over the lines.

cdef inline bint begins(const uint8_t *p, Py_ssize_t left, const char *what, Py_ssize_t size) noexcept nogil:
    return left >= size and memcmp(p, what, size) == 0


cdef inline bint has_encoded_word(bytes value) noexcept:
    """Return True if a value contains `=?`. (CPython's `in` is slower: it first raises a TypeError.)"""
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(value)
    cdef const uint8_t *end = p + len(value)
    while True:
        p = <const uint8_t *> memchr(p, c"=", end - p)
        if p == NULL:
            return False
        p += 1
        if p < end and p[0] == c"?":
            return True


cdef bytes slice_of(const uint8_t *p, Py_ssize_t begin, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *> p + begin, end - begin)


def split_header(bytes data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t most):
    """Take the header at data[start:end] apart; line ends are LF.

    A header is a run of field lines (`Name: value`), folded lines (white space first) and mbox
    separators (`From `, which are passed over). A line of another kind ends it.

    Returns
    -------
    The fields as (name, value) pairs, values folded as they stand; a dict of the lower-case name
    to the first value; where the header ends; and whether there were more than `most` fields.
    """
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef Py_ssize_t i = start, j, next_line, name_begin = -1, name_end = 0, value_begin = 0, value_end = 0
    cdef const uint8_t *newline
    cdef list fields = []
    cdef dict index = {}
    cdef bint more = False
    if not 0 <= start <= end <= len(data):
        raise ValueError("no such slice of the message")
    while i < end:
        newline = <const uint8_t *> memchr(p + i, c"\n", end - i)
        next_line = end if newline == NULL else newline - p + 1
        if p[i] == c" " or p[i] == c"\t":
            value_end = next_line if newline == NULL else next_line - 1
            i = next_line
            continue
        j = i
        while j < end and 33 <= p[j] <= 126 and p[j] != c":":
            j += 1
        if j == i or j >= end or p[j] != c":":
            if not begins(p + i, end - i, b"From ", 5) and not begins(p + i, end - i, b">From ", 6):
                break
            j = -1
        if name_begin >= 0:
            keep_field(fields, index, p, name_begin, name_end, value_begin, value_end)
            name_begin = -1
        if j >= 0:
            if len(fields) >= most:
                more = True
            else:
                name_begin = i
                name_end = j
                value_begin = j + 1
                value_end = next_line if newline == NULL else next_line - 1
                while value_begin < value_end and (p[value_begin] == c" " or p[value_begin] == c"\t"):
                    value_begin += 1
        i = next_line
    if name_begin >= 0:
        keep_field(fields, index, p, name_begin, name_end, value_begin, value_end)
    return fields, index, i, more


cdef int keep_field(list fields, dict index, const uint8_t *p, Py_ssize_t name_begin, Py_ssize_t name_end,
                    Py_ssize_t value_begin, Py_ssize_t value_end) except -1:
    cdef bytes name = slice_of(p, name_begin, name_end), value = slice_of(p, value_begin, value_end)
    fields.append((name, value))
    index.setdefault(name.lower(), value)
    return 0
