"""The exact cost model: the golden counts, the traps of real configurations, the laws that any cost keeps."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopbalance import CostModel, PublishedFlops
from flopbalance.costs.models.shapes import built_in_shapes

GOLDEN = json.loads((Path(__file__).parent / "golden" / "flops_dev.json").read_text())
CONFIGS = {record["model"]: record["config"] for record in GOLDEN}
HF_CONFIGS = {record["model"]: {"model_type": record["family"], **record["hf_config"]} for record in GOLDEN}

DENSE = {
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_query_groups": 2,
    "kv_channels": 16,
    "ffn_hidden_size": 160,
    "vocab_size": 100,
    "num_experts": None,
}
HF_DENSE = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 160,
    "vocab_size": 100,
}
MOE = {**DENSE, "num_experts": 8, "moe_ffn_hidden_size": 32, "moe_router_topk": 2}
LATENT = {
    "multi_latent_attention": True,
    "q_lora_rank": 24,
    "kv_lora_rank": 12,
    "qk_head_dim": 16,
    "qk_pos_emb_head_dim": 8,
    "v_head_dim": 20,
}
# What Megatron gives every model, latent or not.
LATENT_DEFAULTS = {"kv_lora_rank": 32, "qk_head_dim": 128, "qk_pos_emb_head_dim": 64, "v_head_dim": 128}


def tokens_of(model: CostModel, length: int) -> int:
    """The cost counted token by token: token i meets i keys, or as many as the window holds."""
    pairs = length * (length + 1) // 2
    windowed = sum(cost * min(i, window) for i in range(1, length + 1) for window, cost in model.windows)
    return (model.per_token + model.lm_head) * length + model.per_pair * pairs + windowed


# The golden counts


@pytest.mark.parametrize("reader", ["from_args", "from_hf_config"])
@pytest.mark.parametrize("record", GOLDEN, ids=lambda record: record["model"])
def test_golden_counts(record, reader):
    sources = {"from_args": SimpleNamespace(**record["config"]), "from_hf_config": HF_CONFIGS[record["model"]]}
    model = getattr(CostModel, reader)(sources[reader])
    lengths = [int(length) for length in record["exact_causal"]]
    assert model.flops(lengths).tolist() == [int(flops) for flops in record["exact_causal"].values()]
    coefficients = record["coefficients"]
    assert model.per_token == coefficients["per_token_excl_lm_head"]
    assert model.lm_head == coefficients["lm_head_per_token"]
    assert model.per_pair == coefficients["per_causal_pair"]
    assert model.windows == tuple((w["window"], w["per_pair"]) for w in coefficients["windowed"])


@pytest.mark.parametrize("record", GOLDEN, ids=lambda record: record["model"])
def test_golden_components(record):
    components = CostModel.from_args(record["config"]).components
    ours = sorted(part.per_token for part in components if part.per_token)
    assert ours == sorted(record["components"]["per_token"].values())


@pytest.mark.parametrize("record", GOLDEN, ids=lambda record: record["model"])
def test_golden_batches(record):
    model = CostModel.from_args(record["config"])
    for batch in record["batches"]:
        lengths = [length for length, count in batch["rle"] for _ in range(count)]
        assert model.total_flops(lengths) == int(batch["exact_causal"])


BUILT_IN = {
    "qwen2.5-7B": "Qwen2.5-7B",
    "qwen3-4B": "Qwen3-4B",
    "qwen3-8B": "Qwen3-8B",
    "qwen3-32B": "Qwen3-32B",
    "llama3.1-8B-Instruct": "Llama-3.1-8B",
    "glm4-9B": "GLM-4-9B-0414",
    "qwen3-30B-A3B": "Qwen3-30B-A3B",
    "glm4.5-106B-A12B": "GLM-4.5-Air-106B-A12B",
    "deepseek-v3": "DeepSeek-V3",
    "glm5-744B-A40B": "GLM-5-744B-A40B",
    "qwen3-next-80B-A3B": "Qwen3-Next-80B-A3B",
    "qwen3.5-35B-A3B": "Qwen3.5-35B-A3B",
}


@pytest.mark.parametrize(("name", "golden"), BUILT_IN.items())
def test_built_in_shapes_are_the_golden_ones(name, golden):
    assert CostModel.from_name(name.upper()) == CostModel.from_args(CONFIGS[golden])


def test_every_built_in_shape_is_read():
    assert len(built_in_shapes()) == 41
    for name in built_in_shapes():
        assert CostModel.from_name(name).flops([1000])[0] > 0


def test_hybrid_built_in_shapes_attend_in_full_on_every_fourth_layer():
    for name in ("qwen3.5-0.8B", "qwen3.5-4B", "qwen3.5-9B", "qwen3.5-27B"):
        names = [part.name for part in CostModel.from_name(name).components]
        assert {"delta net state", "attention output gate", "attention"} <= set(names)
    assert CostModel.from_name("qwen3.5-27B").per_pair == 16 * 2 * 24 * 2 * 256


def test_sparse_layers_share_an_indexer():
    alone, shared = CostModel.from_name("glm5-744B-A40B"), CostModel.from_name("glm5.2-744B-A40B")
    assert alone.windows == shared.windows
    assert shared.per_pair * 78 == alone.per_pair * 21


# The traps


def test_latent_fields_mean_nothing_without_the_switch():
    assert CostModel.from_args({**DENSE, **LATENT_DEFAULTS}) == CostModel.from_args(DENSE)
    off = {**DENSE, **LATENT, "multi_latent_attention": False}
    assert CostModel.from_args(off) == CostModel.from_args(DENSE)


def test_kv_channels_and_groups_mean_nothing_under_latent_attention():
    latent = CostModel.from_args({**DENSE, **LATENT})
    assert CostModel.from_args({**DENSE, **LATENT, "kv_channels": None, "num_query_groups": 1}) == latent
    query = 24 * 64 + 24 * 4 * (16 + 8)
    keys_and_values = 64 * (12 + 8) + 12 * 4 * (16 + 20)
    output = 4 * 20 * 64
    assert latent.per_token == 2 * 2 * (query + keys_and_values + output + 3 * 64 * 160)
    assert latent.per_pair == 2 * 2 * 4 * (16 + 8 + 20)


def test_latent_query_may_have_no_rank():
    model = CostModel.from_args({**DENSE, **LATENT, "q_lora_rank": None})
    ranked = CostModel.from_args({**DENSE, **LATENT})
    assert ranked.per_token - model.per_token == 2 * 2 * (24 * 64 + 24 * 96 - 64 * 96)


def test_one_query_group_counts_only_where_grouping_is_on():
    one = CostModel.from_args({**DENSE, "num_query_groups": 1})
    assert CostModel.from_args({**DENSE, "num_query_groups": 1, "group_query_attention": True}) == one
    plain = CostModel.from_args({**DENSE, "num_query_groups": 1, "group_query_attention": False})
    assert plain == CostModel.from_args({**DENSE, "num_query_groups": 4})
    assert plain.per_token > one.per_token


def test_unset_groups_and_channels_take_their_defaults():
    unset = {**DENSE, "num_query_groups": None, "kv_channels": None}
    assert CostModel.from_args(unset) == CostModel.from_args({**DENSE, "num_query_groups": 4, "kv_channels": 16})


@pytest.mark.parametrize("frequency", ["([0]*1+[1]*1)", "[0]+[1]", "[0, 1]", [0, 1], (0, 1), np.array([0, 1])], ids=str)
def test_all_spellings_of_expert_layers(frequency):
    half = CostModel.from_args({**MOE, "moe_layer_freq": frequency})
    dense, full = CostModel.from_args(DENSE), CostModel.from_args(MOE)
    assert 2 * half.per_token == dense.per_token + full.per_token


@pytest.mark.parametrize("frequency", [None, 1, "1", "[1]*2", "2*[1]", "([1])*2"])
def test_experts_in_every_layer(frequency):
    assert CostModel.from_args({**MOE, "moe_layer_freq": frequency}) == CostModel.from_args(MOE)


def test_an_integer_frequency_starts_with_experts():
    args = {**MOE, "num_layers": 5, "moe_layer_freq": 2}
    assert CostModel.from_args(args) == CostModel.from_args({**args, "moe_layer_freq": [1, 0, 1, 0, 1]})


def test_expert_width_defaults_to_the_dense_one():
    args = {**MOE, "moe_ffn_hidden_size": None}
    assert CostModel.from_args(args) == CostModel.from_args({**MOE, "moe_ffn_hidden_size": 160})


def test_an_ungated_mlp_has_two_matrices():
    gated = CostModel.from_args({**DENSE, "swiglu": True})
    assert gated == CostModel.from_args(DENSE)
    assert gated.per_token - CostModel.from_args({**DENSE, "swiglu": False}).per_token == 2 * 2 * 64 * 160
    assert CostModel.from_args({**DENSE, "swiglu": False, "quick_geglu": True}) == gated


def test_a_pair_window_counts_the_token_itself():
    sliding = {**DENSE, "layer_types": ["sliding_attention"] * 2}
    assert CostModel.from_args({**sliding, "window_size": (127, 0)}).windows == ((128, 2 * 2 * 4 * 2 * 16),)
    assert CostModel.from_args({**sliding, "window_size": 128}).windows == ((128, 2 * 2 * 4 * 2 * 16),)
    assert CostModel.from_args({**sliding, "window_size": (-1, 0)}) == CostModel.from_args(DENSE)


def test_windows_between_full_layers():
    args = {**DENSE, "num_layers": 5, "window_size": (7, 0)}
    one = 2 * 4 * 2 * 16
    assert CostModel.from_args(args).windows == ((8, 5 * one),)
    model = CostModel.from_args({**args, "window_attn_skip_freq": 2})
    assert (model.windows, model.per_pair) == (((8, 3 * one),), 2 * one)
    model = CostModel.from_args({**args, "window_attn_skip_freq": "[1]*4+[0]"})
    assert (model.windows, model.per_pair) == (((8, 4 * one),), one)


def test_linear_layers_between_full_ones():
    named = CONFIGS["Qwen3.5-35B-A3B"]
    by_interval = {**named, "layer_types": None, "linear_attention_freq": 4}
    assert CostModel.from_args(by_interval) == CostModel.from_args(named)
    off = {**by_interval, "experimental_attention_variant": None}
    assert CostModel.from_args(off).per_pair == 4 * CostModel.from_args(named).per_pair


def test_multi_token_prediction_counts_when_asked():
    args = {**MOE, "moe_layer_freq": [0, 1], "mtp_num_layers": 2}
    plain = CostModel.from_args(args)
    assert plain == CostModel.from_args({**args, "mtp_num_layers": None})
    two = CostModel.from_args(args, mtp_layers=2)
    last_layer = CostModel.from_args({**MOE, "num_layers": 1}).per_token
    assert two.per_token == plain.per_token + 2 * (last_layer + 2 * 2 * 64 * 64)
    assert two.lm_head == 3 * plain.lm_head
    assert two.per_pair == 2 * plain.per_pair


def test_padded_vocabulary():
    assert CostModel.from_args(DENSE, padded_vocab_size=128).lm_head == 2 * 64 * 128
    assert CostModel.from_hf_config(HF_DENSE, padded_vocab_size=128).lm_head == 2 * 64 * 128
    with pytest.raises(ValueError, match="padded_vocab_size must be >= 100, got 99"):
        CostModel.from_args(DENSE, padded_vocab_size=99)


# Hugging Face configurations


def test_mixtral_keeps_the_expert_width_in_intermediate_size():
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2}
    model = CostModel.from_hf_config({**HF_DENSE, "model_type": "mixtral", **experts})
    assert model == CostModel.from_args({**MOE, "moe_ffn_hidden_size": 160})


def test_minimax_experts():
    experts = {"num_local_experts": 8, "num_experts_per_tok": 2, "shared_intermediate_size": 0}
    model = CostModel.from_hf_config({**HF_DENSE, "model_type": "minimax_m2", **experts})
    assert model == CostModel.from_args({**MOE, "moe_ffn_hidden_size": 160})


def test_qwen_experts_skip_layers_and_share_with_a_gate():
    config = {
        **HF_DENSE,
        "model_type": "qwen2_moe",
        "num_hidden_layers": 6,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48,
        "decoder_sparse_step": 2,
        "mlp_only_layers": [3],
    }
    args = {
        **MOE,
        "num_layers": 6,
        "moe_layer_freq": [0, 1, 0, 0, 0, 1],
        "moe_shared_expert_intermediate_size": 48,
        "moe_shared_expert_gate": True,
    }
    assert CostModel.from_hf_config(config) == CostModel.from_args(args)


def test_qwen_experts_slide_on_even_lower_layers():
    config = {
        **HF_DENSE,
        "model_type": "qwen2_moe",
        "num_hidden_layers": 6,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "sliding_window": 9,
        "use_sliding_window": True,
        "max_window_layers": 3,
    }
    model = CostModel.from_hf_config(config)
    assert (model.windows, model.per_pair) == (((9, 2 * ONE_LAYER),), 4 * ONE_LAYER)


def test_deepseek_counts_its_shared_experts():
    config = {
        **HF_DENSE,
        "model_type": "deepseek_v2",
        "num_hidden_layers": 4,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "q_lora_rank": None,
        "kv_lora_rank": 12,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 20,
    }
    args = {**MOE, **LATENT, "num_layers": 4, "q_lora_rank": None, "moe_layer_freq": "[0]+[1]*3"}
    model = CostModel.from_args({**args, "moe_shared_expert_intermediate_size": 64})
    assert CostModel.from_hf_config(config) == model
    assert CostModel.from_hf_config({**config, "model_type": "kimi_k2"}) == model
    types = {**config, "mlp_layer_types": ["dense", *["sparse"] * 3]}
    lite = {**config, "model_type": "glm4_moe_lite"}
    del types["first_k_dense_replace"], lite["first_k_dense_replace"]
    assert CostModel.from_hf_config(types) == model
    assert CostModel.from_hf_config(lite) == model
    with pytest.raises(ValueError, match=r"config\.first_k_dense_replace is missing"):
        CostModel.from_hf_config({**lite, "model_type": "deepseek_v3"})


ONE_LAYER = 2 * 4 * 2 * 16


@pytest.mark.parametrize(
    ("family", "fields", "sliding"),
    [
        ("mistral", {}, range(6)),
        ("mistral", {"sliding_window": None}, ()),
        ("phi3", {}, ()),
        ("phi3", {"sliding_window": 9}, range(6)),
        ("mixtral", {"sliding_window": 9, "num_local_experts": 8, "num_experts_per_tok": 2}, range(6)),
        ("qwen2", {"sliding_window": 9}, ()),
        ("qwen2", {"sliding_window": 9, "use_sliding_window": False, "max_window_layers": 0}, ()),
        ("qwen2", {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 4}, (4, 5)),
        ("qwen3", {"sliding_window": 9, "use_sliding_window": True, "max_window_layers": 4}, (4, 5)),
        ("mimo", {"sliding_window": 9, "use_sliding_window": False}, ()),
        ("gemma2", {"sliding_window": 9}, (0, 2, 4)),
        ("gemma3_text", {"sliding_window": 9}, (0, 1, 2, 3, 4)),
        ("gemma3_text", {"sliding_window": 9, "sliding_window_pattern": 3}, (0, 1, 3, 4)),
        ("gemma3_text", {"sliding_window": 9, "_sliding_window_pattern": 3}, (0, 1, 3, 4)),
        ("gpt_oss", {"sliding_window": 9, "num_local_experts": 8, "experts_per_token": 2}, (0, 2, 4)),
        ("olmo2", {}, ()),
        ("seed_oss", {}, ()),
        ("glm4", {}, ()),
        (
            "gemma2",
            {"sliding_window": 9, "layer_types": ["full_attention"] * 5 + ["sliding_attention"]},
            (5,),
        ),
    ],
)
def test_layers_that_slide(family, fields, sliding):
    model = CostModel.from_hf_config({**HF_DENSE, "model_type": family, "num_hidden_layers": 6, **fields})
    assert model.per_pair == (6 - len(sliding)) * ONE_LAYER
    window = fields.get("sliding_window", 4096)
    assert model.windows == (((window, len(sliding) * ONE_LAYER),) if sliding else ())


@pytest.mark.parametrize(("family", "size"), [("llama", 16), ("qwen3", 128), ("gemma2", 256), ("qwen2", 16)])
def test_head_size_that_a_configuration_leaves_out(family, size):
    config = {**HF_DENSE, "model_type": family, "sliding_window": None}
    del config["head_dim"]
    assert CostModel.from_hf_config(config).per_pair == 2 * 2 * 4 * 2 * size


def test_sliding_layers_need_a_window():
    types = ["full_attention", "sliding_attention"]
    with pytest.raises(ValueError, match=r"config\.sliding_window is missing"):
        CostModel.from_hf_config({**HF_DENSE, "layer_types": types})
    off = {**HF_DENSE, "layer_types": types, "sliding_window": 9, "use_sliding_window": False}
    assert CostModel.from_hf_config(off) == CostModel.from_hf_config(HF_DENSE)


def test_a_null_head_size_is_an_equal_share():
    config = {**HF_DENSE, "model_type": "mistral", "head_dim": None}
    assert CostModel.from_hf_config(config) == CostModel.from_hf_config({**HF_DENSE, "model_type": "mistral"})


def test_text_part_of_a_multimodal_configuration():
    text = {**HF_CONFIGS["Gemma-3-27B"]}
    del text["vocab_size"]  # as stored: what equals the default of the class is left out
    model = CostModel.from_hf_config({"model_type": "gemma3", "text_config": text, "vision_config": {"depth": 27}})
    assert model == CostModel.from_args(CONFIGS["Gemma-3-27B"])
    assert model.notes == ("the vision tower is not counted",)
    assert "the vision tower is not counted" in model.describe()


def test_a_multimodal_configuration_names_the_type_of_its_text():
    text = {name: value for name, value in HF_CONFIGS["Qwen3.5-35B-A3B"].items() if name != "model_type"}
    model = CostModel.from_hf_config({"model_type": "qwen3_5_moe", "text_config": text})
    assert model == CostModel.from_args(CONFIGS["Qwen3.5-35B-A3B"])


def test_hybrid_interval():
    config = {**HF_CONFIGS["Qwen3-Next-80B-A3B"], "full_attention_interval": 2}
    assert CostModel.from_hf_config(config).per_pair == 24 * 2 * 16 * 2 * 256


def test_indexers_by_pattern_by_type_and_by_frequency():
    config = HF_CONFIGS["GLM-5-744B-A40B"]
    by_frequency = CostModel.from_hf_config({**config, "index_topk_freq": 4, "index_skip_topk_offset": 3})
    assert by_frequency == CostModel.from_name("glm5.2-744B-A40B")
    modes = ["full" if max(layer - 2, 0) % 4 == 0 else "shared" for layer in range(78)]
    assert CostModel.from_hf_config({**config, "indexer_types": modes}) == by_frequency
    pattern = "".join(mode[0].upper() for mode in modes)
    assert CostModel.from_hf_config({**config, "index_topk_pattern": pattern}) == by_frequency


def test_configurations_in_files_and_objects(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(HF_DENSE))
    model = CostModel.from_hf_config(HF_DENSE)
    assert CostModel.from_hf_config(tmp_path) == model
    assert CostModel.from_hf_config(str(tmp_path / "config.json")) == model
    assert CostModel.from_hf_config(SimpleNamespace(to_dict=lambda: HF_DENSE)) == model


def test_an_unknown_plain_decoder_is_read_with_a_warning():
    with pytest.warns(UserWarning, match="model_type 'newcomer' is not known: read as a plain decoder"):
        model = CostModel.from_hf_config({**HF_DENSE, "model_type": "newcomer"})
    assert model == CostModel.from_hf_config(HF_DENSE)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_experts": 8}, "config.num_experts is no field of a plain decoder"),
        ({"kv_lora_rank": 8}, "config.kv_lora_rank is no field of a plain decoder"),
        ({"ssm_state_size": 8}, "config.ssm_state_size is no field of a plain decoder"),
        ({"hidden_act": "relu2"}, "config.hidden_act = 'relu2' leaves open"),
        ({"sliding_window": 8}, "config.layer_types does not say which layers slide"),
        ({"model_type": "bert"}, "model_type 'bert' is not a decoder"),
        ({"model_type": "xlm-roberta"}, "not a decoder"),
        ({"is_encoder_decoder": True}, "not a decoder"),
        ({"architectures": ["NewcomerForMaskedLM"]}, "not a decoder"),
    ],
)
def test_an_unknown_model_that_is_no_plain_decoder_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        CostModel.from_hf_config({**HF_DENSE, "model_type": "newcomer", **fields})


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"model_type": np.zeros((2, 2))}, "config.model_type must be a text, got array"),
        ({"model_type": "new\ncomer", "num_experts": 3}, "model_type 'new\\\\ncomer' is not known"),
        ({"architectures": np.zeros((2, 2))}, "config.architectures must be a list, got array"),
        ({"layer_types": np.zeros((2, 2))}, "config.layer_types must be a list, got array"),
        ({"is_causal": np.zeros((2, 2))}, "config.is_causal must be True or False, got array"),
        ({"hidden_act": np.zeros((2, 2))}, "config.hidden_act = array"),
        ({"is_encoder_decoder": np.zeros((2, 2))}, "config.is_encoder_decoder must be True or False, got array"),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:model_type 'newcomer'")
def test_arrays_are_shown_on_one_line(fields, named):
    with pytest.raises(ValueError, match=named) as refusal:
        CostModel.from_hf_config({**HF_DENSE, "model_type": "newcomer", **fields})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "field", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen3", "gemma3_text", "newcomer"])
@pytest.mark.filterwarnings("ignore:model_type 'newcomer'")
def test_a_missing_field_is_named(family, field):
    config = {**HF_DENSE, "model_type": family}
    del config[field]
    with pytest.raises(ValueError, match=f"config.{field} is missing"):
        CostModel.from_hf_config(config)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "config.json: must hold a JSON object, got list"),
        ('{"hidden_size": 64', "config.json: line 1, column 19: expected JSON, found the end"),
        ("", "config.json: line 1, column 1: expected JSON, found the end"),
        ("[" * 100_000, "config.json: line 1: expected JSON of a usual depth and size"),
        ("\udcff", "config.json: line 1: expected UTF-8 text, found byte 0xff"),
    ],
    ids=["list", "truncated", "empty", "nested", "not UTF-8"],
)
def test_files_that_hold_no_configuration(tmp_path, content, message):
    (tmp_path / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message) as refusal:
        CostModel.from_hf_config(tmp_path)
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="nowhere: No such file"):
        CostModel.from_hf_config(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="config must be a mapping, a path or have to_dict"):
        CostModel.from_hf_config(3)


# Bad arguments


@pytest.mark.parametrize(
    ("family", "missing"),
    [
        ("minimax_m2", "num_local_experts"),
        ("gpt_oss", "num_local_experts"),
        ("mixtral", "num_local_experts"),
        ("qwen3_moe", "num_experts"),
        ("glm4_moe", "n_routed_experts"),
    ],
)
def test_missing_experts_are_called_as_the_family_does(family, missing):
    config = {**HF_DENSE, "model_type": family, "first_k_dense_replace": 0, "moe_intermediate_size": 64}
    config |= {"n_shared_experts": 0, "num_experts_per_tok": 2}
    with pytest.raises(ValueError, match=f"^config.{missing} is missing$"):
        CostModel.from_hf_config(config)
    assert CostModel.from_hf_config({**config, missing: 4}).per_token > 0


def test_missing_fields_are_called_as_the_family_does():
    with pytest.raises(ValueError, match=r"^config\.num_layers is missing$"):
        CostModel.from_hf_config({"model_type": "chatglm", "hidden_size": 16, "num_attention_heads": 2})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"hidden_size": -64}, "args.hidden_size must be >= 1, got -64"),
        ({"hidden_size": 64.5}, "args.hidden_size must be a whole number, got 64.5"),
        ({"hidden_size": True}, "args.hidden_size must be a whole number, got True"),
        ({"hidden_size": None}, "args.hidden_size must be a whole number, got None"),
        ({"hidden_size": "64"}, "args.hidden_size must be a whole number, got '64'"),
        ({"hidden_size": 2**60}, "per_token must be below 2"),
        ({"num_layers": 0}, "args.num_layers must be >= 1, got 0"),
        ({"num_query_groups": 3}, "num_attention_heads = 4 must be a multiple of args.num_query_groups = 3"),
        ({"num_attention_heads": 3, "num_query_groups": 3, "kv_channels": None}, "args.kv_channels is not set"),
        ({"swiglu": 2}, "args.swiglu must be True or False, got 2"),
        ({"multi_latent_attention": "yes"}, "args.multi_latent_attention must be True or False, got 'yes'"),
        ({"multi_latent_attention": True}, "args.q_lora_rank is missing"),
        ({"layer_types": ["full_attention"]}, "args.layer_types must have an entry for each of 2 layers, got 1"),
        ({"layer_types": ["full_attention", "conv"]}, r"args.layer_types\[1\] must be one of .* got 'conv'"),
        ({"layer_types": 3}, "args.layer_types must be a list with an entry per layer, got 3"),
        ({"layer_types": ["linear_attention"] * 2}, "args.linear_num_key_heads is missing"),
        ({"layer_types": ["sliding_attention"] * 2}, "args.window_size is missing"),
        ({"window_size": (8, 8)}, r"args.window_size must be \(keys before the token, 0\)"),
        ({"window_size": (-2, 0)}, r"args.window_size\[0\] must be >= -1, got -2"),
        ({"hybrid_override_pattern": "M-M*"}, "args.hybrid_override_pattern = 'M-M\\*' has layers of unknown cost"),
        ({"experimental_attention_variant": "other"}, "has layers of unknown cost"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        CostModel.from_args({**DENSE, **fields})


@pytest.mark.parametrize(
    "frequency",
    [
        "__import__('os').system('true')",
        "[1]*2 if True else [0]",
        "[x for x in (1, 2)]",
        "([1]*2",
        "[[1]*2]",
        "[1]-[0]",
        "[1]*-2",
        "[1.0]*2",
        "[True]*2",
        "[1]*[2]",
        "[1]**2",
        "",
        "abc",
        "[1]*999999999999",
        "(" * 5000,
        "1.5",
        "\0",
    ],
)
def test_patterns_are_parsed_never_run(frequency):
    with pytest.raises(ValueError, match="moe_layer_freq must"):
        CostModel.from_args({**MOE, "moe_layer_freq": frequency})


@pytest.mark.parametrize(
    ("frequency", "message"),
    [
        (0, "moe_layer_freq must be >= 1, got 0"),
        (-1, "moe_layer_freq must be >= 1, got -1"),
        (True, "moe_layer_freq must be a whole number, got True"),
        (1.5, "moe_layer_freq must be a whole number, got 1.5"),
        ("0", "moe_layer_freq must be >= 1, got 0"),
        ([1], "moe_layer_freq must have an entry for each of 2 layers, got 1"),
        ("[0]+[1]*45", "moe_layer_freq must have an entry for each of 2 layers, got 46"),
        ([1, -1], r"moe_layer_freq\[1\] must be >= 0, got -1"),
        ([1, True], r"moe_layer_freq\[1\] must be a whole number, got True"),
        ([], "moe_layer_freq must have an entry for each of 2 layers, got 0"),
    ],
)
def test_bad_frequencies(frequency, message):
    with pytest.raises(ValueError, match=message):
        CostModel.from_args({**MOE, "moe_layer_freq": frequency})


def test_a_missing_argument_is_named():
    for field in ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "vocab_size"):
        args = {name: value for name, value in DENSE.items() if name != field}
        with pytest.raises(ValueError, match=f"args.{field} is missing"):
            CostModel.from_args(SimpleNamespace(**args))


def test_an_unknown_name_lists_its_neighbours():
    with pytest.raises(ValueError, match=r"model must be a built-in shape, got 'qwen3-9b'; near it: .*qwen3-8B"):
        CostModel.from_name("qwen3-9b")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"per_token": -1}, "per_token must be >= 0, got -1"),
        ({"per_token": 1.5}, "per_token must be a whole number, got 1.5"),
        ({"per_token": 1, "per_pair": 2**59}, "per_pair must be below 2"),
        ({"per_token": 1, "windows": ((0, 1),)}, r"windows\[0\]\[0\] must be >= 1, got 0"),
        ({"per_token": 1, "windows": ((1, -1),)}, r"windows\[0\]\[1\] must be >= 0, got -1"),
    ],
)
def test_bad_coefficients(values, message):
    with pytest.raises(ValueError, match=message):
        CostModel(**values)


# Lengths


MODEL = CostModel(per_token=24576, per_pair=2, lm_head=8, windows=((100, 6), (1000, 4)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_any_integer_type_gives_the_same_cost(dtype):
    lengths = [0, 1, 100]
    assert MODEL.flops(np.array(lengths, dtype=dtype)).tolist() == [tokens_of(MODEL, length) for length in lengths]


def test_int32_lengths_do_not_overflow_when_squared():
    model = CostModel(per_token=24575, per_pair=2)  # 24576 L + L²
    lengths = np.array([35_655, 100_000], dtype=np.int32)
    assert model.flops(lengths).tolist() == [24576 * n + n * n for n in (35_655, 100_000)]


def test_no_sequence_costs_nothing():
    assert MODEL.flops([]).tolist() == []
    assert MODEL.total_flops([]) == 0
    assert MODEL.weights([]).tolist() == []


def test_a_sequence_beyond_64_bits_is_refused_by_index_and_length():
    model = CostModel.from_name("deepseek-v3")
    with pytest.raises(OverflowError, match=r"lengths\[2\] = 10000000 costs more FLOPs"):
        model.flops([1, 1_000_000, 10_000_000])
    assert model.total_flops([10_000_000]) > 2**63
    assert model.weights([10_000_000])[0] > 2**63


@pytest.mark.parametrize("lengths", [[3, -1], [1.5], ["a"], [[1, 2]], None], ids=str)
def test_bad_lengths(lengths):
    for method in (MODEL.flops, MODEL.total_flops, MODEL.weights):
        with pytest.raises(ValueError, match="lengths"):
            method(lengths)


def test_a_batch_needs_more_than_64_bits():
    model = CostModel.from_name("deepseek-v3")
    total = model.total_flops(np.full(100_000, 1_000_000))
    assert total == 100_000 * int(model.flops([1_000_000])[0])
    assert total.bit_length() == 78


# Training steps


@pytest.mark.parametrize(
    ("options", "linear", "head", "pair"),
    [
        ({}, 3, 3, 3.5),
        ({"flash_attention": False}, 3, 3, 3),
        ({"recompute": "full"}, 4, 3, 4.5),
        ({"recompute": "full", "flash_attention": False}, 4, 3, 4),
        ({"recompute": "selective"}, 3, 3, 4.5),
        ({"phase": "forward"}, 1, 1, 1),
        ({"phase": "forward", "recompute": "full"}, 1, 1, 1),
    ],
)
def test_weights_of_a_step(options, linear, head, pair):
    assert CostModel(per_token=10).weights([7], **options).tolist() == [70 * linear]
    assert CostModel(per_token=0, lm_head=10).weights([7], **options).tolist() == [70 * head]
    assert CostModel(per_token=0, per_pair=10).weights([7], **options).tolist() == [280 * pair]
    assert CostModel(per_token=0, windows=((3, 10),)).weights([7], **options).tolist() == [180 * pair]


@pytest.mark.parametrize("options", [{"phase": "backward"}, {"recompute": "some"}, {"recompute": True}])
def test_bad_options_of_a_step(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        MODEL.weights([7], **options)


# Words


def test_repr_makes_the_model_again():
    for name in ("qwen3-8b", "glm5-744b-a40b"):
        model = CostModel.from_name(name)
        assert eval(repr(model)) == model
        assert pickle.loads(pickle.dumps(model)) == model


def test_a_model_is_frozen():
    with pytest.raises(AttributeError):
        MODEL.per_token = 1


def test_description_sums_to_the_model():
    model = CostModel.from_name("qwen3-next-80b-a3b")
    text = model.describe()
    for part in model.components:
        assert part.name in text
    assert sum(part.per_token for part in model.components) == model.per_token + model.lm_head


@pytest.mark.parametrize(
    ("model", "length"),
    [
        (CostModel(per_token=100, per_pair=10), 19),
        (CostModel(per_token=0, per_pair=10), 1),
        (CostModel(per_token=100), None),
        (CostModel(per_token=100, windows=((9, 10),)), None),
        (CostModel(per_token=100, windows=((30, 10),)), 19),
    ],
)
def test_length_where_attention_overtakes_the_rest(model, length):
    assert model.overtaking_length == length
    if length is None:
        assert "never" in model.describe()
    else:
        assert f"from {length} tokens on" in model.describe()


# Laws

SIZES = st.integers(1, 2**40)
WINDOWS = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 2**30)), max_size=3).map(tuple)
MODELS = st.builds(CostModel, per_token=SIZES, lm_head=SIZES, per_pair=st.integers(0, 2**30), windows=WINDOWS)


@given(MODELS, st.lists(st.integers(0, 400), max_size=8))
def test_flops_equal_a_count_token_by_token(model, lengths):
    assert model.flops(lengths).tolist() == [tokens_of(model, length) for length in lengths]


@given(MODELS, st.lists(st.integers(0, 10_000)), st.lists(st.integers(0, 10_000)))
def test_cost_is_additive_over_sequences(model, some, others):
    assert model.total_flops(some + others) == model.total_flops(some) + model.total_flops(others)
    assert model.total_flops(some) == sum(model.flops(some).tolist())


@given(MODELS, st.integers(0, 100_000), st.integers(1, 1000))
def test_cost_is_monotone_in_length(model, length, more):
    assert model.total_flops([length]) < model.total_flops([length + more])
    assert model.total_flops([length, more]) <= model.total_flops([length + more])


@given(st.integers(1, 1000), st.integers(0, 2**30), st.integers(0, 5000))
def test_a_window_costs_no_more_than_attention_in_full(window, cost, length):
    windowed = CostModel(per_token=1, windows=((window, cost),)).total_flops([length])
    full = CostModel(per_token=1, per_pair=cost).total_flops([length])
    assert windowed <= full
    if length <= window:
        assert windowed == full


@st.composite
def decoders(draw: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """One decoder as Megatron-style arguments and as a Hugging Face configuration."""
    size = st.integers(1, 64)
    groups, per_group, layers = draw(size), draw(st.integers(1, 8)), draw(st.integers(1, 12))
    shared = {
        "hidden_size": draw(size),
        "num_attention_heads": groups * per_group,
        "vocab_size": draw(size),
    }
    args = {**shared, "num_layers": layers, "num_query_groups": groups, "kv_channels": draw(size)}
    config = {
        **shared,
        "num_hidden_layers": layers,
        "num_key_value_heads": groups,
        "head_dim": args["kv_channels"],
    }
    family = draw(
        st.sampled_from(["llama", "gemma2", "gpt_oss", "qwen2_moe", "deepseek_v3", "qwen3_next", "glm_moe_dsa"])
    )
    config["model_type"] = family
    args["ffn_hidden_size"] = config["intermediate_size"] = draw(size)
    if family in ("gemma2", "gpt_oss"):
        args["layer_types"] = [("sliding_attention", "full_attention")[layer % 2] for layer in range(layers)]
        args["window_size"] = config["sliding_window"] = draw(size)
    if family == "qwen3_next":
        args["layer_types"] = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(layers)]
        args["attention_output_gate"] = True
        linear = ("conv_kernel_dim", "key_head_dim", "value_head_dim", "num_key_heads", "num_value_heads")
        for name in linear:
            args[f"linear_{name}"] = config[f"linear_{name}"] = draw(size)
    if family in ("gpt_oss", "qwen2_moe", "qwen3_next", "deepseek_v3", "glm_moe_dsa"):
        args["num_experts"] = config["num_experts"] = draw(size)
        args["moe_router_topk"] = config["num_experts_per_tok"] = draw(size)
        args["moe_ffn_hidden_size"] = args["ffn_hidden_size"]
    if family in ("qwen2_moe", "qwen3_next", "deepseek_v3", "glm_moe_dsa"):
        args["moe_ffn_hidden_size"] = config["moe_intermediate_size"] = draw(size)
    if family in ("qwen2_moe", "qwen3_next"):
        shared_width = draw(size)
        args["moe_shared_expert_intermediate_size"] = config["shared_expert_intermediate_size"] = shared_width
        args["moe_shared_expert_gate"] = True
        step = config["decoder_sparse_step"] = draw(st.integers(1, 4))
        args["moe_layer_freq"] = [int((layer + 1) % step == 0) for layer in range(layers)]
    if family in ("deepseek_v3", "glm_moe_dsa"):
        experts = config["n_shared_experts"] = draw(st.integers(0, 3))
        args["moe_shared_expert_intermediate_size"] = experts * args["moe_ffn_hidden_size"]
        dense = config["first_k_dense_replace"] = draw(st.integers(0, layers))
        args["moe_layer_freq"] = f"([0]*{dense}+[1]*{layers - dense})"
        args["multi_latent_attention"] = True
        args["q_lora_rank"] = config["q_lora_rank"] = draw(st.none() | size)
        for own, theirs in {
            "kv_lora_rank": "kv_lora_rank",
            "qk_head_dim": "qk_nope_head_dim",
            "qk_pos_emb_head_dim": "qk_rope_head_dim",
            "v_head_dim": "v_head_dim",
        }.items():
            args[own] = config[theirs] = draw(size)
    if family == "glm_moe_dsa":
        for name in ("topk", "head_dim", "n_heads"):
            args[f"dsa_index_{name}"] = config[f"index_{name}"] = draw(size)
    return args, config


@given(decoders())
def test_both_readers_agree(pair):
    args, config = pair
    from_args, from_config = CostModel.from_args(args), CostModel.from_hf_config(config)
    assert from_args == from_config
    assert from_args.components == from_config.components


# Hostile input


@pytest.mark.parametrize("text", ["+".join(["[1]"] * 300_000), "[1]" + "*1" * 300_000, "1" + "()" * 300_000])
def test_long_patterns_never_reach_the_parser(text):
    with pytest.raises(ValueError, match="moe_layer_freq must be a whole number or lists joined by"):
        CostModel.from_args({**MOE, "moe_layer_freq": text})


def test_coefficients_of_numpy_count_as_exactly_as_others():
    lengths = [10**9] * 100_000
    model = CostModel(np.int64(10**15), np.int32(7), np.int64(3), [(np.int64(128), np.int32(5))])
    assert model == CostModel(10**15, 7, 3, ((128, 5),))
    assert model.total_flops(lengths) == CostModel(10**15, 7, 3, ((128, 5),)).total_flops(lengths) > 2**64
    assert all(type(value) is int for value in (model.per_token, model.lm_head, model.per_pair, *model.windows[0]))


@pytest.mark.parametrize("windows", [None, 5, ((5,),), "ab", ((1, 2, 3),)])
def test_what_are_no_windows_is_refused(windows):
    with pytest.raises(ValueError, match="windows must be pairs"):
        CostModel(1, windows=windows)


@pytest.mark.parametrize("layers", [10_001, 300_000_000, 2**40])
def test_too_many_layers_are_refused_before_they_fill_memory(layers):
    with pytest.raises(ValueError, match=f"args.num_layers must be <= 10,000, got {layers}"):
        CostModel.from_args({**DENSE, "num_layers": layers})
    with pytest.raises(ValueError, match=f"args.num_layers must be <= 10,000, got {layers}"):
        PublishedFlops({**DENSE, "num_layers": layers})
    with pytest.raises(ValueError, match=f"config.num_hidden_layers must be <= 10,000, got {layers}"):
        CostModel.from_hf_config({**HF_DENSE, "num_hidden_layers": layers})
    with pytest.raises(ValueError, match=f"mtp_layers must be <= 10,000, got {layers}"):
        CostModel.from_args(DENSE, mtp_layers=layers)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"model_type": ["llama"]}, r"config.model_type must be a text, got \['llama'\]"),
        ({"model_type": {}}, "config.model_type must be a text"),
        ({"layer_types": 5}, "config.layer_types must be a list, got 5"),
        ({"architectures": 5}, "config.architectures must be a list, got 5"),
        ({"model_type": "qwen2_moe", "mlp_only_layers": 5}, "config.mlp_only_layers must be a list of layers, got 5"),
        (
            {"model_type": "qwen2_moe", "mlp_only_layers": ["0"]},
            r"config.mlp_only_layers\[0\] must be a whole number, got '0'",
        ),
        (
            {"model_type": "glm4_moe", "mlp_layer_types": ["dense", "thin"]},
            r"mlp_layer_types\[1\] must be dense or sparse",
        ),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention = True: the model is not a decoder"),
        ({"model_type": "qwen2", "is_causal": False}, "config.is_causal = False: the model is not a decoder"),
        ({"architectures": ["LlamaBidirectionalModel"]}, "'LlamaBidirectionalModel' is not a decoder"),
    ],
    ids=str,
)
def test_fields_of_the_wrong_kind_are_named(fields, message):
    with pytest.raises(ValueError, match=message):
        CostModel.from_hf_config({**HF_DENSE, **fields})


def test_other_wrong_types_are_refused_by_name():
    with pytest.raises(ValueError, match="model must be the name of a built-in shape, got None"):
        CostModel.from_name(None)
    with pytest.raises(ValueError, match=r"recompute must be .* got \[\]"):
        CostModel(1).weights([1], recompute=[])


def test_absent_groups_are_those_of_the_class_or_refused():
    config = {name: value for name, value in HF_DENSE.items() if name != "num_key_value_heads"}
    config |= {"num_attention_heads": 16, "num_local_experts": 4, "num_experts_per_tok": 2}
    heads = {
        "llama": 16,
        "mistral": 8,
        "mixtral": 8,
        "gpt_oss": 8,
        "gemma2": 4,
        "gemma3_text": 4,
        "olmo2": 16,
        "phi3": 16,
    }
    for family, groups in heads.items():
        described = {**config, "model_type": family}
        assert CostModel.from_hf_config(described) == CostModel.from_hf_config(
            {**described, "num_key_value_heads": groups}
        )
    for family in ("qwen2", "qwen3", "glm4", "seed_oss", "mimo"):
        described = {**config, "model_type": family}
        with pytest.raises(ValueError, match=r"config\.num_key_value_heads is missing"):
            CostModel.from_hf_config(described)
        assert CostModel.from_hf_config({**described, "num_key_value_heads": None}) == CostModel.from_hf_config(
            {**described, "num_key_value_heads": 16}
        )


def test_chatglm_without_shared_groups_has_one_for_each_head():
    config = {"model_type": "chatglm", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "kv_channels": 16}
    config |= {"ffn_hidden_size": 160, "padded_vocab_size": 100, "multi_query_group_num": 2}
    alone = CostModel.from_hf_config({**config, "multi_query_attention": False})
    assert alone == CostModel.from_hf_config({**config, "multi_query_group_num": 4})
    assert alone != CostModel.from_hf_config({**config, "multi_query_attention": True})
