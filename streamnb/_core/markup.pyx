# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Header fields, character references and the invisible text of HTML, each in one linear pass."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcmp, memset
from streamnb._core import style_values as values
from streamnb._core.arrays cimport grown
from streamnb._core.buffers cimport (
    Buffer, CODE_POINTS, buffer_put, buffer_room, encode_utf8, is_letter, is_space, lowered,
)


def is_plain(bytes text):
    """Return True for ASCII without encoded words and without escapes of ISO-2022 or HZ."""
    return not is_encoded(text)


def split_header(bytes data, Py_ssize_t start, Py_ssize_t end, Py_ssize_t limit):
    """Split the header at data[start:end] into fields; line ends are LF.

    The header ends at the blank line. Other lines than fields are skipped: mbox separators (`From `), and damaged lines
    with their continuations. Without a blank line, the header ends at its first damaged line, or at the first line with
    a blank before its colon. Without any field, the header is empty.

    Returns
    -------
    fields
        (name, value) pairs in order; values include their folding.
    index
        The first value by lower-case name. After `limit` fields, `index` and `fields` get only fields that describe the
        body or identify the message, and only the first of each name.
    repeated
        Further (lower-case name, value) pairs of such fields.
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
        raise ValueError("the slice is outside the message")
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
                break  # for example, "hi : )" in a text without a blank line
        if j > begin:
            is_cut = is_cut or len(fields) >= limit
            if not is_cut or is_needed_field(p + begin, j - begin):
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


_NEEDED_FIELDS = frozenset(
    b"""content-type content-transfer-encoding content-disposition message-id date from subject to cc
    reply-to""".split()
)


cdef inline bint is_needed_field(const uint8_t *name, Py_ssize_t size):
    """Return True for the fields that describe a part or identify the message."""
    return size <= 25 and lowered_bytes(name, size) in _NEEDED_FIELDS


cdef list _recent_names = [(b"", b"")] * 256  # by hash: names of fields, as written and in lower case


cdef tuple field_names(const uint8_t *p, Py_ssize_t size):
    """Return the name of a field, as written and in lower case; cached, because all mail has the same few names."""
    cdef uint64_t hash = 0
    cdef Py_ssize_t k
    cdef tuple names
    for k in range(min(size, 32)):
        hash = (hash ^ p[k]) * <uint64_t> 0x100000001B3
    names = _recent_names[hash & 255]
    if size > 32 or len(<bytes> names[0]) != size or memcmp(PyBytes_AS_STRING(<bytes> names[0]), p, size):
        name = slice_of(p, 0, size)
        names = name, name.lower()
        if size <= 32:
            _recent_names[hash & 255] = names
    return names


cdef int keep_field(list fields, dict index, list repeated, const uint8_t *p, Py_ssize_t name_begin, Py_ssize_t name_end,
                    Py_ssize_t value_begin, Py_ssize_t value_end, Py_ssize_t limit) except -1:
    cdef bytes name, lower_name, value = slice_of(p, value_begin, value_end)
    name, lower_name = field_names(p + name_begin, name_end - name_begin)
    if len(fields) < limit or lower_name not in index:
        fields.append((name, value))
    if lower_name not in index:
        index[lower_name] = value
    elif is_content_field(p + name_begin, name_end - name_begin) and len(repeated) < 8:
        repeated.append((lower_name, value))
    return 0


# Special elements of the HTML standard: an end tag of another element does not close them. All other tags, including
# unknown ones, are inline.
SPECIAL_TAGS = frozenset(
    b"""address applet area article aside base basefont bgsound blockquote body br button caption
    center col colgroup dd details dir div dl dt embed fieldset figcaption figure footer form frame
    frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html iframe img input keygen li link listing
    main marquee menu meta nav noembed noframes noscript object ol p param plaintext pre script
    search section select source style summary table tbody td template textarea tfoot th thead title
    tr track ul wbr xmp""".split()
)
# Only these tags end a word: "V<b></b>iagra" is one word.
_BREAKING_TAGS = (SPECIAL_TAGS | frozenset((b"dialog", b"legend", b"optgroup", b"option", b"rt", b"rp"))) - frozenset(
    b"base link meta noembed noframes param script source style template title track wbr".split()
)
# Elements in which tags are text; and those of them that mail programs do not show.
_UNSHOWN_RAW_TAGS = frozenset((b"title", b"iframe", b"noembed", b"noframes"))
RAW_TEXT_TAGS = _UNSHOWN_RAW_TAGS | {b"script", b"style", b"textarea", b"xmp"}
_entities: dict = {}


cdef tuple entity(bytes name):
    """Return the character of a reference as UTF-8 and the bytes of its name, or None.

    A name ends with its semicolon. A few names need none, even before further letters: `&eacutegal`.
    """
    reference = _entities.get(name)
    if reference is None and name not in _entities:
        from html.entities import html5  # imported late: few messages need this table

        text = name.decode("ascii")
        decoded = html5.get(text)
        size = len(text.rstrip(";"))
        while decoded is None and size > 1:
            decoded = html5.get(text[:size])
            size -= decoded is None
        reference = None if decoded is None else (decoded.encode(), size)
        if len(_entities) < 4096:
            _entities[name] = reference
    return reference


cdef Py_ssize_t read_entity(
    Buffer *out, const uint8_t *p, Py_ssize_t i, Py_ssize_t n, bint in_attribute,
) except -1:
    """Append the character of the reference at p[i] == '&'; return the position after it.

    In an attribute, a name without a semicolon before a letter, a digit or = is a parameter of a link, not a reference.
    """
    cdef Py_ssize_t j = i + 1, limit = min(n, i + 34), begin
    cdef uint32_t number = 0
    cdef int base = 10, digit
    cdef bytes character
    if j < n and p[j] == c"#":
        j += 1
        if j < n and lowered(p[j]) == c"x":
            base = 16
            j += 1
        begin = j
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
        if j == begin:  # no digit
            buffer_put(out, b"&", 1)
            return i + 1
        if number == 0 or number >= CODE_POINTS or 0xD800 <= number < 0xE000:
            number = 0xFFFD
        elif 0x80 <= number < 0xA0:  # browsers read them as windows-1252
            number = ord(bytes((number,)).decode("cp1252", "replace"))
        buffer_room(out, 4)
        out.size += encode_utf8(number, out.bytes + out.size)
    else:
        while j < limit and (is_letter(p[j]) or c"0" <= p[j] <= c"9"):
            j += 1
        if j < n and p[j] == c";":
            j += 1
        reference = entity(PyBytes_FromStringAndSize(<const char *> p + i + 1, j - i - 1)) if j > i + 1 else None
        if reference is None:
            buffer_put(out, b"&", 1)
            return i + 1
        character, size = reference
        j = i + 1 + <Py_ssize_t> size
        if in_attribute and j < n and (is_letter(p[j]) or c"0" <= p[j] <= c"9" or p[j] == c"="):
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
                i = read_entity(&out, p, i, n, True)
            else:
                buffer_put(&out, p + i, 1)
                i += 1
        return PyBytes_FromStringAndSize(<const char *> out.bytes, out.size)
    finally:
        free(out.bytes)


# Invisible text of HTML, found by the styles of its elements in one linear pass over the tags.

cdef enum:
    VOID = 1           # the tag has no content
    SPECIAL = 2        # see SPECIAL_TAGS
    UNSHOWN = 8        # mail programs do not show the element
    LINK = 16          # a, nobr, button: closes another one
    PARAGRAPH = 32     # closes an open p
    ITEM = 64          # li, dt, dd, option: closes another one
    CELL = 128         # td, th: closes another one
    TABLE_ROW = 256    # tr: closes a cell and another tr
    IS_P = 512
    IN_HEAD = 1024     # elements before the body: their text is invisible
    ROWS = 2048        # thead, tbody, tfoot: closes a cell, a row and another one of the three
    TABLE = 4096
    LIST = 8192
    HEADING = 16384    # its end tag closes any open heading
    CLOSED = 32768     # details, dialog: invisible unless the element is open
    SUMMARY = 65536    # visible in closed details
    IS_A = 131072
    HAS_TARGET = 1 << 20     # the element has a href
    HAS_OWN_COLOUR = 1 << 21
    IS_HIDDEN = 1 << 22      # the element has the attribute hidden or popover
    IS_BLOCK = 1 << 23       # its style separates it from the text around it
    HIDDEN_IN_DETAILS = 2    # value of `Element.hides`
    TAG_SLOTS = 512

    MAX_ELEMENTS = 1024  # number of open elements that are tracked
    MAX_SEARCH = 128     # number of open elements among which the start tag of an end tag is searched
    MAX_STYLE = 2000     # number of bytes read of a style attribute
    MAX_ATTRIBUTES = 64  # number of attributes of an element that are compared with selectors

NO_CONTEXT = (0, 0, 0, 0, ())
cdef struct Element:
    uint64_t tag
    int32_t colour
    int32_t background
    uint8_t hides      # inherited; children cannot undo it
    uint8_t shrinks
    uint8_t conceals
    uint32_t kind
    uint64_t ancestors # mask of `StyleRules`, including its own atoms
    uint64_t own       # mask of its own atoms
    uint64_t previous  # mask of its last child so far
    uint64_t earlier   # mask of all its children so far
    uint32_t children  # their number
    Py_ssize_t scope   # number of a set of `styles.Variables`

_VOID = frozenset(
    b"area base br col embed hr img input link meta param source track wbr basefont bgsound frame keygen".split()
)
_UNSHOWN_TAGS = _UNSHOWN_RAW_TAGS | frozenset(
    b"template datalist audio video meter progress rp desc defs annotation annotation-xml".split()
)
_PARAGRAPH_TAGS = frozenset(
    b"""address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption
    figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre
    search section summary table ul xmp""".split()
)
cdef struct TagKind:
    uint64_t tag
    uint32_t kind

cdef TagKind[TAG_SLOTS] tag_kinds  # open addressing; 0 marks an empty slot


cdef int set_tag_kinds() except -1:
    cdef uint64_t tag_id
    cdef Py_ssize_t slot
    kinds = {}
    for kind, tags in (
        (VOID, _VOID), (SPECIAL, SPECIAL_TAGS), (RAW, RAW_TEXT_TAGS), (UNSHOWN, _UNSHOWN_TAGS),
        (IN_HEAD, b"html head meta title link style base script".split()),
        (LINK, (b"a", b"nobr", b"button")), (IS_A, (b"a",)), (ITEM, (b"li", b"dt", b"dd", b"option")),
        (CELL, (b"td", b"th")), (TABLE_ROW, (b"tr",)), (ROWS, (b"thead", b"tbody", b"tfoot")),
        (TABLE, (b"table",)), (LIST, b"ul ol dl menu dir select".split()), (IS_P, (b"p",)),
        (HEADING, b"h1 h2 h3 h4 h5 h6".split()), (CLOSED, (b"details", b"dialog")),
        (SUMMARY, (b"summary",)), (PARAGRAPH, _PARAGRAPH_TAGS), (BREAKS_WORD, _BREAKING_TAGS),
        (LINK_VALUE, b"href src action background formaction poster xlink:href".split()),
        (SEEN_VALUE, (b"alt", b"title")), (VALUE_WITH_LINKS, (b"style", b"content", b"srcset")),
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


cdef uint32_t kind_of_name(const uint8_t *p, Py_ssize_t n, uint64_t *name_id) noexcept nogil:
    """Return the kind of a tag or attribute, and set its hash. Case is ignored."""
    cdef Py_ssize_t k, slot
    name_id[0] = 0
    for k in range(n):
        name_id[0] = (name_id[0] ^ lowered(p[k])) * <uint64_t> 0x100000001B3
    slot = name_id[0] & (TAG_SLOTS - 1)
    while tag_kinds[slot].tag and tag_kinds[slot].tag != name_id[0]:
        slot = (slot + 1) & (TAG_SLOTS - 1)
    return tag_kinds[slot].kind


cdef int64_t HIDES = values.HIDES, HAS_NO_SIZE = values.HAS_NO_SIZE
cdef int SHRINKS = values.SHRINKS, ENLARGES = values.ENLARGES
cdef int DISPLAYS = values.DISPLAYS, BREAKS = values.BREAKS, CLIPS = values.CLIPS
cdef int CONCEALS = values.CONCEALS, REVEALS = values.REVEALS, REMOVES = values.REMOVES
cdef int INHERITED = values.INHERITED, UNKNOWN = values.UNKNOWN, TRANSPARENT = values.TRANSPARENT
cdef int PARENT = values.PARENT, CURRENT = values.CURRENT, SAME_COLOUR = values.SAME_COLOUR
cdef object _styles = None  # the module, imported for the first page with a style


cdef object styles():
    global _styles
    if _styles is None:
        from streamnb._core import styles as module

        _styles = module
    return _styles


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


cdef inline bint is_inline_block(const Element *e) noexcept nogil:
    """Return True if the style of an element ends a word that its tag does not end."""
    return e.kind & (IS_BLOCK | SPECIAL) == IS_BLOCK


cdef int32_t attribute_colour(const uint8_t *p, Py_ssize_t n) except? -9:
    """Return the colour of an attribute; #rrggbb is read without a call of Python."""
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
                break
        else:
            return colour
    from streamnb._core.colours import read_attribute_colour  # imported late: few pages need it

    return read_attribute_colour(PyBytes_FromStringAndSize(<const char *> p, min(n, 128)))


