"""Tables of counts, exact sums and models, as state machines compared with slow ones."""

import io
import math
import pickle
import struct
from fractions import Fraction

import numpy as np
from count_tables import alike, contents, named, u64
from fuzz.target import Choices, Target
from reference import Reference

from streamnb import BernoulliNB, ComplementNB, MultinomialNB
from streamnb._core import CountTable, log, log_cells, weighted_sums
from streamnb._core.exact_sums import ExactSums

__all__ = ["TARGETS"]

# Keys with the same hash in the index, small keys, and the largest one.
KEYS = [*range(239), *alike(16), (1 << 64) - 1]


class _Table:
    """A table of counts, and a dict with the same operations."""

    def __init__(self, names: bool, values: bool) -> None:
        self.names = names
        self.table = CountTable(0, names, values)
        self.rows: dict[int, dict[int, float]] = {}
        self.learned: list[tuple[int, list[int], float]] = []

    def put(self, k: int, keys: list[int], weight: float) -> None:
        for key in keys:
            row = self.rows.setdefault(key, {})
            row[k] = row.get(k, 0.0) + weight
            if not row[k]:
                del row[k]
            if not row:
                del self.rows[key]

    def add(self, choice: Choices) -> None:
        k = choice.below(choice.below(40) + 1)
        keys = list(dict.fromkeys(KEYS[i] for i in choice.take(choice.below(20))))
        weight = float(1 + choice.below(3))
        self.table.widen(max(k + 1, self.table.classes))
        self.table.add(
            u64(keys), np.ones(len(keys)), k, weight, *(named(keys) if self.names else ())
        )
        self.learned.append((k, keys, weight))
        self.put(k, keys, weight)

    def take_back(self, choice: Choices) -> None:
        if self.learned:
            k, keys, weight = self.learned.pop(choice.below(len(self.learned)))
            self.table.subtract(u64(keys), np.ones(len(keys)), k, weight)
            self.put(k, keys, -weight)

    def take_too_much(self, choice: Choices) -> None:
        """Check that unlearning an unknown message raises and changes nothing."""
        k, keys = choice.below(4), sorted({KEYS[i] for i in choice.take(3)})
        if any(self.rows.get(key, {}).get(k, 0.0) < 5.0 for key in keys) and k < self.table.classes:
            before = contents(self.table)
            try:
                self.table.subtract(u64(keys), np.ones(len(keys)), k, 5.0)
            except ValueError:
                assert contents(self.table) == before
            else:
                raise AssertionError("more was taken than was there")

    def merge(self, choice: Choices) -> None:
        """Add another table with its classes in another order."""
        other = _Table(self.names, self.table.track_values)
        for _ in range(choice.below(3)):
            other.add(choice)
        places = np.array(list(reversed(range(other.table.classes))), dtype=np.int64)
        self.table.widen(max(other.table.classes, self.table.classes))
        self.table.merge(other.table, places)
        for k, keys, weight in other.learned:
            class_index = len(places) - 1 - k
            self.learned.append((class_index, keys, weight))
            self.put(class_index, keys, weight)

    def store(self, choice: Choices) -> None:
        self.table = pickle.loads(pickle.dumps(self.table))

    def reserve(self, choice: Choices) -> None:
        self.table.reserve(choice.below(2000))

    def rescale(self, choice: Choices) -> None:
        """Halve the counts, and remove those below the minimum."""
        if choice.below(8):
            return
        self.table.rescale(0.5, 0.75)
        halves = {key: {k: v / 2 for k, v in row.items()} for key, row in self.rows.items()}
        self.rows = {key: row for key, row in halves.items() if sum(row.values()) >= 0.75}
        self.learned = []

    def check(self) -> None:
        width = self.table.classes
        assert contents(self.table) == {
            key: [row.get(k, 0.0) for k in range(width)] for key, row in self.rows.items()
        }
        assert len(self.table) == len(self.rows)
        if self.table.track_values:
            values, features = self.table.count_histogram()
            histogram = dict(zip(values.tolist(), features.tolist(), strict=True))
            wanted: dict[float, list[float]] = {}
            for row in self.rows.values():
                for k, value in row.items():
                    wanted.setdefault(value, [0.0] * width)[k] += 1
            assert histogram == wanted


