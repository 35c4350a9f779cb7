"""Explanations of a message by the state that a model had at one moment, computed later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from streamnb.counts.part import SubsetCounts
from streamnb.counts.protocol import Floats, Label
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.counting import CountingNB
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.text_model import TextModel
from streamnb.naive_bayes.views import ViewsNB
from streamnb.naive_bayes.window import WindowNB


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

    Taking it costs a look-up of the message's counts. Models in a transaction of a database, and
    models whose formula needs more than these counts, compute the explanations at once.
    """
    tokens = model.as_tokens(tokens)
    views = model.views_of(tokens)
    cells = [
        view_model.counts.get_counts(view.fingerprints)[0]
        for view_model, view in zip(model.view_models, views, strict=True)
    ]
    scales = [view_model.counts.scale for view_model in model.view_models]
    inner = model.model if isinstance(model, WindowNB) else model
    explain = _explainer(inner, tokens, views, cells)
    return Snapshot(views, cells, scales, list(model.labels), explain)


def _explainer(
    model: TextModel, tokens: Any, views: Sequence[TokenCounts], cells: Sequence[Floats]
) -> Callable[[], list[Explanation]]:
    """Return a function that explains a message by the state that the model has now."""
    needs_all = any(
        view_model.counts.in_transaction or view_model.track_values
        for view_model in model.view_models
    )
    if needs_all or not isinstance(model, (CountingNB, ViewsNB)):
        explanations = model.explain_views(tokens)
        return lambda: explanations
    frozen = [
        _freeze(view_model, view, view_cells)
        for view_model, view, view_cells in zip(model.view_models, views, cells, strict=True)
    ]
    if isinstance(model, CountingNB):
        return lambda: frozen[0]().explain_views(tokens)
    terms = model.explanation_terms(tokens)
    return lambda: terms.explain([thaw() for thaw in frozen])


def _freeze(model: CountingNB, tokens: TokenCounts, cells: Floats) -> Callable[[], CountingNB]:
    """Return a function that makes a copy of a model as it is now, with counts of one message."""
    state, counts = dict(vars(model)), model.counts
    labels, weights, totals = list(counts.labels), list(counts.weights), list(counts.totals)
    n_features, scale = counts.features, counts.scale

    def thaw() -> CountingNB:
        subset = SubsetCounts.from_cells(
            tokens.fingerprints, cells, labels, weights, totals, n_features
        )
        subset.scale = scale
        copy: CountingNB = type(model).__new__(type(model))
        vars(copy).update(state, counts=subset, lock=copy.lock)
        return copy

    return thaw
