"""The exact sums, against Python's fractions."""

import math
import pickle
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb._core.exact_sums import ExactSums
from streamnb.tables.numeric_sums import cells_of_rows

# Bits below 2^-640 are cut off; products of these numbers have none.
numbers = (
    st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-40)
    | st.just(math.nan)
    | st.sampled_from([0.1, 3.0, -1e9, 15.26])
)
# Also small numbers, whose products lose bits.
of_any_size = st.floats(-1e100, 1e100) | st.integers(-99, 99).map(lambda x: x * 1e-85)
weights = st.floats(1e-40, 1e100) | st.sampled_from([1.0, 2.0, 0.3])
rows = st.lists(
    st.tuples(st.integers(0, 1), weights, st.tuples(numbers, numbers, numbers)), max_size=8
)


def arrays(stream):
    X = np.array([x for _, _, x in stream], dtype=float).reshape(-1, 3)
    return (
        X,
        np.array([k for k, _, _ in stream], dtype=np.int64),
        np.array([w for _, w, _ in stream], dtype=float),
    )


def summed(stream, pairs=False, k=0):
    sums = ExactSums(pairs)
    sums.grow(3)
    X, labels, w = arrays(stream)
    sums.add(X, labels, k, w)
    return sums


def close(value, exact):
    return math.isclose(value, exact, rel_tol=1e-14, abs_tol=1e-290)


@given(rows)
def test_moments_are_those_of_fractions(stream):
    n, mean, squares = summed(stream).moments()
    for j in range(3):
        class_values = [
            (Fraction(w), Fraction(x[j])) for k, w, x in stream if k == 0 and not math.isnan(x[j])
        ]
        total = sum(w for w, _ in class_values)
        assert close(n[j], float(total))
        if not class_values:
            assert math.isnan(mean[j])
            continue
        middle = sum(w * x for w, x in class_values) / total
        raw = sum(w * x * x for w, x in class_values)
        assert close(mean[j], float(middle))
        assert close(squares[j], float(raw - total * middle**2))


@given(rows)
def test_products_are_those_of_fractions(stream):
    sums = summed(stream, pairs=True)
    n, about = sums.products()
    for i in range(3):
        for j in range(3):
            class_values = [
                (Fraction(w), Fraction(x[i]), Fraction(x[j]))
                for k, w, x in stream
                if k == 0 and not math.isnan(x[i] + x[j])
            ]
            total = sum(w for w, _, _ in class_values)
            assert close(n[i, j], float(total))
            if not class_values:
                continue
            raw = sum(w * a * b for w, a, b in class_values)
            exact = (
                raw
                - sum(w * a for w, a, _ in class_values)
                * sum(w * b for w, _, b in class_values)
                / total
            )
            assert close(about[i, j], float(exact))
    assert close(sums.weight, float(sum(Fraction(w) for k, w, _ in stream if k == 0)))


@pytest.mark.parametrize("pairs", [False, True])
@given(a=rows, b=rows, seed=st.randoms())
def test_sums_can_be_subtracted_in_any_order(pairs, a, b, seed):
    total_sums = summed([*a, *b], pairs)
    merged = summed(a, pairs)
    merged.merge(summed(b, pairs))
    assert merged == total_sums
    X, labels, w = arrays(seed.sample(b, len(b)))
    total_sums.add(X, labels, 0, w, -1.0)
    assert total_sums == summed(a, pairs)
    shuffled = summed(seed.sample(a, len(a)), pairs)
    assert shuffled == total_sums == total_sums.copy() == pickle.loads(pickle.dumps(total_sums))
    restored = ExactSums.__new__(ExactSums)  # as skops does, without `__reduce__`
    restored.__setstate__(total_sums.__getstate__())
    assert restored == total_sums
    assert pickle.dumps(shuffled) == pickle.dumps(total_sums)


@given(rows)
def test_features_of_another_order_merge(stream):
    order = [2, 0, 1]  # their feature j is our feature order[j]
    turned = ExactSums(True)
    turned.grow(3)
    X, labels, w = arrays(stream)
    turned.add(np.ascontiguousarray(X[:, order]), labels, 0, w)
    target = ExactSums(True)
    target.grow(3)
    target.merge(turned, order)
    assert target == summed(stream, pairs=True)


@pytest.mark.parametrize(
    ("base", "step"), [(1e9, 0.1), (1e15, 0.125), (-1e100, 1e84), (1e-60, 1e-75)]
)
@pytest.mark.parametrize("pairs", [False, True])
def test_variance_far_from_zero(base, step, pairs):
    """Sums in double precision, or in double pairs, lose all digits here."""
    values = np.array([[base + step * k] for k in (1, 2, 4, 9, 5)])
    sums = ExactSums(pairs)
    sums.grow(1)
    sums.add(values, np.zeros(5, np.int64), 0, np.ones(5))
    exact = [Fraction(value) for value in values[:, 0]]
    middle = sum(exact) / 5
    spread = float(sum((x - middle) ** 2 for x in exact))
    result = sums.products()[1, 0, 0] if pairs else sums.moments()[2, 0]
    assert spread > 0
    assert result == pytest.approx(spread, rel=1e-14, abs=0)


