"""What callers pass, as flat arrays: the one place where types and shapes of arguments are checked.

What the core checks for all its callers, it checks here too, and reports by the argument's name.
"""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, SupportsIndex, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from flopbalance import _core

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
Weights: TypeAlias = "npt.NDArray[np.uint64 | np.float64] | list[int]"

COUNT_LIMIT = 2**63
"""Counts are below it."""

_Choice = TypeVar("_Choice", bound=str)
_Number = TypeVar("_Number", bound="np.integer[Any] | np.floating[Any]")

_EXACT_FLOAT = 2**53
"""Beyond this, a float no longer holds every whole number."""

_PLAIN = {int, float}
_FEW = 256
"""Of so many values at most, the types are sooner looked at than the values."""

_ALIKE = 0.35
"""So much of a wrong word and of the right one is the same; within-cap and capped are."""

CONVERSION_ERRORS = (
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RuntimeError,
    AssertionError,
    BufferError,
)
"""What objects of others raise when they are asked for numbers; signals and a lack of memory are none of it."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
_SHORT.maxlong = 80
_SHORT.maxlevel = 2


class CostFunction(Protocol):
    """Anything that says what each sample costs."""

    def flops(self, lengths: Ints, /) -> npt.ArrayLike:
        """Return the cost of each length."""


def as_count(value: SupportsIndex, name: str, minimum: int = 1, limit: int = COUNT_LIMIT) -> int:
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
    count = _index(value, name)
    if count < minimum:
        raise ValueError(f"{name} must be >= {minimum}, got {shown(count)}")
    if count >= limit:
        raise ValueError(f"{name} must be below 2^{limit.bit_length() - 1}, got {shown(count)}")
    return count


def as_flag(value: object, name: str) -> bool:
    """Return a boolean; words and numbers are refused."""
    if value is True or value is False:
        return value
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def as_amount(value: Any, name: str) -> float:
    """Return a finite number of at least 0."""
    amount = _float(value, name)
    if not 0 <= amount < math.inf:
        raise ValueError(f"{name} must be >= 0 and finite, got {shown(value)}")
    return amount


def as_choice(value: _Choice, choices: Any, name: str) -> _Choice:
    """Return `value`, which must be one of the strings of a Literal."""
    words: tuple[str, ...] = choices.__args__
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, got {shown(value)}{likely(value, words)}")
    return value


def as_text(value: str, name: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be a text, got {shown(value)}")
    return value


def as_integers(values: npt.ArrayLike, name: str, hint: str = "") -> Ints:
    """Return whole numbers as a contiguous, aligned int64 array of one dimension; `hint` helps who nests them."""
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        flags = values.flags
        if flags.c_contiguous and flags.aligned:
            return values
    array = _as_numbers(values, name, hint)
    kind = array.dtype.kind
    if kind == "u" and array.dtype.itemsize == 8 and array.size and array.max() >= 2**63:
        _refuse(array >= 2**63, array, name, "below 2^63")
    elif kind == "f":
        with np.errstate(invalid="ignore"):
            whole = (np.abs(array) < _EXACT_FLOAT) & (array == np.floor(array))
        if not whole.all():
            if not hasattr(values, "__array__"):  # NumPy makes floats of large integers in a list
                return np.array(_integers_of_objects(_objects(values), name, -(2**63), 2**63), dtype=np.int64)
            large = ~whole & (np.abs(array) >= _EXACT_FLOAT)
            _refuse(~whole, array, name, "below 2^53 as a float" if large[np.argmin(whole)] else "a whole number")
    elif kind == "O":
        return np.array(_integers_of_objects(array, name, -(2**63), 2**63), dtype=np.int64)
    return _flat(array, np.int64)


def as_lengths(values: npt.ArrayLike, name: str) -> Ints:
    """Return token counts, which are >= 0, as a contiguous int64 array of one dimension."""
    lengths = as_integers(values, name, hint=": of token ids, pass how many there are in each sample")
    _core.check_lengths(lengths, name)
    return lengths


def as_weights(values: npt.ArrayLike, name: str) -> Weights:
    """Return numbers in a type that holds them exactly: uint64, float64, or Python integers beyond."""
    array = _as_numbers(values, name)
    kind = array.dtype.kind
    if kind == "f":
        is_list = not hasattr(values, "__array__")
        if is_list and array.max(initial=0) >= _EXACT_FLOAT and not {*map(type, values)} <= {float}:  # type: ignore[arg-type]
            return _unrounded(_objects(values), name)
        floats = _floats(array, name)
        _core.check_weights(floats, name)
        return floats
    if kind == "O":
        return _unrounded(array, name)
    if kind == "u":
        return _flat(array, np.uint64)
    return _flat(_not_negative(array, name), np.int64).view(np.uint64)


def as_floats(values: npt.ArrayLike, name: str) -> Floats:
    """Return numbers as a contiguous float64 array of one dimension, whatever their sign."""
    array = _as_numbers(values, name)
    if array.dtype.kind == "O":
        return np.array([_float(value, f"{name}[{i}]") for i, value in enumerate(array)], dtype=np.float64)
    return _floats(array, name)


def as_flags(values: npt.ArrayLike, name: str) -> npt.NDArray[np.bool_]:
    """Return booleans as an array of one dimension."""
    array = _as_array(values, name)
    if array.ndim != 1 or (array.size and array.dtype != np.bool_):
        raise ValueError(f"{name} must be one flat sequence of booleans, got {shown(values)}")
    return array.astype(np.bool_, copy=False)


def as_rollout_ids(ids: Any, name: str) -> Ints:
    """Return a number for every id: whole numbers as they are, others in the order in which they are first seen.

    Any value with a hash will do, equal values are one id; None is an id of its own each time.

    Examples
    --------
    >>> as_rollout_ids(["why", "how", "why", None, None], "rollout_ids")
    array([0, 1, 0, 2, 3])
    """
    if hasattr(ids, "__array__"):
        ids = _as_array(ids, name)
    elif isinstance(ids, (str, bytes, bytearray)) or not isinstance(ids, Sequence):
        raise ValueError(f"{name} must be one flat sequence of ids, got {type(ids).__name__}")
    if getattr(ids, "ndim", 1) != 1:
        raise ValueError(f"{name} must have one dimension, got {ids.ndim} (shape {ids.shape})")
    # An array of long texts takes memory for the longest of them each time, so texts do not become one.
    if isinstance(next(iter(ids), 0), int | float | np.number):
        try:
            return as_integers(ids, name)
        except ValueError:
            pass  # others among them, or too large
    if isinstance(ids, np.ndarray):
        ids = ids.tolist()
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(_id(one, f"{name}[{i}]"), len(numbers)) for i, one in enumerate(ids)], np.int64)


def _id(value: Any, name: str) -> Hashable:
    """Return what tells an id from others; refuse what is equal to another kind of thing, or not to itself."""
    try:
        hash(value)
        is_number = isinstance(value, (bool, float, np.bool_, np.floating))
        if (is_number and (isinstance(value, (bool, np.bool_)) or not value.is_integer())) or value != value:
            raise TypeError
    except CONVERSION_ERRORS:  # whatever an object of others raises
        rule = "a whole number, a text or another value with a hash"
        raise ValueError(f"{name} must be {rule}, got {shown(value)}") from None
    return object() if value is None else value


def as_items(values: Any, name: str, what: str) -> list[Any]:
    """Return what a list, tuple, array or tensor holds, each item as it is."""
    try:
        if isinstance(values, str | bytes):
            raise TypeError
        return values if isinstance(values, list) else list(values)
    except CONVERSION_ERRORS:  # whatever an object of others raises
        raise ValueError(f"{name} must be {what}, got {shown(values)}") from None


def as_bins(bins: list[list[int]], name: str) -> tuple[Ints, Ints]:
    """Return the samples of all bins in a row, and how many each bin holds."""
    if not (isinstance(bins, list) and all(isinstance(samples, (list, tuple)) for samples in bins)):
        raise ValueError(f"{name} must be a list of lists of sample indices, got {shown(bins)}")
    samples = as_integers([sample for samples in bins for sample in samples], name)
    return samples, np.array([len(samples) for samples in bins], dtype=np.int64)


def as_cost_function(cost: CostFunction, name: str) -> CostFunction:
    """Return a cost that can be asked for every length."""
    if not _is_cost_function(cost):
        raise ValueError(f"{name} must have flops(lengths), as CostModel.from_name('qwen3-8b') has, got {shown(cost)}")
    return cost


def as_sample_costs(costs: npt.ArrayLike | CostFunction, lengths: Ints | None, count: int) -> Weights:
    """Return what each of `count` samples costs, from an array or from anything with ``flops(lengths)``."""
    if _is_cost_function(costs):
        if lengths is None:
            raise ValueError("lengths must be given with costs that have flops(lengths), got None")
        costs = costs.flops(lengths)  # type: ignore[union-attr]
    elif isinstance(costs, str | type) or not any(hasattr(costs, way) for way in ("__len__", "__array__")):
        raise ValueError(f"costs must be an array, or an object with flops(lengths), got {shown(costs)}")
    weights = as_weights(costs, "costs")  # type: ignore[arg-type]
    if len(weights) != count:
        raise ValueError(f"costs must hold one cost for each of the {count} samples, got {len(weights)}")
    return weights


def as_float_costs(costs: npt.ArrayLike | CostFunction, lengths: Ints | None, count: int) -> Floats:
    """Return the same as float64, for reports and pictures."""
    return np.asarray(as_sample_costs(costs, lengths, count), dtype=np.float64)


def shown(value: object) -> str:
    """Return a value as messages show it: short and on one line, whatever it is.

    Examples
    --------
    >>> shown("3"), shown(10**99)
    ("'3'", '1000000000000000000...0000000000000000000')
    """
    try:
        return " ".join(_SHORT.repr(value).split())
    except CONVERSION_ERRORS:  # an integer of more digits than Python prints
        return f"{type(value).__name__} too long to show"


def likely(word: object, words: Iterable[str]) -> str:
    """Return what a word that is none was probably meant to be, as the end of a message.

    Examples
    --------
    >>> likely("within-cap", ["first-fit", "flops", "fixed", "capped"])
    ": did you mean 'capped'?"
    """
    import difflib  # only mistakes wait for it

    close = difflib.get_close_matches(word[:99], words, 1, _ALIKE) if isinstance(word, str) else []
    return f": did you mean {close[0]!r}?" if close else ""


def _as_array(values: Any, name: str, hint: str = "") -> npt.NDArray[Any]:
    """Return what NumPy makes of an argument, typed or not; at most its values are converted."""
    if isinstance(values, (str, bytes, bytearray)):
        raise ValueError(f"{name} must be one flat sequence of numbers, got {type(values).__name__}")
    if type(values) is not np.ndarray and isinstance(values, np.ndarray) and np.any(getattr(values, "mask", False)):
        i = int(np.argmax(np.ravel(values.mask)))  # type: ignore[attr-defined]
        raise ValueError(f"{name}[{i}] must be a number, got a masked one")
    try:
        array = np.asarray(values)
    except CONVERSION_ERRORS as error:  # whatever an object of others raises
        try:  # tensors that NumPy does not read, of bfloat16 or with a gradient, still say what they hold
            array = np.asarray(values.tolist())
        except CONVERSION_ERRORS:
            is_nested = isinstance(error, ValueError) and isinstance(values, Sequence)
            reason = f" of sequences{hint}" if is_nested else f": {type(error).__name__}: {shown(str(error))}"
            raise ValueError(
                f"{name} must be one flat sequence of numbers, got {type(values).__name__}{reason}"
            ) from None
    kind = array.dtype.kind
    if kind == "V" and array.dtype.names is None and array.dtype.type is not np.void:
        return array.astype(np.float64)  # bfloat16 and its like, which NumPy does not know
    return array.astype(np.float64) if kind == "f" and array.dtype.itemsize < 8 else array


def _as_numbers(values: npt.ArrayLike, name: str, hint: str = "") -> npt.NDArray[Any]:
    array = _as_array(values, name, hint)
    if array.ndim == 0:
        raise ValueError(f"{name} must be one flat sequence of numbers, got {type(values).__name__}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, got {array.ndim} (shape {array.shape}){hint}")
    kind = array.dtype.kind
    if not (hasattr(values, "__array__") or (len(array) <= _FEW and {*map(type, values)} <= _PLAIN)):  # type: ignore[arg-type]
        # Of booleans in a list NumPy makes 0 and 1, and texts of all the rest if one is a text.
        suspects = np.flatnonzero(~(array > 1)).tolist() if kind in "iuf" else range(len(array))
        for i in suspects:
            if not _is_number(values[i]):  # type: ignore[index]
                raise ValueError(f"{name}[{i}] must be a number, got {shown(values[i])}")  # type: ignore[index]
    if kind not in "iufO":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}")
    return array


def _objects(values: Any) -> npt.NDArray[np.object_]:
    """Return a sequence of numbers as they are."""
    return np.array(list(values), dtype=np.object_)


def _is_number(value: Any) -> bool:
    """Return whether this is one number by itself: no truth value, no text that spells one, no array of one."""
    kind = type(value)
    if kind is float or kind is int:
        return True
    if isinstance(value, (bool, np.bool_, np.complexfloating, np.timedelta64)) or getattr(value, "mask", False):
        return False
    return (hasattr(kind, "__float__") or hasattr(kind, "__index__")) and not getattr(value, "ndim", 0)


def _is_cost_function(cost: Any) -> bool:
    return not isinstance(cost, type) and callable(getattr(cost, "flops", None))


def _flat(array: npt.NDArray[Any], dtype: type[_Number]) -> npt.NDArray[_Number]:
    """Return numbers as the core borrows them: contiguous, aligned, in the byte order of the machine."""
    array = np.ascontiguousarray(array, dtype=dtype)
    return array if array.flags.aligned else array.copy()


def _unrounded(objects: npt.NDArray[np.object_], name: str) -> Weights:
    """Return numbers of any size, which NumPy alone would round to floats, exactly or not at all."""
    if all(isinstance(value, (int, np.integer)) for value in objects):
        return _integers_of_objects(objects, name, 0, 2**128)
    floats = np.array([_float(value, f"{name}[{i}]") for i, value in enumerate(objects)], dtype=np.float64)
    for i, value in enumerate(objects):
        if isinstance(value, (int, np.integer)) and (np.isinf(floats[i]) or int(floats[i]) != value):
            raise ValueError(f"{name}[{i}] must be a number that a float holds, beside floats, got {shown(value)}")
    _core.check_weights(floats, name)
    return floats


def _floats(array: npt.NDArray[Any], name: str) -> Floats:
    if array.dtype.itemsize > 8:
        raise ValueError(f"{name} must hold floats of at most 64 bits, got {array.dtype}")
    return _flat(array, np.float64)


def _float(value: Any, name: str) -> float:
    """Return a number as a float, infinite where it is too large for one."""
    try:
        if not _is_number(value):
            raise TypeError
        return float(value)
    except OverflowError:
        return math.inf
    except CONVERSION_ERRORS:  # whatever an object of others raises
        raise ValueError(f"{name} must be a number, got {shown(value)}") from None


def _index(value: Any, name: str) -> int:
    """Return a whole number as Python's integer; floats are none."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)
    except CONVERSION_ERRORS:  # whatever an object of others raises
        raise ValueError(f"{name} must be a whole number, got {shown(value)}") from None


def _integers_of_objects(array: npt.NDArray[np.object_], name: str, low: int, high: int) -> list[int]:
    numbers: list[int] = []
    for i, value in enumerate(array):
        whole = isinstance(value, float | np.floating) and value.is_integer()
        number = int(value) if whole else _index(value, f"{name}[{i}]")
        if number < low:
            raise ValueError(f"{name}[{i}] must be >= {low}, got {shown(number)}")
        if number >= high:
            raise ValueError(f"{name}[{i}] must be below 2^{high.bit_length() - 1}, got {shown(number)}")
        numbers.append(number)
    return numbers


def _not_negative(array: npt.NDArray[_Number], name: str) -> npt.NDArray[_Number]:
    if array.size and array.min() < 0:
        _refuse(array < 0, array, name, ">= 0")
    return array


def _refuse(at_fault: npt.NDArray[np.bool_], array: npt.NDArray[Any], name: str, rule: str) -> NoReturn:
    i = int(np.argmax(at_fault))
    raise ValueError(f"{name}[{i}] must be {rule}, got {array[i]}")
