# HTML to the text that a reader sees, in one linear pass without a tree or recursion.

# Tags that do not end a word: "V<b></b>iagra" is one word.
_INLINE = frozenset(
    b"a abbr acronym b bdo big cite code del em font i ins kbd o:p s samp small span strike strong sub sup tt u wbr".split()
)
_LINKS = frozenset((b"href", b"src", b"action", b"background"))
_SEEN_TEXT = frozenset((b"alt", b"title"))
cdef enum:
    MAX_COMMENT = 4096  # bytes of a comment that are read
_entities: dict = {}


cdef bytes entity(bytes name):
    """Return the character of &name; as UTF-8, or None."""
    character = _entities.get(name)
    if character is None and name not in _entities:
        from html.entities import html5  # imported late: few messages need this table

        text = name.decode("ascii")
        decoded = html5.get(text + ";") or html5.get(text)
        character = None if decoded is None else decoded.encode()
        if len(_entities) < 4096:
            _entities[name] = character
    return character


cdef inline bint is_letter(uint8_t c) noexcept nogil:
    return c"a" <= lowered(c) <= c"z"


cdef inline bint is_space(uint8_t c) noexcept nogil:
    return c == 32 or 9 <= c <= 13


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


cdef bytes lowered_bytes(const uint8_t *p, Py_ssize_t n):
    return PyBytes_FromStringAndSize(<const char *> p, n).lower()


cdef Py_ssize_t read_entity(Buffer *out, const uint8_t *p, Py_ssize_t i, Py_ssize_t n) except -1:
    """Append the character of the reference at p[i] == '&'; return the position after it."""
    cdef Py_ssize_t j = i + 1, limit = min(n, i + 34)
    cdef uint32_t number = 0
    cdef int base = 10, digit
    if j < n and p[j] == c"#":
        j += 1
        if j < n and lowered(p[j]) == c"x":
            base = 16
            j += 1
        while j < limit:
            digit = lowered(p[j]) - c"0"
            if digit > 9:
                digit -= c"a" - c"0" - 10
                if digit < 10:
                    break
            if digit < 0 or digit >= base:
                break
            if number < CODE_POINTS:
                number = number * base + digit
            j += 1
        if number == 0 or number >= CODE_POINTS or 0xD800 <= number < 0xE000:
            number = 0xFFFD
        buffer_room(out, 4)
        out.size += encode_utf8(number, out.bytes + out.size)
    else:
        while j < limit and (is_letter(p[j]) or c"0" <= p[j] <= c"9"):
            j += 1
        character = entity(PyBytes_FromStringAndSize(<const char *> p + i + 1, j - i - 1)) if j > i + 1 else None
        if character is None:
            buffer_put(out, b"&", 1)
            return i + 1
        buffer_put(out, PyBytes_AS_STRING(character), len(character))
    return j + 1 if j < n and p[j] == c";" else j


cdef bytes unescaped(const uint8_t *p, Py_ssize_t n):
    """Return an attribute value with its character references resolved."""
    cdef Buffer out
    cdef Py_ssize_t i = 0
    memset(&out, 0, sizeof(Buffer))
    try:
        while i < n:
            if p[i] == c"&":
                i = read_entity(&out, p, i, n)
            else:
                buffer_put(&out, p + i, 1)
                i += 1
        return PyBytes_FromStringAndSize(<const char *> out.bytes, out.size)
    finally:
        free(out.bytes)


