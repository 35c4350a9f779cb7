"""Counts and ledger in SQLite: exact, durable, shared; against the models in memory."""

import errno
import gc
import json
import os
import pickle
import re
import stat
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st
from mailboxes import HAM, MESSAGES, SPAM, exported, mails, same_counts

from streamnb import Mailbox, MailClassifier, MultinomialNB
from streamnb.classifier import Classifier
from streamnb.classifier.verdict import feature_name
from streamnb.errors import BusyError, OutputError, StateError
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, PROGRAM, pack_tokens, unpack_tokens
from streamnb.mailbox.location import default_path
from streamnb.mailbox.schema import SCHEMA
from streamnb.mailbox.service.response import JudgeOptions, judge
from streamnb.mailbox.status import readiness_by_label, status
from streamnb.mailbox.transfer.formats import import_file
from streamnb.naive_bayes import BernoulliNB


def test_a_database_learns_and_scores_as_memory_does(sample, box):
    memory = MailClassifier(label_noise=0.0)
    for content, label in mails(sample, 100):
        assert box.classify(content).probabilities == memory.classify(content).probabilities
        assert box.learn(content, label).result == "learned"
        memory.learn_one(content, label)
    same_counts(box, memory)
    assert box.verify() == []


def test_wrong_labels_are_estimated_as_in_memory(sample, tmp_path):
    memory = MailClassifier()
    with Mailbox(tmp_path / "db", classifier=MailClassifier()) as box:
        for content, label in mails(sample):
            box.learn(content, label)
            memory.learn_one(content, label)
        same_counts(box, memory)
        assert (
            box.classifier.model.calibration.noise.state() == memory.model.calibration.noise.state()
        )
        assert box.verify() == []


@pytest.mark.parametrize(
    ("feedback", "recorded"), [(None, None), ("all", 0), ("errors", 1)], ids=str
)
def test_a_caller_can_pass_feedback(box, feedback, recorded):
    box.learn(MESSAGES[0], "spam")
    for number in range(4):  # the model is right about some of them: a mistake may be chance
        box.learn(HAM + b"%d" % number, "ham")
    with pytest.raises(ValueError, match="'all', 'errors' or None"):
        box.learn(SPAM, "spam", feedback="mistakes")
    box.learn(SPAM, "spam", feedback=feedback)
    assert box.ledger.active(digest(SPAM)).receipt.deltas.get("corrected") == recorded
    before = box.classify(HAM).probabilities
    box.forget(SPAM)
    box.learn(SPAM, "spam", feedback=feedback)
    assert box.classify(HAM).probabilities == before
    assert box.verify() == []


def test_other_models_are_kept_too(sample, tmp_path):
    classifier = Classifier(MailTokenizer(), MultinomialNB(alpha=0.5))
    with Mailbox(tmp_path / "db", classifier=classifier) as box:
        memory = Classifier(MailTokenizer(), MultinomialNB(alpha=0.5))
        for content, label in mails(sample, 30):
            box.learn(content, label)
            memory.learn_one(content, label)
        for content, _ in mails(sample, 40):
            assert box.classify(content).log_odds == memory.classify(content).log_odds
        assert box.forget(mails(sample, 1)[0][0]).result == "forgotten"
        assert box.verify() == []


@pytest.mark.parametrize(
    ("model", "reason"),
    [(BernoulliNB(), "BernoulliNB cannot be stored"), (MultinomialNB(decay=0.9), "decay < 1")],
)
def test_models_that_need_the_whole_table_are_refused(tmp_path, model, reason):
    with pytest.raises(StateError, match=reason):
        Mailbox(tmp_path / "db", classifier=Classifier(MailTokenizer(), model))


def test_learning_twice_is_learning_once_and_another_label_is_a_correction(box):
    assert box.learn(SPAM, "ham").result == "learned"
    before = exported(box)
    assert box.learn(SPAM, "ham") == ("known", "ham")
    assert exported(box) == before
    assert box.learn(SPAM, "spam") == ("corrected", "ham")
    assert box.counts[0].weights == [0.0, 1.0]
    assert box.forget(SPAM) == ("forgotten", "spam")
    assert box.forget(SPAM).result == "unknown"
    assert [counts.features for counts in box.counts] == [0] * 4
    assert box.verify() == []


