"""The guide for mail servers, word for word, with a real Postfix, Dovecot and systemd."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import smtplib
import socket
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import STREAMNB
from hostile import hostile
from ports import free_port
from servers import UID, Dovecot, Postfix, dovecot_version
from serving import as_sent, poll

from streamnb import Mailbox
from streamnb.errors import OutputError

pytestmark = pytest.mark.dovecot

SPAM = b"From: p@example.com\r\nTo: ann\r\nSubject: pills %d\r\n\r\nbuy cheap pills\r\n"
HAM = b"From: b@example.org\r\nTo: ann\r\nSubject: lunch %d\r\n\r\nmeet at noon?\r\n"
FOLDERS = {
    "spam": "Junk", "work": "Work", "lists": "Lists", "bills": "Bills", "family": "Family"
}  # fmt: skip


def train(path, messages):
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


def block(repository, name, language=r"\w*"):
    text = "".join(
        path.read_text("utf-8") for path in (repository / "docs" / "guides").glob("*.md")
    )
    return re.search(rf"<!-- {name} -->\n```{language}\n(.*?)```", text, re.S)[1]


SOCKETS = {"sieve": ("streamnb.sock", UID), "pipe": ("ask", "nobody")}


def dovecot_configuration(repository, name, base):
    """Return the guide's settings for the installed Dovecot, for a server in a folder of its own."""
    text = block(repository, f"{name}-configuration-{dovecot_version()}")
    text = text.replace("/usr/local/lib/dovecot/streamnb", str(base / "bin"))
    return text.replace("/etc/dovecot/streamnb", str(base / "sieve"))


