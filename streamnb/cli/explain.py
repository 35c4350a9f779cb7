"""`streamnb explain` and `streamnb top`: the tokens that decide a verdict or mark a class."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from streamnb.cli import options
from streamnb.cli.quick import TABLE_SUFFIXES
from streamnb.cli.tables import new_console, new_table
from streamnb.errors import CorpusError, ModelFileError, printable
from streamnb.mailbox.sources import read_one

if TYPE_CHECKING:
    from streamnb.classifier import Classifier
    from streamnb.classifier.verdict import Verdict
    from streamnb.mailbox.mailbox import Mailbox


# Maximum number of columns of counts. With half as many, a model of three classes has no column for
# one of them; with twice as many, a table is wider than 100 characters.
_MOST_COLUMNS = 4


def _count_option(default: int) -> Callable[[options.Command], options.Command]:
    return click.option(
        "-n",
        "max_tokens",
        type=options.WholeRange(1, 10000),
        default=default,
        metavar="N",
        help=f"Number of tokens to show. Default: {default}.",
    )


_model_option = click.option(
    "--model",
    "model_file",
    metavar="FILE",
    help="Use a model that `fit` or `replay --save` wrote, not the mailbox.",
)


@click.command()
@click.argument("names", metavar="[MODEL] MESSAGE", nargs=-1, required=True)
@_model_option
@_count_option(20)
@options.json_object_option
@options.database_options
def explain(names: tuple[str, ...], model_file: str | None, max_tokens: int, as_json: bool) -> None:
    """Show how much each token of MESSAGE (a file, or - for standard input) added to its verdict.

    The verdict is from the mailbox or, if given, from the MODEL file that `fit` or `replay --save`
    wrote. The column log-odds has what the token adds, and the class that it favours. The other
    columns have the token's counts in each class, or in the four most probable classes. JSON has
    all classes. In JSON, positive log-odds are evidence for the class log_odds_of: spam if all
    classes are ham and spam, otherwise the predicted class.

    The log-odds without tokens are printed, too, unless --base is given. They come from the prior;
    in the default model, from its corrections; in the model bernoulli, also from all tokens that
    MESSAGE lacks.

    \b
    Examples:
      streamnb explain message.eml
      streamnb replay corpora/sample --save model.snb
      streamnb explain model.snb corpora/sample/data/005.eml

    Exit status: 0 success, 2 wrong option, 3 the message cannot be read, 4 the model cannot be
    read.
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.classifier import Classifier

    model_file, messages = _separate_model(names, model_file, _is_model_name)
    if len(messages) != 1:
        problem = (
            "expected one message" if messages else f"{model_file} is a model: name a message too"
        )
        raise click.UsageError(f"{problem}, such as: streamnb explain {model_file or ''} mail.eml")
    content = read_one(messages[0])
    if not content.strip():
        raise CorpusError(f"{messages[0]}: there is no text to explain")
    with _open_classifier(model_file) as (name, classifier):
        if messages[0].lower().endswith(TABLE_SUFFIXES):
            raise CorpusError(
                f"{messages[0]}: not a message: a table; label its rows with `streamnb predict`"
            )
        verdict = classifier.classify(content, max_tokens)
        own = classifier if isinstance(classifier, Classifier) else classifier.classifier
        # The scores of a mailbox with a site's model are no sum over tokens.
        has_site = getattr(classifier, "base", None) is not None
        base = {} if has_site or verdict.label is None else own.explain_one(content).base
    if verdict.label is None:
        raise ModelFileError(f"{name}: no message was learned yet")
    if as_json:
        _print_json(verdict, base)
    else:
        _print_verdict(verdict, base)


def _reference_class(verdict: Verdict) -> tuple[object, int]:
    """Return the class whose log-odds are printed, and the sign of its log-odds.

    The class is spam if the model has no classes other than ham and spam, even if it has learned
    only ham. Otherwise it is the predicted class.
    """
    reference = "spam" if verdict.probabilities.keys() <= {"ham", "spam"} else verdict.label
    return reference, 1 if reference == verdict.label else -1


