"""Every picture is rendered, and what is drawn is compared with the schedule."""

import io
import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from flopbalance import CostModel, Pipeline, plan
from flopbalance.reports.figures import ALONE, WITHIN_CAP, figure_as_svg, plot_comparison, plot_schedule
from flopbalance.reports.page import html_page

matplotlib = pytest.importorskip("matplotlib", reason="pictures need matplotlib: pip install 'flopbalance[plot]'")
to_rgba = pytest.importorskip("matplotlib.colors").to_rgba
FigureCanvasAgg = pytest.importorskip("matplotlib.backends.backend_agg").FigureCanvasAgg

CAP = 4096


class Problem:
    """A rollout with several steps, and two ways to balance it."""

    def __init__(self, ranks, seed=0):
        random = np.random.RandomState(seed)
        self.ranks = ranks
        self.lengths = np.minimum(random.lognormal(6.5, 1, 64 * ranks).astype(np.int64) + 1, CAP)
        self.costs = 3072 * self.lengths + self.lengths**2
        arguments = {"costs": self.costs, "dp_size": ranks, "max_tokens": CAP, "global_batch_size": 32 * ranks}
        self.plain = plan(self.lengths, balance_ranks=False, **arguments)
        self.by_flops = plan(self.lengths, packing="flops", **arguments)

    def batches(self, schedule, step):
        """Return micro-batches as lists of samples: rank by rank, of one step."""
        return [[batch.tolist() for batch in list(schedule.rank(r).steps())[step]] for r in range(self.ranks)]


@pytest.fixture(scope="module", params=[8, 32, 128])
def problem(request):
    return Problem(request.param)


@pytest.fixture(scope="module")
def small():
    return Problem(8)


@pytest.fixture(scope="module")
def small_svg(small):
    return figure_as_svg(plot_schedule(small.plain, small.costs, max_tokens=CAP))


@pytest.fixture(scope="module")
def comparison(problem):
    schedules = {"plain": problem.plain, "by FLOPs": problem.by_flops}
    figure = plot_comparison(
        schedules, problem.costs, lengths=problem.lengths, max_tokens=CAP, step=1, title="title " * 20
    )
    figure.draw_without_rendering()  # lays out, as saving does
    return figure


def boxes(axes, label):
    """Return left, right and middle of the rectangles that a label names."""
    (collection,) = [collection for collection in axes.collections if collection.get_label() == label]
    corners = np.array([path.vertices[:4] for path in collection.get_paths()]).reshape(-1, 4, 2)
    x, y = corners[..., 0], corners[..., 1]
    return x.min(axis=1), x.max(axis=1), (y.min(axis=1) + y.max(axis=1)) / 2, collection


def scale_of(axes):
    prefix = re.search(r"\((.?)FLOPs\)", axes.get_xlabel())[1]
    return 1000 ** " kMGTPE".index(prefix or " ")


def test_every_micro_batch_has_a_bar_as_long_as_its_cost(problem, comparison):
    scale = scale_of(comparison.axes[1])
    for axes, schedule in zip(comparison.axes, (problem.plain, problem.by_flops), strict=False):
        lefts, rights, ranks, _ = boxes(axes, "micro-batches")
        expected = problem.batches(schedule, step=1)
        assert len(lefts) == sum(map(len, expected))
        for rank, batches in enumerate(expected):
            ends = np.cumsum([problem.costs[batch].sum() for batch in batches])
            mine = ranks.round().astype(int) == rank
            assert rights[mine] * scale == pytest.approx(ends)
            assert lefts[mine] * scale == pytest.approx(np.r_[0, ends[:-1]])


def test_idle_time_fills_every_rank_up_to_the_slowest(problem, comparison):
    for axes in comparison.axes[:2]:
        _, ends, ranks, _ = boxes(axes, "micro-batches")
        of_rank = [ends[ranks.round().astype(int) == rank].max() for rank in range(problem.ranks)]
        lefts, rights, waiting, _ = boxes(axes, "idle")
        assert rights == pytest.approx(max(of_rank))
        assert lefts == pytest.approx([of_rank[rank] for rank in waiting.round().astype(int)])
        assert len(lefts) == sum(end < max(of_rank) for end in of_rank)


