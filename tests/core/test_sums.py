import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import _core

numbers = st.floats(0, 1e6, allow_subnormal=False)


@given(st.floats(min_value=0, max_value=1.7e308, exclude_min=True))
def test_log_is_within_a_digit_of_the_library(x):
    assert _core.log(x) == pytest.approx(math.log(x), rel=3e-16, abs=3e-16)


def test_log_at_the_edges():
    assert _core.log(1) == 0
    assert _core.log(0) == -math.inf
    assert _core.log(5e-324) == pytest.approx(math.log(5e-324))
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="not a finite number"):
            _core.log(bad)


def test_logs_never_change():
    """Every score uses these sums, so they are bit-identical on every machine."""
    assert [_core.log(x).hex() for x in (2, 3, 0.1, 1e300)] == [
        "0x1.62e42fefa39efp-1",
        "0x1.193ea7aad030ap+0",
        "-0x1.26bb1bbb55515p+1",
        "0x1.5963447f87fb5p+9",
    ]


@pytest.mark.parametrize("tiny", [[], [0.0], [5e-324, 0.0, 2e-308]])
def test_logs_of_many_numbers_are_those_of_each(tiny):
    cells = [0.1, 1.5, 2.0**-1022, *tiny, 3.0, 1e300]
    logs = _core.log_cells(np.array(cells))
    assert logs.tolist() == [_core.log(x) for x in cells]


@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=30), st.randoms())
def test_weighted_sums_are_exact_and_know_no_order(rows, random):
    def summed(rows):
        table = np.array(rows)
        values = np.ascontiguousarray(table[:, 1:])
        return _core.weighted_sums(np.ascontiguousarray(table[:, 0]), values)[0]

    before = summed(rows)
    exact = [math.fsum(row[0] * row[k] for row in rows) for k in (1, 2)]
    assert before == pytest.approx(exact, rel=1e-15)
    random.shuffle(rows)
    assert summed(rows) == pytest.approx(before, rel=3e-16)


def test_rows_that_take_no_part():
    counts, values = np.array([1.0, 2.0]), np.array([[3.0, 4.0], [5.0, 6.0]])
    assert _core.weighted_sums(counts, values, np.array([0, 1], np.uint8)) == ([10.0, 12.0], 1)


def test_arrays_of_another_kind_are_refused_not_read():
    good = np.ones(2)
    with pytest.raises(ValueError, match="expected a contiguous float64"):
        _core.weighted_sums(np.ones(2, np.float32), np.ones((2, 2)))
    with pytest.raises(ValueError, match="cells"):
        _core.log_cells(np.ones((4, 4))[:, ::2])
    with pytest.raises(ValueError, match="presence"):
        _core.weighted_sums(good, np.ones((2, 2)), np.ones(3, np.uint8))


def test_a_table_has_a_largest_number_of_classes():
    with pytest.raises(ValueError, match="at most"):
        _core.CountTable(1 << 61)
    for bad in (None, [1.0], np.ones(2, ">f8")):
        with pytest.raises(ValueError, match="counts"):
            _core.weighted_sums(bad if bad is not None else np.ones(2, ">f8"), np.ones((2, 2)))
