"""Models of tables: the contract, oracles, and what must hold for any stream."""

import json
import math
import pickle
import random
import statistics
import time
import warnings
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn.datasets
import sklearn.discriminant_analysis
import sklearn.naive_bayes
from hypothesis import given
from hypothesis import strategies as st
from river import checks, covariance
from scipy import sparse

import streamnb
from streamnb import (
    AODE,
    CategoricalNB,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LazyBayesianRules,
    MixedNB,
    WindowNB,
    load,
)
from streamnb.errors import ModelFileError, OutputError
from streamnb.tables import lazy

GDA = GaussianDiscriminantAnalysis
MODELS = {
    "gaussian": GaussianNB(),
    "unbiased": GaussianNB(ddof=1, epsilon=0.1, prior="uniform"),
    "categorical": CategoricalNB(),
    "smooth": CategoricalNB(unseen="smooth", alpha=0.1),
    "mixed": MixedNB(),
    "settled": MixedNB(numeric=["a"], categorical=["b"]),
    "linear": GDA(),
    "quadratic": GDA("own", shrinkage=0.1),
    "aode": AODE(),
    "two parents": AODE(parents=2),
    "lazy": LazyBayesianRules(size=50),
    "sparse": AODE(parents=["a", "c"], sparse=True, min_count=2),
}
NUMERIC = {"gaussian", "unbiased", "linear", "quadratic"}
by_model = pytest.mark.parametrize("name", MODELS)


@pytest.mark.parametrize(
    ("model", "check"),
    [(model, check) for model in MODELS.values() for check in checks.yield_checks(model)],
    ids=lambda part: getattr(part, "__name__", None) or type(part).__name__,
)
def test_river_contract(model, check):
    check(model.clone())


def test_no_check_of_river_is_skipped():
    for model in MODELS.values():
        assert model._unit_test_skips() == set()
        assert len(list(checks.yield_checks(model))) == 63


numbers = st.integers(-3, 3) | st.floats(-1e3, 1e3).map(lambda x: round(x, 2)) | st.none()
words = st.sampled_from(["x", "y", "z", None, 1, True])
weights = st.sampled_from([1.0, 1.0, 2.0, 0.0])


def streams(name):
    other = numbers if name in NUMERIC else words
    settled = numbers if name in NUMERIC | {"settled"} else words
    x = st.fixed_dictionaries({"a": settled}, optional={"b": numbers, "c": other})
    return st.lists(st.tuples(x, st.sampled_from(["p", "q", 3]), weights), max_size=8)


def trained(name, stream):
    model = MODELS[name].clone()
    for x, y, w in stream:
        model.learn_one(x, y, w)
    return model


def learned_state(model):
    """The state of a model, without the order of arrival and without entries of count 0."""
    described, arrays = model.statistics.state()
    return (
        json.dumps(described),
        {key: array.tolist() for key, array in arrays.items()},
        model.class_weights,
    )


PROBES = [{"a": 1, "b": 0.5}, {"b": 2}, {}, {"a": 2, "c": -1, "new": 3}]


def scores(model, probes=PROBES):
    return [model.joint_log_likelihood(x) for x in probes]


def same(a, b, rel=1e-9):
    for item, other in zip(a, b, strict=True):
        # A class of which nothing is left is known to one and not to the other.
        keys = {key for part in (item, other) for key, value in part.items() if value > -math.inf}
        assert {key: item[key] for key in keys} == pytest.approx(
            {key: other[key] for key in keys}, rel=rel, abs=1e-9
        )


@by_model
@given(data=st.data())
def test_learn_then_unlearn_leaves_what_was(name, data):
    stream, extra = data.draw(streams(name)), data.draw(streams(name))
    model = trained(name, [*stream, *extra])
    order = data.draw(st.permutations(extra))
    for x, y, w in order:
        model.unlearn_one(x, y, w)
    single = trained(name, [*stream, *extra])
    for x, y, w in reversed(extra):
        single.unlearn_one(x, y, w)
    assert learned_state(model) == learned_state(single)  # to the last bit, in any order
    assert {label: w for label, w in model.class_weights.items() if w} == {
        label: w for label, w in trained(name, stream).class_weights.items() if w
    }
    if any(w for _, _, w in stream):
        same(scores(model), scores(trained(name, stream)))


@by_model
@given(data=st.data())
def test_merge_equals_having_learned_both(name, data):
    a, b = data.draw(streams(name)), data.draw(streams(name))
    merged = trained(name, a)
    other = trained(name, b)
    before = learned_state(other)
    merged.merge(other)
    assert learned_state(other) == before
    pair = trained(name, [*a, *b])
    assert learned_state(merged) == learned_state(pair)
    assert scores(merged) == scores(pair)


@by_model
@given(data=st.data())
def test_many_equals_one_and_the_order_of_features_does_not_matter(name, data):
    stream = data.draw(streams(name))
    item = trained(name, stream)
    turned = trained(name, [(dict(reversed(x.items())), y, w) for x, y, w in stream])
    same(scores(item), scores(turned))
    many = MODELS[name].clone()
    frame = pd.DataFrame(
        [{key: x.get(key) for key in "abc"} for x, _, _ in stream],
        columns=list("abc"),
        dtype=object,
    )
    many.learn_many(frame, [y for _, y, _ in stream], [w for _, _, w in stream])
    same(scores(many), scores(item))
    if stream:
        table = many.predict_proba_many(frame)
        for x, row in zip((x for x, _, _ in stream), table.to_dict("records"), strict=True):
            assert item.predict_proba_one(x) == pytest.approx(row, abs=1e-9)


@by_model
@given(data=st.data())
def test_models_come_back_from_files(tmp_path_factory, name, data):
    model = trained(name, data.draw(streams(name)))
    if name != "lazy":
        model.prior = {"p": 2.0, "q": 0.5, 3: 1.0}
    path = tmp_path_factory.mktemp("model") / "m.snb"
    model.save(path)
    repeated = load(path)
    assert type(repeated) is type(model)
    assert repeated._get_params() == {
        **model._get_params(),
        **{
            key: repeated._get_params()[key]
            for key in ("parents", "numeric", "categorical")
            if hasattr(repeated, key)
        },
    }
    assert scores(repeated) == scores(model)
    assert learned_state(repeated) == learned_state(model)
    assert scores(pickle.loads(pickle.dumps(model))) == scores(model)
    repeated.learn_one({"a": 1}, "p")


@by_model
def test_predicting_changes_nothing(name):
    model = trained(
        name, [({"a": 1, "b": 2, "c": 3}, "p", 1.0), ({"a": 2, "b": 2, "c": 5}, "q", 1.0)]
    )
    before = pickle.dumps(model)
    scores(model)
    model.predict_proba_many(pd.DataFrame({"a": [1, 7], "b": 2, "c": 3, "d": [1.5, None]}))
    assert pickle.dumps(model) == before


