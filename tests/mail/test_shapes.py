"""A table of shapes of messages: the text that a mail program shows becomes tokens in every shape."""

import base64
import binascii
import email
import email.policy
import functools
import gzip
import itertools
import quopri
import zlib

import pytest

from streamnb import MailTokenizer
from streamnb.features.grams import ByteGrams, WordPairs
from streamnb.mail import parse, unwrap
from streamnb.mail.decode import decode_words
from streamnb.mail.parse import DEFAULT_LIMITS
from streamnb.mailbox.digest import digest

WORDS = "naïve crème lottery"
HEADER_ODDITIES = {
    "none": b"",
    "no colon": b"this line is no field\n",
    "no colon, folded": b"this line is no field\n\tand goes on\n",
    "blank in a name": b"Reply To: x@y\n",
    "blank before the colon": b"Reply-To : x@y\n",
    "8 bits in a name": b"Gr\xfc\xdfe: x\n",
    "empty name": b": x\n",
    "NUL in a line": b"X-A: a\0b\n",
    "separator": b">From x@y Mon Jan  1 00:00:00 2024\n",
    "BOM": b"\xef\xbb\xbf",
    "NULs": b"\0\0",
    "BOM in a line": b"X-A: b\n\xef\xbb\xbfX-B: c\n",
}
LINE_ENDS = {"LF": b"\n", "CRLF": b"\r\n", "CR CR LF": b"\r\r\n", "CR": b"\r", "LF CR": b"\n\r"}
CHARSETS = ("utf-8", "iso-8859-1", "windows-1252", "us-ascii", "no-such", '"utf-8"', "utf-8 (x)")
ENCODINGS = {
    "8bit": lambda data: (b"8bit", data),
    "qp": lambda data: (b"quoted-printable", quopri.encodestring(data)),
    "base64": lambda data: (b"base64", base64.encodebytes(data)),
    "base64;": lambda data: (b"base64;", base64.encodebytes(data)),
    '"base64"': lambda data: (b'"base64"', base64.encodebytes(data)),
    "qp, blanks": lambda data: (
        b"quoted-printable",
        quopri.encodestring(data).replace(b" ", b"=  \n ", 1),
    ),
    "nested comments": lambda data: (b"(x (y (z))) base64", base64.encodebytes(data)),
    "base 64": lambda data: (b"base 64", base64.encodebytes(data)),
    "BASE-64": lambda data: (b"BASE-64", base64.encodebytes(data)),
    "encoded name": lambda data: (b"=?us-ascii?q?base64?=", base64.encodebytes(data)),
    "quoted printable": lambda data: (b"Quoted Printable", quopri.encodestring(data)),
    "base64 (x)": lambda data: (b" (y) Base64 (x)", base64.encodebytes(data)),
}


def part(charset: str, encoding: str, subtype: bytes = b"plain") -> bytes:
    codec = "latin-1" if charset in ("iso-8859-1", "windows-1252") else "utf-8"
    label, body = ENCODINGS[encoding](WORDS.encode(codec))
    return (
        b"Content-Type: text/%b; charset=%b\nContent-Transfer-Encoding: %b\n\n%b\n"
        % (subtype, charset.encode(), label, body.rstrip(b"\n"))
    )  # fmt: skip


def mixed(*parts: bytes, mark: bytes = b"b1") -> bytes:
    body = b"".join(b"--%b\n%b\n" % (mark, item) for item in parts)
    return b'Content-Type: multipart/mixed; boundary="%b"\n\npreamble\n%b--%b--\n' % (
        mark,
        body,
        mark,
    )


def encoded(content: bytes, kind: bytes, encoding: bytes) -> bytes:
    data = base64.encodebytes(content) if encoding == b"base64" else quopri.encodestring(content)
    return b"Content-Type: %b\nContent-Transfer-Encoding: %b\n\n%b" % (kind, encoding, data)


def undeclared(multipart: bytes, parameters: bytes) -> bytes:
    """Replace the parameters of the first Content-Type."""
    kind, _, tail = multipart.partition(b";")
    return kind + parameters + b"\n" + tail.partition(b"\n")[2]


def typed(text: bytes, content_type: bytes) -> bytes:
    """Replace the type of a part, but not its charset."""
    return text.replace(b"text/plain", content_type, 1)


