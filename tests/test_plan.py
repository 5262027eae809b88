"""Whole schedules: `plan` and `build_dp_schedule` against the reference, every option, every refusal."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import reference
from families import FAMILIES
from flopbalance import (
    Schedule,
    ScheduleError,
    _core,
    build_dp_schedule,
    expand_bins_by_splitting,
    first_fit_pack,
    get_seqlen_balanced_partitions,
    karmarkar_karp,
    plan,
    report,
)

TINY = {
    "num_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_query_groups": 2,
    "kv_channels": 8,
    "ffn_hidden_size": 64,
    "vocab_size": 32,
    "num_experts": None,
}
STATIC = {"use_dynamic_batch_size": False, "balance_data": False, "balance_by_flops": False, "max_tokens_per_gpu": None}
DYNAMIC = {"use_dynamic_batch_size": True, "balance_data": True, "balance_by_flops": True, "micro_batch_size": None}
PARALLEL = {"dp_size": 2, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}


def build(build_dp_schedule, args, lengths, rollouts=None, batch=None, **parallel):
    rollouts = list(range(len(lengths))) if rollouts is None else rollouts
    return build_dp_schedule(
        SimpleNamespace(**{**TINY, **args}),
        {**PARALLEL, **parallel},
        lengths,
        global_batch_size=batch or len(set(rollouts)),
        rollout_indices=rollouts,
    )


def answer(function):
    """Return the answer, or that there is none: both sides must refuse the same problems.

    Published splitting can make an empty micro-batch of samples that have no tokens; here that is a refusal.
    """
    try:
        lists = function()
    except ValueError:
        return "refused"
    return lists if all(batch for rank in lists[1] for batch in rank) else "refused"


@st.composite
def problems(draw):
    lengths = draw(st.lists(st.integers(0, 30) | st.integers(0, 3000), min_size=1, max_size=60))
    n = len(lengths)
    rollouts = draw(st.just(list(range(n))) | st.lists(st.integers(-3, 12), min_size=n, max_size=n))
    return lengths, rollouts, draw(st.integers(1, max(1, len(set(rollouts)))))


# -- build_dp_schedule -----------------------------------------------------------------------------------------------


@given(
    problems(),
    st.fixed_dictionaries(
        {
            "use_dynamic_batch_size": st.booleans(),
            "balance_data": st.booleans(),
            "balance_by_flops": st.booleans(),
            "micro_batch_size": st.integers(1, 4),
            "max_tokens_per_gpu": st.integers(1, 60) | st.integers(1, 4000),
        }
    ),
    st.fixed_dictionaries(
        {
            "dp_size": st.integers(1, 6),
            "cp_size": st.integers(1, 2),
            "vpp_size": st.integers(1, 2),
            "microbatch_group_size_per_vp_stage": st.integers(1, 3),
        }
    ),
)
def test_agrees_with_the_reference(problem, args, parallel):
    assume(args["use_dynamic_batch_size"] or not args["balance_by_flops"])
    lengths, rollouts, batch = problem
    expected = answer(lambda: build(reference.build_dp_schedule, args, lengths, rollouts, batch, **parallel))
    assert answer(lambda: build(build_dp_schedule, args, lengths, rollouts, batch, **parallel)) == expected


@pytest.mark.parametrize("packing", ["plain", "data", "flops"])
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("near_2_63", "near_2_64", "inexact")])
def test_agrees_with_the_reference_on_hard_inputs(family, packing):
    lengths = np.minimum(FAMILIES[family](1000), 2**20).tolist()
    args = {
        **DYNAMIC,
        "max_tokens_per_gpu": 40_000,
        "balance_data": packing != "plain",
        "balance_by_flops": packing == "flops",
    }
    for batch in (1000, 130):
        expected = answer(lambda: build(reference.build_dp_schedule, args, lengths, batch=batch, dp_size=4))  # noqa: B023
        assert answer(lambda: build(build_dp_schedule, args, lengths, batch=batch, dp_size=4)) == expected  # noqa: B023


def test_published_example():
    lengths = [1, 2, 3, 4, 5, 7, 9, 10]
    partitions, *rest = build(build_dp_schedule, {**STATIC, "micro_batch_size": 1, "balance_data": True}, lengths)
    assert partitions == [[1, 2, 5, 6], [0, 3, 4, 7]]
    assert rest == [[[[0], [1], [2], [3]], [[0], [1], [2], [3]]], [4], [8]]


def test_by_flops_may_exceed_the_cap_as_published():
    args = {**DYNAMIC, "max_tokens_per_gpu": 8}
    partitions, indices, _, _ = build(build_dp_schedule, args, [7] * 8, dp_size=1)
    assert max(len(batch) for batch in indices[0]) == 2
    assert len(indices[0]) == 7
    assert sorted(partitions[0]) == list(range(8))


def test_the_model_is_not_needed_where_nothing_is_balanced():
    args = SimpleNamespace(**STATIC, micro_batch_size=1)
    got = build_dp_schedule(args, PARALLEL, [3, 1], global_batch_size=2, rollout_indices=[0, 1])
    assert got == ([[0], [1]], [[[0]], [[0]]], [1], [2])


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", "float64"])
def test_every_type_of_length_gives_the_same_schedule(dtype):
    lengths = [100, 7, 255, 30, 99, 1, 250, 250]
    args = {**DYNAMIC, "max_tokens_per_gpu": 300}
    expected = build(reference.build_dp_schedule, args, lengths)
    array = np.array(lengths, dtype)
    ids = np.arange(8, dtype=dtype)
    for values, rollouts in (
        (array, ids),
        (tuple(array), tuple(ids)),
        (array[::-1].copy()[::-1], ids),
        (array.tolist(), None),
    ):
        assert build(build_dp_schedule, args, values, rollouts, 8) == expected


def test_squares_of_int32_lengths_do_not_overflow():
    lengths = [35_655, 40_000, 131_072, 100, 2**31 - 1, 50_000]
    args = {**DYNAMIC, "max_tokens_per_gpu": 2**31 - 1}
    assert build(build_dp_schedule, args, np.array(lengths, np.int32)) == build(
        reference.build_dp_schedule, args, lengths
    )


def test_a_mapping_serves_as_arguments():
    lengths, args = [4, 3, 2, 1], {**TINY, **DYNAMIC, "max_tokens_per_gpu": 4}
    got = build_dp_schedule(args, PARALLEL, lengths, global_batch_size=4, rollout_indices=range(4))
    assert got == build(reference.build_dp_schedule, args, lengths)


# -- plan ------------------------------------------------------------------------------------------------------------


@given(
    problems(),
    st.sampled_from(["tokens", "integers", "floats"]),
    st.sampled_from(["first-fit", "flops", "fixed"]),
    st.fixed_dictionaries(
        {
            "dp_size": st.integers(1, 5),
            "max_tokens": st.integers(1, 60) | st.integers(1, 4000),
            "micro_batch_size": st.integers(1, 4),
            "micro_batch_multiple": st.integers(1, 3),
            "balance_ranks": st.booleans(),
        }
    ),
    st.data(),
)
def test_plans_agree_with_the_reference(problem, kind, packing, options, data):
    lengths, rollouts, batch = problem
    values = {"tokens": None, "integers": st.integers(0, 9) | st.integers(0, 2**80), "floats": st.floats(0, 100)}[kind]
    costs = None if values is None else data.draw(st.lists(values, min_size=len(lengths), max_size=len(lengths)))

    def cost(samples):
        total = 0
        for i in samples:
            total += (lengths if costs is None else costs)[i]
        return total

    options |= {"rollout_ids": rollouts, "global_batch_size": batch, "packing": packing}
    expected = answer(lambda: reference.plan(lengths, cost, **options))
    assert answer(lambda: plan(lengths, costs=costs, **options).to_lists()) == expected


@given(problems(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4000))
def test_laws_of_a_plan(problem, dp_size, multiple, cap):
    lengths, rollouts, batch = problem
    try:
        schedule = plan(
            lengths,
            dp_size=dp_size,
            max_tokens=cap,
            rollout_ids=rollouts,
            global_batch_size=batch,
            micro_batch_multiple=multiple,
        )
    except ScheduleError:
        return
    assert sorted([*schedule.samples, *schedule.dropped]) == list(range(len(lengths)))
    assert (schedule.micro_batches_per_step % multiple == 0).all()
    assert (schedule.sample_counts > 0).all()
    alone = schedule.sample_counts == 1
    assert (schedule.token_counts[~alone] <= cap).all()
    assert schedule.rollouts_per_step.tolist() == [batch] * (len(set(rollouts)) // batch)


def test_by_default_a_sample_is_a_rollout_and_costs_its_tokens():
    lengths = [9, 8, 7, 6, 5, 4]
    schedule = plan(lengths, dp_size=2, max_tokens=9)
    same = plan(lengths, dp_size=2, max_tokens=9, costs=lengths, rollout_ids=range(6), global_batch_size=6)
    assert schedule == same
    assert schedule.rollouts_per_step.tolist() == [6]


def test_costs_may_be_a_function_of_lengths():
    class Squares:
        def flops(self, lengths):
            assert lengths.dtype == np.int64
            return lengths * lengths

    lengths = [50, 40, 30, 20, 10, 10]
    for packing in ("first-fit", "flops"):
        by_function = plan(lengths, costs=Squares(), dp_size=2, max_tokens=60, packing=packing)
        assert by_function == plan(lengths, costs=[s * s for s in lengths], dp_size=2, max_tokens=60, packing=packing)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint64", "float32", "float64", ">i8"])
def test_costs_of_every_type_agree(dtype):
    lengths, costs = [5, 4, 3, 3, 2, 1], [100, 120, 90, 90, 3, 127]
    expected = plan(lengths, costs=costs, dp_size=2, max_tokens=8, packing="flops")
    assert plan(lengths, costs=np.array(costs, dtype), dp_size=2, max_tokens=8, packing="flops") == expected


def test_huge_costs_are_exact():
    lengths = [5, 4, 3, 3, 2, 1]
    costs = [2**100 + i for i in (9, 3, 7, 1, 8, 2)]
    lists = plan(lengths, costs=costs, dp_size=2, max_tokens=6, packing="flops").to_lists()
    expected = reference.plan(
        lengths,
        lambda samples: sum(costs[i] for i in samples),
        dp_size=2,
        max_tokens=6,
        packing="flops",
        rollout_ids=range(6),
        global_batch_size=6,
    )
    assert lists == expected


def test_packing_changes_the_micro_batches():
    lengths = [6, 2, 2, 2, 6, 6]

    def batches(**options):
        partitions, indices, *_ = plan(lengths, dp_size=1, **options).to_lists()
        return [[partitions[0][i] for i in batch] for batch in indices[0]]

    assert batches(max_tokens=8) == [[0, 1], [2, 3], [4], [5]]
    assert batches(micro_batch_size=4, packing="fixed") == [[0, 1, 2, 3], [4, 5]]
    assert batches(max_tokens=8, packing="flops") == [[1, 5], [2, 4], [0, 3]]


def test_without_balance_micro_batches_are_dealt_in_turn():
    schedule = plan([4, 1, 3, 2], dp_size=2, micro_batch_size=1, packing="fixed", balance_ranks=False)
    assert schedule.to_lists()[0] == [[0, 2], [1, 3]]


def test_micro_batches_come_in_multiples():
    schedule = plan([9, 1, 9, 1, 9, 1, 1, 1], dp_size=2, max_tokens=10, micro_batch_multiple=2)
    assert schedule.micro_batches_per_step.tolist() == [2]
    assert sorted(schedule.samples) == list(range(8))


# -- steps, rollouts and what is dropped -----------------------------------------------------------------------------


def test_rollouts_that_fill_no_step_are_dropped_and_named():
    schedule = plan([10] * 5, dp_size=2, max_tokens=10, global_batch_size=2)
    assert schedule.dropped.tolist() == [4]
    assert schedule.num_samples == 5
    assert len(schedule.samples) == 4
    assert schedule.rollouts_per_step.tolist() == [2, 2]
    assert build(build_dp_schedule, {**DYNAMIC, "max_tokens_per_gpu": 10}, [10] * 5, batch=2)[3] == [2, 2]


@pytest.mark.parametrize("packing", ["first-fit", "flops", "capped"])
class TestOversizeLeavesItsOwnStep:
    def test_one_of_a_full_step(self, packing):
        schedule = plan(
            [5] * 7 + [50], dp_size=2, max_tokens=10, packing=packing, global_batch_size=8, on_oversize="drop"
        )
        assert (schedule.dropped.tolist(), schedule.rollouts_per_step.tolist()) == ([7], [8])
        assert sorted(schedule.samples) == list(range(7))

    def test_the_other_steps_stay_as_they_are(self, packing):
        options = {"dp_size": 1, "max_tokens": 10, "packing": packing, "global_batch_size": 4, "on_oversize": "drop"}
        schedule = plan([50] + [5] * 7, **options)
        assert (schedule.dropped.tolist(), schedule.rollouts_per_step.tolist()) == ([0], [4, 4])
        assert [sorted(np.concatenate(step)) for step in schedule.rank(0).steps()] == [[1, 2, 3], [4, 5, 6, 7]]
        assert report(schedule, np.ones(8), [50] + [5] * 7, 10).step_time == 7

    def test_ranks_that_cannot_be_filled(self, packing):
        options = {"dp_size": 2, "max_tokens": 10, "packing": packing, "global_batch_size": 3, "on_oversize": "drop"}
        with pytest.raises(ScheduleError, match=r"step 1 must hold .*, got 1; 2 more are above the cap, and dropped"):
            plan([5, 5, 5, 5, 50, 50], **options)
        if packing == "capped":
            schedule = plan([5, 5, 5, 5, 50, 50], on_shortage="repeat", **options)
            assert schedule.samples[schedule.is_padding].tolist() == [3]

    def test_a_step_that_loses_all_is_left_out(self, packing):
        options = {"dp_size": 1, "max_tokens": 10, "packing": packing, "on_oversize": "drop"}
        schedule = plan([50, 50, 5, 50, 5], global_batch_size=2, on_leftover="partial", **options)
        assert (schedule.dropped.tolist(), schedule.rollouts_per_step.tolist()) == ([0, 1, 3], [2, 1])


@pytest.mark.parametrize("packing", ["fixed", "first-fit", "flops", "capped"])
class TestLeftoversThatFillNoRank:
    def plan(self, samples, packing, **options):
        limit = {"micro_batch_size": 1} if packing == "fixed" else {"max_tokens": 10}
        return plan(
            np.full(samples, 9),
            **{"dp_size": 2, "packing": packing, "global_batch_size": 8, "on_leftover": "partial", **limit, **options},
        )

    def test_they_are_dropped_and_named(self, packing):
        schedule = self.plan(9, packing)
        assert (schedule.dropped.tolist(), schedule.rollouts_per_step.tolist()) == ([8], [8])
        assert schedule == self.plan(9, packing, on_leftover="drop")
        # As many as need three micro-batches where four make two for each rank.
        multiple = self.plan(11, packing, micro_batch_multiple=2)
        assert (multiple.dropped.tolist(), multiple.rollouts_per_step.tolist()) == ([8, 9, 10], [8])

    def test_enough_of_them_make_a_step(self, packing):
        schedule = self.plan(10, packing)
        assert (schedule.dropped.tolist(), schedule.rollouts_per_step.tolist()) == ([], [8, 2])

    def test_alone_they_are_refused(self, packing):
        with pytest.raises(ScheduleError, match=r"step 0 must hold at least|multiple of 2"):
            self.plan(1, packing)

    def test_repeats_fill_the_ranks(self, packing):
        if packing == "capped":
            schedule = self.plan(9, packing, on_shortage="repeat")
            assert (schedule.dropped.tolist(), schedule.rollouts_per_step.tolist()) == ([], [8, 1])
            assert schedule.samples[schedule.is_padding].tolist() == [8]

    def test_a_trainer_keeps_its_full_steps(self, packing):
        if packing != "capped":
            static = {**STATIC, "micro_batch_size": 1}
            dynamic = {**DYNAMIC, "balance_by_flops": packing == "flops", "max_tokens_per_gpu": 10}
            args = {**(static if packing == "fixed" else dynamic), "on_leftover": "partial"}
            assert build(build_dp_schedule, args, [9] * 9, batch=8)[3] == [8]


def test_interleaved_rollouts_stay_together():
    lengths, ids = [1, 2, 3, 4], [7, 8, 7, 8]
    schedule = plan(lengths, dp_size=1, micro_batch_size=2, packing="fixed", rollout_ids=ids, global_batch_size=1)
    assert schedule.samples.tolist() == [0, 2, 1, 3]
    assert schedule.step_tokens.tolist() == [4, 6]


def test_rollouts_keep_the_order_in_which_they_are_first_seen():
    schedule = plan(
        [1] * 5, dp_size=1, micro_batch_size=1, packing="fixed", rollout_ids=[9, -2, 5, 9, 1], global_batch_size=2
    )
    assert schedule.samples.tolist() == [0, 3, 1, 2, 4]


def test_one_global_plan_gives_every_rank_as_many_micro_batches():
    """Packed rank by rank, the first would have five micro-batches and the second one: the job would hang."""
    schedule = plan([95] * 5 + [20] * 5, dp_size=2, max_tokens=100)
    assert schedule.micro_batches_per_step.tolist() == [3]
    assert schedule.token_counts.shape == (2, 3)


def test_extreme_rollout_ids():
    ids = np.array([2**63 - 1, -(2**63), 0, 2**63 - 1])
    schedule = plan([1, 2, 3, 4], dp_size=1, max_tokens=5, rollout_ids=ids, global_batch_size=1)
    assert schedule.step_tokens.tolist() == [5, 2, 3]


# -- refusals --------------------------------------------------------------------------------------------------------


def good(**changes):
    return {"lengths": [3, 1, 2, 2], "dp_size": 2, "max_tokens": 4, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": [3, -5, 2, 2]}, r"lengths\[1\].*-5"),
        ({"lengths": [3, 0.5, 2, 2]}, r"lengths.*0\.5"),
        ({"lengths": [3, float("nan"), 2, 2]}, r"lengths.*nan"),
        ({"lengths": [3, float("inf"), 2, 2]}, r"lengths.*inf"),
        ({"lengths": [[3, 1], [2, 2]]}, r"lengths"),
        ({"lengths": ["3", "1"]}, r"lengths"),
        ({"lengths": [True, True]}, r"lengths"),
        ({"lengths": [None, 1]}, r"lengths"),
        ({"lengths": None}, r"lengths"),
        ({"lengths": [2**62, 2**62]}, r"lengths"),
        ({"dp_size": 0}, r"dp_size.*0"),
        ({"dp_size": -2}, r"dp_size.*-2"),
        ({"dp_size": 1.5}, r"dp_size.*1\.5"),
        ({"dp_size": None}, r"dp_size.*None"),
        ({"dp_size": True}, r"dp_size.*True"),
        ({"dp_size": "2"}, r"dp_size.*2"),
        ({"max_tokens": 0}, r"max_tokens.*0"),
        ({"max_tokens": -1}, r"max_tokens.*-1"),
        ({"max_tokens": 2.5}, r"max_tokens.*2\.5"),
        ({"max_tokens": None}, r"max_tokens.*None"),
        ({"packing": "fixed"}, r"micro_batch_size.*None"),
        ({"packing": "fixed", "micro_batch_size": 0}, r"micro_batch_size.*0"),
        ({"packing": "best"}, r"packing.*best"),
        ({"packing": None}, r"packing.*None"),
        ({"micro_batch_multiple": 0}, r"micro_batch_multiple.*0"),
        ({"global_batch_size": 0}, r"global_batch_size.*0"),
        ({"global_batch_size": -1}, r"global_batch_size.*-1"),
        ({"global_batch_size": 2.0}, r"global_batch_size.*2\.0"),
        ({"rollout_ids": [0, 1]}, r"rollout_ids"),
        ({"rollout_ids": [0, 1, 2, 3, 4]}, r"rollout_ids"),
        ({"rollout_ids": [0, 1, 2, 0.5]}, r"rollout_ids.*0\.5"),
        ({"rollout_ids": ["a", "b", ["c"], "d"]}, r"rollout_ids\[2\] must be .* with a hash, got \['c'\]"),
        ({"rollout_ids": [[0, 1], [2, 3]]}, r"rollout_ids"),
        ({"costs": [1, 2, 3]}, r"costs"),
        ({"costs": [1, 2, 3, 4, 5]}, r"costs"),
        ({"costs": [1, 2, 3, -4]}, r"costs\[3\].*-4"),
        ({"costs": [1, 2, 3, float("nan")]}, r"costs\[3\].*(?i:nan)"),
        ({"costs": [1, float("inf"), 3, 4]}, r"costs\[1\].*inf"),
        ({"costs": ["1", "2", "3", "4"]}, r"costs"),
        ({"costs": [2**128, 1, 1, 1]}, r"costs"),
        ({"costs": np.ones((4, 1))}, r"costs"),
        ({"costs": "flops"}, r"costs"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused_by_name(changes, message):
    assert isinstance(plan(**good()), Schedule)
    with pytest.raises(ValueError, match=message):
        plan(**good(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"global_batch_size": 5}, r"the number of rollouts must be >= global_batch_size, 5, to fill one step, got 4"),
        (
            {"rollout_ids": [1, 1, 1, 1], "global_batch_size": 2},
            r"the number of rollouts must be >= global_batch_size, 2, to fill one step, got 1",
        ),
        ({"lengths": []}, r"lengths must hold at least one sample, got none"),
        ({"dp_size": 5}, r"5"),
        ({"global_batch_size": 1}, r"at least one sample.*dp_size = 2"),
        ({"packing": "fixed", "micro_batch_size": 3, "dp_size": 4}, r"micro"),
        ({"micro_batch_multiple": 3}, r"6"),
    ],
    ids=str,
)
def test_impossible_schedules_are_refused(changes, message):
    with pytest.raises(ScheduleError, match=message):
        plan(**good(**changes))


def test_trainers_may_catch_an_assertion_error():
    with pytest.raises(AssertionError, match="number of rollouts"):
        build(build_dp_schedule, {**DYNAMIC, "max_tokens_per_gpu": 10}, [1, 2, 3], batch=4)


def test_samples_without_tokens_are_not_split_into_empty_micro_batches():
    with pytest.raises(ScheduleError, match="lengths of step 0 must be > 0"):
        plan([0] * 4, dp_size=2, max_tokens=10)


def test_a_static_count_is_never_aligned():
    with pytest.raises(ScheduleError, match="3"):
        plan([1, 1, 1], dp_size=2, micro_batch_size=1, packing="fixed")


@pytest.mark.parametrize("ids", [[0, 1], [0, 1, 2, 3]])
def test_as_many_ids_as_lengths(ids):
    with pytest.raises(ValueError, match=r"rollout_indices.*3.*"):
        build(build_dp_schedule, {**DYNAMIC, "max_tokens_per_gpu": 10}, [1, 2, 3], ids, 2)


@pytest.mark.parametrize("name", [*TINY, "max_tokens_per_gpu"])
def test_a_missing_argument_is_named(name):
    args = {**TINY, **DYNAMIC, "max_tokens_per_gpu": 10}
    del args[name]
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        build_dp_schedule(SimpleNamespace(**args), PARALLEL, [1, 2], global_batch_size=2, rollout_indices=[0, 1])


def test_a_missing_micro_batch_size_is_named():
    with pytest.raises(ValueError, match=r"\bmicro_batch_size\b"):
        build(build_dp_schedule, STATIC, [1, 2])


@pytest.mark.parametrize("name", ["dp_size", "cp_size"])
def test_a_missing_parallel_size_is_named(name):
    parallel = {key: value for key, value in PARALLEL.items() if key != name}
    args = SimpleNamespace(**TINY, **DYNAMIC, max_tokens_per_gpu=10)
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        build_dp_schedule(args, parallel, [1, 2], global_batch_size=2, rollout_indices=[0, 1])


@pytest.mark.parametrize("name", ["max_tokens_per_gpu", "hidden_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "8", None, True])
def test_a_bad_argument_is_named_with_its_value(name, value):
    args = {**DYNAMIC, "max_tokens_per_gpu": 10, name: value}
    with pytest.raises(ValueError, match=rf"\b{name}\b.*{value}"):
        build(build_dp_schedule, args, [1, 2])


@pytest.mark.parametrize("name", PARALLEL)
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True])
def test_a_bad_parallel_size_is_named_with_its_value(name, value):
    with pytest.raises(ValueError, match=rf"\b{name}\b.*{value}"):
        build(build_dp_schedule, {**DYNAMIC, "max_tokens_per_gpu": 10}, [1, 2], **{"vpp_size": 2, name: value})


@pytest.mark.parametrize("batch", [0, -1, 1.5, "2", None])
def test_a_bad_batch_size_is_named_with_its_value(batch):
    args = SimpleNamespace(**TINY, **DYNAMIC, max_tokens_per_gpu=10)
    with pytest.raises(ValueError, match=rf"global_batch_size.*{batch}"):
        build_dp_schedule(args, PARALLEL, [1, 2], global_batch_size=batch, rollout_indices=[0, 1])


class TestWhatOnceSlippedThrough:
    """Inputs that were taken for something else, or refused in words that named another cause."""

    def test_flags_are_booleans(self):
        for name in ("balance_ranks", "padded"):
            with pytest.raises(ValueError, match=f"{name} must be True or False, got 'False'"):
                plan([1, 2], dp_size=1, max_tokens=9, packing="capped", **{name: "False"})
        with pytest.raises(ValueError, match="packing must be one of"):
            plan([1, 2], dp_size=1, max_tokens=9, packing=np.array(["flops", "capped"]))

    def test_sizes_of_the_other_packing_are_checked(self):
        with pytest.raises(ValueError, match="micro_batch_size must be a whole number, got 'x'"):
            plan([1, 2], dp_size=1, max_tokens=9, micro_batch_size="x")

    @pytest.mark.parametrize("overhead", [True, "2", 10**400, -1, float("nan")])
    def test_overhead_is_a_number(self, overhead):
        with pytest.raises(ValueError, match="micro_batch_overhead must be"):
            plan([1, 2], dp_size=1, max_tokens=9, packing="capped", micro_batch_overhead=overhead)

    def test_dropping_everything_says_so(self):
        with pytest.raises(ScheduleError, match="on_oversize must leave a sample, got drop where all 2"):
            plan([99, 98], dp_size=1, max_tokens=9, on_oversize="drop")

    def test_oversize_names_the_cap_that_is_exceeded(self):
        with pytest.raises(ValueError, match=r"extra_budget\[0\]\[0\] must be within the cap, 5 .* got 100"):
            plan(
                [1, 2],
                dp_size=1,
                max_tokens=9,
                packing="capped",
                extra_budget=([100, 1], 5),
                on_oversize="error",
            )

    def test_costs_that_objects_hold(self):
        expected = plan([1, 2, 3], costs=[0.5, 2.0, 1.5], dp_size=1, max_tokens=3)
        assert plan([1, 2, 3], costs=np.array([0.5, 2, 1.5], object), dp_size=1, max_tokens=3) == expected
        with pytest.raises(ValueError, match=r"costs\[0\] must be a number that a float holds"):
            plan([1, 2], costs=[2**64 + 1, 0.5], dp_size=1, max_tokens=3)

    def test_rollout_ids_may_be_negative_in_every_type(self):
        ids = [-1, -2, -1]
        expected = plan([1, 2, 3], dp_size=1, max_tokens=9, rollout_ids=ids)
        assert plan([1, 2, 3], dp_size=1, max_tokens=9, rollout_ids=np.array(ids, object)) == expected

    def test_the_sum_of_lengths_is_refused_by_name(self):
        with pytest.raises(ValueError, match="the sum of total_lengths must be below 2\\^63, got 27670116110564327421"):
            first_fit_pack([2**63 - 1] * 3, 2**63 - 1)

    @pytest.mark.parametrize("cost", [float("nan"), -50.0, float("inf")])
    def test_report_refuses_costs_that_are_none(self, cost):
        schedule = plan([7, 2, 5], dp_size=1, max_tokens=8)
        with pytest.raises(ValueError, match=r"costs\[2\] must be "):
            report(schedule, [1.0, 2.0, cost], [7, 2, 5], 8)

    def test_bounded_names_the_item_at_fault(self):
        with pytest.raises(ValueError, match=r"seqlen_list\[2\] must be finite"):
            get_seqlen_balanced_partitions([1.0, 2.0, float("nan")], 2, "bounded")
        with pytest.raises(ValueError, match="equal_size must be True or False, got 'bounded'"):
            karmarkar_karp([8, 7, 6, 5, 4], 2, "bounded")

    def test_a_finite_sum_is_enough(self):
        assert get_seqlen_balanced_partitions([1e308, 0.7e308], 2, False) == [[0], [1]]

    def test_bins_are_lists(self):
        for bins in (None, [0, 1], ((0,), (1,))):
            with pytest.raises(ValueError, match="bins must be a list of lists"):
                expand_bins_by_splitting(bins, 2, [1, 2])


class TestCoreBoundary:
    """What the core reads by name."""

    REQUEST: ClassVar = {
        "dp_size": 1,
        "micro_batch_multiple": 1,
        "packing": "capped",
        "micro_batch_size": None,
        "max_tokens": 8,
        "pad_to": (1, 1),
        "balance_ranks": True,
        "rollout_ids": None,
        "global_batch_size": None,
        "objective": "step",
        "counts": (None, 1, False),
        "pipeline": None,
        "micro_batch_overhead": None,
        "effort": 128,
        "padded": False,
        "extra_budget": None,
        "max_samples": None,
        "on_leftover": "drop",
        "on_oversize": "alone",
        "on_shortage": "error",
        "names": {},
    }

    def plan(self, **changes):
        return _core.plan(np.array([3, 4]), np.array([3, 4], dtype=np.uint64), self.REQUEST | changes)

    def test_answers_come_by_name(self):
        assert self.plan()["samples"].tolist() == [0, 1]

    @pytest.mark.parametrize("word", ["packing", "objective", "on_leftover", "on_oversize", "on_shortage"])
    def test_an_unknown_word_is_refused(self, word):
        with pytest.raises(TypeError, match=rf"PlanRequest\.{word}") as refused:
            self.plan(**{word: "fixd"})
        assert 'got "fixd"' in str(refused.value.__cause__)

    def test_an_unknown_word_for_the_sizes_of_parts_is_refused(self):
        with pytest.raises(ValueError, match='PartSizes must be one of free, equal, bounded, refined, got "even"'):
            _core.partition([1, 2], 1, "even", True, True)

    @pytest.mark.parametrize("name", ["max_tokens", "dp_size", "effort"])
    def test_an_argument_that_is_missing_is_named(self, name):
        request = {key: value for key, value in self.REQUEST.items() if key != name}
        with pytest.raises((ValueError, TypeError, KeyError), match=name):
            _core.plan(np.array([3, 4]), np.array([3, 4], dtype=np.uint64), request)

    def test_a_packing_without_its_limit_is_refused(self):
        with pytest.raises(ValueError, match="max_tokens must be given for this packing, got None"):
            self.plan(max_tokens=None)
        with pytest.raises(ValueError, match="micro_batch_size must be given for this packing, got None"):
            self.plan(packing="fixed")

    def test_arrays_that_are_no_schedule_are_not_measured(self):
        schedule = plan([3, 4], dp_size=2, max_tokens=8)
        costs = np.array([3.0, 4.0])
        assert _core.measure(schedule, costs, (1, 1, None), 0.0)["step_times"].tolist() == [4.0]
        broken = {
            "offsets ascend from 0": {"micro_batch_offsets": np.array([0, 2, 1])},
            "offsets end with the samples": {"micro_batch_offsets": np.array([0, 1, 9])},
            "every step has micro-batches": {"micro_batches_per_step": np.array([0])},
            "every rank has as many micro-batches": {"micro_batches_per_step": np.array([2**62, 2**62])},
        }
        for law, change in broken.items():
            with pytest.raises(ValueError, match=law):
                _core.measure(SimpleNamespace(**{**vars(schedule), **change}), costs, (1, 1, None), 0.0)
        with pytest.raises(ValueError, match="groups must hold indices of samples, >= 0 and < 1, got 1"):
            _core.measure(schedule, costs[:1], (1, 1, None), 0.0)


class TestNothingIsTakenForGranted:
    """Counts and arrays of any size are refused or answered, before memory is taken."""

    @pytest.mark.parametrize("on_shortage", ["error", "repeat"])
    @pytest.mark.parametrize("dp_size", [10, 2**33, 10**12, 2**62])
    def test_more_ranks_than_samples(self, dp_size, on_shortage):
        def plan_for_all():
            return plan([1, 2, 3], dp_size=dp_size, max_tokens=10, packing="capped", on_shortage=on_shortage)

        if on_shortage == "repeat" and dp_size == 10:
            assert plan_for_all().is_padding.sum() == 7
        else:
            with pytest.raises(ScheduleError, match=f"dp_size = {dp_size} ranks"):
                plan_for_all()

    def test_more_empty_bins_than_memory_holds(self):
        with pytest.raises(ValueError, match=r"^target_count must be at most 16777216 where bins hold no tokens"):
            expand_bins_by_splitting([[0, 1]], 2**40, [0, 0])
        bins = [[0, 1]]
        expand_bins_by_splitting(bins, 2**40, [3, 1])
        assert bins == [[0], [1]]

    @pytest.mark.parametrize(
        "change",
        [
            {"micro_batch_offsets": np.array([0, 1, 3, 2, 5])},
            {"micro_batch_offsets": np.array([0, 1, 2, 3, 9])},
            {"micro_batch_offsets": np.array([-1, 1, 2, 3, 5])},
            {"micro_batch_offsets": np.array([0])},
            {"micro_batch_offsets": np.array([], dtype=np.int64)},
            {"dp_size": 3},
        ],
    )
    def test_lists_of_no_schedule(self, change):
        schedule = plan([7, 2, 5, 4, 3], dp_size=2, max_tokens=8)
        with pytest.raises(ValueError, match="the arrays must be those of a schedule"):
            _core.rank_lists(SimpleNamespace(**{**vars(schedule), **change}))

    def test_repeats_of_the_largest_numbers_are_balanced_as_small_ones_are(self):
        base = [759, 8, 1, 3, 3]
        large = [cost * ((2**128 - 1) // sum(base)) for cost in base]

        def slowest(costs):
            schedule = plan(
                base,
                costs=costs,
                dp_size=2,
                max_tokens=1000,
                micro_batch_multiple=64,
                packing="capped",
                on_shortage="repeat",
            )
            return report(schedule, base, base, 1000).step_time

        assert slowest(large) <= slowest(base)


class TestNamesOfTrainers:
    """`build_dp_schedule` speaks of a trainer's arguments, where `plan` has names of its own."""

    ARGS: ClassVar = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 10}

    def refusal(self, lengths=(5, 4, 3, 2), batch=4, parallel=None, **args):
        parallel = {"dp_size": 2, "cp_size": 1, **(parallel or {})}
        with pytest.raises(ValueError, match=r".") as refused:
            build_dp_schedule(
                {**self.ARGS, **args}, parallel, lengths, global_batch_size=batch, rollout_indices=range(len(lengths))
            )
        return str(refused.value)

    def test_of_a_count_that_cannot_be_aligned(self):
        parallel = {"vpp_size": 2, "microbatch_group_size_per_vp_stage": 4}
        text = self.refusal(parallel=parallel)
        assert "(dp_size = 2 ranks x microbatch_group_size_per_vp_stage = 4)" in text

    def test_of_a_sample_above_the_cap(self):
        assert self.refusal((50, 4, 3, 2), on_oversize="error").startswith(
            "total_lengths[0] must be within the cap, 10 after padding, as args.on_oversize asks, got 50"
        )

    def test_of_a_choice(self):
        assert "args.on_leftover must be one of drop, partial, error, got 'zzz'" in self.refusal(on_leftover="zzz")

    def test_of_stages(self):
        text = self.refusal(
            **{**TINY, "balance_within_cap": True, "balance_objective": "pipeline"},
            pipeline_model_parallel_size=2**20,
        )
        assert text.startswith("args.pipeline_model_parallel_size must be <= 65536, got 1048576")

    def test_values_stand_as_they_were_given(self):
        ids = [0, 1, 2, ["lengths"]]
        with pytest.raises(ValueError, match=re.escape("rollout_indices[3] must be")) as refused:
            build_dp_schedule(self.ARGS, PARALLEL, [5, 4, 3, 2], global_batch_size=4, rollout_indices=ids)
        assert str(refused.value).endswith("got ['lengths']")
        assert self.refusal(on_leftover="max_tokens").split(", got ")[1].startswith("'max_tokens'")

    @pytest.mark.parametrize(
        "error",
        [
            json.JSONDecodeError("no cost in lengths", "{}", 0),
            UnicodeDecodeError("utf-8", b"lengths", 0, 1, "objective"),
            ValueError("rollout_ids of lengths"),
        ],
        ids=lambda error: type(error).__name__,
    )
    def test_what_a_cost_raises_is_its_own(self, error):
        class Cost:
            def flops(self, lengths):
                raise error

        args = {**self.ARGS, "balance_data": True, "flops_model": Cost()}
        with pytest.raises(type(error)) as raised:
            build_dp_schedule(args, PARALLEL, [5, 4, 3, 2], global_batch_size=4, rollout_indices=range(4))
        assert raised.value is error

    def test_of_nothing_to_plan(self):
        assert self.refusal(()) == "total_lengths must hold at least one sample, got none"


