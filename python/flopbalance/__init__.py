"""Balance samples of very different lengths over data-parallel ranks."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for type checkers; tests/test_docs.py holds the two lists together
    from flopbalance.costs.checking import CostCheck as CostCheck
    from flopbalance.costs.checking import check_costs as check_costs
    from flopbalance.costs.exact import CostModel as CostModel
    from flopbalance.costs.fitted import FittedCost as FittedCost
    from flopbalance.costs.published import PublishedFlops as PublishedFlops
    from flopbalance.costs.published import calculate_fwd_flops as calculate_fwd_flops
    from flopbalance.costs.sources import load_cost as load_cost
    from flopbalance.costs.sources import read_cost as read_cost
    from flopbalance.costs.sources import save_cost as save_cost
    from flopbalance.costs.sources import select_flops_model as select_flops_model
    from flopbalance.errors import ScheduleError as ScheduleError
    from flopbalance.lengths.files import read_lengths as read_lengths
    from flopbalance.lengths.synthetic import Rollout as Rollout
    from flopbalance.lengths.synthetic import synthetic_rollout as synthetic_rollout
    from flopbalance.planning.counts import Counts as Counts
    from flopbalance.planning.feasibility import Feasibility as Feasibility
    from flopbalance.planning.feasibility import check_feasible as check_feasible
    from flopbalance.planning.limits import Limits as Limits
    from flopbalance.planning.packing import expand_bins_by_splitting as expand_bins_by_splitting
    from flopbalance.planning.packing import first_fit_pack as first_fit_pack
    from flopbalance.planning.packing import pack as pack
    from flopbalance.planning.partition import get_reverse_idx as get_reverse_idx
    from flopbalance.planning.partition import get_seqlen_balanced_partitions as get_seqlen_balanced_partitions
    from flopbalance.planning.partition import karmarkar_karp as karmarkar_karp
    from flopbalance.planning.pipeline import Pipeline as Pipeline
    from flopbalance.planning.plan import plan as plan
    from flopbalance.reports.balance import BalanceReport as BalanceReport
    from flopbalance.reports.balance import report as report
    from flopbalance.reports.cap_watch import CapWatch as CapWatch
    from flopbalance.reports.explanation import Explanation as Explanation
    from flopbalance.reports.explanation import explain as explain
    from flopbalance.reports.figures import plot_comparison as plot_comparison
    from flopbalance.reports.figures import plot_schedule as plot_schedule
    from flopbalance.reports.simulation import simulate_pipeline as simulate_pipeline
    from flopbalance.schedules.schedule import RankSchedule as RankSchedule
    from flopbalance.schedules.schedule import Schedule as Schedule
    from flopbalance.trainers.arguments import add_balance_arguments as add_balance_arguments
    from flopbalance.trainers.arguments import validate_balance_args as validate_balance_args
    from flopbalance.trainers.dp_schedule import build_dp_schedule as build_dp_schedule
    from flopbalance.trainers.log_probs import build_log_probs_schedule as build_log_probs_schedule

# Every public name and the module that holds it; imported on first use, so that a trainer that only plans waits
# neither for parsers nor for file formats.
_HOMES = {
    name: module
    for module, names in {
        "errors": ["ScheduleError"],
        "lengths.files": ["read_lengths"],
        "lengths.synthetic": ["Rollout", "synthetic_rollout"],
        "costs.checking": ["CostCheck", "check_costs"],
        "costs.exact": ["CostModel"],
        "costs.fitted": ["FittedCost"],
        "costs.published": ["PublishedFlops", "calculate_fwd_flops"],
        "costs.sources": ["load_cost", "read_cost", "save_cost", "select_flops_model"],
        "schedules.schedule": ["RankSchedule", "Schedule"],
        "planning.counts": ["Counts"],
        "planning.feasibility": ["Feasibility", "check_feasible"],
        "planning.limits": ["Limits"],
        "planning.packing": ["expand_bins_by_splitting", "first_fit_pack", "pack"],
        "planning.partition": ["get_reverse_idx", "get_seqlen_balanced_partitions", "karmarkar_karp"],
        "planning.pipeline": ["Pipeline"],
        "planning.plan": ["plan"],
        "reports.balance": ["BalanceReport", "report"],
        "reports.cap_watch": ["CapWatch"],
        "reports.explanation": ["Explanation", "explain"],
        "reports.figures": ["plot_comparison", "plot_schedule"],
        "reports.simulation": ["simulate_pipeline"],
        "trainers.arguments": ["add_balance_arguments", "validate_balance_args"],
        "trainers.dp_schedule": ["build_dp_schedule"],
        "trainers.log_probs": ["build_log_probs_schedule"],
    }.items()
    for name in names
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
