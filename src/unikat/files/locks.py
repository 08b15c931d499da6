"""Locks on files: the system lets go of them when the process that holds them ends, however."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
from pathlib import Path

INSTANT = 0.02
"""Seconds after which a lock that was refused is tried once more."""


def acquire(path: Path) -> int | None:
    """Open a file, made for its owner alone if it is not there, and lock it.

    Holds between processes and within one: another `acquire` of the same file fails. On a file
    system without locks everybody gets it.

    Returns
    -------
    int or None
        The open file, for `release`; None if it is locked already.

    Raises
    ------
    OSError
        If the file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    while True:
        handle = os.open(path, flags, 0o600)
        try:
            if not _lock(handle):
                # It may be `held` that looks.
                time.sleep(INSTANT)
                if not _lock(handle):
                    os.close(handle)
                    return None
            # The previous holder may have deleted the file that was opened here.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def held(path: Path) -> bool:
    """Whether somebody holds the lock of a file; False if there is none, or no locks.

    The file is not changed. Who tries to lock it at that moment is kept from it for an instant,
    for which `acquire` waits.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False
    try:
        return not _lock(handle, shared=True)
    finally:
        os.close(handle)


def release(handle: int, remove: Path | None = None) -> None:
    """Let go of a lock, and delete its file if it is named."""
    if os.name == "posix" and remove is not None:
        # While it is still locked: nobody may take a file that is going away.
        with contextlib.suppress(OSError):
            remove.unlink()
    os.close(handle)
    if os.name != "posix" and remove is not None:
        with contextlib.suppress(OSError):
            remove.unlink()


def _lock(handle: int, *, shared: bool = False) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
    return True
