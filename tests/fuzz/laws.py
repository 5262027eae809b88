"""What every answer must keep: agreement with the plain-Python reference, and laws where there is no reference.

A law has no opinion on arguments that it cannot read itself; that these end in an answer or in one short refusal is
asked of every call, in `child`.
"""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import flopbalance
import reference
from flopbalance import Counts, Limits, Pipeline, Schedule, ScheduleError, check_feasible, report
from fuzz.words import Tensor, saved

Number = int | float
SMALL = 60
"""Samples up to which plain Python plans beside the package."""
STRUCTURES = {"limits": Limits, "counts": Counts, "pipeline": Pipeline}
"""Arguments of `plan` that hold others."""
EXACT = 2**53
CLOSE = 1e-9


class BrokenLawError(Exception):
    """A law that an answer breaks."""


@dataclass(frozen=True)
class Call:
    """A call that has ended: what it was given, by the names of its parameters, and the answer or the refusal."""

    given: Mapping[str, Any]
    receiver: Any
    answer: Any
    refusal: Exception | None

    def expect(self, wanted: Any, law: str) -> None:
        if self.refusal is not None:
            raise BrokenLawError(f"must not be refused: {self.refusal}")
        must(self.answer == wanted, f"{law}: expected {wanted!r:.300}")


LAWS: dict[str, Callable[[Call], None]] = {}
"""By the qualified name of a function."""


def law(*names: str) -> Callable[[Callable[[Call], None]], Callable[[Call], None]]:
    def keep(function: Callable[[Call], None]) -> Callable[[Call], None]:
        LAWS.update(dict.fromkeys(names, function))
        return function

    return keep


def must(holds: bool, what: str) -> None:
    if not holds:
        raise BrokenLawError(what)


# -- arguments that anyone can read ------------------------------------------------------------------------------------


def plain_integers(values: Any) -> list[int] | None:
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype.kind in "iu":
        return values.tolist()
    if type(values) in (list, tuple, range) and all(type(value) is int for value in values):
        return list(values)
    return None


def plain_lengths(values: Any) -> list[int] | None:
    numbers = plain_integers(values)
    fits = numbers is not None and all(number >= 0 for number in numbers) and sum(numbers) < 2**63
    return numbers if fits else None


def plain_weights(values: Any) -> list[Number] | None:
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype in (np.float64, np.float32):
        values = values.tolist()
    if type(values) in (list, tuple) and values and all(type(value) is float for value in values):
        return list(values) if all(0 <= value < 1e300 / len(values) for value in values) else None
    numbers = plain_integers(values)
    fits = numbers is not None and all(number >= 0 for number in numbers) and sum(numbers) < 2**128
    return numbers if fits else None


def plain_count(value: Any, top: int = 2**63) -> int | None:
    return value if type(value) is int and 1 <= value < top else None


def plain_fields(args: Any) -> dict[str, Any] | None:
    """Return a trainer's arguments where each is a sensible size, a switch, or absent."""
    fields = dict(args) if isinstance(args, dict) else vars(args) if isinstance(args, Namespace) else {}
    needed = all(plain_count(fields.get(name)) for name in ("num_layers", "hidden_size", "vocab_size"))
    return fields if needed and "num_experts" in fields and all(itertools.starmap(_is_plain, fields.items())) else None


def _is_plain(name: str, value: Any) -> bool:
    if name in ("balance_objective", "flops_model", "on_leftover", "on_oversize"):
        return type(value) is str
    if name.startswith(("balance_", "use_", "multi_latent")):
        return type(value) is bool
    if name == "moe_layer_freq" and type(value) is list:
        return all(type(one) is int and one in (0, 1) for one in value)
    return value is None or plain_count(value, 2**32) is not None


def parts_of(items: Sequence[int], offsets: Sequence[int]) -> list[list[int]]:
    return [list(items[a:b]) for a, b in itertools.pairwise(offsets)]


# -- published functions -----------------------------------------------------------------------------------------------


@law("karmarkar_karp", "get_seqlen_balanced_partitions")
def partition(call: Call) -> None:
    weights, parts = plain_weights(call.given["seqlen_list"]), plain_count(call.given["k_partitions"])
    sizes = call.given["equal_size"]
    if weights is None or parts is None or repr(sizes) not in _SIZES or not weights:
        return
    if parts > len(weights) or (sizes in (True, "refined") and len(weights) % parts):
        must(call.refusal is not None, "an impossible number of parts is refused")
        return
    if type(sizes) is str:
        if call.refusal is not None:
            return  # only get_seqlen_balanced_partitions knows the word
        counts = [len(part) for part in call.answer]
        must(max(counts) - min(counts) <= 1, "counts of items differ by at most one")
        must(sorted(itertools.chain(*call.answer)) == list(range(len(weights))), "every item stands in one part")
    if sizes == "refined":
        refined(weights, call.answer)
    elif len(weights) <= 5 * SMALL and not (sizes == "bounded" and len(weights) % parts):
        wanted = reference.karmarkar_karp(weights, parts, sizes is not False)
        if call.answer is not None and all(part == sorted(part) for part in call.answer):
            wanted = [sorted(part) for part in wanted]
        call.expect(wanted, "parts are the reference's")


