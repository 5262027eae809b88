"""Makes a failing line small: edits its syntax tree as long as it fails in the same way.

Knows nothing of the functions that are called. Lists of one length are cut at the same place, as those of a plan must
be, and a value that stands in several places is changed in all.
"""

from __future__ import annotations

import ast
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

SECONDS = 60.0
"""Some calls take long, and one that never ends takes longest."""


def shrink(line: str, fails: Callable[[str], bool], seconds: float = SECONDS) -> str:
    """Return the smallest line found in this time that still fails."""
    until = time.monotonic() + seconds
    edits, position, misses = _edits(line), 0, 0
    while misses < len(edits) and time.monotonic() < until:
        position %= len(edits)
        text = _edited(line, edits[position])
        if _weight(text) < _weight(line) and fails(text):
            # What comes next is, as often as not, the same of what is left.
            line, misses = text, 0
            edits = _edits(line)
        else:
            position, misses = position + 1, misses + 1
    return line


def _weight(line: str) -> tuple[int, str]:
    """Shorter lines are simpler; of one length, those of smaller digits."""
    return len(line), line


Edit = dict[int, ast.expr]
"""What stands in the place of nodes, by their numbers in `_nodes`."""


def _nodes(tree: ast.Expression) -> list[ast.expr]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.expr)]


def _edited(line: str, edit: Edit) -> str:
    tree = ast.parse(line, mode="eval")
    nodes = _nodes(tree)
    return ast.unparse(_Replaced({id(nodes[number]): new for number, new in edit.items()}).visit(tree))


class _Replaced(ast.NodeTransformer):
    def __init__(self, new: dict[int, ast.expr]) -> None:
        self.new = new

    def visit(self, node: ast.AST) -> Any:
        return self.new[id(node)] if id(node) in self.new else self.generic_visit(node)


def _edits(line: str) -> list[Edit]:
    """Return what may be left out or made simpler, the largest cuts first."""
    tree = ast.parse(line, mode="eval")
    nodes = _nodes(tree)
    of_length, alike = defaultdict(list), defaultdict(list)
    for number, node in enumerate(nodes):
        alike[ast.dump(node)].append(number)
        if isinstance(node, (ast.List, ast.Tuple)):
            of_length[len(node.elts)].append(number)
    edits = [
        {number: _without(nodes[number], start, stop) for number in numbers}
        for length, numbers in sorted(of_length.items(), reverse=True)
        for start, stop in _cuts(length)
    ]
    for numbers in alike.values():
        node = nodes[numbers[0]]
        edits += [dict.fromkeys(numbers, new) for new in _simpler(node, is_root=node is tree.body)]
    return edits


def _without(node: Any, start: int, stop: int) -> ast.expr:
    return type(node)(elts=node.elts[:start] + node.elts[stop:], ctx=ast.Load())


def _cuts(length: int) -> Iterator[tuple[int, int]]:
    """Yield parts to leave out: halves, then quarters, then single items."""
    step = length
    while step:
        yield from ((start, min(start + step, length)) for start in range(0, length, step))
        step //= 2


def _simpler(node: ast.expr, *, is_root: bool) -> Iterator[ast.expr]:
    """Yield what may stand in the place of a node; a call by itself is what fails."""
    if isinstance(node, ast.Constant):
        for value in _smaller(node.value):
            yield ast.Constant(value)
    elif isinstance(node, (ast.List, ast.Tuple)):
        yield from (_without(node, start, stop) for start, stop in _cuts(len(node.elts)))
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
