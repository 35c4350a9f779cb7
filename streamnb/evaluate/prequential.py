"""The evaluation loop: classify, record, learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from streamnb.evaluate.feedback import Lesson, Regime, told

__all__ = ["Example", "Step", "prequential"]


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
    recipients: str = ""


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
    scored = getattr(model, "joint_log_likelihood", None) or _log_proba(model)
    number = 0
    for x, y, tag, classify, learn, date, recipients in stream:
        if not classify:
            if learn:
                model.learn_one(x, y)
            continue
        scores = scored(x)
        # The first of equals, as river has it.
        predicted = max(scores, key=scores.__getitem__) if scores else None
        yield Step(y, predicted, scores, tag)
        if not feedback:
            if learn:
                model.learn_one(x, y)
            continue
        asked = Lesson(x, y, predicted, scores, number, date, recipients)
        number += 1
        for lesson in told(feedback, asked, learn):
            model.learn_one(lesson.x, lesson.y)


def _log_proba(model: Any) -> Any:
    def scored(x: Any) -> dict[Any, float]:
        return {
            label: math.log(p) if p > 0 else -math.inf
            for label, p in model.predict_proba_one(x).items()
        }

    return scored
