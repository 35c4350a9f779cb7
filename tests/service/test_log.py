"""The log, the metrics and the outages of `streamnb serve`."""

import contextlib
import json
import logging
import re
import select
import smtplib
import sqlite3
import threading
import time

import pytest
from serving import FIELD, HAM, SPAM, MailServer, Web, poll, port_of

from streamnb import Mailbox
from streamnb.errors import BusyError, StateError
from streamnb.mailbox.message_id import message_id
from streamnb.mailbox.service import mailboxes as mailboxes_module
from streamnb.mailbox.service.client import MailboxClient
from streamnb.mailbox.service.mailboxes import Mailboxes, NoMailboxError
from streamnb.mailbox.service.monitor import Monitor
from streamnb.mailbox.service.response import Response
from streamnb.mailbox.site_model import SiteModel

KEYS = ["listener", "message_id", "recipient", "class", "probability", "score", "ready", "sure",
        "action", "ms"]  # fmt: skip
VERDICT = Response("S", 0, 3.25, "spam", 0.9627, [])
HOSTILE_IDS = {
    "newline": b"<a\nclass=ham@b>",
    "carriage return": b"<a\rclass=ham@b>",
    "controls": b"<\0\x01\x1b[2J\x7f\x0b@b>",
    "long": b"<" + b"x" * 100_000 + b"@b>",
    "not ASCII": "<ü\u2028\u202e\x85日本@b>".encode(),
    "not UTF-8": b"<\xff\xfe\x80@b>",
    "quotes": b'<"a=b\\"@b>',
}


