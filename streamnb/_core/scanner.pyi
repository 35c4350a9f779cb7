from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
CountedTokens = tuple[U64, F64, bytes | None, U32 | None]

class Scanner:
    def __init__(
        self,
        key: bytes = ...,
        casefold: bool = True,
        inner: str = "",
        min_length: int = 1,
        max_length: int = 40,
        ngrams: tuple[int, int] = (1, 1),
        by_character: bool = False,
        urls: bool = False,
        binary: bool = False,
        sublinear: bool = False,
        keep_names: bool = True,
        stop: Iterable[str] = (),
        mark_invisible: bool = False,
    ) -> None: ...
    def text(self, text: str | bytes, prefix: bytes = b"") -> None: ...
    def html(self, text: str | bytes, prefix: bytes = b"", spans: bytes | None = None) -> None: ...
    def fields(
        self,
        fields: list[tuple[bytes, bytes]],
        prefixes: Mapping[bytes, bytes | None],
        prefix_of: Callable[[bytes], bytes | None],
        decode: Callable[[bytes], str],
    ) -> None: ...
    def token(self, name: bytes, prefix: bytes = b"") -> None: ...
    def discard(self) -> None: ...
    def finish(self) -> CountedTokens: ...