def test_idle_time_stands_between_micro_batches_where_ranks_meet_there(small):
    figure = plot_schedule(small.plain, small.costs, step=0, objective="micro-batch")
    scale = scale_of(figure.axes[0])
    lefts, rights, ranks, _ = boxes(figure.axes[0], "micro-batches")
    works = np.array([[small.costs[b].sum() for b in row] for row in small.batches(small.plain, 0)])
    starts = np.cumsum(works.max(axis=0)) - works.max(axis=0)
    order = np.lexsort([lefts, ranks])
    assert lefts[order] * scale == pytest.approx(np.tile(starts, small.ranks))
    assert (rights - lefts)[order] * scale == pytest.approx(works.ravel())
    idle_lefts, idle_rights, *_ = boxes(figure.axes[0], "idle")
    assert (idle_rights - idle_lefts).sum() * scale == pytest.approx((works.max(axis=0) - works).sum())
    assert "where ranks meet at every micro-batch" in figure.axes[0].get_xlabel()


def test_colours_tell_tokens_above_the_cap(problem, comparison):
    tokens = [problem.lengths[batch].sum() for row in problem.batches(problem.by_flops, 1) for batch in row]
    assert max(tokens) > CAP  # else there is nothing to see
    colours = boxes(comparison.axes[1], "micro-batches")[3].get_facecolor()
    within = [tuple(colour) == to_rgba(WITHIN_CAP) for colour in colours]
    assert within == [count <= CAP for count in tokens]
    by_excess = sorted((count, colour @ (0.3, 0.6, 0.1, 0)) for count, colour in zip(tokens, colours, strict=True))
    darkness = [brightness for count, brightness in by_excess if count > CAP]
    assert darkness == sorted(darkness, reverse=True)
    bar = comparison.axes[2]
    assert bar.get_ylabel() == "micro-batch above the cap by (tokens)"
    assert bar.get_ylim() == (0, max(max(tokens) - CAP, CAP / 10))
    assert all(tuple(c) == to_rgba(WITHIN_CAP) for c in boxes(comparison.axes[0], "micro-batches")[3].get_facecolor())


def test_headlines_hold_the_figures(problem, comparison):
    plain, balanced = (axes.get_title(loc="left") for axes in comparison.axes[:2])
    work = [
        np.array([[problem.costs[batch].sum() for batch in row] for row in problem.batches(schedule, 1)]).sum(axis=1)
        for schedule in (problem.plain, problem.by_flops)
    ]
    over = sum(problem.lengths[batch].sum() > CAP for row in problem.batches(problem.by_flops, 1) for batch in row)
    assert plain.startswith(f"plain: step 1 of 0–1, ranks idle {1 - work[0].mean() / work[0].max():.1%}, ")
    assert f"busiest rank {work[0].argmax()}, micro-batches: 0 of " in plain
    assert balanced.startswith(f"by FLOPs: step 1 of 0–1, in {work[1].max() / work[0].max():.1%} of the time, ")
    assert f"ranks idle {1 - work[1].mean() / work[1].max():.1%}, " in balanced
    assert re.search(rf"{over} of [\d,]+ above the cap$", balanced)


def test_the_mean_rank_is_marked(problem, comparison):
    for axes in comparison.axes[:2]:
        lefts, rights, *_ = boxes(axes, "micro-batches")
        (line,) = axes.lines
        assert line.get_xdata()[0] == pytest.approx((rights - lefts).sum() / problem.ranks)


def test_tokens_of_all_steps_stand_against_the_cap(problem, comparison):
    axes = comparison.axes[3]
    curves = [patch.get_data() for patch in axes.patches]
    for curve, schedule in zip(curves, (problem.plain, problem.by_flops), strict=True):
        assert curve.values.tolist() == sorted(schedule.micro_batch_tokens.tolist(), reverse=True)
        assert curve.edges.tolist() == list(range(len(schedule.micro_batch_tokens) + 1))
    (cap,) = axes.lines
    assert set(cap.get_ydata()) == {CAP}
    over = np.count_nonzero(problem.by_flops.micro_batch_tokens > CAP)
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == [
        f"plain: largest {problem.plain.micro_batch_tokens.max():,}, 0 of {len(curves[0].values):,} above the cap",
        f"by FLOPs: largest {problem.by_flops.micro_batch_tokens.max():,}, "
        f"{over:,} of {len(curves[1].values):,} above the cap",
        f"cap: {CAP:,}",
    ]


