"""The report in print: few pages, and every section open."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from report.browser import run
from report.estimates import estimate, provenance, spec, summarise
from report.text.test_selection import result as selected
from report.text.test_selection import traces
from report.text.test_sensitivity import ROWS
from unikat.report.pages.assessment import render

MOST_PAGES = 6


def pages(html: str, folder: Path) -> int:
    """Print a page to PDF, and return its number of sheets."""
    page, printed = folder / "page.html", folder / "page.pdf"
    page.write_text(html, encoding="utf-8")
    run(folder, f"--print-to-pdf={printed}", "--no-pdf-header-footer", page.as_uri())
    return n_sheets(printed)


def n_sheets(printed: Path) -> int:
    """Count the sheets of a PDF."""
    return len(re.findall(rb"/Type\s*/Page[^s]", printed.read_bytes()))


@pytest.mark.slow
def test_the_report_prints_to_a_few_pages_with_all_sections(tmp_path: Path) -> None:
    asked = spec(Path("/data/people.csv"), threshold="tau1 <= 50")
    everything = replace(selected(), sensitivity=ROWS)
    for found in (summarise(estimate(), asked, provenance()), selected(), everything):
        html = render(found, traces())
        n_pages = pages(html, tmp_path)
        assert 3 <= n_pages <= MOST_PAGES
        opened = html.replace("<details", "<details open")
        assert pages(opened, tmp_path) == n_pages
        # Where nothing opens the sections they stay folded: the check would notice.
        assert pages(html.replace("::details-content", "::none-such"), tmp_path) < n_pages


def test_page_one_is_one_sheet(tmp_path: Path) -> None:
    asked = spec(Path("/data/people.csv"), threshold="tau1 <= 50")
    html = render(summarise(estimate(), asked, provenance()), traces())
    start = html.index('<section class="technical"')
    assert pages(f"{html[:start]}</main></body></html>", tmp_path) == 1
