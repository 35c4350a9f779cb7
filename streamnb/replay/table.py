"""Conversion of corpora to a Parquet table, which Spark reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import parquet

from streamnb.corpus import Entry, open_corpus, order_entries, read
from streamnb.errors import CorpusError
from streamnb.storage import replace_file

_BATCH_SIZE = 1000  # messages


def write_table(paths: Sequence[str], output: str, order: str = "indexed") -> int:
    """Write all labelled messages of some corpora to a Parquet file; return their number.

    Parameters
    ----------
    paths
        The corpora, all of mail or all of text.
    output
        The file. Its columns are `position`, `label` and `message`: bytes of mail, or strings of
        text.
    order
        The order of the messages, as for `streamnb.corpus.order_entries`.

    Raises
    ------
    CorpusError
        If a corpus cannot be read or has no labelled messages; an existing file stays as it is.
    """
    corpora = [open_corpus(path) for path in paths]
    contents = {corpus.content for corpus in corpora}
    if len(contents) > 1 or any(corpus.drop_headers for corpus in corpora):
        raise CorpusError(
            f"{paths[0]}: corpora must all be of mail or all of text, and hold no labels in headers"
        )
    message = pa.string() if contents == {"text"} else pa.binary()
    schema = pa.schema([("position", pa.int64()), ("label", pa.string()), ("message", message)])

    def entries() -> Iterator[Entry]:
        for corpus in corpora:
            for entry in corpus:
                if entry.problem or (entry.label and entry.learn):  # `read` raises the problem
                    yield entry

    rows: list[tuple[int, str, bytes | str]] = []
    messages = 0
    with replace_file(output, "the table") as file, parquet.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            columns = zip(*rows, strict=True) if rows else ([], [], [])
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            rows.clear()

        for messages, entry in enumerate(order_entries(entries(), order), 1):
            rows.append((messages - 1, entry.label, read(entry)))
            if len(rows) == _BATCH_SIZE:
                flush()
        flush()
        if not messages:  # raised before an existing file is replaced
            raise CorpusError(f"{paths[0]}: there are no labelled messages")
    return messages
