import math
import pickle
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import river.naive_bayes
import sklearn.naive_bayes
from hypothesis import given
from hypothesis import strategies as st
from river import checks, compose
from scipy import sparse

import streamnb
from streamnb import (
    BernoulliNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
    TextClassifier,
    TokenCounts,
)
from streamnb.naive_bayes.matrices import Rows

MODELS = [MultinomialNB, BernoulliNB, ComplementNB]
by_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)


def variants():
    for model in (*MODELS, DiscriminativeMultinomialNB):
        yield model()
        yield model(alpha=0.1, prior="uniform", unseen="smooth", length_norm=2.0)


@pytest.mark.parametrize(
    ("model", "check"),
    [(model, check) for model in variants() for check in checks.yield_checks(model)],
    ids=lambda part: getattr(part, "__name__", None) or type(part).__name__,
)
def test_river_contract(model, check):
    check(model.clone())


def test_no_check_of_river_is_skipped():
    for model in variants():
        assert model._unit_test_skips() == set()
        # Those with negative inputs and str labels come on top where counts may be negative.
        assert len(list(checks.yield_checks(model))) >= (62 if model._tags == set() else 46)
    assert [model()._tags for model in MODELS] == [{"positive input"}, set(), {"positive input"}]


LABELS = {
    "str": ["ham", "spam", "ham"],
    "bool": [False, True, False],
    "int": [0, 7, 0],
    "np.bool_": [np.bool_(False), np.bool_(True), np.bool_(False)],
}


@by_model
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_stay_what_they_are(model, labels):
    single, many = model(), model()
    X = pd.DataFrame({"a": [2, 0, 1], "b": [0, 3, 0], "c": [1, 1, 0]}, index=[5, 6, 9])
    assert single.predict_one({"a": 1}) is None
    assert single.predict_proba_one({"a": 1}) == {}
    for x, y in zip(X.to_dict("records"), labels, strict=True):
        single.learn_one(x, y)
    many.learn_many(X, pd.Series(labels))
    assert single.counts == many.counts
    python_type = bool if isinstance(labels[0], np.bool_) else type(labels[0])
    assert all(type(label) is python_type for label in single.predict_proba_one({"a": 1}))
    frame = many.predict_proba_many(X)
    assert list(frame.columns) == list(dict.fromkeys(labels))
    assert list(frame.index) == [5, 6, 9]
    predicted = many.predict_many(X)
    assert list(predicted.index) == [5, 6, 9]
    for x, y, proba in zip(X.to_dict("records"), predicted, frame.to_dict("records"), strict=True):
        assert single.predict_one(x) == y
        assert single.predict_proba_one(x) == pytest.approx(proba, rel=1e-12)


@by_model
def test_dates_of_numpy_are_labels(model):
    single = model()
    days = [np.datetime64("2020-01-01"), np.datetime64("2020-01-02")]
    for day in days:
        single.learn_one({"a": 1}, day)
    assert list(single.predict_proba_one({"a": 1})) == days


@by_model
def test_frames_of_every_library(model):
    data = {"a": [2, 0, 1], "b": [0, 3, 0]}
    y = ["ham", "spam", "ham"]
    trained = []
    for frame, labels in (
        (pd.DataFrame(data), pd.Series(y)),
        (pd.DataFrame(data).astype(pd.SparseDtype("float64", 0)), y),
        (pl.DataFrame(data), pl.Series(y)),
        (pa.table(data), pa.array(y)),
    ):
        trained_model = model()
        trained_model.learn_many(frame, labels, w=[1, 2, 1])
        trained.append(trained_model)
        assert type(trained_model.predict_proba_many(frame)) is type(frame)
        assert list(trained_model.predict_many(frame)) in (y, [pa.scalar(label) for label in y])
    assert all(trained_model.counts == trained[0].counts for trained_model in trained)
    assert trained[0].counts.labels == ["ham", "spam"]
    assert trained[0].feature_counts("b")["spam"] == (2 if model is BernoulliNB else 6)


