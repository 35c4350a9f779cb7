"""On Spark everything is what one process finds, to the last digit."""

import importlib.util
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

WHY = None
if importlib.util.find_spec("pyspark") is None:
    WHY = "pyspark is missing: pip install 'streamnb[spark]'"
elif shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    WHY = "Java is missing"
if WHY:
    pytest.skip(WHY, allow_module_level=True)

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from test_partial import judged_in_sequence, stream, table

from streamnb import (
    AODE,
    BernoulliNB,
    Classifier,
    ComplementNB,
    GaussianNB,
    Mailbox,
    MailClassifier,
    MailTokenizer,
    MixedNB,
    MultinomialNB,
    TextClassifier,
    Tokenizer,
    spark,
)
from streamnb.config import build
from streamnb.corpus import open_corpus, read
from streamnb.evaluate import ScoredPrediction
from streamnb.partial import ShardPlan, learn_shard, merge, merge_shards, new_model, spec_of
from streamnb.partial.shards import STATE
from streamnb.replay import replay_corpus
from streamnb.spark import fitting

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of sockets to the JVM
]

MODELS = {
    "multinomial": lambda: MultinomialNB(),
    "bernoulli": lambda: BernoulliNB(unseen="smooth"),
    "complement": lambda: ComplementNB(),
}


