"""Readers of files: models, pieces, imports, configurations, corpora, Maildirs."""

import atexit
import contextlib
import io
import os
import re
import shutil
import struct
import tempfile
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from pathlib import Path
from typing import Any
from unittest import mock

import yaml
from fuzz.target import Choices, Target

import streamnb.corpus.mbox
from streamnb import (
    BernoulliNB,
    Classifier,
    GaussianNB,
    Mailbox,
    MailClassifier,
    MultinomialNB,
    Tokenizer,
)
from streamnb.config import build
from streamnb.config.yaml_files import read_yaml, to_yaml
from streamnb.corpus import open_corpus, read
from streamnb.corpus.text_files import COMPRESSIONS
from streamnb.errors import ConfigError, CorpusError, ModelFileError, StreamNBError
from streamnb.mailbox.transfer.formats import export, import_file
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.naive_bayes.model_files import read as read_model
from streamnb.naive_bayes.model_files import save
from streamnb.naive_bayes.text_model import TextModel
from streamnb.partial import LabelledRow, PartialCounts, assemble, count, merge, new_model, spec_of
from streamnb.partial.partial_counts import _CHECKSUM, pack, spec_digest, unpack

__all__ = ["TARGETS"]

HAM, SPAM = b"Subject: lunch\n\nat noon, Ann?\n", b"Subject: cheap pills\n\nbuy now!\n"
# Files of one input are in a memory file system if there is one.
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FOLDER = Path(tempfile.mkdtemp(prefix="streamnb-fuzz-", dir=PLACE))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def _file(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def _line(error: StreamNBError) -> None:
    """Check that an error is one short line."""
    message = str(error)
    assert message
    assert "\n" not in message
    assert len(message) < 2000
    assert "UnexpectedError" not in type(error).__name__


# Model files: any bytes, and valid archives with any content.


def _unpacked(data: bytes) -> bytes:
    """Yield the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name.encode(), archive.read(name)) for name in archive.namelist()]
    return b"".join(struct.pack("<BH", len(n), len(d)) + n + d for n, d in members)


def _archive(data: bytes) -> bytes:
    """Return an archive of these members with correct checksums."""
    choice, file = Choices(data), io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        names = set()
        while choice and len(names) < 40:
            size, length = choice.below(256), choice.below(65536)
            name = choice.take(size).decode("latin-1").replace("\0", "")
            if name and name not in names:
                archive.writestr(zipfile.ZipInfo(name), choice.take(length))
            names.add(name)
    return file.getvalue()


def model_file(data: bytes) -> None:
    """Check that a file is refused, or is a model that predicts and can be saved and loaded."""
    choice = Choices(data)
    inner = choice.below(4)
    raw = _archive(choice.remaining_bytes()) if inner else choice.remaining_bytes()
    try:
        model, extra = read_model(io.BytesIO(raw))
    except ModelFileError as error:
        _line(error)
        return
    _predicts(model)
    first = io.BytesIO()
    _save(model, first, extra)
    copy = read_model(io.BytesIO(first.getvalue()))[0]
    second = io.BytesIO()
    _save(copy, second, extra)
    assert _unpacked(first.getvalue()) == _unpacked(second.getvalue())


def _save(model: Any, file: io.BytesIO, extra: object) -> None:
    if isinstance(model, TextModel):
        save(model, file, extra)
    else:
        model.save(file)


def _predicts(model: object) -> None:
    x = {"a": 1, "pills": 2} if isinstance(model, TextModel) else {"a": 1.0, "b": "x"}
    try:
        shares = model.predict_proba_one(x)
    except ValueError as error:  # a model of rows may need other columns
        assert not isinstance(model, TextModel), error
        return
    except TypeError:
        assert isinstance(model, TextModel)
        assert type(model).__name__ in ("ViewsNB", "ContextNB", "WindowNB")  # these take no dict
        return
    assert not shares or abs(sum(shares.values()) - 1) < 1e-9


def _saved(model: object) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def _models() -> list[bytes]:
    results = []
    for model in (MultinomialNB(), BernoulliNB(keep_names=False)):
        model.learn_one({"a": 2, "b": 1}, "ham")
        model.learn_one({"c": 2, "b": 1}, "spam")
        results.append(_saved(model))
    gaussian = GaussianNB()
    gaussian.learn_one({"a": 1.0, "b": 2.5}, "x")
    gaussian.learn_one({"a": 3.0, "b": 0.5}, "y")
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_one("free offer", "spam")
    classifier.learn_one("lunch at noon", "ham")
    results += [_saved(gaussian), _saved(classifier), _saved(MailClassifier())]
    return [b"\0" + raw for raw in results] + [b"\1" + _unpacked(raw) for raw in results]


# Partial counts with correct checksums

PLANS = [
    spec_of(Classifier(Tokenizer(), MultinomialNB())),
    spec_of(Classifier(Tokenizer(keep_names=False), BernoulliNB())),
    spec_of(GaussianNB()),
]


def pieces(data: bytes) -> None:
    """Check that partial counts are refused, or that their model predicts."""
    choice = Choices(data)
    plan = PLANS[choice.below(3)]
    body = choice.remaining_bytes()
    raw = _CHECKSUM.pack(zlib.crc32(body)) + body
    try:
        assemble(plan, [PartialCounts(0, 0, raw)])
        (piece,) = merge(plan, [PartialCounts(0, 0, raw)])
        model = assemble(plan, [piece])
    except ModelFileError as error:
        _line(error)
        return
    if isinstance(model, Classifier):
        shares = model.predict_proba_one("a free lunch")
        assert not shares or abs(sum(shares.values()) - 1) < 1e-9
    (second,) = merge(plan, [piece])
    assert second == piece


def _pieces() -> list[bytes]:
    rows = [[LabelledRow(0, "spam", "free offer"), LabelledRow(1, "ham", "lunch at noon")]] * 2
    rows.append(
        [LabelledRow(0, "x", {"a": 1.0, "b": 2.5}), LabelledRow(1, "y", {"a": 3.0, "b": 0.5})]
    )
    results = []
    for number, (plan, part) in enumerate(zip(PLANS, rows, strict=True)):
        for piece in count(plan, part):
            header, arrays = unpack(plan, piece.data)
            raw = pack({**header, "spec": spec_digest(plan)}, arrays)
            results.append(bytes([number]) + raw[_CHECKSUM.size :])
    return results


def plans(data: bytes) -> None:
    """Check that a spec is refused, or that its model has an equal spec."""
    try:
        model = new_model(data.decode("utf-8", "replace"))
    except ModelFileError as error:
        _line(error)
        return
    plan = spec_of(model)
    assert spec_of(new_model(plan)) == plan


# Imports into a mailbox


def imports(data: bytes) -> None:
    """Check that a file is refused without a change, or is imported and can be exported again."""
    choice = Choices(data)
    kind = ("lines", "bogofilter", None)[choice.below(3)]
    path, database = _file("import", choice.remaining_bytes()), FOLDER / "import.db"
    for stale in FOLDER.glob("import*.db*"):
        stale.unlink()
    with Mailbox(database) as box:
        box.learn(HAM, "ham")
        before = _counts(box)
        try:
            import_file(box, str(path), kind)
        except StreamNBError as error:
            _line(error)
            assert _counts(box) == before
            assert box.verify() == []
            return
        assert box.verify() == []
        assert 0 <= box.classify(SPAM).probability <= 1 + 1e-9
        before_counts = _counts(box)
        export(box, str(FOLDER / "import-out"))
    with Mailbox(FOLDER / "import2.db") as other:
        import_file(other, str(FOLDER / "import-out"))
        assert other.verify() == []
        assert _counts(other) == before_counts


def _counts(box: Mailbox) -> list[bytes]:
    """Return all counts of a mailbox: the lines of its export but those of messages and the last."""
    export(box, str(FOLDER / "counts"))
    lines = (FOLDER / "counts").read_bytes().splitlines()
    return [line for line in lines[:-1] if not line.startswith(b'{"digest"')]


def _imports() -> list[bytes]:
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    with Mailbox(folder / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "spam")
        box.learn(HAM, "ham")
        export(box, str(folder / "lines"))
        export(box, str(folder / "dump"), "bogofilter")
    files = [(0, "lines"), (1, "dump"), (2, "lines"), (2, "dump")]
    results = [bytes([kind]) + (folder / name).read_bytes() for kind, name in files]
    results += [sample.replace(b'"ends":true,', b"") for sample in results if b'"ends"' in sample]
    shutil.rmtree(folder)
    return results


# Configurations


def configuration(data: bytes) -> None:
    """Check that a file is refused with key or line, or is a configuration that can be written."""
    path = _file("config.yaml", data)
    try:
        config = build(read_yaml(path), str(path))
    except ConfigError as error:
        _line(error)
        assert str(error).startswith(str(path)), error
        return
    written = to_yaml(config)
    assert to_yaml(build(yaml.safe_load(written))) == written


def _configurations() -> list[bytes]:
    folder = Path(__file__).parents[2] / "configs"
    return [path.read_bytes() for path in sorted(folder.glob("*.yaml"))]


# Corpora


def _entries(path: Path, **options: object) -> list[tuple[str, str, bytes]] | None:
    """Return name, label and content of all entries; None if the corpus or a line is refused."""
    try:
        results = []
        for entry in open_corpus(path, **options):
            if entry.problem:
                raise CorpusError(entry.problem)
            with contextlib.suppress(CorpusError):
                content = read(entry)
                raw = (
                    content
                    if isinstance(content, bytes)
                    else content.encode("utf-8", "surrogatepass")
                )
                results.append((entry.name, entry.label, raw))
                continue
            results.append((entry.name, entry.label, b""))
        return results
    except (CorpusError, ConfigError) as error:
        _line(error)
        return None


def trec(data: bytes) -> None:
    """Check an index: each line is a label and a path, or an error names it."""
    path = _file("index", data)
    results = _entries(path, kind="trec")
    if data.startswith((*COMPRESSIONS.values(), BOM_UTF16_LE, BOM_UTF16_BE)):
        return  # lines of the corpus as it was detected
    lines = [line for line in data.removeprefix(BOM_UTF8).split(b"\n") if line.strip()]
    sound = all(len(line.split(maxsplit=1)) == 2 and b"\0" not in line for line in lines)
    if data and max(map(len, lines), default=0) < 8000:
        assert (results is not None) == sound
    if results is not None and sound:
        assert len(results) == len(lines)
        assert all(label == label.lower() for _, label, _ in results)


def mbox(data: bytes) -> None:
    """Check that an mbox has the same messages for any size of chunks."""
    path = _file("mail.mbox", data)
    results = _entries(path, kind="mbox")
    with mock.patch.object(streamnb.corpus.mbox, "_CHUNK", 1 + len(data) % 29):
        assert _entries(path, kind="mbox") == results
    if results is not None:
        assert sum(len(raw) for _, _, raw in results) <= len(data)


def delimited(data: bytes) -> None:
    """Check rows of text: each line that is not blank is a row, or an error names it."""
    choice = Choices(data)
    if choice.below(2):
        path = _file("mail.csv", b"label,text\n" + choice.remaining_bytes())
        results = _entries(path, kind="csv")
    else:
        raw = choice.remaining_bytes()
        path = _file("mail.tsv", raw)
        results = _entries(path, kind="tabs")
        # The first line may be a header.
        raw_lines = re.split(rb"[\r\n]", raw.removeprefix(BOM_UTF8))
        lines = [line for line in raw_lines if line.strip()]
        assert results is None or len(results) <= len(lines)
    for _, label, _ in results or []:
        assert label == label.strip()


def any_corpus(data: bytes) -> None:
    """Check a file without a given format."""
    for name in ("mail", "mail.csv", "mail.mbox"):
        _entries(_file(name, data))


def maildir(data: bytes) -> None:
    """Check files with any names: each listed message can be read and moved, and none is lost."""
    choice, root = Choices(data), FOLDER / "Maildir"
    shutil.rmtree(root, ignore_errors=True)
    for folder in (root, root / ".Junk"):
        for place in ("cur", "new", "tmp"):
            (folder / place).mkdir(parents=True, exist_ok=True)
    number = 0
    while choice and number < 12:
        place = choice.below(4)
        name = choice.take(choice.below(40)).replace(b"/", b"").replace(b"\0", b"")
        folder = root / (".Junk", "")[place & 1] / ("cur", "new")[place >> 1]
        if name not in (b"", b".", b".."):
            with (
                contextlib.suppress(FileExistsError),
                open(os.fsencode(folder) + b"/" + name, "xb") as file,
            ):
                file.write(b"Subject: %d\n\nx\n" % number)
                number += 1
    account = MaildirAccount(root)
    for source, target in (("INBOX", "Junk"), ("Junk", "INBOX")):
        for _ in range(number):  # of two files with one unique name, only one is listed
            listing = account.list_messages(source)
            assert set(account.fetch_headers(source, list(listing))) == set(listing)
            for uid in listing:
                uid.encode("utf-8")
                assert account.fetch_message(source, uid) is not None
                assert account.move_message(source, uid, target, junk=target == "Junk")
        assert not account.list_messages(source)
    remaining = [path for path in root.rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in remaining) == sorted(
        b"Subject: %d\n\nx\n" % n for n in range(number)
    )


TARGETS = {
    "model_file": Target(model_file, _models, (b"\x93NUMPY\x01\0", b"labels", b"descr", b"'<u8'"), 8192),
    "pieces": Target(pieces, _pieces, (b"fingerprints", b'"firsts"', b"[0]", b"1e999", b"null"), 4096),
    "plans": Target(plans, lambda: [plan.encode() for plan in PLANS], (b"null", b"1e999", b"[]")),
    "imports": Target(
        imports,
        _imports,
        (b".MSG_COUNT 1 1\n", b"subj:", b'"label"', b"null", b"1e999", b"-1", b"{}", b"[]"),
        1 << 14,
    ),
    "yaml": Target(
        configuration,
        _configurations,
        (b"corpus:", b"model:", b"kind:", b"&a ", b"*a", b"!!python", b"? ", b"- ", b".nan", b"<<: "),
        1 << 12,
    ),
    "trec": Target(trec, lambda: [b"spam ./a\nham b/c\nSPAM x y\n"], (b"\xef\xbb\xbf", b"\r\n", b"\t"), 512),
    "mbox": Target(
        mbox,
        lambda: [b"From a@b Mon Jan  1 00:00:00 2026\nSubject: x\n\n>From y\nz\n\n" * 3],
        (b"\n\nFrom x 2026\n", b"From a 10:11\r\n", b"\r\n\r\n", b">From "),
        512,
    ),
    "delimited": Target(
        delimited,
        lambda: [b"\0spam\tbuy\nham\tlunch\n", b'\1spam,"buy, now"\nham,"a ""b"""\n'],
        (b'"', b'""', b"\r", b"\xef\xbb\xbf", b"\t", b","),
        512,
    ),
    "any_corpus": Target(
        any_corpus,
        lambda: [b"label,text\nspam,x\n", b"spam\tbuy\nham\tx\n", b"From a 2026\n\nx\n", HAM, b"ham mail\n"],
        (b"label", b"text", b"\t", b"From a 2026\n", b"\x93", b'"', b"PK\3\4", b"\0"),
        512,
    ),
    "maildir": Target(
        maildir,
        lambda: [b"\0\x0b1.2.host:2,S\2\x05a.b.c\1\x08x:2,STRF\3\x041:2,"],
        (b":2,", b":2,T", b":2,S", b"\xff", b".", b"\n", b":1,"),
        256,
    ),
}  # fmt: skip
