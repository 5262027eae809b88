"""Schedules as data: which samples every rank runs, in which micro-batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import CostFunction, Ints, Weights, as_count, as_lengths, as_sample_costs, as_weights
from flopbalance.schedules.laws import checked_rank, checked_schedule
from flopbalance.text import counted

_Kind = TypeVar("_Kind", bound="_Arrays")
_Number = TypeVar("_Number", bound="np.integer[Any] | np.floating[Any]")


@dataclass(frozen=True, eq=False, repr=False)
class _Arrays:
    """What schedules and their views share: fields that keep the laws; read-only arrays, compared by value."""

    def _hold(self, values: dict[str, Any]) -> None:
        own = vars(self)
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                own[name] = view = value.view()  # the caller's own array stays writable
                view.setflags(write=False)
            else:
                own[name] = value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # read-only again

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        values = (getattr(self, field.name) for field in fields(self))
        return hash(tuple(value.tobytes() for value in values if isinstance(value, np.ndarray)))


def unchecked(kind: type[_Kind], **values: Any) -> _Kind:
    """Return a schedule or a view of one whose fields keep the laws, as the core's answers do; none is looked at."""
    made = object.__new__(kind)
    made._hold(values)
    return made


@dataclass(frozen=True, eq=False, repr=False)
class RankSchedule(_Arrays):
    """The part of a `Schedule` that one rank runs; holds nothing of the other ranks, so it is small to send.

    Attributes
    ----------
    rank : int
        The data-parallel rank.
    samples : ndarray of int64, shape (samples of the rank,)
        Global sample indices, step by step and micro-batch by micro-batch.
    micro_batch_offsets : ndarray of int64, shape (micro-batches + 1,)
        Micro-batch m holds ``samples[micro_batch_offsets[m]:micro_batch_offsets[m + 1]]``.
    micro_batch_tokens : ndarray of int64, shape (micro-batches,)
        Tokens of each micro-batch.
    micro_batches_per_step : ndarray of int64, shape (steps,)
        Micro-batches of the rank in each step.
    rollouts_per_step : ndarray of int64, shape (steps,)
        Rollouts in each step, over all ranks.
    is_padding : ndarray of bool, shape (samples of the rank,)
        Which of `samples` only fill a micro-batch and must get no loss; they stand elsewhere too.
    """

    rank: int
    samples: Ints
    micro_batch_offsets: Ints
    micro_batch_tokens: Ints
    micro_batches_per_step: Ints
    rollouts_per_step: Ints
    is_padding: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        self._hold(checked_rank(vars(self)))

    @property
    def sample_counts(self) -> Ints:
        """Samples of each micro-batch, int64 of shape (micro-batches,)."""
        return np.diff(self.micro_batch_offsets)

    def steps(self) -> Iterator[list[Ints]]:
        """Yield every step as a list of micro-batches, each an array of global sample indices.

        Examples
        --------
        >>> from flopbalance import plan
        >>> schedule = plan([3, 1, 2, 2], dp_size=2, max_tokens=4, global_batch_size=2)
        >>> [[batch.tolist() for batch in step] for step in schedule.rank(0).steps()]
        [[[0]], [[3]]]
        """
        batches = np.split(self.samples, self.micro_batch_offsets[1:-1])
        first = 0
        for count in self.micro_batches_per_step.tolist():
            yield batches[first : first + count]
            first += count

    def __repr__(self) -> str:
        return f"RankSchedule(rank {self.rank}, {_sizes(self)}, {counted(len(self.samples), 'sample', 'd')})"


