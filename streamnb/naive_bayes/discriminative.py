"""Discriminative multinomial Naive Bayes."""

from __future__ import annotations

from collections.abc import Collection

from streamnb import _core
from streamnb.counts.protocol import Label
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.counting import CountingParameters, round_to_grid
from streamnb.naive_bayes.multinomial import BACKGROUND, MultinomialNB
from streamnb.parameters import MIN_POSITIVE, POSITIVE, Number, parameter, parameter_class


def residuals(
    evidence: list[list[float]], prior: list[float], known: Collection[int], k: int | None
) -> list[float]:
    """How little each model expected a message to be of class k: 1 - P(k | message).

    Parameters
    ----------
    evidence
        What each model says for each class.
    prior
        What is added for each class, the same for all.
    known
        Numbers of the classes that something was learned of.
    k
        The class, None for one that was never learned.

    Returns
    -------
    list of float
        From 0 to 1. While only one class is known its probability is 1, and nothing would ever be
        learned: it is taken for one half.
    """
    if k is None or k not in known:
        return [1.0] * len(evidence)
    if len(known) < 2:
        return [0.5] * len(evidence)
    return _core.residuals(evidence, prior, k)


@parameter_class()
class DiscriminativeParameters(CountingParameters):
    """Parameters of `DiscriminativeMultinomialNB`; what was learned depends on them."""

    alpha: float = parameter(
        POSITIVE,
        "teaching",
        "Additive smoothing. Counts are smaller than in `MultinomialNB`, and so is a good alpha.",
        default=0.1,
    )
    length_norm: float | None = parameter(
        Number(MIN_POSITIVE, none=True),
        "teaching",
        "As for `MultinomialNB`. The probabilities that say what is left to learn want it.",
        default=0.8,
    )
    length_norm_power: float = parameter(
        Number(0, 2), "teaching", "The power of the number of features, from 0 to 2.", default=2 / 3
    )
    background: float = parameter(Number(0, 1e6), "teaching", BACKGROUND, default=0.0)
    min_update: float = parameter(
        Number(0, 1),
        "teaching",
        "A message that would be learned less than so many times is not counted: it is known well "
        "enough, and tables stay small.",
        default=0.0,
    )


@parameter_class()
class DiscriminativeMultinomialNB(DiscriminativeParameters, MultinomialNB):
    r"""Multinomial Naive Bayes that learns from a message as much as it was surprised by it.

    The formula is that of `MultinomialNB`; the counts of a message x of class y go in
    1 - P(y | x) times, P as the model has it before. So what is known already adds nothing, and
    words that go together are not counted again and again. It is still a table of counts, learned
    in one pass, and needs no step size. In how much order messages come makes a difference.

    What a message added is in `receipt`; `unlearn_one` takes it away again, exactly.

    Attributes
    ----------
    counts : MemoryCounts
        Everything that was learned. Its class weights count whole messages, and so does the prior.
    receipt : Receipt
        What the last `learn_one` added.

    References
    ----------
    Su, J., Zhang, H., Ling, C. X. and Matwin, S. (2008). Discriminative parameter learning for
    Bayesian networks. ICML 2008.

    Examples
    --------
    >>> from streamnb import DiscriminativeMultinomialNB
    >>> model = DiscriminativeMultinomialNB(alpha=1.0, length_norm=None)
    >>> for text, label in [("free offer", "spam"), ("lunch offer", "ham"), ("free", "spam")]:
    ...     model.learn_one(dict.fromkeys(text.split(), 1), label)
    ...     print(label, model.receipt.view_weights)
    spam (1.0,)
    ham (1.0,)
    spam (0.3330078125,)

    The third message was expected to be spam with probability 2/3, so a third of it was learned.

    >>> model.unlearn_one({"free": 1}, "spam", receipt=model.receipt)
    >>> model.feature_counts("free")
    {'spam': 1.0, 'ham': 0.0}
    """

    discriminative = True

    def update_weight(self, surprise: float, trust: float) -> float:
        """As many times as it was a surprise, from `min_update` on; doubt counts twice.

        A wrong label does more harm than a right one does good, for it is always a surprise. (With
        a tenth of labels wrong, the square of trust ranks a sixth better than trust does.)
        """
        times = round_to_grid(trust * trust * surprise)
        return times if times >= self.min_update else 0.0

    def _next_update_weight(self, tokens: TokenCounts, y: Label) -> float:
        counts = self.counts
        if not counts.labels:
            return 1.0
        known = [k for k, weight in enumerate(counts.weights) if weight > 0]
        evidence = [self.log_likelihoods(tokens)]
        (surprise,) = residuals(evidence, self._log_prior(), known, counts.index(y))
        return self.update_weight(surprise, 1.0)
