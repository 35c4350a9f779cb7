# The count table: fingerprint -> one count a class, and the class totals.
#
# Rows lie densely in the order they came (keys beside cells), and an open-addressing index of
# 8-byte entries (32 bits of the hash, 32 bits of row number) leads to them. Compared with counts in
# the index itself this costs a second cache line a look-up, and buys a third of the memory, rows that
# other arrays can run parallel to, and plain arrays to save.

cdef extern from *:
    """
    #if defined(_MSC_VER)
    #include <intrin.h>
    static inline uint64_t snb_scale(uint64_t h, uint64_t slots) { return __umulh(h, slots); }
    #define snb_prefetch(p)
    #else
    /* Map a hash to [0, slots) by its high bits: any number of slots will do. */
    static inline uint64_t snb_scale(uint64_t h, uint64_t slots) {
        return (uint64_t)(((unsigned __int128)h * slots) >> 64);
    }
    #define snb_prefetch(p) __builtin_prefetch(p)
    #endif
    #if defined(__linux__)
    #include <sys/mman.h>
    /* Ask for large pages for a large block: with random access, address translation costs more
       than the memory itself. Only a hint; nothing depends on it. */
    static inline void snb_large(void *p, size_t size) {
        const uintptr_t page = (uintptr_t)1 << 21;
        uintptr_t begin = ((uintptr_t)p + page - 1) & ~(page - 1), end = ((uintptr_t)p + size) & ~(page - 1);
        if (end > begin) madvise((void *)begin, end - begin, MADV_HUGEPAGE);
    }
    #else
    static inline void snb_large(void *p, size_t size) { (void)p; (void)size; }
    #endif
    #define SNB_LOW 0xffffffffULL
    """
    const uint64_t LOW "SNB_LOW"
    const uint64_t GOLDEN "0x9E3779B97F4A7C15ULL"
    uint64_t snb_scale(uint64_t h, uint64_t slots) noexcept nogil
    void snb_prefetch(const void *p) noexcept nogil
    void snb_large(void *p, size_t size) noexcept nogil

cdef enum:
    MAX_CLASSES = 1 << 20
    CACHED_ROWS = 1 << 18  # more do not fit into a processor's cache
    AHEAD = 16  # look-ups in flight: hides the latency of memory

cdef struct Table:
    uint64_t *index
    uint64_t slots
    uint64_t *keys
    double *cells
    Py_ssize_t rows
    Py_ssize_t capacity
    Py_ssize_t width


cdef inline uint64_t table_hash(uint64_t key) noexcept nogil:
    # Keys may be anything: whole numbers in the table of values, a user's own fingerprints.
    return (key ^ (key >> 32)) * GOLDEN


cdef size_t table_bytes(const Table *t) noexcept nogil:
    return t.slots * sizeof(uint64_t) + t.capacity * (sizeof(uint64_t) + t.width * sizeof(double))


cdef void table_free(Table *t) noexcept nogil:
    free(t.index)
    free(t.keys)
    free(t.cells)
    memset(t, 0, sizeof(Table))


cdef inline void table_enter(Table *t, uint64_t hash, Py_ssize_t row) noexcept nogil:
    cdef uint64_t slot = snb_scale(hash, t.slots)
    while t.index[slot]:
        slot += 1
        if slot == t.slots:
            slot = 0
    t.index[slot] = (hash << 32) | <uint64_t> (row + 1)


