"""The table of counts against a dict, for any size, columns and keys."""

import io
import math
import pickle
import threading
import zipfile
from array import array

import numpy as np
import pytest
from count_tables import alike, contents, named, u64
from hypothesis import given
from hypothesis import strategies as st

from streamnb import MultinomialNB, _core

KEYS = [*range(30), *alike(15), 2**64 - 1]
MESSAGE = st.lists(st.sampled_from(KEYS), max_size=12, unique=True)
STEPS = st.lists(st.tuples(st.integers(0, 8), MESSAGE, st.booleans()), max_size=25)


@given(STEPS, st.booleans())
def test_a_table_is_a_dict_of_counts(steps, keep_names):
    table, other = (_core.CountTable(0, keep_names, True) for _ in range(2))
    learned = []
    expected: dict[int, list[int]] = {}
    for k, keys, undo in steps:
        for class_total in (table, other):
            class_total.widen(k + 1)
        if undo and learned:
            k, keys = learned.pop()
            table.subtract(u64(keys), np.ones(len(keys)), k, 2.0)
            for key in keys:
                expected[key][k] -= 2
        else:
            names, ends = named(keys)
            table.add(u64(keys), np.ones(len(keys)), k, 2.0, names, ends)
            learned.append((k, keys))
            for key in keys:
                expected.setdefault(key, [0] * 9)[k] += 2
        width = table.classes
        rows = {key: row[:width] for key, row in expected.items() if any(row)}
        assert contents(table) == rows
        values, features = table.count_histogram()
        histogram = dict(zip(values.tolist(), features.tolist(), strict=True))
        flat = [(v, j) for row in rows.values() for j, v in enumerate(row) if v]
        assert histogram == {
            v: [flat.count((v, j)) for j in range(width)] for v in {v for v, _ in flat}
        }
    restored = _core.CountTable.__new__(_core.CountTable)  # as skops does, without `__reduce__`
    restored.__setstate__(table.__getstate__())
    for copy in (pickle.loads(pickle.dumps(table)), restored, other):
        if copy is other:
            other.merge(table, np.arange(table.classes))
        assert contents(copy) == contents(table)
        assert copy.totals == table.totals
    table.rescale(0.5, 1.5)  # the remainder is smaller than the count
    halves = {key: [v / 2 for v in row] for key, row in contents(other).items()}
    assert contents(table) == {key: row for key, row in halves.items() if sum(row) >= 1.5}


