"""Whether labels come of all messages, or of those alone that were called wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from streamnb.naive_bayes.beside import Beside

# Mistakes in a row, counted by the probability of what was said: so many may be chance, so many may
# be wrong labels, and of more than that no count is kept.
_CHANCE, _WRONG, _MOST = 3.0, 10.0, 20.0
# Changes are multiples of this, so that sums of them are exact and any of them can be taken back.
_GRAIN = 2.0**-36


class Corrections(Beside):
    r"""How far a mistake is one of all messages, and how far it was told because it is one.

    Many people correct mistakes and say nothing of the rest. Each label then contradicts the model,
    however good that is: taken for a sample of all messages, they show that its evidence is worth
    nothing and that labels are often wrong. So for each mistake the probability of what was said is
    added up, and a message that was called rightly ends the sum. From 3 to 4 a mistake counts less
    and less as one of all messages. Wrong labels come as mistakes in a row, too: only from 10 to 20
    are labels doubted less and less. A model that has never been right begins with 20.

    What was told because it is a mistake says less. That class m is wrong was known, so the
    probability of its true class y is that among the other classes, p_y / (1 - p_m): the likelihood
    of a sample is that of its way of being drawn (Heckman 1979). With two classes that is 1, and
    nothing is learned of how strong evidence is. What a class has before any evidence is still
    learned as from any message, as a perceptron does: mistakes come to be of both sorts.

    References
    ----------
    Heckman, J. J. (1979). Sample selection bias as a specification error. Econometrica 47.

    Examples
    --------
    >>> from streamnb.naive_bayes.corrections import Corrections
    >>> corrections = Corrections()
    >>> corrections.told
    0.0
    >>> _ = corrections.learn(True, 0.9)
    >>> corrections.told
    1.0
    >>> for _ in range(5):
    ...     _ = corrections.learn(False, 0.7)
    >>> round(corrections.told, 9), corrections.doubted
    (0.5, 1.0)
    """

    parts = ("corrections",)

    def __init__(self, claimed: float = _MOST) -> None:
        self.claimed = claimed  # the sum of what was said of mistakes since the model was right

    @property
    def told(self) -> float:
        """How far the next mistake is one of all messages, from 0 to 1."""
        return min(max(1 + _CHANCE - self.claimed, 0.0), 1.0)

    @property
    def doubted(self) -> float:
        """How far the label of the next mistake is doubted, from 0 to 1."""
        return min(max((_MOST - self.claimed) / (_MOST - _WRONG), 0.0), 1.0)

    def of(self, right: bool, corrected: bool) -> tuple[float, float]:
        """`told` and `doubted` of a message: 1 where it was called rightly.

        Both are 0 for a mistake that is known to have been told as one (`corrected`).
        """
        if right:
            return 1.0, 1.0
        return (0.0, 0.0) if corrected else (self.told, self.doubted)

    def learn(self, right: bool, claim: float) -> dict[str, float]:
        """Note whether a message was called rightly, with what probability; gives what changed."""
        if right and self.claimed == 0:
            return {}
        claimed = min(max(self.claimed, 0.0), _MOST)
        after = 0.0 if right else min(claimed + round(claim / _GRAIN) * _GRAIN, _MOST)
        change = after - self.claimed
        self.claimed = after
        return {"corrections": change} if change else {}

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        self.claimed += sign * parts.get("corrections", 0.0)

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt that is not sound."""
        self.from_state({"corrections": 0.0, **parts})

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        return {"corrections": self.claimed}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave; ValueError where it is not sound."""
        claimed = state["corrections"]
        if type(claimed) not in (int, float) or not abs(claimed) <= 1e15:
            raise ValueError("the record of corrections is not sound")
        return cls(float(claimed))
