"""Schedules from the nested lists that trainers pass around, and the laws that such lists must keep to be one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, as_integers, as_items, as_lengths
from flopbalance.schedules.laws import exact_sum


def read_lists(
    partitions: Iterable[Any],
    micro_batch_indices: Iterable[Iterable[Any]],
    num_microbatches: npt.ArrayLike,
    global_batch_sizes: npt.ArrayLike | None,
    lengths: npt.ArrayLike,
) -> dict[str, Any]:
    """Return the fields of a schedule from the published lists.

    Raises
    ------
    ValueError
        When a list breaks a law: the message names the list, the law and what was found.
    """
    tokens = as_lengths(lengths, "lengths")
    ranks = as_items(partitions, "partitions", "a list of samples for each rank")
    of_ranks = as_items(micro_batch_indices, "micro_batch_indices", "a list of micro-batches for each rank")
    if not 0 < len(ranks) == len(of_ranks):
        raise ValueError(
            f"micro_batch_indices must hold a list for each rank of partitions, got {len(of_ranks)} for {len(ranks)}"
        )
    steps = _counts(num_microbatches, "num_microbatches")
    read = [_read_rank(rank, *lists, len(tokens)) for rank, lists in enumerate(zip(ranks, of_ranks, strict=True))]
    per_rank = exact_sum(steps)
    for rank, (_, sizes) in enumerate(read):
        if len(sizes) != per_rank:
            raise ValueError(
                f"micro_batch_indices[{rank}] must hold {per_rank} micro-batches, the sum of num_microbatches, "
                f"got {len(sizes)}"
            )
    samples = np.concatenate([samples for samples, _ in read])
    times = _times(samples, len(tokens))
    counts = np.concatenate([sizes for _, sizes in read])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    if global_batch_sizes is None:
        of_step = counts.reshape(len(read), -1).sum(axis=0)
        rollouts = np.add.reduceat(of_step, np.cumsum(steps) - steps)
    else:
        rollouts = _counts(global_batch_sizes, "global_batch_sizes")
        if len(rollouts) != len(steps):
            raise ValueError(
                f"global_batch_sizes must hold one number for each of the {len(steps)} steps of num_microbatches, "
                f"got {len(rollouts)}"
            )
        if exact_sum(rollouts) > len(tokens):
            raise ValueError(
                f"global_batch_sizes must add up to at most {len(tokens)}, the samples of lengths, got "
                f"{exact_sum(rollouts)}"
            )
    return {
        "dp_size": len(read),
        "num_samples": len(tokens),
        "samples": samples,
        "micro_batch_offsets": offsets,
        "micro_batch_tokens": np.add.reduceat(tokens[samples], offsets[:-1]),
        "micro_batches_per_step": steps,
        "rollouts_per_step": rollouts,
        "dropped": np.flatnonzero(times == 0),
        "is_padding": np.zeros(len(samples), dtype=np.bool_),
    }


def as_partitions(partitions: Iterable[Any], num_samples: int) -> list[Ints]:
    """Return the samples of every rank, none of them twice."""
    ranks = as_items(partitions, "partitions", "a list of samples for each rank")
    read = [_as_partition(partition, rank, num_samples) for rank, partition in enumerate(ranks)]
    _times(np.concatenate([np.empty(0, np.int64), *read]), num_samples)
    return read


def _times(samples: Ints, num_samples: int) -> Ints:
    """Return how often every sample is there: once at most."""
    times = np.bincount(samples, minlength=num_samples)
    for sample in np.flatnonzero(times > 1)[:1]:
        raise ValueError(f"partitions must hold every sample once at most, got {sample} {times[sample]} times")
    return times


def _as_partition(partition: npt.ArrayLike, rank: int, num_samples: int) -> Ints:
    """Return the samples of a rank, each one of the input's."""
    name = f"partitions[{rank}]"
    samples = as_integers(partition, name)
    for sample in samples[(samples < 0) | (samples >= num_samples)][:1]:
        raise ValueError(f"{name} must hold samples, numbers from 0 to {num_samples - 1}, got {sample}")
    return samples


def _read_rank(rank: int, partition: Any, micro_batches: Any, num_samples: int) -> tuple[Ints, Ints]:
    """Return the samples of a rank, micro-batch by micro-batch, and how many each of these holds."""
    samples = _as_partition(partition, rank, num_samples)
    named = f"micro_batch_indices[{rank}]"
    batches = [
        as_items(batch, f"{named}[{i}]", "a list of positions")
        for i, batch in enumerate(as_items(micro_batches, named, "a list of positions for each micro-batch"))
    ]
    sizes = np.array([len(batch) for batch in batches], dtype=np.int64)
    for empty in np.flatnonzero(sizes == 0)[:1]:
        raise ValueError(f"{named}[{empty}] must hold a position, got none")
    positions = as_integers(list(chain.from_iterable(batches)), named)
    if not np.array_equal(np.sort(positions), np.arange(len(samples))):
        raise ValueError(
            f"{named} must hold every position in partitions[{rank}], from 0 to {len(samples) - 1}, once, got "
            f"{_at_fault(positions, len(samples))}"
        )
    return samples[positions], sizes


def _at_fault(positions: Ints, count: int) -> str:
    """Return the first position that is none, or stands twice, or nowhere, in words."""
    for position in positions[(positions < 0) | (positions >= count)][:1]:
        return str(position)
    times = np.bincount(positions, minlength=count)
    position = int(np.argmax(times != 1))
    return f"{position} {times[position]} times" if times[position] else f"no {position}"


def _counts(values: npt.ArrayLike, name: str) -> Ints:
    counts = as_integers(values, name)
    if not len(counts):
        raise ValueError(f"{name} must hold a number for each step, got none")
    for step in np.flatnonzero(counts < 1)[:1]:
        raise ValueError(f"{name}[{step}] must be >= 1, got {counts[step]}")
    return counts
