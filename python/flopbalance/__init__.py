"""Balance samples of very different lengths over data-parallel ranks."""

from flopbalance.errors import ScheduleError

__all__ = ["ScheduleError"]
