"""``flopbalance plot`` as a user runs it."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from command import refused, run, run_process

pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'flopbalance[plot]'")

TINY = Path(__file__).parent / "golden" / "tiny.json"
SMALL = ("--prompts", 16, "--dp-size", 4)


def plot(*arguments, **options):
    process = run("plot", *arguments, **options)
    assert (process.returncode, process.stderr) == (0, "")
    return process.stdout


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return what a small picture's command prints, and the page that it writes where nothing says where."""
    folder = tmp_path_factory.mktemp("drawn")
    return plot(*SMALL, cwd=folder), folder / "schedule.html"


def titles(svg):
    root = ElementTree.fromstring(svg[svg.index("<svg") : svg.index("</svg>") + len("</svg>")])
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_page_of_the_most_thorough_mode_by_default(drawn):
    last = "within cap: step"
    output, path = drawn
    assert output == f"Drawn to schedule.html: plain and {last}\n"
    page = path.read_text(encoding="utf-8")
    shown = titles(page)
    assert any(text.startswith("plain: the only step, ranks idle ") for text in shown)
    assert any(text.startswith(f"{last}: the only step, in ") for text in shown)
    cells = re.findall(r"<td>(.*?)</td>", page)
    assert cells[0] == "plain"
    assert cells[6] == last


def test_the_table_agrees_with_compare(tmp_path):
    path = tmp_path / "page.html"
    plot("--out", path, "--balance-data")
    cells = re.findall(r"<td>(.*?)</td>", path.read_text(encoding="utf-8"))
    compared = run("compare").stdout.split("\n\n")[1].replace("*", " ")
    for name, *figures in (cells[:6], cells[6:]):
        (row,) = (line.split("  ", 1)[1].split() for line in compared.splitlines() if line.startswith(f"{name} "))
        micro_batches, over_cap, _, step, micro_batch, *_ = row
        assert [micro_batches, over_cap, step, micro_batch] == [figures[0], figures[1], figures[3], figures[4]]


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.html", b"<!DOCTYPE html>")]
)
def test_the_ending_says_what_is_written(tmp_path, name, start):
    plot(*SMALL, "--out", tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_options_reach_the_picture(tmp_path):
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("9\n1\n9\n1\n" * 2)
    path = tmp_path / "a.svg"
    flags = ("--dp-size", 2, "--micro-batch-size", 1, "--global-batch-size", 4, "--model", TINY)
    assert plot(lengths, *flags, "--step", 1, "--objective", "micro-batch", "--out", path).endswith("balance data\n")
    texts = titles(path.read_text(encoding="utf-8"))
    assert "time since the start of the step (kFLOPs), where ranks meet at every micro-batch" in texts
    assert any(text.startswith("8 samples of 8 rollouts, 40 tokens, over 2 ranks in steps of 4") for text in texts)
    assert next(text for text in texts if ": step " in text).startswith("plain: step 1 of 0–1, ")


def test_the_same_picture_every_time(drawn, tmp_path):
    output, path = drawn
    process = run_process("plot", *SMALL, cwd=tmp_path)  # of its own, where sets have another order
    assert (process.returncode, process.stdout, process.stderr) == (0, output, "")
    assert (tmp_path / "schedule.html").read_bytes() == path.read_bytes()


def test_refusals_are_one_line(tmp_path):
    assert refused("plot", "--out", "a.jpg") == "--out must end in .html, .png or .svg, got a.jpg"
    assert (
        refused("plot", *SMALL, "--global-batch-size", 2, "--step", 8) == "step must be < 8, the number of steps, got 8"
    )
    assert refused("plot", tmp_path / "absent.csv") == f"{tmp_path}/absent.csv: No such file or directory"
    path = tmp_path / "absent" / "a.png"
    assert refused("plot", *SMALL, "--out", path) == f"{path}: No such file or directory"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    path = tmp_path / "a.html"
    assert refused("plot", *SMALL, "--out", path) == f"{path}: Permission denied"


def test_without_matplotlib_one_line_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from flopbalance.commands.main import main; sys.exit(main(['plot']))"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr == (
        "flopbalance: error: pictures need matplotlib, found none: pip install 'flopbalance[plot]'\n"
    )


def test_without_a_balance_option_the_plan_is_for_the_objective(drawn, tmp_path):
    plot(*SMALL, "--objective", "micro-batch", cwd=tmp_path)
    waiting = []
    for page in (drawn[1], tmp_path / "schedule.html"):  # the first for the objective "step"
        cells = re.findall(r"<td>(.*?)</td>", page.read_text(encoding="utf-8"))
        waiting.append(float(cells[-1].rstrip("%")))
    assert waiting[0] > waiting[1]


def test_a_mode_that_cannot_be_planned_has_its_reason(tmp_path):
    path = tmp_path / "lengths.txt"
    path.write_text("\n".join(map(str, range(1, 17))))
    text = plot(path, "--dp-size", 32, "--balance-within-cap", "--on-shortage", "repeat", cwd=tmp_path)
    reason, drawn = text.splitlines()
    assert reason.startswith("No schedule for plain: ")
    assert drawn == "Drawn to schedule.html: within cap: step"
    page = (tmp_path / "schedule.html").read_text(encoding="utf-8")
    assert re.findall(r"<td>(.*?)</td>", page)[:7] == ["plain", *["-"] * 5, "within cap: step"]
    assert "<p>No schedule for plain: " in page
    refused("plot", path, "--dp-size", 32, "--balance-data", cwd=tmp_path)
