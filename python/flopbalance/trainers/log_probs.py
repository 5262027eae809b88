"""Micro-batches for passes that only compute log-probabilities, which fit more tokens than training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from flopbalance.checks import as_items, as_lengths, shown
from flopbalance.errors import ScheduleError
from flopbalance.fields import Fields
from flopbalance.planning.packing import expand_bins_by_splitting, first_fit_pack
from flopbalance.schedules.lists import as_partition
from flopbalance.trainers.modes import micro_batch_multiple, token_cap


def build_log_probs_schedule(
    args: Any,
    train_parallel_config: Any,
    total_lengths: npt.ArrayLike,
    partitions: Sequence[npt.ArrayLike],
) -> tuple[list[list[list[int]]], list[int]]:
    """Pack the samples that every rank has into micro-batches of ``log_probs_max_tokens_per_gpu``.

    Samples stay on the ranks where `build_dp_schedule` put them. Nothing is learnt between the steps of such a pass, so
    that all of a rank's samples make one.

    Parameters
    ----------
    args : namespace or mapping
        The trainer's arguments, with ``use_dynamic_batch_size``: ``log_probs_max_tokens_per_gpu``, which is
        ``max_tokens_per_gpu`` where absent.
    train_parallel_config : mapping or namespace
        As for `build_dp_schedule`.
    total_lengths : array_like of shape (n,)
        Tokens per sample, whole numbers >= 0.
    partitions : list of list of int
        Global sample indices of each rank, of `build_dp_schedule`.

    Returns
    -------
    micro_batch_indices : list of list of list of int
        Micro-batches of each rank, as many on each, as positions in its partition. First fit in their order, then the
        largest are split where a rank has too few.
    num_microbatches : list of int
        Their number, of the one step.

    Raises
    ------
    ValueError
        For an argument that is missing or breaks its rule.
    ScheduleError
        A rank has fewer samples than another needs micro-batches, or fewer than whole groups of them.

    Notes
    -----
    O(n log n).

    Examples
    --------
    >>> args = dict(use_dynamic_batch_size=True, max_tokens_per_gpu=8, log_probs_max_tokens_per_gpu=12)
    >>> parallel = dict(dp_size=2, cp_size=1, vpp_size=1, microbatch_group_size_per_vp_stage=1)
    >>> build_log_probs_schedule(args, parallel, [7, 2, 5, 4, 3], [[0, 3], [1, 2, 4]])
    ([[[0, 1]], [[0, 1, 2]]], [1])
    """
    lengths = as_lengths(total_lengths, "total_lengths")
    trainer, parallel = Fields(args, "args"), Fields(train_parallel_config, "train_parallel_config")
    if not trainer.flag("use_dynamic_batch_size"):
        given = shown(trainer.get("use_dynamic_batch_size"))
        raise ValueError(
            f"{trainer.name('use_dynamic_batch_size')} must be True where micro-batches are made by tokens, got {given}"
        )
    per_gpu = trainer.get("log_probs_max_tokens_per_gpu")
    field = "max_tokens_per_gpu" if per_gpu is None else "log_probs_max_tokens_per_gpu"
    max_tokens = token_cap(trainer.size(field), parallel.size("cp_size"))
    multiple = micro_batch_multiple(parallel)
    parts = as_items(partitions, "partitions", "a list of samples for each rank")
    of_ranks = [lengths[as_partition(partition, rank, len(lengths))] for rank, partition in enumerate(parts)]
    micro_batches = [first_fit_pack(of_rank, max_tokens) for of_rank in of_ranks]
    needed = max(map(len, micro_batches), default=0)
    if not needed:
        raise ScheduleError("partitions must hold a sample, got none")
    count = -(-needed // multiple) * multiple
    for rank, (batches, of_rank) in enumerate(zip(micro_batches, of_ranks, strict=True)):
        if len(of_rank) < count:
            raise ScheduleError(
                f"partitions[{rank}] must hold at least {count} samples, one for each micro-batch of a rank, got "
                f"{len(of_rank)}"
            )
        expand_bins_by_splitting(batches, count, of_rank)
        if not all(batches):
            raise ScheduleError(
                f"total_lengths of partitions[{rank}] must be > 0 where a micro-batch is split, got samples of 0 tokens"
            )
    return micro_batches, [count]