cdef int set_colour(Element *e, int32_t colour) noexcept nogil:
    if colour == INHERITED:
        return 0
    e.kind |= HAS_OWN_COLOUR
    if colour != PARENT:
        e.colour = colour
    return 0


cdef enum:  # attributes of an element; the first of several with one name has effect
    SEEN_COLOUR = 1
    SEEN_BACKGROUND = 2
    SEEN_TEXT = 4
    IS_OPEN = 8


cdef int style_by_attribute(Element *e, uint32_t *flags, const uint8_t *name, Py_ssize_t size, const uint8_t *value,
                            Py_ssize_t n, bint is_body) except -1:
    """Change an element by one of its attributes other than its style."""
    cdef int32_t background
    if size == 5 and not flags[0] & SEEN_COLOUR and same(name, b"color", 5):
        flags[0] |= SEEN_COLOUR
        set_colour(e, attribute_colour(value, n))
    elif size == 7 and not flags[0] & SEEN_BACKGROUND and same(name, b"bgcolor", 7):
        flags[0] |= SEEN_BACKGROUND
        background = attribute_colour(value, n)
        if background != INHERITED:
            e.background = background
    elif size == 4 and is_body and not flags[0] & SEEN_TEXT and same(name, b"text", 4):
        flags[0] |= SEEN_TEXT
        set_colour(e, attribute_colour(value, n))
    elif size == 4 and same(name, b"href", 4):
        e.kind |= HAS_TARGET
    elif size == 4 and same(name, b"open", 4):
        flags[0] |= IS_OPEN
    elif size == 4 and same(name, b"size", 4):
        e.shrinks = 0
    elif size == 6 and same(name, b"hidden", 6) or size == 7 and same(name, b"popover", 7):
        e.kind |= IS_HIDDEN
    elif size == 10 and same(name, b"background", 10):
        e.background = UNKNOWN
    return 0


