"""``flopbalance costs``: published against exact FLOPs, per family and length, and what it does to the balance."""

from __future__ import annotations

import argparse
from typing import Any

import numpy.typing as npt

from flopbalance.balance_report import report
from flopbalance.cost_model import CostModel
from flopbalance.lengths_file import read_lengths
from flopbalance.models import built_in_shapes, load_shape
from flopbalance.plan import plan
from flopbalance.published import PublishedFlops
from flopbalance.rollout import Rollout, synthetic_rollout
from flopbalance.table import format_table

LENGTHS = (1024, 65536, 262144)

# One of each family: built in, or of a family that no trainer's shape covers.
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
)
WINDOWED: dict[str, dict[str, Any]] = {
    "gpt-oss-20b": {
        "num_layers": 24,
        "hidden_size": 2880,
        "num_attention_heads": 64,
        "num_query_groups": 8,
        "kv_channels": 64,
        "ffn_hidden_size": 2880,
        "moe_ffn_hidden_size": 2880,
        "num_experts": 32,
        "moe_router_topk": 4,
        "vocab_size": 201088,
        "window_size": (127, 0),
        "window_attn_skip_freq": 2,
    },
    "gemma-3-27b": {
        "num_layers": 62,
        "hidden_size": 5376,
        "num_attention_heads": 32,
        "num_query_groups": 16,
        "kv_channels": 128,
        "ffn_hidden_size": 21504,
        "num_experts": None,
        "vocab_size": 262208,
        "window_size": (1023, 0),
        "window_attn_skip_freq": 6,
    },
}


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
        "--model", metavar="NAME", action="append", help="a built-in shape, instead of one of each family; repeatable"
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
        print("\n".join(sorted(built_in_shapes(), key=str.lower)))
        return 0
    names = options.model or (*NAMES, *WINDOWED)
    shapes = {name: WINDOWED.get(name) or load_shape(name) for name in names}
    if options.describe:
        print("\n\n".join(f"{name}\n{CostModel.from_args(shape).describe()}" for name, shape in shapes.items()))
        return 0
    rollout = synthetic_rollout() if options.file is None else read_lengths(options.file, options.column)
    header = ["published off by", *(f"at {length // 1024}k" for length in LENGTHS)]
    header += [f"dealt by {cost}" for cost in ("tokens", "published", "exact")]
    rows = [(name, *_errors(shape), *_imbalances(shape, rollout, options)) for name, shape in shapes.items()]
    print(format_table(header, rows))
    samples, tokens = len(rollout.lengths), rollout.lengths.sum()
    print(f"\nDealt to {options.dp_size} ranks, {samples:,} samples of {tokens:,} tokens:")
    print("exact FLOPs of the slowest rank above those of the mean one.")
    return 0


def _errors(shape: dict[str, Any]) -> list[str]:
    ratios = PublishedFlops(shape).flops(LENGTHS) / CostModel.from_args(shape).flops(LENGTHS)
    return [f"{ratio - 1:+.1%}" for ratio in ratios]


def _imbalances(shape: dict[str, Any], rollout: Rollout, options: argparse.Namespace) -> list[str]:
    lengths = rollout.lengths
    exact = CostModel.from_args(shape).flops(lengths)
    cap = options.max_tokens or int(lengths.max())
    costs: list[npt.NDArray[Any]] = [lengths, PublishedFlops(shape).flops(lengths), exact]
    cells = []
    for cost in costs:
        batch_size = options.global_batch_size or min(1024, len(lengths))
        schedule = plan(lengths, costs=cost, dp_size=options.dp_size, max_tokens=cap, global_batch_size=batch_size)
        measured = report(schedule, exact, lengths, cap)
        cells.append(f"{measured.step_time / measured.mean_time - 1:.2%}")
    return cells
