"""Whatever holds numbers is read as they are, or refused by the place of what is none."""

import array
import collections
import decimal
import uuid

import numpy as np
import numpy.ma
import pytest

from flopbalance import first_fit_pack, karmarkar_karp, plan
from flopbalance.checks import as_amount, as_lengths, as_rollout_ids, as_weights, likely, shown
from flopbalance.costs.measurements import MicroBatches
from tensor import Tensor, UnreadTensor

UNALIGNED = np.frombuffer(b"\0" + np.arange(4).tobytes(), np.uint8)[1:].view(np.int64)
READ_ONLY = np.arange(4)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(UNALIGNED, id="unaligned"),
        pytest.param(UNALIGNED.view(np.uint64), id="unaligned-unsigned"),
        pytest.param(np.frombuffer(b"\0" + np.arange(4.0).tobytes(), np.uint8)[1:].view(float), id="unaligned-floats"),
        pytest.param(READ_ONLY, id="read-only"),
        pytest.param(np.repeat(np.arange(4), 2)[::2], id="strided"),
        pytest.param(np.arange(4)[::-1][::-1], id="turned-twice"),
        pytest.param(np.arange(3, -1, -1)[::-1], id="negative-strides"),
        pytest.param(np.asfortranarray([[0, 1, 2, 3], [9, 9, 9, 9]])[0], id="a-row-in-fortran-order"),
        pytest.param(np.arange(4, dtype=">i4"), id="byte-swapped"),
        pytest.param(np.arange(4, dtype=">f8"), id="byte-swapped-floats"),
        pytest.param(np.arange(4, dtype=np.float16), id="float16"),
        pytest.param(np.arange(4, dtype=object), id="objects"),
        pytest.param(np.array([0, 1, np.int8(2), 3.0], dtype=object), id="objects-of-several-types"),
        pytest.param(collections.deque(range(4)), id="deque"),
        pytest.param(range(4), id="range"),
        pytest.param((0, 1, 2, 3), id="tuple"),
        pytest.param(array.array("q", range(4)), id="array"),
        pytest.param(memoryview(array.array("i", range(4))), id="memoryview"),
        pytest.param(np.ma.array(range(4)), id="nothing-masked"),
        pytest.param(Tensor(range(4)), id="tensor"),
        pytest.param(UnreadTensor([0.0, 1.0, 2.0, 3.0]), id="bfloat16-tensor"),
        pytest.param(UnreadTensor([0, 1, 2, 3]), id="tensor-with-a-gradient"),
    ],
)
def test_every_kind_of_array_is_read(values):
    lengths = as_lengths(values, "lengths")
    assert lengths.dtype == np.int64
    assert lengths.tolist() == [0, 1, 2, 3]
    assert first_fit_pack(values, 3) == [[0, 1, 2], [3]]
    assert list(as_weights(values, "costs")) == [0, 1, 2, 3]
    assert karmarkar_karp(values, 2, True) == karmarkar_karp([0, 1, 2, 3], 2, True)
    assert as_rollout_ids(values, "rollout_ids").tolist() == [0, 1, 2, 3]


