# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""n-grams of the bytes of a message, and of the characters of a text."""

from streamnb._core.hashing import DEFAULT_KEY
from streamnb._core.logs import log_cells

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING
from libc.math cimport sqrt
from libc.stdint cimport int32_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memchr, memcpy, memset
from streamnb._core.arrays cimport checked, grown, new_array, new_matrix, new_ones
from streamnb._core.buffers cimport begins, lowered
from streamnb._core.hashing cimport Key, clear_slots, enter_hash, read_key, slot_mask, snb_mix64
from streamnb._core.markup cimport field_name_end, field_start, find_bytes, is_separator, slice_of
from streamnb._core.table cimport GOLDEN

cnp.import_array()

cdef enum:
    MAX_GRAM = 8  # bytes: an n-gram fits into 64 bits, so its fingerprint is a bijection
    MAX_NESTED = 6  # bytes: an n-gram and its length fit into 64 bits

cdef uint64_t PAYLOAD = 0x00FFFFFFFFFFFFFFULL


cdef uint64_t unmixed(uint64_t x) noexcept nogil:
    """Return the inverse of snb_mix64."""
    x ^= (x >> 31) ^ (x >> 62)
    x *= <uint64_t> 0x319642B2D24D8EC3ULL
    x ^= (x >> 27) ^ (x >> 54)
    x *= <uint64_t> 0x96DE1B173F119089ULL
    return x ^ (x >> 30) ^ (x >> 60)


