"""Kinds of input that each entrance reads in one way, or refuses: dicts, sets, types of levels."""

import json
import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from scipy.sparse import csr_matrix

import streamnb
import streamnb.sklearn
from streamnb.naive_bayes.matrices import as_classes

FRAME = pd.DataFrame(
    [[3, 0, 1], [0, 2, 1], [2, 1, 0], [0, 1, 3], [1, 0, 2]] * 4, columns=["b", "c", "a"]
)
LABELS = ["x", "y", "x", "y", "x"] * 4
TEXTS = ["cheap pills", "lunch at noon", "free pills", "noon train", "pills"] * 4
LEVELS = ["CategoricalNB", "MixedNB", "AODE", "LazyBayesianRules"]
TABLES = [*LEVELS, "GaussianNB", "GaussianDiscriminantAnalysis"]
TEXT_MODELS = ["TextClassifier", "MultinomialNB", "BernoulliNB", "ComplementNB"]


@pytest.fixture(params=TABLES)
def table_estimator(request):
    return getattr(streamnb.sklearn, request.param)()


def test_estimators_read_dicts_by_key(table_estimator):
    rows = FRAME.to_dict("records")
    model = table_estimator.fit(rows, LABELS)
    expected = model.predict_proba(rows)
    assert list(model.feature_names_in_) == list(FRAME.columns)
    for order in (["a", "b", "c"], ["c", "a", "b"]):
        np.testing.assert_array_equal(
            model.predict_proba(FRAME[order].to_dict("records")), expected
        )
    np.testing.assert_array_equal(model.predict_proba(FRAME), expected)
    np.testing.assert_array_equal(
        model.predict_proba([{"b": 3}]), model.predict_proba([{"b": 3, "a": None, "c": None}])
    )
    with pytest.raises(ValueError, match="unseen at fit time: B"):
        model.predict([{"B": 3}])
    with pytest.raises(ValueError, match="is not text"):
        model.fit([{1: 2}], ["x"])
    model.fit(FRAME.to_numpy(), LABELS)
    with pytest.raises(ValueError, match="fitted without feature names"):
        model.predict(rows)


# A table, and the same table with another type.
TYPES = {
    "numbers as text": (FRAME, FRAME.astype(str)),
    "floats as text": (FRAME.astype(float), FRAME.astype(str)),
    "truth values as text": (FRAME > 0, (FRAME > 0).astype(str)),
    "truth values of JSON": (FRAME > 0, (FRAME > 0).astype(str).map(str.lower)),
}
TYPES |= {f"{kind}, swapped": TYPES[kind][::-1] for kind in TYPES if kind != "truth values of JSON"}


ENTRANCES = {
    "predict": lambda model, X: model.predict(X),
    "predict_proba": lambda model, X: model.predict_proba(X),
    "partial_fit": lambda model, X: model.partial_fit(X, LABELS),
}
CORE_ENTRANCES = {
    "learn_one": lambda model, X: model.learn_one(X.to_dict("records")[0], "x"),
    "learn_many": lambda model, X: model.learn_many(X, LABELS),
    "predict_one": lambda model, X: model.predict_one(X.to_dict("records")[0]),
}


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_one_value_of_two_types_is_refused(module, name, kind):
    learned, other = TYPES[kind]
    model = getattr(module, name)().fit(learned, LABELS)
    before = model.predict_proba(learned)
    for call in (ENTRANCES | (CORE_ENTRANCES if module is streamnb else {})).values():
        with pytest.raises(ValueError, match=r"use one type for both|is not a number, but"):
            call(model, other)
    np.testing.assert_array_equal(model.predict_proba(learned), before)


@pytest.mark.parametrize("name", LEVELS)
def test_levels_of_several_types_that_differ_are_learned(name):
    model = getattr(streamnb, name)()
    rows = [{"a": 1}, {"a": "one"}, {"a": None}, {"a": 2.5}, {"a": "1_0"}, {"a": float("nan")}]
    model.learn_many(rows, list("xyxyxy"))
    model.predict_many([*rows, {"a": "two"}, {"a": 10}, {"a": "nan"}])


