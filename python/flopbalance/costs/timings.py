"""Measured micro-batches from a log: lengths of the sequences, seconds, and the rank where it is known."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from flopbalance.checks import Ints, as_count, as_lengths
from flopbalance.costs.measurements import MicroBatches


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
        The file is no such log; the message names file, line and field.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "log.csv"
    >>> _ = path.write_text("lengths,seconds\n3 4,0.5\n5,0.25\n")
    >>> read_timings(path).micro_batches.lengths, read_timings(path).seconds
    (array([3, 4, 5]), array([0.5 , 0.25]))
    """
    path = Path(path)
    readers = {".csv": _csv_rows, ".jsonl": _json_rows}
    if path.suffix.lower() not in readers:
        raise ValueError(f"{path}: must end in {' or '.join(readers)}")
    batches, seconds, ranks = [], [], []
    with open(path, encoding="utf-8-sig", newline="") as file:
        usual_limit = csv.field_size_limit(2**31 - 1)  # many sequences make a long cell
        try:
            for line, row in readers[path.suffix.lower()](file):
                where = f"{path}:{line}"
                batches.append(_lengths(_field(row, "lengths", where), f"{where}: lengths"))
                seconds.append(_seconds(_field(row, "seconds", where), f"{where}: seconds"))
                rank = row.get("rank")
                ranks.append(None if rank is None else as_count(rank, f"{where}: rank", minimum=0))
                if (rank is None) != (ranks[0] is None):
                    raise ValueError(f"{where}: rank must be given for all micro-batches or none, got {rank}")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: no UTF-8 text: {error}") from None
        except csv.Error as error:
            raise ValueError(f"{path}: no valid CSV: {error}") from None
        finally:
            csv.field_size_limit(usual_limit)
    if not batches:
        raise ValueError(f"{path}: must hold a micro-batch, found none")
    known = None if ranks[0] is None else np.array(ranks, dtype=np.int64)
    return Timings(MicroBatches.of(batches), np.array(seconds), known)


def _csv_rows(file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(file)
    for row in reader:
        lengths = [_integer(word) for word in (row.get("lengths") or "").split()]
        yield reader.line_num, {**row, "lengths": lengths, "rank": _integer((row.get("rank") or "").strip() or None)}


def _json_rows(file: TextIO) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file.name}:{line}: no valid JSON: {error}") from None
        if not isinstance(row, dict):
            raise ValueError(f"{file.name}:{line}: must be a JSON object, got {type(row).__name__}")
        yield line, row


def _integer(word: Any) -> Any:
    """Return a whole number where the word is one; who knows the field refuses what it is otherwise."""
    return int(word) if isinstance(word, str) and word.strip().isdecimal() else word


def _field(row: dict[str, Any], name: str, where: str) -> Any:
    if row.get(name) is None or row[name] == []:
        raise ValueError(f"{where}: {name} is missing")
    return row[name]


def _lengths(value: Any, name: str) -> Ints:
    lengths = as_lengths(value, name)
    if not lengths.any():
        raise ValueError(f"{name} must hold a token, got {value!r}")
    return lengths


def _seconds(value: Any, name: str) -> float:
    try:
        if isinstance(value, bool):
            raise TypeError
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, got {value!r:.60}") from None
    if not 0 < seconds < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return seconds
