"""The columns of the table that a classifier was trained on. Model files store them."""

from __future__ import annotations

from typing import Any, NamedTuple, Self


class DataFormat(NamedTuple):
    """The columns of a table of labelled texts.

    Attributes
    ----------
    names
        The names of all columns; "1", "2", ... if the table has no header.
    label_column, text_column
        The names of the columns of labels and texts.
    delimiter
        The delimiter of a CSV file; "," in other formats.
    has_header
        Whether the table names its columns.
    """

    names: tuple[str, ...]
    label_column: str
    text_column: str
    delimiter: str
    has_header: bool

    @classmethod
    def from_json(cls, values: Any) -> Self | None:
        """Return the format in JSON, None for null. Raise ValueError if it is damaged."""
        if values is None:
            return None
        try:
            names, label_column, text_column, delimiter, has_header = values
        except (TypeError, ValueError):
            raise ValueError("the columns are damaged") from None
        columns = {label_column, text_column}
        if not columns <= set(names) or not all(
            isinstance(text, str) for text in (*names, delimiter)
        ):
            raise ValueError("the columns are damaged")
        return cls(tuple(names), label_column, text_column, delimiter, bool(has_header))
