"""Time of every mode on hostile input, from a thousand to a million samples; a part of `make bench`.

A cell is a family of inputs in one way to plan. It climbs the sizes as long as the next is expected to take less than
`PATIENCE`; the exponent is fitted to what it reached, and the steepest rise between two sizes tells a cliff. Only
public names are used, so that any installed version can be measured.
"""

from __future__ import annotations

import itertools
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from families import log_normal, powers_of_two, two_values
from flopbalance import expand_bins_by_splitting, first_fit_pack, get_seqlen_balanced_partitions, plan
from record import seconds, show, write

SIZES = (1_000, 4_000, 16_000, 62_500, 250_000, 1_000_000)
PATIENCE = 8.0
"""Seconds that a call may be expected to take."""
FEWEST, MOST, ENOUGH = 3, 20, 0.1
"""A call runs so often, or until so many seconds are gone; the fastest counts."""
SHORTEST = 1e-3
"""Times below are of fixed costs more than of samples, and do not count for an exponent."""
NEAR_LINEAR = 1.5
"""A greater exponent is marked. Lists that leave the caches measure up to 1.3 where nothing is quadratic, and a busy
machine adds to it."""
CAP = 36_864


@dataclass(frozen=True)
class Problem:
    """What a family is at one size."""

    lengths: Any
    ranks: int
    cap: int
    costs: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    """For packing within the cap alone."""

    @property
    def weights(self) -> Any:
        return self.lengths if self.costs is None else self.costs

    def within_cap(self, **options: Any) -> Any:
        return self.plan(packing="capped", **(self.options | options))

    def plan(self, **options: Any) -> Any:
        return plan(self.lengths, costs=self.costs, dp_size=self.ranks, max_tokens=self.cap, **options)


def sawtooth(n: int) -> Any:
    """Floats that round, a few above one and the rest falling smoothly, shuffled: the longest joins of long lists."""
    k = max(2, int(0.63 * math.sqrt(n)))
    high = 1.0001 + np.arange(k - 1, -1, -1) / k
    low = 1.0 * (1 - 2 / k**2) ** np.arange(n - k)
    return np.random.default_rng(8).permutation(np.concatenate([high, low]))