@pytest.fixture(scope="session")
def session(tmp_path_factory):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    instance = (
        SparkSession.builder.master("local[2,4]")  # a task is tried four times
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    instance.sparkContext.setLogLevel("OFF")
    yield instance
    instance.stop()


def frame_of(session, rows, partitions=3, seed=0):
    rows = random.Random(seed).sample(rows, len(rows))
    data = {
        "position": pa.array([row.position for row in rows], pa.int64()),
        "label": pa.array([row.label for row in rows], pa.string()),
        "message": pa.array([row.x for row in rows]),
    }
    if not rows:
        data["message"] = pa.array([], pa.string())
    return session.createDataFrame(pa.table(data)).repartition(partitions)


def saved(model):
    data = io.BytesIO()
    model.save(data)
    return data.getvalue()


def trained(classifier, rows):
    for row in rows:
        classifier.learn_one(row.x, row.label)
    return classifier


@pytest.mark.parametrize("kind", MODELS)
@given(
    seed=st.integers(0, 99),
    n=st.sampled_from([0, 1, 5, 60]),
    classes=st.sampled_from([1, 2, 20]),
    partitions=st.sampled_from([1, 3, 70]),
    parts=st.sampled_from([1, 5]),
    memory=st.sampled_from([1e-9, 512.0]),
)
@settings(deadline=None, max_examples=4)
def test_fit_is_learning_in_order(session, kind, seed, n, classes, partitions, parts, memory):
    rows = stream(seed, n, classes)
    template = Classifier(Tokenizer(), MODELS[kind]())
    frame = frame_of(session, rows, partitions, seed)
    result = spark.fit(frame, template, parts=parts, memory=memory)
    assert not template.labels
    item = trained(template, rows)
    assert result.labels == item.labels
    assert saved(result) == saved(item)


@pytest.mark.parametrize("kind", MODELS)
@given(
    seed=st.integers(0, 99),
    classes=st.sampled_from([1, 2, 20]),
    partitions=st.sampled_from([1, 7]),
    block=st.sampled_from([1, 13, 1000]),
    delay=st.sampled_from([0, 9]),
    first=st.sampled_from([0, -20]),
)
@settings(deadline=None, max_examples=4)
def test_prequential_is_exact(session, kind, seed, classes, partitions, block, delay, first):
    rows = [row._replace(position=row.position + first) for row in stream(seed, 40, classes)]
    template = Classifier(Tokenizer(), MODELS[kind]())
    frame = frame_of(session, rows, partitions, seed)
    steps = spark.prequential(frame, template, block=block, parts=3, delay=delay).sort("position")
    assert list(judged(steps)) == list(judged_in_sequence(template, rows, delay))


def judged(steps):
    names = ("score", "loss", "brier", "p_positive", "p_predicted", "classes")
    for row in steps.toArrow().to_pylist():
        figures = ScoredPrediction(*(row[name] for name in names))
        yield row["position"], row["label"], row["predicted"], figures


def sample():
    return [(i, e.label, read(e)) for i, e in enumerate(open_corpus("corpora/sample"))]


def mail_of(session, rows):
    position, label, message = zip(*rows, strict=True)
    columns = {"position": position, "label": label, "message": pa.array(message, pa.binary())}
    return session.createDataFrame(pa.table(columns)).repartition(4)


def test_the_summary_is_that_of_replay(session):
    classifier = Classifier(MailTokenizer(), MultinomialNB())
    steps = spark.prequential(mail_of(session, sample()), classifier, block=50)
    corpus = {"path": "corpora/sample"}
    report = replay_corpus(build({"corpus": corpus, "model": {"kind": "multinomial"}}))
    assert spark.summary(steps) == report.summary
    assert spark.summary(steps, intervals=False).intervals == {}


def test_scores_are_those_of_the_model(session):
    rows = sample()
    model = MailClassifier()
    for _, y, x in rows[:200]:
        model.learn_one(x, y)
    result = spark.score(mail_of(session, rows), model, classes=True, keep=["label"])
    assert result.columns == ["position", "label", "predicted", "score", "p_spam", "p_ham"]
    for row in result.toArrow().to_pylist():
        message = rows[row["position"]][2]
        scores = model.joint_log_likelihood(message)
        assert row["label"] == rows[row["position"]][1]
        assert row["predicted"] == max(scores, key=scores.get)
        assert row["score"] == scores["spam"] - scores["ham"]
        shares = model.predict_proba_one(message)
        assert shares == {"spam": row["p_spam"], "ham": row["p_ham"]}
    empty_result = spark.score(mail_of(session, rows[:3]), MailClassifier()).toArrow().to_pylist()
    assert [(row["predicted"], row["score"]) for row in empty_result] == [(None, 0.0)] * 3


@pytest.mark.parametrize("kind", ["gaussian", "mixed", "aode"])
def test_models_of_rows(session, kind):
    instance = {"gaussian": GaussianNB, "mixed": MixedNB, "aode": AODE}[kind]
    rows = table(5, 50, kind)
    data = [{"position": row.position, "label": row.label, **row.x} for row in rows]
    frame = session.createDataFrame(pa.Table.from_pylist(data)).repartition(3)
    model = trained(instance(), rows)
    result = spark.fit(frame, instance())
    assert result.labels == model.labels
    expected = [model.joint_log_likelihood(row.x) for row in rows]
    assert [result.joint_log_likelihood(row.x) for row in rows] == expected
    scored = spark.score(frame.drop("label"), result).sort("position").toArrow().to_pylist()
    assert [row["predicted"] for row in scored] == [max(value, key=value.get) for value in expected]
    steps = spark.prequential(frame, instance(), block=7).sort("position")
    assert list(judged(steps)) == list(judged_in_sequence(instance(), rows))


def test_labels_may_be_numbers_or_truth_values(session):
    texts = [f"w{i % 7} v{i % 2}" for i in range(30)]
    for labels, kind in (
        ([i % 2 for i in range(30)], pa.int32()),
        ([i % 2 > 0 for i in range(30)], pa.bool_()),
    ):
        columns = {"position": range(30), "label": pa.array(labels, kind), "message": texts}
        frame = session.createDataFrame(pa.table(columns))
        model = spark.fit(frame, Classifier(Tokenizer(), MultinomialNB()))
        assert model.predict_one("v1") == labels[1]
        assert spark.score(frame, model).toArrow().to_pylist()[1]["predicted"] == labels[1]
        steps = spark.prequential(frame, Classifier(Tokenizer(), MultinomialNB()))
        assert spark.summary(steps).messages == 30


def test_a_model_for_each(session):
    rows = sample()
    frame = mail_of(session, rows).withColumn("user", F.concat(F.lit("u"), F.expr("position % 3")))
    result = spark.fit_each(frame, MailClassifier(), group="user").toArrow().to_pylist()
    assert sorted(row["user"] for row in result) == ["u0", "u1", "u2"]
    for row in result:
        item = MailClassifier()
        actual = [(y, x) for i, y, x in rows if f"u{i % 3}" == row["user"]]
        for y, x in actual:
            item.learn_one(x, y)
        assert row["messages"] == len(actual)
        assert saved(Classifier.load(io.BytesIO(row["model"]))) == saved(item)


def test_shards_add_up(session, monkeypatch):
    monkeypatch.setattr(fitting, "MIN_SHARD", 20)
    monkeypatch.setattr(fitting, "_HELD_OUT", 30)
    rows = stream(3, 600, 2)
    slow = TextClassifier()
    slices, cut = ShardPlan(0, 599, 3, 2, 20), {}
    for row in rows:
        cut.setdefault(slices.slice_of(row.position), []).append(row)
    plan = spec_of(slow)
    for first, last in slices.slices_by_round():
        data = saved(slow)
        shards = [
            list(learn_shard(Classifier.load(io.BytesIO(data)), cut[k], 2))
            for k in range(first, last + 1)
        ]
        pieces = [piece for shard in shards for piece in shard if piece.view != STATE]
        merge_shards(slow, [*merge(plan, pieces), shards[-1][-1]])
    for partitions in (1, 5):
        frame = frame_of(session, rows, partitions)
        result = spark.fit(frame, TextClassifier(), shards=3, rounds=2, parts=2)
        assert saved(result) == saved(slow)
    assert result.messages() == trained(TextClassifier(), rows).messages()


def flaky(frame, location, subject, attempts):
    """The frame, whose rows make a task fail in some way when it is tried for the first time."""

    def read_on(batches):
        from pyspark import TaskContext

        first = TaskContext.get().attemptNumber() == 0
        (attempts / f"{TaskContext.get().taskAttemptId()}").touch()
        for batch in batches:
            yield batch
            if first and location in batch.column("position").to_pylist():
                if subject == "error":
                    raise OSError("the first attempt")
                os.kill(os.getpid(), signal.SIGKILL)

    previous = frame.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10)
    return frame.mapInArrow(read_on, frame.schema), previous


