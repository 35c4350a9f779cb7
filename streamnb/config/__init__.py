"""Typed configurations from YAML; errors name the path of the key."""

from streamnb.config.schema import Config, build

__all__ = ["Config", "build"]
