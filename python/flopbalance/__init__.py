"""Balance samples of very different lengths over data-parallel ranks."""

from flopbalance.errors import ScheduleError
from flopbalance.published import calculate_fwd_flops

__all__ = ["ScheduleError", "calculate_fwd_flops"]
