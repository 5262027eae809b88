"""Numbers at the ends of their types: an answer or a refusal, and never a warning, which these tests raise."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from flopbalance import CostModel, FittedCost, check_costs, explain, plan, report

TOKENS = st.sampled_from([0, 1, 2, 5, 2**31, 2**53 + 1, 2**62, 2**63 - 1])
FLOATS = st.sampled_from([0.0, -0.0, 5e-324, 1e-300, 0.1, 1.0, 1e300, 8e307, 1.7e308])
INTEGERS = st.sampled_from([0, 1, 2**53 + 1, 2**63, 2**70, 2**126])
COEFFICIENTS = st.sampled_from([0, 1, 2**58])
CAPS = st.sampled_from([1, 5, 2**31, 2**63 - 1])
WINDOWS = st.sampled_from([(), ((5, 2**58),)])
REFUSED = contextlib.suppress(ValueError, OverflowError)


@given(
    samples=st.lists(st.tuples(TOKENS, FLOATS | INTEGERS), min_size=1, max_size=6),
    dp_size=st.integers(1, 3),
    cap=CAPS,
    objective=st.sampled_from(["step", "micro-batch", "pipeline"]),
    stages=st.sampled_from([1, 4, 2**16]),
    overhead=FLOATS,
)
def test_plans_and_reports(samples, dp_size, cap, objective, stages, overhead):
    lengths, costs = [length for length, _ in samples], [cost for _, cost in samples]
    pipeline = {"pipeline_stages": stages, "micro_batch_overhead": overhead}
    settings = {"dp_size": dp_size, "max_tokens": cap, "packing": "capped", "objective": objective}
    settings |= pipeline if objective == "pipeline" else {}
    with REFUSED:
        schedule = plan(lengths, costs=costs, on_shortage="repeat", **settings)
        schedule._repr_html_()
        with REFUSED:
            str(explain(schedule, lengths, costs, settings))
        measured = report(schedule, costs, lengths, cap, **pipeline)
        assert str(measured)
        assert all(value == value for value in measured.as_dict().values())


@given(
    lengths=st.lists(TOKENS, min_size=1, max_size=6),
    fitted=st.tuples(FLOATS, FLOATS, FLOATS, FLOATS, st.integers(1, 2), WINDOWS),
    exact=st.tuples(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, WINDOWS),
    seconds=st.lists(FLOATS, min_size=6, max_size=6),
)
def test_costs(lengths, fitted, exact, seconds):
    batches = [[length] for length in lengths]
    for cost in (FittedCost(*fitted), CostModel(*exact)):
        assert cost.describe()
        for ask in (cost.flops, cost.weights):
            with REFUSED:
                assert all(0 <= value < float("inf") for value in ask(lengths))
        with REFUSED:
            assert str(check_costs(cost, batches, seconds[: len(batches)]))
    with REFUSED:
        FittedCost(*fitted).predict(batches)


@given(st.lists(st.tuples(st.lists(TOKENS, min_size=1, max_size=3), FLOATS), min_size=10, max_size=14), st.booleans())
def test_fits(runs, per_sequence):
    with REFUSED:
        CostModel.fit([lengths for lengths, _ in runs], [seconds for _, seconds in runs], per_sequence=per_sequence)