# A level, and the same level with another type.
TWINS = {
    "whole number": ("3", 3),
    "float": ("1.50", 1.5),
    "whole float": ("3.0", 3),
    "exponent": ("1e3", 1000.0),
    "leading zeros": ("007", 7),
    "more digits than a float": ("12345678901234567891", 12345678901234567891),
    "truth value": ("true", True),
}
swapped = pytest.mark.parametrize("order", [1, -1])


@pytest.mark.parametrize("kind", TWINS)
@pytest.mark.parametrize("name", ["CategoricalNB", "AODE", "LazyBayesianRules"])
@swapped
def test_twins_of_levels_are_refused_in_each_order(name, kind, order):
    first, second = TWINS[kind][::order]
    model = getattr(streamnb, name)()
    model.learn_one({"a": first}, "x")
    other = getattr(streamnb, name)()
    other.learn_one({"a": second}, "y")
    for call in (
        lambda: model.predict_one({"a": second}),
        lambda: model.learn_one({"a": second}, "y"),
        lambda: model.merge(other),
        lambda: getattr(streamnb, name)().learn_many([{"a": first}, {"a": second}], ["x", "y"]),
    ):
        with pytest.raises(ValueError, match="use one type for both"):
            call()
    assert model.labels == ["x"]


@pytest.mark.parametrize("name", ["CategoricalNB", "AODE", "MixedNB"])
@swapped
def test_unlearned_levels_do_not_forbid_another_type(name, order):
    first, second = ("3", 3)[::order]
    model = getattr(streamnb, name)()
    model.learn_one({"a": first}, "x")
    model.unlearn_one({"a": first}, "x")
    model.learn_one({"a": second}, "x")
    if name != "MixedNB":
        window = streamnb.WindowNB(getattr(streamnb, name)(), 2)
        for level in (first, "u", "v", second, second):
            window.learn_one({"a": level}, "x")


def test_levels_of_two_types_and_of_many_digits_are_learned():
    model = streamnb.CategoricalNB()
    model.learn_many([{"a": 10**5000}, {"a": "9" * 5000}, {"a": "x"}], ["x", "y", "y"])
    assert model.predict_one({"a": 10**5000}) == "x"
    twins = streamnb.CategoricalNB()
    with pytest.raises(ValueError, match="use one type for both"):
        twins.learn_many([{"a": i if i % 2 else f"{i + 1}"} for i in range(20_000)], ["x"] * 20_000)


def as_frame(values):
    return pd.DataFrame({"label": values})


@pytest.mark.parametrize("name", [*TEXT_MODELS, *TABLES])
def test_labels_and_rows_without_an_order_are_refused(name):
    model = getattr(streamnb, name)()
    X = TEXTS if name == "TextClassifier" else FRAME
    for y in ({"x", "y"}, frozenset("xy"), None, "xy", dict.fromkeys("xy")):
        for learn in (model.fit, model.learn_many):
            with pytest.raises(ValueError, match="the labels are a "):
                learn(X[:2], y)
    for y in ([["x"], ["y"]], [{"x"}, {"y"}]):
        for learn in (model.fit, model.learn_many):
            with pytest.raises(TypeError, match="a label must be one text, number or truth value"):
                learn(X[:2], y)
    with pytest.raises(TypeError, match=r"a label must be one text|unhashable type: 'list'"):
        model.learn_one(X[0] if name == "TextClassifier" else {"a": 1}, ["x"])
    with pytest.raises(ValueError, match=r"the labels have the shape \(2, 2\)"):
        model.fit(X[:2], np.eye(2))
    assert not model.labels
    for y in (np.array(LABELS)[:, None], as_frame(LABELS), iter(LABELS)):
        assert list(model.fit(X, y).classes_) == ["x", "y"]


