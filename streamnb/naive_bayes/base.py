"""The interface of every text model: one view of a message or many, windowed or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from streamnb import _core
from streamnb.counts.memory import MemoryCounts
from streamnb.counts.protocol import Label, check_labels
from streamnb.errors import OutputError
from streamnb.features.token_counts import Feature, TokenCounts
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.mini_batches import PredictManyMixin
from streamnb.naive_bayes.model_files import ReadArray, SaveLoadMixin
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.rows import Rows, as_labels, as_weights, is_matrix
from streamnb.parameters import ParametersMixin
from streamnb.scores import best_index, probabilities

if TYPE_CHECKING:
    from streamnb.naive_bayes.counting import CountingNB


class ScorerMixin(ParametersMixin):
    """A model that gives each of its labels a score: the logarithm of prior times likelihood."""

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order they came."""
        raise NotImplementedError

    def _scores(self, x: Any) -> list[float]:
        raise NotImplementedError

    def joint_log_likelihood(self, x: Any) -> dict[Label, float]:
        """Log of prior times likelihood, for each class."""
        with self.lock:
            return dict(zip(self.labels, self._scores(x), strict=True))

    def predict_proba_one(self, x: Any, **kwargs: Any) -> dict[Label, float]:
        """Probability of each class; {} before anything was learned."""
        with self.lock:
            if not self.labels:
                return {}
            return dict(zip(self.labels, probabilities(self._scores(x)), strict=True))

    def predict_one(self, x: Any, **kwargs: Any) -> Label | None:
        """The most probable class, the first learned of equals; None where nothing was learned."""
        with self.lock:
            if not self.labels:
                return None
            scores = self._scores(x)
            return self.labels[best_index(scores)]

    @property
    def order_dependence_reason(self) -> str:
        """Why what an example adds depends on those before it; "" where it does not."""
        return ""

    def check_merge(self, other: Any) -> None:
        """Raise ValueError where another model counts different things."""
        raise NotImplementedError

    def _merge(self, other: Any) -> None:
        raise NotImplementedError

    def merge(self, other: Self) -> None:
        """Add what another model learned.

        Where what an example adds does not depend on those before it (`order_dependence_reason` is empty)
        that is the same as having learned both streams.

        Raises
        ------
        ValueError
            Where the models count different things. Nothing has changed.
        """
        if not isinstance(other, ScorerMixin):
            raise ValueError(f"cannot merge a {type(other).__name__} into a {type(self).__name__}")
        first, second = sorted((self, other), key=id)  # two merges crosswise must not wait for ever
        with first.lock, second.lock:
            self.check_merge(other)
            self._merge(other)


