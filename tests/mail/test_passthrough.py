"""Messages of all corpora pass through `filter` byte for byte."""

import io
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import passed_on

from streamnb.mail import parse
from streamnb.mailbox.digest import digest
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.response import Response, header_field

RESPONSE = Response("S", 0, 3.5, "spam", 0.97, [])
FIELD = header_field(RESPONSE).encode()
MAIL_CORPORA = ("spamassassin", "csdmc2010", "enron1", "enron3", "enron5", "zh_ccert2005")


def mail_files(corpora: Path) -> Iterator[Path]:
    """Yield files of all corpora of mail by turns."""
    files = [
        (Path(folder) / name for folder, _, names in os.walk(corpora / corpus) for name in names)
        for corpus in MAIL_CORPORA
    ]
    for turn in itertools.zip_longest(*files):
        yield from filter(None, turn)


@pytest.mark.corpora
def test_ten_thousand_messages_pass_byte_for_byte(corpora: Path):
    count = 0
    for file in itertools.islice(mail_files(corpora), 10_000):
        message = file.read_bytes()
        target = io.BytesIO()
        assert pass_through(io.BytesIO(message), target, lambda _: RESPONSE) is None
        assert target.getvalue() == passed_on(message, FIELD), file
        if parse(message).fields:
            assert digest(target.getvalue()) == digest(message), file
        count += 1
    assert count == 10_000


@pytest.mark.parametrize("blanks", [b"\n", b"\r\n \r\n"])
@pytest.mark.parametrize("text", [b"Subject: x\n\nhi\n", b"From a@b\nTo: x\n\nhi\n", b"hi\n"])
def test_the_verdict_follows_blank_lines_before_the_header(text, blanks):
    message = blanks + text
    target = io.BytesIO()
    assert pass_through(io.BytesIO(message), target, lambda _: RESPONSE) is None
    assert target.getvalue() == passed_on(message, FIELD)
    assert parse(target.getvalue()).index[b"x-streamnb"]
    assert text == b"hi\n" or digest(target.getvalue()) == digest(message)
