"""What-if: the process that computes, and the page that asks it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import unikat
from unikat.jobs.looks import Counts, Found
from unikat.protection.search import SearchProgress
from unikat.web.explorer import Answering, Inbox
from unikat.web.explorers import GONE, STATES, Explorer, Explorers
from web.test_journey import CHROMIUM, PATIENCE, address, fits, heard, page  # noqa: F401
from web_client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN = {
    "keys": "age,sex,region", "population_size": 600, "model": "latent-class", "max_sweeps": 60,
    "chains": 2, "workers": 1, "progress": False,
}  # fmt: skip
READY = """
import sys
print('{"kind": "ready", "keys": [], "n_states": 400, "level": 0.95}', flush=True)
sys.stdin.readline()
"""
"""A process that ends when it is asked something."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of ages from 20 to 59, and an assessment that kept its states."""
    made = tmp_path_factory.mktemp("what-if")
    lines = (f"{20 + i * 7 % 40},{'fm'[i % 3 // 2]},{i * i % 9}" for i in range(120))
    (made / "survey.csv").write_text("age,sex,region\n" + "\n".join(lines))
    unikat.assess(
        made / "survey.csv", out=made / "kept", keep_states=True, threshold="tau1 <= 5", **RUN
    )
    return made


@pytest.fixture
def folder(run: Path) -> Path:
    return run


@pytest.fixture
def closed(client: Client) -> Iterator[Client]:
    yield client
    client.bench.explorers.close()


