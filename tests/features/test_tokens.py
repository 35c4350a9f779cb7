import base64
import math
import pickle
import re
import time
import unicodedata
from copy import deepcopy

import numpy as np
import pytest
from definitions import is_passed_over, slow_words
from hypothesis import example, given
from hypothesis import strategies as st
from river import checks

from streamnb import Classifier, MailClassifier, MailTokenizer, MultinomialNB, Tokenizer
from streamnb._core import Scanner
from streamnb.features.grams import WordPairs
from streamnb.features.token_counts import TokenCounts
from streamnb.features.views import TOKENIZERS
from streamnb.mail import parse
from streamnb.mail.normalization import normalize_nfc


def tokens(text, **options):
    return Tokenizer(**options).transform_one(text)


@pytest.mark.parametrize("make", [Tokenizer, MailTokenizer], ids=["Tokenizer", "MailTokenizer"])
def test_river_contract(make):
    for check in checks.yield_checks(make()):
        check(make().clone())
    assert make()._tags == {"text input"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Don't STOP-it!", ["don't", "stop-it"]),
        ("v1.0 $100 free!!", ["v1.0", "100", "free"]),
        ("a--b 'x' .y.", ["a", "b", "x", "y"]),
        ("naïve Straße ΣΊΣΥΦΟΣ", ["naïve", "strasse", "σίσυφοσ"]),
        ("e\u0301te\u0301", ["\u00e9t\u00e9"]),  # a letter and its mark are one
        ("x\u0301te\u0323\u0301", ["x\u0301t\u1eb9\u0301"]),  # where there is one for both
        ("Vi\u00ada\u200bgra", ["viagra"]),  # what is not shown cannot split a word
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("東京都 の人", ["東京", "京都", "の人"]),
        ("東\u200b京", ["東京"]),
        ("京", ["京"]),
        ("iPhone東京", ["iphone", "東京"]),
        ("snake_case x1", ["snake_case", "x1"]),
        ("\ud800lone\udfff", ["lone"]),
        ("x" * 41 + " ok", ["ok"]),
    ],
)
def test_words(text, expected):
    assert list(tokens(text)) == expected


def test_repeated_words_count_by_their_logarithm():
    result = Tokenizer(sublinear=True).count(" ".join(f"w{n} " * n for n in range(1, 1500)))
    for name, count in result.to_dict().items():
        n = int(name[1:])
        below = n.bit_length() - 1
        assert count == (1 + below + n / 2**below - 1 if n < 1024 else 11 + (n - 1024) / 1024)
        assert abs(count - 1 - math.log2(n)) < 0.1
    assert Tokenizer(sublinear=True).transform_one("a a a b") == {"a": 2.5, "b": 1}


def test_options():
    assert list(tokens("Ab-C d", casefold=False, inner="")) == ["Ab", "C", "d"]
    assert list(tokens("a bb ccc dddd", min_length=2, max_length=3)) == ["bb", "ccc"]
    assert tokens("a a b", binary=True) == {"a": 1, "b": 1}
    assert tokens("a a b a", sublinear=True, binary=True) == {"a": 1, "b": 1}
    assert tokens("The cat THE dog", stop_words=("the",)) == {"cat": 1, "dog": 1}
    for stop in ("cafe\u0301", "CAF\u00e9", "ca\u00adfe\u0301"):  # one word, however it is written
        assert tokens("caf\u00e9 bar cafe\u0301", stop_words=(stop,)) == {"bar": 1}
        assert len(Tokenizer(stop_words=(stop,), keep_names=False).count("caf\u00e9 None")) == 1
    assert tokens("New York now", stop_words=("new york",), ngrams=(2, 2)) == {"york now": 1}
    assert list(tokens("to be or", ngrams=(1, 2))) == ["to", "be", "to be", "or", "be or"]
    assert list(tokens("a b c d", ngrams=(3, 3))) == ["a b c", "b c d"]
    assert list(tokens("東京都", ngrams=(2, 2))) == ["東京 京都"]
    assert tokens("ab \n b", analyzer="char", ngrams=(2, 2)) == {"ab": 1, "b ": 1, " b": 1}
    assert list(tokens("see http://a.example/x?y", urls=True)) == [
        "see", "url:a.example", "url:example", "url:x", "url:y",
    ]  # fmt: skip
    for text in ("www.a.example", "www.a.example/x", "see www.a.example\n", "https://a.example"):
        assert "url:a.example" in tokens(text, urls=True)
    assert tokens({"t": "hi"}, on="t") == {"hi": 1}
    assert Tokenizer(keep_names=False).count("hi").names is None


