"""Watching any number of folders, each of which is a class."""

import os

import pytest
from commands import streamnb_command
from hypothesis import example, given
from hypothesis import strategies as st
from maildirs import UserMaildir, WatchedMaildir, mail

from streamnb import Mailbox
from streamnb.errors import CorpusError
from streamnb.mailbox.digest import digest
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

FOLDERS = {"Junk": "spam", "Work": "work", "Lists": "lists", "Bills": "bills", "Family": "family"}
WORDS = {
    "spam": "cheap pills buy now", "work": "the quarterly report is due", "lists": "unsubscribe from this list",
    "bills": "your invoice is attached", "family": "grandma sends her love", "ham": "lunch at noon with ann",
}  # fmt: skip


class Scene(WatchedMaildir):
    def __init__(self, folder, **plan):
        super().__init__(folder, FOLDERS, **plan)

    def teach(self, classes=WORDS):
        for i in range(100):
            for label in classes:
                self.box.learn(mail(1000 + i, WORDS[label]), label)


@pytest.fixture
def scene(tmp_path):
    scenes = []

    def make(**plan):
        scenes.append(Scene(tmp_path, **plan))
        return scenes[0]

    yield make
    for item in scenes:
        assert item.box.verify() == []
        item.box.close()


def test_a_move_from_one_class_to_another_corrects(scene):
    scene = scene()
    scene.scan()
    scene.dir.deliver(1)
    scene.scan()
    for folder, label in (("Work", "work"), ("Lists", "lists"), ("Archive", "lists"), ("Family", "family"),
                          ("INBOX", None), ("Junk", "spam"), ("Archive", "spam"), ("Trash", "spam")):  # fmt: skip
        scene.dir.move(1, folder)
        scene.scan()
        assert scene.label(1) == label, folder


def test_new_mail_goes_to_the_folder_of_its_class(scene):
    scene = scene(move=True)
    scene.scan()
    scene.teach()
    weights = list(scene.box.counts[0].weights)
    for i, (label, words) in enumerate(WORDS.items()):
        scene.dir.deliver(i, mail(i, words))
        scene.scan()
        scene.scan()
        folder = {label: folder for folder, label in FOLDERS.items()}.get(label, "INBOX")
        assert scene.dir.folders_of(i) == [folder]
        assert scene.label(i, words) is None
    assert list(scene.box.counts[0].weights) == weights
    scene.dir.move(1, "Bills")  # streamnb moved it into Work, and a person corrects that
    scene.scan()
    assert scene.label(1, WORDS["work"]) == "bills"
    scene.dir.move(2, "INBOX")  # nor is that of a list
    scene.scan()
    scene.scan()
    assert scene.label(2, WORDS["lists"]) == "ham"
    assert scene.dir.folders_of(2) == ["INBOX"]


def test_unsure_mail_can_have_a_folder(scene):
    scene = scene(move=True, unsure="Look")
    scene.scan()
    scene.dir.deliver(1, mail(1, WORDS["work"]))
    scene.scan()
    assert scene.dir.folders_of(1) == ["INBOX"]  # nothing is known yet
    scene.teach(["ham", "spam", "work"])
    mixed_words = f"the quarterly report is {WORDS['spam']}"  # four words of each
    scene.dir.deliver(2, mail(2, mixed_words))
    scene.dir.deliver(3, mail(3, mixed_words))
    scene.scan()
    scene.scan()
    assert scene.dir.folders_of(2) == scene.dir.folders_of(3) == ["Look"]
    assert scene.label(2, mixed_words) is None
    scene.dir.move(2, "Work")
    scene.dir.move(3, "INBOX")
    scene.scan()
    assert scene.label(2, mixed_words) == "work"
    assert scene.label(3, mixed_words) == "ham"
    assert scene.dir.folders_of(3) == ["INBOX"]


def test_the_inbox_can_be_another_class_or_none(scene):
    scene = scene(ham=None)
    scene.scan()
    scene.dir.deliver(1)
    scene.scan()
    scene.dir.move(1, "Work")
    scene.scan()
    assert scene.label(1) == "work"
    scene.dir.move(1, "INBOX")
    scene.scan()
    assert scene.label(1) is None
    scene.dir.move(1, "Work")
    scene.scan()
    assert scene.label(1) == "work"


