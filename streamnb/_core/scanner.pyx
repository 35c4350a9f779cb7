# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""The token scanner: UTF-8 text to distinct tokens with fingerprints and counts, in one pass."""

import unicodedata

from streamnb._core.hashing import DEFAULT_KEY, fingerprint

cimport numpy as cnp
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport ldexp
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcpy, memmove, memset
from streamnb._core.arrays cimport MAX_NAMES, grown, new_array
from streamnb._core.buffers cimport (
    Buffer, CODE_POINTS, buffer_put, buffer_room, buffer_shrink, decode_utf8, encode_utf8, is_letter, is_space,
    lowered,
)
from streamnb._core.hashing cimport PyUnicode_IS_ASCII, read_key, snb_copy, snb_siphash13, snb_siphash13_padded, utf8
from streamnb._core.markup cimport (
    BREAKS_WORD, LINK_VALUE, RAW, SEEN_VALUE, VALUE_WITH_LINKS, Attribute, Quotes, Tag, comment_end, find_bytes,
    is_encoded, kind_of_name, lowered_bytes, read_attribute, read_entity, read_tag_name, slice_of, unescaped,
)
from streamnb._core.table cimport table_find, table_free, table_row

cnp.import_array()

# Scripts without spaces between words: Thai, Lao, Myanmar, Khmer, kana, bopomofo and Han.
UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3005, 0x3007), (0x3021, 0x3029),
    (0x3040, 0x30FF), (0x3100, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0xFF66, 0xFF9F), (0x20000, 0x3FFFF),
)  # fmt: skip

# Cache by code point: class << 24 | folded code point, filled on first use. The operating system allocates only the
# pages that are used.
cdef uint32_t *characters = <uint32_t *> calloc(CODE_POINTS, sizeof(uint32_t))


# Characters with the Unicode property Default_Ignorable_Code_Point that are no format characters (Cf):
# joiners, fillers and variation selectors. Source: DerivedCoreProperties.txt, Unicode 16.
_IGNORABLE = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF),
)  # fmt: skip


# Letters in circles, squares and parentheses, and letters of flags: symbols that spell words.
_ENCLOSED = (
    (0x249C, 0x24E9), (0x1F110, 0x1F12B), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189),
    (0x1F1E6, 0x1F1FF),
)  # fmt: skip


cdef bint is_enclosed(uint32_t point):
    return any(first <= point <= last for first, last in _ENCLOSED)


cdef bint is_default_ignorable(uint32_t point):
    return any(first <= point <= last for first, last in _IGNORABLE)


cdef uint32_t classify(uint32_t point) except 0:
    cdef uint32_t kind
    character = chr(point)
    category = unicodedata.category(character)
    folded = character.casefold()
    is_styled = (0x1D400 <= point < 0x1D800 or 0xFF10 <= point < 0xFF5B) and category[0] in "LN"
    if is_styled:
        folded = unicodedata.normalize("NFKC", character)
    if category == "Cf" or point == 0 or is_default_ignorable(point):
        kind = HIDDEN
    elif character.isspace():
        kind = SPACE
    elif category[0] not in "LNM" and not is_enclosed(point):
        kind = WORD if character == "_" else BREAK
    elif any(first <= point <= last for first, last in UNSPACED):
        kind = IDEOGRAPH
    else:
        kind = MARK if category[0] == "M" else WORD
    kind = kind << 24 | <uint32_t> ord(folded[0])
    if len(folded) > 1:
        kind |= FOLDS_TO_SEVERAL
    if is_enclosed(point):
        kind |= IS_ENCLOSED
    if is_styled:
        kind |= IS_STYLED
    characters[point] = kind
    return kind


# Prefixes are padded, because 16 bytes are copied at a time.
cdef const uint8_t *URL = <const uint8_t *> b"url:            "
cdef const uint8_t *HTML = <const uint8_t *> b"html:           "
cdef const uint8_t *HIDDEN_PREFIX = <const uint8_t *> b"hidden:         "
cdef const uint8_t *INVISIBLE = <const uint8_t *> b"character       "
cdef const uint8_t *DIRECTION = <const uint8_t *> b"direction       "
cdef const uint8_t *MIXED_SCRIPTS = <const uint8_t *> b"scripts         "

cdef enum:  # Greek, Cyrillic and Armenian, which have letters that look like Latin ones
    FIRST_GREEK = 0x370
    LAST_ARMENIAN = 0x590
    FIRST_OVERRIDE = 0x202D  # of the direction of text: from left to right, and from right to left
    LAST_OVERRIDE = 0x202E


cdef inline bint is_override(uint32_t point) noexcept nogil:
    return FIRST_OVERRIDE <= point <= LAST_OVERRIDE


cdef bint has_letter(const uint8_t *p, Py_ssize_t n) noexcept nogil:
    """Return True if a word has a letter of ASCII."""
    cdef Py_ssize_t i
    for i in range(n):
        if is_letter(p[i]):
            return True
    return False


