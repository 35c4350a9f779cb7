import bz2
import csv
import gzip
import json
import lzma
import mailbox
import time
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from commands import streamnb_command
from hypothesis import given
from hypothesis import strategies as st

from streamnb.corpus import Entry, open_corpus, order_entries, read
from streamnb.corpus.delimited import MAX_FIELD
from streamnb.corpus.entry import decompress, message_envelope
from streamnb.errors import ConfigError, CorpusError
from streamnb.mail.unwrap import convert_line_ends
from streamnb.mailbox.sources import messages


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def content(entry):
    contents = read(entry)
    return contents if isinstance(contents, bytes) else contents.encode()


def listed(path, **options):
    corpus = open_corpus(path, **options)
    return corpus.kind, [(e.name, e.label, content(e)) for e in corpus]


def test_trec_index(tmp_path):
    write(tmp_path, {"data/1": "one", "data/2 b": "two", "index": "spam data/1\nham data/2 b\n\n"})
    expected = ("trec", [("data/1", "spam", b"one"), ("data/2 b", "ham", b"two")])
    assert listed(tmp_path) == listed(tmp_path / "index") == expected


def test_trec_layout_with_a_folder_for_the_index(tmp_path):
    write(tmp_path, {"data/inmail.1": "x", "full/index": "spam ../data/inmail.1\r\n"})
    assert listed(tmp_path) == ("trec", [("../data/inmail.1", "spam", b"x")])


def test_trec_case_is_the_protocol(tmp_path):
    write(tmp_path, {"m": "x", "index": "spam m\nSpam m\nSPAM m\nHam m\n"})
    entries = list(open_corpus(tmp_path))
    assert [(e.label, e.classify, e.learn) for e in entries] == [
        ("spam", True, True), ("spam", True, False), ("spam", False, True), ("ham", True, False),
    ]  # fmt: skip


def test_a_folder_for_each_class_goes_by_file_name(tmp_path):
    write(
        tmp_path,
        {
            "ham/2.txt": "h2",
            "spam/1.txt": "s1",
            "easy-ham-1/3": "h3",
            "Summary.txt": "",
            ".x/1": "",
        },
    )
    assert listed(tmp_path) == (
        "folders",
        [
            ("spam/1.txt", "spam", b"s1"),
            ("ham/2.txt", "ham", b"h2"),
            ("easy-ham-1/3", "ham", b"h3"),
        ],
    )


LINE_ENDS = (b"\n", b"\r\n", b"\r", b"\n\r")


def lines(data):
    """Return data of any line ends with those of Unix."""
    return convert_line_ends(data).strip()


MESSAGES = (b"A: 1\n\nx", b"A: 2\n\n>From me\nFrom the heart\n", b"A: 3\n\nlast")


@pytest.mark.parametrize("end", LINE_ENDS)
def test_mbox(tmp_path, end):
    box = b"".join(b"From me@x Mon Jan  5 12:00:00 2026\n" + m + b"\n\n" for m in MESSAGES)
    write(tmp_path, {"spam.mbox": box.replace(b"\n", end)})
    for path in (tmp_path, tmp_path / "spam.mbox"):
        kind, contents = listed(path)
        assert kind == "mbox"
        assert [(name, label) for name, label, _ in contents] == [
            (f"spam.mbox:{n}", "spam") for n in (1, 2, 3)
        ]
        assert [lines(data) for _, _, data in contents] == [
            m.replace(b">From", b"From").strip() for m in MESSAGES
        ]


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize(
    "line",
    [
        b"me@x Mon Jan  5 12:00:00 2026", b"me@x Mon Jan  5 12:00:00 +0100 2026",
        b"me@x Mon Jan  5 12:00:00 CET 2026", b'"a b"@c Mon Jan 5 9:00 2026',
        b'"a \\"b c\\""@d Mon Jan  5 12:00:00 2026', b"me@x Mon Jan  5 12:00:00 97",
        b"me@x Mon, 5 Jan 2026 12:00:00 +0100 (CET)", b"me@x Mon, 05 Jan 26 12:00 GMT",
        b"a!b Mon Jan  5 12:00 2026 remote from c",
    ],
)  # fmt: skip
def test_an_mbox_may_have_no_blank_lines_between_messages(tmp_path, end, line):
    line = b"From " + line + b"\n"
    body = b"From here on in 2024 we\nmeet\nFrom Mon on:\n"
    bodies = (b"A: 1\n\n" + body, b"A: 2\n\n" + line + b"is how one begins\n", b"A: 3\n\nlast\n")
    box = b"".join(line + body for body in bodies)
    write(tmp_path, {"spam.mbox": box.replace(b"\n", end)})
    assert [data[:4] for _, _, data in listed(tmp_path)[1]] == [b"A: 1", b"A: 2", b"A: 3"]


