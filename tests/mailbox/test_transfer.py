"""Exports, imports and merges of mailboxes."""

import gzip
import io
import json
import os
import stat
import threading
import time
from itertools import islice
from unittest.mock import Mock

import numpy as np
import pytest
from commands import streamnb_command
from mailboxes import HAM, MESSAGES, SPAM, exported, mails, same_counts

from streamnb import Mailbox, MailClassifier, MultinomialNB
from streamnb.classifier import Classifier
from streamnb.errors import OutputError, StateError
from streamnb.features.mail_words import MailTokenizer
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, PROGRAM, Ledger
from streamnb.mailbox.status import status
from streamnb.mailbox.transfer import json_lines
from streamnb.mailbox.transfer.formats import export, import_file, merge
from streamnb.mailbox.verdict_log import LogLimits, VerdictLog


def test_export_and_import_give_the_same_bytes(sample, box, tmp_path):
    for content, label in mails(sample, 40):
        box.learn(content, label)
    box.learn(mails(sample, 1)[0][0], "other")
    data = exported(box)
    with Mailbox(tmp_path / "other.db") as other:
        (tmp_path / "x").write_bytes(data)
        assert import_file(other, str(tmp_path / "x")).rows_added == 40
        assert exported(other) == data
        assert other.verify() == []
        assert import_file(other, str(tmp_path / "x")) == (0, 40, 0, 0)
        assert exported(other) == data
        for content, _ in mails(sample, 60):
            assert other.classify(content) == box.classify(content)
        assert other.forget(mails(sample, 2)[1][0]).result == "forgotten"


@pytest.mark.parametrize("own", [None, LogLimits(7, 3.0)])
def test_an_import_into_an_empty_database_restores_the_limits_of_stored_verdicts(
    box, tmp_path, own
):
    box.learn(SPAM, "spam")
    VerdictLog(box).limit(LogLimits(0, 5.0))
    data = exported(box)
    (tmp_path / "x").write_bytes(data)
    with Mailbox(tmp_path / "other.db") as other:
        if own is not None:
            VerdictLog(other).limit(own)
        import_file(other, str(tmp_path / "x"))
        assert VerdictLog(other).limits == (own or LogLimits(0, 5.0))
        VerdictLog(other).limit(LogLimits(9, 9.0))
        import_file(other, str(tmp_path / "x"))
        assert VerdictLog(other).limits == LogLimits(9, 9.0)
    for limits in (b'{"days":5.0,"most":-1}', b'{"most":"1"}', b'{"days":NaN,"most":1}', b"7"):
        (tmp_path / "y").write_bytes(data.replace(b'{"days":5.0,"most":0}', limits))
        with Mailbox(tmp_path / "damaged.db") as other, pytest.raises(StateError, match="y:1: "):
            import_file(other, str(tmp_path / "y"))


def test_counts_alone_can_be_imported(sample, box, tmp_path):
    for content, label in mails(sample, 40):
        box.learn(content, label)
    export(box, str(tmp_path / "x"), "model")
    with Mailbox(tmp_path / "other.db") as other:
        assert import_file(other, str(tmp_path / "x")).rows_added == 2
        assert import_file(other, str(tmp_path / "x")) == (0, 2, 0, 0)
        assert other.verify() == []
        for content, _ in mails(sample, 60):
            assert other.classify(content).log_odds == box.classify(content).log_odds
        other.undo(0)
        assert other.counts[0].features == 0


def test_an_exported_model_file_equals_that_of_a_model_in_memory(sample, box, tmp_path):
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


def test_bogofilters_dump_is_exported_and_imported(sample, box, tmp_path):
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
        assert {(group.label, group.messages) for group in status(other).learned} == {
            ("spam", labels.count("spam")),
            ("ham", labels.count("ham")),
        }
        right = [other.classify(content).label == label for content, label in mails(sample, 60)]
        assert sum(right) > 50


