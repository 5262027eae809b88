"""Time and memory of calls that once took far too much of either; a part of `make bench`.

Each runs in a process of its own, which may end without an answer, so that any installed version can be measured.
Times are the processor's, which other processes disturb least. Memory is the peak of the call above what the process
held before, input included.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from itertools import starmap

from memory import Peak
from record import seconds, show, write

PATIENCE = 60
"""Seconds that a call may take."""
MEMORY = 8 * 2**30
"""Of address space; who wants more has lost."""
SETUP = "import numpy as np; import flopbalance as fb; r = np.random.default_rng(0)"


@dataclass(frozen=True)
class Case:
    """A call: what comes before it, and what is measured, as source text."""

    name: str
    call: str
    before: str = ""
    samples: int = 0


def loose(n: int) -> Case:
    plan = "fb.plan(x, dp_size=8, max_tokens=10**9, packing='capped')"
    return Case(f"loose cap, {n:,} samples", plan, f"x = r.integers(1, 100, {n})", n)


def opposed(n: int) -> Case:
    half = n // 2
    before = f"x = np.array([995, 300] * ({half} // 2) + [5] * ({n} - {half}))\ny = np.where(x > 5, 1295 - x, 5)"
    plan = "fb.plan(x, dp_size=8, max_tokens=999, packing='capped', extra_budget=(y, 999))"
    return Case(f"opposed budgets, {n:,} samples", plan, before, n)


def few_for(count: int) -> Case:
    return Case(
        f"{count:,} ranks for 3 samples", f"fb.plan([1, 2, 3], dp_size={count}, max_tokens=9, packing='capped')"
    )


def repeats(count: int) -> Case:
    plan = f"fb.plan([1, 2], dp_size={count}, max_tokens=9, packing='capped', on_shortage='repeat')"
    return Case(f"repeats to {count:,} micro-batches", plan, samples=count)


def lying(name: str, fields: str) -> Case:
    """Return a load of a schedule that was saved with other fields."""
    before = """
        small = fb.plan([3, 1, 2, 2], dp_size=2, max_tokens=4, global_batch_size=2)
        names = ("dp_size", "num_samples", "samples", "micro_batch_offsets", "micro_batch_tokens")
        names += ("micro_batches_per_step", "rollouts_per_step", "dropped", "is_padding")
        fields = {name: getattr(small, name) for name in names}
        """
    save = f"np.savez_compressed('lying.npz', version=1, **(fields | dict({fields})))"
    return Case(name, "fb.Schedule.load('lying.npz')", f"{textwrap.dedent(before)}\n{save}")


def made(name: str, fields: str) -> Case:
    """Return a use of a schedule made by hand."""
    before = "none, no, one = np.array([], np.int64), np.array([], bool), np.array([1])"
    return Case(name, f"fb.Schedule({fields}).to_lists()", before)


def ranks(n: int, count: int) -> Case:
    plan = f"fb.plan(x, dp_size={count}, max_tokens=36864, packing='capped')"
    return Case(f"{count:,} ranks, {n:,} samples", plan, f"x = r.lognormal(8.5, 1, {n}).astype(int)", n)


BOMB = """
import gzip
with gzip.open('bomb.csv.gz', 'wb', compresslevel=1) as file:
    for _ in range(1000):
        file.write(b'1' * 1_000_000)
"""
SAWTOOTH = """
k = int(0.63 * 100_000**0.5)
x = np.concatenate([1.0001 + np.arange(k - 1, -1, -1) / k, (1 - 2 / k**2) ** np.arange(100_000 - k)])
x = r.permutation(x)
"""
INTERRUPT = """
import os, signal, threading
def interrupt():
    global sent
    begun = time.process_time()
    while time.process_time() < begun + 0.3:
        time.sleep(0.01)
    sent = time.process_time()
    os.kill(os.getpid(), signal.SIGINT)
