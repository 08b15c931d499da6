"""What a model tells of a long `prepare` to whoever watches, without being handed anyone.

`prepare` stays a function of the table alone: what is told has no influence on its result. Nobody
listens unless the caller says so, on this thread.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)
_doing: ContextVar[tuple[str, ...]] = ContextVar("doing", default=())


@contextlib.contextmanager
def listening(listener: Callable[[str], None] | None) -> Iterator[None]:
    """Let a function hear what is told meanwhile."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextlib.contextmanager
def doing(words: str) -> Iterator[None]:
    """Tell what begins here; what is told meanwhile is a part of it.

    Examples
    --------
    >>> with listening(print), doing("Selecting terms"):
    ...     tell("2 of 10")
    Selecting terms
    Selecting terms, 2 of 10
    """
    token = _doing.set((*_doing.get(), words))
    try:
        _send()
        yield
    finally:
        _doing.reset(token)


def tell(words: str) -> None:
    """Tell how far it is."""
    _send(words)


def _send(*words: str) -> None:
    listener = _listener.get()
    if listener is not None:
        listener(", ".join((*_doing.get(), *words)))
