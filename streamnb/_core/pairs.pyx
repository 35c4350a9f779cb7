# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Tokens of text and pairs of adjacent tokens, punctuation included."""

from streamnb._core.hashing import DEFAULT_KEY

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from streamnb._core.arrays cimport grown, new_array, new_ones
from streamnb._core.buffers cimport buffer_room, lowered
from streamnb._core.hashing cimport SNB_BEYOND, clear_slots, enter_hash, read_key, slot_mask, snb_siphash13_many, utf8
from streamnb._core.markup cimport is_encoded
from streamnb._core.table cimport GOLDEN

cnp.import_array()

cdef enum:
    MAX_TOKEN = 40  # bytes: longer runs are truncated
    LEAD = 3        # kind of NUL, and of a byte with which an invisible character may begin


# Kind of each byte: 0 white space, 1 part of a word (all non-ASCII bytes), 2 other characters, LEAD.
cdef uint8_t[256] token_kind


cdef void set_token_kinds() noexcept:
    cdef int c
    for c in range(256):
        token_kind[c] = 1 if chr(c).isalnum() or c >= 0x80 or c == c"_" or c == c"'" else 2
    for c in (9, 10, 11, 12, 13, 32):
        token_kind[c] = 0
    for c in (0, 0xC2, 0xCD, 0xD8, 0xE1, 0xE2, 0xE3, 0xEF, 0xF3):  # first bytes in `invisible_size`
        token_kind[c] = LEAD


set_token_kinds()


cdef inline int invisible_size(const uint8_t *p, Py_ssize_t length) noexcept nogil:
    """Return the size in bytes of the invisible character at p, 0 if it is visible.

    The characters are those of `classify` in scanner.pyx, except some that belong to one script.
    """
    cdef uint8_t a = p[0], b, c
    if length < 2 or a < 0xC2:
        return 0
    b = p[1]
    if a < 0xE0:
        return 2 if (a == 0xC2 and b == 0xAD) or (a == 0xCD and b == 0x8F) or (a == 0xD8 and b == 0x9C) else 0
    if length < 3:
        return 0
    c = p[2]
    if a == 0xE2:
        if b == 0x80:
            return 3 if 0x8B <= c <= 0x8F or 0xAA <= c <= 0xAE else 0
        return 3 if b == 0x81 and 0xA0 <= c <= 0xAF else 0
    if a == 0xEF:
        return 3 if (b == 0xB8 and 0x80 <= c <= 0x8F) or (b == 0xBB and c == 0xBF) or (b == 0xBE and c == 0xA0) else 0
    if a == 0xE1:
        if b == 0x85:
            return 3 if c == 0x9F or c == 0xA0 else 0
        if b == 0x9E:
            return 3 if c == 0xB4 or c == 0xB5 else 0
        return 3 if b == 0xA0 and 0x8B <= c <= 0x8F else 0
    if a == 0xE3:
        return 3 if b == 0x85 and c == 0xA4 else 0
    return 4 if a == 0xF3 and b == 0xA0 and length >= 4 else 0


cdef Py_ssize_t copy_rest(const uint8_t *p, Py_ssize_t i, Py_ssize_t n, uint8_t *target, Py_ssize_t *size, int kind) noexcept nogil:
    """Copy the rest of a token without invisible characters and NULs; return the position after it.

    Bytes after the first `MAX_TOKEN` are skipped.
    """
    cdef int invisible, byte_kind
    while i < n:
        byte_kind = token_kind[p[i]]
        if byte_kind == LEAD:
            invisible = invisible_size(p + i, n - i) if p[i] else 1
            if invisible:
                i += invisible
                continue
            byte_kind = 1
        if byte_kind != kind:
            break
        if size[0] < MAX_TOKEN:
            target[size[0]] = lowered(p[i])
            size[0] += 1
        i += 1
    return i


