"""Slow, obvious Naive Bayes: keeps every observation and recounts the whole list on each query.

Multinomial and Bernoulli: McCallum & Nigam 1998. Complement: Rennie et al. 2003.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping
from typing import Any

Label = Hashable
Feature = Hashable
Observation = tuple[dict[Feature, float], Label, float]


def _log(value: float) -> float:
    """Natural logarithm with log(0) = -inf."""
    return -math.inf if value == 0 else math.log(value)


def _nonzero(x: Mapping[Any, float]) -> dict[Feature, float]:
    """x without its zero-valued features."""
    return {feature: value for feature, value in x.items() if value != 0}


class Reference:
    """Naive Bayes worked out afresh from the list of learned (x, y, w) observations."""

    def __init__(
        self,
        kind: str,
        alpha: float = 1.0,
        prior: str | Mapping[Any, float] = "learned",
        unseen: str = "ignore",
        length_norm: float | None = None,
        binarize: float = 0.0,
        complement: bool = False,
    ) -> None:
        """Set the formula; `prior` may also be "none" when `kind` is "complement"."""
        if kind not in ("multinomial", "bernoulli", "complement"):
            raise ValueError(f"unknown kind {kind!r}")
        if isinstance(prior, str):
            allowed = (
                ("learned", "uniform", "none") if kind == "complement" else ("learned", "uniform")
            )
            if prior not in allowed:
                raise ValueError(f"unknown prior {prior!r} for {kind}")
        if unseen not in ("ignore", "smooth"):
            raise ValueError(f"unknown unseen {unseen!r}")
        self.kind = kind
        self.alpha = alpha
        self.prior = prior
        self.unseen = unseen
        self.length_norm = length_norm
        self.binarize = binarize
        self.complement = complement
        self.observations: list[Observation] = []
        self.ever_seen: list[Label] = []

    def learn(self, x: Mapping[Any, float], y: Label, w: float = 1.0) -> None:
        """Append (x, y, w) to the list."""
        self.observations.append((_nonzero(x), y, w))
        if y not in self.ever_seen:
            self.ever_seen.append(y)

    def unlearn(self, x: Mapping[Any, float], y: Label, w: float = 1.0) -> None:
        """Remove one observation equal to (x, y, w); ValueError if there is none."""
        observation: Observation = (_nonzero(x), y, w)
        if observation not in self.observations:
            raise ValueError("no such observation was learned")
        self.observations.remove(observation)

    def merge(self, other: "Reference") -> None:
        """Concatenate the other's list to this one."""
        self.observations = self.observations + other.observations
        for label in other.ever_seen:
            if label not in self.ever_seen:
                self.ever_seen.append(label)

    def labels(self) -> list[Label]:
        """Labels in first-learned order; one whose observations were all unlearned stays."""
        return list(self.ever_seen)

    def vocabulary(self) -> set[Feature]:
        """Features whose count, summed over all observations, is nonzero."""
        return {f for f, count in self._counts(self.observations).items() if count != 0}

    def joint_log_likelihood(self, x: Mapping[Any, float]) -> dict[Label, float]:
        """log prior_c + evidence_c, the evidence divided by length_norm * sqrt(L) if length_norm is given."""
        values = self._values(x)
        vocabulary = self.vocabulary()
        if self.unseen == "smooth":
            length = len(values)
        else:
            length = len([f for f in values if f in vocabulary])
        scores: dict[Label, float] = {}
        for label, log_prior in self._log_priors().items():
            if self.kind == "multinomial":
                evidence = self._multinomial(values, vocabulary, label)
            elif self.kind == "bernoulli":
                evidence = self._bernoulli(values, vocabulary, label)
            else:
                evidence = self._complement(values, vocabulary, label)
            if self.length_norm is not None and length > 0:
                evidence = evidence / (self.length_norm * math.sqrt(length))
            scores[label] = log_prior + evidence
        return scores

    def predict_proba(self, x: Mapping[Any, float]) -> dict[Label, float]:
        """exp(jll_c - max) / sum of the same over classes; uniform if every jll is -inf."""
        scores = self.joint_log_likelihood(x)
        if not scores:
            return {}
        largest = max(scores.values())
        if largest == -math.inf:
            return {label: 1.0 / len(scores) for label in scores}
        total = math.fsum(math.exp(score - largest) for score in scores.values())
        return {label: math.exp(score - largest) / total for label, score in scores.items()}

    def _values(self, x: Mapping[Any, float]) -> dict[Feature, float]:
        """x_w of the nonzero features; for Bernoulli 1 for those with x_w > binarize."""
        nonzero = _nonzero(x)
        if self.kind == "bernoulli":
            return {feature: 1.0 for feature, value in nonzero.items() if value > self.binarize}
        return nonzero

    def _of_class(self, label: Label) -> list[Observation]:
        """Observations of the class."""
        return [observation for observation in self.observations if observation[1] == label]

    def _of_other_classes(self, label: Label) -> list[Observation]:
        """Observations of all other classes."""
        return [observation for observation in self.observations if observation[1] != label]

    def _counts(self, observations: list[Observation]) -> dict[Feature, float]:
        """Sum of w * x_w (Bernoulli: of w where present) for each feature; 0 where absent."""
        terms: dict[Feature, list[float]] = defaultdict(list)
        for x, _, w in observations:
            for feature, value in self._values(x).items():
                terms[feature].append(w * value)
        counts: dict[Feature, float] = defaultdict(float)
        for feature, summands in terms.items():
            counts[feature] = math.fsum(summands)
        return counts

    def _log_priors(self) -> dict[Label, float]:
        """log(D_c / D), uniform, given and normalised over the known labels, or 0 for none.

        Where D_c = 0 for some classes only, those have probability 0 unless it is given.
        """
        labels = self.labels()
        weights = {label: math.fsum(w for _, _, w in self._of_class(label)) for label in labels}
        if not any(weights.values()):
            weights = dict.fromkeys(labels, 1.0)
        if self.prior == "none":
            return {label: 0.0 if weights[label] else -math.inf for label in labels}
        if isinstance(self.prior, Mapping):
            weights = {label: self.prior.get(label, 0.0) for label in labels}
        elif self.prior == "uniform":
            weights = {label: 1.0 if weight else 0.0 for label, weight in weights.items()}
        total = math.fsum(weights.values())
        if total == 0:
            return dict.fromkeys(labels, 0.0)
        return {label: _log(weight / total) for label, weight in weights.items()}

    def _multinomial(
        self, values: dict[Feature, float], vocabulary: set[Feature], label: Label
    ) -> float:
        """Sum of x_w [log(n_cw + alpha) - log(N_c + alpha V)], McCallum & Nigam 1998.

        With more than two classes that have observations, the complement's if it is set.
        """
        weights = [math.fsum(w for _, _, w in self._of_class(label)) for label in self.labels()]
        if self.complement and sum(weight > 0 for weight in weights) > 2:
            return self._complement(values, vocabulary, label)
        n = self._counts(self._of_class(label))
        denominator = math.fsum(n.values()) + self.alpha * len(vocabulary)
        return self._word_evidence(values, vocabulary, n, denominator)

    def _complement(
        self, values: dict[Feature, float], vocabulary: set[Feature], label: Label
    ) -> float:
        """-Sum of x_w [log(T_w - n_cw + alpha) - log(T - N_c + alpha V)], Rennie et al. 2003.

        T_w - n_cw and T - N_c are counted directly over the observations of other classes.
        """
        n = self._counts(self._of_other_classes(label))
        denominator = math.fsum(n.values()) + self.alpha * len(vocabulary)
        return -self._word_evidence(values, vocabulary, n, denominator)

    def _word_evidence(
        self,
        values: dict[Feature, float],
        vocabulary: set[Feature],
        n: dict[Feature, float],
        denominator: float,
    ) -> float:
        """Sum of x_w [log(n_w + alpha) - log(denominator)]; n_w = 0 for a smoothed unseen w."""
        if not vocabulary:
            return 0.0
        terms = []
        for feature, value in values.items():
            if feature in vocabulary:
                terms.append(value * (_log(n.get(feature, 0.0) + self.alpha) - _log(denominator)))
            elif self.unseen == "smooth":
                terms.append(value * (_log(self.alpha) - _log(denominator)))
        return math.fsum(terms)

    def _bernoulli(
        self, values: dict[Feature, float], vocabulary: set[Feature], label: Label
    ) -> float:
        """Sum over V of log p_cw if present, else log(1 - p_cw), McCallum & Nigam 1998.

        p_cw = (n_cw + alpha) / (D_c + 2 alpha); 1 - p_cw = (D_c - n_cw + alpha) / (D_c + 2 alpha).
        """
        observations = self._of_class(label)
        n = self._counts(observations)
        d = math.fsum(w for _, _, w in observations)
        denominator = d + 2 * self.alpha
        terms = []
        for feature in vocabulary:
            if feature in values:
                terms.append(_log(n.get(feature, 0.0) + self.alpha) - _log(denominator))
            else:
                terms.append(_log(d - n.get(feature, 0.0) + self.alpha) - _log(denominator))
        if self.unseen == "smooth":
            for feature in values:
                if feature not in vocabulary:
                    terms.append(_log(self.alpha) - _log(denominator))
        return math.fsum(terms)
