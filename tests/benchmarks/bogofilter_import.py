"""Import the word list of a bogofilter, and compare the verdicts on unseen mail with bogofilter's own.

    python tests/benchmarks/bogofilter_import.py CORPUS... [--messages 1000] [--seed 0]

Prints for each corpus the numbers of correct, wrong and unsure verdicts of bogofilter and streamnb on 300
messages. Needs bogofilter and bogoutil (apt install bogofilter).
"""

import argparse
import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from streamnb import Mailbox
from streamnb.corpus import open_corpus, read
from streamnb.mailbox.service.response import judge
from streamnb.mailbox.transfer.formats import import_file

TEST_MESSAGES = 300
Messages = list[tuple[bytes, str]]


def run(*command: str, names: list[Path] | None = None) -> bytes:
    """Run a command on the files of a list; return its output."""
    text = "".join(f"{name}\n" for name in names or []).encode()
    return subprocess.run(command, input=text, capture_output=True, check=False).stdout


def write(messages: Messages, folder: Path) -> list[Path]:
    folder.mkdir()
    paths = [folder / f"{i}.{label}" for i, (_, label) in enumerate(messages)]
    for path, (content, _) in zip(paths, messages, strict=True):
        path.write_bytes(content)
    return paths


def summary(verdicts: list[tuple[str, str]]) -> str:
    counts = Counter(verdicts)
    right = counts["spam", "S"] + counts["ham", "H"]
    unsure = counts["spam", "U"] + counts["ham", "U"]
    wrong = len(verdicts) - right - unsure
    return f"right {right}, wrong {wrong} ({counts['ham', 'S']} ham as spam), unsure {unsure}"


def compare(train: Messages, test: Messages, folder: Path) -> None:
    """Train bogofilter, import its word list, and print the verdicts of both."""
    database = str(folder / "bogofilter")
    Path(database).mkdir()
    paths = write(train, folder / "train")
    for label, option in (("spam", "-s"), ("ham", "-n")):
        names = [path for path in paths if path.suffix == f".{label}"]
        run("bogofilter", "-d", database, "-b", option, names=names)
    (folder / "dump").write_bytes(run("bogoutil", "-d", f"{database}/wordlist.db"))
    names = write(test, folder / "test")
    lines = run("bogofilter", "-d", database, "-b", "-T", names=names).decode().splitlines()
    bogofilter_verdicts = [line.split()[:2] for line in lines]
    print(
        "  bogofilter:",
        summary([(name.rpartition(".")[2], mark) for name, mark in bogofilter_verdicts]),
    )
    with Mailbox(folder / "mail.db") as mailbox:
        import_file(mailbox, str(folder / "dump"))
        verdicts = [(label, judge(mailbox, content).mark) for content, label in test]
    print("  streamnb:  ", summary(verdicts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    for corpus in arguments.corpora:
        entries = list(open_corpus(corpus).entries())
        random.Random(arguments.seed).shuffle(entries)
        messages = [
            (bytes(read(entry)), entry.label)
            for entry in entries[: arguments.messages + TEST_MESSAGES]
        ]
        print(corpus.name)
        with tempfile.TemporaryDirectory() as folder:
            compare(messages[: arguments.messages], messages[arguments.messages :], Path(folder))


if __name__ == "__main__":
    main()