BAD = [
    ({"a": math.inf}, "p", 1.0),
    ({"a": 1e101}, "p", 1.0),
    ({"a": "text"}, "p", 1.0),
    ({"a": 10**400}, "p", 1.0),
    ({"a": 1}, "p", -1.0),
    ({"a": 1}, "p", math.nan),
    ({"a": 1}, "p", 1e-101),
    ([1, 2], "p", 1.0),
]


@pytest.mark.parametrize("name", ["gaussian", "settled", "linear"])
@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_bad_values_change_nothing(name, bad):
    model = trained(name, [({"a": 1}, "p", 1.0)])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=r"."):
        model.learn_one(*bad)
    with pytest.raises(ValueError, match="labels"):
        model.partial_fit([[1], [2]], ["p"])
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("model", "value"),
    [(GaussianNB(), "x"), (GaussianNB(), math.inf), (CategoricalNB(), [1]), (MixedNB(), "1")],
)
def test_an_error_of_one_example_names_its_feature_only(model, value):
    good = "x" if isinstance(model, CategoricalNB) else 1.0
    model.learn_one({"a": good}, "p")
    for call in (model.predict_proba_one, model.explain_one, lambda x: model.learn_one(x, "p")):
        with pytest.raises(ValueError, match=r"^'a': "):
            call({"a": value})


def test_a_bad_value_is_named():
    with pytest.raises(ValueError, match="row 1, 'b': 'x' is not a number"):
        GaussianNB().learn_many(pd.DataFrame({"a": [1, 2], "b": [1, "x"]}), ["p", "q"])
    with pytest.raises(ValueError, match=r"row 0, 1: the value is inf"):
        GaussianNB().partial_fit(np.array([[1.0, math.inf]]), ["p"])
    with pytest.raises(ValueError, match="row 0, 0: \\[1\\] cannot be a level"):
        CategoricalNB().partial_fit([[[1]]], ["p"])
    with pytest.raises(ValueError, match="'a' 2 times"):
        GaussianNB().learn_many(pd.DataFrame([[1, 2]], columns=["a", "a"]), ["p"])
    with pytest.raises(ValueError, match="different lengths"):
        CategoricalNB().partial_fit([["x"], ["y", "z"]], ["p", "q"])


@by_model
def test_unlearning_an_unknown_message_is_refused(name):
    model = trained(name, [({"a": 1, "b": 2}, "p", 2.0), ({"a": 4, "b": 3}, "q", 1.0)])
    before, probabilities = learned_state(model), scores(model)
    for x, y, w in [
        ({"a": 4, "b": 3}, "p", 1.0),
        ({"a": 1}, "new", 1.0),
        ({"a": 1, "b": 2}, "p", 3.0),
        ({"z": 1}, "p", 1.0),
    ]:
        with pytest.raises(ValueError, match="cannot unlearn"):
            model.unlearn_one(x, y, w)
        assert learned_state(model) == before
    assert scores(model) == probabilities


IMPOSSIBLE = {
    "a level that never was": ("mixed", [{"a": 1.5, "c": "u"}], {"a": 1.5, "c": "other"}),
    "the only level": ("categorical", [{"c": "u"}], {"c": "other"}),
    "a pair of levels": ("aode", [{"a": "u"}, {"b": "v"}], {"a": "u", "b": "v"}),
    "another value": ("gaussian", [{"a": 1}], {"a": -1}),
    "another value, paired": ("linear", [{"a": 1}], {"a": -1}),
    "a pair of values": ("linear", [{"a": 1}, {"b": 1}], {"a": 1, "b": 1}),
    "a part of it": ("gaussian", [{"a": 1, "b": 2}], {"a": 1}),
    "a part of it, paired": ("linear", [{"a": 1, "b": 2}], {"a": 1}),
    "a part of the levels": ("categorical", [{"a": "u", "b": "v"}], {"a": "u"}),
    "a new feature": ("mixed", [{"a": 1.5, "c": "u"}], {"a": 1.5, "c": "w", "new": None}),
}


@pytest.mark.parametrize(("name", "learned", "unlearned"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_unlearning_an_impossible_example_changes_nothing(name, learned, unlearned):
    model = MODELS[name].clone()
    for x in learned:
        model.learn_one(x, "p")
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="cannot unlearn"):
        model.unlearn_one(unlearned, "p")
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    "values",
    [
        ["x", "y", None, "x"],
        [pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-02", tz="UTC"), pd.NaT, pd.NaT],
        [True, False, None, True],
        [1, 2, None, 1],
    ],
    ids=["texts", "times", "truths", "numbers"],
)  # fmt: skip
def test_columns_of_frames_are_what_their_rows_are(values):
    rows, y = [{"f": value} for value in values], ["p", "q", "p", "q"]
    item = CategoricalNB()
    for row, label in zip(rows, y, strict=True):
        item.learn_one(row, label)
    table = pa.table({"f": pa.array(values, from_pandas=True)})
    encoded = pa.table({"f": table["f"].combine_chunks().dictionary_encode()})
    frame = pd.DataFrame(rows)
    for many in (rows, frame, frame.astype("category"), table, encoded):
        model = CategoricalNB()
        model.learn_many(many, y)
        assert model.likelihoods("p", "f") == item.likelihoods("p", "f")
        result = np.array(model.predict_proba_many(many)).reshape(-1)
        expected = [
            [item.predict_proba_one(row)[label] for label in sorted(item.labels)] for row in rows
        ]
        text = result if len(result) == 8 else np.array(model.predict_proba_many(many).to_pandas())
        assert np.array(text).reshape(4, 2) == pytest.approx(np.array(expected), rel=1e-12)


def test_rows_by_name_are_not_their_names():
    model = GaussianNB()
    model.learn_many([{"a": 1.5}, {"a": 9.5, "b": 1.0}], ["p", "q"])
    assert model.predict_one({"a": 9.0, "b": 1.0}) == "q"
    assert model.feature_moments("q", "a")[1] == 9.5
    for wrong in ({"a": [1.0, 2.0]}, ["ab", "cd"], pd.Series([{"a": 1.0}, {"a": 2.0}])):
        with pytest.raises(ValueError, match="expected a matrix"):
            model.learn_many(wrong, ["p", "q"])
    masked = np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], mask=[[1, 0], [0, 0]])
    item = GaussianNB()
    item.learn_many(masked, ["x", "x"])
    assert item.feature_moments("x", 0)[:2] == (1, 3.0)


