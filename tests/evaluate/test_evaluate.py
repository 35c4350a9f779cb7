import itertools
import math
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import evaluate, metrics, naive_bayes
from scipy.stats import binomtest, rankdata
from sklearn.metrics import (
    brier_score_loss,
    cohen_kappa_score,
    log_loss,
    precision_recall_fscore_support,
)

from streamnb import BernoulliNB, ComplementNB, MultinomialNB
from streamnb._core import ranking
from streamnb.evaluate import Example, RunningMetrics, Step, prequential
from streamnb.evaluate.feedback import (
    Active,
    Delayed,
    DelayedAtRandom,
    DelayedByTime,
    FeedbackPolicy,
    Margin,
    Noisy,
    OnError,
    Partial,
    PendingLabel,
    Recipients,
    release_labels,
)
from streamnb.evaluate.outcomes import (
    FIGURES,
    Outcomes,
    bootstrap_blocks,
    percentile_interval,
    resample,
    wilson_interval,
)
from streamnb.scores import log_odds, probabilities


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
        reference = evaluate.progressive_val_score(stream(labels), model(), metric.clone())
        actual = metric.clone()
        trained = model()
        for step in prequential((Example(x, y) for x, y in stream(labels)), trained):
            if step.predicted is None:
                continue
            if metric.requires_labels:
                actual.update(step.y, step.predicted)
            else:
                shares = probabilities(list(step.scores.values()))
                actual.update(step.y, dict(zip(step.scores, shares, strict=True)))
        if metric.requires_labels or model.__module__.startswith("streamnb"):
            assert actual.get() == reference.get()
        else:  # river normalises its own probabilities in another way
            assert actual.get() == pytest.approx(reference.get(), rel=1e-9)


def test_no_label_is_seen_before_its_time():
    """The model predicts each message before it learns the label."""
    calls = []

    class Recorder:
        def joint_log_likelihood(self, x):
            assert x not in calls
            return {"a": 0.0}

        def learn_one(self, x, y):
            calls.append(x)

    examples = [Example(n, "a", None, n % 3 != 0, n % 3 != 1) for n in range(9)]
    steps = list(prequential(iter(examples), Recorder()))
    assert len(steps) == 6
    assert calls == [0, 2, 3, 5, 6, 8]


scores = st.floats(-50, 50) | st.sampled_from([0.0, 1.0])
TWO_CLASS_FIGURES = [name for name, value in FIGURES.items() if not value.needs_class_numbers]


def ranked(ups, downs):
    """Outcomes of scores of positives and of negatives."""
    values = np.concatenate((np.array(ups, float), np.array(downs, float)))
    positive = np.arange(len(values)) < len(ups)
    return Outcomes((values > 0) == positive, values, positive, values > 0)


@given(st.lists(scores, min_size=1, max_size=30), st.lists(scores, min_size=1, max_size=30))
def test_roca_is_a_count_of_inversions(ups, downs):
    inversions = sum((d > u) + 0.5 * (d == u) for u in ups for d in downs)
    expected = 100 * inversions / (len(ups) * len(downs))
    assert ranked(ups, downs).figures()["one_minus_roca_percent"] == pytest.approx(
        expected, abs=1e-9
    )
    ranks = rankdata(np.array(ups + downs))[: len(ups)].sum()
    auc = (ranks - len(ups) * (len(ups) + 1) / 2) / (len(ups) * len(downs))
    assert 100 * (1 - auc) == pytest.approx(expected, abs=1e-9)