def opposed(n: int) -> Problem:
    """Two budgets, either of which fills up where the other is empty."""
    long, short = np.tile([995, 300], n // 4), np.full(n - n // 4 * 2, 5)
    swapped = np.concatenate([1295 - long, short])
    return Problem(np.concatenate([long, short]), 8, 999, options={"extra_budget": (swapped, 999)})


def loose(n: int) -> Problem:
    return Problem(np.random.default_rng(9).integers(1, 100, n), 8, 10**9)


FAMILIES: dict[str, Callable[[int], Problem]] = {
    "log-normal, to compare": lambda n: Problem(log_normal(n), 64, CAP),
    "equal": lambda n: Problem(np.full(n, 4096), 64, CAP),
    "two values": lambda n: Problem(two_values(n), 64, 1000),
    "geometric": lambda n: Problem(powers_of_two(n) % 2**20, 64, 2**20),
    "zeros": lambda n: Problem(np.zeros(n, np.int64), 64, CAP, np.ones(n, np.int64)),
    "sawtooth costs": lambda n: Problem(log_normal(n), max(2, int(0.63 * math.sqrt(n))), CAP, sawtooth(n)),
    "opposed budgets": opposed,
    "loose cap": loose,
    "one rank": lambda n: Problem(log_normal(n), 1, CAP),
    "many ranks": lambda n: Problem(log_normal(n), n // 16, CAP),
    "six ranks for seven samples": lambda n: Problem(log_normal(n), n * 6 // 7, CAP),
    "as many ranks as samples": lambda n: Problem(log_normal(n), n, CAP),
    "eight repeats of a sample": lambda n: Problem(log_normal(n // 8), n, CAP, options={"on_shortage": "repeat"}),
}


def equal_parts(problem: Problem) -> Any:
    whole = len(problem.lengths) // problem.ranks * problem.ranks
    return get_seqlen_balanced_partitions(problem.weights[:whole], problem.ranks, True)


def second_budget(problem: Problem) -> Any:
    return problem.within_cap(**({"extra_budget": (problem.lengths[::-1].copy(), problem.cap)} | problem.options))


def splitting(problem: Problem) -> Any:
    bins = [list(range(len(problem.lengths)))]
    return expand_bins_by_splitting(bins, max(problem.ranks, len(problem.lengths) // 2), problem.lengths)


MODES: dict[str, Callable[[Problem], Any]] = {
    "Karmarkar-Karp, equal": equal_parts,
    "Karmarkar-Karp, unequal": lambda p: get_seqlen_balanced_partitions(p.weights, p.ranks, False),
    "first fit": lambda p: first_fit_pack(p.lengths, p.cap),
    "splitting": splitting,
    "plan, first fit": lambda p: p.plan(),
    "plan, by cost": lambda p: p.plan(packing="flops"),
    "within cap, step": lambda p: p.within_cap(),
    "within cap, micro-batch": lambda p: p.within_cap(objective="micro-batch"),
    "within cap, pipeline": lambda p: p.within_cap(objective="pipeline", pipeline_stages=4),
    "within cap, padded": lambda p: p.within_cap(padded=True),
    "within cap, second budget": second_budget,
}


def fastest(call: Callable[[Problem], Any], problem: Problem) -> float:
    """Return the processor's seconds for a call, which other processes disturb least."""
    times: list[float] = []
    while len(times) < MOST and sum(times) < (ENOUGH if len(times) >= FEWEST else 10 * ENOUGH):
        start = time.process_time()
        call(problem)
        times.append(time.process_time() - start)
    return min(times)


def climb(family: str, mode: str) -> tuple[dict[int, float], str]:
    """Return the time at each size that was reached, and why no more were."""
    times: dict[int, float] = {}
    for n in SIZES:
        problem = FAMILIES[family](n)
        if len(times) >= 2:
            expected = times[max(times)] * (n / max(times)) ** max(1.0, steepest(times))
            if expected > PATIENCE:
                return times, f"{seconds(expected)} expected at {n:,}"
        try:
            times[n] = fastest(MODES[mode], problem)
        except ValueError as error:
            return times, f"refused: {error}"[:60]
    return times, ""


def long_enough(times: dict[int, float]) -> dict[int, float]:
    return {n: t for n, t in times.items() if t >= SHORTEST}


def steepest(times: dict[int, float]) -> float:
    """Return the greatest exponent between two neighbouring sizes."""
    points = long_enough(times).items()
    rises = [math.log(t1 / t0) / math.log(n1 / n0) for (n0, t0), (n1, t1) in itertools.pairwise(points)]
    return max(rises, default=0.0)


def exponent(times: dict[int, float]) -> float:
    points = long_enough(times)
    return float(np.polyfit(np.log(list(points)), np.log(list(points.values())), 1)[0]) if len(points) > 1 else math.nan


def main() -> None:
    rows, steep, cells = [], 0, 0
    chosen = sys.argv[1:]
    for family in FAMILIES:
        table = []
        for mode in (mode for mode in MODES if not chosen or any(word in f"{family} {mode}" for word in chosen)):
            times, stopped = climb(family, mode)
            slope = exponent(times)
            is_steep = slope > NEAR_LINEAR
            steep, cells = steep + is_steep, cells + 1
            shown = {f"{n:,}": seconds(times[n]) if n in times else "" for n in SIZES}
            known = len(long_enough(times)) > 1
            slopes = {
                "exponent": f"{slope:.2f}{'*' if is_steep else ''}" if known else "",
                "steepest": f"{steepest(times):.2f}" if known else "",
            }
            table.append({"mode": mode, **shown, **slopes, "stopped": stopped})
            rows += [{"family": family, "mode": mode, "samples": n, "seconds": t} for n, t in times.items()]
        if table:
            print(f"\nHostile input: {family}\n")
            show(table)
            sys.stdout.flush()
    print(f"\n{steep} of {cells} cells grow faster than n^{NEAR_LINEAR} (*)")
    if not chosen:
        write("ladder", rows)


if __name__ == "__main__":
    main()
