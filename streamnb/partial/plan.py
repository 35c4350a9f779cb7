"""What is to be learned, as text: a tokenizer and a model, or a model of rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any

from streamnb.classifier import Classifier
from streamnb.errors import ModelFileError
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.model_files import SaveLoadMixin
from streamnb.parameters import parameters_from_json, parameters_to_json
from streamnb.tables.base import TabularNB

VERSION = 1  # of plans and pieces: what was made by another one is refused

Learner = Classifier | TabularNB


def plan_of(learner: Learner) -> str:
    """Describe a classifier or a model of rows; what it has learned is left out.

    Parameters
    ----------
    learner : Classifier or model of rows
        What is to be taught.

    Returns
    -------
    str
        JSON, the same for equal parameters.

    Raises
    ------
    ValueError
        For anything else.

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> from streamnb.partial import fresh, plan_of
    >>> plan = plan_of(Classifier(Tokenizer(), MultinomialNB(alpha=0.5)))
    >>> fresh(plan).model.alpha
    0.5
    """
    if isinstance(learner, Classifier):
        described: dict[str, Any] = {
            "model": learner.model.clone().to_header(),
            "settings": learner.settings(),
        }
    elif isinstance(learner, TabularNB):
        described = {"table": type(learner).__name__, "parameters": parameters_to_json(learner)}
    else:
        raise ValueError(
            f"expected a Classifier (a tokenizer and a model) or a model of rows, "
            f"not {type(learner).__name__}"
        )
    return json.dumps({"version": VERSION, **described}, sort_keys=True)


def fresh(plan: str) -> Any:
    """The classifier, or the model of rows, that a plan describes.

    Raises
    ------
    ModelFileError
        For what is no plan, or one of another version.
    """
    try:
        described = json.loads(plan)
        if described["version"] != VERSION:
            raise ValueError(f"it is of version {described['version']!r:.20}")
        if "table" in described:
            made = SaveLoadMixin.saved_classes[described["table"]]
            return made(**parameters_from_json(described["parameters"], made))
        model = TextModel.from_header(described["model"])
        return Classifier.from_settings(model, described["settings"])
    except Exception as error:  # whatever was done to the text
        raise ModelFileError(f"not a plan of this streamnb ({error!s:.100})") from None


@lru_cache(maxsize=64)
def digest_of(plan: str) -> str:
    """What pieces know their plan by."""
    return sha256(plan.encode()).hexdigest()[:16]


def model_of(learner: Learner) -> tuple[Any, Callable[[Any], Any]]:
    """The model of a learner, and what makes of a message, or a row, what that model takes."""
    if isinstance(learner, Classifier):
        return learner.model, learner.count
    return learner, lambda row: row


def check_sums(learner: Learner) -> None:
    """Raise ValueError for a model that is not the sum of what its examples add."""
    model, _ = model_of(learner)
    if model.order_dependence_reason:
        raise ValueError(model.order_dependence_reason)
