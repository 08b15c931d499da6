"""A disclosure officer's whole day: from an SPSS file to a protected one and its two pages."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from web_client import serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
PATIENCE = 90_000
"""Milliseconds that a run may take on a busy machine."""
LABELS = {
    "sex": {1.0: "Male", 2.0: "Female"},
    "region": {1.0: "North", 2.0: "East", 3.0: "South", 4.0: "West", 9.0: "Not stated"},
}

pytestmark = [
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"needs {CHROMIUM}"),
    pytest.mark.slow,
]


@pytest.fixture
def spss(tmp_path: Path) -> Path:
    """An SPSS file with labels, and a code that is declared missing."""
    rng, n = np.random.default_rng(7), 400
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "sex": rng.integers(1, 3, n).astype(float),
            "region": rng.choice([1.0, 2, 3, 4, 9], n, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
            "income": np.round(rng.lognormal(7, 1, n)),
        }
    )
    pyreadstat.write_sav(
        frame,
        tmp_path / "census.sav",
        column_labels={"age": "Age in years", "region": "Region of residence"},
        variable_value_labels=LABELS,
        missing_ranges={"region": [9]},
    )
    return tmp_path


@pytest.fixture
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        yield opened
        opened.close()
    expect.set_options(timeout=None)


class Mouse:
    """Clicks; only what has to be typed is typed."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, on: Locator) -> None:
        on.click()

    def write(self, into: Locator, text: str) -> None:
        into.click(click_count=3)
        self.page.keyboard.insert_text(text)

    def choose(self, of: Locator, label: str) -> None:
        # The list of a field is drawn by the system, where no page can click.
        of.click()
        of.select_option(label=label)

    def move(self, slider: Locator, steps: int) -> None:
        box = slider.bounding_box()
        assert box is not None
        last = int(slider.get_attribute("max") or 0)
        # Half a handle from each end.
        x = box["x"] + 8 + (box["width"] - 16) * steps / last
        slider.click(position={"x": x - box["x"], "y": box["height"] / 2})


class Keyboard:
    """Never points: goes on by the tabulator, and sees where it is."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def _go_to(self, where: Locator) -> None:
        from playwright.sync_api import expect

        expect(where).to_be_visible()
        for _ in range(150):
            self.page.keyboard.press("Tab")
            if where.evaluate("element => element === document.activeElement"):
                assert where.evaluate("e => getComputedStyle(e).outlineStyle !== 'none'"), where
                return
        raise AssertionError(f"{where} is not reached by keyboard")

    def press(self, on: Locator) -> None:
        self._go_to(on)
        box = on.evaluate("e => e.type === 'checkbox'")
        self.page.keyboard.press("Space" if box else "Enter")

    def write(self, into: Locator, text: str) -> None:
        self._go_to(into)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def choose(self, of: Locator, label: str) -> None:
        self._go_to(of)
        self.page.keyboard.type(label)

    def move(self, slider: Locator, steps: int) -> None:
        self._go_to(slider)
        for _ in range(steps):
            self.page.keyboard.press("ArrowRight")


@pytest.mark.parametrize("by", [Mouse, Keyboard])
def test_from_an_spss_file_to_a_protected_one(
    by: Callable[[Page], Any], browser: Browser, spss: Path
) -> None:
    from playwright.sync_api import expect

    def opened(address: str) -> tuple[Page, Any]:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        return page, by(page)

    with serving(spss) as address:
        page, hand = opened(address)
        hand.press(page.get_by_role("link", name=re.compile(r"^census\.sav")).first)
        hand.press(page.get_by_role("link", name="Choose the keys"))
        for name in ("age", "sex", "region"):
            hand.press(page.get_by_role("checkbox", name=name, exact=True))
        hand.write(page.get_by_label("Population size"), "8000")
        expect(page.get_by_text("records are unique in the file by 3 keys")).to_be_visible()
    # The machine is restarted; what was said is there.
    with serving(spss) as address:
        page, hand = opened(address)
        hand.press(page.get_by_role("link", name=re.compile(r"^census\.sav")).first)
        hand.press(page.get_by_role("link", name=re.compile("^Keys")))
        expect(page.get_by_role("checkbox", name="region", exact=True)).to_be_checked()
        expect(page.get_by_label("Population size")).to_have_value("8000")
        hand.press(page.get_by_role("button", name="Check and go on"))
        hand.choose(page.get_by_label("Model", exact=True), "latent-class")
        hand.press(page.get_by_text("For statisticians"))
        small = {"Chains": "2", "Most sweeps of a chain": "60", "Processes": "1"}
        for name, value in small.items():
            hand.write(page.get_by_label(name, exact=True), value)
        hand.press(page.get_by_role("button", name="Start"))
        expect(page.get_by_role("heading", name="Result census-assessment")).to_be_visible()
        hand.press(page.get_by_role("link", name="What if keys were coarser?"))
        # West and South become one level, by hand; age is grouped by its slider.
        hand.press(page.get_by_role("link", name="Levels of region"))
        for name in ("South", "West"):
            hand.press(page.get_by_role("checkbox", name=re.compile(name)))
        hand.write(page.get_by_label("Name of the merged group"), "South and West")
        hand.press(page.get_by_role("button", name="Merge the ticked levels"))
        expect(page.get_by_role("row", name=re.compile("West")).last).to_contain_text("South and")
        hand.press(page.get_by_role("link", name=re.compile("^Back")))
        hand.move(page.get_by_role("slider", name="age"), 2)
        expect(page.locator("#numbers pre.command")).to_contain_text("age: ")
        hand.write(page.get_by_label("Folder of the protected file"), "released")
        hand.press(page.get_by_role("button", name="Apply: make the protected file"))
        expect(page.get_by_role("heading", name="Result released")).to_be_visible()
        saved = {}
        for name in ("protected.sav", "committee.html"):
            with page.expect_download() as download:
                hand.press(page.get_by_role("link", name=re.compile(f"^{re.escape(name)} ")).first)
            saved[name] = spss / f"saved-{name}"
            download.value.save_as(saved[name])
        paper = browser.new_page()
        paper.goto(saved["committee.html"].as_uri())
        expect(paper.get_by_text("census.sav").first).to_be_visible()
        # Two pages of A4, as the printer makes them.
        pdf = paper.pdf(prefer_css_page_size=True)
        assert pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") == 2
    made, meta = pyreadstat.read_sav(saved["protected.sav"], user_missing=True)
    before, _ = pyreadstat.read_sav(spss / "census.sav", user_missing=True)
    assert meta.column_names_to_labels["age"] == "Age in years"
    assert meta.variable_value_labels["sex"] == LABELS["sex"]
    assert "South and West" in meta.variable_value_labels["region"].values()
    assert made.sex.tolist() == before.sex.tolist()
    regions = made.region.map(meta.variable_value_labels["region"])
    assert set(regions[before.region.isin([3, 4])]) == {"South and West"}
    assert set(regions[before.region == 1]) == {"North"}
    assert (made.region == 9).tolist() == (before.region == 9).tolist()
    assert made.age.nunique() < before.age.nunique()