@pytest.mark.parametrize("subject", ["error", "kill"])
def test_tasks_that_fail_or_die_change_nothing(session, subject, tmp_path):
    rows = stream(8, 300, 3)
    template = Classifier(Tokenizer(), MultinomialNB())
    frame, previous = flaky(frame_of(session, rows, 6), 150, subject, tmp_path)
    try:
        assert saved(spark.fit(frame, template)) == saved(trained(template.clone(), rows))
        assert len(list(tmp_path.iterdir())) > 6  # one for each partition, and another one
        steps = spark.prequential(frame, template.clone(), block=40).sort("position")
        assert list(judged(steps)) == list(judged_in_sequence(template.clone(), rows))
    finally:
        session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", previous)


EXECUTOR_KILLED = """
import io, os, signal, subprocess, sys, threading, time
sys.path[:0] = ["tests/helpers", "tests/partial", "tests/spark"]
import pyarrow as pa
from pyspark.sql import SparkSession
from test_partial import judged_in_sequence, stream
from test_spark import frame_of, judged, saved, trained
from streamnb import Classifier, MultinomialNB, Tokenizer, spark
os.environ["PYSPARK_PYTHON"] = sys.executable
session = (
    SparkSession.builder.master("local-cluster[2,1,900]").config("spark.executor.memory", "700m")
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4").getOrCreate()
)
rows = stream(4, 200, 3)
frame = frame_of(session, rows, 8)
begun = sys.argv[1]

def slowly(batches):
    open(f"{begun}/{os.getppid()}", "w").close()
    for batch in batches:
        time.sleep(1)
        yield batch

def executors():
    pattern = "CoarseGrained[E]xecutorBackend.*" + session.sparkContext.applicationId
    found = subprocess.run(["pgrep", "-f", pattern], capture_output=True)
    return [int(number) for number in found.stdout.split()]

def kill():
    while not os.listdir(begun):
        time.sleep(0.1)
    time.sleep(1)
    os.kill(executors()[0], signal.SIGKILL)
    print("killed", flush=True)

threading.Thread(target=kill).start()
slow = frame.mapInArrow(slowly, frame.schema)
template = Classifier(Tokenizer(), MultinomialNB())
assert saved(spark.fit(slow, template)) == saved(trained(template.clone(), rows))
steps = spark.prequential(slow, template, block=40).sort("position")
assert list(judged(steps)) == list(judged_in_sequence(template.clone(), rows))
print("same", flush=True)
"""


