"""Report the progress of a long `prepare`, through a context variable.

`prepare` stays a function of the table alone: no result depends on what is reported. Reports go to
the callback of the innermost `reporting_to` of this thread; without one they go nowhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_callback: ContextVar[Callable[[str], None] | None] = ContextVar("callback", default=None)
_stages: ContextVar[tuple[str, ...]] = ContextVar("stages", default=())


@contextlib.contextmanager
def reporting_to(callback: Callable[[str], None] | None) -> Iterator[None]:
    """Call a function with every report made within the block."""
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@contextlib.contextmanager
def stage(words: str) -> Iterator[None]:
    """Report the start of a stage; reports within the block begin with its words.

    Examples
    --------
    >>> with reporting_to(print), stage("Selecting terms"):
    ...     report("2 of 10")
    Selecting terms
    Selecting terms, 2 of 10
    """
    token = _stages.set((*_stages.get(), words))
    try:
        _send()
        yield
    finally:
        _stages.reset(token)


def report(words: str) -> None:
    """Report how far the work is."""
    _send(words)


def _send(*words: str) -> None:
    callback = _callback.get()
    if callback is not None:
        callback(", ".join((*_stages.get(), *words)))
