"""Delivery of mail: pass-through, exit statuses, and the server."""

import contextlib
import errno
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest
from commands import STREAMNB, streamnb_command, streamnb_process
from hostile import hostile, passed_on
from hypothesis import example, given
from hypothesis import strategies as st
from serving import poll

from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
from streamnb.errors import BusyError
from streamnb.features.mail_words import MailTokenizer
from streamnb.limits import MAX_MESSAGE
from streamnb.mail import parse
from streamnb.mailbox.digest import digest, header_key
from streamnb.mailbox.location import socket_path
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.passthrough import pass_through
from streamnb.mailbox.service.protocol import read_request, write_reply
from streamnb.mailbox.service.response import JudgeOptions, Response, header_field, judge
from streamnb.mailbox.sources import messages

ANSWER = Response("S", 0, 3.25, "spam", 0.96, [])
FIELD = header_field(ANSWER).encode()
HOSTILE = hostile()


def passed(message, ask=lambda _: ANSWER):
    target = io.BytesIO()
    trouble = pass_through(io.BytesIO(message), target, ask)
    return target.getvalue(), trouble


parts = st.sampled_from(
    [b"Subject: a\n", b"X-Streamnb: b\n", b"x-STREAMNB \t: c\n", b" folded\n", b"\tfolded\r\n",
     b"X-Streamnbx: d\n", b"\n", b"\r\n", b"From x\n", b"body", b"To: e\r\n", b"\r", b"X-Streamnb"]
)  # fmt: skip


@given(st.lists(parts | st.binary(max_size=9), max_size=14).map(b"".join))
@example(b"")
@example(b"From x")
@example(b" folded\nSubject: x\n\nhi\n")  # which the fuzzer found
@example(b"From x\n folded")
def test_nothing_changes_but_our_field(message):
    assert passed(message) == (passed_on(message, FIELD), None)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail_passes_byte_for_byte(name):
    message = HOSTILE[name]
    out, trouble = passed(message)
    assert trouble is None
    assert out == passed_on(message, FIELD)


@given(
    st.binary(max_size=300), st.sampled_from([ValueError, RecursionError, MemoryError, KeyError])
)
@example(
    b"X-Streamnb: Trash\n forged\nSubject: x\nx-streamnb : Ham\n\nX-Streamnb: body\n", KeyError
)
def test_on_trouble_a_message_passes_unmarked(message, kind):
    """Nothing is added, and what a sender wrote is not taken for our verdict."""

    def fails(_):
        raise kind("x")

    out, trouble = passed(message, fails)
    assert out == passed_on(message)
    assert type(trouble) is kind


@pytest.mark.parametrize("blanks", [10, 65525, 65526, 65527, 70000, 200000])
def test_a_forged_field_is_removed_however_many_blanks_it_has(blanks):
    forged = b"X-Streamnb" + b" " * blanks + b": Spam\n\tmore\n"
    out, _ = passed(b"Subject: a\n" + forged + b"To: b\n\nbody\n")
    assert out == passed_on(b"Subject: a\nTo: b\n\nbody\n", FIELD)


@pytest.fixture(scope="module")
def trained(sample, tmp_path_factory):
    path = tmp_path_factory.mktemp("trained") / "mail.db"
    with Mailbox(path) as box:
        for entry in open_corpus(sample):
            box.learn(read(entry), entry.label)
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_mail_is_read_in_bounded_time(name, trained):
    message = HOSTILE[name]
    begun = time.process_time()
    with Mailbox(trained) as box:
        response = judge(box, message, JudgeOptions(3))
        assert response.mark in "SHU"
        json.dumps(response)
        assert len(digest(message)) == 32
        assert len(header_key(message)) == 16
        assert parse(message) is not None
        MailTokenizer().count(message)
    assert time.process_time() - begun < 30  # a pattern in quadratic time takes minutes


