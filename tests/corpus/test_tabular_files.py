"""Tabular files of every format, in every command and function that reads tables."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import os
import random
import re
import tarfile
import threading
import zipfile
from datetime import datetime

import pytest
from commands import streamnb_command, streamnb_process

from streamnb.cli.unlabelled import open_unlabelled
from streamnb.config.experiment import build_experiment
from streamnb.corpus import open_corpus, read
from streamnb.corpus.tabular import MISSING, open_table
from streamnb.corpus.text_files import _ToUtf8
from streamnb.errors import ConfigError, CorpusError
from streamnb.mailbox.sources import messages
from streamnb.tables.experiment.data import read_examples

pyarrow = pytest.importorskip("pyarrow")

ROWS = [
    ("spam", 'buy "now", cheap; pills', 9.5),
    ("ham", "lunch at noon", 1.25),
    ("spam", "win a prize", 8.0),
    ("ham", "see you | then", 2.0),
    ("ham", "the report is done", 1.5),
    ("spam", "cheap loans", 7.5),
]

MBOX_OF_THREE = b"".join(
    b"From a@b.example Mon Mar  2 10:00:00 2026\nSubject: %d\n\nat noon\n\n" % i for i in range(3)
)


def csv_bytes(delimiter=",", header=True, decimal="."):
    import csv

    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    if header:
        writer.writerow(["label", "text", "length"])
    for label, message, length in ROWS:
        writer.writerow([label, message, str(length).replace(".", decimal)])
    return text.getvalue().encode()


def json_lines():
    rows = [dict(zip(("label", "text", "length"), row, strict=True)) for row in ROWS]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet():
    from pyarrow import parquet as format_

    columns = dict(
        zip(("label", "text", "length"), map(list, zip(*ROWS, strict=True)), strict=True)
    )
    buffer = io.BytesIO()
    format_.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()


def zipped(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, member in enumerate(members):
            archive.writestr(f"folder/{number}.csv", member)
    return buffer.getvalue()


def tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        item = tarfile.TarInfo("t.csv")
        item.size = len(csv_bytes())
        archive.addfile(item, io.BytesIO(csv_bytes()))
    return buffer.getvalue()


def utf_16(data, order="le", bits=16):
    mark = getattr(codecs, f"BOM_UTF{bits}_{order.upper()}")
    return mark + data.decode().encode(f"utf-{bits}-{order}")


def zstandard(data):
    return pyarrow.compress(data, codec="zstd", asbytes=True)


FILES = {
    "t.csv": csv_bytes(),
    "semicolons.csv": csv_bytes(";"),
    "semicolons and decimal commas.csv": csv_bytes(";", decimal=","),
    "bars.csv": csv_bytes("|"),
    "t.tsv": csv_bytes("\t"),
    "decimal commas.tsv": csv_bytes("\t", decimal=","),
    "t.csv.gz": gzip.compress(csv_bytes()),
    "t.csv.bz2": bz2.compress(csv_bytes()),
    "t.csv.xz": lzma.compress(csv_bytes()),
    "t.csv.zst": zstandard(csv_bytes()),
    "t.csv.zip": zipped(csv_bytes()),
    "zip under another name": zipped(csv_bytes(";")),
    "utf-16.csv": utf_16(csv_bytes()),
    "utf-16 of a spreadsheet.txt": utf_16(csv_bytes("\t").replace(b"\n", b"\r\n")),
    "utf-16 big endian.csv": utf_16(csv_bytes(), "be"),
    "utf-32.csv": utf_16(csv_bytes(), bits=32),
    "utf-32 big endian.csv": utf_16(csv_bytes(), "be", 32),
    "utf-16.csv.gz": gzip.compress(utf_16(csv_bytes())),
    "utf-16.jsonl": utf_16(json_lines()),
    "compressed under another name.csv": gzip.compress(csv_bytes()),
    "t.jsonl": json_lines(),
    "t.ndjson": json_lines(),
    "t.jsonl.gz": gzip.compress(json_lines()),
    "json lines without suffix": json_lines(),
    "t.parquet": parquet(),
    "parquet without suffix": parquet(),
    "byte order mark.csv": b"\xef\xbb\xbf" + csv_bytes(),
    "windows.csv": csv_bytes().replace(b"\n", b"\r\n"),
    "spreadsheet.csv": b"sep=;\n" + csv_bytes(";"),
}


def corpus_rows(path):
    return [(entry.label, read(entry)) for entry in open_corpus(path)]


def experiment_rows(path):
    config = build_experiment(
        {"data": {"kind": "table", "path": str(path), "label": "label", "text": ["text"]}}
    )
    examples = read_examples(config.data)
    assert examples.table.names == ["text", "length"]
    assert examples.table.values[:, 1].tolist() == [length for _, _, length in ROWS]
    return list(zip(examples.labels, examples.table.values[:, 0].tolist(), strict=True))


# The functions that replays (and fits), and experiments, read tables with.
ENTRANCES = {"corpus": corpus_rows, "experiment": experiment_rows}
EXPECTED = [(label, text) for label, text, _ in ROWS]


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("name", FILES)
def test_every_entrance_reads_every_format(tmp_path, name, entrance):
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert ENTRANCES[entrance](path) == EXPECTED


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("count", [1, 2])
def test_several_files_are_read_one_after_the_other(tmp_path, entrance, count):
    paths = [tmp_path / f"{i}.csv.gz" for i in range(count)]
    for path in paths:
        path.write_bytes(gzip.compress(csv_bytes()))
    if entrance == "corpus":
        assert corpus_rows(paths) == EXPECTED * count
    else:
        data = {"kind": "table", "path": [str(path) for path in paths], "label": "label"}
        examples = read_examples(build_experiment({"data": data}).data)
        assert examples.labels == [label for label, _ in EXPECTED] * count


def test_commands_read_several_files(tmp_path):
    names = ["t.csv", "t.jsonl", "semicolons.csv.gz"]
    for name in names:
        content = csv_bytes(";") if name.startswith("semi") else json_lines()
        (tmp_path / name).write_bytes(csv_bytes() if name == "t.csv" else content)
    for command in (
        ("fit", *names, "-o", "m.snb", "--json"),
        ("replay", *names, "--json"),
        ("evaluate", "m.snb", *names, "--json"),
    ):
        done = streamnb_process(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert 3 * len(ROWS) in (result.get("messages"), result.get("learned"))
    (tmp_path / "c.yaml").write_text("corpus: {path: t.csv}\n")
    done = streamnb_process("replay", "t.csv", "c.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "--config c.yaml" in str(done.stderr)


def write_to_pipe(path, content):
    """Make a named pipe and write into it from a thread, which waits for the reader."""
    os.mkfifo(path)
    thread = threading.Thread(target=path.write_bytes, args=(content,), daemon=True)
    thread.start()
    return thread


PIPE_COMMANDS = {
    "replay": (["replay", "pipe", "--json"], csv_bytes()),
    "fit": (["fit", "pipe", "-o", "new.snb", "--json"], csv_bytes()),
    "predict": (["predict", "m.snb", "pipe", "--json"], csv_bytes()),
    "evaluate": (["evaluate", "m.snb", "pipe", "--json"], csv_bytes()),
    "experiment": (["experiment", "e.yaml", "--json"], csv_bytes()),
    "learn": (["learn", "ham", "pipe", "--json", "--db", "mail.db"], MBOX_OF_THREE),
    "learn one": (["learn", "ham", "pipe", "--json", "--db", "mail.db"], b"Subject: a\n\nb\n"),
}


@pytest.mark.parametrize("name", PIPE_COMMANDS)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_commands_read_pipes(tmp_path, name, compress):
    (tmp_path / "e.yaml").write_text(
        "data: {kind: table, path: pipe, label: label, columns: [length]}\n"
        "models: {g: {kind: gaussian}}\nsplits: {trials: 2}\n"
    )
    (tmp_path / "t.csv").write_bytes(csv_bytes())
    assert streamnb_process("fit", "t.csv", "-o", "m.snb", cwd=tmp_path).returncode == 0
    command, content = PIPE_COMMANDS[name]
    if name == "learn":
        compress = bytes  # a compressed mbox is refused
    thread = write_to_pipe(tmp_path / "pipe", compress(content))
    done = streamnb_process(*command, cwd=tmp_path)
    thread.join()
    assert done.returncode == 0, done.stderr
    if name.startswith("learn"):
        assert done.stdout.count(b"\n") == (3 if name == "learn" else 1)
        assert b'"path": "pipe' in done.stdout


@pytest.mark.parametrize("read_pipe", ["corpus", "learn"])
def test_a_pipe_without_a_writer_is_an_error(tmp_path, monkeypatch, read_pipe):
    monkeypatch.setattr("streamnb.corpus.text_files.PIPE_WAIT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    if read_pipe == "corpus":
        with pytest.raises(CorpusError, match="no program writes into this pipe"):
            open_corpus(tmp_path / "pipe")
    else:
        (message,) = messages(str(tmp_path / "pipe"))
        assert "no program writes into this pipe" in str(message.content)


def test_a_pipe_waits_for_a_writer_that_is_slow(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def write():
        with open(tmp_path / "pipe", "wb", buffering=0) as pipe:
            for byte in csv_bytes():
                pipe.write(bytes([byte]))

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    assert corpus_rows(tmp_path / "pipe") == EXPECTED
    thread.join()


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.jsonl", "t.parquet"])
def test_commands_read_standard_input(tmp_path, name):
    (tmp_path / "e.yaml").write_text(
        "data: {kind: table, path: '-', label: label, columns: [length]}\n"
        "models: {g: {kind: gaussian}}\nsplits: {trials: 2}\n"
    )
    for command in (
        ("replay", "-", "--json"),
        ("fit", "-", "-o", tmp_path / "m.snb", "--json"),
        ("experiment", tmp_path / "e.yaml", "--json"),
    ):
        done = streamnb_process(*command, input=FILES[name], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert 6 in (result.get("messages"), result.get("learned"), result.get("rows"))


@pytest.mark.parametrize("escape", ['""', '\\"'], ids=["twice", "backslash"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("cell", ['a "b" c', '"all"', "C:\\new", "two\nlines", "x, y; z\tw"])
def test_quotes_in_texts_have_a_second_quote_or_a_backslash(tmp_path, cell, delimiter, escape):
    """R's write.table and Spark write backslashes."""
    rows = [("spam", cell), ("ham", 'say "no"'), ("spam", "buy now"), ("ham", "lunch")]
    lines = [("label", "text"), *rows]
    quoted = [[f'"{value.replace(chr(34), escape)}"' for value in line] for line in lines]
    content = "".join(delimiter.join(line) + "\n" for line in quoted)
    (tmp_path / "t.csv").write_text(content, newline="")
    assert corpus_rows(tmp_path / "t.csv") == rows


