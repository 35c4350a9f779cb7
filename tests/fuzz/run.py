"""Fuzz every reader and listener, guided by coverage.

    python tests/fuzz/run.py [TARGET ...] [--native] [--minutes 1] [--jobs 2]

`fuzz.sh` creates an environment for this program and starts it. A target that fails is started again until its
time is over. Inputs that made it fail are stored in the folder of --work; add them to the corpus when their
fault is repaired. With --minimise, the inputs of a run replace the stored corpus. With --native, compiled
targets (`native.pyx`) read the same inputs, too. Exit status 3 if anything was found.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[:1] = [str(HERE.parent / "helpers"), str(HERE.parent)]

MODULES = {
    "texts": "words html header grams pairs names mail hops passed well_formed",
    "counts": "table sums exact models",
    "files": "model_file pieces plans imports yaml trec mbox delimited any_corpus maildir",
    "listeners": "ask http pages smtp lmtp milter next_hop request reply",
    "imap": "imap",
}
TARGETS = {name: module for module, names in MODULES.items() for name in names.split()}
# For native targets: many short inputs, and only which edges they reach, which gives twice the
# executions.
NATIVE_MOST = 256
NATIVE_OPTIONS = ["-use_counters=0"]
MOST_FINDS = 20  # failures of a target after which it is not started again
KEPT = 64  # inputs of a stored corpus


def stored(name: str) -> list[bytes]:
    """Return the finds and the corpus of a target, one literal per line."""
    paths = [HERE / "corpus" / f"{name}.found.txt", HERE / "corpus" / f"{name}.txt"]
    lines = [
        line for path in paths if path.exists() for line in path.read_text("ascii").splitlines()
    ]
    return [ast.literal_eval(line) for line in lines]


def store(name: str, inputs: list[bytes]) -> None:
    """Store a number of the smallest inputs; finds are in a separate file."""
    smallest = sorted(sorted(set(inputs), key=lambda data: (len(data), data))[:KEPT])
    (HERE / "corpus" / f"{name}.txt").write_text(
        "".join(f"{data!r}\n" for data in smallest), "ascii"
    )


def replay(name: str) -> None:
    """Check a target with the stored inputs and its seeds."""
    target = import_module(f"fuzz.{TARGETS[name]}").TARGETS[name]
    for data in [*stored(name), *target.seeds()]:
        try:
            target.check(data)
        except BaseException:
            print(f"{name}: {data!r}", file=sys.stderr)
            raise
    assert target.reached(), f"{name}: the seeds do not come as far as they should"


def run_one(name: str, native: bool, arguments: list[str]) -> None:
    """Fuzz a target in this process, which does not return."""
    arguments = [os.environ["STREAMNB_FUZZER"], *arguments]
    if native:
        import_module("fuzz_native").fuzz(name, arguments)
        return
    import atheris

    with atheris.instrument_imports(include=["streamnb"], enable_loader_override=False):
        import_module("streamnb")
        module = import_module(f"fuzz.{TARGETS[name]}")
    atheris.Setup(arguments, module.TARGETS[name].check)
    atheris.Fuzz()


class Run:
    """A target that is fuzzed for some time.

    Parameters
    ----------
    name
        Name of the target.
    folder
        Folder of the stored inputs.
    native
        Whether to fuzz the compiled target of this name.
    """

    def __init__(self, name: str, folder: Path, native: bool) -> None:
        self.name = name
        self.native = native
        self.folder = folder
        self.corpus, self.crashes = folder / "corpus", folder / "crashes"
        for path in (self.corpus, self.crashes):
            path.mkdir(parents=True, exist_ok=True)
        self.executions = self.covered = self.features = 0
        self.seconds = 0.0
        self.finds: list[str] = []
        target = import_module(f"fuzz.{TARGETS[name]}").TARGETS[name]
        most = min(target.most, NATIVE_MOST) if native else target.most
        for i, data in enumerate([*stored(name), *target.seeds()]):
            (self.corpus / f"seed{i}").write_bytes(data[:most])
        words = "".join(
            '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in target.words
        )
        self.options = [f"-max_len={most}", "-timeout=60", "-rss_limit_mb=4096",
                        f"-artifact_prefix={self.crashes}/", *(NATIVE_OPTIONS if native else ())]  # fmt: skip
        if words:
            (folder / "words").write_text(words)
            self.options.append(f"-dict={folder / 'words'}")
        self.fuzzer = folder / "fuzzer"
        self.fuzzer.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" --one {name} {int(native)} "$@"\n'
        )
        self.fuzzer.chmod(0o755)

    def start(self, *arguments: object) -> str:
        """Run the fuzzer to its end; return its output."""
        environment = {**os.environ, "STREAMNB_FUZZER": str(self.fuzzer)}
        with open(self.folder / "log", "a+b") as log:
            begin = log.seek(0, 2)
            subprocess.run(
                [self.fuzzer, *map(str, arguments)],
                env=environment,
                stdout=log,
                stderr=log,
                check=False,
            )
            log.seek(begin)
            return log.read().decode("utf-8", "replace")

    def fuzz(self, seconds: float) -> None:
        """Fuzz until the time is over, or there are too many finds."""
        end = time.monotonic() + seconds
        while (remaining := end - time.monotonic()) > 1 and len(self.finds) < MOST_FINDS:
            begun = time.monotonic()
            output = self.start(
                *self.options,
                f"-max_total_time={remaining:.0f}",
                "-print_final_stats=1",
                self.corpus,
            )
            self.seconds += time.monotonic() - begun
            executed = re.findall(r"stat::number_of_executed_units: *(\d+)", output)
            self.executions += int(executed[-1]) if executed else 0
            reached = re.findall(r"cov: (\d+) ft: (\d+)", output)
            if reached:
                self.covered = max(self.covered, int(reached[-1][0]))
                self.features = max(self.features, int(reached[-1][1]))
            if not re.search(r"^Done \d+ runs", output, re.M):
                errors = re.findall(
                    r"^\w*(?:Error|Exception).*|^SUMMARY: .*|^==\d+== ?ERROR.*", output, re.M
                )
                self.finds.append(errors[0][:200] if errors else "it ended: see its log")

    def minimise(self) -> None:
        """Store the smallest inputs that together reach the same code as all inputs."""
        with tempfile.TemporaryDirectory() as small:
            self.start("-merge=1", *self.options, small, self.corpus)
            figures = [path.read_bytes() for path in Path(small).iterdir()]
            if figures:
                store(self.name, figures)
            else:
                print(f"{self.name}: its corpus cannot be minimised: see {self.folder / 'log'}")

    def as_json(self) -> dict[str, Any]:
        """Return the figures of a run for JSON."""
        return {
            "target": self.name, "native": self.native, "executions": self.executions, "seconds": round(self.seconds),
            "edges": self.covered, "features": self.features,
            "inputs": sum(1 for _ in self.corpus.iterdir()), "finds": self.finds,
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--minutes", type=float, default=1, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--work", type=Path, help="a folder for corpora, logs and finds")
    parser.add_argument(
        "--replay", action="store_true", help="only what is stored; needs no fuzzer"
    )
    parser.add_argument(
        "--native", action="store_true", help="compiled targets, of what is compiled"
    )
    parser.add_argument("--minimise", action="store_true", help="store what is kept, minimised")
    chosen = parser.parse_args()
    unknown = set(chosen.targets) - set(TARGETS)
    if unknown:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if chosen.replay:
        for name in chosen.targets or TARGETS:
            replay(name)
        return
    if "_with_fuzzer" not in os.environ.get("LD_PRELOAD", ""):
        parser.error("what is fuzzed must be built for it: begin this by tests/fuzz/fuzz.sh")
    work = chosen.work or Path(tempfile.mkdtemp(prefix="streamnb-fuzz-"))
    work.mkdir(parents=True, exist_ok=True)

    names = chosen.targets or TARGETS
    if chosen.native:
        compiled = import_module("fuzz_native").TARGETS
        names = chosen.targets or compiled
        if others := set(names) - set(compiled):
            parser.error(f"no native target {', '.join(sorted(others))}: {', '.join(compiled)}")

    def done(name: str) -> dict[str, Any]:
        run = Run(name, work / (f"native-{name}" if chosen.native else name), chosen.native)
        run.fuzz(60 * chosen.minutes)
        if chosen.minimise:
            run.minimise()
        figures = run.as_json()
        rate = figures["executions"] / max(figures["seconds"], 1)
        print(f"{name:12} {figures['executions']:>13,} executions {rate:>8,.0f} a second "
              f"{figures['edges']:>7,} edges {figures['inputs']:>6,} inputs {len(run.finds):>3} finds",
              *(f"\n    {find}" for find in run.finds), flush=True)  # fmt: skip
        return figures

    with ThreadPoolExecutor(chosen.jobs) as pool:
        results = list(pool.map(done, names))
    with open(work / "runs.jsonl", "a") as file:
        file.writelines(json.dumps(result) + "\n" for result in results)
    total = sum(result["executions"] for result in results)
    finds = sum(len(result["finds"]) for result in results)
    print(f"{total:,} executions, {finds} finds, kept in {work}")
    sys.exit(3 if finds else 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2], sys.argv[3] == "1", sys.argv[4:])
    main()
