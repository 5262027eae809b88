"""Which layers are of a kind: frequencies and patterns such as ``moe_layer_freq``, never evaluated as code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

from flopbalance.checks import as_count, shown

_MOST_LAYERS = 100_000
_LONGEST_TEXT = 4_000
"""Characters; a deeper text can exhaust the stack of Python's own parser."""


def moe_layers(frequency: Any, num_layers: int) -> list[bool]:
    """Tell for each layer whether it holds experts.

    Parameters
    ----------
    frequency : list, int, str or None
        ``moe_layer_freq``: a list with one entry per layer (0 is dense), an integer f (layer i holds experts when
        i mod f is 0), the text of either, or None for experts in every layer.
    num_layers : int
        Number of layers.

    Raises
    ------
    ValueError
        A list of another length, an entry that is not a whole number >= 0, a frequency below 1, or another text.

    Examples
    --------
    >>> moe_layers("([0]*1+[1]*2)", 3)
    [False, True, True]
    >>> moe_layers(2, 3)
    [True, False, True]
    """
    frequency = 1 if frequency is None else frequency
    return _pattern(frequency, "moe_layer_freq", num_layers, lambda layer, every: layer % every == 0)


def special_layers(frequency: Any, name: str, num_layers: int) -> list[bool]:
    """Tell for each layer whether it differs from full attention, which every f-th layer has.

    Examples
    --------
    >>> special_layers(3, "linear_attention_freq", 4)
    [True, True, False, True]
    """
    return _pattern(frequency, name, num_layers, lambda layer, every: (layer + 1) % every != 0)


def _pattern(value: Any, name: str, num_layers: int, rule: Callable[[int, int], bool]) -> list[bool]:
    if isinstance(value, str):
        value = parse_pattern(value, name)
    if not isinstance(value, list | tuple | np.ndarray) or getattr(value, "ndim", 1) == 0:
        every = as_count(value, name)
        return [rule(layer, every) for layer in range(num_layers)]
    if len(value) != num_layers:
        raise ValueError(f"{name} must have an entry for each of {num_layers} layers, got {len(value)}")
    return [as_count(entry, f"{name}[{i}]", minimum=0) > 0 for i, entry in enumerate(value)]


def parse_pattern(text: str, name: str) -> int | list[int]:
    """Value of a pattern such as ``([0]*1+[1]*45)``: integers, lists of integers, ``+``, ``*`` and parentheses.

    Raises
    ------
    ValueError
        Anything else in the text, more than 100,000 layers, or more than 4,000 characters.

    Examples
    --------
    >>> parse_pattern("([0]*1+[1]*3)*2", "moe_layer_freq")
    [0, 1, 1, 1, 0, 1, 1, 1]
    >>> parse_pattern("2", "moe_layer_freq")
    2
    """
    try:
        if len(text) > _LONGEST_TEXT:
            raise ValueError
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise ValueError(f"{name} must be a whole number or lists joined by + and *, got {shown(text)}")


def _value(node: ast.expr) -> int | list[int]:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.List(elts=items):
            numbers = [_value(item) for item in items]
            if all(isinstance(number, int) for number in numbers):
                return numbers  # type: ignore[return-value]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            head, tail = _value(left), _value(right)
            if isinstance(head, list) and isinstance(tail, list) and len(head) + len(tail) <= _MOST_LAYERS:
                return head + tail
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            layers, times = _value(left), _value(right)
            if isinstance(layers, int):
                layers, times = times, layers
            if isinstance(layers, list) and isinstance(times, int) and len(layers) * times <= _MOST_LAYERS:
                return layers * times
    raise ValueError
