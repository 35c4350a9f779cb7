"""Names of folders, layouts of Maildirs and moves between any folders."""

import os

import pytest
from maildirs import UserMaildir, mail

from streamnb import Mailbox
from streamnb.cli.watch import _split_pairs
from streamnb.corpus.maildir_flags import split_maildir_flags
from streamnb.errors import CorpusError
from streamnb.mailbox.digest import digest
from streamnb.mailbox.watch.access import parse_imap_url
from streamnb.mailbox.watch.account import ListedMessage, junk_keyword
from streamnb.mailbox.watch.folder_names import decode_folder_name, encode_folder_name
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

TRASH_NAMES = (
    "Trash", "Trash.2024", "Papierkorb", "Gelöscht", "Corbeille", "Papelera", "Cestino", "Prullenbak",
    "Kosz", "Koš", "Roskakori", "Papirkurv", "Çöp Kutusu", "Κάδος", "Корзина", "سلة المهملات",
    "אשפה", "ゴミ箱", "휴지통", "已删除", "Old spam", "Archive",
)  # fmt: skip


@pytest.fixture
def box(tmp_path):
    with Mailbox(tmp_path / "mail.db") as box:
        yield box


def watcher_of(box, account, folders, **plan):
    others = tuple(account.folder_names())
    return Watcher(box, account, FolderPlan("INBOX", folders, others, **plan), lambda line: None)


def label(box, number):
    current = box.label_of(digest(mail(number)))
    return None if current is None else current[0]


@pytest.mark.parametrize("encode", [str, encode_folder_name])
@pytest.mark.parametrize("name", TRASH_NAMES)
def test_a_move_out_of_spam_to_an_unwatched_folder_learns_nothing(tmp_path, box, name, encode):
    home = UserMaildir(tmp_path / "m", ("Junk", encode(name)))
    account = MaildirAccount(home.root)
    watcher = watcher_of(box, account, {"Junk": "spam"})
    home.deliver(1, folder="Junk")
    home.deliver(2)
    watcher.scan()
    home.move(2, "Junk")
    watcher.scan()
    for number in (1, 2):
        home.move(number, encode(name))
    watcher.scan()
    assert (label(box, 1), label(box, 2)) == (None, "spam")
    assert name in account.folder_names()


@pytest.mark.parametrize("below", ["Junk.2024", "Junk.old.2024"])
def test_a_move_below_a_classs_folder_is_not_a_label_and_a_move_out_is(tmp_path, box, below):
    home = UserMaildir(tmp_path / "m", ("Junk", below))
    watcher = watcher_of(box, MaildirAccount(home.root), {"Junk": "spam"})
    home.deliver(1)
    home.deliver(2, folder="Junk")
    watcher.scan()
    home.move(1, "Junk")
    watcher.scan()
    for folder, labels in ((below, ("spam", None)), ("Junk", ("spam", None)), (below, ("spam", None)),
                           ("INBOX", (None, "ham"))):  # fmt: skip
        for number in (1, 2):
            home.move(number, folder)
        watcher.scan()
        assert (label(box, 1), label(box, 2)) == labels, folder


def test_a_copy_is_a_move_only_after_the_original_is_deleted(tmp_path, box):
    home = UserMaildir(tmp_path / "m")
    watcher = watcher_of(box, MaildirAccount(home.root), {"Junk": "spam"})
    for number in (1, 2):
        home.deliver(number)
    watcher.scan()
    for number in (1, 2):
        (home.root / ".Junk" / "cur" / f"copy{number}:2,").write_bytes(mail(number))
    watcher.scan()
    assert (label(box, 1), label(box, 2)) == (None, None)
    home.find(1)[0].unlink()  # the second step of a move
    watcher.scan()
    watcher.scan()
    assert (label(box, 1), label(box, 2)) == ("spam", None)


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("Junk", "Junk"), ("Müll", "M&APw-ll"), ("Спам", "&BCEEPwQwBDw-"), ("ゴミ箱", "&MLQw33ux-"),
        ("a&b", "a&-b"), ("a,b?#", "a,b?#"), ("👍", "&2D3cTQ-"), ("&", "&-"),
    ],
)  # fmt: skip
def test_names_are_encoded_as_imap_has_them(name, encoded):
    assert encode_folder_name(name) == encoded
    assert decode_folder_name(encoded) == name


