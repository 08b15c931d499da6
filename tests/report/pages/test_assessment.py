from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from report.browser import assert_sound, layout
from report.estimates import estimate, provenance, spec, summarise, table
from unikat.report.facts import committee
from unikat.report.pages import figures
from unikat.report.pages.assessment import render
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.template import CONTENT_POLICY

_DESCRIBED = re.compile(
    r'<svg[^>]*aria-labelledby="(\S+)-title \1-desc"[^>]*>'
    r'<title id="\1-title">(.+?)</title><desc id="\1-desc">(.+?)</desc>'
)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.described = [unescape(f"{m[2]}. {m[3]}") for m in _DESCRIBED.finditer(text)]
        """What screen readers speak of each picture."""
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "rect", "line", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag, f"<{tag}> is closed out of order"

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page(**choices: Any) -> Page:
    found = estimate(**choices)
    result = summarise(found, spec(), provenance())
    return Page(render(result, {} if found.draws is None else dict(found.draws.scalars)))


@pytest.fixture(scope="module")
def report() -> Page:
    return page()


def test_the_page_is_well_formed(report: Page) -> None:
    assert report.open == []


def test_the_page_allows_nothing_to_be_loaded(report: Page) -> None:
    policies = [
        attributes["content"]
        for tag, attributes in report.tags
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [CONTENT_POLICY]
    assert CONTENT_POLICY == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_the_page_has_no_script_and_loads_nothing(report: Page) -> None:
    for tag, attributes in report.tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base", "form", "img")
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "srcset", "action", "style"), (tag, name)
            # Links lead to a place on the page itself.
            assert name != "href" or (value or "").startswith("#"), (tag, value)
            if name != "xmlns":
                assert "://" not in (value or ""), (tag, name)
    assert "url(" not in report.text
    assert "@import" not in report.text


def test_key_names_are_escaped(report: Page) -> None:
    assert "OCCUPATION <b>" in report.text
    assert "b" not in {tag for tag, _ in report.tags}


def test_the_answer_stands_first(report: Page) -> None:
    result = summarise(estimate(), spec(), provenance())
    assert result.sentences["answer"] in report.text
    assert f" of the {result.sample.n_uniques:,} sample uniques in this file (" in report.text
    for words in ("Converged.", "simple random sample", "in 98 of the 140", "ab" * 32, "R-hat"):
        assert words in report.text, words


def test_an_unconverged_run_says_so(report: Page) -> None:
    bad = page(converged=False)
    assert "Not converged." in bad.text
    assert "provisional" in bad.text
    assert "The chains have not converged." in bad.text
    assert "Not converged." not in report.text
    assert "Provisional, not converged: about " in bad.text
    assert "Provisional" not in report.text


def test_what_the_interval_depends_on_stands_below_the_answer(report: Page) -> None:
    said = summarise(estimate(), spec(), provenance()).sentences
    assert f"{said['answer']} {said['condition']}" in report.text
    assert "if the model is right" in said["condition"]


def test_the_trace_is_that_of_the_predictive_number(report: Page) -> None:
    assert [words for words in report.described if words.startswith("τ1 in 4 chains")]
    assert "τ1 by draw, one colour per chain" in report.text
    assert "Expected τ1 by draw" not in report.text
    assert "all starting points are of this kind" in report.text


def test_what_was_not_computed_is_not_called_no_key(report: Page) -> None:
    found = estimate()
    found.records.key_drop[:] = np.nan
    text = Page(
        render(summarise(found, spec(), provenance()), dict(found.draws.scalars))
        if found.draws is not None
        else ""
    ).text
    assert "not computed" in text
    assert "Falls without a key were not computed: no record" in text
    assert "no single key" not in text
    assert "not computed" not in report.text


def test_a_known_risk_is_not_called_an_estimate() -> None:
    known = page(cells=table(population_size=3000), known=True)
    assert "This is known exactly." in known.text
    assert known.described
    for words in known.described:
        assert "if one key is left out" in words or "by group" in words


def test_figures_are_for_everyone(report: Page) -> None:
    drawn = [attributes for tag, attributes in report.tags if tag == "svg"]
    # Each for a page and for a phone.
    assert len(drawn) == 2 * 6
    assert [a["class"] for a in drawn] == ["unikat unikat-wide", "unikat unikat-narrow"] * 6
    for attributes in drawn:
        assert attributes["role"] == "img"
    assert len(report.described) == len(drawn)
    assert all(re.search("[0-9]", words.replace("τ1", "")) for words in report.described)
    names = [attributes["id"] for _, attributes in report.tags if "id" in attributes]
    assert len(names) == len(set(names)) > 2 * len(drawn)


def test_what_scrolls_can_be_reached_by_keyboard(report: Page) -> None:
    boxes = [a for tag, a in report.tags if tag == "pre" or a.get("class") == "scroll"]
    assert len(boxes) > 5
    assert all(a["tabindex"] == "0" for a in boxes)


def test_no_text_is_cut_at_any_width(tmp_path: Path) -> None:
    found = estimate()
    assert found.draws is not None
    result, traces = summarise(found, spec(), provenance()), dict(found.draws.scalars)
    keys = tuple(replace(key, name=key.name + "X" * 52) for key in result.keys)
    long = replace(result, keys=keys, data="survey_" * 20 + ".csv", warnings=("x" * 150,))
    pages = {"report": render(result, traces), "long names": render(long, traces)}
    assert_sound(layout(pages, tmp_path), figures=6)


def numbers_are_finite(drawing: Drawing) -> None:
    for svg in (drawing.wide, drawing.narrow):
        assert "nan" not in svg.lower().replace("nance", "")
        assert "inf" not in svg.lower()
        ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    "draws",
    [
        np.zeros((4, 10)),
        np.full((1, 1), 5.0),
        np.arange(8.0).reshape(2, 4) * 1e9,
        np.linspace(0.1, 0.2, 40).reshape(4, 10),
        np.r_[np.zeros(999), 1e6].reshape(1, -1),
    ],
)
def test_figures_hold_for_odd_draws(draws: Any) -> None:
    from report.estimates import summary

    numbers_are_finite(
        figures.distribution(draws, summary(draws), "τ1", "τ1 & more", "Draws of τ1")
    )
    numbers_are_finite(figures.trace(draws, draws.shape[1] // 2, "τ1"))
    numbers_are_finite(figures.trace(draws, draws.shape[1], "τ1"))


def test_figures_hold_for_no_records() -> None:
    numbers_are_finite(figures.record_risks([0] * 20))
    result = summarise(estimate(), spec(), provenance())
    numbers_are_finite(figures.key_drops(result.keys, 0.0))
    numbers_are_finite(figures.key_drops((), 1.0))


def test_the_histogram_holds_all_but_the_last_tails() -> None:
    values = np.random.default_rng(1).poisson(50, 4000).astype(float)
    edges = committee.edges(values)
    inside = (values >= edges[0]) & (values < edges[-1])
    assert inside.mean() > 0.998
    assert len(edges) <= 46
