"""Which cost is meant: by a name, by a file, by an object, or by a trainer's ``--flops-model``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any, Literal, overload

from flopbalance.checks import CostFunction, as_cost_function, likely, shown
from flopbalance.costs.exact import CostModel
from flopbalance.costs.fitted import FittedCost
from flopbalance.costs.models.shapes import load_shape
from flopbalance.costs.published import PublishedFlops
from flopbalance.documents import read_json
from flopbalance.fields import Fields
from flopbalance.text import listed, printable, quoted, shortened
from flopbalance.writing import write_text

FLOPS_MODELS = ("published", "exact")
"""How the FLOPs of the model may be counted that a trainer's arguments describe."""

_FOLDER_ARGUMENT = "hf_checkpoint"
"""What trainers call the folder of a model, and so the word for what it describes."""

SOURCES = (
    "a built-in shape (flopbalance costs --list), a Hugging Face config.json or its folder, "
    "a .json file of model arguments, or a saved cost"
)
"""What `read_cost` takes, in words."""

_KINDS: dict[str, type[CostModel] | type[FittedCost]] = {"exact": CostModel, "fitted": FittedCost}
_MARK = "flopbalance_cost"
_UNSAVED = ("components",)
_LONGEST_REASON = 300


def select_flops_model(
    args: Any,
    flops_model: str | os.PathLike[str] | CostFunction = "published",
    *,
    name: str = "flops_model",
) -> CostFunction:
    """Return the cost that ``--flops-model`` means, of the model that a trainer's arguments describe.

    Parameters
    ----------
    args : namespace or mapping
        Megatron-style arguments.
    flops_model : {"published", "exact", "hf_checkpoint"}, str, path or object, default "published"
        As trainers count today, for the same schedule index for index; exactly, by `args`; or exactly, by the
        configuration in the folder ``args.hf_checkpoint``. Whatever `args` describe: a cost as `read_cost` takes it, or
        an object with ``flops(lengths)``.
    name : str, default "flops_model"
        How messages call it.

    Raises
    ------
    ValueError
        It is none of these, or what it names cannot be read.

    Examples
    --------
    >>> tiny = dict(num_layers=2, hidden_size=16, num_attention_heads=2, num_query_groups=2, kv_channels=8,
    ...             ffn_hidden_size=64, vocab_size=32, num_experts=None)
    >>> [select_flops_model(tiny, name).flops([1, 10]).tolist() for name in ("published", "exact")]
    [[17472.0, 180480.0], [17536, 181120]]
    """
    if not isinstance(flops_model, (str, os.PathLike)):
        return as_cost_function(flops_model, f"{name} must be a word, a path or an object; an object")
    if flops_model == "published":
        return PublishedFlops(args)
    if flops_model == "exact":
        return CostModel.from_args(args)
    if flops_model == _FOLDER_ARGUMENT:
        folder = Fields(args, "args").get(_FOLDER_ARGUMENT)
        if not isinstance(folder, (str, os.PathLike)):
            raise ValueError(f"args.{_FOLDER_ARGUMENT} must be a folder for {name} {flops_model}, got {shown(folder)}")
        return CostModel.from_hf_config(folder)
    try:
        return read_cost(flops_model)
    except ValueError as error:
        raise ValueError(
            f"{name} must be one of {', '.join(FLOPS_MODELS)}, got {shown(os.fspath(flops_model))}"
            f"{likely(flops_model, FLOPS_MODELS)}, which is neither {_FOLDER_ARGUMENT} nor a cost: {error}"
        ) from error


@overload
def read_cost(source: str | os.PathLike[str], flops_model: Literal["exact"] = "exact") -> CostModel | FittedCost: ...


@overload
def read_cost(source: str | os.PathLike[str], flops_model: str) -> CostFunction: ...


def read_cost(source: str | os.PathLike[str], flops_model: str = "exact") -> CostFunction:
    """Return the cost that a word on the command line means.

    Parameters
    ----------
    source : str or path
        A built-in shape such as ``qwen3-8b``; or a JSON file: a cost that `save_cost` wrote, a Hugging Face
        configuration (or the folder that holds it), or a JSON object of Megatron-style arguments.
    flops_model : {"exact", "published"}, default "exact"
        How the FLOPs of a shape or of arguments are counted; a Hugging Face configuration is always counted exactly.

    Raises
    ------
    ValueError
        The word is none of these; the message says what is wrong with the file or lists similar names.

    Examples
    --------
    >>> read_cost("qwen3-8b") == CostModel.from_name("qwen3-8B")
    True
    """
    path = Path(source)
    if path.is_dir() and os.fspath(source):
        return CostModel.from_hf_config(path)
    if not (path.is_file() or path.suffix.lower() == ".json"):
        if path.name != os.fspath(source):
            raise ValueError(f"{printable(str(path))}: no such file or folder")
        return select_flops_model(load_shape(path.name), flops_model)
    values = read_json(path)
    if _MARK in values:
        return _from_document(values, path)
    if "num_hidden_layers" in values or "text_config" in values or "model_type" in values:
        return CostModel.from_hf_config(values)
    return select_flops_model(values, flops_model)


def save_cost(cost: CostModel | FittedCost, path: str | os.PathLike[str]) -> None:
    """Write a cost as JSON, for every command's ``--cost``.

    Parameters
    ----------
    cost : CostModel or FittedCost
        All of it is kept, except for the components of a model.
    path : path
        Replaced as a whole when it exists.
    """
    kind = next((kind for kind, known in _KINDS.items() if isinstance(cost, known)), None)
    if kind is None:
        raise ValueError(f"cost must be a CostModel or a FittedCost, got {shown(cost)}")
    values = {name: value for name, value in dataclasses.asdict(cost).items() if name not in _UNSAVED}
    write_text(path, json.dumps({_MARK: kind, **values}, indent=1) + "\n")


def load_cost(path: str | os.PathLike[str]) -> CostModel | FittedCost:
    """Return the cost that `save_cost` wrote.

    Raises
    ------
    ValueError
        The file is no saved cost.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "cost.json"
    >>> save_cost(CostModel(per_token=7, windows=((128, 3),)), path)
    >>> load_cost(path)
    CostModel(per_token=7, lm_head=0, per_pair=0, windows=((128, 3),))
    """
    return _from_document(read_json(Path(path)), Path(path))


def _from_document(values: dict[str, Any], path: Path) -> CostModel | FittedCost:
    name, kind = printable(str(path)), values.pop(_MARK, None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"{name}: must be a saved cost, of kind {' or '.join(_KINDS)}, got kind {quoted(kind)}")
    known = [field.name for field in dataclasses.fields(_KINDS[kind]) if field.name not in _UNSAVED]
    unknown = [name for name in values if name not in known]
    try:
        if unknown:
            raise ValueError(f"expected {', '.join(known)}, found {listed(unknown)}")
        return _KINDS[kind](**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: no whole saved cost: {shortened(str(error), _LONGEST_REASON)}") from error
