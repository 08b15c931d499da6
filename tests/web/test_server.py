"""The server: on this machine alone, soon there, and gone at Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from unikat.errors import OutputError
from unikat.web.folder import NotInFolderError
from unikat.web.server import serve
from web_client import COMMAND

SOON = 20.0
"""Seconds; a quiet machine needs less than 1.5."""


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A workbench in a process of its own, and its address."""
    process = subprocess.Popen(
        [*COMMAND, "web", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().strip() for _ in range(2)]
        yield process, lines[-1]
    finally:
        process.kill()
        process.communicate()


def test_it_answers_the_address_and_ends_at_ctrl_c(
    server: tuple[subprocess.Popen[str], str],
) -> None:
    process, address = server
    assert urlsplit(address).hostname == "127.0.0.1"
    begun = time.monotonic()
    with httpx.Client() as browser:
        page = browser.get(address, follow_redirects=True)
        assert page.status_code == 200
        assert "survey.csv" in page.text
        assert "token" not in str(page.url)
        assert httpx.get(address).status_code == 403
    assert time.monotonic() - begun < SOON
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SOON)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs /proc/net/tcp")
def test_it_listens_on_this_machine_alone(server: tuple[subprocess.Popen[str], str]) -> None:
    port = urlsplit(server[1]).port
    listening = [
        line.split()[1]
        for file in ("tcp", "tcp6")
        if (table := Path(f"/proc/{server[0].pid}/net/{file}")).exists()
        for line in table.read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    assert listening == [f"0100007F:{port:04X}"]


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OutputError, match=f"Port {port} cannot be used .*--port"):
            serve(folder, port=port, browser=False, tell=lambda _: None)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotInFolderError, match="not a folder"):
        serve(tmp_path / "none", browser=False, tell=lambda _: None)


def test_the_first_page_loads_nothing_that_computes(folder: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path; sys.path[:0] = sys.argv[1:2]\n"
        "from unikat.web.app import make_app; from unikat.web.folder import Folder\n"
        "from unikat.web.security import Access; from web_client import PORT, Client\n"
        "access = Access(port=PORT); app, bench = make_app(Folder.of(Path(sys.argv[2])), access)\n"
        "assert Client(app, access, bench).ask('/files').status_code == 200\n"
        "print(*({'pandas', 'numba', 'scipy', 'duckdb', 'pyarrow', 'xarray'} & set(sys.modules)))"
    )
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", program, tests, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stdout.strip() == ""
