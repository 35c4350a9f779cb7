"""Watching of a real Maildir: only actions of its owner are learned."""

import errno
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest
from commands import STREAMNB, streamnb_command
from hypothesis import example, given
from hypothesis import strategies as st
from maildirs import UserMaildir, WatchedMaildir, mail

from streamnb import Mailbox
from streamnb.cli import main
from streamnb.cli.watch import _run
from streamnb.corpus import open_corpus, read
from streamnb.errors import BusyError, CorpusError, MailRefusedError, MailServerError, StateError
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.watch.maildir import _HEADER_BYTES, MaildirAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

OTHER_FILTERS = (
    b"", b"X-Spam-Flag: YES\n", b"X-Text-Classification: spam\n", b"X-CRM114-Status: SPAM\n",
    b"X-Barracuda-Spam-Status: Yes\n", b"X-Rspamd-Action: reject\n", b"X-Spamd-Result: default: True\n",
    b"X-MS-Exchange-Organization-SCL: 9\n", b"X-Spam-Level: *******\n", b"X-Streamnb: Ham\n",
)  # fmt: skip
SCENES = []


class Scene(WatchedMaildir):
    def __init__(self, folder, **plan):
        SCENES.append(self)
        super().__init__(folder, **plan)


@pytest.fixture(autouse=True)
def closed():
    yield
    while SCENES:
        SCENES.pop().box.close()


@pytest.fixture
def scene(tmp_path):
    scene = Scene(tmp_path)
    scene.scan()
    return scene


def test_mail_of_the_first_scan_is_not_learned(tmp_path):
    scene = Scene(tmp_path)
    scene.dir.deliver(1)
    scene.dir.deliver(2, folder="Junk")
    scene.scan()
    assert (scene.label(1), scene.label(2)) == (None, None)
    assert scene.report_lines == [
        "INBOX: 1 message there already",
        "Archive: 0 messages there already",
        "Junk: 1 message there already",
    ]
    scene.dir.move(2, "INBOX")
    scene.scan()
    assert scene.label(2) == "ham"


def test_moves_are_learned_and_reversed(scene):
    scene.dir.deliver(1)
    scene.scan()
    assert scene.label(1) is None
    scene.dir.move(1, "Junk")
    scene.scan()
    assert scene.label(1) == "spam"
    scene.dir.move(1, "INBOX")
    scene.scan()
    assert scene.label(1) is None
    assert scene.box.counts[0].features == 0
    scene.dir.move(1, "Archive")
    scene.scan()
    assert scene.label(1) is None
    scene.dir.move(1, "Junk")
    scene.scan()
    scene.dir.move(1, "Archive")  # neither the inbox nor a class's folder
    scene.scan()
    assert scene.label(1) == "spam"


def test_a_move_is_learned_as_a_correction_of_a_mistake(scene):
    scene.box.learn(mail(10), "spam")
    for number in (11, 12, 13, 14):  # the model is right about the last ones
        scene.box.learn(mail(number), "ham")
    scene.dir.deliver(1)
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.scan()
    assert scene.box.ledger.active(digest(mail(1))).receipt.deltas["corrected"] == 1


@pytest.mark.parametrize("step", [-120.0, -40 * 86400.0])
def test_moves_are_found_after_the_clock_was_set_back(scene, monkeypatch, step):
    real = time.time
    for number in (1, 2):
        scene.dir.deliver(number)
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.scan()
    monkeypatch.setattr(time, "time", lambda: real() + step)
    scene.dir.move(1, "INBOX")
    scene.dir.move(2, "Junk")
    scene.scan()
    assert (scene.label(1), scene.label(2)) == (None, "spam")
    scene.dir.move(2, "INBOX")
    scene.scan()
    assert scene.label(2) is None


