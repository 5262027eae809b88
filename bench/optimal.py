"""How often plans of small steps are optimal, and how far they are at worst: ``python bench/optimal.py``.

Random steps that an exact solver (CP-SAT of OR-Tools) can finish. Its plan has as many micro-batches as ours, so that
what is compared is what is in them; whether there could be fewer is asked by itself ("fewest": there could not).
Several distributions of lengths, costs L² + 100 L, caps from tight to loose.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from flopbalance import Schedule, plan
from flopbalance.text import format_table

SECONDS = 20.0
"""After so long the solver gives up on a problem; how many are counted."""


class Problem(NamedTuple):
    """A step."""

    lengths: np.ndarray
    costs: np.ndarray
    dp_size: int
    cap: int


Sum = cp_model.LinearExpr | cp_model.IntVar
Costs = list[list[Sum]]
"""Costs of the micro-batches, rank by rank."""


def slowest_rank(model: cp_model.CpModel, ranks: Costs, most: int) -> Sum:
    """Return the time where ranks meet once a step."""
    time = model.new_int_var(0, most, "")
    for of_rank in ranks:
        model.add(time >= sum(of_rank))
    return time


def sum_of_rows(model: cp_model.CpModel, ranks: Costs, most: int) -> Sum:
    """Return the time where ranks meet at every micro-batch."""
    peaks = [model.new_int_var(0, most, "") for _ in ranks[0]]
    for row, peak in enumerate(peaks):
        for of_rank in ranks:
            model.add(peak >= of_rank[row])
    for peak, later in itertools.pairwise(peaks):
        model.add(peak >= later)
    return sum(peaks)


def dearest(model: cp_model.CpModel, ranks: Costs, most: int) -> Sum:
    """Return the dearest micro-batch, which is what one rank makes even."""
    return slowest_rank(model, [[cost] for of_rank in ranks for cost in of_rank], most)


class Question(NamedTuple):
    """What is made short: as `plan` is asked, as the solver is, and as it is told of a schedule's costs."""

    objective: str
    one_rank: bool
    solver: Callable[[cp_model.CpModel, Costs, int], Sum]
    figure: Callable[[np.ndarray], int]


QUESTIONS = {
    "step": Question("step", False, slowest_rank, lambda costs: costs.sum(axis=1).max()),
    "micro-batch": Question("micro-batch", False, sum_of_rows, lambda costs: costs.max(axis=0).sum()),
    "one rank, even": Question("step", True, dearest, lambda costs: costs.max()),
}


def problems(count: int, seed: int) -> Iterator[Problem]:
    """Yield random steps of 6 to 11 samples."""
    random = np.random.default_rng(seed)
    for number in range(count):
        samples, dp_size = int(random.integers(6, 12)), int(random.integers(2, 4))
        draw = (
            random.lognormal(3, 1, samples),
            random.uniform(1, 100, samples),
            random.choice([random.uniform(5, 15), random.uniform(60, 90)], samples) * random.uniform(0.9, 1.1, samples),
        )[number % 3]
        lengths = np.maximum(draw, 1).astype(np.int64)
        cap = int(lengths.max() * random.choice([1.0, 1.5, 2.5, 5.0]))
        yield Problem(lengths, lengths * lengths + 100 * lengths, dp_size, cap)


def solve(problem: Problem, dp_size: int, of_rank: int, solver: Callable[..., Sum] | None) -> int | None:
    """Return the least time of a plan of so many micro-batches; 0 where only whether there is one was asked."""
    lengths, costs = problem.lengths, problem.costs
    model = cp_model.CpModel()
    count = dp_size * of_rank
    into = [[model.new_bool_var("") for _ in range(count)] for _ in lengths]
    for places in into:
        model.add_exactly_one(places)
    sums: list[Sum] = []
    for place in range(count):
        of = [places[place] for places in into]
        model.add_at_least_one(of)
        model.add(sum(int(x) * y for x, y in zip(lengths, of, strict=True)) <= problem.cap)
        sums.append(sum(int(x) * y for x, y in zip(costs, of, strict=True)))
    if solver:
        model.minimize(
            solver(model, [sums[rank * of_rank : (rank + 1) * of_rank] for rank in range(dp_size)], int(costs.sum()))
        )
    search = cp_model.CpSolver()
    search.parameters.max_time_in_seconds = SECONDS
    search.parameters.num_workers = 1
    status = search.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status != cp_model.OPTIMAL:
        raise TimeoutError
    return round(search.objective_value) if solver else 0


def costs_of(schedule: Schedule, costs: np.ndarray) -> np.ndarray:
    """Return what the micro-batches cost, a row a rank."""
    sums = np.add.reduceat(costs[schedule.samples], schedule.micro_batch_offsets[:-1])
    return sums.reshape(schedule.dp_size, -1)


def main() -> int:
    """Print a line per question; fail where a plan is said to be better than the optimum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    wrong = False
    for name, question in QUESTIONS.items():
        excess, fewest, given_up = [], [], 0
        for problem in problems(options.problems, options.seed):
            dp_size = 1 if question.one_rank else problem.dp_size
            try:
                schedule = plan(
                    problem.lengths,
                    costs=problem.costs,
                    dp_size=dp_size,
                    max_tokens=problem.cap,
                    packing="capped",
                    objective=question.objective,
                )
            except ValueError:  # fewer samples than micro-batches
                continue
            found = costs_of(schedule, problem.costs)
            try:
                best = solve(problem, dp_size, found.shape[1], question.solver)
                less = found.shape[1] > 1 and solve(problem, dp_size, found.shape[1] - 1, None) is not None
            except TimeoutError:
                given_up += 1
                continue
            excess.append(question.figure(found) / best - 1)
            fewest.append(not less)
        rows.append(
            (
                name,
                str(len(excess)),
                f"{sum(x == 0 for x in excess)}",
                f"{100 * np.mean(excess):.2f} %",
                f"{100 * np.max(excess):.2f} %",
                f"{sum(fewest)}",
                str(given_up),
            )
        )
        wrong |= min(excess) < 0
    print(format_table(("objective", "steps", "optimal", "mean above", "worst above", "fewest", "given up"), rows))
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
