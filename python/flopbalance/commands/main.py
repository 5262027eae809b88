"""The command line: ``flopbalance plan`` and its companions."""

import argparse
import contextlib
import importlib
import importlib.metadata
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from flopbalance.text import printable, shortened

COMMANDS = ("plan", "check", "compare", "sweep", "plot", "costs", "calibrate", "check-costs")

# Exit codes: argparse's own for bad usage, and what shells report of a program that SIGINT or SIGPIPE ended.
REFUSED = 2
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13

_LONGEST_MESSAGE = 800
"""Of an error, in characters; what an argument or a file holds may be of any length."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code.

    Bad input and files that cannot be used end in one line on standard error and exit code 2. A reader that has seen
    enough (``| head``) and Ctrl-C end the run quietly.
    """
    _open_closed_streams()
    try:
        try:
            options = _parser().parse_args(arguments)
            code: int = options.run(options)
        finally:
            print(end="", flush=True)  # here, where a full disk or a broken pipe can still be reported
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:
        _discard_output()
        return _refuse(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except MemoryError:
        return _refuse("the input takes more memory than there is")
    except (ValueError, OverflowError, RecursionError) as error:
        return _refuse(str(error))
    return code


def _open_closed_streams() -> None:
    """Let a command that was started with a closed standard stream run as with one to nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - lives as long as the process


class _Parser(argparse.ArgumentParser):
    """Refuses in one line, as everything else here does, instead of printing the usage first."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see {self.prog} --help")


def _refuse(message: str) -> int:
    print(f"flopbalance: error: {shortened(printable(message), _LONGEST_MESSAGE)}", file=sys.stderr)
    return REFUSED


def _discard_output() -> None:
    """Keep Python from writing to a broken standard output once more when it ends."""
    with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # a notebook's has no descriptor
        output = sys.stdout.fileno()
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="flopbalance", description="Balance samples of very different lengths over data-parallel ranks."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {importlib.metadata.version('flopbalance')}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    add_commands(subparsers)
    return parser


def add_commands(subparsers: Any) -> None:
    """Add the parser of every command; imported here, so that Ctrl-C while they load ends quietly as well."""
    for name in COMMANDS:
        importlib.import_module(f"flopbalance.commands.{name.replace('-', '_')}").add_parser(subparsers)
