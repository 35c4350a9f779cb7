"""Explanations of a message by the state that a model had at one moment, computed later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamnb.counts.protocol import Floats, Label
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.text_model import TextModel


class Snapshot(NamedTuple):
    """The state of a model, at one moment, that explains a message.

    Attributes
    ----------
    views
        The features of each view.
    cells
        Counts of these features in each class: shape (n, K) for each view.
    scales
        The unit of the counts of each view (`Counts.scale`).
    labels
        The K classes.
    explain
        Returns the explanation of each view by the state of that moment.
    """

    views: tuple[TokenCounts, ...]
    cells: list[Floats]
    scales: list[float]
    labels: list[Label]
    explain: Callable[[], list[Explanation]]


def take_snapshot(model: TextModel, tokens: Any) -> Snapshot:
    """Return what explains a message; the explanations are computed when they are read.

    Taking it costs a look-up of the message's counts, unless the model computes its explanations at
    once (`TextModel.explain_later`).
    """
    tokens = model.as_tokens(tokens)
    views = model.views_of(tokens)
    cells = [
        view_model.counts.get_counts(view.fingerprints)[0]
        for view_model, view in zip(model.view_models, views, strict=True)
    ]
    scales = [view_model.counts.scale for view_model in model.view_models]
    explain = model.explain_later(tokens, cells)
    return Snapshot(views, cells, scales, list(model.labels), explain)