def test_a_text_of_spark_may_end_with_a_backslash(tmp_path):
    lines = ["label,text", r'"spam","say \"no\""', r'"ham","in C:\\"', '"spam","buy now"']
    (tmp_path / "t.csv").write_text("".join(f"{line}\n" for line in lines))
    rows = [("spam", 'say "no"'), ("ham", r"in C:\\"), ("spam", "buy now")]
    assert corpus_rows(tmp_path / "t.csv") == rows


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.txt", "__label__spam buy now\n\n__label__ham lunch, at noon\n", None),
        ("a.csv", "__label__2 buy now\n__label__1 lunch\n", [("2", "buy now"), ("1", "lunch")]),
        ("a.txt", "__label__spam\tbuy now\n__label__ham\tlunch, at noon\n", None),
        ("a.csv", 'label, text\nham, "lunch, at noon"\nspam, "buy, now"\n', [("ham", "lunch, at noon"), ("spam", "buy, now")]),
        ("a.csv", "label,text\rham,lunch\rspam,buy now\r", [("ham", "lunch"), ("spam", "buy now")]),
        ("a.txt", "label\ttext\rham\tlunch\rspam\tbuy now", [("ham", "lunch"), ("spam", "buy now")]),
        ("a.txt", "lunch at noon\tham\nbuy now\tspam\nthe report is in\tham\n", None),
        ("a.txt", "sentence\tlabel\nit is fine\t1\nall bad\t0\n", [("1", "it is fine"), ("0", "all bad")]),
        ("a.csv", "v1,v2,,\nham,lunch,,\nspam,buy now,,\n", [("ham", "lunch"), ("spam", "buy now")]),
        ("a.csv", "id,review,sentiment\n1,good one,pos\n2,bad,neg\n", [("pos", "good one"), ("neg", "bad")]),
        ("a.csv", "comment,toxic\nyou fool,1\nthank you,0\n", [("1", "you fool"), ("0", "thank you")]),
        ("a.tsv", 'label\ttext\nham\t"so he said\nspam\t5" screens\n', [("ham", '"so he said'), ("spam", '5" screens')]),
        ("a.tsv", 'label\ttext\nham\t"two\nlines"\nspam\t"a ""b"""\n', [("ham", "two\nlines"), ("spam", 'a "b"')]),
    ],
)  # fmt: skip
def test_files_that_people_have(tmp_path, name, content, rows):
    (tmp_path / name).write_text(content, newline="")
    found_rows = corpus_rows(tmp_path / name)
    if rows is None:
        assert {label for label, _ in found_rows} == {"ham", "spam"}
        assert dict(found_rows)["spam"] == "buy now"
    else:
        assert found_rows == rows