class Site:
    """Mail from a client's connection to a user's folder.

    `route` is one of `ROUTES`.
    """

    user = "ann"

    def __init__(self, repository, tmp_path, route):
        self.port, self.filter_port, self.back_port = free_port(), free_port(), free_port()
        self.repository, self.route = repository, route
        self.guide = lambda name, language=r"\w*": block(repository, name, language)
        self.dovecot = Dovecot(configuration=self.dovecot_configuration)
        self.base = self.dovecot.base
        for name in ("sieve", "bin", "opt", "users"):
            (self.base / name).mkdir()
            os.chown(self.base / name, UID, UID)
        # The programs of a virtual environment may be in a folder that only root can enter.
        shutil.copy(Path(sysconfig.get_path("scripts"), "streamnb-filter"), self.base / "opt")
        (self.base / "sieve" / "folders.sieve").write_text(self.guide("sieve"))
        self.dovecot.put_files(self.user, "", [])
        self.environment = {**os.environ, "STREAMNB_USERS": str(tmp_path / "users")}
        checks = tmp_path / "header_checks"
        checks.write_text(self.guide("header-checks"))
        settings = self.guide("header-checks-main")
        settings = settings.replace("/etc/postfix/streamnb_header_checks", str(checks))
        services, more_settings, command = getattr(self, route.replace("-", "_"))(tmp_path)
        if self.route != "lmtp":
            settings += f"mailbox_transport = lmtp:unix:{self.base}/lmtp\n"
        self.command = [*STREAMNB, *map(str, command)]
        self.log = (tmp_path / "serve.log").open("wb")
        self.start()
        self.postfix = Postfix(services, settings + more_settings)

    @property
    def plain_service(self):
        return f"127.0.0.1:{self.port} inet n - n - - smtpd\n"

    def before_queue(self, tmp_path):
        services = self.guide(self.route)
        if self.route == "postscreen":  # the second service is that of the first recipe
            services += re.search(r"^127.*", self.guide("before-queue"), re.M | re.S)[0]
        services = services.replace("smtp      inet", f"127.0.0.1:{self.port} inet", 1)
        services = services.replace("10025", str(self.filter_port))
        services = services.replace("10026", str(self.back_port))
        command = ["serve", "--db", tmp_path / "mail.db", "--smtp", f"127.0.0.1:{self.filter_port}",
                   "--next", f"smtp:127.0.0.1:{self.back_port}"]  # fmt: skip
        return services, "smtp_send_xforward_command = yes\n", command

    after_queue = postscreen = before_queue

    def milter(self, tmp_path):
        settings = (
            f"smtpd_milters = inet:127.0.0.1:{self.filter_port}\nmilter_default_action = accept\n"
        )
        text = self.guide("milter", "sh").replace("\\\n", " ")
        command = shlex.split(text.replace("10023", str(self.filter_port)))
        # A few hundred messages do not make a verdict as sure as the guide's limit.
        command[command.index("--reject") + 1] = "0.95"
        return self.plain_service, settings, [*command[1:], "--db", tmp_path / "mail.db"]

    def lmtp(self, tmp_path):
        command = self.guide("lmtp", "sh").replace("10024", str(self.filter_port))
        command = command.replace("/run/dovecot", str(self.base)).split()[1:]
        settings = (
            f"mailbox_transport = lmtp:inet:127.0.0.1:{self.filter_port}\n"
            "lmtp_send_xforward_command = yes\n"
        )
        return self.plain_service, settings, command

    def sieve(self, tmp_path):
        (self.base / "sieve" / "filter.sieve").write_text(self.guide("sieve-filter"))
        program = self.guide("sieve-filter-program", "sh")
        program = program.replace("/opt/streamnb/bin", str(self.base / "opt"))
        program = program.replace("/var/lib/streamnb/users", str(self.base / "users"))
        (self.base / "bin" / "streamnb-filter").write_text(program)
        (self.base / "bin" / "streamnb-filter").chmod(0o755)
        self.environment["STREAMNB_USERS"] = str(self.base / "users")
        return self.plain_service, "", ["serve", "--users"]

    def pipe(self, tmp_path):
        places = {
            "/opt/streamnb/bin": f"{self.base}/opt",
            "/var/lib/streamnb/mail.db": f"{self.base}/users/mail.db",
            "/run/streamnb/ask": f"{self.base}/users/ask",
        }
        program = self.guide("pipe-script", "sh")
        for path, place in places.items():
            program = program.replace(path, place)
        (self.base / "bin" / "streamnb-pipe").write_text(program)
        (self.base / "bin" / "streamnb-pipe").chmod(0o755)
        services = self.guide("pipe").replace("smtp      inet", f"127.0.0.1:{self.port} inet", 1)
        services = services.replace("/usr/local/sbin", f"{self.base}/bin")
        services = services.replace("user=streamnb", "user=nobody")
        self.environment["STREAMNB_SOCKET"] = f"{self.base}/users/ask"
        return services, "", ["serve", "--db", f"{self.base}/users/mail.db"]

    def dovecot_configuration(self, base):
        name = "sieve-filter" if self.route == "sieve" else "sieve-folders"
        return dovecot_configuration(self.repository, name, base)

    def start(self):
        self.process = subprocess.Popen(self.command, stderr=self.log, env=self.environment)
        if self.route in SOCKETS:  # as if the server ran as the user that runs the program
            name, user = SOCKETS[self.route]
            poll((self.base / "users" / name).is_socket)
            shutil.chown(self.base / "users" / name, user)

    def postfix_log(self):
        return (self.postfix.base / "log").read_text()

    def log_lines(self):
        return Path(self.log.name).read_text().splitlines()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def send(self, messages, recipients=("ann@example.org",)):
        """Send messages as a client that retries; return the number of retries."""
        retries = 0
        waiting = list(messages)
        end = time.monotonic() + 120
        while waiting:
            assert time.monotonic() < end
            try:
                with smtplib.SMTP("127.0.0.1", self.port, timeout=20) as client:
                    while waiting:
                        client.sendmail("x@example.net", recipients, waiting[0])
                        waiting.pop(0)
            except (OSError, smtplib.SMTPException):
                retries += 1
                time.sleep(0.1)
        return retries

    def delivered(self, folder="", user=None):
        root = self.dovecot.base / "home" / (user or self.user) / "Maildir"
        folder_path = root / f".{folder}" if folder else root
        return [path.read_bytes() for path in folder_path.glob("new/*")]

    def wait(self, count, folders=("",)):
        end = time.monotonic() + 90
        while sum(len(self.delivered(folder)) for folder in folders) < count:
            assert time.monotonic() < end, self.postfix_log()[-3000:]
            time.sleep(0.1)

    def close(self):
        self.postfix.close()
        self.dovecot.close()
        if self.process.poll() is None:
            self.stop()
        self.log.close()


