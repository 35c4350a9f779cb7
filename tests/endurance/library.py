"""A year of mail for a model in memory that forgets, one message after the other.

    python tests/endurance/library.py [--messages 10000000] [--decay 0.9999] [--window N] [--out FILE]

Each message is classified, then learned. A wrong label is corrected 50 messages later, and forgotten messages
are unlearned. (`together.py model` and the tests check that this is exact.) The program writes a line of JSON
for each of 120 parts of the year.
"""

import argparse
from collections import deque
from pathlib import Path

from slices import Slices, resident
from stream import Message, stream

from streamnb import MailClassifier
from streamnb.classifier import Classifier
from streamnb.naive_bayes import WindowNB
from streamnb.naive_bayes.receipt import Receipt

LATER = 50  # number of messages until a reader corrects a wrong verdict


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--decay", type=float, default=1.0)
    parser.add_argument("--window", type=int, default=0, help="messages that are known; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("library.jsonl"))
    chosen = parser.parse_args()
    classifier = MailClassifier(label_noise=0.0, keep_names=False, decay=chosen.decay)
    model: Classifier = classifier
    if chosen.window:
        model = Classifier(classifier.tokenizer, WindowNB(classifier.model, chosen.window))

    def measures() -> dict[str, float]:
        tables = [member.counts.table for member in classifier.models]
        return {
            "memory": resident(),
            "features": float(sum(map(len, tables))),
            "table": sum(table.__sizeof__() for table in tables) / 1e6,
        }

    slices = Slices(chosen.out, chosen.messages, 120, measures)
    mending: deque[tuple[int, Message, Receipt | None]] = deque()
    for number, message in enumerate(stream(chosen.messages, chosen.seed)):
        with slices.timed("judge"):
            verdict = model.predict_one(message.content)
        with slices.timed("learn"):
            model.learn_one(message.content, message.first_label)
        if not chosen.window and (message.first_label != message.label or message.forgotten):
            mending.append((number + LATER, message, model.receipt))
        while mending and mending[0][0] <= number:
            _, slip, receipt = mending.popleft()
            with slices.timed("unlearn"):
                model.unlearn_one(slip.content, slip.first_label, receipt=receipt)
            if not slip.forgotten:
                model.learn_one(slip.content, slip.label)
        slices.note(verdict, message.label)


if __name__ == "__main__":
    main()
