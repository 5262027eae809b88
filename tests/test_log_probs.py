"""Micro-batches of log-probability passes: samples stay on their ranks, under a cap of their own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flopbalance import ScheduleError, build_dp_schedule, build_log_probs_schedule, first_fit_pack
from test_plan import PARALLEL, TINY

ARGS = {**TINY, "use_dynamic_batch_size": True, "max_tokens_per_gpu": 100, "balance_data": True}


def test_a_larger_cap_makes_fewer_micro_batches():
    lengths = np.random.default_rng(0).integers(1, 100, 64)
    partitions, micro_batches, _, _ = build_dp_schedule(
        ARGS, PARALLEL, lengths, global_batch_size=32, rollout_indices=range(64)
    )
    counts = [len(micro_batches[0])]
    for cap in (100, 200, 400):
        args = {**ARGS, "log_probs_max_tokens_per_gpu": cap}
        indices, (count,) = build_log_probs_schedule(args, PARALLEL, lengths, partitions)
        assert {len(of_rank) for of_rank in indices} == {count}
        counts.append(count)
    assert sorted(counts[1:], reverse=True) == counts[1:]
    assert counts[3] < counts[0] / 3


@given(
    st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=20), min_size=1, max_size=4),
    st.integers(1, 90),
    st.integers(1, 2),
    st.integers(1, 3),
)
def test_laws(of_ranks, cap, cp_size, group):
    lengths = [length for of_rank in of_ranks for length in of_rank]
    ends = np.cumsum([len(of_rank) for of_rank in of_ranks])
    partitions = [list(range(end - len(of_rank), end)) for end, of_rank in zip(ends, of_ranks, strict=True)]
    parallel = {"cp_size": cp_size, "vpp_size": group, "microbatch_group_size_per_vp_stage": group}
    args = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 1, "log_probs_max_tokens_per_gpu": cap}
    try:
        indices, (count,) = build_log_probs_schedule(args, parallel, lengths, partitions)
    except ScheduleError:
        assume(False)
    needed = max(len(first_fit_pack(of_rank, cap * cp_size)) for of_rank in of_ranks)
    assert count % group == 0
    assert needed <= count < needed + group
    for of_rank, micro_batches in zip(of_ranks, indices, strict=True):
        assert len(micro_batches) == count
        assert sorted(position for batch in micro_batches for position in batch) == list(range(len(of_rank)))
        for batch in micro_batches:
            assert batch
            assert len(batch) == 1 or sum(of_rank[position] for position in batch) <= cap * cp_size


def test_the_cap_is_that_of_training_where_there_is_none():
    lengths = [60, 60, 40, 40]
    own = build_log_probs_schedule({**ARGS, "max_tokens_per_gpu": 120}, PARALLEL, lengths, [[0, 1], [2, 3]])
    assert own == ([[[0, 1]], [[0, 1]]], [1])
    other = {**ARGS, "max_tokens_per_gpu": 120, "log_probs_max_tokens_per_gpu": 60}
    assert build_log_probs_schedule(other, PARALLEL, lengths, [[0, 1], [2, 3]]) == ([[[0], [1]], [[0], [1]]], [2])


@pytest.mark.parametrize(
    ("args", "partitions", "message"),
    [
        ({"use_dynamic_batch_size": False}, [[0], [1]], r"args\.use_dynamic_batch_size must be True .*, got False"),
        ({"log_probs_max_tokens_per_gpu": 0}, [[0], [1]], r"args\.log_probs_max_tokens_per_gpu must be >= 1, got 0"),
        ({"max_tokens_per_gpu": None}, [[0], [1]], r"args\.max_tokens_per_gpu must be a whole number, got None"),
        ({}, [[0], [9]], r"partitions\[1\] must hold samples, numbers from 0 to 3, got 9"),
        ({}, [[0, 1, 2], [3]], r"partitions\[1\] must hold at least 2 samples, one for each micro-batch .*, got 1"),
        ({}, [[0, 1], []], r"partitions\[1\] must hold at least 2 samples, one for each micro-batch .*, got 0"),
        ({}, [[], []], "partitions must hold a sample, got none"),
        ({}, [], "partitions must hold a list for each of the train_parallel_config.dp_size = 2 ranks, got 0"),
        ({}, [[0], [1], [2]], r"partitions must hold a list for each .*dp_size = 2 ranks, got 3"),
        ({}, None, "partitions must be a list of samples for each rank, got None"),
        ({}, 5, "partitions must be a list of samples for each rank, got 5"),
        ({}, [[0, 1], [1]], "partitions must hold every sample once at most, got 1 2 times"),
        ({}, [[0, 0], [1]], "partitions must hold every sample once at most, got 0 2 times"),
        ({}, [[0, 1], [2, 3]], r"total_lengths of partitions\[1\] must be > 0 where a micro-batch is split"),
    ],
)
def test_what_cannot_be_packed_is_refused(args, partitions, message):
    with pytest.raises(ValueError, match=message):
        build_log_probs_schedule({**ARGS, **args}, PARALLEL, [60, 60, 0, 0], partitions)


@pytest.mark.parametrize("field", ["log_probs_max_tokens_per_gpu", "max_tokens_per_gpu"])
def test_a_cap_beyond_all_tokens_is_refused_by_name(field):
    args, parallel = {"use_dynamic_batch_size": True, field: 2**62}, {"dp_size": 1, "cp_size": 8}
    with pytest.raises(ValueError, match=rf"^args\.{field} x cp_size must be below 2\^63, got {2**65}$"):
        build_log_probs_schedule(args, parallel, [1], [[0]])
    if field == "max_tokens_per_gpu":
        with pytest.raises(ValueError, match=rf"^args\.{field} x cp_size must be below 2\^63, got {2**65}$"):
            build_dp_schedule(args, parallel, [1], global_batch_size=1, rollout_indices=[0])
