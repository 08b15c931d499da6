"""Checkpoints: a run that was cut off goes on where it was, to the same numbers.

One file per run, replaced as a whole after a round::

    magic (8 bytes) | SHA-256 of the rest (32) | length of the header (8, big-endian)
    header (JSON) | the arrays, one after the other, in NumPy's .npy format

Nothing in it is ever unpickled. NamedTuples are stored field by field and rebuilt from classes
that this program has loaded itself; a file can only choose among them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import sys
from collections.abc import Mapping
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
SCHEMA = 1
_MAGIC = b"UNIKATC\n"
_FRESH = "To start from the beginning, delete it or run without --resume."


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Where a run keeps its checkpoint, and whether it goes on from the one that is there.

    The file is readable by its owner alone: it holds the state of the chains, which says something
    about every record.
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

    Raises
    ------
    OutputError
        When it cannot be written.
    """
    arrays: list[AnyArray] = []
    header = json.dumps(
        {"schema": SCHEMA, "run": dict(run), "content": _encode(dict(content), arrays)}
    ).encode()
    try:
        _make_private(path.parent)
        with replacing(path) as file:
            _write(file, header, arrays)
    except OSError as error:
        raise _unwritable(path, error) from error


def _make_private(folder: Path) -> None:
    """Make a folder and those above it that do not exist, for their owner alone."""
    if not folder.is_dir():
        _make_private(folder.parent)
        # `parents` would leave those above to the umask.
        folder.mkdir(mode=0o700, exist_ok=True)


def load(path: Path, run: Mapping[str, str]) -> dict[str, Any] | None:
    """Read the content of a checkpoint; None if there is no file.

    Raises
    ------
    OutputError
        When it cannot be read, is damaged, or belongs to another run.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(
            f"The checkpoint {path} cannot be read: {error.strerror}. {_FRESH}"
        ) from error
    with file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise OutputError(f"{path} is not a checkpoint, or its beginning is lost. {_FRESH}")
        expected = file.read(32)
        begin = file.tell()
        digest = hashlib.file_digest(file, "sha256").digest()
        if digest != expected:
            raise OutputError(
                f"The checkpoint {path} is damaged or was cut off: its checksum is wrong. {_FRESH}"
            )
        file.seek(begin)
        try:
            size = int.from_bytes(file.read(8), "big")
            if size > path.stat().st_size:
                raise ValueError("its header is longer than the file")
            header = parse_json(file.read(size), constants=True)
            schema = header["schema"]
            if schema != SCHEMA:
                raise OutputError(
                    f"The checkpoint {path} has format {shown(schema)}; this version of unikat "
                    f"reads format {SCHEMA}. Resume with the version that wrote it. {_FRESH}"
                )
            _compare(path, header["run"], run)
            content = _decode(header["content"], file)
            if not isinstance(content, dict):
                raise TypeError
        except _STRANGE as error:
            raise not_understood(path, error) from error
    return content


_STRANGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a file of any content may raise."""


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


class _Hashing(io.RawIOBase):
    """Write through to a file, hashing."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        self.digest.update(data)
        return self._file.write(data)


def _write(file: BinaryIO, header: bytes, arrays: list[AnyArray]) -> None:
    file.write(_MAGIC + bytes(32))
    hashing = _Hashing(file)
    hashing.write(len(header).to_bytes(8, "big") + header)
    for array in arrays:
        np.lib.format.write_array(hashing, array, allow_pickle=False)
    file.seek(len(_MAGIC))
    file.write(hashing.digest.digest())


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


def _decode(code: Any, file: BinaryIO) -> Any:
    if not isinstance(code, dict):
        return code
    if "array" in code:
        return _read_array(file)
    if "scalar" in code:
        return _read_array(file)[()]
    if "list" in code:
        return [_decode(item, file) for item in code["list"]]
    if "tuple" in code:
        return tuple(_decode(item, file) for item in code["tuple"])
    if "dict" in code:
        return {key: _decode(item, file) for key, item in code["dict"].items()}
    kind = _named_tuple(*code["named"])
    fields = {name: _decode(item, file) for name, item in code["fields"].items()}
    if tuple(fields) != kind._fields:
        raise ValueError(f"{kind.__name__} has other fields than when it was written")
    return kind._make(fields.values())


def _read_array(file: BinaryIO) -> AnyArray:
    """Read an array of numbers; one that is said to be longer than the file is not allocated."""
    begin = file.tell()
    try:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception:
        # NumPy evaluates a header as an expression, which fails in many ways.
        raise ValueError("the header of an array is damaged") from None
    left = os.fstat(file.fileno()).st_size - file.tell()
    if dtype.kind not in "biuf" or any(n < 0 for n in shape):
        raise ValueError("an array has an impossible type or shape")
    if math.prod(shape) * dtype.itemsize > left or max(shape, default=0) > 2**40:
        raise ValueError("an array is longer than the file")
    file.seek(begin)
    array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
    return array


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
