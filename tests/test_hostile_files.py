"""Files made to do harm: one line, exit code 2, in bounded memory, in seconds."""

import bz2
import gzip
import io
import json
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from command import refused, run
from flopbalance import Schedule, plan
from flopbalance.arrays import Archive, read_array
from flopbalance.documents import LARGEST_DOCUMENT, LONGEST_LINE
from flopbalance.lengths import files
from flopbalance.lengths.files import read_lengths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on memory, and /dev/zero")


class AlarmError(Exception):
    """What the handler of a signal raises."""


LIMITED = """
import contextlib, io, json, resource, sys
from flopbalance.commands.main import main
with contextlib.redirect_stdout(io.StringIO()):
    main(["costs", "--list"])  # imports all that there is
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, 2 * (taken + int(sys.argv[1]),))
for arguments in json.loads(sys.argv[2]):
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.redirect_stderr(output):
        code = main(arguments)
    print(json.dumps([code, output.getvalue()]))
"""


def refused_within(memory, *commands, **options):
    """Return the one line of each command, run in turn in a process that gets no more bytes than so many."""
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, str(memory), json.dumps([[*map(str, command)] for command in commands])],
        **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True} | options,
    )
    assert (process.returncode, process.stderr) == (0, "")
    lines = []
    for command, end in zip(commands, process.stdout.splitlines(), strict=True):
        code, output = json.loads(end)
        assert (code, output.count("\n")) == (2, 1), (command, code, output)
        assert len(output) < 900
        lines.append(output.removeprefix("flopbalance: error: ").rstrip())
    return lines


LONG_LINE = f"line 1: expected a line of at most {LONGEST_LINE} bytes, found a longer one"
LARGE = f"expected a file of at most {LARGEST_DOCUMENT} bytes, found a larger one"


def test_what_unpacks_to_a_gibibyte_without_a_line_end(tmp_path):
    bomb = tmp_path / "bomb"
    bomb.write_bytes(64 * gzip.compress(b"5" * 2**24))
    assert bomb.stat().st_size < 2**21
    messages = {"a.csv.gz": LONG_LINE, "a.json.gz": LARGE, "a.npy.gz": "found a fault: ", "a": LONG_LINE}
    for name in messages:
        (tmp_path / name).symlink_to(bomb)
    with open(bomb, "rb") as stream:
        commands = [("plan", tmp_path / name) for name in messages] + [("plan", "-")]
        lines = refused_within(2**30, *commands, stdin=stream)
    for line, message in zip(lines, [*messages.values(), LONG_LINE], strict=True):
        assert message in line


def test_files_without_end(tmp_path):
    messages = {
        "a.txt": LONG_LINE,
        "a.csv": LONG_LINE,
        "a.jsonl": LONG_LINE,
        "a.json": LARGE,
        "a.npy": "found a fault: ",
        "a.npz": LARGE,
        "a.gz": "Not a gzipped file",
        "a": LONG_LINE,
        "-": LONG_LINE,
    }
    commands = [("plan", name) for name in messages]
    commands += [
        ("calibrate", "a.csv"),
        ("calibrate", "a.jsonl"),
        ("plan", "--model", "a.json"),
        ("plan", "--cost", "a.json"),
    ]
    for name in messages:
        (tmp_path / name).symlink_to("/dev/zero")
    with open("/dev/zero", "rb") as stream:
        lines = refused_within(2**30, *commands, stdin=stream, cwd=tmp_path)
    for line, message in zip(lines, [*messages.values(), LONG_LINE, LONG_LINE, LARGE, LARGE], strict=True):
        assert message in line


