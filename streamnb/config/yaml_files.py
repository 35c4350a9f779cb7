"""Configurations in YAML files, and settings of single keys."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from streamnb.config.sections import Section, assign_key
from streamnb.errors import ConfigError, convert_os_errors
from streamnb.patterns import lazy_pattern

MAX_BYTES = 1 << 20
MAX_DEPTH = 50  # maximum depth of nested lists and mappings

# 1e-3 is a number in YAML 1.2. PyYAML implements YAML 1.1, in which it is text. So the loader reads
# it as a number, and the dumper quotes text of this form.
_EXPONENT = lazy_pattern(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]{1,4}\Z")

_DECIMAL = lazy_pattern(r"[-+]?(?:0|[1-9][0-9]*)")


class _RefusedError(yaml.MarkedYAMLError):
    """The text is YAML, but not allowed here."""


class _Loader(yaml.SafeLoader):
    """Like `yaml.SafeLoader`, but errors in values name the line.

    Aliases are refused, because a few lines of them can expand to terabytes. So are repeated keys,
    and depths whose parsing takes quadratic time.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise _RefusedError(None, None, "aliases (*name) are not allowed", mark)
        if isinstance(event, yaml.CollectionStartEvent) and self._depth == MAX_DEPTH:
            problem = f"lists and mappings nested over {MAX_DEPTH} deep"
            raise _RefusedError(None, None, problem, mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        names = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    problem = f"the key {key.value!r} occurs twice"
                    raise _RefusedError(None, None, problem, key.start_mark)
                names.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        tag = node.tag.rpartition(":")[2]
        problem = f"{str(node.value)[:60]!r} is not a valid {tag}"
        if tag in ("int", "float") and isinstance(node.value, str) and ":" in node.value:
            problem += ": YAML reads it as a number in base 60; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        try:
            value = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError):
            if tag == "int":  # of more digits than Python converts
                problem += "; if it is a name or a label, put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None
        if tag == "int" and not _DECIMAL.fullmatch(node.value):
            number = f"{value}" if abs(value) < 1 << 64 else "a decimal number"
            problem += f": YAML reads it as another type; write {number}, or put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value


class _Dumper(yaml.SafeDumper):
    """Like `yaml.SafeDumper`, with the loader's syntax of numbers."""


for _yaml_class in (_Loader, _Dumper):
    _yaml_class.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Return the mapping that a YAML file contains.

    Raises
    ------
    ConfigError
        If the file is missing, too large, not YAML, not a mapping, repeats a key or has an alias.
    """
    with convert_os_errors(ConfigError, f"{path}: cannot be read"), open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_BYTES} bytes, the limit of a configuration")
    try:
        text = content.decode("utf-8-sig")
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 (it is a SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        line = 1 if error.problem_mark is None else error.problem_mark.line + 1
        reason = "" if isinstance(error, _RefusedError) else "not YAML: "
        raise ConfigError(f"{path}:{line}: {reason}{error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).splitlines()[0][:120]}") from None
    if data is None:
        raise ConfigError(f"{path}: the file is empty; expected keys and values, 'key: value'")
    if not isinstance(data, dict):
        raise ConfigError(
            f"{path}: expected YAML with a mapping of keys at the top, found {_describe(data)}"
        )
    return data


def _describe(value: Any) -> str:
    return {list: "a list", str: "text", bool: "a truth value"}.get(type(value), f"{value!r:.40}")


def resolve_paths(
    data: dict[str, Any], section: str, keys: Iterable[str], config_file: str | Path
) -> None:
    """Make the paths in a section absolute.

    Paths are relative to the folder of the configuration; `~` is the home folder. URLs do not
    change. Values other than text and lists do not change, because the checks of the section refuse
    them.
    """
    folder = os.path.dirname(os.path.abspath(config_file))
    values = data.get(section)
    if not isinstance(values, dict):
        return

    def resolve(path: Any) -> Any:
        if not isinstance(path, str) or path in ("", "-") or "://" in path:
            return path
        return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))

    for key in keys:
        if key in values:
            value = values[key]
            values[key] = list(map(resolve, value)) if isinstance(value, list) else resolve(value)


def set_key(data: dict[str, Any], assignment: str) -> None:
    """Apply the KEY=VALUE of an option to plain data. KEY is a path such as model.alpha.

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
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 (it is a SafeLoader)
    except _RefusedError as error:
        raise ConfigError(f"--set {assignment:.80}: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problem = getattr(error, "problem", None)
        reason = f": {problem}" if problem else ""
        raise ConfigError(f"--set {assignment:.80}: the value is not YAML{reason}") from None
    try:
        assign_key(data, key, value)
    except ValueError as error:
        raise ConfigError(f"--set {assignment:.80}: {error}") from None


def apply_settings(data: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a plain configuration with new values for keys, given as paths.

    If the kind of the model changes, its other keys get the defaults of the new kind.

    Examples
    --------
    >>> apply_settings({"model": {"kind": "multinomial", "alpha": 1}}, {"model.alpha": 2})
    {'model': {'kind': 'multinomial', 'alpha': 2}}
    """
    copy = {key: dict(value) if isinstance(value, dict) else value for key, value in data.items()}
    kind = settings.get("model.kind")
    if kind is not None and isinstance(copy.get("model"), dict) and kind != copy["model"]["kind"]:
        copy["model"] = {}
    for key, value in settings.items():
        section, dot, last_key = key.partition(".")
        keys = copy.get(section)
        if not dot:
            copy[section] = value
        elif isinstance(keys, dict):
            keys[last_key] = value
        else:
            raise ConfigError(f"sweep.{key}: {section} has one value, so it has no key {last_key}")
    return copy


def to_yaml(config: Section) -> str:
    """Return a configuration as YAML, with every default."""
    return yaml.dump(config.to_dict(), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
