# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: initializedcheck=False, embedsignature=True
"""Fingerprints: a keyed 64-bit hash of a feature's name."""

from operator import index

import numpy as np

cimport numpy as cnp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport NAN, fabs
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from streamnb._core.arrays cimport LARGEST_COUNT, MAX_NAMES, checked, grown, new_array

cnp.import_array()

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

KEY_BYTES = 16
DEFAULT_KEY = bytes(KEY_BYTES)


cdef bytes encode_tuple(tuple name, int depth):
    cdef bytes part
    if depth > MAX_TUPLE_DEPTH:
        raise ValueError(f"a feature name is a tuple nested more than {MAX_TUPLE_DEPTH} deep")
    parts = [bytes((NAME_TUPLE,))]
    for element in name:
        part = encode_tuple(tuple(element), depth + 1) if isinstance(element, tuple) else encode_name(element)
        parts.append(len(part).to_bytes(4, "little"))
        parts.append(part)
    return b"".join(parts)


def encode_name(name) -> bytes:
    """Return a feature name (str, bytes, int or a tuple of them) as bytes that include its type."""
    if isinstance(name, str):
        return utf8(str.__str__(name))  # the value of an enumeration member, not its name
    if isinstance(name, bytes):
        return bytes((NAME_BYTES,)) + bytes(name)
    if isinstance(name, tuple):
        return encode_tuple(tuple(name), 0)
    try:
        number = index(name)
    except TypeError:
        raise TypeError(
            f"a feature name is a str, bytes, int or tuple of them, not {type(name).__name__}: {name!r:.80}"
        ) from None
    if -(1 << 63) <= number < 1 << 63:
        return bytes((NAME_INT,)) + number.to_bytes(8, "little", signed=True)
    return bytes((NAME_BIG_INT,)) + number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


def decode_name(bytes name):
    """Return the feature name that `encode_name` wrote.

    Invalid bytes (from a damaged file or a hostile token) become replacement characters; names are used for display
    only.
    """
    return decode_nested(name, 0)


cdef decode_nested(bytes name, int depth):
    cdef Py_ssize_t position, size
    cdef int kind = name[0] if name else 0
    if kind == NAME_BYTES:
        return name[1:]
    if (kind == NAME_INT or kind == NAME_BIG_INT) and len(name) <= LONGEST_INT:
        return int.from_bytes(name[1:], "little", signed=True)
    if kind == NAME_TUPLE and depth <= MAX_TUPLE_DEPTH:
        elements = []
        position = 1
        while position + 4 <= len(name):
            size = int.from_bytes(name[position:position + 4], "little")
            elements.append(decode_nested(name[position + 4:position + 4 + size], depth + 1))
            position += 4 + size
        return tuple(elements)
    try:
        return name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return name.decode("utf-8", "replace")


def fingerprint(name, bytes key=DEFAULT_KEY) -> int:
    """Return the 64-bit hash of a feature name."""
    cdef bytes encoded = encode_name(name)
    return hash_encoded(read_key(key), <const uint8_t *> PyBytes_AS_STRING(encoded), len(encoded))


def fingerprint_columns(columns, bytes key=DEFAULT_KEY):
    """Return the fingerprints, uint64, of an int64 array of column indices."""
    cdef Key k = read_key(key)
    cdef cnp.ndarray source = np.ascontiguousarray(columns, dtype=np.int64)
    cdef Py_ssize_t i, n = len(source)
    cdef cnp.ndarray out = new_array(n, cnp.NPY_UINT64)
    cdef int64_t *numbers = <int64_t *> cnp.PyArray_DATA(source)
    cdef uint64_t *target = <uint64_t *> cnp.PyArray_DATA(out)
    for i in range(n):
        target[i] = snb_mix64(<uint64_t> numbers[i] ^ k.k0) ^ k.k1
    return out


cdef double checked_count(name, value, double threshold) except? -1:
    cdef double number
    if isinstance(value, (str, bytes)):
        raise ValueError(f"the count of feature {name!r:.80} is not a number: {value!r:.80}")
    try:
        number = value
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"the count of feature {name!r:.80} is not a number: {value!r:.80}") from None
    if not fabs(number) <= LARGEST_COUNT:
        raise ValueError(f"the count of feature {name!r:.80} is {number}: it must be finite and at most 1e100")
    if threshold == threshold:  # not NaN: binary counts
        return 1.0 if number > threshold else 0.0
    if number < 0:
        raise ValueError(f"the count of feature {name!r:.80} is negative: {number}")
    return number


