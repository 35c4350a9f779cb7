"""Columns by name and by number: no model mixes them, or answers with the prior, silently."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import streamnb
import streamnb.sklearn

COUNTS = ["MultinomialNB", "BernoulliNB", "ComplementNB", "DiscriminativeMultinomialNB"]
TABLES = ["GaussianNB", "CategoricalNB", "MixedNB", "AODE", "LazyBayesianRules"]
MODELS = [*COUNTS, *TABLES, "GaussianDiscriminantAnalysis"]
VALUES = np.array([[5, 0, 1], [0, 5, 1], [4, 0, 1], [0, 4, 2], [4, 1, 2], [1, 5, 2]])
LABELS = list("ababab")
NAMED = {"frame": lambda: pd.DataFrame(VALUES, columns=list("pqr"))}
NUMBERED = {
    "array": lambda: VALUES,
    "list": VALUES.tolist,
    "frame with numbers": lambda: pd.DataFrame(VALUES),
    "sparse matrix": lambda: csr_matrix(VALUES),
}
INPUTS = NAMED | NUMBERED
LEARN = {
    "learn_many": lambda model, X: model.learn_many(X, LABELS),
    "partial_fit": lambda model, X: model.partial_fit(X, LABELS),
    "fit": lambda model, X: model.fit(X, LABELS),
}
ASK = ["predict_many", "predict_proba_many", "predict", "predict_proba", "predict_log_proba"]


@pytest.fixture(params=MODELS)
def model(request):
    return getattr(streamnb, request.param)()


def problem(learned, predicted):
    """The words of the error, which are scikit-learn's; "" without one."""
    if (learned in NAMED) == (predicted in NAMED):
        return ""
    return "does not have valid feature names" if learned in NAMED else "X has feature names, but"


@pytest.mark.parametrize("predicted", INPUTS)
@pytest.mark.parametrize("learned", INPUTS)
def test_columns_by_name_and_by_number_are_not_mixed(model, learned, predicted):
    for learn in LEARN.values():
        learn(model, INPUTS[learned]())
        expected = problem(learned, predicted)
        for name in ASK:
            if expected:
                with pytest.raises(ValueError, match=expected):
                    getattr(model, name)(INPUTS[predicted]())
            else:
                getattr(model, name)(INPUTS[predicted]())
        if expected:
            with pytest.raises(ValueError, match=expected):
                model.partial_fit(INPUTS[predicted](), LABELS)
        else:
            assert list(model.predict(INPUTS[predicted]())) == list(
                model.predict(INPUTS[learned]())
            )


def test_a_renamed_frame_is_reported(model):
    frame = INPUTS["frame"]()
    model.fit(frame, LABELS)
    with pytest.warns(UserWarning, match="feature names should match"):
        model.predict(frame.rename(columns=str.upper))


def test_frames_with_other_columns_are_accepted_if_one_is_known(model):
    frame = INPUTS["frame"]()
    model.learn_many(frame, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn_many(frame[["p"]].rename(columns={"p": "new"}), LABELS)
        model.predict_many(frame)
        model.predict_many(frame.assign(new=1, newer=1))


def test_a_number_as_text_is_refused_if_numbers_were_learned():
    model = streamnb.MixedNB()
    model.learn_many(
        [{"n": i, "s": "xy"[i % 2], "both": i if i % 3 else "z"} for i in range(9)],
        list("ababababa"),
    )
    for predict in (model.predict_one, model.predict_proba_one, lambda x: model.predict([x])):
        for row in ({"n": "5.5"}, {"n": "-1e3", "s": "x"}):
            with pytest.raises(ValueError, match=r"'n': '.*' is not a number, but a text"):
                predict(row)
        for row in ({"n": 5, "s": "x"}, {"both": "2"}, {"n": None, "s": "1"}, {"new": "5", "n": 1}):
            predict(row)


@pytest.mark.parametrize("others", [[], ["unknown"], ["unknown", None, "n/a"]])
@pytest.mark.parametrize("as_rows", [True, False])
def test_a_number_as_text_is_refused_among_other_texts(others, as_rows):
    model = streamnb.MixedNB()
    model.learn_many(pd.DataFrame({"h": [1.0, 2, 10, 11]}), list("xxyy"))
    values = [*others, "10.5"]
    X = [{"h": value} for value in values] if as_rows else pd.DataFrame({"h": values})
    for call in (model.predict_many, lambda X: model.learn_many(X, ["x"] * len(values))):
        with pytest.raises(ValueError, match=r"'h': '10.5' is not a number, but a text"):
            call(X)
    assert not model.statistics.levels.features


def test_a_row_of_a_wide_frame_with_known_columns_gives_no_warning():
    frame = pd.DataFrame(np.eye(9), columns=[f"c{number}" for number in range(9)])
    model = streamnb.MultinomialNB()
    model.learn_many(frame[:4], ["a", "b", "a", "b"])
    assert len(model.predict_many(frame[6:7])) == 1  # its only column above 0 was 0 in training


def test_the_width_of_a_matrix_takes_no_memory():
    model = streamnb.MultinomialNB()
    model.learn_many(csr_matrix(([2.0, 1.0], ([0, 1], [3, 5])), (2, 2**27)), ["a", "b"])
    tracemalloc.start()
    assert len(model.predict_many(csr_matrix(([1.0], ([0], [2**26])), (1, 2**27)))) == 1
    assert tracemalloc.get_traced_memory()[1] < 1e8
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["TextClassifier", "MailClassifier", *COUNTS])
def test_the_column_of_texts_is_compared_as_scikit_learn_compares_columns(name):
    frame = pd.DataFrame({"text": ["a goal", "a vote"] * 3})
    estimator = getattr(streamnb.sklearn, name)().fit(frame, LABELS)
    assert (list(estimator.feature_names_in_), estimator.n_features_in_) == (["text"], 1)
    renamed = frame.rename(columns={"text": "subject"})
    for call in (estimator.predict, estimator.predict_proba):
        call(frame)
        with pytest.raises(ValueError, match="feature names should match"):
            call(renamed)
    with pytest.raises(ValueError, match="feature names should match"):
        estimator.partial_fit(renamed, LABELS)
    estimator.fit(list(frame["text"]), LABELS)
    assert not {"feature_names_in_", "n_features_in_"} & vars(estimator).keys()
