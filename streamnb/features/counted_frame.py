"""A pandas frame of token counts, for models of other libraries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from streamnb.features.token_counts import CountedFrameMixin, CountedMessages, TokenCounts


class CountedFrame(CountedFrameMixin, pd.DataFrame):  # type: ignore[misc]  # pandas is untyped here
    """A frame of token counts with sparse columns: a row for each message, a column for each token.

    Models of streamnb read `counted_messages`, which have the fingerprints of the tokens. The
    columns are created when other code reads the frame, such as a model of river.

    Parameters
    ----------
    counts
        The counts of each message.
    messages
        The series or frame of the messages, which has the same index.
    """

    def __init__(self, counts: Iterable[TokenCounts], messages: Any) -> None:
        super().__init__(index=messages.index)
        self.__dict__["counted_messages"] = CountedMessages(counts, messages)
        self.__dict__["_manager"] = None

    @property
    def _mgr(self) -> Any:  # where pandas keeps the columns
        if self.__dict__["_manager"] is None:
            columns, matrix = self.__dict__["counted_messages"].to_matrix()
            index = self.__dict__["counted_messages"].messages.index
            frame = pd.DataFrame.sparse.from_spmatrix(matrix, index=index, columns=columns)
            self.__dict__["_manager"] = frame._mgr
        return self.__dict__["_manager"]

    @_mgr.setter
    def _mgr(self, manager: Any) -> None:
        self.__dict__["_manager"] = manager

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return pd.DataFrame

    def __reduce__(self) -> tuple[Any, ...]:
        counted = self.__dict__["counted_messages"]
        return CountedFrame, (list(counted), counted.messages)