def test_hostile_mail_is_learned_and_forgotten(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        learned = [box.learn(message, "spam").result for message in hostile(large=False).values()]
        assert set(learned) <= {"learned", "known"}  # some differ in their stamps alone
        assert box.verify() == []
        for message in hostile(large=False).values():
            box.forget(message)
        assert [counts.features for counts in box.counts] == [0] * 4
        assert box.verify() == []


@pytest.mark.corpora
@pytest.mark.parametrize("name", ["spamassassin", "enron1", "enron3", "enron5"])
def test_every_mail_of_the_corpora_passes_byte_for_byte(corpora, name, trained):
    marks = set()
    with Mailbox(trained) as box:
        for entry in open_corpus(corpora / name):
            with open(entry.path, "rb") as file:
                message = file.read()

            def ask(head):
                response = judge(box, head)
                marks.add(response.mark)
                return response

            out, trouble = passed(message, ask)
            assert trouble is None
            field = re.search(rb"X-Streamnb: [^\n]*\n", out)
            assert out.replace(field[0], b"", 1) == message
    assert marks == {"S", "H", "U"}


def run_filter(message, *options, **extra):
    return streamnb_process("filter", *options, input=message, **extra)


def test_the_filter_adds_its_field(sample, trained):
    message = (sample / "data" / "005.eml").read_bytes()
    done = run_filter(b"X-Streamnb: Ham\n" + message, "--db", trained)
    assert (done.returncode, done.stderr) == (0, b"")
    head, _, tail = done.stdout.partition(b"\n")
    assert re.fullmatch(rb"X-Streamnb: Spam, score=\d+\.\d{4}, probability=[01]\.\d{4}, .*", head)
    assert tail == message


def test_the_filter_passes_mail_on_after_any_error(tmp_path, trained):
    message = b"Subject: x\nX-Streamnb: forged\n\nhi\n"
    for options, status, text in (
        ((), 0, b"passed on unmarked"),
        (("--strict",), 75, b"no verdict; exit status 75 asks for a retry"),
    ):
        done = run_filter(message, "--db", tmp_path / "none", *options)
        assert (done.returncode, done.stdout) == (status, passed_on(message))
        assert text in done.stderr
        assert done.stderr.count(b"\n") == 1
    (tmp_path / "bad").write_bytes(b"no database" * 999)
    done = run_filter(message, "--db", tmp_path / "bad", "--strict")
    assert (done.returncode, done.stdout) == (75, passed_on(message))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*STREAMNB, "filter", "--db", trained], input=message, stdout=full,
            stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 75
    assert b"not passed on" in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("options", [(), ("--threshold", "0.9")])
def test_a_terminated_filter_does_not_return_mail_to_the_sender(trained, options):
    command = [*STREAMNB, "filter", "--db", trained, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"Subject: x\n")
        process.stdin.flush()
        time.sleep(1)  # it waits for the rest
        process.terminate()
        assert process.wait(30) == -signal.SIGTERM


