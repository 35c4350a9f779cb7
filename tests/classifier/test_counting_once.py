"""A message that is predicted and then learned is counted once."""

import copy
import pickle

import pytest

from streamnb import Classifier, MultinomialNB, TextClassifier, Tokenizer, ViewsNB
from streamnb.features.grams import ByteGrams
from streamnb.features.views import Views


class _Stems(Tokenizer):
    """A tokenizer with state that is no parameter."""

    ignored = frozenset()

    def count(self, x):
        return super().count(" ".join(word for word in x.split() if word not in self.ignored))


@pytest.fixture
def counted(monkeypatch):
    """The messages that a `Tokenizer` counted."""
    messages, count = [], Tokenizer._count

    def record(tokenizer, message):
        messages.append(message)
        return count(tokenizer, message)

    monkeypatch.setattr(Tokenizer, "_count", record)
    return messages


@pytest.mark.parametrize(
    "read",
    [str, str.encode, lambda text: {"text": text}, lambda text: {"text": text.encode()}],
    ids=["str", "bytes", "str in a dict", "bytes in a dict"],
)
def test_a_message_that_is_predicted_and_then_learned_is_counted_once(read, counted):
    message = read("free offer")
    on = "text" if type(message) is dict else None
    classifier = Classifier(Tokenizer(), MultinomialNB(), on=on)
    classifier.predict_proba_one(message)
    classifier.learn_one(message, "spam")
    assert len(counted) == 1
    classifier.learn_one(read("lunch at noon"), "ham")
    classifier.learn_one(message, "spam")
    assert len(counted) == 3


def test_a_changed_tokenizer_counts_the_last_message_again(counted):
    classifier = Classifier(Tokenizer(), MultinomialNB())
    text = "Free offer"
    for casefold in (True, False):
        classifier.tokenizer.casefold = casefold
        classifier.predict_one(text)
    assert len(counted) == 2


def test_an_exchanged_view_counts_the_last_message_again(counted):
    views = Views([Tokenizer(), ByteGrams(mail=False)], mail=False)
    classifier = Classifier(views, ViewsNB([MultinomialNB(), MultinomialNB()]))
    text = "Free offer"
    for _ in range(2):
        classifier.predict_one(text)
    views.tokenizers[0] = Tokenizer()
    classifier.predict_one(text)
    assert len(counted) == 2


def test_a_function_is_called_again_because_it_can_return_other_tokens():
    stop_words = set()
    classifier = Classifier(
        lambda text: [word for word in text.split() if word not in stop_words], MultinomialNB()
    )
    text = "free offer"
    classifier.predict_one(text)
    stop_words.add("free")
    classifier.learn_one(text, "spam")
    assert classifier.model.feature_counts("free") == {"spam": 0}


def test_a_subclass_counts_again_because_it_can_have_other_state():
    tokenizer = _Stems()
    classifier = Classifier(tokenizer, MultinomialNB())
    text = "free offer"
    classifier.predict_one(text)
    _Stems.ignored = frozenset(["free"])
    classifier.learn_one(text, "spam")
    _Stems.ignored = frozenset()
    assert classifier.model.feature_counts("free") == {"spam": 0}


def test_a_subclass_of_views_counts_again():
    class Cut(Views):
        start = 0

        def count(self, x):
            return super().count(x[self.start :])

    views = Cut([Tokenizer(), ByteGrams(mail=False)], mail=False)
    classifier = Classifier(views, ViewsNB([MultinomialNB(), MultinomialNB()]))
    text = "free offer"
    classifier.predict_one(text)
    views.start = 5
    classifier.learn_one(text, "spam")
    assert classifier.model.view_models[0].feature_counts("free") == {"spam": 0}


def test_a_subclass_can_read_messages_of_another_form():
    class Joined(Classifier):
        def count(self, x):
            return super().count(" ".join(x))

    classifier = Joined(Tokenizer(), MultinomialNB())
    classifier.learn_one(["free", "offer"], "spam")
    assert classifier.predict_one(["free"]) == "spam"


def test_features_for_the_caller_are_counted_again():
    classifier = Classifier(Tokenizer(), MultinomialNB())
    text = "free offer"
    classifier.predict_one(text)
    classifier.count(text).counts[:] = 0
    classifier.learn_one(text, "spam")
    assert classifier.model.feature_counts("free") == {"spam": 1}


def test_copies_and_pickles_do_not_contain_the_last_message():
    classifier = TextClassifier()
    classifier.predict_one("an unlikely phrase of a customer")
    assert b"phrase" not in pickle.dumps(classifier)
    assert "_counted" not in vars(copy.deepcopy(classifier))
