"""A database is made smaller while others use it."""

import random
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb import Mailbox
from streamnb.mailbox.compact import compact
from streamnb.mailbox.groups import Lesson
from streamnb.mailbox.rebuild import rebuild


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["spam", "ham", "forget"])), max_size=60
    ),
    st.integers(0, 2**32),
)
def test_others_may_do_anything_between_the_parts_of_a_compaction(tmp_path_factory, some, seed):
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
            if draw.random() < 0.1:
                other.undo(other.database.value("now")["moment"] - 0.001)
            assert other.verify() == []

        for number, label in some:
            act(number, label)
        patch.setattr("streamnb.mailbox.compact._ROWS", 3)
        patch.setattr("streamnb.mailbox.compact.time.sleep", others)
        compact(box, once=-1, ledger=draw.choice([None, 0]))
        assert box.verify() == []


def test_what_others_learn_stays_where_a_sure_message_has_it_too(tmp_path, monkeypatch):
    """Of a message that was sure nothing is counted, but its features are in the ledger."""
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
        assert list(box.ledger.rows())[-1].receipt.weights[0] == 0

        def learn_it_again(_seconds):
            other.learn(b"Subject: again\n\nzzqq", "ham")
            assert other.verify() == []

        monkeypatch.setattr("streamnb.mailbox.compact.time.sleep", learn_it_again)
        compact(box, once=-1)
        assert box.verify() == []


def test_a_rebuild_sees_that_something_was_dropped_meanwhile(tmp_path):
    path = tmp_path / "mail.db"
    with Mailbox(path) as box, Mailbox(path, wait=0.1) as other:
        for number in range(12):
            message = f"Subject: n{number}\n\nrare{number} w{number % 2}".encode()
            box.learn(message, ("ham", "spam")[number % 2])
        dropped = []

        def progress(rows):
            yield from rows
            if not dropped:
                dropped.append(compact(other, once=-1).features)

        rebuild(box, progress)
        assert dropped[0] > 0
        assert box.verify() == []


def test_who_learns_need_not_wait_for_all_of_it(tmp_path):
    """The longest wait is a part's, however many parts there are."""
    path = tmp_path / "mail.db"
    with Mailbox(path) as box, Mailbox(path) as other:
        lessons = [Lesson(b"Subject: %d\n\nrare%d common" % (i, i), "ham") for i in range(800)]
        list(box.learn_many(lessons))
        lasted = []

        def run():
            begun = time.monotonic()
            compact(other, once=-1)
            lasted.append(time.monotonic() - begun)

        thread = threading.Thread(target=run)
        thread.start()
        waited = []
        while thread.is_alive():
            begun = time.monotonic()
            box.learn(b"Subject: new\n\nword%d" % len(waited), "spam")
            waited.append(time.monotonic() - begun)
        thread.join()
        assert max(waited) < lasted[0] / 2
        assert box.verify() == []
        assert sum(counts.features for counts in box.counts) < 10_000
