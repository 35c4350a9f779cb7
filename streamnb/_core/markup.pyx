# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Header fields, character references and the text of HTML that no reader sees, each in one linear pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memchr, memset
from streamnb._core.arrays cimport grown
from streamnb._core.buffers cimport (
    Buffer, CODE_POINTS, buffer_put, buffer_room, encode_utf8, is_letter, is_space, lowered,
)


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
            if not is_cut or is_part_field(p + begin, j - begin):
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


cdef inline bint is_part_field(const uint8_t *name, Py_ssize_t size) noexcept nogil:
    """Return True for the fields that tell how a part is read."""
    return (
        (size == 12 and same(name, b"content-type", 12))
        or (size == 25 and same(name, b"content-transfer-encoding", 25))
        or (size == 19 and same(name, b"content-disposition", 19))
    )


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


# Tags that do not end a word: "V<b></b>iagra" is one word.
INLINE_TAGS = frozenset(
    b"a abbr acronym b bdo big cite code del em font i ins kbd o:p s samp small span strike strong sub sup tt u wbr".split()
)
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


# Text of HTML that no reader sees, by the styles of its elements: one linear pass over the tags.

cdef enum:
    SAME_COLOUR = 24 # largest gap of a channel (0 to 255) at which no reader sees text

    VOID = 1         # of a tag: it has no content
    INLINE = 2       # it does not end a paragraph
    RAW = 4          # script and style
    UNSHOWN = 8      # template
    LINK = 16        # a
    PARAGRAPH = 32   # ends an open p
    ITEM = 64        # li, dt, dd, option: ends another one
    CELL = 128       # td, th: ends another one
    TABLE_ROW = 256  # tr: ends a cell and another one
    IS_P = 512
    IN_HEAD = 1024   # elements before the body: no reader sees text in them
    TAG_SLOTS = 512

    MAX_ELEMENTS = 1024  # open elements that are tracked
    MAX_SEARCH = 128     # open elements among which an end tag looks for its start tag
    MAX_STYLE = 2000     # bytes of a style attribute that are read

cdef struct Element:
    uint64_t tag
    int32_t colour
    int32_t background
    uint8_t hides      # inherited and final
    uint8_t shrinks
    uint8_t conceals
    uint32_t kind
    uint64_t ancestors # mask of `StyleRules`, its own atoms included

_VOID = frozenset(
    b"area base br col embed hr img input link meta param source track wbr basefont bgsound frame keygen".split()
)
INLINE_TAGS_ELEMENTS = INLINE_TAGS | {b"a", b"label", b"nobr"}
cdef struct TagKind:
    uint64_t tag
    uint32_t kind

cdef TagKind[TAG_SLOTS] tag_kinds  # open addressing; 0 for none


cdef int set_tag_kinds() except -1:
    cdef uint64_t tag_id
    cdef Py_ssize_t slot
    kinds = {}
    for kind, tags in (
        (VOID, _VOID), (INLINE, INLINE_TAGS_ELEMENTS), (RAW, (b"script", b"style")), (UNSHOWN, (b"template", b"datalist", b"noframes")),
        (IN_HEAD, b"html head meta title link style base script".split()), (LINK, (b"a",)), (ITEM, (b"li", b"dt", b"dd", b"option")), (CELL, (b"td", b"th")), (TABLE_ROW, (b"tr",)), (IS_P, (b"p",)),
        (PARAGRAPH, b"p div table ul ol dl h1 h2 h3 h4 h5 h6 form hr pre center blockquote".split()),
    ):
        for tag in tags:
            kinds[tag] = kinds.get(tag, 0) | kind
    for tag, kind in kinds.items():
        tag_id = tag_hash(tag)
        slot = tag_id & (TAG_SLOTS - 1)
        while tag_kinds[slot].tag:
            slot = (slot + 1) & (TAG_SLOTS - 1)
        tag_kinds[slot].tag, tag_kinds[slot].kind = tag_id, kind
    return 0


cdef inline uint32_t kind_of_tag(uint64_t tag_id) noexcept nogil:
    cdef Py_ssize_t slot = tag_id & (TAG_SLOTS - 1)
    while tag_kinds[slot].tag and tag_kinds[slot].tag != tag_id:
        slot = (slot + 1) & (TAG_SLOTS - 1)
    return tag_kinds[slot].kind


