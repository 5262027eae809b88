"""``flopbalance compare``: one rollout in every mode, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from flopbalance.commands.figures import OBJECTIVES, Figures
from flopbalance.commands.modes import Mode
from flopbalance.commands.problem import add_problem_options, read_problem
from flopbalance.commands.progress import progress
from flopbalance.table import format_table, wants_colour

MEETING = {
    "step": "ranks meet once a step",
    "micro-batch": "ranks meet at every micro-batch",
    "pipeline": "ranks are pipelines that meet once a step",
}


class Result(NamedTuple):
    """What a mode does to the rollout."""

    mode: Mode
    figures: Figures
    cap: int
    speed_up: float

    def as_dict(self) -> dict[str, Any]:
        """Return what ``--json`` prints of it."""
        figures = self.figures
        return {
            "mode": self.mode.name,
            "flag": self.mode.flag,
            "micro_batches": figures.micro_batches,
            "micro_batches_over_cap": figures.over_cap,
            "largest_tokens": figures.largest_tokens,
            "cap_tokens": self.cap,
            "idle_share": {objective: figures.idle_share(objective) for objective in OBJECTIVES},
            "speed_up": self.speed_up,
            "planning_seconds": figures.seconds,
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
    Column("micro-batches", lambda result: result.figures.micro_batches, "{:,}"),
    Column("over cap", lambda result: result.figures.over_cap, "{:,}"),
    Column("largest / cap", lambda result: result.figures.largest_tokens / result.cap, "{:.3f}"),
    Column("idle (step)", lambda result: result.figures.idle_share("step"), "{:.1%}"),
    Column("(micro-batch)", lambda result: result.figures.idle_share("micro-batch"), "{:.1%}"),
    Column("(pipeline)", lambda result: result.figures.idle_share("pipeline"), "{:.1%}"),
    Column("speed-up", lambda result: result.speed_up, "{:.3f}", max),
    Column("planned in", lambda result: 1000 * result.figures.seconds, "{:.1f} ms"),
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "compare",
        help="compare every mode on a rollout, and recommend one",
        description="Plan a rollout in every mode and predict how long ranks wait for each other: the share of time in "
        "which the mean rank is idle if ranks meet once a step, at every micro-batch (fully sharded or expert-parallel "
        "training), or once a step as pipelines. An asterisk marks the best of each column.",
    )
    add_problem_options(parser)
    add_objective_option(parser)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.set_defaults(run=run)


def add_objective_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which waiting counts."""
    parser.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default="step",
        help="where ranks wait for each other, which decides what is fastest (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    problem = read_problem(options)
    objective = options.objective
    results: list[Result] = []
    for mode in progress(problem.modes(), "compare"):
        schedule, figures = problem.plan(mode)
        plain = results[0].figures if results else figures
        results.append(Result(mode, figures, problem.max_tokens, _ratio(plain, figures, objective)))
    best = recommend(results)
    if options.json:
        document = {
            "objective": objective,
            "modes": [result.as_dict() for result in results],
            "recommended": {"mode": best.mode.name, "flag": best.mode.flag},
        }
        print(json.dumps(document, indent=2))
        return 0
    columns = [column.cells(results) for column in COLUMNS]
    rows = zip([result.mode.name for result in results], *(cells for cells, _ in columns), strict=True)
    marks = {(row, column) for column, (_, marked) in enumerate(columns, start=1) for row in marked}
    print(problem.describe(schedule), end="\n\n")
    header = ["mode", *(column.title for column in COLUMNS)]
    print(format_table(header, list(rows), best=marks, colour=wants_colour(sys.stdout)), end="\n\n")
    print(_advice(best, results, objective))
    return 0


def _ratio(plain: Figures, figures: Figures, objective: str) -> float:
    return plain.times[objective] / figures.times[objective] if figures.times[objective] else 1.0


def recommend(results: Sequence[Result]) -> Result:
    """Return the fastest of those that keep the cap, if any does; the simplest of equally fast ones."""
    safe = [result for result in results if not result.figures.over_cap] or results
    return max(safe, key=lambda result: round(result.speed_up, 3))


def _advice(best: Result, results: Sequence[Result], objective: str) -> str:
    """Return the recommendation as one sentence."""
    text = f"Recommended: {best.mode.flag or 'no option'}, with {_over_cap(best)} packed above the cap"
    if best.mode.flag:
        text += f" and {best.speed_up:.3f} times as fast as plain where {MEETING[objective]}"
    fastest = max(results, key=lambda result: round(result.speed_up, 3))
    if round(fastest.speed_up, 3) > round(best.speed_up, 3):
        text += (
            f"; {fastest.mode.flag} would be {fastest.speed_up:.3f} times as fast, but with {_over_cap(fastest)} above"
        )
    return f"{text}."


def _over_cap(result: Result) -> str:
    count = result.figures.over_cap
    return f"{count:,} micro-batch{'es' * (count != 1)}" if count else "no micro-batch"
