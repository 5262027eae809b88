"""Layers of a decoder, from fields that mean the same in every description of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from flopbalance.checks import as_count, shown
from flopbalance.costs.models.decoder import Attention, DeltaNet, Indexer, LatentAttention
from flopbalance.fields import Fields

MOST_LAYERS = 10_000
"""No model has more; each is held in memory."""

_KINDS = ("full_attention", "sliding_attention", "linear_attention")


def as_layers(value: Any, name: str, minimum: int = 1) -> int:
    """Return a number of layers."""
    layers = as_count(value, name, minimum)
    if layers > MOST_LAYERS:
        raise ValueError(f"{name} must be <= {MOST_LAYERS:,}, got {value}")
    return layers


def count_layers(fields: Fields, field: str) -> int:
    """Value of a field that says how many layers there are."""
    return as_layers(fields.size(field), fields.name(field))


def layer_kinds(fields: Fields, num_layers: int) -> list[str]:
    """Kind of each layer, from ``layer_types``."""
    kinds = [str(kind) for kind in fields.per_layer("layer_types", num_layers)]
    for layer, kind in enumerate(kinds):
        if kind not in _KINDS:
            raise ValueError(
                f"{fields.name('layer_types')}[{layer}] must be one of {', '.join(_KINDS)}, got {shown(kind)}"
            )
    return kinds


def mixers(
    fields: Fields, kinds: Sequence[str], full: Sequence[Attention | LatentAttention], window: int | None
) -> Iterator[Attention | LatentAttention | DeltaNet]:
    """Yield the mixer of each layer by its kind; ``full`` is what it is with attention in full."""
    for kind, attention in zip(kinds, full, strict=True):
        if kind == "linear_attention":
            yield DeltaNet(
                key_heads=fields.size("linear_num_key_heads"),
                key_dim=fields.size("linear_key_head_dim"),
                value_heads=fields.size("linear_num_value_heads"),
                value_dim=fields.size("linear_value_head_dim"),
                kernel=fields.size("linear_conv_kernel_dim"),
            )
        else:
            yield replace(attention, window=window) if kind == "sliding_attention" else attention


def sparse_attention(
    fields: Fields, attention: LatentAttention, indexer: Indexer, prefix: str, num_layers: int
) -> list[LatentAttention]:
    """Latent attention of each layer to the keys that an indexer chooses, its own or that of a layer before."""
    for field in ("indexer_types", f"{prefix}topk_pattern"):
        if fields.get(field) is not None:
            runs = [str(mode).lower() in ("full", "f") for mode in fields.per_layer(field, num_layers)]
            break
    else:
        every = fields.size_or(f"{prefix}topk_freq", 1)
        offset = fields.size_or(f"{prefix}skip_topk_offset", 2, minimum=0)
        runs = [max(layer - offset + 1, 0) % every == 0 for layer in range(num_layers)]
    return [replace(attention, indexer=indexer if own else None) for own in runs]


def head_dim(fields: Fields, field: str, hidden: int, heads: int) -> int:
    """Size of a head; an equal share of the hidden vector when the field is absent or None."""
    if fields.get(field) is None and hidden % heads:
        raise ValueError(
            f"{fields.name(field)} is not set, and hidden_size = {hidden} must be a multiple of "
            f"num_attention_heads = {heads}"
        )
    return fields.size_or(field, hidden // heads)


def groups(fields: Fields, field: str, heads: int) -> int:
    """Key/value groups; one for each head when the field is absent or None."""
    count = fields.size_or(field, heads)
    if heads % count:
        raise ValueError(f"num_attention_heads = {heads} must be a multiple of {fields.name(field)} = {count}")
    return count
