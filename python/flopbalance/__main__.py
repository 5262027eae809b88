"""``python -m flopbalance`` is the command ``flopbalance``."""

import sys

from flopbalance.commands.main import main

if __name__ == "__main__":
    sys.exit(main())