def test_parquet_without_end(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").symlink_to("/dev/zero")
    assert LARGE in refused("plan", tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "raised", [AlarmError, MemoryError, TimeoutError, RuntimeError], ids=lambda kind: kind.__name__
)
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_what_a_signal_or_a_lack_of_memory_raises_comes_out(tmp_path, monkeypatch, name, raised):
    def read(*_):
        raise raised("not of the file")

    path = tmp_path / name
    np.savez(path, a=[5]) if name == "a.npz" else np.save(path, [5])
    monkeypatch.setattr("numpy.lib.format.read_magic", read)
    with pytest.raises(raised, match=r"^not of the file$"):
        read_lengths(path)


@pytest.mark.parametrize("raised", [AlarmError, MemoryError], ids=lambda kind: kind.__name__)
def test_what_a_signal_raises_while_a_schedule_is_read_comes_out(tmp_path, monkeypatch, raised):
    def read(*_):
        raise raised("not of the file")

    plan([5], dp_size=1, max_tokens=5).save(tmp_path / "a.npz")
    monkeypatch.setattr("numpy.lib.format.read_magic", read)
    with pytest.raises(raised, match=r"^not of the file$"):
        Schedule.load(tmp_path / "a.npz")


@pytest.mark.parametrize("start", ["[", '{"a":', '[{"a":', "[[],"], ids=["lists", "objects", "both", "beside"])
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a"])
def test_deep_json(tmp_path, name, start):
    (tmp_path / name).write_text(start * 300_000)
    assert "line 1: expected JSON of a usual depth and size" in refused("plan", tmp_path / name)


def test_deep_json_of_a_model_and_of_a_log(tmp_path):
    (tmp_path / "a.json").write_text('{"a":' * 300_000)
    (tmp_path / "a.jsonl").write_text('{"a":' * 300_000)
    assert "of a usual depth" in refused("plan", "--model", tmp_path / "a.json")
    assert "of a usual depth" in refused("calibrate", tmp_path / "a.jsonl")


def test_more_memory_than_there_is(tmp_path):
    (tmp_path / "a.json").write_text(f"[{'[],' * 4_000_000}[]]")
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("lengths.npy", "w") as member,
    ):
        member.write(npy(header((2**25,))))
        for _ in range(2**4):
            member.write(bytes(2**24))
    assert (tmp_path / "a.npz").stat().st_size < 2**19
    lines = refused_within(2**27, ("plan", tmp_path / "a.json"), ("plan", tmp_path / "a.npz"))
    assert lines[0] == "the input takes more memory than there is"
    assert lines[1] == "the input takes more memory than there is"


@pytest.mark.parametrize(
    ("start", "line", "message"),
    [
        ("", "5", "expected at most 1000 lengths, found more"),
        ("", "", "expected at most 5000 lines, found more"),
        ('"5', "5", "line 10: expected a row of at most 20 characters, found a longer one"),
        ('"5', '","', "line 6: expected a row of at most 20 characters, found a longer one"),
    ],
    ids=["lengths", "empty lines", "cell", "row"],
)
def test_lines_without_end(tmp_path, monkeypatch, start, line, message):
    monkeypatch.setattr(files, "MOST_VALUES", 1000)
    monkeypatch.setattr("flopbalance.documents.MOST_LINES", 5000)
    monkeypatch.setattr("flopbalance.documents.LONGEST_LINE", 20)
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    script = 'exec > "$0"; echo "$1"; exec yes "$2"'
    with (
        subprocess.Popen(["sh", "-c", script, pipe, start, line], stderr=subprocess.DEVNULL),
        pytest.raises(ValueError, match=message),
    ):
        read_lengths(pipe)


def npy(header, data=b"", version=(1, 0)):
    text = header.encode() if isinstance(header, str) else repr(header).encode()
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def header(shape, descr="<i8", fortran_order=False):
    return {"descr": descr, "fortran_order": fortran_order, "shape": shape}


LYING = {
    "shape beyond memory": (npy(header((10**18,))), r"found an array of shape \[1000000000000000000\]; at most"),
    "shape beyond 64 bits": (npy(header((10**40,))), "found an array of shape .*; at most"),
    "shape beyond spelling": (npy(f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({'9' * 5000},)}}"), "a fault"),
    "product beyond 64 bits": (npy(header((2**32, 2**32))), "found an array of shape"),
    "negative": (npy(header((-1,))), r"found an array of shape \[-1\]"),
    "two negatives": (npy(header((-2, -2)), b"\0" * 32), "found an array of shape"),
    "more than data": (npy(header((2**28,)), b"\0" * 80), "found 80 bytes where the header says 2147483648"),
    "less than data": (npy(header((2,)), b"\0" * 80), "found more bytes where the header says 16"),
    "nothing wide": (npy(header((10**15,), "<U0")), "found an array of shape"),
    "objects": (npy(header((2,), "|O"), b"\0" * 16), "found Python objects"),
    "objects in records": (npy(header((2,), [("a", "|O")]), b"\0" * 16), "found Python objects"),
    "long header": (npy(header((2,)), version=(2, 0)), "found an array of records"),
    "endless header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "found an array of records"),
    "no header": (npy("[" * 5000), "found a fault"),
    "nested header": (npy("(" * 60000), "found a fault"),
    "signs in a row": (npy("-" * 9000), "found a header that is nested too deeply|found a fault"),
    "escape": (npy(f"{header((2,))}\\d"), "found a header that NumPy does not write"),
    "number and word": (npy("{'shape': (1if 1else 2,)}"), "found a header that NumPy does not write"),
    "code": (npy("{'descr': '<i8', 'fortran_order': False, 'shape': exit()}"), "found a fault"),
    "two dimensions": (npy(header((2, 1), fortran_order=True), b"\0" * 16), "one dimension, found shape"),
    "boolean": (npy(header((2,), "|b1"), b"\2\0"), "found a value that is neither true nor false"),
}


