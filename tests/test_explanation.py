"""Explanations: what they name is what a count by hand finds, and what they promise is what planning gives."""

import re

import numpy as np
import pytest

from flopbalance import CostModel, Pipeline, explain, plan, report
from flopbalance.reports.timeline import idle_share, timelines

CAP = 4096
RANKS = 4


@pytest.fixture(scope="module", params=["step", "micro-batch"])
def objective(request):
    return request.param


@pytest.fixture(scope="module")
def problem():
    lengths = np.minimum(np.random.RandomState(0).lognormal(6, 1.3, 256).astype(np.int64) + 1, CAP)
    settings = {"dp_size": RANKS, "max_tokens": CAP, "global_batch_size": 64, "balance_ranks": False}
    costs = 2048 * lengths + lengths**2
    return plan(lengths, costs=costs, **settings), lengths, costs, settings


@pytest.fixture(scope="module")
def explanation(problem, objective):
    return explain(*problem, objective=objective)


def works(problem, step):
    schedule, _, costs, _ = problem
    batches = [list(schedule.rank(rank).steps())[step] for rank in range(RANKS)]
    return batches, np.array([[costs[batch].sum() for batch in row] for row in batches])


def waits(work, objective):
    """Return how long each rank waits, and for how long on average others wait for it."""
    if objective == "step":
        busy = work.sum(axis=1)
        return busy.max() - busy, np.where(busy == busy.max(), busy.max() - busy.mean(), 0)
    blame = np.zeros(RANKS)
    for column in work.T:
        blame[column.argmax()] += column.max() - column.mean()
    return (work.max(axis=0) - work).sum(axis=1), blame


def test_it_names_the_step_with_the_most_waiting(problem, objective, explanation):
    idle = [waits(works(problem, step)[1], objective)[0].sum() for step in range(4)]
    assert (explanation.step, explanation.steps) == (np.argmax(idle), 4)
    _, work = works(problem, explanation.step)
    assert explanation.duration == (work.sum(axis=1).max() if objective == "step" else work.max(axis=0).sum())
    assert explanation.mean == work.sum() / RANKS


def test_it_names_the_rank_that_is_late_and_the_samples_that_make_it_so(problem, objective, explanation):
    _, lengths, costs, _ = problem
    batches, work = works(problem, explanation.step)
    _, blame = waits(work, objective)
    assert explanation.rank == blame.argmax()
    assert explanation.late == pytest.approx(blame.max())
    mine = batches[explanation.rank]
    if objective == "micro-batch":
        mine = [batch for batch, column in zip(mine, work.T, strict=True) if column.argmax() == explanation.rank]
    dearest_first = sorted(np.concatenate(mine).tolist(), key=lambda sample: (-costs[sample], sample))
    named = [cause.sample for cause in explanation.causes]
    assert named == dearest_first[: len(named)]
    assert sum(costs[named]) >= explanation.late > sum(costs[named[:-1]])
    for cause in explanation.causes:
        assert (cause.tokens, cause.cost) == (lengths[cause.sample], costs[cause.sample])


def test_the_bound_is_the_mean_rank_or_the_dearest_sample(problem, explanation):
    batches, work = works(problem, explanation.step)
    samples = np.concatenate([batch for row in batches for batch in row])
    costs = problem[2]
    assert explanation.dearest.sample == samples[costs[samples] == costs[samples].max()].min()
    assert explanation.bound == max(work.sum() / RANKS, costs[samples].max())
    assert explanation.bound <= explanation.duration


def test_one_long_sample_is_named_as_the_bound():
    lengths = [900, 10, 10, 10]
    settings = {"dp_size": 2, "max_tokens": 900}
    explanation = explain(plan(lengths, **settings), lengths, lengths, settings)
    assert explanation.bound == 900
    assert "which sample 0 of 900 tokens takes by itself" in str(explanation)


