"""Sample lengths from the kinds of files that people have.

Each reader turns a byte stream into rows of line number or index, length and rollout id, all still unchecked. What
counts as a length, which column is meant and how a mistake is told is decided once, for all of them.
"""

import contextlib
import csv
import functools
import gzip
import importlib
import io
import itertools
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from flopbalance.lengths.synthetic import Rollout

USUAL_NAMES = ("length", "lengths")
LARGEST_LENGTH = 2**63 - 1
JSON = json.JSONDecoder(parse_float=Decimal, parse_constant=Decimal)

Row = tuple[int, object, object]


def read_lengths(path: str | os.PathLike[str], column: str | None = None, rollout_column: str | None = None) -> Rollout:
    r"""Read sample lengths, and rollout ids if wanted, from a file.

    ============  ==============================================================================
    ending        content
    ============  ==============================================================================
    .txt          a whole number on each line
    .csv, .tsv    a column of whole numbers; without a header row, columns are named 1, 2, ...
    .jsonl        on each line a number, a list of tokens (which are counted), or an object with
                  a field of either kind
    .json         a list of the same, or an object of such lists
    .npy          an array of one dimension
    .npz          arrays of one dimension, by name
    .parquet      a column of numbers or of lists of tokens; needs the extra ``[parquet]``
    ============  ==============================================================================

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
        found, and where. Nothing is ever skipped, rounded or unpickled.
    OSError
        The file cannot be opened or read.

    Notes
    -----
    Time is linear in the size of the file: a million lines take seconds.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "rollout.csv")
    >>> _ = file.write_text("prompt,tokens\nwhy,812\nwhy,4095\nhow,77\n")
    >>> lengths, rollout_ids = read_lengths(file, column="tokens", rollout_column="prompt")
    >>> lengths.tolist(), rollout_ids.tolist()
    ([812, 4095, 77], [0, 0, 1])
    """
    name = "standard input" if path == "-" else os.fspath(path)
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
        else:
            content = stream.read()
            if content.startswith(b"\x1f\x8b"):
                content = gzip.decompress(content)
            yield io.BytesIO(content), _recognise(content)


def _recognise(content: bytes) -> str:
    """Return the ending of the format that these bytes have."""
    for signature, ending in ((b"\x93NUMPY", ".npy"), (b"PK", ".npz"), (b"PAR1", ".parquet")):
        if content.startswith(signature):
            return ending
    first_line, _, rest = content.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
    if first_line.startswith((b"{", b"[")):
        try:
            json.loads(first_line)
        except (ValueError, RecursionError):
            return ".json"
        return ".jsonl" if rest.strip() else ".json"
    text = first_line.decode(errors="replace")
    if not isinstance(_number(text), str):
        return ".txt"
    return ".tsv" if "\t" in text else ".csv"


@dataclass(frozen=True)
class Columns:
    """The columns that the caller asked for."""

    lengths: str | None
    rollout_ids: str | None

    def among(self, names: Iterable[str]) -> tuple[str, str | None]:
        """Return the names of the lengths and of the rollout ids."""
        names = list(names)
        for wanted in (self.lengths, self.rollout_ids):
            if wanted is not None and names.count(wanted) != 1:
                raise ValueError(f"expected one column {_shown(wanted)}, found {_listed(names)}")
        if self.lengths is not None:
            return self.lengths, self.rollout_ids
        usual = [name for name in names if name != self.rollout_ids]
        if len(usual) > 1:
            usual = [name for name in usual if name in USUAL_NAMES]
        if len(usual) != 1:
            raise ValueError(f'expected one column, one called "length", or the name of one, found {_listed(names)}')
        return usual[0], self.rollout_ids

    def refuse(self) -> None:
        """Refuse a choice of columns where there are none."""
        if self.lengths is not None or self.rollout_ids is not None:
            wanted = self.rollout_ids if self.lengths is None else self.lengths
            raise ValueError(f"expected a column {_shown(wanted)}, found lengths without columns")


def _read(stream: IO[bytes], form: "Format", columns: Columns) -> Rollout:
    """Read and check every row."""
    lengths: list[int] = []
    rollout_ids: list[int] = []
    numbers: dict[object, int] = {}
    for position, value, rollout in form.read(stream, columns):
        length = _length(value)
        if length is None:
            expected = f"a whole number of tokens from 0 to {LARGEST_LENGTH}"
            raise ValueError(f"{form.place} {position}: expected {expected}, found {_shown(value)}")
        lengths.append(length)
        if columns.rollout_ids is not None:
            if type(rollout) not in (int, str) or rollout == "":
                expected = "a rollout id, number or text"
                raise ValueError(f"{form.place} {position}: expected {expected}, found {_shown(rollout)}")
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


def _number(text: str) -> int | Decimal | str:
    """Return the number that `text` spells, exactly; the bare text if it spells none."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and len(text) < 20:
        return int(text)
    try:
        return Decimal(text) if text.isascii() and "_" not in text else text
    except InvalidOperation:
        return text


def _shown(value: object) -> str:
    """Return `value` as a message shows it: short, and on one line."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(_shown, names)) or "none"


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
            yield number, _number(line), None


