"""Whether every step can be planned, before there are lengths."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from flopbalance.checks import COUNT_LIMIT, as_choice, as_count
from flopbalance.planning.limits import OnOversize
from flopbalance.planning.plan import OnLeftover, OnShortage
from flopbalance.text import counted

Change: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Feasibility:
    """What the arguments of a run lead to; true where every step can be planned.

    Attributes
    ----------
    problems : tuple of str
        What cannot be planned; empty where everything can.
    notes : tuple of str
        What happens though it may not be meant.
    steps : int
        Steps of all rollouts.
    micro_batches : tuple of (int, int)
        The fewest and the most micro-batches that a rank may run in a full step.
    remedies : tuple of mapping
        Arguments of `check_feasible` to change, and to what. Each is enough by itself.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    steps: int
    micro_batches: tuple[int, int]
    remedies: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        fewest, most = self.micro_batches
        count = counted(most, "micro-batch")
        head = (
            f"{counted(self.steps, 'step')}, {'' if fewest == most else f'{fewest:,} to '}{count} per rank"
            if self
            else "not every step can be planned"
        )
        lines = [*self.problems, *self.notes]
        if self.remedies:
            changes = (" with ".join(f"{name} = {value}" for name, value in one.items()) for one in self.remedies)
            lines.append(f"{'any of these' if len(self.remedies) > 1 else 'this'} would do: {'; '.join(changes)}")
        return "\n".join([head, *(f"- {line}" for line in lines)])


def check_feasible(
    *,
    global_batch_size: int,
    dp_size: int,
    max_tokens: int | None = None,
    longest: int | None = None,
    micro_batch_size: int | None = None,
    micro_batch_multiple: int = 1,
    samples_per_rollout: int = 1,
    num_rollouts: int | None = None,
    on_leftover: OnLeftover = "drop",
    on_oversize: OnOversize = "alone",
    on_shortage: OnShortage = "error",
) -> Feasibility:
    """Say whether every step can be planned, whatever the lengths turn out to be.

    Parameters
    ----------
    global_batch_size : int
        Rollouts in a step.
    dp_size : int
        Data-parallel ranks.
    max_tokens, longest : int, optional
        Token cap of a micro-batch, and tokens of the longest sample that can occur (by default as long as the cap).
    micro_batch_size : int, optional
        Samples of a micro-batch, in place of a cap.
    micro_batch_multiple : int, default 1
        Micro-batches per rank and step are a multiple of this.
    samples_per_rollout : int, default 1
        Samples that each rollout yields.
    num_rollouts : int, optional
        Rollouts that are planned together; by default those of one step.
    on_leftover, on_oversize, on_shortage
        As in `plan`.

    Raises
    ------
    ValueError
        For a number below 1, a choice that is none, or neither a cap nor a micro-batch size.

    Notes
    -----
    Samples of at most L tokens go at least ``k = cap // L`` to a micro-batch, but for the last one, since a micro-batch
    that refuses a sample holds more than ``cap - L``. So a step of S samples needs at most ``ceil(S / k)`` of them; it
    can be planned for certain where that, rounded up for the ranks, is at most S.

    Examples
    --------
    >>> print(check_feasible(global_batch_size=5, dp_size=4, max_tokens=10, longest=10))
    not every step can be planned
    - a step has 5 samples, of which 5 micro-batches may be made, 8 when rounded up (dp_size = 4 x \
micro_batch_multiple = 1 at a time)
    - any of these would do: global_batch_size = 4; global_batch_size = 8; max_tokens = 20
    >>> bool(check_feasible(global_batch_size=8, dp_size=4, max_tokens=10, longest=10))
    True
    """
    if max_tokens is None and micro_batch_size is None:
        raise ValueError("max_tokens or micro_batch_size must be given, got neither")

    def count(value: int | None, name: str) -> int | None:
        return None if value is None else as_count(value, name)

    cap = count(max_tokens, "max_tokens")
    run = _Run(
        global_batch_size=as_count(global_batch_size, "global_batch_size"),
        dp_size=as_count(dp_size, "dp_size"),
        max_tokens=cap if micro_batch_size is None else None,
        longest=count(longest, "longest"),
        micro_batch_size=count(micro_batch_size, "micro_batch_size"),
        micro_batch_multiple=as_count(micro_batch_multiple, "micro_batch_multiple"),
        samples_per_rollout=as_count(samples_per_rollout, "samples_per_rollout"),
        num_rollouts=count(num_rollouts, "num_rollouts"),
        on_leftover=as_choice(on_leftover, OnLeftover, "on_leftover"),
        on_oversize=as_choice(on_oversize, OnOversize, "on_oversize"),
        on_shortage=as_choice(on_shortage, OnShortage, "on_shortage"),
    )
    answer = run.examine()
    return answer if answer else replace(answer, remedies=tuple(run.remedies()))


