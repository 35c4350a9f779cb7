"""The guide for mail servers, word for word, with a real Postfix, Dovecot and systemd."""

import contextlib
import os
import re
import signal
import smtplib
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import STREAMNB
from hostile import hostile
from servers import UID, Dovecot, Postfix, free_port
from serving import as_sent

from streamnb import Mailbox
from streamnb.errors import OutputError

pytestmark = pytest.mark.dovecot

SPAM = b"From: p@example.com\r\nTo: ann\r\nSubject: pills %d\r\n\r\nbuy cheap pills\r\n"
HAM = b"From: b@example.org\r\nTo: ann\r\nSubject: lunch %d\r\n\r\nmeet at noon?\r\n"
FOLDERS = {
    "spam": "Junk", "work": "Work", "lists": "Lists", "bills": "Bills", "family": "Family"
}  # fmt: skip
SIEVE = """
protocol lmtp {{
  mail_plugins = sieve
}}
plugin {{
  sieve_before = {base}/sieve/all.sieve
}}
"""


def taught_with(path, messages):
    with Mailbox(path) as box:
        for i in range(120):
            for label, message in messages.items():
                box.learn(message % i, label)
    return path


STAMPS = b"Date: Sun, 22 Nov 2026 11:00:00 +0000\r\nMessage-ID: <%d@example.com>\r\n"  # or Postfix adds them


def of_class(label):
    name = label.encode()
    words = b" ".join(b"%b%c" % (name, letter) for letter in range(97, 123))
    return (
        b"From: someone@%b.example.com\r\nTo: ann@example.org\r\nSubject: about %b\r\n%b\r\n%b\r\n"
        % (name, name, STAMPS, words)
    )


def block(repository, name, language=""):
    text = (repository / "docs" / "guides" / "mail-server.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- {name} -->\n```{language}\n(.*?)```", text, re.S)[1]


class Site:
    """Mail from a client's connection to a user's folder."""

    def __init__(self, repository, tmp_path, way):
        self.port, self.ours, self.back = free_port(), free_port(), free_port()
        self.dovecot = Dovecot(more=SIEVE)
        base = self.dovecot.base
        (base / "sieve").mkdir()
        (base / "sieve" / "all.sieve").write_text(block(repository, "sieve"))
        os.chown(base / "sieve", UID, UID)
        self.dovecot.put_files("ann", "", [])
        self.environment = {**os.environ, "STREAMNB_USERS": str(tmp_path / "users")}
        settings = f"mailbox_transport = lmtp:unix:{base}/lmtp\n"
        if way == "milter":
            services = f"127.0.0.1:{self.port} inet n - n - - smtpd\n"
            settings += (
                f"smtpd_milters = inet:127.0.0.1:{self.ours}\nmilter_default_action = accept\n"
            )
            command = block(repository, way, "sh").replace("10023", str(self.ours)).split()[1:]
            # A few hundred messages do not make a verdict as sure as the guide's limit.
            command[command.index("--reject") + 1] = "0.95"
            command += ["--db", tmp_path / "mail.db"]
        elif way == "lmtp":
            services = f"127.0.0.1:{self.port} inet n - n - - smtpd\n"
            settings = f"mailbox_transport = lmtp:inet:127.0.0.1:{self.ours}\n"
            command = block(repository, "lmtp", "sh").split()[1:]
            command = [
                word.replace("10024", str(self.ours)).replace("/run/dovecot", str(base))
                for word in command
            ]
        else:
            services = block(repository, way).replace(
                "smtp      inet", f"127.0.0.1:{self.port} inet", 1
            )
            services = services.replace("10025", str(self.ours)).replace("10026", str(self.back))
            command = ["serve", "--db", tmp_path / "mail.db", "--smtp", f"127.0.0.1:{self.ours}",
                       "--next", f"smtp:127.0.0.1:{self.back}"]  # fmt: skip
        self.command = [*STREAMNB, *map(str, command)]
        self.log = (tmp_path / "serve.log").open("wb")
        self.start()
        self.postfix = Postfix(services, settings)

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log, env=self.environment)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def send(self, messages):
        """Bring messages as a client does that tries again; how often it was told to."""
        again = 0
        waiting = list(messages)
        end = time.monotonic() + 120
        while waiting:
            assert time.monotonic() < end
            try:
                with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as client:
                    while waiting:
                        client.sendmail("x@example.net", ["ann@example.org"], waiting[0])
                        waiting.pop(0)
            except (OSError, smtplib.SMTPException):
                again += 1
                time.sleep(0.1)
        return again

    def delivered(self, folder=""):
        root = self.dovecot.base / "home" / "ann" / "Maildir"
        here = root / f".{folder}" if folder else root
        return [path.read_bytes() for path in here.glob("new/*")]

    def wait(self, count, folders=("",)):
        end = time.monotonic() + 90
        while sum(len(self.delivered(folder)) for folder in folders) < count:
            assert time.monotonic() < end, (self.postfix.base / "log").read_text()[-3000:]
            time.sleep(0.1)

    def close(self):
        self.postfix.close()
        self.dovecot.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
        self.log.close()


