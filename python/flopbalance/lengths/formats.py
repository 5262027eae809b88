"""A reader for each kind of file: from a byte stream to rows of line number or index, length and rollout id.

The rows are unchecked; what counts as a length is decided once for all, by who reads them.
"""

import csv
import functools
import importlib
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import IO, Any, NamedTuple

import numpy as np

from flopbalance.documents import long_cells, parse_json, read_json_lines, reading
from flopbalance.lengths.columns import Columns, listed, shown

_EXACT = json.JSONDecoder(parse_float=Decimal, parse_constant=Decimal)

Row = tuple[int, object, object]


def number_of(text: str) -> int | Decimal | str:
    """Return the number that `text` spells, exactly; the bare text if it spells none."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and len(text) < 20:
        return int(text)
    try:
        return Decimal(text) if text.isascii() and "_" not in text else text
    except InvalidOperation:
        return text


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(stream, 1):
        try:
            yield number, line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            found = f"byte 0x{error.object[error.start]:02x}"
            raise ValueError(f"line {number}: expected UTF-8 text, found {found}") from None


def _read_text(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    columns.refuse()
    for number, line in _lines(stream):
        if line.strip():
            yield number, number_of(line), None


def _read_table(stream: IO[bytes], columns: Columns, delimiter: str = ",") -> Iterator[Row]:
    rows = csv.reader((line for _, line in _lines(stream)), delimiter=delimiter, strict=True)
    with long_cells():
        try:
            first = next((cells for cells in rows if cells), [])
            names = [cell.strip() for cell in first]
            unread: Iterable[list[str]] = rows
            if first and not any(isinstance(number_of(name), str) for name in names):
                names = [str(position) for position in range(1, len(first) + 1)]
                unread = itertools.chain([first], rows)
            length, rollout = columns.among(names) if first else ("", None)
            for cells in filter(None, unread):
                if len(cells) != len(names):
                    raise ValueError(f"line {rows.line_num}: expected {len(names)} columns, found {len(cells)}")
                record = dict(zip(names, cells, strict=True))
                yield rows.line_num, number_of(record[length]), None if rollout is None else record[rollout].strip()
        except csv.Error as error:
            raise ValueError(f"line {rows.line_num}: expected a row of a table, found a fault: {error}") from None


def _read_json_lines(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    return _fields(read_json_lines(_lines(stream), _EXACT), columns, "line")


def _read_json(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    document = parse_json("".join(line for _, line in _lines(stream)), decoder=_EXACT)
    if isinstance(document, dict):
        yield from _columnar(columns.among(document), document.__getitem__)
    elif isinstance(document, list):
        yield from _fields(enumerate(document), columns, "index")
    else:
        raise ValueError(f"expected a list, or an object of lists, found {shown(document)}")


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
                expected = "a length" if names is None else f"an object with a field {shown(names[0])}"
                raise ValueError(f"expected {expected}, as in the first record, found {shown(record)}")
            for name in names or ():
                if name is not None and name not in record:
                    raise ValueError(f"expected a field {shown(name)}, as in the first record, found {listed(record)}")
        except ValueError as error:
            raise ValueError(f"{unit} {position}: {error}") from None
        first = False
        if names is None:
            yield position, record, None
        else:
            yield position, record[names[0]], None if names[1] is None else record[names[1]]


def _read_array(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    columns.refuse()
    with reading("a .npy file of plain numbers"):
        array = np.lib.format.read_array(stream, allow_pickle=False)
    for index, value in enumerate(_flat(array)):
        yield index, value, None


def _read_archive(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    with reading("an .npz file"):
        archive = np.lib.npyio.NpzFile(stream, allow_pickle=False)

    def load(name: str) -> list[object]:
        with reading(f"plain numbers in {shown(name)}"):
            array = np.asarray(archive[name])
        return _flat(array)

    with archive:
        yield from _columnar(columns.among(archive.files), load)


def _read_parquet(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    try:
        arrow: Any = importlib.import_module("pyarrow")
        compute: Any = importlib.import_module("pyarrow.compute")
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ValueError("expected pyarrow to read .parquet, found none: pip install 'flopbalance[parquet]'") from None
    with reading("a Parquet file"):
        file = parquet.ParquetFile(stream)

    def load(name: str) -> list[object]:
        with reading(f"a whole Parquet column {shown(name)}"):
            column = file.read(columns=[name])[name]
            if arrow.types.is_list(column.type) and arrow.types.is_integer(column.type.value_type):
                column = compute.list_value_length(column)
            return list(column.to_pylist())

    yield from _columnar(columns.among(file.schema_arrow.names), load)


def _flat(array: np.ndarray[Any, Any]) -> list[object]:
    if array.ndim != 1:
        raise ValueError(f"expected an array of one dimension, found shape {array.shape}")
    return list(array.tolist())


def _columnar(names: tuple[str, str | None], load: Callable[[str], object]) -> Iterator[Row]:
    """Return the rows of a file that stores columns."""
    columns = []
    for name in (name for name in names if name is not None):
        values = load(name)
        if not isinstance(values, list):
            raise ValueError(f"expected a list in {shown(name)}, found {shown(values)}")
        columns.append(values)
    lengths, rollout_ids = columns if len(columns) == 2 else (*columns, [None] * len(columns[0]))
    if len(lengths) != len(rollout_ids):
        raise ValueError(f"expected as many rollout ids as lengths, found {len(rollout_ids)} for {len(lengths)}")
    for index, (length, rollout) in enumerate(zip(lengths, rollout_ids, strict=True)):
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
