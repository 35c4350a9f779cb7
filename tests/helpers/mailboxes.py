"""Messages and mailboxes that several tests share."""

import sqlite3
from itertools import islice

import numpy as np

from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
from streamnb.mailbox.compact import compact
from streamnb.mailbox.rebuild import rebuild
from streamnb.mailbox.transfer.formats import export
from streamnb.mailbox.undo import redo

SPAM = b"From: Pills <p@example.com>\nSubject: Cheap pills\n\nBuy pills now\n"
HAM = b"From: Ann <a@example.org>\nSubject: Lunch\n\nShall we meet at noon?\n"


def mails(sample, n=60):
    return [(read(entry), entry.label) for entry in islice(open_corpus(sample), n)]


def exported(mailbox):
    path = f"{mailbox.path}.out"
    export(mailbox, path, "lines")
    with open(path, "rb") as file:
        return file.read()


def exported_counts(mailbox):
    lines = exported(mailbox).splitlines()
    return [line for line in lines[:-1] if not line.startswith(b'{"digest"')]


def same_counts(mailbox, classifier):
    with mailbox.reading():
        for database_counts, model in zip(mailbox.counts, classifier.models, strict=True):
            memory_counts = model.counts
            fingerprints, cells = memory_counts.items()
            order = np.argsort(fingerprints.view(np.int64))
            a, b = database_counts.items()
            columns = [database_counts.labels.index(label) for label in memory_counts.labels]
            assert (a == fingerprints[order]).all()
            assert (b[:, columns] == cells[order]).all()
            assert [database_counts.totals[k] for k in columns] == memory_counts.totals
            assert [database_counts.weights[k] for k in columns] == memory_counts.weights
            assert database_counts.features == memory_counts.features
        assert (
            mailbox.classifier.model.calibration.recalibration
            == classifier.model.calibration.recalibration
        )


MESSAGES = [b"Subject: m%d\n\n%s" % (i, b" ".join(b"w%d" % (i * k % 7) for k in range(5)))
            for i in range(5)]  # fmt: skip


def damage(path, *statements):
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


OPERATIONS = {"compact": compact, "rebuild": rebuild, "redo": redo}


def call(mailbox, name, *args):
    """Call a method or operation by its name, and return the result of its outcome."""
    function = OPERATIONS.get(name) or getattr(type(mailbox), name)
    return getattr(function(mailbox, *args), "result", None)


def call_mailbox(path, name, *args):
    """Open a mailbox for one `call`, as a command does."""
    with Mailbox(path) as mailbox:
        return call(mailbox, name, *args)
