"""Conversion of corpora to a Parquet table, which Spark reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

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
            f"{paths[0]}: use corpora of mail only or of text only, without labels in header fields"
        )
    message = pa.string() if contents == {"text"} else pa.binary()
    schema = pa.schema([("position", pa.int64()), ("label", pa.string()), ("message", message)])

    def entries() -> Iterator[Entry]:
        for corpus in corpora:
            for entry in corpus:
                if entry.problem or (entry.label and entry.learn):  # `read` raises the problem
                    yield entry

    ordered = enumerate(order_entries(entries(), order))
    rows = ({"position": i, "label": each.label, "message": read(each)} for i, each in ordered)
    messages = 0
    with replace_file(output, "the table") as file, parquet.ParquetWriter(file, schema) as writer:
        while batch := list(islice(rows, _BATCH_SIZE)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))
            messages += len(batch)
        if not messages:  # raised here, so that an existing file is not replaced
            raise CorpusError(f"{paths[0]}: there are no labelled messages")
    return messages
