"""Construction of tokenizer, classifier and feedback from a configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from streamnb.classifier import Classifier, MailClassifier, TextClassifier
from streamnb.config import Config
from streamnb.corpus import Corpus
from streamnb.errors import ConfigError
from streamnb.evaluate import PrequentialRun, feedback
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes import ViewsNB, WindowNB

PRESETS: dict[str, type[MailClassifier | TextClassifier]] = {
    "text": TextClassifier,
    "mail": MailClassifier,
}
TOKENIZERS = {kind: preset.tokenizer_class for kind, preset in PRESETS.items()}


def make_tokenizer(config: Config, corpus: Corpus) -> MailTokenizer | Tokenizer:
    """Return the tokenizer of a configuration; kind "auto" depends on the corpus's content.

    Raises
    ------
    ConfigError
        If the tokenizer does not have one of the options.
    """
    kind = corpus.content if config.tokenizer.kind == "auto" else config.tokenizer.kind
    if kind != "mail" and corpus.drop_headers:
        raise ConfigError(
            f"tokenizer.kind: {kind!r} would read the field {corpus.drop_headers[0]}, which holds "
            "the label, as part of the message; with corpus.label_header, set tokenizer.kind to "
            "'mail'"
        )
    options = config.tokenizer.options()
    for key in options:
        if key not in TOKENIZERS[kind].parameter_table:
            raise ConfigError(f"tokenizer.{key}: the tokenizer for {kind} has no such option")
    if config.model.kind == "classifier":
        options = {**PRESETS[kind].word_options, **options}
    if corpus.drop_headers and kind == "mail":
        options["drop_headers"] = (*(options.get("drop_headers") or ()), *corpus.drop_headers)
    try:
        tokenizer = TOKENIZERS[kind](**options, keep_names=config.model.keep_names)
        _ = tokenizer.scanner
    except ValueError as error:
        raise ConfigError(f"tokenizer.{error}") from None
    return tokenizer


def make_classifier(config: Config, tokenizer: MailTokenizer | Tokenizer) -> Classifier:
    """Return the untrained classifier of a configuration."""
    kind = config.model.kind
    names = [name for name in config.model.declared_keys if name not in ("kind", "window")]
    parameters = {name: getattr(config.model, name) for name in names}
    try:
        if kind != "classifier":
            return Classifier(tokenizer, config.model.model_class(**parameters))
        preset = next(
            preset for preset in PRESETS.values() if type(tokenizer) is preset.tokenizer_class
        )
        return preset(**parameters, words=tokenizer)
    except ValueError as error:
        raise ConfigError(f"model.{error}") from None


def is_for_mail(classifier: Classifier) -> bool:
    """Return whether a classifier reads whole mails, not plain text."""
    return any(isinstance(each, MailTokenizer) for each in classifier.tokenizer.tokenizers)


def make_prequential_run(config: Config, classifier: Classifier) -> PrequentialRun:
    """Return the evaluation of a classifier's model, with the configured window and feedback."""
    model: Any = classifier.model
    if config.model.window is not None:
        model = WindowNB(model, config.model.window)
    return PrequentialRun(model, make_feedback(config))


def absent_class_error(key: str, label: Any, names: list[str]) -> ConfigError:
    """Return the error for a key with a class that no message has."""
    classes = ", ".join(names[:10])
    return ConfigError(f"{key}: no message is of class {label!r:.80}; there are {classes}")


def class_error(
    config: Config, labels: Iterable[Any], is_interrupted: bool = False
) -> ConfigError | None:
    """Return the error if the prior or the positive class does not fit the labels; otherwise None.

    A prior can name a class without messages if the run reads a part of the corpus, or was
    interrupted.
    """
    names = [str(label) for label in labels]
    positive = getattr(config.model, "positive", "spam")
    if positive not in ("spam", *names) and not is_interrupted:
        return absent_class_error("model.positive", positive, names)
    prior = getattr(config.model, "prior", None)
    if not isinstance(prior, Mapping):
        return None
    is_part = config.corpus.limit is not None or config.corpus.skip > 0
    missing = set(names) - set(prior)
    unknown = set(prior) - set(names)
    if missing:
        problem = f"it has no probability for class {min(missing)!r}"
    elif unknown and not is_part and not is_interrupted:
        problem = f"no message is of class {min(unknown)!r}"
    else:
        return None
    return ConfigError(
        f"model.prior: {problem}; there are {', '.join(names[:10])} (quote words such as yes and "
        "no: YAML reads them as booleans)"
    )


