"""What callers pass, as flat arrays: the one place where types and shapes of arguments are checked.

What the core checks for all its callers, it checks here too, and reports by the argument's name.
"""

from __future__ import annotations

import math
import operator
from typing import Any, NoReturn, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from flopbalance import _core

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Weights: TypeAlias = "npt.NDArray[np.uint64 | np.float64] | list[int]"

_Choice = TypeVar("_Choice", bound=str)
_Number = TypeVar("_Number", bound="np.integer[Any] | np.floating[Any]")

_EXACT_FLOAT = 2**53
"""Beyond this, a float no longer holds every whole number."""


class CostFunction(Protocol):
    """Anything that says what each sample costs."""

    def flops(self, lengths: Ints, /) -> npt.ArrayLike:
        """Return the cost of each length."""


def as_count(value: SupportsIndex, name: str, minimum: int = 1, limit: int = 2**63) -> int:
    """Return a whole number of at least `minimum`, below a power of two; not a boolean.

    Examples
    --------
    >>> as_count(np.int64(8), "num_layers")
    8
    >>> as_count(True, "num_layers")
    Traceback (most recent call last):
    ValueError: num_layers must be a whole number, got True
    """
    if type(value) is int and minimum <= value < limit:  # nearly always
        return value
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None
    if count < minimum:
        raise ValueError(f"{name} must be >= {minimum}, got {count}")
    if count >= limit:
        raise ValueError(f"{name} must be below 2^{limit.bit_length() - 1}, got {count}")
    return count


def as_flag(value: object, name: str) -> bool:
    """Return a boolean; words and numbers are refused."""
    if value is True or value is False:
        return value
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def as_amount(value: Any, name: str) -> float:
    """Return a finite number of at least 0."""
    try:
        if isinstance(value, (bool, np.bool_, str)):
            raise TypeError
        amount = float(value)
    except OverflowError:
        amount = math.inf
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    if not 0 <= amount < math.inf:
        raise ValueError(f"{name} must be >= 0 and finite, got {amount}")
    return amount


def as_choice(value: _Choice, choices: Any, name: str) -> _Choice:
    """Return `value`, which must be one of the strings of a Literal."""
    if not isinstance(value, str) or value not in choices.__args__:
        raise ValueError(f"{name} must be one of {', '.join(choices.__args__)}, got {value!r}")
    return value


