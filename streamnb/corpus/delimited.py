"""Corpora of labelled texts in tables: CSV, tab-separated, JSON Lines, Parquet, fastText."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from streamnb.corpus.entry import Corpus, Entry
from streamnb.corpus.tabular import (
    DELIMITERS,
    HEAD_ROWS,
    MISSING,
    Table,
    TableRow,
    decode_head,
    find_name,
    has_name,
    is_number_text,
    normalize_names,
    open_table,
    split_line,
    without_header,
)
from streamnb.corpus.text_files import describe_encoding, read_head
from streamnb.data_format import DataFormat
from streamnb.errors import CorpusError, printable
from streamnb.patterns import lazy_pattern

MAX_FIELD = 1 << 20  # maximum number of characters read of a text
MAX_LABEL = 64  # maximum characters of a label in the detection of tab-separated lines
HEADER_BYTES = 1 << 14  # bytes that are searched for the names of columns
_SECONDS = lazy_pattern(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,2})?")
_YEAR = lazy_pattern(r"[0-9]{4}(-[0-9]{2})?")  # a year, or a year and a month
_MAX_DATE = 40  # characters of a date
MAX_SECONDS = 1e11  # the year 5138; milliseconds since 1970 are above it from 1973 on
MIN_ROWS = 5  # minimum number of rows for conclusions about a column
MAX_NAME_WORDS = 4  # maximum number of words in an unknown column name
_NAME = lazy_pattern(r"\S+|[^\W\d_]+(?:[ _/()-]+[^\W\d_]+)*[)?]?")
# Known names of columns in data sets of texts, the most specific first.
LABEL_COLUMNS = (
    "label", "class", "category", "target", "sentiment", "polarity", "intent", "rating", "stars",
    "score", "v1", "y",
)  # fmt: skip
_RATING_COLUMNS = ("rating", "stars", "score")  # columns of numbers among them
_IDENTIFIER = lazy_pattern(r"(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_.-]+")  # a word with a digit
TEXT_COLUMNS = (
    "text", "message", "body", "sms", "content", "document", "sentence", "review", "comment",
    "tweet", "utterance", "question", "post", "description", "v2", "x",
)  # fmt: skip


def open_delimited(
    path: Path,
    root: Path,
    label: str | None = None,
    text: str | None = None,
    date: str | None = None,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    has_header: bool | None = None,
    learned: DataFormat | None = None,
) -> Corpus:
    """Open a table of labelled texts.

    Parameters
    ----------
    path
        The file.
    root
        The corpus; names of entries are relative to it.
    label, text, date
        Names of the columns, or their numbers, counted from 1. None to detect the columns of labels
        and texts, and to read no dates.
    format, delimiter, has_header
        See `open_table`.
    learned
        See `open_corpus`.

    Raises
    ------
    CorpusError
        If the file is not a table, or its columns are not those of labels and texts.
    """
    is_label_named, are_both_named = label is not None, label is not None and text is not None
    wanted: list[str] = []  # the learned columns, if the user did not name others
    if learned is not None:
        pairs = ((label, learned.label_column), (text, learned.text_column))
        wanted = [column for name, column in pairs if name is None]
        opened = open_table(path, format, delimiter, has_header)
        if has_learned_columns(opened, learned, wanted):
            label, text, wanted = label or learned.label_column, text or learned.text_column, []
    names = [name for name in (label, text, date) if name is not None]
    table = open_table(
        path,
        format,
        delimiter,
        has_header,
        () if any(not name.isdecimal() for name in names) else (LABEL_COLUMNS, TEXT_COLUMNS),
        [name for name in names if not name.isdecimal()],
    )
    table, label_index, text_index = _choose_columns(
        table, label, text, has_header, learned, wanted
    )
    check_learned_columns(table, learned, wanted)
    notices = _find_notices(table, label_index, text_index, is_label_named, are_both_named)
    date_index = find_column(table, date, ())
    _check_columns(table, label_index, text_index, label is not None, text is not None)
    if table.quoting != "csv" and text_index == len(table.names) - 1:
        table = replace(table, is_last_wide=True)
    file_name = path.relative_to(root).as_posix() if path != root else path.name
    columns = f"labels in column {table.names[label_index]!r}, text in {table.names[text_index]!r}"
    kind = "tabs" if table.format == "csv" and table.delimiter == "\t" else table.format
    is_known = names or not {*LABEL_COLUMNS, *TEXT_COLUMNS}.isdisjoint(normalize_names(table.names))
    is_guessed = table.format == "csv" and table.has_header and has_header is None and not is_known
    hint = "; if the first line is data, set corpus.header to false" if is_guessed else ""
    description = f"{path.name}, {table.describe()}, {columns}{hint}"
    data_format = DataFormat(
        tuple(table.names),
        table.names[label_index],
        table.names[text_index],
        table.delimiter,
        table.has_header,
    )
    entries = partial(_read_entries, table, file_name, label_index, text_index, date_index)
    return Corpus(
        kind, root, description, "text", entries, data_format=data_format, notices=notices
    )


def _read_entries(
    table: Table, file_name: str, label_index: int, text_index: int, date_index: int | None
) -> Iterator[Entry]:
    for row in table.rows():
        date = None
        problem, cells = row.problem, row.cells
        if not problem:
            reason = _label_problem(table, label_index, row) or text_problem(
                table.format, table.names[text_index], row.value(text_index)
            )
            if date_index is not None and (cell := cells[date_index].strip()) not in MISSING:
                date = _read_date(cell)
                if date is None and not reason:
                    reason = (
                        f"{cell!r:.40} in the column {table.names[date_index]!r:.80} is not a "
                        "date; write 2026, 2026-01, 2026-01-31, 2026-01-31T12:00:00Z or seconds "
                        "since 1970"
                    )
            problem = f"{table.path}:{row.line}: {reason}" if reason else ""
        yield Entry(
            f"{file_name}:{row.line}",
            "" if problem else cells[label_index].strip(),
            str(table.path),
            text="" if problem else cells[text_index][:MAX_FIELD],
            problem=problem,
            date=date,
        )


def _read_date(cell: str) -> float | None:
    """Return an ISO 8601 date or seconds since 1970 as seconds; None if a cell is neither.

    Four digits are a year, and eight digits a year, a month and a day. A year or a month is its
    first day.
    """
    if len(cell) > _MAX_DATE:
        return None
    if _YEAR.fullmatch(cell):
        cell = f"{cell}-01-01"[:10]
    elif _SECONDS.fullmatch(cell) and not (len(cell) == 8 and cell.isdecimal()):
        return float(cell) if abs(float(cell)) < MAX_SECONDS else None
    try:
        date = datetime.fromisoformat(cell)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def find_learned_delimiter(head: bytes, learned: DataFormat) -> str | None:
    """Return the delimiter with which a file begins with the names of learned columns; else None.

    A header has the column of texts, or two of the columns. A file of one column must have no
    delimiter.
    """
    lines = [line for line in decode_head(head) if line.strip()]
    if b"\0" in head or not lines or not learned.has_header:
        return None
    names = set(normalize_names(learned.names))
    for delimiter in dict.fromkeys(learned.delimiter + DELIMITERS):
        cells = normalize_names(split_line(lines[0], delimiter))
        if len(cells) > 1 and (has_name(cells, learned.text_column) or len(names & {*cells}) > 1):
            return delimiter
    is_one_column = has_name([lines[0]], learned.text_column)
    return "," if is_one_column and not any("," in line for line in lines) else None


def has_learned_columns(table: Table, learned: DataFormat, wanted: Sequence[str]) -> bool:
    """Return whether a table has the columns `wanted`, which a model was trained on.

    Two columns without header are detected by their content.
    """
    if table.has_header and learned.has_header:
        return all(has_name(table.names, name) for name in wanted)
    has_numbers = not table.has_header and not learned.has_header
    return has_numbers and len(table.names) == len(learned.names) > 2


def check_learned_columns(table: Table, learned: DataFormat | None, wanted: Sequence[str]) -> None:
    """Raise CorpusError if a table with a header lacks one of the learned columns `wanted`."""
    missing = [name for name in wanted if not has_name(table.names, name)]
    if table.has_header and learned is not None and learned.has_header and missing:
        raise CorpusError(
            f"{table.path}:1: no column {' or '.join(f'{name!r:.80}' for name in missing)} as in "
            f"the training data of the model; there are {printable(', '.join(table.names)[:200])}; "
            f"name it with {'--label-column or ' if len(wanted) > 1 else ''}--text-column"
        )


def _label_problem(table: Table, label_index: int, row: TableRow) -> str:
    """Return the reason why a cell is not a label; "" if it is a label."""
    column, label = f"in the column {table.names[label_index]!r:.80}", row.cells[label_index]
    if not label.strip():
        return f"no label {column}"
    if label.strip() in MISSING and label.strip() != "?":  # in results, "?" is no prediction
        return f"{label!r} {column} means a missing label; delete the row, or rename the class"
    if isinstance(row.value(label_index), (list, dict)):
        return f"{label!r:.40} {column} is not a label; expected one text or number"
    return ""


def text_problem(table_format: str, column: str, value: Any) -> str:
    """Return the reason why a value is not a text; "" if it is. A text can be empty."""
    if isinstance(value, (str, bytes)):
        return ""
    reason = "" if value is None else f": {value!r:.40} is not a text"
    return f"no text in the {'key' if table_format == 'jsonl' else 'column'} {column!r:.80}{reason}"


def is_tabbed(head: bytes) -> bool:
    """Return whether text begins with lines of a short label, a tab and a text.

    If labels repeat, up to a quarter of the lines can lack a label.
    """
    if b"\0" in head:
        return False
    lines = [line.rstrip("\r\n") for line in decode_head(head) if line.strip()][:200]
    if not lines or _is_known_header(lines[0].split("\t")):
        return bool(lines)
    if len(lines) > 1:
        lines.pop()  # the last line may be incomplete
    return any(
        len(labels) == len(lines)
        or (len(labels) >= 0.75 * len(lines) and len(set(labels)) <= len(labels) / 2)
        for labels in (
            [line.partition("\t")[0] for line in lines if 0 < line.find("\t") <= MAX_LABEL],
            [line.rpartition("\t")[2] for line in lines if 0 < _last_length(line) <= MAX_LABEL],
        )
    )


def labels_of_lines(path: Path) -> set[str]:
    """Return the labels of a CSV file without header and suffix; the set is empty without labels.

    Each line has two cells, and the labels of the first lines repeat.
    """
    try:
        table = open_table(path, "csv", None, False)
    except CorpusError:
        return set()
    detected = detect_columns(table) if table.delimiter != "\t" else None
    if detected is None or any(row.problem for row in islice(table.rows(), HEAD_ROWS)):
        return set()
    return {row[detected[1]].strip() for row in detected[0].head()}


def has_known_header(head: bytes) -> bool:
    """Return whether the first line has known names of label and text columns."""
    if b"\0" in head[:HEADER_BYTES]:
        return False
    lines = decode_head(head[:HEADER_BYTES].lstrip())
    return bool(lines) and any(
        _is_known_header(split_line(lines[0], delimiter)) for delimiter in DELIMITERS
    )


def _last_length(line: str) -> int:
    """Return the length of the last cell of a line; 0 without a tab."""
    return len(line) - 1 - line.rfind("\t") if "\t" in line else 0


def _is_known_header(names: Sequence[str]) -> bool:
    plain = set(normalize_names(names))
    return bool(plain & set(LABEL_COLUMNS) and plain & set(TEXT_COLUMNS))


def _choose_columns(
    table: Table,
    label: str | None,
    text: str | None,
    has_header: bool | None,
    learned: DataFormat | None,
    wanted: Sequence[str],
) -> tuple[Table, int, int]:
    """Return the table, and the indices of the columns of labels and texts.

    If the first line is data, the returned table has no header.
    """
    columns = [name for name in (label, text) if name is not None and name not in table.names]
    is_numbered = bool(columns) and all(name.isdecimal() for name in (label, text) if name)
    if has_header is None and is_numbered and not _is_known_header(table.names):
        table = without_header(table)
        if label in table.names:
            table = _with_unknown_header(table, table.names.index(label))
    label_index = find_column(table, label, LABEL_COLUMNS)
    text_index = find_column(table, text, TEXT_COLUMNS)
    if label_index == text_index and label_index is not None:
        raise CorpusError(
            f"{table.path}: label and text are the same column, {table.names[label_index]!r:.80}; "
            "set corpus.label_column and corpus.text_column"
        )
    known_index = text_index if label_index is None else label_index
    if known_index is not None and _is_pair_header(table, known_index, label or text):
        label_index = 1 - known_index if label_index is None else label_index
        text_index = 1 - known_index if text_index is None else text_index
    if label_index is not None and text_index is not None:
        return table, label_index, text_index
    if label is None and text is None and table.format == "csv" and has_header is not True:
        headless = without_header(table)
        detected = detect_columns(headless)
        if detected is not None:
            return detected if has_header is None else (headless, *detected[1:])
    check_learned_columns(table, learned, wanted)
    raise CorpusError(
        f"{table.path}:1: cannot tell which columns hold label and text "
        f"(columns: {printable(', '.join(table.names)[:200])}); set corpus.label_column and "
        "corpus.text_column to their names or numbers"
    )


def find_column(table: Table, name: str | None, known_names: Sequence[str]) -> int | None:
    """Return the index of the column with a name; without a name, of the first known name."""
    plain = normalize_names(table.names)
    if name is None:
        name = next((known_name for known_name in known_names if known_name in plain), None)
        index = None if name is None else plain.index(name)
    elif has_name(table.names, name):
        index = find_name(table.names, name)
    elif name.isdecimal() and len(name) < 10 and 1 <= int(name) <= len(table.names):
        return int(name) - 1
    else:
        names = printable(", ".join(table.names)[:200])
        raise CorpusError(f"{table.path}:1: no column {name!r:.80}; there are {names}")
    spellings = table.names if name in table.names else plain
    if index is not None and spellings.count(spellings[index]) > 1:
        equal_names = {
            table.names[i] for i, text in enumerate(spellings) if text == spellings[index]
        }
        if len(equal_names) > 1:
            raise CorpusError(
                f"{table.path}:1: the columns {printable(', '.join(sorted(equal_names)))[:200]} "
                "differ only in case or blanks; give the exact name, or rename one"
            )
        raise CorpusError(f"{table.path}:1: two columns are called {name!r:.80}; rename one")
    return index


def _is_pair_header(table: Table, known_index: int, wanted: str | None) -> bool:
    """Return whether the known name of one of two columns shows that the first row is a header.

    The first line may be data if its unknown name repeats below, or its known name is one letter.
    """
    if len(table.names) != 2:
        return False
    name = table.names[1 - known_index]
    values = {row[1 - known_index].strip() for row in table.head()}
    return name not in values and (wanted is not None or len(table.names[known_index]) > 1)


def detect_columns(table: Table) -> tuple[Table, int, int] | None:
    """Return the columns of labels and texts by their content; None if it is ambiguous.

    Labels are short and repeat. Texts have several words and differ.
    """
    rows = table.head()
    if len(table.names) != 2 or not rows:
        return None
    columns = [[row[index].strip() for row in rows] for index in (0, 1)]
    distinct = [len(set(column)) for column in columns]
    words = [sum(len(cell.split()) for cell in column) for column in columns]
    label_index = 0
    if len(rows) >= MIN_ROWS and 2 <= distinct[1] < distinct[0] and words[0] >= words[1]:
        label_index = int(words[0] > words[1] or 4 * distinct[1] <= distinct[0])
    elif distinct[1] <= distinct[0] and words[0] > 1.5 * words[1]:
        label_index = 1
    labels = columns[label_index]
    repeats = len(rows) >= MIN_ROWS and distinct[label_index] <= len(rows) / 2
    if table.delimiter != "\t" and not (repeats and max(map(len, labels)) <= MAX_LABEL):
        return None
    return _with_unknown_header(table, label_index), label_index, 1 - label_index


def _with_unknown_header(table: Table, label_index: int) -> Table:
    """Return the table with its first row as header, if that row names columns."""
    rows = [row for row in table.head() if len(row) > label_index]
    if not rows or not _is_unknown_header(rows, label_index):
        return table
    return replace(table, names=[cell.strip() for cell in rows[0]], has_header=True)


def _is_unknown_header(rows: list[list[str]], label_index: int) -> bool:
    """Return whether the first row names columns: few words, and no label of another row.

    A name is one word, or at most `MAX_NAME_WORDS` words without digits and full stops. If names
    have several words, each label must occur in `MIN_ROWS` rows, or the row must be shorter than
    most rows.
    """
    labels = [row[label_index].strip() for row in rows]
    counts = Counter(labels[1:])
    if len(labels) < 2 * MIN_ROWS or labels[0] in counts or min(counts.values()) == 1:
        return False
    names = [cell.strip() for cell in rows[0]]
    if not all(len(name) <= MAX_LABEL and _NAME.fullmatch(name) for name in names):
        return False
    longest = max(len(name.split()) for name in names)
    if longest == 1 or (longest <= MAX_NAME_WORDS and min(counts.values()) >= MIN_ROWS):
        return True
    from statistics import median  # here: few tables need it

    words = [sum(len(cell.split()) for cell in row) for row in rows]
    return longest <= MAX_NAME_WORDS and words[0] < median(words)


def describe_wrong_labels(labels: Sequence[str], column: str) -> str:
    """Return the reason why the values of a column cannot be labels; "" if they can.

    Labels repeat; keys and measured values do not. Measured values are fractions.

    Parameters
    ----------
    labels
        The values of the first rows.
    column
        The name of the column.
    """
    if len(labels) < MIN_ROWS:
        return ""
    distinct = set(labels)
    if len(distinct) == len(labels):
        return f"all {len(labels)} labels in the column {column!r:.80} are different"
    if len(labels) >= 4 * MIN_ROWS and len(distinct) > 0.9 * len(labels):
        return f"{len(distinct)} of {len(labels)} labels in the column {column!r:.80} are different"
    if 2 * len(distinct) > len(labels) and all(
        is_number_text(label) and not float(label).is_integer() for label in distinct
    ):
        return (
            f"the labels in the column {column!r:.80} are measured values "
            f"({', '.join(sorted(distinct)[:3])}, ...), not classes"
        )
    return ""


def _find_notices(
    table: Table, label_index: int, text_index: int, is_label_named: bool, are_both_named: bool
) -> tuple[str, ...]:
    """Return what looks wrong in the columns of labels and texts of the first rows.

    If the user named both columns, texts can be identifiers.
    """
    notices = []
    encoding = "" if table.format == "parquet" else describe_encoding(read_head(table.path))
    if encoding:
        notices.append(
            f"not in UTF-8, so read as {encoding}; if letters are wrong, convert the file: iconv "
            "-f ENCODING -t UTF-8"
        )
    label_name, text_name = table.names[label_index], table.names[text_index]
    head = table.head()
    texts = [row[text_index].strip() for row in head]
    present = [text for text in texts if text not in MISSING]
    identifiers = [text for text in present if _IDENTIFIER.fullmatch(text)]
    has_identifiers = len(set(identifiers)) == len(present)
    if len(texts) >= MIN_ROWS and 2 * len(present) < len(texts):
        notices.append(f"most texts in the column {text_name!r:.80} are empty")
    elif len(present) >= 4 * MIN_ROWS and has_identifiers and not are_both_named:
        notices.append(
            f"each text in the column {text_name!r:.80} is a different number or identifier, such "
            f"as {present[0]!r:.40}; name the column of the texts with --text-column"
        )
    is_rating = label_name.strip().lower() in _RATING_COLUMNS
    ratings = [row[label_index] for row in head] if is_rating and not is_label_named else []
    if ratings and all(map(is_number_text, filter(str.strip, ratings))):
        notices.append(
            f"the numbers in the column {label_name!r:.80} are classes without an order; to use "
            "another column, name it with --label-column"
        )
    return tuple(f"{table.path}: {notice}" for notice in notices)


def _is_number_or_sign(text: str) -> bool:
    """Return whether a text is a number in any notation, a date, or another text without letter.

    A text without digits, such as an emoji, is no number.
    """
    has_digit = any(map(str.isdigit, text))
    return is_number_text(text) or (has_digit and not any(map(str.isalpha, text)))


def _check_columns(
    table: Table, label_index: int, text_index: int, is_label_named: bool, is_text_named: bool
) -> None:
    """Raise CorpusError if the first rows show that the columns cannot be labels and texts.

    If the user or the model names the column of the texts, texts can be numbers. If both columns
    are named, labels can be longer than texts.
    """
    rows = table.head()
    if len(rows) < MIN_ROWS:
        return
    labels = [row[label_index].strip() for row in rows]
    texts = [row[text_index] for row in rows]
    label_name, text_name = table.names[label_index], table.names[text_index]
    problem = describe_wrong_labels(labels, label_name)
    present = [text for text in texts if text.strip() not in MISSING]
    numbers = list(filter(_is_number_or_sign, present))
    if not problem and not is_text_named and 2 * len(numbers) > len(present):
        problem = (
            f"the texts in the column {text_name!r:.80} are numbers, such as {numbers[0]!r:.40}; "
            "`streamnb experiment` learns tables of numbers"
        )
    has_longer_labels = sum(map(len, labels)) > sum(map(len, texts))
    if (
        not problem
        and not (is_label_named and is_text_named)
        and has_longer_labels
        and len(set(labels)) > min(len(set(texts)), len(labels) / 2)
    ):
        problem = (
            f"the labels in the column {label_name!r:.80} are longer than the texts in the "
            f"column {text_name!r:.80}"
        )
    if not problem:
        return
    raise CorpusError(
        f"{table.path}: {problem}; set corpus.label_column and corpus.text_column "
        f"(columns: {printable(', '.join(table.names)[:200])})"
    )
