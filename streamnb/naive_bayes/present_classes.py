"""Classes that are present: messages of them still arrive, so they take part in the calibration."""

from __future__ import annotations

from typing import Any, ClassVar

from streamnb import _core
from streamnb.naive_bayes.class_sums import ClassSums


class PresentClasses(ClassSums):
    r"""The classes that are present at a message, which depend on the order of all messages.

    Users often train one folder after the other, or label the rare classes last. Estimates of class
    frequencies (the intercepts of the recalibration, the label noise) would then fit the last
    messages only. So the calibration learns from the probabilities given that the class is one of
    those present. If only the class of the message is present, the message is in a *run*. Then the
    calibration learns almost nothing.

    A class is present if it had a message after the first message of this class, and its last
    message is near. Let n_k of all t messages be of class k. Then t / n_k - 1 others arrive for
    each message of k. The last one is near if fewer than h max(1, t / n_k - 1) others came after
    it. In a mixed stream, a rare class is absent for so long with a probability of about exp(-h).
    With h = log t, this happens about once in t messages. (h is at least 1.)

    Attributes
    ----------
    messages_in_runs : float
        Number of messages after a run of at least a tenth of all messages. A shorter run is not
        counted, because it occurs by chance.

    Examples
    --------
    >>> from streamnb.naive_bayes.present_classes import PresentClasses
    >>> classes = PresentClasses()
    >>> for k in [0, 1, 2] * 20:  # a mixed stream
    ...     _ = classes.learn(k, [0, 1, 2])
    >>> classes.present(0, [0, 1, 2])
    [0, 1, 2]
    >>> for k in [0, 2] * 20:
    ...     _ = classes.learn(k, [0, 1, 2])
    >>> classes.present(0, [0, 1, 2])
    [0, 2]
    """

    delta_names: ClassVar[tuple[str, ...]] = ("presence",)

    def __init__(self) -> None:
        # Of each class: number of messages, position of the first and of the last one, and number
        # of messages in runs.
        super().__init__([0, 0, 0, 0])

    @property
    def messages_in_runs(self) -> float:
        """Number of messages in runs of one class."""
        return float(sum(in_runs for *_, in_runs in self._sums))

    def mixed_fraction(self, class_index: int) -> float:
        """Return the fraction of the messages of a class that were not in runs.

        It is the weight of the label noise in a run. A label of a folder taught alone is not wrong
        because no message before had it. But a mixed stream has short runs by chance, and there a
        label may be wrong as elsewhere.
        """
        n, _, _, in_runs = self.sums(class_index)
        return 1.0 - in_runs / n if n else 0.0

    def present(self, class_index: int, active: list[int]) -> list[int]:
        """Return the classes present at a message of a class, this one included, ascending.

        Parameters
        ----------
        class_index
            Index of the message's class.
        active
            Indices of the classes that have messages, this one included, ascending.
        """
        present: list[int] = _core.present_classes(self._sums, class_index, active)[0]
        return present

    def learn(self, class_index: int, active: list[int]) -> dict[str, list[Any]]:
        """Update the row of a message's class, and return the changes for its receipt."""
        _, n_messages, in_run = _core.present_classes(self._sums, class_index, active)
        n, _, last, _ = self.sums(class_index)
        first = n_messages + 1 if n == 0 else 0
        return self.add(class_index, [1, first, n_messages + 1 - last, in_run])
