"""What is read from files: models, pieces, imports, configurations, corpora, Maildirs."""

import atexit
import contextlib
import io
import os
import shutil
import struct
import tempfile
import zipfile
import zlib
from codecs import BOM_UTF8
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
from streamnb.config.yaml_files import to_yaml, read_yaml
from streamnb.corpus import open_corpus, read
from streamnb.corpus.delimited import _LABEL_COLUMNS, _TEXT_COLUMNS
from streamnb.errors import ConfigError, CorpusError, ModelFileError, StreamNBError
from streamnb.mailbox.transfer.formats import export, import_file
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.model_files import read as read_model
from streamnb.naive_bayes.model_files import save
from streamnb.partial import Piece, Row, assembled, count, fresh, merge, plan_of
from streamnb.partial.pieces import _HEAD, opened, packed
from streamnb.partial.plan import digest_of

__all__ = ["TARGETS"]

HAM, SPAM = b"Subject: lunch\n\nat noon, Ann?\n", b"Subject: cheap pills\n\nbuy now!\n"
# Files that live for one input are made in memory where there is room for that.
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FOLDER = Path(tempfile.mkdtemp(prefix="streamnb-fuzz-", dir=PLACE))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


def _file(name: str, data: bytes) -> Path:
    path = FOLDER / name
    path.write_bytes(data)
    return path


def _line(error: StreamNBError) -> None:
    """What is said is one line, and not a long one."""
    said = str(error)
    assert said
    assert "\n" not in said
    assert len(said) < 2000
    assert "UnexpectedError" not in type(error).__name__


# Model files, as they are, and with sound archives around whatever is in them.


