"""Effect of the feedback on the default model: figures on unseen messages.

    python tests/benchmarks/regimes.py STREAM [STREAM ...] [--mailbox] [--seeds 2] [--then STREAM]

Each seed holds back a tenth of a stream, at most 700 messages. The model learns the others in several ways, in
memory or, with --mailbox, in a database, which is rebuilt when `learn` would rebuild it. The held-out messages are
classified without learning: errors, wrongly ranked pairs, log loss, and the decisions by costs for spam and
ham (sure spam, unsure, sure ham). Then each is classified and learned: errors. A cold start has n spam and m
ham messages; its figure is the mean over all draws in the worst cell. With --then, drift is measured: the
errors among the first messages of another stream.
"""

import argparse
import email.utils
import math
import random
import tempfile
from collections import defaultdict
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from streamnb import Mailbox, MailClassifier, TextClassifier
from streamnb.corpus import open_corpus, read
from streamnb.mail import parse
from streamnb.mailbox.rebuild import is_due, rebuild

FIGURES = (
    "errors %",
    "(1-ROCA)%",
    "log loss",
    "spam: S U H",
    "ham: S U H",
    "learning on: errors %",
)
DRIFT = 500  # number of messages of the second stream


def by_class(messages, first=0):
    labels = sorted({label for _, label in messages})
    order = labels[first:] + labels[:first]
    return sorted(messages, key=lambda message: order.index(message[1]))