@pytest.mark.parametrize("name", LYING)
@pytest.mark.parametrize("within", ["a.npy", "a.npz", "a.npy.gz"])
def test_lying_headers(tmp_path, name, within):
    content, message = LYING[name]
    if within == "a.npz":
        with zipfile.ZipFile(tmp_path / within, "w") as archive:
            archive.writestr("lengths.npy", content)
    else:
        (tmp_path / within).write_bytes(gzip.compress(content) if within.endswith("gz") else content)
    with pytest.raises(ValueError, match=message) as refusal:
        read_lengths(tmp_path / within)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600


def test_a_lying_header_takes_no_memory(tmp_path):
    (tmp_path / "a.npy").write_bytes(LYING["more than data"][0])
    (line,) = refused_within(2**27, ("plan", tmp_path / "a.npy"))
    assert "found 80 bytes where the header says 2147483648" in line


@pytest.mark.parametrize("kind", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_archives_compressed_otherwise(tmp_path, kind):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as archive:
        archive.writestr("a.npy", npy(header((1,)), b"\0" * 8))
    with pytest.raises(ValueError, match="found a compression that NumPy does not write"):
        Archive(stream).read("a")


def test_archives_with_secrets_and_doubles(tmp_path):
    stream = io.BytesIO()
    np.savez(stream, a=[1])
    content = bytearray(stream.getvalue())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ValueError, match=r'expected plain numbers in "a", found an encrypted array'):
        Archive(io.BytesIO(content)).read("a")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", npy(header((1,)), b"\0" * 8))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.npy", npy(header((1,)), b"\1" * 8))
    with pytest.raises(
        ValueError, match=r'expected an \.npz archive, found two arrays of one name among "a.npy", "a.npy"'
    ):
        Archive(stream)


def test_other_compressions_are_no_text(tmp_path):
    (tmp_path / "a").write_bytes(bz2.compress(b"5\n" * 100))
    assert "expected" in refused("plan", tmp_path / "a")


@pytest.mark.parametrize("dtype", ["<i8", ">i2", "|u1", "<f4", "|b1", "<U3", "<M8[s]"])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)], ids=str)
def test_arrays_are_those_that_numpy_reads(dtype, shape):
    array = np.zeros(shape, dtype)
    for layout in (array, np.array(array, order="F")):
        stream = io.BytesIO()
        np.save(stream, layout)
        stream.seek(0)
        read = read_array(stream)
        assert (read.dtype, read.shape) == (array.dtype, array.shape)
        assert np.array_equal(read, array)


MANY = ",".join(f"column{i}" for i in range(300_000))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", f"{MANY}\n"),
        ("a.tsv", MANY.replace(",", "\t") + "\n"),
        ("a.csv", f"length\n{MANY}\n"),
        ("a.json", json.dumps(dict.fromkeys(MANY.split(","), 1))),
        ("a.jsonl", json.dumps(dict.fromkeys(MANY.split(","), 1))),
        ("a.jsonl", '{"length": 5}\n' + json.dumps(dict.fromkeys(MANY.split(","), 1))),
        ("a.json", json.dumps({"x" * 10_000_000: 5, "y": 6})),
        ("a.json", json.dumps(["x" * 10_000_000])),
        ("a.json", json.dumps({"length": {"x" * 10_000_000: 5}})),
        ("a.txt", "x" * 10_000_000),
        ("a.txt", "9" * 10_000_000),
        ("a.json", "9" * 10_000_000),
        ("a.jsonl", "5\n" + "9" * 10_000_000),
        ("a.jsonl", '{"length": 5} x' + "x" * 10_000_000),
        ("a.jsonl", '{"n": [' + "5," * 1_000_000 + "5]}"),
    ],
    ids=[
        *("columns", "tabs", "cells", "names", "one line", "second line", "a name", "a text", "an object"),
        *("a word", "digits", "JSON digits", "digits in a line", "rest of a line", "a list"),
    ],
)
def test_long_data_makes_no_long_message(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match="expected") as refusal:
        read_lengths(tmp_path / name)
    assert len(str(refusal.value).removeprefix(str(tmp_path))) < 400


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "x" * 100_000),
        ("plan", "--column", "x" * 100_000, "a.csv"),
        ("plan", "--model", "x" * 100_000),
        ("plan", "--dp-size", "9" * 100_000),
        ("plan", "--dp-size", "9" * 4000),
        ("plan", "--max-tokens-per-gpu", "9" * 4000),
        ("plan", "--objective", "x" * 100_000),
        ("sweep", "--dp-size", "9" * 100_000),
        ("plan", "--out", "x" * 100_000 + ".json"),
        ("plan", "--out", "x" * 100_000),
        ("x" * 100_000,),
    ],
    ids=lambda arguments: " ".join(arguments)[:30],
)
def test_long_arguments_make_no_long_message(tmp_path, arguments):
    (tmp_path / "a.csv").write_text("length\n5\n")
    assert len(refused(*arguments, cwd=tmp_path)) <= 800


