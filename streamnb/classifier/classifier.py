"""Any tokenizer and any model: messages in, verdicts out."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamnb.classifier.snapshot import Snapshot, take_snapshot
from streamnb.classifier.verdict import Costs, Reason, Verdict
from streamnb.counts.protocol import Label
from streamnb.errors import ModelFileError, OutputError
from streamnb.features.token_counts import Feature
from streamnb.features.views import (
    TOKENIZER,
    Views,
    as_tokenizer,
    tokenizer_config,
    tokenizer_from_config,
)
from streamnb.features.words import ScanningTransformer, Tokenizer, read_message
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.mini_batches import (
    PredictManyMixin,
    as_labels,
    as_weights,
    frame_of,
    is_frame,
)
from streamnb.naive_bayes.model_files import not_ours, read, save
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel
from streamnb.parameters import (
    Constraint,
    ParametersMixin,
    Text,
    has_method,
    is_number,
    parameter,
    parameter_class,
)
from streamnb.scores import best_index, log_odds, probabilities
from streamnb.storage import label_to_json


def _are_costs(value: Any) -> bool:
    three = isinstance(value, tuple) and len(value) == 3
    return three and all(is_number(cost) and 0 <= cost <= 1e100 for cost in value)


_CLEAR = 1e3  # nats that a clear message has at least

COSTS = Constraint(_are_costs, "three numbers >= 0: false_alarm, miss and unsure")
_LABEL = Constraint(
    lambda value: isinstance(value, str | int | float | np.generic),
    "a label: str, int, bool or float",
)


@parameter_class(kw_only=True)
class DecisionParameters:
    """Parameters of every classifier: what a message is, and what decisions cost."""

    positive: Label = parameter(
        _LABEL, "formula", "The class that false alarms are for.", default="spam"
    )
    costs: Costs = parameter(COSTS, "formula", "What decisions cost.", default=Costs())
    on: str | None = parameter(
        Text(none=True), "formula", "Key of the message where x is a dict.", default=None
    )


@parameter_class()
class Classifier(DecisionParameters, ParametersMixin, PredictManyMixin):
    """A tokenizer and a model: learns and classifies messages as they are.

    It is a river classifier, whose x is a message: bytes, str, or with `on` a dict that has one.
    Threads can share it: each call of a method is done as a whole.

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

    tokenizer: ScanningTransformer | Views = parameter(
        TOKENIZER,
        "counts",
        "Makes features of a message: a tokenizer, a function from a text to its tokens, or "
        "`Views`.",
        default=None,
    )
    model: TextModel = parameter(
        has_method("explain_views", "a model of texts"),
        "counts",
        "A counting model, or a `ViewsNB` with a model for each view.",
        default=None,
    )

    ready: ClassVar[dict[str, type[Classifier]]] = {}  # those with everything chosen, by name

    def _changed(self, name: str) -> None:
        if name == "costs" and type(self.costs) is not Costs:  # any three numbers will do
            object.__setattr__(self, "costs", Costs(*self.costs))
        if name == "tokenizer":
            object.__setattr__(self, "tokenizer", as_tokenizer(self.tokenizer))
        if name in ("tokenizer", "model") and {"tokenizer", "model"} <= vars(self).keys():
            _check_views(self.tokenizer, self.model)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"tokenizer": Tokenizer(), "model": MultinomialNB()}

    def _has_learned(self) -> bool:
        return "model" in vars(self) and bool(self.labels)

    def _more_tags(self) -> set[str]:
        return {"text input"}

    def count(self, x: Any) -> Any:
        """The features of a message, as the model takes them."""
        return self.tokenizer.count(read_message(x, self.on))

    @property
    def receipt(self) -> Receipt | None:
        """What the last `learn_one` added: keep it to be able to unlearn."""
        return self.model.receipt

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order they came."""
        return self.model.labels

    @property
    def features(self) -> int:
        """How many features are known, of all views."""
        return self.model.features

    @property
    def models(self) -> Sequence[CountingNB]:
        """The counting model of each view."""
        return self.model.view_models

    def learn_one(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> None:
        """Learn a message of class y, with weight w.

        `feedback` is "all" if every message gets a label, "errors" if only those do that were
        predicted wrongly, None to infer it (`TextModel.learn_one`).
        """
        self.model.learn_one(self.count(x), y, w, feedback)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages, with labels y and weights w (a number, or one for each).

        X is a sequence of messages, or with `on` a data frame that has a column of them.
        """
        self.model.learn_many([self.count(x) for x in as_messages(X)], y, w)

    def fit(self, X: Any, y: Any, w: Any = None, seed: int = 1) -> Self:
        """Forget everything and learn many messages, shuffled: in whatever order they stand.

        Taught in their own order (`learn_many`), one class after the other would be known worse.

        Parameters
        ----------
        X : sequence of str, bytes or dict, or data frame
            The messages; of a frame, `on` says in which column they are.
        y : sequence of label
            Their labels.
        w : float or sequence of float, default None
            Their weights; None for 1.
        seed : int, default 1
            What the order is drawn from.

        Examples
        --------
        >>> from streamnb import TextClassifier
        >>> texts = ["cheap pills", "lunch at noon", "free pills", "the noon train"]
        >>> TextClassifier().fit(texts, ["spam", "ham", "spam", "ham"]).predict_one("pills")
        'spam'
        """
        messages, labels = as_messages(X), as_labels(y)
        if len(messages) != len(labels):
            raise ValueError(f"{len(messages)} examples, but {len(labels)} labels")
        weights = as_weights(w, len(labels))
        order = list(range(len(labels)))
        random.Random(seed).shuffle(order)  # noqa: S311 (an order, not a secret)
        taught = self.model.clone()
        taught.learn_many(
            [self.count(messages[i]) for i in order], [labels[i] for i in order], weights[order]
        )
        object.__setattr__(self, "model", taught)
        return self

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

    @property
    def _scoring(self) -> threading.RLock:
        return self.model.lock

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        return self.model._scores_of([self.count(x) for x in as_messages(X)])

    def classify(self, x: Any, reasons: int = 10, costs: Sequence[float] | None = None) -> Verdict:
        """Decide what to do with a message.

        Parameters
        ----------
        x : bytes, str, Mail or dict
            The message.
        reasons : int, default 10
            How many reasons to give. They are named when you read them; 0 saves a little more time.
        costs : Costs or sequence of float, default None
            What decisions cost, this time; None for the classifier's own.
        """
        return self.classify_features(self.count(x), reasons, costs)

    def classify_features(
        self, tokens: Any, reasons: int = 10, costs: Sequence[float] | None = None
    ) -> Verdict:
        """As `classify`, of a message's features as `count` gives them."""
        if reasons < 0:
            raise ValueError(f"reasons: at least 0, not {reasons}")
        if costs is not None:
            COSTS("costs", tuple(costs))
        asked = self.costs if costs is None else Costs(*costs)
        with self.model.lock:  # the reasons are those of the scores
            messages = self.messages()
            if not any(messages.values()):  # or all that was learned was taken back
                return Verdict(None, 0.0, 0.0, True, {}, [], ready=False)
            scores = self.model.joint_log_likelihood(tokens)
            label, shares, unsure = self.decide(scores, asked, messages)
            snapshot = take_snapshot(self.model, tokens) if reasons else None
            ready = self.model.is_ready(label)
            verdict = Verdict(
                label, shares[label], log_odds(scores, label), unsure, shares, [], ready
            )
            if snapshot is None:
                return verdict
            if any(model.counts.in_transaction for model in self.models):
                return replace(verdict, reasons=self._loudest(snapshot, label, reasons))
        return verdict.with_reasons_from(lambda: self._loudest(snapshot, label, reasons))

    def messages(self) -> dict[Label, float]:
        """How many messages of each class were learned."""
        with self.model.lock:
            counts = self.models[0].counts
            pairs = zip(counts.labels, counts.weights, strict=True)
            return {label: weight / counts.scale for label, weight in pairs}

    def is_ready(self, label: Label) -> bool:
        """Whether a verdict on a message of a class can be sure, if that is clear enough.

        The class must have been called rightly often enough, and so many messages of others must be
        known that a new kind of those is improbable: some fifty, with the costs that are default.
        """
        with self.model.lock:
            messages = self.messages()
            clear = {y: 0.0 if y == label else -_CLEAR for y, n in messages.items() if n}
            return (
                label in clear
                and self.model.is_ready(label)
                and not self.decide(clear, self.costs, messages)[2]
            )

    def decide(
        self, scores: Mapping[Label, float], costs: Costs, messages: Mapping[Label, float]
    ) -> tuple[Label, dict[Label, float], bool]:
        """The class, the probability of each, and whether a look costs less than any decision.

        Parameters
        ----------
        scores : mapping of label to float
            Their differences are log-odds.
        costs : Costs
            What decisions cost.
        messages : mapping of label to float
            How many messages of each class are known.
        """
        labels = list(scores)
        shares = dict(zip(labels, probabilities(list(scores.values())), strict=True))
        expected = {
            label: chance * (costs.false_alarm if label == self.positive else costs.miss)
            for label, chance in _chances_of_others(shares, messages).items()
        }
        cheapest = labels[best_index([-expected[label] for label in labels])]
        alive = sum(score > -math.inf for score in scores.values())
        unsure = alive < 2 or costs.unsure < expected[cheapest]
        return labels[best_index(list(scores.values()))] if unsure else cheapest, shares, unsure

    def explain_one(self, x: Any) -> Explanation:
        """Say what each feature of a message added to each class."""
        tokens = self.count(x)
        with self.model.lock:
            return self._name_features(take_snapshot(self.model, tokens))[0]

    def _name_features(
        self, snapshot: Snapshot
    ) -> tuple[Explanation, dict[Feature, tuple[int, int]]]:
        """Return an explanation with names for readers, and view and index of each feature."""
        contributions: dict[Feature, dict[Label, float]] = {}
        origins: dict[Feature, tuple[int, int]] = {}
        explanations = snapshot.explain()
        for j, (explanation, view) in enumerate(zip(explanations, snapshot.views, strict=True)):
            tokenizer = self.tokenizer.tokenizers[j]
            for i in range(len(view)):
                contribution = explanation.contributions.get(view.name(i))
                if contribution is not None:
                    fingerprint = int(view.fingerprints[i])
                    stored_name = view.name(i)
                    if view.names is None:  # the message came without names
                        stored_name = self.models[j].display_name(fingerprint)
                    name = tokenizer.name(fingerprint, stored_name)
                    if name in contributions:  # two views may have features of one name
                        name = (j, name)
                    contributions[name] = contribution
                    origins[name] = j, i
        return Explanation.summed(explanations, contributions), origins

    def _loudest(self, snapshot: Snapshot, label: Label, n: int) -> list[Reason]:
        """Return the n features with the largest log-odds for or against a class."""
        with self.model.lock:
            explanation, origins = self._name_features(snapshot)
        pairs = explanation.top_features(label, len(explanation.contributions))
        loudest = sorted(pairs, key=lambda item: (-abs(item[1]), str(item[0])))[:n]
        reasons = []
        for feature, gain in loudest:
            j, i = origins[feature]
            weights = snapshot.cells[j][i] / snapshot.scales[j]
            counts = dict(zip(snapshot.labels, weights.tolist(), strict=True))
            reasons.append(Reason(feature, gain, counts))
        return reasons

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
        with self.model.lock:
            (found,) = self.strongest((label,), n).values()
            return [
                (name, gain, self.models[view].class_counts(fingerprint))
                for name, gain, view, fingerprint in found
            ]

    def strongest(
        self, labels: Iterable[Label], n: int = 10
    ) -> dict[Label, list[tuple[Feature, float, int, int]]]:
        """As `top_features`, for each of some classes: what is known is looked through once.

        Instead of counts each feature's view and fingerprint, which `counts_of` of the view's model
        takes: of thousands of classes all counts are more than one may want to hold.
        """
        wanted = list(labels)
        found: list[list[tuple[Feature, float, int, int]]] = [[] for _ in wanted]
        with self.model.lock:
            for view, model in enumerate(self.models):
                tokenizer = self.tokenizer.tokenizers[view]
                for mine, strongest in zip(found, model.top_fingerprints(wanted, n), strict=True):
                    for fingerprint, gain in strongest:
                        name = tokenizer.name(fingerprint, model.display_name(fingerprint))
                        mine.append((name, gain, view, fingerprint))
        for mine in found:
            mine.sort(key=lambda item: (-item[1], str(item[0])))
            del mine[max(n, 0) :]
        return dict(zip(wanted, found, strict=True))

    def reasons(self, tokens: Any, label: Label, most: int) -> list[Reason]:
        """Return the features of a message, as `count` gives them, that speak loudest."""
        with self.model.lock:
            snapshot = take_snapshot(self.model, tokens)
        return self._loudest(snapshot, label, most)

    # Files

    def save(self, path: str | Path | BinaryIO) -> None:
        """Write model and tokenizer to a file; what was there is replaced whole or not at all.

        Raises
        ------
        OutputError
            Where the file cannot be written, or model, tokenizer or classifier are of a class that
            is none of streamnb's: nothing could read them.
        """
        if type(self) not in (Classifier, *self.ready.values()):
            raise OutputError(f"{path}: {not_ours(type(self).__name__)}")
        with self.model.lock:
            try:
                settings = self.settings()
            except ValueError as error:
                raise OutputError(f"{path}: {error}") from None
            save(self.model, path, settings)

    def settings(self) -> dict[str, Any]:
        """Everything but the model, as JSON can hold it."""
        return {
            "tokenizer": tokenizer_config(self.tokenizer),
            "positive": label_to_json(self.positive)[1],
            "costs": list(self.costs),
            "on": self.on,
        }

    @classmethod
    def from_settings(cls, model: TextModel, settings: Any) -> Classifier:
        """A classifier of a model and what `settings` gave; any exception where it is not sound."""
        tokenizer = tokenizer_from_config(settings["tokenizer"])
        _check_views(tokenizer, model)
        positive, on = settings["positive"], settings["on"]
        if not isinstance(positive, str | int | float):
            raise ValueError("the positive class is not sound")
        rest = {
            "positive": positive,
            "costs": Costs(*(float(cost) for cost in settings["costs"])),
            "on": on,
        }
        made = cls.ready.get(settings.get("class", ""))
        if made is not None:
            return made._of_settings(tokenizer, model, settings, rest)
        return Classifier(tokenizer, model, **rest)

    @classmethod
    def _of_settings(
        cls, tokenizer: Any, model: TextModel, settings: Any, rest: dict[str, Any]
    ) -> Classifier:
        """A ready classifier of its parts and of what its `settings` gave."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Read what `save` wrote, as the class that wrote it, with all that was learned.

        Raises
        ------
        ModelFileError
            Where the file is missing, damaged or not ours, or holds a model without a tokenizer.
        """
        model, extra = read(path, TextModel)
        if not isinstance(extra, dict):
            raise ModelFileError(f"{path}: the model was saved without its tokenizer")
        try:
            found = cls.from_settings(model, extra)
        except Exception as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelFileError(f"{path}: the tokenizer is not sound ({why:.100})") from None
        if not isinstance(found, cls):
            raise ModelFileError(
                f"{path}: the file holds a {type(found).__name__}, not a {cls.__name__}"
            )
        return found


