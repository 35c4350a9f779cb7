"""A mailbox's memory: what was learned of it, by whom, and every way to take it back."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, Self, TypeVar

from streamnb.classifier import Classifier, MailClassifier, Verdict
from streamnb.counts.database import SqlCounts, make_tables
from streamnb.counts.protocol import Label
from streamnb.errors import StateError
from streamnb.features.token_counts import TokenCounts
from streamnb.mailbox.blend import (
    GAINS,
    Site,
    blended,
    evidence_of,
    fitted,
    remember,
    scores_of,
    verdict_of_both,
)
from streamnb.mailbox.database import opened
from streamnb.mailbox.digest import digest
from streamnb.mailbox.groups import Teaching, learn_batch, learn_many
from streamnb.mailbox.ledger import HUMAN, PROGRAM, TEACHERS, Ledger, Row, check_origin, of_known
from streamnb.mailbox.location import WAIT
from streamnb.mailbox.transactions import FORMER_STATE, STATE, TransientError
from streamnb.mailbox.undo import Undone, forget_undone, undo
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.counting import CountingNB

__all__ = ["Mailbox", "Outcome", "check_kind", "check_row"]


Done = TypeVar("Done")

_CALLS = 64  # calls that a database remembers


class Outcome(NamedTuple):
    """What became of a label that was given.

    Attributes
    ----------
    what
        "learned"; "corrected" (another label was unlearned first); "known" (nothing to do);
        "confirmed" (a person says what a program had said); "kept" (a program contradicts a
        person); "forgotten"; "unknown" (nothing to forget); "retired" (learned so long ago that its
        features were dropped: nothing changed).
    before
        The label it had, None where it had none.
    """

    what: str
    before: Label | None = None


def check_kind(classifier: Classifier, where: str) -> None:
    """Raise StateError where a classifier is not one that a database can hold."""
    try:
        classifier.model.check_keepable()
    except ValueError as error:
        raise StateError(f"{where}: {error}") from None


def check_row(row: Row, model: TextModel, classes: int) -> None:
    """Raise ValueError for a row of another model or of more classes."""
    if row.label not in range(classes) or row.expected not in (None, *range(classes)):
        raise ValueError("a class that is not known")
    if row.tokens is not None and len(row.tokens) != len(model.members):
        raise ValueError("a message of other views")
    model.check_receipt(row.receipt, classes)
    if row.receipt.exponent != 0:
        raise ValueError("counts in a database do not age")
    if row.ended is not None and not row.added <= row.ended < math.inf:
        raise ValueError("taken back before it was learned")
    if row.teacher not in TEACHERS:
        raise ValueError("said by nobody that is known")


class Mailbox:
    r"""A classifier whose counts and whole history are in a database.

    Each message is learned in one transaction: whatever happens, all of it was learned or nothing.
    The ledger holds what each message added: learning it twice is learning it once, another label
    takes the first one back exactly, and so do `forget` and `undo`, also when the message is
    gone. Several processes can use one database; classifying reads only a message's own counts.
    Threads can share one object: what one of them does waits for what another does.

    Parameters
    ----------
    path
        The database.
    create
        Whether to make it where it is missing.
    wait
        Seconds to wait for other processes.
    classifier
        What a new database holds; None for `MailClassifier(label_noise=0)`: labels are the owner's
        own, and are believed.
    base
        What a site knows, which is asked beside this mailbox (`streamnb.mailbox.base.Base`).

    Examples
    --------
    >>> import tempfile
    >>> from streamnb import Mailbox
    >>> folder = tempfile.TemporaryDirectory()
    >>> mailbox = Mailbox(folder.name + "/mail.db")
    >>> spam, ham = b"Subject: Cheap pills\n\nBuy now", b"Subject: Lunch\n\nAt noon?"
    >>> mailbox.learn(spam, "ham").what  # a slip
    'learned'
    >>> mailbox.learn(spam, "spam")
    Outcome(what='corrected', before='ham')
    >>> mailbox.learn(ham, "ham").what, mailbox.learn(ham, "ham").what
    ('learned', 'known')
    >>> mailbox.classify(b"Subject: pills\n\nBuy pills").label
    'spam'
    >>> mailbox.forget(spam), mailbox.verify()
    (Outcome(what='forgotten', before='spam'), [])
    >>> mailbox.close(); folder.cleanup()
    """

    def __init__(
        self,
        path: str | Path,
        create: bool = True,
        wait: float = WAIT,
        classifier: Classifier | None = None,
        base: Site | None = None,
    ) -> None:
        self.database = opened(path, create, wait)
        self.counts: list[SqlCounts] = []
        self.ledger = Ledger(
            self.database,
            self._check_row,
            lambda view, places: self.counts[view].features_at(places),
            lambda view, features: self.counts[view].places_of(features),
        )
        self._identity = ""
        self._moment = 0.0
        self.base = base
        self.gains = GAINS  # what this mailbox's own word and the base's are worth
        self._gains_left = False  # whether they are to be fitted anew
        self.settled = 0.0  # missed turns that learning anew (`rebuild`) could not mend
        self.compactions = 0  # transactions in which something was dropped (`compact`)
        self._calls: list[str] = []  # those done last, where a server's answer may be lost
        self._loaded = False  # whether a transaction is open that has read what there is
        try:
            self._open(classifier)
        except BaseException:
            self.database.close()
            raise

    def _open(self, classifier: Classifier | None) -> None:
        with self.database.reading():
            known = self.database.value("identity")
            if known is not None:
                self._become(known)
                self._load()  # it is sound, or this says what is wrong
        if known is None:
            self.take_identity(classifier or MailClassifier(label_noise=0.0))

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

    def take_identity(self, classifier: Classifier) -> None:
        """Become a database of that classifier, where nothing was learned yet."""
        with self.absorbing(classifier):
            pass

    @contextmanager
    def absorbing(self, classifier: Classifier) -> Iterator[bool]:
        """As `writing`; where nothing was learned yet, first become of that classifier.

        Gives whether nothing was.
        """
        check_kind(classifier, str(self.path))
        with self.database.writing() as connection:
            (rows,) = connection.execute("SELECT count(*) FROM ledger").fetchone()
            if rows:
                self._load_to_write()
            else:
                identity = {
                    "model": classifier.model.clone().outline(),
                    "settings": classifier.settings(),
                }
                make_tables(self.database, len(classifier.models))
                self._leave_former_format()
                forget_undone(self)
                self._become(identity)
                for counts in self.counts:
                    counts.clear()
                self.database.keep("identity", identity)
            self._loaded = True
            try:
                yield not rows
            finally:
                self._loaded = False
            self._keep()
            self._load()  # what was written is sound, or none of it is written

    def _become(self, identity: Any) -> None:
        """Make the classifier that the database says it holds."""
        try:
            model = TextModel.of_outline(identity["model"])
            self.classifier = Classifier.from_settings(model, identity["settings"])
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

    @property
    def location(self) -> str:
        """What opens the database again; its path, or the URL with all that it says."""
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
            self._load_to_write()
            self._loaded, self._gains_left = True, False
            try:
                yield
            finally:
                self._loaded = False
            self._keep()

    def _load(self) -> None:
        now = self.database.value(STATE)
        keyed = now is not None
        if now is None:
            now = self.database.value(FORMER_STATE)
        if now is None:
            raise StateError(f"{self.path}: the database is damaged: it has no state")
        try:
            if now["identity"] != self._identity:
                self._become(self.database.value("identity"))
            self._moment = float(now["moment"])
            self.settled = float(now.get("settled", 0.0))
            self.compactions = int(now.get("compactions", 0))
            self._calls = [str(call) for call in now.get("calls", ())]
            own, site = now.get("gains", GAINS)
            self.gains = float(own), float(site)
            for counts, state in zip(self.counts, now["views"], strict=True):
                counts.load(state)
                counts.keyed = keyed
            self.classifier.model.restore(now)
        except StateError:
            raise
        except Exception as error:  # whatever was done to the file
            raise StateError(
                f"{self.path}: the database is damaged: its state ({error!s:.100}); restore it "
                "from a backup"
            ) from None

    def _load_to_write(self) -> None:
        self._load()
        if not all(counts.keyed for counts in self.counts):
            for counts in self.counts:
                counts.give_keys()
            self._leave_former_format()

    def _leave_former_format(self) -> None:
        """Say that the format is the newest; processes of before, which still run, find nothing."""
        self.database.keep_version()
        self.database.connection.execute("DELETE FROM state WHERE name = ?", (FORMER_STATE,))

    def _check_row(self, row: Row) -> None:
        check_row(row, self.classifier.model, len(self.labels))

    def _keep(self) -> None:
        self.settled = min(self.settled, self.classifier.model.missed_turns)
        if self._gains_left:
            self._gains_left = False
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

    def learn(
        self,
        message: bytes,
        label: Label,
        teacher: str = HUMAN,
        source: str = "learn",
        when: float | None = None,
        also: Callable[[], None] | None = None,
    ) -> Outcome:
        """Learn a message, once and for all; another label than before is a correction.

        Parameters
        ----------
        message
            The message.
        label
            Its class.
        teacher
            "human", or "program" for what no person said: that never overrules a person.
        source
            Where it came from; the first word is what `status` counts by.
        when
            Seconds since 1970; None for now.
        also
            Called within the transaction, so that what it writes is written with this or not at
            all.
        """
        key = digest(message)
        check_origin(teacher, source)
        if when is not None and not math.isfinite(when):
            raise ValueError(f"when: a finite number, not {when}")
        used = self.classifier
        counted = used.count(message)
        return self._learn(
            lambda: counted if self.classifier is used else self.classifier.count(message),
            key,
            label,
            teacher,
            source,
            when,
            also,
            message,
        )

    def learn_counted(
        self,
        counted: Any,
        key: bytes,
        label: Label,
        teacher: str = HUMAN,
        source: str = "learn",
        when: float | None = None,
    ) -> Outcome:
        """As `learn`, for a message that is gone, of its features and its digest."""
        return self._learn(lambda: counted, key, label, teacher, source, when, None)

    def _learn(
        self,
        count: Callable[[], Any],
        key: bytes,
        label: Label,
        teacher: str,
        source: str,
        when: float | None,
        also: Callable[[], None] | None,
        message: bytes | None = None,
    ) -> Outcome:
        site = None if self.base is None or message is None else self.base.scores(message)

        def learned() -> Outcome:
            if also is not None:
                also()
            # Not before: another process may have made it another kind of database.
            return self.learn_within(lambda: (count(), site), key, label, teacher, source, when)

        return self.once(learned)

    def once(self, act: Callable[[], Done]) -> Done:
        """Do something in a transaction, once, also where a server goes away meanwhile.

        It is done again then, unless the transaction was done and only its answer was lost: the
        database knows its last calls.
        """
        call = token_hex(6) if self.database.loses_answers else ""
        said: list[Done] = []

        def attempt() -> Done:
            with self.writing():
                if call and call in self._calls:
                    return said[0]
                said[:] = [act()]
                if call:
                    self._calls = [*self._calls, call][-_CALLS:]
            return said[0]

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

    def learn_within(
        self,
        count: Callable[[], tuple[Any, dict[str, float] | None]],
        key: bytes,
        label: Label,
        teacher: str,
        source: str,
        when: float | None,
    ) -> Outcome:
        """Learn a message, within a transaction.

        `count` gives its features and what the site says of it, where that is asked for.
        """
        now = self.moment(when)
        label = of_known(self.labels, label)
        said = self.ledger.said_of(key)
        number = self.labels.index(label) if label in self.labels else None
        if said is not None and said[0] == number and (teacher != HUMAN or said[1] == HUMAN):
            return Outcome("known", label)
        before = None if said is None else self.ledger.active(key)
        if before is not None:
            outcome = self._overrule(before, label, teacher, source, now)
            if outcome is not None:
                return outcome
        counted, site = count()
        expected = self._expected(counted, key, site)
        receipt = self.classifier.model.learn(counted, label)
        self.ledger.write(
            Row(
                0,
                key,
                self.labels.index(label),
                teacher,
                source,
                time.time() if when is None else when,
                now,
                None,
                None if expected is None else self.labels.index(expected),
                self.tokenizer_id,
                receipt,
                self.classifier.model.views_of(counted),
            )
        )
        if before is None:
            return Outcome("learned")
        return Outcome("corrected", self.labels[before.label])

    def learn_many(
        self, lessons: Iterable[Teaching], teacher: str = HUMAN, source: str = "learn"
    ) -> list[Outcome]:
        """Learn messages as `learn` does one after the other, some hundred in a transaction.

        That is several times as fast, and the same to the last digit; but where there is a `base`,
        what it is worth is fitted once for all of them. Who wants to tell of each message when it
        is safe takes `streamnb.mailbox.groups.learn_many`.

        Parameters
        ----------
        lessons
            Messages and their classes: ``(message, label)``, or ``(message, label, source)``.
            Where they raise an error, what came before it is learned all the same.
        teacher, source
            As for `learn`.

        Returns
        -------
        list of Outcome
            What became of each.

        Examples
        --------
        >>> import tempfile
        >>> from streamnb import Mailbox
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Mailbox(folder.name + "/mail.db") as mailbox:
        ...     mailbox.learn_many([(b"Subject: pills", "spam"), (b"Subject: lunch", "ham")])
        [Outcome(what='learned', before=None), Outcome(what='learned', before=None)]
        >>> folder.cleanup()
        """
        return [outcome for _, outcome in learn_many(self, lessons, teacher, source)]

    def learn_batch(
        self, lessons: Iterable[Teaching], stream: str, number: int, source: str = "batch"
    ) -> int:
        """Learn the messages of a numbered batch in one transaction, unless that was done before.

        Parameters
        ----------
        lessons
            As for `learn_many`; as with `learn`, a message that is known is not learned again.
        stream
            What the batch is one of; its batches come with rising numbers.
        number
            Of the batch. One that is not higher than the last of its stream was learned before.
        source
            As for `learn`.

        Returns
        -------
        int
            How many messages it changed something for.
        """
        check_origin(HUMAN, source)
        return learn_batch(self, lessons, stream, number, source)

    def _expected(self, counted: Any, key: bytes, site: dict[str, float] | None) -> Label | None:
        """What a message that is about to be learned would be taken for; None for nothing known."""
        if site is None or self.base is None:
            return self.classifier.model.predict_one(counted)
        evidence = evidence_of(scores_of(self.classifier, counted), site)
        remember(self.database.connection, key, self.base.version, evidence)
        self._gains_left = True
        scores = blended(evidence, self.gains)
        best = max(scores, key=scores.__getitem__) if scores else None
        return next((known for known in self.labels if str(known) == best), None)

    def moment(self, when: float | None = None) -> float:
        """Now, within a transaction: in the ledger it never runs backwards, whatever clocks do."""
        now = time.time()
        self._moment = max(self._moment, now if when is None else min(when, now))
        return self._moment

    def confirm(self, before: Row, source: str, now: float) -> None:
        """A person says what a program had said, within a transaction."""
        self.ledger.end(before, now)
        self.ledger.write(before._replace(teacher=HUMAN, source=source, time=now, added=now))

    def _overrule(
        self, before: Row, label: Label, teacher: str, source: str, now: float
    ) -> Outcome | None:
        """Make way for another label of a message; an outcome where it is not to be learned."""
        said = self.labels[before.label]
        if said == label:
            self.confirm(before, source, now)
            return Outcome("confirmed", said)
        if before.teacher == HUMAN and teacher == PROGRAM:
            return Outcome("kept", said)
        if before.tokens is None:
            return Outcome("retired", said)
        self.take_back(before, now)
        return None

    def forget(self, message: bytes, when: float | None = None) -> Outcome:
        """Take back what was learned of a message, exactly."""
        return self.forget_digest(digest(message), when)

    def forget_digest(
        self, key: bytes, when: float | None = None, also: Callable[[], None] | None = None
    ) -> Outcome:
        """As `forget`, for a message that is gone; `also` as for `learn`."""
        return self.retract(key, (), also, when)

    def retract(
        self,
        key: bytes,
        back_to: Sequence[Label] | None = None,
        also: Callable[[], None] | None = None,
        when: float | None = None,
    ) -> Outcome:
        """Take back the last word on a message: what it had corrected holds again.

        Parameters
        ----------
        key
            The message's digest.
        back_to
            Only if it is one of these; None for all.
        also, when
            As for `learn`.
        """

        def retracted() -> Outcome:
            if also is not None:
                also()
            row = self.ledger.active(key)
            if row is None:
                return Outcome("unknown")
            if row.tokens is None:
                return Outcome("retired", self.labels[row.label])
            now = self.moment(when)
            self.take_back(row, now)
            where = "digest = ? AND ended = ? AND id < ?"
            for old in list(self.ledger.rows(where, (key, row.added, row.id)))[-1:]:
                if old.tokens is not None and (
                    back_to is None or self.labels[old.label] in back_to
                ):
                    # A moment later than what was taken back ended: it did not correct that.
                    self._moment = math.nextafter(now, math.inf)
                    self.add_row(old._replace(id=0, added=self._moment, ended=None))
            return Outcome("forgotten", self.labels[row.label])

        return self.once(retracted)

    def was_taught(self, key: bytes) -> bool:
        """Whether anything was ever learned of a message, be it taken back since."""
        with self.reading():
            found = self.database.connection.execute(
                "SELECT 1 FROM ledger WHERE digest = ? LIMIT 1", (key,)
            ).fetchone()
            return found is not None

    def has_learned(self, key: bytes, label: Label) -> bool:
        """Whether that label is learned of a message, as far as this mailbox knows its classes."""
        with self.database.reading():
            said = self.ledger.said_of(key)
        spelt = {i: str(known) for i, known in enumerate(self.labels)}
        return said is not None and spelt.get(said[0]) == str(label)

    def label_of(self, key: bytes) -> tuple[Label, str, str] | None:
        """What was learned of a message, who said so and its source; None where nothing was."""
        with self.reading():
            said = self.ledger.said_of(key)
            if said is None:
                return None
            _, teacher, source = said
            return self.ledger.labels_of([key], self.labels)[key], str(teacher), str(source)

    def _message_of(self, row: Row) -> Any:
        """A row's message as the model takes it; an empty one where its features are gone."""
        nothing = (TokenCounts.from_dict({}),) * len(self.counts)
        return self.classifier.model.of_views(row.tokens or nothing)

    def unlearn_row(self, row: Row) -> None:
        """Take a row's counts back, within a transaction."""
        self._gains_left = self._gains_left or self.base is not None or self.gains != GAINS
        try:
            self.classifier.model.unlearn(
                self._message_of(row), self.labels[row.label], row.receipt
            )
        except (ValueError, IndexError) as error:
            raise StateError(
                f"{self.path}: the counts do not agree with the ledger ({error}); "
                "see `streamnb verify`"
            ) from None

    def take_back(self, row: Row, now: float) -> None:
        """Unlearn a row, within a transaction."""
        self.unlearn_row(row)
        self.ledger.end(row, now)

    def add_row(self, row: Row) -> None:
        """Add a row and what its receipt says, within a transaction."""
        self.relearn_row(row)
        self.ledger.write(row)

    def relearn_row(self, row: Row) -> None:
        """Add a row's counts, within a transaction."""
        self._gains_left = self._gains_left or self.base is not None or self.gains != GAINS
        self.classifier.model.relearn(self._message_of(row), self.labels[row.label], row.receipt)

    def undo(self, since: float, dry_run: bool = False) -> Undone:
        """Go back to what was known at a time, in seconds since 1970 (`streamnb.mailbox.undo`)."""
        return undo(self, since, dry_run)

    def classify(
        self, message: bytes, reasons: int = 0, costs: Sequence[float] | None = None
    ) -> Verdict:
        """Decide what to do with a message; the classifier's `classify`."""
        site = None if self.base is None else self.base.scores(message)

        def judged() -> Verdict:
            with self.reading():
                if self.base is None or not site:
                    return self.classifier.classify(message, reasons, costs)
                return verdict_of_both(
                    self.classifier, self.gains, self.base, message, site, reasons, costs
                )

        return self.retrying(judged)

    def verify(self) -> list[str]:
        """Recount the ledger; gives what does not agree, a line each."""
        from streamnb.mailbox.verify import verify

        return verify(self)