def test_every_alternative_was_planned(problem, objective, explanation):
    _, lengths, costs, settings = problem
    tried = {name for alternative in explanation.alternatives for name in alternative.settings}
    assert tried == {"packing", "balance_ranks", "objective", "max_tokens", "dp_size", "global_batch_size"}
    for alternative in explanation.alternatives:
        changed = settings | alternative.settings
        lines = timelines(
            plan(lengths, costs=costs, **changed), costs, max_tokens=changed["max_tokens"], objective=objective
        )
        assert alternative.idle_share == idle_share(lines)
        assert alternative.largest_tokens == max(line.tokens.max() for line in lines)
        assert alternative.over_cap == sum(line.breaks_cap.sum() for line in lines)
    shares = [alternative.idle_share for alternative in explanation.alternatives]
    assert shares == sorted(shares)


def test_the_best_keeps_its_cap(explanation):
    assert explanation.best.over_cap == 0
    better = [a for a in explanation.alternatives if a.idle_share < explanation.best.idle_share]
    assert all(alternative.over_cap for alternative in better)
    assert any(alternative.over_cap for alternative in explanation.alternatives)  # else this test says little


def test_the_text_holds_all_of_it(explanation):
    text = str(explanation)
    assert text.startswith(f"Step {explanation.step} of 0–3 takes ")
    assert f"Rank {explanation.rank} is the slowest" in text
    for cause in explanation.causes[:5]:
        assert re.search(rf"sample {cause.sample} +{cause.tokens:,} tokens  ", text)
    rows = {re.split(r" {2,}", line)[0]: re.split(r" {2,}", line)[1:] for line in text.splitlines()}
    for row in (explanation.now, *explanation.alternatives):
        assert rows[row.change] == [f"{row.idle_share:.1%}", f"{row.largest_tokens:,}", str(row.over_cap)]
    assert f"Most would help: {explanation.best.change}, " in text


def test_what_cannot_be_planned_says_why(problem):
    _, lengths, costs, settings = problem
    settings = settings | {"global_batch_size": len(lengths)}
    explanation = explain(plan(lengths, costs=costs, **settings), lengths, costs, settings)
    (change,) = explanation.refused
    assert change == "512 rollouts in a step"
    assert f"No schedule with {change}: {explanation.refused[change]}" in str(explanation)


def test_dropped_samples_are_told():
    lengths = [5, 4, 3, 2, 1, 1]
    settings = {"dp_size": 1, "max_tokens": 5, "global_batch_size": 2}
    explanation = explain(plan(lengths, **settings), lengths, lengths, settings)
    assert "4 rollouts in a step (2 samples dropped)" in str(explanation)


def test_fixed_micro_batches_vary_by_samples(problem):
    _, lengths, costs, _ = problem
    settings = {"dp_size": 2, "micro_batch_size": 2, "packing": "fixed"}
    explanation = explain(plan(lengths, costs=costs, **settings), lengths, costs, settings)
    tried = {name for alternative in explanation.alternatives for name in alternative.settings}
    assert tried == {"micro_batch_size", "dp_size", "global_batch_size"}
    assert "1 sample per micro-batch" in [alternative.change for alternative in explanation.alternatives]
    assert all(alternative.settings.get("dp_size") != 1 for alternative in explanation.alternatives)


def test_balance_needs_no_help():
    settings = {"dp_size": 2, "max_tokens": 5}
    explanation = explain(plan([5, 5], **settings), [5, 5], [5, 5], settings)
    assert explanation.best is None
    assert (explanation.late, explanation.causes) == (0, ())
    assert str(explanation).startswith("The only step takes 5 FLOPs, and no rank waits")
    assert str(explanation).endswith("None of these would let ranks wait less and keep the cap.")


def test_a_cost_object_explains_as_its_costs_do():
    lengths, settings, model = [90, 20, 70, 20], {"dp_size": 2, "max_tokens": 100}, CostModel(7, per_pair=2)
    schedule = plan(lengths, costs=model, **settings)
    assert explain(schedule, lengths, model, settings) == explain(schedule, lengths, model.flops(lengths), settings)


