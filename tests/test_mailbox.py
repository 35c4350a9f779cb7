"""Counts and ledger in SQLite: exact, durable, shared; against the models in memory."""

import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st

from streamnb import Mailbox, MailClassifier, MultinomialNB, _core
from streamnb.classifier import Classifier
from streamnb.corpus import open_corpus, read
from streamnb.errors import BusyError, OutputError, StateError
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest, header_key
from streamnb.mailbox.groups import Lesson
from streamnb.mailbox.ledger import HUMAN, PROGRAM, pack_tokens, unpack_tokens
from streamnb.mailbox.location import default_path
from streamnb.mailbox.rebuild import is_due, rebuild
from streamnb.mailbox.record import Record
from streamnb.mailbox.rescue import rescue
from streamnb.mailbox.status import status
from streamnb.mailbox.transfer import json_lines
from streamnb.mailbox.transfer.formats import export, import_file, merge
from streamnb.mailbox.undo import last_learned, redo
from streamnb.naive_bayes import BernoulliNB

SPAM = b"From: Pills <p@example.com>\nSubject: Cheap pills\n\nBuy pills now\n"
HAM = b"From: Ann <a@example.org>\nSubject: Lunch\n\nShall we meet at noon?\n"


def mails(sample, n=60):
    return [(read(entry), entry.label) for entry in islice(open_corpus(sample), n)]


def exported(mailbox, messages=True):
    path = f"{mailbox.path}.out"
    export(mailbox, path, "lines", messages)
    with open(path, "rb") as file:
        return file.read()


def same_counts(mailbox, classifier):
    with mailbox.reading():
        for mine, model in zip(mailbox.counts, classifier.models, strict=True):
            theirs = model.counts
            fingerprints, cells = theirs.everything()
            order = np.argsort(fingerprints.view(np.int64))
            a, b = mine.everything()
            columns = [mine.labels.index(label) for label in theirs.labels]
            assert (a == fingerprints[order]).all()
            assert (b[:, columns] == cells[order]).all()
            assert [mine.totals[k] for k in columns] == theirs.totals
            assert [mine.weights[k] for k in columns] == theirs.weights
            assert mine.features == theirs.features
        assert mailbox.classifier.model.recalibration == classifier.model.recalibration


@pytest.fixture
def box(tmp_path):
    with Mailbox(tmp_path / "mail.db") as mailbox:
        yield mailbox


def test_a_database_learns_and_scores_as_memory_does(sample, box):
    memory = MailClassifier(label_noise=0.0)
    for content, label in mails(sample, 100):
        assert box.classify(content).probabilities == memory.classify(content).probabilities
        assert box.learn(content, label).what == "learned"
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
        assert box.classifier.model.noise.state() == memory.model.noise.state()
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
        assert box.forget(mails(sample, 1)[0][0]).what == "forgotten"
        assert box.verify() == []


@pytest.mark.parametrize(
    ("model", "why"),
    [(BernoulliNB(), "BernoulliNB cannot be kept"), (MultinomialNB(decay=0.9), "decays")],
)
def test_models_that_need_the_whole_table_are_refused(tmp_path, model, why):
    with pytest.raises(StateError, match=why):
        Mailbox(tmp_path / "db", classifier=Classifier(MailTokenizer(), model))


def test_learning_twice_is_learning_once_and_another_label_is_a_correction(box):
    assert box.learn(SPAM, "ham").what == "learned"
    before = exported(box)
    assert box.learn(SPAM, "ham") == ("known", "ham")
    assert exported(box) == before
    assert box.learn(SPAM, "spam") == ("corrected", "ham")
    assert box.counts[0].weights == [0.0, 1.0]
    assert box.forget(SPAM) == ("forgotten", "spam")
    assert box.forget(SPAM).what == "unknown"
    assert [counts.features for counts in box.counts] == [0] * 4
    assert box.verify() == []


def test_of_one_kind_alone_nothing_is_said(box):
    box.learn(SPAM, "spam")
    assert box.classify(HAM).unsure
    box.learn(HAM, "ham")
    box.forget(HAM)
    assert box.classify(HAM).unsure
    box.forget(SPAM)
    assert compact(box).features == 0
    assert box.verify() == []


def test_a_person_outranks_a_program(box):
    assert box.learn(SPAM, "ham", PROGRAM).what == "learned"
    assert box.learn(SPAM, "spam", PROGRAM).what == "corrected"  # a program may think again
    assert box.learn(SPAM, "ham", HUMAN).what == "corrected"
    assert box.learn(SPAM, "spam", PROGRAM) == ("kept", "ham")
    assert box.learn(SPAM, "ham", PROGRAM).what == "known"
    assert box.learn(HAM, "ham", PROGRAM).what == "learned"
    assert box.learn(HAM, "ham", HUMAN).what == "confirmed"
    assert box.learn(HAM, "spam", PROGRAM).what == "kept"
    assert box.verify() == []


MESSAGES = [b"Subject: m%d\n\n%s" % (i, b" ".join(b"w%d" % (i * k % 7) for k in range(5)))
            for i in range(5)]  # fmt: skip
acts = st.tuples(
    st.sampled_from(["learn", "forget"]),
    st.integers(0, 4),
    st.sampled_from(["ham", "spam", "list"]),
    st.sampled_from([HUMAN, PROGRAM]),
)


@given(st.lists(acts, max_size=25), st.integers(0, 25))
def test_any_history_agrees_with_its_ledger_and_can_be_undone(tmp_path_factory, history, back):
    with Mailbox(tmp_path_factory.mktemp("m") / "db") as box:
        believed = {}
        snapshot = exported(box)
        for number, (act, message, label, teacher) in enumerate(history):
            if number == back:
                snapshot = exported(box)
            if act == "forget":
                outcome = box.forget(MESSAGES[message], when=number)
                assert (outcome.what == "forgotten") == (believed.pop(message, None) is not None)
                continue
            box.learn(MESSAGES[message], label, teacher, when=number)
            if teacher == HUMAN or believed.get(message, ("", PROGRAM))[1] == PROGRAM:
                said, by = believed.get(message, (None, PROGRAM))
                believed[message] = (
                    label,
                    HUMAN if HUMAN in (teacher, by if said == label else "") else PROGRAM,
                )
        assert box.verify() == []
        for message, (label, _) in believed.items():
            assert box.label_of(digest(MESSAGES[message]))[0] == label
        data = exported(box)
        with Mailbox(f"{box.path}.again") as again:
            import_file(again, f"{box.path}.out")
            assert exported(again) == data
            assert again.verify() == []
        if back < len(history):
            box.undo(back)
            assert box.verify() == []
            assert exported(box) == snapshot
        box.undo(0)
        assert [counts.features for counts in box.counts] == [0] * 4
        assert box.verify() == []


def test_undo_is_by_the_order_of_events_not_by_clocks(box):
    box.learn(SPAM, "spam", when=10)
    before = exported(box)
    box.forget(SPAM, when=100)
    box.learn(SPAM, "ham", when=20)  # the clock was put back
    assert box.undo(50) == (1, 1, 0)
    assert exported(box) == before
    assert box.verify() == []


