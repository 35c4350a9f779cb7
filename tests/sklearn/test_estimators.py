"""The estimator of every public model: scikit-learn's contract, and its meta-estimators over them."""

import copy
import pickle
from collections import deque
from inspect import signature

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB as ReferenceBernoulliNB
from sklearn.naive_bayes import ComplementNB as ReferenceComplementNB
from sklearn.naive_bayes import GaussianNB as ReferenceGaussianNB
from sklearn.naive_bayes import MultinomialNB as ReferenceMultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import streamnb
from streamnb import sklearn as estimators

COUNTS = ["MultinomialNB", "BernoulliNB", "ComplementNB", "DiscriminativeMultinomialNB"]
NUMBERS = ["GaussianNB", "GaussianDiscriminantAnalysis"]
LEVELS = ["CategoricalNB", "MixedNB", "AODE", "LazyBayesianRules"]
MESSAGES = ["TextClassifier", "MailClassifier"]
TEXTUAL = COUNTS + MESSAGES
# The public models that have no estimator, and why.
WITHOUT_ESTIMATOR = {
    "Classifier": "any tokenizer and any model: each estimator takes a tokenizer",
    "ViewsNB": "takes several views of a message, as TextClassifier makes them",
    "WindowNB": "a window of the last examples has no meaning where folds are shuffled",
}


def new_estimator(name, **parameters):
    return getattr(estimators, name)(**parameters)


def test_every_public_model_has_an_estimator():
    models = {
        name
        for name in streamnb.__all__
        if name.endswith(("NB", "AODE", "Analysis", "Rules", "Classifier"))
    }
    assert models - set(estimators.__all__) == set(WITHOUT_ESTIMATOR)
    assert set(estimators.__all__) == {*COUNTS, *NUMBERS, *LEVELS, *MESSAGES}
    for name in estimators.__all__:
        estimator, model = new_estimator(name), getattr(streamnb, name)
        table = dict(estimator.parameter_table)
        if name in COUNTS:
            del table["tokenizer"]
        elif name in MESSAGES:  # scikit-learn wants a plain tuple, with the same values
            assert table.pop("costs").default == model.parameter_table["costs"].default
            table["costs"] = model.parameter_table["costs"]
        assert table == model.parameter_table
        assert estimator.get_params(deep=False).keys() == estimator.parameter_table.keys()


# scikit-learn's checks pass matrices of numbers; estimators of texts get a text of each row.
def reads_numbers(estimator_class):
    class Numbers(estimator_class):
        def __sklearn_tags__(self):
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array, tags.input_tags.string = True, False
            return tags

        def _read(self, X, reset):
            X = validate_data(self, X, dtype=np.float64, reset=reset)
            return [" ".join(f"c{j}v{round(x)}" for j, x in enumerate(row)) for row in X]

    Numbers.__name__ = Numbers.__qualname__ = estimator_class.__name__
    globals()[f"Numbers{estimator_class.__name__}"] = Numbers
    Numbers.__qualname__ = f"Numbers{estimator_class.__name__}"  # where pickle finds it
    return Numbers


CHECKED = [new_estimator(name) for name in COUNTS + NUMBERS + LEVELS] + [
    reads_numbers(getattr(estimators, name))() for name in MESSAGES
]
SURPRISE = "a message seen twice is less of a surprise the second time"
EXPECTED_FAILURES = {
    "DiscriminativeMultinomialNB": {
        "check_sample_weight_equivalence_on_dense_data": SURPRISE,
        "check_sample_weight_equivalence_on_sparse_data": SURPRISE,
    },
    "NumbersTextClassifier": {"check_sample_weight_equivalence_on_dense_data": SURPRISE},
    "NumbersMailClassifier": {"check_sample_weight_equivalence_on_dense_data": SURPRISE},
}


has_strict_failures = "xfail_strict" in signature(parametrize_with_checks).parameters


