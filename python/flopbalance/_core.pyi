"""The compiled core; private."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["curve_flops", "curve_flops_rounded", "length_moments"]

def curve_flops(
    lengths: NDArray[np.int64], per_token: int, per_pair: int, windows: list[tuple[int, int]]
) -> NDArray[np.int64]: ...
def curve_flops_rounded(
    lengths: NDArray[np.int64], per_token: int, per_square: int, per_pair: int, windows: list[tuple[int, int]]
) -> NDArray[np.float64]: ...
def length_moments(lengths: NDArray[np.int64], windows: list[int]) -> tuple[int, int, list[int]]: ...
