"""When a pipeline ends."""

from __future__ import annotations

import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import as_count, as_weights


def simulate_pipeline(costs: npt.ArrayLike, stages: int, chunks: int = 1, group: int | None = None) -> float:
    """Return when a pipeline ends that one rank's micro-batches go through, one forward one backward (1F1B).

    A micro-batch takes a third of its cost on every stage going forward and two thirds going back; transfers take no
    time. Every stage works through its passes in a fixed order and waits for those that are not there yet.

    Parameters
    ----------
    costs : array_like of shape (m,)
        What each micro-batch costs on one stage, in the order in which the rank runs them, numbers >= 0 in any unit.
    stages : int
        Stages of the pipeline, up to 65,536.
    chunks : int, default 1
        Chunks of the model on every stage, up to 1,024. More than one are interleaved: each takes its share of the
        costs, and a group of micro-batches goes through one chunk after another.
    group : int, optional
        Micro-batches of a group, at least `stages`, which is the default. With more than one chunk, m is a multiple of
        it.

    Returns
    -------
    float
        In the unit of `costs`: the exact time, rounded once, for integers whose total times stages and chunks is below
        2^126 and for floats whose sums are exact; otherwise rounded at every pass.

    Raises
    ------
    ValueError
        For an argument that breaks its rule, or a time that no float holds.

    Notes
    -----
    O(m stages chunks) time and O(m chunks + stages) space. With ``c`` the costs, a pipeline takes at least
    ``Σ c + (stages - 1) / chunks * min c`` and ``stages * max c``; m equal ones of cost 1 take
    ``m + (stages - 1) / chunks``. The GIL is released.

    Examples
    --------
    >>> simulate_pipeline([1] * 8, stages=4), simulate_pipeline([1] * 8, stages=4, chunks=2)
    (11.0, 9.5)

    The order matters: cheap micro-batches at both ends fill and drain a pipeline faster.

    >>> simulate_pipeline([3, 1, 4, 2], stages=4), simulate_pipeline([1, 3, 4, 2], stages=4)
    (22.66..., 19.66...)
    """
    weights = as_weights(costs, "costs")
    counts = as_count(stages, "stages"), as_count(chunks, "chunks"), None if group is None else as_count(group, "group")
    return _core.simulate_pipeline(weights, *counts)