DATED = b"From me@x Mon Jan  5 12:00:00 2026\n"


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize(
    "line",
    [
        b"From \n", b"From me\n", b"From me@x\n", DATED, b"From - Mon Jan 05 12:00:00 2026\n",
        b"From MAILER-DAEMON Mon Jan  5 12:00:00 2026 +0100\n", b"From me@x 2026-01-05\n",
        b"From 17@xxx Thu Jan 01 00:00:00 +0000 2026\n", b"From A. Me lun. 5 janv. 2026 12:00:00\n",
    ],
)  # fmt: skip
def test_a_separator_is_followed_by_a_header_field(tmp_path, end, line):
    body = (
        b"Subject: %d\n\nx\n\nFrom here on in 2024 we meet\nat noon.\n\nFrom 12:30 on, 2026\n\n"
        b"From time to time\n\nFrom the tests in 2026:\nLatency: 3 ms\n\nFrom 12:30 on\nNote: x\n"
    )
    messages = [body % n for n in range(3)]
    write(tmp_path, {"ham.mbox": b"\n".join(line + text for text in messages).replace(b"\n", end)})
    contents = [data for _, _, data in listed(tmp_path / "ham.mbox")[1]]
    assert [lines(data) for data in contents] == [text.strip() for text in messages]


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("digits", [40, 64])
def test_patches_are_messages_only_in_a_file_of_patches(tmp_path, end, digits):
    """The separator of `git format-patch` is also the first line of an attached patch."""
    line = b"From " + digits * b"a" + b" Mon Sep 17 00:00:00 2001\n"
    patch = line + b"From: a@x\nSubject: [PATCH] x\n\nx\n---\n-- \n2.40.1\n\n"
    mails = [b"Subject: %d\n\nthe patch:\n\n" % n + patch for n in range(2)]
    write(tmp_path, {
        "patches.mbox": (3 * patch).replace(b"\n", end),
        "ham.mbox": b"".join(DATED + mail for mail in mails).replace(b"\n", end),
    })  # fmt: skip
    assert len(listed(tmp_path / "patches.mbox")[1]) == 3
    contents = [data for _, _, data in listed(tmp_path / "ham.mbox")[1]]
    assert [lines(data) for data in contents] == [mail.strip() for mail in mails]


@pytest.mark.parametrize("after", [b"http://example.org/page\n", b"10:00 to 11:00\n"])
def test_a_bare_separator_needs_the_name_of_a_field(tmp_path, after):
    text = b"Subject: %d\n\nIn the morning\nFrom \n" + after
    write(tmp_path, {"ham.mbox": DATED + text % 1 + b"\n" + DATED + text % 2})
    assert len(listed(tmp_path / "ham.mbox")[1]) == 2


@pytest.mark.parametrize("end", LINE_ENDS)
@pytest.mark.parametrize("line", [b"From \n", DATED])
def test_a_separator_may_follow_a_line_that_is_not_blank(tmp_path, end, line):
    messages = [b"Subject: %d\n\nx\nFrom me\nTo: you\nFrom \nhere\n" % n for n in range(3)]
    write(tmp_path, {"ham.mbox": b"".join(line + text for text in messages).replace(b"\n", end)})
    contents = [data for _, _, data in listed(tmp_path / "ham.mbox")[1]]
    assert [lines(data) for data in contents] == [text.strip() for text in messages]


@pytest.mark.parametrize(
    "first_line", [b"X-A : 1\n", b">From me\nA: 1\n", b"A:\n", b"\nno header\n"]
)
def test_messages_may_begin_oddly(tmp_path, first_line):
    write(tmp_path, {"ham.mbox": 2 * (DATED + first_line + b"\nx\n\n")})
    assert len(listed(tmp_path / "ham.mbox")[1]) == 2


def test_separators_across_chunks_are_found(tmp_path):
    """A separator and the field after it can be in two chunks of the file."""
    message = DATED + b"X-" + b"y" * 180 + b": 1\n\nx\n\n"
    size = 1 << 20
    for offset in (0, 1, 7, len(DATED) - 1, len(DATED), len(DATED) + 100, len(message)):
        first = DATED + b"A: 1\n\n"
        padding = b"p" * (size - len(first) - 2 - offset) + b"\n\n"
        write(tmp_path, {"ham.mbox": first + padding + message + message})
        assert len(listed(tmp_path / "ham.mbox")[1]) == 3