def test_many_messages_are_forgotten_together_or_not_at_all(box, monkeypatch):
    for message in (SPAM, HAM):
        box.learn(message, "spam")
    before, end = exported(box), box.ledger.end
    with monkeypatch.context() as patch:
        patch.setattr(
            type(box.ledger),
            "end",
            lambda _, row, now: end(row, now) if row.digest == digest(SPAM) else 1 / 0,
        )
        with pytest.raises(ZeroDivisionError):
            box.forget_digests(map(digest, [SPAM, HAM]))
    assert exported(box) == before
    outcomes = box.forget_digests(map(digest, [SPAM, b"new", HAM, SPAM]))
    results = [outcome.result for outcome in outcomes]
    assert results == ["forgotten", "unknown", "forgotten", "unknown"]
    assert box.verify() == []


def test_verdicts_are_unsure_with_messages_of_one_class(box):
    box.learn(SPAM, "spam")
    assert box.classify(HAM).unsure
    box.learn(HAM, "ham")
    box.forget(HAM)
    assert box.classify(HAM).unsure
    box.forget(SPAM)
    assert compact(box).features == 0
    assert box.verify() == []


def test_a_person_outranks_a_program(box):
    assert box.learn(SPAM, "ham", PROGRAM).result == "learned"
    assert (
        box.learn(SPAM, "spam", PROGRAM).result == "corrected"
    )  # a program may change its own label
    assert box.learn(SPAM, "ham", HUMAN).result == "corrected"
    assert box.learn(SPAM, "spam", PROGRAM) == ("kept", "ham")
    assert box.learn(SPAM, "ham", PROGRAM).result == "known"
    assert box.learn(HAM, "ham", PROGRAM).result == "learned"
    assert box.learn(HAM, "ham", HUMAN).result == "confirmed"
    assert box.learn(HAM, "spam", PROGRAM).result == "kept"
    assert box.verify() == []


def test_reasons_can_be_read_after_the_database_is_closed(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "ham")
        with box.reading():
            inner = box.classifier.classify_features(box.classifier.count(SPAM), 20)
        outer = box.classify(SPAM, 20)
    for verdict in (inner, outer):
        assert "pills" in {reason.feature for reason in verdict.reasons}


def test_explain_and_top_read_the_database(tmp_path):
    (tmp_path / "m.eml").write_bytes(SPAM)
    with Mailbox(tmp_path / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "ham")
    out = streamnb_command("explain", tmp_path / "m.eml", "--db", tmp_path / "db")[1]
    assert out.startswith("spam, unsure")
    assert "pills" in out
    assert "pills" in streamnb_command("top", "--class", "spam", "--db", tmp_path / "db")[1]


def test_compact_drops_rare_and_old_features_and_prints_their_numbers(sample, box, monkeypatch):
    for i, (content, label) in enumerate(mails(sample, 40)):
        box.learn(content, label, timestamp=time.time() - 1000 * 86400 + i)
    rare = sum(int((counts.rows()[2][:, 0] == 1).sum()) for counts in box.counts)
    assert compact(box, rare_days=180).features == 0  # all seen today
    monkeypatch.setattr("streamnb.mailbox.compact.today", lambda: 10**6)
    assert compact(box, rare_days=180, dry_run=True).features == rare
    done = compact(box, rare_days=180)
    assert (done.features, done.retired) == (rare, 0)
    assert done.after < done.before
    assert box.verify() == []
    assert box.forget(mails(sample, 1)[0][0]).result == "forgotten"  # the ledger dropped them too
    assert box.verify() == []