def test_an_undo_can_be_undone(box):
    box.learn(SPAM, "ham", when=10)
    box.learn(HAM, "ham", when=20)
    box.learn(SPAM, "spam", when=30)  # a correction
    box.learn(HAM + b"!", "ham", when=40)
    before = exported(box)
    assert last_learned(box) == 40
    assert last_learned(box, 2) == 30
    assert box.undo(30) == (2, 1, 0)
    assert box.label_of(digest(SPAM))[0] == "ham"
    assert redo(box) == (2, 1, 0)
    assert exported(box) == before
    assert box.verify() == []
    assert redo(box) == (0, 0, 0)  # once
    assert box.undo(30) == (2, 1, 0)
    box.learn(HAM + b"!", "spam")  # something else was said since
    box.learn(SPAM, "spam")
    assert redo(box) == (0, 0, 2)
    assert box.verify() == []
    box.undo(0)
    box.take_identity(MailClassifier(preset="small", label_noise=0))
    assert redo(box) == (0, 0, 0)  # of another kind of database


def test_a_redo_leaves_what_was_said_since(box):
    box.learn(HAM, "ham", when=10)
    box.learn(SPAM, "spam", when=20)
    box.undo(15)
    box.learn(SPAM, "ham")
    later = time.time()
    box.forget(SPAM)
    assert redo(box) == (0, 0, 1)
    assert box.label_of(digest(SPAM)) is None
    box.undo(later)
    assert box.label_of(digest(SPAM))[0] == "ham"
    assert box.verify() == []


def test_taking_back_ends_somewhere(box):
    box.learn(SPAM, "spam")
    box.learn(SPAM, "ham")
    key = digest(SPAM)
    assert [box.retract(key).before for _ in range(3)] == ["ham", "spam", None]
    assert box.verify() == []


def test_what_was_let_go_of_is_erased_without_breaking_the_sums(box):
    box.learn(SPAM, "spam")
    box.learn(HAM, "ham")
    compact(box, once=None, ledger=0)
    assert Record(box).erase([digest(SPAM)]) == 1
    assert box.label_of(digest(SPAM)) is None
    assert box.verify() == []


def test_undo_asks_before_much_is_taken_back(tmp_path):
    db = ("--db", tmp_path / "db")
    with Mailbox(tmp_path / "db") as box:
        for i in range(101):
            box.learn(SPAM + b"%d" % i, "spam")
    status, _, error = streamnb_command("undo", "--since", "1h", *db)
    assert status == 2
    assert "101 learnings would be taken back" in error
    assert "1 learnings taken back" in streamnb_command("undo", "--last", *db)[1]
    assert "3 learnings taken back" in streamnb_command("undo", "--last", 3, *db)[1]
    assert streamnb_command("undo", "--redo", *db)[1].startswith("3 learnings made again")
    assert "100 learnings taken back" in streamnb_command("undo", "--since", "1h", "--yes", *db)[1]
    assert streamnb_command("undo", "--last", *db)[1] == "nothing was learned\n"
    streamnb_command("undo", "--redo", *db)
    assert streamnb_command("undo", "--redo", *db)[1] == "there is nothing to redo\n"
    assert "100" in streamnb_command("status", *db)[1]


def test_explain_and_top_read_the_database(tmp_path):
    (tmp_path / "m.eml").write_bytes(SPAM)
    with Mailbox(tmp_path / "db") as box:
        box.learn(SPAM, "spam")
        box.learn(HAM, "ham")
    out = streamnb_command("explain", tmp_path / "m.eml", "--db", tmp_path / "db")[1]
    assert out.startswith("spam, unsure")
    assert "pills" in out
    assert "pills" in streamnb_command("top", "--class", "spam", "--db", tmp_path / "db")[1]


def test_undoing_a_confirmation_of_what_was_let_go_of(box):
    box.learn(SPAM, "spam", PROGRAM, when=10)
    compact(box, once=None, ledger=0)
    assert box.learn(SPAM, "spam", HUMAN, when=20).what == "confirmed"
    assert box.undo(15) == (1, 1, 0)
    assert box.label_of(digest(SPAM))[:2] == ("spam", PROGRAM)
    assert box.verify() == []


def test_undo_takes_back_merges_and_imports(sample, tmp_path):
    stream = mails(sample, 12)
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(stream):
            (a if i < 6 else b).learn(content, label, when=i)
        a.learn(SPAM, "ham", PROGRAM, when=20)
        b.learn(SPAM, "spam", HUMAN, when=21)
        b.learn(HAM, "ham", HUMAN, when=22)
        a.learn(HAM, "ham", PROGRAM, when=23)
        before = exported(a)
        export(b, str(tmp_path / "x"))
        begun = time.time()
        assert merge(a, b) == (6, 1, 1, 0)
        assert a.label_of(digest(SPAM))[0] == "spam"
        assert a.label_of(digest(HAM))[1] == HUMAN  # a person confirmed it there
        a.undo(begun)
        assert exported(a) == before
        import_file(a, str(tmp_path / "x"))
        assert a.label_of(digest(SPAM))[0] == "spam"
        a.undo(begun)
        assert exported(a) == before
        assert a.verify() == []


def test_undo_restores_corrections_and_what_was_forgotten(sample, box):
    stream = mails(sample, 30)
    for i, (content, label) in enumerate(stream):
        box.learn(content, label, when=i)
    before = exported(box)
    box.learn(stream[3][0], "other", when=100)
    box.forget(stream[4][0], when=101)
    box.learn(SPAM, "spam", when=102)
    assert box.undo(100, dry_run=True) == (2, 2, 0)
    assert exported(box) != before
    assert box.undo(100) == (2, 2, 0)
    assert exported(box) == before
    assert box.verify() == []


def test_export_and_import_give_the_same_bytes(sample, box, tmp_path):
    for content, label in mails(sample, 40):
        box.learn(content, label)
    box.learn(mails(sample, 1)[0][0], "other")
    data = exported(box)
    with Mailbox(tmp_path / "other.db") as other:
        (tmp_path / "x").write_bytes(data)
        assert import_file(other, str(tmp_path / "x")).added == 40
        assert exported(other) == data
        assert other.verify() == []
        assert import_file(other, str(tmp_path / "x")) == (0, 40, 0, 0)
        assert exported(other) == data
        for content, _ in mails(sample, 60):
            assert other.classify(content) == box.classify(content)
        assert other.forget(mails(sample, 2)[1][0]).what == "forgotten"


@pytest.mark.parametrize("kind", ["model", "lines"])
def test_counts_alone_can_be_imported(sample, box, tmp_path, kind):
    for content, label in mails(sample, 40):
        box.learn(content, label)
    export(box, str(tmp_path / "x"), kind, messages=False)
    with Mailbox(tmp_path / "other.db") as other:
        assert import_file(other, str(tmp_path / "x")).added == 2
        assert import_file(other, str(tmp_path / "x")) == (0, 2, 0, 0)
        assert other.verify() == []
        for content, _ in mails(sample, 60):
            assert other.classify(content).log_odds == box.classify(content).log_odds
        other.undo(0)
        assert other.counts[0].features == 0


