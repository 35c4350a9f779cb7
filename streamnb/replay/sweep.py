"""Replays of one corpus with a grid of settings; messages are tokenised once per tokenizer."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Hashable, Iterator
from concurrent.futures import FIRST_EXCEPTION, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from streamnb.config import Config, build
from streamnb.config.yaml_files import apply_settings
from streamnb.errors import ConfigError, StreamNBError
from streamnb.replay.build import features_key, training_key
from streamnb.replay.run import OnStep, Report, replay_models
from streamnb.storage import replace_file

MAX_SETTINGS = 1000
_SECTIONS = ("model", "tokenizer", "feedback")

Settings = dict[str, Any]


@dataclass(frozen=True)
class SweepResult:
    """One combination of settings and its report.

    Attributes
    ----------
    settings
        The swept keys and their values.
    report
        The report of the replay.
    """

    settings: Settings
    report: Report

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON."""
        return {"settings": self.settings, **self.report.as_dict()}


def sweep(config: Config, on_step: OnStep | None = None) -> list[SweepResult]:
    """Replay every combination of the values in `config.sweep`; return the results ranked.

    Parameters
    ----------
    config
        A configuration with `sweep`: keys such as "model.alpha" with a list of values each, or a
        list of settings, each a mapping of keys to one value. If `output.folder` is set, the
        results of each run go to a numbered folder in it, and the ranking to sweep.json.
    on_step
        As for `replay_corpus`; it starts from 0 again for each group of runs.

    Returns
    -------
    list of SweepResult
        Best first: by (1-ROCA)%, or by accuracy if that is undefined.

    Raises
    ------
    StreamNBError
        As for `replay_corpus`, and ConfigError for a key that cannot be swept.

    Examples
    --------
    >>> from streamnb.config import build
    >>> from streamnb.replay.sweep import sweep
    >>> config = build({
    ...     "corpus": {"path": "corpora/sample", "limit": 60},
    ...     "model": {"kind": "multinomial"},
    ...     "sweep": {"model.alpha": [0.1, 1.0]},
    ... })
    >>> sorted(result.settings["model.alpha"] for result in sweep(config))
    [0.1, 1.0]
    """
    if config.output.model is not None:
        raise ConfigError(
            "output.model: a sweep trains many models; save the model of one replay instead"
        )
    grid = [
        (settings, _config_of(config, settings, number))
        for number, settings in enumerate(_list_settings(config), 1)
    ]
    groups = _group_indices([each for _, each in grid], config.jobs)
    config_groups = [[grid[index][1] for index in group] for group in groups]
    reports: list[Report] = []
    failure: StreamNBError | None = None
    try:
        for group_reports in _run_groups(config_groups, on_step, config.jobs):
            reports += group_reports
    except StreamNBError as error:
        if not reports:
            raise
        failure = error  # raised after the results of finished runs were written
    if reports and reports[0].problem is not None and all(report.problem for report in reports):
        raise reports[0].problem
    # After Ctrl-C there are fewer reports than settings.
    finished = sorted(zip(itertools.chain(*groups), reports, strict=False), key=lambda run: run[0])
    results = sorted((SweepResult(grid[index][0], report) for index, report in finished), key=_rank)
    if config.output.folder is not None and results:
        path = Path(config.output.folder) / "sweep.json"
        is_complete = len(results) == len(grid) and not any(
            result.report.interrupted for result in results
        )
        if is_complete or not path.exists():
            _write_ranking(path, results)
        else:
            results[0].report.not_written.append(f"{path}: the earlier ranking is not changed")
    if failure is not None:
        raise failure
    return results


def _run_groups(
    groups: list[list[Config]], on_step: OnStep | None, jobs: int
) -> Iterator[list[Report]]:
    """Yield the reports of each group, in order; fewer after Ctrl-C."""
    if len(groups) > 1 and jobs > 1:
        yield from _run_in_processes(groups, jobs)
        return
    for group in groups:
        reports = replay_models(group, on_step)
        yield reports
        if reports[0].interrupted:
            return


