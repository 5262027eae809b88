"""The closed form: what each part of a decoder costs per token and per pair of tokens, as exact integers.

One multiply-add is 2 FLOPs. Matrix products, convolutions and recurrent state updates count; norms, softmax, rotary
embedding, activations, biases and the embedding look-up do not. Token i attends to itself and all before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Component:
    """One part of the forward pass, in FLOPs summed over the layers."""

    name: str
    per_token: int = 0
    per_pair: int = 0
    #: Keys that a token meets at most, itself included; None: all before it.
    window: int | None = None


Parts: TypeAlias = Iterator[tuple[str, int]]
"""Names of parts and their multiply-adds per token."""

Pairs: TypeAlias = Iterator[tuple[str, int | None, int]]
"""Names of parts, their windows and their multiply-adds per pair of tokens."""


@dataclass(frozen=True)
class Attention:
    """Softmax attention whose heads share keys and values in groups."""

    heads: int
    groups: int
    head_dim: int
    output_gate: bool = False
    window: int | None = None

    def parts(self, hidden: int) -> Parts:
        """Yield the cost per token of each part."""
        width = self.heads * self.head_dim
        yield "query projection", hidden * width
        if self.output_gate:
            yield "attention output gate", hidden * width
        yield "key and value projections", 2 * hidden * self.groups * self.head_dim
        yield "attention output projection", width * hidden

    def pairs(self) -> Pairs:
        """Yield the cost per pair: a score and a weighted value in each head."""
        yield "attention", self.window, self.heads * 2 * self.head_dim


@dataclass(frozen=True)
class Indexer:
    """Scores all pairs of tokens to choose the keys of sparse attention."""

    heads: int
    head_dim: int


@dataclass(frozen=True)
class LatentAttention:
    """Multi-latent attention: keys and values come from a vector of low rank, the query too where it has a rank.

    Sparse attention is a window of as many keys as its indexer chooses; a layer may reuse the choice of another's.
    """

    heads: int
    query_rank: int | None
    rank: int
    key_dim: int
    rotary_dim: int
    value_dim: int
    window: int | None = None
    indexer: Indexer | None = None

    def parts(self, hidden: int) -> Parts:
        """Yield the cost per token of each part."""
        query = self.heads * (self.key_dim + self.rotary_dim)
        if self.query_rank is None:
            yield "query projection", hidden * query
        else:
            yield "query projection", self.query_rank * (hidden + query)
        from_latent = self.rank * self.heads * (self.key_dim + self.value_dim)
        yield "key and value projections", hidden * (self.rank + self.rotary_dim) + from_latent
        yield "attention output projection", self.heads * self.value_dim * hidden
        if self.indexer:
            queries = (self.query_rank or hidden) * self.indexer.heads * self.indexer.head_dim
            yield "indexer projections", queries + hidden * (self.indexer.head_dim + self.indexer.heads)

    def pairs(self) -> Pairs:
        """Yield the cost per pair: scores and weighted values in each head, of the indexer a weighted sum of scores."""
        yield "attention", self.window, self.heads * (self.key_dim + self.rotary_dim + self.value_dim)
        if self.indexer:
            yield "indexer scores", None, self.indexer.heads * (self.indexer.head_dim + 1)


@dataclass(frozen=True)
class DeltaNet:
    """Gated delta net: linear attention, whose cost knows no pairs."""

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int

    def parts(self, hidden: int) -> Parts:
        """Yield the cost per token of each part."""
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        yield "delta net input projections", hidden * 2 * (keys + values + self.value_heads)
        yield "delta net convolution", self.kernel * (2 * keys + values)
        yield "delta net state", 3 * self.value_heads * self.key_dim * self.value_dim
        yield "delta net output projection", values * hidden

    def pairs(self) -> Pairs:
        """Yield nothing."""
        yield from ()


@dataclass(frozen=True)
class DenseMLP:
    """Feed-forward block that every token passes in full."""

    width: int
    gated: bool = True

    def parts(self, hidden: int) -> Parts:
        """Yield the cost per token."""
        yield "dense MLP", (3 if self.gated else 2) * hidden * self.width


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: a router, the experts it chooses, and those that every token passes."""

    count: int
    chosen: int
    width: int
    shared_width: int = 0
    shared_gate: bool = False
    gated: bool = True

    def parts(self, hidden: int) -> Parts:
        """Yield the cost per token of each part."""
        matrices = 3 if self.gated else 2
        yield "router", hidden * self.count
        yield "routed experts", matrices * hidden * self.width * self.chosen
        if self.shared_width:
            yield "shared experts", matrices * hidden * self.shared_width
            if self.shared_gate:
                yield "shared expert gate", hidden


@dataclass(frozen=True)
class Layer:
    """One decoder layer."""

    mixer: Attention | LatentAttention | DeltaNet
    mlp: DenseMLP | Experts


@dataclass(frozen=True)
class Decoder:
    """A decoder-only language model: what the readers of descriptions agree on."""

    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    #: What the count leaves out, in words.
    notes: tuple[str, ...] = ()

    def components(self, mtp_layers: int = 0) -> tuple[Component, ...]:
        """Cost of each part, summed over the layers.

        Each depth of multi-token prediction adds a layer like the last, a projection of two hidden vectors into one,
        and another LM head.
        """
        per_token: Counter[str] = Counter()
        per_pair: Counter[tuple[str, int | None]] = Counter()
        for layer in self.layers + self.layers[-1:] * mtp_layers:
            for name, multiply_adds in (*layer.mixer.parts(self.hidden), *layer.mlp.parts(self.hidden)):
                per_token[name] += 2 * multiply_adds
            for name, window, multiply_adds in layer.mixer.pairs():
                per_pair[name, window] += 2 * multiply_adds
        if mtp_layers:
            per_token["multi-token prediction"] = 2 * mtp_layers * 2 * self.hidden**2
        per_token[LM_HEAD] = 2 * (1 + mtp_layers) * self.hidden * self.vocabulary
        return (
            *(Component(name, per_token=flops) for name, flops in per_token.items()),
            *(Component(name, per_pair=flops, window=window) for (name, window), flops in per_pair.items()),
        )


LM_HEAD = "LM head"