@given(st.lists(st.text("aF\n>: rom", max_size=60), min_size=1, max_size=5))
def test_mbox_agrees_with_what_the_library_wrote(tmp_path_factory, bodies):
    path = tmp_path_factory.mktemp("box") / "ham.mbox"
    box = mailbox.mbox(path)
    for number, body in enumerate(bodies):
        message = mailbox.mboxMessage()
        message["X-Number"] = str(number)
        message.set_payload(body)
        message.set_from("me@example.org", True)
        box.add(message)
    box.close()
    corpus = list(open_corpus(path))
    assert len(corpus) == len(bodies)
    for number, entry in enumerate(corpus):
        assert f"X-Number: {number}\n".encode() in read(entry)


def test_a_line_that_is_nearly_a_separator_takes_linear_time(tmp_path):
    box = b"From a@b Thu Jan  1 00:00:00 2026\nFrom: a@b\n\nhello\n\nFrom " + b"11:11 " * 100_000
    write(tmp_path, {"ham.mbox": box})
    began = time.process_time()
    assert len(list(open_corpus(tmp_path / "ham.mbox"))) == 1
    assert time.process_time() - began < 1


def test_a_link_to_itself_stops_nothing_else(tmp_path):
    write(tmp_path, {"ham/1": "x", "spam/2": "y"})
    (tmp_path / "ham" / "loop").symlink_to("loop")
    names = [entry.name for entry in open_corpus(tmp_path)]
    assert names == ["ham/1", "spam/2", "ham/loop"]
    with pytest.raises(CorpusError, match="ham/loop: cannot be read: "):
        read(list(open_corpus(tmp_path))[2])


def test_addresses_nested_without_end_are_none(tmp_path):
    write(tmp_path, {"m": b"Date: Thu, 1 Jan 2026 00:00:00 +0000\nTo: " + b"(" * 5000 + b"\n\nx"})
    assert message_envelope(Entry("m", "spam", str(tmp_path / "m"))) == (1767225600.0, [])


def test_a_long_mbox_is_cut_at_the_right_places(tmp_path):
    """Separators that are divided between two chunks of the file."""
    head = b"From me Mon Jan  5 12:00:00 2026\nN: %d\n\n"
    messages = [head % n + b"x" * (99_991 * n % 300_000) + b"\n\n" for n in range(40)]
    write(tmp_path, {"ham.mbox": b"".join(messages)})
    contents = [read(entry) for entry in open_corpus(tmp_path / "ham.mbox")]
    assert [data.split(b"\n")[0] for data in contents] == [b"N: %d" % n for n in range(40)]
    assert sum(map(len, contents)) == sum(map(len, messages)) - 40 * 33


def test_labels_from_a_header_are_not_read_as_text(tmp_path):
    box = b"From a Mon Jan 5 12:00:00 2026\nX-Folder: Big List\n\nx\n"
    write(tmp_path, {"all.mbox": box, "md/cur/1": "X-Folder: spam\n\ny", "md/new/.keep": ""})
    corpus = open_corpus(tmp_path / "all.mbox", label_header="X-Folder")
    assert [entry.label for entry in corpus] == ["big list"]
    assert corpus.drop_headers == ("X-Folder",)
    assert [e.label for e in open_corpus(tmp_path / "md", label_header="x-folder")] == ["spam"]
    unlabelled = open_corpus(tmp_path / "all.mbox", label_header="X-Class")
    assert [entry.label for entry in unlabelled] == [""]


def test_maildir_and_folders_of_maildirs(tmp_path):
    write(
        tmp_path,
        {"ham/cur/2:2,S": "h", "ham/new/1": "n", ".Junk/cur/3:2,": "j", ".Junk/new/x": "k"},
    )
    kind, contents = listed(tmp_path)
    assert kind == "folders"
    assert sorted(contents) == [
        (".Junk/cur/3:2,", "spam", b"j"), (".Junk/new/x", "spam", b"k"),
        ("ham/cur/2:2,S", "ham", b"h"), ("ham/new/1", "ham", b"n"),
    ]  # fmt: skip
    assert listed(tmp_path / "ham") == (
        "maildir",
        [("new/1", "ham", b"n"), ("cur/2:2,S", "ham", b"h")],
    )


def test_tabs(tmp_path):
    write(
        tmp_path, {"texts": "ham\thello there\r\n\nspam\tbuy\tnow\nham\tna\xefve".encode("latin-1")}
    )
    assert listed(tmp_path / "texts") == (
        "tabs",
        [("texts:1", "ham", b"hello there"), ("texts:3", "spam", b"buy\tnow"),
         ("texts:4", "ham", "naïve".encode())],
    )  # fmt: skip


