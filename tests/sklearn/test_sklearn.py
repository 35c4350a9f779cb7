import numpy as np
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

import streamnb
from streamnb.sklearn import BernoulliNB, ComplementNB, DiscriminativeMultinomialNB, MultinomialNB

ESTIMATORS = [MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB]
by_estimator = pytest.mark.parametrize("make", ESTIMATORS, ids=lambda make: make.__name__)


TEXTS = ["free offer now", "lunch at noon", "free lunch", "offer ends now"]
Y = np.array(["spam", "ham", "ham", "spam"])


@by_estimator
def test_raw_text(make):
    model = make().fit(TEXTS, Y, sample_weight=[1, 2, 1, 1])
    assert model.classes_.tolist() == ["ham", "spam"]
    assert model.predict(TEXTS).tolist() == Y.tolist()
    assert model.score(TEXTS, Y) == 1
    reference = getattr(streamnb, make.__name__)()
    reference.counts.add_classes(["ham", "spam"])
    tokenizer = streamnb.Tokenizer()
    for text, y, w in zip(TEXTS, Y.tolist(), [1, 2, 1, 1], strict=True):
        reference.learn_one(tokenizer.count(text), y, w=w)
    assert model.model_.counts == reference.counts
    assert model.predict_proba(["free now"])[0].tolist() == pytest.approx(
        list(reference.predict_proba_one(tokenizer.count("free now")).values())
    )


@by_estimator
def test_text_grows_where_matrices_may_not(make):
    model = make().partial_fit(TEXTS[:2], Y[:2])
    model.partial_fit(["quite new words"], ["list"])
    assert model.classes_.tolist() == ["ham", "list", "spam"]
    assert model.predict(["new words"])[0] == "list"
    tokenizer = streamnb.Tokenizer(ngrams=(2, 2))
    assert make(tokenizer=tokenizer).fit(TEXTS, Y).model_.counts.features == 7
    fixed = make().partial_fit(np.eye(3), [0, 1, 0], classes=[0, 1, 2])
    with pytest.raises(ValueError, match="features"):
        fixed.partial_fit(np.eye(4), [0, 1, 0, 1])


@by_estimator
def test_works_in_pipelines(make):
    X = np.random.default_rng(0).poisson(1, (40, 6))
    y = (X[:, 0] > X[:, 1]).astype(int)
    assert make_pipeline(Binarizer(), make()).fit(X, y).predict(X).shape == (40,)


@by_estimator
def test_text_and_matrices_are_not_mixed_and_generators_are_read_once(make):
    model = make().fit((text for text in TEXTS), Y)
    assert model.predict(text for text in TEXTS).shape == (4,)
    with pytest.raises(ValueError, match="was fitted on text"):
        model.predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="weight"):
        model.partial_fit(["c", "d"], ["ham", "spam"], sample_weight=[1, -1])
    assert "c" not in {name for name, _ in model.model_.top_features("ham", 50)}


@by_estimator
def test_parameters_can_change_after_fitting(make):
    X = np.random.default_rng(0).poisson(1, (40, 6))
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = make().fit(X, y).set_params(alpha=0.01)
    expected = make(alpha=0.01).fit(X, y).predict_proba(X)
    if make is DiscriminativeMultinomialNB:  # what it learned depends on alpha
        other = make(alpha=0.01).fit(X, y)
        other.model_.counts = model.model_.counts
        expected = other.predict_proba(X)
    assert model.predict_proba(X).tolist() == expected.tolist()


def test_float_labels_are_scored_as_scikit_learn_does():
    X, y = np.array([[2, 0], [0, 2]] * 10), np.array([0.0, 1.0] * 10)
    for estimator in (MultinomialNB, DiscriminativeMultinomialNB):
        assert cross_val_score(estimator(), X, y, cv=2, error_score="raise").tolist() == [1.0, 1.0]


def test_texts_of_pyarrow_are_texts_and_an_empty_column_is_an_error():
    import pyarrow as pa

    texts = ["buy now", "lunch at noon"]
    for array in (pa.array(texts), pa.chunked_array([texts[:1], texts[1:]])):
        model = streamnb.sklearn.MultinomialNB().fit(array, ["spam", "ham"])
        assert model.predict(array).tolist() == ["spam", "ham"]
    with pytest.raises(ValueError, match="found 0 samples"):
        model.predict([])
