"""The configuration of a replay: its sections, their keys, types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamnb.classifier.presets import PresetClassifier
from streamnb.config.sections import (
    ParameterSection,
    Section,
    build_section,
    convert_name,
    find_key,
    key,
    list_type,
    mapping_type,
    section_type,
)
from streamnb.constraints import (
    MIN_POSITIVE,
    Boolean,
    Choice,
    Constraint,
    Integer,
    Number,
    Text,
    suggest,
)
from streamnb.corpus import KINDS
from streamnb.corpus.order import ORDERS
from streamnb.features.mail_words import MailTokenizer
from streamnb.features.words import Tokenizer
from streamnb.naive_bayes import (
    BernoulliNB,
    ComplementNB,
    DiscriminativeMultinomialNB,
    MultinomialNB,
)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


NAME = Constraint(_is_name, "text that is not empty")
NATURAL = Integer()
SEED = Integer(0, 10**18)
FRACTION = Number(0, 1)
DELIMITER = Constraint(
    lambda value: isinstance(value, str) and len(value) == 1 and value not in '\r\n"',
    'one character, such as ";" or "\\t"',
)


def _convert_order(path: str, value: Any) -> Any:
    if value is None:
        return None
    kind, colon, seed = str(value).partition(":")
    has_seed = kind == "shuffled" and seed.isdecimal() and len(seed) <= 18
    if kind not in ORDERS or (colon and not has_seed):
        raise ValueError(
            f"{path}: {value!r:.80} is not one of {', '.join([*ORDERS, 'shuffled:SEED'])}"
            f"{suggest(kind, ORDERS)}"
        )
    return value


def _convert_paths(path: str, value: Any) -> Any:
    """Return one path, several, or None."""
    if isinstance(value, (list, tuple)):
        return list_type(NAME, 1)(path, value)
    return NAME.or_none().read(path, value)


class CorpusConfig(Section):
    """The messages to replay, and their order."""

    path: str | tuple[str, ...] | None = key(_convert_paths, default=None)
    kind: str | None = key(Choice(KINDS), default=None)
    order: str | None = key(_convert_order, default=None)
    skip: int = key(Integer(0), default=0)
    limit: int | None = key(NATURAL, default=None)
    label_header: str | None = key(Text(), default=None)
    label_column: str | None = key(convert_name, default=None)
    text_column: str | None = key(convert_name, default=None)
    date_column: str | None = key(convert_name, default=None)
    delimiter: str | None = key(DELIMITER, default=None)
    header: bool | None = key(Boolean(), default=None)
    on_error: str = key(Choice(("stop", "skip")), default="stop")


class TokenizerConfig(
    ParameterSection,
    parameters=(Tokenizer, MailTokenizer),
    exclude=("keep_names", "on"),
    use_defaults=False,
):
    """Parameters of `Tokenizer` or `MailTokenizer`, with their defaults."""

    kind: str = key(Choice(("auto", "text", "mail")), default="auto")

    def options(self) -> dict[str, Any]:
        """Return the parameters that were set."""
        names = self.explicit_keys - {"kind"}
        return {name: getattr(self, name) for name in self.declared_keys if name in names}

    def to_dict(self) -> dict[str, Any]:
        """Return the keys that were set, and the kind, as plain data."""
        names = self.explicit_keys | {"kind"}
        return {name: value for name, value in super().to_dict().items() if name in names}


class _ModelSection(ParameterSection):
    """The base section of models, with the options of decay and windows."""

    window: int | None = key(NATURAL, default=None)


class ClassifierConfig(
    _ModelSection, kind="classifier", parameters=PresetClassifier, exclude=("on", "words")
):
    """Parameters of the default classifier."""

    positive: str = key(convert_name, default="spam")


class MultinomialConfig(_ModelSection, kind="multinomial", parameters=MultinomialNB):
    """Parameters of `MultinomialNB`."""


class BernoulliConfig(_ModelSection, kind="bernoulli", parameters=BernoulliNB):
    """Parameters of `BernoulliNB`."""


class ComplementConfig(_ModelSection, kind="complement", parameters=ComplementNB):
    """Parameters of `ComplementNB`."""


class DiscriminativeConfig(
    _ModelSection, kind="discriminative", parameters=DiscriminativeMultinomialNB
):
    """Parameters of `DiscriminativeMultinomialNB`."""


class ImmediateConfig(Section, kind="immediate"):
    """Each label arrives right after its message."""


class DelayedConfig(Section, kind="delayed"):
    """Labels arrive late: by messages, by hours, or at random with a mean."""

    messages: int | None = key(Integer(0), default=None)
    hours: float | None = key(Number(0, 1e9), default=None)
    mean: float | None = key(Number(0, 1e9), default=None)
    seed: int = key(SEED, default=1)


class PartialConfig(Section, kind="partial"):
    """Only some labels arrive: a random fraction, or those of some recipients."""

    share: float | None = key(Number(0, 1), default=None)
    recipients: tuple[str, ...] | None = key(list_type(NAME, 1), default=None)
    seed: int = key(SEED, default=1)


class OnErrorConfig(Section, kind="on_error"):
    """Labels arrive for wrong predictions only."""


class MarginConfig(Section, kind="margin"):
    """Labels arrive for wrong predictions, and for correct ones within a margin of log-odds."""

    log_odds: float = key(Number(0, 1e9), default=3.0)


class ActiveConfig(Section, kind="active"):
    """The learner requests labels for a fraction of the messages."""

    budget: float = key(FRACTION, default=0.1)


def _convert_noise(path: str, value: Any) -> Any:
    """Return a fraction for all classes, or a fraction for each label of a mapping."""
    if isinstance(value, Mapping):
        return mapping_type(FRACTION, has_labels=True)(path, value)
    return FRACTION.read(path, value)


class NoisyConfig(Section, kind="noisy"):
    """A fraction of the labels is wrong, for all classes or for some classes."""

    share: float | dict[str, float] = key(_convert_noise, default=0.1)
    seed: int = key(SEED, default=1)


class EvaluateConfig(Section):
    """The figures of a replay."""

    positive: str | None = key(convert_name, default=None)
    window: int = key(Integer(1, 10**6), default=1000)
    fading: float = key(Number(MIN_POSITIVE, 1, below=True), default=0.999)
    every: int = key(NATURAL, default=100)
    intervals: bool = key(Boolean(), default=True)


class OutputConfig(Section):
    """The folder of the results, and the file of the model."""

    folder: str | None = key(NAME, default=None)
    model: str | None = key(NAME, default=None)


class SparkConfig(Section):
    """Settings of `streamnb spark`."""

    input: str | None = key(NAME, default=None)
    format: str = key(NAME, default="parquet")
    output: str | None = key(NAME, default=None)
    parts: int = key(Integer(1, 10**6), default=8)
    block: int = key(Integer(1, 10**9), default=4096)
    memory: float = key(Number(MIN_POSITIVE, 1e9), default=512.0)
    min_count: float = key(Number(), default=0.0)
    shards: int | None = key(Integer(1, 10**6), default=None)
    rounds: int | None = key(Integer(1, 10**6), default=None)
    classes: bool = key(Boolean(), default=False)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


_settings_type = mapping_type(Constraint(lambda value: True))


def _convert_sweep(path: str, value: Any) -> Any:
    """Return a mapping of keys to tuples of values, or a tuple of settings."""
    if isinstance(value, Mapping) and all(map(_is_list, value.values())):
        return {name: tuple(values) for name, values in _settings_type(path, value).items()}
    if _is_list(value) and all(isinstance(settings, Mapping) for settings in value):
        return tuple(_settings_type(f"{path}[{i}]", settings) for i, settings in enumerate(value))
    raise ValueError(f"{path}: expected a list of values for each key, or a list of settings")


_policy_type = section_type(
    ImmediateConfig,
    DelayedConfig,
    PartialConfig,
    OnErrorConfig,
    MarginConfig,
    ActiveConfig,
    NoisyConfig,
)
_policies_type = list_type(_policy_type)


def _convert_feedback(path: str, value: Any) -> Any:
    """Return the feedback policies for one section or for a list of sections."""
    return _policies_type(path, value) if _is_list(value) else (_policy_type(path, value),)


_model_type = section_type(
    ClassifierConfig,
    MultinomialConfig,
    BernoulliConfig,
    ComplementConfig,
    DiscriminativeConfig,
    default="classifier",
)


# The sections whose keys are suggested.
SETTINGS: dict[str, type[Section]] = {
    "model": ClassifierConfig,
    "tokenizer": TokenizerConfig,
    "corpus": CorpusConfig,
    "evaluate": EvaluateConfig,
    "output": OutputConfig,
}


class Config(Section):
    """The configuration of a replay."""

    corpus: CorpusConfig = key(section_type(CorpusConfig), default=CorpusConfig())
    tokenizer: Any = key(section_type(TokenizerConfig), default=TokenizerConfig())
    model: Any = key(_model_type, default=ClassifierConfig())
    feedback: tuple[Any, ...] = key(_convert_feedback, default=(ImmediateConfig(),))
    evaluate: EvaluateConfig = key(section_type(EvaluateConfig), default=EvaluateConfig())
    output: OutputConfig = key(section_type(OutputConfig), default=OutputConfig())
    sweep: Any = key(_convert_sweep, default={})
    jobs: int = key(Integer(1, 256), default=1)
    spark: SparkConfig | None = key(section_type(SparkConfig), default=None)

    def suggest_key(self, name: str) -> str:
        """Return a hint for an unknown key: its name with the section that has it, if any."""
        setting = find_key(name, SETTINGS)
        return super().suggest_key(name) if setting is None else f"did you mean {setting!r}?"

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for YAML or JSON, without sections that are None."""
        return {name: value for name, value in super().to_dict().items() if value is not None}


def build(data: dict[str, Any], source: str = "configuration") -> Config:
    """Return the configuration of a replay for plain data.

    Parameters
    ----------
    data
        Sections and keys, as read from YAML.
    source
        The name of the file, for errors.

    Raises
    ------
    ConfigError
        With the path of the key, what was expected, and the nearest known key.

    Examples
    --------
    >>> build({"model": {"alhpa": 1}})
    Traceback (most recent call last):
        ...
    streamnb.errors.ConfigError: configuration: model.alhpa: unknown key; did you mean 'alpha'?
    """
    return build_section(data, Config, source)
