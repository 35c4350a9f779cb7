"""The evaluation loop: classify, record, learn."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from streamnb import _core

__all__ = ["Example", "Step", "log_odds", "prequential"]


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
        Whether it is classified, and learned.
    """

    x: Any
    y: Any
    tag: Any = None
    classify: bool = True
    learn: bool = True


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


def prequential(stream: Iterable[Example], model: Any) -> Iterator[Step]:
    """Test each message, then train on it.

    Parameters
    ----------
    stream
        The messages in order.
    model
        Any river classifier.

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
    for x, y, tag, classify, learn in stream:
        if classify:
            scores = scored(x)
            # The first of equals, as river has it.
            yield Step(y, max(scores, key=scores.__getitem__) if scores else None, scores, tag)
        if learn:
            model.learn_one(x, y)


def _log_proba(model: Any) -> Any:
    def scored(x: Any) -> dict[Any, float]:
        return {
            label: math.log(p) if p > 0 else -math.inf
            for label, p in model.predict_proba_one(x).items()
        }

    return scored


def log_odds(scores: dict[Any, float], label: Any) -> float:
    """Log-odds of a class against all others, given joint log-likelihoods; 0 for an only class.

    Examples
    --------
    >>> log_odds({"spam": -700.0, "ham": -900.0}, "spam")
    200.0
    """
    if len(scores) < 2:
        return 0.0
    mine = scores[label]
    others = [score for other, score in scores.items() if other != label]
    top = max(others)
    if len(others) > 1 and top > -math.inf:
        top += _core.log(math.fsum(_core.exp(score - top) for score in others))
    return mine - top if mine != top else 0.0