@pytest.mark.parametrize("prefix", ["", "head:"])
def test_words_of_any_place_in_a_bogofilter_list_stand_for_those_of_bodies(tmp_path, prefix):
    """bogofilter marks all words of a message without an empty line as those of its header."""
    lines = [".MSG_COUNT 500 500", "head:lunch 400 0", "lunch 0 400"]
    lines += [f"{prefix}pills{i} 400 1" for i in range(20)]
    lines += [f"{prefix}meeting{i} 1 400" for i in range(20)]
    (tmp_path / "dump").write_text("\n".join(lines))
    with Mailbox(tmp_path / "mail.db") as other:
        import_file(other, str(tmp_path / "dump"))

        def verdict(words):
            return other.classify(b"Subject: x\n\n" + " ".join(words).encode())

        spam, ham = (
            verdict(map("pills{}".format, range(20))),
            verdict(map("meeting{}".format, range(20))),
        )
        assert (spam.label, spam.unsure, ham.label, ham.unsure) == ("spam", False, "ham", False)
        assert verdict(["lunch"]).label == "ham", "a word of bodies counts as such"


def test_merging_adds_the_messages_of_both(sample, tmp_path):
    stream = mails(sample, 40)
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(stream):
            (a if i < 25 else b).learn(content, label, timestamp=i)
        b.learn(stream[0][0], stream[0][1], timestamp=50)
        b.learn(stream[1][0], "other", PROGRAM, timestamp=51)
        b.learn(stream[2][0], "other", HUMAN, timestamp=52)
        assert merge(a, b) == (15, 1, 1, 1)
        assert a.verify() == []
        assert sum(a.counts[0].weights) == 40
        assert a.label_of(digest(stream[2][0]))[0] == "other"
        assert a.label_of(digest(stream[1][0]))[0] == stream[1][1]
        assert merge(a, b) == (0, 17, 0, 1)
        with pytest.raises(StateError, match="with itself"):
            merge(a, a)


def test_merging_adds_the_sums_of_update_weights(sample, tmp_path):
    def sums(box):
        model = box.classifier.model
        order = [model.labels.index(label) for label in ("ham", "spam")]
        state = model.calibration.counted.remap_classes(order).state()["counted"]
        return np.reshape(state[1:], (2, state[0] + 1))[:, 1:]

    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(mails(sample, 40)):
            (a if i % 3 else b).learn(content, label)
        expected = sums(a) + sums(b)
        merge(a, b)
        assert (sums(a) == expected).all()
        assert a.verify() == []


def test_features_of_another_tokenizer_are_not_mixed_in(box, tmp_path):
    box.learn(SPAM, "spam")
    other = MailClassifier(first_bytes=1000)
    other.learn_one(HAM, "ham")
    other.save(tmp_path / "m")
    with pytest.raises(StateError, match="tokenizers or models differ"):
        import_file(box, str(tmp_path / "m"))
    assert box.verify() == []


def test_the_first_import_determines_the_classifier(tmp_path):
    model = Classifier(MailTokenizer(), MultinomialNB())
    model.learn_one(SPAM, "spam")
    model.learn_one(HAM, "ham")
    model.save(tmp_path / "m")
    with Mailbox(tmp_path / "db") as box:
        import_file(box, str(tmp_path / "m"))
        assert box.classify(SPAM).log_odds == model.classify(SPAM).log_odds
    with Mailbox(tmp_path / "db") as box:
        assert box.verify() == []


def test_compact_keeps_imported_counts(sample, tmp_path, monkeypatch):
    memory = MailClassifier(label_noise=0.0)
    for content, label in mails(sample, 40):
        memory.learn_one(content, label)
    memory.save(tmp_path / "m")
    with Mailbox(tmp_path / "db") as box:
        import_file(box, str(tmp_path / "m"))
        box.learn(b"Subject: quite unheard-of words\n\n", "ham")
        monkeypatch.setattr("streamnb.mailbox.compact.today", lambda: 10**6)
        assert 0 < compact(box, rare_days=180).features < 60
        assert sum(counts.features for counts in box.counts) == memory.features
        assert box.verify() == []


