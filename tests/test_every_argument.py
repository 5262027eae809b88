"""Every parameter of every public function, given anything: it works, or a ValueError names it; nothing warns."""

from __future__ import annotations

import argparse
import inspect
import logging
import re
from typing import Any

import numpy as np
import numpy.ma
import pytest

import flopbalance as fb
from tensor import Tensor


class Raising:
    """Of a library that fails in its own way."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise KeyError("gone")

    def __index__(self) -> int:
        raise RuntimeError("no number either")

    def __repr__(self) -> str:
        raise AttributeError("nor a text")


class Text(str):
    __slots__ = ()


class Table:
    """Has a column that is called like a method of ours."""

    flops = 3


VALUES = {
    "None": None,
    "text": "3",
    "bytes": b"3",
    "text-subclass": Text("3"),
    "path-with-nul": "a\0b",
    "half": 3.5,
    "negative-zero": -0.0,
    "subnormal": 5e-324,
    "huge": 1.7e308,
    "nan": float("nan"),
    "infinite": float("inf"),
    "complex": 3j,
    "True": True,
    "numpy-bool": np.bool_(True),
    "timedelta": np.timedelta64(3),
    "-1": -1,
    "0": 0,
    "2^31": 2**31,
    "2^53+1": 2**53 + 1,
    "2^63": 2**63,
    "2^70": 2**70,
    "10^5000": 10**5000,
    "array": np.array([1, 2]),
    "array-0d": np.array(3),
    "array-2d": np.array([[1, 2], [3, 4]]),
    "float16": np.array([1, 2, 3, 4, 5], np.float16),
    "huge-floats": np.array([1.7e308, 5e-324, 1e308, -0.0, np.nan]),
    "booleans": np.array([True, False, True, True, False]),
    "boolean-among-numbers": [7, True, 5, 4, 3],
    "masked": np.ma.array([7, 2, 5, 4, 3], mask=[0, 1, 0, 0, 0]),
    "texts": ["7", "2", "5", "4", "3"],
    "structured": np.array([(1, 2)] * 5, dtype=[("flops", int), ("b", int)]),
    "ragged": [[1, 2], [3]],
    "empty": [],
    "empty-tuple": (),
    "dict": {"flops": 3},
    "set": {1, 2},
    "object": object(),
    "table": Table(),
    "class": Table,
    "function": len,
    "raising": Raising(),
    "tensor": Tensor([7, 2, 5, 4, 3]),
}

LENGTHS = [7, 2, 5, 4, 3]
SHAPE = {
    "num_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_query_groups": 2,
    "kv_channels": 8,
    "ffn_hidden_size": 64,
}
ARGS = {**SHAPE, "vocab_size": 32, "num_experts": None, "micro_batch_size": 1, "balance_data": True}
HF = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
SCHEDULE = fb.plan(LENGTHS, dp_size=2, max_tokens=8)
MODEL = fb.CostModel(per_token=10, per_pair=1)
FITTED = fb.FittedCost(0.5, 0.25, 0.125)
BATCHES = [[10 * i, 300 - 10 * i, 40 * (i % 5) + 1] for i in range(1, 30)]
SECONDS = [0.01 + sum(2e-4 * n + 1e-6 * n * n for n in batch) for batch in BATCHES]
PLAN = {
    "lengths": LENGTHS,
    "costs": LENGTHS,
    "dp_size": 2,
    "max_tokens": 8,
    "micro_batch_size": None,
    "rollout_ids": LENGTHS,
    "global_batch_size": 5,
    "micro_batch_multiple": 1,
    "packing": "capped",
    "balance_ranks": True,
    "objective": "pipeline",
    "pipeline_stages": 2,
    "micro_batch_overhead": 1.0,
    "effort": 4,
    "padded": False,
    "extra_budget": ([1] * 5, 9),
    "max_samples": 3,
    "pad_to": (1, 1),
    "carried": [3, 0],
    "on_leftover": "drop",
    "on_oversize": "alone",
    "on_shortage": "error",
    "limits": None,
    "counts": None,
    "pipeline": None,
}
OF_A_MODEL = {"mtp_layers": 0, "padded_vocab_size": None}
PICTURE = {"costs": LENGTHS, "lengths": LENGTHS, "max_tokens": 8, "step": 0, "objective": "pipeline"}
PICTURE |= {"pipeline": fb.Pipeline(2)}
IN_WORDS = {"cost_unit": "tokens", "title": None}

CALLS: dict[str, dict[str, Any]] = {
    "plan": PLAN,
    "Limits": {
        "max_tokens": 8,
        "pad_to": (1, 1),
        "padded": False,
        "extra_budget": ([1] * 5, 9),
        "max_samples": 3,
        "on_oversize": "alone",
    },
    "Counts": {"exactly": 4, "at_least": 2, "multiple": 2, "even_samples": True},
    "Pipeline": {"stages": 2, "chunks": 2, "group": 2},
    "report": {
        "schedule": SCHEDULE,
        "costs": LENGTHS,
        "lengths": LENGTHS,
        "max_tokens": 8,
        "pipeline_stages": 2,
        "micro_batch_overhead": 1.0,
        "pipeline": None,
    },
    "explain": {
        "schedule": SCHEDULE,
        "lengths": LENGTHS,
        "costs": LENGTHS,
        "settings": {"dp_size": 2, "max_tokens": 8},
        "objective": "pipeline",
        "cost_unit": "tokens",
        "pipeline": fb.Pipeline(2),
    },
    "simulate_pipeline": {"costs": [3, 1, 4, 2], "stages": 2, "chunks": 2, "group": 2},
    "plot_schedule": dict(schedule=SCHEDULE, **PICTURE, **IN_WORDS),
    "plot_comparison": dict(schedules={"plain": SCHEDULE}, **PICTURE, **IN_WORDS),
    "check_feasible": {
        "global_batch_size": 4,
        "dp_size": 2,
        "max_tokens": 8,
        "longest": 4,
        "micro_batch_size": None,
        "micro_batch_multiple": 1,
        "samples_per_rollout": 1,
        "num_rollouts": 8,
        "on_leftover": "drop",
        "on_oversize": "alone",
        "on_shortage": "error",
    },
    "first_fit_pack": {"total_lengths": LENGTHS, "max_tokens_per_bin": 8},
    "pack": {
        "lengths": LENGTHS,
        "max_tokens": 8,
        "order": "balanced",
        "max_samples": 2,
        "at_least": 2,
        "multiple": 2,
        "count": 4,
        "costs": LENGTHS,
    },
    "expand_bins_by_splitting": {"bins": [[0, 1, 2]], "target_count": 2, "lengths": LENGTHS},
    "get_reverse_idx": {"idx_map": [1, 0]},
    "get_seqlen_balanced_partitions": {"seqlen_list": LENGTHS, "k_partitions": 2, "equal_size": False},
    "karmarkar_karp": {"seqlen_list": LENGTHS, "k_partitions": 2, "equal_size": False},
    "calculate_fwd_flops": {"seqlens": LENGTHS, "args": ARGS},
    "PublishedFlops": {"args": ARGS},
    "PublishedFlops.flops": {"self": fb.PublishedFlops(ARGS), "lengths": LENGTHS},
    "PublishedFlops.terms": {"self": fb.PublishedFlops(ARGS), "lengths": LENGTHS},
    "CostModel": {
        "per_token": 10,
        "lm_head": 1,
        "per_pair": 1,
        "windows": ((4, 1),),
        "components": (),
        "notes": ("a note",),
    },
    "CostModel.flops": {"self": MODEL, "lengths": LENGTHS},
    "CostModel.total_flops": {"self": MODEL, "lengths": LENGTHS},
    "CostModel.weights": {
        "self": MODEL,
        "lengths": LENGTHS,
        "phase": "train",
        "recompute": "none",
        "flash_attention": True,
    },
    "CostModel.from_args": dict(args=ARGS, **OF_A_MODEL),
    "CostModel.from_hf_config": dict(config={**HF, "vocab_size": 32}, **OF_A_MODEL),
    "CostModel.from_name": dict(name="qwen3-8b", **OF_A_MODEL),
    "CostModel.fit": {
        "micro_batches": BATCHES,
        "seconds": SECONDS,
        "lengths": None,
        "windows_of": None,
        "per_sequence": False,
    },
    "FittedCost": {
        "per_micro_batch": 0.5,
        "per_token": 0.25,
        "per_square": 0.125,
        "per_sequence": 0.0,
        "per_pair": 1,
        "windows": ((4, 1),),
        "intervals": {"per_token": (0.1, 0.4)},
        "holdout_error": 0.1,
        "tokens_only_error": 0.2,
        "micro_batches": 12,
        "longest": 99,
    },
    "FittedCost.flops": {"self": FITTED, "lengths": LENGTHS},
    "FittedCost.weights": {"self": FITTED, "lengths": LENGTHS},
    "FittedCost.predict": {"self": FITTED, "micro_batches": SCHEDULE, "lengths": LENGTHS},
    "check_costs": {
        "cost": MODEL,
        "micro_batches": BATCHES,
        "seconds": SECONDS,
        "lengths": None,
        "ranks": [0] * len(BATCHES),
    },
    "synthetic_rollout": {"prompts": 2, "answers_per_prompt": 3, "max_tokens": 99, "seed": 0},
    "CapWatch": {"max_tokens": 8, "logger": logging.getLogger("flopbalance")},
    "CapWatch.check": {"self": fb.CapWatch(8), "schedule": SCHEDULE},
    "CapWatch.check_lists": {
        "self": fb.CapWatch(8),
        "total_lengths": [5, 3, 4],
        "partitions": [[1, 2], [0]],
        "micro_batch_indices": [[[0, 1]], [[0]]],
    },
    "Schedule.rank": {"self": SCHEDULE, "rank": 1},
    "Schedule.rank_loads": {"self": SCHEDULE, "costs": LENGTHS, "lengths": LENGTHS, "carried": [3, 0]},
    "Schedule.from_lists": {
        "partitions": [[0, 3], [1, 2, 4]],
        "micro_batch_indices": [[[0], [1]], [[0, 1], [2]]],
        "num_microbatches": [2],
        "global_batch_sizes": [5],
        "lengths": LENGTHS,
    },
    "select_flops_model": {"args": ARGS, "flops_model": "published", "name": "flops_model"},
    "add_balance_arguments": {"parser": argparse.ArgumentParser(), "only_new": True},
    "validate_balance_args": {"args": {}},
    "build_dp_schedule": {
        "args": ARGS,
        "train_parallel_config": {"dp_size": 1},
        "total_lengths": LENGTHS,
        "global_batch_size": 5,
        "rollout_indices": LENGTHS,
    },
    "build_log_probs_schedule": {
        "args": {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 8},
        "train_parallel_config": {"cp_size": 1},
        "total_lengths": LENGTHS,
        "partitions": [[0, 3], [1, 2, 4]],
    },
}
"""A call of everything public that works, with every parameter."""

FILES = {"read_cost", "load_cost", "save_cost", "read_lengths", "Schedule.save", "Schedule.load"}
"""What takes the name of a file."""

ANSWERS = {"BalanceReport", "CostCheck", "Explanation", "Feasibility", "RankSchedule", "Rollout", "Schedule"}
"""What functions return, and nobody makes."""

CALLED = {
    "CostModel.from_name": ["model", "lm_head"],
    "CostModel.from_hf_config": ["No such file", "null byte"],
    "select_flops_model": ["flops_model"],
}
"""What messages call an argument, where not by its name."""


def public(name: str) -> dict[str, Any]:
    """Return a function, or a class and its methods, by the names that CALLS uses."""
    value = getattr(fb, name)
    if not inspect.isclass(value):
        return {name: value}
    found = {} if name in ANSWERS or issubclass(value, Exception) else {name: value}
    for method, raw in vars(value).items():
        if not method.startswith("_") and name not in ANSWERS - {"Schedule"}:
            function = getattr(value, method)
            if callable(function) and set(inspect.signature(function).parameters) - {"self"}:
                found[f"{name}.{method}"] = function
            assert not isinstance(raw, type)
    return found


FUNCTIONS = {name: function for one in fb.__all__ for name, function in public(one).items() if name not in FILES}


def test_the_table_has_every_parameter():
    assert set(CALLS) == set(FUNCTIONS)
    for name, function in FUNCTIONS.items():
        assert set(CALLS[name]) == set(inspect.signature(function).parameters), name


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_of_the_table_work(name):
    FUNCTIONS[name](**CALLS[name])


CASES = [(name, parameter) for name, call in CALLS.items() for parameter in call if parameter != "self"]


@pytest.mark.filterwarnings("ignore:model_type")  # a guess that is announced
@pytest.mark.parametrize(("name", "parameter"), CASES, ids=[f"{name}-{parameter}" for name, parameter in CASES])
def test_an_argument_works_or_is_refused_by_name(name, parameter):
    # A value that is sound by itself may contradict another argument, which is then the one that is named.
    named = re.compile(rf"(?<![a-z])({'|'.join([*CALLS[name], *CALLED.get(name, [])])})(?![a-z])")
    for kind, value in VALUES.items():
        refusal = refusal_of(FUNCTIONS[name], {**CALLS[name], parameter: value})
        text = str(refusal or parameter)
        assert type(refusal) in (type(None), ValueError, OverflowError, fb.ScheduleError), (kind, repr(refusal))
        assert len(text) < 400, (kind, text)
        assert "\n" not in text, (kind, text)
        assert named.search(text) or isinstance(refusal, fb.ScheduleError), (kind, text)
        assert type(refusal) is not OverflowError or re.search(r"(lengths|micro_batches)\[\d", text), (kind, text)


def refusal_of(function, arguments):
    """Return what a call raises, if anything; warnings are raised too."""
    try:
        function(**arguments)
    except Exception as error:
        return error
    return None