def as_integers(values: npt.ArrayLike, name: str) -> Ints:
    """Return whole numbers as a contiguous int64 array of one dimension."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1 and values.flags.c_contiguous:
        return values
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
            if isinstance(values, (list, tuple)):  # NumPy makes floats of large integers in a list
                return np.array(_integers_of_objects(np.array(values, dtype=object), name, -(2**63), 2**63))
            large = ~whole & (np.abs(array) >= _EXACT_FLOAT)
            _refuse(~whole, array, name, "below 2^53 as a float" if large[np.argmin(whole)] else "a whole number")
    else:
        _integers_of_objects(array, name, -(2**63), 2**63)
    return np.ascontiguousarray(array, dtype=np.int64)


def as_lengths(values: npt.ArrayLike, name: str) -> Ints:
    """Return token counts, which are >= 0, as a contiguous int64 array of one dimension."""
    lengths = as_integers(values, name)
    _core.check_lengths(lengths, name)
    return lengths


def as_weights(values: npt.ArrayLike, name: str) -> Weights:
    """Return numbers in a type that holds them exactly: uint64, float64, or Python integers beyond."""
    array = _as_numbers(values, name)
    kind = array.dtype.kind
    if kind == "f":
        if array.dtype.itemsize > 8:
            raise ValueError(f"{name} must hold floats of at most 64 bits, got {array.dtype}")
        floats = np.ascontiguousarray(array, dtype=np.float64)
        if isinstance(values, (list, tuple)) and floats.max(initial=0) >= _EXACT_FLOAT:
            return _unrounded(np.array(values, dtype=object), name)
        _core.check_weights(floats, name)
        return floats
    if kind == "O":
        return _unrounded(array, name)
    if kind == "u":
        return np.ascontiguousarray(array, dtype=np.uint64)
    return np.ascontiguousarray(_not_negative(array, name), dtype=np.int64).view(np.uint64)


def as_bins(bins: list[list[int]], name: str) -> tuple[Ints, Ints]:
    """Return the samples of all bins in a row, and how many each bin holds."""
    if not (isinstance(bins, list) and all(isinstance(samples, (list, tuple)) for samples in bins)):
        raise ValueError(f"{name} must be a list of lists of sample indices, got {bins!r}")
    samples = as_integers([sample for samples in bins for sample in samples], name)
    return samples, np.array([len(samples) for samples in bins], dtype=np.int64)


def as_cost_function(cost: CostFunction, name: str) -> CostFunction:
    """Return a cost that can be asked for every length."""
    if isinstance(cost, type) or not callable(getattr(cost, "flops", None)):
        raise ValueError(f"{name} must have flops(lengths), as CostModel.from_name('qwen3-8b') has, got {cost!r}")
    return cost


def as_sample_costs(costs: npt.ArrayLike | CostFunction, lengths: Ints | None, count: int) -> Weights:
    """Return what each of `count` samples costs, from an array or from anything with ``flops(lengths)``."""
    known = hasattr(costs, "flops") or hasattr(costs, "__len__") or hasattr(costs, "__array__")
    if isinstance(costs, (str, type)) or not known:
        raise ValueError(f"costs must be an array, or an object with flops(lengths), got {costs!r}")
    if hasattr(costs, "flops"):
        if lengths is None:
            raise ValueError("lengths must be given with costs that have flops(lengths), got None")
        costs = costs.flops(lengths)
    weights = as_weights(costs, "costs")
    if len(weights) != count:
        raise ValueError(f"costs must hold one cost for each of the {count} samples, got {len(weights)}")
    return weights


def as_float_costs(costs: npt.ArrayLike | CostFunction, lengths: Ints | None, count: int) -> Floats:
    """Return the same as float64, for reports and pictures."""
    return np.asarray(as_sample_costs(costs, lengths, count), dtype=np.float64)


def _as_numbers(values: npt.ArrayLike, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise ValueError(f"{name} must be one flat sequence of numbers, got {type(values).__name__}: {error}") from None
    if array.ndim == 0:
        raise ValueError(f"{name} must be one flat sequence of numbers, got {type(values).__name__}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim} (shape {array.shape})")
    if array.dtype.kind not in "iufO":
        for i, value in enumerate(np.array(values, dtype=object) if array.dtype.kind == "U" else ()):
            if isinstance(value, str):
                raise ValueError(f"{name}[{i}] must be a number, got {str(value)!r}")
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    return array


def _unrounded(objects: npt.NDArray[np.object_], name: str) -> Weights:
    """Return numbers of any size, which NumPy alone would round to floats, exactly or not at all."""
    if all(isinstance(value, (int, np.integer)) for value in objects):
        return _integers_of_objects(objects, name, 0, 2**128)
    try:
        floats = objects.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return _integers_of_objects(objects, name, 0, 2**128)  # refuses by index what is not a number
    for i, value in enumerate(objects):
        if isinstance(value, (int, np.integer)) and int(floats[i]) != value:
            raise ValueError(f"{name}[{i}] must be a number that a float holds, beside floats, got {value}")
    _core.check_weights(floats, name)
    return floats


def _integers_of_objects(array: npt.NDArray[np.object_], name: str, low: int, high: int) -> list[int]:
    numbers: list[int] = []
    for i, value in enumerate(array):
        try:
            if isinstance(value, (bool, np.bool_)):
                raise TypeError
            whole = isinstance(value, float | np.floating) and value.is_integer()
            number = int(value) if whole else operator.index(value)
        except TypeError:
            raise ValueError(f"{name}[{i}] must be a whole number, got {value!r}") from None
        if number < low:
            raise ValueError(f"{name}[{i}] must be >= {low}, got {number}")
        if number >= high:
            raise ValueError(f"{name}[{i}] must be below 2^{high.bit_length() - 1}, got {number}")
        numbers.append(number)
    return numbers


def _not_negative(array: npt.NDArray[_Number], name: str) -> npt.NDArray[_Number]:
    if array.size and array.min() < 0:
        _refuse(array < 0, array, name, ">= 0")
    return array


def _refuse(at_fault: npt.NDArray[np.bool_], array: npt.NDArray[Any], name: str, rule: str) -> NoReturn:
    i = int(np.argmax(at_fault))
    raise ValueError(f"{name}[{i}] must be {rule}, got {array[i]}")