def test_senders_can_be_pinned_or_left_alone(scene):
    scene = scene(
        move=True,
        pinned={"boss@example.org": "Work", "@example.com": "", "ann@example.com": "Family"},
    )
    scene.scan()
    scene.teach()
    places = {
        "Boss <BOSS@Example.org>": "Work", "p@example.com": "INBOX", "Ann <ann@example.com>": "Family",
        "p@example.net": "Junk", "boss@example.org, p@example.com": "Junk", '"boss@example.org" <p@example.net>': "Junk",
        '"ann@example.com" <ann@example.com>': "Family", "Ann (ann@home.org) <ann@example.com>": "Family",
        "=?utf-8?q?=3Cboss=40example=2Eorg=3E?= evil": "Junk",
    }  # fmt: skip
    for i, sender in enumerate(places):
        scene.dir.deliver(i, f"From: {sender}\n".encode() + mail(i, WORDS["spam"]))
    scene.scan()
    scene.scan()
    for i, (sender, folder) in enumerate(places.items()):
        assert scene.dir.folders_of(i) == [folder], sender
    assert (
        scene.box.label_of(digest(b"From: Boss <BOSS@Example.org>\n" + mail(0, WORDS["spam"])))
        is None
    )


def test_a_folder_has_one_name(scene):
    """Mail that streamnb moved is recognised under each name of the folder."""
    scene = scene()
    account = scene.account
    assert [account.canonical_name(name) for name in (".Junk", "Junk", "inbox", ".INBOX")] == [
        "Junk", "Junk", "INBOX", "INBOX"
    ]  # fmt: skip
    account.create_folder(account.canonical_name("Prüfung"))
    assert (scene.dir.root / ".Pr&APw-fung" / "cur").is_dir()
    assert "Prüfung" in account.folder_names()
    assert account.canonical_name("Prüfung") == account.canonical_name("Pr&APw-fung") == "Prüfung"
    for name in ("", ".", "..", "./.Junk", "cur/..", "../a", "cur", "a\0b"):
        with pytest.raises(CorpusError, match="cannot be the name"):
            account.canonical_name(name)


@pytest.mark.parametrize(
    ("folder", "label"), [("Work", "work"), ("INBOX", "ham"), ("Archive", None)]
)
def test_a_person_moves_a_message_on_before_the_next_scan(scene, folder, label):
    scene = scene(move=True)
    scene.scan()
    scene.teach()
    scene.dir.deliver(1, mail(1, WORDS["spam"]))
    scene.scan()
    assert scene.dir.folders_of(1) == ["Junk"]
    scene.dir.move(1, folder)
    scene.scan()
    assert scene.label(1, WORDS["spam"]) == label


def test_an_existing_message_with_a_removed_label_is_not_classified(scene):
    scene = scene(move=True)
    scene.scan()
    scene.dir.deliver(1, mail(1, WORDS["spam"]))
    scene.scan()
    for folder in ("Junk", "INBOX"):
        scene.dir.move(1, folder)
        scene.scan()
    assert scene.label(1, WORDS["spam"]) is None
    scene.teach()
    plan = FolderPlan("INBOX", FOLDERS, ("Archive",), move=True, existing=True)
    scene.watcher = Watcher(scene.box, scene.account, plan, scene.report_lines.append)
    scene.scan()
    assert scene.dir.folders_of(1) == ["INBOX"]


def test_existing_mail_can_be_sorted_later(scene):
    scene = scene(move=True)
    for i, words in enumerate(WORDS.values()):
        scene.dir.deliver(i, mail(i, words))
    scene.scan()
    assert [scene.dir.folders_of(i) for i in range(6)] == [["INBOX"]] * 6
    scene.box.learn(mail(1, WORDS["work"]), "ham")  # a label by a person
    scene.teach()
    next_plan = FolderPlan("INBOX", FOLDERS, ("Archive",), move=True, existing=True)
    scene.watcher = Watcher(scene.box, scene.account, next_plan, scene.report_lines.append)
    scene.scan()
    folder_name = [scene.dir.folders_of(i)[0] for i in range(6)]
    assert folder_name == ["Junk", "INBOX", "Lists", "Bills", "Family", "INBOX"]
    scene.dir.move(0, "INBOX")
    scene.scan()
    scene.scan()
    assert scene.label(0, WORDS["spam"]) == "ham"
    assert scene.dir.folders_of(0) == ["INBOX"]