def test_a_class_that_is_gone_is_exported_as_if_it_had_never_been(box, tmp_path):
    box.learn(SPAM, "spam", timestamp=1)
    box.learn(HAM, "ham", timestamp=2)
    box.learn(MESSAGES[0], "work", timestamp=3)
    box.learn(MESSAGES[1], "work", timestamp=4)
    box.learn(MESSAGES[2], "ham", timestamp=5)
    box.forget(MESSAGES[0], timestamp=6)
    box.forget(MESSAGES[1], timestamp=7)
    compact(box, rare_days=None, ledger=0)
    data = exported(box)
    with Mailbox(tmp_path / "other") as other:
        (tmp_path / "x").write_bytes(data)
        import_file(other, str(tmp_path / "x"))
        assert exported(other) == data
        assert other.verify() == []


def test_an_export_that_is_cut_off_anywhere_is_refused(box, tmp_path):
    path = tmp_path / "lines"
    box.learn_many([(SPAM, "spam"), (HAM, "ham")])
    export(box, str(path))
    whole = path.read_bytes().splitlines(keepends=True)
    with Mailbox(tmp_path / "other") as other:
        for size_left in (1, 2, len(whole) // 2, len(whole) - 1):
            for lines in (whole[:size_left], [*whole[: size_left - 1], *whole[size_left:]]):
                if len(lines) == 0 or lines[0] != whole[0]:
                    continue
                path.write_bytes(b"".join(lines))
                with pytest.raises(StateError, match="is truncated"):
                    import_file(other, str(path))
        for last in (b"\n", b"[" * 100_000, b'{"lines": "x"}'):
            path.write_bytes(b"".join([*whole, last]))
            with pytest.raises(StateError, match=f"lines:{len(whole) + 1}: the file is truncated"):
                import_file(other, str(path))
        head = json.loads(whole[0])
        del head["ends"]  # as the error advises
        path.write_bytes(json.dumps(head).encode() + b"\n" + b"".join(whole[1:-1]))
        import_file(other, str(path))


def test_the_database_is_not_exported_over_itself(box):
    box.learn(SPAM, "spam")
    for path in (str(box.path), f"{box.path}-wal"):
        for kind in ("lines", "model", "bogofilter"):
            with pytest.raises(OutputError, match="the database itself"):
                export(box, path, kind)
    assert box.verify() == []
    export(box, f"{box.path}.snb", "model")
    assert stat.S_IMODE(os.stat(f"{box.path}.snb").st_mode) == 0o600


def test_databases_with_dropped_messages_are_merged_once(sample, tmp_path):
    stream = mails(sample, 30)
    old = time.time() - 100 * 86400
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        for i, (content, label) in enumerate(stream):
            (a if i < 15 else b).learn(content, label, timestamp=old)
        compact(a, rare_days=None, ledger=50)
        compact(b, rare_days=None, ledger=50)
        total = [sum(x.totals[0] + x.totals[1] for x in box.counts) for box in (a, b)]
        merge(a, b)
        assert sum(x.totals[0] + x.totals[1] for x in a.counts) == sum(total)
        assert sum(a.counts[0].weights) == 30
        assert a.verify() == []
        before = exported(a)
        assert merge(a, b).rows_added == 0  # `a` has the sums of `b`
        export(b, tmp_path / "b.jsonl")
        assert import_file(a, str(tmp_path / "b.jsonl")).rows_added == 0
        assert exported(a) == before
        compact(a, rare_days=None, ledger=50)
        assert a.verify() == []
        before = exported(a)
        with pytest.raises(StateError, match="both contain messages whose features"):
            merge(a, b)  # the sums of both are one
        assert exported(a) == before
        export(a, tmp_path / "a.jsonl")
        assert import_file(a, str(tmp_path / "a.jsonl")).rows_added == 0
        assert exported(a) == before


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
    "a labelled_by": lambda lines: [*lines[:-1], lines[-1].replace(b'"human"', b'"nobody"')],
    "another version": lambda lines: [lines[0].replace(b'"version":1', b'"version":7'), *lines[1:]],
    "a pickle": lambda lines: [b"\x80\x04."],
    "nothing": lambda lines: [],
}  # fmt: skip