_SIZES = ("True", "False", "'bounded'", "'refined'")


def refined(weights: Sequence[Number], answer: list[list[int]]) -> None:
    exact = [Fraction(weight) for weight in weights]
    largest = max(sum(exact[item] for item in part) for part in answer)
    equal = flopbalance.get_seqlen_balanced_partitions(weights, len(answer), equal_size=True)
    differenced = max(sum(exact[item] for item in part) for part in equal)
    must(largest <= differenced * (1 + Fraction(CLOSE)), "refined parts are no heavier than equal ones")
    if all(type(weight) is int for weight in weights):
        must(largest <= differenced, "refined parts are no heavier than equal ones, exactly")


@law("first_fit_pack")
def first_fit(call: Call) -> None:
    lengths, cap = plain_lengths(call.given["total_lengths"]), plain_count(call.given["max_tokens_per_bin"])
    if lengths and cap is not None:
        call.expect(reference.first_fit_pack(lengths, cap), "bins are the reference's")


@law("pack")
def packing(call: Call) -> None:
    given = call.given
    lengths, cap = plain_lengths(given["lengths"]), plain_count(given["max_tokens"])
    if call.answer is None or lengths is None or cap is None:
        return
    bins = call.answer
    must(all(part == sorted(part) and part for part in bins), "bins ascend and none is empty")
    must(sorted(itertools.chain(*bins)) == list(range(len(lengths))), "every sample stands in one bin")
    fits = (len(part) == 1 or sum(lengths[i] for i in part) <= cap for part in bins)
    must(all(fits), "no bin of two samples is above the cap")
    most, count = (plain_count(given[name]) for name in ("max_samples", "count"))
    must(most is None or all(len(part) <= most for part in bins), "no bin holds more samples than it may")
    must(count is None or not lengths or len(bins) == count, "there are as many bins as asked for")
    multiple, at_least = plain_count(given["multiple"]), plain_count(given["at_least"])
    must(multiple is None or len(bins) % multiple == 0, "bins come in multiples")
    must(at_least is None or not lengths or len(bins) >= at_least, "there are as many bins as asked for at least")
    free = most is None and count is None and multiple == at_least == 1
    if free and given["order"] in ("given", "decreasing"):
        order = list(range(len(lengths)))
        if given["order"] == "decreasing":
            order.sort(key=lambda i: -lengths[i])
        first_fit = reference.first_fit_pack([lengths[i] for i in order], cap)
        must(bins == [sorted(order[i] for i in part) for part in first_fit], "bins are those of first fit")


@law("split")
def splitting(call: Call) -> None:
    bins, target, lengths = (call.given[name] for name in ("bins", "target", "lengths"))
    tokens = plain_lengths(lengths)
    if not (tokens and type(bins) is list and all(type(one) is list and one for one in bins)):
        return
    items = plain_integers([item for one in bins for item in one])
    if items is None or not {*items} <= {*range(len(tokens))} or len({*items}) < len(items):
        return
    if type(target) is int and 0 <= target <= 3 * len(tokens) and 0 not in tokens:
        wanted = copy.deepcopy(bins)
        reference.expand_bins_by_splitting(wanted, target, tokens)
        call.expect(wanted, "bins are the reference's")


@law("get_reverse_idx")
def inverse(call: Call) -> None:
    indices = plain_integers(call.given["idx_map"])
    if indices and sorted(indices) == list(range(len(indices))):
        must(call.refusal is None, "must not be refused")
        must([int(i) for i in call.answer] == reference.get_reverse_idx(indices), "the inverse is the reference's")


@law("calculate_fwd_flops")
def published_flops(call: Call) -> None:
    lengths, fields = plain_lengths(call.given["seqlens"]), plain_fields(call.given["args"])
    if lengths is None or fields is None:
        return
    total = total_flops(lengths, Namespace(**fields))
    # Without a sequence the reference reads no argument, and so misses none.
    if total is not None and (lengths or total_flops([1], Namespace(**fields)) is not None):
        call.expect(total, "FLOPs are the reference's")
        each = flopbalance.PublishedFlops(fields).flops(lengths)
        must(each.sum() == total, f"FLOPs of each sequence add up to {total}")


def total_flops(lengths: list[int], args: Namespace) -> float | None:
    """Return FLOPs that no order of adding rounds, where the reference finds all it needs."""
    try:
        total = reference.calculate_fwd_flops(lengths, args)
    except (AttributeError, TypeError):
        return None
    return total if total < EXACT else None


