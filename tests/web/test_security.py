"""Who may talk to the workbench, and what its answers allow a browser to do."""

from __future__ import annotations

import asyncio
from html.parser import HTMLParser
from pathlib import Path

import pytest

from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import COOKIE, HEADERS, MOST_BYTES, POLICY, Access
from web_client import HOST, ORIGIN, PORT, Client

PAGES = ["/", "/files", "/file?path=survey.csv", "/keys?path=survey.csv", "/run?path=survey.csv",
         "/columns?path=survey.csv", "/policy?path=survey.csv", "/glossary",
         "/certificate?path=survey.csv&certificate=x",
         "/states?path=survey.csv",
         "/levels?path=survey.csv&edit=region",
         "/run?path=survey.csv&kind=protect", "/run?path=survey.csv&kind=evaluate", "/runs",
         "/beside?one=x&other=y", "/asked/x", "/records/x", "/neighbours/x?row=1",
         "/find?name=survey.csv", "/events/x",
         "/report/x", "/download/x", "/static/htmx.min.js", "/static/workbench.css",
         "/no-such-page"]  # fmt: skip


def test_the_token_is_exchanged_once_for_a_cookie(client: Client) -> None:
    token = client.access.token
    first = client.ask(f"/?token={token}", cookie=False)
    assert first.status_code == 303
    assert first.headers["location"] == f"{client.access.base}/"
    said = first.headers["set-cookie"]
    assert said.startswith(f"{COOKIE}={client.access.session};")
    assert {"HttpOnly", f"Path={client.access.base}/", "SameSite=strict"} <= set(said.split("; "))
    assert client.ask("/files").status_code == 200
    assert client.ask(f"/?token={token}", cookie=False).status_code == 403
    # Where the cookie is, as in a browser that was closed and opened again, the address opens.
    assert client.ask(f"/?token={token}").status_code == 303


@pytest.mark.parametrize("path", PAGES)
def test_without_a_cookie_nothing_is_told(client: Client, path: str) -> None:
    refused = client.ask(path, cookie=False)
    assert refused.status_code == 403
    assert "survey" not in refused.text
    assert client.access.base not in refused.text


@pytest.mark.parametrize(
    "cookie", [f"{COOKIE}=guess", f"{COOKIE}=ü", "other=1", f"{COOKIE}", ";;=;"]
)
def test_another_cookie_is_none(client: Client, cookie: str) -> None:
    sent = {"Cookie": cookie.encode()}
    assert client.ask("/files", cookie=False, headers=sent).status_code == 403


def test_a_token_that_is_guessed_is_none(client: Client) -> None:
    assert client.ask("/?token=guess", cookie=False).status_code == 403
    assert client.ask("/?token=%C3%BC", cookie=False).status_code == 403


def test_the_secret_of_the_path_is_needed(client: Client) -> None:
    for base in ("", "/guess", client.access.base[:-1]):
        assert client.ask("/files", base=base).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", "", "0.0.0.0:8765"]
)
def test_a_name_that_is_not_ours_is_refused(client: Client, host: str) -> None:
    assert client.ask("/files", headers={"Host": host}).status_code == 400


def test_localhost_is_ours(client: Client) -> None:
    assert client.ask("/files", headers={"Host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": f"https://{HOST}"},
        {"Origin": "null"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
        {"Origin": f"http://localhost:{PORT}"},
    ],
)
def test_what_changes_something_comes_from_our_pages(
    client: Client, headers: dict[str, str]
) -> None:
    refused = client.post("/keys", {"path": "survey.csv"}, headers=headers)
    assert refused.status_code == 403


def sent_to(client: Client) -> list[str]:
    """Every address that takes a form, those too that are added later."""
    routes = client.app._app.routes
    found = [one.path for one in routes if "POST" in (one.methods or ())]
    return sorted({path.replace("{id:path}", "x") for path in found})


