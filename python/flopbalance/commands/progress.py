"""A progress bar for people; nothing where no one looks."""

import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

WIDTH = 30

Item = TypeVar("Item")


def progress(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Yield `items`; meanwhile, if standard error is a terminal, show how many are done there.

    The bar is gone when the last item is done, or when the loop ends early.
    """
    if not sys.stderr.isatty():
        yield from items
        return
    try:
        for done, item in enumerate(items):
            bar = "#" * (WIDTH * done // len(items))
            print(f"\r{label} [{bar:<{WIDTH}}] {done}/{len(items)}", end="", file=sys.stderr, flush=True)
            yield item
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
