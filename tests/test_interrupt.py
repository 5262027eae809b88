"""A signal ends any call soon, with what its handler raises."""

import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import flopbalance as fb

SAMPLES = 3_000_000
LENGTHS = np.clip(np.random.default_rng(7).lognormal(7, 1, SAMPLES), 1, 32_768).astype(np.int64)
COSTS = LENGTHS * (LENGTHS + 24_576)
ROOTS = np.sqrt(LENGTHS)  # their sums round
LARGE = fb.plan(LENGTHS, dp_size=2, max_tokens=10**12, packing="first-fit")

CALLS: dict[str, Callable[[], object]] = {
    "equal parts": lambda: fb.get_seqlen_balanced_partitions(COSTS, 8, True),
    "parts of rounding floats": lambda: fb.get_seqlen_balanced_partitions(ROOTS, 64, False),
    "many parts": lambda: fb.get_seqlen_balanced_partitions(COSTS, SAMPLES // 4, False),
    "first fit": lambda: fb.first_fit_pack(LENGTHS, 32_768),
    "published plan": lambda: fb.plan(LENGTHS, costs=COSTS, dp_size=8, max_tokens=32_768, packing="flops"),
    "plan within the cap": lambda: fb.plan(LENGTHS, costs=COSTS, dp_size=8, max_tokens=32_768, packing="capped"),
    "rows within the cap": lambda: fb.plan(
        LENGTHS, costs=COSTS, dp_size=64, max_tokens=32_768, packing="capped", objective="micro-batch"
    ),
    "steps within the cap": lambda: fb.plan(
        LENGTHS, costs=COSTS, dp_size=8, max_tokens=32_768, packing="capped", global_batch_size=4_096
    ),
    "lists": lambda: LARGE.to_lists(),
    "report": lambda: fb.report(LARGE, COSTS, LENGTHS, 32_768),
    "inverse": lambda: fb.get_reverse_idx(LARGE.samples),
    "loads": lambda: LARGE.rank_loads(COSTS),
    "second budget": lambda: fb.plan(
        LENGTHS, dp_size=8, max_tokens=32_768, packing="capped", extra_budget=(LENGTHS[::-1].copy(), 32_768)
    ),
}


class AlarmError(Exception):
    """What the handler of this test raises."""


@pytest.fixture
def fired() -> Iterator[list[float]]:
    """When the alarm went off."""
    times: list[float] = []

    def handler(*_: object) -> None:
        times.append(time.perf_counter())
        raise AlarmError

    before = signal.signal(signal.SIGALRM, handler)
    yield times
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def again_and_again(call: Callable[[], object]) -> None:
    """Call until something is raised; a fast machine may end a call before the alarm."""
    while True:
        call()


def lateness(call: Callable[[], object], delay: float) -> float:
    """Seconds from the alarm until the call has ended."""
    due = time.perf_counter() + delay
    signal.setitimer(signal.ITIMER_REAL, delay)
    with pytest.raises(AlarmError):
        again_and_again(call)
    return time.perf_counter() - due


def wait_for_the_alarm() -> None:
    with pytest.raises(AlarmError):
        time.sleep(60)


@pytest.mark.alone
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("delay", [0.05, 0.3, 0.9], ids=lambda delay: f"after {delay} s")
def test_a_signal_ends_a_long_call(call: Callable[[], object], delay: float, fired: list[float]) -> None:
    late = [lateness(call, delay)]
    while late[-1] >= 0.2 and len(late) < 3:  # something else may have had the processor
        late.append(lateness(call, delay))
    assert min(late) < 0.2
    assert len(fired) == len(late)


def test_other_threads_go_on(fired: list[float]) -> None:
    """Signals belong to the main thread: what another one plans is not cut short."""
    plans: list[fb.Schedule] = []
    done = threading.Event()

    def call() -> None:
        plans.append(fb.plan(LENGTHS[:1_000_000], dp_size=8, max_tokens=32_768, packing="first-fit"))
        done.set()

    threading.Thread(target=call).start()
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    wait_for_the_alarm()
    assert done.wait(60)
    assert fired
    assert sorted(plans[0].samples.tolist()) == list(range(1_000_000))


def test_a_handler_that_raises_nothing_changes_nothing() -> None:
    seen: list[int] = []

    def handler(*_: object) -> None:
        # A handler may plan too, in the middle of a plan.
        seen.append(fb.plan([3, 2, 1], dp_size=1, max_tokens=6, packing="capped").micro_batch_tokens.size)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.05)
        parts = fb.get_seqlen_balanced_partitions(ROOTS, 64, False)
        signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert set(seen) == {1}
    assert parts == fb.get_seqlen_balanced_partitions(ROOTS, 64, False)