def test_a_move_between_the_listings_of_two_folders_can_be_reversed(scene, monkeypatch):
    scene.dir.deliver(1)
    scene.scan()
    listing = scene.account.list_messages

    def slip(folder):
        if folder == "Junk":  # the inbox was listed before
            scene.dir.move(1, "Junk")
        return listing(folder)

    monkeypatch.setattr(scene.account, "list_messages", slip)
    scene.scan()
    monkeypatch.setattr(scene.account, "list_messages", listing)
    assert scene.label(1) == "spam"
    scene.dir.move(1, "INBOX")
    scene.scan()
    assert scene.label(1) is None


def test_a_move_to_the_trash_learns_nothing(scene):
    for number in (1, 2):
        scene.dir.deliver(number)
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.scan()
    for number in (1, 2):
        scene.dir.move(number, "Trash")
    scene.scan()
    assert (scene.label(1), scene.label(2)) == ("spam", None)
    for number in (1, 2):
        scene.dir.find(number)[0].unlink()
    scene.scan()
    assert (scene.label(1), scene.label(2)) == ("spam", None)
    assert scene.box.verify() == []


def test_moves_made_between_two_runs_are_detected(scene):
    for number in range(4):
        scene.dir.deliver(number)
    scene.scan()
    for number in range(3):
        scene.dir.move(number, "Junk")
    scene.restart()
    scene.scan()
    assert [scene.label(number) for number in range(4)] == ["spam"] * 3 + [None]
    scene.restart()
    report_lines = len(scene.report_lines)
    scene.scan()
    assert len(scene.report_lines) == report_lines


def trained(scene):
    for i in range(70):  # with fewer, all verdicts are unsure
        scene.box.learn(mail(100 + i, "cheap pills buy now"), "spam")
        scene.box.learn(mail(300 + i, "lunch at noon with ann"), "ham")


@pytest.mark.parametrize("move", [False, True])
def test_spam_is_moved_with_move_and_the_move_is_not_learned(tmp_path, move):
    scene = Scene(tmp_path, move=move)
    trained(scene)
    scene.scan()
    before = scene.box.counts[0].weights
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.dir.deliver(2, mail(2, "lunch at noon with ann"))
    scene.scan()
    assert scene.dir.folders_of(1) == (["Junk"] if move else ["INBOX"])
    assert scene.dir.folders_of(2) == ["INBOX"]
    assert any("S " in line and ("would be" in line) != move for line in scene.report_lines)
    scene.scan()
    scene.restart()
    scene.scan()
    assert scene.box.counts[0].weights == before
    if move:  # its owner moves it back
        scene.dir.move(1, "INBOX")
        scene.scan()
        assert scene.box.label_of(digest(mail(1, "cheap pills buy now")))[:2] == ("ham", HUMAN)
        assert scene.dir.folders_of(1) == ["INBOX"]


def test_no_mail_is_moved_before_the_model_is_ready(tmp_path):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    with scene.box.writing():  # as if it had been right about spam three times
        scene.box.classifier.model.calibration.reliability._sums[0] = [3, 0]
    scene.scan()
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    assert scene.dir.folders_of(1) == ["INBOX"]
    assert any("not ready" in line for line in scene.report_lines)


def test_a_watcher_that_was_stopped_during_a_move_continues(tmp_path, monkeypatch):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    weights = list(scene.box.counts[0].weights)
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))

    def dies(*_):
        raise MailServerError("gone")

    monkeypatch.setattr(scene.account, "move_message", dies)
    with pytest.raises(MailServerError):
        scene.scan()
    monkeypatch.undo()
    scene.restart()
    scene.scan()
    assert scene.dir.folders_of(1) == ["Junk"]
    scene.scan()
    assert scene.box.counts[0].weights == weights


@pytest.mark.parametrize("field", OTHER_FILTERS)
def test_mail_that_appears_in_junk_is_not_a_persons_label(scene, field):
    scene.dir.deliver(1, field + mail(1), "Junk")
    scene.scan()
    scene.scan()
    assert scene.box.label_of(digest(field + mail(1))) is None
    scene.dir.move(1, "INBOX")
    scene.scan()
    assert scene.box.label_of(digest(field + mail(1)))[:2] == ("ham", HUMAN)


