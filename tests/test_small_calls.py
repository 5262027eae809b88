"""No published function is slower than plain Python, however few samples; `make bench` has the whole table."""

from __future__ import annotations

import pytest

from flopbalance import _core
from small_calls import CALLS, measured

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(_core.DEBUG_BUILD, reason="the times of a debug build mean nothing"),
]


@pytest.mark.parametrize("samples", [1, 4, 32])
@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.name} {call.what}".strip())
def test_no_slower_than_plain_python(call, samples):
    # The second try is for a machine that was busy with something else during the first.
    assert min(measured(call, samples)["ratio"] for _ in range(2)) < 1.2
