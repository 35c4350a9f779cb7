"""YAML to a typed configuration; what is wrong is refused with the key's path."""

from streamnb.config.build import build
from streamnb.config.files import as_yaml, read_yaml, replaced, set_key
from streamnb.config.schema import Config

__all__ = [
    "Config",
    "as_yaml",
    "build",
    "read_yaml",
    "replaced",
    "set_key",
]