@pytest.mark.parametrize(
    "options",
    [{"analyzer": "line"}, {"ngrams": (0, 1)}, {"ngrams": (2, 1)}, {"ngrams": (1, 9)},
     {"inner": "a"}, {"inner": "é"}, {"inner": " "}],
)  # fmt: skip
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError, match=r"analyzer|ngrams|inner"):
        Tokenizer(**options).count("x")


def test_bytes_are_utf8_and_bad_ones_separate():
    assert list(tokens("Grüße".encode())) == ["grüsse"]
    assert list(tokens(b"ab\xffcd \xc3")) == ["ab", "cd"]
    with pytest.raises(TypeError, match="str or UTF-8 bytes, not int"):
        Tokenizer().count(3)


alphabet = st.sampled_from(
    list("aZ09_ .'-$!\n\tßİéΣ京都かอ") + ["\u0301", "\u200b", "\u00ad", "\U0001f600", "\U00020000"]
)


@example("\uff21\uff22\uff43 \U0001d400b")  # letters of full width and of mathematics
@given(st.text(alphabet | st.characters(blacklist_categories=["Cs"]), max_size=40))
def test_words_are_those_of_the_definition(text):
    exact = Tokenizer(casefold=False).count(text).to_dict()
    words = slow_words(unicodedata.normalize("NFC", text))
    assert exact == {word: words.count(word) for word in words}
    folded = Tokenizer().count(text).to_dict()
    assert sum(folded.values()) == len(words)
    assert set(folded) == {word.casefold() for word in words}


@given(st.text(max_size=60), st.integers(1, 3), st.integers(0, 2))
def test_character_ngrams_are_those_of_the_definition(text, first, extra):
    text = unicodedata.normalize("NFC", text.encode("utf-8", "replace").decode())
    options = {"analyzer": "char", "ngrams": (first, first + extra), "casefold": False}
    result = Tokenizer(**options).count(text).to_dict()
    visible = "".join(c for c in text if not is_passed_over(c))
    plain = re.sub(r"\s+", " ", visible)
    expected = [
        plain[i : i + n] for n in range(first, first + extra + 1) for i in range(len(plain) - n + 1)
    ]
    assert result == {gram: expected.count(gram) for gram in expected}


@given(st.lists(st.text("ab c", max_size=30), max_size=3), st.integers(1, 3))
def test_word_ngrams_are_those_of_the_definition(texts, n):
    tokenizer = Tokenizer(ngrams=(n, n))
    for text in texts:
        words = text.split()
        expected = [" ".join(words[i : i + n]) for i in range(len(words) - n + 1)]
        assert tokenizer.count(text).to_dict() == {gram: expected.count(gram) for gram in expected}


def test_long_texts_keep_their_ngrams():
    words = [f"w{i % 700}" for i in range(60_000)]
    counts = Tokenizer(ngrams=(2, 3)).count(" ".join(words))
    expected = {" ".join(words[i : i + n]) for n in (2, 3) for i in range(len(words) - n + 1)}
    assert set(counts.to_dict()) == expected
    text = "".join(chr(97 + i * i % 26) for i in range(200_000))
    grams = Tokenizer(analyzer="char", ngrams=(3, 3)).count(text).to_dict()
    assert set(grams) == {text[i : i + 3] for i in range(len(text) - 2)}
    assert sum(grams.values()) == len(text) - 2


