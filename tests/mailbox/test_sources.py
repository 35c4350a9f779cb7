"""The messages of folders and files, without what mail programs keep beside them."""

import bz2
import gzip
import io
import lzma
import os
import random
import re
import shutil
import subprocess
import sys
import tarfile
from types import SimpleNamespace

import pytest

import streamnb.corpus.mbox
from streamnb.cli.sources import read_sources
from streamnb.errors import CorpusError
from streamnb.mailbox import sources
from streamnb.mailbox.sources import messages
from streamnb.mailbox.watch.maildir import MaildirAccount

MAIL = b"From: a@example.org\nSubject: hi\n\nHello\n"
FOLDER_DATA = (
    b"From MAILER-DAEMON Mon Jan  1 00:00:00 2024\nFrom: Mail System Internal Data <MAILER-DAEMON@a>\n"
    b"Subject: DON'T DELETE THIS MESSAGE -- FOLDER INTERNAL DATA\nX-IMAP: 17 2\n\nThis text is part of "
    b"the internal format of your mail folder.\n\n"
)


@pytest.mark.parametrize(
    "name",
    ["Inbox.msf", "Inbox.cmeta", "Inbox.ibex.index", "Inbox.ev-summary", "msgFilterRules.dat", "dovecot.index.log", "dovecot-uidlist", "maildirfolder", "cyrus.index", "cyrus.annotations", "13.1.emlxpart",
     ",12", "#3", "Info.plist", "table_of_contents", "In.toc", "ab12.metadata.json", "labels.json",
     "archive_browser.html", "desktop.ini", "Thumbs.db", "cmds", "User Settings/Filters.json", "1.eml~", "#1#", "1.eml.meta", "1.meta", "INBOX.imap"],
)  # fmt: skip
def test_files_of_mail_programs_are_skipped(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"// <!-- <mdb:mork:z v=1.4/> -->\nSubject: no mail\n\nbody\n")
    (tmp_path / "1.eml").write_bytes(MAIL)
    assert [entry.content for entry in messages(str(tmp_path))] == [MAIL]


TEXT = b'{"labels": ["Inbox"], "from": "a@example.org"}\n'


@pytest.mark.parametrize("folder", [".", "data"])  # an index is beside the folder of its mail
def test_text_without_a_header_is_no_message_beside_mail(tmp_path, folder):
    (tmp_path / "message.json").write_bytes(TEXT)
    (tmp_path / folder).mkdir(exist_ok=True)
    assert contents(tmp_path) == contents(tmp_path / "message.json") == [TEXT]
    damaged = b"no field\nReceived: from a by b\n\nHello\n"
    for name, mail in {
        "raw.eml": MAIL,
        "utf16": MAIL.decode().encode("utf-16"),
        "z": damaged,
    }.items():
        (tmp_path / folder / name).write_bytes(mail)
    (first,) = [item for item in contents(tmp_path) if isinstance(item, CorpusError)]
    others = [item for item in contents(tmp_path) if isinstance(item, bytes)]
    assert str(first).startswith(f"{tmp_path}/message.json: not a message: text without a header")
    assert len(others) == 3
    assert contents(tmp_path / "message.json") == [TEXT]


