"""The ways to balance that commands compare: one list, from the simplest to the most thorough."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from flopbalance.planning.plan import Objective, Packing


@dataclass(frozen=True)
class Mode:
    """One way to balance.

    Attributes
    ----------
    name : str
        As tables show it.
    flag : str
        The options of a trainer that switch it on; empty for what trainers do without one.
    packing, balance_ranks, objective
        Arguments of `plan`.
    """

    name: str
    flag: str
    packing: Packing
    balance_ranks: bool
    objective: Objective = "step"


def _within_cap(objective: Objective, flag: str) -> Mode:
    return Mode(f"within cap: {objective}", flag, "capped", balance_ranks=True, objective=objective)


MODES = (
    Mode("plain", "", "first-fit", balance_ranks=False),
    Mode("balance data", "--balance-data", "first-fit", balance_ranks=True),
    Mode("by FLOPs", "--balance-by-flops", "flops", balance_ranks=True),
    _within_cap("step", "--balance-within-cap"),
    _within_cap("micro-batch", "--balance-within-cap --balance-objective micro-batch"),
    _within_cap("pipeline", "--balance-within-cap --balance-objective pipeline"),
)


def chosen_mode(options: argparse.Namespace) -> Mode:
    """Return the most thorough mode that the options switch on."""
    if options.balance_within_cap:
        return next(mode for mode in MODES if mode.packing == "capped" and mode.objective == options.balance_objective)
    if options.balance_by_flops:
        return next(mode for mode in MODES if mode.packing == "flops")
    return MODES[1] if options.balance_data else MODES[0]


def most_thorough(modes: Sequence[Mode], objective: Objective) -> Mode:
    """Return the last mode that does not aim at another objective."""
    return [mode for mode in modes if mode.packing != "capped" or mode.objective == objective][-1]
