"""The evaluation loop: classify, record, train."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from streamnb.evaluate.feedback import FeedbackPolicy, PendingLabel, release_labels
from streamnb.scores import best_label


class Example(NamedTuple):
    """One message of a stream.

    Attributes
    ----------
    x
        The input of the model: a dict, a `TokenCounts` or a text.
    y
        The label.
    tag
        Any value, which the step returns.
    classify, learn
        Whether to classify the message, and whether the model may learn its label.
    date, recipients
        Date sent, in seconds since 1970, and addresses; only some feedback policies need them.
    """

    x: Any
    y: Any
    tag: Any = None
    classify: bool = True
    learn: bool = True
    date: float | None = None
    recipients: Sequence[str] = ()


class Step(NamedTuple):
    """The prediction for one message, made before its label is released.

    Attributes
    ----------
    y
        The true label.
    predicted
        The most probable class; None before anything was learned.
    scores
        Joint log-likelihood of each class. For a model without `joint_log_likelihood`, the
        logarithms of `predict_proba_one`.
    tag
        `Example.tag`.
    """

    y: Any
    predicted: Any
    scores: dict[Any, float]
    tag: Any


def prequential(
    stream: Iterable[Example], model: Any, feedback: FeedbackPolicy | Sequence[FeedbackPolicy] = ()
) -> Iterator[Step]:
    """Test each message, then train on it.

    Parameters
    ----------
    stream
        The messages in order: `Example`, or pairs of message and label.
    model
        Any river classifier.
    feedback
        The policy, or the policies in order, that decide which labels the model learns, and when
        (`streamnb.evaluate.feedback`). Default: each label right after its message. Messages that
        are not classified (`classify` False) are always learned at once.

    Yields
    ------
    Step
        For each classified message, before the model learns it.

    Notes
    -----
    Without `feedback` it equals this loop, as does `river.evaluate.progressive_val_score`:

        for x, y in stream:
            yield model.predict_one(x)
            model.learn_one(x, y)

    References
    ----------
    Gama, J., Sebastião, R. and Rodrigues, P. P. (2013). On evaluating stream learning algorithms.
    Machine Learning 90(3).

    Examples
    --------
    >>> from streamnb import MultinomialNB
    >>> from streamnb.evaluate import Example, prequential
    >>> texts = [("free", "spam"), ("lunch", "ham"), ("free", "spam")]
    >>> stream = [Example({word: 1}, label) for word, label in texts]
    >>> [(step.y, step.predicted) for step in prequential(stream, MultinomialNB())]
    [('spam', None), ('ham', 'spam'), ('spam', 'spam')]
    """
    if hasattr(stream, "learn_one") or not hasattr(model, "learn_one"):
        raise TypeError(
            f"the model is a {type(model).__name__} without `learn_one`; call prequential(stream, "
            "model)"
        )
    run = PrequentialRun(model, feedback)
    for item in stream:
        example = item if isinstance(item, Example) else _as_example(item)
        step = run.classify(example)
        if step is not None:
            yield step
        run.train(example, step)
    if run.lacks_envelopes:
        warnings.warn(
            "the model learned no label: `feedback` needs Example.date (seconds since 1970) or "
            "Example.recipients",
            stacklevel=2,
        )


def _as_example(item: Any) -> Example:
    """Return an `Example`, given one or a pair of message and label as in river's streams."""
    if isinstance(item, tuple) and len(item) == 2:
        return Example(*item)
    raise TypeError(
        f"the stream yields {item!r:.80}; expected Example(x, y), or pairs of message and label"
    )


class PrequentialRun:
    """The evaluation of a model, one message at a time: call `classify`, then `train`.

    Parameters
    ----------
    model, feedback
        As for `prequential`.

    Attributes
    ----------
    labels_learned
        Number of labels the model has learned.
    """

    def __init__(
        self, model: Any, feedback: FeedbackPolicy | Sequence[FeedbackPolicy] = ()
    ) -> None:
        self.labels_learned: int = 0
        self._compute_scores = getattr(model, "joint_log_likelihood", None) or _log_proba(model)
        self._learn_one = model.learn_one
        self._feedback = [feedback] if isinstance(feedback, FeedbackPolicy) else feedback
        self._classified = 0
        self._has_envelopes = False

    @property
    def lacks_envelopes(self) -> bool:
        """True if the feedback needs dates or recipients, and no example had any."""
        needs_envelope = any(policy.needs_envelope for policy in self._feedback)
        return needs_envelope and self._classified > 0 and not self._has_envelopes

    def classify(self, example: Example) -> Step | None:
        """Return the prediction for a message; None if the message is not classified."""
        if not example.classify:
            return None
        scores = self._compute_scores(example.x)
        return Step(example.y, best_label(scores), scores, example.tag)

    def train(self, example: Example, step: Step | None) -> None:
        """Learn the labels that are released after a message.

        Parameters
        ----------
        example
            The message.
        step
            Its prediction, as `classify` returned it.
        """
        if step is None or not self._feedback:
            if example.learn:
                self._learn(example.x, example.y)
            return
        x, y, _, _, learn, date, recipients = example
        position = self._classified
        pending = PendingLabel(x, y, step.predicted, step.scores, position, date, recipients)
        self._classified += 1
        self._has_envelopes |= date is not None or bool(recipients)
        for released in release_labels(self._feedback, pending, learn):
            self._learn(released.x, released.y)

    def _learn(self, x: Any, y: Any) -> None:
        self.labels_learned += 1
        self._learn_one(x, y)


def _log_proba(model: Any) -> Any:
    def compute_scores(x: Any) -> dict[Any, float]:
        return {
            label: math.log(p) if p > 0 else -math.inf
            for label, p in model.predict_proba_one(x).items()
        }

    return compute_scores