def test_sm_at_hm_is_the_share_missed_at_that_threshold():
    run = ranked([997.0, 998.0, 998.5, 1001.0], np.arange(1000.0))
    assert run.figures()["sm_at_hm_0_1_percent"] == 50  # 998 and below, with one false alarm
    assert run.figures()["sm_at_hm_0_5_percent"] == 0
    few = ranked([997.0, 998.0, 998.5, 1001.0], np.arange(999.0))
    assert few.figures()["sm_at_hm_0_1_percent"] == 50  # no false alarm is allowed; 998 is one


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 5)), min_size=2, max_size=40))
def test_figures_of_classes_are_those_of_a_replay_and_of_repeated_messages(rows):
    truth, predicted = (np.array(column) for column in zip(*rows, strict=True))
    parts = (truth == predicted, np.zeros(len(rows)), None, None, None, None)
    outcomes = Outcomes(*parts, truth, predicted)
    metrics = RunningMetrics()
    for y, label in rows:
        labels = "" if label < 0 else "012345"
        step = Step(str(y), str(label) if labels else None, dict.fromkeys(labels, 0.0), "m")
        metrics.record(step)
    summary, figures = metrics.summary(with_intervals=False), outcomes.figures()
    assert list(figures) == ["accuracy", "kappa", "macro_precision", "macro_recall", "macro_f1"]
    for name, value in figures.items():
        assert value == pytest.approx(getattr(summary, name), abs=1e-12)
    starts, ends = bootstrap_blocks(len(rows), 3)
    result = outcomes.resample_figures(starts, ends)
    for k in range(3):
        spans = [range(*span) for span in zip(starts[k], ends[k], strict=True)]
        selected = np.concatenate([np.array(span) for span in spans]) % len(rows)
        repeated = Outcomes(
            parts[0][selected], parts[1][selected],
            true_classes=truth[selected], predicted_classes=predicted[selected],
        )  # fmt: skip
        for name, value in repeated.figures().items():
            assert result[name][k] == pytest.approx(value, abs=1e-8)


@given(st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=30), st.integers(0, 9))
def test_figures_of_resamplings_are_those_of_repeated_messages(rows, seed):
    rows = [*rows, (0.5, True), (0.25, False)]
    values, positive = (np.array(column) for column in zip(*rows, strict=True))
    parts = ((values > 0) == positive, values, positive, values > 0, values**2, abs(values))
    run = Outcomes(*parts)
    assert run.figure_names == TWO_CLASS_FIGURES
    starts, ends = bootstrap_blocks(len(rows), 5, seed)
    result = run.resample_figures(starts, ends)
    assert list(result) == run.figure_names
    for k in range(5):
        spans = [range(*span) for span in zip(starts[k], ends[k], strict=True)]
        selected = np.concatenate([np.array(span) for span in spans]) % len(rows)
        repeated = Outcomes(*(part[selected] for part in parts))
        for name in run.figure_names:
            expected = repeated.figures().get(name, math.nan)
            assert result[name][k] == pytest.approx(expected, nan_ok=True, abs=1e-8)


@pytest.mark.parametrize(
    ("order", "starts", "ends"),
    [([0, 2], 0, 2), ([-1, 0], 0, 2), ([0, 1], 2, 3), ([0, 1], -1, 1), ([0, 1], 1, 5)],
)
def test_ranking_reads_nothing_beyond_the_run(order, starts, ends):
    marks = np.array([0, 1], np.uint8)
    with pytest.raises(ValueError, match=r"within the run|indices of the n messages"):
        ranking.rank_resampled(
            np.array(order), marks, marks, np.array([[starts]]), np.array([[ends]]), np.ones(1)
        )


@given(st.integers(1, 400), st.integers(0, 5))
def test_resamplings_take_as_many_messages_in_blocks(n, seed):
    starts, ends = bootstrap_blocks(n, 3, seed)
    assert starts.shape == ends.shape == (3, math.ceil(n / max(1, round(math.sqrt(n)))))
    assert ((ends - starts).sum(axis=1) == n).all()
    assert (starts >= 0).all()
    assert (starts < n).all()
    assert (ends >= starts).all()


