from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

class CountTable:
    unloaded: int
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
    def reserve(self, features: int) -> None: ...
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
    def merge(self, other: CountTable, classes: I64) -> None: ...
    def subtract(self, fingerprints: U64, counts: F64, k: int, weight: float = 1.0) -> None: ...
    def rescale(self, factor: float, least: float) -> None: ...
    def remove(self, fingerprints: U64) -> None: ...
    def feature_totals(self) -> tuple[U64, F64]: ...
    def get_counts(self, fingerprints: U64) -> tuple[F64, U8]: ...
    def log_likelihood_grid(
        self,
        fingerprints: U64,
        counts: F64,
        alphas: list[float],
        background: float = 0.0,
        unseen: bool = False,
        complement: bool = False,
    ) -> tuple[list[list[float]], int]: ...
    def log_likelihood_sums(
        self,
        fingerprints: U64,
        counts: F64,
        alpha: float,
        background: float = 0.0,
        unseen: bool = False,
        complement: bool = False,
    ) -> tuple[list[float], int]: ...
    def count_histogram(self) -> tuple[F64, F64]: ...
    def part(self, start: int, stop: int) -> tuple[U64, F64]: ...
    def arrays(self) -> tuple[U64, F64, bytes | None, U64 | None]: ...
    def entries(self) -> tuple[U64, U64, U32, F64, bytes | None, U64 | None]: ...
    def name(self, key: int) -> Any: ...
    def load(
        self,
        fingerprints: U64,
        ends: U64 | None,
        classes: U32 | None,
        counts: F64,
        totals: list[float],
        names: bytes | None = None,
        name_ends: U64 | None = None,
    ) -> None: ...
