"""`streamnb trec-run`: the commands of the TREC spam filter evaluation toolkit."""

from __future__ import annotations

import click

from streamnb.cli.group import ContextGroup
from streamnb.cli.options import load_classifier
from streamnb.errors import ModelFileError
from streamnb.mailbox.sources import read_one

_state = click.option(
    "--state",
    default="streamnb-trec.snb",
    show_default=True,
    metavar="FILE",
    help="Model file that stores the filter between commands.",
)


@click.group(cls=ContextGroup)
def trec_run() -> None:
    """Run as a filter of the TREC toolkit, with one command for each step.

    Each of the toolkit's four scripts is one line, such as `exec streamnb trec-run classify "$@"`.
    Each command reads the filter from its file and writes it again. For thousands of messages use
    `streamnb replay`, which gives the same scores.

    \b
    Example:
      streamnb trec-run initialize
      streamnb trec-run train spam corpora/sample/data/005.eml
      streamnb trec-run classify corpora/sample/data/006.eml
      streamnb trec-run finalize
    """  # noqa: D301 (\b tells click to keep the lines)


@trec_run.command()
@_state
def initialize(state: str) -> None:
    """Write the file of a filter that has learned nothing."""
    from streamnb.classifier import MailClassifier

    MailClassifier().save(state)


@trec_run.command()
@click.argument("message")
@click.argument("ignored", nargs=-1)
@_state
def classify(message: str, ignored: tuple[str, ...], state: str) -> None:
    """Print `class=ham score=-3.2`.

    A higher score means that spam is more likely. Arguments after MESSAGE, for the active learning
    task, are ignored.
    """
    from streamnb.scores import best_label, log_odds

    classifier = load_classifier(state)
    labels = set(classifier.models[0].counts.labels)
    if not labels <= {"ham", "spam"}:
        raise ModelFileError(f"{state}: the model has classes other than ham and spam")
    scores = classifier.joint_log_likelihood(read_one(message))
    score = log_odds(scores, "spam") if len(scores) > 1 else 0.0
    label = best_label(scores) or "ham"
    click.echo(f"class={label} score={score!r}")


@trec_run.command()
@click.argument("label", type=click.Choice(["ham", "spam"], case_sensitive=False))
@click.argument("message")
@click.argument("ignored", nargs=-1)
@_state
def train(label: str, message: str, ignored: tuple[str, ...], state: str) -> None:
    """Learn that MESSAGE is ham or spam.

    Further arguments (the predicted class and a file of the filter) are ignored.
    """
    classifier = load_classifier(state)
    classifier.learn_one(read_one(message), label.lower())
    classifier.save(state)


@trec_run.command()
@_state
def finalize(state: str) -> None:
    """Check the filter's file. It is not deleted: `explain` and `top` can read it."""
    from streamnb.classifier import Classifier

    Classifier.load(state)
