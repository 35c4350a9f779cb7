"""`streamnb explain` and `streamnb top`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli.options import Command, database_options, open_mailbox
from streamnb.cli.tables import new_console, new_table
from streamnb.errors import ModelFileError, printable
from streamnb.mailbox.sources import read_one

if TYPE_CHECKING:
    from streamnb.classifier import Classifier
    from streamnb.mailbox.store import Mailbox


def _most_option(default: int) -> Callable[[Command], Command]:
    return click.option(
        "-n",
        "most",
        type=click.IntRange(1, 10000),
        default=default,
        metavar="N",
        help=f"How many tokens ({default}).",
    )


@click.command()
@click.argument("message", metavar="MESSAGE")
@click.option(
    "--model",
    "model_file",
    metavar="FILE",
    help="A model that `replay --save` wrote; else the mailbox's database is asked.",
)
@_most_option(20)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@database_options
def explain(message: str, model_file: str | None, most: int, as_json: bool) -> None:
    """Say which tokens of MESSAGE (a file, or - for standard input) spoke for which class.

    A positive number speaks for the verdict, a negative one against it; the other columns are the
    token's counts in each class.

    \b
    Examples:
      streamnb explain message.eml
      streamnb replay corpora/sample --save model.snb
      streamnb explain corpora/sample/data/005.eml --model model.snb

    Exit status: 0 done, 2 wrong option, 3 the message cannot be read, 4 the model cannot.
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.classifier.verdict import feature_name

    content = read_one(message)
    with _asked(model_file) as (where, asked):
        verdict = asked.classify(content, most)
    if verdict.label is None:
        raise ModelFileError(f"{where}: it has learned nothing yet")
    if as_json:
        shown = vars(verdict) | {
            "reasons": [
                {**reason._asdict(), "feature": feature_name(reason.feature)}
                for reason in verdict.reasons
            ]
        }
        click.echo(json.dumps(shown))
        return
    console = new_console()
    unsure = ", unsure" if verdict.unsure else ""
    console.print(printable(f"{verdict.label}{unsure}"))
    shares = ", ".join(f"{label} {p:.4f}" for label, p in verdict.probabilities.items())
    console.print(printable(f"probabilities: {shares}; log-odds {verdict.log_odds:.2f}"))
    if not verdict.reasons:
        return
    labels = list(verdict.probabilities)
    table = new_table("token", "log-odds", *(printable(f"in {label}") for label in labels))
    for reason in verdict.reasons:
        counts = [f"{reason.counts.get(label, 0):,.4g}" for label in labels]
        table.add_row(feature_name(reason.feature)[:60], f"{reason.log_odds:+.3f}", *counts)
    console.print("", table)


@click.command()
@click.argument("model_file", metavar="[FILE]", required=False)
@click.option("--class", "label", metavar="CLASS", help="Only this class.")
@_most_option(15)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@database_options
def top(model_file: str | None, label: str | None, most: int, as_json: bool) -> None:
    """Show the tokens that speak most for each class, in a model that `replay --save` wrote.

    Without a FILE it is the mailbox's database that is shown.

    \b
    Examples:
      streamnb top --class spam
      streamnb replay corpora/sample --save model.snb
      streamnb top model.snb --class spam

    Exit status: 0 done, 2 wrong option, 4 the model cannot be read.
    """  # noqa: D301
    from streamnb.classifier import Classifier
    from streamnb.classifier.verdict import feature_name

    with _asked(model_file) as (where, asked):
        classifier = asked if isinstance(asked, Classifier) else asked.classifier
        labels = classifier.models[0].counts.labels
        if not labels:
            raise ModelFileError(f"{where}: it has learned nothing yet")
        wanted = [one for one in labels if label is None or str(one) == label]
        if not wanted:
            known = ", ".join(str(one) for one in labels)
            raise click.BadParameter(f"{label!r} is not a class of this model (known: {known})")
        found: dict[str, list[dict[str, Any]]] = {
            str(one): [
                {
                    "token": feature_name(name),
                    "log_odds": gain,
                    "counts": {
                        str(y): n
                        for y, n in classifier.models[view].class_counts(fingerprint).items()
                    },
                }
                for name, gain, view, fingerprint in features
            ]
            for one, features in classifier.strongest(wanted, most).items()
        }
    if as_json:
        click.echo(json.dumps(found))
        return
    console = new_console()
    for number, (name, rows) in enumerate(found.items()):
        if number:
            console.print()
        console.print(printable(f"for {name}"))
        table = new_table("token", "log-odds", *(printable(f"in {one}") for one in labels))
        for row in rows:
            counts = [f"{row['counts'].get(str(one), 0):,.4g}" for one in labels]
            table.add_row(row["token"][:60], f"{row['log_odds']:+.3f}", *counts)
        console.print(table)


@contextmanager
def _asked(model_file: str | None) -> Iterator[tuple[str, Classifier | Mailbox]]:
    """The classifier of a file, or else the mailbox, and what it is called."""
    from streamnb.classifier import Classifier

    if model_file is not None:
        classifier = Classifier.load(model_file)
        classifier.on = None  # here a message is a message
        yield model_file, classifier
        return
    with open_mailbox() as mailbox, mailbox.reading():
        yield str(mailbox.path), mailbox
