"""Schedules as data: which samples every rank runs, in which micro-batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import Ints, as_count, as_lengths
from flopbalance.text import counted

_VERSION = 1
"""Of the saved form."""


@dataclass(frozen=True, eq=False, repr=False)
class _Arrays:
    """What schedules and their views share: read-only arrays, compared by value."""

    def __post_init__(self) -> None:
        values = vars(self)
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                values[name] = view = value.view()  # the caller's own array stays writable
                view.setflags(write=False)

    def _arrays(self) -> Iterator[tuple[str, Ints]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                yield field.name, value

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # read-only again

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    def __hash__(self) -> int:
        return hash(tuple(array.tobytes() for _, array in self._arrays()))


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
        return RankSchedule(
            rank=rank,
            samples=self.samples[offsets[0] : offsets[-1]].copy(),
            micro_batch_offsets=offsets - offsets[0],
            micro_batch_tokens=self.micro_batch_tokens[rank * count : (rank + 1) * count].copy(),
            micro_batches_per_step=self.micro_batches_per_step,
            rollouts_per_step=self.rollouts_per_step,
            is_padding=self.is_padding[offsets[0] : offsets[-1]].copy(),
        )

    def to_lists(self) -> tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]:
        """Return the published nested lists, as `build_dp_schedule` does; they do not tell which samples are padding.

        Examples
        --------
        >>> from flopbalance import plan
        >>> plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8).to_lists()
        ([[0, 3], [1, 2, 4]], [[[0], [1]], [[0, 1], [2]]], [2], [5])
        """
        partitions, micro_batches = _core.rank_lists(self.samples, self.micro_batch_offsets, self.dp_size)
        return partitions, micro_batches, self.micro_batches_per_step.tolist(), self.rollouts_per_step.tolist()

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
        """Write the schedule to an .npz file, under exactly this name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        with open(path, "wb") as file:
            np.savez_compressed(file, version=_VERSION, **values)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schedule:
        """Read a schedule that `save` wrote.

        Raises
        ------
        ValueError
            When the file is not one, or is damaged: the message says what it is or lacks.
        """
        with open(path, "rb") as file:
            try:
                values = _read_archive(file, [field.name for field in fields(cls)])
                version = int(values.pop("version"))
                dp_size, num_samples = int(values.pop("dp_size")), int(values.pop("num_samples"))
                schedule = cls(dp_size=dp_size, num_samples=num_samples, **values)
                schedule._validate(version)
            except Exception as error:  # a damaged file can fail in any way that zip, NumPy or a missing name can
                raise ValueError(f"path must be a schedule that save() wrote, got {os.fspath(path)}: {error}") from None
        return schedule

    def _validate(self, version: int) -> None:
        """Raise a ValueError that names the broken law."""
        count = self.dp_size * int(self.micro_batches_per_step.sum())
        placed = np.concatenate([self.samples[~self.is_padding], self.dropped])
        laws = {
            f"version is {_VERSION}": version == _VERSION,
            "arrays are int64 of one dimension, and one of bool": all(
                array.dtype == (np.bool_ if name == "is_padding" else np.int64) and array.ndim == 1
                for name, array in self._arrays()
            ),
            "every step has micro-batches": bool((self.micro_batches_per_step > 0).all()),
            "every rank has as many micro-batches": len(self.micro_batch_tokens) == count > 0,
            "one offset more than micro-batches": len(self.micro_batch_offsets) == count + 1,
            "offsets ascend from 0 to the number of placed samples": self.micro_batch_offsets[0] == 0
            and self.micro_batch_offsets[-1] == len(self.samples)
            and bool((np.diff(self.micro_batch_offsets) > 0).all()),
            "every sample stands in one place": np.array_equal(np.sort(placed), np.arange(self.num_samples)),
            "samples are of the input": bool(((self.samples >= 0) & (self.samples < self.num_samples)).all()),
            "tokens are not negative": bool((self.micro_batch_tokens >= 0).all()),
            "every step has rollouts": bool((self.rollouts_per_step > 0).all()),
            "as many steps of rollouts as of micro-batches": len(self.rollouts_per_step)
            == len(self.micro_batches_per_step),
        }
        for law, holds in laws.items():
            if not holds:
                raise ValueError(f"broken law: {law}")

    def __repr__(self) -> str:
        ranks = counted(self.dp_size, "rank", "d")
        return f"Schedule({ranks}, {_sizes(self)}, {len(self.samples)} of {self.num_samples} samples)"

    def _repr_html_(self) -> str:
        from flopbalance.schedules.notebook import schedule_html  # only notebooks need what it imports

        return schedule_html(self)


def _read_archive(file: IO[bytes], names: list[str]) -> dict[str, Any]:
    """Return the arrays of a file, which are the version and these, all of plain numbers."""
    start = file.read(64).lstrip()
    file.seek(0)
    if not start.startswith(b"PK"):
        kinds = {b"{": "JSON text", b"[": "JSON text", b"\x93NUMPY": "a single .npy array"}
        found = next((kind for first, kind in kinds.items() if start.startswith(first)), "another kind of file")
        raise ValueError(f"expected an .npz archive, found {found if start else 'an empty file'}")
    with np.load(file, allow_pickle=False) as saved:
        for name in ["version", *names]:
            if name not in saved.files:
                raise ValueError(f"expected an array {name!r}, found {', '.join(map(repr, saved.files)) or 'none'}")
        for name in saved.files:
            if name not in ["version", *names]:
                raise ValueError(f"expected no array {name!r} beside those of a schedule")
        values = {}
        for name in saved.files:
            try:
                values[name] = saved[name]
            except ValueError as error:  # NumPy's words are about allowing pickles, which may run anything
                fault = "Python objects" if "pickle" in str(error) else f"a fault: {error}"
                raise ValueError(f"expected plain numbers in {name!r}, found {fault}") from None
        return values


def planned_lengths(schedule: Schedule, lengths: npt.ArrayLike) -> Ints:
    """Return lengths as int64, which must be those that a schedule was planned with."""
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule must be a Schedule, as plan returns it, got {type(schedule).__name__}")
    tokens = as_lengths(lengths, "lengths")
    if len(tokens) != schedule.num_samples:
        raise ValueError(f"lengths must hold one length for each of {schedule.num_samples} samples, got {len(tokens)}")
    sums = np.add.reduceat(tokens[schedule.samples], schedule.micro_batch_offsets[:-1])
    for i in np.flatnonzero(sums != schedule.micro_batch_tokens)[:1]:
        planned = schedule.micro_batch_tokens[i]
        raise ValueError(
            f"lengths must be those that were planned, got {sums[i]} tokens in micro-batch {i} instead of {planned}"
        )
    return tokens


def _sizes(schedule: RankSchedule | Schedule) -> str:
    steps = counted(len(schedule.micro_batches_per_step), "step", "d")
    batches = counted(len(schedule.micro_batch_tokens), "micro-batch", "d")
    return f"{steps}, {batches} of at most {schedule.micro_batch_tokens.max(initial=0)} tokens"
