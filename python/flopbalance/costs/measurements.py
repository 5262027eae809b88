"""Micro-batches with what their sequences add up to, from the forms in which callers have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CONVERSION_ERRORS, Ints, as_integers, as_lengths, shown
from flopbalance.schedules.schedule import RankSchedule, Schedule, micro_batch_sums, planned_lengths

MicroBatchesLike: TypeAlias = (
    "MicroBatches | Schedule | RankSchedule | tuple[npt.ArrayLike, npt.ArrayLike] | Sequence[npt.ArrayLike]"
)


@dataclass(frozen=True, eq=False)
class MicroBatches:
    """Micro-batches as flat arrays.

    Attributes
    ----------
    lengths : ndarray of int64
        Tokens of each sequence, micro-batch by micro-batch.
    offsets : ndarray of int64, shape (micro-batches + 1,)
        Micro-batch i holds ``lengths[offsets[i]:offsets[i + 1]]``.
    """

    lengths: Ints
    offsets: Ints

    @classmethod
    def of(cls, micro_batches: MicroBatchesLike, lengths: npt.ArrayLike | None = None) -> MicroBatches:
        """Read any of the forms.

        Parameters
        ----------
        micro_batches : Schedule, RankSchedule, tuple or sequence
            A schedule or one rank of it, together with `lengths`; a tuple of flat lengths and offsets; or a sequence
            of micro-batches, each the lengths of its sequences.
        lengths : array_like, optional
            Tokens of all samples that the schedule was planned for.

        Raises
        ------
        ValueError
            A micro-batch is empty, offsets do not cover the lengths, or a length is negative or not a whole number.

        Examples
        --------
        >>> MicroBatches.of([[3, 4], [5]])
        MicroBatches(lengths=array([3, 4, 5]), offsets=array([0, 2, 3]))
        """
        if isinstance(micro_batches, MicroBatches):
            return micro_batches
        if isinstance(micro_batches, Schedule | RankSchedule):
            if lengths is None:
                raise ValueError("lengths must be given with a schedule, which knows samples by number only")
            flat = as_lengths(lengths, "lengths")
            if isinstance(micro_batches, Schedule):
                flat = planned_lengths(micro_batches, flat)
            if micro_batches.samples.max(initial=-1) >= len(flat):
                raise ValueError(f"lengths must cover all samples of the schedule, got {len(flat)}")
            flat, offsets = flat[micro_batches.samples], micro_batches.micro_batch_offsets
        elif isinstance(micro_batches, tuple) and len(micro_batches) == 2:
            flat, offsets = as_lengths(micro_batches[0], "lengths"), as_integers(micro_batches[1], "offsets")
        else:
            each = _listed(micro_batches)
            batches = [as_lengths(batch, f"micro_batches[{i}]") for i, batch in enumerate(each)]
            flat = np.concatenate(batches) if batches else np.empty(0, dtype=np.int64)
            offsets = np.cumsum([0, *map(len, batches)])
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(flat):
            raise ValueError(f"offsets must run from 0 to {len(flat)}, the number of lengths, got {offsets}")
        if (np.diff(offsets) < 1).any():
            raise ValueError(f"micro_batches[{np.argmax(np.diff(offsets) < 1)}] must hold a sequence, got none")
        return cls(flat, offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Sum of a value over the sequences of each micro-batch."""
        return micro_batch_sums(values.astype(np.float64), self.offsets)

    def take(self, chosen: Sequence[int]) -> MicroBatches:
        """Return some of the micro-batches, in the order given."""
        return MicroBatches.of([self.lengths[self.offsets[i] : self.offsets[i + 1]] for i in chosen])


def _listed(micro_batches: Any) -> list[Any]:
    try:
        if isinstance(micro_batches, str | bytes):
            raise TypeError
        return list(micro_batches)
    except CONVERSION_ERRORS:  # whatever an object of others raises
        forms = "a schedule, a tuple of lengths and offsets, or a sequence of micro-batches"
        raise ValueError(f"micro_batches must be {forms}, got {shown(micro_batches)}") from None
