from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

def log(x: float) -> float: ...
def exp(x: float) -> float: ...
def length_divisor(length_norm: float, used: int, power: float) -> float: ...
def log_cells(cells: F64, alpha: float = 0.0, less: Sequence[float] | None = None) -> F64: ...
def subtract_exactly(before: float, amount: float) -> float: ...
def weighted_sums(
    counts: F64, values: F64, presence: U8 | None = None
) -> tuple[list[float], int]: ...
def row_sums(
    indptr: I64,
    indices: NDArray[Any],
    data: F64 | None,
    values: F64,
    presence: U8 | None = None,
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
