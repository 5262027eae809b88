"""Plan the length scenarios in every mode and score them: ``python bench/scenarios.py [--shared ../shared]``.

The traces, the scenarios and the scorer are not part of this repository; without them there is nothing to run.
Excess is time above the ideal, in percent; a mode that is planned for an objective is scored by that objective.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np

from flopbalance import PublishedFlops, plan
from flopbalance.costs.models.shapes import load_shape
from flopbalance.text import format_table

PUBLISHED = (("first-fit", False), ("first-fit", True), ("flops", True))
"""Plain, `balance_data` and `balance_by_flops`: packing, and whether ranks are balanced."""
OBJECTIVES = {"step": "step", "micro-batch": "row"}
"""Objectives, and the scorer's names for their times."""
RUNS = 3
"""Of which the fastest is told, in time of the processor."""
HEADER = (
    *("scenario", "step", "best published", "row", "best published"),
    *("over cap", "published over cap", "planned in, a step"),
)


def main() -> int:
    """Print a line per scenario and the sums; fail when a micro-batch exceeds the cap."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=Path(__file__).parents[2] / "shared", metavar="FOLDER")
    parser.add_argument("--scenarios", type=Path, metavar="FILE.json", help="others than those of the folder")
    parser.add_argument("--effort", type=int, help="default: the planner's own")
    options = parser.parse_args()
    traces = options.shared / "traces"
    file = options.scenarios or traces / "scenarios.json"
    if not file.exists():
        print(f"skipped all scenarios: {file} is not there")
        return 0
    load, score = (_tool(options.shared / "tools" / name) for name in ("scenarios.py", "score.py"))
    effort = {} if options.effort is None else {"effort": options.effort}
    rows, excesses = [], []
    for name, problem in load.load(file, traces):
        figures = _run(problem, score, effort)
        excesses.append(figures)
        rows.append((name, *(f"{value:.2f}" for value in figures[:4]), *map(str, figures[4:6]), f"{figures[6]:.1f} ms"))
    sums = np.sum(excesses, axis=0)
    rows.append(("sum", *(f"{value:.2f}" for value in sums[:4]), *(f"{value:.0f}" for value in sums[4:6]), ""))
    print(format_table(HEADER, rows))
    worst = max(figures[i] - figures[i + 1] for figures in excesses for i in (0, 2))
    print(f"\nworst against the best published mode: {worst:+.3f} points")
    return int(sums[4] > 0)


def _run(
    problem: dict, score: ModuleType, effort: dict[str, int]
) -> tuple[float, float, float, float, int, int, float]:
    lengths, costs = problem["lengths"], PublishedFlops(load_shape(problem["model"])).flops(problem["lengths"])
    shared = {
        "costs": costs,
        "dp_size": problem["dp"],
        "max_tokens": problem["cap"],
        "rollout_ids": problem["rollout_ids"],
        "global_batch_size": problem["gbs"],
        "micro_batch_multiple": problem["multiple"],
    }

    def scored(**mode: object) -> dict[str, float]:
        schedule = plan(lengths, **shared, **mode)
        lists = schedule.to_lists()
        score.check(
            lists, lengths, dp_size=problem["dp"], expected=np.sort(schedule.samples), multiple=problem["multiple"]
        )
        return score.score(lists, lengths, costs, cap=problem["cap"])

    published = [scored(packing=packing, balance_ranks=balanced) for packing, balanced in PUBLISHED]
    figures, over_cap, seconds = [], 0, []
    for objective, key in OBJECTIVES.items():
        mode = {"packing": "capped", "objective": objective, **effort}
        capped = scored(**mode)
        over_cap += capped["over_cap"]
        figures += [100 * capped[f"{key}_excess"], min(100 * one[f"{key}_excess"] for one in published)]
        for _ in range(RUNS):
            start = time.process_time()
            schedule = plan(lengths, **shared, **mode)
            seconds.append((time.process_time() - start) / len(schedule.micro_batches_per_step))
    slower = max(min(seconds[:RUNS]), min(seconds[RUNS:]))
    return *figures, over_cap, published[2]["over_cap"], 1000 * slower


def _tool(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
