"""Attributes of fitted estimators: those of scikit-learn's counterparts, with the same values."""

import numpy as np
import pandas as pd
import pytest
from sklearn import discriminant_analysis, naive_bayes
from sklearn.preprocessing import OrdinalEncoder

import streamnb.sklearn as estimators

rng = np.random.default_rng(1)
COUNTS = pd.DataFrame(rng.poisson(1.0, (60, 4)).clip(0, 3), columns=list("dbca"))
NUMBERS = COUNTS + rng.normal(0, 1, COUNTS.shape)
LABELS = np.array(["z", "m", "a"])[rng.integers(0, 3, 60)]
WEIGHTS = rng.uniform(0.5, 2, 60)
COUNTERPARTS = {
    "MultinomialNB": (naive_bayes.MultinomialNB(), COUNTS),
    "BernoulliNB": (naive_bayes.BernoulliNB(), COUNTS),
    "ComplementNB": (naive_bayes.ComplementNB(), COUNTS),
    "GaussianNB": (naive_bayes.GaussianNB(), NUMBERS),
    "CategoricalNB": (naive_bayes.CategoricalNB(), COUNTS),
}


@pytest.mark.parametrize("as_input", [pd.DataFrame, pd.DataFrame.to_numpy], ids=["frame", "array"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weights"])
@pytest.mark.parametrize("name", COUNTERPARTS)
def test_attributes_equal_those_of_the_counterpart(name, weights, as_input):
    counterpart, table = COUNTERPARTS[name]
    X = as_input(table)
    expected = counterpart.fit(X, LABELS, weights)
    model = getattr(estimators, name)().fit(X, LABELS, weights)
    attributes = {name for name in vars(expected) if name.endswith("_")}
    assert len(attributes) >= 5
    if name == "GaussianNB" and weights is not None:
        attributes -= {"epsilon_", "var_"}  # scikit-learn's epsilon_ ignores weights
    for attribute in attributes:
        value, expected_value = getattr(model, attribute), getattr(expected, attribute)
        if isinstance(expected_value, list):
            assert len(value) == len(expected_value)
        else:
            value, expected_value = [value], [expected_value]
        for part, expected_part in zip(value, expected_value, strict=True):
            if np.asarray(expected_part).dtype.kind in "fi":
                np.testing.assert_allclose(part, expected_part, rtol=1e-9)
            else:
                assert list(part) == list(expected_part)


@pytest.mark.parametrize("smoothing", [1e-9, 0.1])
def test_variances_are_those_of_the_formula(smoothing):
    model = estimators.GaussianNB(var_smoothing=smoothing).fit(NUMBERS, LABELS)
    expected = naive_bayes.GaussianNB(var_smoothing=smoothing).fit(NUMBERS, LABELS)
    np.testing.assert_allclose(model.var_, expected.var_, rtol=1e-9)
    np.testing.assert_allclose(model.epsilon_, expected.epsilon_, rtol=1e-9)


@pytest.mark.parametrize("covariance", ["shared", "own"])
def test_discriminants_have_the_attributes_of_their_counterparts(covariance):
    model = estimators.GaussianDiscriminantAnalysis(covariance=covariance)
    model.fit(NUMBERS, LABELS)
    if covariance == "shared":
        expected = discriminant_analysis.LinearDiscriminantAnalysis("lsqr").fit(NUMBERS, LABELS)
    else:
        expected = discriminant_analysis.QuadraticDiscriminantAnalysis(store_covariance=True)
        expected.fit(NUMBERS, LABELS)
    for attribute in ("classes_", "feature_names_in_"):
        assert list(getattr(model, attribute)) == list(getattr(expected, attribute))
    for attribute in ("priors_", "means_"):
        np.testing.assert_allclose(getattr(model, attribute), getattr(expected, attribute))
    np.testing.assert_allclose(model.covariance_, expected.covariance_, rtol=1e-6)


@pytest.mark.parametrize("as_level", [str, lambda value: value > 1], ids=["text", "truth value"])
def test_levels_of_any_type_are_the_columns(as_level):
    table = COUNTS.map(as_level).astype(object)
    encoder = OrdinalEncoder().fit(table)
    expected = naive_bayes.CategoricalNB().fit(encoder.transform(table), LABELS)
    model = estimators.CategoricalNB().fit(table, LABELS)
    for levels, expected_levels in zip(model.categories_, encoder.categories_, strict=True):
        assert list(levels) == list(expected_levels)
    for name in ("category_count_", "feature_log_prob_", "n_categories_"):
        for part, expected_part in zip(getattr(model, name), getattr(expected, name), strict=True):
            np.testing.assert_allclose(part, expected_part)


@pytest.mark.parametrize("name", ["MultinomialNB", "BernoulliNB", "ComplementNB"])
def test_the_model_of_a_frame_has_the_names_of_its_columns(name):
    model = getattr(estimators, name)().fit(COUNTS, LABELS).partial_fit(COUNTS, LABELS)
    top = model.model_.top_features("z", 4)
    assert {feature for feature, *_ in top} == set(COUNTS.columns)
    rows = COUNTS.to_dict("records")
    assert [model.model_.predict_one(row) for row in rows] == model.predict(COUNTS).tolist()
    by_number = getattr(estimators, name)().fit(COUNTS.to_numpy(), LABELS)
    np.testing.assert_allclose(
        by_number.predict_proba(COUNTS.to_numpy()),
        getattr(estimators, name)().fit(COUNTS, LABELS).predict_proba(COUNTS),
    )
