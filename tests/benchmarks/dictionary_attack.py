"""Cost of a dictionary attack: mails full of ordinary ham words, learned as spam.

    python tests/benchmarks/dictionary_attack.py CORPUS... [--share .01] [--words 10000]

A fraction of the spam is replaced by mails with the words that most ham messages have (Nelson et al., LEET
2008). CORPUS is a folder of mails labelled ham and spam. Prints a Markdown table. hm% is computed over ham
messages, and the mails of the attack count as spam.
"""

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from streamnb import MailClassifier
from streamnb.corpus import Entry, open_corpus, read
from streamnb.evaluate import Example, RunningMetrics, Summary, prequential


def ham_words(entries: list[Entry], most: int) -> list[bytes]:
    """Return the words that occur in most ham messages."""
    result: Counter[bytes] = Counter()
    for entry in entries:
        if entry.label == "ham":
            result.update(set(re.findall(rb"[A-Za-z]{2,}", content(entry))))
    ranked = sorted(result, key=lambda word: (-result[word], word))
    return ranked[:most]


def content(entry: Entry) -> bytes:
    message = read(entry)
    return message if isinstance(message, bytes) else message.encode()


def stream(
    entries: list[Entry], classifier: MailClassifier, share: float, words: list[bytes]
) -> Iterator[Example]:
    rng = random.Random(1)
    spam = [i for i, entry in enumerate(entries) if entry.label == "spam"]
    replaced = set(rng.sample(spam, round(share * len(spam))))
    for i, entry in enumerate(entries):
        raw = content(entry)
        if i in replaced:
            shuffled = rng.sample(words, len(words))
            lines = [b" ".join(shuffled[k : k + 10]) for k in range(0, len(shuffled), 10)]
            raw = b"Subject: " + lines[0] + b"\n\n" + b"\n".join(lines[1:])
        yield Example(classifier.count(raw), entry.label)


def figures(entries: list[Entry], share: float, words: list[bytes], believe: bool) -> Summary:
    classifier = MailClassifier(label_noise=0.0 if believe else None)
    metrics = RunningMetrics("spam")
    for step in prequential(stream(entries, classifier, share, words), classifier.model):
        metrics.record(step)
    return metrics.summary(with_intervals=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--words", type=int, default=10000)
    arguments = parser.parse_args()
    print(
        "| stream | hm% before | hm% attacked | sm% before | sm% attacked | label_noise=0: hm% attacked |"
    )
    print("|---|---|---|---|---|---|")
    for corpus in arguments.corpora:
        entries = list(open_corpus(corpus))
        words = ham_words(entries, arguments.words)
        before = figures(entries, 0.0, words, believe=False)
        after = figures(entries, arguments.share, words, believe=False)
        trusting = figures(entries, arguments.share, words, believe=True)
        row = [
            before.hm_percent,
            after.hm_percent,
            before.sm_percent,
            after.sm_percent,
            trusting.hm_percent,
        ]
        print(f"| {corpus.name} | " + " | ".join(f"{x:.2f}" for x in row) + " |")


if __name__ == "__main__":
    main()