def test_a_model_file_is_what_memory_would_have_saved(sample, box, tmp_path):
    memory = MailClassifier(label_noise=0.0)
    for content, label in mails(sample, 40):
        box.learn(content, label)
        memory.learn_one(content, label)
    memory.save(tmp_path / "memory")
    export(box, str(tmp_path / "box"), "model")
    with np.load(tmp_path / "memory") as a, np.load(tmp_path / "box") as b:
        assert a.files == b.files
        for name in a.files:
            if name != "header":
                assert (a[name] == b[name]).all()
    with Mailbox(tmp_path / "other.db") as other:
        import_file(other, str(tmp_path / "memory"))
        same_counts(other, memory)


def test_bogofilters_dump_goes_out_and_in(sample, box, tmp_path):
    for content, label in mails(sample, 40):
        box.learn(content, label)
    export(box, str(tmp_path / "dump"), "bogofilter")
    lines = (tmp_path / "dump").read_text().splitlines()
    labels = [label for _, label in mails(sample, 40)]
    assert lines[0] == f".MSG_COUNT {labels.count('spam')} {labels.count('ham')}"
    words = {line.split()[0]: list(map(int, line.split()[1:])) for line in lines[1:]}
    for word in ("subj:pills", "the"):
        expected = [0, 0]
        for content, label in mails(sample, 40):
            name = word.replace("subj:", "subject:")
            expected[label == "ham"] += name in MailTokenizer().transform_one(content)
        assert words.get(word, [0, 0]) == expected
    with Mailbox(tmp_path / "other.db") as other:
        import_file(other, str(tmp_path / "dump"))
        assert other.verify() == []
        right = [other.classify(content).label == label for content, label in mails(sample, 60)]
        assert sum(right) > 50


def test_merging_adds_what_each_knows(sample, tmp_path):
    stream = mails(sample, 40)
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(stream):
            (a if i < 25 else b).learn(content, label, when=i)
        b.learn(stream[0][0], stream[0][1], when=50)
        b.learn(stream[1][0], "other", PROGRAM, when=51)
        b.learn(stream[2][0], "other", HUMAN, when=52)
        assert merge(a, b) == (15, 1, 1, 1)
        assert a.verify() == []
        assert sum(a.counts[0].weights) == 40
        assert a.label_of(digest(stream[2][0]))[0] == "other"
        assert a.label_of(digest(stream[1][0]))[0] == stream[1][1]
        assert merge(a, b) == (0, 17, 0, 1)
        with pytest.raises(StateError, match="with itself"):
            merge(a, a)


def test_features_of_another_tokenizer_are_not_mixed_in(box, tmp_path):
    box.learn(SPAM, "spam")
    other = MailClassifier(first_bytes=1000)
    other.learn_one(HAM, "ham")
    other.save(tmp_path / "m")
    with pytest.raises(StateError, match="made in another way"):
        import_file(box, str(tmp_path / "m"))
    assert box.verify() == []


def test_a_database_becomes_what_is_imported_first(tmp_path):
    model = Classifier(MailTokenizer(), MultinomialNB())
    model.learn_one(SPAM, "spam")
    model.learn_one(HAM, "ham")
    model.save(tmp_path / "m")
    with Mailbox(tmp_path / "db") as box:
        import_file(box, str(tmp_path / "m"))
        assert box.classify(SPAM).log_odds == model.classify(SPAM).log_odds
    with Mailbox(tmp_path / "db") as box:
        assert box.verify() == []


def test_compact_drops_what_is_rare_and_old_and_says_so(sample, box, monkeypatch):
    for i, (content, label) in enumerate(mails(sample, 40)):
        box.learn(content, label, when=time.time() - 1000 * 86400 + i)
    rare = sum(int((counts.rows()[2][:, 0] == 1).sum()) for counts in box.counts)
    assert compact(box, once=180).features == 0  # all seen today
    monkeypatch.setattr("streamnb.mailbox.compact.today", lambda: 10**6)
    assert compact(box, once=180, dry_run=True).features == rare
    done = compact(box, once=180)
    assert (done.features, done.retired) == (rare, 0)
    assert done.after < done.before
    assert box.verify() == []
    assert box.forget(mails(sample, 1)[0][0]).what == "forgotten"  # the ledger dropped them too
    assert box.verify() == []


def test_compact_keeps_what_was_imported(sample, tmp_path, monkeypatch):
    memory = MailClassifier(label_noise=0.0)
    for content, label in mails(sample, 40):
        memory.learn_one(content, label)
    memory.save(tmp_path / "m")
    with Mailbox(tmp_path / "db") as box:
        import_file(box, str(tmp_path / "m"))
        box.learn(b"Subject: quite unheard-of words\n\n", "ham")
        monkeypatch.setattr("streamnb.mailbox.compact.today", lambda: 10**6)
        assert 0 < compact(box, once=180).features < 60
        assert sum(counts.features for counts in box.counts) == memory.features
        assert box.verify() == []


def test_a_class_that_is_gone_is_exported_as_if_it_had_never_been(box, tmp_path):
    box.learn(SPAM, "spam", when=1)
    box.learn(HAM, "ham", when=2)
    box.learn(MESSAGES[0], "work", when=3)
    box.learn(MESSAGES[1], "work", when=4)
    box.learn(MESSAGES[2], "ham", when=5)
    box.forget(MESSAGES[0], when=6)
    box.forget(MESSAGES[1], when=7)
    compact(box, once=None, ledger=0)
    data = exported(box)
    with Mailbox(tmp_path / "other") as other:
        (tmp_path / "x").write_bytes(data)
        import_file(other, str(tmp_path / "x"))
        assert exported(other) == data
        assert other.verify() == []


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


def test_the_database_is_not_exported_over_itself(box):
    box.learn(SPAM, "spam")
    for path in (str(box.path), f"{box.path}-wal"):
        for kind in ("lines", "model", "bogofilter"):
            with pytest.raises(OutputError, match="the database itself"):
                export(box, path, kind)
    assert box.verify() == []
    export(box, f"{box.path}.snb", "model")
    assert stat.S_IMODE(os.stat(f"{box.path}.snb").st_mode) == 0o600


def test_a_database_that_was_removed_learns_nothing_more(box):
    box.learn(SPAM, "spam")
    os.unlink(box.path)
    with pytest.raises(StateError, match="removed or replaced"):
        box.learn(HAM, "ham")


def test_a_name_that_sqlite_knows_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Mailbox(":memory:") as box:
        box.learn(SPAM, "spam")
    with Mailbox(":memory:", create=False) as box:
        assert box.label_of(digest(SPAM))[0] == "spam"


def test_sources_need_not_be_utf8(box):
    assert box.learn(SPAM, "spam", source="learn bad\udcff.eml").what == "learned"
    assert box.label_of(digest(SPAM))[2] == "learn bad\\udcff.eml"


def test_a_ledger_can_reach_back_so_far_only(sample, box):
    stream = mails(sample, 30)
    for i, (content, label) in enumerate(stream):
        box.learn(content, label, when=time.time() - (100 if i < 20 else 1) * 86400)
        if i == 19:
            box.learn(stream[0][0], "other", when=time.time() - 90 * 86400)
    counts = [c.everything() for c in box.counts]
    done = compact(box, once=None, ledger=50)
    assert (done.retired, done.history) == (20, 1)
    for (fa, ca), (fb, cb) in zip(counts, (c.everything() for c in box.counts), strict=True):
        assert (fa == fb).all()
        assert (ca == cb).all()
    assert box.verify() == []
    assert box.learn(stream[5][0], stream[5][1]).what == "known"
    assert box.forget(stream[5][0]).what == "retired"
    assert box.learn(stream[5][0], "other").what == "retired"
    assert box.forget(stream[25][0]).what == "forgotten"
    assert compact(box, once=None, ledger=50).retired == 0
    assert box.verify() == []
    data = exported(box)
    assert box.undo(0).unlearned > 0
    assert box.verify() == []
    assert data