cdef enum:  # the values of `styles`
    HIDES = 1
    SHRINKS = 2
    ENLARGES = 4
    CONCEALS = 8
    REVEALS = 16
    REMOVES = 32
    INHERITED = -1
    UNKNOWN = -2
    TRANSPARENT = -4

cdef object styles = None  # the module, which is imported for the first page with a style


cdef object styles_module():
    global styles
    if styles is None:
        from streamnb._core import styles as module

        styles = module
    return styles


cdef inline bint similar(int32_t a, int32_t b) noexcept nogil:
    cdef int shift, gap
    if a < 0 or b < 0:
        return False
    for shift in range(0, 24, 8):
        gap = (a >> shift & 255) - (b >> shift & 255)
        if gap > SAME_COLOUR or gap < -SAME_COLOUR:
            return False
    return True


cdef inline bint is_hidden(const Element *e) noexcept nogil:
    return e.hides or e.shrinks or e.conceals or e.colour == TRANSPARENT or similar(e.colour, e.background)


cdef int32_t attribute_colour(const uint8_t *p, Py_ssize_t n) except? -9:
    """Return the colour of an attribute; #rrggbb without a call into Python."""
    cdef Py_ssize_t i
    cdef int32_t colour = 0
    cdef uint8_t c
    if n == 7 and p[0] == c"#":
        for i in range(1, 7):
            c = lowered(p[i])
            if c"0" <= c <= c"9":
                colour = colour << 4 | (c - c"0")
            elif c"a" <= c <= c"f":
                colour = colour << 4 | (c - c"a" + 10)
            else:
                return UNKNOWN
        return colour
    return styles_module().read_colour(PyBytes_FromStringAndSize(<const char *> p, min(n, 64)))


cdef int style_by_attribute(Element *e, const uint8_t *name, Py_ssize_t size, const uint8_t *value, Py_ssize_t n,
                            bint is_body) except -1:
    """Change an element by one of its attributes other than its style."""
    if size == 5 and same(name, b"color", 5):
        e.colour = attribute_colour(value, n)
    elif size == 7 and same(name, b"bgcolor", 7):
        e.background = attribute_colour(value, n)
    elif size == 4 and is_body and same(name, b"text", 4):
        e.colour = attribute_colour(value, n)
    elif size == 4 and same(name, b"size", 4):
        e.shrinks = 0
    elif size == 6 and same(name, b"hidden", 6):
        e.hides = 1
    elif size == 10 and same(name, b"background", 10):
        e.background = UNKNOWN
    return 0


cdef int style_element(Element *e, style) except -1:
    """Change an element by a `Style`."""
    cdef int flags = style[0]
    cdef int32_t colour = style[1], background = style[2]
    if flags & (HIDES | REMOVES):
        e.hides = 1
    if flags & (SHRINKS | ENLARGES):
        e.shrinks = flags & SHRINKS != 0
    if flags & (CONCEALS | REVEALS):
        e.conceals = flags & CONCEALS != 0
    if colour != INHERITED:
        e.colour = colour
    if background != INHERITED:
        e.background = background
    return 0


cdef int style_page(Element *stack, Py_ssize_t used, rules) except -1:
    """Change the open elements, which are before the body, by the rules about the whole page."""
    cdef Py_ssize_t k
    for k in range(used + 1):
        for tag in (b"html", b"body"):
            style_element(&stack[k], rules.styles(tag, b"", b"", 0)[3])
        stack[k].hides = 0
        if rules.has_unknown_background:
            stack[k].background = UNKNOWN
    return 0


cdef inline bint same(const uint8_t *p, const char *name, Py_ssize_t n) noexcept nogil:
    """Return True if the n bytes at p are the lower-case name, in any case."""
    cdef Py_ssize_t i
    for i in range(n):
        if lowered(p[i]) != <uint8_t> name[i]:
            return False
    return True


