"""Model specs: the parameters of a classifier or tabular model as text, without its counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any

from streamnb.classifier import Classifier
from streamnb.errors import ModelFileError
from streamnb.naive_bayes.model_files import SaveLoadMixin
from streamnb.naive_bayes.text_model import TextModel
from streamnb.parameters import parameters_from_json, parameters_to_json
from streamnb.tables.base import TabularNB

VERSION = 1  # version of specs and partial counts; other versions raise an error

Learner = Classifier | TabularNB


def spec_of(learner: Learner) -> str:
    """Return the spec of a classifier or a tabular model, without its learned state.

    Returns
    -------
    str
        JSON. Equal parameters give equal text.

    Raises
    ------
    ValueError
        For any other object.

    Examples
    --------
    >>> from streamnb import Classifier, MultinomialNB, Tokenizer
    >>> from streamnb.partial import new_model, spec_of
    >>> spec = spec_of(Classifier(Tokenizer(), MultinomialNB(alpha=0.5)))
    >>> new_model(spec).model.alpha
    0.5
    """
    if isinstance(learner, Classifier):
        content: dict[str, Any] = {
            "model": learner.model.clone().to_header(),
            "settings": learner.settings(),
        }
    elif isinstance(learner, TabularNB):
        content = {"table": type(learner).__name__, "parameters": parameters_to_json(learner)}
    else:
        raise ValueError(
            f"expected a Classifier (a tokenizer and a model) or a model of tables, "
            f"not {type(learner).__name__}"
        )
    return json.dumps({"version": VERSION, **content}, sort_keys=True)


def new_model(spec: str) -> Any:
    """Return an untrained classifier or tabular model with the parameters of a spec.

    Raises
    ------
    ModelFileError
        If the text is not a spec, or one of another version.
    """
    try:
        content = json.loads(spec)
        if content["version"] != VERSION:
            raise ValueError(f"its version is {content['version']!r:.20}, expected {VERSION}")
        if "table" in content:
            model_class = SaveLoadMixin.saved_classes[content["table"]]
            return model_class(**parameters_from_json(content["parameters"], model_class))
        model = TextModel.from_header(content["model"])
        return Classifier.from_settings(model, content["settings"])
    except Exception as error:  # the text can have any content
        raise ModelFileError(f"not a model spec of this version ({error!s:.100})") from None


@lru_cache(maxsize=64)
def spec_digest(spec: str) -> str:
    """Return the digest of a spec, which its partial counts contain."""
    return sha256(spec.encode()).hexdigest()[:16]


def split_learner(learner: Learner) -> tuple[Any, Callable[[Any], Any]]:
    """Return the model of a learner, and the function that computes features."""
    if isinstance(learner, Classifier):
        return learner.model, learner.count
    return learner, lambda row: row


def check_sums(learner: Learner) -> None:
    """Raise ValueError if a model is not a sum over its examples."""
    model, _ = split_learner(learner)
    if model.order_dependence_reason:
        raise ValueError(model.order_dependence_reason)
