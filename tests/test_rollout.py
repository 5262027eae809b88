"""The generated rollout keeps what its documentation says."""

import hashlib

import numpy as np
import pytest

from flopbalance.lengths.synthetic import synthetic_rollout


def test_is_the_same_everywhere():
    lengths, _ = synthetic_rollout()
    digest = hashlib.sha256(lengths.astype("<i8").tobytes()).hexdigest()
    assert digest == "6c401f0854910a132cbdff9c917a980bd76b0235523acdb654cdcc8f79cf6b69"


def test_has_the_documented_spread():
    lengths, _ = synthetic_rollout(20_000, 8, max_tokens=10**9, seed=1)
    logarithms = np.log(lengths[lengths < 10**9]).copy()
    assert np.exp(np.median(logarithms)) == pytest.approx(6500, rel=0.02)
    assert logarithms.std() == pytest.approx(np.hypot(0.8, 0.45), rel=0.02)
    assert (lengths == 10**9).mean() == pytest.approx(0.005, rel=0.1)


def test_is_cut_at_the_limit_and_never_empty():
    lengths, _ = synthetic_rollout(200, max_tokens=1000)
    assert lengths.max() == 1000
    assert lengths.min() >= 1
    assert synthetic_rollout(5, 2, max_tokens=1).lengths.tolist() == [1] * 10


def test_keeps_the_answers_to_a_prompt_together():
    lengths, rollout_ids = synthetic_rollout(prompts=3, answers_per_prompt=2)
    assert lengths.dtype == rollout_ids.dtype == np.int64
    assert rollout_ids.tolist() == [0, 0, 1, 1, 2, 2]


def test_depends_on_the_seed_alone():
    assert np.array_equal(synthetic_rollout(seed=5).lengths, synthetic_rollout(seed=5).lengths)
    assert not np.array_equal(synthetic_rollout(seed=5).lengths, synthetic_rollout(seed=6).lengths)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prompts": 0}, "prompts must be >= 1, got 0"),
        ({"answers_per_prompt": -1}, "answers_per_prompt must be >= 1, got -1"),
        ({"max_tokens": 0}, "max_tokens must be >= 1, got 0"),
        ({"prompts": 1.5}, "prompts must be a whole number, got 1.5"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"seed": 2**32}, r"seed must be < 2\^32, got 4294967296"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        synthetic_rollout(**arguments)