def test_labels_that_read_the_same_are_the_same(tmp_path):
    classifier = MailClassifier(label_noise=0.0)
    classifier.learn_one(SPAM, 1)
    classifier.learn_one(HAM, 2)
    classifier.save(tmp_path / "m")
    with Mailbox(tmp_path / "db") as box:
        import_file(box, str(tmp_path / "m"))
        box.learn(MESSAGES[0], "1")
        assert box.labels == [1, 2]
        data = exported(box)
        (tmp_path / "x").write_bytes(data)
        with Mailbox(tmp_path / "other") as other:
            import_file(other, str(tmp_path / "x"))
            assert exported(other) == data


def test_a_name_that_sqlite_knows_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Mailbox(":memory:") as box:
        box.learn(SPAM, "spam")
    with Mailbox(":memory:", create=False) as box:
        assert box.label_of(digest(SPAM))[0] == "spam"


def test_sources_need_not_be_utf8(box):
    assert box.learn(SPAM, "spam", source="learn bad\udcff.eml").result == "learned"
    assert box.label_of(digest(SPAM))[2] == "learn bad\\udcff.eml"


def test_compact_limits_the_age_of_the_ledger(sample, box):
    stream = mails(sample, 30)
    for i, (content, label) in enumerate(stream):
        box.learn(content, label, timestamp=time.time() - (100 if i < 20 else 1) * 86400)
        if i == 19:
            box.learn(stream[0][0], "other", timestamp=time.time() - 90 * 86400)
    counts = [c.items() for c in box.counts]
    done = compact(box, rare_days=None, ledger=50)
    assert (done.retired, done.history) == (20, 1)
    for (fa, ca), (fb, cb) in zip(counts, (c.items() for c in box.counts), strict=True):
        assert (fa == fb).all()
        assert (ca == cb).all()
    assert box.verify() == []
    assert box.learn(stream[5][0], stream[5][1]).result == "known"
    assert box.forget(stream[5][0]).result == "retired"
    assert box.learn(stream[5][0], "other").result == "retired"
    assert box.forget(stream[25][0]).result == "forgotten"
    assert compact(box, rare_days=None, ledger=50).retired == 0
    assert box.verify() == []
    data = exported(box)
    assert box.undo(0).unlearned > 0
    assert box.verify() == []
    assert data


