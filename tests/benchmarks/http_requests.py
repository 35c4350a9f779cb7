"""Measure the processor time of `streamnb serve --model` and of a mailbox for requests by HTTP.

    python tests/benchmarks/http_requests.py STREAM [--limit N]

The stream is a corpus of texts. The times are those of the server's process, in microseconds for each text or mail.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from streamnb import TextClassifier
from streamnb.corpus import open_corpus, read

STREAMNB = [sys.executable, "-P", "-m", "streamnb"]
Request = Callable[[str, bytes], bytes]


def read_seconds(process: "subprocess.Popen[str]") -> float:
    """Return the processor time of a process so far, in seconds."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(token: Path, *options: object) -> Iterator[tuple["subprocess.Popen[str]", Request]]:
    """Start a server; give its process and a function that posts to a path by one connection."""
    command = [*STREAMNB, "serve", "--http", "127.0.0.1:0", *map(str, options)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        line = ""
        while "(http)" not in line:
            line = process.stderr.readline() if process.stderr else ""
            assert line, "the server ended"
        port = int(line.split(":")[1].split()[0])
        connection = http.client.HTTPConnection("127.0.0.1", port)

        def post(path: str, body: bytes) -> bytes:
            headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == 200, content
            return content

        yield process, post
        connection.close()
        process.terminate()


def measure(
    name: str, process: "subprocess.Popen[str]", number: int, send: Callable[[], object]
) -> None:
    """Print the times of the server and of the whole exchange for each message."""
    before, start = read_seconds(process), time.perf_counter()
    send()
    used, elapsed = read_seconds(process) - before, time.perf_counter() - start
    print(
        f"| {name} | {1e6 * used / number:,.0f} | {number / used:,.0f} | {number / elapsed:,.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stream")
    parser.add_argument("--limit", type=int, default=4000)
    options = parser.parse_args()
    entries = [(str(read(entry)), entry.label) for entry in open_corpus(options.stream)]
    entries = entries[: options.limit]
    texts, labels = zip(*entries, strict=True)
    print("| request | µs of the server | messages a processor second | messages a second |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        model = Path(temporary, "model.snb")
        TextClassifier().fit(texts, labels).save(model)
        with serve(model.with_name("model.snb.token"), "--model", model) as (process, post):
            bodies = [json.dumps({"text": text}).encode() for text in texts]
            post("/predict", bodies[0])
            number = len(texts)
            measure("`/predict`, one text", process, number,
                    lambda: [post("/predict", body) for body in bodies])  # fmt: skip
            starts = range(0, number, 100)
            batches = [json.dumps({"texts": texts[i : i + 100]}).encode() for i in starts]
            measure("`/predict`, 100 texts", process, number,
                    lambda: [post("/predict", body) for body in batches])  # fmt: skip
        database = Path(temporary, "mail.db")
        with serve(database.with_name("mail.db.token"), "--db", database) as (process, post):
            mails = [f"Subject: {i}\n\n{text}".encode() for i, text in enumerate(texts[:1000])]
            pairs = list(zip(mails, labels, strict=False))
            measure("`/learn`, one mail", process, len(mails),
                    lambda: [post(f"/learn?label={label}", mail) for mail, label in pairs])  # fmt: skip
            measure("`/classify`, one mail", process, len(mails),
                    lambda: [post("/classify", mail) for mail in mails])  # fmt: skip


if __name__ == "__main__":
    main()
