"""Lines of a log whose reader is slow, gone, or on a full disk."""

import contextlib
import fcntl
import json
import os
import smtplib
import subprocess

import pytest
from commands import STREAMNB
from maildirs import UserMaildir
from serving import HAM, Serving, poll, port_of

from streamnb import Mailbox
from streamnb.mailbox.service.line_writer import MAX_WAITING, LineWriter
from streamnb.mailbox.verdict_log import VerdictLog

PIPE_BYTES = 4096


@contextlib.contextmanager
def small_pipe():
    """Open a pipe that holds little; yield its two ends."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as read_end, open(writer, "w", encoding="utf-8") as end:
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        yield read_end, end


def test_lines_without_a_reader_are_dropped_and_counted():
    line_count = MAX_WAITING + 500
    with small_pipe() as (reader, end):
        writer = LineWriter(end, lambda line: f"notice: {line}")
        for number in range(line_count):
            writer.write(f"{number} {'x' * 2 * PIPE_BYTES}")
            if number == 0:
                poll(writer._lines.empty)
        numbers = []
        while not (line := reader.readline()).startswith("notice: "):
            numbers.append(int(line.split()[0]))
        dropped_count = line_count - MAX_WAITING - 1  # the thread holds a line, too
        assert numbers == list(range(len(numbers)))
        assert line == (
            f"notice: {dropped_count:,} lines were dropped, because they could not be written\n"
        )
        writer.write("last")
        assert any(line == "last\n" for line in reader)
        writer.close()


@pytest.mark.parametrize("is_blocking", [True, False])
def test_all_lines_are_written_before_the_end(is_blocking):
    with small_pipe() as (reader, end):
        os.set_blocking(end.fileno(), is_blocking)
        writer = LineWriter(end, str)
        for number in range(300):
            writer.write(f"{number} é\ud800")
        lines = [reader.readline() for _ in range(300)]
        writer.close()
    assert lines == [f"{number} é\\ud800\n" for number in range(300)]


def test_a_reader_that_has_gone_stops_nothing():
    with small_pipe() as (reader, end):
        writer = LineWriter(end, str)
        reader.close()
        writer.write("lost")
        writer.close()
        assert writer._dropped_count == 1


def test_lines_that_wait_at_the_end_are_counted():
    with small_pipe() as (reader, end):
        writer = LineWriter(end, str)
        for _ in range(5):
            writer.write("x" * 2 * PIPE_BYTES)
        poll(lambda: writer._lines.qsize() == 4)
        writer.close()
        assert writer._dropped_count == 5
        writer._dropped_count = 0
        for _ in range(5):
            reader.readline()
        writer._thread.join()


def test_the_number_of_dropped_lines_is_written_at_the_end():
    with small_pipe() as (reader, end):
        writer = LineWriter(end, lambda line: f"notice: {line}")
        write = writer._write
        writer._write = lambda line: line.startswith("notice") and write(line)
        writer.write("x")
        writer.write("x")
        writer.close()
        assert reader.readline().startswith("notice: 2 lines were dropped")


def test_a_server_whose_log_is_not_read_passes_all_mail(trained_db, smtp_sink):
    message_count = 40
    process = Serving("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address,
                      "--log", "json")  # fmt: skip
    fcntl.fcntl(process.process.stderr.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    port = int(json.loads(process.lines[1])["message"].rsplit(":", 1)[1].split()[0])
    with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
        for number in range(message_count):
            message_id = f"Message-ID: <{number}{'x' * 200}@b>\r\n".encode()
            client.sendmail("a@b.c", ["ann@d.e"], message_id + HAM % number)
    assert len(smtp_sink.messages) == message_count
    entries = [json.loads(process.process.stderr.readline()) for _ in range(message_count)]
    assert {entry["action"] for entry in entries} == {"marked"}
    process.stop()
    process.process.stderr.close()


def test_a_watcher_ends_when_the_reader_of_its_output_ends(tmp_path):
    """It ends in order, after its current message, although it writes no more line."""
    UserMaildir(tmp_path / "Maildir")
    database = tmp_path / "mail.db"
    command = [*STREAMNB, "watch", tmp_path / "Maildir", "--spam-folder", "Junk", "--db", database]
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""


def test_a_server_passes_mail_after_the_reader_of_its_log_has_ended(trained_db, smtp_sink):
    process = Serving("--db", trained_db, "--smtp", "127.0.0.1:0", "--next", smtp_sink.address,
                      "--log", "text")  # fmt: skip
    process.process.stderr.close()
    with smtplib.SMTP("127.0.0.1", port_of(process, "smtp"), timeout=60) as client:
        client.sendmail("a@b.c", ["ann@d.e"], HAM % 1)
    assert len(smtp_sink.messages) == 1
    process.process.terminate()
    assert process.process.wait(60) == 0


def test_a_watcher_whose_output_is_not_read_classifies_all_mail(tmp_path):
    maildir = UserMaildir(tmp_path / "Maildir")
    database = tmp_path / "mail.db"
    command = [*STREAMNB, "watch", maildir.root, "--spam-folder", "Junk", "--db", database,
               "--every", "0.1"]  # fmt: skip
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process:
        fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        while "watching" not in process.stdout.readline():
            pass
        for number in range(100):
            maildir.deliver(number)
        with Mailbox(database) as box:
            poll(lambda: len(VerdictLog(box).entries(most=1000)) == 100, 120)
        process.terminate()
        assert process.wait(60) == 0
