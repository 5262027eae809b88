"""Words for people: counts with their nouns, tables in plain text."""

import os
from collections.abc import Collection, Sequence
from typing import TextIO

BEST = "\033[1;32m{}\033[0m"


def format_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    best: Collection[tuple[int, int]] = (),
    colour: bool = False,
) -> str:
    """Align cells in columns: the first to the left, numbers to the right.

    Parameters
    ----------
    header, rows : sequences of str
        Every row as long as the header.
    best : collection of (row, column)
        Cells to mark with an asterisk, and in colour where that is wanted.
    colour : bool
        Whether to use the colours of a terminal.

    Examples
    --------
    >>> print(format_table(["mode", "time"], [["plain", "12.5"], ["balanced", "9.5"]], best={(1, 1)}))
    mode       time
    plain     12.5
    balanced   9.5*
    """
    # A space where others have an asterisk keeps digits below each other.
    marks = {column for _, column in best}
    marked = [list(header)]
    for i, row in enumerate(rows):
        marked.append([cell + ("*" if (i, j) in best else " " * (j in marks)) for j, cell in enumerate(row)])
    widths = [max(map(len, column)) for column in zip(*marked, strict=True)]
    lines = []
    for i, row in enumerate(marked, start=-1):
        cells = [row[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        if colour:
            cells = [BEST.format(cell) if (i, j) in best else cell for j, cell in enumerate(cells)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def wants_colour(stream: TextIO) -> bool:
    """Return whether a stream is a terminal whose user has not switched colours off (see no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def counted(count: int, noun: str, form: str = ",") -> str:
    """Return a count with its noun, in digits as a format specification wants them.

    Examples
    --------
    >>> counted(1, "step"), counted(2048, "step"), counted(2048, "micro-batch", form="d")
    ('1 step', '2,048 steps', '2048 micro-batches')
    """
    plural = "es" if noun.endswith("ch") else "s"
    return f"{count:{form}} {noun if count == 1 else noun + plural}"


def si_prefix(largest: float) -> tuple[float, str]:
    """Return the power of 1000 that leaves numbers up to `largest` one to three digits, and its SI prefix.

    Examples
    --------
    >>> si_prefix(999), si_prefix(1000), si_prefix(2.5e16)
    ((1.0, ''), (1000.0, 'k'), (1000000000000000.0, 'P'))
    """
    power = 0
    while power < 10 and largest >= 1000 ** (power + 1):
        power += 1
    return 1000.0**power, ["", *"kMGTPEZYRQ"][power]