# Values of which there is one for each example, and the reason why they are refused.
WRONG_COLUMNS = {
    "set": ({1.0, 2.0}, "are a set"),
    "text": ("ab", "are a str"),
    "dict": ({"a": 1.0, "b": 2.0}, "are a dict"),
    "sparse": (csr_matrix([[1.0], [2.0]]), "are a csr_matrix"),
    "wide": (np.ones((2, 2)), r"have the shape \(2, 2\)"),
}


@pytest.mark.parametrize("kind", WRONG_COLUMNS)
@pytest.mark.parametrize("name", ["MultinomialNB", *TABLES])
def test_wrong_labels_weights_and_classes_are_named(name, kind):
    values, error = WRONG_COLUMNS[kind]
    model = getattr(streamnb, name)()
    X, labels = FRAME[:2], ["x", "y"]
    with pytest.raises(ValueError, match=f"the labels {error}"):
        model.learn_many(X, values)
    with pytest.raises(ValueError, match=f"the weights {error}|the weight is 'ab'"):
        model.learn_many(X, labels, values)
    if kind != "set":
        with pytest.raises(ValueError, match=f"the classes {error}"):
            model.partial_fit(X, labels, classes=values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        model.learn_many(X, np.asmatrix([1, 2]).T)
    assert model.labels == [1, 2]


@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
@pytest.mark.parametrize("name", [*TABLES, *TEXT_MODELS])
def test_the_score_of_too_few_labels_or_rows_is_an_error(module, name):
    X = TEXTS if name == "TextClassifier" else FRAME
    model = getattr(module, name)().fit(X, LABELS)
    for n in (0, 19):
        with pytest.raises(ValueError, match=rf"20 examples, but {n} labels|\[{n}, 20\]"):
            model.score(X, LABELS[:n])
    with pytest.raises(ValueError, match=r"[Ff]ound.* 0 sample"):
        model.score(X[:0], [])


def test_a_set_of_classes_has_one_order():
    classes = {1, "c", "a", 2.5, "b"}
    assert as_classes(classes) == [2.5, 1, "a", "b", "c"]


@pytest.mark.parametrize("name", TABLES)
def test_rows_of_dicts_can_be_an_array_and_must_have_a_key(name):
    rows = FRAME.to_dict("records")
    model = getattr(streamnb.sklearn, name)().fit(np.array(rows), LABELS)
    np.testing.assert_array_equal(model.predict_proba(np.array(rows)), model.predict_proba(FRAME))
    with pytest.raises(ValueError, match="found 0 features"):
        model.fit([{}, {}], ["x", "y"])


@pytest.mark.parametrize("make", [pd.DataFrame.to_numpy, lambda frame: frame.to_numpy().tolist()])
@pytest.mark.parametrize("name", TABLES)
def test_a_window_learns_rows_as_its_model(name, make):
    rows = make(FRAME)
    model = getattr(streamnb, name)()
    window = streamnb.WindowNB(model.clone(), 100)
    model.learn_many(rows, LABELS)
    window.learn_many(rows, LABELS)
    np.testing.assert_allclose(window.predict_proba_many(rows), model.predict_proba_many(rows))


@pytest.mark.parametrize("name", TEXT_MODELS)
def test_a_set_of_texts_is_refused(name):
    estimator = getattr(streamnb.sklearn, name)().fit(TEXTS, LABELS)
    core = streamnb.TextClassifier().fit(TEXTS, LABELS)
    for call in (
        lambda: estimator.fit(set(TEXTS), LABELS[:5]),
        lambda: estimator.predict(set(TEXTS)),
        lambda: core.fit(set(TEXTS), LABELS[:5]),
        lambda: core.learn_many(frozenset(TEXTS), LABELS[:5]),
        lambda: core.predict_many(set(TEXTS)),
        lambda: core.predict(set(TEXTS)),
    ):
        with pytest.raises(ValueError, match="X is a set"):
            call()


def test_declared_classes_can_be_a_set():
    for model in (streamnb.CategoricalNB(), streamnb.sklearn.CategoricalNB()):
        model.partial_fit(FRAME[:1], ["x"], classes={"y", "x"})
        assert list(model.classes_) == ["x", "y"]


@pytest.mark.parametrize("name", ["TextClassifier", "MailClassifier", "Classifier"])
def test_classifiers_have_the_methods_of_models(name):
    model = getattr(streamnb, name)
    model = (
        model(streamnb.Tokenizer(), streamnb.MultinomialNB()) if name == "Classifier" else model()
    )
    with pytest.raises(ValueError, match="not trained"):
        model.predict(TEXTS)
    model.fit(TEXTS, LABELS)
    assert model.predict(TEXTS).tolist() == model.predict_many(TEXTS).tolist() == LABELS
    np.testing.assert_allclose(model.predict_proba(TEXTS), model.predict_proba_many(TEXTS))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(TEXTS)).sum(axis=1), 1)
    assert model.score(TEXTS, LABELS) == 1


CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "iterator": iter,
    "array": np.array,
    "array of objects": lambda texts: np.array(texts, dtype=object),
    "column of an array": lambda texts: np.array(texts)[:, None],
    "series": pd.Series,
    "series of strings": lambda texts: pd.Series(texts, dtype="string"),
    "index": pd.Index,
    "frame with one column": lambda texts: pd.DataFrame({"text": texts}),
    "polars series": polars.Series,
    "polars frame": lambda texts: polars.DataFrame({"text": texts}),
    "arrow array": pyarrow.array,
    "arrow chunks": lambda texts: pyarrow.chunked_array([texts[:3], texts[3:]]),
    "arrow table": lambda texts: pyarrow.table({"text": texts}),
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_texts_of_every_container_are_texts(module, kind):
    make = CONTAINERS[kind]
    expected = module.TextClassifier().fit(TEXTS, LABELS).predict_proba(TEXTS[:4])
    model = module.TextClassifier().fit(make(TEXTS), LABELS)
    np.testing.assert_array_equal(model.predict_proba(make(TEXTS[:4])), expected)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, 3])
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_errors_name_the_row_that_is_not_text(module, missing):
    model = module.TextClassifier().fit(TEXTS, LABELS)
    X = pd.Series([*TEXTS[:2], missing, *TEXTS[2:4]], dtype=object)
    for call in (
        lambda: model.predict(X),
        lambda: model.fit(X, LABELS[:5]),
        lambda: module.TextClassifier().fit(X.to_frame(), LABELS[:5]),
    ):
        remedy = "row 2: " if isinstance(missing, int) else "row 2: .* replace it by ''"
        with pytest.raises((TypeError, ValueError), match=remedy):
            call()
    with pytest.raises(ValueError, match="on="):
        model.fit(pd.DataFrame({"a": TEXTS, "b": TEXTS}), LABELS)


