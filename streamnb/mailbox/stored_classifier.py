"""A classifier whose counts and history are in a database, within transactions."""

from __future__ import annotations

import json
import math
import os
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, TypeVar

from streamnb.classifier import Classifier, MailClassifier
from streamnb.counts.database import SqlCounts
from streamnb.counts.places import make_tables
from streamnb.counts.protocol import Label
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.blend import GAINS, SiteScores, fitted
from streamnb.mailbox.database import opened
from streamnb.mailbox.ledger import LABELLERS, Ledger, Row
from streamnb.mailbox.location import WAIT
from streamnb.mailbox.transactions import STATE, STATE_COPY, Transactions, TransientError
from streamnb.naive_bayes.text_model import CountingNB, TextModel

Done = TypeVar("Done")

_CALLS = 64  # calls that a database remembers
_COMMANDS = "commands"  # the state that holds the spans of commands
_COMMAND_SPANS = 100  # commands that `undo --last` can take back as a whole; each is 40 bytes


def classifier_of(identity: Any) -> Classifier:
    """The classifier that was described, without counts; any exception where that is not sound."""
    model = TextModel.from_header(identity["model"])
    return Classifier.from_settings(model, identity["settings"])


def check_kind(classifier: Classifier, where: str) -> None:
    """Raise StateError where a classifier is not one that a database can hold."""
    try:
        classifier.model.check_storable()
    except ValueError as error:
        raise StateError(f"{where}: {error}") from None


def check_row(row: Row, model: TextModel, classes: int) -> None:
    """Raise ValueError for a row of another model or of more classes."""
    if row.label not in range(classes) or row.predicted not in (None, *range(classes)):
        raise ValueError("a class that is not known")
    if row.tokens is not None and len(row.tokens) != len(model.view_models):
        raise ValueError("a message of other views")
    model.check_receipt(row.receipt, classes)
    if row.receipt.decay_halvings != 0:
        raise ValueError("counts in a database do not age")
    if row.removed_at is not None and not row.added_at <= row.removed_at < math.inf:
        raise ValueError("taken back before it was learned")
    if row.labelled_by not in LABELLERS:
        raise ValueError("said by nobody that is known")