def test_the_file_is_its_owners_alone(tmp_path):
    with Mailbox(tmp_path / "new" / "mail.db") as box:
        box.learn(SPAM, "spam")
        for name in os.listdir(tmp_path / "new"):
            assert stat.S_IMODE(os.stat(tmp_path / "new" / name).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o700


def test_the_default_path_of_the_database(monkeypatch):
    monkeypatch.setenv("STREAMNB_DB", "/x/y.db")
    assert default_path() == "/x/y.db"
    monkeypatch.delenv("STREAMNB_DB")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_path() == "/data/streamnb/mail.db"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # the standard requires to ignore it
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_path() == "/home/ann/.local/share/streamnb/mail.db"


def test_without_a_home_directory_an_error_names_the_option(monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("STREAMNB_DB", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with pytest.raises(StateError, match="STREAMNB_DB"):
        default_path()


def test_a_missing_database_is_not_made_to_be_read(tmp_path):
    with pytest.raises(StateError, match="no such database"):
        Mailbox(tmp_path / "db", create=False)
    assert not (tmp_path / "db").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be created"):
        Mailbox(tmp_path / "file" / "db")


def test_waiting_for_another_process_is_bounded(box):
    box.learn(SPAM, "spam")
    with Mailbox(box.path, wait=0.1) as other, box.writing():
        begun = time.monotonic()
        with pytest.raises(BusyError, match=r"waited 0\.1 s") as caught:
            other.learn(HAM, "ham")
        assert caught.value.exit_code == 75
        assert time.monotonic() - begun < 100
        assert other.classify(SPAM).label == "spam"  # readers do not wait


def test_many_processes_can_make_a_database_at_once(tmp_path):
    program = "import sys; from streamnb import Mailbox; Mailbox(sys.argv[1], wait=60).close()"
    for number in range(3):
        path = tmp_path / str(number)
        makers = [
            subprocess.Popen([sys.executable, "-P", "-c", program, path], stderr=subprocess.PIPE)
            for _ in range(6)
        ]
        errors = [maker.communicate()[1] for maker in makers]
        assert errors == [b""] * 6
        with Mailbox(path) as box:
            assert box.verify() == []


def test_two_threads_of_two_connections_lose_nothing(sample, tmp_path):
    stream = mails(sample, 40)
    Mailbox(tmp_path / "db").close()

    def teach(part):
        with Mailbox(tmp_path / "db", wait=60) as box:
            for content, label in part:
                box.learn(content, label)

    threads = [threading.Thread(target=teach, args=(stream[i::2],)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Mailbox(tmp_path / "db") as box:
        assert box.verify() == []
        assert sum(box.counts[0].weights) == 40


def test_a_file_system_without_locks_is_not_another_process(box, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    with Mailbox(box.path, wait=0.1) as other, box.writing():
        monkeypatch.setattr("fcntl.lockf", refused)
        with pytest.raises(OutputError, match="the file system refuses locks; move"):
            other.learn(SPAM, "spam")


def test_status_counts_what_was_learned(sample, box):
    for content, label in mails(sample, 30):
        box.learn(content, label, source="learn here")
    box.learn(SPAM, "ham", PROGRAM, "watch inbox")
    box.learn(SPAM, "spam", HUMAN, "watch junk")
    box.forget(HAM)
    statistics = status(box)
    assert sum(item.messages for item in statistics.learned) == 31
    assert ("spam", HUMAN, "watch", 1) in statistics.learned
    assert (statistics.corrected, statistics.removed) == (1, 0)
    assert statistics.recent == 30
    assert 0 < statistics.wrong < 30
    json.dumps(statistics.as_json())


@given(
    st.lists(
        st.dictionaries(st.text(max_size=3), st.floats(0.001, 1e6) | st.just(1), max_size=9),
        min_size=1,
        max_size=3,
    )
)
def test_packed_tokens_come_out_as_they_went_in(views):
    tokens = [TokenCounts.from_dict(view) for view in views]
    packed = pack_tokens(tokens)
    assert list(unpack_tokens(packed)) == tokens
    with pytest.raises(ValueError, match=r"cut off|damaged"):
        unpack_tokens(packed[:-1] if len(packed) % 7 else packed + b"x")


def test_links_in_a_folder_are_not_followed(tmp_path):
    (tmp_path / "secret").write_text("Subject: secret\n\nsecret")
    (tmp_path / "secrets" / "new").mkdir(parents=True)
    (tmp_path / "secrets" / "new" / "1").write_text("Subject: hidden\n\nhidden")
    box = tmp_path / "box"
    for place in ("cur", "tmp"):
        (box / place).mkdir(parents=True)
    (box / "cur" / "1:2,S").write_text("Subject: hi\n\nhello")
    (box / "cur" / "2:2,S").symlink_to(tmp_path / "secret")
    (box / "new").symlink_to(tmp_path / "secrets" / "new")
    for command in (["learn", "ham"], ["classify"]):
        status, out, error = streamnb_command(*command, box, "--db", tmp_path / "mail.db")
        assert (status, error.count("symbolic link")) == (3, 2)
        assert "1:2,S" in out
        assert "secret" not in out
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a").symlink_to(tmp_path / "secret")
    assert streamnb_command("classify", plain, "--db", tmp_path / "mail.db")[0] == 3
    # What is named is meant.
    assert streamnb_command("learn", "ham", plain / "a", "--db", tmp_path / "mail.db")[0] == 0


def test_threads_share_a_mailbox(tmp_path):
    with Mailbox(tmp_path / "mail.db") as mailbox, ThreadPoolExecutor(4) as pool:

        def use(n):
            mailbox.learn(b"Subject: %d\n\nword%d common" % (n, n), ["spam", "ham"][n % 2])
            return mailbox.classify(b"Subject: x\n\nword%d common" % n).probability

        assert all(0 < p <= 1 for p in pool.map(use, range(60)))
        assert mailbox.verify() == []
        assert sum(mailbox.counts[0].weights) == 60


def test_errors_of_a_mailbox_name_the_wrong_use(tmp_path):
    mailbox = Mailbox(tmp_path / "mail.db")
    mailbox.learn(b"Subject: a\n\nb", "ham")
    with mailbox.reading():
        assert mailbox.classify(b"Subject: a\n\nb").label == "ham"
        with pytest.raises(RuntimeError, match="a transaction is already open"):
            mailbox.learn(b"Subject: c\n\nd", "spam")
    mailbox.learn(b"Subject: c\n\nd", "spam", run_first=lambda: mailbox.label_of(b"0" * 32))
    assert mailbox.verify() == []
    mailbox.close()
    for use in (mailbox.verify, lambda: mailbox.learn(b"x", "ham"), lambda: mailbox.classify(b"x")):
        with pytest.raises(ValueError, match="was closed"):
            use()


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": "text"},
        {"labelled_by": "somebody"},
        {"source": 3},
        {"timestamp": float("nan")},
        {"timestamp": float("inf")},
        {"label": None},
    ],
)
def test_wrong_arguments_are_refused_and_change_nothing(box, wrong):
    box.learn(SPAM, "spam")
    with pytest.raises((ValueError, OutputError)) as refused:
        box.learn(**{"message": HAM, "label": "ham", **wrong})
    assert "damaged" not in str(refused.value)
    assert box.verify() == []
    assert box.labels == ["spam"]
    with pytest.raises(ValueError, match="since"):
        box.undo(float("nan"))
    with pytest.raises(ValueError, match="expected a message as bytes, not str"):
        box.forget("text")
    for timestamp in (float("nan"), float("-inf")):
        with pytest.raises(ValueError, match="timestamp: expected a finite number"):
            box.forget(SPAM, timestamp)
    assert box.verify() == []
    assert box.forget(SPAM).before == "spam"


@pytest.mark.parametrize(
    "label", ["", " ", "two words", "?", "unsure", "S", "a\nb", "x" * 65, "\ufffd"]
)
def test_labels_that_commands_refuse_are_refused_everywhere(box, tmp_path, label):
    uses = (
        lambda: box.learn(HAM, label),
        lambda: box.learn_many([(SPAM, "spam"), (HAM, label)]),
        lambda: box.learn_batch([(HAM, label)], "stream", 1),
    )
    for use in uses:
        with pytest.raises(ValueError, match=r"verdict of .classify.|no class|not one word"):
            use()
    assert box.label_of(digest(HAM)) is None
    assert box.labels == ["spam"]  # messages before the wrong label are learned
    assert streamnb_command("learn", label, "-", "--db", tmp_path / "other")[0] == 2
    model = MailClassifier(label_noise=0.0)
    model.learn_one(HAM, label)
    model.save(tmp_path / "model.snb")
    status, _, error = streamnb_command("import", tmp_path / "model.snb", "--db", box.path)
    assert (status, "Traceback" in error) == (4, False)
    assert box.labels == ["spam"]


def test_labels_are_read_as_the_commands_read_them(box):
    box.learn(SPAM, " SPAM ")
    assert box.learn(SPAM, "spam").result == "known"
    assert box.labels == ["spam"]


def test_several_classes_are_learned_at_once(tmp_path):
    for label, count in (("spam", 4), ("ham", 12)):
        (tmp_path / label).mkdir()
        for n in range(count):
            (tmp_path / label / f"{n:02d}").write_text(f"Subject: {label} {n}\n\n{label} {n}")
    command = [f"{label}={tmp_path / label}" for label in ("spam", "ham")]
    status, out, _ = streamnb_command("learn", *command, "--db", tmp_path / "db")
    assert (status, "16 learned" in out) == (0, True)
    with Mailbox(tmp_path / "db") as mailbox:
        labels = "".join(str(mailbox.labels[row.label])[0] for row in mailbox.ledger.rows())
    assert labels == "hshhhshhhshhhshh"  # the i-th of n of each at (i + 1/2) / n
    for wrong in (["spam=x", "ham"], ["spam="], ["=x"], ["spam"]):
        status, _, error = streamnb_command("learn", *wrong, "--db", tmp_path / "none")
        assert (status, error.count("\n")) == (2, 1)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("first", ["spam", "ham"])
def test_status_of_a_single_class_names_the_messages_that_make_it_ready(tmp_path, first):
    second = "ham" if first == "spam" else "spam"
    database = tmp_path / "mail.db"

    def learn(label, count):
        folder = tmp_path / label
        folder.mkdir()
        for i in range(count):
            (folder / f"{i}.eml").write_text(
                f"Subject: {label} words {i}\n\nwords of {label} {i * 7}\n"
            )
        assert streamnb_command("learn", label, folder, "--db", database)[0] == 0
        with Mailbox(database) as box:
            return readiness_by_label(box)

    text = learn(first, 60)[first]
    assert (count := re.fullmatch(rf"needs about (\d+) {second} messages? first", text)), text
    assert learn(second, int(count[1]))[first] == "ready"


def test_costs_that_allow_no_sure_verdict_are_named_at_once(tmp_path):
    classifier = MailClassifier(costs=(10, 1, 0))
    with Mailbox(tmp_path / "mail.db", create=True, classifier=classifier) as box:
        box.learn(SPAM, "spam")
        assert readiness_by_label(box)["spam"] == "never sure with these costs"


def test_readiness_depends_on_predictions_made_before_learning(box, tmp_path):
    def pair(i):
        return [
            (b"Subject: pills %d\n\nBuy cheap pills now\n" % i, "spam"),
            (b"Subject: lunch %d\n\nShall we meet at noon?\n" % i, "ham"),
        ]

    for i in range(15):
        for message, label in pair(i):
            box.learn(message, label)
    query = tmp_path / "asked.eml"
    query.write_bytes(pair(1000)[0][0])
    verdict = box.classify(query.read_bytes())
    assert (verdict.label, verdict.ready) == ("spam", False)
    code, out, err = streamnb_command("classify", query, "--db", box.path)
    assert (code, out[:2]) == (2, "U ")
    assert "no sure verdicts yet for spam" in err
    code, out, _ = streamnb_command("status", "--db", box.path)
    assert "sure after about" in out
    for i in range(15, 90):
        for message, label in pair(i):
            box.learn(message, label)
    assert box.classify(query.read_bytes()).ready
    code, out, err = streamnb_command("classify", query, "--db", box.path, "--json")
    assert (code, json.loads(out)["ready"], err) == (0, True, "")
    statistics = {item.label: item for item in status(box).classes}
    assert statistics["spam"].ready
    assert statistics["spam"].right >= 20
    assert statistics["spam"].right + statistics["ham"].right + statistics["spam"].wrong <= 180
    for i in range(90):  # and unlearning also undoes the predictions
        for message, _ in pair(i):
            box.forget(message)
    assert box.verify() == []
    with box.reading():
        assert box.classifier.model.calibration.reliability.state() == {"record": []}


BATCH = """
import sys
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.mailbox import Mailbox
lessons = [LabelledMessage(b"Subject: %d\\n\\nw%d" % (i, i % 5), "ham" if i % 3 else "spam") for i in range(40)]
print(Mailbox(sys.argv[1]).learn_batch(lessons, "query", 7))
"""


def test_a_batch_that_two_processes_have_is_learned_once(tmp_path):
    path = str(tmp_path / "mail.db")
    Mailbox(path).close()
    run = [sys.executable, "-P", "-c", BATCH, path]
    processes = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(item.communicate()[0].strip() for item in processes) == ["0", "40"]
    with Mailbox(path) as mailbox:
        assert mailbox.verify() == []
        old, new = (
            LabelledMessage(b"Subject: 1\n\nw1", "ham"),
            LabelledMessage(b"Subject: new\n\nw1", "ham"),
        )
        assert mailbox.learn_batch([new], "query", 6) == 0  # an earlier one
        assert mailbox.learn_batch([old, new], "query", 8) == 1
        assert mailbox.learn_batch([new], "another query", 0) == 0

        def broken():
            yield LabelledMessage(b"Subject: half\n\nw1", "ham")
            raise OSError("cut off")

        with pytest.raises(OSError, match="cut off"):
            mailbox.learn_batch(broken(), "query", 9)
        assert not mailbox.was_learned(digest(b"Subject: half\n\nw1"))
        assert (
            mailbox.learn_batch([LabelledMessage(b"Subject: half\n\nw1", "ham")], "query", 9) == 1
        )
        assert mailbox.verify() == []


def test_an_unlearned_class_changes_no_score(box, sample):
    """After a misspelt class is corrected, the score must still be that of spam."""
    trained = mails(sample, 200)
    for content, label in trained:
        box.learn(content, label)
    ham = next(content for content, label in trained if label == "ham")
    before = judge(box, ham).score
    box.learn(b"Subject: a list\n\nhello", "lists")
    assert judge(box, ham).score > 0
    box.forget(b"Subject: a list\n\nhello")
    assert judge(box, ham).score == before < 0


def test_a_closed_mailbox_is_freed_at_once(tmp_path):
    """A server opens the mailboxes of thousands of users, so closed ones must be freed."""
    with Mailbox(tmp_path / "db") as box:
        box.learn(b"Subject: x\n\nhello", "ham")
        box.learn(b"Subject: y\n\nbuy", "spam")
        freed = weakref.ref(box)
        box.classify(b"Subject: x\n\n")
        assert box.verify() == []
    gc.disable()
    try:
        del box
        assert freed() is None
    finally:
        gc.enable()


def test_reasons_of_a_response_have_the_names_that_explain_prints(tmp_path):
    with Mailbox(tmp_path / "db") as mailbox:
        for n in range(3):
            mailbox.learn(b"Subject: pills %d\n\nbuy cheap pills" % n, "spam")
            mailbox.learn(b"Subject: lunch %d\n\nsee you at noon" % n, "ham")
        message = b"Subject: pills\n\ncheap lunch"
        names = {name for name, _ in judge(mailbox, message, JudgeOptions(500)).reasons}
        explanation = mailbox.classifier.explain_one(message)
        assert names == {feature_name(name) for name in explanation.contributions}
    assert any(name.startswith("bytes '") for name in names)
    assert not any(name.startswith("b'") for name in names)


def test_the_tables_have_no_placeholder():
    """Psycopg would take a question mark, even in a comment, for a missing parameter."""
    assert "?" not in SCHEMA


def test_the_state_is_read_only_after_a_change(tmp_path, monkeypatch):
    with Mailbox(tmp_path / "mail.db") as box, Mailbox(tmp_path / "mail.db") as other:
        box.learn(SPAM, "spam")
        box.learn(HAM, "ham")
        reads = []
        restore = type(box.classifier.model).restore
        monkeypatch.setattr(
            type(box.classifier.model),
            "restore",
            lambda model, state: (reads.append(model), restore(model, state))[1],
        )
        before = box.classify(SPAM)
        assert not reads
        learn = box.classifier.model.learn
        with pytest.raises(TypeError):
            box.transact(lambda: learn(box.classifier.count(SPAM), "ham") + 1)
        assert box.classify(SPAM) == before
        assert len(reads) == 1
        other.learn(HAM.replace(b"Subject: ", b"Subject: again "), "spam")
        assert box.classify(SPAM) == other.classify(SPAM) != before


def test_a_mailbox_is_not_pickled(tmp_path):
    with (
        Mailbox(tmp_path / "db") as mailbox,
        pytest.raises(TypeError, match="open its database in each process"),
    ):
        pickle.dumps(mailbox)
