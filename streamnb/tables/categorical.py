"""Categorical Naive Bayes."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from streamnb.counts.protocol import Floats, Label
from streamnb.parameters import parameter_class
from streamnb.tables.base import TabularNB
from streamnb.tables.level_counts import LevelCounts, Levels, total_logs
from streamnb.tables.parameters import LevelParameters, PriorParameter


@parameter_class()
class CategoricalNB(PriorParameter, LevelParameters, TabularNB):
    r"""Naive Bayes over features that have one of several levels.

    The score of class c is

        log P(c) + sum over j of log((n_cv + alpha) / (n_c + alpha L_j))

    n_cv is the weight of the examples of class c with level v of feature j. n_c is the weight of
    the examples of class c with any level of feature j. L_j is the number of levels of feature j.

    Levels are any hashable values, and new levels can appear at any time. All parameters can be set
    after training. Missing values (not in the dict, None or NaN) are left out, in training and in
    prediction.

    References
    ----------
    Mitchell, T. (1997). Machine Learning, section 6.9: the weather and the tennis player.

    Examples
    --------
    >>> from streamnb import CategoricalNB
    >>> model = CategoricalNB(alpha=0)
    >>> for outlook, play in zip("oooorrrrrsssss", "yyyyyynynnnnyy"):
    ...     model.learn_one({"outlook": outlook}, play)
    >>> round(model.predict_proba_one({"outlook": "s"})["y"], 6)
    0.4
    >>> model.alpha = 1
    >>> {level: round(p, 4) for level, p in model.likelihoods("y", "outlook").items()}
    {'o': 0.4167, 'r': 0.3333, 's': 0.25}
    """

    def _new_statistics(self) -> LevelCounts:
        return LevelCounts()

    def _evidence(self, rows: Levels) -> Floats:
        return total_logs(*self.statistics.logs(rows, self.alpha, self.unseen == "smooth"))

    def _gains(self, rows: Levels) -> tuple[list[Hashable], Floats]:
        logs, valid = self.statistics.logs(rows, self.alpha, self.unseen == "smooth")
        return rows.names, np.where(valid[0, :, None], logs[0], 0.0)

    def likelihoods(self, label: Label, feature: Hashable) -> dict[Hashable, float]:
        """Return the smoothed P(level | class) of every level of a feature.

        Raises
        ------
        ValueError
            If the class or the feature was never learned.
        """
        place, j = self._find_indices(self.statistics.features, label, feature)
        levels = list(self.statistics.level_ids[j])
        rows = Levels.of_feature(feature, levels)
        logs, valid = self.statistics.logs(rows, self.alpha, False)
        probabilities = np.exp(logs[:, 0, place])
        return {
            level: float(probability)
            for level, probability, is_valid in zip(levels, probabilities, valid[:, 0], strict=True)
            if is_valid
        }