@given(st.text(max_size=80))
def test_counts_and_dict_are_the_same_to_a_model(text):
    tokenizer = Tokenizer(ngrams=(1, 2), urls=True)
    fast, slow = MultinomialNB(), MultinomialNB()
    fast.learn_one(tokenizer.count(text), "x")
    slow.learn_one(tokenizer.transform_one(text), "x")
    assert fast.counts == slow.counts


def test_a_pickled_tokenizer_is_the_same():
    for tokenizer in (Tokenizer(ngrams=(1, 2)), MailTokenizer(casefold=True)):
        tokenizer.count("warm up")
        copy = pickle.loads(pickle.dumps(tokenizer))
        assert copy.count("Subject: a b\n\nc") == tokenizer.count("Subject: a b\n\nc")


def html_tokens(page):
    scanner = Scanner(urls=True)
    scanner.html(page)
    _, _, names, ends = scanner.finish()
    result, start = [], 0
    for end in ends:
        result.append(names[start:end].decode())
        start = end
    return result


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("V<b></b>ia<!-- x -->gra", ["viagra"]),
        ("one<p>two<br/>three<td>four", ["one", "two", "three", "four"]),
        (
            "<option>one<option>two<legend>three</legend>four<dialog open>five",
            ["one", "two", "three", "four", "five"],
        ),
        ("caf&eacute; &#65;&#x42;c &copy;x &nosuch; &", ["café", "abc", "x", "nosuch"]),
        ("&#0; &#xD800; &#99999999999;", []),
        ("<script>if (a < b) spam()</script>after<style>b{}</style>!", ["after"]),
        ("<script>never closed", ["never", "closed"]),
        ("<!-- never closed", ["never", "closed"]),
        ("3 < 4 > 2", ["3", "4", "2"]),
        ("<!DOCTYPE html><?xml x?>text", ["text"]),
        ("<a b='c<d", []),
        ("<img alt='nice picture' title=two>", ["nice", "picture", "two"]),
        ("a\u00adb &#8203;c&shy;d", ["ab", "cd"]),
        ("<!-->buy<!-- -->this<!--->now<!-- x --!>ok", ["buythisnowok"]),
    ],
)
def test_html_as_a_reader_sees_it(page, words):
    assert [name for name in html_tokens(page) if ":" not in name] == words


def test_html_tags_attributes_and_links():
    result = html_tokens(
        '<FONT Color="Red"><a href="HTTP://User@Shop.Example:80/go?id=7">x</a><form action=/post>'
    )
    assert result == [
        "html:font", "html:color=red", "html:a", "url:shop.example", "url:example", "url:go",
        "url:id", "url:7", "html:form", "url:post", "x",
    ]  # fmt: skip


@given(st.text(st.sampled_from("<>/!-=\"'&#;ab \n"), max_size=60))
def test_any_html_is_read(page):
    assert html_tokens(page) == html_tokens(page.encode())


def mail_tokens(data, **options):
    return list(MailTokenizer(**options).transform_one(data))


MAIL = (
    b"From: Ann <ann@shop.example>\nSubject: =?utf-8?q?Caf=C3=A9?= sale\nX-Spam-Flag: YES\n"
    b"X-Label: spam\nContent-Type: text/plain\n\nBuy"
)


def test_mail_tokens_have_a_prefix_for_their_place():
    assert mail_tokens(MAIL) == [
        "from:Ann", "from:ann", "from:shop.example", "subject:Café", "subject:sale",
        "content-type:text", "content-type:plain", "type:text/plain", "Buy",
    ]  # fmt: skip
    assert mail_tokens(MAIL, headers=False, casefold=True) == [
        "subject:café", "subject:sale", "type:text/plain", "buy",
    ]  # fmt: skip
    assert mail_tokens(MAIL) == mail_tokens(MAIL.decode()) == mail_tokens(parse(MAIL))
    assert mail_tokens({"raw": MAIL}, on="raw") == mail_tokens(MAIL)
    assert "from:Ann" not in mail_tokens(MAIL, drop_headers=("FROM",))
    with pytest.raises(TypeError, match="bytes, str or Mail, not int"):
        MailTokenizer().count(3)


