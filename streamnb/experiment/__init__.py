"""Experiments over tables: repeated splits, learning curves, and what goes wrong how often."""

from streamnb.experiment.run import Experiment, ModelResult, Point, run

__all__ = ["Experiment", "ModelResult", "Point", "run"]
