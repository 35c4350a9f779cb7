"""Mails that have crashed mail programs, and similar ones."""

import base64
import functools
import random
import re

__all__ = ["hostile", "passed_on"]


def hostile(large: bool = True) -> dict[str, bytes]:
    """Messages by their defect; with `large`, also a few of many megabytes."""
    rng = random.Random(5)
    multipart = b'Content-Type: multipart/mixed; boundary="b"\n\n'
    nested = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (i, i) for i in range(10_000)
    )
    mails = {
        "nothing": b"",
        "a newline": b"\n",
        "no header": b"Hello,\nX-Streamnb: Ham\n\nthis is all.\n",
        "a blank line first": b"\nbody\n",
        "no blank line": b"Subject: hello",
        "NULs": b"Subject: a\0b\n\n" + b"\0" * 1000,
        "8-bit header": b"Subject: \xff\xfe caf\xe9\nFrom: \x80\n\nhi\n",
        "CR ends": b"Subject: x\rFrom: y\r\rbody\r",
        "a field behind a CR": b"From: a@b\rX-Streamnb: Ham\nSubject: a\rX-Streamnb: Ham\r more\n\nb\rX-Streamnb: c\n",
        "CR CR LF": b"Subject: x\r\r\nX-Streamnb: Ham\r\r\n more\r\r\nTo: y\r\r\n\r\nbody\r\r\n",
        "CR CR LF header end": b"A: x\r\r\nX-Streamnb: Ham\r\r\n\r\r\nX-Streamnb: stays\r\r\n",
        "CR CR CR LF": b"A: x\r\r\r\nX-Streamnb: Ham\r\r\r\n\r\r\r\nX-Streamnb: stays\r\r\r\n",
        "BOM in a forged field": b"A: x\n\xef\xbb\xbfX-Streamnb: Ham\n\0\0x-streamnb : Ham\nB: c\n\nhi\n",
        "many CRs": b"A: " + b"x" * 65500 + b"\r" * 70_000 + b"\nX-Streamnb: Ham\n\nhi\n",
        "a CR at a boundary": b"Subject: " + b"x" * 65526 + b"\r\nX-Streamnb: Ham\r\n\r\nbody\r\n",
        "CRLF": b"Subject: x\r\nX-Streamnb: Ham, score=-9\r\n\r\nbody\r\n",
        "mixed ends": b"Subject: x\r\nX-Streamnb: a\n\tb\r\n  c\nTo: y\n\r\nbody",
        "mbox": b"From ann Mon Jan  1 00:00:00 2026\nx-streamnb : forged\nSubject: x\n\n>From y\n",
        "forged often": b"X-Streamnb: Ham\n" * 2000 + b"Subject: x\n\nX-Streamnb: stays\n",
        "base64 cut off": b"Content-Transfer-Encoding: base64\n\n" + base64.b64encode(b"pills" * 99)[:-3],
        "base64 of nothing": b"Content-Transfer-Encoding: base64\n\n====\n=\n",
        "charset": b"Content-Type: text/plain; charset=no-such-thing\n\n\xe9\xff hello\n",
        "charset of NUL": b"Content-Type: text/plain; charset=\"a\0b\"\n\nhello\n",
        "utf-7": b"Content-Type: text/plain; charset=utf-7\n\n+AAA-+2AA-hello\n",
        "encoded words": b"Subject: =?utf-8?b?!!!!?= =?x?q?=ZZ?= =?utf-8?q?=0A=00?=\n\nhi",
        "starts of encoded words": b"Subject: " + b"=?a?b?x" * 300_000 + b"\n\nhi\n",
        "parameters": b"Content-Type: text/plain" + b";" * 3000 + b"; name*\n\nhi\n",
        "comments": b"To: " + b"(" * 5000 + b"\nFrom: (c):\nMessage-ID: <[x@y]>\n\nhi\n",
        "boundary of dashes": b'Content-Type: multipart/mixed; boundary="--"\n\n----\n\nhi\n------\n',
        "no boundary": b"Content-Type: multipart/mixed\n\n--\nhi\n--\n",
        "unclosed": multipart + b"--b\n\nhi\n",
        "epilogue": multipart + b"--b\n\nhi\n--b--\ncheap pills\n",
        "an empty attached message":  # which the fuzzer found
            multipart + b"--b\nContent-Type: message/rfc822\n\n--b--\n",
        "an empty digest": b'Content-Type: multipart/digest; boundary="b"\n\n--b\n\n--b--\n',
        "unclosed tag": b"Content-Type: text/html\n\n<a href=" + b"<" * 20_000,
        "entities": b"Content-Type: text/html\n\n" + b"&#" * 5000 + b"&#x110000;&#0;&amp" * 100,
        "continuation first": b" folded\n\tagain\nSubject: x\n\nhi\n",
        "noise": rng.randbytes(20_000),
        "a long line": b"Subject: " + b"x" * 300_000 + b"\nX-Streamnb: y\n\nhi\n",
        "a long folded field": b"X-Streamnb: a" + b"\n  more" * 50_000 + b"\nSubject: x\n\nhi\n",
    }  # fmt: skip
    if large:
        mails |= {
            "100,000 header lines": b"".join(b"X-%d: y\n" % i for i in range(100_000)) + b"\nhi\n",
            "10,000 nested parts": nested + b"\nhi\n",
            "10,000 attached messages": b"Content-Type: message/rfc822\n\n" * 10_000 + b"hi\n",
            "100,000 parts": multipart + b"--b\n\n" * 100_000,
            "5 MB header": b"Subject: x\n" * 500_000 + b"X-Streamnb: forged\n\nX-Streamnb: stays\n",
            "a forged field at 4 MiB": b"A: b\n" * (((1 << 22) - 8) // 5)
            + b"X-Streamnb: forged\n folded\nB: c\n\nhi\n",
            "20 MB": b"Subject: x\n\n" + rng.randbytes(1 << 20) * 20,
            "5 MB of one byte": b"(" * 5_000_000,
        }
    return mails


# The beginning of a header after blank lines, and another field before it.
USUAL = re.compile(
    rb"(received|return-path|delivered-to|x-(?!streamnb[ \t]*:)[\w-]+|dkim-signature|arc-[\w-]+"
    rb"|authentication-results|message-id|date|from|sender|reply-to|to|subject|mime-version"
    rb"|content-type)[ \t]*:",
    re.I,
)
OUR_FIELD = re.compile(rb"(?:\0|\xef\xbb\xbf)*x-streamnb[ \t]*(?::|[ \t]\Z)", re.I)
ANY_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:[^\r\n]*(\r*\n|\r)([ \t][^\r\n]*(\r*\n|\r))*")


def begins_header(message: bytes, position: int) -> bool:
    """Return whether one of the first fields is a usual one."""
    if message.startswith(b"From ", position):
        return True
    for _ in range(21):
        if USUAL.match(message, position):
            return True
        field = ANY_FIELD.match(message, position)
        if field is None:
            return False
        position = field.end()
    return False


@functools.lru_cache(1000)  # some messages repeat a line a million times
def split_line(line: bytes) -> list[tuple[bytes, bool]]:
    """Return the parts of a line, and whether each begins with our field: a bare CR ends a line for some."""
    return [
        (part, OUR_FIELD.match(part) is not None)
        for part in re.split(rb"(?<=\r)(?!\r|\n|\Z)", line)
    ]


def passed_on(message: bytes, field: bytes = b"") -> bytes:
    """Return the message as `pass_through` must write it, by the definition: lines in memory."""
    first = re.search(rb"\r?\n", message[:65536])
    blanks = re.match(rb"[ \t\r\n]*", message)[0]
    if blanks[-1:] not in b"\r\n" or not begins_header(message, len(blanks)):
        blanks = b""
    message = message[len(blanks) :]
    lines = re.findall(rb"[^\n]*\n|[^\n]+", message)
    begin = 1 if message.startswith(b"From ") else 0
    while begin < len(lines) and lines[begin][:1] in (b" ", b"\t"):
        begin += 1
    end = begin
    while end < len(lines) and lines[end].lstrip(b"\r") != b"\n":
        end += 1
    added = field + (first[0] if first else b"\n") if field else b""
    header, is_forged = [], False
    for line in lines[:end]:
        remaining = b""
        for part, is_named in split_line(line):
            if part[:1] not in (b" ", b"\t"):
                is_forged = is_named
            remaining += b"" if is_forged else part
        if remaining and line.endswith(b"\n") and not remaining.endswith(b"\n"):
            remaining += b"\n"
        header.append(remaining)
    head = b"".join(header[:begin])
    if field and begin == len(lines) and head and not head.endswith(b"\n"):
        added = added[len(field) :] + added  # a line that would continue the field
    return b"".join([blanks, head, added, *header[begin:], *lines[end:]])
