"""YAML to a typed configuration; what is wrong is refused with the key's path."""

from streamnb.config.schema import Config, build

__all__ = ["Config", "build"]
