"""Instruction counts of five fixed workloads against the recorded ones: a gate that no busy machine disturbs.

`make bench-check` checks, with 3 % of slack; `make bench-record` counts anew. The counts belong to one compiler on
one processor type, so with another there is nothing to compare, and the check says so.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".json")
WORKLOADS = ["equal-64", "unequal-64", "unequal-3000", "first-fit", "plan"]
SLACK = 0.03


def run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout + done.stderr


def compiler() -> str:
    return f"{run('rustc', '--version').strip()} on {platform.machine()}"


def count(workload: str) -> int:
    binary = str(ROOT / "target" / "release" / "examples" / "workloads")
    report = run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary, workload)
    found = re.search(r"Collected : (\d+)", report)
    if not found:
        raise SystemExit(f"callgrind counted nothing:\n{report}")
    return int(found[1])


def main() -> None:
    record = sys.argv[1:] == ["--record"]
    if not shutil.which("valgrind"):
        print("instruction counts: not checked, valgrind is not installed (apt-get install valgrind)")
        return
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    if not record and known["compiler"] != compiler():
        print(f"instruction counts: not checked, they were recorded with {known['compiler']}, this is {compiler()}")
        return
    run("cargo", "build", "--quiet", "--release", "--locked", "--package", "flopbalance-core", "--example", "workloads")
    counts = {workload: count(workload) for workload in WORKLOADS}
    more = []
    for workload, instructions in counts.items():
        change = instructions / known["instructions"][workload] - 1 if known else 0.0
        print(f"{workload:14} {instructions:>12,} instructions {change:+8.2%}")
        if change > SLACK:
            more.append(workload)
    if record:
        FILE.write_text(json.dumps({"compiler": compiler(), "instructions": counts}, indent=2) + "\n")
    elif more:
        raise SystemExit(f"more than {SLACK:.0%} above the record: {', '.join(more)}; if meant, make bench-record")


if __name__ == "__main__":
    main()
