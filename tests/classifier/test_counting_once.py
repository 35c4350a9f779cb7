"""A message that is predicted and then learned is counted once."""

import copy
import pickle

import pytest

from streamnb import Classifier, MultinomialNB, TextClassifier, Tokenizer, ViewsNB
from streamnb.features.grams import ByteGrams
from streamnb.features.views import Views


@pytest.mark.parametrize(
    "read",
    [str, str.encode, lambda text: {"text": text}, lambda text: {"text": text.encode()}],
    ids=["str", "bytes", "str in a dict", "bytes in a dict"],
)
def test_a_message_that_is_predicted_and_then_learned_is_counted_once(read):
    calls = []

    def split(text):
        calls.append(text)
        return text.split()

    message = read("free offer")
    classifier = Classifier(split, MultinomialNB(), on="text" if type(message) is dict else None)
    classifier.predict_proba_one(message)
    classifier.learn_one(message, "spam")
    classifier.classify(message)
    assert len(calls) == 1
    classifier.learn_one(read("lunch at noon"), "ham")
    classifier.learn_one(message, "spam")
    assert len(calls) == 3


def test_a_message_that_changed_in_place_is_counted_again():
    classifier = Classifier(lambda words: words, MultinomialNB())
    words = ["free", "offer"]
    classifier.learn_one(words, "spam")
    words[:] = ["lunch"]
    assert classifier.count(words).to_dict() == {"lunch": 1}


@pytest.mark.parametrize(
    "tokenizer",
    [Tokenizer(), Views([Tokenizer(), ByteGrams(mail=False)], mail=False)],
    ids=["one", "views"],
)
def test_a_changed_tokenizer_counts_the_last_message_again(tokenizer):
    parts = tokenizer.tokenizers
    model = MultinomialNB() if len(parts) == 1 else ViewsNB([MultinomialNB() for _ in parts])
    classifier = Classifier(tokenizer, model)
    text = "Free offer"
    before = classifier.count(text)
    assert classifier.count(text) is before
    parts[0].casefold = not parts[0].casefold
    assert classifier.count(text) is not before


def test_copies_and_pickles_do_not_contain_the_last_message():
    classifier = TextClassifier()
    classifier.predict_one("an unlikely phrase of a customer")
    assert b"phrase" not in pickle.dumps(classifier)
    assert "_counted" not in vars(copy.deepcopy(classifier))
