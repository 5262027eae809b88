"""Runs the command as a user does."""

import subprocess
import sys

COMMAND = (sys.executable, "-m", "flopbalance")


def run(*arguments, **options):
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
