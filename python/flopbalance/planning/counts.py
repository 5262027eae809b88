"""How many micro-batches every rank gets in a step."""

from __future__ import annotations

from dataclasses import dataclass

from flopbalance.checks import as_count, as_flag


@dataclass(frozen=True)
class Counts:
    """How many micro-batches, and samples, every rank gets in a step, for `plan`.

    As few micro-batches as the caps allow, and any number of samples, unless it says otherwise.

    Parameters
    ----------
    exactly : int, optional
        So many, as a fixed gradient accumulation needs. A step whose caps need more, or that has fewer samples, is
        refused. With ``packing="capped"``.
    at_least : int, default 1
        No fewer. With ``packing="capped"``.
    multiple : int, default 1
        A multiple of this, as interleaved pipelines need.
    even_samples : bool, default False
        Whether the ranks' numbers of samples in a step differ by at most one, as trainers need that hand every rank as
        many. Ranks are then even by cost as far as that allows, and each is packed for itself, which may take more
        micro-batches. With ``packing="capped"``.

    Raises
    ------
    ValueError
        For what is not such a number, or an `exactly` that the others exclude.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths = [9, 7, 2, 5, 4, 3]
    >>> for counts in (Counts(), Counts(exactly=3), Counts(at_least=2, multiple=3)):
    ...     print(plan(lengths, dp_size=2, max_tokens=16, packing="capped", counts=counts).sample_counts.tolist())
    [[3], [3]]
    [[1, 1, 1], [1, 1, 1]]
    [[1, 1, 1], [1, 1, 1]]
    >>> for counts in (Counts(), Counts(even_samples=True)):
    ...     schedule = plan([9, 1, 1, 1, 1, 1], dp_size=2, max_tokens=16, packing="capped", counts=counts)
    ...     print(schedule.sample_counts.tolist())
    [[1], [5]]
    [[3], [3]]
    """

    exactly: int | None = None
    at_least: int = 1
    multiple: int = 1
    even_samples: bool = False

    def __post_init__(self) -> None:
        own = vars(self)
        own["at_least"] = at_least = as_count(self.at_least, "at_least")
        own["even_samples"] = as_flag(self.even_samples, "even_samples")
        own["multiple"] = multiple = as_count(self.multiple, "multiple")
        if self.exactly is None:
            return
        own["exactly"] = exactly = as_count(self.exactly, "exactly")
        if exactly % multiple:
            raise ValueError(f"exactly must be a multiple of multiple = {multiple}, got {exactly}")
        if exactly < at_least:
            raise ValueError(f"exactly must be >= at_least = {at_least}, got {exactly}")
