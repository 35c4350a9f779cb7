"""Moves of a user in a mail program teach the user's database, by Dovecot's IMAPSieve."""

import grp
import os
import pwd
import shutil
import subprocess
from collections import Counter

import pytest
from ports import free_port
from servers import UID, Dovecot, dovecot_version
from serving import SPAM, poll
from test_mail_server import block, dovecot_configuration

from streamnb import Mailbox
from streamnb.mailbox.ledger import HUMAN
from streamnb.mailbox.status import status

pytestmark = pytest.mark.dovecot


def moves_configuration(repository, base):
    """Return the guide's configuration of Dovecot for a server in a folder of its own."""
    name = "90-streamnb.conf" if dovecot_version() == "2.3" else "90-streamnb-2.4.conf"
    text = (repository / "docs" / "dovecot" / name).read_text()
    text = text.replace("/usr/local/lib/dovecot/streamnb", str(base / "bin"))
    return text.replace("/etc/dovecot/streamnb", str(base / "sieve"))


def install_moves(repository, dovecot, users, port):
    """Install the guide's scripts. `direct` gets a line for each call of `streamnb` itself."""
    base, folder = dovecot.base, repository / "docs" / "dovecot"
    for name in ("bin", "sieve", "users"):
        (base / name).mkdir(exist_ok=True)
        os.chown(base / name, UID, UID)
    # Dovecot starts a program without its own environment.
    (base / "bin" / "streamnb-learn").write_text(
        f"#!/bin/sh\nSTREAMNB_USERS={users} STREAMNB_URL=http://127.0.0.1:{port} "
        f'STREAMNB={base}/bin/streamnb exec sh {base}/bin/learn "$@"\n'
    )
    shutil.copy(folder / "streamnb-learn", base / "bin" / "learn")
    (base / "bin" / "streamnb").write_text(f'#!/bin/sh\necho "$@" >>{base}/direct\n')
    for path in (base / "bin").iterdir():
        path.chmod(0o755)
    script = shutil.copy(folder / "streamnb-learn.sieve", base / "sieve")
    subprocess.run(["sievec", "-c", dovecot.configuration, script], check=True)
    (base / "direct").touch()
    os.chown(base / "direct", UID, UID)


def make_token(users, user):
    """Make a user's token, as if the server ran as the owner of the mail."""
    token = users / f"{user}.db.token"
    token.write_text(f"token-of-{user}-in-twenty-letters\n")
    token.chmod(0o600)
    os.chown(token, UID, UID)


@pytest.fixture
def moving(repository, serve):
    """Return a Dovecot whose users' moves are reported to a server."""
    port = free_port()
    dovecot = Dovecot(configuration=lambda base: moves_configuration(repository, base))
    dovecot.users = dovecot.base / "users"
    install_moves(repository, dovecot, dovecot.users, port)
    environment = {**os.environ, "STREAMNB_USERS": str(dovecot.users)}
    dovecot.serving = serve("--users", "--http", f"127.0.0.1:{port}", env=environment)
    for name in ("ann", "bob"):
        Mailbox(dovecot.users / f"{name}.db").close()
        make_token(dovecot.users, name)
    yield dovecot
    dovecot.close()


def labels(path):
    """Return the number of messages that a person labelled, by class."""
    counts = Counter()
    with Mailbox(path) as box:
        for row in status(box).learned:
            counts[row.label] += row.messages if row.labelled_by == HUMAN else 0
    return counts


# Moves from a folder to another one, and what they teach.
MOVES = [
    ("INBOX", "Junk", "spam"),
    ("INBOX", "Work", "work"),
    ("INBOX", "Archive", None),
    ("INBOX", "Trash", None),
    ("INBOX", "Client letters", None),
    ("INBOX", "Junk/2024", None),
    ("Junk", "INBOX", "ham"),
    ("Junk/2024", "INBOX", "ham"),
    ("Work", "INBOX", "ham"),
    ("Work", "Archive", None),
    ("Junk", "Archive", None),
    ("Junk", "Trash", None),
    ("Archive", "INBOX", None),
    ("Trash", "INBOX", None),
    ("Trash", "Junk", "spam"),
    ("Work", "Junk", "spam"),
]


def test_moves_reach_the_database_of_the_user(moving):
    client = moving.client("ann")
    for folder in ("Work", "Archive", "Client letters", "Junk/2024", "Junk", "Trash"):
        if not client.folder_exists(folder):
            client.create_folder(folder)
    expected = Counter()
    for number, (source, target, label) in enumerate(MOVES):
        client.append(source, SPAM % number)
        client.select_folder(source)
        client.move(client.search()[-1:], target)
        # Scripts end before Dovecot answers: what is learned is in the database now.
        expected += Counter([label] if label else [])
        assert labels(moving.users / "ann.db") == expected, (source, target)
    client.select_folder("Junk")
    client.move(client.search()[:1], "INBOX")  # a correction: the first one
    expected += Counter(ham=1)
    expected -= Counter(spam=1)
    poll(lambda: labels(moving.users / "ann.db") == expected)
    client.logout()
    assert labels(moving.users / "bob.db") == {}
    assert (moving.base / "direct").read_text() == ""


