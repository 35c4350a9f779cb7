# Declarations of count_table.pyx.

cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t
from streamnb._core.logs cimport LogSums
from streamnb._core.names cimport Names
from streamnb._core.table cimport Table


@cython.final
cdef class CountTable:
    cdef Table table
    cdef Table values       # key: bits of a count; row: number of features with that count in each class
    cdef Names names
    cdef double *sums
    cdef Py_ssize_t sums_room
    cdef int64_t *rows    # rows of the features of the last look-up; see `find`
    cdef Py_ssize_t rows_room, found_size
    cdef uint64_t found_changes, found_sum  # of the last look-up; see `find_same`
    cdef LogSums logs
    cdef Py_ssize_t planned # features for which `reserve` made room in the index
    cdef uint64_t changes   # number of changes so far, to detect concurrent ones
    cdef Py_ssize_t k       # classes
    cdef readonly bint keep_names
    cdef readonly bint track_values
    cdef public Py_ssize_t unloaded  # number of features that a partial table has not loaded

    cdef int find(self, const uint64_t *f, Py_ssize_t n) except -1
    cdef int find_again(self, const uint64_t *f, Py_ssize_t n) except -1
    cdef int find_same(self, const uint64_t *f, Py_ssize_t n) except -1
    cdef int revalue(self, Py_ssize_t k, double before, double after) except -1
    cdef double count(self, Py_ssize_t row, Py_ssize_t k) noexcept
    cdef int foresee(self, Py_ssize_t k, double after) except -1
    cdef int roll_back(self, Py_ssize_t before) except -1
    cdef int put(self, Py_ssize_t row, Py_ssize_t k, double amount) except -1
    cdef int make(self, const uint64_t *f, const double *amounts, double weight, const int64_t *classes, Py_ssize_t width,
                  Py_ssize_t n, const char *text, const uint32_t *ends) except -1
    cdef int enter(self, const uint64_t *f, const double *amounts, double weight, const int64_t *classes, Py_ssize_t width,
                   Py_ssize_t n, bytes names, ends) except -1
    cdef int drop(self, Py_ssize_t row) except -1
    cdef int sum_up(self) except -1
    cdef int copy_name(self, CountTable other, Py_ssize_t row) except -1
    cdef uint32_t *checked_ends(self, bytes names, ends, Py_ssize_t n) except? NULL
    cdef str display_name(self, uint64_t key)
    cdef tuple in_order(self)
    cdef tuple names_in(self, order)
    cdef Py_ssize_t checked_class(self, Py_ssize_t k) except -1
