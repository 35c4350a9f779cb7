"""Text models: their interface, and the table of counts that most of them are."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Floats, Keys, Label, check_labels, checked_weight
from streamnb.errors import ConfigError, OutputError
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.naive_bayes.explanation import (
    Contributions,
    Explanation,
    TopFeatures,
    margin_over_runner_up,
)
from streamnb.naive_bayes.mini_batches import (
    MiniBatchMixin,
    PredictManyMixin,
    Rows,
    are_messages,
    as_labels,
    as_list,
    as_weights,
    is_matrix,
)
from streamnb.naive_bayes.model_files import ReadArray, SaveLoadMixin
from streamnb.naive_bayes.receipt import Receipt
from streamnb.parameters import (
    MIN_POSITIVE,
    POSITIVE,
    Boolean,
    Choice,
    ClassPrior,
    Integer,
    Number,
    Prior,
    attribute,
    parameter,
    parameter_class,
    parameters_from_json,
    parameters_to_json,
)
from streamnb.scores import ScorerMixin

# Grid of the factors of update weights. Sums of multiples of it are exact, so unlearning is exact.
# A coarser grid would ignore messages that are nearly known; a finer one would gain no accuracy.
_GRID = 2.0**-10


def check_feedback(feedback: str | None) -> str | None:
    """Return which messages get labels: "all", "errors", or None if that is inferred.

    Raises
    ------
    ValueError
        If it is another word.
    """
    if feedback not in (None, "all", "errors"):
        raise ValueError(f"feedback: {feedback!r:.80} is not 'all', 'errors' or None")
    return feedback


class TextModel(ScorerMixin, SaveLoadMixin, PredictManyMixin):
    """Base class of text models, and the interface that classifiers, mailboxes and replays use.

    A subclass decides how a message is represented: as one set of features, or as several views.
    It has `view_models`, and implements learning, unlearning and scores. State other than counts
    goes through `state` and `restore`; the change that a message made to it goes into
    `Receipt.deltas` under a name of its own.

    Several threads can share a model: each call of a public method holds the model's lock.
    """

    receipt: Receipt | None
    discriminative: ClassVar[bool] = True  # update weights depend on the model's own predictions

    @property
    def order_dependence_reason(self) -> str:
        """Return why the result depends on the order of messages, or "" if it does not."""
        if not self.discriminative:
            return ""
        return (
            f"a {type(self).__name__} depends on the order of messages, so it cannot be computed "
            "from parts exactly; set shards= for an approximation"
        )

    @property
    def takes_views(self) -> bool:
        """Return whether a message is a sequence of views."""
        return False

    @property
    def view_models(self) -> Sequence[CountingNB]:
        """The counting models, one for each view of a message."""
        raise NotImplementedError

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order in which they were first seen."""
        return self.view_models[0].counts.labels

    @property
    def features(self) -> int:
        """Number of features that have a count, summed over the views."""
        return sum(model.counts.features for model in self.view_models)

    # Messages

    def as_tokens(self, x: Any) -> Any:
        """Convert a message to the form that the model counts.

        The result does not depend on the model's state, so it can be kept and used again.
        """
        raise NotImplementedError

    def views_of(self, tokens: Any) -> tuple[TokenCounts, ...]:
        """Return the features of each view of a message that `as_tokens` returned."""
        raise NotImplementedError

    def join_views(self, views: tuple[TokenCounts, ...]) -> Any:
        """Return the message with these views: the inverse of `views_of`."""
        raise NotImplementedError

    # Learning

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message and return the receipt that `unlearn` needs."""
        raise NotImplementedError

    def relearn_one(self, x: Any, y: Label, receipt: Receipt) -> Receipt:
        """Learn a message again, after others were learned or unlearned.

        Update weights are computed anew. `receipt` is that of the first time: it records whether
        the label was a correction.
        """
        return self.learn(x, y)

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt; raise ValueError and change nothing if they are absent."""
        raise NotImplementedError

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt again, exactly: the inverse of `unlearn`."""
        raise NotImplementedError

    def learn_one(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> None:
        """Learn a message.

        Parameters
        ----------
        x : mapping, TokenCounts or sequence of those
            Features and their counts; a sequence has one item for each view.
        y : str, bool or int
            The label. Other hashable labels work too, but only these and float can be saved.
        w : float, default 1.0
            The weight of the message, >= 0.
        feedback : {"all", "errors"}, default None
            Which messages get labels: all of them, or only those that were predicted wrongly. None
            to infer it from the mistakes (`SelectiveFeedback`). Models that do not recalibrate
            ignore it.

        Raises
        ------
        TypeError
            If `x` is not a message.
        ValueError
            If a count or the weight is not a finite number >= 0, or `feedback` is another word.
            The model is then unchanged.
        """
        self.receipt = self.learn(x, y, w, check_feedback(feedback))

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one` with the same arguments, exactly if weights are integers.

        A class whose messages were all unlearned remains in `labels`, with probability 0.

        Parameters
        ----------
        x, y, w
            The arguments of `learn_one`.
        receipt : Receipt, default None
            The value of `receipt` right after learning. Models whose messages do not all have the
            same weight need it: discriminative ones, those with decay, and several views. If it is
            given, `w` is ignored.

        Raises
        ------
        ValueError
            If this was never learned (a count would fall below zero), or a receipt is missing.
            The model is then unchanged. With decay, and after features were evicted
            (`max_features`), at most the remaining counts are subtracted, without an error.
        """
        with self.lock:
            if receipt is None:
                if self._needs_receipt:
                    raise ValueError(
                        "to unlearn, this model needs the receipt: keep `model.receipt` after "
                        "learn_one"
                    )
                receipt = self._default_receipt(w)
            self.unlearn(x, y, receipt)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages, one after the other.

        Parameters
        ----------
        X : iterable of messages, matrix or frame
            A row of a matrix or frame is a message; its columns are features.
        y : sequence
            The labels.
        w : float or sequence of float, default None
            The weights; None for 1.

        Raises
        ------
        TypeError, ValueError
            As `learn_one`, and if lengths differ. The model is then unchanged.
        """
        if is_matrix(X):
            rows = Rows.from_matrix(X, True, canonical=False)
            rows.check_counts()
            X = rows.messages()
        messages = [self.as_tokens(x) for x in X]
        labels = as_labels(y)
        check_labels(labels)
        if len(messages) != len(labels):
            raise ValueError(f"{len(messages)} examples, but {len(labels)} labels")
        weights = as_weights(w, len(labels)).tolist()
        with self.lock:
            for message, label, weight in zip(messages, labels, weights, strict=True):
                self.learn_one(message, label, weight)

    @property
    def _needs_receipt(self) -> bool:
        """Return whether unlearning needs the receipt."""
        return True

    def _default_receipt(self, w: float) -> Receipt:
        """Return the receipt of a message of weight `w` that was learned without keeping it."""
        raise NotImplementedError

    def _is_taught(self) -> bool:
        return "counts" in vars(self) and any(vars(self)["counts"].weights)

    # Explanations

    def explain_views(self, x: Any) -> list[Explanation]:
        """Return an explanation for each view: the contribution of each feature to each class.

        The scores of the views add up to those of the message.
        """
        raise NotImplementedError

    def explain_one(self, x: Any) -> Explanation:
        """Return the contribution of each feature of a message to the score of each class.

        If there are several views, a feature is named by the pair of view index and feature.
        """
        with self.lock:
            views = self.explain_views(x)
        if len(views) == 1:
            return views[0]
        contributions: dict[Feature, dict[Label, float]] = {
            (view_index, feature): by_class
            for view_index, view in enumerate(views)
            for feature, by_class in view.contributions.items()
        }
        return Explanation.summed(views, contributions)

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        messages = Rows.from_matrix(X, True, canonical=False).messages() if is_matrix(X) else X
        scores = [self._scores(x) for x in messages]
        return np.array(scores, dtype=float).reshape(len(scores), len(self.labels))

    # State other than the counts

    def state(self) -> dict[str, Any]:
        """Return what was learned besides the counts, as JSON values."""
        return {}

    def restore(self, state: Any) -> None:
        """Set the state that `state` returned; raise any exception if it is damaged."""

    @property
    def messages_in_runs(self) -> float:
        """Number of messages learned in runs of one class; 0 if the order makes no difference."""
        return 0.0

    def reliability_counts(self, y: Label) -> tuple[int, int] | None:
        """Return how many predictions of a class were right and wrong.

        Predictions count before their messages are learned. Return None if the model does not
        count them.
        """
        return None

    def is_ready(self, y: Label) -> bool:
        """Return whether predictions of a class were reliable enough to act on without review."""
        return True

    def deltas_since(self, before: Any) -> dict[str, Any]:
        """Return the deltas of a receipt that lead from the state of another model to this one."""
        return {}

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError if a receipt does not fit this model's views or its classes."""
        if len(receipt.view_weights) != len(self.view_models):
            raise ValueError(
                f"the receipt has {len(receipt.view_weights)} views, the model has "
                f"{len(self.view_models)}"
            )
        if receipt.deltas:
            raise ValueError(
                f"the receipt has changes of {', '.join(sorted(receipt.deltas))}, "
                "which this model does not have"
            )

    def remap_classes(self, receipt: Receipt, order: Sequence[int | None]) -> Receipt:
        """Return a receipt for other class indices: class k was `order[k]`, or is new if None."""
        return receipt

    def check_storable(self) -> None:
        """Raise ValueError if the model cannot be kept in a database."""
        for model in self.view_models:
            if model.track_values:
                raise ValueError(f"a {type(model).__name__} cannot be kept in a database")
            if model.decay != 1:
                raise ValueError("a model with decay < 1 cannot be kept in a database")
            if model.max_features is not None:
                raise ValueError(
                    "a model with max_features cannot be kept in a database; "
                    "compact the database instead"
                )

    # Files

    def to_header(self) -> dict[str, Any]:
        """Return the model without its counts, as JSON values."""
        return {
            "model": type(self).__name__,
            "view_models": [model.view_header() for model in self.view_models],
            "key": _core.DEFAULT_KEY.hex(),
            **self.state(),
        }

    def reordered_header(self, order: Sequence[int]) -> dict[str, Any]:
        """Return `to_header` for other class indices: class k was `order[k]`."""
        return self.to_header()

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> TextModel:
        """Return the model of a header; raise any exception if it is damaged."""
        if header["key"] != _core.DEFAULT_KEY.hex():
            raise ValueError("its features were hashed with another key")
        classes = SaveLoadMixin.saved_classes
        view_models = [
            classes[described["model"]].from_view_header(described)
            for described in header["view_models"]
        ]
        model: TextModel = classes[header["model"]]._from_view_models(view_models, header)
        model.restore(header)
        return model

    @classmethod
    def _from_view_models(cls, view_models: list[Any], header: Mapping[str, Any]) -> Self:
        """Return a model of these view models; raise any exception if they do not fit."""
        raise NotImplementedError

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header = self.to_header()
        arrays: dict[str, Any] = {}
        pairs = zip(header["view_models"], self.view_models, strict=True)
        for view_index, (described, model) in enumerate(pairs):
            if not isinstance(model.counts, MemoryCounts):
                raise OutputError("only counts in memory are written to a model file")
            sizes, view_arrays = model.counts.file_parts()
            described.update(sizes)
            arrays |= {f"{view_index}.{name}": array for name, array in view_arrays.items()}
        return header, arrays

    @classmethod
    def _from_file(cls, header: Any, array: ReadArray) -> Self:
        model = cls.from_header(header)
        if not isinstance(model, cls):
            raise TypeError("not a text model")
        pairs = zip(header["view_models"], model.view_models, strict=True)
        for view_index, (described, view_model) in enumerate(pairs):
            prefix = f"{view_index}."
            counts = MemoryCounts(view_model.keep_names, view_model.track_values)
            counts.load(
                described,
                lambda name, *args, prefix=prefix, **kwargs: array(prefix + name, *args, **kwargs),
            )
            view_model.counts = counts
        if any(view_model.counts.labels != model.labels for view_model in model.view_models):
            raise ValueError("the views have different classes")
        return model


