"""A workbench to ask without a server: httpx talks to the application itself."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
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
