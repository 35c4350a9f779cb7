"""`streamnb trec-run`: the command protocol of the TREC spam filter evaluation toolkit."""

from __future__ import annotations

import click

from streamnb.errors import ModelFileError
from streamnb.mailbox.sources import read_one

_state = click.option(
    "--state",
    default="streamnb-trec.snb",
    show_default=True,
    metavar="FILE",
    help="Where the filter is kept between commands.",
)


@click.group()
def trec_run() -> None:
    """Speak the TREC toolkit's protocol: a filter that is a command for each step.

    Its four scripts are one line each, such as `exec streamnb trec-run classify "$@"`. The whole filter
    is read and written with each command, so a corpus of many thousands of mails is better
    replayed with `streamnb replay`, which gives the same scores.

    \b
    Example:
      streamnb trec-run initialize
      streamnb trec-run train spam corpora/sample/data/005.eml
      streamnb trec-run classify corpora/sample/data/006.eml
      streamnb trec-run finalize
    """  # noqa: D301 (click's mark for lines that stay as they are)


@trec_run.command()
@_state
def initialize(state: str) -> None:
    """Begin with a filter that knows nothing."""
    from streamnb.classifier import MailClassifier

    MailClassifier().save(state)


@trec_run.command()
@click.argument("message")
@click.argument("rest", nargs=-1)
@_state
def classify(message: str, rest: tuple[str, ...], state: str) -> None:
    """Print `class=ham score=-3.2`: the higher the score, the more like spam.

    What follows MESSAGE (labels and messages that remain, in the active task) is not looked at.
    """
    from streamnb.classifier import Classifier
    from streamnb.scores import best_label, log_odds

    classifier = Classifier.load(state)
    classifier.on = None  # here a message is a message
    labels = set(classifier.models[0].counts.labels)
    if not labels <= {"ham", "spam"}:
        raise ModelFileError(f"{state}: the model is not of ham and spam alone")
    scores = classifier.joint_log_likelihood(read_one(message))
    score = log_odds(scores, "spam") if len(scores) > 1 else 0.0
    label = best_label(scores) or "ham"
    click.echo(f"class={label} score={score!r}")


@trec_run.command()
@click.argument("label", type=click.Choice(["ham", "spam"], case_sensitive=False))
@click.argument("message")
@click.argument("rest", nargs=-1)
@_state
def train(label: str, message: str, rest: tuple[str, ...], state: str) -> None:
    """Learn that MESSAGE is ham or spam.

    What follows (the class that was given, and a file of the filter's own) is not looked at.
    """
    from streamnb.classifier import Classifier

    classifier = Classifier.load(state)
    classifier.on = None  # here a message is a message
    classifier.learn_one(read_one(message), label.lower())
    classifier.save(state)


@trec_run.command()
@_state
def finalize(state: str) -> None:
    """End; the filter stays where it is, for `explain` and `top`."""
    from streamnb.classifier import Classifier

    Classifier.load(state)
