"""Many users: one database for each, and the site's model."""

import math
import os
import random
import re
import shlex
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing

import pytest
from commands import STREAMNB, streamnb_command

from streamnb import Mailbox, MailClassifier
from streamnb.errors import (
    BusyError,
    ConfigError,
    ModelFileError,
    OutputError,
    StateError,
    StreamNBError,
)
from streamnb.mailbox.batch import LabelledMessage
from streamnb.mailbox.blend import GAINS, Opinion, blend_scores, evidence_of
from streamnb.mailbox.digest import digest
from streamnb.mailbox.location import user_path
from streamnb.mailbox.service.mailboxes import Mailboxes
from streamnb.mailbox.service.response import JudgeOptions, judge
from streamnb.mailbox.site_model import SiteModel
from streamnb.mailbox.status import readiness_by_label
from streamnb.mailbox.status import status as status_of
from streamnb.mailbox.transfer.formats import export
from streamnb.mailbox.undo import last_learned, redo

SPAM = b"From: p@example.com\nSubject: pills %d\n\nbuy cheap pills now"
HAM = b"From: b@example.org\nSubject: lunch %d\n\nmeet at noon with ann"
WORK = b"From: boss@example.org\nSubject: report %d\n\nthe quarterly figures are due"


@pytest.fixture
def users(tmp_path, monkeypatch):
    monkeypatch.setenv("STREAMNB_USERS", str(tmp_path / "users"))
    (tmp_path / "users").mkdir()
    return tmp_path / "users"


def train(classifier, n=60):
    for i in range(n):
        classifier.learn_one(SPAM % i, "spam")
        classifier.learn_one(HAM % i, "ham")
    return classifier


@pytest.fixture
def site(users):
    train(MailClassifier()).save(users / "site.snb")
    return users / "site.snb"


def test_the_site_classifies_a_new_users_first_mail(users, site):
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        verdict = box.classify(SPAM % 99, 3)
        alone = MailClassifier.load(site).classify(SPAM % 99)
        assert (verdict.label, verdict.ready, verdict.unsure) == ("spam", True, False)
        assert verdict.probability == pytest.approx(alone.probability, abs=1e-9)
        assert any("pills" in str(reason.feature) for reason in verdict.reasons)
        assert box.gains == GAINS
    with Mailbox(users / "bob.db") as box:
        assert box.classify(SPAM % 99).label is None


def test_the_readiness_of_a_class_counts_the_site(users, site):
    """The site's ready classes give sure verdicts, so no text may call them unsure."""
    with Mailbox(users / "ann.db") as box:
        box.learn(SPAM % 1, "spam")
        export_path = users / "export.jsonl"
        export(box, str(export_path))
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        assert box.classify(SPAM % 99).unsure is False
        readiness = readiness_by_label(box, ["spam", "ham", "work"])
        assert readiness["spam"] == readiness["ham"] == "ready"
        assert readiness["work"] == "sure after about 20 more work messages"
        assert [(item.label, item.ready) for item in status_of(box).classes] == [("spam", True)]
        status, text, _ = streamnb_command("status", "--db", box.path, "--base", site)
        assert status == 0
        assert re.search(
            "site's model: [0-9]+ messages; its ready classes: (ham, spam|spam, ham)", text
        )
        box.learn_many([(WORK % i, "work") for i in range(5)])
        assert box.classify(SPAM % 99).unsure is True
        missing = readiness_by_label(box)
        assert missing["spam"] == "sure after about 30 more other messages"
        assert not any(item.ready for item in status_of(box).classes)
    assert "spam: unsure" in streamnb_command("import", export_path, "--db", users / "x.db")[1]
    assert "spam: unsure" not in streamnb_command("import", export_path, "--user", "bob")[1]


