"""What a schedule costs, measured by the core: the numbers behind every report and picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import Floats, Ints
from flopbalance.planning.pipeline import Pipeline
from flopbalance.schedules.schedule import Schedule
from flopbalance.text import counted

Bools = npt.NDArray[np.bool_]

NO_PIPELINE = Pipeline(1)


@dataclass(frozen=True, eq=False)
class Measures:
    """Costs and times of a schedule, in the unit of its costs.

    Attributes
    ----------
    micro_batch_costs : ndarray of float64, shape (dp_size, micro-batches per rank)
        The sum of each micro-batch's samples.
    busy : ndarray of float64, shape (dp_size, steps)
        The work of each rank.
    times : dict of str to ndarray of float64, shape (steps,)
        How long each step takes, by objective of `plan`.
    pipeline_ends : ndarray of float64, shape (dp_size, steps)
        When the pipeline of each rank ends.
    last_stage_ends : ndarray of float64, shape (dp_size, micro-batches per rank)
        When its last stage is done with each micro-batch, forward and back; empty where they are interleaved.
    mean_times : ndarray of float64, shape (steps,)
        The work of the mean rank.
    lower_bounds : ndarray of float64, shape (steps,)
        No schedule of a step's samples is shorter.
    """

    micro_batch_costs: Floats
    busy: Floats
    times: dict[str, Floats]
    pipeline_ends: Floats
    last_stage_ends: Floats
    mean_times: Floats
    lower_bounds: Floats

    @classmethod
    def of(
        cls, schedule: Schedule, costs: Floats, *, pipeline: Pipeline = NO_PIPELINE, micro_batch_overhead: float = 0.0
    ) -> Measures:
        """Measure a schedule; O(n) time.

        Examples
        --------
        >>> from flopbalance import plan
        >>> lengths = np.array([7, 2, 5, 4, 3])
        >>> measures = Measures.of(plan(lengths, dp_size=2, max_tokens=8), lengths.astype(float))
        >>> measures.times["step"], measures.mean_times
        (array([11.]), array([10.5]))
        """
        measured = _core.measure(
            schedule, costs, (pipeline.stages, pipeline.chunks, pipeline.group), micro_batch_overhead
        )
        with np.errstate(over="ignore"):
            longest = measured["pipeline_times"].sum() + measured["micro_batch_times"].sum()
            excess = longest / (measured["lower_bounds"].sum() or 1)
        if not (np.isfinite(longest) and np.isfinite(excess)):
            raise ValueError(
                "costs, pipeline_stages and micro_batch_overhead must leave times and their ratios finite, got "
                f"{counted(pipeline.stages, 'stage')} and an overhead of {micro_batch_overhead:g}"
            )
        return cls(
            micro_batch_costs=measured["micro_batch_costs"].reshape(schedule.dp_size, -1),
            busy=measured["busy"].reshape(schedule.dp_size, -1),
            times={
                "step": measured["step_times"],
                "micro-batch": measured["micro_batch_times"],
                "pipeline": measured["pipeline_times"],
            },
            pipeline_ends=measured["pipeline_ends"].reshape(schedule.dp_size, -1),
            last_stage_ends=measured["last_stage_ends"].reshape(schedule.dp_size, -1),
            mean_times=measured["mean_times"],
            lower_bounds=measured["lower_bounds"],
        )

    def idle_share(self, objective: str) -> float:
        """Return the share of the time of all steps in which the mean rank has nothing to do."""
        return idle_share(float(self.mean_times.sum()), float(self.times[objective].sum()))

    def worst_step(self, objective: str) -> int:
        """Return the step in which ranks wait longest; the first such."""
        return int(np.argmax(self.times[objective] - self.mean_times))


def idle_share(mean_time: float, time: float) -> float:
    """Return the share of a time in which the mean rank has nothing to do."""
    return 1 - mean_time / time if time else 0.0


def above_cap(tokens: Ints, samples: Ints, max_tokens: int | None) -> tuple[Bools, Bools]:
    """Return which micro-batches are above the cap: of several samples, and of one alone, which no packing can help.

    Without a cap nothing is above.

    Examples
    --------
    >>> above_cap(np.array([9, 9, 8]), np.array([2, 1, 2]), 8)
    (array([ True, False, False]), array([False,  True, False]))
    """
    above = np.zeros(tokens.shape, dtype=np.bool_) if max_tokens is None else tokens > max_tokens
    return above & (samples > 1), above & (samples == 1)


def above_alone(count: int, longest: int) -> str:
    """Say how many samples are above the cap by themselves, and how long the longest is; nothing where none is.

    Examples
    --------
    >>> above_alone(1, 22000)
    '1 sample above it alone, of 22,000 tokens'
    """
    size = f"of {longest:,} tokens" if count == 1 else f"the longest of {longest:,} tokens"
    return f"{counted(count, 'sample')} above it alone, {size}" if count else ""
