"""YAML to a typed configuration; what is wrong is refused with the key's path."""

from streamnb.config.schema import Config, build
from streamnb.config.yaml_files import as_yaml, read_yaml, replaced, set_key

__all__ = ["Config", "as_yaml", "build", "read_yaml", "replaced", "set_key"]
