"""How far a label can be believed: people and programs mislabel, and some do on purpose."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["LabelNoise"]


class LabelNoise:
    r"""The share of labels that are wrong, estimated as they come, and what that says of each.

    If a share e of labels is wrong, and a calibrated model gives the label of a message the
    probability p among K classes, then the label is right with probability

        trust = (1 - e) p / ((1 - e) p + e (1 - p) / (K - 1))

    and e is the mean of 1 - trust over what was learned: expectation maximisation, one message at a
    time. It begins with e = .05, worth as much as 10 messages: a stream has to show that its
    labels are good, which takes a few dozen.

    Parameters
    ----------
    share
        The share of wrong labels; None to estimate it. With 0 every label is believed.

    References
    ----------
    Dawid, A. P. and Skene, A. M. (1979). Maximum likelihood estimation of observer error-rates
    using the EM algorithm. Applied Statistics 28. Cappé, O. and Moulines, E. (2009). On-line
    expectation-maximization algorithm for latent data models. JRSS B 71.

    Examples
    --------
    >>> from streamnb.naive_bayes.label_noise import LabelNoise
    >>> noise = LabelNoise()
    >>> [round(noise.trust(p, 2), 3) for p in (0.9, 0.5, 0.01)]
    [0.994, 0.95, 0.161]
    >>> for _ in range(1000):
    ...     noise.learn(0.999)
    >>> round(noise.share, 4), round(noise.trust(0.01, 2), 3)  # these labels are good
    (0.0015, 0.872)
    """

    def __init__(self, share: float | None = None) -> None:
        if share is not None and not 0 <= share < 0.5:
            raise ValueError(f"label_noise: {share!r} is neither None nor a share from 0 to .5")
        self.fixed = share
        self._wrong, self._labels = 0.5, 10.0

    @property
    def share(self) -> float:
        """The share of wrong labels."""
        if self.fixed is not None:
            return self.fixed
        return min(self._wrong / self._labels, 0.49)

    def trust(self, p: float, classes: int) -> float:
        """How probably a label is right that the model gives probability p, of so many classes."""
        share = self.share
        right, wrong = (1 - share) * p, share * (1 - p) / (classes - 1)
        return right / (right + wrong) if right + wrong > 0 else 1.0

    def learn(self, trust: float) -> None:
        """Take into account how far a label was believed."""
        self._wrong += 1 - trust
        self._labels += 1

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        return {"fixed": self.fixed, "wrong": self._wrong, "labels": self._labels}

    @classmethod
    def from_state(cls, state: Any) -> LabelNoise:
        """What `state` gave; ValueError where it is not sound."""
        wrong, labels = float(state["wrong"]), float(state["labels"])
        if not (math.isfinite(labels) and 0 <= wrong <= labels):
            raise ValueError("the estimate of wrong labels is not sound")
        self = cls(None if state["fixed"] is None else float(state["fixed"]))
        self._wrong, self._labels = wrong, labels
        return self
