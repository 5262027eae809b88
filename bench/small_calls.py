"""Every published function beside plain Python, from one sample up; a part of `make bench`, and a gate.

Both run in turn in one process, on lists of Python's own numbers as trainers hold them. Fails where the package is
slower.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np

import flopbalance
import reference
from families import log_normal
from record import seconds, show, write
from works import ARGS, refuse_debug_build

SIZES = (1, 4, 32, 256, 1024, 4096)
NOISE = 1.05
"""A ratio up to this counts as no slower."""
BATCH, ROUNDS, FEWEST = 2e-4, 41, 5
"""Seconds of a batch of calls; batches of each side, and fewer where one call takes long."""
PATIENCE = 0.5

DYNAMIC = ARGS
STATIC = SimpleNamespace(**vars(ARGS) | {"use_dynamic_batch_size": False, "micro_batch_size": 1})
EXPERTS = SimpleNamespace(
    **vars(ARGS)
    | {
        "num_layers": 61,
        "num_experts": 256,
        "moe_layer_freq": [0] * 3 + [1] * 58,
        "moe_ffn_hidden_size": 2048,
        "moe_router_topk": 8,
        "moe_shared_expert_intermediate_size": 2048,
        "multi_latent_attention": True,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_head_dim": 128,
        "qk_pos_emb_head_dim": 64,
        "v_head_dim": 128,
    }
)


def but(args: SimpleNamespace, **changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**vars(args) | changes)


@dataclass(frozen=True)
class Call:
    """A published function and what it is given for lengths."""

    name: str
    given: Callable[[list[int]], tuple]
    what: str = ""
    keywords: Callable[[list[int]], dict[str, Any]] = lambda lengths: {}

    def side(self, package: Any, lengths: list[int], count: int) -> float:
        """Seconds per call, of `count` calls that each get arguments of their own."""
        function = getattr(package, self.name)
        calls = [(self.given(lengths), self.keywords(lengths)) for _ in range(count)]
        start = time.perf_counter()
        for arguments, keywords in calls:
            function(*arguments, **keywords)
        return (time.perf_counter() - start) / count


@functools.cache
def shuffled(count: int) -> list[int]:
    return np.random.default_rng(1).permutation(count).tolist()


def parts(lengths: list[int]) -> int:
    return min(8, len(lengths))


def schedule(what: str, args: SimpleNamespace) -> Call:
    return Call(
        "build_dp_schedule",
        lambda lengths: (
            args,
            {"dp_size": parts(lengths), "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1},
            lengths,
        ),
        what,
        lambda lengths: {"global_batch_size": len(lengths), "rollout_indices": list(range(len(lengths)))},
    )


CALLS = (
    Call("calculate_fwd_flops", lambda lengths: (lengths, ARGS), "dense"),
    Call("calculate_fwd_flops", lambda lengths: (lengths, EXPERTS), "latent, experts"),
    Call("first_fit_pack", lambda lengths: (lengths, 36_864)),
    Call("expand_bins_by_splitting", lambda lengths: ([list(range(len(lengths)))], parts(lengths), lengths)),
    Call("get_reverse_idx", lambda lengths: (shuffled(len(lengths)),)),
    Call("get_seqlen_balanced_partitions", lambda lengths: (lengths, parts(lengths), False), "unequal"),
    Call("get_seqlen_balanced_partitions", lambda lengths: (lengths, parts(lengths), True), "equal"),
    Call("karmarkar_karp", lambda lengths: (lengths, parts(lengths), False), "unequal"),
    Call("karmarkar_karp", lambda lengths: (list(map(float, lengths)), parts(lengths), False), "floats"),
    schedule("static, in turn", but(STATIC, balance_data=False, balance_by_flops=False)),
    schedule("first fit, in turn", but(DYNAMIC, balance_data=False, balance_by_flops=False)),
    schedule("first fit, balanced", but(DYNAMIC, balance_by_flops=False)),
    schedule("by FLOPs", DYNAMIC),
    schedule("by FLOPs, experts", EXPERTS),
)


def measured(call: Call, samples: int) -> dict[str, Any]:
    lengths = log_normal(samples).tolist()
    once = [call.side(package, lengths, 1) for package in (reference, flopbalance) for _ in range(2)]
    slow, fast = min(once[:2]), min(once[2:])
    rounds = max(FEWEST, min(ROUNDS, int(PATIENCE / (slow + fast))))
    plain, ours = [], []
    for _ in range(rounds):
        plain.append(call.side(reference, lengths, max(1, int(BATCH / slow))))
        ours.append(call.side(flopbalance, lengths, max(1, int(BATCH / fast))))
    return {
        "function": call.name,
        "of": call.what,
        "samples": samples,
        "plain_seconds": median(plain),
        "seconds": median(ours),
        "ratio": median(ours) / median(plain),
    }


def words(row: dict[str, Any]) -> dict[str, str]:
    return {
        "function": row["function"],
        "of": row["of"],
        "samples": f"{row['samples']:,}",
        "plain Python": seconds(row["plain_seconds"]),
        "flopbalance": seconds(row["seconds"]),
        "ratio": f"{row['ratio']:.3f}",
    }


def main() -> int:
    refuse_debug_build()
    gc.disable()
    rows = [measured(call, samples) for call in CALLS for samples in SIZES]
    show(list(map(words, rows)))
    slower = [row for row in rows if row["ratio"] > NOISE]
    for row in slower:
        print(f"slower than plain Python: {row['function']} ({row['of']}) of {row['samples']}")
    write("small-calls", rows)
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
