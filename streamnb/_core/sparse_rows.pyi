from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]

BLOCK_ROWS: int

class SparseRows:
    ends: U64
    classes: U32
    counts: F64
    is_counted: NDArray[np.bool_]
    def __init__(self, ends: U64, classes: U32, counts: F64) -> None: ...
    def __len__(self) -> int: ...
    def dense(self, classes: int) -> F64: ...
    def take(self, rows: I64) -> SparseRows: ...
    def column(self, k: int) -> F64: ...
    def with_column(self, k: int, column: F64) -> SparseRows: ...
    def with_rows(self, rows: I64, other: SparseRows) -> SparseRows: ...
    def log_likelihood_grid(
        self,
        counts: F64,
        totals: list[float],
        features: int,
        alpha: float,
        factors: list[float],
        unseen: bool = False,
        complement: bool = False,
        length_norm: float = 0,
        length_power: float = 0,
    ) -> tuple[array[float], int]: ...

def read_blocks(blocks: list[Any], classes: int) -> tuple[U64, U32, SparseRows]: ...
def write_blocks(
    keys: U64, usage: U32, cells: SparseRows, block_indices: I64, classes: int
) -> list[bytes]: ...
