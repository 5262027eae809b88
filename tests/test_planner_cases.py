"""Small steps by hand, each with the value that is right: what a planner must find, whatever it does inside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flopbalance import (
    Counts,
    Schedule,
    ScheduleError,
    get_seqlen_balanced_partitions,
    plan,
    report,
    simulate_pipeline,
)


def capped(lengths, max_tokens: int, dp_size: int, **options) -> Schedule:
    """Return a plan within the cap whose costs are squares of lengths."""
    costs = [length * length for length in lengths]
    return plan(lengths, costs=costs, dp_size=dp_size, max_tokens=max_tokens, packing="capped", **options)


def micro_batch_costs(schedule: Schedule, lengths) -> list[int]:
    """Return what micro-batches cost, the costliest first."""
    costs = np.square(lengths)[schedule.samples]
    return sorted(np.add.reduceat(costs, schedule.micro_batch_offsets[:-1]).tolist(), reverse=True)


def time(schedule: Schedule, lengths, objective: str) -> float:
    return report(schedule, np.square(lengths), lengths, 10**6).times[objective]


@pytest.mark.parametrize("objective", ["step", "micro-batch"])
def test_two_micro_batches_where_first_fit_decreasing_needs_three(objective):
    schedule = plan([6, 8, 17, 21, 7, 4], dp_size=1, max_tokens=32, packing="capped", objective=objective)
    assert sorted(schedule.micro_batch_tokens.tolist()) == [31, 32]


class TestMoreRows:
    LENGTHS = (7, 7, 2, 10, 1)

    def test_a_row_more_costs_its_cheapest_singles_at_most(self):
        one, two = (
            capped(self.LENGTHS, 20, 2, objective="micro-batch", micro_batch_multiple=multiple) for multiple in (1, 2)
        )
        assert time(one, self.LENGTHS, "micro-batch") == 102
        assert time(two, self.LENGTHS, "micro-batch") <= 104

    @pytest.mark.parametrize("exactly", [1, 2])
    def test_exactly_so_many(self, exactly):
        counts = Counts(exactly=exactly)
        schedule = capped(self.LENGTHS, 20, 2, objective="micro-batch", counts=counts)
        assert schedule.micro_batches_per_step.tolist() == [exactly]
        assert time(schedule, self.LENGTHS, "micro-batch") <= 104

    def test_fewer_than_the_cap_allows_are_refused(self):
        with pytest.raises(ScheduleError, match=r"^counts\.exactly must be at least 2 for step 0"):
            capped(self.LENGTHS, 13, 2, counts=Counts(exactly=1))


class TestCountsThatOneWayOfPackingMeets:
    """Cases that first fit decreasing, even parts and dissolving miss."""

    @pytest.mark.parametrize("objective", ["step", "micro-batch"])
    def test_a_cap_on_tokens(self, objective):
        lengths = [12, 11, 12, 3, 20, 20, 10, 21, 16]
        schedule = capped(lengths, 42, 1, counts=Counts(exactly=3), objective=objective)
        assert (len(schedule.micro_batch_tokens), max(schedule.micro_batch_tokens)) == (3, 42)
        with pytest.raises(ScheduleError, match=r"^counts\.exactly must be at least 3 .* whose samples need 3 "):
            capped(lengths, 42, 1, counts=Counts(exactly=2), objective=objective)

    @pytest.mark.parametrize("objective", ["step", "micro-batch"])
    def test_a_second_budget(self, objective):
        lengths, amounts = [12, 7, 4, 24, 22, 25], [7, 9, 6, 0, 0, 1]
        schedule = capped(lengths, 53, 2, counts=Counts(exactly=1), extra_budget=(amounts, 15), objective=objective)
        assert len(schedule.micro_batch_tokens) == 2
        assert max(schedule.micro_batch_tokens) <= 53
        assert np.add.reduceat(np.take(amounts, schedule.samples), schedule.micro_batch_offsets[:-1]).max() <= 15

    def test_a_count_is_proposed_that_is_a_multiple(self):
        with pytest.raises(ScheduleError, match="must be at least 4 for step 0, whose samples need 3 micro-batches of"):
            capped([17, 17, 17, 11, 11, 11, 8, 8], 34, 1, counts=Counts(exactly=2, multiple=2))

    def test_what_no_bound_shows_is_said_to_be_what_was_found(self):
        with pytest.raises(ScheduleError, match="step 0, whose samples were packed into no fewer than 3 "):
            capped([4] * 5, 10, 1, counts=Counts(exactly=2))


class TestACapOnSamples:
    def test_so_many_and_no_more(self):
        lengths = [1, 1, 1, 1, 1, 1, 9]
        free = capped(lengths, 100, 2)
        assert sorted(free.sample_counts.ravel().tolist()) == [1, 6]
        three = capped(lengths, 100, 2, max_samples=3)
        assert three.micro_batches_per_step.tolist() == [2]
        assert three.sample_counts.max() <= 3

    def test_a_number_of_micro_batches_that_it_forbids_is_refused(self):
        with pytest.raises(
            ScheduleError, match=r"counts\.exactly must be at least 4 for step 0, whose samples need 4 "
        ):
            capped([1] * 7, 100, 1, max_samples=2, counts=Counts(exactly=3))


def test_what_cannot_be_even_per_rank_can_be_done_over_ranks():
    """Parts of [10, 10] and [5, 5, 4, 3, 3] at cap 10 on two ranks, which a count by parts refuses."""
    lengths = [10, 10, 5, 5, 4, 3, 3]
    schedule = capped(lengths, 10, 2)
    assert schedule.micro_batches_per_step.tolist() == [2]
    assert sorted(schedule.micro_batch_tokens.tolist()) == [10, 10, 10, 10]


class TestOneRank:
    @pytest.mark.parametrize("objective", ["step", "micro-batch"])
    def test_its_micro_batches_are_even(self, objective):
        lengths = [6, 5, 4, 3, 2, 2]
        assert micro_batch_costs(capped(lengths, 12, 1, objective=objective), lengths) == [49, 45]


class TestEqualCounts:
    WEIGHTS = (36, 4, 4, 36, 100, 36)

    def sums(self, parts):
        return [sum(self.WEIGHTS[item] for item in part) for part in parts]

    def test_karmarkar_karp_is_uneven_on_a_heavy_tail(self):
        assert self.sums(get_seqlen_balanced_partitions(self.WEIGHTS, 2, equal_size=True)) == [140, 76]

    def test_refined_parts_are_even(self):
        assert self.sums(get_seqlen_balanced_partitions(self.WEIGHTS, 2, equal_size="refined")) == [108, 108]

    @pytest.mark.parametrize("objective", ["step", "micro-batch"])
    def test_ranks_of_a_plan_are_even(self, objective):
        counts = Counts(even_samples=True)
        lengths = [6, 2, 2, 6, 10, 6]
        schedule = capped(lengths, 30, 2, counts=counts, objective=objective)
        assert schedule.sample_counts.tolist() == [[3], [3]]
        assert micro_batch_costs(schedule, lengths) == [108, 108]


class TestPipelines:
    def test_the_formula_is_exact_for_equal_micro_batches(self):
        assert simulate_pipeline([6] * 4, 3) == 6 * 4 + 2 * 6

    def test_the_order_makes_a_difference(self):
        times = [simulate_pipeline(order, 3) for order in itertools.permutations([3, 6, 12, 6])]
        assert (min(times), max(times)) == (43, 54)
        assert simulate_pipeline([3, 6, 12, 6], 3) == 43

    def test_stages_are_required(self):
        with pytest.raises(ValueError, match="pipeline_stages must be given for objective='pipeline', got None"):
            capped([6, 5, 4], 12, 1, objective="pipeline")

    def test_an_overhead_of_nothing_told_does_not_run_away(self):
        lengths = [8] * 64
        schedule = capped(lengths, 32, 1, objective="pipeline", pipeline_stages=4)
        assert 16 <= len(schedule.micro_batch_tokens) <= 64


def test_a_step_of_few_samples_is_as_short_as_can_be():
    """Descents and rounds of the search end at 20,733 here."""
    lengths = np.array([8, 8, 34, 77, 60, 48])
    costs = 100 * lengths + lengths**2
    schedule = plan(lengths, costs=costs, dp_size=2, max_tokens=115, packing="capped", objective="micro-batch")
    assert report(schedule, costs, lengths, 115).times["micro-batch"] == 19_049


def test_the_optimum_of_a_step_that_was_missed_once():
    lengths = np.array([48, 83, 42, 91, 89, 18])
    costs = 100 * lengths + lengths**2
    schedule = plan(lengths, costs=costs, dp_size=2, max_tokens=198, packing="capped", objective="micro-batch")
    assert report(schedule, costs, lengths, 198).times["micro-batch"] == 32_570
