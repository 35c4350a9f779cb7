"""Compare streamnb with the Bayes filters of Debian on the same mail.

    apt install bogofilter spamassassin rspamd
    python tests/benchmarks/peers.py CORPUS [CORPUS ...] [--draws 3] [--only NAME,...]

Each draw trains every filter on 1,000 messages and tests it on 300 others, in the same order. Prints Markdown:
a row for each corpus and filter, and one for each filter. SpamAssassin and rspamd run with their Bayes
classifier alone, without rules and network. A filter that is not installed is left out.

Each filter has its default thresholds. streamnb and bogofilter give verdicts. For SpamAssassin they are
BAYES_05 and BAYES_95 (probabilities of 5 and 95 %): between them it gives less than 2 of 5 points. rspamd has
the same ones.
"""

import argparse
import contextlib
import http.client
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1] / "helpers"))
from ports import free_port

from streamnb.corpus import Entry, open_corpus, read
from streamnb.mailbox.service.client import MailboxClient

TRAINED, TESTED = 1000, 300  # messages of a draw
TIMED_PROCESSES = 20  # messages that are classified by separate processes
SURE = 0.95  # probability from which SpamAssassin's and rspamd's Bayes count as sure
STREAMNB = [sys.executable, "-P", "-m", "streamnb"]

Mails = list[tuple[bytes, str]]


class Judgement(NamedTuple):
    """The probability of spam, and the verdict: "spam", "ham" or "unsure"."""

    probability: float
    verdict: str


class Peer(NamedTuple):
    """A trained filter.

    Attributes
    ----------
    judge_by_server, judge_by_process
        Classify a message by a running program, or by a program started for it; None if the filter
        does not support this.
    size
        Returns the bytes of its database.
    """

    judge_by_server: Callable[[bytes], Judgement] | None
    judge_by_process: Callable[[bytes], Judgement] | None
    size: Callable[[], int]


def judgement(probability: float) -> Judgement:
    """Return the verdict at the thresholds of SpamAssassin's and rspamd's Bayes."""
    if probability >= SURE:
        return Judgement(probability, "spam")
    return Judgement(probability, "ham" if probability <= 1 - SURE else "unsure")


def folder_size(folder: Path, pattern: str = "*") -> int:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file())


def run(
    command: list[str],
    message: bytes,
    statuses: tuple[int, ...] = (0,),
    environment: dict[str, str] | None = None,
) -> str:
    """Run a command with a message as its input and return its output."""
    done = subprocess.run(command, input=message, capture_output=True, check=False, env=environment)
    if done.returncode not in statuses:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode('utf-8', 'replace').strip()}")
    return done.stdout.decode("utf-8", "replace")


