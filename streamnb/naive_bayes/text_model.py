"""The interface of text models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Label
from streamnb.errors import OutputError
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.naive_bayes.explanation import Contributions, Explanation
from streamnb.naive_bayes.matrices import Rows, as_list, as_weights, is_matrix, labels_of_rows
from streamnb.naive_bayes.mini_batches import PredictManyMixin
from streamnb.naive_bayes.model_files import ReadArray, SaveLoadMixin
from streamnb.naive_bayes.priors import check_prior
from streamnb.naive_bayes.receipt import Receipt, UnlearnMixin


def check_feedback(feedback: str | None) -> str | None:
    """Return a valid value of `feedback`: "all", "errors", or None to infer it.

    Raises
    ------
    ValueError
        If it is another word.
    """
    if feedback not in (None, "all", "errors"):
        raise ValueError(f"feedback: {feedback!r:.80} is not 'all', 'errors' or None")
    return feedback


class TextModel(UnlearnMixin, SaveLoadMixin, PredictManyMixin):
    """Base class of text models, and the interface that classifiers, mailboxes and replays use.

    A subclass decides how a message is represented: as one set of features, or as several views.
    It has `view_models`, and implements learning, unlearning and scores. State other than counts
    is read and set by `state` and `restore`. `Receipt.deltas` has the changes that a message makes
    to it, under a name of the subclass.

    Several threads can share a model: each call of a public method holds the model's lock.
    """

    noun: ClassVar[str] = "model of texts"  # in errors about files
    receipt: Receipt | None
    discriminative: ClassVar[bool] = True  # update weights depend on the model's own predictions
    takes_views: ClassVar[bool] = False  # a message is a sequence of views

    @property
    def order_dependence_reason(self) -> str:
        """Return why the result depends on the order of messages, or "" if it does not."""
        if not self.discriminative:
            return ""
        return (
            f"a {type(self).__name__} depends on the order of messages, so it cannot be computed "
            "exactly from parts of the stream; set shards= for an approximation"
        )

    @property
    def view_models(self) -> Sequence[Any]:
        """The counting models (`CountingNB`), one for each view of a message."""
        raise NotImplementedError

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order in which they were first seen."""
        return self.view_models[0].counts.labels

    @property
    def features(self) -> int:
        """Number of features that have a count, summed over the views."""
        return sum(model.counts.features for model in self.view_models)

    # Messages

    def as_tokens(self, x: Any) -> Any:
        """Convert a message to the features that the model counts.

        The result does not depend on the model's state, so it can be stored and used again.
        """
        raise NotImplementedError

    def views_of(self, tokens: Any) -> tuple[TokenCounts, ...]:
        """Return the features of each view of a message that `as_tokens` returned."""
        views: tuple[TokenCounts, ...] = tokens
        return views

    def join_views(self, views: tuple[TokenCounts, ...]) -> Any:
        """Return the message that has these views; `views_of` is the inverse."""
        return views

    def messages_of(self, X: Any) -> Iterable[Any]:
        """Return the rows of a matrix or frame as messages."""
        rows = Rows.from_matrix(X, True, canonical=False)
        rows.check_counts()
        return rows.messages()

    # Learning

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message and return the receipt that `unlearn` needs."""
        raise NotImplementedError

    def relearn_one(self, x: Any, y: Label, receipt: Receipt, w: float = 1.0) -> Receipt:
        """Learn a message again, after others were learned or unlearned.

        Parameters
        ----------
        x, y, w
            The arguments of `learn_one`. Update weights are computed again.
        receipt
            The receipt of the first time. It records whether the label was a correction.

        Returns
        -------
        Receipt
            The new receipt.
        """
        return self.learn(x, y, w)

    def learn_one(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> None:
        """Learn a message.

        Parameters
        ----------
        x : mapping, TokenCounts or sequence of those
            Features and their counts; a sequence has one item for each view.
        y : str, bool or int
            The label. Any hashable value works, but files store only str, bool, int and float.
        w : float, default 1.0
            The weight of the message, >= 0.
        feedback : {"all", "errors"}, default None
            Which messages get labels: all of them, or only those that were predicted wrongly. None
            to infer it from the mistakes (`SelectiveFeedback`). Models that do not recalibrate
            ignore it.

        Raises
        ------
        TypeError
            If `x` is not a message.
        ValueError
            If a count or the weight is not a finite number >= 0, or `feedback` is another word.
            The model is then unchanged.
        """
        receipt = self.learn(x, y, w, check_feedback(feedback))
        object.__setattr__(self, "receipt", receipt)  # without the search for a parameter

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one` with the same arguments, exactly if weights are integers.

        A class whose messages were all unlearned remains in `labels`. Its probability is 0 while
        another class has messages.

        Parameters
        ----------
        x, y, w
            The arguments of `learn_one`.
        receipt : Receipt, default None
            The value of `receipt` right after learning. Required by models in which messages have
            different weights: discriminative models, models with decay, and models of several
            views. If it is given, `w` is ignored.

        Raises
        ------
        ValueError
            If this was never learned (a count would fall below zero). Also if the receipt is
            missing, damaged or of another model. The model is then unchanged. Models with decay,
            and models that evicted features (`max_features`), raise no error for absent counts:
            they subtract at most the counts that remain.
        """
        with self.lock:
            if receipt is None:
                if self._needs_receipt:
                    raise ValueError(
                        "this model needs the receipt to unlearn: store `model.receipt` after "
                        "learn_one"
                    )
                receipt = self._default_receipt(w)
            self.unlearn(x, y, receipt)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages, one after the other.

        Parameters
        ----------
        X : iterable of messages, matrix or frame
            A row of a matrix or frame is a message; its columns are features.
        y : sequence
            The labels.
        w : float or sequence of float, default None
            The weights; None for 1.

        Raises
        ------
        TypeError, ValueError
            As `learn_one`, and if lengths differ. The model is then unchanged.
        """
        X = as_list(X)
        messages = [self.as_tokens(x) for x in (self.messages_of(X) if is_matrix(X) else X)]
        labels = labels_of_rows(y, len(messages))
        weights = as_weights(w, len(labels)).tolist()
        with self.lock:
            self.check_classes(labels)
            for message, label, weight in zip(messages, labels, weights, strict=True):
                self.learn_one(message, label, weight)

    def check_classes(self, labels: Iterable[Label]) -> None:
        """Raise ValueError if the prior has no share for the class of a label."""
        check_prior(getattr(self, "prior", "learned"), labels)

    @property
    def _needs_receipt(self) -> bool:
        """Return whether unlearning needs the receipt."""
        return True

    def _default_receipt(self, w: float) -> Receipt:
        """Return a receipt for a message of weight `w` whose receipt was not stored."""
        raise NotImplementedError

    @property
    def params_version(self) -> int:
        """A number that increases with each change of a parameter."""
        return int(getattr(self, "_params_version", 0))

    def _has_learned(self) -> bool:
        return "counts" in vars(self) and any(vars(self)["counts"].weights)

    # Explanations

    def explain_views(self, x: Any) -> list[Explanation]:
        """Return an explanation for each view: the contribution of each feature to each class.

        The scores of the views add up to those of the message.
        """
        raise NotImplementedError

    def contributions(self, x: Any) -> list[Contributions]:
        """Return the contributions of `explain_views`, without the slower computation of scores."""
        return [cast("Contributions", view.contributions) for view in self.explain_views(x)]

    def explain_one(self, x: Any) -> Explanation:
        """Return the contribution of each feature of a message to the score of each class.

        If there are several views, a feature is named by the pair of view index and feature.
        """
        with self.lock:
            views = self.explain_views(x)
        if len(views) == 1:
            return views[0]
        contributions: dict[Feature, dict[Label, float]] = {
            (view_index, feature): by_class
            for view_index, view in enumerate(views)
            for feature, by_class in view.contributions.items()
        }
        return Explanation.sum_views(views, contributions)

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        messages = Rows.from_matrix(X, True, canonical=False).messages() if is_matrix(X) else X
        scores = [self._scores(x) for x in messages]
        return np.array(scores, dtype=float).reshape(len(scores), len(self.labels))

    # State next to the counts

    def state(self) -> dict[str, Any]:
        """Return the learned state other than counts, as JSON values."""
        return {}

    def restore(self, state: Any) -> None:
        """Set the state that `state` returned. A damaged one raises an exception of any type."""

    @property
    def messages_in_runs(self) -> float:
        """Number of messages learned in runs of one class; 0 if the order makes no difference."""
        return 0.0

    def reliability_counts(self, y: Label) -> tuple[int, int] | None:
        """Return the numbers of correct and wrong predictions of a class.

        Predictions count before their messages are learned. Return None if the model does not
        count them.
        """
        return None

    def is_ready(self, y: Label) -> bool:
        """Return whether programs can act on predictions of a class without review."""
        return True

    def deltas_since(self, before: Any) -> dict[str, Any]:
        """Return the difference of this state and an earlier one, in the form of a receipt."""
        return {}

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError if a receipt does not fit this model's views or its classes."""
        receipt.check(len(self.view_models))
        if receipt.decay_halvings not in range(self.view_models[0].counts.decay_halvings + 1):
            raise ValueError("the receipt comes from a later state, or from another model")
        if receipt.deltas:
            raise ValueError(
                f"the receipt comes from another kind of model: it has changes of "
                f"{', '.join(sorted(receipt.deltas))}"
            )

    def remap_classes(self, receipt: Receipt, order: Sequence[int | None]) -> Receipt:
        """Return a receipt with the classes in another order.

        Class k had the index `order[k]`, or None if it is new.
        """
        return receipt

    def check_storable(self) -> None:
        """Raise ValueError if the model cannot be stored in a database."""
        for model in self.view_models:
            if model.track_values:
                raise ValueError(f"a {type(model).__name__} cannot be stored in a database")
            if model.decay != 1:
                raise ValueError("a model with decay < 1 cannot be stored in a database")
            if model.max_features is not None:
                raise ValueError(
                    "a model with max_features cannot be stored in a database; "
                    "compact the database instead"
                )

    # Files

    def to_header(self) -> dict[str, Any]:
        """Return the model without its counts, as JSON values."""
        return {
            "model": type(self).__name__,
            "view_models": [model.view_header() for model in self.view_models],
            "key": _core.DEFAULT_KEY.hex(),
            **self.state(),
        }

    def reordered_header(self, order: Sequence[int]) -> dict[str, Any]:
        """Return `to_header` with the classes in another order: k had the index `order[k]`."""
        return self.to_header()

    @staticmethod
    def from_header(header: Mapping[str, Any]) -> TextModel:
        """Return the model of a header. A damaged one raises an exception of any type."""
        if header["key"] != _core.DEFAULT_KEY.hex():
            raise ValueError("the model's features were hashed with another key")
        classes = SaveLoadMixin.saved_classes
        view_models = [
            classes[described["model"]].from_view_header(described)
            for described in header["view_models"]
        ]
        model: TextModel = classes[header["model"]]._from_view_models(view_models, header)
        model.restore(header)
        return model

    @classmethod
    def _from_view_models(cls, view_models: list[Any], header: Mapping[str, Any]) -> Self:
        """Return a model with these view models, or raise any exception if they do not fit."""
        raise NotImplementedError

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        header = self.to_header()
        arrays: dict[str, Any] = {}
        pairs = zip(header["view_models"], self.view_models, strict=True)
        for view_index, (described, model) in enumerate(pairs):
            if not isinstance(model.counts, MemoryCounts):
                raise OutputError("only counts in memory are written to a model file")
            sizes, view_arrays = model.counts.file_parts()
            described.update(sizes)
            arrays |= {f"{view_index}.{name}": array for name, array in view_arrays.items()}
        return header, arrays

    @classmethod
    def _from_file(cls, header: Any, array: ReadArray) -> Self:
        model = cls.from_header(header)
        if not isinstance(model, cls):
            raise TypeError("not a text model")
        pairs = zip(header["view_models"], model.view_models, strict=True)
        for view_index, (described, view_model) in enumerate(pairs):
            prefix = f"{view_index}."
            counts = MemoryCounts(view_model.keep_names, view_model.track_values)
            counts.load(
                described,
                lambda name, *args, prefix=prefix, **kwargs: array(prefix + name, *args, **kwargs),
            )
            view_model.counts = counts
        if any(view_model.counts.labels != model.labels for view_model in model.view_models):
            raise ValueError("the views have different classes")
        return model
