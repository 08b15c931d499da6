"""The glossary, terms on pages, and the guided first run."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from unikat.report.text.glossary import glossary
from unikat.report.text.language import DEFAULT, catalogue
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.pages.template import environment
from unikat.web.security import Access
from unikat.web.workbench import TOWN
from web_client import PORT, Client


def test_the_glossary_has_every_term_and_pages_lead_to_it(client: Client) -> None:
    page = html.unescape(client.ask("/glossary").text)
    for one in glossary().values():
        assert f'id="{one.anchor}"' in page
        assert one.text in page
    keys = client.ask("/keys?path=survey.csv").text
    assert f'{client.access.base}/glossary#term-key-variable"' in keys
    assert 'title="A variable that somebody outside could know' in keys


def test_each_page_says_what_it_is_for() -> None:
    made = environment()
    said = set()
    for name in made.list_templates():
        assert made.loader is not None
        source = made.loader.get_source(made, name)[0]
        calls = re.findall(r'<h1>.*</h1>\n\{\{ about\("([^"]+)"(.*)\) \}\}', source)
        # What did not work says itself what to do.
        if 'extends "layout.html.j2"' in source and name != "problem.html.j2":
            assert len(calls) == 1, name
        for page, terms in calls:
            said.add(f"workbench.page.{page}")
            assert set(re.findall(r'"([^"]+)"', terms)) <= set(glossary()), name
    assert said == {code for code in catalogue(DEFAULT) if code.startswith("workbench.page.")}


def test_a_committee_reads_the_glossary_and_makes_no_town(folder: Path) -> None:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access, read_only=True)
    client = Client(app, access, bench)
    assert client.ask("/glossary").status_code == 200
    assert client.post("/town", {}).status_code in (404, 405)
    assert not (folder / TOWN).exists()


@pytest.mark.parametrize("entries", [True, False])
def test_the_first_run_is_guided(client: Client, folder: Path, entries: bool) -> None:
    if not entries:
        (folder / "survey.csv").unlink()
    assert "Guided first run" in client.ask("/files").text
    assert "/file?path=simulated-town" in client.post("/town", {}).headers["location"]
    truth = json.loads((folder / TOWN).with_name("truth.json").read_text())
    assert truth["tau1"] > 0
    assert (folder / TOWN).stat().st_mode & 0o077 == 0
    assert "Guided first run" not in client.ask("/files").text
    for page in ("file", "keys", "columns", "run"):
        text = client.ask(f"/{page}?path={TOWN}").text
        assert "First run on a simulated town" in text
    draft = client.bench.draft(TOWN)
    spec = draft.spec(folder / TOWN, folder)
    assert spec.population_size == 200_000
    assert len(spec.keys) > 3
    # Pressed again, it is opened, and what was changed there stays.
    client.post("/keys/keep", {"path": TOWN, "key:age": "on"})
    client.post("/town", {})
    assert client.bench.draft(TOWN).keys == ("age",)
    if entries:
        assert "First run" not in client.ask("/keys?path=survey.csv").text
