"""What a schedule comes to, against the definitions."""

import re
from pathlib import Path

import numpy as np
import pytest

import reference
from flopbalance import BalanceReport, Pipeline, plan, report, simulate_pipeline


def test_times_by_brute_force():
    """The three times from their definitions, over nested lists."""
    lengths = np.random.RandomState(3).randint(1, 100, size=60)
    schedule = plan(lengths, dp_size=3, max_tokens=150, global_batch_size=20)
    measured = report(schedule, lengths, lengths, 150, pipeline_stages=4)
    mean = step = row = pipeline = bound = 0
    ranks = [list(schedule.rank(rank).steps()) for rank in range(3)]
    for parts in zip(*ranks, strict=True):
        costs = [[int(lengths[batch].sum()) for batch in part] for part in parts]
        mean += sum(map(sum, costs)) / 3
        step += max(map(sum, costs))
        row += sum(map(max, zip(*costs, strict=True)))
        pipeline += float(max(reference.pipeline_end(part, 4) for part in costs))
        bound += max(sum(map(sum, costs)) / 3, max(lengths[batch].max() for part in parts for batch in part))
    assert measured.mean_time == pytest.approx(mean)
    assert measured.times == pytest.approx({"step": step, "micro-batch": row, "pipeline": pipeline}, rel=1e-15)
    assert measured.lower_bound == pytest.approx(bound)
    assert measured.excess(measured.step_time) == pytest.approx(step / bound - 1)


def test_a_small_schedule():
    lengths = [9, 1, 9, 1, 4, 4]
    schedule = plan(lengths, dp_size=2, max_tokens=9, global_batch_size=2, balance_ranks=False)
    # Steps (9 | 1), (9 | 1) and (4 | 4); ranks meet after each.
    measured = report(schedule, lengths, lengths, 8, pipeline_stages=3)
    assert measured.mean_time == 14
    assert measured.times == {"step": 22, "micro-batch": 22, "pipeline": 66}
    assert (measured.micro_batches, measured.largest_tokens, measured.over_cap) == (6, 9, 0)
    assert measured.idle_share("step") == pytest.approx(8 / 22)
    assert measured.idle_shares.tolist() == pytest.approx([0, 16 / 22])


def test_waiting_at_micro_batches_is_not_waiting_at_steps():
    lengths = [9, 1, 1, 9]
    schedule = plan(lengths, dp_size=2, micro_batch_size=1, packing="fixed", balance_ranks=False)
    measured = report(schedule, lengths, lengths, 8, pipeline_stages=2)
    assert measured.times == {"step": 10, "micro-batch": 18, "pipeline": 56 / 3}


def test_every_micro_batch_of_a_pipeline_has_the_overhead():
    lengths = [9, 1, 1, 9]
    schedule = plan(lengths, dp_size=2, micro_batch_size=1, packing="fixed", balance_ranks=False)
    measured = report(schedule, lengths, lengths, 8, pipeline_stages=3, micro_batch_overhead=100)
    assert measured.times == {"step": 10, "micro-batch": 18, "pipeline": 1268 / 3}


def test_a_micro_batch_of_several_samples_is_over_the_cap_and_a_single_one_is_not():
    assert report(plan([5, 5], dp_size=1, max_tokens=10), [1, 1], [5, 5], 9).over_cap == 1
    assert report(plan([10], dp_size=1, max_tokens=9), [1], [10], 9).over_cap == 0


def test_a_logger_gets_what_is_documented():
    lengths = [9, 1, 4, 5, 7]
    schedule = plan(lengths, dp_size=1, max_tokens=20, rollout_ids=[0, 1, 1, 1, 2], global_batch_size=1)
    metrics = report(schedule, lengths, lengths, 20).as_dict()
    assert all(isinstance(value, int | float) for value in metrics.values())
    assert (metrics["step_samples_min"], metrics["step_samples_max"]) == (1, 3)
    assert (metrics["step_tokens_min"], metrics["step_tokens_max"]) == (7, 10)
    assert (metrics["steps"], metrics["samples"], metrics["tokens"]) == (3, 5, 26)
    assert set(re.findall("``(.*?)``", BalanceReport.as_dict.__doc__)) == set(metrics)
    page = (Path(__file__).parent.parent / "docs" / "objectives.md").read_text(encoding="utf-8")
    rows = page.partition("| key | meaning |")[2].partition("\n\n")[0]
    assert set(re.findall("`(.*?)`", rows)) == set(metrics)


def test_every_line_has_its_own_name():
    lengths = [9, 1, 4]
    text = str(report(plan(lengths, dp_size=1, max_tokens=20), lengths, lengths, 20))
    names = [line.split()[0] for line in text.splitlines()]
    assert len(set(names)) == len(names)
    assert "in 1 step;" in text