def said(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def asked(id: int, by: str = "a") -> dict[str, Any]:
    return {
        "id": id,
        "ask": "look",
        "page": by,
        "steps": [id],
        "target": "",
        "key": "",
        "besides": {},
    }


def test_a_newer_question_of_the_page_ends_the_older(capsys: pytest.CaptureFixture[str]) -> None:
    inbox = Inbox()

    def look(
        steps: list[int], target: str, n_states: int | None, between: Any, key: str, _: Any
    ) -> Any:
        if steps == [2] and n_states is None:
            # While all states are looked at the slider moves again.
            inbox.put(asked(3))
        between()
        raise AssertionError

    def find(target: str, between: Any, tell: Any) -> Found:
        between()
        tell(SearchProgress(name="Search", looks=120, most_looks=2000, lost=0.065, seconds=7.0))
        # A look is answered in the middle of a search.
        inbox.put(asked(5, "b"))
        between()
        inbox.put({"id": 6, "ask": "find", "target": "tau1 <= 2"})
        between()
        return Found(steps=(), early="")

    exploration: Any = SimpleNamespace(
        n_states=10, look=look, find=find,
        counts=lambda *_: Counts(n_uniques=3, smallest=1, groups=None),
    )  # fmt: skip
    answering = Answering(exploration, inbox)
    inbox.put(asked(1))
    inbox.put(asked(2))
    first, second = inbox.take(), inbox.take()
    answering.answer(first)
    answering.answer(second)
    # What the file itself tells comes first.
    assert [(one["id"], one["kind"]) for one in said(capsys)] == [
        (1, "obsolete"), (2, "counts"), (2, "obsolete"),
    ]  # fmt: skip
    assert inbox.take()["id"] == 3
    inbox.put({"id": 4, "ask": "find", "target": "tau1 <= 1"})
    answering.answer(inbox.take())
    told = said(capsys)
    kinds = [(one["id"], one["kind"]) for one in told]
    assert kinds == [(4, "searching"), (5, "counts"), (5, "problem"), (4, "obsolete")]
    assert told[0]["text"].startswith("Search: look 120 of at most 2,000, least information lost")
    assert inbox.take()["target"] == "tau1 <= 2"


def test_a_search_that_stopped_early_is_said_where_its_plan_stands() -> None:
    answer = {"id": 1, "kind": "found", "steps": [1, 0], "early": "The search stopped early."}
    program = f"{READY}print({json.dumps(json.dumps(answer))}, flush=True)\nsys.stdin.readline()"
    explorer = Explorer(Path(), Path(), [sys.executable, "-c", program])
    question = explorer.find("tau1 <= 1")
    explorer.wait(lambda: question.done, 30)
    assert explorer.early([1, 0], "tau1 <= 1") == "The search stopped early."
    assert not explorer.early([0, 0], "tau1 <= 1")
    assert not explorer.early([1, 0], "tau1 <= 2")
    explorer.close()


def test_a_process_that_dies_is_said_and_started_anew(run: Path) -> None:
    explorer = Explorer(run / "kept", run, [sys.executable, "-c", READY])
    explorer.wait(lambda: explorer.state == "ready", 30)
    question = explorer.look("a", [], "")
    explorer.wait(lambda: question.done, 30)
    assert (question.problem, explorer.state) == (GONE, "failed")
    assert explorer.look("a", [1], "").problem == GONE
    explorers = Explorers(inside=run)
    first = explorers.of(run / "kept")
    assert explorers.of(run / "kept") is first
    explorers.forget(first)
    again = explorers.of(run / "kept")
    assert again is not first
    for name in ("one", "two"):
        (run / name).mkdir(exist_ok=True)
        (run / name / STATES).write_bytes(b"")
        explorers.of(run / name)
    # At most two: the one that was not used for longest has ended.
    again.wait(lambda: False, 30)
    assert again.state == "failed"
    explorers.close()


def loaded(client: Client, at: str, words: str) -> str:
    """Load a page again until it has some words, as one does without scripts."""
    end = time.monotonic() + 60
    while words not in (text := client.ask(at).text):
        assert time.monotonic() < end
        time.sleep(0.2)
    return text


@pytest.mark.slow
def test_the_page_without_scripts(closed: Client, run: Path) -> None:
    text = loaded(closed, "/what-if/kept", "By all 400 states")
    assert 'value="tau1 &lt;= 5"' in text
    there = loaded(
        closed, "/what-if/kept?key:age=2&key:region=1&target=tau1 <= 1000", "is met: τ1 ≤ 1000."
    )
    command = re.search("unikat protect kept/assessment.toml --recode .*? --target", there)
    assert command is not None
    assert "region: " in command[0]
    # A part of the page of another slider, then the search, whose answer is an address.
    part = closed.ask("/what-if-numbers/kept?key:age=1", headers={"X-Page": "a"})
    assert "key%3Aage=1" in part.headers["HX-Replace-Url"]
    moved_on = closed.ask("/what-if-numbers/kept?key:age=2&seen=1", headers={"X-Page": "a"})
    assert moved_on.headers["HX-Reswap"] == "none"
    while (found := closed.ask("/what-if/kept?target=tau1 <= 1&find=1")).status_code == 200:
        time.sleep(0.1)
    assert found.status_code == 303
    at = found.headers["location"].removeprefix(closed.access.base)
    # A run that has not converged decides nothing.
    assert "The run has not converged." in loaded(closed, at, "is met: τ1 ≤ 1.")
    loaded(closed, "/what-if/kept?target=tau1 < 5", "is no limit")
    wrong = closed.post("/what-if-apply/kept", {"target": "", "out": "none"})
    assert wrong.status_code == 422
    assert "Nothing is recoded" in wrong.text
    closed.bench.explorers.of(run / "kept")._process.kill()
    part = closed.ask("/what-if-numbers/kept?key:age=1", headers={"X-Page": "b"})
    assert "has ended unexpectedly" in part.text
    assert closed.bench.explorers.of(run / "kept").state == "preparing"


def test_runs_that_kept_nothing_say_what_to_do(closed: Client, run: Path) -> None:
    unikat.assess(run / "survey.csv", out=run / "plain", overwrite=True, **RUN)
    text = closed.ask("/what-if/plain").text
    assert "unikat assess plain/assessment.toml --trust-spec --keep-states --out NEW_FOLDER" in text
    assert "What if" not in closed.ask("/runs/plain").text
    assert "/what-if/kept" in closed.ask("/runs/kept").text
    assert closed.ask("/what-if/survey.csv").status_code == 404


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}")
def test_from_a_slider_to_the_protected_file(
    address: str,  # noqa: F811
    page: Page,  # noqa: F811
    heard: dict[str, list[str]],  # noqa: F811
    run: Path,
) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_role("link", name="All runs").click()
    page.get_by_role("link", name="kept", exact=True).click()
    page.get_by_role("link", name="What if keys were coarser?").click()
    numbers = page.locator("#numbers")
    expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
    assert fits(page)
    lost = numbers.get_by_role("row", name="Information lost").get_by_role("cell").last
    expect(lost).to_have_text("0%")
    slider = page.get_by_role("slider", name="age")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    words = slider.get_attribute("aria-valuetext")
    assert words not in (None, "as it is")
    expect(lost).not_to_have_text("0%", timeout=PATIENCE)
    expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
    expect(page).to_have_url(re.compile("key%3Aage=2"), timeout=PATIENCE)
    page.reload()
    expect(slider).to_have_js_property("value", "2", timeout=PATIENCE)
    # Another plan than that of the sliders, which is marked; until it is found it is drawn again.
    expect(page.locator("#frontier [role=status]")).to_have_count(0, timeout=PATIENCE)
    points = page.locator("#frontier svg.unikat-narrow a:not([aria-current])")
    expect(points.first).to_be_visible(timeout=PATIENCE)
    expect(page.locator("#frontier svg.unikat-narrow a[aria-current]")).to_have_count(1)
    points.last.focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    page.wait_for_load_state()
    expect(page).to_have_url(re.compile("key%3A"), timeout=PATIENCE)
    assert fits(page)
    page.go_back()
    expect(slider).to_have_js_property("value", "2", timeout=PATIENCE)
    page.get_by_label("Folder of the protected file").fill("applied")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("heading", name="Result applied")).to_be_visible(timeout=PATIENCE)
    rows = (run / "applied/protected.csv").read_text().splitlines()
    ages = {row.partition(",")[0] for row in rows}
    assert any("-" in age for age in ages)
    # htmx tells of each request that a newer one has replaced.
    assert [said for said in heard["complaints"] if not said.startswith("htmx:")] == []