@pytest.mark.parametrize(
    "labels",
    [[0.0, 1.0], [2**63 + 1, 5], [2**63, -1], ["a\0", "a"], [True, False], [3, 7], ["x", "y"]],
)
def test_arrays_have_the_labels_as_they_were_learned(labels):
    X = np.array([[2, 0], [0, 2]])
    model = MultinomialNB().fit(X, labels)
    predictions = model.predict(X)
    assert predictions.tolist() == labels
    assert {type(label) for label in predictions.tolist()} == {type(label) for label in labels}
    assert model.score(X, labels) == 1


def test_labels_that_are_columns_of_one_name_are_refused():
    model = MultinomialNB().fit(pl.DataFrame({"a": [2, 0], "b": [0, 2]}), [1, "1"])
    frame = pl.DataFrame({"a": [1]})
    with pytest.raises(ValueError, match="same text"):
        model.predict_proba_many(frame)
    assert list(model.predict_proba_many(frame.to_pandas()).columns) == [1, "1"]


def test_sparse_columns_may_be_full_of_anything():
    full = pd.DataFrame({"a": pd.arrays.SparseArray([1.0, 1.0, 2.0], fill_value=1.0)})
    single, other = MultinomialNB(), MultinomialNB()
    single.learn_many(full, ["x", "y", "x"])
    other.learn_many(full.sparse.to_dense(), ["x", "y", "x"])
    assert single.counts == other.counts
    with pytest.raises(ValueError, match=r"got shape \(3,\)"):
        single.learn_many(sparse.coo_array(np.array([1, 0, 2])), ["x", "y", "x"])


class Table(pd.DataFrame):
    """A frame of a subclass."""


def test_a_frame_may_be_of_a_class_derived_from_its_library():
    model = MultinomialNB()
    frame = Table({"a": [2, 0], "b": [0, 3]}, index=[7, 9])
    model.learn_many(frame, ["ham", "spam"])
    assert list(model.predict_proba_many(frame).index) == [7, 9]
    assert list(model.predict_many(frame)) == ["ham", "spam"]


@by_model
def test_lists_of_messages_are_predicted_as_they_are_learned(model):
    messages, y = [{"a": 1}, {"b": 1, "c": 2}], ["x", "z"]
    trained_model = model()
    trained_model.learn_many(messages, y)
    frame = pd.DataFrame({"a": [1, 0], "b": [0, 1], "c": [0, 2]})
    assert (
        list(trained_model.predict_many(messages)) == list(trained_model.predict_many(frame)) == y
    )
    assert (
        trained_model.predict_proba_many(messages)
        == trained_model.predict_proba_many(frame).to_numpy()
    ).all()
    assert (trained_model.predict(messages) == trained_model.predict(frame)).all()
    empty = model()
    assert empty.predict_proba_many(messages).shape == (2, 0)
    assert empty.predict_proba_many([[1.0]]).shape == (1, 0)


def test_labels_may_be_a_column_and_not_names_of_columns():
    frame = pd.DataFrame({"a": [1, 0], "b": [0, 1]})
    model = MultinomialNB()
    model.learn_many(frame, pd.DataFrame({"label": ["x", "z"]}))
    assert model.labels == ["x", "z"]
    for wrong in (frame, {"x": 1, "z": 2}, "xz"):
        with pytest.raises(ValueError, match="the labels are a"):
            model.learn_many(frame, wrong)
    for missing in (pd.Series(["x", pd.NA], dtype="string"), ["x", np.float32("nan")]):
        with pytest.raises(ValueError, match="must not be None or NaN"):
            model.learn_many(frame, missing)


def test_a_missing_category_is_not_replaced_by_another():
    model = MultinomialNB()
    table = pa.table({"a": pa.array([1, 5, None]).dictionary_encode()})
    with pytest.raises(ValueError, match=r"row 2|not real numbers"):
        model.learn_many(table, ["x", "x", "y"])


def sparse_forms(X):
    yield X
    yield X.tolist()
    yield sparse.csr_matrix(X)
    yield sparse.csc_array(X)
    yield sparse.coo_array(X)
    wide = sparse.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    yield wide
    yield sparse.csr_array(X.astype(np.float32))


