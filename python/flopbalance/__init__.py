"""Balance samples of very different lengths over data-parallel ranks."""

from flopbalance.arguments import add_balance_arguments, validate_balance_args
from flopbalance.calibration import FittedCost
from flopbalance.cost_check import CostCheck, check_costs
from flopbalance.cost_model import CostModel
from flopbalance.dp_schedule import build_dp_schedule
from flopbalance.errors import ScheduleError
from flopbalance.lengths_file import read_lengths
from flopbalance.packing import expand_bins_by_splitting, first_fit_pack
from flopbalance.partition import get_reverse_idx, get_seqlen_balanced_partitions, karmarkar_karp
from flopbalance.plan import plan
from flopbalance.published import PublishedFlops, calculate_fwd_flops
from flopbalance.rollout import Rollout, synthetic_rollout
from flopbalance.schedule import RankSchedule, Schedule

__all__ = [
    "CostCheck",
    "CostModel",
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
    "expand_bins_by_splitting",
    "first_fit_pack",
    "get_reverse_idx",
    "get_seqlen_balanced_partitions",
    "karmarkar_karp",
    "plan",
    "read_lengths",
    "synthetic_rollout",
    "validate_balance_args",
]
