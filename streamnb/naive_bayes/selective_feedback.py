"""An online estimate of whether the user labels all messages, or only mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from streamnb.naive_bayes.online_estimator import LARGEST_NUMBER, OnlineEstimator

# Updates are multiples of this step, so sums are exact and each update can be undone.
_STEP = 2.0**-36


class SelectiveFeedback(OnlineEstimator):
    r"""Online estimate of whether the user labels all messages, or corrects mistakes only.

    Many users label only mistakes. Each label then contradicts the model, even a very good one. If
    such labels counted as a sample of all messages, the model would learn that its predictions are
    worthless, or that many labels are wrong. So the estimate sums the probabilities of predicted
    classes over consecutive mistakes; a correct prediction resets the sum. As the sum rises from 3
    to 4, the sampling weight of a mistake falls from 1 to 0. Wrong labels cause consecutive
    mistakes, too, so the noise weight falls as the sum rises from 10 to 20. A model without a
    correct prediction starts at 20.

    For a while, labels can be random, for example because a user moves ten messages to the wrong
    folder. Their probability starts with one such run in a thousand messages, and Bayes' rule
    updates it with each mistake. A random label has the probability 1 / K, with K classes.

    A corrected message is selected because the predicted class m is wrong. Given the selection,
    its likelihood is p_y / (1 - p_m) (compare Heckman 1979). With two classes it is 1, so slopes
    learn nothing. Intercepts learn from corrections as from other messages. They move until
    mistakes of both classes occur, as in a perceptron.

    References
    ----------
    Heckman, J. J. (1979). Sample selection bias as a specification error. Econometrica 47.

    Examples
    --------
    >>> from streamnb.naive_bayes.selective_feedback import SelectiveFeedback
    >>> feedback = SelectiveFeedback()
    >>> feedback.weights(False)
    (0.0, 0.0)
    >>> _ = feedback.learn(True, 0.9)
    >>> feedback.weights(False)
    (1.0, 1.0)
    >>> for _ in range(5):
    ...     _ = feedback.learn(False, 0.7)
    >>> sampling_weight, noise_weight = feedback.weights(False)
    >>> round(sampling_weight, 9), noise_weight
    (0.5, 1.0)
    """

    delta_names: ClassVar[tuple[str, ...]] = ("corrections", "random")

    # Limits of the sum of probabilities over consecutive mistakes. Chance explains a sum up to
    # _CHANCE, and wrong labels a sum up to _WRONG_LABELS. With a noise weight that falls from
    # _CHANCE on, ten wrong labels in a row can make half of all predictions wrong.
    _CHANCE, _WRONG_LABELS = 3.0, 10.0
    _LARGEST_SUM = 2 * _WRONG_LABELS  # the noise weight is 0 from here on
    _RANDOM_LABELS = 1e-3  # probability that a run of random labels starts, or ends

    def __init__(self, mistakes: float = _LARGEST_SUM, random: float = 0.0) -> None:
        self.mistakes: float = mistakes
        self.random: float = random  # probability that the last label was random

    def weights(self, is_correct: bool, feedback: str | None = None) -> tuple[float, float]:
        """Return the sampling weight and the noise weight of a message, both from 0 to 1.

        The sampling weight is the probability that the user labels messages after any prediction.
        The noise weight is the weight of the posterior of `LabelNoise`, against the label itself.

        Parameters
        ----------
        is_correct
            Whether the prediction was correct.
        feedback
            "all" or "errors" if the caller knows which messages get labels; None to infer it.
        """
        if is_correct or feedback == "all":
            return 1.0, 1.0
        if feedback == "errors":
            return 0.0, 0.0
        noise_weight = (self._LARGEST_SUM - self.mistakes) / (
            self._LARGEST_SUM - self._WRONG_LABELS
        )
        return (
            min(max(1 + self._CHANCE - self.mistakes, 0.0), 1.0),
            min(max(noise_weight, 0.0), 1.0),
        )

    def random_proba(self, is_correct: bool) -> float:
        """Return the probability that the next label is random; 0 if it confirms a prediction."""
        if is_correct:
            return 0.0
        random = min(max(self.random, 0.0), 1.0)
        return random + self._RANDOM_LABELS * (1 - 2 * random)

    def learn(self, is_correct: bool, proba: float, random: float = 0.0) -> dict[str, float]:
        """Update the estimates, and return the changes for the receipt.

        Parameters
        ----------
        is_correct
            Whether the prediction was correct.
        proba
            Probability of the predicted class.
        random
            Probability that the label was random, computed after the label is known.
        """
        if is_correct:
            if not self.mistakes and not self.random:
                return {}
            mistakes = random = 0.0
        else:
            mistakes = min(max(self.mistakes, 0.0), self._LARGEST_SUM)
            mistakes = min(mistakes + round(proba / _STEP) * _STEP, self._LARGEST_SUM)
            random = round(random / _STEP) * _STEP
        deltas = {"corrections": mistakes - self.mistakes, "random": random - self.random}
        self.mistakes, self.random = mistakes, random
        return {name: delta for name, delta in deltas.items() if delta}

    def apply(self, deltas: Mapping[str, Any], sign: int) -> None:
        """Apply the updates of a receipt (`sign` 1), or undo them (-1)."""
        self.mistakes += sign * deltas.get("corrections", 0.0)
        self.random += sign * deltas.get("random", 0.0)

    def check(self, deltas: Mapping[str, Any], n_classes: int) -> None:
        """Raise ValueError if the updates cannot come from a model."""
        self.from_state({"corrections": 0.0, **deltas})

    def state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"corrections": self.mistakes, "random": self.random}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Create the estimate from `state`. Raise ValueError if it is not valid."""
        values = [state["corrections"], state.get("random", 0.0)]  # receipts omit changes of 0
        if not all(type(x) in (int, float) and abs(x) <= LARGEST_NUMBER for x in values):
            raise ValueError("the state of consecutive mistakes is not valid")
        return cls(*map(float, values))
