"""Streaming text classification with Naive Bayes: the model is a table of counts.

The names below are loaded at first use, so that `import streamnb` is fast.

Examples
--------
>>> from streamnb import MultinomialNB, Tokenizer
>>> model = Tokenizer() | MultinomialNB()  # a river pipeline
>>> for text, label in [("free offer now", "spam"), ("lunch at noon", "ham")]:
...     model.learn_one(text, label)
>>> model.predict_one("free lunch offer")
'spam'
"""

from __future__ import annotations

__version__ = "0.1.0"
# A checker of types takes a variable of this name as true. The command line handles Ctrl-C only
# after this module, so it imports no other one, such as `typing`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from streamnb.any_model import load
    from streamnb.classifier import Classifier, MailClassifier, TextClassifier
    from streamnb.features.mail_words import MailTokenizer
    from streamnb.features.token_counts import TokenCounts
    from streamnb.features.words import Tokenizer
    from streamnb.mailbox.mailbox import Mailbox
    from streamnb.naive_bayes import (
        BernoulliNB,
        ComplementNB,
        DiscriminativeMultinomialNB,
        MultinomialNB,
        ViewsNB,
        WindowNB,
    )
    from streamnb.tables import (
        AODE,
        CategoricalNB,
        GaussianDiscriminantAnalysis,
        GaussianNB,
        LazyBayesianRules,
        MixedNB,
    )

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
    name: f"streamnb.{module}"
    for module, names in {
        "any_model": "load",
        "classifier": "Classifier MailClassifier TextClassifier",
        "features.mail_words": "MailTokenizer",
        "features.token_counts": "TokenCounts",
        "features.words": "Tokenizer",
        "mailbox.mailbox": "Mailbox",
        "naive_bayes": "BernoulliNB ComplementNB DiscriminativeMultinomialNB MultinomialNB ViewsNB "
        "WindowNB",
        "tables": "AODE CategoricalNB GaussianDiscriminantAnalysis GaussianNB LazyBayesianRules "
        "MixedNB",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamnb' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ImportError as error:
        if not (error.name or "").startswith("streamnb._core."):
            raise
        raise ImportError(
            "streamnb's compiled module is missing: Python imports the source folder instead of "
            "the installed package. Run Python from another folder or with -P, or install with "
            "pip install -e ."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
