"""``flopbalance compare``: one rollout in every mode, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flopbalance.commands.options import add_objective_option, add_problem_options
from flopbalance.commands.problem import read_problem, reasons
from flopbalance.reports.balance import BalanceReport
from flopbalance.reports.measures import above_alone
from flopbalance.text import counted, format_table, wants_colour
from flopbalance.trainers.modes import Mode

MEETING = {
    "step": "ranks meet once a step",
    "micro-batch": "ranks meet at every micro-batch",
    "pipeline": "ranks are pipelines that meet once a step",
}


class Result(NamedTuple):
    """What a mode does to the rollout."""

    mode: Mode
    flags: str
    report: BalanceReport
    seconds: float
    cap: int
    speed_up: float

    def as_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints of it."""
        report = self.report
        return {
            "mode": self.mode.name,
            "flag": self.flags,
            "micro_batches": report.micro_batches,
            "micro_batches_over_cap": report.over_cap,
            "samples_over_cap": report.alone_over_cap,
            "largest_tokens": report.largest_tokens,
            "cap_tokens": self.cap,
            "idle_share": {objective: report.idle_share(objective) for objective in MEETING},
            "speed_up": self.speed_up,
            "planning_seconds": self.seconds,
        }


class Column(NamedTuple):
    """A figure, how it is printed, and which of its values is the best."""

    title: str
    value: Callable[[Result], float]
    form: str
    best: Callable[[Sequence[float]], float] = min

    def cells(self, results: Sequence[Result]) -> tuple[list[str], set[int]]:
        """Return a cell for each result, and the rows of those that are best; none if all are alike."""
        values = [self.value(result) for result in results]
        cells = [self.form.format(value) for value in values]
        best = cells[values.index(self.best(values))]
        rows = {row for row, cell in enumerate(cells) if cell == best}
        return cells, rows if len(rows) < len(cells) else set()


COLUMNS = (
    Column("micro-batches", lambda result: result.report.micro_batches, "{:,}"),
    Column("over cap", lambda result: result.report.over_cap, "{:,}"),
    Column("largest / cap", lambda result: result.report.largest_tokens / result.cap, "{:.3f}"),
    Column("idle (step)", lambda result: result.report.idle_share("step"), "{:.1%}"),
    Column("(micro-batch)", lambda result: result.report.idle_share("micro-batch"), "{:.1%}"),
    Column("(pipeline)", lambda result: result.report.idle_share("pipeline"), "{:.1%}"),
    Column("speed-up", lambda result: result.speed_up, "{:.3f}", max),
    Column("planned in", lambda result: 1000 * result.seconds, "{:.1f} ms"),
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "compare",
        help="compare every mode on a rollout, and recommend one",
        description="Plan a rollout in every mode and predict how long ranks wait for each other: the share of time in "
        "which the mean rank is idle if ranks meet once a step, at every micro-batch (fully sharded or expert-parallel "
        "training), or once a step as pipelines. --objective says which of these decides the speed-up over the first "
        "mode that can be planned, and the recommendation. An asterisk marks the best of each column.",
    )
    add_problem_options(parser)
    add_objective_option(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    problem = read_problem(options)
    objective = options.objective
    modes = problem.modes()
    planned, refused = problem.plan_each(modes)
    if not planned:
        raise refused[modes[0]]
    first = next(iter(planned.values()))
    results: list[Result] = []
    for mode, (_, report, seconds) in planned.items():
        longest, time = first.report.times[objective], report.times[objective]
        speed_up = longest / time if time else 1.0
        results.append(Result(mode, problem.flags(mode), report, seconds, problem.max_tokens, speed_up))
    best = recommend(results)
    if options.json:
        document = {
            "objective": objective,
            "modes": [result.as_dict() for result in results],
            "refused": [{"mode": mode.name, "reason": str(error)} for mode, error in refused.items()],
            "recommended": {"mode": best.mode.name, "flag": best.flags},
        }
        print(json.dumps(document, indent=2))
        return 0
    columns = [column.cells(results) for column in COLUMNS]
    cells = dict(zip(planned, zip(*(cells for cells, _ in columns), strict=True), strict=True))
    rows = [(mode.name, *cells.get(mode, ["-"] * len(COLUMNS))) for mode in modes]
    row_of = [modes.index(mode) for mode in planned]
    marks = {(row_of[position], column) for column, (_, marked) in enumerate(columns, start=1) for position in marked}
    print(problem.describe(first.schedule), end="\n\n")
    header = ["mode", *(column.title for column in COLUMNS)]
    print(format_table(header, rows, best=marks, colour=wants_colour(sys.stdout)), end="\n\n")
    for line in reasons(refused):
        print(line)
    print(_advice(best, results, objective))
    return 0


def recommend(results: Sequence[Result]) -> Result:
    """Return the fastest of those that keep the cap, if any does; the simplest of equally fast ones."""
    safe = [result for result in results if not result.report.over_cap] or results
    return max(safe, key=lambda result: round(result.speed_up, 3))


def _advice(best: Result, results: Sequence[Result], objective: str) -> str:
    """Return the recommendation as one sentence."""
    text = f"Recommended: {best.flags or 'no option'}, with {_over_cap(best)} packed above the cap"
    longer = above_alone(best.report.alone_over_cap, best.report.longest_alone)
    text += f" ({longer})" if longer else ""
    if best is not results[0]:
        text += f" and {best.speed_up:.3f} times as fast as {results[0].mode.name} where {MEETING[objective]}"
    fastest = max(results, key=lambda result: round(result.speed_up, 3))
    if round(fastest.speed_up, 3) > round(best.speed_up, 3):
        text += (
            f"; {fastest.mode.name} would be {fastest.speed_up:.3f} times as fast, but with {_over_cap(fastest)} above"
        )
    return f"{text}."


def _over_cap(result: Result) -> str:
    count = result.report.over_cap
    return counted(count, "micro-batch") if count else "no micro-batch"
