"""Digests of the reference's answers to every row, so that a benchmark need not wait for plain Python.

`make bench-answers` computes the missing ones, in some minutes, into `answers.json`; a digest of the input goes with
each, since another version of NumPy may draw other numbers.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from families import ALL, Weights
from works import Work, lists, rows

FILE = Path(__file__).with_suffix(".json")
KNOWN: dict[str, list[str]] = json.loads(FILE.read_text()) if FILE.exists() else {}


def key(work: Work, family: str, n: int) -> str:
    return f"{work.name}; {family}; {n}"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def pair(weights: Weights, answer: Any) -> list[str]:
    return [digest(weights.tobytes()), digest(json.dumps(lists(answer), separators=(",", ":")).encode())]


def verdict(work: Work, family: str, weights: Weights, answer: Any) -> str:
    """Say whether the answer is the reference's."""
    if work.reference is None:
        return "within the cap" if work.is_within_cap(weights, answer) else "another"
    known = KNOWN.get(key(work, family, len(weights)))
    got = pair(weights, answer)
    if known is None or known[0] != got[0]:
        return "not checked"
    return "right" if known == got else "another"


def main() -> None:
    for work, family, n in rows():
        if family not in ALL or work.reference is None:
            continue
        weights = ALL[family](n)
        name = key(work, family, len(weights))
        if name not in KNOWN or KNOWN[name][0] != digest(weights.tobytes()):
            print(name, flush=True)
            KNOWN[name] = pair(weights, work.reference(weights.tolist()))
            FILE.write_text(json.dumps(KNOWN, indent=0) + "\n")


if __name__ == "__main__":
    main()
