"""Why ranks wait in a schedule, and what would help: every answer is measured, every remedy planned."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance.checks import (
    CostFunction,
    Floats,
    Ints,
    as_choice,
    as_count,
    as_flag,
    as_float_costs,
    as_text,
    likely,
    shown,
)
from flopbalance.errors import ScheduleError
from flopbalance.planning.limits import as_pad_to
from flopbalance.planning.pipeline import Pipeline
from flopbalance.planning.plan import Packing, plan
from flopbalance.reports.measures import Measures, above_cap, idle_share
from flopbalance.reports.timeline import Meeting, pipeline_of
from flopbalance.schedules.schedule import Schedule, planned_lengths
from flopbalance.text import counted, format_table, si_prefix

_SHOWN = 5
"""At most so many samples are listed as a cause."""
_ROUNDING = 1e-9
"""A difference of so small a share of the time is none."""


@dataclass(frozen=True)
class Cause:
    """A sample that makes a rank late: what it is and costs."""

    sample: int
    tokens: int
    cost: float


@dataclass(frozen=True)
class Alternative:
    """Another plan of the same samples.

    Attributes
    ----------
    change : str
        What differs, in words.
    settings : dict
        The arguments of `plan` that differ.
    idle_share : float
        Share of all ranks' time that they wait.
    largest_tokens : int
        Tokens of the largest micro-batch.
    over_cap : int
        Micro-batches of two samples or more above the cap.
    dropped : int
        Samples of rollouts that fill no step.
    """

    change: str
    settings: dict[str, Any]
    idle_share: float
    largest_tokens: int
    over_cap: int
    dropped: int


@dataclass(frozen=True)
class Explanation:
    """What `explain` finds; ``str()`` of it is the text that ``flopbalance plan --explain`` prints.

    Attributes
    ----------
    step : int
        The step in which ranks wait longest, from 0.
    steps : int
        Steps of the schedule.
    rank : int
        The rank that others wait for longest in it.
    objective : str
        Where ranks wait for each other.
    stages : int
        Stages through which a micro-batch passes, one without a pipeline.
    duration : float
        Time of the step, in units of cost.
    mean : float
        Work of its mean rank.
    late : float
        For how much of the difference the rank is to blame.
    dearest : Cause
        The costliest sample of the step.
    causes : tuple of Cause
        The fewest samples of the rank that cost as much as it is late, costliest first.
    now : Alternative
        The schedule as it is.
    alternatives : tuple of Alternative
        Other plans, the one with the least waiting first.
    refused : dict of str to str
        Changes under which there is no schedule, and why.
    cost_unit : str
        The unit of costs.
    """

    step: int
    steps: int
    rank: int
    objective: str
    stages: int
    duration: float
    mean: float
    late: float
    dearest: Cause
    causes: tuple[Cause, ...]
    now: Alternative
    alternatives: tuple[Alternative, ...]
    refused: dict[str, str]
    cost_unit: str

    @property
    def bound(self) -> float:
        """No plan of the step takes less: some rank has the mean work at least, and some rank the costliest sample."""
        return max(self.mean, self.stages * self.dearest.cost)

    @property
    def best(self) -> Alternative | None:
        """The alternative with the least waiting of those that keep their cap, if ranks wait less than now."""
        safe = [a for a in self.alternatives if not a.over_cap and a.idle_share < self.now.idle_share - 0.0005]
        return safe[0] if safe else None

    def __str__(self) -> str:
        paragraphs = [self._what(), self._bound(), self._why(), self._remedies()]
        return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)

    def _amount(self, cost: float) -> str:
        scale, prefix = si_prefix(self.duration)
        return f"{cost / scale:.4g} {prefix}{self.cost_unit}"

    def _what(self) -> str:
        idle = idle_share(self.mean, self.duration)
        where = f"Step {self.step} of 0–{self.steps - 1}" if self.steps > 1 else "The only step"
        text = f"{where} takes {self._amount(self.duration)}"
        if not self.late:
            return f"{text}, and no rank waits for another."
        meeting = {
            "step": "",
            "micro-batch": " where ranks meet at every micro-batch",
            "pipeline": f" where each rank is a pipeline of {counted(self.stages, 'stage')}",
        }[self.objective]
        return (
            f"{text}{meeting}.\n"
            f"Its mean rank works for {self._amount(self.mean)} and is idle for {idle:.1%} of the time.\n"
            f"Rank {self.rank} is the slowest: it keeps the others waiting for {self._amount(self.late)}."
        )

    def _bound(self) -> str:
        text = f"No plan of this step takes less than {self._amount(self.bound)}, "
        if self.bound > self.mean:
            return (
                f"{text}which sample {self.dearest.sample} of {self.dearest.tokens:,} tokens takes by itself"
                f"{' through all stages' if self.stages > 1 else ''}:\n"
                "below that, only fewer ranks, more samples in a step or shorter samples would let ranks wait less."
            )
        return f"{text}the work of the mean rank."

    def _why(self) -> str:
        if not self.causes:
            return ""
        count = len(self.causes)
        rows = [(f"sample {c.sample}", f"{c.tokens:,} tokens", self._amount(c.cost)) for c in self.causes[:_SHOWN]]
        which = f"The {count} costliest samples of rank {self.rank}" if count > 1 else f"One sample of rank {self.rank}"
        lines = [f"{which} cost{'' if count > 1 else 's'} as much as it is late:", *_columns(rows)]
        if count > _SHOWN:
            lines.append(f"  and {count - _SHOWN} more")
        return "\n".join(lines)

    def _remedies(self) -> str:
        rows = []
        for row in (self.now, *self.alternatives):
            change = row.change
            if row.dropped > self.now.dropped:
                change += f" ({counted(row.dropped, 'sample')} dropped)"
            rows.append((change, f"{row.idle_share:.1%}", f"{row.largest_tokens:,}", f"{row.over_cap:,}"))
        header = ("everything else as it is", "idle, all steps", "largest (tokens)", "over cap")
        lines = [format_table(header, rows)]
        lines += [f"No schedule with {change}: {reason}" for change, reason in self.refused.items()]
        if self.best:
            lines.append(
                f"\nMost would help: {self.best.change}, with ranks idle for {self.best.idle_share:.1%} of the time "
                f"instead of {self.now.idle_share:.1%}."
            )
        else:
            lines.append("\nNone of these would let ranks wait less and keep the cap.")
        return "\n".join(lines)


def explain(
    schedule: Schedule,
    lengths: npt.ArrayLike,
    costs: npt.ArrayLike | CostFunction,
    settings: Mapping[str, Any],
    *,
    objective: Meeting = "step",
    cost_unit: str = "FLOPs",
    pipeline: Pipeline | None = None,
) -> Explanation:
    """Find where ranks wait longest, which samples cause it, and what would help.

    Parameters
    ----------
    schedule : Schedule
        Of n samples.
    lengths : array_like of shape (n,)
        Tokens per sample.
    costs : array_like of shape (n,) or object with ``flops(lengths)``
        What each sample costs.
    settings : mapping
        The other arguments of `plan` that made the schedule.
    objective : {"step", "micro-batch", "pipeline"}, default "step"
        Whether ranks wait for each other at the end of a step, of every micro-batch, or of a step behind a `pipeline`.
    cost_unit : str, default "FLOPs"
        The unit of `costs`, for the text.
    pipeline : Pipeline, optional
        Of every rank, for ``objective="pipeline"`` only.

    Returns
    -------
    Explanation
        Its alternatives are half and twice the cap, the ranks and the batch, and packings that balance better.

    Raises
    ------
    ValueError
        For an argument that breaks its rule.

    Notes
    -----
    Plans about ten times; O(n log n) time each.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths, settings = [90, 20, 70, 20], {"dp_size": 2, "max_tokens": 100, "balance_ranks": False}
    >>> explanation = explain(plan(lengths, **settings), lengths, lengths, settings, cost_unit="tokens")
    >>> print(str(explanation).partition("everything else")[0].rstrip())
    The only step takes 110 tokens.
    Its mean rank works for 100 tokens and is idle for 9.1% of the time.
    Rank 0 is the slowest: it keeps the others waiting for 10 tokens.
    <BLANKLINE>
    No plan of this step takes less than 100 tokens, the work of the mean rank.
    <BLANKLINE>
    One sample of rank 0 costs as much as it is late:
      sample 0  90 tokens  90 tokens
    """
    tokens = planned_lengths(schedule, lengths)
    weights = as_float_costs(costs, tokens, schedule.num_samples)
    _check_settings(settings)
    piped = pipeline_of(objective, pipeline)
    as_text(cost_unit, "cost_unit")
    measures = Measures.of(schedule, weights, pipeline=piped)
    step = measures.worst_step(objective)
    of_step = schedule.step_starts[step] + np.arange(schedule.micro_batches_per_step[step])
    rank, late, batches = _slowest(measures, step, measures.micro_batch_costs[:, of_step], objective)

    def cause(sample: int) -> Cause:
        return Cause(sample, int(tokens[sample]), float(weights[sample]))

    numbers = np.arange(len(schedule.micro_batch_tokens)).reshape(schedule.dp_size, -1)[:, of_step]
    in_order = _costliest_first(schedule, numbers[rank, batches], weights)
    needed = int(np.searchsorted(np.cumsum(weights[in_order]), late)) + 1 if late else 0
    alternatives, refused = _tried(schedule, tokens, costs, weights, settings, objective, piped)
    return Explanation(
        step=step,
        steps=len(measures.mean_times),
        rank=rank,
        objective=objective,
        stages=piped.stages,
        duration=float(measures.times[objective][step]),
        mean=float(measures.mean_times[step]),
        late=late,
        dearest=cause(int(_costliest_first(schedule, numbers.ravel(), weights)[0])),
        causes=tuple(cause(int(sample)) for sample in in_order[:needed]),
        now=_measured(schedule, weights, settings.get("max_tokens"), objective, piped, "now", {}),
        alternatives=tuple(sorted(alternatives, key=lambda alternative: alternative.idle_share)),
        refused=refused,
        cost_unit=cost_unit,
    )


def _tried(
    schedule: Schedule,
    tokens: Ints,
    costs: npt.ArrayLike | CostFunction,
    weights: Floats,
    settings: Mapping[str, Any],
    objective: Meeting,
    pipeline: Pipeline,
) -> tuple[list[Alternative], dict[str, str]]:
    """Plan what might help; also return why some cannot be planned."""
    alternatives, refused = [], {}
    for change, different in _changes(schedule, settings, objective, pipeline):
        cap = different.get("max_tokens", settings.get("max_tokens"))
        try:
            other = plan(tokens, costs=costs, **{**settings, **different})
            alternatives.append(_measured(other, weights, cap, objective, pipeline, change, different))
        except ScheduleError as error:
            refused[change] = str(error)
    return alternatives, refused


def _check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse what are no other arguments of `plan`, which made a schedule."""
    if not isinstance(settings, Mapping):
        raise ValueError(f"settings must be a mapping of the other arguments of plan, got {type(settings).__name__}")
    known = inspect.signature(plan).parameters.keys() - {"lengths", "costs"}
    for name in settings:
        if name not in known:
            raise ValueError(f"settings must hold other arguments of plan, got {shown(name)}{likely(name, known)}")
    as_flag(settings.get("balance_ranks", True), "settings['balance_ranks']")
    packing = as_choice(settings.get("packing", "first-fit"), Packing, "settings['packing']")
    limit = "micro_batch_size" if packing == "fixed" else "max_tokens"
    for name in ("dp_size", limit):
        if settings.get(name) is None:
            raise ValueError(f"settings must hold {name}, which made the schedule, got {', '.join(settings) or 'none'}")
        as_count(settings[name], f"settings[{name!r}]")


