"""What a notebook shows of a schedule: a table and bars, in HTML that needs nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flopbalance.markup import html_table

if TYPE_CHECKING:
    from flopbalance.checks import Ints
    from flopbalance.schedules.schedule import Schedule

_FILLS = ("#56B4E9", "#0072B2")  # of micro-batches in turn, to be seen on white and on black
_WIDTH = 640  # pixels
_HEIGHT = 240
_TALLEST_ROW = 14


def schedule_html(schedule: Schedule) -> str:
    """Return a table of the schedule's sizes, and a bar of tokens for each rank in the first step.

    Coordinates of the bars are tokens across and ranks down, so they can be read off.

    Examples
    --------
    >>> from flopbalance import plan
    >>> html = schedule_html(plan([7, 2, 5], dp_size=2, max_tokens=8))
    >>> '<path fill="#56B4E9" d="M0 0h7v.9h-7z"/>' in html  # rank 0 has a micro-batch of 7 tokens
    True
    """
    header = ("ranks", "steps", "micro-batches", "largest (tokens)", "samples", "dropped")
    tokens = schedule.micro_batch_tokens
    sizes = (
        schedule.dp_size,
        len(schedule.micro_batches_per_step),
        len(tokens),
        tokens.max(),
        len(schedule.samples),
        len(schedule.dropped),
    )
    table = html_table(header, [[f"{size:,}" for size in sizes]])
    count = schedule.micro_batches_per_step[0]
    step = schedule.token_counts[:, :count]
    of_ranks = step.sum(axis=1)
    low, high = int(of_ranks.argmin()), int(of_ranks.argmax())
    caption = (
        "<p>Tokens of each rank in the first step, by micro-batch: "
        f"from {of_ranks[low]:,} (rank {low}) to {of_ranks[high]:,} (rank {high})</p>"
    )
    return "\n".join(["<div>", table, caption, _bars(step, schedule.sample_counts[:, :count]), "</div>"])


def _bars(tokens: Ints, samples: Ints) -> str:
    """Draw the micro-batches of each rank; both arrays have the shape (ranks, micro-batches)."""
    ranks = len(tokens)
    starts = np.cumsum(tokens, axis=1) - tokens
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(tokens.sum(axis=1).max(), 1)} {ranks}" '
        f'preserveAspectRatio="none" width="{_WIDTH}" height="{max(min(_HEIGHT, ranks * _TALLEST_ROW), 2 * ranks)}">'
    ]
    for rank in range(ranks):
        boxes = [f"M{x} {rank}h{w}v.9h-{w}z" for x, w in zip(starts[rank], tokens[rank], strict=True)]
        paths = [f'<path fill="{fill}" d="{"".join(boxes[i::2])}"/>' for i, fill in enumerate(_FILLS) if len(boxes) > i]
        title = (
            f"rank {rank}: {tokens[rank].sum():,} tokens, {samples[rank].sum():,} samples, "
            f"largest micro-batch {tokens[rank].max():,} tokens"
        )
        lines.append(f"<g><title>{title}</title>{''.join(paths)}</g>")
    return "\n".join([*lines, "</svg>"])
