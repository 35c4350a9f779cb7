"""YAML to a typed configuration; what is wrong is refused with the key's path."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import yaml
from msgspec import UNSET, Meta, Struct, UnsetType

from streamnb.corpus.order import ORDERS
from streamnb.errors import ConfigError

__all__ = ["Config", "as_yaml", "build", "read_yaml", "replaced", "set_key"]

MAX_BYTES = 1 << 20

Positive = Annotated[float, Meta(gt=0, le=1e100)]
Natural = Annotated[int, Meta(ge=1, le=10**12)]
Length = Annotated[int, Meta(ge=1, le=10**6)]
Name = Annotated[str, Meta(min_length=1)]
Size = Annotated[int, Meta(ge=1, le=8)]


class _Section(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A part of the configuration: unknown keys are errors."""


class CorpusConfig(_Section, frozen=True):
    """Which messages, in which order."""

    path: Name | None = None
    kind: Literal["trec", "folders", "maildir", "mbox", "tabs", "csv"] | None = None
    order: Annotated[str, Meta(pattern=rf"^({'|'.join(ORDERS)}|shuffled:[0-9]{{1,18}})$")] = (
        "indexed"
    )
    limit: Natural | None = None
    label_header: str | None = None
    label_column: str | None = None
    text_column: str | None = None
    on_error: Literal["stop", "skip"] = "stop"


class TokenizerConfig(_Section, frozen=True):
    """What counts as a token; what is not set has the default of the tokenizer that is used."""

    kind: Literal["auto", "text", "mail"] = "auto"
    casefold: bool | UnsetType = UNSET
    inner: str | UnsetType = UNSET
    min_length: Length | UnsetType = UNSET
    max_length: Length | UnsetType = UNSET
    ngrams: tuple[Size, Size] | UnsetType = UNSET
    analyzer: Literal["word", "char"] | UnsetType = UNSET
    stop_words: tuple[str, ...] | UnsetType | None = UNSET
    urls: bool | UnsetType = UNSET
    binary: bool | UnsetType = UNSET
    headers: bool | UnsetType = UNSET
    drop_headers: tuple[str, ...] | UnsetType | None = UNSET

    def options(self) -> dict[str, Any]:
        """The options that are set."""
        given = msgspec.structs.asdict(self)
        return {key: value for key, value in given.items() if key != "kind" and value is not UNSET}


Power = Annotated[float, Meta(ge=0, le=2)]
Decay = Annotated[float, Meta(ge=0.5, le=1)]


class _Learner(_Section, frozen=True):
    """What every model has: forgetting, and whether features keep their names."""

    decay: Decay = 1.0
    window: Natural | None = None
    keep_names: bool = True


class _Model(_Learner, frozen=True):
    alpha: Positive = 1.0
    unseen: Literal["ignore", "smooth"] = "ignore"
    tau: Positive | None = None
    length_power: Power = 0.5


Shares = dict[str, Annotated[float, Meta(ge=0, le=1e100)]]


class MultinomialConfig(_Model, tag_field="kind", tag="multinomial", frozen=True):
    """Parameters of `MultinomialNB`."""

    prior: Literal["learned", "uniform"] | Shares = "learned"


class BernoulliConfig(_Model, tag_field="kind", tag="bernoulli", frozen=True):
    """Parameters of `BernoulliNB`."""

    prior: Literal["learned", "uniform"] | Shares = "learned"
    binarize: Annotated[float, Meta(ge=0, le=1e100)] = 0.0


class ComplementConfig(_Model, tag_field="kind", tag="complement", frozen=True):
    """Parameters of `ComplementNB`."""

    prior: Literal["none", "learned", "uniform"] | Shares = "none"


class DiscriminativeConfig(_Learner, tag_field="kind", tag="discriminative", frozen=True):
    """Parameters of `DiscriminativeMultinomialNB`."""

    alpha: Positive = 0.1
    prior: Literal["learned", "uniform"] | Shares = "learned"
    unseen: Literal["ignore", "smooth"] = "ignore"
    tau: Positive | None = 0.8
    length_power: Power = 2 / 3


View = Literal["words", "bytes"]


class ClassifierConfig(_Learner, tag_field="kind", tag="classifier", frozen=True):
    """Parameters of `MailClassifier` and `TextClassifier`."""

    alpha: Positive = 0.1
    tau: Positive | None = 0.8
    length_power: Power = 2 / 3
    views: tuple[View, ...] = ("words", "bytes")
    gram: Size = 4
    first_bytes: Annotated[int, Meta(ge=1, le=1 << 20)] = 2000
    discriminative: bool = True
    rate: Annotated[float, Meta(ge=0, le=100)] = 0.3
    label_noise: Annotated[float, Meta(ge=0, lt=0.5)] | None = None


