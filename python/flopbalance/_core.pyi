"""The compiled core; private."""

from typing import Final, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Floats, Ints, Weights
from flopbalance.planning.plan import PlanRequest
from flopbalance.schedules.schedule import Schedule

__all__ = [
    "DEBUG_BUILD",
    "EFFORT",
    "check_lengths",
    "check_weights",
    "curve_flops",
    "curve_flops_rounded",
    "first_fit",
    "group_lists",
    "length_moments",
    "measure",
    "partition",
    "plan",
    "rank_lists",
    "split",
]

DEBUG_BUILD: Final[bool]
EFFORT: Final[int]

class _Plan(TypedDict):
    samples: Ints
    micro_batch_offsets: Ints
    micro_batch_tokens: Ints
    micro_batches_per_step: Ints
    rollouts_per_step: Ints
    dropped: Ints
    is_padding: npt.NDArray[np.bool_]

class _Measures(TypedDict):
    micro_batch_costs: Floats
    busy: Floats
    step_times: Floats
    micro_batch_times: Floats
    pipeline_times: Floats
    mean_times: Floats
    lower_bounds: Floats

def check_lengths(lengths: Ints, name: str) -> None: ...
def check_weights(weights: Floats, name: str) -> None: ...
def partition(
    weights: Weights, parts: int, sizes: Literal["free", "equal", "bounded"], ascending: bool, names: tuple[str, str]
) -> tuple[Ints, Ints]: ...
def first_fit(lengths: Ints, max_tokens: int) -> tuple[Ints, Ints]: ...
def split(items: Ints, sizes: Ints, target: int, lengths: Ints) -> tuple[Ints, Ints]: ...
def plan(lengths: Ints, costs: Weights, request: PlanRequest) -> _Plan: ...
def measure(schedule: Schedule, costs: Floats, pipeline_stages: int, micro_batch_overhead: float) -> _Measures: ...
def group_lists(items: Ints, offsets: Ints) -> list[list[int]]: ...
def rank_lists(schedule: Schedule) -> tuple[list[list[int]], list[list[list[int]]]]: ...
def curve_flops(lengths: Ints, per_token: int, per_pair: int, windows: list[tuple[int, int]]) -> Ints: ...
def curve_flops_rounded(
    lengths: Ints, per_token: int, per_square: int, per_pair: int, windows: list[tuple[int, int]]
) -> Floats: ...
def length_moments(lengths: Ints, windows: list[int]) -> tuple[int, int, list[int]]: ...
