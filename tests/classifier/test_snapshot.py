"""Reasons that are read later are those of the verdict's moment, whatever the model learns since."""

import copy

import pytest

from streamnb import (
    BernoulliNB,
    Classifier,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MailClassifier,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    WindowNB,
)

TEXTS = [
    ("free offer of cheap pills", "spam"),
    ("lunch at noon with ann", "ham"),
    ("the free train at noon", "work"),
    ("cheap lunch offer", "spam"),
    ("ann has a free day", "ham"),
    ("train pills offer meeting", "work"),
    ("meeting at noon", "ham"),
    ("pills pills pills", "spam"),
] * 3
QUESTION = "free lunch offer at the meeting, unseen words too"
CLASSIFIERS = {
    **{
        model_class.__name__: lambda c=model_class: Classifier(Tokenizer(), c())
        for model_class in (MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB)
    },
    "normalised": lambda: Classifier(
        Tokenizer(), MultinomialNB(length_norm=0.8, unseen="smooth", background_mass=2.0)
    ),
    "decay": lambda: Classifier(Tokenizer(), MultinomialNB(decay=0.9)),
    "limit": lambda: Classifier(Tokenizer(), MultinomialNB(max_features=10)),
    "window": lambda: Classifier(Tokenizer(), WindowNB(MultinomialNB(), 10)),
    "text": TextClassifier,
    "mail": MailClassifier,
    "contexts": lambda: MailClassifier(ngram_max=6, ngram_step=2),
    "one alpha": lambda: TextClassifier(systems=1, bound=None, by_length=False),
}


def train(name, texts=TEXTS):
    classifier = CLASSIFIERS[name]()
    for text, label in texts:
        classifier.learn_one(text, label)
    return classifier


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_reasons_are_those_of_the_moment_of_the_verdict(name):
    classifier = train(name)
    expected = copy.deepcopy(classifier).classify(QUESTION).reasons
    verdict = classifier.classify(QUESTION)
    classifier.learn_one(QUESTION, "another class")
    for text, _ in TEXTS:
        classifier.learn_one(text, "another class")
    (classifier.models[0] if name == "window" else classifier.model.view_models[0]).alpha = 7.0
    assert verdict.reasons == expected
    assert len(expected) > 3


@pytest.mark.parametrize("name", [name for name in CLASSIFIERS if name != "window"])
def test_reasons_and_explanation_add_up_to_the_score(name):
    classifier = train(name)
    explanation = classifier.explain_one(QUESTION)
    scores = classifier.joint_log_likelihood(QUESTION)
    for label, score in scores.items():
        parts = [by_class[label] for by_class in explanation.contributions.values()]
        assert explanation.base[label] + sum(parts) == pytest.approx(score, abs=1e-9)
        assert explanation.scores[label] == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_verdict_does_not_keep_the_model_from_being_changed(name):
    classifier = train(name)
    before = classifier.predict_proba_one(QUESTION)
    assert classifier.classify(QUESTION).reasons
    assert classifier.predict_proba_one(QUESTION) == before
    other = train(name)
    for text, label in TEXTS:
        assert classifier.classify(text).reasons
        classifier.learn_one(text, label)
        other.learn_one(text, label)
    assert classifier.predict_proba_one(QUESTION) == other.predict_proba_one(QUESTION)
