"""The command line: ``flopbalance plan`` and its companions."""


def main() -> int:
    """Run the command line; return the exit code."""
    return 0
