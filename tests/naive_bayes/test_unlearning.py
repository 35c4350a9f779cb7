"""Unlearning with receipts, windows and decay."""

import io
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import messages, streams

from streamnb import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
    TextClassifier,
    ViewsNB,
    WindowNB,
)
from streamnb.errors import OutputError

MODELS = [MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB]


@pytest.mark.parametrize("decay", [1.0, 0.9])
@pytest.mark.parametrize("model", MODELS)
@given(stream=streams, order=st.randoms(use_true_random=False))
def test_unlearning_with_receipts_leaves_nothing(model, decay, stream, order):
    trained = model(decay=decay)
    learned = []
    for x, y in stream:
        trained.learn_one(x, y)
        learned.append((x, y, 1.0, trained.receipt))
    order.shuffle(learned)
    for item in learned:
        trained.unlearn_one(*item)
    assert trained.counts.features == 0 or decay < 1
    assert sum(trained.counts.weights) == pytest.approx(0, abs=1e-6)
    assert sum(trained.counts.totals) == pytest.approx(0, abs=1e-6)


def test_unlearning_is_exact_to_the_last_bit():
    rng = np.random.default_rng(3)
    model = DiscriminativeMultinomialNB()
    copied = [
        ({f"w{i}": 1 for i in rng.integers(0, 50, 8)}, f"c{rng.integers(3)}") for _ in range(99)
    ]
    for x, y in copied:
        model.learn_one(x, y)
    before = model.counts.as_dict()
    receipts = []
    for x, y in copied[::-1]:
        model.learn_one(x, y)
        receipts.append((x, y, 1.0, model.receipt))
    for item in receipts[:50] + receipts[:49:-1]:
        model.unlearn_one(*item)
    assert model.counts.as_dict() == before


@pytest.mark.parametrize(
    "model", [DiscriminativeMultinomialNB(), MultinomialNB(decay=0.99), ViewsNB()], ids=str
)
def test_unlearning_without_a_receipt_is_refused(model):
    x = [{"a": 1}] if isinstance(model, ViewsNB) else {"a": 1}
    model.learn_one(x, "spam")
    with pytest.raises(ValueError, match="needs the receipt"):
        model.unlearn_one(x, "spam")
    model.unlearn_one(x, "spam", receipt=model.receipt)


@pytest.mark.parametrize("model", MODELS)
@given(stream=streams, size=st.integers(1, 10))
def test_a_window_has_only_the_last_messages(model, stream, size):
    windowed = WindowNB(model(), size)
    for x, y in stream:
        windowed.learn_one(x, y)
    assert sum(windowed.model.counts.weights) == min(size, len(stream))
    if model is DiscriminativeMultinomialNB:
        return  # its update depends on the earlier messages
    fresh = model()
    fresh.counts.add_classes(windowed.model.counts.labels)
    for x, y in stream[-size:]:
        fresh.learn_one(x, y)
    assert windowed.model.counts == fresh.counts
    assert windowed.joint_log_likelihood({"a": 1}) == fresh.joint_log_likelihood({"a": 1})


