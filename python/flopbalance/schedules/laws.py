"""The laws that the fields of a schedule keep, whoever made it: a caller by hand, a file, another process.

Each law is looked at where all before it hold, and none takes more memory than the arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, as_count, as_flags, as_integers, shown


def checked_schedule(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `Schedule` as it holds them.

    Raises
    ------
    ValueError
        A law is broken; the message names the field, the law and what was found.
    """
    dp_size = as_count(given["dp_size"], "dp_size")
    num_samples = as_count(given["num_samples"], "num_samples")
    arrays = _arrays(given, ranks=dp_size)
    samples, dropped, is_padding = arrays["samples"], as_integers(given["dropped"], "dropped"), arrays["is_padding"]
    placed = samples[~is_padding]
    count = len(placed) + len(dropped)
    if count != num_samples:  # first, since it may be any number
        raise ValueError(f"num_samples must be {count}, of all that are placed or dropped, got {num_samples}")
    for name, numbers in (("samples", samples), ("dropped", dropped)):
        _each(name, numbers, (numbers >= 0) & (numbers < num_samples), f"from 0 to {num_samples - 1}")
    times = np.bincount(np.concatenate([placed, dropped]), minlength=num_samples)
    for sample in np.flatnonzero(times != 1)[:1]:
        raise ValueError(f"samples and dropped must hold every sample once, got {sample} {times[sample]} times")
    _each("dropped", dropped[1:], dropped[1:] > dropped[:-1], "above the one before it", first=1)
    is_dropped = np.zeros(num_samples, dtype=np.bool_)
    is_dropped[dropped] = True
    _each("samples", samples, ~(is_padding & is_dropped[samples]), "no dropped one where it is padding")
    rollouts = exact_sum(arrays["rollouts_per_step"])
    if rollouts > num_samples:
        raise ValueError(f"rollouts_per_step must add up to num_samples = {num_samples} at most, got {shown(rollouts)}")
    return {"dp_size": dp_size, "num_samples": num_samples, **arrays, "dropped": dropped}


def checked_rank(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a `RankSchedule` as it holds them; raises as `checked_schedule` does."""
    rank = as_count(given["rank"], "rank", minimum=0)
    arrays = _arrays(given, ranks=1)
    samples = arrays["samples"]
    _each("samples", samples, samples >= 0, ">= 0")
    placed = np.sort(samples[~arrays["is_padding"]])
    for sample in placed[1:][placed[1:] == placed[:-1]][:1]:
        raise ValueError(f"samples must hold every sample once at most, got {sample} twice")
    return {"rank": rank, **arrays}


def exact_sum(counts: Ints) -> int:
    """Return the sum of counts; one in 64 bits may wrap."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def _arrays(given: dict[str, Any], ranks: int) -> dict[str, Any]:
    """Return the arrays that schedules and their views share."""
    steps = as_integers(given["micro_batches_per_step"], "micro_batches_per_step")
    _each("micro_batches_per_step", steps, steps >= 1, ">= 1")
    _as_many("micro_batches_per_step", steps, max(1, len(steps)), "a number for each step")
    rollouts = as_integers(given["rollouts_per_step"], "rollouts_per_step")
    _each("rollouts_per_step", rollouts, rollouts >= 1, ">= 1")
    _as_many("rollouts_per_step", rollouts, len(steps), "a number for each step of micro_batches_per_step")
    count = ranks * exact_sum(steps)
    tokens = as_integers(given["micro_batch_tokens"], "micro_batch_tokens")
    _as_many("micro_batch_tokens", tokens, count, "the tokens of each micro-batch of micro_batches_per_step")
    _each("micro_batch_tokens", tokens, tokens >= 0, ">= 0")
    if exact_sum(tokens) >= 2**63:
        raise ValueError(f"micro_batch_tokens must add up to less than 2^63, got {exact_sum(tokens)}")
    samples = as_integers(given["samples"], "samples")
    offsets = as_integers(given["micro_batch_offsets"], "micro_batch_offsets")
    _as_many("micro_batch_offsets", offsets, count + 1, "one more than there are micro-batches")
    _each("micro_batch_offsets", offsets[1:], offsets[1:] > offsets[:-1], "above the one before it", first=1)
    if offsets[0] != 0 or offsets[-1] != len(samples):
        ends = f"{offsets[0]} to {offsets[-1]}"
        raise ValueError(f"micro_batch_offsets must run from 0 to {len(samples)}, the end of samples, got {ends}")
    is_padding = as_flags(given["is_padding"], "is_padding")
    _as_many("is_padding", is_padding, len(samples), "True or False for each of samples")
    return {
        "samples": samples,
        "micro_batch_offsets": offsets,
        "micro_batch_tokens": tokens,
        "micro_batches_per_step": steps,
        "rollouts_per_step": rollouts,
        "is_padding": is_padding,
    }


def _as_many(name: str, array: npt.NDArray[Any], count: int, what: str) -> None:
    if len(array) != count:
        raise ValueError(f"{name} must hold {what}, {shown(count)} in all, got {len(array)}")


def _each(name: str, array: Ints, keeps: npt.NDArray[np.bool_], rule: str, first: int = 0) -> None:
    for i in np.flatnonzero(~keeps)[:1]:
        raise ValueError(f"{name}[{i + first}] must be {rule}, got {array[i]}")
