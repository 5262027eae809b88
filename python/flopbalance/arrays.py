"""NumPy's files, .npy and .npz: plain numbers only, and never more memory than what is really there."""

from __future__ import annotations

import contextlib
import errno
import io
import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from flopbalance.text import listed, printable, quoted, shortened

MOST_VALUES = 2**28
"""Of an array, and of samples in any file."""

_LARGEST_ARRAY = 8 * MOST_VALUES
_BLOCK = 2**24
_LONGEST_REASON = 200
_ENCRYPTED = 1


_FAULTS = (
    *(ValueError, TypeError, LookupError, ArithmeticError, EOFError, OSError, SyntaxError),
    *(NotImplementedError, RecursionError, struct.error, zlib.error, zipfile.BadZipFile, tokenize.TokenError),
)
_PARSERS_OWN = (None, errno.EINVAL)
"""Numbers of errors that parsers raise: of their own, and of places before the beginning of a file."""

_NO_LITERAL = re.compile(rb"\\|\d[A-Za-z_]")
"""Forms that draw a warning from the parser of Python's literals, as headers are; arrays of plain numbers need none."""

_KINDS = {b"{": "JSON text", b"[": "JSON text", b"\x93NUMPY": "a single .npy array"}
"""First bytes of what people take for archives."""


class _FaultError(ValueError):
    """What was found, in words of this module."""


@contextlib.contextmanager
def reading(expected: str) -> Iterator[None]:
    """Turn what a damaged binary file makes its parser raise into one line.

    What the system, a lack of memory or the handler of a signal raises meanwhile comes out as it is.
    """
    try:
        yield
    except _FaultError as fault:
        raise ValueError(f"expected {expected}, found {fault}") from None
    except _FAULTS as error:
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno not in _PARSERS_OWN):
            raise
        text = re.sub(" at 0x[0-9a-f]+", "", " ".join(str(error).split()))  # the same each time
        reason = shortened(printable(text), _LONGEST_REASON) or type(error).__name__
        raise ValueError(f"expected {expected}, found a fault: {reason}") from None


def read_array(stream: IO[bytes]) -> npt.NDArray[Any]:
    """Return the array of plain numbers that a .npy stream holds up to its end.

    Memory is taken as data comes, whatever the header says of its size.

    Examples
    --------
    >>> import io
    >>> stream = io.BytesIO()
    >>> np.save(stream, [5, 6])
    >>> _ = stream.seek(0)
    >>> read_array(stream)
    array([5, 6])
    """
    if np.lib.format.read_magic(stream) != (1, 0):  # others are for headers of records
        raise _FaultError("an array of records")
    size_of_header = stream.read(2)
    header = stream.read(int.from_bytes(size_of_header, "little"))
    if _NO_LITERAL.search(header):
        raise _FaultError("a header that NumPy does not write")
    try:
        shape, column_major, dtype = np.lib.format.read_array_header_1_0(io.BytesIO(size_of_header + header))
    except MemoryError:  # Python's word for a text of some thousand signs that is nested too deeply
        raise _FaultError("a header that is nested too deeply") from None
    if dtype.hasobject:
        raise _FaultError("Python objects")  # which may run anything when they are read
    count = math.prod(shape)
    size = count * dtype.itemsize
    if min(shape, default=0) < 0 or count > MOST_VALUES or size > _LARGEST_ARRAY:
        raise _FaultError(f"an array of shape {quoted(shape)}; at most {MOST_VALUES} values can be read")
    data = bytearray()
    while block := stream.read(min(_BLOCK, size + 1 - len(data))):
        data += block
    if len(data) != size:
        raise _FaultError(f"{'more' if len(data) > size else len(data)} bytes where the header says {size}")
    if dtype == np.bool_ and np.frombuffer(data, np.uint8).max(initial=0) > 1:
        raise _FaultError("a value that is neither true nor false")
    return np.ndarray(shape, dtype, data, order="F" if column_major else "C")


class Archive:
    """The arrays of an .npz stream, by name."""

    def __init__(self, stream: IO[bytes]) -> None:
        with reading("an .npz archive"):
            stream.seek(0)
            start = stream.read(64).lstrip()
            if not start.startswith(b"PK"):  # of others, ZipFile looks for the end
                other = "another kind of file" if start else "an empty file"
                raise _FaultError(next((kind for first, kind in _KINDS.items() if start.startswith(first)), other))
            self._file = zipfile.ZipFile(stream)
            members = self._file.infolist()
            self._members = {member.filename.removesuffix(".npy"): member for member in members}
            if len(self._members) < len(members):
                raise _FaultError(f"two arrays of one name among {listed(member.filename for member in members)}")

    @property
    def names(self) -> list[str]:
        """The arrays that there are."""
        return list(self._members)

    def read(self, name: str) -> npt.NDArray[Any]:
        """Return an array."""
        with reading(f"plain numbers in {quoted(name)}"):
            member = self._members[name]
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise _FaultError("a compression that NumPy does not write")
            if member.flag_bits & _ENCRYPTED:
                raise _FaultError("an encrypted array")
            with self._file.open(member) as stream:
                return read_array(stream)