cdef class PairScanner:
    """Collects the distinct tokens of a text, and pairs of adjacent tokens.

    A token is a run of letters, digits, underscores, apostrophes and non-ASCII bytes, or a run of
    other characters without white space. ASCII letters become lower case.

    Parameters
    ----------
    max_tokens
        Number of tokens read from the start.
    keep_names
        True to return the text of tokens and pairs.
    key
        Fingerprint key.
    """



    def __cinit__(self, Py_ssize_t max_tokens=4000, bint keep_names=True, bytes key=DEFAULT_KEY):
        if not 1 <= max_tokens <= 1 << 20:
            raise ValueError(f"max_tokens: {max_tokens} is not within 1 to {1 << 20}")
        self.key = read_key(key)
        self.max_tokens = max_tokens
        self.keep_names = keep_names
        self.slots = <uint64_t *> grown(NULL, (slot_mask(2 * max_tokens) + 1) * sizeof(uint64_t))
        self.hashes = <uint64_t *> grown(NULL, 2 * max_tokens * sizeof(uint64_t))
        self.starts = <uint32_t *> grown(NULL, 2 * max_tokens * sizeof(uint32_t))
        self.sizes = <uint32_t *> grown(NULL, 2 * max_tokens * sizeof(uint32_t))
        self.before = -1

    def __dealloc__(self):
        free(self.text.bytes)
        free(self.slots)
        free(self.hashes)
        free(self.starts)
        free(self.sizes)

    def discard(self):
        """Drop the tokens collected so far."""
        self.text.size = self.tokens = self.used = 0
        self.before = -1

    cdef void enter(self, Py_ssize_t start) noexcept nogil:
        """Collect the token or pair from `start` to the end of the text."""
        self.starts[self.used] = <uint32_t> start
        self.sizes[self.used] = <uint32_t> (self.text.size - start)
        self.used += 1

    cdef void drop_repeated(self) noexcept nogil:
        """Drop repeated tokens and pairs."""
        cdef Py_ssize_t i, distinct = 0
        cdef uint64_t hash, mask = clear_slots(self.slots, self.used)
        snb_siphash13_many(self.key.k0, self.key.k1, self.text.bytes, self.starts, self.sizes, self.hashes, self.used)
        for i in range(self.used):
            hash = self.hashes[i]
            hash = hash if hash else GOLDEN  # 0 marks a free slot
            self.hashes[distinct], self.starts[distinct], self.sizes[distinct] = hash, self.starts[i], self.sizes[i]
            distinct += enter_hash(self.slots, mask, hash)
        self.used = distinct

    def add(self, bytes data, bytes spans=None):
        """Collect the tokens of a text, without its `hidden_spans`."""
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef const int64_t *span
        cdef Py_ssize_t k, start = 0
        if spans is not None:
            span = <const int64_t *> PyBytes_AS_STRING(spans)
            for k in range(len(spans) // 16):
                if span[2 * k + 1] == 0:  # the end of a tag
                    continue
                self.add_text(p + start, <Py_ssize_t> span[2 * k] - start)
                start = <Py_ssize_t> span[2 * k + 1]
        self.add_text(p + start, len(data) - start)

    cdef int add_text(self, const uint8_t *p, Py_ssize_t n) except -1:
        cdef Py_ssize_t i = 0, start, size, end
        cdef uint8_t *target
        cdef int kind
        while i < n and self.tokens < self.max_tokens:
            kind = token_kind[p[i]]
            if kind == 0:
                i += 1
                continue
            buffer_room(&self.text, MAX_TOKEN + 1)
            if self.text.size:
                self.text.bytes[self.text.size] = 32
                self.text.size += 1
            start = self.text.size
            target = self.text.bytes + start
            end = i if kind == LEAD else min(n, i + MAX_TOKEN)
            size = 0
            while i < end and token_kind[p[i]] == kind:
                target[size] = lowered(p[i])
                size += 1
                i += 1
            if i == end or token_kind[p[i]] == LEAD:
                i = copy_rest(p, i, n, target, &size, 1 if kind == LEAD else kind)
                if size == 0:
                    if self.text.size:
                        self.text.size -= 1
                    continue
            self.text.size += size
            self.enter(start)
            if self.before >= 0:
                self.enter(self.before)
            self.before = start
            self.tokens += 1
        return 0

    def fields(self, list fields, dict field_is_read, reads_field, decode):
        """Collect the names and decoded values of the header fields that are read.

        `reads_field` decides by name which fields are read; `field_is_read` caches the decisions.
        """
        cdef bytes name, value
        for name, value in fields:
            decision = field_is_read.get(name)
            if reads_field(name) if decision is None else decision:
                self.add(name)
                self.add(b":")
                self.add(utf8(decode(value)) if is_encoded(value) else value)

    def finish(self):
        """Return fingerprints, counts (all 1), names and name ends of the tokens, and clear the scanner."""
        cdef cnp.ndarray fingerprints, counts, ends
        cdef uint32_t *e
        cdef Py_ssize_t i, size = 0
        cdef bytes names = None
        cdef uint8_t *target
        if self.used:
            buffer_room(&self.text, SNB_BEYOND)
            self.drop_repeated()
        fingerprints = new_array(self.used, cnp.NPY_UINT64)
        counts = new_ones(self.used)
        memcpy(cnp.PyArray_DATA(fingerprints), self.hashes, self.used * sizeof(uint64_t))
        for i in range(self.used):
            size += self.sizes[i]
        if not self.keep_names:
            self.discard()
            return fingerprints, counts, None, None
        ends = new_array(self.used, cnp.NPY_UINT32)
        e = <uint32_t *> cnp.PyArray_DATA(ends)
        names = PyBytes_FromStringAndSize(NULL, size)
        target = <uint8_t *> PyBytes_AS_STRING(names)
        size = 0
        for i in range(self.used):
            memcpy(target + size, self.text.bytes + self.starts[i], self.sizes[i])
            size += self.sizes[i]
            e[i] = <uint32_t> size
        self.discard()
        return fingerprints, counts, names, ends