TEXTS = [f"a text of some words, number {i}" for i in range(12)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_tables_without_header_are_read_by_their_content(tmp_path, delimiter, order, suffix):
    rows = [(("ham", "spam")[i % 2], text.replace(",", "")) for i, text in enumerate(TEXTS)]
    lines = [delimiter.join(row[k] for k in order) for row in rows]
    (tmp_path / f"a{suffix}").write_text("\n".join(lines) + "\n")
    assert corpus_rows(tmp_path / f"a{suffix}") == rows
    header = delimiter.join(("Intention", "Utterances")[k] for k in order)
    (tmp_path / f"a{suffix}").write_text("\n".join([header, *lines]) + "\n")
    assert corpus_rows(tmp_path / f"a{suffix}") == rows


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("n_rows", [12, 40])
@pytest.mark.parametrize(
    "names",
    [
        ("the message text", "the class label"),
        ("narrative of the complaint", "assigned department"),
        ("What did they write?", "Which class is it?"),
    ],
)
def test_names_of_columns_can_be_as_long_as_texts(tmp_path, names, delimiter, n_rows):
    rows = [(f"lunch {i}", ("ham", "spam")[i % 2]) for i in range(n_rows)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(map(delimiter.join, [names, *rows])) + "\n")
    assert corpus_rows(path) == [(label, text) for text, label in rows]


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
def test_a_guessed_header_is_reported_and_can_be_read_as_data(tmp_path, suffix, delimiter):
    rows = [("first words", "unique"), *((TEXTS[i], ("ham", "spam")[i % 2]) for i in range(12))]
    path = tmp_path / f"a{suffix}"
    path.write_text("\n".join(map(delimiter.join, rows)).replace(", number", "") + "\n")
    guessed = open_corpus(path)
    assert len(list(guessed)) == 12
    assert guessed.description.endswith("set corpus.header to false")
    entries = list(open_corpus(path, has_header=False))
    assert (entries[0].label, len(entries)) == ("unique", 13)
    path.write_text(path.read_text().replace("first words", "text").replace("unique", "label"))
    for header in (None, True):
        assert "corpus.header" not in open_corpus(path, has_header=header).description


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_columns_can_be_named_or_numbered_in_every_table(tmp_path, delimiter):
    lines = [
        ("id", "verdict", "words"),
        *((str(i), ["no", "yes"][i % 2], f"w {i}") for i in range(8)),
    ]
    path = tmp_path / "a.txt"
    path.write_text("\n".join(map(delimiter.join, lines)) + "\n")
    expected = [(["no", "yes"][i % 2], f"w {i}") for i in range(8)]
    options = {"label_column": "verdict", "text_column": "words"}
    assert [(e.label, e.text) for e in open_corpus(path, **options)] == expected
    path.write_text("\n".join(map(delimiter.join, lines[1:])) + "\n")
    options = {"label_column": "2", "text_column": "3"}
    assert [(e.label, e.text) for e in open_corpus(path, **options)] == expected


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("label", "text"), [("topic", "2"), ("1", " TEXT "), ("TOPIC", "Words"), ("1", "3"), ("1", "2")]
)
def test_columns_are_named_in_any_case_or_numbered(tmp_path, mark, label, text):
    """The exact name comes first if names differ in case only."""
    names = ("Topic", "Words", "words", "Text")
    rows = [names, *(("ab"[i % 2], f"one {i}", f"two {i}", f"one {i}") for i in range(12))]
    path = tmp_path / "a.csv"
    path.write_text(mark + "\n".join(map(",".join, rows)))
    kind = "two" if text == "3" else "one"
    entries = list(open_corpus(path, label_column=label, text_column=text))
    if label == "1" and text in "23":  # all numbers: an unknown first line is data
        entries = entries[1:] if entries[0].label.endswith("Topic") else entries
    assert [entry.text for entry in entries] == [f"{kind} {i}" for i in range(12)]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [
        ([(f"id{i}", text) for i, text in enumerate(TEXTS)], {}, "are different"),
        ([(f"w{i}", text) for i, text in enumerate(TEXTS)], {"label_column": "text", "text_column": "label"}, "are different"),
        (
            [(TEXTS[i % 8], ("ham", "spam")[i % 2]) for i in range(12)],
            {"label_column": "label"},
            "longer than the texts",
        ),
        ([("ham", text) for text in TEXTS], {"label_column": "class"}, "no column 'class'"),
        ([("ham", text) for text in TEXTS], {"label_column": "text"}, "same column"),
    ],
)  # fmt: skip
def test_columns_that_cannot_be_labels_and_texts_are_refused(
    tmp_path, name, rows, columns, message
):
    path = tmp_path / name
    if name == "a.jsonl":
        path.write_text("".join(json.dumps({"label": y, "text": x}) + "\n" for y, x in rows))
    else:
        delimiter = "," if name == "a.csv" else "\t"
        cells = [("label", "text"), *((y.replace(",", ""), x.replace(",", "")) for y, x in rows)]
        path.write_text("\n".join(map(delimiter.join, cells)) + "\n")
    with pytest.raises(CorpusError, match=message) as error:
        list(open_corpus(path, **columns))
    if "column '" not in message:
        assert "corpus.label_column" in str(error.value)


