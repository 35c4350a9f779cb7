"""The evidence for label noise, against classes that overlap."""

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import TextClassifier
from streamnb.naive_bayes.noise_evidence import NoiseEvidence
from streamnb.scores import probabilities

scores = st.lists(st.floats(-30, 0), min_size=2, max_size=5)


@given(scores)
def test_without_label_noise_both_hypotheses_agree(values):
    mean = NoiseEvidence().mean_scores(values, [0.0] * len(values))
    assert probabilities(mean) == pytest.approx(probabilities(values))


@given(scores, st.floats(0, 0.49), st.floats(-50, 50))
def test_the_classes_keep_their_order(values, rate, log_odds):
    values = sorted(values)
    mean = NoiseEvidence([log_odds, 0.0]).mean_scores(values, [rate] * len(values))
    assert all(a <= b + 1e-9 for a, b in pairwise(mean))


@given(st.lists(st.tuples(st.floats(-9, 9), st.sampled_from([0, 1])), max_size=30))
def test_updates_are_undone_exactly(labels):
    evidence = NoiseEvidence()
    before = evidence.state()
    changes = [evidence.learn([0.0, score], [0.1, 0.2], label) for score, label in labels]
    assert evidence.diff(NoiseEvidence()).keys() == {"noise_evidence"}
    for change in changes:
        evidence.apply(change, -1)
    assert evidence.state() == before


@pytest.mark.parametrize(
    "damage", [[1.0], [0.0, "x"], [0.0, float("nan")], None, [0.0, 0.0, 0.0]], ids=str
)
def test_damaged_state_is_refused(damage):
    with pytest.raises(ValueError, match=r"receipt|number"):
        NoiseEvidence.from_state({"noise_evidence": damage})


def overlapping_texts(n):
    """Texts of words that are more or less frequent in spam, and labels drawn from their odds."""
    rng = random.Random(7)
    log_odds = {f"word{i}": rng.gauss(0, 0.5) for i in range(200)}
    for _ in range(n):
        words = rng.choices(list(log_odds), k=4)
        proba = 1 / (1 + math.exp(-sum(log_odds[word] for word in words)))
        yield " ".join(words), "spam" if rng.random() < proba else "ham"


def weight_after(texts):
    classifier = TextClassifier()
    for text, label in texts:
        classifier.learn_one(text, label)
    return classifier, probabilities(classifier.model.calibration.noise_evidence.log_weights)[0]


def test_wrong_labels_of_separate_classes_are_noise():
    rng = random.Random(3)
    texts = []
    for i in range(900):
        label = rng.choice(["spam", "ham"])
        wrong = {"spam": "ham", "ham": "spam"}[label] if rng.random() < 0.1 else label
        texts.append(
            (f"{'offer free pills' if label == 'spam' else 'lunch at noon'} {i % 50}", wrong)
        )
    classifier, weight = weight_after(texts)
    assert weight > 0.95
    assert classifier.predict_proba_one("free pills offer")["spam"] > 0.97
    label_proba = classifier.model.label_proba_one(classifier.count("free pills offer"))
    assert label_proba["spam"] == pytest.approx(0.9, abs=0.05)


def test_probabilities_of_overlapping_classes_are_calibrated():
    """All words occur in both classes, and no label is wrong."""
    texts = overlapping_texts(4000)
    classifier = TextClassifier()
    hits = expected = n = 0
    for i, (text, label) in enumerate(texts):
        proba = classifier.predict_proba_one(text)
        if i >= 1000:
            best = max(proba, key=proba.get)
            hits, expected, n = hits + (best == label), expected + proba[best], n + 1
        classifier.learn_one(text, label)
    assert expected / n - hits / n < 0.03  # .06 if labels alone could be wrong


def test_probabilities_of_labels_sum_to_one_in_each_case():
    for label_noise in (None, 0.0, 0.2):
        classifier = TextClassifier(label_noise=label_noise)
        for text, label in overlapping_texts(60):
            classifier.learn_one(text, label)
        label_proba = classifier.model.label_proba_one(classifier.count("spam1 ham2"))
        assert sum(label_proba.values()) == pytest.approx(1)
