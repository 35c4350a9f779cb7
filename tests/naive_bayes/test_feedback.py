"""Learning with the feedback that the caller knows: all labels, or those of mistakes alone."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import DiscriminativeMultinomialNB, MultinomialNB, TextClassifier, ViewsNB, WindowNB
from streamnb.naive_bayes.class_runs import ClassRuns
from streamnb.naive_bayes.receipt import Receipt

WORDS = {"spam": ["pills", "free", "offer", "now"], "ham": ["lunch", "noon", "train", "now"]}
FEEDBACK = [None, "all", "errors"]
messages = st.tuples(
    st.sampled_from(sorted(WORDS)), st.sampled_from(sorted(WORDS)), st.sampled_from(FEEDBACK)
)
streams = st.lists(messages, min_size=4, max_size=30)


def new_model(systems=2):
    models = [DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB(alpha=0.1)]
    return ViewsNB(models, by_length=True, bound=8.0, systems=systems)


def learn(model, stream):
    receipts = []
    for words_of, label, feedback in stream:
        message = (dict.fromkeys(WORDS[words_of], 1), {words_of: 1})
        model.learn_one(message, label, feedback=feedback)
        receipts.append((message, label, model.receipt))
    return receipts


def trained(n=20):
    """A model that is right, as after ten consecutive mistakes."""
    model = new_model()
    learn(model, [(k, k, None) for k in sorted(WORDS)] * n)
    model.feedback.mistakes = 10.0
    return model


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_only_labels_of_all_messages_estimate_noise_and_weigh_systems(feedback):
    model = trained()
    assert model.predict_one(({"pills": 1}, {"spam": 1})) == "spam"
    before = copy.deepcopy(model)
    ((_, _, receipt),) = learn(model, [("spam", "ham", feedback)])
    assert ("noise" in receipt.deltas) == (feedback == "all")
    assert ("pool" in receipt.deltas) == (feedback == "all")
    assert (model.noise.state() != before.noise.state()) == (feedback == "all")


def test_known_feedback_is_not_inferred():
    model = trained()
    before = model.feedback.state()
    learn(model, [("spam", "ham", "all"), ("spam", "spam", "errors")] * 3)
    assert model.feedback.state() == before


@given(stream=streams, order=st.randoms(use_true_random=False))
def test_learning_with_any_feedback_is_undone_exactly(stream, order):
    model = new_model()
    learn(model, [("ham", k, None) for k in [*WORDS, *WORDS]])  # has intercepts of both classes
    before = {name: each.state() for name, each in model._estimators.items()}
    receipts = learn(model, stream)
    order.shuffle(receipts)
    for message, label, receipt in receipts:
        loaded = Receipt.from_text(json.dumps(receipt.to_json()))
        model.check_receipt(loaded, 2)
        model.unlearn(message, label, loaded)
    states = {name: each.state() for name, each in model._estimators.items()}
    assert states == before


@given(stream=streams)
def test_relearning_keeps_the_feedback(stream):
    model, relearning = new_model(), new_model()
    for message, label, receipt in learn(model, stream):
        relearned = relearning.relearn_one(message, label, receipt)
        assert relearned.deltas.get("corrected") == receipt.deltas.get("corrected")


@pytest.mark.parametrize("make", [MultinomialNB, lambda: WindowNB(ViewsNB(), size=3), ViewsNB])
def test_another_word_is_refused_and_nothing_is_learned(make):
    model = make()
    with pytest.raises(ValueError, match="feedback: 'some' is not 'all', 'errors' or None"):
        model.learn_one({"a": 1}, "x", feedback="some")
    assert not model.labels
    model.learn_one({"a": 1}, "x", feedback="all")
    assert model.labels == ["x"]


def test_a_classifier_passes_the_feedback_on():
    classifier = TextClassifier()
    for label in ("spam", "ham") * 3:
        classifier.learn_one(" ".join(WORDS[label]), label, feedback="all")
    assert classifier.receipt.deltas["corrected"] == 0


def test_a_receipt_with_other_feedback_is_refused():
    model = trained()
    ((_, _, receipt),) = learn(model, [("spam", "ham", "all")])
    with pytest.raises(ValueError, match="another kind of model"):
        model.check_receipt(receipt._replace(deltas={**receipt.deltas, "corrected": 2}), 2)


@pytest.mark.parametrize("systems", [1, 2, 4])
def test_a_receipt_of_another_number_of_systems_is_refused(systems):
    model, other = new_model(3), new_model(systems)
    for _, _, receipt in learn(other, [("spam", "spam", None), ("ham", "ham", None)] * 3):
        other.check_receipt(receipt, 2)
        if "recalibration" in receipt.deltas:
            with pytest.raises(ValueError, match="another number of systems"):
                model.check_receipt(receipt, 2)
    assert "recalibration" in receipt.deltas


def test_a_mean_length_of_runs_below_zero_returns_to_zero():
    runs = ClassRuns()
    runs.learn(0, [0], 0)
    stream = [1] + [0] * 20 + [1]
    receipts = [runs.learn(k, [0, 1], n) for n, k in enumerate(stream, 1)]
    for n in range(10):
        runs.learn(1, [0, 1], 23 + n)
    for receipt in receipts:
        runs.apply(receipt, -1)
    assert runs.runs[0][1] < 0
    for n in range(200):
        receipt = runs.learn(1, [0, 1], 11 + n)
    assert 0 not in runs.runs
    assert 0 not in receipt["runs"][::3]
