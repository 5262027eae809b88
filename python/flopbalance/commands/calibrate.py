"""``flopbalance calibrate``: fit a cost to measured micro-batches, and say what it changes."""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

from flopbalance.commands.options import files_read
from flopbalance.costs.exact import CostModel
from flopbalance.costs.measurements import MicroBatches
from flopbalance.costs.sources import SOURCES, read_cost, save_cost
from flopbalance.costs.timings import read_timings
from flopbalance.planning.plan import plan
from flopbalance.reports.balance import report
from flopbalance.text import format_table, printable
from flopbalance.writing import check_output


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "calibrate",
        help="fit a cost to measured micro-batches",
        description="Fit seconds = c0 + c1 ΣL + c2 ΣL² to a log of micro-batches, and say how well it predicts those "
        "that it was not fitted to, and what planning with it changes.",
    )
    add_log_argument(parser)
    parser.add_argument("--per-sequence", action="store_true", help="also fit a constant per sequence")
    parser.add_argument(
        "--windows-of", metavar="MODEL", help=f"the model that was measured, to keep its attention windows: {SOURCES}"
    )
    parser.add_argument("--cost", metavar="MODEL", help=f"a cost to compare with: {SOURCES}")
    parser.add_argument(
        "--dp-size", type=int, default=8, metavar="RANKS", help="data-parallel ranks to plan for (default: %(default)s)"
    )
    parser.add_argument("--save", metavar="FILE.json", help="save the fit, for the --cost of every command")
    parser.set_defaults(run=run)


def add_log_argument(parser: argparse.ArgumentParser) -> None:
    """Add the log of measured micro-batches."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help=".csv with the columns lengths (separated by spaces) and seconds, or .jsonl with such objects; the column "
        "rank is optional",
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if options.save is not None:
        check_output(options.save, "--save", files_read(options))
    batches, seconds, _ = read_timings(options.file)
    windows_of = None if options.windows_of is None else read_cost(options.windows_of)
    if windows_of is not None and not isinstance(windows_of, CostModel):
        raise ValueError(f"--windows-of must be a model, got the fitted cost {options.windows_of}")
    costs = {"tokens": batches.lengths}
    if options.cost is not None:
        costs[options.cost] = np.asarray(read_cost(options.cost).flops(batches.lengths))
    fitted = CostModel.fit(batches, seconds, windows_of=windows_of, per_sequence=options.per_sequence)
    if options.save is not None:
        save_cost(fitted, options.save)
    print(
        f"{len(batches):,} micro-batches, {fitted.micro_batches:,} of them different, "
        f"of sequences up to {fitted.longest:,} tokens\n"
    )
    print(fitted.describe())
    print()
    print(_changes({**costs, "the fit": fitted.flops(batches.lengths)}, batches, options.dp_size))
    if options.save is not None:
        print(f"\nSaved to {printable(options.save)}")
    return 0


def _changes(costs: dict[str, npt.NDArray[np.generic]], batches: MicroBatches, dp_size: int) -> str:
    """Return what the plan of the measured sequences becomes with each cost, in fitted time."""
    truth = costs["the fit"].astype(np.float64)
    cap = int(batches.sums(batches.lengths).max())
    rows = []
    for name, cost in costs.items():
        schedule = plan(batches.lengths, costs=cost, dp_size=dp_size, max_tokens=cap)
        measured = report(schedule, truth, batches.lengths, cap)
        rows.append((name, f"{measured.step_time:.4g}", f"{measured.step_time / measured.mean_time:.3f}"))
    header = ("balanced by", "slowest rank (s)", "slowest rank / mean")
    title = f"The same {len(batches.lengths):,} sequences over {dp_size} ranks, cap {cap:,} tokens, in fitted time:"
    return f"{title}\n\n{format_table(header, rows)}"