def blocks(messages, size):
    """Return mixed messages: a number of the rarest class, and a proportional number of the others."""
    source = defaultdict(list)
    for message in messages:
        source[message[1]].append(message)
    rounds = math.ceil(min(map(len, source.values())) / size)
    return [
        message
        for i in range(rounds)
        for group in source.values()
        for message in group[len(group) * i // rounds : len(group) * (i + 1) // rounds]
    ]


def skewed(messages, rare):
    """Return a stream with a hundredth of the messages of one class."""
    subset = [message for message in messages if message[1] == rare]
    others = [message for message in messages if message[1] != rare]
    mixed = subset[: max(len(others) // 99, 1)] + others
    random.Random(1).shuffle(mixed)
    return mixed


def date_of(content):
    """Return the date of a mail from its Date field; None without one."""
    for name, value in parse(content).fields:
        if name.lower() == b"date":
            try:
                result = email.utils.parsedate_to_datetime(value.decode("latin-1"))
            except ValueError:
                return None
            return result if result.tzinfo else result.replace(tzinfo=UTC)
    return None


def by_date(messages):
    """Return the messages with a date, in the order of the dates."""
    dated = [(date_of(content), content, label) for content, label in messages]
    existing = sorted((item for item in dated if item[0]), key=lambda item: item[0])
    return [(content, label) for _, content, label in existing]


def late(messages, label):
    """Return a stream in which one class begins after half of the other messages."""
    first = [message for message in messages[: len(messages) // 2] if message[1] != label]
    remainder = messages[len(messages) // 2 :]
    return first + remainder


def burst(messages, label, size=300):
    """Insert a number of variants of one message in the middle."""
    content = next(source for source, y in messages if y == label)
    line = "\nreference {}\n" if isinstance(content, str) else b"\nreference %d\n"
    variants = [
        (content + (line.format(i) if isinstance(content, str) else line % i), label)
        for i in range(size)
    ]
    half = len(messages) // 2
    return messages[:half] + variants + messages[half:]


def copies(messages, label, size=300):
    """Insert the same message a number of times in the middle."""
    half = len(messages) // 2
    item = next(message for message in messages if message[1] == label)
    return messages[:half] + [item] * size + messages[half:]


def run(messages, label, mixed=70, size=30):
    """Return a few mixed messages, then a run of one class."""
    remainder = [message for message in messages[mixed:] if message[1] == label]
    return messages[:mixed] + remainder[:size]


def mislabelled(messages, classes, good=1000, wrong=10):
    """Return a number of correct labels, then some wrong ones of one class."""
    answer = sorted(classes)[-1]
    others = [(content, answer) for content, label in messages[good:] if label != answer]
    return messages[:good] + others[:wrong]


def disagreeing(messages, classes):
    """Add a second, different label to a tenth of the messages."""
    draw = random.Random(1)
    for content, label in messages:
        yield content, label
        if draw.random() < 0.1:
            yield content, draw.choice(sorted(classes - {label}))


def every_one(i, verdict, label):
    return True


def mistakes_and_unsure(i, verdict, label):
    return verdict().unsure or verdict().label != label


def mistakes(i, verdict, label):
    return is_wrong(verdict(), label)


def mistakes_later(i, verdict, label):
    return i < 1000 or is_wrong(verdict(), label)


def regimes(messages, classes):
    """Yield name, messages, and the rule that selects those to learn (see `teach`)."""
    subset = sorted(classes)[-1]
    yield "mixed", messages, every_one
    yield "one class after the other", by_class(messages), every_one
    yield "the other way round", by_class(messages, 1), every_one
    yield "blocks of 50", blocks(messages, 50), every_one
    yield "blocks of 500", blocks(messages, 500), every_one
    if not isinstance(messages[0][0], str) and (dated := by_date(messages)):
        yield "by date", dated, every_one
    yield "mistakes and unsure", messages, mistakes_and_unsure
    yield "mistakes alone", messages, mistakes
    yield "1,000 messages, then mistakes alone", messages, mistakes_later
    yield f"{subset} comes late", late(messages, subset), every_one
    yield f"300 variants of one {subset}", burst(messages, subset), every_one
    yield f"300 copies of one {subset}", copies(messages, subset), every_one
    yield "two teachers, a tenth disputed", disagreeing(messages, classes), every_one
    yield "1,000 messages", messages[:1000], every_one
    yield (
        f"1,000 messages, then ten others called {subset}",
        mislabelled(messages, classes),
        every_one,
    )
    few = run(messages, subset)
    yield f"70 messages, then 30 of {subset}", few, every_one
    yield "those 100, mixed", random.Random(1).sample(few, len(few)), every_one
    if {"ham", "spam"} == classes:
        yield "99 ham : 1 spam", skewed(messages, "spam"), every_one
        yield "1 ham : 99 spam", skewed(messages, "ham"), every_one


@contextmanager
def pupil(instance, in_mailbox):
    """A learner that classifies, and is rebuilt after training if this is due."""
    if not in_mailbox:
        classifier = instance()
        yield SimpleNamespace(
            learn=classifier.learn_one, classify=classifier.classify, settle=lambda: None
        )
        return
    with (
        tempfile.TemporaryDirectory() as folder,
        Mailbox(Path(folder) / "db", classifier=instance(label_noise=0.0)) as mailbox,
    ):
        yield SimpleNamespace(
            learn=lambda content, label: mailbox.learn(as_bytes(content), label),
            classify=lambda content, reasons: mailbox.classify(as_bytes(content), reasons),
            settle=lambda: rebuild(mailbox) if is_due(mailbox) else None,
        )


def as_bytes(content):
    return content if isinstance(content, bytes) else content.encode()


def teach(item, lessons, is_taught=every_one):
    """Learn the messages that `is_taught` selects by number, verdict and label."""
    for i, (content, label) in enumerate(lessons):
        if is_taught(i, lambda content=content: item.classify(content, 0), label):
            item.learn(content, label)
    item.settle()


def is_wrong(verdict, label):
    shares = verdict.probabilities
    return max(shares, key=shares.get, default=None) != label


def learning_on(item, messages):
    """Return the errors in a hundred messages that are classified, then learned."""
    wrong = 0
    for content, label in messages:
        wrong += is_wrong(item.classify(content, 0), label)
        item.learn(content, label)
    return 100 * wrong / len(messages)


def figures(classify, held):
    """Return errors, wrongly ranked pairs, log loss and decisions of the held-out messages."""
    wrong, loss, scores = 0, 0.0, {"spam": [], "ham": []}
    decided = {"spam": np.zeros(3), "ham": np.zeros(3)}
    for content, label in held:
        verdict = classify(content, 0)
        shares = verdict.probabilities
        wrong += is_wrong(verdict, label)
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


def show(name, result):
    errors, roca, loss, spam, ham, after = (
        np.mean(column, axis=0) for column in zip(*result, strict=True)
    )
    shares = [
        " ".join(f"{100 * x / max(source.sum(), 1):.1f}" for x in source) for source in (spam, ham)
    ]
    print(
        f"| {name} | {errors:.2f} | {roca:.3f} | {loss:.4f} | {shares[0]} | {shares[1]} "
        f"| {after:.2f} |",
        flush=True,
    )


def cold_starts(instance, messages, held, in_mailbox):
    """Return, for each n and m, the fraction of ham that is surely spam after n spam and m ham."""
    shares = []
    for spam in (1, 2, 5, 15, 50, 500):
        for ham in (1, 2, 5, 15, 50, 500):
            subset = [m for m in messages if m[1] == "spam"][:spam]
            subset += [m for m in messages if m[1] == "ham"][:ham]
            random.Random(1).shuffle(subset)
            with pupil(instance, in_mailbox) as item:
                teach(item, subset)
                of_ham = figures(item.classify, held)[4]
            shares.append(100 * of_ham[0] / of_ham.sum())
    return shares


def messages_of(stream):
    corpus = open_corpus(stream)
    instance = MailClassifier if corpus.content == "mail" else TextClassifier
    return instance, [(read(entry), entry.label) for entry in corpus]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--mailbox", action="store_true")
    parser.add_argument("--cold", action="store_true", help="cold starts, too (36 of them)")
    parser.add_argument("--then", metavar="STREAM", help="another stream, for drift")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--most", type=int, default=4000, help="messages of a stream")
    options = parser.parse_args()
    for stream in options.stream:
        instance, everything = messages_of(stream)
        classes = {label for _, label in everything}
        print(f"\n{stream}\n\n| order | {' | '.join(FIGURES)} |\n|{'---|' * (1 + len(FIGURES))}")
        result, cold = defaultdict(list), []
        for seed in range(options.seeds):
            messages = list(everything)
            random.Random(seed).shuffle(messages)
            messages = messages[: options.most]
            cut = min(len(messages) // 10, 700)
            held, remainder = messages[:cut], messages[cut:]
            for name, lessons, is_taught in regimes(remainder, classes):
                with pupil(instance, options.mailbox) as item:
                    teach(item, lessons, is_taught)
                    frozen = figures(item.classify, held)
                    result[name].append((*frozen, learning_on(item, held)))
            if options.cold and {"ham", "spam"} == classes:
                cold.append(cold_starts(instance, remainder, held, options.mailbox))
        for name, source in result.items():
            show(name, source)
        if cold:
            worst = np.mean(cold, axis=0).max()
            print(f"\ncold starts: {worst:.2f} % of ham called sure spam in the worst cell")
        if options.then:
            with pupil(instance, options.mailbox) as item:
                teach(item, everything)
                errors = learning_on(item, messages_of(options.then)[1][:DRIFT])
            print(f"\ndrift: {errors:.2f} % errors in the first {DRIFT} of {options.then}")


if __name__ == "__main__":
    main()
