"""A mailbox is rebuilt from its ledger, or upgraded from its messages."""

from itertools import islice

import pytest
from commands import streamnb_command
from mailboxes import HAM, SPAM, mails

from streamnb import Mailbox, MailClassifier
from streamnb.corpus import open_corpus, read
from streamnb.features.mail_words import MailTokenizer
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import PROGRAM
from streamnb.mailbox.rebuild import is_due, rebuild
from streamnb.mailbox.status import status
from streamnb.mailbox.transfer.formats import export, import_file
from streamnb.mailbox.verdict_log import LogLimits, VerdictLog


def trained_in_runs(path, count=150):
    with Mailbox(path) as mailbox:
        for label, words in (("spam", "cheap pills buy now"), ("ham", "lunch at noon with ann")):
            for n in range(count):
                group = " ".join(f"word{(7 * n + i) % 90}" for i in range(6))
                mailbox.learn(f"Subject: {n} {label}\n\n{words} {group}".encode(), label)


def test_a_mailbox_trained_in_runs_is_rebuilt(tmp_path):
    trained_in_runs(tmp_path / "db")
    with Mailbox(tmp_path / "db") as mailbox:
        assert is_due(mailbox)
        weights, before = mailbox.counts[0].weights, mailbox.classify(HAM).log_odds
        assert rebuild(mailbox) == 300
        assert not is_due(mailbox)
        assert mailbox.verify() == []
        assert mailbox.counts[0].weights == weights
        assert mailbox.classify(HAM).log_odds != before
        assert rebuild(mailbox) == 300  # to the same state
        reopened = mailbox.classifier.model.state()
        assert rebuild(mailbox) == 300
        assert mailbox.classifier.model.state() == reopened
        mailbox.undo(since=0)
        assert mailbox.verify() == []
        assert [counts.features for counts in mailbox.counts] == [0] * 4


def test_a_rebuild_does_not_depend_on_the_order_of_learning(tmp_path):
    trained_in_runs(tmp_path / "a", 40)
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


def test_a_rebuild_keeps_the_counts_of_dropped_messages(tmp_path):
    trained_in_runs(tmp_path / "db", 60)
    with Mailbox(tmp_path / "db") as mailbox:
        mailbox.database.connection.execute(
            "UPDATE ledger SET time = 1, added_at = 1 WHERE id < 20"
        )
        assert compact(mailbox, rare_days=None, ledger=1).retired == 19
        weights = list(mailbox.counts[0].weights)
        assert rebuild(mailbox) == 101
        assert mailbox.counts[0].weights == weights
        assert mailbox.classify(HAM).label == "ham"
        assert all(totals >= 0 for counts in mailbox.counts for totals in counts.totals)


def test_a_rebuild_keeps_imported_counts(sample, box, tmp_path):
    for content, label in mails(sample, 30):
        box.learn(content, label)
    export(box, str(tmp_path / "dump"), "bogofilter")
    trained_in_runs(tmp_path / "db", 20)
    with Mailbox(tmp_path / "db") as mailbox:
        import_file(mailbox, str(tmp_path / "dump"))
        assert rebuild(mailbox) == 40
        assert mailbox.verify() == []
        assert sum(mailbox.counts[0].weights) == 70
        mailbox.undo(since=0)
        assert mailbox.verify() == []
        assert sum(mailbox.counts[0].weights) == 0


def test_messages_learned_during_a_rebuild_are_kept(tmp_path):
    trained_in_runs(tmp_path / "db", 30)
    with Mailbox(tmp_path / "db") as mailbox, Mailbox(tmp_path / "db") as other:

        def disturbed(rows):
            if other.label_of(digest(SPAM)) is None:
                other.learn(SPAM, "spam")
            return iter(rows)

        assert rebuild(mailbox, disturbed) == 61
        assert mailbox.verify() == []
        assert mailbox.label_of(digest(SPAM))[0] == "spam"


