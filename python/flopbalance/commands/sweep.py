"""``flopbalance sweep``: which number of ranks and which token cap waste least."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys

from flopbalance.commands.compare import MEETING
from flopbalance.commands.options import add_objective_option, add_problem_options
from flopbalance.commands.problem import read_problem
from flopbalance.errors import ScheduleError
from flopbalance.fields import Fields
from flopbalance.reports.balance import BalanceReport
from flopbalance.text import format_table, wants_colour
from flopbalance.trainers.modes import chosen_mode, token_cap

HEADER = ("ranks", "cap (tokens)", "micro-batches", "largest (tokens)", "over cap", "idle", "time / shortest")
IDLE = HEADER.index("idle")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "sweep",
        help="find the number of ranks and the token cap that waste least",
        description="Plan a rollout for every combination of --dp-size and --max-tokens-per-gpu, both lists such as "
        "8,16,32, in the mode that the balance options choose; print the share of time in which ranks are idle where "
        "they meet as --objective says.",
    )
    add_problem_options(parser, count=_counts)
    add_objective_option(parser)
    parser.set_defaults(run=run)


def _counts(text: str) -> list[int]:
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = [0]
    if min(counts) < 1:
        raise argparse.ArgumentTypeError(f"must be whole numbers >= 1 such as 8,16,32, got {text!r}")
    return counts


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    combinations = list(itertools.product(options.dp_size, options.max_tokens_per_gpu))
    options.dp_size, options.max_tokens_per_gpu = combinations[0]
    problem, mode, objective = read_problem(options), chosen_mode(Fields(options, "options")), options.objective
    planned: dict[tuple[int, int], BalanceReport] = {}
    refused: dict[tuple[int, int], ScheduleError] = {}
    for dp_size, cap in combinations:
        variant = dataclasses.replace(problem, dp_size=dp_size, max_tokens=token_cap(cap, options.cp_size))
        try:
            planned[dp_size, cap] = variant.plan(mode).report
        except ScheduleError as error:
            refused[dp_size, cap] = error
    if not planned:
        raise refused[combinations[0]]

    shortest = min(report.times[objective] for report in planned.values())
    best = min(planned, key=lambda combination: planned[combination].idle_share(objective))
    rows = []
    for dp_size, cap in combinations:
        cells = ["-"] * (len(HEADER) - 2)
        if (dp_size, cap) in planned:
            report = planned[dp_size, cap]
            cells = [
                f"{report.micro_batches:,}",
                f"{report.largest_tokens:,}",
                f"{report.over_cap:,}",
                f"{report.idle_share(objective):.2%}",
                f"{report.times[objective] / shortest:.2f}" if shortest else "-",
            ]
        rows.append([f"{dp_size:,}", f"{cap:,}", *cells])
    marks = {(combinations.index(best), IDLE)}
    print(f"{problem.describe_lengths()}, mode: {mode.name}", end="\n\n")
    print(format_table(HEADER, rows, best=marks, colour=wants_colour(sys.stdout)), end="\n\n")
    for (dp_size, cap), reason in refused.items():
        print(f"No schedule for {dp_size} ranks and a cap of {cap}: {reason}")
    print(
        f"Least waste: --dp-size {best[0]} --max-tokens-per-gpu {best[1]}, with ranks idle for "
        f"{planned[best].idle_share(objective):.2%} of the time where {MEETING[objective]}."
    )
    return 0
