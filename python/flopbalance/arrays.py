"""Type and shape checks of array arguments; their values are checked in the core."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_int64(values: Any, name: str) -> NDArray[np.int64]:
    """Integers of any type, in a list, an array or a tensor, as a contiguous one-dimensional int64 array.

    Examples
    --------
    >>> as_int64(np.array([3, 5], dtype=np.int32), "lengths")
    array([3, 5])
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iu":
        bad = next((i for i, value in enumerate(values) if not isinstance(value, int)), 0)
        raise ValueError(f"{name} must be 64-bit integers, got {values[bad]!r} at {name}[{bad}]")
    if array.dtype.kind == "u" and (largest := array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name}[{array.argmax()}] must be below 2**63, got {largest}")
    return np.ascontiguousarray(array, dtype=np.int64)
