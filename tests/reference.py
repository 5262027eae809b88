"""The published behaviour in plain Python, written to be read: the oracle of the tests and a rival in the benchmarks.

No speed is bought with a line that needs explaining. Every sum runs from left to right by hand: the built-in `sum`
compensates floats from Python 3.12 on, and these orders decide the rounding.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

Number = int | float


# -- pipelines ------------------------------------------------------------------------------------------------------


def pipeline_end(costs: Sequence[int | Fraction], stages: int, chunks: int = 1, group: int | None = None) -> Fraction:
    """Return when a pipeline ends, exactly: every pass starts when its stage is free and the pass before it is done."""
    p, v, g, m = stages, chunks, group or stages, len(costs)
    ends: dict[tuple[str, int, int, int], Fraction] = {}  # of the pass forward or back on a stage, of a chunk
    free = [Fraction(0)] * p
    left = [_passes(s, p, v, g, m) for s in range(p)]
    while any(left):
        for s in range(p):
            while left[s]:
                back, j, c = left[s][0]
                if back:
                    before = ("B", s + 1, j, c) if s < p - 1 else ("B", 0, j, c + 1) if c < v - 1 else ("F", s, j, c)
                else:
                    before = ("F", s - 1, j, c) if s else ("F", p - 1, j, c - 1)
                if before not in ends and (back or s or c):
                    break
                takes = Fraction(costs[j]) * (2 if back else 1) / 3 / v
                free[s] = max(free[s], ends.get(before, Fraction(0))) + takes
                ends["B" if back else "F", s, j, c] = free[s]
                left[s].pop(0)
    return max(free)


def _passes(s: int, p: int, v: int, g: int, m: int) -> list[tuple[bool, int, int]]:
    """Return the passes of a stage in its order: whether back, the micro-batch and the chunk."""
    ahead = min(p - 1 - s if v == 1 else 2 * (p - 1 - s) + (v - 1) * g, m * v)
    forward = [(False, first + j, c) for first in range(0, m, g) for c in range(v) for j in range(min(g, m - first))]
    back = [(True, j, v - 1 - c) for _, j, c in forward]
    turns = [one for pair in zip(forward[ahead:], back, strict=False) for one in pair]
    return forward[:ahead] + turns + back[m * v - ahead :]


# -- Karmarkar-Karp -------------------------------------------------------------------------------------------------
# A set is (sum, item count, first item, items), so tuples compare as sets must and never reach the items. A state is
# the ascending list of its non-empty sets; the empty ones, all alike, are counted as k - len(state).


def karmarkar_karp(weights: Sequence[Number], k: int, equal_size: bool) -> list[list[int]]:
    """Parts from the heaviest to the lightest, items in insertion order."""
    items = sorted(range(len(weights)), key=lambda i: (weights[i], i))
    sets = [(weights[i], 1, i, [i]) for i in items]
    size = k if equal_size else 1
    states = [queued(sets[i : i + size], k) for i in range(0, len(sets), size)]
    heapq.heapify(states)
    while len(states) > 1:
        *_, a = heapq.heappop(states)
        *_, b = heapq.heappop(states)
        heapq.heappush(states, queued(merged(a, b, weights, k), k))
    *_, last = states[0]
    parts = [part for *_, part in reversed(last)]
    return parts + [[] for _ in range(k - len(parts))]


def queued(state: list, k: int) -> tuple:
    """Let the larger spread come first; at equal spread the state whose first set is larger."""
    total, count, first, _ = state[-1]
    lightest = state[0][0] if len(state) == k else 0
    return lightest - total, -total, -count, -first, state


def merged(a: list, b: list, weights: Sequence[Number], k: int) -> list:
    """Join the heaviest set of b to the lightest of a, and so on; where one of the two is empty the other stays."""
    pairs = max(0, len(a) + len(b) - k)
    fewer, state = sorted((a[pairs:], b[pairs:]), key=len)
    both = [joined(light, heavy, weights) for light, heavy in zip(a[:pairs], reversed(b[:pairs]), strict=True)]
    for one in fewer + both:
        insort(state, one)
    return state


def joined(a: tuple, b: tuple, weights: Sequence[Number]) -> tuple:
    total, count, first, items = a
    for i in b[3]:
        total += weights[i]
    return total, count + b[1], first, items + b[3]


def get_seqlen_balanced_partitions(weights: Sequence[Number], k: int, equal_size: bool) -> list[list[int]]:
    return [sorted(part) for part in karmarkar_karp(weights, k, equal_size)]


# -- packing --------------------------------------------------------------------------------------------------------


def first_fit_pack(lengths: Sequence[int], cap: int) -> list[list[int]]:
    bins: list[list[int]] = []
    totals: list[int] = []
    for i, length in enumerate(lengths):
        for b, total in enumerate(totals):
            if total + length <= cap:
                bins[b].append(i)
                totals[b] += length
                break
        else:
            bins.append([i])
            totals.append(length)
    return bins


def expand_bins_by_splitting(bins: list[list[int]], target: int, lengths: Sequence[int]) -> None:
    """Split the heaviest bin (the last of equals) in two until there are enough; works in place."""
    totals = [sum(lengths[i] for i in b) for b in bins]
    while len(bins) < target:
        splittable = [b for b in range(len(bins)) if len(bins[b]) >= 2]
        if not splittable:
            return
        heaviest = max(splittable, key=lambda b: (totals[b], b))
        halves, sums = ([], []), [0, 0]
        for i in sorted(bins[heaviest], key=lambda i: -lengths[i]):
            half = 0 if sums[0] <= sums[1] else 1
            halves[half].append(i)
            sums[half] += lengths[i]
        bins[heaviest], totals[heaviest] = halves[0], sums[0]
        bins.append(halves[1])
        totals.append(sums[1])


def get_reverse_idx(idx_map: Sequence[int]) -> list[int]:
    inverse = [0] * len(idx_map)
    for position, i in enumerate(idx_map):
        inverse[i] = position
    return inverse


# -- FLOPs ----------------------------------------------------------------------------------------------------------


def calculate_fwd_flops(seqlens: Sequence[int], args: Any) -> float:
    return float(sum(flops(s, args) for s in seqlens)) if seqlens else 0


def flops(s: int, args: Any) -> int:
    h, a, d = args.hidden_size, args.num_attention_heads, args.kv_channels
    mla = getattr(args, "multi_latent_attention", False)
    dq = args.qk_head_dim + args.qk_pos_emb_head_dim if mla else d
    dv = args.v_head_dim if mla else d
    query = 2 * s * h * a * dq
    if mla and args.q_lora_rank is not None:
        query = 2 * s * args.q_lora_rank * (h + a * dq)
    keys = 4 * s * h * args.num_query_groups * d
    if mla and args.kv_lora_rank is not None:
        compressed = args.kv_lora_rank * (h + a * (args.qk_head_dim + args.v_head_dim))
        keys = 2 * s * (compressed + h * args.qk_pos_emb_head_dim)
    attention = a * s**2 * dq + a * s**2 * dv
    layer = query + keys + attention + 2 * s * h**2
    dense, moe = layer_counts(args)
    total = dense * (layer + 6 * s * h * args.ffn_hidden_size) + 2 * s * h * args.vocab_size
    if moe:
        shared = getattr(args, "moe_shared_expert_intermediate_size", None) or 0
        total += moe * (layer + 6 * s * h * (args.moe_ffn_hidden_size * args.moe_router_topk + shared))
    return total


def layer_counts(args: Any) -> tuple[int, int]:
    """Count the dense and the mixture-of-experts layers."""
    layers = args.num_layers
    if args.num_experts is None:
        return layers, 0
    freq = getattr(args, "moe_layer_freq", None)
    if freq is None:
        return 0, layers
    if isinstance(freq, int):
        freq = [i % freq == 0 for i in range(layers)]
    moe = sum(f > 0 for f in freq)
    return layers - moe, moe


# -- the schedule ---------------------------------------------------------------------------------------------------

Lists = tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]


def build_dp_schedule(
    args: Any,
    train_parallel_config: dict[str, int],
    total_lengths: Sequence[int],
    *,
    global_batch_size: int,
    rollout_indices: Sequence[int],
) -> Lists:
    parallel = train_parallel_config
    interleaved = parallel["vpp_size"] > 1
    packing = "flops" if args.balance_by_flops else "first-fit"
    if not args.use_dynamic_batch_size:
        packing = "fixed"
    return plan(
        total_lengths,
        lambda samples: calculate_fwd_flops([total_lengths[i] for i in samples], args),
        dp_size=parallel["dp_size"],
        max_tokens=args.max_tokens_per_gpu * parallel["cp_size"] if args.use_dynamic_batch_size else None,
        micro_batch_size=args.micro_batch_size,
        rollout_ids=rollout_indices,
        global_batch_size=global_batch_size,
        micro_batch_multiple=parallel["microbatch_group_size_per_vp_stage"] if interleaved else 1,
        packing=packing,
        balance_ranks=args.balance_data,
    )


def plan(
    lengths: Sequence[int],
    cost: Callable[[list[int]], Number],
    *,
    dp_size: int,
    max_tokens: int | None = None,
    micro_batch_size: int | None = None,
    rollout_ids: Sequence[int],
    global_batch_size: int,
    micro_batch_multiple: int = 1,
    packing: str = "first-fit",
    balance_ranks: bool = True,
) -> Lists:
    """Plan every step; `cost` is that of a list of samples."""
    rollouts: dict[int, list[int]] = {}
    for i, rollout in enumerate(rollout_ids):
        rollouts.setdefault(rollout, []).append(i)
    in_order = list(rollouts.values())
    steps = len(in_order) // global_batch_size
    if not steps:
        raise ValueError("num_rollouts must be at least global_batch_size")

    partitions: list[list[int]] = [[] for _ in range(dp_size)]
    micro_batch_indices: list[list[list[int]]] = [[] for _ in range(dp_size)]
    num_microbatches = []
    for step in range(steps):
        samples = [i for r in in_order[step * global_batch_size : (step + 1) * global_batch_size] for i in r]
        if len(samples) < dp_size:
            raise ValueError("a step has fewer samples than ranks")
        micro_batches = packed(samples, lengths, cost, packing, max_tokens, micro_batch_size)
        group = dp_size * micro_batch_multiple
        count = -(-len(micro_batches) // group) * group
        if packing != "fixed":
            expand_bins_by_splitting(micro_batches, count, lengths)
        if len(micro_batches) != count:
            raise ValueError("the number of micro-batches cannot be aligned")
        num_microbatches.append(count // dp_size)
        if balance_ranks:
            dealt = get_seqlen_balanced_partitions([cost(m) for m in micro_batches], dp_size, True)
        else:
            dealt = [list(range(rank, count, dp_size)) for rank in range(dp_size)]
        for rank, numbers in enumerate(dealt):
            for number in numbers:
                start = len(partitions[rank])
                partitions[rank] += micro_batches[number]
                micro_batch_indices[rank].append(list(range(start, len(partitions[rank]))))
    return partitions, micro_batch_indices, num_microbatches, [global_batch_size] * steps


def packed(
    samples: list[int],
    lengths: Sequence[int],
    cost: Callable[[list[int]], Number],
    packing: str,
    max_tokens: int | None,
    micro_batch_size: int | None,
) -> list[list[int]]:
    """Pack the samples of one step into micro-batches."""
    n = len(samples)
    tokens = [lengths[i] for i in samples]
    if packing == "fixed":
        positions = [list(range(n))[i : i + micro_batch_size] for i in range(0, n, micro_batch_size)]
    elif packing == "first-fit":
        positions = first_fit_pack(tokens, max_tokens)
    else:
        count = max(1, -(-sum(tokens) // max_tokens))
        if count >= n:
            positions = [[i] for i in range(n)]
        else:
            positions = get_seqlen_balanced_partitions([cost([i]) for i in samples], count, False)
    return [[samples[i] for i in micro_batch] for micro_batch in positions]