def test_the_training_part_of_a_split_comes_first(tmp_path):
    write(tmp_path, {"test.txt": "a\t2\n", "train.txt": "a\t1\n"})
    assert [name for name, _, _ in listed(tmp_path)[1]] == ["train.txt:1", "test.txt:1"]


def test_csv(tmp_path):
    table = '\ufeffid,Category,Message\n1,ham,"two\nlines, quoted"\n2,not spam,x\n'
    write(tmp_path, {"t.csv": table, "u.csv": "a,b\n1,x\n"})
    expected = [("t.csv:2", "ham", b"two\nlines, quoted"), ("t.csv:4", "not spam", b"x")]
    assert listed(tmp_path / "t.csv") == ("csv", expected)
    assert listed(tmp_path / "u.csv", label_column="a", text_column="b")[1] == [
        ("u.csv:2", "1", b"x")
    ]
    with pytest.raises(CorpusError, match=r"corpus\.label_column"):
        open_corpus(tmp_path / "u.csv")
    with pytest.raises(CorpusError, match="no column 'c'; there are a, b"):
        open_corpus(tmp_path / "u.csv", label_column="c", text_column="b")


@pytest.mark.parametrize(
    ("files", "target", "message"),
    [
        ({}, "missing", "no such file or folder"),
        ({"a/b/c/d": "x"}, "a", "not a corpus"),
        ({"empty": ""}, "empty", "the file is empty"),
        ({"x.bin": b"\0\1\2\3"}, "x.bin", "not text"),
        ({"x.txt": "some prose, no tabs\nat all"}, "x.txt", "not a corpus"),
        ({"index": "spam gone\nham m\n", "m": "x"}, "", "gone: cannot be read: no such file"),
        ({"index": "spam m\nspam\n", "m": "x"}, "", "index:2: expected 'label path', found 'spam'"),
        ({"index": ""}, "", "the index is empty"),
        ({"index": "ham d\n", "d/x": "x"}, "", "d: cannot be read: not a regular file"),
        (
            {"t": "ham\tx\nham\ty\nno tab here\n" * 200},
            "t",
            "t:3: fewer columns than the first line has",
        ),
        ({"t.csv": "label,text\nham\n"}, "t.csv", "t.csv:2: fewer columns"),
        ({"t.csv": "label,text\nham,a\nham,b, c\n"}, "t.csv", "t.csv:3: more columns"),
        ({"t.csv": 'label,text\nham,a\nham,"x\nspam,y\n'}, "t.csv", "t.csv:3: not CSV"),
    ],
)
def test_errors_of_a_corpus_are_one_line(tmp_path, files, target, message):
    write(tmp_path, files)

    def read_all():
        for entry in open_corpus(tmp_path / target, "tabs" if target == "t" else None):
            read(entry)

    with pytest.raises(CorpusError, match=message) as caught:
        read_all()
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_utf_16_without_mark_is_reported(tmp_path, charset, name):
    (tmp_path / name).write_bytes("label\ttext\nham\tlunch\n".encode(charset))
    with pytest.raises(CorpusError, match="perhaps in UTF-16"):
        open_corpus(tmp_path / name)


def test_zeros_are_not_taken_for_utf_16(tmp_path):
    (tmp_path / "box").write_bytes(
        b"From a@b Mon Jan  1 00:00:00 2024\nSubject: q\n\n" + b"\0" * 99
    )
    assert open_corpus(tmp_path / "box").kind == "mbox"
    (tmp_path / "zeros").write_bytes(b"\0" * 6)
    with pytest.raises(CorpusError, match="not text"):
        open_corpus(tmp_path / "zeros")


def test_folders_that_are_not_read_are_reported(tmp_path):
    write(tmp_path, {"ham/1": "h", "spam/2": "s", "spam/2023/3": "s", "junk/2024/4": "s"})
    corpus = open_corpus(tmp_path)
    assert [entry.name for entry in corpus] == ["ham/1", "spam/2"]
    assert "2 files" in corpus.description
    assert corpus.description.endswith("NOT read: 2 folders within them")


def test_a_kind_that_does_not_fit_is_refused(tmp_path):
    write(tmp_path, {"ham/1": "x"})
    with pytest.raises(CorpusError, match="not a corpus of kind maildir"):
        open_corpus(tmp_path, "maildir")
    with pytest.raises(ConfigError, match=r"corpus\.kind: 'zip'"):
        open_corpus(tmp_path, "zip")