@pytest.mark.parametrize("columns", [("label", "text"), ("2", "1")])
@pytest.mark.parametrize(
    ("texts", "labels"), [("😀😢😡", ("joy", "sadness", "anger")), (range(300), (0, 1, 2))]
)
def test_short_texts_and_numbers_are_texts_if_both_columns_are_named(
    tmp_path, texts, labels, columns
):
    rows = [(texts[i % len(texts)], labels[i % 3]) for i in range(300)]
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    corpus = open_corpus(path, label_column=columns[0], text_column=columns[1])
    assert not corpus.notices
    assert [(entry.text, entry.label) for entry in corpus] == [(str(x), str(y)) for x, y in rows]


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("cell", sorted(MISSING - {"?"}))
def test_every_entrance_refuses_a_missing_label(tmp_path, entrance, cell):
    labels = ["a", "b", "c"] * 10
    labels[4] = cell
    (tmp_path / "t.csv").write_text(table_of_labels(labels))
    with pytest.raises(CorpusError, match=r":6: .*label"):
        ENTRANCES[entrance](tmp_path / "t.csv")


@pytest.mark.parametrize("header", ["label,text", "class,message", "kind,words", None])
@pytest.mark.parametrize(("label", "text"), [("1", "2"), (None, "2"), ("1", None)])
def test_a_header_is_skipped_if_columns_are_numbered(tmp_path, header, label, text):
    rows = [f"{'ab'[i % 2]},text {i}" for i in range(12)]
    (tmp_path / "t.csv").write_text("\n".join([header, *rows] if header else rows))
    if header == "kind,words" or header is None:
        label, text = "1", "2"  # neither column can be known by its name
    corpus = open_corpus(tmp_path / "t.csv", label_column=label, text_column=text)
    assert [(entry.label, read(entry)) for entry in corpus] == [
        ("ab"[i % 2], f"text {i}") for i in range(12)
    ]


# Values that no column of labels has, in 40 rows, and a part of the error.
WRONG_LABELS = {
    "keys": ([f"k{i}" for i in range(40)], "all 40 labels"),
    "keys, one twice": (["k1", *(f"k{i}" for i in range(1, 40))], "39 of 40 labels"),
    "measured values": ([f"{i // 1.5 / 8 + 0.01:.3f}" for i in range(40)], "measured values"),
}


