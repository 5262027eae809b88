"""Every work is measured in turn with NumPy's stable sort of the same weights, so that a busy machine slows both."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from pytest_benchmark.fixture import BenchmarkFixture

from families import Weights


def measure(benchmark: BenchmarkFixture, work: Callable[..., Any], given: tuple, weights: Weights, rounds: int) -> None:
    """Run `work(*given)`, a sort before each round; the median time of the sort goes into `extra_info`."""
    sorts = []

    def sort() -> tuple[tuple, dict]:
        start = time.perf_counter()
        np.argsort(weights, kind="stable")
        sorts.append(time.perf_counter() - start)
        return given, {}

    benchmark.pedantic(work, setup=sort, rounds=rounds, warmup_rounds=2)
    benchmark.extra_info["sort"] = median(sorts)