def test_text_in_a_folder_that_is_removed_meanwhile_stops_no_other(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1").write_bytes(TEXT)
    (tmp_path / "b").write_bytes(MAIL)
    entries = messages(str(tmp_path))
    original = sources._file

    def read_and_remove(path, follow=True):
        results = list(original(path, follow))
        shutil.rmtree(tmp_path / "a", ignore_errors=True)
        return iter(results)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_file", read_and_remove)
        assert [each.content for each in entries] == [TEXT, MAIL]


def test_text_without_a_header_is_a_message_in_a_maildir(tmp_path):
    path = maildir(tmp_path, TEXT)
    (path / "cur" / "2").write_bytes(MAIL)
    assert contents(path) == [TEXT, MAIL]


def test_the_error_of_a_maildir_without_messages_names_its_folders(tmp_path):
    for folder in (".", ".Junk", ".Work"):
        for part in ("cur", "new", "tmp"):
            (tmp_path / folder / part).mkdir(parents=True)
    (tmp_path / ".Junk" / "cur" / "1").write_bytes(MAIL)
    (message,) = messages(str(tmp_path))
    assert f"name its folders: {tmp_path}/.Junk, {tmp_path}/.Work" in str(message.content)


def test_empty_mboxes_of_thunderbird_are_skipped(tmp_path):
    for name in ("Inbox", "Inbox.msf", "Trash", "Trash.msf", "Sent"):
        (tmp_path / name).touch()
    (tmp_path / "Inbox").write_bytes(MAIL)
    assert [entry.name for entry in messages(str(tmp_path))] == [
        str(tmp_path / name) for name in ("Inbox", "Sent")
    ]


def dbox(*mails):
    message = b"\x01\x02N          %016X\n%b\n\x01\x03\nR6b08b378\nV42\n\n"
    return b"2 M1e C6b08b378\n" + b"".join(message % (len(mail), mail) for mail in mails)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (MAIL.decode().encode("utf-16"), False),
        (dbox(MAIL), False),
        (dbox(MAIL, MAIL), True),
        (b"2 M1e C\n", True),
        (b"%PDF-1.4\n%\xe2\xe3\n1 0 obj\n", True),
        (b"\xff\xfe" + b"\x00\x01\x00" * 9, True),
    ],
)
def test_files_of_several_messages_and_data_are_binary(content, expected):
    assert (sources.describe_binary(content) is not None) == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"!BDN\x11\x22SM" + MAIL, "PST, OST"),
        (bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "MSG"),
        (bytes.fromhex("cfad12fec5fd746f") + MAIL, "DBX"),
        (b"SQLite format 3\0" + bytes(600), "database"),
        (b"PK\x03\x04\x14" + MAIL, "archive"),
        (b"*mbx*\r\n6b08b37800000001\r\n" + MAIL + MAIL, "UW IMAP"),
        (b"CRYPTED\x03\x07\x02" + MAIL, "IMAP"),
        (dbox(gzip.compress(MAIL * 9)), "IMAP"),
        (dbox(MAIL, MAIL), "IMAP"),
    ],
)
def test_a_format_of_another_program_is_named_with_the_way_out(tmp_path, content, words):
    """Such a file of many messages would be learned as a single message."""
    (tmp_path / "file").write_bytes(content)
    (message,) = read_sources([str(tmp_path)], binary=False)
    assert re.search(f"file: not a message: .*{words}", str(message.content))
    assert "--binary" not in str(message.content)


def test_empty_files_beside_an_mbox_are_empty_mboxes(tmp_path):
    for name in ("drafts", "sent"):
        (tmp_path / name).touch()
    (tmp_path / "inbox").write_bytes(b"From a@example.org Mon Jan  1 00:00:00 2024\n" + MAIL)
    assert [entry.name for entry in messages(str(tmp_path))] == [str(tmp_path / "inbox")]


def test_an_mbox_that_thunderbird_removes_does_not_hide_its_neighbours(tmp_path, monkeypatch):
    for name in ("Inbox", "Inbox.msf", "Sent"):
        (tmp_path / name).write_bytes(MAIL)
    is_internal = sources._is_internal

    def remove_first(path, name, items):
        (tmp_path / "Inbox").unlink(missing_ok=True)
        return is_internal(path, name, items)

    monkeypatch.setattr(sources, "_is_internal", remove_first)
    missing, sent = messages(str(tmp_path))
    assert "Inbox: cannot be read" in str(missing.content)
    assert sent.content == MAIL


@pytest.mark.parametrize("head", [MAIL, b"From a@example.org Mon Jan  1 00:00:00 2024\n" + MAIL])
def test_a_file_that_is_renamed_after_its_first_bytes_hides_no_other(tmp_path, monkeypatch, head):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(head)
    is_mbox = sources.is_mbox

    def rename_first(content):
        if (tmp_path / "a").exists():
            (tmp_path / "a").rename(tmp_path / ".a")
        return is_mbox(content)

    monkeypatch.setattr(sources, "is_mbox", rename_first)
    missing, second = messages(str(tmp_path))
    assert "a: cannot be read" in str(missing.content)
    assert second.content == MAIL


