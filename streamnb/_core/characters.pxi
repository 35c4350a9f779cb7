# n-grams of the characters of a text.

cdef enum:
    CHARACTER_BITS = 21  # of a code point; three of them fit into 63 bits, so a fingerprint is a bijection


cdef class CharacterScanner:
    """Collects the distinct n-grams of 1 to 3 characters that have one beyond ASCII.

    Parameters
    ----------
    n
        Characters of the longest n-gram, 1 to 3.
    max_characters
        Number of characters read from the start of a text.
    key
        Fingerprint key.
    """

    cdef Key key
    cdef int n
    cdef Py_ssize_t max_characters, slot_count
    cdef uint64_t *slots  # open addressing; 0 for none

    def __cinit__(self, int n=3, Py_ssize_t max_characters=1500, bytes key=DEFAULT_KEY):
        if not 1 <= n <= 3:
            raise ValueError(f"n: an n-gram has 1 to 3 characters, not {n}")
        if not 1 <= max_characters <= 1 << 24:
            raise ValueError(f"max_characters: {max_characters} is not within 1 to {1 << 24}")
        self.key = read_key(key)
        self.n, self.max_characters = n, max_characters
        self.slot_count = 16
        while self.slot_count <= 2 * n * max_characters:
            self.slot_count *= 2
        self.slots = <uint64_t *> grown(NULL, self.slot_count * sizeof(uint64_t))

    def __dealloc__(self):
        free(self.slots)

    def scan(self, str text):
        """Return the fingerprints of the distinct n-grams, and as many ones."""
        cdef bytes codes = text[: self.max_characters].encode("utf-32-le", "surrogatepass")
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(codes)
        cdef Py_ssize_t i, slot, count = 0, characters = len(codes) // 4, mask = 15
        cdef cnp.ndarray fingerprints = new_array(self.n * characters, cnp.NPY_UINT64), ones
        cdef uint64_t *out = <uint64_t *> cnp.PyArray_DATA(fingerprints)
        cdef double *counts
        cdef uint64_t last = 0, hash
        cdef uint32_t code
        cdef int size, since_other = self.n  # characters since the last one beyond ASCII
        while mask < 2 * self.n * characters:  # a short text takes little time
            mask = 2 * mask + 1
        memset(self.slots, 0, (mask + 1) * sizeof(uint64_t))
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
                slot = hash & mask
                while self.slots[slot] and self.slots[slot] != hash:
                    slot = (slot + 1) & mask
                if not self.slots[slot]:
                    self.slots[slot] = hash
                    out[count] = hash
                    count += 1
        ones = new_array(count, cnp.NPY_FLOAT64)
        counts = <double *> cnp.PyArray_DATA(ones)
        for i in range(count):
            counts[i] = 1.0
        return fingerprints[:count], ones

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