@pytest.mark.parametrize("model", MODELS[:3])
@given(stream=streams, x=messages)
def test_decay_is_learning_with_smaller_weights(model, stream, x):
    decaying, weighed = model(decay=0.8), model()
    for age, (message, y) in enumerate(reversed(stream)):
        weighed.learn_one(message, y, w=0.8**age * 0.8)
    for message, y in stream:
        decaying.learn_one(message, y)
    own, expected = decaying.joint_log_likelihood(x), weighed.joint_log_likelihood(x)
    assert own == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert decaying.predict_proba_one(x) == pytest.approx(weighed.predict_proba_one(x), abs=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_decay_forgets_without_end(model):
    """Weights grow without a bound, so the table is rescaled from time to time."""
    trained = model(decay=0.5)
    for i in range(300):
        trained.learn_one({f"old{i}": 1, "both": 1}, "spam" if i % 2 else "ham")
    assert trained.counts.decay_halvings > 0
    assert trained.counts.features < 80
    assert trained.counts.scale < 2**33
    # Each message has half the weight of the next one, so their sum is that of one message at half weight.
    weights = sum(trained.counts.weights) / trained.counts.scale
    assert weights == pytest.approx(1)
    if model is not DiscriminativeMultinomialNB:
        assert sum(trained.feature_counts("both").values()) == pytest.approx(1)
    restored = pickle.loads(pickle.dumps(trained))
    assert restored.joint_log_likelihood({"both": 1}) == trained.joint_log_likelihood({"both": 1})


@pytest.mark.parametrize("model", [BernoulliNB(decay=0.9, binarize=2.0), MultinomialNB(decay=0.9)])
def test_many_decaying_messages_are_one_after_the_other(model):
    X = np.random.default_rng(1).integers(0, 5, (20, 6))
    item, many = model.clone(), model.clone()
    many.learn_many(X, ["a", "b"] * 10)
    for row, y in zip(X.tolist(), ["a", "b"] * 10, strict=True):
        item.learn_one({column: value for column, value in enumerate(row) if value}, y)
    assert many.counts == item.counts
    assert many.counts.scale == item.counts.scale


@pytest.mark.parametrize("decay", [0.4, 1.1, "x", None, math.nan])
def test_bad_decay_is_refused(decay):
    with pytest.raises(ValueError, match=r"decay: .*is not a number from 0.5 to 1"):
        MultinomialNB(decay=decay)


def test_a_window_takes_the_last_message_back():
    windowed = WindowNB(MultinomialNB(), 3)
    for n in range(3):
        windowed.learn_one({f"w{n}": 1}, "a")
    before = windowed.model.counts.as_dict()
    assert windowed.labels == ["a"]
    windowed.size = 4
    windowed.learn_one({"new": 2}, "b")
    windowed.unlearn_one({"new": 2}, "b", receipt=windowed.receipt)
    windowed.learn_one({"new": 2}, "b")
    windowed.unlearn_one({"new": 2}, "b")
    assert windowed.model.counts.as_dict()["fingerprints"] == before["fingerprints"]
    with pytest.raises(ValueError, match="not in the window"):
        windowed.unlearn_one({"new": 2}, "b")
    with pytest.raises(OutputError, match="save the model inside"):
        windowed.save("nowhere")


def test_windows_take_any_weights():
    rng = np.random.default_rng(6)
    windowed = WindowNB(MultinomialNB(), 7)
    for _ in range(200):
        x = {f"w{i}": 1 for i in rng.integers(0, 5, 3)}
        windowed.learn_one(x, f"c{rng.integers(2)}", rng.choice([1 / 3, 2.5e-7, 1e6, 0.1]))
    for item in windowed._window:
        windowed.model.unlearn(*item)
    assert windowed.model.counts.features == 0


def test_a_receipt_that_is_a_list_is_refused():
    classifier = TextClassifier()
    receipt = classifier.learn("free offer", "spam")
    assert receipt == TextClassifier().learn("free offer", "spam")
    with pytest.raises(TypeError, match="receipt: expected a Receipt, not a list"):
        classifier.unlearn_one("free offer", "spam", receipt=receipt.to_json())
    restored = type(receipt).from_json(json.loads(json.dumps(receipt.to_json())))
    classifier.unlearn_one("free offer", "spam", receipt=restored)
    assert not any(classifier.messages().values())


def saved(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def make_views(systems, n_views, by_length=False):
    models = [DiscriminativeMultinomialNB() for _ in range(n_views)]
    return ViewsNB(models, systems=systems, by_length=by_length)


RECEIPT_MODELS = st.one_of(
    st.builds(make_views, st.sampled_from([1, 2, 4]), st.integers(1, 2), st.booleans()),
    st.sampled_from(MODELS).map(lambda model: model()),
)


def learned_rows(model, stream):
    return [(x, y, model.learn(x, y)) for x, y in stream]


@given(
    source=RECEIPT_MODELS, target=RECEIPT_MODELS, stream=streams, own_stream=streams
)  # fmt: skip
def test_a_receipt_of_another_model_is_undone_or_refused(source, target, stream, own_stream):
    learned_rows(target, own_stream)
    for x, y, receipt in learned_rows(source, stream)[-5:]:
        before, counts = saved(target), [model.counts.as_dict() for model in target.view_models]
        try:
            target.unlearn_one(x, y, receipt=receipt)
        except ValueError:
            assert saved(target) == before
        else:
            target.reapply(x, y, receipt)
            assert [model.counts.as_dict() for model in target.view_models] == counts
        before = saved(target)
        try:
            target.reapply(x, y, receipt)
        except ValueError:
            assert saved(target) == before
            continue
        target.unlearn(x, y, receipt)  # the class is declared, and can have intercepts of 0
        before = saved(target)
        target.reapply(x, y, receipt)
        target.unlearn(x, y, receipt)
        assert saved(target) == before


DAMAGES = [
    {"noise_evidence": (0.0,) * 200_000},
    {"noise_evidence": 5},
    {"pool": [0.0] * 1000},
    {"recalibration": 5},
    {"recalibration": [5]},
    {"lengths": [(2, 3, 4)]},
    {"noise": [9.0, 1.0, 1.0]},
    {"noise": [math.nan, 1.0, 1.0]},
    {"presence": [10**9, 1, 1, 1, 0]},
    {"counted": [2, 0, 1.0]},
    {"mistake_tests": [0, 0]},
    {"corrected": []},
    {"corrected": 2},
    {"corrections": math.inf},
    {"some": 1},
]
DAMAGED_RECEIPTS = [
    *(lambda r, damage=damage: r._replace(deltas={**r.deltas, **damage}) for damage in DAMAGES),
    lambda r: r._replace(deltas=None),
    lambda r: r._replace(view_weights=()),
    lambda r: r._replace(view_weights=(1.0,) * 99),
    lambda r: r._replace(view_weights=None),
    lambda r: r._replace(view_weights=("a",) * len(r.view_weights)),
    lambda r: r._replace(view_weights=(math.nan,) * len(r.view_weights)),
    lambda r: r._replace(class_weight=-1.0),
    lambda r: r._replace(class_weight=math.inf),
    lambda r: r._replace(class_weight=None),
]


@pytest.mark.parametrize("damage", DAMAGED_RECEIPTS)
@pytest.mark.parametrize(
    "make",
    [
        *MODELS,
        CategoricalNB,
        lambda: make_views(1, 1),
        lambda: make_views(4, 2, True),
        lambda: WindowNB(make_views(2, 1), size=30),
        lambda: WindowNB(CategoricalNB(), size=30),
        lambda: TextClassifier().model,
    ],
)
def test_a_damaged_receipt_changes_nothing(make, damage):
    model = make()
    x = {"a": 1, "b": 1}
    for i in range(20):
        model.learn({"a": 1, f"w{i % 3}": 1}, f"c{i % 2}")
    receipt = model.learn(x, "c1")
    damaged = damage(receipt)
    if damaged == receipt:  # models of tables have no views
        return
    before = pickle.dumps(model)
    for call in (model.unlearn, model.reapply):
        with pytest.raises(ValueError, match="receipt"):
            call(x, "c1", damaged)
    assert pickle.dumps(model) == before


@pytest.mark.parametrize("halvings", [-1, 64, 10**400, 0.5, None])
def test_a_receipt_of_a_later_decay_is_refused(halvings):
    model = MultinomialNB(decay=0.5)
    for _ in range(40):
        receipt = model.learn({"a": 1}, "x")
    before = saved(model)
    for call in (model.unlearn, model.reapply):
        with pytest.raises(ValueError, match="receipt"):
            call({"a": 1}, "x", receipt._replace(decay_halvings=halvings))
    assert saved(model) == before


def test_a_damaged_receipt_of_a_classifier_is_refused():
    classifier = TextClassifier()
    for i in range(40):
        receipt = classifier.learn(f"hello world w{i % 2}", f"c{i % 2}")
    before = saved(classifier)
    damaged = receipt._replace(deltas={**receipt.deltas, **DAMAGES[0]})
    with pytest.raises(ValueError, match="receipt"):
        classifier.unlearn_one("hello world w1", "c1", receipt=damaged)
    assert saved(classifier) == before


@pytest.mark.parametrize("make", [MultinomialNB, lambda: make_views(2, 1)])
@given(stream=streams, weight=st.integers(0, 5).map(float))
def test_relearning_takes_the_weight(make, stream, weight):
    first, second = make(), make()
    for x, y in stream:
        receipt = second.relearn_one(x, y, first.learn(x, y, weight), w=weight)
        assert receipt.class_weight == weight
    for model, relearned in zip(first.view_models, second.view_models, strict=True):
        assert model.counts.weights == relearned.counts.weights


@pytest.mark.parametrize("value", [2, [], "all"])
def test_relearning_with_other_feedback_changes_nothing(value):
    model = make_views(1, 1)
    receipt = model.learn({"a": 1}, "x")
    before = saved(model)
    with pytest.raises(ValueError, match="receipt"):
        model.relearn_one({"a": 1}, "x", receipt._replace(deltas={"corrected": value}))
    assert saved(model) == before