def table_of_labels(labels):
    return "length,text,label\n" + "".join(
        f"{len(label)},{TEXTS[i % 12].replace(',', '')},{label}\n" for i, label in enumerate(labels)
    )


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("kind", WRONG_LABELS)
def test_every_entrance_refuses_values_that_cannot_be_labels(tmp_path, kind, entrance):
    labels, message = WRONG_LABELS[kind]
    (tmp_path / "t.csv").write_text(table_of_labels(labels))
    with pytest.raises(CorpusError, match=f"{message}.*'label'|'label'.*{message}"):
        ENTRANCES[entrance](tmp_path / "t.csv")


@pytest.mark.parametrize(
    "labels", [["a", "b"] * 20, [str(i % 5) for i in range(40)], ["0.5", "1.0"] * 20]
)
def test_labels_that_repeat_are_read(tmp_path, labels):
    (tmp_path / "t.csv").write_text(table_of_labels(labels))
    assert [label for label, _ in corpus_rows(tmp_path / "t.csv")] == labels


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize(
    ("lines_above", "lines_below", "message"),
    [
        ("# made by a program\n", "", ":2: the names of the columns are on this line"),
        ("\nText report\n\n", "", ":4: the names of the columns are on this line"),
        ("", "text,label,length\n", ":42: the names of the columns again"),
    ],
)
def test_every_entrance_refuses_a_header_below_the_first_line(
    tmp_path, entrance, lines_above, lines_below, message
):
    rows = "".join(f"a text,{'ab'[i % 2]},6\n" for i in range(40))
    content = f"{lines_above}text,label,length\n{rows}{lines_below}"
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(CorpusError, match=message):
        ENTRANCES[entrance](tmp_path / "t.csv")


@pytest.mark.parametrize(
    "options", [{f"{name}_column": name} for name in ("label", "text", "date")]
)
def test_options_of_tables_are_refused_for_mail(tmp_path, options):
    for name in ("ham/1", "spam/2"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("Subject: x\n\ny")
    with pytest.raises(ConfigError, match="label_column"):
        open_corpus(tmp_path, **options)
    (tmp_path / "t.csv").write_bytes(csv_bytes())
    with pytest.raises(ConfigError, match="label_header"):
        open_corpus(tmp_path / "t.csv", label_header="X-Label")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv.gz", gzip.compress(csv_bytes())[:-20], "cannot be read"),
        ("a.csv.xz", lzma.compress(csv_bytes())[:-20], "cannot be read"),
        ("a.csv.bz2", bz2.compress(csv_bytes())[:-20], "cannot be read"),
        ("a.csv.zst", zstandard(csv_bytes())[:-4], "cannot be read"),
        ("a.csv.zip", zipped(csv_bytes())[:-20], "cannot be read"),
        ("a.csv.zip", zipped(csv_bytes())[:-200], "cannot be read"),
        ("a.xlsx", zipped(csv_bytes(), b"more"), "unpack it: it holds 2 files"),
        ("a.tar", tar(), "a tar archive"),
        ("a.tar.gz", gzip.compress(tar()), "a tar archive"),
        ("a.csv", random.Random(1).randbytes(3000), "control characters"),
        ("a.jsonl", random.Random(1).randbytes(3000), "control characters"),
        ("a.csv.gz", gzip.compress(b"\x7fELF\0\0\0\0" * 9), "characters; convert it to CSV"),
        ("box.gz", gzip.compress(MBOX_OF_THREE), "the mbox is compressed"),
        ("box.mbox", bz2.compress(MBOX_OF_THREE), "the mbox is compressed"),
        ("a.parquet", parquet()[:-9], "cannot be read"),
        ("a.parquet", b"PAR1", "cannot be read"),
        ("a.jsonl", b'{"label": "a", "text": "b"}\n{"label": \n', ":2: not JSON"),
        ("a.jsonl", b'{"label": "a", "text": "b"}\n[1]\n', ":2: expected one JSON object"),
        ("a.jsonl", b'{"label": "a", "text": "b", "label": "c"}\n', ":1: .*'label' occurs twice"),
        ("a.jsonl", b'{"label": "a", "text": "b"}\n' + b"[" * 100_000, ":2: not JSON"),
        ("a.jsonl", b'{"label": ["a"], "text": "b"}\n', ":1: .* is not a label"),
        ("a.jsonl", b'{"label": {"id": 1}, "text": "b"}\n', ":1: .* is not a label"),
        ("a.jsonl", b"[1]\n[2]\n", "no JSON object with a key"),
        ("a.jsonl", b"\n\n", "only blank lines"),
        ("a.jsonl", b"{}\n", "no JSON object with a key"),
        ("a.json", b'[{"label": "a", "text": "b"}]', "a JSON array; expected JSON Lines"),
        ("a.txt", b'[\n  {"label": "a"}\n]', "a JSON array; expected JSON Lines"),
        ("a.txt", b"__label__a b\nc\n", ":2: no label"),
        ("a.txt", b"__label__a __label__b c\n", ":1: 2 labels"),
        ("a.csv", b'label,text\nham,"two\nlines"\nspam\n', ":4: fewer columns"),
    ],
)
def test_damaged_tables_are_one_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=message) as error:
        corpus_rows(tmp_path / name)
    assert "\n" not in str(error.value)
    assert name in str(error.value)


