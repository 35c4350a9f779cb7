"""The models of `streamnb` itself in the tools of scikit-learn, without their estimators."""

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import streamnb
import streamnb.sklearn

ROWS = np.array([[3, 0, 1], [0, 2, 1], [2, 1, 0], [0, 3, 1]] * 6)
TEXTS = ["cheap pills", "lunch at noon", "free pills", "noon train"] * 6
LABELS = ["spam", "ham"] * 12
MODELS = streamnb.sklearn.__all__
FORMULA = {"GaussianNB": "var_smoothing", "GaussianDiscriminantAnalysis": "shrinkage"}


@pytest.mark.parametrize("name", MODELS)
def test_tools_of_scikit_learn_take_models(name):
    X = TEXTS if name.endswith("Classifier") else ROWS
    model = getattr(streamnb, name)()
    assert cross_val_score(model, X, LABELS, cv=3).min() > 0.9
    grid = {FORMULA.get(name, "alpha"): [0.1, 0.5]}
    assert GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, LABELS).best_score_ > 0.9
    for tool in (
        VotingClassifier([("a", model)], voting="soft"),
        StackingClassifier([("a", model)], cv=2),
        CalibratedClassifierCV(model, cv=2),
        make_pipeline(model),
    ):
        tool.fit(X, LABELS)
        assert tool.predict(X).tolist() == LABELS
        assert tool.predict_proba(X).shape == (len(X), 2)
    with pytest.raises((NotFittedError, ValueError), match=r"not (fitted|trained)"):
        make_pipeline(getattr(streamnb, name)()).predict(X)  # ValueError before scikit-learn 1.8


def test_a_vectorizer_is_answered_with_its_analyzer():
    with pytest.raises(ValueError, match=r"build_analyzer\(\)"):
        streamnb.Classifier(CountVectorizer(), streamnb.MultinomialNB())
    analyzer = CountVectorizer().build_analyzer()
    model = streamnb.Classifier(analyzer, streamnb.MultinomialNB()).fit(TEXTS, LABELS)
    assert model.predict(TEXTS).tolist() == LABELS