def training_key(config: Config) -> Hashable:
    """Return a key that is equal for two configurations if their models learn the same counts.

    Formula parameters are left out, because predictions read them and training does not. None if
    training depends on the model's own predictions.
    """
    model_class = ViewsNB if config.model.kind == "classifier" else config.model.model_class
    if model_class.discriminative or not all(
        policy.ignores_predictions for policy in make_feedback(config)
    ):
        return None
    table = model_class.parameter_table
    settings = config.to_dict()
    return _frozen(
        {
            "model": {
                key: value
                for key, value in settings["model"].items()
                if key not in table or table[key].role != "formula"
            },
            "feedback": settings["feedback"],
        }
    )


def features_key(config: Config) -> Hashable:
    """Return a key that is equal for two configurations if both extract the same features."""
    is_preset = config.model.kind == "classifier"
    table = PRESETS["mail"].parameter_table if is_preset else {}
    settings = config.to_dict()
    return _frozen(
        {
            "tokenizer": settings["tokenizer"],
            "preset": is_preset,
            "model": {
                key: value
                for key, value in settings["model"].items()
                if key == "keep_names" or (key in table and table[key].role == "counts")
            },
        }
    )


def _frozen(value: Any) -> Hashable:
    """Return plain data as nested tuples; 1, 1.0 and True stay different."""
    if isinstance(value, Mapping):
        items = [(_frozen(key), _frozen(value[key])) for key in value]
        return ("mapping", *sorted(items, key=repr))
    if isinstance(value, list | tuple):
        return ("list", *map(_frozen, value))
    return type(value).__name__, value


def needs_envelope(config: Config) -> bool:
    """Return whether the feedback depends on dates or recipients of the messages."""
    return any(policy.needs_envelope for policy in make_feedback(config))


# For each kind, the key that is set selects the policy; "" for a kind without variants.
_POLICIES: dict[str, dict[str, Callable[[Any], feedback.FeedbackPolicy]]] = {
    "on_error": {"": lambda section: feedback.OnError()},
    "margin": {"": lambda section: feedback.Margin(section.log_odds)},
    "active": {"": lambda section: feedback.Active(section.budget)},
    "noisy": {"": lambda section: feedback.Noisy(section.share, section.seed)},
    "delayed": {
        "messages": lambda section: feedback.Delayed(section.messages),
        "hours": lambda section: feedback.DelayedByTime(3600 * section.hours),
        "mean": lambda section: feedback.DelayedAtRandom(section.mean, section.seed),
    },
    "partial": {
        "share": lambda section: feedback.Partial(section.share, section.seed),
        "recipients": lambda section: feedback.Recipients(section.recipients),
    },
}


def make_feedback(config: Config) -> list[feedback.FeedbackPolicy]:
    """Return the feedback policies of a configuration, in order; empty for immediate feedback."""
    policies = []
    for index, section in enumerate(config.feedback):
        if section.kind == "immediate":
            continue
        variants = _POLICIES[section.kind]
        make = [make for key, make in variants.items() if getattr(section, key, 0) is not None]
        if len(make) != 1:
            path = f"feedback[{index}]" if len(config.feedback) > 1 else "feedback"
            raise ConfigError(f"{path}: set exactly one of {', '.join(variants)}")
        policies.append(make[0](section))
    return policies


def resolved_yaml(config: Config, corpus: Corpus, tokenizer: MailTokenizer | Tokenizer) -> str:
    """Return the configuration as YAML with all defaults filled in.

    A replay of this file gives the same results. Output settings are left out.
    """
    from streamnb.config.yaml_files import to_yaml  # imported here because few replays write files

    path = config.corpus.path
    paths = (path,) if isinstance(path, str) else path or ()
    absolute = tuple("-" if path == "-" else os.path.abspath(path) for path in paths)
    location = {"path": absolute[0] if len(absolute) == 1 else absolute, "kind": corpus.kind}
    kind = next(kind for kind, cls in TOKENIZERS.items() if type(tokenizer) is cls)
    keys = set(config.tokenizer.declared_keys) - {"drop_headers"}
    options = {name: getattr(tokenizer, name) for name in tokenizer.parameter_table if name in keys}
    return to_yaml(
        config.with_changes(
            corpus=config.corpus.with_changes(**location),
            tokenizer=config.tokenizer.with_changes(kind=kind, **options),
            output=config.output.with_changes(folder=None, model=None),
        )
    )
