"""Instruction counts of fixed workloads against the recorded ones: a gate that no busy machine disturbs.

`make bench-check` checks, with 3 % of slack; `make bench-record` counts anew. The counts belong to one compiler on
one processor type. A gate that cannot run fails: without valgrind, or where the counts were recorded with another
compiler. Where that is no fault (macOS has no valgrind), SKIP_BENCH_CHECK=1 says so, and the check prints that it did
not run.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_suffix(".json")
WORKLOADS = [
    "equal-64",
    "unequal-64",
    "unequal-3000",
    "first-fit",
    "plan",
    "capped-step",
    "capped-micro-batch",
    "capped-pipeline",
]
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
    if not record and os.environ.get("SKIP_BENCH_CHECK"):
        print("instruction counts: NOT CHECKED, SKIP_BENCH_CHECK is set")
        return
    if not shutil.which("valgrind"):
        raise SystemExit("instruction counts: valgrind is missing; apt-get install valgrind, or set SKIP_BENCH_CHECK=1")
    known = json.loads(FILE.read_text()) if FILE.exists() else {"compiler": "nothing", "instructions": {}}
    if not record and known["compiler"] != compiler():
        raise SystemExit(
            f"instruction counts: recorded with {known['compiler']}, this is {compiler()}; make bench-record where "
            "that is the new compiler of rust-toolchain.toml, or set SKIP_BENCH_CHECK=1"
        )
    if not record and set(known["instructions"]) != set(WORKLOADS):
        raise SystemExit("instruction counts: the record is of other workloads; make bench-record")
    run("cargo", "build", "--quiet", "--release", "--locked", "--package", "flopbalance-core", "--example", "workloads")
    counts = {workload: count(workload) for workload in WORKLOADS}
    more = []
    for workload, instructions in counts.items():
        change = instructions / known["instructions"].get(workload, instructions) - 1
        print(f"{workload:18} {instructions:>12,} instructions {change:+8.2%}")
        if change > SLACK:
            more.append(workload)
    if record:
        FILE.write_text(json.dumps({"compiler": compiler(), "instructions": counts}, indent=2) + "\n")
    elif more:
        raise SystemExit(f"more than {SLACK:.0%} above the record: {', '.join(more)}; if meant, make bench-record")


if __name__ == "__main__":
    main()