def test_orders(tmp_path):
    dates = {"c": "Tue, 6 Jan 2026 00:00 +0000", "a": "junk", "b": "Mon, 5 Jan 2026 00:00 +0000"}
    write(tmp_path, {f"ham/{name}": f"Date: {date}\n\n" for name, date in dates.items()})
    write(tmp_path, {"index": "ham ham/c\nham ham/a\nham ham/b\n"})
    corpus = open_corpus(tmp_path)

    def names(*arguments):
        return "".join(entry.name[-1] for entry in order_entries(corpus, *arguments))

    assert names() == "cab"
    assert names("indexed", 2) == "ca"
    assert names("name") == "abc"
    assert names("date") == "bca"
    assert names("shuffled:3") == names("shuffled:3")
    assert len({names(f"shuffled:{seed}") for seed in range(20)}) > 3
    for bad in ("random", "name:3", "shuffled:x", ""):
        with pytest.raises(ConfigError, match="order"):
            names(bad)


DATES = ["2026-01-02", "20260101", "2026-01-01T23:30:00-01:00", "1767225599", None]
DATED_TABLES = {
    "t.csv": lambda rows: pd.DataFrame(rows).to_csv(index=False).encode(),
    "t.tsv": lambda rows: pd.DataFrame(rows).to_csv(index=False, sep="\t").encode(),
    "t.jsonl": lambda rows: pd.DataFrame(rows).to_json(orient="records", lines=True).encode(),
    "t.parquet": lambda rows: pd.DataFrame(rows).to_parquet(),
}


@pytest.mark.parametrize("name", DATED_TABLES)
def test_a_column_of_dates_orders_a_table(tmp_path, name):
    pytest.importorskip("pyarrow")
    rows = [{"label": "xy"[i % 2], "text": f"t{i}", "sent": date} for i, date in enumerate(DATES)]
    (tmp_path / name).write_bytes(DATED_TABLES[name](rows))
    with pytest.raises(ConfigError, match=r"order: no text has a date.*corpus\.date_column"):
        order_entries(open_corpus(tmp_path / name), "date")
    corpus = open_corpus(tmp_path / name, date_column="sent")
    entries = list(order_entries(corpus, "date"))
    assert [entry.text for entry in entries] == ["t3", "t1", "t0", "t2", "t4"]
    midnight = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    offsets = [-1, 0, 86_400, 88_200]
    assert [entry.date for entry in entries] == [*(midnight + s for s in offsets), None]


@pytest.mark.parametrize(
    ("cell", "day"), [("1999", "1999-01-01"), ("2026", "2026-01-01"), ("2026-03", "2026-03-01")]
)
def test_a_year_or_a_month_is_its_first_day(tmp_path, cell, day):
    write(tmp_path, {"t.csv": f"label,text,sent\nx,a,{cell}\ny,b,{day}\n"})
    dates = [entry.date for entry in open_corpus(tmp_path / "t.csv", date_column="sent")]
    assert dates == [datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()] * 2


@pytest.mark.parametrize(
    "cell",
    [
        "yesterday", "2026-13", "0000", "1767225600000", "2026-13-01", "01/02/2026", "1_000", "inf",
        "２０２６０１０１０", "1e999",
    ],
)  # fmt: skip
def test_a_cell_that_is_not_a_date_is_refused(tmp_path, cell):
    write(tmp_path, {"t.csv": f"label,text,sent\nx,a,2026-01-02\ny,b,{cell}\n"})
    problems = [entry.problem for entry in open_corpus(tmp_path / "t.csv", date_column="sent")]
    assert problems[0] == ""
    assert f"t.csv:3: {cell!r} in the column 'sent' is not a date; write 2026" in problems[1]
    with pytest.raises(CorpusError, match="no column 'date'; there are label, text, sent"):
        open_corpus(tmp_path / "t.csv", date_column="date")


@pytest.mark.parametrize("order", ["indexed", "name", "shuffled:2"])
def test_a_corpus_is_split_into_parts_that_share_no_message(order):
    entries = [Entry(f"{n:02d}", "ham", "") for n in range(20)]
    whole = list(order_entries(entries, order))
    for cut in (0, 1, 7, 20, 30):
        first = list(order_entries(entries, order, limit=cut))
        second = list(order_entries(entries, order, skip=cut))
        assert first + second == whole
        assert list(order_entries(entries, order, 5, cut)) == whole[cut : cut + 5]


def test_only_the_beginning_of_a_huge_message_is_read(tmp_path):
    write(tmp_path, {"ham/1": b"A: 1\n\n" + b"x" * 9_000_000})
    (entry,) = open_corpus(tmp_path)
    assert len(read(entry, 1 << 22)) == 1 << 22


