"""Columns, classes and parameters as scikit-learn's own scorers and meta-estimators read them."""

import copy
import re

import numpy as np
import pandas as pd
import pytest
from sklearn import naive_bayes
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import VotingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer

import streamnb
from streamnb import sklearn as estimators
from streamnb import tables

COUNTS = ["MultinomialNB", "BernoulliNB", "ComplementNB", "DiscriminativeMultinomialNB"]
# Each entrance by which a class comes to a model of matrices.
MODELS = {
    **{f"sklearn.{name}": getattr(estimators, name) for name in COUNTS},
    **{f"streamnb.{name}": getattr(streamnb, name) for name in COUNTS},
    "tables.GaussianNB": tables.GaussianNB,
}
LABELS = {"text": ("spam", "ham", "work"), "integers": (7, -1, 3)}


def examples(labels, n=300, seed=5):
    """Rows of counts in which column k is high for class k, sorted so that labels[0] comes first."""
    rng = np.random.default_rng(seed)
    index = np.sort(rng.integers(0, len(labels), n))
    X = rng.poisson(0.3, (n, 2 * len(labels)))
    X[np.arange(n), index] += rng.poisson(2.0, n)
    return X.astype(float), np.array(labels)[index]


def learned_in_chunks(model, X, y, size=37):
    for start in range(0, len(y), size):
        model.partial_fit(X[start : start + size], y[start : start + size])
    return model


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("name", MODELS)
def test_columns_are_sorted_however_classes_arrive(name, labels):
    X, y = examples(labels)
    model = learned_in_chunks(MODELS[name](), X, y)
    whole = MODELS[name]().fit(X, y)
    assert list(model.classes_) == sorted(labels)
    for method in ("predict_proba", "predict_log_proba"):
        columns = getattr(model, method)(X)
        assert columns.shape == (len(y), len(labels))
        np.testing.assert_allclose(
            np.exp(columns).sum(axis=1) if "log" in method else columns.sum(axis=1), 1
        )
    if "Discriminative" not in name:  # which depends on the order
        np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert (model.predict(X) == model.classes_[model.predict_proba(X).argmax(axis=1)]).all()


@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("sklearn.")])
@pytest.mark.parametrize("labels", [("spam", "ham"), (1, 0), ("b", "a", "c")], ids=str)
def test_scorers_read_the_right_columns(name, labels):
    X, y = examples(labels)
    model = learned_in_chunks(MODELS[name](), X, y)
    scorer = "roc_auc" if len(labels) == 2 else "roc_auc_ovr"
    assert get_scorer(scorer)(model, X, y) > 0.8
    assert get_scorer("accuracy")(model, X, y) > 0.7
    assert -1.0 < get_scorer("neg_log_loss")(model, X, y) < 0


@pytest.mark.parametrize("name", COUNTS)
def test_meta_estimators_take_a_model_of_partial_fit(name):
    X, y = examples(("spam", "ham"))
    model = learned_in_chunks(getattr(estimators, name)(), X, y)
    calibrated = CalibratedClassifierCV(FrozenEstimator(model)).fit(X, y)
    assert calibrated.score(X, y) > 0.7
    voting = VotingClassifier(
        [("nb", FrozenEstimator(model)), ("lr", LogisticRegression())], voting="soft"
    ).fit(X, y)
    assert voting.score(X, y) > 0.8


@pytest.mark.parametrize("name", [f"streamnb.{name}" for name in COUNTS])
def test_many_and_one_agree_on_labels_and_probabilities(name):
    X, y = examples(LABELS["text"], 60)
    model = learned_in_chunks(MODELS[name](), X, y)
    proba = model.predict_proba_many(X)
    messages = [{int(j): row[j] for j in np.flatnonzero(row)} for row in X]
    for row, message in zip(proba, messages, strict=True):
        expected = model.predict_proba_one(message)
        np.testing.assert_allclose(row, [expected[label] for label in model.classes_], rtol=1e-9)


@pytest.mark.parametrize("name", COUNTS)
def test_another_tokenizer_after_fit_is_refused(name):
    texts, labels = ["free offer now", "lunch at noon"], ["spam", "ham"]
    model = getattr(estimators, name)().fit(texts, labels)
    model.set_params(tokenizer=streamnb.Tokenizer(ngrams=(1, 2)))
    for call in (lambda: model.predict(texts), lambda: model.partial_fit(texts, labels)):
        with pytest.raises(ValueError, match="tokenizer has changed since fit"):
            call()
    assert list(model.fit(texts, labels).predict(texts)) == labels


LABEL_ARRAYS = [
    np.array(["2026-01-31", "2026-02-01"], dtype="datetime64[D]"),
    np.array(["2026-01-31T10", "2026-02-01T11"], dtype="datetime64[ns]"),
    np.array([2**63 + 5, 7], dtype=np.uint64),
    np.array([3, -3], dtype=np.int8),
    np.array([1.0, 2.0], dtype=np.float32),
    np.array([True, False]),
    np.array(["spam", "ham"]),
]