@pytest.mark.parametrize(("neighbour", "count"), [("Messages", 1), ("Other", 2)])
def test_attachments_that_apple_mail_copied_are_skipped(tmp_path, neighbour, count):
    for name in ("Attachments", neighbour):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.eml").write_bytes(MAIL)
    assert len(list(messages(str(tmp_path)))) == count


@pytest.mark.parametrize("mails", [0, 1, 2])
def test_the_internal_data_of_an_mbox_is_skipped(tmp_path, mails):
    mail = b"From a@example.org Mon Jan  1 00:00:00 2024\n" + MAIL + b"\n"
    (tmp_path / "box").write_bytes(FOLDER_DATA + mails * mail)
    entries = list(messages(str(tmp_path / "box")))
    assert [b"Hello" in each.content for each in entries] == [True] * mails


SEPARATOR = b"From a@example.org Mon Jan  1 00:00:00 2024\n"
LIKE_A_SEPARATOR = b"\nFrom a@example.org Mon Jan  1 00:00:00 2024\nSubject: quoted\n\nno message\n"


def contents(path):
    return [each.content for each in messages(str(path))]


def with_length(body, length):
    return b"From: a@example.org\nContent-Length: %d\n\n%b" % (length, body)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.parametrize(("error", "count"), [(0, 1), (7, 2), (-20, 2), (10**6, 2)])
def test_a_content_length_is_believed_if_a_separator_or_the_end_follows(
    tmp_path, error, count, is_last, line_end
):
    body = (b"hello\n" + LIKE_A_SEPARATOR).replace(b"\n", line_end)
    mail = with_length(body, len(body) + error).replace(b"\n", line_end)
    mail = mail.replace(b"\r\r\n", b"\r\n")
    box = SEPARATOR + mail + (b"" if is_last else line_end + SEPARATOR + MAIL)
    (tmp_path / "box").write_bytes(box)
    assert len(contents(tmp_path / "box")) == count + (not is_last)


@pytest.fixture(params=["lock file", "lockf", "flock"])
def locked_box(request, tmp_path, monkeypatch):
    """An mbox that another program has locked, with a message of which half is written."""
    monkeypatch.setattr(streamnb.corpus.mbox, "_LOCK_TIMEOUT_S", 0.0)
    path = tmp_path / "box"
    path.write_bytes((SEPARATOR + MAIL + b"\n") * 2 + SEPARATOR + MAIL[:30])
    if request.param == "lock file":
        (tmp_path / "box.lock").touch()
        yield path
        return
    script = "import fcntl, sys; f = open(sys.argv[1], 'r+'); getattr(fcntl, sys.argv[2])(f, fcntl.LOCK_EX); print(flush=True); input()"
    command = [sys.executable, "-c", script, str(path), request.param]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield path
        process.stdin.close()


def test_the_last_message_of_a_locked_mbox_is_not_read(locked_box):
    *whole, error = contents(locked_box)
    assert whole == [MAIL + b"\n"] * 2
    assert isinstance(error, CorpusError)
    assert "locked" in str(error)


class Writer:
    """A program that appends a block to a file whenever the reader waits, without a lock."""

    def __init__(self, path, blocks):
        self.path, self.blocks, self.now, self.waits = path, list(blocks), 0.0, 0

    def monotonic(self):
        return self.now

    def time(self):
        return os.stat(self.path).st_mtime

    def sleep(self, seconds):
        self.now += seconds
        self.waits += 1
        if self.blocks:
            with open(self.path, "ab") as file:
                file.write(self.blocks.pop(0))


