"""Costs fitted to measured times: seconds = c0 + c1 ΣL + c2 ΣL² (+ c3 sequences) of a micro-batch."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import Floats, Ints, as_amount, as_count, as_flag, as_floats, as_lengths, shown
from flopbalance.costs.coefficients import as_coefficient, as_windows
from flopbalance.costs.crossover import overtaking, overtaking_length
from flopbalance.costs.measurements import MicroBatches, MicroBatchesLike
from flopbalance.text import format_table

TERMS = {
    "per_micro_batch": "micro-batch",
    "per_sequence": "sequence",
    "per_token": "token (L)",
    "per_square": "L²",
}
"""What each coefficient is paid for, in words."""

FEWEST = 10
"""Micro-batches of different content that a fit needs."""

LEAST_INDEPENDENCE = 0.02
"""Part of a column, relative to its length, that the others must leave unexplained."""

WIDEST_INTERVAL = 0.5
"""Half of a 95 % interval, relative to its coefficient, beyond which the coefficient is not reported."""

FOLDS = 10

LARGEST = 1e60
"""Of a time or a cost that is fitted or compared, and the smallest is one such part: no ratio leaves the floats."""

# Huber's loss is 95 % efficient at normal noise when it turns linear here, in standard deviations.
_HUBER = 1.345
_NORMAL_MAD = 1.4826
_NORMAL_95 = 1.96

_MOST_STEPS = 100
_SETTLED = 1e-10
_NO_NOISE = 1e-12


@dataclass(frozen=True)
class FittedCost:
    """Seconds of a sequence as measured, a cost like any other; what `CostModel.fit` returns.

    Attributes
    ----------
    per_micro_batch, per_token, per_square, per_sequence : float
        c0 to c3 in seconds, none negative. c0 is no part of a sequence's cost: micro-batches pay it once.
    per_pair : int
        Weight of attention in full against that of the windows, in FLOPs per pair of the model whose windows are kept.
    windows : tuple of (int, int)
        ``(window, FLOPs per pair)`` of that model. Within every window a sequence counts with L², past one with what
        the window leaves of it.
    intervals : dict of str to (float, float)
        The 95 % confidence interval of each fitted coefficient.
    holdout_error : float
        Mean relative error on micro-batches that were not fitted, by cross-validation.
    tokens_only_error : float
        The same of a fit that counts tokens only.
    micro_batches : int
        Different micro-batches that were measured.
    longest : int
        Tokens of the longest sequence measured; beyond it the cost is extrapolated.
    """

    per_micro_batch: float
    per_token: float
    per_square: float
    per_sequence: float = 0.0
    per_pair: int = 1
    windows: tuple[tuple[int, int], ...] = ()
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict, compare=False)
    holdout_error: float = field(default=float("nan"), compare=False)
    tokens_only_error: float = field(default=float("nan"), compare=False)
    micro_batches: int = field(default=0, compare=False)
    longest: int = field(default=0, compare=False)

    def __post_init__(self) -> None:
        for name in ("per_micro_batch", "per_token", "per_square", "per_sequence"):
            object.__setattr__(self, name, as_amount(getattr(self, name), name))
        object.__setattr__(self, "per_pair", as_coefficient(self.per_pair, "per_pair"))
        object.__setattr__(self, "windows", as_windows(self.windows))
        if not _attention(self.per_pair, self.windows):
            raise ValueError("per_pair must be >= 1 where no window has a cost, got 0")
        for name in ("micro_batches", "longest"):
            object.__setattr__(self, name, as_count(getattr(self, name), name, minimum=0))
        for name in ("holdout_error", "tokens_only_error"):
            error = getattr(self, name)
            if not (isinstance(error, float) and math.isnan(error)):  # what is not known
                object.__setattr__(self, name, as_amount(error, name))
        object.__setattr__(self, "intervals", _intervals(self.intervals))

    def flops(self, lengths: npt.ArrayLike) -> Floats:
        """Return the seconds of each sequence; named like the method of every other cost.

        Parameters
        ----------
        lengths : array_like of shape (n,)
            Tokens of each sequence, whole numbers >= 0.

        Returns
        -------
        ndarray of float64, shape (n,)

        Raises
        ------
        ValueError
            A length is negative or not a whole number.
        OverflowError
            A sequence takes more seconds than a float holds; the message gives its index and length.

        Examples
        --------
        >>> FittedCost(per_micro_batch=0.5, per_token=0.25, per_square=0.125).flops([2, 4])
        array([1., 3.])
        """
        tokens = as_lengths(lengths, "lengths")
        squares = _squares(tokens, self.per_pair, self.windows)
        with np.errstate(over="ignore"):
            seconds = self.per_token * tokens + self.per_square * squares + self.per_sequence
        for i in np.flatnonzero(np.isinf(seconds))[:1]:
            raise OverflowError(f"lengths[{i}] = {tokens[i]} takes more seconds than a float holds")
        return seconds

    weights = flops

    @property
    def overtaking_length(self) -> int | None:
        """Shortest sequence in which attention takes at least as long as the rest of it; None when there is none."""

        def overtakes(length: int) -> bool:
            # In whole numbers of any size: lengths are tried here that no sequence has.
            _, pairs, seen = _core.length_moments(np.array([length]), [window for window, _ in self.windows])
            attended = self.per_pair * pairs + sum(
                cost * in_one for (_, cost), in_one in zip(self.windows, seen, strict=True)
            )
            squares = 2 * attended / _attention(self.per_pair, self.windows) - length
            return 0 < self.per_square * squares >= self.per_token * length + self.per_sequence

        return overtaking_length(overtakes)

    def describe(self) -> str:
        """Return a table of the coefficients, the error of the fit, and where attention overtakes the rest.

        Examples
        --------
        >>> print(FittedCost(per_micro_batch=0.5, per_token=0.25, per_square=0.125).describe())
        seconds per  fitted  95 % from  to
        micro-batch     0.5
        token (L)      0.25
        L²            0.125
        attention over pairs costs as much as the rest from 2 tokens on
        """
        rows = []
        for name, term in TERMS.items():
            value, interval = getattr(self, name), self.intervals.get(name)
            if value or interval or name != "per_sequence":
                low, high = (f"{end:.3g}" for end in interval) if interval else ("", "")
                rows.append((term, f"{value:.3g}", low, high))
        lines = [format_table(("seconds per", "fitted", "95 % from", "to"), rows)]
        lines += [f"L² within {window:,} tokens, as the model attends" for window, _ in self.windows]
        lines.append(overtaking(self.overtaking_length))
        if not math.isnan(self.holdout_error):
            lines.append(
                f"mean error on micro-batches that were not fitted: {self.holdout_error:.1%}; "
                f"of counting tokens: {self.tokens_only_error:.1%}"
            )
        return "\n".join(lines)

    def predict(self, micro_batches: MicroBatchesLike, lengths: npt.ArrayLike | None = None) -> Floats:
        """Return the seconds of each micro-batch, in any form that `MicroBatches.of` reads."""
        batches = MicroBatches.of(micro_batches, lengths)
        with np.errstate(over="ignore"):
            seconds = self.per_micro_batch + batches.sums(self.flops(batches.lengths))
        for i in np.flatnonzero(np.isinf(seconds))[:1]:
            raise OverflowError(f"micro_batches[{i}] takes more seconds than a float holds")
        return seconds


def fit(
    micro_batches: MicroBatchesLike,
    seconds: npt.ArrayLike,
    *,
    lengths: npt.ArrayLike | None = None,
    per_pair: int = 1,
    windows: tuple[tuple[int, int], ...] = (),
    per_sequence: bool = False,
) -> FittedCost:
    """Fit a cost to measured micro-batches; see `CostModel.fit`."""
    if not _attention(per_pair, windows):
        raise ValueError("windows_of must attend somewhere: without attention there is no c2 to fit")
    per_sequence = as_flag(per_sequence, "per_sequence")
    batches, times = checked_measurements(micro_batches, seconds, lengths)
    for i in np.flatnonzero(batches.sums(batches.lengths) == 0)[:1]:
        raise ValueError(f"micro_batches[{i}] must hold a token to fit, got none")
    batches, times = _medians(batches, times)
    if len(batches) < FEWEST:
        raise ValueError(f"micro_batches must hold at least {FEWEST} different ones to fit, got {len(batches)}")
    columns = {
        "per_micro_batch": np.ones(len(batches)),
        "per_token": batches.sums(batches.lengths),
        "per_square": batches.sums(_squares(batches.lengths, per_pair, windows)),
    }
    if per_sequence:
        columns["per_sequence"] = np.diff(batches.offsets).astype(np.float64)
    matrix = np.column_stack(list(columns.values()))
    _refuse_alike(matrix / times[:, None], list(columns), batches)
    coefficients, errors = _robust_fit(matrix, times)
    _refuse_uncertain(dict(zip(columns, zip(coefficients, errors, strict=True), strict=True)), batches)
    return FittedCost(
        **dict(zip(columns, coefficients.tolist(), strict=True)),
        per_pair=per_pair,
        windows=windows,
        intervals={
            name: (max(0.0, value - _NORMAL_95 * error), value + _NORMAL_95 * error)
            for name, value, error in zip(columns, coefficients.tolist(), errors.tolist(), strict=True)
        },
        holdout_error=_holdout_error(matrix, times),
        tokens_only_error=_holdout_error(matrix[:, 1:2], times),
        micro_batches=len(batches),
        longest=int(batches.lengths.max()),
    )


def checked_measurements(
    micro_batches: MicroBatchesLike, seconds: npt.ArrayLike, lengths: npt.ArrayLike | None
) -> tuple[MicroBatches, Floats]:
    """Return micro-batches and their times, which are positive and finite and as many."""
    batches = MicroBatches.of(micro_batches, lengths)
    times = as_floats(seconds, "seconds")
    if times.shape != (len(batches),):
        raise ValueError(
            f"seconds must hold one time for each of {len(batches)} micro-batches, got shape {times.shape}"
        )
    for i in np.flatnonzero(~((times >= 1 / LARGEST) & (times <= LARGEST)))[:1]:
        raise ValueError(f"seconds[{i}] must be from {1 / LARGEST:g} to {LARGEST:g}, got {times[i]}")
    return batches, times


def _squares(lengths: Ints, per_pair: int, windows: tuple[tuple[int, int], ...]) -> Floats:
    """L², or what windows leave of it: twice the pairs, less one per token, each window with its weight."""
    pairs = _core.curve_flops_rounded(lengths, 0, 0, per_pair, list(windows)) / _attention(per_pair, windows)
    return 2 * pairs - lengths


def _attention(per_pair: int, windows: tuple[tuple[int, int], ...]) -> int:
    """FLOPs of a pair that every window holds."""
    return per_pair + sum(cost for _, cost in windows)


def _intervals(intervals: Any) -> dict[str, tuple[float, float]]:
    try:
        return {name: (as_amount(low, name), as_amount(high, name)) for name, (low, high) in intervals.items()}
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"intervals must be pairs of numbers by coefficient, got {shown(intervals)}") from None


def _medians(batches: MicroBatches, times: Floats) -> tuple[MicroBatches, Floats]:
    """One time for each different micro-batch: the median of its repeats, which a slow first run does not move."""
    repeats: dict[bytes, list[int]] = defaultdict(list)
    for i, (start, end) in enumerate(itertools.pairwise(batches.offsets.tolist())):
        repeats[np.sort(batches.lengths[start:end]).tobytes()].append(i)
    medians = np.array([np.median(times[runs]) for runs in repeats.values()])
    return batches.take([runs[0] for runs in repeats.values()]), medians


def _robust_fit(columns: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Non-negative coefficients with the least relative errors by Huber's loss, and their standard errors.

    The error of a prediction is the logarithm of its ratio to the time, so that twice too long weighs as much as half
    too short, and no outlier of either kind has leverage. Iteratively reweighted Gauss-Newton steps. The standard
    errors are those of the sandwich estimator, corrected for leverage (HC3): they hold when some micro-batches are
    noisier than others.
    """
    norms = np.linalg.norm(columns / times[:, None], axis=0)
    scaled = columns / norms
    weights = np.ones(len(times))
    solution = _non_negative_least_squares(scaled / times[:, None], weights, weights)
    for _ in range(_MOST_STEPS):
        predicted = scaled @ solution
        design, residuals = scaled / predicted[:, None], np.log(times / predicted)
        turn = max(_HUBER * _NORMAL_MAD * float(np.median(np.abs(residuals))), _NO_NOISE)
        weights = np.minimum(1, turn / np.maximum(np.abs(residuals), turn))
        previous, solution = solution, _non_negative_least_squares(design, 1 + residuals, weights)
        if np.abs(solution - previous).max() <= _SETTLED * np.abs(solution).max():
            break
    curvature = np.linalg.pinv(design.T @ (design * (weights == 1)[:, None]))
    leverage = np.einsum("ij,jk,ik->i", design, curvature, design)
    scores = design * (weights * residuals / (1 - np.minimum(leverage, 0.5)))[:, None]
    errors = np.sqrt(np.diag(curvature @ (scores.T @ scores) @ curvature))
    return solution / norms, errors / norms