def hidden_spans(bytes page):
    """Return the spans of a page of HTML that no reader sees, or None if there are none.

    The spans are (start, end) pairs in rising order, as the bytes of an int64 array. They cover
    comments and the text of elements that are hidden by `hidden`, `style`, style sheets, or a colour
    like that of the background.
    """
    cdef bint has_late_sheet = False
    spans, rules = find_hidden(page, None, &has_late_sheet)
    if has_late_sheet:  # it holds for the elements before it, too
        spans, _ = find_hidden(page, rules, &has_late_sheet)
    return spans


cdef tuple find_hidden(bytes page, rules, bint *has_late_sheet):
    """Return the hidden spans of a page, and the rules of its style sheets.

    If `rules` is not None, they are all rules of the page. Else style sheets are read on the way;
    `has_late_sheet` is set to True if one comes after the beginning of the body.
    """
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(page)
    cdef const uint8_t *next_tag
    cdef Py_ssize_t n = len(page), i = 0, begin, end, name_begin, name_end, value_begin = 0, value_end = 0, k, tag_start
    cdef Py_ssize_t used = 0, region = -1
    cdef Element *stack = NULL
    cdef Element element
    cdef Buffer spans
    cdef bint closing, hidden
    cdef uint32_t kind, open_kind
    cdef set unclosed = set()
    cdef bint is_complete = rules is not None, is_in_head = True, has_universal_rule = False
    cdef set rule_tags = set()
    cdef bytes tag
    cdef const uint8_t *style = NULL
    cdef const uint8_t *class_names = NULL
    cdef const uint8_t *element_id = NULL
    cdef Py_ssize_t style_size = 0, class_size = 0, id_size = 0
    cdef uint64_t tag_id
    cdef int64_t[2] span
    memset(&spans, 0, sizeof(Buffer))
    try:
        stack = <Element *> grown(NULL, (MAX_ELEMENTS + 1) * sizeof(Element))
        memset(stack, 0, sizeof(Element))
        stack[0].colour, stack[0].background = 0, 0xFFFFFF
        if is_complete:
            style_page(stack, 0, rules)
            rule_tags = hashed_tags(rules.tags)
            has_universal_rule = b"*" in rules.tags
        while i < n:
            next_tag = <const uint8_t *> memchr(p + i, c"<", n - i)
            if next_tag == NULL:
                break
            i = tag_start = next_tag - p
            if i + 3 < n and p[i + 1] == c"!" and p[i + 2] == c"-" and p[i + 3] == c"-" and b"<!--" not in unclosed:
                end = comment_end(p, i + 4, n)
                if end < 0:
                    unclosed.add(b"<!--")
                    i += 4
                    continue
                if region < 0:
                    span[0], span[1] = i, end
                    buffer_put(&spans, span, sizeof(span))
                i = end
                continue
            if i + 1 >= n or not (is_letter(p[i + 1]) or p[i + 1] == c"/"):
                if i + 1 < n and (p[i + 1] == c"!" or p[i + 1] == c"?"):
                    while i < n and p[i] != c">":
                        i += 1
                i += 1
                continue
            i += 1
            closing = p[i] == c"/"
            if closing:
                i += 1
            begin = i
            while i < n and (is_letter(p[i]) or c"0" <= p[i] <= c"9" or p[i] == c":" or p[i] == c"-"):
                i += 1
            end = min(i, begin + 32)
            tag_id = 0
            for k in range(begin, end):
                tag_id = (tag_id ^ lowered(p[k])) * <uint64_t> 0x100000001B3
            kind = kind_of_tag(tag_id)
            if not closing:
                open_kind = stack[used].kind
                if (kind & PARAGRAPH and open_kind & IS_P) or kind & open_kind & (ITEM | CELL):
                    used -= 1
                elif kind & TABLE_ROW:
                    if stack[used].kind & CELL:
                        used -= 1
                    if stack[used].kind & TABLE_ROW:
                        used -= 1
                element = stack[used]
                element.tag, element.kind = tag_id, kind
                is_in_head = is_in_head and kind & IN_HEAD
                style = class_names = element_id = NULL
                if kind & UNSHOWN:
                    element.hides = 1
            while i < n and p[i] != c">" and p[i] != c"<":
                if not is_letter(p[i]):
                    i += 1
                    continue
                name_begin = i
                while i < n and (is_letter(p[i]) or p[i] == c"-"):
                    i += 1
                name_end = i
                while i < n and is_space(p[i]):
                    i += 1
                value_begin = value_end = i
                if i < n and p[i] == c"=":
                    i += 1
                    while i < n and is_space(p[i]):
                        i += 1
                    i = read_value(p, i, n, &value_begin, &value_end)
                k = name_end - name_begin
                if closing:
                    continue
                if k == 5 and same(p + name_begin, b"style", 5):
                    style, style_size = p + value_begin, min(value_end - value_begin, MAX_STYLE)
                elif k == 5 and same(p + name_begin, b"class", 5):
                    class_names, class_size = p + value_begin, min(value_end - value_begin, MAX_STYLE)
                elif k == 2 and same(p + name_begin, b"id", 2):
                    element_id, id_size = p + value_begin, min(value_end - value_begin, MAX_STYLE)
                elif 4 <= k <= 7 or k == 10:
                    style_by_attribute(&element, p + name_begin, k, p + value_begin, value_end - value_begin, tag_id == BODY)
            if not closing:
                own_style = None if style == NULL else styles_module().read_style(slice_of(style, 0, style_size))
                if rules is not None and (
                    class_names != NULL or element_id != NULL or has_universal_rule or tag_id in rule_tags
                ):
                    mask, sheet_style, important_style, both_styles = rules.styles(
                        lowered_bytes(p + begin, end - begin),
                        b"" if class_names == NULL else slice_of(class_names, 0, class_size),
                        b"" if element_id == NULL else slice_of(element_id, 0, id_size),
                        stack[used].ancestors,
                    )
                    element.ancestors |= <uint64_t> mask
                    if own_style is None:
                        own_style = both_styles
                    elif both_styles != styles.NO_STYLE:
                        own_style = styles.cascade((sheet_style, own_style, important_style))
                if own_style is not None:
                    style_element(&element, own_style)
            if i < n and p[i] == c">":
                i += 1
            if closing:
                for k in range(used, max(used - MAX_SEARCH, 0), -1):
                    if stack[k].tag == tag_id:
                        used = k - 1
                        break
                    if kind & INLINE and not stack[k].kind & INLINE:
                        break  # an inline element does not end a block within it
            elif kind & RAW:
                tag = lowered_bytes(p + begin, end - begin)
                if tag not in unclosed:
                    end = find_bytes(p, i, n, b"</" + tag)
                    if end < 0:
                        unclosed.add(tag)
                    else:
                        if tag == b"style" and not is_complete:
                            rules = rules or styles_module().StyleRules()
                            if rules.add_sheet(page[i:end]):
                                rule_tags = hashed_tags(rules.tags)
                                has_universal_rule = b"*" in rules.tags
                                has_late_sheet[0] = has_late_sheet[0] or not is_in_head
                                if is_in_head:
                                    style_page(stack, used, rules)
                        i = end
            elif not kind & VOID and used < MAX_ELEMENTS:
                if kind & LINK and element.colour == stack[used].colour and element.colour >= 0:
                    element.colour = 0x0000EE  # browsers' colour of links
                used += 1
                stack[used] = element
            hidden = is_hidden(&stack[used])
            if hidden and region < 0:
                region = i
            elif not hidden and region >= 0:
                if tag_start > region:
                    span[0], span[1] = region, tag_start
                    buffer_put(&spans, span, sizeof(span))
                region = -1
        if 0 <= region < n:
            span[0], span[1] = region, n
            buffer_put(&spans, span, sizeof(span))
        if spans.size == 0:
            return None, rules
        return PyBytes_FromStringAndSize(<const char *> spans.bytes, spans.size), rules
    finally:
        free(stack)
        free(spans.bytes)


cdef set hashed_tags(tags):
    return {tag_hash(tag) for tag in tags}


cdef uint64_t tag_hash(bytes tag):
    cdef uint64_t tag_id = 0
    for c in tag:
        tag_id = (tag_id ^ <uint64_t> <int> c) * <uint64_t> 0x100000001B3
    return tag_id


set_tag_kinds()
cdef uint64_t BODY = tag_hash(b"body")
