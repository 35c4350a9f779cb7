"""The evaluation loop: classify, record, learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from streamnb.evaluate.feedback import Lesson, Regime, told
from streamnb.scores import best_label


class Example(NamedTuple):
    """One message of a stream.

    Attributes
    ----------
    x
        What the model takes: a dict, a `TokenCounts`, a text.
    y
        Its label.
    tag
        Anything the caller wants back with the step.
    classify, learn
        Whether it is classified, and whether its label is ever told.
    date, recipients
        When it was sent, in seconds since 1970, and to whom; for regimes that want to know.
    """

    x: Any
    y: Any
    tag: Any = None
    classify: bool = True
    learn: bool = True
    date: float | None = None
    recipients: Sequence[str] = ()


class Step(NamedTuple):
    """What the model said of a message before it was told the label.

    Attributes
    ----------
    y
        The label.
    predicted
        The most probable class, None before anything was learned.
    scores
        Joint log-likelihood of each class; logarithms of probabilities for a model that has no
        `joint_log_likelihood`.
    tag
        What the example carried.
    """

    y: Any
    predicted: Any
    scores: dict[Any, float]
    tag: Any


def prequential(
    stream: Iterable[Example], model: Any, feedback: Sequence[Regime] = ()
) -> Iterator[Step]:
    """Test each message, then train on it.

    Parameters
    ----------
    stream
        The messages in order.
    model
        Any river classifier.
    feedback
        Which labels the model is told, and when (see `streamnb.evaluate.feedback`); all of them,
        each right after its message, where there is none. What is only to be learned (`classify`
        False) is learned when its turn comes.

    Yields
    ------
    Step
        For each message that is classified, before the model learns it.

    Notes
    -----
    It equals this loop, which is also what `river.evaluate.progressive_val_score` does:

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
    course = Course(model, feedback)
    for example in stream:
        step = course.classify(example)
        if step is not None:
            yield step
        course.teach(example, step)


class Course:
    """A model under evaluation, a message at a time: `classify`, then `teach`.

    Parameters
    ----------
    model, feedback
        As for `prequential`.

    Attributes
    ----------
    lessons
        How many messages it learned.
    """

    def __init__(self, model: Any, feedback: Sequence[Regime] = ()) -> None:
        self.lessons = 0
        self._scored = getattr(model, "joint_log_likelihood", None) or _log_proba(model)
        self._learn_one = model.learn_one
        self._feedback = feedback
        self._classified = 0

    def classify(self, example: Example) -> Step | None:
        """What the model says of a message, if it is to be classified."""
        if not example.classify:
            return None
        scores = self._scored(example.x)
        # The first of equals, as river has it.
        predicted = best_label(scores)
        return Step(example.y, predicted, scores, example.tag)

    def teach(self, example: Example, step: Step | None) -> None:
        """Tell the model what it is told after that message."""
        if step is None or not self._feedback:
            if example.learn:
                self._learn(example.x, example.y)
            return
        x, y, _, _, learn, date, recipients = example
        asked = Lesson(x, y, step.predicted, step.scores, self._classified, date, recipients)
        self._classified += 1
        for lesson in told(self._feedback, asked, learn):
            self._learn(lesson.x, lesson.y)

    def _learn(self, x: Any, y: Any) -> None:
        self.lessons += 1
        self._learn_one(x, y)


def _log_proba(model: Any) -> Any:
    def scored(x: Any) -> dict[Any, float]:
        return {
            label: math.log(p) if p > 0 else -math.inf
            for label, p in model.predict_proba_one(x).items()
        }

    return scored
