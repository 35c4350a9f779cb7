"""Names of mail folders in modified UTF-7 (RFC 3501, section 5.1.3)."""

from __future__ import annotations

import binascii
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

from streamnb.patterns import lazy_pattern

_SHIFTED = lazy_pattern(r"&([A-Za-z0-9+,]*)-")
_TO_ENCODE = lazy_pattern(r"&|[^ -~]+")


def encode_folder_name(name: str) -> str:
    """Return a folder's name in modified UTF-7, as IMAP sends it and Maildirs store it.

    Raises
    ------
    ValueError
        If the name has half a surrogate pair, which comes from bytes that are not UTF-8.

    Examples
    --------
    >>> encode_folder_name("Müll & mehr"), encode_folder_name("Junk")
    ('M&APw-ll &- mehr', 'Junk')
    """

    def encode(match: re.Match[str]) -> str:
        if match[0] == "&":
            return "&-"
        base64 = binascii.b2a_base64(match[0].encode("utf-16-be"), newline=False)
        return f"&{base64.decode().rstrip('=').replace('/', ',')}-"

    return _TO_ENCODE.sub(encode, name)


def decode_folder_name(name: str) -> str:
    """Return the text of a name in modified UTF-7; any other name is returned unchanged.

    A name counts as modified UTF-7 only if encoding its text gives the same name again.

    Examples
    --------
    >>> [decode_folder_name(name) for name in ("M&APw-ll", "a&-b", "a&b", "AT&T-list", "Müll")]
    ['Müll', 'a&b', 'a&b', 'AT&T-list', 'Müll']
    """

    def decode(match: re.Match[str]) -> str:
        if not match[1]:
            return "&"
        base64 = match[1].replace(",", "/")
        data = binascii.a2b_base64(base64 + "=" * (-len(base64) % 4))
        return data.decode("utf-16-be")

    try:
        text = _SHIFTED.sub(decode, name)
        is_encoded = encode_folder_name(text) == name and text.isprintable()
    except ValueError:  # binascii.Error and UnicodeError, too
        is_encoded = False
    return text if is_encoded else name


def names_by_text(encoded: Iterable[str]) -> dict[str, str]:
    """Map the text of each folder's name to the name as it is stored.

    If two names have the same text, the key of the later name is its stored form.

    Examples
    --------
    >>> names_by_text(["Junk", "M&APw-ll", "Müll"])
    {'Junk': 'Junk', 'M&APw-ll': 'M&APw-ll', 'Müll': 'Müll'}
    """
    names = dict.fromkeys(encoded)
    stored: dict[str, str] = {}
    for name in names:
        text = decode_folder_name(name)
        is_taken = text in stored or (text != name and text in names)
        stored[name if is_taken else text] = name
    return stored


def find_folder(names: Sequence[str], folders: Collection[str]) -> str | None:
    """Return the first of the names that a folder has; None if there is no folder.

    If no folder has one of the names, their case and their Unicode normalization are ignored. Then
    exactly one folder must match the name. Some file systems store accents as separate characters.

    Examples
    --------
    >>> find_folder(["Junk"], ["INBOX", "junk"]), find_folder(["Junk"], ["JUNK", "junk"])
    ('junk', None)
    >>> find_folder(["Archive", "INBOX.Archive"], ["archive", "INBOX.archive"])
    'archive'
    """
    exact = next((name for name in names if name in folders), None)
    if exact is not None:
        return exact
    for name in names:
        similar = [folder for folder in folders if _fold(folder) == _fold(name)]
        if similar:
            return similar[0] if len(similar) == 1 else None
    return None


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