def test_arguments_in_the_wrong_order_are_refused():
    lengths, costs = [5, 1, 3], [25, 1, 9]
    with pytest.raises(ValueError, match="lengths must be those that were planned, got 35 tokens in micro-batch 0"):
        report(plan(lengths, dp_size=1, max_tokens=9), lengths, costs, 9)


def test_samples_above_the_cap_by_themselves_are_counted():
    lengths = [22_000, 80, 1500, 10]
    measured = report(plan(lengths, dp_size=4, max_tokens=1000), lengths, lengths, 1000)
    assert (measured.over_cap, measured.alone_over_cap, measured.longest_alone) == (0, 2, 22_000)
    figures = measured.as_dict()
    assert (figures["alone_over_cap"], figures["longest_alone"]) == (2, 22_000)
    assert "0 over the cap, the worst at 0.00 of it; 2 samples above it alone, the longest of 22,000" in str(measured)
    assert "alone" not in str(report(plan(lengths, dp_size=4, max_tokens=22_000), lengths, lengths, 22_000))


@pytest.mark.parametrize(
    ("costs", "options"),
    [
        pytest.param([0.2, 0.0], {"micro_batch_overhead": 8e307}, id="ratio"),
        pytest.param([1, 2], {"micro_batch_overhead": 1.7e308}, id="overhead"),
        pytest.param([8e307, 2.0], {"pipeline_stages": 9}, id="stages"),
    ],
)
def test_times_that_no_float_holds_are_refused(costs, options):
    schedule = plan([1, 2], dp_size=1, max_tokens=2)
    with pytest.raises(
        ValueError,
        match="costs, pipeline_stages and micro_batch_overhead must leave times and their ratios finite, got",
    ):
        report(schedule, costs, [1, 2], 2, **options)


def test_an_interleaved_pipeline_is_told_by_its_structure():
    lengths = list(range(1, 9))
    schedule = plan(lengths, dp_size=2, max_tokens=8, micro_batch_multiple=4, balance_ranks=False)
    steps = [next(schedule.rank(rank).steps()) for rank in range(2)]
    costs = [[sum(lengths[i] for i in batch) for batch in step] for step in steps]
    told = report(schedule, lengths, lengths, 8, pipeline=Pipeline(4, chunks=2)).pipeline_time
    assert told == pytest.approx(max(simulate_pipeline(rank, 4, 2) for rank in costs))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"pipeline": 4}, "pipeline must be a Pipeline, got 4", id="number"),
        pytest.param(
            {"pipeline": Pipeline(2), "pipeline_stages": 2},
            "pipeline_stages must not be given beside pipeline, which holds it, got 2",
            id="both",
        ),
        pytest.param(
            {"pipeline": Pipeline(2, chunks=2)},
            "every step of schedule must be of a multiple of group = 2 micro-batches, got 3",
            id="groups",
        ),
    ],
)
def test_what_is_no_pipeline_of_the_schedule_is_refused(options, message):
    schedule = plan([5, 5, 5], dp_size=1, max_tokens=5)
    with pytest.raises(ValueError, match=f"^{message}$"):
        report(schedule, [5, 5, 5], [5, 5, 5], 5, **options)


class TestForced:
    """What the cap does not spare ranks that meet at every micro-batch."""

    def test_a_giant_leaves_the_others_of_its_row_short(self):
        lengths, costs = [10, 5, 5, 5, 5, 5, 5], [100, 5, 5, 5, 5, 5, 5]
        schedule = plan(lengths, costs=costs, dp_size=2, max_tokens=10, packing="capped", objective="micro-batch")
        figures = report(schedule, costs, lengths, 10)
        assert figures.micro_batch_time == 110
        assert figures.micro_batch_lower_bound == pytest.approx(110)
        assert figures.lower_bound == 100
        assert figures.as_dict()["micro_batch_forced"] == pytest.approx(0.1)
        assert "110, 10.00% above the lower bound 100; 10.00 points of that are forced by the cap" in str(figures)

    @pytest.mark.parametrize("seed", range(6))
    def test_no_plan_is_below_it(self, seed):
        random = np.random.default_rng(seed)
        lengths = np.clip(random.lognormal(7, 1.5, 300), 1, 16_000).astype(int)
        costs = lengths**2 + 3000 * lengths
        for objective in ("step", "micro-batch"):
            schedule = plan(
                lengths,
                costs=costs,
                dp_size=4,
                max_tokens=16_384,
                global_batch_size=100,
                packing="capped",
                objective=objective,
            )
            figures = report(schedule, costs, lengths, 16_384)
            assert figures.lower_bound <= figures.micro_batch_lower_bound <= figures.micro_batch_time
