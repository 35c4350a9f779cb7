"""Draw the pictures of replays of the sample: start.svg, reliability.svg and replay.svg.

The packages are those of `pip install '.[test,plot]'`, and bogofilter (`apt install bogofilter`).
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from itertools import accumulate
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from river import feature_extraction, naive_bayes

from streamnb import MailClassifier
from streamnb.cli.group import commands
from streamnb.mail import parse
from streamnb.pictures import draw
from streamnb.pictures.read import read_folder

PICTURES = Path(__file__).parent / "pictures"
REPOSITORY = Path(__file__).resolve().parents[1]
SAMPLE = REPOSITORY / "corpora" / "sample"
FIRST = 20  # messages before which accuracy is chance


def read_text(message: bytes) -> str:
    """Return subject and text of a mail, for a learner that does not read mail."""
    mail = parse(message)
    parts = (part.utf8.decode("utf-8", "replace") for part in mail.parts if part.is_text)
    return " ".join([mail.get("subject"), *parts])


def compute_accuracy(model: Any, read: Callable[[bytes], Any]) -> list[float]:
    """Return the accuracy in percent after each message, each predicted before it is learned."""
    is_correct = []
    for label, name in map(str.split, (SAMPLE / "index").read_text().splitlines()):
        x = read((SAMPLE / name).read_bytes())
        is_correct.append(model.predict_one(x) == label)
        model.learn_one(x, label)
    return accumulate_accuracy(is_correct)


def accumulate_accuracy(is_correct: Iterable[bool]) -> list[float]:
    """Return the accuracy in percent after each prediction."""
    return [100 * correct / count for count, correct in enumerate(accumulate(is_correct), 1)]


def compute_bogofilter_accuracy() -> list[float]:
    """Return the accuracy of bogofilter, as `compute_accuracy` does."""
    script = REPOSITORY / "tests" / "benchmarks" / "bogofilter.py"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, script, SAMPLE, folder], check=True)  # noqa: S603 (ours)
        lines = (Path(folder) / "results.txt").read_text().splitlines()
    pairs = (re.findall(r" (?:judge|class)=(\S+)", line) for line in lines)
    return accumulate_accuracy(label == predicted for label, predicted in pairs)


def draw_replay() -> None:
    """Draw reliability.svg, and replay.svg: accuracy and errors of the default model."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["replay", str(SAMPLE), "--out", folder, "--quiet"]
        command += ["--set", "evaluate.every=20", "--set", "evaluate.window=100"]
        commands.main(command, standalone_mode=False)
        run = read_folder(Path(folder))
    figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
    draw.reliability(axes, run.summary["reliability"], "spam")
    figure.savefig(PICTURES / "reliability.svg", metadata={"Date": None})
    figure, (curve_axes, roc_axes) = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    draw.curves(curve_axes, [run])
    draw.roc(roc_axes, [run])
    figure.savefig(PICTURES / "replay.svg", metadata={"Date": None})


def draw_start() -> None:
    """Draw start.svg: accuracy on the sample as messages arrive, next to other programs."""
    river = feature_extraction.BagOfWords() | naive_bayes.MultinomialNB()
    curves = {
        "streamnb": compute_accuracy(MailClassifier(), lambda message: message),
        "bogofilter": compute_bogofilter_accuracy(),
        "river MultinomialNB": compute_accuracy(river, read_text),
    }
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for style, (name, accuracy) in zip(("-", ":", "--"), curves.items(), strict=True):
        messages = range(FIRST, len(accuracy) + 1)
        label = f"{name}: {accuracy[-1]:.1f} %"
        axes.plot(messages, accuracy[FIRST - 1 :], style, lw=2.5, label=label)
    axes.set(xlabel="messages", ylabel="correct so far, %", xlim=(FIRST, 300))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(PICTURES / "start.svg", metadata={"Date": None})


if __name__ == "__main__":
    mpl.rcParams.update({"font.size": 14, "svg.hashsalt": "streamnb"})
    draw_start()
    draw_replay()