def test_a_closed_output_pipe_is_reported(trained):
    process = subprocess.Popen(
        [*STREAMNB, "filter", "--db", trained], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    process.stdin.write(b"Subject: x\n\n" + b"x" * 1_000_000)
    process.stdin.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(30) == 75
    assert b"Traceback" not in error


def test_a_message_that_is_cut_is_not_passed_on(trained, tmp_path):
    """Without a buffer, a write that takes a part alone raises nothing."""
    most = 100_000
    for options in (("--db", trained), ("--db", tmp_path / "none"), ("--nonsense",)):
        with open(tmp_path / "out", "wb") as out:
            done = subprocess.run(
                [*STREAMNB, "filter", *options], input=b"Subject: x\n\n" + b"x\n" * most, stdout=out,
                stderr=subprocess.PIPE,
                # Python does not notice if its bytecode is cut, too.
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            )  # fmt: skip
        assert (done.returncode, (tmp_path / "out").stat().st_size) == (75, most)
        assert b"the message was not passed on: File too large" in done.stderr


@pytest.mark.parametrize("megabytes", [32, 64, 96, 120])
def test_mail_passes_without_memory_for_a_verdict(trained, megabytes):
    message = b"Subject: x\n\nhi\n"
    size = megabytes << 20
    done = subprocess.run(
        [*STREAMNB, "filter", "--db", trained], input=message, capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, message)
    text = f"streamnb: passed on unmarked: the memory limit of {megabytes} MB is too low: "
    assert done.stderr.decode() == f"{text}allow 128 MB (ulimit -v), or run `streamnb serve`\n"


def test_classify_exits_as_bogofilter_does(sample, trained, tmp_path):
    data, db = sample / "data", ("--db", trained)
    status, out, _ = streamnb_command("classify", data / "005.eml", *db)
    assert status == 0
    assert re.fullmatch(r"S \d+\.\d{4} .*/005\.eml\n", out)
    status, out, _ = streamnb_command("classify", data / "001.eml", *db)
    assert status == 1
    assert re.fullmatch(r"H -\d+\.\d{4} .*/001\.eml\n", out)
    (tmp_path / "odd").write_bytes(b"\n\nhm\n")
    assert streamnb_command("classify", tmp_path / "odd", *db)[0] == 2
    status, out, error = streamnb_command("classify", tmp_path / "none", *db)
    assert (status, out) == (3, "")
    assert error.count("\n") == 1
    assert streamnb_command("classify", data / "001.eml", "--db", tmp_path / "none")[0] == 3
    status, out, _ = streamnb_command("classify", data, *db, "--json")
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 300
    assert {"path", "mark", "score", "label", "probability", "reasons", "status"} <= lines[0].keys()
    status, out, _ = streamnb_command("classify", data / "005.eml", *db, "--reasons", 3)
    assert len(out.splitlines()) == 4
    status, out, error = streamnb_command("classify", data / "005.eml", tmp_path / "none", *db)
    assert status == 3


def test_recover_copies_the_readable_rows(sample, tmp_path, monkeypatch):
    db, mail = ("--db", tmp_path / "db"), sample / "data" / "005.eml"
    status, out, error = streamnb_command("learn", "spam", tmp_path / "none", mail, *db)
    assert (status, out) == (3, f"{mail}: learned\n")
    assert error == f"streamnb: {tmp_path}/none: cannot be read: no such file or directory\n"
    for name in ("a", "secret", "z"):
        (tmp_path / "mail" / name).mkdir(parents=True)
        (tmp_path / "mail" / name / "1").write_bytes(b"Subject: %s\n\n" % name.encode())
    scandir = os.scandir

    def refused(path):
        if os.path.basename(path) == "secret":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    contents = [item.content for item in messages(str(tmp_path / "mail"))]
    assert [contents[0], contents[2]] == [b"Subject: a\n\n", b"Subject: z\n\n"]
    assert str(contents[1]) == f"{tmp_path}/mail/secret: cannot be listed: Permission denied"


def test_commands_learn_and_forget_from_all_sources(sample, tmp_path):
    db = ("--db", tmp_path / "db")
    data = sample / "data"
    status, out, _ = streamnb_command("learn", "spam", data / "005.eml", *db)
    assert (status, out) == (0, f"{data}/005.eml: learned\n")
    status, out, _ = streamnb_command("learn", "ham", data / "005.eml", *db)
    assert (status, out) == (0, f"{data}/005.eml: learned; its earlier label spam was removed\n")
    status, out, _ = streamnb_command("learn", "spam", data / "005.eml", "--program", *db)
    assert (status, out) == (0, f"{data}/005.eml: unchanged: a person labelled it ham\n")
    box = tmp_path / "box.mbox"
    messages = [(data / f"{i:03}.eml").read_bytes() for i in range(3)]
    box.write_bytes(b"".join(b"From a Mon Jan  1 00:00:00 2026\n" + m + b"\n" for m in messages))
    status, out, _ = streamnb_command("learn", "ham", box, *db)
    assert (status, out) == (0, "3 messages: 3 learned\n")
    status, out, _ = streamnb_command("learn", "ham", data / "000.eml", *db)
    assert "unchanged" in out
    (tmp_path / "maildir" / "tmp").mkdir(parents=True)
    for place in ("cur", "new"):
        (tmp_path / "maildir" / place).mkdir()
        (tmp_path / "maildir" / place / place).write_bytes(b"Subject: %s\n\nx" % place.encode())
    (tmp_path / "maildir" / "tmp" / "half").write_bytes(b"Subj")
    status, out, _ = streamnb_command("learn", "ham", tmp_path / "maildir", *db, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["result"] for line in lines] == ["learned"] * 2
    (tmp_path / "maildir" / "dovecot-uidlist").write_text("3 V1")
    (tmp_path / "maildir" / "cur" / "deleted:2,ST").write_bytes(b"Subject: deleted\n\nx")
    status, out, _ = streamnb_command("learn", "ham", tmp_path / "maildir", *db)
    assert out == "2 messages: 2 known\n"
    status, out, _ = streamnb_command("forget", "--digest", lines[0]["digest"], *db)
    assert (status, out) == (0, f"{lines[0]['digest']}: forgotten: it was learned as ham\n")
    assert streamnb_command("forget", "--digest", "abc", *db)[0] == 2
    assert streamnb_command("forget", *db)[0] == 2
    status, out, error = streamnb_command("learn", "ham", tmp_path / "no", *db)
    assert (status, out) == (3, "")
    assert error.count("\n") == 1
    status, _, error = streamnb_command("learn", "two words", data / "001.eml", *db)
    assert status == 2
    done = subprocess.run(
        [*STREAMNB, "forget", "-", "--db", str(tmp_path / "db")], input=messages[0],
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout == b"-: forgotten: it was learned as ham\n"
    status, out, _ = streamnb_command("verify", *db)
    assert (status, out) == (0, f"{tmp_path}/db: counts and ledger agree\n")
    status, out, _ = streamnb_command("status", *db)
    assert "labels corrected: 1, removed: 2" in out
    status, out, _ = streamnb_command("undo", "--since", "1h", *db)
    assert status == 0
    assert json.loads(streamnb_command("status", *db, "--json")[1])["features"] == [0] * 4


@pytest.mark.parametrize("label", ["ham", "spam", "work"])
@pytest.mark.parametrize("third_class", [False, True])
def test_reasons_have_the_sign_of_the_score(tmp_path, label, third_class):
    """With ham and spam, a plus is evidence for spam; with other classes, for the class."""
    if label == "work" and not third_class:
        return
    labels = ["ham", "spam", "work"] if third_class else ["ham", "spam"]
    with Mailbox(tmp_path / "db") as box:
        for number in range(60):
            for name in labels:
                words = f"{name}one {name}two {name}three {number}"
                box.learn(f"Subject: {words}\n\n{words}\n".encode(), name)
        response = judge(box, f"Subject: {label}one\n\n{label}two\n".encode(), JudgeOptions(20))
    reasons = [log_odds for name, log_odds in response.reasons if label in name]
    speaks_for_spam = label == "spam" or third_class
    assert response.label == label
    assert reasons
    assert all((log_odds > 0) == speaks_for_spam for log_odds in reasons)
    assert (response.score > 0) == speaks_for_spam


def test_any_number_of_classes(sample, tmp_path):
    db = ("--db", tmp_path / "db")
    for label, words in (("work", "meeting report"), ("home", "dinner garden"), ("list", "patch")):
        for i in range(8):
            (tmp_path / f"{label}{i}").write_text(f"Subject: {label} {i}\n\n{words} {i}\n")
        files = [tmp_path / f"{label}{i}" for i in range(8)]
        assert streamnb_command("learn", label, *files, *db)[0] == 0
    status, out, _ = streamnb_command("classify", tmp_path / "work1", *db, "--json")
    assert json.loads(out)["label"] == "work"
    assert status in (1, 2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("classify", "--nothing"), 3), (("classify",), 3), (("learn", "S", "x"), 2),
        (("compact", "--rare", "nan"), 2), (("undo", "--since", "999999999w"), 2),
        (("undo", "--since", "9999-12-31T23:59:59-23:00"), 2), (("undo", "--since", "soon"), 2),
        (("import", "/no/such/file"), 3), (("import", "/"), 3), (("learn", "spam", "imap://u:secret@h:99999/"), 2),
        (("status", "--wait", "-1"), 2), (("export", "/no/such/folder/x"), 4), (("merge", "/no/db"), 4),
    ],
)  # fmt: skip
def test_misuse_is_one_clear_error(tmp_path, arguments, expected):
    status, out, error = streamnb_command(*arguments, "--db", tmp_path / "db")
    assert (status, out) == (expected, "")
    assert "secret" not in error
    assert error.splitlines()[-1].startswith(("Error:", "streamnb:"))
    assert not (tmp_path / "db").exists()


