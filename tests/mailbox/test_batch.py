"""Learning many messages in a transaction equals learning one after the other."""

import json
import math

import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st

from streamnb import Mailbox, MultinomialNB, Tokenizer
from streamnb.classifier import Classifier
from streamnb.counts.database import SqlCounts
from streamnb.database import TransientError
from streamnb.errors import CorpusError
from streamnb.mailbox import batch
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.compact import compact
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.transfer.formats import export, import_file
from streamnb.mailbox.undo import redo

WORDS = [
    "buy",
    "cheap",
    "pills",
    "lunch",
    "noon",
    "meeting",
    "Ünï",
    "win",
    "list",
    "digest",
    "thread",
]


def mail(number):
    chosen = [WORDS[(number * k + k) % len(WORDS)] for k in range(1, 2 + number % 5)]
    return f"From: a{number % 3}@b.c\nSubject: {chosen[0]} {number % 4}\n\n{' '.join(chosen)}\n".encode()


def ledger_lines(mailbox, path):
    """The whole state of a mailbox without times."""
    export(mailbox, str(path))
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [{name: value for name, value in line.items() if name != "time"} for line in lines]


lessons = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["spam", "ham", "list"])), max_size=40
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: None,
        lambda: Classifier(Tokenizer(), MultinomialNB()),
        lambda: Classifier(Tokenizer(keep_names=False), MultinomialNB(length_norm=1.0)),
    ],
)
@given(
    lessons, st.integers(1, 12), st.integers(1, 5), st.sampled_from([HUMAN, PROGRAM]), st.booleans()
)
def test_many_equal_one_after_the_other(
    make, tmp_path_factory, labelled, most, least, labelled_by, repeat
):
    folder = tmp_path_factory.mktemp("many")
    labelled = [
        LabelledMessage(mail(number), label, f"learn {number}") for number, label in labelled
    ]
    with (
        Mailbox(folder / "one", classifier=make()) as single,
        Mailbox(folder / "many", classifier=make()) as many,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(batch, "_GROUP_LIMITS", (most, 10**6, 10**6))
        patch.setattr(batch, "_MIN_BUFFERED", least)
        for author in (PROGRAM, labelled_by) if repeat else (labelled_by,):
            expected = [
                single.learn(item.message, item.label, author, item.source) for item in labelled
            ]
            lines = list(batch.learn_many(many, labelled, author))
            assert [lesson for lesson, _ in lines] == labelled
            assert [outcome for _, outcome in lines] == expected
            labelled = labelled[::-1]
        assert many.verify() == []
        assert ledger_lines(many, folder / "b") == ledger_lines(single, folder / "a")
        with many.reading(), single.reading():
            for buffered, others in zip(many.counts, single.counts, strict=True):
                assert (buffered.rows()[2] == others.rows()[2]).all()
                assert buffered.totals == pytest.approx(others.totals, rel=1e-13)
                if make() is None:
                    assert buffered.state()["totals"] == others.state()["totals"]
        # And once more, into what knows some of it, and has dropped what was seen once.
        for mailbox in (single, many):
            compact(mailbox, rare_days=-1)
            mailbox.learn(b"Subject: more\n\nlunch", "spam")
        single.learn(b"Subject: noon\n\nmeeting", "list")
        for lesson in labelled:
            single.learn(lesson.message, lesson.label, HUMAN, lesson.source)
        many.learn_many([LabelledMessage(b"Subject: noon\n\nmeeting", "list"), *labelled])
        assert many.verify() == []
        assert ledger_lines(many, folder / "b") == ledger_lines(single, folder / "a")


@given(lessons, st.integers(1, 9))
def test_an_import_in_groups_is_the_same(tmp_path_factory, labelled, most):
    folder = tmp_path_factory.mktemp("import")
    with (
        Mailbox(folder / "from") as source,
        Mailbox(folder / "to") as target,
        Mailbox(folder / "new") as new,
        pytest.MonkeyPatch.context() as patch,
    ):
        for number, label in labelled:
            source.learn(mail(number), label)
        target.learn(mail(3), "ham", timestamp=1e9)
        target.learn(mail(4), "work", PROGRAM, timestamp=1e9)
        export(source, str(folder / "lines"))
        patch.setattr(batch, "_GROUP_LIMITS", (most, 10**6, 10**6))
        for mailbox in (target, new):
            import_file(mailbox, str(folder / "lines"))
            assert mailbox.verify() == []
        assert ledger_lines(new, folder / "a") == ledger_lines(source, folder / "b")


def test_messages_before_an_error_are_learned(tmp_path):
    def broken():
        for number in range(7):
            yield LabelledMessage(mail(number), "ham")
        raise CorpusError("no more")

    with Mailbox(tmp_path / "mail.db") as mailbox:
        with pytest.raises(CorpusError, match="no more"):
            mailbox.learn_many(broken())
        assert len(list(mailbox.ledger.rows())) == 7
        assert mailbox.verify() == []
        with pytest.raises(ValueError, match="labelled_by"):
            mailbox.learn_many([], labelled_by="nobody")
        with pytest.raises(TypeError):
            mailbox.learn_many([mail(1)])
        with pytest.raises(ValueError, match="bytes"):
            mailbox.learn_many([LabelledMessage("text", "ham")])


def test_known_messages_are_not_tokenized_again(tmp_path, monkeypatch):
    lessons = [LabelledMessage(mail(n), "ham") for n in range(40)]
    counted = []
    with Mailbox(tmp_path / "mail.db") as mailbox:
        count = mailbox.classifier.count
        monkeypatch.setattr(
            mailbox.classifier, "count", lambda message: counted.append(message) or count(message)
        )
        mailbox.learn_many(lessons)
        assert len(counted) == 40
        assert [outcome.result for outcome in mailbox.learn_many(lessons)] == ["known"] * 40
        assert len(counted) == 40
        new = LabelledMessage(mail(99), "ham")
        outcomes = mailbox.learn_many([*lessons, new, *lessons])
        assert [outcome.result for outcome in outcomes].count("learned") == 1
        assert len(counted) == 41


@pytest.mark.parametrize("others", ["forget", "correct"])
def test_messages_changed_by_another_process_are_learned(tmp_path, others):
    path = tmp_path / "mail.db"
    with Mailbox(path) as mailbox, Mailbox(path) as other:
        learned_before = [LabelledMessage(mail(n), "ham") for n in range(9)]
        mailbox.learn_many(learned_before)

        def lessons():
            yield from learned_before
            if others == "forget":
                other.forget(learned_before[3].message)
            else:
                other.learn(learned_before[3].message, "spam")

        outcomes = [outcome.result for outcome in mailbox.learn_many(lessons())]
        expected = {"forget": "learned", "correct": "corrected"}[others]
        assert outcomes == ["known"] * 3 + [expected] + ["known"] * 5
        assert mailbox.verify() == []


def test_a_group_that_fails_leaves_nothing(tmp_path, monkeypatch):
    with Mailbox(tmp_path / "mail.db") as mailbox:
        mailbox.learn(mail(1), "spam")
        before = ledger_lines(mailbox, tmp_path / "a")
        with monkeypatch.context() as patch:
            patch.setattr(SqlCounts, "commit", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                mailbox.learn_many([LabelledMessage(mail(n), "ham") for n in range(9)])
        assert ledger_lines(mailbox, tmp_path / "b") == before
        assert [type(member.counts) for member in mailbox.models] == [SqlCounts] * len(
            mailbox.models
        )
        assert len(mailbox.learn_many([LabelledMessage(mail(n), "ham") for n in range(9)])) == 9
        assert mailbox.verify() == []


def test_others_are_answered_and_learn_between_groups(tmp_path):
    path = tmp_path / "mail.db"
    with Mailbox(path) as mailbox, Mailbox(path, wait=0.1) as other:

        def lessons():
            for number in range(600):
                yield LabelledMessage(
                    f"Subject: {number}\n\nw{number} {WORDS[number % 9]}".encode(), "ham"
                )
                if number in (300, 500):  # within a group that is being read
                    other.learn(b"Subject: other\n\n%d" % number, "spam")

        assert sum(outcome.result == "learned" for outcome in mailbox.learn_many(lessons())) == 600
        assert other.verify() == []
        assert len(list(other.ledger.rows())) == 602


@pytest.mark.parametrize("knows", [False, True])
def test_another_kind_of_database_meanwhile(tmp_path, knows):
    """Also if this mailbox has noticed the change while it reads messages."""
    path = tmp_path / "mail.db"
    with Mailbox(path) as mailbox, Mailbox(path) as other:

        def lessons():
            yield LabelledMessage(mail(1), "ham")
            with other.importing(Classifier(Tokenizer(), MultinomialNB())):
                pass
            if knows:
                mailbox.was_learned(b"x" * 32)
            yield LabelledMessage(mail(2), "spam")

        assert [outcome.result for outcome in mailbox.learn_many(lessons())] == ["learned"] * 2
        assert len(mailbox.counts) == 1
        assert mailbox.verify() == []


def test_learn_reports_each_committed_message(tmp_path):
    folder = tmp_path / "mails"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}").write_bytes(mail(number) + b"%d" % number)
    db = tmp_path / "mail.db"
    status, out, _ = streamnb_command("learn", "ham", folder, "--db", db, "--json")
    assert status == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["path"] for line in lines] == [str(path) for path in sorted(folder.iterdir())]
    with Mailbox(db) as mailbox:
        assert all(mailbox.label_of(bytes.fromhex(line["digest"])) for line in lines)
        assert mailbox.label_of(bytes.fromhex(lines[7]["digest"]))[2] == f"learn {folder / '07'}"


