"""An IMAP account on a real Dovecot, used by a person with a mail program, and by us."""

import contextlib
import gc
import itertools
import os
import subprocess
import time
import warnings

import pytest
from commands import STREAMNB, streamnb_command
from servers import PASSWORD, PROGRAM, Cut, Dovecot, mail

from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
from streamnb.errors import ConfigError, MailServerError
from streamnb.mailbox.digest import digest
from streamnb.mailbox.watch.access import Access, parse_imap_url
from streamnb.mailbox.watch.imap import ImapAccount, folder_messages
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

pytestmark = pytest.mark.dovecot
users = map("user{}".format, itertools.count())


@pytest.fixture(scope="module")
def old_server():
    """A server without IMAP extensions."""
    names = "IMAP4rev1 SASL-IR LITERAL+ ID ENABLE NAMESPACE UNSELECT CHILDREN"
    server = Dovecot(f"  imap_capability = {names}")
    yield server
    server.close()


class Scene:
    """A person's account, her mail program, and a watcher."""

    def __init__(self, server, folder, junk="Junk", **plan):
        self.server = server
        self.user = next(users)
        self.person = server.client(self.user)
        if not self.person.folder_exists(junk):
            self.person.create_folder(junk)
        self.person.create_folder("Archive")
        self.junk = junk
        self.box = Mailbox(folder / "mail.db")
        self.report_lines = []
        self.account = self.connect()
        self.plan = FolderPlan("INBOX", {junk: "spam"}, ("Archive",), **plan)
        self.watcher = Watcher(self.box, self.account, self.plan, self.report_lines.append)
        self.watcher.scan()

    @property
    def access(self):
        return Access(ca_file=str(self.server.certificate))

    def url(self, folder=""):
        return f"imap://{self.user}@localhost:{self.server.port}/{folder}"

    def connect(self):
        return ImapAccount(parse_imap_url(self.url()), self.access)

    def deliver(self, message, folder="INBOX"):
        self.person.append(folder, message)

    def move(self, number, source, target):
        self.person.select_folder(source)
        uids = self.person.search(["SUBJECT", f"m{number}", "UNDELETED"])
        if self.person.has_capability("MOVE"):
            self.person.move(uids, target)
        else:
            self.person.copy(uids, target)
            self.person.add_flags(uids, [b"\\Deleted"])
            self.person.expunge(uids)

    def subjects(self, folder):
        self.person.select_folder(folder, readonly=True)
        results = self.person.fetch(self.person.search("UNDELETED"), ["ENVELOPE"])
        return sorted(item[b"ENVELOPE"].subject.decode() for item in results.values())

    def moved_messages(self, folder):
        self.person.select_folder(folder, readonly=True)
        return self.person.search("SEEN")

    def label(self, number, words="hello there"):
        current_label = self.box.label_of(digest(mail(number, words)))
        return None if current_label is None else current_label[0]

    def reconnect(self):
        with contextlib.suppress(Exception):
            self.person.shutdown()
        self.person = self.server.client(self.user)

    def close(self):
        self.account.close()
        self.box.close()
        self.person.logout()


@pytest.fixture(autouse=True)
def password(monkeypatch):
    monkeypatch.setenv("STREAMNB_PASSWORD", PASSWORD)


@pytest.fixture(params=["server", "old_server"])
def scene(request, tmp_path):
    scene = Scene(request.getfixturevalue(request.param), tmp_path)
    yield scene
    scene.close()


def test_moves_are_learned_and_reversed(scene):
    scene.deliver(mail(1))
    scene.deliver(mail(2))
    scene.watcher.scan()
    scene.move(1, "INBOX", scene.junk)
    scene.watcher.scan()
    assert (scene.label(1), scene.label(2)) == ("spam", None)
    scene.move(1, scene.junk, "Archive")  # neither the inbox nor a class's folder
    scene.watcher.scan()
    assert scene.label(1) == "spam"
    scene.move(1, "Archive", "Trash")
    scene.move(2, "INBOX", "Trash")
    scene.watcher.scan()
    assert (scene.label(1), scene.label(2)) == ("spam", None)
    for folder in ("INBOX", scene.junk, "Trash"):
        assert scene.moved_messages(folder) == []
    assert scene.box.verify() == []


