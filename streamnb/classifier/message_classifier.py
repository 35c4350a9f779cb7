"""The classifier of messages: a tokenizer, a model and the costs of decisions."""

from __future__ import annotations

import bisect
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamnb.classifier.verdict import COSTS, Costs, Reason, Verdict, as_costs, chances_of_others
from streamnb.constraints import Constraint, Text, has_method
from streamnb.counts.protocol import Label, check_labels, is_missing
from streamnb.data_format import DataFormat
from streamnb.errors import ModelFileError, OutputError
from streamnb.features.text_input import NO_EXAMPLES, is_frame
from streamnb.features.token_counts import Feature, TokenCounts, feature_text
from streamnb.features.views import (
    TOKENIZER,
    Views,
    are_equal,
    as_tokenizer,
    is_pure,
    tokenizer_config,
    tokenizer_from_config,
)
from streamnb.features.words import ScanningTransformer, Tokenizer, read_message
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.matrices import as_classes, as_messages, as_weights, labels_of_rows
from streamnb.naive_bayes.mini_batches import PredictManyMixin
from streamnb.naive_bayes.model_files import not_ours, read, save
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel, check_feedback
from streamnb.parameters import ConvertedParameter, ParametersMixin, parameter, parameter_class
from streamnb.scores import best_index, log_odds, probabilities
from streamnb.storage import label_to_json

if TYPE_CHECKING:
    from pathlib import Path


# Log-odds (nats) of a hypothetical message with a clear class. Its probability is 1 in float64,
# also with half or twice the value.
_CLEAR_LOG_ODDS = 1e3


DATA_FORMAT = "data_format"  # key of `Classifier.data_format` in a model file
_LABEL = Constraint(
    lambda value: isinstance(value, str | int | float | np.generic),
    "a label: str, int, bool or float",
)


class _LastFeatures(NamedTuple):
    """The features of a message, and the tokenizers that computed them."""

    message: str | bytes
    tokenizers: list[ScanningTransformer]
    versions: list[int]
    features: Any


@parameter_class(kw_only=True)
class DecisionParameters:
    """Parameters of every classifier: the key of the message and the costs of decisions.

    Parameters
    ----------
    positive
        The class whose wrong predictions are false alarms, such as spam.
    costs
        Costs of a false alarm, a miss and a review.
    on
        Key of the message if x is a dict; None if x is the message.
    """

    positive: Label = parameter(_LABEL, "formula", default="spam")
    costs: ConvertedParameter[Sequence[float], Costs] = parameter(COSTS, "formula", default=Costs())
    on: str | None = parameter(Text(none=True), "formula", default=None)


