"""Sample lengths from the kinds of files that people have.

Here a file is opened and its kind recognised, and its rows are checked: what counts as a length, and how a mistake is
reported, is decided once for all kinds.
"""

import contextlib
import gzip
import io
import json
import os
import sys
import zlib
from array import array
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import numpy as np

from flopbalance.arrays import MOST_VALUES
from flopbalance.documents import LONGEST_LINE
from flopbalance.lengths.columns import Columns
from flopbalance.lengths.formats import FORMATS, Format, number_of
from flopbalance.lengths.synthetic import Rollout
from flopbalance.text import printable, quoted

LARGEST_LENGTH = 2**63 - 1

_GZIP = b"\x1f\x8b"

# Where a format is looked for.
_MOST_EMPTY_LINES = 1000
_LONGEST_NUMBER = 1000


def read_lengths(path: str | os.PathLike[str], column: str | None = None, rollout_column: str | None = None) -> Rollout:
    r"""Read sample lengths, and rollout ids if wanted, from a file.

    ============  ==============================================================================
    ending        content
    ============  ==============================================================================
    .txt          a whole number on each line
    .csv, .tsv    a column of whole numbers; without a header row, columns are named 1, 2, ...
    .jsonl        on each line a number, a list of tokens (which are counted), or an object with
                  a field of either kind, or with a list of lengths
    .json         a list of the same, or an object of such lists
    .npy          an array of one dimension
    .npz          arrays of one dimension, by name
    .parquet      a column of numbers or of lists; needs the extra ``[parquet]``
    ============  ==============================================================================

    A list in a column called ``tokens``, ``input_ids`` or the like is one sample of so many tokens; a list in one
    called ``lengths``, ``total_lengths`` or the like holds the lengths of as many samples, and the list beside it
    their rollout ids. A list in a column of another name is refused.

    Text is UTF-8, with or without a byte order mark, in lines that end in LF or CRLF; empty lines are skipped. Any of
    these may be compressed, with ``.gz`` after the ending. Standard input, and files of another name, are recognised
    by their first bytes.

    Parameters
    ----------
    path : str or path
        The file; ``-`` is standard input.
    column : str, optional
        The name of the lengths. Not needed for the only column, nor for one called ``length`` or ``lengths``.
    rollout_column : str, optional
        The name of the rollout ids, numbers or texts: samples with equal ids belong together.

    Returns
    -------
    Rollout
        Lengths, and rollout ids numbered from 0 in the order in which they appear (None without `rollout_column`).

    Raises
    ------
    ValueError
        The file holds anything but whole numbers from 0 to 2**63 - 1: one line that says what was expected, what was
        found, and where. Nothing is ever skipped, rounded or unpickled. Also a line longer than 64 MiB, .json or
        piped .npz and .parquet larger than 256 MiB, and more than 2**28 lengths.
    OSError
        The file cannot be opened or read.

    Notes
    -----
    Time is linear in the size of the file: a million lines take seconds. Memory is that of the answer and of a line at
    a time, except for .json, which is held as a whole, and for a column of .npz.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "rollout.csv")
    >>> _ = file.write_text("prompt,tokens\nwhy,812\nwhy,4095\nhow,77\n")
    >>> lengths, rollout_ids = read_lengths(file, column="tokens", rollout_column="prompt")
    >>> lengths.tolist(), rollout_ids.tolist()
    ([812, 4095, 77], [0, 0, 1])
    """
    name = "standard input" if path == "-" else printable(os.fspath(path))
    try:
        with _open(path) as (stream, ending):
            return _read(stream, FORMATS[ending], Columns(column, rollout_column))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{name}: expected a whole gzip file, found a damaged one: {error}") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


