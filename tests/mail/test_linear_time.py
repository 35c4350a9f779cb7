"""Hostile mail takes time and memory in proportion to its size."""

import functools
import gzip
import sys
import time
import tracemalloc

import pytest

from streamnb import MailTokenizer
from streamnb._core import hidden_spans, split_header, styles
from streamnb._core.links import plain_link
from streamnb.corpus.entry import decompress
from streamnb.mail import guess_charset, parse, unwrap
from streamnb.mail.charsets import decode_text
from streamnb.mail.decode import decode_transfer, decode_words
from streamnb.mail.rtf import read_text
from streamnb.mail.text_formats import convert_format
from streamnb.mailbox.digest import digest

MARK = b"a" * 60


def nested(n):
    """Return containers in one another, and lines that begin as their delimiters do."""
    heads = b"".join(
        b"Content-Type: multipart/mixed; boundary=%b\n\n--%b\n" % (mark, mark)
        for mark in (MARK[: 60 - k] for k in range(49))
    )
    return heads + (b"--" + MARK + b"b\n") * n


def sheets(n):
    """Return a style sheet of many tags, and n empty ones."""
    tags = b",".join(b"a%x" % i for i in range(9000))[:60000]
    return b"<style>" + tags + b"{color:red}</style>" + b"<style></style>" * n


def encoded_words(depth):
    """Return an encoded word in another, many times."""
    word = b"x"
    for _ in range(depth):
        word = b"=?a?q?%b?=" % word.replace(b"=", b"=3D").replace(b"?", b"=3F")
    return word


