"""Texts, pages, headers and whole mails: scanners compared with their definitions."""

import email
import email.policy
import io
import itertools
import re
import string
import time
import unicodedata
from email.message import EmailMessage
from pathlib import Path

from definitions import slow_nested, slow_pairs, slow_words
from fuzz.target import Choices, Target
from hops import ENCODERS, compose, send
from hostile import hostile, passed_on

from streamnb import MailTokenizer
from streamnb._core import Scanner, decode_name, encode_name, fingerprint, split_header
from streamnb.features.grams import ByteGrams, WordPairs
from streamnb.mail import parse
from streamnb.mail.normalization import normalize_nfc
from streamnb.mailbox.digest import digest
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.response import Response, header_field

__all__ = ["TARGETS", "mails"]


def mails(most: int = 1 << 14) -> list[bytes]:
    """Return the sample and the hostile mails, up to the maximum size."""
    sample = Path(__file__).parents[2] / "corpora" / "sample" / "data"
    files = sorted(sample.iterdir())[::12]
    return [
        raw[:most] for raw in [f.read_bytes() for f in files] + [*hostile(large=False).values()]
    ]


OPTIONS = (
    {"inner": "'-.$!"},
    {"inner": "'-.$!", "casefold": False},
    {"inner": "-", "urls": True, "binary": True},
    {"ngrams": (1, 3), "urls": True, "keep_names": False},
    {"by_character": True, "ngrams": (1, 4)},
    {"by_character": True, "ngrams": (3, 3), "casefold": False, "binary": True},
    {"min_length": 2, "max_length": 5, "stop": ["the", "ab"]},
    {"ngrams": (2, 2), "max_length": 10**6, "inner": string.punctuation},
    {"inner": "'", "sublinear": True},
)
# Two scanners for each: the second one has read other texts, which must change nothing.
SCANNERS = [(Scanner(**options), Scanner(**options)) for options in OPTIONS]


def _sound(counted: tuple, most: float) -> None:
    """Check that features are distinct, have names, and are not too many."""
    fingerprints, counts, names, ends = counted[0].tolist(), counted[1].tolist(), *counted[2:]
    assert len(set(fingerprints)) == len(fingerprints) == len(counts)
    assert min(counts, default=1) > 0
    assert sum(counts) <= most
    if names is not None:
        spans = [0, *ends.tolist()]
        assert spans == sorted(spans)
        assert spans[-1] == len(names)
        for f, (a, b) in zip(fingerprints[:4], itertools.pairwise(spans), strict=False):
            decoded = decode_name(names[a:b])
            if "\ufffd" not in decoded:  # the replacement of bytes that are not text
                assert fingerprint(decoded) == f


def _equal(first_scanner: tuple, other: tuple) -> None:
    assert first_scanner[0].tobytes() == other[0].tobytes()
    assert first_scanner[1].tobytes() == other[1].tobytes()
    assert first_scanner[2] == other[2]


def _scan(data: bytes, html: bool) -> None:
    choice = Choices(data)
    number = choice.below(len(OPTIONS))
    options = OPTIONS[number]
    if html and options.get("by_character"):
        return  # no tokenizer has these options
    prefix = (b"", b"p:")[choice.below(2)]
    text = choice.remaining_bytes()
    first_scanner, other = SCANNERS[number]
    (first_scanner.html if html else first_scanner.text)(text, prefix)
    counted = first_scanner.finish()
    first, last = options.get("ngrams", (1, 1))
    sizes = last - first + 1
    _sound(counted, (len(text) + 1) * sizes * (3 if options.get("urls") else 1))
    other.text(text[::-1], b"q:")
    other.discard()
    try:
        decoded: str | bytes = text.decode()
    except UnicodeDecodeError:
        decoded = text
    (other.html if html else other.text)(decoded, prefix)
    _equal(counted, other.finish())
    if html and b"<" not in text and b"&" not in text:
        other.text(text, prefix)
        _equal(counted, other.finish())
    if not html and number == 1 and not prefix and len(text) < 200 and isinstance(decoded, str):
        if not unicodedata.is_normalized("NFC", decoded):
            return
        _, counts, names, ends = counted
        tokens = [names[a:b].decode() for a, b in itertools.pairwise([0, *ends.tolist()])]
        wanted = slow_words(decoded)
        assert dict(zip(tokens, counts.tolist(), strict=True)) == {
            w: wanted.count(w) for w in wanted
        }


def words(data: bytes) -> None:
    _scan(data, html=False)


def pages(data: bytes) -> None:
    _scan(data, html=True)


NEEDED_FIELDS = b"content-type content-transfer-encoding content-disposition message-id date from subject to cc reply-to".split()