# Other kernels of the linear algebra library, and other instructions of numpy's own loops.
OTHER_PROCESSORS = {"OPENBLAS_CORETYPE": "Prescott", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3"}


COMPARE = """
import json, sys, time
from streamnb.evaluate.compare import compare, read_run
run = read_run(sys.argv[1])
time.sleep(0.5)  # numpy's threads spin for a while after its import, before they sleep
wall, cpu = time.perf_counter(), time.process_time()
result = compare([run, run], 50).as_dict()
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps([result, repr(run.outcomes().figures())]), cpu / wall)
"""


def compare_on_processors(folder):
    """Return the figures of a run on two kinds of processors, and CPU time per wall time."""
    rng = np.random.default_rng(3)
    labels, predicted = (rng.choice(["ham", "spam"], 12000).tolist() for _ in range(2))
    scores = rng.normal(0, 3, 12000).tolist()
    rows = zip(labels, predicted, scores, strict=True)
    lines = [f"m{n} judge={y} class={p} score={s!r}\n" for n, (y, p, s) in enumerate(rows)]
    (folder / "results.txt").write_text("".join(lines))
    command = [sys.executable, "-P", "-c", COMPARE, str(folder)]
    for variables in ({}, OTHER_PROCESSORS):
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, check=True)
        text, _, ratio = done.stdout.decode().rpartition(" ")
        yield text, float(ratio)


def test_figures_are_the_same_on_other_processors(tmp_path):
    (first, _), (second, _) = compare_on_processors(tmp_path)
    assert first == second


@pytest.mark.performance
def test_figures_use_one_processor(tmp_path):
    assert min(ratio for _, ratio in compare_on_processors(tmp_path)) < 1.3


def test_intervals_cover_what_they_should():
    """About 95 % of the intervals of independent messages contain the true accuracy."""
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(60):
        right = rng.random(900) < 0.9
        low, high = percentile_interval(resample(Outcomes(right, np.zeros(900)), 200)["accuracy"])
        held += low <= 0.9 <= high
    assert 50 <= held <= 60


def test_intervals_know_that_neighbours_err_together():
    rng = np.random.default_rng(6)
    alone = rng.random(2500) < 0.9
    together = np.repeat(rng.random(50) < 0.9, 50)
    widths = []
    for right in (alone, together):
        low, high = percentile_interval(resample(Outcomes(right, np.zeros(2500)), 300)["accuracy"])
        widths.append(high - low)
    assert widths[1] > 4 * widths[0]


def test_paired_differences_leave_out_what_is_hard_for_both():
    rng = np.random.default_rng(7)
    hard = np.repeat(rng.random(50) < 0.2, 50)
    better = hard & (rng.random(2500) < 0.95)
    first, second = (Outcomes(~errors, np.zeros(2500)) for errors in (hard, better))
    drawn = [resample(run, 300)["accuracy"] for run in (first, second)]
    low, high = percentile_interval(drawn[0] - drawn[1])
    assert -0.03 < low < high <= 0
    assert percentile_interval(drawn[0] - drawn[0]) == (0, 0)