ESCAPES = "\x1b[2J\x1b]0;x\x07\x9b31m\x7f\u202e\u2066\u200f\r\n\udcff"
SHOWN = r"\x1b[2J\x1b]0;x\x07\x9b31m\x7f\u202e\u2066\u200f\r\n\udcff"


def test_file_names_with_escapes(tmp_path):
    name = ESCAPES.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    assert refused("plan", f"{name}.csv") == f"{SHOWN}.csv: No such file or directory"
    (tmp_path / f"{name}.csv").write_text("length\nx\n")
    assert refused("plan", f"{name}.csv", cwd=tmp_path).startswith(f"{SHOWN}.csv: line 2: expected ")
    (tmp_path / f"{name}.csv").write_text("length\n5\n4\n")
    out = f"out{name}.json"
    assert f"Saved to out{SHOWN}.json" in run("plan", f"{name}.csv", "--dp-size", 2, "--out", out, cwd=tmp_path).stdout
    assert (tmp_path / out).exists()
    assert SHOWN in refused("plan", "--model", f"{name}.json", cwd=tmp_path)
    assert SHOWN in refused("calibrate", f"{name}.csv", cwd=tmp_path)
    assert SHOWN in refused("plan", "--out", name)


def test_columns_and_values_with_escapes(tmp_path):
    text = ESCAPES.removesuffix("\udcff").replace("\r\n", "")
    shown = SHOWN.removesuffix(r"\udcff").replace(r"\r\n", "").replace(r"\x1b", r"\u001b").replace(r"\x07", r"\u0007")
    (tmp_path / "a.csv").write_text(f"{text},b\n5,6\n")
    assert f'found "{shown}", "b"' in refused("plan", "a.csv", cwd=tmp_path)
    (tmp_path / "a.csv").write_text(f"length\n{text}\n")
    assert f'found "{shown}"' in refused("plan", "a.csv", cwd=tmp_path)
    (tmp_path / "a.json").write_text(json.dumps({"lengths": [text]}))
    assert f'found "{shown}"' in refused("plan", "a.json", cwd=tmp_path)
    (tmp_path / "a.json").write_text(json.dumps({"lengths": ["\udcff"]}))
    assert r'found "\udcff"' in refused("plan", "a.json", cwd=tmp_path)
    np.savez(tmp_path / "a.npz", **{text: [5], "b": [6]})
    assert f'"{shown}"' in refused("plan", "a.npz", cwd=tmp_path)


def test_notes_of_a_cost_with_escapes(tmp_path):
    document = {"flopbalance_cost": "exact", "per_token": 7, "notes": [f"safe {ESCAPES}"]}
    (tmp_path / "cost.json").write_text(json.dumps(document))
    shown = run("costs", "--describe", "--model", "cost.json", cwd=tmp_path).stdout
    assert f"safe {SHOWN}\n" in shown
    assert shown.replace("\n", "").isprintable()


def test_names_of_costs_with_escapes(tmp_path):
    name = f"{ESCAPES}.json"
    (tmp_path / name).write_text(json.dumps({"flopbalance_cost": "exact", "per_token": 7}))
    for arguments in (("costs", "--describe", "--model", name), ("costs", "--model", name, "--dp-size", 4)):
        shown = run(*arguments, cwd=tmp_path).stdout
        assert SHOWN in shown
        assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["fly\x1b[2J", "--\x1b[2J", "plan\u202e"], ids=ascii)
def test_arguments_with_escapes(name):
    message = refused(name)
    assert message.isprintable()
