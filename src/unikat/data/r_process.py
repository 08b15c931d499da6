"""The process that reads a file of R: `python -P r_process.py FILE FOLDER BYTES PATHS`.

The library that reads such files can be ended by what a file holds, and takes whatever memory it
asks for. So it works in a process of its own, which imports nothing of unikat. Its data frames are
written into the folder as 0.arrow, 1.arrow, ..., and their names to standard output.
"""

from __future__ import annotations

import bz2
import contextlib
import ctypes
import gzip
import json
import lzma
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOO_LARGE, DAMAGED = 3, 4
"""Exit codes."""
_CLASS = re.compile(
    rb"\x00\x00\x00\x10\x00\x00\x00(?:\x02....\x00\x00\x00\x07(?P<ordered>ordered)|\x01)"
    rb"....\x00\x00\x00\x06factor",
    re.DOTALL,
)
"""The class of a factor as R writes it: one or two texts, each after its kind and length."""
_CHUNK, _OVERLAP = 1 << 20, 64
_PARENT_DIES, _KILL = 1, 9
"""Of Linux: the signal for a process whose parent is gone."""


def main() -> int:
    """Read the file; return the exit code."""
    # Others may not read what is written.
    os.umask(0o077)
    path, folder, most = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    sys.path += [place for place in json.loads(sys.argv[4]) if place not in sys.path]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DIES, _KILL)
    try:
        ordered = _ordered(path, most)
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        return DAMAGED
    if ordered is None:
        return TOO_LARGE
    import pandas as pd
    import pyarrow as pa
    import pyreadr

    _limit(most)
    try:
        found = pyreadr.read_r(str(path))
        # A vector comes as a frame whose column has no name; that of an .rds file has none itself.
        frames = {
            str(name or path.stem): frame
            for name, frame in found.items()
            if all(isinstance(column, str) for column in frame.columns)
        }
        _mark_ordered(list(frames.values()), ordered, pd)
        for number, frame in enumerate(frames.values()):
            table = pa.table(
                [pa.Array.from_pandas(frame[name]) for name in frame.columns],
                names=list(frame.columns),
            )
            with pa.ipc.new_file(str(folder / f"{number}.arrow"), table.schema) as writer:
                writer.write_table(table)
    except MemoryError:
        return TOO_LARGE
    # The library raises many kinds of errors for files that are damaged.
    except Exception as error:
        return TOO_LARGE if "alloc" in str(error) else DAMAGED
    sys.stdout.write(json.dumps(list(frames)))
    return 0


def _limit(most: int) -> None:
    """Let this process have so many bytes more than it has, and leave no copy of them behind."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most += pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _mark_ordered(frames: Sequence[Any], ordered: Sequence[bool], pd: Any) -> None:
    """Say of categories which are ordered factors: the library reads the class and does not tell.

    The classes of factors stand in the file in the order of their columns. If there are not as many
    as categories, nothing is known, and no factor is taken as ordered.
    """
    columns = [
        (frame, name)
        for frame in frames
        for name in frame.columns
        if isinstance(frame[name].dtype, pd.CategoricalDtype)
    ]
    if len(ordered) == len(columns):
        for (frame, name), is_ordered in zip(columns, ordered, strict=True):
            if is_ordered:
                frame[name] = frame[name].cat.as_ordered()


def _ordered(path: Path, most: int) -> list[bool] | None:
    """Whether each factor of a file is ordered; None if it is larger than `most` once unpacked."""
    found, rest, size = [], b"", 0
    with _unpacked(path) as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            if size > most:
                return None
            text, end = rest + chunk, 0
            for match in _CLASS.finditer(text):
                found.append(match["ordered"] is not None)
                end = match.end()
            # What may go on in the next chunk.
            rest = text[max(end, len(text) - _OVERLAP) :]
    return found


def _unpacked(path: Path) -> Any:
    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")
    if head.startswith(b"BZh"):
        return bz2.open(path, "rb")
    if head.startswith(b"\xfd7zXZ"):
        return lzma.open(path, "rb")
    return path.open("rb")


if __name__ == "__main__":
    sys.exit(main())
