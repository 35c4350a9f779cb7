"""The mail reader against the standard library's, over real mail."""

import email
import email.policy
import re
from email.errors import MissingHeaderBodySeparatorDefect
from email.header import decode_header
from pathlib import Path

import pytest

from streamnb.mail import parse


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def library_words(value: str) -> str:
    """A header's text, by the standard library."""
    parts = []
    for data, charset in decode_header(value.replace("\n", "")):
        if isinstance(data, str):
            parts.append(data)
        elif charset is None:  # what stands between encoded words, one character a byte
            parts.append(data.decode("ascii", "surrogateescape"))
        else:
            parts.append(data.decode(charset))
    return "".join(parts)


def library_texts(message: email.message.Message) -> list[str]:
    """The decoded text parts, by the standard library, or LookupError and UnicodeError."""
    texts = []
    for part in message.walk():
        if part.is_multipart() or part.get_content_maintype() != "text":
            continue
        if part.get_content_subtype() in ("enriched", "richtext", "rtf") or part.get_param("delsp"):
            raise UnicodeError  # the library does not convert these and flowed text
        payload = part.get_payload(decode=True)
        # The library leaves uuencoded files and data of PGP in the text.
        payload = re.sub(
            rb"^[> ]*[\w+/=]{40,}\s*\n(?:[> ]*[\w+/=]+\s*\n)*(?=[> ]*-----END )",
            b"",
            payload,
            flags=re.M,
        )
        payload = re.sub(rb"^begin [0-7]{3} .+\n(?:[!-`].*\n)*?end$", b"", payload, flags=re.M)
        if any("Base64" in type(defect).__name__ for defect in part.defects):
            raise UnicodeError  # the library leaves bad base64 as it is
        charset = part.get_content_charset("utf-8")
        if payload.isascii() and b"\x1b$" in payload:  # ISO-2022-JP, whatever the label
            charset = "iso2022_jp_ext"
        # As in browsers, the label of Latin-1 means its superset.
        texts.append(payload.decode("cp1252" if charset == "iso-8859-1" else charset))
    return texts


def compare(data: bytes) -> tuple[bool, bool]:
    """Compare with the standard library; return whether headers and texts were comparable."""
    data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    library = email.message_from_bytes(data, policy=email.policy.compat32)
    mail = parse(data)
    # The library takes delivery reports apart into parts of their own; here they are text.
    comparable = not any(
        any(not isinstance(defect, MissingHeaderBodySeparatorDefect) for defect in part.defects)
        or part.get_content_type() in ("message/delivery-status", "application/ms-tnef")
        for part in library.walk()
    )
    if not comparable or b"\0" in data:
        return False, False
    names = [name for name, _ in mail.headers]
    assert names == library.keys()
    headers = False
    if all(isinstance(value, str) for value in library.values()):  # all ASCII, as it should be
        try:
            expected = [squeezed(library_words(value)) for value in library.values()]
        except (LookupError, UnicodeError, ValueError):
            expected = None
        if expected is not None:
            assert [squeezed(value) for _, value in mail.headers] == expected
            headers = True
    try:
        expected_texts = library_texts(library)
    except (LookupError, UnicodeError, AttributeError):
        return headers, False
    texts = [p.text for p in mail.parts if p.role == "body" and p.content_type.startswith("text/")]
    assert [squeezed(text) for text in texts] == [squeezed(text) for text in expected_texts]
    return headers, True


def compared_or_none(message: bytes) -> tuple[bool, bool] | None:
    try:
        return compare(message)
    except AssertionError:
        return None


@pytest.mark.corpora
@pytest.mark.parametrize(
    ("folders", "least"),
    [
        ("spamassassin/*-1", 0.9),
        ("spamassassin/*-2", 0.9),
        ("enron*/ham", 0.95),
        ("enron*/spam", 0.9),
    ],
)
def test_agrees_with_the_standard_library(corpora: Path, folders: str, least: float):
    files = [file for folder in corpora.glob(folders) for file in folder.iterdir()]
    assert len(files) > 1000
    compared = [compared_or_none(file.read_bytes()) for file in files]
    # The library believes a wrong charset (UTF-8 that is called iso-8859-1); browsers do not.
    assert compared.count(None) <= len(files) / 1000
    compared = [pair for pair in compared if pair is not None]
    assert sum(texts for _, texts in compared) > least * len(files)
    assert sum(headers for headers, _ in compared) > least * len(files)


def test_agrees_on_the_sample(repository: Path):
    files = sorted((repository / "corpora" / "sample" / "data").iterdir())
    compared = [compare(file.read_bytes()) for file in files]
    assert len(files) == 300
    assert sum(texts for _, texts in compared) > 0.95 * len(files)
    assert sum(headers for headers, _ in compared) > 0.95 * len(files)
