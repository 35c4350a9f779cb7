from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
CountedTokens = tuple[U64, F64, bytes | None, U32 | None]

class PairScanner:
    def __init__(
        self, max_tokens: int = 4000, keep_names: bool = True, key: bytes = ...
    ) -> None: ...
    def add(self, data: bytes, spans: bytes | None = None) -> None: ...
    def fields(
        self,
        fields: list[tuple[bytes, bytes]],
        field_is_read: dict[bytes, bool],
        reads_field: Callable[[bytes], bool],
        decode: Callable[[bytes], str],
    ) -> None: ...
    def discard(self) -> None: ...
    def finish(self) -> CountedTokens: ...
