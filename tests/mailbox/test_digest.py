"""The identity of a message: the same for every copy, another one for another message."""

import base64
import quopri
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import Mailbox
from streamnb.mailbox.digest import digest, header_key

PLAIN = (
    b"Received: from a.example by b.example; Tue, 3 Mar 2026 10:00:00 +0000\n"
    b"Message-ID: <1@example.org>\n"
    b"Date: Tue, 3 Mar 2026 10:00:00 +0000\n"
    b'From: "Ann Lee" <ann@example.org>\n'
    b"To: bob@example.org\n"
    b"Subject: The minutes of the last meeting and the agenda of the next\n"
    b"MIME-Version: 1.0\n"
    b"Content-Type: text/plain; charset=utf-8\n"
    b"\n"
    b"Dear Bob,\n\nFrom here on we meet at noon. Gr\xc3\xbc\xc3\x9fe = greetings.\n\nAnn\n"
)
MULTIPART = (
    b"Message-ID: <2@example.org>\nDate: Tue, 3 Mar 2026 10:00:00 +0000\n"
    b"From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\nSubject: =?iso-8859-1?q?Gr=FC=DFe?= aus K.\n"
    b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=xx\n\n"
    b"This is a multi-part message.\n--xx\nContent-Type: text/plain; charset=iso-8859-1\n\n"
    b"Gr\xfc\xdfe\n--xx\nContent-Type: image/png; name=a.png\nContent-Transfer-Encoding: base64\n\n"
    + base64.encodebytes(bytes(range(256)))
    + b"--xx--\n"
)
NO_ID = b"From: a@b\nSubject: hi\n\nHello, all\nof you\n"
MESSAGES = {"plain": PLAIN, "multipart": MULTIPART, "without Message-ID": NO_ID}

ADDED = [
    "Received: from c.example by d.example; Tue, 3 Mar 2026 10:00:09 +0000", "Return-Path: <a@b>",
    "Delivered-To: bob@example.org", "X-Original-To: bob", "Envelope-To: bob", "DKIM-Signature: v=1; b=abc",
    "Authentication-Results: mx.example; spf=pass", "ARC-Seal: i=1; a=rsa-sha256", "ARC-Message-Signature: i=1",
    "Received-SPF: pass", "X-Spam-Status: No, score=-1.9", "X-Spam-Flag: NO", "X-Spam-Level: *", "X-Bogosity: Ham",
    "X-Streamnb: Spam, score=3.1", "X-Virus-Scanned: by a scanner", "X-Rspamd-Server: x", "Status: RO",
    "X-Status: A", "X-Keywords: NonJunk", "X-UID: 17", "X-UIDL: 17", "X-Mozilla-Status: 0001",
    "X-Mozilla-Status2: 00000000", "X-Mozilla-Keys: ", "X-Evolution-Source: imap://a", "X-GM-THRID: 16",
    "X-Gmail-Labels: Inbox,Unread", "X-Google-Smtp-Source: AA", "X-TUID: a", "X-Account-Key: account1",
    "X-MS-Exchange-Organization-SCL: 1", "X-Forefront-Antispam-Report: SFV:NSPM", "Content-Length: 17",
    "Lines: 3", "List-Id: <l.example>", "Precedence: list", "X-Apple-Mail-Flag: 1", "Feedback-ID: 1:2",
    "X-Any-Field-Of-Tomorrow: whatever", "Resent-From: c@d", "X-Loop: yes", "Old-Subject: none",
]  # fmt: skip


def split(message):
    header, _, body = message.partition(b"\n\n")
    return header + b"\n", body


def prepend(lines):
    return lambda message: "".join(f"{line}\n" for line in lines).encode() + message


def refold(message):
    header, body = split(message)
    return re.sub(rb" (?=\w+ \w)", b"\n ", header) + b"\n" + body


def recase(message):
    header, body = split(message)
    lines = [
        b":".join([line.split(b":")[0].upper(), *line.split(b":")[1:]])
        for line in header.split(b"\n")
    ]
    return b"\n".join(lines) + b"\n" + body


def recode(encode, name):
    def hop(message):
        header, body = split(message)
        if b"multipart" in header:
            text = b"Gr\xfc\xdfe\n"
            return message.replace(
                b"iso-8859-1\n\n" + text,
                b"iso-8859-1\nContent-Transfer-Encoding: %b\n\n" % name + encode(text),
            )
        return header + b"Content-Transfer-Encoding: %b\n\n" % name + encode(body)

    return hop


HOPS = {
    "fields before": prepend(ADDED),
    "fields behind": lambda m: split(m)[0] + prepend(ADDED)(b"\n" + split(m)[1]),
    "refolded": refold,
    "names in capitals": recase,
    "CRLF": lambda m: m.replace(b"\n", b"\r\n"),
    "CR CR LF": lambda m: m.replace(b"\n", b"\r\r\n"),
    "base64": recode(base64.encodebytes, b"base64"),
    "base64 of CRLF": recode(lambda b: base64.encodebytes(b.replace(b"\n", b"\r\n")), b"BASE64"),
    "quoted-printable": recode(quopri.encodestring, b"quoted-printable"),
    "8bit": recode(bytes, b"8bit"),
    "separator of an mbox": lambda m: b"From ann Tue Mar  3 10:00:00 2026\n" + m,
    "mbox quoting": lambda m: b"From ann Tue Mar  3 10:00:00 2026\n" + re.sub(rb"^(>*From )", rb">\1", m, flags=re.M)
    .replace(b">From: ", b"From: "),
    "empty lines at the end": lambda m: m + b"\n\n",
    "no line end at the end": lambda m: m.rstrip(b"\n"),
    "white space at line ends": lambda m: split(m)[0] + b"\n" + split(m)[1].replace(b",\n", b", \t\n"),
    "byte order mark": lambda m: b"\xef\xbb\xbf" + m,
    "another boundary": lambda m: m.replace(b"xx", b"boundary-of-the-hop"),
    "another preamble": lambda m: m.replace(b"This is a multi-part message.\n", b""),
    "the name of the sender unquoted": lambda m: m.replace(b'"Ann Lee"', b"Ann Lee"),
    "the subject encoded": lambda m: m.replace(
        b"Subject: The minutes of", b"Subject: =?utf-8?b?VGhlIG1pbnV0ZXM=?= of"
    ).replace(b"=?iso-8859-1?q?Gr=FC=DFe?= aus", b"=?utf-8?q?Gr=C3=BC=C3=9Fe_aus?="),
}  # fmt: skip


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("hop", HOPS)
def test_hops_make_no_other_message(name, hop):
    message = MESSAGES[name]
    assert digest(HOPS[hop](message)) == digest(message)