def test_databases_that_let_go_of_messages_are_merged_once(sample, tmp_path):
    stream = mails(sample, 30)
    old = time.time() - 100 * 86400
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(stream):
            (a if i < 15 else b).learn(content, label, when=old)
        compact(a, once=None, ledger=50)
        compact(b, once=None, ledger=50)
        total = [sum(x.totals[0] + x.totals[1] for x in box.counts) for box in (a, b)]
        merge(a, b)
        assert sum(x.totals[0] + x.totals[1] for x in a.counts) == sum(total)
        assert sum(a.counts[0].weights) == 30
        assert a.verify() == []
        before = exported(a)
        with pytest.raises(StateError, match="counted twice"):
            merge(a, b)
        assert exported(a) == before
        compact(a, once=None, ledger=50)
        assert a.verify() == []


def test_verify_finds_what_was_tampered_with(sample, box):
    for content, label in mails(sample, 10):
        box.learn(content, label)
    with box.database.writing() as connection:
        connection.execute("DELETE FROM ledger WHERE id = 3")
    problems = box.verify()
    assert any("view 0, class" in line for line in problems)
    assert any("recalibration" in line for line in problems)
    with box.database.writing() as connection:
        connection.execute("UPDATE ledger SET tokens = x'01ff' WHERE id = 4")
    assert "row 4 of the ledger" in box.verify()[0]


