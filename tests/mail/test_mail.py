import base64
import email
import email.policy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import MailTokenizer
from streamnb.mail import Limits, parse


def multipart(parts, kind="mixed", boundary="b", close=True, preamble="", epilogue=""):
    body = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f'Content-Type: multipart/{kind}; boundary="{boundary}"\n\n{preamble}{body}' + (
        f"--{boundary}--\n{epilogue}" if close else ""
    )


def texts(data, **limits):
    return [part.text.strip() for part in parse(data.encode(), Limits(**limits)).parts]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end(end):
    mail = parse("A: 1\nB: 2\n folded\n\nbody\nmore\n".replace("\n", end).encode())
    assert mail.headers == [("A", "1"), ("B", "2 folded")]
    assert mail.text == "body\nmore\n"
    assert mail.defects == []


@pytest.mark.parametrize(
    ("data", "headers", "text", "defect"),
    [
        (b"", [], "", False),
        (b"\n", [], "", False),
        (b"A: 1", [("A", "1")], "", False),
        (b"A: 1\nno colon here\nB: 2\n", [("A", "1")], "no colon here\nB: 2\n", True),
        (b"just text", [], "just text", True),
        (b"From me Mon Jan 1\nA: 1\n\nx", [("A", "1")], "x", False),
        (b" leading space\nA: 1\n\nx", [("A", "1")], "x", False),
        (b"A: \0 1\n\n\0x", [("A", "\0 1")], "\0x", False),
        (b"A:1\nA:2\n\n", [("A", "1"), ("A", "2")], "", False),
    ],
)
def test_headers_however_they_end(data, headers, text, defect):
    mail = parse(data)
    assert (mail.headers, mail.text, bool(mail.defects)) == (headers, text, defect)
    assert mail.get("a") == dict(reversed(headers)).get("A", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=?utf-8?q?caf=C3=A9?=", "café"),
        ("=?UTF-8?B?w7w=?= =?utf-8?b?w7w=?=", "üü"),
        ("=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "ü"),  # one character, cut in two
        ("=?utf-8*en?q?a_b?=", "a b"),
        ("a =?latin-1?q?=FC?= b", "a ü b"),
        ("=?no-such?q?abc?=", "abc"),
        ("=?utf-8?x?abc?=", "=?utf-8?x?abc?="),
        ("=?utf-8?b?!!!?=", ""),
        ("=?utf-8?q?a", "a"),
        ("=?idna?q?a?=", "a"),
        ("=?iso-2022-jp?b?GyRCRnxLXBsoQg==?=", "日本"),
    ],
)
def test_encoded_words(value, text):
    assert parse(f"Subject: {value}\n\n".encode()).get("subject") == text


@pytest.mark.parametrize(
    ("charset", "raw", "text"),
    [
        ("utf-8", "naïve".encode(), "naïve"),
        ("us-ascii", "naïve".encode(), "naïve"),
        ("us-ascii", b"\x93x\x94", "“x”"),
        ("iso-8859-2", b"\xb3", "ł"),
        ("no-such-charset", "ü".encode(), "ü"),
        ("rot13", b"abc", "abc"),
        ("zlib", b"abc", "abc"),
        ("unicode_escape", rb"\x41", r"\x41"),
        ("utf-16", "hi".encode("utf-16"), "hi"),
        ("utf-7", b"+AOk-", "é"),
        ("iso-2022-jp", "日本語".encode("iso-2022-jp"), "日本語"),
        ("csISO2022JP", "日本語".encode("iso-2022-jp"), "日本語"),
        ("\0", b"abc", "abc"),
        ("a" * 9999, b"abc", "abc"),
    ],
)
def test_charsets(charset, raw, text):
    mail = parse(f"Content-Type: text/plain; charset={charset}\n\n".encode() + raw)
    assert mail.text == text
    assert mail.parts[0].utf8.decode() == text


@pytest.mark.parametrize(
    ("encoding", "raw", "text"),
    [
        ("base64", base64.b64encode(b"hello world"), "hello world"),
        ("base64", b"aGVsbG8", "hello"),
        ("BASE64 ", b"aGVs\nbG8=", "hello"),
        ("base64", b"aGVsbG8gd29ybGQ=\n_______\nlist footer: here", "footer"),
        ("base64", b"!!!", ""),
        ("base64", b"=", ""),
        ("base64", b"a", ""),
        ("base64", b"aGVsbG8=aGVsbG8=", "hellohello"),
        ("quoted-printable", b"a=3Db=\nc =ZZ", "a=bc =ZZ"),
        ("x-uuencode", b"begin 644 f\n#:&5L\n`\nend", "hel"),
        ("x-uuencode", b"\xff\xff", ""),
        ("unheard-of", b"abc", "abc"),
    ],
)
def test_transfer_encodings(encoding, raw, text):
    data = f"Content-Transfer-Encoding: {encoding}\n\n".encode() + raw
    assert text in parse(data).text


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ('; name="content-transfer-encoding: base64.txt"', "aGVsbG8="),
        ('; name="a \\" content-transfer-encoding: base64"', "aGVsbG8="),
        (" Content-Transfer-Encoding: base64", "hello"),
        ('; charset="us-ascii" Content-Transfer-Encoding: "base64"', "hello"),
        ('; charset="us-ascii Content-Transfer-Encoding: base64', "hello"),
    ],
)
def test_an_encoding_on_the_line_of_the_content_type(parameters, text):
    assert text in parse(f"Content-Type: text/plain{parameters}\n\naGVsbG8=\n".encode()).text


