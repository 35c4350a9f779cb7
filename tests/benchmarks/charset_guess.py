"""Measure the guess of charsets on the messages of programs, with each constant at half and at twice the value.

    python tests/benchmarks/charset_guess.py [MESSAGES]

Reads gettext catalogues from /usr/share/locale, at most MESSAGES (300) for each language and charset. A message
has at least three bytes beyond ASCII. A message in Latin letters is wrong if it gets a charset. Another one is wrong
if its text is not the same in the charset that it gets. Prints the percentages of wrong messages.
"""

import gettext
import random
import sys
from contextlib import suppress
from pathlib import Path
from unittest import mock

from streamnb.mail import guess_charset

LATIN = {
    **dict.fromkeys(
        ["fr", "de", "es", "pt_BR", "it", "sv", "da", "nl", "fi", "nb"], ("cp1252", "mac-roman")
    ),
    **dict.fromkeys(["pl", "cs", "sk", "hu"], ("cp1250", "iso8859-2")),
    **dict.fromkeys(["lt", "lv", "et"], ("cp1257",)),
    "ca": ("cp1252",),
    "ro": ("cp1250",),
    "tr": ("cp1254",),
    "vi": ("cp1258",),
}
BEYOND = {
    "ru": ("cp1251", "koi8-r", "iso8859-5", "cp866"),
    "uk": ("cp1251", "koi8-u"),
    "bg": ("cp1251",),
    "sr": ("cp1251", "iso8859-5"),
    "el": ("cp1253", "iso8859-7"),
    "he": ("cp1255",),
    "ar": ("cp1256",),
    "th": ("cp874",),
    "ja": ("cp932", "euc_jp"),
    "ko": ("cp949",),
    "zh_CN": ("gb18030",),
    "zh_TW": ("big5hkscs",),
}
CONSTANTS = (
    "_SAMPLE", "_MAX_RUNS", "_MIN_BYTES", "_MIN_DISTINCT", "_MIN_DISTINCT_PAIRS", "_MIN_RUN", "_MAX_LATIN",
    "_MAX_LATIN_RUN", "_MAX_RARE", "_LATIN_LETTER", "_MARK", "_AFTER_LATIN", "_ALONE", "_BESIDE_ASCII",
    "_INVERTED_PAIR", "_CAPITAL", "_MOSTLY_CAPITALS", "_UNUSUAL", "_ASCII_BYTE", "_MARGIN", "_RANK_SCALE",
)  # fmt: skip


def messages(language, charset, count):
    """Return messages of programs in a charset, as pairs of text and bytes, in random order."""
    texts = set()
    for path in Path(f"/usr/share/locale/{language}/LC_MESSAGES").glob("*.mo"):
        with path.open("rb") as file, suppress(UnicodeDecodeError):  # some headers are damaged
            texts.update(filter(None, map(str, gettext.GNUTranslations(file)._catalog.values())))
    ordered = sorted(texts)
    random.Random(1).shuffle(ordered)
    pairs = []
    for text in ordered:
        try:
            data = text.encode(charset)
        except UnicodeEncodeError:
            continue
        if sum(byte > 127 for byte in data) >= 3:
            pairs.append((text, data))
        if len(pairs) == count:
            break
    return pairs


def is_wrong(text, data, is_latin):
    charset = guess_charset.guess_charset(data)
    if is_latin or not charset:
        return bool(charset) == is_latin
    return data.decode(charset, "replace") != text


def figures(latin, beyond):
    """Return the percentages of wrong messages in Latin letters and in others."""
    for cached in (guess_charset._character_weights, guess_charset._letter_weights):
        cached.cache_clear()
    shares = [
        sum(is_wrong(*pair, is_latin) for pair in pairs) / len(pairs)
        for pairs, is_latin in ((latin, True), (beyond, False))
    ]
    return ", ".join(f"{100 * share:.2f}" for share in shares)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    sets = [
        [pair for key, charsets in table.items() for name in charsets for pair in messages(key, name, count)]
        for table in (LATIN, BEYOND)
    ]  # fmt: skip
    print(f"{len(sets[0])} and {len(sets[1])} messages, the default: {figures(*sets)}\n")
    print("| name | value | at half | at twice |\n|---|---|---|---|")
    for name in CONSTANTS:
        value = getattr(guess_charset, name)
        cells = []
        for factor in (0.5, 2):
            changed = type(value)(factor * value)
            with mock.patch.object(guess_charset, name, changed):
                cells.append(figures(*sets))
        print(f"| `{name}` | {value:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