STEPS = (_Table.add, _Table.add, _Table.add, _Table.take_back, _Table.take_back, _Table.take_too_much,
         _Table.merge, _Table.store, _Table.reserve, _Table.rescale)  # fmt: skip


def table(data: bytes) -> None:
    choice = Choices(data)
    kind = choice.below(4)
    pair = _Table(bool(kind & 1), bool(kind & 2))
    while choice:
        STEPS[choice.below(len(STEPS))](pair, choice)
    pair.check()


def _floats(data: bytes, least: float, most: float) -> list[float]:
    """Return the numbers of eight bytes each that are within the bounds."""
    values = struct.unpack(f"<{len(data) // 8}d", data[: len(data) // 8 * 8])
    return [x for x in values if least <= abs(x) <= most or x == 0]


def sums(data: bytes) -> None:
    """Check logarithms, and sums that equal fractions in any order."""
    numbers = [abs(x) for x in _floats(data, 1e-100, 1e100)]
    for x in numbers[:8]:
        if x > 0:
            assert math.isclose(log(x), math.log(x), rel_tol=3e-16, abs_tol=3e-16)
    rows = [numbers[i : i + 3] for i in range(0, len(numbers) - 2, 3)]
    if not rows:
        return
    matrix = np.array(rows)
    counts, values = np.ascontiguousarray(matrix[:, 0]), np.ascontiguousarray(matrix[:, 1:])
    sums, used = weighted_sums(counts, values)
    assert used == len(rows)
    for k in (0, 1):
        exact = sum((Fraction(row[0] * row[k + 1]) for row in rows), Fraction(0))
        assert math.isclose(sums[k], float(exact), rel_tol=1e-15)
    turned, _ = weighted_sums(counts[::-1].copy(), values[::-1].copy())
    assert all(math.isclose(a, b, rel_tol=3e-16) for a, b in zip(sums, turned, strict=True))
    logs = log_cells(values, 1.0)
    assert np.allclose(logs, np.log(values + 1.0), rtol=1e-14, atol=1e-15)


def exact(data: bytes) -> None:
    """Check sums of rows against fractions: added, merged and subtracted in any order."""
    choice = Choices(data)
    pairs, turned = bool(choice.below(2)), choice.below(2)
    numbers = _floats(choice.remaining_bytes(), 1e-40, 1e80)
    rows = [tuple(numbers[i : i + 3]) for i in range(0, len(numbers) - 2, 3)]
    rows = [(abs(w) or 1.0, a, b) for w, a, b in rows]
    if not rows:
        return

    def summed(rows: list[tuple[float, float, float]]) -> ExactSums:
        exact = ExactSums(pairs)
        exact.grow(2)
        X = np.array([row[1:] for row in rows]).reshape(-1, 2)
        exact.add(X, np.zeros(len(rows), np.int64), 0, np.array([row[0] for row in rows]))
        return exact

    whole, half = summed(rows), len(rows) // 2
    merged = summed(rows[half:])
    merged.merge(summed(rows[:half]))
    assert merged == whole == summed(rows[::-1]) == pickle.loads(pickle.dumps(whole))
    low, limbs = whole.arrays()[0], whole.arrays()[1]
    reloaded = ExactSums(pairs)
    reloaded.load(2, low, limbs)
    assert reloaded == whole
    assert whole.possible()
    for row in rows[half:][:: -1 if turned else 1]:
        merged.add(np.array([row[1:]]), np.zeros(1, np.int64), 0, np.array([row[0]]), -1.0)
    assert merged == summed(rows[:half])
    parts = [(Fraction(w), Fraction(a), Fraction(b)) for w, a, b in rows]
    total = sum(w for w, _, _ in parts)
    assert math.isclose(whole.weight, float(total), rel_tol=1e-14)
    if pairs:
        about = float(
            sum(w * a * b for w, a, b in parts)
            - sum(w * a for w, a, _ in parts) * sum(w * b for w, _, b in parts) / total
        )
        assert math.isclose(whole.products()[1, 0, 1], about, rel_tol=1e-14, abs_tol=1e-280)
    else:
        mean = sum(w * a for w, a, _ in parts) / total
        square = float(sum(w * (a - mean) ** 2 for w, a, _ in parts))
        _, means, squares = whole.moments()
        assert math.isclose(means[0], float(mean), rel_tol=1e-14, abs_tol=1e-280)
        assert math.isclose(squares[0], square, rel_tol=1e-14, abs_tol=1e-280)


MODELS = (MultinomialNB, BernoulliNB, ComplementNB)
LABELS = ("ham", "spam", 3, "list")


def _message(choice: Choices) -> dict[str, int]:
    return {"abcdefgh"[b & 7]: b >> 3 & 3 for b in choice.take(choice.below(8))}


def models(data: bytes) -> None:
    """Compare a model with one that counts everything again, after any operations."""
    choice = Choices(data)
    kind = choice.below(3)
    alpha = (0.01, 1.0, 2.5)[choice.below(3)]
    unseen = ("ignore", "smooth")[choice.below(2)]
    model = MODELS[kind](alpha=alpha, unseen=unseen)
    slow = Reference(("multinomial", "bernoulli", "complement")[kind], alpha, model.prior, unseen)
    learned: list[tuple[dict[str, int], object]] = []
    while choice and len(slow.observations) < 30:
        step = choice.below(6)
        if step <= 2:
            example = _message(choice), LABELS[choice.below(4)]
            model.learn_one(*example)
            slow.learn(*example)
            learned.append(example)
        elif step == 3 and learned:
            example = learned.pop(choice.below(len(learned)))
            model.unlearn_one(*example)
            slow.unlearn(*example)
        elif step == 4:
            other, other_model = model.clone(), Reference(slow.kind)
            for _ in range(choice.below(3)):
                example = _message(choice), LABELS[choice.below(4)]
                other.learn_one(*example)
                other_model.learn(*example)
                learned.append(example)
            model.merge(other)
            slow.merge(other_model)
        elif step == 5:
            file = io.BytesIO()
            model.save(file)
            model = type(model).load(file)
    question = _message(choice)
    sums, wanted = model.joint_log_likelihood(question), slow.joint_log_likelihood(question)
    assert list(sums) == list(wanted)
    for label, score in wanted.items():
        assert math.isclose(sums[label], score, rel_tol=1e-12, abs_tol=1e-12)
    shares, other_model = model.predict_proba_one(question), slow.predict_proba(question)
    assert all(
        math.isclose(shares[y], other_model[y], rel_tol=1e-9, abs_tol=1e-12) for y in other_model
    )
    for example in learned:
        model.unlearn_one(*example)
    assert len(model.counts.table) == 0


def _doubles(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def _machines() -> list[bytes]:
    return [bytes((kind + i * j) % 251 for i in range(n)) for kind in range(4) for j in (1, 7, 31)
            for n in (8, 60, 200)]  # fmt: skip


def _numbers() -> list[bytes]:
    return [
        _doubles(1, 2, 3),
        _doubles(*(0.1 * i for i in range(12))),
        _doubles(1e100, 1e-100, 1.0, 3e-40, 7.5, 1e15, 1.0, 1e15 + 1, 2.0),
        _doubles(1, -1e9, 15.26, 2.0, -1e9 + 0.5, 15.27, 0.3, 1e-40, 1e80),
    ]


TARGETS = {
    "table": Target(table, _machines, most=512),
    "sums": Target(sums, _numbers, (_doubles(1.0), _doubles(1e100), _doubles(0.1)), 512),
    "exact": Target(
        exact,
        lambda: [bytes([i & 1, i >> 1]) + raw for i in range(4) for raw in _numbers()],
        (_doubles(1.0), _doubles(-1e80), _doubles(1e-40)),
        512,
    ),
    "models": Target(models, _machines, most=256),
}
