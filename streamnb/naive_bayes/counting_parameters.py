"""Parameters of every counting model."""

from __future__ import annotations

from streamnb.constraints import (
    MIN_POSITIVE,
    POSITIVE,
    Boolean,
    Choice,
    ClassPrior,
    Integer,
    Number,
    Prior,
)
from streamnb.parameters import parameter, parameter_class


@parameter_class(kw_only=True)
class LearnerParameters:
    """Parameters of every counting model that are passed by name.

    Parameters
    ----------
    length_norm
        Length normalisation: log-likelihoods are divided by length_norm * m**length_norm_power. m
        is the number of distinct features of the message that have a count. None for no
        normalisation. Without it, scores of long messages are too extreme, because words depend on
        each other.
    length_norm_power
        Power of the number of features in the length normalisation, from 0 to 2.
    decay
        Factor by which all counts are multiplied after each message; 1 for no decay.
    max_features
        Maximum number of features of each view, for endless streams; None for no limit. Above it,
        the features with the smallest total count are removed until three quarters of the limit
        remain.
    keep_names
        True to store the names of features, so that explanations can show them.
    """

    length_norm: float | None = parameter(Number(MIN_POSITIVE, none=True), "formula", default=None)
    length_norm_power: float = parameter(Number(0, 2), "formula", default=0.5)
    decay: float = parameter(Number(0.5, 1), "training", default=1.0)
    max_features: int | None = parameter(Integer(1, none=True), "training", default=None)
    keep_names: bool = parameter(Boolean(), "counts", default=True)


@parameter_class()
class CountingParameters(LearnerParameters):
    """Parameters of every counting model: alpha, prior and unseen also by position.

    Parameters
    ----------
    alpha
        Additive (Laplace, Lidstone) smoothing.
    prior
        Class prior: "learned" (proportional to the weight learned), "uniform", or a dict of labels
        to shares, which need not sum to 1.
    unseen
        Features without a count: "ignore" them, or "smooth" their count of zero.
    """

    alpha: float = parameter(POSITIVE, "formula", default=1.0)
    prior: Prior = parameter(ClassPrior(), "formula", default="learned")
    unseen: str = parameter(Choice(("ignore", "smooth")), "formula", default="ignore")
