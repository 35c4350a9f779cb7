"""Predictions of each class, which make it ready."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.naive_bayes.class_sums import ClassReliability


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=120), st.integers(0, 120))
def test_predictions_count_until_a_class_is_ready(calls, cut):
    reliability, before, changes = ClassReliability(), ClassReliability(), []
    expected = {k: [0, 0] for k in range(3)}
    for i, (predicted, true) in enumerate(calls):
        changes.append(reliability.learn(predicted, true))
        if i < cut:
            before.learn(predicted, true)
        correct, wrong = expected[predicted]
        if not (correct >= 20 and correct >= 4 * wrong) and (predicted == true or wrong < 10):
            expected[predicted][predicted != true] += 1
    for k, (correct, wrong) in expected.items():
        assert reliability.counts(k) == (correct, wrong)
        assert reliability.is_ready(k) == (correct >= 20 and correct >= 4 * wrong)
    state = reliability.state()
    assert ClassReliability.from_state(state).state() == state
    assert reliability.remap_classes([2, None, 0]).counts(2) == reliability.counts(0)
    before.apply(reliability.diff(before), 1)
    assert before.state() == state
    for change in changes:
        reliability.apply(change, -1)
    assert reliability.state() == {"record": []}


def test_corrections_of_mistakes_do_not_make_a_ready_class_unready():
    reliability = ClassReliability()
    for _ in range(20):
        reliability.learn(0, 0)
    for _ in range(50):
        reliability.learn(0, 1)
    assert reliability.is_ready(0)
    for _ in range(50):
        reliability.learn(1, 0)
    for _ in range(40):
        reliability.learn(1, 1)
    assert reliability.is_ready(1)  # ten mistakes count


@pytest.mark.parametrize("state", [[0, 1], [0, 1, 0.5], [-1, 1, 0], [1 << 20, 1, 0], None, "abc"])
def test_invalid_counts_of_predictions_are_refused(state):
    with pytest.raises(ValueError, match=r"record: |finite numbers"):
        ClassReliability.from_state({"record": state})