def unended(data):
    """The lines of an export without the number of lines."""
    head, *lines, _ = data.splitlines(keepends=True)
    return [head.replace(b'"ends":true,', b""), *lines]


@pytest.mark.parametrize("damage", LINES.values(), ids=LINES)
def test_hostile_imports_change_nothing(sample, box, tmp_path, damage):
    with Mailbox(tmp_path / "from") as other:
        for content, label in mails(sample, 12):
            other.learn(content, label)
        lines = unended(exported(other))
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
        assert new.learn(SPAM, "spam").result == "learned"
        assert new.verify() == []


@pytest.mark.parametrize(
    ("size", "reason"), [(1e99, "not a list of finite numbers"), (9e14, "inconsistent rows")]
)
def test_steps_that_lead_nowhere_are_refused(sample, box, tmp_path, size, reason):
    with Mailbox(tmp_path / "from") as other:
        for content, label in mails(sample, 12):
            other.learn(content, label)
        head, *lines = unended(exported(other))
    receipts = [json.loads(line).get("receipt") for line in lines]
    stepping = [number for number, receipt in enumerate(receipts) if receipt and receipt[3]]
    for number in stepping[-2:]:  # one of them is allowed, both are not
        row = json.loads(lines[number])
        step = [[size] * 4, [0.0] * 4, [size, 0.0], [0.0, 0.0]]
        row["receipt"][3] = [step] * len(row["receipt"][3])
        lines[number] = json.dumps(row).encode() + b"\n"
    (tmp_path / "x").write_bytes(b"".join([head, *lines]))
    with pytest.raises(StateError, match=f"x.*{reason}"):
        import_file(box, str(tmp_path / "x"))
    assert box.learn(SPAM, "spam").result == "learned"
    assert box.verify() == []


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


def test_a_disk_that_fails_while_it_is_imported_is_one_line(box, tmp_path, monkeypatch):
    with Mailbox(tmp_path / "other.db") as other:
        other.learn(SPAM, "spam")
        export(other, str(tmp_path / "lines"))
    read_numbered = json_lines._enumerate_objects

    def failing(path, message):
        yield from islice(read_numbered(path, message), 1)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(json_lines, "_enumerate_objects", failing)
    with pytest.raises(StateError, match="lines: cannot be read: Input/output error"):
        import_file(box, str(tmp_path / "lines"))
    assert (box.verify(), box.label_of(digest(SPAM))) == ([], None)


def test_merging_keeps_the_predictions_of_messages(tmp_path):
    with Mailbox(tmp_path / "a") as a, Mailbox(tmp_path / "b") as b:
        a.learn(HAM, "ham")
        a.learn(SPAM, "spam")
        b.learn(SPAM + b"1", "spam")
        b.learn(HAM + b"1", "ham")
        b.learn(SPAM + b"2", "spam")
        expected_state = {
            row.digest: b.labels[row.predicted] for row in rows_of(b) if row.predicted is not None
        }
        merge(a, b)
        own_state = {
            row.digest: a.labels[row.predicted] for row in rows_of(a) if row.predicted is not None
        }
        assert expected_state
        assert expected_state.items() <= own_state.items()


def rows_of(mailbox):
    with mailbox.reading():
        return list(mailbox.ledger.rows())


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


DUMP = b".MSG_COUNT %d %d\nhello 1 9\npills 8 0\nsubj:cheap 5 1\n"


def test_a_newer_word_list_replaces_the_older_one(box, tmp_path):
    path = tmp_path / "words"
    path.write_bytes(DUMP % (10, 10))
    import_file(box, str(path), replace=True)
    before = exported(box)
    path.write_bytes(DUMP % (30, 40))
    import_file(box, str(path), replace=True)
    assert sorted(box.classifier.messages().values()) == [30, 40]
    import_file(box, str(path), replace=True)  # the same file again
    assert sorted(box.classifier.messages().values()) == [30, 40]
    path.write_bytes(DUMP % (10, 10))
    import_file(box, str(path), replace=True)
    assert sorted(box.classifier.messages().values()) == [10, 10]
    assert len(before.splitlines()) == len(exported(box).splitlines())
    assert box.verify() == []


