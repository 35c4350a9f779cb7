"""`streamnb spark`: what a configuration asks for, on Spark."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from streamnb.cli.options import combine_options, set_option
from streamnb.errors import ConfigError, CorpusError, StreamNBError, require_extra, printable


@click.group()
def spark() -> None:
    """Learn, score and evaluate on Spark what a configuration says.

    The configuration is that of `streamnb replay`; its section `spark` says what is Spark's: input
    and format (of the table of messages), output, parts, block, memory, least, shards and rounds.
    Run as it is, it starts a Spark of its own on this machine. In a cluster, give spark-submit the
    package's __main__.py and the same arguments.

    \b
    Example:
      streamnb spark table corpora/sample -o mail.parquet
      streamnb spark prequential configs/spark.yaml
    """  # noqa: D301 (click's mark for lines that stay as they are)


_settings = combine_options(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
    set_option("spark.parts=32"),
    click.argument("config_file", metavar="CONFIG"),
)


@spark.command()
@_settings
def fit(config_file: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Learn all messages of spark.input, and write the model to output.model."""
    config, wanted = _configured(config_file, settings, "output.model")
    with _session() as (session, on):
        frame = _input(session, wanted)
        model = on.fit(
            frame,
            _classifier(config, frame),
            parts=wanted.parts,
            memory=wanted.memory,
            least=wanted.least,
            shards=wanted.shards,
            rounds=wanted.rounds or 1,
        )
        if not model.labels:
            raise CorpusError(f"{wanted.input}: there are no messages")
        model.save(config.output.model)
    found = {
        "model": config.output.model,
        "classes": {str(y): n for y, n in model.messages().items()},
        "features": model.features,
    }
    if as_json:
        click.echo(json.dumps(found))
        return
    classes = ", ".join(f"{n:,.0f} {y}" for y, n in model.messages().items())
    click.echo(printable(f"{config.output.model}: {classes}, {model.features:,} features"))


