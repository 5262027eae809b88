"""What is measured: each work as the package does it and as the reference does, and the rows of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

import flopbalance
import reference
from families import HARD, REAL, USUAL, Weights
from flopbalance import PublishedFlops, Schedule, _core

CAP = 36_864
FAMILY_CAP = 2**21
RANKS = 64
QWEN3_8B = {
    "num_layers": 36,
    "hidden_size": 4096,
    "ffn_hidden_size": 12288,
    "num_attention_heads": 32,
    "num_query_groups": 8,
    "kv_channels": 128,
    "vocab_size": 151936,
    "num_experts": None,
}
ARGS = SimpleNamespace(
    **QWEN3_8B,
    use_dynamic_batch_size=True,
    balance_data=True,
    balance_by_flops=True,
    micro_batch_size=None,
    max_tokens_per_gpu=CAP,
)


def refuse_debug_build() -> None:
    if _core.DEBUG_BUILD:
        raise SystemExit("flopbalance is a debug build: its times mean nothing. Install the release build: make bench")


@dataclass(frozen=True)
class Work:
    """One job; `ours` takes what `prepare` makes of the weights, outside the measured time."""

    name: str
    ours: Callable[[Any], Any]
    reference: Callable[[list], Any] | None
    """None where there is none: then the answer must be a plan within the cap."""
    prepare: Callable[[Weights], Any] = lambda weights: weights
    balances: str = "parts"
    """What should be equal: the weights of parts, or the FLOPs of ranks."""
    multiple: int = 1
    """Of which the number of samples must be one."""
    floor: float | None = None
    aim: float | None = None
    """Ratios to the stable sort of the same weights."""
    limit: float | None = None
    """Seconds."""

    def is_within_cap(self, weights: Weights, answer: Schedule) -> bool:
        """Whether every sample is in a micro-batch, none of which holds more than the cap."""
        placed = np.sort(answer.samples)
        return bool(
            np.array_equal(placed, np.arange(len(self.prepare(weights)))) and answer.micro_batch_tokens.max() <= CAP
        )

    def imbalance(self, weights: Weights, answer: Any) -> float | None:
        """How far the heaviest part or rank lies above the mean, in percent."""
        if self.balances == "nothing":
            return None
        groups = lists(answer)[0] if self.balances == "ranks" else lists(answer)
        costs = PublishedFlops(ARGS).flops(weights) if self.balances == "ranks" else weights.astype(float)
        loads = [costs[group].sum() for group in groups]
        mean = sum(loads) / len(loads)
        return max(0.0, 100 * (max(loads) / mean - 1)) if mean else 0.0


def lists(answer: Any) -> Any:
    """Any answer as nested lists, which are compared with the reference's."""
    if isinstance(answer, Schedule):
        return answer.to_lists()
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    if isinstance(answer, tuple) and isinstance(answer[0], np.ndarray):
        items, offsets = answer
        return [items[a:b].tolist() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    return answer


def partition(k: int, equal_size: bool, **goal: float) -> Work:
    return Work(
        f"Karmarkar-Karp, {'equal' if equal_size else 'unequal'}, k = {k:,}",
        lambda weights: _core.partition(weights, k, "equal" if equal_size else "free", True, False),
        lambda weights: reference.get_seqlen_balanced_partitions(weights, k, equal_size),
        multiple=k if equal_size else 1,
        **goal,
    )


def first_fit(cap: int, **goal: float) -> Work:
    return Work(
        f"first fit, cap {cap:,}",
        lambda lengths: _core.first_fit(lengths, cap, False),
        lambda lengths: reference.first_fit_pack(lengths, cap),
        balances="nothing",
        **goal,
    )


def longest_first(lengths: list, cap: int) -> list[list[int]]:
    order = sorted(range(len(lengths)), key=lambda sample: -lengths[sample])
    bins = reference.first_fit_pack([lengths[sample] for sample in order], cap)
    return [sorted(order[place] for place in items) for items in bins]


def small_step(equal_size: bool) -> Work:
    return Work(
        f"get_seqlen_balanced_partitions, lists, {'equal' if equal_size else 'unequal'}, k = 8",
        lambda weights: flopbalance.get_seqlen_balanced_partitions(weights, 8, equal_size),
        lambda weights: reference.get_seqlen_balanced_partitions(weights, 8, equal_size),
        prepare=lambda weights: weights.tolist(),
        limit=60e-6,
    )


def build(package: Any, lengths: list, ranks: int) -> Any:
    return package.build_dp_schedule(
        ARGS,
        {"dp_size": ranks, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1},
        lengths,
        global_batch_size=len(lengths),
        rollout_indices=list(range(len(lengths))),
    )


def schedule(ranks: int, **goal: float) -> Work:
    return Work(
        f"build_dp_schedule by FLOPs, lists, {ranks} ranks",
        lambda lengths: build(flopbalance, lengths, ranks),
        lambda lengths: build(reference, lengths, ranks),
        prepare=lambda lengths: lengths.tolist(),
        balances="ranks",
        **goal,
    )


def capped(samples: int, ranks: int, objective: str, effort: int | None = None, **goal: float) -> Work:
    """A plan of the first so many samples."""
    searched = "" if effort is None else f", effort {effort}"
    options = {} if effort is None else {"effort": effort}
    return Work(
        f"plan within the cap, {samples:,} samples, {ranks:,} ranks, {objective}{searched}",
        lambda lengths: flopbalance.plan(
            lengths,
            costs=PublishedFlops(ARGS),
            dp_size=ranks,
            max_tokens=CAP,
            packing="capped",
            objective=objective,
            **options,
        ),
        None,
        prepare=lambda lengths: lengths[:samples],
        balances="nothing",
        **goal,
    )


DESCENT = 64
"""The effort that rows take without the search behind their descent."""
PLAN = Work(
    f"plan by FLOPs, arrays, {RANKS} ranks",
    lambda lengths: flopbalance.plan(
        lengths, costs=PublishedFlops(ARGS), dp_size=RANKS, max_tokens=CAP, packing="flops"
    ),
    lambda lengths: build(reference, lengths, RANKS),
    balances="ranks",
    floor=1.5,
    aim=1.0,
)
PACK = Work(
    "pack, longest first",
    lambda lengths: flopbalance.pack(lengths, CAP),
    lambda lengths: longest_first(lengths, CAP),
    balances="nothing",
)
FLOPS = Work(
    "FLOPs of every length",
    lambda lengths: PublishedFlops(ARGS).flops(lengths),
    lambda lengths: [reference.calculate_fwd_flops([length], ARGS) for length in lengths],
    balances="nothing",
    aim=0.1,
)
HEADLINE = [
    partition(8, True, floor=0.45, aim=0.3),
    partition(64, True, floor=0.38, aim=0.25),
    partition(512, True, floor=0.40, aim=0.25),
    partition(8, False, floor=0.45, aim=0.3),
    partition(64, False, floor=0.38, aim=0.25),
    partition(512, False, floor=0.43, aim=0.3),
    partition(3000, False, floor=0.65, aim=0.4),
    partition(25_938, False, floor=0.75, aim=0.45),
    first_fit(CAP, floor=0.7, aim=0.5),
    PLAN,
    schedule(RANKS, floor=3.7, aim=2.8, limit=1.0),
    FLOPS,
    capped(1024, 32, "step", floor=0.2, aim=0.1),
    capped(1024, 32, "micro-batch", DESCENT, floor=0.45, aim=0.2),
    capped(1024, 32, "micro-batch"),
    capped(16_384, 64, "step", floor=2.5, aim=1.5),
    capped(16_384, 1024, "step", floor=9, aim=3),
    capped(100_000, 64, "step", floor=14, aim=7),
    PACK,
]
SIZES = {256: 8, 10_000: 64, 100_000: 64}
"""Samples, and the parts they go into."""
WHOLE = [name for name in (*USUAL, *HARD) if name not in ("near_2_63", "near_2_64", "inexact")]
"""Families that can be token counts."""


def rows() -> list[tuple[Work, str, int]]:
    """Work, family and number of samples of every row."""
    usual_and_hard = (*USUAL, *HARD)
    all_rows = [(work, "synth_rl_32k_g8", 100_000) for work in HEADLINE]
    all_rows += [(small_step(equal_size), "log_normal", 256) for equal_size in (True, False)]
    all_rows += [(schedule(8, limit=1e-3), "log_normal", 1024), (schedule(32), "log_normal", 4096)]
    for n, k in SIZES.items():
        all_rows += [(partition(k, equal_size), name, n) for equal_size in (True, False) for name in usual_and_hard]
        all_rows += [(first_fit(2**47 if name == "powers_of_two" else FAMILY_CAP), name, n) for name in WHOLE]
    all_rows += [(partition(3000, False), name, 100_000) for name in usual_and_hard]
    all_rows += [(partition(k, False), "log_normal", 100_000) for k in (1, 99_999, 100_000)]
    all_rows += [(work, name, 100_000) for work in (partition(64, False), first_fit(CAP)) for name in REAL]
    unique: dict[tuple[str, str, int], tuple[Work, str, int]] = {}
    for work, name, n in all_rows:
        unique.setdefault((work.name, name, n), (work, name, n // work.multiple * work.multiple))
    return list(unique.values())