@pytest.mark.parametrize("number", [5, 30, 60])
def test_the_ready_classes_of_the_site_are_those_with_sure_verdicts(users, number):
    """Correct predictions alone make no class ready: with few ham messages, no spam is sure."""
    train(MailClassifier(), number).save(users / "site.snb")
    base = SiteModel(users / "site.snb")
    with Mailbox(users / "ann.db", base=base) as box:
        messages = {"spam": SPAM % 99, "ham": HAM % 99}
        verdicts = {label: box.classify(message) for label, message in messages.items()}
    sure = {y for y, verdict in verdicts.items() if verdict.ready and not verdict.unsure}
    text = streamnb_command("status", "--user", "ann")[1]
    (line,) = re.findall("its ready classes: (.*)", text)
    assert set(line.split(", ")) == (sure or {"none"})


def test_many_are_learned_beside_a_site(users, site):
    lessons = [
        LabelledMessage(template % i, label)
        for i in range(20)
        for template, label in ((SPAM, "ham"), (HAM, "spam"))
    ]
    with (
        Mailbox(users / "ann.db", base=SiteModel(site)) as single,
        Mailbox(users / "bob.db", base=SiteModel(site)) as many,
    ):
        for lesson in lessons:
            single.learn(lesson.message, lesson.label)
        list(many.learn_many(lessons))
        assert many.verify() == []
        assert many.gains == pytest.approx(single.gains, abs=1e-9)
        assert many.gains != GAINS
        assert many.classify(SPAM % 99).label == single.classify(SPAM % 99).label == "ham"


@pytest.mark.parametrize("kind", ["snb", "db"])
def test_a_base_can_be_a_model_or_a_database(users, kind):
    if kind == "snb":
        train(MailClassifier()).save(users / "base.snb")
    else:
        with Mailbox(users / "base.db") as box:
            for i in range(60):
                box.learn(SPAM % i, "spam")
                box.learn(HAM % i, "ham")
    before = (users / f"base.{kind}").read_bytes()
    base = SiteModel(users / f"base.{kind}")
    with Mailbox(users / "ann.db", base=base) as box:
        assert box.classify(SPAM % 99).label == "spam"
        box.learn(SPAM % 99, "spam")
        (version,) = box.database.connection.execute("SELECT version FROM site").fetchone()
        assert version == base.version
        assert version == ("row 120" if kind == "db" else version)
        opened = base._file.content
        box.classify(SPAM % 98)
        assert base._file.content is opened  # it is opened once
        assert box.verify() == []
    base.close()
    assert (users / f"base.{kind}").read_bytes() == before


def test_a_users_labels_overrule_the_site(users, site):
    """The site classifies it as spam; this user labels it as ham."""
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        for i in range(40):
            box.learn(SPAM % (1000 + i), "ham")
            box.learn(b"From: x@example.net\nSubject: casino %d\n\nwin the jackpot" % i, "spam")
        assert box.classify(SPAM % 99).label == "ham"
        own, site_gain = box.gains
        assert site_gain < own
        assert box.verify() == []


def test_a_class_that_the_site_does_not_know(users, site):
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        for i in range(30):
            box.learn(WORK % i, "work")
            box.learn(HAM % (500 + i), "ham")
        assert box.classify(WORK % 99).label == "work"
        assert box.classify(SPAM % 99).label == "spam"
        assert set(box.classify(SPAM % 99).probabilities) == {"spam", "ham", "work"}


def test_unlearning_restores_the_gains(users, site, tmp_path):
    rng = random.Random(3)
    stream = [(SPAM % i, rng.choice(["spam", "ham"])) for i in range(30)]
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        for message, label in stream[:20]:
            box.learn(message, label)
        gains = box.gains
        state = export(box, tmp_path / "before")
        for message, label in stream[20:]:
            box.learn(message, label)
        assert box.gains != gains
        after = box.gains
        begun = last_learned(box, 10)
        box.undo(begun)
        assert box.gains == gains
        redo(box)
        assert box.gains == after
        for message, _ in stream[20:]:
            box.forget(message)
        assert box.gains == gains
        box.undo(0)
        assert box.gains == GAINS
        assert box.verify() == []
        assert state == {} or state is not None


