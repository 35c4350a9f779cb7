"""Compare the default with batch learners when each class has only a few labels.

    python tests/benchmarks/few_labels.py STREAM [STREAM ...] [--labels 2 5 10 20 50] [--draws 3]

Each draw shuffles a stream and holds back its last messages. The learners get labels in one of
three orders:

- "arrival": the first N labels of each class, as they come. The last labels are of rare classes.
- "shuffled": the same labels in random order, as `fit` learns them.
- "first": the first messages without a choice, as many as above. Classes keep their shares.

The batch learners get the words of streamnb's own tokenizer. Their results do not depend on the
order. Each cell has accuracy (%) and log loss on the messages held back, the mean over draws and
streams. Classes without a label are left out of the messages held back. Draws whose labels are all
of one class are left out.
"""

import argparse
import random
import warnings
from collections import Counter

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.pipeline import make_pipeline

from streamnb import MailClassifier, MailTokenizer, TextClassifier, Tokenizer
from streamnb.corpus import open_corpus, read

MOST = 4000  # messages of a stream, for time
BATCH_LEARNERS = {
    "multinomial, alpha 1": MultinomialNB,
    "multinomial, alpha .1": lambda: MultinomialNB(alpha=0.1),
    "complement": ComplementNB,
    "logistic, tf-idf": lambda: make_pipeline(
        TfidfTransformer(), LogisticRegression(C=10, max_iter=300)
    ),
}
ORDERS = ("arrival", "shuffled", "first")


def chosen(labels, positions, size):
    """Return the positions of the first `size` labels of each class."""
    n_chosen, result = Counter(), []
    for i in positions:
        n_chosen[labels[i]] += 1
        if n_chosen[labels[i]] <= size:
            result.append(i)
    return result


def default_figures(model, features, labels, learned, held):
    """Return accuracy (%) and log loss of streamnb's default after it has learned some messages."""
    for i in learned:
        model.learn_one(features[i], labels[i])
    proba = [model.predict_proba_one(features[i]) for i in held]
    rows = np.array([[row[label] for label in model.labels] for row in proba])
    return figures(rows, list(model.labels), [labels[i] for i in held])


def batch_figures(learners, words, labels, learned, held):
    """Return accuracy (%) and log loss of each batch learner."""
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform([words[i] for i in learned])
    held_matrix = vectorizer.transform([words[i] for i in held])
    result = {}
    for name, make in learners.items():
        learner = make().fit(matrix, [labels[i] for i in learned])
        proba = learner.predict_proba(held_matrix)
        result[name] = figures(proba, list(learner.classes_), [labels[i] for i in held])
    return result


def figures(proba, classes, labels):
    columns = np.array([classes.index(label) for label in labels])
    likely = np.maximum(proba[np.arange(len(labels)), columns], 1e-6)
    return 100 * np.mean(proba.argmax(axis=1) == columns), -np.mean(np.log(likely))


def measure(path, sizes, n_draws, n_held):
    """Yield order, labels of each class, learner, accuracy (%) and log loss of each draw."""
    corpus = open_corpus(path)
    is_mail = corpus.content == "mail"
    entries = list(corpus)
    random.Random(11).shuffle(entries)
    contents = [read(entry) for entry in entries[:MOST]]
    labels = [entry.label for entry in entries[:MOST]]
    classifier = MailClassifier() if is_mail else TextClassifier()
    tokenizer = MailTokenizer(binary=True) if is_mail else Tokenizer()
    features = [classifier.count(content) for content in contents]
    words = [tokenizer.count(content).to_dict() for content in contents]
    n_held = min(n_held, len(labels) // 2)
    for draw in range(n_draws):
        positions = list(range(len(labels)))
        random.Random(100 + draw).shuffle(positions)
        for size in sizes:
            balanced = chosen(labels, positions[:-n_held], size)
            mixed = random.Random(draw).sample(balanced, len(balanced))
            orders = balanced, mixed, positions[: len(balanced)]
            for order, learned in zip(ORDERS, orders, strict=True):
                classes = {labels[i] for i in learned}
                held = [i for i in positions[-n_held:] if labels[i] in classes]
                if len(classes) < 2:
                    continue
                model = classifier.model.clone()
                row = default_figures(model, features, labels, learned, held)
                yield order, size, "default", row
                if order != "shuffled":
                    rows = batch_figures(BATCH_LEARNERS, words, labels, learned, held)
                for name, row in rows.items():
                    yield order, size, name, row


def print_table(title, results, sizes):
    """Print accuracy and log loss by order and number of labels, the mean over streams."""
    names = ["default", *BATCH_LEARNERS]
    print(f"\n| {title} | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1))
    for order in ORDERS:
        for size in sizes:
            cells = []
            for name in names:
                means = [
                    np.mean(rows[order, size, name], axis=0)
                    for rows in results
                    if rows.get((order, size, name))
                ]
                accuracy, loss = np.mean(means, axis=0) if means else (np.nan, np.nan)
                cells.append(f"{accuracy:.1f} %, {loss:.2f}")
            print(f"| {order}, {size} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="+", metavar="STREAM")
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 10, 20, 50])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--held", type=int, default=1000, help="messages held back")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="sklearn")
    results = []
    for path in options.streams:
        rows = {}
        for order, size, name, row in measure(path, options.labels, options.draws, options.held):
            rows.setdefault((order, size, name), []).append(row)
        results.append(rows)
        print_table(path, [rows], options.labels)
    if len(results) > 1:
        print_table("mean", results, options.labels)


if __name__ == "__main__":
    main()