def test_equal_sums_give_equal_arrays_after_any_operations():
    large, half = ExactSums(), ExactSums()
    no_values, first_label = np.empty((1, 0)), np.zeros(1, np.int64)
    half.add(no_values, first_label, 0, np.array([3.0 * 2**30]))
    for _ in range(200):
        large.merge(half.copy())
        large = large.copy()
    whole = ExactSums()
    whole.add(no_values, first_label, 0, np.array([600.0 * 2**30]))
    assert large == whole
    assert whole.arrays()[1].tolist() == large.arrays()[1].tolist()


@pytest.mark.parametrize("pairs", [False, True])
@given(
    x=st.floats(1e-100, 1e-40) | st.floats(-1e100, 1e100),
    w=st.floats(1e-100, 1) | st.floats(1, 1e100),
    others=st.lists(st.tuples(of_any_size, st.floats(1e-100, 1e100)), max_size=3),
    times=st.integers(1, 5),
)
def test_added_sums_are_possible(pairs, x, w, others, times):
    sums = ExactSums(pairs)
    sums.grow(1)
    for value, weight in [*others, *[(x, w)] * times]:
        sums.add(np.array([[value]]), np.zeros(1, np.int64), 0, np.array([weight]))
        assert sums.possible()
    for value, weight in [(x, w)] * times:
        sums.add(np.array([[value]]), np.zeros(1, np.int64), 0, np.array([weight]), -1.0)
        assert sums.possible()


def test_merging_with_itself_over_and_over():
    sums = ExactSums()
    sums.grow(1)
    sums.add(np.array([[1.0], [3.0]]), np.zeros(2, np.int64), 0, np.ones(2))
    for doublings in range(1, 400):
        sums.merge(sums)
        assert sums.moments()[:, 0].tolist() == [2.0 * 2.0**doublings, 2.0, 2.0 * 2.0**doublings]


def test_unused_features_of_sums_can_be_cut():
    for pairs in (False, True):
        sums = summed([(0, 1.0, (1.0, 2.0, 3.0))], pairs)
        before = sums.copy()
        sums.grow(9)
        sums.cut(3)
        assert sums == before
        sums.grow(5)
        before.grow(5)
        assert sums == before
        with pytest.raises(ValueError, match="6 features"):
            sums.cut(6)


@pytest.mark.long
def test_many_additions_and_sizes(full):
    sums = ExactSums()
    sums.grow(1)
    assert sys.getsizeof(sums) < 200
    X, labels, w = np.full((1 << 20, 1), -1 / 3), np.zeros(1 << 20, np.int64), np.ones(1 << 20)
    times = 200 if full else 10  # more additions than fit before a carry
    for _ in range(times):
        sums.add(X, labels, 0, w)
    n, mean, squares = sums.moments()[:, 0]
    assert (n, mean) == (times * (1 << 20), -1 / 3)
    assert abs(squares) <= 1e-31 * n
    for bad in (np.zeros((2, 2)), np.zeros((2, 1), np.float32)):
        with pytest.raises(ValueError, match=r"columns|contiguous"):
            sums.add(bad, np.zeros(2, np.int64), 0, np.ones(2))


decimals = (
    st.floats(-100, 100).map(lambda x: round(x, 2))
    | st.integers(-20, 20).map(float)
    | st.just(math.nan)
)
ordinary = st.lists(st.tuples(decimals, decimals, decimals), min_size=1, max_size=12)


@given(ordinary | st.lists(st.tuples(of_any_size, of_any_size, numbers), min_size=1, max_size=5))
def test_many_rows_at_once_have_the_same_sums(rows):
    X = np.array(rows, dtype=float)
    batch_sums, row_sums = ExactSums(True), ExactSums(True)
    for sums in (batch_sums, row_sums):
        sums.grow(3)
    batch_sums.add(X, np.zeros(len(X), np.int64), 0, np.ones(len(X)))
    result = cells_of_rows(X)
    if result is None:  # numbers of very different sizes
        sizes = np.abs(X[(X != 0) & ~np.isnan(X)])
        assert sizes.max() > 2**15 * sizes.min() or sizes.min() < 1e-70
        return
    for cells in result:
        row_sums.add_cells(cells)
    assert batch_sums == row_sums


DAMAGE = {
    "cells": (1, 20, np.zeros((3, 2), np.int64)),
    "width": (1, 50, np.zeros((4, 20), np.int64)),
    "low": (1, -1, np.zeros((4, 2), np.int64)),
    "digit": (1, 20, np.full((4, 2), -5)),
    "top": (1, 20, np.full((4, 1), 1 << 62)),
    "lowest": (1, 20, np.full((4, 1), -(1 << 63))),
    "features": (-1, 20, np.zeros((1, 1), np.int64)),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_sums_are_refused(damage):
    with pytest.raises(ValueError, match="damaged"):
        ExactSums().load(*damage)
