"""What the way of teaching does to the default: frozen figures on messages it has not seen.

    python tests/benchmarks/regimes.py STREAM [STREAM ...] [--mailbox] [--seeds 2]

Of each stream a tenth is held back (at most 700 messages), drawn by each seed; the rest is taught in
several orders, in memory or (--mailbox) in a database, learned anew where that is due as `learn`
does. Errors, pairs ranked wrongly, log loss, and what becomes of spam and ham by costs: sure spam,
unsure, sure ham. The last rows are cold starts: n spam and m ham, the worst cell.
"""

import argparse
import math
import random
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from streamnb import Mailbox, MailClassifier, TextClassifier
from streamnb.corpus import open_corpus, read
from streamnb.mailbox.rebuild import is_due, rebuild

FIGURES = ("errors %", "(1-ROCA)%", "log loss", "spam: S U H", "ham: S U H")


def by_class(messages, first=0):
    labels = sorted({label for _, label in messages})
    order = labels[first:] + labels[:first]
    return sorted(messages, key=lambda message: order.index(message[1]))


def blocks(messages, size):
    """By turns, so many of the rarest class and in proportion of the others."""
    of = defaultdict(list)
    for message in messages:
        of[message[1]].append(message)
    rounds = math.ceil(min(map(len, of.values())) / size)
    return [
        message
        for i in range(rounds)
        for group in of.values()
        for message in group[len(group) * i // rounds : len(group) * (i + 1) // rounds]
    ]


def skewed(messages, rare):
    """A hundredth of one class."""
    some = [message for message in messages if message[1] == rare]
    others = [message for message in messages if message[1] != rare]
    mixed = some[: max(len(others) // 99, 1)] + others
    random.Random(1).shuffle(mixed)
    return mixed


def orders(messages, classes):
    yield "mixed", messages
    yield "one class after the other", by_class(messages)
    yield "the other way round", by_class(messages, 1)
    yield "blocks of 50", blocks(messages, 50)
    yield "blocks of 500", blocks(messages, 500)
    if set(classes) == {"ham", "spam"}:
        yield "99 ham : 1 spam", skewed(messages, "spam")
        yield "1 ham : 99 spam", skewed(messages, "ham")


def taught(made, messages, in_mailbox):
    """What classifies after learning messages in their order."""
    if not in_mailbox:
        classifier = made()
        for content, label in messages:
            classifier.learn_one(content, label)
        return classifier.classify, lambda: None
    folder = tempfile.TemporaryDirectory()
    mailbox = Mailbox(Path(folder.name) / "db", classifier=made(label_noise=0.0))
    labels = {}
    for content, label in messages:
        content = content if isinstance(content, bytes) else content.encode()
        labels.setdefault(label, len(labels))
        mailbox.learn(content, label)
    if is_due(mailbox):
        rebuild(mailbox)
    return mailbox.classify, lambda: (mailbox.close(), folder.cleanup())


def figures(classify, held):
    """Errors, pairs wrong, log loss, and counts of decisions, of messages held back."""
    wrong, loss, scores = 0, 0.0, {"spam": [], "ham": []}
    decided = {"spam": np.zeros(3), "ham": np.zeros(3)}
    for content, label in held:
        content = content if isinstance(content, bytes) else content.encode()
        verdict = classify(content, 0)
        shares = verdict.probabilities
        wrong += max(shares, key=shares.get, default=None) != label
        loss -= math.log(max(shares.get(label, 0.0), 1e-12))
        if label in scores and "spam" in shares:
            sign = 1 if verdict.label == "spam" else -1
            scores[label].append(sign * verdict.log_odds)
            decided[label][1 if verdict.unsure else 0 if verdict.label == "spam" else 2] += 1
    spam, ham = (np.array(scores[label]) for label in ("spam", "ham"))
    pairs = len(spam) * len(ham)
    above = np.searchsorted(np.sort(ham), spam, "left") + np.searchsorted(
        np.sort(ham), spam, "right"
    )
    roca = 100 * (1 - above.sum() / 2 / pairs) if pairs else math.nan
    return 100 * wrong / len(held), roca, loss / len(held), *decided.values()


def show(name, found):
    errors, roca, loss, spam, ham = (np.mean(column, axis=0) for column in zip(*found, strict=True))
    shares = [" ".join(f"{100 * x / max(of.sum(), 1):.1f}" for x in of) for of in (spam, ham)]
    print(
        f"| {name} | {errors:.2f} | {roca:.3f} | {loss:.4f} | {shares[0]} | {shares[1]} |",
        flush=True,
    )


def cold_starts(made, messages, held, in_mailbox):
    """The share of ham called sure spam in the worst cell of n spam and m ham."""
    worst = 0.0
    for spam in (1, 2, 5, 15, 50, 500):
        for ham in (1, 2, 5, 15, 50, 500):
            some = [m for m in messages if m[1] == "spam"][:spam]
            some += [m for m in messages if m[1] == "ham"][:ham]
            random.Random(1).shuffle(some)
            classify, close = taught(made, some, in_mailbox)
            of_ham = figures(classify, held)[4]
            worst = max(worst, 100 * of_ham[0] / of_ham.sum())
            close()
    return worst


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--mailbox", action="store_true")
    parser.add_argument("--cold", action="store_true", help="cold starts, too (36 of them)")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--most", type=int, default=4000, help="messages of a stream")
    options = parser.parse_args()
    for stream in options.stream:
        corpus = open_corpus(stream)
        made = MailClassifier if corpus.content == "mail" else TextClassifier
        everything = [(read(entry), entry.label) for entry in corpus]
        classes = {label for _, label in everything}
        print(f"\n{stream}\n\n| order | {' | '.join(FIGURES)} |\n|{'---|' * 6}")
        found, worst = defaultdict(list), []
        for seed in range(options.seeds):
            messages = list(everything)
            random.Random(seed).shuffle(messages)
            messages = messages[: options.most]
            cut = min(len(messages) // 10, 700)
            held, rest = messages[:cut], messages[cut:]
            for name, order in orders(rest, classes):
                classify, close = taught(made, order, options.mailbox)
                found[name].append(figures(classify, held))
                close()
            if options.cold and {"ham", "spam"} == classes:
                worst.append(cold_starts(made, rest, held, options.mailbox))
        for name, of in found.items():
            show(name, of)
        if worst:
            print(
                f"\ncold starts: {np.mean(worst):.2f} % of ham called sure spam in the worst cell"
            )


if __name__ == "__main__":
    main()
