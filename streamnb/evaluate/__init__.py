"""Prequential evaluation: test on each message, then train on it."""

from streamnb.evaluate.metrics import Summary, Tally
from streamnb.evaluate.prequential import Example, Step, prequential
from streamnb.evaluate.results import ResultFiles

__all__ = ["Example", "ResultFiles", "Step", "Summary", "Tally", "prequential"]
