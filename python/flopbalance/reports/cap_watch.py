"""A word in the log when schedules break the token cap, before the GPU runs out of memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, as_count, as_integers, as_lengths, shown
from flopbalance.reports.measures import above_alone, above_cap
from flopbalance.schedules.schedule import Schedule

_LOGGER = logging.getLogger("flopbalance")


class CapWatch:
    """Logs a warning the first time that a schedule exceeds the token cap, as a balance by FLOPs may.

    Micro-batches of one sample do not count, since no other schedule would help them: they get a warning of their own.

    Parameters
    ----------
    max_tokens : int
        Token cap of a micro-batch: ``max_tokens_per_gpu`` times the context-parallel size.
    logger : logging.Logger, optional
        Where to; by default the logger ``flopbalance``.

    Attributes
    ----------
    alone_over_cap : int
        Samples above the cap by themselves in the last schedule.
    longest_alone : int
        Tokens of the longest of these; 0 where there is none.

    Raises
    ------
    ValueError
        For a cap below 1, and in the checks for what is no schedule.

    Examples
    --------
    A trainer makes one and shows it every schedule:

    >>> import logging, sys
    >>> from flopbalance import plan
    >>> logger = logging.Logger("trainer")
    >>> logger.addHandler(logging.StreamHandler(sys.stdout))
    >>> watch = CapWatch(8, logger)
    >>> lengths = [7] * 8
    >>> for _ in range(3):  # steps
    ...     over_cap = watch.check(plan(lengths, dp_size=1, max_tokens=8, packing="flops"))
    1 of 7 micro-batches exceed the cap of 8 tokens, the largest with 14, 75.0% above: lower the cap by as much, or \
balance within the cap. This is said once.
    >>> over_cap
    1
    """

    def __init__(self, max_tokens: int, logger: logging.Logger = _LOGGER) -> None:
        self.max_tokens = as_count(max_tokens, "max_tokens")
        if not callable(getattr(logger, "warning", None)):
            raise ValueError(f"logger must be a logging.Logger, got {shown(logger)}")
        self.logger = logger
        self.alone_over_cap = self.longest_alone = 0
        self._has_warned = self._has_warned_of_samples = False

    def check(self, schedule: Schedule) -> int:
        """Return how many micro-batches of two samples or more exceed the cap."""
        if not isinstance(schedule, Schedule):
            raise ValueError(f"schedule must be a Schedule, as plan returns it, got {type(schedule).__name__}")
        return self._check(schedule.micro_batch_tokens, np.diff(schedule.micro_batch_offsets))

    def check_lists(
        self,
        total_lengths: npt.ArrayLike,
        partitions: Sequence[Sequence[int]],
        micro_batch_indices: Sequence[Sequence[Sequence[int]]],
    ) -> int:
        """Do the same for the first two results of `build_dp_schedule`.

        Examples
        --------
        >>> CapWatch(9).check_lists([5, 3, 4], [[1, 2], [0]], [[[0, 1]], [[0]]])
        0
        """
        lengths = as_lengths(total_lengths, "total_lengths")
        for name, lists in (("partitions", partitions), ("micro_batch_indices", micro_batch_indices)):
            if not isinstance(lists, Sequence) or len(lists) != len(partitions):
                raise ValueError(f"{name} must hold a list for each rank, got {shown(lists)}")
        tokens, samples = [], []
        for rank, (partition, of_rank) in enumerate(zip(partitions, micro_batch_indices, strict=True)):
            sizes = lengths[_indices(partition, len(lengths), f"partitions[{rank}]")]
            if not isinstance(of_rank, Sequence):
                raise ValueError(f"micro_batch_indices[{rank}] must hold micro-batches, got {shown(of_rank)}")
            for number, positions in enumerate(of_rank):
                batch = sizes[_indices(positions, len(sizes), f"micro_batch_indices[{rank}][{number}]")]
                tokens.append(batch.sum())
                samples.append(len(batch))
        return self._check(np.array(tokens, dtype=np.int64), np.array(samples, dtype=np.int64))

    def _check(self, tokens: Ints, samples: Ints) -> int:
        together, alone = above_cap(tokens, samples, self.max_tokens)
        over_cap, longer = tokens[together], tokens[alone]
        self.alone_over_cap, self.longest_alone = len(longer), int(longer.max(initial=0))
        if len(over_cap) and not self._has_warned:
            self._has_warned = True
            self.logger.warning(
                "%s of %s micro-batches exceed the cap of %s tokens, the largest with %s, %.1f%% above: lower the cap "
                "by as much, or balance within the cap. This is said once.",
                f"{len(over_cap):,}",
                f"{len(tokens):,}",
                f"{self.max_tokens:,}",
                f"{over_cap.max():,}",
                100 * (over_cap.max() / self.max_tokens - 1),
            )
        if len(longer) and not self._has_warned_of_samples:
            self._has_warned_of_samples = True
            self.logger.warning(
                "the cap is %s tokens, and %s: no packing helps; drop them or raise the cap. This is said once.",
                f"{self.max_tokens:,}",
                above_alone(self.alone_over_cap, self.longest_alone),
            )
        return len(over_cap)


def _indices(values: npt.ArrayLike, bound: int, name: str) -> Ints:
    indices = as_integers(values, name)
    for i in np.flatnonzero((indices < 0) | (indices >= bound))[:1]:
        raise ValueError(f"{name}[{i}] must be >= 0 and < {bound}, got {indices[i]}")
    return indices
