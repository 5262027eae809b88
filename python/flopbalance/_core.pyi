"""The compiled core; private."""

from typing import Final

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, Weights

__all__ = [
    "DEBUG_BUILD",
    "curve_flops",
    "curve_flops_rounded",
    "first_fit",
    "group_lists",
    "length_moments",
    "partition",
    "plan",
    "rank_lists",
    "split",
]

DEBUG_BUILD: Final[bool]

def partition(weights: Weights, parts: int, equal_size: bool, ascending: bool, name: str) -> tuple[Ints, Ints]: ...
def first_fit(lengths: Ints, max_tokens: int) -> tuple[Ints, Ints]: ...
def split(items: Ints, sizes: Ints, target: int, lengths: Ints) -> tuple[Ints, Ints]: ...
def plan(
    lengths: Ints,
    costs: Weights,
    packing: str,
    packing_size: int,
    dp_size: int,
    micro_batch_multiple: int,
    balance_ranks: bool,
    rollout_ids: Ints | None,
    global_batch_size: int | None,
    leftover: str,
    capped: tuple[str, int, float, int, bool, tuple[Ints, int] | None, bool],
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, npt.NDArray[np.bool_]]: ...
def group_lists(items: Ints, offsets: Ints) -> list[list[int]]: ...
def rank_lists(samples: Ints, offsets: Ints, dp_size: int) -> tuple[list[list[int]], list[list[list[int]]]]: ...
def curve_flops(lengths: Ints, per_token: int, per_pair: int, windows: list[tuple[int, int]]) -> Ints: ...
def curve_flops_rounded(
    lengths: Ints, per_token: int, per_square: int, per_pair: int, windows: list[tuple[int, int]]
) -> npt.NDArray[np.float64]: ...
def length_moments(lengths: Ints, windows: list[int]) -> tuple[int, int, list[int]]: ...
