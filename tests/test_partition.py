"""Karmarkar-Karp partitions: the laws they hold, agreement with the reference, every type of input, every refusal."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flopbalance
import reference
from families import FAMILIES
from flopbalance import get_seqlen_balanced_partitions as partition
from flopbalance import karmarkar_karp
from tensor import Tensor

FEW_VALUES = st.integers(0, 4)
LENGTHS = st.integers(0, 40_000)
WIDE = st.integers(0, 2**63 - 1)
UNSIGNED = st.integers(2**63, 2**64 - 1)
HUGE = st.integers(0, 2**120)
WHOLE_FLOATS = st.integers(0, 2**50).map(float)
FLOATS = st.floats(0, 1e300)
CLOSE_FLOATS = st.floats(0.1, 0.4)
TIED_FLOATS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7])
"""Whose sums tie or differ by their rounding alone."""
ABSORBED_FLOATS = st.sampled_from([1.0, 3.0, 2.0**53, 2.0**53 + 2])
"""The small ones vanish in the large ones, or do not: the order of the sum decides."""
KINDS = st.sampled_from(
    [FEW_VALUES, LENGTHS, WIDE, UNSIGNED, HUGE, WHOLE_FLOATS, FLOATS, CLOSE_FLOATS, TIED_FLOATS, ABSORBED_FLOATS]
)


@st.composite
def problems(draw, kinds=KINDS, max_size=60):
    """Weights, k and mode, with k = 1, n - 1 and n as likely as the values between."""
    equal_size = draw(st.booleans())
    kind = draw(kinds)
    if equal_size:
        k = draw(st.integers(1, 12))
        rows = draw(st.integers(1, max_size // k))
        return draw(st.lists(kind, min_size=k * rows, max_size=k * rows)), k, True
    weights = draw(st.lists(kind, min_size=1, max_size=max_size))
    n = len(weights)
    return weights, draw(st.sampled_from([1, max(1, n - 1), n]) | st.integers(1, n)), False


def best_spread(weights, k, equal_size):
    """Try every assignment: the smallest possible difference between the heaviest and the lightest part."""
    n = len(weights)
    spreads = []
    for owner in itertools.product(range(k), repeat=n):
        if equal_size and any(owner.count(part) != n // k for part in range(k)):
            continue
        sums = [sum(w for w, o in zip(weights, owner, strict=True) if o == part) for part in range(k)]
        spreads.append(max(sums) - min(sums))
    return min(spreads)


# -- agreement with the reference ------------------------------------------------------------------------------------


@given(problems())
def test_agrees_with_the_reference(problem):
    weights, k, equal_size = problem
    assert karmarkar_karp(weights, k, equal_size) == reference.karmarkar_karp(weights, k, equal_size)
    assert partition(weights, k, equal_size) == reference.get_seqlen_balanced_partitions(weights, k, equal_size)


@given(problems(st.just(FEW_VALUES), max_size=400))
def test_agrees_with_the_reference_on_many_ties(problem):
    assert karmarkar_karp(*problem) == reference.karmarkar_karp(*problem)


@pytest.mark.parametrize("equal_size", [False, True])
@pytest.mark.parametrize("k", [1, 2, 8, 60, 119, 120])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_the_reference_on_hard_inputs(family, k, equal_size):
    weights = FAMILIES[family](120)
    if equal_size and 120 % k:
        weights = FAMILIES[family](2 * k)
    expected = reference.karmarkar_karp(weights.tolist(), k, equal_size)
    assert karmarkar_karp(weights, k, equal_size) == expected
    assert karmarkar_karp(weights.tolist(), k, equal_size) == expected


@pytest.mark.parametrize("equal_size", [False, True])
@pytest.mark.parametrize("k", [3, 20, 250, 1000])
@pytest.mark.parametrize("family", FAMILIES)
def test_agrees_with_the_reference_on_a_thousand_samples(family, k, equal_size):
    weights = FAMILIES[family](3000 if equal_size else 3001)
    assert karmarkar_karp(weights, k, equal_size) == reference.karmarkar_karp(weights.tolist(), k, equal_size)


@pytest.mark.parametrize(
    ("weights", "k", "equal_size", "parts"),
    [
        ([8, 7, 6, 5, 4], 2, False, [[1, 3, 4], [0, 2]]),
        ([5] * 6, 3, False, [[0, 5], [1, 4], [2, 3]]),
        ([0] * 5, 3, False, [[0, 3], [1, 2], [4]]),
        ([8, 7, 6, 5, 4, 3], 2, True, [[0, 3, 4], [1, 2, 5]]),
        ([7], 1, False, [[0]]),
        ([7], 1, True, [[0]]),
        ([0], 1, False, [[0]]),
    ],
)
def test_published_examples(weights, k, equal_size, parts):
    assert partition(weights, k, equal_size) == parts


# -- laws ------------------------------------------------------------------------------------------------------------


@given(problems())
def test_every_index_stands_in_one_part(problem):
    weights, k, equal_size = problem
    parts = partition(weights, k, equal_size)
    assert len(parts) == k
    assert all(part == sorted(part) and part for part in parts)
    assert sorted(itertools.chain.from_iterable(parts)) == list(range(len(weights)))
    if equal_size:
        assert {len(part) for part in parts} == {len(weights) // k}


@given(problems())
def test_parts_descend_by_sum(problem):
    weights, *_ = problem
    parts = karmarkar_karp(*problem)
    totals = []
    for part in parts:
        total = 0
        for i in part:
            total += weights[i]
        totals.append(total)
    assert totals == sorted(totals, reverse=True)


@given(problems())
def test_both_functions_differ_in_the_order_within_a_part_only(problem):
    assert [sorted(part) for part in karmarkar_karp(*problem)] == partition(*problem)


@given(problems(st.just(LENGTHS)), st.integers(0, 10))
def test_scaling_by_a_power_of_two_changes_nothing(problem, exponent):
    weights, k, equal_size = problem
    assert karmarkar_karp([w << exponent for w in weights], k, equal_size) == karmarkar_karp(weights, k, equal_size)


@given(problems(st.just(CLOSE_FLOATS)), st.integers(-100, 100))
def test_scaling_floats_by_a_power_of_two_changes_nothing(problem, exponent):
    weights, k, equal_size = problem
    assert karmarkar_karp([w * 2.0**exponent for w in weights], k, equal_size) == karmarkar_karp(weights, k, equal_size)


@given(problems(st.just(LENGTHS)))
def test_integers_and_the_same_floats_agree(problem):
    weights, k, equal_size = problem
    assert karmarkar_karp([float(w) for w in weights], k, equal_size) == karmarkar_karp(weights, k, equal_size)


@given(problems(st.just(LENGTHS)))
def test_every_width_of_integer_agrees(problem):
    """Scaled up, the same problem goes through 64 and 128 bits; no tie may fall differently there."""
    weights, k, equal_size = problem
    expected = karmarkar_karp(weights, k, equal_size)
    assert karmarkar_karp([w << 48 for w in weights], k, equal_size) == expected
    assert karmarkar_karp([w << 100 for w in weights], k, equal_size) == expected


@given(st.permutations(range(40)), st.integers(1, 40))
def test_without_ties_the_order_of_the_input_is_free(order, k):
    """Sums of distinct powers of two never tie: a permuted input gives the same parts under other names."""
    parts = karmarkar_karp([2**i for i in order], k, False)
    assert [[order[i] for i in part] for part in parts] == karmarkar_karp([2**i for i in range(40)], k, False)


@given(problems(st.just(FEW_VALUES)), problems(st.just(CLOSE_FLOATS)))
def test_a_call_leaves_nothing_behind_for_the_next(problem, other):
    first = karmarkar_karp(*problem)
    karmarkar_karp(*other)
    assert karmarkar_karp(*problem) == first


@given(st.lists(st.integers(0, 9), min_size=2, max_size=6), st.integers(2, 3), st.booleans())
def test_never_better_than_brute_force_and_within_the_largest_weight(weights, k, equal_size):
    if k > len(weights):
        k = 2
    if equal_size:
        weights = weights[: len(weights) // k * k]
    sums = [sum(weights[i] for i in part) for part in partition(weights, k, equal_size)]
    assert best_spread(weights, k, equal_size) <= max(sums) - min(sums) <= max(weights)


@pytest.mark.parametrize("equal_size", [False, True])
def test_two_items_and_two_parts_are_optimal(equal_size):
    for weights in itertools.product(range(4), repeat=2):
        sums = [sum(weights[i] for i in part) for part in partition(weights, 2, equal_size)]
        assert max(sums) - min(sums) == best_spread(weights, 2, equal_size)


def test_brute_force_shows_that_the_heuristic_is_not_optimal():
    weights = [8, 7, 6, 5, 4]
    sums = [sum(weights[i] for i in part) for part in partition(weights, 2, False)]
    assert (max(sums) - min(sums), best_spread(weights, 2, False)) == (2, 0)


def test_input_is_left_as_it_was():
    weights, array = [3, 1, 2, 2], np.array([3, 1, 2, 2])
    partition(weights, 2, True)
    partition(array, 2, False)
    assert weights == array.tolist() == [3, 1, 2, 2]


# -- types of input --------------------------------------------------------------------------------------------------

SMALL = [8, 7, 6, 5, 4, 3, 3, 3, 100, 127, 0, 1]
EXPECTED = reference.get_seqlen_balanced_partitions(SMALL, 3, True)
INTEGER_TYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", [*INTEGER_TYPES, "float16", "float32", "float64", ">i2", ">i8", ">u4", ">f8"])
def test_arrays_of_every_type_agree(dtype):
    assert partition(np.array(SMALL, dtype), 3, True) == EXPECTED


@pytest.mark.parametrize(
    "weights",
    [
        tuple(SMALL),
        [np.int32(w) for w in SMALL],
        [np.uint8(w) for w in SMALL],
        [np.float32(w) for w in SMALL],
        [np.int64(w) if w % 2 else w for w in SMALL],
        [float(w) if w % 2 else w for w in SMALL],
        Tensor(SMALL),
        Tensor(np.array(SMALL, np.int32)),
        np.repeat(np.array(SMALL), 3)[::3],
        np.array(SMALL[::-1])[::-1],
        np.array(SMALL[::-1], np.int16)[::-1],
        np.array([SMALL, SMALL], order="F").T[:, 1],
        np.array(SMALL, object),
    ],
    ids=str,
)
def test_every_kind_of_sequence_agrees(weights):
    assert partition(weights, 3, True) == EXPECTED


def test_read_only_arrays_are_fine():
    weights = np.array(SMALL)
    weights.flags.writeable = False
    assert partition(weights, 3, True) == EXPECTED


def test_a_range_is_a_sequence():
    assert partition(range(12), 3, True) == reference.get_seqlen_balanced_partitions(range(12), 3, True)


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_sums_never_overflow_the_type_of_the_input(dtype):
    top = int(np.iinfo(dtype).max)
    weights = [top, top, top - 1, top - 1, top - 2, top - 2, top // 2]
    assert karmarkar_karp(np.array(weights, dtype), 2, False) == reference.karmarkar_karp(weights, 2, False)


@pytest.mark.parametrize("top", [2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**100])
def test_sums_beyond_64_bits_are_exact(top):
    weights = [top - i * i for i in range(41)]
    assert karmarkar_karp(weights, 4, False) == reference.karmarkar_karp(weights, 4, False)


def test_a_large_unsigned_beside_a_small_number_is_not_rounded():
    """NumPy alone would make floats of some of these lists."""
    for weights in ([2**63, 1, 2**63 + 1, 0], [2**63 + 1, 2**63, 2**63 + 2, 2**63], [2**64, 2**64 + 1, 1, 2]):
        assert karmarkar_karp(weights, 2, False) == reference.karmarkar_karp(weights, 2, False)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_floats_agree_as_array_list_and_scalars(dtype):
    weights = np.array([1e20, 3e20, 2e20, 1e16, 0.5], dtype)
    expected = reference.karmarkar_karp(weights.tolist(), 2, False)
    for values in (weights, weights.tolist(), list(weights), Tensor(weights)):
        assert karmarkar_karp(values, 2, False) == expected


def test_the_answer_is_lists_of_python_integers():
    for parts in (partition(np.array(SMALL), 3, True), karmarkar_karp(SMALL, 3, False)):
        assert type(parts) is list
        assert {type(part) for part in parts} == {list}
        assert {type(i) for part in parts for i in part} == {int}


def test_the_published_argument_names():
    assert partition(seqlen_list=SMALL, k_partitions=3, equal_size=True) == EXPECTED
    assert karmarkar_karp(seqlen_list=[1, 2], k_partitions=1, equal_size=False) == [[1, 0]]


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [partition, karmarkar_karp])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1, 2, -5, 4], r"seqlen_list\[2\].*-5"),
        (np.array([1, 2, 3, -5], np.int8), r"seqlen_list\[3\].*-5"),
        ([2**63, -5], r"seqlen_list\[1\].*-5"),
        ([2**64, -5], r"seqlen_list\[1\].*-5"),
        ([1.0, -0.5], r"seqlen_list\[1\].*-0\.5"),
        ([1.0, float("nan")], r"seqlen_list\[1\].*(?i:nan)"),
        ([float("nan")], r"seqlen_list\[0\].*(?i:nan)"),
        ([1e300, float("nan")], r"seqlen_list\[1\].*(?i:nan)"),
        ([float("inf"), 1.0], r"seqlen_list\[0\].*inf"),
        ([float("-inf"), 1.0], r"seqlen_list\[0\].*-inf"),
        ([2**128, 1], r"seqlen_list"),
        ([-(2**70), 1], r"seqlen_list"),
        ([], r"seqlen_list|number of items, 0"),
        (np.array([]), r"seqlen_list|number of items, 0"),
        ([[1, 2], [3, 4]], r"seqlen_list.*(one-dimensional|1-D|dimension)"),
        (np.ones((2, 2), int), r"seqlen_list.*(one-dimensional|1-D|dimension)"),
        (np.int64(3), r"seqlen_list"),
        (5, r"seqlen_list"),
        ([[1, 2], [3]], r"seqlen_list"),
        ("1234", r"seqlen_list"),
        (["1", "2"], r"seqlen_list"),
        ([b"1", b"2"], r"seqlen_list"),
        ([True, False], r"seqlen_list"),
        (np.array([True, False]), r"seqlen_list"),
        ([1, None], r"seqlen_list"),
        (None, r"seqlen_list"),
        ([1j, 2], r"seqlen_list"),
        (np.array([1j, 2]), r"seqlen_list"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), r"seqlen_list"),
        (np.array([1, 2], "m8[s]"), r"seqlen_list"),
        pytest.param([object(), 1], r"seqlen_list", id="[object, 1]"),
        ({0: 1, 1: 2}, r"seqlen_list"),
        ({1, 2}, r"seqlen_list"),
    ],
    ids=str,
)
def test_bad_weights_are_refused(function, weights, message):
    with pytest.raises(ValueError, match=message):
        function(weights, 1, False)


@pytest.mark.parametrize("function", [partition, karmarkar_karp])
@pytest.mark.parametrize(
    ("k", "equal_size", "value"),
    [
        (0, False, "0"),
        (-3, True, "-3"),
        (5, False, "5"),
        (5, True, "5"),
        (3, True, "3"),
        (2**31, False, "2147483648"),
        (2**63, False, "9223372036854775808"),
        (2**70, False, "1180591620717411303424"),
        (1.5, False, "1.5"),
        (True, False, "True"),
        ("2", False, "2"),
        (None, False, "None"),
    ],
)
def test_bad_part_counts_are_refused(function, k, equal_size, value):
    with pytest.raises(ValueError, match=rf"k_partitions.*{re.escape(value)}|{re.escape(value)}.*k_partitions"):
        function([4, 3, 2, 1], k, equal_size)


def test_numpy_integers_count_parts():
    assert partition([4, 3, 2, 1], np.int32(2), True) == [[1, 2], [0, 3]]


def test_sums_beyond_the_range_of_floats_are_refused():
    with pytest.raises((ValueError, OverflowError), match="sum of seqlen_list must be finite"):
        partition([1.7e308] * 6, 2, False)


def test_sums_beyond_128_bits_are_refused_never_wrapped():
    with pytest.raises((ValueError, OverflowError), match=r"sum of seqlen_list must be below 2\^128"):
        partition([2**128 - 1] * 4, 2, False)


def test_the_error_of_a_schedule_is_an_assertion_error_too():
    assert issubclass(flopbalance.ScheduleError, ValueError)
    assert issubclass(flopbalance.ScheduleError, AssertionError)


@pytest.mark.parametrize(
    ("weights", "parts", "equal_size"),
    [([1, 2], 3, False), ([], 1, False), ([1, 2, 3], 2, True)],
    ids=["too-many-parts", "no-weights", "uneven-parts"],
)
def test_what_published_code_asserts_is_a_schedule_error(weights, parts, equal_size):
    with pytest.raises(flopbalance.ScheduleError):
        partition(weights, parts, equal_size)
    with pytest.raises(AssertionError):
        karmarkar_karp(weights, parts, equal_size)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("k", [2, 12, 64, 480], ids="{} parts".format)
def test_refined_parts_of_hard_inputs_are_never_heavier(family, k):
    weights = [int(weight) for weight in FAMILIES[family](960)]
    refined, equal = (partition(weights, k, size) for size in ("refined", True))
    assert {len(part) for part in refined} == {960 // k}
    assert sorted(itertools.chain(*refined)) == list(range(960))
    largest, before, greedy = (
        [sum(weights[i] for i in part) for part in parts] for parts in (refined, equal, dealt(weights, k))
    )
    assert largest == sorted(largest, reverse=True)
    assert max(largest) <= min(max(before), max(greedy))


def dealt(weights, k):
    """Return parts of equal size: the heaviest first, to the lightest part with room for one more."""
    parts = [[] for _ in range(k)]
    for item in sorted(range(len(weights)), key=lambda item: -weights[item]):
        open_parts = [part for part in parts if len(part) < len(weights) // k]
        min(open_parts, key=lambda part: sum(weights[i] for i in part)).append(item)
    return parts


def test_refined_parts_are_even_where_equal_ones_are_not():
    weights = [36, 4, 4, 36, 100, 36]
    assert [sum(weights[i] for i in part) for part in partition(weights, 2, True)] == [140, 76]
    assert partition(weights, 2, "refined") == [[1, 2, 4], [0, 3, 5]]  # 108 and 108
    assert sorted(partition([w / 7 for w in weights], 2, "refined")) == [[0, 3, 5], [1, 2, 4]]


def test_refined_parts_need_a_number_that_divides():
    with pytest.raises(
        flopbalance.ScheduleError, match="k_partitions must divide the number of items, 5, when sizes are equal, got 2"
    ):
        partition([8, 7, 6, 5, 4], 2, "refined")
    with pytest.raises(ValueError, match="equal_size must be True or False, got 'refined'"):
        karmarkar_karp([8, 7, 6, 5], 2, "refined")
