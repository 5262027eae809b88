"""Balance samples of very different lengths over data-parallel ranks."""

import importlib
from typing import TYPE_CHECKING, Any

from flopbalance.errors import ScheduleError
from flopbalance.packing import expand_bins_by_splitting, first_fit_pack
from flopbalance.partition import get_reverse_idx, get_seqlen_balanced_partitions, karmarkar_karp
from flopbalance.plan import plan
from flopbalance.schedule import RankSchedule, Schedule

if TYPE_CHECKING:
    from flopbalance.arguments import add_balance_arguments, validate_balance_args
    from flopbalance.balance_report import BalanceReport, report
    from flopbalance.calibration import FittedCost
    from flopbalance.cap_watch import CapWatch
    from flopbalance.cost_check import CostCheck, check_costs
    from flopbalance.cost_model import CostModel
    from flopbalance.costs import load_cost, read_cost, save_cost, select_flops_model
    from flopbalance.dp_schedule import build_dp_schedule
    from flopbalance.explanation import Explanation, explain
    from flopbalance.feasible import Feasibility, check_feasible
    from flopbalance.lengths_file import read_lengths
    from flopbalance.plot import plot_comparison, plot_schedule
    from flopbalance.published import PublishedFlops, calculate_fwd_flops
    from flopbalance.rollout import Rollout, synthetic_rollout

__all__ = [
    "BalanceReport",
    "CapWatch",
    "CostCheck",
    "CostModel",
    "Explanation",
    "Feasibility",
    "FittedCost",
    "PublishedFlops",
    "RankSchedule",
    "Rollout",
    "Schedule",
    "ScheduleError",
    "add_balance_arguments",
    "build_dp_schedule",
    "calculate_fwd_flops",
    "check_costs",
    "check_feasible",
    "expand_bins_by_splitting",
    "explain",
    "first_fit_pack",
    "get_reverse_idx",
    "get_seqlen_balanced_partitions",
    "karmarkar_karp",
    "load_cost",
    "plan",
    "plot_comparison",
    "plot_schedule",
    "read_cost",
    "read_lengths",
    "report",
    "save_cost",
    "select_flops_model",
    "synthetic_rollout",
    "validate_balance_args",
]

# Imported on first use: a trainer that only plans should not wait for parsers and file formats.
_LATER = {
    "BalanceReport": "balance_report",
    "CapWatch": "cap_watch",
    "CostCheck": "cost_check",
    "CostModel": "cost_model",
    "Explanation": "explanation",
    "Feasibility": "feasible",
    "FittedCost": "calibration",
    "PublishedFlops": "published",
    "Rollout": "rollout",
    "add_balance_arguments": "arguments",
    "build_dp_schedule": "dp_schedule",
    "calculate_fwd_flops": "published",
    "check_costs": "cost_check",
    "check_feasible": "feasible",
    "explain": "explanation",
    "load_cost": "costs",
    "plot_comparison": "plot",
    "plot_schedule": "plot",
    "read_cost": "costs",
    "read_lengths": "lengths_file",
    "report": "balance_report",
    "save_cost": "costs",
    "select_flops_model": "costs",
    "synthetic_rollout": "rollout",
    "validate_balance_args": "arguments",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
