"""What samples need of a micro-batch and what it holds, as a token cap counts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, as_count, as_lengths

PadTo = int | tuple[int, int]
ExtraBudget = tuple[npt.ArrayLike, int]


@dataclass(frozen=True, eq=False)
class Room:
    """Needs and caps.

    Attributes
    ----------
    tokens : ndarray of int64, shape (n,)
        Tokens of each sample, rounded up as it will be padded.
    max_tokens : int
        The cap, rounded down so that a micro-batch keeps it when its tokens are rounded up.
    extra : tuple of (ndarray of int64, int) or None
        A second need of each sample and its cap.
    """

    tokens: Ints
    max_tokens: int
    extra: tuple[Ints, int] | None

    @classmethod
    def read(cls, tokens: Ints, max_tokens: int, pad_to: PadTo, extra_budget: ExtraBudget | None) -> Room:
        """Check the arguments of `plan` and do the rounding."""
        of_sample, of_batch = read_pad_to(pad_to)
        if max_tokens < of_batch:
            raise ValueError(f"max_tokens must be >= pad_to = {of_batch}, got {max_tokens}")
        units = -(-tokens // of_sample)
        if int(units.max(initial=0)) * of_sample >= 2**63:
            raise ValueError(f"lengths must be below 2^63 when rounded up to pad_to = {of_sample}, got {tokens.max()}")
        extra = None
        if extra_budget is not None:
            if not (isinstance(extra_budget, tuple) and len(extra_budget) == 2):
                raise ValueError(f"extra_budget must be a pair of amounts and a cap, got {extra_budget!r}")
            extra = as_lengths(extra_budget[0], "extra_budget[0]"), as_count(extra_budget[1], "extra_budget[1]", 0)
            if len(extra[0]) != len(tokens):
                raise ValueError(
                    f"extra_budget[0] must hold one amount for each of the {len(tokens)} samples, got {len(extra[0])}"
                )
            if extra[0].sum(dtype=np.float64) >= 2**62:
                raise ValueError("the sum of extra_budget[0] must be below 2^62, got more")
        return cls(units * of_sample, max_tokens - max_tokens % of_batch, extra)

    def too_large(self) -> npt.NDArray[np.bool_]:
        """Return which samples exceed a cap by themselves."""
        large = self.tokens > self.max_tokens
        return large if self.extra is None else large | (self.extra[0] > self.extra[1])

    def of(self, kept: Ints) -> Room:
        """Return the room of some of the samples."""
        extra = None if self.extra is None else (self.extra[0][kept], self.extra[1])
        return Room(self.tokens[kept], self.max_tokens, extra)


def read_pad_to(pad_to: Any) -> tuple[int, int]:
    """Return the multiples for a sample and for a micro-batch."""
    if isinstance(pad_to, tuple):
        if len(pad_to) != 2:
            raise ValueError(f"pad_to must be one multiple or a pair of them, got {pad_to!r}")
        return as_count(pad_to[0], "pad_to[0]"), as_count(pad_to[1], "pad_to[1]")
    return as_count(pad_to, "pad_to"), 1
