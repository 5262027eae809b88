"""Schedules in files: an .npz archive of plain numbers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import IO, Any

import numpy as np

from flopbalance.arrays import MOST_VALUES, Archive
from flopbalance.schedules.laws import checked_schedule
from flopbalance.text import counted, listed, printable, quoted, shortened
from flopbalance.writing import replacing

_VERSION = 1
"""Of the saved form."""

_COUNTS = ("version", "dp_size", "num_samples")
_LONGEST_REASON = 300


def write_archive(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Write the fields of a schedule to a file, under exactly this name."""
    longest = max(np.size(value) for value in values.values())
    if longest > MOST_VALUES:
        raise ValueError(f"a schedule must have at most {MOST_VALUES} samples to be saved, got {longest}")
    with replacing(path) as file:
        np.savez_compressed(file, version=_VERSION, **values)


def read_archive(path: str | os.PathLike[str], names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a schedule from a file that `write_archive` wrote.

    Raises
    ------
    ValueError
        When the file is not one, or is damaged: the message says what it is or lacks.
    """
    with open(path, "rb") as file:
        try:
            values = _read_arrays(file, ["version", *names])
            return checked_schedule({name: values[name] for name in names})
        except ValueError as error:
            reason = shortened(str(error), _LONGEST_REASON)
            name = printable(os.fspath(path))
            raise ValueError(f"path must be a schedule that save() wrote, got {name}: {reason}") from None


def _read_arrays(file: IO[bytes], names: Sequence[str]) -> dict[str, Any]:
    """Return what a file holds: exactly these arrays, and counts as integers, in the types in which they are saved."""
    archive = Archive(file)
    for name in names:
        if name not in archive.names:
            raise ValueError(f"expected an array {quoted(name)}, found {listed(archive.names)}")
    for name in archive.names:
        if name not in names:
            raise ValueError(f"expected no array {quoted(name)} beside those of a schedule")
    values = {name: archive.read(name) for name in names}
    for name, array in values.items():
        dtype, dimensions = np.dtype(np.bool_ if name == "is_padding" else np.int64), int(name not in _COUNTS)
        if array.dtype != dtype or array.ndim != dimensions:
            form = f"{dtype} of {counted(dimensions, 'dimension')}"
            raise ValueError(f"expected {form} in {quoted(name)}, found {array.dtype} of {array.ndim}")
    if values["version"] != _VERSION:
        raise ValueError(f"expected version {_VERSION}, found {values['version']}")
    return {name: int(array) if name in _COUNTS else array for name, array in values.items()}
