"""Reads a decoder from a Hugging Face configuration, without transformers."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flopbalance.checks import shown
from flopbalance.costs.models.decoder import Attention, Decoder, DenseMLP, Experts, Indexer, LatentAttention, Layer
from flopbalance.costs.models.families import Family, known_family
from flopbalance.costs.models.layers import count_layers, groups, head_dim, layer_kinds, mixers, sparse_attention
from flopbalance.documents import read_json
from flopbalance.fields import Fields

CONFIG_NAME = "config.json"
"""Of the file that holds the configuration, in its folder."""


def read_hugging_face(config: Any) -> Decoder:
    """Read the decoder of a configuration; of a multimodal one, its text part.

    Parameters
    ----------
    config : mapping, path or object
        A mapping, the path of a ``config.json`` or of its folder, or an object with ``to_dict()``.

    Raises
    ------
    ValueError
        The file holds no configuration, the model is not a decoder or one of unknown cost, a field is missing or has no
        sensible value; the message names it.

    Warns
    -----
    UserWarning
        The ``model_type`` is not known and the fields are read as those of a plain decoder.
    """
    whole = _as_mapping(config)
    text = whole.get("text_config")
    values = {"model_type": whole["model_type"], **text} if isinstance(text, Mapping) else whole
    nested = values is not whole
    _check_kind(values)
    family = known_family(values["model_type"]) or _plain_family(values)
    own_names = {standard: values[own] for own, standard in family.names.items() if own in values}
    called = {standard: own for own, standard in family.names.items() if standard not in values}
    defaults = {**family.defaults, **(family.nested_defaults if nested else {})}
    fields = Fields({**defaults, **values, **own_names}, "config", called)
    num_layers, hidden = count_layers(fields, "num_hidden_layers"), fields.size("hidden_size")
    window = _window(fields)
    kinds = _kinds(fields, family, num_layers, window)
    full = (_latent_attention if family.latent else _attention)(fields, family, num_layers)
    layers = tuple(map(Layer, mixers(fields, kinds, full, window), _mlps(fields, family, num_layers)))
    towers = [tower for tower in ("vision", "audio") if whole.get(f"{tower}_config")]
    notes = tuple(f"the {tower} tower is not counted" for tower in towers)
    return Decoder(hidden, fields.size("vocab_size"), layers, notes)


# Fields of layers that are not those of a plain decoder.
_NOT_PLAIN = re.compile(
    "expert|moe|lora|latent|ssm|mamba|linear_|conv|kv_shared|index_|block_type|layer_pattern|cross_attention|chunk"
    "|global_|swa_|altup|laurel|per_layer|interval"
)
_ENCODERS = re.compile("bert|electra|mpnet|clip|siglip|vit|esm|xlnet|longformer|encoder")


def _check_kind(values: Mapping[str, Any]) -> None:
    """Refuse fields of the wrong type by which a family is found, and attention that is not causal in any family."""
    for name, kinds in (("model_type", str), ("architectures", list | tuple), ("layer_types", list | tuple)):
        if values.get(name) is not None and not isinstance(values[name], kinds):
            expected = "a text" if kinds is str else "a list"
            raise ValueError(f"config.{name} must be {expected}, got {shown(values[name])}")
    for name, both_ways in (("use_bidirectional_attention", (True, "all")), ("is_causal", (False,))):
        value = values.get(name)
        if not isinstance(value, bool | int | str | None):
            raise ValueError(f"config.{name} must be True or False, got {shown(value)}")
        if value is not None and value in both_ways:
            raise ValueError(f"config.{name} = {shown(value)}: the model is not a decoder, its attention is not causal")
    for architecture in values.get("architectures") or ():
        if "Bidirectional" in str(architecture):
            raise ValueError(
                f"config.architectures = {shown(architecture)} is not a decoder: its attention is not causal"
            )


def _plain_family(values: Mapping[str, Any]) -> Family:
    """Read an unknown family as a plain decoder, with a warning, if its fields describe one."""
    name = f"model_type {shown(values['model_type'])}"
    architectures = values.get("architectures") or ["ForCausalLM"]
    decodes = any(re.search("CausalLM|ConditionalGeneration|LMHead", str(one)) for one in architectures)
    if (
        Fields(values, "config").flag("is_encoder_decoder")
        or _ENCODERS.search(str(values["model_type"]).lower())
        or not decodes
    ):
        raise ValueError(f"{name} is not a decoder: its attention is not causal")
    for own, value in values.items():
        if _NOT_PLAIN.search(str(own)) and value:
            raise ValueError(f"{name} is not known, and config.{own} is no field of a plain decoder")
    activation = values.get("hidden_act", values.get("hidden_activation"))
    if not isinstance(activation, str | None) or activation not in (None, "silu", "swish"):
        raise ValueError(
            f"{name} is not known, and config.hidden_act = {shown(activation)} leaves open whether it is gated"
        )
    if values.get("sliding_window") and values.get("use_sliding_window", True) and not values.get("layer_types"):
        raise ValueError(f"{name} is not known, and config.layer_types does not say which layers slide")
    warnings.warn(f"{name} is not known: read as a plain decoder with a gated MLP", stacklevel=4)
    return Family()


def _window(fields: Fields) -> int | None:
    """Keys of the layers that slide; None when none does."""
    wanted = fields.get("sliding_window") is not None or "sliding_attention" in (fields.get("layer_types") or ())
    return fields.size("sliding_window") if wanted and fields.flag("use_sliding_window", default=True) else None


def _kinds(fields: Fields, family: Family, num_layers: int, window: int | None) -> list[str]:
    """Kind of each layer: named, or by the rule of the family."""
    if fields.get("layer_types") is not None and not family.sparse:
        return layer_kinds(fields, num_layers)
    kind, rule = ("linear_attention", family.linear) if family.linear else ("sliding_attention", family.sliding)
    if rule is None or (rule is family.sliding and window is None):
        return ["full_attention"] * num_layers
    return [kind if rule(fields, layer) else "full_attention" for layer in range(num_layers)]


def _attention(fields: Fields, family: Family, num_layers: int) -> Sequence[Attention | LatentAttention]:
    heads = fields.size("num_attention_heads")
    if family.groups_needed and not fields.has("num_key_value_heads"):
        raise ValueError(f"{fields.name('num_key_value_heads')} is missing")
    shared = fields.flag("multi_query_attention", default=True)
    attention = Attention(
        heads=heads,
        groups=groups(fields, "num_key_value_heads", heads) if shared else heads,
        head_dim=head_dim(fields, "head_dim", fields.size("hidden_size"), heads),
        output_gate=fields.flag("attn_output_gate", default=family.output_gate),
    )
    return [attention] * num_layers


def _latent_attention(fields: Fields, family: Family, num_layers: int) -> Sequence[Attention | LatentAttention]:
    attention = LatentAttention(
        heads=fields.size("num_attention_heads"),
        query_rank=fields.size_or_none("q_lora_rank"),
        rank=fields.size("kv_lora_rank"),
        key_dim=fields.size("qk_nope_head_dim"),
        rotary_dim=fields.size("qk_rope_head_dim"),
        value_dim=fields.size("v_head_dim"),
    )
    if not family.sparse:
        return [attention] * num_layers
    indexer = Indexer(fields.size("index_n_heads"), fields.size("index_head_dim"))
    return sparse_attention(fields, replace(attention, window=fields.size("index_topk")), indexer, "index_", num_layers)


def _mlps(fields: Fields, family: Family, num_layers: int) -> list[DenseMLP | Experts]:
    names = family.experts
    if names is None:
        return [DenseMLP(fields.size("intermediate_size"))] * num_layers
    if fields.get("mlp_layer_types") is not None:
        moe = [kind == "sparse" for kind in _mlp_kinds(fields, num_layers)]
    else:
        moe = [names.layers(fields, layer) for layer in range(num_layers)]
    mlps: dict[bool, DenseMLP | Experts] = {}
    if False in moe:
        mlps[False] = DenseMLP(fields.size("intermediate_size"))
    if True in moe:
        width = fields.size(names.width)
        shared = fields.size_or(names.shared_width, 0, minimum=0) if names.shared_width else 0
        if names.shared_count:
            shared = width * (fields.size_or_none(names.shared_count, minimum=0) or 0)
        mlps[True] = Experts(
            count=fields.size(names.count, "num_experts", "n_routed_experts", "num_local_experts"),
            chosen=fields.size("num_experts_per_tok", "experts_per_token"),
            width=width,
            shared_width=shared,
            shared_gate=names.shared_gate,
        )
    return [mlps[holds] for holds in moe]


def _mlp_kinds(fields: Fields, num_layers: int) -> Sequence[Any]:
    kinds = fields.per_layer("mlp_layer_types", num_layers)
    for layer, kind in enumerate(kinds):
        if kind not in ("dense", "sparse"):
            raise ValueError(f"{fields.name('mlp_layer_types')}[{layer}] must be dense or sparse, got {shown(kind)}")
    return kinds


def _as_mapping(config: Any) -> Mapping[str, Any]:
    if hasattr(config, "to_dict"):
        config = config.to_dict()
    elif isinstance(config, str | os.PathLike):
        path = Path(config)
        config = read_json(path / CONFIG_NAME if path.is_dir() else path)
    if not isinstance(config, Mapping):
        raise ValueError(f"config must be a mapping, a path or have to_dict(), got {type(config).__name__}")
    return {"model_type": None, **config}
