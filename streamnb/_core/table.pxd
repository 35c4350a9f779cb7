# The hash table under all counts: 64-bit keys, and a row of numbers for each key.
# Rows are stored in blocks in order of insertion, so other arrays can be parallel to them. An index of 8-byte entries
# (32 bits of the key's hash, 32 bits of row number) points to them. A look-up touches one cache line of the index,
# because searches start at a line, and one or two of the row. The leading bits of the hash cut the index into segments
# (Fagin et al. 1979, extendible hashing). Segments grow one at a time, so no insertion takes long; they are 64 to 80 %
# full.
# With few columns, a row has a number for each. With many columns, most rows have one or two nonzero numbers. Then a
# row has room for two numbers with their columns; a separate block has the others.

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset
from streamnb._core.arrays cimport MAX_NAMES, grown

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    /* Bit masks of the entries of a line that match a hash, and of the free ones. All 8 entries are
       compared at once: a loop with an exit would be an unpredictable branch. */
    #if defined(__SSE2__)
    #include <emmintrin.h>
    static inline unsigned snb_line(const uint64_t *line, int odd, uint32_t wanted) {
        const __m128 *p = (const __m128 *)line;
        const __m128i pattern = _mm_set1_epi32((int)wanted);
        __m128i low = _mm_castps_si128(odd ? _mm_shuffle_ps(p[0], p[1], 0xdd) : _mm_shuffle_ps(p[0], p[1], 0x88));
        __m128i high = _mm_castps_si128(odd ? _mm_shuffle_ps(p[2], p[3], 0xdd) : _mm_shuffle_ps(p[2], p[3], 0x88));
        return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(low, pattern))) |
               (unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(high, pattern))) << 4;
    }
    #else
    static inline unsigned snb_line(const uint64_t *line, int odd, uint32_t wanted) {
        unsigned matches = 0, i;
        for (i = 0; i < 8; i++) matches |= (unsigned)((uint32_t)(odd ? line[i] >> 32 : line[i]) == wanted) << i;
        return matches;
    }
    #endif
    static inline unsigned snb_matching(const uint64_t *line, uint32_t hash) { return snb_line(line, 1, hash); }
    static inline unsigned snb_free(const uint64_t *line) { return snb_line(line, 0, 0); }
    """
    const uint64_t GOLDEN "0x9E3779B97F4A7C15ULL"
    const uint32_t NO_COLUMN "0xFFFFFFFFU"
    const uint32_t ELSEWHERE "0xFFFFFFFEU"
    const uint64_t MAX_SLOTS "0xFFFFFFF0ULL"
    unsigned snb_matching(const uint64_t *line, uint32_t hash) noexcept nogil
    unsigned snb_free(const uint64_t *line) noexcept nogil
    int snb_first "__builtin_ctz"(unsigned bits) noexcept nogil
    void snb_prefetch "__builtin_prefetch"(const void *p) noexcept nogil

cdef enum:
    MAX_COLUMNS = 1 << 20
    DENSE = 4               # maximum number of columns for which a row has a number for each
    LINE = 8                # index entries per cache line
    SEGMENT = 1 << 16       # number of slots at which a segment is split
    BLOCK_BITS = 12
    BLOCK = 1 << BLOCK_BITS # rows per block
    AHEAD = 16              # number of overlapped look-ups, which hides the latency of memory

cdef struct Segment:
    void *block
    uint64_t *slots     # within the block, aligned to a cache line: hash << 32 | row + 1; 0 if free
    uint32_t size
    uint32_t used
    int depth           # number of leading bits that its hashes share

cdef struct Table:
    Segment **segments  # indexed by the first `bits` bits of the hash; NULL if there are no rows
    int bits
    uint8_t **blocks
    Py_ssize_t rows
    Py_ssize_t capacity
    Py_ssize_t width    # columns
    Py_ssize_t stride   # bytes per row
    size_t unloaded    # bytes of numbers stored outside rows

cdef struct Row:
    uint64_t key
    double[DENSE] numbers  # [columns]

cdef struct SparseRow:
    uint64_t key
    uint32_t[2] columns    # ascending, then NO_COLUMN; or ELSEWHERE and the number of columns
    double[2] numbers

cdef struct Elsewhere:
    uint64_t key
    uint32_t mark
    uint32_t used
    double *numbers        # [room], followed by their columns
    uint64_t room


cdef inline uint32_t table_hash(uint64_t key) noexcept nogil:
    # Keys are bits of values, or fingerprints from the user. Hash 0 marks a free slot.
    return <uint32_t> (((key ^ (key >> 32)) * GOLDEN) >> 32) | 1


cdef inline Py_ssize_t table_stride(Py_ssize_t width) noexcept nogil:
    return sizeof(SparseRow) if width > DENSE else sizeof(uint64_t) + width * sizeof(double)


cdef inline Row *table_at(const Table *t, Py_ssize_t row) noexcept nogil:
    return <Row *> (t.blocks[row >> BLOCK_BITS] + (row & (BLOCK - 1)) * t.stride)


cdef inline Py_ssize_t entry_row(uint64_t entry) noexcept nogil:
    return <Py_ssize_t> <uint32_t> entry - 1


cdef inline Segment *table_segment(const Table *t, uint32_t hash) noexcept nogil:
    return t.segments[<uint64_t> hash >> (32 - t.bits)]


cdef inline uint64_t *segment_home(const Segment *s, uint32_t hash) noexcept nogil:
    """Return the first slot of the search for a hash."""
    return s.slots + ((<uint64_t> <uint32_t> (hash << s.depth) * s.size >> 32) & ~<uint64_t> (LINE - 1))


cdef inline uint64_t *segment_next(const Segment *s, uint64_t *slot, Py_ssize_t step) noexcept nogil:
    """Return the next slot (step 1) or line (step LINE), cyclically."""
    return s.slots if slot + step == s.slots + s.size else slot + step


# Rows of many columns

cdef inline Py_ssize_t sparse_cells(SparseRow *r, uint32_t **columns, double **numbers) noexcept nogil:
    """Set the numbers of a sparse row and their columns; return their number."""
    cdef Elsewhere *other = <Elsewhere *> r
    if r.columns[0] == ELSEWHERE:
        numbers[0] = other.numbers
        columns[0] = <uint32_t *> (other.numbers + other.room)
        return other.used
    numbers[0] = r.numbers
    columns[0] = r.columns
    return (r.columns[0] != NO_COLUMN) + (r.columns[1] != NO_COLUMN)


cdef inline int sparse_grow(Table *t, SparseRow *r, Py_ssize_t used) except -1:
    """Make room for one more number outside the row."""
    cdef Elsewhere *other = <Elsewhere *> r
    cdef uint32_t *columns
    cdef double *numbers
    cdef double *wider
    cdef uint64_t before = other.room if r.columns[0] == ELSEWHERE else 0
    cdef uint64_t room = before + before // 2 + 4
    sparse_cells(r, &columns, &numbers)
    wider = <double *> grown(NULL, room * (sizeof(double) + sizeof(uint32_t)))
    memcpy(wider, numbers, used * sizeof(double))
    memcpy(wider + room, columns, used * sizeof(uint32_t))
    if before:
        free(numbers)
    t.unloaded += (room - before) * (sizeof(double) + sizeof(uint32_t))
    other.mark, other.used, other.numbers, other.room = ELSEWHERE, <uint32_t> used, wider, room
    return 0


cdef inline double *sparse_cell(Table *t, SparseRow *r, uint32_t column) except NULL:
    """Return the number of a column; a missing one is inserted as 0."""
    cdef uint32_t *columns
    cdef double *numbers
    cdef Py_ssize_t used = sparse_cells(r, &columns, &numbers), below = 0, i
    cdef Py_ssize_t above = used, middle
    while below < above:
        middle = (below + above) // 2
        if columns[middle] < column:
            below = middle + 1
        else:
            above = middle
    if below < used and columns[below] == column:
        return numbers + below
    if used >= 2 and (r.columns[0] != ELSEWHERE or <uint64_t> used == (<Elsewhere *> r).room):
        sparse_grow(t, r, used)
        sparse_cells(r, &columns, &numbers)
    for i in range(used, below, -1):
        columns[i], numbers[i] = columns[i - 1], numbers[i - 1]
    columns[below], numbers[below] = column, 0.0
    if r.columns[0] == ELSEWHERE:
        (<Elsewhere *> r).used += 1
    return numbers + below


cdef inline void sparse_free(Table *t, SparseRow *r) noexcept nogil:
    cdef Elsewhere *other = <Elsewhere *> r
    if r.columns[0] == ELSEWHERE:
        t.unloaded -= other.room * (sizeof(double) + sizeof(uint32_t))
        free(other.numbers)


# Rows of any kind

cdef inline void row_clear(const Table *t, Row *r, uint64_t key) noexcept nogil:
    memset(r, 0, t.stride)
    r.key = key
    if t.width > DENSE:
        (<SparseRow *> r).columns[0] = (<SparseRow *> r).columns[1] = NO_COLUMN


cdef inline Py_ssize_t row_cells(const Table *t, Row *r, uint32_t **columns, double **numbers) noexcept nogil:
    """Set the numbers of a row and their columns (NULL: 0, 1, 2 ...); return their number."""
    if t.width > DENSE:
        return sparse_cells(<SparseRow *> r, columns, numbers)
    columns[0], numbers[0] = NULL, r.numbers
    return t.width


cdef inline double row_get(const Table *t, Row *r, Py_ssize_t column) noexcept nogil:
    cdef uint32_t *columns
    cdef double *numbers
    cdef Py_ssize_t i
    if t.width <= DENSE:
        return r.numbers[column]
    for i in range(sparse_cells(<SparseRow *> r, &columns, &numbers)):
        if columns[i] == <uint32_t> column:
            return numbers[i]
    return 0.0


cdef inline double *row_cell(Table *t, Row *r, Py_ssize_t column) except NULL:
    return sparse_cell(t, <SparseRow *> r, <uint32_t> column) if t.width > DENSE else r.numbers + column


cdef inline bint row_is_empty(const Table *t, Row *r) noexcept nogil:
    cdef uint32_t *columns
    cdef double *numbers
    cdef Py_ssize_t i
    for i in range(row_cells(t, r, &columns, &numbers)):
        if numbers[i] != 0:
            return False
    return True


cdef inline void row_copy(const Table *t, Row *r, double *target, Py_ssize_t width) noexcept nogil:
    """Copy a row to `width` numbers, zeros included."""
    cdef uint32_t *columns
    cdef double *numbers
    cdef Py_ssize_t i
    if t.width <= DENSE:
        memcpy(target, r.numbers, width * sizeof(double))
        return
    memset(target, 0, width * sizeof(double))
    for i in range(sparse_cells(<SparseRow *> r, &columns, &numbers)):
        target[columns[i]] = numbers[i]


# Segments

cdef inline Segment *segment_new(uint64_t entries, int depth) except NULL:
    """Allocate a segment that is less than 4/5 full with the given number of entries."""
    cdef Segment *s
    cdef uint64_t size = (entries * 5 // 4 // LINE + 1) * LINE
    if size > MAX_SLOTS:
        raise MemoryError("the index of a count table has at most 2^32 slots")
    s = <Segment *> grown(NULL, sizeof(Segment))
    s.block = calloc(size + LINE, sizeof(uint64_t))
    if s.block == NULL:
        free(s)
        raise MemoryError(f"out of memory: cannot allocate {size * 8} bytes")
    s.slots = <uint64_t *> (<size_t> s.block + 63 & ~<size_t> 63)
    s.size, s.used, s.depth = <uint32_t> size, 0, depth
    return s


cdef inline void segment_enter(Segment *s, uint64_t entry) noexcept nogil:
    cdef uint64_t *line = segment_home(s, <uint32_t> (entry >> 32))
    cdef unsigned free_slots = snb_free(line)
    while free_slots == 0:
        line = segment_next(s, line, LINE)
        free_slots = snb_free(line)
    line[snb_first(free_slots)] = entry
    s.used += 1


cdef inline void segment_free(Segment *s) noexcept nogil:
    free(s.block)
    free(s)


cdef inline int table_split(Table *t, Segment *s) except -1:
    """Split a segment in two by the next bit of the hash."""
    cdef Segment *low
    cdef Segment *high
    cdef Segment **doubled
    cdef uint64_t i, entry, bit, ones = 0
    if s.depth == t.bits:
        doubled = <Segment **> grown(NULL, sizeof(Segment *) << (t.bits + 1))
        for i in range(<uint64_t> 1 << t.bits):
            doubled[2 * i] = doubled[2 * i + 1] = t.segments[i]
        free(t.segments)
        t.segments = doubled
        t.bits += 1
    for i in range(s.size):
        ones += s.slots[i] >> (63 - s.depth) & 1
    low = segment_new((s.used - ones) * 5 // 4, s.depth + 1)  # 64 % full
    try:
        high = segment_new(ones * 5 // 4, s.depth + 1)
    except MemoryError:
        segment_free(low)
        raise
    for i in range(s.size):
        entry = s.slots[i]
        if entry:
            segment_enter(high if entry >> (63 - s.depth) & 1 else low, entry)
    for i in range(<uint64_t> 1 << t.bits):
        if t.segments[i] == s:
            bit = i >> (t.bits - s.depth - 1) & 1
            t.segments[i] = high if bit else low
    segment_free(s)
    return 0


cdef inline int segment_enlarge(Segment *s, uint64_t entries) except -1:
    cdef Segment *larger = segment_new(entries, s.depth)
    cdef uint64_t i
    for i in range(s.size):
        if s.slots[i]:
            segment_enter(larger, s.slots[i])
    free(s.block)
    s[0] = larger[0]
    free(larger)
    return 0


cdef inline int table_grow(Table *t, Segment *s) except -1:
    """Enlarge or split a full segment."""
    # A split can double the list of segments. If keys share more leading bits than by chance, an attacker chose them,
    # and their segment is enlarged.
    if s.size >= SEGMENT and s.depth < 30 and (<uint64_t> 1 << s.depth) * SEGMENT <= 16 * <uint64_t> t.rows:
        return table_split(t, s)
    return segment_enlarge(s, s.used + s.used // 4 + LINE)


cdef inline void table_forget_index(Table *t) noexcept nogil:
    cdef uint64_t i, entries = <uint64_t> 1 << t.bits
    cdef Segment *before = NULL
    if t.segments == NULL:
        return
    for i in range(entries):  # entries of one segment are adjacent
        if t.segments[i] != before:
            before = t.segments[i]
            segment_free(before)
    free(t.segments)
    t.segments, t.bits = NULL, 0


cdef inline int table_index(Table *t, uint64_t entries) except -1:
    """Rebuild the index with room for the given number of rows."""
    cdef Table fresh
    cdef uint64_t i, share
    cdef uint64_t *used
    cdef Py_ssize_t row
    cdef uint32_t hash
    if entries >= MAX_NAMES:
        raise MemoryError("a count table holds at most 2^32 - 2 features")
    memset(&fresh, 0, sizeof(Table))
    entries = max(entries, <uint64_t> t.rows)
    while entries >> fresh.bits > SEGMENT * 3 // 5:
        fresh.bits += 1
    share = (entries >> fresh.bits) + (<uint64_t> (4 * sqrt(<double> (entries >> fresh.bits))) if fresh.bits else 0)
    used = <uint64_t *> calloc(<size_t> 1 << fresh.bits, sizeof(uint64_t))
    fresh.segments = <Segment **> calloc(<size_t> 1 << fresh.bits, sizeof(Segment *))
    try:
        if used == NULL or fresh.segments == NULL:
            raise MemoryError("out of memory: cannot allocate the index of a count table")
        for row in range(t.rows):
            used[<uint64_t> table_hash(table_at(t, row).key) >> (32 - fresh.bits)] += 1
        for i in range(<uint64_t> 1 << fresh.bits):
            fresh.segments[i] = segment_new(max(used[i], share) + LINE, fresh.bits)
    except MemoryError:
        if fresh.segments != NULL:
            for i in range(<uint64_t> 1 << fresh.bits):
                if fresh.segments[i] != NULL:
                    segment_free(fresh.segments[i])
        free(fresh.segments)
        raise
    finally:
        free(used)
    for row in range(t.rows):
        hash = table_hash(table_at(t, row).key)
        segment_enter(table_segment(&fresh, hash), <uint64_t> hash << 32 | <uint64_t> (row + 1))
    table_forget_index(t)
    t.segments, t.bits = fresh.segments, fresh.bits
    return 0


# The table

cdef inline size_t table_bytes(const Table *t) noexcept nogil:
    cdef uint64_t i
    cdef size_t size = t.capacity * t.stride + t.unloaded
    cdef Segment *before = NULL
    if t.segments != NULL:
        for i in range(<uint64_t> 1 << t.bits):
            size += sizeof(Segment *)
            if t.segments[i] != before:
                before = t.segments[i]
                size += sizeof(Segment) + before.size * sizeof(uint64_t)
    return size


cdef inline void table_free_rows(Table *t) noexcept nogil:
    cdef Py_ssize_t i
    if t.width > DENSE:
        for i in range(t.rows):
            sparse_free(t, <SparseRow *> table_at(t, i))
    for i in range((t.capacity + BLOCK - 1) >> BLOCK_BITS):
        free(t.blocks[i])
    free(t.blocks)
    t.blocks, t.rows, t.capacity = NULL, 0, 0


cdef inline void table_free(Table *t) noexcept nogil:
    """Remove all rows."""
    table_forget_index(t)
    table_free_rows(t)


cdef inline int table_room(Table *t, Py_ssize_t growth) except -1:
    """Allocate room for more rows."""
    cdef Py_ssize_t last, held, room
    if t.rows + growth >= MAX_NAMES:
        raise MemoryError("a count table holds at most 2^32 - 2 features")
    t.stride = table_stride(t.width)
    while t.rows + growth > t.capacity:
        last, held = t.capacity >> BLOCK_BITS, t.capacity & (BLOCK - 1)
        room = min(t.capacity // 8 + 8, BLOCK - held)
        if held == 0:
            t.blocks = <uint8_t **> grown(t.blocks, (last + 1) * sizeof(uint8_t *))
            t.blocks[last] = NULL
        t.blocks[last] = <uint8_t *> grown(t.blocks[last], (held + room) * t.stride)
        t.capacity += room
    return 0


cdef inline uint64_t *table_slot(const Table *t, uint64_t key, uint32_t hash) noexcept nogil:
    """Return the index slot of a key, or NULL."""
    cdef Segment *s
    cdef uint64_t *line
    cdef unsigned matches
    if t.segments == NULL:
        return NULL
    s = table_segment(t, hash)
    line = segment_home(s, hash)
    while True:
        matches = snb_matching(line, hash)
        while matches:
            if table_at(t, entry_row(line[snb_first(matches)])).key == key:
                return line + snb_first(matches)
            matches &= matches - 1
        if snb_free(line):
            return NULL
        line = segment_next(s, line, LINE)


cdef inline Py_ssize_t table_find(const Table *t, uint64_t key) noexcept nogil:
    """Return the row of a key, or -1."""
    cdef uint64_t *slot = table_slot(t, key, table_hash(key))
    return -1 if slot == NULL else entry_row(slot[0])


cdef inline Py_ssize_t table_guess(const Table *t, uint32_t hash) noexcept nogil:
    """Return the first row whose key may have this hash, or -1."""
    cdef Segment *s = table_segment(t, hash)
    cdef uint64_t *line = segment_home(s, hash)
    cdef unsigned matches = snb_matching(line, hash)
    while matches == 0:
        if snb_free(line):
            return -1
        line = segment_next(s, line, LINE)
        matches = snb_matching(line, hash)
    return entry_row(line[snb_first(matches)])


cdef inline void table_find_many(const Table *t, const uint64_t *keys, Py_ssize_t n, int64_t *rows) noexcept nogil:
    """Set the row of each key, or -1. The look-ups overlap and load the rows into the cache."""
    cdef Py_ssize_t i, j
    cdef uint32_t hash
    cdef uint8_t *row
    if t.segments == NULL:
        for i in range(n):
            rows[i] = -1
        return
    for i in range(n + 2 * AHEAD):
        if i < n:
            hash = table_hash(keys[i])
            snb_prefetch(segment_home(table_segment(t, hash), hash))
        j = i - AHEAD
        if 0 <= j < n:
            rows[j] = table_guess(t, table_hash(keys[j]))
            if rows[j] >= 0:
                row = <uint8_t *> table_at(t, rows[j])
                snb_prefetch(row)
                snb_prefetch(row + t.stride - 1)
        j -= AHEAD
        if j >= 0 and rows[j] >= 0 and table_at(t, rows[j]).key != keys[j]:
            rows[j] = table_find(t, keys[j])


cdef inline Py_ssize_t table_row(Table *t, uint64_t key) except -1:
    """Return the row of a key; a missing one is added with zeros."""
    cdef uint32_t hash = table_hash(key)
    cdef uint64_t *slot = table_slot(t, key, hash)
    cdef Segment *s
    if slot != NULL:
        return entry_row(slot[0])
    if t.rows == t.capacity:
        table_room(t, 1)
    if t.segments == NULL:
        table_index(t, 0)
    s = table_segment(t, hash)
    while <uint64_t> (s.used + 1) * 5 > <uint64_t> s.size * 4:
        table_grow(t, s)
        s = table_segment(t, hash)
    row_clear(t, table_at(t, t.rows), key)
    t.rows += 1
    segment_enter(s, <uint64_t> hash << 32 | <uint64_t> t.rows)
    return t.rows - 1


cdef inline void table_remove(Table *t, Py_ssize_t row) noexcept nogil:
    """Remove a row; the last row moves into its place."""
    cdef Row *r = table_at(t, row)
    cdef Row *last = table_at(t, t.rows - 1)
    cdef uint32_t hash = table_hash(r.key)
    cdef Segment *s = table_segment(t, hash)
    cdef uint64_t *hole = table_slot(t, r.key, hash)
    cdef uint64_t *slot
    cdef uint64_t *home
    if t.width > DENSE:
        sparse_free(t, <SparseRow *> r)
    if r != last:
        slot = table_slot(t, last.key, table_hash(last.key))
        slot[0] = (slot[0] >> 32 << 32) | <uint64_t> (row + 1)
        memcpy(r, last, t.stride)
    t.rows -= 1
    s.used -= 1
    # No slot between the home of an entry and the entry may be free. So later entries move into the hole, unless their
    # home is after it (Knuth, TAOCP 3, 6.4, algorithm R).
    slot = hole
    while True:
        hole[0] = 0
        while True:
            slot = segment_next(s, slot, 1)
            if slot[0] == 0:
                return
            home = segment_home(s, <uint32_t> (slot[0] >> 32))
            if (hole < home <= slot) or (slot < hole and (home > hole or home <= slot)):
                continue
            break
        hole[0] = slot[0]
        hole = slot


cdef inline int table_widen(Table *t, Py_ssize_t width) except -1:
    """Add columns to all rows. Sparse rows stay unchanged."""
    cdef Table wide
    cdef Py_ssize_t row, k
    cdef Row *r
    if width <= t.width:
        return 0
    if t.width > DENSE or t.rows == 0:
        if t.rows == 0:
            table_free_rows(t)
        t.width = width
        t.stride = table_stride(width)
        return 0
    memset(&wide, 0, sizeof(Table))
    wide.width, wide.stride = width, table_stride(width)
    try:
        for row in range(t.rows):
            table_room(&wide, 1)
            r = table_at(t, row)
            row_clear(&wide, table_at(&wide, row), r.key)
            wide.rows += 1
            for k in range(t.width):
                if r.numbers[k] != 0:
                    row_cell(&wide, table_at(&wide, row), k)[0] = r.numbers[k]
    except MemoryError:
        table_free_rows(&wide)
        raise
    table_free_rows(t)
    t.blocks, t.rows, t.capacity, t.width, t.stride = wide.blocks, wide.rows, wide.capacity, wide.width, wide.stride
    t.unloaded = wide.unloaded
    return 0
