"""The language of the pages: chosen, kept, and that of the reports of new runs."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from unikat.report.text.glossary import glossary
from unikat.report.text.language import LANGUAGES, NAMES, speaking
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.pages.template import environment
from unikat.web.security import Access
from web_client import PORT, Client

FOREIGN = [code for code in LANGUAGES if code != "en"]


@pytest.mark.parametrize("spoken", FOREIGN)
def test_a_chosen_language_is_that_of_pages_and_reports_and_is_there_after_a_restart(
    client: Client, folder: Path, spoken: str
) -> None:
    assert '<html lang="en">' in client.ask("/files").text
    answer = client.post("/language", {"language": spoken, "at": "/keys?path=survey.csv"})
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


def test_where_scripts_are_off_one_comes_back_to_the_page_where_one_was(client: Client) -> None:
    for page in ("/glossary", "/runs?search=a%26b", "/levels?path=survey.csv&edit=region"):
        found = re.search(r'name="at" value="([^"]*)"', client.ask(page).text)
        assert found is not None
        back = client.post("/language", {"language": "fr", "at": unescape(found[1])})
        assert back.headers["location"] == client.access.base + page
    for elsewhere in ("//example.org/", "https://example.org", "\\example.org"):
        back = client.post("/language", {"language": "fr", "at": elsewhere})
        assert back.headers["location"].startswith(client.access.base + "/")


def test_the_language_is_that_of_the_browser_until_one_is_chosen(client: Client) -> None:
    german = {"accept-language": "de-AT,de;q=0.9,en;q=0.5"}
    assert '<html lang="de">' in client.ask("/files", headers=german).text
    client.post("/language", {"language": "fr"})
    client.post("/language", {"language": "tlh"})
    assert '<html lang="fr">' in client.ask("/files", headers=german).text


def test_a_reader_chooses_a_language_and_nothing_is_written(folder: Path) -> None:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access, read_only=True, spoken="es")
    client = Client(app, access, bench)
    assert '<html lang="es">' in client.ask("/runs").text
    before = sorted(folder.rglob("*"))
    assert client.post("/language", {"language": "de"}).status_code == 405
    client.ask("/language?language=de")
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


class Texts(HTMLParser):
    """What a template says by itself: text, and attributes that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag == "code"
        said = [text for name, text in attrs if name in READ and text]
        # Examples are code: they name columns and files.
        self.found += [text for text in said if not re.search(r"[=<>():/*]", text)]

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag == "code"

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.found.append(data.strip())


READ = ("placeholder", "title", "aria-label", "data-name", "label", "alt")
JINJA = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}", re.DOTALL)
PROPER = {"unikat", "– unikat", "MB kB"}


def english_in(source: str) -> set[str]:
    """Texts of a template that are none of the catalogue."""
    parser = Texts()
    parser.feed(JINJA.sub("", source))
    found = {text for text in parser.found if re.search(r"[A-Za-z]{2}", text) and text[:3] != "hx-"}
    for tag in JINJA.findall(source):
        called = re.sub(r"\b(t|about|term|counted|at)\(\"[^\"]*\"(, \"[^\"]*\")*", "", tag)
        texts = re.findall(r"\"([^\"{]*)\"", called) if not tag.startswith("{#") else []
        found |= {text for text in texts if re.search(r"[A-Za-z]{2,} [a-z]|^[A-Z][a-z]+", text)}
    return found - PROPER


@pytest.mark.parametrize(
    "planted",
    [
        "<p>Go on</p>",
        '<input placeholder="any">',
        '{{ field("Choose a file") }}',
        "<b>{{ x }} of</b>",
    ],
)
def test_text_that_is_planted_is_found(planted: str) -> None:
    assert english_in(planted)


def test_templates_say_nothing_but_the_catalogue() -> None:
    made = environment()
    assert made.loader is not None
    own = [
        name for name in made.list_templates()
        if name.endswith(".html.j2")
        and str(Path("web", "pages")) in (made.loader.get_source(made, name)[1] or "")
    ]  # fmt: skip
    assert len(own) > 40
    said = {name: english_in(made.loader.get_source(made, name)[0]) for name in own}
    # Values that are compared, and no words.
    values = {"not known", "as it is"}
    assert {name: texts - values for name, texts in said.items() if texts - values} == {}
