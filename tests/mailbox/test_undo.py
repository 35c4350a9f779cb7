"""Undo and redo of learned messages."""

import json
import re
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta, timezone

import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st
from mailboxes import HAM, MESSAGES, SPAM, exported, mails

from streamnb import Mailbox, MailClassifier
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.service.response import judge
from streamnb.mailbox.status import status
from streamnb.mailbox.transfer.formats import export, import_file, merge
from streamnb.mailbox.undo import last_learned, redo
from streamnb.mailbox.verdict_log import VerdictLog


def test_undo_is_by_the_order_of_events_not_by_clocks(box):
    box.learn(SPAM, "spam", timestamp=10)
    before = exported(box)
    box.forget(SPAM, timestamp=100)
    box.learn(SPAM, "ham", timestamp=20)  # the clock was put back
    assert box.undo(50) == (1, 1, 0)
    assert exported(box) == before
    assert box.verify() == []


def test_an_undo_can_be_undone(box):
    box.learn(SPAM, "ham", timestamp=10)
    box.learn(HAM, "ham", timestamp=20)
    box.learn(SPAM, "spam", timestamp=30)  # a correction
    box.learn(HAM + b"?", "ham", timestamp=40)
    before = exported(box)
    assert last_learned(box) == 40
    assert last_learned(box, 2) == 30
    assert box.undo(30) == (2, 1, 0)
    assert box.label_of(digest(SPAM))[0] == "ham"
    assert redo(box) == (2, 1, 0)
    assert exported(box) == before
    assert box.verify() == []
    assert redo(box) == (0, 0, 0)  # once
    assert box.undo(30) == (2, 1, 0)
    box.learn(HAM + b"?", "spam")  # another label was set since
    box.learn(SPAM, "spam")
    assert redo(box) == (0, 0, 2)
    assert box.verify() == []
    box.undo(0)
    with box.importing(MailClassifier(preset="small", label_noise=0)):
        pass
    assert redo(box) == (0, 0, 0)  # of another kind of database


def test_a_redo_keeps_later_labels(box):
    box.learn(HAM, "ham", timestamp=10)
    box.learn(SPAM, "spam", timestamp=20)
    box.undo(15)
    box.learn(SPAM, "ham")
    later = time.time()
    box.forget(SPAM)
    assert redo(box) == (0, 0, 1)
    assert box.label_of(digest(SPAM)) is None
    box.undo(later)
    assert box.label_of(digest(SPAM))[0] == "ham"
    assert box.verify() == []


def test_taking_back_ends_somewhere(box):
    box.learn(SPAM, "spam")
    box.learn(SPAM, "ham")
    key = digest(SPAM)
    assert [box.retract(key).before for _ in range(3)] == ["ham", "spam", None]
    assert box.verify() == []


def test_dropped_messages_are_erased_without_changing_the_sums(box):
    box.learn(SPAM, "spam")
    box.learn(HAM, "ham")
    compact(box, rare_days=None, ledger=0)
    assert VerdictLog(box).erase([digest(SPAM)]) == 1
    assert box.label_of(digest(SPAM)) is None
    assert box.verify() == []


def test_the_last_lesson_is_one_also_where_the_clock_was_ahead(tmp_path, monkeypatch):
    real = time.time
    with Mailbox(tmp_path / "db") as box:
        box.learn_many([(SPAM, "spam"), (HAM, "ham")])
        monkeypatch.setattr(time, "time", lambda: real() + 3600)
        box.learn(MESSAGES[2], "spam")
        monkeypatch.undo()
        for message in MESSAGES[3:]:
            box.learn(message, "ham")
        box.learn_many([(SPAM, "ham"), (HAM, "spam")])
        box.forget(MESSAGES[3])
        before = exported(box)
        box.learn(MESSAGES[3], "spam")
        assert box.undo(last_learned(box)) == (1, 0, 0)
        assert exported(box) == before
        assert box.undo(last_learned(box)).unlearned == 2  # both of one call of learn_many
        assert box.label_of(digest(HAM))[0] == "ham"
        assert box.label_of(digest(SPAM))[0] == "spam"
        assert box.verify() == []


def test_undo_by_the_hour_where_the_clock_was_ahead_takes_back_that_hour(tmp_path, monkeypatch):
    real = time.time
    with Mailbox(tmp_path / "db") as box:
        monkeypatch.setattr(time, "time", lambda: real() + 86400 * 362)
        box.learn(b"Subject: first\n\nfuture", "ham")
        monkeypatch.setattr(time, "time", lambda: real() - 86400 * 3)
        for message in MESSAGES:
            box.learn(message, "spam")
        monkeypatch.undo()
        before = exported(box)
        box.learn(b"Subject: slip\n\noops", "spam")
    status, out, _ = streamnb_command("undo", "--since", "1h", "--db", tmp_path / "db")
    assert (status, out.partition(": ")[2]) == (0, "1 removed, 0 earlier ones restored\n")
    status, out, _ = streamnb_command("undo", "--since", "1h", "--db", tmp_path / "db")
    assert "0 removed" in out
    with Mailbox(tmp_path / "db") as box:
        assert exported(box) == before


