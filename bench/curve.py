"""Time and memory from a thousand to ten million samples; a part of `make bench`.

Every point runs in a process of its own. Times are the processor's, which other processes disturb least, and the
exponent is fitted to them from 10,000 samples on. Memory is the peak of the call above what the process held before,
input included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from families import log_normal
from flopbalance import plan
from memory import Peak
from record import seconds, show, write
from works import CAP, RANKS, first_fit, partition, refuse_debug_build

SIZES = [10**e for e in range(3, 8)]
CALLS: dict[str, Callable[[Any], Any]] = {
    "numpy.argsort, stable, to compare": lambda weights: (np.argsort(weights, kind="stable"),),
    "Karmarkar-Karp, equal, k = 8": lambda weights: partition(8, True).ours(weights),
    "Karmarkar-Karp, unequal, k = 8": lambda weights: partition(8, False).ours(weights),
    "Karmarkar-Karp, unequal, k = n / 4": lambda weights: partition(len(weights) // 4, False).ours(weights),
    "first fit": lambda weights: first_fit(CAP).ours(weights),
    "plan, first fit": lambda w: plan(w, dp_size=RANKS, max_tokens=CAP),
    "plan, within the cap": lambda w: plan(w, dp_size=RANKS, max_tokens=CAP, packing="capped"),
    "plan, by cost": lambda w: plan(w, dp_size=RANKS, max_tokens=CAP, packing="flops"),
}


def point(name: str, n: int) -> dict[str, float]:
    weights, call = log_normal(n), CALLS[name]
    call(log_normal(1000))
    held = Peak()
    times = []
    for _ in range(max(1, min(20, 5 * 10**6 // n))):
        start = time.process_time()
        answer = call(weights)
        times.append(time.process_time() - start)
        items = answer[0] if isinstance(answer, tuple) else answer.samples
        if len(times) == 1:
            peak = held.bytes()
            assert np.array_equal(np.bincount(items, minlength=n), np.ones(n)), "a sample is missing or stands twice"
        del answer, items
    return {"seconds": median(times), "bytes": peak / n}


def main() -> None:
    refuse_debug_build()
    if len(sys.argv) == 3:
        print(json.dumps(point(sys.argv[1], int(sys.argv[2]))))
        return
    table, rows = [], []
    for name in CALLS:
        points = []
        for n in SIZES:
            command = [sys.executable, __file__, name, str(n)]
            points.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
            rows.append({"work": name, "samples": n, **points[-1]})
        times = [p["seconds"] for p in points]
        exponent = np.polyfit(np.log(SIZES[1:]), np.log(times[1:]), 1)[0]
        table.append(
            {"work": name}
            | {f"{n:,}": seconds(t) for n, t in zip(SIZES, times, strict=True)}
            | {"exponent": f"{exponent:.3f}", "bytes a sample": f"{points[-1]['bytes']:.0f}"}
        )
    print("\nTime by samples; bytes a sample above the input at ten million (aims: 64, within the cap 256)\n")
    show(table)
    write("curve", rows)


if __name__ == "__main__":
    main()
