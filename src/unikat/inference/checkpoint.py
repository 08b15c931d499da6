"""Checkpoints: a run that was cut off goes on where it was, to the same numbers.

One file per run, replaced as a whole after a round::

    magic (8 bytes) | SHA-256 of the rest (32) | an .npz archive

The archive holds a header (JSON, as bytes) and the arrays in the order in which the header names
them. Nothing in it is ever unpickled. NamedTuples are stored field by field and rebuilt from
classes that this program has loaded itself; a file can only choose among them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unikat._typing import AnyArray
from unikat.errors import OutputError, shown, why
from unikat.files.json import parse_json
from unikat.files.writing import replacing

FILE_NAME = "sampling.checkpoint"
SCHEMA = 3
_MAGIC = b"UNIKATZ\n"
_MAGIC_1 = b"UNIKATC\n"
"""Of format 1, which had no archive."""
_BEGIN = len(_MAGIC) + 32
"""Where the archive begins."""
_FRESH = "To start from the beginning, delete it or run without --resume."


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run keeps its checkpoint, and whether it goes on from the one that is there.

    The file is readable by its owner alone: it holds the state of the chains, which says something
    about every record.

    Examples
    --------
    >>> import unikat
    >>> kept = unikat.Checkpoint(folder="run", resume=True)
    >>> kept.path.parent.name, kept.every
    ('run', 5.0)
    """

    folder: str | os.PathLike[str]
    resume: bool = False
    """Go on from the checkpoint in the folder; where there is none, start from the beginning."""
    every: float = 5.0
    """Seconds between two writings, at least; the end of the run is always written."""

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.folder) / FILE_NAME

    def remove(self) -> None:
        """Delete the checkpoint, once the results of the run are safe."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"The checkpoint {self.path} cannot be deleted: {error.strerror}."
            ) from error


def save(path: Path, run: Mapping[str, str], content: Mapping[str, Any]) -> None:
    """Write a checkpoint; the old one stays whole until the new one is on disk.

    Parameters
    ----------
    path
        The file.
    run
        What identifies the run; compared when the checkpoint is read.
    content
        Numbers, strings, arrays, and lists, string-keyed dicts and NamedTuples of these.
    """
    arrays: list[AnyArray] = []
    encoded = {"schema": SCHEMA, "run": dict(run), "content": _encode(dict(content), arrays)}
    header = np.frombuffer(json.dumps(encoded).encode(), np.uint8)
    try:
        _make_private(path.parent)
        with replacing(path) as file:
            file.write(_MAGIC + bytes(32))
            np.savez(file, header, *arrays, allow_pickle=False)
            file.seek(_BEGIN)
            checksum = hashlib.file_digest(file, "sha256").digest()
            file.seek(len(_MAGIC))
            file.write(checksum)
    except OSError as error:
        raise _unwritable(path, error) from error


def _make_private(folder: Path) -> None:
    """Make a folder and those above it that do not exist, for their owner alone."""
    if not folder.is_dir():
        _make_private(folder.parent)
        # `parents` would leave those above to the umask.
        folder.mkdir(mode=0o700, exist_ok=True)


def load(path: Path, run: Mapping[str, str]) -> dict[str, Any] | None:
    """Read the content of a checkpoint; None if there is no file."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(
            f"The checkpoint {path} cannot be read: {error.strerror}. {_FRESH}"
        ) from error
    with file:
        magic = file.read(len(_MAGIC))
        if magic == _MAGIC_1:
            raise _other_format(path, 1)
        if magic != _MAGIC:
            raise OutputError(f"{path} is not a checkpoint, or its beginning is lost. {_FRESH}")
        expected = file.read(32)
        if hashlib.file_digest(file, "sha256").digest() != expected:
            raise OutputError(
                f"The checkpoint {path} is damaged or was cut off: its checksum is wrong. {_FRESH}"
            )
        file.seek(_BEGIN)
        try:
            arrays = _arrays(file)
            header = parse_json(next(arrays).tobytes(), constants=True)
            if header["schema"] != SCHEMA:
                raise _other_format(path, header["schema"])
            _compare(path, header["run"], run)
            content = _decode(header["content"], arrays)
            if not isinstance(content, dict):
                raise TypeError
        except OutputError:
            raise
        except Exception as error:
            # A file may hold anything.
            raise not_understood(path, error) from error
    return content


