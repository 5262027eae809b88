"""The package on every row, each beside the stable sort of the same weights, its answer checked."""

from __future__ import annotations

import pytest

from answers import verdict
from families import ALL
from rivals import sort_seconds
from works import rows

ROUNDS = 20


def name(value):
    return getattr(value, "name", str(value))


@pytest.mark.parametrize(("work", "family", "n"), rows(), ids=name)
def test_speed(benchmark, work, family, n):
    if family not in ALL:
        pytest.skip(f"the trace {family} is not here")
    weights = ALL[family](n)
    prepared = work.prepare(weights)
    answer = work.ours(prepared)
    benchmark.group = work.name
    benchmark.extra_info |= {
        "who": "flopbalance",
        "input": family,
        "samples": len(weights),
        "sort": sort_seconds(weights),
        "floor": work.floor,
        "aim": work.aim,
        "limit": work.limit,
        "imbalance": work.imbalance(weights, answer),
        "answer": verdict(work, family, weights, answer),
    }
    benchmark.pedantic(work.ours, (prepared,), rounds=ROUNDS, iterations=max(1, 10_000 // n), warmup_rounds=2)
    assert benchmark.extra_info["answer"] != "another"
