import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, metrics, naive_bayes
from scipy.stats import binomtest, rankdata
from sklearn.metrics import log_loss, precision_recall_fscore_support

from streamnb import BernoulliNB, ComplementNB, MultinomialNB
from streamnb.evaluate import Example, Step, Tally, prequential
from streamnb.evaluate.metrics import one_minus_roca, sm_at_hm, wilson
from streamnb.evaluate.prequential import log_odds
from streamnb.naive_bayes.scores import probabilities


def stream(labels, n=400):
    rng = random.Random(5)
    for _ in range(n):
        k = rng.randrange(len(labels))
        words = [rng.choice("abcdefgh"[k : k + 5]) for _ in range(rng.randrange(6))]
        yield {word: words.count(word) for word in words}, labels[k]


MODELS = [MultinomialNB, BernoulliNB, ComplementNB, naive_bayes.MultinomialNB]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.__module__}.{model.__name__}")
@pytest.mark.parametrize("labels", [[False, True], ["x", "y", "z"]], ids=["bool", "str"])
def test_river_agrees_to_the_last_digit(model, labels):
    for metric in (metrics.Accuracy(), metrics.MacroF1(), metrics.LogLoss(), metrics.ROCAUC()):
        if len(labels) > 2 and not metric.works_with(model()):
            continue
        if labels != [False, True] and isinstance(metric, (metrics.LogLoss, metrics.ROCAUC)):
            continue
        theirs = evaluate.progressive_val_score(stream(labels), model(), metric.clone())
        mine = metric.clone()
        trained = model()
        for step in prequential((Example(x, y) for x, y in stream(labels)), trained):
            if step.predicted is None:
                continue
            if metric.requires_labels:
                mine.update(step.y, step.predicted)
            else:
                shares = probabilities(list(step.scores.values()))
                mine.update(step.y, dict(zip(step.scores, shares, strict=True)))
        if metric.requires_labels or model.__module__.startswith("streamnb"):
            assert mine.get() == theirs.get()
        else:  # river normalises its own probabilities in another way
            assert mine.get() == pytest.approx(theirs.get(), rel=1e-9)


def test_no_label_is_seen_before_its_time():
    """The model is asked about every message before it is told."""
    told = []

    class Recorder:
        def joint_log_likelihood(self, x):
            assert x not in told
            return {"a": 0.0}

        def learn_one(self, x, y):
            told.append(x)

    examples = [Example(n, "a", None, n % 3 != 0, n % 3 != 1) for n in range(9)]
    steps = list(prequential(iter(examples), Recorder()))
    assert len(steps) == 6
    assert told == [0, 2, 3, 5, 6, 8]


scores = st.floats(-50, 50) | st.sampled_from([0.0, 1.0])


@given(st.lists(scores, min_size=1, max_size=30), st.lists(scores, min_size=1, max_size=30))
def test_roca_is_a_count_of_inversions(ups, downs):
    inversions = sum((d > u) + 0.5 * (d == u) for u in ups for d in downs)
    expected = 100 * inversions / (len(ups) * len(downs))
    assert one_minus_roca(np.array(ups), np.array(downs)) == pytest.approx(expected, abs=1e-9)
    ranks = rankdata(np.array(ups + downs))[: len(ups)].sum()
    auc = (ranks - len(ups) * (len(ups) + 1) / 2) / (len(ups) * len(downs))
    assert 100 * (1 - auc) == pytest.approx(expected, abs=1e-9)


def test_sm_at_hm_is_the_share_missed_at_that_threshold():
    negatives = np.arange(1000.0)
    positives = np.array([997.0, 998.0, 998.5, 1001.0])
    assert sm_at_hm(positives, negatives, 0.001) == 50  # 998 and below, with one false alarm
    assert sm_at_hm(positives, negatives, 0.0) == 75