@pytest.mark.parametrize(
    "name", ["a&b", "AT&T-x", "&AGE-", "&2D0-", "&APw", "Müll", "&AAo-", "&&&"]
)
def test_a_name_that_is_not_encoded_stays_as_it_is(name):
    assert decode_folder_name(name) == name


@pytest.mark.parametrize("name", ["Спам", "a,b", "what?", "#1", "a&b", "100%", "it's", "a b"])
def test_any_name_can_be_a_folder_of_spam(tmp_path, box, name):
    home = UserMaildir(tmp_path / "m", ())
    account = MaildirAccount(home.root)
    account.create_folder(account.canonical_name(name))
    assert (home.root / f".{encode_folder_name(name)}" / "cur").is_dir()
    assert account.canonical_name(name) == name == account.canonical_name(encode_folder_name(name))
    watcher = watcher_of(box, account, {name: "spam"})
    home.deliver(1)
    watcher.scan()
    home.move(1, encode_folder_name(name))
    watcher.scan()
    assert label(box, 1) == "spam"


@pytest.mark.parametrize(
    ("stored", "name"),
    [("junk", "Junk"), ("Junk", "JUNK"), ("Mu\u0308ll", "Müll"), ("Müll", "Mu\u0308ll"),
     ("MÜLL", "Mu\u0308ll"), ("AΣ", "aς")],
)  # fmt: skip
def test_a_folder_is_found_by_its_name_in_another_case_or_normalization(tmp_path, stored, name):
    UserMaildir(tmp_path / "m", (stored,))
    account = MaildirAccount(tmp_path / "m")
    assert account.canonical_name(name) == stored
    account.create_folder(name)
    assert account.canonical_name(name) == name
    assert account.canonical_name(stored) == stored


def test_a_folder_whose_name_begins_with_dots_is_found(tmp_path):
    UserMaildir(tmp_path / "m", (".dots",))
    account = MaildirAccount(tmp_path / "m")
    assert account.canonical_name("..dots") == account.canonical_name(".dots") == ".dots"
    assert account.list_messages(".dots") == {}


def test_a_comma_can_be_part_of_a_folders_name():
    assert _split_pairs("spam=Junk, old,ham=INBOX") == ["spam=Junk, old", "ham=INBOX"]


@pytest.mark.parametrize("folder", ["Bills?", "a#b", "a?b#c", "x&y", "a,b", "Lists/py"])
def test_an_address_takes_any_folders_name(folder):
    assert parse_imap_url(f"imap://ann@localhost:1143/{folder}").folder == folder


@pytest.mark.parametrize("inbox", ["Inbox", "INBOX", "inbox"])
@pytest.mark.parametrize("is_inbox_named", [False, True])
def test_maildirs_side_by_side_are_watched(tmp_path, box, inbox, is_inbox_named):
    root = tmp_path / "Mail"
    for folder in (inbox, "Junk", "Junk/2024", "Lists/python"):
        for part in ("cur", "new", "tmp"):
            (root / folder / part).mkdir(parents=True)
    account = MaildirAccount(root / inbox if is_inbox_named else root)
    assert account.folder_names() == ["INBOX", "Junk", "Junk/2024", "Lists/python"]
    assert account.canonical_name(inbox) == "INBOX"
    account.create_folder(account.canonical_name("Work"))
    assert (root / "Work" / "new").is_dir()
    watcher = watcher_of(box, account, {"Junk": "spam"})
    (root / inbox / "new" / "1.host").write_bytes(mail(1))
    watcher.scan()
    (root / inbox / "new" / "1.host").rename(root / "Junk" / "cur" / "1.host:2,S")
    watcher.scan()
    assert label(box, 1) == "spam"
    (root / "Junk" / "cur" / "1.host:2,S").rename(root / "Junk/2024" / "cur" / "1.host:2,S")
    watcher.scan()
    assert label(box, 1) == "spam"
    (root / "Junk/2024" / "cur" / "1.host:2,S").rename(root / inbox / "cur" / "1.host:2,S")
    watcher.scan()
    assert label(box, 1) is None
    assert account.move_message("INBOX", "1.host", "Junk", True)


