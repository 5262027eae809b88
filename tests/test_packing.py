"""First fit, splitting and the inverse of a permutation: agreement with the reference, types of input, refusals."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from families import FAMILIES
from flopbalance import ScheduleError, expand_bins_by_splitting, first_fit_pack, get_reverse_idx, pack
from tensor import Tensor

LENGTHS = st.lists(st.integers(0, 12) | st.integers(0, 5000), max_size=80)
WHOLE_FAMILIES = {
    name: family for name, family in FAMILIES.items() if name not in ("near_2_63", "near_2_64", "inexact")
}


# -- first fit -------------------------------------------------------------------------------------------------------


@given(LENGTHS.filter(bool), st.integers(1, 30) | st.integers(1, 10_000))
def test_first_fit_agrees_with_the_reference(lengths, cap):
    assert first_fit_pack(lengths, cap) == reference.first_fit_pack(lengths, cap)


@pytest.mark.parametrize("family", WHOLE_FAMILIES)
def test_first_fit_agrees_with_the_reference_on_hard_inputs(family):
    lengths = WHOLE_FAMILIES[family](1000)
    for cap in {1, int(lengths.max()) or 1, 3 * int(lengths[0]) + 5, min(7 * int(lengths.max()) + 1, 2**63 - 1)}:
        assert first_fit_pack(lengths, cap) == reference.first_fit_pack(lengths.tolist(), cap)


def test_first_fit_example():
    assert first_fit_pack([11, 0, 1], 10) == [[0], [1, 2]]


def test_first_fit_fills_a_bin_to_the_last_token():
    assert first_fit_pack([4, 6, 1], 10) == [[0, 1], [2]]


def test_samples_without_tokens_share_the_first_bin_with_room():
    assert first_fit_pack([0, 0, 0], 1) == [[0, 1, 2]]
    assert first_fit_pack([12, 0, 10, 0], 10) == [[0], [1, 2, 3]]


def test_room_is_never_counted_past_64_bits():
    """The tokens of a call fit in 63 bits, up to the last one; more are refused, not wrapped."""
    lengths = [2**61, 2**61, 2**61, 2**60, 2**60 - 1, 0]
    for cap in (2**61, 2**62, 2**63 - 1):
        assert first_fit_pack(lengths, cap) == reference.first_fit_pack(lengths, cap)
        bins = [[0, 1, 2, 3, 4, 5]]
        expected = copy.deepcopy(bins)
        expand_bins_by_splitting(bins, 4, lengths)
        reference.expand_bins_by_splitting(expected, 4, lengths)
        assert bins == expected
    with pytest.raises((ValueError, OverflowError), match=r"lengths must be below 2\^63"):
        first_fit_pack([2**62, 2**62], 2**63 - 1)
    with pytest.raises((ValueError, OverflowError), match=r"lengths must be below 2\^63"):
        expand_bins_by_splitting([[0, 1]], 2, [2**62, 2**62])


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4"])
def test_first_fit_takes_every_integer_type(dtype):
    lengths = [100, 120, 7, 100, 27, 3, 0, 127]
    expected = reference.first_fit_pack(lengths, 130)
    array = np.array(lengths, dtype)
    for values in (
        array,
        np.repeat(array, 2)[::2],
        array[::-1].copy()[::-1],
        Tensor(array),
        tuple(lengths),
        list(array),
    ):
        assert first_fit_pack(values, 130) == expected


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, -5], r"total_lengths\[1\].*-5"),
        ([3, 1.5], r"total_lengths.*1\.5"),
        (np.array([0.5, 3.0]), r"total_lengths.*0\.5"),
        ([3, float("nan")], r"total_lengths.*nan"),
        ([3, float("inf")], r"total_lengths.*inf"),
        ([[3, 1]], r"total_lengths"),
        (np.ones((2, 1), np.int32), r"total_lengths"),
        (["3", "1"], r"total_lengths"),
        ("31", r"total_lengths"),
        ([True, False], r"total_lengths"),
        ([None, 3], r"total_lengths"),
        (None, r"total_lengths"),
        (7, r"total_lengths"),
        ([2**70], r"total_lengths"),
        ([2**64, 1], r"total_lengths"),
        (np.array([2**63 + 5], np.uint64), r"total_lengths"),
    ],
    ids=str,
)
def test_first_fit_refuses_bad_lengths(lengths, message):
    with pytest.raises(ValueError, match=message):
        first_fit_pack(lengths, 10)


@pytest.mark.parametrize("cap", [0, -1, 2.5, "10", None, True, float("nan"), -(2**80)])
def test_first_fit_refuses_a_bad_cap(cap):
    with pytest.raises(ValueError, match=rf"max_tokens_per_bin.*{cap}"):
        first_fit_pack([1, 2], cap)


# -- pack ------------------------------------------------------------------------------------------------------------


def scanned(lengths, cap, order, most):
    """Return bins by looking at each of them for each sample."""
    bins = []
    for i in order:
        fits = (b for b in bins if sum(lengths[j] for j in b) + lengths[i] <= cap and len(b) < most)
        bin_ = next(fits, None)
        if bin_ is None:
            bins.append([i])
        else:
            bin_.append(i)
    return [sorted(b) for b in bins]


@given(LENGTHS, st.integers(1, 30) | st.integers(1, 10_000), st.none() | st.integers(1, 5))
def test_pack_is_first_fit_in_its_order_with_a_cap_on_samples(lengths, cap, max_samples):
    most = max_samples or len(lengths)
    order = list(range(len(lengths)))
    assert pack(lengths, cap, order="given", max_samples=max_samples) == scanned(lengths, cap, order, most)
    order.sort(key=lambda i: -lengths[i])
    assert pack(lengths, cap, max_samples=max_samples) == scanned(lengths, cap, order, most)


@given(LENGTHS.filter(bool), st.integers(1, 30), st.integers(1, 6), st.integers(1, 6), st.none() | st.integers(1, 4))
@pytest.mark.parametrize("order", ["given", "decreasing", "balanced"])
def test_pack_makes_as_many_bins_as_asked_for_or_refuses(order, lengths, cap, at_least, multiple, max_samples):
    keywords = {"order": order, "max_samples": max_samples}
    fewest = len(pack(lengths, cap, **keywords))
    wanted = -(-max(fewest, at_least) // multiple) * multiple
    if wanted > len(lengths):
        message = f"lengths must hold at least {wanted} samples, one for each bin, got {len(lengths)}"
        with pytest.raises(ScheduleError, match=message):
            pack(lengths, cap, at_least=at_least, multiple=multiple, **keywords)
        return
    bins = pack(lengths, cap, at_least=at_least, multiple=multiple, **keywords)
    exact = pack(lengths, cap, count=wanted, **keywords)
    for answer in (bins, exact):
        assert len(answer) == wanted
        assert sorted(itertools.chain(*answer)) == list(range(len(lengths)))
        assert all(b and len(b) <= (max_samples or len(b)) for b in answer)
        assert all(len(b) == 1 or sum(lengths[i] for i in b) <= cap for b in answer)


@pytest.mark.parametrize("order", ["given", "decreasing", "balanced"])
@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"count": 1}, ScheduleError, "count must be at least 2, into which the samples were packed, got 1"),
        ({"count": 5}, ScheduleError, "lengths must hold at least 5 samples, one for each bin, got 4"),
        ({"count": 3, "multiple": 2}, ValueError, "count must be a multiple of 2, got 3"),
        ({"count": 2, "at_least": 3}, ValueError, "count must be >= at_least = 3, got 2"),
        ({"max_samples": 0}, ValueError, "max_samples must be >= 1, got 0"),
    ],
    ids=["few", "many", "no multiple", "below the least", "no sample"],
)
def test_pack_refuses_by_name(order, keywords, error, message):
    with pytest.raises(error, match=message):
        pack([5, 3, 8, 1], 10, order=order, **keywords)


def test_costs_are_for_even_bins():
    lengths, costs = [5, 5, 5, 5], [9, 9, 1, 1]
    assert sorted(pack(lengths, 10, order="balanced", costs=costs)) in ([[0, 2], [1, 3]], [[0, 3], [1, 2]])
    with pytest.raises(ValueError, match="costs must be None for order='decreasing', got"):
        pack(lengths, 10, costs=costs)


@pytest.mark.parametrize("order", ["given", "decreasing", "balanced"])
def test_no_samples_need_no_bins(order):
    assert pack([], 10, order=order) == []
    with pytest.raises(ScheduleError, match="lengths must hold at least 2 samples"):
        pack([], 10, order=order, at_least=2)


# -- splitting -------------------------------------------------------------------------------------------------------


@st.composite
def bins_of_samples(draw):
    lengths = draw(LENGTHS.filter(bool))
    order = draw(st.permutations(range(len(lengths))))
    cuts = sorted({0, len(order), *draw(st.lists(st.integers(0, len(order)), max_size=12))})
    return [order[a:b] for a, b in itertools.pairwise(cuts)], draw(st.integers(1, len(lengths) + 3)), lengths


@given(bins_of_samples())
def test_splitting_agrees_with_the_reference(problem):
    bins, target, lengths = problem
    expected = copy.deepcopy(bins)
    reference.expand_bins_by_splitting(expected, target, lengths)
    assert expand_bins_by_splitting(bins, target, lengths) is None
    assert bins == expected
    assert sorted(itertools.chain.from_iterable(bins)) == list(range(len(lengths)))


@pytest.mark.parametrize("family", WHOLE_FAMILIES)
def test_splitting_agrees_with_the_reference_on_hard_inputs(family):
    lengths = WHOLE_FAMILIES[family](300)
    for bins in ([list(range(300))], [list(range(i, i + 30)) for i in range(0, 300, 30)]):
        for target in (1, 17, 299, 300, 301):
            expected, got = copy.deepcopy(bins), copy.deepcopy(bins)
            reference.expand_bins_by_splitting(expected, target, lengths.tolist())
            expand_bins_by_splitting(got, target, lengths)
            assert got == expected


def test_splitting_works_in_the_list_it_is_given():
    bins = [[0, 1, 2, 3]]
    same = bins
    expand_bins_by_splitting(bins, 2, [1, 5, 4, 2])
    assert same is bins
    assert bins == [[1, 0], [2, 3]]


def test_enough_bins_stay_as_they_are():
    for target in (0, 1, 2):
        bins = [[2, 0], [1]]
        expand_bins_by_splitting(bins, target, [1, 1, 1])
        assert bins == [[2, 0], [1]]


def test_of_equal_bins_the_last_is_split():
    bins = [[0, 1], [2, 3]]
    expand_bins_by_splitting(bins, 3, [5, 5, 5, 5])
    assert bins == [[0, 1], [2], [3]]


def test_a_giant_alone_is_passed_over():
    bins = [[0], [1, 2]]
    expand_bins_by_splitting(bins, 4, [100, 1, 1])
    assert bins == [[0], [1], [2]]


def test_empty_bins_and_no_bins_are_left_alone():
    for bins in ([], [[]], [[], [0]]):
        before = copy.deepcopy(bins)
        expand_bins_by_splitting(bins, 5, [1])
        assert bins == before


@pytest.mark.parametrize(
    ("bins", "target", "lengths", "message"),
    [
        ([[0, 3]], 2, [1, 1], r"bins.*3"),
        ([[0, -1]], 2, [1, 1], r"bins.*-1"),
        ([[0, 2**70]], 2, [1, 1], r"bins"),
        ([[0, 0.5]], 2, [1, 1], r"bins.*0\.5"),
        ([["0"]], 2, [1, 1], r"bins"),
        ([[0, 1]], 2, [1, -4], r"lengths\[1\].*-4"),
        ([[0, 1]], 2, [1, 0.5], r"lengths.*0\.5"),
        ([[0, 1]], 2.5, [1, 1], r"target_count.*2\.5"),
        ([[0, 1]], -2, [1, 1], r"target_count.*-2"),
        ([[0, 1]], None, [1, 1], r"target_count.*None"),
    ],
    ids=str,
)
def test_splitting_refuses_bad_input_and_leaves_the_bins_alone(bins, target, lengths, message):
    before = copy.deepcopy(bins)
    with pytest.raises(ValueError, match=message):
        expand_bins_by_splitting(bins, target, lengths)
    assert bins == before


# -- the inverse of a permutation ------------------------------------------------------------------------------------


@given(st.integers(0, 50).flatmap(lambda n: st.permutations(range(n))))
def test_the_inverse_undoes_a_permutation(order):
    inverse = get_reverse_idx(order)
    assert inverse == reference.get_reverse_idx(order)
    assert [order[i] for i in inverse] == list(range(len(order)))
    assert {type(i) for i in inverse} <= {int}


@pytest.mark.parametrize("order", [[0, 0], [1, 2], [-1, 0], [0, 2], [0, 2**70]], ids=str)
def test_only_a_permutation_has_an_inverse(order):
    with pytest.raises(ValueError, match="idx_map"):
        get_reverse_idx(order)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([2**63, 1], r"total_lengths\[0\] must be below 2\^63, got 9223372036854775808$"),
        ([1, 2**63 + 1, 2.0], r"total_lengths\[1\] must be below 2\^63, got 9223372036854775809$"),
        ([1, 2**200], rf"total_lengths\[1\] must be below 2\^63, got {2**200}$"),
        ([1, 0.5, 2**63], r"total_lengths\[1\] must be a whole number, got 0.5"),
        (np.array([1, 2**63], np.uint64), r"total_lengths\[1\] must be below 2\^63, got 9223372036854775808$"),
        (np.array([1, 2.0**63]), r"total_lengths\[1\] must be below 2\^53 as a float, got 9.2"),
        (np.array([1, 0.5, 2.0**63]), r"total_lengths\[1\] must be a whole number, got 0.5"),
        ([1, "x"], r"total_lengths\[1\] must be a number, got 'x'"),
        ("12", r"total_lengths must be one flat sequence of numbers, got str"),
    ],
    ids=str,
)
def test_numbers_beyond_64_bits_are_refused_as_they_are(lengths, message):
    with pytest.raises(ValueError, match=message):
        first_fit_pack(lengths, 2**60)


def test_large_numbers_beside_floats_stay_exact():
    assert first_fit_pack([2**53 + 1, 1.0], 2**53 + 1) == [[0], [1]]


@pytest.mark.parametrize(
    "order",
    [np.array([2, 0, 1], np.int32), np.array([2, 0, 1], np.uint8), Tensor([2, 0, 1])],
    ids=["int32", "uint8", "tensor"],
)
def test_the_inverse_is_of_the_same_kind(order):
    inverse = get_reverse_idx(order)
    assert type(inverse) is type(order)
    assert np.asarray(inverse).tolist() == [1, 2, 0]
    assert np.asarray(order).tolist() == [2, 0, 1]
    assert getattr(inverse, "dtype", None) == getattr(order, "dtype", None)


class Unchanging(Tensor):
    """A tensor without item assignment."""

    __setitem__ = None


class Single(Tensor):
    """A tensor that is not copied."""

    def __deepcopy__(self, memo):
        raise RuntimeError("only leaves of the graph are copied")


@pytest.mark.parametrize("kind", [Unchanging, Single])
def test_the_inverse_of_what_cannot_be_written_to_is_a_list(kind):
    assert get_reverse_idx(kind([2, 0, 1])) == [1, 2, 0]


def test_the_inverse_of_a_read_only_array_is_an_array():
    order = np.array([2, 0, 1])
    order.setflags(write=False)
    assert get_reverse_idx(order).tolist() == [1, 2, 0]
