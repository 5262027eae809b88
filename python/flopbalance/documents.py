"""JSON objects from files, with mistakes told in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a file holds.

    Raises
    ------
    ValueError
        There is no such file, or it holds no JSON object; the message begins with its name.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            values = json.load(file)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: must hold a JSON object, got {type(values).__name__}")
    return values
