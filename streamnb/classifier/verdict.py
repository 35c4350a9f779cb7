"""The verdict of a classifier on a message, its reasons, and the costs of decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from streamnb.constraints import Constraint, Number
from streamnb.counts.protocol import Label
from streamnb.errors import OutputError, printable
from streamnb.features.token_counts import Feature, feature_text
from streamnb.scores import best_index
from streamnb.storage import label_to_json


def feature_name(feature: Feature) -> str:
    """The name of a feature as one printable line."""
    if isinstance(feature, bytes):
        return "bytes " + repr(feature)[1:]
    if isinstance(feature, tuple) and len(feature) == 2 and isinstance(feature[0], int):
        return feature_name(
            feature[1]
        )  # the number of a view, and a feature that other views have too
    return printable(str(feature))


class Costs(NamedTuple):
    """Costs of wrong decisions and of a review. The defaults are those of SpamBayes.

    Attributes
    ----------
    false_alarm
        Cost of predicting the positive class for a message of another class.
    miss
        Cost of any other mistake, such as spam that gets through.
    unsure
        Cost of a review by a person.
    """

    false_alarm: float = 10.0
    miss: float = 1.0
    unsure: float = 0.2


def _are_costs(value: Any) -> bool:
    is_row = isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return is_row and len(value) == 3 and all(map(Number().fits, value))


class _CostsConstraint(Constraint):
    """Three costs."""

    listed = True

    def __init__(self) -> None:
        super().__init__(_are_costs, "three numbers >= 0, (false_alarm, miss, unsure)")

    def plain(self, value: Any) -> Any:
        """Return the costs as a list."""
        return list(value)


COSTS = _CostsConstraint()


def as_costs(value: Any) -> Costs:
    """Return three numbers as `Costs`; ValueError if they are not costs."""
    COSTS("costs", value)
    if isinstance(value, Costs):
        return value
    return Costs(*(cost.item() if isinstance(cost, np.generic) else cost for cost in value))


def chances_of_others(
    shares: Mapping[Label, float], messages: Mapping[Label, float]
) -> dict[Label, float]:
    """Return for each label the probability that a message is of another class.

    After n messages of a class, its next message is of a new kind with a probability of about 1 /
    (n + 1). The model cannot recognise a new kind. So one message of each class is not enough for a
    sure verdict. The prior of a class is its share of all messages, so a new class does not make
    verdicts on other classes unsure.
    """
    top = list(shares)[best_index(list(shares.values()))]
    share_of_others = math.fsum(share for label, share in shares.items() if label != top)
    total = share_of_others + shares[top]
    class_weights = {label: messages[label] + 1 for label in shares if messages.get(label)}
    weight = math.fsum(class_weights.values())
    chances = {}
    for label, share in shares.items():
        others = share_of_others if label == top else total - share
        n_others = len(class_weights) - (label in class_weights)
        # Each other class has at least 1 message, even if rounding loses it in a sum of large
        # weights.
        other_weight = max(weight - class_weights.get(label, 0.0), n_others)
        new = n_others / other_weight if n_others else 1.0
        own = 1 / (messages.get(label, 0.0) + 1)
        chances[label] = (others + new) / (1 + new + own)
    return chances


class Reason(NamedTuple):
    """A feature of a message, and its evidence for or against the label of a verdict.

    Attributes
    ----------
    feature
        Its name: a token, or bytes for an n-gram of bytes.
    log_odds
        Its part of the log-odds of the label against the best other class.
    counts
        Its count in each class.
    """

    feature: Feature
    log_odds: float
    counts: dict[Label, float]


@dataclass(frozen=True)
class Verdict:
    """The decision of a classifier on a message.

    Attributes
    ----------
    label
        The class with the least expected cost. If the verdict is unsure, the most probable class.
        None before training.
    probability
        Calibrated probability of that class.
    log_odds
        Its log-odds, log(p / (1 - p)), which stay exact if p is rounded to 1.
    unsure
        Whether a review by a person has the least expected cost.
    probabilities
        The probability of each class.
    reasons
        The features with the strongest evidence for the label (positive) or against it (negative).
        Their counts are those at the time of the verdict.
    ready
        Whether the class has enough correct predictions to act without a review
        (`TextModel.is_ready`).
    """

    label: Label | None
    probability: float
    log_odds: float
    unsure: bool
    probabilities: dict[Label, float]
    reasons: list[Reason]
    ready: bool = True

    def side(self, log_odds: float) -> str:
        """Return "for" and the class that a reason favours, or "against" and the label.

        Between two classes, evidence against one is evidence for the other.

        Examples
        --------
        >>> verdict = Verdict("spam", 0.9, 2.2, False, {"spam": 0.9, "ham": 0.1}, [])
        >>> verdict.side(1.5), verdict.side(-1.5)
        ('for spam', 'for ham')
        """
        if log_odds >= 0:
            return f"for {self.label}"
        others = [label for label in self.probabilities if label != self.label]
        return f"for {others[0]}" if len(others) == 1 else f"against {self.label}"

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, text: str = "") -> str:
        """Return the verdict and its reasons as an HTML table, which a notebook shows.

        Parameters
        ----------
        text
            The message. If given, it stands above the table, and its words have the tint of their
            evidence. A verdict does not store its message.

        Examples
        --------
        >>> verdict = Verdict("spam", 0.9, 2.2, False, {"spam": 0.9}, [Reason("free", 4.0, {})])
        >>> verdict.to_html("Free <b>")[:65]
        '<p><span style="background:rgba(0,120,60,0.40)">Free</span> &lt;b'
        """
        # here: for notebooks only
        from streamnb.markup import Html, TintedCell, html_table, tint_text

        labels = list(self.probabilities)
        unsure = ", unsure" if self.unsure or not self.ready else ""
        evidence: dict[str, float] = {}
        for reason in self.reasons:
            word = feature_text(reason.feature).strip('"')  # a view of pairs has words in quotes
            evidence[word] = evidence.get(word, 0.0) + reason.log_odds
        paragraph = f"<p>{tint_text(text, evidence)}</p>" if text else ""
        table = html_table(
            f"{self.label}{unsure}, probability {self.probability:.4g}",
            ["word", "evidence", *(f"in {label}" for label in labels)],
            [
                (
                    TintedCell(feature_name(reason.feature), reason.log_odds),
                    self.side(reason.log_odds),
                    *(float(reason.counts.get(label, 0)) for label in labels),
                )
                for reason in self.reasons
            ],
        )
        return Html(paragraph + table)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON values.

        Labels become `[label, probability]` pairs, so that they keep their type; features become
        text; an infinite number becomes None.

        Examples
        --------
        >>> import json, streamnb
        >>> model = streamnb.TextClassifier().fit(["free pills", "lunch"], ["spam", "ham"])
        >>> json.loads(json.dumps(model.classify("pills").to_dict()))["label"]
        'spam'
        """
        return {
            "label": None if self.label is None else label_value(self.label),
            "probability": self.probability,
            "log_odds": finite_or_none(self.log_odds),
            "unsure": bool(self.unsure),
            "ready": bool(self.ready),
            "probabilities": _pairs(self.probabilities),
            "reasons": [
                {
                    "feature": feature_name(reason.feature),
                    "log_odds": finite_or_none(reason.log_odds),
                    "counts": _pairs(reason.counts),
                }
                for reason in self.reasons
            ],
        }


def label_value(label: Label) -> Any:
    """Return a label as a JSON value: its plain value, or its text for other types."""
    try:
        return label_to_json(label)[1]
    except OutputError:
        return str(label)


def _pairs(by_class: dict[Label, float]) -> list[list[Any]]:
    return [[label_value(label), value] for label, value in by_class.items()]


def finite_or_none(value: float) -> float | None:
    """Return a number as a JSON value: None if it is infinite or NaN."""
    return value if math.isfinite(value) else None
