"""Makes a failing line small: edits its syntax tree as long as it fails in the same way.

Knows nothing of the functions that are called. Lists of one length are cut at the same place, as those of a plan must
be, and a value that stands in several places is changed in all.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Iterator
from typing import Any

SECONDS = 60.0
"""Some calls take long, and one that never ends takes longest."""


def shrink(line: str, fails: Callable[[str], bool], seconds: float = SECONDS) -> str:
    """Return the smallest line found in this time that still fails."""
    until = time.monotonic() + seconds
    while True:
        candidates = {ast.unparse(tree) for tree in _edits(line)}
        simpler = sorted((text for text in candidates if _weight(text) < _weight(line)), key=_weight)
        for text in simpler:
            if time.monotonic() > until:
                return line
            if fails(text):
                line = text
                break
        else:
            return line


def _weight(line: str) -> tuple[int, str]:
    """Shorter lines are simpler; of one length, those of smaller digits."""
    return len(line), line


def _edits(line: str) -> Iterator[ast.AST]:
    tree = ast.parse(line, mode="eval")
    nodes = list(ast.walk(tree))
    for change in _changes(tree, nodes):
        yield ast.fix_missing_locations(_Replaced(change).visit(ast.parse(line, mode="eval")))


Change = Callable[[ast.AST], ast.AST | None]
"""From a node to the one in its place; None leaves it."""


def _changes(tree: ast.Expression, nodes: list[ast.AST]) -> Iterator[Change]:
    lengths = {len(node.elts) for node in nodes if isinstance(node, (ast.List, ast.Tuple)) and node.elts}
    for length in sorted(lengths, reverse=True):
        for start, stop in _cuts(length):
            yield lambda node, n=length, a=start, b=stop: _without(node, n, a, b)
    known = set()
    for node in nodes:
        text = ast.dump(node)
        if text in known:
            continue
        known.add(text)
        for new in _simpler(node, is_root=node is tree.body):
            yield lambda other, text=text, new=new: new if ast.dump(other) == text else None
        if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
            for start, stop in _cuts(len(node.elts)):
                shorter = type(node)(elts=node.elts[:start] + node.elts[stop:], ctx=ast.Load())
                yield lambda other, text=text, new=shorter: new if ast.dump(other) == text else None


def _without(node: ast.AST, length: int, start: int, stop: int) -> ast.AST | None:
    if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == length:
        return type(node)(elts=node.elts[:start] + node.elts[stop:], ctx=ast.Load())
    return None


def _cuts(length: int) -> Iterator[tuple[int, int]]:
    """Yield parts to leave out: halves, then quarters, then single items."""
    step = length
    while step:
        yield from ((start, min(start + step, length)) for start in range(0, length, step))
        step //= 2


def _simpler(node: ast.AST, *, is_root: bool) -> Iterator[ast.AST]:
    if isinstance(node, ast.Constant):
        for value in _smaller(node.value):
            yield ast.Constant(value)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Call):
        for i in range(len(node.keywords)):
            yield ast.Call(func=node.func, args=node.args, keywords=node.keywords[:i] + node.keywords[i + 1 :])
        if not is_root:
            for i in range(1, len(node.args)):
                yield ast.Call(func=node.func, args=node.args[:i] + node.args[i + 1 :], keywords=node.keywords)
            yield from node.args[:1]
            yield ast.Constant(None)


def _smaller(value: Any) -> Iterator[Any]:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int):
        yield from (new for new in (0, 1, 2, value // 1000, value // 10, value // 2, value - 1) if 0 <= new < value)
    elif isinstance(value, float):
        yield from (0, 1)
        if value == value and abs(value) < 2**53:
            yield int(value)
        yield float(f"{value:.2g}")
    elif isinstance(value, (str, bytes)) and value:
        for start, stop in _cuts(len(value)):
            yield value[:start] + value[stop:]


class _Replaced(ast.NodeTransformer):
    def __init__(self, change: Change) -> None:
        self.change = change

    def visit(self, node: ast.AST) -> Any:
        new = self.change(node) if isinstance(node, ast.expr) else None
        return self.generic_visit(node) if new is None else new
