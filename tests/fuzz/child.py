"""Runs lines in one build of the package, one after the other, and says of each how it ended.

A line that ends the process, or never ends, is known by its silence. ``python -m fuzz.child laws`` also asks the laws.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz import words
from fuzz.builds import READY
from fuzz.laws import LAWS, BrokenLawError, Call

MEMORY = 6 * 2**30
"""Of address space; a call that wants more gets a MemoryError, or aborts."""
SECONDS = 5.0
"""Of the processor that a call of these sizes may take."""
REFUSALS = (ValueError, OverflowError, MemoryError)
LONGEST_MESSAGE = 1000
MESSAGES_ARE_FILES = (
    "read_lengths",
    "load_cost",
    "read_cost",
    "Schedule.load",
    "Schedule.save",
    "CostModel.from_hf_config",
)
"""Functions of a path, which may be missing."""
CHANGE_ARGUMENTS = ("split", "validate_balance_args")
"""Functions whose purpose it is."""
PACKAGE = f"{os.sep}flopbalance{os.sep}"


class MootError(Exception):
    """The line fails before its call: an argument cannot be made."""


def verdict(line: str, with_laws: bool) -> dict[str, str]:
    """Return ``{"answer": ...}``, ``{"refusal": ...}``, ``{"moot": ...}`` or ``{"failure": kind, "text": ...}``."""
    try:
        return _run(line, with_laws)
    except MootError as moot:
        return {"moot": _anywhere(str(moot))}
    except BrokenLawError as broken:
        law, _, text = str(broken).partition(":")
        return {"failure": law, "text": text.strip()}
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"failure": f"{type(error).__name__} in {_place(error)}", "text": str(error)[:500]}


def _run(line: str, with_laws: bool) -> dict[str, str]:
    node = ast.parse(line, mode="eval").body
    _, _, pristine = _parts(node)
    _remove_files()  # so that they get the same names again
    receiver, function, given = _parts(node)
    name = getattr(function, "__qualname__", type(function).__name__)
    answer, refusal = None, None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        start = time.process_time()
        try:
            answer = function(*given.args, **given.kwargs)
            answer = list(answer) if inspect.isgenerator(answer) else answer
            spent = time.process_time() - start
            shown = _shown(answer)
        except REFUSALS as error:
            spent, refusal = time.process_time() - start, error
        except OSError as error:
            if name not in MESSAGES_ARE_FILES:
                raise
            spent, refusal = time.process_time() - start, ValueError(str(error))
    for warning in warned:
        if warning.category is not UserWarning:
            raise BrokenLawError(f"warns with {warning.category.__name__}: {warning.message}")
    if spent > SECONDS:
        raise BrokenLawError(f"takes more than {SECONDS:.0f} s: {spent:.1f} s")
    if name not in CHANGE_ARGUMENTS and _content(given.arguments) != _content(pristine.arguments):
        raise BrokenLawError("arguments are left as they were")
    if refusal is not None:
        message = str(refusal)
        if not (0 < len(message) <= LONGEST_MESSAGE and "\n" not in message):
            raise BrokenLawError(f"a message is one short line: {message!r:.200}, {len(message)} characters")
    if with_laws and (law := LAWS.get(name)) is not None:
        pristine.apply_defaults()
        arguments = dict(pristine.arguments)
        if isinstance(receiver, words.PublishedFlops):  # the law asks what it was made of
            arguments["args"] = _parts(node.func.value)[2].arguments["args"]
        try:
            law(Call(arguments, receiver, answer, refusal))
        except BrokenLawError as broken:
            raise BrokenLawError(f"{name}, {broken}") from None
    if refusal is not None:
        return {"refusal": _anywhere(f"{type(refusal).__name__}: {refusal}")}
    return {"answer": hashlib.sha256(repr((_content(answer), shown)).encode()).hexdigest()[:16]}


def _parts(node: Any) -> tuple[Any, Any, inspect.BoundArguments]:
    """Return the object of a method, the function, and its arguments bound to their names."""
    try:
        if not isinstance(node, ast.Call):  # a property
            value = _value(node.value)
            getter = getattr(type(value), node.attr).fget
            return value, getter, inspect.signature(getter).bind(value)
        receiver = _value(node.func.value) if isinstance(node.func, ast.Attribute) else None
        function = getattr(receiver, node.func.attr) if receiver is not None else _value(node.func)
        positional = []
        for argument in node.args:
            positional += _value(argument.value) if isinstance(argument, ast.Starred) else [_value(argument)]
        named = {keyword.arg: _value(keyword.value) for keyword in node.keywords}
        return receiver, function, inspect.signature(function).bind(*positional, **named)
    except Exception as error:  # not a panic, which is one wherever it stands
        raise MootError(f"{type(error).__name__}: {error}") from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(compile(ast.Expression(node), "<line>", "eval"), vars(words))


def _shown(answer: Any) -> str:
    """Return what a person sees of an answer, which must be there."""
    if type(answer).__module__.startswith("flopbalance"):
        html = getattr(answer, "_repr_html_", str)
        return f"{answer} {answer!r} {html() if not isinstance(html, type) else ''}" if not _has_address(answer) else ""
    return ""


def _has_address(value: Any) -> bool:
    return type(value).__repr__ is object.__repr__


def _content(value: Any) -> Any:
    """Return what a value holds, the same in every process."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return ("objects", [_content(item) for item in value.ravel()])
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [_content(item) for item in value])
    if isinstance(value, Mapping):
        return [(str(key), _content(item)) for key, item in value.items()]
    if isinstance(value, Namespace):
        return _content(vars(value))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [_content(getattr(value, field.name)) for field in fields(value)])
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, set)):
        return repr(value)
    return type(value).__name__


def _anywhere(message: str) -> str:
    """Return a message without addresses of memory, which differ between processes."""
    return re.sub("0x[0-9a-f]+", "0x...", message)


def _remove_files() -> None:
    for entry in os.scandir("."):
        os.unlink(entry)


def _place(error: BaseException) -> str:
    """Return the innermost function of the package that an exception came through."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f"{Path(frame.filename).name}:{frame.name}" for frame in frames if PACKAGE in frame.filename]
    return inside[-1] if inside else f"{Path(frames[-1].filename).name}:{frames[-1].name}"


def main() -> None:
    with_laws = "laws" in sys.argv
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints meanwhile is no answer
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(json.dumps(READY), file=answers, flush=True)
        for line in sys.stdin.buffer:
            print(json.dumps(verdict(json.loads(line), with_laws)), file=answers, flush=True)
            _remove_files()
        os.chdir("/")


if __name__ == "__main__":
    main()
