"""The mailbox: a classifier in a database that learns and unlearns messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from streamnb.classifier import Verdict
from streamnb.counts.protocol import Label
from streamnb.mailbox.batch import MessageAndLabel, counted_by, learn_batch, learn_many
from streamnb.mailbox.blend import Opinion, verdict_of_both
from streamnb.mailbox.digest import digest
from streamnb.mailbox.ledger import HUMAN, check_origin
from streamnb.mailbox.stored_classifier import Outcome, StoredClassifier
from streamnb.naive_bayes.text_model import check_feedback

if TYPE_CHECKING:
    from streamnb.mailbox.undo import UndoCounts


class Mailbox(StoredClassifier):
    r"""A classifier with its counts and history in a database.

    Each message is learned in one transaction: completely, or not at all. The ledger stores the
    changes of each message. So a message counts once, even if it is learned twice, and a new label
    replaces the old one exactly. `forget` and `undo` do not need the message. Several processes can
    use one database; classification reads only the counts of the message's features. Threads can
    share one object: their transactions wait for each other.

    Parameters
    ----------
    path
        The database.
    create
        Whether to create a missing database.
    wait
        Seconds to wait for other processes.
    classifier
        The classifier of a new database. None for `MailClassifier(label_noise=0)`: the owner's
        labels are trusted.
    base
        A `streamnb.mailbox.site_model.SiteModel`, whose scores are added. None for no site.

    Examples
    --------
    >>> import tempfile
    >>> from streamnb import Mailbox
    >>> folder = tempfile.TemporaryDirectory()
    >>> mailbox = Mailbox(folder.name + "/mail.db")
    >>> spam, ham = b"Subject: Cheap pills\n\nBuy now", b"Subject: Lunch\n\nAt noon?"
    >>> mailbox.learn(spam, "ham").result  # a mistake
    'learned'
    >>> mailbox.learn(spam, "spam")
    Outcome(result='corrected', before='ham')
    >>> mailbox.learn(ham, "ham").result, mailbox.learn(ham, "ham").result
    ('learned', 'known')
    >>> mailbox.classify(b"Subject: pills\n\nBuy pills").label
    'spam'
    >>> mailbox.forget(spam), mailbox.verify()
    (Outcome(result='forgotten', before='spam'), [])
    >>> mailbox.close(); folder.cleanup()
    """

    def __reduce__(self) -> Any:
        raise TypeError("a Mailbox cannot be copied or pickled; open its database in each process")

    def learn(
        self,
        message: bytes,
        label: Label,
        labelled_by: str = HUMAN,
        source: str = "learn",
        timestamp: float | None = None,
        run_first: Callable[[], None] | None = None,
        feedback: str | None = None,
    ) -> Outcome:
        """Learn a message. A label other than its current one is a correction.

        Parameters
        ----------
        message
            The message.
        label
            Its class.
        labelled_by
            "human" or "program". A program's label never replaces a person's.
        source
            Origin of the message. `status` counts by its first word.
        timestamp
            Seconds since 1970; None for now.
        run_first
            A function to call first in the same transaction. Its changes and the label are
            committed together.
        feedback
            "all" if every message gets a label, "errors" if only wrong predictions are corrected.
            None to infer it.
        """
        key = digest(message)
        check_origin(labelled_by, source)
        check_feedback(feedback)
        counted = counted_by(self, message)

        def count() -> tuple[Any, Opinion | None]:
            # Read the classifier here, because another process may have replaced it.
            same = self.classifier is counted.classifier
            return (counted if same else counted_by(self, message))[:2]

        return self.transact(
            lambda: self.learn_features(
                count, key, label, labelled_by, source, timestamp, feedback
            ),
            run_first,
        )

    def learn_many(
        self, examples: Iterable[MessageAndLabel], labelled_by: str = HUMAN, source: str = "learn"
    ) -> list[Outcome]:
        """Learn messages in transactions of a few hundred.

        It is several times as fast as calls of `learn`, and gives the same counts. With a
        `base`, the gains are fitted once for each transaction. `streamnb.mailbox.batch.learn_many`
        reports each message as soon as it is committed.

        Parameters
        ----------
        examples
            Messages and their classes: ``(message, label)``, or ``(message, label, source)``.
            If the iterable raises an error, the messages before it are learned.
        labelled_by, source
            As for `learn`.

        Returns
        -------
        list of Outcome
            The result for each message.

        Examples
        --------
        >>> import tempfile
        >>> from streamnb import Mailbox
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Mailbox(folder.name + "/mail.db") as mailbox:
        ...     mailbox.learn_many([(b"Subject: pills", "spam"), (b"Subject: lunch", "ham")])
        [Outcome(result='learned', before=None), Outcome(result='learned', before=None)]
        >>> folder.cleanup()
        """
        return [outcome for _, outcome in learn_many(self, examples, labelled_by, source)]

    def learn_batch(
        self, examples: Iterable[MessageAndLabel], stream: str, number: int, source: str = "batch"
    ) -> int:
        """Learn the messages of a numbered batch in one transaction, unless already done.

        Parameters
        ----------
        examples
            As for `learn_many`. A message that has its label already is not learned again.
        stream
            Name of the stream; its batches have ascending numbers.
        number
            Number of the batch. Batches up to the stream's last number are skipped.
        source
            As for `learn`.

        Returns
        -------
        int
            Number of messages whose label changed.
        """
        check_origin(HUMAN, source)
        return learn_batch(self, examples, stream, number, source)

    def forget(self, message: bytes, timestamp: float | None = None) -> Outcome:
        """Unlearn a message exactly."""
        return self.retract(digest(message), (), timestamp=timestamp)

    def forget_digests(self, keys: Iterable[bytes]) -> list[Outcome]:
        """Unlearn the messages with these digests in one transaction: all, or none."""
        keys = list(keys)  # read before the transaction begins, so that no writer waits
        return self.transact(lambda: [self.retract_label(key, (), None) for key in keys])

    def retract(
        self,
        key: bytes,
        back_to: Sequence[Label] | None = None,
        run_first: Callable[[], None] | None = None,
        timestamp: float | None = None,
    ) -> Outcome:
        """Unlearn the last label of a message and restore the label that it corrected.

        Parameters
        ----------
        key
            The message's digest.
        back_to
            Labels that may be restored; None for all.
        run_first, timestamp
            As for `learn`.
        """
        return self.transact(lambda: self.retract_label(key, back_to, timestamp), run_first)

    def was_learned(self, key: bytes) -> bool:
        """Return whether a message was ever learned, even if it was unlearned later."""
        with self.reading():
            return any(
                self.database.connection.execute(
                    f"SELECT 1 FROM ledger WHERE digest = ? AND removed_at {condition} LIMIT 1",  # noqa: S608
                    (key,),
                ).fetchone()
                for condition in ("IS NULL", "IS NOT NULL")  # one query for each index of the table
            )

    def label_of(self, key: bytes) -> tuple[Label, str, str] | None:
        """Return label, `labelled_by` and source of a message, None if it is not learned."""
        with self.reading():
            current = self.ledger.label_of(key)
            if current is None:
                return None
            _, labelled_by, source = current
            return self.ledger.labels_of([key], self.labels)[key], str(labelled_by), str(source)

    def undo(self, since: float, dry_run: bool = False) -> UndoCounts:
        """Restore the state at a time in seconds since 1970 (`streamnb.mailbox.undo`)."""
        from streamnb.mailbox.undo import undo  # here: classifying needs none

        return undo(self, since, dry_run)

    def classify(
        self, message: bytes, reasons: int = 0, costs: Sequence[float] | None = None
    ) -> Verdict:
        """Return the verdict on a message, like the classifier's `classify`."""
        site = None if self.base is None else self.base.opinion(message)

        def judge() -> Verdict:
            with self.reading():
                if self.base is None or site is None or not site.scores:
                    return self.classifier.classify(message, reasons, costs)
                return verdict_of_both(
                    self.classifier, self.gains, self.base.reasons, message, site, reasons, costs
                )

        return self.database.retry(judge)

    def verify(self) -> list[str]:
        """Recount the ledger and return a line for each difference from the counts."""
        from streamnb.mailbox.rebuild import verify  # here: classifying needs none

        return verify(self)
