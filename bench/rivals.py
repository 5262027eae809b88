"""Others that do the same job. Each takes a list of weights and gives lists of indices."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Job = Callable[[list, int], list]


def named(weights: list) -> dict[int, Any]:
    """Weights by index, for packages that else return the weights themselves."""
    return dict(enumerate(weights))


@dataclass(frozen=True)
class Rival:
    """One function of a package, and the size up to which it is worth waiting for."""

    package: str
    function: str
    job: str
    call: Callable[[Any, list, int], list]
    largest: int

    def run(self) -> Callable[[list, int], list] | None:
        """Return the job, or None when the package is not installed."""
        try:
            module = importlib.import_module(self.package)
        except ImportError:
            return None
        return lambda weights, k: self.call(module, weights, k)


RIVALS = [
    Rival("reference", "plain Python", "equal", lambda m, w, k: m.get_seqlen_balanced_partitions(w, k, True), 100_000),
    Rival(
        "reference", "plain Python", "unequal", lambda m, w, k: m.get_seqlen_balanced_partitions(w, k, False), 100_000
    ),
    Rival("reference", "plain Python", "first fit", lambda m, w, cap: m.first_fit_pack(w, cap), 10_000),
    Rival(
        "seq_len_balance",
        "get_seqlen_balanced_partitions",
        "equal",
        lambda m, w, k: m.get_seqlen_balanced_partitions(w, k, True),
        100_000,
    ),
    Rival(
        "seq_len_balance",
        "get_seqlen_balanced_partitions",
        "unequal",
        lambda m, w, k: m.get_seqlen_balanced_partitions(w, k, False),
        100_000,
    ),
    Rival(
        "prtpy",
        "karmarkar_karp",
        "unequal",
        lambda m, w, k: m.partition(m.partitioning.kk, k, named(w)),
        1_000,
    ),
    Rival(
        "prtpy",
        "greedy",
        "unequal",
        lambda m, w, k: m.partition(m.partitioning.greedy, k, named(w)),
        10_000,
    ),
    Rival(
        "prtpy",
        "first_fit",
        "first fit",
        lambda m, w, cap: m.pack(m.packing.first_fit, cap, named(w)),
        10_000,
    ),
    Rival(
        "binpacking",
        "to_constant_bin_number",
        "unequal",
        lambda m, w, k: [list(bin_) for bin_ in m.to_constant_bin_number(named(w), k)],
        10_000,
    ),
]
