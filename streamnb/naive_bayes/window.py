"""Forgetting by a window: what leaves it is unlearned, exactly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from streamnb.counts.protocol import Label, checked_weight
from streamnb.errors import OutputError
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.receipt import Receipt
from streamnb.parameters import Integer, attribute, has_method, parameter, parameter_class


class _Learned(NamedTuple):
    """A message in the window, and what takes it out again."""

    tokens: Any
    label: Label
    receipt: Receipt


@parameter_class()
class WindowNB(TextModel):
    """A model that knows only the last messages it learned.

    The features of as many messages are held in memory. What the evidence is worth (recalibration),
    whose turn it is, the record and how far labels can be believed are learned for good. It is not
    written to files: save the model inside, which then knows what the window holds. Around a model
    of tables it learns and is asked an example at a time; what takes many at once is for texts.

    Examples
    --------
    >>> from streamnb import MultinomialNB, WindowNB
    >>> model = WindowNB(MultinomialNB(), size=2)
    >>> for text, label in [("free", "spam"), ("lunch", "ham"), ("offer", "spam")]:
    ...     model.learn_one({text: 1}, label)
    >>> model.model.feature_counts("free")
    {'spam': 0.0, 'ham': 0.0}
    """

    model: TextModel = parameter(
        has_method("unlearn", "a model of texts or tables"),
        "counts",
        "Any model of texts or tables. It must learn through this object alone.",
        default=None,
    )
    size: int = parameter(Integer(), "teaching", "How many messages it knows.", default=1000)
    receipt: Receipt | None = attribute(init=False)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": MultinomialNB()}

    def __post_init__(self) -> None:
        self._window: deque[_Learned] = deque()
        self.receipt = None

    def _more_tags(self) -> set[str]:
        return self.model._more_tags()

    order_dependence_reason = "a window: which messages are the last depends on their order"

    def learn(self, x: Any, y: Label, w: float = 1.0) -> Receipt:
        """Learn a message, and unlearn the one that leaves the window.

        Weights are rounded to multiples of 2^-16, so that what is added can be taken away exactly.
        """
        tokens = self.as_tokens(x)
        w = _rounded(w)
        with self.lock:
            receipt = self.model.learn(tokens, y, w)
            self._take_in(tokens, y, receipt)
        return receipt

    def _take_in(self, tokens: Any, y: Label, receipt: Receipt) -> None:
        self._window.append(_Learned(tokens, y, receipt._replace(deltas={})))
        while len(self._window) > self.size:
            self.model.unlearn(*self._window.popleft())

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Take a message out of the window; of one that has left it, what it left behind."""
        with self.lock:
            inside = _Learned(self.as_tokens(x), y, receipt._replace(deltas={}))
            at = next((i for i, one in enumerate(self._window) if one == inside), None)
            if at is None:
                raise ValueError("cannot unlearn: the message is not in the window")
            self.model.unlearn(x, y, receipt)
            del self._window[at]

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Do again what a receipt says, as the newest message of the window."""
        with self.lock:
            self.model.reapply(x, y, receipt)
            self._take_in(self.as_tokens(x), y, receipt)

    def deltas_since(self, before: WindowNB) -> dict[str, Any]:
        """What a receipt would say that leads from another window's state to this one's."""
        return self.model.deltas_since(before.model)

    def _default_receipt(self, w: float) -> Receipt:
        return self.model._default_receipt(_rounded(w))

    def _is_taught(self) -> bool:
        return bool(vars(self).get("_window"))

    def check_merge(self, other: Any) -> None:
        """Raise ValueError: which messages are the last of two streams, nothing tells."""
        raise ValueError("cannot merge: windows over two streams are no window over both")

    def check_storable(self) -> None:
        """Raise ValueError: which messages are in the window is not kept."""
        raise ValueError("a window cannot be kept in a database")

    @classmethod
    def _from_view_models(cls, members: list[Any], outlined: Mapping[str, Any]) -> Self:
        raise ValueError("a window is not read from files")

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise OutputError("a window is not written to files: save the model inside (model.model)")


def _of_model(name: str) -> property:
    """What a window has of its model, be it a method."""
    said = getattr(TextModel, name).__doc__
    return property(lambda window: getattr(window.model, name), doc=said)


# What is made of other methods, which are the window's own or its model's. All the rest, also what
# a model of texts will have one day, is the model's: a base's default would be wrong unnoticed.
_MADE_OF_OTHERS = {
    *("learn_one", "unlearn_one", "learn_many", "relearn_one", "explain_one", "_scores_of"),
    *("features", "to_header", "reordered_header", "from_header", "_from_file"),
}
for _name in {*vars(TextModel), "_scores"} - vars(WindowNB).keys() - _MADE_OF_OTHERS:
    if not _name.startswith("__"):
        setattr(WindowNB, _name, _of_model(_name))


def _rounded(w: float) -> float:
    """A weight of which sums are exact."""
    return w if w == 1 else round(checked_weight(w) * 65536) / 65536
