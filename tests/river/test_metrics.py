"""river's metrics of one class and of all classes, compared with scikit-learn's."""

import numpy as np
import pytest
from river import metrics
from sklearn import metrics as reference

from streamnb import MultinomialNB, TextClassifier, Tokenizer

MODELS = {
    "TextClassifier": lambda: TextClassifier(preset="small"),
    "a pipeline": lambda: Tokenizer() | MultinomialNB(),
}
WORDS = {"spam": ["buy", "pills", "free", "at"], "ham": ["lunch", "noon", "at", "free"]}
# Metrics that need labels True and False, and the figure that each one has to give.
BINARY = {
    "F1": (metrics.F1, reference.f1_score),
    "MCC": (metrics.MCC, reference.matthews_corrcoef),
    "Jaccard": (metrics.Jaccard, reference.jaccard_score),
    "LogLoss": (metrics.LogLoss, lambda y, p: reference.log_loss(y, np.clip(p, 1e-15, 1 - 1e-15))),
}
# Metrics of labels of any type.
ANY = {
    "Accuracy": (metrics.Accuracy, reference.accuracy_score),
    "MacroF1": (metrics.MacroF1, lambda y, p: reference.f1_score(y, p, average="macro")),
    "CohenKappa": (metrics.CohenKappa, reference.cohen_kappa_score),
}


def stream(n=60):
    rng = np.random.default_rng(7)
    labels = rng.choice(["spam", "ham"], n).tolist()
    return [(" ".join(rng.choice(WORDS[label], 3)), label) for label in labels]


def run_stream(model, examples, metric):
    """Return labels and predictions of a stream, after the metric was updated with them."""
    labels, predictions = [], []
    for x, y in examples:
        predict = model.predict_one if metric.requires_labels else model.predict_proba_one
        predicted = predict(x)
        if predicted not in (None, {}):
            metric.update(y, predicted)
            labels.append(y)
            predictions.append(predicted if metric.requires_labels else predicted.get(True, 0.0))
        model.learn_one(x, y)
    return labels, predictions


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", BINARY)
def test_metrics_of_one_class_take_true_and_false(kind, name):
    metric_class, score = BINARY[kind]
    metric = metric_class()
    examples = [(text, label == "spam") for text, label in stream()]
    labels, predictions = run_stream(MODELS[name](), examples, metric)
    assert metric.get() == pytest.approx(score(labels, predictions), rel=1e-6)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ANY)
def test_metrics_of_all_classes_take_any_labels(kind, name):
    metric_class, score = ANY[kind]
    metric = metric_class()
    labels, predictions = run_stream(MODELS[name](), stream(), metric)
    assert metric.get() == pytest.approx(score(labels, predictions))
