"""Measure the default with each of its constants at half and at twice the value.

    python tests/benchmarks/constants.py STREAM [STREAM ...] [--only NAME] [--wrong-labels 0.1]

STREAM is a corpus that `streamnb replay` reads. Its messages keep their order. Prints (1-ROCA)% of
each stream of two classes, and the accuracy of each other stream. `--wrong-labels` is the fraction
of labels that are wrong. Constants of compiled modules are left out.
"""

import argparse
from contextlib import ExitStack
from unittest import mock

from streamnb.config import build
from streamnb.naive_bayes import noise_evidence, recalibration, views
from streamnb.naive_bayes.class_sums import CountedWeights
from streamnb.naive_bayes.label_noise import LabelNoise
from streamnb.naive_bayes.selective_feedback import SelectiveFeedback
from streamnb.replay import replay_corpus

PARAMETERS = {
    "alpha": 0.1,
    "length_norm": 0.8,
    "length_norm_power": 2 / 3,
    "bound": 8.0,
    "rate": 0.15,
    "min_update": 0.03,
}
CONSTANTS = {
    "SWITCH_RATE": [noise_evidence, recalibration],
    "MIN_ERROR": [recalibration],
    "_INITIAL_LABELS": [LabelNoise],
    "_UNSEEN_KINDS": [LabelNoise],
    "_SHARED_LABELS": [LabelNoise],
    "_CHANCE": [SelectiveFeedback],
    "_WRONG_LABELS": [SelectiveFeedback],
    "_RANDOM_LABELS": [SelectiveFeedback],
    "_SHARE": [CountedWeights],
    "_SMALLEST": [CountedWeights],
    "_RUN_UPDATE": [views],
    "_RUN_MESSAGES": [views],
}


def figure(stream, wrong_labels, parameters=None):
    """Return (1-ROCA)% for two classes, else the accuracy."""
    settings = {"corpus": {"path": stream}, "model": parameters or {}}
    settings["evaluate"] = {"intervals": False}
    if wrong_labels:
        settings["feedback"] = {"kind": "noisy", "share": wrong_labels}
    summary = replay_corpus(build(settings)).summary
    if summary.one_minus_roca_percent is None:
        return f"{100 * summary.accuracy:.2f} %"
    return f"{summary.one_minus_roca_percent:.3f}"


def figure_with(name, factor, *stream):
    """Return `figure` with a constant multiplied by a factor."""
    if name in PARAMETERS:
        return figure(*stream, {name: factor * PARAMETERS[name]})
    changes = [(owner, name, factor * getattr(owner, name)) for owner in CONSTANTS[name]]
    if name == "_INITIAL_LABELS":  # the rate is one wrong label of these
        changes.append((LabelNoise, "INITIAL_RATE", LabelNoise.INITIAL_RATE / factor))
    if name == "_WRONG_LABELS":  # the largest sum is twice this
        changes.append((SelectiveFeedback, "_LARGEST_SUM", factor * SelectiveFeedback._LARGEST_SUM))
    with ExitStack() as patches:
        for change in changes:
            patches.enter_context(mock.patch.object(*change))
        return figure(*stream)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("streams", nargs="+", metavar="STREAM")
    parser.add_argument("--only", choices=[*PARAMETERS, *CONSTANTS])
    parser.add_argument("--wrong-labels", type=float, default=0.0, metavar="FRACTION")
    options = parser.parse_args()
    streams = [(stream, options.wrong_labels) for stream in options.streams]
    print("the default:", ", ".join(figure(*stream) for stream in streams))
    print("\n| name | at half | at twice |\n|---|---|---|")
    for name in [options.only] if options.only else [*PARAMETERS, *CONSTANTS]:
        rows = [[figure_with(name, factor, *stream) for stream in streams] for factor in (0.5, 2)]
        print(f"| `{name}` | {' | '.join(map(', '.join, rows))} |", flush=True)


if __name__ == "__main__":
    main()
