"""How many micro-batches every rank gets, and the structures that hold arguments of `plan`."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopbalance import (
    Counts,
    Limits,
    Pipeline,
    Schedule,
    ScheduleError,
    build_dp_schedule,
    get_seqlen_balanced_partitions,
    plan,
    report,
)

LENGTHS = [9, 7, 2, 5, 4, 3, 8, 8]


def capped(lengths, **options) -> Schedule:
    return plan(lengths, packing="capped", **options)


def per_rank(schedule: Schedule) -> int:
    return schedule.sample_counts.shape[1]


def test_two_micro_batches_where_first_fit_decreasing_needs_three():
    schedule = capped([6, 8, 17, 21, 7, 4], dp_size=1, max_tokens=32)
    assert sorted(schedule.micro_batch_tokens.tolist()) == [31, 32]


def test_more_rows_cost_no_more_than_the_cheapest_apart():
    lengths = np.array([7, 7, 2, 10, 1])
    costs = lengths**2
    schedule = capped(
        lengths, costs=costs, dp_size=2, max_tokens=20, objective="micro-batch", counts=Counts(multiple=2)
    )
    assert report(schedule, costs, lengths, 20).micro_batch_time == 104


class TestOneRank:
    """Its micro-batches are even, in hardly more than the fewest."""

    def test_squares(self):
        lengths = np.array([6, 5, 4, 3, 2, 2])
        schedule = capped(lengths, costs=lengths**2, dp_size=1, max_tokens=12)
        sums = np.add.reduceat(lengths[schedule.samples] ** 2, schedule.micro_batch_offsets[:-1])
        assert sums.tolist() == [49, 45]

    @pytest.mark.parametrize("objective", ["step", "micro-batch"])
    @pytest.mark.parametrize("seed", range(4))
    def test_as_even_as_karmarkar_karp_in_no_more(self, seed, objective):
        random = np.random.default_rng(seed)
        lengths = np.clip(random.lognormal(7, 1.2, 128), 1, 16_000).astype(int)
        costs = lengths**2 + 2000 * lengths
        count = -(-lengths.sum() // 16_384)
        while max(lengths[part].sum() for part in get_seqlen_balanced_partitions(costs, count, False)) > 16_384:
            count += 1
        costliest = max(costs[part].sum() for part in get_seqlen_balanced_partitions(costs, count, False))
        schedule = capped(lengths, costs=costs, dp_size=1, max_tokens=16_384, objective=objective)
        assert per_rank(schedule) <= count
        assert np.add.reduceat(costs[schedule.samples], schedule.micro_batch_offsets[:-1]).max() <= 1.01 * costliest

    def test_an_overhead_asks_for_the_fewest(self):
        lengths = [9, 8, 3, 3]
        assert per_rank(capped(lengths, costs=[81, 64, 9, 9], dp_size=1, max_tokens=18)) == 2
        few = capped([10, 9, 1], costs=[100, 81, 1], dp_size=1, max_tokens=20, micro_batch_overhead=0)
        assert per_rank(few) == 1


class TestExactly:
    @pytest.mark.parametrize("exactly", [2, 3, 4])
    @pytest.mark.parametrize("objective", ["step", "micro-batch"])
    def test_so_many_and_no_others(self, exactly, objective):
        schedule = capped(LENGTHS, dp_size=2, max_tokens=16, counts=Counts(exactly=exactly), objective=objective)
        assert per_rank(schedule) == exactly
        assert sorted(schedule.samples.tolist()) == list(range(8))
        assert schedule.micro_batch_tokens.max() <= 16

    def test_a_pipeline_keeps_to_it(self):
        schedule = capped(
            LENGTHS, dp_size=2, max_tokens=16, counts=Counts(exactly=2), objective="pipeline", pipeline_stages=8
        )
        assert per_rank(schedule) == 2

    @pytest.mark.parametrize("max_tokens", [16, 11], ids=["by the sum of tokens", "by what fits together"])
    def test_a_cap_that_needs_more_is_refused_by_name(self, max_tokens):
        lengths = LENGTHS if max_tokens == 16 else [6] * 4
        with pytest.raises(ScheduleError, match=r"^counts.exactly must be at least \d for step 0, whose samples need"):
            capped(lengths, dp_size=2, max_tokens=max_tokens, counts=Counts(exactly=1))

    def test_every_step_is_looked_at_before_any_is_planned(self):
        steps = [1] * 4 + [9] * 4
        with pytest.raises(ScheduleError, match=r"must be at least 2 for step 1, whose samples need 4 .* got 1$"):
            capped(steps, dp_size=2, max_tokens=9, global_batch_size=4, counts=Counts(exactly=1))

    def test_too_few_samples_are_refused_or_repeated(self):
        with pytest.raises(ScheduleError, match=r"at least 6 samples, .* \(counts.exactly = 3 of dp_size = 2 ranks\)"):
            capped([1, 2, 3], dp_size=2, max_tokens=9, counts=Counts(exactly=3))
        schedule = capped([1, 2, 3], dp_size=2, max_tokens=9, counts=Counts(exactly=3), on_shortage="repeat")
        assert (per_rank(schedule), schedule.is_padding.sum()) == (3, 3)

    def test_a_group_of_the_pipeline_that_it_is_no_multiple_of(self):
        options = {"objective": "pipeline", "pipeline": Pipeline(2, chunks=2)}
        with pytest.raises(ValueError, match=r"^counts.exactly must be a multiple of 2, got 3$"):
            capped(LENGTHS, dp_size=1, max_tokens=16, counts=Counts(exactly=3), **options)


class TestAtLeast:
    def test_no_fewer(self):
        assert per_rank(capped(LENGTHS, dp_size=2, max_tokens=99)) == 1
        assert per_rank(capped(LENGTHS, dp_size=2, max_tokens=99, counts=Counts(at_least=3))) == 3

    def test_more_where_the_cap_needs_them(self):
        assert per_rank(capped(LENGTHS, dp_size=2, max_tokens=9, counts=Counts(at_least=2))) == 3

    def test_up_to_a_multiple(self):
        assert per_rank(capped(LENGTHS, dp_size=2, max_tokens=99, counts=Counts(at_least=3, multiple=4))) == 4


class TestEvenSamples:
    @given(
        lengths=st.lists(st.integers(0, 99), min_size=3, max_size=40),
        dp_size=st.integers(1, 3),
        options=st.fixed_dictionaries(
            {},
            optional={
                "objective": st.sampled_from(["step", "micro-batch", "pipeline"]),
                "padded": st.just(True),
                "extra": st.integers(1, 4),
                "micro_batch_overhead": st.integers(0, 3000),
                "on_shortage": st.just("repeat"),
                "global_batch_size": st.integers(3, 20),
                "carried": st.just([7, 3, 5]),
            },
        ),
        counts=st.fixed_dictionaries({}, optional={"at_least": st.integers(1, 3), "multiple": st.integers(1, 3)}),
    )
    def test_ranks_have_as_many_samples_in_every_combination(self, lengths, dp_size, options, counts):
        if "extra" in options:
            options["extra_budget"] = ([1] * len(lengths), options.pop("extra"))
        if "carried" in options:
            options["carried"] = options["carried"][:dp_size]
        if options.get("objective") == "pipeline":
            options["pipeline_stages"] = 2
        size = min(options.get("global_batch_size", len(lengths)), len(lengths))
        options["global_batch_size"] = size
        counts = Counts(even_samples=True, **counts)
        problem = {"costs": [x * x for x in lengths], "dp_size": dp_size, "max_tokens": 150, "counts": counts}
        try:
            schedule = capped(lengths, **problem, **options)
        except ScheduleError:
            if "on_shortage" in options:
                raise
            with pytest.raises(ScheduleError, match="must hold at least"):
                capped(lengths, **problem, **options)
            return
        assert all(per_step % counts.multiple == 0 for per_step in schedule.micro_batches_per_step.tolist())
        assert sorted({*schedule.samples.tolist()} | {*schedule.dropped.tolist()}) == list(range(len(lengths)))
        ends = np.cumsum([0, *schedule.micro_batches_per_step])
        sizes = schedule.sample_counts
        assert sizes.min() > 0
        for first, last in itertools.pairwise(ends):
            assert np.ptp(sizes[:, first:last].sum(axis=1)) <= 1
        alone = np.diff(schedule.micro_batch_offsets) == 1
        assert ((schedule.micro_batch_tokens <= 150) | alone).all()

    def test_parts_are_the_refined_ones(self):
        lengths, costs = [1] * 6, [36, 4, 4, 36, 100, 36]
        schedule = capped(lengths, costs=costs, dp_size=2, max_tokens=9, counts=Counts(even_samples=True))
        assert schedule.sample_counts.tolist() == [[3], [3]]
        assert report(schedule, costs, lengths, 9).times["step"] == 108

    def test_parts_by_tokens_where_those_by_cost_need_more_micro_batches(self):
        lengths, costs = [8, 8, 1, 1], [9, 1, 1, 9]  # by cost, both of 8 tokens may meet
        schedule = capped(lengths, costs=costs, dp_size=2, max_tokens=9, counts=Counts(exactly=1, even_samples=True))
        assert schedule.micro_batch_tokens.tolist() == [9, 9]

    def test_what_cannot_be_is_refused(self):
        with pytest.raises(ScheduleError, match=r"^counts\.exactly must be at least 2 for step 0"):
            capped([9, 9, 1, 1, 1], dp_size=2, max_tokens=10, counts=Counts(exactly=1, even_samples=True))
        with pytest.raises(ValueError, match=r"^counts\.even_samples must be False for packing='first-fit', got True"):
            plan(LENGTHS, dp_size=2, max_tokens=99, counts=Counts(even_samples=True))


def test_published_packings_know_the_multiple_alone():
    assert per_rank(plan(LENGTHS, dp_size=2, max_tokens=99, counts=Counts(multiple=3))) == 3
    for counts, name in ((Counts(exactly=3), "exactly"), (Counts(at_least=3), "at_least")):
        with pytest.raises(ValueError, match=rf"^counts.{name} must be (None|1) for packing='first-fit', got 3$"):
            plan(LENGTHS, dp_size=2, max_tokens=99, counts=counts)


class TestOverhead:
    """More micro-batches where they pay."""

    @staticmethod
    def time(schedule, costs, lengths, objective, overhead):
        times = report(schedule, costs, lengths, 1).times
        return times[objective] + overhead * schedule.micro_batches_per_step.sum()

    def test_more_micro_batches_that_level_ranks(self):
        random = np.random.default_rng(1)
        lengths = np.clip(random.lognormal(7.5, 1.2, 256), 1, 16_000).astype(int)
        costs = lengths**2 + 2000 * lengths
        problem = {"costs": costs, "dp_size": 8, "max_tokens": 32_768, "objective": "micro-batch"}
        few = capped(lengths, **problem)
        free, dear = (capped(lengths, **problem, micro_batch_overhead=overhead) for overhead in (1, 10**9))
        assert per_rank(dear) == per_rank(few)
        assert per_rank(free) > per_rank(few)
        assert self.time(free, costs, lengths, "micro-batch", 1) < self.time(few, costs, lengths, "micro-batch", 1)

    @given(
        lengths=st.lists(st.integers(1, 99), min_size=8, max_size=40),
        overhead=st.integers(0, 3000),
        objective=st.sampled_from(["step", "micro-batch"]),
        multiple=st.integers(1, 2),
    )
    def test_never_longer_than_with_as_few_as_the_cap_allows(self, lengths, overhead, objective, multiple):
        costs = [length * length for length in lengths]
        problem = {
            "costs": costs,
            "dp_size": 2,
            "max_tokens": 200,
            "objective": objective,
            "micro_batch_multiple": multiple,
            "on_shortage": "repeat",
        }
        few = capped(lengths, **problem)
        best = capped(lengths, **problem, micro_batch_overhead=overhead)
        assert per_rank(best) % multiple == 0
        assert per_rank(best) >= per_rank(few)
        assert self.time(best, costs, lengths, objective, overhead) <= self.time(
            few, costs, lengths, objective, overhead
        )


class TestStructures:
    def test_keywords_and_structures_are_the_same(self):
        lengths, amounts = [7, 2, 5, 4, 3, 60], [1] * 6
        one = capped(
            lengths,
            dp_size=1,
            max_tokens=16,
            pad_to=(2, 4),
            padded=True,
            extra_budget=(amounts, 2),
            on_oversize="drop",
            micro_batch_multiple=2,
            objective="pipeline",
            pipeline_stages=3,
        )
        other = capped(
            lengths,
            dp_size=1,
            limits=Limits(16, pad_to=(2, 4), padded=True, extra_budget=(amounts, 2), on_oversize="drop"),
            counts=Counts(multiple=2),
            objective="pipeline",
            pipeline=Pipeline(3),
        )
        assert one == other
        assert one.dropped.tolist() == [5]

    @pytest.mark.parametrize(
        ("structure", "keyword"),
        [
            ({"limits": Limits(8)}, {"max_tokens": 8}),
            ({"limits": Limits(8)}, {"pad_to": 2}),
            ({"counts": Counts()}, {"micro_batch_multiple": 2}),
            ({"pipeline": Pipeline(2)}, {"pipeline_stages": 2}),
        ],
        ids=["max_tokens", "pad_to", "micro_batch_multiple", "pipeline_stages"],
    )
    def test_a_structure_beside_its_keyword_is_refused(self, structure, keyword):
        (name,), (argument,) = structure, keyword
        options = {"dp_size": 1, "max_tokens": 8} if name != "limits" else {"dp_size": 1}
        match = f"^{argument} must not be given beside {name}, which holds it, got {keyword[argument]}$"
        with pytest.raises(ValueError, match=match):
            capped([3, 4], objective="pipeline", **{**options, **structure, **keyword})

    @pytest.mark.parametrize(
        ("argument", "kind"), [("limits", "Limits"), ("counts", "Counts"), ("pipeline", "Pipeline")], ids=str
    )
    def test_another_type_is_refused(self, argument, kind):
        with pytest.raises(ValueError, match=f"^{argument} must be a {kind}, got 3$"):
            plan([3, 4], dp_size=1, **{"max_tokens": 8, argument: 3})

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Counts(exactly=3, multiple=2), "exactly must be a multiple of multiple = 2, got 3"),
            (lambda: Counts(exactly=2, at_least=3), "exactly must be >= at_least = 3, got 2"),
            (lambda: Counts(exactly=0), "exactly must be >= 1, got 0"),
            (lambda: Limits(0), "max_tokens must be >= 1, got 0"),
            (lambda: Limits(8, on_oversize="cut"), "on_oversize must be one of alone, drop, error, got 'cut'"),
            (lambda: Pipeline(0), "stages must be >= 1, got 0"),
        ],
        ids=["multiple", "at_least", "exactly", "max_tokens", "on_oversize", "stages"],
    )
    def test_what_breaks_a_rule_is_refused_when_made(self, make, message):
        with pytest.raises(ValueError, match=f"^{message}"):
            make()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"limits": Limits(8, padded=True)}, "limits.padded must be False for packing='first-fit', got True"),
            ({"max_tokens": 8, "pipeline": Pipeline(2)}, "pipeline.stages must be 1 for objective='step', got 2"),
        ],
        ids=["padded", "pipeline"],
    )
    def test_refusals_name_the_field(self, options, message):
        with pytest.raises(ValueError, match=f"^{message}"):
            plan([3, 4], dp_size=1, **options)


def test_trainers_ask_for_numbers():
    args = {"balance_within_cap": True, "use_dynamic_batch_size": True, "max_tokens_per_gpu": 99, "balance_data": True}
    args |= {"flops_model": type("Tokens", (), {"flops": staticmethod(lambda lengths: lengths)})()}
    parallel = {"dp_size": 2, "cp_size": 1}

    def counts(**more):
        return build_dp_schedule(args | more, parallel, LENGTHS, global_batch_size=8, rollout_indices=range(8))[2]

    assert counts() == [1]
    assert counts(micro_batches_per_rank=3) == [3]
    assert counts(min_micro_batches_per_rank=2) == [2]
    with pytest.raises(ScheduleError, match=r"^args.micro_batches_per_rank must be at least 3 for step 0"):
        counts(micro_batches_per_rank=2, max_tokens_per_gpu=9)
