"""The numbers behind the pictures: when every micro-batch runs, how long ranks wait, what lengths cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CostFunction, Floats, Ints, as_choice, as_count, as_float_costs, as_lengths, shown
from flopbalance.planning.pipeline import Pipeline, as_pipeline
from flopbalance.reports import measures
from flopbalance.reports.measures import NO_PIPELINE, Bools, Measures, above_cap
from flopbalance.schedules.schedule import Schedule

Meeting = Literal["step", "micro-batch", "pipeline"]
"""The objectives of `plan`."""


def pipeline_of(objective: Meeting, pipeline: Pipeline | None) -> Pipeline:
    """Return the pipeline behind each rank, which one objective needs and no other has."""
    as_choice(objective, Meeting, "objective")
    if (objective == "pipeline") != (pipeline is not None):
        must = "be given" if pipeline is None else "be None"
        raise ValueError(f"pipeline must {must} for objective={objective!r}, got {shown(pipeline)}")
    return NO_PIPELINE if pipeline is None else as_pipeline(pipeline, 1)


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each micro-batch of one step runs on each rank.

    Times are in units of cost. All arrays have the shape (ranks, micro-batches per rank).

    Attributes
    ----------
    step : int
        The step, from 0.
    starts : ndarray of float64
        When the micro-batch starts, in a pipeline on its last stage; the step starts at 0.
    costs : ndarray of float64
        How long it runs.
    waits : ndarray of float64
        How long the rank then waits, before its next micro-batch or the end of the step.
    tokens : ndarray of int64
        Tokens of the micro-batch.
    over_cap : ndarray of int64
        Those of them above the cap.
    samples : ndarray of int64
        Samples of the micro-batch.
    breaks_cap : ndarray of bool
        Where several samples together are above the cap.
    alone : ndarray of bool
        Where a single sample is above the cap, which no packing can help.
    busy : ndarray of float64, shape (ranks,)
        Work of each rank.
    mean : float
        Work of the mean rank.
    duration : float
        When the last rank is done with the step.
    """

    step: int
    starts: Floats
    costs: Floats
    waits: Floats
    tokens: Ints
    over_cap: Ints
    samples: Ints
    breaks_cap: Bools
    alone: Bools
    busy: Floats
    mean: float
    duration: float

    @property
    def idle(self) -> Floats:
        """Time that each rank waits, shape (ranks,), in a pipeline before its first micro-batch, too."""
        idle: Floats = self.starts[:, 0] + self.waits.sum(axis=1)
        return idle


def timelines(
    schedule: Schedule,
    costs: npt.ArrayLike,
    *,
    max_tokens: int | None = None,
    objective: Meeting = "step",
    pipeline: Pipeline | None = None,
) -> list[Timeline]:
    """Return the time line of every step.

    Parameters
    ----------
    schedule : Schedule
        Of n samples.
    costs : array_like of shape (n,)
        What each sample costs, in any unit. A micro-batch runs for the sum of its samples.
    max_tokens : int, optional
        Token cap of a micro-batch; without it nothing is above.
    objective : {"step", "micro-batch", "pipeline"}, default "step"
        Whether ranks wait for each other at the end of a step, of every micro-batch, or of a step behind a `pipeline`.
        Then the time line is that of the last stage, which takes each micro-batch forward and back in one.
    pipeline : Pipeline, optional
        Of every rank, of one chunk, for ``objective="pipeline"`` only.

    Raises
    ------
    ValueError
        For an argument that breaks its rule.

    Notes
    -----
    O(n) time.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths = [7, 2, 5, 4, 3]
    >>> schedule = plan(lengths, dp_size=2, max_tokens=8)
    >>> (at_steps,) = timelines(schedule, lengths)
    >>> at_steps.costs, at_steps.idle
    (array([[7., 4.],
           [7., 3.]]), array([0., 1.]))
    >>> (at_micro_batches,) = timelines(schedule, [9, 1, 1, 9, 1], objective="micro-batch")
    >>> at_micro_batches.starts, at_micro_batches.waits
    (array([[0., 9.],
           [0., 9.]]), array([[0., 0.],
           [7., 8.]]))
    """
    piped = pipeline_of(objective, pipeline)
    if piped.chunks > 1:
        raise ValueError(f"pipeline.chunks must be 1 to be drawn, got {piped.chunks}")
    measured = Measures.of(schedule, as_float_costs(costs, None, schedule.num_samples), pipeline=piped)
    tokens = schedule.token_counts
    cap = None if max_tokens is None else as_count(max_tokens, "max_tokens")
    breaks_cap, alone = above_cap(tokens, schedule.sample_counts, cap)
    lines = []
    for step, (first, count) in enumerate(zip(schedule.step_starts, schedule.micro_batches_per_step, strict=True)):
        of_step = np.s_[:, first : first + count]
        costs_of_step = measured.micro_batch_costs[of_step]
        duration = float(measured.times[objective][step])
        ends = measured.last_stage_ends[of_step] if objective == "pipeline" else None
        starts, waits = _starts_and_waits(costs_of_step, objective, ends, duration)
        lines.append(
            Timeline(
                step=step,
                starts=starts,
                costs=costs_of_step,
                waits=waits,
                tokens=tokens[of_step],
                over_cap=np.maximum(tokens[of_step] - (tokens[of_step] if cap is None else cap), 0),
                samples=schedule.sample_counts[of_step],
                breaks_cap=breaks_cap[of_step],
                alone=alone[of_step],
                busy=measured.busy[:, step],
                mean=float(measured.mean_times[step]),
                duration=duration,
            )
        )
    return lines


