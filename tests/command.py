"""Runs the command as a user does: in this process, or in one of its own where a test is about the process."""

import io
import os
import pty
import subprocess
import sys

import pytest

from flopbalance.commands.main import main

COMMAND = (sys.executable, "-m", "flopbalance")


def run(*arguments, input="", cwd="."):  # noqa: A002 - as subprocess.run calls it
    """Return how the command ends in this process, its output as text: Python starts but once."""
    written = {name: io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for name in ("stdout", "stderr")}
    with pytest.MonkeyPatch.context() as here:
        for name, stream in written.items():
            here.setattr(sys, name, stream)
        here.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode()), encoding="utf-8"))
        here.chdir(cwd)
        try:
            code = main([*map(str, arguments)])
        except SystemExit as end:  # --help and --version
            code = end.code
    for stream in written.values():
        stream.flush()
    return subprocess.CompletedProcess(
        arguments, code, **{name: stream.buffer.getvalue().decode() for name, stream in written.items()}
    )


def run_process(*arguments, **options):
    """Return the finished process, its output as text."""
    options = {"capture_output": True, "text": True, "timeout": 120, "stdin": subprocess.DEVNULL} | options
    if "input" in options:
        del options["stdin"]
    return subprocess.run([*COMMAND, *map(str, arguments)], check=False, **options)


def refused(*arguments, **options):
    """Return the one line on standard error of a run that must end with exit code 2 and print nothing else."""
    process = run(*arguments, **options)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("flopbalance: error: ")
    assert process.stderr.count("\n") == 1
    return process.stderr.removeprefix("flopbalance: error: ").rstrip()


def run_on_terminal(*arguments, **environment):
    """Return what a terminal shows of standard output and standard error."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm", "PATH": os.environ["PATH"]} | environment
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError:  # Linux reports so that no one writes any more
            pass
    os.close(ours)
    assert process.returncode == 0
    return shown.decode().replace("\r\n", "\n")
