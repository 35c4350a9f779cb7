"""Several views of a message, a counting model for each, their evidence summed and recalibrated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from streamnb import _core
from streamnb.counts.protocol import Label, checked_weight
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.base import TextModel
from streamnb.naive_bayes.beside import Beside
from streamnb.naive_bayes.corrections import Corrections
from streamnb.naive_bayes.counting import CountingNB, LastResultCache
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB, surprises
from streamnb.naive_bayes.explanation import Explanation
from streamnb.naive_bayes.label_noise import LabelNoise
from streamnb.naive_bayes.recalibration import Recalibration
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.record import Record
from streamnb.naive_bayes.turns import Turns
from streamnb.parameters import Boolean, Number, Constraint, attribute, parameter, parameter_class
from streamnb.scores import best_index, probabilities

# Nats by which a class is expected more in a run of it: else the last class taught would be learned
# at the cost of those that were taught before.
_IN_A_RUN = 1.0
# What is learned beside the counts goes by messages, however they are weighted, but for those whose
# weight is no more than this share of what is known.
_NEGLIGIBLE = 1e-10
_LONG = 1000.0  # messages: who forgets faster expects classes to change
# In a receipt: that a message was told, be it in part, because it was a mistake.
_CORRECTED = "corrected"


class _Judged(NamedTuple):
    """What was said of a message: the evidence of each view, bounded, and the scores of `known`."""

    views: tuple[TokenCounts, ...]
    moment: list[int]
    known: list[int]
    octave: int | None
    evidence: list[list[float]]
    scores: list[float]


def _are_models(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and len(value) == len(set(map(id, value))) > 0
    return several and all(isinstance(model, CountingNB) for model in value)


@parameter_class()
class ViewsNB(LastResultCache[_Judged], TextModel):
    r"""A counting model for each view of a message; what they say is added up and recalibrated.

    A view is one way to make features of a message: its words, say, or its first bytes. Views err
    in different places, so their sum ranks better than any of them (Lynam and Cormack 2006). Each
    model learns by itself: how much it learns of a message is 1 - P(y | view), with its own
    evidence and its share of the prior, which all of them together count once. Then
    `Recalibration` learns what each view's evidence is worth. A `prior` that one of the
    models is given is not asked.

    A message is a sequence of views, a `TokenCounts` or a dict of counts for each model; one alone
    is seen by all of them.

    Attributes
    ----------
    receipt : Receipt
        What the last `learn_one` added, for `unlearn_one`.

    References
    ----------
    Lynam, T. and Cormack, G. (2006). On-line spam filter fusion. SIGIR 2006.

    Examples
    --------
    >>> from streamnb import DiscriminativeMultinomialNB, ViewsNB
    >>> model = ViewsNB([DiscriminativeMultinomialNB(), DiscriminativeMultinomialNB()])
    >>> model.learn_one([{"free": 1}, {"fr": 1, "re": 1, "ee": 1}], "spam")
    >>> model.learn_one([{"lunch": 1}, {"lu": 1, "un": 1, "nc": 1, "ch": 1}], "ham")
    >>> model.predict_one([{}, {"ee": 1, "es": 1}])
    'spam'
    """

    models: Sequence[CountingNB] | None = parameter(
        Constraint(_are_models, "a list of counting models, another one for each view", none=True),
        "counts",
        "A `DiscriminativeMultinomialNB` or another counting model for each view; None for one.",
        default=None,
    )
    rate: float = parameter(
        Number(0, 100), "teaching", "Step size of the recalibration.", default=0.3
    )
    label_noise: float | None = parameter(
        Number(0, 0.5, below=True, none=True),
        "teaching",
        "Share of labels that are wrong; None to estimate it (with a `decay` below "
        ".999 labels are doubted less). What is learned of a message is weighed by how far its "
        "label can be believed (`LabelNoise`).",
        default=None,
    )
    bound: float | None = parameter(
        Number(1e-3, 1e9, none=True),
        "teaching",
        "What a view says against a class, next to the one it speaks for most, stays below so "
        "many nats: d becomes bound tanh(d / bound). No view can be overconfident then. None for "
        "no bound.",
        default=None,
    )
    by_length: bool = parameter(
        Boolean(),
        "teaching",
        "Whether messages of each octave of length (features of all views) have a recalibration of "
        "their own, beside that of all.",
        default=False,
    )
    receipt: Receipt | None = attribute(init=False)
    recalibration: Recalibration = attribute(init=False)
    noise: LabelNoise = attribute(init=False)
    turns: Turns = attribute(init=False)
    corrections: Corrections = attribute(init=False)
    record: Record = attribute(init=False)

    unpickled_attributes = ("lock", "_cache")

    @property
    def takes_views(self) -> bool:
        """Whether a message is a sequence of views."""
        return True

    def __post_init__(self) -> None:
        models: list[CountingNB] = list(self.models or [DiscriminativeMultinomialNB()])
        if len({model.decay for model in models}) > 1:  # receipts say once how far counts have aged
            raise ValueError("models: views that are learned together have one decay")
        object.__setattr__(self, "models", models)
        self._view_models = models
        self.recalibration = Recalibration(len(models), self.rate)
        self.noise = LabelNoise(self.label_noise)
        self.turns = Turns()
        self.corrections = Corrections()
        self.record = Record()
        self._be_cautious()
        self.receipt = None

    @property
    def _beside(self) -> dict[str, Beside]:
        """What is learned beside the counts, by the names of the attributes that hold it."""
        return {
            "record": self.record,
            "recalibration": self.recalibration,
            "noise": self.noise,
            "turns": self.turns,
            "corrections": self.corrections,
        }

    def _more_tags(self) -> set[str]:
        return {"positive input"}

    def _changed(self, name: str) -> None:
        self._params_version += 1
        if "noise" in vars(self):
            self.recalibration.rate = self.rate
            self.noise.fixed = self.label_noise
            self._be_cautious()

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """A model with the same parameters that has learned nothing, nor have its members."""
        params = dict(new_params or {})
        same = params.get("models", self.models) is self.models  # river hands a model its own
        # A subclass may have a constructor of its own, which makes the members.
        if same and not include_attributes and "models" in self._get_params():
            params["models"] = [member.clone() for member in self._view_models]
        made: Self = super().clone(params, include_attributes)
        return made

    def _is_taught(self) -> bool:
        return "_view_models" in vars(self)

    @property
    def view_models(self) -> list[CountingNB]:
        """The counting model of each view."""
        return self._view_models

    def as_tokens(self, x: Any) -> tuple[TokenCounts, ...]:
        """A message's views as the models count them, good for as long as one likes."""
        memo = self._cache
        if memo is not None and memo.views is x:
            return memo.views
        if type(x) is tuple and list(map(type, x)) == [TokenCounts] * len(self._view_models):
            return x
        if isinstance(x, (Mapping, TokenCounts)):
            x = (x,) * len(self._view_models)
        if len(x) != len(self._view_models):
            raise ValueError(f"a message of {len(x)} views for {len(self._view_models)} models")
        return tuple(model.as_tokens(view) for model, view in zip(self._view_models, x, strict=True))

    def views_of(self, tokens: tuple[TokenCounts, ...]) -> tuple[TokenCounts, ...]:
        """The views."""
        return tokens

    def join_views(self, views: tuple[TokenCounts, ...]) -> tuple[TokenCounts, ...]:
        """The views."""
        return views

    def _moment(self) -> list[int]:
        """What differs as soon as anything was learned or set since."""
        moment = [self._params_version]
        for of in self._view_models:
            counts = of.counts
            moment += (id(counts), counts.version, of._params_version)
        return moment

    def _judged(self, views: tuple[TokenCounts, ...]) -> _Judged:
        """What is said of a message: often it is asked for, and then once more to learn it."""
        memo = self._cache
        if memo is not None and memo.views is views and memo.moment == self._moment():
            return memo
        moment = self._moment()
        weights = self._view_models[0].counts.weights
        known = [k for k, weight in enumerate(weights) if weight > 0]
        octave = None
        if self.by_length:
            octave = sum([len(view.fingerprints) for view in views]).bit_length()
        evidence = [of.compute_log_likelihoods(view) for of, view in zip(self._view_models, views, strict=True)]
        scores: list[float] = []
        if len(known) > 1:  # of one class alone nothing can be said
            if self.bound is not None:
                evidence = [_core.bounded(of, known, self.bound) for of in evidence]
            scores = self.recalibration.scores(evidence, known, octave)
        judged = _Judged(views, moment, known, octave, evidence, scores)
        object.__setattr__(self, "_cache", judged)
        return judged

    def _scores(self, x: Any) -> list[float]:
        judged = self._judged(self.as_tokens(x))
        known = judged.known
        if len(known) < 2:
            classes = range(len(self.labels))
            return [0.0 if k in known or not known else -math.inf for k in classes]
        if len(known) == len(self.labels):
            return list(judged.scores)
        scores = [-math.inf] * len(self.labels)
        for k, score in zip(known, judged.scores, strict=True):
            scores[k] = score
        return scores

    # Learning

    def learn(self, x: Any, y: Label, w: float = 1.0) -> Receipt:
        """Learn a message; the receipt is what `unlearn` wants."""
        return self._learned(x, y, w, False)

    def relearn_one(self, x: Any, y: Label, receipt: Receipt) -> Receipt:
        """Learn a message once more, in another order: as it was told when it gave a receipt.

        What was told because it was a mistake, be it in part, is no sample of all messages,
        whatever it is called by what is known now.
        """
        return self._learned(x, y, 1.0, _CORRECTED in receipt.deltas)

    def _learned(self, x: Any, y: Label, w: float, corrected: bool) -> Receipt:
        views = self.as_tokens(x)
        weight = 1.0 if w == 1 else checked_weight(w)
        with self.lock:
            times, parts = self._weighed(views, y, weight, corrected)
            added = [
                model.add(view, y, weight, amount)
                for model, view, amount in zip(self._view_models, views, times, strict=True)
            ]
        decay_halvings, class_weight, _ = added[0]
        return Receipt(
            decay_halvings, class_weight, tuple([amount for _, _, amount in added]), parts
        )

    def _weighed(
        self, views: tuple[TokenCounts, ...], y: Label, w: float, corrected: bool
    ) -> tuple[list[float], dict[str, Any]]:
        """How many times each model learns a message; what is done before that is done here.

        `corrected` says that it is known to have been told because it was a mistake.
        """
        counts = self._view_models[0].counts
        k = counts.index(y)
        judged = self._judged(views)
        known = judged.known
        parts: dict[str, Any] = {}
        turn = 1.0
        total = math.fsum(counts.weights)
        learned = total / counts.scale
        counts_beside = w > _NEGLIGIBLE * learned
        if counts_beside and known:
            place = len(counts.labels) if k is None else k
            turn = self.turns.turn(place)
            among = known if k in known else sorted([*known, place])
            parts = self.turns.learn(place, among, learned)
        if k is None:
            return [1.0] * len(views), parts
        trust = 1.0
        if len(known) >= 2 and k in known and counts_beside:
            trust = self._learned_beside(judged, k, w, learned, turn, corrected, parts)
        prior = _core.prior_shares(counts.weights, total, len(views))
        prior[k] += _IN_A_RUN * (1 - turn)
        found = surprises(judged.evidence, prior, known, k)
        times = [
            model.update_weight(surprise, trust)
            for model, surprise in zip(self._view_models, found, strict=True)
        ]
        return times, parts

    def _learned_beside(
        self,
        judged: _Judged,
        k: int,
        w: float,
        learned: float,
        turn: float,
        corrected: bool,
        parts: dict[str, Any],
    ) -> float:
        """Learn what a message of class k says beside the counts; how far its label is believed.

        What changed goes into `parts`. `learned` is the weight of all messages before.
        """
        known = judged.known
        shares = probabilities(judged.scores)
        top = best_index(judged.scores)
        claim, said = shares[top], known[top]
        told, doubted = self.corrections.of(said == k, corrected)
        own = self._view_models[0].counts.weights[k] / self._view_models[0].counts.scale
        doubt = 1 - self.noise.trust(shares[known.index(k)], len(known), own, learned - own)
        trust = 1 - turn * self._doubting(doubted) * doubt
        if not corrected:
            parts |= self.corrections.learn(said == k, claim)
        if corrected or told < 1:
            parts[_CORRECTED] = 1
        if turn == 1:
            parts |= self.record.learn(said, k)
        if told == 1:
            parts |= self.noise.learn(trust)
            self._be_cautious()
        parts |= self.recalibration.learn(
            judged.evidence, shares, k, known, trust, turn, judged.octave, told, top
        )
        return trust

    def _doubting(self, doubted: float) -> float:
        """How far labels are doubted: where classes change, true ones look wrong at first."""
        if self.noise.fixed is not None:  # whoever says how many are wrong knows
            return 1.0
        decay = self._view_models[0].decay
        return doubted * min(1.0, 1 / (1 - decay) / _LONG) if decay < 1 else doubted

    def _be_cautious(self) -> None:
        """Let the models smooth as their labels deserve."""
        caution = self.noise.caution
        for model in self._view_models:
            object.__setattr__(model, "smoothing_scale", caution)

    def unlearn(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Take back what a receipt says, or raise ValueError and change nothing."""
        views = self.as_tokens(x)
        if len(receipt.view_weights) != len(self._view_models):
            raise ValueError("cannot unlearn: a receipt of another model")
        with self.lock:
            taken = []
            try:
                for model, view, times in zip(self._view_models, views, receipt.view_weights, strict=True):
                    taken.append(model.subtract(view, y, receipt, times))
            except ValueError:
                for model, what in zip(self._view_models, taken, strict=False):
                    model.counts.add(*what)
                raise
            self._move(receipt, -1)

    def reapply(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Do again what a receipt says, exactly."""
        views = self.as_tokens(x)
        with self.lock:
            for model, view, times in zip(self._view_models, views, receipt.view_weights, strict=True):
                model.add_back(view, y, receipt, times)
            self._move(receipt, 1)

    def _move(self, receipt: Receipt, sign: int) -> None:
        for of in self._beside.values():
            of.move(receipt.deltas, sign)
        self._be_cautious()

    def _default_receipt(self, w: float) -> Receipt:
        raise ValueError("several views need a receipt")

    # What is known beside the counts

    @property
    def messages_in_runs(self) -> float:
        """How many messages were learned in runs of one class (see `Turns`)."""
        return self.turns.missed

    def reliability_counts(self, y: Label) -> tuple[int, int]:
        """How often a class was called rightly and wrongly, before messages were learned."""
        return self.record.of(self._view_models[0].counts.index(y))

    def is_ready(self, y: Label) -> bool:
        """Whether a class was called rightly often enough that nobody needs to look."""
        return self.record.is_ready(self._view_models[0].counts.index(y))

    def state(self) -> dict[str, Any]:
        """All that is known beside the counts, as JSON can hold it."""
        known = {name: of for part in self._beside.values() for name, of in part.state().items()}
        return {**known, "bound": self.bound, "by_length": self.by_length}

    def reordered_header(self, order: Sequence[int]) -> dict[str, Any]:
        """As `outline`, class k being that of number order[k]."""
        outlined = self.to_header()
        for of in self._beside.values():
            outlined |= of.of_classes(order).state()
        return outlined

    def restore(self, state: Any) -> None:
        """Take over what `state` gave; any exception where it is not sound."""
        known: dict[str, Any] = {name: of.from_state(state) for name, of in self._beside.items()}
        settings = {
            "rate": known["recalibration"].rate,
            "label_noise": known["noise"].fixed,
            "bound": state["bound"],
            "by_length": state["by_length"],
        }
        for name, value in settings.items():
            self.parameter_table[name].check(name, value)
        if known["recalibration"].models != len(self._view_models):
            raise ValueError("the views do not belong together")
        with self.lock:
            self._params_version += 1
            for name, value in {**settings, **known}.items():
                object.__setattr__(self, name, value)
            self._be_cautious()

    def deltas_since(self, before: ViewsNB) -> dict[str, Any]:
        """What a receipt would say that leads here from another state; none is in a run."""
        mine, theirs = self._beside, before._beside
        return {name: of for part in mine for name, of in mine[part].since(theirs[part]).items()}

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError for a receipt of other views or more classes."""
        super().check_receipt(receipt._replace(deltas={}), classes)
        known = {_CORRECTED}.union(*(of.parts for of in self._beside.values()))
        if not known >= receipt.deltas.keys() or receipt.deltas.get(_CORRECTED, 1) != 1:
            raise ValueError("a receipt of another model")
        for of in self._beside.values():
            of.check(receipt.deltas, classes)

    def remap_classes(self, receipt: Receipt, order: Sequence[int | None]) -> Receipt:
        """A receipt where class k was number order[k] before; None: there was none."""
        parts = receipt.deltas
        for of in self._beside.values():
            parts = of.remap_classes(parts, order)
        return receipt._replace(deltas=parts)

    def explain_views(self, x: Any) -> list[Explanation]:
        """Say what each feature added to each class: an explanation for each view.

        Contributions are as the recalibration weighs them. The views' scores add up to those of the
        message; the bias of the recalibration is in the base of the first, and what a bound takes
        off in that of its view.
        """
        judged = self._judged(self.as_tokens(x))
        known, octave = judged.known, judged.octave
        if len(known) < 2:  # of one class alone nothing can be said
            nothing = dict.fromkeys(self.labels, 0.0)
            return [Explanation(nothing, nothing, {}) for _ in self._view_models]
        bias = {self.labels[k]: self.recalibration.bias(k, octave) for k in known}
        gains = self.recalibration.gains(octave)
        explanations: list[Explanation] = []
        for j, (model, view) in enumerate(zip(self._view_models, judged.views, strict=True)):
            gain = gains[j]
            if self.bound is not None:
                evidence = model.compute_log_likelihoods(view)
                bias = {
                    y: of + gain * (judged.evidence[j][k] - evidence[k])
                    for k, (y, of) in zip(known, bias.items(), strict=True)
                }
            why = model.explain_tokens(view, [0.0] * len(self.labels))  # the prior is no view's own
            explanations.append(why.scaled(gain, bias))
            bias = dict.fromkeys(bias, 0.0)
        return explanations

    def check_merge(self, other: Any) -> None:
        """Raise ValueError where another model counts different things."""
        if type(other) is not type(self) or len(other.view_models) != len(self._view_models):
            raise ValueError("cannot merge: the models have different views")
        for model, more in zip(self._view_models, other.view_models, strict=True):
            model.check_merge(more)

    def _merge(self, other: Self) -> None:
        """Add another model's counts; the recalibration stays that of whichever learned more."""
        mine, theirs = (sum(model.view_models[0].counts.weights) for model in (self, other))
        for model, more in zip(self._view_models, other.view_models, strict=True):
            model.merge(more)
        index = other.view_models[0].counts.index
        places = [index(y) for y in self.labels]
        record = self.record
        record.move(other.record.of_classes(places).state(), 1)
        if theirs > mine:
            for name, of in other._beside.items():
                object.__setattr__(self, name, of.of_classes(places))
            self.record = record
            self.recalibration.rate, self.noise.fixed = self.rate, self.label_noise
            self._be_cautious()

    @classmethod
    def _from_view_models(cls, members: list[Any], outlined: Mapping[str, Any]) -> Self:
        if not members or not all(isinstance(member, CountingNB) for member in members):
            raise ValueError("the views are not sound")
        return cls(members)
