"""Run the tests on the one abi3 wheel under every CPython from 3.10 on that this machine has.

`make test-all` builds the wheel and calls ``python tests/every_python.py dist/flopbalance-*.whl``.
"""

import os
import subprocess
import sys
from pathlib import Path


def interpreters() -> dict[tuple[int, ...], Path]:
    """Return one working interpreter for each version, found on the path and among pyenv's."""
    folders = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    folders += sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    found: dict[tuple[int, ...], Path] = {}
    for path in (path for folder in folders for path in sorted(folder.glob("python3.[0-9][0-9]"))):
        question = "import sys, venv; print(sys.implementation.name, *sys.version_info[:2], sys.executable)"
        answer = subprocess.run([path, "-c", question], capture_output=True, text=True)
        if answer.returncode == 0:
            name, major, minor, executable = answer.stdout.split(maxsplit=3)
            if name == "cpython" and int(minor) >= 10:
                found.setdefault((int(major), int(minor)), Path(executable.strip()))
    return found


def test(version: tuple[int, ...], interpreter: Path, wheel: str) -> bool:
    """Install the wheel into an environment of its own and run the tests; return whether they pass."""
    environment = Path("build") / f"python{'.'.join(map(str, version))}"
    python = environment / "bin" / "python"
    commands = (
        [interpreter, "-m", "venv", "--clear", environment],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}[test,plot]"],
        [python, "-m", "pytest", "-q", "--pyargs", "tests", "flopbalance"],
    )
    return all(subprocess.run(command).returncode == 0 for command in commands)


def main() -> int:
    """Print a line for each version; return 1 where one failed."""
    passed = {version: test(version, path, sys.argv[1]) for version, path in sorted(interpreters().items())}
    for version, ok in passed.items():
        print(f"CPython {'.'.join(map(str, version))}: {'passed' if ok else 'FAILED'}")
    return 0 if passed and all(passed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
