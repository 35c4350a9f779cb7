"""Experiments over tables: repeated splits, learning curves, errors of each row."""

from streamnb.tables.experiment.results import Experiment, ModelResult, Point, QueryAnswer
from streamnb.tables.experiment.run import run

__all__ = ["Experiment", "ModelResult", "Point", "QueryAnswer", "run"]
