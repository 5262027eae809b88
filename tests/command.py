"""Runs the command as a user does."""

import os
import pty
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
