"""CPU seconds of Spark, of one process and of pyspark.ml, on the same messages, in one run.

    python tests/benchmarks/spark.py FOLDER... [--times 10] [--messages 20000 200000]

Each FOLDER is a corpus; its messages are shuffled, and repeated --times times. With --messages, a seeded
generator makes streams of these sizes. Their vocabulary grows with the number of words to the power .66,
like that of the corpora. The figures include all processes of a run, the JVM too. Each job runs once before, so
the figures do not include start and compilation. pyspark.ml uses RegexTokenizer, HashingTF and NaiveBayes.
"""

import argparse
import io
import os
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from pyspark.ml import Pipeline
from pyspark.ml.classification import NaiveBayes
from pyspark.ml.feature import HashingTF, RegexTokenizer, StringIndexer
from pyspark.sql import SparkSession

from streamnb import Classifier, MailTokenizer, MultinomialNB, spark
from streamnb.corpus import open_corpus, read
from streamnb.evaluate import Example, PrequentialRun, RunningMetrics

TICK = os.sysconf("SC_CLK_TCK")


def cpu() -> float:
    """Return the CPU seconds of this process and its children until now."""
    parents, times = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            times[int(folder.name)] = sum(map(int, fields[11:15])) / TICK

    def actual(number: int) -> bool:
        while number not in (0, os.getpid()):
            number = parents.get(number, 0)
        return number != 0

    return sum(values for number, values in times.items() if actual(number))


def instance(folders: list[Path], times: int) -> list[tuple[str, bytes]]:
    return [(e.label, read(e)) for folder in folders for e in open_corpus(folder)] * times


def generated(messages: int) -> list[tuple[str, bytes]]:
    """Return messages of 177 words, whose vocabulary grows with n^.66 for n messages."""
    chance = np.random.default_rng(7)
    words, rows = 400, []
    for n in range(1, messages + 1):
        label = "spam" if chance.random() < 0.4 else "ham"
        # New words as the vocabulary grows; of those known the low ranks are the frequent ones.
        extra = chance.poisson(400 * (n**0.66 - (n - 1) ** 0.66))
        existing = np.minimum(np.exp(chance.random(177 - min(extra, 177)) * np.log(words)), words)
        tokens = [f"w{int(w):x}{label if int(w) % 11 == 0 else ''}" for w in existing]
        tokens += [f"w{words + i:x}" for i in range(extra)]
        words += int(extra)
        rows.append((label, f"Subject: {tokens[0]}\n\n{' '.join(tokens)}".encode()))
    return rows


def write(rows: list[tuple[str, bytes]], path: str, shuffled: bool) -> None:
    if shuffled:
        random.Random(1).shuffle(rows)
    labels, messages = zip(*rows, strict=True)
    columns = {
        "position": np.arange(len(rows)),
        "label": labels,
        "message": pa.array(messages, pa.binary()),
    }
    parquet.write_table(pa.table(columns), path, row_group_size=10_000)


def classifier(keep_names: bool = True) -> Classifier:
    return Classifier(MailTokenizer(keep_names=keep_names), MultinomialNB(keep_names=keep_names))


def batches(path: str):
    for batch in parquet.ParquetFile(path).iter_batches(1000):
        yield from zip(
            *(batch.column(name).to_pylist() for name in batch.schema.names), strict=True
        )


def one_fit(path: str) -> Classifier:
    model = classifier()
    for _, label, message in batches(path):
        model.learn_one(message, label)
    return model


def one_score(path: str, model: Classifier) -> None:
    for _, _, message in batches(path):
        model.joint_log_likelihood(message)


def one_prequential(path: str) -> object:
    """Replay as `replay_corpus` does, without names of features, as on Spark."""
    model, metrics = classifier(False), RunningMetrics()
    run = PrequentialRun(model.model)
    for position, label, message in batches(path):
        example = Example(model.count(message), label, position)
        step = run.classify(example)
        metrics.record(step)
        run.train(example, step)
    return metrics.summary(False)


def ml_fit(frame) -> object:
    words = frame.selectExpr("label", "string(message) AS text")
    stages = [
        StringIndexer(inputCol="label", outputCol="number"),
        RegexTokenizer(inputCol="text", outputCol="words", pattern="\\W"),
        HashingTF(inputCol="words", outputCol="counts", numFeatures=1 << 18),
        NaiveBayes(featuresCol="counts", labelCol="number"),
    ]
    return Pipeline(stages=stages).fit(words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--messages", nargs="*", type=int, default=[])
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--alone", action="store_true", help="without Spark")
    parser.add_argument("--parts", type=int, default=8)
    chosen = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = None if chosen.alone else started(chosen.master)
    streams = (
        [("corpora", lambda: instance(chosen.folders, chosen.times))] if chosen.folders else []
    )
    streams += [(f"generated {n}", lambda n=n: generated(n)) for n in chosen.messages]
    print("| stream | what | messages | CPU s | messages per CPU s | of one process |")
    print("|---|---|---|---|---|---|")
    for name, rows in streams:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/mail.parquet"
            write(rows(), path, bool(chosen.folders))
            measure(session, name, path, chosen.parts)


def started(master: str) -> SparkSession:
    session = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.driver.maxResultSize", "2g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def measure(session, name: str, path: str, parts: int) -> None:
    n = parquet.ParquetFile(path).metadata.num_rows
    if session is not None:
        frame = session.read.parquet(path)
        small = frame.limit(min(n, 2000)).repartition(2).cache()
        model = spark.fit(small, classifier())
    data = io.BytesIO()
    result = {}

    def keep(model):
        result["model"] = model

    def steps(frame):
        return spark.summary(spark.prequential(frame, classifier(), parts=parts), False)

    def scored(frame):
        frame = spark.score(frame, result.get("model", model))
        frame.write.format("noop").mode("overwrite").save()

    jobs = {
        "fit": (
            lambda: keep(one_fit(path)),
            lambda: keep(spark.fit(frame, classifier(), parts=parts)),
            lambda: spark.fit(small, classifier(), parts=parts),
        ),
        "score": (
            lambda: one_score(path, result["model"]),
            lambda: scored(frame),
            lambda: scored(small),
        ),
        "prequential": (lambda: one_prequential(path), lambda: steps(frame), lambda: steps(small)),
    }
    for kind, (alone, on_spark, warm_up) in jobs.items():
        began_alone = time.process_time()  # not `cpu`: idle workers end, and their time is lost
        first = alone()
        item = time.process_time() - began_alone
        print(
            f"| {name} | {kind}, one process | {n:,} | {item:.1f} | {n / item:,.0f} | |", flush=True
        )
        if session is None:
            continue
        warm_up()
        before, began = cpu(), time.perf_counter()
        second = on_spark()
        many = cpu() - before
        seconds = time.perf_counter() - began
        if kind == "prequential" and first != second:
            raise SystemExit("the figures differ")
        print(
            f"| {name} | {kind}, Spark ({seconds:.1f} s) | {n:,} | {many:.1f} | {n / many:,.0f} "
            f"| {item / many:.2f} |",
            flush=True,
        )
    if session is not None and not name.startswith("generated"):
        ml_fit(small)
        before = cpu()
        ml_fit(frame)
        many = cpu() - before
        print(f"| {name} | fit, pyspark.ml | {n:,} | {many:.1f} | {n / many:,.0f} | |", flush=True)
    result["model"].save(data)
    print(f"| {name} | features | {result['model'].features:,} | | | |", flush=True)


if __name__ == "__main__":
    main()