def picture(size: int) -> bytes:
    data = base64.encodebytes(b"\x89PNG" + bytes(range(256)) * (size // 256))
    return b"Content-Type: image/png\nContent-Transfer-Encoding: base64\n\n" + data


STRUCTURES = {
    "single": lambda text: text,
    "mixed": lambda text: mixed(text),
    "nested": lambda text: mixed(mixed(text, mark=b"b2")),
    "alternative": lambda text: mixed(b"\nother", text),
    "forwarded": lambda text: mixed(b"Content-Type: message/rfc822\n\nSubject: x\n" + text),
    "news": lambda text: mixed(b"Content-Type: message/news\n\nSubject: x\n" + text),
    "part of a message": lambda text: mixed(
        b"Content-Type: message/partial; number=1; total=1\n\nSubject: x\n" + text
    ),
    "after a picture": lambda text: mixed(picture(900_000), text),
    "after three pictures": lambda text: mixed(*[picture(900_000)] * 3, text),
    "encoded multipart": lambda text: encoded(
        mixed(text, mark=b"in").partition(b"\n\n")[2], b"multipart/mixed; boundary=in", b"base64"
    ),
    "encoded message": lambda text: mixed(
        encoded(b"Subject: x\n" + text, b"message/rfc822", b"base64")
    ),
    "never closed": lambda text: mixed(mixed(text, mark=b"b2").removesuffix(b"--b2--\n")),
    "no boundary": lambda text: undeclared(mixed(text), b""),
    "another boundary": lambda text: undeclared(mixed(text), b"; boundary=b2"),
    "boundary in another case": lambda text: undeclared(mixed(text), b"; boundary=B1"),
    "boundary in single quotes": lambda text: undeclared(mixed(text), b"; boundary='b1'"),
    "boundary behind a comma": lambda text: undeclared(mixed(text), b", boundary=b1"),
    "two boundaries": lambda text: undeclared(mixed(text), b"; boundary=b0; boundary=b1"),
    "no subtype": lambda text: mixed(text).replace(b"multipart/mixed", b"multipart"),
    "inner without a boundary": lambda text: mixed(undeclared(mixed(text, mark=b"b2"), b"")),
    "behind many parts": lambda text: mixed(*[b""] * 3000, text),
    "forty deep": lambda text: functools.reduce(
        lambda inner, depth: mixed(inner, mark=b"d%d-" % depth), range(40), text
    ),
    "behind many fields": lambda text: b"X-A: b\n" * 1500 + text,
    "behind a long field": lambda text: b"X-A: b\n" + b"  c\n" * 200_000 + text,
    "two types": lambda text: b"Content-Type: application/x-a\n" + text,
    "a type and a multipart": lambda text: b"Content-Type: text/plain\n" + mixed(text),
    "two encodings": lambda text: b"Content-Transfer-Encoding: 7bit\n" + text,
    "empty encoding": lambda text: b"Content-Transfer-Encoding:\n" + text,
    "wrong encoding first": lambda text: (
        b"Content-Transfer-Encoding: "
        + (b"quoted-printable\n" if b"base64" in text.lower() else b"base64\n")
        + text
    ),
    "octet-stream with a name": lambda text: mixed(
        typed(text, b"application/octet-stream; name=a.txt")
    ),
    "octet-stream with text": lambda text: mixed(typed(text, b"application/octet-stream")),
    "unknown type": lambda text: typed(text, b"unknown/unknown"),
    "download": lambda text: typed(text, b"application/force-download; name*=utf-8''%C3%A4.TXT"),
    "text as an application": lambda text: mixed(typed(text, b"application/text")),
    "charset without a semicolon": lambda text: text.replace(b"; charset", b" charset"),
    "charset behind a comma": lambda text: text.replace(b"; charset", b", charset"),
    "charset with a colon": lambda text: text.replace(b"charset=", b"charset:"),
    "wrong label": lambda text: mixed(text).replace(
        b"\n\npreamble", b"\nContent-Transfer-Encoding: base64\n\npreamble"
    ),
}


def message(oddity: str, line_end: str, charset: str, encoding: str, structure: str) -> bytes:
    head, body = HEADER_ODDITIES[oddity], STRUCTURES[structure](part(charset, encoding))
    first, tail = (head, b"") if oddity in ("BOM", "NULs") else (b"", head)
    whole = first + b"From: a@b\n" + tail + b"Subject: s\n" + body
    return whole.replace(b"\n", LINE_ENDS[line_end])


LARGE = ("after three pictures", "behind many parts", "behind many fields", "behind a long field")
# Structures that the standard library does not read, or reads as one text.
UNREAD = {name for name in STRUCTURES if "encod" in name or "boundar" in name or name in (
    "news", "part of a message", "wrong label", "two types", "a type and a multipart", "no subtype",
    "forty deep", "behind many parts", "octet-stream with a name", "octet-stream with text",
    "unknown type", "download", "text as an application", "charset without a semicolon",
    "charset behind a comma", "charset with a colon",
)}  # fmt: skip


# Each pair of values of two columns occurs in some row.
SHAPES = sorted(
    {
        (oddity, line_end, CHARSETS[(i + j) % len(CHARSETS)], encoding, structure)
        for (i, (oddity, line_end)), (j, (encoding, structure)) in itertools.product(
            enumerate(itertools.product(HEADER_ODDITIES, LINE_ENDS)),
            enumerate(itertools.product(ENCODINGS, STRUCTURES)),
        )
        if (i + j) % 5 == 0 or "none" in (oddity,)
    }
)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("oddity", HEADER_ODDITIES)
def test_shown_text_becomes_tokens(oddity, structure):
    tokenizer = MailTokenizer()
    for shape in SHAPES:
        if (shape[0], shape[4]) != (oddity, structure) or (structure in LARGE and shape[1] != "LF"):
            continue
        raw = message(*shape)
        tokens = tokenizer.transform_one(raw)
        assert set(WORDS.split()) <= set(tokens), shape
        assert tokens.get("from:a") == 1, shape
        assert parse(raw).get("subject") == "s", shape


@pytest.mark.parametrize("structure", [name for name in STRUCTURES if name not in UNREAD])
@pytest.mark.parametrize("line_end", ["LF", "CRLF"])
def test_texts_of_the_standard_library_are_read(line_end, structure):
    raw = message("none", line_end, "utf-8", "base64", structure)
    library = email.message_from_bytes(raw, policy=email.policy.default)
    texts = [
        item.get_content().split()
        for item in library.walk()
        if item.get_content_type() == "text/plain"
    ]
    read = [item.text.split() for item in parse(raw).parts if item.role == "body" and item.is_text]
    assert read == texts


@pytest.mark.parametrize("oddity", [name for name in HEADER_ODDITIES if name != "separator"])
def test_digest_and_tokens_do_not_depend_on_the_route(oddity):
    raw = message(oddity, "LF", "utf-8", "8bit", "mixed")
    tokens = MailTokenizer().transform_one(raw)
    for changed in (
        raw.replace(b"\n", b"\r\n"),
        raw.replace(b"\n", b"\r\r\n"),
        b"From a@b Mon Jan  1 00:00:00 2024\n" + raw,
        b"\xef\xbb\xbf" + raw,
        b"X-Spam-Flag: YES\n" + raw,
        b"X-Spam-Flag : YES\n" + raw,
        b"X-Streamnb: Spam, score=1\n" + raw,
    ):
        assert MailTokenizer().transform_one(changed) == tokens
        if oddity not in ("BOM", "NULs") and not changed.startswith(b"\xef"):
            assert digest(changed) == digest(raw)


def test_damaged_lines_of_a_header_are_defects_and_evidence():
    mail = parse(b"A: 1\nbuy pills now\nB: 2\n\nbody\n")
    assert mail.headers == [("A", "1"), ("B", "2")]
    assert mail.defects == ["header lines that are no fields"]
    assert mail.text == "body\n"
    tokens = MailTokenizer().transform_one(b"A: 1\nbuy pills now\nB: 2\n\nbody\n")
    assert {"damaged:buy", "damaged:pills", "body"} <= set(tokens)


def test_files_of_apple_mail_and_dovecot_are_recognised():
    mail = b"Subject: hi\n\nlottery\n"
    wrapped = b"%-10d\n" % len(mail) + mail + b'<?xml version="1.0"?><plist><dict/></plist>\n'
    assert unwrap(wrapped) == mail
    assert digest(wrapped) == digest(mail)
    assert MailTokenizer().transform_one(wrapped) == MailTokenizer().transform_one(mail)
    dbox = b"2 M1e C6b08b378\n\x01\x02N          %016X\n%b\n\x01\x03\nR6b08b378\nV42\n\n" % (
        len(mail),
        mail,
    )
    assert unwrap(dbox) == mail
    for other in (b"12\nhello\n", b"12", b"123456789012\nA: b\n\n"):
        assert unwrap(other) == other


@pytest.mark.parametrize(
    ("content_type", "name"),
    [
        (b"application/ms-tnef", "TNEF (winmail.dat)"),
        (b"application/pkcs7-mime; smime-type=signed-data", "S/MIME"),
        (b"application/x-pkcs7-mime", "S/MIME"),
    ],
)
def test_content_that_is_not_read_is_a_defect(content_type, name):
    mail = parse(b"Content-Type: " + content_type + b"\n\nx\n")
    assert mail.defects == [f"{name} content is not read"]


def test_attachments_leave_size_and_first_bytes():
    tokens = MailTokenizer().transform_one(mixed(picture(100_000)))
    assert {"attachment:bytes:89504e47", "attachment:size:17", "type:image/png"} <= set(tokens)


@pytest.mark.parametrize(
    "filler", [b"\nx" * 600_000, b"Content-Type: text/html\n\n" + b"y " * 600_000]
)
def test_no_text_hides_the_text_behind_it(filler):
    mail = parse(mixed(filler, part("utf-8", "base64")))
    assert WORDS in mail.text
    assert "more than 1048576 bytes of text" in mail.defects
    assert sum(len(item.payload) for item in mail.parts) <= 1 << 20


@pytest.mark.parametrize("encoding", [b"8bit", b"base64", b"quoted-printable"])
@pytest.mark.parametrize("quote", [b'"', b"'", b""])
def test_a_picture_in_the_source_of_a_page_hides_no_text(encoding, quote):
    data = base64.b64encode(bytes(range(256)) * 10_000)
    page = b"<p>before</p><img src=%bdata:image/png;base64,%b%b><p>lottery</p>" % (
        quote,
        data,
        quote,
    )
    mail = (
        encoded(page, b"text/html", encoding)
        if encoding != b"8bit"
        else (b"Content-Type: text/html\n\n" + page)
    )
    assert {"before", "lottery"} <= set(MailTokenizer().transform_one(b"Subject: s\n" + mail))


@pytest.mark.parametrize(
    "content_type",
    [b"text/(b)html", b"(a (b)) text/html", b"text / html (c)", b'"text/html"', b"TEXT/HTML;"],
)
def test_the_type_is_read_past_comments_and_blanks(content_type):
    assert parse(b"Content-Type: " + content_type + b"\n\nx").parts[0].content_type == "text/html"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("blanks", [b"\n", b"\r\n", b" \t\n"])
def test_blank_lines_at_the_end_are_not_a_part(blanks, count):
    raw = mixed(part("utf-8", "8bit"))
    assert MailTokenizer().transform_one(raw + blanks * count) == MailTokenizer().transform_one(raw)


@pytest.mark.parametrize("line_end", [b"\r\n", b"\r\r\n", b"\r"])
def test_line_ends_in_encoded_pages_are_those_of_plain_ones(line_end):
    page = b"<p style='font-size:\n8pt'>Visible</p>\n"
    raw = b"Content-Type: text/html\n\n" + page
    recoded = encoded(page.replace(b"\n", line_end), b"text/html", b"base64")
    tokens = MailTokenizer(part="body").transform_one(raw)
    assert MailTokenizer(part="body").transform_one(recoded) == tokens


VAGUE_TYPES = [
    "application/octet-stream",
    "binary/octet-stream",
    "application/download",
    "x/unknown",
]


@pytest.mark.parametrize("encoding", ["8bit", "base64"])
@pytest.mark.parametrize("content_type", VAGUE_TYPES)
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"plain words here", "text/plain"),
        ("на русском".encode("koi8-r"), "text/plain"),
        (b"\xff\xfep\0l\0a\0i\0n\0", "text/plain"),
        (b" <!-- x --><HTML><p hidden>words", "text/html"),
        (b"<!DOCTYPE html><p>words", "text/html"),
        (b"PK\3\4\0words", ""),
        (b"\x89PNG\r\n\x1a\n words", ""),
        (b"%PDF-1.7 words", ""),
        (b"-----BEGIN PGP MESSAGE-----\nwords", ""),
        (b" \n", ""),
    ],
)
def test_parts_of_vague_types_are_read_if_they_are_text(content, kind, content_type, encoding):
    label, body = ENCODINGS[encoding](content)
    head = b"Content-Type: %b\nContent-Transfer-Encoding: %b\n\n" % (content_type.encode(), label)
    [part] = parse(head + body).parts
    assert (part.read_as, part.content_type) == (kind, content_type)
    assert part.is_text == bool(kind)
    assert part.is_html == (kind == "text/html")


