from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
U8 = NDArray[np.uint8]

class GramScanner:
    def __init__(
        self,
        n: int = 4,
        max_bytes: int = 2000,
        casefold: bool = True,
        step: int = 0,
        key: bytes = ...,
    ) -> None: ...
    def scan(
        self,
        data: bytes,
        field_is_read: dict[bytes, bool] | None = None,
        reads_field: Callable[[bytes], bool] | None = None,
    ) -> tuple[U64, F64]: ...
    def name(self, fingerprint: int) -> bytes: ...

class CharacterScanner:
    def __init__(self, n: int = 3, max_characters: int = 1500, key: bytes = ...) -> None: ...
    def scan(self, text: str) -> tuple[U64, F64]: ...
    def name(self, fingerprint: int) -> str: ...

def backoff_log_probabilities(
    fingerprints: U64,
    cells: F64,
    totals: list[float],
    alpha: float,
    spread: float,
    step: int,
    key: bytes = ...,
) -> tuple[F64, U8]: ...
