"""Sequences of actions of mail programs between two scans, and the labels that they give."""

import shutil

import pytest
from maildirs import WatchedMaildir, mail

from streamnb.mailbox.watch.account import ListedMessage
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.mailbox.watch.plan import FolderPlan


class KeywordAccount(MaildirAccount):
    """A Maildir whose messages have keywords, by their numbers, as on an IMAP server."""

    def __init__(self, path):
        super().__init__(path)
        self.keywords = {}

    def list_messages(self, folder):
        listing = super().list_messages(folder)
        return {
            uid: ListedMessage(self.keywords.get(uid.partition(".")[0], ""), listed.is_read)
            for uid, listed in listing.items()
        }


class Sequence(WatchedMaildir):
    """A watched Maildir, and the actions of a mail program on its message 1."""

    def __init__(self, tmp_path):
        classes = {"Junk": "spam", "Work": "work"}
        super().__init__(tmp_path, classes, ("Archive", "Trash"), KeywordAccount)
        self.deliveries = 0

    def run(self, step):
        action, _, target = step.partition(" ")
        if action == "look":
            self.watcher.scan()
        elif action == "deliver":
            self.deliveries += 1
            trace = b"Received: by x;\n\t%d\n" % self.deliveries
            self.dir.deliver(1, trace + mail(1), target)
        elif action == "move":
            self.dir.move(1, target)
        elif action == "copy":
            (path,) = self.dir.find(1)
            shutil.copy(path, self.dir.folder(target) / "cur" / "1.host.copy:2,S")
        elif action == "delete":
            for path in self.dir.find(1):
                if path.parent.parent == self.dir.folder(target):
                    path.unlink()
        elif action == "trash":  # the flag of a deleted message that is not yet removed
            for path in self.dir.find(1):
                if path.parent.parent == self.dir.folder(target):
                    path.rename(self.dir.folder(target) / "cur" / "1.host:2,ST")
        elif action == "rename":
            old, new = target.split(">")
            self.dir.folder(old).rename(self.dir.folder(new))
        elif action == "create":
            for part in ("cur", "new", "tmp"):
                (self.dir.folder(target) / part).mkdir(parents=True)
        elif action == "remove":
            shutil.rmtree(self.dir.folder(target))
        elif action == "list":  # of folders, before each look of the command
            others = tuple(self.account.folder_names())
            self.watcher.plan = FolderPlan("INBOX", self.watcher.plan.folders, others)
        elif action == "keyword":
            self.account.keywords["1"] = target
        elif action == "restart":
            self.plan = self.watcher.plan
            self.restart()
        elif action == "reopen":  # by another process
            self.account = KeywordAccount(self.dir.root)
            self.run("restart")


