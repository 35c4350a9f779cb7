"""N-grams of characters beyond ASCII, against their definition."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from river import checks

from streamnb import Classifier, MailClassifier, TextClassifier
from streamnb.features.grams import CharacterGrams

SCRIPTS = st.sampled_from("ab .!\t\n\u00e9\u0301éßИи好吃กขবাংলা한글🙂\u200b\ud800")
texts = st.text(SCRIPTS, max_size=60)


def slow_grams(text, n, first):
    """The n-grams of a text by their definition."""
    if text.isascii():
        return set()
    text = " ".join(unicodedata.normalize("NFC", text).casefold().split())[:first]
    grams = {text[i : i + size] for size in range(1, n + 1) for i in range(len(text) - size + 1)}
    return {gram for gram in grams if not gram.isascii()}


@pytest.mark.parametrize("n", [1, 2, 3])
@given(text=texts, first=st.integers(1, 40))
@example(text="好", first=1)
@example(text="a" * 30 + "好", first=30)
def test_grams_are_those_of_the_definition(n, text, first):
    counts = CharacterGrams(n, first).transform_one(text)
    assert set(counts) == slow_grams(text, n, first)
    assert set(counts.values()) <= {1}


@given(text=texts)
def test_bytes_in_utf_8_have_the_grams_of_their_text(text):
    text = text.replace("\ud800", "")
    grams = CharacterGrams()
    assert grams.transform_one(text.encode()) == grams.transform_one(text)


def test_the_longest_text_fits():
    grams = CharacterGrams(first=20_000)
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 20_000)))
    assert len(grams.count(text).fingerprints) == 3 * 20_000 - 3


def test_characters_are_a_view_of_plain_text_and_survive_saving(tmp_path):
    classifier = TextClassifier(views=("words", "bytes", "characters"))
    for text, label in [("这家酒店很好", "good"), ("房间太脏了", "bad")] * 3:
        classifier.learn_one(text, label)
    classifier.save(tmp_path / "model.snb")
    loaded = Classifier.load(tmp_path / "model.snb")
    assert loaded.predict_proba_one("很好") == classifier.predict_proba_one("很好")
    assert loaded.predict_one("很好") == "good"


def test_a_mail_has_no_view_of_characters():
    with pytest.raises(ValueError, match="a mail has no characters"):
        MailClassifier(views=("words", "characters"))


def test_other_inputs_are_refused():
    with pytest.raises(TypeError, match="str or bytes"):
        CharacterGrams().count(3)


def test_river_contract():
    for check in checks.yield_checks(CharacterGrams()):
        check(CharacterGrams())


def test_no_two_reasons_of_a_text_have_the_same_name():
    classifier = TextClassifier()
    for _ in range(4):
        classifier.learn_one("我付了两次钱", "billing")
        classifier.learn_one("密码被拒绝", "account")
    reasons = classifier.classify("我付了两次", reasons=100).reasons
    names = [reason.feature for reason in reasons]
    assert "characters '两次'" in names
    assert "两次" in names
    assert len(set(names)) == len(names)
