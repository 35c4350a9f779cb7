"""Models inside river's own pipelines, ensembles and loops, and its conventions for many rows."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
from river import (
    compose,
    drift,
    ensemble,
    evaluate,
    feature_extraction,
    imblearn,
    linear_model,
    metrics,
    model_selection,
    multiclass,
    naive_bayes,
    preprocessing,
    utils,
)

import streamnb
from streamnb import (
    AODE,
    BernoulliNB,
    CategoricalNB,
    Classifier,
    ComplementNB,
    DiscriminativeMultinomialNB,
    GaussianDiscriminantAnalysis,
    GaussianNB,
    LazyBayesianRules,
    MailClassifier,
    MixedNB,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    ViewsNB,
    WindowNB,
)
from streamnb.features.token_counts import CountedMessages

KINDS = [["red apple pie", "red cake"], ["blue sky day", "sky high"], ["green tree leaf", "tree"]]


def stream(labels, n=120):
    """Return texts that tell their labels."""
    k = len(labels)
    return [(f"{KINDS[i % k][i // k % 2]} {i % 7}", labels[i % k]) for i in range(n)]


TEXT_MODELS = {
    "pipeline": lambda: Tokenizer() | MultinomialNB(),
    "text": TextClassifier,
    "any": lambda: Classifier(Tokenizer(), DiscriminativeMultinomialNB()),
    "limit": lambda: TextClassifier(max_features=50),
}
ENSEMBLES = {
    "ADWIN bagging": lambda m: ensemble.ADWINBaggingClassifier(m, n_models=3, seed=1),
    "bagging": lambda m: ensemble.BaggingClassifier(m, n_models=3, seed=1),
    "voting": lambda m: ensemble.VotingClassifier([m, m.clone()]),
    "one against rest": multiclass.OneVsRestClassifier,
    "one against one": multiclass.OneVsOneClassifier,
    "output codes": lambda m: multiclass.OutputCodeClassifier(m, code_size=9, seed=1),
    "drift": lambda m: drift.DriftRetrainingClassifier(m, drift.binary.DDM()),
    "halving": lambda m: model_selection.SuccessiveHalvingClassifier(
        [m, m.clone()], metric=metrics.Accuracy(), budget=100
    ),
}


@pytest.mark.parametrize("model", TEXT_MODELS)
@pytest.mark.parametrize("wrapper", ENSEMBLES)
def test_ensembles_of_texts_learn(wrapper, model):
    wrapped = ENSEMBLES[wrapper](TEXT_MODELS[model]())
    metric = evaluate.progressive_val_score(stream(["a", "b", "c"]), wrapped, metrics.Accuracy())
    assert metric.get() > 0.8


@pytest.mark.parametrize("model", TEXT_MODELS)
@pytest.mark.parametrize("labels", [[False, True], [0, 1], ["ham", "spam"]], ids=str)
def test_labels_keep_their_type_in_every_loop(model, labels):
    data = stream(labels)
    for name in ("Accuracy", "F1", "LogLoss", "ConfusionMatrix", "ClassificationReport"):
        if labels == ["ham", "spam"] and name in ("F1", "LogLoss"):
            continue  # river takes only the label True or 1 for positive
        metric = getattr(metrics, name)()
        evaluate.progressive_val_score(data, TEXT_MODELS[model](), metric)
    trained = TEXT_MODELS[model]()
    for x, y in data:
        trained.learn_one(x, y)
    assert type(trained.predict_one(data[0][0])) is type(labels[0])
    assert list(trained.predict_proba_one(data[0][0])) == labels
    weighted = [(x, y, {"w": 2.0}) for x, y in data]
    assert (
        evaluate.progressive_val_score(weighted, TEXT_MODELS[model](), metrics.Accuracy()).get()
        > 0.9
    )


def test_unions_and_delays():
    data = [
        ({"text": x, "day": datetime(2026, 1, 1) + timedelta(days=i)}, y)
        for i, (x, y) in enumerate(stream([True, False]))
    ]
    union = Tokenizer(on="text") + Tokenizer(on="text", ngrams=(2, 2))
    for model in (union | MultinomialNB(), TextClassifier(on="text")):
        metric = evaluate.progressive_val_score(
            data, model, metrics.Accuracy(), moment="day", delay=timedelta(days=3)
        )
        assert metric.get() > 0.9
    words = feature_extraction.BagOfWords() | ComplementNB()
    assert evaluate.progressive_val_score(stream([0, 1]), words, metrics.Accuracy()).get() > 0.9


TABLES = {
    "GaussianNB": GaussianNB,
    "MixedNB": MixedNB,
    "CategoricalNB": CategoricalNB,
    "AODE": AODE,
    "GaussianDiscriminantAnalysis": lambda: GaussianDiscriminantAnalysis(shrinkage=0.1),
}
TABLE_ENSEMBLES = {
    name: wrap
    for name, wrap in ENSEMBLES.items()
    if name not in ("one against one", "output codes")
} | {
    "leveraging": lambda m: ensemble.LeveragingBaggingClassifier(m, n_models=3, seed=1),
    "boosting": lambda m: ensemble.AdaBoostClassifier(m, n_models=3, seed=1),
    "sampling": lambda m: imblearn.RandomOverSampler(m, desired_dist={0: 0.5, 1: 0.5}, seed=1),
    "scaled": lambda m: compose.Select("a", "b") | preprocessing.MinMaxScaler() | m,
}


# Not of levels: a scaled number is another level each time.
PAIRS = [
    (wrapper, model)
    for wrapper in TABLE_ENSEMBLES
    for model in TABLES
    if wrapper != "scaled" or model not in ("CategoricalNB", "AODE")
]


@pytest.mark.parametrize(("wrapper", "model"), PAIRS)
def test_ensembles_of_tables_learn(wrapper, model):
    data = [({"a": float(i % 2), "b": float(i % 2 + (i % 3 == 0))}, i % 2) for i in range(80)]
    wrapped = TABLE_ENSEMBLES[wrapper](TABLES[model]())
    metric = evaluate.progressive_val_score(data, wrapped, metrics.Accuracy())
    assert metric.get() > 0.8


COUNTING = (MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB)
DTYPES = [
    *("int8", "uint8", "float16", "float32", "Int64", "Float64", "boolean", "object"),
    *("Sparse[int]", "Sparse[float]", "int64[pyarrow]", "double[pyarrow]"),
]
INDICES = {
    "repeated": [7, 7, 7],
    "text": ["x", "y", "z"],
    "levels": pd.MultiIndex.from_tuples([(1, "x"), (1, "y"), (2, "x")]),
    "times": pd.date_range("2026-01-01", periods=3),
}
LABELS = {
    "bool": [True, False, True],
    "category": pd.Categorical(["p", "q", "p"]),
    "Int64": pd.array([3, 4, 3], dtype="Int64"),
    "boolean": pd.array([True, False, True], dtype="boolean"),
    "string": pd.array(["p", "q", "p"], dtype="string"),
    "arrow": pd.array([3, 4, 3], dtype="int64[pyarrow]"),
}


@pytest.mark.parametrize("model_class", [*COUNTING, GaussianNB])
@pytest.mark.parametrize("dtype", DTYPES)
def test_frames_of_every_type_are_learned_alike(model_class, dtype):
    X = pd.DataFrame({"a": [1, 0, 1], "b": [0, 1, 0]})
    expected, model = model_class(), model_class()
    expected.learn_many(X.astype(float), pd.Series(["p", "q", "p"]))
    model.learn_many(X.astype(dtype), pd.Series(["p", "q", "p"]))
    proba = model.predict_proba_many(X.astype(dtype))
    pd.testing.assert_frame_equal(proba, expected.predict_proba_many(X.astype(float)))


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("labels", LABELS)
def test_an_odd_index_is_kept_and_labels_keep_their_type(index, labels):
    X = pd.DataFrame({"a": [1, 0, 2], "b": [0, 3, 1]}, index=INDICES[index])
    y = pd.Series(LABELS[labels], index=[1, 2, 3])  # rows belong together by position
    model = MultinomialNB()
    model.learn_many(X, y)
    assert [type(label) for label in model.labels] == [type(y.tolist()[0])] * 2
    proba, predicted = model.predict_proba_many(X), model.predict_many(X)
    assert proba.index.equals(X.index)
    assert predicted.index.equals(X.index)
    assert predicted.tolist() == y.tolist()
    single = MultinomialNB()
    for row, label in zip(X.to_dict("records"), y.tolist(), strict=True):
        single.learn_one(row, label)
    assert single.predict_proba_one({"a": 1}) == model.predict_proba_one({"a": 1})


EVERY = {
    **{c.__name__: (c, {"a": 1.0}) for c in COUNTING},
    **{
        c.__name__: (c, {"a": 1.0})
        for c in (GaussianNB, CategoricalNB, MixedNB, AODE, LazyBayesianRules, ViewsNB)
    },
    "GaussianDiscriminantAnalysis": (GaussianDiscriminantAnalysis, {"a": 1.0}),
    "WindowNB": (lambda: WindowNB(MultinomialNB(), 10), {"a": 1.0}),
    "TextClassifier": (TextClassifier, "a text"),
    "MailClassifier": (MailClassifier, b"Subject: a\n\nmail"),
    "Classifier": (lambda: Classifier(Tokenizer(), ViewsNB([MultinomialNB()])), "a text"),
}


def test_every_public_model_is_listed():
    ending = ("NB", "AODE", "Analysis", "Rules", "Classifier")
    assert set(EVERY) == {name for name in streamnb.__all__ if name.endswith(ending)}


@pytest.mark.parametrize("name", EVERY)
def test_a_clone_keeps_nothing_and_a_copy_shares_nothing(name):
    make, x = EVERY[name]
    model = make()
    model.learn_one(x, "p")
    assert model.clone().predict_proba_one(x) == {}
    assert model.clone().predict_one(x) is None
    for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same.predict_proba_one(x) == model.predict_proba_one(x)
        same.learn_one(x, "q")
        assert list(same.predict_proba_one(x)) == ["p", "q"]
        assert list(model.predict_proba_one(x)) == ["p"]
    with pytest.raises(ValueError, match="a label must not be None or NaN"):
        model.learn_one(x, None)
    with pytest.raises(ValueError, match="a label must not be None or NaN"):
        model.learn_one(x, float("nan"))
    assert list(model.predict_proba_one(x)) == ["p"]


@pytest.mark.parametrize("model", TEXT_MODELS)
def test_models_predict_in_other_processes(model):
    trained = TEXT_MODELS[model]()
    data = stream(["a", "b"], 20)
    for x, y in data:
        trained.learn_one(x, y)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        predictions = list(pool.map(trained.predict_one, [x for x, _ in data]))
    assert predictions == [trained.predict_one(x) for x, _ in data]


def test_parameter_grids_of_river():
    grid = utils.expand_param_grid(TextClassifier(), {"alpha": [0.1, 1.0]})
    assert [model.alpha for model in grid] == [0.1, 1.0]
    pipelines = utils.expand_param_grid(
        Tokenizer() | MultinomialNB(), {"MultinomialNB": {"alpha": [0.1, 1.0]}}
    )
    assert [pipeline["MultinomialNB"].alpha for pipeline in pipelines] == [0.1, 1.0]
    # river takes a tuple for a class and its grid
    tokenizers = utils.expand_param_grid(Tokenizer(), {"ngrams": [[1, 1], [1, 2]]})
    assert [tokenizer.ngrams for tokenizer in tokenizers] == [(1, 1), (1, 2)]
    model = TextClassifier()
    model.mutate({"alpha": np.float64(0.7)})
    assert model.alpha == 0.7


@pytest.mark.parametrize("on", [None, "text"])
@pytest.mark.parametrize("model", [MultinomialNB, BernoulliNB, DiscriminativeMultinomialNB])
def test_a_pipeline_predicts_a_series_or_frame_with_the_index_of_its_input(model, on):
    frame = pd.DataFrame({"text": ["free offer", "lunch", "offer"]}, index=[7, 3, 5])
    texts = frame["text"] if on is None else frame
    pipeline = Tokenizer(on=on) | model()
    pipeline.learn_many(texts, pd.Series(["spam", "ham", "spam"], index=frame.index))
    labels, shares = pipeline.predict_many(texts), pipeline.predict_proba_many(texts)
    assert labels.tolist() == ["spam", "ham", "spam"]
    assert labels.index.tolist() == shares.index.tolist() == frame.index.tolist()
    assert shares.columns.tolist() == ["ham", "spam"]
    for index, text in frame["text"].items():
        x = text if on is None else {"text": text}
        assert shares.loc[index].to_dict() == pytest.approx(pipeline.predict_proba_one(x))


def test_clones_take_the_words_of_scikit_learn():
    assert Tokenizer().clone({"ngram_range": (1, 2)}).ngrams == (1, 2)
    assert MultinomialNB().clone({"class_prior": {"a": 1}}).prior == {"a": 1}
    learned = MultinomialNB()
    learned.learn_one({"word": 1}, "a")
    same = learned.clone({"fit_prior": False}, include_attributes=True)
    assert (same.prior, same.labels) == ("uniform", ["a"])
    with pytest.raises(TypeError, match="no parameter 'alhpa'"):
        MultinomialNB().clone({"alhpa": 1})


FRAME = pd.DataFrame(
    {"text": ["free offer", "lunch at noon", "free free", "noon"], "more": ["a", "b", "a b", "b"]},
    index=[7, 3, 5, 4],
)
FRAME_LABELS = pd.Series([True, False, True, False], index=FRAME.index)
RIVER_MODELS = {
    "LogisticRegression": linear_model.LogisticRegression,
    "MultinomialNB": naive_bayes.MultinomialNB,
    "ComplementNB": naive_bayes.ComplementNB,
    "ours": MultinomialNB,
}
TRANSFORMERS = {
    "series": (Tokenizer, FRAME["text"]),
    "column": (lambda: Tokenizer(on="text"), FRAME),
    "union": (lambda: Tokenizer(on="text") + Tokenizer(on="more"), FRAME),
}


@pytest.mark.parametrize("model", RIVER_MODELS)
@pytest.mark.parametrize("kind", TRANSFORMERS)
def test_models_of_river_learn_many_behind_a_tokenizer(kind, model):
    make_transformer, X = TRANSFORMERS[kind]
    pipeline = make_transformer() | RIVER_MODELS[model]()
    for _ in range(3):
        pipeline.learn_many(X, FRAME_LABELS)
    predicted = pipeline.predict_many(X)
    # River's Naive Bayes makes text of labels.
    assert list(map(str, predicted)) == list(map(str, FRAME_LABELS))
    assert predicted.index.tolist() == FRAME.index.tolist()
    assert pipeline.predict_proba_many(X).index.tolist() == FRAME.index.tolist()


@pytest.mark.parametrize("X", [FRAME["text"], FRAME])
def test_a_tokenizer_gives_a_frame_of_counts(X):
    tokenizer = Tokenizer(on=None if X.ndim == 1 else "text")
    counts = tokenizer.transform_many(X)
    for frame in (counts, copy.deepcopy(counts), pickle.loads(pickle.dumps(counts))):
        assert isinstance(frame, pd.DataFrame)
        assert frame.index.tolist() == FRAME.index.tolist()
        assert frame.columns.tolist() == ["free", "offer", "lunch", "at", "noon"]
        assert frame.loc[5].to_dict() == {"free": 2, "offer": 0, "lunch": 0, "at": 0, "noon": 0}
    rows = counts.to_dict("records")
    assert [{name: n for name, n in row.items() if n} for row in rows] == [
        Tokenizer().transform_one(text) for text in FRAME["text"]
    ]


def test_the_frame_of_counts_is_not_made_for_our_own_models(monkeypatch):
    monkeypatch.setattr(CountedMessages, "to_matrix", lambda self: 1 / 0)
    for model in (MultinomialNB(), BernoulliNB(), DiscriminativeMultinomialNB()):
        pipeline = Tokenizer() | model
        pipeline.learn_many(FRAME["text"], FRAME_LABELS)
        assert pipeline.predict_many(FRAME["text"]).tolist() == FRAME_LABELS.tolist()
        pipeline.predict_proba_many(FRAME["text"])
