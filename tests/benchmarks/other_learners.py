"""Compare streamnb's default with scikit-learn and Vowpal Wabbit on streams of messages.

    python other_learners.py STREAM [STREAM ...] [--seed 2007] [--most N]

Prints a Markdown table for each stream. Prequential: each message is classified, then learned, in the order
of the stream. Frozen: a learner of the first four fifths classifies the last fifth. (1-ROCA)%, for two
classes, is the percentage of pairs that the prequential scores rank wrongly. Seconds are CPU seconds of the
prequential pass alone, without reading and batch learners.

scikit-learn's online learners work in batches: each batch is classified, then learned. A batch is a twentieth
of the messages learned, at least 1 message and at most 100. With single messages, each step would update all
weights. These learners and Vowpal Wabbit know all classes beforehand; streamnb does not. A learner that cannot
classify yet is wrong. Learners get the whole message, with bytes as latin-1; Vowpal Wabbit gets its words in
lower case. A program that is not installed is reported. Needs streamnb, and scikit-learn and vowpalwabbit
from PyPI.
"""

import argparse
import math
import random
import re
import time
from functools import partial
from importlib.metadata import distributions

import numpy as np

from streamnb import MailClassifier, TextClassifier
from streamnb.corpus import open_corpus, read

MOST_IN_BATCH = 100
NGRAMS = (1, 2)


def as_text(content):
    return content.decode("latin-1") if isinstance(content, bytes) else content


class StreamNB:
    """Return the default classifier for the content of the stream."""

    def __init__(self, classes, is_mail):
        self.positive = classes[-1]
        self.model = MailClassifier() if is_mail else TextClassifier()

    def classify(self, contents):
        """Return the label of each message, and its score for the last of two classes."""
        for content in contents:
            shares = self.model.predict_proba_one(content)
            yield max(shares, key=shares.get, default=None), self.log_odds(shares)

    def log_odds(self, shares):
        """Return the log-odds of the last class; unlike its probability, it is never rounded to 1."""
        others = sum(share for label, share in shares.items() if label != self.positive)
        return math.log(max(shares.get(self.positive, 0), 1e-300)) - math.log(max(others, 1e-300))

    def learn(self, contents, labels):
        for content, label in zip(contents, labels, strict=True):
            self.model.learn_one(content, label)


class Hashing:
    """An online model of scikit-learn, on hashed words and pairs of words."""

    def __init__(self, classes, is_mail, *, model, **parameters):
        from sklearn import linear_model, naive_bayes
        from sklearn.feature_extraction.text import HashingVectorizer

        self.classes = classes
        self.is_fitted = False
        # Every step updates all weights of all classes, so many classes get fewer weights.
        options = {"ngram_range": NGRAMS, "n_features": 2**20 if len(classes) == 2 else 2**18}
        if model.endswith("NB"):
            self.model = getattr(naive_bayes, model)(**parameters)
            options |= {"norm": None, "alternate_sign": False}  # counts
        else:
            self.model = getattr(linear_model, model)(random_state=0, **parameters)
        self.vectorizer = HashingVectorizer(lowercase=True, **options)

    def classify(self, contents):
        if not self.is_fitted:
            return [(None, 0.0)] * len(contents)
        rows = self.vectorizer.transform(map(as_text, contents))
        if hasattr(self.model, "decision_function"):
            scores = self.model.decision_function(rows)
        else:
            scores = self.model.predict_joint_log_proba(rows)
        if len(self.classes) > 2:
            return [(self.classes[i], math.nan) for i in scores.argmax(axis=1)]
        scores = scores if scores.ndim == 1 else scores[:, 1] - scores[:, 0]
        return [(self.classes[int(score > 0)], score) for score in scores]

    def learn(self, contents, labels):
        rows = self.vectorizer.transform(map(as_text, contents))
        self.model.partial_fit(rows, labels, classes=self.classes)
        self.is_fitted = True


class VowpalWabbit:
    """Vowpal Wabbit on words and pairs of words: one against all, or logistic regression of two classes."""

    def __init__(self, classes, is_mail):
        from vowpalwabbit import Workspace

        self.classes = classes
        self.is_binary = len(classes) == 2
        kind = "--loss_function logistic" if self.is_binary else f"--oaa {len(classes)}"
        numbers = (-1, 1) if self.is_binary else range(1, len(classes) + 1)
        self.numbers = dict(zip(classes, numbers, strict=True))
        self.model = Workspace(f"{kind} --ngram 2 -b 22 --quiet")

    def features(self, content):
        """Return a text with only letters, digits and underscores, so without bar, colon and line end."""
        return "|w " + " ".join(re.findall(r"\w+", as_text(content).lower()))

    def classify(self, contents):
        for content in contents:
            result = self.model.predict(self.features(content))
            if self.is_binary:
                yield self.classes[int(result > 0)], result
            else:
                yield self.classes[result - 1], math.nan

    def learn(self, contents, labels):
        for content, label in zip(contents, labels, strict=True):
            self.model.learn(f"{self.numbers[label]} {self.features(content)}")