HOSTILE = {
    "quotes": lambda n: digest(b"Subject: a\n\n" + b">" * (100 * n)),
    "carriage returns": lambda n: unwrap(b"Subject: a\n\n" + b"\r" * (100 * n) + b"x"),
    "compressed streams": lambda n: decompress(gzip.compress(b"") * (20 * n), 1 << 20, "a"),
    "style sheets": lambda n: hidden_spans(sheets(n)),
    "open elements": lambda n: hidden_spans(b"<title>" * 1024 + b"<style>a{color:red}</style>" * n),
    "attached messages with an encoding": lambda n: parse(
        b"Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable\n\n" * n
    ),
    "attached messages in base64": lambda n: parse(
        b"Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n" * n
    ),
    **{
        f"lines like {line!r}": functools.partial(
            lambda line, n: parse(
                b"Content-Type: multipart/mixed; boundary=b\n\n" + line * (50 * n)
            ),
            line,
        )
        for line in (b"--bx\n", b"--b x\n", b"--b--x\n", b"--b ")
    },
    "properties of cards": lambda n: convert_format(
        b"NOTE" + b";quoted-printable" * 4 * n, "text/x-vcard", {}
    ),
    "containers": lambda n: parse(nested(8 * n)),
    "marks in a host": lambda n: plain_link("http://a{}/".format("\u0301\u0323" * 20 * n).encode()),
    "escapes": lambda n: decode_text(b'\x1b$B$"\x1b(B' * 25 * n),
    "words of base64": lambda n: decode_words(b"=?utf-8?b?A?= " + b"=?utf-8?b?AAAA?= " * 4 * n),
    "words in a field": lambda n: decode_words(b"=?a?q? ?" * 40 * n),
    "one letter of base64 a line": lambda n: decode_transfer(b"Q\n" * 200 * n + b"QQ", b"base64"),
    **{
        f"{item!r} in RTF": functools.partial(
            lambda item, n: read_text(b"{\\rtf1 " + item * 20 * n), item
        )
        for item in (b"{", b"}", b"\\u1 ", b"\\'e9", b"\\u1\\'e9", b"\\fldinst")
    },
    **{
        f"{item!r} of PGP": functools.partial(
            lambda item, n: convert_format(item * 20 * n, "text/plain", {}), item
        )
        for item in (
            b"-----BEGIN PGP MESSAGE-----\n",
            b"-----BEGIN PGP MESSAGE-----\n\n" + b"a" * 64 + b"\n",
            b"-----BEGIN " + b"> " * 20,
        )
    },
    "signs of enriched text": lambda n: convert_format(b"<<&" * 200 * n, "text/enriched", {}),
    **{
        f"lists of {item!r} in a style sheet": functools.partial(
            lambda item, n: hidden_spans(b"<style>" + item * (10 * n) + b"{color:red}</style>"),
            item,
        )
        for item in (
            b"a:is(b,c),",
            b":is(",
            b":is(,",
            b"a:is(.b" + b",.b" * 60 + b"),",
            b":is(a,:is(b,c)),",
            b"(,)",
            b".a.a.a.a.a.a.a:is(" + b".b," * 50 + b"),",
            b":is(a,b):is(a,b):is(a,b),",
            b"a:is(b,c){color:red}",
        )
    },
    "blocks in a list of selectors": lambda n: hidden_spans(
        b"<style>a{%b{%b</style>" % (b"a," * (10 * n), b"x;{}" * (10 * n))
    ),
    "blocks with one long selector": lambda n: hidden_spans(
        b"<style>%b{%b</style>" % (b"()" * (10 * n), b"opacity:0;{}" * (10 * n))
    ),
    "words in words": lambda n: parse(b"Subject: %b\n\n" % encoded_words(n // 25)).get("subject"),
    "words of many charsets": lambda n: parse(
        b"Subject: %b\n\n\xe9" % b" ".join(b"=?x%d?q?a?=" % i for i in range(4 * n))
    ),
}


@pytest.mark.performance
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_mail_takes_little_time(kind):
    begin = time.process_time()
    HOSTILE[kind](10_000)
    assert time.process_time() - begin < 2


def test_content_fields_beyond_the_limit_are_those_of_parts():
    names = [b"content-%x" % i for i in range(3000)] + [b"Content-Type"]
    message = b"".join(name + b": x\n" for name in names) + b"\nhi\n"
    fields, index, *_ = split_header(message, 0, len(message), 1000)
    assert len(fields) == 1001
    assert len(index) == 1001
    assert index[b"content-type"] == b"x"


@pytest.mark.parametrize("filler", [b"X: 1\n" * 1200, b"X: " + b"1 " * 600_000 + b"\n"])
def test_fields_that_identify_a_message_are_read_behind_many_others(filler):
    message = filler + b"Message-ID: <1@a>\nFrom: a@b\nSubject: words\n\nhi\n"
    mail = parse(message)
    assert (mail.get("subject"), mail.get("from")) == ("words", "a@b")
    assert "subject:words" in MailTokenizer().transform_one(message)
    assert digest(message) != digest(message.replace(b"words", b"other"))


MEMORY = {
    "zeros before the header": b"\0" * 8_000_000 + b"Subject: x\n\nhi\n",
    "marks before the header": b"\xef\xbb\xbf" * 2_600_000 + b"Subject: x\n\nhi\n",
    "uuencoded lines": b"Content-Transfer-Encoding: x-uuencode\n\n" + b"\xff\n" * 4_000_000,
    "lines of padding": b"Content-Transfer-Encoding: base64\n\n" + b"=\n" * 4_000_000,
    "quoted separators": b"Subject: x\n\n" + b"\n>From \n" * 1_000_000,
}


@pytest.mark.performance
@pytest.mark.parametrize("kind", MEMORY)
def test_hostile_mail_takes_little_memory(kind):
    tracemalloc.start()
    try:
        digest(MEMORY[kind])
        assert tracemalloc.get_traced_memory()[1] < 8 * len(MEMORY[kind])
    finally:
        tracemalloc.stop()


USUAL = b"""\
Received: from a.example (a.example [192.0.2.1]) by b.example; Mon, 2 Sep 2002 10:00:00 +0000
From: Ann <ann@a.example>
To: Bob <bob@b.example>
Subject: Lunch
MIME-Version: 1.0
Content-Type: text/plain; charset=us-ascii
Content-Transfer-Encoding: 7bit

Shall we meet at noon?
"""


@pytest.mark.performance
def test_few_functions_are_called_for_a_usual_mail():
    """Each function of Python takes time for every mail, so rare kinds of mail get their own."""
    tokenizer = MailTokenizer()
    tokenizer.count(USUAL)  # fills the caches
    calls = []

    def record(frame, event, argument):
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(record)
    try:
        tokenizer.count(USUAL)
    finally:
        sys.setprofile(None)
    assert len(calls) <= 50, calls


def test_cached_styles_are_short():
    """Senders choose the length of style rules, so the cache must be bounded."""
    before = set(styles._styles)
    for i in range(20):
        rule = b"".join(b"p%d{color:#%06x}" % (k, i) for k in range(2000))
        hidden_spans(b"<style>" + rule + b"x{c:" + b"a" * 20000 + b"}</style><p>hi</p>")
    assert max(map(len, set(styles._styles) - before)) <= 500


def test_a_repeated_type_without_a_boundary_hides_no_page():
    message = (
        b"Content-Type: text/html\nContent-Type: multipart/mixed\n\n"
        b"<p>buy<!-- -- --> <b style='display:none'>pills</b></p>\n"
    )
    (part,) = [part for part in parse(message).parts if part.role == "body"]
    assert part.is_html
    assert part.hidden_spans


@pytest.mark.parametrize("similar", [b"--bx\n", b"--b--x\n", b"x --b\n"])
def test_parts_behind_lines_like_a_delimiter_are_read(similar):
    head = b"Content-Type: multipart/mixed; boundary=b\n\n"
    parts = b"--b\n\none\n--b \t\n\ntwo\n--b--\nepilogue\n"
    mail = parse(head + similar * 5000 + parts)
    assert [part.text for part in mail.parts if part.role == "body"] == ["one", "two"]
    assert mail.parts[-1].role == "epilogue"


WORD = "Привет мир ".encode("cp1251")
PARTS = {
    "names": b"Content-Type: application/x; name=%d%b\nContent-Disposition: x; filename=%d%b\n\n",
    "vague types": b"Content-Type: octet-stream; name=%d%b\nContent-Disposition: x; filename=%d%b\n\n",
    "names in RFC 2231": b"Content-Type: text/html; name*=%d%b\nX: %d%b\n\n",
    "containers": b"Content-Type: multipart/x; name=%d%b\nX: %d%b\n\n",
    "messages": b"Content-Type: message/rfc822\n\nSubject: %d%b\nFrom: %d%b\n\n",
    "fields": b"Content-Type: message/rfc822\n\n" + b"X: %d%b\nY: %d%b\n" * 50 + b"\n",
}


@pytest.mark.parametrize("kind", PARTS)
def test_the_number_of_guesses_is_limited(kind, monkeypatch):
    guesses = []
    guess = guess_charset.guess_charset
    monkeypatch.setattr(
        guess_charset, "guess_charset", lambda data: guesses.append(data) or guess(data)
    )
    values = tuple(x for i in range(PARTS[kind].count(b"%d")) for x in (i, WORD))
    part = b"--b\n" + PARTS[kind] % values + b"x\n"
    parts = b"".join(part.replace(b"0", b"%d" % i) for i in range(1000))
    message = b"Content-Type: multipart/mixed; boundary=b\n\n" + parts + b"--b--\n"
    digest(message)
    MailTokenizer().transform_one(message)
    assert len(guesses) < 1000
