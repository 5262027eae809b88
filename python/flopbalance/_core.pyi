"""The compiled core; private."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["curve_flops", "length_moments", "square_flops"]

def curve_flops(
    lengths: NDArray[np.int64], per_token: int, per_pair: int, windows: list[tuple[int, int]]
) -> NDArray[np.int64]: ...
def square_flops(lengths: NDArray[np.int64], per_token: int, per_square: int) -> NDArray[np.float64]: ...
def length_moments(lengths: NDArray[np.int64], windows: list[int]) -> tuple[int, int, list[int]]: ...
