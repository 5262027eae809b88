"""Schedules in files: an .npz archive of plain numbers, and the laws that one must keep to be a schedule."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

from flopbalance.arrays import MOST_VALUES, Archive
from flopbalance.checks import Ints
from flopbalance.text import listed, printable, quoted, shortened
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
            for law, holds in _laws(values):
                if not holds:
                    raise ValueError(f"broken law: {law}")
        except ValueError as error:
            reason = shortened(str(error), _LONGEST_REASON)
            name = printable(os.fspath(path))
            raise ValueError(f"path must be a schedule that save() wrote, got {name}: {reason}") from None
    return {name: int(values[name]) if name in _COUNTS else values[name] for name in names}


def _read_arrays(file: IO[bytes], names: Sequence[str]) -> dict[str, Any]:
    """Return the arrays of a file, which are exactly these, all of plain numbers."""
    start = file.read(64).lstrip()
    file.seek(0)
    if not start.startswith(b"PK"):
        kinds = {b"{": "JSON text", b"[": "JSON text", b"\x93NUMPY": "a single .npy array"}
        found = next((kind for first, kind in kinds.items() if start.startswith(first)), "another kind of file")
        raise ValueError(f"expected an .npz archive, found {found if start else 'an empty file'}")
    archive = Archive(file)
    for name in names:
        if name not in archive.names:
            raise ValueError(f"expected an array {quoted(name)}, found {listed(archive.names)}")
    for name in archive.names:
        if name not in names:
            raise ValueError(f"expected no array {quoted(name)} beside those of a schedule")
    return {name: archive.read(name) for name in names}


def _laws(values: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield each law and whether it holds, where all before it do; no law takes more memory than the arrays."""
    of = SimpleNamespace(**values)
    yield (
        "counts are int64, arrays are int64 of one dimension, and one of bool",
        all(
            array.dtype == (np.bool_ if name == "is_padding" else np.int64) and array.ndim == (name not in _COUNTS)
            for name, array in values.items()
        ),
    )
    yield f"version is {_VERSION}", of.version == _VERSION
    yield "every step has micro-batches", bool((of.micro_batches_per_step > 0).all())
    count = int(of.dp_size) * _sum(of.micro_batches_per_step)
    yield "every rank has as many micro-batches", len(of.micro_batch_tokens) == count > 0
    offsets = of.micro_batch_offsets
    yield "one offset more than micro-batches", len(offsets) == count + 1
    yield (
        "offsets ascend from 0 to the number of placed samples",
        offsets[0] == 0 and offsets[-1] == len(of.samples) and bool((offsets[1:] > offsets[:-1]).all()),
    )
    yield "every placed sample is padding or not", len(of.is_padding) == len(of.samples)
    placed = of.samples[~of.is_padding]
    yield (
        "every sample stands in one place",
        len(placed) + len(of.dropped) == of.num_samples  # first, since it may be any number
        and np.array_equal(np.sort(np.concatenate([placed, of.dropped])), np.arange(of.num_samples)),
    )
    yield "dropped samples ascend", bool((of.dropped[1:] > of.dropped[:-1]).all())
    yield "padding is placed elsewhere", bool(np.isin(of.samples[of.is_padding], placed).all())
    tokens = of.micro_batch_tokens
    yield "tokens are not negative, and 64 bits hold their sum", (tokens >= 0).all() and _sum(tokens) < 2**63
    yield "as many steps of rollouts as of micro-batches", len(of.rollouts_per_step) == len(of.micro_batches_per_step)
    yield (
        "every step has rollouts, and no more than there are samples",
        (of.rollouts_per_step > 0).all() and _sum(of.rollouts_per_step) <= of.num_samples,
    )


def _sum(counts: Ints) -> int:
    """Return an exact sum; one in 64 bits may wrap."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())