def test_arguments_in_the_wrong_order_are_refused_by_name():
    lengths, settings = [5, 1, 3], {"dp_size": 1, "max_tokens": 9}
    schedule, costs = plan(lengths, **settings), [25, 1, 9]
    for arguments, message in [
        (
            (schedule, costs, lengths, settings),
            "lengths must be those that were planned, got 35 tokens in micro-batch 0",
        ),
        ((schedule, CostModel(7), lengths, settings), "lengths must be one flat sequence of numbers, got CostModel"),
        ((lengths, costs, settings, schedule), "schedule must be a Schedule, as plan returns it, got list"),
        ((schedule, lengths, settings, costs), "costs must be one flat sequence of numbers, got dict"),
        ((schedule, lengths, costs, 9), "settings must be a mapping of the other arguments of plan, got int"),
        ((schedule, lengths, costs, {"cap": 9}), "settings must hold other arguments of plan, got 'cap'"),
        ((schedule, lengths, costs, {"dp_size": 1}), "settings must hold max_tokens, .* got dp_size"),
    ]:
        with pytest.raises(ValueError, match=message):
            explain(*arguments)


@pytest.mark.parametrize(
    ("lengths", "costs", "message"),
    [
        ([1], [1, 1], "lengths must hold one length for each of 2 samples, got 1"),
        ([1, 1], [1], "costs must hold one cost for each of the 2 samples, got 1"),
        ([1, -1], [1, 1], r"lengths\[1\] must be >= 0, got -1"),
    ],
)
def test_bad_arguments_are_refused_by_name(lengths, costs, message):
    settings = {"dp_size": 2, "max_tokens": 5}
    with pytest.raises(ValueError, match=message):
        explain(plan([1, 1], **settings), lengths, costs, settings)


@pytest.mark.parametrize("limits", [{"on_oversize": "error"}, {"pad_to": (1, 10)}, {"max_tokens": 2**62 + 1}])
def test_what_it_makes_up_itself_is_never_an_error(limits):
    settings = {"dp_size": 2, "max_tokens": 10, **limits}
    lengths = [9, 8, 7, 6, 5, 4, 3, 2]
    explanation = explain(plan(lengths, **settings), lengths, lengths, settings)
    assert explanation.alternatives


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param(
            {"dp_sise": 2}, "settings must hold other .* got 'dp_sise': did you mean 'dp_size'", id="misspelt"
        ),
        pytest.param({"max_tokens": "8"}, r"settings\['max_tokens'\] must be a whole number, got '8'", id="text"),
        pytest.param(
            {"balance_ranks": np.array([1, 0])}, r"settings\['balance_ranks'\] must be True or False", id="array"
        ),
    ],
)
def test_settings_are_refused_by_name(settings, message):
    schedule = plan([3, 4], dp_size=1, max_tokens=8)
    with pytest.raises(ValueError, match=message):
        explain(schedule, [3, 4], [3, 4], {"dp_size": 1, "max_tokens": 8, **settings})


def test_the_largest_cap_has_no_double():
    settings = {"dp_size": 1, "max_tokens": 2**63 - 1}
    explain(plan([3, 4], **settings), [3, 4], [3, 4], settings)


def test_a_pipeline_is_late_by_its_end(problem):
    schedule, lengths, costs, settings = problem
    explanation = explain(*problem, objective="pipeline", pipeline=Pipeline(4))
    (line,) = timelines(schedule, costs, objective="pipeline", pipeline=Pipeline(4))[explanation.step :][:1]
    ends = line.starts[:, -1] + line.costs[:, -1]
    assert explanation.duration == line.duration
    assert explanation.duration >= ends[explanation.rank]
    assert explanation.bound >= 4 * explanation.dearest.cost
    assert "where each rank is a pipeline of 4 stages" in str(explanation)
    within = next(a for a in explanation.alternatives if a.change == "packing within the cap")
    planned = plan(lengths, costs=costs, **{**settings, **within.settings})
    measured = report(planned, costs, lengths, CAP, pipeline=Pipeline(4))
    assert within.idle_share == pytest.approx(measured.idle_share("pipeline"))
    assert within.idle_share < explanation.now.idle_share


def test_a_pipeline_belongs_to_its_objective(problem):
    with pytest.raises(ValueError, match=r"^pipeline must be given for objective='pipeline', got None$"):
        explain(*problem, objective="pipeline")
    with pytest.raises(ValueError, match=r"^pipeline must be None for objective='step', got Pipeline"):
        explain(*problem, pipeline=Pipeline(4))
