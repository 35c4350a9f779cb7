# Declarations of grams.pyx.

cimport cython
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from streamnb._core.hashing cimport Key


@cython.final
cdef class GramScanner:
    cdef Key key
    cdef int n
    cdef int step
    cdef Py_ssize_t max_bytes
    cdef bint casefold
    cdef uint8_t *text
    cdef uint64_t *slots     # open addressing; 0 marks an empty slot
    cdef uint32_t *places    # with a step: index of the n-gram in each slot
    cdef uint32_t *used_slots  # with a step: slot of each n-gram
    cdef Py_ssize_t slot_count

    cdef Py_ssize_t take(self, Py_ssize_t used, const uint8_t *p, Py_ssize_t size) noexcept nogil
    cdef Py_ssize_t take_mail(self, const uint8_t *p, Py_ssize_t size, dict field_is_read, reads_field) except -1
    cdef nested(self, Py_ssize_t used)


@cython.final
cdef class CharacterScanner:
    cdef Key key
    cdef int n
    cdef Py_ssize_t max_characters
    cdef uint64_t *slots  # open addressing; 0 marks an empty slot