@pytest.fixture
def site(repository, tmp_path):
    sites = []

    def make(route, messages):
        """Return a site whose user is trained with messages by class."""
        (tmp_path / "users").mkdir()
        if route not in SOCKETS:
            train(tmp_path / ("users/ann.db" if route == "lmtp" else "mail.db"), messages)
        sites.append(Site(repository, tmp_path, route))
        if route in SOCKETS:
            name = "ann.db" if route == "sieve" else "mail.db"
            train(sites[0].base / "users" / name, messages)
        return sites[0]

    yield make
    for item in sites:
        item.close()


ROUTES = ["before-queue", "postscreen", "after-queue", "lmtp", "milter", "sieve"]


@pytest.mark.parametrize("route", ROUTES)
def test_mail_flows_into_five_folders(site, tmp_path, route):
    messages = {label: of_class(label) for label in FOLDERS}
    mail = site(route, messages)
    if route == "milter":
        wait_for(mail.filter_port)
        del messages["spam"]  # it is refused
    mail.send([message % 500 for message in messages.values()] + [b"Subject: hm\r\n\r\nhm\r\n"])
    mail.wait(1 + len(messages), ["", *FOLDERS.values()])
    for label in messages:
        (got,) = mail.delivered(FOLDERS[label])
        mark = b"Spam" if label == "spam" else label.encode()
        assert re.search(rb"^X-Streamnb: %b, " % mark, got, re.M)
        assert got.replace(b"\r", b"").endswith((messages[label] % 500).replace(b"\r", b""))
    (got,) = mail.delivered()
    assert re.search(rb"^X-Streamnb: Unsure, ", got, re.M)


def wait_for(port):
    end = time.monotonic() + 30
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_milter_marks_or_refuses_any_message(site, tmp_path):
    mail = site("milter", {"spam": of_class("spam"), "ham": of_class("ham")})
    wait_for(mail.filter_port)
    # A name that is not valid IDNA, at which a library closes the session.
    with smtplib.SMTP("127.0.0.1", mail.port, local_hostname="xn--a", timeout=20) as client:
        for number in (500, 501):
            with pytest.raises(smtplib.SMTPDataError, match="write to postmaster@") as refusal:
                client.sendmail("x@example.net", ["ann@example.org"], of_class("spam") % number)
            (refused_id,) = re.findall(r"\(id (\w+)\)", refusal.value.smtp_error.decode())
            # Both logs have the same id, and ours has the reasons.
            poll(lambda text=refused_id: f"{text}: milter-reject" in mail.postfix_log())
            (line,) = poll(
                lambda text=f"queue_id={refused_id}": [
                    row for row in mail.log_lines() if text in row
                ]
            )
            assert re.search(r" reasons=.*\bspam", line)
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
    assert all(
        len(re.findall(rb"(?m)^X-Streamnb: \w+, score=", content)) == 1 for content in marked
    )
    mail.kill()
    mail.send([of_class("ham") % 502])  # without its milter Postfix takes mail unmarked
    mail.wait(2 + len(mails), ["", "Junk"])


