"""Bodies and attachments in Outlook's winmail.dat are read, and damage raises no error."""

import base64
import random
import struct
from urllib.parse import quote

import pytest

from streamnb import MailTokenizer
from streamnb.mail import Limits, guess_charset, parse
from streamnb.mail.decode import decode_words, parameters
from streamnb.mail.rtf import expand_rtf, read_page
from streamnb.mail.tnef import read_tnef

ATTRIBUTES = {
    "body": 0x0002800C, "title": 0x00018010, "data": 0x0006800F, "rendering": 0x00069002,
    "message": 0x00069003, "attachment": 0x00069005, "code page": 0x00069007,
}  # fmt: skip
STRING, UNICODE, BINARY, OBJECT, INTEGER = 0x1E, 0x1F, 0x102, 0x0D, 3
CLASS = bytes(16)
PAGE = (
    rb"{\rtf1\ansi\ansicpg1251\fromhtml1 \deff0{\fonttbl{\f0\fswiss Arial;}}"
    rb"{\*\htmltag19 <html>}{\*\htmltag64 <p style='display:none'>}\htmlrtf {\f1\htmlrtf0 "
    rb"concealed {\*\htmltag72 </p>}{\*\mhtmltag84 <a href=x>}"
    rb"visible \'ef\'f0\'e8\'e2\'e5\'f2 \u1084?\'e8\'f0\par{\*\htmltag148 <br>}\htmlrtf \par \htmlrtf0 end}"
)


def attribute(name: str, value: bytes) -> bytes:
    checksum = sum(value) & 0xFFFF
    level = 2 if name in ("title", "data", "rendering", "attachment") else 1
    return (
        struct.pack("<BII", level, ATTRIBUTES[name], len(value))
        + value
        + struct.pack("<H", checksum)
    )


