"""The model shapes that come with the package."""

import difflib
import importlib.resources
import json
from typing import Any

from flopbalance.checks import shown

Shape = dict[str, Any]


def load_shape(name: str) -> Shape:
    """Return the arguments of a built-in model, in Megatron's names.

    Parameters
    ----------
    name : str
        In upper or lower case, such as ``"qwen3-8b"``.

    Returns
    -------
    dict
        Fresh on every call, so free to change.

    Raises
    ------
    ValueError
        No model has this name; the message says which are near it, and how to list all.

    Examples
    --------
    >>> load_shape("Qwen3-8B")["hidden_size"]
    4096
    """
    if not isinstance(name, str):
        raise ValueError(f"model must be the name of a built-in shape, got {shown(name)}")
    shapes = built_in_shapes()
    names = {known.lower(): known for known in shapes}
    if name.lower() not in names:
        near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        hint = f"near it: {', '.join(names[one] for one in near)}; all: " if near else ""
        raise ValueError(f"model must be a built-in shape, got {shown(name)}; {hint}flopbalance costs --list")
    return shapes[names[name.lower()]]


def shape_names() -> list[str]:
    """Return the names of all built-in models, sorted.

    Examples
    --------
    >>> shape_names()[0], len(shape_names())
    ('deepseek-v3', 41)
    """
    return sorted(built_in_shapes(), key=str.lower)


def built_in_shapes() -> dict[str, Shape]:
    """Return all built-in models by name."""
    text = importlib.resources.files(__package__).joinpath("shapes.json").read_text(encoding="utf-8")
    shapes: dict[str, Shape] = json.loads(text)
    return shapes
