"""river.compat both ways: models as scikit-learn estimators, estimators as river models."""

import numpy as np
import pytest
from river import compat

import streamnb
from streamnb import sklearn as estimators

TABULAR = [name for name in estimators.__all__ if "Classifier" not in name]
TEXTUAL = [
    name
    for name in estimators.__all__
    if {"tokenizer", "words"} & set(getattr(estimators, name)().get_params(deep=False))
]
X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
Y = ["a", "b", "a", "b"]


@pytest.mark.parametrize("name", TABULAR)
def test_a_model_as_an_estimator(name):
    model = compat.convert_river_to_sklearn(getattr(streamnb, name)()).fit(X, Y)
    assert model.predict(X).tolist() == Y
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1)


@pytest.mark.parametrize("name", TABULAR)
def test_an_estimator_as_a_model(name):
    model = compat.convert_sklearn_to_river(getattr(estimators, name)(), classes=["a", "b"])
    for row, label in zip(X, Y, strict=True):
        model.learn_one({"x": row[0], "y": row[1]}, label)
    assert model.predict_one({"x": 1.0, "y": 0.0}) == "a"
    assert model.predict_proba_one({"x": 1.0, "y": 0.0})["a"] > 0.5


@pytest.mark.parametrize("name", TEXTUAL)
def test_an_estimator_of_texts_as_a_model(name):
    model = compat.convert_sklearn_to_river(getattr(estimators, name)(), classes=["ham", "spam"])
    for text, label in [("free offer", "spam"), ("lunch at noon", "ham")] * 2:
        model.learn_one({"text": text}, label)
    assert model.predict_one({"text": "free"}) == "spam"