def test_a_decompression_bomb_is_read_in_pieces(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"label,text\nham," + b"x" * 20_000_000))
    (entry,) = open_corpus(tmp_path / "a.csv.gz")
    assert len(entry.text) == 1 << 20


@pytest.mark.parametrize(
    ("content", "has_header", "names"),
    [
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n7.0,3.2,versicolor\n6.4,3.2,versicolor\n", False, ["1", "2", "3"]),
        ("length,width,kind\n4.9,3.0,setosa\n7.0,3.2,versicolor\n", True, ["length", "width", "kind"]),
        ("kind,2001,2002\nsetosa,1,2\nsetosa,3,4\nvirginica,3,4\nvirginica,3,4\n", True, ["kind", "2001", "2002"]),
    ],
)  # fmt: skip
def test_headers_are_detected(tmp_path, content, has_header, names):
    (tmp_path / "t.csv").write_text(content)
    table = open_table(tmp_path / "t.csv")
    assert (table.has_header, table.names) == (has_header, names)
    for choice in (True, False):
        assert open_table(tmp_path / "t.csv", has_header=choice).has_header == choice


@pytest.mark.parametrize("size", [1, 5, 8190, 8191, 8192])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_encodings_are_decoded_at_any_end_of_a_chunk(encoding, size):
    text = "a" * 8190 + "中" * 50 + "😀" * 50
    stream = io.BufferedReader(_ToUtf8(io.BytesIO(text.encode(encoding)), encoding), 64)
    parts = iter(lambda: stream.read(size), b"")
    assert b"".join(parts).decode() == text


def test_a_damaged_xz_is_one_line(tmp_path):
    path = tmp_path / "a.tsv.xz"
    path.write_bytes(b"\xfd7zXZ\0" + b"damaged" * 20)
    status, _, error = streamnb_command("replay", path)
    assert status != 0
    assert len(error.splitlines()) == 1
    assert "a.tsv.xz" in error


# Labels with blanks, delimiters, signs of other formats, and of types other than text; and the
# class of each.
LABELS = {
    "two words": ("not spam", "not spam"),
    "two blanks": ("bug  report", "bug  report"),
    "a slash": ("log in / account", "log in / account"),
    "a comma": ("billing, money", "billing, money"),
    "a line feed": ("a\nb", "a\nb"),
    "a hyphen": ("not-spam", "not-spam"),
    "a percent sign": ("50%", "50%"),
    "an escape": ("50%20", "50%20"),
    "no-break space": ("a\u00a0b", "a\u00a0b"),
    "blanks around it": (" x y ", "x y"),
    "a number": (3, "3"),
    "a whole float": (3.0, "3.0"),
    "a fraction": (0.5, "0.5"),
    "a truth value": (True, "True"),
    "a day": (datetime(2020, 1, 3), "2020-01-03"),
    "a time": (datetime(2020, 1, 3, 4, 5), "2020-01-03 04:05:00"),
}
WRITERS = {
    "t.csv": lambda frame, path: frame.to_csv(path, index=False),
    "t.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "t.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "t.parquet": lambda frame, path: frame.to_parquet(path),
}


OTHER_LABELS = {str: "other", int: 7, float: 7.5, bool: False, datetime: datetime(2021, 5, 6)}


def frame_of_label(label):
    """A table whose even rows have this label, and whose odd rows another one of its type."""
    import pandas as pd

    labels = (label, OTHER_LABELS[type(label)])
    rows = [{"length": i, "text": f"text {i}", "label": labels[i % 2]} for i in range(12)]
    return pd.DataFrame(rows)


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_the_same_classes_in_every_format(tmp_path, kind, name, entrance):
    label, expected = LABELS[kind]
    frame = frame_of_label(label)
    if name == "t.jsonl" and isinstance(label, datetime):
        frame["label"] = frame["label"].astype(str)
    WRITERS[name](frame, tmp_path / name)
    if entrance == "corpus":
        labels = [entry.label for entry in open_corpus(tmp_path / name)]
    else:
        data = {"kind": "table", "path": str(tmp_path / name), "label": "label"}
        labels = read_examples(build_experiment({"data": data | {"text": ["text"]}}).data).labels
    assert labels[::2] == [expected] * 6


def table_with_text(name, value):
    """A table of 12 rows, the fifth of which has this text."""
    import pandas as pd

    rows = [{"label": "ab"[i % 2], "text": f"text {i % 5} of {i}"} for i in range(12)]
    rows[4]["text"] = value
    frame = pd.DataFrame(rows)
    if name == "key.jsonl":
        del rows[4]["text"]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    buffer = io.BytesIO()
    WRITERS[name](frame, buffer)
    return buffer.getvalue()


# Files of texts, one of which is missing or empty; and whether that is an error.
TEXTS_THAT_LACK = {
    "JSON null": ("t.jsonl", None, True),
    "no key": ("key.jsonl", None, True),
    "Parquet null": ("t.parquet", None, True),
    "a list": ("t.jsonl", ["a"], True),
    "a number": ("t.jsonl", 3, True),
    "empty JSON text": ("t.jsonl", "", False),
    "empty Parquet text": ("t.parquet", "", False),
    "empty cell": ("t.csv", "", False),
    "empty cell between tabs": ("t.tsv", "", False),
    "blanks": ("t.csv", "  ", False),
}