class StoredClassifier:
    """A classifier, its counts and its ledger in a database.

    It is read when a transaction begins, and what it keeps beside counts and ledger is written when
    one ends. Steps within a transaction are functions (`lessons`, `undo`, `groups`).

    Parameters
    ----------
    path, create, wait, classifier, base
        As for `streamnb.Mailbox`.

    Attributes
    ----------
    database
        Where it is.
    classifier
        What learns and judges; its counts are `counts`, one for each view.
    ledger
        What was learned, message by message.
    base
        What a site knows, or None.
    gains
        What this mailbox's own word and the base's are worth.
    gains_left
        Whether they are to be fitted anew when the transaction ends.
    settled
        Missed turns that learning anew (`rebuild`) could not mend.
    compactions
        Transactions in which something was dropped (`compact`).
    """

    def __init__(
        self,
        path: str | Path,
        create: bool = True,
        wait: float = WAIT,
        classifier: Classifier | None = None,
        base: SiteScores | None = None,
    ) -> None:
        self.classifier: Classifier
        self.tokenizer_id: str
        self.database: Transactions = opened(path, create, wait)
        self.counts: list[SqlCounts] = []
        own = weakref.proxy(self)  # in a cycle a server's closed mailboxes would be kept for long
        self.ledger: Ledger = Ledger(
            self.database,
            lambda row: check_row(row, own.classifier.model, len(own.labels)),
            lambda view, places: own.counts[view].features_at(places),
            lambda view, features: own.counts[view].places_of(features),
        )
        self._identity = ""
        self._moment = 0.0
        self.base = base
        self.gains: tuple[float, float] = GAINS
        self.gains_left: bool = False
        self.settled: float = 0.0
        self.compactions: int = 0
        self._calls: list[str] = []  # those done last, where a server's answer may be lost
        self._loaded = False  # whether a transaction is open that has read what there is
        try:
            self._open(classifier)
        except BaseException:
            self.database.close()
            raise

    def _open(self, classifier: Classifier | None) -> None:
        with self.database.reading():
            identity = self.database.value("identity")
            if identity is not None:
                self._become(identity)
                self._load()  # it is sound, or this says what is wrong
        if identity is None:
            with self.absorbing(classifier or MailClassifier(label_noise=0.0)):
                pass  # it takes over what it is

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database; what was learned is safe with or without this."""
        self.database.close()

    @property
    def path(self) -> Path | str:
        """The database."""
        return self.database.path

    @contextmanager
    def absorbing(self, classifier: Classifier) -> Iterator[bool]:
        """Open a transaction like `writing`; an empty database takes over that classifier first.

        Gives whether nothing was.
        """
        check_kind(classifier, str(self.path))
        with self.database.writing() as connection:
            (rows,) = connection.execute("SELECT count(*) FROM ledger").fetchone()
            if rows:
                self._load()
            else:
                identity = {
                    "model": classifier.model.clone().to_header(),
                    "settings": classifier.settings(),
                }
                make_tables(self.database, len(classifier.models))
                self.database.forget_undone()
                self._become(identity)
                for counts in self.counts:
                    counts.clear()
                self.database.keep("identity", identity)
                self.database.keep("identity", identity, STATE_COPY)
            with self._learning():
                yield not rows
            self._load()  # what was written is sound, or none of it is written

    def _become(self, identity: Any) -> None:
        """Make the classifier that the database says it holds."""
        try:
            self.classifier = classifier_of(identity)
            self.classifier.on = None
        except Exception as error:
            raise StateError(
                f"{self.path}: the database is damaged: its model ({error!s:.100}); restore it "
                "from a backup"
            ) from None
        check_kind(self.classifier, str(self.path))
        self.counts = [SqlCounts(self.database, view) for view in range(len(self.models))]
        for member, counts in zip(self.models, self.counts, strict=True):
            member.counts = counts  # a model does not know which it holds
        text = json.dumps(identity, sort_keys=True)
        self._identity = sha256(text.encode()).hexdigest()[:16]
        described = json.dumps(identity["settings"]["tokenizer"], sort_keys=True)
        self.tokenizer_id = sha256(described.encode()).hexdigest()[:16]

    def untaught(self) -> TextModel:
        """A model of the same kind, in memory, that knows the classes and nothing else."""
        model = TextModel.from_header(self.database.value("identity")["model"])
        for member in model.view_models:
            member.keep_names = False
            member.counts.add_classes(self.labels)
        return model

    def views_of(self, row: Row) -> tuple[TokenCounts, ...]:
        """The features of a row; none of any view where they were dropped."""
        return row.tokens or (TokenCounts.from_dict({}),) * len(self.counts)

    def check_places(self) -> None:
        """Raise StateError unless features and blocks agree on where all features lie."""
        for counts in self.counts:
            counts.check_places()

    @property
    def location(self) -> str:
        """The path or complete URL that opens the database again."""
        return self.database.location

    @property
    def models(self) -> Sequence[CountingNB]:
        """The counting model of each view."""
        return self.classifier.models

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order they came."""
        return self.counts[0].labels

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction in which the classifier knows what the database does.

        Within another one it is part of that.
        """
        with self.database.reading():
            if not self._loaded:
                self._load()
            self._loaded, before = True, self._loaded
            try:
                yield
            finally:
                self._loaded = before

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction in which the classifier can learn; all of it is done, or nothing."""
        with self.database.writing():
            self._load()
            self.gains_left = False
            with self._learning():
                yield

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """Write the classifier's state at the end, unless an error is raised."""
        self._loaded = True
        try:
            yield
        finally:
            self._loaded = False
        self._keep()

    def _load(self) -> None:
        now = self.database.value(STATE)
        if now is None:
            raise StateError(f"{self.path}: the database is damaged: it has no state")
        try:
            if now["identity"] != self._identity:
                self._become(self.database.value("identity"))
            self._moment = float(now["moment"])
            self.settled = float(now["settled"])
            self.compactions = int(now.get("compactions", 0))
            self._calls = [str(call) for call in now.get("calls", ())]
            own, site = now.get("gains", GAINS)
            self.gains = float(own), float(site)
            for counts, state in zip(self.counts, now["views"], strict=True):
                counts.load(state)
            self.classifier.model.restore(now)
        except StateError:
            raise
        except Exception as error:  # whatever was done to the file
            raise StateError(
                f"{self.path}: the database is damaged: its state ({error!s:.100}); restore it "
                "from a backup"
            ) from None

    def _keep(self) -> None:
        self.settled = min(self.settled, self.classifier.model.messages_in_runs)
        if self.gains_left:
            self.gains_left = False
            self.gains = fitted(self.database.connection, [str(label) for label in self.labels])
        now: dict[str, Any] = {
            "identity": self._identity,
            "moment": self._moment,
            "settled": self.settled,
            "views": [counts.state() for counts in self.counts],
            **({"calls": self._calls} if self._calls else {}),
            **({"compactions": self.compactions} if self.compactions else {}),
            **({} if self.gains == GAINS else {"gains": list(self.gains)}),
            **self.classifier.model.state(),
        }
        self.database.keep(STATE, now)

    def once(self, act: Callable[[], Done], also: Callable[[], None] | None = None) -> Done:
        """Do something in a transaction, once, also where a server goes away meanwhile.

        `also`, if given, runs first in the same transaction. If the connection is lost, all of it
        is run again, unless the database's list of recent calls shows that it was committed.
        """
        call = os.urandom(6).hex() if self.database.loses_answers else ""
        results: list[Done] = []

        def attempt() -> Done:
            with self.writing():
                if call and call in self._calls:
                    return results[0]
                if also is not None:
                    also()
                results[:] = [act()]
                if call:
                    self._calls = [*self._calls, call][-_CALLS:]
            return results[0]

        return self.retrying(attempt)

    def retrying(self, action: Callable[[], Done]) -> Done:
        """Do a transaction, and do it again while the server is away, as long as `wait` says."""
        until = time.monotonic() + self.database.wait
        pause = 0.01
        while True:
            try:
                return action()
            except TransientError:
                if self.database.writes is not None or time.monotonic() + pause > until:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

    def moment(self, when: float | None = None) -> float:
        """Now, within a transaction: later than any moment before, whatever clocks do.

        No two lessons share one, so that `undo` can tell them apart, also after a clock was ahead.
        """
        now = time.time()
        now = now if when is None else min(when, now)
        self._moment = now if now > self._moment else math.nextafter(self._moment, math.inf)
        return self._moment

    @property
    def latest_moment(self) -> float:
        """The latest moment of the ledger, within a transaction."""
        return self._moment

    def record_command(self, start: float) -> None:
        """Record, within a transaction, that one command made all changes after `start`."""
        spans = [span for span in self.command_spans() if span[0] != start]
        spans.append((start, self._moment))
        self.database.keep(_COMMANDS, spans[-_COMMAND_SPANS:])

    def command_spans(self) -> list[tuple[float, float]]:
        """Return the latest commands, within a transaction.

        Each is the moment before its first change and the moment of its last.
        """
        return [(start, end) for start, end in self.database.value(_COMMANDS) or ()]

    def fit_gains_anew(self) -> None:
        """Fit the gains when the transaction ends, where there is anything to fit."""
        self.gains_left = self.gains_left or self.base is not None or self.gains != GAINS

    def has_learned(self, key: bytes, label: Label) -> bool:
        """Return whether a message is learned with that label."""
        with self.database.reading():
            current = self.ledger.said_of(key)
        spelt = {i: str(label) for i, label in enumerate(self.labels)}
        return current is not None and spelt.get(current[0]) == str(label)
