"""The package on every row, each beside the stable sort of the same weights, its answer checked."""

from __future__ import annotations

import pytest

from answers import verdict
from families import ALL
from works import rows
from yardstick import measure


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
        "floor": work.floor,
        "aim": work.aim,
        "limit": work.limit,
        "imbalance": work.imbalance(weights, answer),
        "answer": verdict(work, family, weights, answer),
    }
    measure(benchmark, work.ours, (prepared,), weights, rounds=20 if n >= 10_000 else 200)
    assert benchmark.extra_info["answer"] != "another"
