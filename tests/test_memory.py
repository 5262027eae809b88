"""Memory that the system does not give is a `MemoryError`, whatever call is in need of it; the process lives."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

SAMPLES = 200_000
MODES = {
    "equal parts": "fb.get_seqlen_balanced_partitions(costs, 8, True)",
    "refined parts": "fb.get_seqlen_balanced_partitions(costs, n // 2, 'refined')",
    "many parts": "fb.get_seqlen_balanced_partitions(costs, n // 3, False)",
    "parts of floats": "fb.karmarkar_karp(roots, 300, False)",
    "parts of large integers": "fb.karmarkar_karp(large, 300, False)",
    "first fit": "fb.first_fit_pack(lengths, 8192)",
    "bins": "fb.pack(lengths, 8192, multiple=8, max_samples=9)",
    "even bins": "fb.pack(lengths, 8192, order='balanced', max_samples=9)",
    "splitting": "fb.expand_bins_by_splitting([list(range(n))], n // 2, lengths)",
    "inverse": "fb.get_reverse_idx(list(range(n)))",
    "published": "fb.plan(lengths, costs=costs, dp_size=8, max_tokens=8192, packing='flops')",
    "within cap": "fb.plan(lengths, costs=costs, dp_size=8, max_tokens=8192, packing='capped')",
    "within cap, large costs": "fb.plan(lengths, costs=large, dp_size=8, max_tokens=8192, packing='capped')",
    "within cap, alone": "fb.plan(lengths, costs=roots, dp_size=8, max_tokens=1, packing='capped')",
    "even samples": (
        "fb.plan(lengths, dp_size=50, max_tokens=8192, packing='capped', counts=fb.Counts(even_samples=True))"
    ),
    "rows": "fb.plan(lengths, costs=costs, dp_size=50, max_tokens=8192, packing='capped', objective='micro-batch')",
    "rows, nearly alone": (
        "fb.plan(lengths, dp_size=8, max_tokens=8192, packing='capped', objective='micro-batch', "
        "counts=fb.Counts(exactly=n // 8 - 1))"
    ),
    "one rank": "fb.plan(lengths, costs=costs, dp_size=1, max_tokens=8192, packing='capped')",
    "pipeline": (
        "fb.plan(lengths, dp_size=8, max_tokens=8192, packing='capped', objective='pipeline', pipeline_stages=4)"
    ),
    "second budget": "fb.plan(lengths, dp_size=8, max_tokens=8192, packing='capped', extra_budget=(lengths, 3000))",
    "repeats": "fb.plan(lengths[:999], dp_size=n, max_tokens=8192, packing='capped', on_shortage='repeat')",
    "lists": "schedule.to_lists()",
    "report": "fb.report(schedule, costs, lengths, 8192)",
    "exact costs": "fb.CostModel.from_name('gemma-3-27b').flops(lengths)",
}

# Of each limit a process of its own, forked where everything is there but what the call takes.
CHILD = """
import os, resource, sys
import numpy as np, flopbalance as fb
call, samples = sys.argv[1], int(sys.argv[2])

def scope(n):
    lengths = np.clip(np.random.default_rng(5).lognormal(7, 1, n), 1, 8192).astype(np.int64)
    costs = lengths * (lengths + 24_576)
    large = [int(cost) << 70 for cost in costs] if "large" in call else None
    schedule = fb.plan(lengths, dp_size=8, max_tokens=8192, packing="first-fit") if "schedule" in call else None
    return dict(fb=fb, n=n, lengths=lengths, costs=costs, roots=np.sqrt(lengths), large=large, schedule=schedule)

eval(call, scope(2_000))
names = scope(samples)
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
ends = set()
for mebibytes in range(0, 288, 9):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (held + (mebibytes << 20),) * 2)
        try:
            eval(call, names)
        except MemoryError:
            os._exit(1)
        except BaseException as error:
            os.write(2, f"{mebibytes}: {type(error).__name__}: {str(error)[:200]}\\n".encode())
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    ends.add(os.waitstatus_to_exitcode(status))
print(*sorted(ends))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("call", MODES.values(), ids=MODES)
def test_too_little_memory_is_an_error(call):
    child = subprocess.run(
        [sys.executable, "-c", CHILD, call, str(SAMPLES)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (child.stdout.split(), child.stderr) == (["0", "1"], "")
