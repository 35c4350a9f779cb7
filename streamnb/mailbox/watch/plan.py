"""The rules of a watched account: folders of classes, and pinned senders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streamnb.mailbox.service.addresses import canonical_address
from streamnb.patterns import lazy_pattern

# Pattern of quoted names and comments.
_NOT_ADDRESS = lazy_pattern(r'"(?:[^"\\]|\\.)*"|\([^()]*\)')
_ANGLED = lazy_pattern(r"<\s*([^<>\s]+@[^<>\s]+)\s*>")
_BARE = lazy_pattern(r"[^<>\s,;:]+@[^<>\s,;:]+")


@dataclass(frozen=True)
class FolderPlan:
    """The rules of a watched account.

    Attributes
    ----------
    inbox
        The folder in which new mail is classified.
    folders
        Classes by folder.
    others
        Further folders to list, to detect moves out of them.
    ham
        The class of mail that a person moves back to the inbox. None if the move only removes the
        label.
    unsure
        The folder for unsure mail; None if such mail stays in the inbox.
    move
        Whether mail is moved into the folder of its class.
    ham_after
        Seconds after which mail that was read and stays in the inbox is learned as ham. None for
        never.
    existing
        Whether to classify the mail that is in the inbox at the first scan, too.
    pinned
        Folders by sender, for all mail of the sender; "" to never move it. A sender is an address,
        or "@" and a domain.
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
        """All folders to list; the folders of classes come last.

        If a message leaves a class's folder during a scan, the next scan finds it in its new
        folder.
        """
        pinned = (folder for folder in self.pinned.values() if folder)
        first = dict.fromkeys((self.inbox, *self.others, *pinned))
        last = dict.fromkeys((*([self.unsure] if self.unsure else []), *self.folders))
        return [folder for folder in first if folder not in last] + list(last)

    def folder_of(self, label: str) -> str | None:
        """Return the folder of a class; None if its mail stays in the inbox."""
        return next((folder for folder, name in self.folders.items() if name == label), None)

    def pinned_folder(self, sender: str) -> str | None:
        """Return the folder of a pinned sender's mail, "" to never move it; None if not pinned."""
        domain = "@" + sender.rpartition("@")[2]
        return self.pinned.get(sender, self.pinned.get(domain))


def sender_address(value: bytes) -> str:
    r"""Return the canonical address in a From field; "" unless there is exactly one.

    Names in quotes, comments and encoded words are not read as addresses.

    Examples
    --------
    >>> sender_address(b'"Ann, or a@b" <Ann@Example.org>'), sender_address(b"ann@example.org (Ann)")
    ('ann@example.org', 'ann@example.org')
    >>> sender_address(b"ann@example.org, bob@example.org")
    ''
    """
    text = _NOT_ADDRESS.sub(" ", value[:1000].decode("utf-8", "replace"))
    angled = _ANGLED.findall(text)
    addresses = angled or _BARE.findall(text)
    return canonical_address(addresses[0]) if len(addresses) == 1 else ""
