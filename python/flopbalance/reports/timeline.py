"""The numbers behind the pictures: when every micro-batch runs, how long ranks wait, what lengths cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CostFunction, Floats, Ints, as_count, as_float_costs, as_lengths
from flopbalance.schedules.schedule import Schedule

Bools: TypeAlias = npt.NDArray[np.bool_]
Meeting = Literal["step", "micro-batch"]
"""Those objectives of `plan` that can be drawn rank by rank."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each micro-batch of one step runs on each rank.

    Times are in units of cost. All arrays have the shape (ranks, micro-batches per rank).

    Attributes
    ----------
    step : int
        The step, from 0.
    starts : ndarray of float64
        When the micro-batch starts; the step starts at 0.
    costs : ndarray of float64
        How long it runs.
    waits : ndarray of float64
        How long the rank then waits for other ranks, before its next micro-batch or the end of the step.
    tokens : ndarray of int64
        Tokens of the micro-batch.
    over_cap : ndarray of int64
        Those of them above the cap.
    samples : ndarray of int64
        Samples of the micro-batch.
    """

    step: int
    starts: Floats
    costs: Floats
    waits: Floats
    tokens: Ints
    over_cap: Ints
    samples: Ints

    @property
    def duration(self) -> float:
        """When the last rank is done with the step."""
        return float((self.starts + self.costs).max())

    @property
    def busy(self) -> Floats:
        """Work of each rank, shape (ranks,)."""
        busy: Floats = self.costs.sum(axis=1)
        return busy

    @property
    def idle(self) -> Floats:
        """Time that each rank waits, shape (ranks,)."""
        idle: Floats = self.waits.sum(axis=1)
        return idle

    @property
    def breaks_cap(self) -> Bools:
        """Where several samples together are above the cap."""
        breaks: Bools = (self.over_cap > 0) & (self.samples > 1)
        return breaks

    @property
    def alone(self) -> Bools:
        """Where a single sample is above the cap, which no packing can help."""
        alone: Bools = (self.over_cap > 0) & (self.samples == 1)
        return alone


def timelines(
    schedule: Schedule,
    costs: npt.ArrayLike,
    *,
    max_tokens: int | None = None,
    objective: Meeting = "step",
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
    objective : {"step", "micro-batch"}, default "step"
        Whether ranks wait for each other at the end of a step or at the end of every micro-batch.

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
    if objective not in get_args(Meeting):
        raise ValueError(f"objective must be one of {', '.join(get_args(Meeting))}, got {objective!r}")
    by_sample = as_float_costs(costs, None, schedule.num_samples)
    of_batches = np.add.reduceat(by_sample[schedule.samples], schedule.micro_batch_offsets[:-1])
    tokens = schedule.token_counts
    # The cap of a schedule without one is its largest micro-batch.
    cap = int(tokens.max()) if max_tokens is None else as_count(max_tokens, "max_tokens")
    firsts = schedule.step_starts[1:]
    steps = zip(
        np.split(of_batches.reshape(tokens.shape), firsts, axis=1),
        np.split(tokens, firsts, axis=1),
        np.split(schedule.sample_counts, firsts, axis=1),
        strict=True,
    )
    return [_timeline(step, *arrays, cap=cap, objective=objective) for step, arrays in enumerate(steps)]


def _timeline(step: int, costs: Floats, tokens: Ints, samples: Ints, *, cap: int, objective: Meeting) -> Timeline:
    slots = costs if objective == "step" else np.broadcast_to(costs.max(axis=0), costs.shape)
    ends = np.cumsum(slots, axis=1)
    starts = np.hstack([np.zeros((len(costs), 1)), ends[:, :-1]])
    waits = slots - costs
    waits[:, -1] += ends[:, -1].max() - ends[:, -1]
    return Timeline(step, starts, costs, waits, tokens, np.maximum(tokens - cap, 0), samples)


def idle_share(lines: list[Timeline]) -> float:
    """Return the share of all ranks' time that they wait, over all steps.

    Examples
    --------
    >>> from flopbalance import plan
    >>> idle_share(timelines(plan([4, 2], dp_size=2, max_tokens=4), [4, 2]))
    0.25
    """
    idle = sum(float(line.idle.mean()) for line in lines)
    duration = sum(line.duration for line in lines)
    return idle / duration if duration else 0.0


def worst_step(lines: list[Timeline]) -> int:
    """Return the step in which ranks wait longest; the first such."""
    return int(np.argmax([line.idle.sum() for line in lines]))


def si_prefix(largest: float) -> tuple[float, str]:
    """Return the power of 1000 that leaves numbers up to `largest` one to three digits, and its SI prefix.

    Examples
    --------
    >>> si_prefix(999), si_prefix(1000), si_prefix(2.5e16)
    ((1.0, ''), (1000.0, 'k'), (1000000000000000.0, 'P'))
    """
    power = 0
    while power < 10 and largest >= 1000 ** (power + 1):
        power += 1
    return 1000.0**power, ["", *"kMGTPEZYRQ"][power]


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
