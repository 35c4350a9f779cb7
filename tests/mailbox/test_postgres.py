"""A mailbox in PostgreSQL has the guarantees of one in a file, for several hosts."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from urllib.parse import quote

import postgres
import pytest
from commands import streamnb_command

from streamnb import Mailbox, MultinomialNB, Tokenizer
from streamnb.classifier import Classifier
from streamnb.corpus import open_corpus, read
from streamnb.database import TransientError
from streamnb.errors import BusyError, DamagedDatabaseError, StateError
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import PROGRAM
from streamnb.mailbox.rebuild import rebuild
from streamnb.mailbox.recover import copy_label, count_missing, create_upgraded
from streamnb.mailbox.service.response import judge
from streamnb.mailbox.status import status
from streamnb.mailbox.transfer.formats import export, import_file, merge
from streamnb.mailbox.undo import redo
from streamnb.mailbox.verdict_log import LogLimits, VerdictLog

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def server():
    with postgres.served() as running_server:
        yield running_server


numbers = iter(range(10**6))


@pytest.fixture
def url(server):
    return server.schema(f"mail{next(numbers)}")


def mails(n=120):
    return [(read(e), e.label) for e in open_corpus("corpora/sample")][:n]


def lines(mailbox, tmp_path):
    path = tmp_path / f"export{next(numbers)}"
    export(mailbox, str(path))
    return [json.loads(line) for line in path.read_text().splitlines()]


def live(mailbox):
    """Everything done to a mailbox in its life."""
    messages = mails()
    wrong = {"spam": "ham", "ham": "spam"}
    start_s = 1_700_000_000.0
    for i, (message, label) in enumerate(messages):
        labels = wrong[label] if i % 10 == 0 else label
        mailbox.learn(message, labels, timestamp=start_s + i, source="learn a/b \udcff")
    for i, (message, label) in enumerate(messages[:40]):
        mailbox.learn(message, label, PROGRAM if i % 3 else "human", timestamp=start_s + 200 + i)
    for message, _ in messages[90:100]:
        mailbox.forget(message, timestamp=start_s + 300)
    undone = mailbox.undo(start_s + 230)
    assert undone.unlearned
    assert redo(mailbox).learned == undone.unlearned


def test_a_missing_table_or_column_is_reported(url):
    with Mailbox(url) as box:
        box.learn(mails(1)[0][0], "spam")
        assert box.verify() == []
        with box.database.writing() as connection:
            connection.execute("ALTER TABLE ledger RENAME COLUMN receipt TO x")
            connection.execute("DROP TABLE state_copy")
        assert box.verify() == ["it lacks ledger.receipt", "it lacks state_copy"]
        with pytest.raises(DamagedDatabaseError, match=r"receipt.* restore it from"), box.reading():
            list(box.ledger.rows())


def test_a_mailbox_on_a_server_equals_one_in_a_file(url, tmp_path):
    with Mailbox(url) as remote, Mailbox(tmp_path / "mail.db") as local:
        for mailbox in (remote, local):
            live(mailbox)
            assert mailbox.verify() == []
        assert status(remote)._replace(path="", bytes=0) == status(local)._replace(path="", bytes=0)
        for rebuilt in (lambda writer: None, rebuild, lambda writer: compact(writer, rare_days=0)):
            rebuilt(remote)
            rebuilt(local)
            assert remote.verify() == local.verify() == []
            for message, _ in mails(300)[::7]:
                with remote.reading(), local.reading():
                    scores = local.classifier.joint_log_likelihood(message)
                    assert remote.classifier.joint_log_likelihood(message) == scores
                assert remote.classify(message, 5) == local.classify(message, 5)


def test_from_a_file_to_a_server_and_back(url, server, tmp_path):
    with Mailbox(tmp_path / "mail.db") as local, Mailbox(url) as remote:
        live(local)
        first = lines(local, tmp_path)
        path = tmp_path / "local.jsonl"
        export(local, str(path))
        import_file(remote, str(path))
        assert lines(remote, tmp_path) == first
        with Mailbox(tmp_path / "again.db") as rebuilt:
            merge(rebuilt, remote)
            assert lines(rebuilt, tmp_path) == first
            for message, _ in mails(60):
                with rebuilt.reading(), local.reading():
                    scores = local.classifier.joint_log_likelihood(message)
                    assert rebuilt.classifier.joint_log_likelihood(message) == scores
        with pytest.raises(StateError, match="merged with itself"):
            merge(remote, remote)
        with Mailbox(server.schema(f"mail{next(numbers)}")) as other:
            merge(other, remote)
            assert lines(other, tmp_path) == first


def test_erased_messages_leave_the_log_of_verdicts(url):
    with Mailbox(url) as mailbox:
        for message, label in mails(30):
            mailbox.learn(message, label)
        record, message = VerdictLog(mailbox), mails(40)[35][0]
        record.limit(LogLimits(50, 30))
        for place in ("inbox", "junk"):
            record.note(message, judge(mailbox, message), place)
        (entry,) = record.entries(search=VerdictLog(mailbox).entries()[0].subject[2:6].upper())
        assert entry.place == "junk"
        assert record.learn(entry.id, "spam").result == "learned"
        assert record.entries("labelled")[0].learned_label == "spam"
        assert record.erase([digest(message), digest(mails(1)[0][0])]) == 2
        assert record.entries() == mailbox.verify() == []


def test_text_that_a_server_cannot_hold(url):
    with Mailbox(url) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "spam", source="learn a\0b \udcff")
        assert mailbox.label_of(digest(b"Subject: a\n\nb"))[2].startswith("learn a\ufffdb")
    with Mailbox(url) as mailbox:
        assert mailbox.labels == ["spam"]
        assert mailbox.verify() == []


def test_batches_and_another_kind_of_classifier(url):
    kind = Classifier(Tokenizer(), MultinomialNB())
    with Mailbox(url, classifier=kind) as mailbox:
        lessons = [LabelledMessage(b"free offer", "spam"), LabelledMessage(b"lunch", "ham")]
        assert mailbox.learn_batch(lessons, "query", 0) == 2
        assert mailbox.learn_batch(lessons, "query", 0) == 0
    with Mailbox(url, create=False) as mailbox:
        assert mailbox.classify(b"free").label == "spam"
        assert mailbox.verify() == []


WRITER = """
import sys
from streamnb import Mailbox
from streamnb.errors import BusyError
url, seed = sys.argv[1], int(sys.argv[2])
mailbox = Mailbox(url, wait=60)
for i in range(100000):
    message = b"Subject: %d\\n\\nw%d v%d u%d" % (seed * 100000 + i, i % 17, i % 5, seed)
    mailbox.learn(message, "spam" if i % 2 else "ham")
    print(seed * 100000 + i, flush=True)
