"""Names of parameters in other libraries, and their counterparts in streamnb."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np


class _Synonym(NamedTuple):
    """A parameter of scikit-learn with a synonym in streamnb, and the map of its values.

    `values` maps the values that have the same meaning; None for all values. `_UNCHANGED` leaves
    streamnb's parameter unchanged.
    """

    name: str
    values: Mapping[Any, Any] | None = None


_UNCHANGED: Any = object()
# If two set the same parameter, the later one is used, as in scikit-learn.
_SYNONYMS = {
    "fit_prior": _Synonym("prior", {True: "learned", False: "uniform"}),
    "class_prior": _Synonym("prior"),
    "priors": _Synonym("prior"),
    "force_alpha": _Synonym("alpha", {True: _UNCHANGED}),
    "ngram_range": _Synonym("ngrams"),
    "lowercase": _Synonym("casefold"),
}


def translate_names(cls: type[Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with scikit-learn's names replaced by streamnb's, if they mean the same.

    Other unknown names and values are returned unchanged, for the caller to refuse.

    Examples
    --------
    >>> from streamnb import MultinomialNB, Tokenizer
    >>> translate_names(MultinomialNB, {"alpha": 0.1, "fit_prior": False, "class_prior": None})
    {'alpha': 0.1, 'prior': 'uniform'}
    >>> Tokenizer(ngram_range=(1, 2)).ngrams
    (1, 2)
    """
    table = cls.parameter_table
    if table.keys() >= params.keys():
        return dict(params)
    translated = dict(params)
    for foreign, synonym in _SYNONYMS.items():
        if foreign not in params or foreign in table or synonym.name not in table:
            continue
        if foreign in getattr(cls, "foreign_names", ()):
            continue
        value = params[foreign]
        if synonym.values is not None:
            if not (isinstance(value, bool | np.bool_) and value in synonym.values):
                continue
            value = synonym.values[value]
        if value is not _UNCHANGED and synonym.name in params:
            continue  # both names of one parameter raise an error
        del translated[foreign]
        if value is None:
            translated.setdefault(synonym.name, table[synonym.name].default)
        elif value is not _UNCHANGED:
            translated[synonym.name] = value
    return translated


# Advice for parameters of other libraries: the nearest parameter of streamnb. ", or " separates
# alternatives; an error has those whose parameters the class has.
_FOREIGN_NAMES = {
    "fit_prior": "use prior='uniform' for fit_prior=False, prior='learned' for True",
    "class_prior": "use prior={label: share, ...}",
    "priors": "use prior={label: share, ...}",
    "force_alpha": "leave it out: alpha is never changed, as with force_alpha=True; its minimum "
    "is 1e-100",
    # the names of R's e1071 and naivebayes, of Weka, and of NLTK
    "laplace": "use alpha=",
    "smoothing": "use alpha=, or use var_smoothing=",
    "lidstone": "use alpha=",
    "norm": "use length_norm= for the length of texts; weights of classes are not normalised",
    "min_categories": "leave it out: levels need not be declared, and new ones can come at any "
    "time",
    "solver": "leave it out: there is one solver; see covariance= and shrinkage=",
    "store_covariance": "leave it out: covariances are computed when they are needed",
    "reg_param": "use shrinkage=",
    "class_weight": "pass sample_weight= to fit, or set prior='uniform'",
    "max_iter": "leave it out: training reads the data once",
    "warm_start": "leave it out: partial_fit continues a training",
    "verbose": "leave it out: training prints nothing",
    "n_components": "leave it out: the model does not reduce dimensions",
    "random_state": "leave it out: the result does not depend on a seed",
    "n_jobs": "train models in your own processes, and merge() them",
}
_TOKENIZER_NAMES = {
    "ngram_range": "use ngrams=(smallest, largest)",
    "lowercase": "use casefold=True or False",
    "token_pattern": "use a callable from a text to its tokens as the tokenizer, or inner=, "
    "min_length= and max_length=",
    "max_df": "leave frequent words out with stop_words=",
    "min_df": "leave it out: rare words have small weights",
    "use_idf": "use sublinear=True, or use a model that normalises lengths",
    "sublinear_tf": "use sublinear=True",
    "analyzer": "use analyzer='word' or 'char'",
    "binary": "use binary=True",
    "stop_words": "use stop_words=, a list of words",
    "vocabulary": "leave it out: the vocabulary is learned",
    "strip_accents": "use a callable from a text to its tokens as the tokenizer",
    "preprocessor": "use a callable from a text to its tokens as the tokenizer",
}


def counterpart(name: str) -> str | None:
    """Return the parameter of streamnb for one of another library; None if there is none.

    Examples
    --------
    >>> counterpart("class_prior"), counterpart("laplace"), counterpart("n_jobs")
    ('prior', 'alpha', None)
    """
    if name in _SYNONYMS:
        return _SYNONYMS[name].name
    advised = re.match(r"use (\w+)=(?:,|$)", _FOREIGN_NAMES.get(name, ""))
    return advised[1] if advised else None


def unknown_name_error(cls: type[Any], name: str, kind: str = "parameter") -> str:
    """Return the text of the error for a name that a class does not have, with a suggestion.

    Examples
    --------
    >>> from streamnb import Tokenizer
    >>> unknown_name_error(Tokenizer, "sublinear_tf")
    "a Tokenizer has no parameter 'sublinear_tf': use sublinear=True"
    """
    import difflib  # here: only errors need it

    table = cls.parameter_table
    article = "an" if cls.__name__[0] in "AEIOU" else "a"
    message = f"{article} {cls.__name__} has no {kind} {name!r}"
    near = difflib.get_close_matches(name, table, n=1)
    advice_by_name = _FOREIGN_NAMES | _TOKENIZER_NAMES | dict(getattr(cls, "foreign_names", {}))
    alternatives = advice_by_name.get(name, "").split(", or ")
    known_names = set(table)
    if name not in _TOKENIZER_NAMES:
        known_names.add(name)  # an advice can explain the values of the foreign name
    is_model = hasattr(cls, "predict_proba")
    if is_model:
        known_names.add("sample_weight")  # a parameter of `fit`
    own = [
        advice for advice in alternatives if advice and _advised_parameters(advice) <= known_names
    ]
    if own:
        return f"{message}: {', or '.join(own)}"
    is_text_model = is_model and not known_names.isdisjoint(("tokenizer", "words", "keep_names"))
    if name in _TOKENIZER_NAMES and is_text_model:
        advice = _TOKENIZER_NAMES[name]
        return f"{message}: it belongs to the tokenizer, Tokenizer(...); there {advice}"
    if near and name not in advice_by_name:
        return f"{message}; did you mean {near[0]!r}?"
    return f"{message}; it has {', '.join(table) or 'none'}"


def _advised_parameters(advice: str) -> set[str]:
    """Return the parameters that an advice names."""
    return set(re.findall(r"(\w+)=", advice))
