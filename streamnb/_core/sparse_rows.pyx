# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Counts by row and class without zeros, and the blocks in which a database stores them.

A block has `BLOCK_ROWS` features. It begins with a byte for the types of its numbers. The fingerprints of its features
follow, the day when each was last learned, and its number of messages. The counts are last: a matrix (BLOCK_ROWS, K),
or the nonzero entries with feature and class if these are shorter.
"""

cimport cython
cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset
from streamnb._core.arrays cimport checked, new_array, new_matrix
from streamnb._core.logs cimport LogSums
from streamnb._core.table cimport DENSE

import numpy as np

cnp.import_array()

cdef enum:
    ROWS = 32               # features of a block
    KINDS = 4
    SPARSE = KINDS          # added to the number of a kind if the block stores no zeros
    MOST_CLASSES = 1 << 16  # of a sparse block
    DAYS_AT = 1 + 8 * ROWS
    TIMES_AT = DAYS_AT + 2 * ROWS

BLOCK_ROWS = ROWS

cdef extern from *:
    """
    #include <float.h>
    #include <stdint.h>
    #include <string.h>
    /* A block is stored in the first kind that represents all its numbers exactly. Counts of
       discriminative models are multiples of 2^-10 (`round_to_grid` in naive_bayes/counting.py). */
    static const int snb_count_size[] = {1, 2, 4, 8}, snb_times_size[] = {1, 1, 4, 4};

    /* Numbers of `size` bytes, little-endian on every machine. */
    static inline uint64_t snb_load(const uint8_t *p, int size) {
        uint64_t bits = 0;
        for (int i = 0; i < size; i++) bits |= (uint64_t)p[i] << (8 * i);
        return bits;
    }
    static inline void snb_store(uint8_t *p, uint64_t bits, int size) {
        for (int i = 0; i < size; i++) p[i] = (uint8_t)(bits >> (8 * i));
    }
    static inline double snb_read_count(const uint8_t *p, int kind) {
        uint32_t low; uint64_t bits; float single_precision; double count;
        switch (kind) {
            case 0: return *p;
            case 1: return (double)snb_load(p, 2) / 1024.0;
            case 2:
                low = (uint32_t)snb_load(p, 4); memcpy(&single_precision, &low, 4); return single_precision;
            default: bits = snb_load(p, 8); memcpy(&count, &bits, 8); return count;
        }
    }
    static inline void snb_write_count(uint8_t *p, int kind, double count) {
        float single_precision = (float)count; uint32_t low; uint64_t bits;
        switch (kind) {
            case 0: *p = (uint8_t)count; break;
            case 1: snb_store(p, (uint64_t)(count * 1024.0), 2); break;
            case 2: memcpy(&low, &single_precision, 4); snb_store(p, low, 4); break;
            default: memcpy(&bits, &count, 8); snb_store(p, bits, 8);
        }
    }
    static inline int snb_fits(double count, int kind) {
        switch (kind) {
            case 0: return count >= 0 && count <= 255 && count == (uint8_t)count;
            case 1: return count >= 0 && count < 64 && count * 1024 == (uint16_t)(count * 1024);
            case 2: return count >= -FLT_MAX && count <= FLT_MAX && count == (float)count;
            default: return 1;
        }
    }
    """
    const int[4] snb_count_size
    const int[4] snb_times_size
    uint64_t snb_load(const uint8_t *p, int size) noexcept nogil
    void snb_store(uint8_t *p, uint64_t bits, int size) noexcept nogil
    double snb_read_count(const uint8_t *p, int kind) noexcept nogil
    void snb_write_count(uint8_t *p, int kind, double count) noexcept nogil
    int snb_fits(double count, int kind) noexcept nogil


@cython.final
cdef class SparseRows:
    """Counts (n, K) without zeros, not to be changed.

    Parameters
    ----------
    ends
        uint64, shape (n,): the end of the entries of each row.
    classes
        uint32: the class of each entry, rising within a row.
    counts
        float64: the count of each entry, not 0.
    """

    cdef readonly cnp.ndarray ends, classes, counts
    cdef uint64_t *e
    cdef uint32_t *k
    cdef double *c
    cdef Py_ssize_t n

    def __init__(self, ends, classes, counts):
        cdef Py_ssize_t i, total = len(counts)
        self.n = len(ends)
        self.ends = checked(ends, cnp.NPY_UINT64, self.n, "ends")
        self.classes = checked(classes, cnp.NPY_UINT32, total, "classes")
        self.counts = checked(counts, cnp.NPY_FLOAT64, total, "counts")
        self.e, self.k = <uint64_t *> cnp.PyArray_DATA(self.ends), <uint32_t *> cnp.PyArray_DATA(self.classes)
        self.c = <double *> cnp.PyArray_DATA(self.counts)
        for i in range(self.n):
            if self.e[i] < self.start(i) or self.e[i] > <uint64_t> total:
                raise ValueError("ends must be non-decreasing and within the entries")

    cdef inline Py_ssize_t start(self, Py_ssize_t row) noexcept nogil:
        return self.e[row - 1] if row else 0

    cdef Py_ssize_t lower_bound(self, Py_ssize_t row, uint32_t k) noexcept nogil:
        """Return the index of the first entry of a row with class k or a later one."""
        cdef Py_ssize_t below = self.start(row), above = self.e[row], middle
        while below < above:
            middle = (below + above) // 2
            if self.k[middle] < k:
                below = middle + 1
            else:
                above = middle
        return below

    cdef inline Py_ssize_t copy(self, Py_ssize_t start, Py_ssize_t end, SparseRows target, Py_ssize_t position) noexcept nogil:
        """Copy entries to an index of other rows, and return the index after them."""
        memcpy(target.k + position, self.k + start, (end - start) * sizeof(uint32_t))
        memcpy(target.c + position, self.c + start, (end - start) * sizeof(double))
        return position + end - start

    def __len__(self):
        return self.n

    @property
    def is_counted(self):
        """Whether each row has an entry, bool (n,)."""
        cdef Py_ssize_t i
        cdef cnp.ndarray mask = new_array(self.n, cnp.NPY_BOOL)
        for i in range(self.n):
            (<uint8_t *> cnp.PyArray_DATA(mask))[i] = self.e[i] > <uint64_t> self.start(i)
        return mask

    def dense(self, Py_ssize_t classes):
        """Return the counts with zeros, float64 (n, classes)."""
        cdef Py_ssize_t i, j
        cdef cnp.ndarray cells = np.zeros((self.n, classes))
        cdef double *target = <double *> cnp.PyArray_DATA(cells)
        for i in range(self.n):
            for j in range(self.start(i), self.e[i]):
                if self.k[j] >= classes:
                    raise IndexError(f"class index {self.k[j]} is not below {classes}")
                target[i * classes + self.k[j]] = self.c[j]
        return cells

    def take(self, rows):
        """Return the rows with these indices, int64; -1 stands for an empty row."""
        cdef Py_ssize_t i, n = len(rows), total = 0
        cdef int64_t *r = <int64_t *> cnp.PyArray_DATA(checked(rows, cnp.NPY_INT64, n, "rows"))
        cdef SparseRows selection
        for i in range(n):
            if not -1 <= r[i] < self.n:
                raise IndexError(f"row {r[i]} of {self.n}")
            if r[i] >= 0:
                total += self.e[r[i]] - self.start(r[i])
        selection = empty_rows(n, total)
        total = 0
        for i in range(n):
            if r[i] >= 0:
                total = self.copy(self.start(r[i]), self.e[r[i]], selection, total)
            selection.e[i] = total
        return selection

    def column(self, uint32_t k):
        """Return the counts of class k, float64 (n,)."""
        cdef Py_ssize_t i, j
        cdef cnp.ndarray column = np.zeros(self.n)
        for i in range(self.n):
            j = self.lower_bound(i, k)
            if j < <Py_ssize_t> self.e[i] and self.k[j] == k:
                (<double *> cnp.PyArray_DATA(column))[i] = self.c[j]
        return column

    def with_column(self, uint32_t k, column):
        """Return the rows with other counts of class k, float64 (n,)."""
        cdef Py_ssize_t i, j, position = 0
        cdef double *x = <double *> cnp.PyArray_DATA(checked(column, cnp.NPY_FLOAT64, self.n, "column"))
        cdef SparseRows wider = empty_rows(self.n, len(self.counts) + self.n)
        for i in range(self.n):
            j = self.lower_bound(i, k)
            position = self.copy(self.start(i), j, wider, position)
            if x[i] != 0:
                wider.k[position], wider.c[position] = k, x[i]
                position += 1
            position = self.copy(j + (j < <Py_ssize_t> self.e[i] and self.k[j] == k), self.e[i], wider, position)
            wider.e[i] = position
        return SparseRows(wider.ends, wider.classes[:position], wider.counts[:position])

    def with_rows(self, rows, SparseRows other):
        """Return the rows, of which those with these indices (int64) come from `other`."""
        cdef Py_ssize_t i, n = len(rows), position = 0
        cdef int64_t *r = <int64_t *> cnp.PyArray_DATA(checked(rows, cnp.NPY_INT64, n, "rows"))
        cdef cnp.ndarray sources = np.full(self.n, -1)
        cdef int64_t *s = <int64_t *> cnp.PyArray_DATA(sources)
        cdef SparseRows joined = empty_rows(self.n, len(self.counts) + len(other.counts))
        for i in range(n):
            if not (0 <= r[i] < self.n and i < other.n):
                raise IndexError(f"row {r[i]} of {self.n}")
            s[r[i]] = i
        for i in range(self.n):
            if s[i] < 0:
                position = self.copy(self.start(i), self.e[i], joined, position)
            else:
                position = other.copy(other.start(s[i]), other.e[s[i]], joined, position)
            joined.e[i] = position
        return SparseRows(joined.ends, joined.classes[:position], joined.counts[:position])

    def log_likelihood_grid(
        self, counts, list totals, Py_ssize_t features, double alpha, list factors, bint unseen=False,
        bint complement=False, double length_norm=0, double length_power=0,
    ):
        """Return `CountTable.log_likelihood_grid` for a message with one count for each row, float64 (n,)."""
        cdef Py_ssize_t i, j, start, width = len(totals)
        cdef double *x = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, self.n, "counts"))
        cdef cnp.ndarray totals_array = np.array(totals, dtype=np.float64)
        cdef double[DENSE] row
        cdef LogSums sums = LogSums()
        for j in range(len(self.classes)):
            if self.k[j] >= width:
                raise IndexError(f"class index {self.k[j]} is not below {width}")
        sums.prepare(alpha, factors, <double *> cnp.PyArray_DATA(totals_array), width, features, complement)
        for i in range(self.n):
            start = self.start(i)
            if start == <Py_ssize_t> self.e[i]:
                if unseen:
                    sums.add(NULL, NULL, 0, x[i])
            elif width > DENSE:
                sums.add(self.c + start, self.k + start, self.e[i] - start, x[i])
            else:
                memset(row, 0, sizeof(row))
                for j in range(start, self.e[i]):
                    row[self.k[j]] = self.c[j]
                sums.add(row, NULL, width, x[i])
        return sums.finish(length_norm, length_power)


cdef SparseRows empty_rows(Py_ssize_t n, Py_ssize_t entries):
    """Return rows with room for entries."""
    cdef cnp.ndarray ends = new_array(n, cnp.NPY_UINT64)
    memset(cnp.PyArray_DATA(ends), 0, n * sizeof(uint64_t))
    return SparseRows(ends, new_array(entries, cnp.NPY_UINT32), new_array(entries, cnp.NPY_FLOAT64))


cdef struct Block:
    const uint8_t *keys
    const uint8_t *days
    const uint8_t *times
    const uint8_t *counts
    Py_ssize_t numbers    # classes of a matrix, or entries
    int kind
    bint is_sparse


cdef Block opened(bytes content, Py_ssize_t classes) except *:
    """Return the parts of a block, whose size is checked."""
    cdef Block block
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(content)  # ends with a zero byte
    cdef Py_ssize_t size, head
    block.keys, block.days, block.times = p + 1, p + DAYS_AT, p + TIMES_AT
    block.kind, block.is_sparse = p[0] % SPARSE, p[0] >= SPARSE
    head = TIMES_AT + ROWS * snb_times_size[block.kind]
    size = snb_count_size[block.kind] + 3 if block.is_sparse else snb_count_size[block.kind] * ROWS
    block.counts, block.numbers = p + head, (len(content) - head) // size
    if p[0] >= 2 * SPARSE or len(content) < head or (len(content) - head) % size:
        raise ValueError("a block has the wrong size or kind")
    if not block.is_sparse and block.numbers > classes:
        raise ValueError("a block has more classes than its database")
    return block


cdef Py_ssize_t read_row(Block *block, Py_ssize_t row, Py_ssize_t classes, SparseRows cells, Py_ssize_t position) except -1:
    """Read the next row of a block to the entries from an index on, and return the index after them."""
    cdef Py_ssize_t k, first = position, size = snb_count_size[block.kind]
    cdef uint16_t entry_class
    if not block.is_sparse:
        for k in range(block.numbers):
            cells.k[position], cells.c[position] = <uint32_t> k, snb_read_count(block.counts, block.kind)
            position += cells.c[position] != 0
            block.counts += size
        return position
    while block.numbers and block.counts[0] == row:
        entry_class = <uint16_t> snb_load(block.counts + 1, sizeof(uint16_t))
        if entry_class >= classes or (position > first and entry_class <= cells.k[position - 1]):
            raise ValueError("an entry of a block has a wrong class")
        cells.k[position], cells.c[position] = entry_class, snb_read_count(block.counts + 3, block.kind)
        position += cells.c[position] != 0
        block.counts += size + 3
        block.numbers -= 1
    return position


def read_blocks(list blocks, Py_ssize_t classes):
    """Return the content of b blocks, each bytes or None for an empty one.

    Returns
    -------
    Fingerprints, uint64 (b * BLOCK_ROWS,), 0 for no feature; number of messages and last day, uint32 (b * BLOCK_ROWS,
    2); and counts, SparseRows.

    Raises
    ------
    ValueError, TypeError
        If a block is damaged, or has more classes.
    """
    cdef Py_ssize_t b, row, n = len(blocks), position = 0, times_size
    cdef cnp.ndarray keys = np.zeros(n * ROWS, np.uint64), usage = np.zeros((n * ROWS, 2), np.uint32)
    cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(keys)
    cdef uint32_t *u = <uint32_t *> cnp.PyArray_DATA(usage)
    cdef Block block
    cdef SparseRows cells
    for b in range(n):
        if blocks[b] is not None:
            block = opened(<bytes?> blocks[b], classes)
            position += block.numbers if block.is_sparse else block.numbers * ROWS
    cells, position = empty_rows(n * ROWS, position + 1), 0  # `read_row` can write a zero behind the last entry
    for b in range(n):
        if blocks[b] is not None:
            block = opened(blocks[b], classes)
            times_size = snb_times_size[block.kind]
        for row in range(ROWS):
            if blocks[b] is not None:
                f[b * ROWS + row] = snb_load(block.keys + 8 * row, 8)
                u[0] = <uint32_t> snb_load(block.times + row * times_size, times_size)
                u[1] = <uint32_t> snb_load(block.days + 2 * row, 2)
                position = read_row(&block, row, classes, cells, position)
            u += 2
            cells.e[b * ROWS + row] = position
        if blocks[b] is not None and block.is_sparse and block.numbers:
            raise ValueError("the entries of a block are not sorted")
    return keys, usage, SparseRows(cells.ends, cells.classes[:position], cells.counts[:position])


cdef bytes written_block(
    const uint64_t *keys, const uint32_t *usage, SparseRows cells, Py_ssize_t first_row, Py_ssize_t classes
):
    """Return the block of the rows from `first_row` on."""
    cdef Py_ssize_t start = cells.start(first_row), end = cells.e[first_row + ROWS - 1], row, j, size, dense_size
    cdef int kind = 0, times_size, count_size
    cdef bint is_sparse
    cdef bytes block
    cdef uint8_t *p
    for row in range(ROWS):
        if usage[2 * row] > 0xFF:
            kind = 2
    while True:
        for j in range(start, end):
            if not snb_fits(cells.c[j], kind):
                break
        else:
            break
        kind += 1
    times_size, count_size = snb_times_size[kind], snb_count_size[kind]
    size, dense_size = (end - start) * (3 + count_size), ROWS * classes * count_size
    is_sparse = size < dense_size and classes <= MOST_CLASSES
    size = TIMES_AT + ROWS * times_size + (size if is_sparse else dense_size)
    block = PyBytes_FromStringAndSize(NULL, size)
    p = <uint8_t *> PyBytes_AS_STRING(block)
    memset(p, 0, size)
    p[0] = kind + SPARSE * is_sparse
    for row in range(ROWS):
        snb_store(p + 1 + 8 * row, keys[row], 8)
        snb_store(p + DAYS_AT + 2 * row, usage[2 * row + 1], 2)
        snb_store(p + TIMES_AT + row * times_size, usage[2 * row], times_size)
    p += TIMES_AT + ROWS * times_size
    for row in range(ROWS):
        for j in range(cells.start(first_row + row), cells.e[first_row + row]):
            if cells.k[j] >= classes:
                raise IndexError(f"class index {cells.k[j]} is not below {classes}")
            if is_sparse:
                p[0] = <uint8_t> row
                snb_store(p + 1, cells.k[j], sizeof(uint16_t))
                snb_write_count(p + 3, kind, cells.c[j])
                p += 3 + count_size
            else:
                snb_write_count(p + (row * classes + cells.k[j]) * count_size, kind, cells.c[j])
    return block


def write_blocks(keys, usage, SparseRows cells, block_indices, Py_ssize_t classes):
    """Return blocks, bytes, of which `read_blocks` returns this content; `block_indices` is int64 (n,)."""
    cdef Py_ssize_t i, rows = len(cells), n = len(block_indices)
    cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(keys, cnp.NPY_UINT64, rows, "keys"))
    cdef uint32_t *u = <uint32_t *> cnp.PyArray_DATA(checked(usage, cnp.NPY_UINT32, 2 * rows, "usage"))
    cdef int64_t *b = <int64_t *> cnp.PyArray_DATA(checked(block_indices, cnp.NPY_INT64, n, "block indices"))
    cdef list blocks = []
    for i in range(n):
        if not 0 <= b[i] < rows // ROWS:
            raise IndexError(f"block {b[i]} of {rows // ROWS}")
        blocks.append(written_block(f + b[i] * ROWS, u + 2 * b[i] * ROWS, cells, b[i] * ROWS, classes))
    return blocks
