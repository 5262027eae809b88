"""Plan first steps of the length scenarios for pipelines: ``python bench/pipelines.py [--shared ../shared]``.

The traces and the scenarios are not part of this repository; without them there is nothing to run. A line is how far a
step ends above the ideal, the work and the overheads of the mean rank, in percent; a micro-batch costs 2 % of a full
one beside its samples. "Alone" ranks meet once a step; "rows": they meet at every micro-batch, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import numpy as np

from flopbalance import PublishedFlops, plan, simulate_pipeline
from flopbalance.costs.models.shapes import load_shape
from flopbalance.text import format_table

STAGES = (4, 8)
PLANS = {
    "step": {"objective": "step"},
    "pipeline": {"objective": "pipeline", "pipeline_stages": ..., "micro_batch_overhead": ...},
    "micro-batch": {"objective": "micro-batch"},
    "both": {"objective": "micro-batch", "pipeline_stages": ..., "micro_batch_overhead": ...},
}
"""How a step is planned; numbers of the pipeline are put in."""
COLUMNS = (("step", "alone"), ("pipeline", "alone"), ("micro-batch", "rows"), ("pipeline", "rows"), ("both", "rows"))
HEADER = ("scenario", "stages", *(f"{name} {how}" for name, how in COLUMNS))


def main() -> int:
    """Print a line per scenario and number of stages, and the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared", metavar="FOLDER")
    options = parser.parse_args()
    traces = options.shared / "traces"
    if not (traces / "scenarios.json").exists():
        print(f"skipped all scenarios: {traces} has none")
        return 0
    spec = importlib.util.spec_from_file_location("scenarios_tool", options.shared / "tools" / "scenarios.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    lines, figures = [], []
    for name, problem in tool.load(traces / "scenarios.json", traces):
        for stages in STAGES:
            figures.append(excesses(problem, stages))
            lines.append((name, str(stages), *(f"{value:.1f}" for value in figures[-1])))
    lines.append(("mean", "", *(f"{value:.1f}" for value in np.mean(figures, axis=0))))
    print(format_table(HEADER, lines))
    return 0


def excesses(problem: dict, stages: int) -> list[float]:
    """Return how far the first step ends above the ideal, in percent, by column."""
    lengths, ids = problem["lengths"], problem["rollout_ids"]
    first = ids[np.sort(np.unique(ids, return_index=True)[1])][: problem["gbs"]]
    lengths, ids = lengths[np.isin(ids, first)], ids[np.isin(ids, first)]
    costs = np.asarray(PublishedFlops(load_shape(problem["model"])).flops(lengths), dtype=np.float64)
    overhead = 0.02 * costs.sum() / (lengths.sum() / problem["cap"])
    numbers = {"pipeline_stages": stages, "micro_batch_overhead": overhead}
    of_ranks = {}
    for name, keywords in PLANS.items():
        schedule = plan(
            lengths,
            costs=costs,
            dp_size=problem["dp"],
            max_tokens=problem["cap"],
            rollout_ids=ids,
            micro_batch_multiple=problem["multiple"],
            packing="capped",
            **{keyword: numbers.get(keyword, value) for keyword, value in keywords.items()},
        )
        sums = np.add.reduceat(costs[schedule.samples], schedule.micro_batch_offsets[:-1])
        of_ranks[name] = sums.reshape(problem["dp"], -1)
    ideal = costs.sum() / problem["dp"] + overhead * of_ranks["step"].shape[1]
    ends = {
        "alone": lambda ranks: max(simulate_pipeline(rank + overhead, stages) for rank in ranks),
        "rows": lambda ranks: simulate_pipeline(ranks.max(axis=0) + overhead, stages),
    }
    return [100 * (ends[how](of_ranks[name]) / ideal - 1) for name, how in COLUMNS]


if __name__ == "__main__":
    sys.exit(main())
