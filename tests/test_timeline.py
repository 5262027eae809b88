"""The numbers behind the pictures, against sums taken one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopbalance import CostModel, Pipeline, plan, simulate_pipeline
from flopbalance.reports.timeline import Distribution, idle_share, timelines, worst_step


@st.composite
def planned(draw):
    lengths = draw(st.lists(st.integers(1, 50), min_size=4, max_size=40).filter(lambda drawn: len(drawn) % 2 == 0))
    costs = [length * length + 7 for length in lengths]
    batch = draw(st.sampled_from([4, len(lengths)]))
    packing = draw(st.sampled_from(["first-fit", "flops"]))
    schedule = plan(lengths, costs=costs, dp_size=2, max_tokens=40, global_batch_size=batch, packing=packing)
    return lengths, costs, schedule


@given(planned(), st.sampled_from(["step", "micro-batch"]))
def test_a_time_line_is_what_a_stopwatch_would_say(problem, objective):
    lengths, costs, schedule = problem
    lines = timelines(schedule, costs, max_tokens=40, objective=objective)
    steps = [list(schedule.rank(rank).steps()) for rank in range(2)]
    assert [line.step for line in lines] == list(range(len(steps[0])))
    for line, *ranks in zip(lines, *steps, strict=True):
        works = [[sum(costs[i] for i in batch) for batch in batches] for batches in ranks]
        clocks, expected = [0, 0], []
        for j in range(len(works[0])):
            expected.append(list(clocks))
            clocks = [clock + work[j] for clock, work in zip(clocks, works, strict=True)]
            if objective == "micro-batch":
                clocks = [max(clocks)] * 2
        assert line.starts.T.tolist() == expected
        assert line.costs.tolist() == works
        assert line.duration == max(clocks)
        assert (line.busy + line.idle).tolist() == [line.duration] * 2
        assert line.tokens.tolist() == [[sum(lengths[i] for i in batch) for batch in batches] for batches in ranks]
        assert line.over_cap.tolist() == [[max(tokens - 40, 0) for tokens in rank] for rank in line.tokens.tolist()]
        assert line.samples.tolist() == [[len(batch) for batch in batches] for batches in ranks]
    total = sum(line.duration for line in lines)
    assert idle_share(lines) == pytest.approx(sum(line.idle.sum() for line in lines) / total / 2)
    assert lines[worst_step(lines)].idle.sum() == max(line.idle.sum() for line in lines)


@given(planned())
def test_ranks_that_meet_more_often_wait_no_less(problem):
    _, costs, schedule = problem
    by_step, by_batch = (timelines(schedule, costs, objective=objective) for objective in ("step", "micro-batch"))
    for seldom, often in zip(by_step, by_batch, strict=True):
        assert seldom.duration <= often.duration
        assert (seldom.idle <= often.idle).all()


def test_a_pipeline_is_drawn_as_its_last_stage_works():
    # Ranks of (9, 1) and (1, 9). The first stage takes 9 forward until 3, the last forward and back from then until 12.
    schedule = plan([9, 1, 1, 9], dp_size=2, micro_batch_size=1, packing="fixed", balance_ranks=False)
    (line,) = timelines(schedule, [9, 1, 1, 9], objective="pipeline", pipeline=Pipeline(2))
    assert line.costs.tolist() == [[9, 1], [1, 9]]
    ends = [simulate_pipeline(rank, 2) for rank in line.costs]
    assert line.starts == pytest.approx(np.array([[3, 12], [1 / 3, 10 / 3]]))
    assert line.duration == max(ends)
    assert line.waits == pytest.approx(np.array([[0, ends[0] - 13], [2, max(ends) - 37 / 3]]))
    assert line.busy + line.idle == pytest.approx(np.full(2, line.duration))


def test_only_single_samples_are_alone_above_the_cap():
    schedule = plan([9, 5, 5], dp_size=2, max_tokens=10, balance_ranks=False)
    (line,) = timelines(schedule, [1, 1, 1], max_tokens=8)
    assert line.over_cap.tolist() == [[1], [2]]
    assert line.alone.tolist() == [[True], [False]]
    assert line.breaks_cap.tolist() == [[False], [True]]


def test_without_a_cap_nothing_is_above():
    assert not timelines(plan([9, 5], dp_size=2, max_tokens=3), [1, 1])[0].over_cap.any()


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 1000)), min_size=1, max_size=50))
def test_a_distribution_counts_every_sample_once(samples):
    lengths, costs = zip(*samples, strict=True)
    distribution = Distribution.of(lengths, costs)
    assert distribution.samples.sum() == pytest.approx(1)
    assert distribution.costs.sum() == pytest.approx(1 if any(costs) else 0)
    assert distribution.samples[0] > 0 < distribution.samples[-1]
    assert np.ptp(np.diff(np.log2(distribution.edges))) < 1e-9
    low_edges, high_edges = distribution.edges[:-1], distribution.edges[1:]
    for low, high, share in zip(low_edges, high_edges, distribution.samples, strict=True):
        assert share == pytest.approx(sum(low <= max(length, 1) < high for length in lengths) / len(lengths))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"costs": [1, 2, 3]}, r"costs must hold one cost for each of the 2 samples, got 3"),
        ({"costs": [1, -2]}, r"costs\[1\] must be >= 0, got -2"),
        ({"costs": [1, -0.5]}, r"costs\[1\] must be >= 0, got -0.5"),
        ({"costs": [float("nan"), 1.0]}, r"costs\[0\] must be finite, got NaN"),
        ({"costs": [[1, 2]]}, r"costs must have one dimension, got 2"),
        ({"costs": CostModel}, r"costs must be an array, or an object with flops\(lengths\), got <class"),
        ({"costs": 7}, r"costs must be an array, or an object with flops\(lengths\), got 7"),
        ({"costs": [1, 2], "max_tokens": 0}, r"max_tokens must be >= 1, got 0"),
        ({"costs": [1, 2], "objective": "pipe"}, r"objective must be one of step, micro-batch, pipeline, got 'pipe'"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    schedule = plan([3, 4], dp_size=2, max_tokens=4)
    with pytest.raises(ValueError, match=message):
        timelines(schedule, **arguments)


def test_a_distribution_of_nothing_is_refused():
    with pytest.raises(ValueError, match="lengths must hold at least one length, got none"):
        Distribution.of([], [])
