"""The figures of a schedule that commands print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance.balance_report import measure
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
        figures = measure(schedule, costs.astype(np.float64), max_tokens, stages)
        times = (figures.step_time, figures.micro_batch_time, figures.pipeline_time)
        return cls(
            micro_batches=figures.micro_batches,
            largest_tokens=figures.largest_tokens,
            over_cap=figures.over_cap,
            work=figures.mean_time,
            times=dict(zip(OBJECTIVES, times, strict=True)),
            seconds=seconds,
        )

    def idle_share(self, objective: str) -> float:
        """Return the share of the job's time in which the mean rank has nothing to do."""
        return 1 - self.work / self.times[objective] if self.times[objective] else 0.0
