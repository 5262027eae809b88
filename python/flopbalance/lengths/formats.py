"""A reader for each kind of file: from a byte stream to rows of line number or index, length and rollout id.

The rows are unchecked; what counts as a length is decided once for all, by who reads them.
"""

import contextlib
import functools
import gzip
import importlib
import io
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NamedTuple

import numpy as np

from flopbalance.arrays import Archive, read_array, reading
from flopbalance.documents import (
    json_decoder,
    read_json_document,
    read_json_lines,
    read_lines,
    read_rows,
    read_whole,
)
from flopbalance.lengths.columns import Columns, holds_token_ids
from flopbalance.text import listed, quoted


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of its own size
        raise ValueError(f"the number {quoted(text)}") from None


_EXACT = json_decoder(parse_float=_exact, parse_constant=Decimal)
_BLOCK = 2**16
_PARQUET_ROWS = 2**12

Row = tuple[int, object, object]
Column = tuple[int, Iterator[object]]
"""How many values, and the values."""


def number_of(text: str) -> int | Decimal | str:
    """Return the number that `text` spells, exactly; the bare text if it spells none."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and len(text) < 20:
        return int(text)
    try:
        return Decimal(text) if text.isascii() and "_" not in text else text
    except InvalidOperation:
        return text


def _read_text(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    columns.refuse()
    for number, line in read_lines(stream):
        if line.strip():
            yield number, number_of(line), None


def _read_table(stream: IO[bytes], columns: Columns, delimiter: str = ",") -> Iterator[Row]:
    rows = read_rows(read_lines(stream), delimiter)
    for line, first in itertools.islice(rows, 1):
        names = [cell.strip() for cell in first]
        if not any(isinstance(number_of(name), str) for name in names):
            names = [str(position) for position in range(1, len(first) + 1)]
            rows = itertools.chain([(line, first)], rows)
        length, rollout = columns.among(names)
        at, rollout_at = names.index(length), None if rollout is None else names.index(rollout)
    for line, cells in rows:
        if len(cells) != len(names):
            raise ValueError(f"line {line}: expected {len(names)} columns, found {len(cells)}")
        yield line, number_of(cells[at]), None if rollout_at is None else cells[rollout_at].strip()


def _read_json_lines(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    return _fields(read_json_lines(read_lines(stream), _EXACT), columns, "line")


def _read_json(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    document = read_json_document(stream, _EXACT)
    if isinstance(document, dict):
        yield from _columnar(columns.among(document), lambda name: _listed_in(document, name))
    elif isinstance(document, list):
        yield from _fields(enumerate(document), columns, "index")
    else:
        raise ValueError(f"expected a list, or an object of lists, found {quoted(document)}")


def _listed_in(document: dict[str, Any], name: str) -> Column:
    values = document[name]
    if not isinstance(values, list):
        raise ValueError(f"expected a list in {quoted(name)}, found {quoted(values)}")
    return len(values), iter(values)


def _fields(records: Iterable[tuple[int, Any]], columns: Columns, unit: str) -> Iterator[Row]:
    """Return lengths and rollout ids of JSON values: all are objects or none is, and the first chooses the fields."""
    names: tuple[str, str | None] | None = None
    first = True
    for position, record in records:
        try:
            if isinstance(record, dict) and first:
                names = columns.among(record)
            elif first:
                columns.refuse()
            if isinstance(record, dict) != (names is not None):
                expected = "a length" if names is None else f"an object with a field {quoted(names[0])}"
                raise ValueError(f"expected {expected}, as in the first record, found {quoted(record)}")
            for name in names or ():
                if name is not None and name not in record:
                    raise ValueError(f"expected a field {quoted(name)}, as in the first record, found {listed(record)}")
            first = False
            if names is None:
                rows: Iterable[tuple[object, object]] = [(record, None)]
            else:
                rows = _samples(names[0], record[names[0]], None if names[1] is None else record[names[1]])
        except ValueError as error:
            raise ValueError(f"{unit} {position}: {error}") from None
        for length, rollout in rows:
            yield position, length, rollout


def _samples(name: str, length: Any, rollout: Any) -> Iterable[tuple[object, object]]:
    """Return the lengths and rollout ids in a field and the one beside it: one of each, or as many as are listed."""
    if type(length) is not list or holds_token_ids(name):
        return [(length, rollout)]
    for value in length:
        if type(value) is list:
            raise ValueError(f"expected a list of numbers in {quoted(name)}, found {quoted(value)} in it")
    if rollout is None:
        return zip(length, itertools.repeat(None))
    if type(rollout) is not list or len(rollout) != len(length):
        found = f"{len(rollout)}" if type(rollout) is list else quoted(rollout)
        raise ValueError(f"expected as many rollout ids as lengths, found {found} for {len(length)}")
    return zip(length, rollout, strict=True)


def _read_array(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    columns.refuse()
    with reading("a .npy file of plain numbers"):
        array = read_array(stream)
    _, values = _flat(array)
    for index, value in enumerate(values):
        yield index, value, None


def _read_archive(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    archive = Archive(_seekable(stream))
    yield from _columnar(columns.among(archive.names), lambda name: _flat(archive.read(name)))


def _read_parquet(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    try:
        arrow: Any = importlib.import_module("pyarrow")
        compute: Any = importlib.import_module("pyarrow.compute")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ValueError("expected pyarrow to read .parquet, found none: pip install 'flopbalance[parquet]'") from None
    seekable = _seekable(stream)
    with reading("a Parquet file"):
        file = parquet.ParquetFile(seekable)
        names, count = file.schema_arrow.names, file.metadata.num_rows

    def values(name: str) -> Iterator[object]:
        kind = file.schema_arrow.field(name).type
        of_tokens = arrow.types.is_list(kind) and arrow.types.is_integer(kind.value_type) and holds_token_ids(name)
        with reading(f"a whole Parquet column {quoted(name)}"):
            for batch in file.iter_batches(_PARQUET_ROWS, columns=[name]):
                column = batch.column(0)
                if of_tokens:
                    column = compute.list_value_length(column)
                yield from column.to_pylist()

    yield from _columnar(columns.among(names), lambda name: (count, values(name)))


def _seekable(stream: IO[bytes]) -> IO[bytes]:
    """Return the stream of a regular file; of any other, which may be endless or slow to go backwards, a copy."""
    is_file = False
    if not isinstance(stream, gzip.GzipFile):
        with contextlib.suppress(OSError):  # what is in memory has no descriptor
            is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    return stream if is_file else io.BytesIO(read_whole(stream))


def _flat(array: np.ndarray[Any, Any]) -> Column:
    """Return values of an array; a block becomes Python objects at a time, which take several times its memory."""
    if array.ndim != 1:
        raise ValueError(f"expected an array of one dimension, found shape {array.shape}")
    blocks = (array[start : start + _BLOCK].tolist() for start in range(0, len(array), _BLOCK))
    return len(array), itertools.chain.from_iterable(blocks)


def _columnar(names: tuple[str, str | None], load: Callable[[str], Column]) -> Iterator[Row]:
    """Return the rows of a file that stores columns."""
    count, lengths = load(names[0])
    rollout_ids: Iterator[object] = itertools.repeat(None, count)
    if names[1] is not None:
        others, rollout_ids = load(names[1])
        if others != count:
            raise ValueError(f"expected as many rollout ids as lengths, found {others} for {count}")
    for index, (length, rollout) in enumerate(zip(lengths, rollout_ids, strict=True)):
        if type(length) is list:
            yield from ((index, *sample) for sample in _samples(names[0], length, rollout))
        else:
            yield index, length, rollout


class Format(NamedTuple):
    """How to read files of one ending, and in what unit positions in them are given."""

    unit: str
    read: Callable[[IO[bytes], Columns], Iterator[Row]]


FORMATS = {
    ".txt": Format("line", _read_text),
    ".csv": Format("line", _read_table),
    ".tsv": Format("line", functools.partial(_read_table, delimiter="\t")),
    ".jsonl": Format("line", _read_json_lines),
    ".json": Format("index", _read_json),
    ".npy": Format("index", _read_array),
    ".npz": Format("index", _read_archive),
    ".parquet": Format("index", _read_parquet),
}
