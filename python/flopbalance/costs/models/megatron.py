"""Reads a decoder from Megatron-style arguments."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from flopbalance.checks import as_count, shown
from flopbalance.costs.models.decoder import Attention, Decoder, DenseMLP, Experts, Indexer, LatentAttention, Layer
from flopbalance.costs.models.layers import count_layers, groups, head_dim, layer_kinds, mixers, sparse_attention
from flopbalance.costs.models.patterns import moe_layers, special_layers
from flopbalance.fields import Fields

# What makes a gated MLP; a trainer that knows none of these names has no other.
_GATED = ("swiglu", "quick_geglu", "gated_linear_unit")
# Layers of kinds whose cost the closed form does not know.
_OTHER_LAYERS = (
    "hybrid_override_pattern",
    "hybrid_layer_pattern",
    "heterogeneous_layers_config_path",
    "moe_latent_size",
)
# What names code that builds the layers, of whatever kind.
_OWN_LAYERS = ("spec", "custom_model_provider_path")


def read_megatron(args: Any) -> Decoder:
    """Read the decoder that a trainer builds from its arguments.

    Parameters
    ----------
    args : namespace or mapping
        A namespace or mapping with the trainer's names.

    Raises
    ------
    ValueError
        A field is missing or has no sensible value; the message names it.

    Warns
    -----
    UserWarning
        Code of the trainer's own builds the layers, and no field says how they attend, so that all count as in full.
    """
    fields = Fields(args, "args")
    for field in _OTHER_LAYERS:
        if fields.get(field):
            raise ValueError(f"{fields.name(field)} = {shown(fields.get(field))} has layers of unknown cost")
    num_layers, hidden = count_layers(fields, "num_layers"), fields.size("hidden_size")
    variant = _has_variant(fields)
    latent = fields.flag("multi_latent_attention")
    full = _latent_attention(fields, variant, num_layers) if latent else [_attention(fields, hidden)] * num_layers
    kinds = _kinds(fields, variant, num_layers)
    window = _window(fields) if "sliding_attention" in kinds else None
    attend = list(mixers(fields, kinds, full, window))
    if fields.get("layer_types") is None and all(getattr(mixer, "window", 0) is None for mixer in attend):
        _warn_of_own_layers(fields)
    layers = tuple(map(Layer, attend, _mlps(fields, num_layers)))
    return Decoder(hidden, fields.size("vocab_size", "padded_vocab_size"), layers)


def _warn_of_own_layers(fields: Fields) -> None:
    """Warn where the fields need not describe the layers; "local" are those of the trainer's library."""
    for field in _OWN_LAYERS:
        value = fields.get(field)
        named = value if isinstance(value, str) else " ".join(map(str, value or ()))
        if named and named != "local":
            warnings.warn(
                f"{fields.name(field)} = {named} may build other layers than the arguments tell, of which all count as "
                "full attention: FLOPs may be several times too many. The model's Hugging Face configuration "
                "(flops_model='hf_checkpoint' or CostModel.from_hf_config), a saved cost or an object with "
                "flops(lengths) tells them",
                stacklevel=2,
            )


def _attention(fields: Fields, hidden: int) -> Attention:
    heads = fields.size("num_attention_heads")
    # The trainer's default is one group, which counts only where grouping is switched on.
    grouped = fields.flag("group_query_attention", default=True)
    return Attention(
        heads=heads,
        groups=groups(fields, "num_query_groups", heads) if grouped else heads,
        head_dim=head_dim(fields, "kv_channels", hidden, heads),
        output_gate=fields.flag("attention_output_gate"),
    )


def _latent_attention(fields: Fields, variant: bool, num_layers: int) -> list[LatentAttention]:
    attention = LatentAttention(
        heads=fields.size("num_attention_heads"),
        query_rank=fields.size_or_none("q_lora_rank"),
        rank=fields.size("kv_lora_rank"),
        key_dim=fields.size("qk_head_dim"),
        rotary_dim=fields.size("qk_pos_emb_head_dim"),
        value_dim=fields.size("v_head_dim"),
    )
    chosen = ("dsa_index_topk", "dsa_indexer_topk")
    if all(fields.get(field) is None for field in chosen) or not variant:
        return [attention] * num_layers
    indexer = Indexer(
        heads=fields.size("dsa_index_n_heads", "dsa_indexer_n_heads"),
        head_dim=fields.size("dsa_index_head_dim", "dsa_indexer_head_dim"),
    )
    return sparse_attention(fields, replace(attention, window=fields.size(*chosen)), indexer, "dsa_index_", num_layers)


def _kinds(fields: Fields, variant: bool, num_layers: int) -> list[str]:
    """Kind of each layer: named, or by the trainer's interval between layers of full attention."""
    if fields.get("layer_types") is not None:
        return layer_kinds(fields, num_layers)
    kind, special = "full_attention", [False] * num_layers
    if fields.get("linear_attention_freq") is not None and variant:
        field = "linear_attention_freq"
        kind, special = "linear_attention", special_layers(fields.get(field), fields.name(field), num_layers)
    elif fields.get("window_size") is not None:
        field = "window_attn_skip_freq"
        kind, special = "sliding_attention", [True] * num_layers
        if fields.get(field) is not None:
            special = special_layers(fields.get(field), fields.name(field), num_layers)
    return [kind if differs else "full_attention" for differs in special]


def _has_variant(fields: Fields) -> bool:
    """Whether the fields of another attention count: some trainers set them always and switch them on by a name."""
    field = "experimental_attention_variant"
    if fields.get(field) not in (None, "gated_delta_net", "gdn", "dsa"):
        raise ValueError(f"{fields.name(field)} = {shown(fields.get(field))} has layers of unknown cost")
    return fields.get(field) is not None or not fields.has(field)


def _window(fields: Fields) -> int | None:
    """Keys that a token meets at most: ``(w, 0)`` is w before it and itself, a single number counts the token in."""
    window = fields.get("window_size")
    if not isinstance(window, list | tuple):
        return fields.size("window_size")
    name = fields.name("window_size")
    if len(window) != 2 or window[1] not in (0, -1):
        raise ValueError(f"{name} must be (keys before the token, 0), got {shown(window)}")
    before = as_count(window[0], f"{name}[0]", minimum=-1)
    return None if before == -1 else before + 1


def _mlps(fields: Fields, num_layers: int) -> list[DenseMLP | Experts]:
    switches = [field for field in _GATED if fields.has(field)]
    gated = any(fields.flag(field) for field in switches) or not switches
    counts = ("num_experts", "num_moe_experts")
    has_experts = any(fields.get(field) is not None for field in counts)
    moe = moe_layers(fields.get("moe_layer_freq"), num_layers) if has_experts else [False] * num_layers
    mlps: dict[bool, DenseMLP | Experts] = {}
    if False in moe:
        mlps[False] = DenseMLP(fields.size("ffn_hidden_size"), gated)
    if True in moe:
        mlps[True] = Experts(
            count=fields.size(*counts),
            chosen=fields.size("moe_router_topk"),
            width=fields.size("moe_ffn_hidden_size", "ffn_hidden_size"),
            shared_width=fields.size_or("moe_shared_expert_intermediate_size", 0, minimum=0),
            shared_gate=fields.flag("moe_shared_expert_gate"),
            gated=gated,
        )
    return [mlps[holds] for holds in moe]
