"""The schedule that trainers build today, under its published name."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy.typing as npt

from flopbalance import _core
from flopbalance.costs.sources import select_flops_model
from flopbalance.fields import Fields, remembered
from flopbalance.planning.plan import PlanRequest, as_request
from flopbalance.trainers.modes import CHOICES, chosen_mode, micro_batch_multiple, plan_choices, token_cap


def build_dp_schedule(
    args: Any,
    train_parallel_config: Any,
    total_lengths: npt.ArrayLike,
    *,
    global_batch_size: int,
    rollout_indices: npt.ArrayLike | Sequence[Hashable],
) -> tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]:
    """Build the published data-parallel schedule, index for index, as nested lists.

    Parameters
    ----------
    args : namespace or mapping
        The trainer's arguments: ``use_dynamic_batch_size``, ``balance_data``, ``balance_by_flops`` and
        ``balance_within_cap`` (False where absent), ``max_tokens_per_gpu`` with dynamic batching, ``micro_batch_size``
        without, and the model's shape as `calculate_fwd_flops` reads it where anything is balanced. Any other
        ``flops_model`` than ``"published"`` is what `select_flops_model` takes: ``"exact"``, ``"hf_checkpoint"``, a
        saved cost, a Hugging Face folder, an object with ``flops(lengths)``. With that, ``balance_within_cap``,
        ``balance_objective`` or one of `plan`'s ``on_...`` the schedule is no longer the published one. The objective
        ``"pipeline"`` reads the stages from ``pipeline_model_parallel_size``, and is interleaved where ``vpp_size`` is
        above 1. Within the cap, ``micro_batch_overhead``, ``micro_batches_per_rank`` and
        ``min_micro_batches_per_rank`` say how many micro-batches there are.
    train_parallel_config : mapping or namespace
        ``dp_size``; ``cp_size`` with dynamic batching; ``vpp_size`` (1 where absent or None) and, where that is above
        1, ``microbatch_group_size_per_vp_stage``.
    total_lengths : array_like of shape (n,)
        Tokens per sample, whole numbers >= 0.
    global_batch_size : int
        Rollouts in a step.
    rollout_indices : array_like or sequence of shape (n,)
        The rollout of each sample, as for `plan`.

    Returns
    -------
    partitions : list of list of int
        Global sample indices of each rank.
    micro_batch_indices : list of list of list of int
        Micro-batches of each rank over all steps, as positions in its partition.
    num_microbatches : list of int
        Micro-batches per rank in each step.
    global_batch_sizes : list of int
        Rollouts in each step.

    Raises
    ------
    ValueError
        For an argument that is missing or breaks its rule; also for ``on_shortage="repeat"``, since these lists cannot
        mark the samples that are repeated.
    ScheduleError
        Where `plan` refuses; also an ``AssertionError``.

    See Also
    --------
    plan : The same schedule without lists.
    build_log_probs_schedule : Micro-batches of the same ranks for passes that only compute log-probabilities.

    Notes
    -----
    O(n log n) time; the lists cost more than the planning. With ``balance_by_flops`` the token cap decides how many
    micro-batches there are, but **a micro-batch may exceed it** and run out of memory.

    Examples
    --------
    >>> args = dict(num_layers=2, hidden_size=16, num_attention_heads=2, num_query_groups=2, kv_channels=8,
    ...             ffn_hidden_size=64, vocab_size=32, num_experts=None, micro_batch_size=1, balance_data=True)
    >>> parallel = dict(dp_size=2, cp_size=1, vpp_size=1, microbatch_group_size_per_vp_stage=1)
    >>> partitions, micro_batches, num_microbatches, global_batch_sizes = build_dp_schedule(
    ...     args, parallel, [1, 2, 3, 4, 5, 7, 9, 10], global_batch_size=8, rollout_indices=range(8))
    >>> partitions
    [[1, 2, 5, 6], [0, 3, 4, 7]]
    """
    request, flops_model = _settings(args, train_parallel_config)
    costs = None if flops_model is None else select_flops_model(args, flops_model, name="args.flops_model")
    return _core.dp_schedule(total_lengths, rollout_indices, global_batch_size, costs, request)


@remembered("args", "train_parallel_config")
def _settings(trainer: Fields, parallel: Fields) -> tuple[PlanRequest, Any]:
    """Return what is asked of `plan`, and which cost is meant where anything is balanced."""
    if trainer.get("on_shortage") == "repeat":
        raise ValueError(
            "args.on_shortage must be 'error', got 'repeat': these lists cannot mark the samples that are repeated, so "
            "that a trainer would count them twice; use plan(...) and Schedule.is_padding"
        )
    mode = chosen_mode(trainer)
    max_tokens = micro_batch_size = None
    if mode.packing == "fixed":
        micro_batch_size = trainer.size("micro_batch_size")
    else:
        max_tokens = token_cap(
            trainer.size("max_tokens_per_gpu"), parallel.size("cp_size"), trainer.name("max_tokens_per_gpu")
        )
    flops_model = None
    if mode.balance_ranks or mode.packing == "flops":
        given = trainer.get("flops_model")
        flops_model = "published" if given is None else given
    request = as_request(
        _NAMES,
        dp_size=parallel.size("dp_size"),
        max_tokens=max_tokens,
        micro_batch_size=micro_batch_size,
        micro_batch_multiple=micro_batch_multiple(parallel),
        packing=mode.packing,
        balance_ranks=mode.balance_ranks,
        **(_pipeline(trainer, parallel) if mode.objective == "pipeline" else {}),
        **plan_choices(trainer),
    )
    return request, flops_model


def _pipeline(trainer: Fields, parallel: Fields) -> dict[str, Any]:
    """Return the pipeline of each rank as arguments of `plan`."""
    stages, chunks = trainer.size("pipeline_model_parallel_size"), parallel.size_or("vpp_size", 1)
    group = micro_batch_multiple(parallel) if chunks > 1 else None
    return {"pipeline_stages": stages, "chunks": chunks, "group": group}


_NAMES = {
    "lengths": "total_lengths",
    "rollout_ids": "rollout_indices",
    "max_tokens": "args.max_tokens_per_gpu x cp_size",
    "micro_batch_size": "args.micro_batch_size",
    "micro_batch_multiple": "microbatch_group_size_per_vp_stage",
    "pipeline_stages": "args.pipeline_model_parallel_size",
    "chunks": "vpp_size",
    "group": "microbatch_group_size_per_vp_stage",
    **{keyword: f"args.{field}" for field, keyword in CHOICES.items()},
}
"""What trainers call the arguments of `plan`."""
