"""Subclasses with constructors of their own: clone, parameters, repr, pickle, files."""

import copy
import io
import pickle

import pandas as pd
import polars as pl
import pyarrow
import pytest
from sklearn.base import clone as clone_by_sklearn

from streamnb import GaussianNB, MixedNB, MultinomialNB, TextClassifier
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


@pytest.mark.parametrize("make", [pyarrow.table, pyarrow.record_batch])
def test_a_column_of_arrow_is_a_list_of_texts(make):
    column = make({"text": ["free pills", "lunch at noon"]})
    classifier = TextClassifier().fit(column, ["spam", "ham"])
    assert list(map(str, classifier.predict_many(column))) == ["spam", "ham"]
    estimator = TextEstimator().fit(column, ["spam", "ham"])
    assert list(estimator.predict(column)) == ["spam", "ham"]


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
