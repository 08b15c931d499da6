from __future__ import annotations

import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from report.browser import assert_sound, layout
from report.estimates import estimate, provenance, spec, summarise, table, write
from unikat.errors import OutputError, SpecError
from unikat.report.facts.result import Result
from unikat.report.folders.assessment import load
from unikat.report.pages import plots
from unikat.report.pages.assessment import render
from unikat.report.pages.plots import Figure

FOUND = estimate()


@pytest.fixture(scope="module")
def result() -> Result:
    return summarise(FOUND, spec(), provenance())


def traces() -> dict[str, Any]:
    assert FOUND.draws is not None
    return dict(FOUND.draws.scalars)


def all_figures(result: Result) -> dict[str, Figure]:
    return {
        name: plots.figure(name, result, traces())
        for name in ("tau1", "tau2", "trace", "keys", "records")
    }


def test_figures_are_those_of_the_report(result: Result) -> None:
    page = render(result, traces())
    for figure in all_figures(result).values():
        opening, drawn = re.split("<style>.*</style>", figure.svg, flags=re.DOTALL)
        assert opening in page
        assert drawn in page


def test_a_figure_stands_by_itself(result: Result) -> None:
    for figure in all_figures(result).values():
        root = ElementTree.fromstring(figure.svg)
        assert root.attrib["role"] == "img"
        assert [root[0].tag[-5:], root[1].tag[-4:]] == ["title", "desc"]
        assert f"{root[0].text}. {root[1].text}" == figure.alt
        names = [root[0].attrib["id"], root[1].attrib["id"]]
        assert root.attrib["aria-labelledby"].split() == names
        assert float(root.attrib["width"]) == 680
        # Programs for papers know no custom properties.
        assert "var(" not in figure.svg
        assert "url(" not in figure.svg
        used = {word for node in root.iter() for word in node.attrib.get("class", "").split()}
        for name in used - {"unikat", "unikat-wide"}:
            assert f".{name} " in figure.svg or f".{name}," in figure.svg, name


def test_the_numbers_are_in_it(result: Result) -> None:
    drawn = all_figures(result)
    assert f"median {result.tau1.median:.0f}, 95% between" in drawn["tau1"].svg
    assert f"median {result.tau2.median:.0f}, 95% between" in drawn["tau2"].svg
    assert "OCCUPATION &lt;b&gt;" in drawn["keys"].svg
    assert f"{result.records.histogram[3]:,}" in drawn["records"].svg
    assert "4 chains" in drawn["trace"].alt


def test_it_is_told_in_one_line(result: Result) -> None:
    for figure in all_figures(result).values():
        said = repr(figure)
        assert "\n" not in said
        assert len(said) < 115
        assert said[9:40] in f"<Figure: {figure.alt}"


def test_no_text_is_cut_in_a_notebook_of_any_width(result: Result, tmp_path: Path) -> None:
    pages = {}
    for name, figure in all_figures(result).items():
        figure.save(tmp_path / f"{name}.html")
        pages[name] = (tmp_path / f"{name}.html").read_text()
    assert_sound(layout(pages, tmp_path, widths=(320, 700, 1280)), figures=1)


def test_the_colours_are_those_of_the_notebook(result: Result) -> None:
    shown = plots.figure("keys", result, {})._repr_html_()
    assert "#1f5f8b" in shown
    assert '[data-jp-theme-light="false"] .unikat' in shown
    assert "prefers-color-scheme: dark" in shown
    assert shown.count("<style>") == 1
    # Nothing but the figure changes its looks: each rule begins with its class.
    style = shown.split("<style>")[1].split("</style>")[0]
    for rule in style.split("}"):
        for part in rule.split("{")[:-1]:
            assert ".unikat" in part or "@media" in part, rule


def test_saving(result: Result, tmp_path: Path) -> None:
    figure = plots.figure("tau1", result, traces())
    figure.save(str(tmp_path / "tau1.svg"))
    assert (tmp_path / "tau1.svg").read_text() == figure.svg == figure._repr_svg_()
    assert stat.S_IMODE((tmp_path / "tau1.svg").stat().st_mode) == 0o600
    with pytest.raises(SpecError, match=r"'tau1\.png'.*must end in \.svg or \.html"):
        figure.save(tmp_path / "tau1.png")
    with pytest.raises(OutputError, match="No such file"):
        figure.save(tmp_path / "none" / "tau1.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tau1.svg"]


def test_figures_of_a_saved_run(tmp_path: Path) -> None:
    write(FOUND, tmp_path / "run", spec(), provenance())
    loaded = load(tmp_path / "run")
    assert "95% between" in plots.figure("tau1", loaded.result, loaded.traces).alt


def test_what_cannot_be_drawn_is_said(result: Result) -> None:
    known = estimate(table(population_size=3000), known=True)
    exact = summarise(known, spec(), provenance())
    for name in ("tau1", "tau2", "trace", "records"):
        with pytest.raises(SpecError, match="The risk is known exactly"):
            plots.figure(name, exact, {})
    with pytest.raises(SpecError, match="draws of tau2 are missing"):
        plots.figure("tau2", result, {})
    keys = tuple(replace(key, drop=None) for key in result.keys)
    with pytest.raises(SpecError, match="was not computed"):
        plots.figure("keys", replace(result, keys=keys), {})
    none = replace(result, records=replace(result.records, n_judged=0))
    with pytest.raises(SpecError, match="No record is unique"):
        plots.figure("records", none, {})
    alone = replace(result, uncertainty="conditional")
    with pytest.raises(SpecError, match="draws without chains"):
        plots.figure("trace", alone, traces())