def count_connections(port):
    """Return the number of connections to a port of this machine, of any state but TIME_WAIT."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] != "06" for row in rows)


def test_a_slow_client_uses_no_connection_before_the_queue(site):
    mail = site("before-queue", {"spam": SPAM, "ham": HAM})
    wait_for(mail.filter_port)
    content = as_sent(HAM % 1)
    with smtplib.SMTP("127.0.0.1", mail.port, timeout=20) as client:
        client.ehlo()
        for command in ("MAIL FROM:<x@example.net>", "RCPT TO:<ann@example.org>", "DATA"):
            assert client.docmd(command)[0] in (250, 354)
        client.send(content[:20])
        time.sleep(0.5)
        assert count_connections(mail.filter_port) == 0
        client.send(content[20:] + b".\r\n")
        assert client.getreply()[0] == 250
    mail.wait(1)
    assert re.search(rb"^X-Streamnb: Ham, ", mail.delivered()[0], re.M)


@pytest.mark.parametrize(("action", "answer"), [("accept", 250), ("tempfail", 451)])
def test_a_client_of_before_a_restart_of_a_milter_gets_the_default_action(site, action, answer):
    """Postfix does not connect to the milter again within the connection of a client."""
    mail = site("milter", {"spam": of_class("spam"), "ham": of_class("ham")})
    mail.postfix.run("postconf", "-e", f"milter_default_action={action}")
    mail.postfix.run("postfix", "reload")
    wait_for(mail.filter_port)

    def send(client, number):
        client.rset()
        client.ehlo_or_helo_if_needed()
        commands = (client.mail, "x@example.net"), (client.rcpt, "ann@example.org")
        codes = [command(value)[0] for command, value in commands]
        return codes[-1] if codes != [250, 250] else client.data(of_class("ham") % number)[0]

    with smtplib.SMTP("127.0.0.1", mail.port, timeout=20) as client:
        assert send(client, 500) == 250
        mail.stop()
        mail.start()
        wait_for(mail.filter_port)
        assert [send(client, number) for number in (501, 502)] == [answer] * 2
    with smtplib.SMTP("127.0.0.1", mail.port, timeout=20) as client:
        assert send(client, 503) == 250
    mail.wait(4 if action == "accept" else 2)
    marked = {int(re.search(rb"<(\d+)@", message)[1]) for message in mail.delivered()
              if re.search(rb"^X-Streamnb: Ham, ", message, re.M)}  # fmt: skip
    assert marked == {500, 503}


FORGERIES = [
    b"X-Streamnb: Spam, score=9",
    b"x-STREAMNB \t: work, score=9",
    b"X-Streamnb:\r\n evil/deep/Trash, score=9",
    b"Subject: x\r\nX-Streamnb: family, score=9\r\n\tfolded",
]
NESTED = (
    b"MIME-Version: 1.0\r\nContent-Type: message/rfc822\r\n\r\nX-Streamnb: nested\r\n\r\nhi\r\n"
)


@pytest.mark.parametrize("route", ["milter", "sieve"])
def test_a_sender_chooses_no_folder_while_the_filter_is_down(site, route):
    mail = site(route, {"spam": SPAM, "ham": HAM})
    mail.kill()
    mail.send([field + b"\r\n" + STAMPS % i + NESTED for i, field in enumerate(FORGERIES)])
    mail.wait(len(FORGERIES))
    folders = {path.name for path in (mail.base / "home/ann/Maildir").glob(".*")}
    assert folders <= {".Junk", ".Trash"}
    for content in mail.delivered():
        assert re.findall(rb"(?im)^x-streamnb.*", content) == [
            b"X-Streamnb: nested\r"
        ] or re.findall(rb"(?im)^x-streamnb.*", content) == [b"X-Streamnb: nested"]


@pytest.fixture
def allowed_configuration():
    """Let programs of other users than root use a configuration beside Postfix's own."""
    parameter = "alternate_config_directories"

    def allow(folder):
        subprocess.run(["/usr/sbin/postconf", "-e", f"{parameter}={folder}"], check=True)

    yield allow
    subprocess.run(["/usr/sbin/postconf", "-X", parameter], check=True)