@by_model
def test_matrices_of_every_form(model):
    X = np.array([[2, 0, 1, 0], [0, 3, 0, 0], [1, 0, 0, 4]])
    expected = model()
    for row, y in zip(X, "xyx", strict=True):
        expected.learn_one(dict(enumerate(row)), y)
    for form in sparse_forms(X):
        estimator = model().partial_fit(form, list("xyx"))
        assert estimator.counts == expected.counts
        scores = [list(expected.joint_log_likelihood(dict(enumerate(row))).values()) for row in X]
        assert estimator.joint_log_likelihood_many(form).tolist() == scores  # bit for bit
        assert estimator.predict(form).tolist() == list("xyx")
        assert estimator.score(form, list("xyx")) == 1


@by_model
def test_duplicate_entries_of_a_sparse_matrix_add_up(model):
    twice = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 3)).tocsr(copy=False)
    raw = sparse.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    a, b = model().partial_fit(twice, ["x"]), model().partial_fit(raw, ["x"])
    assert a.counts == b.counts


@by_model
def test_scikit_learn_agrees_to_the_last_digits(model):
    theirs_of = getattr(sklearn.naive_bayes, model.__name__)
    rng = np.random.default_rng(1)
    for trial in range(60):
        rows, columns, classes = rng.integers(6, 40), rng.integers(3, 30), rng.integers(2, 5)
        X = rng.poisson(rng.uniform(0.2, 2), (rows, columns))
        X[0] += 1  # scikit-learn counts columns that nothing was seen in
        y = rng.integers(0, classes, rows)
        y[:classes] = range(classes)
        w = rng.uniform(0.1, 3, rows) if trial % 2 else None
        alpha = rng.choice([0.01, 0.5, 1, 3])
        estimator = model(alpha=alpha).fit(sparse.csr_array(X), y, sample_weight=w)
        reference = theirs_of(alpha=alpha).fit(X, y, sample_weight=w)
        test = rng.poisson(1, (20, columns))
        expected = reference.predict_joint_log_proba(test)
        np.testing.assert_allclose(
            estimator.joint_log_likelihood_many(test), expected, rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(
            estimator.predict_log_proba(test),
            reference.predict_log_proba(test),
            rtol=1e-12,
            atol=1e-11,
        )
        assert estimator.classes_.tolist() == reference.classes_.tolist()


@pytest.mark.parametrize("model", [MultinomialNB, ComplementNB])
def test_smooth_unseen_features_are_those_of_river(model):
    tested, reference = model(unseen="smooth"), getattr(river.naive_bayes, model.__name__)()
    for x, y in (({"a": 2, "b": 1}, "x"), ({"b": 3}, "y"), ({"c": 1, "a": 1}, "z")):
        tested.learn_one(x, y)
        reference.learn_one(x, y)
    for x in ({"a": 1}, {"new": 2}, {"a": 1, "new": 1, "b": 2}):
        assert tested.joint_log_likelihood(x) == pytest.approx(
            reference.joint_log_likelihood(x), rel=1e-12
        )


def test_an_unseen_word_does_not_move_the_default():
    model = MultinomialNB()
    model.learn_one({"a": 50, "b": 40}, "ham", w=9)
    model.learn_one({"a": 1}, "spam")
    prior = model.predict_proba_one({})
    assert prior == pytest.approx({"ham": 0.9, "spam": 0.1})
    assert model.predict_proba_one({"never": 5}) == prior


@by_model
def test_empty_messages_predict_the_prior(model):
    tested = model(prior="learned")
    tested.learn_one({}, "ham")
    assert tested.predict_proba_one({"a": 1}) == {"ham": 1.0}
    tested.learn_one({}, "spam", w=3)
    assert tested.predict_proba_one({"a": 1}) == pytest.approx({"ham": 0.25, "spam": 0.75})
    assert tested.predict_one({}) == "spam"
    assert tested.predict(np.zeros((2, 3))).tolist() == ["spam", "spam"]


@by_model
def test_bad_values_change_nothing(model):
    tested = model()
    tested.learn_one({"a": 2, "b": 1}, "x", w=2)
    before = tested.counts.as_dict()
    bad_rows = sparse.csr_array(np.array([[1.0, 2.0], [3.0, math.nan]]))
    attempts = [
        lambda: tested.learn_one({"a": 1, "b": math.nan}, "y"),
        lambda: tested.learn_one({"a": 1, "b": math.inf}, "y"),
        lambda: tested.learn_one({"a": 1, "b": "2"}, "y"),
        lambda: tested.learn_one({"a": 1}, "y", w=-1),
        lambda: tested.learn_one({"a": 1}, "y", w=math.nan),
        lambda: tested.learn_one({"a": 1}, "y", w="1"),
        lambda: tested.learn_one({"a": 1}, None),
        lambda: tested.learn_one({"a": 1}, math.nan),
        lambda: tested.unlearn_one({"a": 1, "new": 1}, "x"),
        lambda: tested.unlearn_one({"a": 1}, "x", w=5),
        lambda: tested.unlearn_one({"a": 1}, "y"),
        lambda: tested.partial_fit(bad_rows, ["y", "x"], classes=["x", "y"]),
        lambda: tested.partial_fit([[1, 2]], ["y", "x"], classes=["x", "y"]),
        lambda: tested.partial_fit([[1, 2]], ["y"], sample_weight=[-1]),
        lambda: tested.partial_fit([[1, 2]], ["y"], sample_weight=[1, 2]),
        lambda: tested.partial_fit([["a", "b"]], ["y"]),
        lambda: tested.partial_fit([1, 2], ["y", "x"]),
        lambda: tested.fit(bad_rows, ["y", "x"]),
        lambda: tested.learn_many(pd.DataFrame({"a": [1.0, math.inf]}), ["y", "y"]),
    ]
    if model is not BernoulliNB:
        attempts += [
            lambda: tested.unlearn_one({"a": 3, "b": 9}, "x"),
            lambda: tested.learn_one({"a": 1, "b": -1}, "y"),
            lambda: tested.partial_fit([[1, -2]], ["y"]),
            lambda: tested.predict([[1, -2]]),
        ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r".+"):
            attempt()
        assert tested.counts.as_dict() == before


def test_a_bad_value_is_named():
    with pytest.raises(ValueError, match=r"row 1, column 7: the value is -3.0"):
        MultinomialNB().partial_fit(sparse.csr_array(([1, -3.0], ([0, 1], [2, 7]))), [0, 1])


@by_model
@pytest.mark.parametrize(
    ("parameter", "values"),
    [
        ("alpha", [0, -1, math.nan, math.inf, "1", None, True, 10**400]),
        ("prior", ["best", None, {"a": -1}, {"a": 0}, {"a": math.nan}, {}, 3]),
        ("unseen", ["maybe", None]),
        ("length_norm", [0, -2, math.inf, "4", True]),
    ],
)
def test_bad_parameters_are_refused_when_set(model, parameter, values):
    tested = model()
    before = getattr(tested, parameter)
    for value in values:
        with pytest.raises(ValueError, match=parameter):
            model(**{parameter: value})
        with pytest.raises(ValueError, match=parameter):
            setattr(tested, parameter, value)
        assert getattr(tested, parameter) == before


def test_bernoulli_binarizes_at_the_threshold():
    for value in (-1, math.nan, "0"):
        with pytest.raises(ValueError, match="binarize"):
            BernoulliNB(binarize=value)
    model = BernoulliNB(binarize=2)
    model.learn_one({"a": 2, "b": 3, "c": -5}, "x")
    model.learn_one(TokenCounts.from_dict({"a": 3, "b": 1}), "x")
    model.learn_many(pd.DataFrame({"a": [9, 0], "b": [1, 1]}), ["x", "x"])
    assert model.feature_counts("a") == {"x": 2}
    assert model.feature_counts("b") == {"x": 1}
    assert model.counts.features == 2


messages = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 5), max_size=6)
weights = st.sampled_from([0.1, 0.25, 1.0, 1.7])