def test_a_replacement_that_is_interrupted_changes_nothing_and_can_be_repeated(
    box, tmp_path, monkeypatch
):
    path = tmp_path / "words"
    path.write_bytes(DUMP % (10, 10))
    import_file(box, str(path))
    before = exported(box)
    path.write_bytes(DUMP % (30, 40))
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "end", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            import_file(box, str(path), replace=True)
    assert exported(box) == before
    import_file(box, str(path), replace=True)
    assert sorted(box.classifier.messages().values()) == [30, 40]


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_replaced_word_list_is_as_good_as_a_first_one(tmp_path, is_trained):
    path = tmp_path / "words"
    with Mailbox(tmp_path / "a") as replaced, Mailbox(tmp_path / "b") as fresh:
        path.write_bytes(DUMP % (250, 500))
        import_file(replaced, str(path))
        if is_trained:
            replaced.learn(SPAM, "spam")
        path.write_bytes(DUMP % (270, 600))
        import_file(replaced, str(path), replace=True)
        import_file(fresh, str(path))
        if is_trained:
            assert all(map(replaced.classifier.model.is_ready, ("spam", "ham")))
        else:
            log_odds = [box.classify(SPAM).log_odds for box in (replaced, fresh)]
            assert log_odds[0] == pytest.approx(log_odds[1], rel=1e-12)
            for label in ("spam", "ham"):
                counts = [
                    box.classifier.model.reliability_counts(label) for box in (replaced, fresh)
                ]
                assert counts[0] == counts[1]
        assert replaced.verify() == []


def test_word_lists_that_are_ready_together_are_ready(tmp_path):
    with Mailbox(tmp_path / "db") as box:
        for number in range(4):
            assert not any(map(box.classifier.model.is_ready, box.labels))
            path = tmp_path / str(number)
            path.write_bytes(DUMP % (60 + number, 60))
            import_file(box, str(path))
        assert all(map(box.classifier.model.is_ready, ("spam", "ham")))
        assert box.verify() == []


def test_replace_needs_an_unambiguous_pipe(box, tmp_path, monkeypatch):
    for number in range(3):
        path = tmp_path / str(number)
        path.write_bytes(DUMP % (10 + number, 10))
        with open(path, "rb") as file:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(file))
            if number < 2:
                import_file(box, "-")
                continue
            for name in ("-", str(path)):
                with pytest.raises(StateError, match="several files without a name were imported"):
                    import_file(box, name, replace=True)


def test_replace_needs_an_unambiguous_import(box, tmp_path):
    for name, count in (("a", 10), ("b", 11), ("c", 12)):
        (tmp_path / name).write_bytes(DUMP % (count, count))
        if name != "c":
            import_file(box, str(tmp_path / name))
    with pytest.raises(StateError, match="several files were imported"):
        import_file(box, str(tmp_path / "c"), replace=True)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (
            b"v\t3\tdb_version # this must be the first line!!!\nv\t10\tnum_spam\n",
            "sa-learn --backup",
        ),
        (b'"120","340"\r\n"subject:cheap","1","20"\r\n', "SpamBayes"),
        (b"120,340\nsubject:cheap,1,20\n", "SpamBayes"),
        (b"nothing of the kind\n", "bogoutil -d`: expected 'token"),
        (gzip.compress(b'{"classes": []}\n'), "the file is compressed"),
        (b"SQLite format 3\0" + bytes(100), "streamnb merge"),
        (bytes(12) + b"\x62\x31\x05\0" + bytes(100), "bogoutil -d"),
        (b"From a@b Thu Jan  1 00:00:00 2026\nSubject: x\n\ny\n", "streamnb learn"),
        (b"Subject: x\n\ny\n", "streamnb learn"),
        (b"", "x: the file is empty"),
        (b" " * 99, "x: the file begins with blank lines"),
    ],
)
def test_a_failed_import_names_the_format_and_leaves_no_database(tmp_path, content, name):
    (tmp_path / "x").write_bytes(content)
    status, _, error = streamnb_command("import", tmp_path / "x", "--db", tmp_path / "new.db")
    assert (status, error.count("\n")) == (4, 1)
    assert name in error
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("fingerprint", ["1" + "0" * 16, "-1", "word"])
def test_features_that_no_view_can_have_are_refused(box, tmp_path, fingerprint):
    with Mailbox(tmp_path / "from") as other:
        other.learn(SPAM, "spam")
        export(other, str(tmp_path / "whole"))
    head, first, *lines = (tmp_path / "whole").read_bytes().splitlines(keepends=True)
    line = json.dumps(json.loads(first) | {"fingerprint": fingerprint, "name": "x"})
    (tmp_path / "x").write_bytes(b"".join([head, line.encode() + b"\n", *lines]))
    with pytest.raises(StateError, match="x:2: not a line of streamnb export"):
        import_file(box, str(tmp_path / "x"))
    assert box.verify() == []


