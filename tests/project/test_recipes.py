"""The walk-through and the recipes of the guides, word for word, with the real programs."""

import os
import re
import subprocess
import sys
import time

import pytest
from servers import PASSWORD, Dovecot

from streamnb import Mailbox
from streamnb.mailbox.digest import digest

pytestmark = pytest.mark.dovecot
SPAM = b"From: p@example.com\nTo: ann\nSubject: cheap pills %d\n\nbuy cheap pills now\n"
HAM = b"From: bob@example.org\nTo: ann\nSubject: lunch %d\n\nshall we meet at noon?\n"


def blocks(repository, after):
    """The fenced blocks of the guide to procmail and maildrop that follow some words."""
    text = (repository / "docs" / "guides" / "procmail.md").read_text(encoding="utf-8")
    return re.findall(r"```\w*\n(.*?)```", text[text.index(after) :], re.S)


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A home of one's own, with streamnb on the path and a trained database."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    program = bin_folder / "streamnb"
    program.write_text(f"#!{sys.executable} -P\nfrom streamnb.cli import main\nmain()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("STREAMNB_DB", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with Mailbox(tmp_path / ".local" / "share" / "streamnb" / "mail.db") as box:
        for i in range(70):  # with fewer, all verdicts are unsure
            box.learn(SPAM % i, "spam")
            box.learn(HAM % i, "ham")
    for folder in ("Maildir", "Maildir/.Junk"):
        for place in ("cur", "new", "tmp"):
            (tmp_path / folder / place).mkdir(parents=True)
    return tmp_path


def delivered(home, folder):
    return [path.read_bytes() for path in (home / folder / "new").iterdir()]


def check_delivery(home):
    (junk,) = delivered(home, "Maildir/.Junk")
    (good,) = delivered(home, "Maildir")
    assert b"X-Streamnb: Spam" in junk
    assert b"X-Streamnb: Ham" in good
    # (procmail ends a message with an empty line.)
    assert junk.rstrip().endswith((SPAM % 99).rstrip())
    assert good.rstrip().endswith((HAM % 99).rstrip())


def variables(home):
    """Return settings that delivery agents do not take from the environment of their caller."""
    database = home / ".local" / "share" / "streamnb" / "mail.db"
    return f"PATH={os.environ['PATH']}\nSTREAMNB_DB={database}\n"


def test_procmail(repository, environment):
    recipe = blocks(repository, "In `~/.procmailrc`")[0]
    start = f"{variables(environment)}DEFAULT={environment}/Maildir/\nMAILDIR={environment}\n"
    (environment / ".procmailrc").write_text(start + recipe)
    for message in (SPAM % 99, HAM % 99):
        subprocess.run(["procmail", "-m", environment / ".procmailrc"], input=message, check=True)
    check_delivery(environment)


def test_maildrop(repository, environment):
    recipe = blocks(repository, "In `~/.mailfilter`")[0]
    quoted = re.sub("=(.*)", r'="\1"', variables(environment))
    (environment / ".mailfilter").write_text(f'{quoted}{recipe}to "{environment}/Maildir"\n')
    (environment / ".mailfilter").chmod(0o600)
    for message in (SPAM % 99, HAM % 99):
        command = ["maildrop", environment / ".mailfilter"]
        subprocess.run(command, input=message, check=True, cwd=environment)
    check_delivery(environment)


def test_the_walk_through(repository, environment, monkeypatch):
    """From an empty account to mail filed and corrected."""
    text = (repository / "docs" / "guides" / "imap-account.md").read_text(encoding="utf-8")
    first, second = re.findall(r"<!-- walk-through -->\n```sh\n(.*?)```", text, re.S)
    server = Dovecot()
    try:
        for name in ("", "-wal", "-shm"):
            (environment / ".local" / "share" / "streamnb" / f"mail.db{name}").unlink(
                missing_ok=True
            )
        monkeypatch.setenv("STREAMNB_PASSWORD", PASSWORD)
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        monkeypatch.setenv("MAIL", f"imap://ann@localhost:{server.port}")
        monkeypatch.chdir(environment)
        process = subprocess.Popen(["bash", "-euc", f"{first}\necho $! >pid\nwait"])
        log = environment / "watch.log"
        until(lambda: log.exists() and "watching" in log.read_text())
        person = server.client("ann")
        for i in range(70):  # after fewer, all verdicts are unsure
            person.append("INBOX", SPAM % i)
            person.append("INBOX", HAM % i)
        until(lambda: log.read_text().count("INBOX/") == 140)
        person.select_folder("INBOX")
        person.move(person.search(["SUBJECT", "pills"]), "Junk")
        until(lambda: log.read_text().count("spam (learned)") == 70)
        person.add_flags(person.search(["SUBJECT", "lunch"]), [b"$NotJunk"])
        until(lambda: log.read_text().count("ham (learned)") == 70)
        person.append("INBOX", SPAM % 500)
        until(lambda: "moved to Junk" in log.read_text())
        person.select_folder("Junk")
        person.move(person.search(["SUBJECT", "pills 500"]), "INBOX")
        until(lambda: log.read_text().count("ham (learned)") == 71)
        os.kill(int((environment / "pid").read_text()), 15)
        assert process.wait(120) in (0, 143)
        assert log.read_text().endswith("stopped\n")
        with Mailbox(environment / ".local" / "share" / "streamnb" / "mail.db") as box:
            assert box.verify() == []
            assert box.label_of(digest(SPAM % 500))[0] == "ham"
            assert sum(box.counts[0].weights) == 141
        person.create_folder("Archive")
        person.append("Archive", HAM % 77)
        person.logout()
        done = subprocess.run(["bash", "-euc", second], capture_output=True, text=True, check=True)
        assert "71 messages: 70 known, 1 learned" in done.stdout
        assert "watch" in done.stdout
    finally:
        server.close()


def until(holds):
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)
