"""Schedules in files: an .npz archive of plain numbers, and the laws that one must keep to be a schedule."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

from flopbalance.documents import reading

_VERSION = 1
"""Of the saved form."""


def write_archive(path: str | os.PathLike[str], values: Mapping[str, Any]) -> None:
    """Write the fields of a schedule to a file, under exactly this name."""
    with open(path, "wb") as file:
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
            version = int(values.pop("version"))
            values.update({name: int(values[name]) for name in ("dp_size", "num_samples")})
            for law, holds in _laws(version, values):
                if not holds:
                    raise ValueError(f"broken law: {law}")
        except Exception as error:  # a damaged file can fail in any way that zip, NumPy or a missing name can
            raise ValueError(f"path must be a schedule that save() wrote, got {os.fspath(path)}: {error}") from None
    return values


def _read_arrays(file: IO[bytes], names: Sequence[str]) -> dict[str, Any]:
    """Return the arrays of a file, which are exactly these, all of plain numbers."""
    start = file.read(64).lstrip()
    file.seek(0)
    if not start.startswith(b"PK"):
        kinds = {b"{": "JSON text", b"[": "JSON text", b"\x93NUMPY": "a single .npy array"}
        found = next((kind for first, kind in kinds.items() if start.startswith(first)), "another kind of file")
        raise ValueError(f"expected an .npz archive, found {found if start else 'an empty file'}")
    with np.load(file, allow_pickle=False) as saved:
        for name in names:
            if name not in saved.files:
                raise ValueError(f"expected an array {name!r}, found {', '.join(map(repr, saved.files)) or 'none'}")
        values = {}
        for name in saved.files:
            if name not in names:
                raise ValueError(f"expected no array {name!r} beside those of a schedule")
            with reading(f"plain numbers in {name!r}"):
                values[name] = saved[name]
        return values


def _laws(version: int, values: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each law and whether it holds, where all before it do."""
    of = SimpleNamespace(**values)
    yield f"version is {_VERSION}", version == _VERSION
    arrays = [(name, value) for name, value in values.items() if isinstance(value, np.ndarray)]
    yield (
        "arrays are int64 of one dimension, and one of bool",
        all(
            array.dtype == (np.bool_ if name == "is_padding" else np.int64) and array.ndim == 1
            for name, array in arrays
        ),
    )
    count = of.dp_size * int(of.micro_batches_per_step.sum())
    yield "every step has micro-batches", bool((of.micro_batches_per_step > 0).all())
    yield "every rank has as many micro-batches", len(of.micro_batch_tokens) == count > 0
    offsets = of.micro_batch_offsets
    yield "one offset more than micro-batches", len(offsets) == count + 1
    yield (
        "offsets ascend from 0 to the number of placed samples",
        offsets[0] == 0 and offsets[-1] == len(of.samples) and bool((np.diff(offsets) > 0).all()),
    )
    placed = np.concatenate([of.samples[~of.is_padding], of.dropped])
    yield "every sample stands in one place", np.array_equal(np.sort(placed), np.arange(of.num_samples))
    yield "samples are of the input", bool(((of.samples >= 0) & (of.samples < of.num_samples)).all())
    yield "tokens are not negative", bool((of.micro_batch_tokens >= 0).all())
    yield "every step has rollouts", bool((of.rollouts_per_step > 0).all())
    yield (
        "as many steps of rollouts as of micro-batches",
        len(of.rollouts_per_step) == len(of.micro_batches_per_step),
    )
