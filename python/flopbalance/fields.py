"""Fields of a model's description, read by name and refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


def whole_number(value: Any, name: str, minimum: int) -> int:
    """Value as an integer of at least ``minimum``; booleans and fractions are refused.

    Examples
    --------
    >>> whole_number(8, "num_layers", minimum=1)
    8
    >>> whole_number(True, "num_layers", minimum=1)
    Traceback (most recent call last):
    ValueError: num_layers must be an integer >= 1, got True
    """
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= minimum:
        return int(value)
    raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")


COEFFICIENT_LIMIT = 2**59
"""64 bits hold a few coefficients below it, added and weighted."""


def check_coefficient(value: Any, name: str) -> None:
    """Refuse what is no coefficient of a cost curve."""
    if whole_number(value, name, minimum=0) >= COEFFICIENT_LIMIT:
        raise ValueError(f"{name} must be below 2^59, got {value}")


def check_windows(windows: tuple[tuple[Any, Any], ...]) -> None:
    """Refuse what are no windows of a cost curve."""
    for i, (window, cost) in enumerate(windows):
        whole_number(window, f"windows[{i}][0]", minimum=1)
        check_coefficient(cost, f"windows[{i}][1]")


class Fields:
    """Read-only view of a namespace, any object with attributes, or a mapping."""

    def __init__(self, source: Any, name: str, called: Mapping[str, str] | None = None) -> None:
        self._source = source
        self._name = name
        self._called = called or {}

    def has(self, field: str) -> bool:
        """Whether the field exists, None or not."""
        return field in self._source if isinstance(self._source, Mapping) else hasattr(self._source, field)

    def get(self, field: str) -> Any:
        """Value of a field, None when it is absent."""
        return self._source.get(field) if isinstance(self._source, Mapping) else getattr(self._source, field, None)

    def name(self, field: str) -> str:
        """How messages call a field: as its description does."""
        return f"{self._name}.{self._called.get(field, field)}"

    def size(self, *fields: str, minimum: int = 1) -> int:
        """Value of an integer field; of several names for it, the first that is set counts."""
        field = next((field for field in fields if self.get(field) is not None), fields[0])
        if not self.has(field):
            raise ValueError(f"{self.name(field)} is missing")
        return whole_number(self.get(field), self.name(field), minimum)

    def size_or(self, field: str, default: int, minimum: int = 1) -> int:
        """Value of an integer field, ``default`` when it is absent or None."""
        return default if self.get(field) is None else self.size(field, minimum=minimum)

    def size_or_none(self, field: str, minimum: int = 1) -> int | None:
        """Value of an integer field that must be there but may be None."""
        return None if self.has(field) and self.get(field) is None else self.size(field, minimum=minimum)

    def flag(self, field: str, default: bool = False) -> bool:
        """Value of a boolean field, ``default`` when it is absent or None."""
        value = self.get(field)
        if value is None:
            return default
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{self.name(field)} must be True or False, got {value!r}")
        return bool(value)

    def per_layer(self, field: str, num_layers: int) -> Sequence[Any]:
        """Value of a field with one entry per layer."""
        value = self.get(field)
        if not isinstance(value, str | list | tuple | np.ndarray):
            raise ValueError(f"{self.name(field)} must be a list with an entry per layer, got {value!r}")
        if len(value) != num_layers:
            raise ValueError(f"{self.name(field)} must have an entry for each of {num_layers} layers, got {len(value)}")
        return list(value)
