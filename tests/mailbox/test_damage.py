"""Damage, faults and kills: nothing is lost, and an error of one line names the cause."""

import contextlib
import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import streamnb_command
from mailboxes import HAM, SPAM, damage, exported, mails

from streamnb import Mailbox, MailClassifier
from streamnb.corpus import open_corpus, read
from streamnb.errors import BusyError, DamagedDatabaseError, OutputError, StateError
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.recover import recover
from streamnb.mailbox.status import check_file, status
from streamnb.mailbox.transfer.formats import export, merge
from streamnb.mailbox.verdict_log import LogLimits, VerdictLog
from streamnb.mailbox.watch.locations import LocationTable, MessageLocation


def test_a_database_that_was_removed_learns_nothing_more(box):
    box.learn(SPAM, "spam")
    os.unlink(box.path)
    with pytest.raises(StateError, match="removed or replaced"):
        box.learn(HAM, "ham")


def test_verify_finds_changed_rows(sample, box):
    for content, label in mails(sample, 30):
        box.learn(content, label)
    with box.database.writing() as connection:
        connection.execute("DELETE FROM ledger WHERE id = 23")
    problems = box.verify()
    assert any("view 0, class" in line for line in problems)
    assert any("recalibration" in line for line in problems)
    with box.database.writing() as connection:
        connection.execute("UPDATE ledger SET tokens = x'01ff' WHERE id = 4")
    assert "row 4 of the ledger" in box.verify()[0]


def test_each_missing_table_and_column_is_reported(tmp_path):
    with Mailbox(tmp_path / "complete.db") as box:
        box.learn(SPAM, "spam")
        columns = box.database.columns()
    for table, column in sorted(columns):
        for part, statement in (
            (table, f"DROP TABLE {table}"),
            (f"{table}.{column}", f"ALTER TABLE {table} RENAME {column} TO x"),
        ):
            path = tmp_path / f"{part}.db"
            shutil.copy(tmp_path / "complete.db", path)
            with Mailbox(path) as box:
                box.database.connection.execute(statement)
                with pytest.raises(DamagedDatabaseError, match=rf"lacks {part}; restore it from"):
                    check_file(box)


def changed_by(*statements):
    """Return a function that makes a database and changes it."""

    def make(path):
        Mailbox(path).close()
        damage(path, *statements)

    return make


# SQLite quotes the damaged text, which Python's module cannot decode.
NO_TEXT = "UPDATE sqlite_master SET sql = CAST(x'fffefdfc' AS TEXT)"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (changed_by("PRAGMA writable_schema = ON", NO_TEXT), "damaged one"),
        (lambda path: path.write_bytes(b"hello" * 1000), "not a streamnb database, or a damaged"),
        (lambda path: damage(path, "CREATE TABLE x(y)"), "another program"),
        (changed_by("PRAGMA user_version = 99"), "version 99"),
        (changed_by("DELETE FROM state WHERE name = 'classifier'"), "no state"),
        (
            changed_by("UPDATE state SET value = '{\"x\": 1}' WHERE name = 'identity'"),
            "damaged: its model",
        ),
        (lambda path: path.mkdir(), "not a regular file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
    ],
)
def test_foreign_and_damaged_files_are_refused_in_one_line(tmp_path, make, reason):
    make(tmp_path / "db")
    with pytest.raises(StateError, match=reason) as caught:
        Mailbox(tmp_path / "db")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "db") in str(caught.value)


def test_a_file_that_was_begun_and_not_made_is_made(tmp_path):
    (tmp_path / "db").touch()
    with Mailbox(tmp_path / "db") as box:
        assert box.learn(SPAM, "spam").result == "learned"