def test_a_filter_with_wrong_options_passes_mail_on(trained):
    message = b"Subject: x\n\nhi\n"
    done = run_filter(message, "--wait", "99999", "--db", trained)
    assert (done.returncode, done.stdout) == (75, message)


def test_deep_folders_and_odd_names_are_learned(tmp_path):
    folder = tmp_path / "deep"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    for _ in range(300):  # (a path can be 4,096 bytes long)
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    with open(os.open("m", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor), "wb") as file:
        file.write(b"Subject: deep\n\nx")
    os.close(descriptor)
    with open(os.fsencode(folder) + b"/\xff\n.eml", "wb") as file:
        file.write(b"Subject: odd\n\nx")
    status, out, _ = streamnb_command("learn", "ham", folder, "--db", tmp_path / "db")
    assert (status, out) == (0, "2 messages: 2 learned\n")


def test_invalid_replies_of_a_server_are_ignored(trained, monkeypatch, tmp_path):
    monkeypatch.setenv("STREAMNB_SOCKET", str(tmp_path / "s"))
    for reply in (b"", b"{}\n", b"ok\n", b"ok\nX\nS\t9\t1\t=spam\t1\t1\n", b"ok\nX\nS\t0\tx\t=spam\t1\t1\n",
                  b"ok\nX\nS\t0\t1\t=spam\t1\t1\n1\n", b"ok\nX\nS\t0\t1\t=spam\t1\t1", b"\xff\n",
                  b"ok\n" * 400_000):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(tmp_path / "s"))
            listening.listen(1)

            def lie(listening=listening, reply=reply):
                connection, _ = listening.accept()
                with connection:
                    connection.recv(1 << 16)
                    with contextlib.suppress(OSError):
                        connection.sendall(reply)

            thread = threading.Thread(target=lie)
            thread.start()
            with MailboxClient(trained) as asking:
                assert asking.classify(b"Subject: x\n\n").mark in "SHU"
                assert asking.mailbox is not None
            thread.join()
        (tmp_path / "s").unlink()


