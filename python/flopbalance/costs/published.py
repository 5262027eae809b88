"""The FLOPs that trainers publish and balance by today, errors included; kept exactly, for parity."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.costs.coefficients import as_coefficient
from flopbalance.costs.models.layers import count_layers
from flopbalance.costs.models.patterns import moe_layers
from flopbalance.fields import Fields, remembered


class PublishedFlops:
    """Forward FLOPs of a sequence by the published formula, read once from a trainer's arguments.

    Its known errors: the output projection counts as ``hidden_size`` squared whatever the heads, causal attention as
    half of the full square, every layer as attending in full.

    Parameters
    ----------
    args : namespace or mapping
        With Megatron-style names: ``num_layers``, ``hidden_size``, ``num_attention_heads``,
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
        self._terms = _terms(args)

    def terms(self, lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return what the formula adds up for each sequence.

        These are the dense layers and the layers with experts, as far as there are any, and the LM head. Where a total
        exceeds 2^53 the order of its additions decides its last bits: the published one is term by term and sequence
        by sequence.

        Parameters
        ----------
        lengths : array_like of shape (n,)
            Tokens of each sequence, whole numbers >= 0.

        Returns
        -------
        ndarray of float64, shape (n, terms)
            Whole numbers, each rounded once.
        """
        return np.column_stack([_core.sum_flops(lengths, [term]) for term in self._terms])

    def flops(self, lengths: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the FLOPs of each sequence.

        Parameters
        ----------
        lengths : array_like of shape (n,)
            Tokens of each sequence, whole numbers >= 0.

        Returns
        -------
        ndarray of float64, shape (n,)

        Raises
        ------
        ValueError
            A length is negative or not a whole number.
        """
        return _core.sum_flops(lengths, self._terms)


def calculate_fwd_flops(seqlens: npt.ArrayLike, args: Any) -> float:
    """Return the forward FLOPs of a batch by the published formula.

    Parameters
    ----------
    seqlens : array_like of shape (n,)
        Tokens of each sequence, whole numbers >= 0.
    args : namespace or mapping
        The model, as `PublishedFlops` reads it.

    Returns
    -------
    float
        A whole number, added up from left to right; the integer 0 when there is no sequence.

    Raises
    ------
    ValueError
        A length is negative or not a whole number, or a field of `args` is missing or has no sensible size.

    See Also
    --------
    CostModel : Counts exactly, for every architecture.

    Examples
    --------
    >>> tiny = dict(num_layers=2, hidden_size=16, num_attention_heads=2, num_query_groups=2, kv_channels=8,
    ...             ffn_hidden_size=64, vocab_size=32, num_experts=None)
    >>> calculate_fwd_flops([10, 1], tiny)
    197952.0
    """
    total = _core.total_flops(seqlens, _terms(args))
    return 0 if total is None else total


@remembered("args")
def _terms(fields: Fields) -> list[tuple[int, int]]:
    """FLOPs per token and per squared token of each term."""
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
    attention = query + keys + 2 * hidden * hidden
    pairs = heads * (query_dim + value_dim)
    num_layers = count_layers(fields, "num_layers")
    moe = sum(_moe_layers(fields, num_layers))
    terms = []
    for layers, width in ((num_layers - moe, _dense_width), (moe, _experts_width)):
        if layers:
            terms.append((layers * (attention + 6 * hidden * width(fields)), layers * pairs))
    terms.append((2 * hidden * fields.size("vocab_size"), 0))
    units = ("FLOPs per token of args", "FLOPs per squared token of args")
    for term in terms:
        for flops, unit in zip(term, units, strict=True):
            as_coefficient(flops, unit)
    return terms


def _dense_width(fields: Fields) -> int:
    return fields.size("ffn_hidden_size")


def _experts_width(fields: Fields) -> int:
    shared = fields.size_or("moe_shared_expert_intermediate_size", 0, minimum=0)
    return fields.size("moe_ffn_hidden_size") * fields.size("moe_router_topk") + shared


def _moe_layers(fields: Fields, num_layers: int) -> list[bool]:
    if not fields.has("num_experts"):
        raise ValueError("args.num_experts is missing (None when all layers are dense)")
    if fields.get("num_experts") is None:
        return [False] * num_layers
    return moe_layers(fields.get("moe_layer_freq"), num_layers)
