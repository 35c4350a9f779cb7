"""Configurations as YAML files, and keys set one by one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from streamnb.config.sections import Section
from streamnb.errors import ConfigError, convert_os_errors

MAX_BYTES = 1 << 20
MAX_DEPTH = 50

# 1e-3 is a number in YAML 1.2 and in every other language; PyYAML, which reads YAML 1.1, takes it
# for text. Written text that looks so is put in quotes.
_EXPONENT = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]{1,4}\Z")


class _Loader(yaml.SafeLoader):
    """Plain data only, as `yaml.safe_load`; what is wrong with a value is told with its line."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        kind = node.tag.rpartition(":")[2]
        problem = f"{str(node.value)[:60]!r} is no {kind}"
        if kind in ("int", "float") and isinstance(node.value, str) and ":" in node.value:
            problem += ": to YAML it is a number to the base of 60; put it in quotes"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError):
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None


class _Dumper(yaml.SafeDumper):
    """Plain data only, as `yaml.safe_dump`."""


for made in (_Loader, _Dumper):
    made.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+.0123456789"))


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping, refusing what is not plain data.

    Raises
    ------
    ConfigError
        Where the file is missing, too large, not YAML, not a mapping, or repeats a key. Aliases
        are refused: a few lines of them can stand for terabytes.
    """
    with convert_os_errors(ConfigError, f"{path}: cannot be read"), open(path, "rb") as file:
        raw = file.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: longer than {MAX_BYTES} bytes, too long for a configuration")
    try:
        text = raw.decode("utf-8-sig")
        _refuse_traps(text, lambda line: f"{path}:{line}")
        _refuse_repeated(path, yaml.compose(text, Loader=_Loader))
        data = yaml.load(text, Loader=_Loader)  # noqa: S506 (it is a SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from None
    except yaml.MarkedYAMLError as error:
        line = _line(error.problem_mark)
        raise ConfigError(f"{path}:{line}: not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).splitlines()[0][:120]}") from None
    if data is None:
        raise ConfigError(f"{path}: the file is empty; expected keys and values, 'key: value'")
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of keys at the top, found {_kind(data)}")
    return data


def _refuse_traps(text: str, at: Callable[[int], str]) -> None:
    """Refuse aliases, and depths that take time that grows with their square."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(f"{at(_line(event.start_mark))}: aliases (*name) are not allowed")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            line = _line(event.start_mark)
            raise ConfigError(f"{at(line)}: more than {MAX_DEPTH} brackets in each other")


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


def resolve_paths(
    data: dict[str, Any], section: str, keys: Iterable[str], config_file: str | Path
) -> None:
    """Make paths in a section absolute: they are relative to the file's folder; ~ is one's home.

    What is no text, or list of texts, is left for the checks of the section.
    """
    folder = os.path.dirname(os.path.abspath(config_file))
    there = data.get(section)
    if not isinstance(there, dict):
        return

    def at(path: Any) -> Any:
        if not isinstance(path, str) or not path:
            return path
        return os.path.normpath(os.path.join(folder, os.path.expanduser(path)))

    for key in keys:
        if key in there:
            value = there[key]
            there[key] = list(map(at, value)) if isinstance(value, list) else at(value)


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
        _refuse_traps(text, lambda line: f"--set {assignment:.80}")
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 (it is a SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"--set {assignment}: the value is not YAML") from None
    *sections, last = key.split(".")
    for section in sections:
        if data.get(section) is None:  # also where the file has only the section's name
            data[section] = {}
        data = data[section]
        if not isinstance(data, dict):
            raise ConfigError(f"--set {assignment}: {section} has no keys below it")
    data[last] = value


def apply_settings(data: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A copy of a plain configuration with some keys, given as paths, set.

    Where the kind of model changes, its other keys have the defaults of the new kind.

    Examples
    --------
    >>> apply_settings({"model": {"kind": "multinomial", "alpha": 1}}, {"model.alpha": 2})
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


def to_yaml(config: Section) -> str:
    """Write a configuration out, every default included."""
    return yaml.dump(config.to_dict(), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
