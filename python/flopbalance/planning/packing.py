"""Packing samples into micro-batches: under its published names, and `pack` for those who only pack."""

from __future__ import annotations

from typing import Literal

import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import CostFunction, as_choice, as_count, shown

Order = Literal["given", "decreasing", "balanced"]


def first_fit_pack(total_lengths: npt.ArrayLike, max_tokens_per_bin: int) -> list[list[int]]:
    """Pack samples, in the given order, each into the first bin that has room.

    Parameters
    ----------
    total_lengths : array_like of shape (n,)
        Tokens per sample, >= 0.
    max_tokens_per_bin : int
        The token cap of a bin, >= 1.

    Returns
    -------
    list of list of int
        Sample indices of every bin. A sample longer than the cap is alone in its bin.

    Raises
    ------
    ValueError
        For lengths that are not whole and non-negative, or a cap below 1.

    Notes
    -----
    O(n log b) time for b bins.

    Examples
    --------
    >>> first_fit_pack([11, 0, 1], 10)
    [[0], [1, 2]]
    """
    return _core.first_fit(total_lengths, max_tokens_per_bin, True)


def expand_bins_by_splitting(bins: list[list[int]], target_count: int, lengths: npt.ArrayLike) -> None:
    """Split the bin of the most tokens until there are enough, in place.

    Parameters
    ----------
    bins : list of list of int
        Sample indices of every bin; extended in place to `target_count` bins, or until only one-sample bins are
        left. Of bins with the same token sum, the last is split.
    target_count : int
        The number of bins wanted.
    lengths : array_like of shape (n,)
        Tokens per sample, >= 0.

    Raises
    ------
    ValueError
        For an index that is no sample's, or lengths that are not whole and non-negative.

    Notes
    -----
    O(n log n) time. The samples of a bin, longest first, go one by one to the half of the smaller sum.

    Examples
    --------
    >>> bins = [[0, 1, 2, 3]]
    >>> expand_bins_by_splitting(bins, 2, [1, 5, 4, 2])
    >>> bins
    [[1, 0], [2, 3]]
    """
    bins[:] = _core.split(bins, target_count, lengths)


def pack(
    lengths: npt.ArrayLike,
    max_tokens: int,
    *,
    order: Order = "decreasing",
    max_samples: int | None = None,
    at_least: int = 1,
    multiple: int = 1,
    count: int | None = None,
    costs: npt.ArrayLike | CostFunction | None = None,
) -> list[list[int]]:
    """Pack samples into bins within a token cap, for those who only pack.

    Parameters
    ----------
    lengths : array_like of shape (n,)
        Tokens per sample, whole numbers >= 0.
    max_tokens : int
        The token cap of a bin, >= 1. A sample above it is alone in its bin.
    order : {"given", "decreasing", "balanced"}, default "decreasing"
        Each sample goes to the first bin that has room, in the given order (first fit) or the longest first (first fit
        decreasing); or the bins are made as even by cost as `plan` makes the micro-batches of one rank.
    max_samples : int, optional
        The most samples in a bin.
    at_least : int, default 1
        The fewest bins.
    multiple : int, default 1
        The number of bins is a multiple of this. Where more bins are wanted than needed, the fullest is split.
    count : int, optional
        The exact number of bins.
    costs : array_like of shape (n,) or callable, optional
        With ``order="balanced"``: cost of each sample, as for `plan`. Their tokens by default.

    Returns
    -------
    list of list of int
        Sample indices of every bin, ascending; none is empty. No bins for no samples.

    Raises
    ------
    ValueError
        For an argument that breaks its rule.
    ScheduleError
        For fewer samples than bins, or where the caps need more bins than `count`.

    See Also
    --------
    first_fit_pack : First fit under its published name.
    plan : Micro-batches for several ranks, and steps.

    Notes
    -----
    O(n log n) time; ``"balanced"`` takes a search on top.

    Examples
    --------
    >>> pack([3, 6, 5, 4], 10)
    [[1, 3], [0, 2]]
    >>> pack([3, 6, 5, 4], 10, order="given", max_samples=1)
    [[0], [1], [2], [3]]
    >>> pack([3, 6, 5, 4], 10, multiple=3)
    [[1], [0, 2], [3]]
    """
    order = as_choice(order, Order, "order")
    at_most = None if max_samples is None else as_count(max_samples, "max_samples")
    exactly = None if count is None else as_count(count, "count")
    counts = exactly, as_count(at_least, "at_least"), as_count(multiple, "multiple")
    if costs is not None and order != "balanced":
        raise ValueError(f"costs must be None for order={order!r}, got {shown(costs)}")
    return _core.pack(lengths, max_tokens, order, at_most, counts, costs)