def slow_header(data: bytes, start: int, end: int, limit: int) -> tuple:
    """Return the result of `split_header`, computed line by line."""
    fields: list[list] = []  # name, begin and end of its value
    damaged: list[list[int]] = []  # begin and end of a line with its continuations
    current: list | None = None
    is_cut, position = False, start
    while position < end and data[position : position + 1] != b"\n":
        newline = data.find(b"\n", position, end)
        stop, following = (end, end) if newline < 0 else (newline, newline + 1)
        line = data[position:stop]
        if line[:1] in (b" ", b"\t"):
            if current is not None:
                current[-1] = stop if len(current) == 3 else following
        elif (match := re.match(rb"(?:\0|\xef\xbb\xbf)*+([!-9;-~]+)([ \t]*):[ \t]*", line)) and (
            not match[2] or data.find(b"\n\n", position, end) >= 0
        ):
            is_cut = is_cut or len(fields) >= limit
            current = [match[1], position + match.end(), stop]
            if not is_cut or match[1].lower() in NEEDED_FIELDS:
                fields.append(current)
        elif not match and line.startswith((b"From ", b">From ")):
            current = None
        elif data.find(b"\n\n", position, end) < 0:
            break
        else:
            current = [position, following]
            damaged.append(current)
        position = following
    readable = [(name, data[begin:last]) for name, begin, last in fields]
    index: dict[bytes, bytes] = {}
    repeated: list[tuple[bytes, bytes]] = []
    listed: list[tuple[bytes, bytes]] = []
    for name, value in readable:
        if len(listed) < limit or name.lower() not in index:
            listed.append((name, value))
        if name.lower() not in index:
            index[name.lower()] = value
        elif re.match(rb"(?i)content-.", name):
            repeated.append((name.lower(), value))
    lines = [data[begin:last] for begin, last in damaged[:limit]]
    if lines and not readable and not is_cut:
        return [], {}, [], start, [], False
    return listed, index, repeated[:8], position, lines, is_cut


def header(data: bytes) -> None:
    choice = Choices(data)
    limit, start, short = choice.below(256), choice.below(16), choice.below(16)
    text = choice.remaining_bytes()
    start = min(start, len(text))
    end = max(start, len(text) - short)
    assert split_header(text, start, end, limit) == slow_header(text, start, end, limit)


_BODY = MailTokenizer(part="body")
_ENCODINGS = sorted(ENCODERS)


def hops(data: bytes) -> None:
    """Send a message through hops: its digest and the tokens of its text stay the same."""
    choice = Choices(data)
    encoding, line_end = _ENCODINGS[choice.below(3)], choice.below(4)
    actions = [(choice.below(5), choice.below(64)) for _ in range(choice.below(8))]
    subject = b" ".join(re.findall(rb"[!-~]+", choice.take_some()))
    leaves = []
    for _ in range(choice.below(3) + 1):
        # Text of mail: complete lines of UTF-8, and no line that ends the header early.
        text = choice.take_some().decode("utf-8", "ignore").encode().replace(b"\r", b"")
        text = re.sub(rb"[\0-\x08\x0b-\x1f]|--=_", b"", text).strip(b"\n")
        subtype = (b"plain", b"html")[choice.below(2)]
        # Quoting "From " within a tag or a word, where an encoded line begins, changes the text.
        pattern = rb"From " if subtype == b"html" else rb"(?<=[^\s>])From "
        text = re.sub(pattern, b"from ", text)
        leaves.append((subtype, b"Hi\n" + text + b"\n.\n"))
    fields = [(b"From", b"Ann <ann@example.org>"), (b"Subject", subject or b"hi")]
    original = compose((fields, leaves))
    received = send((fields, leaves), encoding, actions, line_end)
    assert digest(received) == digest(original), received
    assert _BODY.transform_one(received) == _BODY.transform_one(original), received


GRAMS = {
    (n, step): ByteGrams(n, first=1000, casefold=False, mail=False, step=step)
    for n, step in ((6, 2), (4, 2), (3, 1), (2, 2), (6, 3))
}
PLAIN = {n: ByteGrams(n, first=1000, mail=False) for n in range(1, 9)}


def grams(data: bytes) -> None:
    """Check that n-grams and nested n-grams follow their definition."""
    choice = Choices(data)
    kind = choice.below(13)
    text = choice.remaining_bytes()
    if kind < 8:
        tokenizer = PLAIN[kind + 1]
        lowered = text[:1000].lower()
        counted = tokenizer.count(text)
        tokens = {tokenizer.name(f) for f in counted.fingerprints.tolist()}
        assert tokens == {lowered[i : i + kind + 1] for i in range(len(lowered) - kind)}
        assert len(tokens) == len(counted.counts)
        assert (counted.counts == 1).all()
    else:
        n, step = list(GRAMS)[kind - 8]
        assert GRAMS[n, step].transform_one(text) == slow_nested(text[:1000], n, step)