@spark.command()
@_settings
def score(config_file: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Score the messages of spark.input with output.model, into the table spark.output."""
    config, wanted = _configured(config_file, settings, "output.model", "spark.output")
    from streamnb.classifier import Classifier

    model = Classifier.load(config.output.model)
    with _session() as (session, on):
        positive = config.evaluate.positive
        frame = on.score(_input(session, wanted), model, classes=wanted.classes, positive=positive)
        _write(frame, wanted)
        messages = session.read.format(wanted.format).load(wanted.output).count()
    if as_json:
        click.echo(json.dumps({"output": wanted.output, "messages": messages}))
    else:
        click.echo(printable(f"{wanted.output}: {messages:,} messages scored"))


@spark.command()
@_settings
def prequential(config_file: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Replay spark.input: each message is judged by what all earlier ones taught.

    What was said of each message goes to the table spark.output, if that is given.
    """
    config, wanted = _configured(config_file, settings)
    delay = _delay(config)
    with _session() as (session, on):
        frame = _input(session, wanted)
        steps = on.prequential(
            frame,
            _classifier(config, frame),
            block=wanted.block,
            parts=wanted.parts,
            delay=delay,
            positive=config.evaluate.positive,
        )
        if wanted.output is not None:
            _write(steps, wanted)
            steps = session.read.format(wanted.format).load(wanted.output)
        summary = on.summary(steps, config.evaluate.intervals)
        positive = config.evaluate.positive
        if not summary.messages:
            raise CorpusError(f"{wanted.input}: there are no messages")
        if positive is not None and positive not in summary.classes:
            raise ConfigError(
                f"evaluate.positive: no message is of class {positive!r}; there are "
                f"{', '.join(list(summary.classes)[:10])}"
            )
    if as_json:
        click.echo(json.dumps(summary.as_dict()))
        return
    from streamnb.cli.replay import print_summary

    print_summary(f"{wanted.input}: {wanted.format}, on Spark", summary, [])


@spark.command()
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where the table goes.")
@click.option("--order", default="indexed", show_default=True, help="As for `streamnb replay`.")
def table(corpora: tuple[str, ...], output: str, order: str) -> None:
    """Write corpora as one Parquet file of position, label and message; Spark is not needed.

    \b
    Example:
      streamnb spark table corpora/sample -o mail.parquet
    """  # noqa: D301 (click's mark for lines that stay as they are)
    with require_extra("spark", kind=StreamNBError):
        from streamnb.replay.table import write
    messages = write(corpora, output, order)
    click.echo(printable(f"{output}: {messages:,} messages"))


def _configured(config_file: str, settings: tuple[str, ...], *wanted: str) -> tuple[Any, Any]:
    """A configuration, and its section for Spark; ConfigError for what is missing."""
    from streamnb.config import build
    from streamnb.config.yaml_files import read_yaml, set_key

    data = read_yaml(config_file)
    for assignment in settings:
        set_key(data, assignment)
    config = build(data, config_file)
    if config.spark is None or config.spark.input is None:
        raise ConfigError(f"{config_file}: spark.input: missing; name the table of messages")
    if config.sweep or config.model.window is not None:
        raise ConfigError(f"{config_file}: sweep, model.window: not on Spark; use streamnb replay")
    theirs = sorted(config.corpus.given - {"path", "kind"})
    if theirs:
        raise ConfigError(f"{config_file}: corpus.{theirs[0]}: not on Spark, which reads a table")
    for key in wanted:
        section, _, name = key.partition(".")
        if getattr(getattr(config, section), name) is None:
            raise ConfigError(f"{config_file}: {key}: missing")
    if config.spark.rounds and not config.spark.shards:
        raise ConfigError(f"{config_file}: spark.rounds: goes with spark.shards")
    return config, config.spark


def _delay(config: Any) -> int:
    """How many messages late labels come."""
    from streamnb.config.schema import DelayedConfig, ImmediateConfig

    delay = 0
    for one in config.feedback:
        if isinstance(one, DelayedConfig) and one.messages is not None:
            delay += one.messages
        elif not isinstance(one, ImmediateConfig):
            raise ConfigError(
                f"feedback: {one.kind} depends on the messages before; on Spark labels come at "
                "once, or so many messages late (kind: delayed, messages: N)"
            )
    return delay


def _classifier(config: Any, frame: Any) -> Any:
    """What the configuration asks for, of messages that are bytes or text."""
    from streamnb.corpus import Corpus
    from streamnb.replay.build import make_classifier, make_tokenizer

    types = dict(frame.dtypes)
    content = "text" if types.get("message") == "string" else "mail"
    corpus = Corpus("table", Path(config.spark.input), "a table", content, lambda: iter(()))
    return make_classifier(config, make_tokenizer(config, corpus))


def _input(session: Any, wanted: Any) -> Any:
    return session.read.format(wanted.format).load(wanted.input)


def _write(frame: Any, wanted: Any) -> None:
    """Write a table where none is, but perhaps what a run that failed has left."""
    left = os.path.isdir(wanted.output) and not set(os.listdir(wanted.output)) - {"_temporary"}
    mode = "overwrite" if left else "errorifexists"
    frame.write.mode(mode).format(wanted.format).save(wanted.output)


@contextmanager
def _session() -> Iterator[tuple[Any, Any]]:
    """A session of Spark, and what we do on it; what goes wrong is said in one line."""
    with require_extra("spark", kind=StreamNBError):
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    # Workers are as this process, unless told otherwise, and take nothing from the folder at hand.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        session = SparkSession.builder.appName("streamnb").getOrCreate()
        if not os.environ.get("STREAMNB_TRACEBACK"):  # a line says what is wrong
            session.sparkContext.setLogLevel("FATAL")
        import streamnb.spark

        yield session, streamnb.spark
    except PySparkException as error:
        raise StreamNBError(f"Spark: {_said(str(error))}") from None
    except ValueError as error:  # of a model that is no sum, or of a column
        raise ConfigError(str(error)) from None
    except Exception as error:
        if type(error).__module__.startswith("py4j."):
            told = getattr(error, "java_exception", None)
            said = str(error) if told is None else str(told.getMessage())
            raise StreamNBError(f"Spark: {_said(said)}") from None
        raise


def _said(text: str) -> str:
    """The line of what Spark says that has the cause: the last one of a traceback of Python."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        kind, colon, why = line.partition(": ")
        if colon and kind.startswith("streamnb.errors."):
            return why
        if colon and kind.endswith(("Error", "Exception")) and " " not in kind:
            return line[:300]
    return lines[0][:300] if lines else "it failed, and does not say why"