REPLY = write_reply(ANSWER)
CLIENT = Path(sysconfig.get_path("scripts")) / "streamnb-filter"


class Fixed:
    """A server that gives every client the same reply, or none."""

    def __init__(self, path, reply):
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(path))
        self.listening.listen(8)
        self.reply, self.requests, self.connections = reply, [], []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listening.accept()
                self.connections.append(connection)
                file = connection.makefile("rb")
                words = file.readline().split()
                size = dict(word.split(b"=", 1) for word in words[1:])[b"size"]
                self.requests.append((words, file.read(int(size))))
                if self.reply is not None:
                    connection.sendall(self.reply)
                    file.close()
                    connection.close()

    def close(self):
        with contextlib.suppress(OSError):  # it was closed before
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join(10)
        for connection in self.connections:
            connection.close()


@pytest.fixture
def fixed(tmp_path, monkeypatch):
    servers = []

    def make(reply=REPLY):
        monkeypatch.setenv("STREAMNB_SOCKET", str(tmp_path / "s"))
        servers.append(Fixed(tmp_path / "s", reply))
        return servers[-1]

    yield make
    for item in servers:
        item.close()


def run_client(message, *options):
    return subprocess.run(
        [CLIENT, *map(str, options)], input=message, capture_output=True, check=False
    )


def test_the_client_in_c_copies_as_the_command_does(trained, fixed):
    server = fixed()
    extra = {"": b"", "x": b"x", " x": b" x", "From": b"From x\n folded", "cr": b"\r\n\r\n", "ours": b"X-Streamnb",
            "crlf": b"A: b\r\nX-Streamnb: x\r\n y\r\nC: d\r\n\r\nhi"}  # fmt: skip
    with Mailbox(trained) as box:
        file = box.database.file
    for name, message in {**HOSTILE, **extra}.items():
        done = run_client(message, "--db", trained)
        assert (done.returncode, done.stderr) == (0, b""), name
        assert done.stdout == passed_on(message, FIELD), name
        words, head = server.requests[-1]
        assert head == message[:MAX_MESSAGE]
        assert read_request(b" ".join(words)).file == file


def test_the_client_in_c_leaves_to_the_command_what_it_cannot_do(trained, fixed, tmp_path):
    large = b"Subject: x\n\n" + os.urandom(1 << 20) * 6
    for options, message in (  # no server
        ((), large),
        (("--strict",), b"Subject: x\n\nhi"),
        (("--threshold", "0.9"), large),
        (("--nonsense",), b"Subject: x\n\nhi"),
    ):
        done = run_client(message, "--db", trained, *options)
        assert done.returncode == (75 if options == ("--nonsense",) else 0)
        assert done.stdout.endswith(message)
        assert (b"X-Streamnb: " in done.stdout[:50]) == (options != ("--nonsense",))
    done = run_client(b"Subject: x\n\n", "--db", tmp_path / "none", "--strict")
    assert (done.returncode, done.stdout) == (75, b"Subject: x\n\n")
    for reply in (b"", b"error no\n", b"ok\n", b"ok\nX-Other: y\n", b"ok\nX-Streamnb: cut off"):
        server = fixed(reply)
        for message in (b"Subject: x\n\nhi", large):
            done = run_client(message, "--db", trained)
            assert (done.returncode, done.stderr) == (0, b"")
            assert done.stdout.endswith(message)
        server.close()
        (tmp_path / "s").unlink()