SEQUENCES = {
    "there and back": ("move Junk, move INBOX, look", None),
    "there, back and there": ("move Junk, move INBOX, move Junk, look", "spam"),
    "by way of another folder": ("move Archive, move Junk, look", "spam"),
    "out by way of another folder": ("move Junk, look, move Archive, look, move INBOX, look", "spam"),
    "one class to another": ("move Junk, look, move Work, look", "work"),
    "one class to another and back": ("move Junk, look, move Work, look, move Junk, look", "spam"),
    "two classes between looks": ("move Work, move Junk, look", "spam"),
    "taken back at once": ("move Junk, look, move INBOX, look", None),
    "to the trash from spam": ("move Junk, look, move Trash, look", "spam"),
    "restored from the trash": ("move Trash, look, move INBOX, look", None),
    "from the trash to spam": ("move Trash, look, move Junk, look", "spam"),
    "a copy": ("copy Junk, look, look, look", None),
    "a copy and deletion": ("copy Junk, look, delete INBOX, look, look", "spam"),
    "a copy and late deletion": ("copy Junk, look, look, look, delete INBOX, look, look", "spam"),
    "a copy and late deletion after a restart": (
        "copy Junk, look, look, restart, delete INBOX, look", "spam"
    ),
    "a copy and a late flag": ("copy Junk, look, look, trash INBOX, look", "spam"),
    "a late deletion of the copy": ("copy Junk, look, look, delete Junk, look, look", None),
    "a copy and deletion at once": ("copy Junk, delete INBOX, look", "spam"),
    "a copy and a flag": ("copy Junk, trash INBOX, look", "spam"),
    "a copy back and deletion": ("move Junk, look, copy INBOX, look, delete Junk, look, look", None),
    "a copy back of delivered spam": ("look", None, "Junk"),
    "a rescue by copy and deletion": ("copy INBOX, look, delete Junk, look, look", "ham", "Junk"),
    "a rescue by copy and flag": ("copy INBOX, trash Junk, look", "ham", "Junk"),
    "a rescue": ("move INBOX, look", "ham", "Junk"),
    "a rescue and back": ("move INBOX, look, move Junk, look", "spam", "Junk"),
    "a keyword": ("keyword junk, look", "spam"),
    "a keyword and a move": ("keyword junk, move Junk, look", "spam"),
    "a keyword, then a move": ("keyword junk, look, move Junk, look", "spam"),
    "a keyword and a move to the trash": ("keyword junk, move Trash, look", "spam"),
    "a keyword and a move to a folder": ("keyword notjunk, move Archive, look", "ham"),
    "a keyword that is taken off": ("keyword junk, look, keyword , look", None),
    "a keyword changed": ("keyword junk, look, keyword notjunk, look", "ham"),
    "a keyword taken off before a move": (
        "keyword junk, look, keyword , move Archive, look", None
    ),
    "a keyword taken off on the way to the inbox": (
        "move Archive, look, keyword junk, look, keyword , move INBOX, look", None
    ),
    "a keyword that a program set, taken off a message called ham": (
        "move INBOX, look, keyword , look", "ham", "Junk", "junk"
    ),
    "not junk, back to the inbox": (
        "move Junk, look, keyword notjunk, move INBOX, look", "ham"
    ),
    "not junk, within the folder": ("move Junk, look, keyword notjunk, look", "ham"),
    "not junk, then back": ("move Junk, look, keyword notjunk, look, move INBOX, look", "ham"),
    "not junk of delivered spam": ("keyword notjunk, move INBOX, look", "ham", "Junk"),
    "restored from the trash after spam": (
        "move Junk, look, move Trash, look, look, move INBOX, look", "spam"
    ),
    "another keyword than the folder": ("keyword notjunk, move Junk, look", "spam"),
    "a keyword at delivery": ("look", None, "INBOX", "junk"),
    "a keyword at delivery, and a move": ("look, move Archive, look", None, "INBOX", "junk"),
    "deleted from spam and delivered again": (
        "move Junk, look, delete Junk, look, deliver INBOX, look", "spam"
    ),
    "deleted from spam and delivered again at once": (
        "look, delete Junk, look, deliver INBOX, look", None, "Junk"
    ),
    "deleted and delivered again to spam": ("delete INBOX, look, deliver Junk, look", None),
    "deleted and delivered again to spam at once": ("delete INBOX, deliver Junk, look", None),
    "two deliveries, and the first deleted": (
        "deliver Junk, look, look, delete INBOX, look, look", None
    ),
    "a delivery to spam, shown in a view until it is read": (
        "delete INBOX, look, deliver Junk, copy Archive, look, delete Archive, look, look", None
    ),
    "a folder renamed": ("move Archive, look, rename Archive>Old, list, look, look", None),
    "spam out of a renamed folder": (
        "move Archive, look, rename Archive>Old, list, look, move Junk, look", "spam"
    ),
    "renamed there and back": (
        "move Archive, look, rename Archive>Old, list, look, rename Old>Archive, list, look, "
        "move Junk, look", "spam"
    ),
    "the folder of a class renamed there and back": (
        "rename Junk>Old, create Junk, list, look, remove Junk, rename Old>Junk, list, look", None, "Junk"
    ),
    "back to the inbox out of a renamed folder": (
        "rename Junk>Old, create Junk, list, look, remove Junk, rename Old>Junk, list, look, "
        "move INBOX, look", "ham", "Junk"
    ),
    "a folder renamed to that of a class": (
        "move Archive, list, look, remove Junk, rename Archive>Junk, list, look", None
    ),
    "a folder renamed while nobody watched": (
        "move Archive, list, look, rename Archive>Old, reopen, list, look, move Junk, look", "spam"
    ),
    "a folder renamed to that of a class while nobody watched": (
        "move Archive, list, look, remove Junk, rename Archive>Junk, reopen, list, look", None
    ),
    "the folder of a class renamed while nobody watched": (
        "rename Junk>Old, reopen, create Junk, list, look, remove Junk, rename Old>Junk, reopen, list, look", None, "Junk"
    ),
    "out of a folder that is then deleted": (
        "move Archive, list, look, move Junk, remove Archive, list, look, look", "spam"
    ),
    "out of a folder renamed at once": (
        "move Archive, list, look, rename Archive>Old, move Junk, list, look", "spam"
    ),
    "to the inbox out of a folder that is then deleted": (
        "move Archive, list, look, move INBOX, remove Archive, list, look, look", None
    ),
    "spam out of a folder that was deleted with it": (
        "move Junk, look, move Archive, list, look, remove Archive, list, look", "spam"
    ),
    "a folder below spam": ("move Junk, look, rename Archive>Junk.Old, list, look", "spam"),
    "a move while nobody watched": ("move Junk, restart, look", "spam"),
    "a move back while nobody watched": ("move Junk, look, move INBOX, restart, look", None),
}  # fmt: skip


@pytest.mark.parametrize("is_once", [False, True], ids=["one watcher", "a watcher for each look"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_end_in_the_label_a_person_gave(tmp_path, name, is_once):
    steps, label, *delivery = SEQUENCES[name]
    folder, keyword = (*delivery, *("INBOX", "")[len(delivery) :])
    sequence = Sequence(tmp_path)
    sequence.run("look")
    sequence.run(f"keyword {keyword}")
    sequence.run(f"deliver {folder}")
    sequence.run("look")
    for step in steps.split(", "):
        if is_once:
            sequence.run("restart")
        sequence.run(step)
    assert sequence.label(1) == label
    assert sequence.box.verify() == []
    sequence.box.close()
