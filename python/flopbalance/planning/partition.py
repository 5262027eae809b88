"""Karmarkar–Karp partitioning under its published names."""

from __future__ import annotations

import copy
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import as_flag

_Sizes: TypeAlias = Literal["free", "equal", "bounded", "refined"]


def get_seqlen_balanced_partitions(
    seqlen_list: npt.ArrayLike, k_partitions: int, equal_size: bool | Literal["bounded", "refined"]
) -> list[list[int]]:
    """Partition weights into parts of nearly equal sum, heaviest part first.

    Parameters
    ----------
    seqlen_list : array_like of shape (n,)
        Non-negative integers of up to 128 bits, or finite non-negative floats.
    k_partitions : int
        Number of parts, from 1 to n.
    equal_size : bool, "bounded" or "refined"
        Whether every part must hold n / k_partitions items; k_partitions must then divide n. With ``"bounded"`` counts
        differ by at most one where it does not. With ``"refined"`` it must divide n, and the largest sum is never above
        that of ``True``, nor that of dealing the heaviest item first to the lightest part with room for one more.

    Returns
    -------
    list of list of int
        Item indices of every part, ascending.

    Raises
    ------
    ValueError
        For weights that are not such numbers.
    ScheduleError
        For more parts than weights, or parts that cannot be of equal size; also an ``AssertionError``.

    See Also
    --------
    karmarkar_karp : The same parts, items in the order in which they were joined.

    Notes
    -----
    The largest differencing method [1]_, k ways, in O(n log n) time. A heuristic: for weights 5, 5, 4, 3, 3 and
    two parts it ends at 11 and 9, though 10 and 10 are possible. Ties are broken by weight, then by index, so the
    answer is the same on every machine.

    ``"refined"`` takes that and the greedy parts, and of either lets the heaviest part exchange an item for a lighter
    one until that helps no more (or millions of items have been looked at, a number that grows like n); the more even
    of both is the answer. Use it where heavy tails meet equal counts.

    References
    ----------
    .. [1] N. Karmarkar, R. M. Karp, "The differencing method of set partitioning", UCB/CSD 82/113, 1982.

    Examples
    --------
    >>> get_seqlen_balanced_partitions([8, 7, 6, 5, 4], 2, equal_size=False)
    [[1, 3, 4], [0, 2]]
    >>> get_seqlen_balanced_partitions([8, 7, 6, 5, 4, 3], 2, equal_size=True)
    [[0, 3, 4], [1, 2, 5]]
    >>> get_seqlen_balanced_partitions([8, 7, 6, 5, 4], 2, equal_size="bounded")
    [[1, 3, 4], [0, 2]]
    >>> get_seqlen_balanced_partitions([36, 4, 4, 36, 100, 36], 2, equal_size=True)  # 140 and 76
    [[0, 1, 4], [2, 3, 5]]
    >>> get_seqlen_balanced_partitions([36, 4, 4, 36, 100, 36], 2, equal_size="refined")  # 108 and 108
    [[1, 2, 4], [0, 3, 5]]
    """
    if isinstance(equal_size, str) and equal_size in ("bounded", "refined"):
        return _partition(seqlen_list, k_partitions, equal_size, ascending=True)
    return _partition(seqlen_list, k_partitions, _sizes(equal_size), ascending=True)


def karmarkar_karp(seqlen_list: npt.ArrayLike, k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Partition weights as `get_seqlen_balanced_partitions` does, items in the order in which they were joined.

    Parameters
    ----------
    seqlen_list, k_partitions, equal_size
        As in `get_seqlen_balanced_partitions`.

    Returns
    -------
    list of list of int
        Item indices of every part, heaviest part first.

    Raises
    ------
    ValueError, ScheduleError
        As in `get_seqlen_balanced_partitions`.

    Examples
    --------
    >>> karmarkar_karp([8, 7, 6, 5, 4], 2, equal_size=False)
    [[4, 1, 3], [0, 2]]
    """
    return _partition(seqlen_list, k_partitions, _sizes(equal_size), ascending=False)


def _sizes(equal_size: Any) -> _Sizes:
    return "equal" if as_flag(equal_size, "equal_size") else "free"


def _partition(seqlen_list: npt.ArrayLike, k_partitions: int, sizes: _Sizes, ascending: bool) -> list[list[int]]:
    return _core.partition(seqlen_list, k_partitions, sizes, ascending, True)


def get_reverse_idx(idx_map: Any) -> Any:
    """Return the inverse of a permutation.

    Parameters
    ----------
    idx_map : sequence, array or tensor of int, shape (n,)
        Every number from 0 to n - 1 once.

    Returns
    -------
    list of int, or an array or tensor like `idx_map`
        The positions of 0, 1, ..., n - 1 in `idx_map`; a list also where a copy of an array cannot be written to.

    Raises
    ------
    ValueError
        When `idx_map` is not a permutation.

    Examples
    --------
    >>> get_reverse_idx([2, 0, 1])
    [1, 2, 0]
    """
    inverse = _core.inverse(idx_map)
    if isinstance(idx_map, (list, tuple)) or not hasattr(idx_map, "__array__"):
        return inverse
    if isinstance(idx_map, np.ndarray):
        return np.array(inverse, dtype=idx_map.dtype)
    try:
        same_kind = copy.deepcopy(idx_map)  # of its library, type and device
        for position, index in enumerate(inverse):
            same_kind[position] = index
    except (AttributeError, RuntimeError, TypeError, ValueError):  # what can be neither copied nor changed
        return inverse
    return same_kind