def test_a_folder_without_an_inbox_is_refused(tmp_path):
    UserMaildir(tmp_path / "Mail" / "Junk", ())
    with pytest.raises(CorpusError, match="not a Maildir"):
        MaildirAccount(tmp_path / "Mail")


@pytest.mark.parametrize(
    "separator", [":2,", ";2,", "!2,", "%3A2,", "%3a2,", "\uf03a2,", "\uf0222,"]
)
def test_flags_are_read_after_each_separator(tmp_path, separator):
    assert split_maildir_flags(f"1.host{separator}ST") == ("1.host", separator, "ST")
    home = UserMaildir(tmp_path / "m")
    for name, flags in (("1.host", "S"), ("2.host", "ST"), ("3.host", "")):
        (home.root / "cur" / f"{name}{separator}{flags}").write_bytes(mail(1))
    account = MaildirAccount(home.root)
    messages = account.list_messages("INBOX")
    assert {uid: message.is_read for uid, message in messages.items()} == {
        "1.host": True,
        "3.host": False,
    }
    account.move_message("INBOX", "3.host", "Junk", True)
    assert (home.root / ".Junk" / "cur" / f"3.host{separator}").exists()


@pytest.mark.parametrize(
    ("name", "moved"),
    [("1.host,U=7", "1.host"), ("1.host,U=7,FMD5=0a", "1.host,FMD5=0a"), ("1,S=9", "1,S=9")],
)
def test_a_moved_file_has_no_uid_of_its_old_folder(tmp_path, name, moved):
    """mbsync and OfflineIMAP take the UID in a name for that of the folder."""
    home = UserMaildir(tmp_path / "m")
    path = home.root / "cur" / f"{name}:2,S"
    path.write_bytes(mail(1))
    account = MaildirAccount(home.root)
    with Mailbox(tmp_path / "mail.db") as box:
        watcher = watcher_of(box, account, {"Junk": "spam"})
        watcher.scan()
        assert account.move_message("INBOX", name, "Junk", True)
        moved_path = home.root / ".Junk" / "cur" / f"{moved}:2,S"
        watcher.scan()
        assert label(box, 1) == "spam"  # a person can use the same function
        moved_path.rename(moved_path.with_name(f"{name}0:2,S"))  # mbsync sends it to the server
        watcher.scan()
        assert label(box, 1) == "spam"
        moved_path.with_name(f"{name}0:2,S").rename(path)
        watcher.scan()
        assert label(box, 1) is None


@pytest.mark.parametrize(
    ("flags", "keyword"),
    [
        ("$Junk", "junk"), ("Junk", "junk"), ("$Phishing", "junk"), ("$NotJunk", "notjunk"),
        ("NotJunk", "notjunk"), ("NonJunk", "notjunk"), ("Junk NonJunk", ""), ("$Junk Junk", "junk"),
        ("\\Seen $label1", ""), ("$Phishing $NotJunk", ""),
    ],
)  # fmt: skip
def test_keywords_of_mail_programs_are_known(flags, keyword):
    assert junk_keyword({flag.lower().encode() for flag in flags.split()}) == keyword


@pytest.mark.parametrize("part", ["cur", "new"])
def test_keywords_in_a_maildir_of_dovecot_are_labels(tmp_path, box, part):
    home = UserMaildir(tmp_path / "m")
    home.deliver(1)
    home.deliver(2)
    watcher = watcher_of(box, MaildirAccount(home.root), {"Junk": "spam"})
    watcher.scan()
    (home.root / "dovecot-keywords").write_bytes(b"0 $label1\n1 $Junk\nx\n26 NotJunk\n2 nonjunk\n")
    (home.root / "new" / "1.host").rename(home.root / part / "1.host:2,Sab")
    (home.root / "new" / "2.host").rename(home.root / part / "2.host:2,Sac")
    watcher.scan()
    assert (label(box, 1), label(box, 2)) == ("spam", "ham")
    (home.root / part / "1.host:2,Sab").rename(home.root / part / "1.host:2,Sa{")
    watcher.scan()
    assert (label(box, 1), label(box, 2)) == (None, "ham")