@pytest.mark.parametrize("classes", [2, 9])
def test_an_index_of_many_segments(classes):
    """Segments split, and removed rows leave no gaps."""
    rng = np.random.default_rng(1)
    keys = np.concatenate((rng.integers(0, 2**63, 300_000).astype(np.uint64), u64(alike(3_000))))
    table = _core.CountTable(classes, False)
    for start in range(0, len(keys), 1_000):
        part = keys[start : start + 1_000]
        table.add(part, np.ones(len(part)), start // 1_000 % classes)
    assert len(table) == len(np.unique(keys))
    cells, is_seen = table.get_counts(keys)
    assert is_seen.all()
    assert (cells.argmax(axis=1) == np.arange(len(keys)) // 1_000 % classes).all()
    for start in range(0, len(keys), 2_000):
        part = keys[start : start + 1_000]
        table.subtract(part, np.ones(len(part)), start // 1_000 % classes)
    _, is_seen = table.get_counts(keys)
    assert (is_seen == np.arange(len(keys)) // 1_000 % 2).all()
    assert not table.get_counts(rng.integers(0, 2**63, 1_000).astype(np.uint64))[1].any()


def test_room_that_is_reserved_is_not_made_again():
    counts = MultinomialNB(keep_names=False).counts
    counts.add_classes("ab")
    counts.reserve(200_000)
    table = counts.table
    index = table.__sizeof__()
    keys = np.random.default_rng(1).integers(0, 2**63, 200_000).astype(np.uint64)
    table.add(keys, np.ones(len(keys)), 1)
    rows = 24 * len(keys)
    assert index + rows <= table.__sizeof__() <= index + 1.1 * rows + 8 * len(keys) + 400_000


@pytest.mark.parametrize(("classes", "most"), [(1, 32), (2, 40), (20, 60), (2_000, 60)])
def test_memory_of_a_feature(classes, most):
    """After each step of growth, with at most two classes for a feature."""
    rng = np.random.default_rng(1)
    table = _core.CountTable(classes, False)
    keys = rng.integers(0, 2**63, 400_000).astype(np.uint64)
    for start in range(0, len(keys), 1_000):
        part = keys[start : start + 1_000]
        for k in (start // 1_000 % classes, (start // 1_000 + 1) % classes):
            table.add(part, np.ones(len(part)), k)
        if start >= 100_000:
            assert table.__sizeof__() / len(table) < most


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 5, 30])
@pytest.mark.parametrize("complement", [False, True])
def test_log_sums_are_those_of_the_formula(classes, complement):
    rng = np.random.default_rng(classes)
    table = _core.CountTable(classes, False)
    keys = np.arange(200, dtype=np.uint64)
    for _ in range(60):
        part = rng.choice(keys[:150], 20, replace=False)
        table.add(part, rng.integers(1, 4, 20).astype(float), int(rng.integers(classes)))
    message = rng.permutation(keys)[:100]
    counts = rng.integers(1, 5, 100).astype(float)
    for unseen in (False, True):
        options = unseen, complement
        grid, used = table.log_likelihood_grid(message, counts, 0.3, [1.0, 10.0], *options)
        sums, _ = table.log_likelihood_grid(message, counts, 0.3, [1.0], *options)
        cells, is_seen = table.get_counts(message)
        mask = np.ones(100, np.uint8) if unseen else is_seen
        total, totals, numbers = sum(table.totals), table.totals, cells
        sign = 1
        if complement:
            totals, numbers = [total - x for x in totals], cells.sum(axis=1, keepdims=True) - cells
            sign = -1
        every = 0.3 * len(table)
        expected = [
            sign
            * math.fsum(
                counts[i] * (math.log(numbers[i, k] + 0.3) - math.log(class_total + every))
                for i in np.flatnonzero(mask)
            )
            for k, class_total in enumerate(totals)
        ]
        assert used == mask.sum()
        assert [*sums] == pytest.approx(expected, rel=1e-13)
        rows = _core.SparseRows(*table.entries()[1:4]).take(
            np.where(is_seen, np.searchsorted(table.entries()[0], message), -1)
        )
        same = rows.log_likelihood_grid(
            counts, table.totals, len(table), 0.3, [1.0, 10.0], unseen, complement
        )
        assert same == (grid, used)
        assert table.log_likelihood_grid(message, counts, 0.3, [], *options) == (array("d"), used)
        for power in (0.5, 2 / 3):
            normalized, _ = table.log_likelihood_grid(
                message, counts, 0.3, [1.0], *options, 0.8, power
            )
            divisor = 0.8 * float(used) ** power
            assert [*normalized] == pytest.approx([x / divisor for x in expected], rel=1e-13)
        assert grid[: len(sums)] == sums
        order = rng.permutation(100)
        shuffled = table.log_likelihood_grid(message[order], counts[order], 0.3, [1.0], *options)
        assert shuffled == (sums, used)


def test_a_table_does_not_reuse_the_rows_of_another_look_up():
    """A table caches the rows of the last look-up, which must be checked before they are used again."""
    table = _core.CountTable(2, False)
    ones = np.ones(3)
    table.add(u64([1, 2, 3]), ones, 0)
    message = u64([1, 2, 4])
    table.log_likelihood_grid(message, ones, 1.0, [1.0])
    message[:] = [3, 5, 1]  # another message in the same array
    table.add(message, ones, 1)
    assert contents(table) == {1: [1, 1], 2: [1, 0], 3: [1, 1], 5: [0, 1]}
    table.log_likelihood_grid(u64([2, 2, 9]), ones, 1.0, [1.0])
    table.subtract(u64([1, 2, 3]), ones, 0)  # row 2 goes, another takes its place
    table.add(u64([2, 2, 9]), ones, 0)
    assert contents(table) == {1: [0, 1], 2: [2, 0], 3: [0, 1], 5: [0, 1], 9: [1, 0]}


def with_classes(classes, messages=40):
    rng = np.random.default_rng(classes)
    model = MultinomialNB()
    for i in range(messages):
        model.learn_one({f"w{rng.integers(30)}": 2, f"v{i}": 1}, f"c{i % classes}")
    return model


@pytest.mark.parametrize("classes", [1, 4, 5, 30])
def test_files_of_few_and_many_classes(tmp_path, classes):
    model = with_classes(classes)
    model.save(tmp_path / "model.snb")
    reloaded = MultinomialNB.load(tmp_path / "model.snb")
    assert reloaded.counts == model.counts
    reloaded.save(tmp_path / "again.snb")
    assert (tmp_path / "again.snb").read_bytes() == (tmp_path / "model.snb").read_bytes()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("count_classes", lambda array: array + 9),
        ("count_ends", lambda array: array[::-1]),
        ("count_ends", lambda array: array + 1),
        ("counts", lambda array: array[1:]),
        ("counts", lambda array: -array),
        ("fingerprints", lambda array: array * 0),
    ],
)
def test_damaged_files_of_many_classes(tmp_path, name, damage):
    with_classes(9).save(tmp_path / "model.snb")
    with zipfile.ZipFile(tmp_path / "model.snb") as archive:
        arrays = {
            class_total.removesuffix(".npy"): np.load(io.BytesIO(archive.read(class_total)))
            for class_total in archive.namelist()
        }
    arrays[f"0.{name}"] = np.ascontiguousarray(damage(arrays[f"0.{name}"]))
    with (tmp_path / "bad.snb").open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(Exception, match=r"bad\.snb: not a streamnb model, or damaged"):
        MultinomialNB.load(tmp_path / "bad.snb")


@pytest.mark.parametrize("classes", [2, 9])
def test_a_table_merges_with_itself(classes):
    rng = np.random.default_rng(1)
    table = _core.CountTable(classes, False)
    for k in range(classes):
        table.add(np.arange(500, dtype=np.uint64), rng.integers(1, 5, 500).astype(float), k)
    before = table.arrays()[1]
    table.merge(table, np.array([*range(1, classes), 0], dtype=np.int64))
    assert (table.arrays()[1] == before + np.roll(before, 1, axis=1)).all()


def test_other_threads_may_learn_while_a_table_is_copied():
    """Numpy sorts without the interpreter's lock."""
    table = _core.CountTable(9, False)
    keys = np.random.default_rng(1).integers(0, 2**63, (2, 30_000)).astype(np.uint64)
    ones = np.ones(30_000)
    table.add(keys[0], ones, 0)
    done = threading.Event()

    def learn():
        while not done.is_set():
            table.add(keys[1], ones, 5)
            table.subtract(keys[1], ones, 5)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        for _ in range(15):
            fingerprints, cells, _, _ = table.arrays()
            assert len(fingerprints) in (30_000, 60_000)
            assert cells.sum() == len(fingerprints)
            fingerprints, ends, _, counts, _, _ = table.entries()
            assert len(fingerprints) == ends[-1] == len(counts)
    finally:
        done.set()
        thread.join()


def test_values_of_counts_that_rounding_clears():
    """The remainder of a fraction is 0, and its value leaves the histogram."""
    table = _core.CountTable(2, False, True)
    for amount in (0.1, 0.2, 0.3):
        table.add(u64([1, 2]), np.array([amount, 1.0]), 0)
    for amount in (0.1, 0.2, 0.3):
        table.subtract(u64([1, 2]), np.array([amount, 1.0]), 0)
    values, features = table.count_histogram()
    assert (len(table), values.tolist(), features.tolist()) == (0, [], [])


def test_room_for_no_number_of_features_is_refused():
    table = _core.CountTable(2, False)
    with pytest.raises(ValueError, match="-1"):
        table.reserve(-1)
    with pytest.raises(MemoryError):
        table.reserve(5 * 10**10)
    table.reserve(1_000_000)
    size = table.__sizeof__()
    table.add(np.arange(5_000, dtype=np.uint64), np.ones(5_000), 0)
    assert table.__sizeof__() > size  # the allocated room remains


def test_features_without_counts_have_no_evidence():
    table = _core.CountTable(3, False)
    table.load(u64([1, 2]), None, None, np.zeros((2, 3)), [0.0, 0.0, 0.0])
    sums, used = table.log_likelihood_grid(u64([1]), np.ones(1), 1.0, [1.0])
    assert (sums.tolist(), used) == ([-math.log(2)] * 3, 1)


@pytest.mark.parametrize("classes", [2, 9])
def test_counts_are_those_of_the_requested_features(classes):
    """A look-up is used again only for the same features in the same order, if nothing changed."""
    table = _core.CountTable(classes, False)
    keys = [*range(1, 9), *alike(4)]
    for i, key in enumerate(keys):
        table.add(u64([key]), np.array([1.0 + i]), i % classes)

    def totals(*fingerprints):
        return table.get_counts(u64(fingerprints))[0].sum(axis=1).tolist()

    assert totals(1, 2, 3) == [1, 2, 3]
    assert totals(3, 2, 1) == [3, 2, 1]
    assert totals(2, 2, 2) == [2, 2, 2]
    assert totals(91, 92, 93) == totals(92, 91, 93) == [0, 0, 0]
    assert totals(91, 92, 1) == [0, 0, 1]
    table.add(u64([91]), np.ones(1), 0)
    assert totals(91, 92, 1) == [1, 0, 1]
    table.remove(u64([1, 77]))  # the last row moves into its place
    assert totals(91, 92, 1) == [1, 0, 0]
    assert [totals(key) for key in keys[1:]] == [[1.0 + i] for i in range(1, len(keys))]
    assert sum(table.totals) == sum(range(2, len(keys) + 1)) + 1
    table.log_likelihood_grid(u64([2, 3]), np.ones(2), 1.0, [1.0])
    table.subtract(u64([2]), np.array([2.0]), 1)
    assert totals(2, 3) == [0, 3]
