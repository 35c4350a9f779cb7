"""Draw the pictures of replays of the sample: start.svg, reliability.svg and replay.svg."""

import tempfile
from collections.abc import Callable
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
SAMPLE = Path(__file__).resolve().parents[1] / "corpora" / "sample"
FIRST = 20  # messages before which accuracy is chance


def read_text(message: bytes) -> str:
    """Return subject and text of a mail, for a learner that does not read mail."""
    mail = parse(message)
    parts = (part.utf8.decode("utf-8", "replace") for part in mail.parts if part.is_text)
    return " ".join([mail.get("subject"), *parts])


def compute_accuracy(model: Any, read: Callable[[bytes], Any]) -> list[float]:
    """Return the accuracy in percent after each message, each predicted before it is learned."""
    correct, accuracy = 0, []
    lines = [line.split() for line in (SAMPLE / "index").read_text().splitlines()]
    for count, (label, name) in enumerate(lines, 1):
        x = read((SAMPLE / name).read_bytes())
        correct += model.predict_one(x) == label
        model.learn_one(x, label)
        accuracy.append(100 * correct / count)
    return accuracy


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
    """Draw start.svg: accuracy on the sample as messages arrive, next to river's model."""
    river = feature_extraction.BagOfWords() | naive_bayes.MultinomialNB()
    curves = {
        "streamnb": compute_accuracy(MailClassifier(), lambda message: message),
        "river MultinomialNB": compute_accuracy(river, read_text),
    }
    figure, axes = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for style, (name, accuracy) in zip(("-", "--"), curves.items(), strict=True):
        messages = range(FIRST, len(accuracy) + 1)
        axes.plot(messages, accuracy[FIRST - 1 :], style, lw=2.5, label=name)
        axes.annotate(f" {accuracy[-1]:.1f} %", (len(accuracy), accuracy[-1]), va="center")
    axes.set(xlabel="messages", ylabel="correct so far, %", xlim=(FIRST, 330))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.savefig(PICTURES / "start.svg", metadata={"Date": None})


if __name__ == "__main__":
    mpl.rcParams.update({"font.size": 14, "svg.hashsalt": "streamnb"})
    draw_start()
    draw_replay()
