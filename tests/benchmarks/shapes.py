"""Compare the default for plain text with plain Naive Bayes on streams of many shapes.

    python tests/benchmarks/shapes.py STREAM [STREAM ...] [--most 1500] [--seed 7]

STREAM is a corpus of plain texts. Its messages are shuffled, then each shape changes them: their
order, their length, their labels, or which of them get a label. Of most shapes, each message is
classified first and learned afterwards. "held back" says that a model learns all messages and
then classifies 400 others. A row has accuracy, log loss and expected calibration error of the
default and of `MultinomialNB`. Labels that a model has not learned count as errors, and are left
out of the other two figures.
"""

import argparse
import math
import random
from collections import Counter, deque

import numpy as np

from streamnb import Classifier, MultinomialNB, TextClassifier, Tokenizer
from streamnb.corpus import open_corpus, read

HELD_BACK = 400
MODELS = {
    "default": TextClassifier,
    "multinomial": lambda: Classifier(Tokenizer(), MultinomialNB()),
}


def wrong_labels(stream, rate, only=None):
    """Return the stream with a fraction of labels replaced, of one class or of all classes."""
    draw, labels = random.Random(1), sorted({label for _, label, _ in stream})
    return [
        (text, label, draw.choice([other for other in labels if other != label]))
        if draw.random() < rate and only in (None, label)
        else (text, label, label)
        for text, label, _ in stream
    ]


def joined(stream, size):
    """Return texts that each hold `size` texts of one class."""
    parts, result = {}, []
    for text, label, _ in stream:
        parts.setdefault(label, []).append(text)
        if len(parts[label]) == size:
            result.append((" ".join(parts.pop(label)), label, label))
    return result


def exchanged(stream):
    """Return the stream with the two most frequent labels exchanged in its second half."""
    (first, _), (second, _) = Counter(label for _, label, _ in stream).most_common(2)
    names = {first: second, second: first}
    middle = len(stream) // 2
    later = [(text, names.get(label, label)) for text, label, _ in stream[middle:]]
    return stream[:middle] + [(text, label, label) for text, label in later]


def quoted(stream):
    """Return the stream with the same 200 words after every other text of its second half."""
    middle = len(stream) // 2
    quote = " ".join(" ".join(text for text, _, _ in stream[:40]).split()[:200])
    later = [
        (f"{text} {quote}" if number % 2 else text, label, label)
        for number, (text, label, _) in enumerate(stream[middle:])
    ]
    return stream[:middle] + later


def translated(stream):
    """Return the stream with each word of its second half reversed, as if in another language."""
    middle = len(stream) // 2
    later = [(" ".join(w[::-1] for w in t.split()), y, z) for t, y, z in stream[middle:]]
    return stream[:middle] + later


def shapes(stream, rarest):
    """Return each shape's messages (text, true label, given label) and its options of `figures`."""
    draw = random.Random(2)
    thin = [message for message in stream if message[1] != rarest or draw.random() < 0.1]
    copies = draw.sample(stream[:300] * 5, len(stream[:300]) * 5)
    return {
        "mixed": (stream, {}),
        "the first 100 messages": (stream[:100], {}),
        "sorted by class, held back": (sorted(stream, key=lambda m: m[1]), {"is_held_back": True}),
        "5 labels of each class, held back": (stream, {"chooses": few, "is_held_back": True}),
        "labels of errors only, held back": (stream, {"chooses": errors, "is_held_back": True}),
        "labels of unsure messages, held back": (stream, {"chooses": unsure, "is_held_back": True}),
        "200 labels of all classes, then labels of one class, held back": (
            stream,
            {"chooses": one_class, "is_held_back": True},
        ),
        "labels 100 messages late": (stream, {"delay": 100}),
        "5 % of labels wrong": (wrong_labels(stream, 0.05), {}),
        "30 % of labels wrong": (wrong_labels(stream, 0.3), {}),
        "30 % of the labels of the rarest class wrong": (wrong_labels(stream, 0.3, rarest), {}),
        "nine of ten messages of the rarest class left out": (thin, {}),
        "only the first 3 words of each text": (
            [(" ".join(t.split()[:3]), y, z) for t, y, z in stream],
            {},
        ),
        "20 texts of a class joined into one": (joined(stream, 20), {}),
        "300 texts, 5 times each": (copies, {}),
        "from the middle on, two classes exchange their labels": (exchanged(stream), {}),
        "in the second half, half of the messages quote the same text": (quoted(stream), {}),
        "from the middle on, each word is reversed, as in another language": (
            translated(stream),
            {},
        ),
    }


def few(number, proba, label, n_learned, first):
    return n_learned[label] < 5


def errors(number, proba, label, n_learned, first):
    return max(proba, key=proba.get, default=None) != label


def unsure(number, proba, label, n_learned, first):
    return proba.get(label, 0) < 0.9


def one_class(number, proba, label, n_learned, first):
    return number < 200 or label == first


def figures(model, stream, others, chooses=None, is_held_back=False, delay=0):
    """Return accuracy (%), log loss and expected calibration error."""
    n_learned, waiting, judged = Counter(), deque(), []
    first = min(label for _, label, _ in stream)

    def judge(proba, label):
        likely = max(proba, key=proba.get, default=None)
        has_proba = len(proba) > 1 and label in proba
        judged.append((likely == label, proba[label] if has_proba else None, proba.get(likely, 0)))

    for number, (text, label, given_label) in enumerate(stream):
        proba = model.predict_proba_one(text)
        if not is_held_back and number >= delay:
            judge(proba, label)
        if chooses is None or chooses(number, proba, given_label, n_learned, first):
            waiting.append((text, given_label))
        if waiting and (number >= delay):
            learned_text, learned_label = waiting.popleft()
            model.learn_one(learned_text, learned_label)
            n_learned[learned_label] += 1
    for text, label, _ in others if is_held_back else ():
        judge(model.predict_proba_one(text), label)
    is_correct, proba, confidence = (
        np.array(column) for column in zip(*[j for j in judged if j[1] is not None], strict=True)
    )
    bins = np.ceil(confidence * 10)
    gaps = [abs((confidence - is_correct)[bins == number].sum()) for number in set(bins)]
    return (
        100 * np.mean([correct for correct, _, _ in judged]),
        -np.mean([math.log(max(p, 1e-6)) for p in proba]),
        sum(gaps) / len(bins),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="+", metavar="STREAM")
    parser.add_argument("--most", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for path in options.streams:
        stream = [(read(entry), entry.label, entry.label) for entry in open_corpus(path)]
        random.Random(options.seed).shuffle(stream)
        stream, others = (stream[: options.most], stream[options.most : options.most + HELD_BACK])
        rarest = Counter(label for _, label, _ in stream).most_common(2)[-1][0]
        print(f"\n| {path} | " + " | ".join(MODELS) + " |\n|" + "---|" * (len(MODELS) + 1))
        for name, (messages, rules) in shapes(stream, rarest).items():
            rows = [figures(make(), messages, others, **rules) for make in MODELS.values()]
            cells = [f"{row[0]:.1f} %, {row[1]:.3f}, {row[2]:.3f}" for row in rows]
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