def test_a_new_base_or_none_never_breaks_a_users_database(users, site):
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        for i in range(5):
            box.learn(SPAM % i, "spam")
            box.learn(HAM % i, "ham")
    with Mailbox(users / "ann.db") as box:
        assert box.classify(SPAM % 99).label == "spam"
        box.forget(SPAM % 1)
        assert box.verify() == []
    train(MailClassifier(views=("words",)), 5).save(site)  # another one
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box:
        assert box.classify(SPAM % 99).label == "spam"
        box.learn(SPAM % 77, "spam")
        assert box.verify() == []
    site.write_bytes(b"PK damaged")
    with Mailbox(users / "ann.db", base=SiteModel(site)) as box, pytest.raises(ModelFileError):
        box.classify(SPAM % 99)
    site.unlink()
    with (
        Mailbox(users / "ann.db", base=SiteModel(site)) as box,
        pytest.raises(StateError, match="cannot be read"),
    ):
        box.classify(SPAM % 99)


def test_commands_take_a_user_and_find_the_site(users, site, tmp_path):
    (tmp_path / "m.eml").write_bytes(SPAM % 99)
    assert streamnb_command("learn", "ham", tmp_path / "m.eml", "--user", "ann@example.org")[0] == 0
    assert (users / "ann@example.org.db").exists()
    with Mailbox(users / "ann@example.org.db") as box:
        assert box.label_of(digest(SPAM % 99))[0] == "ham"
    (tmp_path / "n.eml").write_bytes(SPAM % 98)
    streamnb_command("learn", "ham", tmp_path / "n.eml", "--user", "bob")
    assert streamnb_command("classify", tmp_path / "m.eml", "--user", "new")[1][:1] == "S"
    assert streamnb_command("explain", tmp_path / "m.eml", "--user", "new")[1].startswith("spam")
    status, out, _ = streamnb_command("classify", tmp_path / "m.eml", "--user", "bob")
    assert (status, out[:1]) in ((0, "S"), (2, "U"))
    assert streamnb_command("status", "--user", "bob")[0] == 0
    assert streamnb_command("verify", "--user", "bob")[0] == 0
    other = tmp_path / "other.db"
    streamnb_command("learn", "ham", tmp_path / "n.eml", "--db", other)
    assert streamnb_command("classify", tmp_path / "m.eml", "--db", other)[1][:1] == "U"
    assert (
        streamnb_command("classify", tmp_path / "m.eml", "--db", other, "--base", site)[1][:1]
        in "SU"
    )
    status, _, error = streamnb_command("status", "--user", "carl")
    assert (status, "`streamnb learn --user carl` creates it" in error) == (4, True)
    for wrong in ("../x", "", ".x", "a b", "x" * 300):
        status, _, error = streamnb_command("status", "--user", wrong)
        assert (status, error.count("\n")) == (2, 1)


