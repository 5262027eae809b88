"""Write the command reference from the parsers: ``python docs/write_commands.py > docs/commands.md``."""

import argparse
from collections.abc import Iterator

from flopbalance.commands.main import add_commands

HEAD = """# Commands

Written by `python docs/write_commands.py`; a test holds it against the parsers. Without a file, commands plan a
built-in rollout. Exit codes: 0; 2 with one line on standard error where an input is bad; 1 where `check` finds a step
that cannot be planned or `check-costs` a cost that is unusable; 130 after Ctrl-C and 141 where the reader of a pipe has
seen enough.
"""


def page() -> str:
    """Return the whole page."""
    commands = argparse.ArgumentParser(prog="flopbalance").add_subparsers()
    add_commands(commands)
    return "\n".join([HEAD, *(line for parser in commands.choices.values() for line in section(parser))])


def section(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the lines on one command."""
    yield from (f"## {parser.prog}", "", parser.description or "", "", "| option | meaning |", "|---|---|")
    parser.format_usage()  # by then, all options have joined
    for action in parser._actions:
        if "--help" not in action.option_strings:
            cells = (f"`{spelling(action)}`", parser._get_formatter()._expand_help(action))
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def spelling(action: argparse.Action) -> str:
    """Return how an option or argument is written, with what it takes."""
    takes = str(action.metavar or "") if action.nargs != 0 else ""
    if action.choices:
        takes = "{" + ",".join(map(str, action.choices)) + "}"
    if action.option_strings:
        return f"{action.option_strings[-1]} {takes or action.dest.upper() if action.nargs != 0 else ''}".strip()
    return takes or action.dest.upper()


if __name__ == "__main__":
    print(page(), end="")
