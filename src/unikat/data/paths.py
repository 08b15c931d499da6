"""Checks of the paths that users give, with the error where there is no file."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from unikat.errors import DataError, UnikatError, brief, has_surrogates, may_be_address, suggest
from unikat.spec.addresses import no_address


def what_is(path: Path) -> Literal["file", "folder"] | None:
    """Tell what a path leads to, None if to nothing.

    Raises
    ------
    DataError
        If the name is none that a file may have, or a folder on the way may not be entered.
    """
    if has_surrogates(str(path.absolute())):
        raise DataError(
            f"The path {brief(str(path))} is not UTF-8 text; rename the file or the folder."
        )
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        raise DataError(
            f"The path {brief(str(path))} holds a character that no path may hold (NUL)."
        ) from None
    except OSError as error:
        raise DataError(f"{brief(str(path))} cannot be opened ({error.strerror}).") from None
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataError(
            f"{brief(str(path))} is a device or a pipe; write the data to a file and name that."
        )
    return "folder" if stat.S_ISDIR(mode) else "file"


def no_file(path: Path, kind_of: Callable[[Path], str | None]) -> UnikatError:
    """Say that there is no such file, and suggest one of the same kind with a similar name.

    What looks like the address of a database is told as that, and not quoted.

    Parameters
    ----------
    path
        Where nothing is.
    kind_of
        Kind of a file by its name.
    """
    if may_be_address(path):
        return no_address(
            "There is no file of this name, and as the address of a database it cannot be "
            "understood"
        )
    name = brief(str(path))
    kind = kind_of(path)
    try:
        others = [
            other.name
            for other in path.parent.iterdir()
            if kind_of(other) is not None and kind in (None, kind_of(other))
        ]
    except (FileNotFoundError, NotADirectoryError):
        folder = brief(str(path.parent))
        return DataError(
            f"There is no file {name}. The folder {folder} is not there either. Check the path."
        )
    except OSError:
        others = []
    return DataError(f"There is no file {name}.{suggest(path.name, others)} Check the path.")
