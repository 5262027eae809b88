"""From lengths and costs to a schedule."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from flopbalance import _core
from flopbalance.checks import (
    CostFunction,
    Ints,
    Weights,
    as_amount,
    as_choice,
    as_count,
    as_flag,
    as_lengths,
    as_rollout_ids,
    as_sample_costs,
    as_weights,
    shown,
)
from flopbalance.planning.counts import Counts
from flopbalance.planning.limits import ExtraBudget, Limits, OnOversize, PadTo, as_extra_budget, as_pad_to
from flopbalance.planning.pipeline import Pipeline
from flopbalance.schedules.schedule import Schedule, unchecked

Packing = Literal["first-fit", "flops", "fixed", "capped"]
Objective = Literal["step", "micro-batch", "pipeline"]
OnLeftover = Literal["drop", "partial", "error"]
OnShortage = Literal["error", "repeat"]

EFFORT = _core.EFFORT
"""Look-ups per sample that level 1,024 samples over 32 ranks as far as the search gets."""


class PlanRequest(TypedDict):
    """The checked arguments of `plan`, as the core reads them."""

    dp_size: int
    micro_batch_multiple: int
    packing: Packing
    micro_batch_size: int | None
    max_tokens: int | None
    pad_to: tuple[int, int]
    balance_ranks: bool
    rollout_ids: Ints | None
    global_batch_size: int | None
    objective: Objective
    counts: tuple[int | None, int, bool]
    pipeline: tuple[int, int, int | None] | None
    micro_batch_overhead: float | None
    effort: int
    padded: bool
    extra_budget: tuple[Ints, int] | None
    max_samples: int | None
    carried: Weights | None
    on_leftover: OnLeftover
    on_oversize: OnOversize
    on_shortage: OnShortage
    names: dict[str, str]


def plan(
    lengths: npt.ArrayLike,
    *,
    costs: npt.ArrayLike | CostFunction | None = None,
    dp_size: int,
    max_tokens: int | None = None,
    micro_batch_size: int | None = None,
    rollout_ids: npt.ArrayLike | Sequence[Hashable] | None = None,
    global_batch_size: int | None = None,
    micro_batch_multiple: int = 1,
    packing: Packing = "first-fit",
    balance_ranks: bool = True,
    objective: Objective = "step",
    pipeline_stages: int | None = None,
    micro_batch_overhead: float | None = None,
    effort: int = EFFORT,
    padded: bool = False,
    extra_budget: ExtraBudget | None = None,
    max_samples: int | None = None,
    pad_to: PadTo = 1,
    carried: npt.ArrayLike | None = None,
    on_leftover: OnLeftover = "drop",
    on_oversize: OnOversize = "alone",
    on_shortage: OnShortage = "error",
    limits: Limits | None = None,
    counts: Counts | None = None,
    pipeline: Pipeline | None = None,
) -> Schedule:
    """Pack samples into micro-batches and deal these to data-parallel ranks.

    Parameters
    ----------
    lengths : array_like of shape (n,)
        Tokens per sample, whole numbers >= 0.
    costs : array_like of shape (n,) or object with ``flops(lengths)``, optional
        What each sample costs, in any unit: integers of up to 128 bits are balanced exactly, floats by sums from left
        to right. By default a sample costs its tokens.
    dp_size : int
        Data-parallel ranks.
    max_tokens : int, optional
        Token cap of a micro-batch, for every `packing` but ``"fixed"``; field of `limits`.
    micro_batch_size : int, optional
        Samples of a micro-batch, for ``packing="fixed"``.
    rollout_ids : array_like or sequence of shape (n,), optional
        The rollout of each sample, in any order: whole numbers, texts or other values with a hash, of which equal ones
        are one rollout; None is a rollout by itself. A rollout stays in one step. By default every sample is a rollout.
    global_batch_size : int, optional
        Rollouts in a step; see `on_leftover` for rollouts that fill no step. By default all rollouts make one step.
    micro_batch_multiple : int, default 1
        Field `multiple` of `counts`.
    packing : {"first-fit", "flops", "fixed", "capped"}, default "first-fit"
        First fit in the given order, which keeps the cap; Karmarkar–Karp by cost into as many parts as the cap would
        need, which **may exceed the cap**; runs of `micro_batch_size` samples; or within the cap and balanced by cost,
        for `objective`.
    balance_ranks : bool, default True
        Deal micro-batches to ranks by Karmarkar–Karp on their summed cost; otherwise in turn. ``"capped"`` always
        balances.
    objective : {"step", "micro-batch", "pipeline"}, default "step"
        What ``packing="capped"`` makes short: where ranks meet once a step, the largest sum of a rank's costs; where
        they meet at every micro-batch (fully sharded or expert-parallel training), the costliest first micro-batch plus
        the costliest second and so on; or, for a pipeline on each rank, the end of the last one, as `simulate_pipeline`
        tells it: with small micro-batches at both ends, and as many of them as make it short.
    micro_batch_overhead : float, optional
        With ``packing="capped"``: what every micro-batch costs beside its samples, in the unit of `costs`. There are
        then as many micro-batches as make the objective and their overhead short; without it, as few as the caps allow.
        For a pipeline without it, 2 % of what a micro-batch filled to the cap would cost.
    effort : int, default 128
        Pairs of samples that ``packing="capped"`` may look at, per start and sample (of a step, the first 16,384).
        More is never worse and takes longer; 0 takes the best start as it is.
    limits : Limits, optional
        What a micro-batch may hold. Its fields are also keywords of their own: `max_tokens`, `pad_to`, `padded`,
        `extra_budget`, `max_samples`, `on_oversize`.
    counts : Counts, optional
        How many micro-batches every rank gets; `micro_batch_multiple` is its field `multiple`.
    pipeline : Pipeline, optional
        The pipeline behind each rank, needed for ``objective="pipeline"``; with ``"micro-batch"``, ranks meet at every
        micro-batch and the rows that they make go through it. `pipeline_stages` is its field `stages`.
    pad_to, padded, extra_budget, max_samples, on_oversize, pipeline_stages
        Fields of `limits` and `pipeline`.
    carried : array_like of shape (dp_size,), optional
        With ``packing="capped"``: what every rank carries from earlier calls, in the unit of costs, numbers >= 0 as
        `Schedule.rank_loads` returns them. The rank that carries least gets the heaviest part of the next step, so that
        the loads never differ by more than the parts of one step do. The micro-batches are the same without it.
    on_leftover : {"drop", "partial", "error"}, default "drop"
        Rollouts that fill no step are dropped and named in ``Schedule.dropped``, make a last smaller step, or are
        refused. A smaller step behind others that cannot fill the ranks is dropped as well, unless
        ``on_shortage="repeat"`` fills it.
    on_shortage : {"error", "repeat"}, default "error"
        With ``packing="capped"``: a step with fewer samples than micro-batches is refused, or its cheapest samples
        stand in it again (for up to 16,777,216 micro-batches), marked in ``Schedule.is_padding`` so that the trainer
        gives them no loss.

    Returns
    -------
    Schedule
        The same on every machine. With `balance_ranks`, rank 0 has the heaviest part of each step; with
        ``packing="capped"`` the rank that had the least so far.

    Raises
    ------
    ValueError
        For an argument that breaks its rule; the message names argument, rule and value.
    ScheduleError
        When there are too few rollouts for one step, too few samples for the ranks of a step (be it without those that
        ``on_oversize="drop"`` drops), the micro-batches of a step cannot be brought to a multiple of
        ``dp_size * micro_batch_multiple``, or rollouts are left over and ``on_leftover="error"``.

    See Also
    --------
    report : What a schedule costs, and how far it is from the best possible.
    check_feasible : Whether every step can be planned, before there are lengths.

    Notes
    -----
    O(n log n) time and O(n) space; ``packing="capped"`` takes O(n effort) on top. The GIL is released.

    ``packing="capped"`` never puts two samples or more above the cap, and makes no more micro-batches than first
    fit decreasing needs, rounded up for the ranks (a pipeline, a `micro_batch_overhead`, or one rank, whose
    micro-batches are made even, may have more). It is a descent from several starts and need not find the optimum;
    steps of up to 12 samples whose ranks are no pipelines are searched through, as far as some thousand trials get.

    Examples
    --------
    >>> plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8)
    Schedule(2 ranks, 1 step, 4 micro-batches of at most 7 tokens, 5 of 5 samples)

    By FLOPs, the published balance breaks a cap of 8 tokens; the capped one does not:

    >>> lengths = np.full(8, 7)
    >>> [plan(lengths, costs=lengths**2, dp_size=1, max_tokens=8, packing=packing) for packing in ("flops", "capped")]
    [Schedule(1 rank, 1 step, 7 micro-batches of at most 14 tokens, 8 of 8 samples), \
Schedule(1 rank, 1 step, 8 micro-batches of at most 7 tokens, 8 of 8 samples)]
    """
    settings = locals()
    tokens = as_lengths(lengths, "lengths")
    weights = as_sample_costs(tokens if costs is None else costs, tokens, len(tokens))
    request = as_request(**settings)
    planned = _core.plan(tokens, weights, request)
    return unchecked(Schedule, dp_size=request["dp_size"], num_samples=len(tokens), **planned)


def as_request(names: Mapping[str, str] = MappingProxyType({}), /, **given: Any) -> PlanRequest:
    """Return the arguments of `plan` beside lengths and costs, checked; its defaults for those that are not given.

    Refusals call an argument as `names` say, or as `plan` does.
    """
    settings: dict[str, Any] = {**(plan.__kwdefaults__ or {}), **_ONLY_IN_STRUCTURES, **given}
    names = _take_apart(settings, dict(names))
    names["extra_budget.amounts"] = f"{names.get('extra_budget', 'extra_budget')}[0]"

    def name(argument: str) -> str:
        return names.get(argument, argument)

    def choice(argument: str, choices: Any) -> Any:
        return as_choice(settings[argument], choices, name(argument))

    def count(argument: str, minimum: int = 1) -> int:
        return as_count(settings[argument], name(argument), minimum)

    def count_or_none(argument: str) -> int | None:
        return None if settings[argument] is None else count(argument)

    packing, objective = choice("packing", Packing), choice("objective", Objective)
    balance_ranks = as_flag(settings["balance_ranks"], name("balance_ranks"))
    for argument, (default, by) in _READ_BY_SOME.items():
        if not _is_default(settings[argument], default) and not reads(argument, packing, objective):
            needed, chosen = ("objective", objective) if by == "pipeline" else ("packing", packing)
            value = shown(settings[argument])
            raise ValueError(f"{name(argument)} must be {default!r} for {name(needed)}={chosen!r}, got {value}")
    if packing == "capped" and not balance_ranks:
        raise ValueError(f"{name('balance_ranks')} must be True for {name('packing')}='capped', got {balance_ranks}")
    limit = "micro_batch_size" if packing == "fixed" else "max_tokens"
    if settings[limit] is None:
        raise ValueError(f"{name(limit)} must be given for {name('packing')}={packing!r}, got None")
    has_pipeline = settings["pipeline_stages"] is not None
    if objective == "pipeline" and packing == "capped" and not has_pipeline:
        raise ValueError(f"{name('pipeline_stages')} must be given for {name('objective')}={objective!r}, got None")
    rollout_ids, carried, overhead = settings["rollout_ids"], settings["carried"], settings["micro_batch_overhead"]
    return {
        "dp_size": count("dp_size"),
        "micro_batch_multiple": count("micro_batch_multiple"),
        "packing": packing,
        "micro_batch_size": count_or_none("micro_batch_size"),
        "max_tokens": count_or_none("max_tokens"),
        "pad_to": as_pad_to(settings["pad_to"]),
        "balance_ranks": balance_ranks,
        "rollout_ids": None if rollout_ids is None else as_rollout_ids(rollout_ids, name("rollout_ids")),
        "global_batch_size": count_or_none("global_batch_size"),
        "objective": objective,
        "counts": (
            count_or_none("exactly"),
            count("at_least"),
            as_flag(settings["even_samples"], name("even_samples")),
        ),
        "pipeline": (count("pipeline_stages"), count("chunks"), count_or_none("group")) if has_pipeline else None,
        "micro_batch_overhead": None if overhead is None else as_amount(overhead, name("micro_batch_overhead")),
        "effort": count("effort", minimum=0),
        "padded": as_flag(settings["padded"], name("padded")),
        "extra_budget": as_extra_budget(settings["extra_budget"]),
        "max_samples": count_or_none("max_samples"),
        "carried": None if carried is None else as_weights(carried, name("carried")),
        "on_leftover": choice("on_leftover", OnLeftover),
        "on_oversize": choice("on_oversize", OnOversize),
        "on_shortage": choice("on_shortage", OnShortage),
        "names": names,
    }


_STRUCTURES: dict[str, tuple[type[Any], dict[str, str]]] = {
    "limits": (Limits, {}),
    "counts": (Counts, {"multiple": "micro_batch_multiple"}),
    "pipeline": (Pipeline, {"stages": "pipeline_stages"}),
}
"""Arguments that hold others: their type, and fields that are keywords under another name."""

_ONLY_IN_STRUCTURES: dict[str, Any] = {
    "exactly": None,
    "at_least": 1,
    "even_samples": False,
    "chunks": 1,
    "group": None,
}
"""Fields that are no keywords of their own, and their defaults."""


def _take_apart(settings: dict[str, Any], names: dict[str, str]) -> dict[str, str]:
    """Put the fields of structures among the settings, and their names among those that refusals use."""
    for structure, (kind, keywords) in _STRUCTURES.items():
        held = settings.pop(structure)
        if held is None:
            continue
        if not isinstance(held, kind):
            raise ValueError(f"{structure} must be a {kind.__name__}, got {shown(held)}")
        for field in kind.__dataclass_fields__:
            keyword = keywords.get(field, field)
            default = {**_ONLY_IN_STRUCTURES, **(plan.__kwdefaults__ or {})}[keyword]
            if not _is_default(settings[keyword], default):
                given = shown(settings[keyword])
                raise ValueError(f"{keyword} must not be given beside {structure}, which holds it, got {given}")
            settings[keyword] = getattr(held, field)
            names[keyword] = f"{structure}.{field}"
    return names


def _is_default(value: Any, default: object) -> bool:
    return value is None or value is default or bool(np.isscalar(value) and value == default)


_READ_BY_SOME: dict[str, tuple[object, str]] = {
    "pad_to": (1, "cap"),
    "on_oversize": ("alone", "cap"),
    "objective": ("step", "capped"),
    "exactly": (None, "capped"),
    "at_least": (1, "capped"),
    "even_samples": (False, "capped"),
    "micro_batch_overhead": (0, "capped"),
    "effort": (EFFORT, "capped"),
    "padded": (False, "capped"),
    "extra_budget": (None, "capped"),
    "max_samples": (None, "capped"),
    "carried": (None, "capped"),
    "on_shortage": ("error", "capped"),
    "pipeline_stages": (1, "pipeline"),
    "chunks": (1, "pipeline"),
    "group": (None, "pipeline"),
}
"""Arguments that not every packing reads: their defaults, and who does read them; None stands for what is not given."""


def reads(argument: str, packing: Packing, objective: Objective = "step") -> bool:
    """Return whether `plan` reads an argument with a packing and an objective, or only accepts its default."""
    _, by = _READ_BY_SOME.get(argument, (None, "all"))
    if by == "pipeline":
        return packing == "capped" and objective in ("micro-batch", "pipeline")
    return by == "all" or packing == "capped" or (by == "cap" and packing != "fixed")
