"""Experiments over tables: repeated splits, learning curves, errors of each row."""

from streamnb.tables.experiment.run import Experiment, ModelResult, Point, QueryAnswer, run

__all__ = ["Experiment", "ModelResult", "Point", "QueryAnswer", "run"]