def round_to_grid(factor: float) -> float:
    """Return the nearest multiple of 2^-10: sums of such factors are exact."""
    return round(factor / _GRID) * _GRID


class PriorError(ConfigError, ValueError):
    """A class prior without a share for a class."""


def check_prior(prior: Prior, labels: Iterable[Label]) -> None:
    """Raise PriorError if a prior that is a mapping has no share for one of the classes.

    It may name further classes, which are perhaps yet to come.
    """
    if not isinstance(prior, Mapping):
        return
    missing = next((label for label in labels if label not in prior), None)
    if missing is None:
        return
    hint = "give each class a share"
    near = difflib.get_close_matches(str(missing), map(str, prior), n=1)
    if near:
        hint = f"did you mean {str(missing)!r} instead of {near[0]!r}?"
    elif isinstance(missing, str) and not any(isinstance(label, str) for label in prior):
        hint = "a label that is text must be quoted in YAML (yes, no, on, off, 1)"
    named = ", ".join(f"{label!r:.80}" for label in list(prior)[:20])
    raise PriorError(f"prior: no share for class {missing!r:.80}, only for {named}; {hint}")


def log_prior(prior: Prior, labels: list[Label], weights: list[float]) -> list[float]:
    """Return the log prior of each class, shape (K,).

    Parameters
    ----------
    prior : str or mapping
        "learned", "uniform", "none", or a mapping of labels to shares.
    labels : list
        The K classes.
    weights : list of float
        Weight of the messages learned of each class. A class of weight 0 has the prior -inf,
        unless a mapping gives it another or nothing was learned at all.

    Raises
    ------
    ValueError
        If a mapping has no share for one of the classes.
    """
    check_prior(prior, labels)
    has_messages = [weight > 0 for weight in weights]
    if not any(has_messages):
        has_messages, weights = [True] * len(labels), [1.0] * len(labels)
    if prior == "none":
        return [0.0 if is_seen else -math.inf for is_seen in has_messages]
    if isinstance(prior, Mapping):
        shares = [float(prior[label]) for label in labels]
    else:
        shares = weights if prior == "learned" else [float(is_seen) for is_seen in has_messages]
    total = math.fsum(shares)
    if total == 0:  # every class so far has a share of 0: uniform
        return [0.0] * len(labels)
    return [_core.log(share / total) for share in shares]


