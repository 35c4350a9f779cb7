"""A classifier whose counts and history are in a database, within transactions."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from streamnb.classifier import Classifier, MailClassifier
from streamnb.counts.database import SqlCounts
from streamnb.counts.places import make_tables
from streamnb.counts.protocol import Label
from streamnb.database import Database
from streamnb.errors import StateError, damage_error
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.blend import (
    GAINS,
    Opinion,
    blend_scores,
    evidence_of,
    fit_gains,
    opinion_of,
    store_scores,
)
from streamnb.mailbox.ledger import HUMAN, PROGRAM, Ledger, Row, check_label, of_known
from streamnb.mailbox.location import WAIT, is_url
from streamnb.mailbox.schema import STATE, STATE_COPY
from streamnb.mailbox.sqlite import open_database
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.text_model import TextModel
from streamnb.scores import best_label

if TYPE_CHECKING:
    from pathlib import Path

Done = TypeVar("Done")

_MAX_CALLS = 64  # number of recent calls that a database stores


def _short_hash(text: str) -> str:
    from hashlib import sha256  # here: a process that only classifies needs none

    return sha256(text.encode()).hexdigest()[:16]


def classifier_of(identity: Any) -> Classifier:
    """Return a described classifier without counts; damage raises an exception of any type."""
    model = TextModel.from_header(identity["model"])
    return Classifier.from_settings(model, identity["settings"])


def check_kind(classifier: Classifier, path: str) -> None:
    """Raise StateError unless a database can store this classifier."""
    try:
        classifier.model.check_storable()
    except ValueError as error:
        raise StateError(f"{path}: {error}") from None


class Outcome(NamedTuple):
    """The result of learning or forgetting a message.

    Attributes
    ----------
    result
        "learned"; "corrected" (another label was unlearned first); "known" (it had this label
        already); "confirmed" (a person confirmed a program's label); "kept" (a program's label does
        not replace a person's label); "forgotten"; "unknown" (it was not learned); "retired"
        (unchanged, because its features were dropped).
    before
        Its label before; None if it had none.
    """

    result: str
    before: Label | None = None


class StoredClassifier:
    """A classifier, its counts and its ledger in a database.

    A transaction reads the classifier when it begins, and writes its state, the counts and the
    ledger when it ends. Methods that learn or unlearn one message run within a transaction;
    `Mailbox` opens one for each call.

    Parameters
    ----------
    path, create, wait, classifier, base
        As for `streamnb.Mailbox`.

    Attributes
    ----------
    database
        The transactions of the database.
    classifier
        The classifier; the counts of its views are `counts`.
    ledger
        The rows of all learned messages.
    base
        The model of the site, or None.
    gains
        The weights of this mailbox's scores and of the site's.
    refit_pending
        Whether the gains are fitted again when the transaction ends.
    latest_moment
        The latest moment of the ledger, valid within a transaction.
    settled
        Number of messages in runs of one class after the last `rebuild`.
    compactions
        Number of transactions in which `compact` dropped something.
    """

    def __init__(
        self,
        path: str | Path,
        create: bool = True,
        wait: float = WAIT,
        classifier: Classifier | None = None,
        base: Any | None = None,
    ) -> None:
        self.classifier: Classifier
        self.database: Database = open_database(path, create, wait)
        self.counts: list[SqlCounts] = []
        self.ledger: Ledger = Ledger(self.database)
        self._identity = ""  # identity of the loaded classifier, as in the state
        self._tokenizer_text = ""
        self.latest_moment: float = 0.0
        self.base = base
        self.gains: tuple[float, float] = GAINS
        self.refit_pending: bool = False
        self.settled: float = 0.0
        self.compactions: int = 0
        self._calls: list[str] = []  # recent calls, because a server's answer can be lost
        self._loaded = False  # True within a transaction whose state was read
        self._state_text: bytes | None = None  # text of the state in memory, None if it changed
        self._params_version = 0  # of the model with this state
        try:
            self._open(classifier)
        except BaseException:
            self.database.close()
            raise

    def _open(self, classifier: Classifier | None) -> None:
        with self.database.reading():
            identity = self.database.read_value("identity")
            if identity is not None:
                self._load(identity)  # raises StateError if the database is damaged
        if identity is None:
            with self.importing(classifier or MailClassifier(label_noise=0.0)):
                pass  # `importing` will set the classifier of the data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the database. Committed transactions are on the disk already."""
        self.database.close()

    @property
    def path(self) -> Path | str:
        """The database."""
        from pathlib import Path  # here: few processes need it

        return self.database.path if is_url(self.database.path) else Path(self.database.path)

    @contextmanager
    def importing(self, classifier: Classifier) -> Iterator[bool]:
        """Open a transaction like `writing`; an empty database first gets `classifier`.

        Yields whether the database was empty.
        """
        check_kind(classifier, self.database.path)
        with self.database.writing() as connection:
            (rows,) = connection.execute("SELECT count(*) FROM ledger").fetchone()
            if rows:
                self._load()
            else:
                identity = {
                    "model": classifier.model.clone().to_header(),
                    "settings": classifier.settings(),
                }
                self._state_text = None  # an error must not leave this classifier in memory
                make_tables(self.database, len(classifier.models))
                self.database.drop_undo_log()
                self._create_classifier(identity)
                self._identity = _short_hash(json.dumps(identity, sort_keys=True))
                for counts in self.counts:
                    counts.clear()
                self.database.store_value("identity", identity)
                self.database.store_value("identity", identity, STATE_COPY)
            with self._learning():
                yield not rows
            self._state_text = None
            self._load()  # the description was written completely, or not at all

    def _create_classifier(self, identity: Any) -> None:
        """Create the classifier that the database describes."""
        try:
            self.classifier = classifier_of(identity)
            self.classifier.on = None
        except Exception as error:
            raise damage_error(self.database.path, f"its model ({error!s:.100})") from None
        check_kind(self.classifier, self.database.path)
        self.counts = [SqlCounts(self.database, view) for view in range(len(self.models))]
        for member, counts in zip(self.models, self.counts, strict=True):
            member.counts = counts  # the model has no reference to its classifier
        self.ledger.model, self.ledger.counts = self.classifier.model, self.counts
        self._tokenizer_text = json.dumps(identity["settings"]["tokenizer"], sort_keys=True)

    @property
    def tokenizer_id(self) -> str:
        """The identity of the tokenizer's settings, which rows of the ledger store."""
        return _short_hash(self._tokenizer_text)

    def untrained_model(self) -> TextModel:
        """Return an untrained model in memory with the same parameters and classes."""
        model = TextModel.from_header(self.database.read_value("identity")["model"])
        for member in model.view_models:
            member.keep_names = False
            member.counts.add_classes(self.labels)
        return model

    def views_of(self, row: Row) -> tuple[TokenCounts, ...]:
        """Return the features of a row by view; empty if they were dropped."""
        return row.tokens or (TokenCounts.from_dict({}),) * len(self.counts)

    def check_places(self) -> None:
        """Raise StateError if a feature's place has the counts of another feature."""
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
        """The classes, in the order in which they were first seen."""
        return self.counts[0].labels

    @property
    def active_labels(self) -> list[Label]:
        """The classes with messages, in the order in which they were first seen."""
        return [label for label, n in self.classifier.messages().items() if n > 0]

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open a transaction that reads the classifier's state from the database.

        Within another transaction it is part of that one.
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
        """Open a transaction in which the classifier can learn, committed as a whole."""
        with self.database.writing():
            self._load()
            self.refit_pending = False
            with self._learning():
                yield

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """Write the classifier's state at the end, unless an error is raised."""
        self._loaded, self._state_text = True, None
        try:
            yield
        finally:
            self._loaded = False
        self._keep()

    def _load(self, identity: Any = None) -> None:
        """Read the state, and the classifier unless it is loaded."""
        text = self.database.read_text(STATE)
        if text is None:
            raise damage_error(self.database.path, "it has no state")
        # With many classes, reading the state takes most of a prediction.
        if (
            text == self._state_text
            and self.classifier.model.params_version == self._params_version
        ):
            for counts in self.counts:
                counts.forget()
            return
        now, self._state_text = self.database.parse_value(STATE, text), None
        try:
            if now["identity"] != self._identity:
                self._create_classifier(identity or self.database.read_value("identity"))
                self._identity = str(now["identity"])
            self.latest_moment = float(now["moment"])
            self.settled = float(now["settled"])
            self.compactions = int(now.get("compactions", 0))
            self._calls = [str(call) for call in now.get("calls", ())]
            own, site = now.get("gains", GAINS)
            self.gains = float(own), float(site)
            for counts, state in zip(self.counts, now["views"], strict=True):
                counts.load(state)
            self.classifier.model.restore(now)
            self._state_text = text
            self._params_version = self.classifier.model.params_version
        except StateError:
            raise
        except Exception as error:  # the file can have any content
            raise damage_error(self.database.path, f"its state ({error!s:.100})") from None

    def _keep(self) -> None:
        self.settled = min(self.settled, self.classifier.model.messages_in_runs)
        if self.refit_pending:
            self.refit_pending = False
            self.gains = fit_gains(self.database, [str(label) for label in self.labels])
        now: dict[str, Any] = {
            "identity": self._identity,
            "moment": self.latest_moment,
            "settled": self.settled,
            "views": [counts.state() for counts in self.counts],
            **({"calls": self._calls} if self._calls else {}),
            **({"compactions": self.compactions} if self.compactions else {}),
            **({} if self.gains == GAINS else {"gains": list(self.gains)}),
            **self.classifier.model.state(),
        }
        self._state_text = self.database.store_value(STATE, now)
        self._params_version = self.classifier.model.params_version

    def transact(
        self, act: Callable[[], Done], run_first: Callable[[], None] | None = None
    ) -> Done:
        """Run `act` in a transaction and return its result.

        `run_first` runs before it in the same transaction. If the connection to a server is lost,
        both run again, unless the list of recent calls shows a commit.
        """
        call = os.urandom(6).hex() if self.database.loses_answers else ""
        results: list[Done] = []

        def attempt() -> Done:
            with self.writing():
                if call and call in self._calls:
                    return results[0]
                if run_first is not None:
                    run_first()
                results[:] = [act()]
                if call:
                    self._calls = [*self._calls, call][-_MAX_CALLS:]
            return results[0]

        return self.database.retry(attempt)

    def moment(self, timestamp: float | None = None) -> float:
        """Return a moment that is later than every earlier one, even if the clock went back.

        It is in seconds since 1970, and equals the clock's time if that is later. No two rows of
        the ledger have the same moment, so `undo` can distinguish them. Call it in a transaction.
        Raise ValueError if `timestamp` is not finite.
        """
        if timestamp is not None and not math.isfinite(timestamp):
            raise ValueError(f"timestamp: expected a finite number, not {timestamp}")
        now = time.time()
        now = now if timestamp is None else min(timestamp, now)
        self.latest_moment = max(now, math.nextafter(self.latest_moment, math.inf))
        return self.latest_moment

    def request_refit(self) -> None:
        """Fit the gains when the transaction ends, unless there is no site model."""
        self.refit_pending = self.refit_pending or self.base is not None or self.gains != GAINS

    def has_learned(self, key: bytes, label: Label) -> bool:
        """Return whether a message is learned with that label."""
        with self.database.reading():
            current = self.ledger.label_of(key)
        spelt = {i: str(label) for i, label in enumerate(self.labels)}
        return current is not None and spelt.get(current[0]) == str(label)

    def learn_features(
        self,
        count: Callable[[], tuple[Any, Opinion | None]],
        key: bytes,
        label: Label,
        labelled_by: str,
        source: str,
        timestamp: float | None,
        feedback: str | None = None,
    ) -> Outcome:
        """Learn a message within a transaction.

        `count` returns the message's features and the site's opinion; it is called only if needed.
        """
        now = self.moment(timestamp)
        label = of_known(self.labels, check_label(label))
        current = self.ledger.label_of(key)
        number = self.labels.index(label) if label in self.labels else None
        if (
            current is not None
            and current[0] == number
            and (labelled_by != HUMAN or current[1] == HUMAN)
        ):
            return Outcome("known", label)
        before = None if current is None else self.ledger.active(key)
        if before is not None:
            outcome = self._overrule(before, label, labelled_by, source, now)
            if outcome is not None:
                return outcome
        counted, site = count()
        predicted = self._predict_label(counted, key, site)
        receipt = self.classifier.model.learn(counted, label, 1.0, feedback)
        number = self.labels.index(label)
        predicted_index = None if predicted is None else self.labels.index(predicted)
        row_time = time.time() if timestamp is None else timestamp
        views = self.classifier.model.views_of(counted)
        self.ledger.write(
            Row(
                0, key, number, labelled_by, source, row_time, now, None, predicted_index,
                self.tokenizer_id, receipt, views,
            )
        )  # fmt: skip
        if before is None:
            return Outcome("learned")
        return Outcome("corrected", self.labels[before.label])

    def _predict_label(self, counted: Any, key: bytes, site: Opinion | None) -> Label | None:
        """Return the class predicted for a message before it is learned; None without a class."""
        if site is None or self.base is None:
            return self.classifier.model.predict_one(counted) if self.active_labels else None
        own = opinion_of(self.classifier, counted)
        evidence = evidence_of(own, site, str(self.classifier.positive))
        comparable = {label: evidence[label] for label in site.scores}
        store_scores(self.database, key, site.version, comparable)
        self.refit_pending = True
        best = best_label(blend_scores(evidence, self.gains))
        return next((label for label in self.labels if str(label) == best), None)

    def _overrule(
        self, before: Row, label: Label, labelled_by: str, source: str, now: float
    ) -> Outcome | None:
        """Remove the current label of a message. Return an outcome if the message is done."""
        current_label = self.labels[before.label]
        if current_label == label:
            self.confirm(before, source, now)
            return Outcome("confirmed", current_label)
        if before.labelled_by == HUMAN and labelled_by == PROGRAM:
            return Outcome("kept", current_label)
        if before.tokens is None:
            return Outcome("retired", current_label)
        self.end_row(before, now)
        return None

    def confirm(self, before: Row, source: str, now: float) -> None:
        """Record that a person confirms a program's label."""
        self.ledger.end(before, now)
        self.ledger.write(before._replace(labelled_by=HUMAN, source=source, time=now, added_at=now))

    def retract_label(
        self, key: bytes, back_to: Sequence[Label] | None, timestamp: float | None
    ) -> Outcome:
        """Unlearn the last label of a message and restore the label that it corrected.

        A label that is not in `back_to` is not restored; None stands for all labels.
        """
        row = self.ledger.active(key)
        if row is None:
            return Outcome("unknown")
        label = self.labels[row.label]
        if row.tokens is None:
            return Outcome("retired", label)
        now = self.moment(timestamp)
        self.end_row(row, now)
        if back_to is not None and not back_to:
            return Outcome("forgotten", label)
        condition = "digest = ? AND removed_at = ? AND id < ?"
        for old in self.ledger.find(condition, (key, row.added_at, row.id))[-1:]:
            if old.tokens is not None and (back_to is None or self.labels[old.label] in back_to):
                # A new moment, so the restored row corrects none: a further retraction restores no
                # label.
                self.add_row(old._replace(id=0, added_at=self.moment(timestamp), removed_at=None))
        return Outcome("forgotten", label)

    def unlearn_row(self, row: Row) -> None:
        """Subtract a row's counts."""
        self.request_refit()
        model = self.classifier.model
        try:
            label = self.labels[row.label]
            model.unlearn_checked(model.join_views(self.views_of(row)), label, row.receipt)
        except (ValueError, IndexError) as error:
            raise StateError(
                f"{self.database.path}: counts and ledger disagree ({error}); run `streamnb verify`"
            ) from None

    def end_row(self, row: Row, now: float) -> None:
        """Subtract a row's counts and mark the row as removed."""
        self.unlearn_row(row)
        self.ledger.end(row, now)

    def add_row(self, row: Row) -> None:
        """Add the counts of a row by its receipt, and write the row to the ledger."""
        self.relearn_row(row)
        self.ledger.write(row)

    def relearn_row(self, row: Row) -> None:
        """Add a row's counts."""
        self.request_refit()
        model = self.classifier.model
        message = model.join_views(self.views_of(row))
        model.reapply_checked(message, self.labels[row.label], row.receipt)