@contextlib.contextmanager
def terminated(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """End a process after the block."""
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


@contextlib.contextmanager
def streamnb(mails: Mails, folder: Path) -> Iterator[Peer]:
    """Train a mailbox by `streamnb learn`; classify by `streamnb serve` and `streamnb classify`."""
    database = folder / "mail.db"
    for number, (message, label) in enumerate(mails):
        (folder / label).mkdir(exist_ok=True)
        (folder / label / f"{number:05}.eml").write_bytes(message)
    classes = [f"{label}={folder / label}" for label in ("ham", "spam")]
    run([*STREAMNB, "learn", "--db", str(database), *classes], b"")

    def parse_line(line: str) -> Judgement:
        mark, score = line.split()[:2]
        return judge_score(mark, float(score))

    def judge_by_process(message: bytes) -> Judgement:
        environment = {**os.environ, "STREAMNB_SOCKET": str(folder / "none")}
        command = [*STREAMNB, "classify", "--db", str(database)]
        return parse_line(run(command, message, (0, 1, 2), environment))

    def judge_score(mark: str, score: float) -> Judgement:
        probability = 1 / (1 + math.exp(-max(min(score, 500.0), -500.0)))
        return Judgement(probability, {"S": "spam", "H": "ham"}.get(mark, "unsure"))

    server = subprocess.Popen(
        [*STREAMNB, "serve", "--db", str(database)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with terminated(server):
        assert server.stdout is not None
        server.stdout.readline()

        def judge_by_server(message: bytes) -> Judgement:
            with MailboxClient(database) as client:
                response = client.classify(message)
                assert client.mailbox is None, "the server did not answer"
            return judge_score(response.mark, response.score)

        yield Peer(judge_by_server, judge_by_process, lambda: folder_size(folder, "mail.db"))


@contextlib.contextmanager
def bogofilter(mails: Mails, folder: Path) -> Iterator[Peer]:
    """Train bogofilter; it has no server."""
    command = ["bogofilter", "-C", "-d", str(folder)]
    for message, label in mails:
        run([*command, "-s" if label == "spam" else "-n"], message)

    def judge_by_process(message: bytes) -> Judgement:
        mark, probability = run([*command, "-T"], message, (0, 1, 2)).split()[:2]
        return Judgement(float(probability), {"S": "spam", "H": "ham"}.get(mark, "unsure"))

    yield Peer(None, judge_by_process, lambda: folder_size(folder))


# Answers each line "spam FILE", "ham FILE" (train) or "judge FILE" with a line.
_PERL = r"""
use strict; use Mail::SpamAssassin; $| = 1;
my ($folder) = @ARGV;
my $filter = Mail::SpamAssassin->new({
    rules_filename => "$folder/rules", site_rules_filename => "$folder/empty",
    userprefs_filename => "$folder/none", userstate_dir => $folder,
    dont_copy_prefs => 1, local_tests_only => 1});
$filter->init(1);
while (my $line = <STDIN>) {
    chomp $line;
    my ($action, $path) = split / /, $line, 2;
    open my $file, "<:raw", $path or die; local $/; my $text = <$file>; close $file;
    local $/ = "\n";
    my $mail = $filter->parse($text);
    if ($action eq "judge") {
        my $status = $filter->check($mail);
        print defined $status->{bayes_score} ? $status->{bayes_score} : 0.5, "\n";
        $status->finish;
    } else {
        $filter->learn($mail, undef, $action eq "spam", 0)->finish;
        print "done\n";
    }
    $mail->finish;
}
"""
_RULES = """loadplugin Mail::SpamAssassin::Plugin::Check
loadplugin Mail::SpamAssassin::Plugin::Bayes
loadplugin Mail::SpamAssassin::Plugin::BodyEval
use_bayes 1
bayes_auto_learn 0
bayes_auto_expire 0
bayes_learn_to_journal 0
bayes_path {folder}/bayes
body BAYES_ANY eval:check_bayes('0.00', '1.00')
tflags BAYES_ANY learn
score BAYES_ANY 0.001
util_rb_tld com net org edu gov info biz
add_header all Probability _BAYES_
"""


@contextlib.contextmanager
def spamassassin(mails: Mails, folder: Path) -> Iterator[Peer]:
    """Train SpamAssassin's Bayes in a Perl process that stays, as a child of spamd does."""
    for name in ("rules", "empty"):
        (folder / name).mkdir()
    (folder / "rules" / "site.cf").write_text(_RULES.replace("{folder}", str(folder)))
    path = folder / "message"
    process = subprocess.Popen(
        ["perl", "-e", _PERL, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def ask(action: str, message: bytes) -> str:
        assert process.stdin is not None
        assert process.stdout is not None
        path.write_bytes(message)
        process.stdin.write(f"{action} {path}\n".encode())
        process.stdin.flush()
        answer = process.stdout.readline().decode().strip()
        if not answer:
            raise RuntimeError("SpamAssassin ended")
        return answer

    def judge_by_process(message: bytes) -> Judgement:
        command = ["spamassassin", "-L", "-x", "-C", str(folder / "rules")]
        out = run([*command, f"--siteconfigpath={folder / 'empty'}"], message)
        probability = re.search(r"^X-Spam-Probability: ([\d.]+)", out, re.M)
        return judgement(float(probability[1]) if probability else 0.5)

    with terminated(process):
        for message, label in mails:
            ask(label, message)
        yield Peer(
            lambda message: judgement(float(ask("judge", message))),
            judge_by_process,
            lambda: folder_size(folder, "bayes_*"),
        )


_RSPAMD = """
options {
  pidfile = "{folder}/pid"; control_socket = "{folder}/control"; filters = "";
  url_tld = "/usr/share/rspamd/effective_tld_names.dat"; hs_cache_dir = "{folder}/../hyperscan";
  cache_file = "{folder}/cache"; tempdir = "{folder}"; history_file = "";
  dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s; }
}
logging { type = "file"; filename = "{folder}/log"; level = "error"; }
worker "normal" { bind_socket = "127.0.0.1:{normal}"; count = 1; }
worker "controller" { bind_socket = "127.0.0.1:{controller}"; count = 1; secure_ip = "127.0.0.1"; }
actions { reject = 15; }
group "bayes" { symbols { BAYES_SPAM { weight = 5.0; } BAYES_HAM { weight = -3.0; } } }
classifier "bayes" {
  tokenizer { name = "osb"; }
  backend = "sqlite3";
  cache { path = "{folder}/learned.sqlite"; }
  min_tokens = 1;
  statfile { symbol = "BAYES_HAM"; spam = false; path = "{folder}/ham.sqlite"; }
  statfile { symbol = "BAYES_SPAM"; spam = true; path = "{folder}/spam.sqlite"; }
}
"""


@contextlib.contextmanager
def rspamd(mails: Mails, folder: Path) -> Iterator[Peer]:
    """Train rspamd's Bayes over HTTP; it works as a server only."""
    normal, controller = free_port(), free_port()
    settings = {"folder": folder, "normal": normal, "controller": controller}
    text = _RSPAMD
    for name, value in settings.items():
        text = text.replace(f"{{{name}}}", str(value))
    (folder / "rspamd.conf").write_text(text)
    (folder.parent / "hyperscan").mkdir(exist_ok=True)

    def post(port: int, action: str, message: bytes) -> dict[str, Any]:
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        ) as connection:
            connection.request("POST", f"/{action}", message)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer

    def judge(message: bytes) -> Judgement:
        symbols = post(normal, "checkv2", message)["symbols"]
        for name, is_spam in (("BAYES_SPAM", True), ("BAYES_HAM", False)):
            if name in symbols:
                share = float(symbols[name]["options"][0].rstrip("%")) / 100
                return judgement(share if is_spam else 1 - share)
        return judgement(0.5)

    server = subprocess.Popen(
        ["rspamd", "--insecure", "-f", "-c", str(folder / "rspamd.conf")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with terminated(server):
        end = time.monotonic() + 120
        while True:
            try:
                post(normal, "ping", b"")
            except json.JSONDecodeError:
                break  # "pong"
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
        for message, label in mails:
            post(controller, f"learn{label}", message)
        yield Peer(judge, None, lambda: folder_size(folder, "*am.sqlite"))


PEERS: dict[str, tuple[str, Callable[[Mails, Path], AbstractContextManager[Peer]]]] = {
    "streamnb": (sys.executable, streamnb),
    "bogofilter": ("bogofilter", bogofilter),
    "SpamAssassin": ("spamassassin", spamassassin),
    "rspamd": ("rspamd", rspamd),
}


class Result(NamedTuple):
    """Counts over the tested messages, milliseconds for a message, and megabytes."""

    misses: int
    false_alarms: int
    unsure: int
    wrong_side: int  # of a probability of one half
    tested: int
    server_ms: float  # median; NaN without a server
    process_ms: float
    megabytes: float

    def cells(self) -> str:
        numbers = [self.misses, self.false_alarms, self.unsure, self.wrong_side]
        shares = [f"{100 * number / self.tested:.1f}" for number in numbers]
        times = ["-" if math.isnan(x) else f"{x:.1f}" for x in (self.server_ms, self.process_ms)]
        return " | ".join([*shares, *times, f"{self.megabytes:.1f}"])


def sum_results(results: list[Result]) -> Result:
    """Return the sums of counts and the medians of times and sizes."""
    counts = [sum(column) for column in list(zip(*results, strict=True))[:5]]
    medians = [statistics.median(column) for column in list(zip(*results, strict=True))[5:]]
    return Result(*map(int, counts), *medians)


def measure(peer: Peer, tests: Mails) -> Result:
    """Classify the tested messages, some of them by separate processes, to measure their time."""
    times: dict[str, list[float]] = {"server": [], "process": []}
    judgements = []
    for number, (message, label) in enumerate(tests):
        ways = {"server": peer.judge_by_server, "process": peer.judge_by_process}
        if peer.judge_by_server is not None and number >= TIMED_PROCESSES:
            ways["process"] = None
        for way, judge in ways.items():
            if judge is not None:
                begin = time.perf_counter()
                judged = judge(message)
                times[way].append(1000 * (time.perf_counter() - begin))
        judgements.append((label, judged))
    medians = {way: statistics.median(values or [math.nan]) for way, values in times.items()}
    return Result(
        sum(label == "spam" and judged.verdict == "ham" for label, judged in judgements),
        sum(label == "ham" and judged.verdict == "spam" for label, judged in judgements),
        sum(judged.verdict == "unsure" for _, judged in judgements),
        sum((judged.probability > 0.5) != (label == "spam") for label, judged in judgements),
        len(tests), medians["server"], medians["process"], peer.size() / 1e6,
    )  # fmt: skip


def draw_mails(entries: list[Entry], number: int) -> tuple[Mails, Mails]:
    """Return the trained and the tested messages of a draw; no message is in both."""
    contents: dict[bytes, str] = {}
    for entry in random.Random(number).sample(entries, len(entries)):
        content = read(entry)
        contents.setdefault(
            content if isinstance(content, bytes) else content.encode(), str(entry.label)
        )
        if len(contents) == TRAINED + TESTED:
            break
    mails = list(contents.items())
    trained = min(TRAINED, len(mails) * TRAINED // (TRAINED + TESTED))
    return mails[:trained], mails[trained:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpora", nargs="+", type=Path, metavar="CORPUS")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--only", default=",".join(PEERS), metavar="NAME,...")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if shutil.which(PEERS[name][0])]
    print("| | | misses | false alarms | unsure | wrong side | server, ms | process, ms | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    results: dict[str, list[Result]] = {name: [] for name in names}
    for corpus in arguments.corpora:
        entries = list(open_corpus(corpus))
        draws = [draw_mails(entries, number) for number in range(arguments.draws)]
        for name in names:
            of_corpus = []
            for trained, tested in draws:
                with tempfile.TemporaryDirectory(prefix="streamnb-peers-") as folder:
                    place = Path(folder) / "filter"
                    place.mkdir()
                    with PEERS[name][1](trained, place) as peer:
                        of_corpus.append(measure(peer, tested))
            results[name] += of_corpus
            print(f"| {corpus.name} | {name} | {sum_results(of_corpus).cells()} |", flush=True)
    for name in names:
        print(f"| all | {name} | {sum_results(results[name]).cells()} |")


if __name__ == "__main__":
    main()
