"""Fitted costs: known coefficients come back, real times are predicted, data that cannot tell is refused."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest

from flopbalance import CostModel, FittedCost, plan
from flopbalance.costs.fitted import FEWEST
from flopbalance.costs.measurements import MicroBatches
from tensor import Tensor

C0, C1, C2, C3 = 2e-3, 1e-5, 3e-9, 4e-5


def mixed_batches(random, count=150):
    """Micro-batches of few long and many short sequences."""
    return [random.lognormal(6, 1, random.integers(1, 20)).astype(int) + 1 for _ in range(count)]


def times_of(batches, c0=C0, c1=C1, c2=C2, c3=0.0):
    return np.array([c0 + sum(c1 * n + c2 * float(n) ** 2 + c3 for n in batch) for batch in batches])


def noisy(random, times, noise=0.02):
    return times * (1 + noise * random.standard_normal(len(times)))


def measured():
    with open(Path(__file__).parent / "golden" / "cpu_micro_batches.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [list(map(int, row["lengths"].split())) for row in rows], np.array([float(row["seconds"]) for row in rows])


@pytest.mark.parametrize("seed", range(10))
def test_known_coefficients_come_back_from_noisy_times(seed):
    random = np.random.default_rng(seed)
    batches = mixed_batches(random)
    fitted = CostModel.fit(batches, noisy(random, times_of(batches)))
    assert fitted.per_token == pytest.approx(C1, rel=0.02)
    assert fitted.per_square == pytest.approx(C2, rel=0.05)
    assert fitted.per_sequence == 0
    assert fitted.holdout_error == pytest.approx(0.02 * np.sqrt(2 / np.pi), rel=0.25)


def test_exact_times_give_exact_coefficients():
    batches = mixed_batches(np.random.default_rng(0))
    fitted = CostModel.fit(batches, times_of(batches, c3=C3), per_sequence=True)
    found = (fitted.per_micro_batch, fitted.per_token, fitted.per_square, fitted.per_sequence)
    assert found == pytest.approx((C0, C1, C2, C3), rel=1e-6)
    assert fitted.holdout_error < 1e-9


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    inside = {"per_micro_batch": 0, "per_token": 0, "per_square": 0}
    truth = {"per_micro_batch": C0, "per_token": C1, "per_square": C2}
    for seed in range(60):
        random = np.random.default_rng(1000 + seed)
        batches = mixed_batches(random, 80)
        fitted = CostModel.fit(batches, noisy(random, times_of(batches)))
        for name, (low, high) in fitted.intervals.items():
            inside[name] += low <= truth[name] <= high
    assert all(count >= 49 for count in inside.values()), inside  # 95 % of 60 is 57


@pytest.mark.parametrize("factor", [0.05, 0.2, 3, 20])
def test_outliers_hardly_move_the_fit(factor):
    random = np.random.default_rng(1)
    batches = mixed_batches(random)
    times = noisy(random, times_of(batches))
    times[random.choice(len(times), 8, replace=False)] *= factor
    fitted = CostModel.fit(batches, times)
    assert fitted.per_token == pytest.approx(C1, rel=0.02)
    assert fitted.per_square == pytest.approx(C2, rel=0.05)


def test_the_median_of_repeats_forgets_a_slow_first_run():
    random = np.random.default_rng(2)
    batches = mixed_batches(random, 30)
    times = times_of(batches)
    fitted = CostModel.fit(batches * 3, np.concatenate([50 * times, times, times]))
    assert (fitted.per_token, fitted.per_square) == pytest.approx((C1, C2), rel=1e-6)
    assert fitted.micro_batches == 30


def test_coefficients_are_never_negative():
    random = np.random.default_rng(3)
    batches = mixed_batches(random)
    times = noisy(random, times_of(batches, c0=0.0))
    fitted = CostModel.fit(batches, times, per_sequence=True)
    for name, (low, high) in fitted.intervals.items():
        assert 0 <= low <= getattr(fitted, name) <= high


def test_small_and_large_units_fit_alike():
    batches = mixed_batches(np.random.default_rng(4))
    times = noisy(np.random.default_rng(5), times_of(batches))
    seconds, picoseconds = CostModel.fit(batches, times), CostModel.fit(batches, times * 1e12)
    assert picoseconds.per_square == pytest.approx(1e12 * seconds.per_square, rel=1e-6)
    assert picoseconds.holdout_error == pytest.approx(seconds.holdout_error, rel=1e-6)


def test_windows_are_kept():
    model = CostModel(per_token=1, per_pair=2, windows=((64, 6),))
    batches = mixed_batches(np.random.default_rng(6))
    times = np.array([C0 + C1 * batch.sum() + C2 * model.flops(batch).sum() for batch in batches])
    fitted = CostModel.fit(batches, times, windows_of=model)
    assert (fitted.per_pair, fitted.windows) == (2, ((64, 6),))
    assert fitted.predict(batches) == pytest.approx(times, rel=1e-6)
    assert fitted.holdout_error < 1e-9 < 1e-4 < CostModel.fit(batches, times).holdout_error


def test_windows_longer_than_every_sequence_change_nothing():
    batches = mixed_batches(np.random.default_rng(7))
    times = times_of(batches)
    plain = CostModel.fit(batches, times)
    wide = CostModel.fit(batches, times, windows_of=CostModel(per_token=1, windows=((10**6, 6),)))
    assert wide.per_square == pytest.approx(plain.per_square, rel=1e-6)


def test_linear_attention_has_nothing_to_fit():
    batches = mixed_batches(np.random.default_rng(8))
    with pytest.raises(ValueError, match="windows_of must attend somewhere"):
        CostModel.fit(batches, times_of(batches), windows_of=CostModel(per_token=1))


# Real measurements


def test_measured_times_are_predicted_better_than_by_counting_tokens():
    batches, times = measured()
    fitted = CostModel.fit(batches, times)
    assert fitted.holdout_error <= 0.12
    assert fitted.tokens_only_error == pytest.approx(0.21, abs=0.01)
    model = CostModel.from_args(
        {
            "num_layers": 2,
            "hidden_size": 128,
            "num_attention_heads": 2,
            "kv_channels": 64,
            "ffn_hidden_size": 352,
            "vocab_size": 512,
        }
    )
    # Twice, since the model counts pairs and the fit squares.
    ratio = 2 * fitted.per_square / fitted.per_token / (model.per_pair / (model.per_token + model.lm_head))
    assert ratio == pytest.approx(0.77, abs=0.03)


def test_a_fit_to_half_of_the_measurements_predicts_the_other_half():
    batches, times = measured()
    fitted = CostModel.fit(batches[::2], times[::2])
    assert np.abs(fitted.predict(batches[1::2]) / times[1::2] - 1).mean() <= 0.12


# Data that cannot tell


def packed(random, tokens):
    """Sequences of log-normal lengths that fill a micro-batch exactly."""
    batch = []
    while sum(batch) < tokens:
        batch.append(int(min(random.lognormal(6, 1) + 1, tokens - sum(batch))))
    return batch


@pytest.mark.parametrize("noise", [0, 0.02])
def test_constant_token_packing_is_refused(noise):
    random = np.random.default_rng(9)
    batches = [packed(random, 8192) for _ in range(200)]
    with pytest.raises(ValueError, match="all hold about 8,192 tokens"):
        CostModel.fit(batches, noisy(random, times_of(batches), noise))


def test_nearly_constant_token_packing_is_refused():
    random = np.random.default_rng(10)
    batches = [packed(random, int(random.integers(8100, 8193))) for _ in range(200)]
    with pytest.raises(ValueError, match=r"all hold about 8,1\d\d tokens"):
        CostModel.fit(batches, noisy(random, times_of(batches)))


@pytest.mark.parametrize("noise", [0, 0.02])
def test_sequences_of_one_length_are_refused(noise):
    random = np.random.default_rng(11)
    batches = [[512] * int(random.integers(1, 64)) for _ in range(200)]
    with pytest.raises(ValueError, match="all sequences have about 512 tokens"):
        CostModel.fit(batches, noisy(random, times_of(batches), noise))


def test_lengths_too_short_to_show_attention_are_refused():
    random = np.random.default_rng(12)
    batches = [random.integers(1, 100, random.integers(1, 40)) for _ in range(200)]
    with pytest.raises(ValueError, match=r"cannot tell per_square, .* sequences of at most 99 tokens; measure longer"):
        CostModel.fit(batches, noisy(random, times_of(batches)))


def test_attention_that_costs_nothing_is_refused():
    random = np.random.default_rng(13)
    batches = mixed_batches(random)
    with pytest.raises(ValueError, match="cannot tell per_square"):
        CostModel.fit(batches, noisy(random, times_of(batches, c2=0)))


def test_too_few_micro_batches_are_refused():
    batches = mixed_batches(np.random.default_rng(14), FEWEST - 1)
    with pytest.raises(ValueError, match="micro_batches must hold at least 10 different ones to fit, got 9"):
        CostModel.fit(batches * 2, np.tile(times_of(batches), 2))


# Forms and faults of the input


def test_all_forms_of_micro_batches_fit_alike():
    random = np.random.default_rng(15)
    lengths = random.lognormal(6, 1, 600).astype(int) + 1
    schedule = plan(lengths, dp_size=2, max_tokens=8192, micro_batch_multiple=20)
    offsets = schedule.micro_batch_offsets
    batches = [lengths[schedule.samples[a:b]].tolist() for a, b in itertools.pairwise(offsets)]
    times = noisy(random, times_of(batches))
    by_lists = CostModel.fit(batches, times)
    assert CostModel.fit(schedule, times, lengths=lengths) == by_lists
    assert CostModel.fit((lengths[schedule.samples], offsets), times) == by_lists
    half = len(batches) // 2
    rank = CostModel.fit(schedule.rank(1), times[half:], lengths=lengths)
    assert rank == CostModel.fit(batches[half:], times[half:])


@pytest.mark.parametrize(
    ("batches", "times", "message"),
    [
        ([[1], [2]], [1.0], "seconds must hold one time for each of 2 micro-batches"),
        ([[1], [2]], [1.0, 0.0], r"seconds\[1\] must be from 1e-60 to 1e\+60, got 0.0"),
        ([[1], [2]], [1.0, -1.0], r"seconds\[1\] must be from 1e-60 to 1e\+60, got -1.0"),
        ([[1], [2]], [np.nan, 1.0], r"seconds\[0\] must be from 1e-60 to 1e\+60, got nan"),
        ([[1], [2]], [1.0, np.inf], r"seconds\[1\] must be from 1e-60 to 1e\+60, got inf"),
        ([[1], [2]], [1e-300, 1.0], r"seconds\[0\] must be from 1e-60 to 1e\+60, got 1e-300"),
        ([[1], []], [1.0, 1.0], r"micro_batches\[1\] must hold a sequence, got none"),
        ([[1], [-2]], [1.0, 1.0], r"micro_batches\[1\]\[0\] must be >= 0, got -2"),
        ([], [], "micro_batches must hold at least 10"),
        (([1, 2], [0, 1]), [1.0], "offsets must run from 0 to 2"),
        (([1, 2], [1, 2]), [1.0], "offsets must run from 0 to 2"),
        (([1, 2], [0, 2, 1, 2]), [1.0] * 3, r"micro_batches\[1\] must hold a sequence"),
        (([1, 2], []), [], "offsets must run from 0 to 2"),
        (([1, 2], [5] * 99), [], r"offsets must run from 0 to 2, the number of lengths, got array\(.*\)$"),
        (None, [], "micro_batches must be a schedule, a tuple of .*, got None$"),
        (Tensor(None), [], "micro_batches must be a schedule, a tuple of .*, got Tensor"),
    ],
)
def test_bad_measurements(batches, times, message):
    with pytest.raises(ValueError, match=message):
        CostModel.fit(batches, times)


def test_a_schedule_needs_lengths():
    schedule = plan([1, 2, 3], dp_size=1, max_tokens=3)
    with pytest.raises(ValueError, match="lengths must be given with a schedule"):
        MicroBatches.of(schedule)
    with pytest.raises(ValueError, match="lengths must cover all samples of the schedule, got 2"):
        MicroBatches.of(schedule.rank(0), [1, 2])
    with pytest.raises(ValueError, match="lengths must hold one length for each of 3 samples, got 2"):
        MicroBatches.of(schedule, [1, 2])
    with pytest.raises(ValueError, match="lengths must be those that were planned"):
        MicroBatches.of(schedule, [1, 2, 4])


def test_windows_of_a_name_are_refused():
    with pytest.raises(ValueError, match="windows_of must be a CostModel, got 'gpt-oss-20b'"):
        CostModel.fit([[1]], [1.0], windows_of="gpt-oss-20b")


# The fitted cost


def test_a_fit_is_a_cost_like_any_other():
    fitted = FittedCost(per_micro_batch=0.5, per_token=0.25, per_square=0.125, per_sequence=2.0)
    assert fitted.flops([0, 2, 4]).tolist() == [2.0, 3.0, 5.0]
    assert fitted.flops([2, 4]).tolist() == fitted.weights([2, 4]).tolist()
    assert fitted.predict([[2, 4], [4]]).tolist() == [8.5, 5.5]
    lengths = [9, 1, 5, 5, 3, 7]
    assert plan(lengths, costs=fitted, dp_size=2, max_tokens=10) == plan(
        lengths, costs=fitted.flops(lengths), dp_size=2, max_tokens=10
    )


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_bad_coefficients_of_a_fit(value):
    rule = ">= 0 and finite" if type(value) is float else "a number"
    with pytest.raises(ValueError, match=f"per_token must be {rule}, got {value!r}"):
        FittedCost(per_micro_batch=0.0, per_token=value, per_square=0.0)


def test_the_same_data_give_the_same_fit():
    batches, times = measured()
    assert repr(CostModel.fit(batches, times)) == repr(CostModel.fit(batches, times))


def test_a_fit_describes_itself():
    batches = mixed_batches(np.random.default_rng(0))
    text = CostModel.fit(batches, times_of(batches, c3=C3), per_sequence=True).describe()
    rows = [line.split() for line in text.splitlines()]
    figures = {row[0]: float(row[-3]) for row in rows[1:5]}
    assert figures == pytest.approx({"micro-batch": C0, "sequence": C3, "token": C1, "L²": C2}, rel=0.01)
    assert "mean error on micro-batches that were not fitted: 0.0%" in text
    windowed = FittedCost(0.1, 1e-5, 1e-9, windows=((128, 3),), per_pair=0)
    assert "L² within 128 tokens" in windowed.describe()
    assert windowed.overtaking_length is None
    assert FittedCost(0.1, 1e-5, 1e-9).overtaking_length == 10_000
    assert FittedCost(0.1, 0.0, 0.0).overtaking_length is None


def test_a_micro_batch_without_tokens_is_refused_by_index():
    batches = [*mixed_batches(np.random.default_rng(0)), [0, 0]]
    with pytest.raises(ValueError, match=r"micro_batches\[150\] must hold a token to fit, got none"):
        CostModel.fit(batches, times_of(batches) + 1e-3)


def test_seconds_that_no_float_holds_are_refused():
    huge = FittedCost(1.0, 1e308, 1.0)
    with pytest.raises(OverflowError, match=r"lengths\[1\] = 2 takes more seconds than a float holds"):
        huge.flops([1, 2, 3])
    with pytest.raises(OverflowError, match=r"micro_batches\[1\] takes more seconds than a float holds"):
        huge.predict([[1], [1, 1]])
    with pytest.raises(ValueError, match="per_pair must be >= 1 where no window has a cost, got 0"):
        FittedCost(1.0, 1.0, 1.0, per_pair=0)
