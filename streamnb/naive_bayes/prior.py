"""The prior of a class: what is known of a message before it is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping

from streamnb import _core
from streamnb.counts.protocol import Label
from streamnb.parameters import Prior


def log_prior(prior: Prior, labels: list[Label], weights: list[float]) -> list[float]:
    """Log prior of each class; -inf for one that nothing is left of, unless it is given."""
    alive = [weight > 0 for weight in weights]
    if not any(alive):  # nothing is known of any class
        alive, weights = [True] * len(labels), [1.0] * len(labels)
    if prior == "none":
        return [0.0 if some else -math.inf for some in alive]
    if isinstance(prior, Mapping):
        shares = [float(prior.get(label, 0.0)) for label in labels]
    else:
        shares = weights if prior == "learned" else [float(some) for some in alive]
    total = math.fsum(shares)
    if total == 0:  # a given prior that names none of the classes says nothing
        return [0.0] * len(labels)
    return [_core.log(share / total) for share in shares]
