"""The reasons of a verdict: the features with the largest log-odds of its explanation."""

import copy
import dataclasses
import pickle
import subprocess
import sys
import time

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
    ViewsNB,
    WindowNB,
)
from streamnb.classifier.verdict import feature_name
from streamnb.features.views import Views

TEXTS = [
    ("free offer of cheap pills", "spam"),
    ("lunch at noon with ann", "ham"),
    ("the free train at noon", "work"),
    ("cheap lunch offer", "spam"),
    ("ann has a free day", "ham"),
    ("train pills offer meeting", "work"),
    ("meeting at noon", "ham"),
    ("pills pills pills, \u597d\u5403", "spam"),
] * 3
QUESTION = "free lunch offer at the meeting, \u597d\u5403 unseen words too"
CLASSIFIERS = {
    **{
        model_class.__name__: lambda c=model_class: Classifier(Tokenizer(), c())
        for model_class in (MultinomialNB, BernoulliNB, ComplementNB, DiscriminativeMultinomialNB)
    },
    "normalised": lambda: Classifier(
        Tokenizer(), MultinomialNB(length_norm=0.8, unseen="smooth", complement=True)
    ),
    "decay": lambda: Classifier(Tokenizer(), MultinomialNB(decay=0.9)),
    "limit": lambda: Classifier(Tokenizer(), MultinomialNB(max_features=10)),
    "window": lambda: Classifier(Tokenizer(), WindowNB(MultinomialNB(), 10)),
    "views of one name": lambda: Classifier(
        Views([Tokenizer(), Tokenizer()], mail=False), ViewsNB([MultinomialNB(), BernoulliNB()])
    ),
    "text": TextClassifier,
    "text without names": lambda: TextClassifier(keep_names=False),
    "mail": MailClassifier,
    "contexts": lambda: MailClassifier(ngram_max=6, ngram_step=2),
    "one alpha": lambda: TextClassifier(systems=1, bound=None, by_length=False),
}


@pytest.fixture(params=CLASSIFIERS)
def classifier(request):
    trained = CLASSIFIERS[request.param]()
    for text, label in TEXTS:
        trained.learn_one(text, label)
    return trained


@pytest.mark.parametrize("most", [1, 3, 10, 1000])
def test_reasons_are_the_largest_of_all_contributions(classifier, most):
    verdict = classifier.classify(QUESTION, most)
    explanation = classifier.explain_one(QUESTION)
    gains = []
    for feature, by_class in explanation.contributions.items():
        others = [value for label, value in by_class.items() if label != verdict.label]
        gains.append((feature_name(feature), by_class[verdict.label] - max(others)))
    loudest = sorted(gains, key=lambda item: (-abs(item[1]), item[0]))[:most]
    reasons = [(feature_name(reason.feature), reason.log_odds) for reason in verdict.reasons]
    assert sorted(reasons) == sorted(loudest)
    assert len({reason.feature for reason in verdict.reasons}) == len(verdict.reasons)
    for reason in verdict.reasons:
        assert list(reason.counts) == classifier.labels
        assert min(reason.counts.values()) >= 0


def test_contributions_add_up_to_the_score(classifier):
    explanation = classifier.explain_one(QUESTION)
    for label, score in classifier.joint_log_likelihood(QUESTION).items():
        parts = [by_class[label] for by_class in explanation.contributions.values()]
        assert explanation.base[label] + sum(parts) == pytest.approx(score, abs=1e-9)
        assert explanation.scores[label] == pytest.approx(score, abs=1e-9)


def test_a_verdict_is_a_plain_frozen_value(classifier):
    verdict = classifier.classify(QUESTION)
    for convert in (copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))):
        assert convert(verdict) == verdict
    assert "reasons=[Reason(" in repr(verdict)
    assert len(pickle.dumps(verdict)) < 20_000  # and not the classifier
    assert vars(verdict).keys() == {field.name for field in dataclasses.fields(verdict)}


def test_classifying_changes_nothing(classifier):
    before = classifier.predict_proba_one(QUESTION)
    assert classifier.classify(QUESTION, 0).reasons == []
    assert classifier.classify(QUESTION).reasons
    assert classifier.predict_proba_one(QUESTION) == before
    untouched = copy.deepcopy(classifier)
    for text, label in TEXTS:
        assert classifier.classify(text).reasons
        classifier.learn_one(text, label)
        untouched.learn_one(text, label)
    assert classifier.predict_proba_one(QUESTION) == untouched.predict_proba_one(QUESTION)


def test_a_class_whose_messages_were_all_unlearned_has_no_reasons():
    classifier = TextClassifier()
    for text, label in [("pills", "spam"), ("lunch", "ham"), ("noon train", "work")]:
        classifier.learn_one(text, label)
    classifier.unlearn_one("noon train", "work", receipt=classifier.receipt)
    tokens = classifier.count("the noon train and pills")
    assert classifier.reasons(tokens, "work", 5) == []
    assert classifier.reasons(tokens, "spam", 5)


@pytest.mark.performance
def test_a_verdict_costs_little_more_than_probabilities():
    classifier = TextClassifier()
    texts = [" ".join(f"word{(i * j) % 997}" for j in range(1, 101)) for i in range(300)]
    classifier.learn_many(texts, [i % 2 for i in range(300)])

    def seconds(call):
        start = time.perf_counter()
        for text in texts:
            call(text)
        return (time.perf_counter() - start) / len(texts)

    def classify(reasons):
        return min(seconds(lambda text: classifier.classify(text, reasons)) for _ in range(5))

    proba = min(seconds(classifier.predict_proba_one) for _ in range(5))
    assert classify(0) < 1.5 * proba  # 1.2 times is measured
    assert classify(5) < 1.3 * proba + 0.4e-3


def test_reasons_that_are_bytes_are_sorted_and_shown_if_python_refuses_their_text():
    program = """
import streamnb
model = streamnb.MailClassifier(views=("pairs", "bytes"))
model.learn_many([b"buy pills", b"lunch at noon"], ["spam", "ham"])
verdict = model.classify(b"buy pills now")
assert any(isinstance(reason.feature, bytes) for reason in verdict.reasons)
verdict.to_html("buy pills"), verdict.to_dict(), model.top_features("spam")
"""
    subprocess.run([sys.executable, "-P", "-bb", "-W", "error", "-c", program], check=True)
