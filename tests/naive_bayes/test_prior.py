"""A prior must have a share for every class of a model, wherever the two meet."""

import numpy as np
import pytest

from streamnb import (
    BernoulliNB,
    CategoricalNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    GaussianNB,
    MultinomialNB,
    WindowNB,
)
from streamnb.sklearn import MultinomialNB as MultinomialEstimator

TEXT_MODELS = [MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB]
WRONG = {
    "misspelt": (
        {"spam": 0.5, "hamm": 0.5},
        ["spam", "ham"],
        r"did you mean 'ham' instead of 'hamm'",
    ),
    "unquoted": ({True: 0.5, False: 0.5}, ["yes", "no"], "quoted in YAML"),
    "numbers": ({1: 0.5, 0: 0.5}, ["1", "0"], r"the class is of the type str: write '[01]'"),
    "texts": ({"1": 0.5, "0": 0.5}, [1, 0], r"the class is of the type int: write [01]$"),
    "one missing": ({"spam": 1.0}, ["spam", "ham"], "no share for class 'ham'"),
    "case": ({"Spam": 0.5, "Ham": 0.5}, ["spam", "ham"], "no share for class"),
}
X = np.array([[1.0, 0.0], [0.0, 1.0]])
ENTRANCES = {
    "learn_one": lambda model, labels: [model.learn_one({"a": 1}, y) for y in labels],
    "learn_many": lambda model, labels: model.learn_many([{"a": 1}, {"b": 1}], labels),
    "fit": lambda model, labels: model.fit(X, labels),
    "partial_fit": lambda model, labels: model.partial_fit(X, labels, classes=labels),
}


@pytest.mark.parametrize(("prior", "labels", "message"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("entrance", ENTRANCES.values(), ids=ENTRANCES)
@pytest.mark.parametrize("model_class", TEXT_MODELS)
def test_a_prior_without_a_class_is_refused(model_class, entrance, prior, labels, message):
    with pytest.raises(ValueError, match=message):
        entrance(model_class(prior=prior), labels)


@pytest.mark.parametrize(("prior", "labels", "message"), WRONG.values(), ids=WRONG)
def test_other_models_refuse_it_too(prior, labels, message):
    models = [
        (CategoricalNB(prior=prior), lambda m: [m.learn_one({"a": "x"}, y) for y in labels]),
        (GaussianNB(prior=prior), lambda m: m.fit(X, labels)),
        (
            WindowNB(MultinomialNB(prior=prior)),
            lambda m: [m.learn_one({"a": 1}, y) for y in labels],
        ),
        (MultinomialEstimator(prior=prior), lambda m: m.fit(X, labels)),
    ]
    for model, train in models:
        with pytest.raises(ValueError, match=message):
            train(model)


@pytest.mark.parametrize("model_class", TEXT_MODELS)
def test_a_prior_set_after_training_must_fit(model_class):
    model = model_class()
    model.learn_one({"a": 1}, "spam")
    model.learn_one({"b": 1}, "ham")
    before = model.prior
    with pytest.raises(ValueError, match="did you mean 'ham'"):
        model.prior = {"spam": 0.5, "hamm": 0.5}
    assert model.prior == before


@pytest.mark.parametrize("model_class", TEXT_MODELS)
def test_a_prior_may_name_classes_to_come(model_class):
    model = model_class(prior={"spam": 1, "ham": 2, "news": 3})
    model.learn_one({"a": 1}, "spam")
    assert model.predict_one({"a": 1}) == "spam"
    assert model_class(prior={"spam": 1, "ham": 2}).fit(X, ["spam", "ham"]).classes_.tolist() == [
        "ham",
        "spam",
    ]
