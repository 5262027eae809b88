"""``flopbalance check`` names flags and numbers before a run."""

import pytest

from flopbalance import ScheduleError, check_feasible, plan
from flopbalance.commands.main import main

RUN = ["check", "--dp-size", "4", "--global-batch-size"]


def test_a_run_that_can_be_planned(capsys):
    assert main([*RUN, "64", "--max-tokens-per-gpu", "4096", "--longest", "4096", "--rollouts", "256"]) == 0
    assert capsys.readouterr().out == "4 steps, 1 to 16 micro-batches per rank\n"


def test_a_run_that_cannot_names_the_flags(capsys):
    assert main([*RUN, "6", "--max-tokens-per-gpu", "4096", "--micro-batch-multiple", "2"]) == 1
    text = capsys.readouterr().out
    assert "this would do: --global-batch-size = 8" in text
    assert "--dp-size = 4 x --micro-batch-multiple = 2" in text


def test_a_small_last_step_has_its_own_remedies(capsys):
    assert main([*RUN, "16", "--rollouts", "37", "--on-leftover", "partial"]) == 1
    text = capsys.readouterr().out
    assert "- the last step, of only 5 rollouts, has 5 samples" in text
    assert text.endswith("would do: --rollouts = 36; --rollouts = 40; --on-leftover = drop\n")
    for flags in (["--rollouts", "36"], ["--rollouts", "40"], ["--rollouts", "37", "--on-leftover", "drop"]):
        assert main([*RUN, "16", "--on-leftover", "partial", *flags]) == 0


def test_the_flags_of_training(capsys):
    flags = ["--balance-within-cap", "--use-dynamic-batch-size", "--on-shortage", "repeat"]
    assert main([*RUN, "6", "--max-tokens-per-gpu", "2048", "--cp-size", "2", "--longest", "4096", *flags]) == 0
    assert "its cheapest are repeated" in capsys.readouterr().out


def test_a_fixed_micro_batch_size(capsys):
    assert main([*RUN, "8", "--micro-batch-size", "2"]) == 0
    assert main([*RUN, "6", "--micro-batch-size", "2"]) == 1
    assert "no multiple of 4" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--balance-by-flops"], ["--micro-batch-size", "0"], ["--longest", "0"]])
def test_bad_flags_are_refused(flags, capsys):
    assert main([*RUN, "8", *(["--max-tokens-per-gpu", "9"] if "--longest" in flags else []), *flags]) == 2
    assert capsys.readouterr().err.startswith("flopbalance: error: ")


def test_dropping_what_is_too_long_promises_nothing():
    """All samples may be too long; then none is left, and `plan` refuses."""
    run = {"global_batch_size": 8, "dp_size": 4, "longest": 100, "max_tokens": 10}
    answer = check_feasible(**run, on_oversize="drop")
    assert not answer
    assert "is dropped, so that a step may be left with too few samples" in str(answer)
    assert {"on_oversize": "alone"} in [dict(change) for change in answer.remedies]
    with pytest.raises(ScheduleError, match="on_oversize must leave a sample"):
        plan([100] * 8, dp_size=4, max_tokens=10, global_batch_size=8, on_oversize="drop")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        pytest.param({"num_rollouts": 1}, "- 1 rollout cannot make whole steps of global_batch_size = 8", id="rollout"),
        pytest.param({"num_rollouts": 9}, "- rollouts that fill no step are dropped, the last 1 of 9", id="left-over"),
        pytest.param(
            {"num_rollouts": 9, "on_leftover": "partial"},
            "- the last step, of only 1 rollout, has 1 sample",
            id="sample",
        ),
    ],
)
def test_one_of_a_thing_is_called_one(run, message):
    assert (
        message in str(check_feasible(global_batch_size=8, dp_size=2, max_tokens=10, longest=5, **run)).split("\n")[1]
    )
