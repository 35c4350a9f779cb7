"""Experiments over tables: repeated splits, learning curves, and what goes wrong how often."""

from streamnb.tables.experiment.results import Experiment, ModelResult, Point
from streamnb.tables.experiment.run import run

__all__ = ["Experiment", "ModelResult", "Point", "run"]
