"""What the planning commands read from their options: lengths, costs, ranks and limits."""

import argparse
import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CostFunction, as_amount, as_count
from flopbalance.commands.options import BUILT_IN_BATCH_SIZE
from flopbalance.costs.fitted import FittedCost
from flopbalance.costs.sources import FLOPS_MODELS, read_cost
from flopbalance.errors import ScheduleError
from flopbalance.fields import Fields
from flopbalance.lengths.files import read_lengths
from flopbalance.lengths.synthetic import Rollout, synthetic_rollout
from flopbalance.planning.counts import Counts
from flopbalance.planning.pipeline import Pipeline
from flopbalance.planning.plan import Objective, plan
from flopbalance.reports.balance import BalanceReport, report
from flopbalance.schedules.schedule import Schedule
from flopbalance.text import counted
from flopbalance.trainers.arguments import validate_balance_args
from flopbalance.trainers.modes import FIXED_MODES, MODES, Mode, plan_choices, token_cap


class Planned(NamedTuple):
    """A schedule, what it comes to, and the seconds that planning took."""

    schedule: Schedule
    report: BalanceReport
    seconds: float


@dataclasses.dataclass(frozen=True)
class Problem:
    """A rollout to plan, and the limits to keep."""

    rollout: Rollout
    costs: npt.NDArray[Any]
    dp_size: int
    max_tokens: int
    micro_batch_size: int | None
    global_batch_size: int | None
    micro_batch_multiple: int
    stages: int
    micro_batch_overhead: float | None
    choices: Mapping[str, Any]

    def pipeline(self, objective: Objective) -> Pipeline | None:
        """Return the pipeline of each rank, where the objective has one."""
        return Pipeline(self.stages) if objective == "pipeline" else None

    def modes(self) -> tuple[Mode, ...]:
        """Return the modes that apply."""
        return MODES if self.micro_batch_size is None else FIXED_MODES

    def plan(self, mode: Mode) -> Planned:
        """Plan in a mode."""
        start = time.perf_counter()
        schedule = plan(self.rollout.lengths, costs=self.costs, **self.settings(mode))
        seconds = time.perf_counter() - start
        measured = report(
            schedule,
            self.costs,
            self.rollout.lengths,
            self.max_tokens,
            pipeline_stages=self.stages,
            micro_batch_overhead=self.micro_batch_overhead or 0,
        )
        return Planned(schedule, measured, seconds)

    def plan_each(self, modes: Iterable[Mode]) -> tuple[dict[Mode, Planned], dict[Mode, ScheduleError]]:
        """Plan in every mode; also return why some cannot."""
        planned, refused = {}, {}
        for mode in modes:
            try:
                planned[mode] = self.plan(mode)
            except ScheduleError as error:
                refused[mode] = error
        return planned, refused

    def flags(self, mode: Mode) -> str:
        """Return the options with which a trainer plans in a mode, except for those that hold for every mode."""
        flags = [mode.flag] if mode.flag else []
        if mode.reads("micro_batch_overhead") and self.micro_batch_overhead is not None:
            flags.append(f"--micro-batch-overhead {self.micro_batch_overhead}")
        if self.micro_batch_size is None:
            flags.append("--use-dynamic-batch-size")
        return " ".join(flags)

    def settings(self, mode: Mode) -> dict[str, Any]:
        """Return the arguments of `plan` other than lengths and costs, as far as the mode reads them."""
        counts = {field: self.choices[field] for field in ("exactly", "at_least") if field in self.choices}
        offered = {
            **{argument: value for argument, value in self.choices.items() if argument not in counts},
            "objective": mode.objective,
            "pipeline_stages": self.stages if mode.objective == "pipeline" else None,
            "micro_batch_overhead": self.micro_batch_overhead,
        }
        return {
            "dp_size": self.dp_size,
            "max_tokens": self.max_tokens,
            "micro_batch_size": self.micro_batch_size,
            "rollout_ids": self.rollout.rollout_ids,
            "global_batch_size": self.global_batch_size,
            "counts": Counts(**(counts if mode.reads("exactly") else {}), multiple=self.micro_batch_multiple),
            "packing": mode.packing,
            "balance_ranks": mode.balance_ranks,
            **{argument: value for argument, value in offered.items() if mode.reads(argument)},
        }

    def describe_lengths(self) -> str:
        """Return what there is to plan, in one phrase."""
        lengths, rollout_ids = self.rollout
        rollouts = len(lengths if rollout_ids is None else np.unique(rollout_ids))
        return f"{counted(len(lengths), 'sample')} of {counted(rollouts, 'rollout')}, {counted(lengths.sum(), 'token')}"

    def describe(self, schedule: Schedule) -> str:
        """Return what was planned, in one line."""
        text = (
            f"{self.describe_lengths()}, over {counted(self.dp_size, 'rank')} "
            f"in steps of {counted(schedule.rollouts_per_step[0], 'rollout')}, cap {counted(self.max_tokens, 'token')}"
        )
        if large := int((self.rollout.lengths > self.max_tokens).sum()):
            text += f"; {counted(large, 'sample')} longer than that"
        if len(schedule.dropped):
            text += f"; {counted(len(schedule.dropped), 'sample')} in no step"
        return text


def reasons(refused: Mapping[Mode, ScheduleError]) -> list[str]:
    """Return a line for each mode that cannot be planned."""
    return [f"No schedule for {mode.name}: {error}" for mode, error in refused.items()]


def read_problem(options: argparse.Namespace) -> Problem:
    """Read what the options name, after checking them as a trainer would."""
    if options.micro_batch_size is None:
        options.use_dynamic_batch_size = True
    validate_balance_args(options)
    batch_size = options.global_batch_size
    if options.file is None:
        rollout = synthetic_rollout(options.prompts, seed=options.seed)
        batch_size = batch_size or min(BUILT_IN_BATCH_SIZE, options.prompts)
    else:
        rollout = read_lengths(options.file, options.column, options.rollout_column)
    cost = _cost(options)
    overhead = options.overhead
    if overhead is None:
        overhead = cost.per_micro_batch if isinstance(cost, FittedCost) else None
    return Problem(
        rollout=rollout,
        costs=np.asarray(cost.flops(rollout.lengths)),
        dp_size=options.dp_size,
        max_tokens=token_cap(options.max_tokens_per_gpu, as_count(options.cp_size, "--cp-size")),
        micro_batch_size=None if options.use_dynamic_batch_size else options.micro_batch_size,
        global_batch_size=batch_size,
        micro_batch_multiple=options.micro_batch_multiple,
        stages=as_count(options.stages, "--stages"),
        micro_batch_overhead=None if overhead is None else as_amount(overhead, "--micro-batch-overhead"),
        choices=plan_choices(Fields(options, "options")),
    )


def _cost(options: argparse.Namespace) -> CostFunction:
    """Return the cost to balance: ``--cost``, a ``--flops-model`` that is one, or how that counts the ``--model``."""
    flops_model: str = options.flops_model
    if flops_model in FLOPS_MODELS:
        source: str = options.model if options.cost is None else options.cost
        return read_cost(source, flops_model)
    if options.cost is not None:
        raise ValueError(f"--cost excludes --flops-model {flops_model}, which is another cost")
    return read_cost(flops_model)


def cost_unit(options: argparse.Namespace) -> str:
    """Return the unit of the costs that `read_problem` reads."""
    return "s" if isinstance(_cost(options), FittedCost) else "FLOPs"