@dataclass(frozen=True, eq=False, repr=False)
class Schedule(_Arrays):
    """A data-parallel micro-batch schedule as flat read-only arrays: rank by rank, then step by step.

    Micro-batch m of rank r, counted over all steps, is number ``r * M + m`` below; every rank runs M micro-batches,
    ``micro_batches_per_step`` of them in each step.

    Attributes
    ----------
    dp_size : int
        Data-parallel ranks.
    num_samples : int
        Samples that were planned for, dropped ones included.
    samples : ndarray of int64, shape (placed samples,)
        Global sample indices, micro-batch by micro-batch.
    micro_batch_offsets : ndarray of int64, shape (dp_size * M + 1,)
        Micro-batch i holds ``samples[micro_batch_offsets[i]:micro_batch_offsets[i + 1]]``.
    micro_batch_tokens : ndarray of int64, shape (dp_size * M,)
        Tokens of each micro-batch.
    micro_batches_per_step : ndarray of int64, shape (steps,)
        Micro-batches per rank in each step.
    rollouts_per_step : ndarray of int64, shape (steps,)
        Rollouts in each step.
    dropped : ndarray of int64
        Samples that are in no step, ascending.
    is_padding : ndarray of bool, shape (placed samples,)
        Which of `samples` stand there once more only to fill a micro-batch: they must get no loss.

    See Also
    --------
    plan : Makes a schedule.
    Schedule.from_lists : Makes one from the lists of a trainer.

    Examples
    --------
    >>> from flopbalance import plan
    >>> schedule = plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8)
    >>> schedule
    Schedule(2 ranks, 1 step, 4 micro-batches of at most 7 tokens, 5 of 5 samples)
    >>> schedule.token_counts
    array([[7, 4],
           [7, 3]])
    >>> schedule.rank(1)
    RankSchedule(rank 1, 1 step, 2 micro-batches of at most 7 tokens, 3 samples)
    """

    dp_size: int
    num_samples: int
    samples: Ints
    micro_batch_offsets: Ints
    micro_batch_tokens: Ints
    micro_batches_per_step: Ints
    rollouts_per_step: Ints
    dropped: Ints
    is_padding: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        self._hold(checked_schedule(vars(self)))

    @property
    def sample_counts(self) -> Ints:
        """Samples of each micro-batch, int64 of shape (dp_size, micro-batches per rank)."""
        return np.diff(self.micro_batch_offsets).reshape(self.dp_size, -1)

    @property
    def token_counts(self) -> Ints:
        """Tokens of each micro-batch, int64 of shape (dp_size, micro-batches per rank)."""
        return self.micro_batch_tokens.reshape(self.dp_size, -1)

    @property
    def step_samples(self) -> Ints:
        """Samples of each step over all ranks, int64 of shape (steps,)."""
        return self._over_steps(self.sample_counts)

    @property
    def step_tokens(self) -> Ints:
        """Tokens of each step over all ranks, int64 of shape (steps,)."""
        return self._over_steps(self.token_counts)

    @property
    def step_starts(self) -> Ints:
        """A rank's first micro-batch of each step, int64 of shape (steps,)."""
        starts: Ints = np.cumsum(self.micro_batches_per_step) - self.micro_batches_per_step
        return starts

    def _over_steps(self, counts: Ints) -> Ints:
        sums: Ints = np.add.reduceat(counts.sum(axis=0), self.step_starts)
        return sums

    def rank(self, rank: int) -> RankSchedule:
        """Return what one rank runs, in arrays of its own; O(samples of the rank).

        Parameters
        ----------
        rank : int
            From 0 to dp_size - 1.
        """
        rank = as_count(rank, "rank", minimum=0)
        if rank >= self.dp_size:
            raise ValueError(f"rank must be < dp_size = {self.dp_size}, got {rank}")
        count = len(self.micro_batch_tokens) // self.dp_size
        offsets = self.micro_batch_offsets[rank * count : (rank + 1) * count + 1]
        return unchecked(
            RankSchedule,
            rank=rank,
            samples=self.samples[offsets[0] : offsets[-1]].copy(),
            micro_batch_offsets=offsets - offsets[0],
            micro_batch_tokens=self.micro_batch_tokens[rank * count : (rank + 1) * count].copy(),
            micro_batches_per_step=self.micro_batches_per_step,
            rollouts_per_step=self.rollouts_per_step,
            is_padding=self.is_padding[offsets[0] : offsets[-1]].copy(),
        )

    def to_lists(self) -> tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]:
        """Return the published nested lists, as `build_dp_schedule` does; they do not say which samples are padding.

        Examples
        --------
        >>> from flopbalance import plan
        >>> plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8).to_lists()
        ([[0, 3], [1, 2, 4]], [[[0], [1]], [[0, 1], [2]]], [2], [5])
        """
        partitions, micro_batches = _core.rank_lists(self)
        return partitions, micro_batches, self.micro_batches_per_step.tolist(), self.rollouts_per_step.tolist()

    @classmethod
    def from_lists(
        cls,
        partitions: Iterable[Any],
        micro_batch_indices: Iterable[Iterable[Any]],
        num_microbatches: npt.ArrayLike,
        global_batch_sizes: npt.ArrayLike | None = None,
        *,
        lengths: npt.ArrayLike,
    ) -> Schedule:
        """Return the schedule that published lists describe, to report, draw or save it; the inverse of `to_lists`.

        Parameters
        ----------
        partitions : list of list of int
            Samples of each rank.
        micro_batch_indices : list of list of list of int
            Micro-batches of each rank over all steps, as positions in its partition.
        num_microbatches : list of int
            Micro-batches per rank in each step.
        global_batch_sizes : list of int, optional
            Rollouts in each step; by default every sample is a rollout.
        lengths : array_like of shape (n,)
            Tokens per sample. Samples that no rank has are `dropped`.

        Raises
        ------
        ValueError
            When the lists are no schedule: a sample or a position twice, a position that is none, an empty micro-batch,
            ranks of different numbers of micro-batches. The message names the list, the law and what was found.

        Notes
        -----
        O(n). The lists do not say which samples only fill a micro-batch, so that a sample must not stand twice.

        Examples
        --------
        >>> from flopbalance import plan, report
        >>> lengths = [7, 2, 5, 4, 3]
        >>> lists = plan(lengths, dp_size=2, max_tokens=8).to_lists()
        >>> schedule = Schedule.from_lists(*lists, lengths=lengths)
        >>> schedule
        Schedule(2 ranks, 1 step, 4 micro-batches of at most 7 tokens, 5 of 5 samples)
        >>> schedule.to_lists() == lists
        True
        """
        from flopbalance.schedules.lists import read_lists  # only who has lists needs what it imports

        return cls(**read_lists(partitions, micro_batch_indices, num_microbatches, global_batch_sizes, lengths))

    def rank_loads(
        self,
        costs: npt.ArrayLike | CostFunction,
        lengths: npt.ArrayLike | None = None,
        *,
        carried: npt.ArrayLike | None = None,
    ) -> npt.NDArray[Any]:
        """Return what every rank carries after this schedule, for `carried` of the next call of `plan`.

        Parameters
        ----------
        costs : array_like of shape (n,) or object with ``flops(lengths)``
            What each sample costs, as it was planned; repeated samples count each time.
        lengths : array_like of shape (n,), optional
            Tokens per sample, for costs that are an object.
        carried : array_like of shape (dp_size,), optional
            What every rank carried before, in the unit of costs; by default nothing.

        Returns
        -------
        ndarray of shape (dp_size,)
            Sums of integers are exact: int64, or Python integers where 64 bits do not hold one. Floats are added from
            left to right.

        Examples
        --------
        >>> from flopbalance import plan
        >>> carried = None
        >>> for _ in range(3):
        ...     schedule = plan([9, 4, 3], dp_size=2, max_tokens=100, packing="capped", carried=carried)
        ...     carried = schedule.rank_loads([9, 4, 3], carried=carried)
        ...     print(carried)
        [9 7]
        [16 16]
        [25 23]
        """
        tokens = None if lengths is None else planned_lengths(self, lengths)
        weights = _array(as_sample_costs(costs, tokens, self.num_samples))
        before = _array(as_weights(np.zeros(self.dp_size, np.int64) if carried is None else carried, "carried"))
        if len(before) != self.dp_size:
            raise ValueError(
                f"carried must hold one load for each of the dp_size = {self.dp_size} ranks, got {len(before)}"
            )
        ends = self.micro_batch_offsets[:: len(self.micro_batch_tokens) // self.dp_size].tolist()
        of_ranks = [weights[self.samples[start:end]] for start, end in pairwise(ends)]
        if "f" in (weights.dtype.kind, before.dtype.kind):
            # Not sum: it corrects what rounds, and the planner does not.
            sums = [
                list(accumulate(of_rank.tolist(), initial=load))[-1]
                for load, of_rank in zip(before.tolist(), of_ranks, strict=True)
            ]
            return np.array(sums, dtype=np.float64)
        loads = [sum(of_rank.tolist(), start=load) for load, of_rank in zip(before.tolist(), of_ranks, strict=True)]
        return np.array(loads, dtype=np.int64 if max(loads) < 2**63 else object)

    def inverse(self) -> Ints:
        """Return where each sample stands in `samples`, -1 for dropped ones; int64 of shape (num_samples,).

        Results in the schedule's order (all of rank 0's, then all of rank 1's, ...) go back to the input's order by
        ``results[schedule.inverse()]``, when nothing was dropped.

        Examples
        --------
        >>> from flopbalance import plan
        >>> schedule = plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8)
        >>> results = np.array([7, 2, 5, 4, 3])[schedule.samples]  # what the ranks compute, in their order
        >>> results[schedule.inverse()]
        array([7, 2, 5, 4, 3])
        """
        positions = np.full(self.num_samples, -1, dtype=np.int64)
        positions[self.samples[~self.is_padding]] = np.flatnonzero(~self.is_padding)
        return positions

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule to an .npz file, under exactly this name; an old file is replaced as a whole.

        Raises
        ------
        ValueError
            The schedule has more than 2**28 samples.
        OSError
            The file cannot be written; an old one is still there.
        """
        from flopbalance.schedules.archive import write_archive  # only who saves or loads needs what it imports

        write_archive(path, {field.name: getattr(self, field.name) for field in fields(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schedule:
        """Read a schedule that `save` wrote.

        Raises
        ------
        ValueError
            When the file is not one, or is damaged: the message says what it is or lacks.
        """
        from flopbalance.schedules.archive import read_archive

        return unchecked(cls, **read_archive(path, [field.name for field in fields(cls)]))

    def __repr__(self) -> str:
        ranks = counted(self.dp_size, "rank", "d")
        return f"Schedule({ranks}, {_sizes(self)}, {len(self.samples)} of {self.num_samples} samples)"

    def _repr_html_(self) -> str:
        from flopbalance.schedules.notebook import schedule_html  # only notebooks need what it imports

        return schedule_html(self)


def micro_batch_sums(values: npt.NDArray[_Number], offsets: Ints) -> npt.NDArray[_Number]:
    """Return the sum of a value over the samples of each micro-batch, none of which is empty."""
    sums: npt.NDArray[_Number] = np.add.reduceat(values, offsets[:-1])
    return sums


def planned_lengths(schedule: Schedule, lengths: npt.ArrayLike) -> Ints:
    """Return lengths as int64, which must be those that a schedule was planned with."""
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule must be a Schedule, as plan returns it, got {type(schedule).__name__}")
    tokens = as_lengths(lengths, "lengths")
    if len(tokens) != schedule.num_samples:
        raise ValueError(f"lengths must hold one length for each of {schedule.num_samples} samples, got {len(tokens)}")
    sums = micro_batch_sums(tokens[schedule.samples], schedule.micro_batch_offsets)
    for i in np.flatnonzero(sums != schedule.micro_batch_tokens)[:1]:
        planned = schedule.micro_batch_tokens[i]
        raise ValueError(
            f"lengths must be those that were planned, got {sums[i]} tokens in micro-batch {i} instead of {planned}"
        )
    return tokens


def _array(numbers: Weights) -> npt.NDArray[Any]:
    """Return numbers as an array that rounds none of them."""
    return np.array(numbers, dtype=object) if isinstance(numbers, list) else numbers


def _sizes(schedule: RankSchedule | Schedule) -> str:
    steps = counted(len(schedule.micro_batches_per_step), "step", "d")
    batches = counted(len(schedule.micro_batch_tokens), "micro-batch", "d")
    return f"{steps}, {batches} of at most {schedule.micro_batch_tokens.max(initial=0)} tokens"
