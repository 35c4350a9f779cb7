"""`streamnb spark`: train, score and evaluate on Spark by a configuration."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from streamnb.cli import options
from streamnb.cli.group import ContextGroup
from streamnb.cli.replay import make_config
from streamnb.cli.tables import print_summary
from streamnb.errors import (
    ConfigError,
    CorpusError,
    StreamNBError,
    message_count,
    printable,
    require_extra,
)


@click.group(cls=ContextGroup)
def spark() -> None:
    """Train, score and evaluate on Spark, with the settings of a configuration file.

    The configuration is that of `streamnb replay`, with a section `spark`. Its key input names the
    table of messages. The other keys are format, output, parts, block, memory, min_count, shards,
    rounds and classes. The command starts Spark on this machine. In a cluster, run spark-submit
    with the package's __main__.py and the same arguments.

    \b
    Example:
      streamnb spark table corpora/sample -o mail.parquet
      streamnb spark prequential configs/spark.yaml
    """  # noqa: D301 (\b is click's mark for preformatted lines)


_config_options = options.combine_options(
    options.json_object_option,
    options.set_option("spark.parts=32"),
    click.argument("config_file", metavar="CONFIG"),
)


@spark.command()
@_config_options
def fit(config_file: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Train a model on spark.input and write it to output.model."""
    config, section = _read_config(config_file, settings, "output.model")
    with _start_session() as (session, streamnb_spark):
        frame = _read_input(session, section)
        model = streamnb_spark.fit(
            frame,
            _make_classifier(config, frame),
            parts=section.parts,
            memory=section.memory,
            min_count=section.min_count,
            shards=section.shards,
            rounds=section.rounds or 1,
        )
        if not model.labels:
            raise CorpusError(f"{section.input}: there are no messages")
        model.save(config.output.model)
    options.notify_doubtful_labels(model.messages())
    name, messages, features = config.output.model, model.messages(), model.features
    classes = ", ".join(f"{n:,.0f} {y}" for y, n in messages.items())
    options.echo_result(
        as_json,
        {"model": name, "classes": {str(y): n for y, n in messages.items()}, "features": features},
        f"{name}: {classes}, {features:,} features",
    )