def test_a_cost_object_is_drawn_as_its_costs_are():
    small = Problem(2)
    model = CostModel(per_token=7, per_pair=2)
    pictures = [
        figure_as_svg(plot_schedule(small.plain, costs, lengths=small.lengths))
        for costs in (model, model.flops(small.lengths))
    ]
    assert pictures[0] == pictures[1] != figure_as_svg(plot_schedule(small.plain, small.costs, lengths=small.lengths))


def test_the_distribution_shows_samples_and_cost(problem, comparison):
    axes = comparison.axes[4]
    samples, costs = (patch.get_data() for patch in axes.patches)
    lengths = problem.lengths
    for low, high, of_samples, of_costs in zip(
        samples.edges[:-1], samples.edges[1:], samples.values, costs.values, strict=True
    ):
        inside = (low <= lengths) & (lengths < high)
        assert of_samples == pytest.approx(100 * inside.mean())
        assert of_costs == pytest.approx(100 * problem.costs[inside].sum() / problem.costs.sum())
    longest_first = sorted(zip(lengths, problem.costs, strict=True), reverse=True)
    tenth = sum(cost for _, cost in longest_first[: -(-len(lengths) // 10)]) / problem.costs.sum()
    assert f"has {tenth:.0%} of the cost" in axes.get_title(loc="left")


def test_axes_have_labels_with_units(comparison):
    first, last, _, tokens, distribution = comparison.axes
    assert (first.get_ylabel(), last.get_ylabel()) == ("rank", "rank")
    assert re.fullmatch(r"time since the start of the step \(.FLOPs\), where ranks meet once a step", last.get_xlabel())
    assert (tokens.get_xlabel(), tokens.get_ylabel()) == ("micro-batches of all steps, largest first", "tokens")
    assert (distribution.get_xlabel(), distribution.get_ylabel()) == ("length of a sample (tokens)", "share (%)")
    assert first.get_xlim() == last.get_xlim()  # on one scale


def test_no_text_touches_another(comparison):
    renderer = FigureCanvasAgg(comparison).get_renderer()
    legends = [*comparison.legends, *(axes.get_legend() for axes in comparison.axes)]
    texts = [text for legend in legends if legend for text in (legend.get_title(), *legend.get_texts())]
    for axes in comparison.axes:
        texts += [*axes.texts, axes.title, axes._left_title, axes.xaxis.label, axes.yaxis.label]
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, sorted(axes.get_ylim()))):
            texts += [
                tick.label2 if axis.get_ticks_position() == "right" else tick.label1
                for tick in axis.get_major_ticks()
                if low <= tick.get_loc() <= high
            ]
    extents = [(t.get_text(), t.get_window_extent(renderer)) for t in texts if t.get_text() and t.get_visible()]
    assert len(extents) > 30
    for (one, box), (other, second) in itertools.combinations(extents, 2):
        assert not box.overlaps(second), f"{one!r} touches {other!r}"
    canvas = comparison.bbox
    assert all(canvas.x0 <= b.x0 and b.x1 <= canvas.x1 and canvas.y0 <= b.y0 and b.y1 <= canvas.y1 for _, b in extents)


def test_bars_say_their_tokens_where_there_is_room():
    schedule = plan([900, 899, 50, 800], dp_size=1, max_tokens=900, balance_ranks=False)
    axes = plot_schedule(schedule, [900, 1, 1, 800]).axes[0]
    assert [text.get_text() for text in axes.texts] == ["900", "850"]
    assert axes.figure.legends[0].get_texts()[0].get_text() == "micro-batch, with its tokens"


def test_a_sample_longer_than_the_cap_has_its_own_colour():
    schedule = plan([9, 5, 5], dp_size=2, max_tokens=10, balance_ranks=False)
    figure = plot_schedule(schedule, [9, 5, 5], max_tokens=8)
    alone, over = boxes(figure.axes[0], "micro-batches")[3].get_facecolor()
    assert tuple(alone) == to_rgba(ALONE)
    assert tuple(over) not in {to_rgba(ALONE), to_rgba(WITHIN_CAP)}
    assert "one sample longer than the cap" in [text.get_text() for text in figure.legends[0].get_texts()]
    assert figure.axes[0].get_title(loc="left").endswith("1 of 2 above the cap, 1 of one longer sample")


def test_without_lengths_and_cap_their_parts_are_left_out(small):
    figure = plot_schedule(small.by_flops, small.costs)
    timeline, tokens = figure.axes
    legends = [*figure.legends, tokens.get_legend()]
    words = [timeline.get_title(loc="left"), *(text.get_text() for legend in legends for text in legend.get_texts())]
    assert not any(" cap" in text for text in words)
    assert not tokens.lines


def test_by_default_the_step_with_the_most_waiting_is_shown(small):
    idle = []
    for step in range(2):
        work = np.array([[small.costs[b].sum() for b in row] for row in small.batches(small.plain, step)])
        idle.append((work.sum(axis=1).max() - work.sum(axis=1)).sum())
    title = plot_schedule(small.plain, small.costs).axes[0].get_title(loc="left")
    assert title.startswith(f"step {np.argmax(idle)} of 0–1, ")


def test_one_sample_can_be_drawn():
    figure = plot_schedule(plan([5], dp_size=1, max_tokens=9), [5], max_tokens=9, lengths=[5], cost_unit="s")
    figure.draw_without_rendering()
    timeline, tokens, distribution = figure.axes
    assert timeline.get_xlabel().startswith("time since the start of the step (s)")
    assert [tick.get_text() for tick in tokens.get_xticklabels()][:2] == ["0", "1"]
    assert [tick.get_text() for tick in distribution.get_xticklabels()] == ["5", "6"]
    assert "the longest tenth of the samples has 100% of the cost" in distribution.get_title(loc="left")


def test_costs_of_zero_can_be_drawn():
    axes = plot_schedule(plan([1, 2], dp_size=2, max_tokens=2), [0, 0], max_tokens=2, lengths=[1, 2]).axes[0]
    assert "ranks idle 0.0%" in axes.get_title(loc="left")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_figures_save_without_a_display(small, ending):
    stream = io.BytesIO()
    plot_schedule(small.by_flops, small.costs, max_tokens=CAP).savefig(stream, format=ending)
    assert stream.getvalue()[:5] in {b"\x89PNG\r", b"<?xml", b"%PDF-"}


def test_svg_is_text_and_the_same_every_time(small, small_svg):
    assert figure_as_svg(plot_schedule(small.plain, small.costs, max_tokens=CAP)) == small_svg
    root = ElementTree.fromstring(small_svg)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("step ") for text in texts)
    assert "rank" in texts