def test_moving_by_copy_and_mark_is_moving(scene):
    scene.deliver(mail(1))
    scene.watcher.scan()
    scene.person.select_folder("INBOX")
    uids = scene.person.search()
    scene.person.copy(uids, scene.junk)
    scene.person.add_flags(uids, [b"\\Deleted"])  # and not yet expunged
    scene.watcher.scan()
    assert scene.label(1) == "spam"
    scene.person.select_folder(scene.junk)
    uids = scene.person.search()
    scene.person.copy(uids, "INBOX")
    scene.person.add_flags(uids, [b"\\Deleted"])
    scene.watcher.scan()
    assert scene.label(1) is None


def trained(scene):
    for i in range(70):  # with fewer, all verdicts are unsure
        scene.box.learn(mail(100 + i, "cheap pills buy now"), "spam")
        scene.box.learn(mail(300 + i, "lunch at noon with ann"), "ham")


@pytest.mark.parametrize("junk", ["Junk", "Spam box", 'Müll & "Werbung"', "日本/ゴミ"])
@pytest.mark.parametrize("kind", ["server", "old_server"])
def test_spam_is_moved_and_other_mail_stays(request, tmp_path, kind, junk):
    scene = Scene(request.getfixturevalue(kind), tmp_path, junk, move=True)
    trained(scene)
    weights = list(scene.box.counts[0].weights)
    spam = mail(1, "cheap pills buy now")
    scene.deliver(spam)
    scene.deliver(mail(2, "lunch at noon with ann"))
    scene.deliver(mail(3, "cheap pills buy now"))
    scene.person.select_folder("INBOX")
    scene.person.add_flags(scene.person.search(["SUBJECT", "m2"]), [b"\\Deleted"])
    scene.person.unselect_folder() if scene.person.has_capability("UNSELECT") else None
    scene.watcher.scan()
    scene.watcher.scan()
    assert scene.subjects(junk) == ["m1", "m3"]
    scene.person.select_folder("INBOX")
    assert scene.person.search("SUBJECT m2"), "another's deleted message must not be expunged"
    assert scene.subjects("INBOX") == []
    assert not scene.moved_messages(junk)
    assert scene.box.counts[0].weights == weights
    scene.person.select_folder(junk, readonly=True)
    (uid,) = scene.person.search(["SUBJECT", "m1"])
    assert b"$Junk" in scene.person.get_flags([uid])[uid]
    assert scene.person.fetch([uid], ["BODY.PEEK[]"])[uid][b"BODY[]"] == spam
    scene.move(1, junk, "INBOX")
    scene.watcher.scan()
    assert scene.label(1, "cheap pills buy now") == "ham"
    scene.watcher.scan()
    assert scene.subjects("INBOX") == ["m1"]
    scene.close()


@pytest.mark.parametrize("kind", ["server", "old_server"])
def test_mail_goes_to_the_folder_of_its_class(request, tmp_path, kind):
    scene = Scene(request.getfixturevalue(kind), tmp_path)
    words = {"spam": "cheap pills buy now", "work": "the quarterly report", "ham": "lunch at noon"}
    for i in range(70):
        for label, text in words.items():
            scene.box.learn(mail(1000 + i, text), label)
    scene.account.create_folder("Work")
    scene.account.create_folder("Work")  # it is there
    plan = FolderPlan("INBOX", {"Junk": "spam", "Work": "work"}, ("Archive",), move=True)
    scene.watcher = Watcher(scene.box, scene.account, plan, scene.report_lines.append)
    scene.watcher.scan()
    for i, text in enumerate(words.values(), 1):
        scene.deliver(mail(i, text))
    scene.watcher.scan()
    scene.watcher.scan()
    folders = ("Junk", "Work", "INBOX")
    assert [scene.subjects(folder) for folder in folders] == [["m1"], ["m2"], ["m3"]]
    for folder, junk in (("Junk", True), ("Work", False)):
        scene.person.select_folder(folder, readonly=True)
        (flags,) = scene.person.get_flags(scene.person.search("UNDELETED")).values()
        assert (b"$Junk" in flags) == junk
    scene.move(2, "Work", "Junk")
    scene.watcher.scan()
    assert scene.label(2, words["work"]) == "spam"
    scene.move(1, "Junk", "Work")
    scene.watcher.scan()
    assert scene.label(1, words["spam"]) == "work"
    assert scene.box.verify() == []
    scene.close()


