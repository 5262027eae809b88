"""What a notebook shows is well-formed, and its numbers are the schedule's."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from flopbalance import plan

SVG = "{http://www.w3.org/2000/svg}"
BOX = re.compile(r"M(\d+) (\d+)h(\d+)v\.9h-(\d+)z")


def planned(ranks, samples_per_rank=16):
    lengths = np.random.RandomState(0).lognormal(6, 1, 2 * ranks * samples_per_rank).astype(np.int64) + 1
    return plan(lengths, dp_size=ranks, max_tokens=4096, global_batch_size=ranks * samples_per_rank)


@pytest.mark.parametrize("ranks", [1, 8, 32, 128])
def test_bars_are_the_tokens_of_the_first_step(ranks):
    schedule = planned(ranks)
    root = ElementTree.fromstring(schedule._repr_html_())
    (svg,) = root.iter(f"{SVG}svg")
    groups = svg.findall(f"{SVG}g")
    assert len(groups) == ranks
    first = schedule.token_counts[:, : schedule.micro_batches_per_step[0]]
    for rank, (group, tokens) in enumerate(zip(groups, first.tolist(), strict=True)):
        boxes = []
        for path in group.findall(f"{SVG}path"):
            assert BOX.sub("", path.get("d")) == ""
            boxes += [tuple(map(int, box)) for box in BOX.findall(path.get("d"))]
        starts = np.cumsum([0, *tokens[:-1]]).tolist()
        assert sorted(boxes) == [(start, rank, width, width) for start, width in zip(starts, tokens, strict=True)]
        assert group.find(f"{SVG}title").text.startswith(f"rank {rank}: {sum(tokens):,} tokens, ")
    assert svg.get("viewBox") == f"0 0 {first.sum(axis=1).max()} {ranks}"


def test_neighbours_differ_in_colour():
    root = ElementTree.fromstring(planned(2)._repr_html_())
    one, other = next(root.iter(f"{SVG}g")).findall(f"{SVG}path")
    assert one.get("fill") != other.get("fill")
    starts = [{int(box[0]) for box in BOX.findall(path.get("d"))} for path in (one, other)]
    assert sorted(starts[0] | starts[1])[::2] == sorted(starts[0])


def test_the_table_holds_the_sizes():
    schedule = plan(range(1, 12), dp_size=2, max_tokens=20, global_batch_size=5)
    cells = {
        tag: [cell.text for cell in ElementTree.fromstring(schedule._repr_html_()).iter(tag)] for tag in ("th", "td")
    }
    assert dict(zip(cells["th"], cells["td"], strict=True)) == {
        "ranks": "2",
        "steps": "2",
        "micro-batches": str(len(schedule.micro_batch_tokens)),
        "largest (tokens)": str(schedule.micro_batch_tokens.max()),
        "samples": "10",
        "dropped": "1",
    }


def test_the_caption_names_the_lightest_and_the_heaviest_rank():
    schedule = planned(8)
    tokens = schedule.token_counts[:, : schedule.micro_batches_per_step[0]].sum(axis=1)
    caption = ElementTree.fromstring(schedule._repr_html_()).find("p").text
    low, high = tokens.argmin(), tokens.argmax()
    assert caption.endswith(f"from {tokens[low]:,} (rank {low}) to {tokens[high]:,} (rank {high})")


def test_it_stays_small_with_many_ranks():
    assert len(planned(128)._repr_html_()) < 60_000


def test_samples_without_tokens_have_bars_without_width():
    root = ElementTree.fromstring(plan([0, 0], dp_size=2, micro_batch_size=1, packing="fixed")._repr_html_())
    assert [path.get("d") for path in root.iter(f"{SVG}path")] == ["M0 0h0v.9h-0z", "M0 1h0v.9h-0z"]
