"""Writing into the folder of a run: whole files or none, on disk, readable by the owner alone.

Files are written to a hidden folder inside the run's folder (the same file system, whatever is
mounted where), forced to disk, and moved into place one by one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from io import BufferedRandom
from pathlib import Path
from typing import Any, TextIO

from unikat.errors import OutputError, why
from unikat.files.folder import SCRATCH, claim, discard, locked, refuse_other


def make_folder(folder: Path) -> bool:
    """Make the folder of a run, or prove that one can write to the one that is there.

    Returns
    -------
    bool
        Whether it was made.
    """
    refuse_other(folder)
    try:
        made = not folder.is_dir()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"unikat")
    except OSError as error:
        raise OutputError(
            f"Cannot write to the folder {folder}: {why(error)}. Choose another --out."
        ) from None
    return made


@contextlib.contextmanager
def all_or_nothing(folder: Path, files: Sequence[str], seal: str) -> Iterator[Path]:
    """Collect files in a scratch folder, and move them into `folder` when all are on disk.

    Parameters
    ----------
    folder
        Where they go; made if it does not exist.
    files
        Names of the files that belong together, in the order in which they are moved; the old
        ones of those that are not written are removed.
    seal
        The file that is removed first and should be moved last: where it is, the set is complete.

    Raises
    ------
    OutputError
        If anything cannot be written, another run writes there, or one of the names is that of
        something unikat did not write; what was there is then still there.
    """
    with locked(folder):
        make_folder(folder)
        claim(folder, files)
        scratch = None
        try:
            scratch = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=folder))
            yield scratch
            (folder / seal).unlink(missing_ok=True)
            for name in files:
                if (scratch / name).exists():
                    os.replace(scratch / name, folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
            _sync_folder(folder)
        except OSError as error:
            raise OutputError(
                f"Cannot write the results to {folder}: {why(error)}. Make room or choose another "
                "--out, and run again; with --resume if a checkpoint was kept."
            ) from None
        finally:
            if scratch is not None:
                with contextlib.suppress(OSError):
                    discard(scratch, files)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[BufferedRandom]:
    """Write a file that takes the place of `target` when the block ends, as a whole or not at all.

    The block can also read what it has written.

    Raises
    ------
    OSError
        If it cannot be written; what was there is then still there.
    """
    handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=SCRATCH)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            finish(file)
        os.replace(scratch, target)
        _sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise


def replace_file(target: Path, content: bytes) -> None:
    """Put a file in place of the one that is there, as a whole.

    Raises
    ------
    OutputError
        If it cannot be written; what was there is then still there.
    """
    try:
        with replacing(target) as file:
            file.write(content)
    except OSError as error:
        raise OutputError(f"Cannot write {target}: {why(error)}. Nothing was changed.") from None


def create(path: Path) -> Any:
    """Open a new file that its owner alone can read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def appended(path: Path) -> TextIO:
    """Open a file of ours at its end, made for its owner alone; OSError if it is a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    return open(os.open(path, flags, 0o600), "a", encoding="utf-8")


def finish(file: Any, content: bytes = b"") -> None:
    """Write, and force the file to disk."""
    file.write(content)
    file.flush()
    os.fsync(file.fileno())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a new file, on disk when this returns."""
    with create(path) as file:
        finish(file, content)


def write_text(path: Path, text: str) -> None:
    """Write a new text file, on disk when this returns."""
    write_bytes(path, text.encode())


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
