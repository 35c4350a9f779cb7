"""Prequential evaluation: test on each message, then train on it."""

from streamnb.evaluate.metrics import RunningMetrics, ScoredPrediction, Summary
from streamnb.evaluate.prequential import Example, PrequentialRun, Step, prequential
from streamnb.evaluate.result_files import ResultFiles

__all__ = [
    "Example",
    "PrequentialRun",
    "ResultFiles",
    "RunningMetrics",
    "ScoredPrediction",
    "Step",
    "Summary",
    "prequential",
]
