"""The folder of a run: one run at a time, nothing of others replaced, nothing of a dead run left.

While a run lasts it holds the lock of the file `.unikat` in its folder. The file names what unikat
has written there, one name in a line; nothing else is ever replaced or deleted.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import os
import re
import stat
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from unikat.errors import OutputError, SpecError, brief, may_be_address, why
from unikat.files.locks import acquire, held, release

MARK = ".unikat"
SCRATCH = ".unikat-writing-"
"""Beginning of the names of what is not complete."""
_HEAD = "# unikat: this file locks the folder and names what unikat wrote here.\n"
_LEFT = re.compile(rf"{re.escape(SCRATCH)}[a-z0-9_]{{8}}")
"""Names of files that are being written."""

_held = threading.local()
"""`places`: the folders and files that this thread has locked."""


@contextlib.contextmanager
def owned(folder: Path, names: Sequence[str], inputs: Sequence[Path] = ()) -> Iterator[None]:
    """Be the only run that writes these files and folders into a folder.

    Parameters
    ----------
    folder
        The folder; made if it does not exist, and removed again if nothing is kept in it.
    names
        Files and folders that may be written, replaced or deleted there.
    inputs
        Files that the run reads.

    Raises
    ------
    OutputError
        If another run writes there, one of the names is that of something unikat did not write,
        or holds a link, writing would change an input, or the folder cannot be written to.
    """
    keep_inputs([folder / name for name in names], inputs)
    refuse_links(folder, names)
    with locked(folder):
        claim(folder, names)
        yield


def check_free(folder: Path, names: Sequence[str], inputs: Sequence[Path] = ()) -> None:
    """Refuse what `owned` would refuse, and leave the folder as it is: not made, not locked."""
    keep_inputs([folder / name for name in names], inputs)
    refuse_links(folder, names)
    refuse_other(folder)
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise _not_writable(folder, os.strerror(errno.ENOTDIR))
    if not os.access(there, os.W_OK | os.X_OK):
        raise _not_writable(folder, os.strerror(errno.EACCES))
    if held(folder / MARK):
        raise _busy(folder)
    _new(folder, names)


def refuse_other(folder: Path) -> None:
    """Refuse what is no folder and cannot become one."""
    try:
        there = folder.exists()
    except (OSError, ValueError) as error:
        raise _no_name(folder, error) from None
    if there and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; choose another --out.")
    if not there and may_be_address(folder):
        raise OutputError(
            "The name of the folder for the results looks like the address of a database; results "
            "are written to this machine alone. Choose another --out."
        )


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Refuse to write where others have put a link, or what is neither a file nor a folder.

    A folder of results may come from somebody else. unikat makes no links, and what it writes or
    deletes there would be written or deleted elsewhere.
    """
    for name in (MARK, *names):
        path = folder / name
        inside = ((root, one) for root, *found in os.walk(path) for kind in found for one in kind)
        for one in (path, *(Path(*parts) for parts in inside)):
            try:
                mode = one.lstat().st_mode
            except (OSError, ValueError):
                continue
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                what = "a link" if stat.S_ISLNK(mode) else "neither a file nor a folder"
                raise OutputError(
                    f"{brief(str(one))} is {what}. unikat did not make it, and writes nothing "
                    "there. If the folder is yours, delete it; else choose another --out. Nothing "
                    "was written."
                )


def _no_name(folder: Path, error: OSError | ValueError) -> OutputError:
    reason = why(error) if isinstance(error, OSError) else "its name is no name of one"
    return _not_writable(folder, reason)


def _not_writable(folder: Path, reason: str) -> OutputError:
    where = brief(str(folder))
    return OutputError(f"Cannot write to the folder {where}: {reason}. Choose another --out.")


def _busy(folder: Path) -> OutputError:
    return OutputError(
        f"Another run of unikat is writing into the folder {folder}. Wait until it has ended, or "
        "choose another --out. Nothing was written."
    )


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Be the only run that writes into a folder, which is made if it does not exist.

    A folder that was made and in which nothing is kept is removed again. Within one thread a lock
    may be taken again.
    """
    refuse_other(folder)
    place = os.path.realpath(folder)
    if place in _places():
        yield
        return
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    handle: int | None = None
    try:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = acquire(folder / MARK)
        except (OSError, ValueError) as error:
            raise _no_name(folder, error) from None
        if handle is None:
            raise _busy(folder)
        _places().add(place)
        try:
            _clean(folder)
            yield
        finally:
            _places().discard(place)
            kept = any((folder / name).exists() for name in claimed(folder))
            release(handle, None if kept else folder / MARK)
    finally:
        for path in made:
            # Succeeds only if nothing was kept in it.
            with contextlib.suppress(OSError):
                path.rmdir()


@contextlib.contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Be the only run that writes a file, whose folder exists."""
    mark = hashlib.sha256(path.name.encode(errors="surrogatepass")).hexdigest()[:16]
    lock = path.absolute().parent / f"{MARK}-{mark}"
    try:
        handle = acquire(lock)
    except OSError as error:
        raise OutputError(f"Cannot write {path}: {why(error)}. Nothing was written.") from None
    if handle is None:
        raise OutputError(
            f"Another run of unikat is writing {path}. Wait until it has ended, or name another "
            "file. Nothing was written."
        )
    try:
        yield
    finally:
        release(handle, lock)