@pytest.mark.parametrize(
    ("beginning", "blocks", "count"),
    [
        (SEPARATOR + MAIL[:30], [MAIL[30:]], None),
        (SEPARATOR + MAIL[: MAIL.index(b"\n\n") + 2], [b"the body"], None),
        (SEPARATOR + MAIL, [b"and more text\n"], None),
        (SEPARATOR + MAIL, [b"\n" + SEPARATOR + MAIL], 1),
        (SEPARATOR + MAIL, [], 1),
        (SEPARATOR + MAIL + b"\n", [], 1),
        (SEPARATOR + MAIL + b"\n", [b"a second paragraph\n"], None),
        (SEPARATOR + with_length(b"hello\n", 6), None, 1),
        (b"\1\1\1\1\n" + MAIL + b"\1\1\1\1\n", None, 1),
    ],
    ids=[
        "header",
        "body",
        "text",
        "another message",
        "quiet",
        "empty line",
        "paragraph",
        "length",
        "MMDF",
    ],
)
def test_a_message_that_is_being_written_is_not_read(
    tmp_path, monkeypatch, beginning, blocks, count
):
    path = tmp_path / "box"
    path.write_bytes(SEPARATOR + MAIL + b"\n" + beginning if beginning[0] != 1 else beginning)
    writer = Writer(path, blocks or ())
    monkeypatch.setattr(streamnb.corpus.mbox, "time", writer)
    mails = contents(path)
    assert (writer.waits == 0) == (blocks is None)
    if count is None:
        *mails, error = mails
        assert "is writing to it" in str(error)
    assert len(mails) == (count or 0) + (beginning[0] != 1)


def test_an_old_lock_file_locks_nothing(tmp_path):
    (tmp_path / "box").write_bytes(SEPARATOR + MAIL)
    (tmp_path / "box.lock").touch()
    os.utime(tmp_path / "box.lock", (1e9, 1e9))
    assert contents(tmp_path / "box") == [MAIL]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_mmdf_files_are_read(tmp_path, count, line_end):
    mails = [MAIL.replace(b"hi", b"%d" % i).replace(b"\n", line_end) for i in range(count)]
    mark = b"\1\1\1\1" + line_end
    (tmp_path / "box").write_bytes(b"".join(mark + mail + mark for mail in mails))
    assert contents(tmp_path / "box") == mails


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("hidden", [b"", b"Summary-line: x\nReceived: y\n\n"])
def test_babyl_files_are_read(tmp_path, hidden, line_end):
    mails = [MAIL.replace(b"hi", b"%d" % i) for i in range(3)]
    options = b"BABYL OPTIONS: -*- rmail -*-\nVersion: 5\nLabels:\n\x1f"
    pieces = (b"\f\n1, answered,,\n%b*** EOOH ***\n%b\x1f" % (hidden, mail) for mail in mails)
    box = options + b"".join(pieces)
    (tmp_path / "box").write_bytes(box.replace(b"\n", line_end))
    assert contents(tmp_path / "box") == [mail.replace(b"\n", line_end) for mail in mails]


def test_a_babyl_file_without_messages_is_an_error(tmp_path):
    (tmp_path / "box").write_bytes(b"BABYL OPTIONS: -*- rmail -*-\nVersion: 5\n\x1f")
    (error,) = contents(tmp_path / "box")
    assert "a Babyl file with '*** EOOH ***'" in str(error)


@pytest.mark.parametrize("separator", [
    b"From a@b Mon Jan  1 00:00:00 2024", b"From a at b.example  Mon Jan  1 00:00:00 2024",
    b"From Kamil <k@v.info>  Wed Jan  2 16:34:35 2019", b"From jwz Fri, Jul 01 09:13:09 1994",
    b"From a@b Fri Jul  1 09:13:09 1994 (+0700)", b"From a@b Fri Jul  1 09:13:09 1994 PST",
    b"From a Mon Jan  1 00:00:00 2024 remote from host",
])  # fmt: skip
def test_a_complete_separator_needs_no_blank_line(tmp_path, separator):
    mails = [MAIL.replace(b"hi", b"%d" % i) for i in range(3)]
    (tmp_path / "box").write_bytes(b"".join(separator + b"\n" + mail for mail in mails))
    assert contents(tmp_path / "box") == mails


