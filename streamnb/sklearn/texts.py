"""Estimators of the default classifiers of texts and mail."""

from __future__ import annotations

from typing import Any

from streamnb import classifier
from streamnb.classifier.presets import PresetParameters
from streamnb.counts.protocol import Floats, Label
from streamnb.features.text_input import as_sequence, as_texts
from streamnb.naive_bayes.matrices import as_messages
from streamnb.parameters import parameter, parameter_class
from streamnb.sklearn.estimator import Estimator


@parameter_class(kw_only=True)
class _TextEstimator(PresetParameters, Estimator):
    """Base of the estimators that take raw texts or mails.

    X is a sequence of texts, an array of shape (n, 1) or a frame with one column; with `on` also a
    frame, or a list of dicts, that has the texts under that name.

    Parameters
    ----------
    costs
        Costs of a false alarm, a miss and a review, for `model_.classify`.
    """

    costs: tuple[float, float, float] = parameter(  # type: ignore[assignment]  # a plain one
        classifier.COSTS, "formula", default=tuple(classifier.Costs())
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _default_of(self, name: str) -> Any:
        if name != "words":
            return None
        return self.model_class.tokenizer_class(**self.model_class.word_options)

    def _read(self, X: Any, reset: bool) -> Any:
        X = as_sequence(X)
        if self.on is not None:
            return as_messages(X, by_name=True)
        texts = as_texts(X)
        if texts is None:
            raise ValueError(
                f"a {type(self).__name__} takes texts: a list, an array of shape (n,) or (n, 1), "
                "or a frame with one column; for several columns, set on= to the name of one"
            )
        self._check_text_column(X, reset)
        return texts

    def _declare(self, model: Any, classes: list[Label]) -> None:
        model._declare(classes)

    def _learn_rows(self, model: Any, rows: Any, y: list[Label], weights: Floats) -> None:
        is_first = not any(model.messages().values())
        declared = list(model.labels)
        (model.fit if is_first else model.learn_many)(rows, y, weights)
        self._declare(model, declared)  # `fit` removes classes without messages

    def _class_weights(self) -> list[float]:
        return list(self.model_.messages().values())


@parameter_class(kw_only=True)
class TextClassifier(_TextEstimator, model=classifier.TextClassifier):
    """`streamnb.TextClassifier`, the default for texts, as a scikit-learn estimator.

    `fit` and the first `partial_fit` learn the texts once, in a shuffled order. Later calls of
    `partial_fit` learn more texts in the given order.

    Attributes
    ----------
    model_ : streamnb.TextClassifier
        The trained classifier, with all its methods.
    classes_ : ndarray
        The classes, sorted.
    class_count_, class_log_prior_ : ndarray
        Weight of the texts of each class, and the log of its share, shape (K,).

    Examples
    --------
    >>> from streamnb.sklearn import TextClassifier
    >>> texts = ["goal in the last minute", "the vote was close"]
    >>> model = TextClassifier().fit(texts, ["sport", "news"])
    >>> str(model.predict(["a late goal"])[0])
    'sport'
    """


@parameter_class(kw_only=True)
class MailClassifier(_TextEstimator, model=classifier.MailClassifier):
    """`streamnb.MailClassifier`, the default for mail, as a scikit-learn estimator.

    A message is bytes or a str. Attributes are as for `TextClassifier`.
    """