"""


def in_a_transaction(mailbox, server):
    with mailbox.writing():
        server.signal(signal.SIGSTOP)
        mailbox.database.connection.execute("SELECT 1")


def at_once(method):
    def call_while_stopped(mailbox, server):
        server.signal(signal.SIGSTOP)
        method(mailbox, *mails(2)[1][: 1 + (method is Mailbox.learn)])

    return call_while_stopped


@pytest.mark.parametrize(
    "call_while_stopped", [at_once(Mailbox.learn), at_once(Mailbox.classify), in_a_transaction]
)
def test_a_hanging_server_delays_a_client_for_a_limited_time(
    server, url, call_while_stopped, monkeypatch
):
    monkeypatch.setattr("streamnb.mailbox.postgres._ANSWER_TIMEOUT_S", 0.5)
    first, second = mails(2)
    with Mailbox(url, wait=2) as mailbox:
        mailbox.learn(*first)
        begun = time.monotonic()
        try:
            with pytest.raises(TransientError, match=r"no answer|timeout expired"):
                call_while_stopped(mailbox, server)
        finally:
            server.signal(signal.SIGCONT)
        assert time.monotonic() - begun < 30
        mailbox.learn(*second)
        assert mailbox.verify() == []
        assert sum(line.messages for line in status(mailbox).learned) == 2


def test_clients_and_the_server_are_killed_and_nothing_acknowledged_is_lost(server, url):
    """Two hosts' worth of writers; the long runs are tests/endurance/kills.py's."""
    Mailbox(url).close()
    chance = random.Random(3)
    acknowledged = set()
    begun = 0

    def writer():
        nonlocal begun
        begun += 1
        return subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, url, str(begun)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    running = [writer() for _ in range(4)]
    for kill in range(8):
        time.sleep(0.5 + chance.random())
        if kill in (3, 6):
            server.kill()
            server.start()
        else:
            child = running.pop(chance.randrange(len(running)))
            child.send_signal(signal.SIGKILL)
            acknowledged |= {int(line) for line in child.communicate()[0].split("\n")[:-1]}
            running.append(writer())
    time.sleep(1)
    for child in running:
        assert child.poll() is None, child.stderr.read()  # the server's death was waited for
        child.send_signal(signal.SIGKILL)
        acknowledged |= {int(line) for line in child.communicate()[0].split("\n")[:-1]}
    assert len(acknowledged) > 20
    with Mailbox(url) as mailbox:
        assert mailbox.verify() == []
        with mailbox.reading():
            learned = sum(mailbox.counts[0].weights)
        for number in acknowledged:
            seed, i = divmod(number, 100000)
            message = b"Subject: %d\n\nw%d v%d u%d" % (number, i % 17, i % 5, seed)
            assert mailbox.learn(message, "spam" if i % 2 else "ham").result == "known"
        assert len(acknowledged) <= learned <= len(acknowledged) + begun


def test_messages_are_classified_during_a_rebuild(url):
    with Mailbox(url) as mailbox:
        for message, label in sorted(mails(100), key=lambda pair: pair[1]):
            mailbox.learn(message, label)
        answers, done = [], threading.Event()

        def ask():
            with Mailbox(url) as other:
                while not done.is_set():
                    answers.append(other.classify(mails(1)[0][0]).probability)

        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        before = len(answers)
        rebuild(mailbox)
        assert len(answers) > before
        done.set()
        thread.join()
        assert mailbox.verify() == []


def test_waiting_for_another_writer_is_limited_and_reported(url):
    with Mailbox(url) as holder, holder.writing(), Mailbox(url, wait=0.2) as mailbox:
        mailbox.classify(b"Subject: a\n\nb")  # a reader does not wait
        with pytest.raises(BusyError, match=r"waited 0\.2 s"):
            mailbox.learn(b"Subject: a\n\nb", "ham")
    with Mailbox(url) as mailbox:
        assert mailbox.learn(b"Subject: a\n\nb", "ham").result == "learned"


@pytest.mark.parametrize("most_polls", [0, 1 << 20])
def test_only_the_later_attempts_to_write_wait_in_the_queue(url, monkeypatch, most_polls):
    """A statement that waits keeps the connection from the threads that read."""
    monkeypatch.setattr("streamnb.mailbox.postgres._MOST_POLLS", most_polls)
    n_queued = 0
    with Mailbox(url) as holder, Mailbox(url) as mailbox:
        with holder.writing():
            learning = threading.Thread(target=mailbox.learn, args=(b"Subject: a\n\nb", "ham"))
            learning.start()
            while learning not in mailbox.database._waiting:
                time.sleep(0.001)
            for _ in range(30):
                waiting = holder.database.connection.execute(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted"
                )
                n_queued += waiting.fetchone()[0]
                time.sleep(0.01)
            assert (n_queued == 0) == (most_polls > 0)
        learning.join()
        assert mailbox.label_of(digest(b"Subject: a\n\nb"))[0] == "ham"


def test_one_schema_has_one_lock_however_it_is_spelt(server):
    name = f"mail{next(numbers)}"
    with Mailbox(server.schema(name)) as holder, holder.writing():
        for spelt in (name.upper(), f'"{name}"'):
            other = Mailbox(server.schema(quote(spelt)), wait=0.1)
            with other, pytest.raises(BusyError):
                other.learn(b"Subject: a\n\nb", "ham")
    for refused in (f"nothere,{name}", "pg_temp", '"$user"'):
        with pytest.raises(StateError, match="one schema"):
            Mailbox(server.schema(quote(refused)))
    for odd in ('"My;\\ Sch""ema%?"', "grün"):
        with Mailbox(server.schema(quote(odd))) as mailbox:
            assert mailbox.learn(b"Subject: a\n\nb", "ham").result == "learned"
            assert mailbox.verify() == []


def test_a_commit_whose_answer_is_lost_is_not_done_twice(url, monkeypatch):
    with Mailbox(url) as mailbox:
        message = b"Subject: a\n\nb"
        mailbox.learn(message, "spam")
        commit = mailbox.database._commit
        lost = []

        def loses(durable):
            commit(durable)
            if mailbox.database.writes and not lost:
                lost.append(True)
                raise TransientError("the answer was lost")

        monkeypatch.setattr(mailbox.database, "_commit", loses)
        assert mailbox.learn(message, "ham") == ("corrected", "spam")
        lost.clear()
        assert mailbox.retract(digest(message)) == ("forgotten", "ham")
        assert mailbox.label_of(digest(message))[0] == "spam"
        lost.clear()
        assert mailbox.forget(message) == ("forgotten", "spam")
        assert mailbox.label_of(digest(message)) is None
        lessons = [LabelledMessage(b"Subject: %d\n\nword %d" % (i, i % 3), "ham") for i in range(9)]
        lost.clear()
        labels = [outcome.result for outcome in mailbox.learn_many(lessons[:6])]
        assert labels == ["learned"] * 6
        lost.clear()
        assert mailbox.learn_batch(iter(lessons), "stream", 1) == 3
        assert mailbox.learn_batch(lessons, "stream", 1) == 0
        lost.clear()
        assert mailbox.undo(0).unlearned == 9 + 3  # with those that were unlearned before
        lost.clear()
        assert redo(mailbox).learned == 9 + 3
        lost.clear()
        assert compact(mailbox, rare_days=None, ledger=-1).retired == 9
        assert mailbox.verify() == []


@pytest.mark.parametrize(("parameters", "idle"), [("", "30"), ("&keepalives_idle=7", "7")])
def test_a_host_that_is_gone_is_noticed(url, parameters, idle):
    with Mailbox(url + parameters) as mailbox:
        result = mailbox.database.connection.real.info.get_parameters()
        assert (result["keepalives_idle"], result["tcp_user_timeout"]) == (idle, "60000")


def test_an_ended_connection_is_opened_again(url, server):
    import psycopg

    with Mailbox(url, wait=2) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")

        def end():
            with psycopg.connect(server.url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'streamnb'"
                )

        for act in (lambda: mailbox.classify(b"x"), mailbox.database.size, mailbox.verify):
            end()
            act()
        mailbox.database.connection.real.execute("SET idle_session_timeout = 100")
        time.sleep(0.4)
        assert mailbox.learn(b"Subject: c\n\nb", "ham").result == "learned"


def test_a_server_that_became_read_only_is_left_for_the_one_that_is_not(url, server):
    """After a failover, an open connection can lead to what is now a standby."""
    read_only = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
    with Mailbox(url, wait=2) as mailbox:
        for i in range(2):
            mailbox.database.connection.real.execute(read_only)
            mailbox.classify(b"x")
            assert mailbox.learn(b"Subject: a%d\n\nb" % i, "ham").result == "learned"
        assert not mailbox.verify()
    with Mailbox(f"{url}%20-cdefault_transaction_read_only%3Don", create=False) as mailbox:
        with pytest.raises(StateError, match="target_session_attrs=read-write"):
            mailbox.learn(b"Subject: c\n\nb", "ham")
        mailbox.classify(b"x")


def test_a_failure_within_a_transaction_is_not_reported_as_success(url):
    def fails(database):
        with database.writing() as connection, contextlib.suppress(Exception):
            database.store_value("a", 1)
            connection.execute("SELECT nothing")

    with Mailbox(url) as mailbox, pytest.raises(StateError, match="rolled the transaction back"):
        fails(mailbox.database)
    with Mailbox(url) as mailbox, mailbox.reading():
        assert mailbox.database.read_value("a") is None


def test_ctrl_c_while_it_waits_leaves_the_mailbox_in_order(url):
    with Mailbox(url) as holder, Mailbox(url) as mailbox:
        with holder.writing():
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                mailbox.learn(b"Subject: a\n\nb", "ham")
        assert mailbox.learn(b"Subject: a\n\nb", "ham").result == "learned"


def test_free_space_is_released_unless_another_process_reads(url):
    with Mailbox(url) as reader, Mailbox(url, wait=0.3) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
        with reader.reading():
            began = time.monotonic()
            assert not mailbox.database.shrink()
            assert time.monotonic() - began < 3
        assert mailbox.database.shrink()


def test_a_child_makes_a_connection_of_its_own(url):
    with Mailbox(url) as mailbox:
        child = os.fork()
        if child == 0:
            confirmed = mailbox.learn(b"Subject: child\n\nb", "ham").result
            os._exit(0 if confirmed == "learned" else 1)
        assert mailbox.learn(b"Subject: parent\n\nb", "ham").result == "learned"
        assert os.waitpid(child, 0)[1] == 0
        assert mailbox.verify() == []
        with mailbox.reading():
            assert sum(mailbox.counts[0].weights) == 2


def test_a_maildir_is_watched_as_with_a_file(url, tmp_path):
    spam = [message for message, label in mails(100) if label == "spam"]
    ham = [message for message, label in mails(100) if label == "ham"]
    confirmed, printed = [], []
    for db in (url, str(tmp_path / "mail.db")):
        root = tmp_path / f"Maildir{len(confirmed)}"
        for folder in ("cur", "new", "tmp", ".Junk/cur", ".Junk/new", ".Junk/tmp"):
            (root / folder).mkdir(parents=True)
        for i, message in enumerate(ham[:20]):
            (root / "cur" / f"h{i}:2,S").write_bytes(message)
        for i, message in enumerate(spam[:20]):
            (root / "cur" / f"s{i}:2,S").write_bytes(message)
        watch = ["watch", str(root), "--once", "--move", "--existing", "--db", db]
        assert streamnb_command(*watch)[0] == 0
        for path in (root / "cur").glob("s*"):  # the owner moves them
            path.rename(root / ".Junk" / "cur" / path.name)
        status, out, err = streamnb_command(*watch)
        assert status == 0, err
        printed.append(
            sorted(line.partition(" ")[2].partition(" ")[2] for line in out.splitlines())
        )
        with Mailbox(db) as mailbox:
            assert mailbox.verify() == []
            confirmed.append(mailbox.classifier.messages())
    assert confirmed[0] == confirmed[1]
    assert len(confirmed[0]) == 1
    assert len(printed[0]) == len(printed[1])


def test_commands_take_a_url(url, tmp_path):
    def run(*arguments, status=0, **options):
        result, out, err = streamnb_command(*arguments, "--db", url, **options)
        assert result == status, err
        return out

    spam, ham = tmp_path / "spam", tmp_path / "ham"
    for i, (message, label) in enumerate(mails(40)):
        folder = spam if label == "spam" else ham
        folder.mkdir(exist_ok=True)
        (folder / f"{i}.eml").write_bytes(message)
    run("learn", f"spam={spam}", f"ham={ham}")
    writer = str(next(spam.iterdir()))
    assert "postgresql:///mail" in run("status")
    assert json.loads(run("status", "--json"))
    run("verify")
    run("classify", writer, status=2)  # not sure yet, of so few
    run("forget", writer)
    run("undo", "--last")
    run("undo", "--redo")
    run("compact")
    run("export", str(tmp_path / "out.jsonl"))
    run("top", "--class", "spam")
    run("explain", str(next(ham.iterdir())))
    run("recover", str(tmp_path / "new.db"), status=4)


def test_a_server_of_ours_answers_for_it(url, server):
    with Mailbox(url) as mailbox:
        for message, label in mails(30):
            mailbox.learn(message, label)
    folder = server.folder  # its name is short, as that of a socket must be
    own = {**os.environ, "XDG_DATA_HOME": str(folder), "STREAMNB_DB": url}
    program = [sys.executable, "-P", "-c", "from streamnb.cli import main; main()", "serve"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=own) as running:
        assert "listening" in running.stderr.readline()
        message = mails(1)[0][0]
        status, out, err = streamnb_command("filter", input=message.decode("latin-1"), env=own)
        assert status == 0, err
        assert "X-Streamnb" in out or "X-Spam" in out
        assert list((folder / "streamnb").glob("postgresql-*.sock"))
        running.terminate()
    assert running.returncode == 0


@pytest.mark.parametrize(
    ("location", "status", "reason"),
    [
        ("postgresql://nobody@/nothing?host=/nowhere", 75, "cannot be reached"),
        ("postgresql://a:secret@127.0.0.1:1/x", 75, "cannot be reached"),
        ("postgresql://a:secret%zz@127.0.0.1:1/x", 2, "malformed"),
        ("postgresql://a:secret@127.0.0.1:port/x", 2, "malformed"),
        ("postgresql://a:secret@127.0.0.1:99999/x", 2, "malformed"),
        ("postgresql://127.0.0.1:1/x?sslmode=secret", 2, "malformed"),
        ("postgresql://a:sec/ret@secret/x", 2, "malformed"),
        ("postgresql://a:x@secret@127.0.0.1:1/x", 75, "cannot be reached"),
    ],
)
def test_a_wrong_database_gives_an_error_of_one_line(location, status, reason):
    result, _, err = streamnb_command("status", "--db", location, "--wait", "0.1")
    assert result == status, err
    assert reason in err
    assert "secret" not in err
    assert err.count("\n") == 1


def test_a_refused_login_is_reported(server):
    wrong = server.url.replace("postgres@", "nobody@")
    with pytest.raises(StateError, match="cannot be used"):
        Mailbox(wrong)


def test_tables_of_other_programs_are_not_changed(server):
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA theirs")
        connection.execute("CREATE TABLE theirs.state(a INT)")
    with pytest.raises(StateError, match="another program"):
        Mailbox(server.schema("theirs"))
    with pytest.raises(StateError, match="no tables"):
        Mailbox(server.schema("none"), create=False)


def test_newer_views_come_into_a_schema_of_their_own(url, server):
    with Mailbox(url) as old:
        for message, label in mails(10):
            old.learn(message, label)
        with create_upgraded(old, server.schema(f"mail{next(numbers)}")) as new:
            for message, _ in mails(10):
                copy_label(old, new, message)
            assert count_missing(old, new) == 0
        with pytest.raises(StateError, match="old database"):
            create_upgraded(old, url)


needs_pooler = pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="needs PgBouncer")


@needs_pooler
def test_a_pooler_may_give_each_transaction_another_connection(server):
    messages = mails(40)
    with postgres.pooled(server) as url:
        boxes = [Mailbox(url) for _ in range(4)]

        def work(box, part):
            for message, label in part:
                box.learn(message, label)
                box.classify(message)

        threads = [
            threading.Thread(target=work, args=(box, messages[k::4])) for k, box in enumerate(boxes)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(group.messages for group in status(boxes[0]).learned) == 40
        assert boxes[1].undo(1).unlearned == 40
        assert redo(boxes[2]).learned == 40
        compact(boxes[3], rare_days=None)
        assert boxes[0].verify() == []
        for box in boxes:
            box.close()
    with Mailbox(server.url, create=False) as direct:  # the same tables
        assert sum(group.messages for group in status(direct).learned) == 40


@needs_pooler
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "unsupported startup parameter: options"),
        (("ignore_startup_parameters = options",), "ignores the search_path"),
    ],
)
def test_a_pooler_cannot_give_the_mailbox_of_another_schema(server, options, reason):
    with postgres.pooled(server, *options) as url, pytest.raises(StateError, match=reason):
        Mailbox(f"{url}&options=-csearch_path%3Dstreamnb_b")
