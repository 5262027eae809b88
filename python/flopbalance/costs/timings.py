"""Measured micro-batches from a log: lengths of the sequences, seconds, and the rank where it is known."""

from __future__ import annotations

import itertools
import math
import os
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flopbalance.arrays import MOST_VALUES
from flopbalance.checks import Ints, as_count, as_lengths
from flopbalance.costs.measurements import MicroBatches
from flopbalance.documents import read_json_lines, read_lines, read_rows
from flopbalance.text import printable, quoted, shortened

_LONGEST_REASON = 300


class Timings(NamedTuple):
    """Micro-batches and what they took; what `read_timings` returns.

    Attributes
    ----------
    micro_batches : MicroBatches
        The lengths of their sequences.
    seconds : ndarray of float64, shape (micro-batches,)
        Measured times.
    ranks : ndarray of int64, shape (micro-batches,), or None
        Who ran each, where the log says it.
    """

    micro_batches: MicroBatches
    seconds: npt.NDArray[np.float64]
    ranks: Ints | None


def read_timings(path: str | os.PathLike[str]) -> Timings:
    r"""Read a log of measured micro-batches.

    Parameters
    ----------
    path : str or path
        ``.csv`` with the columns ``lengths`` (separated by spaces) and ``seconds``, or ``.jsonl`` with an object of
        such fields (``lengths`` as a list) on each line; in both, ``rank`` is optional.

    Raises
    ------
    ValueError
        The file is not such a log; the message names file, line and field. Also a line longer than 64 MiB, and more
        than 2**28 sequences.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("lengths,seconds\n3 4,0.5\n5,0.25\n")
    >>> read_timings(path).micro_batches.lengths, read_timings(path).seconds
    (array([3, 4, 5]), array([0.5 , 0.25]))
    """
    readers = {".csv": _csv_rows, ".jsonl": _json_rows}
    name = printable(os.fspath(path))
    ending = Path(path).suffix.lower()
    if ending not in readers:
        raise ValueError(f"{name}: must end in {' or '.join(readers)}")
    lengths, offsets, seconds, ranks = array("q"), array("q", [0]), array("d"), array("q")
    with open(path, "rb") as file:
        try:
            for line, row in readers[ending](file):
                where = f"line {line}: "
                lengths.frombytes(_lengths(_field(row, "lengths", where), f"{where}lengths").tobytes())
                offsets.append(len(lengths))
                seconds.append(_seconds(_field(row, "seconds", where), f"{where}seconds"))
                rank = row.get("rank")
                if rank is not None:
                    ranks.append(as_count(rank, f"{where}rank", minimum=0))
                if len(ranks) not in (0, len(seconds)):
                    raise ValueError(f"{where}rank must be given for all micro-batches or none, got {quoted(rank)}")
                if len(lengths) > MOST_VALUES:
                    raise ValueError(f"{where}must hold at most {MOST_VALUES} sequences in all, got more")
        except ValueError as error:
            raise ValueError(f"{name}: {shortened(str(error), _LONGEST_REASON)}") from None
    if not seconds:
        raise ValueError(f"{name}: must hold a micro-batch, found none")
    batches = MicroBatches.of((np.array(lengths, np.int64), np.array(offsets, np.int64)))
    return Timings(batches, np.array(seconds), np.array(ranks, np.int64) if ranks else None)


def _csv_rows(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    rows = read_rows(read_lines(file))
    for _, names in itertools.islice(rows, 1):
        for line, cells in rows:
            row: dict[str, Any] = dict(zip(names, cells, strict=False))  # missing cells are said to be missing
            row["lengths"] = [_integer(word) for word in row.get("lengths", "").split()]
            row["rank"] = _integer(row.get("rank", "").strip() or None)
            yield line, row


def _json_rows(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, row in read_json_lines(read_lines(file)):
        if not isinstance(row, dict):
            raise ValueError(f"line {line}: must be a JSON object, got {type(row).__name__}")
        yield line, row


def _integer(word: Any) -> Any:
    """Return a whole number where the word is one; who knows the field refuses what it is otherwise."""
    return int(word) if isinstance(word, str) and word.strip().isdecimal() and len(word) < 100 else word


def _field(row: dict[str, Any], name: str, where: str) -> Any:
    if row.get(name) is None or row[name] == []:
        raise ValueError(f"{where}{name} is missing")
    return row[name]


def _lengths(value: Any, name: str) -> Ints:
    lengths = as_lengths(value, name)
    if not lengths.any():
        raise ValueError(f"{name} must hold a token, got {quoted(value)}")
    return lengths


def _seconds(value: Any, name: str) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {quoted(value)}") from None
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {seconds}")
    return seconds