DECAY = parameter(
    Number(0.5, 1),
    "teaching",
    "Factor by which all counts are multiplied after each message; 1 for no decay.",
    default=1.0,
)
MAX_FEATURES = parameter(
    Integer(1, none=True),
    "teaching",
    "Maximum number of features of each view, for streams without an end; None for no limit. When "
    "there are more, those with the smallest total count are removed until three quarters of the "
    "limit are left.",
    default=None,
)
LENGTH_NORM_POWER = "Power of the number of features in the length normalisation, from 0 to 2."


@parameter_class(kw_only=True)
class LearnerParameters:
    """Parameters of every counting model that are passed by name."""

    length_norm: float | None = parameter(
        Number(MIN_POSITIVE, none=True),
        "formula",
        "Length normalisation: log-likelihoods are divided by this times a power of the number of "
        "distinct features with a count; None for no normalisation. Words depend on each other, "
        "so long messages have too extreme scores without it.",
        default=None,
    )
    length_norm_power: float = parameter(Number(0, 2), "formula", LENGTH_NORM_POWER, default=0.5)
    decay: float = DECAY
    max_features: int | None = MAX_FEATURES
    keep_names: bool = parameter(
        Boolean(), "counts", "Store the names of features, so that they can be shown.", default=True
    )


@parameter_class()
class CountingParameters(LearnerParameters):
    """Parameters of every counting model: alpha, prior and unseen also by position."""

    alpha: float = parameter(
        POSITIVE, "formula", "Additive (Laplace, Lidstone) smoothing.", default=1.0
    )
    prior: Prior = parameter(
        ClassPrior(),
        "formula",
        'Class prior: "learned" (proportional to the weight learned), "uniform", or a dict of '
        "labels to shares, which need not sum to 1.",
        default="learned",
    )
    unseen: str = parameter(
        Choice(("ignore", "smooth")),
        "formula",
        'Features without a count: "ignore" them, or "smooth" their count of zero.',
        default="ignore",
    )


