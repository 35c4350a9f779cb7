# Names of features: a text that grows, and the start of each row's name in it.

from libc.stdint cimport uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset
from streamnb._core.arrays cimport grown

# Marks a feature without a name; no encoded name begins with this byte.
cdef extern from *:
    const char *NO_NAME "\"\\xff\""

cdef struct Names:
    char *text          # per name: its length in base 128, then its bytes
    size_t used
    size_t capacity
    size_t wasted       # bytes of names of removed rows
    uint64_t *starts    # [rows]
    Py_ssize_t capacity_rows


cdef inline void names_free(Names *names) noexcept nogil:
    free(names.text)
    free(names.starts)
    memset(names, 0, sizeof(Names))


cdef inline int names_reserve(Names *names, Py_ssize_t rows, size_t growth) except -1:
    cdef size_t size = names.used + growth
    if rows > names.capacity_rows:
        rows = max(rows, names.capacity_rows + names.capacity_rows // 8 + 8)
        names.starts = <uint64_t *> grown(names.starts, rows * sizeof(uint64_t))
        names.capacity_rows = rows
    if size > names.capacity:
        size = max(size, names.capacity + names.capacity // 8 + 64)
        names.text = <char *> grown(names.text, size)
        names.capacity = size
    return 0


cdef inline void names_put(Names *names, Py_ssize_t row, const char *name, size_t size) noexcept nogil:
    cdef size_t length = size
    names.starts[row] = names.used
    while length >= 128:
        names.text[names.used] = <char> ((length & 127) | 128)
        names.used += 1
        length >>= 7
    names.text[names.used] = <char> length
    names.used += 1
    memcpy(names.text + names.used, name, size)
    names.used += size


cdef inline const char *names_get(const Names *names, Py_ssize_t row, size_t *size) noexcept nogil:
    cdef size_t position = names.starts[row]
    cdef int shift = 0
    size[0] = 0
    while names.text[position] & 128:
        size[0] |= <size_t> (names.text[position] & 127) << shift
        shift += 7
        position += 1
    size[0] |= <size_t> names.text[position] << shift
    return names.text + position + 1


cdef inline int names_compact(Names *names, Py_ssize_t rows) except -1:
    """Drop the text of removed names, or keep it if memory for the copy runs out."""
    cdef Names fresh
    cdef Py_ssize_t row
    cdef size_t size
    cdef const char *name
    memset(&fresh, 0, sizeof(Names))
    try:
        names_reserve(&fresh, rows, names.used - names.wasted + 10 * rows)
    except MemoryError:
        names_free(&fresh)
        return 0
    for row in range(rows):
        name = names_get(names, row, &size)
        names_put(&fresh, row, name, size)
    names_free(names)
    names[0] = fresh
    return 0
