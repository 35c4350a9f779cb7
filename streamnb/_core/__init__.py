"""The compiled core: fingerprints, counts, logarithms, scanning. All of it is in `core`."""

from streamnb._core.core import *  # noqa: F403 (its names are in core.pyi)