@pytest.mark.parametrize("labels", LABEL_ARRAYS, ids=lambda labels: str(labels.dtype))
@pytest.mark.parametrize("name", estimators.__all__)
def test_predictions_have_the_dtype_of_the_labels(name, labels):
    X = np.array([[3, 0], [0, 3]] * 6)
    X = ["free offer" if row[0] else "lunch at noon" for row in X] if "Classifier" in name else X
    y = np.tile(labels, 6)
    model = getattr(estimators, name)()
    for fitted in (model.fit(X, y), model.partial_fit(X, y)):
        assert fitted.classes_.dtype == y.dtype
        assert fitted.predict(X).dtype == y.dtype
        assert fitted.score(X, y) == 1.0
    late = labels[:1] if labels.dtype.kind != "U" else np.array(["newsletter"])
    assert set(late) <= set(model.partial_fit(X[:1], late).classes_)


@pytest.mark.parametrize("name", COUNTS)
def test_a_tokenizer_reads_its_column_of_a_frame(name):
    frame = pd.DataFrame({"title": ["free offer", "lunch"] * 4, "size": range(8)})
    y = ["spam", "ham"] * 4
    model = getattr(estimators, name)(tokenizer=streamnb.Tokenizer(on="title")).fit(frame, y)
    texts = getattr(estimators, name)().fit(frame["title"], y)
    assert (model.predict_proba(frame) == texts.predict_proba(frame["title"])).all()
    with pytest.raises(ValueError, match="no column 'title'"):
        model.predict(frame[["size"]])


@pytest.mark.parametrize("word", ["fit_prior", "class_prior"])
def test_words_of_scikit_learn_that_mean_something_else_are_refused(word):
    """There, complement Naive Bayes ignores the prior of two classes or more."""
    with pytest.raises(TypeError, match="scikit-learn ignores it"):
        estimators.ComplementNB(**{word: True})


# Labels of two types in one estimator, by the calls that bring them in.
MIXED_LABELS = {
    "fit": lambda model, X: model.fit(X, [0, "a"]),
    "declared": lambda model, X: model.partial_fit(X, [0, 1], classes=["0", "1"]),
    "later": lambda model, X: model.partial_fit(X, [0, 1]).partial_fit(X, ["0", "1"]),
    "declared later": lambda model, X: model.fit(X, ["a", "b"]).partial_fit(X, ["a", "b"], [0, 1]),
    "array": lambda model, X: model.fit(X, np.array([True, "a"], dtype=object)),
}
ALL_ESTIMATORS = [getattr(streamnb.sklearn, name) for name in streamnb.sklearn.__all__]


def two_rows(estimator):
    texts = ["free pills", "lunch at noon"]
    return texts if estimator.__name__.endswith("Classifier") else [[1.0, 0.0], [0.0, 2.0]]


@pytest.mark.parametrize("estimator", ALL_ESTIMATORS)
def test_a_copy_that_learns_leaves_the_original(estimator):
    rows = two_rows(estimator)
    original = estimator().fit(rows, ["spam", "ham"])
    before = original.predict_proba(rows).tolist()
    for model in (original, original.model_):
        copied = copy.copy(model).partial_fit(rows, ["spam", "news"])
        assert copied.predict_proba(rows).shape == (2, 3)
        assert original.predict_proba(rows).tolist() == before
    assert list(original.classes_) == ["ham", "spam"]


@pytest.mark.parametrize("estimator", ALL_ESTIMATORS)
@pytest.mark.parametrize("call", MIXED_LABELS)
def test_labels_are_of_one_type(estimator, call):
    with pytest.raises(ValueError, match="labels of mixed types"):
        MIXED_LABELS[call](estimator(), two_rows(estimator))


@pytest.mark.parametrize(
    "estimator", [each for each in ALL_ESTIMATORS if "prior" in each().get_params()]
)
def test_a_prior_names_the_classes_and_no_other(estimator):
    X = two_rows(estimator)
    estimator(prior={"a": 0.3, "b": 0.7}).fit(X, ["a", "b"])
    with pytest.raises(ValueError, match="no example is of class 'c'"):
        estimator(prior={"a": 0.3, "b": 0.5, "c": 0.2}).fit(X, ["a", "b"])
    estimator(prior={"a": 0.3, "b": 0.5, "c": 0.2}).partial_fit(X, ["a", "b"], ["a", "b", "c"])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_parameters_may_be_floats_of_numpy(kind):
    model = streamnb.sklearn.MultinomialNB(alpha=kind(0.5)).fit([[1, 0], [0, 1]], [0, 1])
    assert model.predict_proba([[1, 0]])[0, 0] == pytest.approx(0.75)