@pytest.mark.parametrize(
    "field",
    ["X-Spam-Status", "X-Spam-Flag", "X-Bogosity", "X-CRM114-Status", "X-DSPAM-Result",
     "X-Spambayes-Classification", "X-Text-Classification", "X-Spamd-Result", "X-SpamProbe",
     "X-Rspamd-Score", "X-Streamnb", "X-MS-Exchange-Organization-SCL", "X-Keywords", "Status",
     "X-Status", "X-Mozilla-Status", "X-Gmail-Labels", "X-Label", "X-UID", "Content-Length"],
)  # fmt: skip
def test_fields_that_filters_and_programs_add_are_never_tokens(field):
    data = f"{field}: verdict\n  folded-verdict\n\nbody\n".encode()
    assert mail_tokens(data) == ["type:text/plain", "body"]


def test_attachments_leave_their_type_and_name():
    data = (
        b'Content-Type: application/x-msdownload; name="Invoice 7.exe"\n'
        b"Content-Transfer-Encoding: base64\n\nTVqQAAMAAAAEAAAA\n"
    )
    result = mail_tokens(data)
    assert {"type:application/x-msdownload", "name:Invoice", "name:7.exe"} <= set(result)
    assert not any("TVqQ" in token for token in result)


def test_bad_bytes_in_character_ngrams_are_shown_as_such():
    grams = tokens(b"\xf9ab\xfbcd", analyzer="char", ngrams=(3, 3))
    assert list(grams) == ["\ufffdab", "ab\ufffd", "b\ufffdc", "\ufffdcd"]


def test_options_can_change():
    tokenizer = Tokenizer()
    tokenizer.count("warm up")
    tokenizer.casefold = False
    assert tokenizer.transform_one("Up") == {"Up": 1}


def test_links_are_read_through_their_references():
    assert "url:example.com" in html_tokens('<a href="http://ex&#97;mple.com">')


