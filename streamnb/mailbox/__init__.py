"""Mailboxes: counts and a ledger in a database, and what is done with mail as it arrives."""

from streamnb.mailbox.database import default_path
from streamnb.mailbox.store import Mailbox, Outcome, Undone

__all__ = ["Mailbox", "Outcome", "Undone", "default_path"]
