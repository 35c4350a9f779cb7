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


cdef inline Py_ssize_t field_start(const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Return the start of a line behind the NULs and byte order marks that some programs write."""
    while i < n:
        if p[i] == 0:
            i += 1
        elif p[i] == 0xEF and i + 2 < n and p[i + 1] == 0xBB and p[i + 2] == 0xBF:
            i += 3
        else:
            break
    return i


cdef inline Py_ssize_t field_name_end(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, Py_ssize_t *colon) noexcept nogil:
    """Return the end of the field name at p[i] and set its colon; i if the line is no field.

    A name is one or more of the characters 33 to 126 without a colon; blanks may precede the colon
    (RFC 5322, 4.5). `streamnb.mail.FIELD_NAME` is the same as a regular expression.
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


cdef inline bint is_separator(const uint8_t *p, Py_ssize_t left) noexcept nogil:
    """Return True if a line is the separator of an mbox."""
    return begins(p, left, b"From ", 5) or begins(p, left, b">From ", 6)


def split_header(bytes data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit):
    """Split the header at data[start:end] into fields; line ends are LF.

    The header ends at the blank line. Lines in it that are no fields are skipped: mbox separators
    (`From `) and damaged lines with their continuations. Without any blank line the header ends at
    its first damaged line, or at one with a blank before its colon. If there is no field at all, the
    header is empty.

    Returns
    -------
    fields
        (name, value) pairs in order; values keep their folding.
    index
        The first value by lower-case name. Fields beyond `limit` are only in it if their names begin
        with `Content-`: they say how the body is read.
    repeated
        Further (lower-case name, value) pairs of those fields.
    stop
        The position of the blank line, or of the body if there is none.
    skipped
        The damaged lines, at most `limit`, without mbox separators.
    is_cut
        True if there were more than `limit` fields.
    """
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef Py_ssize_t i = start, j, colon = 0, next_line, name_begin = -1, name_end = 0, value_begin = 0, value_end = 0
    cdef Py_ssize_t damaged_begin = -1, begin
    cdef const uint8_t *newline
    cdef list fields = [], repeated = [], skipped = []
    cdef dict index = {}
    cdef bint is_cut = False, has_blank_line = False
    if not 0 <= start <= end <= len(data):
        raise ValueError("no such slice of the message")
    while i < end and p[i] != c"\n":
        newline = <const uint8_t *> memchr(p + i, c"\n", end - i)
        next_line = end if newline == NULL else newline - p + 1
        if p[i] == c" " or p[i] == c"\t":
            value_end = next_line if newline == NULL else next_line - 1
            i = next_line
            continue
        if name_begin >= 0:
            keep_field(fields, index, repeated, p, name_begin, name_end, value_begin, value_end, limit)
            name_begin = -1
        elif damaged_begin >= 0 and len(skipped) < limit:
            skipped.append(slice_of(p, damaged_begin, i))
        damaged_begin = -1
        begin = i if p[i] and p[i] != 0xEF else field_start(p, i, next_line)
        j = field_name_end(p, begin, next_line, &colon)
        if j > begin and colon > j and not has_blank_line:
            has_blank_line = data.find(b"\n\n", i, end) >= 0
            if not has_blank_line:
                break  # "hi : )" in a text that begins without a blank line
        if j > begin:
            is_cut = is_cut or len(fields) >= limit
            if not is_cut or is_content_field(p + begin, j - begin):
                name_begin = begin
                name_end = j
                value_begin = colon + 1
                value_end = next_line if newline == NULL else next_line - 1
                while value_begin < value_end and (p[value_begin] == c" " or p[value_begin] == c"\t"):
                    value_begin += 1
        elif not is_separator(p + i, next_line - i):
            if not has_blank_line:
                has_blank_line = data.find(b"\n\n", i, end) >= 0
                if not has_blank_line:
                    break
            damaged_begin = i
        i = next_line
    if name_begin >= 0:
        keep_field(fields, index, repeated, p, name_begin, name_end, value_begin, value_end, limit)
    elif damaged_begin >= 0 and len(skipped) < limit:
        skipped.append(slice_of(p, damaged_begin, i))
    if not fields and not is_cut and skipped:
        return fields, index, repeated, start, [], False
    return fields, index, repeated, i, skipped, is_cut


cdef inline bint is_content_field(const uint8_t *name, Py_ssize_t size) noexcept nogil:
    return size > 8 and same(name, b"content-", 8)


cdef int keep_field(list fields, dict index, list repeated, const uint8_t *p, Py_ssize_t name_begin, Py_ssize_t name_end,
                    Py_ssize_t value_begin, Py_ssize_t value_end, Py_ssize_t limit) except -1:
    cdef bytes name = slice_of(p, name_begin, name_end), value = slice_of(p, value_begin, value_end)
    cdef bytes lower_name = name.lower()
    if len(fields) < limit:
        fields.append((name, value))
    if lower_name not in index:
        index[lower_name] = value
    elif is_content_field(p + name_begin, name_end - name_begin) and len(repeated) < 8:
        repeated.append((lower_name, value))
    return 0
