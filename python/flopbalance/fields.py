"""Fields of a description, read by name and refused by name."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from flopbalance import _core
from flopbalance.checks import as_count, as_flag, shown

_Answer = TypeVar("_Answer")

_MISSING = object()
_EQUALITIES = {kind.__eq__ for kind in (int, float, str, object)}
_MOST_ANSWERS = 8
"""More models than one process balances for at once."""


class Fields:
    """Read-only view of a namespace, any object with attributes, or a mapping.

    Numbers are read as files of settings spell them: 12.0 is a whole number, 1 is True.

    Parameters
    ----------
    source : namespace or mapping
        What holds the fields.
    name : str
        How messages call it.
    called : mapping of str to str, optional
        How they call some of its fields, where not by the names under which these are read.

    Examples
    --------
    >>> fields = Fields({"num_layers": 2}, "args")
    >>> fields.size("num_layers"), fields.flag("swiglu"), fields.get("num_experts")
    (2, False, None)
    >>> fields.size("hidden_size")
    Traceback (most recent call last):
    ValueError: args.hidden_size is missing
    """

    __slots__ = ("_called", "_is_mapping", "_name", "_source")

    def __init__(self, source: Any, name: str, called: Mapping[str, str] | None = None) -> None:
        self._source = source
        self._is_mapping = isinstance(source, Mapping)
        self._name = name
        self._called = called

    def has(self, field: str) -> bool:
        """Whether the field exists, None or not."""
        return self._find(field) is not _MISSING

    def get(self, field: str) -> Any:
        """Value of a field, None when it is absent."""
        value = self._find(field)
        return None if value is _MISSING else value

    def _find(self, field: str) -> Any:
        source = self._source
        return source.get(field, _MISSING) if self._is_mapping else getattr(source, field, _MISSING)

    def name(self, field: str) -> str:
        """How messages call a field: as its description does."""
        return f"{self._name}.{self._called.get(field, field) if self._called else field}"

    def size(self, *fields: str, minimum: int = 1) -> int:
        """Value of a field that is a whole number; of several names for it, the first that is set counts."""
        for field in fields:
            value = self.get(field)
            if value is not None:
                return as_count(_whole(value), self.name(field), minimum)
        if not self.has(fields[0]):
            raise ValueError(f"{self.name(fields[0])} is missing")
        return as_count(self.get(fields[0]), self.name(fields[0]), minimum)

    def size_or(self, field: str, default: int, minimum: int = 1) -> int:
        """Value of a field that is a whole number, ``default`` when it is absent or None."""
        value = self.get(field)
        return default if value is None else as_count(_whole(value), self.name(field), minimum)

    def size_or_none(self, field: str, minimum: int = 1) -> int | None:
        """Value of a field that is a whole number, and must be there but may be None."""
        return None if self.get(field) is None and self.has(field) else self.size(field, minimum=minimum)

    def flag(self, field: str, default: bool = False) -> bool:
        """Value of a boolean field, ``default`` when it is absent or None."""
        value = self.get(field)
        return default if value is None else as_flag(_truth(value), self.name(field))

    def per_layer(self, field: str, num_layers: int) -> Sequence[Any]:
        """Value of a field with one entry per layer."""
        value = self.get(field)
        if not isinstance(value, str | list | tuple | np.ndarray):
            raise ValueError(f"{self.name(field)} must be a list with an entry per layer, got {shown(value)}")
        if len(value) != num_layers:
            raise ValueError(f"{self.name(field)} must have an entry for each of {num_layers} layers, got {len(value)}")
        return list(value)


def _whole(value: Any) -> Any:
    """Return the whole number that a float is, and anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _truth(value: Any) -> Any:
    """Return the truth that 0 and 1 stand for, and anything else as it is."""
    return bool(value) if isinstance(value, (int, float)) and value in (0, 1) else value


def remembered(*names: str) -> Callable[[Callable[..., _Answer]], Callable[..., _Answer]]:
    """Work a function of descriptions out again only where a field that it read has changed.

    Reading a trainer's arguments takes longer than most of what is then asked of them for a handful of samples, and
    they hardly ever change between calls. Whether they have is seen in some nanoseconds a field. What could change in
    itself (anything but numbers, text, enums, NumPy's scalars, and lists of these) is read anew every time, as is what
    was refused.

    Parameters
    ----------
    *names : str
        How messages call the descriptions. The function takes a `Fields` for each, and depends on nothing but what it
        reads of them; the function that is returned takes the descriptions.

    Examples
    --------
    >>> @remembered("args")
    ... def area(fields):
    ...     return fields.size("width") * fields.size("height")
    >>> sides = {"width": 3, "height": 2}
    >>> area(sides), area(sides)
    (6, 6)
    >>> sides["height"] = 5
    >>> area(sides)
    15
    """

    def remember(function: Callable[..., _Answer]) -> Callable[..., _Answer]:
        known: tuple[tuple[_core.Notes, _Answer], ...] = ()

        @functools.wraps(function)
        def recall(*sources: Any) -> _Answer:
            nonlocal known
            for notes, answer in known:
                if notes.hold(sources):
                    return answer
            record: _Record = {}
            described = enumerate(zip(sources, names, strict=True))
            read = [_NotedFields(source, name, number, record) for number, (source, name) in described]
            answer = function(*read)
            if all(map(_can_be_compared, record.values())):
                found = [(*field, value) for field, value in record.items()]
                notes = _core.Notes([fields.described() for fields in read], found, _MISSING)
                known = ((notes, answer), *known[: _MOST_ANSWERS - 1])
            return answer

        return recall

    return remember


_Record: TypeAlias = dict[tuple[int, str], Any]
"""By the number of the description and the field's name, in the order of reading: what was found."""


class _NotedFields(Fields):
    """Fields that note what is read of them."""

    __slots__ = ("_number", "_record")

    def __init__(self, source: Any, name: str, number: int, record: _Record) -> None:
        super().__init__(source, name)
        self._number = number
        self._record = record

    def _find(self, field: str) -> Any:
        value = super()._find(field)
        self._record.setdefault((self._number, field), list(value) if type(value) is list else value)
        return value

    def described(self) -> tuple[Any, bool]:
        return self._source, self._is_mapping


def _can_be_compared(value: Any) -> bool:
    return all(map(_stays, value)) if type(value) in (list, tuple) else _stays(value)


def _stays(value: Any) -> bool:
    """Whether a value cannot change in itself, and only what is read alike is equal to it."""
    kind = type(value)
    if value is None or value is _MISSING:
        return True
    if kind.__module__ == "numpy":
        return issubclass(kind, np.number | np.bool_ | np.str_)
    return issubclass(kind, int | float | str | enum.Enum) and kind.__eq__ in _EQUALITIES
