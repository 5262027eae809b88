"""The lengths of a rollout, and a generator of realistic ones."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flopbalance.checks import as_count

MEDIAN_TOKENS = 6500
PROMPT_DEVIATION = 0.8
ANSWER_DEVIATION = 0.45
RUNAWAY_SHARE = 0.005


class Rollout(NamedTuple):
    """Sample lengths, and which samples belong together.

    Attributes
    ----------
    lengths : int64 array, shape (samples,)
        Tokens per sample.
    rollout_ids : int64 array, shape (samples,), or None
        Samples with equal ids must stay in one step. None: every sample is a rollout of its own.
    """

    lengths: npt.NDArray[np.int64]
    rollout_ids: npt.NDArray[np.int64] | None


def synthetic_rollout(
    prompts: int = 1024, answers_per_prompt: int = 8, *, max_tokens: int = 32768, seed: int = 0
) -> Rollout:
    """Generate the lengths of a reasoning rollout: prompts, and several answers to each.

    Lengths are log-normal twice over, as in logs of real rollouts: the typical length of a prompt's answers varies
    around 6,500 tokens (standard deviation of the logarithm 0.8), and the answers vary around it (0.45). Of a
    thousand answers five are runaways, which never stop by themselves. Everything is cut at `max_tokens`.

    Parameters
    ----------
    prompts, answers_per_prompt : int
        Their product is the number of samples; both at least 1.
    max_tokens : int
        The generation limit in tokens, at least 1.
    seed : int
        From 0 to 2**32 - 1. Another seed gives another rollout of the same kind.

    Returns
    -------
    Rollout
        Samples prompt by prompt; the answers to one prompt share a rollout id.

    Raises
    ------
    ValueError
        An argument is out of its range.

    Notes
    -----
    The same on every machine and under every NumPy version: the random numbers come from ``numpy.random.RandomState``,
    whose streams NumPy has frozen (NEP 19), and lengths are rounded down to whole tokens, so that a last bit in which
    two maths libraries differ shows in fewer than one of a million rollouts.

    Time and space are linear in the number of samples.

    Examples
    --------
    >>> lengths, rollout_ids = synthetic_rollout(prompts=2, answers_per_prompt=3)
    >>> lengths.tolist(), rollout_ids.tolist()
    ([32768, 32768, 32768, 5767, 13728, 8362], [0, 0, 0, 1, 1, 1])
    """
    prompts = as_count(prompts, "prompts")
    answers_per_prompt = as_count(answers_per_prompt, "answers_per_prompt")
    max_tokens = as_count(max_tokens, "max_tokens")
    seed = as_count(seed, "seed", minimum=0)
    if seed >= 2**32:
        raise ValueError(f"seed must be < 2^32, got {seed}")
    if prompts * answers_per_prompt >= 2**32 - 1:
        raise ValueError(
            f"prompts x answers_per_prompt must be below 2^32 - 1, got {prompts} x {answers_per_prompt} samples"
        )

    random = np.random.RandomState(seed)
    of_prompt = PROMPT_DEVIATION * random.standard_normal((prompts, 1))
    of_answer = ANSWER_DEVIATION * random.standard_normal((prompts, answers_per_prompt))
    runaway = random.random_sample((prompts, answers_per_prompt)) < RUNAWAY_SHARE
    tokens = np.exp(math.log(MEDIAN_TOKENS) + of_prompt + of_answer)
    tokens[runaway] = max_tokens
    lengths = np.clip(tokens, 1, max_tokens).astype(np.int64).ravel()
    return Rollout(lengths, np.repeat(np.arange(prompts, dtype=np.int64), answers_per_prompt))
