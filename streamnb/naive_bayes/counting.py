"""Naive Bayes models over a table of counts."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Floats, Keys, Label, checked_weight
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.naive_bayes.counting_parameters import CountingParameters
from streamnb.naive_bayes.explanation import (
    Contributions,
    Explanation,
    TopFeatures,
    margin_over_runner_up,
)
from streamnb.naive_bayes.matrices import (
    Rows,
    are_messages,
    as_list,
    as_weights,
    check_column_names,
    labels_of_rows,
)
from streamnb.naive_bayes.mini_batches import MiniBatchMixin
from streamnb.naive_bayes.priors import check_prior, log_prior
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel
from streamnb.parameters import attribute, parameter_class, parameters_from_json, parameters_to_json

# Update weights are multiples of this step. Their sums are exact, so unlearning is exact. A larger
# step would ignore messages with small update weights; a smaller one would not improve accuracy.
UPDATE_STEP = 2.0**-10
# Numbers of columns of a matrix to look up, and of those of one look-up.
_MAX_COLUMNS, _COLUMN_BLOCK = 1 << 22, 1 << 16


CacheEntry = TypeVar("CacheEntry")


class LastResultCache(Generic[CacheEntry]):
    """Cache of the last result: a message is often classified and then learned."""

    _cache: CacheEntry | None = None
    _params_version: int = 0  # changes with every parameter; counts have their own version


_LogLikelihoods = tuple[TokenCounts, Counts, tuple[int, int], tuple[float, ...]]


@parameter_class()
class CountingNB(LastResultCache[_LogLikelihoods], CountingParameters, MiniBatchMixin, TextModel):
    """Base class of Naive Bayes models over a table of counts.

    A subclass defines the weight of a feature given its counts (`_feature_weights`). It can also
    define the log-likelihood of a message without features (`_empty_log_likelihoods`). Its state
    is only the counts.

    X of many messages is a scipy sparse matrix or array with any index type, a dense matrix, or a
    pandas, polars or pyarrow frame. Column i of a matrix is the feature i, so
    `model.learn_one({3: 1}, y)` counts in column 3. A column of a frame is the feature with its
    name. New columns and new classes can appear at any time.
    """

    counts: Counts = attribute(init=False)
    receipt: Receipt | None = attribute(init=False)
    discriminative = False

    track_values: ClassVar[bool] = False
    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock", "_cache")

    def __post_init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.counts = MemoryCounts(self.keep_names, self.track_values)
        self.receipt = None

    def _check_change(self, name: str, value: Any) -> None:
        if name == "prior" and "counts" in vars(self):
            check_prior(value, self.counts.labels)

    def _on_change(self, name: str) -> None:
        self._params_version += 1
        counts = vars(self).get("counts")
        if name == "keep_names" and isinstance(counts, MemoryCounts):  # before the first message
            self.counts = MemoryCounts(self.keep_names, self.track_values)
            self.counts.add_classes(counts.labels)
        if name == "max_features" and counts is not None:
            self._evict()

    @property
    def view_models(self) -> list[CountingNB]:
        """The model itself, because a message has one view."""
        return [self]

    def as_tokens(self, x: Any) -> TokenCounts:
        """Convert a message to TokenCounts."""
        return x if isinstance(x, TokenCounts) else TokenCounts.from_dict(x, None, self.keep_names)

    def views_of(self, tokens: TokenCounts) -> tuple[TokenCounts, ...]:
        """Return a tuple of the message alone, because this model has one view."""
        return (tokens,)

    def join_views(self, views: tuple[TokenCounts, ...]) -> TokenCounts:
        """Return the message: its only view, because this model has one view."""
        (view,) = views
        return view

    # The formula

    # `factor` multiplies alpha: the systems of `ViewsNB` use the same counts with several alphas.

    def _smoothing(self, factor: float = 1.0) -> float:
        """Return `factor` times alpha in the unit of the counts (decay changes the unit)."""
        return self.alpha * self.counts.scale * factor

    def _feature_weights(self, cells: Floats, factor: float = 1.0) -> Floats:
        """Return the term that one occurrence of each feature adds to each class, (n, K)."""
        raise NotImplementedError

    def _empty_log_likelihoods(self, factor: float = 1.0) -> list[float]:
        """Return the log-likelihood of a message without features for each class, (K,)."""
        return [0.0] * len(self.counts.labels)

    def _unseen_weights(self, factor: float = 1.0) -> list[float]:
        """Return the term that one occurrence of an unseen feature adds to each class, (K,)."""
        zeros = np.zeros((1, len(self.counts.labels)))
        return self._feature_weights(zeros, factor)[0].tolist()

    def _log_prior(self) -> list[float]:
        return log_prior(self.prior, self.counts.labels, self.counts.weights)

    def _weights_of(
        self, fingerprints: Keys, factor: float = 1.0
    ) -> tuple[Floats, NDArray[np.uint8] | None]:
        """Return the weights (n, K) of features, and a mask of those that are used (None: all)."""
        cells, is_seen = self.counts.get_counts(fingerprints)
        weights = self._feature_weights(cells, factor)
        if self.unseen == "ignore":
            return weights, is_seen
        weights[is_seen == 0] = self._unseen_weights(factor)
        return weights, None

    def _sums(self, tokens: TokenCounts, factor: float = 1.0) -> tuple[Sequence[float], int]:
        """Return log-likelihoods without length normalisation, and the number of features used."""
        weights, is_seen = self._weights_of(tokens.fingerprints, factor)
        sums, used = _core.weighted_sums(tokens.counts, weights, is_seen)
        pairs = zip(self._empty_log_likelihoods(factor), sums, strict=True)
        return [start + total for start, total in pairs], used

    def _length_divisor(self, used: int) -> float:
        """Return the divisor of the log-likelihoods of `used` distinct features."""
        return _core.length_divisor(self.length_norm or 0.0, used, self._length_power())

    def _length_power(self) -> float:
        return self.length_norm_power

    def log_likelihoods(self, x: Any) -> list[float]:
        """Return the length-normalised log-likelihood of each class, without the prior, (K,).

        The result for the last `TokenCounts` is cached.
        """
        entry, counts = self._cache, self.counts
        version = (counts.version, self._params_version)
        if entry is not None and entry[0] is x and entry[1] is counts and entry[2] == version:
            return list(entry[3])
        result = self.compute_log_likelihoods(self.as_tokens(x))
        if type(x) is TokenCounts:
            object.__setattr__(self, "_cache", (x, counts, version, tuple(result)))
        return result

    def system_log_likelihoods(self, tokens: TokenCounts, factors: list[float]) -> array[float]:
        """Return the log-likelihoods (factors, K) for several factors of alpha."""
        by_factor = (self.compute_log_likelihoods(tokens, factor) for factor in factors)
        return array("d", chain.from_iterable(by_factor))

    def compute_log_likelihoods(self, tokens: TokenCounts, factor: float = 1.0) -> list[float]:
        """Compute `log_likelihoods` without the cache, with `factor` times alpha."""
        sums, used = self._sums(tokens, factor)
        divisor = self._length_divisor(used)
        return [total / divisor for total in sums]

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
        return _core.round_to(UPDATE_STEP, trust)

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message and return the receipt that `unlearn` needs."""
        self.check_classes((y,))
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
            if self.max_features is not None:
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
            # Decay rounds counts and drops small ones; evicted features may have been learned
            # again. So the subtraction is limited to the remaining counts.
            class_index = counts.index(y)
            if class_index is None:
                raise ValueError(f"cannot unlearn: no message of class {y!r:.80} was learned")
            factor = self._decay_since(receipt)
            cells, _ = counts.get_counts(tokens.fingerprints)
            amounts = np.minimum(tokens.counts * (view_weight * factor), cells[:, class_index])
            is_left = amounts > 0
            present = tokens.select(is_left)
            remaining = TokenCounts.unchecked(
                present.fingerprints, amounts[is_left], present.names, present.ends
            )
            class_weight = receipt.class_weight * factor
            if has_decayed:
                class_weight = min(class_weight, counts.weights[class_index])
            counts.subtract(remaining, y, 1.0, class_weight)
            return remaining, y, 1.0, class_weight

    def _decay_since(self, receipt: Receipt) -> float:
        """Return the factor by which decay changed the counts of a receipt since it was made."""
        return float(2.0 ** (receipt.decay_halvings - self.counts.decay_halvings))

    def add_back(self, tokens: TokenCounts, y: Label, receipt: Receipt, view_weight: float) -> None:
        """Undo `subtract`."""
        with self.lock:
            factor = self._decay_since(receipt)
            self.counts.add(tokens, y, view_weight * factor, receipt.class_weight * factor)
            self._evict()

    def unlearn_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt that `check_receipt` accepted, as `unlearn` does."""
        self.subtract(self.as_tokens(x), y, receipt, receipt.view_weights[0])

    def reapply_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt that `check_receipt` accepted, as `reapply` does."""
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
        """Learn the rows of a matrix or frame, with one update of the counts if possible."""
        is_signed = not math.isnan(self._threshold)
        rows = Rows.from_matrix(X, self.keep_names, canonical=is_signed)
        self._check_columns(rows, is_learning=True)
        labels = labels_of_rows(y, len(rows))
        weights = as_weights(w, len(rows))
        distinct = list(dict.fromkeys(labels))
        self.check_classes([*classes, *distinct])
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

    def _check_columns(self, rows: Rows, is_learning: bool) -> None:
        """Raise ValueError if columns have names and the learned ones numbers, or the reverse."""
        counts = self.counts
        if not counts.features or not len(rows.features):
            return
        has_known = bool(counts.get_counts(rows.features.fingerprints)[0].any())
        has_numbers = not has_known and self._has_learned_numbers(rows.width)
        has_known |= has_numbers and not rows.is_named
        is_part = rows.columns is not None  # the other columns may be known
        check_column_names(
            self, rows.is_named, rows.is_numbered, has_known, has_numbers, is_learning or is_part
        )

    def _has_learned_numbers(self, width: int) -> bool:
        """Return whether one of `width` columns was learned by its number; True if unknown."""
        for start in range(0, min(width, _MAX_COLUMNS), _COLUMN_BLOCK):
            numbers = np.arange(start, min(start + _COLUMN_BLOCK, width), dtype=np.int64)
            if self.counts.get_counts(_core.fingerprint_columns(numbers))[0].any():
                return True
        return width > _MAX_COLUMNS

    def _score_rows(self, X: Any) -> Floats:
        """Return joint log-likelihoods (n, K); each row equals the result of `_scores` exactly."""
        rows = Rows.from_matrix(X, False, canonical=True)
        self._check_columns(rows, is_learning=False)
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
        """Raise ValueError if another model cannot be merged into this one."""
        super().check_merge(other)
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
        with self.lock:
            return [self.explain_tokens(self.as_tokens(x), self._log_prior())]

    def explain_tokens(
        self, tokens: TokenCounts, log_prior: list[float], factor: float = 1.0
    ) -> Explanation:
        """Return the explanation of a message, with this log prior and `factor` times alpha."""
        labels = self.counts.labels
        contributions, divisor = self.token_contributions(tokens, factor)
        base = [
            prior + start / divisor
            for prior, start in zip(log_prior, self._empty_log_likelihoods(factor), strict=True)
        ]
        pairs = zip(log_prior, self.compute_log_likelihoods(tokens, factor), strict=True)
        scores = [prior + log_likelihood for prior, log_likelihood in pairs]
        return Explanation(
            dict(zip(labels, scores, strict=True)),
            dict(zip(labels, base, strict=True)),
            contributions,
        )

    def token_contributions(
        self, tokens: TokenCounts, factor: float = 1.0
    ) -> tuple[Contributions, float]:
        """Return the contributions of a message's features, and the length divisor they include."""
        weights, is_seen = self._weights_of(tokens.fingerprints, factor)
        used = np.arange(len(tokens)) if is_seen is None else is_seen.nonzero()[0]
        divisor = self._length_divisor(len(used))
        # `take` is faster than an index for few features.
        cells = tokens.counts.take(used)[:, None] * weights.take(used, axis=0) / divisor
        return Contributions(tokens, used, list(self.counts.labels), cells), divisor

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
            Pairs of name and log-odds, the largest first. Each occurrence of a feature adds
            a term to the score of each class. The log-odds are the difference of this class's term
            and the largest term of another class. The name of a
            feature without a stored name is "#" and its fingerprint.

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
            raise ValueError(f"found a {type(model).__name__}, expected a {cls.__name__}")
        return model

    def view_header(self) -> dict[str, Any]:
        """Return class and parameters, as JSON values."""
        return {"model": type(self).__name__, "parameters": parameters_to_json(self)}

    @classmethod
    def from_view_header(cls, header: Mapping[str, Any]) -> Self:
        """Return the model that `view_header` described, without counts."""
        return cls(**parameters_from_json(header["parameters"], cls))