CacheEntry = TypeVar("CacheEntry")


class LastResultCache(Generic[CacheEntry]):
    """Cache of the last result: a message is often classified and then learned."""

    _cache: CacheEntry | None = None
    _params_version: int = 0  # changes with every parameter; counts have a version of their own


_LogLikelihoods = tuple[TokenCounts, Counts, tuple[int, int, float], tuple[float, ...]]


@parameter_class()
class CountingNB(LastResultCache[_LogLikelihoods], CountingParameters, MiniBatchMixin, TextModel):
    """Base class of Naive Bayes models over a table of counts.

    A subclass defines the weight of a feature given its counts (`_feature_weights`) and, if a
    message without features has one, a log-likelihood to begin with (`_empty_log_likelihoods`).
    The state is the counts alone.

    X of many messages is a scipy sparse matrix or array with any index type, a dense matrix, or a
    pandas, polars or pyarrow frame. Column i of a matrix is the feature i, so
    `model.learn_one({3: 1}, y)` counts in column 3. A column of a frame is the feature of its name.
    New columns and new classes can come at any time.
    """

    counts: Counts = attribute(init=False)
    receipt: Receipt | None = attribute(init=False)
    discriminative = False

    track_values: ClassVar[bool] = False
    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock", "_cache")
    smoothing_scale: float = 1.0  # factor of alpha while `system_log_likelihoods` computes a system

    def __post_init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.counts = MemoryCounts(self.keep_names, self.track_values)
        self.receipt = None

    def _check_change(self, name: str, value: Any) -> None:
        if name == "prior" and "counts" in vars(self):
            check_prior(value, self.counts.labels)

    def _changed(self, name: str) -> None:
        self._params_version += 1
        counts = vars(self).get("counts")
        if name == "keep_names" and isinstance(counts, MemoryCounts):  # nothing was learned yet
            self.counts = MemoryCounts(self.keep_names, self.track_values)
            self.counts.add_classes(counts.labels)
        if name == "max_features" and counts is not None:
            self._evict()

    @property
    def view_models(self) -> list[CountingNB]:
        """The model itself: a message has one view."""
        return [self]

    def as_tokens(self, x: Any) -> TokenCounts:
        """Convert a message to TokenCounts."""
        return x if isinstance(x, TokenCounts) else TokenCounts.from_dict(x, None, self.keep_names)

    def views_of(self, tokens: TokenCounts) -> tuple[TokenCounts, ...]:
        """Return the one view."""
        return (tokens,)

    def join_views(self, views: tuple[TokenCounts, ...]) -> TokenCounts:
        """Return the message of one view."""
        (view,) = views
        return view

    # The formula

    @property
    def _smoothing(self) -> float:
        """Return alpha in the unit of the counts, which decay changes."""
        return self.alpha * self.counts.scale * self.smoothing_scale

    def _feature_weights(self, cells: Floats) -> Floats:
        """Return what one occurrence of each feature adds to each class, (n, K), given counts."""
        raise NotImplementedError

    def _empty_log_likelihoods(self) -> list[float]:
        """Return the log-likelihood of a message without features for each class, (K,)."""
        return [0.0] * len(self.counts.labels)

    def _unseen_weights(self) -> list[float]:
        """Return what one occurrence of a feature without a count adds to each class, (K,)."""
        zeros = np.zeros((1, len(self.counts.labels)))
        return self._feature_weights(zeros)[0].tolist()

    def _log_prior(self) -> list[float]:
        return log_prior(self.prior, self.counts.labels, self.counts.weights)

    def _weights_of(self, fingerprints: Keys) -> tuple[Floats, NDArray[np.uint8] | None]:
        """Return the weights (n, K) of features, and which of them count (None: all)."""
        cells, is_seen = self.counts.get_counts(fingerprints)
        weights = self._feature_weights(cells)
        if self.unseen == "ignore":
            return weights, is_seen
        weights[is_seen == 0] = self._unseen_weights()
        return weights, None

    def _sums(self, tokens: TokenCounts) -> tuple[list[float], int]:
        """Return the log-likelihoods without length normalisation, and the features they are of."""
        weights, is_seen = self._weights_of(tokens.fingerprints)
        sums, used = _core.weighted_sums(tokens.counts, weights, is_seen)
        pairs = zip(self._empty_log_likelihoods(), sums, strict=True)
        return [start + total for start, total in pairs], used

    def _length_divisor(self, used: int) -> float:
        """Return the divisor of the log-likelihoods of `used` distinct features."""
        if not self.length_norm or not used:
            return 1.0
        if self.length_norm_power == 0.5:
            return self.length_norm * math.sqrt(used)
        return self.length_norm * _core.exp(self.length_norm_power * _core.log(used))

    def log_likelihoods(self, x: Any) -> list[float]:
        """Return the length-normalised log-likelihood of each class, without the prior, (K,).

        The result for the last `TokenCounts` is cached.
        """
        entry, counts = self._cache, self.counts
        version = (counts.version, self._params_version, self.smoothing_scale)
        if entry is not None and entry[0] is x and entry[1] is counts and entry[2] == version:
            return list(entry[3])
        result = self.compute_log_likelihoods(self.as_tokens(x))
        if type(x) is TokenCounts:
            object.__setattr__(self, "_cache", (x, counts, version, tuple(result)))
        return result

    def system_log_likelihoods(
        self, tokens: TokenCounts, factors: Sequence[float]
    ) -> list[list[float]]:
        """Return the log-likelihoods of each class for each of several factors of alpha."""
        systems = []
        try:
            for factor in factors:
                object.__setattr__(self, "smoothing_scale", factor)
                systems.append(self.compute_log_likelihoods(tokens))
        finally:
            object.__setattr__(self, "smoothing_scale", 1.0)
        return systems

    def compute_log_likelihoods(self, tokens: TokenCounts) -> list[float]:
        """Compute `log_likelihoods` without the cache."""
        sums, used = self._sums(tokens)
        if not self.length_norm or not used:
            return sums
        return _core.divide(sums, self._length_divisor(used))

    def _scores(self, x: Any) -> list[float]:
        pairs = zip(self._log_prior(), self.log_likelihoods(x), strict=True)
        return [prior + log_likelihood for prior, log_likelihood in pairs]

    # Learning

    def update_weight(self, residual: float, trust: float) -> float:
        """Return the factor by which the counts of a message are multiplied.

        Parameters
        ----------
        residual : float
            1 - P(y | x), before the message is learned.
        trust : float
            The probability that the label is correct.
        """
        return round_to_grid(trust)

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message and return the receipt that `unlearn` needs."""
        check_prior(self.prior, (y,))
        tokens = self.as_tokens(x)
        weight = 1.0 if w == 1 else checked_weight(w)
        with self.lock:
            halvings, class_weight, view_weight = self.add(
                tokens, y, weight, self._next_update_weight(tokens, y)
            )
        return Receipt(halvings, class_weight, (view_weight,))

    def _next_update_weight(self, tokens: TokenCounts, y: Label) -> float:
        """Return the update weight of a message that is about to be learned."""
        return 1.0

    def add(
        self, tokens: TokenCounts, y: Label, w: float, update_weight: float
    ) -> tuple[int, float, float]:
        """Add a message of weight `w`, with counts multiplied by `w * update_weight`.

        Return decay_halvings, class_weight and view weight for a `Receipt`.
        """
        with self.lock:
            counts = self.counts
            halvings, class_weight = counts.decay_halvings, w * counts.scale
            view_weight = class_weight * update_weight
            counts.add(tokens, y, view_weight, class_weight)
            if self.decay != 1:
                counts.decay(self.decay)
            self._evict()
            return halvings, class_weight, view_weight

    def _evict(self) -> None:
        """Remove the rarest features if there are more than `max_features`."""
        if self.max_features is not None:
            self.counts.evict(self.max_features)

    def subtract(
        self, tokens: TokenCounts, y: Label, receipt: Receipt, view_weight: float
    ) -> tuple[TokenCounts, Label, float, float]:
        """Undo `add`. Return what was subtracted, as arguments of `counts.add`."""
        with self.lock:
            counts = self.counts
            has_decayed = self.decay != 1 or receipt.decay_halvings != counts.decay_halvings
            if not has_decayed and not counts.evictions:
                counts.subtract(tokens, y, view_weight, receipt.class_weight)
                return tokens, y, view_weight, receipt.class_weight
            # Decay rounds, and drops what is too small. Evicted features may have come again. So at
            # most the rest can be subtracted.
            class_index = counts.index(y)
            if class_index is None:
                raise ValueError(f"cannot unlearn: no message of class {y!r:.80} was learned")
            factor = self._decay_since(receipt)
            cells, _ = counts.get_counts(tokens.fingerprints)
            amounts = np.minimum(tokens.counts * (view_weight * factor), cells[:, class_index])
            is_left = amounts > 0
            remaining = TokenCounts.unchecked(
                tokens.fingerprints[is_left], amounts[is_left], None, None
            )
            class_weight = receipt.class_weight * factor
            if has_decayed:
                class_weight = min(class_weight, counts.weights[class_index])
            counts.subtract(remaining, y, 1.0, class_weight)
            return remaining, y, 1.0, class_weight

    def _decay_since(self, receipt: Receipt) -> float:
        """Return the factor by which rescaling changed the numbers of a receipt."""
        return float(2.0 ** (receipt.decay_halvings - self.counts.decay_halvings))

    def add_back(self, tokens: TokenCounts, y: Label, receipt: Receipt, view_weight: float) -> None:
        """Undo `subtract`."""
        with self.lock:
            factor = self._decay_since(receipt)
            self.counts.add(tokens, y, view_weight * factor, receipt.class_weight * factor)
            self._evict()

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt; raise ValueError and change nothing if they are absent."""
        self.subtract(self.as_tokens(x), y, receipt, receipt.view_weights[0])

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt again, exactly: the inverse of `unlearn`."""
        with self.lock:
            self.add_back(self.as_tokens(x), y, receipt, receipt.view_weights[0])

    @property
    def order_dependence_reason(self) -> str:
        """Return why the result depends on the order of messages, or "" if it does not."""
        reason = super().order_dependence_reason
        if not reason and self.decay != 1:
            reason = f"with decay={self.decay:g} the result depends on the order; set decay=1"
        if not reason and self.max_features is not None:
            reason = (
                f"with max_features={self.max_features} the result depends on the order; "
                "set max_features=None"
            )
        return reason

    @property
    def _needs_receipt(self) -> bool:
        counts = self.counts
        has_decayed = self.decay != 1 or counts.scale != 1 or counts.decay_halvings > 0
        return self.discriminative or has_decayed

    def _default_receipt(self, w: float) -> Receipt:
        weight = checked_weight(w)
        return Receipt(self.counts.decay_halvings, weight, (weight,))

    # Many messages

    @property
    def _threshold(self) -> float:
        """Return the value above which a feature is present; NaN if values are counts."""
        return math.nan

    def _learn_rows(self, X: Any, y: Any, w: Any, classes: Iterable[Label] = ()) -> None:
        is_signed = not math.isnan(self._threshold)
        rows = Rows.from_matrix(X, self.keep_names, canonical=is_signed)
        labels = as_labels(y)
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} examples, but {len(labels)} labels")
        weights = as_weights(w, len(rows))
        distinct = list(dict.fromkeys(labels))
        check_prior(self.prior, [*classes, *distinct])
        class_indices = {label: k for k, label in enumerate(distinct)}
        columns = np.array([class_indices[label] for label in labels], dtype=np.int64)
        sums, bad_entry = _core.column_sums(
            rows.indptr,
            rows.indices,
            rows.data,
            columns,
            weights,
            len(rows.features),
            len(distinct),
            self._threshold,
        )
        rows.check(bad_entry, is_signed)
        class_weights = np.bincount(columns, weights, len(distinct)).tolist()
        self.counts.add_classes([*classes, *distinct])
        most = self.counts.features + len(rows.features)
        is_bounded = self.max_features is not None and most > self.max_features
        if self.discriminative or self.decay != 1 or is_bounded:
            for row, label, weight in zip(rows.messages(), labels, weights.tolist(), strict=True):
                self.learn_one(row, label, weight)
        else:
            self.counts.add_matrix(rows.features, sums, distinct, class_weights)

    def _score_rows(self, X: Any) -> Floats:
        """Return joint log-likelihoods (n, K), each row bit for bit that of `_scores`."""
        rows = Rows.from_matrix(X, False, canonical=True)
        weights, is_seen = self._weights_of(rows.features.fingerprints)
        sums, used, bad_entry = _core.row_sums(
            rows.indptr, rows.indices, rows.data, weights, is_seen, self._threshold
        )
        rows.check(bad_entry, not math.isnan(self._threshold))
        scores = np.array(self._empty_log_likelihoods()) + sums
        if self.length_norm:
            scores /= np.array([self._length_divisor(int(n)) for n in used])[:, None]
        return np.array(self._log_prior()) + scores

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages.

        Parameters
        ----------
        X : matrix, frame or list of messages
            A row of a matrix or frame is a message.
        y : sequence
            The labels.
        w : float or sequence of float, default None
            The weights; None for 1.
        """
        X = as_list(X)
        (TextModel if are_messages(X) else MiniBatchMixin).learn_many(self, X, y, w)

    # Merging

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if another model counts other things."""
        if type(other) is not type(self):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")
        for name, declared in self.parameter_table.items():
            matters = (declared.role == "counts" and name != "keep_names") or name == "decay"
            if matters and getattr(self, name) != getattr(other, name):
                raise ValueError(f"cannot merge: the models differ in {name}")
        self.counts.check_merge(other.counts)

    def _merge(self, other: Self) -> None:
        self.counts.merge(other.counts)
        self._evict()

    # Explanations

    def explain_views(self, x: Any) -> list[Explanation]:
        """Return the contribution of each feature of a message to each class.

        Examples
        --------
        >>> from streamnb import MultinomialNB
        >>> model = MultinomialNB()
        >>> model.learn_one({"free": 2, "now": 1}, "spam")
        >>> model.learn_one({"lunch": 1, "now": 1}, "ham")
        >>> explanation = model.explain_one({"free": 1, "lunch": 1, "moon": 1})
        >>> [(word, round(gain, 3)) for word, gain in explanation.top_features("spam")]
        [('free', 0.916), ('lunch', -0.875)]
        """
        return [self.explain_tokens(self.as_tokens(x), self._log_prior())]

    def explain_tokens(self, tokens: TokenCounts, log_prior: list[float]) -> Explanation:
        """Return the explanation of a message, given the log prior of each class."""
        labels = self.counts.labels
        weights, is_seen = self._weights_of(tokens.fingerprints)
        is_used = np.ones(len(tokens), bool) if is_seen is None else is_seen.astype(bool)
        divisor = self._length_divisor(int(is_used.sum()))
        cells = tokens.counts[:, None] * weights / divisor
        base = [
            prior + start / divisor
            for prior, start in zip(log_prior, self._empty_log_likelihoods(), strict=True)
        ]
        used = np.flatnonzero(is_used)
        contributions = Contributions(tokens, used, list(labels), cells[used])
        pairs = zip(log_prior, self.compute_log_likelihoods(tokens), strict=True)
        scores = [prior + log_likelihood for prior, log_likelihood in pairs]
        return Explanation(
            dict(zip(labels, scores, strict=True)),
            dict(zip(labels, base, strict=True)),
            contributions,
        )

    def feature_counts(self, feature: Feature) -> dict[Label, float]:
        """Return the count of a feature in each class, by the feature's name."""
        return self.class_counts(_core.fingerprint(feature))

    def class_counts(self, fingerprint: int) -> dict[Label, float]:
        """Return the count of a feature in each class, by the feature's fingerprint."""
        with self.lock:
            cells, _ = self.counts.get_counts(np.array([fingerprint], dtype=np.uint64))
            values = (cells[0] / self.counts.scale).tolist()
            return dict(zip(self.counts.labels, values, strict=True))

    def top_features(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """Return the n features with the largest log-odds for a class.

        Parameters
        ----------
        label : str, bool or int
            A class of the model.
        n : int, default 10
            Maximum number of features.

        Returns
        -------
        list
            Pairs of name and log-odds, the largest first. The log-odds are what one occurrence
            adds to the class, less what it adds to the best other class. A feature whose name was
            not stored is named "#" and its fingerprint.

        Raises
        ------
        ValueError
            If the model has no such class.
        """
        (features,) = self.top_fingerprints((label,), n)
        return [(self.display_name(fingerprint), gain) for fingerprint, gain in features]

    def top_fingerprints(
        self, labels: Sequence[Label], n: int = 10
    ) -> list[list[tuple[int, float]]]:
        """Return `top_features` of each of several classes, with fingerprints instead of names."""
        with self.lock:
            columns = []
            for label in labels:
                class_index = self.counts.index(label)
                if class_index is None:
                    raise ValueError(
                        f"no message of class {label!r:.80} was learned; the classes are "
                        f"{', '.join(map(repr, self.labels[:20]))}"
                    )
                columns.append(class_index)
            top = TopFeatures(len(labels), n)
            for fingerprints, weights in self._all_feature_weights():
                top.add(fingerprints, margin_over_runner_up(weights)[:, columns])
        return top.result()

    def _all_feature_weights(self) -> Iterator[tuple[Keys, Floats]]:
        """Yield fingerprints (n,) and weights (n, K) of all features, in blocks."""
        for fingerprints, cells in self.counts.parts():
            yield fingerprints, self._feature_weights(cells)

    def display_name(self, fingerprint: int) -> Feature:
        """Return the name of a feature, or "#" and its fingerprint if the name was not stored."""
        name = self.counts.name(int(fingerprint))
        return f"#{fingerprint:016x}" if name is None or not self.keep_names else name

    # Files

    @classmethod
    def _from_view_models(cls, view_models: list[Any], header: Mapping[str, Any]) -> Self:
        (model,) = view_models
        if type(model) is not cls:
            raise ValueError(f"a {type(model).__name__} in the place of a {cls.__name__}")
        return model

    def view_header(self) -> dict[str, Any]:
        """Return class and parameters, as JSON values."""
        return {"model": type(self).__name__, "parameters": parameters_to_json(self)}

    @classmethod
    def from_view_header(cls, header: Mapping[str, Any]) -> Self:
        """Return the model that `view_header` described, without counts."""
        return cls(**parameters_from_json(header["parameters"], cls))