def test_name_of_a_file_decides_between_text_and_html():
    head = b"Content-Type: application/octet-stream; name=%b\n\n%b"
    assert parse(head % (b"a.html", b"words")).parts[0].is_html
    assert not parse(head % (b"a.txt", b"words")).parts[0].is_html
    assert not parse(head % (b"a.txt", b"a\0b")).parts[0].is_text


@pytest.mark.parametrize("label", [b"", b"; charset=us-ascii", b"; charset=utf-8"])
@pytest.mark.parametrize("kind", [b"text/plain", b"text/html"])
def test_japanese_text_without_its_label_is_read(kind, label):
    text = "今日は未承諾広告"
    raw = b"Content-Type: %b%b\n\n%b\n" % (kind, label, text.encode("iso-2022-jp"))
    assert parse(raw).parts[0].text.strip() == text
    assert "広告" in MailTokenizer().transform_one(raw)


@pytest.mark.parametrize("footer", [b"list\nhttp://list.example/x\nshort words\n", b"__\nlist\n"])
@pytest.mark.parametrize("padding", range(3))
def test_footers_of_lists_behind_base64_are_text(footer, padding):
    raw = b"Content-Transfer-Encoding: base64\n\n"
    text = "naïve words ".encode() * 20 + b"." * padding
    raw += base64.encodebytes(text) + b"____________\n" + footer
    tokens = MailTokenizer().transform_one(raw)
    assert {"naïve", "words", "list"} <= set(tokens)
    assert not [name for name in tokens if not name.isascii() and name != "naïve"]
    assert ("url:list.example" in tokens) == (b"http" in footer)


@pytest.mark.parametrize("line", [b"> %b", b'"%b"', b"  %b  ", b">%b", b"'%b'", b">> %b \r"])
@pytest.mark.parametrize("size", range(50, 130, 13))
def test_marks_of_quotation_in_base64_are_passed_over(line, size):
    text = (b"lottery words \xc3\xa9 " * 10)[:size]
    lines = base64.encodebytes(text).splitlines()
    raw = b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n"
    mail = parse(raw + b"\n".join(line % data for data in lines) + b"\n")
    assert mail.text.strip() == text.decode("utf-8", "replace").strip()


