"""From which length on attention over pairs costs at least as much as all the rest."""

import bisect
from collections.abc import Callable

_LONGEST = 2**40
"""Attention that has not overtaken the rest at this length never does."""


def overtaking_length(overtakes: Callable[[int], bool]) -> int | None:
    """Return the shortest length that overtakes; None when there is none.

    Parameters
    ----------
    overtakes : function of a length
        Whether it does; stays true once it is, since pairs per token never fall as a sequence grows.

    Examples
    --------
    >>> overtaking_length(lambda length: length * length >= 100 * length), overtaking_length(lambda length: False)
    (100, None)
    """
    lengths = range(1, _LONGEST)
    first = bisect.bisect_left(lengths, True, key=overtakes)
    return lengths[first] if first < len(lengths) else None


def overtaking(length: int | None) -> str:
    """Say it in words."""
    if length is None:
        return "attention over pairs never costs as much as the rest"
    return f"attention over pairs costs as much as the rest from {length:,} tokens on"