@spark.command()
@_config_options
def score(config_file: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Score the messages of spark.input with output.model.

    The scores are written to the table spark.output.
    """
    config, section = _read_config(config_file, settings, "output.model", "spark.output")
    from streamnb.classifier import Classifier

    model = Classifier.load(config.output.model)
    with _start_session() as (session, streamnb_spark):
        frame = streamnb_spark.score(
            _read_input(session, section),
            model,
            classes=section.classes,
            positive=config.evaluate.positive,
        )
        _write_table(frame, section)
        messages = session.read.format(section.format).load(section.output).count()
    result = {"output": section.output, "messages": messages}
    options.echo_result(as_json, result, f"{section.output}: {message_count(messages)} scored")


@spark.command()
@_config_options
def prequential(config_file: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Replay spark.input: predict each message, then learn it.

    Each message is classified with a model that learned all earlier ones. The predictions are
    written to the table spark.output, if that is set.
    """
    from streamnb.replay.run import positive_error

    config, section = _read_config(config_file, settings)
    delay = _total_delay(config)
    with _start_session() as (session, streamnb_spark):
        frame = _read_input(session, section)
        steps = streamnb_spark.prequential(
            frame,
            _make_classifier(config, frame),
            block=section.block,
            parts=section.parts,
            delay=delay,
            positive=config.evaluate.positive,
        )
        if section.output is not None:
            _write_table(steps, section)
            steps = session.read.format(section.format).load(section.output)
        summary = streamnb_spark.summary(steps, config.evaluate.intervals)
        if not summary.messages:
            raise CorpusError(f"{section.input}: there are no messages")
        if (error := positive_error(config, list(summary.classes))) is not None:
            raise error
    if as_json:
        click.echo(json.dumps(summary.as_dict()))
        return
    print_summary(f"{section.input}: {section.format}, on Spark", summary, [])


@spark.command()
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Write the table to FILE.")
@click.option("--order", default="indexed", show_default=True, help="As for `streamnb replay`.")
def table(corpora: tuple[str, ...], output: str, order: str) -> None:
    """Write corpora as one Parquet file; Spark is not needed.

    Its columns are position, label and message.

    \b
    Example:
      streamnb spark table corpora/sample -o mail.parquet
    """  # noqa: D301 (\b is click's mark for preformatted lines)
    options.check_outputs([output], corpora)
    with require_extra("spark", error_class=StreamNBError):
        from streamnb.replay.table import write_table
    messages = write_table(corpora, output, order)
    click.echo(printable(f"{output}: {message_count(messages)}"))


def _read_config(config_file: str, settings: tuple[str, ...], *required: str) -> tuple[Any, Any]:
    """Return a configuration and its section `spark`; ConfigError if a required key is missing."""
    config = make_config((), config_file, settings, {})
    if config.spark is None or config.spark.input is None:
        raise ConfigError(f"{config_file}: spark.input: missing; name the table of messages")
    if config.sweep or config.model.window is not None:
        raise ConfigError(
            f"{config_file}: sweep, model.window: not supported on Spark; use streamnb replay"
        )
    unsupported = sorted(config.corpus.explicit_keys - {"path", "kind"})
    if unsupported:
        raise ConfigError(
            f"{config_file}: corpus.{unsupported[0]}: not supported on Spark, which reads a table"
        )
    for key in required:
        section, _, name = key.partition(".")
        if getattr(getattr(config, section), name) is None:
            raise ConfigError(f"{config_file}: {key}: missing; this command needs it")
    if config.spark.rounds and not config.spark.shards:
        raise ConfigError(f"{config_file}: spark.rounds: set spark.shards too")
    return config, config.spark


def _total_delay(config: Any) -> int:
    """Return the number of messages after which labels are learned."""
    from streamnb.config.schema import DelayedConfig, ImmediateConfig

    delay = 0
    for section in config.feedback:
        if isinstance(section, DelayedConfig) and section.messages is not None:
            delay += section.messages
        elif not isinstance(section, ImmediateConfig):
            raise ConfigError(
                f"feedback: {section.kind} is not supported on Spark; labels are immediate or "
                "delayed by a number of messages (kind: delayed, messages: N)"
            )
    return delay


def _make_classifier(config: Any, frame: Any) -> Any:
    """Return the configured classifier for a frame whose messages are bytes or strings."""
    from streamnb.corpus import Corpus
    from streamnb.replay.build import make_classifier, make_tokenizer

    types = dict(frame.dtypes)
    content = "text" if types.get("message") == "string" else "mail"
    corpus = Corpus("table", Path(config.spark.input), "a table", content, lambda: iter(()))
    return make_classifier(config, make_tokenizer(config, corpus))


def _read_input(session: Any, section: Any) -> Any:
    return session.read.format(section.format).load(section.input)


def _write_table(frame: Any, section: Any) -> None:
    """Write a table; overwrite only the incomplete table of a failed run."""
    is_remains = os.path.isdir(section.output) and not set(os.listdir(section.output)) - {
        "_temporary"
    }
    mode = "overwrite" if is_remains else "errorifexists"
    frame.write.mode(mode).format(section.format).save(section.output)


@contextmanager
def _start_session() -> Iterator[tuple[Any, Any]]:
    """Yield a Spark session and `streamnb.spark`; errors of Spark become one line."""
    with require_extra("spark", error_class=StreamNBError):
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    # By default, workers use this interpreter and import no module from the current folder.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    try:
        session = SparkSession.builder.appName("streamnb").getOrCreate()
        if not os.environ.get("STREAMNB_TRACEBACK"):
            session.sparkContext.setLogLevel("FATAL")
        import streamnb.spark

        yield session, streamnb.spark
    except PySparkException as error:
        raise StreamNBError(f"Spark: {_cause_line(str(error))}") from None
    except ValueError as error:  # the model is not a sum, or a column is wrong
        raise ConfigError(str(error)) from None
    except Exception as error:
        if type(error).__module__.startswith("py4j."):
            java_error = getattr(error, "java_exception", None)
            text = str(error) if java_error is None else str(java_error.getMessage())
            raise StreamNBError(f"Spark: {_cause_line(text)}") from None
        raise


def _cause_line(text: str) -> str:
    """Return the line of Spark's error with the cause: the last line of a Python traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        name, colon, reason = line.partition(": ")
        if colon and name.startswith("streamnb.errors."):
            return reason
        if colon and name.endswith(("Error", "Exception")) and " " not in name:
            return line[:300]
    return lines[0][:300] if lines else "failed without a message"
