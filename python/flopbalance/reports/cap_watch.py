"""A word in the log when schedules break the token cap, before the GPU runs out of memory."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, as_count, as_lengths
from flopbalance.reports.measures import above_cap
from flopbalance.schedules.schedule import Schedule

_LOGGER = logging.getLogger("flopbalance")


class CapWatch:
    """Logs a warning the first time that a schedule exceeds the token cap, as a balance by FLOPs may.

    Micro-batches of one sample do not count: no other schedule would help them.

    Parameters
    ----------
    max_tokens : int
        Token cap of a micro-batch: ``max_tokens_per_gpu`` times the context-parallel size.
    logger : logging.Logger, optional
        Where to; by default the logger ``flopbalance``.

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
        self.logger = logger
        self._has_warned = False

    def check(self, schedule: Schedule) -> int:
        """Return how many micro-batches of two samples or more exceed the cap."""
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
        batches = [
            np.asarray(partition)[positions]
            for partition, of_rank in zip(partitions, micro_batch_indices, strict=True)
            for positions in of_rank
        ]
        tokens = np.array([lengths[batch].sum() for batch in batches])
        return self._check(tokens, np.array([len(batch) for batch in batches]))

    def _check(self, tokens: Ints, samples: Ints) -> int:
        together, _ = above_cap(tokens, samples, self.max_tokens)
        over_cap = tokens[together]
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
        return len(over_cap)
