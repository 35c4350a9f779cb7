"""The digest of a message does not depend on hops, filters and mail programs."""

import base64
import quopri
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import MailTokenizer
from streamnb.mailbox.digest import digest, header_key

RECEIVED = b"Received: from a by b;\n\tMon, 1 Jan 2024 00:00:00 +0000\n"
ADDED = [
    RECEIVED,
    b"X-Streamnb: Spam, score=3\n",
    b"X-Spam-Status: Yes,\n score=9\n",
    b"X-Gmail-Labels: Inbox\n",
    b"Delivered-To: ann@example.org\n",
    b"Return-Path: <x@example.com>\n",
    b"Authentication-Results: example.org; dkim=pass\n",
    b"ARC-Seal: i=1\n",
    b"List-Unsubscribe: <https://example.com/u>\n",
    b"Status: RO\n",
    b"X-Keywords: work\n",
    b"X-UID: 17\n",
    b"X-Never-Seen-Before: 1\n",
]
LINES = st.sampled_from(
    ["Buy cheap pills now", "From here on", "", "Grüße", "日本語", "a " * 50, ">From x"]
)
WORDS = st.lists(st.sampled_from(["pills", "Lunch", "für", "日本", "now"]), min_size=1, max_size=12)


def encoded_word(text):
    return b"=?utf-8?b?" + base64.b64encode(text.encode()) + b"?="


@st.composite
def messages(draw):
    """Return header fields as (name, value) pairs, and the text of the body."""
    fields = [
        (b"From", b"Ann <ann@example.com>"),
        (b"To", b"bob@example.org"),
        (b"Date", b"Mon, 1 Jan 2024 00:00:00 +0000"),
        (b"Subject", draw(WORDS)),
    ]
    if draw(st.booleans()):
        fields.append((b"Message-ID", b"<%d@example.com>" % draw(st.integers(0, 9))))
    return fields, "\n".join(draw(st.lists(LINES, min_size=1, max_size=6))) + "\n"


def written(fields, text, encoding="8bit", fold=b" ", case=bytes, added=(), mbox=False, ends=b"\n"):
    """Return the message as one of the ways that hops write it."""
    out = b"From ann Mon Jan  1 00:00:00 2024\n" * mbox + b"".join(added)
    for name, value in fields:
        if isinstance(value, list):
            words = " ".join(value)
            value = (
                encoded_word(words) if not words.isascii() else fold.join(map(str.encode, value))
            )
        else:
            value = value.replace(b" ", fold)
        out += case(name) + b": " + value + b"\n"
    body = text.encode()
    if encoding == "base64":
        body = base64.encodebytes(body.replace(b"\n", b"\r\n"))
    elif encoding == "quoted-printable":
        body = quopri.encodestring(body)
    if mbox:
        body = re.sub(rb"^(>*From )", rb">\1", body, flags=re.M) + b"\n"
    out += (
        b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: %s\n\n"
        % encoding.encode()
    )
    return (out + body).replace(b"\n", ends)


WAYS = st.tuples(
    st.sampled_from(["8bit", "base64", "quoted-printable"]),
    st.sampled_from([b" ", b"\n ", b"\n\t", b"  "]),
    st.sampled_from([bytes, bytes.lower, bytes.upper]),
    st.lists(st.sampled_from(ADDED), max_size=6),
    st.booleans(),
    st.sampled_from([b"\n", b"\r\n"]),
)


@given(messages(), WAYS)
def test_hops_make_no_other_message(message, way):
    fields, text = message
    assert digest(written(fields, text, *way)) == digest(written(fields, text))


@given(messages(), WAYS, WAYS)
def test_mail_programs_make_no_other_delivery(message, way, other_way):
    """A header has the same key in every spelling, and another key after another delivery."""
    fields, text = message
    keys = []
    for encoding, fold, case, added, mbox, ends in (way, other_way):
        trace = [case(b"Received") + b":" + fold + b"from a by b\n"]
        added = [*trace, *(field for field in added if field != RECEIVED)]
        keys.append(header_key(written(fields, text, encoding, fold, case, added, mbox, ends)))
    assert keys[0] == keys[1]
    redelivered = [RECEIVED, *added]
    assert keys[0] != header_key(written(fields, text, *way[:3], redelivered, *way[4:]))


DIFFERENCES = {
    "the text": lambda fields, text: (fields, text + "x"),
    "a line": lambda fields, text: (fields, "P.S. no\n" + text),
    "the subject": lambda fields, text: ([*fields[:3], (b"Subject", ["other"]), *fields[4:]], text),
    "the sender": lambda fields, text: ([(b"From", b"eve@example.com"), *fields[1:]], text),
    "the date": lambda fields, text: (
        [*fields[:2], (b"Date", b"Tue, 2 Jan 2024"), *fields[3:]],
        text,
    ),
    "the identifier": lambda fields, text: ([*fields[:4], (b"Message-ID", b"<new@x>")], text),
}