def test_a_word_that_cannot_be_is_refused(tmp_path):
    with Mailbox(tmp_path / "mail.db") as mailbox:
        for wrong in (
            LabelledMessage(mail(1), "ham", b"x"),
            LabelledMessage(mail(1), None),
            LabelledMessage(mail(1), math.nan),
        ):
            with pytest.raises(ValueError, match=r"source|label"):
                mailbox.learn_many([wrong])
        with pytest.raises(ValueError, match="source"):
            mailbox.learn_batch([LabelledMessage(mail(1), "ham")], "stream", 1, b"x")
        with pytest.raises(ValueError, match="label"):
            mailbox.learn(mail(1), math.nan)
        assert mailbox.verify() == []
        assert list(mailbox.ledger.rows()) == []


def test_messages_read_before_ctrl_c_are_learned(tmp_path):
    def lessons():
        yield LabelledMessage(mail(1), "ham")
        raise KeyboardInterrupt

    with Mailbox(tmp_path / "mail.db") as mailbox:
        with pytest.raises(KeyboardInterrupt):
            mailbox.learn_many(lessons())
        assert mailbox.label_of(digest(mail(1)))[0] == "ham"


def test_a_group_has_the_messages_read_in_one_second(tmp_path, monkeypatch):
    monkeypatch.setattr(batch, "_MAX_READING_S", 0.0)
    with Mailbox(tmp_path / "mail.db") as mailbox:
        before = mailbox.database.changes
        assert len(mailbox.learn_many([LabelledMessage(mail(n), "ham") for n in range(5)])) == 5
        monkeypatch.setattr(batch, "_MAX_READING_S", 60.0)
        each = mailbox.database.changes - before
        assert len(mailbox.learn_many([LabelledMessage(mail(n), "spam") for n in range(5)])) == 5
        assert each >= 5


