"""Cost of a process for each message: streamnb's and bogofilter's, by turns.

    python tests/benchmarks/processes.py FOLDER [--messages 40] [--taught 1000]

FOLDER has an `index` of labels and files, like the TREC corpora. Times are of whole processes with a message on
standard input, in milliseconds: the median, and in brackets the minimum. Run it with the Python of an
environment with a normal installation of streamnb, because Python starts slowly with an editable one.
bogofilter must be installed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--messages", type=int, default=40)
    parser.add_argument("--taught", type=int, default=1000)
    chosen = parser.parse_args()
    lines = [line.split() for line in (chosen.folder / "index").read_text().splitlines()]
    trained, requests = lines[: chosen.taught], lines[-chosen.messages :]
    bin_folder = Path(sysconfig.get_path("scripts"))
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        for label, file in trained:
            (base / label).mkdir(exist_ok=True)
            (base / label / f"{len(os.listdir(base / label))}").write_bytes(
                (chosen.folder / file).read_bytes()
            )
        environment = {**os.environ, "STREAMNB_DB": str(base / "mail.db")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        (base / "bogofilter").mkdir()
        program = str(bin_folder / "streamnb")
        run = {"check": True, "env": environment, "stdout": subprocess.DEVNULL}
        subprocess.run([program, "learn", f"spam={base}/spam", f"ham={base}/ham"], **run)
        for option, label in (("-s", "spam"), ("-n", "ham")):
            subprocess.run(
                ["bogofilter", "-d", base / "bogofilter", option, "-B", base / label], **run
            )
        message_file = base / "message.eml"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "streamnb-filter": [str(bin_folder / "streamnb-filter")],
            "streamnb filter": [program, "filter"],
            "streamnb classify": [program, "classify", str(message_file)],
            "bogofilter -p": ["bogofilter", "-d", str(base / "bogofilter"), "-p"],
        }
        for served in (True, False):
            server = None
            if served:
                server = subprocess.Popen(
                    [program, "serve"], env=environment, stderr=subprocess.PIPE
                )
                server.stderr.readline()
            times = {kind: [] for kind in commands}
            for _, file in requests:
                message = (chosen.folder / file).read_bytes()
                message_file.write_bytes(message)
                for kind, command in commands.items():
                    begun = time.perf_counter()
                    subprocess.run(
                        command, input=message, env=environment, check=False, capture_output=True
                    )
                    times[kind].append(1000 * (time.perf_counter() - begun))
            if server is not None:
                server.terminate()
                server.wait()
                server.stderr.close()
            bare = statistics.median(times["python -c pass"])
            bogofilter = statistics.median(times["bogofilter -p"])
            print("with a server running" if served else "without")
            for kind, result in times.items():
                median = statistics.median(result)
                print(
                    f"  {kind:<20} {median:7.1f} ms ({min(result):.1f}), {median / bare:5.2f} x python -c "
                    f"pass, {median / bogofilter:5.2f} x bogofilter -p"
                )


if __name__ == "__main__":
    main()