def test_a_word_list_can_come_from_a_named_pipe(box, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(DUMP % (10, 10),))
    writer.start()
    assert import_file(box, str(tmp_path / "pipe")).rows_added == 2
    writer.join()


def test_the_first_word_of_a_word_list_is_not_the_separator_of_a_mailbox(box, tmp_path):
    """`bogoutil -d` prints the tokens of some databases in no order."""
    (tmp_path / "words").write_bytes(b"From 3 4 20240101\n" + DUMP % (10, 10))
    assert import_file(box, str(tmp_path / "words")).rows_added == 2


def test_an_editor_may_save_an_export_with_a_byte_order_mark(box, tmp_path):
    box.learn(SPAM, "spam")
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbf" + exported(box).replace(b"\n", b"\r\n"))
    with Mailbox(tmp_path / "other.db") as other:
        assert import_file(other, str(tmp_path / "x")).rows_added == 1


def test_an_import_prints_the_messages_that_classes_need(tmp_path):
    (tmp_path / "x").write_bytes(DUMP % (50, 1000))
    status, out, _ = streamnb_command("import", tmp_path / "x", "--db", tmp_path / "new.db")
    assert status == 0
    assert "spam: unsure at first, sure after about 15 more spam messages" in out


@pytest.mark.parametrize("messages", [20, 100, 1000, 5000])
def test_a_list_is_trusted_as_far_as_its_messages_allow(tmp_path, messages):
    """The list of an owner whose mail has 40 words, each in four of five messages of a class."""
    lines = [b".MSG_COUNT %d %d" % (messages // 2, messages // 2)]
    frequent, rare = messages * 2 // 5, messages // 50
    for i in range(40):
        lines += [b"pills%d %d %d" % (i, frequent, rare), b"minutes%d %d %d" % (i, rare, frequent)]
    (tmp_path / "x").write_bytes(b"\n".join(lines) + b"\n")
    with Mailbox(tmp_path / "db") as box:
        import_file(box, str(tmp_path / "x"))
        assert box.verify() == []
        for word, label in (("pills", "spam"), ("minutes", "ham")):
            text = " ".join(f"{word}{i}" for i in range(0, 40, 2))
            verdict = box.classify(f"Subject: hi\n\n{text}\n".encode())
            assert verdict.label == label
            is_sure = verdict.ready and not verdict.unsure
            assert is_sure == (messages >= 1000)
        mixed = " ".join(f"pills{i} minutes{i}" for i in range(20))
        assert box.classify(f"Subject: hi\n\n{mixed}\n".encode()).unsure


def test_counts_without_their_messages_are_no_export(box, tmp_path):
    box.learn(SPAM, "spam")
    lines = [line for line in exported(box).splitlines() if b'"digest"' not in line]
    lines[-1] = json.dumps({"lines": len(lines) - 1}).encode()
    (tmp_path / "x").write_bytes(b"\n".join(lines) + b"\n")
    message = "counts of messages, but not the messages"
    with Mailbox(tmp_path / "other.db") as other, pytest.raises(StateError, match=message):
        import_file(other, str(tmp_path / "x"))
    with Mailbox(tmp_path / "other.db") as other:
        assert other.labels == []
