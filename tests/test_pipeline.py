"""When a pipeline ends, against exact answers, closed forms and a reference in fractions."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from flopbalance import Pipeline, plan, report, simulate_pipeline

CASES = json.loads((Path(__file__).parent / "golden" / "pipeline_dev.json").read_text())


@st.composite
def ranks(draw):
    """Costs of one rank, and its pipeline."""
    stages, chunks = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    group = stages + draw(st.integers(0, 2))
    count = draw(st.integers(0, 12)) if chunks == 1 else group * draw(st.integers(0, 3))
    return draw(st.lists(st.integers(0, 50), min_size=count, max_size=count)), stages, chunks, group


def test_all_vectors_are_here():
    assert len(CASES) == 200


@pytest.mark.parametrize("case", [pytest.param(case, id=str(number)) for number, case in enumerate(CASES)])
def test_vector(case):
    costs, stages, chunks, wanted = case["costs"], case["stages"], case["chunks"], Fraction(*case["time"])
    assert simulate_pipeline(costs, stages, chunks) == float(wanted)
    assert reference.pipeline_end(costs, stages, chunks) == wanted


@pytest.mark.parametrize(("stages", "chunks", "count"), [(1, 1, 5), (4, 1, 2), (4, 1, 9), (3, 2, 6), (5, 3, 5)])
def test_equal_micro_batches_fill_and_drain_once(stages, chunks, count):
    assert simulate_pipeline([3] * count, stages, chunks) == float(3 * (count + Fraction(stages - 1, chunks)))


@given(ranks())
def test_the_reference_ends_at_the_same_time(rank):
    assert simulate_pipeline(*rank) == float(reference.pipeline_end(*rank))


@given(ranks(), st.integers(0, 100), st.integers(1, 50))
def test_no_cost_makes_it_shorter(rank, which, more):
    costs, *pipeline = rank
    if costs:
        dearer = [cost + more * (i == which % len(costs)) for i, cost in enumerate(costs)]
        assert simulate_pipeline(dearer, *pipeline) >= simulate_pipeline(costs, *pipeline)


@given(ranks())
def test_it_is_as_long_as_its_parts(rank):
    costs, stages, chunks, _ = rank
    time = simulate_pipeline(*rank)
    assert time >= float(sum(costs) + Fraction((stages - 1) * min(costs, default=0), chunks))
    assert stages * max(costs, default=0) <= time <= stages * sum(costs)


@given(ranks(), st.integers(-30, 30))
def test_the_unit_of_costs_does_not_matter(rank, exponent):
    costs, *pipeline = rank
    floats = [cost * 2.0**exponent for cost in costs]
    assert simulate_pipeline(floats, *pipeline) == simulate_pipeline(costs, *pipeline) * 2.0**exponent


@given(ranks())
def test_one_stage_is_no_pipeline(rank):
    costs, _, chunks, group = rank
    assert simulate_pipeline(costs, 1, chunks, group) == sum(costs)


def test_large_integers_are_rounded_once():
    costs = [2**70 + 1, 2**53 + 1, 3, 2**69]
    for stages, chunks in [(2, 1), (3, 1), (2, 2), (4, 3)]:
        assert simulate_pipeline(costs, stages, chunks) == float(reference.pipeline_end(costs, stages, chunks))


def test_floats_that_round_are_close():
    costs = np.random.default_rng(2).lognormal(0, 3, 24)
    exact = float(reference.pipeline_end([Fraction(cost) for cost in costs], 4, 2))
    assert simulate_pipeline(costs, 4, 2) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(([1], 0), "stages must be >= 1, got 0", id="no-stage"),
        pytest.param(([1], 65_537), "stages must be <= 65536, got 65537", id="stages"),
        pytest.param(([1], 1, 1_025), "chunks must be <= 1024, got 1025", id="chunks"),
        pytest.param(([1] * 4, 4, 2, 2), "group must be >= stages = 4, got 2", id="small-group"),
        pytest.param(([1] * 7, 4, 2), "costs must be of a multiple of group = 4 micro-batches, got 7", id="groups"),
        pytest.param(([1, -2], 4), r"costs\[1\] must be >= 0, got -2", id="negative"),
        pytest.param(([1, float("nan")], 4), r"costs\[1\] must be finite, got NaN", id="nan"),
        pytest.param(([1e308], 4), "costs must leave the time of the pipeline finite, got stages = 4", id="endless"),
    ],
)
def test_what_is_no_pipeline_is_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        simulate_pipeline(*arguments)


def test_many_micro_batches_take_little_time_and_memory():
    costs = np.arange(1_000_000) % 97
    assert simulate_pipeline(costs, 8) >= costs.sum()


def of_micro_batches(schedule, costs):
    """Return the costs of all micro-batches, rank by rank."""
    sums = np.add.reduceat(np.asarray(costs)[schedule.samples], schedule.micro_batch_offsets[:-1])
    return sums.reshape(schedule.dp_size, -1)


def heavy_tailed(count=256):
    lengths = np.random.default_rng(7).lognormal(7, 1.2, count).astype(int) % 16_000 + 1
    return lengths, lengths * 20_000 + lengths**2


class TestPlan:
    def planned(self, objective, samples=None, **more):
        lengths, costs = heavy_tailed() if samples is None else samples
        problem = {"costs": costs, "dp_size": 8, "max_tokens": 16_384, "packing": "capped"} | more
        return of_micro_batches(plan(lengths, objective=objective, **problem), costs)

    short = np.random.default_rng(3).integers(100, 1_000, 800)

    @pytest.mark.parametrize("stages", [2, 4, 8])
    def test_a_pipeline_ends_sooner_than_with_level_ranks(self, stages):
        overhead = 5e6
        level = self.planned("step")
        piped = self.planned("pipeline", pipeline_stages=stages, micro_batch_overhead=overhead)
        ends = [max(simulate_pipeline(rank + overhead, stages) for rank in ranks) for ranks in (piped, level)]
        assert ends[0] < 0.93 * ends[1]

    @pytest.mark.parametrize("stages", [4, 8])
    def test_micro_batches_rise_while_it_fills_and_fall_while_it_drains(self, stages):
        ranks = self.planned("pipeline", (self.short, self.short), pipeline_stages=stages, max_tokens=8_000)
        third = ranks.shape[1] // 3
        assert (ranks[:, 0] < 0.7 * ranks.max(axis=1)).all()
        assert (ranks[:, -1] < ranks[:, third:-third].mean(axis=1)).all()

    def test_an_interleaved_one_gets_whole_groups_and_ends_sooner(self):
        pipeline = Pipeline(4, chunks=2, group=5)
        piped = self.planned("pipeline", pipeline=pipeline)
        plain = self.planned("pipeline", pipeline_stages=4, micro_batch_multiple=5)
        assert piped.shape[1] % 5 == 0
        ends = [max(simulate_pipeline(rank, 4, 2, 5) for rank in ranks) for ranks in (piped, plain)]
        assert ends[0] <= ends[1]

    @pytest.mark.parametrize("stages", [4, 8])
    def test_rows_behind_a_pipeline_end_sooner_than_by_either_objective_alone(self, stages):
        overhead = 5e6
        more = {"pipeline_stages": stages, "micro_batch_overhead": overhead}
        plans = [self.planned("micro-batch", **more), self.planned("micro-batch"), self.planned("pipeline", **more)]
        ends = [simulate_pipeline(ranks.max(axis=0) + overhead, stages) for ranks in plans]
        assert ends[0] < min(ends[1:])

    def test_one_stage_is_no_pipeline_for_rows_either(self):
        assert np.array_equal(self.planned("micro-batch", pipeline_stages=1), self.planned("micro-batch"))

    def test_without_an_overhead_each_micro_batch_counts_a_fiftieth_of_a_full_one(self):
        problem = {"samples": (self.short, self.short), "pipeline_stages": 4, "max_tokens": 8_000}
        told = self.planned("pipeline", **problem, micro_batch_overhead=0.02 * 8_000)
        assert np.array_equal(self.planned("pipeline", **problem), told)
        assert told.shape[1] < self.planned("pipeline", **problem, micro_batch_overhead=0).shape[1]

    def test_the_report_tells_the_end_of_the_pipeline_that_ends_last(self):
        lengths, costs = heavy_tailed()
        schedule = plan(lengths, costs=costs, dp_size=8, max_tokens=16_384)
        told = report(schedule, costs, lengths, 16_384, pipeline_stages=4, micro_batch_overhead=3).pipeline_time
        assert told == max(simulate_pipeline(rank + 3, 4) for rank in of_micro_batches(schedule, costs))