def test_read_and_kept_is_ham_by_choice_only_and_no_persons_word(tmp_path, monkeypatch):
    scene = Scene(tmp_path, ham_after=3600.0)
    scene.scan()
    for number in (1, 2):
        scene.dir.deliver(number)
    scene.scan()
    scene.dir.move(1, "INBOX")  # read; 2 is not
    scene.scan()
    now = time.time()
    monkeypatch.setattr("streamnb.mailbox.watch.watcher.time.time", lambda: now + 3000)
    scene.scan()
    assert scene.label(1) is None
    monkeypatch.setattr("streamnb.mailbox.watch.watcher.time.time", lambda: now + 4000)
    scene.scan()
    assert (scene.label(1), scene.label(2)) == ("ham", None)
    assert scene.box.label_of(digest(mail(1)))[1] == PROGRAM
    monkeypatch.setattr(scene.account, "fetch_message", lambda *_: pytest.fail("fetched again"))
    scene.scan()
    monkeypatch.undo()
    scene.dir.move(1, "Junk")
    scene.scan()
    assert scene.box.label_of(digest(mail(1)))[:2] == ("spam", HUMAN)


def test_a_message_with_its_old_name_is_recognised(scene):
    scene.dir.deliver(1)
    scene.scan()
    for folder in ("Junk", "Trash", "Junk"):
        scene.dir.move(1, folder)
        scene.scan()
    assert scene.label(1) == "spam"
    scene.dir.move(1, "INBOX")
    scene.scan()
    assert scene.label(1) is None


def test_two_copies_of_a_message_are_two(scene):
    scene.dir.deliver(1)
    scene.scan()
    (scene.dir.root / "new" / "copy.host").write_bytes(mail(1))
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.scan()
    assert scene.label(1) == "spam"
    (scene.dir.root / "new" / "third.host").write_bytes(mail(1))  # delivered, not moved out
    scene.scan()
    assert scene.label(1) == "spam"


def test_one_poisonous_message_does_not_stop_the_others(scene, monkeypatch):
    real = scene.account.fetch_message

    def fetch(folder, uid):
        if uid.startswith("2."):
            raise RecursionError("deep")
        return real(folder, uid)

    monkeypatch.setattr(scene.account, "fetch_message", fetch)
    for number in (1, 2, 3):
        scene.dir.deliver(number)
    with monkeypatch.context() as patch:
        patch.setattr(scene.account, "fetch_message", real)
        scene.scan()
    for number in (1, 2, 3):
        scene.dir.move(number, "Junk")
    scene.scan()
    assert [scene.label(number) for number in (1, 2, 3)] == ["spam", None, "spam"]
    assert [line for line in scene.report_lines if "skipped" in line] == [
        "Junk/2.host: skipped: RecursionError: deep"
    ]
    report_lines = len(scene.report_lines)
    scene.scan()
    assert len(scene.report_lines) == report_lines


@pytest.mark.parametrize("most", [0, _HEADER_BYTES])  # bytes that can be read
def test_unreadable_mail_is_learned_at_a_later_scan(scene, monkeypatch, most):
    read = scene.account._read

    def failing(folder, uid, wanted):
        if wanted > most:
            raise OSError(5, "Input/output error", f"{folder}/{uid}")
        return read(folder, uid, wanted)

    scene.dir.deliver(1)
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.dir.deliver(2)
    report_lines = len(scene.report_lines)
    with monkeypatch.context() as broken:
        broken.setattr(scene.account, "_read", failing)
        scene.scan()
        scene.scan()
    reason = "Input/output error" if most else "it cannot be read"
    assert sorted(scene.report_lines[report_lines:]) == [
        f"INBOX/2.host: skipped until the next scan: {reason}",
        f"Junk/1.host: skipped until the next scan: {reason}",
    ]
    assert scene.label(1) is None
    scene.scan()
    assert scene.label(1) == "spam"
    scene.dir.move(1, "INBOX")
    with monkeypatch.context() as broken:
        broken.setattr(scene.account, "_read", failing)
        scene.scan()
        scene.scan()
    scene.scan()
    assert scene.label(1) is None  # unlearned, so the watcher knew the previous folder


