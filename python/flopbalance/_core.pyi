"""The compiled core; private."""

from collections.abc import Hashable, Sequence
from typing import Any, Final, Literal, SupportsIndex, TypeAlias, TypedDict, final, overload

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CostFunction, Floats, Ints, Weights
from flopbalance.planning.plan import PlanRequest
from flopbalance.schedules.schedule import Schedule

__all__ = [
    "DEBUG_BUILD",
    "EFFORT",
    "Notes",
    "check_lengths",
    "check_weights",
    "curve_flops",
    "curve_flops_rounded",
    "dp_schedule",
    "first_fit",
    "inverse",
    "length_moments",
    "measure",
    "pack",
    "partition",
    "plan",
    "rank_lists",
    "row_bounds",
    "simulate_pipeline",
    "split",
    "sum_flops",
    "total_flops",
]

_Sizes: TypeAlias = Literal["free", "equal", "bounded", "refined"]

DEBUG_BUILD: Final[bool]
EFFORT: Final[int]

@final
class Notes:
    def __new__(cls, sources: list[tuple[Any, bool]], fields: list[tuple[int, str, Any]], missing: object) -> Notes: ...
    def hold(self, sources: tuple[Any, ...]) -> bool: ...

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
    pipeline_ends: Floats
    last_stage_ends: Floats
    mean_times: Floats
    lower_bounds: Floats

def check_lengths(lengths: Ints, name: str) -> None: ...
def check_weights(weights: Floats, name: str) -> None: ...
@overload
def partition(
    seqlen_list: npt.ArrayLike, k_partitions: SupportsIndex, sizes: _Sizes, ascending: bool, as_lists: Literal[True]
) -> list[list[int]]: ...
@overload
def partition(
    seqlen_list: npt.ArrayLike, k_partitions: SupportsIndex, sizes: _Sizes, ascending: bool, as_lists: Literal[False]
) -> tuple[Ints, Ints]: ...
@overload
def first_fit(
    total_lengths: npt.ArrayLike, max_tokens_per_bin: SupportsIndex, as_lists: Literal[True]
) -> list[list[int]]: ...
@overload
def first_fit(
    total_lengths: npt.ArrayLike, max_tokens_per_bin: SupportsIndex, as_lists: Literal[False]
) -> tuple[Ints, Ints]: ...
def pack(
    lengths: npt.ArrayLike,
    max_tokens: SupportsIndex,
    order: Literal["given", "decreasing", "balanced"],
    max_samples: int | None,
    counts: tuple[int | None, int, int],
    costs: npt.ArrayLike | CostFunction | None,
) -> list[list[int]]: ...
def split(bins: list[list[int]], target_count: SupportsIndex, lengths: npt.ArrayLike) -> list[list[int]]: ...
def inverse(idx_map: npt.ArrayLike) -> list[int]: ...
def total_flops(seqlens: npt.ArrayLike, terms: list[tuple[int, int]]) -> float | None: ...
def sum_flops(lengths: npt.ArrayLike, terms: list[tuple[int, int]]) -> Floats: ...
def plan(lengths: Ints, costs: Weights, request: PlanRequest) -> _Plan: ...
def dp_schedule(
    total_lengths: npt.ArrayLike,
    rollout_indices: npt.ArrayLike | Sequence[Hashable],
    global_batch_size: SupportsIndex,
    costs: CostFunction | None,
    request: PlanRequest,
) -> tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]: ...
def measure(
    schedule: Schedule, costs: Floats, pipeline: tuple[int, int, int | None], micro_batch_overhead: float
) -> _Measures: ...
def simulate_pipeline(costs: Weights, stages: int, chunks: int, group: int | None) -> float: ...
def row_bounds(schedule: Schedule, lengths: Ints, costs: Floats, max_tokens: int) -> Floats: ...
def rank_lists(schedule: Schedule) -> tuple[list[list[int]], list[list[list[int]]]]: ...
def curve_flops(lengths: Ints, per_token: int, per_pair: int, windows: list[tuple[int, int]]) -> Ints: ...
def curve_flops_rounded(
    lengths: Ints, per_token: int, per_square: int, per_pair: int, windows: list[tuple[int, int]]
) -> Floats: ...
def length_moments(lengths: Ints, windows: list[int]) -> tuple[int, int, list[int]]: ...
