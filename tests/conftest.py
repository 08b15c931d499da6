"""Fixtures that every test may use."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

# A shell lets what it starts in the background ignore these; the tests of them would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Tables wrap to the width of the terminal, and what runs the tests may have any.
os.environ["COLUMNS"] = "200"

# Before NumPy is imported: tests run side by side, and threads of BLAS that wait for a busy core
# spin. One test took 38 processor seconds for the work of 2.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

WATCH = """
import sys

def _watch(event, args, log={log!r}):
    if event in ("socket.connect", "socket.bind", "socket.sendto"):
        reached = args[1]
        if isinstance(reached, (str, bytes)):
            return  # a local socket between processes has a path, not an address
    elif event == "socket.getaddrinfo":
        reached = args[0]
    else:
        return
    with open(log, "a") as file:
        file.write(f"{{event}} {{reached}}\\n")
    raise RuntimeError("a test forbids the network")

sys.addaudithook(_watch)
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pictures", metavar="FOLDER", help="write pictures of the pages of the workbench there"
    )


@contextmanager
def forbidden_network() -> Iterator[None]:
    """Refuse every network socket in this process, and fail at the end if one was asked for.

    Sockets between processes of this machine (no address) stay open.
    """
    asked: list[str] = []
    real = socket.socket

    def forbid(what: str) -> None:
        asked.append(what)
        raise RuntimeError(f"a test forbids the network: {what}")

    class LocalSocket(real):  # type: ignore[misc, valid-type]
        def __init__(
            self, family: int = -1, type: int = -1, proto: int = -1, fileno: int | None = None
        ) -> None:
            if fileno is None and family != getattr(socket, "AF_UNIX", None):
                forbid("socket")
            super().__init__(family, type, proto, fileno)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", LocalSocket)
        patch.setattr(socket, "create_connection", lambda *_, **__: forbid("create_connection"))
        patch.setattr(socket, "getaddrinfo", lambda *_, **__: forbid("getaddrinfo"))
        yield
    assert asked == []


@pytest.fixture
def no_network() -> Iterator[None]:
    """Refuse the network in this process, and fail if it was asked for."""
    with forbidden_network():
        yield


@pytest.fixture
def watched_network(tmp_path: Path) -> tuple[dict[str, str], Callable[[], list[str]]]:
    """Watch the network use of child processes, their workers included.

    Returns the environment to start them with, in which any use of a network address fails, and
    a function that lists the uses.
    """
    folder = tmp_path / "watched-network"
    folder.mkdir()
    log = folder / "log"
    (folder / "sitecustomize.py").write_text(WATCH.format(log=str(log)))
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {
        **os.environ,
        "PYTHONPATH": path,
    }, lambda: log.read_text().splitlines() if log.exists() else []
