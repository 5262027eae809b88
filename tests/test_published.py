"""The published FLOPs: their forms, their rounding, and what they refuse. The vectors are in test_golden."""

from __future__ import annotations

import functools
import json
import math
import operator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from flopbalance import PublishedFlops, build_dp_schedule, calculate_fwd_flops
from flopbalance.costs.models.shapes import load_shape
from test_cost_model import DENSE, LATENT, MOE

GOLDEN = json.loads((Path(__file__).parent / "golden" / "flops_dev.json").read_text())


@pytest.mark.parametrize("record", GOLDEN, ids=lambda record: record["model"])
def test_published_figures_of_the_golden_shapes(record):
    flops = PublishedFlops(record["config"]).flops([int(length) for length in record["published"]])
    assert flops.tolist() == [float(int(value)) for value in record["published"].values()]
    for batch in record["batches"]:
        lengths = [length for length, count in batch["rle"] for _ in range(count)]
        assert int(calculate_fwd_flops(lengths, record["config"])) == int(batch["published_float_as_int"])


def test_sum_is_a_float_and_zero_without_a_sequence():
    assert type(calculate_fwd_flops([1], DENSE)) is float
    nothing = calculate_fwd_flops([], DENSE)
    assert (nothing, type(nothing)) == (0, int)


def test_sum_runs_term_by_term_and_sequence_by_sequence():
    shape = load_shape("glm4.5-106B-A12B")
    flops = PublishedFlops(shape)
    lengths = [1_000_000] * 64 + [17] * 1000
    total = calculate_fwd_flops(lengths, shape)
    assert total == functools.reduce(operator.add, flops.terms(lengths).ravel().tolist())
    # Other orders round differently: sequences first added up, or the compensated sum of new Pythons.
    assert total != functools.reduce(operator.add, flops.flops(lengths).tolist())
    assert total != math.fsum(flops.terms(lengths).ravel().tolist())


def test_all_types_of_lengths_and_arguments_agree():
    lengths = [35_655, 100_000]
    want = calculate_fwd_flops(lengths, DENSE)
    assert calculate_fwd_flops(np.array(lengths, dtype=np.int32), SimpleNamespace(**DENSE)) == want
    assert calculate_fwd_flops(np.array(lengths, dtype=np.uint64), DENSE) == want


def test_costs_beyond_64_bits_are_rounded_not_refused():
    flops = PublishedFlops(load_shape("deepseek-v3"))
    exact = 10**9 * 64_976_977_920 + 10**18 * 2_498_560
    assert flops.flops([10**9])[0] == pytest.approx(exact, rel=1e-15)


NEEDED = {
    "dense": (DENSE, ("num_layers", "hidden_size", "num_attention_heads", "num_query_groups", "kv_channels")),
    "dense width": (DENSE, ("ffn_hidden_size", "vocab_size", "num_experts")),
    "experts": (MOE, ("moe_ffn_hidden_size", "moe_router_topk")),
    "latent": ({**DENSE, **LATENT}, tuple(name for name in LATENT if name != "multi_latent_attention")),
}


@pytest.mark.parametrize(("shape", "field"), [(shape, field) for shape, fields in NEEDED.values() for field in fields])
def test_a_missing_field_is_named(shape, field):
    args = {name: value for name, value in shape.items() if name != field}
    for source in (args, SimpleNamespace(**args)):
        with pytest.raises(ValueError, match=rf"args\.{field} is missing"):
            calculate_fwd_flops([1], source)