def test_a_message_that_cannot_be_moved_does_not_stop_the_scan(server, tmp_path):
    """The server refuses the move: the junk folder cannot be written."""
    scene = Scene(server, tmp_path, move=True)
    trained(scene)
    junk = server.base / "home" / scene.user / "Maildir" / ".Junk"
    places = [junk, *(junk / name for name in ("cur", "new", "tmp"))]
    for place in places:
        place.chmod(0o500)
    scene.deliver(mail(1, "cheap pills buy now"))
    scene.deliver(mail(2, "lunch at noon with ann"))
    scene.watcher.scan()
    scene.watcher.scan()
    assert [line for line in scene.report_lines if "INBOX/" in line and "H -" in line]
    assert sum("skipped until" in line for line in scene.report_lines) == 1
    for place in places:
        place.chmod(0o700)
    scene.watcher.scan()
    assert scene.subjects("Junk") == ["m1"]
    scene.close()


def test_keywords_are_the_users_word(scene):
    scene.deliver(mail(1))
    scene.deliver(mail(2))
    scene.watcher.scan()
    scene.person.select_folder("INBOX")
    item, two = scene.person.search()
    scene.person.add_flags([item], [b"$Junk"])
    scene.person.add_flags([two], [b"$NotJunk"])
    scene.watcher.scan()
    assert (scene.label(1), scene.label(2)) == ("spam", "ham")
    scene.person.add_flags([two], [b"$Junk"])  # both: neither
    scene.person.remove_flags([item], [b"$Junk"])
    scene.watcher.scan()
    assert (scene.label(1), scene.label(2)) == (None, None)


def test_a_change_of_uidvalidity_learns_nothing(scene):
    for number in (1, 2, 3):
        scene.deliver(mail(number))
    scene.watcher.scan()
    scene.move(1, "INBOX", scene.junk)
    scene.watcher.scan()
    report_lines = list(scene.report_lines)
    for folder, validity in (("INBOX", "4444"), (scene.junk, "5555")):
        scene.server.administer(
            "mailbox", "update", "-u", scene.user, "--uid-validity", validity, folder
        )
    for _ in range(3):  # clients that had opened the folder are disconnected
        try:
            scene.watcher.scan()
        except MailServerError:
            continue
    assert scene.report_lines == report_lines
    assert (scene.label(1), scene.label(2)) == ("spam", None)
    scene.reconnect()
    scene.move(2, "INBOX", scene.junk)
    scene.watcher.scan()
    assert scene.label(2) == "spam"


@pytest.mark.parametrize("after", [3000, 20_000, 60_000, 200_000])
def test_a_connection_cut_in_the_middle_loses_nothing(server, tmp_path, after):
    scene = Scene(server, tmp_path)
    for number in range(8):
        scene.deliver(mail(number, "words " * 5000))
    scene.watcher.scan()
    for number in range(8):
        scene.move(number, "INBOX", "Junk")
    cut = Cut(server.port, after)
    address = parse_imap_url(scene.url())._replace(port=cut.port)

    def look_until_cut():
        account = ImapAccount(address, scene.access)
        account.name = scene.account.name
        watcher = Watcher(scene.box, account, scene.plan, scene.report_lines.append)
        for _ in range(50):
            watcher.scan()

    with pytest.raises(MailServerError, match="localhost"):
        look_until_cut()
    cut.close()
    with warnings.catch_warnings():  # IMAPClient leaves a socket that is cut in the handshake open
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    assert scene.box.verify() == []
    scene.watcher.scan()
    labels = {scene.label(number, "words " * 5000) for number in range(8)}
    assert labels == {"spam"}
    assert scene.box.verify() == []
    scene.close()


def test_a_folder_of_ten_thousand(server, tmp_path):
    user = next(users)
    server.put_files(user, "", (mail(i) for i in range(10_000)))
    begun = time.monotonic()
    with Mailbox(tmp_path / "db") as box:
        account = ImapAccount(
            parse_imap_url(f"imap://{user}@localhost:{server.port}"),
            Access(ca_file=str(server.certificate)),
        )
        report_lines = []
        watcher = Watcher(box, account, FolderPlan("INBOX"), report_lines.append)
        watcher.scan()
        assert "INBOX: 10,000 messages there already" in report_lines
        assert time.monotonic() - begun < 300
        person = server.client(user)
        person.select_folder("INBOX")
        person.move(person.search(["SUBJECT", "m5000"]), "Junk")
        begun = time.monotonic()
        watcher.scan()
        assert time.monotonic() - begun < 60
        assert box.label_of(digest(mail(5000)))[0] == "spam"
        person.logout()
        account.close()


