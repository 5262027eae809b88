"""The one exception of its own that the package raises."""


class ScheduleError(ValueError, AssertionError):
    """The input is sound, but no schedule exists for it.

    Also an ``AssertionError``, since that is what trainers catch today.

    Examples
    --------
    >>> issubclass(ScheduleError, ValueError)
    True
    """