def test_mail_that_a_server_moved_by_our_verdict_is_not_a_label(scene):
    scene = scene()
    scene.scan()
    scene.dir.deliver(1, b"X-Streamnb: work, score=3.2\n" + mail(1), "Work")
    scene.dir.deliver(2, b"X-Streamnb: lists, score=3.2\n" + mail(2), "Work")
    scene.scan()
    assert (scene.label(1), scene.label(2)) == (None, None)
    scene.dir.move(1, "Lists")
    scene.scan()
    assert scene.label(1) == "lists"


moves = st.tuples(st.sampled_from(["INBOX", "Junk", "Work", "Lists", "Archive"]), st.booleans())


@given(st.lists(moves, max_size=14))
@example([("Work", True), ("Archive", True), ("INBOX", True), ("Junk", True), ("INBOX", True)])
def test_the_last_move_of_any_sequence_is_the_label(tmp_path_factory, history):
    """Against a slow obvious reference."""
    scene = Scene(tmp_path_factory.mktemp("w"))
    scene.scan()
    scene.dir.deliver(1)
    scene.scan()
    last_folder, current_label, corrected = "INBOX", None, None
    for folder, look in [*history, (None, True)]:
        if folder is not None:
            scene.dir.move(1, folder)
        if not look:
            continue
        scene.scan()
        (now,) = scene.dir.folders_of(1)
        label = FOLDERS.get(now)
        if now != last_folder:
            if label is not None:
                current_label, corrected = (
                    label,
                    current_label if current_label != label else corrected,
                )
            elif last_folder in FOLDERS and now == "INBOX":
                if current_label is None:
                    current_label = "ham"
                elif current_label != "ham":
                    current_label, corrected = ("ham" if corrected == "ham" else None), None
        last_folder = now
        assert scene.label(1) == current_label
    assert scene.box.verify() == []
    scene.box.close()


def test_a_folder_name_can_have_bytes_that_are_not_utf_8(tmp_path):
    home = UserMaildir(tmp_path / "m")
    odd = os.fsdecode(b"Entw\xfcrfe")
    for place in ("cur", "new", "tmp"):
        (home.root / f".{odd}" / place).mkdir(parents=True)
    account = MaildirAccount(home.root)
    assert "Entw\\xfcrfe" in account.folder_names()
    with pytest.raises(CorpusError, match="cannot be the name of a folder"):
        account.canonical_name(os.fsdecode(b"n\xfcw"))
    assert account.canonical_name(odd) == account.canonical_name("Entw\\xfcrfe") == "Entw\\xfcrfe"
    db = ("--db", tmp_path / "db")
    status, _, error = streamnb_command("watch", home.root, "--once", *db)
    assert (status, error) == (0, "")
    home.deliver(1, mail(1, WORDS["spam"]))
    streamnb_command("watch", home.root, "--once", *db)
    home.move(1, odd)
    folders = f"drafts={odd},spam=Junk"
    status, _, error = streamnb_command("watch", home.root, "--once", "--folders", folders, *db)
    assert (status, error) == (0, "")
    with Mailbox(tmp_path / "db") as box:
        assert box.label_of(digest(mail(1, WORDS["spam"])))[0] == "drafts"


def test_a_second_copy_of_a_message_is_classified_by_a_single_look(tmp_path):
    home = UserMaildir(tmp_path / "m")
    db = ("--db", tmp_path / "db")
    message = mail(1, WORDS["spam"])
    (home.root / ".Junk" / "cur" / "1.a:2,S").write_bytes(message)
    streamnb_command("watch", home.root, "--once", *db)
    (home.root / "new" / "2.b").write_bytes(message)
    _, printed, _ = streamnb_command("watch", home.root, "--once", *db)
    assert "2.b" in printed


