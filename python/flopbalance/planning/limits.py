"""What a micro-batch may hold: its cap and what counts against it, a second amount, so many samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from flopbalance.checks import Ints, as_choice, as_count, as_flag, as_lengths, shown

PadTo = int | tuple[int, int]
ExtraBudget = tuple[npt.ArrayLike, int]
OnOversize = Literal["alone", "drop", "error"]


@dataclass(frozen=True, eq=False)
class Limits:
    """What a micro-batch may hold, for `plan`.

    Parameters
    ----------
    max_tokens : int
        Token cap of a micro-batch of two samples or more.
    pad_to : int or (int, int), default 1
        Lengths are rounded up to a multiple of this before they meet the cap; of a pair, each sample's length to the
        first and each micro-batch's tokens to the second. Costs and reported tokens stay those of the lengths.
    padded : bool, default False
        A micro-batch holds samples × longest tokens against the cap instead of the sum. With ``packing="capped"``.
    extra_budget : (array_like of shape (n,), int), optional
        A second amount per sample, whole numbers >= 0 such as image tokens, and its cap. With ``packing="capped"``.
    max_samples : int, optional
        Samples in a micro-batch; any number by default. With ``packing="capped"``.
    on_oversize : {"alone", "drop", "error"}, default "alone"
        A sample above a cap gets a micro-batch of its own, is dropped from its step (and named in
        ``Schedule.dropped``; its rollout still counts in ``Schedule.rollouts_per_step``), or is refused. A step that
        loses all its samples is left out.

    Raises
    ------
    ValueError
        For a value that is none of these.

    Examples
    --------
    >>> from flopbalance import plan
    >>> plan([7, 2, 5, 4, 3], dp_size=2, limits=Limits(max_tokens=8)) == plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8)
    True
    """

    max_tokens: int
    pad_to: PadTo = 1
    padded: bool = False
    extra_budget: ExtraBudget | None = None
    max_samples: int | None = None
    on_oversize: OnOversize = "alone"

    def __post_init__(self) -> None:
        own = vars(self)
        own["max_tokens"] = as_count(self.max_tokens, "max_tokens")
        own["pad_to"] = as_pad_to(self.pad_to)
        own["padded"] = as_flag(self.padded, "padded")
        own["extra_budget"] = as_extra_budget(self.extra_budget)
        own["max_samples"] = None if self.max_samples is None else as_count(self.max_samples, "max_samples")
        own["on_oversize"] = as_choice(self.on_oversize, OnOversize, "on_oversize")


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