@pytest.mark.parametrize("gap", [b"", b"\n", b"\n\n"])
def test_mmdf_files_with_separators_and_empty_lines_are_read(tmp_path, gap):
    mails = [SEPARATOR + MAIL.replace(b"hi", b"%d" % i) for i in range(3)]
    mark = b"\1\1\1\1\n"
    (tmp_path / "box").write_bytes(b"".join(mark + mail + mark + gap for mail in mails))
    assert contents(tmp_path / "box") == mails


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(
    ("field", "is_deleted"),
    [
        (b"X-Mozilla-Status: 0009", True), (b"X-Mozilla-Status: 0008", True),
        (b"x-mozilla-status: 001F", True), (b"X-Mozilla-Status: 0001", False),
        (b"X-Mozilla-Status2: 00000008", False), (b"X-Status: AD", True), (b"X-Status: A", False),
        (b"Status: RO", False),
    ],
)  # fmt: skip
def test_deleted_messages_of_an_mbox_are_left_out(tmp_path, field, is_deleted, line_end):
    mails = [MAIL.replace(b"hi", b"%d" % i) for i in range(3)]
    mails[1] = field + b"\n" + mails[1]
    mails = [mail.replace(b"\n", line_end) for mail in mails]
    (tmp_path / "box").write_bytes(b"".join(SEPARATOR + mail + line_end for mail in mails))
    assert len(contents(tmp_path / "box")) == 3 - is_deleted
    many = b"".join(b"X-Received: %d\n" % i for i in range(2_000))  # mail servers write them first
    mail = MAIL.replace(b"\n\n", b"\n" + many + field + b"\n\n")
    (tmp_path / "box").write_bytes(
        (SEPARATOR + mail + b"\n" + SEPARATOR + MAIL).replace(b"\n", line_end)
    )
    assert len(contents(tmp_path / "box")) == 2 - is_deleted
    body = MAIL + field + b"\n"  # the same line in a body is text
    (tmp_path / "box").write_bytes(SEPARATOR + body + b"\n" + SEPARATOR + MAIL + b"\n")
    assert len(contents(tmp_path / "box")) == 2


COMPRESSORS = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


def maildir(tmp_path, content):
    for part in ("cur", "new", "tmp"):
        (tmp_path / "Maildir" / part).mkdir(parents=True)
    (tmp_path / "Maildir" / "cur" / "1.a,S=99:2,S").write_bytes(content)
    return tmp_path / "Maildir"


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("size", [1, 20_000])
def test_compressed_messages_are_read(tmp_path, kind, size):
    mail = MAIL + bytes(range(33, 126)) * size
    path = maildir(tmp_path, COMPRESSORS[kind](mail))
    assert contents(path) == [mail]
    account = MaildirAccount(str(path))
    (uid,) = account.list_messages("INBOX")
    assert account.fetch_message("INBOX", uid) == mail
    assert mail.startswith(account.fetch_headers("INBOX", [uid])[uid])


