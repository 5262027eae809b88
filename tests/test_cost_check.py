"""The dry-run check: what it says of right, wrong and useless costs."""

from __future__ import annotations

import numpy as np
import pytest

from flopbalance import CostModel, check_costs, plan
from tensor import Tensor
from test_calibration import measured, mixed_batches, noisy, times_of


class Tokens:
    """A sample costs its tokens."""

    def flops(self, lengths):
        return lengths


class Backwards:
    """Long samples cost least."""

    def flops(self, lengths):
        return 1 / np.asarray(lengths, dtype=float)


TINY = {
    "num_layers": 2,
    "hidden_size": 128,
    "num_attention_heads": 2,
    "kv_channels": 64,
    "ffn_hidden_size": 352,
    "vocab_size": 512,
}


def test_verdicts_on_real_measurements():
    batches, times = measured()
    fitted = check_costs(CostModel.fit(batches[::2], times[::2]), batches[1::2], times[1::2])
    assert fitted.verdict == "trust"
    assert fitted.relative_error <= 0.12
    assert fitted.scale == pytest.approx(1, abs=0.1)
    flops = check_costs(CostModel.from_args(TINY), batches, times)
    assert flops.verdict == "trust"
    assert flops.rank_correlation > 0.97
    tokens = check_costs(Tokens(), batches, times)
    assert tokens.verdict == "calibrate"
    assert tokens.relative_error == pytest.approx(0.21, abs=0.01)
    assert check_costs(Backwards(), [[n] for (n, *_) in batches], [sum(b) for b in batches]).verdict == "unusable"


def test_a_wrong_model_is_found():
    random = np.random.default_rng(0)
    windowed = CostModel.from_name("qwen3.5-0.8b")
    batches = [(random.lognormal(9, 1, random.integers(1, 8)) + 1).astype(int) for _ in range(60)]
    seconds = noisy(random, np.array([float(windowed.total_flops(batch)) for batch in batches]) * 1e-15)
    assert check_costs(windowed, batches, seconds).verdict == "trust"
    assert check_costs(CostModel.from_name("qwen3-0.6b"), batches, seconds).verdict == "calibrate"


def test_noise_without_a_pattern_is_unusable():
    random = np.random.default_rng(1)
    batches = mixed_batches(random)
    assert check_costs(Tokens(), batches, random.lognormal(0, 1, len(batches))).verdict == "unusable"


def test_times_that_hardly_differ_have_no_order_to_predict():
    random = np.random.default_rng(2)
    check = check_costs(Tokens(), [[1000]] * 40, noisy(random, np.ones(40)))
    assert (check.verdict, check.rank_correlation) == ("trust", 0)


def test_rank_correlation_shares_the_places_of_ties():
    check = check_costs(Tokens(), [[1], [2], [2], [4]], [1.0, 2.0, 3.0, 4.0])
    assert check.rank_correlation == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert check_costs(Tokens(), [[1], [2], [3]], [3.0, 2.0, 1.0]).rank_correlation == -1


def test_imbalance_between_ranks():
    batches, seconds = [[1], [2], [3], [6]], [1.0, 1.0, 2.0, 4.0]
    check = check_costs(Tokens(), batches, seconds, ranks=[7, 7, 3, 3])
    assert (check.predicted_imbalance, check.measured_imbalance) == (9 / 6, 6 / 4)
    alone = check_costs(Tokens(), batches, seconds)
    assert (alone.predicted_imbalance, alone.measured_imbalance) == (6 / 3, 4 / 2)


def test_a_schedule_knows_its_ranks():
    lengths = [9, 1, 5, 5, 3, 7]
    schedule = plan(lengths, dp_size=2, max_tokens=10, balance_ranks=False)
    seconds = schedule.micro_batch_tokens.astype(float)
    check = check_costs(Tokens(), schedule, seconds, lengths=lengths)
    ranks = schedule.token_counts.sum(axis=1)
    assert check.measured_imbalance == check.predicted_imbalance == ranks.max() / ranks.mean()


def test_the_scale_is_the_unit_of_the_cost():
    batches = mixed_batches(np.random.default_rng(3))
    check = check_costs(CostModel(per_token=2000), batches, [2e-6 * float(sum(batch)) for batch in batches])
    assert check.scale == pytest.approx(1e-9)
    assert check.relative_error < 1e-9


@pytest.mark.parametrize(
    ("batches", "seconds", "options", "message"),
    [
        ([[1]], [1.0], {}, "micro_batches must hold at least two to compare, got 1"),
        ([[1], [2]], [1.0], {}, "seconds must hold one time for each of 2"),
        ([[1], [2]], [1.0, 2.0], {"ranks": [0]}, "ranks must name one for each of 2 micro-batches, got 1"),
        ([[1], [0]], [1.0, 2.0], {}, r"cost must be from 1e-60 to .* got 0.0 for micro_batches\[1\]"),
    ],
)
def test_bad_measurements(batches, seconds, options, message):
    with pytest.raises(ValueError, match=message):
        check_costs(Tokens(), batches, seconds, **options)


@pytest.mark.parametrize("cost", ["qwen3-8b", None, [1, 2], CostModel])
def test_what_is_no_cost_is_refused(cost):
    with pytest.raises(ValueError, match=r"cost must have flops\(lengths\), as CostModel.* got "):
        check_costs(cost, [[1], [2]], [1.0, 2.0])


@pytest.mark.parametrize("of_others", [Tensor(None), 3, object()], ids=["tensor", "number", "object"])
def test_what_are_no_micro_batches_is_refused(of_others):
    with pytest.raises(ValueError, match=r"^micro_batches must be a schedule, a tuple of .*, got "):
        check_costs(CostModel(per_token=1), of_others, [])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0], "costs must hold one cost for each of the 2 samples, got 1"),
        (None, "costs must be one flat sequence of numbers, got NoneType"),
        ([1.0, float("inf")], r"costs\[1\] must be finite, got inf"),
        ([1.0, float("nan")], r"costs\[1\] must be finite, got NaN"),
    ],
    ids=str,
)
def test_costs_that_return_nonsense_are_refused(values, message):
    class Nonsense:
        def flops(self, lengths):
            return values

    with pytest.raises(ValueError, match=message):
        check_costs(Nonsense(), [[1], [2]], [1.0, 2.0])


def test_a_fit_predicts_its_constant_per_micro_batch():
    batches = mixed_batches(np.random.default_rng(4))
    seconds = times_of(batches, c0=0.5)
    check = check_costs(CostModel.fit(batches, seconds), batches, seconds)
    assert check.relative_error < 1e-6


def test_no_trust_where_the_imbalance_is_missed():
    """Tokens sort these micro-batches and come close to most, but not to the one that others wait for."""
    batches = [[1000 + i] for i in range(60)] + [[2600]]
    seconds = [1e-6 * sum(n * n for n in batch) for batch in batches]
    check = check_costs(CostModel(1), batches, seconds)
    assert check.rank_correlation == 1.0
    assert check.relative_error < 0.15
    assert check.measured_imbalance > 1.15 * check.predicted_imbalance
    assert check.verdict == "calibrate"
