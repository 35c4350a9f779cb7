"""Parameters that several models of tables have."""

from __future__ import annotations

from streamnb.parameters import Choice, ClassPrior, Number, Prior, parameter, parameter_class

VAR_SMOOTHING = parameter(
    Number(),
    "formula",
    "This share of the largest variance of a feature is added to every variance (scikit-learn's).",
    default=1e-9,
)


@parameter_class(kw_only=True)
class PriorParameter:
    """The prior of the classes."""

    prior: Prior = parameter(
        ClassPrior(),
        "formula",
        '"learned" (share of the weight learned), "uniform", or a dict of labels to shares, '
        "whatever they add up to.",
        default="learned",
    )


@parameter_class(kw_only=True)
class NormalParameters:
    """Parameters of models of numeric features."""

    ddof: int = parameter(
        Choice((0, 1)),
        "formula",
        "Sums about the mean are divided by the weight less this: 0 for the maximum likelihood "
        "estimate, 1 for the unbiased one.",
        default=0,
    )
    var_smoothing: float = VAR_SMOOTHING
    epsilon: float = parameter(
        Number(), "formula", "Added to every standard deviation.", default=0.0
    )


@parameter_class()
class LevelParameters:
    """Parameters of models of categorical features."""

    alpha: float = parameter(
        Number(),
        "formula",
        "Additive (Laplace) smoothing; with 0, what never happened is impossible.",
        default=1.0,
    )
    unseen: str = parameter(
        Choice(("ignore", "smooth")),
        "formula",
        'What a level that was never learned says: nothing ("ignore"), or '
        'alpha / (n_c + alpha L_j) ("smooth").',
        default="ignore",
    )
