"""Command-line arguments for a trainer, and the rules between them."""

import argparse
from collections.abc import MutableMapping
from functools import partial
from typing import Any, TypeVar, get_args

from flopbalance.checks import as_flag, likely, shown
from flopbalance.costs.sources import FLOPS_MODELS, select_flops_model
from flopbalance.fields import Fields
from flopbalance.planning.limits import OnOversize
from flopbalance.planning.plan import Objective, OnLeftover, OnShortage
from flopbalance.trainers.giving_way import let_give_way, watch
from flopbalance.trainers.modes import refuse_contradictions

OPTIONS: dict[str, dict[str, Any]] = {
    "--balance-data": {
        "action": "store_true",
        "help": "deal micro-batches to data-parallel ranks so that each rank's FLOPs are nearly equal",
    },
    "--balance-by-flops": {
        "action": "store_true",
        "help": "also pack micro-batches by FLOPs instead of tokens; switches --balance-data on and needs "
        "--use-dynamic-batch-size. FLOPs packing may exceed --max-tokens-per-gpu, so that the GPU may run out of "
        "memory: leave room below the limit of the hardware",
    },
    "--balance-within-cap": {
        "action": "store_true",
        "help": "pack micro-batches by FLOPs without ever exceeding --max-tokens-per-gpu; switches --balance-data on, "
        "needs --use-dynamic-batch-size and excludes --balance-by-flops",
    },
    "--balance-objective": {
        "choices": get_args(Objective),
        "default": "step",
        "help": "where ranks wait for each other, for --balance-within-cap: once a step, at every micro-batch, or once "
        "a step behind a pipeline, in a trainer of --pipeline-model-parallel-size stages (default: %(default)s)",
    },
    "--micro-batch-overhead": {
        "type": float,
        "metavar": "COST",
        "help": "what every micro-batch costs beside its samples, in the unit of costs (FLOPs), for "
        "--balance-within-cap: there are as many micro-batches as make the step short with it (default: as few as the "
        "cap allows)",
    },
    "--micro-batches-per-rank": {
        "type": int,
        "metavar": "N",
        "help": "exactly so many micro-batches per rank and step, for --balance-within-cap; steps that need more are "
        "refused (default: as few as the cap allows)",
    },
    "--min-micro-batches-per-rank": {
        "type": int,
        "metavar": "N",
        "help": "at least so many micro-batches per rank and step, for --balance-within-cap (default: 1)",
    },
    "--on-leftover": {
        "choices": get_args(OnLeftover),
        "default": "drop",
        "help": "rollouts that fill no step are dropped, make a last smaller step if they fill the ranks, or are "
        "refused (default: %(default)s)",
    },
    "--on-oversize": {
        "choices": get_args(OnOversize),
        "default": "alone",
        "help": "a sample above the cap gets a micro-batch of its own, is dropped from its step, or is refused "
        "(default: %(default)s)",
    },
    "--on-shortage": {
        "choices": get_args(OnShortage),
        "default": "error",
        "help": "a step of fewer samples than micro-batches is refused, or repeats its cheapest with "
        "--balance-within-cap; Schedule.is_padding marks these, which the lists of build_dp_schedule cannot and so "
        "refuse (default: %(default)s)",
    },
    "--use-dynamic-batch-size": {
        "action": "store_true",
        "help": "pack as many samples into a micro-batch as --max-tokens-per-gpu allows",
    },
    "--micro-batch-size": {
        "type": int,
        "default": 1,
        "metavar": "SAMPLES",
        "help": "samples per micro-batch, unless --use-dynamic-batch-size is given (default: 1)",
    },
    "--max-tokens-per-gpu": {
        "type": int,
        "metavar": "TOKENS",
        "help": "token cap of a micro-batch, per context-parallel GPU; needed by --use-dynamic-batch-size",
    },
    "--log-probs-max-tokens-per-gpu": {
        "type": int,
        "metavar": "TOKENS",
        "help": "the same cap for passes that only compute log-probabilities, for build_log_probs_schedule "
        "(default: --max-tokens-per-gpu)",
    },
    "--global-batch-size": {
        "type": int,
        "metavar": "ROLLOUTS",
        "help": "rollouts per training step, over all ranks",
    },
    "--flops-model": {
        "default": FLOPS_MODELS[0],
        "metavar": "COST",
        "help": "how FLOPs are counted: 'published', for parity with existing trainers; 'exact', by the trainer's "
        "arguments; 'hf_checkpoint', exactly by the configuration in the folder --hf-checkpoint; or by another cost: a "
        "saved one, a Hugging Face folder, a built-in shape (default: %(default)s)",
    },
}

PUBLISHED = (
    "--balance-data",
    "--balance-by-flops",
    "--use-dynamic-batch-size",
    "--micro-batch-size",
    "--max-tokens-per-gpu",
    "--log-probs-max-tokens-per-gpu",
    "--global-batch-size",
)
"""Those of `OPTIONS` that trainers with the published scheduler have themselves."""

NamespaceLike = TypeVar("NamespaceLike")