cdef Py_ssize_t pad_prefix(uint8_t *padded, bytes prefix) except -1:
    """Copy a prefix into a padded buffer and return its size."""
    if len(prefix) > MAX_PREFIX:
        raise ValueError(f"a prefix has at most {MAX_PREFIX} bytes")
    memset(padded, 0, MAX_PREFIX + 16)
    memcpy(padded, PyBytes_AS_STRING(prefix), len(prefix))
    return len(prefix)


cdef class Scanner:
    """Collects the tokens of one message: add any number of texts, then call `finish`.

    Parameters
    ----------
    key
        Fingerprint key.
    casefold
        True to fold case like `str.casefold`.
    inner
        ASCII characters that are part of a word if word characters are on both sides.
    min_length, max_length
        Minimum and maximum length of a token, in characters; other tokens are left out.
    ngrams
        Minimum and maximum size of n-grams of words or, with `by_character`, of characters.
    urls
        True to split web addresses into parts, prefixed `url:`.
    binary
        True to count each distinct token once.
    sublinear
        True to count a token with n occurrences as 1 + log2(n), interpolated between powers of two.
    keep_names
        True to return the text of tokens.
    stop
        Words to leave out, in the form in which the scanner returns them.
    mark_invisible
        True to count `hidden:character` for each word that contains invisible characters, `hidden:scripts` for each
        Latin word with Greek, Cyrillic or Armenian letters, and `hidden:direction` for each character that overrides the
        direction of text. Letters of mathematics and full-width letters are read as
        plain ones, and marks that do not compose with a letter of ASCII are left out.
    """



    def __cinit__(self, bytes key=DEFAULT_KEY, bint casefold=True, str inner="", Py_ssize_t min_length=1,
                  Py_ssize_t max_length=40, ngrams=(1, 1), bint by_character=False, bint urls=False,
                  bint binary=False, bint sublinear=False, bint keep_names=True, stop=(),
                  bint mark_invisible=False):
        cdef int c, first = ngrams[0], last = ngrams[1]
        self.key = read_key(key)
        self.casefold = casefold
        self.by_character = by_character
        self.urls = urls
        self.keep_names = keep_names
        self.mark_invisible = mark_invisible
        self.shortest = min_length
        self.longest = max_length
        if not 1 <= first <= last <= MAX_NGRAM:
            raise ValueError(f"n-grams: {first} to {last} is not a range within 1 to {MAX_NGRAM}")
        self.first = first
        self.last = last
        for c in range(MOST_STEPS):
            self.increments[c] = 0.0 if binary else ldexp(1.0, 1 - c) if sublinear else 1.0
        for c in range(128):
            self.ascii[c] = classify(c) >> 24 & 7
        for character in inner:
            if not character.isascii() or character.isalnum() or character.isspace():
                raise ValueError(f"inner: {character!r} is not an ASCII punctuation mark")
            self.ascii[<int> ord(character)] = INNER
        for word in stop:
            table_row(&self.stop, fingerprint(word, key))
        self.resize(512)

    def __dealloc__(self):
        table_free(&self.stop)
        free(self.names.bytes)
        free(self.line.bytes)
        free(self.plain.bytes)
        free(self.hidden.bytes)
        free(self.attributes.bytes)
        free(self.ends)
        free(self.fingerprints)
        free(self.counts)
        free(self.slots)

    cdef int resize(self, Py_ssize_t capacity) except -1:
        """Make room for `capacity` tokens, a power of two, and twice as many slots."""
        cdef Py_ssize_t i, slot, slots = 2 * capacity
        if capacity > self.allocated:
            self.ends = <uint32_t *> grown(self.ends, capacity * sizeof(uint32_t))
            self.fingerprints = <uint64_t *> grown(self.fingerprints, capacity * sizeof(uint64_t))
            self.counts = <double *> grown(self.counts, capacity * sizeof(double))
            self.slots = <uint32_t *> grown(self.slots, slots * sizeof(uint32_t))
            self.allocated = capacity
        memset(self.slots, 0, slots * sizeof(uint32_t))
        self.capacity = capacity
        self.slot_count = slots
        for i in range(self.used):
            slot = self.fingerprints[i] & (slots - 1)
            while self.slots[slot]:
                slot = (slot + 1) & (slots - 1)
            self.slots[slot] = <uint32_t> (i + 1)
        return 0

    cdef int emit(self, const uint8_t *token, Py_ssize_t size, const uint8_t *prefix, Py_ssize_t prefix_size,
                  Py_ssize_t room=0) except -1:
        """Count one token. `room` bytes can be read from the start of the token, and 16 from that of the prefix."""
        cdef uint8_t *name
        cdef double *count
        cdef uint64_t hash
        cdef Py_ssize_t slot
        if self.stop.rows and table_find(&self.stop, snb_siphash13(self.key.k0, self.key.k1, token, size)) >= 0:
            return 0
        buffer_room(&self.names, size + prefix_size)
        if self.names.size + size + prefix_size > MAX_NAMES:
            raise ValueError("the tokens of one message exceed 4 GiB in total")
        name = self.names.bytes + self.names.size
        if prefix_size:
            snb_copy(name, prefix, prefix_size, 16)
        snb_copy(name + prefix_size, token, size, room)
        hash = snb_siphash13_padded(self.key.k0, self.key.k1, name, size + prefix_size)
        slot = hash & (self.slot_count - 1)
        while self.slots[slot]:
            if self.fingerprints[self.slots[slot] - 1] == hash:
                count = &self.counts[self.slots[slot] - 1]
                count[0] += self.increments[<int> min(count[0], <double> (MOST_STEPS - 1))]
                return 0
            slot = (slot + 1) & (self.slot_count - 1)
        if self.used == self.capacity:
            self.resize(2 * self.capacity)
            slot = hash & (self.slot_count - 1)
            while self.slots[slot]:
                slot = (slot + 1) & (self.slot_count - 1)
        self.names.size += size + prefix_size
        self.fingerprints[self.used] = hash
        self.counts[self.used] = 1
        self.ends[self.used] = <uint32_t> self.names.size
        self.used += 1
        self.slots[slot] = <uint32_t> self.used
        return 0

    cdef int push(self, Py_ssize_t start, const uint8_t *prefix, Py_ssize_t prefix_size) except -1:
        """Count the word from `start` to the end of the line, and the n-grams that it completes."""
        cdef Py_ssize_t k, oldest
        cdef int n
        if self.last == 1:
            self.emit(self.line.bytes + start, self.line.size - start, prefix, prefix_size, 16)
            self.line.size = start
            return 0
        if self.stop.rows and table_find(&self.stop, snb_siphash13(
                self.key.k0, self.key.k1, self.line.bytes + start, self.line.size - start)) >= 0:
            self.line.size = start
            return 0
        self.starts[self.words % MAX_NGRAM] = start
        self.words += 1
        for n in range(self.first, min(self.last, self.words) + 1):
            k = self.starts[(self.words - n) % MAX_NGRAM]
            self.emit(self.line.bytes + k, self.line.size - k, prefix, prefix_size, 16)
        buffer_put(&self.line, b" ", 1)
        if self.line.size > 65536:  # further n-grams need only the last few words
            oldest = max(self.words - self.last, 0)
            k = self.starts[oldest % MAX_NGRAM]
            memmove(self.line.bytes, self.line.bytes + k, self.line.size - k)
            self.line.size -= k
            while oldest < self.words:
                self.starts[oldest % MAX_NGRAM] -= k
                oldest += 1
        return 0

    cdef int put_character(self, uint32_t point, uint32_t properties, const uint8_t *p, int size) except -1:
        """Append one character to the line, folded if `casefold`."""
        if point == 0xFFFD:  # possibly an invalid byte
            buffer_put(&self.line, b"\xef\xbf\xbd", 3)
        elif properties & IS_STYLED:
            character = chr(properties & 0x1FFFFF if self.mark_invisible else point)
            encoded = (character.casefold() if self.casefold else character).encode()
            buffer_put(&self.line, PyBytes_AS_STRING(encoded), len(encoded))
        elif not self.casefold or point == (properties & 0x1FFFFF) and not properties & FOLDS_TO_SEVERAL:
            buffer_put(&self.line, p, size)
        elif properties & FOLDS_TO_SEVERAL:
            folded = chr(point).casefold().encode()
            buffer_put(&self.line, PyBytes_AS_STRING(folded), len(folded))
        else:
            buffer_room(&self.line, 4)
            self.line.size += encode_utf8(properties & 0x1FFFFF, self.line.bytes + self.line.size)
        return 0

    cdef Py_ssize_t ascii_run(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
        """Return the end of the run of ASCII word characters at p[i]."""
        while i < n and self.ascii[p[i]] == WORD:
            i += 1
        return i

    cdef int put_ascii(self, const uint8_t *p, Py_ssize_t n, Py_ssize_t room) except -1:
        cdef uint8_t *out
        cdef Py_ssize_t i
        buffer_room(&self.line, n)
        out = self.line.bytes + self.line.size
        if self.casefold:
            for i in range(n):
                out[i] = lowered(p[i])
        else:
            snb_copy(out, p, n, room)
        self.line.size += n
        return 0

    cdef int kind_at(self, const uint8_t *p, Py_ssize_t length, uint32_t *point, uint32_t *properties, int *size) except -1:
        cdef uint32_t c = p[0]
        if c < 128:
            point[0] = c
            size[0] = 1
            properties[0] = characters[c]
            return self.ascii[c]
        c = decode_utf8(p, length, size)
        point[0] = c
        if 0xD800 <= c < 0xE000:  # a lone surrogate, from a str that is not valid text
            properties[0] = c
            return BREAK
        properties[0] = characters[c]
        if properties[0] == 0:
            properties[0] = classify(c)
        return properties[0] >> 24 & 7

    cdef int scan_words(self, const uint8_t *p, Py_ssize_t n, const uint8_t *prefix, Py_ssize_t prefix_size, bint urls) except -1:
        cdef Py_ssize_t i = 0, begin, start, length, ahead
        cdef uint32_t point = 0, properties = 0, enclosed
        cdef int size = 0, kind
        # Without folding and n-grams a token is a slice of the text.
        cdef bint plain = self.last == 1 and not self.casefold, as_it_stands, invisible, split, is_dropped, is_foreign
        self.words = 0
        self.line.size = 0
        while True:
            while i < n and self.ascii[p[i]] & ~WORD:
                i += 1
            if i >= n:
                break
            kind = self.kind_at(p + i, n - i, &point, &properties, &size)
            if kind == IDEOGRAPH:
                i = self.scan_ideographs(p, i, n, prefix, prefix_size)
                continue
            if kind != WORD:
                if is_override(point) and self.mark_invisible:
                    self.emit(DIRECTION, 9, HIDDEN_PREFIX, 7, 16)
                i += size
                continue
            begin = i
            start = self.line.size
            length = 0
            enclosed = properties & IS_ENCLOSED
            as_it_stands = plain
            invisible = split = is_dropped = is_foreign = False
            while True:
                if kind == WORD and point < 128:
                    ahead = self.ascii_run(p, i, n)
                    length += ahead - i
                    if length <= self.longest and not as_it_stands:
                        self.put_ascii(p + i, ahead - i, n - i)
                    i = ahead
                    is_dropped = False
                else:
                    # Marks that do not compose with their letter disguise a word.
                    is_dropped = kind == HIDDEN or (
                        kind == MARK and self.mark_invisible and (is_dropped or p[i - 1] < 128))
                    is_foreign = is_foreign or FIRST_GREEK <= point < LAST_ARMENIAN
                    if as_it_stands and (is_dropped or properties & IS_STYLED):  # the remaining token must be copied
                        as_it_stands = False
                        buffer_put(&self.line, p + begin, i - begin)
                    if kind == HIDDEN:
                        invisible = True
                        if is_override(point) and self.mark_invisible:
                            self.emit(DIRECTION, 9, HIDDEN_PREFIX, 7, 16)
                    if not is_dropped:
                        length += 1
                        if length <= self.longest and not as_it_stands:
                            self.put_character(point, properties, p + i, size)
                    i += size
                if i >= n:
                    break
                kind = self.kind_at(p + i, n - i, &point, &properties, &size)
                if kind == WORD and properties & IS_ENCLOSED != enclosed:
                    break  # a flag or a sign beside a word
                if kind == WORD or kind == MARK or kind == HIDDEN:
                    split = split or (invisible and kind == WORD)
                    continue
                if kind != INNER or i + 1 >= n:
                    break
                if p[i + 1] < 128:
                    ahead = self.ascii[p[i + 1]]
                else:
                    ahead = self.kind_at(p + i + 1, n - i - 1, &point, &properties, &size)
                    point = p[i]
                    properties = characters[point]
                    size = 1
                if ahead != WORD:
                    break
            if urls and (p[begin] | 32 == c"h" or p[begin] | 32 == c"w" or p[begin] | 32 == c"f"):
                ahead = self.url_after(p, begin, i, n)
                if ahead >= 0:
                    self.line.size = start
                    i = self.scan_url(p, ahead, n)
                    continue
            if split and self.mark_invisible:
                self.emit(INVISIBLE, 9, HIDDEN_PREFIX, 7, 16)
            if is_foreign and self.mark_invisible and has_letter(p + begin, i - begin):
                self.emit(MIXED_SCRIPTS, 7, HIDDEN_PREFIX, 7, 16)
            if not self.shortest <= length <= self.longest:
                self.line.size = start
            elif as_it_stands:
                self.emit(p + begin, i - begin, prefix, prefix_size, n - begin)
            else:
                self.push(start, prefix, prefix_size)
        return 0

    cdef Py_ssize_t scan_ideographs(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t n, const uint8_t *prefix, Py_ssize_t prefix_size) except -1:
        """Count the pairs of adjacent ideographs in a run, or a single ideograph; return its end."""
        cdef Py_ssize_t before = i, start = 0, length = 0
        cdef uint32_t point = 0, properties = 0
        cdef int size = 0, before_size = 0, kind
        while i < n:
            kind = self.kind_at(p + i, n - i, &point, &properties, &size)
            if kind == HIDDEN:
                i += size
                continue
            if kind != IDEOGRAPH:
                break
            if length:
                start = self.line.size
                buffer_put(&self.line, p + before, before_size)
                buffer_put(&self.line, p + i, size)
                if self.shortest <= 2 <= self.longest:
                    self.push(start, prefix, prefix_size)
                else:
                    self.line.size = start
            before = i
            before_size = size
            length += 1
            i += size
        if length == 1 and self.shortest <= 1:
            start = self.line.size
            buffer_put(&self.line, p + before, before_size)
            self.push(start, prefix, prefix_size)
        return i

    cdef Py_ssize_t url_after(self, const uint8_t *p, Py_ssize_t begin, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
        """Return the start of the host if the word p[begin:i] starts a web address; else -1."""
        cdef Py_ssize_t size = i - begin
        if 3 <= size <= 5 and i + 3 < n and p[i] == c":" and p[i + 1] == c"/" and p[i + 2] == c"/":
            if (lowered(p[begin]) == c"h" and lowered(p[begin + 1]) == c"t") or (
                    lowered(p[begin]) == c"f" and lowered(p[begin + 1]) == c"t"):
                return i + 3
        if lowered(p[begin]) == c"w" and begin + 4 < n and lowered(p[begin + 1]) == c"w" and lowered(p[begin + 2]) == c"w" and p[begin + 3] == c".":
            return begin
        return -1

    cdef Py_ssize_t scan_url(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t n) except -1:
        """Count the host, its parent domains, the words of the path, and the addresses in it; return the end."""
        cdef Py_ssize_t end = i, words, line
        cdef uint32_t point = 0, properties = 0
        cdef int size = 1, kind
        while end < n and p[end] > 32 and p[end] != c'"' and p[end] != c"<" and p[end] != c">" and p[end] != c"`":
            if p[end] >= 128:
                kind = self.kind_at(p + end, n - end, &point, &properties, &size)
                if (kind == BREAK or kind == SPACE) and point != 0xFFFD:  # such as the full stop of Chinese
                    break
                end += size
            else:
                end += 1
        i = self.scan_host(p, i, end)
        if i < end:
            # n-grams of the surrounding text must not contain words of the path.
            words = self.words
            line = self.line.size
            self.scan_path(p + i, end - i)
            self.scan_targets(p + i, end - i)
            self.words = words
            self.line.size = line
        return end

    cdef int scan_targets(self, const uint8_t *p, Py_ssize_t n) except -1:
        """Count the hosts of the addresses to which a path or a query leads, and the words of encoded addresses."""
        cdef Py_ssize_t scheme = find_bytes(p, 0, n, b"://")
        cdef bytes decoded
        while scheme >= 0:
            self.scan_host(p, scheme + 3, n)
            scheme = find_bytes(p, scheme + 3, n, b"://")
        if find_bytes(p, 0, n, b"%3a%2f%2f") >= 0 or find_bytes(p, 0, n, b"%253a") >= 0 or find_bytes(p, 0, n, b"-3a__") >= 0:
            from streamnb._core.links import decoded_targets  # imported late: few links need it

            for decoded in decoded_targets(slice_of(p, 0, n)):
                p, n = <const uint8_t *> PyBytes_AS_STRING(decoded), len(decoded)
                scheme = self.scan_host(p, 0, n)
                self.scan_path(p + scheme, n - scheme)
        return 0

    cdef Py_ssize_t scan_host(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t end) except -1:
        """Count the host at p[i] and its parent domains; return the start of the path."""
        cdef Py_ssize_t host = i, host_end = i, dot, level
        cdef uint8_t[256] name
        while host_end < end and p[host_end] != c"/" and p[host_end] != c"\\" and p[host_end] != c"?" and p[host_end] != c"#":
            if p[host_end] == c"@":  # skip a user name before the host, as in phishing
                host = host_end + 1
            host_end += 1
        i = host_end
        dot = host
        while dot < host_end and p[dot] != c":":
            dot += 1
        host_end = dot
        while host_end > host and not (p[host_end - 1] >= 128 or self.ascii[p[host_end - 1]] == WORD):
            host_end -= 1
        host_end = min(host_end, host + 255)
        for dot in range(host, host_end):
            name[dot - host] = lowered(p[dot])
        level = 0
        dot = host
        while dot < host_end and level < 4:
            self.emit(name + (dot - host), host_end - dot, URL, 4)
            level += 1
            while dot < host_end and p[dot] != c".":
                dot += 1
            dot += 1
        return i

    cdef int scan_path(self, const uint8_t *p, Py_ssize_t n) except -1:
        """Count the runs of word characters in a path, case unchanged."""
        cdef Py_ssize_t i = 0, begin
        while i < n:
            if p[i] < 128 and self.ascii[p[i]] != WORD:
                i += 1
                continue
            begin = i
            while i < n and (p[i] >= 128 or self.ascii[p[i]] == WORD):
                i += 1
            if i - begin <= self.longest:
                self.emit(p + begin, i - begin, URL, 4)
        return 0

    cdef int scan_characters(self, const uint8_t *p, Py_ssize_t n, const uint8_t *prefix, Py_ssize_t prefix_size) except -1:
        """Count n-grams of characters; a run of white space is read as one space."""
        cdef Py_ssize_t i = 0, characters_read = 0
        cdef uint32_t point = 0, properties = 0
        cdef int size = 0, kind, k
        cdef bint gap = False
        self.line.size = 0
        while i < n:
            kind = self.kind_at(p + i, n - i, &point, &properties, &size)
            if kind == HIDDEN or (kind == SPACE and gap):
                i += size
                continue
            gap = kind == SPACE
            if self.line.size > 65536:
                k = <int> min(characters_read, self.last)
                point = <uint32_t> self.starts[(characters_read - k) % MAX_NGRAM]
                memmove(self.line.bytes, self.line.bytes + point, self.line.size - point)
                self.line.size -= point
                while k > 0:
                    self.starts[(characters_read - k) % MAX_NGRAM] -= point
                    k -= 1
                self.kind_at(p + i, n - i, &point, &properties, &size)
            self.starts[characters_read % MAX_NGRAM] = self.line.size
            characters_read += 1
            if gap:
                buffer_put(&self.line, b" ", 1)
            else:
                self.put_character(point, properties, p + i, size)
            for k in range(self.first, min(self.last, characters_read) + 1):
                self.emit(self.line.bytes + self.starts[(characters_read - k) % MAX_NGRAM],
                          self.line.size - self.starts[(characters_read - k) % MAX_NGRAM], prefix, prefix_size)
            i += size
        return 0

    cdef int scan(self, text, bytes prefix, bint html, bytes spans=None) except -1:
        cdef Py_ssize_t n = 0
        cdef const uint8_t *p
        cdef uint8_t[MAX_PREFIX + 16] padded
        cdef Py_ssize_t prefix_size = pad_prefix(padded, prefix)
        cdef bytes held
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"text must be str or UTF-8 bytes, not {type(text).__name__}")
        if isinstance(text, bytes):
            held = bytes(text)
            p = <const uint8_t *> PyBytes_AS_STRING(held)
            n = len(held)
        elif PyUnicode_IS_ASCII(text):
            p = <const uint8_t *> PyUnicode_AsUTF8AndSize(text, &n)
        else:
            held = utf8(str.__str__(text))
            p = <const uint8_t *> PyBytes_AS_STRING(held)
            n = len(held)
        if html:
            html_to_plain(self, p, n, spans)
            self.scan_words(self.plain.bytes, self.plain.size, padded, prefix_size, self.urls)
            if self.hidden.size:
                self.scan_words(self.hidden.bytes, self.hidden.size, HIDDEN_PREFIX, 7, False)
            return 0
        if self.by_character:
            return self.scan_characters(p, n, padded, prefix_size)
        return self.scan_words(p, n, padded, prefix_size, self.urls)

    def text(self, text, bytes prefix=b""):
        """Count the tokens of a str, or of UTF-8 bytes (an invalid byte separates tokens)."""
        self.scan(text, prefix, False)

    def html(self, text, bytes prefix=b"", bytes spans=None):
        """Count the words of HTML, its tags and attributes, and the parts of its links.

        `spans` is the result of `hidden_spans`: the words in them get the prefix `hidden:`.
        """
        self.scan(text, prefix, True, spans)

    def fields(self, list fields, dict prefixes, prefix_of, decode):
        """Count the words of header fields, (name, value) pairs.

        The prefix of the words is prefixes[name] or, if that is missing, prefix_of(name); None
        skips the field. Values other than plain ASCII are decoded by decode(value).
        """
        cdef bytes value, name
        cdef uint8_t[MAX_PREFIX + 16] padded
        cdef Py_ssize_t prefix_size
        cdef PyObject *cached
        for name, value in fields:
            cached = PyDict_GetItemWithError(prefixes, name)
            prefix = prefix_of(name) if cached == NULL else <object> cached
            if prefix is None:
                continue
            if self.by_character or is_encoded(value):
                self.scan(decode(value), prefix, False)
                continue
            prefix_size = pad_prefix(padded, prefix)
            self.scan_words(<const uint8_t *> PyBytes_AS_STRING(value), len(value), padded, prefix_size, self.urls)

    def token(self, bytes name, bytes prefix=b""):
        """Count one token without any change."""
        cdef uint8_t[MAX_PREFIX + 16] padded
        self.emit(<const uint8_t *> PyBytes_AS_STRING(name), len(name), padded, pad_prefix(padded, prefix))

    def discard(self):
        """Drop the tokens collected so far."""
        self.used = 0
        self.names.size = 0
        # Release the memory of a huge message.
        buffer_shrink(&self.names)
        buffer_shrink(&self.line)
        buffer_shrink(&self.plain)
        buffer_shrink(&self.hidden)
        buffer_shrink(&self.attributes)
        if self.allocated > 65536:
            self.allocated = 0
        self.resize(512)  # few slots stay in the cache of the processor

    def finish(self):
        """Return fingerprints, counts, names and name ends of the tokens, and clear the scanner."""
        cdef cnp.ndarray fingerprints = new_array(self.used, cnp.NPY_UINT64)
        cdef cnp.ndarray counts = new_array(self.used, cnp.NPY_FLOAT64)
        cdef cnp.ndarray ends
        memcpy(cnp.PyArray_DATA(fingerprints), self.fingerprints, self.used * 8)
        memcpy(cnp.PyArray_DATA(counts), self.counts, self.used * 8)
        if not self.keep_names:
            self.discard()
            return fingerprints, counts, None, None
        ends = new_array(self.used, cnp.NPY_UINT32)
        memcpy(cnp.PyArray_DATA(ends), self.ends, self.used * 4)
        names = PyBytes_FromStringAndSize(<char *> self.names.bytes, self.names.size)
        self.discard()
        return fingerprints, counts, names, ends


# Conversion of HTML to visible text, without a tree or recursion

cdef enum:
    MAX_COMMENT = 4096  # number of bytes read of a comment


cdef int scan_links(Scanner scanner, const uint8_t *p, Py_ssize_t n) except -1:
    """Count the web addresses in a style or an attribute, such as `url('http://a.example/b')` and `url(//a.example)`."""
    cdef Py_ssize_t end, before, slashes = find_bytes(p, 0, n, b"//")
    while slashes >= 0:
        end = slashes + 2
        before = slashes - 1
        while before >= 0 and is_space(p[before]):
            before -= 1
        if before < 0 or p[before] == c":" or p[before] == c"(" or p[before] == c"'" or p[before] == c'"' or p[before] == c",":
            while end < n and p[end] > 32 and p[end] != c"'" and p[end] != c")":
                end += 1
            scanner.scan_url(p, slashes + 2, end)
        slashes = find_bytes(p, end, n, b"//")
    return 0


cdef int count_attribute(Scanner scanner, const uint8_t *name, Py_ssize_t name_size, const uint8_t *p,
                         Py_ssize_t n) except -1:
    cdef Py_ssize_t host, i = 0, run
    cdef bytes link
    cdef uint64_t name_id
    cdef uint32_t kind = kind_of_name(name, name_size, &name_id)
    if kind & LINK_VALUE:
        if memchr(p, c"&", n) != NULL:
            link = unescaped(p, n)
            p = <const uint8_t *> PyBytes_AS_STRING(link)
            n = len(link)
        while n and p[0] <= 32:
            p += 1
            n -= 1
        if is_disguised(p, n):
            from streamnb._core.links import plain_link  # imported late: few links need it

            link = plain_link(PyBytes_FromStringAndSize(<const char *> p, n))
            p = <const uint8_t *> PyBytes_AS_STRING(link)
            n = len(link)
        host = link_host(p, n)
        if host >= 0:
            scanner.scan_url(p, host, n)
        else:
            scanner.scan_path(p, n)
    elif kind & SEEN_VALUE:
        buffer_put(&scanner.attributes, b" ", 1)
        while i < n:
            run = i
            while i < n and p[i] != c"&":
                i += 1
            buffer_put(&scanner.attributes, p + run, i - run)
            if i < n:
                i = read_entity(&scanner.attributes, p, i, n, True)
        buffer_put(&scanner.attributes, b" ", 1)
    else:
        if kind & VALUE_WITH_LINKS and memchr(p, c"&", n) == NULL:
            scan_links(scanner, p, n)
        elif kind & VALUE_WITH_LINKS:
            link = unescaped(p, n)
            scan_links(scanner, <const uint8_t *> PyBytes_AS_STRING(link), len(link))
        if n > scanner.longest:
            return 0
        scanner.line.size = 0
        put_lowered(&scanner.line, name, name_size)
        buffer_put(&scanner.line, b"=", 1)
        put_lowered(&scanner.line, p, n)
        scanner.emit(scanner.line.bytes, scanner.line.size, HTML, 5, 16)
    return 0


cdef inline int put_lowered(Buffer *out, const uint8_t *p, Py_ssize_t n) except -1:
    cdef Py_ssize_t i
    buffer_room(out, n)
    for i in range(n):
        out.bytes[out.size + i] = lowered(p[i])
    out.size += n
    return 0


cdef bint is_disguised(const uint8_t *p, Py_ssize_t n) noexcept nogil:
    """Return True if a link has unusual bytes up to its path."""
    cdef Py_ssize_t i
    cdef int slashes = 0
    for i in range(n):
        if p[i] < 32 or p[i] > 126 or p[i] == c"%":
            return True
        if p[i] == c"/" or p[i] == c"\\":
            slashes += 1
        if slashes == 3 or p[i] == c"?" or p[i] == c"#":
            return False
    return False


cdef Py_ssize_t link_host(const uint8_t *p, Py_ssize_t n) noexcept nogil:
    """Return the start of the host of a link, -1 if it has none.

    Browsers accept any number of slashes and backslashes after http: and https:. A link that begins with two slashes
    has the scheme of the page.
    """
    cdef Py_ssize_t i = 0, slashes
    while i < n and i < 6 and is_letter(p[i]):
        i += 1
    if i and not (4 <= i <= 5 and i < n and p[i] == c":" and lowered(p[0]) == c"h" and lowered(p[1]) == c"t"
                  or i == 3 and i < n and p[i] == c":" and lowered(p[0]) == c"f" and lowered(p[1]) == c"t"):
        return 0 if i == 3 and n > 4 and p[3] == c"." and lowered(p[0]) == c"w" and lowered(p[1]) == c"w" else -1
    if i:
        i += 1
    slashes = i
    while i < n and (p[i] == c"/" or p[i] == c"\\"):
        i += 1
    return i if i < n and (slashes or i - slashes >= 2) else -1


cdef Py_ssize_t read_tag(Scanner scanner, set unclosed, const uint8_t *p, Py_ssize_t i, Py_ssize_t n,
                         Quotes *quotes, Py_ssize_t *raw_end) except -1:
    """Count the tag whose < is at p[i], and its attributes; return the position after it.

    `raw_end` is set to the end of an element in which tags are text. `unclosed` has the elements without an end tag, so
    each end is searched once.
    """
    cdef Py_ssize_t stop
    cdef bytes name
    cdef Tag tag
    cdef Attribute attribute
    i = read_tag_name(p, i, n, &tag)
    if tag.kind & BREAKS_WORD:
        buffer_put(&scanner.plain, b" ", 1)
        if scanner.hidden.size:
            buffer_put(&scanner.hidden, b" ", 1)
    if not tag.is_end:
        scanner.line.size = 0
        put_lowered(&scanner.line, p + tag.name, tag.name_end - tag.name)
        scanner.emit(scanner.line.bytes, scanner.line.size, HTML, 5, 16)
    while True:
        i = read_attribute(p, i, n, quotes, &attribute)
        if attribute.name == attribute.name_end:
            break
        if not tag.is_end and attribute.value_end > attribute.name_end:
            count_attribute(scanner, p + attribute.name, min(attribute.name_end - attribute.name, 32),
                            p + attribute.value, attribute.value_end - attribute.value)
    if i < n and p[i] == c">":
        i += 1
    if tag.is_end or not tag.kind & RAW:
        return i
    name = lowered_bytes(p + tag.name, tag.name_end - tag.name)
    if name not in unclosed:
        stop = find_bytes(p, i, n, b"</" + name)
        if stop < 0:
            unclosed.add(name)
        elif name == b"script" or name == b"style":
            if name == b"style":
                scan_links(scanner, p + i, stop - i)
            return stop
        else:
            raw_end[0] = stop
    return i


cdef int html_to_plain(Scanner scanner, const uint8_t *p, Py_ssize_t n, bytes spans) except -1:
    cdef Py_ssize_t i = 0, run, end, k = 0, last_hidden = 0, count = 0 if spans is None else len(spans) // 16, raw_end = 0
    cdef const int64_t *span = NULL if spans is None else <const int64_t *> PyBytes_AS_STRING(spans)
    cdef Buffer *out = &scanner.plain
    cdef set unclosed = set()
    cdef Quotes quotes = [n, n]
    scanner.plain.size = scanner.hidden.size = 0
    while i < n:
        while k < count and span[2 * k] <= i and span[2 * k + 1] <= i:
            if span[2 * k + 1] == 0:  # the style of the last tag ends a word
                buffer_put(&scanner.plain, b" ", 1)
            k += 1
        if k < count and span[2 * k] <= i:
            out = &scanner.hidden
            if k != last_hidden:  # texts of several places are not one word
                buffer_put(out, b" ", 1)
                last_hidden = k
        else:
            out = &scanner.plain
        run = i
        while i < n and p[i] != c"<" and p[i] != c"&":
            i += 1
        buffer_put(out, p + run, i - run)
        if i >= n:
            break
        if p[i] == c"&":
            i = read_entity(out, p, i, n, False)
        elif i < raw_end:
            buffer_put(out, b" ", 1)
            i += 1
        elif i + 3 < n and p[i + 1] == c"!" and p[i + 2] == c"-" and p[i + 3] == c"-" and b"<!--" not in unclosed:
            end = comment_end(p, i + 4, n)
            if end < 0:
                unclosed.add(b"<!--")
            elif count:
                count_comment(scanner, p + i + 4, end - i - 4)
            i = i + 4 if end < 0 else end
        elif i + 1 < n and (is_letter(p[i + 1]) or p[i + 1] == c"/"):
            i = read_tag(scanner, unclosed, p, i, n, &quotes, &raw_end)
            if scanner.attributes.size:
                # A span that begins after a tag hides the tag's element.
                while k < count and span[2 * k] <= i and span[2 * k + 1] < i:
                    k += 1
                if k < count and span[2 * k] <= i:
                    out = &scanner.hidden
                buffer_put(out, scanner.attributes.bytes, scanner.attributes.size)
                scanner.attributes.size = 0
        elif i + 1 < n and (p[i + 1] == c"!" or p[i + 1] == c"?"):
            while i < n and p[i] != c">":
                i += 1
            i += 1
        else:
            buffer_put(out, b" ", 1)
            i += 1
    return 0


cdef int count_comment(Scanner scanner, const uint8_t *p, Py_ssize_t n) except -1:
    """Collect the words at the beginning of a comment, unless it contains markup."""
    n = min(n, MAX_COMMENT)
    if memchr(p, c"<", n) == NULL and memchr(p, c"{", n) == NULL and memchr(p, c"[", n) == NULL:
        buffer_put(&scanner.hidden, b" ", 1)
        buffer_put(&scanner.hidden, p, n)
        buffer_put(&scanner.hidden, b" ", 1)
    return 0
