"""Fields by name, and functions of them that are worked out again only when one has changed."""

from __future__ import annotations

import argparse
import enum
from collections import ChainMap, UserDict, defaultdict
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from flopbalance import calculate_fwd_flops
from flopbalance.fields import remembered
from test_plan import TINY


class Plain:
    """Any object with attributes."""

    def __init__(self, **values):
        self.__dict__.update(values)


class WithDefaults(Plain):
    unset = None


KINDS = {
    "dict": dict,
    "defaultdict": lambda **values: defaultdict(lambda: 7, values),
    "mapping": lambda **values: UserDict(values),
    "SimpleNamespace": SimpleNamespace,
    "argparse": argparse.Namespace,
    "object": Plain,
    "object with defaults": WithDefaults,
}


def put(source, **values):
    if hasattr(source, "__setitem__"):
        source.update(values)
    else:
        vars(source).update(values)


def drop(source, name):
    if hasattr(source, "__setitem__"):
        del source[name]
    else:
        delattr(source, name)


class Counted:
    """A remembered function that says how often it was worked out; it reads `b` only where `a` is True."""

    def __init__(self):
        self.times = 0

        @remembered("args")
        def read(fields):
            self.times += 1
            found = fields.get("a"), fields.has("a"), fields.get("b") if fields.get("a") is True else None
            return [list(value) if isinstance(value, list) else value for value in found]

        self.read = read


@pytest.mark.parametrize("kind", KINDS)
class TestRemembered:
    def test_follows_every_change(self, kind):
        counted, source = Counted(), KINDS[kind](a=1, b=2)
        assert counted.read(source) == [1, True, None]
        for value in (2, "2", None, 2.0, [1, 2], [2, 1], [2], True):
            put(source, a=value)
            expected = [value, True, 2 if value is True else None]
            assert [counted.read(source), counted.read(source)] == [expected, expected]
        put(source, b=3)
        assert counted.read(source) == [True, True, 3]

    def test_tells_what_is_missing_from_what_is_none(self, kind):
        counted, source = Counted(), KINDS[kind](a=None, b=2)
        assert counted.read(source) == [None, True, None]
        drop(source, "a")
        assert counted.read(source) == [None, False, None]
        put(source, a=None)
        assert counted.read(source) == [None, True, None]

    @pytest.mark.parametrize(("before", "after"), [(1, True), (True, 1), (1, 1.0), (0, False)], ids=repr)
    def test_tells_equal_values_of_other_types_apart(self, kind, before, after):
        for wrap in (lambda value: value, lambda value: [value], lambda value: (value,)):
            counted, source = Counted(), KINDS[kind](a=wrap(before), b=2)
            counted.read(source)
            put(source, a=wrap(after))
            assert repr(counted.read(source)[0]) == repr(wrap(after))

    def test_sees_a_list_change_in_itself(self, kind):
        counted, values = Counted(), [0, 1]
        source = KINDS[kind](a=values)
        assert counted.read(source)[0] == [0, 1]
        values[0] = 5
        assert counted.read(source)[0] == [5, 1]
        values.append(6)
        assert counted.read(source)[0] == [5, 1, 6]
        values[:] = [[0], 1]
        counted.read(source)
        values[0].append(2)
        assert counted.read(source)[0] == [[0, 2], 1]

    def test_sees_an_array_change_in_itself(self, kind):
        counted, values = Counted(), np.array([0, 1])
        source = KINDS[kind](a=values)
        assert counted.read(source)[0].tolist() == [0, 1]
        values[0] = 5
        assert counted.read(source)[0].tolist() == [5, 1]


class Size(int):
    """A whole number of somebody's own."""


class Word(str):
    """A text of somebody's own."""