def test_a_failing_transaction_leaves_nothing(box, monkeypatch):
    box.learn(SPAM, "spam")
    before = exported(box)
    monkeypatch.setattr(box.ledger, "write", lambda row: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        box.learn(HAM, "ham")
    monkeypatch.undo()
    assert exported(box) == before
    assert box.learn(HAM, "ham").result == "learned"
    assert box.verify() == []


WRITER = """
import sys
from streamnb import Mailbox, MailClassifier
from streamnb.corpus import open_corpus, read
box = Mailbox(sys.argv[1], wait=60)
print("ready", flush=True)
for i, entry in enumerate(open_corpus(sys.argv[2])):
    if i % 2 == int(sys.argv[3]):
        box.learn(read(entry), entry.label)
        print(entry.name, flush=True)
"""


@pytest.mark.parametrize("after", [5, 17, 30])
def test_acknowledged_messages_survive_a_kill(sample, tmp_path, after):
    """(`tests/endurance/kills.py` does this hundreds of times.)"""
    path = tmp_path / "db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, path, sample, str(i)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    acknowledged = [[writer.stdout.readline() for _ in range(after)] for writer in writers]
    for writer in writers:
        writer.kill()
    acknowledged = [
        [*lines, *writer.stdout] for lines, writer in zip(acknowledged, writers, strict=True)
    ]
    for writer in writers:
        writer.wait()
        writer.stdout.close()
    with Mailbox(path) as box:
        assert box.verify() == []
        labels = {entry.name: entry for entry in open_corpus(sample)}
        for name in (
            line.strip() for lines in acknowledged for line in lines[1:] if line.endswith("\n")
        ):
            assert box.label_of(digest(read(labels[name])))[0] == labels[name].label


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from streamnb import Mailbox, MailClassifier
from streamnb.corpus import open_corpus, read
from streamnb.errors import StreamNBError
box = Mailbox(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
for entry in open_corpus(sys.argv[2]):
    try:
        box.learn(read(entry), entry.label)
    except StreamNBError as error:
        print("error", error, flush=True)
        break
    print(entry.name, flush=True)
"""


def test_a_full_disk_loses_nothing_that_was_acknowledged(sample, tmp_path):
    out = subprocess.run(
        [sys.executable, "-P", "-c", FULL, tmp_path / "db", sample],
        capture_output=True,
        text=True,
        check=False,
    )
    *acknowledged, error = out.stdout.splitlines()
    assert error.startswith("error")
    assert "disk" in error
    assert "Traceback" not in out.stderr
    with Mailbox(tmp_path / "db") as box:
        assert box.verify() == []
        assert len(acknowledged) == sum(box.counts[0].weights) > 3
        assert box.learn(SPAM, "spam").result == "learned"


EDITS = [
    "UPDATE ledger SET tokens = x'00'", "UPDATE ledger SET label = 99", "UPDATE ledger SET label = 'x'",
    "UPDATE ledger SET receipt = '[]'", "UPDATE ledger SET receipt = 'null'", "UPDATE ledger SET time = 'x'",
    "UPDATE ledger SET labelled_by = 'x'", "UPDATE ledger SET predicted = 99", "UPDATE ledger SET digest = 'x' WHERE id = 1",
    "UPDATE state SET value = '[]' WHERE name = 'classifier'", "UPDATE state SET value = '{' WHERE name = 'classifier'",
    "UPDATE blocks_0 SET cells = 'x'", "UPDATE blocks_0 SET cells = x'00'", "DELETE FROM blocks_0",
    "UPDATE features_0 SET place = 10000000", "UPDATE features_0 SET place = -1",
    "UPDATE state SET value = replace(value, '\"features\":', '\"features\":1') WHERE name = 'classifier'",
    "DROP TABLE features_1", "DELETE FROM state", "UPDATE features_0 SET place = zeroblob(8)",
    "UPDATE features_0 SET place = 'x'", "UPDATE features_0 SET name = 'x'",
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_damage_is_found_and_reported_in_one_line(sample, tmp_path, edit):
    with Mailbox(tmp_path / "db") as box:
        for content, label in mails(sample, 12):
            box.learn(content, label)
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute(edit)
    connection.commit()
    connection.close()
    uses = (
        lambda box: box.classify(SPAM), lambda box: box.learn(SPAM, "spam"), status,
        lambda box: box.forget(mails(sample, 1)[0][0]), exported, lambda box: compact(box),
        lambda box: export(box, str(tmp_path / "dump"), "bogofilter"),
        lambda box: box.undo(0),
    )  # fmt: skip
    is_reported = False
    try:
        with Mailbox(tmp_path / "db") as box:
            is_reported = box.verify() != []
    except StateError as error:
        is_reported = "\n" not in str(error)
    assert is_reported
    reports = []
    for use in uses:
        try:
            with Mailbox(tmp_path / "db") as box:
                use(box)
        except StateError as error:
            reports.append(str(error))
    assert not any("\n" in line for line in reports)


def learn_ten(path):
    with Mailbox(path) as mailbox:
        for n in range(10):
            mailbox.learn(b"Subject: %d\n\nword%d" % (n, n), ["spam", "ham"][n % 2])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blocks_0 SET cells = x'00' WHERE block = 0",
        "DROP TABLE blocks_1",
        "UPDATE ledger SET receipt = 'x' WHERE id = 4",
        "UPDATE ledger SET tokens = x'02ff' WHERE id = 4",
        "UPDATE state SET value = '{' WHERE name = 'classifier'",
        "DROP TABLE features_0",
        "UPDATE ledger SET removed_at = 'x' WHERE id = 4",
        "UPDATE ledger SET removed_at = -1 WHERE id = 4",
        "UPDATE ledger SET removed_at = 1e400 WHERE id = 4",
    ],
)
def test_undamaged_rows_of_a_damaged_database_are_recovered(tmp_path, statement):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    learn_ten(path)
    damage(path, statement)
    assert streamnb_command("verify", "--db", path)[0] == 4
    classes = ["--class", "spam", "--class", "ham"] if "state" in statement else []
    status, out, error = streamnb_command("recover", new, "--db", path, *classes)
    lost = "ledger" in statement
    may_lose = lost or "features" in statement
    assert (status, "left out" in error) == ((4, True) if may_lose else (0, False))
    assert f"{10 - lost} messages copied" in out
    with Mailbox(new) as mailbox:
        assert mailbox.verify() == []
        assert mailbox.labels == ["spam", "ham"]
    assert streamnb_command("recover", new, "--db", path)[0] == 4  # it exists already


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sqlite_sequence SET seq = 1000000000000",
        "UPDATE sqlite_sequence SET seq = 1e400",
        "UPDATE ledger SET id = 1000000000000 WHERE id = 4",
        "UPDATE ledger SET id = -1 WHERE id = 4",
    ],
)
def test_recover_does_not_trust_numbers(tmp_path, statement):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    learn_ten(path)
    damage(path, statement)
    assert recover(path, new) == (10, [])


@pytest.mark.parametrize("is_empty", [False, True])
def test_recover_requests_names_of_classes_only_if_rows_can_be_read(tmp_path, is_empty):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    learn_ten(path)
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: more\n\nmore spam", "spam")
    damage(path, "UPDATE state SET value = '{' WHERE name = 'classifier'")
    if is_empty:
        damage(path, "UPDATE ledger SET receipt = 'x'")
    status, _, error = streamnb_command("recover", new, "--db", path)
    assert (status, error.count("\n")) == (4, 1)
    assert ("--class" in error, "the numbers of their readable messages are 6, 5" in error) == (
        not is_empty, not is_empty
    )  # fmt: skip
    assert ("no database was created" in error) == is_empty
    assert not new.exists()


def lost_pages(path, every):
    """Databases of sixty messages, each with another lost page."""
    with Mailbox(path) as mailbox:
        for n in range(60):
            mailbox.learn(b"Subject: %d\n\n" % n + b"word%d " % n * 30, ["spam", "ham"][n % 2])
        mailbox.database.shrink()
    sound, size = path.read_bytes(), 2048
    for page in range(1, len(sound) // size, every):
        path.write_bytes(sound[: page * size] + b"\xff" * size + sound[(page + 1) * size :])
        yield page


@pytest.mark.parametrize("every", [7, 1])
def test_a_page_that_is_lost_takes_few_rows_with_it(tmp_path, every):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    all_of_it = []  # pages without which no row is found: schema (2), root of the ledger
    for page in lost_pages(path, every):
        try:
            done = recover(path, new, ["spam", "ham"])
        except StateError:
            all_of_it.append(page)
            assert os.listdir(tmp_path) == ["a.db"]
            continue
        assert done.rows_added == 60 or (done.losses and done.rows_added > 40)
        with Mailbox(new) as mailbox:
            assert mailbox.verify() == []
        new.unlink()
    assert len(all_of_it) <= 3


@pytest.mark.parametrize(
    "statement", ["DELETE FROM state WHERE name = 'identity'", "DELETE FROM state_copy"]
)
def test_either_description_of_the_classifier_is_enough_to_recover(tmp_path, statement):
    learn_ten(tmp_path / "a.db")
    damage(tmp_path / "a.db", statement)
    assert recover(tmp_path / "a.db", tmp_path / "new.db") == (10, [])


@pytest.mark.parametrize(("is_compacted", "kept_of_half"), [(False, 20), (True, 15)])
def test_a_truncated_database_keeps_the_rows_of_its_whole_pages(
    tmp_path, is_compacted, kept_of_half
):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    with Mailbox(path) as mailbox:
        for n in range(60):
            mailbox.learn(b"Subject: %d\n\n" % n + b"word%d " % n * 30, ["spam", "ham"][n % 2])
        if is_compacted:
            compact(mailbox, rare_days=None)
    content = path.read_bytes()
    rows_kept = []
    for eighths in range(1, 9):
        path.write_bytes(content[: len(content) * eighths // 8])
        try:
            rescued = recover(path, new, ["spam", "ham"])
        except StateError:
            rows_kept.append(0)
            continue
        rows_kept.append(rescued.rows_added)
        assert rescued.rows_added == 60 or rescued.losses
        with Mailbox(new) as mailbox:
            assert mailbox.verify() == []
        new.unlink()
    assert rows_kept == sorted(rows_kept)
    assert rows_kept[3] > kept_of_half
    assert rows_kept[5] > 35
    assert rows_kept[7] == 60


def test_a_database_with_two_hard_links_is_refused(tmp_path):
    learn_ten(tmp_path / "a.db")
    os.link(tmp_path / "a.db", tmp_path / "b.db")
    for name in ("a.db", "b.db"):
        status, _, error = streamnb_command("status", "--db", tmp_path / name)
        assert (status, error.count("\n"), "2 hard links" in error) == (4, 1, True)
    (tmp_path / "b.db").unlink()
    (tmp_path / "b.db").symlink_to("a.db")
    assert streamnb_command("status", "--db", tmp_path / "b.db")[0] == 0


def test_merging_names_the_database_whose_page_cannot_be_read(tmp_path):
    path, target = tmp_path / "a.db", tmp_path / "b.db"
    reports = []
    for _ in lost_pages(path, 3):
        with Mailbox(target) as mailbox:
            try:
                with Mailbox(path) as other:
                    merge(mailbox, other)
            except StateError as error:
                reports.append(str(error))
        for ending in ("", "-wal", "-shm"):
            Path(f"{target}{ending}").unlink(missing_ok=True)
    assert len(reports) > 10
    assert {text.split(":")[0] for text in reports} == {str(path)}


def test_status_of_a_ledger_with_text_that_is_none(tmp_path):
    path = tmp_path / "a.db"
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
    for statement in (
        "UPDATE ledger SET labelled_by = x'00ff'",
        "UPDATE ledger SET source = x'00ff'",
    ):
        damage(path, statement)
        status, _, error = streamnb_command("status", "--db", path)
        assert (status, error.count("\n")) == (4, 1)
    damage(path, "UPDATE state SET value = CAST(x'ff00' AS TEXT)")
    for command in ("status", "verify"):
        status, _, error = streamnb_command(command, "--db", path)
        assert (status, "Traceback" in error) == (4, False)


def test_recover_keeps_settings_and_the_locations_of_watched_mail(tmp_path):
    path = tmp_path / "a.db"
    learn_ten(path)
    location = MessageLocation("INBOX", "1", b"key", "", None, 1.0, None)
    with Mailbox(path) as mailbox:
        VerdictLog(mailbox).limit(LogLimits(0, 3.0))
        LocationTable(mailbox.database, "maildir:/m").put_all([location], "INBOX")
    recover(str(path), str(tmp_path / "new.db"))
    with Mailbox(tmp_path / "new.db") as mailbox:
        assert VerdictLog(mailbox).limits == LogLimits(0, 3.0)
        places = LocationTable(mailbox.database, "maildir:/m")
        assert places.was_listed("INBOX")
        assert places.in_folder("INBOX") == {"1": location}
    damage(path, "DROP TABLE watched")
    losses = recover(str(path), str(tmp_path / "other.db")).losses
    assert losses == ["the locations of messages in watched folders"]


def test_an_error_names_the_file_beside_a_database(box, monkeypatch):
    box.learn(SPAM, "spam")
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY
    assert "attempt to write a readonly" in str(box.database._convert_error(error))
    access = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: not str(path).endswith("-shm") and access(path, mode)
    )
    expected = f"{box.path}-shm is read-only (chmod u+w); allow this user"
    assert expected in str(box.database._convert_error(error))


def test_a_lack_of_descriptors_is_not_a_lack_of_permissions(tmp_path):
    path = tmp_path / "mail.db"
    Mailbox(path).close()
    program = (
        "import os, resource, sys\n"
        "from streamnb import Mailbox\n"
        "with Mailbox(sys.argv[1]) as box: box.learn(b'Subject: y', 'ham')\n"  # imports all modules
        "used = max(map(int, os.listdir('/dev/fd'))) + 1\n"
        "for free in range(6):\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (used + free, 4096))\n"
        "    try:\n"
        "        with Mailbox(sys.argv[1]) as box: box.learn(b'Subject: x\\n\\nx', 'ham')\n"
        "    except Exception as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, path], capture_output=True, text=True, check=True
    )
    errors = done.stdout.splitlines()
    assert len(errors) >= 2
    assert [error for error in errors if "Too many open files" not in error] == []


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_recover_works_on_a_file_system_without_hard_links(tmp_path, monkeypatch, number):
    def link(*_):
        raise OSError(number, "no links")

    learn_ten(tmp_path / "a.db")
    monkeypatch.setattr(os, "link", link)
    assert recover(tmp_path / "a.db", tmp_path / "new.db").rows_added == 10
    assert sorted(path.name for path in tmp_path.glob("new*")) == ["new.db"]


def test_recover_creates_no_database_without_a_readable_row(tmp_path):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
    damage(path, "UPDATE state SET value = '{' WHERE name = 'classifier'")
    status, _, error = streamnb_command("recover", new, "--db", path)
    assert (status, "--class" in error) == (4, True)
    damage(
        path,
        "UPDATE state SET value = '{' WHERE name = 'identity'",
        "UPDATE state_copy SET value = '{'",
    )
    status, _, error = streamnb_command("recover", new, "--db", path)
    assert (status, "nothing can be recovered" in error) == (4, True)
    assert os.listdir(tmp_path) == ["a.db"]


@pytest.mark.parametrize("tail", [b"", b"\xa5" * 1900], ids=["missing", "damaged"])
def test_recover_is_no_remedy_for_a_file_without_its_tables(tmp_path, tail):
    path = tmp_path / "mail.db"
    with Mailbox(path) as box:
        box.learn(b"Subject: a\n\nb\n", "spam")
    content = path.read_bytes()  # the first page has the tables' names after its header
    path.write_bytes(content[:100] + tail + (tail and content[100 + len(tail) :]))
    for act in (lambda: recover(path, tmp_path / "new.db"), lambda: Mailbox(path)):
        with pytest.raises(StateError, match="learn its mail again") as caught:
            act()
        assert "streamnb recover" not in str(caught.value)


def test_recover_refuses_a_ledger_without_rows(tmp_path):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
    damage(path, "DELETE FROM ledger")
    with pytest.raises(StateError, match="has no rows to copy"):
        recover(path, new)
    assert os.listdir(tmp_path) == ["a.db"]


def test_unknown_errors_of_sqlite_are_not_reported_as_damage(tmp_path):
    with (
        Mailbox(tmp_path / "mail.db") as mailbox,
        pytest.raises(sqlite3.OperationalError),
        mailbox.database.reading() as connection,
    ):
        connection.execute("SELECT nonsense(")


@pytest.mark.parametrize("position", [0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
def test_status_reports_a_damaged_page(tmp_path, position):
    path = tmp_path / "a.db"
    learn_ten(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")  # a free page can be damaged without loss
    content = path.read_bytes()
    page = int(len(content) / 2048 * position)
    path.write_bytes(content[: page * 2048] + b"\xff" * 2048 + content[(page + 1) * 2048 :])
    status, _, error = streamnb_command("status", "--db", path)
    assert (status, error.count("\n"), "damaged" in error) == (4, 1, True)
    assert "***" not in error
    path.write_bytes(content[: page * 2048])
    status, _, error = streamnb_command("status", "--db", path)
    assert (status, error.count("\n")) == (4, 1)
    path.write_bytes(content)
    assert streamnb_command("status", "--db", path)[0] == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can make a folder of another user")
@pytest.mark.parametrize("command", ["learn", "recover"])
@pytest.mark.parametrize("owner", [0, 12345])
def test_commands_of_root_warn_of_a_file_in_the_folder_of_a_user(tmp_path, command, owner):
    folder, message = tmp_path / "folder", tmp_path / "message"
    folder.mkdir()
    os.chown(folder, owner, owner)
    message.write_bytes(SPAM)
    path = folder / "new.db"
    learn_ten(tmp_path / "old.db")
    arguments = {
        "learn": ("learn", "spam", message, "--db", path),
        "recover": ("recover", path, "--db", tmp_path / "old.db"),
    }[command]
    status, _, error = streamnb_command(*arguments)
    assert status == 0
    assert (f"chown {owner} {path}" in error) == (owner != 0)
    if command == "learn":
        assert "chown" not in streamnb_command(*arguments)[2]


def test_an_interrupted_reordering_of_tables_leaves_a_sound_database(tmp_path):
    learn_ten(tmp_path / "a.db")
    with Mailbox(tmp_path / "a.db") as reader, Mailbox(tmp_path / "a.db") as mailbox:
        run = mailbox.database.connection.execute
        run("PRAGMA writable_schema = ON")
        run("UPDATE sqlite_schema SET rowid = -rootpage WHERE name GLOB 'blocks_[0-9]*'")
        assert reader.verify() == []
        with Mailbox(tmp_path / "a.db") as later:
            assert later.learn(b"Subject: new\n\nword", "spam").result == "learned"
            assert later.verify() == reader.verify() == []
            compact(later)
            assert later.verify() == reader.verify() == []


def waiting_learner(box, writer):
    """Start a thread that learns SPAM, and return it when it waits for the other writer."""
    writer.execute("BEGIN IMMEDIATE")
    learning = threading.Thread(target=box.learn, args=(SPAM, "spam"))
    is_waiting = threading.Event()
    begin = box.database._begin

    def begin_and_notify(writes, durable):
        is_begun = begin(writes, durable)
        is_waiting.set()
        return is_begun

    box.database._begin = begin_and_notify
    learning.start()
    assert is_waiting.wait(60)
    return learning


def test_a_waiting_thread_writes_before_the_database_is_closed(tmp_path):
    path = tmp_path / "a.db"
    learn_ten(path)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        box = Mailbox(path, wait=60)
        learning = waiting_learner(box, writer)
        closing = threading.Thread(target=box.close)
        closing.start()
        closing.join(0.1)
        assert closing.is_alive()
        writer.execute("ROLLBACK")
        closing.join()
        learning.join()
    with Mailbox(path) as box:
        assert box.label_of(digest(SPAM))[0] == "spam"


def test_threads_read_while_another_one_waits_for_a_lock(tmp_path):
    path = tmp_path / "a.db"
    learn_ten(path)
    with (
        Mailbox(path, wait=60) as box,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer,
    ):
        learning = waiting_learner(box, writer)
        assert box.classify(HAM).label is not None
        assert learning.is_alive()
        writer.execute("ROLLBACK")
        learning.join()
        assert box.label_of(digest(SPAM))[0] == "spam"


def test_a_lock_is_waited_for_only_as_long_as_requested(tmp_path):
    with (
        Mailbox(tmp_path / "a.db", wait=60) as box,
        contextlib.closing(sqlite3.connect(box.path, isolation_level=None)) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")
        with (
            pytest.raises(BusyError, match=r"another process .* waited 0\.1 s"),
            box.database.writing(durable=False, wait=0.1),
        ):
            pass
        writer.execute("ROLLBACK")
        box.learn(SPAM, "spam")
        assert box.database.connection.execute("PRAGMA synchronous").fetchone() == (2,)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_path_without_access_is_not_a_replaced_database(box, monkeypatch, number):
    def stat(path, *arguments, **options):
        raise OSError(number, os.strerror(number), path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        with pytest.raises(OutputError, match=f"{os.strerror(number)}; allow this user to enter"):
            box.learn(SPAM, "spam")
    assert box.learn(SPAM, "spam").result == "learned"


def test_a_read_only_file_system_is_named(box, monkeypatch):
    status = SimpleNamespace(f_flag=os.ST_RDONLY)
    monkeypatch.setattr(os, "statvfs", lambda path: status)
    box.database.connection.execute("PRAGMA query_only = ON")  # the error of such a file system
    with pytest.raises(OutputError, match=r"its file system is read-only; mount it read-write"):
        box.learn(SPAM, "spam")


def test_parameters_that_are_set_outside_of_a_transaction_are_not_stored(tmp_path):
    with Mailbox(tmp_path / "a.db") as box:
        for number in range(6):
            box.learn(b"Subject: %d\n\nx y" % number, "ham" if number % 2 else "spam")
        box.classifier.model.rate = 0.1
        box.learn(b"Subject: new\n\nz", "spam")
        assert box.verify() == []
        assert box.classifier.model.rate == 0.15


def test_an_import_that_fails_leaves_no_classifier_in_memory(tmp_path, monkeypatch):
    Mailbox(tmp_path / "a.db").close()
    with Mailbox(tmp_path / "a.db") as box:
        store = box.database.store_value

        def fail(name, *arguments):
            if name == "identity":
                raise OutputError("the disk is full")
            return store(name, *arguments)

        monkeypatch.setattr(box.database, "store_value", fail)
        with pytest.raises(OutputError), box.importing(MailClassifier(positive="junk")):
            pass
        monkeypatch.setattr(box.database, "store_value", store)
        box.learn(SPAM, "spam")
        assert box.classifier.positive == "spam"
        assert box.verify() == []


def test_an_interrupt_while_waiting_leaves_the_lock_to_its_thread(tmp_path):
    path = tmp_path / "a.db"
    learn_ten(path)

    def interrupt():
        while not box.database._waiting:
            time.sleep(0.001)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with (
        Mailbox(path, wait=60) as box,
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer,
    ):
        writer.execute("BEGIN IMMEDIATE")
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            box.learn(SPAM, "spam")
        interrupting.join()
        writer.execute("ROLLBACK")
        assert box.classify(HAM).label is not None
        assert box.verify() == []
