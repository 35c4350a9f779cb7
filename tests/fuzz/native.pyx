# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False
"""The targets of what is compiled, compiled themselves: the same inputs, a hundred times as fast.

Built by `fuzz.sh` beside the modules of `streamnb._core`, whose headers it reads, so that most of
what is checked is reached without the interpreter in between. `run.py --native` begins it; an input that fails here goes
through the target of the same name in Python as well.
"""

import os
import sys
import traceback

import numpy as np

from streamnb._core.hashing import decode_name, encode_name
from streamnb._core.markup import split_header

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport abort, free, malloc
from libc.string cimport memcmp, memcpy, memset
from streamnb._core.arrays cimport new_array
from streamnb._core.count_table cimport CountTable
from streamnb._core.grams cimport GramScanner
from streamnb._core.hashing cimport snb_siphash13
from streamnb._core.names cimport names_get
from streamnb._core.pairs cimport PairScanner
from streamnb._core.scanner cimport Scanner
from streamnb._core.table cimport Row, Segment, Table, row_cell, row_get, table_at, table_find

cnp.import_array()

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*check)(const uint8_t *, size_t));
    """
    int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*check)(const uint8_t *, size_t) noexcept) noexcept


cdef struct Choices:
    const uint8_t *data
    Py_ssize_t size
    Py_ssize_t at


cdef inline int below(Choices *c, int most) noexcept:
    """As `target.Choices.below`: a number of one byte, or of two; 0 at the end."""
    cdef int i, found = 0
    for i in range(1 if most <= 256 else 2):
        if c.at < c.size:
            found |= c.data[c.at] << 8 * i
        c.at += 1
    return found % most


cdef bytes rest(Choices *c):
    cdef Py_ssize_t begin = min(c.at, c.size)
    c.at = c.size
    return PyBytes_FromStringAndSize(<const char *> c.data + begin, c.size - begin)


cdef int must(bint holds, str what) except -1:
    if not holds:
        raise AssertionError(what)
    return 0


# Texts and pages

SETTINGS = (
    {"inner": "'-.$!"},
    {"inner": "'-.$!", "casefold": False},
    {"inner": "-", "urls": True, "binary": True},
    {"ngrams": (1, 3), "urls": True, "keep_names": False},
    {"by_character": True, "ngrams": (1, 4)},
    {"by_character": True, "ngrams": (3, 3), "casefold": False, "binary": True},
    {"min_length": 2, "max_length": 5, "stop": ["the", "ab"]},
    {"ngrams": (2, 2), "max_length": 10**6, "inner": "!#$%&'()*+,-./:;<=>?@[]^`{|}~"},
    {"inner": "'", "sublinear": True},
)
cdef list scanners = [(Scanner(**options), Scanner(**options)) for options in SETTINGS]


cdef int sound(Scanner s, Py_ssize_t most) except -1:
    """Distinct features, each the hash of its name, and not more than there can be."""
    cdef Py_ssize_t i, slot, found = 0
    cdef uint32_t start = 0
    cdef double total = 0
    for i in range(s.used):
        must(start <= s.ends[i] <= s.names.size, "names lie one after the other")
        must(s.counts[i] > 0, "a count is positive")
        must(
            s.fingerprints[i] == snb_siphash13(s.key.k0, s.key.k1, s.names.bytes + start, s.ends[i] - start),
            "a fingerprint is that of its name",
        )
        slot = s.fingerprints[i] & (s.slot_count - 1)
        while s.slots[slot] != <uint32_t> (i + 1):
            must(s.slots[slot] != 0, "a token is found in its slots")
            must(s.fingerprints[s.slots[slot] - 1] != s.fingerprints[i], "a token is there once")
            slot = (slot + 1) & (s.slot_count - 1)
        start = s.ends[i]
        total += s.counts[i]
    for slot in range(s.slot_count if s.slot_count <= 1024 else 0):
        found += s.slots[slot] != 0
    must(s.slot_count > 1024 or found == s.used, "each slot is a token's")
    must(total <= most, "no more tokens than there can be")
    return 0


cdef int the_same(Scanner a, Scanner b) except -1:
    must(a.used == b.used, "as many tokens")
    must(memcmp(a.fingerprints, b.fingerprints, a.used * 8) == 0, "the same tokens")
    must(memcmp(a.counts, b.counts, a.used * 8) == 0, "as often")
    must(memcmp(a.ends, b.ends, a.used * 4) == 0, "of the same lengths")
    return 0


cdef int scanned(const uint8_t *data, size_t size, bint html) except -1:
    cdef Choices c = Choices(data, size, 0)
    cdef int number = below(&c, len(SETTINGS))
    cdef bytes prefix = b"p:" if below(&c, 2) else b""
    cdef Scanner one = scanners[number][0], other = scanners[number][1]
    cdef bytes text = rest(&c)
    cdef Py_ssize_t sizes = one.last - one.first + 1
    if html and one.by_character:
        return 0  # no tokenizer does that
    one.scan(text, prefix, html)
    sound(one, (len(text) + 1) * sizes * (3 if one.urls else 1))
    other.scan(text[len(text) // 2:], b"q:", not html and not one.by_character)
    other.discard()
    try:
        other.scan(text.decode() if size & 1 else text, prefix, html)
    except UnicodeDecodeError:
        other.scan(text, prefix, html)
    the_same(one, other)
    if html and b"<" not in text and b"&" not in text:
        other.discard()
        other.scan(text, prefix, False)
        the_same(one, other)
    one.discard()
    other.discard()
    return 0


cdef int words(const uint8_t *data, size_t size) except -1:
    return scanned(data, size, False)


cdef int html(const uint8_t *data, size_t size) except -1:
    return scanned(data, size, True)


# Headers

from fuzz.texts import slow_header


cdef int header(const uint8_t *data, size_t size) except -1:
    cdef Choices c = Choices(data, size, 0)
    cdef int most = below(&c, 256), start = below(&c, 16), short = below(&c, 16)
    cdef bytes text = rest(&c)
    start = <int> min(start, len(text))
    cdef Py_ssize_t end = max(start, len(text) - short)
    must(split_header(text, start, end, most) == slow_header(text, start, end, most), "the fields of a slow reader")
    return 0


# Grams and pairs

from definitions import slow_pairs


cdef list plain_grams = [GramScanner(n, 1000) for n in range(1, 9)]
cdef list nested_grams = [GramScanner(n, 1000, False, step) for n, step in ((6, 2), (4, 2), (3, 1), (2, 2), (6, 3))]


cdef int grams(const uint8_t *data, size_t size) except -1:
    """The grams are those of the definition, each once; nested ones as often as they end others."""
    cdef Choices c = Choices(data, size, 0)
    cdef int kind = below(&c, 13)
    cdef bytes text = rest(&c)
    cdef GramScanner scanner = plain_grams[kind] if kind < 8 else nested_grams[kind - 8]
    fingerprints, counts = scanner.scan(text)
    cdef dict found = {}, wanted = {}
    cdef Py_ssize_t i, k, shorter
    cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(fingerprints)
    cdef double *v = <double *> cnp.PyArray_DATA(counts)
    for i in range(len(fingerprints)):
        found[scanner.name(f[i])] = v[i]
    must(len(found) == len(fingerprints), "each gram once")
    if scanner.casefold:
        text = text.lower()
    if scanner.step == 0:
        wanted = {text[i : i + scanner.n]: 1.0 for i in range(len(text) - scanner.n + 1)}
    else:
        for i in range(1, len(text) + 1):
            k = min(scanner.n, i // scanner.step * scanner.step)
            if k and text[i - k : i] not in wanted:
                shorter = k
                while shorter:
                    wanted[text[i - shorter : i]] = wanted.get(text[i - shorter : i], 0.0) + 1
                    shorter -= scanner.step
    must(found == wanted, "the grams of the definition")
    return 0


cdef list pair_scanners = [PairScanner(most) for most in (1, 7, 4000)]


cdef int pairs(const uint8_t *data, size_t size) except -1:
    cdef Choices c = Choices(data, size, 0)
    cdef PairScanner scanner = pair_scanners[below(&c, 3)]
    cdef bytes text = rest(&c)
    scanner.add(text)
    fingerprints, _, names, ends = scanner.finish()
    cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(fingerprints)
    cdef uint32_t *e = <uint32_t *> cnp.PyArray_DATA(ends)
    cdef const uint8_t *p = <const uint8_t *> PyBytes_AS_STRING(names)
    cdef Py_ssize_t i, start = 0
    cdef set found = set()
    for i in range(len(fingerprints)):
        must(f[i] == snb_siphash13(scanner.key.k0, scanner.key.k1, p + start, e[i] - start), "a fingerprint is that of its name")
        found.add(names[start : e[i]])
        start = e[i]
    must(len(found) == len(fingerprints), "each token and pair once")
    must(found == slow_pairs(text, scanner.max_tokens), "the tokens and pairs of the definition")
    return 0


# Names

cdef int names(const uint8_t *data, size_t size) except -1:
    """Any bytes are shown, and what is written is read back."""
    cdef bytes text = PyBytes_FromStringAndSize(<const char *> data, size)
    name = decode_name(text)
    try:
        written = encode_name(name)
    except ValueError:  # tuples in tuples in tuples
        return 0
    must(decode_name(written) == name, "a name is read as it was written")
    return 0


# The table of counts

cdef enum:
    KEYS = 256
    CLASSES = 40
    LEARNED = 256

cdef uint64_t[KEYS] keys
cdef uint32_t[KEYS] name_ends  # of the names of all keys, one after the other
cdef bytes all_names


cdef void set_keys():
    """Small numbers, some of which the index sees the same hash, and the largest."""
    global all_names
    cdef int i
    cdef uint64_t inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64), mixed
    cdef list parts = []
    for i in range(KEYS):
        mixed = ((<uint64_t> 0x5A5A5A5A << 32) + i) * inverse
        keys[i] = i if i < 239 else mixed ^ (mixed >> 32)
    keys[KEYS - 1] = ~<uint64_t> 0
    for i in range(KEYS):
        parts.append(b"n%d" % keys[i])
        name_ends[i] = <uint32_t> (len(parts[i]) + (name_ends[i - 1] if i else 0))
    all_names = b"".join(parts)


set_keys()

cdef struct Lesson:
    int k
    int size
    double weight
    uint8_t[20] keys

cdef struct Slow:
    double[KEYS][CLASSES] counts
    int classes
    Lesson[LEARNED] learned
    int lessons

cdef Slow slow, other_slow


cdef cnp.ndarray some_keys(const uint8_t *which, int n):
    cdef cnp.ndarray made = new_array(n, cnp.NPY_UINT64)
    cdef int i
    for i in range(n):
        (<uint64_t *> cnp.PyArray_DATA(made))[i] = keys[which[i]]
    return made


cdef cnp.ndarray ones(int n):
    cdef cnp.ndarray made = new_array(n, cnp.NPY_FLOAT64)
    cdef int i
    for i in range(n):
        (<double *> cnp.PyArray_DATA(made))[i] = 1.0
    return made


cdef void put(Slow *s, const Lesson *lesson, double sign) noexcept:
    cdef int i
    for i in range(lesson.size):
        s.counts[lesson.keys[i]][lesson.k] += sign * lesson.weight


cdef int learn_some(CountTable table, Slow *s, Choices *c) except -1:
    cdef Lesson lesson
    cdef bint[KEYS] had
    cdef int i, key, more
    cdef uint32_t used = 0, start
    cdef cnp.ndarray ends
    lesson.k = below(c, below(c, CLASSES) + 1)
    more = below(c, 20)
    lesson.size = 0
    memset(had, 0, sizeof(had))
    for i in range(more):
        key = below(c, KEYS)
        if not had[key]:
            had[key] = True
            lesson.keys[lesson.size] = key
            lesson.size += 1
    lesson.weight = 1 + below(c, 3)
    table.widen(max(lesson.k + 1, table.k))
    s.classes = max(s.classes, lesson.k + 1)
    names = None
    ends = None
    if table.keep_names:
        names = []
        ends = new_array(lesson.size, cnp.NPY_UINT32)
        for i in range(lesson.size):
            key = lesson.keys[i]
            start = name_ends[key - 1] if key else 0
            names.append(all_names[start : name_ends[key]])
            used += name_ends[key] - start
            (<uint32_t *> cnp.PyArray_DATA(ends))[i] = used
        names = b"".join(names)
    table.add(some_keys(lesson.keys, lesson.size), ones(lesson.size), lesson.k, lesson.weight, names, ends)
    put(s, &lesson, 1)
    if s.lessons < LEARNED:
        s.learned[s.lessons] = lesson
        s.lessons += 1
    return 0


cdef int take_back(CountTable table, Slow *s, Choices *c) except -1:
    cdef int i
    cdef Lesson lesson
    if s.lessons == 0:
        return 0
    i = below(c, s.lessons)
    lesson = s.learned[i]
    s.lessons -= 1
    s.learned[i] = s.learned[s.lessons]
    table.subtract(some_keys(lesson.keys, lesson.size), ones(lesson.size), lesson.k, lesson.weight)
    put(s, &lesson, -1)
    return 0


cdef int take_too_much(CountTable table, Slow *s, Choices *c) except -1:
    """What was not learned is refused, and then nothing was changed."""
    cdef int k = below(c, 4), i
    cdef uint8_t[3] which
    cdef bint there = True
    for i in range(3):
        which[i] = below(c, KEYS)
    if k >= table.k or which[0] == which[1] or which[1] == which[2] or which[0] == which[2]:
        return 0
    for i in range(3):
        there = there and s.counts[which[i]][k] >= 5
    if there:
        return 0
    try:
        table.subtract(some_keys(which, 3), ones(3), k, 5.0)
    except ValueError:
        return as_slow(table, s)
    raise AssertionError("more was taken than was there")


cdef int merge_another(CountTable table, Slow *s, Choices *c) except -1:
    """Another table is added, its classes in another order."""
    cdef CountTable made = CountTable(0, table.keep_names, table.track_values)
    cdef Lesson lesson
    cdef int i
    memset(&other_slow, 0, sizeof(Slow))
    for i in range(below(c, 3)):
        learn_some(made, &other_slow, c)
    table.widen(max(made.k, table.k))
    s.classes = max(s.classes, other_slow.classes)
    table.merge(made, np.arange(made.k, dtype=np.int64)[::-1].copy())
    for i in range(other_slow.lessons):
        lesson = other_slow.learned[i]
        lesson.k = other_slow.classes - 1 - lesson.k
        put(s, &lesson, 1)
        if s.lessons < LEARNED:
            s.learned[s.lessons] = lesson
            s.lessons += 1
    return 0


cdef CountTable stored(CountTable table):
    """The table, written out and read back."""
    cdef CountTable made = CountTable(table.k, table.keep_names, table.track_values)
    keys, ends, classes, counts, names, name_ends = table.entries()
    made.load(keys, ends, classes, counts, table.totals, names, name_ends)
    return made


cdef int halve(CountTable table, Slow *s) except -1:
    cdef int i, k
    cdef double left
    table.rescale(0.5, 0.75)
    for i in range(KEYS):
        left = 0
        for k in range(s.classes):
            s.counts[i][k] /= 2
            left += s.counts[i][k]
        if left < 0.75:
            memset(s.counts[i], 0, sizeof(s.counts[i]))
    s.lessons = 0
    return 0


cdef int as_slow(CountTable table, Slow *s) except -1:
    """The table has what the slow one has, and its index leads to every row."""
    cdef int i, k, rows = 0
    cdef Py_ssize_t row
    cdef double sum_
    cdef uint64_t at, used = 0
    cdef Segment *before = NULL
    cdef size_t size
    cdef const char *name
    cdef uint32_t start
    must(table.k == s.classes, "as many classes")
    for i in range(KEYS):
        sum_ = 0
        for k in range(s.classes):
            sum_ += s.counts[i][k]
        row = table_find(&table.table, keys[i])
        must((row >= 0) == (sum_ > 0), "a feature is there while it has a count")
        if row < 0:
            continue
        rows += 1
        must(table_at(&table.table, row).key == keys[i], "a row is that of its key")
        for k in range(s.classes):
            must(table.count(row, k) == s.counts[i][k], "the counts of a slow table")
        if table.keep_names:
            name = names_get(&table.names, row, &size)
            start = name_ends[i - 1] if i else 0
            must(
                size == name_ends[i] - start and memcmp(name, PyBytes_AS_STRING(all_names) + start, size) == 0,
                "the name of a feature",
            )
    must(rows == table.table.rows, "no rows but those of features")
    for k in range(s.classes):
        sum_ = 0
        for i in range(KEYS):
            sum_ += s.counts[i][k]
        must(table.sums[k] == sum_, "the total of a class")
    if table.table.segments != NULL:
        for at in range(<uint64_t> 1 << table.table.bits):
            if table.table.segments[at] != before:
                before = table.table.segments[at]
                used += before.used
        must(used == <uint64_t> rows, "as many entries in the index as rows")
    return values_as_slow(table, s) if table.track_values else 0


cdef int values_as_slow(CountTable table, Slow *s) except -1:
    """How many features have each count."""
    cdef double features
    cdef Py_ssize_t row
    cdef uint64_t bits
    cdef double value
    cdef int i, k
    for row in range(table.values.rows):
        bits = table_at(&table.values, row).key
        memcpy(&value, &bits, 8)
        must(value > 0, "no count of nothing")
        for k in range(s.classes):
            features = 0
            for i in range(KEYS):
                features += s.counts[i][k] == value
            must(row_get(&table.values, table_at(&table.values, row), k) == features, "how many features have a count")
    for i in range(KEYS):
        for k in range(s.classes):
            if s.counts[i][k] > 0:
                value = s.counts[i][k]
                memcpy(&bits, &value, 8)
                must(table_find(&table.values, bits) >= 0, "a count is among the values")
    return 0


cdef int table(const uint8_t *data, size_t size) except -1:
    cdef Choices c = Choices(data, size, 0)
    cdef int kind = below(&c, 4), step
    cdef CountTable made = CountTable(0, bool(kind & 1), bool(kind & 2))
    memset(&slow, 0, sizeof(Slow))
    while c.at < c.size:
        step = below(&c, 10)
        if step < 3:
            learn_some(made, &slow, &c)
        elif step == 3 or step == 4:
            take_back(made, &slow, &c)
        elif step == 5:
            take_too_much(made, &slow, &c)
        elif step == 6:
            merge_another(made, &slow, &c)
        elif step == 7:
            made = stored(made)
        elif step == 8:
            made.reserve(below(&c, 2000))
        elif below(&c, 8) == 0:
            halve(made, &slow)
    return as_slow(made, &slow)


# The fuzzer

ctypedef int (*Check)(const uint8_t *, size_t) except -1

cdef Check checked_now


cdef int checks(const uint8_t *data, size_t size) noexcept:
    try:
        checked_now(data, size)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        abort()
    return 0


TARGETS = ("words", "html", "header", "grams", "pairs", "names", "table")


def fuzz(str name, list arguments):
    """Fuzz a target with libFuzzer's arguments, the fuzzer's own name first; ends the process."""
    global checked_now
    cdef Check[7] all_checks
    all_checks[:] = [words, html, header, grams, pairs, names, table]
    checked_now = all_checks[TARGETS.index(name)]
    cdef list held = [os.fsencode(argument) for argument in arguments]
    cdef int argc = <int> len(held), i
    cdef char **argv = <char **> malloc((argc + 1) * sizeof(char *))
    for i in range(argc):
        argv[i] = PyBytes_AS_STRING(held[i])
    argv[argc] = NULL
    return LLVMFuzzerRunDriver(&argc, &argv, checks)