def _read_table(stream: IO[bytes], columns: Columns, delimiter: str = ",") -> Iterator[Row]:
    rows = csv.reader((line for _, line in _lines(stream)), delimiter=delimiter, strict=True)
    # Tables often hold the answers themselves, which are longer than the module allows by default.
    usual_limit = csv.field_size_limit(2**31 - 1)
    try:
        first = next((cells for cells in rows if cells), [])
        names = [cell.strip() for cell in first]
        unread: Iterable[list[str]] = rows
        if first and not any(isinstance(_number(name), str) for name in names):
            names = [str(position) for position in range(1, len(first) + 1)]
            unread = itertools.chain([first], rows)
        length, rollout = columns.among(names) if first else ("", None)
        for cells in filter(None, unread):
            if len(cells) != len(names):
                raise ValueError(f"line {rows.line_num}: expected {len(names)} columns, found {len(cells)}")
            record = dict(zip(names, cells, strict=True))
            yield rows.line_num, _number(record[length]), None if rollout is None else record[rollout].strip()
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: expected a row of a table, found a fault: {error}") from None
    finally:
        csv.field_size_limit(usual_limit)


def _read_json_lines(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    records = ((number, _parse_json(line.rstrip(), number)) for number, line in _lines(stream) if line.strip())
    return _fields(records, columns, "line")


def _read_json(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    document = _parse_json("".join(line for _, line in _lines(stream)), 1)
    if isinstance(document, dict):
        yield from _columnar(columns.among(document), document.__getitem__)
    elif isinstance(document, list):
        yield from _fields(enumerate(document), columns, "index")
    else:
        raise ValueError(f"expected a list, or an object of lists, found {_shown(document)}")


def _parse_json(text: str, first_line: int) -> Any:
    try:
        return JSON.decode(text)
    except json.JSONDecodeError as error:
        place = f"line {first_line + error.lineno - 1}, column {error.colno}"
        found = _shown(text[error.pos : error.pos + 20].strip()) if text[error.pos :].strip() else "the end"
        raise ValueError(f"{place}: expected JSON, found {found} ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {first_line}: expected JSON of a usual depth and size, found {error}") from None


def _fields(records: Iterable[tuple[int, Any]], columns: Columns, place: str) -> Iterator[Row]:
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
                expected = "a length" if names is None else f"an object with a field {_shown(names[0])}"
                raise ValueError(f"expected {expected}, as in the first record, found {_shown(record)}")
            for name in names or ():
                if name is not None and name not in record:
                    raise ValueError(
                        f"expected a field {_shown(name)}, as in the first record, found {_listed(record)}"
                    )
        except ValueError as error:
            raise ValueError(f"{place} {position}: {error}") from None
        first = False
        if names is None:
            yield position, record, None
        else:
            yield position, record[names[0]], None if names[1] is None else record[names[1]]


def _read_array(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    columns.refuse()
    with _parsing("a .npy file of plain numbers"):
        array = np.lib.format.read_array(stream, allow_pickle=False)
    for index, value in enumerate(_flat(array)):
        yield index, value, None


def _read_archive(stream: IO[bytes], columns: Columns) -> Iterator[Row]:
    with _parsing("an .npz file"):
        archive = np.lib.npyio.NpzFile(stream, allow_pickle=False)

    def load(name: str) -> list[object]:
        with _parsing(f"plain numbers in {_shown(name)}"):
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
    with _parsing("a Parquet file"):
        file = parquet.ParquetFile(stream)

    def load(name: str) -> list[object]:
        with _parsing(f"a whole Parquet column {_shown(name)}"):
            column = file.read(columns=[name])[name]
            if arrow.types.is_list(column.type) and arrow.types.is_integer(column.type.value_type):
                column = compute.list_value_length(column)
            return list(column.to_pylist())

    yield from _columnar(columns.among(file.schema_arrow.names), load)


@contextlib.contextmanager
def _parsing(expected: str) -> Iterator[None]:
    """Turn whatever a damaged binary file makes its parser raise into one line."""
    try:
        yield
    except Exception as error:
        # NumPy's words are about allowing pickles, which may run anything.
        fault = "Python objects" if "pickle" in str(error) else f"a fault: {' '.join(str(error).split())}"
        raise ValueError(f"expected {expected}, found {fault}") from None


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
            raise ValueError(f"expected a list in {_shown(name)}, found {_shown(values)}")
        columns.append(values)
    lengths, rollout_ids = columns if len(columns) == 2 else (*columns, [None] * len(columns[0]))
    if len(lengths) != len(rollout_ids):
        raise ValueError(f"expected as many rollout ids as lengths, found {len(rollout_ids)} for {len(lengths)}")
    for index, (length, rollout) in enumerate(zip(lengths, rollout_ids, strict=True)):
        yield index, length, rollout


class Format(NamedTuple):
    """How to read files of one ending, and what their positions are called."""

    place: str
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