@law("build_dp_schedule")
def dp_schedule(call: Call) -> None:
    fields, lengths = plain_fields(call.given["args"]), plain_lengths(call.given["total_lengths"])
    rollouts, size = plain_integers(call.given["rollout_indices"]), plain_count(call.given["global_batch_size"])
    parallel = call.given["train_parallel_config"]
    parallel = dict(vars(parallel)) if isinstance(parallel, Namespace) else parallel
    if fields is None or lengths is None or rollouts is None or size is None or len(lengths) > SMALL:
        return
    if any(not -(2**63) <= rollout < 2**63 for rollout in rollouts):
        return
    unpublished = (
        "balance_within_cap",
        "balance_objective",
        "flops_model",
        "on_leftover",
        "on_oversize",
        "on_shortage",
    )
    if any(fields.get(name) for name in unpublished) or len(rollouts) != len(lengths) or not lengths:
        return
    if not (isinstance(parallel, dict) and len(parallel) == 4 and all(plain_count(v, 100) for v in parallel.values())):
        return
    args = Namespace(**({"balance_data": False, "balance_by_flops": False, "use_dynamic_batch_size": False} | fields))
    if args.balance_by_flops and not args.use_dynamic_batch_size:
        return
    if total_flops(lengths, args) is None:
        return
    options = {"global_batch_size": size, "rollout_indices": rollouts}
    published(call, lambda: reference.build_dp_schedule(args, parallel, lengths, **options))


def published(call: Call, planned: Callable[[], Any]) -> None:
    """Hold a schedule against the reference's lists, or its refusal."""
    try:
        wanted = planned()
    except ValueError:
        wanted = None
    except (AttributeError, TypeError):  # an argument is missing, or None
        return
    if wanted is None or not all(batch for of_rank in wanted[1] for batch in of_rank):  # an empty micro-batch is none
        must(isinstance(call.refusal, ScheduleError), "where the published schedule ends, it is a ScheduleError")
        return
    must(call.refusal is None, f"must not be refused: {call.refusal}")
    lists = call.answer.to_lists() if isinstance(call.answer, Schedule) else call.answer
    must(lists == wanted, f"the schedule is the reference's: expected {wanted!r:.300}")


# -- plans -------------------------------------------------------------------------------------------------------------


@law("plan")
def plan(call: Call) -> None:
    given, lengths = field_by_field(call.given), plain_lengths(call.given["lengths"])
    costs = lengths if given["costs"] is None else plain_weights(given["costs"])
    if lengths is None:
        return
    if call.refusal is None:
        schedule_laws(call.answer, lengths, given)
        counts_are_those(call.answer, given)
        if given["carried"] is not None:
            as_without_carried(call.answer, call.given)
        if costs is not None and len(costs) == len(lengths):
            as_often(call, lengths, costs)
    is_twice = "must not be given beside" in str(call.refusal)  # once as a keyword, once in a structure
    is_other = any(not isinstance(call.given[name], (kind, type(None))) for name, kind in STRUCTURES.items())
    if costs is not None and len(costs) == len(lengths) and not (is_twice or is_other):
        plan_as_published(call, given, lengths, costs)


