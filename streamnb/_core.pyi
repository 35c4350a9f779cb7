from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEY_BYTES: int
DEFAULT_KEY: bytes

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
Counted = tuple[U64, F64, bytes | None, U32 | None]

def encode_name(name: Any) -> bytes: ...
def decode_name(name: bytes) -> Any: ...
def fingerprint(name: Any, key: bytes = ...) -> int: ...
def fingerprint_columns(columns: I64, key: bytes = ...) -> U64: ...
def count_mapping(
    x: Mapping[Any, Any], key: bytes = ..., threshold: float = ..., keep_names: bool = ...
) -> Counted: ...
def log(x: float) -> float: ...
def log_cells(cells: F64, alpha: float = 0.0, less: Sequence[float] | None = None) -> F64: ...
def subtracted(before: float, amount: float) -> float: ...
def weighted_sums(counts: F64, values: F64, seen: U8 | None = None) -> tuple[list[float], int]: ...
def row_sums(
    indptr: I64,
    indices: NDArray[Any],
    data: F64,
    values: F64,
    seen: U8 | None = None,
    threshold: float = ...,
) -> tuple[F64, I64, int]: ...
def column_sums(
    indptr: I64,
    indices: NDArray[Any],
    data: F64,
    labels: I64,
    weights: F64,
    columns: int,
    classes: int,
    threshold: float = ...,
) -> tuple[F64, int]: ...
def split_header(
    data: bytes, start: int, end: int, most: int
) -> tuple[list[tuple[bytes, bytes]], dict[bytes, bytes], int, bool]: ...

class CountTable:
    def __init__(
        self, classes: int = 0, keep_names: bool = True, track_values: bool = False
    ) -> None: ...
    def __len__(self) -> int: ...
    def __sizeof__(self) -> int: ...
    @property
    def keep_names(self) -> bool: ...
    @property
    def track_values(self) -> bool: ...
    @property
    def classes(self) -> int: ...
    @property
    def totals(self) -> list[float]: ...
    def widen(self, classes: int) -> None: ...
    def add(
        self,
        fingerprints: U64,
        counts: F64,
        k: int,
        weight: float = 1.0,
        names: bytes | None = None,
        ends: U32 | None = None,
    ) -> None: ...
    def add_matrix(
        self,
        fingerprints: U64,
        sums: F64,
        classes: I64,
        names: bytes | None = None,
        ends: U32 | None = None,
    ) -> None: ...
    def subtract(self, fingerprints: U64, counts: F64, k: int, weight: float = 1.0) -> None: ...
    def gather(self, fingerprints: U64) -> tuple[F64, U8]: ...
    def value_counts(self) -> tuple[F64, F64]: ...
    def arrays(self) -> tuple[U64, F64, bytes | None, U64 | None]: ...
    def name(self, key: int) -> Any: ...
    def load(
        self,
        fingerprints: U64,
        cells: F64,
        totals: list[float],
        names: bytes | None = None,
        ends: U64 | None = None,
    ) -> None: ...

class Scanner:
    def __init__(
        self,
        key: bytes = ...,
        casefold: bool = True,
        inner: str = "",
        shortest: int = 1,
        longest: int = 40,
        first: int = 1,
        last: int = 1,
        by_character: bool = False,
        urls: bool = False,
        binary: bool = False,
        keep_names: bool = True,
        stop: Iterable[str] = (),
    ) -> None: ...
    def text(self, text: str | bytes, prefix: bytes = b"") -> None: ...
    def html(self, text: str | bytes, prefix: bytes = b"") -> None: ...
    def fields(
        self,
        fields: list[tuple[bytes, bytes]],
        prefixes: Mapping[bytes, bytes | None],
        prefix_of: Callable[[bytes], bytes | None],
        decode: Callable[[bytes], str],
    ) -> None: ...
    def token(self, name: bytes, prefix: bytes = b"") -> None: ...
    def discard(self) -> None: ...
    def finish(self) -> Counted: ...