cdef int style_element(Element *e, style) except -1:
    """Change an element by a `Style`."""
    cdef int64_t flags = style[0]
    cdef int32_t background = style[2]
    if flags & (HIDES | REMOVES) or flags & CLIPS and flags & HAS_NO_SIZE:
        e.hides = 1
    if flags & DISPLAYS:
        e.kind &= ~<uint32_t> (IS_HIDDEN | IS_BLOCK)
        if flags & BREAKS:
            e.kind |= IS_BLOCK
    if flags & (SHRINKS | ENLARGES):
        e.shrinks = flags & SHRINKS != 0
    if flags & (CONCEALS | REVEALS):
        e.conceals = flags & CONCEALS != 0
    set_colour(e, style[1])
    if background == CURRENT:
        e.background = e.colour
    elif background != INHERITED:
        e.background = background
    return 0


cdef int style_in_scope(Element *e, style, variables) except -1:
    """Change an element by a `Style` that may set or use custom properties."""
    if style[3]:
        e.scope, style = variables.resolve(e.scope, style)
    return style_element(e, style)


cdef int style_page(Element *stack, Py_ssize_t used, rules, variables) except -1:
    """Apply the rules about the whole page to the open elements before the body."""
    cdef Py_ssize_t k
    for k in range(used + 1):
        for tag in (b"html", b"body"):
            style_in_scope(&stack[k], rules.styles(tag, b"", b"", 0)[3], variables)
        stack[k].hides = 0
        if rules.has_unknown_background:
            stack[k].background = UNKNOWN
    return 0