def test_text_around_uuencoded_data_is_read():
    data = b"begin 644 a.txt\n" + binascii.b2a_uu(b"inner words") + b"`\nend\n"
    raw = b"Content-Transfer-Encoding: x-uuencode\n\nbefore it\n" + data + b"after it\n"
    assert {"before", "inner", "words", "after"} <= set(MailTokenizer().transform_one(raw))
    bare = b"Content-Transfer-Encoding: x-uuencode\n\n" + binascii.b2a_uu(b"inner words")
    assert {"inner", "words"} <= set(MailTokenizer().transform_one(bare))


@pytest.mark.parametrize("kind", [b"text/watch-html", b"text/x-amp-html", b"text/html"])
def test_all_types_of_html_are_read_as_html(kind):
    tokens = MailTokenizer().transform_one(b"Content-Type: %b\n\n<p hidden>no</p>yes" % kind)
    assert {"hidden:no", "yes"} <= set(tokens)


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("=?utf-8?q?via=\n gra=\n\t_now?=", "viagra now"),
        ("1 +=\n 1 =?utf-8?q?is?= 1 =\n 1", "1 += 1 is 1 = 1"),
        ("a?b=\n c =?utf-8?b?ZA==?=\n e=\n f", "a?b= c d e= f"),
        ("=?utf-8?q?a?=\n =?utf-8?q?b=\n c", "ab= c"),
    ],
)
def test_soft_line_breaks_are_within_encoded_words(subject, text):
    assert parse(f"Subject: {subject}\n\n".encode()).get("subject") == text


def test_encoded_words_may_have_blanks_and_question_marks():
    assert parse(b"Subject: =?utf-8?Q?really? yes?= now\n\n").get("subject") == "really? yes now"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"text/plain; format=flowed; DelSp=Yes", b"Via \ngra now\n"),
        (b"text/plain; delsp=yes", b"> a\n>> Via \n>>  \n>> gra\n> now\n"),
        (b"text/plain; delsp=yes", b"a \n>Via \n> gra\n-- \nnow"),
        (b"text/calendar", b"SUMMARY:Via\n gra\\nnow\n"),
        (b"text/calendar", b"SUMMARY:Via\n gra\\Nnow\n"),
        (b"text/vcard", b"NOTE:Via\n\tgra now\n"),
    ],
)
@pytest.mark.parametrize("encoding", ["8bit", "base64"])
def test_folded_words_are_one(kind, body, line_end, encoding):
    label, data = ENCODINGS[encoding](body.replace(b"\n", line_end))
    raw = b"Content-Type: %b\nContent-Transfer-Encoding: %b\n\n%b" % (kind, label, data)
    assert {"Viagra", "now"} <= set(MailTokenizer().transform_one(raw))
    flowed = b"Content-Type: text/plain; format=flowed\n\nVia \ngra now\n"
    assert {"Via", "gra"} <= set(MailTokenizer().transform_one(flowed))