def test_the_file_is_its_owners_alone(tmp_path):
    with Mailbox(tmp_path / "new" / "mail.db") as box:
        box.learn(SPAM, "spam")
        for name in os.listdir(tmp_path / "new"):
            assert stat.S_IMODE(os.stat(tmp_path / "new" / name).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o700


def test_where_the_file_is(monkeypatch):
    monkeypatch.setenv("STREAMNB_DB", "/x/y.db")
    assert default_path() == "/x/y.db"
    monkeypatch.delenv("STREAMNB_DB")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_path() == "/data/streamnb/mail.db"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")  # which the standard says to ignore
    monkeypatch.setenv("HOME", "/home/ann")
    assert default_path() == "/home/ann/.local/share/streamnb/mail.db"


def test_who_has_no_home_is_told_what_to_do(monkeypatch):
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.delenv("STREAMNB_DB", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    with pytest.raises(StateError, match="STREAMNB_DB"):
        default_path()


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE x(y)")
    connection.close()


def newer(path):
    Mailbox(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def stateless(path):
    Mailbox(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM state WHERE name = 'now'")
    connection.close()


def strange(path):
    Mailbox(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE state SET value = '{\"x\": 1}' WHERE name = 'identity'")
    connection.close()


def no_text(path):
    """SQLite quotes what is damaged, and Python's module cannot decode that."""
    Mailbox(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("UPDATE sqlite_master SET sql = CAST(x'fffefdfc' AS TEXT)")
    connection.close()


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (no_text, "damaged one"),
        (lambda path: path.write_bytes(b"hello" * 1000), "not a streamnb database, or a damaged"),
        (foreign, "another program"),
        (newer, "version 99"),
        (stateless, "no state"),
        (strange, "damaged: its model"),
        (lambda path: path.mkdir(), "not a regular file"),
        (lambda path: os.mkfifo(path), "not a regular file"),
    ],
)
def test_foreign_and_damaged_files_are_refused_in_one_line(tmp_path, damage, why):
    damage(tmp_path / "db")
    with pytest.raises(StateError, match=why) as caught:
        Mailbox(tmp_path / "db")
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "db") in str(caught.value)


def test_a_missing_database_is_not_made_to_be_read(tmp_path):
    with pytest.raises(StateError, match="no such database"):
        Mailbox(tmp_path / "db", create=False)
    assert not (tmp_path / "db").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be made"):
        Mailbox(tmp_path / "file" / "db")


def test_a_file_that_was_begun_and_not_made_is_made(tmp_path):
    (tmp_path / "db").touch()
    with Mailbox(tmp_path / "db") as box:
        assert box.learn(SPAM, "spam").what == "learned"


def test_waiting_for_another_process_is_bounded(box):
    box.learn(SPAM, "spam")
    with Mailbox(box.path, wait=0.1) as other, box.writing():
        begun = time.monotonic()
        with pytest.raises(BusyError, match=r"waited 0\.1 s") as caught:
            other.learn(HAM, "ham")
        assert caught.value.exit_code == 75
        assert time.monotonic() - begun < 5
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


def test_a_failing_transaction_leaves_nothing(box, monkeypatch):
    box.learn(SPAM, "spam")
    before = exported(box)
    monkeypatch.setattr(box.ledger, "write", lambda row: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        box.learn(HAM, "ham")
    monkeypatch.undo()
    assert exported(box) == before
    assert box.learn(HAM, "ham").what == "learned"
    assert box.verify() == []


WRITER = """
import sys
from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
box = Mailbox(sys.argv[1], wait=60)
print("ready", flush=True)
for i, entry in enumerate(open_corpus(sys.argv[2])):
    if i % 2 == int(sys.argv[3]):
        box.learn(read(entry), entry.label)
        print(entry.name, flush=True)
"""


@pytest.mark.parametrize("after", [5, 17, 30])
def test_what_was_acknowledged_survives_a_kill(sample, tmp_path, after):
    """(`tests/endurance/kills.py` does this hundreds of times.)"""
    path = tmp_path / "db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-P", "-c", WRITER, path, sample, str(i)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    told = [[writer.stdout.readline() for _ in range(after)] for writer in writers]
    for writer in writers:
        writer.kill()
    told = [[*lines, *writer.stdout] for lines, writer in zip(told, writers, strict=True)]
    for writer in writers:
        writer.wait()
        writer.stdout.close()
    with Mailbox(path) as box:
        assert box.verify() == []
        labels = {entry.name: entry for entry in open_corpus(sample)}
        for name in (line.strip() for lines in told for line in lines[1:] if line.endswith("\n")):
            assert box.label_of(digest(read(labels[name])))[0] == labels[name].label


FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
from streamnb.errors import StreamNBError
box = Mailbox(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
for entry in open_corpus(sys.argv[2]):
    try:
        box.learn(read(entry), entry.label)
    except StreamNBError as error:
        print("error", error, flush=True)
        break
    print(entry.name, flush=True)
"""


def test_a_full_disk_loses_nothing_that_was_acknowledged(sample, tmp_path):
    out = subprocess.run(
        [sys.executable, "-P", "-c", FULL, tmp_path / "db", sample],
        capture_output=True,
        text=True,
        check=False,
    )
    *told, error = out.stdout.splitlines()
    assert error.startswith("error")
    assert "disk" in error
    assert "Traceback" not in out.stderr
    with Mailbox(tmp_path / "db") as box:
        assert box.verify() == []
        assert len(told) == sum(box.counts[0].weights) > 3
        assert box.learn(SPAM, "spam").what == "learned"


def test_status_counts_what_was_learned(sample, box):
    for content, label in mails(sample, 30):
        box.learn(content, label, source="learn here")
    box.learn(SPAM, "ham", PROGRAM, "watch inbox")
    box.learn(SPAM, "spam", HUMAN, "watch junk")
    box.forget(HAM)
    found = status(box)
    assert sum(one.messages for one in found.learned) == 31
    assert ("spam", HUMAN, "watch", 1) in found.learned
    assert (found.corrected, found.taken_back) == (1, 0)
    assert found.recent == 30
    assert 0 < found.wrong < 30
    json.dumps(found.as_json())


headers = st.sampled_from(
    [b"Subject: a\n", b"From: b\n\tc\n", b"X-Streamnb: Spam\n  folded\n", b"Status: RO\n",
     b"X-Spam-Flag: YES\n", b"Delivered-To: x\n", b"no field\n", b"To: d\n"]
)  # fmt: skip


@given(st.lists(headers, max_size=8), st.binary(max_size=30), st.randoms())
def test_stamps_and_line_ends_make_no_other_message(fields, body, random):
    body = body.replace(b"\r", b"")
    message = b"Message-ID: <1>\n" + b"".join(fields) + b"\n" + body
    plain = [f for f in fields if not f.startswith((b"X-S", b"Status", b"Delivered"))]
    bare = b"Message-ID: <1>\n" + b"".join(plain) + b"\n" + body
    assert digest(message) == digest(bare)
    assert digest(message.replace(b"\n", b"\r\n")) == digest(bare)
    assert digest(b"From ann Mon Jan  1 00:00:00 2026\n" + message) == digest(bare)
    assert digest(message + b"\n") == digest(bare)
    assert digest(message + b"x") != digest(bare)
    assert header_key(message) == header_key(bare.replace(b"\n", b"\r\n"))


@given(st.binary(max_size=300))
def test_anything_has_a_digest(data):
    assert len(digest(data)) == 32
    assert len(header_key(data)) == 16


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
    with pytest.raises(ValueError, match=r"cut off|not sound"):
        unpack_tokens(packed[:-1] if len(packed) % 7 else packed + b"x")


LINES = {
    "no format": lambda lines: lines[1:],
    "cut off": lambda lines: [*lines[:-1], lines[-1][:50]],
    "no JSON": lambda lines: [*lines, b"hello\n"],
    "deep JSON": lambda lines: [*lines, b"[" * 100_000 + b"\n"],
    "a list": lambda lines: [*lines, b"[]\n"],
    "a digest": lambda lines: [*lines, lines[-1].replace(b'"digest":"', b'"digest":"zz')],
    "a label": lambda lines: [*lines, lines[-1].replace(b'"label":"spam"', b'"label":"x"').replace(b'"label":"ham"', b'"label":"x"')],
    "tokens": lambda lines: [*lines[:-1], lines[-1].replace(b'"tokens":"', b'"tokens":"!!')],
    "a mass below zero": lambda lines: [*lines[:-1], lines[-1].replace(b'"receipt":[0,1.0', b'"receipt":[0,-1.0')],
    "a huge weight": lambda lines: [*lines[:-1], lines[-1].replace(b'"receipt":[0,1.0', b'"receipt":[0,1e308')],
    "no time": lambda lines: [*lines[:-1], lines[-1].replace(b'"time":', b'"time":NaN,"x":')],
    "a teacher": lambda lines: [*lines[:-1], lines[-1].replace(b'"human"', b'"nobody"')],
    "another version": lambda lines: [lines[0].replace(b'"version":1', b'"version":7'), *lines[1:]],
    "a pickle": lambda lines: [b"\x80\x04."],
    "nothing": lambda lines: [],
}  # fmt: skip


@pytest.mark.parametrize("damage", LINES.values(), ids=LINES)
def test_hostile_imports_change_nothing(sample, box, tmp_path, damage):
    with Mailbox(tmp_path / "from") as other:
        for content, label in mails(sample, 12):
            other.learn(content, label)
        lines = exported(other).splitlines(keepends=True)
    (tmp_path / "x").write_bytes(b"".join(damage(lines)))
    box.learn(SPAM, "spam")
    before = exported(box)
    with pytest.raises(StateError, match=r"/x") as caught:
        import_file(box, str(tmp_path / "x"))
    assert "\n" not in str(caught.value)
    assert exported(box) == before
    assert box.verify() == []
    with Mailbox(tmp_path / "new") as new:  # nor the kind of a new one
        with pytest.raises(StateError, match=r"/x"):
            import_file(new, str(tmp_path / "x"))
        assert new.learn(SPAM, "spam").what == "learned"
        assert new.verify() == []


@pytest.mark.parametrize(
    ("size", "why"), [(1e99, "numbers are not sound"), (9e14, "what it holds is not sound")]
)
def test_steps_that_lead_nowhere_are_refused(sample, box, tmp_path, size, why):
    with Mailbox(tmp_path / "from") as other:
        for content, label in mails(sample, 12):
            other.learn(content, label)
        head, *lines = exported(other).splitlines()
    for number in (-1, -2):  # each of them would do, both are too much
        last = json.loads(lines[number])
        last["receipt"][3] = [[size] * 4, [0.0] * 4, [size, 0.0], [0.0, 0.0]]
        lines[number] = json.dumps(last).encode()
    (tmp_path / "x").write_bytes(b"\n".join([head, *lines, b""]))
    with pytest.raises(StateError, match=f"x.*{why}"):
        import_file(box, str(tmp_path / "x"))
    assert box.learn(SPAM, "spam").what == "learned"
    assert box.verify() == []


EDITS = [
    "UPDATE ledger SET tokens = x'00'", "UPDATE ledger SET label = 99", "UPDATE ledger SET label = 'x'",
    "UPDATE ledger SET receipt = '[]'", "UPDATE ledger SET receipt = 'null'", "UPDATE ledger SET time = 'x'",
    "UPDATE ledger SET teacher = 'x'", "UPDATE ledger SET expected = 99", "UPDATE ledger SET digest = 'x' WHERE id = 1",
    "UPDATE state SET value = '[]' WHERE name = 'now'", "UPDATE state SET value = '{' WHERE name = 'now'",
    "UPDATE blocks_0 SET cells = 'x'", "UPDATE blocks_0 SET cells = x'00'", "DELETE FROM blocks_0",
    "UPDATE features_0 SET place = 10000000", "UPDATE features_0 SET place = -1",
    "UPDATE state SET value = replace(value, '\"features\":', '\"features\":1') WHERE name = 'now'",
    "DROP TABLE features_1", "DELETE FROM state",
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_damage_is_said_in_one_line_and_found(sample, tmp_path, edit):
    with Mailbox(tmp_path / "db") as box:
        for content, label in mails(sample, 12):
            box.learn(content, label)
    connection = sqlite3.connect(tmp_path / "db")
    connection.execute(edit)
    connection.commit()
    connection.close()
    uses = (
        lambda box: box.classify(SPAM), lambda box: box.learn(SPAM, "spam"), status,
        lambda box: box.forget(mails(sample, 1)[0][0]), exported, lambda box: compact(box),
        lambda box: export(box, str(tmp_path / "dump"), "bogofilter"),
        lambda box: box.undo(0),
    )  # fmt: skip
    found = False
    try:
        with Mailbox(tmp_path / "db") as box:
            found = box.verify() != []
    except StateError as error:
        found = "\n" not in str(error)
    assert found
    said = []
    for use in uses:
        try:
            with Mailbox(tmp_path / "db") as box:
                use(box)
        except StateError as error:
            said.append(str(error))
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    "text",
    [
        "word 1\n",
        "word 1 x\n",
        "word -1 2\n",
        "word 1 2 20260101\n",
        "word 1" + "0" * 400 + " 2\n",
        ".MSG_COUNT 0 5\nw 1 2\n",
    ],
)
def test_hostile_dumps_are_refused(box, tmp_path, text):
    (tmp_path / "x").write_text(text)
    with pytest.raises(StateError, match="/x"):
        import_file(box, str(tmp_path / "x"), "bogofilter")
    assert box.verify() == []


def damage(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def learn_ten(path):
    with Mailbox(path) as mailbox:
        for n in range(10):
            mailbox.learn(b"Subject: %d\n\nword%d" % (n, n), ["spam", "ham"][n % 2])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE blocks_0 SET cells = x'00' WHERE block = 0",
        "DROP TABLE blocks_1",
        "UPDATE ledger SET receipt = 'x' WHERE id = 4",
        "UPDATE ledger SET tokens = x'02ff' WHERE id = 4",
        "UPDATE state SET value = '{' WHERE name = 'now'",
        "DROP TABLE features_0",
        "UPDATE ledger SET ended = 'x' WHERE id = 4",
        "UPDATE ledger SET ended = -1 WHERE id = 4",
        "UPDATE ledger SET ended = 1e400 WHERE id = 4",
    ],
)
def test_what_is_sound_of_a_damaged_database_is_rescued(tmp_path, statement):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    learn_ten(path)
    damage(path, statement)
    assert streamnb_command("verify", "--db", path)[0] == 4
    classes = ["--class", "spam", "--class", "ham"] if "state" in statement else []
    status, out, error = streamnb_command("rescue", new, "--db", path, *classes)
    lost = "ledger" in statement
    left = lost or "features" in statement
    assert (status, "left out" in error) == ((4, True) if left else (0, False))
    assert f"{10 - lost} learnings kept" in out
    with Mailbox(new) as mailbox:
        assert mailbox.verify() == []
        assert mailbox.labels == ["spam", "ham"]
    assert streamnb_command("rescue", new, "--db", path)[0] == 4  # it exists already


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sqlite_sequence SET seq = 1000000000000",
        "UPDATE sqlite_sequence SET seq = 1e400",
        "UPDATE ledger SET id = 1000000000000 WHERE id = 4",
        "UPDATE ledger SET id = -1 WHERE id = 4",
    ],
)
def test_a_rescue_does_not_trust_numbers(tmp_path, statement):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    learn_ten(path)
    damage(path, statement)
    assert rescue(path, new) == (10, [])


@pytest.mark.parametrize("page", range(3, 12))
def test_a_page_that_is_lost_takes_few_rows_with_it(tmp_path, page):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    with Mailbox(path) as mailbox:
        for n in range(60):
            mailbox.learn(b"Subject: %d\n\n" % n + b"word%d " % n * 30, ["spam", "ham"][n % 2])
        mailbox.database.shrink()
    content = bytearray(path.read_bytes())
    content[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    try:
        done = rescue(path, new, ["spam", "ham"])
    except StateError:
        assert os.listdir(tmp_path) == ["a.db"]
        return
    assert done.added == 60 or done.left
    with Mailbox(new) as mailbox:
        assert mailbox.verify() == []


def test_status_of_a_ledger_with_text_that_is_none(tmp_path):
    path = tmp_path / "a.db"
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
    for statement in (
        "UPDATE ledger SET teacher = x'00ff'",
        "UPDATE ledger SET source = x'00ff'",
    ):
        damage(path, statement)
        status, _, error = streamnb_command("status", "--db", path)
        assert (status, error.count("\n")) == (4, 1)
    damage(path, "UPDATE state SET value = CAST(x'ff00' AS TEXT)")
    for command in ("status", "verify"):
        status, _, error = streamnb_command(command, "--db", path)
        assert (status, "Traceback" in error) == (4, False)


def test_a_rescue_that_can_keep_nothing_makes_nothing(tmp_path):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
    damage(path, "UPDATE state SET value = '{' WHERE name = 'now'")
    status, _, error = streamnb_command("rescue", new, "--db", path)
    assert (status, "--class" in error) == (4, True)
    damage(path, "UPDATE state SET value = '{' WHERE name = 'identity'")
    status, _, error = streamnb_command("rescue", new, "--db", path)
    assert (status, "is lost" in error) == (4, True)
    assert os.listdir(tmp_path) == ["a.db"]


def test_a_ledger_without_rows_is_no_rescue(tmp_path):
    path, new = tmp_path / "a.db", tmp_path / "new.db"
    with Mailbox(path) as mailbox:
        mailbox.learn(b"Subject: a\n\nb", "ham")
    damage(path, "DELETE FROM ledger")
    with pytest.raises(StateError, match="no row"):
        rescue(path, new)
    assert os.listdir(tmp_path) == ["a.db"]


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


def test_a_mailbox_says_what_it_is_misused_for(tmp_path):
    mailbox = Mailbox(tmp_path / "mail.db")
    mailbox.learn(b"Subject: a\n\nb", "ham")
    with mailbox.reading():
        assert mailbox.classify(b"Subject: a\n\nb").label == "ham"
        with pytest.raises(RuntimeError, match="within a transaction"):
            mailbox.learn(b"Subject: c\n\nd", "spam")
    mailbox.learn(b"Subject: c\n\nd", "spam", also=lambda: mailbox.label_of(b"0" * 32))
    assert mailbox.verify() == []
    mailbox.close()
    for use in (mailbox.verify, lambda: mailbox.learn(b"x", "ham"), lambda: mailbox.classify(b"x")):
        with pytest.raises(ValueError, match="was closed"):
            use()


def test_unknown_faults_of_sqlite_are_not_called_damage(tmp_path):
    with (
        Mailbox(tmp_path / "mail.db") as mailbox,
        pytest.raises(sqlite3.OperationalError),
        mailbox.database.reading() as connection,
    ):
        connection.execute("SELECT nonsense(")


def test_a_disk_that_fails_while_it_is_imported_is_one_line(box, tmp_path, monkeypatch):
    with Mailbox(tmp_path / "other.db") as other:
        other.learn(SPAM, "spam")
        export(other, str(tmp_path / "lines"))
    read_numbered = json_lines._numbered

    def failing(path, shown):
        yield from islice(read_numbered(path, shown), 1)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(json_lines, "_numbered", failing)
    with pytest.raises(StateError, match="lines: cannot be read: Input/output error"):
        import_file(box, str(tmp_path / "lines"))
    assert (box.verify(), box.label_of(digest(SPAM))) == ([], None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"message": "text"},
        {"teacher": "somebody"},
        {"source": 3},
        {"when": float("nan")},
        {"when": float("inf")},
        {"label": None},
    ],
)
def test_what_a_program_passes_wrongly_is_refused_and_changes_nothing(box, wrong):
    box.learn(SPAM, "spam")
    with pytest.raises((ValueError, OutputError)) as refused:
        box.learn(**{"message": HAM, "label": "ham", **wrong})
    assert "damaged" not in str(refused.value)
    assert box.verify() == []
    assert box.labels == ["spam"]
    with pytest.raises(ValueError, match="since"):
        box.undo(float("nan"))


def test_merging_keeps_what_each_message_had_been_taken_for(tmp_path):
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        a.learn(HAM, "ham")
        a.learn(SPAM, "spam")
        b.learn(SPAM + b"1", "spam")
        b.learn(HAM + b"1", "ham")
        b.learn(SPAM + b"2", "spam")
        theirs = {
            row.digest: b.labels[row.expected] for row in rows_of(b) if row.expected is not None
        }
        merge(a, b)
        ours = {
            row.digest: a.labels[row.expected] for row in rows_of(a) if row.expected is not None
        }
        assert theirs
        assert theirs.items() <= ours.items()


def rows_of(mailbox):
    with mailbox.reading():
        return list(mailbox.ledger.rows())


def taught_in_runs(path, count=150):
    with Mailbox(path) as mailbox:
        for label, words in (("spam", "cheap pills buy now"), ("ham", "lunch at noon with ann")):
            for n in range(count):
                some = " ".join(f"word{(7 * n + i) % 90}" for i in range(6))
                mailbox.learn(f"Subject: {n} {label}\n\n{words} {some}".encode(), label)


def test_a_mailbox_taught_in_runs_is_learned_anew(tmp_path):
    taught_in_runs(tmp_path / "db")
    with Mailbox(tmp_path / "db") as mailbox:
        assert is_due(mailbox)
        weights, before = mailbox.counts[0].weights, mailbox.classify(HAM).log_odds
        assert rebuild(mailbox) == 300
        assert not is_due(mailbox)
        assert mailbox.verify() == []
        assert mailbox.counts[0].weights == weights
        assert mailbox.classify(HAM).log_odds != before
        assert rebuild(mailbox) == 300  # to the same state
        again = mailbox.classifier.model.state()
        assert rebuild(mailbox) == 300
        assert mailbox.classifier.model.state() == again
        mailbox.undo(since=0)
        assert mailbox.verify() == []
        assert [counts.features for counts in mailbox.counts] == [0] * 4


def test_learned_anew_it_is_what_its_order_does_not_matter_to(tmp_path):
    taught_in_runs(tmp_path / "a", 40)
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        rows = list(a.ledger.rows())
        for row in reversed(rows):
            b.learn(
                f"Subject: {(row.id - 1) % 40} {a.labels[row.label]}".encode(), a.labels[row.label]
            )
        assert len(b.labels) == 2
        for mailbox in (a, b):
            rebuild(mailbox)
            assert mailbox.verify() == []


def test_what_was_retired_stays_when_all_is_learned_anew(tmp_path):
    taught_in_runs(tmp_path / "db", 60)
    with Mailbox(tmp_path / "db") as mailbox:
        mailbox.database.connection.execute("UPDATE ledger SET time = 1, added = 1 WHERE id < 20")
        assert compact(mailbox, once=None, ledger=1).retired == 19
        weights = list(mailbox.counts[0].weights)
        assert rebuild(mailbox) == 101
        assert mailbox.counts[0].weights == weights
        assert mailbox.classify(HAM).label == "ham"
        assert all(totals >= 0 for counts in mailbox.counts for totals in counts.totals)


def test_what_was_imported_as_counts_stays_when_all_is_learned_anew(sample, box, tmp_path):
    for content, label in mails(sample, 30):
        box.learn(content, label)
    export(box, str(tmp_path / "dump"), "bogofilter")
    taught_in_runs(tmp_path / "db", 20)
    with Mailbox(tmp_path / "db") as mailbox:
        import_file(mailbox, str(tmp_path / "dump"))
        assert rebuild(mailbox) == 40
        assert mailbox.verify() == []
        assert sum(mailbox.counts[0].weights) == 70
        mailbox.undo(since=0)
        assert mailbox.verify() == []
        assert sum(mailbox.counts[0].weights) == 0


def test_who_learns_while_all_is_learned_anew_is_not_forgotten(tmp_path):
    taught_in_runs(tmp_path / "db", 30)
    with Mailbox(tmp_path / "db") as mailbox, Mailbox(tmp_path / "db") as other:

        def disturbed(rows):
            if other.label_of(digest(SPAM)) is None:
                other.learn(SPAM, "spam")
            return iter(rows)

        assert rebuild(mailbox, disturbed) == 61
        assert mailbox.verify() == []
        assert mailbox.label_of(digest(SPAM))[0] == "spam"


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


def test_readiness_is_told_from_what_was_called_before_it_was_learned(box, tmp_path):
    def pair(i):
        return [
            (b"Subject: pills %d\n\nBuy cheap pills now\n" % i, "spam"),
            (b"Subject: lunch %d\n\nShall we meet at noon?\n" % i, "ham"),
        ]

    for i in range(15):
        for message, label in pair(i):
            box.learn(message, label)
    asked = tmp_path / "asked.eml"
    asked.write_bytes(pair(1000)[0][0])
    verdict = box.classify(asked.read_bytes())
    assert (verdict.label, verdict.ready) == ("spam", False)
    code, out, err = streamnb_command("classify", asked, "--db", box.path)
    assert (code, out[:2]) == (2, "U ")
    assert "not ready to be sure of spam" in err
    code, out, _ = streamnb_command("status", "--db", box.path)
    assert "not yet" in out
    for i in range(15, 90):
        for message, label in pair(i):
            box.learn(message, label)
    assert box.classify(asked.read_bytes()).ready
    code, out, err = streamnb_command("classify", asked, "--db", box.path, "--json")
    assert (code, json.loads(out)["ready"], err) == (0, True, "")
    found = {one.label: one for one in status(box).classes}
    assert found["spam"].ready
    assert found["spam"].right >= 20
    assert found["spam"].right + found["ham"].right + found["spam"].wrong <= 180
    for i in range(90):  # and it is taken back with the rest
        for message, _ in pair(i):
            box.forget(message)
    assert box.verify() == []
    with box.reading():
        assert box.classifier.model.record.state() == []


def test_a_database_is_renewed_from_its_messages(sample, tmp_path):
    old_views = MailClassifier(views=("words", "bytes"), label_noise=0.0, costs=(5.0, 1.0, 0.1))
    taught = mails(sample, 40)
    with Mailbox(tmp_path / "old.db", classifier=old_views) as old:
        for message, label in taught[:-1]:
            old.learn(message, label, PROGRAM, "rule here")
        old.learn(*taught[-1], when=1e9)
        old.learn(b"Subject: gone\n\nIt is nowhere any more\n", "ham")
    folder = tmp_path / "mail"
    folder.mkdir()
    for number, (message, _) in enumerate(taught):
        (folder / f"{number}.eml").write_bytes(message)
    (folder / "other.eml").write_bytes(b"Subject: new\n\nNever learned\n")
    command = ("renew", tmp_path / "new.db", folder, "--db", tmp_path / "old.db")
    for again in (False, True):
        code, out, err = streamnb_command(*command)
        assert code == 4
        assert ("40 learned" in out, "1 unknown" in out) == (not again, True)
        assert "1 messages of the old database were in none" in err
    with Mailbox(tmp_path / "new.db") as new, Mailbox(tmp_path / "old.db") as old:
        assert len(new.counts) == 4
        assert new.classifier.costs == old.classifier.costs
        for message, _ in taught:
            assert new.label_of(digest(message)) == old.label_of(digest(message))
        assert new.ledger.active(digest(taught[-1][0])).time == 1e9
        assert new.verify() == []
    code, _, err = streamnb_command(
        "renew", tmp_path / "old.db", folder, "--db", tmp_path / "old.db"
    )
    assert (code, err.count("\n")) == (4, 1)
    assert "is the old database" in err


def files(folder, messages):
    folder.mkdir()
    for number, message in enumerate(messages):
        (folder / f"{number}.eml").write_bytes(message)
    return folder


def kinds(sample, n=60):
    taught = [(read(entry), entry.label) for entry in islice(open_corpus(sample), 300)]
    return [[message for message, label in taught if label == kind][:n] for kind in ("spam", "ham")]


def test_one_message_a_command_in_runs_is_learned_anew_too(sample, tmp_path):
    db = tmp_path / "mail.db"
    spam, ham = kinds(sample, 25)
    for label, some in (("spam", spam), ("ham", ham)):
        folder = files(tmp_path / label, some)
        for path in sorted(folder.iterdir()):
            assert streamnb_command("learn", label, path, "--db", db)[0] == 0
    with Mailbox(db) as mailbox:
        assert not is_due(mailbox)
        assert mailbox.classifier.model.missed_turns < 0.5 * len(spam + ham)
        assert sum(mailbox.classifier.model.record_of("spam")) > 0
        assert mailbox.verify() == []


def test_what_cannot_be_read_does_not_keep_the_rest_from_being_learned_anew(sample, tmp_path):
    db = tmp_path / "mail.db"
    spam, ham = kinds(sample)
    assert streamnb_command("learn", "spam", files(tmp_path / "s", spam), "--db", db)[0] == 0
    folder = files(tmp_path / "h", ham)
    (folder / "z").symlink_to("/etc/hostname")
    code, _, err = streamnb_command("learn", "ham", folder, "--db", db)
    assert code != 0
    assert "anew" in err
    with Mailbox(db) as mailbox:
        assert not is_due(mailbox)
    code, _, err = streamnb_command("renew", tmp_path / "new.db", folder, "--db", db)
    assert code not in (0, 4)
    assert f"{len(spam)} messages of the old database were in none" in err


def test_status_says_that_messages_came_in_runs(sample, box):
    spam, ham = kinds(sample)
    for message in spam:
        box.learn(message, "spam")
    for message in ham:
        box.learn(message, "ham")
    code, out, _ = streamnb_command("status", "--db", box.path)
    assert (code, "came in runs of one class" in out) == (0, True)
    assert status(box).one_sided


def test_what_was_rebuilt_and_taken_back_counts_no_more(sample, box):
    spam, ham = kinds(sample)
    for message in spam:
        box.learn(message, "spam")
    box.learn(ham[0], "ham")
    rebuild(box)
    for message in (*spam, ham[0]):
        box.forget(message)
    for label, some in (("spam", spam), ("ham", ham)):
        for message in some:
            box.learn(message, label)
    assert is_due(box)


def test_renewing_keeps_what_its_owner_chose_and_mixes_nothing_up(sample, tmp_path):
    words = MailTokenizer(binary=True, drop_headers=("x-secret",))
    chosen = MailClassifier(words=words, keep_names=False, preset="small", views=("words", "bytes"))
    message, label = mails(sample, 1)[0]
    with Mailbox(tmp_path / "old.db", classifier=chosen) as old:
        old.learn(message, label)
    folder = files(tmp_path / "mail", [message])
    command = ("renew", tmp_path / "new.db", folder, "--db", tmp_path / "old.db")
    assert streamnb_command(*command)[0] == 0
    with Mailbox(tmp_path / "new.db") as new:
        made = new.classifier
        assert (made.preset, made.keep_names, len(made.models)) == ("small", False, 3)
        assert {view.drop_headers for view in made.tokenizer.tokenizers} == {("x-secret",)}
    with Mailbox(tmp_path / "other.db", classifier=MailClassifier(views=("words",))) as other:
        other.learn(message, label)
    code, _, err = streamnb_command(*command[:1], tmp_path / "other.db", *command[2:])
    assert (code, "with other views" in err) == (4, True)


BATCH = """
import sys
from streamnb.mailbox.groups import Lesson
from streamnb.mailbox.store import Mailbox
lessons = [Lesson(b"Subject: %d\\n\\nw%d" % (i, i % 5), "ham" if i % 3 else "spam") for i in range(40)]
print(Mailbox(sys.argv[1]).learn_batch(lessons, "query", 7))
"""


def test_a_batch_that_two_processes_have_is_learned_once(tmp_path):
    path = str(tmp_path / "mail.db")
    Mailbox(path).close()
    run = [sys.executable, "-P", "-c", BATCH, path]
    both = [subprocess.Popen(run, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sorted(one.communicate()[0].strip() for one in both) == ["0", "40"]
    with Mailbox(path) as mailbox:
        assert mailbox.verify() == []
        known, new = Lesson(b"Subject: 1\n\nw1", "ham"), Lesson(b"Subject: new\n\nw1", "ham")
        assert mailbox.learn_batch([new], "query", 6) == 0  # an earlier one
        assert mailbox.learn_batch([known, new], "query", 8) == 1
        assert mailbox.learn_batch([new], "another query", 0) == 0

        def broken():
            yield Lesson(b"Subject: half\n\nw1", "ham")
            raise OSError("cut off")

        with pytest.raises(OSError, match="cut off"):
            mailbox.learn_batch(broken(), "query", 9)
        assert not mailbox.was_taught(digest(b"Subject: half\n\nw1"))
        assert mailbox.learn_batch([Lesson(b"Subject: half\n\nw1", "ham")], "query", 9) == 1
        assert mailbox.verify() == []


@pytest.mark.parametrize(
    "mail",
    [
        b"Subject: x\n\nhello \0 there\n",
        b"Subject: \0xyz \0abcd\n\nab\0cdefg \0\0\0\0 \xff\0\n",
        bytes(range(256)) * 3,
    ],
)
def test_mail_with_zero_bytes_is_exported_and_imported(box, tmp_path, mail):
    box.learn(mail, "ham")
    data = exported(box)
    with Mailbox(tmp_path / "other") as other:
        (tmp_path / "x").write_bytes(data)
        import_file(other, str(tmp_path / "x"))
        assert exported(other) == data
        assert [counts.rows()[3] for counts in other.counts] == [
            counts.rows()[3] for counts in box.counts
        ]


def test_exports_of_before_with_zero_bytes_are_read(box, tmp_path):
    """They had such names as text."""
    box.learn(b"Subject: x\n\nhello \0 there\n", "ham")
    lines = [json.loads(line) for line in exported(box).splitlines()]
    for line in lines:
        name = line.get("name", "")
        if name.startswith("\0"):
            line["name"] = _core.decode_name(bytes.fromhex(name[1:]))
    assert any(line.get("name", "").startswith("\0 ") for line in lines)
    (tmp_path / "x").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with Mailbox(tmp_path / "other") as other:
        import_file(other, str(tmp_path / "x"))
        assert exported(other) == exported(box)
