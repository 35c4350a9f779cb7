"""Forgetting by a window: what leaves it is unlearned, exactly."""

from __future__ import annotations

from collections import deque
from typing import Any

from river import base

from streamnb.counts import Label, checked_weight
from streamnb.naive_bayes.base import CountingNB, Receipt
from streamnb.naive_bayes.views import ViewsNB

__all__ = ["WindowNB"]


class WindowNB(base.Classifier):
    """A model that knows only the last messages it learned.

    Parameters
    ----------
    model
        Any counting model. It must learn through this object alone.
    size
        How many messages it knows; the features of as many are held in memory.

    Examples
    --------
    >>> from streamnb import MultinomialNB, WindowNB
    >>> model = WindowNB(MultinomialNB(), size=2)
    >>> for text, label in [("free", "spam"), ("lunch", "ham"), ("offer", "spam")]:
    ...     model.learn_one({text: 1}, label)
    >>> model.model.feature_counts("free")
    {'spam': 0.0, 'ham': 0.0}
    """

    def __init__(self, model: CountingNB | ViewsNB, size: int) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"size: {size!r} is not a whole number >= 1")
        self.model = model
        self.size = size
        self._known: deque[tuple[Any, Label, float, Receipt | None]] = deque()

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Learn a message, and unlearn the one that leaves the window.

        Weights are rounded to multiples of 2^-16, so that what is added can be taken away exactly.
        """
        tokens = self.model.as_tokens(x)
        if w != 1:
            w = round(checked_weight(w) * 65536) / 65536
        self.model.learn_one(tokens, y, w)
        receipt = self.model.receipt
        if receipt is not None:  # what the evidence is worth was learned for good
            receipt = receipt._replace(step=None, noise=None)
        self._known.append((tokens, y, w, receipt))
        if len(self._known) > self.size:
            self.model.unlearn_one(*self._known.popleft())

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """As the model has it."""
        return self.model.joint_log_likelihood(x)

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Probability of each class; {} before anything was learned."""
        return self.model.predict_proba_one(x)

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """The most probable class; None where nothing was learned."""
        return self.model.predict_one(x)