def test_fields_that_the_shape_does_not_use_may_be_missing():
    all_experts = {name: value for name, value in MOE.items() if name != "ffn_hidden_size"}
    assert calculate_fwd_flops([7], all_experts) == calculate_fwd_flops([7], MOE)
    latent = {**DENSE, **LATENT}
    unused = {name: value for name, value in latent.items() if name not in ("kv_channels", "num_query_groups")}
    assert calculate_fwd_flops([7], unused) == calculate_fwd_flops([7], latent)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": -1}, "args.hidden_size must be >= 1, got -1"),
        ({"hidden_size": 1.5}, "args.hidden_size must be a whole number, got 1.5"),
        ({"vocab_size": True}, "args.vocab_size must be a whole number, got True"),
        ({"kv_channels": None}, "args.kv_channels must be a whole number, got None"),
        ({"multi_latent_attention": 2}, "args.multi_latent_attention must be True or False, got 2"),
        ({"num_experts": 4, "moe_layer_freq": 0}, "moe_layer_freq must be >= 1, got 0"),
        ({"num_experts": 4, "moe_layer_freq": [1]}, "moe_layer_freq must have an entry for each of 2 layers, got 1"),
        ({"num_experts": 4, "moe_layer_freq": "[1"}, "moe_layer_freq must be a whole number or lists"),
    ],
)
def test_bad_fields(fields, message):
    with pytest.raises(ValueError, match=message):
        PublishedFlops({**DENSE, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": 2**62, "vocab_size": 2**62}, r"^FLOPs per token of args must be below 2\^59, got \d+"),
        (
            {"vocab_size": 2**62, "hidden_size": 1},
            r"^FLOPs per token of args must be below 2\^59, got 9223372036854775808$",
        ),
        (
            {**LATENT, "kv_lora_rank": None, "v_head_dim": 2**59},
            r"^FLOPs per squared token of args must be .*, got \d+$",
        ),
    ],
    ids=str,
)
def test_a_model_of_absurd_size_is_refused(fields, message):
    args = {**DENSE, "num_query_groups": 1, "kv_channels": 1, "ffn_hidden_size": 1, "vocab_size": 1, **fields}
    for call in (lambda: PublishedFlops(args), lambda: calculate_fwd_flops([], args)):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("lengths", [[-1], [1.5], ["1"], [[1]]], ids=str)
def test_bad_lengths(lengths):
    with pytest.raises(ValueError, match="seqlens"):
        calculate_fwd_flops(lengths, DENSE)


def test_a_number_may_be_an_array_of_no_dimension():
    every_other = calculate_fwd_flops([7], {**MOE, "moe_layer_freq": 2})
    assert calculate_fwd_flops([7], {**MOE, "moe_layer_freq": np.array(2)}) == every_other


@pytest.mark.parametrize("kind", [dict, lambda args: SimpleNamespace(**args)], ids=["dict", "namespace"])
def test_arguments_may_change_between_calls(kind):
    fields = {**MOE, "moe_layer_freq": [0, 1]}
    args = kind(fields)
    values = args if isinstance(args, dict) else vars(args)
    assert calculate_fwd_flops([7], args) == calculate_fwd_flops([7], {**fields})
    values["moe_layer_freq"][0] = 1
    assert calculate_fwd_flops([7], args) == calculate_fwd_flops([7], {**fields, "moe_layer_freq": 1})
    values["hidden_size"] *= 2
    changed = {**fields, "moe_layer_freq": 1, "hidden_size": 2 * fields["hidden_size"]}
    assert calculate_fwd_flops([7], args) == calculate_fwd_flops([7], changed)
    values["moe_layer_freq"][0] = True
    with pytest.raises(ValueError, match=r"moe_layer_freq\[0\] must be a whole number, got True"):
        calculate_fwd_flops([7], args)


def test_arguments_of_a_schedule_may_change_between_calls():
    args = SimpleNamespace(**DENSE, use_dynamic_batch_size=True, balance_data=True, max_tokens_per_gpu=8)
    ranks = {"dp_size": 2, "cp_size": 1, "vpp_size": 1}

    def batches():
        lists = build_dp_schedule(args, ranks, [7, 2, 5, 4, 3], global_batch_size=5, rollout_indices=range(5))
        return [len(rank) for rank in lists[1]]

    assert batches() == batches() == [2, 2]
    args.max_tokens_per_gpu = 16
    assert batches() == [1, 1]
    ranks["dp_size"] = 4
    assert batches() == [1, 1, 1, 1]
