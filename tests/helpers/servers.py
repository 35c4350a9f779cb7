"""A real Dovecot on loopback, and a connection to it that can be cut."""

import contextlib
import functools
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from ports import free_port

UID = 5000  # the mail's owner; Dovecot does not serve mail as root
PASSWORD = "correct-horse"  # noqa: S105 (of a server that lives for a test)
PROGRAM = "/usr/sbin/dovecot"
# Settings that 2.4 names differently; the rest is the same in both versions.
SETTINGS = {
    "2.3": """
ssl_cert = <{base}/cert.pem
ssl_key = <{base}/key.pem
disable_plaintext_auth = no
auth_username_format = %n
mail_location = maildir:~/Maildir
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={uid} gid={uid} home={base}/home/%u
}}
""",
    "2.4": """
dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
ssl_server_cert_file = {base}/cert.pem
ssl_server_key_file = {base}/key.pem
auth_allow_cleartext = yes
auth_username_format = %{{user | username}}
mail_driver = maildir
mail_path = ~/Maildir
passdb static {{
  password = {password}
}}
userdb static {{
  fields {{
    uid = {uid}
    gid = {uid}
    home = {base}/home/%{{user}}
  }}
}}
""",
}
CONFIGURATION = """
protocols = imap lmtp
listen = 127.0.0.1
base_dir = {base}/run
state_dir = {base}/state
log_path = {base}/dovecot.log
instance_name = {name}
ssl = yes
auth_failure_delay = 0
mail_max_userip_connections = 100
first_valid_uid = {uid}
mail_fsync = never
namespace inbox {{
  inbox = yes
  separator = /
  mailbox Junk {{
    auto = subscribe
    special_use = \\Junk
  }}
  mailbox Trash {{
    auto = subscribe
    special_use = \\Trash
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {port}
  }}
  inet_listener imaps {{
    port = {tls_port}
    ssl = yes
  }}
}}
service lmtp {{
  chroot =
  unix_listener {base}/lmtp {{
    mode = 0666
  }}
}}
service anvil {{
  chroot =
  unix_listener anvil-auth-penalty {{
    mode = 0
  }}
}}
protocol imap {{
{extra}
}}
"""


@functools.cache
def dovecot_version() -> str:
    """Return the version whose settings the installed Dovecot reads: "2.3" or "2.4"."""
    done = subprocess.run([PROGRAM, "--version"], check=True, capture_output=True, text=True)
    major, minor = map(int, done.stdout.split(".")[:2])
    return "2.4" if (major, minor) >= (2, 4) else "2.3"


def mail(number, words="hello there"):
    return f"Message-ID: <{number}@x>\r\nSubject: m{number}\r\n\r\n{words}\r\n".encode()


class Dovecot:
    """A server in which every user has the same password.

    `configuration` is more configuration, or a function that returns it for the server's folder.
    """

    def __init__(self, extra="", configuration=""):
        # Not pytest's folder: the mail's owner must be able to enter it.
        self.base = Path(tempfile.mkdtemp(prefix="dovecot", dir="/tmp"))
        self.base.chmod(0o755)
        (self.base / "state").mkdir()
        (self.base / "home").mkdir()
        os.chown(self.base / "home", UID, UID)
        self.port, self.tls_port = free_port(), free_port()
        self.certificate = self.base / "cert.pem"
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                "-subj", "/CN=localhost",
                "-keyout", self.base / "key.pem", "-out", self.certificate,
                "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        self.configuration = self.base / "dovecot.conf"
        template = SETTINGS[dovecot_version()] + CONFIGURATION
        template += "" if callable(configuration) else configuration
        self.configuration.write_text(
            template.format(
                base=self.base, name=self.base.name, uid=UID, port=self.port,
                tls_port=self.tls_port, password=PASSWORD, extra=extra,
            )
            + (configuration(self.base) if callable(configuration) else "")
        )  # fmt: skip
        self.start()

    def start(self):
        with open(self.base / "stderr", "ab") as errors:
            self.process = subprocess.Popen(
                [PROGRAM, "-F", "-c", str(self.configuration)],
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + 10
        while time.monotonic() < until and self.process.poll() is None:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self.port), 2) as probe,
            ):
                if probe.recv(200).startswith(b"* OK"):
                    return
            time.sleep(0.02)
        raise RuntimeError((self.base / "stderr").read_text())

    def stop(self):
        with contextlib.suppress(ProcessLookupError):  # with its workers, which would outlive it
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(120)

    def close(self):
        self.stop()
        shutil.rmtree(self.base, ignore_errors=True)

    def administer(self, *arguments):
        subprocess.run(
            ["/usr/bin/doveadm", "-c", str(self.configuration), *arguments],
            check=True, capture_output=True,
        )  # fmt: skip

    def client(self, user):
        """A mail program: what a person uses."""
        from imapclient import IMAPClient

        context = ssl.create_default_context(cafile=str(self.certificate))
        client = IMAPClient("localhost", self.port, ssl=False, timeout=20)
        client.starttls(context)
        client.login(user, PASSWORD)
        return client

    def put_files(self, user, folder, messages):
        """Many messages at once, as a delivery agent writes them."""
        root = self.base / "home" / user / "Maildir"
        folder_path = root / folder if folder else root
        for place in ("cur", "new", "tmp"):
            (folder_path / place).mkdir(parents=True, exist_ok=True)
        for i, message in enumerate(messages):
            (folder_path / "cur" / f"{1_000_000 + i}.M{i}.host:2,").write_bytes(message)
        for path in [self.base / "home" / user, *(self.base / "home" / user).rglob("*")]:
            os.chown(path, UID, UID)