checks = parametrize_with_checks(
    CHECKED,
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(
        type(estimator).__qualname__, {}
    ),
    # scikit-learn 1.8 and newer
    **({"xfail_strict": True} if has_strict_failures else {}),
)


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
# scikit-learn 1.7 has a generator of checks, which pytest deprecates.
@pytest.mark.parametrize(checks.args[0], list(checks.args[1]), **checks.kwargs)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def examples(kind, n=60, seed=3):
    """Rows of a kind and labels of three classes that they tell apart."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    counts = rng.poisson(0.3, (n, 6)) + 3 * (np.arange(6) % 3 == y[:, None])
    labels = np.array(["ham", "spam", "work"])[y]
    if kind == "counts":
        return counts, labels
    if kind == "numbers":
        return counts + rng.normal(0, 0.1, counts.shape), labels
    if kind == "levels":
        return (counts > 1).astype(int), labels
    words = ["lunch", "free", "report", "noon", "offer", "deadline"]
    texts = [
        " ".join(word for word, m in zip(words, row, strict=True) for _ in range(m))
        for row in counts
    ]
    return np.array(texts, dtype=object), labels


def kind_of(name):
    kinds = {"counts": COUNTS, "numbers": NUMBERS, "levels": LEVELS, "texts": MESSAGES}
    return next(kind for kind, names in kinds.items() if name in names)


# Each pair of an estimator and a kind of input that it takes.
ENTRANCES = [(name, kind_of(name)) for name in estimators.__all__]
ENTRANCES += [(name, "texts") for name in COUNTS]
by_entrance = pytest.mark.parametrize(("name", "kind"), ENTRANCES)


@by_entrance
def test_cross_validation_cloning_and_pickling(name, kind):
    X, y = examples(kind)
    assert cross_val_score(new_estimator(name), X, y, cv=3, error_score="raise").min() > 0.8
    model = clone(new_estimator(name)).fit(X, y)
    assert not hasattr(clone(model), "model_")
    same = pickle.loads(pickle.dumps(model))
    assert (same.predict_proba(X) == model.predict_proba(X)).all()
    assert model.classes_.tolist() == ["ham", "spam", "work"]
    assert model.class_count_.tolist() == [(y == label).sum() for label in model.classes_]
    with pytest.raises(NotFittedError):
        new_estimator(name).predict(X)


@by_entrance
def test_meta_estimators(name, kind):
    X, y = examples(kind)
    column = X.reshape(-1, 1) if kind == "texts" else X
    fitted = [
        CalibratedClassifierCV(new_estimator(name), cv=3).fit(X, y),
        VotingClassifier(
            [("a", new_estimator(name)), ("b", new_estimator(name))], voting="soft"
        ).fit(X, y),
        OneVsRestClassifier(new_estimator(name)).fit(X, y),
    ]
    assert all(model.score(X, y) > 0.8 for model in fitted)
    bagged = BaggingClassifier(new_estimator(name), n_estimators=3, random_state=0).fit(column, y)
    assert bagged.score(column, y) > 0.8


# These convert X to numbers themselves (scikit-learn 1.9), so texts need the tokenizer before them.
NUMERIC_ONLY = {"OneVsOneClassifier": OneVsOneClassifier, "SelfTraining": SelfTrainingClassifier}


@pytest.mark.parametrize("meta", NUMERIC_ONLY)
@pytest.mark.parametrize(("name", "kind"), [pair for pair in ENTRANCES if pair[0] not in MESSAGES])
def test_meta_estimators_that_take_numbers(name, kind, meta):
    X, y = examples(kind)
    codes = np.unique(y, return_inverse=True)[1]
    labels = np.where(np.arange(len(y)) % 2, codes, -1) if meta == "SelfTraining" else codes
    model = NUMERIC_ONLY[meta](new_estimator(name))
    if kind == "texts":
        model = make_pipeline(streamnb.Tokenizer(), model)
    assert model.fit(X, labels).score(X, codes) > 0.8


@pytest.mark.parametrize("name", TEXTUAL)
def test_columns_of_texts_are_texts(name):
    X, y = examples("texts", 30)
    expected = new_estimator(name).fit(X.tolist(), y).predict_proba(X.tolist())
    inputs = [
        X,
        X.astype(str),
        X.reshape(-1, 1),
        X.astype(str).reshape(-1, 1),
        pd.Series(X),
        pd.DataFrame({"text": X}),
        polars.DataFrame({"text": X}),
        polars.Series(X.tolist()),
        [[text] for text in X],
        tuple(X),
    ]
    for texts in inputs:
        assert (new_estimator(name).fit(texts, y).predict_proba(texts) == expected).all()
    assert (new_estimator(name).fit(iter(X), y).predict_proba(iter(X)) == expected).all()


@pytest.mark.parametrize("name", TEXTUAL)
def test_texts_that_are_none_are_named(name):
    model = new_estimator(name).fit(["free offer", "lunch at noon"], ["spam", "ham"])
    for call in (lambda: model.predict("free"), lambda: new_estimator(name).fit("free", ["spam"])):
        with pytest.raises(ValueError, match="pass a list of texts"):
            call()
    for missing in (None, float("nan")):
        with pytest.raises(ValueError, match=f"row 1: {missing} is not a text"):
            model.predict(["free", missing, "offer"])


@pytest.mark.parametrize("name", MESSAGES)
def test_texts_under_a_name(name):
    X, y = examples("texts", 30)
    frame = pd.DataFrame({"id": range(30), "body": X})
    model = new_estimator(name, on="body").fit(frame, y)
    assert (model.predict_proba(frame) == new_estimator(name).fit(X, y).predict_proba(X)).all()
    with pytest.raises(ValueError, match="set on= to the name"):
        new_estimator(name).fit(frame, y)


@pytest.mark.parametrize("name", TEXTUAL)
def test_grid_searches_reach_the_tokenizer(name):
    X, y = examples("texts", 60)
    owner = "tokenizer" if name in COUNTS else "words"
    grid = {"alpha": [0.1, 1.0], f"{owner}__max_length": [1, 40]}
    search = GridSearchCV(new_estimator(name), grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    if name in COUNTS:  # without words nothing is known
        assert search.best_params_[f"{owner}__max_length"] == 40


@pytest.mark.parametrize("name", TEXTUAL)
def test_a_tokenizer_that_changes_after_fit_is_refused(name):
    X, y = examples("texts", 30)
    owner = "tokenizer" if name in COUNTS else "words"
    model = new_estimator(name).set_params(**{f"{owner}__max_length": 30}).fit(X, y)
    model.predict(X)
    model.set_params(**{f"{owner}__max_length": 2})
    for call in (lambda: model.predict(X), lambda: model.partial_fit(X, y)):
        with pytest.raises(ValueError, match="has changed since fit"):
            call()
    model.fit(X, y).predict(X)


@pytest.mark.parametrize("name", NUMBERS + LEVELS)
def test_frames_keep_the_names_of_their_columns(name):
    X, y = examples(kind_of(name))
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = new_estimator(name).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcdef")
    assert model.n_features_in_ == 6
    row = dict(zip("abcdef", X[0].tolist(), strict=True))
    expected = model.model_.predict_proba_one(row)
    np.testing.assert_allclose(
        model.predict_proba(frame[:1])[0], [expected[label] for label in model.classes_]
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcba")])
    np.testing.assert_allclose(
        model.predict_proba(frame), new_estimator(name).fit(X, y).predict_proba(X), rtol=1e-9
    )


@pytest.mark.parametrize("name", ["CategoricalNB", "MixedNB", "AODE", "LazyBayesianRules"])
def test_levels_and_missing_values(name):
    frame = pd.DataFrame({"sky": ["sun", "rain", None, "sun"], "play": ["no", "yes", "yes", "no"]})
    y = ["a", "b", "b", "a"]
    model = new_estimator(name).fit(frame, y)
    assert model.predict(frame).tolist() == y
    new = pd.DataFrame({"sky": ["sun", "never seen"], "play": ["no", "yes"]})
    assert model.predict(new).tolist() == ["a", "b"]
    rows = new_estimator(name).fit(frame.values.tolist(), y)  # a list of rows of mixed types
    assert rows.predict([["sun", "no"], ["never seen", "yes"]]).tolist() == ["a", "b"]


REFERENCES = {
    "MultinomialNB": ReferenceMultinomialNB,
    "BernoulliNB": ReferenceBernoulliNB,
    "ComplementNB": ReferenceComplementNB,
    "GaussianNB": ReferenceGaussianNB,
}
LEARNED = {
    "MultinomialNB": ["class_count_", "class_log_prior_", "feature_count_", "feature_log_prob_"],
    "BernoulliNB": ["class_count_", "class_log_prior_", "feature_count_", "feature_log_prob_"],
    "ComplementNB": ["class_count_", "feature_count_"],
    "GaussianNB": ["class_count_", "theta_", "var_"],
}


@pytest.mark.parametrize("name", REFERENCES)
def test_learned_attributes_are_those_of_scikit_learn(name):
    X, y = examples(kind_of(name))
    model, reference = new_estimator(name).fit(X, y), REFERENCES[name]().fit(X, y)
    for attribute in LEARNED[name]:
        np.testing.assert_allclose(
            getattr(model, attribute), getattr(reference, attribute), rtol=1e-6
        )


@by_entrance
def test_every_estimator_has_class_weights_and_their_logs(name, kind):
    X, y = examples(kind)
    model = new_estimator(name).fit(X, y)
    assert model.class_count_.tolist() == [np.sum(y == label) for label in model.classes_]
    np.testing.assert_allclose(
        np.exp(model.class_log_prior_), model.class_count_ / len(y), rtol=1e-12
    )


def test_attributes_of_texts_follow_the_vocabulary():
    model = estimators.MultinomialNB().fit(["free offer free", "lunch"], ["spam", "ham"])
    assert model.vocabulary_ == {"free": 0, "lunch": 1, "offer": 2}
    assert model.feature_count_.tolist() == [[0, 1, 0], [2, 0, 1]]
    assert np.exp(model.feature_log_prob_).sum(axis=1).tolist() == pytest.approx([1, 1])


@by_entrance
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(name, kind):
    X, y = examples(kind, 30)
    model = new_estimator(name).fit(X, y)
    expected = model.predict_proba(X)
    other_examples = examples("counts" if kind == "texts" and name in COUNTS else kind, 10)[0]
    with pytest.raises(ValueError, match="labels"):
        model.fit(other_examples[:10], y)
    assert (model.predict_proba(X) == expected).all()


# An estimator with parameters in scikit-learn's words, and the reference with the same.
WORDS = [
    ("MultinomialNB", ReferenceMultinomialNB, {"fit_prior": False}),
    ("MultinomialNB", ReferenceMultinomialNB, {"class_prior": [0.2, 0.5, 0.3]}),
    ("MultinomialNB", ReferenceMultinomialNB, {"fit_prior": False, "class_prior": [0.2, 0.5, 0.3]}),
    ("BernoulliNB", ReferenceBernoulliNB, {"binarize": 1.5, "alpha": 0.3, "force_alpha": True}),
    ("BernoulliNB", ReferenceBernoulliNB, {"class_prior": np.array([0.1, 0.1, 0.8])}),
    ("GaussianNB", ReferenceGaussianNB, {"priors": [0.2, 0.5, 0.3], "var_smoothing": 1e-3}),
]


@pytest.mark.parametrize(("name", "reference", "words"), WORDS)
@pytest.mark.parametrize("entrance", ["constructor", "set_params", "partial_fit"])
def test_words_of_scikit_learn_give_its_probabilities(name, reference, words, entrance):
    rng = np.random.default_rng(3)
    y = np.repeat(["b", "a", "c"], [10, 20, 30])
    X = rng.poisson(1 + 2 * (y[:, None] == np.array(["a", "b", "c", "c"]))).astype(float)
    estimator = new_estimator(name)
    estimator = (
        estimator.set_params(**words) if entrance == "set_params" else type(estimator)(**words)
    )
    if entrance == "partial_fit":
        estimator.partial_fit(X[:15], y[:15], classes=["a", "b", "c"]).partial_fit(X[15:], y[15:])
    else:
        clone(estimator).fit(X, y)
        estimator.fit(X, y)
    expected = reference(**words).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(estimator.predict_proba(X), expected, rtol=1e-6, atol=1e-12)


def test_a_prior_with_another_number_of_shares_is_refused():
    X, y = np.ones((4, 2)), ["a", "b", "a", "b"]
    with pytest.raises(ValueError, match=r"prior: .* share for each of the 2 classes"):
        new_estimator("MultinomialNB", class_prior=[1.0]).fit(X, y)
    model = new_estimator("MultinomialNB", class_prior=[0.4, 0.6]).fit(X, y)
    with pytest.raises(ValueError, match="no share for class 'c'"):
        model.partial_fit(X[:1], ["c"])
    assert list(model.classes_) == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "answer"),
    [([{"a": 1}, {"b": 2}], "DictVectorizer"), ([["free", "offer"], ["lunch"]], "as tokenizer=")],
)
def test_rows_of_tokens_are_answered(rows, answer):
    with pytest.raises(ValueError, match=answer):
        new_estimator("MultinomialNB").fit(rows, ["a", "b"])


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_the_row_of_a_missing_label_is_named(missing):
    y = pd.Series(["a", "b", missing], dtype=object)
    with pytest.raises(ValueError, match="row 2"):
        new_estimator("TextClassifier").fit(["free", "lunch", "noon"], y)


def _keys_of_state(value, visited):
    """Return the types of all keys of dicts in an object's state."""
    if id(value) in visited:
        return set()
    visited.add(id(value))
    if isinstance(value, dict):
        return {type(key) for key in value}.union(
            *(_keys_of_state(item, visited) for item in value.values())
        )
    if isinstance(value, (list, tuple)):
        return set().union(*(_keys_of_state(item, visited) for item in value))
    if type(value).__module__.startswith("streamnb.") and hasattr(value, "__getstate__"):
        return _keys_of_state(value.__getstate__(), visited)
    return set()


