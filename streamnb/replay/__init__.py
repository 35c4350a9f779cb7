"""Replays: where configuration, corpus, tokenizer, model and evaluation meet."""

from streamnb.replay.run import OnStep, Report, replay

__all__ = ["OnStep", "Report", "replay"]
