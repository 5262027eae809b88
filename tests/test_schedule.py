"""Schedule and RankSchedule: what every array and method promises, files, pickles, equality."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest

from flopbalance import RankSchedule, Schedule, build_dp_schedule, plan, report

LENGTHS = np.array([7, 2, 5, 4, 3, 8, 1, 6, 4, 9, 2])
ROLLOUTS = [7, 8, 7, 8, 1, 1, 2, 3, 3, 4, 5]  # interleaved: 7 and 8 have two samples each
ARRAYS = [
    "samples",
    "micro_batch_offsets",
    "micro_batch_tokens",
    "micro_batches_per_step",
    "rollouts_per_step",
    "dropped",
]
RANK_ARRAYS = ["samples", "micro_batch_offsets", "micro_batch_tokens", "micro_batches_per_step"]


@pytest.fixture
def schedule():
    """Plan three steps of two rollouts on two ranks; the seventh rollout fills no step."""
    return plan(LENGTHS, dp_size=2, max_tokens=10, rollout_ids=ROLLOUTS, global_batch_size=2)


def micro_batches(schedule):
    offsets = schedule.micro_batch_offsets
    return [schedule.samples[a:b].tolist() for a, b in itertools.pairwise(offsets)]


# -- the arrays ------------------------------------------------------------------------------------------------------


def test_every_sample_is_placed_once_or_dropped(schedule):
    assert schedule.dp_size == 2
    assert schedule.num_samples == 11
    assert schedule.dropped.tolist() == [10]
    assert sorted([*schedule.samples, *schedule.dropped]) == list(range(11))


def test_micro_batches_are_counted_per_rank(schedule):
    per_rank = schedule.micro_batches_per_step.sum()
    assert schedule.micro_batch_offsets.shape == (2 * per_rank + 1,)
    assert schedule.micro_batch_tokens.shape == (2 * per_rank,)
    assert schedule.micro_batch_offsets[0] == 0
    assert schedule.micro_batch_offsets[-1] == len(schedule.samples)
    assert schedule.rollouts_per_step.tolist() == [2, 2, 2]
    assert [LENGTHS[m].sum() for m in micro_batches(schedule)] == schedule.micro_batch_tokens.tolist()


def test_a_rollout_stays_in_one_step(schedule):
    steps = [set() for _ in schedule.micro_batches_per_step]
    for rank in range(2):
        for step, batches in enumerate(schedule.rank(rank).steps()):
            steps[step].update(ROLLOUTS[i] for batch in batches for i in batch)
    assert steps == [{7, 8}, {1, 2}, {3, 4}]


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_int64_and_read_only(schedule, name):
    array = getattr(schedule, name)
    assert array.dtype == np.int64
    assert array.ndim == 1
    with pytest.raises(ValueError, match="read-only"):
        array[:] = 0


@pytest.mark.parametrize("name", ["dp_size", "samples", "something_new"])
def test_schedules_are_frozen(schedule, name):
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(schedule, name, 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(schedule.rank(0), name, 1)


# -- counts ----------------------------------------------------------------------------------------------------------


def test_counts_per_micro_batch(schedule):
    batches = micro_batches(schedule)
    per_rank = schedule.micro_batches_per_step.sum()
    assert schedule.sample_counts.shape == schedule.token_counts.shape == (2, per_rank)
    assert schedule.sample_counts.ravel().tolist() == [len(m) for m in batches]
    assert schedule.token_counts.ravel().tolist() == [LENGTHS[m].sum() for m in batches]


def test_counts_per_step(schedule):
    members = [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert schedule.step_samples.tolist() == [len(m) for m in members]
    assert schedule.step_tokens.tolist() == [LENGTHS[m].sum() for m in members]


def test_steps_with_different_numbers_of_micro_batches():
    schedule = plan([9, 9, 9, 9, 1, 1, 1, 1], dp_size=2, max_tokens=9, global_batch_size=4)
    assert schedule.micro_batches_per_step.tolist() == [2, 1]
    assert schedule.step_tokens.tolist() == [36, 4]
    assert schedule.step_samples.tolist() == [4, 4]
    assert schedule.token_counts.tolist() == [[9, 9, 2], [9, 9, 2]]


# -- views of ranks --------------------------------------------------------------------------------------------------


def test_ranks_hold_what_the_lists_hold(schedule):
    partitions, indices, num_microbatches, _ = schedule.to_lists()
    for rank in range(2):
        view = schedule.rank(rank)
        assert view.rank == rank
        assert view.samples.tolist() == partitions[rank]
        assert view.micro_batches_per_step.tolist() == num_microbatches
        assert view.rollouts_per_step.tolist() == schedule.rollouts_per_step.tolist()
        assert view.sample_counts.tolist() == [len(batch) for step in view.steps() for batch in step]
        assert micro_batches(view) == [[partitions[rank][i] for i in batch] for batch in indices[rank]]
        assert view.micro_batch_tokens.tolist() == schedule.token_counts[rank].tolist()
        assert [len(step) for step in view.steps()] == num_microbatches
        assert [batch.tolist() for step in view.steps() for batch in step] == micro_batches(view)


@pytest.mark.parametrize("name", RANK_ARRAYS)
def test_arrays_of_a_rank_are_int64_and_read_only(schedule, name):
    array = getattr(schedule.rank(1), name)
    assert array.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        array[:] = 0


def test_a_rank_is_pickled_alone():
    schedule = plan(np.arange(1, 20_001), dp_size=50, max_tokens=40_000)
    view = schedule.rank(7)
    data = pickle.dumps(view)
    assert pickle.loads(data) == view
    assert len(data) < len(pickle.dumps(schedule)) / 20


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_come_back_equal_and_read_only(schedule, protocol):
    for value, names in ((schedule, ARRAYS), (schedule.rank(0), RANK_ARRAYS)):
        back = pickle.loads(pickle.dumps(value, protocol))
        assert type(back) is type(value)
        assert back == value
        for name in names:
            assert not getattr(back, name).flags.writeable


@pytest.mark.parametrize("rank", [-1, 2, 2**70, 1.5, "0", None, True])
def test_a_rank_that_is_none_is_refused(schedule, rank):
    with pytest.raises(ValueError, match=f"rank.*{rank}"):
        schedule.rank(rank)


# -- lists and the inverse -------------------------------------------------------------------------------------------


def test_lists_are_the_published_nested_lists(schedule):
    partitions, indices, num_microbatches, global_batch_sizes = schedule.to_lists()
    flat = [i for part in partitions for i in part]
    assert flat == schedule.samples.tolist()
    for part, batches in zip(partitions, indices, strict=True):
        assert [i for batch in batches for i in batch] == list(range(len(part)))
    assert num_microbatches == schedule.micro_batches_per_step.tolist()
    assert global_batch_sizes == [2, 2, 2]
    numbers = [*flat, *num_microbatches, *global_batch_sizes, *(i for r in indices for b in r for i in b)]
    assert {type(number) for number in numbers} == {int}


@pytest.mark.parametrize("packing", ["first-fit", "flops", "capped"])
def test_lists_come_back_as_the_schedule(packing):
    planned = plan(LENGTHS, dp_size=2, max_tokens=10, rollout_ids=ROLLOUTS, global_batch_size=2, packing=packing)
    lists = planned.to_lists()
    again = Schedule.from_lists(*lists, lengths=LENGTHS)
    assert again == planned
    assert again.to_lists() == lists
    assert Schedule.from_lists(*map(tuple, lists), lengths=LENGTHS.tolist()) == planned
    arrays = ([np.array(partition) for partition in lists[0]], lists[1], np.array(lists[2]), np.array(lists[3]))
    assert Schedule.from_lists(*arrays, lengths=LENGTHS) == planned


def test_lists_of_a_trainer_are_reported_and_saved(schedule, tmp_path):
    args = {"use_dynamic_batch_size": True, "max_tokens_per_gpu": 10}
    parallel = {"dp_size": 2, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    lists = build_dp_schedule(args, parallel, LENGTHS, global_batch_size=2, rollout_indices=ROLLOUTS)
    again = Schedule.from_lists(*lists, lengths=LENGTHS)
    assert report(again, LENGTHS, LENGTHS, 10).micro_batches == len(again.micro_batch_tokens)
    again.save(tmp_path / "schedule.npz")
    assert Schedule.load(tmp_path / "schedule.npz") == again


def test_without_batch_sizes_every_sample_is_a_rollout(schedule):
    again = Schedule.from_lists(*schedule.to_lists()[:3], lengths=LENGTHS)
    assert again.rollouts_per_step.tolist() == again.step_samples.tolist() == schedule.step_samples.tolist()


def test_positions_may_stand_in_any_order():
    schedule = Schedule.from_lists([[4, 0], [1, 3]], [[[1], [0]], [[1], [0]]], [2], [4], lengths=[9] * 5)
    assert (schedule.samples.tolist(), schedule.dropped.tolist()) == ([0, 4, 3, 1], [2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partitions": [[0, 1]]}, "micro_batch_indices must hold a list for each rank of partitions, got 2 for 1"),
        ({"partitions": [], "micro_batch_indices": []}, "micro_batch_indices must hold a list for each rank .*, got 0"),
        ({"partitions": 5}, "partitions must be a list of samples for each rank, got 5"),
        ({"partitions": [[0, 1], [2, 5]]}, r"partitions\[1\] must hold samples, numbers from 0 to 4, got 5"),
        ({"partitions": [[0, 1], [-1, 2]]}, r"partitions\[1\] must hold samples, numbers from 0 to 4, got -1"),
        ({"partitions": [[0, 1], [2, 1]]}, "partitions must hold every sample once at most, got 1 2 times"),
        ({"partitions": [[0, 1], [2, 0.5]]}, r"partitions\[1\]\[1\] must be a whole number, got 0.5"),
        ({"partitions": [[0, 1], 3]}, r"partitions\[1\] must be one flat sequence of numbers, got int"),
        ({"micro_batch_indices": [[[0], [1]], [[0], [0]]]}, r"micro_batch_indices\[1\] must hold .*, got 0 2 times"),
        ({"micro_batch_indices": [[[0], [1]], [[0], [2]]]}, r"micro_batch_indices\[1\] must hold .* once, got 2$"),
        ({"partitions": [[0, 1], [2, 3, 4]]}, r"every position in partitions\[1\], from 0 to 2, once, got no 2"),
        ({"micro_batch_indices": [[[0], [1]], [[0, 1]]]}, r"micro_batch_indices\[1\] must hold 2 micro-batches, .* 1$"),
        ({"micro_batch_indices": [[[0], [1]], [[0, 1], []]]}, r"micro_batch_indices\[1\]\[1\] must hold a position"),
        ({"micro_batch_indices": [[[0], [1]], [0, 1]]}, r"indices\[1\]\[0\] must be a list of positions, got 0"),
        ({"micro_batch_indices": [[[0], [1]], 7]}, r"micro_batch_indices\[1\] must be a list of positions"),
        ({"num_microbatches": [3]}, r"micro_batch_indices\[0\] must hold 3 micro-batches"),
        ({"num_microbatches": [2, 0]}, r"num_microbatches\[1\] must be >= 1, got 0"),
        ({"num_microbatches": []}, "num_microbatches must hold a number for each step, got none"),
        ({"global_batch_sizes": [2, 2]}, "global_batch_sizes must hold one number for each of the 1 steps"),
        ({"global_batch_sizes": [0]}, r"global_batch_sizes\[0\] must be >= 1, got 0"),
        ({"global_batch_sizes": [6]}, "global_batch_sizes must add up to at most 5, the samples of lengths, got 6"),
        ({"num_microbatches": [2**62] * 4}, r"micro_batch_indices\[0\] must hold 18446744073709551616 micro-batches"),
        ({"lengths": [1, 2, -3, 4, 5]}, r"lengths\[2\] must be >= 0, got -3"),
        ({"lengths": [1, 2]}, r"partitions\[1\] must hold samples, numbers from 0 to 1, got 2"),
    ],
)
def test_lists_that_are_no_schedule_are_refused(changes, message):
    lists = {
        "partitions": [[0, 1], [2, 3]],
        "micro_batch_indices": [[[0], [1]], [[0], [1]]],
        "num_microbatches": [2],
        "global_batch_sizes": [4],
        "lengths": [1, 2, 3, 4, 5],
    }
    assert Schedule.from_lists(**lists).dropped.tolist() == [4]
    with pytest.raises(ValueError, match=message):
        Schedule.from_lists(**{**lists, **changes})


def test_the_inverse_brings_results_back_in_order():
    schedule = plan(LENGTHS, dp_size=3, max_tokens=10)
    results = LENGTHS[schedule.samples]
    assert results[schedule.inverse()].tolist() == LENGTHS.tolist()


def test_the_inverse_marks_dropped_samples(schedule):
    inverse = schedule.inverse()
    assert inverse.shape == (11,)
    assert np.flatnonzero(inverse < 0).tolist() == schedule.dropped.tolist()
    assert inverse[schedule.dropped].tolist() == [-1]
    assert inverse[schedule.samples].tolist() == list(range(10))


# -- made by hand ----------------------------------------------------------------------------------------------------

FIELDS = {
    "dp_size": 2,
    "num_samples": 4,
    "samples": [0, 2, 1, 1],
    "micro_batch_offsets": [0, 2, 4],
    "micro_batch_tokens": [9, 8],
    "micro_batches_per_step": [1],
    "rollouts_per_step": [3],
    "dropped": [3],
    "is_padding": [False, False, False, True],
}


def test_a_schedule_made_by_hand_is_one():
    arrays = {name: np.array(value) for name, value in FIELDS.items() if isinstance(value, list)}
    made = Schedule(**{**FIELDS, **arrays, "dp_size": np.int64(2)})
    assert made == Schedule(**FIELDS) == Schedule(*FIELDS.values()) == dataclasses.replace(made)
    assert hash(made) == hash(Schedule(**FIELDS))
    assert (type(made.dp_size), made.samples.dtype, made.is_padding.dtype) == (int, np.int64, np.bool_)
    assert not made.samples.flags.writeable
    assert arrays["samples"].flags.writeable
    assert made.to_lists() == ([[0, 2], [1, 1]], [[[0, 1]], [[0, 1]]], [1], [3])
    assert made.inverse().tolist() == [0, 2, 1, -1]
    assert (made.step_samples.tolist(), made.step_tokens.tolist()) == ([4], [17])
    view = made.rank(1)
    assert view == RankSchedule(**vars(view)) == dataclasses.replace(view)


BROKEN = [
    ("dp_size", 0, "^dp_size must be >= 1, got 0$"),
    ("dp_size", "2", "^dp_size must be a whole number, got '2'$"),
    ("dp_size", 3, "^micro_batch_tokens must hold .*, 3 in all, got 2$"),
    ("dp_size", 2**62, "^micro_batch_tokens must hold .*, 4611686018427387904 in all, got 2$"),
    ("num_samples", None, "^num_samples must be a whole number, got None$"),
    ("num_samples", 5, "^num_samples must be 4, of all that are placed or dropped, got 5$"),
    ("samples", None, "^samples must be one flat sequence of numbers, got NoneType$"),
    ("samples", [[0, 2, 1, 1]], "^samples must have one dimension, got 2"),
    ("samples", [0, 2, 1, 4], r"^samples\[3\] must be from 0 to 3, got 4$"),
    ("samples", [-1, 2, 1, 1], r"^samples\[0\] must be from 0 to 3, got -1$"),
    ("samples", [0, 0, 1, 1], "^samples and dropped must hold every sample once, got 0 2 times$"),
    ("samples", [0, 2, 1, 3], r"^samples\[3\] must be no dropped one where it is padding, got 3$"),
    ("micro_batch_offsets", [0, 9], "^micro_batch_offsets must hold one more .*, 3 in all, got 2$"),
    ("micro_batch_offsets", [], "^micro_batch_offsets must hold one more .*, 3 in all, got 0$"),
    ("micro_batch_offsets", [0, 2, 9], "^micro_batch_offsets must run from 0 to 4, the end of samples, got 0 to 9$"),
    ("micro_batch_offsets", [1, 2, 4], "^micro_batch_offsets must run from 0 to 4, the end of samples, got 1 to 4$"),
    ("micro_batch_offsets", [0, 0, 4], r"^micro_batch_offsets\[1\] must be above the one before it, got 0$"),
    ("micro_batch_tokens", [9, -8], r"^micro_batch_tokens\[1\] must be >= 0, got -8$"),
    ("micro_batch_tokens", [2**62, 2**62], r"^micro_batch_tokens must add up to less than 2\^63, got 92233"),
    ("micro_batch_tokens", ["9", "8"], r"^micro_batch_tokens\[0\] must be a number, got '9'$"),
    ("micro_batches_per_step", [], "^micro_batches_per_step must hold a number for each step, 1 in all, got 0$"),
    ("micro_batches_per_step", [0], r"^micro_batches_per_step\[0\] must be >= 1, got 0$"),
    ("micro_batches_per_step", [2**62] * 4 + [1], "^rollouts_per_step must hold a number .*, 5 in all, got 1$"),
    ("rollouts_per_step", [1, 1], "^rollouts_per_step must hold a number for each step .*, 1 in all, got 2$"),
    ("rollouts_per_step", [0], r"^rollouts_per_step\[0\] must be >= 1, got 0$"),
    ("rollouts_per_step", [5], "^rollouts_per_step must add up to num_samples = 4 at most, got 5$"),
    ("dropped", [2], "^samples and dropped must hold every sample once, got 2 2 times$"),
    ("dropped", [2**62], r"^dropped\[0\] must be from 0 to 3, got 4611686018427387904$"),
    ("dropped", [3.5], r"^dropped\[0\] must be a whole number, got 3.5$"),
    ("is_padding", [0, 0, 0, 1], "^is_padding must be one flat sequence of booleans, got \\[0, 0, 0, 1\\]$"),
    ("is_padding", True, "^is_padding must be one flat sequence of booleans, got True$"),
    ("is_padding", [False], "^is_padding must hold True or False for each of samples, 4 in all, got 1$"),
    ("is_padding", [False] * 4, "^num_samples must be 5, of all that are placed or dropped, got 4$"),
]


@pytest.mark.parametrize(("name", "value", "message"), BROKEN, ids=[f"{name}-{value}" for name, value, _ in BROKEN])
def test_a_schedule_made_by_hand_that_breaks_a_law_is_refused(name, value, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**{**FIELDS, name: value})
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(Schedule(**FIELDS), **{name: value})


def test_dropped_samples_ascend():
    fields = {**FIELDS, "samples": [0, 1, 1, 1], "is_padding": [False, False, True, True]}
    assert Schedule(**{**fields, "dropped": [2, 3]}).dropped.tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"^dropped\[1\] must be above the one before it, got 2$"):
        Schedule(**{**fields, "dropped": [3, 2]})


def test_an_empty_schedule_is_none():
    with pytest.raises(ValueError, match=r"^num_samples must be >= 1, got 0$"):
        Schedule(1, 0, [], [], [], [1], [1], [], [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": -1}, "^rank must be >= 0, got -1$"),
        ({"samples": [-2, 1]}, r"^samples\[0\] must be >= 0, got -2$"),
        ({"samples": [1, 1]}, "^samples must hold every sample once at most, got 1 twice$"),
        ({"samples": 3}, "^samples must be one flat sequence of numbers, got int$"),
        ({"micro_batch_offsets": [0, 2, 4]}, "^micro_batch_offsets must hold one more .*, 2 in all, got 3$"),
    ],
    ids=str,
)
def test_a_view_made_by_hand_that_breaks_a_law_is_refused(change, message):
    view = Schedule(**FIELDS).rank(0)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(view, **change)


def test_the_core_is_not_asked_twice(monkeypatch):
    for check in ("checked_schedule", "checked_rank"):
        monkeypatch.setattr(f"flopbalance.schedules.schedule.{check}", None)
    schedule = plan(LENGTHS, dp_size=2, max_tokens=10)
    assert schedule.rank(0).rank == 0
    with pytest.raises(TypeError):
        dataclasses.replace(schedule)


# -- equality and words ----------------------------------------------------------------------------------------------


def test_equal_plans_are_equal_and_hash_alike(schedule):
    again = plan(LENGTHS.tolist(), dp_size=2, max_tokens=10, rollout_ids=ROLLOUTS, global_batch_size=2)
    assert schedule == again
    assert schedule.rank(1) == again.rank(1)
    assert hash(schedule) == hash(again)


def test_different_plans_differ(schedule):
    other = plan(LENGTHS, dp_size=1, max_tokens=10, rollout_ids=ROLLOUTS, global_batch_size=2)
    longer = plan(LENGTHS + 1, dp_size=1, max_tokens=10, rollout_ids=ROLLOUTS, global_batch_size=2)
    assert schedule != other
    assert other != longer
    assert schedule.rank(0) != schedule.rank(1)
    assert schedule != schedule.rank(0)
    assert schedule != "schedule"


def test_the_words_tell_the_size(schedule):
    text = repr(schedule)
    assert text.startswith("Schedule(")
    for word in ("2 ranks", "3 steps", f"at most {schedule.micro_batch_tokens.max()} tokens", "10 of 11 samples"):
        assert word in text
    assert repr(schedule.rank(1)).startswith("RankSchedule(rank 1")
    assert len(repr(plan(np.ones(5000, int), dp_size=2, max_tokens=10))) < 200


# -- files -----------------------------------------------------------------------------------------------------------


def test_save_and_load_round_trip(schedule, tmp_path):
    for path in (tmp_path / "schedule.npz", tmp_path / "no_suffix", str(tmp_path / "text path.npz")):
        schedule.save(path)
        loaded = Schedule.load(path)
        assert loaded == schedule
        assert type(loaded.dp_size) is type(loaded.num_samples) is int
        assert not loaded.samples.flags.writeable
    assert (tmp_path / "no_suffix").exists()


def test_the_same_schedule_makes_the_same_file(schedule, tmp_path):
    schedule.save(tmp_path / "a")
    schedule.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        Schedule.load(tmp_path / "nothing.npz")


def rewrite(path, save=np.savez, **changes):
    with np.load(path) as saved:
        values = dict(saved)
    values.update(changes)
    with open(path, "wb") as file:
        save(file, **{name: value for name, value in values.items() if value is not None})


def test_damaged_files_are_refused(schedule, tmp_path):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    data = path.read_bytes()
    for damaged in (
        b"",
        b"PK",
        data[: len(data) // 2],
        data[:-30],
        b"x" * 1000,
        data[:200] + b"\xff" * 50 + data[250:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="path must be"):
            Schedule.load(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"samples": None},
        {"dp_size": None},
        {"version": np.array(99)},
        {"samples": np.zeros(10, np.int64)},
        {"samples": np.arange(10.0)},
        {"samples": np.arange(9)},
        {"samples": np.full(10, 2**40)},
        {"samples": np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, -9])},
        {"samples": np.arange(10).reshape(2, 5)},
        {"micro_batch_offsets": np.array([0, 10])},
        {"micro_batch_tokens": np.array([1])},
        {"micro_batches_per_step": np.array([1])},
        {"micro_batches_per_step": np.array([], np.int64)},
        {"rollouts_per_step": np.array([1])},
        {"dropped": np.array([0])},
        {"dp_size": np.array(3)},
        {"dp_size": np.array(0)},
        {"dp_size": np.array([2, 2])},
        {"num_samples": np.array(12)},
        {"num_samples": np.array(-1)},
        {"num_samples": np.array(11.0)},
        {"num_samples": np.array(300_000_000)},
        {"num_samples": np.array(2**63 - 1)},
        {"num_samples": np.array(2**64 - 1, np.uint64)},
        {"dp_size": np.array(-2)},
        {"dp_size": np.array(2**62)},
        {"dp_size": np.array(2.0)},
        {"dp_size": np.array(True)},
        {"version": np.array(1.0)},
        {"version": np.array([1])},
        {"rollouts_per_step": np.array([2**62, 2**62, 2**62])},
        {"rollouts_per_step": np.array([0, 1, 1])},
        {"dropped": np.array([10], ">i8")},
        {"dropped": np.array(10)},
        {"is_padding": np.zeros(10, np.int8)},
        {"is_padding": np.zeros(9, bool)},
        {"is_padding": np.ones(10, bool)},
        {"extra": np.array(1)},
    ],
    ids=str,
)
def test_files_that_break_a_law_are_refused(schedule, tmp_path, changes):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match="path must be"):
        Schedule.load(path)


def test_counts_are_compared_before_memory_is_taken(schedule, tmp_path):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    rewrite(path, num_samples=np.array(300_000_000))
    assert path.stat().st_size < 4096
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"schedule\.npz: num_samples must be 11, .*, got 300000000$"):
        Schedule.load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_micro_batches_whose_sum_wraps_are_refused(schedule, tmp_path):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    counts = np.array([2**62] * 4 + [schedule.micro_batches_per_step.sum()])  # 2^64 more than there are
    rewrite(path, micro_batches_per_step=counts, rollouts_per_step=np.ones(5, np.int64))
    with pytest.raises(
        ValueError,
        match=r"micro_batch_tokens must hold .*, 36893.* in all, got ",
    ):
        Schedule.load(path)


def test_tokens_whose_sum_wraps_are_refused(schedule, tmp_path):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    tokens = np.full_like(schedule.micro_batch_tokens, 2**62)
    rewrite(path, micro_batch_tokens=tokens)
    with pytest.raises(ValueError, match=r"micro_batch_tokens must add up to less than 2\^63, got "):
        Schedule.load(path)


def test_padding_is_a_sample_that_is_placed(tmp_path):
    path = tmp_path / "schedule.npz"
    lengths = [9, 1, 1, 1]
    limits = {"dp_size": 2, "max_tokens": 5, "packing": "capped", "on_oversize": "drop", "on_shortage": "repeat"}
    schedule = plan(lengths, micro_batch_multiple=2, **limits)
    assert (schedule.dropped.tolist(), schedule.is_padding.sum()) == ([0], 1)
    schedule.save(path)
    assert Schedule.load(path) == schedule
    rewrite(path, samples=np.where(schedule.is_padding, 0, schedule.samples))
    with pytest.raises(ValueError, match=r"samples\[.\] must be no dropped one where it is padding, got 0"):
        Schedule.load(path)


def test_what_could_not_be_loaded_is_not_saved(schedule, tmp_path, monkeypatch):
    monkeypatch.setattr("flopbalance.schedules.archive.MOST_VALUES", 9)
    with pytest.raises(ValueError, match="a schedule must have at most 9 samples to be saved, got 10"):
        schedule.save(tmp_path / "schedule.npz")
    assert not list(tmp_path.iterdir())


def check_laws(schedule):
    """What every schedule keeps, told by its own methods."""
    placed = schedule.samples[~schedule.is_padding].tolist()
    assert sorted(placed + schedule.dropped.tolist()) == list(range(schedule.num_samples))
    assert set(schedule.samples.tolist()) == set(placed)
    partitions, micro_batches, per_step, rollouts = schedule.to_lists()
    assert [len(batches) for batches in micro_batches] == [sum(per_step)] * schedule.dp_size
    assert sum(map(len, partitions)) == len(schedule.samples) == len(schedule.is_padding) == schedule.step_samples.sum()
    assert len(rollouts) == len(per_step) == len(schedule.step_tokens)
    assert (schedule.step_tokens >= 0).all()
    assert sum(len(schedule.rank(rank).samples) for rank in range(schedule.dp_size)) == len(schedule.samples)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "deflated"])
def test_a_damaged_file_is_refused_or_a_schedule(schedule, tmp_path, save):
    """Cut, overwrite or repeat bytes anywhere, 800 times; stored members have checksums, as deflated ones do."""
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    rewrite(path, save=save)
    content = path.read_bytes()
    random = np.random.RandomState(11)
    loaded = 0
    for _ in range(800):
        damaged = bytearray(content)
        kind, start = random.randint(3), random.randint(len(content))
        if kind == 0:
            for position in random.randint(len(content), size=random.randint(1, 4)):
                damaged[position] = random.randint(256)
        elif kind == 1:
            del damaged[start : start + random.randint(1, 30)]
        else:
            damaged[start:start] = content[start : start + random.randint(1, 30)]
        path.write_bytes(damaged)
        try:
            read = Schedule.load(path)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
            assert len(str(error)) < 600  # noqa: PT017
        else:
            check_laws(read)
            loaded += 1
    assert loaded < 800


def test_changed_numbers_are_refused_or_a_schedule(schedule, tmp_path):
    """What checksums cannot see: whole archives of other numbers, 1,000 of them."""
    path = tmp_path / "schedule.npz"
    values = {"version": np.array(1), **{name: np.asarray(value) for name, value in vars(schedule).items()}}
    random = np.random.RandomState(12)
    edges = [-(2**63), -1, 0, 1, 2, 5, 10, 11, 12, 2**31, 2**32, 2**62, 2**63 - 1]
    loaded = 0
    for _ in range(1000):
        name = list(values)[random.randint(len(values))]
        changed = values[name].copy()
        if changed.ndim and random.randint(3) == 0:
            changed = np.resize(changed, random.randint(len(changed) + 3))
        elif changed.size:
            at = random.randint(len(changed)) if changed.ndim else ()
            changed[at] = np.int64(edges[random.randint(len(edges))]).astype(changed.dtype)
        with open(path, "wb") as file:
            np.savez(file, **{**values, name: changed})
        try:
            read = Schedule.load(path)
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            check_laws(read)
            loaded += 1
    assert 0 < loaded < 1000


def test_negative_micro_batches_in_a_file_are_refused(schedule, tmp_path):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    counts = schedule.micro_batches_per_step.copy()
    counts[0], counts[1] = counts[0] + counts[1] + 1, -1
    rewrite(path, micro_batches_per_step=counts)
    with pytest.raises(ValueError, match="path must be"):
        Schedule.load(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b'{"partitions": [[0]]}', "JSON text"),
        (b"\n[[0]]", "JSON text"),
        (b"\x93NUMPY\x01\x00", "a single .npy array"),
        (b"812\n4095\n", "another kind of file"),
    ],
)
def test_other_kinds_of_files_are_named(tmp_path, content, found):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"path must be .*x.json: expected an .npz archive, found {found}$"):
        Schedule.load(path)


def test_arrays_that_lack_or_do_not_belong_are_named(schedule, tmp_path):
    path = tmp_path / "l.npz"
    np.savez(path, a=[1], b=[2])
    with pytest.raises(ValueError, match=r'l\.npz: expected an array "version", found "a", "b"$'):
        Schedule.load(path)
    for changes, message in (
        ({"dropped": None}, 'expected an array "dropped", found "version", '),
        ({"extra": np.array(1)}, 'expected no array "extra" beside those of a schedule'),
        ({"samples": np.array([schedule], object)}, 'expected plain numbers in "samples", found Python objects$'),
    ):
        schedule.save(path)
        rewrite(path, **changes)
        with pytest.raises(ValueError, match=message) as refusal:
            Schedule.load(path)
        assert "allow_pickle" not in str(refusal.value)


def test_pickles_in_a_file_are_never_run(schedule, tmp_path):
    path = tmp_path / "schedule.npz"
    schedule.save(path)
    rewrite(path, samples=np.array([schedule], object))
    assert zipfile.is_zipfile(path)
    with pytest.raises(ValueError, match="path must be"):
        Schedule.load(path)


def test_the_view_is_its_own_class(schedule):
    assert isinstance(schedule.rank(0), RankSchedule)
    assert not isinstance(schedule.rank(0), Schedule)
