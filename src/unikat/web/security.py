"""Who may talk to the workbench: the browser that opened the address with the token, and no other.

The workbench shows confidential data, and other programs, other users of the machine and every page
that is open in the browser can reach a port of 127.0.0.1. So each request of any kind, a WebSocket
included, passes these checks before anything else sees it.

1. *Host* is 127.0.0.1 or localhost with our port, else a foreign name that leads here could be used
   to read our pages (DNS rebinding): 400.
2. The path begins with the secret of this server. Browsers send cookies to every port of a host,
   but not to another path: a server of somebody else on this machine never sees ours.
3. The token in the address is exchanged once for a cookie that scripts cannot read and that other
   sites cannot use. Without token and cookie: 403.
4. What changes something must come from our own pages (*Origin*, *Sec-Fetch-Site*): 403. So must
   what other pages could embed.
5. Every answer forbids scripts and styles that are not files of ours, frames, copies and referrers.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Nothing is loaded but from here, and nothing inline runs or styles."""
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; "
    "base-uri 'none'; form-action 'none'; sandbox allow-same-origin allow-popups"
)
"""Of a report of a run, which has its style in it and no script; a page of ours frames it."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE = ("GET", "HEAD")
COOKIE = "unikat"
MOST_BYTES = 1_000_000
"""Of a request: forms, never files."""
KEPT = 7 * 86_400
"""Seconds for which a browser keeps the cookie, at most: it ends with the workbench."""


@dataclass(kw_only=True)
class Access:
    """The secrets of one server; another one has others."""

    port: int
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Of the address that is printed; None when it has been used."""
    session: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Value of the cookie."""
    base: str = field(default_factory=lambda: f"/{secrets.token_urlsafe(12)}")
    """Beginning of the path of every address."""

    @property
    def address(self) -> str:
        """What the user opens, once."""
        return f"http://127.0.0.1:{self.port}{self.base}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names under which we are asked."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")


class Guard:
    """Let through what passes the checks of this module; a pure ASGI middleware."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request; the app gets its path without the secret."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refused(scope, headers)
        if isinstance(refused, Response) or refused:
            await _refuse(refused, scope, receive, send)
            return
        base = self._access.base
        inner = {**scope, "path": scope["path"][len(base) :], "root_path": ""}
        await self._app(inner, receive, _sealed(send))

    def _refused(self, scope: Scope, headers: Headers) -> Response | tuple[int, str] | None:
        access = self._access
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in access.hosts:
            return 400, "This address is not one of the workbench."
        path = scope["path"]
        if not path.startswith(f"{access.base}/"):
            return 403, _CLOSED
        if _is_foreign(scope, headers, f"http://{hosts[0]}"):
            return 403, "The workbench answers its own pages only."
        if "transfer-encoding" in headers:
            # No browser sends a form whose length it does not tell.
            return 411, "The length of the form is not told."
        if int(headers.get("content-length", "0") or 0) > MOST_BYTES:
            return 413, "The form is too large."
        known = secrets.compare_digest(_session(headers), access.session)
        given = _token(scope)
        if given is not None and scope["type"] == "http" and scope["method"] in _SAFE:
            if access.token is not None and secrets.compare_digest(given, access.token):
                access.token, known = None, True
            if known:
                return self._opened()
        return None if known else (403, _CLOSED)

    def _opened(self) -> Response:
        """Exchange the token for the cookie, and leave it out of the address."""
        response = RedirectResponse(f"{self._access.base}/", status_code=303)
        response.set_cookie(
            COOKIE,
            self._access.session,
            # A browser that was closed in the middle of a run finds it again.
            max_age=KEPT,
            path=f"{self._access.base}/",
            httponly=True,
            samesite="strict",
        )
        return response


_CLOSED = (
    "The workbench opens with the address that its terminal shows, once. Stop it there with Ctrl-C "
    "and start it again for a new address."
)


def _is_foreign(scope: Scope, headers: Headers, ours: str) -> bool:
    """Whether a request comes from a page that is not ours."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if scope["type"] == "http" and scope["method"] in _SAFE:
        # An address that is typed or followed is harmless: it changes nothing and is not embedded.
        opened = headers.get("sec-fetch-mode") == "navigate"
        opened = opened and headers.get("sec-fetch-dest") == "document"
        return site not in (None, "same-origin", "none") and not opened
    # Without referrers, browsers send the origin of forms as null.
    from_us = origin == ours or (origin in (None, "null") and site == "same-origin")
    return not from_us or site not in (None, "same-origin")


def _session(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    # compare_digest takes ASCII alone.
    return "" if found is None or not found.value.isascii() else found.value


def _token(scope: Scope) -> str | None:
    found = parse_qs(scope["query_string"].decode("latin-1")).get("token")
    return found[0] if found and found[0].isascii() else None


async def _refuse(
    refused: Response | tuple[int, str], scope: Scope, receive: Receive, send: Send
) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    if isinstance(refused, tuple):
        status, words = refused
        refused = Response(f"{words}\n", status_code=status, media_type="text/plain")
    await refused(scope, receive, _sealed(send))


def _sealed(send: Send) -> Send:
    """Add our headers to every answer; one that has a policy of its own keeps it."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Content-Security-Policy", POLICY)
        await send(message)

    return sealed
