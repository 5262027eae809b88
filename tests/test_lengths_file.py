"""Files as people have them, and files that are wrong: one line says what, and where."""

import csv
import gzip
import io
import json
import pickle
import struct
import sys
import time

import numpy as np
import pytest

from flopbalance.lengths.files import read_lengths

LENGTHS = [812, 4095, 77, 0]


@pytest.fixture
def write(tmp_path):
    """Write bytes or text under a name; return the path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def parquet(**columns):
    arrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'flopbalance[parquet]'")
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(arrow.table(columns), buffer)
    return buffer.getvalue()


GOOD = {
    "one.txt": "812\n4095\n77\n0\n",
    "no-last-newline.txt": "812\n4095\n77\n0",
    "windows.txt": b"\xef\xbb\xbf812\r\n4095\r\n77\r\n0\r\n",
    "blank-lines.txt": "\n812\n\n  4095  \n\t77\n0\n\n",
    "whole-floats.txt": "812.0\n4.095e3\n77.\n-0\n",
    "header.csv": "length\n812\n4095\n77\n0\n",
    "windows.csv": b"\xef\xbb\xbflength,prompt\r\n812,a\r\n4095,a\r\n77,b\r\n\r\n0,b\r\n",
    "no-header.csv": "812\n4095\n77\n0\n",
    "quoted.csv": '"text","length"\n"a, ""b""\nc","812"\n"d",4095\n"e",77\n"",0\n',
    "spaces.csv": "text, length\na, 812\nb, 4095\nc, 77\nd, 0\n",
    "tabs.tsv": "text\tlength\na,b\t812\nb\t4095\nc\t77\nd\t0\n",
    "numbers.jsonl": "812\n4095\n\n77.0\n0\n",
    "fields.jsonl": '{"length": 812, "text": "a"}\n{"text": "b", "length": 4095}\n{"length": 77}\n{"length": 0}\n',
    "list.json": "[812, 4095,\n 77, 0]",
    "records.json": '[{"length": 812}, {"length": 4095}, {"length": 77}, {"length": 0}]',
    "columns.json": '{"lengths": [812, 4095, 77, 0], "model": "any"}',
    "int32.npy": npy(np.array(LENGTHS, np.int32)),
    "uint64.npy": npy(np.array(LENGTHS, np.uint64)),
    "float.npy": npy(np.array(LENGTHS, np.float32)),
    "big-endian.npy": npy(np.array(LENGTHS, ">i8")),
    "one.npz": npz(anything=LENGTHS),
    "usual.npz": npz(groups=[0, 0, 1, 1], lengths=LENGTHS),
}


@pytest.mark.parametrize("name", GOOD)
def test_reads(write, name):
    lengths, rollout_ids = read_lengths(write(name, GOOD[name]))
    assert lengths.dtype == np.int64
    assert lengths.tolist() == LENGTHS
    assert rollout_ids is None


@pytest.mark.parametrize("name", GOOD)
def test_reads_compressed(write, name):
    content = GOOD[name] if isinstance(GOOD[name], bytes) else GOOD[name].encode()
    assert read_lengths(write(f"{name}.gz", gzip.compress(content, mtime=0))).lengths.tolist() == LENGTHS


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("name", GOOD)
def test_recognises_standard_input(monkeypatch, name, compress):
    content = GOOD[name] if isinstance(GOOD[name], bytes) else GOOD[name].encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(compress(content))))
    assert read_lengths("-").lengths.tolist() == LENGTHS


def test_recognises_a_file_of_another_name(write):
    assert read_lengths(write("lengths.log", "812\n4095\n")).lengths.tolist() == [812, 4095]
    assert read_lengths(write("63", '{"n": 5}\n{"n": 6}\n')).lengths.tolist() == [5, 6]


def test_upper_case_endings(write):
    assert read_lengths(write("A.CSV", "x,length\n1,2\n")).lengths.tolist() == [2]


def test_counts_lists_of_tokens(write):
    assert read_lengths(write("a.jsonl", '[5, 6, 7]\n[]\n["a", "b"]\n')).lengths.tolist() == [3, 0, 2]
    assert read_lengths(write("a.json", "[[5, 6, 7], [], [1]]")).lengths.tolist() == [3, 0, 1]
    fields = '{"tokens": [5, 6], "id": 1}\n{"tokens": 9, "id": 2}\n'
    assert read_lengths(write("b.jsonl", fields), column="tokens").lengths.tolist() == [2, 9]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "group,n,m\nb,5,1\na,6,1\nb,7,1\n"),
        ("a.jsonl", '{"n": 5, "group": "b"}\n{"n": 6, "group": "a"}\n{"n": 7, "group": "b"}\n'),
        ("a.json", '{"n": [5, 6, 7], "group": [8, 7, 8], "other": 1}'),
        ("a.npz", npz(n=[5, 6, 7], group=[-3, 0, -3], other=np.zeros((2, 2)))),
        ("b.npz", npz(n=[5, 6, 7], group=["b", "a", "b"])),
    ],
)
def test_numbers_rollouts_as_they_appear(write, name, content):
    lengths, rollout_ids = read_lengths(write(name, content), column="n", rollout_column="group")
    assert lengths.tolist() == [5, 6, 7]
    assert rollout_ids.tolist() == [0, 1, 0]


def test_the_only_other_column_is_the_lengths(write):
    path = write("a.csv", "group,tokens\nb,5\na,6\n")
    assert read_lengths(path, rollout_column="group").lengths.tolist() == [5, 6]


def test_parquet(write):
    content = parquet(text=["a", "b", "a"], n=[5, 6, 7], ids=[[1, 2], [], [3]])
    path = write("a.parquet", content)
    lengths, rollout_ids = read_lengths(path, column="n", rollout_column="text")
    assert (lengths.tolist(), rollout_ids.tolist()) == ([5, 6, 7], [0, 1, 0])
    assert read_lengths(path, column="ids").lengths.tolist() == [2, 0, 1]


def test_parquet_faults(write):
    content = parquet(n=[5, None, 7], text=["a", "b", "c"])
    path = write("a.parquet", content)
    with pytest.raises(ValueError, match=r"a\.parquet: index 1: expected a whole number .* found null"):
        read_lengths(path, column="n")
    with pytest.raises(ValueError, match=r'index 0: expected a whole number .* found "a"'):
        read_lengths(path, column="text")
    with pytest.raises(ValueError, match='expected one column "x", found "n", "text"'):
        read_lengths(path, column="x")
    with pytest.raises(ValueError, match="expected a Parquet file, found a fault: "):
        read_lengths(write("b.parquet", content[:50]))


def test_parquet_without_pyarrow(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"a\.parquet: expected pyarrow .*: pip install 'flopbalance\[parquet\]'"):
        read_lengths(write("a.parquet", "PAR1"))


def test_long_texts_beside_the_lengths(write):
    usual = csv.field_size_limit()
    assert read_lengths(write("a.csv", f"text,length\n{'x' * 300_000},5\n")).lengths.tolist() == [5]
    assert csv.field_size_limit() == usual


def test_the_largest_length_is_exact(write):
    assert read_lengths(write("a.txt", f"{2**63 - 1}\n{2**53 + 1}.0\n")).lengths.tolist() == [2**63 - 1, 2**53 + 1]
    assert read_lengths(write("a.json", f"[{2**53 + 1}.0]")).lengths.tolist() == [2**53 + 1]


BAD_VALUES = [
    "-1",
    "1.5",
    "NaN",
    "Infinity",
    "-inf",
    "1e400",
    "1e9999999",
    "1e999999999999999",
    "1e-9999999",
    str(2**63),
    "9" * 5000,
    "1_000",
    "٣",
    "0x10",
]


@pytest.mark.parametrize("value", [*BAD_VALUES, "true", "two words", "1 2", "\0", '"5"'])
def test_bad_text_value(write, value):
    with pytest.raises(
        ValueError, match=r"a\.txt: line 3: expected a whole number of tokens from 0 to \d+, found "
    ) as e:
        read_lengths(write("a.txt", f"5\n\n{value}\n7\n"))
    assert "\n" not in str(e.value)
    assert len(str(e.value)) < 300


@pytest.mark.parametrize("value", [*BAD_VALUES, "", "true"])
def test_bad_table_value(write, value):
    with pytest.raises(ValueError, match=r"a\.csv: line 4: expected a whole number of tokens from 0 to \d+, found "):
        read_lengths(write("a.csv", f'length,text\n5,"two\nlines"\n{value},x\n7,y\n'))


@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "1.5",
        "NaN",
        "-Infinity",
        "1e400",
        str(2**63),
        "true",
        "null",
        '"5"',
        "[1, [2]]",
        '[{"role": "user"}]',
        "[1.5]",
    ],
)
def test_bad_json_value(write, value):
    expected = r"expected a whole number of tokens from 0 to \d+, found "
    with pytest.raises(ValueError, match=rf"a\.jsonl: line 2: {expected}"):
        read_lengths(write("a.jsonl", f"5\n{value}\n"))
    with pytest.raises(ValueError, match=rf"b\.jsonl: line 2: {expected}"):
        read_lengths(write("b.jsonl", f'{{"tokens": 5}}\n{{"tokens": {value}}}\n'))
    with pytest.raises(ValueError, match=rf"a\.json: index 1: {expected}"):
        read_lengths(write("a.json", f"[5,\n{value}]"))


@pytest.mark.parametrize(
    "array",
    [
        [5, -1],
        [5, 1.5],
        [5, np.nan],
        [5, np.inf],
        [True, False],
        ["5", "6"],
        [b"5"],
        [5j],
        [np.datetime64("2026-01-01")],
    ],
)
def test_bad_array_value(write, array):
    with pytest.raises(
        ValueError, match=r"a\.npy: index [01]: expected a whole number of tokens from 0 to \d+, found "
    ):
        read_lengths(write("a.npy", npy(np.array(array))))
    with pytest.raises(ValueError, match=r"a\.npz: index [01]: expected a whole number of tokens"):
        read_lengths(write("a.npz", npz(lengths=np.array(array))))


def test_array_beyond_int64(write):
    with pytest.raises(ValueError, match=f"index 0: expected a whole number .* found {2**64 - 1}"):
        read_lengths(write("a.npy", npy(np.array([2**64 - 1], np.uint64))))


FAULTS = [
    ("a.txt", "", "expected at least one length, found none"),
    ("a.txt", "\n \n", "expected at least one length, found none"),
    ("a.csv", "", "expected at least one length, found none"),
    ("a.csv", "length\n", "expected at least one length, found none"),
    ("a.jsonl", "", "expected at least one length, found none"),
    ("a.json", "[]", "expected at least one length, found none"),
    ("a.json", '{"lengths": []}', "expected at least one length, found none"),
    ("a.npy", npy(np.array([], int)), "expected at least one length, found none"),
    ("a.json", "", "line 1, column 1: expected JSON, found the end"),
    ("a.csv", "a,b\n1,2\n", 'expected one column, one called "length", or the name of one, found "a", "b"'),
    ("a.csv", "1,2\n3,4\n", 'found "1", "2"'),
    ("a.csv", "length,length\n1,2\n", 'expected one column, one called "length", or the name of one'),
    ("a.csv", "length,b\n1,2\n3\n", "line 3: expected 2 columns, found 1"),
    ("a.csv", "length,b\n1,2\n3,4,5\n", "line 3: expected 2 columns, found 3"),
    ("a.csv", 'length,b\n1,"two\n3,4\n', "line 3: expected a row of a table, found a fault: unexpected end of data"),
    ("a.csv", 'length,b\n1,"2"x\n', "line 2: expected a row of a table, found a fault: "),
    ("a.jsonl", "5\n{6\n", r"line 2, column 2: expected JSON, found \"6\""),
    ("a.jsonl", "5\n6 7\n", r"line 2, column 3: expected JSON, found \"7\" \(Extra data\)"),
    ("a.jsonl", '5\n{"n":\n', "line 2, .*expected JSON, found the end"),
    ("a.jsonl", '{"length": 5}\n{"n": 5, "m": 6}\n', 'line 2: expected a field "length", .* found "n", "m"'),
    ("a.jsonl", '{"length": 3}\n\n{"len": 4}\n', 'line 3: expected a field "length", as in the first .* found "len"'),
    ("a.json", '[{"length": 3}, {"len": 4}]', 'index 1: expected a field "length", as in the first .* found "len"'),
    ("a.jsonl", '{"length": 3}\n4\n', 'line 2: expected an object with a field "length", as in the first .* found 4'),
    ("a.jsonl", '4\n{"length": 3}\n', "line 2: expected a length, as in the first record, found {"),
    ("a.jsonl", "{}\n", "line 1: expected one column, .* found none"),
    ("a.json", "[5,\n 6", "line 2, column 3: expected JSON, found the end"),
    ("a.json", "5", "expected a list, or an object of lists, found 5"),
    ("a.json", '{"length": 5}', 'expected a list in "length", found 5'),
    ("a.json", "[" * 100_000, "line 1: expected JSON of a usual depth and size"),
    ("a.json", "9" * 5000, "line 1: expected JSON of a usual depth and size"),
    ("a.json", "[1e3999999999999999999]", 'line 1: expected JSON .*, found the number "1e3999999999999999999"'),
    ("a.jsonl", "5\n1e-3999999999999999999", 'line 2: expected JSON .*, found the number "1e-3999999999999999999"'),
    ("a.txt", b"5\n6\xff\n", "line 2: expected UTF-8 text, found byte 0xff"),
    ("a.csv", b"length\n5\n\x80\n", "line 3: expected UTF-8 text, found byte 0x80"),
    ("a.jsonl", b"\xff\xfe5\x00", "line 1: expected UTF-8 text, found byte 0xff"),
    ("a.npy", b"", r"expected a \.npy file of plain numbers, found a fault: "),
    ("a.npy", b"812\n4095\n", r"expected a \.npy file of plain numbers, found a fault: "),
    (
        "a.npy",
        npy(np.arange(100))[:-7],
        r"expected a \.npy file of plain numbers, found 793 bytes where the header says 800",
    ),
    ("a.npy", npy(np.ones((2, 3), int)), r"expected an array of one dimension, found shape \(2, 3\)"),
    ("a.npy", npy(np.array(5)), r"expected an array of one dimension, found shape \(\)"),
    (
        "a.npy",
        npy(np.array([5, None]), allow_pickle=True),
        "plain numbers, found Python objects",
    ),
    ("a.npy", pickle.dumps([5]), r"expected a \.npy file of plain numbers, found a fault: "),
    ("a.npz", b"", r"expected an \.npz archive, found an empty file"),
    ("a.npz", npz(lengths=[5, 6])[:-30], r"expected an \.npz archive, found a fault: "),
    ("a.npz", npz(a=[5], b=[6]), 'expected one column, .* found "a", "b"'),
    ("a.npz", npz(lengths=np.ones((2, 2), int)), r"expected an array of one dimension, found shape \(2, 2\)"),
    ("a.npz", npz(), "expected one column, .* found none"),
    ("a.txt.gz", gzip.compress(b"5\n" * 10_000, mtime=0)[:-12], "expected a whole gzip file, found a damaged one: "),
    ("a.csv.gz", gzip.compress(b"length\n5\n", mtime=0)[:-3], "expected a whole gzip file, found a damaged one: "),
    ("a.txt.gz", b"812\n4095\n", "expected a whole gzip file, found a damaged one: Not a gzipped file"),
    ("a.log", gzip.compress(b"5\n", mtime=0)[:-3], "expected a whole gzip file, found a damaged one: "),
]


@pytest.mark.parametrize(("name", "content", "message"), FAULTS, ids=[f"{name} {found}" for name, _, found in FAULTS])
def test_faults(write, name, content, message):
    path = write(name, content)
    with pytest.raises(ValueError, match=message) as e:
        read_lengths(path)
    assert str(e.value).startswith(f"{path}: ")
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "length,b\n1,2\n"),
        ("a.tsv", "length\tb\n1\t2\n"),
        ("a.jsonl", '{"length": 1, "b": 2}\n'),
        ("a.json", '{"length": [1], "b": [2]}'),
        ("b.json", '[{"length": 1, "b": 2}]'),
        ("a.npz", npz(length=[1], b=[2])),
    ],
)
@pytest.mark.parametrize("wanted", [{"column": "c"}, {"rollout_column": "c"}])
def test_names_the_columns_there_are(write, name, content, wanted):
    with pytest.raises(ValueError, match='expected one column "c", found "length", "b"'):
        read_lengths(write(name, content), **wanted)


@pytest.mark.parametrize(
    ("name", "content"), [("a.txt", "5\n"), ("a.npy", npy([5])), ("a.jsonl", "5\n"), ("a.json", "[5]")]
)
@pytest.mark.parametrize("wanted", [{"column": "c"}, {"rollout_column": "c"}])
def test_refuses_a_column_where_there_are_none(write, name, content, wanted):
    with pytest.raises(ValueError, match='expected a column "c", found lengths without columns'):
        read_lengths(write(name, content), **wanted)


@pytest.mark.parametrize("value", ["null", "true", "1.5", '""', "[1]"])
def test_bad_rollout_id(write, value):
    with pytest.raises(ValueError, match=r"line 2: expected a rollout id, number or text, found "):
        read_lengths(write("a.jsonl", f'{{"n": 5, "g": 1}}\n{{"n": 5, "g": {value}}}\n'), "n", "g")


def test_empty_rollout_id_of_a_table(write):
    with pytest.raises(ValueError, match=r'line 3: expected a rollout id, number or text, found ""'):
        read_lengths(write("a.csv", "n,g\n5,a\n6, \n"), "n", "g")


def test_columns_of_different_length(write):
    for name, content in [("a.json", '{"n": [5, 6], "g": [1]}'), ("a.npz", npz(n=[5, 6], g=[1]))]:
        with pytest.raises(ValueError, match="expected as many rollout ids as lengths, found 1 for 2"):
            read_lengths(write(name, content), "n", "g")


def test_never_unpickles(write):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    trap = np.array([Trap()], dtype=object)
    for name, content in [("a.npy", npy(trap, allow_pickle=True)), ("a.npz", npz(lengths=trap))]:
        with pytest.raises(ValueError, match="found Python objects"):
            read_lengths(write(name, content))


def test_what_cannot_be_opened(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_lengths(tmp_path / "absent.csv")
    with pytest.raises(IsADirectoryError):
        read_lengths(tmp_path)


@pytest.mark.parametrize(
    ("name", "header", "line"),
    [("a.txt", "", "812\n"), ("a.csv", "id,length\n", "7,812\n"), ("a.jsonl", "", '{"id": 7, "length": 812}\n')],
)
def test_a_quarter_of_a_million_lines_in_seconds(write, name, header, line):
    path = write(name, header + 250_000 * line)
    start = time.process_time()
    lengths, _ = read_lengths(path)
    assert time.process_time() - start < 15  # 0.2 to 1 s on an idle machine
    assert (len(lengths), lengths.min(), lengths.max()) == (250_000, 812, 812)


@pytest.mark.parametrize("name", [name for name in GOOD if name != "no-header.csv"])
def test_damaged_bytes_end_in_one_line(write, name):
    """Cut or overwrite a good file anywhere: a value error of one line, or a readable file."""
    content = GOOD[name] if isinstance(GOOD[name], bytes) else GOOD[name].encode()
    random = np.random.RandomState(7)
    for _ in range(150):
        damaged = bytearray(content[: random.randint(len(content) + 1)] if random.randint(2) else content)
        for position in random.randint(len(damaged), size=2) if damaged else ():
            damaged[position] = random.randint(256)
        try:
            lengths, _ = read_lengths(write(name, bytes(damaged)))
        except ValueError as error:
            assert "\n" not in str(error)  # noqa: PT017
        else:
            assert lengths.min() >= 0


def test_json_of_tokens_is_what_python_writes(write):
    samples = [{"tokens": list(range(n)), "reward": 0.5, "done": True} for n in (3, 0, 5)]
    lines = "".join(json.dumps(sample) + "\n" for sample in samples)
    assert read_lengths(write("a.jsonl", lines), column="tokens").lengths.tolist() == [3, 0, 5]


JOINED = [
    ("a.jsonl", '{"total_lengths": [5, 6], "ids": ["a", "b"]}\n{"total_lengths": [7], "ids": ["a"]}\n'),
    ("a.json", '[{"total_lengths": [5, 6], "ids": ["a", "b"]}, {"total_lengths": [7], "ids": ["a"]}]'),
    ("b.json", '{"total_lengths": [5, 6, 7], "ids": ["a", "b", "a"]}'),
    ("c.json", '{"total_lengths": [[5, 6], [7]], "ids": [["a", "b"], ["a"]]}'),
    ("a", '{"total_lengths": [5, 6], "ids": ["a", "b"]}\n{"total_lengths": [7], "ids": ["a"]}\n'),
    ("b", '{"total_lengths": [5, 6, 7], "ids": ["a", "b", "a"]}\n'),
]


@pytest.mark.parametrize(("name", "content"), JOINED, ids=[name for name, _ in JOINED])
def test_lists_of_lengths_are_joined(write, name, content):
    lengths, rollout_ids = read_lengths(write(name, content), "total_lengths", "ids")
    assert (lengths.tolist(), rollout_ids.tolist()) == ([5, 6, 7], [0, 1, 0])
    assert read_lengths(write(name, content), "total_lengths").lengths.tolist() == [5, 6, 7]


def test_a_log_of_1024_lengths_a_line(write):
    lines = [{"total_lengths": list(range(n, n + 1024)), "rollout_ids": [n] * 1024} for n in range(4)]
    path = write("a.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    lengths, rollout_ids = read_lengths(path, "total_lengths", "rollout_ids")
    assert lengths.tolist() == [length for line in lines for length in line["total_lengths"]]
    assert rollout_ids.tolist() == np.repeat(np.arange(4), 1024).tolist()


def test_lists_of_lengths_in_parquet_are_joined(write):
    path = write("a.parquet", parquet(lengths=[[5, 6], [7]], ids=[["a", "b"], ["a"]], other=[[1], [2]]))
    lengths, rollout_ids = read_lengths(path, "lengths", "ids")
    assert (lengths.tolist(), rollout_ids.tolist()) == ([5, 6, 7], [0, 1, 0])
    with pytest.raises(ValueError, match=r'a\.parquet: expected a number in "other", found a list'):
        read_lengths(path, "other")


@pytest.mark.parametrize(
    "column", ["tokens", "input_ids", "token_ids", "ids", "prompt_ids", "response_tokens", "INPUT_IDS"]
)
def test_columns_whose_lists_are_token_ids(write, column):
    lines = json.dumps({column: [5, 6, 7]}) + "\n" + json.dumps({column: []}) + "\n"
    assert read_lengths(write("a.jsonl", lines), column).lengths.tolist() == [3, 0]


@pytest.mark.parametrize(
    "column",
    ["length", "lengths", "total_lengths", "seq_len", "seqlens", "response_length", "length_of_sample", "n_tokens"],
)
def test_columns_whose_lists_are_lengths(write, column):
    lines = json.dumps({column: [5, 6, 7]}) + "\n" + json.dumps({column: []}) + "\n"
    assert read_lengths(write("a.jsonl", lines), column).lengths.tolist() == [5, 6, 7]


@pytest.mark.parametrize("column", ["n", "text", "silence", "scores", "idle"])
def test_lists_in_other_columns_are_refused(write, column):
    for name, content in (("a.jsonl", {column: [5, 6]}), ("a.json", [{column: [5, 6]}]), ("b.json", {column: [[5]]})):
        with pytest.raises(ValueError, match=f'expected a number in "{column}", found a list: lengths would be in'):
            read_lengths(write(name, json.dumps(content)), column)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"lengths": [5, [6]], "g": [1, 2]}', r'line 1: expected a list of numbers in "lengths", found \[6\] in it'),
        ('{"lengths": [5, 6], "g": [1]}', "line 1: expected as many rollout ids as lengths, found 1 for 2"),
        ('{"lengths": [5, 6], "g": 1}', "line 1: expected as many rollout ids as lengths, found 1 for 2"),
        ('{"lengths": [5, 6], "g": null}', "line 1: expected a rollout id, number or text, found null"),
        ('{"lengths": [5, -6], "g": [1, 2]}', "line 1: expected a whole number .* found -6"),
        ('{"lengths": [5, 6], "g": [1, [2]]}', r"line 1: expected a rollout id, number or text, found \[2\]"),
        ('{"lengths": 5, "lengths": 6, "g": 1}', 'line 1: .* found more than one value of "lengths"'),
    ],
    ids=["nested", "fewer ids", "one id", "no id", "negative", "nested id", "twice"],
)
def test_faults_of_lists_of_lengths(write, line, message):
    with pytest.raises(ValueError, match=message):
        read_lengths(write("a.jsonl", line), "lengths", "g")


def test_a_fault_has_the_same_words_every_time(tmp_path):
    """What a parser says of an object may hold where that lies in memory."""
    header = b"{'descr': f()}\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(ValueError, match="found a fault: malformed node") as refused:
        read_lengths(tmp_path / "a.npy")
    assert " at 0x" not in str(refused.value)