@contextlib.contextmanager
def _open(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], str]]:
    """Open and decompress; yield the stream and the ending that names its format."""
    file: Any = contextlib.nullcontext(sys.stdin.buffer) if path == "-" else open(path, "rb")  # noqa: SIM115
    with file as stream:
        endings = [ending.lower() for ending in Path(path).suffixes]
        if endings[-1:] == [".gz"]:
            stream = gzip.GzipFile(fileobj=stream)
            endings.pop()
        if endings and endings[-1] in FORMATS:
            yield stream, endings[-1]
            return
        start, _ = _beginning(stream)
        stream = _again(start, stream)
        if start.startswith(_GZIP):
            stream = gzip.GzipFile(fileobj=stream)
        start, records = _beginning(stream)
        yield _again(start, stream), _recognise(start, records)


def _beginning(stream: IO[bytes]) -> tuple[bytes, list[bytes]]:
    """Read as far as the second line that is not empty; return all that was read, and these lines."""
    lines: list[bytes] = []
    records: list[bytes] = []
    while len(records) < 2 and len(lines) < _MOST_EMPTY_LINES and (line := stream.readline(LONGEST_LINE)):
        lines.append(line)
        if record := line.lstrip(b"\xef\xbb\xbf \t\r\n"):
            records.append(record)
    return b"".join(lines), records


def _again(start: bytes, rest: IO[bytes]) -> IO[bytes]:
    """Return a stream whose beginning has been read already, from the beginning."""
    if rest.seekable() and not isinstance(rest, gzip.GzipFile):  # whose streams are seekable only in name
        rest.seek(-len(start), os.SEEK_CUR)
        return rest
    return io.BufferedReader(_Chain(io.BytesIO(start), rest))


class _Chain(io.RawIOBase):
    """Two streams, one after the other."""

    def __init__(self, first: IO[bytes], second: Any) -> None:
        self._first = first
        self._second = second

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._first.read(len(buffer)) or self._second.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _recognise(start: bytes, records: list[bytes]) -> str:
    """Return the ending of the format of a file that begins so; the lines that are not empty are apart."""
    for signature, ending in ((b"\x93NUMPY", ".npy"), (b"PK", ".npz"), (b"PAR1", ".parquet")):
        if start.startswith(signature):
            return ending
    first = records[0] if records else b""
    if first.startswith((b"{", b"[")):
        try:
            json.loads(first)
        except (ValueError, RecursionError):
            return ".json"
        return ".jsonl" if len(records) > 1 else ".json"
    text = first.decode(errors="replace")
    if len(text) < _LONGEST_NUMBER and not isinstance(number_of(text), str):
        return ".txt"
    return ".tsv" if "\t" in text else ".csv"


def _read(stream: IO[bytes], form: Format, columns: Columns) -> Rollout:
    """Read and check every row."""
    lengths, rollout_ids = array("q"), array("q")
    numbers: dict[object, int] = {}
    for position, value, rollout in form.read(stream, columns):
        length = _length(value)
        if length is None:
            expected = f"a whole number of tokens from 0 to {LARGEST_LENGTH}"
            raise ValueError(f"{form.unit} {position}: expected {expected}, found {quoted(value)}")
        if len(lengths) == MOST_VALUES:
            raise ValueError(f"expected at most {MOST_VALUES} lengths, found more")
        lengths.append(length)
        if columns.rollout_ids is not None:
            if type(rollout) not in (int, str) or rollout == "":
                expected = "a rollout id, number or text"
                raise ValueError(f"{form.unit} {position}: expected {expected}, found {quoted(rollout)}")
            rollout_ids.append(numbers.setdefault(rollout, len(numbers)))
    if not lengths:
        raise ValueError("expected at least one length, found none")
    ids = None if columns.rollout_ids is None else np.array(rollout_ids, np.int64)
    return Rollout(np.array(lengths, np.int64), ids)


def _length(value: object) -> int | None:
    """Return the tokens of one sample; None if `value` is neither their number nor a list of them."""
    if type(value) is list:
        return len(value) if set(map(type, value)) <= {int, str} else None
    if type(value) is float:
        value = Decimal(value)
    if not (type(value) is int or (type(value) is Decimal and value.is_finite())):
        return None
    # The range comes first: a text of a few characters spells numbers of a billion digits.
    return int(value) if 0 <= value <= LARGEST_LENGTH and value == int(value) else None
