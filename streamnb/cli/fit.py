"""`streamnb fit` and `streamnb merge-models`: models made of whole corpora."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from streamnb.cli.options import on_error_option, set_option
from streamnb.cli.tables import progress_bar
from streamnb.errors import ConfigError, printable


@click.command()
@click.argument("corpora", nargs=-1, required=True, metavar="CORPUS...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where the model goes.")
@click.option("--config", "config_file", metavar="FILE", help="YAML file with the settings.")
@set_option("model.kind=multinomial")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N messages.")
@click.option(
    "--order",
    metavar="ORDER",
    default="shuffled",
    show_default=True,
    help="In which order they are learned: indexed, name, date, shuffled or shuffled:SEED.",
)
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Work with N processes.")
@on_error_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def fit(
    corpora: tuple[str, ...],
    output: str,
    config_file: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Learn all messages of the corpora, and write the model to a file.

    No figures are worked out: `streamnb replay` does that. The default model learns one message
    after the other, in random order unless --order says otherwise. Models whose counts add up
    (multinomial, bernoulli, complement) are counted by all processes of --jobs, with one result
    however many there are. That pays for mail by the ten thousands, not for lines of text.

    \b
    Examples:
      streamnb fit corpora/sample -o mail.snb
      streamnb fit 2024/ 2025/ --set model.kind=multinomial --jobs 8 -o mail.snb

    Exit status: 0 done, 2 wrong option or configuration, 3 a corpus cannot be read, 5 the model
    cannot be written, 130 interrupted (nothing is written).
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.cli.replay import configured, tell_skipped
    from streamnb.replay.fit import fit_corpora

    config = configured("", config_file, settings, options)
    told = tuple(regime.kind for regime in config.feedback)
    if config.sweep or config.model.window or told != ("immediate",):
        raise ConfigError("sweep, feedback, model.window: not of a fit; use `streamnb replay`")
    if as_json or quiet or not sys.stderr.isatty():
        found = fit_corpora(config, list(corpora))
    else:
        with progress_bar("{task.completed:,.0f} messages") as draw:
            found = fit_corpora(
                config, list(corpora), lambda done, of: draw(completed=done, total=of)
            )
    found.classifier.save(output)
    if as_json:
        click.echo(json.dumps(found.as_dict()))
    elif not quiet:
        classes = ", ".join(f"{n:,.0f} {y}" for y, n in found.classifier.messages().items())
        said = (
            f"{output}: {found.learned:,} messages ({classes}), "
            f"{found.classifier.features:,} features, {found.seconds:.1f} s"
        )
        click.echo(printable(said))
    tell_skipped(found.skipped)


@click.command("merge-models")
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where the sum goes.")
def merge_models(models: tuple[str, ...], output: str) -> None:
    """Add up models of one kind, with one tokenizer, that learned different messages.

    Models whose counts add up become what one model that learned it all would be; of the default
    the counts add up and the recalibration of the one that learned most is kept.

    \b
    Example:
      streamnb merge-models monday.snb tuesday.snb -o week.snb

    Exit status: 0 done, 4 a model cannot be read, or is of another kind, 5 the sum cannot be
    written.
    """  # noqa: D301 (click's mark for lines that stay as they are)
    from streamnb.any_model import merged
    from streamnb.naive_bayes.model_files import save

    model, extra = merged(models)
    save(model, output, extra)
    click.echo(printable(f"{output}: the sum of {len(models)} models"))