def add_balance_arguments(parser: argparse.ArgumentParser, *, only_new: bool = False) -> argparse.ArgumentParser:
    """Add the options that say how samples are balanced to a trainer's parser.

    An option that the host adds itself, before or after this call, stays the host's, whether it has the same flag or
    only sets the same attribute, and so does a default that the host sets. The options are there at once, in a group of
    their own; each leaves when the host adds its own, even after a first `parse_known_args`.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Changed in place. One that takes the options over from it (``parents=``) has them, too, but must be given here
        itself if options of the host are to displace them there.
    only_new : bool, default False
        Leave out what trainers with the published scheduler have anyway, such as ``--balance-data``.

    Returns
    -------
    argparse.ArgumentParser
        The same parser.

    See Also
    --------
    validate_balance_args : Check the parsed values against each other.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> _ = add_balance_arguments(parser)
    >>> _ = parser.add_argument("--micro-batch-size", type=int, default=4)
    >>> flags = ["--balance-by-flops", "--use-dynamic-batch-size", "--max-tokens-per-gpu", "8192"]
    >>> args = validate_balance_args(parser.parse_args(flags))
    >>> args.balance_data, args.micro_batch_size, args.log_probs_max_tokens_per_gpu
    (True, 4, 8192)
    """
    if not isinstance(parser, argparse.ArgumentParser):
        raise ValueError(f"parser must be an argparse.ArgumentParser, got {shown(parser)}")
    only_new = as_flag(only_new, "only_new")
    known = {flag for action in parser._actions for flag in (*action.option_strings, action.dest)}
    wanted = [flag for flag in OPTIONS if not (only_new and flag in PUBLISHED)]
    missing = [flag for flag in wanted if not known & {flag, _attribute(flag)}]
    if missing:
        group = parser.add_argument_group("balance", "how samples are spread over data-parallel ranks")
        for flag in missing:
            # A default that the host has set stands; argparse would put ours over it.
            default = parser.get_default(_attribute(flag))
            settings = OPTIONS[flag] if default is None else {**OPTIONS[flag], "default": default}
            let_give_way(group.add_argument(flag, **settings))
    watch(parser)
    return parser


def validate_balance_args(args: NamespaceLike) -> NamespaceLike:
    """Check the balance arguments against each other, and derive what follows from them.

    `balance_by_flops` and `balance_within_cap` exclude each other, need `use_dynamic_batch_size` and switch
    `balance_data` on; `use_dynamic_batch_size` needs `max_tokens_per_gpu`, which is also the default of
    `log_probs_max_tokens_per_gpu`; `micro_batch_overhead` and numbers of micro-batches need `balance_within_cap`; a
    `flops_model` that is a file, a folder or an object must be a cost.

    Parameters
    ----------
    args : argparse.Namespace, any object with such attributes, or mutable mapping
        Changed in place. What is missing counts as not given.

    Returns
    -------
    object
        The same `args`, so that both ``validate_balance_args(args)`` and ``args = validate_balance_args(args)`` do.

    Raises
    ------
    ValueError
        The arguments contradict each other, or a number is too small, and `args` is unchanged; the message names the
        flags. Or what follows cannot be set.

    Examples
    --------
    >>> validate_balance_args(argparse.Namespace(balance_by_flops=True))
    Traceback (most recent call last):
    ValueError: --balance-by-flops needs --use-dynamic-batch-size
    """
    fields = _Flags(args, "args")
    given = {flag: fields.get(_attribute(flag)) for flag in OPTIONS}
    for flag in OPTIONS:
        if OPTIONS[flag].get("action") == "store_true":
            given[flag] = fields.flag(_attribute(flag))
    for flag, value in given.items():
        if value is not None and OPTIONS[flag].get("type") is int:
            fields.size(_attribute(flag))
        choices = OPTIONS[flag].get("choices")
        if value is not None and choices and not (isinstance(value, str) and value in choices):
            raise ValueError(f"{flag} must be one of {', '.join(choices)}, got {shown(value)}{likely(value, choices)}")
    refuse_contradictions(fields)
    if given["--use-dynamic-batch-size"] and given["--max-tokens-per-gpu"] is None:
        raise ValueError("--use-dynamic-batch-size needs --max-tokens-per-gpu")

    flops_model = given["--flops-model"]
    is_of_args = isinstance(flops_model, str) and flops_model in FLOPS_MODELS  # which may not be whole yet
    if flops_model is not None and not is_of_args:
        select_flops_model(args, flops_model, name="--flops-model")

    derived: dict[str, Any] = {}
    if given["--balance-by-flops"] or given["--balance-within-cap"]:
        derived["balance_data"] = True
    if given["--use-dynamic-batch-size"] and given["--log-probs-max-tokens-per-gpu"] is None:
        derived["log_probs_max_tokens_per_gpu"] = given["--max-tokens-per-gpu"]
    put = args.__setitem__ if isinstance(args, MutableMapping) else partial(setattr, args)
    for attribute, value in derived.items():
        try:
            put(attribute, value)
        except (AttributeError, TypeError):
            raise ValueError(f"args must let {attribute} be set, to {value}, got {shown(args)}") from None
    return args


class _Flags(Fields):
    """Fields that messages call as the command line does."""

    def name(self, field: str) -> str:
        return f"--{field.replace('_', '-')}"


def _attribute(flag: str) -> str:
    """Return the attribute that argparse derives from a flag."""
    return flag.removeprefix("--").replace("-", "_")
