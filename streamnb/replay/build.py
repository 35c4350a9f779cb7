"""From a configuration to the objects it names: tokenizer, classifier, feedback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamnb.classifier import Classifier, MailClassifier, TextClassifier
from streamnb.config import Config, schema
from streamnb.corpus import Corpus
from streamnb.errors import ConfigError
from streamnb.evaluate import Course, feedback
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes.window import WindowNB

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
        if key not in TOKENIZERS[kind]._table:
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
            return Classifier(tokenizer, schema.COUNTING[kind](**parameters))
        ready = next(made for made in READY.values() if type(tokenizer) is made.tokenizer_class)
        return ready(**parameters, words=tokenizer)
    except ValueError as error:
        raise ConfigError(f"model.{error}") from None


def _parameters(config: Config) -> list[str]:
    """Which keys of the section of the model are its parameters."""
    return [name for name in config.model.declared if name not in ("kind", "window")]


def make_course(config: Config, classifier: Classifier) -> Course:
    """Make the evaluation of a classifier's model that a configuration asks for."""
    model: Any = classifier.model
    if config.model.window is not None:
        model = WindowNB(model, config.model.window)
    return Course(model, make_feedback(config))


# Which lessons these regimes give does not depend on what the model said.
_BLIND = (schema.ImmediateConfig, schema.DelayedConfig, schema.PartialConfig, schema.NoisyConfig)


def missing_prior(config: Config, labels: Iterable[Any]) -> ConfigError | None:
    """What is wrong with a given prior: a class that it leaves out would have probability 0."""
    prior = getattr(config.model, "prior", None)
    known = [str(label) for label in labels]
    without = set(known) - set(map(str, prior)) if isinstance(prior, Mapping) else set()
    if not without:
        return None
    return ConfigError(
        f"model.prior: it has no probability for class {min(without)!r}; there are "
        f"{', '.join(known[:10])} (YAML reads some words, as yes and no, as no text: quote them)"
    )


def what_is_learned(config: Config) -> str:
    """What decides what a model learns, as one text; "" where its predictions have a say in it."""
    kind = config.model.kind
    if kind == "classifier" or not all(isinstance(one, _BLIND) for one in config.feedback):
        return ""
    table = schema.COUNTING[kind]._table
    if any(table[name].role == "teaching" for name in ("alpha", "length_norm")):
        return ""  # what is learned depends on what was predicted
    plain = config.model.plain()
    learned = {key: plain[key] for key in plain if key not in table or table[key].role != "formula"}
    return repr((learned, config.feedback))


def what_is_read(config: Config) -> str:
    """What decides the features of messages, as one text."""
    ready = config.model.kind == "classifier"
    table = READY["mail"]._table if ready else {}
    features = {
        key: value
        for key, value in config.model.plain().items()
        if key == "keep_names" or (key in table and table[key].role == "counts")
    }
    return repr((config.tokenizer.plain(), ready, features))


def wants_envelope(config: Config) -> bool:
    """Whether dates or recipients of the messages are wanted."""
    return any(
        (isinstance(regime, schema.DelayedConfig) and regime.hours is not None)
        or (isinstance(regime, schema.PartialConfig) and regime.recipients is not None)
        for regime in config.feedback
    )


def make_feedback(config: Config) -> list[feedback.Regime]:
    """Make the feedback regimes that a configuration asks for."""
    asked = config.feedback
    return [
        regime
        for number, one in enumerate(asked)
        for regime in _regimes(one, f"feedback[{number}]" if len(asked) > 1 else "feedback")
    ]


def _regimes(one: Any, path: str) -> list[feedback.Regime]:
    made: dict[str, Callable[[Any], feedback.Regime]] = {}  # of the keys that exclude each other
    if isinstance(one, schema.DelayedConfig):
        made = {
            "messages": feedback.Delayed,
            "hours": lambda hours: feedback.DelayedByTime(3600 * hours),
            "mean": lambda mean: feedback.DelayedAtRandom(mean, one.seed),
        }
    elif isinstance(one, schema.PartialConfig):
        made = {
            "share": lambda share: feedback.Partial(share, one.seed),
            "recipients": feedback.Recipients,
        }
    elif isinstance(one, schema.OnErrorConfig):
        return [feedback.OnError()]
    elif isinstance(one, schema.MarginConfig):
        return [feedback.Margin(one.log_odds)]
    elif isinstance(one, schema.ActiveConfig):
        return [feedback.Active(one.budget)]
    elif isinstance(one, schema.NoisyConfig):
        return [feedback.Noisy(one.share, one.seed)]
    else:
        return []
    given = [(make, getattr(one, key)) for key, make in made.items()]
    given = [(make, value) for make, value in given if value is not None]
    if len(given) != 1:
        raise ConfigError(f"{path}: give one of {', '.join(made)}")
    return [make(value) for make, value in given]


def complete(config: Config, corpus: Corpus, tokenizer: MailTokenizer | Tokenizer) -> str:
    """The configuration as YAML with nothing left open: replaying it gives the same results."""
    from streamnb.config.yaml_files import as_yaml  # here: few replays write files

    where = {"path": os.path.abspath(str(config.corpus.path)), "kind": corpus.kind}
    kind = next(kind for kind, made in TOKENIZERS.items() if type(tokenizer) is made)
    known = set(config.tokenizer.declared) - {"drop_headers"}
    options = {name: getattr(tokenizer, name) for name in tokenizer._table if name in known}
    return as_yaml(
        config.but(
            corpus=config.corpus.but(**where),
            tokenizer=config.tokenizer.but(kind=kind, **options),
            output=config.output.but(folder=None, model=None),
        )
    )
