"""Files that survive: who reads one has the old file or the new one, and what is read is never written to."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from command import refused, run, run_process
from flopbalance import CostModel, Schedule, load_cost, plan, save_cost
from flopbalance.writing import replacing, write_text

LOG = Path(__file__).parent / "golden" / "cpu_micro_batches.csv"
SMALL = ("--prompts", 8, "--dp-size", 2)

posix = pytest.mark.skipif(os.name != "posix", reason="needs links, permissions and limits as Unix has them")


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.txt"
    path.write_text("old")
    return path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced(old, tmp_path):
    write_text(old, "new ≥ old")
    assert old.read_text(encoding="utf-8") == "new ≥ old"
    assert names(tmp_path) == ["old.txt"]


@posix
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0, 0o666)], ids=oct)
def test_a_new_file_has_the_permissions_that_open_gives(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "new", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


@posix
def test_a_replaced_file_keeps_its_permissions(old):
    old.chmod(0o640)
    write_text(old, "new")
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


@posix
def test_a_link_stays_and_its_target_is_replaced(old, tmp_path):
    (tmp_path / "folder").mkdir()
    for number, target in enumerate([old, Path("..") / "old.txt", tmp_path / "not yet"]):
        link = tmp_path / "folder" / f"link {number}"
        link.symlink_to(target)
        write_text(link, f"new {number}")
        assert link.is_symlink()
        assert link.read_text() == f"new {number}"
    assert names(tmp_path) == ["folder", "not yet", "old.txt"]
    assert len(names(tmp_path / "folder")) == 3


@posix
def test_what_is_no_regular_file_is_written_as_it_is(tmp_path):
    write_text("/dev/null", "new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    schedule = plan([3, 1, 2], dp_size=1, max_tokens=4)
    schedule.save(pipe)
    reader.join()
    (tmp_path / "whole").write_bytes(read[0])
    assert Schedule.load(tmp_path / "whole") == schedule
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    code = "from flopbalance.writing import write_text; write_text('/dev/stdout', 'new')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"new"


@pytest.mark.parametrize("failure", [ValueError, OSError, KeyboardInterrupt, SystemExit, MemoryError])
def test_a_failure_leaves_the_old_file_and_nothing_else(old, tmp_path, failure):
    def write():
        with replacing(old) as file:
            file.write(b"half")
            raise failure

    with pytest.raises(failure):
        write()
    assert old.read_text() == "old"
    assert names(tmp_path) == ["old.txt"]


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_an_interrupt_at_the_last_moment_leaves_the_old_file(old, tmp_path, monkeypatch, moment):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_text(old, "new")
    assert old.read_text() == "old"
    assert names(tmp_path) == ["old.txt"]


def test_it_is_on_the_disk_before_the_old_file_is_gone(old, monkeypatch):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *paths: (done.append("replace"), replace(*paths)))
    write_text(old, "new")
    assert done == ["fsync", "replace"]


def saved_schedule(path, size):
    plan(np.arange(1, size), dp_size=1, max_tokens=size).save(path)


def saved_cost(path, size):
    save_cost(CostModel(per_token=size, notes=("x" * size,)), path)


@pytest.mark.parametrize(
    ("save", "load", "sizes"),
    [(saved_schedule, Schedule.load, (50, 3000)), (saved_cost, load_cost, (50, 100_000))],
    ids=["schedule", "cost"],
)
def test_who_reads_meanwhile_has_a_whole_file(tmp_path, save, load, sizes):
    path = tmp_path / "file"
    save(path, sizes[0])
    known, done = [], threading.Event()
    for size in sizes:
        save(tmp_path / "one", size)
        known.append(load(tmp_path / "one"))

    def write():
        for turn in range(60):
            save(path, sizes[turn % 2])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = 0
    while not done.is_set() or reads < 20:
        assert load(path) in known
        reads += 1
    writer.join()


@posix
@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "--prompts", 4096, "--out", "old.npz"),
        ("plan", "--prompts", 4096, "--out", "old.json"),
        ("plot", *SMALL, "--out", "old.html"),
        ("plot", *SMALL, "--out", "old.svg"),
        ("plot", *SMALL, "--out", "old.png"),
        ("calibrate", LOG, "--save", "old.json"),
    ],
    ids=lambda arguments: f"{arguments[0]} {arguments[-1]}",
)
def test_a_full_disk_keeps_the_old_file(tmp_path, arguments):
    if arguments[0] == "plot":
        pytest.importorskip("matplotlib")
    path = tmp_path / arguments[-1]
    path.write_text("old")
    limited = (
        "import sys; from flopbalance.commands.main import main; "
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300)); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", limited, *map(str, arguments)]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.splitlines()[-1] == f"flopbalance: error: {arguments[-1]}: File too large"
    assert path.read_text() == "old"
    assert names(tmp_path) == [path.name]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_device_is_one_line():
    assert refused("calibrate", LOG, "--save", "/dev/full") == "/dev/full: No space left on device"


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_or_folder_is_one_line(tmp_path):
    path = tmp_path / "folder" / "fit.json"
    path.parent.mkdir()
    path.write_text("old")
    path.chmod(0o444)
    assert refused("calibrate", LOG, "--save", path) == f"{path}: Permission denied"
    path.chmod(0o644)
    path.parent.chmod(0o555)
    assert refused("calibrate", LOG, "--save", path) == f"{path}: Permission denied"
    assert path.read_text() == "old"


@posix
def test_a_folder_where_nobody_may_write_is_one_line(tmp_path, monkeypatch):
    def denied(path, *_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / "fit.json"
    path.write_text("old")
    monkeypatch.setattr(os, "open", denied)  # root may write everywhere
    with pytest.raises(PermissionError) as refusal:
        write_text(path, "new")
    assert refusal.value.filename == str(path)
    assert path.read_text() == "old"


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400], ids=oct)
def test_what_is_half_written_is_for_nobody_else(old, tmp_path, mode):
    old.chmod(mode)
    if not os.access(old, os.W_OK):
        pytest.skip("needs to be root")
    with replacing(old) as file:
        file.write(b"secret")
        file.flush()
        (beside,) = set(tmp_path.iterdir()) - {old}
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    assert stat.S_IMODE(old.stat().st_mode) == mode


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FileNotFoundError(2, "No such file or directory", "another"), id="of another name"),
        pytest.param(TimeoutError("the job's time is over"), id="of none"),
    ],
)
def test_an_error_that_concerns_another_file_keeps_its_name(old, error):
    name = error.filename
    with pytest.raises(OSError) as raised, replacing(old):  # noqa: PT011 - the very same
        raise error
    assert raised.value is error
    assert error.filename == name
    assert old.read_text() == "old"


NOWHERE = {
    "folder and back": "./q/../lengths.npz",
    "file and back": "lengths.json/../lengths.npz",
    "file as a folder": "lengths.npz/",
    "link to nowhere and back": "astray.npz",
}


@posix
@pytest.mark.parametrize("out", NOWHERE.values(), ids=NOWHERE)
def test_a_path_leads_where_the_system_says(tmp_path, out):
    make_inputs(tmp_path)
    (tmp_path / "astray.npz").symlink_to("q/../lengths.npz")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    reason = "Not a directory" if "json" in out or out.endswith("/") else "No such file or directory"
    if not out.endswith("/"):  # which names no format
        assert refused("plan", "lengths.npz", "--out", out, cwd=tmp_path) == f"{out}: {reason}"
    with pytest.raises(OSError, match=reason) as here:
        write_text(tmp_path / out if not out.endswith("/") else f"{tmp_path}/{out}", "new")
    assert here.value.filename.startswith(str(tmp_path))
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@posix
def test_a_circle_of_links_is_one_line(tmp_path):
    (tmp_path / "a.npz").symlink_to("b.npz")
    (tmp_path / "b.npz").symlink_to("a.npz")
    message = refused("plan", "absent.csv", "--out", "a.npz", cwd=tmp_path)
    assert message == f"a.npz: {os.strerror(errno.ELOOP)}"


@posix
def test_a_folder_behind_a_link_is_left_by_its_own_way_up(tmp_path):
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "near").symlink_to("far/inner")
    write_text(tmp_path / "near" / ".." / "new", "")
    assert names(tmp_path / "far") == ["inner", "new"]


@pytest.mark.parametrize(
    ("arguments", "out"),
    [
        (("plan", "absent.csv", "--out"), "absent/x.json"),
        (("plot", "absent.csv", "--out"), "absent/x.html"),
        (("calibrate", "absent.csv", "--save"), "absent/x.json"),
    ],
    ids=["plan", "plot", "calibrate"],
)
def test_a_missing_folder_is_said_before_any_work(arguments, out):
    assert refused(*arguments, out) == f"{out}: No such file or directory"


def make_inputs(folder):
    """Make a file of every kind that commands read."""
    np.savez(folder / "lengths.npz", lengths=[7, 2, 5, 4])
    (folder / "lengths.json").write_text("[7, 2, 5, 4]")
    (folder / "lengths.txt.html").write_text("7\n2\n5\n4\n")
    shutil.copy(LOG, folder / "log.csv")
    save_cost(CostModel(per_token=7), folder / "cost.json")
    (folder / "hf").mkdir()
    (folder / "hf" / "config.json").write_text("{}")
    if os.name == "posix":
        (folder / "link.npz").symlink_to("lengths.npz")
        os.link(folder / "lengths.json", folder / "hard.json")


@posix
@pytest.mark.parametrize(
    ("arguments", "option", "out"),
    [
        (("plan", "lengths.npz"), "--out", "lengths.npz"),
        (("plan", "lengths.npz"), "--out", "link.npz"),
        (("plan", "link.npz"), "--out", "lengths.npz"),
        (("plan", "lengths.npz"), "--out", "./hf/../lengths.npz"),
        (("plan", "lengths.json"), "--out", "lengths.json"),
        (("plan", "lengths.json"), "--out", "hard.json"),
        (("plan", "lengths.json", "--cost", "cost.json"), "--out", "cost.json"),
        (("plan", "lengths.json", "--model", "cost.json"), "--out", "cost.json"),
        (("plan", "lengths.json", "--model", "hf"), "--out", "hf/config.json"),
        (("plan", "lengths.json", "--flops-model", "cost.json"), "--out", "cost.json"),
        (("plan", "lengths.json", "--flops-model", "hf"), "--out", "hf/config.json"),
        (("plot", "lengths.txt.html"), "--out", "lengths.txt.html"),
        (("calibrate", "log.csv"), "--save", "log.csv"),
        (("calibrate", "log.csv", "--cost", "cost.json"), "--save", "cost.json"),
        (("calibrate", "log.csv", "--windows-of", "cost.json"), "--save", "cost.json"),
    ],
    ids=str,
)
def test_what_is_read_is_never_written_to(tmp_path, arguments, option, out):
    make_inputs(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    message = refused(*arguments, option, out, cwd=tmp_path)
    assert message == f"{option} must be another file than what is read, got {out}"
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


def test_standard_input_is_read_as_well(tmp_path):
    make_inputs(tmp_path)
    with open(tmp_path / "lengths.json") as lengths:
        process = run_process("plan", "-", "--out", "lengths.json", cwd=tmp_path, stdin=lengths)
    assert process.returncode == 2
    assert "must be another file than what is read" in process.stderr
    assert (tmp_path / "lengths.json").read_text() == "[7, 2, 5, 4]"


def test_another_file_beside_the_input_is_replaced(tmp_path):
    make_inputs(tmp_path)
    (tmp_path / "out.json").write_text("old")
    assert run("plan", "lengths.json", "--dp-size", 2, "--out", "out.json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "out.json").read_text().startswith('{"partitions"')