def test_classes_and_levels_that_come_together():
    item, many = CategoricalNB(), CategoricalNB()
    rows = [{"id": f"u{i}", "of": i % 3} for i in range(200)]
    for i, row in enumerate(rows):
        item.learn_one(row, f"c{i}")
    many.learn_many(rows, [f"c{i}" for i in range(200)])
    assert item.predict_proba_one(rows[7]) == many.predict_proba_one(rows[7])


@by_model
def test_labels_that_cannot_be_change_nothing(name):
    model = trained(name, [({"a": 1}, "p", 1.0)])
    before = pickle.dumps(model)
    for label in (None, math.nan, [1]):
        with pytest.raises((ValueError, TypeError), match=r"label must not be|unhashable"):
            model.learn_many(pd.DataFrame({"a": [1.0, 2.0]}), ["new", label])
    with pytest.raises(TypeError):
        model.partial_fit([[1.0]], ["p"], classes=["other", [1]])
    assert pickle.dumps(model) == before


@by_model
def test_a_model_merges_with_itself(name):
    stream = [({"a": 1, "b": 2}, "p", 1.0), ({"a": 4, "b": 3}, "q", 2.0)]
    model = trained(name, stream)
    model.merge(model)
    assert learned_state(model) == learned_state(trained(name, [*stream, *stream]))


def test_too_many_features_to_be_paired():
    model = GDA()
    model.learn_one({"a": 1, "b": 2}, "p")
    before = pickle.dumps(model)
    wide = {f"f{i}": 1.0 for i in range(5000)}
    with pytest.raises(ValueError, match="5,002 features: at most 4,096 can be paired"):
        model.learn_one(wide, "q")
    assert pickle.dumps(model) == before


SETTLED = [("two parents", "parents", 3), ("sparse", "sparse", False), ("lazy", "size", 5),
           ("lazy", "prior", "uniform"), ("settled", "numeric", ["b"]), ("settled", "categorical", ["a"])]  # fmt: skip


@pytest.mark.parametrize(("name", "parameter", "value"), SETTLED)
def test_parameters_of_counts_are_fixed_after_the_first_message(name, parameter, value):
    model = MODELS[name].clone()
    settled = f"{parameter}: cannot change|property '{parameter}'"
    with pytest.raises((ValueError, AttributeError), match=settled):
        setattr(model, parameter, value)


@pytest.mark.parametrize(
    "model", [CategoricalNB(alpha=0), AODE(alpha=0), LazyBayesianRules(alpha=0)]
)
def test_all_levels_of_a_feature_without_counts_are_equal(model):
    for level in ("u", "v"):
        model.learn_one({"a": level, "b": "same"}, "x")
        model.learn_one({"b": "same"}, "y")
    assert model.predict_proba_one({"a": "u"}) == pytest.approx({"x": 0.5, "y": 0.5})


PARAMETERS = [
    (GaussianNB, "ddof", 2), (GaussianNB, "ddof", True), (GaussianNB, "epsilon", -1), (GaussianNB, "var_smoothing", math.nan),
    (GaussianNB, "prior", "none of these"), (GDA, "covariance", "both"), (GDA, "shrinkage", 1.1), (CategoricalNB, "alpha", -0.1),
    (CategoricalNB, "unseen", "x"), (AODE, "parents", 0), (AODE, "parents", "abc"), (AODE, "min_count", -1), (MixedNB, "numeric", "abc"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "parameter", "value"), PARAMETERS)
def test_bad_parameters_are_refused(model, parameter, value):
    with pytest.raises(ValueError, match=parameter):
        model(**{parameter: value})
    with pytest.raises(ValueError, match="numeric and as categorical"):
        MixedNB(numeric=["a"], categorical=["a"])


# Oracles


def data(seed, n=60, d=4, classes=3):
    rng = np.random.default_rng(seed)
    y = np.concatenate((np.arange(classes), rng.integers(0, classes, n - classes)))
    return rng.normal(y[:, None] * 0.7, 1 + rng.random(d), (n, d)) @ rng.normal(0, 1, (d, d)), y


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("smoothing", [1e-9, 1e-2])
def test_gaussian_agrees_with_scikit_learn(seed, smoothing):
    X, y = data(seed)
    w = np.random.default_rng(seed).integers(1, 4, len(y))
    own_model = GaussianNB(var_smoothing=smoothing)
    for weights, repeated in ((None, np.ones_like(w)), (w, w)):
        # (Theirs leaves weights out of the largest variance; a weight is an example that came so often.)
        their_model = sklearn.naive_bayes.GaussianNB(var_smoothing=smoothing).fit(
            np.repeat(X, repeated, axis=0), np.repeat(y, repeated)
        )
        own_model.fit(X, y, weights)
        assert own_model.predict_log_proba(X) == pytest.approx(
            their_model.predict_log_proba(X), rel=1e-8, abs=1e-10
        )
        assert own_model.joint_log_likelihood_many(X) == pytest.approx(
            their_model.predict_joint_log_proba(X), rel=1e-10
        )
        assert own_model.classes_.tolist() == their_model.classes_.tolist()


def test_gaussian_over_real_data_agrees_with_scikit_learn():
    for bunch in (
        sklearn.datasets.load_iris(),
        sklearn.datasets.load_wine(),
        sklearn.datasets.load_breast_cancer(),
    ):
        their_model = sklearn.naive_bayes.GaussianNB().fit(bunch.data, bunch.target)
        own_model = GaussianNB()
        for x, y in zip(bunch.data, bunch.target.tolist(), strict=True):
            own_model.learn_one(dict(enumerate(x)), y)
        assert [
            own_model.predict_one(dict(enumerate(x))) for x in bunch.data
        ] == their_model.predict(bunch.data).tolist()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("alpha", [1.0, 0.01])
