"""From a trainer's arguments to those of `plan`: one table of the ways to balance, and the rules between the arguments.

Trainers and commands read the same names; which flag or field a message names is up to the reader of the fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flopbalance.checks import as_amount, as_choice, as_count, shown
from flopbalance.fields import Fields
from flopbalance.planning.plan import Objective, Packing, reads


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

    def reads(self, argument: str) -> bool:
        """Whether `plan` reads an argument in this mode, or only accepts its default."""
        return reads(argument, self.packing, self.objective)


MODES = (
    Mode("plain", "", "first-fit", balance_ranks=False),
    Mode("balance data", "--balance-data", "first-fit", balance_ranks=True),
    Mode("by FLOPs", "--balance-by-flops", "flops", balance_ranks=True),
    Mode("within cap: step", "--balance-within-cap", "capped", True),
    Mode(
        "within cap: micro-batch", "--balance-within-cap --balance-objective micro-batch", "capped", True, "micro-batch"
    ),
    Mode("within cap: pipeline", "--balance-within-cap --balance-objective pipeline", "capped", True, "pipeline"),
)
"""What dynamic batching can do, from the simplest to the most thorough."""

FIXED_MODES = (
    Mode("plain", "", "fixed", balance_ranks=False),
    Mode("balance data", "--balance-data", "fixed", balance_ranks=True),
)
"""What is left to do with as many samples in every micro-batch."""

# The published schedule knows one more, which no command reaches.
_FLOPS_IN_TURN = Mode("by FLOPs, dealt in turn", "--balance-by-flops", "flops", balance_ranks=False)
_WITHIN_CAP = {mode.objective: mode for mode in MODES if mode.packing == "capped"}
_BY_PACKING: dict[tuple[Packing, bool], Mode] = {
    (mode.packing, mode.balance_ranks): mode
    for mode in (*MODES, *FIXED_MODES, _FLOPS_IN_TURN)
    if mode.packing != "capped"
}

CHOICES = {
    "balance_objective": "objective",
    "micro_batch_overhead": "micro_batch_overhead",
    "micro_batches_per_rank": "exactly",
    "min_micro_batches_per_rank": "at_least",
    "on_leftover": "on_leftover",
    "on_oversize": "on_oversize",
    "on_shortage": "on_shortage",
}
"""Arguments of a trainer beyond the published ones, and what `plan` and its `Counts` call them."""


def plan_choices(trainer: Fields) -> dict[str, Any]:
    """Return the arguments of `plan` that a trainer's arguments set beyond the published ones."""
    return {keyword: value for field, keyword in CHOICES.items() if (value := trainer.get(field)) is not None}


def chosen_mode(trainer: Fields) -> Mode:
    """Return the mode that a trainer's arguments switch on, after `refuse_contradictions`."""
    by_flops, within_cap = trainer.flag("balance_by_flops"), trainer.flag("balance_within_cap")
    is_dynamic, balance_data = trainer.flag("use_dynamic_batch_size"), trainer.flag("balance_data")
    refuse_contradictions(trainer)
    if within_cap:
        objective = trainer.get("balance_objective")
        name = trainer.name("balance_objective")
        return _WITHIN_CAP["step" if objective is None else as_choice(objective, Objective, name)]
    packing: Packing = "fixed" if not is_dynamic else "flops" if by_flops else "first-fit"
    return _BY_PACKING[packing, balance_data]


def refuse_contradictions(trainer: Fields) -> None:
    """Raise a ValueError if a trainer's arguments exclude each other, or one has no effect without another."""
    by_flops, within_cap = trainer.get("balance_by_flops"), trainer.get("balance_within_cap")
    if by_flops and within_cap:
        raise ValueError(
            f"{trainer.name('balance_within_cap')} excludes {trainer.name('balance_by_flops')}: the one keeps "
            f"{trainer.name('max_tokens_per_gpu')}, the other may exceed it"
        )
    if (by_flops or within_cap) and not trainer.get("use_dynamic_batch_size"):
        needy = "balance_by_flops" if by_flops else "balance_within_cap"
        raise ValueError(f"{trainer.name(needy)} needs {trainer.name('use_dynamic_batch_size')}")
    for field, default, needed in (
        ("on_oversize", "alone", "use_dynamic_batch_size"),
        ("balance_objective", "step", "balance_within_cap"),
        ("on_shortage", "error", "balance_within_cap"),
    ):
        value = trainer.get(field)
        is_default = value is None or (isinstance(value, str) and value == default)
        if not is_default and not trainer.get(needed):
            choice = value if isinstance(value, str) else shown(value)
            raise ValueError(f"{trainer.name(field)} {choice} needs {trainer.name(needed)}")
    for field in ("micro_batch_overhead", "micro_batches_per_rank", "min_micro_batches_per_rank"):
        value = trainer.get(field)
        read = as_amount if field == "micro_batch_overhead" else as_count
        if value is not None and read(value, trainer.name(field)) and not within_cap:
            raise ValueError(f"{trainer.name(field)} needs {trainer.name('balance_within_cap')}")


def micro_batch_multiple(parallel: Fields) -> int:
    """Return what micro-batches per rank and step are a multiple of: the group of an interleaved pipeline."""
    return parallel.size("microbatch_group_size_per_vp_stage") if parallel.size_or("vpp_size", 1) > 1 else 1


def token_cap(max_tokens_per_gpu: int, cp_size: int, name: str = "max_tokens_per_gpu") -> int:
    """Return the token cap of a micro-batch, whose sequences the context-parallel GPUs of a rank share."""
    return as_count(max_tokens_per_gpu * cp_size, f"{name} x cp_size")


def most_thorough(modes: Sequence[Mode], objective: Objective) -> Mode:
    """Return the last mode that does not aim at another objective."""
    return [mode for mode in modes if mode.packing != "capped" or mode.objective == objective][-1]