def _non_negative_least_squares(columns: Floats, target: Floats, weights: Floats) -> Floats:
    """Best of the least-squares solutions on each set of columns that has no negative coefficient: exact for a few."""
    roots = np.sqrt(weights)
    best, least = np.zeros(columns.shape[1]), np.inf
    for chosen in itertools.product((True, False), repeat=columns.shape[1]):
        used = np.array(chosen)
        solution = np.zeros(columns.shape[1])
        solution[used] = np.linalg.lstsq(columns[:, used] * roots[:, None], target * roots, rcond=None)[0]
        loss = float(weights @ (columns @ solution - target) ** 2)
        if (solution >= 0).all() and loss < least:
            best, least = solution, loss
        if used.all() and (solution >= 0).all():
            break
    return best


def _holdout_error(columns: Floats, times: Floats) -> float:
    """Mean relative error on the folds that were left out; a fold takes every tenth micro-batch by its time."""
    fold = np.empty(len(times), dtype=np.int64)
    fold[np.argsort(times, kind="stable")] = np.arange(len(times)) % FOLDS
    errors = np.empty(len(times))
    for left_out in range(FOLDS):
        held = fold == left_out
        errors[held] = columns[held] @ _robust_fit(columns[~held], times[~held])[0] / times[held] - 1
    return float(np.abs(errors).mean())


