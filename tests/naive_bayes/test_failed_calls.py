"""A call that raises an error leaves the model unchanged: each mistake at each entry point."""

import io
import math
import pickle

import pyarrow
import pytest

import streamnb
from streamnb import (
    Classifier,
    DiscriminativeMultinomialNB,
    GaussianNB,
    MailClassifier,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    ViewsNB,
    WindowNB,
)
from streamnb.errors import OutputError

PRIOR = {"x": 0.5, "y": 0.5}
TEXTS = ["buy pills", "lunch noon", "buy now"]
COUNTS = [{"a": 1, "b": 2}, {"b": 1, "c": 3}, {"a": 2}]
MODELS = {
    **{
        name: (getattr(streamnb, name), COUNTS)
        for name in (
            "MultinomialNB", "BernoulliNB", "ComplementNB", "DiscriminativeMultinomialNB",
            "GaussianNB", "CategoricalNB", "MixedNB", "AODE", "GaussianDiscriminantAnalysis",
            "LazyBayesianRules",
        )
    },
    "decay": (lambda: MultinomialNB(decay=0.9, max_features=5), COUNTS),
    "prior": (lambda: MultinomialNB(prior=PRIOR), COUNTS),
    "prior of a table": (lambda: GaussianNB(prior=PRIOR), COUNTS),
    "views": (lambda: ViewsNB([DiscriminativeMultinomialNB() for _ in "ab"]), COUNTS),
    "window": (lambda: WindowNB(MultinomialNB(prior=PRIOR), 3), COUNTS),
    "window of views": (lambda: WindowNB(ViewsNB(), 3), COUNTS),
    "window of a table": (lambda: WindowNB(GaussianNB(prior=PRIOR), 3), COUNTS),
    "text": (TextClassifier, TEXTS),
    "mail": (MailClassifier, TEXTS),
    "classifier": (lambda: Classifier(Tokenizer(), MultinomialNB()), TEXTS),
    "key": (lambda: TextClassifier(on="t"), [{"t": text} for text in TEXTS]),
}  # fmt: skip

BAD_LABELS = {
    "None": None, "NaN": math.nan, "list": [1], "Arrow": pyarrow.scalar("x"), "tuple": (1, [2]),
}  # fmt: skip
BAD_WEIGHTS = [-1, math.nan, math.inf, "2", None, 1e300, 1j]
BAD_MESSAGES = [
    3, None, [1], {"a": math.inf}, {"a": "t"}, {"a": [1]}, {"a": -1}, {"a": 1e200}, {"t": 3},
]  # fmt: skip
CALLS = {
    **{
        f"label {name}, {method}": call
        for name, label in BAD_LABELS.items()
        for method, call in {
            "learn_one": lambda m, X, y=label: m.learn_one(X[0], y),
            "learn": lambda m, X, y=label: m.learn(X[0], y),
            "learn_many": lambda m, X, y=label: m.learn_many(X[:2], ["x", y]),
            "partial_fit": lambda m, X, y=label: m.partial_fit(X[:2], ["x", y]),
            "classes": lambda m, X, y=label: m.partial_fit(X[:2], ["x", "y"], classes=["z", y]),
            "fit": lambda m, X, y=label: m.fit(X[:2], ["x", y]),
        }.items()
    },
    **{
        f"weight {weight}, {method}": call
        for weight in BAD_WEIGHTS
        for method, call in {
            "learn_one": lambda m, X, w=weight: m.learn_one(X[0], "new", w),
            "learn": lambda m, X, w=weight: m.learn(X[0], "new", w),
            "learn_many": lambda m, X, w=weight: m.learn_many(X[:2], ["x", "new"], [1, w]),
            "unlearn_one": lambda m, X, w=weight: m.unlearn_one(X[0], "x", w),
        }.items()
    },
    **{
        f"message {message}, {method}": call
        for message in BAD_MESSAGES
        for method, call in {
            "learn_one": lambda m, X, x=message: m.learn_one(x, "x"),
            "learn_many": lambda m, X, x=message: m.learn_many([X[0], x], ["x", "y"]),
            "partial_fit": lambda m, X, x=message: m.partial_fit([X[0], x], ["x", "y"]),
            "unlearn_one": lambda m, X, x=message: m.unlearn_one(x, "x", receipt=m.receipt),
        }.items()
    },
    "new class, learn_one": lambda m, X: m.learn_one(X[0], "new"),
    "new class, learn_many": lambda m, X: m.learn_many(X, ["x", "y", "new"]),
    "feedback": lambda m, X: m.learn_one(X[0], "new", 1, "sometimes"),
    "unlearn another class": lambda m, X: m.unlearn_one(X[0], "new"),
    "unlearn too much": lambda m, X: m.unlearn_one(X[0], "x", 50),
    "one label too few": lambda m, X: m.learn_many(X, ["x"]),
    "merge a number": lambda m, X: m.merge(3),
    "merge another model": lambda m, X: m.merge(MultinomialNB(alpha=9).learn(COUNTS[0], "x")),
}


def saved(model):
    file = io.BytesIO()
    try:
        model.save(file)
    except OutputError:  # a window
        return pickle.dumps(model)
    return file.getvalue()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_a_failed_call_changes_nothing(name):
    make, X = MODELS[name]
    failed = 0
    for call in CALLS.values():
        model = make()
        model.learn_many(X, ["x", "y", "x"])
        before = saved(model)
        try:
            call(model, X)
        except (TypeError, ValueError, AttributeError):
            failed += 1
            assert saved(model) == before, call
    assert failed > len(CALLS) / 2


@pytest.mark.parametrize("label_noise", [0, 0.0, 0.25])
@pytest.mark.parametrize("alpha", [1, 1.0])
def test_a_loaded_classifier_is_saved_to_the_same_bytes(alpha, label_noise):
    model = TextClassifier(alpha=alpha, label_noise=label_noise)
    model.learn_many(TEXTS, ["x", "y", "x"])
    assert saved(streamnb.load(io.BytesIO(saved(model)))) == saved(model)
