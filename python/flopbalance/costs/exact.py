"""The exact cost of a sequence, for every architecture that a reader knows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flopbalance import _core
from flopbalance.checks import as_choice, as_count, as_flag, as_integers, shown
from flopbalance.costs.coefficients import as_coefficient, as_windows
from flopbalance.costs.crossover import overtaking, overtaking_length
from flopbalance.costs.fitted import FittedCost, fit
from flopbalance.costs.measurements import MicroBatchesLike
from flopbalance.costs.models.decoder import LM_HEAD, Component, Decoder
from flopbalance.costs.models.hugging_face import read_hugging_face
from flopbalance.costs.models.layers import as_layers
from flopbalance.costs.models.megatron import read_megatron
from flopbalance.costs.models.shapes import load_shape
from flopbalance.text import format_table, printable

_COLUMNS = ("component", "FLOPs per token", "FLOPs per pair", "pairs within")

_Phase = Literal["train", "forward"]
_Recompute = Literal["none", "full", "selective"]

# Forward passes of a training step, in halves: of the layers, of the LM head, of the pairs.
# Backward is twice forward, and flash attention's 2.5 times.
_STEPS = {"none": (6, 6, 6), "selective": (6, 6, 8), "full": (8, 6, 8)}
_FLASH_EXTRA = 1


@dataclass(frozen=True)
class CostModel:
    """Forward FLOPs of a sequence as an exact function of its length.

    A sequence of L tokens costs ``(per_token + lm_head) L``, ``per_pair`` for each of its ``L (L + 1) / 2`` causal
    pairs, and for each ``(window, cost)`` of ``windows`` its cost for each pair that lies within that many keys. One
    multiply-add is 2 FLOPs. A packed micro-batch costs the sum over its sequences.

    Parameters
    ----------
    per_token : int
        FLOPs per token, except for the LM head.
    lm_head : int
        FLOPs per token of the LM head.
    per_pair : int
        FLOPs per causal pair of the layers that attend in full.
    windows : tuple of (int, int)
        ``(window, FLOPs per pair)`` of the layers that attend to at most ``window`` keys, the token itself included.
    components : tuple of Component
        What the coefficients are made of; for :meth:`describe` only.
    notes : tuple of str
        What is not counted, in words.

    Raises
    ------
    ValueError
        A coefficient is negative, not a whole number, or 2^59 and more.

    Examples
    --------
    >>> model = CostModel.from_name("qwen3-8b")
    >>> model
    CostModel(per_token=13891534848, lm_head=1244659712, per_pair=589824, windows=())
    >>> model.flops([1, 1000])
    array([   15136784384, 15431401472000])
    """

    per_token: int
    lm_head: int = 0
    per_pair: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    components: tuple[Component, ...] = field(default=(), repr=False, compare=False)
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("per_token", "lm_head", "per_pair"):
            object.__setattr__(self, name, as_coefficient(getattr(self, name), name))
        object.__setattr__(self, "windows", as_windows(self.windows))
        parts = self.components
        if not isinstance(parts, tuple | list) or not all(isinstance(part, Component) for part in parts):
            raise ValueError(f"components must be those of a model, got {shown(parts)}")
        object.__setattr__(self, "components", tuple(parts))
        if not isinstance(self.notes, tuple | list) or not all(isinstance(note, str) for note in self.notes):
            raise ValueError(f"notes must be texts, got {shown(self.notes)}")
        object.__setattr__(self, "notes", tuple(self.notes))

    @classmethod
    def from_args(cls, args: Any, *, mtp_layers: int = 0, padded_vocab_size: int | None = None) -> CostModel:
        """Read Megatron-style arguments.

        Parameters
        ----------
        args : namespace or mapping
            Any object with attributes, or a mapping, with the trainer's names.
        mtp_layers : int, default 0
            Trained depths of multi-token prediction; they count only when asked for.
        padded_vocab_size : int, optional
            Rows of the LM head where the trainer pads the vocabulary; default: ``vocab_size``.

        Raises
        ------
        ValueError
            A field is missing or has no sensible value; the message names it.

        Examples
        --------
        >>> CostModel.from_args(dict(num_layers=2, hidden_size=16, num_attention_heads=2, ffn_hidden_size=64,
        ...                          vocab_size=32))
        CostModel(per_token=16384, lm_head=1024, per_pair=128, windows=())
        """
        return cls._of(read_megatron(args), mtp_layers, padded_vocab_size)

    @classmethod
    def from_hf_config(cls, config: Any, *, mtp_layers: int = 0, padded_vocab_size: int | None = None) -> CostModel:
        """Read a Hugging Face configuration; of a multimodal one its text part, towers are not counted.

        Parameters
        ----------
        config : mapping, path or object
            A mapping, the path of a ``config.json`` or of its folder, or an object with ``to_dict()``.
        mtp_layers, padded_vocab_size : int
            As for :meth:`from_args`.

        Raises
        ------
        ValueError
            The file holds no configuration, the model is not a decoder or one of unknown cost, a field is missing or
            has no sensible value; the message names it.

        Warns
        -----
        UserWarning
            The ``model_type`` is not known and the fields are read as those of a plain decoder.

        Examples
        --------
        >>> CostModel.from_hf_config(dict(model_type="llama", num_hidden_layers=2, hidden_size=16,
        ...                               num_attention_heads=2, intermediate_size=64, vocab_size=32))
        CostModel(per_token=16384, lm_head=1024, per_pair=128, windows=())
        """
        return cls._of(read_hugging_face(config), mtp_layers, padded_vocab_size)

    @classmethod
    def from_name(cls, name: str, *, mtp_layers: int = 0, padded_vocab_size: int | None = None) -> CostModel:
        """Take a built-in shape, whatever the case of its name.

        Parameters
        ----------
        name : str
            Such as ``"qwen3-8b"``; ``flopbalance costs --list`` shows all.
        mtp_layers, padded_vocab_size : int
            As for :meth:`from_args`.

        Raises
        ------
        ValueError
            No shape has that name; the message lists the nearest.
        """
        return cls.from_args(load_shape(name), mtp_layers=mtp_layers, padded_vocab_size=padded_vocab_size)

    @staticmethod
    def fit(
        micro_batches: MicroBatchesLike,
        seconds: ArrayLike,
        *,
        lengths: ArrayLike | None = None,
        windows_of: CostModel | None = None,
        per_sequence: bool = False,
    ) -> FittedCost:
        """Fit a cost to measured micro-batches: FLOPs are not seconds, and only the ratio of the two terms balances.

        The time of a micro-batch is taken as c0 + c1 ΣL + c2 ΣL² over its sequences, never (ΣL)². Relative errors are
        minimised by Huber's loss, so that a few outliers do not matter; of a micro-batch that was measured more than
        once the median counts, so that a slow first run does not either.

        Parameters
        ----------
        micro_batches : Schedule, RankSchedule, tuple or sequence
            A schedule or one rank of it, together with `lengths`; a tuple of flat lengths and offsets; or a sequence
            of micro-batches, each the lengths of its sequences.
        seconds : array_like of shape (micro-batches,)
            Measured times, in any unit.
        lengths : array_like, optional
            Tokens of all samples, needed with a schedule.
        windows_of : CostModel, optional
            The model that was measured: its windows are kept, so that L² counts only as far as they reach.
        per_sequence : bool, default False
            Whether each sequence also costs a constant, c3.

        Returns
        -------
        FittedCost
            With hold-out error and confidence intervals.

        Raises
        ------
        ValueError
            There are fewer than ten different micro-batches, or the data cannot tell the coefficients apart: all hold
            as many tokens, or all sequences are as long, or too short for attention to show. The message says which.

        Notes
        -----
        Holland, P. W. and Welsch, R. E. (1977), "Robust regression using iteratively reweighted least-squares",
        Communications in Statistics 6(9). Non-negative least squares tries all sets of the three or four columns.

        Examples
        --------
        >>> batches = [[10 * i, 300 - 10 * i, 40 * (i % 5) + 1] for i in range(1, 30)]
        >>> seconds = [0.01 + sum(2e-4 * n + 1e-6 * n * n for n in batch) for batch in batches]
        >>> fitted = CostModel.fit(batches, seconds)
        >>> print(f"{fitted.per_token:.6f} {fitted.per_square:.8f}")
        0.000200 0.00000100
        """
        if windows_of is None:
            return fit(micro_batches, seconds, lengths=lengths, per_sequence=per_sequence)
        if not isinstance(windows_of, CostModel):
            raise ValueError(f"windows_of must be a CostModel, got {shown(windows_of)}")
        return fit(
            micro_batches,
            seconds,
            lengths=lengths,
            per_pair=windows_of.per_pair,
            windows=windows_of.windows,
            per_sequence=per_sequence,
        )

    @classmethod
    def _of(cls, decoder: Decoder, mtp_layers: int, padded_vocab_size: int | None) -> CostModel:
        if padded_vocab_size is not None:
            rows = as_count(padded_vocab_size, "padded_vocab_size", minimum=decoder.vocabulary)
            decoder = replace(decoder, vocabulary=rows)
        components = decoder.components(as_layers(mtp_layers, "mtp_layers", minimum=0))
        windows: Counter[int | None] = Counter()
        for component in components:
            windows[component.window] += component.per_pair
        per_pair = windows.pop(None, 0)
        lm_head = sum(component.per_token for component in components if component.name == LM_HEAD)
        return cls(
            per_token=sum(component.per_token for component in components) - lm_head,
            lm_head=lm_head,
            per_pair=per_pair,
            windows=tuple(sorted((window, cost) for window, cost in windows.items() if window is not None)),
            components=components,
            notes=decoder.notes,
        )

    def flops(self, lengths: ArrayLike) -> NDArray[np.int64]:
        """Return the exact forward FLOPs of each sequence.

        Computes in O(n) time, 100,000 sequences in about 0.1 ms.

        Parameters
        ----------
        lengths : array_like of shape (n,)
            Tokens of each sequence, whole numbers >= 0.

        Returns
        -------
        ndarray of int64, shape (n,)

        Raises
        ------
        ValueError
            A length is negative or not a whole number.
        OverflowError
            A sequence costs 2^63 FLOPs and more; the message gives its index and length.
        """
        return _core.curve_flops(
            as_integers(lengths, "lengths"), self.per_token + self.lm_head, self.per_pair, list(self.windows)
        )

    def total_flops(self, lengths: ArrayLike) -> int:
        """Return the exact forward FLOPs of all sequences together, however many.

        Parameters
        ----------
        lengths : array_like of shape (n,)
            As for :meth:`flops`.

        Raises
        ------
        ValueError
            A length is negative or not a whole number.

        Examples
        --------
        >>> CostModel.from_name("deepseek-v3").total_flops([1_000_000] * 100_000)
        257181169254400000000000
        """
        windows = [window for window, _ in self.windows]
        tokens, pairs, in_windows = _core.length_moments(as_integers(lengths, "lengths"), windows)
        windowed = sum(cost * seen for (_, cost), seen in zip(self.windows, in_windows, strict=True))
        return (self.per_token + self.lm_head) * tokens + self.per_pair * pairs + windowed

    def weights(
        self,
        lengths: ArrayLike,
        phase: _Phase = "train",
        recompute: _Recompute = "none",
        flash_attention: bool = True,
    ) -> NDArray[np.float64]:
        """Return the FLOPs that each sequence really costs in a step.

        A backward pass costs twice the forward, that of flash attention 2.5 times; full recomputation adds a forward
        pass of the layers, selective recomputation one of the attention over pairs.

        Parameters
        ----------
        lengths : array_like of shape (n,)
            As for :meth:`flops`.
        phase : {"train", "forward"}, default "train"
            ``"train"``, or ``"forward"`` for a log-probability pass, in which nothing is recomputed.
        recompute : {"none", "full", "selective"}, default "none"
            What is recomputed in the backward pass.
        flash_attention : bool, default True
            Whether attention is fused, so that it recomputes its scores in the backward pass.

        Returns
        -------
        ndarray of float64, shape (n,)

        Raises
        ------
        ValueError
            A length is negative or not a whole number, or an option has no such value.

        Examples
        --------
        >>> model = CostModel.from_name("qwen3-8b")
        >>> model.weights([1000]) / model.flops([1000])
        array([3.00956514])
        """
        as_choice(phase, _Phase, "phase")
        as_choice(recompute, _Recompute, "recompute")
        layers, head, pairs = (2, 2, 2) if phase == "forward" else _STEPS[recompute]
        if as_flag(flash_attention, "flash_attention") and phase == "train":
            pairs += _FLASH_EXTRA
        halves = _core.curve_flops_rounded(
            as_integers(lengths, "lengths"),
            layers * self.per_token + head * self.lm_head,
            0,
            pairs * self.per_pair,
            [(window, pairs * cost) for window, cost in self.windows],
        )
        return halves / 2

    @property
    def overtaking_length(self) -> int | None:
        """Shortest sequence in which the pairs cost at least as much as all the rest; None when there is none."""
        pairs_only = CostModel(0, 0, self.per_pair, self.windows)
        rest_only = CostModel(self.per_token, self.lm_head)
        return overtaking_length(lambda length: pairs_only.total_flops([length]) >= rest_only.total_flops([length]))

    def describe(self) -> str:
        """Return a table of the components, and the length from which attention over pairs costs more than the rest.

        Examples
        --------
        >>> print(CostModel(per_token=1000, lm_head=200, per_pair=4, windows=((128, 8),)).describe())
        component  FLOPs per token  FLOPs per pair  pairs within
        layers               1,000
        LM head                200
        attention                                4           all
        attention                                8      128 keys
        attention over pairs costs as much as the rest from 229 tokens on
        """
        parts = self.components or _bare_components(self)
        rows = []
        for part in parts:
            keys = "" if not part.per_pair else "all" if part.window is None else f"{part.window:,} keys"
            rows.append((part.name, _figure(part.per_token), _figure(part.per_pair), keys))
        return "\n".join(
            [format_table(_COLUMNS, rows), overtaking(self.overtaking_length), *map(printable, self.notes)]
        )


def _bare_components(model: CostModel) -> tuple[Component, ...]:
    return (
        Component("layers", per_token=model.per_token),
        Component(LM_HEAD, per_token=model.lm_head),
        *([Component("attention", per_pair=model.per_pair)] if model.per_pair else []),
        *(Component("attention", per_pair=cost, window=window) for window, cost in model.windows),
    )


def _figure(flops: int) -> str:
    return f"{flops:,}" if flops else ""