def _run_in_processes(groups: list[list[Config]], jobs: int) -> Iterator[list[Report]]:
    """Replay each group in one process, which reads and tokenises for itself."""
    single_process = [[each.with_changes(jobs=1) for each in group] for group in groups]
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    with ProcessPoolExecutor(
        min(jobs, len(groups)), context, initializer=_init_worker, initargs=(stop,)
    ) as pool:
        # SIGINT is blocked until each worker has installed its handler.
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        futures = [pool.submit(_replay_until_stopped, group) for group in single_process]

        def stop_runs(*_signal: object) -> None:
            stop.set()  # workers finish their current message; waiting groups are cancelled
            for future in futures:
                future.cancel()

        in_main_thread = threading.current_thread() is threading.main_thread()
        previous_handler = signal.signal(signal.SIGINT, stop_runs) if in_main_thread else None
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        try:
            # An error of any group stops the others, which then end at their current message.
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = [future for future in futures if _has_failed(future)]
            if failed:
                stop_runs()
            for future in [
                *itertools.takewhile(lambda each: not each.cancelled(), futures),
                *failed,
            ]:
                yield future.result()
        except CancelledError:
            return
        except BrokenProcessPool:
            raise StreamNBError(
                "a process of the sweep ended unexpectedly; try again with --jobs 1"
            ) from None
        finally:
            if in_main_thread:
                signal.signal(signal.SIGINT, previous_handler)


def _has_failed(future: Future[list[Report]]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is not None


_stop_event: Event  # set by `_init_worker` in each worker process


def _replay_until_stopped(group: list[Config]) -> list[Report]:
    return replay_models(group, should_stop=_stop_event.is_set)


def _init_worker(stop_event: Event) -> None:
    """Ignore SIGINT in a worker: the main process sets `stop_event` instead."""
    global _stop_event
    _stop_event = stop_event
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _config_of(config: Config, settings: Settings, number: int) -> Config:
    """Return the configuration of one run, which writes to the numbered folder."""
    run_config = build(apply_settings(config.to_dict(), settings), "sweep")
    folder = config.output.folder
    folder = None if folder is None else os.path.join(folder, str(number))
    output = run_config.output.with_changes(folder=folder, model=None)
    return run_config.with_changes(output=output, sweep={})


def count_settings(config: Config) -> int:
    """Return the number of runs of a sweep."""
    return len(_list_settings(config))


def _list_settings(config: Config) -> list[Settings]:
    """Return the settings of each run: as listed, or every combination of the values."""
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
        raise ConfigError(f"sweep: there are more than {MAX_SETTINGS} settings; use fewer values")
    for key in {key: None for run_settings in settings for key in run_settings}:
        if key.partition(".")[0] not in _SECTIONS:
            raise ConfigError(
                f"sweep.{key}: only keys of the sections {', '.join(_SECTIONS)} can be swept, "
                "such as model.alpha"
            )
    return settings


def _group_indices(configs: list[Config], jobs: int) -> list[list[int]]:
    """Return the indices of the configurations that are replayed together.

    Configurations with the same features are replayed together, split over the processes.
    Configurations that learn the same counts are not split, because only one of them needs
    training.
    """
    groups: dict[Hashable, dict[Hashable, list[int]]] = {}
    for index, config in enumerate(configs):
        key = training_key(config)
        sharing = groups.setdefault(features_key(config), {})
        sharing.setdefault(("alone", index) if key is None else key, []).append(index)
    result = []
    for sharing in groups.values():
        bins: list[list[int]] = [[] for _ in range(jobs)]
        for indices in sorted(sharing.values(), key=len, reverse=True):
            min(bins, key=len).extend(indices)
        result += [indices for indices in bins if indices]
    return result


def _rank(result: SweepResult) -> tuple[bool, float, float]:
    summary = result.report.summary
    roca = summary.one_minus_roca_percent
    return roca is None, 0.0 if roca is None else roca, -(summary.accuracy or 0.0)


def _write_ranking(path: Path, results: list[SweepResult]) -> None:
    with replace_file(path, "the ranking") as file:
        rows = [result.as_dict() for result in results]
        file.write(json.dumps(rows, indent=1).encode() + b"\n")