def test_every_form_needs_the_cookie_and_our_pages(client: Client, folder: Path) -> None:
    before = sorted(map(str, folder.rglob("*")))
    form = {"path": "survey.csv", "name": "y", "key:age": "on"}
    assert len(sent_to(client)) > 10
    for path in sent_to(client):
        assert client.post(path, form, cookie=False).status_code == 403, path
        for origin in ("http://evil.example", "null", ""):
            assert client.post(path, form, headers={"Origin": origin}).status_code == 403, path
        assert client.ask(path, "DELETE").status_code == 403, path
    assert sorted(map(str, folder.rglob("*"))) == before


def test_a_form_without_an_origin_is_refused(client: Client) -> None:
    # No browser sends one; a script that got hold of the cookie might.
    refused = client.post("/keys", {"path": "survey.csv"}, headers={"Origin": ""})
    assert refused.status_code == 403


@pytest.mark.parametrize("headers", [{}, {"Origin": "null", "Sec-Fetch-Site": "same-origin"}])
def test_our_own_forms_are_taken(client: Client, headers: dict[str, str]) -> None:
    answer = client.post("/keys", {"path": "survey.csv"}, headers=headers)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


def test_other_pages_embed_nothing(client: Client) -> None:
    script = {
        "Sec-Fetch-Site": "same-site",
        "Sec-Fetch-Mode": "no-cors",
        "Sec-Fetch-Dest": "script",
    }
    assert client.ask("/static/htmx.min.js", headers=script).status_code == 403
    frame = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "iframe",
    }
    assert client.ask("/files", headers=frame).status_code == 403


@pytest.mark.parametrize("cookie", [True, False])
@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_headers(client: Client, path: str, cookie: bool) -> None:
    headers = client.ask(path, cookie=cookie).headers
    assert headers["content-security-policy"] == POLICY
    assert {name: headers[name] for name in HEADERS} == HEADERS


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    for name in ("script-src", "style-src", "connect-src", "form-action", "frame-src"):
        assert rules[name] == "'self'"


class Inline(HTMLParser):
    """Collects what the policy would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in names):
            self.found.append(tag)
        self.found += [
            name for name in names if name == "style" or name.startswith(("on", "hx-on"))
        ]
        for name in ("src", "href", "action", "formaction"):
            value = names.get(name) or ""
            if "://" in value or value.startswith("//"):
                self.found.append(value)


@pytest.mark.parametrize("path", [page for page in PAGES if "static" not in page])
def test_pages_have_nothing_inline_and_nothing_from_elsewhere(client: Client, path: str) -> None:
    parser = Inline()
    parser.feed(client.ask(path).text)
    assert parser.found == []


def test_a_form_that_is_too_large_is_refused(client: Client) -> None:
    rules = "x" * (MOST_BYTES + 1)
    assert client.post("/keys", {"path": "survey.csv", "rules": rules}).status_code == 413


def test_a_form_whose_length_is_not_told_is_refused(client: Client) -> None:
    sent = client.ask("/keys", "POST", headers={"Transfer-Encoding": "chunked"})
    assert sent.status_code == 411


def test_a_password_in_a_file_of_a_run_is_not_shown(client: Client, folder: Path) -> None:
    (folder / "x").mkdir()
    for address in ("me:Geh31mrat@h/d", "h/d?password=Geh31mrat", "h/d?sslpassword=Geh31mrat"):
        text = f'keys = ["age"]\n[data]\ndatabase = "postgresql://{address}"\n'
        (folder / "x" / "workbench.toml").write_text(text)
        shown = client.ask("/asked/x").text
        assert "[data]" in shown
        assert "Geh31mrat" not in shown


def test_files_are_not_taken(client: Client) -> None:
    sent = client.ask("/keys", "POST", files={"path": ("a.csv", b"a,b\n1,2\n")})
    assert sent.status_code == 400


def test_a_websocket_without_a_cookie_is_closed(folder: Path) -> None:
    access = Access(port=PORT)
    app, _ = make_app(Folder.of(folder), access)
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, str]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": f"{access.base}/events/x",
        "query_string": b"",
        "headers": [(b"host", HOST.encode()), (b"origin", ORIGIN.encode())],
    }
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["websocket.close"]