def test_an_empty_file_is_not_learned(scene):
    """A full disk leaves empty files."""
    scene.dir.deliver(1)
    scene.dir.find(1)[0].write_bytes(b"")
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.scan()
    assert scene.report_lines[-1] == "Junk/1.host: skipped until the next scan: it cannot be read"
    assert scene.box.label_of(digest(b"")) is None


def test_a_folder_that_is_gone_for_a_while_is_waited_for(scene, monkeypatch, capsys):
    """A mail program renames the folder, or a backup is restored: watching continues afterwards."""
    looks = []

    def scan():
        looks.append(None)
        if len(looks) == 2:
            (scene.dir.root / ".Junk").rename(scene.dir.root / ".Junk_")
        elif len(looks) == 3:
            (scene.dir.root / ".Junk_").rename(scene.dir.root / ".Junk")
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", "Maildir")
        elif len(looks) == 4:
            stopped.append(signal.SIGTERM)
        Watcher.scan(scene.watcher)

    stopped = []
    monkeypatch.setattr(scene.watcher, "scan", scan)
    monkeypatch.setattr("streamnb.mailbox.watch.account.pause", lambda *_: None)
    monkeypatch.setattr(scene.watcher, "should_stop", lambda: bool(stopped))
    _run(scene.watcher, scene.account, 0, False, True)
    assert len(looks) == 4
    assert any("no folder 'Junk'" in line for line in scene.report_lines)
    assert "Maildir: No such file or directory; again in 2 s" in scene.report_lines
    (scene.dir.root / ".Junk").rename(scene.dir.root / ".Junk_")
    stopped.clear()
    with pytest.raises(CorpusError, match="no folder 'Junk'"):  # at first it is a slip
        _run(scene.watcher, scene.account, 0, False, True)


def test_items_that_are_not_files_are_not_classified(scene):
    os.mkfifo(scene.dir.root / "new" / "1.fifo")
    scene.scan()
    scene.scan()
    assert scene.report_lines[-1] == "INBOX/1.fifo: skipped until the next scan: it cannot be read"
    assert scene.box.label_of(digest(b"")) is None


def test_a_folder_that_fails_is_named(tmp_path, monkeypatch, capsys):
    def failing(self):
        raise OSError(5, "Input/output error", "/mail")

    for place in ("cur", "new", "tmp"):
        (tmp_path / place).mkdir()
    monkeypatch.setattr(MaildirAccount, "folder_names", failing)
    monkeypatch.setattr(
        sys, "argv", ["streamnb", "watch", str(tmp_path), "--once", "--db", str(tmp_path / "db")]
    )
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 3  # it cannot be read
    assert capsys.readouterr().err == "streamnb: /mail: Input/output error\n"


def hold(*_, **__):
    raise BusyError("held")


def test_mail_that_could_not_be_learned_is_learned_later(scene, monkeypatch):
    scene.dir.deliver(1)
    scene.scan()
    scene.dir.move(1, "Junk")
    with monkeypatch.context() as patch:
        patch.setattr(scene.box, "learn", hold)
        scene.scan()
    assert scene.label(1) is None
    scene.scan()
    assert scene.label(1) == "spam"


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_keyword_that_could_not_be_learned_is_learned_later(tmp_path, monkeypatch, is_refused):
    scene = Scene(tmp_path, move=is_refused)
    trained(scene)
    scene.scan()
    monkeypatch.setattr(scene.account, "move_message", refused)
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    monkeypatch.undo()
    scene.watcher.plan = FolderPlan("INBOX", move=True)
    (scene.dir.root / "dovecot-keywords").write_text("0 $NotJunk\n")
    scene.dir.move(1, "INBOX", "Sa")
    with monkeypatch.context() as patch:
        patch.setattr(scene.box, "learn", hold)
        scene.scan()
    for _ in range(2):
        scene.scan()
        assert scene.label(1, "cheap pills buy now") == "ham"
        assert scene.dir.folders_of(1) == ["INBOX"]


