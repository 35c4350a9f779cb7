"""Folders that say nothing of the mail in them: the bin, what was sent, drafts."""

from __future__ import annotations

# What mail programs call them, in the languages that come up.
_NAMES = {
    "trash", "bin", "deleted", "deleted items", "deleted messages", "papierkorb",
    "gelöschte elemente", "gelöscht", "corbeille", "éléments supprimés", "papelera",
    "elementos eliminados", "cestino", "prullenbak", "lixeira", "kosz", "корзина", "ごみ箱",
    "已删除邮件",
    "sent", "sent items", "sent messages", "sent mail", "gesendet", "gesendete objekte", "envoyés",
    "messages envoyés", "enviados", "posta inviata", "verzonden", "отправленные",
    "drafts", "draft", "entwürfe", "brouillons", "borradores", "bozze", "concepten", "черновики",
    "outbox", "postausgang", "templates", "vorlagen",
}  # fmt: skip


def is_bin(folder: str) -> bool:
    """Whether a folder, by the last part of its name, is one of those.

    Examples
    --------
    >>> [is_bin(name) for name in ("Trash", "Lists/Trash", "INBOX.Sent Items", "Lists", "Trashy")]
    [True, True, True, False, False]
    """
    return folder.lower().replace(".", "/").rpartition("/")[2] in _NAMES