cdef uint64_t parent_mask(const Element *stack, Py_ssize_t used, uint64_t tag_id, rules) except? 0:
    """Return the mask of an element's parent, which is the body even if the body has no tag."""
    if used and not stack[used].kind & IN_HEAD:
        return stack[used].own
    if tag_id == BODY:
        return stack[used].own | <uint64_t> rules.mask_of(b"html")
    return rules.mask_of(b"body")


cdef Py_ssize_t close_implied(const Element *stack, Py_ssize_t used, uint64_t tag_id, uint32_t kind) noexcept nogil:
    """Close the elements that a start tag of a kind ends; return the number of open elements."""
    cdef Py_ssize_t k, depth = used
    cdef uint32_t ended, barrier
    if kind & (CELL | TABLE_ROW | ROWS):
        ended = CELL
        if not kind & CELL:
            ended |= TABLE_ROW if kind & TABLE_ROW else TABLE_ROW | ROWS
        for k in range(used, max(used - MAX_SEARCH, 0), -1):
            if stack[k].kind & TABLE:
                break
            if stack[k].kind & ended:
                depth = k - 1
        return depth
    if kind & (ITEM | LINK):
        barrier = SPECIAL if kind & LINK else LIST | TABLE | CELL
        for k in range(used, max(used - MAX_SEARCH, 0), -1):
            if stack[k].tag == tag_id or stack[k].kind & kind & ITEM:
                return k - 1
            if stack[k].kind & barrier:
                break
    if kind & PARAGRAPH:
        for k in range(used, max(used - MAX_SEARCH, 0), -1):
            if stack[k].kind & IS_P:
                return k - 1
            # An inline element that hides its text, such as <b hidden>, is opened again after the paragraph.
            if stack[k].kind & SPECIAL or is_hidden(&stack[k]) != is_hidden(&stack[k - 1]):
                break
    return used