@pytest.fixture
def run_script(repository, tmp_path):
    """Return a function that runs a script of a guide, with `streamnb` on the path."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "streamnb").write_text(f'#!/bin/sh\nexec {shlex.join(STREAMNB)} "$@"\n')
    (programs / "streamnb").chmod(0o755)

    def run(guide, script, *arguments, check=True, **environment):
        text = (repository / "docs" / "guides" / guide).read_text(encoding="utf-8")
        source = re.search(rf"<!-- {script} -->\n```sh\n(.*?)```", text, re.S)[1]
        path = f"{programs}:{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-euc", source, "sh", *arguments], check=check, capture_output=True, text=True,
            env={**os.environ, **environment, "PATH": path},
        )  # fmt: skip

    return run


def test_the_script_of_the_guide_reports_damaged_databases(run_script, tmp_path):
    (tmp_path / "users").mkdir()
    for name in ("ann", "bob"):
        with Mailbox(tmp_path / "users" / f"{name}.db") as box:
            box.learn(SPAM % 1, "spam")
    (tmp_path / "health").touch()
    environment = {"STREAMNB_USERS": str(tmp_path / "users"), "HTTP": tmp_path.as_uri()}
    assert run_script("monitor.md", "report-users", **environment).stdout == ""
    assert run_script("monitor.md", "report-users", "all", **environment).stdout.count("MB,") == 2
    (tmp_path / "users" / "bob.db").write_bytes(b"damaged" * 1000)
    (tmp_path / "health").unlink()
    done = run_script("monitor.md", "report-users", check=False, **environment)
    assert done.returncode == 1
    assert re.match(r"streamnb: .*bob\.db: .*\n$", done.stdout)
    assert done.stderr.startswith("curl: ")


def test_the_scripts_of_the_guide_back_up_and_restore_all_users(run_script, tmp_path):
    folders = {name: tmp_path / name / "users" for name in ("old", "new")}
    backup = tmp_path / "backup"
    for folder in (*folders.values(), backup):
        folder.mkdir(parents=True)
    for path in ("old/site.db", "old/users/ann.db", "old/users/bob@example.org.db"):
        with Mailbox(tmp_path / path) as box:
            box.learn(SPAM % len(path), "spam")
    for script, name in (("back-up-users", "old"), ("restore-users", "new")):
        run_script("back-up.md", script, STREAMNB_USERS=str(folders[name]), BACKUP=str(backup))
    assert {path.stat().st_mode & 0o777 for path in backup.iterdir()} == {0o600}
    restored = sorted(path.name for path in folders["new"].iterdir())
    assert restored == ["ann.db", "bob@example.org.db", "site.snb"]
    with Mailbox(folders["new"] / "ann.db", create=False) as box:
        assert box.classifier.messages()["spam"] == 1


def test_the_script_of_the_guide_upgrades_all_users(run_script, users, tmp_path):
    """The database of a user whose mail is not complete stays."""
    for name in ("ann", "bob", "eve"):
        junk = tmp_path / name / "Maildir" / ".Junk" / "cur"
        for folder in (junk, tmp_path / name / "Maildir" / "cur"):
            folder.mkdir(parents=True)
        for i in range(5):
            (junk / f"{i}:2,S").write_bytes(SPAM % i)
            with Mailbox(users / f"{name}.db") as box:
                box.learn(SPAM % i, "spam")
    shutil.rmtree(junk)  # of eve, whose mail is lost
    (tmp_path / "bob" / "Maildir" / ".Junk" / "cur" / "4:2,S").unlink()
    files = {name: (users / f"{name}.db").stat().st_ino for name in ("ann", "bob", "eve")}
    environment = {"STREAMNB_USERS": str(users), "HOMES": str(tmp_path)}
    run_script("upgrade.md", "upgrade-users", check=False, **environment)
    replaced = {
        name for name, file in files.items() if (users / f"{name}.db").stat().st_ino != file
    }
    assert replaced == {"ann"}
    assert sorted(path.name for path in users.iterdir()) == [
        "ann.db",
        "bob.db",
        "bob.new",
        "eve.db",
    ]
    for name, number in (("ann.db", 5), ("bob.db", 5), ("bob.new", 4), ("eve.db", 5)):
        with Mailbox(users / name, create=False) as box:
            assert box.classifier.messages()["spam"] == number


def test_names_of_users_lead_nowhere_else(users):
    for name in ("site", "Site", "../x", "a/b", "", ".", "-x", "a\0b", "ä"):
        with pytest.raises(ConfigError):
            user_path(name)
    assert user_path("ann+lists@example.org") == f"{users}/ann+lists@example.org.db"


def test_a_server_holds_as_many_users_as_it_may(users, site):
    mailboxes = Mailboxes(None, SiteModel(site), open_limit=10)

    def ask(number):
        draw = random.Random(number)
        for _ in range(40):
            name = f"user{draw.randrange(60)}"
            with mailboxes.borrow(name) as box:
                if draw.random() < 0.3:
                    box.learn(HAM % draw.randrange(1000), "ham")
                assert box.classify(SPAM % 1).label is not None
                assert box.path.name == f"{name}.db"

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mailboxes.open_count <= 10
    mailboxes.close()
    for path in users.glob("user*.db"):
        with Mailbox(path) as box:
            assert box.verify() == []
    assert len(os.listdir(users)) > 40
    with pytest.raises(LookupError), mailboxes.borrow(None):
        pass


def opinion(n=100.0, **scores):
    return Opinion(scores, dict.fromkeys(scores, n))


def test_a_thread_can_return_a_mailbox_after_the_server_closed_it(users, site):
    mailboxes = Mailboxes(None, SiteModel(site))
    with mailboxes.borrow("ann") as box:
        mailboxes.close()
        with pytest.raises(ValueError, match="closed"):
            box.classify(SPAM % 1)


def test_evidence_of_both():
    evidence = evidence_of(opinion(ham=1.0, spam=-1.0), opinion(ham=-2.0, spam=2.0))
    assert blend_scores(evidence, (1.0, 1.0)) == {"ham": -1.0, "spam": 1.0}
    assert blend_scores(evidence, (3.0, 1.0)) == {"ham": 1.0, "spam": -1.0}
    assert evidence_of(opinion(), opinion()) == {}


@pytest.mark.parametrize(
    ("own", "site", "positive"),
    [
        (opinion(work=0.0), opinion(ham=2.0, spam=-2.0), "spam"),
        (opinion(work=1.0, lists=-1.0), opinion(ham=2.0, spam=-2.0), "spam"),
        (opinion(work=1.0, spam=-1.0), opinion(ham=2.0, spam=-2.0), "spam"),
        (opinion(work=1.0, ham=-1.0), opinion(ham=2.0, spam=-2.0), "spam"),
        (opinion(work=1.0, ham=-1.0), opinion(ham=2.0, lists=3.0, spam=-2.0), "spam"),
        (opinion(work=1.0, ham=-1.0), opinion(ham=2.0, spam=-2.0), "junk"),
        (opinion(work=1.0, ham=-1.0), opinion(spam=2.0), "spam"),
        (opinion(work=1.0, ham=-1.0), opinion(), "spam"),
    ],
)
def test_the_evidence_of_a_site_is_between_its_own_classes(own, site, positive):
    evidence = evidence_of(own, site, positive)
    assert set(evidence) == set(own.scores) | set(site.scores)
    shift = next(iter(evidence.values()))[1] - next(iter(site.scores.values()), 0.0)
    for label, score in site.scores.items():
        assert evidence[label][1] == pytest.approx(score + shift)
    for label in set(own.scores) - set(site.scores):
        hosts = [evidence[host][1] for host in site.scores if host != positive]
        assert evidence[label][1] < max(hosts, default=0.1)


def verdicts_of(box, mails):
    verdicts = [box.classify(mail, 3) for mail in mails]
    return [
        (
            verdict.label,
            verdict.unsure,
            verdict.ready,
            [reason.feature for reason in verdict.reasons],
        )
        for verdict in verdicts
    ], [pytest.approx(verdict.probabilities, abs=1e-9) for verdict in verdicts]


@pytest.mark.parametrize("with_site", [False, True])
@pytest.mark.parametrize("way", ["undo", "forget", "correct"])
@pytest.mark.parametrize("before", [(), ("spam",), ("ham", "spam"), ("work", "ham", "spam")])
def test_a_class_without_messages_has_no_part(users, site, with_site, way, before):
    mails = [SPAM % 99, HAM % 99, WORK % 99, b"Subject: other\n\nnothing known"]
    templates = {"spam": SPAM, "ham": HAM, "work": WORK}
    with Mailbox(users / "ann.db", base=SiteModel(site) if with_site else None) as box:
        for label in before:
            for i in range(3):
                box.learn(templates[label] % i, label)
        expected, classes = verdicts_of(box, mails), status_of(box).classes
        time = math.nextafter(box.latest_moment, math.inf)
        learned = [(WORK % 50, "club"), (SPAM % 51, "spam"), (HAM % 52, "bills"), (HAM % 53, "ham")]
        for message, label in learned:
            box.learn(message, label)
        assert box.classify(WORK % 99).probabilities.keys() >= {"club", "bills"}
        if way == "correct":
            box.learn(WORK % 50, "bills")
            assert "club" not in box.classify(WORK % 99).probabilities
        if way == "forget":
            for message, _ in learned:
                box.forget(message)
        else:
            box.undo(time)
        decisions, probabilities = expected
        assert verdicts_of(box, mails)[0] == decisions
        assert [box.classify(mail).probabilities for mail in mails] == probabilities
        assert status_of(box).classes == classes
        assert box.verify() == []
        box.learn(WORK % 60, "ham")
        (predicted,) = box.database.connection.execute(
            "SELECT predicted FROM ledger WHERE removed_at IS NULL ORDER BY id DESC LIMIT 1"
        ).fetchone()
        assert (predicted is None) == (not before and not with_site)


@pytest.mark.parametrize("own", [("work",), ("work", "lists"), ("work", "spam"), ("work", "ham")])
@pytest.mark.parametrize("count", [1, 5, 20])
def test_classes_that_the_site_does_not_know_leave_its_help(users, own, count):
    train(MailClassifier(), 300).save(users / "site.snb")
    lists = b"From: list@example.org\nSubject: [dev] patch %d\n\nplease review this patch"
    templates = {"spam": SPAM, "ham": HAM, "work": WORK, "lists": lists}
    with Mailbox(users / "ann.db", base=SiteModel(users / "site.snb")) as box:
        for i in range(count):
            for label in own:
                box.learn(templates[label] % (500 + i), label)
        for label, mail in (("spam", SPAM % 99), ("ham", HAM % 99)):
            verdict = box.classify(mail)
            assert (verdict.label, verdict.unsure, verdict.ready) == (label, False, True)
        if "ham" in own and count == 20:
            assert box.classify(WORK % 99).label == "work"


def test_an_empty_database_name_is_refused(tmp_path):
    status, _, error = streamnb_command("status", "--db", "")
    assert (status, error.count("\n")) == (2, 1)
    assert "--db" in error


@pytest.fixture
def site_db(users):
    with Mailbox(users / "site.db") as box:
        for i in range(60):
            box.learn(SPAM % i, "spam")
            box.learn(HAM % i, "ham")
    return users / "site.db"


def judge_as(mailboxes, user, is_borrowed):
    if not is_borrowed:
        return mailboxes.judge(user, SPAM % 99, None)
    with mailboxes.borrow(user) as box:
        return judge(box, SPAM % 99)


@pytest.mark.parametrize("damage", ["overwritten", "replaced", "removed"])
def test_a_damaged_database_of_the_site_leaves_users_their_own(users, site_db, damage):
    """A server warns, and classifies and learns without the site's help; a command fails."""
    warnings = []
    base = SiteModel(site_db, warn=warnings.append)
    mailboxes = Mailboxes(None, base)
    with mailboxes.borrow("ann") as box:
        for i in range(60):
            box.learn(SPAM % i, "spam")
            box.learn(HAM % i, "ham")
    if damage != "overwritten":
        site_db.unlink()
    if damage != "removed":
        site_db.write_bytes(b"damaged" * 1000)
    for _ in range(2):
        assert mailboxes.judge("ann", SPAM % 99, None).mark == "S"
        assert base.is_stale
        for is_borrowed in (True, False):  # HTTP and the Unix socket borrow
            with pytest.raises(StreamNBError):  # of the site: she has nothing of her own
                judge_as(mailboxes, "new", is_borrowed)
    with mailboxes.borrow("ann") as box:
        assert box.learn(SPAM % 77, "spam").result == "learned"
    assert warnings
    with Mailbox(users / "ann.db", base=SiteModel(site_db)) as box, pytest.raises(StreamNBError):
        box.classify(SPAM % 99)
    mailboxes.close()