def test_nested_parts_in_their_order():
    inner = multipart(["\nplain", "Content-Type: text/html\n\n<b>html</b>"], "alternative", "in")
    attached = "Content-Type: message/rfc822\n\nSubject: old\n\nforwarded"
    mail = parse(multipart(["\nfirst", inner, attached], preamble="pre\n", epilogue="epi").encode())
    parts = [(part.role, part.content_type, part.text.strip()) for part in mail.parts]
    assert parts == [
        ("preamble", "text/plain", "pre"),
        ("body", "text/plain", "first"),
        ("body", "text/plain", "plain"),
        ("body", "text/html", "<b>html</b>"),
        ("message", "message/rfc822", ""),
        ("body", "text/plain", "forwarded"),
        ("epilogue", "text/plain", "epi"),
    ]
    assert mail.parts[4].fields == [(b"Subject", b"old")]
    assert mail.defects == []


@pytest.mark.parametrize(
    ("data", "expected", "defect"),
    [
        (multipart(["\na", "\nb"], close=False), ["a", "b"], "last boundary"),
        (multipart(["\na", "\nb"], close=False) + "--b\n\n", ["a", "b"], "last boundary"),
        (multipart(["\na", "\nb"], close=False) + "--b-", ["a", "b"], ""),
        (multipart(["\na", ""]), ["a", ""], ""),
        ("Content-Type: multipart/mixed\n\nabc", ["abc"], "without a boundary"),
        ("Content-Type: multipart/mixed; boundary=x\n\nabc", ["abc"], "not found"),
        (multipart(["\na"], boundary="b--"), ["a"], ""),
        (multipart(["\na"], boundary="a b "), ["a"], ""),
        (multipart(["\na\n--bc\n--b x"]), ["a\n--bc\n--b x"], ""),
        ("Content-Type: text/\n\nabc", ["abc"], ""),
        ("Content-Type: text/plain; name*\n\nabc", ["abc"], ""),
    ],
)
def test_damaged_structure_still_gives_text(data, expected, defect):
    mail = parse(data.encode())
    assert [part.text.strip() for part in mail.parts] == expected
    assert defect in " ".join(mail.defects)
    assert bool(defect) == bool(mail.defects)


def test_a_digest_is_made_of_messages():
    mail = parse(multipart(["\nSubject: one\n\nx"], "digest").encode())
    assert [part.role for part in mail.parts] == ["message", "body"]


def test_names_of_attachments():
    for line, name in (
        ('Content-Disposition: attachment; filename="a b.pdf"', "a b.pdf"),
        ("Content-Type: image/png; name=x.png", "x.png"),
        ("Content-Disposition: x; filename*=utf-8''caf%C3%A9", "café"),
        ("Content-Disposition: x; filename*0=ab; filename*1=cd", "abcd"),
        ('Content-Disposition: x; filename="=?utf-8?q?=C3=BC?="', "ü"),
        ('Content-Disposition: x; filename="open', "open"),
    ):
        assert parse(f"{line}\n\n".encode()).parts[0].filename == name


@pytest.mark.parametrize(
    ("data", "limits", "defect"),
    [
        (b"A: 1\n\n" + b"x" * 5000, {"size": 1000}, "more than 1000 bytes of text"),
        (b"A: 1\n" * 50, {"fields": 10}, "more than 10 header fields"),
        (multipart(["\na"] * 50).encode(), {"parts": 10}, "more than 10 parts"),
        (b"Content-Type: message/rfc822\n\n" * 50, {"depth": 10}, "nested more than 10 deep"),
    ],
)
def test_bounds_are_kept_and_recorded(data, limits, defect):
    mail = parse(data, Limits(**limits))
    assert defect in mail.defects
    assert len(mail.fields) <= 10 or "fields" not in limits
    assert sum(len(part.payload) for part in mail.parts) <= len(data)


