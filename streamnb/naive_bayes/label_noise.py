"""How far a label can be believed: people and programs mislabel, and some do on purpose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from streamnb import _core
from streamnb.naive_bayes.beside import Beside, check_numbers

# Changes are multiples of this, so that sums of them are exact and any of them can be taken back.
_GRAIN = 2.0**-44
_FIRST_SHARE, _FIRST_LABELS = round(0.1 / _GRAIN) * _GRAIN, 10
_FIRST_SPREAD = round(0.09 / _GRAIN) * _GRAIN  # as where each message shows if its label is right
_MOST = 0.49  # of labels can be wrong: with more, a class would be the other one
_LARGEST = 2.0**8  # sums of changes are exact up to there


class LabelNoise(Beside):
    r"""The share of labels that are wrong, estimated as they come, and what that says of each.

    If a share e of labels is wrong, and a calibrated model gives the label of a message the
    probability p among K classes, then the label is right with probability

        trust = (1 - e) p / ((1 - e) p + e (1 - p) / (K - 1))

    But p is the opinion of N - n messages learned of the other classes against n of its own: while
    those are few, a true label of a new kind of its class looks as wrong as a false one. So p is
    taken for p' = (p + d) / (1 + d) with d = .002 (N - n) / n^2: the chance, about 1 / n, that a
    message is of a kind not met yet, times the messages of others that stand against each of its
    own. A class that has just come is believed, and with two classes and some dozens of messages of
    each d makes no difference. (The constant was chosen on spamassassin, sms and 20 Newsgroups,
    clean and with 10 to 30 % of labels flipped; .001 to .004 differ little.)

    The share e is the mean of 1 - trust over what was learned: expectation maximisation, one
    message at a time, the n-th with weight (10 + n)^-.75, so that what was thought at first is soon
    forgotten. It begins with e = .1: a stream has to show that its labels are good, which takes a
    few dozen.

    Where classes overlap, a message says little of whether its label is wrong: 1 - trust is
    about e, whatever that is, and the mean leaves where it began only very slowly. Newton's
    step is longer by the factor e (1 - e) / E[(1 - trust - e)^2], which is 1 where each message
    says all (Titterington 1984). Steps are lengthened by half of that factor, and by n / 200 at
    most: where many labels are wrong, steps too long at first end in a model that believes
    itself. (Chosen on four streams that overlap and on sms, r8, enron1 and enron3, clean and
    with labels flipped.)

    After n labels of which none was wrong, the next may be, with a chance of about 1 / n: no label
    is believed further. Without this, ten wrong labels after 1,000 good ones are learned in full.

    A model is sure and wrong, too, where a stream has changed: p is taken for .03 e at least.
    Without this, a model whose evidence is not bounded believed no label of the stream that came
    next, took them for wrong, and never learned it (enron1, then spamassassin: 82.6 % instead of
    97.4; with .1 e 98.2, but up to four fifths more pairs ranked wrongly where a tenth of the
    labels is wrong).

    Where labels are bad, counts are too: alpha is `caution` = 1 + 10 e times what it is else.

    Parameters
    ----------
    share
        The share of wrong labels; None to estimate it. With 0 every label is believed.

    References
    ----------
    Dawid, A. P. and Skene, A. M. (1979). Maximum likelihood estimation of observer error-rates
    using the EM algorithm. Applied Statistics 28. Cappé, O. and Moulines, E. (2009). On-line
    expectation-maximization algorithm for latent data models. JRSS B 71. Titterington, D. M.
    (1984). Recursive parameter estimation using incomplete data. JRSS B 46.

    Examples
    --------
    >>> from streamnb.naive_bayes.label_noise import LabelNoise
    >>> noise = LabelNoise()
    >>> [round(noise.trust(p, 2), 3) for p in (0.9, 0.5, 0.01)]
    [0.988, 0.9, 0.083]
    >>> round(noise.trust(0.01, 20, own=3, others=60), 3)  # a class that has just come
    0.801
    >>> for _ in range(1000):
    ...     _ = noise.learn(0.999)
    >>> round(noise.share, 4), round(noise.trust(0.01, 2), 3)  # these labels are good
    (0.001, 0.91)
    """

    parts = ("noise",)

    def __init__(self, share: float | None = None) -> None:
        if share is not None and not 0 <= share < 0.5:
            raise ValueError(f"label_noise: {share!r} is neither None nor a share from 0 to .5")
        self.fixed = share
        self._share, self._labels = _FIRST_SHARE, _FIRST_LABELS
        self._spread = _FIRST_SPREAD  # the mean of (1 - trust - share)^2

    @property
    def share(self) -> float:
        """The share of wrong labels."""
        return min(max(self._share, 0.0), _MOST) if self.fixed is None else self.fixed

    @property
    def caution(self) -> float:
        """How many times alpha is to be taken."""
        return 1 + 10 * self.share

    def trust(self, p: float, classes: int, own: float = math.inf, others: float = 0.0) -> float:
        """How probably a label is right that the model gives probability p, of so many classes.

        Parameters
        ----------
        p : float
            The probability.
        classes : int
            How many classes are known, 2 at least.
        own, others : float, default inf and 0.0
            Weight of the messages learned of its class, and of all others.
        """
        share = self.share
        if self.fixed is None:
            share = max(share, 1 / self._labels)
        return _core.label_trust(p, share, classes, own, others)

    def learn(self, trust: float) -> dict[str, tuple[float, int, float]]:
        """Take into account how far a label was believed; gives what changed, for `move`."""
        made = _core.noise_step(trust, self._share, self._spread, self._labels, _MOST, _GRAIN)
        self._add(made, 1)
        return {"noise": made}

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        if "noise" in parts:
            self._add(parts["noise"], sign)

    def _add(self, change: Sequence[float], sign: int) -> None:
        self._share += sign * change[0]
        for spread in change[2:]:  # older receipts have none
            self._spread += sign * spread
        # A merged model may be told to take back labels that it never counted itself.
        self._labels = max(self._labels + sign * int(change[1]), _FIRST_LABELS)

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt that is not sound."""
        change = parts.get("noise", (0.0, 0, 0.0))
        check_numbers(change)
        if len(change) not in (2, 3) or type(change[1]) is not int:
            raise ValueError("a receipt of another model")

    def since(self, before: Self) -> dict[str, Any]:
        """What a receipt would say that leads here from another state."""
        share, labels = self._share - before._share, self._labels - before._labels
        return {"noise": (share, labels, self._spread - before._spread)}

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        known = {"share": self._share, "labels": self._labels, "spread": self._spread}
        return {"noise": {"fixed": self.fixed, **known}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave; any exception where it is not sound."""
        known = state["noise"]
        share, labels, fixed = float(known["share"]), known["labels"], known["fixed"]
        spread = float(known.get("spread", _FIRST_SPREAD))
        small = abs(share) <= _LARGEST and abs(spread) <= _LARGEST
        if not small or type(labels) is not int or not 10 <= labels <= 10**15:
            raise ValueError("the estimate of wrong labels is not sound")
        self = cls(None if fixed is None else float(fixed))
        self._share, self._labels, self._spread = share, labels, spread
        return self