def test_an_error_leaves_no_tokens_behind(monkeypatch):
    tokenizer = MailTokenizer()
    with monkeypatch.context() as patch:
        patch.setattr(MailTokenizer, "_count_part", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tokenizer.count(MAIL)
    assert list(tokenizer.transform_one(b"\nnext")) == ["type:text/plain", "next"]


@pytest.mark.parametrize(
    "make_tokenizer", [Tokenizer, lambda: WordPairs(mail=False)], ids=["words", "pairs"]
)
def test_texts_of_equal_appearance_have_equal_tokens(make_tokenizer):
    apart, together = (
        unicodedata.normalize(form, "Cafe\u0301 Angstro\u0308m") for form in ("NFD", "NFC")
    )
    for text in (apart, apart.encode()):
        counted = make_tokenizer().count(text)
        assert sorted(counted.fingerprints) == sorted(make_tokenizer().count(together).fingerprints)


@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_mails_of_equal_appearance_have_equal_tokens(charset):
    def mail(form):
        text = unicodedata.normalize(form, "re\u0301sume\u0301")
        subject = base64.b64encode(text.encode(charset)).decode()
        body = base64.b64encode(text.encode(charset)).decode()
        return (
            f"Subject: =?{charset}?b?{subject}?=\nContent-Type: text/plain; charset={charset}\n"
            f"Content-Transfer-Encoding: base64\n\n{body}\n"
        ).encode()

    decomposed, reference = (MailTokenizer().transform_one(mail(form)) for form in ("NFD", "NFC"))
    assert decomposed == reference
    assert "r\u00e9sum\u00e9" in decomposed
    assert "subject:r\u00e9sum\u00e9" in decomposed


def test_marks_without_end_take_linear_time():
    """Sorting marks is quadratic: two million of them at once would take hours."""
    text = "a" + "\u0301\u0323" * 1_000_000
    started = time.process_time()
    Tokenizer().count(text)
    Tokenizer().count(text.encode())
    assert time.process_time() - started < 20


ALPHABET = "aeo\u0301\u0323\u0308\u304b\u3099\u1100\u1161\u11a8\uac00\u0438\u0306\u00e9\u0958 "


@given(
    st.text(ALPHABET, max_size=300) | st.text(max_size=80) | st.binary(max_size=80),
    st.sampled_from([0, 0, *range(500, 515), *range(1012, 1026)]),
)
@example("\u304b\u3099" * 101, 0)
@example("\u1100\u1161\u11a8" * 80, 0)
@example("\u3042" + "\u304b\u3099" * 100, 511)
def test_composing_is_nfc_in_pieces_and_bytes_go_like_text(text, before):
    text = (b"x" if isinstance(text, bytes) else "\u00e9") * before + text
    result = normalize_nfc(text)
    if isinstance(text, bytes):
        assert normalize_nfc(result) == result
        return
    marks = max((len(run) for run in re.findall("[\u0300-\u036f\u3099]+", text)), default=0)
    if marks < 100:  # of marks without end no reader can tell
        assert result == unicodedata.normalize("NFC", text)
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert normalize_nfc(text.encode()).decode() == result


@pytest.mark.parametrize("charset", [b"utf-7", b"utf-16", b"utf-8", b"cp1252"])
@pytest.mark.parametrize("word", [b"?Q?+2AA-?=", b"?Q?=D8=00=00=D8?=", b"?Q?=ED=A0=80?="])
def test_half_a_character_in_a_header_is_accepted(charset, word):
    """The codec of UTF-7 gives surrogates that no UTF-8 has."""
    mail = b"Subject: =?" + charset + word + b"\n\nx\n"
    for views in ("default", "small"):
        assert MailClassifier(preset=views).tokenizer.count(mail)
    body = b"Content-Type: text/html; charset=" + charset + b"\n\n+2AA- <b>\xed\xa0\x80\n"
    assert MailClassifier().tokenizer.count(body)


@pytest.mark.parametrize("kind", [Tokenizer, MailTokenizer])
def test_characters_within_words_are_punctuation_marks(kind):
    for wrong in ("abc", "é", 5, None):
        with pytest.raises(ValueError, match=r"inner: .* is not a text of ASCII punctuation marks"):
            kind(inner=wrong)
    assert kind(inner="").inner == ""


class BytesSubclass(bytes):
    """Bytes of another library."""


@pytest.mark.parametrize("kind", TOKENIZERS.values())
@pytest.mark.parametrize("subclass", [np.bytes_, BytesSubclass])
def test_a_subclass_of_bytes_is_a_message(kind, subclass):
    message = b"Subject: hello\n\nfree offer \xc3\xa9"
    assert kind().count(subclass(message)) == kind().count(message)
    assert kind(on="text").count({"text": subclass(message)}) == kind().count(message)


@pytest.mark.parametrize("tokenizer", [Tokenizer(), MailTokenizer()])
def test_a_dict_without_on_is_answered_with_on(tokenizer):
    with pytest.raises(TypeError, match="set on= to the key"):
        tokenizer.transform_one({"text": "words"})


def test_a_function_in_place_of_a_tokenizer_can_take_a_dict():
    classifier = Classifier(lambda x: x["text"].split(), MultinomialNB())
    classifier.learn_one({"text": "free offer"}, "spam")
    assert classifier.predict_one({"text": "offer"}) == "spam"


@pytest.mark.parametrize("keep_names", [True, False])
@pytest.mark.parametrize("x", [{}, {"a": 1, b"b": 1}, {"a": 1, ("b", "c"): 2.5, 7: 1}])
def test_a_pickled_vector_is_the_same_and_can_be_changed(x, keep_names):
    counts = TokenCounts.from_dict(x, keep_names=keep_names)
    backward = TokenCounts.unchecked(counts.fingerprints[::-1], counts.counts[::-1], None, None)
    for vector in (counts, backward):
        for same in (pickle.loads(pickle.dumps(vector)), deepcopy(vector)):
            assert same == vector
            assert list(same) == list(vector)
            for name in ("fingerprints", "counts"):
                assert getattr(same, name).dtype == getattr(vector, name).dtype
                assert getattr(same, name).flags.writeable
