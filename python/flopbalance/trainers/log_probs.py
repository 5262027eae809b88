"""Micro-batches for passes that only compute log-probabilities, which fit more tokens than training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from flopbalance.checks import Ints, as_lengths, shown
from flopbalance.errors import ScheduleError
from flopbalance.fields import Fields
from flopbalance.planning.packing import expand_bins_by_splitting, first_fit_pack
from flopbalance.schedules.lists import as_partitions
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
        As for `build_dp_schedule`; ``dp_size`` may be absent.
    total_lengths : array_like of shape (n,)
        Tokens per sample, whole numbers >= 0.
    partitions : list of list of int
        Global sample indices of each rank, of `build_dp_schedule`; none of them twice.

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
    max_tokens, multiple = _limits(trainer, parallel)
    of_ranks = [lengths[samples] for samples in as_partitions(partitions, len(lengths))]
    dp_size = parallel.size_or("dp_size", len(of_ranks))
    if len(of_ranks) != dp_size:
        raise ValueError(
            f"partitions must hold a list for each of the {parallel.name('dp_size')} = {dp_size} ranks, got "
            f"{len(of_ranks)}"
        )
    micro_batches = [first_fit_pack(of_rank, max_tokens) for of_rank in of_ranks]
    needed = max(map(len, micro_batches), default=0)
    if not needed:
        raise ScheduleError("partitions must hold a sample, got none")
    count = -(-needed // multiple) * multiple
    for rank, (batches, of_rank) in enumerate(zip(micro_batches, of_ranks, strict=True)):
        _split(batches, count, of_rank, f"partitions[{rank}]")
    return micro_batches, [count]


def _limits(trainer: Fields, parallel: Fields) -> tuple[int, int]:
    """Return the token cap of a micro-batch, and what their number on a rank is a multiple of."""
    if not trainer.flag("use_dynamic_batch_size"):
        raise ValueError(
            f"{trainer.name('use_dynamic_batch_size')} must be True where micro-batches are made by tokens, got "
            f"{shown(trainer.get('use_dynamic_batch_size'))}"
        )
    own = "log_probs_max_tokens_per_gpu"
    field = "max_tokens_per_gpu" if trainer.get(own) is None else own
    max_tokens = token_cap(trainer.size(field), parallel.size("cp_size"), trainer.name(field))
    return max_tokens, micro_batch_multiple(parallel)


def _split(micro_batches: list[list[int]], count: int, lengths: Ints, name: str) -> None:
    """Split the micro-batches of a rank, in place, until there are `count`, of which none may be empty."""
    if len(lengths) < count:
        raise ScheduleError(
            f"{name} must hold at least {count} samples, one for each micro-batch of a rank, got {len(lengths)}"
        )
    expand_bins_by_splitting(micro_batches, count, lengths)
    if not all(micro_batches):
        raise ScheduleError(
            f"total_lengths of {name} must be > 0 where a micro-batch is split, got samples of 0 tokens"
        )
