"""Subclasses with constructors of their own: clone, parameters, repr, pickle, files."""

import copy
import io
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow
import pytest
from sklearn.base import clone as clone_by_sklearn

from streamnb import (
    Classifier,
    ComplementNB,
    GaussianNB,
    MixedNB,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    ViewsNB,
)
from streamnb.errors import OutputError
from streamnb.sklearn import MixedNB as MixedEstimator
from streamnb.sklearn import MultinomialNB as MultinomialEstimator
from streamnb.sklearn import TextClassifier as TextEstimator


class Renamed(MultinomialNB):
    def __init__(self, smoothing):
        super().__init__(alpha=smoothing)


class Stored(MultinomialNB):
    def __init__(self, smoothing, *, name="stored"):
        self.smoothing = smoothing
        super().__init__(alpha=smoothing)


class Extended(GaussianNB):
    def __init__(self, smoothing=1e-3, **options):
        super().__init__(var_smoothing=smoothing, **options)


class Texts(TextClassifier):
    def __init__(self, smoothing=0.3):
        super().__init__(rate=smoothing, views=("words",))


SUBCLASSES = [Renamed, Stored, Extended, Texts]


def make_trained(subclass):
    model = subclass(0.25)
    if subclass is Texts:
        model.fit(["free pills", "lunch"], ["spam", "ham"])
    else:
        model.learn_one({"a": 1.0}, "spam")
        model.learn_one({"b": 2.0}, "ham")
    return model


def changed_parameter(subclass):
    """Return a parameter that the constructor does not have, and another value than 1."""
    return {Extended: ("ddof", 0), Texts: ("bound", 2)}.get(subclass, ("length_norm", 2))


@pytest.mark.parametrize("subclass", SUBCLASSES)
def test_a_subclass_can_be_cloned_and_printed(subclass):
    model = make_trained(subclass)
    name, value = changed_parameter(subclass)
    model.set_params(**{name: 1})
    assert "smoothing=0.25" in repr(model)
    assert model.get_params(deep=False)["smoothing"] == 0.25
    for cloned in (model.clone(), model.clone({}), model.clone(include_attributes=True)):
        assert type(cloned) is subclass
        assert (cloned.smoothing, getattr(cloned, name)) == (0.25, 1)
    assert not getattr(model.clone(), "labels", [])
    assert model.clone({"smoothing": 0.5}).smoothing == 0.5
    assert getattr(model.clone({name: value}), name) == value
    assert clone_by_sklearn(model).smoothing == 0.25
    with pytest.raises(ValueError, match="smoothing: make a new"):
        model.set_params(smoothing=2)


def test_a_clone_with_a_new_argument_has_what_its_constructor_makes():
    assert Renamed(0.25).clone({"smoothing": 0.5}).alpha == 0.5
    model = Renamed(0.25)
    model.length_norm = 2
    assert model.clone({"smoothing": 0.5}).length_norm == 2
    model.alpha = 3
    assert model.clone().alpha == 3
    assert model.clone({"smoothing": 0.5}).alpha == 0.5  # the newest request


class Grams(Classifier):
    def __init__(self, n=1):
        super().__init__(Tokenizer(ngrams=(1, n)), MultinomialNB())


class Pair(ViewsNB):
    def __init__(self, alpha=1):
        super().__init__([MultinomialNB(alpha=alpha), MultinomialNB(alpha=alpha)])


def test_a_clone_keeps_changes_of_nested_parameters():
    classifier = Grams(2)
    assert classifier.clone({"n": 3}).tokenizer.ngrams == (1, 3)
    classifier.model.alpha = 3
    classifier.learn_one("free pills", "spam")
    for cloned in (classifier.clone(), classifier.clone({"n": 3})):
        assert (cloned.model.alpha, cloned.labels) == (3, [])
    assert classifier.clone({"n": 3}).tokenizer.ngrams == (1, 3)
    views = Pair()
    views.models[1].alpha = 5
    views.learn_one(({"a": 1}, {"b": 1}), "spam")
    assert [model.alpha for model in views.clone({"alpha": 3}).models] == [3, 3]
    assert [model.alpha for model in views.clone().models] == [1, 5]
    assert views.clone().labels == []
    classifier = Grams(2)
    classifier.model = ComplementNB(alpha=5)
    for cloned in (classifier.clone(), classifier.clone({"n": 3})):
        assert repr(cloned.model) == repr(classifier.model)
    assert classifier.clone().model is not classifier.model


@pytest.mark.parametrize("subclass", SUBCLASSES)
def test_a_subclass_can_be_pickled_but_not_saved(subclass):
    model = make_trained(subclass)
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (copied.smoothing, list(copied.labels)) == (0.25, list(model.labels))
    with pytest.raises(OutputError, match=f"{subclass.__name__} is not a class of.*use pickle"):
        model.save(io.BytesIO())


