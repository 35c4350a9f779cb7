"""The compiled calibration refuses arrays of other sizes, which it would read beyond their ends."""

import copy
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


def learn(
    log_likelihoods=4, scores=2, active=(0, 1), rates=2, classes=(0, 1), systems=1, step=None
):
    return _core.learn_systems(
        [Recalibration(2) for _ in range(systems)], array("d", [1.0] * log_likelihoods),
        array("d", [1.0] * scores), [*active], [0.1] * rates, 1.0,
        step or LabelStep(0, [*classes]), 0.0,
    )  # fmt: skip


def calibrate(classes, weights=WEIGHTS):
    proba = [0.5] * len(classes)
    weights = copy.deepcopy(weights)
    return _core.calibration_step(weights, None, EVIDENCE, proba, 0.3, LabelStep(0, classes))


def test_arrays_of_the_right_size_are_accepted():
    assert len(predict()[0]) == 4
    assert len(learn()[2]) == 1
    assert len(calibrate([0, 1])) == 1
    assert calibrate([])[0][2] == ()
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
        lambda: _core.view_residuals(array("d"), [], [1.0], 1.0, 0, 0.0, []),
        lambda: _core.predict_systems([], [], [array("d", [0.0])], [0], None, None),
        lambda: predict(views=0),
        lambda: predict(active=(0, 10**9, 1)),
        lambda: predict(active=(1, 0)),
        lambda: predict(active=(0, 0)),
        lambda: learn(systems=0),
        lambda: learn(step=(0, [0, 1])),
        lambda: learn(step=[*LabelStep(0, [0, 1])]),
        lambda: _core.combine_scores(WEIGHTS, None, [], [0, 1]),
        lambda: _core.combine_scores(WEIGHTS, None, [[], []], [0]),
        lambda: _core.slopes((), None),
        lambda: _core.slopes(WEIGHTS, ()),
        lambda: _core.slopes(CalibrationWeights.constant(50, 0.1), WEIGHTS),
        lambda: calibrate([1, 0]),
        lambda: calibrate([0, 2]),
        lambda: calibrate([0, 1], WEIGHTS._replace(slope_squares=[1.0])),
        lambda: calibrate([0, 1], WEIGHTS._replace(intercept_squares=[1.0])),
        lambda: calibrate([0, 1], WEIGHTS._replace(slopes=[1.0])),
        lambda: _core.add_scaled([0.0], [1.0] * 100_000, 1.0),
        lambda: _core.pool_step([0.0] * 1000, [0.5], 1e-4),
        lambda: _core.mean_scores([0.0, 0.0], [0.1, 0.1], []),
        lambda: _core.mean_scores([0.0, 0.0], [0.1, 0.1], [0.0] * 5000),
        lambda: _core.evidence_step([0.0, 0.0], [0.1, 0.1], [0.0, 0.0], 10**6, 1e-4),
        lambda: _core.evidence_step([0.0, 0.0], [0.1, 0.1], [0.0], 0, 1e-4),
        lambda: _core.noise_rates([0.1], [1.0], [10**6], 1.0, 0.4, True),
        lambda: _core.noise_rates([0.1], [], [0], 1.0, 0.4, True),
        lambda: _core.noise_step([0.1], [1.0], [0.5] * 2, [0, 10**6], 0, 1e-4),
        lambda: _core.noise_step([0.1] * 99, [1.0] * 99, [0.5], [*range(99)], 0, 1e-4),
        lambda: _core.residuals([[0.0, 1.0]], [0.0] * 3, 0),
        lambda: _core.residuals([[0.0]], [], 0),
        lambda: _core.add_rows([], [0, 1], 0, [0, 0], 1),
        lambda: _core.add_noise([0.0], [0.0], [0.0, 1.0], 1.0),
    ],
)  # fmt: skip
def test_arrays_of_other_sizes_are_refused(call):
    with pytest.raises((ValueError, IndexError, TypeError)):
        call()


@pytest.mark.parametrize("typecode", "fbq")
def test_arrays_of_other_types_are_refused(typecode):
    numbers = array(typecode, [1] * 4)
    doubles = array("d", numbers)
    step = LabelStep(0, [0, 1])
    for call in (
        lambda: _core.view_residuals(numbers, [0.0], [1.0, 1.0], 2.0, 0, 0.0, [0.0] * 2),
        lambda: _core.predict_systems([Recalibration(1)], [0.0], [numbers], [0, 1], None, None),
        lambda: _core.learn_systems(
            [Recalibration(1)], numbers, doubles[:2], [0, 1], [0.1] * 2, 1.0, step, 0.0
        ),
        lambda: _core.learn_systems(
            [Recalibration(1)], doubles[:2], numbers[:2], [0, 1], [0.1] * 2, 1.0, step, 0.0
        ),
    ):
        with pytest.raises(ValueError, match="float64"):
            call()
