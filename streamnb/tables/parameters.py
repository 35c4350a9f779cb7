"""Parameters of several models of tables."""

from __future__ import annotations

from streamnb.parameters import Choice, ClassPrior, Number, Prior, parameter, parameter_class

VAR_SMOOTHING = parameter(
    Number(),
    "formula",
    "This fraction of the largest variance of a feature is added to every variance (as in "
    "scikit-learn).",
    default=1e-9,
)


@parameter_class(kw_only=True)
class PriorParameter:
    """The prior of the classes."""

    prior: Prior = parameter(
        ClassPrior(),
        "formula",
        'Class prior: "learned" (proportional to the weight learned), "uniform", or a dict of '
        "labels to shares, which need not sum to 1.",
        default="learned",
    )


@parameter_class(kw_only=True)
class NormalParameters:
    """Parameters of models of numeric features."""

    ddof: int = parameter(
        Choice((0, 1)),
        "formula",
        "Delta degrees of freedom: variances are sums of squares divided by (weight - ddof). 0 for "
        "maximum likelihood, 1 for unbiased estimates.",
        default=0,
    )
    var_smoothing: float = VAR_SMOOTHING
    epsilon: float = parameter(
        Number(), "formula", "A number that is added to every standard deviation.", default=0.0
    )


@parameter_class()
class LevelParameters:
    """Parameters of models of categorical features."""

    alpha: float = parameter(
        Number(),
        "formula",
        "Additive (Laplace) smoothing. With 0, a level has probability 0 in a class that never "
        "had it.",
        default=1.0,
    )
    unseen: str = parameter(
        Choice(("ignore", "smooth")),
        "formula",
        'Likelihood of a level that was never learned: none ("ignore"), or alpha / (n_c + alpha '
        'L_j) ("smooth").',
        default="ignore",
    )