@pytest.mark.parametrize("damage", [b"damaged", b"", b"PK damaged", b"SQLite format 3\0 damaged"])
def test_a_command_with_a_damaged_model_of_the_site_creates_no_database(users, site_db, damage):
    site_db.write_bytes(damage)
    message = users / "m.eml"
    message.write_bytes(SPAM % 1)
    for command in (["classify", message], ["learn", "spam", message]):
        status, _, error = streamnb_command(*command, "--user", "new")
        assert status != 0
        assert str(site_db) in error
    assert not (users / "new.db").exists()


def test_a_database_of_the_site_that_is_damaged_and_restored(users, site_db, tmp_path):
    """The log names the model that is not used. A restored model is used at once."""
    warnings = []
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(site_db)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    base = SiteModel(site_db, warn=warnings.append)
    assert base.opinion(SPAM % 99).scores
    site_db.write_bytes(b"damaged")
    for _ in range(2):
        assert base.opinion(SPAM % 99) is None
    assert all(f"is not used: {site_db}: neither a mailbox's database" in line for line in warnings)
    assert len(warnings) == 2
    for ending in ("-wal", "-shm"):
        site_db.with_name(site_db.name + ending).unlink(missing_ok=True)
    copy.replace(site_db)
    assert base.opinion(SPAM % 99).scores
    assert not base.is_stale
    base.close()