def count_mapping(dict x, bytes key=DEFAULT_KEY, double threshold=NAN, bint keep_names=True):
    """Return the arrays of a `TokenCounts` for a dict of counts.

    With a `threshold`, values above it count 1 and others are left out. If it is NaN, only zeros are left out. Raises
    ValueError if a value is invalid.
    """
    cdef Key k = read_key(key)
    cdef Py_ssize_t n = len(x), used = 0, size, held = 0, room = 16 * n + 16
    cdef cnp.ndarray fingerprints = new_array(n, cnp.NPY_UINT64)
    cdef cnp.ndarray counts = new_array(n, cnp.NPY_FLOAT64)
    cdef cnp.ndarray ends = new_array(n if keep_names else 0, cnp.NPY_UINT32)
    cdef uint64_t *f = <uint64_t *> cnp.PyArray_DATA(fingerprints)
    cdef double *c = <double *> cnp.PyArray_DATA(counts)
    cdef uint32_t *e = <uint32_t *> cnp.PyArray_DATA(ends)
    cdef const uint8_t *p
    cdef bytes encoded
    cdef double number
    cdef long long word
    cdef int overflow = 0, byte
    cdef uint8_t[9] integer
    cdef char *names = NULL
    try:
        if keep_names:
            names = <char *> grown(names, room)
        for name, value in x.items():
            number = checked_count(name, value, threshold)
            if number == 0:
                continue
            if used == n:
                raise RuntimeError("the dict changed during iteration")
            if type(name) is int:
                word = PyLong_AsLongLongAndOverflow(name, &overflow)
                if overflow:
                    encoded = encode_name(name)
                    p = <const uint8_t *> PyBytes_AS_STRING(encoded)
                    size = len(encoded)
                else:
                    integer[0] = NAME_INT
                    for byte in range(8):
                        integer[byte + 1] = (<uint64_t> word >> (8 * byte)) & 0xFF
                    p = integer
                    size = 9
                f[used] = hash_encoded(k, p, size)
            elif type(name) is str and PyUnicode_IS_ASCII(name):
                p = <const uint8_t *> PyUnicode_AsUTF8AndSize(name, &size)
                f[used] = snb_siphash13(k.k0, k.k1, p, size)
            else:
                encoded = encode_name(name)
                p = <const uint8_t *> PyBytes_AS_STRING(encoded)
                size = len(encoded)
                f[used] = hash_encoded(k, p, size)
            c[used] = number
            if keep_names:
                if held + size > room:
                    room = 2 * (held + size)
                    names = <char *> grown(names, room)
                memcpy(names + held, p, size)
                held += size
                if held > MAX_NAMES:
                    raise ValueError("the feature names of one message exceed 4 GiB in total")
                e[used] = <uint32_t> held
            used += 1
        if used < n:
            fingerprints, counts, ends = fingerprints[:used], counts[:used], ends[:used]
        if not keep_names:
            return fingerprints, counts, None, None
        return fingerprints, counts, PyBytes_FromStringAndSize(names, held), ends
    finally:
        free(names)


def message_groups(tuple views, uint64_t n_groups) -> list:
    """Return -1 minus the index of each view (`TokenCounts`) with features, and its smallest fingerprint modulo `n_groups`."""
    cdef list groups = []
    cdef uint64_t *f
    cdef uint64_t smallest
    cdef Py_ssize_t i, n, v
    for v in range(len(views)):
        fingerprints = views[v].fingerprints
        n = len(fingerprints)
        f = <uint64_t *> cnp.PyArray_DATA(checked(fingerprints, cnp.NPY_UINT64, n, "fingerprints"))
        smallest = 0xFFFFFFFFFFFFFFFF
        for i in range(n):
            smallest = min(smallest, f[i])
        if n:
            groups.append((-1 - v, <Py_ssize_t> (smallest % n_groups)))
    return groups
