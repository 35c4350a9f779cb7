"""Several views of a message: a counting model for each, calibrated and summed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from streamnb import _core
from streamnb.constraints import Boolean, Constraint, Integer, Number
from streamnb.counts.protocol import Label, check_labels, checked_weight
from streamnb.features.token_counts import TokenCounts
from streamnb.naive_bayes.calibration import CORRECTED, Calibration, Prediction, feedback_of
from streamnb.naive_bayes.counting import CountingNB, LastResultCache
from streamnb.naive_bayes.discriminative import DiscriminativeMultinomialNB
from streamnb.naive_bayes.explanation import Contributions, Explanation
from streamnb.naive_bayes.recalibration import alpha_factors
from streamnb.naive_bayes.receipt import Receipt
from streamnb.naive_bayes.text_model import TextModel
from streamnb.parameters import attribute, parameter, parameter_class

# Calibration counts each message once, regardless of its weight. It skips a message with at most
# this fraction of the total learned weight.
_NEGLIGIBLE_WEIGHT = 1e-10
# Inside a run of one class, models soon expect that class: 1 - P is small, and the run adds few
# counts. So the update weight of the class's first messages is 1 - .7 P, and approaches 1 - P: the
# difference halves within 20 messages. Chosen on six streams sorted by class.
_RUN_UPDATE = 0.3
_RUN_MESSAGES = 20.0


def _are_models(value: Any) -> bool:
    is_list = isinstance(value, (list, tuple)) and len(value) == len(set(map(id, value))) > 0
    return is_list and all(isinstance(model, CountingNB) for model in value)


@parameter_class()
class ViewsNB(LastResultCache[Prediction], TextModel):
    r"""A counting model for each view of a message; calibrated log-likelihoods are summed.

    A view is one way to extract features from a message, such as its words or its first bytes.
    Views make different mistakes, so their sum ranks better than each view alone (Lynam and
    Cormack 2006). Each view's model learns with weight 1 - P(label | view). P is computed from its
    own log-likelihoods and an equal share of the log prior. `Recalibration` learns the slope of
    each view. A `prior` set on one of the models is not used.

    A message is a sequence of views: a `TokenCounts` or a dict of counts for each model. A single
    `TokenCounts` or dict is passed to all models.

    Parameters
    ----------
    models
        The model of each view: a `DiscriminativeMultinomialNB` or another counting model. None for
        one view with a `DiscriminativeMultinomialNB`.
    rate
        Step size of the learned calibration weights.
    label_noise
        Fraction of wrong labels. Labels that are probably wrong are learned with a smaller weight.
        None to estimate the fraction (then `decay` should be at least 0.999), 0 to trust every
        label.
    bound
        Maximum log-odds (nats) that one view can give against a class, so no view is overconfident.
        A difference d to the best class becomes bound tanh(d / bound). None for no bound.
    by_length
        True to add calibration weights for each range of message lengths (a power of two of
        features) to the shared ones.
    systems
        Number of systems, which read the same counts with different alphas (`SystemPool`). Their
        probabilities are averaged; better ones get larger weights. One system has alpha; two have
        alpha times 1 and 10; three times 0.32, 1 and 10; four times 0.32, 1, 3.2 and 10.

    Attributes
    ----------
    receipt : Receipt
        The changes of the last `learn_one`, for `unlearn_one`.

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
        Constraint(
            _are_models, "a list of counting models, a different object for each view", none=True
        ),
        "counts",
        default=None,
    )
    rate: float = parameter(Number(0, 100), "training", default=0.3)
    label_noise: float | None = parameter(
        Number(0, 0.5, below=True, none=True), "training", default=None
    )
    bound: float | None = parameter(Number(1e-3, 1e9, none=True), "training", default=None)
    by_length: bool = parameter(Boolean(), "training", default=False)
    systems: int = parameter(Integer(1, 4), "counts", default=1)
    receipt: Receipt | None = attribute(init=False)
    calibration: Calibration = attribute(init=False)

    takes_views = True
    unpickled_attributes: ClassVar[tuple[str, ...]] = ("lock", "_cache")

    def __post_init__(self) -> None:
        models: list[CountingNB] = list(self.models or [DiscriminativeMultinomialNB()])
        if len({model.decay for model in models}) > 1:  # a receipt stores one decay for all views
            raise ValueError("models: all views must have the same decay")
        object.__setattr__(self, "models", models)
        self._view_models = models
        self.calibration = Calibration.create(
            self.systems, len(models), self.rate, self.label_noise
        )
        self._factors = alpha_factors(self.systems)
        self.receipt = None

    def _more_tags(self) -> set[str]:
        return {"positive input"}

    def _on_change(self, name: str) -> None:
        self._params_version += 1
        if "calibration" in vars(self):
            self.calibration.recalibration.rate = self.rate
            self.calibration.noise.fixed = self.label_noise

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """Return an untrained model with the same parameters; its view models are cloned, too."""
        params = dict(new_params or {})
        # river passes the model's own view models
        same = params.get("models", self.models) is self.models
        # A subclass may have a constructor that creates the models.
        if same and not include_attributes and "models" in self._get_params():
            params["models"] = [model.clone() for model in self._view_models]
        cloned: Self = super().clone(params, include_attributes)
        return cloned

    @property
    def params_version(self) -> int:
        """A number that increases with each change of a parameter, also of the view models."""
        versions = [model._params_version for model in self._view_models]
        return self._params_version + sum(versions)

    def _has_learned(self) -> bool:
        return "_view_models" in vars(self)

    @property
    def view_models(self) -> list[CountingNB]:
        """The counting model of each view."""
        return self._view_models

    def as_tokens(self, x: Any) -> tuple[TokenCounts, ...]:
        """Convert a message to TokenCounts of each view, which can be stored."""
        memo = self._cache
        if memo is not None and memo.views is x:
            return memo.views
        if type(x) is tuple and list(map(type, x)) == [TokenCounts] * len(self._view_models):
            return x
        if isinstance(x, (Mapping, TokenCounts)):
            x = (x,) * len(self._view_models)
        if len(x) != len(self._view_models):
            raise ValueError(f"the message has {len(x)} views, the model {len(self._view_models)}")
        return tuple(
            model.as_tokens(view) for model, view in zip(self._view_models, x, strict=True)
        )

    def _version_key(self) -> list[int]:
        """Return a key that changes with the model and its parameters."""
        key = [self._params_version]
        for model in self._view_models:
            counts = model.counts
            key += (id(counts), counts.version, model._params_version)
        return key

    def _predict(self, views: tuple[TokenCounts, ...]) -> Prediction:
        """Return the prediction for a message, from the cache if it was the last one predicted."""
        key, memo = self._version_key(), self._cache
        if memo is not None and memo.views is views and memo.version_key == key:
            return memo
        active = [k for k, weight in enumerate(self._view_models[0].counts.weights) if weight > 0]
        length_bin = None
        if self.by_length:
            length_bin = sum([len(view.fingerprints) for view in views]).bit_length()
        by_view = [
            model.system_log_likelihoods(view, self._factors)
            for model, view in zip(self._view_models, views, strict=True)
        ]
        pool = self.calibration.recalibration
        prediction = Prediction(
            views, key, active, length_bin,
            *_core.predict_systems(
                pool.systems, pool.log_weights, by_view, active, length_bin, self.bound
            ),
        )  # fmt: skip
        object.__setattr__(self, "_cache", prediction)
        return prediction

    def _scores(self, x: Any) -> list[float]:
        prediction = self._predict(self.as_tokens(x))
        active = prediction.active
        n_classes = len(self.labels)
        if len(active) < 2:
            return [0.0 if k in active or not active else -math.inf for k in range(n_classes)]
        active_scores = self.calibration.scores(prediction)
        if len(active) == n_classes:
            return active_scores
        scores = [-math.inf] * n_classes
        for k, score in zip(active, active_scores, strict=True):
            scores[k] = score
        return scores

    def label_proba_one(self, x: Any) -> dict[Label, float]:
        """Return the probability of each label, including wrong labels; {} before any learning.

        `predict_proba_one` gives the probability of the true class.
        """
        with self.lock:
            proba = self.predict_proba_one(x)
            prediction = self._predict(self.as_tokens(x))
            if len(prediction.active) >= 2:
                label_proba = self.calibration.label_proba(prediction)
                proba |= zip((self.labels[k] for k in prediction.active), label_proba, strict=True)
            return proba

    # Learning

    def relearn_one(self, x: Any, y: Label, receipt: Receipt, w: float = 1.0) -> Receipt:
        """Relearn a message of weight `w` in another order, with the feedback of its receipt.

        Return the new receipt. The rest of the old one can come from a model of other views.
        """
        feedback = feedback_of(receipt.deltas)
        relearned = self.learn(x, y, w, feedback)
        if feedback is None and CORRECTED in relearned.deltas:
            # In another order, other predictions are wrong; they do not show user corrections.
            deltas = {k: delta for k, delta in relearned.deltas.items() if k != CORRECTED}
            relearned = relearned._replace(deltas=deltas)
        return relearned

    def learn(self, x: Any, y: Label, w: float = 1.0, feedback: str | None = None) -> Receipt:
        """Learn a message. Return the receipt, which `unlearn` needs."""
        views = self.as_tokens(x)
        weight = 1.0 if w == 1 else checked_weight(w)
        with self.lock:
            update_weights, deltas = self._calibrate(views, y, weight, feedback)
            changes = [
                model.add(view, y, weight, update_weight)
                for model, view, update_weight in zip(
                    self._view_models, views, update_weights, strict=True
                )
            ]
        decay_halvings, class_weight, _ = changes[0]
        return Receipt(
            decay_halvings, class_weight, tuple([change[2] for change in changes]), deltas
        )

    def _calibrate(
        self, views: tuple[TokenCounts, ...], y: Label, w: float, feedback: str | None
    ) -> tuple[list[float], dict[str, Any]]:
        """Update the calibration with a message.

        Returns
        -------
        list of float
            The weight with which each view learns the message.
        dict
            The changes of the calibration, for the receipt.
        """
        counts = self._view_models[0].counts
        class_index = counts.index(y)
        if class_index is None:
            check_labels([y])  # before the calibration changes
        prediction = self._predict(views)
        active = prediction.active
        deltas: dict[str, Any] = {}
        present = active
        total_weight = math.fsum(counts.weights) / counts.scale
        is_counted = w > _NEGLIGIBLE_WEIGHT * total_weight
        if is_counted:
            k = len(counts.labels) if class_index is None else class_index
            classes = active if k in active else sorted([*active, k])
            present = self.calibration.present_classes.present(k, classes)
            deltas = self.calibration.present_classes.learn(k, classes)
        if class_index is None:
            deltas |= self.calibration.counted.learn(len(counts.labels), [w] * len(views))
            return [1.0] * len(views), deltas
        trust = 1.0
        if len(active) >= 2 and class_index in active and is_counted:
            trust, changes = self.calibration.learn(
                prediction,
                class_index,
                counts.weights[class_index] / counts.scale,
                total_weight,
                present,
                self._view_models[0].decay,
                feedback,
            )
            deltas |= changes
        update_weights = [
            model.update_weight(residual, trust)
            for model, residual in zip(
                self._view_models,
                self._view_residuals(prediction, class_index, w, len(present) < 2),
                strict=True,
            )
        ]
        deltas |= self.calibration.counted.learn(
            class_index, [w * weight for weight in update_weights]
        )
        return update_weights, deltas

    def _view_residuals(
        self, prediction: Prediction, class_index: int, w: float, in_run: bool
    ) -> list[float]:
        """Return the share of a message that each view learns: 1 - P, or more."""
        counts, n_views = self._view_models[0].counts, len(prediction.views)
        if class_index not in prediction.active:
            return [1.0] * n_views
        if len(prediction.active) < 2:  # with 1 - P, which is 0, the model would not learn
            return [0.5] * n_views
        class_weight = counts.weights[class_index] / counts.scale
        return _core.view_residuals(
            prediction.log_likelihoods,
            self.calibration.recalibration.log_weights,
            counts.weights,
            math.fsum(counts.weights),
            class_index,
            _RUN_UPDATE / (1 + class_weight / _RUN_MESSAGES) if in_run else 0.0,
            self.calibration.counted.shortfalls(class_index, class_weight + w),
        )

    def unlearn_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Undo the changes of a receipt that `check_receipt` accepted, as `unlearn` does."""
        views = self.as_tokens(x)
        with self.lock:
            subtracted = []
            try:
                for model, view, weight in zip(
                    self._view_models, views, receipt.view_weights, strict=True
                ):
                    subtracted.append(model.subtract(view, y, receipt, weight))
            except ValueError:
                for model, change in zip(self._view_models, subtracted, strict=False):
                    model.counts.add(*change)
                raise
            self.calibration.apply(receipt.deltas, -1)

    def reapply_checked(self, x: Any, y: Label, receipt: Receipt) -> None:
        """Make the changes of a receipt that `check_receipt` accepted, as `reapply` does."""
        views = self.as_tokens(x)
        with self.lock:
            for model, view, weight in zip(
                self._view_models, views, receipt.view_weights, strict=True
            ):
                model.add_back(view, y, receipt, weight)
            self.calibration.apply(receipt.deltas, 1)

    def _default_receipt(self, w: float) -> Receipt:
        raise ValueError("a model of several views cannot unlearn without a receipt")

    # State next to the counts

    @property
    def messages_in_runs(self) -> float:
        """Number of messages in runs of one class (`PresentClasses`)."""
        return self.calibration.present_classes.messages_in_runs

    def reliability_counts(self, y: Label) -> tuple[int, int]:
        """Return the number of correct and of wrong predictions of a class before learning."""
        return self.calibration.reliability.counts(self._view_models[0].counts.index(y))

    def is_ready(self, y: Label) -> bool:
        """Return whether programs can act on predictions of a class without review."""
        return self.calibration.reliability.is_ready(self._view_models[0].counts.index(y))

    def state(self) -> dict[str, Any]:
        """Return the state without the counts: slopes, intercepts, label noise and others."""
        return {"bound": self.bound, "by_length": self.by_length, **self.calibration.state()}

    def reordered_header(self, order: Sequence[int]) -> dict[str, Any]:
        """Return `to_header` with the classes in another order: class k had the index order[k]."""
        return self.to_header() | self.calibration.remap_classes(order).state()

    def restore(self, state: Any) -> None:
        """Set the state that `state` returned. A damaged one raises an exception of any type."""
        calibration = self.calibration.from_state(state)
        settings = {
            "rate": calibration.recalibration.rate,
            "label_noise": calibration.noise.fixed,
            "bound": state["bound"],
            "by_length": state["by_length"],
            "systems": len(calibration.recalibration.systems),
        }
        for name, value in settings.items():
            self.parameter_table[name].check(name, value)
        with self.lock:
            self._params_version += 1
            for name, value in settings.items():
                object.__setattr__(self, name, value)
            self.calibration = calibration
            self._factors = alpha_factors(self.systems)

    def deltas_since(self, before: ViewsNB) -> dict[str, Any]:
        """Return the difference of this state and an earlier one, in the form of a receipt."""
        return self.calibration.diff(before.calibration)

    def check_receipt(self, receipt: Receipt, classes: int) -> None:
        """Raise ValueError if a receipt cannot come from a model of these views and `classes`."""
        super().check_receipt(receipt._replace(deltas={}), classes)
        self.calibration.check(receipt.deltas, classes)

    def remap_classes(self, receipt: Receipt, order: Sequence[int | None]) -> Receipt:
        """Return a receipt with the classes in another order.

        Class k had the index order[k], or None if it is new.
        """
        return receipt._replace(deltas=self.calibration.remap_deltas(receipt.deltas, order))

    def explain_views(self, x: Any) -> list[Explanation]:
        """Return an explanation for each view: the contribution of each feature to each class.

        The contributions come from the system with the largest weight, multiplied by the slope of
        the view. The scores of the views sum to those of the message. The base of the first view
        includes the intercepts and the difference from the predicted probability. The base of each
        view includes the effect of clipping.
        """
        with self.lock:
            return self._explain_views(self.as_tokens(x))

    def contributions(self, x: Any) -> list[Contributions]:
        """Return the contributions of `explain_views`, without the slower computation of scores."""
        with self.lock:
            views = self.as_tokens(x)
            prediction, labels = self._predict(views), list(self.labels)
            if len(prediction.active) < 2:
                return [Contributions.none(view, labels) for view in views]
            best = self.calibration.recalibration.best()
            slopes = self.calibration.recalibration.systems[best].slopes(prediction.length_bin)
            chosen = [labels[k] for k in prediction.active]
            return [
                model.token_contributions(view, self._factors[best])[0].scaled(slope, chosen)
                for model, view, slope in zip(self._view_models, views, slopes, strict=True)
            ]

    def _explain_views(self, views: tuple[TokenCounts, ...]) -> list[Explanation]:
        """Compute the result of `explain_views`, with the lock held."""
        prediction, labels = self._predict(views), list(self.labels)
        if len(prediction.active) < 2:  # a single class has no other score to compare with
            zeros = dict.fromkeys(labels, 0.0)
            return [Explanation(zeros, zeros, Contributions.none(view, labels)) for view in views]
        best = self.calibration.recalibration.best()
        system, length_bin = self.calibration.recalibration.systems[best], prediction.length_bin
        base = {
            labels[k]: system.intercept(k, length_bin) + score - own
            for k, score, own in zip(
                prediction.active,
                self.calibration.scores(prediction),
                prediction.scores_of(best),
                strict=True,
            )
        }
        explanations: list[Explanation] = []
        for model, view, slope, bounded in zip(
            self._view_models,
            views,
            system.slopes(length_bin),
            prediction.log_likelihoods_of(best),
            strict=True,
        ):
            explanation = model.explain_tokens(view, [0.0] * len(labels), self._factors[best])
            if self.bound is not None:
                base = {
                    label: value + slope * (bounded[k] - explanation.scores[label])
                    for k, (label, value) in zip(prediction.active, base.items(), strict=True)
                }
            explanations.append(explanation.scaled(slope, base))
            base = dict.fromkeys(base, 0.0)
        return explanations

    def check_merge(self, other: Any) -> None:
        """Raise ValueError if the other model has other views or other parameters of counting."""
        super().check_merge(other)
        if other.systems != self.systems:
            raise ValueError(
                f"cannot merge: systems={self.systems} here, systems={other.systems} in the other "
                "model"
            )
        if len(other.view_models) != len(self._view_models):
            raise ValueError("cannot merge: the models have different views")
        for model, other_model in zip(self._view_models, other.view_models, strict=True):
            model.check_merge(other_model)

    def _merge(self, other: Self) -> None:
        """Add another model's counts, and keep the calibration of the model that learned more."""
        weight, other_weight = (sum(model.view_models[0].counts.weights) for model in (self, other))
        for model, other_model in zip(self._view_models, other.view_models, strict=True):
            model.merge(other_model)
        other_index = other.view_models[0].counts.index
        index_map = [other_index(y) for y in self.labels]
        merged = other.calibration.remap_classes(index_map)
        reliability, counted = self.calibration.reliability, self.calibration.counted
        reliability.apply(merged.reliability.state(), 1)
        counted.apply(merged.counted.state(), 1)
        if other_weight > weight:
            merged.recalibration.rate, merged.noise.fixed = self.rate, self.label_noise
            self.calibration = replace(merged, reliability=reliability, counted=counted)

    @classmethod
    def _from_view_models(cls, members: list[Any], outlined: Mapping[str, Any]) -> Self:
        if not members or not all(isinstance(model, CountingNB) for model in members):
            raise ValueError("the models of the views are not valid")
        return cls(members)