def test_old_keywords_of_a_maildir_are_not_labels_after_an_upgrade(tmp_path, box):
    """A database of an earlier state has no keywords of a Maildir."""
    home = UserMaildir(tmp_path / "m")
    (home.root / "dovecot-keywords").write_bytes(b"0 $Junk\n1 NotJunk\n")
    for number, flags in ((1, "Sa"), (2, "S"), (3, "Sb")):
        (home.root / "cur" / f"{number}.host:2,{flags}").write_bytes(mail(number))
    account = MaildirAccount(home.root)
    watcher_of(box, account, {"Junk": "spam"}).scan()
    with box.database.writing() as connection:
        connection.execute("UPDATE watched SET keyword = ''")
        connection.execute("DELETE FROM state WHERE name LIKE 'keywords %'")
    # moved before the first scan after the upgrade
    (home.root / "cur" / "3.host:2,Sb").rename(home.folder("Archive") / "cur" / "3.host:2,Sb")
    (home.folder("Archive") / "dovecot-keywords").write_bytes(b"1 NotJunk\n")
    watcher = watcher_of(box, account, {"Junk": "spam"})
    watcher.scan()
    assert [label(box, number) for number in (1, 2, 3)] == [None, None, None]
    (home.root / "cur" / "1.host:2,Sa").rename(home.root / "cur" / "1.host:2,Sb")
    (home.root / "cur" / "2.host:2,S").rename(home.root / "cur" / "2.host:2,Sa")
    watcher_of(box, account, {"Junk": "spam"}).scan()
    assert [label(box, number) for number in (1, 2, 3)] == ["ham", "spam", None]


@pytest.mark.parametrize("damage", [None, b"", b"1 $Ju", b"\xff\0\n"])
def test_a_damaged_list_of_keywords_changes_no_label(tmp_path, box, damage):
    home = UserMaildir(tmp_path / "m")
    keywords = home.root / "dovecot-keywords"
    content = b"".join(b"%d label%d\n" % (i, i) for i in range(25)) + b"25 $Junk\n26 NotJunk\n"
    keywords.write_bytes(content)
    home.deliver(1)
    home.deliver(2)
    watcher = watcher_of(box, MaildirAccount(home.root), {"Junk": "spam"})
    watcher.scan()
    (home.root / "new" / "1.host").rename(home.root / "cur" / "1.host:2,Sz")
    watcher.scan()
    assert (label(box, 1), label(box, 2)) == ("spam", None)
    keywords.unlink() if damage is None else keywords.write_bytes(damage)
    (home.root / "new" / "2.host").rename(home.root / "cur" / "2.host:2,Sz")
    (home.root / "cur" / "3.host:2,Sz").write_bytes(mail(3))
    watcher.scan()
    assert (label(box, 1), label(box, 2), label(box, 3)) == ("spam", None, None)
    keywords.write_bytes(content)
    watcher.scan()
    assert (label(box, 1), label(box, 2), label(box, 3)) == ("spam", "spam", None)


@pytest.mark.parametrize(
    ("source", "target", "flags"),
    [
        (b"0 $Label1\n1 work\n", b"0 other\n3 $label1\n", "RSd"),
        (b"0 $label1\n1 work\n", None, "RS"),
        (None, None, "RSab"),  # of another program, with the same letters in all folders
        (None, b"0 other\n", "RS"),
        (b"0 $label1\n", b"0 $label1\n1 other\n", "RSa"),
    ],
)
def test_a_moved_message_has_the_same_keywords(tmp_path, source, target, flags):
    home = UserMaildir(tmp_path / "m")
    for folder, text in (("INBOX", source), ("Junk", target)):
        if text is not None:
            (home.folder(folder) / "dovecot-keywords").write_bytes(text)
    (home.root / "cur" / "1.host:2,RSab").write_bytes(mail(1))
    account = MaildirAccount(home.root)
    account.folder_names()
    assert account.move_message("INBOX", "1.host", "Junk", True)
    assert [path.name for path in home.find(1)] == [f"1.host:2,{flags}"]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_list_of_keywords_that_is_not_a_file_is_ignored(tmp_path, kind):
    home = UserMaildir(tmp_path / "m")
    path = home.root / "dovecot-keywords"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    (home.root / "cur" / "1.host:2,Sa").write_bytes(mail(1))
    listing = MaildirAccount(home.root).list_messages("INBOX")
    assert listing == {"1.host": ListedMessage("?", True)}
