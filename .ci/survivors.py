"""Prints the mutants that no test has caught, and fails where one has no reason in the file of known ones.

`survivors.py build/mutants.out rust/core/mutants.md`; a known one is a line "- `file: mutation` — reason", as often as
it may turn up: lines move, so their numbers are not compared. Mutants that never end count as caught.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path


def main() -> None:
    """Print the survivors; exit with those that have no reason."""
    out, known_file = map(Path, sys.argv[1:])
    survivors = (out / "missed.txt").read_text().splitlines()
    known = Counter(re.findall(r"^- `(.+?)` — ", known_file.read_text(), flags=re.MULTILINE))
    new = []
    for survivor in survivors:
        name = re.sub(r":\d+:\d+:", ":", survivor, count=1)
        known[name] -= 1
        if known[name] < 0:
            new.append(survivor)
    counts = {kind: len((out / f"{kind}.txt").read_text().splitlines()) for kind in ("caught", "timeout", "missed")}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    print(*survivors, sep="\n")
    if new:
        raise SystemExit("without a reason in {}:\n{}".format(known_file, "\n".join(new)))


if __name__ == "__main__":
    main()