@pytest.fixture
def lines():
    """Return the lines that a monitor logs."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logger = logging.getLogger("streamnb.mail")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield records
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("name", HOSTILE_IDS)
@pytest.mark.parametrize("result", [VERDICT, StateError("mail.db\n\x1b[2J: damaged" * 1000)])
def test_a_hostile_message_id_stays_one_bounded_line(lines, log_format, name, result):
    message = b"Message-ID: " + HOSTILE_IDS[name] + b"\r\nSubject: x\r\n\r\nhi\r\n"
    action = "marked" if result is VERDICT else "unmarked"
    Monitor(log_format).message("smtp", result, action, time.monotonic(), message, "ü@d.e\n\x1b")
    (line,) = lines
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    assert len(line) < 3000
    if log_format == "json":
        fields = json.loads(line, parse_constant=pytest.fail)
        assert fields["listener"] == "smtp"
        assert fields["message_id"].startswith("<")
        assert fields["action"] == action
    else:
        pairs = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)', line)
        assert " ".join("=".join(pair) for pair in pairs) == line
        assert "class" not in dict(pairs) or dict(pairs)["class"] == "spam"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"Message-ID:\r\n <1@b>\r\n\r\n", "<1@b>"),
        (b"message-id :\t<1@b>\n\n", "<1@b>"),
        (b"Message-ID:\r\nSubject: x\r\n\r\n", ""),
        (b"Message-ID: \nSubject: x\n\n", ""),
        (b"Message-ID:\r\n\r\nbody\r\n", ""),
        (b"Subject: x\r\n\r\nMessage-ID: <body@b>\r\n", ""),
        (b"\r\nMessage-ID: <body@b>\r\n\r\n", ""),
        (b"\nMessage-ID: <body@b>\n", ""),
        (b"", ""),
    ],
)
def test_the_message_id_is_that_of_the_header(message, expected):
    assert message_id(message) == expected


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_each_recipient_has_a_line_with_all_keys(
    trained_db, serve, lmtp_sink, tmp_path, log_format
):
    path = tmp_path / "in"
    process = serve(
        "--db", trained_db, "--lmtp", path, "--next", lmtp_sink.address, "--log", log_format
    )
    lmtp_sink.answers = {"data bob@d.e": "452 4.2.2 full"}
    with smtplib.LMTP() as client:
        client.connect(str(path))
        client.sendmail("a@b.c", ["ann@d.e", "bob@d.e"], b"Message-ID: <7@b>\r\n" + SPAM % 99)
        client.getreply()
    lines = process.stop().splitlines()
    assert len(lines) == 2
    if log_format == "json":
        first, second = map(json.loads, lines)
        assert list(first) == ["time", *KEYS]
        assert list(second) == ["time", *KEYS[:-2], "reply", *KEYS[-2:]]
        assert first["sure"] is True
        assert 0.5 < first["probability"] <= 1
    else:
        first, second = (dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line)) for line in lines)
        assert list(first) == KEYS
        assert first["sure"] == "yes"
    assert (first["recipient"], first["action"]) == ("ann@d.e", "marked")
    assert (second["recipient"], second["action"]) == ("bob@d.e", "deferred")
    assert second["reply"].strip('"') == "452 4.2.2 full"
    assert first["message_id"] == second["message_id"] == "<7@b>"
    assert (first["listener"], first["class"]) == ("lmtp", "spam")


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_a_refusal_before_the_content_has_a_line_with_queue_id_and_reply(
    trained_db, serve, smtp_sink, step
):
    local = "127.0.0.1:0"
    process = serve("--db", trained_db, "--smtp", local, "--http", local, "--log", "json",
                    "--next", smtp_sink.address, lines=3)  # fmt: skip
    web = Web(port_of(process, "http"), trained_db.with_name("mail.db.token").read_text().strip())
    smtp_sink.answers = {"ann@d.e": "550 5.1.1 no such user"}
    if step == "MAIL":
        smtp_sink.controller.stop(no_assert=True)
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp")) as client:
        client.ehlo()
        client.docmd("XFORWARD IDENT=4fWx")
        reply = client.mail("a@b.c")
        reply = client.rcpt("ann@d.e") if step == "RCPT" else reply
    digit = str(reply[0])[0]
    cause = f'streamnb_refusals_total{{cause="next_hop_{digit}xx",listener="smtp"}} 1.0'
    assert cause in web("GET", "/metrics")[1]
    (line,) = (json.loads(text) for text in process.stop().splitlines() if "queue_id" in text)
    assert line["queue_id"] == "4fWx"
    assert line.get("recipient") == ("ann@d.e" if step == "RCPT" else None)
    assert line["reply"] == f"{reply[0]} {reply[1].decode()}"
    assert line["action"] == {"4": "deferred", "5": "refused"}[digit]


def copy_of(path, folder):
    target = folder / "mail.db"
    target.write_bytes(path.read_bytes())
    return target


def test_metrics_count_by_listener(trained_db, serve, smtp_sink, tmp_path):
    path = copy_of(trained_db, tmp_path)
    local = "127.0.0.1:0"
    process = serve("--db", path, "--smtp", local, "--next", smtp_sink.address, "--milter", local,
                    "--http", local, "--reject", "0.6", lines=4)  # fmt: skip
    web = Web(port_of(process, "http"), path.with_name("mail.db.token").read_text().strip())
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp")) as client:
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 99)
        smtp_sink.answers = {"DATA": "554 5.7.1 not that"}
        with pytest.raises(smtplib.SMTPDataError):
            client.sendmail("a@b.c", ["ann@d.e"], HAM % 98)
        assert 'streamnb_connections{listener="smtp"} 1.0' in web("GET", "/metrics")[1]
    with MailServer(port_of(process, "milter")) as server:
        assert server.bring(SPAM % 99)[1] == b"y"
    text = web("GET", "/metrics")[1]
    for line in (
        'streamnb_messages_total{class="ham",listener="smtp",sure="yes"} 2.0',
        'streamnb_messages_total{class="spam",listener="milter",sure="yes"} 1.0',
        'streamnb_refusals_total{cause="next_hop_5xx",listener="smtp"} 1.0',
        'streamnb_refusals_total{cause="spam",listener="milter"} 1.0',
        'streamnb_message_seconds_count{listener="smtp"} 2.0',
        "streamnb_databases 1.0",
    ):
        assert line in text.splitlines(), text
    poll(lambda: 'streamnb_connections{listener="smtp"} 0.0' in web("GET", "/metrics")[1])


def test_a_damaged_database_lets_mail_pass_and_comes_back(trained_db, serve, smtp_sink, tmp_path):
    path = copy_of(trained_db, tmp_path)
    content = path.read_bytes()
    local = "127.0.0.1:0"
    process = serve("--db", path, "--smtp", local, "--next", smtp_sink.address, "--http", local,
                    lines=3)  # fmt: skip
    web = Web(port_of(process, "http"), path.with_name("mail.db.token").read_text().strip())
    path.write_bytes(b"no database " * 1000)
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp")) as client:
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 99)
        assert smtp_sink.messages[-1][1] == HAM % 99
        assert (
            'streamnb_unmarked_total{cause="database",listener="smtp"} 1.0'
            in (web("GET", "/metrics")[1])
        )
        path.write_bytes(content)

        def is_marked():
            client.sendmail("a@b.c", ["ann@d.e"], HAM % 99)
            return FIELD.match(smtp_sink.messages[-1][1])

        poll(is_marked)


def test_mail_passes_while_the_folder_of_the_database_is_away(
    trained_db, serve, smtp_sink, tmp_path
):
    folder = tmp_path / "state"
    folder.mkdir()
    path = copy_of(trained_db, folder)
    process = serve("--db", path, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address)
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp")) as client:

        def is_marked():
            client.sendmail("a@b.c", ["ann@d.e"], HAM % 99)
            return bool(FIELD.match(smtp_sink.messages[-1][1]))

        assert is_marked()
        folder.rename(tmp_path / "away")
        assert not is_marked()
        assert not folder.exists()
        (tmp_path / "away").rename(folder)
        poll(is_marked)
    (warning,) = (line for line in process.stop().splitlines() if "opened again" in line)
    assert f"{path}: the database was removed or replaced by another file" in warning


def test_messages_are_classified_while_another_process_writes(
    trained_db, serve, smtp_sink, tmp_path
):
    """A verdict that cannot be recorded does not begin an outage."""
    path = copy_of(trained_db, tmp_path)
    local = "127.0.0.1:0"
    process = serve("--db", path, "--smtp", local, "--next", smtp_sink.address, "--milter", local,
                    lines=3)  # fmt: skip
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with MailServer(port_of(process, "milter")) as server:
            assert server.bring(HAM % 99)[0]
            assert server.bring(HAM % 98)[0]  # after the first could not be recorded
        with smtplib.SMTP("127.0.0.1", port_of(process, "smtp")) as client:
            client.sendmail("a@b.c", ["ann@d.e"], HAM % 97)
        assert FIELD.match(smtp_sink.messages[-1][1])
    assert "the verdict was not stored" in process.stop()


def test_a_request_that_meets_a_damaged_database_is_logged_as_failed(trained_db, serve, tmp_path):
    path = copy_of(trained_db, tmp_path)
    process = serve("--db", path, lines=1)
    path.write_bytes(b"no database " * 1000)
    with MailboxClient(path) as client, pytest.raises(ValueError, match="cut off"):
        client.ask_server(HAM % 99)
    output = process.stop()
    assert "ask: failed, no verdict: " in output
    assert "passed on" not in output


def test_requests_fail_at_once_during_an_outage_of_the_database(trained_db, monkeypatch, tmp_path):
    """The classifier waits and fails, like a lost connection to another machine."""
    for name in ("_SLOW_FAILURE_S", "_FIRST_RETRY_S", "_LAST_RETRY_S"):
        monkeypatch.setattr(mailboxes_module, name, 0.02)
    errors = [StateError("away"), ValueError("a fault of the driver")]
    is_back, attempts = threading.Event(), []
    with Mailbox(copy_of(trained_db, tmp_path)) as box:
        classify = box.classify

        def fail(*arguments):
            if is_back.is_set():
                return classify(*arguments)
            attempts.append(threading.current_thread().name)
            select.select([], [], [], 0.05)
            raise errors[(len(attempts) - 1) % 2]

        monkeypatch.setattr(box, "classify", fail)
        served = Mailboxes(box)
        with pytest.raises(StateError):
            served.judge(None, HAM % 1, None)
        for _ in range(20):
            with pytest.raises(BusyError, match=r"away|driver"):
                served.judge(None, HAM % 1, None)
        poll(lambda: len(attempts) > 3)
        assert set(attempts[1:]) == {"streamnb-retry"}
        is_back.set()
        poll(lambda: served.fault is None)
        assert served.judge(None, HAM % 1, None).mark == "H"
        served.close()


def test_a_database_that_is_replaced_during_its_probe_is_opened_again(
    trained_db, monkeypatch, tmp_path
):
    monkeypatch.setattr(mailboxes_module, "_FIRST_RETRY_S", 0.01)
    path = copy_of(trained_db, tmp_path)

    def replace():
        (tmp_path / "new").mkdir(exist_ok=True)
        copy_of(trained_db, tmp_path / "new").replace(path)
        served.check_replaced()

    def probe(mailbox, message, *arguments):
        opened.append(mailbox)
        response = judge(mailbox, message, *arguments)
        if len(opened) == 1:
            replace()
        return response

    opened, judge = [], mailboxes_module.judge
    monkeypatch.setattr(mailboxes_module, "judge", probe)
    first = Mailbox(path)
    served = Mailboxes(first, open_single=lambda: Mailbox(path))
    replace()
    poll(lambda: served.fault is None)
    assert served.judge(None, HAM % 1, None).mark == "H"
    assert opened[0] is not opened[-1] is served.single
    served.close()
    for mailbox in (first, opened[0]):
        mailbox.close()


def test_a_message_meets_an_outage_or_its_end(trained_db, tmp_path):
    """A message reads both parts of the state before the outage ends, or after it."""

    class SlowlyRead(Mailboxes):
        @property
        def single(self):
            state = self.__dict__.get("state")
            if reader == [threading.current_thread()]:
                reader.clear()
                recovery = threading.Thread(target=recover)
                recovery.start()
                recovery.join()
            return state

        @single.setter
        def single(self, mailbox):
            self.state = mailbox

    def recover():
        if served._lock.acquire(blocking=False):
            served.single, served._outage = box, None
            served._lock.release()

    reader = []
    with Mailbox(copy_of(trained_db, tmp_path)) as box:
        served = SlowlyRead(None, open_single=lambda: box)
        served._outage = BusyError("away")
        served.check_replaced = lambda: reader.append(threading.current_thread())
        with pytest.raises(BusyError, match="away"):
            served.judge(None, HAM % 1, None)
        recover()
        assert served.judge(None, HAM % 1, None).mark == "H"


def test_warnings_that_differ_are_not_remembered_for_ever():
    monitor = Monitor()
    for number in range(5000):
        monitor.warn(f"user{number}: no such user")
    assert len(monitor._last_warned) <= 1000


def test_a_slow_database_delays_no_other_user(trained_db, monkeypatch, tmp_path):
    folder = tmp_path / "users"
    folder.mkdir()
    monkeypatch.setenv("STREAMNB_USERS", str(folder))
    for name in ("slow", "quick"):
        (folder / f"{name}.db").write_bytes(trained_db.read_bytes())
    is_opening, may_open = threading.Event(), threading.Event()

    def open_slowly(path, *arguments, **options):
        if str(path).endswith("slow.db"):
            is_opening.set()
            assert may_open.wait(60)
        return Mailbox(path, *arguments, **options)

    monkeypatch.setattr(mailboxes_module, "Mailbox", open_slowly)
    served = Mailboxes(None)
    waiting = [
        threading.Thread(target=served.judge, args=("slow", SPAM % 1, None)) for _ in range(3)
    ]
    for thread in waiting:
        thread.start()
    assert is_opening.wait(60)
    assert served.judge("quick", SPAM % 1, None).mark == "S"
    with pytest.raises(LookupError):
        served.judge("nobody", SPAM % 1, None)
    may_open.set()
    for thread in waiting:
        thread.join()
    assert served.open_count == 2  # one line for both users, none without a user
    served.close()


@pytest.mark.parametrize("has_site_model", [False, True])
def test_a_missing_folder_of_the_users_is_named_and_not_created(
    trained_db, monkeypatch, tmp_path, has_site_model
):
    folder = tmp_path / "users"
    folder.mkdir()
    monkeypatch.setenv("STREAMNB_USERS", str(folder))
    (folder / "ann.db").write_bytes(trained_db.read_bytes())
    warnings = []
    site = SiteModel(copy_of(trained_db, tmp_path), 1.0, print) if has_site_model else None
    served = Mailboxes(None, site, warn=warnings.append)
    assert served.judge("ann", SPAM % 1, None).mark == "S"
    folder.rename(tmp_path / "away")
    for user in ("ann", "bob"):
        if has_site_model:
            assert served.judge(user, SPAM % 1, None).label == "spam"
            assert f"{folder}: the folder of the users is missing" in warnings[-1]
        else:
            with pytest.raises(BusyError, match="the folder of the users is missing"):
                served.judge(user, SPAM % 1, None)
    assert not folder.exists()
    (tmp_path / "away").rename(folder)
    assert served.judge("ann", SPAM % 1, None).mark == "S"
    served.close()


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (NoMailboxError("ann: no database yet"), "no_database"),
        (BusyError("busy"), "busy"),
        (StateError("damaged"), "database"),
        (ValueError("a fault"), "error"),
    ],
)
def test_a_message_without_a_verdict_is_counted_by_cause(error, cause):
    monitor = Monitor()
    monitor.message("lmtp", error, "unmarked", time.monotonic(), b"")
    labels = {"listener": "lmtp", "cause": cause}
    assert monitor.registry.get_sample_value("streamnb_unmarked_total", labels) == 1
