"""What a cost curve is made of: whole numbers that 64 bits hold, weighted and added."""

from __future__ import annotations

from typing import Any

from flopbalance.checks import as_count, shown

COEFFICIENT_LIMIT = 2**59
"""64 bits hold a few coefficients below it, added and weighted."""


def as_coefficient(value: Any, name: str) -> int:
    """Return a coefficient of a cost curve as Python's integer, which no product wraps."""
    return as_count(value, name, minimum=0, limit=COEFFICIENT_LIMIT)


def as_windows(windows: Any) -> tuple[tuple[int, int], ...]:
    """Return windows of a cost curve as tuples of Python's integers.

    Examples
    --------
    >>> as_windows([[128, 8]])
    ((128, 8),)
    """
    try:
        pairs = [(window, cost) for window, cost in windows]
    except (TypeError, ValueError):
        raise ValueError(f"windows must be pairs (window, FLOPs per pair), got {shown(windows)}") from None
    return tuple(
        (as_count(window, f"windows[{i}][0]"), as_coefficient(cost, f"windows[{i}][1]"))
        for i, (window, cost) in enumerate(pairs)
    )