def test_a_killed_executor_changes_nothing(tmp_path):
    run = [sys.executable, "-P", "-c", EXECUTOR_KILLED, str(tmp_path)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["killed", "same"], done.stderr[-3000:]


def test_impossible_values_are_refused(session):
    frame = frame_of(session, stream(1, 20, 2))
    words = Classifier(Tokenizer(), MultinomialNB())
    for call, cause in (
        (lambda: spark.fit(frame, MailClassifier()), "shards="),
        (lambda: spark.fit(frame, Classifier(Tokenizer(), MultinomialNB(decay=0.9))), "decay"),
        (lambda: spark.fit(frame, MultinomialNB()), "expected a Classifier"),
        (lambda: spark.fit(frame.drop("label"), words), "no column 'label'"),
        (
            lambda: spark.fit(frame.withColumn("message", F.lit(1)), words),
            "column 'message' is int",
        ),
        (lambda: spark.fit(frame, TextClassifier(), shards=2), "at least 2,000 each"),
        (lambda: spark.fit(frame, GaussianNB(), shards=2), "models of tables are sums"),
        (lambda: spark.fit(frame, words, parts=0), "parts"),
        (lambda: spark.prequential(frame.drop("position"), words), "no column 'position'"),
        (lambda: spark.prequential(frame, TextClassifier()), "depends on the order of messages"),
        (lambda: spark.prequential(frame.where("position != 7"), words, delay=3), "without gaps"),
        (lambda: spark.fit_each(frame, words, group="user"), "no column 'user'"),
        (lambda: spark.score(frame, words, keep=["nothing"]), "'nothing'"),
        (lambda: spark.score(frame, words, keep=["label", "label"]), "list each column once"),
        (lambda: spark.fit(frame, words, rounds=2), "rounds needs shards"),
        (lambda: spark.fit(frame, words, memory=float("nan")), "memory"),
        (lambda: spark.fit(frame, words, min_count=-1), "least"),
        (lambda: spark.fit_each(frame, words, group="message"), "rename the column"),
    ):
        with pytest.raises(ValueError, match=cause):
            call()


def test_rows_that_cannot_be_are_refused_by_the_tasks(session):
    frame = frame_of(session, stream(1, 20, 2))
    words = Classifier(Tokenizer(), MultinomialNB())
    empty = frame.withColumn("message", F.expr("nullif(message, message)"))
    with pytest.raises(PySparkException, match="is null"):
        spark.fit(empty, words)
    twice = frame.union(frame)
    with pytest.raises(PySparkException, match=r"position .*: two messages have it"):
        spark.prequential(twice, words).count()


# Streams


def write(folder, name, rows):
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps({"position": i, "label": y, "message": x}) + "\n" for i, y, x in rows)
    (folder / f".{name}").write_text(text)
    (folder / f".{name}").rename(folder / name)


def mails(start, end):
    return [
        (i, "spam" if i % 3 else "ham", f"Subject: {i}\n\nw{i % 5} v{i % 3}")
        for i in range(start, end)
    ]


SCHEMA = "position long, label string, message string"


def ran(session, folder, tmp_path, **options):
    frame = session.readStream.schema(SCHEMA).json(str(folder))
    query = spark.learn(
        frame,
        store=str(tmp_path / "mail.db"),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
        **options,
    )
    query.awaitTermination()
    return query


def counted(path):
    with Mailbox(path, create=False) as mailbox, mailbox.reading():
        assert mailbox.verify() == []
        return mailbox.classifier.messages()


def test_each_message_of_a_stream_is_learned_once(session, tmp_path):
    folder = tmp_path / "in"
    write(folder, "a.json", mails(0, 40))
    ran(session, folder, tmp_path)
    write(folder, "b.json", mails(20, 60))  # twenty come twice
    ran(session, folder, tmp_path, name="again")
    assert counted(tmp_path / "mail.db") == {"ham": 20.0, "spam": 40.0}
    in_order = Mailbox(tmp_path / "other.db")
    for _, y, x in mails(0, 60):
        in_order.learn(x.encode(), y)
    with in_order, in_order.reading(), Mailbox(tmp_path / "mail.db") as mailbox, mailbox.reading():
        for _, _, x in mails(0, 9):
            expected = in_order.classifier.joint_log_likelihood(x.encode())
            assert mailbox.classifier.joint_log_likelihood(x.encode()) == expected