def test_the_command_makes_folders_and_reads_yaml(tmp_path):
    home = UserMaildir(tmp_path / "m", ())
    db = ("--db", tmp_path / "db")
    folders = "work=Work,spam=Junk"
    status, _, error = streamnb_command("watch", home.root, "--once", "--folders", folders, *db)
    assert (status, error.count("\n")) == (3, 1)
    assert "no folder 'Work'" in error
    assert "--create" in error
    (tmp_path / "w.yaml").write_text(
        "folders: {work: Work, spam: Junk}\ncreate: true\nmove: true\nunsure: Look\n"
        "pin: {boss@example.org: Work}\nnever: [ann@example.org]\n"
    )
    options = ("--config", tmp_path / "w.yaml", "--once", *db)
    before = os.umask(0)
    try:
        status, out, error = streamnb_command("watch", home.root, *options)
    finally:
        os.umask(before)
    assert (status, error) == (0, "")
    scenes = [home.root / ".Work", *(home.root / ".Work").iterdir()]
    assert {path.stat().st_mode & 0o777 for path in scenes} == {0o700}
    assert "watching maildir:" in out
    assert "INBOX, Look, Work, Junk" in out
    assert "not ready to move work (sure after about 20 more work" in out
    home.deliver(1, b"From: boss@example.org\n" + mail(1))
    home.deliver(2)
    status, out, _ = streamnb_command("watch", home.root, *options)
    assert "moved to Work" in out
    home.move(2, "Work")
    assert "work (learned)" in streamnb_command("watch", home.root, *options)[1]
    with Mailbox(tmp_path / "db") as box:
        assert box.label_of(digest(mail(2)))[0] == "work"


@pytest.mark.parametrize(
    ("yaml", "options", "report_lines"),
    [
        ("nonsense: 2\n", (), "'nonsense': no such option of watch"),
        ("move: 2\n", (), "w.yaml: move: expected true or false"),
        ("pin: {a@b: null}\n", (), "w.yaml: pin: names and folders must be text"),
        ("unsure: true\n", (), "w.yaml: unsure: expected text"),
        ("folders: {spam: [Junk, Work]}\n", (), "names and folders must be text"),
        ("", ("--folders", "S=Work"), "the label S is a verdict"),
        ("", ("--folders", "?=Work"), "? is only for the inbox"),
        ("", ("--folders", "spam=../a"), "cannot be the name of a folder"),
        ("", ("--folders", "work=.Junk,spam=Junk"), "the folder of two classes"),
        ("", ("--unsure", "Junk"), "neither the inbox nor"),
        ("", ("--spam-folder", "INBOX"), "the inbox cannot be the folder of spam"),
        ("", ("--pin", "a@b=Work", "--never", "a@b"), "both name a@b"),
        ("", ("--never", "a@@b"), "not ADDRESS"),
        ("folders: [", (), "w.yaml:1"),
        ("every: often\n", (), "--every"),
        ("", ("--folders", "work"), "not LABEL=FOLDER"),
        ("", ("--folders", "a=X,b=X"), "the folder of two classes"),
        ("", ("--folders", "a=X", "--spam-folder", "Y"), "cannot be combined"),
        ("", ("--pin", "boss"), "not ADDRESS=FOLDER"),
        ("", ("--never", "a@b=Work"), "not ADDRESS"),
    ],
)
def test_misuse_is_one_line(tmp_path, yaml, options, report_lines):
    home = UserMaildir(tmp_path / "m", ())
    (tmp_path / "w.yaml").write_text(yaml or "{}\n")
    command = (
        "watch",
        home.root,
        "--once",
        "--db",
        tmp_path / "db",
        "--config",
        tmp_path / "w.yaml",
    )
    status, out, error = streamnb_command(*command, *options)
    assert status in (2, 3)
    assert (out, error.count("\n")) == ("", 1)
    assert report_lines in error


def test_a_missing_folder_of_a_pinned_sender_is_an_error_at_the_start(scene):
    scene = scene(move=True, pinned={"boss@example.org": "Boss"})
    with pytest.raises(CorpusError, match="Boss"):
        scene.scan()


@pytest.mark.parametrize(
    ("pinned", "sender"),
    [
        ("ann@bücher.example", "<ann@xn--bcher-kva.example>"),
        ("ann@xn--bcher-kva.example", "<ann@bücher.example>"),
        ("@Bücher.Example", "Ann <ANN@XN--BCHER-KVA.example>"),
    ],
)
def test_a_pinned_domain_has_one_spelling(tmp_path, pinned, sender):
    """Mail programs write a domain with letters that are not ASCII in both ways."""
    home = UserMaildir(tmp_path / "m", ("Junk", "Work"))
    command = ("watch", home.root, "--once", "--move", "--pin", f"{pinned}=Work",
               "--db", tmp_path / "db")  # fmt: skip
    assert streamnb_command(*command)[0] == 0
    home.deliver(1, f"From: {sender}\n".encode() + mail(1))
    assert "moved to Work" in streamnb_command(*command)[1]
