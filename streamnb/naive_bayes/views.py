"""Several views of a message, a counting model for each, their evidence summed and recalibrated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from river import base

from streamnb import _core
from streamnb.counts import Label, checked_weight
from streamnb.naive_bayes.base import CountingNB, Receipt
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB, in_steps, lesson
from streamnb.naive_bayes.label_noise import LabelNoise
from streamnb.naive_bayes.recalibration import Recalibration, Step
from streamnb.naive_bayes.scores import Explanation, Scored, probabilities
from streamnb.tokens import Feature, TokenCounts

__all__ = ["ViewsNB"]


class ViewsNB(Scored, base.Classifier):
    r"""A counting model for each view of a message; what they say is added up and recalibrated.

    A view is one way to make features of a message: its words, say, or its first bytes. Views err
    in different places, so their sum ranks better than any of them (Lynam and Cormack 2006). Each
    model learns by itself: its lesson is 1 - P(y | view), with its own evidence and its share of
    the prior, which all of them together count once. Then `Recalibration` learns what each view's
    evidence is worth.

    Parameters
    ----------
    models
        One `DiscriminativeMultinomialNB` (or another counting model) for each view.
    rate
        Step size of the recalibration.
    label_noise
        Share of labels that are wrong; None to estimate it. What is learned of a message is weighed
        by how far its label can be believed (`LabelNoise`).

    Attributes
    ----------
    receipt : Receipt
        What the last `learn_one` added, for `unlearn_one`.

    References
    ----------
    Lynam, T. and Cormack, G. (2006). On-line spam filter fusion. SIGIR 2006.

    Examples
    --------
    >>> from streamnb import DiscriminativeMultinomialNB, ViewsNB
    >>> model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    >>> model.learn_one([{"free": 1}, {"fr": 1, "re": 1, "ee": 1}], "spam")
    >>> model.learn_one([{"lunch": 1}, {"lu": 1, "un": 1, "nc": 1, "ch": 1}], "ham")
    >>> model.predict_one([{}, {"ee": 1, "es": 1}])
    'spam'
    """

    def __init__(
        self,
        models: Sequence[CountingNB] | None = None,
        rate: float = 0.3,
        label_noise: float | None = None,
    ) -> None:
        self.models = [DiscriminativeMultinomialNB()] if models is None else list(models)
        self.recalibration = Recalibration(len(self.models), rate)
        self.noise = LabelNoise(label_noise)
        self.be_cautious()
        self.receipt: Receipt | None = None

    @property
    def rate(self) -> float:
        """Step size of the recalibration."""
        return self.recalibration.rate

    @property
    def label_noise(self) -> float | None:
        """The share of wrong labels, where it is not estimated."""
        return self.noise.fixed

    @property
    def _labels(self) -> list[Label]:
        return self.models[0].counts.labels

    def as_tokens(self, x: Any) -> tuple[TokenCounts, ...]:
        """A message's views as the models count them, good for as long as one likes."""
        if len(x) != len(self.models):
            raise ValueError(f"a message of {len(x)} views for {len(self.models)} models")
        return tuple(model.as_tokens(view) for model, view in zip(self.models, x, strict=True))

    def _evidence(self, x: tuple[TokenCounts, ...]) -> list[list[float]]:
        return [model.evidence(view) for model, view in zip(self.models, x, strict=True)]

    def _known(self) -> list[int]:
        weights = self.models[0].counts.weights
        return [k for k, weight in enumerate(weights) if weight > 0]

    def _scores(self, x: Any) -> list[float]:
        views = self.as_tokens(x)
        known = self._known()
        scores = [-math.inf] * len(self._labels)
        if len(known) < 2:  # of one class alone nothing can be said
            return [0.0 if k in known or not known else -math.inf for k in range(len(scores))]
        for k, score in zip(
            known, self.recalibration.scores(self._evidence(views), known), strict=True
        ):
            scores[k] = score
        return scores

    def learn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Learn a message.

        Parameters
        ----------
        x
            A view for each model: a `TokenCounts` or a dict of counts.
        y
            Its label.
        w
            Its weight, >= 0.
        """
        views = self.as_tokens(x)
        weight = 1.0 if w == 1 else checked_weight(w)
        lessons, step, noise = self._lessons(views, y, weight)
        for model, view, amount in zip(self.models, views, lessons, strict=True):
            model._teach(view, y, weight, amount)
        receipts = [model.receipt for model in self.models if model.receipt is not None]
        self.receipt = receipts[0]._replace(
            weights=tuple(of.weights[0] for of in receipts), step=step, noise=noise
        )

    def _lessons(
        self, views: tuple[TokenCounts, ...], y: Label, w: float
    ) -> tuple[list[float], Step | None, tuple[float, int] | None]:
        """How many times each model learns a message's counts; what goes before is recalibrated."""
        counts = self.models[0].counts
        k = counts.index(y)
        if k is None:
            return [1.0] * len(views), None, None
        evidence = self._evidence(views)
        known = self._known()
        trust, step, noise = 1.0, None, None
        if len(known) >= 2 and k in known and w > 0:
            p = probabilities(self.recalibration.scores(evidence, known))[known.index(k)]
            trust = self.noise.trust(p, len(known))
            noise = self.noise.learn(trust)
            self.be_cautious()
            step = self.recalibration.learn(evidence, k, known, trust)
        prior = _share_of_prior(counts.weights, len(views))
        lessons = [
            lesson([a + b for a, b in zip(of, prior, strict=True)], counts.weights, k, trust)
            if isinstance(model, DiscriminativeMultinomialNB)
            else in_steps(trust)
            for model, of in zip(self.models, evidence, strict=True)
        ]
        return lessons, step, noise

    def be_cautious(self) -> None:
        """Let the models smooth as their labels deserve."""
        for model in self.models:
            model._caution = self.noise.caution

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one`, given the `receipt` it left; `w` is not looked at.

        Raises
        ------
        ValueError
            Where this was never learned, or the receipt is missing. Nothing has changed.
        """
        if receipt is None or len(receipt.weights) != len(self.models):
            raise ValueError(
                "to unlearn, this model needs the receipt: keep `model.receipt` after learn_one"
            )
        views = self.as_tokens(x)
        done: list[int] = []
        try:
            for j, model in enumerate(self.models):
                model._untake(views[j], y, receipt.exponent, receipt.mass, receipt.weights[j])
                done.append(j)
        except ValueError:
            for j in done:
                self.models[j].counts.add(views[j], y, receipt.weights[j], receipt.mass)
            raise
        if receipt.step is not None:
            self.recalibration.unlearn(receipt.step)
        if receipt.noise is not None:
            self.noise.unlearn(receipt.noise)
            self.be_cautious()

    def explain_views(self, x: Any) -> list[Explanation]:
        """Say what each feature added to each class: an explanation for each view.

        Contributions are as the recalibration weighs them. The views' scores add up to those of the
        message; the bias of the recalibration is in the base of the first.
        """
        known = self._known()
        explanations: list[Explanation] = []
        if len(known) < 2:  # of one class alone nothing can be said
            nothing = dict.fromkeys(self.joint_log_likelihood(x), 0.0)
            return [Explanation(nothing, nothing, {}) for _ in self.models]
        for j, (model, view) in enumerate(zip(self.models, self.as_tokens(x), strict=True)):
            gain = self.recalibration.gain(j)
            why = model.explain_one(view)
            prior = dict(zip(self._labels, model._log_prior(), strict=True))
            bias = {self._labels[k]: self.recalibration.bias(k) for k in known}
            extra = bias if j == 0 else dict.fromkeys(bias, 0.0)

            def weighed(
                of: dict[Label, float],
                gain: float = gain,
                prior: dict[Label, float] = prior,
                extra: dict[Label, float] = extra,
            ) -> dict[Label, float]:
                return {label: gain * (of[label] - prior[label]) + extra[label] for label in extra}

            parts = {
                feature: {label: gain * of[label] for label in extra}
                for feature, of in why.contributions.items()
            }
            explanations.append(Explanation(weighed(why.scores), weighed(why.base), parts))
        return explanations

    def explain_one(self, x: Any) -> Explanation:
        """Say what each feature of each view added to each class.

        Features are named by pairs of the view's number and their name.
        """
        views = self.explain_views(x)
        parts: dict[Feature, dict[Label, float]] = {
            (j, feature): of
            for j, view in enumerate(views)
            for feature, of in view.contributions.items()
        }
        return Explanation.summed(views, parts)

    def merge(self, other: ViewsNB) -> None:
        """Add another model's counts; the recalibration stays that of whichever learned more.

        Raises
        ------
        ValueError
            Where the models count different things. Nothing has changed.
        """
        if len(other.models) != len(self.models):
            raise ValueError("cannot merge: the models have different views")
        for model, more in zip(self.models, other.models, strict=True):
            model.check_merge(more)
        mine, theirs = (sum(model.models[0].counts.weights) for model in (self, other))
        for model, more in zip(self.models, other.models, strict=True):
            model.merge(more)
        if theirs > mine:
            index = other.models[0].counts.index
            self.recalibration = other.recalibration.of_classes([index(y) for y in self._labels])
            self.noise = LabelNoise.from_state(other.noise.state())
            self.be_cautious()


def _share_of_prior(weights: list[float], views: int) -> list[float]:
    total = math.fsum(weights)
    return [_core.log(weight / total) / views if weight > 0 else -math.inf for weight in weights]
