"""Every operation on a mailbox, in any order and from several processes, against a slow ledger."""

import math
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule
from mailboxes import call, call_mailbox, exported

from streamnb import Mailbox, MailClassifier, MultinomialNB
from streamnb.classifier import Classifier
from streamnb.features.mail_words import MailTokenizer
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, PROGRAM
from streamnb.mailbox.recover import copy_label, create_upgraded, recover
from streamnb.mailbox.transfer.formats import import_file, merge
from streamnb.mailbox.undo import undone_messages

CLASSIFIERS = {
    "counts alone": lambda: Classifier(MailTokenizer(), MultinomialNB()),
    "mail": lambda: MailClassifier(label_noise=0.0),
}
MESSAGES = [
    b"Subject: n%d\n\nrare%d w%d v%d common common" % (i, i, i % 3, i % 2) for i in range(6)
]
LABELS = ["ham", "spam", "list"]
FIRST, SECOND, WORKER = "first", "second", "worker"  # two connections, and another process

messages = st.sampled_from(range(len(MESSAGES)))
labels = st.sampled_from(LABELS)
labellers = st.sampled_from([HUMAN, HUMAN, PROGRAM])
lessons = st.lists(st.tuples(messages, labels), max_size=4)
callers = st.sampled_from([FIRST, SECOND, WORKER])


@cache
def tokens_of(message):
    tokens = CLASSIFIERS["counts alone"]().count(MESSAGES[message])
    return dict(zip(tokens.fingerprints.tolist(), tokens.counts.tolist(), strict=True))


@dataclass
class SlowRow:
    """A label of a message; `tokens` is None after `compact` dropped them."""

    id: int
    message: int
    label: str
    labelled_by: str
    time: int
    added: int
    tokens: dict | None
    removed: int | None = None


class SlowLedger:
    """The rules of the ledger, in plain lists; counts are summed up each time."""

    def __init__(self):
        self.rows, self.sums, self.undone = [], [], None
        self.clock = self.last_id = 0

    def tick(self):
        self.clock += 1
        return self.clock

    def active(self, message):
        return next((r for r in self.rows if r.message == message and r.removed is None), None)

    def add(self, message, label, labelled_by, time, now, tokens):
        self.last_id += 1
        self.rows.append(SlowRow(self.last_id, message, label, labelled_by, time, now, tokens))

    def confirm(self, row, now):
        row.removed = now
        self.add(row.message, row.label, HUMAN, now, now, row.tokens)

    def learn(self, message, label, labelled_by=HUMAN):
        now, row = self.tick(), self.active(message)
        if row is not None:
            if row.label == label:
                if labelled_by == HUMAN and row.labelled_by == PROGRAM:
                    self.confirm(row, now)
                    return "confirmed"
                return "known"
            if row.labelled_by == HUMAN and labelled_by == PROGRAM:
                return "kept"
            if row.tokens is None:
                return "retired"
            row.removed = now
        self.add(message, label, labelled_by, now, now, tokens_of(message))
        return "learned" if row is None else "corrected"

    def retract(self, message, back_to):
        row = self.active(message)
        if row is None:
            return "unknown"
        if row.tokens is None:
            return "retired"
        row.removed = self.tick()
        earlier = [r for r in self.rows if r.message == message and r.removed == row.added]
        for old in [r for r in earlier if r.id < row.id][-1:]:
            if old.tokens is not None and (back_to is None or old.label in back_to):
                now = self.tick()
                self.add(message, old.label, old.labelled_by, old.time, now, old.tokens)
        return "forgotten"

    def merge(self, others):
        now = self.tick()
        if not self.rows:  # an empty database becomes what is merged; its undo log is dropped
            self.undone = None
        for message, label, labelled_by, time in others:
            row = self.active(message)
            if row is not None:
                if row.label == label:
                    if labelled_by == HUMAN and row.labelled_by == PROGRAM:
                        self.confirm(row, now)
                    continue
                if (labelled_by == HUMAN, time) <= (row.labelled_by == HUMAN, row.time):
                    continue
                if row.tokens is None:
                    continue
                row.removed = now
            self.add(message, label, labelled_by, time, now, tokens_of(message))

    def undo(self, since):
        new = [r for r in self.rows if r.added >= since]
        old = [r for r in self.rows if r.added < since <= (r.removed or -1)]
        same = {r.message for r in old if r.tokens is None}
        lost = {r.message for r in new if r.tokens is None and r.removed is None} - same
        new = [r for r in new if r.message not in lost]
        old = [r for r in old if r.message not in lost]
        if new or old:
            self.undone = self.tick(), new, [(r.id, r.message, r.removed) for r in old]
        self.rows = [r for r in self.rows if r not in new]
        for row in old:
            row.removed = None
        return len(new), len(old), len(lost)

    def redo(self):
        if self.undone is None:
            return
        since, removed, restored = self.undone
        later = {r.message for r in self.rows if max(r.added, r.removed or 0) >= since}
        for number, message, end in restored:
            for row in self.rows:
                if row.id == number and row.removed is None and message not in later:
                    row.removed = end
        self.rows += [r for r in removed if r.message not in later]
        self.rows.sort(key=lambda row: row.id)
        self.undone = None

    def retire(self):
        self.rows = [r for r in self.rows if r.removed is None]
        for row in self.rows:
            if row.tokens is not None:
                self.sums.append((row.label, row.tokens))
                row.tokens = None

    def drop_rare(self):
        times = Counter(f for r in self.rows if not r.removed for f in r.tokens or ())
        summed = {feature for _, tokens in self.sums for feature in tokens}
        rare = {feature for feature, n in times.items() if n == 1} - summed
        for row in self.rows:
            if row.tokens is not None:
                row.tokens = {f: n for f, n in row.tokens.items() if f not in rare}

    def counts(self):
        """Return the counts by class and feature."""
        sums = Counter()
        active = [(r.label, r.tokens) for r in self.rows if r.removed is None and r.tokens]
        for label, tokens in self.sums + active:
            sums.update({(label, feature): n for feature, n in tokens.items()})
        return sums

    def current_labels(self):
        return {r.message: (r.label, r.labelled_by) for r in self.rows if r.removed is None}