@pytest.mark.parametrize("subclass", [MultinomialNB, GaussianNB, TextClassifier, *SUBCLASSES])
def test_a_pickle_of_another_version_is_refused(subclass):
    model = subclass() if subclass.__module__.startswith("streamnb") else subclass(0.25)
    state = model.__getstate__()
    del state[next(iter(subclass.parameter_table))]
    with pytest.raises(ValueError, match=r"was pickled by another version .* train again$"):
        subclass.__new__(subclass).__setstate__(state)


class ArrowColumns:
    """A table of a library that streamnb does not know, such as a relation of DuckDB."""

    def __init__(self, columns):
        self._table = pyarrow.table(columns)
        self.columns = self._table.column_names

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


ARROW = [pyarrow.table, pyarrow.record_batch, ArrowColumns]


@pytest.mark.parametrize("make", ARROW)
def test_a_column_of_arrow_has_a_name(make):
    columns = make({"text": ["free pills", "lunch at noon"], "n": [1, 2]})
    for classifier in (TextClassifier(on="text"), TextEstimator(on="text")):
        assert list(map(str, classifier.fit(columns, ["spam", "ham"]).predict(columns))) == [
            "spam",
            "ham",
        ]
    model = MultinomialEstimator(tokenizer=Tokenizer(on="text")).fit(columns, ["spam", "ham"])
    assert list(map(str, model.predict(columns))) == ["spam", "ham"]
    table = make({"a": [1.0, 5.0], "b": [0.0, 3.0]})
    assert GaussianNB().fit(table, ["p", "q"]).predict_many(table) is not None


@pytest.mark.parametrize("make", ARROW)
def test_a_column_of_arrow_is_a_list_of_texts(make):
    column = make({"text": ["free pills", "lunch at noon"]})
    classifier = TextClassifier().fit(column, ["spam", "ham"])
    assert list(map(str, classifier.predict_many(column))) == ["spam", "ham"]
    rows = np.array([["free pills"], ["lunch at noon"]])
    assert list(map(str, classifier.predict_many(rows))) == ["spam", "ham"]
    estimator = TextEstimator().fit(column, ["spam", "ham"])
    assert list(estimator.predict(column)) == ["spam", "ham"]


def test_messages_can_be_lists_of_one_token():
    classifier = Classifier(lambda words: list(words), MultinomialNB())
    classifier.learn_many([["free"], ["lunch"]], ["spam", "ham"])
    assert classifier.model.features == 2
    assert list(classifier.predict_many([["free"], ["lunch"]])) == ["spam", "ham"]


def test_an_estimator_says_how_its_constructor_stores_arguments():
    class Wrong(MultinomialEstimator):
        def __init__(self, smoothing=1.0):
            super().__init__(alpha=smoothing)

    for read in (repr, clone_by_sklearn, Wrong.get_params):
        with pytest.raises(
            AttributeError, match=r"'smoothing'; scikit-learn requires that .* self\."
        ):
            read(Wrong())


@pytest.mark.parametrize(
    "costs",
    [
        {("spam", "ham"): 1.0},
        {"a": 1, "b": 2, "c": 3},
        {1, 2, 3},
        iter((1, 2, 3)),
        3,
        "abc",
        (1, 2),
    ],
    ids=lambda costs: type(costs).__name__,
)
def test_costs_are_refused_with_one_message_at_each_entrance(costs):
    classifier = make_trained(Texts)
    entrances = (
        lambda: TextClassifier(costs=costs),
        lambda: classifier.set_params(costs=costs),
        lambda: setattr(classifier, "costs", costs),
        lambda: classifier.classify("free", costs=costs),
    )
    for enter in entrances:
        with pytest.raises(
            ValueError, match=r"^costs: .* is not three numbers >= 0, \(false_alarm"
        ):
            enter()


@pytest.mark.parametrize(
    "model", [TextClassifier, TextEstimator, MixedNB, MixedEstimator, MultinomialNB, GaussianNB]
)
def test_frames_without_rows_or_with_equal_names_are_refused(model):
    frame = pl.LazyFrame({"a": [1, 2]})
    with pytest.raises(ValueError, match=r"LazyFrame.*X\.collect"):
        model().fit(frame, ["a", "b"])
    with pytest.raises(ValueError, match=r"found 0 samples|with 0 sample|takes texts"):
        model().fit(frame.collect().clear(), [])
    equal = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    with pytest.raises(ValueError, match="column names: Expected unique"):
        model().fit(equal, ["a", "b"])
