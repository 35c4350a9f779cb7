"""Tokenizers, and functions in their place: at every entry point, with every operation."""

import io
import pickle

import pytest
from river.feature_extraction import BagOfWords

import streamnb
from streamnb import sklearn as estimators
from streamnb.errors import OutputError
from streamnb.features.views import Views
from streamnb.naive_bayes import MultinomialNB, ViewsNB


def split_words(text):
    return text.split()


class Stemmer:
    def __call__(self, text):
        return (word.rstrip("s") for word in text.split())


class Counter:
    def count(self, text):
        return dict.fromkeys(text.split(), 1)


TOKENIZERS = {
    "function": split_words,
    "method": str.split,
    "object that can be called": Stemmer(),
    "object with a method count": Counter(),
    "river's bag of words": BagOfWords().transform_one,
    "streamnb.Tokenizer": streamnb.Tokenizer(),
}
NO_TOKENIZERS = [
    object(),
    "split",
    ["split"],
    streamnb.MultinomialNB(),
    3,
    streamnb.Tokenizer,
    dict,
]
# Each entry point that takes a tokenizer.
ENTRANCES = {
    "Classifier": lambda tokenizer: streamnb.Classifier(tokenizer, MultinomialNB()),
    "Views": lambda tokenizer: streamnb.Classifier(
        Views([tokenizer, streamnb.Tokenizer()], mail=False),
        ViewsNB([MultinomialNB(), MultinomialNB()]),
    ),
    "TextClassifier": lambda tokenizer: streamnb.TextClassifier(words=tokenizer),
}
TEXTS = ["free offers now", "lunch at noon", "free pills", "the noon train"]
LABELS = ["spam", "ham", "spam", "ham"]
by_tokenizer = pytest.mark.parametrize("kind", TOKENIZERS)
by_entrance = pytest.mark.parametrize("entrance", ENTRANCES)


@by_entrance
@by_tokenizer
def test_every_operation_works(kind, entrance):
    classifier = ENTRANCES[entrance](TOKENIZERS[kind])
    classifier.learn_many(TEXTS, LABELS)
    assert classifier.predict_one("free") == "spam"
    verdict = classifier.classify("free lunch", reasons=5)
    assert "free" in {str(reason.feature) for reason in verdict.reasons}
    assert "free" in {str(name) for name, *_ in classifier.top_features("spam", 50)}
    assert classifier.explain_one("free").contributions
    classifier.learn_one("more offers", "spam")
    classifier.unlearn_one("more offers", "spam", receipt=classifier.receipt)
    same = pickle.loads(pickle.dumps(classifier))
    assert same.predict_proba_one("free") == classifier.predict_proba_one("free")
    merged = ENTRANCES[entrance](TOKENIZERS[kind])
    merged.learn_many(TEXTS, LABELS)
    classifier.model.merge(merged.model)
    assert sum(classifier.messages().values()) == 8


@by_entrance
@by_tokenizer
def test_a_file_holds_tokenizers_of_streamnb_only(kind, entrance, tmp_path):
    classifier = ENTRANCES[entrance](TOKENIZERS[kind])
    classifier.learn_many(TEXTS, LABELS)
    if kind == "streamnb.Tokenizer":
        classifier.save(tmp_path / "m")
        return
    with pytest.raises(OutputError, match=r"cannot be saved.*Save `classifier.model`"):
        classifier.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    file = io.BytesIO()
    classifier.model.save(file)
    loaded = streamnb.Classifier(classifier.tokenizer, type(classifier.model).load(file))
    assert loaded.predict_proba_one("free") == classifier.predict_proba_one("free")


@by_entrance
@pytest.mark.parametrize("value", NO_TOKENIZERS, ids=lambda value: type(value).__name__)
def test_anything_else_is_refused_at_the_constructor(entrance, value):
    with pytest.raises(ValueError, match="function from a text to its tokens") as caught:
        ENTRANCES[entrance](value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", estimators.__all__)
@by_tokenizer
def test_estimators_take_the_same(name, kind):
    estimator = getattr(estimators, name)
    owner = {"tokenizer", "words"} & set(estimator().get_params(deep=False))
    if not owner:
        return  # an estimator of tables
    model = estimator(**{owner.pop(): TOKENIZERS[kind]})
    if name == "MailClassifier":
        model.set_params(views=("words",))
    assert model.fit(TEXTS, LABELS).predict(["free"]).tolist() == ["spam"]


@pytest.mark.parametrize("tokens", [[["a"]], [None], [float("nan")], {("a", 1.5): 1}], ids=repr)
def test_a_wrong_token_names_the_tokenizer(tokens):
    classifier = streamnb.Classifier(lambda text: tokens, MultinomialNB())
    with pytest.raises(TypeError, match=r"the tokenizer .*lambda.* returned a wrong token: "):
        classifier.learn_one("free", "spam")


@pytest.mark.parametrize("tokens", ["text", b"bytes", None, 3], ids=repr)
def test_results_that_are_not_tokens_are_refused(tokens):
    classifier = streamnb.Classifier(lambda text: tokens, MultinomialNB())
    with pytest.raises(TypeError, match="expected the tokens"):
        classifier.learn_one("free", "spam")
    assert not classifier.labels