def variable(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value + bytes(-len(value) % 4)


def properties(*items: tuple[int, int, bytes]) -> bytes:
    """Return properties (number, kind, value), after one with a name and one with several values."""
    named = (
        struct.pack("<HH16sII", BINARY, 0x8001, CLASS, 1, 6) + "abc".encode("utf-16-le") + b"\0\0"
    )
    out = struct.pack("<I", len(items) + 2) + named + struct.pack("<I", 1) + variable(b"x")
    out += (
        struct.pack("<HHI", STRING | 0x1000, 0x3000, 2) + variable(b"first") + variable(b"second")
    )
    for number, kind, value in items:
        out += struct.pack("<HH", kind, number)
        out += value if kind == INTEGER else struct.pack("<I", 1) + variable(value)
    return out


def winmail(*attributes: bytes) -> bytes:
    return bytes.fromhex("789f3e220100") + b"".join(attributes)


def compressed(rtf: bytes) -> bytes:
    """Return RTF compressed with literals only, and the mark of the end."""
    out = bytearray()
    for start in range(0, len(rtf), 8):
        out += b"\0" + rtf[start : start + 8]
    if len(rtf) % 8 == 0:
        out += b"\1"
    else:
        out[-(len(rtf) % 8) - 1] = 1 << len(rtf) % 8
    out += ((207 + len(rtf)) % 4096 << 4).to_bytes(2, "big")
    return struct.pack("<II4sI", len(out) + 12, len(rtf), b"LZFu", 0) + bytes(out)


def message(data: bytes, content_type: bytes = b"application/ms-tnef") -> bytes:
    head = b"Subject: s\nContent-Type: %b; name=winmail.dat\nContent-Transfer-Encoding: base64\n\n"
    return head % content_type + base64.encodebytes(data)


def tokens(data: bytes, content_type: bytes = b"application/ms-tnef") -> set[str]:
    return set(MailTokenizer().transform_one(message(data, content_type)))


BODIES = {
    "plain": attribute("body", "lottery привет\0".encode("cp1251")),
    "plain, Unicode": attribute(
        "message", properties((0x1000, UNICODE, "lottery привет\0".encode("utf-16-le")))
    ),
    "HTML": attribute(
        "message",
        properties(
            (0x3FDE, INTEGER, struct.pack("<I", 20866)),
            (0x1013, BINARY, "<b>lottery</b> привет".encode("koi8-r")),
        ),
    ),
    "HTML, Unicode": attribute(
        "message", properties((0x1013, UNICODE, "<b>lottery</b> привет".encode("utf-16-le")))
    ),
}  # fmt: skip


@pytest.mark.parametrize("content_type", [b"application/ms-tnef", b"application/octet-stream"])
@pytest.mark.parametrize("body", BODIES)
def test_every_kind_of_body_is_read(body, content_type):
    code_page = attribute("code page", struct.pack("<II", 1251, 0))
    data = winmail(code_page, BODIES[body])
    assert {"lottery", "привет"} <= tokens(data, content_type)
    assert parse(message(data, content_type)).defects == []


def test_a_page_in_rtf_is_read_as_html():
    data = winmail(attribute("message", properties((0x1009, BINARY, compressed(PAGE)))))
    words = tokens(data)
    assert {"hidden:concealed", "visible", "привет", "мир", "end", "html:p"} <= words
    assert not {"concealed", "Arial", "html:a", "href", "par"} & words


def test_attachments_have_names_and_texts():
    nested = winmail(attribute("body", b"inside\0"))
    data = winmail(
        attribute("rendering", bytes(14)), attribute("title", b"NOTES~1.TXT\0"),
        attribute("data", b"first text"),
        attribute("attachment", properties((0x3707, UNICODE, "Заметки long.txt\0".encode("utf-16-le")))),
        attribute("rendering", bytes(14)), attribute("title", b"picture.png\0"),
        attribute("data", b"\x89PNG" + bytes(100)),
        attribute("rendering", bytes(14)),
        attribute("attachment", properties((0x3701, OBJECT, CLASS + nested))),
    )  # fmt: skip
    words = tokens(data)
    assert {"first", "name:Заметки", "name:long.txt", "name:picture.png", "inside"} <= words
    assert "attachment:bytes:89504e47" in words


@pytest.mark.parametrize("value", [b"", b"\1", bytes(4), b"\xff" * 4, b"\xff" * 8])
def test_the_number_of_a_code_page_can_be_anything(value):
    assert "body" in tokens(winmail(attribute("code page", value), attribute("body", b"body \xe9")))


def test_the_example_of_the_standard_is_expanded():
    data = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert expand_rtf(data, 1000) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    repeated = bytes(8) + b"LZFu" + bytes(4) + bytes.fromhex("06610cf20d40")
    assert expand_rtf(repeated, 1000) == b"aaaaa"


def test_expansion_is_limited():
    run = bytes((0xFE, 97)) + b"".join(
        ((208 + 17 * i - 1) % 4096 << 4 | 15).to_bytes(2, "big") for i in range(7)
    )
    data = bytes(8) + b"LZFu" + bytes(4) + run
    data += b"".join(
        b"\xff"
        + b"".join(
            ((208 + 119 + 17 * i - 1) % 4096 << 4 | 15).to_bytes(2, "big") for i in range(k, k + 8)
        )
        for k in range(0, 80_000, 8)
    )
    assert len(expand_rtf(data, 10**9)) > 1_300_000
    mails = winmail(attribute("message", properties((0x1009, BINARY, data))))
    mail = parse(message(mails), Limits(size=10_000))
    assert sum(len(part.payload) for part in mail.parts if part.is_text) <= 11_000


def test_all_tnef_files_share_the_limit_of_expansion():
    """RTF without a page counts, too."""
    rtf = bytes(8) + b"MELA" + bytes(4) + b"{\\rtf1\\fromhtml1 {\\fonttbl " + b"x" * 6000
    data = base64.encodebytes(winmail(attribute("message", properties((0x1009, BINARY, rtf)))))
    head = b"Content-Type: application/ms-tnef\nContent-Transfer-Encoding: base64\n\n"
    limits = []

    def expand(data, limit):
        limits.append(limit)
        return expand_rtf(data, limit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("streamnb.mail.tnef.expand_rtf", expand)
        parts = b"".join(b"--b\n%b%b\n" % (head, data) for _ in range(3))
        parse(b"Content-Type: multipart/mixed; boundary=b\n\n" + parts, Limits(size=10_000))
    assert limits == [10_000, 10_000 - len(rtf) + 16, 0]


def test_the_first_value_of_a_property_is_read():
    first, second = (properties((0x1000, STRING, word)) for word in (b"first", b"second"))
    later = properties((0x1013, STRING, b"later"))
    data = winmail(*(attribute("message", value) for value in (first, second, later)))
    entities, _ = read_tnef(data, 1000)
    assert [entity.split(b"\n\n")[1] for entity in entities] == [b"first", b"later"]


RUN = "прив".encode("cp1251")
MANY_RUNS = {
    "RTF": lambda n: read_page(b"{\\rtf1\\fromhtml1 " + (RUN + b"\\u1   ") * n),
    "RTF in UTF-8": lambda n: read_page(
        b"{\\rtf1\\ansicpg65001\\fromhtml1 " + (RUN + b"\\u1   ") * n
    ),
    "words": lambda n: decode_words(b"=?a?q?%b?= =?b?q?%b?= " % (RUN, RUN) * n),
    "words, and a body in UTF-8": lambda n: decode_words(
        b"=?utf8?q?%b?= =?utf-8?q?%b?= " % (RUN, RUN) * n, "utf-8"
    ),
    "words after UTF-8": lambda n: decode_words(
        b"=?a?q?%b\xd0?= =?b?q?\xbf?= " % ("привет".encode() * 3000) + b"x=?a?q?\xd0?=" * n
    ),
    "parameters": lambda n: "".join(
        parameters(
            b"a/b" + b"".join(b'; a%d="%b"; b%d*=%b' % (i, RUN, i, RUN) for i in range(n // 2))
        ).values()
    ),
    "parameters of encoded words": lambda n: "".join(
        parameters(b"a/b" + b"".join(b'; a%d="=?a?b?7/Do4g?="' % i for i in range(n))).values()
    ),
    "parts": lambda n: parse(
        b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n%b\n" % RUN * n
    ).text,
    "names": lambda n: b"".join(
        read_tnef(
            winmail(*[attribute("rendering", b""), attribute("title", RUN)] * n), 1000
        )[0]
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MANY_RUNS)
def test_the_charset_of_many_runs_is_guessed_once(kind, monkeypatch):
    guess, sizes = guess_charset.guess_charset, []
    monkeypatch.setattr(
        guess_charset, "guess_charset", lambda data: sizes.append(len(data)) or guess(data)
    )
    text = MANY_RUNS[kind](50)
    assert len(sizes) == 1
    if kind == "names":
        assert text.count(quote("прив").encode()) == 50
    elif kind != "words after UTF-8":
        assert text.count("прив") >= 50


def test_the_charset_of_many_latin_parts_is_guessed_for_the_first_ones(monkeypatch):
    guesses = []
    monkeypatch.setattr(guess_charset, "guess_charset", lambda data: guesses.append(data) or "")
    mail = parse(b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\ncaf\xe9\n" * 300)
    assert mail.text.count("café") == 300
    assert len(guesses) == 100


def test_damaged_utf8_in_many_runs_stays_utf8():
    assert decode_words(b"=?a?q?abc?= \xd0\xbf\xd1\x80\xd0\xb8\xd0") == "abc при\ufffd"
    assert "при\ufffdве" in decode_words("=?a?q?abc?= при".encode() + b"\xd0" + "ве".encode())


def test_damage_raises_no_error():
    generator = random.Random(1)
    rtf = attribute("message", properties((0x1009, BINARY, compressed(PAGE))))
    whole = winmail(rtf, attribute("code page", bytes(8)), *BODIES.values(), attribute("rendering", b""),
                    attribute("attachment", properties((0x3707, STRING, b"a.txt"))))  # fmt: skip
    for size in range(0, len(whole), 5):
        parse(message(whole[:size]))
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(generator.randrange(1, 20)):
            damaged[generator.randrange(6, len(damaged))] = generator.choice((0, 1, 0x7F, 0xFF))
        parse(message(bytes(damaged)))
        read_page(bytes(damaged))


def test_braces_without_partner_take_bounded_time_and_memory():
    rtf = b"{\\rtf1\\fromhtml1 " + b"{" * 100_000 + b"deep" + b"}" * 200_000 + b" end"
    assert read_page(rtf) == "deep end"
    assert read_page(rtf.replace(b"html", b"text")) == ""
