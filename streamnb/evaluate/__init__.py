"""Prequential evaluation: test on each message, then train on it."""

from streamnb.evaluate.metrics import Tally
from streamnb.evaluate.prequential import Example, Step, prequential
from streamnb.evaluate.results import ResultFiles
from streamnb.evaluate.summary import Summary

__all__ = ["Example", "ResultFiles", "Step", "Summary", "Tally", "prequential"]
