"""Labels that contradict the predictions, but not at random."""

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import TextClassifier, _core
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.mistake_tests import MistakeTests

LABELS = ["blue", "green", "grey", "red"]
QUOTE = " ".join(f"quoted{i}" for i in range(200))
counts = st.dictionaries(st.text(max_size=3), st.integers(1, 3), max_size=4)
views = st.tuples(counts, counts).map(lambda pair: tuple(map(TokenCounts.from_dict, pair)))
proba = st.floats(0, 1)
updates = st.tuples(st.integers(0, 3), st.integers(0, 3), views, proba, st.floats(0, 0.49))


def stream(n, seed, own=0.7, n_words=6):
    """Return texts; a word is of the text's class with the probability `own`."""
    draw = random.Random(seed)
    messages = []
    for label in draw.choices(LABELS, k=n):
        classes = [label if draw.random() < own else draw.choice(LABELS) for _ in range(n_words)]
        messages.append((" ".join(f"{name}{draw.randrange(20)}" for name in classes), label))
    return messages


def accuracy(model, messages):
    """Return the share of correct predictions, each before its message is learned."""
    correct = 0
    for text, label in messages:
        correct += model.predict_one(text) == label
        model.learn_one(text, label)
    return correct / len(messages)


def trained(n, own=0.7):
    model = TextClassifier()
    accuracy(model, stream(n, seed=1, own=own))
    return model


def test_exchanged_labels_are_learned():
    model = trained(1500, own=1)
    exchanged = {"red": "green", "green": "red"}
    messages = stream(400, seed=2, own=1)
    messages = [(text, exchanged.get(label, label)) for text, label in messages]
    assert accuracy(model, messages[:200]) > 0.6
    assert accuracy(model, messages[200:]) > 0.95


def test_texts_of_all_classes_with_the_same_quote_are_learned():
    model = trained(1000)
    draw = random.Random(4)
    messages = [
        (f"{text} {QUOTE}" if draw.random() < 0.5 else text, label)
        for text, label in stream(600, seed=5)
    ]
    assert accuracy(model, messages[:300]) > 0.7
    assert accuracy(model, messages[300:]) > 0.9


def test_messages_in_another_language_are_learned():
    model = TextClassifier()
    accuracy(model, stream(400, seed=1, own=0.5, n_words=40))
    messages = [(text[::-1], label) for text, label in stream(150, seed=2, own=0.5, n_words=40)]
    accuracy(model, messages[:50])
    assert accuracy(model, messages[50:]) > 0.8


def test_random_labels_are_not_believed():
    model = trained(400)
    draw = random.Random(6)
    for text, label in stream(600, seed=7):
        model.learn_one(text, draw.choice(LABELS) if draw.random() < 0.3 else label)
    tests = model.model.calibration.mistake_tests
    assert max((max(sums.values()) for sums in tests._sums.values()), default=0) < tests._FIRST
    assert accuracy(model, stream(200, seed=8)) > 0.9


def test_a_sum_needs_more_than_ten_mistakes():
    tests = MistakeTests()
    for n_mistakes in (10, 3):
        assert tests.noise_weight(0, 1, ()) > 0.98
        for step in n_mistakes * ([(0, 1)] + 3 * [(2, 2)]):
            tests.learn(*step, (), 1.0, 0.0, 1)
    assert tests.noise_weight(0, 1, ()) < 0.02
    assert tests.noise_weight(0, 2, ()) == tests.noise_weight(1, 2, ()) == 1


def test_a_sum_of_all_messages_needs_more_than_ten_mistakes():
    tests = MistakeTests()
    for label in range(2, 12):
        tests.learn(0, label, (), 1.0, 0.0, 1)
    assert tests.noise_weight(1, 0, ()) > 0.98
    for label in range(2, 5):
        tests.learn(1, label, (), 1.0, 0.0, 1)
    assert tests.noise_weight(1, 0, ()) < 0.02


def test_correct_predictions_reset_the_sums():
    message = (TokenCounts.from_dict({"a": 1, "b": 1}), TokenCounts.from_dict({}))
    tests = MistakeTests()
    for _ in range(13):
        tests.learn(0, 1, message, 1.0, 0.0, 1)
    for _ in range(40):
        tests.learn(0, 0, message, 1.0, 0.0, 1)
    assert tests.state() == MistakeTests().state()


@given(counts, counts)
def test_groups_are_the_smallest_fingerprints_modulo_their_number(first, second):
    message = (TokenCounts.from_dict(first), TokenCounts.from_dict(second))
    fingerprints = [list(map(int, view.fingerprints)) for view in message]
    groups = [(-1 - i, min(view) % 32) for i, view in enumerate(fingerprints) if view]
    assert _core.message_groups(message, 32) == groups


@given(st.lists(updates, max_size=30), st.randoms(use_true_random=False))
def test_updates_are_undone_exactly_in_any_order(steps, draw):
    tests = MistakeTests()
    deltas = [tests.learn(*step, 3) for step in steps]
    state = json.loads(json.dumps(tests.state()))
    assert MistakeTests.from_state(state).state() == state
    draw.shuffle(deltas)
    for change in deltas:
        tests.check(change, 4)
        tests.apply(change, -1)
    assert tests.state() == MistakeTests().state()


@given(st.lists(updates, max_size=30), st.permutations(range(4)))
def test_classes_can_change_their_order(steps, order):
    tests = MistakeTests()
    other_order = MistakeTests()
    for predicted, label, message, weight, rate in steps:
        tests.learn(predicted, label, message, weight, rate, 3)
        other_order.learn(order.index(predicted), order.index(label), message, weight, rate, 3)
    assert tests.remap_classes(order).state() == other_order.state()


@given(st.lists(updates, max_size=20), st.lists(updates, max_size=20))
def test_a_difference_leads_from_one_state_to_the_next(first, second):
    tests = MistakeTests()
    for step in first:
        tests.learn(*step, 3)
    before = copy.deepcopy(tests)
    for step in second:
        tests.learn(*step, 3)
    before.apply(tests.diff(before), 1)
    assert before.state() == tests.state()


@pytest.mark.parametrize(
    "changes",
    [[0, 1], [0, 9, 1.0], [9, 0, 1.0], [-1, 32, 1.0], [-5000, 0, 1.0], [0.5, 0, 1.0], ["a", 0, 1]],
)
def test_damaged_sums_are_refused(changes):
    with pytest.raises(ValueError, match=r"sums|numbers"):
        MistakeTests().check({"mistake_tests": changes}, 4)
