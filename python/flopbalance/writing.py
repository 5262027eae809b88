"""The one place where files are written: beside the old one, which is then replaced as a whole."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import BinaryIO

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
        The file cannot be written; its name is that of `path`. What was written of it is gone.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"new")
    >>> path.read_bytes(), [other.name for other in path.parent.iterdir()]
    (b'new', ['a.txt'])
    """
    try:
        old = _status(path)
        if old is not None and not stat.S_ISREG(old.st_mode):
            with open(path, "wb") as file:
                yield file
            return
        target = os.path.realpath(path)
        if old is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        beside = os.path.join(os.path.dirname(target), f".flopbalance-{os.urandom(8).hex()}.tmp")
        try:
            with open(beside, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if old is not None:
                if os.name == "posix":
                    with contextlib.suppress(PermissionError):  # another's file becomes the writer's
                        os.chown(beside, old.st_uid, old.st_gid)
                os.chmod(beside, stat.S_IMODE(old.st_mode))
            os.replace(beside, target)
        except BaseException:  # Ctrl-C as well
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        error.filename, error.filename2 = os.fspath(path), None  # not a name that the caller never gave
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
    old = _status(path)
    if old is None and not os.path.isdir(os.path.dirname(os.path.realpath(path))):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
    if old is None or not stat.S_ISREG(old.st_mode):
        return
    for source in inputs:
        read = _status(source) if source != _STANDARD_INPUT else _standard_input()
        if read is not None and os.path.samestat(old, read):
            raise ValueError(f"{name} must be another file than what is read, got {os.fspath(path)}")


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
