"""What all counting models share: learning is adding, predicting is a formula over a few counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Counts, Floats, Keys, Label, checked_weight
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.mini_batches import MiniBatchMixin
from streamnb.naive_bayes.prior import log_prior
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.rows import Rows, are_messages, as_labels, as_weights, listed
from streamnb.naive_bayes.strongest import TopFeatures, margin_over_runner_up
from streamnb.parameters import (
    MIN_POSITIVE,
    POSITIVE,
    Boolean,
    Choice,
    ClassPrior,
    Number,
    Prior,
    attribute,
    parameter,
    parameter_class,
    parameters_from_json,
    parameters_to_json,
)

# How many times a message is learned is a multiple of this, so that sums are exact and unlearning
# is too; what rounds to nothing need not be learned.
_STEP = 2.0**-10


def round_to_grid(amount: float) -> float:
    """The amount, rounded so that sums of such amounts are exact."""
    return round(amount / _STEP) * _STEP


DECAY = parameter(
    Number(0.5, 1),
    "teaching",
    "How many times as much everything learned so far weighs after each message; 1 forgets "
    "nothing.",
    default=1.0,
)


@parameter_class(kw_only=True)
class LearnerParameters:
    """Parameters of every counting model that must be given by name."""

    length_norm: float | None = parameter(
        Number(MIN_POSITIVE, none=True),
        "formula",
        "Length normalisation: the evidence is divide by this times a power of the number of "
        "distinct features that took part; None for none. Words depend on each other, so a long "
        "message's evidence is counted many times over; this is what lets messages of different "
        "length be ranked together.",
        default=None,
    )
    length_norm_power: float = parameter(
        Number(0, 2), "formula", "The power of the number of features, from 0 to 2.", default=0.5
    )
    decay: float = DECAY
    keep_names: bool = parameter(
        Boolean(), "counts", "Keep the names of features, so that they can be shown.", default=True
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
        '"learned" (the share of the weight learned), "uniform", or a dict of labels to '
        "shares, whatever they add up to.",
        default="learned",
    )
    unseen: str = parameter(
        Choice(("ignore", "smooth")),
        "formula",
        'What a feature that was never learned says: nothing ("ignore"), or what its smoothed '
        'count of zero says ("smooth").',
        default="ignore",
    )


Memo = TypeVar("Memo")


class LastResultCache(Generic[Memo]):
    """What was said of the last message: it is often classified and then learned."""

    _cache: Memo | None = None
    _params_version: int = 0  # of all but the counts that it depends on


_Evidence = tuple[TokenCounts, Counts, tuple[int, int, float], tuple[float, ...]]


@parameter_class()
class CountingNB(LastResultCache[_Evidence], CountingParameters, MiniBatchMixin, TextModel):
    """A Naive Bayes model over a table of counts.

    A subclass says what a feature's counts mean (`_feature_weights`) and, if need be, what a
    message without features is worth (`_empty_log_likelihoods`). Nothing else differs between the models,
    and nothing is stored but counts.

    X of many messages is a scipy sparse matrix or array with any index type, a dense matrix, or a
    pandas, polars or pyarrow frame. A column of a matrix is the feature of its number, so
    `model.learn_one({3: 1}, y)` counts in column 3; a column of a frame is the feature of its name.
    New columns and new classes are welcome at any time.
    """

    counts: Counts = attribute(init=False)
    receipt: Receipt | None = attribute(init=False)
    discriminative = False

    track_values: ClassVar[bool] = False
    unpickled_attributes = ("lock", "_cache")
    smoothing_scale = 1.0  # factor of alpha while `system_log_likelihoods` computes a system

    def __post_init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Forget everything."""
        self.counts = MemoryCounts(self.keep_names, self.track_values)
        self.receipt = None

    def _changed(self, name: str) -> None:
        self._params_version += 1
        counts = vars(self).get("counts")
        if name == "keep_names" and isinstance(counts, MemoryCounts):  # nothing was learned yet
            self.counts = MemoryCounts(self.keep_names, self.track_values)
            self.counts.add_classes(counts.labels)

    @property
    def view_models(self) -> list[CountingNB]:
        """The model itself: it has one view of a message."""
        return [self]

    @property
    def _smoothing(self) -> float:
        """Alpha in the unit of the counts: where those have aged, it has not."""
        return self.alpha * self.counts.scale * self.smoothing_scale

    def as_tokens(self, x: Any) -> TokenCounts:
        """A message as the model counts it, good for as long as one likes."""
        return x if isinstance(x, TokenCounts) else TokenCounts.from_dict(x, None, self.keep_names)

    def views_of(self, tokens: TokenCounts) -> tuple[TokenCounts, ...]:
        """Its one view."""
        return (tokens,)

    def join_views(self, views: tuple[TokenCounts, ...]) -> TokenCounts:
        """The message that has this one view."""
        (view,) = views
        return view

    # What counts mean

    def _feature_weights(self, cells: NDArray[np.float64]) -> NDArray[np.float64]:
        """What one occurrence of each feature adds to each class, (n, K), given its counts."""
        raise NotImplementedError

    def _empty_log_likelihoods(self) -> list[float]:
        """What a message without features has for each class, the prior apart."""
        return [0.0] * len(self.counts.labels)

    def _unseen_weights(self) -> list[float]:
        """What one occurrence of a feature that was never learned adds to each class."""
        nothing = np.zeros((1, len(self.counts.labels)))
        return self._feature_weights(nothing)[0].tolist()

    def _log_prior(self) -> list[float]:
        return log_prior(self.prior, self.counts.labels, self.counts.weights)

    def _weights_of(
        self, fingerprints: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float64], NDArray[np.uint8] | None]:
        """Weights (n, K) of features, and which take part (None: all)."""
        cells, seen = self.counts.get_counts(fingerprints)
        weights = self._feature_weights(cells)
        if self.unseen == "ignore":
            return weights, seen
        weights[seen == 0] = self._unseen_weights()
        return weights, None

    def _sums(self, tokens: TokenCounts) -> tuple[list[float], int]:
        """What is said of a message with these features, and how many took part."""
        weights, seen = self._weights_of(tokens.fingerprints)
        sums, used = _core.weighted_sums(tokens.counts, weights, seen)
        pairs = zip(self._empty_log_likelihoods(), sums, strict=True)
        return [base + total for base, total in pairs], used

    def _length_divisor(self, used: int) -> float:
        """What the evidence of that many features is divide by."""
        if not self.length_norm or not used:
            return 1.0
        if self.length_norm_power == 0.5:
            return self.length_norm * math.sqrt(used)
        return self.length_norm * _core.exp(self.length_norm_power * _core.log(used))

    def log_likelihoods(self, x: Any) -> list[float]:
        """What a message says for each class, the prior apart, its length allowed for."""
        memo, counts = self._cache, self.counts
        state = (counts.version, self._params_version, self.smoothing_scale)
        if memo is not None and memo[0] is x and memo[1] is counts and memo[2] == state:
            return list(memo[3])
        evidence = self.compute_log_likelihoods(self.as_tokens(x))
        if type(x) is TokenCounts:
            object.__setattr__(self, "_cache", (x, counts, state, tuple(evidence)))
        return evidence

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
        """As `evidence`, each time anew."""
        sums, used = self._sums(tokens)
        if not self.length_norm or not used:
            return sums
        return _core.divide(sums, self._length_divisor(used))

    def _scores(self, x: Any) -> list[float]:
        return [
            prior + evidence
            for prior, evidence in zip(self._log_prior(), self.log_likelihoods(x), strict=True)
        ]

    # Learning

    def update_weight(self, surprise: float, trust: float) -> float:
        """How many times a message is learned.

        Parameters
        ----------
        surprise : float
            How little its class was expected: 1 less its probability before.
        trust : float
            How probably the label is right.
        """
        return round_to_grid(trust)

    def learn(self, x: Any, y: Label, w: float = 1.0) -> Receipt:
        """Learn a message; the receipt is what `unlearn` wants."""
        tokens = self.as_tokens(x)
        weight = 1.0 if w == 1 else checked_weight(w)
        with self.lock:
            decay_halvings, class_weight, amount = self.add(
                tokens, y, weight, self._next_update_weight(tokens, y)
            )
        return Receipt(decay_halvings, class_weight, (amount,))

    def _next_update_weight(self, tokens: TokenCounts, y: Label) -> float:
        """How many times a message's counts are learned."""
        return 1.0

    def add(
        self, tokens: TokenCounts, y: Label, w: float, times: float
    ) -> tuple[int, float, float]:
        """Learn a message of weight w; its counts go in that many times.

        Gives decay_halvings, class_weight and weight, for a `Receipt`.
        """
        with self.lock:
            counts = self.counts
            decay_halvings, class_weight = counts.decay_halvings, w * counts.scale
            counts.add(tokens, y, class_weight * times, class_weight)
            if self.decay != 1:
                counts.decay(self.decay)
            return decay_halvings, class_weight, class_weight * times

    @property
    def order_dependence_reason(self) -> str:
        """Why what a message adds depends on those before it; "" where it does not."""
        forgets = f"decay={self.decay:g}: what is forgotten depends on the order; use 1"
        return super().order_dependence_reason or (forgets if self.decay != 1 else "")

    @property
    def _needs_receipt(self) -> bool:
        counts = self.counts
        return bool(self.order_dependence_reason) or counts.scale != 1 or counts.decay_halvings > 0

    def _default_receipt(self, w: float) -> Receipt:
        weight = checked_weight(w)
        return Receipt(self.counts.decay_halvings, weight, (weight,))

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Take back what a receipt says, or raise ValueError and change nothing."""
        self.subtract(self.as_tokens(x), y, receipt, receipt.view_weights[0])

    def subtract(
        self, tokens: TokenCounts, y: Label, receipt: Receipt, times: float
    ) -> tuple[TokenCounts, Label, float, float]:
        """Take away what `add` added; gives what was taken, as the counts' `add` wants it."""
        with self.lock:
            counts = self.counts
            if self.decay == 1 and receipt.decay_halvings == counts.decay_halvings:
                counts.subtract(tokens, y, times, receipt.class_weight)
                return tokens, y, times, receipt.class_weight
            # Ageing rounds, and drops what is too small to matter: only what is left can be taken.
            k = counts.index(y)
            if k is None:
                raise ValueError(f"cannot unlearn: nothing was ever learned of class {y!r:.80}")
            shrunk = self._shrunk(receipt)
            cells, _ = counts.get_counts(tokens.fingerprints)
            left = np.minimum(tokens.counts * (times * shrunk), cells[:, k])
            some = left > 0
            kept = TokenCounts.unchecked(tokens.fingerprints[some], left[some], None, None)
            class_weight = min(receipt.class_weight * shrunk, counts.weights[k])
            counts.subtract(kept, y, 1.0, class_weight)
            return kept, y, 1.0, class_weight

    def _shrunk(self, receipt: Receipt) -> float:
        """What the numbers of a receipt have become since, by rescaling."""
        return float(2.0 ** (receipt.decay_halvings - self.counts.decay_halvings))

    def add_back(self, tokens: TokenCounts, y: Label, receipt: Receipt, times: float) -> None:
        """Add once more what `add` added and `take` took."""
        with self.lock:
            shrunk = self._shrunk(receipt)
            self.counts.add(tokens, y, times * shrunk, receipt.class_weight * shrunk)

    @property
    def _threshold(self) -> float:
        """Above what a value is a presence; NaN where values are counts."""
        return math.nan

    def _learn_rows(self, X: Any, y: Any, w: Any, classes: Iterable[Label] = ()) -> None:
        signed = not math.isnan(self._threshold)
        rows = Rows.of(X, self.keep_names, canonical=signed)
        labels = as_labels(y)
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} examples, but {len(labels)} labels")
        weights = as_weights(w, len(rows))
        distinct = list(dict.fromkeys(labels))
        places = {label: k for k, label in enumerate(distinct)}
        columns = np.array([places[label] for label in labels], dtype=np.int64)
        sums, bad = _core.column_sums(
            rows.indptr,
            rows.indices,
            rows.data,
            columns,
            weights,
            len(rows.features),
            len(distinct),
            self._threshold,
        )
        rows.check(bad, signed)
        masses = np.bincount(columns, weights, len(distinct)).tolist()
        self.counts.add_classes([*classes, *distinct])
        if self.order_dependence_reason:
            for row, label, weight in zip(rows.messages(), labels, weights.tolist(), strict=True):
                self.learn_one(row, label, weight)
        else:
            self.counts.add_matrix(rows.features, sums, distinct, masses)

    def _score_rows(self, X: Any) -> NDArray[np.float64]:
        """Joint log-likelihoods (n, K), each row bit for bit what `_scores` gives."""
        rows = Rows.of(X, False, canonical=True)
        weights, seen = self._weights_of(rows.features.fingerprints)
        sums, used, bad = _core.row_sums(
            rows.indptr, rows.indices, rows.data, weights, seen, self._threshold
        )
        rows.check(bad, not math.isnan(self._threshold))
        scores = np.array(self._empty_log_likelihoods()) + sums
        if self.length_norm:
            scores /= np.array([self._length_divisor(int(n)) for n in used])[:, None]
        return np.array(self._log_prior()) + scores

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages, with labels y and weights w (a number, or one for each).

        X is a matrix or a frame with a message in each row, or a list of messages.
        """
        X = listed(X)
        (TextModel if are_messages(X) else MiniBatchMixin).learn_many(self, X, y, w)

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Do again what a receipt says, exactly."""
        with self.lock:
            self.add_back(self.as_tokens(x), y, receipt, receipt.view_weights[0])

    def check_merge(self, other: Any) -> None:
        """Raise ValueError where another model counts different things."""
        if type(other) is not type(self):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")
        for name, known in self.parameter_table.items():
            matters = (known.role == "counts" and name != "keep_names") or name == "decay"
            if matters and getattr(self, name) != getattr(other, name):
                raise ValueError(f"cannot merge: the models differ in {name}")
        self.counts.check_merge(other.counts)

    def _merge(self, other: Self) -> None:
        self.counts.merge(other.counts)

    # What it knows

    def explain_views(self, x: Any) -> list[Explanation]:
        """Say what each feature of a message added to each class.

        Examples
        --------
        >>> from streamnb import MultinomialNB
        >>> model = MultinomialNB()
        >>> model.learn_one({"free": 2, "now": 1}, "spam")
        >>> model.learn_one({"lunch": 1, "now": 1}, "ham")
        >>> why = model.explain_one({"free": 1, "lunch": 1, "moon": 1})
        >>> [(word, round(gain, 3)) for word, gain in why.top_features("spam")]
        [('free', 0.916), ('lunch', -0.875)]
        """
        return [self.explain_tokens(self.as_tokens(x), self._log_prior())]

    def explain_tokens(self, tokens: TokenCounts, log_prior: list[float]) -> Explanation:
        """As `explain_views`, with some prior."""
        labels = self.counts.labels
        weights, seen = self._weights_of(tokens.fingerprints)
        took_part = np.ones(len(tokens), bool) if seen is None else seen.astype(bool)
        divisor = self._length_divisor(int(took_part.sum()))
        parts = tokens.counts[:, None] * weights / divisor
        base = [
            prior + evidence / divisor
            for prior, evidence in zip(log_prior, self._empty_log_likelihoods(), strict=True)
        ]
        contributions: dict[Feature, dict[Label, float]] = {
            tokens.name(i): dict(zip(labels, parts[i].tolist(), strict=True))
            for i in np.flatnonzero(took_part).tolist()
        }
        evidence = zip(log_prior, self.compute_log_likelihoods(tokens), strict=True)
        scores = dict(zip(labels, [prior + said for prior, said in evidence], strict=True))
        return Explanation(scores, dict(zip(labels, base, strict=True)), contributions)

    def feature_counts(self, feature: Feature) -> dict[Label, float]:
        """How often a feature was counted in each class, by its name."""
        return self.class_counts(_core.fingerprint(feature))

    def class_counts(self, fingerprint: int) -> dict[Label, float]:
        """How often a feature was counted in each class, by its fingerprint."""
        with self.lock:
            cells, _ = self.counts.get_counts(np.array([fingerprint], dtype=np.uint64))
            shares = (cells[0] / self.counts.scale).tolist()
            return dict(zip(self.counts.labels, shares, strict=True))

    def top_features(self, label: Label, n: int = 10) -> list[tuple[Feature, float]]:
        """The n features that speak most for a class, and by how much.

        Parameters
        ----------
        label : str, bool or int
            A class that was learned.
        n : int, default 10
            How many.

        Returns
        -------
        list
            Pairs of name and the log-odds one occurrence adds, against the best other class, the
            strongest first. Features whose names were not kept are shown as #fingerprint.
        """
        (found,) = self.top_fingerprints((label,), n)
        return [(self.display_name(of), gain) for of, gain in found]

    def top_fingerprints(
        self, labels: Sequence[Label], n: int = 10
    ) -> list[list[tuple[int, float]]]:
        """As `top_features`, by fingerprint, for each of some classes."""
        with self.lock:
            columns = []
            for label in labels:
                k = self.counts.index(label)
                if k is None:
                    raise ValueError(f"nothing was ever learned of class {label!r:.80}")
                columns.append(k)
            strongest = TopFeatures(len(labels), n)
            for fingerprints, weights in self._all_feature_weights():
                strongest.add(fingerprints, margin_over_runner_up(weights)[:, columns])
        return strongest.found()

    def _all_feature_weights(self) -> Iterator[tuple[Keys, Floats]]:
        """Features (n,), and what one occurrence of each adds to each class (n, K), in parts."""
        for fingerprints, cells in self.counts.parts():
            yield fingerprints, self._feature_weights(cells)

    def display_name(self, fingerprint: int) -> Feature:
        """The name of a feature; #fingerprint where it was not kept."""
        name = self.counts.name(int(fingerprint))
        return f"#{fingerprint:016x}" if name is None or not self.keep_names else name

    # Files

    @classmethod
    def _from_view_models(cls, members: list[TextModel], outlined: Mapping[str, Any]) -> Self:
        (member,) = members
        if type(member) is not cls:
            raise ValueError("model and member are of different kinds")
        return member

    def member_header(self) -> dict[str, Any]:
        """The model without its counts, as JSON can hold it."""
        return {"model": type(self).__name__, "parameters": parameters_to_json(self)}

    @classmethod
    def member_from_header(cls, outlined: Mapping[str, Any]) -> Self:
        """What `outlined` gave."""
        return cls(**parameters_from_json(outlined["parameters"], cls))