@pytest.mark.parametrize(
    "parallel",
    [{}, {"vpp_size": None}, {"vpp_size": 1.0, "microbatch_group_size_per_vp_stage": None}, {"dp_size": 2.0}],
    ids=["absent", "None", "float", "float-ranks"],
)
def test_settings_of_no_interest_may_be_absent_and_numbers_spelled_as_in_yaml(parallel):
    args = {"use_dynamic_batch_size": 1, "max_tokens_per_gpu": 12.0}
    given = [9, 1, 7, 4, 2, 8], {"global_batch_size": 6, "rollout_indices": ["a", "b", "a", None, None, "c"]}
    planned = build_dp_schedule(
        args, {"dp_size": 2, "cp_size": 1, **parallel}, given[0], **{**given[1], "global_batch_size": 5}
    )
    full = {"dp_size": 2, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    args = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 12}
    assert planned == build_dp_schedule(args, full, given[0], global_batch_size=5, rollout_indices=[0, 1, 0, 2, 3, 4])


def test_nothing_to_plan_says_so():
    with pytest.raises(ScheduleError, match=r"^lengths must hold at least one sample, got none$"):
        plan([], dp_size=1, max_tokens=4)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("balance_ranks", np.array([True, False])), ("padded", np.array([1, 0])), ("packing", np.array(["flops", "x"]))],
    ids=["balance_ranks", "padded", "packing"],
)
def test_an_array_is_no_choice(argument, value):
    with pytest.raises(ValueError, match=f"^{argument} must be .*, got array"):
        plan([3], dp_size=1, max_tokens=4, **{"packing": "capped", argument: value})


@pytest.mark.parametrize(
    "costs",
    [
        pytest.param(type("Table", (), {"flops": [1, 2], "__len__": lambda _: 2})(), id="a-column-called-flops"),
        pytest.param(np.rec.array([(1, 2), (3, 4)], names=["flops", "b"]), id="a-record-array"),
    ],
)
def test_a_table_is_no_cost(costs):
    with pytest.raises(ValueError, match=r"^costs must "):
        plan([3, 4], costs=costs, dp_size=1, max_tokens=4)
