# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""The compiled core: fingerprints, the count table, sums of logarithms and the token scanner.

Each function handles a whole message, so a call from Python into C costs once a message, not once a
token. The formulas are in `streamnb.naive_bayes`, the choice of tokens in `streamnb.features`.
"""

from operator import index

import numpy as np

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport INFINITY, NAN, fabs, floor, rint, sqrt
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memmove, memset

cdef extern from "string.h" nogil:
    const void *memchr(const void *p, int c, size_t n)

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

cnp.import_array()

cdef enum:
    MAX_NAMES = 0xFFFFFFFF

cdef double LARGEST_COUNT = 1e100  # sums of these stay finite


cdef inline cnp.ndarray new_array(Py_ssize_t n, int kind):
    cdef cnp.npy_intp shape = n
    return cnp.PyArray_EMPTY(1, &shape, kind, 0)


cdef inline cnp.ndarray new_matrix(Py_ssize_t rows, Py_ssize_t columns, int kind):
    cdef cnp.npy_intp[2] shape
    shape[0] = rows
    shape[1] = columns
    return cnp.PyArray_EMPTY(2, shape, kind, 0)


cdef void *grown(void *block, size_t size) except NULL:
    cdef void *out = realloc(block, size if size else 1)
    if out == NULL:
        raise MemoryError(f"out of memory: cannot allocate {size} bytes")
    return out


cdef inline cnp.ndarray checked(array, int kind, Py_ssize_t size, str what):
    # A wrong array is a programming error of the caller; it must raise, not crash.
    cdef cnp.ndarray a
    if not isinstance(array, cnp.ndarray):
        raise ValueError(f"{what}: expected an array, not {type(array).__name__}")
    a = array
    if cnp.PyArray_TYPE(a) != kind or not cnp.PyArray_ISCARRAY_RO(a) or cnp.PyArray_SIZE(a) != size:
        raise ValueError(f"{what}: expected a contiguous {np.dtype(cnp.PyArray_DescrFromType(kind))} array of {size}")
    return a


include "hash.pxi"
include "table.pxi"
include "sums.pxi"
include "exact.pxi"
include "exact_sums.pxi"
include "normal.pxi"
include "names.pxi"
include "count_table.pxi"
include "header.pxi"
include "scan.pxi"
include "html.pxi"
include "hidden.pxi"
include "recalibration.pxi"
include "grams.pxi"
include "characters.pxi"
include "pairs.pxi"
include "ranking.pxi"
