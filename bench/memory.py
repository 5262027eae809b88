"""Resident memory of this process, from the kernel."""

from __future__ import annotations

import re
from pathlib import Path

_PEAK = Path("/proc/self/clear_refs")


def resident(name: str = "VmRSS") -> int:
    """Bytes: VmRSS now, VmHWM at the peak; 0 where the kernel does not say."""
    status = Path("/proc/self/status")
    found = re.search(rf"{name}:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


class Peak:
    """The peak from here on above what the process holds now."""

    def __init__(self) -> None:
        self._measured = _PEAK.exists()
        if self._measured:
            _PEAK.write_text("5")
        self._before = resident()

    def bytes(self) -> int:
        return resident("VmHWM") - self._before if self._measured else 0