@pytest.fixture
def site(repository, tmp_path):
    made = []

    def make(way):
        made.append(Site(repository, tmp_path, way))
        return made[0]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("way", ["before-queue", "after-queue", "lmtp", "milter"])
def test_mail_flows_into_five_folders(site, tmp_path, way):
    messages = {label: of_class(label) for label in FOLDERS}
    (tmp_path / "users").mkdir()
    taught_with(tmp_path / ("users/ann.db" if way == "lmtp" else "mail.db"), messages)
    mail = site(way)
    if way == "milter":
        wait_for(mail.ours)
        del messages["spam"]  # it is refused
    mail.send([message % 500 for message in messages.values()] + [b"Subject: hm\r\n\r\nhm\r\n"])
    mail.wait(1 + len(messages), ["", *FOLDERS.values()])
    for label in messages:
        (got,) = mail.delivered(FOLDERS[label])
        mark = b"Spam" if label == "spam" else label.encode()
        assert b"\nX-Streamnb: " + mark + b", " in got.replace(b"\r", b"")
        assert got.replace(b"\r", b"").endswith((messages[label] % 500).replace(b"\r", b""))
    (got,) = mail.delivered()
    assert b"\nX-Streamnb: Unsure, " in got


def wait_for(port):
    end = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_milter_refuses_and_marks_whatever_comes(site, tmp_path):
    taught_with(tmp_path / "mail.db", {"spam": of_class("spam"), "ham": of_class("ham")})
    mail = site("milter")
    wait_for(mail.ours)
    # A name that is no IDNA, which a library once gave the milter's session up for.
    with smtplib.SMTP("127.0.0.1", mail.port, local_hostname="xn--a", timeout=20) as client:
        for number in (500, 501):
            with pytest.raises(smtplib.SMTPDataError, match="rejected"):
                client.sendmail("x@example.net", ["ann@example.org"], of_class("spam") % number)
        forged = b"X-Streamnb: Spam, score=9\r\nx-streamnb: forged\r\n" + of_class("ham") % 501
        client.sendmail("x@example.net", ["ann@example.org"], forged)
        mail.wait(1)
        (got,) = mail.delivered()
        assert len(re.findall(rb"(?im)^x-streamnb:", got)) == 1
        assert re.search(rb"^X-Streamnb: Ham, ", got, re.M)
        mails = hostile(large=False)
        for message in mails.values():
            client.sendmail("x@example.net", ["ann@example.org"], as_sent(message))
    mail.wait(1 + len(mails), ["", "Junk"])
    marked = [message for folder in ("", "Junk") for message in mail.delivered(folder)]
    assert all(len(re.findall(rb"(?m)^X-Streamnb: \w+, score=", one)) == 1 for one in marked)
    mail.kill()
    mail.send([of_class("ham") % 502])  # without its milter Postfix takes mail unmarked
    mail.wait(2 + len(mails), ["", "Junk"])


