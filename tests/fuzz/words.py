"""The words of a line beside Python's own: the package, NumPy, and inputs that are too long to spell out.

A failing call can be pasted after ``from fuzz.words import *``.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
from argparse import ArgumentParser, Namespace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import flopbalance
from command import run
from flopbalance import *  # noqa: F403
from tensor import Tensor

nan, inf = float("nan"), float("inf")

__all__ = [
    "ArgumentParser",
    "Decimal",
    "Foreign",
    "Fraction",
    "Namespace",
    "Tensor",
    "archive",
    "array_file",
    "command",
]
__all__ += ["edited", "file", "flags", "inf", "many", "nan", "np", "saved", "spaced", "split", "zipped"]
__all__ += flopbalance.__all__


class Foreign:
    """An object of another library that looks like an array until it is asked."""

    def __init__(self, error: str) -> None:
        self.error = {"KeyError": KeyError, "RuntimeError": RuntimeError, "TypeError": TypeError}[error]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise self.error("not today")

    def __len__(self) -> int:
        return 3


def spaced(values: Any) -> np.ndarray:
    """Return an array that is not contiguous."""
    return np.repeat(np.asarray(values), 2)[::2]


def many(count: int, *values: int) -> np.ndarray:
    """Return so many of a few numbers, in an order that never changes."""
    return np.array(values or (0,))[np.random.RandomState(0).randint(0, max(1, len(values)), count)]


def file(content: bytes | str, ending: str = "") -> str:
    """Write a file in the current folder, which is empty before each line, and return its name."""
    path = Path(f"{len(os.listdir())}{ending}")
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def edited(path: str, *edits: tuple[int, int, bytes]) -> str:
    """Return a copy of a file in which parts are replaced: (position, bytes to leave out, bytes to put there)."""
    data = Path(path).read_bytes()
    for position, length, replacement in edits:
        start = position % (len(data) + 1)
        data = data[:start] + replacement + data[start + length :]
    return file(data, "".join(Path(path).suffixes))


def zipped(path: str) -> str:
    """Return a compressed copy of a file."""
    return file(gzip.compress(Path(path).read_bytes(), mtime=0), "".join([*Path(path).suffixes, ".gz"]))


def _sure(values: Any) -> Any:
    """Return values whose every byte is known; of a long double a few are anything."""
    if getattr(values, "dtype", None) != np.longdouble:
        return values
    sure = np.zeros(values.shape, np.longdouble)
    sure[...] = values.astype(np.float64)
    return sure


def array_file(values: Any) -> str:
    buffer = io.BytesIO()
    np.save(buffer, _sure(values), allow_pickle=True)
    return file(buffer.getvalue(), ".npy")


def archive(**arrays: Any) -> str:
    buffer = io.BytesIO()
    np.savez(buffer, **{name: _sure(values) for name, values in arrays.items()})
    return file(buffer.getvalue(), ".npz")


def saved(value: Any) -> str:
    """Save a schedule or a cost and return the name of the file."""
    if isinstance(value, flopbalance.Schedule):
        value.save("saved.npz")
        return "saved.npz"
    flopbalance.save_cost(value, "saved.json")
    return "saved.json"


def split(bins: list[list[int]], target: int, lengths: Any) -> list[list[int]]:
    """Return what `expand_bins_by_splitting` makes of bins."""
    flopbalance.expand_bins_by_splitting(bins, target, lengths)
    return bins


def command(*arguments: Any) -> tuple[int, str, str]:
    """Run ``flopbalance`` in this process; return the exit code and what it printed, without the times it took."""
    ended = run(*arguments)
    # Nor which of them is the shortest, and how wide their column is.
    printed = re.sub(" +", " ", re.sub(r" *[\d.]+ ms\*?", " ms", ended.stdout))
    return ended.returncode, printed, ended.stderr


def flags(*arguments: str) -> Namespace:
    """Return what a trainer's parser makes of options."""
    parser = flopbalance.add_balance_arguments(ArgumentParser(exit_on_error=False))
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            return parser.parse_args([str(argument) for argument in arguments])
        except SystemExit as end:
            raise ValueError(f"no such options: {arguments}") from end
