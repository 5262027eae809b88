"""What files of several kinds share: JSON, tables with long cells, damaged binary files; a mistake is one line."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_PLAIN = json.JSONDecoder()


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds.

    Raises
    ------
    ValueError
        There is no such file, or it holds no JSON object; the message begins with its name.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected UTF-8 text, found {error}") from None
    values = parse_json(text, name=f"{path}: ")
    if not isinstance(values, dict):
        raise ValueError(f"{path}: must hold a JSON object, got {type(values).__name__}")
    return values


def read_json_lines(
    lines: Iterable[tuple[int, str]], decoder: json.JSONDecoder = _PLAIN, name: str = ""
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the value of each line that is not empty; `name` begins messages.

    Examples
    --------
    >>> list(read_json_lines(enumerate(["[1, 2]", "", "3"], start=1)))
    [(1, [1, 2]), (3, 3)]
    """
    for number, line in lines:
        if line.strip():
            yield number, parse_json(line.rstrip(), number, decoder, name)


def parse_json(text: str, first_line: int = 1, decoder: json.JSONDecoder = _PLAIN, name: str = "") -> Any:
    """Return the value that a text spells; `name` begins messages.

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
        found = json.dumps(text[error.pos : error.pos + 20].strip(), ensure_ascii=False) if rest else "the end"
        raise ValueError(f"{name}{position}: expected JSON, found {found} ({error.msg})") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}line {first_line}: expected JSON of a usual depth and size, found {error}") from None


@contextlib.contextmanager
def long_cells() -> Iterator[None]:
    """Let tables have cells as long as answers or lists of lengths are; the module allows less by default."""
    import csv  # only who reads tables waits for it

    usual_limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(usual_limit)


@contextlib.contextmanager
def reading(expected: str) -> Iterator[None]:
    """Turn whatever a damaged binary file makes its parser raise into one line."""
    try:
        yield
    except Exception as error:
        # NumPy's words are about allowing pickles, which may run anything.
        fault = "Python objects" if "pickle" in str(error) else f"a fault: {' '.join(str(error).split())}"
        raise ValueError(f"expected {expected}, found {fault}") from None