@pytest.mark.parametrize("reply", [None, b"error no\n"])
@pytest.mark.parametrize("strict", [False, True])
def test_the_client_in_c_passes_mail_on_where_nothing_else_is_installed(
    trained, fixed, tmp_path, monkeypatch, reply, strict
):
    (tmp_path / "alone").mkdir()
    client = shutil.copy(CLIENT, tmp_path / "alone")
    if reply is not None:
        fixed(reply)
    monkeypatch.setenv("PATH", str(tmp_path))
    for message in (b"Subject: x\n\nhi", b"Subject: x\n\n" + os.urandom(1 << 20) * 6, b""):
        done = subprocess.run(
            [client, "--db", trained, *["--strict"] * strict],
            input=message,
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (75 if strict else 0, message)
        text = b"no verdict; exit status 75 asks for a retry" if strict else b"passed on unmarked"
        assert done.stderr == b"streamnb-filter: %s: streamnb: No such file or directory\n" % text


@pytest.mark.parametrize("command", [[CLIENT], [*STREAMNB, "filter"]])
def test_a_server_that_hangs_delays_a_message_by_two_seconds(trained, fixed, command):
    fixed(None)
    begun = time.monotonic()
    done = subprocess.run(
        [*command, "--db", trained], input=b"Subject: x\n\n", capture_output=True, check=True
    )
    assert b"X-Streamnb: " in done.stdout
    assert time.monotonic() - begun > 1.9


def test_sure_verdicts_are_learned_with_an_option(tmp_path, sample):
    with Mailbox(tmp_path / "db") as box:
        for i in range(70):
            box.learn(b"From: p@example.com\nSubject: pills %d\n\nbuy cheap pills" % i, "spam")
            box.learn(b"From: b@example.org\nSubject: lunch %d\n\nmeet at noon?" % i, "ham")
    new = b"From: p@example.com\nSubject: pills 99\n\nbuy cheap pills"
    unsure = b"\n\nhm"
    for run in (run_filter, run_client):
        for message in (new, unsure):
            assert run(message, "--db", tmp_path / "db", "-u").returncode == 0
    with Mailbox(tmp_path / "db") as box:
        assert box.label_of(digest(new))[:2] == ("spam", "program")
        assert box.label_of(digest(unsure)) is None
    server = Server(tmp_path / "db")
    for number, run in enumerate((run_filter, run_client)):
        assert run(new + b"?" * (1 + number), "--db", tmp_path / "db", "-u").returncode == 0
    server.stop()
    with Mailbox(tmp_path / "db") as box:
        for number in (1, 2):
            assert box.label_of(digest(new + b"?" * number))[:2] == ("spam", "program")


def test_wrong_calls_lose_no_mail(trained, server, tmp_path):
    """Also on the quick path, where a server runs."""
    message = b"Subject: x\n\nhi\n"
    (tmp_path / "other").write_bytes(b"Subject: other\n\n")
    cases = (
        ([tmp_path / "other"], 75), (["--user", "../x"], 75), (["--user", "ann", "--db", trained], 75),
    )  # fmt: skip
    for run in (run_filter, run_client):
        for options, status in cases:
            done = run(message, *options)
            assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (status, message, 1)
    homeless = {**os.environ, "HOME": "relative"}
    for name in ("STREAMNB_DB", "XDG_DATA_HOME"):
        homeless.pop(name, None)
    done = run_filter(message, env=homeless)
    assert (done.returncode, done.stdout) == (0, message)
    for arguments in (["--user", "../x", tmp_path / "other"], ["--user", "", tmp_path / "other"]):
        assert streamnb_command("classify", *arguments)[0] == 3
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*STREAMNB, "classify", "--db", trained, tmp_path / "other"], stdout=full,
            stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)


@pytest.mark.parametrize("command", [[str(CLIENT)], [*STREAMNB, "filter"]])
def test_streams_that_are_closed_or_have_nothing_yet(trained, server, command):
    for closed in ("<&-", ">&-"):
        line = " ".join(f"'{word}'" for word in [*command, "--db", str(trained)])
        done = subprocess.run(
            ["bash", "-c", f"{line} {closed}"], input=b"Subject: x\n\n", capture_output=True,
            check=False, timeout=30,
        )  # fmt: skip
        assert done.returncode == 75, closed
    if command[0] == str(CLIENT):  # Python itself dies of that
        done = subprocess.run(["bash", "-c", f"'{CLIENT}' < /"], capture_output=True, check=False)
        assert (done.returncode, done.stderr.count(b"\n")) == (75, 1)
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    process = subprocess.Popen(
        [*command, "--db", str(trained)], stdin=read_end, stdout=subprocess.PIPE
    )
    os.close(read_end)
    message = b"Subject: x\n\n" + b"0123456789\n" * 20_000
    with open(write_end, "wb", buffering=0) as writing:
        for offset in range(0, len(message), 30_000):
            writing.write(message[offset : offset + 30_000])
            time.sleep(0.02)
    assert process.stdout.read().endswith(message)
    process.stdout.close()
    assert process.wait(30) == 0