def test_categorical_agrees_with_scikit_learn(seed, alpha):
    rng = np.random.default_rng(seed)
    X = np.vstack((rng.integers(0, 3, (50, 4)), np.repeat([[0], [1], [2]], 4, axis=1)))
    y = np.concatenate((rng.integers(0, 3, 50), [0, 1, 2]))
    their_model = sklearn.naive_bayes.CategoricalNB(alpha=alpha).fit(X, y)
    own_model = CategoricalNB(alpha=alpha).fit(X, y)
    assert own_model.joint_log_likelihood_many(X) == pytest.approx(
        their_model.predict_joint_log_proba(X), rel=1e-12
    )
    w = rng.integers(1, 4, len(y))
    their_model.fit(X, y, w)
    assert own_model.fit(X, y, w).joint_log_likelihood_many(X) == pytest.approx(
        their_model.predict_joint_log_proba(X), rel=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
def test_discriminants_agree_with_scikit_learn(seed):
    X, y = data(seed)
    linear, quadratic = (
        sklearn.discriminant_analysis.LinearDiscriminantAnalysis,
        sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis,
    )
    squared = quadratic(store_covariance=True).fit(X, y)
    unbiased = np.allclose(squared.covariance_[0], np.cov(X[y == 0].T))  # before scikit-learn 1.9
    own_model = GDA(var_smoothing=0).fit(X, y)
    for their_model, parameters in (
        (linear(solver="lsqr"), {}),
        (linear(solver="eigen"), {}),
        (linear(solver="lsqr", shrinkage=0.3), {"shrinkage": 0.3}),
        (squared, {"covariance": "own", "ddof": int(unbiased)}),
    ):
        # No retraining.
        for name, value in {
            "covariance": "shared",
            "ddof": 0,
            "shrinkage": 0.0,
            **parameters,
        }.items():
            setattr(own_model, name, value)
        their_model.fit(X, y)
        assert own_model.predict_log_proba(X) == pytest.approx(
            their_model.predict_log_proba(X), rel=1e-8, abs=1e-10
        )
        assert own_model.predict(X).tolist() == their_model.predict(X).tolist()


def test_covariances_with_missing_values_are_those_of_river():
    rng = random.Random(3)
    their_model, own_model = (
        covariance.EmpiricalCovariance(ddof=1),
        GDA("own", ddof=1, var_smoothing=0),
    )
    for _ in range(60):
        a = rng.gauss(5, 1)
        x = {"a": a, "b": a + rng.gauss(0, 1), "c": rng.gauss(0, 2)}
        for name in rng.sample("abc", rng.randint(0, 1)):
            del x[name]
        their_model.update(x)
        own_model.learn_one(x, "only")
    covariances = own_model._normals().covariances[0]
    for i, first in enumerate("abc"):
        for j, second in enumerate("abc"):
            if i != j:  # the diagonal of river's depends on the order of a's pairs
                key = (
                    (first, second)
                    if (first, second) in dict(their_model._cov)
                    else (second, first)
                )
                assert covariances[i, j] == pytest.approx(
                    dict(their_model._cov)[key].get(), rel=1e-6
                )


def reference_aode(stream, x, alpha, least, labels):
    """The formula, word for word."""

    def n(*conditions):
        return sum(w for z, y, w in stream if all(condition(z, y) for condition in conditions))

    def is_(j):
        return lambda z, y: z.get(j) == x[j]

    def has(j):
        return lambda z, y: j in z

    levels = {j: len({z[j] for z, _, w in stream if j in z and w}) for j in x}
    x = {j: value for j, value in x.items() if n(is_(j))}
    joint = {}
    for c in labels:

        def value(z, y, c=c):
            return y == c

        def single(i, value=value):
            return (n(value, is_(i)) + alpha) / (n(value, has(i)) + alpha * levels[i])

        parents = [i for i in x if n(is_(i)) >= least]
        if not parents:
            joint[c] = n(value) / n() * math.prod(single(i) for i in x)
            continue
        terms = []
        for i in parents:
            remainder = (
                (n(value, is_(i), is_(j)) + alpha) / (n(value, is_(i), has(j)) + alpha * levels[j])
                for j in x
                if j != i
            )
            terms.append(single(i) * math.prod(remainder))
        joint[c] = n(value) / n() * sum(terms) / len(terms)
    return {c: value / sum(joint.values()) for c, value in joint.items()}


features = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2), max_size=4)


@given(
    st.lists(
        st.tuples(features, st.sampled_from("pq"), st.sampled_from([1.0, 2.0])),
        min_size=1,
        max_size=10,
    ),
    features,
    st.sampled_from([1.0, 0.1]),
    st.sampled_from([1, 3]),
)
def test_aode_is_its_formula(stream, x, alpha, least):
    model = AODE(alpha=alpha, min_count=least)
    for z, y, w in stream:
        model.learn_one(z, y, w)
    assert model.predict_proba_one(x) == pytest.approx(
        reference_aode(stream, x, alpha, least, model.labels), rel=1e-9
    )


# Speed


@pytest.mark.performance
def test_gaussian_is_as_fast_as_scikit_learn():
    """Fit, predict and one row more: medians of paired ratios, which are a sixth, an eighth and a twentieth."""
    X, y = sklearn.datasets.load_iris(return_X_y=True)
    own_model, their_model = GaussianNB().fit(X, y), sklearn.naive_bayes.GaussianNB().fit(X, y)
    for act, others, most in (
        (lambda: GaussianNB().fit(X, y), lambda: sklearn.naive_bayes.GaussianNB().fit(X, y), 1),
        (lambda: own_model.predict(X[:42]), lambda: their_model.predict(X[:42]), 1),
        (
            lambda: own_model.partial_fit(X[:1], y[:1]),
            lambda: their_model.partial_fit(X[:1], y[:1]),
            0.1,
        ),
    ):
        ratios = []
        for _ in range(15):
            took = []
            for item in (act, others):
                began = time.perf_counter()
                for _ in range(20):
                    item()
                took.append(time.perf_counter() - began)
            ratios.append(took[0] / took[1])
        assert statistics.median(ratios) <= most


# What the models are for


def exclusive_or(model, times=20):
    for _ in range(times):
        for a in (0, 1):
            for b in (0, 1):
                model.learn_one({"a": a, "b": b}, a ^ b)
    return [model.predict_proba_one({"a": a, "b": b})[a ^ b] for a in (0, 1) for b in (0, 1)]


def test_exclusive_or():
    assert exclusive_or(GaussianNB()) == pytest.approx([0.5] * 4)
    assert exclusive_or(GDA()) == pytest.approx([0.5] * 4)
    assert min(exclusive_or(AODE(parents=1))) > 0.95
    assert min(exclusive_or(GDA("own", shrinkage=0.01))) > 0.95
    assert min(exclusive_or(LazyBayesianRules())) > 0.9


@pytest.mark.parametrize("model", [CategoricalNB(), AODE(parents=3), MixedNB()])
def test_two_thousand_coins(model):
    """.5 ** 2000 is 0 in floating point; its logarithm, and what follows from it, are not."""
    assert 0.5**2000 == 0
    coins = {f"coin {i}": "heads" for i in range(2000)}
    for y, side in [("fair", "heads"), ("fair", "tails"), ("heads", "heads"), ("heads", "heads")]:
        model.learn_one(dict.fromkeys(coins, side), y)
    if not isinstance(model, AODE):
        model.learn_one(dict.fromkeys(coins, "tails"), "tails")
        # (1 + 1) / (2 + 2) each of a fair coin, (2 + 1) / (2 + 2) of one that falls on heads.
        jll = model.joint_log_likelihood(coins)
        assert jll["fair"] == pytest.approx(math.log(2 / 5) + 2000 * math.log(1 / 2), rel=1e-12)
        assert jll["heads"] == pytest.approx(math.log(2 / 5) + 2000 * math.log(3 / 4), rel=1e-12)
    posterior = model.predict_proba_one(coins)
    assert posterior["heads"] == pytest.approx(1, abs=1e-12)
    assert math.fsum(posterior.values()) == pytest.approx(1, abs=1e-12)
    item = {"coin 7": "heads"}
    if not isinstance(model, AODE):
        assert model.predict_proba_one(item)["fair"] == pytest.approx(
            (2 / 5 * 1 / 2) / (2 / 5 * 1 / 2 + 2 / 5 * 3 / 4 + 1 / 5 * 1 / 3)
        )


