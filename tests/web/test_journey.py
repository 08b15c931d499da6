"""From opening a file to reading its report, in a real browser."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from web_client import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
PATIENCE = 90_000
"""Milliseconds that a run may take on a busy machine."""

pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}"),
    pytest.mark.slow,
]


@pytest.fixture
def address(folder: Path) -> Iterator[str]:
    with serving(folder) as found:
        yield found


@pytest.fixture
def heard() -> dict[str, list[str]]:
    """What the browser asked for, and what it complained about."""
    return {"requests": [], "complaints": []}


@pytest.fixture
def page(heard: dict[str, list[str]]) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        opened = browser.new_page(viewport={"width": 400, "height": 800})
        opened.on("request", lambda request: heard["requests"].append(request.url))
        opened.on("console", lambda message: heard["complaints"].append(message.text))
        opened.on("pageerror", lambda error: heard["complaints"].append(str(error)))
        yield opened
        browser.close()


def fits(page: Any) -> bool:
    """Whether nothing has to be scrolled sideways."""
    # Before it has its style sheet, nothing has the width that it will have.
    page.wait_for_load_state()
    element = "document.documentElement"
    return bool(page.evaluate(f"{element}.scrollWidth <= {element}.clientWidth"))


def test_from_a_file_to_its_report(
    address: str, page: Page, heard: dict[str, list[str]], folder: Path
) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    assert fits(page)
    page.get_by_role("link", name="survey.csv").click()
    expect(page.get_by_text("60 records · 3 columns")).to_be_visible()
    assert fits(page)
    page.get_by_role("link", name="Choose the keys").click()
    for name in ("age", "sex", "region"):
        # By keyboard, as all of it can be done.
        page.get_by_label(name, exact=True).focus()
        page.keyboard.press("Space")
    page.get_by_label("Grouping of age").fill("width(2)")
    page.get_by_label("Population size").fill("5000")
    page.get_by_label("One rule on each line").fill("age >= 26 and sex == 'f'")
    page.get_by_role("button", name="Check the rules against the file").click()
    expect(page.get_by_text(re.compile(r"records break a rule\.$"))).to_be_visible(timeout=PATIENCE)
    assert fits(page)
    page.get_by_label("Records that break a rule").select_option("drop")
    page.get_by_role("button", name="Check and go on").press("Enter")
    expect(page.get_by_text("What was found in the file")).to_be_visible(timeout=PATIENCE)
    page.get_by_label("Model", exact=True).select_option("latent-class")
    page.get_by_text("For statisticians").click()
    for name, value in {"Chains": "2", "Most sweeps of a chain": "60", "Processes": "1"}.items():
        page.get_by_label(name, exact=True).fill(value)
    assert fits(page)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="Run survey-assessment")).to_be_visible()
    # Goes on to the result by itself, when the stream of events has ended.
    expect(page.get_by_role("heading", name="Result survey-assessment")).to_be_visible(
        timeout=PATIENCE
    )
    report = page.frame_locator("iframe.report")
    expect(report.get_by_text("What was assessed")).to_be_visible()
    frame = page.locator("iframe.report")
    expect(frame).to_have_js_property("scrolling", "")
    page.wait_for_timeout(300)
    box = frame.bounding_box()
    # As tall as the report, so that it is read and printed as one page.
    assert box is not None
    assert 1500 < box["height"] < 15_000
    assert fits(page)
    with page.expect_download() as saved:
        page.get_by_role("link", name="result.json").click()
    assert (
        saved.value.path().read_bytes() == (folder / "survey-assessment/result.json").read_bytes()
    )
    page.get_by_role("link", name="All runs").click()
    expect(page.get_by_role("link", name="survey-assessment", exact=True)).to_be_visible()
    assert fits(page)
    assert heard["complaints"] == []
    origin = re.match(r"http://127\.0\.0\.1:\d+/", address)
    assert origin is not None
    assert [url for url in heard["requests"] if not url.startswith((origin[0], "data:"))] == []


def test_from_a_file_to_its_protected_file(
    address: str, page: Page, heard: dict[str, list[str]], folder: Path
) -> None:
    from playwright.sync_api import expect

    page.goto(address)
    page.get_by_role("link", name="survey.csv").click()
    page.get_by_role("link", name="Choose the keys").click()
    for name in ("age", "sex", "region"):
        page.get_by_label(name, exact=True).check()
    page.get_by_label("Population size").fill("5000")
    page.get_by_role("button", name="Check and go on").click()
    # By keyboard, as all of it can be done.
    page.get_by_role("link", name="Protection").press("Enter")
    expect(page.get_by_role("heading", name="Protect survey.csv")).to_be_visible(timeout=PATIENCE)
    page.get_by_label("Target", exact=True).select_option("k")
    page.get_by_label("Number", exact=True).fill("three")
    page.get_by_label("sex stays as it is").press("Space")
    page.get_by_label("Recodings of age").fill("width(2), width(10)")
    page.get_by_label("Model", exact=True).select_option("latent-class")
    page.get_by_text("For statisticians").press("Enter")
    for name, value in {"Chains": "2", "Most sweeps of a chain": "40", "Processes": "1"}.items():
        page.get_by_label(name, exact=True).fill(value)
    assert fits(page)
    page.get_by_role("button", name="Start").press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("'k >= three' is no limit")
    page.get_by_label("Target in your own words").fill("k >= 3")
    # The command follows.
    page.get_by_label("Target in your own words").press("Tab")
    expect(page.get_by_label("sex stays as it is")).to_be_checked()
    expect(page.locator("pre.command")).to_contain_text("--target 'k >= 3'")
    command = "--keep sex --recodings 'age: width(2), width(10)' --out survey-protection"
    expect(page.locator("pre.command")).to_contain_text(command)
    page.get_by_role("button", name="Start").press("Enter")
    # Goes on to the result by itself.
    expect(page.get_by_role("heading", name="Result survey-protection")).to_be_visible(
        timeout=PATIENCE
    )
    report = page.frame_locator("iframe.report")
    expect(report.get_by_text("Limit met: k ≥ 3.")).to_be_visible()
    assert fits(page)
    with page.expect_download() as saved:
        page.get_by_role("link", name=re.compile(r"^protected\.csv .*bytes$")).click()
    rows = saved.value.path().read_text().splitlines()
    assert len(rows) == 61
    assert min(rows.count(row) for row in rows[1:]) >= 3
    assert {row.split(",")[1] for row in rows[1:]} == {"f", "m"}
    page.get_by_role("button", name="Change it and run again").press("Enter")
    page.get_by_role("button", name="Check and go on").press("Enter")
    expect(page.get_by_label("Recodings of age")).to_have_value("width(2), width(10)")
    refused = [text for text in heard["complaints"] if "422" not in text]
    assert refused == []
    assert (folder / "survey-protection" / "plan.toml").exists()