@pytest.mark.parametrize("kind", ["text/x-vcard", "text/vcard", "text/x-vcalendar"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("charset", ["", ";CHARSET=UTF-8", ";CHARSET=windows-1251"])
@pytest.mark.parametrize("name", ["ENCODING=QUOTED-PRINTABLE", "QUOTED-PRINTABLE"])
def test_properties_in_quoted_printable_are_decoded(name, charset, line_end, kind):
    codec = "cp1251" if "1251" in charset else "utf-8"
    digits = "".join(f"={byte:02X}" for byte in "Привет".encode(codec))
    lines = ["BEGIN:X", f"N;{name}{charset}:{digits[:9]}=", f"{digits[9:]};=", "b=3D", "NOTE:a=3D"]
    raw = f"Content-Type: {kind}\n\n" + line_end.join(lines)
    assert parse(raw.encode()).text.splitlines()[1:] == [
        f"N;{name}{charset}:Привет;b=",
        "NOTE:a=3D",
    ]


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
@pytest.mark.parametrize("kind", [b"text/plain", b"text/html"])
def test_compressed_text_is_read(kind, compress):
    head = b"Content-Type: %b\nContent-Encoding: gzip\nContent-Transfer-Encoding: base64\n\n" % kind
    raw = head + base64.encodebytes(compress(b"<p>Visible</p>\r\nwords\r\n"))
    assert parse(raw).text == "<p>Visible</p>\nwords\n"
    damaged = head + base64.encodebytes(compress(b"Visible words")[:-9])
    assert "Visible" not in parse(damaged).text


def test_compressed_parts_share_a_limit():
    bomb = base64.encodebytes(gzip.compress(bytes(600_000), mtime=0))
    head = (
        b"Content-Type: text/plain\nContent-Encoding: gzip\nContent-Transfer-Encoding: base64\n\n"
    )
    sizes = [len(part.content) for part in parse(mixed(*[head + bomb] * 5)).parts]
    assert sum(size > 500_000 for size in sizes) == 1


@pytest.mark.parametrize("content_type", [
    "html", "text\\html", "text.html", "'text/html'", "<text/html>", "txt/html", "test/html",
    "=?utf-8?q?text/html?=", "type=text/html", "text", "/html", "charset=utf-8; text/html",
    "text/htm", "text/xml", "application/xml", "application/vnd.wap.xhtml+xml",
])  # fmt: skip
def test_misspelt_types_are_read_by_the_content(content_type):
    page = "<html><body>Shown<p style='display:none'>Concealed</p></body></html>"
    tokens = set(
        MailTokenizer().transform_one(
            f"Subject: x\nContent-Type: {content_type}\n\n{page}".encode()
        )
    )
    assert {"Shown", "hidden:Concealed"} <= tokens
    assert "body" not in tokens


@pytest.mark.parametrize("name", ["b64", "base64/8bit", "binary; base64", "7bit, base64", "bas64"])
def test_base64_is_known_by_any_name(name):
    body = base64.encodebytes(b"Shown words of a longer text. " * 4)
    message = b"Content-Transfer-Encoding: %b\n\n%b" % (name.encode(), body)
    assert {"Shown", "words"} <= set(MailTokenizer().transform_one(message))


@pytest.mark.parametrize("name", ["8bit; size=1640", "7bit; x=64", "binary (64)", "8bit;64"])
def test_numbers_beside_the_name_of_an_encoding_are_not_base64(name):
    mail = parse(f"Content-Transfer-Encoding: {name}\n\nVisible\n".encode())
    assert mail.text == "Visible\n"


@pytest.mark.parametrize(
    "name", ["QP", "quopri", "quote-printable", "quoted-printeable", "x-qp", "quoted"]
)
def test_quoted_printable_is_known_by_any_name(name):
    message = f"Content-Transfer-Encoding: {name}\n\nSho=\nwn w=C3=B6rds"
    assert {"Shown", "wörds"} <= set(MailTokenizer().transform_one(message.encode()))


@pytest.mark.parametrize("cut", range(1, 24))
@pytest.mark.parametrize("kind", ["b", "q"])
def test_encoded_words_may_be_cut_anywhere(kind, cut):
    text = "Приветмир".encode()
    encoded = {"b": base64.b64encode(text).decode(), "q": "".join(f"={byte:02X}" for byte in text)}[
        kind
    ]
    cut = cut if kind == "b" else 3 * (cut % len(text))
    subject = f"=?utf-8?{kind}?{encoded[:cut]}?=\n =?utf-8?{kind}?{encoded[cut:]}?="
    assert parse(f"Subject: {subject}\n\n".encode()).get("subject") == "Приветмир"


def test_encoded_words_have_any_length():
    words = "Привет" + " мир" * 500
    encoded = base64.b64encode(words.encode()).decode()
    assert parse(f"Subject: =?utf-8?b?{encoded}?=\n\n".encode()).get("subject") == words


@pytest.mark.parametrize("encoding", ["8bit", "base64"])
@pytest.mark.parametrize(
    "kind",
    [
        "application/octet-stream",
        "application/eml",
        "application/x-mimearchive",
        "message/x-rfc822",
    ],
)
@pytest.mark.parametrize("name", ["a.eml", "Fwd.EML", "page.mht"])
def test_attached_files_of_messages_are_read_as_messages(name, kind, encoding):
    inner = b"Subject: inner\nContent-Type: text/html\n\n<p>Shown</p>\n"
    body = base64.encodebytes(inner) if encoding == "base64" else inner
    message = (
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
        b"Content-Type: %b; name=%b\nContent-Transfer-Encoding: %b\n\n%b\n--b--"
        % (kind.encode(), name.encode(), encoding.encode(), body)
    )
    tokens = set(MailTokenizer().transform_one(message))
    assert "Shown" in tokens
    assert "p" not in tokens


@pytest.mark.parametrize("name", ["a.eml", "a.mht"])
@pytest.mark.parametrize(
    "content", [b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"%PDF-1.7\n\xff\xfe", b"\0\1\2\3" * 100]
)
def test_other_files_with_the_name_of_a_message_are_attachments(content, name):
    mail = parse(
        b"Content-Type: application/octet-stream; name=%b\nContent-Transfer-Encoding: base64\n\n%b"
        % (name.encode(), base64.encodebytes(content))
    )
    assert [(part.content_type, part.filename) for part in mail.parts] == [
        ("application/octet-stream", name)
    ]


@pytest.mark.parametrize("tail", ["", " a", "\n a", "\n =?utf-8?b?IGE=?="])
@pytest.mark.parametrize("end", ["", "?"])
@pytest.mark.parametrize(
    "word", ["=?utf-8?B?R3LDvMOfZQ==", "=?utf-8?B?R3LDvMOfZQ", "=?utf-8?q?Gr=C3=BC=C3=9Fe"]
)
def test_encoded_words_without_their_end_end_at_a_blank(word, end, tail):
    subject = parse(f"Subject: {word}{end}{tail}\n\n".encode()).get("subject")
    assert subject == "Grüße" + " a" * bool(tail)


@pytest.mark.parametrize("text", ["a = b", "x=_= y", "1 + 1 = 2"])
def test_equals_signs_in_words_are_text(text):
    assert decode_words(f"=?utf-8?q?{text}?=".encode()) == text.replace("_", " ")


def test_a_sign_before_a_word_of_base64_keeps_its_place():
    assert decode_words(b"=?utf-8?q?1_+_1_=?= =?utf-8?b?IDI=?=") == "1 + 1 = 2"


@pytest.mark.parametrize("mark", ["b", '"b"'])
def test_the_first_boundary_may_follow_the_header_at_once(mark):
    message = f"Content-Type: multipart/mixed; boundary={mark}\nSubject: x\n--b\n"
    message += "Content-Type: text/html\n\n<p>Shown</p>\n--b--\n"
    tokens = set(MailTokenizer().transform_one(message.encode()))
    assert {"subject:x", "Shown"} <= tokens
    assert not {"p", "damaged:b"} & tokens


@pytest.mark.parametrize("size", [700_000, 5_000_000])
def test_a_huge_header_does_not_hide_the_body(size):
    field = "X-Filler: " + "a b " * (size // 4)
    message = f"{field}\nSubject: hi\nContent-Type: text/html\n\n<p>Shown</p>\n"
    assert {"subject:hi", "Shown"} <= set(MailTokenizer().transform_one(message.encode()))


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be"])
def test_files_in_utf16_are_read(codec):
    mark = "" if codec == "utf-16" else "\ufeff"
    message = f"{mark}Subject: hi\r\n\r\nShown\r\n".encode(codec)
    assert parse(message).get("subject") == "hi"
    assert parse(message).text == "Shown\n"


def test_a_wrapper_within_a_wrapper_is_content_to_every_reader():
    message = b"\0\xfe\xff" + "Subject: hi\n\nShown".encode("utf-16-be")
    for view in (MailTokenizer(), ByteGrams(), WordPairs()):
        assert view.count(parse(message)) == view.count(message)


@pytest.mark.parametrize("kind", ["enriched", "richtext"])
def test_tags_of_enriched_text_are_not_words(kind):
    message = f"Content-Type: text/{kind}\n\n<bold>Sho<italic>wn</italic></bold>"
    tokens = set(MailTokenizer().transform_one(message.encode()))
    assert "Shown" in tokens
    assert "bold" not in tokens


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("enriched", "<color><param>red</param>Sho</color>wn <<b> &amp; <FontFamily><Param>Times</Param>a"),
        ("richtext", "<comment>red Times</comment>Shown <lt>b> &amp;<nl>a"),
    ],
)  # fmt: skip
def test_parameters_of_enriched_text_are_hidden(kind, body):
    tokens = set(MailTokenizer().transform_one(f"Content-Type: text/{kind}\n\n{body}".encode()))
    assert {"Shown", "b", "amp", "a", "hidden:red", "hidden:Times"} <= tokens
    assert not {"red", "Times", "comment"} & tokens


RTF_COLOURS = (
    rb"{\rtf1{\colortbl;\red255\green255\blue255;\red255\green0\blue0;"
    + b"\n"
    + rb"\red0 \green0\blue0;}"
)


@pytest.mark.parametrize(
    ("rtf", "words"),
    [
        (rb"{\rtf1\ansi{\fonttbl{\f0 Arial;}}\pard\f0 Sh\b o\b0 wn\par}", "Shown"),
        (rb"{\rtf1\ansi Sh" + b"\n" + rb"own\tab\u228?rger}", "Shown ärger"),
        (rb"{\rtf1\ansi\ansicpg1251{\info{\author Me}}\'ef\'f0\'e8\'e2\'e5\'f2{\*\x Me}}", "привет"),
        (rb'{\rtf1{\field{\*\fldinst{HYPERLINK "http://a.example/"}}{\fldrslt Shown}}}', "Shown url:a.example"),
        (rb"{\rtf1\fromhtml1{\*\htmltag <p>}\htmlrtf Shown\htmlrtf0 }", "Shown"),
        (b"No RTF\nShown <there>", "Shown there"),
        (rb"{\rtf1 Shown {\v Unseen }\v Un\'e4een{\v0  Shown2 }\plain Shown3}", "Shown Shown2 Shown3 hidden:Unseen hidden:Unäeen"),
        (rb"{\rtf1 \v Unseen\v0 Shown <b & \'3c\u60?there}", "hidden:Unseen Shown b there"),
        (rb'{\rtf1{\field{\*\fldinst { HYPER}{LINK "http://a.example/Way" \\\\o "Unseen"}}{\fldrslt Shown}}}', "Shown url:a.example"),
        (rb'{\rtf1{\field{\*\fldinst\plain INCLUDEPICTURE mailto:me@a.example}{\fldrslt{\v0 Shown}}}}', "Shown a.example"),
        (rb"{\rtf1\fromhtml1{\*\htmltag <p>}{\v Unseen}Shown}", "Shown hidden:Unseen"),
        (rb"{\rtf1{\colortbl\red0\green0\blue0;}Shown \cf0\cb0 Shown2}", "Shown Shown2"),
        (RTF_COLOURS + rb"Shown {\cf1 Unseen} Shown2 {\cf2 Shown3}}", "Shown hidden:Unseen Shown2 Shown3"),
        (RTF_COLOURS + rb"{\highlight2\cf2 Unseen}{\cb3\cf1 Shown}{\chcbpat1\cf1 Unseen}}", "Shown hidden:Unseen"),
        (RTF_COLOURS + rb"\cf1 Unseen\plain Shown {\fs2 Unseen\fs24 Shown2 }\cf9\cb8 Shown3}", "hidden:Unseen Shown Shown2 Shown3"),
    ],
)  # fmt: skip
def test_words_of_rtf_are_read_without_its_controls(rtf, words):
    tokens = set(
        MailTokenizer().transform_one(b"Content-Type: text/rtf; charset=us-ascii\n\n" + rtf)
    )
    assert set(words.split()) <= tokens
    unshown = "rtf pard ansi Arial Me fldrslt Unseen Unäeen HYPERLINK HYPER LINK INCLUDEPICTURE"
    assert not set(unshown.split()) & tokens


ARMOR = """-----BEGIN PGP %s-----
Version: GnuPG v2

jA0EBwMCFRkKp3SGcaZgyekbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
jA0EBwMCFRkKp3SGcaZgyekcccccccccccccccccccccccccccccccccccccccccc
Kp3SGcaZgyek
=abcd
-----END PGP %s-----
"""


@pytest.mark.parametrize("prefix", ["", "> ", ">", "> > "])
@pytest.mark.parametrize("kind", ["MESSAGE", "SIGNATURE", "PUBLIC KEY BLOCK"])
@pytest.mark.parametrize("encoding", ["8bit", "qp", "base64"])
def test_data_of_pgp_in_text_is_not_words(encoding, kind, prefix):
    block = "".join(prefix + line for line in (ARMOR % (kind, kind)).splitlines(keepends=True))
    label, body = ENCODINGS[encoding](f"Shown\n{block}last\n".encode())
    tokens = MailTokenizer().transform_one(b"Content-Transfer-Encoding: %b\n\n%b" % (label, body))
    assert {"Shown", "last", "PGP", "GnuPG"} <= set(tokens)
    assert not [word for word in tokens if "jA0EB" in word or "Kp3SG" in word or "abcd" in word]


@pytest.mark.parametrize(
    "text", ["cheap pills\nbuy now\n", "-----BEGIN PGP MESSAGE-----\n\ncheap pills buy now\n", "cheap\npills\nbuy\nnow\n"]
)  # fmt: skip
def test_text_between_the_lines_of_pgp_is_read(text):
    armor = f"-----BEGIN PGP MESSAGE-----\n\n{text}-----END PGP MESSAGE-----\n"
    tokens = MailTokenizer().transform_one(b"Subject: x\n\n" + armor.encode())
    assert {"cheap", "pills", "buy", "now"} <= set(tokens)


@pytest.mark.parametrize(
    ("content", "is_read"),
    [
        (ARMOR % ("MESSAGE", "MESSAGE"), False), (ARMOR % ("SIGNATURE", "SIGNATURE"), False),
        ("-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA1\n\nShown\n", True), ("Shown\n", True),
    ],
)  # fmt: skip
def test_an_encrypted_file_is_no_text(content, is_read):
    kind = b"Content-Type: application/octet-stream; name=encrypted.asc\n\n"
    tokens = MailTokenizer().transform_one(mixed(kind + content.encode()))
    assert ("Shown" in tokens, "PGP" in tokens) == (is_read, "SIGNED" in content)


@pytest.mark.parametrize("joint", [" ", "; ", ";\n\t"])
@pytest.mark.parametrize("encoding", ["base64", "qp"])
def test_fields_on_one_line_are_both_read(encoding, joint):
    label, body = ENCODINGS[encoding](b"Visible words=\n here " * 3)
    raw = b'Content-Type: text/plain; charset="utf-8"%bContent-Transfer-Encoding: %b\n\n%b' % (
        joint.encode(),
        label,
        body,
    )
    assert {"Visible", "words"} <= set(MailTokenizer().transform_one(raw))


@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("blanks", ["\n", "\n\n", " \n", "\t\n \n"])
@pytest.mark.parametrize("first", ["", "Organization: a\n b\nPath: c\n"])
def test_blank_lines_before_the_header_are_skipped(first, blanks, line_end):
    text = first + "From: a@b\nSubject: x\nContent-Type: text/html\n\n<p>Visible</p>\n"
    raw = (blanks + text).encode().replace(b"\n", LINE_ENDS[line_end])
    whole = text.encode().replace(b"\n", LINE_ENDS[line_end])
    assert unwrap(raw) == text.encode()
    assert digest(raw) == digest(whole)
    forwarded = mixed(b"Content-Type: message/rfc822\n\n" + (blanks + text).encode())
    tokens = set(MailTokenizer().transform_one(forwarded))
    assert "Visible" in tokens
    assert "p" not in tokens


@pytest.mark.parametrize(
    "text", ["\nDear: x\n", "\nDear: x\n\nFrom: x\n", "\nhttp://a.example/\n", " From: x\n"]
)
def test_blank_lines_before_text_without_a_header_stay(text):
    assert parse(text.encode()).fields == []


@pytest.mark.parametrize("kind", ["text/rfc822-headers", "message/global-headers"])
def test_the_header_of_a_returned_message_is_read_as_one(kind):
    raw = mixed(b"Content-Type: %b\n\nSubject: =?utf-8?q?h=C3=A9llo?=\n" % kind.encode())
    assert "subject:héllo" in MailTokenizer().transform_one(raw)


@pytest.mark.parametrize("kind", [
    "delivery-status", "global-delivery-status", "disposition-notification", "feedback-report",
])  # fmt: skip
def test_reports_are_text(kind):
    raw = mixed(b"Content-Type: message/%b\n\nReason: mailbox full\n" % kind.encode())
    assert {"mailbox", "full"} <= set(MailTokenizer().transform_one(raw))


def test_an_invitation_of_another_type_is_a_calendar():
    raw = mixed(b"Content-Type: application/ics; name=invite.ics\n\nSUMMARY:Meet\n ing\n")
    assert "Meeting" in MailTokenizer().transform_one(raw)


@pytest.mark.parametrize("text", ["Visible ÿÿÿ~~~ þþþ???>>> words " * 5, "Visible words"])
def test_base64_may_have_the_alphabet_of_addresses(text):
    data = base64.urlsafe_b64encode(text.encode())
    lines = b"\n".join(data[start : start + 76] for start in range(0, len(data), 76))
    raw = b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\n" + lines
    assert parse(raw + b"\n").text == text


@pytest.mark.parametrize("line", [b"_" * 60, b"-" * 60, b"Death--" * 8, b"in_our-list"])
def test_signs_after_base64_are_not_letters(line):
    raw = b"Content-Transfer-Encoding: base64\n\n%b%b\n"
    assert parse(raw % (base64.encodebytes(b"Visible words" * 9), line)).text.endswith(
        "\n" + line.decode()
    )


def uuencoded(name: bytes, data: bytes) -> bytes:
    lines = (binascii.b2a_uu(data[start : start + 45]) for start in range(0, len(data), 45))
    return b"begin 644 %b\n%b`\nend\n" % (name, b"".join(lines))


@pytest.mark.parametrize("line_end", ["LF", "CRLF"])
def test_uuencoded_files_in_a_text_are_attachments(line_end):
    page = uuencoded(b"page.htm", b"<html><body>Visible words of the page</body></html>")
    image = uuencoded(b"x.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    raw = b"Subject: s\n\nBefore\n" + page + b"between\n" + image + b"After\n"
    mail = parse(raw.replace(b"\n", LINE_ENDS[line_end]))
    assert mail.parts[0].text == "Before\nbetween\nAfter\n"
    assert [part.filename for part in mail.parts[1:]] == ["page.htm", "x.png"]
    assert [part.read_as for part in mail.parts[1:]] == ["text/html", ""]
    assert mail.parts[1].text.startswith("<html><body>Visible words")
    assert mail.parts[2].content.startswith(b"\x89PNG\r\n")


@pytest.mark.parametrize("text", [
    b"begin 644 of them\nMany words\nend\n", b"begin 644 a\nMANY\n", b"begin\nend\n",
    b"begin 644 a\n" * 1000, b"begin 644 a\n#0V%T\nBuy cheap pills\nend\n", b"begin 644 a\n#0V%T\nBUY CHEAP PILLS\n`\nend\n",
    b"begin 644 a\n#0V%T\nBUY CHEAP VIAGRA AND CIALIS NOW, 90% OFF\nGET IT AT WWW.EXAMPLE.COM/PILLS TODAY\nBUY CHEAP VIAGRA AND CIALIS NOW, 90% OFF\nend\n",
])  # fmt: skip
def test_text_that_only_begins_like_a_file_stays_text(text):
    [part] = parse(b"Subject: s\n\n" + text).parts
    assert part.text.encode() == text


def test_blanks_at_the_ends_of_a_file_s_lines_can_be_missing():
    lines = (
        uuencoded(b"x.bin", b"abc" * 15 + bytes(45) + b"abc" * 15).replace(b"`", b" ").split(b"\n")
    )
    raw = b"Subject: s\n\nBefore\n" + b"\n".join(line.rstrip() for line in lines)
    assert [part.filename for part in parse(raw).parts] == ["", "x.bin"]


def test_a_file_of_zeros_is_a_file():
    zeros = uuencoded(b"x.bin", b"abc" * 15 + bytes(90) + b"abc" * 15 + bytes(5)).replace(
        b"`", b" "
    )
    assert [part.filename for part in parse(b"Subject: s\n\n" + zeros).parts] == ["", "x.bin"]


def test_files_in_text_leave_room_for_the_next_parts():
    parts = [uuencoded(b"x.bin", b"abc") * 100] * 20 + [b"Last words\n"]
    raw = b"Content-Type: multipart/mixed; boundary=b\n\n" + b"".join(
        b"--b\n\n" + part for part in parts
    )
    assert "Last words" in parse(raw).text


def test_files_in_text_are_bounded_in_number():
    files = uuencoded(b"x.bin", b"abc") * 90
    boundary = b"Content-Type: multipart/mixed; boundary=b\n\n"
    raw = boundary + b"".join(b"--b\n\n" + files for _ in range(90))
    mail = parse(raw)
    assert len(mail.parts) <= DEFAULT_LIMITS.parts + 1
    assert "begin 644 x.bin" in mail.text


def test_an_encoded_byte_may_be_cut_between_words():
    for cut in range(7):
        encoded = "p=C5=99"
        subject = f"=?UTF-8?Q?{encoded[:cut]}?=\n =?UTF-8?Q?{encoded[cut:]}idal?= x"
        assert parse(f"Subject: {subject}\n\n".encode()).get("subject") == "přidal x"


@pytest.mark.parametrize(
    ("parameter", "name"),
    [
        ('filename*0="=?UTF-8?Q?a_=C3=B6?= =?UTF-8?Q?=C3";\n\tfilename*1="=A9.doc?="', "a öé.doc"),
        ('filename="a%20%C3%B6.pdf"', "a ö.pdf"),
        ('filename="100%.pdf"', "100%.pdf"),
        ('filename="%E9.pdf"', "%E9.pdf"),
        ("filename=a long name.pdf; size=3", "a long name.pdf"),
        ("filename=a long\n name.pdf", "a long name.pdf"),
        ("filename=a.pdf size=3", "a.pdf"),
    ],
)
def test_names_of_files_are_read_as_mail_programs_do(parameter, name):
    raw = mixed(f"Content-Type: application/pdf\nContent-Disposition: x; {parameter}\n\nx".encode())
    assert parse(raw).parts[-1].filename == name


@pytest.mark.parametrize("tag", [
    "<meta http-equiv=refresh content='0;url=http://a.example/evil'>",
    '<div style="background:url(\'http://a.example/evil\')">',
    '<img srcset="http://b.example/x 1x, http://a.example/evil 2x">',
    "<button formaction=http://a.example/evil>", "<video poster=http://a.example/evil>",
])  # fmt: skip
def test_web_addresses_in_all_attributes_are_read(tag):
    raw = b"Content-Type: text/html\n\n" + tag.encode()
    assert {"url:a.example", "url:evil"} <= set(MailTokenizer().transform_one(raw))


@pytest.mark.parametrize("value", ["table-column", "table-column-group", "none"])
def test_elements_without_a_box_hide_their_text(value):
    page = f"<div style='display:{value}'>Concealed</div>Visible"
    tokens = set(MailTokenizer().transform_one(f"Content-Type: text/html\n\n{page}".encode()))
    assert {"hidden:Concealed", "Visible"} <= tokens


@pytest.mark.parametrize("encoding", ["8bit", "qp", "base64"])
@pytest.mark.parametrize("page", [b"<html><p>Visible</p></html>", b"<x-html>\n<p>Visible</p>\n"])
def test_a_page_in_place_of_the_parts_is_read_as_a_page(page, encoding):
    label, body = ENCODINGS[encoding](page)
    head = b"Content-Type: multipart/alternative; boundary=b\nContent-Transfer-Encoding: %b\n\n%b"
    tokens = set(MailTokenizer().transform_one(head % (label, body)))
    assert "Visible" in tokens
    assert "p" not in tokens


def test_words_that_are_encoded_twice_are_decoded_twice():
    inner = "=?Windows-1252?Q?caf=E9_menu?="
    for outer in (
        f"=?utf-8?b?{base64.b64encode(inner.encode()).decode()}?=",
        "=?utf-8?q?=3D=3FWindows-1252=3FQ=3Fcaf=3DE9=5Fmenu=3F=3D?=",
    ):
        assert parse(f"Subject: {outer}\n\n".encode()).get("subject") == "café menu"


def test_the_style_of_all_amp_pages_hides_nothing():
    style = "<style amp4email-boilerplate>body{visibility:hidden}</style><style>.x{display:none}</style>"
    page = f"<html>{style}<body>Visible<p class=x>Concealed</p></body></html>"
    for kind, token in (("x-amp-html", "Visible"), ("html", "hidden:Visible")):
        tokens = MailTokenizer().transform_one(f"Content-Type: text/{kind}\n\n{page}".encode())
        assert {token, "hidden:Concealed"} <= set(tokens)


def test_a_drawing_is_read_as_a_page():
    drawing = b"<svg><a href='http://evil.example/'><text>Visible</text></a></svg>"
    raw = mixed(b"Content-Type: image/svg+xml; name=a.svg\n\n" + drawing)
    assert {"Visible", "url:evil.example"} <= set(MailTokenizer().transform_one(raw))


def test_ukrainian_letters_are_read_with_and_without_a_label():
    text = "Привіт! Запрошуємо вас на зустріч у понеділок, їжте ґречку."
    for label in (b"", b"; charset=koi8-r", b"; charset=koi8-u"):
        raw = b"Content-Type: text/plain%b\n\n%b" % (label, text.encode("koi8-u"))
        assert parse(raw).text == text


def test_a_backslash_ends_the_host_of_an_address():
    raw = b"Content-Type: text/html\n\n<a href='http:\\\\evil.example\\path'>x</a>"
    assert {"url:evil.example", "url:path"} <= set(MailTokenizer().transform_one(raw))


def ber(tag: int, content: bytes, is_definite: bool = True) -> bytes:
    """Return an element of BER, with its length or with an end mark."""
    if not is_definite:
        return bytes((tag, 0x80)) + content + b"\0\0"
    size = len(content).to_bytes(3, "big") if len(content) > 127 else bytes((len(content),))
    return bytes((tag,)) + (b"\x83" if len(size) > 1 else b"") + size + content


def signature(entity: bytes, is_definite: bool, chunk: int) -> bytes:
    """Return the outline of an opaque S/MIME signature."""
    chunks = [ber(4, entity[i : i + chunk]) for i in range(0, len(entity), chunk)]
    octets = chunks[0] if len(chunks) == 1 else ber(0x24, b"".join(chunks), is_definite)
    data = bytes.fromhex("06092a864886f70d010701") + ber(0xA0, octets, is_definite)
    certificates = ber(0xA0, ber(0x30, b"certificate" * 50))
    signed = b"\2\1\1" + ber(0x31, b"") + ber(0x30, data, is_definite) + certificates
    kind = bytes.fromhex("06092a864886f70d010702")
    return ber(0x30, kind + ber(0xA0, ber(0x30, signed, is_definite), is_definite), is_definite)


@pytest.mark.parametrize("chunk", [20, 1000])
@pytest.mark.parametrize("is_definite", [True, False])
@pytest.mark.parametrize("line_end", ["LF", "CRLF"])
def test_the_content_of_an_opaque_signature_is_read(line_end, is_definite, chunk):
    entity = mixed(b"Content-Type: text/html\n\n<p>Visible</p>\n", part("utf-8", "base64"))
    data = signature(entity.replace(b"\n", LINE_ENDS[line_end]), is_definite, chunk)
    for content_type in (
        b"application/pkcs7-mime; smime-type=signed-data",
        b'application/octet-stream; name="smime.P7M"',
    ):
        mail = parse(b"Subject: s\n" + encoded(data, content_type, b"base64"))
        assert mail.defects == []
        tokens = set(MailTokenizer().transform_one(mail))
        assert {"Visible", *WORDS.split()} <= tokens
    assert not {"p", "certificate"} & tokens
    for size in range(0, len(data), 7):  # no damage raises an error
        parse(b"Content-Type: application/pkcs7-mime\n\n" + data[:size])
