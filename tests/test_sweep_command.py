"""``flopbalance sweep`` as a user runs it."""

import json

import pytest

from command import refused, run


def sweep(*arguments):
    process = run("sweep", *arguments)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout.split("\n\n")


def test_every_combination_has_a_row():
    _, table, _ = sweep("--dp-size", "8,16", "--max-tokens-per-gpu", "16384,32768,65536")
    rows = [row.split() for row in table.splitlines()[1:]]
    assert [row[:2] for row in rows] == [[dp, cap] for dp in ("8", "16") for cap in ("16,384", "32,768", "65,536")]
    assert sum("*" in cell for row in rows for cell in row) == 1


def test_figures_are_those_of_compare():
    _, table, advice = sweep("--dp-size", "16,32", "--balance-data", "--objective", "micro-batch", "--prompts", 256)
    for dp_size, row in zip((16, 32), table.splitlines()[1:], strict=True):
        document = json.loads(run("compare", "--json", "--dp-size", dp_size, "--prompts", 256).stdout)
        expected = document["modes"][1]
        assert row.split()[2] == f"{expected['micro_batches']:,}"
        assert row.split()[5].strip("*") == f"{expected['idle_share']['micro-batch']:.2%}"
    assert advice.startswith("Least waste: --dp-size ")
    assert advice.endswith("where ranks meet at every micro-batch.\n")


def test_the_cap_counts_context_parallel_gpus():
    _, half, _ = sweep("--max-tokens-per-gpu", "16384", "--cp-size", 2)
    _, whole, _ = sweep("--max-tokens-per-gpu", "32768")
    assert half.splitlines()[1].split()[2:] == whole.splitlines()[1].split()[2:]


def test_what_cannot_be_planned_says_why():
    _, table, reasons = sweep("--dp-size", "8,2000")
    assert table.splitlines()[2].split() == ["2,000", "36,864", "-", "-", "-", "-", "-"]
    assert "No schedule for 2000 ranks and a cap of 36864: " in reasons
    assert "Least waste: --dp-size 8 " in reasons
    assert "dp_size" in refused("sweep", "--dp-size", "2000,3000")


@pytest.mark.parametrize("value", ["8,", "8,0", "-1", "eight", ""])
def test_bad_list(value):
    process = run("sweep", f"--dp-size={value}")
    assert process.returncode == 2
    assert f"--dp-size: must be whole numbers >= 1 such as 8,16,32, got '{value}'" in process.stderr
