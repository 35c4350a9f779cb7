"""From a configuration to the objects it names: tokenizer, classifier, feedback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamnb.classifier import Classifier, MailClassifier, TextClassifier
from streamnb.config import Config
from streamnb.corpus import Corpus
from streamnb.errors import ConfigError
from streamnb.evaluate import Course, feedback
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes import COUNTING, ViewsNB, WindowNB

READY: dict[str, type[MailClassifier | TextClassifier]] = {
    "text": TextClassifier,
    "mail": MailClassifier,
}
TOKENIZERS = {kind: made.tokenizer_class for kind, made in READY.items()}


def make_tokenizer(config: Config, corpus: Corpus) -> MailTokenizer | Tokenizer:
    """Make the tokenizer that a configuration asks for, or that the corpus's content wants."""
    kind = corpus.content if config.tokenizer.kind == "auto" else config.tokenizer.kind
    if kind != "mail" and corpus.drop_headers:
        raise ConfigError(
            f"tokenizer.kind: {kind!r} would read the field {corpus.drop_headers[0]}, which holds "
            "the label, as part of the message; corpus.label_header goes with kind 'mail'"
        )
    options = config.tokenizer.options()
    for key in options:
        if key not in TOKENIZERS[kind].parameter_table:
            raise ConfigError(f"tokenizer.{key}: the tokenizer for {kind} has no such option")
    if config.model.kind == "classifier":
        options = {**READY[kind].word_options, **options}
    if corpus.drop_headers and kind == "mail":
        options["drop_headers"] = (*(options.get("drop_headers") or ()), *corpus.drop_headers)
    try:
        tokenizer = TOKENIZERS[kind](**options, keep_names=config.model.keep_names)
        _ = tokenizer.scanner
    except ValueError as error:
        raise ConfigError(f"tokenizer.{error}") from None
    return tokenizer


def make_classifier(config: Config, tokenizer: MailTokenizer | Tokenizer) -> Classifier:
    """Make the tokenizer and model that a configuration asks for."""
    kind = config.model.kind
    parameters = {name: getattr(config.model, name) for name in _parameters(config)}
    try:
        if kind != "classifier":
            return Classifier(tokenizer, COUNTING[kind](**parameters))
        ready = next(made for made in READY.values() if type(tokenizer) is made.tokenizer_class)
        return ready(**parameters, words=tokenizer)
    except ValueError as error:
        raise ConfigError(f"model.{error}") from None


def _parameters(config: Config) -> list[str]:
    """Which keys of the section of the model are its parameters."""
    return [name for name in config.model.declared_keys if name not in ("kind", "window")]


def make_course(config: Config, classifier: Classifier) -> Course:
    """Make the evaluation of a classifier's model that a configuration asks for."""
    model: Any = classifier.model
    if config.model.window is not None:
        model = WindowNB(model, config.model.window)
    return Course(model, make_feedback(config))


def missing_prior(config: Config, labels: Iterable[Any]) -> ConfigError | None:
    """What is wrong with a given prior: a class that it leaves out would have probability 0."""
    prior = getattr(config.model, "prior", None)
    known = [str(label) for label in labels]
    without = set(known) - set(prior) if isinstance(prior, Mapping) else set()
    if not without:
        return None
    return ConfigError(
        f"model.prior: it has no probability for class {min(without)!r}; there are "
        f"{', '.join(known[:10])} (YAML reads some words, as yes and no, as no text: quote them)"
    )


def what_is_learned(config: Config) -> str:
    """What decides what a model learns, as one text; "" where its predictions have a say in it."""
    made = COUNTING.get(config.model.kind, ViewsNB)
    if made.discriminative or not all(regime.blind for regime in make_feedback(config)):
        return ""
    table = made.parameter_table
    plain = config.model.to_dict()
    learned = {key: plain[key] for key in plain if key not in table or table[key].role != "formula"}
    return repr((learned, config.feedback))


def what_is_read(config: Config) -> str:
    """What decides the features of messages, as one text."""
    ready = config.model.kind == "classifier"
    table = READY["mail"].parameter_table if ready else {}
    features = {
        key: value
        for key, value in config.model.to_dict().items()
        if key == "keep_names" or (key in table and table[key].role == "counts")
    }
    return repr((config.tokenizer.to_dict(), ready, features))


def wants_envelope(config: Config) -> bool:
    """Whether dates or recipients of the messages are wanted."""
    return any(regime.wants_envelope for regime in make_feedback(config))


def make_feedback(config: Config) -> list[feedback.Regime]:
    """Make the feedback regimes that a configuration asks for."""
    asked = config.feedback
    return [
        regime
        for number, one in enumerate(asked)
        for regime in _regimes(one, f"feedback[{number}]" if len(asked) > 1 else "feedback")
    ]


_MADE: dict[str, Callable[[Any], feedback.Regime]] = {
    "on_error": lambda one: feedback.OnError(),
    "margin": lambda one: feedback.Margin(one.log_odds),
    "active": lambda one: feedback.Active(one.budget),
    "noisy": lambda one: feedback.Noisy(one.share, one.seed),
}
# Of these kinds one of several keys says which it is.
_MADE_BY_KEY: dict[str, dict[str, Callable[[Any], feedback.Regime]]] = {
    "delayed": {
        "messages": lambda one: feedback.Delayed(one.messages),
        "hours": lambda one: feedback.DelayedByTime(3600 * one.hours),
        "mean": lambda one: feedback.DelayedAtRandom(one.mean, one.seed),
    },
    "partial": {
        "share": lambda one: feedback.Partial(one.share, one.seed),
        "recipients": lambda one: feedback.Recipients(one.recipients),
    },
}


def _regimes(one: Any, path: str) -> list[feedback.Regime]:
    if one.kind == "immediate":
        return []
    if one.kind in _MADE:
        return [_MADE[one.kind](one)]
    made = _MADE_BY_KEY[one.kind]
    given = [make for key, make in made.items() if getattr(one, key) is not None]
    if len(given) != 1:
        raise ConfigError(f"{path}: give one of {', '.join(made)}")
    return [given[0](one)]


def complete(config: Config, corpus: Corpus, tokenizer: MailTokenizer | Tokenizer) -> str:
    """The configuration as YAML with nothing left open: replaying it gives the same results."""
    from streamnb.config.yaml_files import to_yaml  # here: few replays write files

    where = {"path": os.path.abspath(str(config.corpus.path)), "kind": corpus.kind}
    kind = next(kind for kind, made in TOKENIZERS.items() if type(tokenizer) is made)
    known = set(config.tokenizer.declared_keys) - {"drop_headers"}
    options = {
        name: getattr(tokenizer, name) for name in tokenizer.parameter_table if name in known
    }
    return to_yaml(
        config.with_changes(
            corpus=config.corpus.with_changes(**where),
            tokenizer=config.tokenizer.with_changes(kind=kind, **options),
            output=config.output.with_changes(folder=None, model=None),
        )
    )
