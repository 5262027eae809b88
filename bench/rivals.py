"""Others that do the same job. Each takes a list of weights and gives lists of indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


def named(weights: list) -> dict[int, Any]:
    """Weights by index, for packages that else return the weights themselves."""
    return dict(enumerate(weights))


@dataclass(frozen=True)
class Rival:
    """One function of a package, and the number of samples up to which it is worth waiting for."""

    package: str
    function: str
    job: str
    call: Callable[[Any, list, int], list]
    largest: int


def partition(equal_size: bool) -> Callable[[Any, list, int], list]:
    return lambda module, weights, k: module.get_seqlen_balanced_partitions(weights, k, equal_size)


RIVALS = [
    Rival("flopbalance", "", "equal", partition(True), 100_000),
    Rival("reference", "plain Python", "equal", partition(True), 100_000),
    Rival("seq_len_balance", "", "equal", partition(True), 100_000),
    Rival("flopbalance", "", "unequal", partition(False), 100_000),
    Rival("reference", "plain Python", "unequal", partition(False), 100_000),
    Rival("seq_len_balance", "", "unequal", partition(False), 100_000),
    Rival("prtpy", "kk", "unequal", lambda m, w, k: m.partition(m.partitioning.kk, k, named(w)), 256),
    Rival("prtpy", "greedy", "unequal", lambda m, w, k: m.partition(m.partitioning.greedy, k, named(w)), 10_000),
    Rival("binpacking", "", "unequal", lambda m, w, k: list(map(list, m.to_constant_bin_number(named(w), k))), 10_000),
    Rival("flopbalance", "", "first fit", lambda m, w, cap: m.first_fit_pack(w, cap), 100_000),
    Rival("reference", "plain Python", "first fit", lambda m, w, cap: m.first_fit_pack(w, cap), 10_000),
    Rival("prtpy", "", "first fit", lambda m, w, cap: m.pack(m.packing.first_fit, cap, named(w)), 10_000),
]
