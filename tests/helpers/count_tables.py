"""Keys, names and contents of tables of counts, for tests and fuzzers."""

import itertools

import numpy as np

__all__ = ["alike", "contents", "named", "u64"]

GOLDEN = 0x9E3779B97F4A7C15


def alike(n, hash_=0x5A5A5A5A):
    """Keys of which the table's index sees the same hash."""
    inverse = pow(GOLDEN, -1, 1 << 64)
    mixed = (((hash_ << 32) + i) * inverse % (1 << 64) for i in range(n))
    return [m ^ m >> 32 for m in mixed]


def u64(keys):
    return np.array(keys, dtype=np.uint64)


def contents(table):
    """Return the cells by key, after comparing every way to read the table."""
    keys, cells, names, ends = table.arrays()
    entry_keys, entry_ends, classes, counts, _, _ = table.entries()
    assert keys.tolist() == entry_keys.tolist() == sorted(set(keys.tolist()))
    assert entry_ends.tolist() == np.cumsum((cells != 0).sum(axis=1)).tolist()
    assert cells[cells != 0].tolist() == counts.tolist()
    assert cells.nonzero()[1].tolist() == classes.tolist()
    looked_up, are_present = table.get_counts(keys)
    assert looked_up.tolist() == cells.tolist()
    assert are_present.all()
    assert cells.sum(axis=0).tolist() == table.totals
    if names is not None:
        spans = [0, *ends.tolist()]
        stored_names = [names[a:b].decode() for a, b in itertools.pairwise(spans)]
        assert stored_names == [f"n{key}" for key in keys.tolist()]
    return dict(zip(keys.tolist(), cells.tolist(), strict=True))


def named(keys):
    parts = [f"n{key}".encode() for key in keys]
    return b"".join(parts), np.cumsum([0, *map(len, parts)])[1:].astype(np.uint32)