@by_model
@given(stream=st.lists(st.tuples(messages, st.sampled_from("xyz"), weights), max_size=12))
def test_learn_then_unlearn_leaves_nothing(model, stream):
    """Also with fractions, in any order: no feature, no weight and no total remains."""
    tested = model()
    for x, y, w in stream:
        tested.learn_one(x, y, w=w)
    for x, y, w in stream:
        tested.unlearn_one(x, y, w=w)
    assert tested.counts.features == 0
    assert sum(tested.counts.weights) == 0
    assert sum(tested.counts.totals) == 0
    proba = tested.predict_proba_one({"a": 1})
    assert all(p == 1 / len(proba) for p in proba.values())


@by_model
@given(
    stream=st.lists(st.tuples(messages, st.sampled_from("xyz")), max_size=12),
    cut=st.integers(0, 12),
)
def test_merge_equals_having_learned_both(model, stream, cut):
    whole, first, second = model(), model(), model()
    for number, (x, y) in enumerate(stream):
        whole.learn_one(x, y)
        (first if number < cut else second).learn_one(x, y)
    first.merge(second)
    assert first.counts == whole.counts
    x = {"a": 2, "c": 1}
    merged_scores, whole_scores = first.joint_log_likelihood(x), whole.joint_log_likelihood(x)
    assert merged_scores == whole_scores  # bit for bit, in any order of classes