DRAW = (
    "import flopbalance.reports.figures",
    "schedule = flopbalance.plan([1, 2], dp_size=2, max_tokens=2)",
    "figure = flopbalance.reports.figures.plot_schedule(schedule, [1, 2], max_tokens=1)",
)


def run(*program, code=0):
    """Run lines of Python on their own; return those of standard error."""
    command = [sys.executable, "-c", "\n".join(program)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == code, process.stderr
    return process.stderr.splitlines()


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.sources, self.cells = [], [], []

    def handle_starttag(self, tag, attributes):
        if tag not in {"meta", "path", "use"}:
            self.open.append(tag)
        self.sources += [value for name, value in attributes if name in {"src", "href", "xlink:href"}]

    def handle_endtag(self, tag):
        if tag not in {"path", "use"}:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in {"td", "th"}:
            self.cells.append(data)


def test_the_page_needs_no_other_file(small_svg):
    page = html_page("A & B", small_svg, ["mode", "idle"], [["<plain>", "12 %"]])
    links = Links()
    links.feed(page)
    links.close()
    assert links.open == []
    assert links.cells == ["mode", "idle", "<plain>", "12 %"]
    assert all(source.startswith("#") for source in links.sources)
    assert not re.search(r"<(script|link|img|iframe)\b|@import|url\((?!#)", page)
    assert page.count("<svg") == 1
    assert page.count("<!DOCTYPE") == 1


def test_nothing_global_changes():
    run(
        "import sys, matplotlib; before = matplotlib.rcParams.copy()",
        *DRAW,
        "flopbalance.reports.figures.figure_as_svg(figure)",
        "assert 'matplotlib.pyplot' not in sys.modules",
        "assert all(matplotlib.rcParams[name] == before[name] for name in before if not name.startswith('backend'))",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 2}, r"step must be < 2, the number of steps, got 2"),
        ({"step": -1}, r"step must be >= 0, got -1"),
        ({"step": 1.5}, r"step must be a whole number, got 1.5"),
        ({"max_tokens": 0}, r"max_tokens must be >= 1"),
        ({"lengths": [1, 2]}, r"lengths must hold one length for each of 512 samples, got 2"),
        ({"lengths": [1] * 512}, r"lengths must be those that were planned, got \d+ tokens in micro-batch 0"),
        ({"costs": CostModel(1)}, r"lengths must be given with costs that have flops\(lengths\)"),
        ({"costs": "qwen3-8b"}, r"costs must be an array, or an object with flops\(lengths\), got 'qwen3-8b'"),
        ({"objective": "pipes"}, r"objective must be one of step, micro-batch, pipeline, got 'pipes'"),
        ({"objective": "pipeline"}, r"pipeline must be given for objective='pipeline', got None"),
        ({"pipeline": Pipeline(4)}, r"pipeline must be None for objective='step', got Pipeline"),
        (
            {"objective": "pipeline", "pipeline": Pipeline(4, chunks=2)},
            r"pipeline.chunks must be 1 to be drawn, got 2",
        ),
    ],
)
def test_bad_arguments_are_refused_by_name(small, arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_schedule(small.plain, **{"costs": small.costs, **arguments})


def test_a_comparison_of_nothing_is_refused():
    with pytest.raises(ValueError, match="schedules must hold at least one schedule, got none"):
        plot_comparison({}, [])


def test_without_matplotlib_one_line_says_what_to_install():
    lines = run("import sys; sys.modules['matplotlib'] = None", *DRAW, code=1)
    assert lines[-1] == "ImportError: pictures need matplotlib, found none: pip install 'flopbalance[plot]'"


def test_texts_of_others_are_escaped(small):
    hostile = "<b>\x1b[2J\x9b\u202e&\0\udcff"
    shown = r"<b>\x1b[2J\x9b\u202e&\x00\udcff"
    figure = plot_comparison({hostile: small.plain}, small.costs, cost_unit=hostile, title=f"{hostile}\n{hostile}")
    texts = "".join(ElementTree.fromstring(figure_as_svg(figure)).itertext())
    assert texts.count(shown) == 5  # two lines of the title, the unit, the name above both panels
    page = html_page(hostile, "<svg></svg>", [hostile], [[hostile]], [hostile])
    assert page.count(r"&lt;b&gt;\x1b[2J\x9b\u202e&amp;\x00\udcff") == 5
    assert page.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("schedules", "message"),
    [
        pytest.param(
            [plan([1, 2], dp_size=1, max_tokens=3)],
            r"schedules must be a mapping from names to schedules, got \[Schedule\(",
            id="list",
        ),
        pytest.param({"plain": 3}, r"schedules\['plain'\] must be a Schedule, as plan returns it, got 3", id="number"),
        pytest.param({}, "schedules must hold at least one schedule, got none", id="none"),
    ],
)
def test_schedules_come_by_name(schedules, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        plot_comparison(schedules, [1, 2])
    with pytest.raises(ValueError, match=r"^schedule must be a Schedule, as plan returns it, got 3"):
        plot_schedule(3, [1, 2])