ModelConfig = (
    ClassifierConfig | MultinomialConfig | BernoulliConfig | ComplementConfig | DiscriminativeConfig
)


Share = Annotated[float, Meta(ge=0, le=1)]
Seed = Annotated[int, Meta(ge=0, le=10**18)]


class ImmediateConfig(_Section, tag_field="kind", tag="immediate", frozen=True):
    """Every label, right after its message."""


class DelayedConfig(_Section, tag_field="kind", tag="delayed", frozen=True):
    """Labels come late: one of these says by how much."""

    messages: Annotated[int, Meta(ge=0, le=10**12)] | None = None
    hours: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    mean: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    seed: Seed = 1


class PartialConfig(_Section, tag_field="kind", tag="partial", frozen=True):
    """Some labels never come: a share of them does, or those of some recipients."""

    share: Share | None = None
    recipients: tuple[Name, ...] | None = None
    seed: Seed = 1


class OnErrorConfig(_Section, tag_field="kind", tag="on_error", frozen=True):
    """Errors only."""


class MarginConfig(_Section, tag_field="kind", tag="margin", frozen=True):
    """Errors, and what was right by less than so many log-odds."""

    log_odds: Annotated[float, Meta(ge=0, le=1e9)] = 3.0


class ActiveConfig(_Section, tag_field="kind", tag="active", frozen=True):
    """A share of the labels, asked for by the learner."""

    budget: Share = 0.1


class NoisyConfig(_Section, tag_field="kind", tag="noisy", frozen=True):
    """A share of the labels is wrong; of all classes, or of each that is named."""

    share: Share | dict[str, Share] = 0.1
    seed: Seed = 1


RegimeConfig = (
    ImmediateConfig
    | DelayedConfig
    | PartialConfig
    | OnErrorConfig
    | MarginConfig
    | ActiveConfig
    | NoisyConfig
)


class EvaluateConfig(_Section, frozen=True):
    """Which figures."""

    positive: str | None = None
    window: Length = 1000
    fading: Annotated[float, Meta(gt=0, lt=1)] = 0.999
    every: Natural = 100


class OutputConfig(_Section, frozen=True):
    """Where results go."""

    folder: Name | None = None
    model: Name | None = None


class Config(_Section, frozen=True):
    """A whole replay."""

    corpus: CorpusConfig = CorpusConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ClassifierConfig()
    feedback: RegimeConfig | tuple[RegimeConfig, ...] = ImmediateConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    output: OutputConfig = OutputConfig()
    sweep: dict[str, tuple[Any, ...]] | tuple[dict[str, Any], ...] = {}
    jobs: Annotated[int, Meta(ge=1, le=256)] = 1