def test_old_mail_that_could_not_be_learned_is_learned_later(tmp_path, monkeypatch):
    scene = Scene(tmp_path, ham_after=0.0)
    scene.scan()
    scene.dir.deliver(1)
    scene.scan()
    scene.dir.move(1, "INBOX")
    with monkeypatch.context() as patch:
        patch.setattr(scene.box, "learn", hold)
        scene.scan()
    scene.scan()
    assert [line for line in scene.report_lines if "/1.host" in line] == [
        "INBOX/1.host: U 0.0000",
        "INBOX/1.host: skipped until the next scan: held",
        "INBOX/1.host: ham (read and left in the inbox)",
    ]


@pytest.mark.parametrize("has_label", [False, True])
def test_existing_mail_that_could_not_be_classified_is_classified_later(
    tmp_path, monkeypatch, has_label
):
    scene = Scene(tmp_path, existing=True, move=True)
    trained(scene)
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    with monkeypatch.context() as patch:
        patch.setattr(scene.box, "was_learned", hold)
        scene.scan()
        scene.scan()
    if has_label:
        scene.box.learn(mail(1, "cheap pills buy now"), "ham")
    scene.scan()
    assert scene.dir.folders_of(1) == ["INBOX" if has_label else "Junk"]


def test_existing_mail_with_a_new_keyword_waits_for_its_label(tmp_path, monkeypatch):
    scene = Scene(tmp_path, existing=True, move=True)
    scene.watcher.plan = FolderPlan("INBOX")
    trained(scene)
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    scene.restart()
    (scene.dir.root / "dovecot-keywords").write_text("0 $NotJunk\n")
    scene.dir.move(1, "INBOX", "Sa")
    with monkeypatch.context() as patch:
        patch.setattr(scene.box, "learn", hold)
        scene.scan()
    scene.scan()
    assert scene.label(1, "cheap pills buy now") == "ham"
    assert scene.dir.folders_of(1) == ["INBOX"]


@pytest.mark.parametrize("error", [BusyError, StateError])
def test_a_late_move_that_could_not_be_learned_is_learned_later(scene, monkeypatch, error):
    scene.dir.deliver(1)
    scene.scan()
    (original,) = scene.dir.find(1)
    (scene.dir.folder("Junk") / "cur" / "1.host.copy:2,S").write_bytes(mail(1))
    scene.scan()
    scene.scan()
    original.unlink()

    def fail(*_, **__):
        raise error("held")

    with monkeypatch.context() as patch:
        patch.setattr(scene.box, "learn", fail)
        with suppress(StateError):
            scene.scan()
    assert scene.label(1) is None
    scene.scan()
    assert scene.label(1) == "spam"
    assert scene.watcher._late_moves == []


moves = st.tuples(
    st.integers(0, 2), st.sampled_from(["INBOX", "Junk", "Archive", "Trash"]), st.booleans()
)


@given(st.lists(moves, max_size=14))
@example([(0, "Junk", True), (0, "Trash", True), (0, "INBOX", True)])
def test_the_last_move_of_any_sequence_is_the_label(tmp_path_factory, history):
    """Against a slow reference with the last two locations of each message.

    Spam that was in the trash at a scan was deleted. A similar new message is not learned.
    """
    scene = Scene(tmp_path_factory.mktemp("w"))
    scene.scan()
    label, binned = {}, dict.fromkeys(range(3), 0)
    for number in range(3):
        scene.dir.deliver(number)
    scene.scan()
    last_folder = dict.fromkeys(range(3), "INBOX")
    for number, folder, look in [*history, (0, None, True)]:
        if folder is not None:
            scene.dir.move(number, folder)
        if not look:
            continue
        scene.scan()
        for number in range(3):
            (folder,) = scene.dir.folders_of(number)
            if folder == "Trash":
                binned[number] += 1
                continue
            if folder == "Junk" != last_folder[number]:
                label[number] = "spam"
            elif (folder, last_folder[number]) == ("INBOX", "Junk") and not binned[number]:
                label[number] = None if label.get(number) == "spam" else "ham"
            last_folder[number], binned[number] = folder, 0
    assert [scene.label(number) for number in range(3)] == [
        label.get(number) for number in range(3)
    ]
    assert scene.box.verify() == []
    scene.box.close()


