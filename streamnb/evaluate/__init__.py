"""Prequential evaluation: test on each message, then train on it."""

from streamnb.evaluate.metrics import Summary, Tally
from streamnb.evaluate.prequential import Example, Step, prequential

__all__ = ["Example", "Step", "Summary", "Tally", "prequential"]
