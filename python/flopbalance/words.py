"""Numbers in sentences."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> counted(1, "step"), counted(2048, "step")
    ('1 step', '2,048 steps')
    """
    return f"{count:,} {noun if count == 1 else noun + 's'}"
