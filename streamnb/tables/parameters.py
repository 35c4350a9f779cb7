"""Parameters of several models of tables."""

from __future__ import annotations

from streamnb.constraints import Choice, ClassPrior, Number, Prior
from streamnb.parameters import parameter, parameter_class


@parameter_class(kw_only=True)
class PriorParameter:
    """The prior of the classes.

    Parameters
    ----------
    prior
        Class prior: "learned" (proportional to the weight learned), "uniform", or a dict of labels
        to shares, which need not sum to 1.
    """

    prior: Prior = parameter(ClassPrior(), "formula", default="learned")


@parameter_class(kw_only=True)
class NormalParameters:
    """Parameters of models of numeric features.

    Parameters
    ----------
    ddof
        Delta degrees of freedom: variances are sums of squares divided by (weight - ddof). 0 for
        maximum likelihood, 1 for unbiased estimates.
    var_smoothing
        This fraction of the largest variance of a feature is added to every variance (as in
        scikit-learn).
    epsilon
        A number that is added to every standard deviation.
    """

    ddof: int = parameter(Choice((0, 1)), "formula", default=0)
    var_smoothing: float = parameter(Number(), "formula", default=1e-9)
    epsilon: float = parameter(Number(), "formula", default=0.0)


@parameter_class()
class LevelParameters:
    """Parameters of models of categorical features.

    Parameters
    ----------
    alpha
        Additive (Laplace) smoothing. With 0, a level has probability 0 in a class that never had
        it.
    unseen
        Levels that were never learned: "ignore" them, or "smooth" their count of zero by alpha.
    """

    alpha: float = parameter(Number(), "formula", default=1.0)
    unseen: str = parameter(Choice(("ignore", "smooth")), "formula", default="ignore")
