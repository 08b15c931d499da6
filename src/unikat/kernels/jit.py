"""The one place for compile flags and for the compile cache.

Compiled kernels are kept in files of our own, one for each kernel and signature. Numba's cache
does not notice a change in an imported helper (numba #1833), fails where a file of it is damaged
or the disk is full, and can mix up two signatures that two processes compile at a time. Here the
folder carries a hash of all kernel sources, every file a checksum and the signature it is for, and
what cannot be read or written is compiled and not kept.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import marshal
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import numba
from numba import njit
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps


def source_hash() -> str:
    """Hash of the kernel sources and of the versions of Python and Numba, 16 hexadecimal digits."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.implementation.cache_tag}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> str:
    """Folder of compiled kernels: UNIKAT_CACHE_DIR, else the user's cache folder, else temporary.

    What lies in it is executed. So nobody else may be able to put anything there: the folder is
    ours, for us alone, and no folder above it can be changed by others. Empty where there is no
    such place; kernels are then compiled in every process.
    """
    home = os.path.expanduser("~")
    user = os.getuid() if hasattr(os, "getuid") else 0
    candidates = [
        os.environ.get("UNIKAT_CACHE_DIR"),
        os.environ.get("XDG_CACHE_HOME") and os.path.join(os.environ["XDG_CACHE_HOME"], "unikat"),
        os.path.join(home, ".cache", "unikat") if os.path.isdir(home) else None,
    ]
    # There may be no place for temporary files at all.
    with contextlib.suppress(OSError):
        candidates.append(os.path.join(tempfile.gettempdir(), f"unikat-{user}"))
    for candidate in filter(None, candidates):
        try:
            folder = os.path.join(os.path.abspath(candidate), f"kernels-{source_hash()}")
            _make_private(folder)
            if is_private(folder) and os.access(folder, os.W_OK):
                return folder
        except OSError:
            continue
    return ""


def _make_private(folder: str) -> None:
    """Make a folder and those above it that do not exist, for their owner alone."""
    if not os.path.isdir(folder):
        _make_private(os.path.dirname(folder))
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def is_private(folder: str) -> bool:
    """Whether a folder is ours alone, and none above it is such that others could replace it.

    A folder in which everyone may write but only owners may rename, as /tmp, is safe above ours.
    """
    if not hasattr(os, "getuid"):
        return True
    user = os.getuid()
    if os.path.islink(folder):
        return False
    own = os.stat(folder)
    if own.st_uid != user or own.st_mode & 0o077:
        return False
    for way in (Path(folder), Path(os.path.realpath(folder))):
        for part in way.parents:
            found = os.lstat(part)
            writable = found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX
            if found.st_uid not in (0, user) or (writable and not stat.S_ISLNK(found.st_mode)):
                return False
    return True


class KernelCache:
    """Compiled versions of one kernel on disk; takes the place of Numba's own cache.

    Parameters
    ----------
    function
        The kernel.
    folder
        Where its files lie.
    """

    def __init__(self, function: Callable[..., Any], folder: str) -> None:
        self.cache_path = folder
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self._code = function.__code__
        self._fixed = function.__closure__ is None

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled version for a signature; None if there is none that is whole."""
        context.refresh()
        key = self._key(signature, context.codegen())
        try:
            content = self._path(key).read_bytes()
            if hashlib.sha256(content[32:]).digest() != content[:32]:
                return None
            kept, parts = pickle.loads(content[32:])
            return CompileResult._rebuild(context, *parts) if kept == key else None
        except Exception:
            # Whatever is the matter with the file: the kernel can be compiled.
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled version, if that is possible."""
        if not self._fixed or compiled.lifted or compiled.library.has_dynamic_globals:
            return
        key = self._key(signature, compiled.codegen)
        body = dumps((key, compiled._reduce()))
        path = self._path(key)
        scratch = None
        try:
            handle, scratch = tempfile.mkstemp(prefix=f".{path.name}-", dir=self.cache_path)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            os.replace(scratch, path)
        except OSError:
            if scratch is not None:
                with contextlib.suppress(OSError):
                    os.unlink(scratch)

    def _key(self, signature: Any, codegen: Any) -> Any:
        return (signature, codegen.magic_tuple(), _digest(self._code))

    def _path(self, key: Any) -> Path:
        mark = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        return Path(self.cache_path) / f"{self._name}-{mark}.kernel"


@functools.cache
def _digest(code: CodeType) -> str:
    """Hash of the file in which a kernel stands: kernels of others are not in the folder's hash."""
    try:
        source = Path(code.co_filename).read_bytes()
    except OSError:
        source = marshal.dumps(code)
    return hashlib.sha256(source).hexdigest()


_CACHE_FOLDER = cache_folder()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile an entry point: cached on disk, without the interpreter lock.

    `fastmath` stays off: sums must not depend on how a loop was vectorised.
    """
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    # With compilation switched off, as for coverage, it is the function itself.
    if _CACHE_FOLDER and hasattr(dispatcher, "_cache"):
        dispatcher._cache = KernelCache(function, _CACHE_FOLDER)
    return dispatcher


def device(function: Callable[..., Any]) -> Any:
    """Compile a helper that kernels call; it is compiled into them."""
    return njit(error_model="numpy")(function)


def leaf(function: Callable[..., Any]) -> Any:
    """Compile a helper that makes no array: it is inlined, and counts no references to arrays.

    Counting takes some 5 ns for each array that is passed, which is most of the time of a helper
    that does next to nothing.
    """
    options: dict[str, Any] = {"_nrt": False, "forceinline": True}
    return njit(error_model="numpy", **options)(function)
