"""Options that the planning commands share."""

import argparse
import os
from collections.abc import Callable
from typing import Any, get_args

from flopbalance.costs.models.hugging_face import CONFIG_NAME
from flopbalance.costs.sources import SOURCES
from flopbalance.planning.plan import Objective
from flopbalance.trainers.arguments import add_balance_arguments

BUILT_IN_BATCH_SIZE = 128


def add_problem_options(parser: argparse.ArgumentParser, count: Callable[[str], Any] = int) -> None:
    """Add the options that `read_problem` reads; `count` is the type of those that a sweep varies."""
    parser.description = (
        f"{parser.description} Micro-batches hold as many samples as the cap allows, as if --use-dynamic-batch-size "
        "were given, unless --micro-batch-size is."
    )
    _add_lengths(parser.add_argument_group("lengths"))
    training = parser.add_argument_group("model and ranks")
    _add_model(training)
    _add_ranks(training, count)
    _add_sizes(training, count)
    add_balance_arguments(parser)


def files_read(options: argparse.Namespace) -> list[str]:
    """Return the names that a command reads files by, which it must not write to; some may be no file."""
    models = [getattr(options, name, None) for name in ("model", "cost", "windows_of", "flops_model")]
    folders = [os.path.join(model, CONFIG_NAME) for model in models if model]
    return [name for name in (options.file, *models, *folders) if name is not None]


def _add_lengths(lengths: argparse._ArgumentGroup) -> None:
    lengths.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="sample lengths: .txt, .csv, .tsv, .jsonl, .json, .npy, .npz or .parquet (with pip install "
        "'flopbalance[parquet]'), also .gz; - is standard input (default: a built-in rollout of a reasoning model)",
    )
    lengths.add_argument("--column", metavar="NAME", help="the column or array that holds the lengths")
    lengths.add_argument(
        "--rollout-column", metavar="NAME", help="the one with rollout ids; a rollout stays in one step"
    )
    lengths.add_argument(
        "--prompts",
        type=int,
        default=1024,
        help="of the built-in rollout; the 8 answers to a prompt are one rollout (default: %(default)s)",
    )
    lengths.add_argument("--seed", type=int, default=0, help="of the built-in rollout (default: %(default)s)")


def _add_model(training: argparse._ArgumentGroup) -> None:
    training.add_argument(
        "--model",
        metavar="MODEL",
        default="qwen3-8B",
        help=f"{SOURCES}; FLOPs of a Hugging Face configuration are always exact (default: %(default)s)",
    )
    training.add_argument(
        "--cost",
        metavar="MODEL",
        help="the cost to balance instead of --model, such as a fit of flopbalance calibrate; in the same forms",
    )


def _add_ranks(training: argparse._ArgumentGroup, count: Callable[[str], Any]) -> None:
    training.add_argument(
        "--dp-size", type=count, default="32", metavar="RANKS", help="data-parallel ranks (default: %(default)s)"
    )
    training.add_argument(
        "--cp-size", type=int, default=1, metavar="GPUS", help="context-parallel GPUs of a rank (default: %(default)s)"
    )
    training.add_argument(
        "--micro-batch-multiple",
        type=int,
        default=1,
        metavar="N",
        help="micro-batches per rank come in multiples of this, as interleaved pipelines need (default: %(default)s)",
    )
    training.add_argument(
        "--stages", type=int, default=4, help="of the pipeline, where one is predicted (default: %(default)s)"
    )
    # Under a name of its own: unlike a trainer, a command always has a pipeline to predict, and an overhead not given
    # may be one that was measured.
    training.add_argument(
        "--micro-batch-overhead",
        dest="overhead",
        type=float,
        metavar="COST",
        help="what every micro-batch costs beside its samples, in the unit of costs (default: that of a fitted --cost, "
        "else none, and as few micro-batches as the cap allows)",
    )


def _add_sizes(training: argparse._ArgumentGroup, count: Callable[[str], Any]) -> None:
    training.add_argument(
        "--max-tokens-per-gpu",
        type=count,
        default="36864",
        metavar="TOKENS",
        help="token cap of a micro-batch, per context-parallel GPU (default: %(default)s)",
    )
    training.add_argument(
        "--micro-batch-size",
        type=int,
        metavar="SAMPLES",
        help="samples per micro-batch, instead of as many as the cap allows",
    )
    training.add_argument(
        "--global-batch-size",
        type=int,
        metavar="ROLLOUTS",
        help=f"rollouts per step (default: {BUILT_IN_BATCH_SIZE} of the built-in rollout, all those of a file)",
    )


def add_objective_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says which waiting counts, whatever the modes aim at."""
    parser.add_argument(
        "--objective",
        choices=get_args(Objective),
        default="step",
        help="where ranks wait for each other: once a step, at every micro-batch, or once a step behind a pipeline "
        "(default: %(default)s)",
    )