def test_a_trial_run_of_undo_lists_the_first_labels_since_a_time_of_the_log(tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Athens")
    path, db = tmp_path / "db", ("--db", tmp_path / "db")
    with Mailbox(path) as box:
        box.learn(HAM, "ham")
        time.sleep(0.01)
        start = time.time()
        for i in range(22):
            box.learn(SPAM + b"%d" % i, "spam")
        VerdictLog(box).note(SPAM + b"0", judge(box, SPAM + b"0"), "here")
    for zone in (UTC, timezone(timedelta(hours=-5))):
        moment = datetime.fromtimestamp(start, zone).isoformat()
        since = ("--since", moment.replace("+00:00", "Z"))
        first, *lines, last = streamnb_command("undo", *since, "--dry-run", *db)[1].splitlines()
        assert ": 22 would be removed" in first
        assert len(lines) == 20
        assert re.fullmatch(rf"\S+ \S+ spam human .*{digest(SPAM + b'0').hex()} .+", lines[0])
        assert last == "... and 2 more"
    assert ": 22 removed" in streamnb_command("undo", *since, *db)[1]
    out = streamnb_command("undo", "--last", "--dry-run", *db)[1].splitlines()
    assert [line.endswith(digest(HAM).hex()) for line in out] == [False, True]
    result = json.loads(streamnb_command("undo", "--last", "--dry-run", "--json", *db)[1])
    assert [label["digest"] for label in result["labels"]] == [digest(HAM).hex()]


def test_undo_of_many_changes_needs_confirmation(tmp_path):
    db = ("--db", tmp_path / "db")
    with Mailbox(tmp_path / "db") as box:
        for i in range(101):
            box.learn(SPAM + b"%d" % i, "spam")
    status, _, error = streamnb_command("undo", "--since", "1h", *db)
    assert status == 2
    assert "101 labels would be removed" in error
    assert ": 1 removed" in streamnb_command("undo", "--last", *db)[1]
    assert ": 3 removed" in streamnb_command("undo", "--last", 3, *db)[1]
    assert streamnb_command("undo", "--redo", *db)[1].startswith("3 labels learned again")
    assert ": 100 removed" in streamnb_command("undo", "--since", "1h", "--yes", *db)[1]
    assert streamnb_command("undo", "--last", *db)[1] == "nothing was learned\n"
    streamnb_command("undo", "--redo", *db)
    assert streamnb_command("undo", "--redo", *db)[1] == "there is nothing to redo\n"
    assert "100" in streamnb_command("status", *db)[1]


def test_undoing_a_confirmation_of_a_dropped_message(box):
    box.learn(SPAM, "spam", PROGRAM, timestamp=10)
    compact(box, rare_days=None, ledger=0)
    assert box.learn(SPAM, "spam", HUMAN, timestamp=20).result == "confirmed"
    assert box.undo(15) == (1, 1, 0)
    assert box.label_of(digest(SPAM))[:2] == ("spam", PROGRAM)
    assert box.verify() == []


def test_undo_takes_back_merges_and_imports(sample, tmp_path):
    stream = mails(sample, 12)
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(stream):
            (a if i < 6 else b).learn(content, label, timestamp=i)
        a.learn(SPAM, "ham", PROGRAM, timestamp=20)
        b.learn(SPAM, "spam", HUMAN, timestamp=21)
        b.learn(HAM, "ham", HUMAN, timestamp=22)
        a.learn(HAM, "ham", PROGRAM, timestamp=23)
        before = exported(a)
        export(b, str(tmp_path / "x"))
        begun = time.time()
        assert merge(a, b) == (6, 1, 1, 0)
        assert a.label_of(digest(SPAM))[0] == "spam"
        assert a.label_of(digest(HAM))[1] == HUMAN  # a person confirmed it there
        a.undo(begun)
        assert exported(a) == before
        import_file(a, str(tmp_path / "x"))
        assert a.label_of(digest(SPAM))[0] == "spam"
        a.undo(begun)
        assert exported(a) == before
        assert a.verify() == []


def test_undo_restores_corrections_and_what_was_forgotten(sample, box):
    stream = mails(sample, 30)
    for i, (content, label) in enumerate(stream):
        box.learn(content, label, timestamp=i)
    before = exported(box)
    box.learn(stream[3][0], "other", timestamp=100)
    box.forget(stream[4][0], timestamp=101)
    box.learn(SPAM, "spam", timestamp=102)
    assert box.undo(100, dry_run=True) == (2, 2, 0)
    assert exported(box) != before
    assert box.undo(100) == (2, 2, 0)
    assert exported(box) == before
    assert box.verify() == []


def test_an_untrained_mailbox_gives_no_verdict_after_undo(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        for number, label in enumerate("abc"):
            box.learn(MESSAGES[number], label)
        for number in range(3):
            box.forget(MESSAGES[number])
        verdict = box.classify(MESSAGES[3])
        assert (verdict.label, verdict.probability, verdict.unsure) == (None, 0.0, True)


def write_folder(path, count):
    path.mkdir()
    for number in range(count):
        (path / f"{number:04d}").write_text(f"Subject: {path.name} {number}\n\n{path.name}")
    return path


@pytest.mark.parametrize("count", [1, 2, 30, 600])  # 600 messages take three transactions
def test_undo_last_reverses_a_whole_command(tmp_path, count):
    db = ("--db", tmp_path / "db")
    streamnb_command("learn", "ham", write_folder(tmp_path / "friends", 3), *db)
    with Mailbox(tmp_path / "db") as mailbox:
        before = status(mailbox).learned
    streamnb_command("learn", "spam", write_folder(tmp_path / "wrong", count), *db)
    with Mailbox(tmp_path / "db") as mailbox:
        mailbox.learn(SPAM, "spam")
    assert ": 1 removed" in streamnb_command("undo", "--last", *db)[1]
    assert f": {count} removed" in streamnb_command("undo", "--last", "--yes", *db)[1]
    with Mailbox(tmp_path / "db") as mailbox:
        assert status(mailbox).learned == before
        assert mailbox.verify() == []
    streamnb_command("undo", "--redo", *db)
    assert f": {count + 3} removed" in streamnb_command("undo", "--last", 2, "--yes", *db)[1]


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=6))
def test_undo_last_n_restores_the_state_before_the_nth_last_change(tmp_path_factory, commands):
    with Mailbox(tmp_path_factory.mktemp("m") / "db") as mailbox:
        states = []
        for label, numbers in enumerate(commands):
            states.append(exported(mailbox))
            mailbox.learn_many([(MESSAGES[number], f"class{label}") for number in numbers])
        for number in range(len(commands), 0, -1):
            start = last_learned(mailbox, number)
            assert last_learned(mailbox, 10**30) <= start
            mailbox.undo(start)
            assert exported(mailbox) == states[len(commands) - number]
            redo(mailbox)