class TextModel(ScorerMixin, SaveLoadMixin, PredictManyMixin):
    """A model of messages: what a message is, its features or several views of it, is its own.

    Everything above the models (classifiers, mailboxes, replays) speaks to this interface alone. A
    new model says who its `members` are and how it learns, unlearns and scores; what it keeps
    beside the counts of its members it gives and takes by `state` and `restore`, and what a message
    changed of that is a part of the receipt, under a name of its own.

    Threads can share a model: each call of a public method is done as a whole.
    """

    receipt: Receipt | None
    discriminative: ClassVar[bool] = True  # whether it learns what it did not know already

    @property
    def order_dependence_reason(self) -> str:
        """Why what a message adds depends on those before it; "" where it does not."""
        if not self.discriminative:
            return ""
        return (
            f"{type(self).__name__} learns from what it got wrong, one message after the other: "
            "it is no sum of parts; ask for an approximation with shards="
        )

    @property
    def takes_views(self) -> bool:
        """Whether a message is a sequence of views."""
        return False

    # What a model says of itself

    @property
    def view_models(self) -> Sequence[CountingNB]:
        """The counting models, one for each view of a message."""
        raise NotImplementedError

    @property
    def labels(self) -> list[Label]:
        """The classes, in the order they came."""
        return self.view_models[0].counts.labels

    def as_tokens(self, x: Any) -> Any:
        """A message as the model counts it, good for as long as one likes."""
        raise NotImplementedError

    def views_of(self, tokens: Any) -> tuple[TokenCounts, ...]:
        """The features of each view of what `as_tokens` gave."""
        raise NotImplementedError

    def join_views(self, views: tuple[TokenCounts, ...]) -> Any:
        """The message that has these views."""
        raise NotImplementedError

    def learn(self, x: Any, y: Label, w: float = 1.0) -> Receipt:
        """Learn a message; the receipt is what `unlearn` wants."""
        raise NotImplementedError

    def relearn_one(self, x: Any, y: Label, receipt: Receipt) -> Receipt:
        """Learn a message once more, in another order: as it was told when it gave a receipt."""
        return self.learn(x, y)

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Take back what a receipt says, or raise ValueError and change nothing."""
        raise NotImplementedError

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Do again what a receipt says, exactly."""
        raise NotImplementedError

    def explain_views(self, x: Any) -> list[Explanation]:
        """Say what each feature added to each class: an explanation for each view.

        The scores of the views add up to those of the message.
        """
        raise NotImplementedError

    @property
    def _needs_receipt(self) -> bool:
        """Whether unlearning wants the receipt."""
        return True

    def _default_receipt(self, w: float) -> Receipt:
        """What learning must have added where no receipt was kept."""
        raise NotImplementedError

    # What a model keeps beside the counts of its members: nothing, unless it says so

    def state(self) -> dict[str, Any]:
        """What was learned beside the counts, as JSON can hold it."""
        return {}

    def restore(self, state: Any) -> None:
        """Take over what `state` gave; any exception where it is not sound."""

    @property
    def messages_in_runs(self) -> float:
        """How many messages came in an order that harms; 0 where order makes no difference."""
        return 0.0

    def reliability_counts(self, y: Label) -> tuple[int, int] | None:
        """How often a class was called rightly and wrongly, before messages were learned.

        None for a model that keeps no such record.
        """
        return None

    def is_ready(self, y: Label) -> bool:
        """Whether a class was called rightly often enough that nobody needs to look."""
        return True

    def deltas_since(self, before: Any) -> dict[str, Any]:
        """What a receipt would say that leads from another model's state to this one's."""
        return {}

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError for a receipt of other members or more classes."""
        if len(receipt.view_weights) != len(self.view_models):
            raise ValueError("a message of other views")
        if receipt.deltas:
            raise ValueError("a receipt of another model")

    def remap_classes(self, receipt: Receipt, order: Sequence[int | None]) -> Receipt:
        """A receipt where class k was number order[k] before; None: there was none."""
        return receipt

    def check_storable(self) -> None:
        """Raise ValueError for a model that cannot be kept in a database."""
        for member in self.view_models:
            if member.track_values:
                raise ValueError(f"a {type(member).__name__} cannot be kept in a database")
            if member.decay != 1:
                raise ValueError("a model that decays cannot be kept in a database")

    @classmethod
    def _from_view_models(cls, members: list[Any], outlined: Mapping[str, Any]) -> Self:
        """The model of some members; any exception where they are not its own."""
        raise NotImplementedError

    # The same for all

    def learn_one(self, x: Any, y: Label, w: float = 1.0) -> None:
        """Learn a message.

        Parameters
        ----------
        x : mapping, TokenCounts or sequence of those
            Features and their counts; with several views of a message, one for each.
        y : str, bool or int
            Its label. Other hashable labels work too, but only those and float can be saved.
        w : float, default 1.0
            Its weight, >= 0.

        Raises
        ------
        TypeError
            For what is no message.
        ValueError
            For a count or weight that is NaN, infinite, negative or no number. Nothing has changed.
        """
        self.receipt = self.learn(x, y, w)

    def unlearn_one(self, x: Any, y: Label, w: float = 1.0, receipt: Receipt | None = None) -> None:
        """Undo `learn_one` with the same arguments: exactly, while weights are whole numbers.

        A class of which nothing is left stays known, with probability 0.

        Parameters
        ----------
        x, y, w
            What was learned.
        receipt : Receipt, default None
            `receipt` as it was right after the learning. A model whose messages do not all weigh
            the same (discriminative ones, those that decay, several views) needs it; `w` is then
            not looked at.

        Raises
        ------
        ValueError
            Where this was never learned (a count would fall below zero), or a receipt is missing.
            Nothing has changed. Where weights decay, what is left of a message cannot be told from
            the rest: no more is taken than is there.
        """
        with self.lock:
            if receipt is None:
                if self._needs_receipt:
                    raise ValueError(
                        "to unlearn, this model needs the receipt: keep `model.receipt` after "
                        "learn_one"
                    )
                receipt = self._default_receipt(w)
            self.unlearn(x, y, receipt)

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn many messages, one after the other.

        Parameters
        ----------
        X : iterable of messages, matrix or frame
            A row of a matrix or frame is a message of its columns' features.
        y : sequence
            Their labels.
        w : float or sequence of float, default None
            Their weights; None for 1.

        Raises
        ------
        TypeError, ValueError
            As for `learn_one`, and where lengths differ. Nothing has changed.
        """
        if is_matrix(X):
            rows = Rows.of(X, True, canonical=False)
            rows.check_counts()
            X = rows.messages()
        messages = [self.as_tokens(x) for x in X]
        labels = as_labels(y)
        check_labels(labels)
        if len(messages) != len(labels):
            raise ValueError(f"{len(messages)} examples, but {len(labels)} labels")
        weights = as_weights(w, len(labels)).tolist()
        with self.lock:
            for message, label, weight in zip(messages, labels, weights, strict=True):
                self.learn_one(message, label, weight)

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        messages = Rows.of(X, True, canonical=False).messages() if is_matrix(X) else X
        scores = [self._scores(x) for x in messages]
        return np.array(scores, dtype=float).reshape(len(scores), len(self.labels))

    def explain_one(self, x: Any) -> Explanation:
        """Say what each feature of a message added to each class.

        With several views, features are named by pairs of the view's number and their name.
        """
        with self.lock:
            views = self.explain_views(x)
        if len(views) == 1:
            return views[0]
        parts: dict[Feature, dict[Label, float]] = {
            (j, feature): of
            for j, view in enumerate(views)
            for feature, of in view.contributions.items()
        }
        return Explanation.summed(views, parts)

    @property
    def features(self) -> int:
        """How many features are known, of all views."""
        return sum(member.counts.features for member in self.view_models)

    def _is_taught(self) -> bool:
        return "counts" in vars(self) and any(vars(self)["counts"].weights)

    # Files

    def to_header(self) -> dict[str, Any]:
        """The model without its counts, as JSON can hold it."""
        return {
            "model": type(self).__name__,
            "members": [member.member_header() for member in self.view_models],
            "key": _core.DEFAULT_KEY.hex(),
            **self.state(),
        }

    def reordered_header(self, order: Sequence[int]) -> dict[str, Any]:
        """As `outline`, class k being that of number order[k]."""
        return self.to_header()

    @staticmethod
    def from_header(outlined: Mapping[str, Any]) -> TextModel:
        """The model that `outline` described; any exception where it is not sound."""
        if outlined["key"] != _core.DEFAULT_KEY.hex():
            raise ValueError("its fingerprints were made with another key")
        members = [
            SaveLoadMixin.saved_classes[of["model"]].member_from_header(of)
            for of in outlined["members"]
        ]
        model: TextModel = SaveLoadMixin.saved_classes[outlined["model"]]._from_view_models(
            members, outlined
        )
        model.restore(outlined)
        return model

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        outlined = self.to_header()
        arrays: dict[str, Any] = {}
        for number, (described, member) in enumerate(
            zip(outlined["members"], self.view_models, strict=True)
        ):
            if not isinstance(member.counts, MemoryCounts):
                raise OutputError("only counts in memory are written to a model file")
            numbers, of_member = member.counts.file_parts()
            described.update(numbers)
            arrays |= {f"{number}.{name}": array for name, array in of_member.items()}
        return outlined, arrays

    @classmethod
    def _from_file(cls, header: Any, array: ReadArray) -> Self:
        model = cls.from_header(header)
        if not isinstance(model, cls):
            raise TypeError("not a text model")
        for number, (described, member) in enumerate(
            zip(header["members"], model.view_models, strict=True)
        ):
            prefix = f"{number}."
            counts = MemoryCounts(member.keep_names, member.track_values)
            counts.load(
                described,
                lambda name, *more, prefix=prefix, **how: array(prefix + name, *more, **how),
            )
            member.counts = counts
        if any(member.counts.labels != model.labels for member in model.view_models):
            raise ValueError("the views do not belong together")
        return model
