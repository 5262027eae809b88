"""``flopbalance costs``: published compared with exact FLOPs by family and length, and what it does to balance."""

from __future__ import annotations

import argparse

import numpy as np

from flopbalance.checks import CostFunction
from flopbalance.costs.fitted import FittedCost
from flopbalance.costs.models.shapes import shape_names
from flopbalance.costs.published import PublishedFlops
from flopbalance.costs.sources import SOURCES, read_cost
from flopbalance.lengths.files import read_lengths
from flopbalance.lengths.synthetic import Rollout, synthetic_rollout
from flopbalance.planning.plan import plan
from flopbalance.reports.balance import report
from flopbalance.text import format_table, printable

LENGTHS = np.array([1024, 65536, 262144])
NO_FIGURE = "-"
"""Where there is no published count: trainers count from arguments of their own only."""

# One of each family.
NAMES = (
    "llama3.1-8B-Instruct",
    "qwen2.5-7B",
    "qwen3-8B",
    "qwen3-30B-A3B",
    "glm4-9B",
    "glm4.5-106B-A12B",
    "glm4.7-30B-A3B",
    "deepseek-v3",
    "kimi-k2",
    "moonlight",
    "minimax-m2",
    "mimo-7B-rl",
    "glm5-744B-A40B",
    "qwen3-next-80B-A3B",
    "qwen3.5-35B-A3B",
    "gpt-oss-20b",
    "gemma-3-27b",
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "costs",
        help="compare published and exact FLOPs",
        description="Show how far the published FLOPs are from the exact ones at several lengths, and how long the "
        "slowest rank then works when micro-batches are dealt by tokens, by published or by exact FLOPs.",
    )
    parser.add_argument("file", metavar="FILE", nargs="?", help="sample lengths (default: a built-in rollout)")
    parser.add_argument("--column", metavar="NAME", help="the column or array that holds the lengths")
    parser.add_argument(
        "--model",
        metavar="MODEL",
        action="append",
        help=f"{SOURCES}; instead of one shape of each family; repeatable",
    )
    parser.add_argument(
        "--dp-size", type=int, default=32, metavar="RANKS", help="data-parallel ranks (default: %(default)s)"
    )
    parser.add_argument(
        "--max-tokens", type=int, metavar="TOKENS", help="token cap of a micro-batch (default: the longest sample)"
    )
    parser.add_argument(
        "--global-batch-size",
        type=int,
        metavar="SAMPLES",
        help="samples per step (default: 1024, or all when there are fewer)",
    )
    parser.add_argument("--describe", action="store_true", help="show what each model's exact cost is made of")
    parser.add_argument("--list", action="store_true", help="list the built-in shapes")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if options.list:
        print("\n".join(shape_names()))
        return 0
    names = options.model or NAMES
    models = {name: read_cost(name) for name in names}
    if options.describe:
        print("\n\n".join(f"{printable(name)}\n{model.describe()}" for name, model in models.items()))
        return 0
    rollout = synthetic_rollout() if options.file is None else read_lengths(options.file, options.column)
    header = ["published off by", *(f"at {length // 1024}k" for length in LENGTHS)]
    header += [f"dealt by {cost}" for cost in ("tokens", "published", "exact")]
    rows = []
    for name, model in models.items():
        counted = read_cost(name, "published")
        published = counted if isinstance(counted, PublishedFlops) else None
        rows.append((name, *_errors(model, published), *_imbalances(model, published, rollout, options)))
    print(format_table(header, rows))
    samples, tokens = len(rollout.lengths), rollout.lengths.sum()
    print(f"\nDealt to {options.dp_size} ranks, {samples:,} samples of {tokens:,} tokens:")
    print("exact FLOPs of the slowest rank above those of the mean one.")
    if any(isinstance(model, FittedCost) for model in models.values()):
        print("A fitted cost counts seconds instead.")
    return 0


def _errors(model: CostFunction, published: PublishedFlops | None) -> list[str]:
    if published is None:
        return [NO_FIGURE] * len(LENGTHS)
    return [f"{ratio - 1:+.1%}" for ratio in published.flops(LENGTHS) / np.asarray(model.flops(LENGTHS))]


def _imbalances(
    model: CostFunction, published: PublishedFlops | None, rollout: Rollout, options: argparse.Namespace
) -> list[str]:
    lengths = rollout.lengths
    cap = int(lengths.max()) if options.max_tokens is None else options.max_tokens
    batch_size = min(1024, len(lengths)) if options.global_batch_size is None else options.global_batch_size
    exact = np.asarray(model.flops(lengths))
    cells = []
    for cost in (lengths, published, exact):
        if cost is None:
            cells.append(NO_FIGURE)
            continue
        schedule = plan(lengths, costs=cost, dp_size=options.dp_size, max_tokens=cap, global_batch_size=batch_size)
        measured = report(schedule, exact, lengths, cap)
        cells.append(f"{measured.step_time / measured.mean_time - 1:.2%}")
    return cells
