"""The one place for compile flags and for the compile cache.

Numba's own cache does not notice a change in an imported helper (numba #1833), so the cache
folder carries a hash of all kernel sources: a changed kernel can never meet a stale binary.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import config, njit


def source_hash() -> str:
    """Hash of the kernel sources and of Numba's version, 16 hexadecimal digits."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> str:
    """Folder of compiled kernels: UNIKAT_CACHE_DIR, else the user's cache folder, else temporary.

    Created for its owner alone, since what lies in it is executed; a folder that somebody else
    owns is not used.
    """
    candidates = [
        os.environ.get("UNIKAT_CACHE_DIR"),
        os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "unikat"),
        os.path.join(
            tempfile.gettempdir(), f"unikat-{os.getuid() if hasattr(os, 'getuid') else 0}"
        ),
    ]
    for candidate in candidates:
        if not candidate:
            continue
        folder = os.path.join(candidate, f"kernels-{source_hash()}")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError:
            continue
        owned = not hasattr(os, "getuid") or os.stat(folder).st_uid == os.getuid()
        if owned and os.access(folder, os.W_OK):
            return folder
    return ""


_CACHE_FOLDER = cache_folder()
# Numba fills its settings at import, out of a type checker's sight.
settings: Any = config


def kernel(function: Callable[..., Any]) -> Any:
    """Compile an entry point: cached on disk, without the interpreter lock.

    `fastmath` stays off: sums must not depend on how a loop was vectorised.
    """
    before = settings.CACHE_DIR
    settings.CACHE_DIR = _CACHE_FOLDER
    try:
        return njit(cache=bool(_CACHE_FOLDER), nogil=True, error_model="numpy")(function)
    finally:
        settings.CACHE_DIR = before


def device(function: Callable[..., Any]) -> Any:
    """Compile a helper that kernels call; it is compiled into them."""
    return njit(error_model="numpy")(function)
