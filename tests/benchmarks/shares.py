"""Streams with a rare class: whether probabilities follow the frequencies of the classes.

    python tests/benchmarks/shares.py STREAM [STREAM ...] [--times 20 100] [--order shuffled:31]

Messages of the rarer of two classes are removed until there are 20 (100) of the other class for each. Each
message is classified, then learned, as soon as two classes are known. The default is compared with plain
multinomial Naive Bayes over words, and with a constant prediction of the frequent class.
"""

import argparse
import math
from collections import Counter
from pathlib import Path

from streamnb import (
    Classifier,
    MailClassifier,
    MailTokenizer,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
)
from streamnb.corpus import open_corpus, order_entries, read


def thinned(messages, times):
    """Return the messages with every n-th of the rarer class, and the other class."""
    sizes = Counter(label for _, label in messages)
    (common, most), (rare, least) = sizes.most_common()
    step = max(round(times * least / most), 1)
    observed, previous = 0, []
    for message, label in messages:
        observed += label == rare
        if label == common or observed % step == 0:
            previous.append((message, label))
    return common, previous


def figures(model, messages, common):
    errors, alarms, loss, answer, n = 0, 0, 0.0, 0.0, 0
    for message, label in messages:
        shares = model.predict_proba_one(message)
        if len(shares) == 2:
            n += 1
            called = max(shares, key=shares.get)
            errors += called != label
            alarms += called != label == common
            loss -= math.log(max(shares[label], 1e-9))
            answer += 1 - shares[common]
        model.learn_one(message, label)
    return f"{100 * errors / n:.2f} %, {alarms}, {loss / n:.4f}, {100 * answer / n:.2f} %"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--times", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--order", default="shuffled:31")
    options = parser.parse_args()
    print(
        "errors, messages of the common class classified as rare, log loss, mean probability of rare\n"
    )
    print("| stream | messages | rare | default | multinomial |\n|---|---|---|---|---|")
    for path in options.stream:
        corpus = open_corpus(path)
        entries = order_entries(corpus, options.order)
        messages = [(read(entry), entry.label) for entry in entries]
        mail = corpus.content == "mail"
        for times in options.times:
            common, previous = thinned(messages, times)
            rare = sum(label != common for _, label in previous)
            tokenizer = MailTokenizer() if mail else Tokenizer()
            cells = [
                figures(model, previous, common)
                for model in (
                    MailClassifier() if mail else TextClassifier(),
                    Classifier(tokenizer, MultinomialNB()),
                )
            ]
            share = f"{rare}, {100 * rare / len(previous):.2f} %"
            row = [f"{Path(path).name}, 1 : {times}", f"{len(previous):,}", share, *cells]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