def not_understood(path: Path, error: Exception | None = None) -> OutputError:
    """Return the error for a checkpoint whose checksum is right and whose content is not.

    Parameters
    ----------
    path
        The checkpoint.
    error
        What was noticed; only the message of a plain ValueError is repeated.
    """
    why = f": {error}" if type(error) is ValueError and len(str(error)) < 100 else ""
    return OutputError(
        f"The checkpoint {path} cannot be understood{why}. It is damaged, or of another version of "
        f"unikat. {_FRESH}"
    )


def _other_format(path: Path, schema: object) -> OutputError:
    return OutputError(
        f"The checkpoint {path} has format {shown(schema)}; this version of unikat reads format "
        f"{SCHEMA}. Resume with the version that wrote it. {_FRESH}"
    )


def _compare(path: Path, there: Mapping[str, str], here: Mapping[str, str]) -> None:
    differing = [name for name in here if there.get(name) != here[name]]
    if differing:
        which = "; ".join(
            f"{name}: {_short(str(there.get(name, 'none')))} there, {_short(here[name])} here"
            for name in differing
        )
        table = (
            " The table is other where the data, the keys, the population size or the impossible "
            "combinations are."
            if "table" in differing
            else ""
        )
        raise OutputError(
            f"The checkpoint {path} belongs to another run ({which}).{table} Run with what it was "
            f"written for, or choose another folder. {_FRESH}"
        )


def _short(text: str, length: int = 80) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _unwritable(path: Path, error: OSError) -> OutputError:
    if path.exists():
        kept = "The earlier checkpoint is still whole: make room, and run again with --resume."
    else:
        kept = "There is no earlier one: make room or choose another folder, and run again."
    return OutputError(f"The checkpoint {path} cannot be written: {why(error)}. {kept}")


def _encode(value: Any, arrays: list[AnyArray]) -> Any:
    """Turn a value into JSON, its arrays put on a list in the order in which they are met."""
    if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "scalar": None}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        kind = type(value)
        fields = {name: _encode(getattr(value, name), arrays) for name in kind._fields}
        return {"named": [kind.__module__, kind.__qualname__], "fields": fields}
    if isinstance(value, (list, tuple)):
        kind_name = "list" if isinstance(value, list) else "tuple"
        return {kind_name: [_encode(item, arrays) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(item, arrays) for key, item in value.items()}}
    raise TypeError(
        f"a checkpoint cannot hold a {type(value).__name__}; states and totals are NamedTuples of "
        "arrays and scalars"
    )


def _decode(code: Any, arrays: Iterator[AnyArray]) -> Any:
    if not isinstance(code, dict):
        return code
    if "array" in code:
        return next(arrays)
    if "scalar" in code:
        return next(arrays)[()]
    if "list" in code:
        return [_decode(item, arrays) for item in code["list"]]
    if "tuple" in code:
        return tuple(_decode(item, arrays) for item in code["tuple"])
    if "dict" in code:
        return {key: _decode(item, arrays) for key, item in code["dict"].items()}
    kind = _named_tuple(*code["named"])
    fields = {name: _decode(item, arrays) for name, item in code["fields"].items()}
    if tuple(fields) != kind._fields:
        raise ValueError(f"{kind.__name__} has other fields than when it was written")
    return kind._make(fields.values())


def _arrays(file: BinaryIO) -> Iterator[AnyArray]:
    """Read the arrays of an archive, all numbers, in the order in which they were written."""
    size = os.fstat(file.fileno()).st_size
    try:
        with np.load(file, allow_pickle=False) as archive:
            # Else it is compressed: a small file may fill the memory.
            if sum(one.file_size for one in archive.zip.infolist()) > size:
                raise ValueError
            for number in range(len(archive.files)):
                array = archive[f"arr_{number}"]
                if array.dtype.kind not in "biuf" or max(array.shape, default=0) > 2**40:
                    raise ValueError
                yield array
    except Exception:
        # NumPy evaluates a header as an expression, which fails in many ways, as an archive does.
        raise ValueError("an array is damaged") from None


def _named_tuple(module: str, name: str) -> Any:
    """Find a NamedTuple class: one of ours, or of a module that is already loaded."""
    home: Any = sys.modules.get(module)
    if home is None and module.startswith("unikat."):
        home = import_module(module)
    for part in name.split("."):
        home = getattr(home, part)
    if not (isinstance(home, type) and issubclass(home, tuple) and hasattr(home, "_fields")):
        raise ValueError(f"{module}.{name} is not a NamedTuple")
    return home
