"""Temporary folders: for their owner alone, and deleted even if the process that made them died.

They hold copies of the keys. Each has a file that its process keeps locked. A process that makes
one first deletes those whose process is gone: their lock is free.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from unikat.errors import OutputError, why
from unikat.files.locks import acquire, release

PREFIX, LOCK = "unikat-", "in-use.lock"
_NAME = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}")
_ATTEMPTS = 5
_FRESH = 60.0
"""Seconds within which an empty folder may be one that is being made."""

_open: set[Scratch] = set()
"""Those of this process."""
_swept: set[tuple[int, Path]] = set()


class Scratch:
    """A temporary folder; made when this is."""

    def __init__(self, root: Path | None = None) -> None:
        """Make it in a folder, by default where TMPDIR says."""
        root = temporary_root() if root is None else root
        if (os.getpid(), root) not in _swept:
            _swept.add((os.getpid(), root))
            sweep(root)
        try:
            self.path, self._handle = _make(root)
        except OSError as error:
            raise OutputError(
                f"Cannot make a temporary folder in {root}: {why(error)}. Make room "
                "there, or set TMPDIR to another folder."
            ) from None
        self._owner = os.getpid()
        _open.add(self)
        atexit.register(self.close)

    def close(self) -> None:
        """Delete it with what it holds; a second time does nothing."""
        # A forked process has a copy of this object, not the folder.
        if self not in _open or self._owner != os.getpid():
            return
        _open.discard(self)
        atexit.unregister(self.close)
        _delete(self.path, self._handle)


def private(path: Path) -> Path:
    """Make an empty file that its owner alone can read, for a library to write into; return it.

    Libraries give files the modes of the process, which others of the machine may read.
    """
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    return path


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder, and delete it at the end."""
    scratch = Scratch()
    try:
        yield scratch.path
    finally:
        scratch.close()


def temporary_root() -> Path:
    """Folder in which temporary folders are made: TMPDIR, or what the system has for it.

    Raises
    ------
    OutputError
        If TMPDIR names what is no folder or cannot be written to. Copies of the keys must not go
        to another disk than the one that was asked for.
    """
    for name in ("TMPDIR", "TEMP", "TMP"):
        if value := os.environ.get(name):
            if not os.path.isdir(value):
                raise OutputError(
                    f"{name} is {value!r}, and there is no such folder for temporary files. Make "
                    f"it, or set {name} to another one."
                )
            if not os.access(value, os.W_OK | os.X_OK):
                raise OutputError(
                    f"{name} is {value!r}, and you may not write to that folder. Set {name} to "
                    "another folder for temporary files."
                )
            # `tempfile` would go to another place where this one is full.
            return Path(os.path.abspath(value))
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        raise OutputError(
            "There is no folder for temporary files that can be written to. Make room in it, or "
            "set TMPDIR to another folder."
        ) from None


def close_all() -> None:
    """Delete all temporary folders of this process, before it ends at once."""
    for scratch in tuple(_open):
        scratch.close()


def sweep(root: Path) -> None:
    """Delete the temporary folders of processes of this user that are gone."""
    with contextlib.suppress(OSError):
        for folder in [path for path in root.iterdir() if _NAME.fullmatch(path.name)]:
            with contextlib.suppress(OSError):
                _sweep_one(folder)


def _sweep_one(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        return
    found = folder.stat()
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        return
    if not (folder / LOCK).is_file():
        if time.time() - found.st_mtime > _FRESH:
            # Fails if it holds anything.
            folder.rmdir()
        return
    handle = acquire(folder / LOCK)
    if handle is not None:
        _delete(folder, handle)


def _make(root: Path) -> tuple[Path, int]:
    for _ in range(_ATTEMPTS):
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        # Another process may take it for that of a dead one until it is locked.
        with contextlib.suppress(FileNotFoundError):
            handle = acquire(folder / LOCK)
            if handle is not None:
                return folder, handle
    raise FileNotFoundError


def _delete(folder: Path, handle: int) -> None:
    """Delete a folder whose lock is held, the lock last: until then others keep away."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
    release(handle, folder / LOCK)
    with contextlib.suppress(OSError):
        folder.rmdir()