def test_binary_features_need_no_threshold():
    X = [[1, 0], [0, 1], [1, 1]]
    binary, default = (
        streamnb.sklearn.BernoulliNB(**options).fit(X, [0, 1, 0]).predict_proba(X)
        for options in ({"binarize": None}, {})
    )
    assert binary.tolist() == default.tolist()


@pytest.mark.parametrize("name", ["words__ngrams", "alpha__x"])
def test_a_parameter_without_parameters_is_named(name):
    with pytest.raises(ValueError, match=rf"{name.partition('__')[0]}: .* has no parameters"):
        streamnb.TextClassifier().set_params(**{name: (1, 2)})


@pytest.mark.parametrize("model", ["MultinomialNB", "BernoulliNB", "ComplementNB"])
def test_a_model_of_counts_names_the_tokenizer_that_texts_need(model):
    with pytest.raises(ValueError, match=r"for texts use Tokenizer\(\)"):
        getattr(streamnb, model)().learn_many(["free pills", "lunch"], ["spam", "ham"])


def test_columns_are_in_the_order_of_classes():
    model = streamnb.TextClassifier()
    for text, label in (("x", "z"), ("y", "a"), ("w", "m")):
        model.learn_one(text, label)
    assert (model.labels, model.classes_.tolist()) == (["z", "a", "m"], ["a", "m", "z"])
    for text in "xyw":
        shares = dict(
            zip(model.classes_.tolist(), model.predict_proba_many([text])[0], strict=True)
        )
        assert shares == pytest.approx(model.predict_proba_one(text))


CLASSES = [
    *(getattr(estimators, name) for name in estimators.__all__),
    *(getattr(streamnb, name) for name in estimators.__all__),
    streamnb.Tokenizer,
]
# Parameters of scikit-learn's naive Bayes, discriminant analysis, vectorizers and linear models.
FOREIGN_NAMES = sorted(
    {
        name
        for cls in (
            naive_bayes.BernoulliNB,
            naive_bayes.CategoricalNB,
            naive_bayes.ComplementNB,
            naive_bayes.GaussianNB,
            QuadraticDiscriminantAnalysis,
            LinearDiscriminantAnalysis,
            TfidfVectorizer,
            LogisticRegression,
        )
        for name in cls().get_params()
    }
)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_an_error_names_only_parameters_that_exist(cls):
    for name in set(FOREIGN_NAMES) - cls.parameter_table.keys():
        try:
            cls(**{name: object()})
        except TypeError as error:
            message = str(error)
        except ValueError:  # a synonym with a wrong value
            continue
        else:  # a synonym in an estimator, which checks values in `fit`
            continue
        assert re.search(
            r": (use|pass|set|leave|train|it belongs|scikit-learn ignores) |; (did you|it has) ",
            message,
        )
        own, _, of_tokenizer = message.partition("Tokenizer(...)")
        advised = set(re.findall(r"(\w+)=", own)) - {name}
        if cls is streamnb.Tokenizer:
            advised -= {"max_features"}
        else:
            advised -= {"sample_weight"}
        assert advised <= cls.parameter_table.keys(), message
        advised = set(re.findall(r"(\w+)=", of_tokenizer)) - {name}
        assert advised <= streamnb.Tokenizer.parameter_table.keys(), message


@pytest.mark.parametrize("cls", CLASSES[:-1], ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_every_classifier_takes_sample_weight(cls):
    takes_texts = cls.__name__ in ("TextClassifier", "MailClassifier")
    X = ["buy pills", "lunch"] * 4 if takes_texts else np.array([[1, 0], [0, 2]] * 4)
    labels = ["spam", "ham"] * 4
    weights = [3, 1] * 4
    model = cls().fit(X, labels, sample_weight=weights)
    assert model.score(X, labels, sample_weight=weights) == 1
    model.partial_fit(X, labels, classes=["ham", "spam", "work"], sample_weight=weights)
    assert list(model.classes_) == ["ham", "spam", "work"]
    assert model.predict_proba(X).shape == (8, 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", ALL_ESTIMATORS)
def test_classes_of_a_failed_partial_fit_are_not_declared(estimator):
    rows = two_rows(estimator)
    trained = estimator().fit(rows, ["x", "y"])
    expected = trained.predict_proba(rows)
    bad_rows = ["free", 3] if isinstance(rows[0], str) else [[1e200, 0.0], [1.0, 0.0]]
    for new_rows, weights in [(bad_rows, [1, 1]), (rows, [1, 1e-200]), (rows, [1, -1])]:
        model = copy.deepcopy(trained)
        try:
            model.partial_fit(new_rows, ["x", "new"], ["new", "x", "y", "z"], weights)
        except (TypeError, ValueError):
            np.testing.assert_array_equal(model.predict_proba(rows), expected)
            assert list(model.classes_) == list(model.model_.classes_) == ["x", "y"]