POSTFIX = """
compatibility_level = 3.6
queue_directory = {base}/queue
data_directory = {base}/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.example.org
mydestination = example.org
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
maillog_file = {base}/log
maillog_file_prefixes = /tmp
local_recipient_maps =
alias_maps =
minimal_backoff_time = 1s
maximal_backoff_time = 2s
queue_run_delay = 1s
lmtp_connection_reuse_time_limit = 1s
"""
POSTFIX_SERVICES = """
pickup    unix  n       -       n       1       1       pickup
cleanup   unix  n       -       n       -       0       cleanup
qmgr      unix  n       -       n       1       1       qmgr
rewrite   unix  -       -       n       -       -       trivial-rewrite
bounce    unix  -       -       n       -       0       bounce
defer     unix  -       -       n       -       0       bounce
trace     unix  -       -       n       -       0       bounce
verify    unix  -       -       n       -       1       verify
proxymap  unix  -       -       n       -       -       proxymap
smtp      unix  -       -       n       -       -       smtp
relay     unix  -       -       n       -       -       smtp
error     unix  -       -       n       -       -       error
retry     unix  -       -       n       -       -       error
discard   unix  -       -       n       -       -       discard
local     unix  -       n       n       -       -       local
lmtp      unix  -       -       n       -       -       lmtp
anvil     unix  -       -       n       -       1       anvil
scache    unix  -       -       n       -       1       scache
postlog   unix-dgram n  -       n       -       1       postlogd
"""


class Postfix:
    """A mail server with queues of its own.

    `services` are lines of its `master.cf`, and take the place of those of the same name;
    `settings` are lines of its `main.cf`.
    """

    def __init__(self, services, settings):
        self.base = Path(tempfile.mkdtemp(prefix="postfix", dir="/tmp"))
        self.base.chmod(0o755)
        for name in ("etc", "queue", "data"):
            (self.base / name).mkdir()
        shutil.chown(self.base / "data", "postfix")
        main = POSTFIX.format(base=self.base) + settings
        (self.base / "etc" / "main.cf").write_text(main)
        names = {tuple(line.split()[:2]) for line in services.splitlines() if line[:1].strip()}
        standard = [
            line
            for line in POSTFIX_SERVICES.strip().splitlines()
            if tuple(line.split()[:2]) not in names
        ]
        (self.base / "etc" / "master.cf").write_text("\n".join([services.rstrip(), *standard, ""]))
        self.run("postfix", "start")

    def run(self, program, *arguments):
        return subprocess.run(
            [f"/usr/sbin/{program}", "-c", self.base / "etc", *arguments],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip

    def close(self):
        self.run("postfix", "stop")
        shutil.rmtree(self.base, ignore_errors=True)


class Cut:
    """Passes a connection on, and cuts it after so many bytes from the server."""

    def __init__(self, port, after):
        self.target, self.after = ("127.0.0.1", port), after
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.sockets, self.threads = [], []
        self._run(self._accept)

    def _run(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listening.accept()
                far = socket.create_connection(self.target)
                self.sockets += [near, far]
                self._run(self._pass, near, far, None)
                self._run(self._pass, far, near, self.after)

    def _pass(self, source, target, remaining):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if remaining is not None:
                    data = data[:remaining]
                    remaining -= len(data)
                target.sendall(data)
                if remaining == 0:
                    break
        for end in (source, target):  # close() would not wake a thread that reads
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(2)
        for end in self.sockets:
            end.close()