_MODELS: dict[str, type[_Learner]] = {
    "classifier": ClassifierConfig,
    "multinomial": MultinomialConfig,
    "bernoulli": BernoulliConfig,
    "complement": ComplementConfig,
    "discriminative": DiscriminativeConfig,
}


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping, refusing what is not plain data.

    Raises
    ------
    ConfigError
        Where the file is missing, too large, not YAML, not a mapping, or repeats a key. Aliases
        are refused: a few lines of them can stand for terabytes.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_BYTES} bytes, too long for a configuration")
    try:
        text = raw.decode("utf-8-sig")
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                line = _line(event.start_mark)
                raise ConfigError(f"{path}:{line}: aliases (*name) are not allowed")
        _refuse_repeated(path, yaml.compose(text, Loader=yaml.SafeLoader))
        data = yaml.safe_load(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        line = _line(error.problem_mark)
        raise ConfigError(f"{path}:{line}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).splitlines()[0][:120]}") from None
    if data is None:
        raise ConfigError(
            f"{path}: the file is empty; at least name the corpus: 'corpus: {{path: ...}}'"
        )
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of keys at the top, found {_kind(data)}")
    return data


def _line(mark: Any) -> int:
    return mark.line + 1 if mark is not None else 1


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", bool: "a truth value"}.get(type(value), f"{value!r:.40}")


def _refuse_repeated(path: str | Path, root: yaml.Node | None) -> None:
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        line = _line(key.start_mark)
                        raise ConfigError(f"{path}:{line}: the key {key.value!r} is there twice")
                    seen.add(key.value)
                nodes.append(value)
        elif isinstance(node, yaml.SequenceNode):
            nodes.extend(node.value)


def set_key(data: dict[str, Any], assignment: str) -> None:
    """Apply a KEY=VALUE of the command line, KEY a path such as model.alpha.

    Examples
    --------
    >>> data = {}
    >>> set_key(data, "model.alpha=.5")
    >>> data
    {'model': {'alpha': 0.5}}
    """
    key, equals, text = assignment.partition("=")
    if not equals or not key or not all(key.split(".")):
        raise ConfigError(f"--set {assignment}: expected KEY=VALUE, such as model.alpha=0.5")
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"--set {assignment}: the value is not YAML") from None
    *sections, last = key.split(".")
    for section in sections:
        data = data.setdefault(section, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {assignment}: {section} has no keys below it")
    data[last] = value


def replaced(data: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A copy of a plain configuration with some keys, given as paths, set.

    Where the kind of model changes, its other keys have the defaults of the new kind.

    Examples
    --------
    >>> replaced({"model": {"kind": "multinomial", "alpha": 1}}, {"model.alpha": 2})
    {'model': {'kind': 'multinomial', 'alpha': 2}}
    """
    out = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    kind = settings.get("model.kind")
    if kind is not None and isinstance(out.get("model"), dict) and kind != out["model"]["kind"]:
        out["model"] = {}
    for key, value in settings.items():
        section, dot, last = key.partition(".")
        inner = out.get(section)
        if not dot:
            out[section] = value
        elif isinstance(inner, dict):
            inner[last] = value
        else:
            raise ConfigError(f"sweep.{key}: {section} is not a mapping of keys")
    return out


_AT = re.compile(
    r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?$", re.S
)  # "Expected `float`, got `str` - at `$.model.alpha`"
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")


def build(data: dict[str, Any], source: str = "configuration") -> Config:
    """Make the configuration of plain data.

    Raises
    ------
    ConfigError
        With the key's path, what was expected, and the nearest known key.

    Examples
    --------
    >>> build({"model": {"alhpa": 1}})
    Traceback (most recent call last):
        ...
    streamnb.errors.ConfigError: configuration: model.alhpa: unknown key; did you mean 'alpha'?
    """
    data = _with_exponents(data)
    for section, value in data.items():
        if value is None and section in Config.__struct_fields__:
            data[section] = {}  # a section that is only commented out
    if isinstance(data.get("model"), dict):
        data["model"] = {"kind": "classifier", **data["model"]}
    try:
        return msgspec.convert(data, Config, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {_explained(str(error), data)}") from None


_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]{1,4}")


def _with_exponents(value: Any) -> Any:
    """Take 1e-3 for the number it is in YAML 1.2; to PyYAML, which reads YAML 1.1, it is text."""
    if isinstance(value, dict):
        return {key: _with_exponents(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_exponents(item) for item in value]
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    return value


def _explained(message: str, data: dict[str, Any]) -> str:
    match = _AT.match(message)
    what, path = (match["what"], (match["path"] or "").lstrip(".")) if match else (message, "")
    if match is not None and match["key"]:
        return f"{path or 'top'}: a key is not text; put it in quotes if it should be"
    unknown = _UNKNOWN.match(what)
    if unknown is not None:
        key = unknown[1]
        near = difflib.get_close_matches(key, _known_keys(path, data), n=1, cutoff=0.5)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"known are {', '.join(_known_keys(path, data))}"
        )
        return f"{path + '.' if path else ''}{key}: unknown key; {hint}"
    if what.startswith("Invalid value") and path.endswith("kind"):
        return f"{path}: {what[14:]} is not one of {', '.join(_MODELS)}"
    choices = _choices(path, data)
    if choices:
        return f"{path}: expected one of {', '.join(choices)}"
    lowered = what[:1].lower() + what[1:]
    return f"{path or 'top'}: {lowered.replace('`', '')}"


def _choices(path: str, data: dict[str, Any]) -> list[str]:
    """The words that a key may have for its value, if it is one that has such."""
    if path == "corpus.order":
        return [*ORDERS, "shuffled:SEED"]
    section, _, key = path.partition(".")
    made: Any = {field.name: field.type for field in msgspec.structs.fields(Config)}.get(section)
    if section == "model" and isinstance(data["model"], dict):
        made = _MODELS.get(str(data["model"].get("kind")))
    if not hasattr(made, "__struct_fields__"):
        return []
    kind = {field.name: field.type for field in msgspec.structs.fields(made)}.get(key)
    literals = [part for part in (kind, *get_args(kind)) if get_origin(part) is Literal]
    return [word for literal in literals for word in get_args(literal)]


def _known_keys(path: str, data: dict[str, Any]) -> list[str]:
    if path == "model":
        kind = data["model"].get("kind")
        fields = (
            _MODELS.get(kind, ClassifierConfig).__struct_fields__ if isinstance(kind, str) else ()
        )
        return ["kind", *fields]
    field = {field.name: field.type for field in msgspec.structs.fields(Config)}.get(path, Config)
    return list(getattr(field, "__struct_fields__", ()))


def as_yaml(config: Config) -> str:
    """Write a configuration out, every default included."""
    text: str = yaml.safe_dump(msgspec.to_builtins(config), sort_keys=False, allow_unicode=True)
    return text