def test_means_far_from_zero():
    """A billion away, where squares in double precision have no digits left for a spread of .1."""
    near, far = GaussianNB(var_smoothing=0), GaussianNB(var_smoothing=0)
    for i in range(8):
        near.learn_one({"x": i % 4 / 8}, i % 2)
        far.learn_one({"x": 2.0**30 + i % 4 / 8}, i % 2)
    for label in (0, 1):
        assert far.feature_moments(label, "x").variance == near.feature_moments(label, "x").variance
    assert far.predict_proba_one({"x": 2.0**30 + 0.2}) == pytest.approx(
        near.predict_proba_one({"x": 0.2}), rel=1e-6
    )


def test_missing_values_are_left_out():
    model = GaussianNB()
    for x, y in [
        ({"a": 1.0, "b": None}, "p"),
        ({"a": 2.0}, "p"),
        ({"a": math.nan, "b": 9.0}, "q"),
        ({"a": 5, "b": 7}, "q"),
    ]:
        model.learn_one(x, y)
    assert model.feature_moments("p", "a").weight == 2
    assert model.feature_moments("p", "b").weight == 0
    assert model.joint_log_likelihood({"a": 1.5}) == model.joint_log_likelihood(
        {"a": 1.5, "b": None, "c": 4}
    )
    assert model.predict_proba_one({}) == {"p": 0.5, "q": 0.5}
    # Class p has no value of b, so it has the variance of all classes.
    assert model.predict_proba_one({"b": 8.0}) == pytest.approx({"p": 0.5, "q": 0.5})
    categorical = CategoricalNB()
    for x, y in [({"a": "x", "b": None}, "p"), ({"a": "y"}, "p"), ({"a": "x", "b": "u"}, "q")]:
        categorical.learn_one(x, y)
    assert categorical.likelihoods("p", "b") == {"u": 1.0}
    assert categorical.likelihoods("p", "a") == {"x": 0.5, "y": 0.5}


def test_a_discriminant_integrates_out_missing_values():
    model = GDA("own").partial_fit(*data(1))
    X, _ = data(2)
    subset = GDA("own").partial_fit(data(1)[0][:, [0, 2]], data(1)[1])
    for row in X[:5]:
        whole = model.joint_log_likelihood({0: row[0], 2: row[2], 1: None})
        assert whole == pytest.approx(subset.joint_log_likelihood({0: row[0], 1: row[2]}), rel=1e-6)


def test_levels_of_any_kind_and_at_any_time():
    model = CategoricalNB()
    for level, y in [
        (None, "p"),
        (frozenset("ab"), "p"),
        ((1, "x"), "q"),
        (np.str_("s"), "q"),
        (1.5, "q"),
        (np.int64(3), "p"),
    ]:
        model.learn_one({"a": level}, y)
    assert model.likelihoods("q", "a") == pytest.approx(
        {frozenset("ab"): 1 / 8, (1, "x"): 2 / 8, "s": 2 / 8, 1.5: 2 / 8, 3: 1 / 8}
    )
    assert model.predict_one({"a": (1, "x")}) == "q"
    new = {"a": "never seen"}
    assert model.predict_proba_one(new) == model.predict_proba_one({})
    model.unseen = "smooth"
    assert model.predict_proba_one(new)["p"] == pytest.approx(
        (1 / 2 * 1 / 7) / (1 / 2 * 1 / 7 + 1 / 2 * 1 / 8)
    )
    model.unlearn_one({"a": 1.5}, "q")
    assert 1.5 not in model.likelihoods("q", "a")
    with pytest.raises(OutputError, match="a level must be str"):
        model.save("/nonexistent/never")


def test_mixed_reads_columns_by_type_or_name():
    x = {"a": 1.0, "b": "x", "c": True, "d": 2}
    model = MixedNB()
    model.learn_one(x, "p")
    assert list(model.statistics.numbers.features) == ["a", "d"]
    assert list(model.statistics.levels.features) == ["b", "c"]
    model = MixedNB(categorical=["d"])
    model.learn_one(x, "p")
    assert list(model.statistics.numbers.features) == ["a"]
    frame = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
    many = MixedNB()
    many.learn_many(frame, ["p", "q"])
    for table in (pl.DataFrame(frame.to_dict("list")), pa.table(frame.to_dict("list"))):
        other = MixedNB()
        other.learn_many(table, ["p", "q"])
        assert learned_state(other) == learned_state(many)
    with pytest.raises(ValueError, match="'a': 'x' is not a number"):
        MixedNB(numeric=["a"]).learn_one({"a": "x"}, "p")


def test_matrices_of_every_form():
    X, y = np.array([[2, 0, 1.5], [0, 3, 0]]), ["p", "q"]
    expected = GaussianNB().fit(X, y)
    for form in (
        X.tolist(),
        sparse.csr_array(X),
        np.asfortranarray(X),
        X.astype(np.float32),
        pl.DataFrame(X, schema=["0", "1", "2"]),
    ):
        model = GaussianNB()
        model.learn_many(form, y)
        assert model.class_weights == {"p": 1.0, "q": 1.0}
        assert scores(model, [{}]) == scores(expected, [{}])
        assert list(model.statistics.state()[1]["sums0"].ravel()) == list(
            expected.statistics.state()[1]["sums0"].ravel()
        )


def test_a_window_works_with_any_model():
    window = WindowNB(GaussianNB(), 4)
    for i in range(20):
        window.learn_one({"x": i}, "odd" if i % 2 else "even")
    recent = GaussianNB()
    for i in range(16, 20):
        recent.learn_one({"x": i}, "odd" if i % 2 else "even")
    assert scores(window.model, [{"x": 3}]) == scores(recent, [{"x": 3}])
    assert window.explain_one({"x": 3}) == recent.explain_one({"x": 3})


# Explanations


