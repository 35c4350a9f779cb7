"""Situations in which training could be lost, repeated or added to another class."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import unicodedata

import pytest
from commands import streamnb_command

from streamnb import Mailbox
from streamnb.errors import StateError
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.digest import digest
from streamnb.mailbox.transfer.formats import merge


def mail(number):
    return b"Subject: %d\n\nword%d w%d" % (number, number, number % 5)


def train(path, numbers=range(5)):
    with Mailbox(path) as mailbox:
        for number in numbers:
            mailbox.learn(mail(number), "ham" if number % 2 else "spam")
    return path


def learned(path, numbers):
    """Return which messages a new process finds in a sound database."""
    with Mailbox(path, create=False) as mailbox:
        assert mailbox.verify() == []
        return [number for number in numbers if mailbox.label_of(digest(mail(number)))]


def in_new_process(path, numbers, ending=""):
    program = (
        "import os\nfrom streamnb import Mailbox\n"
        f"mailbox = Mailbox({str(path)!r})\n"
        f"for n in {list(numbers)}:\n"
        "    mailbox.learn(b'Subject: %d\\n\\nword%d w%d' % (n, n, n % 5), 'ham')\n" + ending
    )
    return subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode


@pytest.mark.parametrize("name", ["Büro", "ｗｏｒｋ", "가족", "Ångström"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_spellings_that_look_the_same_are_one_class(tmp_path, name, form):
    respelled = unicodedata.normalize("NFD" if form == "NFC" else "NFC", name)
    with Mailbox(tmp_path / "a.db") as mailbox:
        mailbox.learn(mail(1), unicodedata.normalize(form, name))
        mailbox.learn(mail(2), respelled)
        assert mailbox.learn(mail(1), respelled).result == "known"
        mailbox.learn_many([LabelledMessage(mail(3), respelled)])
        assert mailbox.labels == [unicodedata.normalize("NFC", name)]


@pytest.mark.parametrize(
    "locale", [{}, {"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}]
)
def test_no_locale_makes_another_class_of_a_label(tmp_path, locale):
    for number in range(2):
        (tmp_path / f"{number}.eml").write_bytes(mail(number))
    with Mailbox(tmp_path / "a.db") as mailbox:
        mailbox.learn(mail(0), "Büro")
        done = streamnb_command(
            "learn", "Büro", tmp_path / "1.eml", "--db", mailbox.path, env={**os.environ, **locale}
        )
        assert done[0] == 0
        assert mailbox.label_of(digest(mail(1)))[0] == "Büro"


@pytest.mark.parametrize("many", [False, True])
def test_nothing_is_acknowledged_in_a_file_that_was_replaced_meanwhile(tmp_path, many):
    path = train(tmp_path / "a.db")
    shutil.copy(path, tmp_path / "backup.db")
    train(path, range(5, 9))
    with Mailbox(path) as mailbox:

        def messages():
            yield LabelledMessage(mail(20), "ham")
            os.replace(tmp_path / "backup.db", path)

        def learn():
            if many:
                mailbox.learn_many(messages())
            else:
                mailbox.learn(mail(20), "ham", run_first=lambda: list(messages()))

        with pytest.raises(StateError, match="replaced"):
            learn()
        with pytest.raises(StateError, match="replaced"):
            mailbox.learn(mail(21), "ham")


def remove_log(path):
    os.unlink(f"{path}-wal")
    os.unlink(f"{path}-shm")


def test_a_removed_write_ahead_log_loses_no_acknowledged_message(tmp_path):
    path = train(tmp_path / "a.db")
    with Mailbox(path) as mailbox:
        mailbox.learn(mail(30), "ham")
        remove_log(path)
        with pytest.raises(StateError, match="log was removed"):
            mailbox.learn(mail(31), "ham")
    assert in_new_process(path, [32]) == 0
    assert learned(path, [*range(5), 30, 31, 32]) == [*range(5), 30, 32]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="SQLite cannot be told before")
def test_a_replaced_write_ahead_log_is_not_deleted(tmp_path):
    path = train(tmp_path / "a.db")
    with Mailbox(path) as mailbox:
        mailbox.learn(mail(30), "ham")
        remove_log(path)
        assert in_new_process(path, [32], "os._exit(0)") == 0
        with pytest.raises(StateError, match="log was removed"):
            mailbox.learn(mail(31), "ham")
    assert 32 in learned(path, [32])


def learn_in_child(mailbox, start):
    for number in range(start, start + 10):
        mailbox.learn(mail(number), "ham")


def test_forked_processes_share_an_open_mailbox(tmp_path):
    with Mailbox(train(tmp_path / "a.db")) as mailbox:
        context = multiprocessing.get_context("fork")
        children = [
            context.Process(target=learn_in_child, args=(mailbox, 1000 * (k + 1))) for k in range(3)
        ]
        for child in children:
            child.start()
        learn_in_child(mailbox, 9000)
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0, 0, 0]
    numbers = [start + i for start in (1000, 2000, 3000, 9000) for i in range(10)]
    assert learned(tmp_path / "a.db", numbers) == numbers


def test_two_names_by_symbolic_links_are_one_database(tmp_path):
    path = train(tmp_path / "a.db")
    (tmp_path / "folder").mkdir()
    link = tmp_path / "folder" / "link.db"
    link.symlink_to("../a.db")
    with Mailbox(link) as linked, Mailbox(path) as direct:
        linked.learn(mail(50), "ham")
        direct.learn(mail(51), "ham")
        assert linked.learn(mail(51), "ham").result == "known"
    assert in_new_process(link, [52], f"os.kill(os.getpid(), {int(signal.SIGKILL)})") != 0
    assert learned(path, [50, 51, 52]) == [50, 51, 52]
    assert sorted(os.listdir(tmp_path / "folder")) == ["link.db"]


def test_a_link_to_a_disk_that_is_not_there_is_named(tmp_path):
    link = tmp_path / "a.db"
    link.symlink_to(tmp_path / "mnt" / "mail.db")
    status, _, error = streamnb_command("learn", "ham", "-", "--db", link, input=mail(1).decode())
    assert (status, error.count("\n"), "which does not exist" in error) == (4, 1, True)


def test_clones_that_are_merged_back_count_each_message_once(tmp_path):
    path = train(tmp_path / "a.db")
    shutil.copy(path, tmp_path / "b.db")
    train(path, [10, 11])
    train(tmp_path / "b.db", [11, 12])
    with Mailbox(path) as mailbox, Mailbox(tmp_path / "b.db") as clone:
        assert merge(mailbox, clone).rows_added == 1
        assert merge(mailbox, clone).rows_added == 0
        with mailbox.reading():
            assert sum(mailbox.classifier.messages().values()) == 8
    assert learned(path, [*range(5), 10, 11, 12]) == [*range(5), 10, 11, 12]


def test_a_clock_that_jumps_keeps_the_order_of_labels(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    for label, now in (("spam", 2e9), ("ham", 1e9), ("spam", 3e9), ("ham", 5e8)):
        monkeypatch.setattr("time.time", lambda now=now: now)
        with Mailbox(path) as mailbox:
            assert mailbox.learn(mail(1), label).result in ("learned", "corrected")
            assert mailbox.label_of(digest(mail(1)))[0] == label
            added = [row.added_at for row in mailbox.ledger.rows("TRUE")]
            assert added == sorted(set(added))
    assert learned(path, [1]) == [1]
