"""The warning about the cap: once, with the right numbers, and only when there is a reason."""

import logging

import numpy as np
import pytest

from flopbalance import CapWatch, build_dp_schedule, plan

LENGTHS = np.random.RandomState(0).lognormal(7, 1, 64).astype(np.int64) + 1
CAP = 8192


def by_flops(lengths=LENGTHS):
    return plan(lengths, costs=lengths**2, dp_size=4, max_tokens=CAP, packing="flops")


def test_it_warns_once_with_the_numbers(caplog):
    watch, schedule = CapWatch(CAP // 2), by_flops()
    tokens, samples = schedule.micro_batch_tokens, schedule.sample_counts.ravel()
    over = np.count_nonzero((tokens > CAP // 2) & (samples > 1))
    assert [watch.check(schedule) for _ in range(3)] == [over] * 3
    assert over > 0
    record, _ = caplog.records  # the other is about samples above the cap by themselves
    assert (record.name, record.levelno) == ("flopbalance", logging.WARNING)
    assert record.message.startswith(
        f"{over} of {len(tokens)} micro-batches exceed the cap of 4,096 tokens, the largest with "
        f"{tokens[samples > 1].max():,}, {tokens[samples > 1].max() / 4096 - 1:.1%} above"
    )


def test_it_is_silent_within_the_cap(caplog):
    watch = CapWatch(CAP)
    assert watch.check(plan(np.minimum(LENGTHS, CAP), dp_size=4, max_tokens=CAP)) == 0
    assert not caplog.records
    assert watch.check(plan([CAP] * 8, dp_size=4, max_tokens=2 * CAP)) == 4
    assert len(caplog.records) == 1  # it was silent for want of a reason


def test_two_watches_do_not_share_their_silence(caplog):
    for _ in range(2):
        CapWatch(1).check(by_flops())
    assert sum("micro-batches exceed" in record.message for record in caplog.records) == 2


def test_a_logger_of_ones_own():
    logger, seen = logging.Logger("trainer"), []
    handler = logging.Handler()
    handler.emit = seen.append
    logger.addHandler(handler)
    CapWatch(1, logger).check(by_flops())
    assert {record.name for record in seen} == {"trainer"}


def test_published_lists_give_the_same(caplog):
    tiny = {
        "num_layers": 2,
        "hidden_size": 16,
        "num_attention_heads": 2,
        "num_query_groups": 2,
        "kv_channels": 8,
        "ffn_hidden_size": 64,
        "vocab_size": 32,
        "num_experts": None,
    }
    args = tiny | {"use_dynamic_batch_size": True, "balance_by_flops": True, "max_tokens_per_gpu": 8}
    parallel = {"dp_size": 1, "cp_size": 1, "vpp_size": 1, "microbatch_group_size_per_vp_stage": 1}
    partitions, micro_batches, _, _ = build_dp_schedule(
        args, parallel, [7] * 8, global_batch_size=8, rollout_indices=range(8)
    )
    assert CapWatch(8).check_lists([7] * 8, partitions, micro_batches) == 1
    assert caplog.records[0].message.startswith("1 of 7 micro-batches exceed the cap of 8 tokens, the largest with 14,")


@pytest.mark.parametrize("cap", [0, 1.5, None])
def test_a_bad_cap_is_refused(cap):
    with pytest.raises(ValueError, match="max_tokens must be"):
        CapWatch(cap)


def test_samples_above_the_cap_by_themselves_get_a_warning_of_their_own(caplog):
    watch = CapWatch(1000)
    for lengths in ([22_000, 10, 20, 30], [1001, 5000, 7, 7]):
        assert watch.check(plan(lengths, dp_size=4, max_tokens=1000)) == 0
    (record,) = caplog.records
    assert record.message == (
        "the cap is 1,000 tokens, and 1 sample above it alone, of 22,000 tokens: no packing helps; drop them or raise "
        "the cap. This is said once."
    )
    assert (watch.alone_over_cap, watch.longest_alone) == (2, 5000)  # of the last schedule


@pytest.mark.parametrize(
    ("partitions", "micro_batches", "message"),
    [
        pytest.param([[1, 3]], [[[0]]], r"partitions\[0\]\[1\] must be >= 0 and < 3, got 3", id="no-sample"),
        pytest.param([[-1]], [[[0]]], r"partitions\[0\]\[0\] must be >= 0 and < 3, got -1", id="negative"),
        pytest.param(
            [[1]], [[[0], [1]]], r"micro_batch_indices\[0\]\[1\]\[0\] must be .* < 1, got 1", id="no-position"
        ),
        pytest.param([[1], [0]], [[[0]]], "micro_batch_indices must hold a list for each rank", id="a-rank-is-missing"),
        pytest.param([[1]], [[0]], r"micro_batch_indices\[0\]\[0\] must be one flat sequence", id="not-nested"),
        pytest.param(3, [[0]], "partitions must hold a list for each rank, got 3", id="no-list"),
    ],
)
def test_lists_of_no_schedule_are_refused_by_place(partitions, micro_batches, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        CapWatch(9).check_lists([5, 3, 4], partitions, micro_batches)
