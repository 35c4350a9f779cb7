"""A database is compacted while other processes use it."""

import contextlib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import Mailbox
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.compact import compact
from streamnb.mailbox.rebuild import rebuild
from streamnb.mailbox.status import status
from streamnb.mailbox.undo import redo


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["spam", "ham", "forget"])), max_size=60
    ),
    st.integers(0, 2**32),
)
def test_other_processes_may_write_between_the_parts_of_a_compaction(
    tmp_path_factory, numbers, seed
):
    path = tmp_path_factory.mktemp("parts") / "mail.db"
    draw = random.Random(seed)
    with Mailbox(path) as box, Mailbox(path) as other, pytest.MonkeyPatch.context() as patch:

        def act(number, label):
            message = f"Subject: n{number}\n\nrare{number} w{number % 7} {label}".encode()
            if label == "forget":
                other.forget(message)
            else:
                other.learn(message, label)

        def others(_seconds):
            for _ in range(draw.randrange(4)):
                act(draw.randrange(40), draw.choice(["spam", "ham", "forget"]))
            if draw.random() < 0.2:
                rebuild(other)
            if draw.random() < 0.2:
                rows = list(other.ledger.rows())
                other.undo(draw.choice(rows).added_at if rows else 0)
            if draw.random() < 0.3:
                redo(other)
            assert other.verify() == []
            if draw.random() < 0.1:
                raise KeyboardInterrupt

        for number, label in numbers:
            act(number, label)
        patch.setattr("streamnb.mailbox.compact._PART_ROWS", 3)
        patch.setattr("streamnb.mailbox.compact.pause", others)
        if draw.random() < 0.5:
            other.undo(max((row.added_at for row in other.ledger.rows()), default=0))
        with contextlib.suppress(KeyboardInterrupt):
            compact(box, rare_days=-1, ledger=draw.choice([None, 0]))
        assert box.verify() == []
        redo(other)
        assert box.verify() == []


def test_a_second_compaction_may_retire_rows_between_the_parts_of_the_first(tmp_path, monkeypatch):
    path, year_s = tmp_path / "mail.db", 365 * 86400
    monkeypatch.setattr("streamnb.mailbox.compact._PART_ROWS", 1)
    with Mailbox(path) as box, Mailbox(path) as second:
        for i in range(6):
            message = f"Subject: n{i}\n\nword{i}".encode()
            box.learn(message, ("ham", "spam")[i % 2], timestamp=time.time() - year_s)

        def retire(_seconds):
            monkeypatch.setattr("streamnb.mailbox.compact.pause", lambda _seconds: None)
            assert compact(second, None, ledger=100).retired == 6

        monkeypatch.setattr("streamnb.mailbox.compact.pause", retire)
        compact(box, rare_days=-1)
        assert box.verify() == []


def test_compact_keeps_counts_that_another_process_adds(tmp_path, monkeypatch):
    """A message learned with weight 0 has features in the ledger and no counts."""
    words = {"spam": "buy cheap pills now offer", "ham": "lunch noon meeting project thanks"}
    path = tmp_path / "mail.db"
    with Mailbox(path) as box, Mailbox(path) as other:
        box.learn(b"Subject: first\n\nzzqq", "ham")
        for number in range(200):
            label = ("spam", "ham")[number % 2]
            text = f"{words[label]} {words[label]}"
            box.learn(f"Date: {number}\nSubject: {words[label]}\n\n{text}".encode(), label)
        text = f"{words['spam']} {words['spam']} zzqq"
        box.learn(f"Subject: {words['spam']}\n\n{text}".encode(), "spam")
        assert list(box.ledger.rows())[-1].receipt.view_weights[0] == 0

        def learn_it_again(_seconds):
            other.learn(b"Subject: again\n\nzzqq", "ham")
            assert other.verify() == []

        monkeypatch.setattr("streamnb.mailbox.compact.pause", learn_it_again)
        compact(box, rare_days=-1)
        assert box.verify() == []


def test_a_rebuild_notices_a_simultaneous_compaction(tmp_path):
    path = tmp_path / "mail.db"
    with Mailbox(path) as box, Mailbox(path, wait=0.1) as other:
        for number in range(12):
            message = f"Subject: n{number}\n\nrare{number} w{number % 2}".encode()
            box.learn(message, ("ham", "spam")[number % 2])
        dropped = []

        def progress(rows):
            yield from rows
            if not dropped:
                dropped.append(compact(other, rare_days=-1).features)

        rebuild(box, progress)
        assert dropped[0] > 0
        assert box.verify() == []


