"""The language of the pages: chosen, kept, and that of the reports of new runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from unikat.report.text.glossary import glossary
from unikat.report.text.language import LANGUAGES, NAMES, speaking
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, Client

FOREIGN = [code for code in LANGUAGES if code != "en"]


@pytest.mark.parametrize("spoken", FOREIGN)
def test_a_chosen_language_is_that_of_pages_and_reports_and_is_there_after_a_restart(
    client: Client, folder: Path, spoken: str
) -> None:
    assert '<html lang="en">' in client.ask("/files").text
    answer = client.post("/language", {"language": spoken, "here": "keys", "path": "survey.csv"})
    assert answer.headers["location"].endswith("/keys?path=survey.csv")
    page = client.ask("/glossary").text
    assert f'<html lang="{spoken}">' in page
    with speaking(spoken):
        for one in glossary().values():
            assert f'id="{one.anchor}"' in page
    assert f" --language {spoken} " in client.ask("/run?path=survey.csv").text
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    again = Client(app, access, bench)
    assert f'<html lang="{spoken}">' in again.ask("/files").text


def test_the_language_is_that_of_the_browser_until_one_is_chosen(client: Client) -> None:
    german = {"accept-language": "de-AT,de;q=0.9,en;q=0.5"}
    assert '<html lang="de">' in client.ask("/files", headers=german).text
    client.post("/language", {"language": "fr"})
    client.post("/language", {"language": "tlh"})
    assert '<html lang="fr">' in client.ask("/files", headers=german).text


def test_a_reader_chooses_a_language_and_nothing_is_written(folder: Path) -> None:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access, read_only=True, language="es")
    client = Client(app, access, bench)
    assert '<html lang="es">' in client.ask("/runs").text
    before = sorted(folder.rglob("*"))
    client.post("/language", {"language": "de"})
    assert '<html lang="de">' in client.ask("/runs").text
    assert sorted(folder.rglob("*")) == before


def test_the_glossaries_have_the_same_terms() -> None:
    found = {}
    for spoken in NAMES:
        with speaking(spoken):
            found[spoken] = glossary()
    for spoken in FOREIGN:
        assert set(found[spoken]) == set(found["en"])
        for key, one in found[spoken].items():
            assert one.see == () or set(one.see) <= set(found["en"]), key
            assert one.text.endswith("."), key
