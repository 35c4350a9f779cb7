"""What to do with an account: which folder is which class, and whose mail is never judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from streamnb.mailbox.digest import stamped_as

# Quoted names and comments.
_NO_ADDRESS = re.compile(r'"(?:[^"\\]|\\.)*"|\([^()]*\)')
_ANGLED = re.compile(r"<\s*([^<>\s]+@[^<>\s]+)\s*>")
_BARE = re.compile(r"[^<>\s,;:]+@[^<>\s,;:]+")


@dataclass(frozen=True)
class Plan:
    """What to do with an account.

    Attributes
    ----------
    inbox
        The folder where new mail is classified.
    folders
        The class of each folder that is one.
    others
        Folders where mail is that was moved out of any of these.
    ham
        The class of what is moved back to the inbox; None where that only takes back what was said
        before.
    unsure
        The folder for mail that could be of several classes; None where that stays.
    move
        Whether mail is moved into the folder of its class.
    ham_after
        Seconds after which what lies read in the inbox is taken for ham; None for never.
    existing
        Whether what lies in the inbox already is classified too.
    pinned
        The folder for a sender's mail, whatever is in it; "" for mail that is never moved. A sender
        is an address, or a domain that begins with "@".
    """

    inbox: str
    folders: Mapping[str, str] = field(default_factory=lambda: {"Junk": "spam"})
    others: tuple[str, ...] = ()
    ham: str | None = "ham"
    unsure: str | None = None
    move: bool = False
    ham_after: float | None = None
    existing: bool = False
    pinned: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_folders(self) -> list[str]:
        """All folders to look at, those of classes last.

        (What is moved out of them during a look is then not yet seen where it went.)
        """
        pinned = (folder for folder in self.pinned.values() if folder)
        first = dict.fromkeys((self.inbox, *self.others, *pinned))
        last = dict.fromkeys((*([self.unsure] if self.unsure else []), *self.folders))
        return [folder for folder in first if folder not in last] + list(last)

    def folder_of(self, label: str) -> str | None:
        """Where mail of a class belongs; None where it stays in the inbox."""
        return next((folder for folder, of in self.folders.items() if of == label), None)

    def is_filed(self, folder: str, header: bytes) -> bool:
        """Whether a message was put into a folder by a filter that said so in its header."""
        label = self.folders.get(folder)
        if label is None:
            return folder == self.unsure and stamped_as(header, "unsure")
        return stamped_as(header, label)

    def is_retracted(self, before: str, now: str) -> bool:
        """Whether a move says that a message is not what its folder was for.

        Out of the folder of spam that is anywhere else; out of others only back to the inbox: who
        takes a letter from Work to Archive has not said that it was something else.
        """
        if before == self.unsure:
            return now == self.inbox
        label = self.folders.get(before)
        return label is not None and (now == self.inbox or label == "spam")

    def pin_of(self, sender: str) -> str | None:
        """Where a sender's mail goes, "" for nowhere; None where that is not said."""
        domain = "@" + sender.rpartition("@")[2]
        return self.pinned.get(sender, self.pinned.get(domain))


def sender_of(value: bytes) -> str:
    r"""The address in a From field as it stands, in lower case; "" where that is not plain.

    Names in quotes and comments are no addresses, nor is what is encoded.

    Examples
    --------
    >>> sender_of(b'"Ann, or a@b" <Ann@Example.org>'), sender_of(b"ann@example.org (Ann)")
    ('ann@example.org', 'ann@example.org')
    >>> sender_of(b"ann@example.org, bob@example.org")
    ''
    """
    text = _NO_ADDRESS.sub(" ", value[:1000].decode("latin-1"))
    angled = _ANGLED.findall(text)
    found = angled if angled else _BARE.findall(text)
    return found[0].lower() if len(found) == 1 else ""