@pytest.mark.parametrize(
    "encode", [*COMPRESSORS.values(), lambda box: box.decode().encode("utf-16")]
)
@pytest.mark.parametrize("size", [1, 400_000])  # bzip2 gives nothing before the end of a block
def test_an_encoded_mbox_is_read_as_the_plain_one(tmp_path, monkeypatch, encode, size):
    noise = random.Random(1).randbytes(size).hex().encode()
    box = SEPARATOR + MAIL + b"\n" + SEPARATOR + MAIL + noise + b"\n"
    (tmp_path / "box").write_bytes(box)
    expected = contents(tmp_path / "box")
    assert len(expected) == 2
    encoded = encode(box)
    (tmp_path / "box").write_bytes(encoded)
    assert contents(tmp_path) == expected
    assert [item.name.rpartition("/")[2] for item in messages(str(tmp_path))] == ["box:1", "box:2"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(encoded)))
    assert contents("-") == expected


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_damaged_mbox_is_an_error_that_names_it(tmp_path, kind):
    box = (
        SEPARATOR
        + MAIL
        + b"\n"
        + SEPARATOR
        + MAIL
        + random.Random(1).randbytes(10**6).hex().encode()
    )
    (tmp_path / "box").write_bytes(COMPRESSORS[kind](box)[:-500])
    (error,) = contents(tmp_path / "box")
    assert str(error).startswith(f"{tmp_path}/box: ")


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_streams_that_a_program_appended_are_read(tmp_path, kind):
    head, tail = (COMPRESSORS[kind](part) for part in (MAIL[:20], MAIL[20:]))
    (tmp_path / "1.eml").write_bytes(head + tail)
    assert contents(tmp_path / "1.eml") == [MAIL]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compressed_messages_have_different_headers(tmp_path, kind):
    noise = random.Random(1).randbytes(400_000).hex().encode()
    path = maildir(tmp_path, COMPRESSORS[kind](MAIL + noise))
    account = MaildirAccount(str(path))
    (uid,) = account.list_messages("INBOX")
    assert account.fetch_headers("INBOX", [uid])[uid].startswith(MAIL)


def test_a_tar_archive_of_a_maildir_is_binary():
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("1.host:2,S")
        member.size = len(MAIL)
        tar.addfile(member, io.BytesIO(MAIL))
    assert sources.describe_binary(archive.getvalue()) == "an archive; unpack it"


def test_a_small_file_with_a_huge_message_is_cut(tmp_path, monkeypatch):
    path = maildir(tmp_path, gzip.compress(MAIL + bytes(3_000_000)))
    monkeypatch.setattr("streamnb.mailbox.sources._read.__defaults__", (1 << 20,))
    assert [len(content) for content in contents(path)] == [1 << 20]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\x1f\x8b\x08\0damaged" * 9, "damaged gzip data"),
        (b"\x28\xb5\x2f\xfd\0\0", "zstd compression"),
        (b"Dovecot-LZ4\r*\x9b\xc5\0", "lz4 compression"),
    ],
)
def test_an_error_names_the_type_of_compressed_data(tmp_path, content, reason):
    (error,) = contents(maildir(tmp_path, content))
    assert isinstance(error, CorpusError)
    assert reason in str(error)


@pytest.mark.parametrize("mails", [1, 3])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_standard_input_is_read_as_a_file_is(tmp_path, monkeypatch, mails, end):
    box = (SEPARATOR + MAIL + b"\n").replace(b"\n", end) * mails
    (tmp_path / "box").write_bytes(box)
    for data, expected in (
        (box, contents(tmp_path / "box")),
        (MAIL, [MAIL]),
        (gzip.compress(MAIL), [MAIL]),
    ):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert contents("-") == expected


@pytest.mark.parametrize("status", ["read", "delivered", "Deferred", "OR", "O read D"])
def test_a_word_in_the_status_is_not_a_mark_of_deletion(tmp_path, status):
    message = f"From a@b Mon Jan  1 00:00:00 2024\nSubject: %d\nX-Status: {status}\n\nhello\n\n"
    (tmp_path / "box").write_text(message % 1 + message % 2)
    assert len(list(messages(str(tmp_path / "box")))) == 2


@pytest.mark.parametrize("mark", ["X-Status: D", "X-Status: AD", "X-Mozilla-Status: 0009"])
def test_deleted_messages_are_left_out_of_an_mbox_only(tmp_path, mark):
    deleted = f"From a@b Mon Jan  1 00:00:00 2024\nSubject: x\n{mark}\n\nhello\n\n"
    whole = "From a@b Mon Jan  1 00:00:00 2024\nSubject: y\n\nhello\n\n"
    box = tmp_path / "box"
    for text, expected in ((deleted, 1), (deleted + whole, 1), (whole + deleted + whole, 2)):
        box.write_text(text)
        results = list(messages(str(box)))
        assert [isinstance(message.content, bytes) for message in results] == [True] * expected
    box.write_text(deleted * 2)
    (only,) = messages(str(box))
    assert "all messages are marked as deleted" in str(only.content)