def _starts_and_waits(costs: Floats, objective: Meeting, ends: Floats | None, duration: float) -> tuple[Floats, Floats]:
    """Return when each micro-batch starts, and how long its rank waits after it."""
    if ends is not None:
        starts = np.maximum(ends - costs, 0)
        return starts, np.maximum(np.hstack([starts[:, 1:], np.full((len(costs), 1), duration)]) - ends, 0)
    slots = costs if objective == "step" else np.broadcast_to(costs.max(axis=0), costs.shape)
    ends = np.cumsum(slots, axis=1)
    starts = np.hstack([np.zeros((len(costs), 1)), ends[:, :-1]])
    waits = slots - costs
    waits[:, -1] += ends[:, -1].max() - ends[:, -1]
    return starts, waits


def idle_share(lines: list[Timeline]) -> float:
    """Return the share of all ranks' time that they wait, over all steps.

    Examples
    --------
    >>> from flopbalance import plan
    >>> idle_share(timelines(plan([4, 2], dp_size=2, max_tokens=4), [4, 2]))
    0.25
    """
    return measures.idle_share(
        float(np.sum([line.mean for line in lines])), float(np.sum([line.duration for line in lines]))
    )


def worst_step(lines: list[Timeline]) -> int:
    """Return the step in which ranks wait longest; the first such."""
    return int(np.argmax([line.duration - line.mean for line in lines]))


@dataclass(frozen=True, eq=False)
class Distribution:
    """How samples, and what they cost, spread over lengths.

    Attributes
    ----------
    edges : ndarray of float64, shape (bins + 1,)
        Bin b holds lengths from ``edges[b]`` up to but not including ``edges[b + 1]``, in tokens. A length of 0 counts
        as 1. Neither the first nor the last bin is empty.
    samples : ndarray of float64, shape (bins,)
        Share of all samples in each bin.
    costs : ndarray of float64, shape (bins,)
        Share of their cost.
    longest_tenth : float
        Share of the cost that the longest tenth of the samples has, rounded up to whole samples.
    """

    edges: Floats
    samples: Floats
    costs: Floats
    longest_tenth: float

    @classmethod
    def of(cls, lengths: npt.ArrayLike, costs: npt.ArrayLike | CostFunction) -> Distribution:
        """Return the distribution of at least one sample, in bins of equal width on a logarithmic axis.

        Examples
        --------
        >>> distribution = Distribution.of([1, 1, 1, 40], [1, 1, 1, 27])
        >>> distribution.edges.round(1)
        array([ 1. ,  1.4,  2. ,  2.8,  4. ,  5.7,  8. , 11.3, 16. , 22.6, 32. ,
               45.3])
        >>> distribution.samples[[0, 10]], distribution.costs[[0, 10]]
        (array([0.75, 0.25]), array([0.1, 0.9]))
        """
        tokens = np.maximum(as_lengths(lengths, "lengths"), 1)
        if not len(tokens):
            raise ValueError("lengths must hold at least one length, got none")
        weights = as_float_costs(costs, tokens, len(tokens))
        low, high = np.floor(np.log2(tokens.min())), np.floor(np.log2(tokens.max())) + 1
        per_octave = 2 if high - low > 4 else 4
        edges = 2.0 ** (low + np.arange((high - low) * per_octave + 1) / per_octave)
        first, last = np.searchsorted(edges, [tokens.min(), tokens.max()], side="right")
        edges = edges[first - 1 : last + 1]
        counts = np.histogram(tokens, edges)[0]
        sums = np.histogram(tokens, edges, weights=weights)[0]
        total = weights.sum() or 1.0
        longest = np.argsort(-tokens, kind="stable")[: math.ceil(len(tokens) / 10)]
        return cls(edges, counts / len(tokens), sums / total, float(weights[longest].sum() / total))