def test_the_decision_can_be_set_by_options(trained, server, sample):
    message = (sample / "data" / "005.eml").read_bytes()
    for stopped in (False, True):
        if stopped:
            server.stop()
        for options, mark in (
            ((), b"Spam"),
            (("--threshold", 1), b"Unsure"),
            (("--costs", 1, 1, 0), b"Unsure"),
            (("--costs", 0, 1, 5), b"Spam"),
            (("--threshold", 1, "--unsure-header", "X-Look: yes"), b"Unsure"),
        ):
            done = run_filter(b"X-LOOK: forged\n" + message, "--db", trained, *options)
            lines = done.stdout.splitlines()
            assert lines[0].startswith(b"X-Streamnb: " + mark), options
            assert (lines[1] == b"X-Look: yes") == ("--unsure-header" in options)
            assert (b"X-LOOK: forged" in lines) == ("--unsure-header" not in options)
    for wrong in (
        ("--threshold", 0.3),
        ("--costs", 1, 1, "nan"),
        ("--unsure-header", "x"),
        ("--unsure-header", "x-streamnb: Ham"),
    ):
        assert run_filter(message, "--db", trained, *wrong).returncode == 75


class Server:
    """`streamnb serve`, as a process."""

    def __init__(self, db):
        self.process = subprocess.Popen(
            [*STREAMNB, "serve", "--db", str(db)], stderr=subprocess.PIPE, text=True
        )
        self.line = self.process.stderr.readline()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(120)
        tail = self.process.stderr.read()
        self.process.stderr.close()
        assert "Traceback" not in tail
        return self.process.returncode


@pytest.fixture
def server(trained):
    server = Server(trained)
    yield server
    if server.process.poll() is None:
        server.stop()


def test_a_server_reports_the_classes_that_are_not_ready(tmp_path):
    with Mailbox(tmp_path / "mail.db") as box:
        box.learn(b"Subject: pills\n\npills", "spam")
        box.learn(b"Subject: lunch\n\nlunch", "ham")
    server = Server(tmp_path / "mail.db")
    with MailboxClient(tmp_path / "mail.db") as asking:
        response = asking.classify(b"Subject: lunch\n\nlunch")
        assert asking.mailbox is None
    assert (response.mark, response.label, response.ready) == ("U", "ham", False)
    assert server.stop() == 0


def test_a_server_answers_as_the_database_does(sample, trained, server, monkeypatch):
    monkeypatch.setattr(
        "streamnb.mailbox.service.client._TIMEOUT", 120.0
    )  # a busy machine is slow with 50 MB
    assert server.line == f"listening on {socket_path(trained)}\n"
    assert os.stat(socket_path(trained)).st_mode & 0o777 == 0o600
    with MailboxClient(trained, options=JudgeOptions(2)) as asking, Mailbox(trained) as box:
        for entry in list(open_corpus(sample))[:50]:
            message = read(entry)
            assert asking.classify(message) == judge(box, message, JudgeOptions(2))
        assert asking.mailbox is None  # the server gave the verdict
        assert asking.classify(HOSTILE["20 MB"]).mark in "SHU"
        assert asking.mailbox is None
    assert server.stop() == 0
    assert not os.path.exists(socket_path(trained))
    with MailboxClient(trained) as asking:
        assert asking.classify(b"Subject: x\n\n").mark in "SHU"


def test_classify_prints_the_same_with_a_server(sample, trained, server, tmp_path):
    """A file called -, and an mbox that does not begin with its first separator."""
    item = read(next(iter(open_corpus(sample))))
    box = (b"From a@b.c Mon Jan  1 00:00:00 2024\n" + item + b"\n\n") * 2
    for name, content in {
        "-": item,
        "mark": b"\xef\xbb\xbf" + box,
        "blank": b"\n\n" + box,
        "plain": item,
    }.items():
        (tmp_path / name).write_bytes(content)
    text = []
    for served in (True, False):
        if not served:
            server.stop()
        for name in ("-", "mark", "blank", "plain"):
            done = subprocess.run(
                [*STREAMNB, "classify", "--db", trained, name], cwd=tmp_path,
                input=b"Subject: hello\n\nhello", capture_output=True, check=False,
            )  # fmt: skip
            text.append((name, done.returncode, done.stdout))
    assert text[:4] == text[4:]
    assert [out.count(b"\n") for _, _, out in text[:4]] == [1, 2, 2, 1]


