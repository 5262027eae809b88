"""The golden vectors, against the package and against the reference that the other tests trust."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import flopbalance
import reference

DATA = json.loads(gzip.decompress((Path(__file__).parent / "golden" / "dev.json.gz").read_bytes()))
CASES = [pytest.param(case, id=f"{i}-{case['fn']}") for i, case in enumerate(DATA["cases"])]


def call(package: ModuleType, case: dict[str, Any]) -> Any:
    name = case["fn"]
    function = getattr(package, name)
    if name == "get_seqlen_balanced_partitions":
        weights = [int(w) for w in case["weights"]] if case["kind"] == "bigint" else case["weights"]
        return function(weights, case["k"], case["equal_size"])
    if name == "first_fit_pack":
        return function(case["lengths"], case["cap"])
    if name == "expand_bins_by_splitting":
        bins = copy.deepcopy(case["bins"])
        function(bins, case["target"], case["lengths"])
        return bins
    args = SimpleNamespace(**{"num_experts": None, **DATA["models"][case["model"]], **case.get("args", {})})
    if name == "calculate_fwd_flops":
        return function(case["seqlens"], args)
    return function(
        args,
        case["train_parallel_config"],
        case["total_lengths"],
        global_batch_size=case["global_batch_size"],
        rollout_indices=case["rollout_indices"],
    )


def lists(x: Any) -> Any:
    """Tuples as lists: JSON knows no tuple."""
    return [lists(y) for y in x] if isinstance(x, list | tuple) else x


def test_all_vectors_are_here():
    assert len(CASES) == 1044


def test_every_model_of_the_vectors_has_an_exact_cost_too():
    for model in DATA["models"].values():
        assert flopbalance.CostModel.from_args({"num_experts": None, **model}).flops([1000])[0] > 0


@pytest.mark.parametrize("package", [flopbalance, reference], ids=lambda package: package.__name__)
@pytest.mark.parametrize("case", CASES)
def test_vector(package, case):
    if "error" in case:
        with pytest.raises(ValueError, match=r"\w"):
            call(package, case)
    else:
        assert lists(call(package, case)) == case["expected"]
