"""From lengths and costs to a schedule."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy.typing as npt

from flopbalance import _core
from flopbalance.arrays import Ints, as_count, as_integers, as_lengths, as_weights
from flopbalance.schedule import Schedule

Packing = Literal["first-fit", "flops", "fixed"]


class CostFunction(Protocol):
    """Anything that says what each sample costs."""

    def flops(self, lengths: Ints, /) -> npt.ArrayLike:
        """Return the cost of each length."""


def plan(
    lengths: npt.ArrayLike,
    *,
    costs: npt.ArrayLike | CostFunction | None = None,
    dp_size: int,
    max_tokens: int | None = None,
    micro_batch_size: int | None = None,
    rollout_ids: npt.ArrayLike | None = None,
    global_batch_size: int | None = None,
    micro_batch_multiple: int = 1,
    packing: Packing = "first-fit",
    balance_ranks: bool = True,
) -> Schedule:
    """Pack samples into micro-batches and deal these to data-parallel ranks.

    Parameters
    ----------
    lengths : array_like of shape (n,)
        Tokens per sample, whole numbers >= 0.
    costs : array_like of shape (n,) or object with ``flops(lengths)``, optional
        What each sample costs, in any unit: integers of up to 128 bits are balanced exactly, floats by sums from left
        to right. By default a sample costs its tokens.
    dp_size : int
        Data-parallel ranks.
    max_tokens : int, optional
        Token cap of a micro-batch, for ``packing="first-fit"`` and ``"flops"``.
    micro_batch_size : int, optional
        Samples of a micro-batch, for ``packing="fixed"``.
    rollout_ids : array_like of shape (n,), optional
        The rollout of each sample, whole numbers in any order; a rollout stays in one step. By default every sample
        is a rollout.
    global_batch_size : int, optional
        Rollouts in a step; rollouts that fill no step are dropped and named in ``Schedule.dropped``. By default all
        rollouts make one step.
    micro_batch_multiple : int, default 1
        Micro-batches per rank and step are a multiple of this, as interleaved pipelines need.
    packing : {"first-fit", "flops", "fixed"}, default "first-fit"
        First fit in the given order, which keeps the cap; Karmarkar–Karp by cost into as many parts as the cap would
        need, which **may exceed the cap**; or runs of `micro_batch_size` samples.
    balance_ranks : bool, default True
        Deal micro-batches to ranks by Karmarkar–Karp on their summed cost; otherwise in turn.

    Returns
    -------
    Schedule
        The same on every machine. With `balance_ranks`, rank 0 has the heaviest part of each step.

    Raises
    ------
    ValueError
        For an argument that breaks its rule; the message names argument, rule and value.
    ScheduleError
        When there are too few rollouts for one step, too few samples for the ranks of a step, or the micro-batches of
        a step cannot be brought to a multiple of ``dp_size * micro_batch_multiple``.

    Notes
    -----
    O(n log n) time and O(n) space. The GIL is released.

    Examples
    --------
    >>> plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8)
    Schedule(2 ranks, 1 step, 4 micro-batches of at most 7 tokens, 5 of 5 samples)
    """
    tokens = as_lengths(lengths, "lengths")
    if costs is None:
        costs = tokens
    weights = as_weights(costs.flops(tokens) if hasattr(costs, "flops") else costs, "costs")
    sizes = {"first-fit": ("max_tokens", max_tokens), "flops": ("max_tokens", max_tokens)}
    sizes["fixed"] = ("micro_batch_size", micro_batch_size)
    if packing not in sizes:
        raise ValueError(f"packing must be one of {', '.join(sizes)}, got {packing!r}")
    size_name, size = sizes[packing]
    if size is None:
        raise ValueError(f"{size_name} must be given for packing={packing!r}, got None")
    dp_size = as_count(dp_size, "dp_size")
    arrays = _core.plan(
        tokens,
        weights,
        packing,
        as_count(size, size_name),
        dp_size,
        as_count(micro_batch_multiple, "micro_batch_multiple"),
        bool(balance_ranks),
        None if rollout_ids is None else as_integers(rollout_ids, "rollout_ids"),
        None if global_batch_size is None else as_count(global_batch_size, "global_batch_size"),
    )
    return Schedule(dp_size, len(tokens), *arrays)
