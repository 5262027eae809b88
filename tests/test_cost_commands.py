"""``flopbalance costs``, ``calibrate`` and ``check-costs`` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from command import refused, run
from flopbalance import CostModel, FittedCost, load_cost, save_cost
from flopbalance.costs.models.shapes import load_shape, shape_names
from flopbalance.costs.sources import read_cost

LOG = Path(__file__).parent / "golden" / "cpu_micro_batches.csv"
EXAMPLE = Path(__file__).parents[1] / "examples" / "calibrate_on_cpu.py"


def output(*arguments, code=0):
    process = run(*arguments)
    assert (process.returncode, process.stderr) == (code, "")
    return process.stdout


def test_costs_shows_errors_and_what_they_do():
    text = output("costs", "--model", "glm5-744B-A40B", "--model", "qwen3-8B")
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()[1:3]}
    assert rows["glm5-744B-A40B"][:3] == ["-14.0%", "+110.2%", "+319.4%"]
    assert rows["qwen3-8B"][:3] == ["-0.0%", "-0.0%", "-0.0%"]
    tokens, published, exact = (float(cell.rstrip("%")) for cell in rows["glm5-744B-A40B"][3:])
    assert exact < published < tokens
    assert "8,192 samples of 73,078,901 tokens" in text


def test_costs_of_given_lengths(tmp_path):
    (tmp_path / "lengths.txt").write_text("\n".join(map(str, range(1, 101))))
    text = output("costs", tmp_path / "lengths.txt", "--model", "qwen3-8B", "--dp-size", 4)
    assert "Dealt to 4 ranks, 100 samples of 5,050 tokens" in text


def test_costs_covers_every_family():
    names = {line.split("  ")[0] for line in output("costs", "--dp-size", 4).splitlines()[1:]}
    assert {"llama3.1-8B-Instruct", "deepseek-v3", "gpt-oss-20b", "gemma-3-27b", "qwen3.5-35B-A3B"} <= names


def test_the_table_in_the_documents_is_the_one_printed():
    page = (Path(__file__).parents[1] / "docs" / "cost-models.md").read_text()
    assert output("costs").split("\n\n")[0] in page


def test_costs_lists_and_describes():
    assert output("costs", "--list").split() == shape_names()
    text = output("costs", "--describe", "--model", "qwen3-8B")
    assert text == f"qwen3-8B\n{CostModel.from_name('qwen3-8B').describe()}\n"


def test_every_name_that_costs_shows_is_one_that_all_readers_know(tmp_path):
    shown = {line.split("  ")[0] for line in output("costs", "--dp-size", 4).split("\n\n")[0].splitlines()[1:]}
    assert shown <= set(shape_names())
    for name in ("gpt-oss-20b", "gemma-3-27b"):
        output("calibrate", LOG, "--windows-of", name, "--save", tmp_path / "fit.json")
        assert load_cost(tmp_path / "fit.json").windows == CostModel.from_name(name).windows != ()


def test_costs_reads_all_that_other_commands_read(tmp_path):
    config = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
    config |= {"intermediate_size": 64, "vocab_size": 32}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "args.json").write_text(json.dumps(load_shape("qwen3-8b")))
    save_cost(CostModel.from_name("glm5-744b-a40b"), tmp_path / "exact.json")
    save_cost(FittedCost(0.1, 1e-5, 1e-9), tmp_path / "fit.json")
    sources = [tmp_path / name for name in ("model", "model/config.json", "args.json", "exact.json", "fit.json")]
    options = [word for source in sources for word in ("--model", source)]
    text = output("costs", *options)
    rows = {line.split()[0]: line.split()[1:] for line in text.split("\n\n")[0].splitlines()[1:]}
    assert rows[str(sources[2])][:3] == ["-0.0%"] * 3
    for source in sources:
        if source.name != "args.json":
            assert rows[str(source)][:3] == ["-"] * 3
            assert rows[str(source)][4] == "-"
    assert "A fitted cost counts seconds instead." in text
    blocks = output("costs", "--describe", *options)
    assert all(f"{source}\n{read_cost(source).describe()}\n" in blocks for source in sources)
    for command in ("plan", "compare", "sweep", "plot"):
        assert "config.json or its folder" in " ".join(output(command, "--help").split())


def test_calibrate_fits_saves_and_says_what_changes(tmp_path):
    text = output("calibrate", LOG, "--save", tmp_path / "fit.json", "--cost", "qwen3-0.6b")
    assert "260 micro-batches, 234 of them different, of sequences up to 4,096 tokens" in text
    assert "not fitted: 10.7%; of counting tokens: 21.6%" in text
    ratios = {line.rsplit(maxsplit=2)[0].strip(): float(line.split()[-1]) for line in text.splitlines()[-5:-2]}
    assert ratios["the fit"] < ratios["qwen3-0.6b"] < ratios["tokens"]
    fitted = load_cost(tmp_path / "fit.json")
    assert isinstance(fitted, FittedCost)
    assert fitted.holdout_error <= 0.12
    plain, by_fit = output("plan"), output("plan", "--cost", tmp_path / "fit.json")
    assert plain.splitlines()[0] == by_fit.splitlines()[0]
    assert plain != by_fit


def test_calibrate_reads_objects_and_keeps_windows(tmp_path):
    rows = [line.split(",") for line in LOG.read_text().splitlines()[1:]]
    log = tmp_path / "log.jsonl"
    log.write_text(
        "".join(json.dumps({"lengths": list(map(int, a.split())), "seconds": float(b)}) + "\n" for a, b in rows)
    )
    assert output("calibrate", log) == output("calibrate", LOG)
    output("calibrate", log, "--per-sequence", "--windows-of", "glm5-744b-a40b", "--save", tmp_path / "fit.json")
    fitted = load_cost(tmp_path / "fit.json")
    assert fitted.windows == CostModel.from_name("glm5-744b-a40b").windows
    assert fitted.per_sequence > 0


def test_check_costs_gives_a_verdict(tmp_path):
    output("calibrate", LOG, "--save", tmp_path / "fit.json")
    assert "\ntrust: predicted and measured times agree" in output("check-costs", LOG, "--cost", tmp_path / "fit.json")
    text = output("check-costs", LOG, "--cost", "qwen3-0.6b")
    assert "\ncalibrate: the cost sorts micro-batches but weighs them wrongly" in text


def test_check_costs_fails_on_an_unusable_cost(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("lengths,seconds,rank\n" + "".join(f"{n},{1 / n},{n % 2}\n" for n in range(1, 30)))
    text = output("check-costs", log, "--cost", "qwen3-0.6b", code=1)
    assert "\nunusable: " in text
    assert "slowest rank / mean, measured" in text


@pytest.mark.parametrize("command", [("calibrate",), ("check-costs", "--cost", "qwen3-8b")])
def test_broken_logs_end_in_one_line(tmp_path, command):
    name, *options = command
    assert refused(name, tmp_path / "absent.csv", *options).endswith("absent.csv: No such file or directory")
    (tmp_path / "log.csv").write_text("lengths,seconds\n3 x,1\n")
    assert "log.csv: line 2: lengths" in refused(name, tmp_path / "log.csv", *options)


def test_refusals(tmp_path):
    assert "near it: " in refused("check-costs", LOG, "--cost", "qwen9")
    assert "near it: " in refused("costs", "--model", "qwen9")
    assert "near it: " in refused("calibrate", LOG, "--windows-of", "qwen9")
    output("calibrate", LOG, "--save", tmp_path / "fit.json")
    assert "--windows-of must be a model" in refused("calibrate", LOG, "--windows-of", tmp_path / "fit.json")
    (tmp_path / "log.csv").write_text("lengths,seconds\n" + "".join(f"{n} {100 - n},{n}\n" for n in range(1, 50)))
    assert "all hold about 100 tokens" in refused("calibrate", tmp_path / "log.csv")


def test_plan_counts_exactly_when_asked():
    published = output("plan", "--model", "glm5-744b-a40b")
    exact = output("plan", "--model", "glm5-744b-a40b", "--flops-model", "exact")
    assert published.splitlines()[0] == exact.splitlines()[0]
    assert published != exact


@pytest.mark.alone
def test_the_example_beats_counting_tokens():
    process = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True, timeout=300)
    tokens, fit = (float(line.split()[-1].rstrip("%")) for line in process.stdout.splitlines()[-2:])
    assert fit < tokens


def test_numbers_beyond_64_bits_end_in_one_line(tmp_path):
    (tmp_path / "long.txt").write_text(f"{2**40}\n")
    message = refused("plan", tmp_path / "long.txt", "--flops-model", "exact", "--dp-size", 1)
    assert str(2**40) in message


@pytest.mark.parametrize("option", ["--max-tokens", "--global-batch-size"])
def test_zero_is_a_number_that_was_given(option):
    assert "got 0" in refused("costs", "--model", "qwen3-8B", option, 0)


@pytest.mark.parametrize("option", ["--model", "--cost"])
def test_an_empty_word_is_no_model(option):
    assert refused("plan", option, "") == "model must be a built-in shape, got ''; flopbalance costs --list"


def test_a_fit_is_saved_even_where_nothing_can_be_planned_with_it(tmp_path):
    assert "dp_size" in refused_after_output("calibrate", LOG, "--dp-size", 0, "--save", tmp_path / "fit.json")
    assert isinstance(load_cost(tmp_path / "fit.json"), FittedCost)


def refused_after_output(*arguments):
    process = run(*arguments)
    assert process.returncode == 2
    return process.stderr
