"""What a schedule costs, and how far it is from the best possible."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import CostFunction, Ints, as_amount, as_count, as_float_costs
from flopbalance.planning.pipeline import Pipeline, as_pipeline
from flopbalance.reports.measures import Measures, above_alone, above_cap, idle_share
from flopbalance.schedules.schedule import Schedule, planned_lengths
from flopbalance.text import counted


@dataclass(frozen=True, eq=False)
class BalanceReport:
    """Times, waits and sizes of a schedule; times in the unit of its costs, summed over steps.

    Attributes
    ----------
    step_time : float
        Where ranks meet once a step: the largest sum of a rank's costs.
    micro_batch_time : float
        Where ranks meet at every micro-batch: the costliest first one, plus the costliest second, and so on.
    pipeline_time : float
        Where each rank is a pipeline and ranks meet once a step: when the last of them ends, as `simulate_pipeline`
        says, with the overhead of a micro-batch in every cost.
    mean_time : float
        The mean cost of a rank, which would be the time if no rank waited for another.
    lower_bound : float
        No schedule of these samples in these steps is faster: the mean cost of a rank, or the costliest sample.
    micro_batch_lower_bound : float
        No schedule of these samples in these steps is faster within the cap where ranks meet at every micro-batch: long
        samples are in micro-batches of their own, and a cap of shorter ones may cost less than the costliest of a row.
    idle_shares : ndarray of float64, shape (dp_size,)
        The share of the step time in which each rank has nothing to do.
    micro_batches : int
        Over all ranks and steps.
    over_cap : int
        Micro-batches of two samples or more above the token cap.
    worst_over_cap : float
        Tokens of the largest of two samples or more, over the cap; 1 or less where the cap is kept.
    alone_over_cap : int
        Samples above the token cap by themselves, each alone in its micro-batch.
    longest_alone : int
        Tokens of the longest of these; 0 where there is none.
    largest_tokens : int
        Tokens of the largest micro-batch.
    step_samples, step_tokens : ndarray of int64, shape (steps,)
        Samples and tokens of each step, those that only fill a micro-batch included.
    dropped : int
        Samples in no step.
    """

    step_time: float
    micro_batch_time: float
    pipeline_time: float
    mean_time: float
    lower_bound: float
    micro_batch_lower_bound: float
    idle_shares: npt.NDArray[np.float64]
    micro_batches: int
    over_cap: int
    worst_over_cap: float
    alone_over_cap: int
    longest_alone: int
    largest_tokens: int
    step_samples: Ints
    step_tokens: Ints
    dropped: int

    @property
    def times(self) -> dict[str, float]:
        """The time under each objective of `plan`."""
        return {"step": self.step_time, "micro-batch": self.micro_batch_time, "pipeline": self.pipeline_time}

    def idle_share(self, objective: str) -> float:
        """Return the share of the time in which the mean rank has nothing to do."""
        return idle_share(self.mean_time, self.times[objective])

    def excess(self, time: float) -> float:
        """Return how far a time is above the lower bound, as a share of it."""
        return time / self.lower_bound - 1 if self.lower_bound else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return the figures under short names, for a logger.

        Returns
        -------
        dict of str to float
            ``step_time``, ``micro_batch_time``, ``pipeline_time``, ``mean_time``, ``lower_bound``,
            ``micro_batch_lower_bound``, ``micro_batches``, ``over_cap``, ``worst_over_cap``, ``alone_over_cap``,
            ``longest_alone``, ``largest_tokens`` and ``dropped`` as above;
            ``step_excess``, ``micro_batch_excess``, ``pipeline_excess``: each time above the lower bound, as a share of
            it; ``micro_batch_forced``: as much of the second as no schedule within the cap is spared;
            ``idle_mean``, ``idle_max``: the mean and the largest idle share of a rank;
            ``steps``, ``samples``, ``tokens``: of all steps;
            ``step_samples_min``, ``step_samples_max``, ``step_tokens_min``, ``step_tokens_max``: of the smallest and
            the largest step.

        Examples
        --------
        >>> from flopbalance import plan
        >>> lengths = [7, 2, 5, 4, 3]
        >>> report(plan(lengths, dp_size=2, max_tokens=8), lengths, lengths, 8).as_dict()["step_excess"]
        0.0476...
        """
        metrics: dict[str, float] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, np.ndarray):
                metrics[field.name] = value
        for name, time in self.times.items():
            metrics[f"{name.replace('-', '_')}_excess"] = self.excess(time)
        metrics["micro_batch_forced"] = self.excess(self.micro_batch_lower_bound)
        metrics["idle_mean"], metrics["idle_max"] = float(self.idle_shares.mean()), float(self.idle_shares.max())
        metrics["samples"], metrics["tokens"] = int(self.step_samples.sum()), int(self.step_tokens.sum())
        metrics["steps"] = len(self.step_samples)
        for name, values in (("step_samples", self.step_samples), ("step_tokens", self.step_tokens)):
            metrics[f"{name}_min"], metrics[f"{name}_max"] = int(values.min()), int(values.max())
        return metrics

    def __str__(self) -> str:
        lines = [
            f"{name:<13} {time:.6g}, {self.excess(time):.2%} above the lower bound {self.lower_bound:.6g}"
            for name, time in self.times.items()
        ]
        forced = min(self.excess(self.micro_batch_lower_bound), self.excess(self.micro_batch_time))
        if round(100 * forced, 2) > 0:
            lines[1] += f"; {100 * forced:.2f} points of that are forced by the cap"
        lines += [
            f"{'idle':<13} {self.idle_shares.mean():.2%} of a rank's time, at most {self.idle_shares.max():.2%}",
            f"{'micro-batches':<13} {self.micro_batches:,}, the largest of {self.largest_tokens:,} tokens; "
            f"{self.over_cap:,} over the cap, the worst at {self.worst_over_cap:.2f} of it{self._alone()}",
            f"{'samples':<13} {self.step_samples.sum():,} of {counted(int(self.step_tokens.sum()), 'token')} in "
            f"{counted(len(self.step_samples), 'step')}; {self.dropped:,} dropped",
        ]
        return "\n".join(lines)

    def _alone(self) -> str:
        longer = above_alone(self.alone_over_cap, self.longest_alone)
        return f"; {longer}" if longer else ""


