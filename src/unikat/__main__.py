"""The program `unikat`, also as `python -m unikat`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is loaded ends it without a word."""
    try:
        from unikat.cli.main import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