cdef Py_ssize_t close_element(const Element *stack, Py_ssize_t used, uint64_t tag_id, uint32_t kind) noexcept nogil:
    """Close the elements that an end tag ends; return the number of open elements."""
    cdef Py_ssize_t k
    for k in range(used, max(used - MAX_SEARCH, 0), -1):
        if stack[k].tag == tag_id or stack[k].kind & kind & HEADING:
            return k - 1
        if not kind & SPECIAL and stack[k].kind & SPECIAL:
            break
        if stack[k].kind & (CELL | TABLE) and not kind & (CELL | TABLE_ROW | ROWS | TABLE):
            break
    return used


cdef inline bint same(const uint8_t *p, const char *name, Py_ssize_t n) noexcept nogil:
    """Return True if the n bytes at p equal the lower-case name, ignoring case."""
    cdef Py_ssize_t i
    for i in range(n):
        if lowered(p[i]) != <uint8_t> name[i]:
            return False
    return True


cdef struct Value:  # of an attribute
    const uint8_t *bytes   # NULL without the attribute
    Py_ssize_t size

cdef struct StyleSources:  # attributes that style an element, or describe a style sheet
    Value style, class_names, element_id, media, sheet_type
    uint32_t flags


cdef inline int set_value(Value *value, const uint8_t *p, Py_ssize_t size) noexcept nogil:
    value.bytes, value.size = p, size
    return 0


cdef inline bytes value_bytes(const Value *value):
    """Return the value of an attribute, empty without the attribute."""
    return b"" if value.bytes == NULL else slice_of(value.bytes, 0, value.size)


