"""Slopes of the views, and weights of the systems."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import MailClassifier, TextClassifier
from streamnb.naive_bayes.recalibration import SWITCH_RATE, LabelStep, Recalibration, SystemPool
from streamnb.scores import probabilities


def some_telling_words(numbers, k):
    """A text of class k with up to three words that are rare in other classes."""
    telling = [f"t{k}x{numbers.randrange(300)}" for _ in range(numbers.randrange(4))]
    return " ".join([*telling, *(f"c{numbers.randrange(200)}" for _ in range(20))])


@pytest.mark.parametrize(("classes", "most"), [(2, 0.6), (6, 1.2)])
def test_corrections_alone_give_calibrated_probabilities(classes, most):
    """Each label then contradicts the model, which does not show that the evidence is weak."""
    numbers, model, losses = random.Random(3), TextClassifier(), []
    for _ in range(3000):
        k = numbers.randrange(classes)
        x = some_telling_words(numbers, k)
        predicted = model.predict_proba_one(x)
        losses.append(-math.log(predicted.get(k, 1e-6)))
        if len(predicted) < classes or max(predicted, key=predicted.get) != k:
            model.learn_one(x, k)
    assert sum(losses[1500:]) / 1500 < most  # .67 and 1.47 where mistakes count as any message
    assert model.model.calibration.noise.rate < 0.12


def test_a_few_corrections_do_not_undo_the_calibration():
    numbers, model = random.Random(5), TextClassifier()
    for i in range(1000):
        model.learn_one(some_telling_words(numbers, i % 2), i % 2)
    slope, share = (
        model.model.calibration.recalibration.systems[0].slopes()[-1],
        model.model.calibration.noise.rate,
    )
    n_mistakes = 0
    for i in range(3000):
        x = some_telling_words(numbers, i % 2)
        if model.predict_one(x) != i % 2:
            model.learn_one(x, i % 2)
            n_mistakes += 1
    assert n_mistakes > 300
    assert (
        0.8 * slope < model.model.calibration.recalibration.systems[0].slopes()[-1] < 1.25 * slope
    )
    assert model.model.calibration.noise.rate < max(1.2 * share, 0.001)


def test_recalibration_learns_how_often_it_is_right():
    """A model that always predicts with odds of 20 to 1, and is correct four times out of five."""
    rng = np.random.default_rng(1)
    recalibration = Recalibration(1)
    for _ in range(3000):
        k = int(rng.integers(2))
        says = k if rng.random() < 0.8 else 1 - k
        evidence = [[3.0, 0.0] if says == 0 else [0.0, 3.0]]
        shares = probabilities(recalibration.scores(evidence, [0, 1]))
        recalibration.learn(evidence, shares, LabelStep(k, [0, 1]))
    z = recalibration.scores([[3.0, 0.0]], [0, 1])
    assert 1 / (1 + math.exp(z[1] - z[0])) == pytest.approx(0.8, abs=0.03)


losses = st.lists(st.lists(st.floats(1e-9, 1), min_size=3, max_size=3), max_size=40)


@given(losses)
def test_the_pool_loses_at_most_the_logarithm_of_its_systems(stream):
    """The log loss of the linear pool, against that of its best system."""
    pool, loss, own = SystemPool(3, 1), 0.0, np.zeros(3)
    for proba in stream:
        loss -= math.log(np.dot(probabilities(pool.log_weights), proba))
        own -= np.log(proba)
        pool.learn_weights(proba)
    shared = -len(stream) * math.log1p(-SWITCH_RATE)
    assert loss <= own.min() + math.log(3) + shared + 1e-6


@pytest.mark.parametrize("classifier_class", [TextClassifier, MailClassifier])
def test_a_model_loses_at_most_the_logarithm_of_its_systems(classifier_class):
    """In an arbitrary stream, without label noise."""
    numbers, classifier = random.Random(9), classifier_class(label_noise=0.0, systems=2)
    model, loss, own = classifier.model, 0.0, np.zeros(2)
    for _ in range(600):
        y = "ab"[numbers.randrange(2)]
        x = " ".join(
            f"{y if numbers.random() < 0.2 else ''}w{numbers.randrange(60)}" for _ in range(9)
        )
        tokens = model.as_tokens(
            classifier.count(x if classifier_class is TextClassifier else x.encode())
        )
        prediction = model._predict(tokens)
        before = list(model.calibration.recalibration.log_weights)
        receipt = model.learn(tokens, y)
        if "pool" in receipt.deltas:
            k = prediction.active.index(model.labels.index(y))
            own -= [math.log(probabilities(z)[k]) for z in map(prediction.scores_of, range(2))]
            loss -= prediction.scores[k]
            assert model.calibration.recalibration.log_weights != before
    assert 0 < loss <= own.min() + math.log(2) + 0.1
