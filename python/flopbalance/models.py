"""The model shapes that come with the package."""

import difflib
import importlib.resources
import json
from typing import Any

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
        No model has this name; the message lists the nearest ones.

    Examples
    --------
    >>> load_shape("Qwen3-8B")["hidden_size"]
    4096
    """
    shapes = built_in_shapes()
    names = {known.lower(): known for known in shapes}
    if name.lower() not in names:
        near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5) or names
        raise ValueError(f"model must be a built-in shape, got {name!r}; near it: {', '.join(names[n] for n in near)}")
    return shapes[names[name.lower()]]


def built_in_shapes() -> dict[str, Shape]:
    """Return all built-in models by name.

    Examples
    --------
    >>> len(built_in_shapes())
    42
    """
    text = importlib.resources.files("flopbalance").joinpath("models.json").read_text(encoding="utf-8")
    shapes: dict[str, Shape] = json.loads(text)
    return shapes
