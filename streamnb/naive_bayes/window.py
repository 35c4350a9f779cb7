"""A model of a sliding window, which unlearns the messages that leave it exactly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, Self

from streamnb.constraints import Integer, has_method
from streamnb.counts.protocol import Label, checked_weight
from streamnb.errors import OutputError
from streamnb.naive_bayes.multinomial import MultinomialNB
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel
from streamnb.parameters import attribute, parameter, parameter_class

# weights are rounded to multiples of this, so sums and unlearning are exact
_WEIGHT_GRID = 2.0**-16


class _WindowEntry(NamedTuple):
    """A message in the window, with the arguments that unlearn it."""

    tokens: Any
    label: Label
    receipt: Receipt


@parameter_class()
class WindowNB(TextModel):
    """A model of the last `size` messages.

    Memory holds the features of all messages in the window. Calibration, reliability and label
    noise are learned from all messages; only counts and the sums of their update weights leave the
    window. A window cannot be written to a file: save the model inside.

    Parameters
    ----------
    model
        A model of texts or tables. Train it only through the window.
    size
        Number of messages in the window.

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
        has_method("unlearn", "a model of texts or tables"), "counts", default=None
    )
    size: int = parameter(Integer(), "training", default=1000)
    receipt: Receipt | None = attribute(init=False)

    order_dependence_reason = "the messages in a window depend on the order of the stream"

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": MultinomialNB()}

    def __post_init__(self) -> None:
        self._window: deque[_WindowEntry] = deque()
        self.receipt = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_window": list(self._window)}  # skops loses a deque

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state | {"_window": deque(state["_window"])})

    def _on_change(self, name: str) -> None:
        if name == "size" and "_window" in vars(self):
            with self.lock:
                self._unlearn_oldest()

    # Learning

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message, and unlearn the message that leaves the window.

        Weights are rounded to multiples of 2^-16, so unlearning is exact.
        """
        tokens = self.as_tokens(x)
        w = _round_weight(w)
        with self.lock:
            receipt = self.model.learn(tokens, y, w, feedback)
            self._append(tokens, y, receipt)
        return receipt

    def _append(self, tokens: Any, y: Label, receipt: Receipt) -> None:
        """Append a learned message, and unlearn those that leave the window."""
        self._window.append(_WindowEntry(tokens, y, receipt.without_calibration()))
        self._unlearn_oldest()

    def _unlearn_oldest(self) -> None:
        """Unlearn the oldest messages until the window has its size."""
        while len(self._window) > self.size:
            self.model.unlearn_checked(*self._window.popleft())

    def unlearn_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Unlearn a message in the window; raise ValueError if it is not in it."""
        with self.lock:
            target = _WindowEntry(self.as_tokens(x), y, receipt.without_calibration())
            matches = (i for i, entry in enumerate(self._window) if entry == target)
            position = next(matches, None)
            if position is None:
                raise ValueError("cannot unlearn: the message is not in the window")
            self.model.unlearn_checked(x, y, receipt)
            del self._window[position]

    def reapply_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt again, as the newest message of the window."""
        with self.lock:
            self.model.reapply_checked(x, y, receipt)
            self._append(self.as_tokens(x), y, receipt)

    def _default_receipt(self, w: float) -> Receipt:
        return self.model._default_receipt(_round_weight(w))

    def _has_learned(self) -> bool:
        return bool(vars(self).get("_window"))

    # Not supported by windows

    def check_merge(self, other: Any) -> None:
        """Raise ValueError: windows over different streams cannot be merged."""
        raise ValueError(
            "a WindowNB cannot be merged, because each window unlearns its own messages"
        )

    def check_storable(self) -> None:
        """Raise ValueError: a window cannot be stored in a database."""
        raise ValueError("a WindowNB cannot be stored in a database; use the model inside")

    @classmethod
    def _from_view_models(cls, view_models: list[Any], header: Mapping[str, Any]) -> Self:
        raise ValueError("a file cannot hold a WindowNB; load the model and wrap it again")

    def _to_file(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise OutputError(
            "a WindowNB is not written to files; save the model inside: window.model.save(path), "
            "or Classifier(c.tokenizer, c.model.model).save(path) for a classifier c"
        )

    def deltas_since(self, before: WindowNB) -> dict[str, Any]:
        """Return the difference of this state and an earlier one, in the form of a receipt."""
        return self.model.deltas_since(before.model)

    def _more_tags(self) -> set[str]:  # river calls it on the class
        return self.model._more_tags()


# These attributes and methods of a window are those of the model inside.
for _name in (
    "discriminative",
    "takes_views",
    "view_models",
    "labels",
    "messages_in_runs",
    "params_version",
    "as_tokens",
    "messages_of",
    "views_of",
    "join_views",
    "explain_views",
    "contributions",
    "state",
    "restore",
    "reliability_counts",
    "is_ready",
    "check_classes",
    "check_receipt",
    "remap_classes",
    "_needs_receipt",
    "_scores",
    "_scores_of",
):
    _getter = property(
        attrgetter(f"model.{_name}"), doc=f"As `{_name}` of the model in this window."
    )
    setattr(WindowNB, _name, _getter)


def _round_weight(w: float) -> float:
    """Return a weight rounded to the grid of 2^-16."""
    return w if w == 1 else round(checked_weight(w) / _WEIGHT_GRID) * _WEIGHT_GRID
