# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""The count table: a count per fingerprint and class, and the total of each class."""

from array import array

import numpy as np

from streamnb._core.hashing import decode_name

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from streamnb._core.arrays cimport checked, grown, new_array, new_matrix
from streamnb._core.logs cimport LogSums, difference, snb_accumulate
from streamnb._core.names cimport NO_NAME, names_compact, names_free, names_get, names_put, names_reserve
from streamnb._core.table cimport (
    AHEAD, BLOCK, DENSE, MAX_COLUMNS, Row, row_cell, row_cells, row_copy, row_get, row_is_empty, segment_home,
    snb_prefetch, table_at, table_bytes, table_find, table_find_many, table_free, table_hash, table_index,
    table_remove, table_room, table_row, table_segment, table_widen,
)

cnp.import_array()

cdef extern from *:
    """
    #include <stdlib.h>
    static int snb_rising(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
        return (x > y) - (x < y);
    }
    /* Sort pairs of numbers by the first number. */
    static void snb_sort_pairs(uint64_t *pairs, size_t n) { qsort(pairs, n, 2 * sizeof(uint64_t), snb_rising); }
    """
    void snb_sort_pairs(uint64_t *pairs, size_t n) noexcept


cdef uint64_t fingerprint_sum(const uint64_t *f, Py_ssize_t n) noexcept nogil:
    """Return a hash of a sequence of fingerprints (which are hashes themselves)."""
    cdef uint64_t total = 0
    cdef Py_ssize_t i
    for i in range(n):
        total += f[i] * <uint64_t> (2 * i + 1)  # independent products: one per cycle
    return total