KILLED = """
import os, signal, sys
from pyspark.sql import DataFrame, SparkSession
from streamnb import spark
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
whole = DataFrame.toArrow
import pyspark.sql.classic.dataframe as classic
before = classic.DataFrame.toArrow
def killed(self):
    before(self)
    os.kill(os.getpid(), signal.SIGKILL)
classic.DataFrame.toArrow = killed
folder, store, checkpoint = sys.argv[1:]
frame = session.readStream.schema("position long, label string, message string").json(folder)
spark.learn(frame, store=store, checkpoint=checkpoint, trigger={"availableNow": True}).awaitTermination()
"""


def test_a_driver_killed_between_store_and_checkpoint_learns_nothing_twice(session, tmp_path):
    folder = tmp_path / "in"
    write(folder, "a.json", mails(0, 30))
    paths = [str(folder), str(tmp_path / "mail.db"), str(tmp_path / "checkpoint")]
    done = subprocess.run(
        [sys.executable, "-P", "-c", KILLED, *paths], capture_output=True, timeout=300
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    assert counted(tmp_path / "mail.db") == {"ham": 10.0, "spam": 20.0}
    with Mailbox(tmp_path / "mail.db") as mailbox:  # another process corrects a label meanwhile
        corrected = mails(0, 1)[0][2].encode()
        assert mailbox.learn(corrected, "spam").result == "corrected"
    assert not list(Path(tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    ran(session, folder, tmp_path)
    assert counted(tmp_path / "mail.db") == {"ham": 9.0, "spam": 21.0}


# The command


def command(*arguments):
    program = "from streamnb.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_command_follows_its_configuration(tmp_path):
    mail, model, out = (tmp_path / name for name in ("mail.parquet", "mail.snb", "out"))
    assert command("spark", "table", "corpora/sample", "-o", mail).returncode == 0
    settings = ["--set", f"spark.input={mail}", "--set", f"output.model={model}"]
    assert command("spark", "fit", "configs/spark.yaml", *settings).returncode == 0
    calls = command("spark", "prequential", "configs/spark.yaml", *settings, "--json")
    corpus = {"path": "corpora/sample"}
    report = replay_corpus(build({"corpus": corpus, "model": {"kind": "multinomial"}}))
    assert json.loads(calls.stdout) == json.loads(json.dumps(report.summary.as_dict()))
    scored = [*settings, "--set", f"spark.output={out}", "--json"]
    assert (
        json.loads(command("spark", "score", "configs/spark.yaml", *scored).stdout)["messages"]
        == 300
    )
    item = Classifier(MailTokenizer(), MultinomialNB())
    for _, y, x in sample():
        item.learn_one(x, y)
    assert saved(Classifier.load(model)) == saved(item)


@pytest.mark.parametrize(
    ("arguments", "status", "cause"),
    [
        (["fit", "configs/sample.yaml"], 2, "spark.input"),
        (["fit", "configs/spark.yaml", "--set", "spark.input=none"], 1, "PATH_NOT_FOUND"),
        (
            [
                "fit",
                "configs/spark.yaml",
                "--set",
                "model.kind=classifier",
                "--set",
                "spark.input=corpora/mail",
            ],
            1,
            "PATH_NOT_FOUND",
        ),
        (["prequential", "configs/spark.yaml", "--set", "feedback.kind=on_error"], 2, "on_error"),
        (["fit", "configs/spark.yaml", "--set", "spark.rounds=3"], 2, "spark.shards"),
        (["fit", "configs/spark.yaml", "--set", "spark.part=3"], 2, "did you mean 'parts'"),
        (
            [
                "score",
                "configs/spark.yaml",
                "--set",
                "spark.output=x",
                "--set",
                "output.model=none",
            ],
            4,
            "none",
        ),
    ],
)
def test_errors_of_the_command_are_one_line(arguments, status, cause):
    done = command("spark", *arguments)
    assert done.returncode == status
    assert cause in done.stderr


def test_an_error_in_a_task_is_one_line_and_leaves_no_table(tmp_path):
    table = {"position": [0, 1, 2], "label": ["a", "b", None], "message": ["free", "lunch", "noon"]}
    mail, out, model = (tmp_path / name for name in ("mail.parquet", "out", "model.snb"))
    parquet.write_table(pa.table(table), mail)
    settings = ["configs/spark.yaml", "--set", f"spark.input={mail}"]
    prequential = ["spark", "prequential", *settings, "--set", f"spark.output={out}"]
    done = command(*prequential)
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (
        1,
        "streamnb: Spark: position 2: its label, message or position is null",
    )
    assert len(done.stderr.splitlines()) < 30  # Spark's own words of its start
    parquet.write_table(pa.table({**table, "label": ["a", "b", "a"]}), mail)
    assert command(*prequential).returncode == 0
    unknown = command("spark", "prequential", *settings, "--set", "evaluate.positive=nope")
    assert unknown.returncode == 2
    assert "'nope'" in unknown.stderr
    parquet.write_table(pa.table(table).slice(0, 0), mail)
    for subject in ("fit", "prequential"):
        empty_result = command("spark", subject, *settings, "--set", f"output.model={model}")
        assert empty_result.returncode == 3, empty_result.stderr
        assert "there are no messages" in empty_result.stderr
    assert not model.exists()


def test_a_table_is_not_replaced_by_nothing(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1").write_bytes(b"Subject: a\n\nb")
    (tmp_path / "index").write_text("Spam data/1\n")  # only to be classified
    previous = tmp_path / "keep.parquet"
    previous.write_bytes(b"kept")
    assert command("spark", "table", tmp_path, "-o", previous).returncode == 3
    assert previous.read_bytes() == b"kept"


def test_a_plan_is_the_same_for_all():
    assert spec_of(new_model(spec_of(MailClassifier()))) == spec_of(MailClassifier())


def test_the_guide_runs_unchanged(session, tmp_path, monkeypatch):
    text = Path("docs/scale.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- spark -->\n```(sh|python)\n(.*?)```", text, re.S)
    for name in ("corpora", "configs"):
        (tmp_path / name).symlink_to(Path(name).absolute())
    program = tmp_path / "streamnb"
    program.write_text(f"#!{sys.executable} -P\nfrom streamnb.cli import main\nmain()\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    assert [kind for kind, _ in blocks] == ["sh", "python", "python"]
    done = subprocess.run(["bash", "-euc", blocks[0][1]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "accuracy" in done.stdout
    existing = {"session": session}
    # The session of the tests was not begun in this folder.
    for _, example in blocks[1:]:
        for name in ("mail.parquet", "incoming", "mail.db", "checkpoint"):
            example = example.replace(f'"{name}"', f'"{tmp_path / name}"')
        exec(example, existing)  # noqa: S102 (it is ours)
    assert {row["user"] for row in existing["each"].toArrow().to_pylist()} == {0, 1, 2}
    assert existing["scores"].count() == 300
    with Mailbox(tmp_path / "mail.db") as mailbox:
        assert sum(mailbox.classifier.messages().values()) == 300


CONNECT = """
import sys
sys.path[:0] = ["tests/helpers", "tests/partial", "tests/spark"]
from pyspark.sql import SparkSession
from test_partial import judged_in_sequence, stream
from test_spark import MODELS, frame_of, judged, saved, trained
from streamnb import Classifier, Tokenizer, spark
session = SparkSession.builder.remote("local[2]").getOrCreate()
rows = stream(4, 100, 3)
frame = frame_of(session, rows)
template = Classifier(Tokenizer(), MODELS["bernoulli"]())
model = trained(template.clone(), rows)
assert saved(spark.fit(frame, template)) == saved(model)
steps = spark.prequential(frame, template, block=30)
assert list(judged(steps.sort("position"))) == list(judged_in_sequence(template.clone(), rows))
assert spark.summary(steps).messages == spark.score(frame, model).count() == 100
each = spark.fit_each(frame, template, group="label")
assert each.count() == 3
print("same")
"""


def test_spark_connect():
    pytest.importorskip("grpc", reason="pip install 'pyspark[connect]'")
    pytest.importorskip("zstandard", reason="pip install 'pyspark[connect]'")
    done = subprocess.run(
        [sys.executable, "-P", "-c", CONNECT], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip().endswith("same"), done.stderr[-3000:]
