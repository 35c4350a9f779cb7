"""A Maildir as a delivery agent and a person with a mail program use it, and its watcher."""

from pathlib import Path

from streamnb import Mailbox
from streamnb.mailbox.digest import digest
from streamnb.mailbox.watch.maildir import MaildirAccount
from streamnb.mailbox.watch.plan import FolderPlan
from streamnb.mailbox.watch.watcher import Watcher

JUNK = {"Junk": "spam"}


def mail(number, words="hello there"):
    return b"Message-ID: <%d@x>\nSubject: m%d\n\n%s\n" % (number, number, words.encode())


class UserMaildir:
    """A Maildir in which messages are delivered, and moved by hand."""

    def __init__(self, root: Path, folders=("Junk", "Trash", "Archive")):
        self.root = root
        for folder in ("", *(f".{name}" for name in folders)):
            for part in ("cur", "new", "tmp"):
                (root / folder / part).mkdir(parents=True)

    def folder(self, name):
        return self.root if name == "INBOX" else self.root / f".{name}"

    def deliver(self, number, content=None, folder="INBOX"):
        content = content or mail(number)
        (self.folder(folder) / "new" / f"{number}.host").write_bytes(content)

    def find(self, number):
        return [path for path in self.root.rglob(f"{number}.host*") if path.is_file()]

    def folders_of(self, number):
        """Return the folders that contain a message."""
        folders = [path.parent.parent for path in self.find(number)]
        return ["INBOX" if folder == self.root else folder.name[1:] for folder in folders]

    def move(self, number, folder, flags="S"):
        (path,) = self.find(number)
        path.rename(self.folder(folder) / "cur" / f"{number}.host:2,{flags}")


class WatchedMaildir:
    """A Maildir, a mailbox and a watcher of both."""

    def __init__(self, folder, classes=JUNK, others=("Archive",), account=MaildirAccount, **plan):
        names = dict.fromkeys([*classes, *others, "Trash", "Look"])
        self.dir = UserMaildir(folder / "Maildir", names)
        self.box = Mailbox(folder / "mail.db")
        self.report_lines = []
        self.account = account(self.dir.root)
        self.plan = FolderPlan("INBOX", classes, others, **plan)
        self.restart()

    def restart(self):
        self.watcher = Watcher(self.box, self.account, self.plan, self.report_lines.append)

    def scan(self):
        self.watcher.scan()

    def label(self, number, words="hello there"):
        current_label = self.box.label_of(digest(mail(number, words)))
        return None if current_label is None else current_label[0]
