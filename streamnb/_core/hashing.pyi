from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U64 = NDArray[np.uint64]
U32 = NDArray[np.uint32]
I64 = NDArray[np.int64]
Counted = tuple[U64, F64, bytes | None, U32 | None]

KEY_BYTES: int
DEFAULT_KEY: bytes

def encode_name(name: Any) -> bytes: ...
def decode_name(name: bytes) -> Any: ...
def fingerprint(name: Any, key: bytes = ...) -> int: ...
def fingerprint_columns(columns: I64, key: bytes = ...) -> U64: ...
def count_mapping(
    x: Mapping[Any, Any], key: bytes = ..., threshold: float = ..., keep_names: bool = ...
) -> Counted: ...