cdef inline bint begins_comment(const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    return i + 3 < n and p[i + 1] == c"!" and p[i + 2] == c"-" and p[i + 3] == c"-"


cdef Py_ssize_t read_tag_name(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, Tag *tag) noexcept nogil:
    """Read the name of the tag whose < is at i; return the position after the name."""
    tag.start = i
    i += 1
    tag.is_end = p[i] == c"/"
    if tag.is_end:
        i += 1
    tag.name = i
    while i < n and (is_letter(p[i]) or c"0" <= p[i] <= c"9" or p[i] == c":" or p[i] == c"-"):
        i += 1
    tag.name_end = min(i, tag.name + 32)
    tag.kind = kind_of_name(p + tag.name, tag.name_end - tag.name, &tag.id)
    return i


def hidden_spans(bytes page):
    """Return the invisible spans of a page of HTML, or None if there are none.

    The spans are (start, end) pairs in ascending order, as the bytes of an int64 array. They cover comments and hidden
    elements. An element is hidden by `hidden`, `style`, a style sheet, or a colour similar to the background.
    A pair with the end 0 is no span: its start is the end of a tag that ends a word because of its style.
    """
    cdef HiddenText hidden_text = HiddenText(page, None)
    hidden_text.read_tags()
    if hidden_text.has_late_sheet:  # it applies to the elements before it, too
        hidden_text = HiddenText(page, hidden_text.rules)
        hidden_text.read_tags()
    return hidden_text.result()


@cython.final
cdef class HiddenText:
    """One pass over the tags of a page, with a stack of the open elements.

    `rules` are all rules of the page's style sheets. If it is None, the pass reads the style sheets; `has_late_sheet`
    is True if one of them is inside the body.
    """

    cdef bytes page
    cdef const uint8_t *p
    cdef Py_ssize_t n
    cdef Quotes quotes
    cdef Element *stack       # [0] is the page
    cdef Py_ssize_t used      # number of open elements
    cdef Buffer spans
    cdef Py_ssize_t region    # start of the open hidden span, -1 if text is visible
    cdef set unclosed         # tags whose text has no end
    cdef object rules         # `StyleRules`; None before the first style sheet
    cdef object variables     # `styles.Variables`; None before the first style
    cdef set rule_tags
    cdef bint has_universal_rule, is_complete, is_in_head, has_late_sheet
    cdef bint ends_word       # the last tag is that of an inline element with the style of a block

    def __cinit__(self, bytes page, rules):
        self.page, self.rules, self.is_complete = page, rules, rules is not None
        self.p, self.n = <const uint8_t *> PyBytes_AS_STRING(page), len(page)
        self.quotes.double = self.quotes.single = self.n
        self.stack = <Element *> grown(NULL, (MAX_ELEMENTS + 2) * sizeof(Element))
        memset(self.stack, 0, sizeof(Element))
        self.stack[0].background = 0xFFFFFF
        self.region = -1
        self.unclosed, self.rule_tags = set(), set()
        self.is_in_head = True
        if self.is_complete:
            self.index_rules()
            style_page(self.stack, 0, rules, self.variables)

    def __dealloc__(self):
        free(self.stack)
        free(self.spans.bytes)

    cdef object result(self):
        """Return the hidden spans, None if there are none."""
        return PyBytes_FromStringAndSize(<const char *> self.spans.bytes, self.spans.size) if self.spans.size else None

    cdef int hide(self, int64_t begin, int64_t end) except -1:
        """Hide a span, unless it is inside the open one."""
        cdef int64_t[2] span
        if self.region < 0:
            span[0], span[1] = begin, end
            buffer_put(&self.spans, span, sizeof(span))
        return 0

    cdef int read_tags(self) except -1:
        """Hide the invisible text of the page."""
        cdef Py_ssize_t i = 0
        cdef Tag tag
        while True:
            i = self.next_tag(i, &tag)
            if i < 0:
                break
            self.ends_word = False
            i = self.read_end_tag(i, &tag) if tag.is_end else self.read_start_tag(i, &tag)
            self.begin_or_end_region(tag.start, i)
            if self.ends_word:
                self.hide(i, 0)
        return self.end_region(self.n)

    cdef inline int begin_or_end_region(self, Py_ssize_t tag_start, Py_ssize_t tag_end) except -1:
        """Begin a hidden span after a tag, or end the open one before the tag."""
        if not is_hidden(&self.stack[self.used]):
            self.end_region(tag_start)
        elif self.region < 0:
            self.region = tag_end
        return 0

    cdef int end_region(self, Py_ssize_t end) except -1:
        cdef Py_ssize_t begin = self.region
        self.region = -1
        return self.hide(begin, end) if 0 <= begin < end else 0

    cdef inline Py_ssize_t next_tag(self, Py_ssize_t i, Tag *tag) except -2:
        """Read the name of the next tag, and hide comments before it.

        Return the position after the name, -1 if there is no further tag.
        """
        cdef const uint8_t *p = self.p
        cdef const uint8_t *bracket
        cdef Py_ssize_t n = self.n, end
        while i < n:
            bracket = <const uint8_t *> memchr(p + i, c"<", n - i)
            if bracket == NULL:
                break
            i = bracket - p
            if begins_comment(p, i, n):
                end = comment_end(p, i + 4, n)
                if end < 0:  # the comment extends to the end of the page
                    end = n
                self.hide(i, end)
                i = end
            elif i + 1 < n and (is_letter(p[i + 1]) or p[i + 1] == c"/"):
                return read_tag_name(p, i, n, tag)
            else:
                if i + 1 < n and (p[i + 1] == c"!" or p[i + 1] == c"?"):
                    while i < n and p[i] != c">":
                        i += 1
                i += 1
        return -1

    cdef inline Py_ssize_t read_end_tag(self, Py_ssize_t i, const Tag *tag) except -1:
        """Close an element; return the position after its end tag."""
        cdef Attribute attribute
        cdef Py_ssize_t k, used
        while True:
            i = read_attribute(self.p, i, self.n, &self.quotes, &attribute)
            if attribute.name_end == attribute.name:
                break
        used = close_element(self.stack, self.used, tag.id, tag.kind)
        for k in range(used + 1, self.used + 1):
            self.ends_word |= is_inline_block(&self.stack[k])
        self.used = used
        return i + 1 if i < self.n and self.p[i] == c">" else i

    cdef inline Py_ssize_t read_start_tag(self, Py_ssize_t i, const Tag *tag) except -1:
        """Open an element, or skip it if it has no child elements; return the position after that."""
        cdef StyleSources sources
        cdef dict attributes = None
        cdef Element *element = self.begin_element(tag)
        memset(&sources, 0, sizeof(StyleSources))
        if self.rules is not None and self.rules.attribute_names:
            attributes = {}
        i = self.read_attributes(i, tag, element, &sources, attributes)
        self.style_by_sources(element, tag, &sources, attributes)
        self.ends_word = is_inline_block(element)
        self.stack[self.used].previous = element.own
        self.stack[self.used].earlier |= element.own
        if element.kind & IS_HIDDEN:
            element.hides = 1
        elif tag.kind & CLOSED and not element.hides and not sources.flags & IS_OPEN:
            element.hides = HIDDEN_IN_DETAILS
        if i < self.n and self.p[i] == c">":
            i += 1
        if tag.kind & RAW:
            return self.read_raw_text(i, tag, element, &sources)
        if tag.kind & VOID:
            if is_hidden(element):  # attributes with text, such as alt, are hidden
                self.hide(i, i)
        elif self.used < MAX_ELEMENTS:
            if tag.kind & IS_A and element.kind & HAS_TARGET and not element.kind & HAS_OWN_COLOUR and element.colour >= 0:
                element.colour = 0x0000EE  # the default colour of links in browsers
            self.used += 1
        return i

    cdef inline Element *begin_element(self, const Tag *tag) noexcept:
        """Close the elements that a start tag ends; return its new element, not yet on the stack."""
        cdef Element *parent
        cdef Element *element
        self.used = close_implied(self.stack, self.used, tag.id, tag.kind)
        parent = &self.stack[self.used]
        element = parent + 1
        element[0] = parent[0]
        element.tag, element.kind = tag.id, tag.kind
        element.own = element.previous = element.earlier = element.children = 0
        if self.is_in_head and not tag.kind & IN_HEAD:
            self.is_in_head = False
            if tag.id != BODY:  # the body begins without its tag
                parent.children = parent.previous = parent.earlier = 0
        parent.children += 1
        if tag.kind & SUMMARY and element.hides == HIDDEN_IN_DETAILS:
            element.hides = 0
        if tag.kind & UNSHOWN:
            element.hides = 1
        return element

    cdef inline Py_ssize_t read_attributes(self, Py_ssize_t i, const Tag *tag, Element *element, StyleSources *sources,
                                           dict attributes) except -1:
        """Read the attributes of a start tag; return the position after them.

        `attributes` gets the attributes that selectors compare; it is None if no selector compares one.
        """
        cdef const uint8_t *p = self.p
        cdef const uint8_t *name
        cdef const uint8_t *value
        cdef Py_ssize_t size, value_size
        cdef Attribute attribute
        cdef Py_ssize_t n = self.n
        while True:
            i = read_attribute(p, i, n, &self.quotes, &attribute)
            name, size = p + attribute.name, attribute.name_end - attribute.name
            if size == 0:
                return i
            value, value_size = p + attribute.value, min(attribute.value_end - attribute.value, MAX_STYLE)
            if attributes is not None and len(attributes) < MAX_ATTRIBUTES:
                lower_name = lowered_bytes(name, min(size, MAX_STYLE))
                if lower_name in self.rules.attribute_names:
                    attributes.setdefault(lower_name, slice_of(value, 0, value_size))
            if size > 10:
                continue
            if size == 5 and sources.style.bytes == NULL and same(name, b"style", 5):
                set_value(&sources.style, value, value_size)
            elif size == 5 and sources.class_names.bytes == NULL and same(name, b"class", 5):
                set_value(&sources.class_names, value, value_size)
            elif size == 2 and sources.element_id.bytes == NULL and same(name, b"id", 2):
                set_value(&sources.element_id, value, value_size)
            elif size == 5 and tag.kind & RAW and sources.media.bytes == NULL and same(name, b"media", 5):
                set_value(&sources.media, value, value_size)
            elif size == 4 and tag.kind & RAW and sources.sheet_type.bytes == NULL and same(name, b"type", 4):
                set_value(&sources.sheet_type, value, value_size)
            elif 4 <= size <= 7 or size == 10:
                style_by_attribute(element, &sources.flags, name, size, value, value_size, tag.id == BODY)

    cdef inline int style_by_sources(self, Element *element, const Tag *tag, const StyleSources *sources,
                              dict attributes) except -1:
        """Change an element by its style and by the rules of the style sheets that match it."""
        style = None if sources.style.bytes == NULL else styles().read_style(value_bytes(&sources.style))
        if self.rules is not None and (
            sources.class_names.bytes != NULL or sources.element_id.bytes != NULL or self.has_universal_rule
            or tag.id in self.rule_tags
        ):
            mask, sheet_style, important_style, both_styles = self.rules.styles(
                lowered_bytes(self.p + tag.name, tag.name_end - tag.name),
                value_bytes(&sources.class_names),
                value_bytes(&sources.element_id),
                self.stack[self.used].ancestors,
                self.selector_context(tag, attributes) if self.rules.needs_context else NO_CONTEXT,
            )
            element.ancestors |= <uint64_t> mask
            element.own = mask
            if style is None:
                style = both_styles
            elif both_styles != styles().NO_STYLE:
                style = styles().combine_styles(sheet_style, value_bytes(&sources.style), important_style)
        if style is not None:
            self.variables = self.variables or styles().Variables()
            style_in_scope(element, style, self.variables)
        return 0

    cdef tuple selector_context(self, const Tag *tag, dict attributes):
        """Return the parent, the earlier siblings and the attributes of an element, for selectors."""
        cdef const Element *parent = &self.stack[self.used]
        return (
            parent_mask(self.stack, self.used, tag.id, self.rules), parent.previous, parent.earlier, parent.children,
            tuple(attributes.items()) if attributes else (),
        )

    cdef Py_ssize_t read_raw_text(self, Py_ssize_t i, const Tag *tag, const Element *element,
                                  const StyleSources *sources) except -1:
        """Read an element whose content has no tags, such as a style sheet; return its end. Hide its text if invisible."""
        cdef bytes name = lowered_bytes(self.p + tag.name, tag.name_end - tag.name)
        cdef Py_ssize_t end
        cdef bint is_shown
        if name in self.unclosed:
            return i
        end = find_bytes(self.p, i, self.n, b"</" + name)
        is_shown = end >= 0 and not tag.kind & UNSHOWN or name == b"textarea" or name == b"xmp"
        is_shown = is_shown and not is_hidden(element)
        if end < 0 and is_shown:
            self.unclosed.add(name)
            return i
        if end < 0:  # the element extends to the end of the page
            end = self.n
        if not is_shown and end > i:
            self.hide(i, end)
        if name == b"style" and not self.is_complete and (
            value_bytes(&sources.sheet_type).lower().strip() in (b"", b"text/css")
        ):
            sheet = self.page[i:end]
            if sources.media.bytes != NULL:
                sheet = b"@media %b{%b}" % (value_bytes(&sources.media), sheet)
            self.add_sheet(sheet)
        return end

    cdef int add_sheet(self, bytes sheet) except -1:
        """Add the rules of a style sheet."""
        if self.rules is None:
            from streamnb._core.style_rules import StyleRules  # few pages have a sheet

            self.rules = StyleRules()
        if self.rules.add_sheet(sheet):
            self.index_rules()
            self.has_late_sheet = self.has_late_sheet or not self.is_in_head
            if self.is_in_head:
                style_page(self.stack, self.used, self.rules, self.variables)
        return 0

    cdef int index_rules(self) except -1:
        """Index the tags of the rules."""
        self.variables = self.variables or styles().Variables()
        self.rule_tags = {tag_hash(tag) for tag in self.rules.tags}
        self.has_universal_rule = b"*" in self.rules.tags
        return 0


cdef uint64_t tag_hash(bytes tag):
    cdef uint64_t tag_id = 0
    for c in tag:
        tag_id = (tag_id ^ <uint64_t> <int> c) * <uint64_t> 0x100000001B3
    return tag_id


set_tag_kinds()
cdef uint64_t BODY = tag_hash(b"body")
