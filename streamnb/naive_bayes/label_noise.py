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
_FIRST_RIVAL = (8.0, 1.0, 1.0)
# Advantages of the explanation that labels are wrong: up to the first it is not believed, from the
# second on it is.
_NOT_BELIEVED, _BELIEVED = 2.0, 4.0
_WHOLE = 5  # numbers of a change; the rival takes part in three of them
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

    Where classes overlap, labels surprise, too, and a share of wrong ones explains that nearly as
    well as it should: what nobody can tell apart would be taken for mislabelled, disbelieved, and
    the model would believe itself. So each label is asked which explanation it speaks for. By the
    one it has the probability (1 - e) p + e (1 - p) / (K - 1); by the other no label is wrong and
    the scores exaggerate: its probability is that of the scores times a gain, which is learned of
    all labels as they are. The logarithm of how much more probable the first made the labels (of
    the last 2,000, about) is its `advantage`, which begins with 8: up to 2 no label is thought to
    be wrong, from 4 on a share e is. (With 10 to 30 % of labels wrong it stayed above 6; where
    classes overlapped it was below 2 after 1,000 to 3,000 labels. Chosen on five pairs of
    newsgroups, sms, r8, enron1 and csdmc2010, clean and with labels flipped.)

    After n labels of which none was wrong, the next may be, with a chance of about 1 / n: no label
    is believed further. Without this, ten wrong labels after 1,000 good ones are learned in full.

    A model is sure and wrong, too, where a stream has changed: p is taken for .03 e at least.
    Without this, a model whose evidence is not bounded believed few labels of the stream that came
    next (`configs/two-views.yaml` on enron1, then spamassassin: 97.5 % right instead of 98.1).

    Where labels are bad, counts are too: alpha is `caution` = 1 + 10 e times what it is else.

    Parameters
    ----------
    share
        The share of wrong labels; None to estimate it. With 0 every label is believed.

    References
    ----------
    Dawid, A. P. and Skene, A. M. (1979). Maximum likelihood estimation of observer error-rates
    using the EM algorithm. Applied Statistics 28. Cappé, O. and Moulines, E. (2009). On-line
    expectation-maximization algorithm for latent data models. JRSS B 71. Kass, R. E. and Raftery,
    A. E. (1995). Bayes factors. JASA 90.

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
        # Of the explanation that no label is wrong: how much better the other one is, in nats, the
        # gain of its scores, and the sum of that gain's squared gradients.
        self._rival = list(_FIRST_RIVAL)

    @property
    def advantage(self) -> float:
        """How much better wrong labels explain what came than classes that overlap, in nats."""
        return self._rival[0]

    @property
    def _estimate(self) -> float:
        """The share of wrong labels, if there are any."""
        return min(max(self._share, 0.0), _MOST)

    @property
    def share(self) -> float:
        """The share of wrong labels."""
        if self.fixed is not None:
            return self.fixed
        believed = (self.advantage - _NOT_BELIEVED) / (_BELIEVED - _NOT_BELIEVED)
        return self._estimate * min(max(believed, 0.0), 1.0)

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
        return _core.trusted(p, share, classes, _core.novelty(own, others))

    def learn(
        self,
        trust: float,
        scores: list[float] | None = None,
        place: int = 0,
        own: float = math.inf,
        others: float = 0.0,
    ) -> dict[str, tuple[float, ...]]:
        """Take into account how far a label was believed; gives what changed, for `move`.

        Parameters
        ----------
        trust : float
            How far it was.
        scores : list of float, default None
            The scores of the known classes; None for a message that is no sample of all.
        place : int, default 0
            Of its class among them.
        own, others : float, default inf and 0.0
            As for `trust`.
        """
        made: tuple[float, ...]
        made = _core.noise_step(trust, self._share, self._labels, _MOST, _GRAIN)
        if scores is not None and self.fixed is None:
            share, novelty = max(self._estimate, 1 / self._labels), _core.novelty(own, others)
            made += _core.compared(scores, place, share, novelty, *self._rival)
        self._add(made, 1)
        return {"noise": made}

    def move(self, parts: Mapping[str, Any], sign: int) -> None:
        """Make again what a receipt says (sign 1), or take it back (-1), exactly; in any order."""
        if "noise" in parts:
            self._add(parts["noise"], sign)

    def _add(self, change: Sequence[float], sign: int) -> None:
        self._share += sign * change[0]
        # A merged model may be told to take back labels that it never counted itself.
        self._labels = max(self._labels + sign * int(change[1]), _FIRST_LABELS)
        if len(change) == _WHOLE:
            _core.add_times(self._rival, change[2:], sign)
            self._rival[2] = max(self._rival[2], _FIRST_RIVAL[2])

    def check(self, parts: Mapping[str, Any], classes: int) -> None:
        """Raise ValueError for a receipt that is not sound."""
        change = parts.get("noise", (0.0, 0, 0.0))
        check_numbers(change)
        if len(change) not in (2, 3, _WHOLE) or type(change[1]) is not int:
            raise ValueError("a receipt of another model")

    def since(self, before: Self) -> dict[str, Any]:
        """What a receipt would say that leads here from another state."""
        share, labels = self._share - before._share, self._labels - before._labels
        rival = [now - then for now, then in zip(self._rival, before._rival, strict=True)]
        return {"noise": (share, labels, *rival)}

    def of_classes(self, places: Sequence[int | None]) -> Self:
        """The same, whatever order the classes have."""
        return self.from_state(self.state())

    def state(self) -> dict[str, Any]:
        """Everything learned, as JSON can hold it."""
        known = {"share": self._share, "labels": self._labels, "rival": list(self._rival)}
        return {"noise": {"fixed": self.fixed, **known}}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """What `state` gave; any exception where it is not sound."""
        known = state["noise"]
        share, labels, fixed = float(known["share"]), known["labels"], known["fixed"]
        rival = [float(number) for number in known.get("rival", _FIRST_RIVAL)]  # none in older ones
        small = abs(share) <= _LARGEST and all(abs(number) <= 1e15 for number in rival)
        if not small or type(labels) is not int or not 10 <= labels <= 10**15:
            raise ValueError("the estimate of wrong labels is not sound")
        if len(rival) != len(_FIRST_RIVAL) or rival[2] < _FIRST_RIVAL[2]:
            raise ValueError("the estimate of wrong labels is not sound")
        self = cls(None if fixed is None else float(fixed))
        self._share, self._labels, self._rival = share, labels, rival
        return self
