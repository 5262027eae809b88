"""Logs of measured micro-batches, whole and broken."""

from __future__ import annotations

import csv

import pytest

from flopbalance.costs.timings import read_timings


def test_csv_and_jsonl_say_the_same(tmp_path):
    (tmp_path / "log.csv").write_text("lengths,seconds,rank\n3 4,0.5,1\n5,2.5e-1,0\n")
    (tmp_path / "log.jsonl").write_text(
        '{"lengths": [3, 4], "seconds": 0.5, "rank": 1}\n{"lengths": [5], "seconds": 0.25, "rank": 0}\n'
    )
    for name in ("log.csv", "log.jsonl"):
        timings = read_timings(tmp_path / name)
        assert timings.micro_batches.lengths.tolist() == [3, 4, 5]
        assert timings.micro_batches.offsets.tolist() == [0, 2, 3]
        assert timings.seconds.tolist() == [0.5, 0.25]
        assert timings.ranks.tolist() == [1, 0]


def test_long_cells_byte_order_marks_and_blank_lines_are_read(tmp_path):
    words = " ".join(["12345"] * 30_000)
    (tmp_path / "log.csv").write_text(f"\ufefflengths,seconds\n{words},0.5\n\n", encoding="utf-8")
    (tmp_path / "log.jsonl").write_text('\ufeff{"lengths": [3], "seconds": 1}\n\n', encoding="utf-8")
    assert len(read_timings(tmp_path / "log.csv").micro_batches.lengths) == 30_000
    assert read_timings(tmp_path / "log.jsonl").seconds.tolist() == [1.0]
    assert csv.field_size_limit() < 2**31 - 1


def test_a_file_that_cannot_be_opened_leaves_the_csv_module_as_it_was(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_timings(tmp_path / "absent.csv")
    assert csv.field_size_limit() < 2**31 - 1


def test_ranks_are_optional(tmp_path):
    (tmp_path / "log.csv").write_text("seconds,lengths\n0.5,3 4\n")
    assert read_timings(tmp_path / "log.csv").ranks is None


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.txt", "3 4", "must end in .csv or .jsonl"),
        ("log.csv", "", "must hold a micro-batch, found none"),
        ("log.csv", "lengths,seconds\n", "must hold a micro-batch, found none"),
        ("log.csv", "tokens,seconds\n3,1\n", "line 2: lengths is missing"),
        ("log.csv", "lengths,time\n3,1\n", "line 2: seconds is missing"),
        ("log.csv", "lengths,seconds\n3 4\n", "line 2: seconds is missing"),
        ("log.csv", "lengths,seconds\n,1\n", "line 2: lengths is missing"),
        ("log.csv", "lengths,seconds\n3 x,1\n", r"line 2: lengths\[1\] must be a number, got 'x'"),
        ("log.csv", "lengths,seconds\n3 -4,1\n", r"line 2: lengths\[1\] must be .*-4"),
        ("log.csv", "lengths,seconds\n3,1\n\n0 0,1\n", r"line 4: lengths must hold a token, got \[0, 0\]"),
        (
            "log.csv",
            "lengths,seconds\n3 9223372036854775808,1\n",
            r"line 2: lengths\[1\] must be below 2\^63, got 92",
        ),
        (
            "log.csv",
            "lengths,seconds\n3,1\n3 4,-0.5\n",
            "line 3: seconds must be positive and finite, got -0.5",
        ),
        ("log.csv", "lengths,seconds\n3 4,nan\n", "line 2: seconds must be positive and finite, got nan"),
        ("log.csv", "lengths,seconds,rank\n3,1,x\n", "line 2: rank must be a whole number, got 'x'"),
        (
            "log.jsonl",
            '{"lengths": [1], "seconds": 0}\n',
            "line 1: seconds must be positive and finite, got 0",
        ),
        (
            "log.jsonl",
            '{"lengths": [1, "x"], "seconds": 1}\n',
            r"line 1: lengths\[1\] must be a number, got 'x'",
        ),
        (
            "log.jsonl",
            f'{{"lengths": [1], "seconds": {10**400}}}\n',
            "line 1: seconds must be a number, got a number of 1329 bits",
        ),
        ("log.csv", "lengths,seconds\n3 4,soon\n", 'line 2: seconds must be a number, got "soon"'),
        ("log.csv", "lengths,seconds,rank\n3,1,0\n4,1,\n", "rank"),
        (
            "log.jsonl",
            '{"lengths": [3], "seconds": 1}\n{"lengths": [3]',
            "line 2, column 16: expected JSON",
        ),
        ("log.jsonl", "[3, 4]\n", "line 1: must be a JSON object, got list"),
        ("log.jsonl", '{"lengths": [], "seconds": 1}\n', "line 1: lengths is missing"),
        ("log.jsonl", '{"lengths": 3, "seconds": 1}\n', "line 1: lengths"),
        ("log.jsonl", '{"lengths": [1.5], "seconds": 1}\n', "line 1: lengths"),
        ("log.jsonl", '{"lengths": [3], "seconds": true}\n', "line 1: seconds must be a number, got true"),
        ("log.jsonl", '{"lengths": [3], "seconds": 1, "rank": 0}\n{"lengths": [3], "seconds": 1}\n', "rank must be"),
        ("log.jsonl", "\udcff", "line 1: expected UTF-8 text, found byte 0xff"),
    ],
)
def test_broken_logs(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=message) as refusal:
        read_timings(path)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "\n" not in str(refusal.value)
