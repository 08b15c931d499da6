"""A folder with a small survey, and a workbench of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, SURVEY, Client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a small survey."""
    made = tmp_path / "data"
    made.mkdir()
    (made / "survey.csv").write_text(SURVEY)
    return made


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    """A workbench of that folder."""
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    yield Client(app, access, bench)
    bench.foreseer.close()
    bench.runs.close()
