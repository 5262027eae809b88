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
from types import CodeType
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
READ_FILES = (
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
        return {"failure": law, "text": _anywhere(text.strip())}
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return {"failure": f"{type(error).__name__} in {_place(error)}", "text": str(error)[:500]}


def _run(line: str, with_laws: bool) -> dict[str, str]:
    code, attribute = _compiled(line)
    _, _, pristine = _parts(code, attribute)
    receiver, function, given = _parts(code, attribute)
    name = getattr(function, "__qualname__", type(function).__name__)
    answer, refusal, shown = _ended(function, given, (*REFUSALS, OSError) if name in READ_FILES else REFUSALS)
    if name not in CHANGE_ARGUMENTS and _content(given.arguments) != _content(pristine.arguments):
        raise BrokenLawError("arguments are left as they were")
    if with_laws and (law := LAWS.get(name)) is not None:
        pristine.apply_defaults()
        try:
            law(Call(pristine.arguments, receiver, answer, refusal))
        except BrokenLawError as broken:
            raise BrokenLawError(f"{name}, {broken}") from None
    if refusal is not None:
        return {"refusal": _anywhere(f"{type(refusal).__name__}: {refusal}")}
    return {"answer": hashlib.sha256(repr((_content(answer), shown)).encode()).hexdigest()[:16]}


def _ended(
    function: Any, given: inspect.BoundArguments, refusals: tuple[type[Exception], ...]
) -> tuple[Any, Exception | None, str]:
    """Return the answer or the refusal of a call that ends as every call must, and what a person sees of it."""
    answer, refusal = None, None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        start = time.process_time()
        try:
            answer = function(*given.args, **given.kwargs)
            answer = list(answer) if inspect.isgenerator(answer) else answer
        except refusals as error:
            refusal = error
        spent = time.process_time() - start
        shown = _shown(answer)
    for warning in warned:
        if warning.category is not UserWarning:
            raise BrokenLawError(f"warns with {warning.category.__name__}: {warning.message}")
    if spent > SECONDS:
        raise BrokenLawError(f"takes more than {SECONDS:.0f} s: {spent:.1f} s")
    message = str(refusal)
    if not (0 < len(message) <= LONGEST_MESSAGE and "\n" not in message):
        raise BrokenLawError(f"a message is one short line: {message!r:.200}, {len(message)} characters")
    return answer, refusal, shown


def _compiled(line: str) -> tuple[CodeType, str]:
    """Return code for what is called, or whose attribute it is, with its arguments; and the attribute, if it is one."""
    node = ast.parse(line, mode="eval").body
    function, positional, named = (
        (node.func, node.args, node.keywords) if isinstance(node, ast.Call) else (node, [], [])
    )
    owner, attribute = (function.value, function.attr) if isinstance(function, ast.Attribute) else (function, "")
    keywords = ast.Dict([ast.Constant(keyword.arg) for keyword in named], [keyword.value for keyword in named])
    parts = ast.Tuple([owner, ast.List(positional, ast.Load()), keywords], ast.Load())
    return compile(ast.fix_missing_locations(ast.Expression(parts)), "<line>", "eval"), attribute


def _parts(code: CodeType, attribute: str) -> tuple[Any, Any, inspect.BoundArguments]:
    """Return the object of a method, the function, and its arguments bound to their names, all made anew."""
    for entry in os.scandir("."):
        os.unlink(entry)  # so that files get the same names again
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            owner, positional, named = eval(code, vars(words))
        known = getattr(type(owner), attribute, None)
        if isinstance(known, property):
            function, positional = known.fget, [owner]
        else:
            function = getattr(owner, attribute) if attribute else owner
        return owner, function, inspect.signature(function).bind(*positional, **named)
    except Exception as error:  # not a panic, which is one wherever it stands
        raise MootError(f"{type(error).__name__}: {error}") from error


def _shown(answer: Any) -> str:
    """Return what a person sees of an answer, which must be there."""
    if not type(answer).__module__.startswith("flopbalance"):
        return ""
    html = getattr(answer, "_repr_html_", str)
    return _anywhere(f"{answer} {answer!r} {html()}")


def _content(value: Any) -> Any:
    """Return what a value holds, the same in every process."""
    if isinstance(value, np.ndarray):
        if value.dtype == object or value.dtype.itemsize > 8:  # of long doubles a few bytes are anything
            return (str(value.dtype), [_content(item) for item in value.ravel().tolist()])
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [_content(item) for item in value])
    if isinstance(value, Mapping):
        return [(str(key), _content(item)) for key, item in value.items()]
    if isinstance(value, Namespace):
        return _content(vars(value))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__name__, [_content(getattr(value, field.name)) for field in fields(value)])
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic, set)):
        return repr(value)
    return type(value).__name__


def _anywhere(message: str) -> str:
    """Return a message without addresses of memory, which differ between processes."""
    return re.sub("0x[0-9a-f]+", "0x...", message)


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
        os.chdir("/")


if __name__ == "__main__":
    main()
