"""Fuzz until the time is up: ``make fuzz SECONDS=600 SEED=7``, or one call again with ``CALL=1234``."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from flopbalance.text import counted
from fuzz.builds import Build, Builds, Verdict
from fuzz.lines import line
from fuzz.shrink import shrink

BATCH = 64
MOST_FAILURES = 25
"""Of different kinds, after which there is enough to mend."""


def fuzz(builds: Builds, seed: int, seconds: float, first: int = 0, most: int = MOST_FAILURES) -> tuple[int, list[str]]:
    """Return the number of calls, and of each kind of failure its smallest call; report both on the way."""
    until, start = time.monotonic() + seconds, first
    ends: Counter[str] = Counter()
    failures: dict[str, str] = {}
    while time.monotonic() < until and len(failures) < most:
        lines = [line(seed, number) for number in range(start, start + BATCH)]
        for number, (text, verdict) in enumerate(zip(lines, builds.ask(lines), strict=True), start):
            ends[next(iter(verdict))] += 1
            kind = verdict.get("failure")
            if kind is not None and kind not in failures and len(failures) < most:
                failures[kind] = report(builds, seed, number, text, verdict)
        start += BATCH
    print(
        f"seed {seed}: {start - first:,} calls, {ends['answer']:,} answered, {ends['refusal']:,} refused, "
        f"{ends['moot']:,} with arguments that cannot be made; {counted(len(failures), 'kind')} of failure"
    )
    return start - first, list(failures.values())


def report(builds: Builds, seed: int, number: int, text: str, verdict: Verdict) -> str:
    """Make a failing call small and print it; return it."""
    messages = {text: verdict["text"]}

    def fails(other: str) -> bool:
        (ended,) = builds.ask([other])
        if ended.get("failure") == verdict["failure"]:
            messages[other] = ended["text"]
        return other in messages

    smallest = shrink(text, fails)
    print(f"\ncall {number} of seed {seed} fails: {verdict['failure']}")
    print(f"  {messages[smallest]}")
    print(f"  PYTHONPATH=tests python -i -c 'from fuzz.words import *'\n  >>> {smallest}\n", flush=True)
    return smallest


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="default: the time")
    parser.add_argument("--call", type=int, help="one call of a seed, again")
    parser.add_argument("--checked", type=Path, metavar="FOLDER", help="a build with overflow checks, beside this one")
    options = parser.parse_args()
    seed = int(time.time()) if options.seed is None else options.seed
    builds = Builds(Build(), *([Build(options.checked, with_laws=False)] if options.checked else []))
    try:
        if options.call is not None:
            text = line(seed, options.call)
            (verdict,) = builds.ask([text])
            print(f"{text}\n{verdict}")
            return int("failure" in verdict)
        print(f"seed {seed}", flush=True)
        _, failures = fuzz(builds, seed, options.seconds)
    finally:
        builds.close()
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