PAIRS = {most: WordPairs(first=most, mail=False) for most in (1, 7, 4000)}


def pairs(data: bytes) -> None:
    choice = Choices(data)
    most = (1, 7, 4000)[choice.below(3)]
    text = choice.remaining_bytes()
    counted = PAIRS[most].count(text)
    ends = counted.ends.tolist()
    names = [counted.names[a:b] for a, b in itertools.pairwise([0, *ends])]
    assert set(names) == slow_pairs(normalize_nfc(text), most)
    assert len(names) == len(set(names))
    assert (counted.counts == 1).all()


def names(data: bytes) -> None:
    """Check that any bytes have a display name, and written names are read back."""
    name = decode_name(data)
    try:
        written = encode_name(name)
    except ValueError:
        return  # tuples nested too deep
    assert decode_name(written) == name


READERS = [MailTokenizer(), MailTokenizer(ngrams=(1, 2), keep_names=False), ByteGrams(6, step=2),
           WordPairs()]  # fmt: skip
# Bounds of the time of a message, with sanitizers and on a busy machine.
LEAST, EACH = 0.05, 40e-6  # seconds, and seconds for each byte


def _cost(data: bytes) -> float:
    begun = time.process_time()
    parsed = parse(data)
    for reader in READERS:
        reader.count(parsed)
    return time.process_time() - begun


def mail(data: bytes) -> None:
    """Check that any bytes are a mail, read in linear time, with any line ends."""
    parsed = parse(data)
    for _, value in parsed.headers:
        value.encode("utf-8")
    for part in parsed.parts:
        part.text.encode("utf-8")
        part.filename.encode("utf-8")
    for reader in READERS:
        counted = reader.count(parsed)
        assert (counted.counts > 0).all()
        assert len(set(counted.fingerprints.tolist())) == len(counted)
        assert counted.counts.sum() <= 40 * len(data) + 100
        assert reader.count(data) == counted
    bound = LEAST + EACH * len(data)
    assert any(_cost(data) < bound for _ in range(3)), "it takes long"
    if b"\r" not in data:
        assert digest(data.replace(b"\n", b"\r\n")) == digest(data)
        texts = [part.text for part in parse(data.replace(b"\n", b"\r\n")).parts]
        assert texts == [part.text for part in parsed.parts]


ANSWER = Response("S", 0, 1.0, "spam", 0.9, [])
FIELD = header_field(ANSWER).encode()


def passed(data: bytes) -> None:
    """Check that passing on adds our field only, and passing on twice changes nothing more."""
    target = io.BytesIO()
    assert pass_through(io.BytesIO(data), target, lambda _: ANSWER) is None
    out = target.getvalue()
    assert out == passed_on(data, FIELD)
    second = io.BytesIO()
    assert pass_through(io.BytesIO(out), second, lambda _: ANSWER) is None
    if b"\n" in data or not data.endswith(b"\r"):  # otherwise it would be half of a line end
        assert second.getvalue() == out
    # Our field makes a header where there is none. To the digest, a header without its empty line ends
    # at a line that is no field, and a bare CR ends no line.
    is_header = re.match(rb"[!-9;-~]+:", data) and re.search(rb"\n\r?\n", data)
    if is_header and not re.search(rb"\r(?!\n)", data):
        assert digest(out) == digest(data)
    unmarked = io.BytesIO()

    def fails(_: bytes) -> Response:
        raise RuntimeError

    assert isinstance(pass_through(io.BytesIO(data), unmarked, fails), RuntimeError)
    assert unmarked.getvalue() == passed_on(data)


def _text_of(choice: Choices) -> str:
    raw = choice.take_some().decode("utf-8", "ignore").replace("=?", "=")
    return "".join(
        c for c in raw if unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") or c == "\n"
    )


ENCODINGS = ("base64", "quoted-printable", None)


def _written(choice: Choices, depth: int = 0) -> EmailMessage:
    """Return a message written by the standard library."""
    message = EmailMessage(policy=email.policy.SMTP)
    if depth == 0:
        message["Subject"] = " ".join(_text_of(choice).split())
    body = _text_of(choice)
    kind = choice.below(4)
    subtype = ("plain", "html")[choice.below(2)]
    message.set_content(body, subtype=subtype, cte=ENCODINGS[choice.below(3)])
    if kind == 1:
        message.add_alternative(_text_of(choice), subtype="html", cte=ENCODINGS[choice.below(3)])
    if kind == 2 and depth < 3:
        message.add_attachment(_written(choice, depth + 1))
    if kind == 3:
        name = re.sub(r"\W", "", _text_of(choice)) or "x"
        message.add_attachment(choice.take_some(), "application", "pdf", filename=name)
    return message