class Batch:
    """A model of scikit-learn on tf-idf of words and pairs of words, learned all at once."""

    def __init__(self, classes, is_mail, *, model, **parameters):
        from sklearn import naive_bayes, svm
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline

        instance = getattr(naive_bayes if model.endswith("NB") else svm, model)(**parameters)
        vectorizer = TfidfVectorizer(lowercase=True, ngram_range=NGRAMS, sublinear_tf=True)
        self.model = make_pipeline(vectorizer, instance)

    def classify(self, contents):
        labels = self.model.predict([as_text(content) for content in contents])
        return [(label, math.nan) for label in labels]

    def learn(self, contents, labels):
        self.model.fit([as_text(content) for content in contents], labels)


# The default alpha of 1 in each of a million hashed features would outweigh the counts.
LEARNERS = {
    "streamnb, default": StreamNB,
    "hashing + SGD, hinge": partial(Hashing, model="SGDClassifier", loss="hinge"),
    "hashing + SGD, log loss": partial(Hashing, model="SGDClassifier", loss="log_loss"),
    "hashing + MultinomialNB": partial(Hashing, model="MultinomialNB", alpha=0.01),
    "hashing + ComplementNB": partial(Hashing, model="ComplementNB", alpha=0.01),
    "Vowpal Wabbit": VowpalWabbit,
    "tf-idf + ComplementNB (batch)": partial(Batch, model="ComplementNB", alpha=0.1),
    "tf-idf + LinearSVC (batch)": partial(Batch, model="LinearSVC"),
}


def accuracy(result, labels):
    return 100 * np.mean([label == y for (label, _), y in zip(result, labels, strict=True)])


def one_minus_roca(scores, are_positive):
    """Return the percentage of wrongly ranked pairs; a tie is one half."""
    scores, are_positive = np.array(scores), np.array(are_positive)
    positive, negative = scores[are_positive], np.sort(scores[~are_positive])
    below = [np.searchsorted(negative, positive, side).mean() for side in ("left", "right")]
    return 100 * (1 - sum(below) / 2 / len(negative))


def prequential(learner, contents, labels, cut):
    """Return the results of all messages, the frozen results from `cut` on, and CPU seconds."""
    result, frozen, seconds, first = [], [], 0.0, 0
    while first < len(contents):
        size = min(1 + first // 20, MOST_IN_BATCH) if isinstance(learner, Hashing) else 1
        if first == cut:
            frozen = list(learner.classify(contents[cut:]))
        end = min(first + size, cut if first < cut else len(contents))
        start = time.process_time()
        result += learner.classify(contents[first:end])
        learner.learn(contents[first:end], labels[first:end])
        seconds += time.process_time() - start
        first = end
    return result, frozen, seconds


def cells(learner, contents, labels, classes):
    """Return a learner's row: prequential accuracy, (1-ROCA)% of two classes, frozen accuracy, seconds."""
    cut = 4 * len(contents) // 5
    if isinstance(learner, Batch):
        learner.learn(contents[:cut], labels[:cut])
        frozen = learner.classify(contents[cut:])
        online, roca, took = "-", "-", "-"
    else:
        result, frozen, seconds = prequential(learner, contents, labels, cut)
        online, took = f"{accuracy(result, labels):.2f}", f"{seconds:.1f}"
        if len(classes) == 2:
            positive = [label == classes[1] for label in labels]
            roca = f"{one_minus_roca([score for _, score in result], positive):.3f}"
    rocas = [roca] if len(classes) == 2 else []
    return [online, *rocas, f"{accuracy(frozen, labels[cut:]):.2f}", took]


def compare(stream, seed, most):
    corpus = open_corpus(stream)
    messages = [(read(entry), entry.label) for entry in corpus]
    if seed:
        random.Random(seed).shuffle(messages)
    contents, labels = map(list, zip(*messages[:most], strict=True))
    classes = sorted(set(labels))
    rocas = ["(1-ROCA)%"] if len(classes) == 2 else []
    header = ["learner", "prequential %", *rocas, "frozen %", "CPU seconds"]
    print(f"\n{stream}: {len(labels)} messages ({corpus.content}), {len(classes)} classes\n")
    print(f"| {' | '.join(header)} |\n|---|{'---:|' * (len(header) - 1)}")
    for name, instance in LEARNERS.items():
        try:
            learner = instance(classes, corpus.content == "mail")
        except ModuleNotFoundError as missing:
            row = [f"not installed: {missing.name}", *[""] * (len(header) - 2)]
        else:
            row = cells(learner, contents, labels, classes)
        print(f"| {name} | {' | '.join(row)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stream", nargs="+")
    parser.add_argument("--seed", type=int, default=2007, help="of the shuffle; 0: own order")
    parser.add_argument("--most", type=int, help="messages of a stream")
    options = parser.parse_args()
    versions = {package.name: package.version for package in distributions()}
    packages = ("streamnb", "scikit-learn", "vowpalwabbit")
    print(", ".join(f"{package} {versions.get(package, 'not installed')}" for package in packages))
    print(f"scikit-learn's online learners: batches of 1 to {MOST_IN_BATCH} messages")
    for stream in options.stream:
        compare(stream, options.seed, options.most)


if __name__ == "__main__":
    main()