@pytest.mark.parametrize("table", ["ledger", "state", "blocks_0"])
def test_a_damaged_table_of_the_site_leaves_users_their_own(users, site_db, table):
    with closing(sqlite3.connect(site_db)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_schema"))
        (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    with open(site_db, "r+b") as file:
        file.seek((roots[table] - 1) * page_size)
        file.write(b"\xff" * page_size)
    warnings = []
    mailboxes = Mailboxes(None, SiteModel(site_db, warn=warnings.append))
    with mailboxes.borrow("ann") as box:
        for i in range(60):
            assert box.learn(SPAM % i, "spam").result == "learned"
            assert box.learn(HAM % i, "ham").result == "learned"
    assert mailboxes.judge("ann", SPAM % 99, JudgeOptions(reasons=3)).mark == "S"
    assert warnings
    mailboxes.close()


def test_the_site_gives_the_verdict_if_a_database_cannot_be_created(users, site, monkeypatch):
    """The first message to a user can meet a full disk."""

    def fail(*_):
        raise OutputError("the disk is full; nothing was changed")

    warnings = []
    mailboxes = Mailboxes(None, SiteModel(site), warn=warnings.append)
    with monkeypatch.context() as patch:
        patch.setattr(mailboxes._users, "borrow", fail)
        assert mailboxes.judge("ann", SPAM % 99, None).mark == "S"
    assert "the disk is full" in warnings[0]
    mailboxes.close()


@pytest.mark.parametrize("use", ["opinion", "reasons"])
def test_a_busy_database_of_the_site_is_not_damaged(site_db, monkeypatch, use):
    """The error is temporary: the mail server or program tries again."""
    warnings = []
    base = SiteModel(site_db, warn=warnings.append)

    def fail(*_):
        raise BusyError("another thread holds the database")

    assert base.opinion(SPAM % 99).scores
    monkeypatch.setattr(Mailbox, "reading", fail)
    with pytest.raises(BusyError):
        base.opinion(SPAM % 99) if use == "opinion" else base.reasons(SPAM % 99, "spam", 3)
    assert not base.is_stale
    assert not warnings
    monkeypatch.undo()
    base.close()


def test_a_replaced_database_of_the_site_is_closed_after_its_last_reader(users, site_db):
    base = SiteModel(site_db, warn=lambda line: None)
    with base._open_content() as earlier:
        connection = earlier.source.database.connection
        shutil.copy(site_db, users / "copy.db")
        os.replace(users / "copy.db", site_db)
        assert base.opinion(SPAM % 1).scores
        connection.execute("SELECT 1")
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")
    base.close()