cdef Py_ssize_t comment_end(const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
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


cdef Py_ssize_t read_value(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, Py_ssize_t *begin, Py_ssize_t *end) noexcept nogil:
    """Set the bounds of the attribute value at p[i] without quotes; return the position after it."""
    cdef uint8_t quote = p[i] if i < n else 0
    cdef const uint8_t *stop
    if quote == c'"' or quote == c"'":
        i += 1
        begin[0] = i
        stop = <const uint8_t *> memchr(p + i, c"<", n - i)  # a value ends before the next tag
        end[0] = n if stop == NULL else stop - p
        stop = <const uint8_t *> memchr(p + i, quote, end[0] - i)
        if stop == NULL:
            return end[0]
        end[0] = stop - p
        return end[0] + 1
    begin[0] = i
    while i < n and not is_space(p[i]) and p[i] != c">" and p[i] != c"<":
        i += 1
    end[0] = i
    return i


# These functions take the scanner, because a class body cannot be split over two files.

cdef int count_attribute(Scanner scanner, bytes name, const uint8_t *p, Py_ssize_t n) except -1:
    cdef Py_ssize_t host, i
    cdef bytes link
    if name in _LINKS:
        if memchr(p, c"&", n) != NULL:
            link = unescaped(p, n)
            p = <const uint8_t *> PyBytes_AS_STRING(link)
            n = len(link)
        host = scanner.url_after(p, 0, scheme_end(p, n), n)
        if host >= 0:
            scanner.scan_url(p, host, n)
        else:
            scanner.scan_path(p, n)
    elif name in _SEEN_TEXT:
        buffer_put(&scanner.plain, b" ", 1)
        buffer_put(&scanner.plain, p, n)
        buffer_put(&scanner.plain, b" ", 1)
    elif n <= scanner.longest:
        scanner.line.size = 0
        buffer_put(&scanner.line, PyBytes_AS_STRING(name), len(name))
        buffer_put(&scanner.line, b"=", 1)
        buffer_room(&scanner.line, n)
        for i in range(n):
            scanner.line.bytes[scanner.line.size + i] = lowered(p[i])
        scanner.line.size += n
        scanner.emit(scanner.line.bytes, scanner.line.size, HTML, 5, 16)
    return 0


cdef Py_ssize_t scheme_end(const uint8_t *p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 0
    while i < n and i < 6 and is_letter(p[i]):
        i += 1
    return i


cdef Py_ssize_t read_tag(Scanner scanner, set unclosed, const uint8_t *p, Py_ssize_t i, Py_ssize_t n) except -1:
    """Count the tag whose name begins at p[i], and its attributes; return the position after it.

    `unclosed` holds the elements without an end tag, so that each end is searched once.
    """
    cdef Py_ssize_t begin = i, end = 0, stop
    cdef bint closing = p[i] == c"/"
    cdef bytes tag, name
    if closing:
        begin += 1
        i += 1
    while i < n and (is_letter(p[i]) or c"0" <= p[i] <= c"9" or p[i] == c":" or p[i] == c"-"):
        i += 1
    tag = lowered_bytes(p + begin, min(i - begin, 32))
    if tag not in _INLINE:
        buffer_put(&scanner.plain, b" ", 1)
        if scanner.hidden.size:
            buffer_put(&scanner.hidden, b" ", 1)
    if not closing:
        scanner.emit(<const uint8_t *> PyBytes_AS_STRING(tag), len(tag), HTML, 5)
    while i < n and p[i] != c">" and p[i] != c"<":
        if not is_letter(p[i]):
            i += 1
            continue
        begin = i
        while i < n and (is_letter(p[i]) or p[i] == c"-"):
            i += 1
        name = lowered_bytes(p + begin, min(i - begin, 32))
        while i < n and is_space(p[i]):
            i += 1
        if i < n and p[i] == c"=":
            i += 1
            while i < n and is_space(p[i]):
                i += 1
            i = read_value(p, i, n, &begin, &end)
            if not closing:
                count_attribute(scanner, name, p + begin, end - begin)
    if i < n and p[i] == c">":
        i += 1
    if not closing and (tag == b"script" or tag == b"style") and tag not in unclosed:
        stop = find_bytes(p, i, n, b"</" + tag)
        if stop >= 0:
            return stop
        unclosed.add(tag)
    return i


cdef int html_to_plain(Scanner scanner, const uint8_t *p, Py_ssize_t n, bytes spans) except -1:
    cdef Py_ssize_t i = 0, run, end, k = 0, count = 0 if spans is None else len(spans) // 16
    cdef const int64_t *span = NULL if spans is None else <const int64_t *> PyBytes_AS_STRING(spans)
    cdef Buffer *out = &scanner.plain
    cdef set unclosed = set()
    scanner.plain.size = scanner.hidden.size = 0
    while i < n:
        while k < count and span[2 * k + 1] <= i:
            k += 1
        out = &scanner.hidden if k < count and span[2 * k] <= i else &scanner.plain
        run = i
        while i < n and p[i] != c"<" and p[i] != c"&":
            i += 1
        buffer_put(out, p + run, i - run)
        if i >= n:
            break
        if p[i] == c"&":
            i = read_entity(out, p, i, n)
        elif i + 3 < n and p[i + 1] == c"!" and p[i + 2] == c"-" and p[i + 3] == c"-" and b"<!--" not in unclosed:
            end = comment_end(p, i + 4, n)
            if end < 0:
                unclosed.add(b"<!--")
            elif count:
                count_comment(scanner, p + i + 4, end - i - 4)
            i = i + 4 if end < 0 else end
        elif i + 1 < n and (is_letter(p[i + 1]) or p[i + 1] == c"/"):
            i = read_tag(scanner, unclosed, p, i + 1, n)
        elif i + 1 < n and (p[i + 1] == c"!" or p[i + 1] == c"?"):
            while i < n and p[i] != c">":
                i += 1
            i += 1
        else:
            buffer_put(out, b" ", 1)
            i += 1
    return 0


cdef int count_comment(Scanner scanner, const uint8_t *p, Py_ssize_t n) except -1:
    """Collect the words of a comment, unless it holds markup: its beginning only."""
    n = min(n, MAX_COMMENT)
    if memchr(p, c"<", n) == NULL and memchr(p, c"{", n) == NULL and memchr(p, c"[", n) == NULL:
        buffer_put(&scanner.hidden, b" ", 1)
        buffer_put(&scanner.hidden, p, n)
        buffer_put(&scanner.hidden, b" ", 1)
    return 0
