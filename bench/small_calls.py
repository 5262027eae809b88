"""Every published function beside plain Python, from one sample up; a part of `make bench`, and a gate.

Both run in turn in one process, on lists of Python's own numbers as trainers hold them. Fails where the package is
slower.
"""

from __future__ import annotations

import functools
import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np

import flopbalance
import reference
from families import log_normal
from record import seconds, show, write
from works import ARGS, CAP, refuse_debug_build

SIZES = (1, 4, 16, 32, 256, 1024, 4096)
NOISE = 1.05
"""A ratio up to this counts as no slower."""
BATCH, ROUNDS, FEWEST, PATIENCE = 2e-4, 41, 5, 0.5
"""Seconds of a batch of calls; batches of each side, and how few where they take longer than so many seconds."""


def but(args: SimpleNamespace, **changes: Any) -> SimpleNamespace:
    return SimpleNamespace(**vars(args) | changes)


IN_TURN = {"balance_data": False, "balance_by_flops": False}
STATIC = but(ARGS, use_dynamic_batch_size=False, micro_batch_size=1, **IN_TURN)
EXPERTS = but(
    ARGS,
    num_layers=61,
    num_experts=256,
    moe_layer_freq=[0] * 3 + [1] * 58,
    moe_ffn_hidden_size=2048,
    moe_router_topk=8,
    moe_shared_expert_intermediate_size=2048,
    multi_latent_attention=True,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_head_dim=128,
    qk_pos_emb_head_dim=64,
    v_head_dim=128,
)


class Config(Mapping):
    """A mapping of somebody's own, whose items are its attributes too."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def with_properties(values: dict[str, Any]) -> Any:
    """Return an object of a class that works its fields out."""
    properties = {name: property(lambda self, value=value: value) for name, value in values.items()}
    return type("Computed", (), properties)()


def of_numpy(values: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**{name: np.int64(value) if type(value) is int else value for name, value in values.items()})


KINDS = {"NumPy's integers": of_numpy, "properties": with_properties, "mapping of its own": Config}


@dataclass(frozen=True)
class Call:
    """A published function and what it is given for lengths."""

    name: str
    what: str
    given: Callable[[list[int]], tuple]
    keywords: Callable[[list[int]], dict[str, Any]] = lambda lengths: {}
    aims: dict[int, float] = field(default_factory=dict)
    """Seconds, by the number of samples, on a machine with nothing else to do."""

    def seconds(self, package: Any, lengths: list[int], count: int) -> float:
        """Return the seconds of a call, of `count` that get arguments of their own."""
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


def flops(what: str, args: Any, **more: Any) -> Call:
    return Call("calculate_fwd_flops", what, lambda lengths: (lengths, args), **more)


def partition(name: str, equal_size: bool, number: type = int) -> Call:
    what = f"{'equal' if equal_size else 'unequal'}{', floats' if number is float else ''}"
    return Call(name, what, lambda lengths: (list(map(number, lengths)), parts(lengths), equal_size))


def schedule(what: str, args: Any, **more: Any) -> Call:
    def given(lengths: list[int]) -> tuple:
        ranks = {"dp_size": parts(lengths), "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
        return args, ranks, lengths

    def keywords(lengths: list[int]) -> dict[str, Any]:
        return {"global_batch_size": len(lengths), "rollout_indices": list(range(len(lengths)))}

    return Call("build_dp_schedule", what, given, keywords, **more)


CALLS = (
    flops("dense", ARGS, aims={1: 1.5e-6}),
    flops("latent, experts", EXPERTS),
    Call("first_fit_pack", "", lambda lengths: (lengths, CAP), aims={4: 1e-6}),
    Call("expand_bins_by_splitting", "", lambda lengths: ([list(range(len(lengths)))], parts(lengths), lengths)),
    Call("get_reverse_idx", "", lambda lengths: (shuffled(len(lengths)),)),
    partition("get_seqlen_balanced_partitions", equal_size=False),
    partition("get_seqlen_balanced_partitions", equal_size=True),
    partition("karmarkar_karp", equal_size=False),
    partition("karmarkar_karp", equal_size=False, number=float),
    schedule("static, in turn", STATIC),
    schedule("first fit, in turn", but(ARGS, **IN_TURN)),
    schedule("first fit, balanced", but(ARGS, balance_by_flops=False)),
    schedule("by FLOPs", ARGS, aims={16: 50e-6, 256: 120e-6}),
    schedule("by FLOPs, latent, experts", EXPERTS),
    *(flops(kind, make(vars(ARGS))) for kind, make in KINDS.items()),
    *(schedule(f"by FLOPs, {kind}", make(vars(ARGS))) for kind, make in KINDS.items()),
)


def measured(call: Call, samples: int) -> dict[str, Any]:
    lengths = log_normal(samples).tolist()
    slow, fast = (min(call.seconds(package, lengths, 1) for _ in range(2)) for package in (reference, flopbalance))
    rounds = max(FEWEST, min(ROUNDS, int(PATIENCE / (slow + fast))))
    plain, ours = [], []
    for _ in range(rounds):
        plain.append(call.seconds(reference, lengths, max(1, int(BATCH / slow))))
        ours.append(call.seconds(flopbalance, lengths, max(1, int(BATCH / fast))))
    return {
        "function": call.name,
        "of": call.what,
        "samples": samples,
        "plain_seconds": median(plain),
        "seconds": median(ours),
        "ratio": median(ours) / median(plain),
        "aim_seconds": call.aims.get(samples),
    }


def words(row: dict[str, Any]) -> dict[str, str]:
    return {
        "function": row["function"],
        "of": row["of"],
        "samples": f"{row['samples']:,}",
        "plain Python": seconds(row["plain_seconds"]),
        "flopbalance": seconds(row["seconds"]),
        "ratio": f"{row['ratio']:.3f}",
        "aim": seconds(row["aim_seconds"]) if row["aim_seconds"] else "",
    }


def main() -> int:
    refuse_debug_build()
    gc.disable()
    rows = [measured(call, samples) for call in CALLS for samples in SIZES]
    show(list(map(words, rows)))
    write("small-calls", rows)
    slower = [row for row in rows if row["ratio"] > NOISE]
    for row in slower:
        print(f"slower than plain Python: {row['function']} ({row['of']}), {row['samples']} samples")
    return int(bool(slower))


if __name__ == "__main__":
    sys.exit(main())