def test_large_integers_stay_exact_in_every_sequence():
    for kind in (list, tuple, collections.deque):
        assert as_lengths(kind([2**60 + 1, 5.0]), "lengths").tolist() == [2**60 + 1, 5]
        assert as_weights(kind([2**64 + 1, 2**70]), "costs") == [2**64 + 1, 2**70]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param([1, True, 3], r"lengths\[1\] must be a number, got True", id="boolean-among-numbers"),
        pytest.param(
            [1.5, np.False_], r"lengths\[1\] must be a number, got np.False_", id="numpy-boolean-among-floats"
        ),
        pytest.param([True, False], r"lengths\[0\] must be a number, got True", id="booleans"),
        pytest.param(np.array([True]), "lengths must hold numbers, got bool", id="array-of-booleans"),
        pytest.param(np.array([3, True], object), r"lengths\[1\] must be a.* number, got True", id="boolean-objects"),
        pytest.param(np.ma.array([1, 2, 3], mask=[0, 0, 1]), r"lengths\[2\] must be .*, got a masked one", id="masked"),
        pytest.param(np.array(["1", "2"], object), r"lengths\[0\] must be a.* number, got '1'", id="texts-as-objects"),
        pytest.param(np.array([b"1"], object), r"lengths\[0\] must be a.* number, got b'1'", id="bytes-as-objects"),
        pytest.param(np.array([None], object), r"lengths\[0\] must be a.* number, got None", id="None-as-object"),
        pytest.param([3, "x"], r"lengths\[1\] must be a number, got 'x'", id="text"),
        pytest.param([3, 2j], r"lengths\[1\] must be a number, got 2j", id="complex"),
        pytest.param("123", "lengths must be one flat sequence of numbers, got str", id="a-text"),
        pytest.param(b"123", "lengths must be one flat sequence of numbers, got bytes", id="bytes"),
        pytest.param(bytearray(b"12"), "lengths must be one flat sequence of numbers, got bytearray", id="bytearray"),
        pytest.param((i for i in range(3)), "lengths must be one flat .*, got generator", id="generator"),
        pytest.param({3: 4}, "lengths must be one flat sequence of numbers, got dict", id="dict"),
        pytest.param(np.array([(1, 2)], "i4,i4"), r"lengths must hold numbers, got \[\('f0', '<i4'\)", id="structured"),
        pytest.param(np.zeros(2, "V8"), r"lengths must hold numbers, got \|V8", id="void"),
        pytest.param(np.array(3), "lengths must be one flat sequence of numbers, got ndarray", id="no-dimension"),
        pytest.param([10**5000], r"lengths\[0\] must be below .*, got int too long to show", id="endless-integer"),
    ],
)
@pytest.mark.parametrize("read", [as_lengths, as_weights])
def test_what_is_no_number_is_refused_by_its_place(read, values, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        read(values, "lengths")


def test_unsigned_numbers_of_another_byte_order_do_not_wrap():
    with pytest.raises(ValueError, match=r"lengths\[0\] must be below 2\^63, got 9223372036854775813"):
        as_lengths(np.array([2**63 + 5], ">u8"), "lengths")


@pytest.mark.parametrize("lengths", [[[1, 2], [3]], [[1, 2], [3, 4]]], ids=["ragged", "rectangular"])
def test_token_ids_are_not_lengths(lengths):
    with pytest.raises(ValueError, match=r"lengths must .*: of token ids, pass how many there are in each sample$"):
        plan(lengths, dp_size=1, max_tokens=10)


def test_an_error_of_another_library_is_named():
    class Gone:
        def __array__(self, dtype=None, copy=None):
            raise KeyError("gone")

    with pytest.raises(ValueError, match="lengths must be one flat sequence of numbers, got Gone: KeyError"):
        plan(Gone(), dp_size=1, max_tokens=10)


class AlarmError(Exception):
    """What the handler of a signal raises."""


@pytest.mark.parametrize("raised", [AlarmError, MemoryError, TimeoutError], ids=lambda kind: kind.__name__)
def test_what_a_signal_or_a_lack_of_memory_raises_comes_out(raised):
    def fail(*_, **__):
        raise raised("not of the object")

    class Failing:
        __array__ = __hash__ = __index__ = __float__ = __repr__ = __iter__ = __len__ = tolist = fail

    one = Failing()
    for read in (
        lambda: plan(one, dp_size=1, max_tokens=5),
        lambda: plan([5], dp_size=one, max_tokens=5),
        lambda: plan([5, 6], dp_size=1, max_tokens=5, rollout_ids=["a", one]),
        lambda: as_amount(one, "amount"),
        lambda: MicroBatches.of(one),
    ):
        with pytest.raises(raised, match=r"^not of the object$"):
            read()


IDS = [
    pytest.param(["why", "how", "why", "what", "how"], id="texts"),
    pytest.param([uuid.UUID(int=one) for one in (3, 1, 3, 2, 1)], id="uuids"),
    pytest.param([(1, 2), (1, 3), (1, 2), (2, 1), (1, 3)], id="tuples"),
    pytest.param([2**70, 5, 2**70, 2**64, 5], id="large-integers"),
    pytest.param(np.array([2**64 - 1, 5, 2**64 - 1, 2**63, 5], np.uint64), id="unsigned"),
    pytest.param(np.array(["why", "how", "why", "what", "how"]), id="array-of-texts"),
    pytest.param(np.array(["why", "how", "why", 3, "how"], object), id="array-of-objects"),
    pytest.param([decimal.Decimal(1), 0, decimal.Decimal(1), "x", 0], id="several-kinds"),
    pytest.param([None, "how", None, "what", "how"], id="None"),
]


@pytest.mark.parametrize("ids", IDS)
def test_rollout_ids_are_of_any_kind_with_a_hash(ids):
    alone = ids[0] is None
    expected = [0, 1, 2, 3, 1] if alone else [0, 1, 0, 2, 1]
    assert as_rollout_ids(ids, "rollout_ids").tolist() == expected
    settings = {"dp_size": 1, "max_tokens": 10, "global_batch_size": 3}
    assert plan([7, 2, 5, 4, 3], rollout_ids=ids, **settings) == plan([7, 2, 5, 4, 3], rollout_ids=expected, **settings)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        pytest.param(["a", ["b"]], r"rollout_ids\[1\] must be .* with a hash, got \['b'\]", id="no-hash"),
        pytest.param(["a", True], r"rollout_ids\[1\] must be .*, got True", id="boolean"),
        pytest.param([1, 1.5], r"rollout_ids\[1\] must be a whole number, .* got 1.5", id="fraction"),
        pytest.param(["a", float("nan")], r"rollout_ids\[1\] must be a whole number, .* got nan", id="nan"),
        pytest.param([decimal.Decimal("nan")], r"rollout_ids\[0\] must be .*, got Decimal\('NaN'\)", id="decimal-nan"),
        pytest.param([np.datetime64("NaT")], r"rollout_ids\[0\] must be .*, got .*NaT", id="no-time"),
        pytest.param("abc", "rollout_ids must be one flat sequence of ids, got str", id="a-text"),
        pytest.param({"a": 1}, "rollout_ids must be one flat sequence of ids, got dict", id="dict"),
        pytest.param(np.array("a"), r"rollout_ids must have one dimension, got 0 \(shape \(\)\)", id="no-dimension"),
    ],
)
def test_what_is_no_rollout_id_is_refused(ids, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        as_rollout_ids(ids, "rollout_ids")


@pytest.mark.parametrize(
    ("word", "meant"),
    [("within-cap", "capped"), ("first_fit", "first-fit"), ("by-flops", "flops"), ("Fixed", "fixed"), ("zzz", None)],
    ids=str,
)
def test_a_wrong_word_is_answered_with_the_nearest(word, meant):
    hint = f": did you mean '{meant}'?" if meant else ""
    assert likely(word, ["first-fit", "flops", "fixed", "capped"]) == hint
    with pytest.raises(ValueError, match="packing must be one of first-fit, flops, fixed, capped, got ") as refused:
        plan([3], dp_size=1, max_tokens=3, packing=word)
    assert str(refused.value).endswith(hint or "'zzz'")


def test_values_are_shown_short_and_on_one_line():
    assert shown(np.eye(40)) == shown(np.eye(40)).replace("\n", " ")
    assert len(shown("x" * 10**6)) == 60
    assert shown(list(range(10**5))) == "[0, 1, 2, 3, 4, 5, ...]"
    assert shown([[[1]]]) == "[[[...]]]"
