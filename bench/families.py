"""Families of weights of any size, with fixed seeds: what lengths of samples look like, and worst cases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Weights = NDArray[np.int64] | NDArray[np.uint64] | NDArray[np.float64]


def log_normal(n: int) -> Weights:
    return np.random.default_rng(1).lognormal(8.5, 1.0, n).astype(np.int64) + 1


def uniform(n: int) -> Weights:
    return np.random.default_rng(2).integers(1, 32769, n)


def bimodal(n: int) -> Weights:
    """Short answers, and one in ten cut off at the limit or close to it."""
    rng = np.random.default_rng(3)
    return np.where(rng.random(n) < 0.1, rng.integers(30000, 32769, n), rng.integers(64, 1024, n))


def all_equal(n: int) -> Weights:
    return np.full(n, 4096)


def all_zero(n: int) -> Weights:
    return np.zeros(n, np.int64)


def two_values(n: int) -> Weights:
    return np.random.default_rng(4).choice(np.array([100, 101]), n)


def powers_of_two(n: int) -> Weights:
    return np.left_shift(1, np.arange(n) % 47)


def ascending(n: int) -> Weights:
    return np.sort(uniform(n))


def descending(n: int) -> Weights:
    return np.sort(uniform(n))[::-1].copy()


def one_giant(n: int) -> Weights:
    weights = np.ones(n, np.int64)
    weights[n // 2] = n
    return weights


def near_2_63(n: int) -> Weights:
    return 2**63 - 1 - np.random.default_rng(5).integers(0, 2**40, n)


def near_2_64(n: int) -> Weights:
    return np.uint64(2**64 - 1) - np.random.default_rng(6).integers(0, 2**40, n, dtype=np.uint64)


def inexact(n: int) -> Weights:
    """Floats over many magnitudes: their sums round, and differently in every order."""
    return np.random.default_rng(7).lognormal(0.0, 12.0, n)


USUAL: dict[str, Callable[[int], Weights]] = {f.__name__: f for f in (log_normal, uniform, bimodal)}
HARD: dict[str, Callable[[int], Weights]] = {
    f.__name__: f
    for f in (
        all_equal, all_zero, two_values, powers_of_two, ascending, descending, one_giant, near_2_63, near_2_64, inexact,
    )
}  # fmt: skip
FAMILIES = {**USUAL, **HARD}

TRACES = Path(__file__).parents[2] / "shared" / "traces"


def trace(name: str) -> Callable[[int], Weights]:
    return lambda n: np.load(TRACES / f"{name}.npz")["lengths"][:n].astype(np.int64)


REAL: dict[str, Callable[[int], Weights]] = {path.stem: trace(path.stem) for path in sorted(TRACES.glob("*.npz"))}
ALL = {**FAMILIES, **REAL}