@pytest.mark.parametrize("name", MESSAGES)
@given(hops=st.lists(st.sampled_from(sorted(HOPS)), max_size=5, unique=True))
def test_any_hops_in_a_row_make_no_other_message(name, hops):
    encodings = {"base64", "base64 of CRLF", "quoted-printable", "8bit"}
    if len(encodings.intersection(hops)) > 1:
        return  # a hop that encodes anew removes the first encoding
    message = MESSAGES[name]
    for hop in sorted(hops, key=lambda hop: hop not in encodings):
        message = HOPS[hop](message)
        if hop.startswith("CR"):
            break  # the other hops are written for LF
    assert digest(message) == digest(MESSAGES[name])


@pytest.mark.parametrize("name", ["plain", "multipart"])
@pytest.mark.parametrize(
    "hop", ["fields before", "fields behind", "refolded", "names in capitals", "CRLF"]
)
def test_hops_leave_the_key_of_a_header(name, hop):
    header, _ = split(MESSAGES[name])
    changed = HOPS[hop](MESSAGES[name])
    assert header_key(changed) == header_key(header) == header_key(MESSAGES[name])


OTHERS = {
    "a word": lambda m: m.replace(b"noon", b"one"),
    "one letter of case": lambda m: m.replace(b"Dear", b"dear"),
    "the subject": lambda m: m.replace(b"Subject: ", b"Subject: Re: "),
    "the sender": lambda m: m.replace(b"ann@example.org", b"eve@example.org"),
    "the date": lambda m: m.replace(b"10:00:00 +0000\nFrom", b"10:00:01 +0000\nFrom"),
    "the Message-ID": lambda m: m.replace(b"<1@", b"<2@"),
    "a line more": lambda m: m + b"PS: bring cake\n",
    "a line less": lambda m: m.replace(b"Ann\n", b""),
    "lines joined": lambda m: m.replace(b"noon. ", b"noon.\n"),
    "as HTML": lambda m: m.replace(b"text/plain", b"text/html"),
    "the end": lambda m: m[:-20],
}


@pytest.mark.parametrize("change", OTHERS)
def test_messages_that_a_reader_can_tell_apart_are_two(change):
    assert OTHERS[change](PLAIN) != PLAIN
    assert digest(OTHERS[change](PLAIN)) != digest(PLAIN)


@pytest.mark.parametrize(
    ("old", "new"), [(b"a.png", b"b.png"), (b"AAEC", b"AAED"), (b"Gr\xfc\xdfe", b"Grusse"), (b"--xx\nContent-Type: image", b"--xx--\nContent-Type: image")]
)  # fmt: skip
def test_parts_that_a_reader_can_tell_apart_make_two_messages(old, new):
    assert MULTIPART.replace(old, new, 1) != MULTIPART
    assert digest(MULTIPART.replace(old, new, 1)) != digest(MULTIPART)


@pytest.mark.parametrize(
    "content",
    [b"text without a header", b"line\nline without a colon\n", b"\n", b"\n\nbody alone", b"Subject: x", b"a: b\nc: d\n\n"],
)  # fmt: skip
def test_what_has_no_header_is_told_apart_too(content):
    assert digest(content) != digest(content + b"z")
    assert len(header_key(content)) == 16


def test_all_of_a_large_message_counts():
    large = PLAIN + b"line of text\n" * 800_000
    assert digest(large + b"a\n") != digest(large + b"b\n")
    attached = MULTIPART.replace(b"AAEC", base64.encodebytes(bytes(5_000_000)) + b"AAEC")
    assert digest(attached) != digest(attached.replace(b"AAEC", b"AAED"))


@pytest.mark.parametrize(
    "many",
    [
        lambda n: b"Content-Type: multipart/mixed; boundary=x\n\n" + b"--x\n\na\n" * n,
        lambda n: b"Content-Type: message/rfc822\n\n" * n,
        lambda n: b"a: b\n" * n + b"\nbody",
        lambda n: b"Subject: x\n\n" + b" \t" * n + b"x",
        lambda n: b"Subject: x\n\n" + b">" * n + b"From x",
    ],
    ids=["parts", "nesting", "fields", "white space", "quoting"],
)
def test_what_is_beyond_the_limits_counts(many):
    message = many(30_000)
    assert digest(message + b"z") != digest(message + b"y")


def test_learned_again_after_a_hop_is_a_correction(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        for name, message in MESSAGES.items():
            assert box.learn(message, "spam", "program").what == "learned"
            for hop in HOPS.values():
                assert box.label_of(digest(hop(message)))[0] == "spam", name
            assert box.learn(HOPS["fields before"](message), "ham").what == "corrected"
            assert box.forget(HOPS["CRLF"](message)).what == "forgotten"
        assert box.verify() == []