@by_model
@given(data=st.data())
def test_an_explanation_adds_up_to_the_scores(name, data):
    model = trained(name, data.draw(streams(name)))
    for x in PROBES:
        explanation = model.explain_one(x)
        assert explanation.scores == model.joint_log_likelihood(x)
        assert explanation.contributions.keys() <= x.keys()
        sums = {
            label: math.fsum(
                [start, *(gains[label] for gains in explanation.contributions.values())]
            )
            for label, start in explanation.base.items()
        }
        assert sums == pytest.approx(explanation.scores, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", sorted({*MODELS} - {"two parents", "sparse", "lazy"}))
@given(data=st.data())
def test_a_contribution_is_the_score_minus_the_score_without_the_feature(name, data):
    rng = random.Random(1)
    rows = [{key: rng.randint(-3, 3) for key in "abc"} for _ in range(30)]
    regular = [(row, rng.choice(["p", "q", 3]), 1.0) for row in rows]
    # the inverse of a singular covariance loses all digits
    irregular = [] if name in {"linear", "quadratic"} else data.draw(streams(name))
    model = trained(name, irregular or regular)
    for x in PROBES:
        explanation = model.explain_one(x)
        for feature in x:
            without = model.joint_log_likelihood({k: v for k, v in x.items() if k != feature})
            for label, score in explanation.scores.items():
                gain = explanation.contributions.get(feature, {}).get(label, 0.0)
                if math.isinf(score):  # a class without examples
                    assert gain == 0
                else:
                    digits = 1e-9 * max(1.0, abs(score), abs(without[label]))
                    assert gain == pytest.approx(score - without[label], rel=1e-6, abs=digits)


def test_an_explanation_by_rules_keeps_the_rule_of_the_whole_row():
    model = LazyBayesianRules(size=100)
    exclusive_or(model)
    x = {"a": 0, "b": 1}
    (fixed,) = model.rule_features(x)
    (free,) = x.keys() - {fixed}
    explanation = model.explain_one(x)
    without = model.joint_log_likelihood({free: x[free]})
    for label, gain in explanation.contributions[fixed].items():
        assert gain == pytest.approx(explanation.scores[label] - without[label])
    # 20 examples have the fixed value and the class; they all have the other value of the query
    assert explanation.contributions[free][1] == pytest.approx(math.log(21 / 22))


@by_model
def test_an_explanation_scores_a_row_twice_however_many_features_it_has(name, monkeypatch):
    model = MODELS[name].clone()
    row = {f"x{j}": j % 3 for j in range(40)}
    for i in range(6):
        model.learn_one({key: value + i % 3 for key, value in row.items()}, "pq"[i % 2])
    calls = []
    score = type(model)._score
    monkeypatch.setattr(
        type(model), "_score", lambda *arguments: calls.append(1) or score(*arguments)
    )
    model.explain_one(row)
    assert len(calls) == 2  # of the row, and of a row without features


@pytest.mark.parametrize("name", ["gaussian", "categorical", "mixed"])
def test_the_base_of_naive_bayes_is_the_prior(name):
    model = trained(name, [({"a": i % 3, "b": i % 2}, "pq"[i > 2], 1.0) for i in range(8)])
    explanation = model.explain_one({"a": 1, "b": 1, "new": 2})
    assert explanation.base == pytest.approx({"p": math.log(3 / 8), "q": math.log(5 / 8)})
    assert set(explanation.contributions) == {"a", "b"}
    for feature, value in (("a", 1), ("b", 1)):
        alone = model.joint_log_likelihood({feature: value})
        for label, start in explanation.base.items():
            assert explanation.contributions[feature][label] == pytest.approx(
                alone[label] - start, rel=1e-9, abs=1e-9
            )


def test_an_explanation_of_aode_without_smoothing_has_no_huge_numbers():
    model = AODE(alpha=0)
    for a, b, label, count in ((1, 1, "p", 3), (1, 2, "q", 2), (2, 1, "q", 2), (2, 2, "p", 1)):
        for _ in range(count):
            model.learn_one({"a": a, "b": b, "c": 1}, label)
    model.learn_one({"a": 3, "c": 1}, "q")
    model.learn_one({"b": 1, "d": 1}, "q")
    for a, b, further in product((1, 2, 3), (1, 2), ({}, {"c": 1}, {"d": 1})):
        explanation = model.explain_one({"a": a, "b": b, **further})
        gains = [gain for row in explanation.contributions.values() for gain in row.values()]
        numbers = [*gains, *explanation.base.values()]
        assert all(number == -math.inf or abs(number) < 1000 for number in numbers)


def test_an_explanation_names_impossible_levels_and_interactions():
    model = CategoricalNB(alpha=0)
    for sky, play in (("sun", "yes"), ("rain", "no")):
        model.learn_one({"sky": sky, "wind": sky, "day": 1}, play)
    explanation = model.explain_one({"sky": "sun", "wind": "sun", "day": 1})
    impossible = {
        name for name, gains in explanation.contributions.items() if gains["no"] == -math.inf
    }
    assert impossible == {"sky", "wind"}
    assert explanation.base["no"] == pytest.approx(math.log(0.5))
    aode = AODE()
    exclusive_or(aode)
    gains = dict(aode.explain_one({"a": 0, "b": 1}).top_features(True))
    assert min(gains.values()) > 2


def test_text_with_a_bounded_number_of_parents():
    """Two words that determine the class only together."""
    rng = random.Random(1)
    aode, naive = AODE(parents=8, sparse=True, back_off=2), CategoricalNB()
    right = 0
    for i in range(400):
        a, b = rng.randint(0, 1), rng.randint(0, 1)
        x = dict.fromkeys(
            [f"{rng.randrange(5)}th", "aye" if a else "nay", "bee" if b else "wasp"], 1
        )
        if i >= 200:
            right += aode.predict_one(x) == a ^ b
        aode.learn_one(x, a ^ b)
        naive.learn_one(x, a ^ b)
    assert right > 190
    long = {f"word {i}": 1 for i in range(3000)}
    model = AODE(parents=4, sparse=True)
    model.learn_one(long, "p")
    assert len(model.statistics.pairs) <= 2 * 4 * 3000


# Files


def damage(header):
    yield {**header, "labels": header["labels"] * 2}
    yield {**header, "lows": []}
    yield {**header, "arrays": {}}
    yield {**header, "arrays": {name: ["|O", 1] for name in header["arrays"]}}
    yield {**header, "parameters": {**header["parameters"], "nonsense": 1}}
    yield {**header, "statistics": {}}
    yield {**header, "model": "AODE" if header["model"] != "AODE" else "GaussianNB"}


@by_model
def test_damaged_files_are_refused(tmp_path, name):
    model = trained(name, [({"a": 1, "b": 2}, "p", 2.0), ({"a": 4, "b": 3}, "q", 1.0)])
    path = tmp_path / "m.snb"
    model.save(path)
    with np.load(path) as arrays:
        header = json.loads(arrays["header"].tobytes())
        content = {key: arrays[key] for key in arrays.files}
    for changed in damage(header):
        np.savez(
            tmp_path / "bad.npz",
            **{**content, "header": np.frombuffer(json.dumps(changed).encode(), np.uint8)},
        )
        with pytest.raises(ModelFileError, match=r"bad\.npz"):
            load(tmp_path / "bad.npz")
    for key in content:
        if key != "header" and content[key].size:
            worse = (
                content[key] | np.uint64(0x7FFF0000) if key == "pairs" else content[key] * -3 - 7
            )
            np.savez(tmp_path / "bad.npz", **{**content, key: worse})
            with pytest.raises(ModelFileError, match=r"bad\.npz"):
                load(tmp_path / "bad.npz")


# Lazy rules


def test_lazy_rules_know_the_last_examples_only():
    model, last = LazyBayesianRules(size=6), LazyBayesianRules(size=6)
    for i in range(20):
        model.learn_one({"a": i % 3, "b": i % 2}, i % 2, 1.0 + i % 2)
    for i in range(14, 20):
        last.learn_one({"a": i % 3, "b": i % 2}, i % 2, 1.0 + i % 2)
    assert scores(model, [{"a": 1, "b": 1}, {}]) == scores(last, [{"a": 1, "b": 1}, {}])
    assert model.class_weights == last.class_weights == {0: 3.0, 1: 6.0}
    many = LazyBayesianRules(size=6).partial_fit([[i % 3] for i in range(9)], list(range(9)))
    assert sum(many.class_weights.values()) == 6
    with pytest.raises(ValueError, match="among the last"):
        many.unlearn_one({0: 0}, 8)


def test_lazy_rules_leave_independent_features_alone():
    rng = random.Random(2)
    model, naive = LazyBayesianRules(size=300), CategoricalNB()
    for _ in range(300):
        y = rng.randint(0, 1)
        x = {name: int(rng.random() < (0.7 if y else 0.3)) for name in "abc"}
        model.learn_one(x, y)
        naive.learn_one(x, y)
    for x in ({"a": 1, "b": 1, "c": 0}, {"a": 0, "b": 1}):
        assert model.rule_features(x) == []
        assert model.predict_proba_one(x) == pytest.approx(
            naive.predict_proba_one(x), abs=2e-3
        )  # the prior is smoothed
    exclusive_or(model, 100)
    assert model.rule_features({"a": 1, "b": 0}) in (["a"], ["b"])


@pytest.mark.parametrize("cells", [lazy._BLOCK_CELLS, 1])
def test_lazy_rules_leave_one_out(cells, monkeypatch):
    """Against naive Bayes that was trained without the example, for each example."""
    monkeypatch.setattr(lazy, "_BLOCK_CELLS", cells)
    rng = random.Random(5)
    rows = [
        (
            {"a": rng.randint(0, 2), "b": rng.choice([0, 1, None])},
            rng.randint(0, 1),
            float(rng.randint(1, 2)),
        )
        for _ in range(20)
    ]
    model = LazyBayesianRules(alpha=0.5)
    for x, y, w in rows:
        model.learn_one(x, y, w)
    moments = model.statistics
    wrong = model._leave_one_out_errors(moments.examples([0, 1]), moments.alive.astype(float))
    for i, (x, y, _) in enumerate(rows):
        others = rows[:i] + rows[i + 1 :]
        joint = {}
        for c in model.labels:
            class_rows = [(z, w) for z, label, w in others if label == c]
            score = math.log(
                (sum(w for _, w in class_rows) + 0.5) / (sum(w for *_, w in others) + 0.5 * 2)
            )
            for j, levels in (("a", 3), ("b", 2)):
                if x[j] is not None:
                    same = sum(w for z, w in class_rows if z[j] == x[j])
                    is_present = sum(w for z, w in class_rows if z[j] is not None)
                    score += math.log((same + 0.5) / (is_present + 0.5 * levels))
            joint[c] = score
        assert wrong[i] == (max(model.labels, key=joint.__getitem__) != y)


def test_lazy_rules_compute_the_logs_of_all_columns_together(monkeypatch):
    """A call for each column took 24 s for a row of 200 columns; now the row takes about 1 s."""
    rng, calls, compute = random.Random(7), [], LazyBayesianRules._logs
    model = LazyBayesianRules().fit([[rng.random() < 0.5] * 40 for _ in range(60)], [0, 1] * 30)
    monkeypatch.setattr(model, "_logs", lambda *sums: calls.append(sums) or compute(model, *sums))
    model.rule_features(dict.fromkeys(range(40), True))
    assert len(calls) < 5 * 41  # 40 candidates, and the errors before the search


def test_a_discriminant_far_from_zero():
    X, y = data(3, n=80)
    probes = X[:20]
    near = GDA("own", shrinkage=0.1, var_smoothing=0).fit(X, y)
    far = GDA("own", shrinkage=0.1, var_smoothing=0).fit(X + 2.0**30, y)
    assert far.predict_proba(probes + 2.0**30) == pytest.approx(
        near.predict_proba(probes), abs=1e-5
    )


@pytest.mark.parametrize("model", [CategoricalNB(), MixedNB(), AODE(), LazyBayesianRules(size=3)])
def test_weights_of_very_different_sizes_still_make_files(tmp_path, model):
    model.learn_one({"a": "x", "b": "u"}, "p", 1e17)
    for a, b in (("z", "u"), ("z", "v"), ("y", "v")):
        model.learn_one({"a": a, "b": b}, "p", 1.0)
    if not isinstance(model, LazyBayesianRules):
        model.unlearn_one({"a": "x", "b": "u"}, "p", 1e17)
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").class_weights == model.class_weights == {"p": 3.0}


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (np.array([2**63, 2**63 + 1, 2**63], dtype=np.uint64), [2**63, 2**63 + 1]),
        (np.array([-(2**63), -(2**63) + 2, -(2**63)]), [-(2**63), -(2**63) + 2]),
        (np.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
        (np.array([255, 254, 255], dtype=np.uint8), [254, 255]),
        (np.array([True, False, True]), [True, False]),
        (np.array([False, False]), [False]),
    ],
)
def test_levels_of_every_whole_type(column, levels):
    model = CategoricalNB().fit(column[:, None], ["p"] * len(column))
    assert set(model.likelihoods("p", 0)) == set(levels)
    assert {type(level) for level in model.likelihoods("p", 0)} == {type(levels[0])}
    item = CategoricalNB()
    for value in column.tolist():
        item.learn_one({0: value}, "p")
    assert item.likelihoods("p", 0) == model.likelihoods("p", 0)


