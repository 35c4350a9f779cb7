"""Prequential evaluation: test on each message, then train on it."""

from streamnb.evaluate.metrics import Judged, Tally
from streamnb.evaluate.prequential import Course, Example, Step, prequential
from streamnb.evaluate.result_files import ResultFiles
from streamnb.evaluate.summary import Summary

__all__ = ["Course", "Example", "Judged", "ResultFiles", "Step", "Summary", "Tally", "prequential"]
