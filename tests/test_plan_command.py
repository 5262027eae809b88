"""``flopbalance plan`` as a user runs it."""

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from command import refused, run
from flopbalance import FittedCost, Schedule, explain, plan, report, save_cost
from flopbalance.costs.models.shapes import load_shape
from flopbalance.costs.published import PublishedFlops
from flopbalance.lengths.synthetic import synthetic_rollout
from flopbalance.trainers.modes import MODES

TINY = Path(__file__).parent / "golden" / "tiny.json"


def table(*arguments, **options):
    """Return the rows of the printed table, by mode."""
    process = run("plan", *arguments, **options)
    assert (process.returncode, process.stderr) == (0, "")
    lines = process.stdout.split("\n\n")[1].splitlines()
    assert lines[0].split("  ")[0] == "mode"
    return {name.rstrip("* "): row.split() for name, row in (line.split("  ", 1) for line in lines[1:])}


def test_the_built_in_rollout():
    rows = table()
    assert list(rows) == [mode.name for mode in MODES]
    lengths, rollout_ids = synthetic_rollout()
    costs = PublishedFlops(load_shape("qwen3-8B")).flops(lengths)
    for row, mode in zip(rows.values(), MODES, strict=True):
        schedule = plan(
            lengths,
            costs=costs,
            dp_size=32,
            max_tokens=36864,
            rollout_ids=rollout_ids,
            global_batch_size=128,
            packing=mode.packing,
            balance_ranks=mode.balance_ranks,
            objective=mode.objective,
            pipeline_stages=4 if mode.objective == "pipeline" else 1,
        )
        measured = report(schedule, costs, lengths, 36864)
        assert row[:4] == [
            f"{len(schedule.micro_batch_tokens):,}",
            f"{schedule.micro_batch_tokens.max():,}",
            f"{(schedule.micro_batch_tokens > 36864).sum():,}",
            f"{measured.step_time / measured.mean_time:.3f}",
        ]
        assert row[5] == "ms"


@pytest.mark.parametrize(
    ("flags", "packing", "balance_ranks"),
    [
        ([], "first-fit", False),
        (["--balance-data"], "first-fit", True),
        (["--balance-by-flops"], "flops", True),
        (["--balance-by-flops", "--use-dynamic-batch-size", "--micro-batch-size", "3"], "flops", True),
        (["--micro-batch-size", "3"], "fixed", False),
        (["--micro-batch-size", "3", "--balance-data"], "fixed", True),
    ],
)
def test_saves_the_schedule_that_the_flags_choose(tmp_path, flags, packing, balance_ranks):
    lengths = synthetic_rollout(24, 2).lengths
    np.save(tmp_path / "lengths.npy", lengths)
    limits = ["--dp-size", 4, "--max-tokens-per-gpu", 20000, "--cp-size", 2, "--model", TINY]
    expected = plan(
        lengths,
        costs=PublishedFlops(json.loads(TINY.read_text())),
        dp_size=4,
        max_tokens=40000,
        micro_batch_size=3,
        packing=packing,
        balance_ranks=balance_ranks,
    )
    for name in ("schedule.npz", "schedule.json"):
        process = run("plan", tmp_path / "lengths.npy", *limits, *flags, "--out", tmp_path / name)
        assert (process.returncode, process.stderr) == (0, "")
        assert f"Saved to {tmp_path / name}" in process.stdout
    assert Schedule.load(tmp_path / "schedule.npz") == expected
    names = ["partitions", "micro_batch_indices", "num_microbatches", "global_batch_sizes", "dropped", "is_padding"]
    is_padding = [[False] * len(partition) for partition in expected.to_lists()[0]]
    saved = json.loads((tmp_path / "schedule.json").read_text())
    assert saved == dict(zip(names, [*expected.to_lists(), [], is_padding], strict=True))


@pytest.mark.parametrize("flags", [[], ["--balance-by-flops"], ["--micro-batch-size", 1, "--balance-data"]])
def test_marks_the_mode_that_the_flags_choose(flags):
    lines = run("plan", "--prompts", 32, "--dp-size", 4, *flags).stdout.splitlines()
    name = {0: "plain", 1: "by FLOPs", 3: "balance data"}[len(flags)]
    assert [line.split("*")[0] for line in lines if "*" in line] == [name, ""]


