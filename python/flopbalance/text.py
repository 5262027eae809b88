"""Words for people: counts with their nouns, tables in plain text, and what others wrote, made fit to be shown."""

import itertools
import json
import os
from collections.abc import Collection, Iterable, Sequence
from decimal import Decimal
from typing import TextIO

BEST = "\033[1;32m{}\033[0m"

_LONGEST_QUOTE = 60
_MOST_NAMES = 5


def printable(text: str) -> str:
    r"""Return a text of others on one line and without anything that a terminal obeys or that turns text around.

    Whatever is not a letter, mark, digit, sign or space is written as its escape, as in ``repr``: control characters,
    those that change the direction of writing, line ends, halves of surrogate pairs.

    Examples
    --------
    >>> print(printable("a\x1b[2Jb"), printable("\u202ecod.exe"), printable("naïve 長さ"))
    a\x1b[2Jb \u202ecod.exe naïve 長さ
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii") for letter in text
    )


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters: its beginning and its end, which say most.

    Examples
    --------
    >>> shortened("0123456789" * 100, 20)
    '01234567...3456789'
    """
    if len(text) <= most:
        return text
    half = (most - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def quoted(value: object) -> str:
    """Return a value of any size as a message quotes it: in JSON, short, on one line.

    Examples
    --------
    >>> quoted("why"), quoted(None), quoted(10**5000)
    ('"why"', 'null', 'a number of 16610 bits')
    >>> quoted([0] * 100)
    '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,...'
    """
    if isinstance(value, int) and value.bit_length() > 2**10:  # Python refuses to spell the largest
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str | Decimal):
        start = str(value)[: _LONGEST_QUOTE + 1]
        text = json.dumps(start, ensure_ascii=False) if isinstance(value, str) else start
    else:
        pieces = json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value)
        try:
            text = "".join(itertools.islice(pieces, _LONGEST_QUOTE))  # of a long list only the beginning is spelled
        except (TypeError, ValueError, RecursionError):  # nothing that JSON has a form for
            text = f"a {type(value).__name__}"
    text = printable(text)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[: _LONGEST_QUOTE - 3]}..."


def listed(names: Iterable[str]) -> str:
    """Return names as a message lists them: a few, and how many there are.

    Examples
    --------
    >>> listed(["a", "b"]), listed(map(str, range(1000)))
    ('"a", "b"', '"0", "1", "2", "3", "4", ... (1,000 in all)')
    """
    names = list(names)
    text = ", ".join(map(quoted, names[:_MOST_NAMES])) or "none"
    return text if len(names) <= _MOST_NAMES else f"{text}, ... ({len(names):,} in all)"


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
    marked = [list(map(printable, header))]
    for i, row in enumerate(rows):
        marked.append([printable(cell) + ("*" if (i, j) in best else " " * (j in marks)) for j, cell in enumerate(row)])
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
