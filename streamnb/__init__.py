"""A streaming learner for text classification: Naive Bayes as a table of counts.

The names below are loaded when first used, so that `import streamnb` costs next to nothing.

Examples
--------
>>> from streamnb import MultinomialNB, Tokenizer
>>> model = Tokenizer() | MultinomialNB()  # a river pipeline
>>> for text, label in [("free offer now", "spam"), ("lunch at noon", "ham")]:
...     model.learn_one(text, label)
>>> model.predict_one("free lunch offer")
'spam'
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from streamnb.classifier import Classifier, MailClassifier, TextClassifier
    from streamnb.mail_tokens import MailTokenizer
    from streamnb.mailbox.store import Mailbox
    from streamnb.naive_bayes import (
        AODE,
        BernoulliNB,
        CategoricalNB,
        ComplementNB,
        DiscriminativeMultinomialNB,
        GaussianDiscriminantAnalysis,
        GaussianNB,
        LazyBayesianRules,
        MixedNB,
        MultinomialNB,
        ViewsNB,
        WindowNB,
        load,
    )
    from streamnb.tokens import TokenCounts, Tokenizer

__all__ = [
    "AODE",
    "BernoulliNB",
    "CategoricalNB",
    "Classifier",
    "ComplementNB",
    "DiscriminativeMultinomialNB",
    "GaussianDiscriminantAnalysis",
    "GaussianNB",
    "LazyBayesianRules",
    "MailClassifier",
    "MailTokenizer",
    "Mailbox",
    "MixedNB",
    "MultinomialNB",
    "TextClassifier",
    "TokenCounts",
    "Tokenizer",
    "ViewsNB",
    "WindowNB",
    "__version__",
    "load",
]

_HOMES = {
    "AODE": "streamnb.naive_bayes",
    "BernoulliNB": "streamnb.naive_bayes",
    "CategoricalNB": "streamnb.naive_bayes",
    "Classifier": "streamnb.classifier",
    "ComplementNB": "streamnb.naive_bayes",
    "DiscriminativeMultinomialNB": "streamnb.naive_bayes",
    "GaussianDiscriminantAnalysis": "streamnb.naive_bayes",
    "GaussianNB": "streamnb.naive_bayes",
    "LazyBayesianRules": "streamnb.naive_bayes",
    "MailClassifier": "streamnb.classifier",
    "MailTokenizer": "streamnb.mail_tokens",
    "Mailbox": "streamnb.mailbox.store",
    "MixedNB": "streamnb.naive_bayes",
    "MultinomialNB": "streamnb.naive_bayes",
    "TextClassifier": "streamnb.classifier",
    "TokenCounts": "streamnb.tokens",
    "Tokenizer": "streamnb.tokens",
    "ViewsNB": "streamnb.naive_bayes",
    "WindowNB": "streamnb.naive_bayes",
    "load": "streamnb.naive_bayes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamnb' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ImportError as error:
        if find_spec("streamnb._core") is not None:
            raise
        raise ImportError(
            "streamnb's compiled module is not in this folder: this is the source, not what is "
            "installed. Run Python from another folder or with -P, or install with pip install -e ."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