def test_a_move_never_replaces_a_message(scene):
    scene.dir.deliver(1)
    scene.account.list_messages("INBOX")
    (scene.dir.root / ".Junk" / "cur" / "1.host:2,").write_bytes(b"another")
    scene.account.move_message("INBOX", "1.host", "Junk", True)
    assert (scene.dir.root / ".Junk" / "cur" / "1.host:2,").read_bytes() == b"another"
    assert (scene.dir.root / ".Junk" / "cur" / "1.host.1:2,").read_bytes() == mail(1)
    assert not (scene.dir.root / "new" / "1.host").exists()


def test_a_move_that_was_cut_off_is_finished(scene):
    scene.dir.deliver(1)
    scene.account.list_messages("INBOX")
    os.link(scene.dir.root / "new" / "1.host", scene.dir.root / ".Junk" / "cur" / "1.host:2,")
    scene.account.move_message("INBOX", "1.host", "Junk", True)
    assert scene.dir.folders_of(1) == ["Junk"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links_will_do(scene, monkeypatch, number):
    def link(*_):
        raise OSError(number, "no links")

    monkeypatch.setattr(os, "link", link)
    scene.dir.deliver(1)
    scene.account.list_messages("INBOX")
    (scene.dir.root / ".Junk" / "cur" / "1.host:2,").write_bytes(b"another")
    scene.account.move_message("INBOX", "1.host", "Junk", True)
    assert (scene.dir.root / ".Junk" / "cur" / "1.host.1:2,").read_bytes() == mail(1)


def refused(*_):
    raise MailRefusedError("over quota")


def test_a_failed_move_does_not_stop_other_moves(tmp_path, monkeypatch):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    real = scene.account.move_message

    def refuses(folder, uid, target, junk):
        if uid.startswith("1."):
            raise MailRefusedError("over quota")
        real(folder, uid, target, junk)

    monkeypatch.setattr(scene.account, "move_message", refuses)
    for number in (1, 2):
        scene.dir.deliver(number, mail(number, "cheap pills buy now"))
    for _ in range(3):
        scene.scan()
    assert (scene.dir.folders_of(1), scene.dir.folders_of(2)) == (["INBOX"], ["Junk"])
    assert sum("next scan: over quota" in line for line in scene.report_lines) == 1
    monkeypatch.undo()
    scene.scan()
    assert scene.dir.folders_of(1) == ["Junk"]


def test_a_message_that_a_person_moves_back_during_a_scan_stays(tmp_path, monkeypatch):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    scene.scan()
    assert scene.dir.folders_of(1) == ["Junk"]
    real = scene.account.list_messages
    for folder in ("INBOX", "Junk", "Archive"):

        def listing(name, watched_folder=folder):
            if name == watched_folder and scene.dir.folders_of(1) == ["Junk"]:
                scene.dir.move(1, "INBOX")
            return real(name)

        monkeypatch.setattr(scene.account, "list_messages", listing)
        scene.scan()
        monkeypatch.setattr(scene.account, "list_messages", real)
        scene.scan()
        scene.scan()
        assert scene.dir.folders_of(1) == ["INBOX"]
        assert scene.box.label_of(digest(mail(1, "cheap pills buy now")))[0] == "ham"
        scene.dir.move(1, "Junk")
        scene.scan()


def test_a_message_that_a_person_moves_back_stays(tmp_path):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    assert scene.dir.folders_of(1) == ["Junk"]
    scene.dir.move(1, "INBOX")
    scene.scan()
    scene.scan()
    assert scene.dir.folders_of(1) == ["INBOX"]
    assert scene.box.label_of(digest(mail(1, "cheap pills buy now")))[0] == "ham"


@pytest.mark.parametrize("later", [False, True])
def test_copies_of_mail_that_streamnb_moved_are_not_labels(tmp_path, later):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    message = mail(1, "cheap pills buy now")
    scene.dir.deliver(1, message)
    for name in ("copy.host", "third.host"):
        if later:
            scene.scan()
        (scene.dir.root / "new" / name).write_bytes(b"Delivered-To: b@c.d\n" + message)
    for _ in range(3):
        scene.scan()
    assert len(list((scene.dir.root / ".Junk" / "cur").iterdir())) == 3
    assert scene.box.label_of(digest(message)) is None
    assert not any("learned" in line or "corrected" in line for line in scene.report_lines)


def test_the_next_watcher_retries_a_refused_move(tmp_path, monkeypatch):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()

    with monkeypatch.context() as patch:
        patch.setattr(scene.account, "move_message", refused)
        scene.dir.deliver(1, mail(1, "cheap pills buy now"))
        scene.scan()
    Watcher(scene.box, scene.account, scene.watcher.plan, scene.report_lines.append).scan()
    assert scene.dir.folders_of(1) == ["Junk"]


@pytest.mark.parametrize(
    "method", ["move_message", "fetch_message", "fetch_headers", "list_messages"]
)
def test_moves_of_another_watcher_are_not_labels(tmp_path, monkeypatch, method):
    """Two watchers of one account: the other one scans while this one is about to act."""
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    with Mailbox(tmp_path / "mail.db") as box:
        account = MaildirAccount(scene.dir.root)
        other = Watcher(box, account, scene.watcher.plan, scene.report_lines.append)
        other.scan()
        real = getattr(scene.account, method)
        for number in range(3):
            message = mail(number, "cheap pills buy now")
            scene.dir.deliver(number, message)

            def first(*arguments):
                other.scan()
                return real(*arguments)

            with monkeypatch.context() as patch:
                patch.setattr(scene.account, method, first)
                scene.scan()
            for watcher in (other, scene.watcher, other):
                watcher.scan()
            assert scene.dir.folders_of(number) == ["Junk"]
            assert scene.box.label_of(digest(message)) is None


def test_a_message_moved_by_hand_after_a_refused_move_is_learned(tmp_path, monkeypatch):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()

    monkeypatch.setattr(scene.account, "move_message", refused)
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    scene.dir.move(1, "Junk")
    scene.scan()
    assert scene.box.label_of(digest(mail(1, "cheap pills buy now")))[:2] == ("spam", HUMAN)


def test_a_message_renamed_during_its_move_is_moved(tmp_path, monkeypatch):
    scene = Scene(tmp_path, move=True)
    trained(scene)
    scene.scan()
    real = scene.account.fetch_message

    def fetch(folder, uid):
        content = real(folder, uid)
        scene.dir.move(1, "INBOX")  # read meanwhile
        return content

    monkeypatch.setattr(scene.account, "fetch_message", fetch)
    scene.dir.deliver(1, mail(1, "cheap pills buy now"))
    scene.scan()
    assert scene.dir.folders_of(1) == ["Junk"]


def test_the_same_header_again_is_not_its_owners_word(scene, monkeypatch):
    scene.dir.deliver(1, folder="Junk")
    scene.scan()
    scene.box.undo(0)
    scene.dir.find(1)[0].unlink()
    scene.scan()
    scene.scan()
    scene.dir.deliver(1, mail(1).replace(b"hello", b"pills"))
    scene.scan()
    assert not scene.box.labels or sum(scene.box.counts[0].weights) == 0


def test_a_removed_database_ends_watch(scene):
    os.unlink(scene.box.path)
    with pytest.raises(StateError, match="removed or replaced"):
        scene.scan()


def test_names_need_not_be_utf8(scene):
    name = os.fsencode(scene.dir.root) + b"/new/\xff\xfe.host"
    with open(name, "wb") as file:
        file.write(mail(1))
    scene.scan()
    os.rename(name, os.fsencode(scene.dir.root) + b"/.Junk/cur/\xff\xfe.host:2,S")
    scene.scan()
    assert scene.label(1) == "spam"


def test_the_command_ignores_the_trash(tmp_path):
    """With the folders that it finds by itself."""
    home = UserMaildir(tmp_path / "m", ["Junk", "Trash", "Sent", "Drafts", "Lists", "Lists.Trash"])
    (home.root / "new" / "sub").mkdir()
    db = ("--db", tmp_path / "db")
    home.deliver(1, folder="Junk")
    home.deliver(2, folder="Junk")
    assert streamnb_command("watch", home.root, "--once", *db)[0] == 0
    home.move(1, "Trash")
    home.move(2, "Lists")
    assert streamnb_command("watch", home.root, "--once", *db)[0] == 0
    home.move(1, "INBOX")
    home.move(2, "Junk")
    assert streamnb_command("watch", home.root, "--once", *db)[0] == 0
    with Mailbox(tmp_path / "db") as box:
        assert box.label_of(digest(mail(1))) is None  # out of the trash
        assert box.label_of(digest(mail(2)))[0] == "spam"


def test_folders_are_found_and_missing_ones_named(tmp_path):
    UserMaildir(tmp_path / "m", ["Spam box", "M&APw-ll"])
    account = MaildirAccount(tmp_path / "m")
    assert account.folder_names() == ["INBOX", "Müll", "Spam box"]
    assert account.list_messages("Müll") == {}
    with pytest.raises(CorpusError, match="no folder 'Junk'; there are"):
        account.list_messages("Junk")
    with pytest.raises(CorpusError, match="not a Maildir"):
        MaildirAccount(tmp_path)


def test_waiting_for_a_maildir_ends_in_time_or_on_a_stop(tmp_path):
    UserMaildir(tmp_path / "m", [])
    account, polls = MaildirAccount(tmp_path / "m"), []
    begun = time.monotonic()
    account.wait("INBOX", 0.05, lambda: False)
    assert 0.05 <= time.monotonic() - begun < 60
    account.wait("INBOX", 600, lambda: polls.append(0) or len(polls) == 2)
    assert time.monotonic() - begun < 500


def test_watching_a_stream_gives_the_counts_of_learning_it(sample, tmp_path):
    """In the order in which it is moved."""
    scene = Scene(tmp_path)
    scene.scan()
    stream = [(read(entry), entry.label) for entry in open_corpus(sample)][:60]
    with Mailbox(tmp_path / "other.db") as other:
        for i, (content, label) in enumerate(stream):
            scene.dir.deliver(i, content, "INBOX" if label == "spam" else "Junk")
            scene.scan()
            scene.dir.move(i, "Junk" if label == "spam" else "INBOX")
            scene.scan()
            other.learn(content, label, feedback="errors")
        assert scene.box.verify() == other.verify() == []
        for own_counts, other_counts in zip(scene.box.counts, other.counts, strict=True):
            a, b = own_counts.items(), other_counts.items()
            assert (a[0] == b[0]).all()
            columns = [other_counts.labels.index(label) for label in own_counts.labels]
            assert (a[1] == b[1][:, columns]).all()
    scene.box.close()


def test_the_command_watches_until_a_signal(tmp_path):
    scene = Scene(tmp_path)
    scene.box.close()
    command = [*STREAMNB, "watch", scene.dir.root, "--every", "0.1", "--db", scene.box.path]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = []
        while "watching maildir" not in "".join(lines):
            lines.append(process.stdout.readline())
        scene.dir.deliver(1)
        while "INBOX/1.host" not in lines[-1]:
            lines.append(process.stdout.readline())
        scene.dir.move(1, "Junk")
        while "spam (learned)" not in lines[-1]:
            lines.append(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        remaining_output = process.stdout.read()
        assert process.wait(120) == 0
    assert remaining_output.endswith("stopped\n")
    assert "Traceback" not in "".join(lines) + remaining_output
    status, out, _ = streamnb_command("watch", scene.dir.root, "--once", "--db", scene.box.path)
    assert status == 0
    assert "watching" in out
    status, _, error = streamnb_command(
        "watch", scene.dir.root, "--once", "--db", scene.box.path, "--spam-folder", "Nothing"
    )
    assert status == 3
    assert "no folder 'Nothing'; there are" in error
