"""Labels, weights and values that numpy would change: each estimator learns or refuses them."""

import datetime
import decimal
import enum

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest

import streamnb
import streamnb.sklearn as estimators

ROWS = np.array([[3, 0, 1], [0, 2, 1], [2, 1, 0], [0, 1, 3]] * 3)
TEXTS = ["cheap pills", "lunch at noon", "free pills", "noon train"] * 3
TABLES = ["GaussianNB", "CategoricalNB", "MixedNB", "AODE", "GaussianDiscriminantAnalysis"]
TABLES.append("LazyBayesianRules")
COUNTS = ["MultinomialNB", "BernoulliNB", "ComplementNB", "DiscriminativeMultinomialNB"]
TEXTUAL = ["TextClassifier", "MailClassifier"]


@pytest.fixture(params=estimators.__all__)
def estimator(request):
    return getattr(estimators, request.param)()


def rows_of(estimator):
    return TEXTS if type(estimator).__name__ in TEXTUAL else ROWS


class Colour(enum.Enum):
    RED = 1


class Kind(str, enum.Enum):  # noqa: UP042 (the older way)
    SPAM, HAM = "spam", "ham"


# Containers of labels, and the type that predictions have.
LABELS = {
    "nullable integers": (lambda: pd.Series([1, 0] * 6, dtype="Int64"), int),
    "nullable truth values": (lambda: pd.Series([True, False] * 6, dtype="boolean"), bool),
    "array of integers": (lambda: pd.array([1, 0] * 6, dtype="Int64"), int),
    "arrow integers": (lambda: pd.Series([1, 0] * 6, dtype="int64[pyarrow]"), int),
    "arrow truth values": (lambda: pd.Series([True, False] * 6, dtype="bool[pyarrow]"), bool),
    "categories of truth values": (lambda: pd.Series([True, False] * 6, dtype="category"), bool),
    "categories of integers": (lambda: pd.Series([1, 0] * 6, dtype="category"), int),
    "frame of truth values": (
        lambda: pd.DataFrame({"y": [True, False] * 6}, dtype="boolean"),
        bool,
    ),
    "texts": (lambda: pd.Series(["x", "y"] * 6, dtype="string"), str),
    "numpy texts": (lambda: np.array(["x", "y"] * 6, dtype=np.dtypes.StringDType()), str),
    "enum of texts": (lambda: [Kind.SPAM, Kind.HAM] * 6, str),
    "series of an enum of texts": (lambda: pd.Series([Kind.SPAM, Kind.HAM] * 6, dtype=object), str),
    "polars": (lambda: polars.Series([True, False] * 6), bool),
    "polars categories": (lambda: polars.Series(["x", "y"] * 6, dtype=polars.Categorical), str),
    "pyarrow": (lambda: pyarrow.array([True, False] * 6), bool),
    "generator": (lambda: (label for label in [True, False] * 6), bool),
    "values of a dict": (lambda: dict(enumerate(["x", "y"] * 6)).values(), str),
}


@pytest.mark.filterwarnings("ignore:the label")
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_labels_of_each_container_keep_their_type(estimator, method, kind):
    make, label_type = LABELS[kind]
    X = rows_of(estimator)
    getattr(estimator, method)(X, make())
    predicted = estimator.predict(X).tolist()
    assert {type(label) for label in predicted} == {label_type}
    assert {type(label) for label in estimator.classes_.tolist()} == {label_type}
    assert len(estimator.classes_) == 2


@pytest.mark.filterwarnings("ignore:the label")
def test_the_accuracy_for_an_enum_of_texts_is_that_for_texts(estimator):
    X, labels = rows_of(estimator), [Kind.SPAM, Kind.HAM] * 6
    estimator.fit(X, labels)
    assert estimator.score(X, labels) == estimator.score(X, [kind.value for kind in labels]) > 0


def test_labels_that_scorers_read_as_names_cause_a_warning(estimator):
    with pytest.warns(UserWarning, match=r"read its name; pass the values"):
        estimator.fit(rows_of(estimator), [Kind.SPAM, Kind.HAM] * 6)


@pytest.mark.filterwarnings("ignore:the label")
def test_declared_classes_can_be_an_enum_of_texts(estimator):
    estimator.partial_fit(rows_of(estimator), [Kind.HAM, Kind.SPAM] * 6, classes=list(Kind))
    assert estimator.classes_.tolist() == ["ham", "spam"]


def test_declared_classes_have_a_column(estimator):
    X, classes = rows_of(estimator), ["x", "y", "z"]
    for declared in (classes, None):
        estimator.partial_fit(X, ["y", "x"] * 6, classes=declared)
        assert estimator.classes_.tolist() == classes
        assert estimator.predict_proba(X).shape == (len(X), 3)
        assert set(estimator.predict(X)) <= {"x", "y"}