@pytest.fixture(scope="module", autouse=True)
def worker():
    """Start the other process, in which `AnyOrder` calls mailboxes."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as AnyOrder.worker:
        yield


class AnyOrder(RuleBasedStateMachine):
    """Operations on one database by two connections and another process."""

    marks = Bundle("marks")

    @initialize(target=marks, kind=st.sampled_from(sorted(CLASSIFIERS)))
    def begin(self, kind):
        self.kind = kind
        self.folder = TemporaryDirectory()
        self.path = f"{self.folder.name}/mail.db"
        first = Mailbox(self.path, classifier=CLASSIFIERS[kind]())
        self.boxes = {FIRST: first, SECOND: Mailbox(self.path)}
        self.slow = SlowLedger()
        self.batch = -1
        self.rewrites = 0
        return 0, 0.0, 0, exported(first)

    def run(self, caller, name, *args):
        """Call an operation and return the result of its outcome."""
        return self.start(caller, name, *args)()

    def start(self, caller, name, *args):
        """Start an operation, at once in another process; return a function for its result."""
        if caller == WORKER:
            return self.worker.submit(call_mailbox, self.path, name, *args).result
        return partial(call, self.boxes[caller], name, *args)

    @rule(target=marks)
    def mark(self):
        """Return the time and, with the number of rewrites of the ledger, the whole content."""
        with self.boxes[FIRST].reading():
            latest = self.boxes[FIRST].latest_moment
        since = math.nextafter(latest, math.inf)
        return self.slow.clock + 1, since, self.rewrites, exported(self.boxes[FIRST])

    @rule(caller=callers, message=messages, label=labels, labelled_by=labellers)
    def learn(self, caller, message, label, labelled_by):
        result = self.run(caller, "learn", MESSAGES[message], label, labelled_by)
        assert result == self.slow.learn(message, label, labelled_by)

    @rule(caller=st.sampled_from([FIRST, SECOND]), message=messages, label=labels)
    def fail(self, caller, message, label):
        def refuse():
            raise OSError("the disk is full")

        with pytest.raises(OSError, match="disk"):
            self.boxes[caller].learn(MESSAGES[message], label, run_first=refuse)

    @rule(caller=callers, several=lessons)
    def learn_many(self, caller, several):
        self.run(caller, "learn_many", [(MESSAGES[m], label) for m, label in several])
        for message, label in several:
            self.slow.learn(message, label)

    @rule(caller=callers, several=lessons, is_new=st.booleans())
    def learn_batch(self, caller, several, is_new):
        self.batch += is_new
        batch = [(MESSAGES[m], label) for m, label in several]
        self.run(caller, "learn_batch", batch, "stream", self.batch)
        if is_new:
            for message, label in several:
                self.slow.learn(message, label)

    @rule(caller=callers, message=messages, back_to=st.sampled_from([None, (), ("ham",)]))
    def retract(self, caller, message, back_to):
        result = self.run(caller, "retract", digest(MESSAGES[message]), back_to)
        assert result == self.slow.retract(message, back_to)

    @rule(caller=callers, since=marks)
    def undo(self, caller, since):
        clock, moment, rewrites, data = since
        dry = self.boxes[FIRST].undo(moment, dry_run=True)
        self.run(caller, "undo", moment)
        assert dry == self.slow.undo(clock)
        if rewrites == self.rewrites:
            assert exported(self.boxes[FIRST]) == data
        self.rewrites += 1

    @rule(caller=callers)
    def redo(self, caller):
        self.run(caller, "redo")
        self.slow.redo()
        self.rewrites += 1

    @rule(caller=callers, teacher=callers, message=messages, label=labels)
    def rebuild(self, caller, teacher, message, label):
        finish = self.start(teacher, "learn", MESSAGES[message], label)
        self.run(caller, "rebuild")
        assert finish() == self.slow.learn(message, label)
        self.rewrites += 1

    @rule(caller=callers, rare=st.booleans(), old=st.sampled_from([False, False, True]))
    def compact(self, caller, rare, old):
        self.run(caller, "compact", -1 if rare else None, -1 if old else None)
        self.rewrites += 1
        if old:
            self.slow.retire()
        if rare:
            self.slow.drop_rare()
        with self.boxes[FIRST].reading():
            if not undone_messages(self.boxes[FIRST]):
                self.slow.undone = None

    @rule(
        old=st.booleans(),
        others=st.dictionaries(messages, st.tuples(labels, labellers), min_size=1, max_size=3),
    )
    def merge(self, old, others):
        time = -1 if old else self.slow.tick()
        with Mailbox(
            f"{self.folder.name}/other{self.slow.clock}.db", classifier=CLASSIFIERS[self.kind]()
        ) as other:
            for message, (label, labelled_by) in others.items():
                stamp = 1.0 if old else None
                other.learn(MESSAGES[message], label, labelled_by, timestamp=stamp)
            merge(self.boxes[SECOND], other)
        self.slow.merge([(m, label, labeller, time) for m, (label, labeller) in others.items()])

    def check(self, box):
        stored = {m: box.label_of(digest(content)) for m, content in enumerate(MESSAGES)}
        assert {m: label[:2] for m, label in stored.items() if label} == self.slow.current_labels()
        assert box.verify() == []
        if self.kind == "counts alone":
            with box.reading():
                features, cells = box.counts[0].items()
                counts = {
                    (label, feature): cells[i, k]
                    for i, feature in enumerate(features.tolist())
                    for k, label in enumerate(box.labels)
                    if cells[i, k]
                }
                weights = dict(zip(box.labels, box.counts[0].weights, strict=True))
            assert counts == self.slow.counts()
            expected = Counter(label for label, _ in self.slow.current_labels().values())
            assert {label: n for label, n in weights.items() if n} == expected

    @rule(kind=st.sampled_from(["export", "recover", "upgrade"]))
    def copy(self, kind):
        """Every copy of the mailbox knows the same."""
        box, path = self.boxes[FIRST], f"{self.folder.name}/copy.db"
        if kind == "export":
            data = exported(box)
            with Mailbox(path) as copy:
                import_file(copy, f"{box.path}.out")
                self.check(copy)
                assert exported(copy) == data
        elif kind == "recover" and self.slow.current_labels():
            assert recover(self.path, path).losses == []
            with Mailbox(path) as copy:
                self.check(copy)
        elif kind == "upgrade" and self.kind == "mail":
            with create_upgraded(box, path) as copy:
                for content in MESSAGES:
                    copy_label(box, copy, content)
                self.check(copy)
        for file in Path(self.folder.name).glob("copy.db*"):
            file.unlink()

    @invariant()
    def all_see_what_the_slow_ledger_has(self):
        if hasattr(self, "boxes"):
            for box in self.boxes.values():
                self.check(box)

    def teardown(self):
        if hasattr(self, "boxes"):
            self.boxes[FIRST].undo(0.0)
            self.slow.undo(0)
            self.check(self.boxes[SECOND])
            for box in self.boxes.values():
                box.close()
            self.folder.cleanup()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(stateful_step_count=30)