def of_an_older_version(**parameters):
    """A classifier whose presets have other views."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            MailClassifier, "presets", dict.fromkeys(MailClassifier.presets, ("words", "bytes"))
        )
        return MailClassifier(**parameters)


def test_a_database_is_upgraded_from_its_messages(sample, tmp_path):
    old_views = of_an_older_version(label_noise=0.0, costs=(5.0, 1.0, 0.1))
    trained = mails(sample, 40)
    with Mailbox(tmp_path / "old.db", classifier=old_views) as old:
        for message, label in trained[:-1]:
            old.learn(message, label, PROGRAM, "rule here")
        old.learn(*trained[-1], timestamp=1e9)
        old.learn(b"Subject: gone\n\nIt is nowhere any more\n", "ham")
    folder = tmp_path / "mail"
    folder.mkdir()
    for number, (message, _) in enumerate(trained):
        (folder / f"{number}.eml").write_bytes(message)
    (folder / "other.eml").write_bytes(b"Subject: new\n\nNever learned\n")
    command = ("upgrade", tmp_path / "new.db", folder, "--db", tmp_path / "old.db")
    for reopened in (False, True):
        code, out, err = streamnb_command(*command)
        assert code == 4
        assert ("40 learned" in out, "1 unknown" in out) == (not reopened, True)
        assert "not found in the sources: 1 message of the old database" in err
    with Mailbox(tmp_path / "new.db") as new, Mailbox(tmp_path / "old.db") as old:
        assert len(new.counts) == 4
        assert new.classifier.costs == old.classifier.costs
        for message, _ in trained:
            assert new.label_of(digest(message)) == old.label_of(digest(message))
        assert new.ledger.active(digest(trained[-1][0])).time == 1e9
        assert new.verify() == []
    code, _, err = streamnb_command(
        "upgrade", tmp_path / "old.db", folder, "--db", tmp_path / "old.db"
    )
    assert (code, err.count("\n")) == (4, 1)
    assert "is the old database" in err


def files(folder, messages):
    folder.mkdir()
    for number, message in enumerate(messages):
        (folder / f"{number}.eml").write_bytes(message)
    return folder


def kinds(sample, n=60):
    trained = [(read(entry), entry.label) for entry in islice(open_corpus(sample), 300)]
    return [
        [message for message, label in trained if label == kind][:n] for kind in ("spam", "ham")
    ]


def test_runs_of_single_commands_are_rebuilt_too(sample, tmp_path):
    db = tmp_path / "mail.db"
    spam, ham = kinds(sample, 25)
    for label, group in (("spam", spam), ("ham", ham)):
        folder = files(tmp_path / label, group)
        for path in sorted(folder.iterdir()):
            assert streamnb_command("learn", label, path, "--db", db)[0] == 0
    with Mailbox(db) as mailbox:
        assert not is_due(mailbox)
        assert mailbox.classifier.model.messages_in_runs < 0.5 * len(spam + ham)
        assert sum(mailbox.classifier.model.reliability_counts("spam")) > 0
        assert mailbox.verify() == []


def test_upgrade_misses_no_sums_of_old_messages_and_no_erased_ones(sample, tmp_path):
    trained = mails(sample, 4)
    folder = tmp_path / "mail"
    folder.mkdir()
    with Mailbox(tmp_path / "old.db") as old:
        for number, (message, label) in enumerate(trained):
            old.learn(message, label, timestamp=1.0)
            (folder / f"{number}.eml").write_bytes(message)
        assert compact(old, rare_days=None, ledger=1).retired == 4
    (folder / "0.eml").unlink()
    command = ("upgrade", tmp_path / "new.db", folder, "--db", tmp_path / "old.db")
    code, _, err = streamnb_command(*command)
    assert (code, "not found in the sources: 1 message of" in err) == (4, True)
    with Mailbox(tmp_path / "old.db") as old:
        assert VerdictLog(old).erase([digest(trained[0][0])]) == 1
    assert streamnb_command(*command)[0] == 0


def test_upgrade_skips_unreadable_messages(sample, tmp_path):
    db = tmp_path / "mail.db"
    spam, ham = kinds(sample)
    assert streamnb_command("learn", "spam", files(tmp_path / "s", spam), "--db", db)[0] == 0
    folder = files(tmp_path / "h", ham)
    (folder / "z").symlink_to("/etc/hostname")
    code, _, err = streamnb_command("learn", "ham", folder, "--db", db)
    assert code != 0
    assert "learning all 120 messages again" in err
    with Mailbox(db) as mailbox:
        assert not is_due(mailbox)
    code, _, err = streamnb_command("upgrade", tmp_path / "new.db", folder, "--db", db)
    assert code not in (0, 4)
    assert f"not found in the sources: {len(spam)} messages of the old database" in err


def test_status_reports_messages_in_runs(sample, box):
    spam, ham = kinds(sample)
    for message in spam:
        box.learn(message, "spam")
    for message in ham:
        box.learn(message, "ham")
    code, out, _ = streamnb_command("status", "--db", box.path)
    assert (code, "learned one class after the other" in out) == (0, True)
    assert status(box).one_sided


def test_messages_unlearned_after_a_rebuild_have_no_counts(sample, box):
    spam, ham = kinds(sample)
    for message in spam:
        box.learn(message, "spam")
    box.learn(ham[0], "ham")
    rebuild(box)
    for message in (*spam, ham[0]):
        box.forget(message)
    for label, group in (("spam", spam), ("ham", ham)):
        for message in group:
            box.learn(message, label)
    assert is_due(box)


def test_upgrade_keeps_settings_and_labels(sample, tmp_path):
    words = MailTokenizer(binary=True, drop_headers=("x-secret",))
    chosen = of_an_older_version(words=words, keep_names=False, preset="small")
    message, label = mails(sample, 1)[0]
    with Mailbox(tmp_path / "old.db", classifier=chosen) as old:
        old.learn(message, label)
        VerdictLog(old).limit(LogLimits(0, 3.0))
    folder = files(tmp_path / "mail", [message])
    command = ("upgrade", tmp_path / "new.db", folder, "--db", tmp_path / "old.db")
    assert streamnb_command(*command)[0] == 0
    with Mailbox(tmp_path / "new.db") as new:
        assert VerdictLog(new).limits == LogLimits(0, 3.0)
        new_classifier = new.classifier
        assert (new_classifier.preset, new_classifier.keep_names, len(new_classifier.models)) == (
            "small",
            False,
            3,
        )
        assert {view.drop_headers for view in new_classifier.tokenizer.tokenizers} == {
            ("x-secret",)
        }
    with Mailbox(tmp_path / "other.db", classifier=MailClassifier(views=("words",))) as other:
        other.learn(message, label)
    code, _, err = streamnb_command(*command[:1], tmp_path / "other.db", *command[2:])
    assert (code, "has other views" in err) == (4, True)
    by_hand = ("upgrade", tmp_path / "third.db", folder, "--db", tmp_path / "other.db")
    code, _, err = streamnb_command(*by_hand)
    assert (code, "its views were chosen by hand" in err) == (4, True)
    assert not (tmp_path / "third.db").exists()