class Precision(enum.Enum):
    LOW = "low"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("value", "equal"),
    [
        (2**70, int(str(2**70))),
        ("a b", " ".join("ab")),
        ([1, "a"], [1, "a"]),
        ((1, None), tuple(iter((1, None)))),
        ([2**70, np.int64(5)], [int(str(2**70)), np.int64(5)]),
        (np.int64(5), np.int64(5)),
        (np.float32(5), np.float32(5)),
        (np.True_, np.bool_(1)),
        (np.str_("ab"), np.str_("ab")),
        (Size(5), Size(5)),
        (Word("ab"), Word("ab")),
        (Precision.LOW, Precision("low")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_did_not_change_is_not_worked_out_again(kind, value, equal):
    counted, source = Counted(), KINDS[kind](a=value, b=2, c=[1, 0])
    for _ in range(3):
        counted.read(source)
        put(source, a=equal, b=source, c=None)  # the other fields are read by nobody
    assert counted.times == 1


@pytest.mark.parametrize("kind", [MappingProxyType, ChainMap])
def test_views_of_mappings_are_remembered(kind):
    counted, values = Counted(), {"a": 5}
    for _ in range(3):
        assert counted.read(kind(values)) == [5, True, None]
    assert counted.times == 1
    values["a"] = 6
    assert counted.read(kind(values)) == [6, True, None]


class Alike(int):
    """A number that is equal to any other."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    ("before", "after"),
    [(np.int64(1), np.int32(1)), (Size(1), 1), (Word("a"), "a"), (np.int64(1), True), (Alike(1), Alike(2))],
    ids=lambda value: type(value).__name__,
)
def test_equal_values_that_are_read_otherwise_are_told_apart(before, after):
    counted, source = Counted(), {"a": before}
    assert counted.read(source)[0] is before
    source["a"] = after
    assert counted.read(source)[0] is after


def test_several_descriptions_in_turn_are_all_kept():
    counted = Counted()
    sources = [KINDS[kind](a=number) for kind in ("dict", "object") for number in range(4)]
    for _ in range(3):
        assert [counted.read(source)[0] for source in sources] == [0, 1, 2, 3] * 2
    assert counted.times == len(sources)


def test_a_refusal_is_not_remembered():
    @remembered("args")
    def size(fields):
        return fields.size("a")

    source = {"a": 0}
    for _ in range(2):
        with pytest.raises(ValueError, match=r"args\.a must be >= 1, got 0"):
            size(source)
    source["a"] = 3
    assert size(source) == 3


def test_every_description_counts():
    @remembered("args", "parallel")
    def product(fields, others):
        return fields.size("a") * others.size("b")

    first, second = {"a": 2}, SimpleNamespace(b=3)
    assert product(first, second) == 6
    second.b = 5
    assert product(first, second) == 10
    first["a"] = 7
    assert product(first, second) == 35


def test_an_attribute_that_raises_is_heard():
    class Failing(Plain):
        broken = False

        @property
        def a(self):
            if self.broken:
                raise RuntimeError("no answer")
            return 1

    counted, source = Counted(), Failing()
    assert counted.read(source)[0] == 1
    source.broken = True
    with pytest.raises(RuntimeError, match="no answer"):
        counted.read(source)


class Shape:
    """A model that has layers of experts, or refuses to say which they are."""

    def __init__(self, num_experts):
        vars(self).update(TINY, num_experts=num_experts, moe_ffn_hidden_size=8, moe_router_topk=2)

    @property
    def moe_layer_freq(self):
        if self.num_experts is None:
            raise ValueError("a dense model has none")
        return None

    @property
    def moe_shared_expert_intermediate_size(self):
        if self.num_experts is None:
            raise ValueError("a dense model has none")
        raise AttributeError


def test_an_answer_does_not_depend_on_what_was_asked_before():
    dense = calculate_fwd_flops([10], Shape(None))
    calculate_fwd_flops([10], Shape(4))
    assert calculate_fwd_flops([10], Shape(None)) == dense


def test_nothing_is_read_that_is_not_asked_for():
    @remembered("args", "parallel")
    def choice(args, parallel):
        return parallel.get("b") if parallel.get("a") else args.get("c")

    class Dense(Plain):
        @property
        def c(self):
            if self.closed:
                raise ValueError("not to be read")
            return 5

    assert choice(Dense(closed=False), {"a": 0}) == 5
    assert choice(Dense(closed=True), {"a": 1, "b": 7}) == 7