cdef class CountTable:
    """Counts of features by class, in memory.

    Parameters
    ----------
    classes
        Initial number of classes; `widen` adds more.
    keep_names
        True to store the names of features.
    track_values
        True to count the features with each count, per class. Bernoulli models need these numbers for absent features.
    """



    def __cinit__(self, Py_ssize_t classes=0, bint keep_names=True, bint track_values=False):
        self.keep_names = keep_names
        self.track_values = track_values
        self.logs = LogSums()
        self.widen(classes)

    def __dealloc__(self):
        table_free(&self.table)
        table_free(&self.values)
        names_free(&self.names)
        free(self.sums)
        free(self.rows)

    def __len__(self):
        return self.table.rows

    def __sizeof__(self):
        cdef size_t size = sizeof(CountTable) + (self.sums_room + self.rows_room) * sizeof(double)
        size += table_bytes(&self.table) + table_bytes(&self.values)
        return size + self.names.capacity + self.names.capacity_rows * sizeof(uint64_t)

    @property
    def classes(self) -> int:
        """Number of classes, K."""
        return self.k

    @property
    def totals(self) -> list[float]:
        """The sum of the counts of each class."""
        return [self.sums[k] for k in range(self.k)]

    def widen(self, Py_ssize_t classes):
        """Add classes, up to the given number."""
        if classes <= self.k:
            return
        if classes > MAX_COLUMNS:
            raise ValueError(f"{classes} classes: a count table has at most {MAX_COLUMNS}")
        if classes > self.sums_room:
            self.sums = <double *> grown(self.sums, (classes + classes // 2) * sizeof(double))
            self.sums_room = classes + classes // 2
        memset(self.sums + self.k, 0, (classes - self.k) * sizeof(double))
        # The counts come last: if memory runs out earlier, the number of classes is unchanged.
        if self.track_values:
            table_widen(&self.values, classes)
        table_widen(&self.table, classes)
        self.k = classes
        self.changes += 1

    def reserve(self, Py_ssize_t features):
        """Allocate the index for the given number of features at once."""
        if features < 0:
            raise ValueError(f"room for {features} features")
        table_index(&self.table, features)
        self.planned = features
        self.changes += 1

    # Look-up

    cdef int find(self, const uint64_t *f, Py_ssize_t n) except -1:
        """Set `rows` to the row of each feature, -1 for unseen ones."""
        if n > self.rows_room:
            self.rows = <int64_t *> grown(self.rows, n * sizeof(int64_t))
            self.rows_room = n
        table_find_many(&self.table, f, n, self.rows)
        self.found_size = n
        self.found_changes = self.changes
        self.found_sum = fingerprint_sum(f, n)
        return 0

    cdef int find_again(self, const uint64_t *f, Py_ssize_t n) except -1:
        """Repeat a look-up; reuse the last one if it has the same features.

        A message is often learned just after it was classified. Of its rows, only those of unseen features (-1) can
        have changed.
        """
        cdef Py_ssize_t i
        cdef int64_t row
        if self.found_size != n:
            return self.find(f, n)
        for i in range(n):
            row = self.rows[i]
            if row >= 0 and (row >= self.table.rows or table_at(&self.table, row).key != f[i]):
                return self.find(f, n)
        return 0

    cdef int find_same(self, const uint64_t *f, Py_ssize_t n) except -1:
        """Reuse the last look-up if it has the same features and nothing has changed since."""
        if self.found_size == n and self.found_changes == self.changes and self.found_sum == fingerprint_sum(f, n):
            return 0
        return self.find(f, n)

    # Updates

    cdef int revalue(self, Py_ssize_t k, double before, double after) except -1:
        cdef uint64_t bits
        cdef Py_ssize_t row
        if before != 0:
            memcpy(&bits, &before, 8)
            row = table_find(&self.values, bits)
            if row < 0:
                raise RuntimeError("the count histogram does not match the counts: a count is "
                                   "missing")
            row_cell(&self.values, table_at(&self.values, row), k)[0] -= 1
            if row_is_empty(&self.values, table_at(&self.values, row)):
                table_remove(&self.values, row)
        if after != 0:
            memcpy(&bits, &after, 8)
            row = table_row(&self.values, bits)
            row_cell(&self.values, table_at(&self.values, row), k)[0] += 1
        return 0

    cdef double count(self, Py_ssize_t row, Py_ssize_t k) noexcept:
        return row_get(&self.table, table_at(&self.table, row), k)

    cdef int foresee(self, Py_ssize_t k, double after) except -1:
        """Allocate the entry of the histogram for a count, before the count is added."""
        cdef uint64_t bits
        cdef Py_ssize_t value
        if after != 0:
            memcpy(&bits, &after, 8)
            value = table_row(&self.values, bits)
            row_cell(&self.values, table_at(&self.values, value), k)
        return 0

    cdef int roll_back(self, Py_ssize_t before) except -1:
        """Remove the rows from index `before` on, and unused entries of the histogram."""
        cdef Py_ssize_t row
        self.found_size = 0
        while self.table.rows > before:
            self.drop(self.table.rows - 1)
        for row in range(self.values.rows - 1, -1, -1):
            if row_is_empty(&self.values, table_at(&self.values, row)):
                table_remove(&self.values, row)
        return 0

    cdef int put(self, Py_ssize_t row, Py_ssize_t k, double amount) except -1:
        """Add an amount to a count, whose cell must exist."""
        cdef double *cell = row_cell(&self.table, table_at(&self.table, row), k)
        cdef double before = cell[0]
        cell[0] = before + amount
        self.sums[k] += amount
        if self.track_values:
            self.revalue(k, before, cell[0])
        return 0

    cdef int make(self, const uint64_t *f, const double *amounts, double weight, const int64_t *classes, Py_ssize_t width,
                  Py_ssize_t n, const char *text, const uint32_t *ends) except -1:
        """Create rows and cells for the amounts [n, width] of features, and set `rows`.

        If memory runs out, the new rows are removed.
        """
        cdef Py_ssize_t i, j, next_row, before = self.table.rows, new = 0
        cdef uint32_t start
        cdef int64_t row
        self.find_again(f, n)
        for i in range(n):
            new += self.rows[i] < 0
        self.changes += 1
        if new > BLOCK and 2 * new > before and before + new > self.planned:
            self.reserve(before + new)  # faster than growing in steps
        if self.keep_names:
            names_reserve(&self.names, before + new, (0 if ends == NULL or n == 0 else ends[n - 1]) + 10 * new)
        try:
            for i in range(n):
                row = self.rows[i]
                if row >= 0 and self.table.width <= DENSE and not self.track_values:
                    continue
                for j in range(width):
                    if not weight * amounts[i * width + j] > 0:
                        continue
                    if row < 0:
                        next_row = self.table.rows
                        row = self.rows[i] = table_row(&self.table, f[i])
                        if row == next_row and self.keep_names:
                            start = 0 if ends == NULL or i == 0 else ends[i - 1]
                            if ends == NULL:
                                names_put(&self.names, row, NO_NAME, 1)
                            else:
                                names_put(&self.names, row, text + start, ends[i] - start)
                    row_cell(&self.table, table_at(&self.table, row), classes[j])
                    if self.track_values:
                        self.foresee(classes[j], self.count(row, classes[j]) + weight * amounts[i * width + j])
        except MemoryError:
            self.roll_back(before)
            raise
        return 0

    cdef int enter(self, const uint64_t *f, const double *amounts, double weight, const int64_t *classes, Py_ssize_t width,
                   Py_ssize_t n, bytes names, ends) except -1:
        """Add the amounts [n, width] of features to classes, completely or not at all."""
        cdef Py_ssize_t i, j
        cdef uint32_t *e = NULL
        cdef const char *text = b""
        cdef double amount
        if names is not None and self.keep_names:
            text = PyBytes_AS_STRING(names)
            e = self.checked_ends(names, ends, n)
        for j in range(width):
            self.checked_class(classes[j])
        self.make(f, amounts, weight, classes, width, n, text, e)
        for i in range(n):
            for j in range(width):
                amount = weight * amounts[i * width + j]
                if amount > 0:
                    self.put(self.rows[i], classes[j], amount)
        return 0

    cdef int drop(self, Py_ssize_t row) except -1:
        cdef size_t size
        if self.keep_names:
            names_get(&self.names, row, &size)
            self.names.wasted += size + 1
            self.names.starts[row] = self.names.starts[self.table.rows - 1]
        table_remove(&self.table, row)
        if self.names.wasted > 4096 and 2 * self.names.wasted > self.names.used:
            names_compact(&self.names, self.table.rows)
        return 0

    def add(self, fingerprints, counts, Py_ssize_t k, double weight=1.0, bytes names=None, ends=None):
        """Add weight * counts to class k; if memory runs out, add nothing.

        The name of feature i ends before byte ends[i] of `names`.
        """
        cdef Py_ssize_t n = len(fingerprints)
        cdef int64_t number = k
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
        self.enter(f, c, weight, &number, 1, n, names, ends)

    def add_matrix(self, fingerprints, sums, classes, bytes names=None, ends=None):
        """Add counts summed over many messages, shape (n, C), to the classes with these indices, int64 (C,).

        Features without a count are skipped.
        """
        cdef Py_ssize_t n = len(fingerprints), width = len(classes)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *s = <double *> cnp.PyArray_DATA(checked(sums, cnp.NPY_FLOAT64, n * width, "sums"))
        cdef int64_t *k = <int64_t *> cnp.PyArray_DATA(checked(classes, cnp.NPY_INT64, width, "classes"))
        self.enter(f, s, 1.0, k, width, n, names, ends)

    def merge(self, CountTable other, classes):
        """Add the counts of another table: its class j to class classes[j] (int64).

        If memory runs out, add nothing.
        """
        cdef Py_ssize_t i, used, row, self_row, class_index, next_row, before = self.table.rows
        cdef int64_t *k = <int64_t *> cnp.PyArray_DATA(checked(classes, cnp.NPY_INT64, other.k, "classes"))
        cdef uint32_t *columns
        cdef double *numbers
        cdef Row *r
        for i in range(other.k):
            self.checked_class(k[i])
        if other is self:  # rows must not change during the loop
            other = CountTable()
            other.__setstate__(self.__getstate__())
        self.changes += 1
        try:
            for row in range(other.table.rows):
                r = table_at(&other.table, row)
                next_row = self.table.rows
                self_row = table_row(&self.table, r.key)
                if self_row == next_row and self.keep_names:
                    self.copy_name(other, row)
                used = row_cells(&other.table, r, &columns, &numbers)
                for i in range(used):
                    if numbers[i] != 0:
                        class_index = k[i if columns == NULL else columns[i]]
                        row_cell(&self.table, table_at(&self.table, self_row), class_index)
                        if self.track_values:
                            self.foresee(class_index, self.count(self_row, class_index) + numbers[i])
        except MemoryError:
            self.roll_back(before)
            raise
        for row in range(other.table.rows):
            r = table_at(&other.table, row)
            self_row = table_find(&self.table, r.key)
            used = row_cells(&other.table, r, &columns, &numbers)
            for i in range(used):
                if numbers[i] != 0:
                    self.put(self_row, k[i if columns == NULL else columns[i]], numbers[i])

    cdef int copy_name(self, CountTable other, Py_ssize_t row) except -1:
        """Copy the name of a row of another table to the last row."""
        cdef const char *name = NO_NAME
        cdef size_t size = 1
        if other.keep_names:
            name = names_get(&other.names, row, &size)
        try:
            names_reserve(&self.names, self.table.rows, size + 10)
        except MemoryError:
            table_remove(&self.table, self.table.rows - 1)
            raise
        names_put(&self.names, self.table.rows - 1, name, size)
        return 0

    cdef uint32_t *checked_ends(self, bytes names, ends, Py_ssize_t n) except? NULL:
        cdef uint32_t *e = <uint32_t *> cnp.PyArray_DATA(checked(ends, cnp.NPY_UINT32, n, "name ends"))
        cdef Py_ssize_t i
        for i in range(n):
            if e[i] < (e[i - 1] if i else 0) or e[i] > <size_t> len(names):
                raise ValueError("name ends must be non-decreasing and within the names")
        return e

    def subtract(self, fingerprints, counts, Py_ssize_t k, double weight=1.0):
        """Subtract weight * counts from class k and remove features without a count.

        Whole numbers are exact. A remainder of fractions below 1e-9 becomes 0. If a count would become negative,
        ValueError is raised and nothing changes.
        """
        cdef Py_ssize_t i, row, n = len(fingerprints)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
        cdef double *cell
        cdef double amount, before, subtracted_sum = 0
        self.checked_class(k)
        self.find(f, n)
        for i in range(n):
            amount = weight * c[i]
            before = 0 if self.rows[i] < 0 else self.count(self.rows[i], k)
            if difference(before, amount) < 0:
                raise ValueError(f"cannot unlearn {amount:g} of feature {self.display_name(f[i])}: its count is {before:g}")
        self.changes += 1
        if self.track_values:
            try:
                for i in range(n):
                    if self.rows[i] >= 0:
                        self.foresee(k, difference(self.count(self.rows[i], k), weight * c[i]))
            except MemoryError:
                self.roll_back(self.table.rows)
                raise
        for i in range(n):
            row = self.rows[i]
            amount = weight * c[i]
            if row < 0 or amount == 0:
                continue
            cell = row_cell(&self.table, table_at(&self.table, row), k)
            before = cell[0]
            cell[0] = difference(before, amount)
            self.sums[k] -= before - cell[0]
            subtracted_sum += before - cell[0]
            if self.track_values:
                self.revalue(k, before, cell[0])
        for i in range(n):  # look up each feature: a removal moves the last row
            row = table_find(&self.table, f[i])
            if row >= 0 and row_is_empty(&self.table, table_at(&self.table, row)):
                self.drop(row)
        self.sums[k] = max(difference(self.sums[k] + subtracted_sum, subtracted_sum), 0.0)

    def rescale(self, double factor, double least):
        """Multiply all counts by a factor, then remove features with a sum below `least`."""
        cdef Py_ssize_t row = 0, i, used
        cdef uint32_t *columns
        cdef double *numbers
        cdef double total
        self.changes += 1
        for i in range(self.k):
            self.sums[i] = 0
        while row < self.table.rows:
            total = 0
            used = row_cells(&self.table, table_at(&self.table, row), &columns, &numbers)
            for i in range(used):
                numbers[i] *= factor
                total += numbers[i]
            if total < least:
                self.drop(row)  # the last row now has this index
                continue
            for i in range(used):
                self.sums[i if columns == NULL else columns[i]] += numbers[i]
            row += 1
        if not self.track_values:
            return
        table_free(&self.values)
        for row in range(self.table.rows):
            used = row_cells(&self.table, table_at(&self.table, row), &columns, &numbers)
            for i in range(used):
                self.revalue(i if columns == NULL else columns[i], 0, numbers[i])

    def remove(self, fingerprints):
        """Remove features with all their counts; skip unseen ones.

        The totals are summed again, because subtraction would leave rounding errors.
        """
        cdef Py_ssize_t i, j, k, row, used, n = len(fingerprints)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef uint32_t *columns
        cdef double *numbers
        self.changes += 1
        for i in range(n):
            row = table_find(&self.table, f[i])
            if row < 0:
                continue
            used = row_cells(&self.table, table_at(&self.table, row), &columns, &numbers)
            for j in range(used):
                k = j if columns == NULL else columns[j]
                if self.track_values and numbers[j] != 0:
                    self.revalue(k, numbers[j], 0)
            self.drop(row)
        self.sum_up()

    cdef int sum_up(self) except -1:
        """Compute the totals; they do not depend on the order of the rows."""
        cdef Py_ssize_t row, j, k, used
        cdef uint32_t *columns
        cdef double *numbers
        cdef double *lower = <double *> calloc(self.k + 1, sizeof(double))
        if lower == NULL:
            raise MemoryError
        memset(self.sums, 0, self.k * sizeof(double))
        for row in range(self.table.rows):
            used = row_cells(&self.table, table_at(&self.table, row), &columns, &numbers)
            for j in range(used):
                k = j if columns == NULL else columns[j]
                snb_accumulate(&self.sums[k], &lower[k], numbers[j])
        for k in range(self.k):
            self.sums[k] += lower[k]
        free(lower)
        return 0

    # Queries

    def feature_totals(self):
        """Return fingerprints, uint64, and total counts over all classes, float64, shape (V,) each."""
        cdef Py_ssize_t row, j, used, rows = self.table.rows
        cdef cnp.ndarray keys = new_array(rows, cnp.NPY_UINT64), totals = new_array(rows, cnp.NPY_FLOAT64)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(keys)
        cdef double *t = <double *> cnp.PyArray_DATA(totals)
        cdef uint32_t *columns
        cdef double *numbers
        for row in range(rows):
            f[row], t[row] = table_at(&self.table, row).key, 0
            used = row_cells(&self.table, table_at(&self.table, row), &columns, &numbers)
            for j in range(used):
                t[row] += numbers[j]
        return keys, totals

    cdef str display_name(self, uint64_t key):
        name = self.name(key)
        return f"#{key:016x}" if name is None else repr(name)[:80]

    def get_counts(self, fingerprints):
        """Return the counts of features, float64 (n, K), and a mask of the seen ones, uint8 (n,).

        Unseen features have rows of zeros.
        """
        cdef Py_ssize_t i, n = len(fingerprints), width = self.k
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef cnp.ndarray cells = new_matrix(n, width, cnp.NPY_FLOAT64)
        cdef cnp.ndarray presence = new_array(n, cnp.NPY_UINT8)
        cdef double *target = <double *> cnp.PyArray_DATA(cells)
        cdef uint8_t *mask = <uint8_t *> cnp.PyArray_DATA(presence)
        # Hold the interpreter's lock: another thread's update could move the table.
        self.find_same(f, n)
        for i in range(n):
            mask[i] = self.rows[i] >= 0
            if mask[i]:
                row_copy(&self.table, table_at(&self.table, self.rows[i]), target + i * width, width)
            else:
                memset(target + i * width, 0, width * sizeof(double))
        return cells, presence

    def log_likelihood_grid(
        self, fingerprints, counts, double alpha, list factors, bint unseen=False, bint complement=False,
        double length_norm=0, double length_power=0,
    ):
        """Return the sum of counts[i] * (log(n_ik + a) - log(N_k + a V)) over i, for each factor and class k.

        a is alpha times the factor. n_ik is the count of feature i in class k, N_k its sum over features, and V the
        number of features. With `complement`, n_ik and N_k are the counts of all other classes, and the sums are
        negated. With `unseen`, unseen features are included. The sums are divided by `length_divisor`.

        Returns
        -------
        The sums, K for each factor, and the number of features used.
        """
        cdef Py_ssize_t i, used, n = len(fingerprints)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
        cdef uint32_t *columns
        cdef double *numbers
        cdef LogSums sums = self.logs
        if self.table.rows + self.unloaded == 0:
            return array("d", bytes(8 * self.k * len(factors))), 0
        sums.prepare(alpha, factors, self.sums, self.k, self.table.rows + self.unloaded, complement)
        # Hold the interpreter's lock: another thread's update could move the table.
        self.find(f, n)
        for i in range(n):
            if self.rows[i] >= 0:
                used = row_cells(&self.table, table_at(&self.table, self.rows[i]), &columns, &numbers)
                sums.add(numbers, columns, used, c[i])
            elif unseen:
                sums.add(NULL, NULL, 0, c[i])
        return sums.finish(length_norm, length_power)

    def count_histogram(self):
        """Return the distinct counts, float64 (m,), and the number of features with each, float64 (m, K)."""
        cdef Py_ssize_t row, rows = self.values.rows
        cdef cnp.ndarray values = new_array(rows, cnp.NPY_FLOAT64)
        cdef cnp.ndarray features = new_matrix(rows, self.k, cnp.NPY_FLOAT64)
        cdef uint64_t *v = <uint64_t *> cnp.PyArray_DATA(values)
        cdef double *target = <double *> cnp.PyArray_DATA(features)
        for row in range(rows):
            v[row] = table_at(&self.values, row).key  # bits of a float64
            row_copy(&self.values, table_at(&self.values, row), target + row * self.k, self.k)
        return values, features

    def name(self, uint64_t key):
        """Return the name of a feature, or None if it is unknown."""
        cdef Py_ssize_t row = table_find(&self.table, key)
        cdef size_t size
        cdef const char *text
        if row < 0 or not self.keep_names:
            return None
        text = names_get(&self.names, row, &size)
        if size == 1 and text[0] == NO_NAME[0]:
            return None
        return decode_name(PyBytes_FromStringAndSize(text, size))

    # Whole tables

    def part(self, Py_ssize_t start, Py_ssize_t stop):
        """Return the rows from start to stop in stored order: fingerprints (n,) and counts (n, K)."""
        cdef Py_ssize_t i
        start, stop = max(start, 0), min(stop, self.table.rows)
        cdef Py_ssize_t n = max(stop - start, 0)
        cdef cnp.ndarray keys = new_array(n, cnp.NPY_UINT64)
        cdef cnp.ndarray cells = new_matrix(n, self.k, cnp.NPY_FLOAT64)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(keys)
        cdef double *target = <double *> cnp.PyArray_DATA(cells)
        for i in range(n):
            f[i] = table_at(&self.table, start + i).key
            row_copy(&self.table, table_at(&self.table, start + i), target + i * self.k, self.k)
        return keys, cells

    def arrays(self):
        """Return the table in the order of fingerprints.

        Returns
        -------
        Fingerprints (V,), counts (V, K), names and their ends, uint64 (both None without names).
        """
        keys, order = self.in_order()
        cdef Py_ssize_t i, rows = self.table.rows
        cdef int64_t *o = <int64_t *> cnp.PyArray_DATA(order)
        cdef cnp.ndarray cells = new_matrix(rows, self.k, cnp.NPY_FLOAT64)
        cdef double *target = <double *> cnp.PyArray_DATA(cells)
        for i in range(rows):
            if i + AHEAD < rows:
                snb_prefetch(table_at(&self.table, o[i + AHEAD]))
            row_copy(&self.table, table_at(&self.table, o[i]), target + i * self.k, self.k)
        return keys, cells, *self.names_in(order)

    def entries(self):
        """Return the nonzero counts in the order of fingerprints.

        Returns
        -------
        Fingerprints (V,); ends of their entries, uint64 (V,); class of each entry, uint32; count of each entry,
        float64; names and their ends, uint64 (both None without names).
        """
        keys, order = self.in_order()
        cdef Py_ssize_t i, j, used, rows = self.table.rows, total = 0
        cdef int64_t *o = <int64_t *> cnp.PyArray_DATA(order)
        cdef cnp.ndarray ends = new_array(rows, cnp.NPY_UINT64)
        cdef uint64_t *e = <uint64_t *> cnp.PyArray_DATA(ends)
        cdef uint32_t *columns
        cdef double *numbers
        for i in range(rows):
            used = row_cells(&self.table, table_at(&self.table, o[i]), &columns, &numbers)
            for j in range(used):
                total += numbers[j] != 0
            e[i] = total
        cdef cnp.ndarray classes = new_array(total, cnp.NPY_UINT32)
        cdef cnp.ndarray counts = new_array(total, cnp.NPY_FLOAT64)
        cdef uint32_t *k = <uint32_t *> cnp.PyArray_DATA(classes)
        cdef double *c = <double *> cnp.PyArray_DATA(counts)
        total = 0
        for i in range(rows):
            used = row_cells(&self.table, table_at(&self.table, o[i]), &columns, &numbers)
            for j in range(used):
                if numbers[j] != 0:
                    k[total], c[total] = <uint32_t> (j if columns == NULL else columns[j]), numbers[j]
                    total += 1
        return keys, ends, classes, counts, *self.names_in(order)

    cdef tuple in_order(self):
        """Return the fingerprints in rising order, and their rows."""
        cdef Py_ssize_t row, rows = self.table.rows
        cdef cnp.ndarray keys = new_array(rows, cnp.NPY_UINT64), pairs
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(keys)
        cdef uint64_t before = self.changes
        for row in range(rows):
            f[row] = table_at(&self.table, row).key
        order = np.argsort(keys).astype(np.int64, copy=False)
        keys = keys[order]
        if self.changes == before:
            return keys, order
        # numpy sorts without the interpreter's lock: another thread may have changed the table.
        rows = self.table.rows
        pairs = new_matrix(rows, 2, cnp.NPY_UINT64)
        f = <uint64_t *> cnp.PyArray_DATA(pairs)
        for row in range(rows):
            f[2 * row], f[2 * row + 1] = table_at(&self.table, row).key, row
        snb_sort_pairs(f, rows)
        keys, order = new_array(rows, cnp.NPY_UINT64), new_array(rows, cnp.NPY_INT64)
        for row in range(rows):
            (<uint64_t *> cnp.PyArray_DATA(keys))[row] = f[2 * row]
            (<int64_t *> cnp.PyArray_DATA(order))[row] = f[2 * row + 1]
        return keys, order

    cdef tuple names_in(self, order):
        """Return the names of the rows in the given order, and their ends."""
        cdef Py_ssize_t i, rows = len(order)
        cdef int64_t *o = <int64_t *> cnp.PyArray_DATA(order)
        cdef size_t size, total = 0
        cdef const char *name
        cdef char *end
        if not self.keep_names:
            return None, None
        cdef cnp.ndarray ends = new_array(rows, cnp.NPY_UINT64)
        cdef uint64_t *e = <uint64_t *> cnp.PyArray_DATA(ends)
        for i in range(rows):
            names_get(&self.names, o[i], &size)
            total += size
            e[i] = total
        text = PyBytes_FromStringAndSize(NULL, total)
        end = PyBytes_AS_STRING(text)
        for i in range(rows):
            if i + AHEAD < rows:
                snb_prefetch(self.names.text + self.names.starts[o[i + AHEAD]])
            name = names_get(&self.names, o[i], &size)
            memcpy(end, name, size)
            end += size
        return text, ends

    def load(self, fingerprints, ends, classes, counts, totals, bytes names=None, name_ends=None):
        """Fill an empty table from the result of `entries`, and `totals`.

        If `ends` and `classes` are None, the counts are a matrix (V, K) from `arrays`.
        """
        cdef Py_ssize_t row, k, rows = len(fingerprints), total = counts.size
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, rows, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, total, "counts"))
        cdef uint64_t *e = NULL
        cdef uint32_t *columns = NULL
        cdef uint64_t *n = NULL
        cdef const char *text = b""
        cdef uint64_t start = 0, end, entry = 0, last
        cdef uint32_t hash
        if self.table.rows:
            raise ValueError("load: the table is not empty")
        if ends is not None:
            e = <uint64_t *> cnp.PyArray_DATA(checked(ends, cnp.NPY_UINT64, rows, "entry ends"))
            columns = <uint32_t *> cnp.PyArray_DATA(checked(classes, cnp.NPY_UINT32, total, "classes"))
        elif total != rows * self.k:
            raise ValueError(f"load: {total} counts do not fit {rows} features and {self.k} classes")
        if names is not None and self.keep_names:
            text = PyBytes_AS_STRING(names)
            n = <uint64_t *> cnp.PyArray_DATA(checked(name_ends, cnp.NPY_UINT64, rows, "name ends"))
        self.reserve(rows)
        table_room(&self.table, rows)
        if self.keep_names:
            names_reserve(&self.names, rows, (0 if n == NULL else len(names)) + 10 * rows)
        for row in range(rows):
            if row + AHEAD < rows:
                hash = table_hash(f[row + AHEAD])
                snb_prefetch(segment_home(table_segment(&self.table, hash), hash))
            end = start if n == NULL else n[row]
            last = entry + self.k if e == NULL else e[row]
            if end < start or (n != NULL and end > <uint64_t> len(names)):
                raise ValueError("name ends must be non-decreasing and within the names")
            if last < entry or last > <uint64_t> total:
                raise ValueError("entry ends must be non-decreasing and within the entries")
            if table_row(&self.table, f[row]) != row:
                raise ValueError(f"fingerprint {f[row]:016x} occurs twice")
            if self.keep_names:
                if n == NULL:
                    names_put(&self.names, row, NO_NAME, 1)
                else:
                    names_put(&self.names, row, text + start, end - start)
            start = end
            for k in range(last - entry):
                if c[entry] != 0:
                    self.put(row, self.checked_class(k if e == NULL else columns[entry]), c[entry])
                entry += 1
        for k in range(self.k):
            self.sums[k] = totals[k]

    cdef Py_ssize_t checked_class(self, Py_ssize_t k) except -1:
        if not 0 <= k < self.k:
            raise IndexError(f"class index {k} is not below {self.k}")
        return k

    def __reduce__(self):
        return CountTable, (), self.__getstate__()

    def __getstate__(self):  # skops calls it instead of __reduce__
        *arrays, names, name_ends = self.entries()
        if name_ends is not None:
            arrays.append(name_ends)
        state = [(array.tobytes(), array.dtype.str) for array in arrays]
        return self.k, self.keep_names, self.track_values, state, names, self.totals

    def __setstate__(self, state):
        classes, self.keep_names, self.track_values, arrays, names, totals = state
        self.widen(classes)
        keys, ends, columns, counts, *name_ends = [np.frombuffer(data, dtype=kind) for data, kind in arrays]
        self.load(keys, ends, columns, counts, totals, names, *name_ends)
