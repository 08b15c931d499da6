"""What all pages of one workbench share: its folder, its runs, and what its forms hold."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from unikat.errors import UnikatError
from unikat.web.drafts import Draft
from unikat.web.folder import Folder, NotInFolderError
from unikat.web.pages.template import Pages
from unikat.web.runs import Runs

if TYPE_CHECKING:
    from unikat.data.profile import Profile

MOST_PROFILES = 16
"""Profiles of files that are kept."""


@dataclass(frozen=True, kw_only=True)
class Nav:
    """Where a page stands, for the head of all pages."""

    here: str
    """The step that is current: `file`, `keys`, `run` or `runs`."""
    path: str = ""
    """The file that the steps are about; empty if none was chosen."""


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """One workbench."""

    folder: Folder
    runs: Runs
    pages: Pages
    _drafts: dict[str, Draft] = field(default_factory=dict)
    _profiles: dict[object, Profile] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, folder: Folder, base: str) -> Workbench:
        """Open the workbench of a folder, whose addresses begin with `base`."""
        return cls(folder=folder, runs=Runs(folder), pages=Pages(base))

    def draft(self, path: str) -> Draft:
        """Return what was said about a file so far.

        Raises
        ------
        NotInFolderError
            If there is no such file.
        """
        if not path or not self.folder.resolve(path).is_file():
            raise NotInFolderError("No file of data is chosen; choose one first.")
        with self._lock:
            return self._drafts.get(path) or Draft(path=path)

    def keep(self, draft: Draft) -> None:
        """Keep what a form holds."""
        with self._lock:
            self._drafts[draft.path] = draft

    def profile(self, draft: Draft) -> Profile:
        """Return what the columns of a file are like; looked at again if the file has changed.

        Raises
        ------
        UnikatError
            If the file cannot be read as its draft says.
        """
        from unikat.data.profile import profile

        file = self.folder.resolve(draft.path)
        seen = file.stat()
        asked = (file, seen.st_mtime_ns, seen.st_size, tuple(draft.reading.items()))
        with self._lock:
            found = self._profiles.get(asked)
        if found is None:
            found = profile(file, **draft.reading)
            with self._lock:
                if len(self._profiles) >= MOST_PROFILES:
                    self._profiles.clear()
                self._profiles[asked] = found
        return found

    def page(self, name: str, context: Any, status: int = 200) -> Response:
        """Answer with a page."""
        return HTMLResponse(self.pages.fill(name, context), status_code=status)

    def see(self, path: str, /, **query: str) -> Response:
        """Answer with the address of another page."""
        return RedirectResponse(self.pages.at(path, **query), status_code=303)


def workbench_of(request: Request) -> Workbench:
    """Return the workbench that a request is for."""
    return cast(Workbench, request.app.state.workbench)


def is_part(request: Request) -> bool:
    """Whether a script of ours asks for a part of a page."""
    return request.headers.get("hx-request") == "true"


def texts(form: FormData) -> dict[str, str]:
    """Return the fields of a form that hold text; of several of one name the last."""
    return {name: value for name, value in form.items() if isinstance(value, str)}


STATUS: dict[str, int] = {"NotInFolderError": 404, "OutputError": 409}


def status_of(error: UnikatError) -> int:
    """Return the status of an answer that tells an error."""
    return STATUS.get(type(error).__name__, 422)


def error_json(status: int, kind: str, message: str) -> Response:
    """Answer a program: the one shape of every error.

    ``{"error": {"status": 404, "kind": "NotInFolderError", "message": "..."}}``
    """
    return JSONResponse(
        {"error": {"status": status, "kind": kind, "message": message}}, status_code=status
    )