def claim(folder: Path, names: Iterable[str]) -> None:
    """Note that names of a folder that is locked are ours from now on."""
    new = _new(folder, names)
    if not new:
        return
    mark = folder / MARK
    try:
        with mark.open("r+", encoding="utf-8") as file:
            text = file.read()
            # A line that was cut off is not a name of ours.
            begin = _HEAD if not text else "" if text.endswith("\n") else "\n"
            file.write(begin + "".join(f"{name}\n" for name in new))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"Cannot write {mark}: {why(error)}. Choose another --out.") from None


def _new(folder: Path, names: Iterable[str]) -> list[str]:
    """Names that are not ours yet; refuse those of what unikat did not write (OutputError)."""
    ours = claimed(folder)
    new = [name for name in names if name not in ours]
    foreign = [name for name in new if os.path.lexists(folder / name)]
    if foreign:
        raise OutputError(
            f"The folder {folder} holds {', '.join(foreign)}, which unikat did not write there "
            "and will not replace. Choose another --out, or move it away. Nothing was written."
        )
    return new


def claimed(folder: Path) -> set[str]:
    """Names in a folder that are ours.

    The folder may be of somebody else, and its file say anything: only names of what lies in the
    folder itself count, and no links, of which unikat makes none.
    """
    try:
        lines = (folder / MARK).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {
        line
        for line in lines
        if not line.startswith("#") and _is_name(line) and not (folder / line).is_symlink()
    }


def _is_name(text: str) -> bool:
    """Whether it names one file or folder of a folder, and leads nowhere else."""
    return Path(text).name == text and text not in {"", "..", MARK} and "\0" not in text


def keep_inputs(outputs: Collection[Path], inputs: Collection[Path]) -> None:
    """Refuse to write over what is read, whatever path leads there."""
    for path in (*outputs, *inputs):
        try:
            str(path).encode()
        except UnicodeEncodeError:
            raise SpecError(
                f"The name of the file or folder {str(path)!r} is not UTF-8, so the results could "
                "not say which it was. Rename it."
            ) from None
        if "\0" in str(path):
            raise SpecError(f"{str(path)!r} is no name of a file: it holds a null character.")
    for path in inputs:
        changed = next((output for output in outputs if _is_of(output, path)), None)
        if changed is not None:
            raise OutputError(
                f"The run reads {path}, and would write {changed} over it or into it. Choose "
                "another --out. Nothing was written."
            )


def _is_of(output: Path, path: Path) -> bool:
    """Whether an output is an input, or in a folder of inputs, or of their pattern."""
    with contextlib.suppress(OSError):
        if path.is_dir():
            return output.resolve().is_relative_to(path.resolve())
        if path.exists():
            return output.exists() and os.path.samefile(output, path)
        if glob.has_magic(str(path)):
            return fnmatch(str(output.resolve()), str(path.parent.resolve() / path.name))
    return False


def _places() -> set[str]:
    if not hasattr(_held, "places"):
        _held.places = set()
    places: set[str] = _held.places
    return places


def _clean(folder: Path) -> None:
    """Delete what runs that were killed did not finish writing."""
    ours = claimed(folder)
    if not ours:
        return
    found = list(folder.iterdir())
    for name in ours:
        # Follows no links.
        for root, folders, files in os.walk(folder / name):
            found += [Path(root, entry) for entry in (*folders, *files)]
    for path in found:
        if _LEFT.fullmatch(path.name) and not path.is_symlink():
            with contextlib.suppress(OSError):
                discard(path, ours)


def discard(scratch: Path, names: Iterable[str]) -> None:
    """Delete a file, or a folder with the files of these names in it, and nothing else."""
    if not scratch.is_dir():
        scratch.unlink(missing_ok=True)
        return
    for name in names:
        (scratch / name).unlink(missing_ok=True)
    scratch.rmdir()
