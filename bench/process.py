"""What a whole process sees: the time of the import, and threads that plan at once; a part of `make bench`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from statistics import median

from families import log_normal
from flopbalance import plan
from record import seconds, show, write
from works import CAP, RANKS, refuse_debug_build

IMPORT_LIMIT = 15e-3
THREADS = 4
IMPORT = "import numpy, time; t = time.process_time(); from flopbalance import plan; print(time.process_time() - t)"


def import_seconds() -> float:
    """Processor time of `from flopbalance import plan`, which loads what planning needs, after `import numpy`."""
    run = [sys.executable, "-c", IMPORT]
    return median(float(subprocess.run(run, capture_output=True, text=True, check=True).stdout) for _ in range(20))


LENGTHS = log_normal(100_000)


def work() -> None:
    plan(LENGTHS, dp_size=RANKS, max_tokens=CAP, packing="flops")


def wall_seconds(together: bool) -> float:
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
        if not together:
            thread.join()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


def main() -> None:
    refuse_debug_build()
    work()
    spent = import_seconds()
    together, apart = ([wall_seconds(together) for _ in range(10)] for together in (True, False))
    overlap = min(together) / min(apart)
    cores = os.cpu_count() or 1
    rows = [
        {
            "what": "from flopbalance import plan, after NumPy",
            "value": seconds(spent),
            "goal": f"under {seconds(IMPORT_LIMIT)}",
        },
        {
            "what": f"wall time of {THREADS} threads at once over one after the other, {cores} cores",
            "value": f"{overlap:.2f}",
            "goal": f"toward {1 / min(THREADS, cores):.2f}, 1 without overlap",
        },
    ]
    show(rows)
    write("process", rows)


if __name__ == "__main__":
    main()