cdef int table_reserve(Table *t, Py_ssize_t more) except -1:
    """Make room for `more` new rows, so that `table_row` cannot fail."""
    cdef Py_ssize_t rows = t.rows + more, row
    cdef uint64_t slots
    cdef void *index
    if rows > t.capacity:
        if rows >= MAX_NAMES:
            raise MemoryError("a count table holds at most 2^32 - 2 features")
        rows = max(rows, t.capacity + t.capacity // 8 + 8)
        t.keys = <uint64_t *> grown(t.keys, rows * sizeof(uint64_t))
        t.cells = <double *> grown(t.cells, rows * t.width * sizeof(double))
        t.capacity = rows
        snb_large(t.keys, rows * sizeof(uint64_t))
        snb_large(t.cells, rows * t.width * sizeof(double))
    rows = t.rows + more
    if <uint64_t> rows * 5 >= t.slots * 4:  # at most 4/5 full
        slots = max(t.slots + t.slots // 2, <uint64_t> rows * 5 // 4 + 16)
        index = calloc(slots, sizeof(uint64_t))
        if index == NULL:
            raise MemoryError(f"cannot have {slots * 8} bytes")
        free(t.index)
        snb_large(index, slots * sizeof(uint64_t))
        t.index = <uint64_t *> index
        t.slots = slots
        for row in range(t.rows):
            table_enter(t, table_hash(t.keys[row]), row)
    return 0


cdef int table_widen(Table *t, Py_ssize_t width) except -1:
    """Give every row more cells: a class came that was not there before."""
    cdef Py_ssize_t row
    cdef double *cells
    if width <= t.width:
        return 0
    cells = <double *> calloc(t.capacity * width + 1, sizeof(double))
    if cells == NULL:
        raise MemoryError(f"cannot have {t.capacity * width * 8} bytes")
    for row in range(t.rows):
        memcpy(cells + row * width, t.cells + row * t.width, t.width * sizeof(double))
    free(t.cells)
    t.cells = cells
    t.width = width
    return 0


cdef inline int64_t table_slot(const Table *t, uint64_t key) noexcept nogil:
    """The index slot of a key, or -1."""
    cdef uint64_t hash = table_hash(key), entry
    cdef uint64_t slot
    if t.slots == 0:
        return -1
    slot = snb_scale(hash, t.slots)
    while True:
        entry = t.index[slot]
        if entry == 0:
            return -1
        if (entry >> 32) == (hash & LOW) and t.keys[(entry & LOW) - 1] == key:
            return slot
        slot += 1
        if slot == t.slots:
            slot = 0


cdef inline Py_ssize_t table_find(const Table *t, uint64_t key) noexcept nogil:
    """The row of a key, or -1."""
    cdef int64_t slot = table_slot(t, key)
    return -1 if slot < 0 else <Py_ssize_t> (t.index[slot] & LOW) - 1


cdef inline void table_prefetch(const Table *t, const uint64_t *keys, Py_ssize_t i, Py_ssize_t n) noexcept nogil:
    """Ask for the memory that keys a few places further on will need."""
    cdef uint64_t entry
    if t.slots == 0:
        return
    if i + 2 * AHEAD < n:
        snb_prefetch(&t.index[snb_scale(table_hash(keys[i + 2 * AHEAD]), t.slots)])
    if i + AHEAD < n:
        entry = t.index[snb_scale(table_hash(keys[i + AHEAD]), t.slots)]
        if entry:
            snb_prefetch(&t.keys[(entry & LOW) - 1])
            snb_prefetch(&t.cells[((entry & LOW) - 1) * t.width])


cdef inline Py_ssize_t table_row(Table *t, uint64_t key) noexcept nogil:
    """The row of a key, made with zeros if need be; room must have been reserved."""
    cdef Py_ssize_t row = table_find(t, key)
    if row < 0:
        row = t.rows
        t.rows += 1
        t.keys[row] = key
        memset(t.cells + row * t.width, 0, t.width * sizeof(double))
        table_enter(t, table_hash(key), row)
    return row


cdef void table_remove(Table *t, Py_ssize_t row) noexcept nogil:
    """Drop a row; the last one takes its place."""
    cdef uint64_t hole = table_slot(t, t.keys[row]), slot, home
    cdef Py_ssize_t last = t.rows - 1
    if row != last:
        slot = table_slot(t, t.keys[last])
        t.index[slot] = (t.index[slot] & ~LOW) | <uint64_t> (row + 1)
        t.keys[row] = t.keys[last]
        memcpy(t.cells + row * t.width, t.cells + last * t.width, t.width * sizeof(double))
    t.rows = last
    # Close the gap in the run of probes (Knuth, TAOCP 3, 6.4, algorithm R).
    slot = hole
    while True:
        t.index[hole] = 0
        while True:
            slot += 1
            if slot == t.slots:
                slot = 0
            if t.index[slot] == 0:
                return
            home = snb_scale(table_hash(t.keys[(t.index[slot] & LOW) - 1]), t.slots)
            if (hole < home <= slot) or (slot < hole and (home > hole or home <= slot)):
                continue
            break
        t.index[hole] = t.index[slot]
        hole = slot


# Stands for the name of a feature that came without one; no encoded name begins like this.
cdef const char *NO_NAME = b"\xff"

cdef struct Names:
    char *text          # each name: its length, seven bits a byte, then its bytes
    size_t used
    size_t capacity
    size_t wasted       # bytes of names no longer in the table
    uint64_t *starts    # [rows]
    Py_ssize_t capacity_rows


cdef void names_free(Names *names) noexcept nogil:
    free(names.text)
    free(names.starts)
    memset(names, 0, sizeof(Names))


cdef int names_reserve(Names *names, Py_ssize_t rows, size_t more) except -1:
    cdef size_t size = names.used + more
    if rows > names.capacity_rows:
        rows = max(rows, names.capacity_rows + names.capacity_rows // 8 + 8)
        names.starts = <uint64_t *> grown(names.starts, rows * sizeof(uint64_t))
        names.capacity_rows = rows
    if size > names.capacity:
        size = max(size, names.capacity + names.capacity // 8 + 64)
        names.text = <char *> grown(names.text, size)
        names.capacity = size
    return 0


cdef void names_put(Names *names, Py_ssize_t row, const char *name, size_t size) noexcept nogil:
    cdef size_t rest = size
    names.starts[row] = names.used
    while rest >= 128:
        names.text[names.used] = <char> ((rest & 127) | 128)
        names.used += 1
        rest >>= 7
    names.text[names.used] = <char> rest
    names.used += 1
    memcpy(names.text + names.used, name, size)
    names.used += size


cdef const char *names_get(const Names *names, Py_ssize_t row, size_t *size) noexcept nogil:
    cdef size_t at = names.starts[row]
    cdef int shift = 0
    size[0] = 0
    while names.text[at] & 128:
        size[0] |= <size_t> (names.text[at] & 127) << shift
        shift += 7
        at += 1
    size[0] |= <size_t> names.text[at] << shift
    return names.text + at + 1


cdef int names_compact(Names *names, Py_ssize_t rows) except -1:
    """Copy the names still in use once half of the text is waste."""
    cdef Names fresh
    cdef Py_ssize_t row
    cdef size_t size
    cdef const char *name
    memset(&fresh, 0, sizeof(Names))
    try:
        names_reserve(&fresh, rows, names.used - names.wasted + 10 * rows)
    except MemoryError:
        names_free(&fresh)
        return 0  # the waste stays for now
    for row in range(rows):
        name = names_get(names, row, &size)
        names_put(&fresh, row, name, size)
    names_free(names)
    names[0] = fresh
    return 0


cdef void copy_cells(double *target, const Table *t, Py_ssize_t width) noexcept nogil:
    """Copy the first columns of a table's cells into a matrix of that width."""
    cdef Py_ssize_t row
    for row in range(t.rows):
        memcpy(target + row * width, t.cells + row * t.width, width * sizeof(double))


cdef class CountTable:
    """Counts of features by class, in memory.

    Parameters
    ----------
    classes
        Number of classes to begin with; `widen` adds more.
    keep_names
        Keep the names of features beside their counts.
    track_values
        Keep, per class, how many features have each count: what Bernoulli's absent features need.
    """

    cdef Table table
    cdef Table values       # key: the bits of a count; cells: how many features have it, per class
    cdef Names names
    cdef double *sums
    cdef Py_ssize_t k       # classes; the tables may have room for more
    cdef readonly bint keep_names
    cdef readonly bint track_values

    def __cinit__(self, Py_ssize_t classes=0, bint keep_names=True, bint track_values=False):
        self.keep_names = keep_names
        self.track_values = track_values
        self.widen(classes)

    def __dealloc__(self):
        table_free(&self.table)
        table_free(&self.values)
        names_free(&self.names)
        free(self.sums)

    def __len__(self):
        return self.table.rows

    def __sizeof__(self):
        cdef size_t size = sizeof(CountTable) + self.table.width * sizeof(double)
        size += table_bytes(&self.table) + table_bytes(&self.values)
        return size + self.names.capacity + self.names.capacity_rows * sizeof(uint64_t)

    @property
    def names_size(self) -> int:
        """Bytes of the names, with their lengths."""
        return self.names.used

    @property
    def classes(self) -> int:
        """Number of classes, K."""
        return self.k

    @property
    def totals(self) -> list[float]:
        """Sum of the counts of each class."""
        return [self.sums[k] for k in range(self.k)]

    def widen(self, Py_ssize_t classes):
        """Make room for more classes."""
        cdef Py_ssize_t k, width, before = self.table.width
        if classes <= before:
            self.k = max(self.k, classes)
            return
        if classes > MAX_CLASSES:
            raise ValueError(f"{classes} classes; a count table has at most {MAX_CLASSES}")
        # A few classes get the room they need; many come one at a time, and moving the whole table
        # for each of them would take quadratic time.
        width = classes if classes <= 4 else max(classes, before + before // 2 + 1)
        self.sums = <double *> grown(self.sums, width * sizeof(double))
        for k in range(before, width):
            self.sums[k] = 0
        # The counts last: where memory runs out before, the number of classes has not changed.
        table_widen(&self.values, width)
        table_widen(&self.table, width)
        self.k = classes

    cdef int revalue(self, Py_ssize_t k, double before, double after) except -1:
        cdef uint64_t bits
        cdef Py_ssize_t row, j
        if before != 0:
            memcpy(&bits, &before, 8)
            row = table_find(&self.values, bits)
            self.values.cells[row * self.values.width + k] -= 1
            for j in range(self.values.width):
                if self.values.cells[row * self.values.width + j] != 0:
                    break
            else:
                table_remove(&self.values, row)
        if after != 0:
            memcpy(&bits, &after, 8)
            row = table_row(&self.values, bits)
            self.values.cells[row * self.values.width + k] += 1
        return 0

    cdef int reserve(self, Py_ssize_t more, size_t text) except -1:
        table_reserve(&self.table, more)
        if self.track_values:
            table_reserve(&self.values, more)
        if self.keep_names:
            names_reserve(&self.names, self.table.rows + more, text + 10 * more)
        return 0

    cdef inline Py_ssize_t place(self, uint64_t key, const char *name, size_t size) noexcept nogil:
        """The row of a key, made if need be, with its name; room must have been reserved."""
        cdef Py_ssize_t before = self.table.rows, row = table_row(&self.table, key)
        if row == before and self.keep_names:
            names_put(&self.names, row, name, size)
        return row

    cdef inline int put(self, Py_ssize_t row, Py_ssize_t k, double amount) except -1:
        cdef double *cell = &self.table.cells[row * self.table.width + k]
        cdef double before = cell[0]
        cell[0] = before + amount
        self.sums[k] += amount
        if self.track_values:
            self.revalue(k, before, cell[0])
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

    cdef Py_ssize_t touch(self, const uint64_t *f, Py_ssize_t n) noexcept nogil:
        """Bring the rows of features into the cache: independent look-ups overlap, and what is done
        with each row afterwards does not have to wait for memory. Gives how many rows there are."""
        cdef Py_ssize_t i, row, known = 0
        for i in range(n):
            table_prefetch(&self.table, f, i, n)
            row = table_find(&self.table, f[i])
            if row >= 0:
                snb_prefetch(&self.table.cells[row * self.table.width])
                known += 1
        return known

    def add(self, fingerprints, counts, Py_ssize_t k, double weight=1.0, bytes names=None, ends=None):
        """Add weight * counts to class k: all of it, or nothing where memory runs out.

        `names` and `ends` name the features: name i ends before byte ends[i] of `names`.
        """
        cdef Py_ssize_t i, row, n = len(fingerprints)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
        cdef uint32_t *e = NULL
        cdef const char *text = b""
        cdef size_t start = 0
        cdef double amount
        if names is not None and self.keep_names:
            text = PyBytes_AS_STRING(names)
            e = self.checked_ends(names, ends, n)
        if not 0 <= k < self.k:
            raise IndexError(f"no class {k}")
        self.reserve(n, 0 if e == NULL or n == 0 else e[n - 1])
        if self.track_values or self.table.rows > CACHED_ROWS:
            self.touch(f, n)
        for i in range(n):
            table_prefetch(&self.table, f, i, n)
            amount = weight * c[i]
            if amount > 0:
                if e == NULL:
                    row = self.place(f[i], NO_NAME, 1)
                else:
                    row = self.place(f[i], text + start, e[i] - start)
                self.put(row, k, amount)
            if e != NULL:
                start = e[i]

    def add_matrix(self, fingerprints, sums, classes, bytes names=None, ends=None):
        """Add counts of many messages summed up, shape (n, C), to the classes (C,), int64.

        Features without a count are left out.
        """
        cdef Py_ssize_t i, j, row, n = len(fingerprints), width = len(classes)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *s = <double *> cnp.PyArray_DATA(checked(sums, cnp.NPY_FLOAT64, n * width, "sums"))
        cdef int64_t *k = <int64_t *> cnp.PyArray_DATA(checked(classes, cnp.NPY_INT64, width, "classes"))
        cdef uint32_t *e = NULL
        cdef const char *text = b""
        cdef size_t start
        if names is not None and self.keep_names:
            text = PyBytes_AS_STRING(names)
            e = self.checked_ends(names, ends, n)
        for j in range(width):
            if not 0 <= k[j] < self.k:
                raise IndexError(f"no class {k[j]}")
        # Room for what is new and no more: a batch may well bring what is known.
        self.reserve(n - self.touch(f, n), 0 if e == NULL or n == 0 else e[n - 1])
        for i in range(n):
            table_prefetch(&self.table, f, i, n)
            row = -1
            for j in range(width):
                if s[i * width + j] > 0:
                    if row < 0:
                        start = 0 if e == NULL or i == 0 else e[i - 1]
                        if e == NULL:
                            row = self.place(f[i], NO_NAME, 1)
                        else:
                            row = self.place(f[i], text + start, e[i] - start)
                        if self.track_values:
                            table_reserve(&self.values, width)
                    self.put(row, k[j], s[i * width + j])

    cdef uint32_t *checked_ends(self, bytes names, ends, Py_ssize_t n) except? NULL:
        cdef uint32_t *e = <uint32_t *> cnp.PyArray_DATA(checked(ends, cnp.NPY_UINT32, n, "name ends"))
        cdef Py_ssize_t i
        for i in range(n):
            if e[i] < (e[i - 1] if i else 0) or e[i] > <size_t> len(names):
                raise ValueError("name ends: not in order, or beyond the names")
        return e

    def subtract(self, fingerprints, counts, Py_ssize_t k, double weight=1.0):
        """Take weight * counts away from class k, or raise ValueError where that was never added.

        Whole numbers come out exact. Of fractions, what rounding leaves (a billionth of the amount)
        counts as nothing. Features with no count left are gone.
        """
        cdef Py_ssize_t i, j, row, n = len(fingerprints)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
        cdef double amount, before, after, taken = 0
        if not 0 <= k < self.k:
            raise IndexError(f"no class {k}")
        for i in range(n):
            amount = weight * c[i]
            row = table_find(&self.table, f[i])
            before = 0 if row < 0 else self.table.cells[row * self.table.width + k]
            if left_of(before, amount) < 0:
                raise ValueError(f"cannot unlearn {amount:g} of feature {self.shown(f[i])}: its count is {before:g}")
        if self.track_values:
            table_reserve(&self.values, n)
        for i in range(n):
            amount = weight * c[i]
            row = table_find(&self.table, f[i])
            if row < 0:
                continue
            before = self.table.cells[row * self.table.width + k]
            after = left_of(before, amount)
            self.table.cells[row * self.table.width + k] = after
            self.sums[k] -= before - after
            taken += before - after
            if self.track_values:
                self.revalue(k, before, after)
            for j in range(self.table.width):
                if self.table.cells[row * self.table.width + j] != 0:
                    break
            else:
                self.drop(row)
        self.sums[k] = max(left_of(self.sums[k] + taken, taken), 0.0)

    def rescale(self, double factor, double least):
        """Multiply every count, and drop the features of which less than `least` is left."""
        cdef Py_ssize_t row = 0, k
        cdef double left
        for k in range(self.k):
            self.sums[k] = 0
        while row < self.table.rows:
            left = 0
            for k in range(self.k):
                self.table.cells[row * self.table.width + k] *= factor
                left += self.table.cells[row * self.table.width + k]
            if left < least:
                self.drop(row)  # the last row has taken its place
                continue
            for k in range(self.k):
                self.sums[k] += self.table.cells[row * self.table.width + k]
            row += 1
        if self.track_values:
            self.values.rows = 0
            if self.values.slots:
                memset(self.values.index, 0, self.values.slots * sizeof(uint64_t))
            for row in range(self.table.rows):
                table_reserve(&self.values, self.k)
                for k in range(self.k):
                    self.revalue(k, 0, self.table.cells[row * self.table.width + k])

    cdef str shown(self, uint64_t key):
        name = self.name(key)
        return f"#{key:016x}" if name is None else repr(name)[:80]

    def gather(self, fingerprints):
        """Look features up.

        Returns their counts, float64 of shape (n, K) with zero rows for those never learned, and
        which were, uint8 of shape (n,).
        """
        cdef Py_ssize_t i, row, n = len(fingerprints), width = self.k
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef cnp.ndarray cells = new_matrix(n, width, cnp.NPY_FLOAT64)
        cdef cnp.ndarray seen = new_array(n, cnp.NPY_UINT8)
        cdef double *target = <double *> cnp.PyArray_DATA(cells)
        cdef uint8_t *mask = <uint8_t *> cnp.PyArray_DATA(seen)
        # With the interpreter's lock: another thread's learning could move the table.
        for i in range(n):
            table_prefetch(&self.table, f, i, n)
            row = table_find(&self.table, f[i])
            mask[i] = row >= 0
            if row >= 0:
                memcpy(target + i * width, self.table.cells + row * self.table.width, width * sizeof(double))
            else:
                memset(target + i * width, 0, width * sizeof(double))
        return cells, seen

    def log_sums(self, fingerprints, counts, list less, double alpha, double more=0.0, bint unseen=False):
        """Sum counts[i] * (log(n_ik + alpha_i) - less[k]) over features i, for each class k.

        n_ik is how often feature i was counted in class k, and alpha_i is alpha + more * sum of n_ik
        over the classes. Features that were never learned take part only where `unseen` says so.

        Returns
        -------
        The K sums as a list, and how many features took part.
        """
        cdef Py_ssize_t i, row, n = len(fingerprints)
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(counts, cnp.NPY_FLOAT64, n, "counts"))
        cdef LogSums sums = LogSums(less, alpha, more)
        if sums.width != self.k:
            raise ValueError(f"less: {len(less)} numbers for {self.k} classes")
        # With the interpreter's lock: another thread's learning could move the table.
        for i in range(n):
            table_prefetch(&self.table, f, i, n)
            row = table_find(&self.table, f[i])
            if row >= 0 or unseen:
                sums.add(NULL if row < 0 else self.table.cells + row * self.table.width, c[i])
        return sums.finish()

    def value_counts(self):
        """Counts that occur, float64 of shape (m,), and how many features have each, (m, K)."""
        cdef cnp.ndarray values = new_array(self.values.rows, cnp.NPY_FLOAT64)
        cdef cnp.ndarray features = new_matrix(self.values.rows, self.k, cnp.NPY_FLOAT64)
        if not self.values.rows:
            return values, features
        memcpy(cnp.PyArray_DATA(values), self.values.keys, self.values.rows * 8)
        copy_cells(<double *> cnp.PyArray_DATA(features), &self.values, self.k)
        return values, features

    def arrays(self):
        """Copy the table out: fingerprints (V,), counts (V, K), names and name ends (or None)."""
        cdef Py_ssize_t row, rows = self.table.rows
        cdef cnp.ndarray keys = new_array(rows, cnp.NPY_UINT64)
        cdef cnp.ndarray cells = new_matrix(rows, self.k, cnp.NPY_FLOAT64)
        cdef cnp.ndarray ends
        cdef uint64_t *e
        cdef size_t size, total = 0
        cdef const char *name
        if rows:
            memcpy(cnp.PyArray_DATA(keys), self.table.keys, rows * 8)
            copy_cells(<double *> cnp.PyArray_DATA(cells), &self.table, self.k)
        if not self.keep_names:
            return keys, cells, None, None
        ends = new_array(rows, cnp.NPY_UINT64)
        e = <uint64_t *> cnp.PyArray_DATA(ends)
        for row in range(rows):
            names_get(&self.names, row, &size)
            total += size
            e[row] = total
        text = PyBytes_FromStringAndSize(NULL, total)
        total = 0
        for row in range(rows):
            name = names_get(&self.names, row, &size)
            memcpy(PyBytes_AS_STRING(text) + total, name, size)
            total += size
        return keys, cells, text, ends

    def name(self, uint64_t key):
        """The name of a feature, or None where it is not known."""
        cdef Py_ssize_t row = table_find(&self.table, key)
        cdef size_t size
        cdef const char *text
        if row < 0 or not self.keep_names:
            return None
        text = names_get(&self.names, row, &size)
        if size == 1 and text[0] == NO_NAME[0]:
            return None
        return decode_name(PyBytes_FromStringAndSize(text, size))

    def load(self, fingerprints, cells, totals, names=None, ends=None):
        """Fill an empty table with what `arrays` and `totals` gave."""
        cdef Py_ssize_t row, made, k, rows = len(fingerprints), width = self.k
        cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, rows, "fingerprints"))
        cdef double *c = <double *> cnp.PyArray_DATA(checked(cells, cnp.NPY_FLOAT64, rows * width, "cells"))
        cdef uint64_t *e = NULL
        cdef const char *text = b""
        cdef uint64_t start = 0, end
        if self.table.rows:
            raise ValueError("the table is not empty")
        if names is not None and self.keep_names:
            text = PyBytes_AS_STRING(names)
            e = <uint64_t *> cnp.PyArray_DATA(checked(ends, cnp.NPY_UINT64, rows, "name ends"))
        self.reserve(rows, 0 if e == NULL else len(names))
        for row in range(rows):
            end = start if e == NULL else e[row]
            if end < start or (e != NULL and end > <uint64_t> len(names)):
                raise ValueError("name ends: not in order")
            if e == NULL:
                made = self.place(f[row], NO_NAME, 1)
            else:
                made = self.place(f[row], text + start, end - start)
            if made != row:
                raise ValueError(f"fingerprint {f[row]:016x} occurs twice")
            start = end
            if self.track_values:
                table_reserve(&self.values, width)
            for k in range(width):
                self.put(row, k, c[row * width + k])
        for k in range(width):
            self.sums[k] = totals[k]

    def __reduce__(self):
        keys, cells, names, ends = self.arrays()
        state = (keys.tobytes(), cells.tobytes(), self.totals, names, None if ends is None else ends.tobytes())
        return _restore_table, (self.k, self.keep_names, self.track_values, state)


def _restore_table(classes, keep_names, track_values, state):
    table = CountTable(classes, keep_names, track_values)
    keys, cells, totals, names, ends = state
    table.load(
        np.frombuffer(keys, dtype=np.uint64),
        np.frombuffer(cells, dtype=np.float64),
        totals,
        names,
        None if ends is None else np.frombuffer(ends, dtype=np.uint64),
    )
    return table