@pytest.mark.parametrize("change", DIFFERENCES.values(), ids=DIFFERENCES)
@given(messages())
def test_labels_that_a_reader_can_distinguish_stay_two(change, message):
    assert digest(written(*change(*message))) != digest(written(*message))


def multipart(*attachments, preamble=b"", encoding=b"base64"):
    parts = b"".join(
        b"--b\nContent-Type: image/png\nContent-Transfer-Encoding: %s\n\n%s\n" % (encoding, data)
        for data in attachments
    )
    return (
        b"Message-ID: <1@a>\nContent-Type: multipart/mixed; boundary=b\n\n"
        + preamble
        + b"--b\n\nhello\n"
        + parts
        + b"--b--\n"
    )


def test_attachments_distinguish_messages_and_preambles_do_not():
    first, second = (base64.encodebytes(byte * 5000) for byte in (b"a", b"b"))
    assert digest(multipart(first)) != digest(multipart(second))
    assert digest(multipart(first)) != digest(multipart(first, first))
    assert digest(multipart(first)) == digest(multipart(first, preamble=b"This is MIME.\n"))
    assert digest(multipart(first)) == digest(
        multipart(first.replace(b"\n", b""), encoding=b"BASE64 (x)")
    )


def test_encrypted_texts_are_two_messages_and_copies_of_them_are_not():
    armor = "Grüße\n-----BEGIN PGP MESSAGE-----\n\n{}\n=abcd\n-----END PGP MESSAGE-----\n"
    first, second = (armor.format(letter * 64) for letter in "ab")
    head = "Subject: x\nContent-Type: text/plain; charset={}\n\n"
    messages = {
        (text, charset): (head.format(charset) + text).encode(charset)
        for text in (first, second)
        for charset in ("utf-8", "latin-1")
    }
    digests = {
        text: {digest(messages[text, charset]) for charset in ("utf-8", "latin-1")}
        for text in (first, second)
    }
    assert [len(values) for values in digests.values()] == [1, 1]
    assert digests[first] != digests[second]
    assert digest(messages[first, "utf-8"].replace(b"\n", b"\r\n")) in digests[first]


def test_parts_behind_two_megabytes_count():
    picture = base64.encodebytes(bytes(2_000_000))
    assert digest(multipart(picture, b"YQ==")) != digest(multipart(picture, b"Yg=="))


@given(st.binary(max_size=300))
def test_anything_has_a_digest(data):
    assert len(digest(data)) == 32
    assert len(header_key(data)) == 16


@pytest.mark.parametrize(("size", "added"), [(990, b"!\n "), (998, b"\n "), (998, b"\r\n ")])
@pytest.mark.parametrize("encoding", ["8bit", "base64", "quoted-printable"])
@pytest.mark.parametrize("words", ["Buy pills! ", "Grüße, ", "日本語x", "From > "])
def test_line_breaks_that_servers_add_make_no_other_message(words, encoding, size, added):
    """Postfix and sendmail break long lines at a number of bytes, also within a character."""
    fields, text = [(b"Subject", b"hello")], f"first\n{words * 500}\nend\n"
    message = written(fields, text)
    broken = re.sub(rb"[^\n]{%d}(?=[^\n])" % size, lambda piece: piece[0] + added, message)
    assert broken.count(added) > message.count(added)
    assert digest(broken) == digest(written(fields, text, encoding))
    assert digest(broken) != digest(broken.replace(b"\nend", b"\nEnd"))


