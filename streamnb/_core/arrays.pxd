# Functions that create and check arrays, and allocate memory.

cimport numpy as cnp
from libc.stdlib cimport realloc

cdef extern from *:
    const double LARGEST_COUNT "1e100"  # sums of these stay finite

cdef enum:
    MAX_NAMES = 0xFFFFFFFF


cdef inline cnp.ndarray new_array(Py_ssize_t n, int kind):
    cdef cnp.npy_intp shape = n
    return cnp.PyArray_EMPTY(1, &shape, kind, 0)


cdef inline cnp.ndarray new_ones(Py_ssize_t n):
    cdef cnp.ndarray ones = new_array(n, cnp.NPY_FLOAT64)
    cdef double *values = <double *> cnp.PyArray_DATA(ones)
    cdef Py_ssize_t i
    for i in range(n):
        values[i] = 1.0
    return ones


cdef inline cnp.ndarray new_matrix(Py_ssize_t rows, Py_ssize_t columns, int kind):
    cdef cnp.npy_intp[2] shape
    shape[0] = rows
    shape[1] = columns
    return cnp.PyArray_EMPTY(2, shape, kind, 0)


cdef inline void *grown(void *block, size_t size) except NULL:
    cdef void *out = realloc(block, size if size else 1)
    if out == NULL:
        raise MemoryError(f"out of memory: cannot allocate {size} bytes")
    return out


cdef inline cnp.ndarray checked(array, int kind, Py_ssize_t size, str name):
    # A wrong array is an error in the caller. The check raises; without it the process would crash.
    cdef cnp.ndarray a
    if not isinstance(array, cnp.ndarray):
        raise ValueError(f"{name}: expected an array, not {type(array).__name__}")
    a = array
    if cnp.PyArray_TYPE(a) != kind or not cnp.PyArray_ISCARRAY_RO(a) or cnp.PyArray_SIZE(a) != size:
        raise ValueError(f"{name}: expected a contiguous {cnp.PyArray_DescrFromType(kind)} array of {size}")
    return a
