import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

def prediction_losses(
    scores: list[float], y: int, predicted: int, positive: int, least: float
) -> tuple[float, float, float, float]: ...
def rank_resampled(
    order: I64, positive: U8, last: U8, starts: I64, ends: I64, shares: F64
) -> tuple[I64, I64, I64, I64]: ...
