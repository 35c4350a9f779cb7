# Declarations of pairs.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from streamnb._core.buffers cimport Buffer
from streamnb._core.hashing cimport Key


@cython.final
cdef class PairScanner:
    cdef Key key
    cdef Py_ssize_t max_tokens, tokens
    cdef bint keep_names
    cdef Buffer text         # tokens separated by spaces; a pair is a slice of it
    cdef Py_ssize_t before   # start of the preceding token; -1 for none
    cdef uint32_t *starts    # of tokens and pairs, in order
    cdef uint32_t *sizes
    cdef Py_ssize_t used
    cdef uint64_t *hashes
    cdef uint64_t *slots     # open addressing; 0 marks an empty slot

    cdef void enter(self, Py_ssize_t start) noexcept nogil
    cdef void drop_repeated(self) noexcept nogil
    cdef int add_text(self, const uint8_t *p, Py_ssize_t n) except -1