def _slowest(measures: Measures, step: int, costs: Floats, objective: Meeting) -> tuple[int, float, Ints]:
    """Return the rank that others wait for longest, for how long on average, and in which of its micro-batches."""
    duration = float(measures.times[objective][step])
    if objective != "micro-batch":
        ends = (measures.busy if objective == "step" else measures.pipeline_ends)[:, step]
        rank = int(ends.argmax())
        batches = np.arange(costs.shape[1])
        late = duration - float(measures.mean_times[step] if objective == "step" else ends.mean())
    else:
        slowest = costs.argmax(axis=0)
        by_rank = np.bincount(slowest, weights=costs.max(axis=0) - costs.mean(axis=0))
        rank = int(by_rank.argmax())
        batches = np.flatnonzero(slowest == rank)
        late = float(by_rank[rank])
    return rank, late if late > _ROUNDING * duration else 0.0, batches


def _costliest_first(schedule: Schedule, batches: Ints, weights: Floats) -> Ints:
    """Return the samples of some micro-batches by descending cost, then ascending number."""
    offsets = schedule.micro_batch_offsets
    samples = np.sort(np.concatenate([schedule.samples[offsets[i] : offsets[i + 1]] for i in batches]))
    return samples[np.argsort(-weights[samples], kind="stable")]


