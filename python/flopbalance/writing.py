"""The one place where files are written: beside the old one, which is then replaced as a whole."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

_STANDARD_INPUT = "-"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file to be written under a name of its own, which at the end becomes `path`.

    Who reads `path` meanwhile, or after a failure, has the old file; afterwards the new one; never a part of either. A
    link stays, and what it points to is replaced. Permissions are those of the old file, or what a new one gets here.
    What is no regular file, such as a pipe, is written as it is.

    Raises
    ------
    OSError
        The file cannot be written, as where its folder is missing or may not be written to; its name is that of
        `path`. What was written of it is gone.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"new")
    >>> path.read_bytes(), [other.name for other in path.parent.iterdir()]
    (b'new', ['a.txt'])
    """
    called = os.fspath(path)
    with _named(called):
        target, old = _destination(called)
        if old is not None and stat.S_ISREG(old.st_mode) and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if old is not None and not stat.S_ISREG(old.st_mode):
        with io.BufferedWriter(_Output(called, "w", called)) as file:
            yield file
        return
    beside = os.path.join(os.path.dirname(target), f".flopbalance-{os.urandom(8).hex()}.tmp")
    try:
        with io.BufferedWriter(_Output(beside, "x", called, 0o666 if old is None else 0o600)) as file:
            yield file
            with _named(called):
                file.flush()
                if old is not None:
                    _take_over(beside, old)
                os.fsync(file.fileno())
        with _named(called):
            os.replace(beside, target)
    except BaseException:  # Ctrl-C as well
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a file by a text in UTF-8."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def check_output(path: str | os.PathLike[str], name: str, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse, before any work, to write where there is no folder, or what is read as well.

    Parameters
    ----------
    path : path
        What will be written.
    name : str
        How messages call it.
    inputs : iterable of path
        What is read; ``-`` is standard input. Need not exist.
    """
    with _named(os.fspath(path)):
        _, old = _destination(os.fspath(path))
    if old is None or not stat.S_ISREG(old.st_mode):
        return
    for source in inputs:
        read = _status(source) if source != _STANDARD_INPUT else _standard_input()
        if read is not None and os.path.samestat(old, read):
            raise ValueError(f"{name} must be another file than what is read, got {os.fspath(path)}")


class _Output(io.FileIO):
    """A file whose errors have the name that the caller gave; those of other files in between keep theirs."""

    def __init__(self, path: str, mode: str, called: str, permissions: int = 0o666) -> None:
        self._called = called
        with _named(called):
            super().__init__(path, mode, opener=lambda name, flags: os.open(name, flags, permissions))

    def write(self, data: Any, /) -> int:
        with _named(self._called):
            return super().write(data)


@contextlib.contextmanager
def _named(called: str) -> Iterator[None]:
    """Let errors have the name that the caller gave, and no other."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = called, None
        raise


def _destination(path: str) -> tuple[str, os.stat_result | None]:
    """Return the name, without links, of what `open` would write to, and what is there, if anything.

    The system follows the path, step by step: where there is no folder q, q/.. is not there either, whatever is left
    when both are struck out.
    """
    old = _status(path)  # an error if links go in a circle
    while os.path.islink(path):
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    folder, name = os.path.split(path)
    folder = os.path.join(folder or os.curdir, "")
    os.stat(folder)  # an error if it is no folder
    return os.path.join(os.path.realpath(folder), name), old


def _take_over(path: str, old: os.stat_result) -> None:
    """Give a file the owner and the permissions of another."""
    if os.name == "posix":
        with contextlib.suppress(PermissionError):  # another's file becomes the writer's
            os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, stat.S_IMODE(old.st_mode))


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return what is behind a name, at the end of all links; None if there is nothing."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _standard_input() -> os.stat_result | None:
    try:
        return os.fstat(sys.stdin.fileno())
    except OSError:  # a notebook's has no descriptor
        return None
