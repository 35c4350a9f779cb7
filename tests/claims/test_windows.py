"""A window learns and predicts many rows exactly as one by one, with any model inside."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from streamnb import (
    AODE,
    BernoulliNB,
    CategoricalNB,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    ViewsNB,
    WindowNB,
)

NUMBERS = np.array([[i % 5 + k / 4, (i * k) % 3, 1 + (i + k) % 4] for i in range(12) for k in (1, 2)])  # fmt: skip
LABELS = [f"class {i % 3}" for i in range(len(NUMBERS))]
NAMES = ["a", "b", "c"]
MODELS = {
    model_class.__name__: model_class
    for model_class in (
        AODE, BernoulliNB, CategoricalNB, GaussianDiscriminantAnalysis, GaussianNB, MixedNB,
        MultinomialNB, ViewsNB,
    )
}  # fmt: skip
LEVELS = ("AODE", "CategoricalNB")  # they take no numbers with fractions
FORMS = {
    "dicts": lambda rows: [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()],
    "pandas": lambda rows: pd.DataFrame(rows, columns=NAMES),
    "polars": lambda rows: pl.DataFrame(rows, schema=NAMES, orient="row"),
    "matrix": lambda rows: rows,
    "sparse": csr_array,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MODELS)
def test_many_rows_are_learned_and_predicted_as_one_by_one(name, form):
    rows = np.floor(NUMBERS) if name in LEVELS else NUMBERS
    keys = NAMES if form not in ("matrix", "sparse") else range(len(NAMES))
    examples = [dict(zip(keys, row, strict=True)) for row in rows.tolist()]
    single, many = (WindowNB(MODELS[name](), 10) for _ in range(2))
    for x, y in zip(examples, LABELS, strict=True):
        single.learn_one(x, y)
    many.learn_many(FORMS[form](rows), LABELS)
    expected = [single.predict_proba_one(x) for x in examples]
    proba = np.asarray(many.predict_proba_many(FORMS[form](rows)))
    assert np.allclose(proba, [[p[y] for y in sorted(p)] for p in expected], rtol=1e-12)
    predicted = many.predict_many(FORMS[form](rows))
    assert list(predicted) == [single.predict_one(x) for x in examples]
    assert many.labels == single.labels


@pytest.mark.parametrize("name", MODELS)
def test_a_smaller_size_holds_at_once(name):
    rows = np.floor(NUMBERS)
    examples = [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()]
    window, smaller = WindowNB(MODELS[name](), 20), WindowNB(MODELS[name](), 6)
    for x, y in zip(examples, LABELS, strict=True):
        window.learn_one(x, y)
        smaller.learn_one(x, y)
    window.size = 6
    if name == "ViewsNB":  # its calibration has learned from other predictions
        counts = [model.view_models[0].counts for model in (window, smaller)]
        assert counts[0].weights == counts[1].weights
        assert counts[0].features == counts[1].features
    else:
        for x in examples:
            assert window.joint_log_likelihood(x) == smaller.joint_log_likelihood(x)