def _measured(
    schedule: Schedule,
    weights: Floats,
    max_tokens: int | None,
    objective: Meeting,
    pipeline: Pipeline,
    change: str,
    settings: dict[str, Any],
) -> Alternative:
    together, _ = above_cap(schedule.token_counts, schedule.sample_counts, max_tokens)
    return Alternative(
        change=change,
        settings=settings,
        idle_share=Measures.of(schedule, weights, pipeline=pipeline).idle_share(objective),
        largest_tokens=int(schedule.micro_batch_tokens.max()),
        over_cap=int(together.sum()),
        dropped=len(schedule.dropped),
    )


def _changes(
    schedule: Schedule, settings: Mapping[str, Any], objective: Meeting, pipeline: Pipeline
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what might help, in words and as arguments of `plan`."""
    now: dict[str, Any] = {"packing": "first-fit", "balance_ranks": True, **settings}
    if not now["balance_ranks"]:
        yield "ranks balanced", {"balance_ranks": True}
    if now["packing"] == "first-fit":
        yield "packing by FLOPs", {"packing": "flops", "balance_ranks": True}
    if now["packing"] in ("first-fit", "flops"):
        within = {"packing": "capped", "balance_ranks": True, "objective": objective}
        yield "packing within the cap", within | ({"pipeline": pipeline} if objective == "pipeline" else {})
    now["global_batch_size"] = int(schedule.rollouts_per_step[0])
    sizes = {
        "micro_batch_size": ("sample", " per micro-batch"),
        "max_tokens": ("token", " as the cap"),
        "dp_size": ("rank", ""),
        "global_batch_size": ("rollout", " in a step"),
    }
    del sizes["max_tokens" if now["packing"] == "fixed" else "micro_batch_size"]
    for name, (noun, rest) in sizes.items():
        for size in (now[name] // 2, now[name] * 2):
            # A rank by itself waits for none, and helps no one; a cap must hold what it is padded to.
            least = {"dp_size": 2, "max_tokens": as_pad_to(now.get("pad_to", 1))[1]}.get(name, 1)
            if least <= size < 2**63:
                yield f"{counted(size, noun)}{rest}", {name: size}


def _columns(rows: list[tuple[str, str, str]]) -> list[str]:
    """Align cells to the left, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["".join(f"  {cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
