"""Loaded by the server of worker processes alone: a worker says nothing if its parent ends.

What a worker is to do comes through a pipe. If the parent is killed meanwhile, the pipe ends in the
middle, or a semaphore is gone, and Python would print a traceback. The parent, or who killed it,
knows already.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from types import TracebackType

_ENDED = EOFError, OSError, pickle.UnpicklingError


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback, but not of a worker that was not told what to do."""
    frames = traceback.walk_tb(trace)
    starting = any(frame.f_code.co_name == "_serve_one" for frame, _ in frames)
    if not (starting and issubclass(kind, _ENDED)):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _told