@pytest.mark.parametrize("way", ["before-queue", "after-queue", "lmtp"])
def test_nothing_is_lost_when_the_filter_is_killed(site, tmp_path, way):
    (tmp_path / "users").mkdir()
    taught_with(
        tmp_path / ("users/ann.db" if way == "lmtp" else "mail.db"), {"spam": SPAM, "ham": HAM}
    )
    mail = site(way)
    for kill in range(8):
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(mail.send, [HAM % (1000 + 10 * kill + i) for i in range(10)])
            time.sleep(0.05 * kill)
            mail.kill()
            mail.start()
            sending.result()
    numbers = [str(n) for n in range(1000, 1080)]
    end = time.monotonic() + 90
    while True:
        found = [re.search(rb"lunch (\d+)", got)[1].decode() for got in mail.delivered()]
        if set(found) == set(numbers):
            break
        assert time.monotonic() < end, sorted(set(numbers) - set(found))
        time.sleep(0.2)
    assert len(found) <= len(numbers) + 8  # twice at most, where a kill fell between two answers


def test_the_unit_files_are_sound(repository, tmp_path):
    for name in ("streamnb.service", "streamnb-smtp.socket"):
        text = (repository / "docs" / "systemd" / name).read_text()
        program = text.replace("/opt/streamnb/bin/streamnb", "/bin/true")
        (tmp_path / name).write_text(program.replace("Documentation=man:streamnb(1)\n", ""))
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "streamnb.service"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "streamnb" in line]
    assert (done.returncode, ours) == (0, [])


def test_systemd_passes_the_socket_on(repository, tmp_path):
    """What the unit's command does with the sockets and the readiness that systemd knows."""
    taught_with(tmp_path / "mail.db", {"spam": SPAM, "ham": HAM})
    unit = (repository / "docs" / "systemd" / "streamnb.service").read_text()
    options = re.search(r"^ExecStart=\S+ (.*)$", unit, re.M)[1].split()
    port = free_port()
    environment = [
        "-E",
        "PATH",
        "-E",
        f"STREAMNB_DB={tmp_path}/mail.db",
        "-E",
        f"STREAMNB_SOCKET={tmp_path}/ask",
    ]
    process = subprocess.Popen(
        ["systemd-socket-activate", "--fdname=smtp", "-l", f"127.0.0.1:{port}", *environment,
         sys.executable, "-P", "-m", "streamnb", *options],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        end = time.monotonic() + 20
        while True:
            try:
                with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
                    client.ehlo()
                    assert client.docmd("MAIL FROM:<a@b.c>")[0] == 451  # nobody is at port 10026
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.1)
        assert (tmp_path / "ask").exists()
    finally:
        process.terminate()
        process.wait(20)


def fill(box):
    for i in range(10_000):
        box.learn(SPAM % i + os.urandom(3000).hex(" ").encode(), "spam")


def test_after_a_full_disk_all_goes_on(tmp_path):
    """When there is room again, be it little: the log of what was written must not stay in its way."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", tmp_path], check=True)
    try:
        (tmp_path / "ballast").write_bytes(bytes(1 << 20))
        db = tmp_path / "db"
        with Mailbox(db) as box:
            with pytest.raises(OutputError, match="the disk is full; nothing was changed"):
                fill(box)
            known = sum(box.counts[0].weights)
        with open(tmp_path / "rest", "wb", 0) as rest, contextlib.suppress(OSError):
            while rest.write(bytes(512)):
                pass
        with pytest.raises(OutputError, match="the disk is full"), Mailbox(db) as box:
            box.learn(SPAM % 0 + os.urandom(3000), "ham")
        (tmp_path / "rest").unlink()
        (tmp_path / "ballast").unlink()
        for command in (["undo", "--last", "5"], ["export", "-"], ["verify"], ["status"],
                        ["undo", "--since", "1h", "--yes"], ["compact"]):  # fmt: skip
            done = subprocess.run(
                [*STREAMNB, *command, "--db", db], capture_output=True, text=True, check=False
            )
            assert (done.returncode, done.stderr) == (0, ""), command
        with Mailbox(db) as box:
            assert sum(box.counts[0].weights) == 0 < known
            assert box.verify() == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)
