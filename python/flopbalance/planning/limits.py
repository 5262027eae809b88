"""What counts against the cap of a micro-batch: padding, and a second amount."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from flopbalance.checks import Ints, as_count, as_lengths, shown

PadTo = int | tuple[int, int]
ExtraBudget = tuple[npt.ArrayLike, int]


def as_pad_to(pad_to: Any) -> tuple[int, int]:
    """Return the multiples for a sample and for a micro-batch."""
    if isinstance(pad_to, tuple):
        if len(pad_to) != 2:
            raise ValueError(f"pad_to must be one multiple or a pair of them, got {shown(pad_to)}")
        return as_count(pad_to[0], "pad_to[0]"), as_count(pad_to[1], "pad_to[1]")
    return as_count(pad_to, "pad_to"), 1


def as_extra_budget(extra_budget: ExtraBudget | None) -> tuple[Ints, int] | None:
    """Return a second amount of each sample and its cap."""
    if extra_budget is None:
        return None
    if not (isinstance(extra_budget, tuple) and len(extra_budget) == 2):
        raise ValueError(f"extra_budget must be a pair of amounts and a cap, got {shown(extra_budget)}")
    amounts, cap = extra_budget
    return as_lengths(amounts, "extra_budget[0]"), as_count(cap, "extra_budget[1]", 0)
