"""A program as users write it: mypy checks it strictly in the step of types, and pytest runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamnb import (
    AODE,
    CategoricalNB,
    Classifier,
    GaussianNB,
    Mailbox,
    MailClassifier,
    MixedNB,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    ViewsNB,
)
from streamnb.classifier import Costs, Verdict
from streamnb.features.views import Views


def _stream() -> Iterator[tuple[str, str]]:
    yield "free pills", "spam"
    yield "lunch at noon", "ham"


def test_classifiers_take_what_the_documentation_shows(tmp_path: Path) -> None:
    classifier = TextClassifier(costs=(100, 1, 0.5))
    for text, label in _stream():
        classifier.learn_one(text, label)
    verdict: Verdict = classifier.classify("free lunch", costs=[1, 1, 0.1])
    assert verdict.label in ("spam", "ham")
    assert verdict.to_dict()["label"] == verdict.label
    classifier.costs = (10, 1, 0.2)
    miss: float = classifier.costs.miss
    assert miss == 1
    classifier.save(tmp_path / "texts.snb")
    assert TextClassifier.load(tmp_path / "texts.snb").costs == Costs(10, 1, 0.2)
    assert MailClassifier(costs=[1, 1, 1]).costs == Costs(1, 1, 1)


def test_tokenizers_can_be_functions() -> None:
    for classifier in (
        TextClassifier(words=str.split, views=("words",)),
        Classifier(str.split, MultinomialNB(alpha=0.5, prior={"a": 0.5, "b": 0.5})),
        Classifier(lambda text: text.split("-"), MultinomialNB()),
        Classifier(
            Views([Tokenizer(), Tokenizer(ngrams=(2, 2))], False),
            ViewsNB([MultinomialNB(), MultinomialNB()]),
        ),
    ):
        classifier.fit(["x", "y"], ["a", "b"], sample_weight=[1, 2])
        classifier.partial_fit(["x"], ["a"], classes=["a", "b"])
        assert list(classifier.predict_many(["x", "y"])) == ["a", "b"]


def test_models_learn_dicts(tmp_path: Path) -> None:
    model = MultinomialNB()
    model.learn_one({"a": 1, "b": 2.5}, "x")
    model.unlearn_one({"a": 1, "b": 2.5}, "x")
    GaussianNB(var_smoothing=1e-9).learn_one({"a": 1.0, "b": None}, True)
    for table_model in (MixedNB(), AODE(), CategoricalNB(alpha=1)):
        table_model.learn_one({"a": "red"}, 3)
        assert table_model.predict_one({"a": "red"}) == 3
    with Mailbox(tmp_path / "mail.db") as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "spam")
        assert mailbox.classify(b"Subject: a\n\nb").label == "spam"
        mailbox.forget(b"Subject: a\n\nb")
