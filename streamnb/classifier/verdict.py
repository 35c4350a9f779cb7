"""What a classifier says of a message, and what its mistakes cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from streamnb.counts.protocol import Label
from streamnb.errors import printable
from streamnb.features.token_counts import Feature


def feature_name(feature: Feature) -> str:
    """The name of a feature as a line can hold it."""
    if isinstance(feature, bytes):
        return "bytes " + repr(feature)[1:]
    if isinstance(feature, tuple) and len(feature) == 2 and isinstance(feature[0], int):
        return feature_name(feature[1])  # of a later view, which has a feature of that name, too
    return printable(str(feature))


class Costs(NamedTuple):
    """What it costs to decide wrongly, or not at all; those of SpamBayes to begin with.

    Attributes
    ----------
    false_alarm
        A message is taken for the positive class and is of another.
    miss
        Any other mistake: with spam for the positive class, a spam that gets through.
    unsure
        Somebody has to look.
    """

    false_alarm: float = 10.0
    miss: float = 1.0
    unsure: float = 0.2


class Reason(NamedTuple):
    """A feature that spoke for or against the label of a verdict.

    Attributes
    ----------
    feature
        Its name: a token, or bytes for an n-gram of bytes.
    log_odds
        What it added to the log-odds of the label against the best other class.
    counts
        How much of it was learned in each class.
    """

    feature: Feature
    log_odds: float
    counts: dict[Label, float]


@dataclass(frozen=True)
class Verdict:
    """What a classifier says of a message.

    Attributes
    ----------
    label
        The class that is expected to cost least, or where that is unsure the most probable one;
        None before anything was learned.
    probability
        Calibrated probability of that class.
    log_odds
        Its logarithm of p / (1 - p), which never saturates.
    unsure
        Whether it is expected to cost less if somebody looks.
    probabilities
        That of each class.
    reasons
        The features that spoke loudest, for the label or (negative) against it.
    ready
        Whether the class was called rightly often enough, of messages that were then learned, that
        nobody needs to look (`TextModel.is_ready`).
    """

    label: Label | None
    probability: float
    log_odds: float
    unsure: bool
    probabilities: dict[Label, float]
    reasons: list[Reason]
    ready: bool = True
