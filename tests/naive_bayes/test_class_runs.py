"""Runs of one class."""

from streamnb.naive_bayes.class_runs import ClassRuns


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
