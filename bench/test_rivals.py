"""Other packages and plain Python at the same jobs, with lists in and lists out for all."""

from __future__ import annotations

import pytest

from answers import verdict
from families import log_normal
from rivals import RIVALS
from works import FAMILY_CAP, SIZES, first_fit, partition
from yardstick import measure


@pytest.mark.parametrize(("n", "k"), SIZES.items())
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: f"{rival.package}-{rival.function}-{rival.job}")
def test_rival(benchmark, rival, n, k):
    package = pytest.importorskip(rival.package)
    if n > rival.largest:
        pytest.skip(f"too slow for {n:,} samples")
    if rival.job == "first fit":
        work, size = first_fit(FAMILY_CAP), FAMILY_CAP
    else:
        work, size = partition(k, rival.job == "equal"), k
    weights = log_normal(n // k * k if rival.job == "equal" else n)
    values = weights.tolist()
    answer = rival.call(package, values, size)
    benchmark.group = f"{work.name}, lists"
    benchmark.extra_info |= {
        "who": f"{rival.package} {rival.function}".strip(),
        "input": "log_normal",
        "samples": len(values),
        "imbalance": work.imbalance(weights, answer),
        "answer": verdict(work, "log_normal", weights, answer),
    }
    measure(benchmark, rival.call, (package, values, size), weights, rounds=3 if n == 100_000 else 10)