@given(st.integers(1, 500), st.data())
def test_wilson_interval_is_that_of_scipy(n, data):
    k = data.draw(st.integers(0, n))
    expected = binomtest(k, n).proportion_ci(method="wilson")
    assert wilson(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def run(rows, **options):
    """Record (label, predicted, scores) rows."""
    tally = Tally(**options)
    given = [tally.record(Step(y, predicted, of, None)) for y, predicted, of in rows]
    return tally, given


def test_figures_agree_with_scikit_learn():
    rng = random.Random(2)
    labels = ["a", "b", "c"]
    rows = []
    for _ in range(300):
        of = {label: rng.uniform(-5, 0) for label in labels}
        rows.append((rng.choice(labels), max(of, key=of.get), of))
    tally, _ = run(rows)
    summary = tally.summary()
    truth, predicted = [row[0] for row in rows], [row[1] for row in rows]
    expected = precision_recall_fscore_support(truth, predicted, labels=labels)
    for k, label in enumerate(labels):
        mine = summary.classes[label]
        assert (mine.precision, mine.recall, mine.f1, mine.messages) == pytest.approx(
            tuple(column[k] for column in expected)
        )
    proba = [[math.exp(of[label]) for label in labels] for _, _, of in rows]
    proba = [[p / sum(row) for p in row] for row in proba]
    assert summary.log_loss == pytest.approx(log_loss(truth, proba, labels=labels))
    assert summary.one_minus_roca_percent is None
    assert summary.accuracy == tally.accuracy == np.mean(np.array(truth) == np.array(predicted))


def test_which_class_scores_are_for():
    two = {"ham": -1.0, "spam": -3.0}
    assert run([("ham", "ham", two)])[1] == [-2.0]
    assert run([("ham", "ham", two)], positive="ham")[1] == [2.0]
    assert run([("x", "x", {"x": -1.0, "y": -3.0})])[1] == [-2.0]  # the second class to come
    assert run([("ham", "ham", {"ham": -1.0}), ("ham", None, {})])[1] == [0.0, 0.0]
    three = {"a": math.log(0.5), "b": math.log(0.3), "c": math.log(0.2)}
    assert run([("a", "a", three)])[1] == [pytest.approx(0.0, abs=1e-12)]
    assert run([("ham", "ham", {"ham": -math.inf, "spam": -math.inf})])[1] == [0.0]
    assert log_odds({"a": 0.0, "b": -math.inf, "c": -math.inf}, "a") == math.inf


def test_log_loss_is_bounded_and_never_nan():
    rows = [("x", None, {}), ("x", "y", {"y": 0.0}), ("x", "y", {"x": -math.inf, "y": 0.0}),
            ("x", "x", {"x": -math.inf, "y": -math.inf}), ("x", "x", {"x": -1e5, "y": -2e5})]  # fmt: skip
    summary = run(rows)[0].summary()
    assert summary.log_loss == pytest.approx((3 * -math.log(1e-15) + math.log(2)) / 5)


def test_windows_and_fading():
    outcomes = [True, False, True, True, False, True, True, True]
    tally, _ = run(
        [("x", "x" if right else "y", {"x": 0.0}) for right in outcomes], window=3, fading=0.5
    )
    assert tally.accuracy == 6 / 8
    assert tally.window_accuracy == 1
    correct = messages = 0.0
    for right in outcomes:
        correct, messages = right + 0.5 * correct, 1 + 0.5 * messages
    assert tally.fading_accuracy == correct / messages
    assert tally.checkpoint()["messages"] == 8


def test_a_run_of_nothing_or_of_one_class_has_figures():
    assert Tally().summary().as_dict()["accuracy"] is None
    summary = run([("ham", None, {}), ("ham", "ham", {"ham": -1.0})])[0].summary()
    assert summary.accuracy == 0.5
    assert summary.one_minus_roca_percent is None
    assert summary.confusion == {"ham": {"ham": 1, "?": 1}}


def test_a_class_called_none_is_a_class():
    rows = [
        ("None", None, {}),
        ("x", "None", {"None": 0.0}),
        ("None", "x", {"None": -1.0, "x": 0.0}),
    ]
    summary = run(rows)[0].summary()
    assert summary.confusion == {"None": {"?": 1, "x": 1}, "x": {"None": 1}}
    assert summary.accuracy == 0


def test_scores_of_three_classes_are_not_ranked_as_if_of_two():
    rows = [("a", "a", {"a": -1.0, "b": -2.0}), ("b", "b", {"a": -2.0, "b": -1.0, "c": -3.0})]
    assert run(rows)[0].summary().one_minus_roca_percent is None