def test_models_that_count_different_things_do_not_merge():
    with pytest.raises(ValueError, match="BernoulliNB"):
        MultinomialNB().merge(BernoulliNB())
    with pytest.raises(ValueError, match="binarize"):
        BernoulliNB(binarize=1).merge(BernoulliNB())


@by_model
@given(
    stream=st.lists(st.tuples(messages, st.sampled_from("xyz")), min_size=1, max_size=8),
    x=messages.map(lambda x: {**x, "never": 1}),
    unseen=st.sampled_from(["ignore", "smooth"]),
    length_norm=st.sampled_from([None, 3.0]),
)
def test_explanations_add_up(model, stream, x, unseen, length_norm):
    tested = model(unseen=unseen, length_norm=length_norm)
    for message, y in stream:
        tested.learn_one(message, y)
    explanation = tested.explain_one(x)
    for label, score in tested.joint_log_likelihood(x).items():
        parts = math.fsum(part[label] for part in explanation.contributions.values())
        assert explanation.base[label] + parts == pytest.approx(score, rel=1e-12, abs=1e-12)
    assert ("never" in explanation.contributions) == (unseen == "smooth")


def test_top_features_are_the_telling_ones():
    model = MultinomialNB()
    model.learn_one({"free": 5, "now": 2, ("big", "offer"): 3}, "spam")
    model.learn_one({"lunch": 4, "now": 2, 17: 1}, "ham")
    assert [name for name, _ in model.top_features("spam", 2)] == ["free", ("big", "offer")]
    assert [name for name, _ in model.top_features("ham", 2)] == ["lunch", 17]
    assert len(model.top_features("ham", 100)) == 5
    for explained in (model, model.explain_one({"free": 1})):
        with pytest.raises(ValueError, match=r"'eggs'.*the classes are 'spam', 'ham'"):
            explained.top_features("eggs")
    quiet = MultinomialNB(keep_names=False)
    quiet.learn_one({"free": 1}, "spam")
    assert quiet.top_features("spam")[0][0].startswith("#")


@by_model
def test_predicting_changes_nothing_and_learning_keeps_no_reference(model):
    tested = model()
    x = {"a": 1, "b": 2}
    tested.learn_one(x, "x")
    x["a"] = 100
    before = pickle.dumps(tested)
    tested.predict_proba_one({"a": 1, "new": 3})
    tested.predict(pd.DataFrame(np.ones((2, 9)), columns=list("abcdefghi")))
    tested.explain_one({"z": 1})
    tested.top_features("x")
    assert pickle.dumps(tested) == before


