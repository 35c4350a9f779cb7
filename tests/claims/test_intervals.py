"""A run without errors, or without correct predictions, has an interval, too."""

import json

import pytest
from commands import streamnb_command

from streamnb.evaluate.metrics import RunningMetrics
from streamnb.evaluate.outcomes import wilson_interval
from streamnb.evaluate.prequential import Step


def recorded(n, labels, is_correct):
    """Return the summary of n predictions, all correct or all wrong."""
    metrics = RunningMetrics(labels[0])
    for number in range(n):
        y, other = labels[number % len(labels)], labels[(number + 1) % len(labels)]
        predicted = y if is_correct else other
        scores = {label: 3.0 * (label == predicted) for label in labels}
        metrics.record(Step(y, predicted, scores, str(number)))
    return metrics.summary()


@pytest.mark.parametrize("is_correct", [True, False])
@pytest.mark.parametrize("labels", [["spam", "ham"], ["a", "b", "c"], list("abcdefgh")])
@pytest.mark.parametrize("n", [10, 100, 1000])
def test_an_interval_of_a_proportion_always_has_a_width(n, labels, is_correct):
    summary = recorded(n, labels, is_correct)
    intervals = {"accuracy": (n, 1)}
    if len(labels) == 2:
        intervals |= {"hm_percent": (n // 2, 100), "sm_percent": (n // 2, 100)}
    for name, (cases, unit) in intervals.items():
        successes = cases if is_correct == (name == "accuracy") else 0
        low, high = wilson_interval(successes, cases)
        assert summary.intervals[name] == pytest.approx((unit * low, unit * high))
        assert summary.intervals[name][0] < summary.intervals[name][1]


def test_commands_print_the_interval_of_a_perfect_run(tmp_path):
    rows = [f"word{i % 2} more,{'ab'[i % 2]}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *rows]))
    streamnb_command("fit", tmp_path / "t.csv", "-o", tmp_path / "t.snb")
    arguments = "evaluate", tmp_path / "t.snb", tmp_path / "t.csv"
    figures = json.loads(streamnb_command(*arguments, "--json")[1])
    assert figures["accuracy"] == 1
    assert figures["intervals"]["accuracy"] == pytest.approx(wilson_interval(40, 40))
    assert "100.00 %  (95 %: 91.24 to 100.00)" in streamnb_command(*arguments)[1]
