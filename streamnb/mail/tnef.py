"""Bodies and attachments of TNEF, the format of Outlook's file winmail.dat (MS-OXTNEF)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, repeat
from typing import NamedTuple
from urllib.parse import quote

from streamnb.mail.charsets import decode_text, guess_fallback
from streamnb.mail.content_types import TNEF_START
from streamnb.mail.rtf import expand_rtf, read_page

# attributes and values of properties that are read; 9,990 attachments with names take 0.15 s
_MAX_STEPS = 20_000
# attributes
_BODY, _TITLE, _DATA, _RENDERING = 0x800C, 0x8010, 0x800F, 0x9002
_MESSAGE, _ATTACHMENT, _CODE_PAGE = 0x9003, 0x9005, 0x9007
# properties
_PLAIN_BODY, _RTF_BODY, _HTML_BODY, _HTML_CODE_PAGE = 0x1000, 0x1009, 0x1013, 0x3FDE
_CONTENT, _SHORT_NAME, _LONG_NAME = 0x3701, 0x3704, 0x3707
# types of properties, and the sizes of those that have one, in bytes
_STRING, _UNICODE, _MULTIPLE = 0x1E, 0x1F, 0x1000
_VARIABLE = frozenset((0x0D, _STRING, _UNICODE, 0x102))
_SIZES = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 0x14: 8, 0x40: 8, 0x48: 16}
_CLASS_SIZE = 16  # bytes before an embedded message


class _Property(NamedTuple):
    kind: int = _STRING
    value: bytes = b""


_Properties = dict[int, _Property]
_Steps = Iterator[None]


def read_tnef(data: bytes, limit: int) -> tuple[list[bytes], int]:
    """Return the bodies and attachments of a TNEF file as MIME entities, and the size of its RTF.

    `limit` is the maximum size of expanded RTF in bytes. Damage raises no error.
    """
    message: _Properties = {}
    attachments: list[_Properties] = []
    charset = ""
    steps = repeat(None, _MAX_STEPS if data.startswith(TNEF_START) else 0)
    for key, value in _read_attributes(data, steps):
        properties = attachments[-1] if attachments else {}
        if key == _CODE_PAGE:
            charset = f"cp{_number(value, 0, 4)}"
        elif key == _BODY:
            message.setdefault(_PLAIN_BODY, _Property(_STRING, value))
        elif key == _MESSAGE:
            for number, item in _read_properties(value, steps).items():
                message.setdefault(number, item)
        elif key == _RENDERING:
            attachments.append({})
        elif key == _TITLE:
            properties.setdefault(_SHORT_NAME, _Property(_STRING, value))
        elif key == _DATA:
            properties[_CONTENT] = _Property(0, value)
        elif key == _ATTACHMENT:
            properties.update(_read_properties(value, steps))
    rtf = b"" if _HTML_BODY in message else message.get(_RTF_BODY, _Property()).value
    rtf = expand_rtf(rtf, limit)
    names = list(map(_name, attachments))
    fallback = guess_fallback((name.value, charset) for name in names if name.kind != _UNICODE)
    entities = (
        _attachment_entity(properties, _text(name, charset, fallback))
        for properties, name in zip(attachments, names, strict=True)
    )
    return [*_read_bodies(message, charset, rtf), *entities], len(rtf)


def _number(data: bytes, position: int, size: int) -> int:
    return int.from_bytes(data[position : position + size], "little")


def _read_attributes(data: bytes, steps: _Steps) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and values of the attributes of a file."""
    position = 6
    for _ in steps:
        if position >= len(data):
            break
        end = position + 9 + _number(data, position + 5, 4)
        yield _number(data, position + 1, 2), data[position + 9 : end]
        position = end + 2  # after the checksum


def _read_properties(data: bytes, steps: _Steps) -> _Properties:
    """Return the first value of each property that has a number."""
    properties: _Properties = {}
    position = 4
    for _ in steps:
        if position >= len(data):
            break
        kind, number = _number(data, position, 2), _number(data, position + 2, 2)
        position += 4
        if number & 0x8000:  # with a name: a class, its kind, and a number or a text
            is_text = _number(data, position + 16, 4) == 1
            position += 24 + (_padded(_number(data, position + 20, 4)) if is_text else 0)
        is_variable = kind & ~_MULTIPLE in _VARIABLE
        count = 1
        if is_variable or kind & _MULTIPLE:
            count = _number(data, position, 4)
            position += 4
        if not is_variable:
            size = _SIZES.get(kind & ~_MULTIPLE, 0)
            properties.setdefault(number, _Property(kind, data[position : position + size]))
            position += _padded(size * count)
            continue
        for _ in islice(steps, count):
            if position >= len(data):
                break
            size = _number(data, position, 4)
            position += 4
            properties.setdefault(number, _Property(kind, data[position : position + size]))
            position += _padded(size)
    return properties


def _padded(size: int) -> int:
    return (size + 3) & ~3


def _text(item: _Property, charset: str, fallback: str = "") -> str:
    """Return the text of a property."""
    is_unicode = item.kind == _UNICODE
    text = (
        item.value.decode("utf-16-le", "replace")
        if is_unicode
        else decode_text(item.value, charset, fallback)
    )
    return text.rstrip("\0")


def _read_bodies(message: _Properties, charset: str, rtf: bytes) -> Iterator[bytes]:
    """Yield the plain body of a message, and its HTML or RTF body."""
    if _PLAIN_BODY in message:
        yield _entity("plain; charset=utf-8", _text(message[_PLAIN_BODY], charset).encode())
    html = message.get(_HTML_BODY)
    if html is not None and html.kind != _UNICODE:
        code_page = _number(message.get(_HTML_CODE_PAGE, _Property()).value, 0, 4)
        yield _entity(f"html; charset=cp{code_page}" if code_page else "html", html.value)
    elif html is not None:
        yield _entity("html; charset=utf-8", _text(html, "").encode())
    elif page := read_page(rtf):
        yield _entity("html; charset=utf-8", page.encode())


def _entity(subtype: str, content: bytes) -> bytes:
    return b"Content-Type: text/%b\n\n%b" % (subtype.encode(), content)


def _name(attachment: _Properties) -> _Property:
    return attachment.get(_LONG_NAME) or attachment.get(_SHORT_NAME) or _Property()


def _attachment_entity(properties: _Properties, name: str) -> bytes:
    """Return an attachment; its type is vague, so its name and its content decide."""
    content = properties.get(_CONTENT, _Property()).value
    if content.startswith(TNEF_START, _CLASS_SIZE):
        return b"Content-Type: application/ms-tnef\n\n" + content[_CLASS_SIZE:]
    value = quote(name, errors="replace").encode()
    return b"Content-Type: application/octet-stream; name*=utf-8''%b\n\n%b" % (value, content)
