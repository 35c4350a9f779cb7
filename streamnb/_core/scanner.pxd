# Declarations of scanner.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from streamnb._core.buffers cimport Buffer
from streamnb._core.hashing cimport Key
from streamnb._core.table cimport Table

cdef enum:
    BREAK = 1     # between tokens
    WORD = 2      # letters, digits, the underscore
    INNER = 3     # part of a word if word characters are on both sides
    IDEOGRAPH = 4 # scripts without spaces: each pair of adjacent characters is a token
    MARK = 5      # combining mark: belongs to the preceding character
    HIDDEN = 6    # invisible characters (soft hyphen, zero-width space): skipped
    SPACE = 7     # white space: ends words; character n-grams read a run as one space

    MAX_NGRAM = 8
    MOST_STEPS = 12  # sublinear counts: after 1,024 occurrences, each one adds 2^-10
    MAX_PREFIX = 64
    FOLDS_TO_SEVERAL = 1 << 27
    IS_ENCLOSED = 1 << 28  # a letter in a circle, a square or parentheses
    IS_STYLED = 1 << 29    # a letter or digit of mathematics, or of full width; it folds to its plain form


@cython.final
cdef class Scanner:
    cdef Key key
    cdef bint casefold, by_character, urls, keep_names, mark_invisible
    cdef double[MOST_STEPS] increments  # increment of a token's count, by its count so far
    cdef Py_ssize_t shortest, longest
    cdef int first, last
    cdef uint8_t[256] ascii  # class by byte; 0 beyond ASCII
    cdef Table stop
    # The collected tokens: concatenated names, their ends, fingerprints and counts.
    cdef Buffer names
    cdef uint32_t *ends
    cdef uint64_t *fingerprints
    cdef double *counts
    cdef Py_ssize_t used, capacity, allocated  # tokens; `capacity` is smaller for a short message
    cdef uint32_t *slots        # open addressing: token number + 1
    cdef Py_ssize_t slot_count  # a power of two
    # The text of which n-grams are slices: folded words separated by spaces.
    cdef Buffer line
    cdef Py_ssize_t[MAX_NGRAM] starts
    cdef Py_ssize_t words
    cdef Buffer plain           # the visible text of HTML
    cdef Buffer hidden          # the invisible text of HTML
    cdef Buffer attributes      # texts of a tag, such as alt

    cdef int resize(self, Py_ssize_t capacity) except -1
    cdef int emit(self, const uint8_t *token, Py_ssize_t size, const uint8_t *prefix, Py_ssize_t prefix_size,
                  Py_ssize_t room=*) except -1
    cdef int push(self, Py_ssize_t start, const uint8_t *prefix, Py_ssize_t prefix_size) except -1
    cdef int put_character(self, uint32_t point, uint32_t properties, const uint8_t *p, int size) except -1
    cdef Py_ssize_t ascii_run(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t n) noexcept nogil
    cdef int put_ascii(self, const uint8_t *p, Py_ssize_t n, Py_ssize_t room) except -1
    cdef int kind_at(self, const uint8_t *p, Py_ssize_t length, uint32_t *point, uint32_t *properties, int *size) except -1
    cdef int scan_words(self, const uint8_t *p, Py_ssize_t n, const uint8_t *prefix, Py_ssize_t prefix_size, bint urls) except -1
    cdef Py_ssize_t scan_ideographs(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t n, const uint8_t *prefix, Py_ssize_t prefix_size) except -1
    cdef Py_ssize_t url_after(self, const uint8_t *p, Py_ssize_t begin, Py_ssize_t i, Py_ssize_t n) noexcept nogil
    cdef Py_ssize_t scan_url(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t n) except -1
    cdef int scan_targets(self, const uint8_t *p, Py_ssize_t n) except -1
    cdef Py_ssize_t scan_host(self, const uint8_t *p, Py_ssize_t i, Py_ssize_t end) except -1
    cdef int scan_path(self, const uint8_t *p, Py_ssize_t n) except -1
    cdef int scan_characters(self, const uint8_t *p, Py_ssize_t n, const uint8_t *prefix, Py_ssize_t prefix_size) except -1
    cdef int scan(self, text, bytes prefix, bint html, bytes spans=*) except -1
