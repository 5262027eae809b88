"""The fuzzer finds planted faults, names their smallest calls, and leaves no public function out."""

from __future__ import annotations

import ast
import functools
import re

import pytest

import flopbalance
from fuzz import words
from fuzz.__main__ import fuzz
from fuzz.builds import Build, Builds
from fuzz.laws import LAWS
from fuzz.lines import line
from fuzz.shrink import shrink

CALLS = [line(5, number) for number in range(4000)]

LOSE = """
import flopbalance
right = flopbalance.plan
def plan(lengths, **options):
    schedule = right(lengths, **options)
    if len(schedule.samples) > 5:
        schedule.samples.setflags(write=True)
        schedule.samples[0] = schedule.samples[-1]
    return schedule
plan.__signature__ = __import__('inspect').signature(right)
flopbalance.plan = plan
"""
"""A plan of more than five samples loses one."""

INSTEAD = """
import flopbalance.planning.packing as home
def first_fit_pack(total_lengths, max_tokens_per_bin):
    if {when}:
        {what}
    return right(total_lengths, max_tokens_per_bin)
right, home.first_fit_pack = home.first_fit_pack, first_fit_pack
"""


def instead(what: str, when: str = "max_tokens_per_bin == 7") -> str:
    return INSTEAD.format(what=what, when=when)


def found(*builds: Build, calls: list[str]) -> dict[str, str]:
    """Return the kinds of failure among calls, and the last call of each."""
    together = Builds(*builds)
    try:
        verdicts = [
            verdict for start in range(0, len(calls), 64) for verdict in together.ask(calls[start : start + 64])
        ]
    finally:
        together.close()
    assert len(verdicts) == len(calls)
    return {verdict["failure"]: call for call, verdict in zip(calls, verdicts, strict=True) if "failure" in verdict}


def test_a_lost_sample_is_found_and_its_call_made_small(capsys):
    builds = Builds(Build(first=LOSE))
    try:
        _, failures = fuzz(builds, seed=5, seconds=60, most=1)
    finally:
        builds.close()
    (smallest,) = failures
    call = ast.parse(smallest, mode="eval").body
    assert (call.func.id, len(call.args[0].elts)) == ("plan", 6)  # the fewest that the fault needs
    assert {keyword.arg for keyword in call.keywords} <= {"dp_size", "max_tokens", "micro_batch_size", "packing"}
    printed = capsys.readouterr().out
    assert re.search(r"call \d+ of seed 5 fails: plan, every sample stands once or is dropped\n", printed)
    assert f">>> {smallest}\n" in printed
    assert "1 kind of failure" in printed


@pytest.mark.parametrize(
    ("what", "failure"),
    [
        ("raise KeyError(3)", "KeyError in <string>:first_fit_pack"),
        ("raise BaseException('a panic')", "BaseException in <string>:first_fit_pack"),
        ("import os; os.abort()", "ends the process with SIGABRT"),
        ("import os; os._exit(3)", "ends the process with exit code 3"),
        ("import time; time.sleep(60)", "does not end within 2 s"),
        ("import warnings; warnings.warn('old', DeprecationWarning)", "warns with DeprecationWarning: old"),
        ("return [[0]]", "first_fit_pack, bins are the reference's"),
        ("total_lengths.clear()", "arguments are left as they were"),
        ("raise ValueError(chr(10))", "a message is one short line"),
    ],
    ids=["exception", "panic", "abort", "exit", "hang", "warning", "wrong", "argument", "message"],
)
def test_a_fault_is_found(what, failure):
    calls = ["first_fit_pack([1, 2], 5)", "first_fit_pack([1, 2], 7)", "first_fit_pack([1, 2], 9)"]
    failures = found(Build(first=instead(what), seconds=2), calls=calls)
    assert [kind.startswith(failure.partition(":")[0]) for kind in failures] == [True]
    assert list(failures.values()) == [calls[1]]


def test_a_fault_of_one_build_is_found():
    wrong = Build(first=instead("return [[0, 1]]"), with_laws=False)
    assert found(Build(), wrong, calls=["first_fit_pack([5, 5], 7)"]) == {
        "builds disagree": "first_fit_pack([5, 5], 7)"
    }
    panics = Build(first=instead("raise BaseException('overflow')"), with_laws=False)
    (failure,) = found(Build(), panics, calls=["first_fit_pack([5, 5], 7)"])
    assert failure.startswith("with overflow checks BaseException")


def test_a_call_is_made_small():
    def fails(line):
        return "dp_size" in line and any(getattr(node, "value", 0) == 5 for node in ast.walk(ast.parse(line)))

    long = "plan([3, 5, 123456, 12], costs=np.array([1.5, 2.0, 3.0, 4.0]), dp_size=17, packing='capped')"
    assert shrink(long, fails) == "plan([5], dp_size=0)"


def test_calls_are_the_same_every_time():
    assert [line(5, number) for number in range(4000)] == CALLS
    assert CALLS[:50] != [line(6, number) for number in range(50)]


def test_calls_are_python_in_the_words_of_the_fuzzer():
    for call in CALLS:
        names = {node.id for node in ast.walk(ast.parse(call, mode="eval")) if isinstance(node, ast.Name)}
        assert names <= {
            *words.__all__,
            "dict",
            "iter",
            "object",
            "int",
            "list",
            "float",
            "map",
            "tuple",
            "range",
            "memoryview",
        }, call


def public_names():
    for name in flopbalance.__all__:
        value = getattr(flopbalance, name)
        yield name
        if isinstance(value, type) and not issubclass(value, Exception):
            yield from (
                member for member in vars(value) if not member.startswith("_") and callable(getattr(value, member))
            )


MADE_BY_OTHERS = {"CostCheck", "Explanation", "Feasibility", "BalanceReport", "Rollout"}
"""What functions return and no one calls; their methods are called by the laws and by `str`."""
CALLED_BY_A_WORD = {
    "ScheduleError": "validate_balance_args",
    "add_balance_arguments": "flags",
    "expand_bins_by_splitting": "split",
    "save_cost": "saved",
    "as_dict": "report",
    "idle_share": "report",
    "excess": "report",
    "best": "explain",
}


@pytest.mark.parametrize("name", sorted({*public_names()} - MADE_BY_OTHERS))
def test_every_public_function_is_called(name):
    word = CALLED_BY_A_WORD.get(name, name)
    assert any(re.search(rf"\b{word}\(", call) for call in CALLS), f"no call of {name} among {len(CALLS):,}"


@pytest.mark.parametrize("name", sorted(LAWS))
def test_every_law_is_of_a_function(name):
    function = functools.reduce(getattr, name.split("."), words)
    assert function.__qualname__ == name


def test_most_calls_are_answered():
    """What is refused at the door reaches nothing."""
    builds = Builds(Build(with_laws=False))
    try:
        ends = [next(iter(verdict)) for start in range(0, 640, 64) for verdict in builds.ask(CALLS[start : start + 64])]
    finally:
        builds.close()
    assert ends.count("answer") > len(ends) / 3
    assert ends.count("refusal") > len(ends) / 10
