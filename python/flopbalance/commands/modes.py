"""The ways to balance that commands compare: one list, from the simplest to the most thorough."""

import argparse
from dataclasses import dataclass

from flopbalance.plan import Packing


@dataclass(frozen=True)
class Mode:
    """One way to balance.

    Attributes
    ----------
    name : str
        As tables show it.
    flag : str
        The option of a trainer that switches it on; empty for what trainers do without one.
    packing, balance_ranks
        Arguments of `plan`.
    """

    name: str
    flag: str
    packing: Packing
    balance_ranks: bool


MODES = (
    Mode("plain", "", "first-fit", balance_ranks=False),
    Mode("balance data", "--balance-data", "first-fit", balance_ranks=True),
    Mode("by FLOPs", "--balance-by-flops", "flops", balance_ranks=True),
    Mode("within cap", "--balance-within-cap", "capped", balance_ranks=True),
)


def chosen_mode(options: argparse.Namespace) -> Mode:
    """Return the most thorough mode that the options switch on."""
    on = [mode for mode in MODES if not mode.flag or getattr(options, mode.flag[2:].replace("-", "_"))]
    return on[-1]
