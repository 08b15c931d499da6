"""Cases of the workbench: every address, with hostile paths, queries and forms, and no server."""

from __future__ import annotations

import shutil
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, urlencode

from hostile.case import KEYS, Case
from hostile.mutations import option, spoiled

SHOWN = (
    "/", "/files", "/find", "/file", "/keys", "/run", "/runs", "/beside", "/asked/{}", "/runs/{}",
    "/report/{}", "/records/{}", "/download/{}", "/what-if/{}", "/what-if-numbers/{}",
    "/what-if-waiting/{}", "/what-if-frontier/{}", "/what-if-levels/{}", "/what-if-groups/{}",
    "/static/{}", "/events/{}", "/nowhere",
)  # fmt: skip
POSTED = (
    "/file", "/keys", "/keys/keep", "/keys/groups", "/keys/missing", "/keys/population",
    "/keys/check", "/keys/suggest", "/cancel/{}", "/what-if-apply/{}", "/connect/{}",
)  # fmt: skip
"""Those that start a run are left to the tests of the workbench: it would outlive the case. So are
those that rename, archive or decide: they change what is there."""
_IDS = ("assess", "compare", "evaluate", "protect", "synthesize", "assess/report.html", "nothing")
_FIELDS = {
    "file": ("people.csv", "work/people.csv"), "path": ("people.csv", "../people.csv"),
    "query": ("SELECT AGE FROM people", "COPY x TO 'y'"), "digest": ("0" * 64,),
    "then": ("/runs", "//evil.example/"),
    "name": ("people.csv",), "size": ("100", "3000"), "keys": ("AGE", KEYS),
    "key": ("AGE", "AREA"), "rule": ("width(5)",), "population_size": ("3000",),
    "missing_values": ("-1,99",), "zeros": ("AGE < 22 and WORK == 'mine'",), "rules": ("AGE < 3",),
    "delimiter": (";",), "encoding": ("utf-8", "utf-16"), "format": ("csv",), "rows": ("1", "yes"),
    "sort": ("r1",), "page": ("2",), "by": ("AGE",), "values": ("1",), "show": ("1",),
    "left": ("assess",), "right": ("compare",), "a": ("assess",), "b": ("evaluate",),
    "AGE": ("width(10)",), "weights": ("W",), "strata": ("SEX",), "household": ("HOME",),
    "target": ("tau1 <= 5",), "codebook": ("people.csv", "/etc/passwd"), "order": ("desc",),
    "registry": ("people.csv",), "margins": ("people.csv",), "from": ("0.1",), "key.AGE": ("on",),
}  # fmt: skip


def workbench(rng: Random, folder: Path, bases: Path) -> Case:
    """Ask several addresses of one workbench."""
    asked = [_request(rng) for _ in range(rng.choice((3, 5, 8)))]
    if rng.random() < 0.5:
        for name in ("assess", "protect"):
            shutil.copytree(bases / name, folder / name)

    def call() -> int:
        return _asked(folder, asked)

    words = [f"{method} {path[:200]}" for method, path, _ in asked]
    return Case("workbench", words, [".unikat", ".unikat-drafts", ".unikat-web"], call=call)


def _request(rng: Random) -> tuple[str, str, dict[str, str]]:
    method, path = rng.choice(
        [("GET", one) for one in SHOWN for _ in "ab"]
        + [("POST", one) for one in POSTED for _ in "abc"]
    )
    if "{}" in path:
        named = rng.choice(_IDS) if rng.random() < 0.6 else option(rng)[:6000]
        path = path.format(quote(named.encode("utf-8", "surrogateescape"), safe="/:"))
    fields = {name: _value(rng, name) for name in rng.sample(sorted(_FIELDS), rng.randint(0, 6))}
    if rng.random() < 0.7:
        fields |= {"file": "people.csv", "path": "people.csv"}
    if method == "GET" and fields:
        sent = {name: value.encode("utf-8", "surrogateescape") for name, value in fields.items()}
        path = f"{path}?{urlencode(sent)}"
        fields = {}
    return method, path, fields


def _value(rng: Random, name: str) -> str:
    if rng.random() < 0.5:
        return rng.choice(_FIELDS[name])
    if rng.random() < 0.4:
        return spoiled(rng, rng.choice(_FIELDS[name]).encode(), 1).decode("utf-8", "replace")
    return option(rng).encode("utf-8", "replace").decode()


def _asked(folder: Path, requests: list[tuple[str, str, Mapping[str, str]]]) -> int:
    """Ask; tell on standard error what a page must not answer."""
    from unikat.web.app import make_app
    from unikat.web.folder import Folder
    from unikat.web.security import Access
    from web_client import PORT, Client

    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    raised: list[str] = []

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            raised.append(f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}")
            raise

    client = Client(watched, access, bench)
    try:
        for method, path, fields in requests:
            # The client refuses longer addresses.
            path = path[:65_000]
            answer = client.ask(path, method, **({"data": fields} if method == "POST" else {}))
            if answer.status_code >= 500:
                why = raised[-1] if raised else answer.status_code
                print(f"defect of unikat: {why}, {method}", file=sys.stderr)
            elif answer.status_code >= 400:
                # No message quotes a value; it is judged as that of a command.
                print(answer.text, file=sys.stdout)
    finally:
        bench.runs.close()
    return 0
