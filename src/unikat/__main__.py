"""The program `unikat`, also as `python -m unikat`."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the command line; Ctrl-C before it and after it ends without a word.

    The command line has an answer of its own to Ctrl-C. When it has returned, all is written and
    said, and what ends the interpreter is not to be interrupted.
    """
    code = 130
    try:
        from unikat.cli.main import main as run

        code = run()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Python ends by the signal, whatever the exit code, if Ctrl-C has left text that was executed,
    # as libraries do while they are imported. It forgets that when other text is.
    exec("")
    return code


if __name__ == "__main__":
    sys.exit(main())
