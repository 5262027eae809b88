"""The table of a benchmark run, from the file that pytest-benchmark wrote; a part of `make bench`.

Ratios are medians over that of `numpy.argsort(kind="stable")` on the same weights in the same process.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from families import REAL
from record import seconds, show, write
from works import HEADLINE


def flat(entry: dict[str, Any]) -> dict[str, Any]:
    info, median = entry["extra_info"], entry["stats"]["median"]
    ratio = median / info["sort"]
    return {
        "work": entry["group"],
        "who": info["who"],
        "input": info["input"],
        "samples": info["samples"],
        "median_seconds": median,
        "ratio": ratio,
        "floor": info.get("floor"),
        "aim": info.get("aim"),
        "limit_seconds": info.get("limit"),
        "imbalance_percent": info.get("imbalance"),
        "answer": info["answer"],
    }


def words(row: dict[str, Any]) -> dict[str, str]:
    goals = [f"{row['floor']:g}" if row["floor"] else "", f"{row['aim']:g}" if row["aim"] else ""]
    imbalance = row["imbalance_percent"]
    return {
        "work": row["work"],
        "who": row["who"],
        "input": row["input"],
        "samples": f"{row['samples']:,}",
        "median": seconds(row["median_seconds"]),
        "ratio": f"{row['ratio']:.2f}",
        "floor": goals[0],
        "aim": goals[1],
        "limit": seconds(row["limit_seconds"]) if row["limit_seconds"] else "",
        "met": met(row),
        "imbalance": "" if imbalance is None else f"{imbalance:.3g} %",
        "answer": row["answer"],
    }


def met(row: dict[str, Any]) -> str:
    if row["limit_seconds"] and row["median_seconds"] > row["limit_seconds"]:
        return "NO"
    if row["floor"] and row["ratio"] > row["floor"]:
        return "NO"
    if row["aim"]:
        return "aim" if row["ratio"] <= row["aim"] else "floor"
    return "limit" if row["limit_seconds"] else ""


def main() -> None:
    rows = [flat(entry) for entry in json.loads(Path(sys.argv[1]).read_text())["benchmarks"]]
    goals = [row for row in rows if row["floor"] or row["aim"] or row["limit_seconds"]]
    others = sorted((row for row in rows if row not in goals), key=lambda row: (row["work"], row["samples"]))
    for title, part in (("Goals", goals), ("Families and rivals", others)):
        print(f"\n{title}\n")
        show(
            [words(row) for row in sorted(part, key=lambda row: row["work"]) if part is others]
            or list(map(words, part))
        )
    if not REAL:
        print(f"\nskipped, since ../shared/traces is not here: {len(HEADLINE)} works on real traces")
    ours = [row["answer"] for row in rows if row["who"] == "flopbalance" and row["answer"] != "within the cap"]
    print(f"\n{ours.count('right')} of flopbalance's {len(ours)} answers equal the reference's")
    write("speed", rows)


if __name__ == "__main__":
    main()
