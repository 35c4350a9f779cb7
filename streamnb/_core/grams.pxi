# n-grams of the raw bytes of a message: no words to split, nothing to decode, little to evade.

cdef enum:
    MAX_GRAM = 8  # a gram fits into 64 bits, so its fingerprint can be a bijection


cdef uint64_t unmixed(uint64_t x) noexcept nogil:
    """The inverse of snb_mix64."""
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
        Bytes of a gram, 1 to 8.
    most
        How many bytes are looked at; what is left out of a header does not count.
    casefold
        Whether ASCII letters are lowered.
    key
        Fingerprint key.
    """

    cdef Key key
    cdef int n
    cdef Py_ssize_t most
    cdef bint casefold
    cdef uint8_t *text
    cdef uint64_t *slots     # open addressing; 0 for none
    cdef Py_ssize_t slot_count

    def __cinit__(self, int n=4, Py_ssize_t most=2000, bint casefold=True, bytes key=DEFAULT_KEY):
        if not 1 <= n <= MAX_GRAM:
            raise ValueError(f"a gram has 1 to {MAX_GRAM} bytes, not {n}")
        if not 1 <= most <= 1 << 24:
            raise ValueError(f"the first 1 to {1 << 24} bytes can be looked at, not {most}")
        self.key = read_key(key)
        self.n = n
        self.most = most
        self.casefold = casefold
        self.slot_count = 16
        while self.slot_count < 2 * most:
            self.slot_count *= 2
        self.text = <uint8_t *> grown(NULL, most)
        self.slots = <uint64_t *> grown(NULL, self.slot_count * sizeof(uint64_t))

    def __dealloc__(self):
        free(self.text)
        free(self.slots)

    cdef Py_ssize_t take(self, Py_ssize_t used, const uint8_t *p, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t i
        size = min(size, self.most - used)
        if self.casefold:
            for i in range(size):
                self.text[used + i] = lowered(p[i])
        else:
            memcpy(self.text + used, p, size)
        return used + size

    cdef Py_ssize_t take_mail(self, const uint8_t *p, Py_ssize_t size, dict kept, keeps) except -1:
        """Copy a message without the header fields that are not kept, those of its parts included.

        A part's header follows a line that begins with two hyphens; that of an attached message
        follows the header that announces it.
        """
        cdef Py_ssize_t i = 0, j, next_line, used = 0
        cdef const uint8_t *newline
        cdef bint keep = True, header = True, attached = False, digest = False
        cdef bytes line
        cdef bytes name
        while i < size and used < self.most:
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
                j = i
                while j < next_line and 33 <= p[j] <= 126 and p[j] != c":":
                    j += 1
                if j > i and j < next_line and p[j] == c":":
                    name = slice_of(p, i, j)
                    decision = kept.get(name)
                    keep = keeps(name) if decision is None else decision
                elif begins(p + i, size - i, b"From ", 5) or begins(p + i, size - i, b">From ", 6):
                    keep = False  # an mbox separator is no part of the message
                else:
                    header = keep = False
                    continue  # the body begins without a blank line
            if next_line - i > 8 and memchr(p + i, c"/", next_line - i) != NULL:
                line = slice_of(p, i, next_line).lower()
                digest = digest or b"multipart/digest" in line
                if b"message/" in line:
                    attached = b"message/delivery-status" not in line
            if keep:
                used = self.take(used, p + i, next_line - i)
            i = next_line
        return used

    def scan(self, bytes data, dict kept=None, keeps=None):
        """Give the fingerprints of the distinct grams, and as many ones.

        For a mail with LF line ends, `kept` says of header fields' names, as written, whether they
        are looked at, and `keeps` answers (and remembers) for those it does not know yet.
        """
        cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(data)
        cdef Py_ssize_t used, i, count = 0, slot, mask = self.slot_count - 1
        cdef uint64_t gram = 0, hash
        cdef uint64_t wanted = ~(<uint64_t> 0) >> (64 - 8 * self.n)
        cdef cnp.ndarray fingerprints, ones
        cdef uint64_t *out
        cdef double *counts
        used = self.take(0, p, len(data)) if kept is None else self.take_mail(p, len(data), kept, keeps)
        fingerprints = new_array(max(used - self.n + 1, 0), cnp.NPY_UINT64)
        out = <uint64_t *> cnp.PyArray_DATA(fingerprints)
        memset(self.slots, 0, self.slot_count * sizeof(uint64_t))
        for i in range(used):
            gram = (gram << 8 | self.text[i]) & wanted
            if i < self.n - 1:
                continue
            hash = snb_mix64(gram ^ self.key.k0) ^ self.key.k1
            hash = hash if hash else GOLDEN  # 0 marks an empty slot
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

    def name(self, uint64_t fingerprint) -> bytes:
        """The gram that has this fingerprint."""
        cdef uint64_t hash = 0 if fingerprint == GOLDEN else fingerprint
        cdef uint64_t gram = unmixed(hash ^ self.key.k1) ^ self.key.k0
        return bytes([(gram >> (8 * (self.n - 1 - i))) & 0xFF for i in range(self.n)])