@dataclass(frozen=True)
class _Run:
    """The arguments of `check_feasible`, each by itself as it must be."""

    global_batch_size: int
    dp_size: int
    max_tokens: int | None
    longest: int | None
    micro_batch_size: int | None
    micro_batch_multiple: int
    samples_per_rollout: int
    num_rollouts: int | None
    on_leftover: OnLeftover
    on_oversize: OnOversize
    on_shortage: OnShortage

    @property
    def rollouts(self) -> int:
        return self.global_batch_size if self.num_rollouts is None else self.num_rollouts

    @property
    def unit(self) -> int:
        """Micro-batches of all ranks come in multiples of this."""
        return self.dp_size * self.micro_batch_multiple

    def examine(self) -> Feasibility:
        """Say what can be planned, but not what would help."""
        problems: list[str] = []
        notes: list[str] = []
        size, rollouts = self.global_batch_size, self.rollouts
        steps, over = divmod(rollouts, size)
        if (over and self.on_leftover == "error") or (not steps and self.on_leftover == "drop"):
            problems.append(f"{counted(rollouts, 'rollout')} cannot make whole steps of global_batch_size = {size:,}")
        elif over and self.on_leftover == "drop":
            notes.append(f"rollouts that fill no step are dropped, the last {over:,} of {rollouts:,}")
        steps_of = [("a step", size)] if steps else []
        if over and self.on_leftover == "partial":
            steps += 1
            steps_of.append((f"the last step, of only {counted(over, 'rollout')},", over))

        length = None
        if self.micro_batch_size is not None:
            together = self.micro_batch_size
        else:
            cap = self.max_tokens or 1
            length = self.longest or cap
            together = max(1, cap // length)
            if length > cap:
                text = f"a sample of longest = {length:,} tokens exceeds max_tokens = {cap:,}"
                if self.on_oversize == "error":
                    problems.append(text)
                elif self.on_oversize == "drop":
                    problems.append(f"{text} and is dropped, so that a step may be left with too few samples")
                else:
                    notes.append(f"{text} and is alone in its micro-batch")

        at_a_time = f"dp_size = {self.dp_size:,} x micro_batch_multiple = {self.micro_batch_multiple:,} at a time"
        for step, (which, rollouts_in_step) in enumerate(steps_of):
            so = "; it is dropped" if step else ""
            samples = rollouts_in_step * self.samples_per_rollout
            packed = _quotient(samples, together)
            needed = _quotient(packed, self.unit) * self.unit
            has, micro_batches = f"{which} has {counted(samples, 'sample')}", counted(packed, "micro-batch")
            if length is None and packed != needed:
                problems.append(
                    f"{has}, {micro_batches} of {together:,}, no multiple of {self.unit:,} ({at_a_time}){so}"
                )
            elif length is not None and needed > samples and self.on_shortage == "repeat":
                notes.append(f"{has} and may need {needed:,}: its cheapest are repeated")
            elif length is not None and needed > samples:
                problems.append(
                    f"{has}, of which {micro_batches} may be made, {needed:,} when rounded up ({at_a_time}){so}"
                )
        most = _quotient(_quotient(size * self.samples_per_rollout, together), self.unit) * self.micro_batch_multiple
        fewest = most if length is None else self.micro_batch_multiple
        return Feasibility(tuple(problems), tuple(notes), steps, (fewest, most))

    def remedies(self) -> list[Change]:
        """Return the smallest sets of changes that are enough, each tried."""
        changes = [change for change in self._changes() if isinstance(change[1], str) or change[1] < COUNT_LIMIT]
        for several in range(1, len(changes) + 1):
            found: list[Change] = []
            for parts in itertools.combinations(changes, several):
                change: dict[str, Any] = dict(parts)
                # The two nearest of a kind are plenty.
                alike = sum(one.keys() == change.keys() for one in found)
                if len(change) == several and alike < 2 and not replace(self, **change).examine().problems:
                    found.append(change)
            if found:
                return found
        return []

    def _changes(self) -> Iterator[tuple[str, int | str]]:
        """Yield what may help, the nearest first."""
        # Steps of so many rollouts have as many samples as whole rows of micro-batches.
        together = self.unit * (self.micro_batch_size or 1)
        whole = together // math.gcd(together, self.samples_per_rollout)
        sizes = _multiples(whole, self.global_batch_size)
        if self.num_rollouts is not None:
            sizes.append(self.num_rollouts)
        yield from (("global_batch_size", size) for size in sizes if size != self.global_batch_size)
        rollouts = {*_multiples(whole, self.rollouts)}
        for size in (self.global_batch_size, *sizes):
            rollouts.update(_multiples(size, self.rollouts))
        nearest = sorted(rollouts - {self.rollouts}, key=lambda count: (abs(count - self.rollouts), count))
        yield from (("num_rollouts", count) for count in nearest)
        yield from (("on_leftover", choice) for choice in ("drop", "partial") if choice != self.on_leftover)
        if self.max_tokens is not None and self.longest is not None:
            yield from (("max_tokens", cap) for cap in (self.longest, 2 * self.longest) if cap > self.max_tokens)
        if self.on_oversize != "alone":
            yield "on_oversize", "alone"


def _multiples(of: int, near: int) -> list[int]:
    """Return the multiples below and above a number, from 1 times on."""
    return sorted({times * of for times in (near // of, _quotient(near, of)) if times})


def _quotient(dividend: int, divisor: int) -> int:
    """Round up, in whole numbers of any size."""
    return -(-dividend // divisor)