@parameter_class()
class Classifier(DecisionParameters, ParametersMixin, PredictManyMixin):
    """A classifier of raw messages: a tokenizer and a model.

    It is a river classifier, whose x is a message: bytes or str; with `on`, a dict that contains
    it. Threads can share it: a lock protects each call of a public method.

    Parameters
    ----------
    tokenizer
        Computes the features of a message: a tokenizer, a function from a text to its tokens, or
        `Views`.
    model
        A counting model, or a `ViewsNB` with a model for each view.

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

    tokenizer: ConvertedParameter[
        ScanningTransformer | Views | Callable[[str], Iterable[Any]], ScanningTransformer | Views
    ] = parameter(TOKENIZER, "counts", default=None)
    model: TextModel = parameter(has_method("views_of", "a model of texts"), "counts", default=None)

    ready: ClassVar[dict[str, type[Classifier]]] = {}  # the preset classifiers, by class name
    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock", "_counted")
    # Columns of the table that the commands trained the classifier on; None for other data.
    data_format: DataFormat | None = None
    _counted: _LastFeatures | None = None

    def _on_change(self, name: str) -> None:
        if name == "costs":
            object.__setattr__(self, "costs", as_costs(self.costs))
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
        """Return the features of a message, the input of the model's methods."""
        return self.tokenizer.count(read_message(x, self.on))

    def _features(self, x: Any) -> Any:
        """Return `count` of a message; the last result again if it is for the same object.

        In a stream, a message is predicted and then learned. Only the tokenizers of streamnb are
        known to return the same features twice.
        """
        message, tokenizers = read_message(x, self.on), self.tokenizer.tokenizers
        is_immutable = type(message) in (str, bytes)
        is_ours = type(self).count is Classifier.count and is_pure(self.tokenizer)
        if not (is_immutable and is_ours):
            return self.count(x)
        versions = [tokenizer.params_version for tokenizer in tokenizers]
        last = self._counted
        is_last = last is not None and last.message is message
        if last and is_last and (last.tokenizers, last.versions) == (tokenizers, versions):
            return last.features
        features = self.count(x)
        self._counted = _LastFeatures(message, list(tokenizers), versions, features)
        return features

    @property
    def receipt(self) -> Receipt | None:
        """The receipt of the last `learn_one`, which `unlearn_one` takes."""
        return self.model.receipt

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order in which they were first seen."""
        return self.model.labels

    @property
    def features(self) -> int:
        """Number of features that have a count, summed over the views."""
        return self.model.features

    @property
    def models(self) -> Sequence[CountingNB]:
        """The counting model of each view."""
        return self.model.view_models

    def learn_one(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> None:
        """Learn a message of class y, with weight w.

        `feedback` is "all" if every message gets a label, "errors" if only wrongly predicted
        messages do, and None to infer it (`TextModel.learn_one`).
        """
        self.model.learn_one(self._features(x), y, w, feedback)

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message as `learn_one` does, and return the receipt of this call.

        If threads share the classifier, `receipt` can be of another thread's message.
        """
        return self.model.learn(self._features(x), y, w, check_feedback(feedback))

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages, with labels y and weights w (a number, or one for each).

        X is a sequence of messages or a data frame with one column. With `on`, X can also be a
        frame that has that column.
        """
        self.model.learn_many(self._count_many(X), y, w)

    def _count_many(self, X: Any) -> list[Any]:
        """Return the features of many messages; an error names the row of a wrong message."""
        by_name = self._reads_dicts()
        messages, rows = as_messages(X, by_name), []
        try:
            for message in messages:
                rows.append(self.count(message))
        except (TypeError, ValueError, AttributeError) as error:
            is_row = is_frame(X) and isinstance(messages[0], Mapping) and not by_name
            if isinstance(error, AttributeError) and not is_row:
                raise
            hint = f"; X is a frame of {len(messages[0])} columns: set on= to one" if is_row else ""
            if is_missing(messages[len(rows)]):
                hint = ": leave the row out or replace it by ''"
            kind = TypeError if isinstance(error, TypeError) and not is_row else ValueError
            raise kind(f"row {len(rows)}: {error}{hint}") from None
        return rows

    def _reads_dicts(self) -> bool:
        """Return whether the classifier or a tokenizer has a key `on`."""
        views = self.tokenizer
        tokenizers = views.tokenizers if isinstance(views, Views) else [views]
        return any(getattr(part, "on", None) is not None for part in (self, *tokenizers))

    def fit(self, X: Any, y: Any, sample_weight: Any = None, seed: int = 1) -> Self:
        """Reset the model, then learn many messages in shuffled order.

        A model that learns one class after the other predicts worse. Use `learn_many` to learn in
        the given order.

        Parameters
        ----------
        X : sequence of str, bytes or dict, or data frame
            The messages. For a frame of several columns, `on` names the column that has them.
        y : sequence of label
            Their labels.
        sample_weight : float or sequence of float, default None
            Their weights; None for 1.
        seed : int, default 1
            Seed of the order.

        Examples
        --------
        >>> from streamnb import TextClassifier
        >>> texts = ["cheap pills", "lunch at noon", "free pills", "the noon train"]
        >>> TextClassifier().fit(texts, ["spam", "ham", "spam", "ham"]).predict_one("pills")
        'spam'
        """
        import random  # here: classifying needs none

        rows = self._count_many(X)
        labels = labels_of_rows(y, len(rows))
        if not labels:
            raise ValueError(NO_EXAMPLES)
        self._check_positive([*self.labels, *labels])
        weights = as_weights(sample_weight, len(labels))
        order = list(range(len(labels)))
        random.Random(seed).shuffle(order)  # noqa: S311 (an order, not a secret)
        model = self.model.clone()
        model.learn_many([rows[i] for i in order], [labels[i] for i in order], weights[order])
        object.__setattr__(self, "model", model)
        return self

    def _check_positive(self, labels: Iterable[Label]) -> None:
        """Raise ValueError if the positive class is not one of the labels, unless it is default."""
        default = self.parameter_table["positive"].default
        known_labels = list(dict.fromkeys(labels))
        if self.positive == default or self.positive in known_labels:
            return
        names = ", ".join(f"{label!r:.40}" for label in known_labels[:20])
        raise ValueError(f"positive: {self.positive!r:.80} is none of the labels ({names})")

    def partial_fit(
        self, X: Any, y: Any, classes: Iterable[Label] | None = None, sample_weight: Any = None
    ) -> Self:
        """Learn many messages in the given order, as `learn_many` does.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : iterable of label, default None
            Classes that get a probability before a message of them is learned.
        """
        declared = [] if classes is None else as_classes(classes)
        check_labels(declared)
        with self.model.lock:
            self.learn_many(X, y, sample_weight)
            self._declare(declared)
        return self

    def _declare(self, classes: Iterable[Label]) -> None:
        """Add classes without messages."""
        for model in self.models:
            model.counts.add_classes(classes)

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one`, given the `receipt` of the message."""
        self.model.unlearn_one(self.count(x), y, w, receipt)

    def merge(self, classifier: Classifier) -> None:
        """Merge the model of another classifier, as the `merge` of models does.

        Raises
        ------
        ValueError
            If the tokenizers differ, or the models cannot be merged.
        """
        if not are_equal(self.tokenizer, classifier.tokenizer):
            raise ValueError("cannot merge: the tokenizers differ")
        self.model.merge(classifier.model)

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """Return the score of each class; differences of scores are log-odds."""
        return self.model.joint_log_likelihood(self.count(x))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Return the probability of each class; {} before the first message."""
        return self.model.predict_proba_one(self._features(x))

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """Return the most probable class, ignoring the costs; None before the first message."""
        return self.model.predict_one(self._features(x))

    @property
    def _scoring(self) -> threading.RLock:
        return self.model.lock

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        return self.model._scores_of(self._count_many(X))

    def classify(self, x: Any, reasons: int = 10, costs: Sequence[float] | None = None) -> Verdict:
        """Decide what to do with a message.

        Parameters
        ----------
        x : bytes, str, Mail or dict
            The message.
        reasons : int, default 10
            Maximum number of reasons, from the state of the model at the verdict. 0 makes it two to
            six times as fast.
        costs : Costs or sequence of float, default None
            The costs of this decision; None for the classifier's own.
        """
        return self.classify_features(self.count(x), reasons, costs)

    def classify_features(
        self, tokens: Any, reasons: int = 10, costs: Sequence[float] | None = None
    ) -> Verdict:
        """Return the result of `classify` for the features that `count` returned."""
        if reasons < 0:
            raise ValueError(f"reasons: expected a number of at least 0, not {reasons}")
        chosen_costs = self.costs if costs is None else as_costs(costs)
        with self.model.lock:  # reasons and scores come from the same state of the model
            # Classes whose messages were all unlearned are left out.
            messages = {label: n for label, n in self.messages().items() if n > 0}
            if not messages:
                return Verdict(None, 0.0, 0.0, True, {}, [], ready=False)
            tokens = self.model.as_tokens(tokens)
            scores = self.model.joint_log_likelihood(tokens)
            scores = {label: scores[label] for label in messages}
            label, shares, unsure = self.decide(scores, chosen_costs, messages)
            return Verdict(
                label,
                shares[label],
                log_odds(scores, label),
                unsure,
                shares,
                self.reasons(tokens, label, reasons) if reasons else [],
                self.model.is_ready(label),
            )

    def messages(self) -> dict[Label, float]:
        """Return the weight of the messages learned of each class."""
        with self.model.lock:
            counts = self.models[0].counts
            pairs = zip(counts.labels, counts.weights, strict=True)
            return {label: weight / counts.scale for label, weight in pairs}

    def is_ready(self, label: Label) -> bool:
        """Return whether a verdict of this class can be sure, if the evidence is strong.

        The class needs enough correct predictions. The other classes need enough messages, about 50
        with the default costs, because a few messages do not show all kinds of these classes.
        """
        with self.model.lock:
            messages = self.messages()
            return self.model.is_ready(label) and self.is_sure_of_clear(label, messages)

    def is_sure_of_clear(self, label: Label, messages: Mapping[Label, float]) -> bool:
        """Return whether strong evidence for a class gives a sure verdict.

        `messages` is the number of messages learned of each class.
        """
        scores = {y: 0.0 if y == label else -_CLEAR_LOG_ODDS for y, n in messages.items() if n}
        return label in scores and not self.decide(scores, self.costs, messages)[2]

    def decide(
        self, scores: Mapping[Label, float], costs: Costs, messages: Mapping[Label, float]
    ) -> tuple[Label, dict[Label, float], bool]:
        """Return the class, the probability of each, and whether a review has the lowest cost.

        Parameters
        ----------
        scores : mapping of label to float
            Differences of scores are log-odds.
        costs : Costs
            The costs of wrong decisions and of a review.
        messages : mapping of label to float
            Weight of the messages learned of each class.
        """
        labels = list(scores)
        shares = dict(zip(labels, probabilities(list(scores.values())), strict=True))
        expected = {
            label: chance * (costs.false_alarm if label == self.positive else costs.miss)
            for label, chance in chances_of_others(shares, messages).items()
        }
        cheapest = labels[best_index([-expected[label] for label in labels])]
        alive = sum(score > -math.inf for score in scores.values())
        unsure = alive < 2 or costs.unsure < expected[cheapest]
        return labels[best_index(list(scores.values()))] if unsure else cheapest, shares, unsure

    def explain_one(self, x: Any) -> Explanation:
        """Return the contribution of each feature of a message to the score of each class."""
        with self.model.lock:
            explanations = self.model.explain_views(self.count(x))
            by_name: dict[Feature, dict[Label, float]] = {}
            for j, explanation in enumerate(explanations):
                contributions: Any = explanation.contributions
                values = contributions.values_by_class.tolist()
                for i, by_class in zip(contributions.used.tolist(), values, strict=True):
                    name = self._feature_name(j, contributions.tokens, i)
                    if name in by_name:  # features of two views can have the same name
                        name = (j, name)
                    by_name[name] = dict(zip(contributions.labels, by_class, strict=True))
        return Explanation.sum_views(explanations, by_name)

    def reasons(self, tokens: Any, label: Label, most: int) -> list[Reason]:
        """Return the features of a message with the largest log-odds for or against a class.

        `tokens` are the features that `count` returned. Names are looked up only for the reasons,
        because a message has hundreds of features. Equal log-odds are sorted by name.
        """
        with self.model.lock:
            views = self.model.contributions(tokens)
            if any(label not in contributions.labels for contributions in views) or most < 1:
                return []
            gains = np.concatenate([contributions.margins(label) for contributions in views])
            sizes = np.abs(gains)
            least = np.partition(sizes, -most)[-most] if len(sizes) > most else 0.0
            ends = list(itertools.accumulate(map(len, views)))
            candidates: dict[Feature, tuple[float, int, int]] = {}
            for row in (sizes >= least).nonzero()[0].tolist():
                j = bisect.bisect_right(ends, row)
                contributions = views[j]
                i = int(contributions.used[row - ends[j]])
                name = self._feature_name(j, contributions.tokens, i)
                if name in candidates:  # features of two views can have the same name
                    name = (j, name)
                candidates[name] = float(gains[row]), j, i
            chosen = sorted(
                candidates.items(), key=lambda item: (-abs(item[1][0]), feature_text(item[0]))
            )
            del chosen[most:]
            tables = {
                j: self._class_counts(j, views[j].tokens) for j in {j for _, (_, j, _) in chosen}
            }
            return [Reason(name, gain, tables[j](i)) for name, (gain, j, i) in chosen]

    def _feature_name(self, view_index: int, tokens: TokenCounts, i: int) -> Feature:
        """Return the name for readers of a feature of a view of a message."""
        fingerprint = int(tokens.fingerprints[i])
        if tokens.names is None:  # the features have no names
            stored_name = self.models[view_index].display_name(fingerprint)
        else:
            stored_name = tokens.name(i)
        return self.tokenizer.tokenizers[view_index].name(fingerprint, stored_name)

    def _class_counts(
        self, view_index: int, tokens: TokenCounts
    ) -> Callable[[int], dict[Label, float]]:
        """Return a function from the index of a feature to its count in each class of messages."""
        counts = self.models[view_index].counts
        labels, scale = counts.labels, counts.scale
        has_messages = [messages > 0 for messages in counts.weights]
        cells = counts.get_counts(tokens.fingerprints)[0]  # of all features: they are cached

        def counts_of(i: int) -> dict[Label, float]:
            pairs = zip(labels, (cells[i] / scale).tolist(), strict=True)
            return dict(itertools.compress(pairs, has_messages))

        return counts_of

    def top_features(
        self, label: Label, n: int = 10
    ) -> list[tuple[Feature, float, dict[Label, float]]]:
        """Return the n features of all views with the largest log-odds for a class.

        Returns
        -------
        list
            Name, log-odds, and the count in each class. The log-odds are for one occurrence,
            against the best other class, before length normalisation.
        """
        with self.model.lock:
            (features,) = self.strongest((label,), n).values()
            return [
                (name, gain, self.models[view].class_counts(fingerprint))
                for name, gain, view, fingerprint in features
            ]

    def strongest(
        self, labels: Iterable[Label], n: int = 10
    ) -> dict[Label, list[tuple[Feature, float, int, int]]]:
        """Return the `top_features` of each of several classes, in one pass over all features.

        Each feature has its view and fingerprint. `class_counts` of the view's model returns its
        counts; with thousands of classes, the counts of all features would take much memory.
        """
        wanted = list(labels)
        features: list[list[tuple[Feature, float, int, int]]] = [[] for _ in wanted]
        with self.model.lock:
            for view, model in enumerate(self.models):
                tokenizer = self.tokenizer.tokenizers[view]
                tops = model.top_fingerprints(wanted, n)
                for class_features, top in zip(features, tops, strict=True):
                    for fingerprint, gain in top:
                        name = tokenizer.name(fingerprint, model.display_name(fingerprint))
                        class_features.append((name, gain, view, fingerprint))
        for class_features in features:
            class_features.sort(key=lambda item: (-item[1], feature_text(item[0])))
            del class_features[max(n, 0) :]
        return dict(zip(wanted, features, strict=True))

    # Files

    def save(self, path: str | Path | BinaryIO) -> None:
        """Write model and tokenizer to a file, completely or not at all.

        Raises
        ------
        OutputError
            If the file cannot be written, or the class of model, tokenizer or classifier is outside
            streamnb, so `load` could not create it.
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
        """Return all settings except the model, as JSON values."""
        settings = {
            "tokenizer": tokenizer_config(self.tokenizer),
            "positive": label_to_json(self.positive)[1],
            "costs": list(self.costs),
            "on": self.on,
        }
        return settings if self.data_format is None else {**settings, DATA_FORMAT: self.data_format}

    @classmethod
    def from_settings(cls, model: TextModel, settings: Any) -> Classifier:
        """Return a model's classifier by `settings`; damage raises an exception of any type."""
        tokenizer = tokenizer_from_config(settings["tokenizer"])
        _check_views(tokenizer, model)
        positive, on = settings["positive"], settings["on"]
        if not isinstance(positive, str | int | float):
            raise ValueError("the positive class is damaged")
        decision = {
            "positive": positive,
            "costs": Costs(*(float(cost) for cost in settings["costs"])),
            "on": on,
        }
        preset = cls.ready.get(settings.get("class", ""))
        if preset is not None:
            return preset._of_settings(tokenizer, model, settings, decision)
        return Classifier(tokenizer, model, **decision)

    @classmethod
    def _of_settings(
        cls, tokenizer: Any, model: TextModel, settings: Any, decision: dict[str, Any]
    ) -> Classifier:
        """Return a preset classifier of a tokenizer, a model and the saved `settings`."""
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | Path | BinaryIO) -> Self:
        """Return the classifier that `save` wrote to a file.

        Raises
        ------
        ModelFileError
            If the file is missing, damaged or not a file of streamnb, or has a model without a
            tokenizer.
        """
        model, extra = read(path, TextModel)
        if not isinstance(extra, dict):
            raise ModelFileError(f"{path}: the model was saved without its tokenizer")
        try:
            classifier = cls.from_settings(model, extra)
            classifier.data_format = DataFormat.from_json(extra.get(DATA_FORMAT))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ModelFileError(f"{path}: the tokenizer is damaged ({reason:.100})") from None
        if not isinstance(classifier, cls):
            raise ModelFileError(
                f"{path}: the file holds a {type(classifier).__name__}, not a {cls.__name__}"
            )
        return classifier


def _check_views(tokenizer: Any, model: TextModel) -> None:
    views = len(tokenizer.tokenizers) if isinstance(tokenizer, Views) else 1
    if views != len(model.view_models) or (isinstance(tokenizer, Views) and not model.takes_views):
        raise ValueError(
            f"the tokenizer makes {views} views of a message, but the model has "
            f"{len(model.view_models)}: pass Views with one tokenizer for each view of the model"
        )
