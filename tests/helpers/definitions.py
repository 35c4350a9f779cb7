"""Tokens by their definitions, the slow obvious way; tests and fuzzers compare with them."""

import itertools
import re
import unicodedata
from collections import defaultdict

__all__ = ["is_passed_over", "slow_grams", "slow_nested", "slow_pairs", "slow_words"]


_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f"
    "\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


def is_passed_over(c):
    """Return whether no reader sees a character."""
    return unicodedata.category(c) == "Cf" or c == "\0" or bool(_IGNORABLE.match(c))


def slow_words(text):
    """The words by the definition, one character after the other."""
    unspaced = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3021-\u3029"
                          "\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf"
                          "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]")  # fmt: skip

    def kind(c):
        if c in "'-.$!":
            return "inner"
        category = unicodedata.category(c)
        if is_passed_over(c):
            return "hidden"
        if c.isspace() or (category[0] not in "LNM" and c != "_"):
            return "break"
        if unspaced.match(c):
            return "unspaced"
        return "mark" if category[0] == "M" else "word"

    kinds = [kind(c) for c in text] + ["break"]
    words, i = [], 0
    while i < len(text):
        if kinds[i] == "unspaced":
            end = i
            while kinds[end] in ("unspaced", "hidden"):
                end += 1
            run = "".join(text[k] for k in range(i, end) if kinds[k] == "unspaced")
            words += [run] if len(run) == 1 else [run[k : k + 2] for k in range(len(run) - 1)]
            i = end
        elif kinds[i] == "word":
            word = ""
            while kinds[i] in ("word", "mark", "hidden") or (
                kinds[i] == "inner" and kinds[i + 1] == "word"
            ):
                word += text[i] if kinds[i] != "hidden" else ""
                i += 1
            if len(word) <= 40:
                words.append(word)
        else:
            i += 1
    return words


def slow_grams(raw, n, first):
    raw = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")[:first].lower()
    return {raw[i : i + n] for i in range(len(raw) - n + 1)}


def slow_nested(text, n, step):
    """Return the number of distinct n-grams that end in each shorter gram; early grams count 1."""
    counts, known_grams = defaultdict(int), set()
    for end in range(1, len(text) + 1):
        size = min(n, end // step * step)
        if size and text[end - size : end] not in known_grams:
            known_grams.add(text[end - size : end])
            for shorter in range(size, 0, -step):
                counts[text[end - shorter : end]] += 1
                known_grams.add(text[end - shorter : end])
    return dict(counts)


INVISIBLE = re.compile(
    rb"\0|\xc2\xad|\xcd\x8f|\xd8\x9c|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2(?:\x80[\x8b-\x8f\xaa-\xae]|\x81[\xa0-\xaf])|\xe3\x85\xa4"
    rb"|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0)|\xf3\xa0..",
    re.S,
)


def slow_pairs(text, most):
    text = INVISIBLE.sub(b"", text)
    tokens = re.findall(rb"[a-z0-9_\x80-\xff']+|[^a-z0-9_\x80-\xff'\x09-\x0d ]+", text.lower())[
        :most
    ]
    tokens = [token[:40] for token in tokens]
    return {*tokens, *(a + b" " + b for a, b in itertools.pairwise(tokens))}