def test_a_class_without_remaining_messages_is_never_predicted():
    for model in MODELS:
        tested = model()
        tested.learn_one({"a": 1}, "x")
        tested.learn_one({"b": 1}, "y")
        tested.unlearn_one({"b": 1}, "y")
        assert tested.predict_proba_one({"b": 1}) == {"x": 1.0, "y": 0.0}


def test_extreme_scores_stay_apart():
    model = MultinomialNB()
    model.learn_one({"a": 1000}, "x")
    model.learn_one({"b": 1000}, "y")
    joint = [model.joint_log_likelihood({"a": n}) for n in (10**6, 10**7)]
    assert [model.predict_proba_one({"a": n})["x"] for n in (10**6, 10**7)] == [1.0, 1.0]
    assert joint[0]["x"] - joint[0]["y"] < joint[1]["x"] - joint[1]["y"] < math.inf
    assert model.predict_log_proba([[0]])[0].tolist() == [math.log(0.5)] * 2


def test_sizeof_includes_all_memory():
    """At most 48 bytes a feature with two classes, 80 with the text of tokens, at any moment."""
    for keep_names, limit in ((False, 48), (True, 80)):
        model = MultinomialNB(keep_names=keep_names)
        for start in range(0, 60_000, 300):
            x = {f"feature{n}": 1 for n in range(start, start + 300)}
            model.learn_one(x, "ham" if start % 600 else "spam")
            features = model.counts.features
            if features > 5000:
                assert model.counts.table.__sizeof__() <= limit * features


def test_works_in_river_pipelines():
    model = compose.Pipeline(("tokens", streamnb.Tokenizer()), ("model", MultinomialNB()))
    for text, label in (("free money", True), ("lunch today", False)):
        model.learn_one(text, label)
    assert model.predict_one("free lunch money") is True
    on = streamnb.Tokenizer(on="body") | BernoulliNB()
    on.learn_one({"body": "free money"}, "spam")
    assert on.predict_one({"body": "free"}) == "spam"


@by_model
def test_columns_of_one_name_are_refused(model):
    frame = pd.DataFrame(np.ones((50, 4)), columns=["x", "x", "y", "z"])
    for attempt in (
        lambda: model().learn_many(frame, ["a", "b"] * 25),
        lambda: model().predict(frame),
    ):
        with pytest.raises(ValueError, match=r"'x' 2 times|the model is not trained"):
            attempt()


DAMAGED = {
    "a column beyond": (np.full(40, 10**6, np.int32), [0, 20, 40]),
    "a negative column": (np.full(40, -3, np.int32), [0, 20, 40]),
    "rows beyond the entries": (np.zeros(40, np.int32), [0, 20, 4000]),
    "rows that fall": (np.zeros(40, np.int32), [0, 10**7, 40]),
    "rows from elsewhere": (np.zeros(40, np.int64), [7, 20, 40]),
}


