"""Corpora as a table that Spark reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import parquet

from streamnb.corpus import Entry, open_corpus, order_entries, read
from streamnb.errors import CorpusError
from streamnb.storage import replace_file

_AT_ONCE = 1000  # messages a batch


def write(paths: Sequence[str], output: str, order: str = "indexed") -> int:
    """Write all labelled messages of some corpora to a Parquet file.

    Parameters
    ----------
    paths
        The corpora, all of mail or all of text.
    output
        The file: `position`, `label` and `message`, bytes of mail and strings of text.
    order
        In which order, as `streamnb.corpus.order_entries` has it.

    Returns
    -------
    int
        How many messages there are.
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
                if entry.problem or (entry.label and entry.learn):  # a problem is told by `read`
                    yield entry

    rows: list[tuple[int, str, bytes | str]] = []
    n = 0
    with replace_file(output, "the table") as file, parquet.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            columns = zip(*rows, strict=True) if rows else ([], [], [])
            arrays = [pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            rows.clear()

        for n, entry in enumerate(order_entries(entries(), order), 1):
            rows.append((n - 1, entry.label, read(entry)))
            if len(rows) == _AT_ONCE:
                flush()
        flush()
        if not n:  # here: what was there before stays
            raise CorpusError(f"{paths[0]}: there are no labelled messages")
    return n