def _base_log_odds(verdict: Verdict, base: dict[Any, float]) -> float:
    """Return the log-odds of the reference class that the scores without tokens give."""
    from streamnb.scores import log_odds

    return log_odds({y: base[y] for y in verdict.probabilities}, _reference_class(verdict)[0])


def _most_probable(probabilities: dict[Any, float]) -> list[Any]:
    """Return the labels whose columns a terminal shows: all, or the most probable ones."""
    labels = list(probabilities)
    if len(labels) <= _MOST_COLUMNS:
        return labels
    return sorted(labels, key=probabilities.__getitem__, reverse=True)[:_MOST_COLUMNS]


def _print_json(verdict: Verdict, base: dict[Any, float]) -> None:
    from streamnb.classifier.verdict import feature_name, finite_or_none

    reference, sign = _reference_class(verdict)
    reasons = [
        {
            "token": feature_name(reason.feature),
            "evidence": verdict.side(reason.log_odds),
            "log_odds": finite_or_none(sign * reason.log_odds + 0.0),
            "counts": reason.counts,
        }
        for reason in verdict.reasons
    ]
    log_odds = {"log_odds": finite_or_none(sign * verdict.log_odds), "log_odds_of": reference}
    if base:
        log_odds["log_odds_without_tokens"] = finite_or_none(_base_log_odds(verdict, base))
    click.echo(json.dumps(vars(verdict) | log_odds | {"reasons": reasons}))


def _print_verdict(verdict: Verdict, base: dict[Any, float]) -> None:
    from streamnb.classifier.verdict import feature_name

    reference, sign = _reference_class(verdict)
    console = new_console()
    unsure = ", unsure" if verdict.unsure else ""
    console.print(printable(f"{verdict.label}{unsure}"))
    labels = _most_probable(verdict.probabilities)
    probabilities = ", ".join(f"{label} {verdict.probabilities[label]:.4f}" for label in labels)
    if hidden_count := len(verdict.probabilities) - len(labels):
        probabilities += f", and {hidden_count} less probable classes"
    log_odds_text = f"log-odds of {reference} {sign * verdict.log_odds:.2f}"
    if base:
        log_odds_text += f" ({_base_log_odds(verdict, base):.2f} without tokens)"
    console.print(printable(f"probabilities: {probabilities}; {log_odds_text}"))
    if not verdict.reasons:
        return
    table = new_table("token", "log-odds", *(printable(f"in {label}") for label in labels))
    for reason in verdict.reasons:
        counts = [f"{reason.counts.get(label, 0):,.4g}" for label in labels]
        log_odds = printable(f"{abs(reason.log_odds):.3f} {verdict.side(reason.log_odds)}")
        table.add_row(feature_name(reason.feature)[:60], log_odds, *counts)
    console.print("", table)


