"""The program `unikat`, also as `python -m unikat`."""

import os
import sys


def _leave_folder() -> None:
    """Look for no more modules in the current folder, where `python -m` looks first.

    It may be a folder of data, with a `numpy.py` of whoever made it. Python itself has
    looked there by now: `unikat` and `python -P -m unikat` never do.
    """
    package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    try:
        here = os.path.realpath(os.getcwd()) == os.path.realpath(sys.path[0])
    except OSError:
        return
    if here and not sys.flags.safe_path and os.path.realpath(sys.path[0]) != package:
        del sys.path[0]


def main() -> int:
    """Run the command line; Ctrl-C while it is loaded ends in one line.

    The command line has an answer of its own to Ctrl-C. When it has returned, all is written and
    said, and what ends the interpreter is not to be interrupted.
    """
    import signal

    # For what libraries write; modules of ours name the modes of their files.
    os.umask(0o077)
    code = None
    try:
        from unikat.cli.main import main as run

        code = run()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if code is None and sys.stderr is not None:
            try:
                sys.stderr.write("Interrupted.\n")
                sys.stderr.flush()
            except (OSError, ValueError):
                pass
    # Python ends by the signal, whatever the exit code, if Ctrl-C has left text that was executed,
    # as libraries do while they are imported. It forgets that when other text is.
    exec("")
    return 130 if code is None else code


if __name__ == "__main__":
    _leave_folder()
    sys.exit(main())