def test_the_sample_is_what_its_generator_writes(tmp_path, repository):
    import runpy

    generator = runpy.run_path(str(repository / "corpora" / "make_sample.py"))
    generator["main"](tmp_path)
    sample = repository / "corpora" / "sample"
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) == 301
    assert files == sorted(p.relative_to(sample) for p in sample.rglob("*") if p.is_file())
    for path in files:
        assert (tmp_path / path).read_bytes() == (sample / path).read_bytes()


def test_a_pipe_without_a_writer_does_not_block_the_replay(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe")
    write(tmp_path, {"index": "ham pipe\n"})
    (entry,) = open_corpus(tmp_path)
    with pytest.raises(CorpusError, match="not a regular file"):
        read(entry)


def test_unreadable_mail_in_a_class_folder_is_retried(tmp_path):
    write(tmp_path, {"ham/1": "x"})
    (tmp_path / "ham" / "2").symlink_to("nowhere")
    assert [entry.name for entry in open_corpus(tmp_path)] == ["ham/1", "ham/2"]


def test_long_lines_are_cut_and_do_not_become_messages(tmp_path):
    write(tmp_path, {"t": "spam\t" + "word\tfoo " * 300_000 + "\nham\tx\n"})
    entries = list(open_corpus(tmp_path / "t", "tabs"))
    assert [(entry.name, entry.label) for entry in entries] == [("t:1", "spam"), ("t:2", "ham")]
    assert len(entries[0].text) == MAX_FIELD


def test_byte_order_marks_and_open_quotes(tmp_path):
    write(
        tmp_path,
        {"t": "\ufeffham\tx\nspam\ty\n", "t.csv": 'label,text\nham,"x\n' + "spam,y\n" * 2000},
    )
    assert [entry.label for entry in open_corpus(tmp_path / "t")] == ["ham", "spam"]
    with pytest.raises(CorpusError, match="not CSV"):
        list(open_corpus(tmp_path / "t.csv"))


def test_classes_keep_their_case(tmp_path):
    write(tmp_path, {"Sport/1": "x", "sport/2": "y", "Ham/3": "z"})
    assert [entry.label for entry in open_corpus(tmp_path)] == ["Sport", "sport", "ham"]


def test_dates_do_not_depend_on_where_the_machine_is(tmp_path, monkeypatch):
    (tmp_path / "m").write_bytes(b"Date: Thu, 01 Aug 2002 12:00:00 -0000\n\nx")
    contents = []
    for zone in ("UTC", "Asia/Tokyo"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        contents.append(message_envelope(Entry("m", "ham", str(tmp_path / "m")))[0])
    monkeypatch.undo()
    time.tzset()
    assert contents[0] == contents[1] == 1028203200.0


def test_all_recipients_are_read(tmp_path):
    raw = b"To: =?utf-8?q?=C3=84nne?= <ann@a.org>, bob@b.org\nCc: c@c.org\nTo: d@d.org\n\nx"
    (tmp_path / "m").write_bytes(raw)
    _, recipients = message_envelope(Entry("m", "ham", str(tmp_path / "m")))
    assert sorted(recipients) == ["ann@a.org", "bob@b.org", "c@c.org", "d@d.org"]
    assert message_envelope(Entry("m", "ham", str(tmp_path / "none"))) == (None, [])


def test_every_mbox_of_a_folder_is_read(tmp_path):
    box = "From a Thu Jan  1 00:00:00 2026\nSubject: {}\n\nhi\n"
    write(tmp_path, {f"{n:03}-spam": box.format(n) for n in range(150)})
    assert len(list(open_corpus(tmp_path))) == 150


def test_reading_csv_leaves_the_limit_of_the_process_alone(tmp_path):
    before = csv.field_size_limit()
    long = "x" * (before + 1)
    write(tmp_path, {"a.csv": f"label,text\nham,{long}\nspam,b\n"})
    entries = iter(open_corpus(tmp_path / "a.csv"))
    assert next(entries).text == long
    assert csv.field_size_limit() == before
    assert [entry.text for entry in entries] == ["b"]


def test_text_that_cannot_be_a_file_name_is_not_an_index(tmp_path):
    for line in (b"am " + b"x" * 5000, b"am a\0b", b"am \xff" + b"y" * 300):
        path = tmp_path / "mail"
        path.write_bytes(line + b"\nham mail\n")
        with pytest.raises(CorpusError, match="mail"):
            list(map(read, open_corpus(path)))


@pytest.mark.parametrize(
    "text",
    [
        'label\ttext\nspam\tbuy now\nham\tlunch "at" noon\n',
        '\ufeffText\tLabel\nbuy now\tspam\nlunch "at" noon\tham\n',
        'n\tclass\tbody\n1\tspam\tbuy now\n2\tham\tlunch "at" noon\n',
        '\n\ntext\tn\tlabel\nbuy now\t1\tspam\nlunch "at" noon\t2\tham\n',
    ],
)
def test_a_line_with_the_names_of_columns_is_not_a_message(tmp_path, text):
    write(tmp_path, {"a.tsv": text.encode(), "b/a.tsv": text.encode()})
    expected = [("spam", "buy now"), ("ham", 'lunch "at" noon')]
    for path in ("a.tsv", "b"):
        assert [(e.label, e.text) for e in open_corpus(tmp_path / path)] == expected
    write(tmp_path, {"a.tsv": (text + "cut\n").encode()})
    with pytest.raises(CorpusError, match=r"a.tsv:\d: fewer columns"):
        [read(entry) for entry in open_corpus(tmp_path / "a.tsv")]


def test_texts_between_tabs_are_read_whole(tmp_path):
    write(tmp_path, {"a.tsv": "label\ttext\nspam\tbuy\tnow cheap\n"})
    assert [entry.text for entry in open_corpus(tmp_path / "a.tsv")] == ["buy\tnow cheap"]
    long = "words " * 20  # longer than a label may be
    write(tmp_path, {"b.tsv": f"Text\tLabel\n{long}\tspam\n{'x' * 2_000_000}\tham\n"})
    contents = list(open_corpus(tmp_path / "b.tsv"))
    assert [entry.label for entry in contents] == ["spam", "ham"]
    assert [len(entry.text) for entry in contents] == [len(long), MAX_FIELD]
    write(tmp_path, {"b.tsv": "Text\tLabel\nbuy\tnow\tspam\n"})
    with pytest.raises(CorpusError, match=r"b.tsv:2: more columns"):
        [read(entry) for entry in open_corpus(tmp_path / "b.tsv")]
    write(tmp_path, {"c.tsv": "label\ttext\tlabel\nspam\tbuy\tx\n"})
    with pytest.raises(CorpusError, match=r"c.tsv:1: two columns are called 'label'"):
        list(open_corpus(tmp_path / "c.tsv"))
    write(tmp_path, {"d.tsv": f"ham\tx{'é' * 600_000}\nspam\ty\n"})
    assert [set(entry.text) for entry in open_corpus(tmp_path / "d.tsv")] == [{"x", "é"}, {"y"}]


def test_lines_of_csv_may_end_with_a_carriage_return(tmp_path):
    write(tmp_path, {"a.csv": b"label,text\rspam,buy\r"})
    assert listed(tmp_path / "a.csv")[1] == [("a.csv:2", "spam", b"buy")]


@pytest.mark.parametrize("text", ["id\rx,foo\n", "id\rx;foo\n"])
def test_ambiguous_columns_are_refused(tmp_path, text):
    write(tmp_path, {"a.csv": text.encode()})
    with pytest.raises(CorpusError, match="cannot tell which columns"):
        open_corpus(tmp_path / "a.csv")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_may_be_separated_otherwise(tmp_path, delimiter):
    lines = [["label", "text"], ["spam", '"buy; now, or"'], ["ham", "lunch"]]
    write(tmp_path, {"a.csv": "\n".join(map(delimiter.join, lines)).encode()})
    corpus = open_corpus(tmp_path / "a.csv")
    assert [(e.label, e.text) for e in corpus] == [("spam", "buy; now, or"), ("ham", "lunch")]
    swapped = open_corpus(tmp_path / "a.csv", label_column="text", text_column="label")
    assert [e.text for e in swapped] == ["spam", "ham"]
    with pytest.raises(CorpusError, match="no column 'x'"):
        open_corpus(tmp_path / "a.csv", label_column="x")


def test_two_columns_of_one_name_are_refused(tmp_path):
    write(tmp_path, {"a.csv": b"label,text,label\nspam,buy,ham\n"})
    with pytest.raises(CorpusError, match="two columns are called 'label'"):
        open_corpus(tmp_path / "a.csv")


def test_the_beginning_of_a_long_field_of_csv_is_read(tmp_path):
    long = "word " * 400_000
    for text in (long, f'"{long}, and a comma"', '"' + "line\n" * 400_000 + '"'):
        write(tmp_path, {"a.csv": f"label,text\nspam,{text}\nham,lunch\n".encode()})
        contents = list(open_corpus(tmp_path / "a.csv"))
        assert [entry.label for entry in contents] == ["spam", "ham"]
        assert len(contents[0].text) == MAX_FIELD


BOX = "From a Thu Jan  1 00:00:00 2026\nSubject: x\n\nhi\n"


def test_folders_that_mean_one_class_are_one(tmp_path):
    write(tmp_path, {"easy ham/1": "x", "easy-ham/2": "y", "spam 2/3": "z", "spam-1/4": "w"})
    assert sorted(e.label for e in open_corpus(tmp_path)) == ["ham", "ham", "spam", "spam"]


@pytest.mark.parametrize(
    "files",
    [{"c/a b/1": "x", "c/ a b/2": "y", "c/d/3": "z"}, {"c/a b.mbox": BOX, "c/ a b.mbox": BOX}],
)
def test_classes_that_would_have_one_name_are_refused(tmp_path, files):
    write(tmp_path, files)
    with pytest.raises(CorpusError, match="' a b' and 'a b' would both be the class 'a b'"):
        list(open_corpus(tmp_path / next(iter(files)).split("/")[0]))


@pytest.mark.parametrize("zeros", [1, 512, 5000])
def test_zeros_that_a_crash_left_in_an_mbox_hide_no_message(tmp_path, zeros):
    """After a crash, some file systems have zeros in place of the last bytes that were written."""
    item = b"From me Mon Jan  5 12:00:00 2026\nSubject: %d\n\nx\n\n"
    parts = [item % n for n in range(4)]
    for place in range(5):
        box = parts.copy()
        box.insert(place, bytes(zeros))
        write(tmp_path, {"ham.mbox": b"".join(box)})
        contents = [item.content for item in messages(str(tmp_path / "ham.mbox"))]
        assert [text.split(b"\n")[0] for text in contents] == [b"Subject: %d" % n for n in range(4)]


@pytest.mark.parametrize(
    "before", [b"\xef\xbb\xbf", b"\n", b"\r\n\r\n", b"\xef\xbb\xbf\n", bytes(5000)]
)
def test_an_mbox_may_begin_with_nothing(tmp_path, before):
    item = b"From me Mon Jan  5 12:00:00 2026\nSubject: %d\n\nx\n\n"
    write(tmp_path, {"ham.mbox": before + b"".join(item % n for n in range(3))})
    assert len(list(open_corpus(tmp_path / "ham.mbox"))) == 3
    contents = [item.content for item in messages(str(tmp_path / "ham.mbox"))]
    assert [text.split(b"\n")[0] for text in contents] == [b"Subject: %d" % n for n in range(3)]
    for text in (b"From me to you\n\nhello", b"From 12:30 on we meet\n\nFrom 2024 on"):
        write(tmp_path, {"text": before + text})
        (contents,) = messages(str(tmp_path / "text"))
        assert contents.content == before + text


def test_an_index_may_begin_with_a_byte_order_mark(tmp_path):
    write(tmp_path, {"index": b"\xef\xbb\xbfspam m1\nham m2\n", "m1": "x", "m2": "y"})
    assert [entry.label for entry in open_corpus(tmp_path)] == ["spam", "ham"]
    (tmp_path / "index").rename(tmp_path / "list")
    assert [entry.label for entry in open_corpus(tmp_path / "list")] == ["spam", "ham"]


@pytest.mark.parametrize(
    ("name", "text", "bad"),
    [
        ("a.csv", "label,text\nspam,a\nham,b,c\nham\nspam,d\nham,e\n", [3, 4]),
        ("a.tsv", "spam\ta\nham\tb\nham world\nspam\td\nham\te\n" * 9, range(3, 46, 5)),
        ("index", "spam m\nham m\nbroken\nspam m\nham m\n", [3]),
    ],
)
def test_lines_that_are_not_messages_can_be_skipped(tmp_path, name, text, bad):
    write(tmp_path, {name: text, "m": "Subject: x\n\ny"})
    status, _, error = streamnb_command("replay", tmp_path / name, "--quiet")
    assert (status, f"{name}:{bad[0]}: " in error, "--on-error skip" in error) == (3, True, True)
    options = ("--on-error", "skip", "--json", "--quiet")
    status, out, error = streamnb_command("replay", tmp_path / name, *options)
    assert status == 0, error
    assert json.loads(out)["messages"] == 4 * (9 if name == "a.tsv" else 1) - (name == "a.csv")
    assert all(f"{name}:{number}: " in error for number in list(bad)[:3])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
@given(
    parts=st.lists(st.binary(max_size=50).map(lambda part: part * 300)), n=st.integers(1, 99_999)
)
def test_appended_streams_are_read_as_one(compress, parts, n):
    text = b"".join(parts)
    assert decompress(b"".join(map(compress, parts)), n, "a") == text[:n]