def _unpacked(data: bytes) -> bytes:
    """The members of an archive, one after the other."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name.encode(), archive.read(name)) for name in archive.namelist()]
    return b"".join(struct.pack("<BH", len(n), len(d)) + n + d for n, d in members)


def _archive(data: bytes) -> bytes:
    """An archive of such members, its checksums right."""
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
    """A file is refused, or it is a model: it predicts, and what it saves is read again."""
    choice = Choices(data)
    inner = choice.below(4)
    raw = _archive(choice.rest()) if inner else choice.rest()
    try:
        model, extra = read_model(io.BytesIO(raw))
    except ModelFileError as error:
        _line(error)
        return
    _predicts(model)
    first = io.BytesIO()
    _save(model, first, extra)
    again = read_model(io.BytesIO(first.getvalue()))[0]
    second = io.BytesIO()
    _save(again, second, extra)
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
    except ValueError as error:  # a model of rows may want other columns
        assert not isinstance(model, TextModel), error
        return
    except TypeError:
        assert isinstance(model, TextModel)
        assert type(model).__name__ in ("ViewsNB", "ContextNB", "WindowNB")  # which take no dict
        return
    assert not shares or abs(sum(shares.values()) - 1) < 1e-9


def _saved(model: object) -> bytes:
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def _models() -> list[bytes]:
    found = []
    for model in (MultinomialNB(), BernoulliNB(keep_names=False)):
        model.learn_one({"a": 2, "b": 1}, "ham")
        model.learn_one({"c": 2, "b": 1}, "spam")
        found.append(_saved(model))
    gaussian = GaussianNB()
    gaussian.learn_one({"a": 1.0, "b": 2.5}, "x")
    gaussian.learn_one({"a": 3.0, "b": 0.5}, "y")
    classifier = Classifier(Tokenizer(), MultinomialNB())
    classifier.learn_one("free offer", "spam")
    classifier.learn_one("lunch at noon", "ham")
    found += [_saved(gaussian), _saved(classifier), _saved(MailClassifier())]
    return [b"\0" + raw for raw in found] + [b"\1" + _unpacked(raw) for raw in found]


# Pieces of models, their checksums right

PLANS = [
    plan_of(Classifier(Tokenizer(), MultinomialNB())),
    plan_of(Classifier(Tokenizer(keep_names=False), BernoulliNB())),
    plan_of(GaussianNB()),
]


def pieces(data: bytes) -> None:
    """A piece is refused, or what is made of it predicts."""
    choice = Choices(data)
    plan = PLANS[choice.below(3)]
    size = choice.below(65536)
    rest = choice.rest()
    raw = _HEAD.pack(min(size, len(rest)), zlib.crc32(rest)) + rest
    try:
        assembled(plan, [Piece(0, 0, raw)])
        (known,) = merge(plan, [Piece(0, 0, raw)])
        made = assembled(plan, [known])
    except ModelFileError as error:
        _line(error)
        return
    if isinstance(made, Classifier):
        shares = made.predict_proba_one("a free lunch")
        assert not shares or abs(sum(shares.values()) - 1) < 1e-9
    (again,) = merge(plan, [known])
    assert again == known


def _pieces() -> list[bytes]:
    rows = [[Row(0, "spam", "free offer"), Row(1, "ham", "lunch at noon")]] * 2
    rows.append([Row(0, "x", {"a": 1.0, "b": 2.5}), Row(1, "y", {"a": 3.0, "b": 0.5})])
    found = []
    for number, (plan, some) in enumerate(zip(PLANS, rows, strict=True)):
        for piece in count(plan, some):
            header, arrays = opened(plan, piece.data)
            raw = packed({**header, "plan": digest_of(plan)}, arrays)
            size, _ = _HEAD.unpack_from(raw)
            found.append(bytes([number]) + struct.pack("<H", size) + raw[_HEAD.size :])
    return found


def plans(data: bytes) -> None:
    """A plan is refused, or is one: what is made of it has a plan that makes the same."""
    try:
        made = fresh(data.decode("utf-8", "replace"))
    except ModelFileError as error:
        _line(error)
        return
    plan = plan_of(made)
    assert plan_of(fresh(plan)) == plan


# Imports into a mailbox


def imports(data: bytes) -> None:
    """A file is refused and nothing was changed, or it is sound and can be told again."""
    choice = Choices(data)
    kind = ("lines", "bogofilter", None)[choice.below(3)]
    path, database = _file("import", choice.rest()), FOLDER / "import.db"
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
        told = _counts(box)
        export(box, str(FOLDER / "import-out"))
    with Mailbox(FOLDER / "import2.db") as other:
        import_file(other, str(FOLDER / "import-out"))
        assert other.verify() == []
        assert _counts(other) == told


def _counts(box: Mailbox) -> bytes:
    """All counts of a mailbox, as it tells them itself."""
    export(box, str(FOLDER / "counts"), messages=False)
    return (FOLDER / "counts").read_bytes()


def _imports() -> list[bytes]:
    folder = Path(tempfile.mkdtemp(dir=FOLDER))
    with Mailbox(folder / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "spam")
        box.learn(HAM, "ham")
        export(box, str(folder / "lines"))
        export(box, str(folder / "counts"), messages=False)
        export(box, str(folder / "dump"), "bogofilter")
    files = [(0, "lines"), (0, "counts"), (1, "dump"), (2, "lines"), (2, "dump")]
    found = [bytes([kind]) + (folder / name).read_bytes() for kind, name in files]
    found += [one.replace(b'"ends":true,', b"") for one in found if b'"ends"' in one]
    shutil.rmtree(folder)
    return found


# Configurations


def configuration(data: bytes) -> None:
    """A file is refused with its key or line, or it is a configuration that can be written out."""
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


def _entries(path: Path, **how: object) -> list[tuple[str, str, bytes]] | None:
    """Name, label and content of all entries; None where the corpus, or a line of it, is refused."""
    try:
        found = []
        for entry in open_corpus(path, **how):
            if entry.problem:
                raise CorpusError(entry.problem)
            with contextlib.suppress(CorpusError):
                content = read(entry)
                raw = (
                    content
                    if isinstance(content, bytes)
                    else content.encode("utf-8", "surrogatepass")
                )
                found.append((entry.name, entry.label, raw))
                continue
            found.append((entry.name, entry.label, b""))
        return found
    except (CorpusError, ConfigError) as error:
        _line(error)
        return None


def trec(data: bytes) -> None:
    """Lines of an index: label and path, or the line is named."""
    path = _file("index", data)
    found = _entries(path, kind="trec")
    lines = [line for line in data.removeprefix(BOM_UTF8).split(b"\n") if line.strip()]
    sound = all(len(line.split(maxsplit=1)) == 2 and b"\0" not in line for line in lines)
    if data and max(map(len, lines), default=0) < 8000:
        assert (found is not None) == sound
    if found is not None and sound:
        assert len(found) == len(lines)
        assert all(label == label.lower() for _, label, _ in found)


def mbox(data: bytes) -> None:
    """Messages of an mbox, whatever pieces it is read in."""
    path = _file("mail.mbox", data)
    found = _entries(path, kind="mbox")
    with mock.patch.object(streamnb.corpus.mbox, "_CHUNK", 1 + len(data) % 29):
        assert _entries(path, kind="mbox") == found
    if found is not None:
        assert sum(len(raw) for _, _, raw in found) <= len(data)


def delimited(data: bytes) -> None:
    """Rows of text: each non-blank line is one, or its line is named."""
    choice = Choices(data)
    if choice.below(2):
        path = _file("mail.csv", b"label,text\n" + choice.rest())
        found = _entries(path, kind="csv")
    else:
        raw = choice.rest()
        path = _file("mail.tsv", raw)
        found = _entries(path, kind="tabs")
        # The first line's mark of its byte order is no text.
        lines = [line for line in raw.removeprefix(BOM_UTF8).split(b"\n") if line.strip()]
        if found is not None:
            names = {
                name.strip().lower() for name in (lines or [b""])[0].decode("latin-1").split("\t")
            }
            named = names & set(_LABEL_COLUMNS) and names & set(_TEXT_COLUMNS)
            assert len(found) == len(lines) - bool(named)
    for _, label, _ in found or []:
        assert len(label.split()) <= 1


def any_corpus(data: bytes) -> None:
    """A file of which nobody says what it is."""
    for name in ("mail", "mail.csv", "mail.mbox"):
        _entries(_file(name, data))


def maildir(data: bytes) -> None:
    """Files under any name: what is listed can be fetched and moved, and none is lost."""
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
        for _ in range(number):  # of two files with one unique name, one is listed at a time
            listing = account.list_messages(source)
            assert set(account.fetch_headers(source, list(listing))) == set(listing)
            for uid in listing:
                uid.encode("utf-8")
                assert account.fetch_message(source, uid) is not None
                assert account.move_message(source, uid, target, junk=target == "Junk")
        assert not account.list_messages(source)
    left = [path for path in root.rglob("*") if path.is_file()]
    assert sorted(path.read_bytes() for path in left) == sorted(
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
