"""``flopbalance check``: can every step be planned, before anything is generated and paid for."""

from __future__ import annotations

import argparse

from flopbalance.checks import as_count
from flopbalance.planning.feasibility import check_feasible
from flopbalance.trainers.arguments import OPTIONS, validate_balance_args
from flopbalance.trainers.modes import token_cap

INFEASIBLE = 1

FLAGS = {
    "max_tokens": "--max-tokens-per-gpu x --cp-size",
    "global_batch_size": "--global-batch-size",
    "micro_batch_multiple": "--micro-batch-multiple",
    "samples_per_rollout": "--samples-per-rollout",
    "num_rollouts": "--rollouts",
    "dp_size": "--dp-size",
    "longest": "--longest",
    "on_leftover": "--on-leftover",
    "on_oversize": "--on-oversize",
    "on_shortage": "--on-shortage",
}
"""What the command line calls the arguments of `check_feasible`."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and its options."""
    parser = subparsers.add_parser(
        "check",
        help="say before a run whether every step can be planned",
        description="From batch sizes, ranks, the cap and the longest sample alone: whether every step can be planned, "
        f"and if not, which flags to change to what. Exit code {INFEASIBLE} if not.",
    )
    parser.add_argument("--dp-size", type=int, required=True, metavar="RANKS", help="data-parallel ranks")
    parser.add_argument("--cp-size", type=int, default=1, metavar="GPUS", help="context-parallel GPUs of a rank")
    parser.add_argument(
        "--micro-batch-multiple", type=int, default=1, metavar="N", help="micro-batches per rank come in such multiples"
    )
    parser.add_argument("--longest", type=int, metavar="TOKENS", help="of any sample (default: as the cap)")
    parser.add_argument("--samples-per-rollout", type=int, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument("--rollouts", type=int, metavar="N", help="planned together (default: those of one step)")
    for flag, option in OPTIONS.items():
        parser.add_argument(flag, **{**option, "required": True} if flag == "--global-batch-size" else option)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    options.use_dynamic_batch_size |= options.max_tokens_per_gpu is not None
    validate_balance_args(options)
    cap = None
    if options.use_dynamic_batch_size:
        cap = token_cap(options.max_tokens_per_gpu, as_count(options.cp_size, "--cp-size"))
    answer = check_feasible(
        global_batch_size=options.global_batch_size,
        dp_size=options.dp_size,
        max_tokens=cap,
        longest=options.longest,
        micro_batch_size=None if options.use_dynamic_batch_size else options.micro_batch_size,
        micro_batch_multiple=options.micro_batch_multiple,
        samples_per_rollout=options.samples_per_rollout,
        num_rollouts=options.rollouts,
        on_leftover=options.on_leftover,
        on_oversize=options.on_oversize,
        on_shortage=options.on_shortage,
    )
    text = str(answer)
    for name, flag in FLAGS.items():
        text = text.replace(name, flag)
    print(text)
    return 0 if answer else INFEASIBLE
