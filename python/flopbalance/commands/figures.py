"""The figures of a schedule that commands print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance.schedule import Schedule

OBJECTIVES = ("step", "micro-batch", "pipeline")
"""How ranks wait for each other: once a step, at every micro-batch, or once a step behind a pipeline of stages."""


@dataclass(frozen=True)
class Figures:
    """Sizes and predicted times of a schedule.

    Attributes
    ----------
    micro_batches : int
        Over all ranks and steps.
    largest_tokens : int
        Tokens of the largest micro-batch.
    over_cap : int
        Micro-batches of two samples or more above the token cap.
    work : float
        Time of the mean rank, in units of cost: no rank waits for another.
    times : dict of str to float
        Time of the job, in the same unit, for each of `OBJECTIVES`.
    seconds : float
        Taken by planning.
    """

    micro_batches: int
    largest_tokens: int
    over_cap: int
    work: float
    times: dict[str, float]
    seconds: float

    @classmethod
    def of(
        cls,
        schedule: Schedule,
        costs: npt.NDArray[Any],
        max_tokens: int,
        stages: int,
        seconds: float,
    ) -> Figures:
        """Measure a schedule; `stages` is the length of the pipeline."""
        micro_batches = np.add.reduceat(costs[schedule.samples].astype(float), schedule.micro_batch_offsets[:-1])
        by_rank = micro_batches.reshape(schedule.dp_size, -1)
        starts = np.cumsum(schedule.micro_batches_per_step) - schedule.micro_batches_per_step
        of_step = np.add.reduceat(by_rank, starts, axis=1)
        dearest = np.maximum.reduceat(by_rank, starts, axis=1)
        over_cap = (schedule.token_counts > max_tokens) & (schedule.sample_counts > 1)
        return cls(
            micro_batches=micro_batches.size,
            largest_tokens=int(schedule.micro_batch_tokens.max()),
            over_cap=int(over_cap.sum()),
            work=float(of_step.mean(axis=0).sum()),
            times={
                "step": float(of_step.max(axis=0).sum()),
                "micro-batch": float(by_rank.max(axis=0).sum()),
                "pipeline": float((of_step + (stages - 1) * dearest).max(axis=0).sum()),
            },
            seconds=seconds,
        )

    def idle_share(self, objective: str) -> float:
        """Return the share of the job's time in which the mean rank has nothing to do."""
        return 1 - self.work / self.times[objective] if self.times[objective] else 0.0