def well_formed(data: bytes) -> None:
    """Check that the reader and the standard library agree on mail that the library wrote."""
    try:
        raw = _written(Choices(data)).as_bytes()
    except (ValueError, LookupError, UnicodeError, IndexError, TypeError):
        return  # the library does not write this
    library = email.message_from_bytes(raw, policy=email.policy.default)
    mail = parse(raw)
    subject = unicodedata.normalize("NFC", str(library["Subject"]))
    assert unicodedata.normalize("NFC", mail.get("subject")).split() == subject.split()
    texts = [part.text for part in mail.parts if part.role == "body" and part.is_text]
    wanted = [
        part.get_payload(decode=True)
        .decode(part.get_content_charset("utf-8"), "replace")
        .removeprefix("\ufeff")  # a byte order mark is not text
        for part in library.walk()
        if part.get_content_maintype() == "text"
    ]
    assert [text.split() for text in texts] == [text.split() for text in wanted]
    assert mail.defects == []


MAIL_WORDS = (
    b"Content-Type: ", b"multipart/mixed", b"text/html", b"message/rfc822", b"; boundary=", b'"b"',
    b"\n--b\n", b"\n--b--\n", b"\n\n", b"\r\n", b"Subject: ", b"=?utf-8?q?", b"=?iso-8859-1?b?", b"?=",
    b"Content-Transfer-Encoding: base64\n", b"quoted-printable", b"charset=", b"utf-7", b"utf-16",
    b"X-Streamnb: ", b"From ", b">From ", b"\n ", b"\n\t", b"message/delivery-status", b"name*0*=",
    b"multipart/digest", b"Content-Disposition: attachment; filename=", b"iso-2022-jp", b"hz",
)  # fmt: skip
HTML_WORDS = (
    b"<script>", b"</script>", b"<style>", b"</style>", b"<!--", b"-->", b"<a href='", b"<img alt=",
    b" title=", b"&#x41;", b"&amp;", b"&nbsp", b"<br/>", b"<td>", b"<?", b"<!DOCTYPE", b"http://",
    b"www.", b"</", b"/>", b"<base href=", b"<![CDATA[", b"]]>",
)  # fmt: skip
WORDS = (b"http://a.example/", b"www.", "東京".encode(), b"\xcc\x81", b"\xe2\x80\x8b", b"\xc2\xad",
         b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf4\x8f\xbf\xbf", "İ".encode(), "ß".encode())  # fmt: skip


def _texts() -> list[bytes]:
    samples = ["Don't STOP-it! v1.0 $100", "naïve Straße ΣΊΣΥΦΟΣ हिन्दी 東京都 iPhone東京 e\u0301",
            "see https://www.a.example/x?y=1#z or www.b.example", "a\u200bb \u00ad snake_case"]  # fmt: skip
    return [bytes([n, n & 1]) + text.encode() for n in range(len(OPTIONS)) for text in samples]


def _pages() -> list[bytes]:
    samples = [b"<p>one<b></b>two<br>&eacute;&#65;<a href='http://a.example/x?y'>link</a><!-- c -->",
            b"<script>if (a < b) x</script><style>b{}</style><img alt=nice title='t'>3 < 4 &amp 5"]  # fmt: skip
    return [bytes([n, n & 1]) + page for n in range(len(OPTIONS)) for page in samples]


def _choosing(raws: list[bytes], kinds: int) -> list[bytes]:
    return [bytes([i % kinds]) + raw for i, raw in enumerate(raws)]


TARGETS = {
    "words": Target(words, _texts, WORDS, 512),
    "html": Target(pages, _pages, HTML_WORDS + WORDS[:4], 1024),
    "header": Target(
        header, lambda: [b"\xff\0\0" + raw[:900] for raw in mails()], MAIL_WORDS, 1024
    ),
    "grams": Target(grams, lambda: _choosing([raw[:120] for raw in mails()], 13), most=256),
    "pairs": Target(pairs, lambda: _choosing([raw[:400] for raw in mails()], 3), most=512),
    "names": Target(
        names,
        lambda: [encode_name(name) for name in ("a", b"\xff", -7, 1 << 80, ("a", (1, b"b"), ()))],
        most=512,
    ),
    "mail": Target(mail, mails, MAIL_WORDS + HTML_WORDS, 1 << 14),
    "hops": Target(hops, lambda: _choosing([raw[:600] for raw in mails()], 24), MAIL_WORDS, 1024),
    "passed": Target(passed, mails, MAIL_WORDS[:22], 4096),
    "well_formed": Target(well_formed, lambda: [raw[:600] for raw in mails()], MAIL_WORDS, 1024),
}