def test_a_server_sees_what_others_learn(tmp_path):
    Mailbox(tmp_path / "db").close()
    server = Server(tmp_path / "db")
    with MailboxClient(tmp_path / "db") as asking, Mailbox(tmp_path / "db") as box:
        assert asking.classify(b"Subject: pills\n\n").label is None
        for i in range(5):
            box.learn(b"Subject: pills %d\n\nbuy" % i, "spam")
            box.learn(b"Subject: lunch %d\n\neat" % i, "ham")
        assert asking.classify(b"Subject: pills\n\nbuy").label == "spam"
        assert asking.mailbox is None
        box.database.wait = 0.1
    assert server.stop(signal.SIGINT) == 0


def test_a_client_ignores_a_server_of_a_replaced_database(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        box.learn(b"Subject: x\n\n", "old")
    server = Server(tmp_path / "db")
    (tmp_path / "db").rename(tmp_path / "moved")
    for ending in ("-wal", "-shm"):
        (tmp_path / f"db{ending}").unlink(missing_ok=True)
    with Mailbox(tmp_path / "db") as box:
        box.learn(b"Subject: x\n\n", "new")
    with MailboxClient(tmp_path / "db") as asking:
        assert asking.classify(b"Subject: x\n\n").label == "new"

    def ask():
        with contextlib.suppress(LookupError, ValueError, BusyError):
            return MailboxClient(tmp_path / "db").ask_server(b"Subject: x\n\n").label

    poll(lambda: ask() == "new", 60)  # the server has opened the new database
    assert "was removed or replaced by another file" in server.process.stderr.readline()
    assert server.stop() == 0


def test_a_second_server_is_refused_and_the_socket_of_a_killed_server_replaced(trained, server):
    status, _, error = streamnb_command("serve", "--db", trained)
    assert status == 8
    assert "another `streamnb serve` is running" in error
    server.process.kill()
    server.process.wait()
    server.process.stderr.close()
    assert os.path.exists(socket_path(trained))
    with MailboxClient(trained) as asking:  # no server answers, so the database is opened
        assert asking.classify(b"Subject: x\n\n").mark in "SHU"
    server = Server(trained)
    assert server.stop() == 0


def test_hostile_clients_do_not_disturb_others(trained, server):
    path = socket_path(trained)
    slow = socket.socket(socket.AF_UNIX)
    slow.connect(path)
    slow.send(b"streamnb/1 fi")
    for junk in (b"", b"\n", b"hello\n", b"streamnb/1\n", b"streamnb/1 file=1:2 size=-1\n",
                 b"streamnb/1 file=1:2 size=99999999999\n", b"streamnb/1 file=1 size=1\n",
                 b"streamnb/1 " + b"x" * 200_000 + b"\n", b"streamnb/1 file=1:2 size=5\nab",
                 b"streamnb/1 file=1:2 size=0 costs=1,nan,1\n", b"streamnb/1 file=1:2 size=0 user=../x\n",
                 b"\xff\xfe\n"):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.settimeout(120)
            try:
                client.sendall(junk)
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1 << 16) == b""
            except OSError:
                pass  # it hung up
    answers = []

    def ask():
        with MailboxClient(trained) as asking:
            answers.append(asking.classify(b"Subject: x\n\n"))
            assert asking.mailbox is None

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20
    slow.close()


def test_a_server_of_another_database_gives_no_verdict(trained, server, tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMNB_SOCKET", socket_path(trained))
    with Mailbox(tmp_path / "db") as box:
        box.learn(b"Subject: x\n\n", "work")
    with MailboxClient(tmp_path / "db") as asking:
        assert asking.classify(b"Subject: x\n\n").label == "work"


def test_a_busy_server_reports_that_it_is_busy(trained, server, monkeypatch):
    def busy(*_):
        raise BusyError("held")

    with MailboxClient(trained) as asking:
        monkeypatch.setattr(asking, "ask_server", busy)
        with pytest.raises(BusyError):
            asking.classify(b"")


def test_a_client_imports_few_modules(trained, server, sample):
    program = (
        "import os, sys; sys.argv = ['streamnb', 'classify', sys.argv[1], '--db', sys.argv[2]]\n"
        "os._exit = sys.exit\n"
        "from streamnb.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'numpy', 'river', 'scipy', 'sqlite3'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, sample / "data" / "005.eml", trained],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] in ("[]", "['sqlite3']")
