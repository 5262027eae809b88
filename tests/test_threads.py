"""Threads that plan at once get the serial answers; a fork after the import works."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from families import FAMILIES
from flopbalance import first_fit_pack, karmarkar_karp, plan

THREADS = 4


@pytest.fixture
def small_switch_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def jobs():
    """Return different work for every thread, all of it on arrays that the threads share."""
    lengths = FAMILIES["log_normal"](4000)
    floats = FAMILIES["inexact"](4000)
    return [
        lambda: plan(lengths, dp_size=8, max_tokens=40_000, packing="flops", global_batch_size=500),
        lambda: karmarkar_karp(floats, 64, False),
        lambda: karmarkar_karp(lengths, 8, True),
        lambda: first_fit_pack(lengths, 40_000),
    ]


@pytest.mark.usefixtures("small_switch_interval")
@pytest.mark.parametrize("same", [True, False], ids=["same job", "different jobs"])
def test_threads_get_the_serial_answers(same):
    work = [jobs()[0]] * THREADS if same else jobs()
    serial = [job() for job in work]
    barrier = threading.Barrier(THREADS)
    answers = [[] for _ in work]

    def run(number):
        barrier.wait(timeout=60)
        for _ in range(10):
            answers[number].append(work[number]())

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for expected, got in zip(serial, answers, strict=True):
        assert got == [expected] * 10


@pytest.mark.usefixtures("small_switch_interval")
def test_an_array_written_meanwhile_never_breaks_a_plan():
    """Another thread may change the caller's array during the call: any answer is fine, as long as it is a schedule."""
    lengths = FAMILIES["uniform"](5000)
    done = threading.Event()

    def scribble():
        rng = np.random.default_rng(0)
        while not done.is_set():
            lengths[rng.integers(5000)] = rng.integers(1, 32769)

    thread = threading.Thread(target=scribble)
    thread.start()
    try:
        for _ in range(20):
            for packing in ("first-fit", "flops"):
                schedule = plan(lengths, dp_size=8, max_tokens=40_000, packing=packing)
                assert np.array_equal(np.sort(schedule.samples), np.arange(5000))
    finally:
        done.set()
        thread.join(timeout=60)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
def test_a_fork_after_the_import_works():
    script = """
        import multiprocessing
        from flopbalance import plan

        def work(seed):
            return plan([(i * seed) % 97 + 1 for i in range(500)], dp_size=4, max_tokens=300).to_lists()

        expected = [work(seed) for seed in (3, 5, 7, 11)]
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, (3, 5, 7, 11)) == expected
        print("same")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.stdout.strip(), run.returncode) == ("same", 0), run.stderr