def test_groups_of_many_classes_are_smaller(tmp_path, monkeypatch):
    sizes = []
    learned = batch._learned_within
    monkeypatch.setattr(
        batch,
        "_learned_within",
        lambda *arguments: sizes.append(len(arguments[1])) or learned(*arguments),
    )
    monkeypatch.setattr(batch, "_GROUP_LIMITS", (256, 2000, 1 << 25))
    with Mailbox(tmp_path / "mail.db") as mailbox:
        for number in range(40):
            mailbox.learn(mail(number), f"c{number % 10}")
        mailbox.learn_many([LabelledMessage(mail(n), "c1") for n in range(40, 60)])
    with Mailbox(tmp_path / "other.db") as mailbox:
        mailbox.learn_many([LabelledMessage(mail(n), "c1") for n in range(40, 60)])
    assert sizes[0] < max(sizes)


class Losing:
    """Commit, then raise the error of a lost answer."""

    def __init__(self, mailbox, monkeypatch, others=lambda: None):
        self.commit, self.lost, self.others = mailbox.database._commit, True, others
        self.database = mailbox.database
        monkeypatch.setattr(mailbox.database, "loses_answers", True)
        monkeypatch.setattr(mailbox.database, "_commit", self)

    def __call__(self, durable):
        writes = self.database.writes
        self.commit(durable)
        if writes and not self.lost:
            self.lost = True
            self.others()
            raise TransientError("the answer was lost")