def test_all_messages_of_a_folder_can_be_learned(server, sample, tmp_path):
    user = next(users)
    stream = [read(entry) for entry in itertools.islice(open_corpus(sample), 40)]
    server.put_files(user, ".M&APw-ll & mehr".replace(" & ", " &- "), stream)
    access = Access(ca_file=str(server.certificate))
    url = f"imap://{user}@localhost:{server.port}/M%C3%BCll%20%26%20mehr"
    results = [item.content for item in folder_messages(url, access)]
    assert sorted(map(digest, results)) == sorted(map(digest, stream))
    command = ["--ca-file", server.certificate, "--db", tmp_path / "db"]
    status, out, _ = streamnb_command("learn", "spam", url, *command)
    assert (status, out) == (0, "40 messages: 40 learned\n")
    status, out, _ = streamnb_command("forget", url, *command)
    assert (status, out) == (0, "40 messages: 40 forgotten\n")
    person = server.client(user)
    person.select_folder("Müll & mehr")
    assert person.search("SEEN") == []
    person.logout()


def test_the_command_watches_reconnects_and_idles(server, tmp_path):
    scene = Scene(server, tmp_path)
    scene.box.close()
    command = [
        *STREAMNB, "watch", scene.url(), "--ca-file", server.certificate, "--every", "60",
        "--db", scene.box.path, "--folder", "Archive",
    ]  # fmt: skip
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = [""]

        def until(text):
            while text not in lines[-1]:
                lines.append(process.stdout.readline())
                assert lines[-1], lines

        until("watching imap://")
        scene.deliver(mail(1))  # reported by IDLE, long before a minute is over
        until("INBOX/")
        scene.move(1, "INBOX", "Junk")
        until("spam (learned)")
        server.administer("kick", scene.user)
        until("again in 1 s")
        scene.reconnect()
        scene.deliver(mail(2))
        until("INBOX/")
        process.terminate()
        remaining_output = process.stdout.read()
        assert process.wait(120) == 0
    assert "Traceback" not in "".join(lines) + remaining_output
    scene.box = Mailbox(scene.box.path)
    assert scene.label(1) == "spam"
    assert scene.box.verify() == []
    scene.close()


def test_trouble_is_one_line(server, tmp_path, monkeypatch):
    ca, db = ("--ca-file", server.certificate), ("--db", tmp_path / "db")
    url = f"imap://{next(users)}@localhost:{server.port}"

    def fails(status, words, *arguments):
        results, out, error = streamnb_command(*arguments, *db)
        assert (results, out) == (status, ""), error
        assert words in error
        assert error.count("\n") == 1

    fails(6, "certificate", "learn", "spam", url)
    fails(6, "Mailbox doesn't exist: Nowhere", "learn", "spam", f"{url}/Nowhere", *ca)
    fails(6, "refused", "learn", "spam", "imap://ann@localhost:1", *ca)
    fails(2, "password on the command line", "learn", "spam", url.replace("@", ":x@", 1), *ca)
    fails(
        2,
        "only for a server on this machine",
        "learn",
        "spam",
        "imap://a@example.org",
        "--plaintext",
    )
    fails(
        6, "Mailbox doesn't exist: Nowhere", "watch", url, "--spam-folder", "Nowhere", "--once", *ca
    )
    monkeypatch.setenv("STREAMNB_PASSWORD", "wrong")
    fails(6, "the login was refused", "learn", "spam", url, *ca)
    monkeypatch.delenv("STREAMNB_PASSWORD")
    fails(2, "no password: use --password-command", "learn", "spam", url, *ca)
    (tmp_path / "secret").write_text(PASSWORD + "\n")
    (tmp_path / "secret").chmod(0o644)
    fails(2, "chmod 600", "learn", "spam", url, *ca, "--password-file", tmp_path / "secret")
    fails(2, "--password-command", "learn", "spam", url, *ca, "--password-command", "false")
    (tmp_path / "secret").chmod(0o600)
    account = ImapAccount(
        parse_imap_url(url), Access(password_file=str(tmp_path / "secret"), ca_file=str(ca[1]))
    )
    account.close()
    tls = parse_imap_url(f"imaps://ann@localhost:{server.tls_port}")
    command = f"cat {tmp_path / 'secret'}"
    ImapAccount(tls, Access(password_command=command, ca_file=str(ca[1]))).close()
    plain = parse_imap_url(url)
    ImapAccount(plain, Access(password_command=command, plaintext=True)).close()


@pytest.mark.parametrize(
    "url", ["imap://", "imap://host", "imap://u@h:x/", "imap://u@h:99999/", "imap://u@h/a%00b"]
)
def test_addresses_that_are_none_are_refused(url):
    with pytest.raises(ConfigError):
        parse_imap_url(url)


def test_there_is_a_server():
    assert os.path.exists(PROGRAM)