@pytest.mark.parametrize("kind", [b"text/plain", b"text/html", b"application/zip"])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [1 << 22, 1 << 23])
def test_content_after_megabytes_counts(kind, parts, size):
    def long_message(end, line_end=b"\n"):
        fill = b"".join(
            b"--b\nContent-Type: %s\n\n%s\n"
            % (kind, b"all the same words\n" * (size // 19 // parts))
            for _ in range(parts)
        )
        head = b"Message-ID: <1@a>\nContent-Type: multipart/mixed; boundary=b\n\n"
        return (head + fill + b"--b\n\n" + end + b"\n--b--\n").replace(b"\n", line_end)

    assert digest(long_message(b"one")) != digest(long_message(b"two"))
    if kind.startswith(b"text"):
        hop = b"Received: from a by b;\n\tMon, 1 Jan 2024 00:00:00 +0000\n" * 50
        assert digest(long_message(b"one")) == digest(hop + long_message(b"one", b"\r\n"))


SAME = {
    "quotes of a name": (b'From: "Ann Example" <a@b>', b"From: Ann Example <a@b>"),
    "no blank before an address": (
        b"From: Ann Example<a@b>",
        b"From: =?utf-8?q?Ann_Example?= <a@b>",
    ),
    "an encoded name": (
        'From: "Änn Example" <a@b>'.encode(),
        b"From: =?utf-8?q?=C3=84nn?= Example <a@b>",
    ),
    "brackets": (b"From: a@b", b"From: <a@b>"),
    "the zone's name": (
        b"Date: Mon, 6 Nov 2023 10:00:00 +0000",
        b"Date: Mon, 6 Nov 2023 10:00:00 GMT",
    ),
    "a comment": (
        b"Date: Mon, 6 Nov 2023 10:00:00 +0000",
        b"Date: Mon, 06 Nov 2023 10:00:00 +0000 (UTC)",
    ),
    "the domain's case": (b"From: a@Example.ORG", b"From: a@example.org"),
    "another zone": (
        b"Date: Mon, 6 Nov 2023 10:00:00 +0000",
        b"Date: Mon, 6 Nov 2023 05:00:00 -0500",
    ),
}


@pytest.mark.parametrize(("first", "second"), SAME.values(), ids=SAME)
def test_spellings_of_a_field_make_no_other_message(first, second):
    end = b"\nSubject: x\n\nhello\n"
    assert digest(first + end) == digest(second + end)
    assert header_key(first + end) == header_key(second + end)


@given(
    st.lists(st.sampled_from(["word", "", ">From here", "\t", "-- ", "é" * 500]), max_size=9),
    st.sampled_from([" ", "  ", "\t", " \t " * 100]),
    st.sampled_from(["plain", "html"]),
)
def test_blanks_before_line_ends_make_no_other_message(lines, blanks, subtype):
    head = f"Subject: x\nContent-Type: text/{subtype}; charset=utf-8\n\n"
    plain, padded = (head + "\n".join(line + end for line in lines) for end in ("", blanks))
    assert digest(plain.encode()) == digest(padded.encode())


@pytest.mark.parametrize(
    "date", [b"", b"no date", b"99 Foo 9999999999999 9:9 +99999999999", b"(" * 500]
)
def test_invalid_dates_are_compared_as_text(date):
    end = b"\nSubject: x\n\nhello\n"
    assert digest(b"Date: " + date + end) != digest(b"Date: " + date + b"x" + end)


@pytest.mark.parametrize("kind", [b"application/json", b"text/calendar", b"application/pgp-keys"])
def test_transfer_encodings_of_attachments_make_no_other_message(kind):
    content = b"a\nFrom b\n\n"
    head = b"Subject: x\nContent-Type: " + kind + b"\nContent-Transfer-Encoding: "
    bare = digest(head + b"7bit\n\n" + content)
    assert (
        digest(head + b"base64\n\n" + base64.encodebytes(content.replace(b"\n", b"\r\n"))) == bare
    )
    assert digest(head + b"quoted-printable\n\n" + quopri.encodestring(content)) == bare
    assert digest(head + b"7bit\n\n" + content.replace(b"From b", b">From b")) == bare
    assert digest(head + b"7bit\n\n" + content + b"c") != bare


def test_damaged_header_lines_distinguish_messages():
    message = b"Message-ID: <1@a>\nSubject: x\n \nPay 100 to A\n\nBye\n"
    assert digest(message) != digest(message.replace(b"100 to A", b"900 to Z"))
    assert digest(message) != digest(message.replace(b" \n", b"").replace(b"100", b"900"))


@pytest.mark.parametrize("count", [48, 49, 50, 98, 99, 100, 300])
def test_the_number_of_fields_makes_no_other_message(count):
    """The charset of a raw Subject is guessed, and only a limited number of fields is guessed."""
    subject = b"Subject: %b\n" % "Привет мир друзья".encode("cp1251")
    message = subject + b"".join(b"X-%d: =?\n" % number for number in range(count)) + b"\nhello\n"
    assert digest(message) == digest(subject + b"\nhello\n")
    assert digest(message) == digest(b"X-Spam-Report: \xe0\n" + message)


def test_many_fields_do_not_hide_the_words_of_the_subject():
    subject = b"Subject: %b\n" % "Привет мир друзья".encode("cp1251")
    fields = b"".join(b"X-%d: \xe0\n" % number for number in range(300))
    assert "subject:Привет" in MailTokenizer().transform_one(fields + subject + b"\nhello\n")