def field_by_field(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `plan` as if each field of a structure were one."""
    fields = dict(given) | {"exactly": None, "at_least": 1, "even_samples": False, "chunks": 1, "group": None}
    keywords = {"multiple": "micro_batch_multiple", "stages": "pipeline_stages"}
    for name, kind in STRUCTURES.items():
        if isinstance(given[name], kind):
            fields |= {keywords.get(field, field): value for field, value in vars(given[name]).items()}
    return fields


def counts_are_those(schedule: Schedule, given: Mapping[str, Any]) -> None:
    """Ranks have as many micro-batches as were asked for."""
    per_step = schedule.micro_batches_per_step.tolist()
    must(given["exactly"] is None or {*per_step} == {given["exactly"]}, "exactly as many as were asked for")
    must(min(per_step) >= given["at_least"], "at least as many as were asked for")
    for first, last in itertools.pairwise(np.cumsum([0, *per_step])):
        of_ranks = schedule.sample_counts[:, first:last].sum(axis=1)
        must(not given["even_samples"] or np.ptp(of_ranks) <= 1, "ranks have as many samples")
    group = given["group"] or given["pipeline_stages"]
    must(given["chunks"] == 1 or all(count % int(group) == 0 for count in per_step), "whole groups")


def plan_as_published(call: Call, given: Mapping[str, Any], lengths: list[int], costs: Sequence[Number]) -> None:
    ranks, multiple = plain_count(given["dp_size"], len(lengths) + 1), plain_count(given["micro_batch_multiple"], 9)
    limit = plain_count(given["micro_batch_size" if repr(given["packing"]) == "'fixed'" else "max_tokens"])
    ids = list(range(len(lengths))) if given["rollout_ids"] is None else plain_integers(given["rollout_ids"])
    size = len({*ids}) if ids and given["global_batch_size"] is None else plain_count(given["global_batch_size"])
    usual = {"pad_to": 1, "on_leftover": "drop", "on_oversize": "alone", "exactly": None, "at_least": 1}
    usual["even_samples"] = False
    if (ranks is None and len(lengths)) or multiple is None or limit is None or size is None or not ids:
        return
    if repr(given["packing"]) not in ("'first-fit'", "'flops'", "'fixed'"):
        return
    if any(repr(given[name]) != repr(value) for name, value in usual.items()):
        return
    if any(given[name] is not None and plain_count(given[name]) is None for name in ("max_tokens", "micro_batch_size")):
        return
    if len(ids) != len(lengths) or len(lengths) > SMALL or type(given["balance_ranks"]) is not bool:
        return
    if any(not -(2**63) <= i < 2**63 for i in ids):
        return

    def cost(samples: list[int]) -> Number:
        total: Number = 0
        for sample in samples:
            total += costs[sample]
        return total

    published(
        call,
        lambda: reference.plan(
            lengths,
            cost,
            dp_size=ranks or 1,
            max_tokens=given["max_tokens"],
            micro_batch_size=given["micro_batch_size"],
            rollout_ids=ids,
            global_batch_size=size,
            micro_batch_multiple=multiple,
            packing=given["packing"],
            balance_ranks=given["balance_ranks"],
        ),
    )


def schedule_laws(schedule: Schedule, lengths: list[int], given: Mapping[str, Any]) -> None:
    """Every sample stands once or is dropped, caps hold, ranks have as many micro-batches."""
    count, ranks, multiple = len(lengths), int(given["dp_size"]), int(given["micro_batch_multiple"])
    batches = parts_of(schedule.samples.tolist(), schedule.micro_batch_offsets.tolist())
    placed, dropped = schedule.samples[~schedule.is_padding].tolist(), schedule.dropped.tolist()
    must(sorted(placed + dropped) == list(range(count)), "every sample stands once or is dropped")
    must(dropped == sorted(dropped), "dropped samples ascend")
    must(all(batches), "no micro-batch is empty")
    must(schedule.micro_batch_tokens.tolist() == [sum(lengths[i] for i in b) for b in batches], "tokens are summed")
    per_step = schedule.micro_batches_per_step.tolist()
    must(len(batches) == ranks * sum(per_step), "ranks have as many micro-batches")
    must(all(n > 0 and n % multiple == 0 for n in per_step), "micro-batches come in multiples")
    must(given["on_shortage"] == "repeat" or not schedule.is_padding.any(), "samples are repeated only when asked")

    step_of_batch = [step for step, n in enumerate(per_step) for _ in range(n)] * ranks
    is_padding = parts_of(schedule.is_padding.tolist(), schedule.micro_batch_offsets.tolist())
    steps: list[set[int]] = [set() for _ in per_step]
    for step, batch, fills in zip(step_of_batch, batches, is_padding, strict=True):
        steps[step].update(sample for sample, fill in zip(batch, fills, strict=True) if not fill)
    for step, batch in zip(step_of_batch, batches, strict=True):
        must(steps[step].issuperset(batch), "a repeated sample is of its step")
        must(len({*batch}) == len(batch), "no sample stands twice in a micro-batch")
    ids = rollouts_of(given["rollout_ids"], count)
    homes = {(ids[i], step) for step, samples in enumerate(steps) for i in samples}
    must(len(homes) == len({rollout for rollout, _ in homes}), "a rollout stays in one step")

    caps = Caps.of(given, lengths)
    if caps is not None:
        for batch in batches:
            must(len(batch) == 1 or caps.hold(batch), "the cap holds")
        oversize = [i for i in range(count) if not caps.hold([i])]
        if given["on_oversize"] == "drop":
            must({*oversize} <= {*dropped}, "a sample above the cap is dropped")
        must(given["on_oversize"] != "error" or not oversize, "a sample above the cap is refused")
    if count <= SMALL:
        views(schedule)


def rollouts_of(ids: Any, count: int) -> list[Any]:
    """Return the rollout of each sample; None is one of its own."""
    if ids is None:
        return list(range(count))
    values = ids if isinstance(ids, (list, tuple)) else np.asarray(ids).tolist()
    return [("alone", i) if value is None else value for i, value in enumerate(values)]


@dataclass(frozen=True)
class Caps:
    """What a micro-batch of `plan` may hold."""

    lengths: list[int]
    cap: int
    pad_to: tuple[int, int]
    padded: bool
    amounts: list[int]
    amount_cap: int
    most_samples: float

    @classmethod
    def of(cls, given: Mapping[str, Any], lengths: list[int]) -> Caps | None:
        if given["packing"] not in ("first-fit", "capped"):
            return None
        extra, pad_to = given["extra_budget"], given["pad_to"]
        amounts, amount_cap = (
            ([0] * len(lengths), 0) if extra is None else ([*map(int, np.asarray(extra[0]))], int(extra[1]))
        )
        one, both = pad_to if isinstance(pad_to, tuple) else (pad_to, 1)
        most = float("inf") if given["max_samples"] is None else int(given["max_samples"])
        pad = (int(one), int(both))
        return cls(lengths, int(given["max_tokens"]), pad, bool(given["padded"]), amounts, amount_cap, most)

    def hold(self, batch: list[int]) -> bool:
        each = [-(-self.lengths[i] // self.pad_to[0]) * self.pad_to[0] for i in batch]
        tokens = len(each) * max(each) if self.padded else sum(each)
        padded = -(-tokens // self.pad_to[1]) * self.pad_to[1]
        within = padded <= self.cap and sum(self.amounts[i] for i in batch) <= self.amount_cap
        return within and len(batch) <= self.most_samples


def views(schedule: Schedule) -> None:
    """Lists, ranks, inverse, pickles and files say the same as the arrays."""
    partitions, positions, per_step, rollouts = schedule.to_lists()
    batches = [[one[i] for i in batch] for one, of_rank in zip(partitions, positions, strict=True) for batch in of_rank]
    must(batches == parts_of(schedule.samples.tolist(), schedule.micro_batch_offsets.tolist()), "lists are the arrays")
    must(per_step == schedule.micro_batches_per_step.tolist(), "lists are the arrays")
    must(len(rollouts) == len(per_step), "lists are the arrays")
    for rank in {0, schedule.dp_size - 1}:
        one = schedule.rank(rank)
        must(one.samples.tolist() == partitions[rank], "a rank is its part")
        must(
            [batch.tolist() for step in one.steps() for batch in step]
            == batches[rank * sum(per_step) :][: sum(per_step)],
            "steps of a rank",
        )
    places = schedule.inverse().tolist()
    must(all(place < 0 or schedule.samples[place] == i for i, place in enumerate(places)), "the inverse finds samples")
    must(
        {i for i, place in enumerate(places) if place < 0} == {*schedule.dropped.tolist()},
        "the inverse knows what is dropped",
    )
    must(pickle.loads(pickle.dumps(schedule)) == schedule, "a pickle gives the schedule back")
    if len(schedule.samples) % 4 == 0:
        must(Schedule.load(saved(schedule)) == schedule, "a file gives the schedule back")
    must(int(schedule.step_tokens.sum()) == int(schedule.micro_batch_tokens.sum()), "tokens of steps")


def as_without_carried(schedule: Schedule, given: Mapping[str, Any]) -> None:
    """What ranks carry only says which of them gets which part of a step."""
    other = flopbalance.plan(**{**given, "carried": None})
    must(steps_of(schedule) == steps_of(other), "micro-batches do not depend on what ranks carry")
    must(schedule.dropped.tolist() == other.dropped.tolist(), "what is dropped does not depend on what ranks carry")


def steps_of(schedule: Schedule) -> list[list[list[list[int]]]]:
    """Return the parts of each step, as ranks run them, in an order of their own."""
    per_rank = [[[b.tolist() for b in step] for step in schedule.rank(i).steps()] for i in range(schedule.dp_size)]
    return [sorted(step) for step in zip(*per_rank, strict=True)]


def as_often(call: Call, lengths: list[int], costs: Sequence[Number]) -> None:
    """The plan does not depend on the types of its input, and more effort is never worse."""
    if len(lengths) > 5 * SMALL:
        return
    given = {name: value for name, value in call.given.items() if name not in ("lengths", "costs")}
    for kind in (Tensor, np.array):
        weights = costs if max(costs, default=0) >= 2**63 else kind(costs)
        again = flopbalance.plan(kind(lengths), costs=weights, **given)
        must(again == call.answer, "the plan does not depend on the type of its input")
    fields = field_by_field(call.given)
    stages, overhead = int(fields["pipeline_stages"] or 1), float(fields["micro_batch_overhead"] or 0)
    whole = all(type(cost) is int for cost in costs) and sum(costs) * stages < 2**50
    told = stages == 1 or fields["micro_batch_overhead"] is not None
    if given["packing"] == "capped" and whole and told and overhead < 2**20 and fields["chunks"] == 1:
        options = {"pipeline_stages": stages, "micro_batch_overhead": overhead}
        times = []
        for effort in (0, 8, 128):
            schedule = flopbalance.plan(lengths, costs=costs, **{**given, "effort": effort})
            if given["objective"] == "micro-batch":
                times.append(
                    float(sum(reference.pipeline_end(rows, stages) for rows in dearest(schedule, costs, overhead)))
                )
                continue
            time = report(schedule, costs, lengths, 1, **options).times[given["objective"]]
            paid = 0 if given["objective"] == "pipeline" else overhead * schedule.micro_batches_per_step.sum()
            times.append(time + paid)
        must(
            times[0] * (1 + CLOSE) >= times[1] and times[1] * (1 + CLOSE) >= times[2],
            f"more effort is never worse: {times}",
        )


def dearest(schedule: Schedule, costs: Sequence[Number], overhead: float) -> list[list[Fraction]]:
    """Return the dearest of the first micro-batches of all ranks, of the second, ..., step by step."""
    batches = parts_of(schedule.samples.tolist(), schedule.micro_batch_offsets.tolist())
    each = [Fraction(overhead) + sum(map(Fraction, map(costs.__getitem__, batch))) for batch in batches]
    count = len(each) // schedule.dp_size
    rows = [max(each[first::count]) for first in range(count)]
    ends = [0, *itertools.accumulate(schedule.micro_batches_per_step.tolist())]
    return [rows[a:b] for a, b in itertools.pairwise(ends)]


@law("check_feasible")
def feasible(call: Call) -> None:
    """What is said to be possible can be planned, and what is said to help does."""
    if call.refusal is not None:
        return
    given = dict(call.given)
    if any(plain_count(value) is None for value in given.values() if value is not None and not isinstance(value, str)):
        return
    for change in call.answer.remedies:
        must(bool(check_feasible(**{**given, **change})), f"a remedy helps: {change}")
    rollouts = given["num_rollouts"] or given["global_batch_size"]
    samples = rollouts * given["samples_per_rollout"]
    if not call.answer or samples > SMALL or given["dp_size"] * given["micro_batch_multiple"] > SMALL:
        return
    longest = given["longest"] or given["max_tokens"] or 1
    if longest * samples >= 2**62:
        return
    names = ("dp_size", "global_batch_size", "micro_batch_multiple", "on_leftover")
    options = {name: given[name] for name in names} | {"rollout_ids": [i % rollouts for i in range(samples)]}
    if given["micro_batch_size"] is not None:
        flopbalance.plan([1] * samples, packing="fixed", micro_batch_size=given["micro_batch_size"], **options)
        return
    options |= {"max_tokens": given["max_tokens"], "on_oversize": given["on_oversize"]}
    for low in {1, (longest + 1) // 2, longest}:
        lengths = [longest if i % 2 else low for i in range(samples)]
        try:
            flopbalance.plan(lengths, packing="capped", on_shortage=given["on_shortage"], **options)
            if given["on_shortage"] == "error":
                flopbalance.plan(lengths, **options)
        except ValueError as error:
            raise BrokenLawError(f"what is feasible can be planned: {lengths}: {error}") from error


# -- lists of trainers, loads of ranks ---------------------------------------------------------------------------------


@law("Schedule.from_lists")
def from_lists(call: Call) -> None:
    """Ranks run what the lists say, and the lists of the schedule give it back."""
    if call.refusal is not None:
        return
    schedule, lengths = call.answer, plain_lengths(call.given["lengths"])
    placed = [
        [int(partition[i]) for i in batch]
        for partition, batches in zip(call.given["partitions"], call.given["micro_batch_indices"], strict=True)
        for batch in (list(map(int, batch)) for batch in batches)
    ]
    must(placed == parts_of(schedule.samples.tolist(), schedule.micro_batch_offsets.tolist()), "the lists are kept")
    views(schedule)
    if lengths is not None:
        must(schedule.micro_batch_tokens.tolist() == [sum(lengths[i] for i in b) for b in placed], "tokens are summed")
        must(Schedule.from_lists(*schedule.to_lists(), lengths=lengths) == schedule, "from_lists is to_lists' inverse")


@law("Schedule.rank_loads")
def rank_loads(call: Call) -> None:
    schedule, costs, carried = call.receiver, plain_weights(call.given["costs"]), call.given["carried"]
    before = [0] * schedule.dp_size if carried is None else plain_weights(carried)
    if call.refusal is None:
        must(all(map(math.isfinite, call.answer.tolist())), "every load is finite")
    if costs is None or before is None or call.given["lengths"] is not None:
        return
    if len(costs) != schedule.num_samples or len(before) != schedule.dp_size:
        must(call.refusal is not None, "one cost for each sample, one load for each rank")
        return
    wanted = []
    for rank, load in enumerate(before):
        for sample in schedule.rank(rank).samples.tolist():
            load += costs[sample]
        wanted.append(load)
    must(call.refusal is None, f"must not be refused: {call.refusal}")
    must(call.answer.tolist() == wanted, f"loads are {wanted!r:.300}")


@law("build_log_probs_schedule")
def log_probs(call: Call) -> None:
    """Every sample of a rank stands once, under the cap, in as many micro-batches as on the other ranks."""
    if call.refusal is not None:
        return
    lengths, (micro_batches, counts) = plain_lengths(call.given["total_lengths"]), call.answer
    args, parallel = (
        dict(one) if isinstance(one, dict) else vars(one)
        for one in (call.given["args"], call.given["train_parallel_config"])
    )
    own = args.get("log_probs_max_tokens_per_gpu")
    cap = int(args["max_tokens_per_gpu"] if own is None else own) * int(parallel["cp_size"])
    for partition, batches in zip(call.given["partitions"], micro_batches, strict=True):
        samples = list(map(int, partition))
        must([len(batches)] == counts, "ranks have as many micro-batches")
        must(all(batches), "no micro-batch is empty")
        must(sorted(itertools.chain(*batches)) == list(range(len(samples))), "every sample of a rank stands once")
        if lengths is not None:
            together = [sum(lengths[samples[i]] for i in batch) for batch in batches if len(batch) > 1]
            must(max(together, default=0) <= cap, "the cap holds")


# -- reports -----------------------------------------------------------------------------------------------------------


@law("report")
def reporting(call: Call) -> None:
    given, schedule, lengths = call.given, call.given["schedule"], plain_lengths(call.given["lengths"])
    costs = plain_weights(given["costs"])
    if call.refusal is not None:
        return
    must(all(math.isfinite(value) for value in call.answer.as_dict().values()), "every figure is finite")
    stages, overhead = int(given["pipeline_stages"]), float(given["micro_batch_overhead"])
    if lengths is None or costs is None or sum(costs) > 1e200 or overhead > 1e200:
        return
    batches = parts_of(schedule.samples.tolist(), schedule.micro_batch_offsets.tolist())
    each = [math.fsum(costs[i] for i in batch) for batch in batches]
    per_rank = sum(schedule.micro_batches_per_step.tolist())
    step_time = row_time = pipeline_time = mean_time = 0.0
    start = 0
    for count in schedule.micro_batches_per_step.tolist():
        rows = [each[rank * per_rank + start :][:count] for rank in range(schedule.dp_size)]
        step_time += max(math.fsum(row) for row in rows)
        row_time += sum(max(column) for column in zip(*rows, strict=True))
        behind = [[cost + overhead for cost in row] for row in rows]
        pipeline_time += max(float(reference.pipeline_end(list(map(Fraction, row)), stages)) for row in behind)
        mean_time += math.fsum(cost for row in rows for cost in row) / schedule.dp_size
        start += count
    wanted = {"step": step_time, "micro-batch": row_time, "pipeline": pipeline_time}
    for name, time in call.answer.times.items():
        must(
            time == wanted[name] or math.isclose(time, wanted[name], rel_tol=CLOSE),
            f"the {name} time is {wanted[name]}",
        )
    must(math.isclose(call.answer.mean_time, mean_time, rel_tol=CLOSE), f"the mean time is {mean_time}")
    must(call.answer.mean_time <= call.answer.lower_bound * (1 + CLOSE), "the bound is at least the mean")
    must(call.answer.lower_bound <= step_time * (1 + CLOSE), "the bound is a bound")
    over = [
        sum(lengths[i] for i in b) for b in batches if len(b) > 1 and sum(lengths[i] for i in b) > given["max_tokens"]
    ]
    must(call.answer.over_cap == len(over), f"over the cap are {len(over)}")


@law("simulate_pipeline")
def pipeline(call: Call) -> None:
    costs, stages, chunks = (
        plain_weights(call.given["costs"]),
        *map(plain_count, map(call.given.get, ("stages", "chunks"))),
    )
    group = stages if call.given["group"] is None else plain_count(call.given["group"])
    if (
        costs is None
        or stages is None
        or chunks is None
        or group is None
        or max(stages, chunks) > 8
        or sum(costs) > 1e300
    ):
        return
    if chunks > 1 and (group < stages or len(costs) % group):
        must(call.refusal is not None, "groups that are too small or not whole are refused")
        return
    must(call.refusal is None, "a pipeline ends")
    wanted = reference.pipeline_end(list(map(Fraction, costs)), stages, chunks, group)
    whole = all(type(cost) is int for cost in costs) and sum(costs) < 2**64
    must(
        call.answer == float(wanted) if whole else math.isclose(call.answer, wanted, rel_tol=CLOSE),
        f"it ends at {wanted}",
    )


@law("CapWatch.check")
def cap_watch(call: Call) -> None:
    schedule = call.given["schedule"]
    if call.refusal is None and isinstance(schedule, Schedule):
        over = (schedule.micro_batch_tokens > call.receiver.max_tokens) & (np.diff(schedule.micro_batch_offsets) > 1)
        must(call.answer == over.sum(), f"over the cap are {over.sum()}")


# -- costs -------------------------------------------------------------------------------------------------------------


def pairs(length: int, window: int | None) -> int:
    """Causal pairs of a sequence, within so many keys."""
    if window is None or length <= window:
        return length * (length + 1) // 2
    return window * (window + 1) // 2 + (length - window) * window


def exact_flops(model: flopbalance.CostModel, length: int, parts: tuple[int, int, int] = (1, 1, 1)) -> int:
    layers, head, attention = parts
    windowed = sum(cost * pairs(length, window) for window, cost in model.windows)
    linear = (layers * model.per_token + head * model.lm_head) * length
    return linear + attention * (model.per_pair * pairs(length, None) + windowed)


@law("CostModel.flops", "CostModel.total_flops")
def exact_cost(call: Call) -> None:
    lengths = plain_lengths(call.given["lengths"])
    if lengths is None:
        return
    wanted = [exact_flops(call.receiver, length) for length in lengths]
    if call.refusal is not None:
        must(isinstance(call.refusal, OverflowError), f"must not be refused: {call.refusal}")
        must(max(wanted, default=0) >= 2**63, "only a sequence of 2^63 FLOPs overflows")
    elif isinstance(call.answer, int):
        must(call.answer == sum(wanted), f"the total is {sum(wanted)}")
    else:
        must(call.answer.tolist() == wanted, f"FLOPs are {wanted!r:.300}")


@law("CostModel.weights")
def training_cost(call: Call) -> None:
    lengths, phase, recompute = plain_lengths(call.given["lengths"]), call.given["phase"], call.given["recompute"]
    if call.refusal is not None or lengths is None:
        return
    flash = bool(call.given["flash_attention"])
    parts = {"none": (6, 6, 6), "full": (8, 6, 8), "selective": (6, 6, 8)}[recompute]
    parts = (2, 2, 2) if phase == "forward" else (parts[0], parts[1], parts[2] + flash)
    for length, weight in zip(lengths, call.answer.tolist(), strict=True):
        must(math.isclose(2 * weight, exact_flops(call.receiver, length, parts), rel_tol=CLOSE), "weights of a step")


@law("FittedCost.flops")
def fitted_cost(call: Call) -> None:
    lengths, fit = plain_lengths(call.given["lengths"]), call.receiver
    if call.refusal is not None or lengths is None:
        return
    shares = fit.per_pair + sum(cost for _, cost in fit.windows)
    for length, seconds in zip(lengths, call.answer.tolist(), strict=True):
        within = fit.per_pair * pairs(length, None) + sum(cost * pairs(length, window) for window, cost in fit.windows)
        square = 2 * within / shares - length
        wanted = fit.per_token * length + fit.per_square * square + fit.per_sequence
        must(
            math.isclose(seconds, wanted, rel_tol=1e-6, abs_tol=fit.per_square * length * CLOSE),
            f"seconds are {wanted}",
        )
        must(math.isfinite(seconds), "seconds are finite")


# -- files, commands, trainers -----------------------------------------------------------------------------------------


@law("Schedule.load")
def loaded(call: Call) -> None:
    if call.refusal is None:
        must(call.answer.num_samples < 10**6, "no file of a few bytes holds a million samples")
        views(call.answer)
        must(
            all(
                len(sums) == len(call.answer.rollouts_per_step)
                for sums in (call.answer.step_samples, call.answer.step_tokens)
            ),
            "a sum for each step",
        )


@law("read_lengths")
def read(call: Call) -> None:
    if call.refusal is None:
        lengths, ids = call.answer
        must(lengths.dtype == np.int64 and lengths.ndim == 1 and len(lengths) > 0, "lengths are a flat array")
        must(bool((lengths >= 0).all()), "lengths are not negative")
        if call.given["rollout_column"] is not None:
            seen = list(dict.fromkeys(ids.tolist()))
            must(len(ids) == len(lengths) and seen == list(range(len(seen))), "ids count from 0 as they appear")


@law("command")
def commands(call: Call) -> None:
    code, printed, errors = call.answer
    must(code in (0, 1, 2), f"the exit code is 0, 1 or 2, not {code}")
    if code == 2:
        must(printed == "", "a refused command prints nothing")
        must(
            errors.startswith("flopbalance: error: ") and errors.count("\n") == 1,
            f"a refusal is one line: {errors!r:.200}",
        )
        must(errors[:-1].isprintable(), f"a message is printable: {errors!r:.200}")
        must(len(errors) < 1000, f"a message is short, got {len(errors)} characters")


@law("validate_balance_args")
def validated(call: Call) -> None:
    if call.refusal is None and isinstance(call.answer, Namespace) and getattr(call.answer, "balance_by_flops", False):
        must(call.answer.balance_data is True, "--balance-by-flops switches --balance-data on")


@law("synthetic_rollout")
def synthetic(call: Call) -> None:
    if call.refusal is None:
        lengths, ids = call.answer
        count = math.prod(int(call.given[name]) for name in ("prompts", "answers_per_prompt"))
        must(len(lengths) == len(ids) == count, "as many samples")
        must(bool((lengths >= 1).all() and (lengths <= call.given["max_tokens"]).all()), "lengths are within the limit")