def restore(value):
    """Return a value as skops restores it: keys are text in its files, and deques are empty."""
    kind = type(value)
    if isinstance(value, dict):
        return {type(key)(str(key)): restore(item) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*map(restore, value))
    if kind in (list, tuple):
        return kind(map(restore, value))
    if kind.__module__.startswith("streamnb.") and hasattr(value, "__getstate__"):
        restored, state = kind.__new__(kind), restore(value.__getstate__())
        if hasattr(restored, "__setstate__"):
            restored.__setstate__(state)
        else:
            vars(restored).update(state)
        return restored
    return deque() if kind is deque else copy.deepcopy(value)


@by_entrance
def test_skops_restores_truth_values_as_labels_and_levels(name, kind):
    X, y = examples(kind)
    y = np.asarray(y) == y[0]
    X = X > 0 if kind == "levels" else X
    model = new_estimator(name).fit(X, y)
    restored = restore(model)
    for _ in range(2):
        np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
        for learner in (model, restored):
            learner.partial_fit(X, y)
    assert list(restored.classes_) == [False, True]


def test_skops_restores_the_messages_of_a_window():
    model = streamnb.WindowNB(streamnb.MultinomialNB(), size=3)
    for i in range(5):
        model.learn_one({f"a{i}": 1}, i % 2 == 0)
    restored = restore(model)
    for learner in (model, restored):
        learner.learn_one({"b": 2}, True)
    assert restored.predict_proba_one({"a3": 1}) == model.predict_proba_one({"a3": 1})


@by_entrance
def test_a_state_is_the_same_after_a_prediction_and_has_keys_of_json(name, kind):
    X, y = examples(kind)
    model = new_estimator(name).fit(X, y)
    state = pickle.dumps(model)
    copied = pickle.loads(state)
    assert (copied.predict_proba(X) == model.predict_proba(X)).all()
    assert pickle.dumps(model) == state
    # skops writes keys as text, and reads the text of False as True.
    assert _keys_of_state(model, set()) <= {str, int, float}
