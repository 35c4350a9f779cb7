"""Learning with the feedback that the caller knows: all labels, or those of mistakes alone."""

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import (
    DiscriminativeMultinomialNB,
    MailClassifier,
    MultinomialNB,
    TextClassifier,
    ViewsNB,
    WindowNB,
)
from streamnb.corpus import open_corpus, read
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
    model.calibration.feedback.mistakes = 10.0
    return model


@pytest.mark.parametrize("feedback", FEEDBACK)
def test_only_labels_of_all_messages_estimate_noise_and_weigh_systems(feedback):
    model = trained()
    assert model.predict_one(({"pills": 1}, {"spam": 1})) == "spam"
    before = copy.deepcopy(model)
    ((_, _, receipt),) = learn(model, [("spam", "ham", feedback)])
    assert ("noise" in receipt.deltas) == (feedback == "all")
    assert ("pool" in receipt.deltas) == (feedback == "all")
    assert (model.calibration.noise.state() != before.calibration.noise.state()) == (
        feedback == "all"
    )


def test_known_feedback_is_not_inferred():
    model = trained()
    before = model.calibration.feedback.state()
    learn(model, [("spam", "ham", "all"), ("spam", "spam", "errors")] * 3)
    assert model.calibration.feedback.state() == before


@given(stream=streams)
def test_corrections_of_two_classes_move_no_slope(stream):
    """Given that the pool's prediction is wrong, the other class is certain for every system."""
    model = new_model()
    model.calibration.present_classes.present = lambda _, active: active  # no runs
    learn(model, [("ham", k, None) for k in [*WORDS, *WORDS]])
    for words_of, label, _ in stream:
        message = (dict.fromkeys(WORDS[words_of], 1), {words_of: 1})
        is_correct = model.predict_one(message) == label
        before = [system.slopes() for system in model.calibration.recalibration.systems]
        model.learn_one(message, label, feedback="errors")
        if not is_correct:
            assert [system.slopes() for system in model.calibration.recalibration.systems] == before


@given(stream=streams, order=st.randoms(use_true_random=False))
def test_learning_with_any_feedback_is_undone_exactly(stream, order):
    model = new_model()
    learn(model, [("ham", k, None) for k in [*WORDS, *WORDS]])  # has intercepts of both classes
    before = {name: each.state() for name, each in model.calibration.estimators.items()}
    receipts = learn(model, stream)
    order.shuffle(receipts)
    for message, label, receipt in receipts:
        loaded = Receipt.from_text(json.dumps(receipt.to_json()))
        model.check_receipt(loaded, 2)
        model.unlearn(message, label, loaded)
    states = {name: each.state() for name, each in model.calibration.estimators.items()}
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


def easy_text(draw, label):
    """Twenty words of the class, and ten words that have no class."""
    words = [f"{label}{draw.randrange(30)}" for _ in range(20)]
    return " ".join([*words, *(f"word{draw.randrange(300)}" for _ in range(10))])


@pytest.mark.parametrize(
    ("label_noise", "feedback", "wrong_labels"),
    [(None, None, 10), (0.0, "errors", 3), (0.0, None, 1)],
)
@pytest.mark.parametrize("label", sorted(WORDS))
def test_a_few_wrong_labels_in_a_row_change_few_predictions(
    label, label_noise, feedback, wrong_labels
):
    draw = random.Random(label)
    classifier = TextClassifier(label_noise=label_noise)
    for _ in range(600):
        true = draw.choice(sorted(WORDS))
        classifier.learn_one(easy_text(draw, true), true)
    (wrong,) = WORDS.keys() - {label}
    for _ in range(wrong_labels):
        classifier.learn_one(easy_text(draw, label), wrong, feedback=feedback)
    predicted = [classifier.predict_one(easy_text(draw, label)) for _ in range(50)]
    assert predicted.count(label) >= 48


def test_a_change_of_mind_is_believed_in_the_end():
    draw = random.Random(0)
    classifier = TextClassifier()
    for _ in range(300):
        true = draw.choice(sorted(WORDS))
        classifier.learn_one(easy_text(draw, true), true)
    for _ in range(40):
        classifier.learn_one(easy_text(draw, "ham"), "spam")
    assert classifier.predict_one(easy_text(draw, "ham")) == "spam"


def test_a_state_of_another_number_of_views_is_refused():
    with pytest.raises(ValueError, match="another number of views"):
        new_model().restore({**trained().state(), "counted": [3]})


@pytest.mark.parametrize(
    "counted", [[], [2, 0], [2, 0, 1, 1, 1], [3, 0, 1, 1, 1], [2, 2, 1, 1], [2, 0.5, 1, 1], "x"]
)
def test_a_receipt_with_bad_sums_of_update_weights_is_refused(counted):
    model = trained()
    ((_, _, receipt),) = learn(model, [("spam", "ham", None)])
    with pytest.raises(ValueError, match=r"counted: |finite numbers"):
        model.check_receipt(receipt._replace(deltas={**receipt.deltas, "counted": counted}), 2)


def test_a_merged_model_has_the_sums_of_both():
    first, second = trained(), trained(10)
    sums = [model.calibration.counted.state()["counted"] for model in (first, second)]
    first.merge(second)
    expected = [sum(pair) for pair in zip(*sums, strict=True)]
    # The number of views and the class indices are not added.
    assert first.calibration.counted.state()["counted"][2:4] == expected[2:4]


@pytest.mark.parametrize("weight", [1e16, 1e100])
def test_sums_of_huge_update_weights_are_exact_and_can_be_loaded(tmp_path, weight):
    model = trained(1)
    message = ({"pills": 1}, {"spam": 1})
    before = model.calibration.counted.state()
    receipt = model.learn(message, "ham", weight)
    model.save(tmp_path / "m")
    assert (
        ViewsNB.load(tmp_path / "m").calibration.counted.state()
        == model.calibration.counted.state()
        != before
    )
    model.check_receipt(receipt, 2)
    model.unlearn(message, "ham", receipt)
    assert model.calibration.counted.state() == before


def test_update_weights_leave_their_sums_with_the_window():
    window = WindowNB(new_model(), size=5)
    receipts = [receipt for _, _, receipt in learn(window, [(k, k, None) for k in WORDS] * 20)]
    sums = dict.fromkeys(range(2), (0.0, 0.0))
    for receipt in receipts[-5:]:
        _, k, *weights = receipt.deltas["counted"]
        sums[k] = tuple(a + b for a, b in zip(sums[k], weights, strict=True))
    expected = [2, 0, *sums[0], 1, *sums[1]]
    assert window.model.calibration.counted.state()["counted"] == expected


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("label_noise", "feedback", "wrong_labels"),
    [(None, None, 10), (0.0, None, 3), (0, "errors", 3)],
)
@pytest.mark.parametrize("label", ["ham", "spam"])
def test_a_few_wrong_labels_in_a_row_change_few_predictions_of_mail(
    corpora, label, label_noise, feedback, wrong_labels
):
    messages = [(read(entry), entry.label) for entry in open_corpus(corpora / "csdmc2010")]
    random.Random(0).shuffle(messages)
    held_back, learned, others = messages[:300], messages[300:1300], messages[1300:]
    classifier = MailClassifier(label_noise=label_noise)
    for message, true in learned:
        classifier.learn_one(message, true)
    (wrong,) = {"ham", "spam"} - {label}
    for message in [message for message, true in others if true == label][:wrong_labels]:
        classifier.learn_one(message, wrong, feedback=feedback)
    assert sum(classifier.predict_one(message) != true for message, true in held_back) <= 6
