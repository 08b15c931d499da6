"""A workbench to ask without a server: httpx talks to the application itself."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from unikat.web.security import COOKIE, Access
from unikat.web.workbench import Workbench

COMMAND = (sys.executable, "-c", "import sys; from unikat.cli.main import main; sys.exit(main())")
"""The command `unikat` of this source tree."""
PORT = 8765
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
SURVEY = "age,sex,region\n" + "".join(
    f"{20 + i % 7},{'f' if i % 3 else 'm'},{'ABCD'[i * i % 4]}\n" for i in range(60)
)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Start `unikat web` in a folder; yield its address, with the token; stop it by Ctrl-C."""
    process = subprocess.Popen(
        [*COMMAND, "web", str(folder), "--no-browser"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


@dataclass
class Client:
    """Asks one application; with the cookie unless told otherwise."""

    app: Any
    access: Access
    bench: Workbench
    headers: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        cookie: bool = True,
        headers: Mapping[str, str] | None = None,
        base: str | None = None,
        **more: Any,
    ) -> httpx.Response:
        """Ask for a path below the secret one."""
        sent = dict(headers or {})
        if cookie:
            sent["Cookie"] = f"{COOKIE}={self.access.session}"
        if method == "POST":
            sent.setdefault("Origin", ORIGIN)
        base = self.access.base if base is None else base

        async def answer() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                return await client.request(method, base + path, headers=sent, **more)

        return asyncio.run(answer())

    def post(self, path: str, data: Mapping[str, str], **more: Any) -> httpx.Response:
        """Send a form."""
        return self.ask(path, "POST", data=dict(data), **more)
