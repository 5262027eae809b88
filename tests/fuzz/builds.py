"""Processes that run lines, one for each build of the package, replaced when a line ends them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Verdict = dict[str, str]

READY = {"answer": "ready"}
"""What a process says before its first line."""
START = 120
"""Seconds until then, on a busy machine."""
TESTS = Path(__file__).parents[1]


class Build:
    """One build, in a process of its own.

    Parameters
    ----------
    folder : path, optional
        Where the package lies, if not where this interpreter finds it.
    with_laws : bool
        Whether answers are held against the laws; one of two builds that must agree is enough.
    first : str
        What the process runs first: how the fuzzer's own tests plant a fault.
    seconds : float
        How long a line may be silent.
    """

    def __init__(
        self, folder: Path | None = None, *, with_laws: bool = True, first: str = "", seconds: float = 60
    ) -> None:
        path = os.pathsep.join([*([str(folder)] if folder else []), str(TESTS)])
        run = f"{first}\nfrom fuzz.child import main; main()"
        self._command = [sys.executable, "-c", run, *(["laws"] if with_laws else [])]
        self._environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._environment |= {"MPLBACKEND": "agg", "PYTHONHASHSEED": "0"}
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def send(self, lines: Sequence[str]) -> None:
        """Give lines to the process; few enough for a pipe to hold their answers."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._unread = b""
            if (ready := self._next(START)) != READY:
                raise SystemExit(f"this build does not start: {ready}")
        text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        try:
            self._process.stdin.write(text)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended on one of them, which its silence tells

    def receive(self, lines: Sequence[str]) -> list[Verdict]:
        """Return how each line of the last `send` ended."""
        verdicts: list[Verdict] = []
        while len(verdicts) < len(lines):
            verdict = self._next(self._seconds)
            verdicts.append(verdict)
            if self._process is None and len(verdicts) < len(lines):
                self.send(lines[len(verdicts) :])
        return verdicts

    def ask(self, lines: Sequence[str]) -> list[Verdict]:
        self.send(lines)
        return self.receive(lines)

    def close(self) -> int:
        """End the process; return its exit code, negative for a signal."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.kill()
        process.stdin.close()
        process.stdout.close()
        return process.wait()

    def _next(self, seconds: float) -> Verdict:
        output = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            if not select.select([output], [], [], seconds)[0]:
                self.close()
                return {"failure": f"does not end within {seconds:.0f} s", "text": ""}
            part = os.read(output, 65536)
            if not part:
                code = self._process.wait()
                self.close()
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                return {"failure": f"ends the process with {how}", "text": ""}
            self._unread += part
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)


class Builds:
    """The builds that must agree: the first holds answers against the laws."""

    def __init__(self, *builds: Build) -> None:
        self.builds = builds

    def ask(self, lines: Sequence[str]) -> list[Verdict]:
        """Return how each line ended in the first build, or what is wrong in any of them."""
        for build in self.builds:
            build.send(lines)
        first, *others = (build.receive(lines) for build in self.builds)
        return [_together(verdict, [other[i] for other in others]) for i, verdict in enumerate(first)]

    def close(self) -> None:
        for build in self.builds:
            build.close()


def _together(first: Verdict, others: Sequence[Verdict]) -> Verdict:
    if "failure" in first:
        return first
    for other in others:
        if "failure" in other:
            return {"failure": f"with overflow checks {other['failure']}", "text": other["text"]}
        if other != first:
            return {"failure": "builds disagree", "text": f"{first} and {other}"}
    return first
