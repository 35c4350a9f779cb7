"""Records of a long run, with a line for each part of its messages."""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Slices", "resident"]

SHARES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "worst": 1.0}


def resident(process: int | str = "self") -> float:
    """Return the current megabytes of memory of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Slices:
    """Latencies and errors of a run: a line of JSON for each part of it.

    Parameters
    ----------
    path
        File for the lines.
    messages
        Total number of messages.
    slices
        Number of parts.
    measures
        Returns the measurements at the end of each part: memory, sizes.
    """

    def __init__(
        self, path: Path, messages: int, slices: int, measures: Callable[[], dict[str, float]]
    ) -> None:
        self.path = path
        path.write_text("")
        self.each = max(messages // slices, 1)
        self.messages = messages
        self.measures = measures
        self.number = self.judged = self.wrong = 0
        self.wrong_of: defaultdict[str, int] = defaultdict(int)
        self.times: defaultdict[str, list[float]] = defaultdict(list)
        self.begun = self.since = time.monotonic()

    @contextmanager
    def timed(self, action: str) -> Iterator[None]:
        """Record the time of an operation."""
        begun = time.perf_counter()
        yield
        self.times[action].append(time.perf_counter() - begun)

    def note(self, prediction: object, label: str) -> None:
        """Record a verdict before its message is learned; at the end of a part, write its line."""
        self.judged += 1
        if prediction != label:
            self.wrong += 1
            self.wrong_of[label] += 1
        self.number += 1
        if self.number % self.each == 0:
            self.write()

    def write(self) -> None:
        """Write the line of a part, and begin the next part."""
        line: dict[str, Any] = {
            "messages": self.number,
            "seconds": round(time.monotonic() - self.begun, 1),
            "rate": round(self.judged / (time.monotonic() - self.since), 1),
            "errors": self.wrong / max(self.judged, 1),
            "errors_of": dict(self.wrong_of),
            **self.measures(),
        }
        for action, times in self.times.items():
            ordered = np.sort(times)
            line[action] = {
                name: round(
                    float(ordered[min(int(share * len(ordered)), len(ordered) - 1)]) * 1e3, 4
                )
                for name, share in SHARES.items()
            }
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        done = self.number / self.messages
        print(f"{done:6.1%} {line['rate']:>9,.0f} messages a second, {line['errors']:.2%} errors, "
              f"{line['memory']:,.0f} MB", flush=True)  # fmt: skip
        self.judged = self.wrong = 0
        self.wrong_of.clear()
        self.times.clear()
        self.since = time.monotonic()