@click.command()
@click.argument("names", metavar="[MODEL] [CLASS]", nargs=-1)
@click.option("--class", "label", metavar="CLASS", help="Show only this class.")
@_model_option
@_count_option(15)
@options.json_object_option
@options.database_options
def top(
    names: tuple[str, ...],
    label: str | None,
    model_file: str | None,
    max_tokens: int,
    as_json: bool,
) -> None:
    """Show the tokens with the largest log-odds for each class.

    The tokens are from the mailbox or, if given, from the MODEL file that `fit` or `replay --save`
    wrote. With a CLASS, only its tokens are shown. The log-odds are those of one occurrence in the
    counts. (In a verdict, they are divided by a power of the message's length, and scaled.) With
    more than four classes, one column has the sum of the counts in all other classes. JSON has all
    counts.

    \b
    Examples:
      streamnb top spam
      streamnb fit corpora/sample -o model.snb
      streamnb top model.snb
      streamnb top model.snb spam

    Exit status: 0 success, 2 wrong option, 4 the model cannot be read.
    """  # noqa: D301 (\b tells click to keep the lines)
    from streamnb.classifier import Classifier

    model_file, classes = _separate_model(
        names,
        model_file,
        # The loader's error for a table names `streamnb fit`.
        lambda name: (
            os.sep in name or name.lower().endswith(TABLE_SUFFIXES) or _is_model_name(name)
        ),
    )
    classes += [] if label is None else [label]
    if len(classes) > 1:
        raise click.UsageError(f"name only one class, not {' and '.join(map(repr, classes))}")
    with _open_classifier(model_file) as (name, opened):
        classifier = opened if isinstance(opened, Classifier) else opened.classifier
        all_labels = classifier.models[0].counts.labels
        if not all_labels:
            raise ModelFileError(f"{name}: no message was learned yet")
        learned = [str(y) for y, count in classifier.messages().items() if count > 0]
        if len(learned) == 1:
            raise ModelFileError(
                f"{name}: all messages are {learned[0]}, so no token is evidence for a class; "
                "learn messages of another class first"
            )
        labels = [y for y in all_labels if not classes or str(y) == classes[0]]
        if not labels:
            class_names = ", ".join(map(str, all_labels))
            raise click.BadParameter(
                f"{classes[0]!r} is neither a class of {name} nor a model file; "
                f"classes: {class_names}"
            )
        tokens = _strongest_tokens(classifier, labels, max_tokens)
    if as_json:
        click.echo(json.dumps(tokens))
    else:
        _print_tokens(tokens, list(map(str, all_labels)))


def _strongest_tokens(
    classifier: Classifier, labels: list[Any], max_tokens: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the tokens with the strongest evidence for each class, and their counts."""
    from streamnb.classifier.verdict import feature_name

    return {
        str(label): [
            {
                "token": feature_name(feature),
                "log_odds": log_odds,
                "counts": {
                    str(y): n for y, n in classifier.models[view].class_counts(fingerprint).items()
                },
            }
            for feature, log_odds, view, fingerprint in features
        ]
        for label, features in classifier.strongest(labels, max_tokens).items()
    }


def _print_tokens(tokens: dict[str, list[dict[str, Any]]], labels: list[str]) -> None:
    console = new_console()
    for number, (name, rows) in enumerate(tokens.items()):
        if number:
            console.print()
        console.print(printable(f"for {name}"))
        columns = [(label, [label]) for label in labels]
        if len(labels) > _MOST_COLUMNS:
            columns = [(name, [name]), ("all others", [y for y in labels if y != name])]
        table = new_table("token", "log-odds", *(printable(f"in {title}") for title, _ in columns))
        for row in rows:
            sums = [sum(row["counts"].get(y, 0) for y in members) for _, members in columns]
            counts = [f"{n:,.4g}" for n in sums]
            table.add_row(row["token"][:60], f"{row['log_odds']:+.3f}", *counts)
        console.print(table)


def _separate_model(
    names: Iterable[str], model_file: str | None, is_model: Callable[[str], bool]
) -> tuple[str | None, list[str]]:
    """Return the model file (of --model, or the first name if it is one), and the other names."""
    others = []
    for name in names:
        if model_file is None and is_model(name):
            model_file = name
        else:
            others.append(name)
    return model_file, others


def _is_model_name(name: str) -> bool:
    """Return whether a file is a model, by its extension or its first bytes."""
    if name.endswith(".snb"):
        return True
    try:
        if not os.path.isfile(name):
            return False
        with open(name, "rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except (OSError, ValueError):
        return False


@contextmanager
def _open_classifier(model_file: str | None) -> Iterator[tuple[str, Classifier | Mailbox]]:
    """Yield the name and the classifier of a model file, or of the mailbox if it is None."""
    if model_file is not None:
        for name in ("user", "db", "base"):
            if options.shared_value(name) is not None:
                raise click.UsageError(
                    f"--{name} and the model {model_file} cannot be combined; give one of them"
                )
        yield model_file, options.load_classifier(model_file)
        return
    with options.open_mailbox() as mailbox, mailbox.reading():
        yield str(mailbox.path), mailbox