# Kinds of rows that have the values of a frame.
class OtherArray:
    """An array of another library, such as a tensor: its items are such arrays, too."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return map(OtherArray, self.values)

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)


class Collection:
    """A collection of dask, whose values are computed on demand."""

    def __init__(self, values):
        self.values = values

    def __dask_graph__(self):
        return {}

    def compute(self):
        return self.values


COLLECTIONS = {
    "array of another library": lambda values: OtherArray(values.to_numpy()),
    "frame of dask": Collection,
    "array of dask": lambda values: Collection(values.to_numpy()),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
@pytest.mark.parametrize("name", [*TABLES, "TextClassifier", "MailClassifier", "MultinomialNB"])
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_collections_of_other_libraries_are_computed(module, name, kind):
    convert = COLLECTIONS[kind]
    X = pd.Series(TEXTS) if name.endswith("Classifier") else FRAME
    y, weights = pd.Series(LABELS), pd.Series([1.0, 2.0] * 10)
    is_core = module is streamnb
    for method in ("fit", "partial_fit", *(["learn_many"] if is_core else [])):
        models = [getattr(module, name)() for _ in range(2)]
        arguments = [X if kind == "frame of dask" else X.to_numpy(), y, weights]
        getattr(models[0], method)(*arguments[:2])
        getattr(models[1], method)(*map(convert, (X, y)))
        for model, part in zip(models, (arguments, map(convert, (X, y, weights))), strict=True):
            rows, labels, shares = part
            model.partial_fit(rows, labels, sample_weight=shares)
        for predict in ("predict", "predict_proba", *(["predict_many"] if is_core else [])):
            expected, values = (
                np.asarray(getattr(model, predict)(rows))
                for model, rows in zip(models, (arguments[0], convert(X)), strict=True)
            )
            np.testing.assert_array_equal(values, expected)
        assert models[1].score(convert(X), convert(y)) == models[0].score(arguments[0], y)


def test_a_tokenizer_transforms_collections_of_other_libraries():
    for convert in COLLECTIONS.values():
        texts = convert(pd.Series(TEXTS))
        matrix = streamnb.Tokenizer().fit(texts).transform(texts)
        assert (matrix != streamnb.Tokenizer().fit_transform(TEXTS)).nnz == 0


ROWS_OF_FRAME = {
    "generator": lambda frame: (row for row in frame.to_numpy()),
    "iterator of lists": lambda frame: iter(frame.to_numpy().tolist()),
    "tuple of tuples": lambda frame: tuple(map(tuple, frame.to_numpy().tolist())),
    "matrix": lambda frame: np.asmatrix(frame.to_numpy()),
}
ROW_ENTRANCES = {
    "fit": lambda model, X: model.fit(X, LABELS),
    "partial_fit": lambda model, X: model.partial_fit(X, LABELS),
    "learn_many": lambda model, X: model.learn_many(X, LABELS) or model,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("entrance", ROW_ENTRANCES)
@pytest.mark.parametrize("kind", ROWS_OF_FRAME)
@pytest.mark.parametrize("name", [*TABLES, "MultinomialNB", "BernoulliNB"])
def test_rows_of_every_container_are_rows(name, kind, entrance):
    rows, learn = ROWS_OF_FRAME[kind], ROW_ENTRANCES[entrance]
    expected = learn(getattr(streamnb, name)(), FRAME.to_numpy()).predict_proba(FRAME.to_numpy())
    model = learn(getattr(streamnb, name)(), rows(FRAME))
    np.testing.assert_array_equal(model.predict_proba(rows(FRAME)), expected)


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
@pytest.mark.parametrize("name", ["MultinomialNB", "BernoulliNB"])
def test_a_column_of_texts_among_counts_is_named(name, dtype):
    frame = FRAME.assign(t=pd.Series([None, *TEXTS[1:]], dtype=dtype))
    with pytest.raises(ValueError, match="the column 't' is text"):
        getattr(streamnb.sklearn, name)().fit(frame, LABELS)


@pytest.mark.parametrize("name", [*TABLES, *TEXT_MODELS])
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_labels_of_another_type_have_no_score(module, name):
    X = TEXTS if name == "TextClassifier" else FRAME
    numbers = [int(label == "x") for label in LABELS]
    for labels, others in ((numbers, list(map(str, numbers))), (LABELS, numbers)):
        model = getattr(module, name)().fit(X, labels)
        assert model.score(X, labels) > 0
        for y in (others, [None] * len(X)):
            with pytest.raises((TypeError, ValueError)):
                model.score(X, y)
    assert getattr(module, name)().fit(X, numbers).score(X, list(map(float, numbers))) > 0


@pytest.mark.parametrize("scalar", [np.bool_, np.int64, np.float32, np.str_])
@pytest.mark.parametrize("name", [*TABLES, *TEXT_MODELS])
def test_scalars_of_numpy_become_labels_of_python(name, scalar):
    model = getattr(streamnb, name)()
    row = "a text" if name == "TextClassifier" else {"a": 1}
    for label in map(scalar, (0, 1)):
        model.learn_one(row, label)
    assert [type(label) for label in model.labels] == [type(scalar(0).item())] * 2
    assert json.loads(json.dumps(model.predict_proba_one(row)))
    model.unlearn_one(row, scalar(1), receipt=model.receipt)
    with pytest.raises(TypeError, match=r"a label is a StringScalar: pass label.as_py\(\)"):
        model.learn_one(row, pyarrow.scalar("x"))


def test_errors_of_counts_say_what_to_do():
    rows = FRAME.to_dict("records")
    with pytest.raises(ValueError, match="for dicts of counts use learn_many"):
        streamnb.MultinomialNB().fit(rows, LABELS)
    with pytest.raises(ValueError, match="alternate_sign=False"):
        streamnb.sklearn.MultinomialNB().fit(-FRAME, LABELS)


NO_LABELS = {"list": ["x"], "set": {"x"}, "dict": {"x": 1}, "array": np.array(["x", "y"])}
ROWS = [
    ("x", ("TextClassifier", "MailClassifier")),
    ({0: 1}, ("MultinomialNB", "BernoulliNB", "ComplementNB", "DiscriminativeMultinomialNB")),
    ({"a": 1.0}, ("GaussianNB", "GaussianDiscriminantAnalysis", "MixedNB")),
    ({"a": "b"}, ("CategoricalNB", "AODE", "LazyBayesianRules")),
]
MODELS_AND_ROWS = {name: row for row, names in ROWS for name in names}


@pytest.mark.parametrize("label", NO_LABELS.values(), ids=NO_LABELS)
@pytest.mark.parametrize("name", MODELS_AND_ROWS)
def test_every_entry_point_refuses_the_same_labels(name, label):
    model, row = getattr(streamnb, name)(), MODELS_AND_ROWS[name]
    rows = [[1.0]] if row == {0: 1} else [row]
    for _ in range(2):  # before and after the first examples
        for method, arguments in (
            ("learn_one", (row, label)),
            ("learn_many", (rows, [label])),
            ("fit", (rows, [label])),
            ("partial_fit", (rows, ["p"], [label])),
            ("unlearn_one", (row, label)),
            ("top_features", (label,)),
        ):
            if not hasattr(model, method):
                continue
            if method == "unlearn_one" and name not in ("MultinomialNB", "GaussianNB", "AODE"):
                continue  # the others check the receipt first, or compare with stored examples
            with pytest.raises(
                (TypeError, ValueError), match=r"a label must be one text|labels have the shape"
            ):
                getattr(model, method)(*arguments)
        model.learn_one(row, "p")
        model.learn_one(row, "q")


CODES = {
    "pandas": lambda codes: pd.DataFrame({"code": pd.Categorical(codes), "size": [1.5, 2.5] * 10}),
    "polars": lambda codes: polars.DataFrame(
        {"code": polars.Series(map(str, codes), dtype=polars.Categorical), "size": [1.5, 2.5] * 10}
    ),
}


@pytest.mark.parametrize("library", CODES)
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_a_column_of_categories_has_levels_of_any_type(module, library):
    codes = [1, 3, 2, 3] * 5  # the mean of the first class is that of the second
    labels = ["odd" if code == 3 else "even" for code in codes]
    frame = CODES[library](codes)
    model = module.MixedNB().fit(frame, labels)
    fitted = getattr(model, "model_", model)
    assert fitted.statistics.number_names() == {"size"}
    names = list(fitted.statistics.levels.learned_levels("code"))
    assert sorted(map(str, names)) == ["1", "2", "3"]
    assert model.predict(frame).tolist() == labels
    # The type of the column is not needed to predict.
    for level, label in zip(names, ["even", "odd", "even"], strict=True):
        assert fitted.predict_one({"code": level}) == label
    if library == "pandas":  # polars' categories are texts
        fitted.learn_one({"code": 7, "size": 1.5}, "odd")
        assert fitted.statistics.number_names() == {"size"}


def test_numbers_and_categories_of_one_name_are_refused_in_any_order():
    frame = pd.DataFrame({"code": pd.Categorical([1, 2] * 5)})
    labels = ["p", "q"] * 5
    numbers, levels = streamnb.MixedNB(), streamnb.MixedNB().fit(frame, labels)
    numbers.learn_one({"code": 1}, "p")
    before = numbers.predict_proba_one({"code": 1}), numbers.class_weights
    for call in (
        lambda: numbers.learn_many(frame, labels),
        lambda: numbers.predict_many(frame),
        lambda: numbers.merge(levels),
        lambda: levels.merge(numbers),
    ):
        with pytest.raises(ValueError, match=r"'code': its numbers .* list 'code' in categorical"):
            call()
    assert (numbers.predict_proba_one({"code": 1}), numbers.class_weights) == before
    numbers.unlearn_one({"code": 1}, "p")
    numbers.learn_many(frame, labels)
    for row in ({"code": 1}, {"code": 3}):
        assert numbers.predict_proba_one(row) == levels.predict_proba_one(row)
    settled = streamnb.MixedNB(categorical=["code"])
    settled.learn_one({"code": 1}, "p")
    settled.learn_many(frame, labels)
    levels.learn_one({"code": 1}, "p")
    assert settled.predict_proba_one({"code": 2}) == levels.predict_proba_one({"code": 2})


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_arrays_of_numpy_strings_have_levels(module, name):
    rows = np.array([["a", "b"], ["b", "a"]] * 10, dtype=np.dtypes.StringDType())
    labels = np.array(["x", "y"] * 10, dtype=np.dtypes.StringDType())
    model = getattr(module, name)().fit(rows, labels)
    assert model.predict(rows).tolist() == ["x", "y"] * 10


@pytest.mark.parametrize("name", streamnb.sklearn.__all__)
@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
def test_models_with_mapped_arrays_learn(module, name, tmp_path):
    X = np.random.default_rng(2).poisson(1, (30, 4)).astype(float)
    labels = ["p", "q", "r"] * 10
    rows = [f"w{int(a)} v{int(b)}" for a, b, *_ in X] if "Classifier" in name else X
    model = getattr(module, name)().fit(rows, labels)
    joblib.dump(model, tmp_path / "model")
    content = (tmp_path / "model").read_bytes()
    mapped = [joblib.load(tmp_path / "model", mmap_mode=mode) for mode in ("r", "r+")]
    buffers = []
    data = pickle.dumps(model, 5, buffer_callback=buffers.append)
    readonly = pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])
    expected = model.partial_fit(rows, labels).predict_proba(rows)
    for loaded in (*mapped, readonly):
        assert (loaded.partial_fit(rows, labels).predict_proba(rows) == expected).all()
    assert (tmp_path / "model").read_bytes() == content


@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
@pytest.mark.parametrize("name", [*TABLES, *TEXT_MODELS[1:]])
def test_rows_of_no_columns_are_answered_by_the_prior_or_refused(module, name):
    model = getattr(module, name)()
    if module is streamnb.sklearn:
        with pytest.raises(ValueError, match="0 feature"):
            model.fit(np.empty((4, 0)), list("xxxy"))
        return
    expected = [[0.75, 0.25]] * 2
    for X in (np.empty((4, 0)), np.ones((4, 2))):
        probabilities = model.fit(X, list("xxxy")).predict_proba(np.empty((2, 0)))
        # Absent features count in BernoulliNB; the prior of LazyBayesianRules is smoothed.
        if name not in ("BernoulliNB", "ComplementNB", "LazyBayesianRules"):
            np.testing.assert_allclose(probabilities, expected)


@pytest.mark.parametrize("module", [streamnb, streamnb.sklearn])
@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]", "U"])
@pytest.mark.parametrize("name", ["GaussianNB", "GaussianDiscriminantAnalysis", *TEXT_MODELS[1:]])
def test_dates_and_texts_are_no_numbers(module, name, dtype):
    X = np.arange(8).reshape(4, 2).astype(dtype)
    with pytest.raises(ValueError, match=r"not a number|not real numbers|numeric"):
        getattr(module, name)().fit(X, list("xyxy"))