HOSTILE = {
    "header lines": b"A: 1\n" * 100_000,
    "one folded header": b"A: 1\n" + b" x\n" * 300_000,
    "semicolons": b"Content-Type: text/plain" + b";" * 500_000 + b"\n\nx",
    "parameters": b"Content-Type: text/plain" + b"; a=b" * 200_000 + b"\n\nx",
    "open quote": b'Content-Type: text/plain; a="' + b"\\" * 500_000 + b"\n\nx",
    "nested messages": b"Content-Type: message/rfc822\n\n" * 10_000,
    "nested parts": b"".join(
        b"Content-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (n, n) for n in range(10_000)
    ),
    "boundaries": multipart(["\nx"] * 100_000).encode(),
    "near boundaries": multipart(["--b\n" * 200_000]).encode().replace(b"--b\n--b", b"--bx--b"),
    "dashes": b'Content-Type: multipart/mixed; boundary="-"\n\n' + b"-" * 900_000,
    "encoded words": b"Subject: " + b"=?utf-8?q?a?= " * 60_000 + b"\n\n",
    "half encoded words": b"Subject: " + b"=?" * 400_000 + b"\n\n",
    "open tags": b"Content-Type: text/html\n\n" + b"<" * 900_000,
    "open attributes": b"Content-Type: text/html\n\n" + b'<a b="' * 150_000,
    "open comments": b"Content-Type: text/html\n\n" + b"<!--" * 200_000,
    "open scripts": b"Content-Type: text/html\n\n" + b"<script>" * 100_000,
    "entities": b"Content-Type: text/html\n\n" + b"&amp" * 200_000 + b"&#" * 9999,
    "addresses": b"\n" + b"http://" * 130_000,
    "one word": b"\n" + b"a" * 1_000_000,
    "dots": b"\n" + b"a." * 500_000,
    "nul": b"\0" * 1_000_000,
    "bytes": bytes(range(256)) * 4000,
    "bad base64": b"Content-Transfer-Encoding: base64\n\n" + b"A===\n" * 200_000,
    "lines": b"\n" * 1_000_000,
    "marks on one line": b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b" * 300_000,
    "one long word, many short": b"Subject: =?utf-8?q?"
    + b"a" * 400_000
    + b"?= "
    + b"=?utf-8?q?x?= " * 30_000
    + b"\n\n",
    "charsets": b"Subject: " + b"".join(b"=?c%d?q?x?= " % n for n in range(50_000)) + b"\n\n",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_hostile_mail_is_read(data):
    assert MailTokenizer().count(data) == MailTokenizer().count(parse(data))


@given(st.binary(max_size=300))
def test_any_bytes_parse(data):
    assert MailTokenizer().count(data) == MailTokenizer().count(parse(data))


PIECES = [
    b"Content-Type: ", b"multipart/mixed", b"text/html", b"message/rfc822", b"; boundary=", b"b", b'"',
    b"--b", b"--", b"\n", b"\r\n", b"\n\n", b"Subject: ", b"=?utf-8?q?", b"?=", b"=", b"<a href='", b"<!--",
    b"Content-Transfer-Encoding: base64", b"quoted-printable", b"charset=", b"\xff", b"x", b" ", b"&#x41", b">",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
def test_anything_made_of_pieces_of_mail_parses(data):
    mail = parse(data)
    assert all(isinstance(part.text, str) and isinstance(part.filename, str) for part in mail.parts)
    MailTokenizer().count(mail)


@given(
    subject=st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=60),
    body=st.text(
        st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\0"), max_size=200
    ),
    subtype=st.sampled_from(["plain", "html"]),
    cte=st.sampled_from(["base64", "quoted-printable", None]),
)
def test_files_of_the_standard_library_are_read(subject, body, subtype, cte):
    written = email.message.EmailMessage(policy=email.policy.SMTP)
    written["Subject"] = subject
    written.set_content(body, subtype=subtype, cte=cte)
    mail = parse(written.as_bytes())
    library = email.message_from_bytes(written.as_bytes(), policy=email.policy.default)
    assert mail.get("subject").split() == str(library["Subject"]).split()
    assert mail.text.split() == library.get_content().split()
    assert mail.defects == []


def test_half_a_character_is_not_text():
    mail = parse(
        b"Subject: =?utf-7?q?+2AA-x?=\nContent-Type: text/plain; charset=utf-7\n\na+2AA-b\n"
    )
    assert (mail.get("subject"), mail.text) == ("\ufffdx", "a\ufffdb\n")


def test_unheard_of_charsets_are_not_remembered_for_ever():
    import encodings

    before = len(encodings._cache)
    parse(HOSTILE["charsets"]).get("subject")
    assert len(encodings._cache) <= before + 1


def test_a_boundary_like_an_encoded_word_is_not_decoded():
    mail = parse(
        b'Content-Type: multipart/mixed;\n boundary="=?utf-8?Q?=41?="\n\n'
        b"--=?utf-8?Q?=41?=\n\none\n--=?utf-8?Q?=41?=--\n"
    )
    assert [part.payload for part in mail.parts] == [b"one"]
    assert mail.defects == []
