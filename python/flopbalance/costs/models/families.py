"""How the configurations of each family of Hugging Face models are read: one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from flopbalance.checks import as_count, shown
from flopbalance.fields import Fields

Rule: TypeAlias = Callable[[Fields, int], bool]
"""Whether a layer, given by its index, is of a kind."""


def _every_layer(fields: Fields, layer: int) -> bool:
    return True


def _even_layers(fields: Fields, layer: int) -> bool:
    return layer % 2 == 0


def _upper_layers(fields: Fields, layer: int) -> bool:
    return layer >= fields.size("max_window_layers", minimum=0)


def _even_lower_layers(fields: Fields, layer: int) -> bool:
    return layer % 2 == 0 and layer < fields.size("max_window_layers", minimum=0)


def _but_every(interval: str) -> Rule:
    """All layers but those at the end of an interval."""
    return lambda fields, layer: (layer + 1) % fields.size(interval) != 0


def _sparse_steps(fields: Fields, layer: int) -> bool:
    """Qwen's rule for experts."""
    dense = fields.get("mlp_only_layers") or ()
    if not isinstance(dense, list | tuple):
        raise ValueError(f"{fields.name('mlp_only_layers')} must be a list of layers, got {shown(dense)}")
    for i, one in enumerate(dense):
        as_count(one, f"{fields.name('mlp_only_layers')}[{i}]", minimum=0)
    return layer not in dense and (layer + 1) % fields.size("decoder_sparse_step") == 0


def _after_dense_layers(fields: Fields, layer: int) -> bool:
    """DeepSeek's rule for experts."""
    return layer >= fields.size("first_k_dense_replace", minimum=0) and layer % fields.size_or("moe_layer_freq", 1) == 0


@dataclass(frozen=True)
class ExpertFields:
    """What a family calls its experts."""

    layers: Rule = _every_layer
    count: str = "num_experts"
    width: str = "moe_intermediate_size"
    #: Total width of the shared experts, or their count.
    shared_width: str | None = None
    shared_count: str | None = None
    shared_gate: bool = False


@dataclass(frozen=True)
class Family:
    """How the configurations of a family are read."""

    experts: ExpertFields | None = None
    latent: bool = False
    #: Latent attention to the keys that an indexer chooses.
    sparse: bool = False
    output_gate: bool = False
    #: Whether no number of key/value groups may mean something else than one for each head.
    groups_needed: bool = False
    #: Layers that slide, or are linear, where no ``layer_types`` are given.
    sliding: Rule | None = None
    linear: Rule | None = None
    #: Values of fields that the family's configurations may leave out.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    #: The same inside a multimodal configuration, which stores only what differs from its class.
    nested_defaults: Mapping[str, Any] = field(default_factory=dict)
    #: Own names of fields.
    names: Mapping[str, str] = field(default_factory=dict)


_QWEN_WINDOW = {"use_sliding_window": False, "max_window_layers": 28}
_QWEN_EXPERTS = ExpertFields(_sparse_steps)
_QWEN_SHARED = replace(_QWEN_EXPERTS, shared_width="shared_expert_intermediate_size", shared_gate=True)
_DEEPSEEK_EXPERTS = ExpertFields(_after_dense_layers, count="n_routed_experts", shared_count="n_shared_experts")
_LOCAL_EXPERTS = ExpertFields(count="num_local_experts", width="intermediate_size")
_HYBRID = Family(
    output_gate=True,
    groups_needed=True,
    linear=_but_every("full_attention_interval"),
    defaults={"head_dim": 256, "full_attention_interval": 4, "decoder_sparse_step": 1},
)

_FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(sliding=_every_layer, defaults={"num_key_value_heads": 8, "sliding_window": 4096}),
    "mixtral": Family(_LOCAL_EXPERTS, sliding=_every_layer, defaults={"num_key_value_heads": 8}),
    "phi3": Family(sliding=_every_layer),
    "qwen2": Family(sliding=_upper_layers, defaults=_QWEN_WINDOW, groups_needed=True),
    "qwen2_moe": Family(
        _QWEN_SHARED,
        sliding=_even_lower_layers,
        defaults={**_QWEN_WINDOW, "decoder_sparse_step": 1},
        groups_needed=True,
    ),
    "qwen3": Family(sliding=_upper_layers, defaults={**_QWEN_WINDOW, "head_dim": 128}, groups_needed=True),
    "qwen3_moe": Family(
        _QWEN_EXPERTS,
        sliding=_every_layer,
        defaults={"use_sliding_window": False, "decoder_sparse_step": 1},
        groups_needed=True,
    ),
    "qwen3_next": replace(_HYBRID, experts=_QWEN_SHARED),
    "qwen3_5_text": _HYBRID,
    "qwen3_5_moe_text": replace(_HYBRID, experts=replace(_QWEN_SHARED, layers=_every_layer)),
    "mimo": Family(sliding=_upper_layers, defaults=_QWEN_WINDOW, groups_needed=True),
    "chatglm": Family(
        names={
            "num_layers": "num_hidden_layers",
            "multi_query_group_num": "num_key_value_heads",
            "kv_channels": "head_dim",
            "ffn_hidden_size": "intermediate_size",
            "padded_vocab_size": "vocab_size",
        }
    ),
    "glm": Family(defaults={"head_dim": 128}, groups_needed=True),
    "glm4": Family(defaults={"head_dim": 128}, groups_needed=True),
    "glm4_moe": Family(_DEEPSEEK_EXPERTS, groups_needed=True),
    "glm4_moe_lite": Family(_DEEPSEEK_EXPERTS, latent=True, defaults={"first_k_dense_replace": 1}),
    "glm_moe_dsa": Family(_DEEPSEEK_EXPERTS, latent=True, sparse=True, defaults={"first_k_dense_replace": 3}),
    "deepseek_v2": Family(_DEEPSEEK_EXPERTS, latent=True),
    "deepseek_v3": Family(_DEEPSEEK_EXPERTS, latent=True),
    "deepseek_v32": Family(_DEEPSEEK_EXPERTS, latent=True, sparse=True),
    "minimax_m2": Family(replace(_LOCAL_EXPERTS, shared_width="shared_intermediate_size"), groups_needed=True),
    "gpt_oss": Family(
        _LOCAL_EXPERTS,
        sliding=_even_layers,
        defaults={"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128},
    ),
    "gemma": Family(defaults={"head_dim": 256}, groups_needed=True),
    "gemma2": Family(
        sliding=_even_layers, defaults={"num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096}
    ),
    "gemma3_text": Family(
        sliding=_but_every("sliding_window_pattern"),
        defaults={
            "num_key_value_heads": 4,
            "head_dim": 256,
            "sliding_window": 4096,
            "sliding_window_pattern": 6,
        },
        nested_defaults={
            "hidden_size": 2304,
            "intermediate_size": 9216,
            "num_hidden_layers": 26,
            "num_attention_heads": 8,
            "vocab_size": 262_208,
        },
        names={"_sliding_window_pattern": "sliding_window_pattern"},
    ),
    "seed_oss": Family(defaults={"head_dim": 128}, groups_needed=True),
    "olmo2": Family(),
}

_ALIASES = {
    "gemma3": "gemma3_text",
    "glm4v": "glm4",
    "glm4v_text": "glm4",
    "glm4v_moe": "glm4_moe",
    "glm4v_moe_text": "glm4_moe",
    "kimi_k2": "deepseek_v3",
    "mistral3": "mistral",
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_vl_moe_text": "qwen3_moe",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
}


def known_family(model_type: str | None) -> Family | None:
    """Return how the configurations of a type are read; None where the type is not known."""
    return _FAMILIES.get(_ALIASES.get(model_type, model_type)) if model_type else None