def test_a_call_whose_answer_was_lost_is_not_repeated(tmp_path, monkeypatch):
    path = tmp_path / "mail.db"
    numbers = iter(range(1000, 2000))
    with Mailbox(path) as mailbox, Mailbox(path) as other:
        losing = Losing(mailbox, monkeypatch, lambda: other.learn(mail(next(numbers)), "ham"))

        def lost(act):
            losing.lost = False
            lines = act()
            assert losing.lost
            assert mailbox.verify() == []
            return lines

        two = [
            LabelledMessage(mail(1), "ham"),
            LabelledMessage(mail(1), "spam"),
            LabelledMessage(mail(2), "ham"),
        ]
        outcomes = lost(lambda: mailbox.learn_many(two))
        assert outcomes == [("learned", None), ("corrected", "ham"), ("learned", None)]
        assert len(list(mailbox.ledger.rows("digest = ?", (digest(mail(1)),)))) == 2
        assert lost(lambda: mailbox.learn(mail(3), "ham")).result == "learned"
        assert lost(lambda: mailbox.learn(mail(3), "spam")) == ("corrected", "ham")
        assert (
            lost(lambda: mailbox.learn_batch([LabelledMessage(mail(4), "ham")], "stream", 1)) == 1
        )
        assert lost(lambda: mailbox.forget(mail(4))) == ("forgotten", "ham")
        learned_before = len(list(mailbox.ledger.rows()))
        undone = lost(lambda: mailbox.undo(0))
        assert undone.unlearned >= learned_before
        assert lost(lambda: redo(mailbox)).learned == undone.unlearned
        assert (
            len(list(mailbox.ledger.rows())) == learned_before + 2
        )  # what others learned meanwhile
        assert lost(lambda: compact(mailbox, rare_days=None, ledger=-1)).retired >= learned_before


def test_labels_that_are_equal_and_are_not_spelt_alike(tmp_path):
    with Mailbox(tmp_path / "one") as single, Mailbox(tmp_path / "many") as many:
        labelled = [(1, 1), (1, True), (1, "True"), (1, "1"), (2, "1"), (2, 1), (3, True), (3, "1")]
        lessons = [
            LabelledMessage(mail(number), label) for number, label in [(9, 1), *labelled, *labelled]
        ]
        expected = [single.learn(lesson.message, lesson.label) for lesson in lessons]
        assert many.learn_many(lessons) == expected
        assert many.verify() == []
        for buffered, others in zip(many.counts, single.counts, strict=True):
            with many.reading(), single.reading():
                assert (buffered.rows()[2] == others.rows()[2]).all()