def test_an_import_is_one_change(box, tmp_path):
    box.learn(SPAM, "spam")
    with Mailbox(tmp_path / "other.db") as other:
        for message in MESSAGES[2:]:
            other.learn(message, "ham")
        merge(box, other)
    box.undo(last_learned(box))
    assert box.label_of(digest(SPAM))[0] == "spam"
    assert box.label_of(digest(MESSAGES[2])) is None


def test_an_undo_of_everything_learns_nothing_again_without_a_rebuild(box, monkeypatch):
    box.learn(SPAM, "spam")
    monkeypatch.setattr("streamnb.mailbox.undo.rebuild", lambda _: 1 / 0)
    assert box.undo(0).unlearned == 1
    assert redo(box).learned == 1


class ExplainedConnection:
    """A connection that lists, for each statement, the numbers of whole tables that it reads."""

    def __init__(self, real):
        self.real, self.scans = real, defaultdict(list)

    def execute(self, statement, values=()):
        if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE")):
            plan = self.real.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
            tables = [step for *_, step in plan if re.match("SCAN (?!CONSTANT|j )", step)]
            if tables:
                self.scans[statement].append(len(tables))
        return self.real.execute(statement, values)

    def __getattr__(self, name):
        return getattr(self.real, name)


@pytest.mark.parametrize("action", ["status", "undo", "redo", "erase", "forget"])
def test_no_table_is_read_once_for_each_message(box, action):
    """Otherwise the time grows with the square of the messages: minutes for 50,000."""
    messages = [b"Subject: m%d\n\nword%d" % (i, i) for i in range(20)]
    box.learn_many([(message, "ham") for message in messages])
    keys = [digest(message) for message in messages]
    if action == "redo":
        box.undo(1)
    box.database.connection = connection = ExplainedConnection(box.database.connection)
    {
        "status": status,
        "undo": lambda box: box.undo(1),
        "redo": redo,
        "erase": lambda box: VerdictLog(box).erase(keys),
        "forget": lambda box: [box.forget(message) for message in messages],
    }[action](box)
    for statement, tables in connection.scans.items():
        assert max(tables) == 1, statement
        assert len(tables) <= 4, statement


def test_a_removed_label_is_found_by_an_index(box):
    """`web` and `watch` ask for each message whether it was learned."""
    box.learn(SPAM, "ham")
    box.learn(SPAM, "spam")
    statements = []
    box.database.connection.set_trace_callback(statements.append)
    assert box.was_learned(digest(SPAM))
    assert not box.was_learned(digest(b"Subject: unheard-of"))
    assert box.retract(digest(SPAM)).result == "forgotten"
    box.database.connection.set_trace_callback(None)
    assert box.label_of(digest(SPAM))[0] == "ham"
    queries = [text for text in statements if text.startswith("SELECT") and "digest = " in text]
    assert len(queries) >= 5
    for query in queries:
        plan = box.database.connection.execute(f"EXPLAIN QUERY PLAN {query}").fetchall()
        assert "SCAN" not in str(plan), (query, plan)
