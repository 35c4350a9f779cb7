"""Many messages in a transaction are learned as one after the other."""

import json

import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st

from streamnb import Mailbox, MultinomialNB, Tokenizer
from streamnb.classifier import Classifier
from streamnb.counts.database import SqlCounts
from streamnb.errors import CorpusError
from streamnb.mailbox import groups
from streamnb.mailbox.compact import compact
from streamnb.mailbox.groups import Lesson
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.transfer.formats import export, import_file

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


def told(mailbox, path):
    """All that a mailbox knows, but when it was told."""
    export(mailbox, str(path))
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [{name: value for name, value in line.items() if name != "time"} for line in found]


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
    lessons,
    st.integers(1, 12),
    st.integers(1, 5),
    st.sampled_from([HUMAN, PROGRAM]),
    st.booleans(),
)
def test_many_equal_one_after_the_other(make, tmp_path_factory, some, most, least, teacher, again):
    folder = tmp_path_factory.mktemp("many")
    some = [Lesson(mail(number), label, f"learn {number}") for number, label in some]
    with (
        Mailbox(folder / "one", classifier=make()) as one,
        Mailbox(folder / "many", classifier=make()) as many,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(groups, "_LIMITS", (most, 10**6, 10**6))
        patch.setattr(groups, "_MANY", least)
        for who in (PROGRAM, teacher) if again else (teacher,):
            expected = [one.learn(of.message, of.label, who, of.source) for of in some]
            found = list(many.learn_many(some, who))
            assert [lesson for lesson, _ in found] == some
            assert [outcome for _, outcome in found] == expected
            some = some[::-1]
        assert many.verify() == []
        assert told(many, folder / "b") == told(one, folder / "a")
        with many.reading(), one.reading():
            for mine, others in zip(many.counts, one.counts, strict=True):
                assert mine.totals == pytest.approx(others.totals, rel=1e-13)
                if make() is None:
                    assert mine.state()["totals"] == others.state()["totals"]
        # And once more, into what knows some of it, and has dropped what was seen once.
        for mailbox in (one, many):
            compact(mailbox, once=-1)
            mailbox.learn(b"Subject: more\n\nlunch", "spam")
        one.learn(b"Subject: noon\n\nmeeting", "list")
        for lesson in some:
            one.learn(lesson.message, lesson.label, HUMAN, lesson.source)
        list(many.learn_many([Lesson(b"Subject: noon\n\nmeeting", "list"), *some]))
        assert many.verify() == []
        assert told(many, folder / "b") == told(one, folder / "a")


@given(lessons, st.integers(1, 9))
def test_an_import_in_groups_is_the_same(tmp_path_factory, some, most):
    folder = tmp_path_factory.mktemp("import")
    with (
        Mailbox(folder / "from") as source,
        Mailbox(folder / "to") as target,
        Mailbox(folder / "new") as new,
        pytest.MonkeyPatch.context() as patch,
    ):
        for number, label in some:
            source.learn(mail(number), label)
        target.learn(mail(3), "ham", when=1e9)
        target.learn(mail(4), "work", PROGRAM, when=1e9)
        export(source, str(folder / "lines"))
        patch.setattr(groups, "_LIMITS", (most, 10**6, 10**6))
        for mailbox in (target, new):
            import_file(mailbox, str(folder / "lines"))
            assert mailbox.verify() == []
        assert told(new, folder / "a") == told(source, folder / "b")


def test_what_came_before_an_error_is_learned(tmp_path):
    def broken():
        for number in range(7):
            yield Lesson(mail(number), "ham")
        raise CorpusError("no more")

    with Mailbox(tmp_path / "mail.db") as mailbox:
        learned = mailbox.learn_many(broken())
        with pytest.raises(CorpusError, match="no more"):
            for _ in learned:
                pass
        assert len(list(mailbox.ledger.rows())) == 7
        assert mailbox.verify() == []
        with pytest.raises(ValueError, match="teacher"):
            mailbox.learn_many([], teacher="nobody")
        with pytest.raises(ValueError, match="bytes"):
            list(mailbox.learn_many([Lesson("text", "ham")]))


def test_a_group_that_fails_leaves_nothing(tmp_path, monkeypatch):
    with Mailbox(tmp_path / "mail.db") as mailbox:
        mailbox.learn(mail(1), "spam")
        before = told(mailbox, tmp_path / "a")
        with monkeypatch.context() as patch:
            patch.setattr(SqlCounts, "take_in", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                list(mailbox.learn_many([Lesson(mail(n), "ham") for n in range(9)]))
        assert told(mailbox, tmp_path / "b") == before
        assert [type(member.counts) for member in mailbox.models] == [SqlCounts] * len(
            mailbox.models
        )
        assert len(list(mailbox.learn_many([Lesson(mail(n), "ham") for n in range(9)]))) == 9
        assert mailbox.verify() == []


def test_others_are_answered_and_learn_between_groups(tmp_path):
    path = tmp_path / "mail.db"
    with Mailbox(path) as mailbox, Mailbox(path, wait=0.1) as other:

        def lessons():
            for number in range(600):
                yield Lesson(f"Subject: {number}\n\nw{number} {WORDS[number % 9]}".encode(), "ham")
                if number in (300, 500):  # within a group that is being read
                    other.learn(b"Subject: other\n\n%d" % number, "spam")

        assert sum(outcome.what == "learned" for _, outcome in mailbox.learn_many(lessons())) == 600
        assert other.verify() == []
        assert len(list(other.ledger.rows())) == 602


def test_another_kind_of_database_meanwhile(tmp_path):
    path = tmp_path / "mail.db"
    with Mailbox(path) as mailbox, Mailbox(path) as other:

        def lessons():
            yield Lesson(mail(1), "ham")
            other.take_identity(Classifier(Tokenizer(), MultinomialNB()))
            yield Lesson(mail(2), "spam")

        assert [outcome.what for _, outcome in mailbox.learn_many(lessons())] == ["learned"] * 2
        assert len(mailbox.counts) == 1
        assert mailbox.verify() == []


def test_the_command_tells_what_is_safe(tmp_path):
    folder = tmp_path / "mails"
    folder.mkdir()
    for number in range(30):
        (folder / f"{number:02}").write_bytes(mail(number) + b"%d" % number)
    db = tmp_path / "mail.db"
    status, out, _ = streamnb_command("learn", "ham", folder, "--db", db, "--json")
    assert status == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert [line["path"] for line in found] == [str(path) for path in sorted(folder.iterdir())]
    with Mailbox(db) as mailbox:
        assert all(mailbox.label_of(bytes.fromhex(line["digest"])) for line in found)
        assert mailbox.label_of(bytes.fromhex(found[7]["digest"]))[2] == f"learn {folder / '07'}"