@pytest.mark.parametrize("label", [datetime.date(2026, 1, 2), Colour.RED, decimal.Decimal(1)])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_label_that_scikit_learn_does_not_take_is_answered_with_a_conversion(
    estimator, method, label
):
    X = rows_of(estimator)
    labels = [label, label] * 6
    with pytest.raises(ValueError, match=r"convert them: \[str\(label\) for label in y\]"):
        getattr(estimator, method)(X, labels)
    getattr(estimator, method)(X, [str(label) for label in labels])


MISSING = {
    "NaN in a list": lambda: ["x", float("nan"), *"xy" * 5],
    "NaN in a tuple": lambda: ("x", np.nan, *"xy" * 5),
    "None in a list": lambda: ["x", None, *"xy" * 5],
    "masked": lambda: np.ma.masked_array([1, 0] * 6, mask=[0, 1, *[0] * 10]),
    "nullable": lambda: pd.Series([1, None, *[1, 0] * 5], dtype="Int64"),
    "polars": lambda: polars.Series([1, None, *[1, 0] * 5]),
    "pyarrow": lambda: pyarrow.array(["x", None, *"xy" * 5]),
}


@pytest.mark.parametrize("kind", MISSING)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_missing_label_is_refused_and_its_row_named(estimator, method, kind):
    with pytest.raises(ValueError, match="row 1: "):
        getattr(estimator, method)(rows_of(estimator), MISSING[kind]())
    assert not hasattr(estimator, "classes_")


@pytest.mark.parametrize("name", TABLES)
def test_masked_values_of_tables_are_missing(name):
    masked = np.ma.masked_array(ROWS, mask=ROWS == 1)
    objects = np.where(ROWS == 1, None, ROWS.astype(object))
    X = objects.astype(float) if name.startswith("Gaussian") else objects
    labels = ["x", "y"] * 6
    expected = getattr(estimators, name)().fit(X, labels).predict_proba(X)
    for module in (streamnb, estimators):
        model = getattr(module, name)().fit(masked, labels)
        np.testing.assert_allclose(model.predict_proba(masked), expected)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("module", [streamnb, estimators])
def test_masked_counts_and_weights_are_refused(module, name):
    model, labels = getattr(module, name)(), ["x", "y"] * 6
    masked = np.ma.masked_array(ROWS, mask=ROWS == 1)
    with pytest.raises(ValueError, match="the matrix has masked values"):
        model.fit(masked, labels)
    weights = np.ma.masked_array(np.ones(12), mask=[0, 1, *[0] * 10])
    with pytest.raises(ValueError, match="row 1: the weight is nan"):
        model.fit(ROWS, labels, sample_weight=weights)
    model.fit(np.ma.masked_array(ROWS, mask=False), labels)
    with pytest.raises(ValueError, match="the matrix has masked values"):
        model.predict(masked)


@pytest.mark.parametrize("name", COUNTS)
def test_rows_with_a_text_need_the_name_of_its_column(name):
    labels = ["x", "y"] * 6
    rows = [{"text": text, "size": 1} for text in TEXTS]
    expected = getattr(estimators, name)().fit(TEXTS, labels).predict_proba(TEXTS)
    tokenizer = streamnb.Tokenizer(on="text")
    for X in (rows, pd.DataFrame(rows), polars.DataFrame(rows)):
        model = getattr(estimators, name)(tokenizer=tokenizer).fit(X, labels)
        np.testing.assert_allclose(model.predict_proba(X), expected)
    for X in (pd.DataFrame(rows), polars.DataFrame(rows)):
        with pytest.raises(ValueError, match=r"the column 'text' is text: .*on='text'"):
            getattr(estimators, name)().fit(X, labels)
    model = getattr(estimators, name)(tokenizer=tokenizer)
    with pytest.raises(ValueError, match="row 1: None is not a text"):
        model.fit([rows[0], {"size": 1}], ["x", "y"])
    with pytest.raises(ValueError, match="X has no column 'text'"):
        model.fit([{"size": 1}], ["x"])