x = r.lognormal(8.5, 1, 2_000_000).astype(int)
"""
STOPPED = """
threading.Thread(target=interrupt).start()
try:
    fb.plan(x, dp_size=512, max_tokens=36864, packing='capped')
except KeyboardInterrupt:
    pass
answer = f'{1000 * (time.process_time() - sent):.0f} ms after Ctrl-C'
"""

CASES = (
    *map(few_for, (10**8, 10**12, 2**62)),
    Case("split into 2^40 bins", "fb.expand_bins_by_splitting([[0, 1]], 2**40, [0, 0])"),
    *map(loose, (50_000, 100_000, 200_000)),
    *map(opposed, (6_250, 12_500, 25_000)),
    *starmap(ranks, ((12_500, 10_737), (12_500, 10_738), (16_384, 64), (16_384, 1_024), (1_000_000, 512))),
    Case("sawtooth floats, 100,000, 199 parts", "fb.get_seqlen_balanced_partitions(x, k, False)", SAWTOOTH, 100_000),
    Case("Ctrl-C in a plan of 2,000,000 samples", STOPPED, INTERRUPT),
    *map(repeats, (2**17, 2**20, 2**24)),
    Case("a .gz of one line, 1 GB unpacked", "fb.read_lengths('bomb.csv.gz')", BOMB),
    Case("/dev/zero", "fb.read_lengths('/dev/zero')"),
    lying("saved schedule of 3e8 samples in 2.7 kB", "num_samples=300_000_000"),
    lying(
        "saved schedule whose counts wrap",
        "micro_batches_per_step=np.array([2**62] * 4 + [1, 1]), rollouts_per_step=np.ones(6, int)",
    ),
    made("Schedule whose offsets lie", "1, 1, none, np.array([0, 9]), one, one, one, none, no"),
    made("Schedule of empty arrays", "1, 0, none, one - 1, none, none, none, none, no"),
    made("Schedule of 2^40 ranks", "2**40, 0, none, none, none, none, none, none, no"),
    Case("split with a repeated index", "fb.expand_bins_by_splitting([[0, 0, 0]], 2, [2**62])"),
)


def measured(case: Case) -> None:
    """Run a case in this process and print how it went."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    names: dict[str, object] = {"time": time}
    exec(f"{SETUP}\n{case.before}", names)
    exec("fb.plan([1, 2], dp_size=2, max_tokens=9, packing='capped')", names)
    call = case.call if "answer" in case.call else f"answer = type({case.call}).__name__"
    held, start = Peak(), time.process_time()
    try:
        exec(call, names)
        end = names["answer"]
    except BaseException as error:  # a panic is no Exception
        end = f"{type(error).__name__}: {error}"
    print(json.dumps({"seconds": time.process_time() - start, "bytes": held.bytes(), "end": end}))


def run(case: Case) -> dict[str, object]:
    """Return how a case went in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            command = [sys.executable, __file__, case.name]
            process = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            return {"seconds": PATIENCE, "bytes": 0, "end": f"did not end within {PATIENCE} s"}
    if process.returncode:
        code = process.returncode
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return {"seconds": 0.0, "bytes": 0, "end": f"THE PROCESS ENDS: {how}"}
    return json.loads(process.stdout)


def main() -> None:
    if len(sys.argv) == 2:
        measured(next(case for case in CASES if case.name == sys.argv[1]))
        return
    table, rows = [], []
    for case in CASES:
        went = run(case)
        rows.append({"call": case.name, "samples": case.samples, **went})
        each = f"{went['bytes'] / case.samples:.0f}" if case.samples and went["bytes"] else ""
        table.append(
            {
                "call": case.name,
                "time": seconds(went["seconds"]) if went["seconds"] else "",
                "peak": f"{went['bytes'] / 2**20:.0f} MB",
                "bytes a sample": each,
                "ends with": textwrap.shorten(str(went["end"]), 90),
            }
        )
    print("\nTime and memory where either once had no bound\n")
    show(table)
    write("bounds", rows)


if __name__ == "__main__":
    main()
