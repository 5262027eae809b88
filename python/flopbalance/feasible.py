"""Whether every step can be planned, before there are lengths."""

from __future__ import annotations

from dataclasses import dataclass

from flopbalance.arrays import as_choice, as_count
from flopbalance.plan import OnLeftover, OnOversize, OnShortage


@dataclass(frozen=True)
class Feasibility:
    """What the arguments of a run lead to; true where every step can be planned.

    Attributes
    ----------
    problems : tuple of str
        What cannot be planned, and which arguments to change to what; empty where everything can.
    notes : tuple of str
        What happens though it may not be meant.
    steps : int
        Steps of all rollouts.
    micro_batches : tuple of (int, int)
        The fewest and the most micro-batches that a rank may run in a full step.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]
    steps: int
    micro_batches: tuple[int, int]

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        fewest, most = self.micro_batches
        count = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        head = f"{self.steps:,} steps, {count} micro-batches per rank" if self else "not every step can be planned"
        return "\n".join([head, *(f"- {line}" for line in (*self.problems, *self.notes))])


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
micro_batch_multiple = 1 at a time): make global_batch_size a multiple of 4, such as 8, or max_tokens >= 20 (2 x \
longest = 10)
    >>> bool(check_feasible(global_batch_size=8, dp_size=4, max_tokens=10, longest=10))
    True
    """
    size = as_count(global_batch_size, "global_batch_size")
    per_rollout = as_count(samples_per_rollout, "samples_per_rollout")
    ranks, multiple = as_count(dp_size, "dp_size"), as_count(micro_batch_multiple, "micro_batch_multiple")
    rollouts = size if num_rollouts is None else as_count(num_rollouts, "num_rollouts")
    as_choice(on_leftover, OnLeftover, "on_leftover")
    as_choice(on_oversize, OnOversize, "on_oversize")
    as_choice(on_shortage, OnShortage, "on_shortage")
    problems: list[str] = []
    notes: list[str] = []

    steps, over = divmod(rollouts, size)
    if (over and on_leftover == "error") or (not steps and on_leftover == "drop"):
        problems.append(
            f"{rollouts:,} rollouts make no whole steps of global_batch_size = {size:,}: make num_rollouts a multiple "
            f"of it, such as {(steps + 1) * size:,}, or on_leftover partial"
        )
    elif over and on_leftover == "drop":
        notes.append(f"the last {over:,} of {rollouts:,} rollouts fill no step and are dropped")
    step_sizes = [size] if steps else []
    if over and on_leftover == "partial":
        steps += 1
        step_sizes.append(over)

    length = None
    if micro_batch_size is not None:
        together = as_count(micro_batch_size, "micro_batch_size")
    elif max_tokens is None:
        raise ValueError("max_tokens or micro_batch_size must be given, got neither")
    else:
        cap = as_count(max_tokens, "max_tokens")
        length = cap if longest is None else as_count(longest, "longest")
        together = max(1, cap // length)
        if length > cap:
            text = f"a sample of longest = {length:,} tokens exceeds max_tokens = {cap:,}"
            if on_oversize == "error":
                problems.append(f"{text}: make max_tokens >= {length:,}, or on_oversize alone or drop")
            else:
                notes.append(f"{text} and is {'dropped' if on_oversize == 'drop' else 'alone in its micro-batch'}")

    unit = ranks * multiple
    at_a_time = f"dp_size = {ranks:,} x micro_batch_multiple = {multiple:,} at a time"
    for samples in (rollouts_in_step * per_rollout for rollouts_in_step in step_sizes):
        packed = _quotient(samples, together)
        needed = _quotient(packed, unit) * unit
        if length is None and packed != needed:
            problems.append(
                f"a step has {samples:,} samples, {packed:,} micro-batches of {together:,}, no multiple of {unit:,} "
                f"({at_a_time}): make global_batch_size x samples_per_rollout {needed * together:,}"
            )
        elif length is not None and needed > samples and on_shortage == "repeat":
            notes.append(f"a step has {samples:,} samples and may need {needed:,}: its cheapest are repeated")
        elif length is not None and needed > samples:
            whole = _quotient(_quotient(samples, unit) * unit, per_rollout)
            more_room = f", or max_tokens >= {2 * length:,} (2 x longest = {length:,})" if samples >= unit else ""
            problems.append(
                f"a step has {samples:,} samples, of which {packed:,} micro-batches may be made, {needed:,} when "
                f"rounded up ({at_a_time}): make global_batch_size a multiple of {unit:,}, such as {whole:,}{more_room}"
            )
    most = _quotient(_quotient(size * per_rollout, together), unit) * multiple
    fewest = most if length is None else multiple
    return Feasibility(tuple(problems), tuple(notes), steps, (fewest, most))


def _quotient(dividend: int, divisor: int) -> int:
    """Round up, in whole numbers of any size."""
    return -(-dividend // divisor)
