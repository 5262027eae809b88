"""Which columns of a file hold the lengths and the rollout ids, and what a list in one of them means."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from flopbalance.text import listed, quoted

USUAL_NAMES = ("length", "lengths")

_TOKEN_IDS = re.compile("(.*_)?ids|((input|output|prompt|response|completion)_)?tokens")
_LENGTHS = re.compile("(.*_)?(seq)?len(gth)?s?(_.*)?|(n|num|total)_tokens")


@dataclass(frozen=True)
class Columns:
    """The columns that the caller asked for."""

    lengths: str | None
    rollout_ids: str | None

    def among(self, names: Iterable[str]) -> tuple[str, str | None]:
        """Return the names of the lengths and of the rollout ids."""
        names = list(names)
        for wanted in (self.lengths, self.rollout_ids):
            if wanted is not None and names.count(wanted) != 1:
                raise ValueError(f"expected one column {quoted(wanted)}, found {listed(names)}")
        if self.lengths is not None:
            return self.lengths, self.rollout_ids
        usual = [name for name in names if name != self.rollout_ids]
        if len(usual) > 1:
            usual = [name for name in usual if name in USUAL_NAMES]
        if len(usual) != 1:
            raise ValueError(f'expected one column, one called "length", or the name of one, found {listed(names)}')
        return usual[0], self.rollout_ids

    def refuse(self) -> None:
        """Refuse a choice of columns where there are none."""
        if self.lengths is not None or self.rollout_ids is not None:
            wanted = self.rollout_ids if self.lengths is None else self.lengths
            raise ValueError(f"expected a column {quoted(wanted)}, found lengths without columns")


def holds_token_ids(column: str) -> bool:
    """Return whether a list in a column is one sample, of as many tokens as it has ids; else it is a list of lengths.

    Examples
    --------
    >>> holds_token_ids("input_ids"), holds_token_ids("total_lengths")
    (True, False)
    """
    name = column.lower()
    if _TOKEN_IDS.fullmatch(name):
        return True
    if _LENGTHS.fullmatch(name):
        return False
    raise ValueError(
        f"expected a number in {quoted(column)}, found a list: lengths would be in a column called lengths, "
        "total_lengths or the like, token ids in one called input_ids or tokens"
    )
