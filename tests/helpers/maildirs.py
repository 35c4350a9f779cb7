"""A Maildir as a delivery agent and a person with a mail program use it."""

from pathlib import Path


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
        """Return the folders in which a message lies."""
        folders = [path.parent.parent for path in self.find(number)]
        return ["INBOX" if folder == self.root else folder.name[1:] for folder in folders]

    def move(self, number, folder, flags="S"):
        (path,) = self.find(number)
        path.rename(self.folder(folder) / "cur" / f"{number}.host:2,{flags}")
