# Fingerprints: a keyed 64-bit hash of a feature's name.

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <string.h>

    static inline uint64_t snb_load64(const uint8_t *p) {
        return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
               (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
    }

    #define SNB_ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
    #define SNB_ROUND \\
        v0 += v1; v1 = SNB_ROTL(v1, 13); v1 ^= v0; v0 = SNB_ROTL(v0, 32); \\
        v2 += v3; v3 = SNB_ROTL(v3, 16); v3 ^= v2; \\
        v0 += v3; v3 = SNB_ROTL(v3, 21); v3 ^= v0; \\
        v2 += v1; v1 = SNB_ROTL(v1, 17); v1 ^= v2; v2 = SNB_ROTL(v2, 32);

    /* SipHash-1-3 (Aumasson and Bernstein, INDOCRYPT 2012). A sender who does not know the key
       cannot choose names that collide. The default key is public and does not protect. */
    static inline uint64_t snb_siphash13_of(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n, int padded) {
        uint64_t v0 = k0 ^ 0x736f6d6570736575ULL, v1 = k1 ^ 0x646f72616e646f6dULL;
        uint64_t v2 = k0 ^ 0x6c7967656e657261ULL, v3 = k1 ^ 0x7465646279746573ULL;
        uint64_t last = (uint64_t)n << 56, word;
        const uint8_t *end = p + (n & ~(size_t)7);
        int i;
        for (; p != end; p += 8) {
            word = snb_load64(p);
            v3 ^= word; SNB_ROUND v0 ^= word;
        }
        if (padded) last |= snb_load64(p) & ~(~(uint64_t)0 << (8 * (n & 7)));
        else for (i = 0; i < (int)(n & 7); i++) last |= (uint64_t)p[i] << (8 * i);
        v3 ^= last; SNB_ROUND v0 ^= last;
        v2 ^= 0xff;
        SNB_ROUND SNB_ROUND SNB_ROUND
        return v0 ^ v1 ^ v2 ^ v3;
    }
    static inline uint64_t snb_siphash13(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) {
        return snb_siphash13_of(k0, k1, p, n, 0);
    }
    /* The same hash, if 8 bytes beyond the end are readable. A loop over the last bytes would be
       an unpredictable branch. */
    static inline uint64_t snb_siphash13_padded(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) {
        return snb_siphash13_of(k0, k1, p, n, 1);
    }
    #if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
    #define SNB_WIDER __attribute__((target_clones("avx512f", "avx2", "default")))
    #else
    #define SNB_WIDER
    #endif
    #define SNB_LANES 16
    #define SNB_LONGEST 12
    #define SNB_BEYOND 24
    /* The same hash of up to SNB_LANES texts with equally many 8-byte words, interleaved: the
       latency of one text is hidden by the work on the others. */
    SNB_WIDER static void snb_siphash13_side_by_side(uint64_t k0, uint64_t k1, const uint64_t (*words)[SNB_LANES],
                                                     int count, uint64_t *out) {
        uint64_t a0[SNB_LANES], a1[SNB_LANES], a2[SNB_LANES], a3[SNB_LANES];
        int i, b;
        for (i = 0; i < SNB_LANES; i++) {
            a0[i] = k0 ^ 0x736f6d6570736575ULL; a1[i] = k1 ^ 0x646f72616e646f6dULL;
            a2[i] = k0 ^ 0x6c7967656e657261ULL; a3[i] = k1 ^ 0x7465646279746573ULL;
        }
        for (b = 0; b < count; b++)
            for (i = 0; i < SNB_LANES; i++) {
                uint64_t v0 = a0[i], v1 = a1[i], v2 = a2[i], v3 = a3[i] ^ words[b][i];
                SNB_ROUND
                a0[i] = v0 ^ words[b][i]; a1[i] = v1; a2[i] = v2; a3[i] = v3;
            }
        for (i = 0; i < SNB_LANES; i++) {
            uint64_t v0 = a0[i], v1 = a1[i], v2 = a2[i] ^ 0xff, v3 = a3[i];
            SNB_ROUND SNB_ROUND SNB_ROUND
            out[i] = v0 ^ v1 ^ v2 ^ v3;
        }
    }
    /* The same hash of many texts: text i is sizes[i] bytes at p + starts[i]. SNB_BEYOND bytes
       beyond the last text are readable. */
    static void snb_siphash13_many(uint64_t k0, uint64_t k1, const uint8_t *p, const uint32_t *starts,
                                   const uint32_t *sizes, uint64_t *out, ptrdiff_t count) {
        uint64_t words[SNB_LONGEST][SNB_LONGEST][SNB_LANES], hashes[SNB_LANES], last;
        const uint8_t *text;
        ptrdiff_t texts[SNB_LONGEST][SNB_LANES], i;
        int waiting[SNB_LONGEST] = {0}, full, lane, b;
        for (i = 0; i <= count + SNB_LONGEST; i++) {
            if (i < count) {
                full = (int)(sizes[i] / 8);
                if (full >= SNB_LONGEST) {
                    out[i] = snb_siphash13_padded(k0, k1, p + starts[i], sizes[i]);
                    continue;
                }
                lane = waiting[full]++;
                texts[full][lane] = i;
                text = p + starts[i];
                last = snb_load64(text + 8 * full) & ~(~(uint64_t)0 << (8 * (sizes[i] & 7)));
                /* The number of words is unpredictable, so the first three are always copied. */
                for (b = 0; b < 3; b++) words[full][b][lane] = snb_load64(text + 8 * b);
                for (; b < full; b++) words[full][b][lane] = snb_load64(text + 8 * b);
                words[full][full][lane] = last | (uint64_t)sizes[i] << 56;
            } else full = (int)(i - count) % SNB_LONGEST;  /* flush the incomplete lanes */
            if (waiting[full] == SNB_LANES || (i >= count && waiting[full])) {
                snb_siphash13_side_by_side(k0, k1, (const uint64_t (*)[SNB_LANES])words[full], full + 1, hashes);
                for (lane = 0; lane < waiting[full]; lane++) out[texts[full][lane]] = hashes[lane];
                waiting[full] = 0;
            }
        }
    }
    /* Copy n bytes, if `room` bytes are readable at the source and 16 writable at the target. */
    static inline void snb_copy(uint8_t *target, const uint8_t *from, size_t n, size_t room) {
        if (n <= 16 && room >= 16) memcpy(target, from, 16);
        else memcpy(target, from, n);
    }

    /* A bijection of 64-bit integers (Steele, Lea and Flood, OOPSLA 2014). */
    static inline uint64_t snb_mix64(uint64_t x) {
        x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ULL;
        x ^= x >> 27; x *= 0x94d049bb133111ebULL;
        return x ^ (x >> 31);
    }
    """
    enum:
        SNB_BEYOND
    uint64_t snb_siphash13(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) noexcept nogil
    uint64_t snb_siphash13_padded(uint64_t k0, uint64_t k1, const uint8_t *p, size_t n) noexcept nogil
    void snb_siphash13_many(uint64_t k0, uint64_t k1, const uint8_t *p, const uint32_t *starts, const uint32_t *sizes,
                            uint64_t *out, Py_ssize_t count) noexcept nogil
    void snb_copy(uint8_t *target, const uint8_t *source, size_t n, size_t room) noexcept nogil
    uint64_t snb_mix64(uint64_t x) noexcept nogil
    uint64_t snb_load64(const uint8_t *p) noexcept nogil

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

# A str name is stored as UTF-8; other names begin with a byte that UTF-8 never uses.
cdef enum:
    NAME_BYTES = 0xF8
    NAME_INT = 0xF9
    NAME_BIG_INT = 0xFA
    NAME_TUPLE = 0xFB
    MAX_TUPLE_DEPTH = 16
    LONGEST_INT = 1500  # bytes: Python refuses to convert longer integers to text

cdef struct Key:
    uint64_t k0
    uint64_t k1


cdef inline Key read_key(bytes key) except *:
    cdef Key out
    if len(key) != 16:
        raise ValueError(f"a fingerprint key has 16 bytes, not {len(key)}")
    out.k0 = snb_load64(<const uint8_t *> PyBytes_AS_STRING(key))
    out.k1 = snb_load64(<const uint8_t *> PyBytes_AS_STRING(key) + 8)
    return out


cdef inline bytes utf8(str text):
    return text.encode("utf-8", "surrogatepass")


cdef inline uint64_t hash_encoded(Key key, const uint8_t *p, Py_ssize_t n) noexcept nogil:
    # The hash of a 64-bit integer is a bijection, so the columns of a matrix never collide. Other names that are not
    # str have another key, so b"a" differs from "a".
    if n == 9 and p[0] == NAME_INT:
        return snb_mix64(snb_load64(p + 1) ^ key.k0) ^ key.k1
    if n and p[0] >= NAME_BYTES:
        return snb_siphash13(key.k0, key.k1 ^ 1, p, n)
    return snb_siphash13(key.k0, key.k1, p, n)


# Sets of hashes in open addressing; 0 marks a free slot

cdef inline uint64_t slot_mask(Py_ssize_t hashes) noexcept nogil:
    """Return the number of slots minus 1, a power of two minus 1, at which half of the slots are free."""
    cdef uint64_t mask = 15
    while mask + 1 < 2 * <uint64_t> hashes:
        mask = 2 * mask + 1
    return mask


cdef inline uint64_t clear_slots(uint64_t *slots, Py_ssize_t hashes) noexcept nogil:
    """Clear the slots that a number of hashes needs, few for a short text; return their mask."""
    cdef uint64_t mask = slot_mask(hashes)
    memset(slots, 0, (mask + 1) * sizeof(uint64_t))
    return mask


cdef inline bint enter_hash(uint64_t *slots, uint64_t mask, uint64_t hash) noexcept nogil:
    """Add a hash to a set. Return False if the set has it already."""
    cdef uint64_t slot = hash & mask
    cdef bint is_new
    # A branch on whether the hash is new would be unpredictable.
    while (slots[slot] != 0) & (slots[slot] != hash):
        slot = (slot + 1) & mask
    is_new = slots[slot] == 0
    slots[slot] = hash
    return is_new
