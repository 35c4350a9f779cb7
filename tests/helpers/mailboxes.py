"""Messages and mailboxes that several tests share."""

import sqlite3
from itertools import islice

import numpy as np

from streamnb.corpus import open_corpus, read
from streamnb.mailbox.transfer.formats import export

SPAM = b"From: Pills <p@example.com>\nSubject: Cheap pills\n\nBuy pills now\n"
HAM = b"From: Ann <a@example.org>\nSubject: Lunch\n\nShall we meet at noon?\n"


def mails(sample, n=60):
    return [(read(entry), entry.label) for entry in islice(open_corpus(sample), n)]


def exported(mailbox, messages=True):
    path = f"{mailbox.path}.out"
    export(mailbox, path, "lines", messages)
    with open(path, "rb") as file:
        return file.read()


def same_counts(mailbox, classifier):
    with mailbox.reading():
        for mine, model in zip(mailbox.counts, classifier.models, strict=True):
            theirs = model.counts
            fingerprints, cells = theirs.items()
            order = np.argsort(fingerprints.view(np.int64))
            a, b = mine.items()
            columns = [mine.labels.index(label) for label in theirs.labels]
            assert (a == fingerprints[order]).all()
            assert (b[:, columns] == cells[order]).all()
            assert [mine.totals[k] for k in columns] == theirs.totals
            assert [mine.weights[k] for k in columns] == theirs.weights
            assert mine.features == theirs.features
        assert mailbox.classifier.model.recalibration == classifier.model.recalibration


MESSAGES = [b"Subject: m%d\n\n%s" % (i, b" ".join(b"w%d" % (i * k % 7) for k in range(5)))
            for i in range(5)]  # fmt: skip


def damage(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
