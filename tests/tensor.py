"""Stand-ins for the tensors of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np


class Tensor:
    """Known to NumPy by `__array__` alone."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __setitem__(self, index: int, value: int) -> None:
        self.values[index] = value

    def __repr__(self) -> str:
        return f"Tensor({self.values!r})"


class UnreadTensor(Tensor):
    """Of a type that NumPy lacks, or with a gradient: it refuses to be an array, but says what it holds."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

    def tolist(self) -> list[Any]:
        return self.values
