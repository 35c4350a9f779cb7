"""Grams of bytes and pairs of words, against the definitions in Python."""

import pickle

import pytest
from definitions import slow_grams, slow_nested, slow_pairs
from hypothesis import given
from hypothesis import strategies as st

from streamnb import MailClassifier, MailTokenizer, TextClassifier
from streamnb.features.grams import ByteGrams, WordPairs
from streamnb.mail import parse
from streamnb.mail.normalization import normalize_nfc


@given(st.binary(max_size=200), st.integers(1, 8), st.integers(1, 100), st.booleans())
def test_byte_grams_are_those_of_python(raw, n, first, casefold):
    grams = ByteGrams(n, first, casefold, mail=False)
    copied = normalize_nfc(raw)[:first]
    copied = copied.lower() if casefold else copied
    assert set(grams.transform_one(raw)) == {copied[i : i + n] for i in range(len(copied) - n + 1)}
    assert (grams.count(raw).counts == 1).all()


@given(st.binary(max_size=300))
def test_byte_grams_take_any_mail(raw):
    tokens = ByteGrams(4, 50).count(raw)
    assert len(set(tokens.fingerprints.tolist())) == len(tokens) <= 47


@given(
    st.binary(max_size=120) | st.text("ab", max_size=60).map(str.encode),
    st.sampled_from([(6, 2), (4, 2), (6, 3), (3, 1), (2, 2)]),
)
def test_nested_grams_are_those_of_python(raw, sizes):
    n, step = sizes
    grams = ByteGrams(n, step=step, casefold=False, mail=False)
    result = grams.transform_one(raw)
    expected = slow_nested(raw, n, step)
    assert result.keys() == expected.keys()
    longest = {gram for gram in result if len(gram) == n}
    assert {result[gram] for gram in longest} <= {1}
    assert result == expected


@given(st.binary(max_size=200) | st.text("aB .!", max_size=90).map(str.encode), st.integers(1, 50))
def test_pairs_are_those_of_python(raw, most):
    pairs = WordPairs(first=most, mail=False)
    for _ in range(2):  # the scanner is used again
        tokens = pairs.count(raw)
        ends = tokens.ends.tolist()
        names = [tokens.names[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        assert set(names) == slow_pairs(normalize_nfc(raw), most)
        assert len(names) == len(set(names))


def test_byte_grams_leave_out_fields_of_filters():
    raw = b"Subject: hi\nX-Spam-Flag: YES\n folded\nx-bogosity: Spam\nTo: you\n\nX-Spam: text"
    clean = b"Subject: hi\nTo: you\n\nX-Spam: text"
    grams = ByteGrams(5)
    assert set(grams.transform_one(raw)) == slow_grams(clean, 5, 2000)
    assert set(grams.transform_one(parse(raw))) == slow_grams(clean, 5, 2000)
    private = ByteGrams(5, drop_headers=("To",))
    assert set(private.transform_one(raw)) == slow_grams(b"Subject: hi\n\nX-Spam: text", 5, 2000)
    assert set(ByteGrams(5, headers=False).transform_one(raw)) == slow_grams(
        b"Subject: hi\n\nX-Spam: text", 5, 2000
    )
    assert ByteGrams(5, on="m").transform_one({"m": raw}) == grams.transform_one(raw)
    assert pickle.loads(pickle.dumps(grams)).transform_one(raw) == grams.transform_one(raw)


@pytest.mark.parametrize("options", [{"n": 0}, {"n": 9}, {"first": 0}, {"first": 1 << 25}])
def test_bad_byte_grams_are_refused(options):
    with pytest.raises(ValueError, match=r"is not a whole number from 1 to (8|16777216)"):
        ByteGrams(**options).count(b"abc")
    name = {"n": "ngram_max", "first": "first_bytes"}[next(iter(options))]
    with pytest.raises(ValueError, match=r"is not a whole number from 1 to (8|16777216)"):
        MailClassifier(**{name: next(iter(options.values()))})


def test_no_view_reads_stamps_in_parts():
    part = b"--b\nContent-Type: text/plain\nX-Spam-Flag: YES\n\nbody\n"
    attached = b"--b\nContent-Type: message/rfc822\n\nX-Spam-Flag: YES\nTo: me\n\nbody\n"
    for inside in (part, attached):
        raw = b"Content-Type: multipart/mixed; boundary=b\n\n" + inside + b"--b--\n"
        clean = raw.replace(b"X-Spam-Flag: YES\n", b"")
        assert ByteGrams().count(raw) == ByteGrams().count(clean)
        assert ByteGrams().count(clean) == ByteGrams(mail=False).count(clean)
        assert MailTokenizer().count(raw) == MailTokenizer().count(clean)


@pytest.mark.parametrize("kind", ["Message/RFC822", "message/global", "message/news"])
def test_no_view_reads_stamps_in_attached_messages(kind):
    head = b"Content-Type: multipart/mixed;\n boundary=b\n\n"
    announced = b"Content-Type:\n %s\n\n" % kind.encode()
    stamped = b"X-Spam-Flag: YES\nTo: me\n\nbody\n--b--\n"
    for raw in (
        head + b"--b\n" + announced + stamped,
        head.replace(b"mixed", b"digest") + b"--b\n\n" + stamped,
    ):
        clean = raw.replace(b"X-Spam-Flag: YES\n", b"")
        assert ByteGrams().count(raw) == ByteGrams().count(clean)


@given(st.text(alphabet="ae\u0301\u1100\u1161 \u0438\u0306n", max_size=40))
def test_a_text_and_its_composed_form_have_the_same_features(text):
    views = TextClassifier().tokenizer
    assert views.count(text) == views.count(normalize_nfc(text))
    assert views.count(text.encode()) == views.count(text)
