"""What callers pass, as flat arrays: the one place where types and shapes of arguments are checked.

The core checks what it reads anyway: floats, and sums.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NoReturn, SupportsIndex, TypeAlias, TypeVar, get_args

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]
Weights: TypeAlias = "npt.NDArray[np.uint64 | np.float64] | list[int]"

_Choice = TypeVar("_Choice", bound=str)
_Integer = TypeVar("_Integer", bound=np.integer[Any])

_EXACT_FLOAT = 2**53
"""Beyond this, a float no longer holds every whole number."""


def as_count(value: SupportsIndex, name: str, minimum: int = 1) -> int:
    """Return a whole number of at least `minimum`."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    if not minimum <= count < 2**63:
        raise ValueError(f"{name} must be >= {minimum} and < 2^63, got {count}")
    return count


def as_amount(value: Any, name: str) -> float:
    """Return a finite number of at least 0."""
    try:
        amount = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    if not 0 <= amount < math.inf:
        raise ValueError(f"{name} must be >= 0 and finite, got {amount}")
    return amount


def as_choice(value: _Choice, choices: Any, name: str) -> _Choice:
    """Return `value`, which must be one of the strings of a Literal."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")
    return value


def as_integers(values: npt.ArrayLike, name: str) -> Ints:
    """Return whole numbers as a contiguous int64 array of one dimension."""
    array = _as_numbers(values, name)
    if array.dtype == np.int64:
        return np.ascontiguousarray(array)
    if array.dtype.kind in "iu":
        if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
            _refuse(array >= 2**63, array, name, "below 2^63")
    elif array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = (np.abs(array) < _EXACT_FLOAT) & (array == np.floor(array))
        if not whole.all():
            _refuse(~whole, array, name, "a whole number")
    else:
        _integers_of_objects(array, name, limit=63)
    return np.ascontiguousarray(array, dtype=np.int64)


def as_lengths(values: npt.ArrayLike, name: str) -> Ints:
    """Return token counts, which are >= 0, as a contiguous int64 array of one dimension."""
    return _not_negative(as_integers(values, name), name)


def as_weights(values: npt.ArrayLike, name: str) -> Weights:
    """Return numbers in a type that holds them exactly: uint64, float64, or Python integers beyond."""
    array = _as_numbers(values, name)
    kind = array.dtype.kind
    if kind == "f":
        if array.dtype.itemsize > 8:
            raise ValueError(f"{name} must hold floats of at most 64 bits, got {array.dtype}")
        array = np.ascontiguousarray(array, dtype=np.float64)
        if not isinstance(values, np.ndarray) and array.max(initial=0) >= _EXACT_FLOAT:
            return _unrounded(values, array, name)
        return array
    if kind == "O":
        return _integers_of_objects(array, name, limit=128)
    if kind == "u":
        return np.ascontiguousarray(array, dtype=np.uint64)
    return np.ascontiguousarray(_not_negative(array, name), dtype=np.int64).view(np.uint64)


def _as_numbers(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name} must be one flat sequence of numbers, got {type(values).__name__}: {error}") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim} (shape {array.shape})")
    if array.dtype.kind not in "iufO":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    return array


def _unrounded(values: npt.ArrayLike, array: npt.NDArray[np.float64], name: str) -> Weights:
    """Return large integers of a list that NumPy has made floats of, exactly."""
    objects = np.array(values, dtype=object)
    integers = [isinstance(value, (int, np.integer)) for value in objects]
    if all(integers):
        return _integers_of_objects(objects, name, limit=128)
    for i, integer in enumerate(integers):
        if integer and int(array[i]) != objects[i]:
            raise ValueError(f"{name}[{i}] must be a number that a float holds, beside floats, got {objects[i]}")
    return array


def _integers_of_objects(array: npt.NDArray[np.object_], name: str, limit: int) -> list[int]:
    numbers: list[int] = []
    for i, value in enumerate(array):
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError
            number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
        except TypeError:
            raise ValueError(f"{name}[{i}] must be a whole number, got {value!r}") from None
        if number < 0:
            raise ValueError(f"{name}[{i}] must be >= 0, got {number}")
        if number >= 1 << limit:
            raise ValueError(f"{name}[{i}] must be below 2^{limit}, got {number}")
        numbers.append(number)
    return numbers


def _not_negative(array: npt.NDArray[_Integer], name: str) -> npt.NDArray[_Integer]:
    if array.size and array.min() < 0:
        _refuse(array < 0, array, name, ">= 0")
    return array


def _refuse(at_fault: npt.NDArray[np.bool_], array: npt.NDArray[Any], name: str, rule: str) -> NoReturn:
    i = int(np.argmax(at_fault))
    raise ValueError(f"{name}[{i}] must be {rule}, got {array[i]}")
