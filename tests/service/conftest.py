"""Fixtures of the server's tests: a trained database, next hops, and a running `streamnb serve`."""

import contextlib

import pytest
from aiosmtpd.controller import Controller, UnixSocketController
from ports import free_port
from serving import LongLmtpServer, LongServer, Serving, Sink, Web, train

from streamnb import Mailbox
from streamnb.mailbox.service.mailboxes import Mailboxes


@pytest.fixture
def smtp_sink():
    sink = Sink()

    class Here(Controller):
        def factory(self):
            return LongServer(
                self.handler, data_size_limit=None, enable_SMTPUTF8=True, hostname="sink"
            )

    controller = Here(sink, hostname="127.0.0.1", port=free_port())
    controller.start()
    sink.address = f"smtp:127.0.0.1:{controller.port}"
    sink.controller = controller
    yield sink
    sink.wait_until_unused()
    with contextlib.suppress(AssertionError):
        controller.stop()


@pytest.fixture
def lmtp_sink(tmp_path):
    sink = Sink()

    class Here(UnixSocketController):
        def factory(self):
            return LongLmtpServer(self.handler, data_size_limit=None, hostname="sink")

    controller = Here(sink, unix_socket=str(tmp_path / "sink"))
    controller.start()
    sink.address = f"lmtp:{tmp_path / 'sink'}"
    yield sink
    sink.wait_until_unused()
    controller.stop()


@pytest.fixture(scope="module")
def trained_db(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained_db") / "mail.db"
    with Mailbox(path) as box:
        train(box)
    return path


@pytest.fixture
def mailboxes(trained_db):
    with Mailbox(trained_db) as mailbox:
        yield Mailboxes(mailbox)


@contextlib.contextmanager
def servers():
    """Yield a function that starts a server; stop all servers at the end."""
    processes = []

    def make(*options, **popen_options):
        processes.append(Serving(*options, **popen_options))
        return processes[-1]

    yield make
    for process in processes:
        if process.process.poll() is None:
            process.stop()
        process.process.stderr.close()


@pytest.fixture
def serve():
    with servers() as make:
        yield make


@pytest.fixture(scope="module")
def serve_all_tests():
    """Start servers that the tests of a module share: a start takes longer than most requests."""
    with servers() as make:
        yield make


def client_of(serve, database):
    """Train a database, start its server, and return a client."""
    with Mailbox(database) as box:
        train(box)
    port = free_port()
    serve("--db", database, "--http", f"127.0.0.1:{port}")
    token = database.with_name("mail.db.token")
    assert token.stat().st_mode & 0o777 == 0o600
    return Web(port, token.read_text().strip())


@pytest.fixture
def web(serve, tmp_path):
    return client_of(serve, tmp_path / "mail.db")


@pytest.fixture(scope="module")
def shared_web(serve_all_tests, tmp_path_factory):
    return client_of(serve_all_tests, tmp_path_factory.mktemp("shared") / "mail.db")
