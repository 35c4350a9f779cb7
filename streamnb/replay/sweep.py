"""A grid of settings over one corpus, read and tokenised once for each distinct tokenizer."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from streamnb.config import Config, build
from streamnb.config.yaml_files import apply_settings
from streamnb.errors import ConfigError, StreamNBError
from streamnb.replay.build import what_is_learned, what_is_read
from streamnb.replay.run import OnStep, Report, replay_together
from streamnb.storage import replace_file

MAX_SETTINGS = 1000
_SECTIONS = ("model", "tokenizer", "feedback")


@dataclass(frozen=True)
class Setting:
    """One point of the grid, and what it gave.

    Attributes
    ----------
    settings
        The keys that are swept, and their values here.
    report
        The replay.
    """

    settings: dict[str, Any]
    report: Report

    def as_dict(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"settings": self.settings, **self.report.as_dict()}


def sweep(config: Config, on_step: OnStep | None = None) -> list[Setting]:
    """Replay every combination of the values in `config.sweep`, and rank them.

    Parameters
    ----------
    config
        With `sweep`: keys such as "model.alpha", and a list of values for each; or a list of
        settings, each a mapping of keys to one value. If `output.folder`
        is set, each run's results go to a numbered folder in it, and the table to sweep.json.
    on_step
        As for `replay`, for each distinct tokenizer anew.

    Returns
    -------
    list of Setting
        The best first: by (1-ROCA)%, or by accuracy where that has no meaning.

    Raises
    ------
    StreamNBError
        As for `replay`, and ConfigError for a key that cannot be swept.

    Examples
    --------
    >>> from streamnb.config import build
    >>> from streamnb.replay.sweep import sweep
    >>> config = build({
    ...     "corpus": {"path": "corpora/sample", "limit": 60},
    ...     "model": {"kind": "multinomial"},
    ...     "sweep": {"model.alpha": [0.1, 1.0]},
    ... })
    >>> sorted(one.settings["model.alpha"] for one in sweep(config))
    [0.1, 1.0]
    """
    if config.output.model is not None:
        raise ConfigError("output.model: a sweep has many models; save that of one replay")
    grid = _grid(config)
    groups = _together(grid, config.jobs)
    numbers = [number for group in groups for number in group]
    together = [[grid[number][1] for number in group] for group in groups]
    run = _in_processes if len(together) > 1 and config.jobs > 1 else _in_turn
    found: list[Report] = []
    lost: StreamNBError | None = None
    try:
        for group in run(together, on_step, config.jobs):
            found += group
    except StreamNBError as error:
        if not found:
            raise
        lost = error  # what was done is kept
    reports = dict(zip(numbers, found, strict=False))  # fewer after Ctrl-C
    if found and found[0].trouble is not None and all(report.trouble for report in found):
        raise found[0].trouble
    done = [Setting(grid[number][0], reports[number]) for number in sorted(reports)]
    ranked = sorted(done, key=_rank)
    if config.output.folder is not None and done:
        path = Path(config.output.folder) / "sweep.json"
        whole = len(done) == len(grid) and not any(one.report.interrupted for one in done)
        if whole or not path.exists():
            _write(path, ranked)
        else:
            ranked[0].report.left.append(f"{path}: the earlier ranking was left alone")
    if lost is not None:
        raise lost
    return ranked


def _in_turn(
    groups: list[list[Config]], on_step: OnStep | None, jobs: int
) -> Iterator[list[Report]]:
    for group in groups:
        found = replay_together(group, on_step)
        yield found
        if found[0].interrupted:
            return


def _in_processes(
    groups: list[list[Config]], on_step: OnStep | None, jobs: int
) -> Iterator[list[Report]]:
    """Each process reads for itself: what remains is the models' own work."""
    alone = [[one.with_changes(jobs=1) for one in group] for group in groups]
    context = multiprocessing.get_context("spawn")
    end = context.Event()
    with ProcessPoolExecutor(
        min(jobs, len(groups)), context, initializer=_patient, initargs=(end,)
    ) as crew:
        # Born with Ctrl-C held back, so that none hears of it before it knows what to do.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        waiting = [crew.submit(_replay_until_told, group) for group in alone]

        def stop(number: int, frame: object) -> None:
            end.set()  # those that run end with what they have; the others need not begin
            for future in waiting:
                future.cancel()

        mine = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, stop) if mine else None
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        try:
            for future in waiting:
                if future.cancelled():
                    return
                yield future.result()
        except CancelledError:
            return
        except BrokenProcessPool:
            raise StreamNBError(
                "a process of the sweep ended unexpectedly; try again with --jobs 1"
            ) from None
        finally:
            if mine:
                signal.signal(signal.SIGINT, before)


_end: Event  # in a process of a sweep: set when it is to end


def _replay_until_told(group: list[Config]) -> list[Report]:
    return replay_together(group, ended=_end.is_set)


def _patient(end: Event) -> None:
    """End when told to, after the message at hand; Ctrl-C is for the one who tells."""
    global _end
    _end = end
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _grid(config: Config) -> list[tuple[dict[str, Any], Config]]:
    plain = config.to_dict()
    grid = []
    for number, settings in enumerate(_settings(config), 1):
        one = build(apply_settings(plain, settings), "sweep")
        folder = config.output.folder
        folder = None if folder is None else os.path.join(folder, str(number))
        output = one.output.with_changes(folder=folder, model=None)
        grid.append((settings, one.with_changes(output=output, sweep={})))
    return grid


def settings_of(config: Config) -> int:
    """How many settings a sweep has."""
    return len(_settings(config))


def _settings(config: Config) -> list[dict[str, Any]]:
    """What is to be set in each run: as listed, or every combination of the values."""
    listed = config.sweep
    if isinstance(listed, dict):
        for key, values in listed.items():
            if not values:
                raise ConfigError(f"sweep.{key}: there are no values")
        products = itertools.islice(itertools.product(*listed.values()), MAX_SETTINGS + 1)
        settings = [dict(zip(listed, values, strict=True)) for values in products]
    else:
        settings = list(listed)
    if len(settings) > MAX_SETTINGS:
        raise ConfigError(f"sweep: more than {MAX_SETTINGS} settings")
    for key in {key: None for one in settings for key in one}:
        if key.partition(".")[0] not in _SECTIONS:
            raise ConfigError(
                f"sweep.{key}: only keys of {', '.join(_SECTIONS)} can be swept: model.alpha"
            )
    return settings


def _together(grid: list[tuple[dict[str, Any], Config]], jobs: int) -> list[list[int]]:
    """Which settings are replayed together: those that read the same, split over the processes.

    Those that learn the same stay together, because only one of them has to.
    """
    groups: dict[str, dict[str, list[int]]] = {}
    for number, (_, one) in enumerate(grid):
        learned = what_is_learned(one) or f"{number}"
        groups.setdefault(what_is_read(one), {}).setdefault(learned, []).append(number)
    together = []
    for group in groups.values():
        shares: list[list[int]] = [[] for _ in range(jobs)]
        for numbers in sorted(group.values(), key=len, reverse=True):
            min(shares, key=len).extend(numbers)
        together += [share for share in shares if share]
    return together


def _rank(setting: Setting) -> tuple[bool, float, float]:
    summary = setting.report.summary
    roca = summary.one_minus_roca_percent
    return roca is None, 0.0 if roca is None else roca, -(summary.accuracy or 0.0)


def _write(path: Path, ranked: list[Setting]) -> None:
    with replace_file(path, "the ranking") as file:
        file.write(json.dumps([one.as_dict() for one in ranked], indent=1).encode() + b"\n")