@given(st.integers(1, 500), st.data())
def test_wilson_interval_is_that_of_scipy(n, data):
    k = data.draw(st.integers(0, n))
    expected = binomtest(k, n).proportion_ci(method="wilson")
    assert wilson_interval(k, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def run(rows, **options):
    """Record (label, predicted, scores) rows."""
    tally = RunningMetrics(**options)
    supplied = [tally.record(Step(y, predicted, value, None)) for y, predicted, value in rows]
    return tally, supplied


def test_figures_agree_with_scikit_learn():
    rng = random.Random(2)
    labels = ["a", "b", "c"]
    rows = []
    for _ in range(300):
        value = {label: rng.uniform(-5, 0) for label in labels}
        rows.append((rng.choice(labels), max(value, key=value.get), value))
    tally, _ = run(rows)
    summary = tally.summary()
    truth, predicted = [row[0] for row in rows], [row[1] for row in rows]
    expected = precision_recall_fscore_support(truth, predicted, labels=labels)
    for k, label in enumerate(labels):
        actual = summary.classes[label]
        assert (actual.precision, actual.recall, actual.f1, actual.messages) == pytest.approx(
            tuple(column[k] for column in expected)
        )
    proba = [[math.exp(value[label]) for label in labels] for _, _, value in rows]
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
    # One half before two classes are known, and where all are impossible.
    assert summary.log_loss == pytest.approx((3 * math.log(2) - math.log(1e-15)) / 5)


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
    assert RunningMetrics().summary().as_dict()["accuracy"] is None
    summary = run([("ham", None, {}), ("ham", "ham", {"ham": -1.0})])[0].summary()
    assert summary.accuracy == 0.5
    assert summary.one_minus_roca_percent is None
    assert summary.confusion == {"ham": {"ham": 1, "?": 1}}


def test_a_class_can_have_the_name_none():
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


def test_figures_of_probabilities_equal_scikit_learns():
    rng = np.random.default_rng(8)
    odds = rng.normal(0, 3, 500)
    y = np.where(rng.random(500) < 1 / (1 + np.exp(-odds)), "spam", "ham")
    rows = [
        (str(label), "spam" if z > 0 else "ham", {"ham": 0.0, "spam": float(z)})
        for label, z in zip(y, odds, strict=True)
    ]
    summary = run(rows)[0].summary()
    p = 1 / (1 + np.exp(-odds))
    assert summary.brier == pytest.approx(brier_score_loss(y == "spam", p))
    assert summary.log_loss == pytest.approx(log_loss(y == "spam", p))
    assert sum(item.messages for item in summary.reliability) == 500
    error = sum(
        abs((p - (y == "spam"))[np.minimum((10 * p).astype(int), 9) == k].sum()) for k in range(10)
    )
    assert summary.expected_calibration_error == pytest.approx(error / 500)
    assert summary.kappa == pytest.approx(cohen_kappa_score(y, np.where(odds > 0, "spam", "ham")))
    assert set(summary.intervals) == set(TWO_CLASS_FIGURES)
    better = [name for name in summary.intervals if not FIGURES[name].lower_is_better]
    assert better == ["accuracy"]
    for name, (low, high) in summary.intervals.items():
        assert low <= getattr(summary, name) <= high


def test_labels_with_the_same_text_stay_apart():
    scores = {1: 0.0, "1": -1.0}
    summary = run([(1, 1, scores), ("1", 1, scores), (1, None, {})])[0].summary()
    assert summary.classes.keys() == {"1", '"1"'}
    assert summary.confusion == {"1": {"1": 1, "?": 1}, '"1"': {"1": 1}}
    assert (summary.macro_recall, summary.positive) == (0.25, '"1"')


def test_kappa_temporal_compares_with_the_label_before():
    labels = ["a", "a", "b", "b", "b", "a"]
    rows = [(y, "a", {"a": 0.0, "b": -1.0}) for y in labels]
    before = sum(item == two for item, two in itertools.pairwise(labels)) / 6
    summary = run(rows)[0].summary()
    assert summary.kappa_temporal == pytest.approx((3 / 6 - before) / (1 - before))
    constant = run([("a", "a", {"a": 0.0})] * 3)[0].summary()
    assert constant.kappa == 0


def pending_labels(n=1000, **options):
    rng = random.Random(3)
    for number in range(n):
        y = rng.choice(["ham", "spam"])
        z = rng.gauss(2 if y == "spam" else -2, 2)
        scores = {"ham": 0.0, "spam": z}
        yield PendingLabel(number, y, max(scores, key=scores.get), scores, number, **options)


def released(*regimes, stream=None):
    """For each message, the numbers and labels that are released after it."""
    return [
        [(label.position, label.y) for label in release_labels(regimes, item)]
        for item in stream or pending_labels()
    ]


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_delayed_labels(delay):
    out = released(Delayed(delay))
    assert [[number for number, _ in calls] for calls in out[:delay]] == [[]] * delay
    assert [calls[0][0] for calls in out[delay:]] == list(range(1000 - delay))


def test_one_wrong_date_brings_no_label_early():
    """Dates are what senders write: ten minutes apart, give or take, and some far in the future."""
    rng = random.Random(4)
    dates = [n * 600 + rng.gauss(0, 900) if n % 20 else 2e9 for n in range(1000)]
    stream = [PendingLabel(n, "x", position=n, date=date) for n, date in enumerate(dates)]
    for seconds in (0.0, 3600.0, 36000.0):
        waits = [
            now - number
            for now, value in enumerate(released(DelayedByTime(seconds), stream=stream))
            for number, _ in value
        ]
        assert len(waits) > 850
        assert min(waits) >= seconds / 600  # never early
        assert np.median(waits) < seconds / 600 + 60  # late by no more than the window
    dateless = [item._replace(date=None) for item in stream]
    assert released(DelayedByTime(0.0), stream=dateless) == [[]] * 1000


def test_streams_without_dates_give_a_warning():
    examples = [Example({"a": 1}, "x")] * 20
    with pytest.warns(UserWarning, match=r"learned no label: `feedback` needs Example\.date"):
        list(prequential(examples, MultinomialNB(), DelayedByTime(60.0)))
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for date in (moment, moment.isoformat()):
        dated = [example._replace(date=date) for example in examples]
        with pytest.raises(TypeError, match="date: expected seconds since 1970, not "):
            list(prequential(dated, MultinomialNB(), DelayedByTime(60.0)))


def test_a_delay_longer_than_a_dated_stream_gives_no_warning():
    examples = [Example({"a": 1}, "x", date=float(second)) for second in range(20)]
    list(prequential(examples, MultinomialNB(), DelayedByTime(60.0)))  # warnings are errors


def test_a_policy_of_your_own_can_have_any_fields():
    @dataclass
    class Budget(FeedbackPolicy):
        budget: float = 50.0

        def release(self, pending, latest):
            return pending

    assert len(list(prequential([Example({"a": 1}, "x")], MultinomialNB(), Budget()))) == 1


def test_a_single_policy_needs_no_list():
    examples = list(stream(["x", "y"], 40))
    alone = list(prequential(examples, MultinomialNB(), Partial(0.3)))
    assert alone == list(prequential(examples, MultinomialNB(), [Partial(0.3)]))


@pytest.mark.parametrize(
    ("policy", "values"),
    [
        (Partial, (10, -0.1, "0.1")),
        (Noisy, (1.5, {"spam": -1})),
        (Active, (2,)),
        (Delayed, (-5, 0.5)),
        (DelayedByTime, (-1.0, math.nan)),
        (DelayedAtRandom, (-1.0,)),
        (Margin, (-1.0,)),
    ],
)
def test_wrong_parameters_of_policies_raise(policy, values):
    for value in values:
        with pytest.raises(ValueError, match=r"^(share|messages|seconds|mean|budget|log_odds): "):
            policy(value)


def test_delayed_at_random_has_that_mean():
    waits = [
        now - number
        for now, calls in enumerate(released(DelayedAtRandom(5.0, seed=2)))
        for number, _ in calls
    ]
    assert 4 < np.mean(waits) < 6
    assert len(waits) > 950
    assert released(DelayedAtRandom(0.0)) == released()


def test_partial_and_noisy_labels():
    assert 250 < sum(map(len, released(Partial(0.3)))) < 350
    truth = [item.y for item in pending_labels()]
    for share, wrong in ((0.1, 100), ({"spam": 0.5}, 250), ({"none": 1.0}, 0)):
        heard = [calls[0][1] for calls in released(Noisy(share))]
        assert abs(sum(a != b for a, b in zip(heard, truth, strict=True)) - wrong) < 50
        if share == {"spam": 0.5}:
            assert all(b == "spam" for a, b in zip(heard, truth, strict=True) if a != b)
    assert (
        released(Noisy(0.1, seed=1)) == released(Noisy(0.1, seed=1)) != released(Noisy(0.1, seed=2))
    )


def test_recipients():
    target_ = [["ANN@a.org"], ["joann@a.org", "ann@b.org"], []]
    stream = [PendingLabel(n, "x", position=n, recipients=value) for n, value in enumerate(target_)]
    assert released(Recipients(["ann@a.org"]), stream=stream) == [[(0, "x")], [], []]
    assert released(Recipients(["@A.org"]), stream=stream) == [[(0, "x")], [(1, "x")], []]
    assert released(Recipients(["a.org", "ann"]), stream=stream) == [[], [], []]


def test_errors_and_near_errors():
    wrong = {item.position for item in pending_labels() if item.predicted != item.y}
    assert {number for calls in released(OnError()) for number, _ in calls} == wrong
    near = {number for calls in released(Margin(1.0)) for number, _ in calls}
    assert near == {
        item.position
        for item in pending_labels()
        if (item.scores["spam"] * (1 if item.y == "spam" else -1)) < 1
    }
    assert released(Margin(1.0), stream=[PendingLabel(0, "a", None, {})]) == [[(0, "a")]]


def test_asking_for_labels_keeps_to_the_budget_and_does_not_peek():
    requests = [calls[0][0] for calls in released(Active(0.2)) if calls]
    assert 150 < len(requests) <= 201
    sure = [abs(item.scores["spam"]) for item in pending_labels()]
    assert np.mean([sure[number] for number in requests]) < np.mean(sure) / 2
    hidden = [item._replace(y="?") for item in pending_labels()]
    assert [calls[0][0] for calls in released(Active(0.2), stream=hidden) if calls] == requests


def test_least_certain_of_many_classes_are_requested():
    """With equal scores of many classes, each class has odds far below 1, but none is certain."""
    equal = dict.fromkeys(range(20), 0.0)
    sure = equal | {0: 3.0}  # log-odds of .06
    scores = [sure if n % 2 else equal for n in range(200)]
    stream = [PendingLabel(n, 0, 0, item, n) for n, item in enumerate(scores)]
    requests = [calls[0][0] for calls in released(Active(0.2), stream=stream) if calls]
    assert 38 <= len(requests) <= 41
    assert {number % 2 for number in requests} == {0}


def test_policies_can_be_chained_and_dropped_labels_are_not_learned():
    out = released(OnError(), Delayed(10))
    wrong = [item.position for item in pending_labels() if item.predicted != item.y]
    assert [number for calls in out for number, _ in calls] == [n for n in wrong if n + 10 < 1000]
    assert release_labels([Delayed(0)], next(pending_labels()), learn=False) == []


def test_feedback_in_the_loop():
    heard = []

    class Recorder:
        def joint_log_likelihood(self, x):
            return {"a": 0.0, "b": 0.0}

        def learn_one(self, x, y):
            heard.append((x, y))

    examples = [Example(n, "a" if n % 2 else "b", classify=n != 2, learn=n != 4) for n in range(8)]
    steps = list(prequential(iter(examples), Recorder(), [Delayed(2)]))
    assert len(steps) == 7
    # 2 is learned at once, 4 never, and the others two classified messages later.
    assert heard == [(2, "b"), (0, "b"), (1, "a"), (3, "a"), (5, "a")]


def test_reliability_before_two_classes_are_known():
    rows = [("ham", "ham", {"ham": 0.0})] * 50
    rows += [
        ("spam", "spam", {"ham": -9.0, "spam": 0.0}),
        ("ham", "ham", {"ham": 0.0, "spam": -9.0}),
    ] * 50
    summary = run(rows)[0].summary()
    assert [(item.low, item.messages) for item in summary.reliability] == [
        (0.0, 50),
        (0.5, 50),
        (0.9, 50),
    ]
    assert summary.expected_calibration_error == pytest.approx(0.5 / 3, abs=1e-3)
    assert summary.brier == pytest.approx(0.25 / 3, abs=1e-3)


def test_reliability_when_a_third_class_comes_late():
    two = {"ham": 0.0, "spam": -9.0}
    rows = [("ham", "ham", two), ("spam", "spam", {"ham": -9.0, "spam": 0.0})] * 50
    rows += [("other", "ham", two), ("other", "other", {**two, "other": 9.0})]
    summary = run(rows)[0].summary()
    assert summary.one_minus_roca_percent is None
    assert summary.expected_calibration_error < 0.02
    assert [(item.low, item.messages) for item in summary.reliability] == [(0.9, 102)]


def test_figures_of_no_messages_have_no_outcomes():
    assert RunningMetrics().outcomes().correct.size == 0