def test_a_program_for_each_message_bounces_nothing(site, allowed_configuration):
    mail = site("pipe", {"spam": SPAM, "ham": HAM})
    allowed_configuration(mail.postfix.base / "etc")
    messages = [
        HAM % 900,
        "From: Zoë <z@example.org>\r\nSubject: Größe\r\n\r\nmeet at noon?\r\n".encode(),
        b"X-Streamnb: Spam, forged\r\nSubject: dots\r\n\r\nmeet\r\n.\r\n..\r\nat noon?\r\n",
        b"Subject: -f root\r\n\r\nmeet at noon?\r\n",
        HAM % 901 + b"From an old friend\r\n",
    ]
    messages = [STAMPS % i + message for i, message in enumerate(messages)]
    mail.send(messages)
    mail.wait(len(messages))
    delivered = [content.replace(b"\r", b"") for content in mail.delivered()]
    for message in messages:
        body = message.partition(b"\r\n\r\n")[2].replace(b"\r", b"")
        assert any(content.endswith(b"\n\n" + body) for content in delivered)
    assert all(
        len(re.findall(rb"^X-Streamnb: (?:Ham|Unsure), score", content, re.M)) == 1
        for content in delivered
    )
    log = mail.postfix_log()
    assert "status=bounced" not in log
    assert "fatal" not in log


@pytest.mark.parametrize("route", ["after-queue", "lmtp", "milter"])
def test_a_line_of_the_log_has_the_queue_id_and_the_recipient(site, tmp_path, route):
    mail = site(route, {"spam": SPAM, "ham": HAM})
    mail.kill()
    mail.command += ["--log", "text"]
    mail.start()
    wait_for(mail.filter_port)
    mail.send([HAM % 999])
    mail.wait(1)
    log = tmp_path / "serve.log"  # a message is logged after it was passed on
    ids = poll(lambda: re.findall(rb"queue_id=(\S+)", log.read_bytes()))
    assert len(ids) == 1
    assert any(" recipient=ann@example.org " in line for line in mail.log_lines())
    poll(lambda: f" {ids[0].decode()}: from=<x@example.net>" in mail.postfix_log())


@pytest.mark.parametrize("route", ["before-queue", "after-queue", "lmtp"])
def test_nothing_is_lost_when_the_filter_is_killed(site, tmp_path, route):
    mail = site(route, {"spam": SPAM, "ham": HAM})
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
        numbers_found = [re.search(rb"lunch (\d+)", got)[1].decode() for got in mail.delivered()]
        if set(numbers_found) == set(numbers):
            break
        assert time.monotonic() < end, sorted(set(numbers) - set(numbers_found))
        time.sleep(0.2)
    assert (
        len(numbers_found) <= len(numbers) + 8
    )  # twice at most, where a kill fell between two answers


def test_the_unit_files_are_sound(repository, tmp_path):
    for path in (repository / "docs" / "systemd").iterdir():
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", path.read_text(), flags=re.M)
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.glob("*.service")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if "streamnb" in line]
    assert (done.returncode, lines) == (0, [])


@pytest.mark.parametrize("name", ["streamnb", "streamnb-users"])
def test_a_unit_of_the_system_has_no_privilege_that_it_does_not_need(repository, name):
    unit = repository / "docs" / "systemd" / f"{name}.service"
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", unit],  # 2.0 of 10
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_passes_the_socket_on(repository, tmp_path):
    """The unit's command takes the sockets of systemd and reports its readiness."""
    train(tmp_path / "mail.db", {"spam": SPAM, "ham": HAM})
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
        end = time.monotonic() + 120
        while True:
            try:
                with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
                    client.ehlo()
                    assert (
                        client.docmd("MAIL FROM:<a@b.c>")[0] == 451
                    )  # no server listens at port 10026
                break
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.1)
        assert (tmp_path / "ask").exists()
    finally:
        process.terminate()
        process.wait(120)


def fill(box):
    for i in range(10_000):
        box.learn(SPAM % i + os.urandom(3000).hex(" ").encode(), "spam")


def test_the_database_works_again_after_a_full_disk(tmp_path):
    """A little room is enough again: the log of earlier writes must not stay in the way."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", tmp_path], check=True)
    try:
        (tmp_path / "ballast").write_bytes(bytes(1 << 20))
        db = tmp_path / "db"
        with Mailbox(db) as box:
            with pytest.raises(OutputError, match="the disk is full; nothing was changed"):
                fill(box)
            weight = sum(box.counts[0].weights)
        with open(tmp_path / "rest", "wb", 0) as filler, contextlib.suppress(OSError):
            while filler.write(bytes(512)):
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
            assert sum(box.counts[0].weights) == 0 < weight
            assert box.verify() == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)
