"""Checkpoints taken apart and put together, their checksums right, for tests that forge them."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def parts(content: bytes) -> tuple[bytes, list[bytes]]:
    """Header (JSON) and arrays (.npy files) of a checkpoint."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        first, *arrays = (archive.read(name) for name in archive.namelist())
    return np.load(io.BytesIO(first)).tobytes(), arrays


def sealed(rest: bytes) -> bytes:
    """Bytes of a checkpoint with this archive."""
    return b"UNIKATZ\n" + hashlib.sha256(rest).digest() + rest


def joined(header: bytes, arrays: Sequence[bytes] = (), method: int = zipfile.ZIP_STORED) -> bytes:
    """Bytes of a checkpoint with this header and these arrays."""
    first, out = io.BytesIO(), io.BytesIO()
    np.save(first, np.frombuffer(header, np.uint8))
    with zipfile.ZipFile(out, "w", method) as archive:
        for number, member in enumerate((first.getvalue(), *arrays)):
            archive.writestr(f"arr_{number}.npy", member)
    return sealed(out.getvalue())


def forge(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the header of a checkpoint."""
    header, arrays = parts(path.read_bytes())
    values = json.loads(header)
    change(values)
    path.write_bytes(joined(json.dumps(values).encode(), arrays))
