"""The class prior."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from streamnb import _core
from streamnb.constraints import Prior
from streamnb.counts.protocol import Label
from streamnb.errors import ConfigError


class PriorError(ConfigError, ValueError):
    """The class prior has no share for a class, or a share for an unknown class."""


def check_prior(prior: Prior, labels: Iterable[Label]) -> None:
    """Raise PriorError if a prior that is a mapping has no share for one of the classes.

    The mapping can have further classes, which have no messages yet.
    """
    if not isinstance(prior, Mapping):
        return
    missing = next((label for label in labels if label not in prior), None)
    if missing is None:
        return
    import difflib  # here: only errors need it

    hint = "give each class a share"
    near = difflib.get_close_matches(str(missing), map(str, prior), n=1)
    if str(missing) in map(str, prior):
        hint = f"the class is of the type {type(missing).__name__}: write {missing!r:.80}"
    elif near:
        hint = f"did you mean {str(missing)!r} instead of {near[0]!r}?"
    elif isinstance(missing, str) and not any(isinstance(label, str) for label in prior):
        hint = "a label that is text must be quoted in YAML (yes, no, on, off, 1)"
    named = ", ".join(f"{label!r:.80}" for label in list(prior)[:20])
    raise PriorError(f"prior: no share for class {missing!r:.80}, only for {named}; {hint}")


def check_whole_prior(prior: Prior, labels: Iterable[Label]) -> None:
    """Raise PriorError if a prior is a mapping whose keys are not exactly the given classes."""
    if not isinstance(prior, Mapping):
        return
    known_labels = set(labels)
    check_prior(prior, known_labels)
    for label in prior:
        if label not in known_labels:
            raise PriorError(f"prior: no example is of class {label!r:.80}; remove its share")


def log_prior(prior: Prior, labels: list[Label], weights: list[float]) -> list[float]:
    """Return the log prior of each class, shape (K,).

    Parameters
    ----------
    prior : str or mapping
        "learned", "uniform", "none", or a mapping of labels to shares.
    labels : list
        The K classes.
    weights : list of float
        Weight of the messages learned of each class. A class of weight 0 has the log prior -inf,
        except if a mapping has a share for it, or if nothing was learned.

    Raises
    ------
    ValueError
        If a mapping has no share for one of the classes.
    """
    check_prior(prior, labels)
    has_messages = [weight > 0 for weight in weights]
    if not any(has_messages):
        has_messages, weights = [True] * len(labels), [1.0] * len(labels)
    if prior == "none":
        return [0.0 if is_seen else -math.inf for is_seen in has_messages]
    if isinstance(prior, Mapping):
        shares = [float(prior[label]) for label in labels]
    else:
        shares = weights if prior == "learned" else [float(is_seen) for is_seen in has_messages]
    total = math.fsum(shares)
    if total == 0:  # each class so far has a share of 0, so the prior is uniform
        return [0.0] * len(labels)
    return [_core.log(share / total) for share in shares]
