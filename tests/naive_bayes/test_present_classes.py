"""Classes that are present."""

import random

from hypothesis import given
from hypothesis import strategies as st

from streamnb import TextClassifier
from streamnb.naive_bayes.present_classes import PresentClasses


def present_after(stream, class_index, n_classes=None):
    classes, active = PresentClasses(), list(range(n_classes or max(stream) + 1))
    for k in stream:
        classes.learn(k, active)
    return classes.present(class_index, active)


def test_all_classes_of_a_mixed_stream_are_present():
    stream = [k for k in range(5) for _ in range(100)]
    random.Random(1).shuffle(stream)
    assert all(present_after(stream, k) == [0, 1, 2, 3, 4] for k in range(5))


def test_a_rare_class_of_a_mixed_stream_is_present():
    stream = ([0] * 99 + [1]) * 20 + [0] * 99
    assert present_after(stream, 0) == [0, 1]


def test_only_the_class_of_a_folder_is_present():
    folders = [0] * 300 + [1] * 300 + [2] * 300
    assert present_after(folders, 2) == [2]
    assert present_after(folders[:301], 1) == [1]


def test_classes_that_end_are_absent_while_the_others_are_mixed():
    """The labels of rare classes can be the last ones, if each class gets as many labels."""
    stream = [0, 1, 2] * 50 + [1, 2] * 50
    assert present_after(stream, 1) == [1, 2]


def test_a_class_that_returns_is_present():
    stream = [0, 1] * 50 + [0] * 100
    assert present_after(stream, 0) == [0]
    assert present_after([*stream, 1], 0) == [0, 1]


def test_runs_of_up_to_a_tenth_of_all_messages_are_not_counted():
    classes = PresentClasses()
    for k in [0, 1] * 200:
        classes.learn(k, [0, 1])
    before = classes.messages_in_runs
    for _ in range(40):
        classes.learn(0, [0, 1])
    assert classes.present(0, [0, 1]) == [0]
    assert classes.messages_in_runs == before
    for _ in range(60):
        classes.learn(0, [0, 1])
    assert (
        classes.messages_in_runs - before == 55
    )  # the run is shorter than a tenth of 445 messages


def test_a_wrong_label_counts_little_in_a_short_run_too():
    """A mixed stream has runs by chance; there, the label noise was ignored."""
    rng = random.Random(3)
    words = {
        "ham": ["lunch", "meeting", "agenda", "notes", "team"],
        "spam": ["free", "offer", "pills", "win"],
    }

    def text(label):
        return " ".join(rng.choices(words[label], k=6)) + f" {rng.randrange(1000)}"

    classifier = TextClassifier()
    for _ in range(600):
        label = rng.choice(["ham", "spam"])
        wrong = rng.random() < 0.1
        classifier.learn_one(text(label), {"ham": "spam", "spam": "ham"}[label] if wrong else label)
    for _ in range(12):
        classifier.learn_one(text("ham"), "ham")
    assert sum(classifier.learn(text("spam"), "ham").view_weights) < 0.5


@given(st.lists(st.integers(0, 3), max_size=40), st.randoms(use_true_random=False))
def test_messages_are_undone_in_any_order(stream, order):
    classes = PresentClasses()
    for k in stream[:20]:
        classes.learn(k, list(range(4)))
    before = classes.state()
    learned = [classes.learn(k, list(range(4))) for k in stream[20:]]
    order.shuffle(learned)
    for deltas in learned:
        classes.check(deltas, 4)
        classes.apply(deltas, -1)
    assert classes.state() == before