def test_undo_is_not_undone_after_something_was_dropped(tmp_path, monkeypatch):
    """Undo cannot restore features that an interrupted compaction dropped."""
    with Mailbox(tmp_path / "mail.db") as box:
        box.learn(b"Subject: other\n\nlunch", "ham")
        box.learn(b"Subject: this\n\npills", "ham")
        box.learn(b"Subject: this\n\npills", "spam")
        box.undo(list(box.ledger.rows())[-1].added_at)

        def stopped(_seconds):
            raise KeyboardInterrupt

        monkeypatch.setattr("streamnb.mailbox.compact.pause", stopped)
        with pytest.raises(KeyboardInterrupt):
            compact(box, rare_days=None, ledger=-1)
        assert redo(box) == (0, 0, 0)
        assert box.verify() == []


def test_a_learner_waits_for_one_part_of_a_compaction(tmp_path, monkeypatch):
    """Other processes can write between two parts, and no part takes long."""
    path = tmp_path / "mail.db"
    with Mailbox(path) as box, Mailbox(path, wait=0.1) as other:
        lessons = [
            LabelledMessage(b"Subject: %d\n\nrare%d common" % (i, i), "ham") for i in range(100)
        ]
        box.learn_many(lessons)
        looked_at, learned = [], []
        find = box.ledger.find

        def counted(condition, values):
            looked_at[-1:] = [looked_at[-1] + 1] if condition == "id = ?" else looked_at[-1:]
            return find(condition, values)

        def learn(_seconds):
            learned.append(other.learn(b"Subject: new\n\nword%d" % len(learned), "spam").result)
            looked_at.append(0)

        looked_at.append(0)
        monkeypatch.setattr(box.ledger, "find", counted)
        monkeypatch.setattr("streamnb.mailbox.compact._PART_ROWS", 10)
        monkeypatch.setattr("streamnb.mailbox.compact._REPACK_ROWS", 10)
        monkeypatch.setattr("streamnb.mailbox.compact.pause", learn)
        compact(box, rare_days=-1)
        # In ten parts features are dropped; then what was learned meanwhile is written by
        # fingerprints, too, features are laid out, and all is written by places.
        assert set(learned) == {"learned"}
        assert looked_at[:10] == [10] * 10
        assert len(looked_at) > 20
        assert max(looked_at) <= 10
        assert box.verify() == []


@pytest.mark.parametrize("rare_days", [None, -1])
@pytest.mark.parametrize("ledger", [None, 0, 50])
def test_a_dry_run_prints_the_numbers_to_drop(tmp_path, rare_days, ledger):
    with Mailbox(tmp_path / "mail.db") as box:
        for number in range(20):
            timestamp = time.time() - (number % 2) * 100 * 86400
            box.learn(
                b"Subject: n%d\n\nrare%d w%d" % (number, number, number % 3),
                "ham",
                timestamp=timestamp,
            )
            if number % 5 == 0:
                box.learn(
                    b"Subject: n%d\n\nrare%d w0" % (number, number), "spam", timestamp=timestamp
                )
        expected = compact(box, rare_days, ledger, dry_run=True)
        done = compact(box, rare_days, ledger)
        assert expected[:3] == done[:3]
        assert box.verify() == []


def test_a_compaction_that_was_cut_off_is_finished_by_the_next(tmp_path, monkeypatch):
    with Mailbox(tmp_path / "mail.db") as box:
        for number in range(20):
            box.learn(b"Subject: n%d\n\nrare%d w" % (number, number), ("spam", "ham")[number % 2])

        def killed(_seconds):
            raise KeyboardInterrupt

        monkeypatch.setattr("streamnb.mailbox.compact._PART_ROWS", 20)
        with monkeypatch.context() as patch:
            patch.setattr("streamnb.mailbox.compact.pause", killed)
            patch.setattr("streamnb.mailbox.compact._PART_ROWS", 3)
            for _ in range(9):  # each retires a part
                with contextlib.suppress(KeyboardInterrupt):
                    compact(box, None, ledger=0)
        compact(box, None, ledger=0)
        assert len(list(box.ledger.rows("labelled_by = 'retired'"))) == 2
        assert sum(group.messages for group in status(box).learned) == 20
        assert box.verify() == []