def _check_views(tokenizer: Any, model: TextModel) -> None:
    views = len(tokenizer.tokenizers) if isinstance(tokenizer, Views) else 1
    if views != len(model.view_models) or (isinstance(tokenizer, Views) and not model.takes_views):
        raise ValueError(
            f"the tokenizer makes {views} views of a message, and the model is of "
            f"{len(model.view_models)}: give Views with a tokenizer for each"
        )


def as_messages(X: Any) -> list[Any]:
    """Messages one by one; the rows of a data frame are dicts."""
    if isinstance(X, str | bytes):
        raise TypeError(f"a {type(X).__name__} is one message: many are a list of them")
    return list(frame_of(X).rows(named=True) if is_frame(X) else X)


def _chances_of_others(
    shares: Mapping[Label, float], messages: Mapping[Label, float]
) -> dict[Label, float]:
    """For each label the chance that a message is of another class.

    After n messages of a class the next of it is of a new kind with a chance of about 1 / (n + 1),
    and of those nothing is known: one message of each class makes nobody sure. Of which class a
    message of a new kind is, their numbers say, so that a class that has just come does not make
    the verdicts on others unsure.
    """
    top = list(shares)[best_index(list(shares.values()))]
    rest = math.fsum(share for label, share in shares.items() if label != top)
    whole = rest + shares[top]
    known = {label: messages[label] + 1 for label in shares if messages.get(label)}
    weight = math.fsum(known.values())
    chances = {}
    for label, share in shares.items():
        others = rest if label == top else whole - share
        kinds = len(known) - (label in known)
        # Each of the others has 1 at least, also where that is lost in a sum of large weights.
        new = kinds / max(weight - known.get(label, 0.0), kinds) if kinds else 1.0
        own = 1 / (messages.get(label, 0.0) + 1)
        chances[label] = (others + new) / (1 + new + own)
    return chances
