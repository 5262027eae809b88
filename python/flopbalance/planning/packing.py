"""Packing samples into micro-batches under its published names."""

from __future__ import annotations

import numpy.typing as npt

from flopbalance import _core


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