def read_corpus(path, model):
    return [entry.problem or (entry.label, read(entry)) for entry in open_corpus(path)]


def read_unlabelled(path, model):
    data = open_unlabelled(str(path), "text", is_mail=False)
    return [str(item.text) if isinstance(item.text, CorpusError) else item for item in data.items]


# The functions that replay, fit and evaluate, and predict, read texts with.
TEXT_ENTRANCES = {"corpus": read_corpus, "predict": read_unlabelled}


@pytest.mark.parametrize("entrance", TEXT_ENTRANCES)
@pytest.mark.parametrize("kind", TEXTS_THAT_LACK)
def test_every_entrance_has_one_rule_for_texts_that_lack(tmp_path, kind, entrance):
    name, value, is_error = TEXTS_THAT_LACK[kind]
    path = tmp_path / name
    path.write_bytes(table_with_text(name, value))
    rows = TEXT_ENTRANCES[entrance](path, None)
    assert len(rows) == 12
    assert [isinstance(row, str) for row in rows] == [is_error and i == 4 for i in range(12)]
    if is_error:
        assert re.search(r":\d+: no text in the (key|column) 'text'", rows[4])


def json_objects(*texts, encoding="utf-8"):
    """Lines of JSON objects with these texts and alternating labels."""
    rows = [{"label": "ab"[i % 2], "text": text} for i, text in enumerate(texts)]
    lines = (json.dumps(row, ensure_ascii=encoding == "ascii") + "\n" for row in rows)
    return "".join(lines).encode(encoding)


# JSON Lines in a file with another suffix, and how many lines are errors.
JSON_LINES = {
    "a first object longer than the head": (json_objects("a" * 300_000, "at noon"), 0),
    "Windows-1252": (json_objects("Größe", "at noon", encoding="cp1252"), 0),
    "blanks before": (b"\n  " + json_objects("buy", "at noon"), 0),
    "a space in the object": (b'{ "text" : "buy", "label": "a"}\n' + json_objects("x", "y"), 0),
    "an escape in the first key": (b'{"a\\"b": 1, "text": "buy", "label": "b"}\n', 0),
    "a first object without its end": (b'{"label": "a", "text": "buy"\n' + json_objects("x"), 1),
    "a first object without a comma": (b'{"label": "a" "text": "b"}\n' + json_objects("x"), 1),
    "an empty first object": (b"{}\n" + json_objects("x", "y"), 1),
}


@pytest.mark.parametrize("entrance", TEXT_ENTRANCES)
@pytest.mark.parametrize("kind", JSON_LINES)
def test_json_lines_need_no_suffix_and_no_complete_first_object(tmp_path, kind, entrance):
    content, n_errors = JSON_LINES[kind]
    (tmp_path / "t").write_bytes(content)
    rows = TEXT_ENTRANCES[entrance](tmp_path / "t", None)
    assert len(rows) == len(content.split(b"\n")) - 1 - content.startswith(b"\n")
    assert [isinstance(row, str) for row in rows] == [i < n_errors for i in range(len(rows))]
    texts = [row.text if entrance == "predict" else row[1] for row in rows[n_errors:]]
    assert not any("{" in str(text) for text in texts)


# Texts by an encoding in which spreadsheets save them.
ENCODED_TEXTS = {
    "cp1251": ["доставка задержана на неделю", "прошу вернуть деньги за заказ", "спасибо, всё"],
    "koi8-r": ["доставка задержана на неделю", "прошу вернуть деньги за заказ", "спасибо"],
    "cp1253": ["η παράδοση καθυστέρησε", "θέλω τα χρήματά μου πίσω", "ευχαριστώ πολύ"],
    "cp932": ["配達が遅れています", "返金をお願いします", "ありがとうございました"],
    "gb18030": ["我的包裹还没有到，请退款", "这个商品的质量不好", "谢谢你们的服务"],
    "cp1256": ["لم يصل الطرد حتى الآن", "أريد استرداد أموالي", "شكرا جزيلا لكم"],
    "cp1255": ["החבילה לא הגיעה", "אני רוצה החזר כספי", "תודה רבה לכם"],
    "cp874": ["พัสดุยังไม่มาถึง", "ขอเงินคืนด้วยครับ", "ขอบคุณมากครับ"],
    "big5": ["我的包裹還沒有到", "這個商品的品質不好", "謝謝你們的服務"],
    "cp949": ["배송이 늦어지고 있습니다", "환불해 주세요 부탁합니다", "감사합니다 잘 받았습니다"],
    "cp1252": ["die Lieferung kam zu spät", "je n'ai pas reçu la commande", "größer als €10"],
    "utf-8": ["die Lieferung kam zu spät", "прошу вернуть деньги", "ありがとう"],
}


