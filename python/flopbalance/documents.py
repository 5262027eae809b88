"""What files of text have in common, whoever reads them: lines, tables, JSON.

A mistake is one line, and no file takes more memory than a few times the limits here: an endless line or a small file
that unpacks to a huge one is refused as soon as it passes them.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from flopbalance.text import printable, quoted

LONGEST_LINE = 2**26
"""Bytes of a line, and of a row of a table."""

MOST_LINES = 2**31

LARGEST_DOCUMENT = 2**28
"""Bytes of a file that has to be held as a whole."""


def read_lines(stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    r"""Yield the number and the text of each line.

    Examples
    --------
    >>> import io
    >>> list(read_lines(io.BytesIO(b"812\n77")))
    [(1, '812\n'), (2, '77')]
    """
    lines = iter(functools.partial(stream.readline, LONGEST_LINE + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"line {number}: expected a line of at most {LONGEST_LINE} bytes, found a longer one")
        if number > MOST_LINES:
            raise ValueError(f"expected at most {MOST_LINES} lines, found more")
        yield number, _decoded(line, number)


def read_whole(stream: IO[bytes]) -> bytes:
    """Return all bytes of a stream."""
    content = stream.read(LARGEST_DOCUMENT + 1)
    if len(content) > LARGEST_DOCUMENT:
        raise ValueError(f"expected a file of at most {LARGEST_DOCUMENT} bytes, found a larger one")
    return content


def read_rows(lines: Iterable[tuple[int, str]], delimiter: str = ",") -> Iterator[tuple[int, list[str]]]:
    r"""Yield the cells of each row of a table that is not empty, and the number of its last line.

    Examples
    --------
    >>> list(read_rows([(1, "length,text\n"), (2, '5,"two\n'), (3, 'lines"\n')]))
    [(1, ['length', 'text']), (3, ['5', 'two\nlines'])]
    """
    import csv  # only who reads tables waits for it

    size = 0

    def texts() -> Iterator[str]:
        nonlocal size
        for number, line in lines:
            size += len(line)
            if size > LONGEST_LINE:  # cells in quotes may hold many lines
                raise ValueError(
                    f"line {number}: expected a row of at most {LONGEST_LINE} characters, found a longer one"
                )
            yield line

    rows = csv.reader(texts(), delimiter=delimiter, strict=True)
    usual_limit = csv.field_size_limit(LONGEST_LINE)  # cells are as long as answers or lists of lengths are
    try:
        for cells in rows:
            size = 0
            if cells:
                yield rows.line_num, cells
    except csv.Error as error:
        raise ValueError(f"line {rows.line_num}: expected a row of a table, found a fault: {error}") from None
    finally:
        csv.field_size_limit(usual_limit)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds.

    Raises
    ------
    ValueError
        There is no such file, or it holds no JSON object; the message begins with its name.
    """
    name = printable(str(path))
    try:
        with open(path, "rb") as stream:
            values = read_json_document(stream)
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{name}: must hold a JSON object, got {type(values).__name__}")
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, no name of which has two values."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"more than one value of {quoted(twice)}")
    return values


json_decoder = functools.partial(json.JSONDecoder, object_pairs_hook=_unique)

_PLAIN = json_decoder()


def read_json_document(stream: IO[bytes], decoder: json.JSONDecoder = _PLAIN) -> Any:
    """Return the value that a stream holds as a whole."""
    return parse_json(_decoded(read_whole(stream)), decoder=decoder)


def read_json_lines(lines: Iterable[tuple[int, str]], decoder: json.JSONDecoder = _PLAIN) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line that is not empty.

    Examples
    --------
    >>> list(read_json_lines(enumerate(["[1, 2]", "", "3"], start=1)))
    [(1, [1, 2]), (3, 3)]
    """
    for number, line in lines:
        if line.strip():
            yield number, parse_json(line.rstrip(), number, decoder)


def parse_json(text: str, first_line: int = 1, decoder: json.JSONDecoder = _PLAIN) -> Any:
    """Return the value that a text spells.

    Examples
    --------
    >>> parse_json('{"n": 5')
    Traceback (most recent call last):
    ValueError: line 1, column 8: expected JSON, found the end (Expecting ',' delimiter)
    """
    try:
        return decoder.decode(text)
    except json.JSONDecodeError as error:
        position = f"line {first_line + error.lineno - 1}, column {error.colno}"
        rest = text[error.pos :].strip()
        found = quoted(text[error.pos : error.pos + 20].strip()) if rest else "the end"
        raise ValueError(f"{position}: expected JSON, found {found} ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {first_line}: expected JSON of a usual depth and size, found {error}") from None


def _decoded(data: bytes, line: int = 1) -> str:
    """Return UTF-8 text that begins in a line, the first of which may have a byte order mark."""
    try:
        return data.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        line += error.object.count(b"\n", 0, error.start)
        raise ValueError(f"line {line}: expected UTF-8 text, found byte 0x{error.object[error.start]:02x}") from None