def test_a_mode_that_cannot_be_planned_has_its_reason(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("\n".join(map(str, range(1, 17))))
    within_cap = ("--balance-within-cap", "--on-shortage", "repeat")
    rows = table(path, "--dp-size", 32, *within_cap)
    assert rows["plain"] == rows["by FLOPs"] == ["-"] * 5
    assert rows["within cap: step"][0] == "32"
    reasons = run("plan", path, "--dp-size", 32, *within_cap).stdout.split("\n\n")[2].splitlines()[1:]
    names = [line.removeprefix("No schedule for ").split(":")[0] for line in reasons]
    assert names == ["plain", "balance data", "by FLOPs"]
    assert "32" in refused("plan", path, "--dp-size", 32)


def test_saves_which_samples_are_repeated(tmp_path):
    (tmp_path / "lengths.txt").write_text("10\n9\n8\n")
    limits = ("--dp-size", 2, "--max-tokens-per-gpu", 10, "--balance-within-cap", "--on-shortage", "repeat")
    run("plan", "lengths.txt", *limits, "--out", "schedule.json", cwd=tmp_path)
    saved = json.loads((tmp_path / "schedule.json").read_text())
    pairs = [zip(*parts, strict=True) for parts in zip(saved["partitions"], saved["is_padding"], strict=True)]
    assert sorted(itertools.chain.from_iterable(pairs)) == [(0, False), (1, False), (2, False), (2, True)]


def test_help_says_that_batches_are_dynamic():
    text = " ".join(run("plan", "--help").stdout.replace("-\n", "-").split()).replace("- ", "-")
    assert "as if --use-dynamic-batch-size were given, unless --micro-batch-size is" in text


def test_fixed_batches_leave_nothing_to_pack():
    assert list(table("--micro-batch-size", 1)) == ["plain", "balance data"]


def test_rollouts_of_a_file(tmp_path):
    path = tmp_path / "rollout.csv"
    path.write_text("prompt,tokens\n" + "why,5\nhow,6\nwhy,7\nwho,8\nhow,9\n")
    out = tmp_path / "schedule.npz"
    process = run(
        *("plan", path, "--column", "tokens", "--rollout-column", "prompt", "--global-batch-size", 2, "--dp-size", 2),
        *("--out", out),
    )
    assert process.stdout.startswith("5 samples of 3 rollouts, 35 tokens, over 2 ranks in steps of 2 rollouts")
    assert "; 1 sample in no step\n" in process.stdout
    assert Schedule.load(out).dropped.tolist() == [3]


def test_reads_standard_input():
    assert table("-", "--dp-size", 1, input="5\n6\n7\n")["plain"][:2] == ["1", "18"]


def test_model_arguments_from_a_file(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps(load_shape("qwen3-8B")))
    by_file, by_name = table("--model", path), table("--model", "QWEN3-8b")
    assert [row[:4] for row in by_file.values()] == [row[:4] for row in by_name.values()]
    path.write_text("{}")
    assert refused("plan", "--model", path) == "args.hidden_size is missing"
    path.write_text('{"num_layers": 1,}')
    assert refused("plan", "--model", path).startswith(f"{path}: line 1, column 1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dp-size", "0"], "dp_size must be >= 1"),
        (["--max-tokens-per-gpu", "0"], "--max-tokens-per-gpu must be >= 1, got 0"),
        (["--cp-size", "0"], "--cp-size must be >= 1"),
        (["--stages", "0"], "--stages must be >= 1"),
        (["--micro-batch-overhead", "-1"], "--micro-batch-overhead must be >= 0 and finite, got -1.0"),
        (["--prompts", "0"], "prompts must be >= 1"),
        (["--global-batch-size", "5000"], "the number of rollouts must be >= global_batch_size"),
        (["--dp-size", "9000"], "dp_size"),
        (["--out", "schedule.txt"], "--out must end in .npz or .json, got schedule.txt"),
        (["--out", "absent/schedule.npz"], "absent/schedule.npz: No such file or directory"),
    ],
)
def test_refuses(arguments, message, tmp_path):
    assert message in refused("plan", *arguments, cwd=tmp_path)


def test_read_only_folder(tmp_path):
    tmp_path.chmod(0o555)
    folder = tmp_path
    if os.access(folder, os.W_OK):  # the superuser may write there
        folder = "/sys"
        if not os.path.isdir(folder):
            pytest.skip("needs a folder that nobody may write to")
    message = refused("plan", "--out", f"{folder}/schedule.npz")
    assert message in (f"{folder}/schedule.npz: {reason}" for reason in ("Permission denied", "Read-only file system"))


@pytest.mark.parametrize("flags", [(), ("--balance-by-flops",), ("--micro-batch-size", 2, "--balance-data")])
def test_explains_the_chosen_mode(flags):
    arguments = ("--prompts", 64, "--global-batch-size", 32, "--dp-size", 8)
    process = run("plan", "--explain", *arguments, *flags)
    assert (process.returncode, process.stderr) == (0, "")
    _, _, _, mode, what, *_ = process.stdout.split("\n\n")
    assert mode == {0: "Mode: plain", 1: "Mode: by FLOPs", 3: "Mode: balance data"}[len(flags)]
    lengths, rollout_ids = synthetic_rollout(64)
    costs = PublishedFlops(load_shape("qwen3-8B")).flops(lengths)
    settings = {
        "dp_size": 8,
        "max_tokens": 36864,
        "rollout_ids": rollout_ids,
        "global_batch_size": 32,
        "packing": {0: "first-fit", 1: "flops", 3: "fixed"}[len(flags)],
        "balance_ranks": bool(flags),
        "micro_batch_size": 2,
    }
    explanation = explain(plan(lengths, costs=costs, **settings), lengths, costs, settings)
    assert process.stdout.endswith(f"\n\n{explanation}\n")
    assert what.startswith(f"Step {explanation.step} of 0–1 takes ")


def test_explains_where_ranks_meet_as_balanced_for():
    flags = ("--balance-within-cap", "--balance-objective", "micro-batch")
    assert "where ranks meet at every micro-batch" in run("plan", "--explain", "--prompts", 256, *flags).stdout


def test_a_pipeline_has_the_overhead_that_was_measured(tmp_path):
    path = tmp_path / "cost.json"
    save_cost(FittedCost(per_micro_batch=0.5, per_token=1e-5, per_square=1e-10), path)
    arguments = ("--prompts", 64, "--dp-size", 4, "--cost", path, "--stages", 16)
    measured, given, none = (
        int(table(*arguments, *overhead)["within cap: pipeline"][0].replace(",", ""))
        for overhead in ((), ("--micro-batch-overhead", 0.5), ("--micro-batch-overhead", 0))
    )
    assert measured == given < none
