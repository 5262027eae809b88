"""The FLOPs that trainers publish and balance by today, errors included; kept exactly, for parity."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flopbalance import _core
from flopbalance.arrays import as_integers
from flopbalance.fields import Fields
from flopbalance.layer_pattern import moe_layers


class PublishedFlops:
    """Forward FLOPs of a sequence by the published formula, read once from a trainer's arguments.

    Its known errors: the output projection counts as ``hidden_size`` squared whatever the heads, causal attention as
    half of the full square, every layer as attending in full.

    Parameters
    ----------
    args
        A namespace or mapping with Megatron-style names: ``num_layers``, ``hidden_size``, ``num_attention_heads``,
        ``num_query_groups``, ``kv_channels``, ``ffn_hidden_size``, ``vocab_size``, ``num_experts`` (None: no experts)
        and, where they apply, ``moe_ffn_hidden_size``, ``moe_router_topk``, ``moe_shared_expert_intermediate_size``,
        ``moe_layer_freq``, ``multi_latent_attention``, ``q_lora_rank``, ``kv_lora_rank``, ``qk_head_dim``,
        ``qk_pos_emb_head_dim``, ``v_head_dim``. A field that the shape does not use may be missing.

    Raises
    ------
    ValueError
        A field that the shape uses is missing or no sensible size; the message names it.

    Examples
    --------
    >>> tiny = dict(num_layers=2, hidden_size=16, num_attention_heads=2, num_query_groups=2, kv_channels=8,
    ...             ffn_hidden_size=64, vocab_size=32, num_experts=None)
    >>> PublishedFlops(tiny).flops(np.array([1, 10]))
    array([ 17472., 180480.])
    """

    def __init__(self, args: Any) -> None:
        fields = Fields(args, "args")
        hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
        latent = fields.flag("multi_latent_attention")
        if latent:
            key_dim, value_dim = fields.size("qk_head_dim"), fields.size("v_head_dim")
            rotary_dim = fields.size("qk_pos_emb_head_dim")
            query_dim = key_dim + rotary_dim
        else:
            query_dim = value_dim = fields.size("kv_channels")
        if latent and (rank := fields.size_or_none("q_lora_rank")) is not None:
            query = 2 * rank * (hidden + heads * query_dim)
        else:
            query = 2 * hidden * heads * query_dim
        if latent and (rank := fields.size_or_none("kv_lora_rank")) is not None:
            keys = 2 * (rank * (hidden + heads * (key_dim + value_dim)) + hidden * rotary_dim)
        else:
            keys = 4 * hidden * fields.size("num_query_groups") * fields.size("kv_channels")
        num_layers = fields.size("num_layers")
        moe = sum(_moe_layers(fields, num_layers))
        widths = 0
        if moe < num_layers:
            widths += (num_layers - moe) * fields.size("ffn_hidden_size")
        if moe:
            shared = fields.size_or("moe_shared_expert_intermediate_size", 0, minimum=0)
            widths += moe * (fields.size("moe_ffn_hidden_size") * fields.size("moe_router_topk") + shared)
        attention = query + keys + 2 * hidden * hidden
        self.per_token = num_layers * attention + 6 * hidden * widths + 2 * hidden * fields.size("vocab_size")
        self.per_square = num_layers * heads * (query_dim + value_dim)

    def flops(self, lengths: Any) -> NDArray[np.float64]:
        """FLOPs of each sequence: an exact integer, rounded once to float64.

        Parameters
        ----------
        lengths
            Tokens of each sequence: integers >= 0 in a list or a one-dimensional array of any integer type.

        Returns
        -------
        numpy.ndarray
            float64, one entry per sequence.

        Raises
        ------
        ValueError
            A length is negative or no integer.
        """
        return _core.curve_flops_rounded(as_integers(lengths, "lengths"), self.per_token, self.per_square, 0, [])


def calculate_fwd_flops(seqlens: Sequence[int] | NDArray[np.integer], args: Any) -> float:
    """Forward FLOPs of a batch by the published formula.

    Parameters
    ----------
    seqlens
        Tokens of each sequence.
    args
        The model, as :class:`PublishedFlops` reads it.

    Returns
    -------
    float
        Sum over the sequences, left to right; the integer 0 when there is none.

    Raises
    ------
    ValueError
        A length is negative or no integer, or a field of ``args`` is missing or no sensible size.

    Examples
    --------
    >>> tiny = dict(num_layers=2, hidden_size=16, num_attention_heads=2, num_query_groups=2, kv_channels=8,
    ...             ffn_hidden_size=64, vocab_size=32, num_experts=None)
    >>> calculate_fwd_flops([10, 1], tiny)
    197952.0
    """
    # Not sum(): from Python 3.12 on it compensates its rounding.
    return functools.reduce(operator.add, PublishedFlops(args).flops(seqlens).tolist(), 0)


def _moe_layers(fields: Fields, num_layers: int) -> list[bool]:
    if not fields.has("num_experts"):
        raise ValueError("args.num_experts is missing (None when all layers are dense)")
    if fields.get("num_experts") is None:
        return [False] * num_layers
    return moe_layers(fields.get("moe_layer_freq"), num_layers)
