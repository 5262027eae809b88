"""Pictures of schedules: who runs what when, how full micro-batches are, where the cost comes from.

Figures are made without pyplot: nothing global changes, no display is needed, and nothing has to be closed.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from flopbalance.checks import CostFunction, Floats, Ints, as_count, as_float_costs, as_text, shown
from flopbalance.planning.pipeline import Pipeline
from flopbalance.reports.timeline import (
    Distribution,
    Meeting,
    Timeline,
    idle_share,
    timelines,
    worst_step,
)
from flopbalance.schedules.schedule import Schedule, planned_lengths
from flopbalance.text import counted, printable, si_prefix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Colours that the colour-blind tell apart (Okabe and Ito 2008), and that differ in brightness too.
WITHIN_CAP = "#56B4E9"
OVER_CAP = ("#FBD38D", "#E8710A", "#8C2D04")
ALONE = "#CC79A7"
IDLE = "#F2F2F2"
IDLE_HATCH = "#BDBDBD"
CURVES = ("#000000", "#0072B2", "#009E73", "#CC79A7")
CAP = "#D55E00"
DASHES = ("-", "--", "-.", ":")

WIDTH = 12.0
"""Of a figure, in inches, as all sizes below."""
PANEL_HEIGHT = 2.7
SMALL, MEDIUM = 8, 9
"""Font sizes, in points."""
SEVERE = 0.1
"""So large an excess over the cap, as a share of it, may have the darkest colour."""
LABELLED_RANKS = 16
"""At most so many ranks leave room for text in their bars."""
SEPARATE_RANKS = 64
"""At most so many leave room for a gap between them."""


def plot_schedule(
    schedule: Schedule,
    costs: npt.ArrayLike | CostFunction,
    *,
    lengths: npt.ArrayLike | None = None,
    max_tokens: int | None = None,
    step: int | None = None,
    objective: Meeting = "step",
    cost_unit: str = "FLOPs",
    title: str | None = None,
    pipeline: Pipeline | None = None,
) -> Figure:
    """Draw a schedule: a time line of one step, the tokens of all micro-batches, the distribution of lengths.

    Parameters
    ----------
    schedule : Schedule
        Of n samples.
    costs : array_like of shape (n,) or object with ``flops(lengths)``
        What each sample costs.
    lengths : array_like of shape (n,), optional
        Tokens of each sample, needed with a cost object; without them their distribution is left out.
    max_tokens : int, optional
        Token cap of a micro-batch; the colour of a micro-batch is its tokens above the cap.
    step : int, optional
        The step that the time line shows, from 0; by default the one in which ranks wait longest.
    objective : {"step", "micro-batch", "pipeline"}, default "step"
        Whether ranks wait for each other at the end of a step, of every micro-batch, or of a step behind a `pipeline`,
        whose last stage is drawn then.
    cost_unit : str, default "FLOPs"
        The unit of `costs`; gets a prefix such as P for 10^15.
    title : str, optional
        Above the picture.
    pipeline : Pipeline, optional
        Of every rank, of one chunk, for ``objective="pipeline"`` only.

    Returns
    -------
    matplotlib.figure.Figure
        ``figure.savefig("schedule.png")`` writes it, to .svg or .pdf as well.

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        For an argument that breaks its rule.

    See Also
    --------
    plot_comparison : Several schedules on one scale.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths = [7, 2, 5, 4, 3]
    >>> schedule = plan(lengths, dp_size=2, max_tokens=8)
    >>> figure = plot_schedule(schedule, lengths, max_tokens=8, cost_unit="tokens")  # doctest: +SKIP
    >>> figure.savefig("schedule.svg")  # doctest: +SKIP
    """
    return plot_comparison(
        {"": schedule},
        costs,
        lengths=lengths,
        max_tokens=max_tokens,
        step=step,
        objective=objective,
        cost_unit=cost_unit,
        title=title,
        pipeline=pipeline,
    )


def plot_comparison(
    schedules: Mapping[str, Schedule],
    costs: npt.ArrayLike | CostFunction,
    *,
    lengths: npt.ArrayLike | None = None,
    max_tokens: int | None = None,
    step: int | None = None,
    objective: Meeting = "step",
    cost_unit: str = "FLOPs",
    title: str | None = None,
    pipeline: Pipeline | None = None,
) -> Figure:
    """Draw schedules of the same samples on one scale, such as before and after balancing.

    Parameters
    ----------
    schedules : mapping of str to Schedule
        At least one, by the name that the picture gives it; from top to bottom.
    costs, lengths, max_tokens, objective, cost_unit, title, pipeline
        As for `plot_schedule`.
    step : int, optional
        The step that the time lines show, from 0; by default the one in which ranks wait longest under the first
        schedule.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        For an argument that breaks its rule.

    Examples
    --------
    >>> from flopbalance import plan
    >>> lengths = [7, 2, 5, 4, 3]
    >>> schedules = {
    ...     "plain": plan(lengths, dp_size=2, max_tokens=8, balance_ranks=False),
    ...     "balanced": plan(lengths, dp_size=2, max_tokens=8),
    ... }
    >>> figure = plot_comparison(schedules, lengths, cost_unit="tokens")  # doctest: +SKIP
    """
    if not isinstance(schedules, Mapping):
        raise ValueError(f"schedules must be a mapping from names to schedules, got {shown(schedules)}")
    if not schedules:
        raise ValueError("schedules must hold at least one schedule, got none")
    for name, schedule in schedules.items():
        if not isinstance(schedule, Schedule):
            which = f"schedules[{name!r}]" if name else "schedule"
            raise ValueError(f"{which} must be a Schedule, as plan returns it, got {shown(schedule)}")
    max_tokens = None if max_tokens is None else as_count(max_tokens, "max_tokens")
    as_text(cost_unit, "cost_unit")
    title = None if title is None else as_text(title, "title")
    tokens = None
    if lengths is not None:
        tokens, *_ = (planned_lengths(schedule, lengths) for schedule in schedules.values())
    weights = as_float_costs(costs, tokens, next(iter(schedules.values())).num_samples)
    lines = {
        name: timelines(schedule, weights, max_tokens=max_tokens, objective=objective, pipeline=pipeline)
        for name, schedule in schedules.items()
    }
    step = _chosen_step(step, list(lines.values()))
    distribution = None if tokens is None else Distribution.of(tokens, weights)

    mpl = _matplotlib()
    heights = [_timeline_height(schedule.dp_size) for schedule in schedules.values()]
    figure: Figure = mpl.figure.Figure((WIDTH, sum(heights) + PANEL_HEIGHT + 1.4), dpi=150)
    figure.set_layout_engine("constrained", h_pad=0.08, w_pad=0.08)
    grid = figure.add_gridspec(len(heights) + 1, 2, height_ratios=[*heights, PANEL_HEIGHT])

    drawn = {name: of_steps[step] for name, of_steps in lines.items()}
    first = next(iter(drawn.values()))
    duration = max(line.duration for line in drawn.values())
    scale, prefix = si_prefix(duration)
    palette = _Palette(mpl, list(drawn.values()), max_tokens)
    axes = [figure.add_subplot(grid[row, :]) for row in range(len(heights))]
    for ax, (name, line) in zip(axes, drawn.items(), strict=True):
        ax.set_xlim(0, duration / scale or 1.0)
        _draw_timeline(ax, line, palette, scale)
        facts = [f"step {step} of 0–{len(lines[name]) - 1}" if len(lines[name]) > 1 else "the only step"]
        if line is not first and first.duration:
            facts.append(f"in {line.duration / first.duration:.1%} of the time")
        facts += [f"ranks idle {idle_share([line]):.1%}", f"busiest rank {np.argmax(line.busy)}"]
        if max_tokens is not None:
            facts.append(f"micro-batches: {_over_cap([line])}")
        _decorate(ax, _named(name, ", ".join(facts)), "", "rank")
    meeting = {
        "step": "once a step",
        "micro-batch": "at every micro-batch",
        "pipeline": f"once a step; on the last of {counted(pipeline.stages, 'stage') if pipeline else ''}",
    }[objective]
    axes[-1].set_xlabel(
        f"time since the start of the step ({prefix}{printable(cost_unit)}), where ranks meet {meeting}",
        fontsize=MEDIUM,
    )
    palette.explain(figure, axes, list(drawn.values()), title)

    _draw_tokens(mpl, figure.add_subplot(grid[-1, 0 if distribution else slice(None)]), lines, max_tokens)
    if distribution:
        _draw_distribution(figure.add_subplot(grid[-1, 1]), distribution)
    return figure


def figure_as_svg(figure: Figure) -> str:
    """Return a figure as an SVG document that is the same whenever and wherever it is drawn; text stays text."""
    stream = io.StringIO()
    with _matplotlib().rc_context({"svg.hashsalt": "flopbalance", "svg.fonttype": "none"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()


def _matplotlib() -> ModuleType:
    try:
        import matplotlib
        import matplotlib.cm
        import matplotlib.collections
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.lines
        import matplotlib.patches
        import matplotlib.ticker
    except ImportError:
        raise ImportError("pictures need matplotlib, found none: pip install 'flopbalance[plot]'") from None
    return matplotlib


def _chosen_step(step: int | None, lines: list[list[Timeline]]) -> int:
    if step is None:
        step = worst_step(lines[0])
    step, steps = as_count(step, "step", minimum=0), min(map(len, lines))
    if step >= steps:
        raise ValueError(f"step must be < {steps}, the number of steps, got {step}")
    return step


def _timeline_height(ranks: int) -> float:
    return min(max(0.5 * math.sqrt(ranks), 1.0), 8.0)


class _Palette:
    """The colour of each micro-batch, the same in all time lines of a picture."""

    def __init__(self, mpl: ModuleType, lines: list[Timeline], max_tokens: int | None) -> None:
        self.mpl = mpl
        self.over_cap: Colormap = mpl.colors.LinearSegmentedColormap.from_list("over_cap", OVER_CAP)
        largest = max(int(line.over_cap[line.breaks_cap].max(initial=0)) for line in lines)
        # A few tokens above the cap should not look like many.
        self.norm = mpl.colors.Normalize(0, max(largest, SEVERE * (max_tokens or 1)))
        self.any_over_cap = largest > 0
        self.has_cap = max_tokens is not None

    def colours(self, line: Timeline) -> Floats:
        """Return RGBA of shape (ranks, micro-batches, 4)."""
        colours = np.array(self.over_cap(self.norm(line.over_cap)))
        colours[line.over_cap == 0] = self.mpl.colors.to_rgba(WITHIN_CAP)
        colours[line.alone] = self.mpl.colors.to_rgba(ALONE)
        return colours

    def explain(self, figure: Figure, axes: list[Axes], lines: list[Timeline], title: str | None) -> None:
        """Add the title, the legend below it, and a colour bar if any micro-batch is above the cap."""
        patch = self.mpl.patches.Patch
        within = "micro-batch within the cap" if self.has_cap else "micro-batch"
        if any(ax.texts for ax in axes):
            within += ", with its tokens"
        handles: list[Any] = [patch(facecolor=WITHIN_CAP, label=within)]
        if any(line.alone.any() for line in lines):
            handles.append(patch(facecolor=ALONE, label="one sample longer than the cap"))
        handles.append(patch(facecolor=IDLE, edgecolor=IDLE_HATCH, hatch="////", label="idle: waits for other ranks"))
        handles.append(self.mpl.lines.Line2D([], [], color="black", linestyle="--", label="work of the mean rank"))
        figure.legend(
            handles=handles,
            title=None if title is None else "\n".join(map(printable, title.split("\n"))),
            title_fontsize=MEDIUM + 2,
            alignment="left",
            loc="outside upper left",
            ncols=4,
            frameon=False,
            fontsize=MEDIUM,
        )
        if self.any_over_cap:
            colours = self.mpl.cm.ScalarMappable(self.norm, self.over_cap)
            height = sum(ax.get_position().height for ax in axes) * figure.get_figheight()
            shrink = min(PANEL_HEIGHT / height, 1.0)
            bar = figure.colorbar(
                colours, ax=axes, pad=0.01, aspect=22, fraction=0.03, shrink=shrink, anchor=(0.0, 1.0)
            )
            bar.set_label("micro-batch above the cap by (tokens)", fontsize=MEDIUM)
            bar.ax.tick_params(labelsize=SMALL)
            bar.ax.yaxis.set_major_formatter("{x:,.0f}")


def _over_cap(lines: list[Timeline]) -> str:
    micro_batches = sum(line.costs.size for line in lines)
    over = sum(np.count_nonzero(line.breaks_cap) for line in lines)
    alone = sum(np.count_nonzero(line.alone) for line in lines)
    text = f"{over:,} of {micro_batches:,} above the cap"
    return f"{text}, {alone:,} of one longer sample" if alone else text


def _named(name: str, text: str) -> str:
    return f"{printable(name)}: {text}" if name else text


def _draw_timeline(ax: Axes, line: Timeline, palette: _Palette, scale: float) -> None:
    ranks, batches = line.costs.shape
    polygons = palette.mpl.collections.PolyCollection
    rows = np.broadcast_to(np.arange(ranks)[:, None], line.costs.shape)
    starts, ends = line.starts / scale, (line.starts + line.costs) / scale
    # Each rank waits before its first micro-batch, if it is a pipeline, and after any.
    idle_starts, idle = np.hstack([0 * starts[:, :1], ends]), np.hstack([starts[:, :1], line.waits / scale])
    idle_rows, waiting = np.hstack([rows[:, :1], rows]), idle > 0
    height = 0.84 if ranks <= SEPARATE_RANKS else 1.0
    ax.add_collection(
        polygons(
            _rectangles(idle_starts[waiting], idle[waiting], idle_rows[waiting], height),
            label="idle",
            facecolor=IDLE,
            edgecolor=IDLE_HATCH,
            hatch="////",
            linewidth=0,
        )
    )
    ax.add_collection(
        polygons(
            _rectangles(starts.ravel(), (ends - starts).ravel(), rows.ravel(), height),
            label="micro-batches",
            facecolor=palette.colours(line).reshape(-1, 4),
            edgecolor="white",
            linewidth=min(0.6, 0.08 * 72 * min(_timeline_height(ranks) / ranks, WIDTH / batches)),  # of the bar
        )
    )
    ax.axvline(line.busy.mean() / scale, color="black", linestyle="--", linewidth=1)
    if ranks <= LABELLED_RANKS:
        _label_bars(ax, line, palette, scale)
    ax.set_ylim(ranks - 0.5, -0.5)
    ax.set_yticks(range(0, ranks, _tick_distance(ranks)))


def _rectangles(lefts: Floats, widths: Floats, rows: Ints, height: float) -> Floats:
    """Return corners of shape (rectangles, 4, 2)."""
    rights, tops, bottoms = lefts + widths, rows - height / 2, rows + height / 2
    return np.stack([np.stack([lefts, lefts, rights, rights], 1), np.stack([tops, bottoms, bottoms, tops], 1)], 2)


def _label_bars(ax: Axes, line: Timeline, palette: _Palette, scale: float) -> None:
    """Write its tokens into every bar that is wide enough."""
    brightness = palette.colours(line)[..., :3] @ (0.299, 0.587, 0.114)
    letter = 0.006 * ax.get_xlim()[1] * scale  # as wide as one, roughly
    for rank, batch in np.ndindex(line.costs.shape):
        text = f"{line.tokens[rank, batch]:,}"
        if line.costs[rank, batch] < letter * (len(text) + 1):
            continue
        ax.text(
            float(line.starts[rank, batch] + line.costs[rank, batch] / 2) / scale,
            rank,
            text,
            horizontalalignment="center",
            verticalalignment="center_baseline",
            fontsize=SMALL - 1,
            color="black" if brightness[rank, batch] > 0.5 else "white",
        )


def _tick_distance(ranks: int) -> int:
    """Return a power of two that leaves at most 16 ticks."""
    return 1 << max(math.ceil(math.log2(ranks / 16)), 0)


def _draw_tokens(mpl: ModuleType, ax: Axes, lines: Mapping[str, list[Timeline]], max_tokens: int | None) -> None:
    for i, (name, of_steps) in enumerate(lines.items()):
        tokens = np.sort(np.concatenate([line.tokens.ravel() for line in of_steps]))[::-1]
        label = _named(name, f"largest {tokens[0]:,}")
        if max_tokens is not None:
            label += f", {_over_cap(of_steps)}"
        ax.stairs(
            tokens,
            label=label,
            baseline=None,
            color=CURVES[i % len(CURVES)],
            linestyle=DASHES[i % len(DASHES)],
            linewidth=1.6,
        )
    if max_tokens is not None:
        ax.axhline(max_tokens, color=CAP, linewidth=1, label=f"cap: {max_tokens:,}")
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        axis.set_major_formatter("{x:,.0f}")
    ax.legend(loc="best", frameon=False, fontsize=SMALL)
    _decorate(ax, "tokens of every micro-batch", "micro-batches of all steps, largest first", "tokens")


def _draw_distribution(ax: Axes, distribution: Distribution) -> None:
    edges = distribution.edges
    ax.stairs(100 * distribution.samples, edges, fill=True, color="#BDBDBD", label="of the samples")
    ax.stairs(100 * distribution.costs, edges, color=CURVES[1], linewidth=1.6, label="of their cost")
    ax.set_xscale("log", base=2)
    low, high = math.ceil(math.log2(edges[0])), math.floor(math.log2(edges[-1]))
    powers = [2**power for power in range(low, high + 1, max(math.ceil((high - low) / 7), 1))]
    ax.set_xticks(powers or edges)
    ax.minorticks_off()
    ax.set_xlim(edges[0] / 1.03, edges[-1] * 1.03)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    ax.set_ylim(top=1.2 * ax.get_ylim()[1])  # room for the legend
    ax.legend(loc="upper left", ncols=2, frameon=False, fontsize=SMALL)
    headline = f"lengths: the longest tenth of the samples has {distribution.longest_tenth:.0%} of the cost"
    _decorate(ax, headline, "length of a sample (tokens)", "share (%)")


def _decorate(ax: Axes, title: str, x_label: str, y_label: str) -> None:
    ax.set_title(title, loc="left", fontsize=MEDIUM + 1)
    ax.set_xlabel(x_label, fontsize=MEDIUM)
    ax.set_ylabel(y_label, fontsize=MEDIUM)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)