@given(
    st.lists(
        st.sampled_from(
            [[1, 2, 1, 3], [-5, -5, -4, 0], [0, 90, 7, 7], [0.5, 1, 1, 2], [math.nan, 1, 1, 2]]
            + [[-0.0, 0.0, 1.0, 1.0], [math.inf, 1, -math.inf, 1], [2.0**60, 1, 1, 2]]
        ),
        min_size=1,
    ),
    st.sampled_from(["i1", "u1", "i8", "u8", "f2", "f4", "f8", "?"]),
    st.sampled_from(["C", "F"]),
)
def test_levels_of_matrices_are_those_of_objects(columns, dtype, order):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = np.array(columns).T.astype(dtype, order=order)
    matrix, objects = CategoricalNB(), CategoricalNB()
    for model, rows in ((matrix, X), (objects, X.astype(object))):
        model.learn_many(rows, ["p", "q", "q", "p"])
    for j in range(X.shape[1]):
        for label in "pq":
            levels = matrix.likelihoods(label, j)
            assert levels == objects.likelihoods(label, j)
            assert {type(level) for level in levels} == {type(X[0, j].item())}
    assert matrix.predict_proba(X).tolist() == objects.predict_proba(X.astype(object)).tolist()


@pytest.mark.parametrize("model_class", [GaussianNB, MixedNB, GaussianDiscriminantAnalysis])
def test_decimals_are_numbers(model_class):
    from decimal import Decimal

    decimals, floats = model_class(), model_class()
    for value, label in (("1.5", "p"), ("2.5", "q"), ("1.25", "p"), ("3", "q")):
        decimals.learn_one({"a": Decimal(value)}, label)
        floats.learn_one({"a": float(value)}, label)
    decimals.learn_one({"a": Decimal("NaN")}, "p")
    floats.learn_one({"a": float("nan")}, "p")
    assert decimals.predict_proba_one({"a": Decimal(2)}) == floats.predict_proba_one({"a": 2.0})
    with pytest.raises(ValueError, match="at most 1e100"):
        decimals.learn_one({"a": Decimal("1e101")}, "p")