@pytest.mark.parametrize(("indices", "indptr"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_matrices_are_refused_not_read(indices, indptr):
    X = sparse.csr_matrix((2, 10))
    X.data, X.indices, X.indptr = np.ones(40), indices, np.array(indptr, dtype=indices.dtype)
    X.has_canonical_format = True
    model = MultinomialNB().partial_fit(np.ones((1, 10)), ["x"])
    before = model.counts.as_dict()
    for attempt in (lambda: model.partial_fit(X, ["x", "y"]), lambda: model.predict(X)):
        with pytest.raises((ValueError, IndexError)):
            attempt()
    assert model.counts.as_dict() == before


def test_large_whole_weights_come_out_exactly():
    model = MultinomialNB()
    model.learn_one({"a": 5}, "x")
    before = model.counts.as_dict()
    model.learn_one({"a": 1}, "x", w=1e10)
    model.unlearn_one({"a": 1}, "x", w=1e10)
    assert model.counts.as_dict() == before
    with pytest.raises(ValueError, match="cannot unlearn"):
        model.unlearn_one({"a": 6}, "x")


def test_explanations_of_bernoulli_sum_to_its_scores():
    model = BernoulliNB(binarize=2)
    model.learn_one({"a": 3}, "x")
    model.learn_one({"b": 4}, "y")
    x = {"a": 3, "b": 1}
    assert model.explain_one(x).scores == model.joint_log_likelihood(x)


def test_features_without_a_name_are_shown_as_fingerprints():
    quiet, model = MultinomialNB(keep_names=False), MultinomialNB()
    quiet.learn_one({"a": 1, "": 2}, "x")
    model.learn_one({"": 1, "b": 1}, "x")
    model.merge(quiet)
    names = {name for name, _ in model.top_features("x")}
    assert names == {"", "b", f"#{streamnb._core.fingerprint('a'):016x}"}


def test_a_dict_that_changes_while_it_is_read_is_an_error():
    class Meddler:
        def __float__(self):
            x.pop(next(iter(x)), None)
            x[f"new{len(x)}{id(object())}{next(fresh)}"] = Meddler()
            return 1.0

    fresh = iter(range(1000))
    x = {f"k{n}": Meddler() for n in range(5)}
    with pytest.raises(RuntimeError, match="changed"):
        MultinomialNB().learn_one(x, "y")


def test_names_of_unusual_types():
    import collections
    import enum

    class Word(str, enum.Enum):  # noqa: UP042 (its str() is not its value)
        FREE = "free"

    Pair = collections.namedtuple("Pair", "a b")
    model = MultinomialNB()
    model.learn_one({Word.FREE: 1, (Pair(1, 2), "x"): 1, 2**70: 1, -5: 1}, "y")
    names = {name for name, _ in model.top_features("y")}
    assert names == {"free", ((1, 2), "x"), 2**70, -5}
    assert model.feature_counts("free") == {"y": 1}


def test_threads_can_learn_and_predict_at_once():
    import threading

    model = MultinomialNB()
    model.learn_one(dict.fromkeys(range(1000), 1), "x")
    model.learn_one({}, "y")
    tokens = TokenCounts.from_dict(dict.fromkeys(range(100000), 1))
    done = threading.Event()

    def ask():
        while not done.is_set():
            model.predict_one(tokens)

    reader = threading.Thread(target=ask)
    reader.start()
    for n in range(300):
        model.learn_one({1000 + 500 * n + k: 1 for k in range(500)}, "xy"[n % 2])
    done.set()
    reader.join()
    assert model.counts.features == 1000 + 300 * 500


@by_model
def test_text_that_looks_like_numbers_is_refused(model):
    tested = model()
    objects = pd.DataFrame({"a": ["1", "2"]})
    for X in (np.array([["1"], ["2"]]), objects, pl.DataFrame({"a": ["1", "2"]}),
              np.array([[1j], [2]]), np.array([["2026-01-01"], ["2026-01-02"]], dtype="datetime64[D]")):  # fmt: skip
        with pytest.raises(ValueError, match=r"real numbers|not a number"):
            tested.learn_many(X, ["x", "y"])
    with pytest.raises(ValueError, match="weights"):
        tested.partial_fit([[1], [2]], ["x", "y"], sample_weight=["1", "2"])
    with pytest.raises(ValueError, match="label"):
        tested.partial_fit([[1], [2]], ["x", math.nan], classes=["p", "q"])
    assert tested.counts.labels == []


def test_many_classes_one_at_a_time():
    """A row stores only nonzero counts, not a number for each class."""
    model = MultinomialNB(keep_names=False)
    for n in range(1000):
        model.learn_one({n % 50: 1}, n)
    assert model.counts.table.__sizeof__() < 40_000
    assert model.predict_one({7: 1}) in range(7, 1000, 50)
    assert pickle.loads(pickle.dumps(model)).counts == model.counts
    assert model.counts.table.classes == 1000


def test_pyarrow_needs_no_pandas():
    program = """
import sys
class Blocked:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import pyarrow
from streamnb import MultinomialNB
model = MultinomialNB()
table = pyarrow.table({"a": [1, 0], "b": [0, 2]})
model.learn_many(table, pyarrow.array(["x", "y"]))
assert model.feature_counts("b") == {"x": 0, "y": 2}
assert model.predict_many(table).to_pylist() == ["x", "y"]
assert model.predict_proba_many(table).column_names == ["x", "y"]
"""
    subprocess.run([sys.executable, "-P", "-c", program], check=True)


def test_many_discriminative_messages_are_learned_in_turn():
    rng = np.random.default_rng(4)
    X = sparse.random_array(
        (40, 12), density=0.4, rng=rng, data_sampler=lambda size: rng.integers(1, 4, size)
    ).tocsr()
    y = rng.choice(["a", "b", "c"], 40)
    many, single = DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()
    many.partial_fit(X, y)
    for row in range(40):
        entries = X[[row]].tocoo()
        single.learn_one(
            dict(zip(entries.coords[1].tolist(), entries.data.tolist(), strict=True)), str(y[row])
        )
    assert many.counts == single.counts
    scores = [single.joint_log_likelihood({column: 1}) for column in range(12)]
    np.testing.assert_array_equal(
        many.joint_log_likelihood_many(sparse.csr_array(np.eye(12))),
        [[row[label] for label in "abc"] for row in scores],
    )


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_rows_one_by_one_are_the_rows(seed, width):
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, (5, width)) * (rng.random((5, width)) < 0.5)
    rows = Rows.from_matrix(sparse.csr_matrix(dense), True, canonical=False)
    for row, tokens in zip(dense, rows.messages(), strict=True):
        assert tokens.to_dict() == {j: float(n) for j, n in enumerate(row) if n}


def test_learning_a_sparse_row_does_not_depend_on_the_width_of_the_matrix():
    def seconds(width):
        X = sparse.random(400, width, 100 / width, "csr", rng=np.random.default_rng(1))
        model = DiscriminativeMultinomialNB(keep_names=False)
        began = time.perf_counter()
        model.learn_many(X, [n % 2 for n in range(400)])
        return time.perf_counter() - began

    assert min(seconds(30_000) for _ in range(3)) < 4 * min(seconds(300) for _ in range(3))


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_strongest_features_are_those_of_a_full_sort(classes, monkeypatch):
    """For any division of the table into blocks, with many equal gains."""
    monkeypatch.setattr("streamnb.counts.memory._PART", 7 * (classes + 1))
    numbers = np.random.default_rng(5)
    model = MultinomialNB()
    for i in range(150):
        words = {f"w{j}": 1 for j in numbers.integers(0, 120, 6)}
        model.learn_one(words, f"c{i % classes}")
    fingerprints, cells = model.counts.items()
    weights = model._feature_weights(cells)
    labels = model.counts.labels
    for n in (0, 1, 20, 500):
        top = model.top_fingerprints(labels, n)
        for k in range(classes):
            others = np.delete(weights, k, axis=1)
            gains = weights[:, k] - (others.max(axis=1) if classes > 1 else 0)
            order = np.lexsort((fingerprints, -gains))[:n]
            expected = list(zip(fingerprints[order].tolist(), gains[order].tolist(), strict=True))
            assert top[k] == expected
            assert model.top_fingerprints(labels[k : k + 1], n) == [expected]


def test_strongest_features_of_many_classes_take_little_memory():
    classifier = TextClassifier()
    for i in range(400):
        classifier.learn_one(f"a{i} b{i % 50} c{i % 7}", f"class {i}")
    tracemalloc.start()
    try:
        strongest = classifier.strongest(classifier.messages(), 50)
        assert tracemalloc.get_traced_memory()[1] < 50e6  # their counts in all classes: 250 MB more
    finally:
        tracemalloc.stop()
    assert len(strongest) == 400
    assert all(len(features) == 50 for features in strongest.values())


@pytest.mark.parametrize("name", ["laplace", "smoothing", "lidstone"])
def test_names_of_additive_smoothing_elsewhere_are_answered_with_alpha(name):
    with pytest.raises(TypeError, match=f"no parameter '{name}': use alpha="):
        MultinomialNB(**{name: 1})


def test_a_dict_of_counts_is_no_matrix():
    with pytest.raises(ValueError, match="pass a single example to learn_one"):
        MultinomialNB().learn_many({"word": 1}, ["a"])