class OnlyArray:
    """An array of another library: numpy can convert it, and it has no `tolist`."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape = self.values.shape

    def __array__(self, dtype=None, copy=None):
        return self.values


WEIGHTS = {
    "generator": lambda values: (value for value in values),
    "other library": OnlyArray,
    "other library, one column": lambda values: OnlyArray(np.array(values)[:, None]),
    "nullable": lambda values: pd.Series(values, dtype="Float64"),
    "polars": polars.Series,
    "pyarrow": pyarrow.array,
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("name", ["GaussianNB", "MultinomialNB"])
@pytest.mark.parametrize("module", [streamnb, estimators])
def test_weights_and_labels_can_be_of_any_container(module, name, kind):
    labels, weights = ["x", "y"] * 6, [1.0, 2.0, 0.5] * 4
    expected = getattr(module, name)().fit(ROWS, labels, sample_weight=weights)
    model = getattr(module, name)()
    if kind in ("nullable", "other library, one column"):
        model.fit(ROWS, labels, sample_weight=WEIGHTS[kind](weights))
    else:
        model.fit(ROWS, WEIGHTS[kind](labels), sample_weight=WEIGHTS[kind](weights))
    np.testing.assert_allclose(model.predict_proba(ROWS), expected.predict_proba(ROWS))


def test_decimals_are_numbers():
    X = pd.DataFrame(ROWS).map(decimal.Decimal)
    labels = ["x", "y"] * 6
    expected = estimators.GaussianNB().fit(ROWS, labels).predict_proba(ROWS)
    np.testing.assert_allclose(estimators.GaussianNB().fit(X, labels).predict_proba(X), expected)


@pytest.mark.parametrize("name", estimators.__all__)
def test_weights_of_classes_are_answered_with_weights_of_samples(name):
    with pytest.raises(TypeError, match="sample_weight="):
        getattr(estimators, name)(class_weight="balanced")


@pytest.mark.parametrize("name", [*COUNTS, *TABLES, "TextClassifier"])
@pytest.mark.parametrize("method", ["fit", "partial_fit", "learn_many"])
@pytest.mark.parametrize("module", [streamnb, estimators])
def test_the_row_of_a_missing_label_is_named(module, method, name):
    model = getattr(module, name)()
    if not hasattr(model, method):
        return
    X = TEXTS if name == "TextClassifier" else ROWS
    labels = ["x", "y"] * 5 + ["x", None]
    with pytest.raises(ValueError, match="row 11: a label must not be None or NaN"):
        getattr(model, method)(X, labels)


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("library", [pd.DataFrame, polars.DataFrame])
def test_a_wrong_count_of_a_frame_is_named_by_its_column(library, name):
    frame = library({"price": [1.0, float("nan")], "size": [2.0, 1.0]})
    with pytest.raises(ValueError, match="row 1, 'price': the value is nan"):
        getattr(streamnb, name)().fit(frame, ["x", "y"])


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("wrong", [5, "words", ["a"], object()])
def test_a_wrong_tokenizer_is_refused_for_matrices_too(name, wrong):
    model = getattr(estimators, name)(tokenizer=wrong)
    with pytest.raises(ValueError, match=r"tokenizer: .* is not a tokenizer of streamnb"):
        model.fit(ROWS, ["x", "y"] * 6)


@pytest.mark.parametrize("name", [*COUNTS, *TABLES])
@pytest.mark.parametrize("module", [streamnb, estimators])
def test_fit_refuses_a_prior_with_a_class_that_does_not_occur(module, name):
    if name == "LazyBayesianRules":  # it has no prior
        return
    model = getattr(module, name)(prior={"x": 0.5, "y": 0.3, "z": 0.2})
    with pytest.raises(ValueError, match="prior: no example is of class 'z'"):
        model.fit(ROWS, ["x", "y"] * 6)


@pytest.mark.parametrize("module", [streamnb, estimators])
def test_fit_refuses_a_positive_class_that_does_not_occur(module):
    labels = ["spam", "ham"] * 6
    with pytest.raises(ValueError, match="positive: 'spma' is none of the labels"):
        module.TextClassifier(positive="spma").fit(TEXTS, labels)
    module.TextClassifier(positive="ham").fit(TEXTS, labels)
    module.TextClassifier().fit(TEXTS, ["x", "y"] * 6)  # no label is the default one


@pytest.mark.parametrize("name", [*COUNTS, *TABLES, "TextClassifier"])
def test_truth_values_in_an_array_of_objects_are_labels(name):
    X = TEXTS if name == "TextClassifier" else ROWS
    model = getattr(estimators, name)().fit(X, np.array([True, False] * 6, dtype=object))
    assert model.classes_.tolist() == [False, True]
    assert model.classes_.dtype == bool


@pytest.mark.parametrize("method", ["fit", "learn_many", "partial_fit"])
def test_a_dict_is_no_list_of_texts(method):
    with pytest.raises(TypeError, match=r"pass list\(X.values\(\)\)"):
        getattr(streamnb.TextClassifier(), method)({"a": "free offer"}, ["x"])