@pytest.mark.parametrize(
    "texts", [["unknown", *map(str, range(30))], [f"{n}.5" for n in range(30)]]
)
def test_a_column_of_many_numbers_as_text_is_not_categorical(texts):
    """One odd cell of a CSV file makes the whole column a column of text."""
    frame = pd.DataFrame({"size": texts, "city": ["rome", *["oslo"] * (len(texts) - 1)]})
    labels = ["p", *["q"] * (len(texts) - 1)]
    with pytest.raises(ValueError, match=r"'size': .*or list 'size' in categorical"):
        MixedNB().fit(frame, labels)
    assert MixedNB(categorical=["size"]).fit(frame, labels).labels == ["p", "q"]
    few = pd.DataFrame({"size": [*map(str, range(10)), "unknown"] * 3})
    assert MixedNB().fit(few, ["p", "q", "r"] * 11).labels == ["p", "q", "r"]


def test_the_odd_cell_among_numbers_is_named():
    frame = pd.DataFrame({"size": [*map(str, range(30)), "unknown", "5"]})
    with pytest.raises(ValueError, match="row 30, 'size': 'unknown' is not a number, but 31 of 32"):
        MixedNB().fit(frame, ["p", "q"] * 16)


@pytest.mark.parametrize("make", [float, str])
def test_a_user_can_name_measured_values_categorical(make):
    values = [make(n + 0.25) for n in range(30)]
    model = MixedNB(categorical=["size"]).fit(pd.DataFrame({"size": values}), ["p", "q"] * 15)
    assert len(model.statistics.levels.learned_levels("size")) == 30


@pytest.mark.parametrize("name", ["CategoricalNB", "AODE", "LazyBayesianRules", "MixedNB"])
def test_dates_are_measured_values(name):
    frame = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=30)})
    with pytest.warns(UserWarning, match="'day': each measured value"):
        getattr(streamnb, name)().fit(frame, ["p", "q"] * 15)


@pytest.mark.parametrize("name", ["CategoricalNB", "AODE", "LazyBayesianRules"])
@pytest.mark.parametrize("make", [float, str])
def test_models_of_levels_warn_of_measured_values(name, make):
    values = [make(n + 0.25) for n in range(30)]
    with pytest.warns(UserWarning, match="'size': each measured value"):
        getattr(streamnb, name)().fit(pd.DataFrame({"size": values}), ["p", "q"] * 15)
    codes = pd.DataFrame({"size": [make(n) for n in range(30)]})
    assert getattr(streamnb, name)().fit(codes, ["p", "q"] * 15).labels == ["p", "q"]


NUMBERS = ((1.0, "x"), (1.5, "x"), (4, "y"), (5, "y"))


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_number_that_equals_a_level_is_a_number(is_reversed):
    """True == 1, but a truth value is a level, and 1 a number."""
    rows = [({"a": value}, y) for value, y in ((True, "x"), *NUMBERS)]
    single, many = MixedNB(), MixedNB()
    for x, y in rows[:: -1 if is_reversed else 1]:
        single.learn_one(x, y)
    many.learn_many([x for x, _ in rows], [y for _, y in rows])
    for x in ({"a": 1.2}, {"a": 1.0}, {"a": True}):
        expected = many.predict_proba_one(x)
        assert single.predict_proba_one(x) == pytest.approx(expected, rel=1e-9)


def test_a_level_that_was_unlearned_changes_no_number():
    plain, model = MixedNB(), MixedNB()
    model.learn_one({"a": True}, "x")
    model.unlearn_one({"a": True}, "x")
    for value, y in NUMBERS:
        plain.learn_one({"a": value}, y)
        model.learn_one({"a": value}, y)
    expected = plain.predict_proba_one({"a": 1.0})
    assert model.predict_proba_one({"a": 1.0}) == pytest.approx(expected, rel=1e-9)


def test_a_feature_that_is_named_numeric_stays_numeric():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": pandas.Categorical([1, 2, 8, 9])})
    model, plain = MixedNB(numeric=["a"]), MixedNB()
    model.learn_many(frame, list("xxyy"))
    plain.learn_many(frame.astype(float), list("xxyy"))
    assert model.predict_proba_one({"a": 1}) == plain.predict_proba_one({"a": 1})


@by_model
def test_a_renamed_column_gets_a_warning_in_prediction(name):
    model = MODELS[name].clone()
    frame = pd.DataFrame({"a": [1.0, 2.0] * 5, "b": [3.0, 4.0] * 5})
    model.fit(frame, ["p", "q"] * 5)
    with pytest.warns(UserWarning, match="the column 'size' was never learned, and 'b' is missing"):
        model.predict_many(frame.rename(columns={"b": "size"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_many(frame[["b"]])
        model.predict_many(frame.assign(c=1.0))
        model.learn_many(frame.rename(columns={"b": "size"}), ["p", "q"] * 5)