@pytest.mark.parametrize("entrance", TEXT_ENTRANCES)
@pytest.mark.parametrize("kind", ["commas", "semicolons", "JSON Lines", "lines"])
@pytest.mark.parametrize("encoding", ENCODED_TEXTS)
def test_tables_are_read_in_the_encodings_of_other_countries(tmp_path, encoding, kind, entrance):
    texts = ENCODED_TEXTS[encoding] * 4
    path = tmp_path / "tickets.csv"
    if kind == "JSON Lines":
        path.write_bytes(json_objects(*texts, encoding=encoding))
    elif kind == "lines":
        path = tmp_path / "tickets.txt"
        start = "{}\t" if entrance == "corpus" else ""
        lines = (start.format("ab"[i % 2]) + text + "\n" for i, text in enumerate(texts))
        path.write_bytes("".join(lines).encode(encoding))
    else:
        mark = "," if kind == "commas" else ";"
        rows = (f'{"ab"[i % 2]}{mark}"{text}"\r\n' for i, text in enumerate(texts))
        path.write_bytes((f"label{mark}text\r\n" + "".join(rows)).encode(encoding))
    if entrance == "predict":
        column = None if kind == "lines" else "text"
        items = open_unlabelled(str(path), column, is_mail=False).items
        assert [item.text for item in items] == texts
    else:
        assert [row[1] for row in read_corpus(path, None)] == texts
        notices = "".join(open_corpus(path).notices)
        assert ("not in UTF-8" in notices) == (encoding != "utf-8")


@pytest.mark.parametrize("entrance", TEXT_ENTRANCES)
def test_an_object_on_several_lines_is_refused(tmp_path, entrance):
    (tmp_path / "t").write_text(json.dumps({"label": "a", "text": "buy"}, indent=1))
    with pytest.raises(CorpusError, match=r"write each object on one line: jq -c \. FILE"):
        TEXT_ENTRANCES[entrance](tmp_path / "t", None)


@pytest.mark.parametrize("first", ["{} is the empty set", '{"free" pills}', "{name}, buy now"])
def test_a_text_can_begin_with_a_brace(tmp_path, first):
    (tmp_path / "t").write_text(f"{first}\nlunch at noon\n")
    data = open_unlabelled(str(tmp_path / "t"), None, is_mail=False)
    assert [item.text for item in data.items] == [first, "lunch at noon"]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["[Content_Types].xml", "xl/workbook.xml"], "a spreadsheet; save it as CSV"),
        (["mimetype", "content.xml"], "an office document; save it as CSV or text"),
        (["header.npy", "0.counts.npy"], "a model, not data"),
        (["a.csv", "b.csv"], "it holds 2 files"),
    ],
)
def test_an_archive_says_what_it_is(tmp_path, names, problem):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in names:
            archive.writestr(name, "label,text\n")
    with pytest.raises(CorpusError, match=problem):
        open_corpus(tmp_path / "a.zip")
    (tmp_path / "b.zip").write_bytes(b"PK\3\4damaged")
    with pytest.raises(CorpusError, match="cannot be read: damaged zip archive"):
        open_corpus(tmp_path / "b.zip")


# Files of other programs: names, contents, and parts of the error.
FOREIGN_FILES = {
    "iris.arff": (b"% UCI\n\n@RELATION iris\n@DATA\n1,a\n", "ARFF, .* save it as CSV"),
    "digits.svm": (b"1 1:0.5 7:1\n-1 qid:3 2:1e-3 # x\n", "LIBSVM lines; read them with"),
    "digits.txt.gz": (gzip.compress(b"+1 3:1\n" * 30), "LIBSVM lines"),
    "tickets.vw": (b"1 |words free offer\n-1 |words lunch\n" * 30, "Vowpal Wabbit .*<TAB>TEXT"),
    "houses.txt": (b"0 | price:.23 sqft:.25 2006\n1 2 'tag |a x:1 |b y\n", "Vowpal Wabbit"),
    "tickets.rda": (b"RDX3\nX\n" + bytes(range(8)) * 9, r"write\.csv\(.*row\.names=FALSE\)"),
    "tickets.RData.gz": (gzip.compress(b"RDX3\nX\n" + bytes(range(8)) * 9), r"write\.csv\("),
    "tickets.xls": (b"\xd0\xcf\x11\xe0" + bytes(99), "a spreadsheet; save it as CSV"),
    "tickets.dta": (b"<stata_dta>" + b"\0\1" * 99, r"to_csv\(index=False\)"),
}


NEAR_FOREIGN_LINES = {
    "bars": b"1 | free offer\n2 | lunch\n" * 9,
    "bars without blanks": b"1|free offer\n2|lunch\n" * 9,
    "times": b"1\t10:30 the train\n2\t11:00 the bus\n" * 9,
    "lines of text": b"spam,at 1 10:30\nham,1 |a\n" * 9,
}


@pytest.mark.parametrize("name", NEAR_FOREIGN_LINES)
def test_lines_that_resemble_foreign_ones_are_read(tmp_path, name):
    (tmp_path / "a.txt").write_bytes(NEAR_FOREIGN_LINES[name])
    assert len(list(open_corpus(tmp_path / "a.txt").entries())) == 18


@pytest.mark.parametrize("name", FOREIGN_FILES)
@pytest.mark.parametrize("entrance", [*ENTRANCES, "predict"])
def test_every_entrance_tells_how_to_convert_a_foreign_file(tmp_path, entrance, name):
    content, message = FOREIGN_FILES[name]
    (tmp_path / name).write_bytes(content)
    entrances = {**ENTRANCES, "predict": lambda path: read_unlabelled(path, None)}
    with pytest.raises(CorpusError, match=message):
        entrances[entrance](tmp_path / name)