cdef class GramScanner:
    """Collects the distinct n-grams of the first bytes of a message.

    Parameters
    ----------
    n
        Length of an n-gram, 1 to 8 bytes.
    step
        0 for n-grams only. If positive, the suffixes of n - step, n - 2 step ... bytes are counted, too, once for each
        n-gram. Then n must be a multiple of step, and at most 6.
    max_bytes
        Number of bytes read from the start, not counting skipped header fields.
    casefold
        True to convert ASCII letters to lower case.
    key
        Fingerprint key.
    """



    def __cinit__(
        self, int n=4, Py_ssize_t max_bytes=2000, bint casefold=True, int step=0, bytes key=DEFAULT_KEY
    ):
        if not 1 <= n <= MAX_GRAM:
            raise ValueError(f"n: an n-gram has 1 to {MAX_GRAM} bytes, not {n}")
        if step and not (0 < step <= n <= MAX_NESTED and n % step == 0):
            raise ValueError(f"step: n must be a multiple of {step} and at most {MAX_NESTED}, not {n}")
        if not 1 <= max_bytes <= 1 << 24:
            raise ValueError(f"max_bytes: {max_bytes} is not within 1 to {1 << 24}")
        self.key = read_key(key)
        self.n = n
        self.step = step
        self.max_bytes = max_bytes
        self.casefold = casefold
        self.slot_count = slot_mask(max_bytes) + 1
        if step:
            self.slot_count *= 1 << (n // step).bit_length()
        self.text = <uint8_t *> grown(NULL, max_bytes)
        self.slots = <uint64_t *> grown(NULL, self.slot_count * sizeof(uint64_t))
        memset(self.slots, 0, self.slot_count * sizeof(uint64_t))
        if step:
            self.places = <uint32_t *> grown(NULL, self.slot_count * sizeof(uint32_t))
            self.used_slots = <uint32_t *> grown(NULL, max_bytes * (n // step) * sizeof(uint32_t))

    def __dealloc__(self):
        free(self.text)
        free(self.places)
        free(self.used_slots)
        free(self.slots)

    cdef Py_ssize_t take(self, Py_ssize_t used, const uint8_t *p, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t i
        size = min(size, self.max_bytes - used)
        if self.casefold:
            for i in range(size):
                self.text[used + i] = lowered(p[i])
        else:
            memcpy(self.text + used, p, size)
        return used + size

    cdef Py_ssize_t take_mail(self, const uint8_t *p, Py_ssize_t size, dict field_is_read, reads_field) except -1:
        """Copy a message without the header fields that are not read, including those of its parts.

        The header of a part follows a line that begins with two hyphens. The header of an attached message follows the
        header of its part.
        """
        cdef Py_ssize_t i = 0, j, begin, colon = 0, next_line, used = 0
        cdef const uint8_t *newline
        cdef bint keep = True, header = True, attached = False, digest = False
        cdef bytes name
        while i < size and used < self.max_bytes:
            newline = <const uint8_t *> memchr(p + i, c"\n", size - i)
            next_line = size if newline == NULL else newline - p + 1
            if not header:
                header = begins(p + i, next_line - i, b"--", 2)
                attached = digest
                used = self.take(used, p + i, next_line - i)
                i = next_line
                keep = True
                continue
            if p[i] == c"\n":
                header, attached, keep = attached, False, True
            elif p[i] != c" " and p[i] != c"\t":
                begin = i if p[i] and p[i] != 0xEF else field_start(p, i, next_line)
                j = field_name_end(p, begin, next_line, &colon)
                if j > begin:
                    name = slice_of(p, begin, j)
                    decision = field_is_read.get(name)
                    keep = reads_field(name) if decision is None else decision
                else:  # keep damaged lines, because some mail programs show them
                    keep = not is_separator(p + i, next_line - i)
            if next_line - i > 8 and memchr(p + i, c"/", next_line - i) != NULL:
                digest = digest or find_bytes(p, i, next_line, b"multipart/digest") >= 0
                if find_bytes(p, i, next_line, b"message/") >= 0:
                    attached = find_bytes(p, i, next_line, b"message/delivery-status") < 0
            if keep:
                used = self.take(used, p + i, next_line - i)
            i = next_line
        return used

    def scan(self, bytes data, dict field_is_read=None, reads_field=None):
        """Return the fingerprints of the distinct n-grams, and their counts, all 1.

        A mail must have LF line ends. `reads_field` decides by the name of a header field whether it is read;
        `field_is_read` caches the decisions.
        """
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef Py_ssize_t used, i, count = 0
        cdef uint64_t gram = 0, hash, mask
        cdef uint64_t wanted = ~(<uint64_t> 0) >> (64 - 8 * self.n)
        cdef cnp.ndarray fingerprints
        cdef uint64_t *out
        used = self.take(0, p, len(data)) if field_is_read is None else self.take_mail(p, len(data), field_is_read, reads_field)
        if self.step:
            return self.nested(used)
        fingerprints = new_array(max(used - self.n + 1, 0), cnp.NPY_UINT64)
        out = <uint64_t *> cnp.PyArray_DATA(fingerprints)
        mask = clear_slots(self.slots, used)
        for i in range(used):
            gram = (gram << 8 | self.text[i]) & wanted
            if i < self.n - 1:
                continue
            hash = snb_mix64(gram ^ self.key.k0) ^ self.key.k1
            hash = hash if hash else GOLDEN  # 0 marks a free slot
            out[count] = hash
            count += enter_hash(self.slots, mask, hash)
        return fingerprints[:count], new_ones(count)

    cdef nested(self, Py_ssize_t used):
        """Return the n-grams of all lengths in the first `used` bytes, with their counts.

        An n-gram counts once for each distinct n-gram of n bytes of which it is a suffix. At the first
        n - 1 bytes of the text, no n-gram of n bytes ends: the longest one that ends there is counted instead.
        """
        cdef Py_ssize_t i, count = 0, slot, mask = self.slot_count - 1
        cdef Py_ssize_t sizes = self.n // self.step
        cdef uint64_t last = 0, hash
        cdef int size
        cdef bint longest
        cdef cnp.ndarray fingerprints = new_array(used * sizes, cnp.NPY_UINT64)
        cdef cnp.ndarray amounts = new_array(used * sizes, cnp.NPY_FLOAT64)
        cdef uint64_t *out = <uint64_t *> cnp.PyArray_DATA(fingerprints)
        cdef double *counts = <double *> cnp.PyArray_DATA(amounts)
        for i in range(used):
            last = last << 8 | self.text[i]
            size = min(self.n, <int> ((i + 1) // self.step * self.step))
            longest = True
            while size:
                hash = nested_fingerprint(self.key, last, size)
                slot = hash & mask
                while self.slots[slot] and self.slots[slot] != hash:
                    slot = (slot + 1) & mask
                if self.slots[slot] == 0:
                    self.slots[slot] = hash
                    self.places[slot] = <uint32_t> count
                    self.used_slots[count] = <uint32_t> slot
                    out[count] = hash
                    counts[count] = 1.0
                    count += 1
                elif longest:
                    break  # repeated: its suffixes are counted already
                else:
                    counts[self.places[slot]] += 1.0
                longest = False
                size -= self.step
        for i in range(count):
            self.slots[self.used_slots[i]] = 0
        return fingerprints[:count], amounts[:count]

    def name(self, uint64_t fingerprint) -> bytes:
        """Return the n-gram with this fingerprint."""
        cdef uint64_t hash = 0 if fingerprint == GOLDEN else fingerprint
        cdef uint64_t gram = unmixed(hash ^ self.key.k1) ^ self.key.k0
        cdef int size = <int> (gram >> 56) if self.step else self.n
        return bytes([(gram >> (8 * (size - 1 - i))) & 0xFF for i in range(min(size, MAX_GRAM))])


cdef inline uint64_t nested_fingerprint(Key key, uint64_t last, int size) noexcept nogil:
    """Return the fingerprint of the last `size` bytes: a bijection of the bytes and `size`."""
    cdef uint64_t gram = last & (~(<uint64_t> 0) >> (64 - 8 * size)) | <uint64_t> size << 56
    cdef uint64_t hash = snb_mix64(gram ^ key.k0) ^ key.k1
    return hash if hash else GOLDEN


def backoff_log_probabilities(
    fingerprints, cells, list totals, double alpha, double spread, int step, bytes key=DEFAULT_KEY
):
    """Return the log probabilities of nested n-grams, each given its preceding bytes.

    Parameters
    ----------
    fingerprints
        uint64, shape (n,): fingerprints of a message from a `GramScanner` with this step.
    cells
        float64, shape (n, K): their counts in each class.
    totals
        Total count of each class, length K.
    alpha
        Additive smoothing of the shortest n-grams.
    spread
        Back-off weight: the weight of the shorter n-gram is `spread` times the root of the context's count.
    step
        Difference between successive lengths, in bytes.

    Returns
    -------
    float64, shape (n, K), and uint8, shape (n,)
        The log probabilities; and 1 for each n-gram to sum, which is no suffix of a longer one in the message.
    """
    cdef Py_ssize_t n = len(fingerprints), width = len(totals), i, k, mask = slot_mask(n)
    cdef Key hash_key = read_key(key)
    cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
    cdef double *v = <double *> cnp.PyArray_DATA(checked(cells, cnp.NPY_FLOAT64, n * width, "cells"))
    cdef cnp.ndarray shares = new_matrix(n, width, cnp.NPY_FLOAT64)
    cdef cnp.ndarray longest = new_array(n, cnp.NPY_UINT8)
    cdef double *q = <double *> cnp.PyArray_DATA(shares)
    cdef uint8_t *is_longest = <uint8_t *> cnp.PyArray_DATA(longest)
    cdef uint64_t *grams = NULL
    cdef int32_t *slots = NULL
    cdef double *base = NULL
    cdef uint8_t *sizes = NULL
    cdef double *roots = NULL
    cdef double m, root, count, back, room = alpha
    cdef uint64_t gram
    cdef Py_ssize_t shorter, before
    cdef int size
    if not 1 <= step <= MAX_NESTED:
        raise ValueError(f"step: 1 to {MAX_NESTED}, not {step}")
    for size in range(step):
        room *= 256
    try:
        grams = <uint64_t *> grown(NULL, n * sizeof(uint64_t))
        slots = <int32_t *> grown(NULL, (mask + 1) * sizeof(int32_t))
        base = <double *> grown(NULL, width * sizeof(double))
        sizes = <uint8_t *> grown(NULL, n)
        roots = <double *> grown(NULL, n * width * sizeof(double))
        for k in range(width):
            base[k] = totals[k] + room
        memset(slots, 0xFF, (mask + 1) * sizeof(int32_t))
        for i in range(n):
            grams[i] = unmixed((0 if f[i] == GOLDEN else f[i]) ^ hash_key.k1) ^ hash_key.k0
            sizes[i] = size_of(grams[i], step)
            is_longest[i] = 1
            slot_enter(slots, mask, f, i)
        for size in range(step, MAX_NESTED + 1, step):
            for i in range(n):
                if sizes[i] != size:
                    continue
                for k in range(width):
                    roots[i * width + k] = spread * sqrt(v[i * width + k])
                if size == step:
                    for k in range(width):
                        q[i * width + k] = (v[i * width + k] + alpha) / base[k]
                    continue
                gram = grams[i]
                shorter = slot_find(slots, mask, f, nested_fingerprint(hash_key, gram, size - step))
                before = slot_find(slots, mask, f, nested_fingerprint(hash_key, gram >> (8 * step) & PAYLOAD, size - step))
                context_count = 0.0
                if shorter >= 0:
                    is_longest[shorter] = 0
                    for k in range(width):
                        context_count += v[shorter * width + k]
                for k in range(width):
                    count = v[i * width + k]
                    back = q[shorter * width + k] if shorter >= 0 else alpha / base[k]
                    # the suffix was never learned, so the context has no information
                    if context_count == 0:
                        q[i * width + k] = back
                        continue
                    m = max(v[before * width + k] if before >= 0 else 0.0, count)
                    if m > 0:
                        root = roots[before * width + k] if m > count else spread * sqrt(m)
                        back = (count + root * back) / (m + root)
                    q[i * width + k] = back
        for i in range(n):  # other features have no context
            if sizes[i] == 0:
                for k in range(width):
                    q[i * width + k] = (v[i * width + k] + alpha) / base[k]
        return log_cells(shares), longest
    finally:
        free(grams)
        free(slots)
        free(base)
        free(sizes)
        free(roots)


cdef inline int size_of(uint64_t gram, int step) noexcept nogil:
    """Return the length of a nested n-gram in bytes; 0 for another feature."""
    cdef int size = <int> (gram >> 56)
    if size == 0 or size > MAX_NESTED or size % step or (gram & PAYLOAD) >> (8 * size):
        return 0
    return size


cdef inline void slot_enter(int32_t *slots, Py_ssize_t mask, const uint64_t *f, Py_ssize_t i) noexcept nogil:
    cdef Py_ssize_t slot = f[i] & mask
    while slots[slot] >= 0:
        slot = (slot + 1) & mask
    slots[slot] = <int32_t> i


cdef inline Py_ssize_t slot_find(const int32_t *slots, Py_ssize_t mask, const uint64_t *f, uint64_t wanted) noexcept nogil:
    cdef Py_ssize_t slot = wanted & mask
    while slots[slot] >= 0 and f[slots[slot]] != wanted:
        slot = (slot + 1) & mask
    return slots[slot]


cdef enum:
    CHARACTER_BITS = 21  # bits of a code point: three fit into 63 bits, so a fingerprint is a bijection


cdef class CharacterScanner:
    """Collects the distinct n-grams of 1 to 3 characters that contain a non-ASCII character.

    Parameters
    ----------
    n
        Characters of the longest n-gram, 1 to 3.
    max_characters
        Number of characters read from the start of a text.
    key
        Fingerprint key.
    """



    def __cinit__(self, int n=3, Py_ssize_t max_characters=1500, bytes key=DEFAULT_KEY):
        if not 1 <= n <= 3:
            raise ValueError(f"n: an n-gram has 1 to 3 characters, not {n}")
        if not 1 <= max_characters <= 1 << 24:
            raise ValueError(f"max_characters: {max_characters} is not within 1 to {1 << 24}")
        self.key = read_key(key)
        self.n, self.max_characters = n, max_characters
        self.slots = <uint64_t *> grown(NULL, (slot_mask(n * max_characters) + 1) * sizeof(uint64_t))

    def __dealloc__(self):
        free(self.slots)

    def scan(self, str text):
        """Return the fingerprints of the distinct n-grams, and their counts, all 1."""
        cdef bytes codes = text[: self.max_characters].encode("utf-32-le", "surrogatepass")
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(codes)
        cdef Py_ssize_t i, count = 0, characters = len(codes) // 4
        cdef cnp.ndarray fingerprints = new_array(self.n * characters, cnp.NPY_UINT64)
        cdef uint64_t *out = <uint64_t *> cnp.PyArray_DATA(fingerprints)
        cdef uint64_t last = 0, hash, mask = clear_slots(self.slots, self.n * characters)
        cdef uint32_t code
        cdef int size, since_other = self.n  # characters since the last non-ASCII one
        for i in range(characters):
            code = p[4 * i] | <uint32_t> p[4 * i + 1] << 8 | <uint32_t> p[4 * i + 2] << 16
            if code == 0:
                continue
            last = last << CHARACTER_BITS | code
            since_other = 0 if code >= 0x80 else min(since_other + 1, self.n)
            for size in range(since_other + 1, self.n + 1):
                if size > 1 and not last >> (CHARACTER_BITS * (size - 1)) & ((1 << CHARACTER_BITS) - 1):
                    break  # the text begins here
                hash = character_fingerprint(self.key, last, size)
                if enter_hash(self.slots, mask, hash):
                    out[count] = hash
                    count += 1
        return fingerprints[:count], new_ones(count)

    def name(self, uint64_t fingerprint) -> str:
        """Return the n-gram with this fingerprint."""
        cdef uint64_t hash = 0 if fingerprint == GOLDEN else fingerprint
        cdef uint64_t gram = unmixed(hash ^ self.key.k1) ^ self.key.k0
        codes = [(gram >> (CHARACTER_BITS * (2 - i))) & ((1 << CHARACTER_BITS) - 1) for i in range(3)]
        return "".join([chr(code) for code in codes if 0 < code <= 0x10FFFF])


cdef inline uint64_t character_fingerprint(Key key, uint64_t last, int size) noexcept nogil:
    """Return the fingerprint of the last `size` characters: a bijection."""
    cdef uint64_t gram = last & (~(<uint64_t> 0) >> (64 - CHARACTER_BITS * size))
    cdef uint64_t hash = snb_mix64(gram ^ key.k0) ^ key.k1
    return hash if hash else GOLDEN
