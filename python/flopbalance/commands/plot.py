"""``flopbalance plot``: a picture of what balancing does for a rollout."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flopbalance.commands.options import add_objective_option, add_problem_options, files_read
from flopbalance.commands.problem import Planned, cost_unit, read_problem, reasons
from flopbalance.fields import Fields
from flopbalance.reports.figures import figure_as_svg, plot_comparison
from flopbalance.reports.page import html_page
from flopbalance.text import printable
from flopbalance.trainers.modes import chosen_mode, most_thorough
from flopbalance.writing import check_output, replacing, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADER = ("mode", "micro-batches", "over cap", "largest (tokens)", "idle: step", "idle: micro-batch")
ENDINGS = (".html", ".png", ".svg")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "plot",
        help="draw a rollout before and after balancing",
        description="Draw when each rank works and waits in one step, plain and in the mode that the balance options "
        "choose (without one, the most thorough for the objective); how full all micro-batches are; and which lengths "
        "cost most.",
    )
    add_problem_options(parser)
    parser.add_argument(
        "--out",
        metavar=f"FILE{'|'.join(ENDINGS)}",
        default="schedule.html",
        help="where to draw; the page needs no other file (default: %(default)s)",
    )
    parser.add_argument("--step", type=int, help="the one to show, from 0 (default: that in which ranks wait longest)")
    add_objective_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    path = Path(options.out)
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"--out must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {options.out}")
    check_output(path, "--out", files_read(options))
    problem = read_problem(options)
    before, after = problem.modes()[0], chosen_mode(Fields(options, "options"))
    if after == before:
        after = most_thorough(problem.modes(), options.objective)
    planned, refused = problem.plan_each((before, after))
    if after in refused:
        raise refused[after]
    title = problem.describe(planned[after].schedule)
    try:
        figure = plot_comparison(
            {mode.name: plan.schedule for mode, plan in planned.items()},
            problem.costs,
            lengths=problem.rollout.lengths,
            max_tokens=problem.max_tokens,
            step=options.step,
            objective=options.objective,
            cost_unit=cost_unit(options),
            pipeline=problem.pipeline(options.objective),
            title=None if path.suffix.lower() == ".html" else title,
        )
    except ImportError as error:
        raise ValueError(str(error)) from None
    rows = [(mode.name, *_cells(planned.get(mode))) for mode in dict.fromkeys((before, after))]
    _write(figure, path, title, rows, reasons(refused))
    for line in reasons(refused):
        print(line)
    print(f"Drawn to {printable(options.out)}: {' and '.join(mode.name for mode in planned)}")
    return 0


def _cells(planned: Planned | None) -> tuple[str, ...]:
    if planned is None:
        return ("-",) * (len(HEADER) - 1)
    report = planned.report
    return (
        f"{report.micro_batches:,}",
        f"{report.over_cap:,}",
        f"{report.largest_tokens:,}",
        f"{report.idle_share('step'):.1%}",
        f"{report.idle_share('micro-batch'):.1%}",
    )


def _write(figure: Figure, path: Path, title: str, rows: Sequence[Sequence[str]], notes: Sequence[str]) -> None:
    ending = path.suffix.lower()
    if ending == ".png":
        with replacing(path) as file:
            figure.savefig(file, format="png")
        return
    text = figure_as_svg(figure)
    write_text(path, html_page(title, text, HEADER, rows, notes) if ending == ".html" else text)
