"""The scores of results.txt rank messages by the positive class, for any number of classes."""

import json
import math

import numpy as np
import pytest
from commands import streamnb_command
from scipy.stats import rankdata

from streamnb.evaluate.metrics import RunningMetrics
from streamnb.evaluate.prequential import Step
from streamnb.scores import probabilities


def log_odds_of(positive, scores):
    """Log-odds of a class against all others, by the definition."""
    p = dict(zip(scores, probabilities(list(scores.values())), strict=True))[positive]
    return math.log(p / (1 - p))


@pytest.mark.parametrize("classes", [2, 3, 4, 20])
@pytest.mark.parametrize(("positive", "name"), [("c1", "c1"), (None, "spam"), ("spam", "spam")])
def test_scores_are_of_the_positive_class_for_any_number_of_classes(positive, name, classes):
    """Classes arrive one after the other, so a run begins with fewer of them."""
    rng = np.random.default_rng(classes)
    labels = ["c0", name, *(f"d{k}" for k in range(classes - 2))]
    metrics = RunningMetrics(positive)
    for number in range(60):
        current = labels[: max(2, min(classes, number // 2))]
        scores = dict(zip(current, rng.normal(0, 3, len(current)).tolist(), strict=True))
        predicted = max(scores, key=scores.get)
        score = metrics.record(Step(current[number % len(current)], predicted, scores, str(number)))
        assert score == pytest.approx(log_odds_of(name, scores))


@pytest.mark.parametrize("place", range(5))
def test_spam_is_the_positive_class_wherever_it_is(place):
    labels = ["ham", "list", "news", "work"]
    labels.insert(place, "spam")
    scores = dict(zip(labels, [0.5, -1.0, 2.0, 0.0, 1.0], strict=True))
    metrics = RunningMetrics()
    for n_classes in range(2, 6):  # classes arrive one after the other
        score = metrics.record(Step("ham", labels[0], dict(list(scores.items())[:n_classes]), "1"))
    assert score == pytest.approx(log_odds_of("spam", scores))
    assert metrics.positive == "spam"


def test_no_score_is_given_before_the_positive_class_is_known():
    metrics = RunningMetrics("late")
    assert metrics.record(Step("a", "b", {"a": -3.0, "b": -1.0}, "1")) == 0.0
    assert metrics.record(Step("late", "b", {"a": 0.0, "b": 0.0, "late": 0.0}, "2")) == (
        pytest.approx(math.log(1 / 2))
    )


def test_a_replay_of_several_classes_ranks_the_positive_one(tmp_path):
    """The area under the curve, from results.txt alone, is that of a classifier that works."""
    rng = np.random.default_rng(1)
    names = ["ham", "spam", "list", "work"]
    lines = ["text,label"]
    for _ in range(200):
        k = int(rng.integers(4))
        words = " ".join(f"w{k}{rng.integers(9)}" for _ in range(4))
        lines.append(f"{words} w{rng.integers(4)}0,{names[k]}")
    (tmp_path / "mail.csv").write_text("\n".join(lines))
    for positive in ("spam", "work"):
        streamnb_command(
            "replay", tmp_path / "mail.csv", "--out", tmp_path / positive,
            "--set", f"evaluate.positive={positive}", "--no-intervals",
        )  # fmt: skip
        lines = (tmp_path / positive / "results.txt").read_text().splitlines()
        rows = [line.split()[1:] for line in lines]
        is_positive = np.array([judge == f"judge={positive}" for judge, _, _ in rows])
        ranks = rankdata([float(score.partition("=")[2]) for _, _, score in rows])
        n = is_positive.sum()
        auc = (ranks[is_positive].sum() - n * (n + 1) / 2) / (n * (len(rows) - n))
        assert auc > 0.95
        assert json.loads((tmp_path / positive / "summary.json").read_text())["positive"] == (
            positive
        )
