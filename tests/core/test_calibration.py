"""The compiled calibration refuses arrays of other sizes, which it would read beyond their ends."""

from array import array

import pytest

from streamnb import _core
from streamnb.naive_bayes.recalibration import CalibrationWeights, LabelStep, Recalibration

WEIGHTS = CalibrationWeights.constant(2, 0.5)
EVIDENCE = [[1.0, 0.0], [2.0, 0.0]]


def predict(views=2, active=(0, 1), log_weights=(0.0,), width=2, bound=None):
    by_view = [array("d", [1.0] * width)] * views
    return _core.predict_systems(
        [Recalibration(2)], [*log_weights], by_view, [*active], None, bound
    )


def learn(log_likelihoods=4, scores=2, active=(0, 1), rates=2, classes=(0, 1)):
    return _core.learn_systems(
        [Recalibration(2)], array("d", [1.0] * log_likelihoods), array("d", [1.0] * scores),
        [*active], [0.1] * rates, 1.0, LabelStep(0, [*classes]), 0.0,
    )  # fmt: skip


def test_arrays_of_the_right_size_are_accepted():
    assert len(predict()[0]) == 4
    assert len(learn()[2]) == 1
    assert _core.combine_scores(WEIGHTS, None, EVIDENCE, [0, 1]) == [1.5, 0.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: predict(views=3),
        lambda: predict(active=(0, 2)),
        lambda: predict(active=(-1, 0)),
        lambda: predict(log_weights=(0.0, 0.0)),
        lambda: learn(log_likelihoods=3),
        lambda: learn(log_likelihoods=2),
        lambda: learn(scores=1),
        lambda: learn(rates=1),
        lambda: learn(classes=(0, 5)),
        lambda: learn(active=(0, 9), classes=(0, 9)),
        lambda: _core.combine_scores(WEIGHTS, None, [[1.0, 0.0], [2.0]], [0, 1]),
        lambda: _core.combine_scores(WEIGHTS, None, EVIDENCE[:1], [0, 1]),
        lambda: _core.combine_scores(WEIGHTS, None, EVIDENCE, [0, 2]),
        lambda: _core.calibration_step(WEIGHTS, None, EVIDENCE, [1.0], 0.3, LabelStep(0, [0, 1])),
        lambda: _core.calibration_step(
            WEIGHTS, None, EVIDENCE, [0.5, 0.5], 0.3, LabelStep(0, [0, 1]), [1.0]
        ),
        lambda: _core.label_posterior([0.5, 0.5], [0.1], 0),
        lambda: _core.view_residuals(array("d", [1.0]), [0.0], [1.0, 1.0], 2.0, 0, 0.0, [0.0]),
        lambda: _core.view_residuals(array("d", [1.0] * 2), [0.0], [1.0, 1.0], 2.0, 5, 0.0, [0.0]),
    ],
)  # fmt: skip
def test_arrays_of_other_sizes_are_refused(call):
    with pytest.raises((ValueError, IndexError)):
        call()
