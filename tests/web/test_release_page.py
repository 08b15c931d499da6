"""What if as the page of a release, in a browser: by mouse and by keyboard, narrow and wide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from web.test_browser import violations
from web.test_journey import CHROMIUM, PATIENCE, address, fits, heard, page  # noqa: F401
from web.test_levels import run  # noqa: F401

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}"),
]


@pytest.fixture
def folder(run: Path) -> Path:  # noqa: F811
    return run


@pytest.mark.parametrize("keyboard", [False, True])
def test_plans_are_weighed_on_one_page(
    address: str,  # noqa: F811
    page: Page,  # noqa: F811
    heard: dict[str, list[str]],  # noqa: F811
    folder: Path,
    keyboard: bool,
) -> None:
    from playwright.sync_api import expect

    def press(found: Locator) -> None:
        if keyboard:
            found.focus()
            page.keyboard.press("Enter")
        else:
            found.click()

    page.goto(address)
    place = address.partition("/?")[0]
    page.goto(f"{place}/what-if/kept?target=tau1 <= 5&key:age=1")
    numbers, frontier = page.locator("#numbers"), page.locator("#frontier")
    expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
    # The picture has both sides and the limit; the verdict is that of all states.
    expect(numbers.locator("svg.unikat-wide")).to_contain_text("limit 5")
    expect(numbers.locator(".judged")).to_be_visible()
    expect(frontier.get_by_text("Every plan that no other beats")).to_be_visible(timeout=PATIENCE)
    name = f"Keys {keyboard}"
    page.get_by_label("Name").fill(name)
    press(page.get_by_role("button", name="Save this plan"))
    side = page.get_by_role("region", name="Plans side by side")
    expect(side.get_by_role("link", name=name)).to_be_visible(timeout=PATIENCE)
    # What is done besides is looked at as a slider is.
    expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
    page.get_by_label("Release").select_option("50%")
    expect(numbers.get_by_role("row", name="Information lost")).to_contain_text(
        "5", timeout=PATIENCE
    )
    expect(page.locator("pre.command")).to_contain_text("--subsample", timeout=PATIENCE)
    expect(side).to_contain_text("subsample: 50%", timeout=PATIENCE)
    expect(page).to_have_url(re.compile("subsample=50%25"), timeout=PATIENCE)
    # Later answers draw the frontier again; what was chosen there stays, also in the address.
    plans = page.get_by_label("A plan of the frontier")
    expect(plans).to_be_visible(timeout=PATIENCE)
    # Until all plans are found the list is drawn again every second.
    expect(frontier.locator("[role=status]")).to_have_count(0, timeout=PATIENCE)
    plans.select_option(index=1)
    chosen = plans.input_value()
    expect(page).to_have_url(re.compile("plan=%3F"), timeout=PATIENCE)
    page.get_by_label("Release").select_option("75%")
    expect(page).to_have_url(re.compile("subsample=75%25&plan=%3F"), timeout=PATIENCE)
    expect(side).to_contain_text("subsample: 75%", timeout=PATIENCE)
    expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
    expect(plans).to_have_value(chosen)
    page.reload()
    expect(plans).to_have_value(chosen, timeout=PATIENCE)
    # The frontier moves the sliders, and what was besides goes.
    expect(frontier.locator("[role=status]")).to_have_count(0, timeout=PATIENCE)
    press(page.get_by_role("button", name="Move the sliders there"))
    expect(numbers.get_by_text("By all 400 states")).to_be_visible(timeout=PATIENCE)
    expect(page).not_to_have_url(re.compile("subsample"), timeout=PATIENCE)
    page.get_by_role("heading", name="The plan in pictures").scroll_into_view_if_needed()
    expect(page.get_by_role("heading", name="Two keys")).to_be_visible(timeout=PATIENCE)
    expect(page.get_by_role("heading", name="Their table")).to_be_visible(timeout=PATIENCE)
    page.get_by_label("Down").select_option("region")
    expect(page.locator("#pictures")).to_contain_text("region", timeout=PATIENCE)
    press(page.get_by_role("link", name="What would the other columns tell?"))
    expect(page.locator("#columns-left")).to_contain_text("column", timeout=PATIENCE)
    for width in (320, 400, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert fits(page)
        assert violations(page) == []
    press(side.get_by_role("button", name=f"Remove {name}"))
    expect(side).to_have_count(0, timeout=PATIENCE)
    # htmx tells of each request that a newer one has replaced.
    assert [said for said in heard["complaints"] if not said.startswith("htmx:")] == []