@pytest.mark.parametrize("order", ["moves last", "filter last"])
def test_moves_are_learned_beside_a_sieve_filter(repository, serve, order):
    """Dovecot reads one value of each setting, so both guides must have the same."""

    def configuration(base):
        parts = [moves_configuration(repository, base)]
        text = dovecot_configuration(repository, "sieve-filter", base)
        parts.insert(0 if order == "moves last" else 1, text)
        return "\n".join(parts)

    dovecot = Dovecot(configuration=configuration)
    try:
        users = dovecot.base / "users"
        install_moves(repository, dovecot, users, free_port())
        script = dovecot.base / "sieve" / "filter.sieve"
        script.write_text(block(repository, "sieve-filter"))
        subprocess.run(["sievec", "-c", dovecot.configuration, script], check=True)
        dovecot.put_files("cat", "", [SPAM % 1])
        client = dovecot.client("cat")
        client.select_folder("INBOX")
        client.move(client.search(), "Junk")
        client.logout()
        direct = dovecot.base / "direct"
        poll(lambda: direct.read_text().startswith("learn --user cat spam /"))
    finally:
        dovecot.close()


def test_moves_are_learned_directly_while_the_server_is_away(moving):
    moving.put_files("cat", "", [SPAM % 1, SPAM % 2])
    client = moving.client("cat")
    client.select_folder("INBOX")
    client.move(client.search()[:1], "Junk")
    direct = moving.base / "direct"
    poll(lambda: direct.read_text().startswith("learn --user cat spam /"))
    moving.serving.stop()
    client.move(client.search(), "Junk")
    poll(lambda: direct.read_text().count("learn --user cat spam /") == 2)
    client.logout()


def system_users_configuration(repository, base):
    """Return the guide's configuration for mailboxes with owners of their own.

    The user and the group of the service are those that every system has.
    """
    version = "" if dovecot_version() == "2.3" else "-2.4"
    name = f"92-streamnb-system-users{version}.conf"
    text = (repository / "docs" / "dovecot" / name).read_text()
    text = text.replace("/usr/local/lib/streamnb", str(base / "service"))
    text = text.replace("user = streamnb\n", "user = nobody\n")
    text = text.replace("streamnb-moves", grp.getgrgid(os.getgid()).gr_name)
    return moves_configuration(repository, base) + text


def test_moves_from_mailboxes_of_system_users_reach_a_service_of_another_user(repository, serve):
    """The owner of the mail cannot read the databases, their tokens or the program."""
    port, service = free_port(), pwd.getpwnam("nobody").pw_uid
    dovecot = Dovecot(configuration=lambda base: system_users_configuration(repository, base))
    try:
        users = dovecot.base / "databases"
        install_moves(repository, dovecot, users, port)
        (dovecot.base / "bin").rename(dovecot.base / "service")
        (dovecot.base / "bin").mkdir()
        for path in (dovecot.base / "service").iterdir():
            path.write_text(path.read_text().replace("/bin/learn", "/service/learn"))
        with Mailbox(users / "ann.db"):
            make_token(users, "ann")
        for path in (users, *users.iterdir(), dovecot.base / "service"):
            os.chown(path, service, service)
            path.chmod(0o700)
        environment = {**os.environ, "STREAMNB_USERS": str(users)}
        serve("--users", "--http", f"127.0.0.1:{port}", env=environment)
        dovecot.put_files("ann", "", [SPAM % 1])
        client = dovecot.client("ann")
        client.select_folder("INBOX")
        client.move(client.search(), "Junk")
        client.logout()
        assert labels(users / "ann.db") == {"spam": 1}, (dovecot.base / "dovecot.log").read_text()
        assert (dovecot.base / "direct").read_text() == ""
        # A program of the owner, without the group, cannot write to the socket.
        command = ["test", "-w", dovecot.base / "run" / "streamnb-learn"]
        done = subprocess.run(command, user=UID, group=UID, extra_groups=[], check=False)
        assert done.returncode == 1
    finally:
        dovecot.close()


@pytest.mark.parametrize("folder", ["Junk", "INBOX/Junk", "INBOX.Junk"])
def test_the_server_makes_the_token_of_a_user_who_has_none(repository, serve, tmp_path, folder):
    port, users = free_port(), tmp_path / "users"
    with Mailbox(users / "ann+x@d.e.db"):
        pass
    serve(
        "--users", "--http", f"127.0.0.1:{port}", env={**os.environ, "STREAMNB_USERS": str(users)}
    )
    environment = {"STREAMNB_USERS": str(users), "STREAMNB_URL": f"http://127.0.0.1:{port}",
                   "STREAMNB": "/bin/false"}  # fmt: skip
    program = repository / "docs" / "dovecot" / "streamnb-learn"
    command = ["sh", program, "Ann+x@d.e", folder]
    subprocess.run(command, input=SPAM % 1, check=True, env=environment)
    assert labels(users / "ann+x@d.e.db") == {"spam": 1}


@pytest.mark.parametrize("user", ["", "../ann", "a b", "ann&label=ham", "-x", "a\nb"])
def test_an_invalid_user_name_trains_no_database(repository, tmp_path, user):
    program = repository / "docs" / "dovecot" / "streamnb-learn"
    for name in ("curl", "streamnb"):
        (tmp_path / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["sh", program, user, "Junk"], input=SPAM % 1, capture_output=True, check=False,
        env={"STREAMNB": str(tmp_path / "streamnb")},
    )  # fmt: skip
    assert done.returncode == 64
    assert not (tmp_path / "called").exists()
