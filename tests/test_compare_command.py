"""``flopbalance compare`` as a user runs it, and the parts it stands on."""

import argparse
import json
from pathlib import Path

import pytest

from command import refused, run, run_on_terminal
from flopbalance import add_balance_arguments, plan, report, validate_balance_args
from flopbalance.commands.compare import MEETING, Result, recommend
from flopbalance.text import format_table
from flopbalance.trainers.modes import MODES

TINY = Path(__file__).parent / "golden" / "tiny.json"
GREEN = "\033[1;32m"


def compare(*arguments):
    process = run("compare", *arguments)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


def results(*figures, cap=100):
    """Return results with given micro-batches over the cap and speed-ups, in the order of the modes."""
    parts = []
    for mode, (over_cap, speed_up) in zip(MODES, figures, strict=False):
        lengths = [60] * (2 * over_cap or 1)  # in pairs, each above the cap
        schedule = plan(lengths, dp_size=1, max_tokens=120)
        parts.append(Result(mode, mode.flag, report(schedule, lengths, lengths, cap), 0.0, cap, speed_up))
    return parts


def test_every_mode_has_a_row():
    rows = compare().split("\n\n")[1].splitlines()
    assert [row.split("  ")[0] for row in rows] == ["mode", *(mode.name for mode in MODES)]
    assert len({row.count("%") for row in rows[1:]}) == 1


def test_the_best_of_a_column_is_marked(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("9\n1\n9\n1\n")
    table = compare(path, "--dp-size", 2, "--micro-batch-size", 1, "--model", TINY).split("\n\n")[1]
    plain, balanced = (row.split() for row in table.splitlines()[1:])
    assert plain[4] == "44.6%"  # F(9) = 161,856 and F(1) = 17,472
    assert balanced[5] == "0.0%*"
    assert plain[1] == balanced[2] == "4"  # alike, so neither is best


def test_json_holds_the_same_figures():
    document = json.loads(compare("--json", "--objective", "micro-batch"))
    assert document["objective"] == "micro-batch"
    assert [mode["mode"] for mode in document["modes"]] == [mode.name for mode in MODES]
    assert document["recommended"]["flag"] in {f"{mode.flag} --use-dynamic-batch-size" for mode in MODES}
    assert document["refused"] == []
    rows = compare().split("\n\n")[1].splitlines()[1:]
    for mode, row in zip(document["modes"], rows, strict=True):
        cells = row.replace("*", "").split("  ", 1)[1].split()
        assert cells[0] == f"{mode['micro_batches']:,}"
        assert cells[1] == f"{mode['micro_batches_over_cap']:,}"
        assert cells[2] == f"{mode['largest_tokens'] / mode['cap_tokens']:.3f}"
        assert cells[3:6] == [f"{mode['idle_share'][objective]:.1%}" for objective in MEETING]
        busy = 1 - mode["idle_share"]["micro-batch"]
        assert mode["speed_up"] == pytest.approx(busy / (1 - document["modes"][0]["idle_share"]["micro-batch"]))


def test_longer_pipelines_wait_longer():
    short, long = (json.loads(compare("--json", "--stages", stages)) for stages in (1, 8))
    assert short["modes"][0]["idle_share"]["pipeline"] == short["modes"][0]["idle_share"]["step"]
    assert long["modes"][0]["idle_share"]["pipeline"] > short["modes"][0]["idle_share"]["pipeline"]


def test_recommends_in_one_sentence_with_the_flag():
    sentence = compare().split("\n\n")[2]
    assert sentence.startswith("Recommended: --balance-")
    assert sentence.endswith(".\n")
    assert sentence.count("\n") == 1


@pytest.mark.parametrize(
    ("figures", "flag"),
    [
        ([(0, 1.0), (0, 1.1), (5, 1.2)], "--balance-data"),
        ([(0, 1.0), (0, 1.1), (0, 1.2)], "--balance-by-flops"),
        ([(0, 1.0), (0, 1.0), (5, 1.2)], ""),
        ([(0, 1.0), (0, 1.0001), (0, 0.9)], ""),
        ([(1, 1.0), (1, 1.1), (5, 1.2)], "--balance-by-flops"),
    ],
)
def test_recommends_the_fastest_that_keeps_the_cap(figures, flag):
    assert recommend(results(*figures)).mode.flag == flag


def test_samples_without_cost(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("0\n0\n")
    text = compare(path, "--dp-size", 2, "--micro-batch-size", 1)
    assert "nan" not in text
    assert "Recommended: no option, with no micro-batch packed above the cap.\n" in text


def test_the_recommendation_is_all_that_a_trainer_needs():
    document = json.loads(compare("--json", "--objective", "pipeline", "--micro-batch-overhead", "1e9"))
    flags = document["recommended"]["flag"].split()
    assert flags[:3] == ["--balance-within-cap", "--balance-objective", "pipeline"]
    parser = add_balance_arguments(argparse.ArgumentParser())
    args = validate_balance_args(parser.parse_args([*flags, "--max-tokens-per-gpu", "36864"]))
    assert (args.balance_within_cap, args.balance_objective, args.micro_batch_overhead) == (True, "pipeline", 1e9)


def test_a_mode_that_cannot_be_planned_has_its_reason(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("\n".join(map(str, range(1, 17))))
    arguments = (path, "--dp-size", 32, "--balance-within-cap", "--use-dynamic-batch-size", "--on-shortage", "repeat")
    _, table, below = compare(*arguments).split("\n\n")
    rows = {row.split("  ")[0]: row.split() for row in table.splitlines()[1:]}
    assert list(rows) == [mode.name for mode in MODES]
    assert rows["plain"][1:] == ["-"] * 8
    assert rows["by FLOPs"][2:] == ["-"] * 8
    assert "%" in rows["within cap: step"][-4]
    lines = below.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        *(f"No schedule for {name}" for name in ("plain", "balance data", "by FLOPs")),
        "Recommended",
    ]
    document = json.loads(compare(*arguments, "--json"))
    assert [refusal["mode"] for refusal in document["refused"]] == ["plain", "balance data", "by FLOPs"]
    assert [mode["mode"] for mode in document["modes"]] == [mode.name for mode in MODES[3:]]


def test_every_mode_refused_is_an_error(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("1\n2\n")
    assert "dp_size" in refused("compare", path, "--dp-size", 4)


def test_colour_is_for_terminals_only():
    small = ("--prompts", 32)
    assert "\033" not in compare(*small)
    assert GREEN in run_on_terminal("compare", *small)
    assert GREEN not in run_on_terminal("compare", *small, NO_COLOR="1")
    assert GREEN not in run_on_terminal("compare", *small, TERM="dumb")
    assert GREEN in run_on_terminal("compare", *small, NO_COLOR="")


def test_colours_do_not_move_columns():
    header, rows = ["mode", "time"], [["plain", "12"], ["balanced", "9"]]
    bare = format_table(header, rows, best={(1, 1)})
    coloured = format_table(header, rows, best={(1, 1)}, colour=True)
    assert coloured.replace(GREEN, "").replace("\033[0m", "") == bare
    assert bare == "mode      time\nplain      12\nbalanced    9*"


def test_samples_above_the_cap_by_themselves_are_named(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("2200\n8\n150\n9\n")
    arguments = (path, "--dp-size", 4, "--max-tokens-per-gpu", 100, "--model", TINY)
    advice = compare(*arguments).splitlines()[-1]
    assert "no micro-batch packed above the cap (2 samples above it alone, the longest of 2,200 tokens)" in advice
    assert {mode["samples_over_cap"] for mode in json.loads(compare(*arguments, "--json"))["modes"]} == {2}
