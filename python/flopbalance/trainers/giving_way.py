"""Options of a parser that give way to later ones of the same flag or attribute.

`argparse` has this for parsers with ``conflict_handler="resolve"`` alone, and there any option gives way to any other.
What is done here uses the means of that handler, which have names with an underscore in every Python so far: a parser's
actions, its table of flags, and the one method by which an action joins a parser or a group of it.
"""

import argparse
from functools import partial
from typing import Any

_MARK = "_gives_way"


def let_give_way(action: argparse.Action) -> None:
    """Mark an option as one that gives way, in every parser that takes it over."""
    setattr(action, _MARK, True)


def watch(parser: argparse.ArgumentParser) -> None:
    """Let whatever joins a parser from now on, or a group that it has or will have, displace marked options.

    Examples
    --------
    >>> parser = argparse.ArgumentParser()
    >>> let_give_way(parser.add_argument("--size", default="ours"))
    >>> watch(parser)
    >>> _ = parser.add_argument_group("host").add_argument("--extent", dest="size", default="theirs")
    >>> parser.parse_args([])
    Namespace(size='theirs')
    """
    _watch(parser, parser)


def _watch(parser: argparse.ArgumentParser, container: Any) -> None:
    if "_add_action" not in vars(container):
        vars(container).update(
            _add_action=partial(_displace_and_add, parser, container._add_action),
            add_argument_group=partial(_add_group, parser, container.add_argument_group),
        )
    for group in container._action_groups:
        _watch(parser, group)


def _add_group(parser: argparse.ArgumentParser, add_argument_group: Any, *args: Any, **kwargs: Any) -> Any:
    group = add_argument_group(*args, **kwargs)
    _watch(parser, group)
    return group


def _displace_and_add(parser: argparse.ArgumentParser, add_action: Any, action: argparse.Action) -> Any:
    names = {action.dest, *action.option_strings}
    for other in list(parser._actions):
        if hasattr(other, _MARK) and other is not action and names & {other.dest, *other.option_strings}:
            for flag in other.option_strings:
                del parser._option_string_actions[flag]
            # Not other.container, which is of the last parser that took it over.
            holder = next(group for group in parser._action_groups if other in group._group_actions)
            holder._remove_action(other)
    return add_action(action)