def _refuse_alike(design: Floats, names: list[str], batches: MicroBatches) -> None:
    """Refuse data in which a column is (nearly) a sum of the others, whatever the noise."""
    scaled = design / np.linalg.norm(design, axis=0)
    for column, name in enumerate(names):
        others = np.delete(scaled, column, axis=1)
        explained = others @ np.linalg.lstsq(others, scaled[:, column], rcond=None)[0]
        if np.linalg.norm(scaled[:, column] - explained) < LEAST_INDEPENDENCE:
            raise ValueError(f"micro_batches cannot tell {name} from the others: {_reason(batches)}")


def _refuse_uncertain(fitted: dict[str, tuple[Any, Any]], batches: MicroBatches) -> None:
    """Refuse a fit whose noise hides what a token or its attention costs."""
    for name in ("per_token", "per_square"):
        value, error = fitted[name]
        if _NORMAL_95 * error > WIDEST_INTERVAL * value:
            raise ValueError(
                f"micro_batches cannot tell {name}, {value:.2g} ± {_NORMAL_95 * error:.2g}: {_reason(batches)}"
            )


def _reason(batches: MicroBatches) -> str:
    """Why data cannot tell the coefficients, and what would."""
    tokens, longest = batches.sums(batches.lengths), batches.lengths.max()
    if tokens.std() < 0.05 * tokens.mean():
        return (
            f"all hold about {tokens.mean():,.0f} tokens, so that a token costs what its micro-batch does; "
            "measure some that are half and a quarter full"
        )
    if batches.lengths.std() < 0.05 * batches.lengths.mean():
        return (
            f"all sequences have about {batches.lengths.mean():,.0f} tokens, so that ΣL² is a multiple of ΣL; "
            "measure short and long ones"
        )
    return (
        f"it does not show above the noise in sequences of at most {longest:,} tokens; measure longer ones, alone and "
        "many short ones together, and each more than once"
    )
