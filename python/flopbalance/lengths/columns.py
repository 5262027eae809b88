"""Which columns of a file hold the lengths and the rollout ids, and how messages show what stands there."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

USUAL_NAMES = ("length", "lengths")


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
                raise ValueError(f"expected one column {shown(wanted)}, found {listed(names)}")
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
            raise ValueError(f"expected a column {shown(wanted)}, found lengths without columns")


def listed(names: Iterable[str]) -> str:
    """Return names as a message shows them."""
    return ", ".join(map(shown, names)) or "none"


def shown(value: object) -> str:
    """Return `value` as a message shows it: short, and on one line.

    Examples
    --------
    >>> shown([0] * 100)
    '[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,...'
    """
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
