"""``flopbalance plan``: plan a rollout, show what balancing does for it, save the schedule."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from flopbalance.commands.options import add_problem_options, files_read
from flopbalance.commands.problem import Planned, cost_unit, read_problem, reasons
from flopbalance.fields import Fields
from flopbalance.reports.explanation import explain
from flopbalance.schedules.schedule import Schedule
from flopbalance.text import format_table, printable
from flopbalance.trainers.modes import chosen_mode
from flopbalance.writing import check_output, write_text

HEADER = ("mode", "micro-batches", "largest (tokens)", "over cap", "slowest rank / mean", "planned in")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "plan",
        help="plan a rollout and show what balancing does for it",
        description="Plan a rollout in every mode: how many micro-batches, how large they get, and how much longer the "
        "slowest rank works than the mean one. The balance options choose the mode that an asterisk marks; its "
        "schedule is saved.",
    )
    add_problem_options(parser)
    parser.add_argument("--out", metavar="FILE.npz|.json", help="save the schedule of the chosen mode")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also say where ranks wait longest in the chosen mode, which samples cause it, and what would help",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    ending = None if options.out is None else Path(options.out).suffix.lower()
    if ending is not None and ending not in WRITERS:
        raise ValueError(f"--out must end in {' or '.join(WRITERS)}, got {options.out}")
    if ending is not None:
        check_output(options.out, "--out", files_read(options))
    problem = read_problem(options)
    chosen = chosen_mode(Fields(options, "options"))
    modes = problem.modes()
    planned, refused = problem.plan_each(modes)
    if chosen in refused:
        raise refused[chosen]
    schedule = planned[chosen].schedule
    if ending is not None:
        WRITERS[ending](schedule, options.out)
    rows = [(mode.name, *(_cells(planned[mode]) if mode in planned else _NO_CELLS)) for mode in modes]
    print(problem.describe(schedule))
    print()
    print(format_table(HEADER, rows, best={(modes.index(chosen), 0)}))
    print("\n* as the balance options choose")
    print("".join(f"{line}\n" for line in reasons(refused)), end="")
    if options.explain:
        explanation = explain(
            schedule,
            problem.rollout.lengths,
            problem.costs,
            problem.settings(chosen),
            objective=options.balance_objective,
            cost_unit=cost_unit(options),
            pipeline=problem.pipeline(options.balance_objective),
        )
        print(f"\nMode: {chosen.name}\n\n{explanation}")
    if ending is not None:
        print(f"\nSaved to {printable(options.out)}: {chosen.name}")
    return 0


_NO_CELLS = ("-",) * (len(HEADER) - 1)


def _cells(planned: Planned) -> tuple[str, ...]:
    _, report, seconds = planned
    return (
        f"{report.micro_batches:,}",
        f"{report.largest_tokens:,}",
        f"{report.over_cap:,}",
        f"{report.step_time / report.mean_time:.3f}" if report.mean_time else "-",
        f"{1000 * seconds:.1f} ms",
    )


def _write_json(schedule: Schedule, path: str) -> None:
    names = ("partitions", "micro_batch_indices", "num_microbatches", "global_batch_sizes")
    document: dict[str, Any] = dict(zip(names, schedule.to_lists(), strict=True))
    document["dropped"] = schedule.dropped.tolist()
    document["is_padding"] = [schedule.rank(rank).is_padding.tolist() for rank in range(schedule.dp_size)]
    write_text(path, json.dumps(document) + "\n")


WRITERS = {".npz": Schedule.save, ".json": _write_json}
