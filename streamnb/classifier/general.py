"""Any tokenizer and any model: messages in, verdicts out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from river import base

from streamnb.classifier.tokenizers import describe, restored
from streamnb.classifier.verdict import Costs, Reason, Verdict
from streamnb.counts import Label
from streamnb.errors import ModelFileError
from streamnb.mail_tokens import MailTokenizer
from streamnb.margin import log_odds
from streamnb.naive_bayes.base import CountingNB, Receipt
from streamnb.naive_bayes.scores import Explanation, probabilities
from streamnb.naive_bayes.storage import read, save
from streamnb.naive_bayes.views import ViewsNB
from streamnb.tokens import Feature, Tokenizer
from streamnb.views import Views

__all__ = ["Classifier"]

Model = CountingNB | ViewsNB
AnyTokenizer = MailTokenizer | Tokenizer | Views


class Classifier(base.Classifier):
    """A tokenizer and a model: learns and classifies messages as they are.

    It is a river classifier, whose x is a message: bytes, str, or with `on` a dict that has one. It
    belongs to one thread: the tokenizer collects one message at a time.

    Parameters
    ----------
    tokenizer
        What makes features of a message, or `Views` of it.
    model
        A counting model, or a `ViewsNB` with a model for each view.
    positive
        The class that false alarms are for.
    costs
        What decisions cost.
    on
        Key of the message where x is a dict.

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> classifier = Classifier(Tokenizer(), MultinomialNB())
    >>> classifier.learn_one("free offer", "spam")
    >>> classifier.learn_one("lunch at noon", "ham")
    >>> verdict = classifier.classify("free lunch offer")
    >>> verdict.label, verdict.unsure, round(verdict.probability, 2)
    ('spam', True, 0.75)
    >>> [(reason.feature, round(reason.log_odds, 2)) for reason in verdict.reasons]
    [('free', 0.83), ('offer', 0.83), ('lunch', -0.56)]
    """

    def __init__(
        self,
        tokenizer: AnyTokenizer,
        model: Model,
        positive: Label = "spam",
        costs: Costs = Costs(),  # noqa: B008 (a constant)
        on: str | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.model = model
        self.positive = positive
        self.costs = costs
        self.on = on

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("alpha", "tau", "length_power") and "model" in vars(self):
            for model in self.models:  # nothing has to be learned again
                setattr(model, name, value)
        super().__setattr__(name, value)

    @property
    def _multiclass(self) -> bool:
        return True

    def _more_tags(self) -> set[str]:
        return {"text input"}

    def count(self, x: Any) -> Any:
        """The features of a message, as the model takes them."""
        return self.tokenizer.count(x if self.on is None else x[self.on])

    @property
    def receipt(self) -> Receipt | None:
        """What the last `learn_one` added: keep it to be able to unlearn."""
        return self.model.receipt

    @property
    def features(self) -> int:
        """How many features are known, of all views."""
        return sum(model.counts.features for model in self.models)

    @property
    def models(self) -> Sequence[CountingNB]:
        """The counting model of each view."""
        return self.model.models if isinstance(self.model, ViewsNB) else [self.model]

    def learn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Learn a message of class y, with weight w."""
        self.model.learn_one(self.count(x), y, w)

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one`, given the `receipt` it left."""
        self.model.unlearn_one(self.count(x), y, w, receipt)

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """Score of each class; their differences are log-odds."""
        return self.model.joint_log_likelihood(self.count(x))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Probability of each class; {} before anything was learned."""
        return self.model.predict_proba_one(self.count(x))

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """The most probable class, whatever mistakes cost; None where nothing was learned."""
        return self.model.predict_one(self.count(x))

    def classify(self, x: Any, reasons: int = 10) -> Verdict:
        """Decide what to do with a message.

        Parameters
        ----------
        x
            The message.
        reasons
            How many reasons to give; 0 is faster.
        """
        tokens = self.count(x)
        scores = self.model.joint_log_likelihood(tokens)
        if not scores:
            return Verdict(None, 0.0, 0.0, True, {}, [])
        labels = list(scores)
        shares = dict(zip(labels, probabilities(list(scores.values())), strict=True))
        expected = {
            label: math.fsum(shares[other] for other in labels if other != label)
            * (self.costs.false_alarm if label == self.positive else self.costs.miss)
            for label in labels
        }
        cheapest = min(labels, key=expected.__getitem__)
        alive = sum(score > -math.inf for score in scores.values())
        unsure = alive < 2 or self.costs.unsure < expected[cheapest]
        label = max(labels, key=shares.__getitem__) if unsure else cheapest
        return Verdict(
            label,
            shares[label],
            log_odds(scores, label),
            unsure,
            shares,
            self._reasons(tokens, label, reasons) if reasons else [],
        )

    def explain_one(self, x: Any) -> Explanation:
        """Say what each feature of a message added to each class."""
        why, _ = self._explained(self.count(x))
        return why

    def _explained(self, tokens: Any) -> tuple[Explanation, dict[Feature, tuple[int, int]]]:
        """An explanation with names a reader knows, and each feature's view and fingerprint."""
        if isinstance(self.model, ViewsNB):
            views, seen = self.model.explain_views(tokens), tokens
        else:
            views, seen = [self.model.explain_one(tokens)], (tokens,)
        parts: dict[Feature, dict[Label, float]] = {}
        places: dict[Feature, tuple[int, int]] = {}
        for j, (view, counted) in enumerate(zip(views, seen, strict=True)):
            for i in range(len(counted)):
                part = view.contributions.get(counted.name(i))
                if part is not None:
                    fingerprint = int(counted.fingerprints[i])
                    name = self._name(j, fingerprint, counted.name(i))
                    if name in parts:  # two views may have features of one name
                        name = (j, name)
                    parts[name] = part
                    places[name] = j, fingerprint
        return Explanation.summed(views, parts), places

    def _name(self, view: int, fingerprint: int, known: Feature) -> Feature:
        """The name of a feature; `known` is what tokens or model say."""
        if isinstance(self.tokenizer, Views):
            return self.tokenizer.name(view, fingerprint, known)
        return known

    def top_features(
        self, label: Label, n: int = 10
    ) -> list[tuple[Feature, float, dict[Label, float]]]:
        """The n features, of all views, that speak most for a class.

        Returns
        -------
        list
            Name, the log-odds one occurrence adds against the best other class (before a message's
            length is allowed for), and how much of it was learned in each class.
        """
        found = []
        for j, model in enumerate(self.models):
            for fingerprint, gain in model.top_fingerprints(label, n):
                name = self._name(j, fingerprint, model.name_of(fingerprint))
                found.append((name, gain, model.counts_of(fingerprint)))
        return sorted(found, key=lambda one: (-one[1], str(one[0])))[:n]

    def _reasons(self, tokens: Any, label: Label, most: int) -> list[Reason]:
        why, places = self._explained(tokens)
        found = why.strongest(label, len(why.contributions))
        loudest = sorted(found, key=lambda item: (-abs(item[1]), str(item[0])))[:most]
        reasons = []
        for feature, gain in loudest:
            view, fingerprint = places[feature]
            reasons.append(Reason(feature, gain, self.models[view].counts_of(fingerprint)))
        return reasons

    def save(self, path: str | Path) -> None:
        """Write model and tokenizer to a file; what was there is replaced whole or not at all."""
        save(self.model, path, self.settings())

    def settings(self) -> dict[str, Any]:
        """Everything but the model, as JSON can hold it."""
        return {
            "tokenizer": describe(self.tokenizer),
            "positive": self.positive,
            "costs": list(self.costs),
            "on": self.on,
        }

    @classmethod
    def from_settings(cls, model: Model, settings: Any) -> Classifier:
        """A classifier of a model and what `settings` gave; any exception where it is not sound."""
        return _restored(model, settings)

    @classmethod
    def load(cls, path: str | Path) -> Classifier:
        """Read what `save` wrote: a plain `Classifier`, with all that was learned.

        Raises
        ------
        ModelFileError
            Where the file is missing, damaged or not ours, or holds a model without a tokenizer.
        """
        model, extra = read(path)
        if not isinstance(extra, dict):
            raise ModelFileError(f"{path}: the model was saved without its tokenizer")
        try:
            return _restored(model, extra)
        except Exception as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelFileError(f"{path}: the tokenizer is not sound ({why:.100})") from None


def _restored(model: Model, extra: Any) -> Classifier:
    tokenizer = restored(extra["tokenizer"])
    views = len(tokenizer.tokenizers) if isinstance(tokenizer, Views) else 0
    if views != (len(model.models) if isinstance(model, ViewsNB) else 0):
        raise ValueError("tokenizer and model have different views")
    costs = Costs(*(float(cost) for cost in extra["costs"]))
    if not all(0 <= cost <= 1e100 for cost in costs):
        raise ValueError("a cost is not a number >= 0")
    on, positive = extra["on"], extra["positive"]
    if not isinstance(on, str | None) or not isinstance(positive, str | int):
        raise ValueError("the key of the message, or the positive class, is not sound")
    return Classifier(tokenizer, model, positive, costs, on)
