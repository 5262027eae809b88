"""Fields of a model's description, read by name and refused by name."""

from __future__ import annotations

from collections.abc import Mapping
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


class Fields:
    """Read-only view of a namespace, any object with attributes, or a mapping."""

    def __init__(self, source: Any, name: str) -> None:
        self._source = source
        self._name = name

    def get(self, field: str) -> Any:
        """Value of a field, None when it is absent."""
        if isinstance(self._source, Mapping):
            return self._source.get(field)
        return getattr(self._source, field, None)

    def has(self, field: str) -> bool:
        """Whether the field exists, None or not."""
        if isinstance(self._source, Mapping):
            return field in self._source
        return hasattr(self._source, field)

    def size(self, field: str, minimum: int = 1) -> int:
        """Value of an integer field."""
        if not self.has(field):
            raise ValueError(f"{self._name}.{field} is missing")
        return whole_number(self.get(field), f"{self._name}.{field}", minimum)

    def size_or(self, field: str, default: int, minimum: int = 1) -> int:
        """Value of an integer field, ``default`` when it is absent or None."""
        return default if self.get(field) is None else self.size(field, minimum)

    def size_or_none(self, field: str) -> int | None:
        """Value of an integer field that must be there but may be None."""
        return None if self.has(field) and self.get(field) is None else self.size(field)

    def flag(self, field: str, default: bool = False) -> bool:
        """Value of a boolean field, ``default`` when it is absent or None."""
        value = self.get(field)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ValueError(f"{self._name}.{field} must be True or False, got {value!r}")
        return value
