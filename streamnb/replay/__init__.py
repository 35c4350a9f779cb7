"""Replays: build a classifier from a configuration, run it over a corpus, report the figures."""

from streamnb.replay.run import OnStep, Report, replay_corpus

__all__ = ["OnStep", "Report", "replay_corpus"]
