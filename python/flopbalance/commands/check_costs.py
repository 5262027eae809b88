"""``flopbalance check-costs``: compare a cost with measured micro-batches."""

from __future__ import annotations

import argparse

from flopbalance.commands.calibrate import add_log_argument
from flopbalance.costs.checking import check_costs
from flopbalance.costs.sources import SOURCES, read_cost
from flopbalance.costs.timings import read_timings
from flopbalance.text import format_table

ADVICE = {
    "trust": "predicted and measured times agree",
    "calibrate": "the cost sorts micro-batches but weighs them wrongly: fit it with flopbalance calibrate",
    "unusable": "the cost does not even sort micro-batches: is it the model that was measured?",
}
UNUSABLE = 1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "check-costs",
        help="hold a cost against measured micro-batches",
        description="Compare what a cost predicts for measured micro-batches with what they took, and say whether to "
        f"trust it. Exit code {UNUSABLE} when it is unusable.",
    )
    add_log_argument(parser)
    parser.add_argument("--cost", metavar="MODEL", required=True, help=f"the cost: {SOURCES}")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    cost = read_cost(options.cost)
    batches, seconds, ranks = read_timings(options.file)
    check = check_costs(cost, batches, seconds, ranks=ranks)
    of = "rank" if ranks is not None else "micro-batch"
    rows = [
        ("rank correlation", f"{check.rank_correlation:.3f}"),
        ("mean error after scaling", f"{check.relative_error:.1%}"),
        ("seconds per unit of cost", f"{check.scale:.3g}"),
        (f"slowest {of} / mean, predicted", f"{check.predicted_imbalance:.3f}"),
        (f"slowest {of} / mean, measured", f"{check.measured_imbalance:.3f}"),
    ]
    print(format_table((f"{options.cost}, {check.micro_batches:,} micro-batches", ""), rows))
    print(f"\n{check.verdict}: {ADVICE[check.verdict]}")
    return UNUSABLE if check.verdict == "unusable" else 0
