"""What every command owes its user: exit codes, one line for an error, quiet ends."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import COMMAND, refused, run, run_process
from flopbalance.commands.main import COMMANDS, main

LOG = Path(__file__).parent / "golden" / "cpu_micro_batches.csv"


def test_help_lists_the_commands():
    process = run("--help")
    assert process.returncode == 0
    assert all(f"\n    {name}" in process.stdout for name in COMMANDS)


def test_version_is_that_of_the_package():
    assert run("--version").stdout.startswith("flopbalance ")


@pytest.mark.parametrize("arguments", [(), ("fly",), ("plan", "--dp-size", "many"), ("plan", "--no-such-option")])
def test_bad_usage_ends_in_exit_code_2(arguments):
    process = run(*arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("flopbalance: error: ")
    assert process.stderr.count("\n") == 1


def test_the_installed_script_is_the_same_command():
    script = Path(sys.executable).with_name("flopbalance")
    assert subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout.startswith("flopb")


def test_main_can_be_called_from_python(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert main(["plan", "absent.csv"]) == 2
    assert sys.stderr.getvalue() == "flopbalance: error: absent.csv: No such file or directory\n"
    assert main(["plan", "--prompts", "64"]) == 0
    assert "by FLOPs" in sys.stdout.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "lengths.txt", "--dp-size", 2, "--explain", "--out", "schedule.json"),
        ("plan", "absent.csv"),
        ("plan", "--help"),
        ("check", "--dp-size", 4, "--global-batch-size", 6, "--micro-batch-size", 2),
        ("compare", "-", "--dp-size", 2),
        ("sweep", "-", "--dp-size", "2,4"),
        ("costs", "--dp-size", 4, "--model", "qwen3-8B"),
        ("calibrate", LOG, "--save", "fit.json"),
        ("check-costs", LOG, "--cost", "qwen3-0.6b"),
        ("check-costs", LOG, "--cost", ""),
    ],
)
def test_a_process_of_its_own_ends_as_a_call_does(arguments, tmp_path, monkeypatch):
    """Most tests call commands in their own process; that of `plot` is compared in its tests."""
    monkeypatch.setenv("COLUMNS", "80")  # of help; a terminal may be wider
    ends = []
    for way in (run, run_process):
        folder = tmp_path / way.__name__
        folder.mkdir()
        (folder / "lengths.txt").write_text("9\n1\n9\n1\n")
        process = way(*arguments, cwd=folder, input="7\n3\n5\n1\n")
        written = {path.name: path.read_bytes() for path in folder.iterdir()}
        without_times = re.sub(r" +[0-9.]+ ms\*?", " ms", process.stdout)
        ends.append((process.returncode, without_times, process.stderr, written))
    assert ends[0] == ends[1]
    assert process.stdout or process.stderr


@pytest.mark.parametrize("name", ["plan", "compare", "sweep"])
class TestEveryPlanningCommand:
    def test_runs_without_arguments(self, name):
        process = run(name)
        assert (process.returncode, process.stderr) == (0, "")
        assert process.stdout

    def test_help(self, name):
        process = run(name, "--help")
        assert process.returncode == 0
        assert f"usage: flopbalance {name}" in process.stdout

    def test_missing_file(self, name, tmp_path):
        assert refused(name, tmp_path / "absent.csv") == f"{tmp_path}/absent.csv: No such file or directory"

    def test_folder_instead_of_a_file(self, name, tmp_path):
        assert refused(name, tmp_path) == f"{tmp_path}: Is a directory"

    def test_wrong_file(self, name, tmp_path):
        path = tmp_path / "lengths.csv"
        path.write_text("length\n5\nfive\n")
        assert refused(name, path).startswith(f"{path}: line 3: expected a whole number of tokens")

    def test_unknown_model_names_those_near_it(self, name):
        assert "qwen3-8B" in refused(name, "--model", "qwen3-8")

    def test_contradicting_flags(self, name):
        message = refused(name, "--micro-batch-size", 2, "--balance-by-flops")
        assert message == "--balance-by-flops needs --use-dynamic-batch-size"

    @pytest.mark.parametrize("option", ["", "--help"])
    def test_a_reader_that_leaves_is_no_error(self, name, option):
        arguments = [*COMMAND, name, "--prompts", "32", *option.split()]
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(timeout=60) == 141

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
    def test_full_disk(self, name):
        with open("/dev/full", "w") as full:
            process = run_process(name, "--prompts", 32, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        assert (process.returncode, process.stderr) == (2, "flopbalance: error: [Errno 28] No space left on device\n")

    @pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
    def test_control_c_ends_quietly(self, name):
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        # Where the tests run in the background, a shell has them ignore the signal, and what they start as well.
        with subprocess.Popen(
            [*COMMAND, name, "-"], **pipes, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
        ) as process:
            process.stdin.write(b"5\n" * 200_000)  # more than a pipe holds: when all is written, the command reads
            process.stdin.flush()
            time.sleep(0.5)  # a signal just before a blocking read would wait for the next one
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
            assert process.stderr.read() == process.stdout.read() == b""


@pytest.mark.parametrize(("stream", "code"), [("<&-", 2), (">&-", 0), ("2>&-", 0)])
def test_a_closed_stream_is_one_to_nowhere(stream, code):
    file = "-" if stream == "<&-" else ""
    command = f"{sys.executable} -m flopbalance compare {file} --prompts 64 {stream}"
    process = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert process.returncode == code
    assert "Traceback" not in process.stderr
