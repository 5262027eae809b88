"""Tables on the terminal, and the same numbers in a dated file of `bench/record/`."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "record"


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table in Markdown; every row has the same keys."""
    cells = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    for row in cells:
        print("|", " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)), "|")


def write(name: str, rows: list[dict[str, Any]]) -> None:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{datetime.date.today()}-{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"\nwritten to {path.relative_to(FOLDER.parents[1])}\n")


def seconds(value: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"
