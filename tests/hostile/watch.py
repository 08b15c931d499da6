"""Watches folders while commands run, and tells which files others of the machine can read.

Run as a program: looks again and again at the folders it is given, until its input is closed, and
writes what it has found as JSON.
"""

from __future__ import annotations

import json
import os
import select
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

OTHERS = 0o077


@dataclass
class Seen:
    """What a watcher has found when it has ended."""

    files: set[str] = field(default_factory=set)
    """Files that were there at any time."""
    open_: dict[str, str] = field(default_factory=dict)
    """Those with a mode that lets others in, whatever folders they lie in, with that mode."""
    exposed: set[str] = field(default_factory=set)
    """Those of them that no folder above keeps others from."""


@contextmanager
def watched(*folders: Path) -> Iterator[Seen]:
    """Watch folders and what is made in them, from another process; what is there counts not."""
    seen = Seen()
    with subprocess.Popen(
        [sys.executable, "-S", __file__, *map(str, folders)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        # It has listed what is there.
        process.stdout.readline()
        try:
            yield seen
        finally:
            process.stdin.close()
            found = json.loads(process.stdout.read())
    for path, mode, exposed in found:
        seen.files.add(path)
        if mode & OTHERS:
            seen.open_[path] = oct(mode)
        if exposed:
            seen.exposed.add(path)


def look(folder: str, closed: bool = False) -> Iterator[tuple[str, int, bool]]:
    """Yield the files below a folder, with their modes and whether others get to them."""
    try:
        with os.scandir(folder) as entries:
            for one in entries:
                try:
                    mode = stat.S_IMODE(one.stat(follow_symlinks=False).st_mode)
                    if one.is_dir(follow_symlinks=False):
                        yield from look(one.path, closed or not mode & OTHERS)
                    elif one.is_file(follow_symlinks=False):
                        yield one.path, mode, bool(mode & OTHERS) and not closed
                except OSError:
                    continue
    except OSError:
        return


def main(folders: list[str]) -> None:
    """Look until the input is closed."""
    before = {path for folder in folders for path, _, _ in look(folder)}
    print(flush=True)
    found: set[tuple[str, int, bool]] = set()
    while True:
        ended = bool(select.select([sys.stdin], [], [], 0.002)[0])
        found.update(one for folder in folders for one in look(folder) if one[0] not in before)
        if ended:
            break
    json.dump(sorted(found), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
