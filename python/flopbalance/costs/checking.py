"""Whether a cost deserves trust: predicted compared with measured times of the same micro-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CostFunction, Floats, as_amount, as_cost_function, as_float_costs, as_integers
from flopbalance.costs.fitted import LARGEST, checked_measurements
from flopbalance.costs.measurements import MicroBatches, MicroBatchesLike
from flopbalance.schedules.schedule import Schedule

TRUSTED_ERROR = 0.15
TRUSTED_CORRELATION = 0.9
CERTAIN_ERROR = 0.05
TRUSTED_IMBALANCE = 0.15
USABLE_CORRELATION = 0.7


@dataclass(frozen=True)
class CostCheck:
    """Predicted compared with measured times; what `check_costs` returns.

    Attributes
    ----------
    verdict : {"trust", "calibrate", "unusable"}
        ``trust``: the mean error is at most 15 % and the rank correlation at least 0.9, or the error at most 5 %
        (times that hardly differ have no order to predict); and the predicted imbalance is within 15 % of the measured
        one. ``calibrate``: the rank correlation is at least 0.7, so
        that the cost sorts micro-batches but weighs them wrongly; fit it. ``unusable``: it does not even sort them;
        the model's configuration is wrong, or something else takes the time.
    rank_correlation : float
        Spearman's, of predicted and measured times; 0 where either does not vary.
    relative_error : float
        Mean of the distance of predicted from measured, relative to measured, after one scale for all micro-batches.
    scale : float
        Seconds per unit of the cost, the median over micro-batches; about 1 for a cost fitted on the same machine.
    predicted_imbalance, measured_imbalance : float
        Time of the slowest rank over that of the mean one; of micro-batches where no ranks are given.
    micro_batches : int
        How many were measured.
    """

    verdict: Literal["trust", "calibrate", "unusable"]
    rank_correlation: float
    relative_error: float
    scale: float
    predicted_imbalance: float
    measured_imbalance: float
    micro_batches: int


def check_costs(
    cost: CostFunction,
    micro_batches: MicroBatchesLike,
    seconds: npt.ArrayLike,
    *,
    lengths: npt.ArrayLike | None = None,
    ranks: npt.ArrayLike | None = None,
) -> CostCheck:
    """Compare a cost with measured times, before a long run relies on it.

    Parameters
    ----------
    cost : object with ``flops(lengths)``
        Such as a `CostModel` or what `CostModel.fit` returns.
    micro_batches : Schedule, RankSchedule, tuple or sequence
        What was measured, in any form that `MicroBatches.of` reads.
    seconds : array_like of shape (micro-batches,)
        Measured times.
    lengths : array_like, optional
        Tokens of all samples, needed with a schedule.
    ranks : array_like of shape (micro-batches,), optional
        The rank that ran each micro-batch, for the imbalance between ranks; a schedule knows its own.

    Returns
    -------
    CostCheck

    Raises
    ------
    ValueError
        No such cost, fewer than two micro-batches, times that are not positive, arguments of different lengths.

    Examples
    --------
    >>> from flopbalance import CostModel
    >>> batches = [[100, 200], [400], [50] * 8, [1000]]
    >>> check = check_costs(CostModel(per_token=10, per_pair=1), batches, [0.029, 0.085, 0.014, 0.51])
    >>> check.verdict, check.rank_correlation
    ('trust', 1.0)
    """
    cost = as_cost_function(cost, "cost")
    batches, times = checked_measurements(micro_batches, seconds, lengths)
    if len(batches) < 2:
        raise ValueError(f"micro_batches must hold at least two to compare, got {len(batches)}")
    predicted = _predict(cost, batches)
    scale = float(np.median(times / predicted))
    error = float(np.abs(scale * predicted / times - 1).mean())
    correlation = _rank_correlation(predicted, times)
    if isinstance(micro_batches, Schedule):
        ranks = np.repeat(np.arange(micro_batches.dp_size), micro_batches.sample_counts.shape[1])
    owners = np.arange(len(batches)) if ranks is None else as_integers(ranks, "ranks")
    if owners.shape != times.shape:
        raise ValueError(f"ranks must name one for each of {len(batches)} micro-batches, got {len(owners)}")
    predicted_imbalance, measured_imbalance = _imbalance(predicted, owners), _imbalance(times, owners)
    sees_imbalance = abs(predicted_imbalance / measured_imbalance - 1) <= TRUSTED_IMBALANCE
    verdict: Literal["trust", "calibrate", "unusable"] = "unusable"
    is_close = error <= CERTAIN_ERROR or (error <= TRUSTED_ERROR and correlation >= TRUSTED_CORRELATION)
    if is_close and sees_imbalance:
        verdict = "trust"
    elif correlation >= USABLE_CORRELATION:
        verdict = "calibrate"
    return CostCheck(
        verdict=verdict,
        rank_correlation=correlation,
        relative_error=error,
        scale=scale,
        predicted_imbalance=predicted_imbalance,
        measured_imbalance=measured_imbalance,
        micro_batches=len(batches),
    )


def _predict(cost: CostFunction, batches: MicroBatches) -> Floats:
    predicted = batches.sums(as_float_costs(cost, batches.lengths, len(batches.lengths)))
    predicted += as_amount(getattr(cost, "per_micro_batch", 0.0), "cost.per_micro_batch")
    for i in np.flatnonzero(~((predicted >= 1 / LARGEST) & (predicted <= LARGEST)))[:1]:
        raise ValueError(
            f"cost must be from {1 / LARGEST:g} to {LARGEST:g} for every micro-batch, got {predicted[i]} for "
            f"micro_batches[{i}]"
        )
    return predicted


def _rank_correlation(some: Floats, others: Floats) -> float:
    ranks = np.array([_ranks(some), _ranks(others)])
    if (np.ptp(ranks, axis=1) == 0).any():
        return 0.0
    return round(float(np.corrcoef(ranks)[0, 1]), 12)


def _ranks(values: Floats) -> Floats:
    """Positions in ascending order; equal values share the mean of theirs."""
    _, positions, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Floats = last - (counts - 1) / 2
    return means[positions]


def _imbalance(values: Floats, owners: npt.NDArray[np.int64]) -> float:
    sums = np.bincount(np.unique(owners, return_inverse=True)[1], weights=values)
    return float(sums.max() / sums.mean())