def report(
    schedule: Schedule,
    costs: npt.ArrayLike | CostFunction,
    lengths: npt.ArrayLike,
    max_tokens: int,
    *,
    pipeline_stages: int = 1,
    micro_batch_overhead: float = 0,
    pipeline: Pipeline | None = None,
) -> BalanceReport:
    """Return what a schedule costs, and how far it is from the best possible.

    Parameters
    ----------
    schedule : Schedule
        Of `plan`.
    costs : array_like of shape (n,) or object with ``flops(lengths)``
        What each sample costs, in any unit.
    lengths : array_like of shape (n,)
        Tokens per sample.
    max_tokens : int
        Token cap of a micro-batch.
    pipeline_stages : int, default 1
        Field `stages` of `pipeline`.
    micro_batch_overhead : float, default 0
        What every micro-batch costs there beside its samples, in the unit of `costs`.
    pipeline : Pipeline, optional
        The pipeline of every rank for which `pipeline_time` is told. With several chunks, steps of the schedule have a
        multiple of its group.

    Raises
    ------
    ValueError
        For arrays that are not of the schedule's samples, and for numbers that break their rule.

    Notes
    -----
    O(n + micro-batches · stages) time.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths = [7, 2, 5, 4, 3]
    >>> print(report(plan(lengths, dp_size=2, max_tokens=8), lengths, lengths, max_tokens=8))
    step          11, 4.76% above the lower bound 10.5
    micro-batch   11, 4.76% above the lower bound 10.5
    pipeline      11, 4.76% above the lower bound 10.5
    idle          4.55% of a rank's time, at most 9.09%
    micro-batches 4, the largest of 7 tokens; 0 over the cap, the worst at 0.88 of it
    samples       5 of 21 tokens in 1 step; 0 dropped
    """
    tokens = planned_lengths(schedule, lengths)
    weights = as_float_costs(costs, tokens, schedule.num_samples)
    cap = as_count(max_tokens, "max_tokens")
    measures = Measures.of(
        schedule,
        weights,
        pipeline=as_pipeline(pipeline, pipeline_stages),
        micro_batch_overhead=as_amount(micro_batch_overhead, "micro_batch_overhead"),
    )
    together, alone = above_cap(schedule.token_counts, schedule.sample_counts, cap)
    step_time, busy = float(measures.times["step"].sum()), measures.busy.sum(axis=1)
    lower_bound = float(measures.lower_bounds.sum())
    return BalanceReport(
        step_time=step_time,
        micro_batch_time=float(measures.times["micro-batch"].sum()),
        pipeline_time=float(measures.times["pipeline"].sum()),
        mean_time=float(measures.mean_times.sum()),
        lower_bound=lower_bound,
        micro_batch_lower_bound=max(lower_bound, float(_core.row_bounds(schedule, tokens, weights, cap).sum())),
        idle_shares=1 - busy / step_time if step_time else np.zeros(schedule.dp_size),
        micro_batches=len(schedule.micro_batch_tokens),
        over_cap=int(together.sum()),
        worst_over_cap=int(schedule.token_counts[schedule.sample_counts > 1].max(initial=0)) / cap,
        alone_over_cap=int(alone.sum()),
        longest_alone=int(schedule.token_counts[alone].max(initial=0)),
        largest_tokens=int(schedule.micro_batch_tokens.max()),
        step_samples=schedule.step_samples,
        step_tokens=schedule.step_tokens,
        dropped=len(schedule.dropped),
    )
