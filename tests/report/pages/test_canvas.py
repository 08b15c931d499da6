"""No text of a figure is cut or covers another, whatever names and numbers come."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.browser import assert_sound, layout, run
from report.estimates import estimate as made
from report.estimates import provenance, spec, summarise, summary, table
from report.folders.test_comparison import compared
from unikat.report.facts.result import KeyFacts
from unikat.report.facts.synthesis import IntervalFacts, ShareFacts
from unikat.report.folders.evaluation import _row
from unikat.report.pages import comparison_figures, evaluation_figures, figures, synthesis
from unikat.report.pages.canvas import (
    NARROW,
    WIDE,
    Canvas,
    Drawing,
    shortened,
    text_width,
    tick_text,
    ticks,
    wrapped,
)
from unikat.report.pages.template import template
from unikat.report.text.numbers import number
from unikat.report.text.selection import Answer, Range
from unikat.report.text.sensitivity import Group
from unikat.studies.pooled import summarise_fits
from unikat.studies.scores import FitScore, RecordScores
from unikat.synthesis.utility import OrderUtility

LABELS = (
    "hdp",
    "loglinear:terms=A + B:C + D:interval=bootstrap",
    "loglinear:terms=" + " + ".join(f"VARIABLE_{i}:OTHER_{i}" for i in range(12)),
    "mixed-effects:" + ":".join(f"option_{i}=learned" for i in range(20)),
    "x" * 200,
)
LARGE = 123_456_789_012.0


def keys(tau1: float) -> list[KeyFacts]:
    """Thirty keys of 60 characters, of all kinds of letters."""
    alphabets = (
        "KEY_OF_A_REGISTER_",
        "W",
        "i",
        "Größe und Übermaß ",
        "Щука-ЖЮ",
        "職業分類",
        "نوع العمل ",
    )
    return [
        KeyFacts(
            name=(f"{i}" + alphabets[i % len(alphabets)] * 60)[:60], n_levels=3, n_missing=0,
            binning=None, tau1_without=tau1 * i / 30, drop=tau1 * (1 - i / 30),
        )
        for i in range(30)
    ]  # fmt: skip


def page(drawings: Iterable[Drawing]) -> str:
    shown = "".join(f"<figure>{drawing.__html__()}</figure>" for drawing in drawings)
    style = template("style.css.j2").render()
    return f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style><main>{shown}</main>'


def of_a_report(scale: float) -> list[Drawing]:
    rng = np.random.default_rng(8)
    draws = np.round(scale * (1 + 0.1 * rng.standard_normal((4, 300))))
    words = "τ1, unique records that are population unique"
    middle = Range(middle=scale, lower=0.9 * scale, upper=1.1 * scale)
    answers = [Answer(label=f"{name}, again", tau1=middle, final=name == "hdp") for name in LABELS]
    short = Answer(label="Cells 10% rarer", tau1=middle)
    histogram = [round(scale / (i + 1)) for i in range(20)]
    terms = ["independence", *(f"KEY_{i}:KEY_{i + 1}" for i in range(14))]
    values = np.linspace(2 * scale, scale, 15).tolist()
    return [
        figures.distribution(draws, summary(draws), "τ1", words, "Draws of τ1"),
        figures.distribution(
            np.r_[draws.ravel(), 40 * scale], summary(draws), "τ1", words, "Draws of τ1"
        ),
        figures.trace(draws, 3, "τ1"),
        figures.trace(draws, 290, "τ1"),
        figures.record_risks(histogram),
        figures.record_risks([round(3 * scale), *histogram[1:]][:19]),
        figures.key_drops(keys(scale), scale),
        figures.key_drops(keys(scale)[2:3], scale),
        figures.sensitivity([Group(title="Model error", rows=tuple(answers))], "τ1", words),
        figures.sensitivity([Group(title="", rows=(short,))] * 2, "τ1", words),
        figures.term_selection(terms, values, values, "B2/√ν", 1.645),
    ]


def of_a_comparison(scale: float) -> list[Drawing]:
    found = compared(n_zero=7)
    tau1 = summary(scale * np.linspace(0.9, 1.1, 50))
    check = found.models[0].checks[0]
    observed = replace(
        check, observed=round(scale), mean=1.2 * scale, lower=scale, upper=1.4 * scale
    )
    unknown = replace(check, mean=math.nan, lower=math.nan, upper=math.nan)
    models = [
        replace(model, model=label, tau1=tau1, checks=(observed, unknown, *model.checks[2:]))
        for label, model in zip(LABELS[1:4], found.models, strict=True)
    ]
    return [
        comparison_figures.intervals(models, "tau1", "τ1", "τ1, unique records"),
        comparison_figures.log_scores(models),
        comparison_figures.counts_of_counts(models),
        comparison_figures.path(models, found.paths[0]),
        comparison_figures.path(
            [replace(models[i % 3], path_base="gom") for i in range(25)],
            replace(
                found.paths[0], base="gom", values=tuple(float(i) for i in range(1000, 1025)),
                chosen=1024.0,
            ),
        ),
    ]  # fmt: skip


def of_an_evaluation(scale: float) -> list[Drawing]:
    rng = np.random.default_rng(9)
    r1 = rng.beta(0.4, 1.0, 500)
    records = RecordScores.of(r1, r1, np.where(rng.random(500) < r1, 1, 5))
    fits = [
        FitScore(
            model=label, n=500, repeat=repeat, n_drawn=500, n_uniques=400, tau1_true=scale,
            tau2_true=scale, tau1=summary(scale * rng.uniform(0.5, 1.5, 50)),
            tau2=summary(scale * rng.uniform(0.5, 1.5, 50)), records=records,
        )
        for label in LABELS
        for repeat in range(12)
    ]  # fmt: skip
    results = summarise_fits(fits, 0.95)
    return [
        evaluation_figures.errors([_row(one) for one in fits], "tau1", "τ1"),
        evaluation_figures.cutoffs(results),
        evaluation_figures.trade_off(results),
        evaluation_figures.calibration(results, "r1"),
    ]


def utility(x: Any, y: Any) -> OrderUtility:
    """Margins with these cells."""
    cells = tuple(zip(x.tolist(), y.tolist(), strict=True))
    return OrderUtility(
        order=1, n_margins=1, n_looked_at=1, margins=(), distance=0.0, distance_expected=0.0,
        distance_weighted=None, pmse_ratio=1.0, n_cells=len(cells), cells=cells,
    )  # fmt: skip


def of_a_synthesis() -> list[Drawing]:
    """Margins with no cell and with many, and probabilities with long formulas."""
    rng = np.random.default_rng(6)
    p = rng.dirichlet(np.ones(4000) * 0.1)
    share = IntervalFacts(estimate=0.5, variance=1.0, df=3.0, lower=-1.5, upper=2.5)
    sure = IntervalFacts(estimate=1.0, variance=0.0, df=math.inf, lower=1.0, upper=1.0)
    shares = [
        ShareFacts(text=f"share({label})", original=sure, synthetic=share) for label in LABELS
    ] + [ShareFacts(text="share(a | size = 9)", original=None, synthetic=None)]
    return [
        synthesis.margins("one-way", utility(np.empty(0), np.empty(0))),
        synthesis.margins("three-way", utility(p, rng.permutation(p))),
        synthesis.share_intervals(shares),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 54_321.0, LARGE])
def test_no_text_is_cut_whatever_comes(scale: float, tmp_path: Path) -> None:
    drawings = [*of_a_report(scale), *of_a_comparison(scale), *of_an_evaluation(scale)]
    drawings += of_a_synthesis()
    found = layout({"all": page(drawings)}, tmp_path)
    assert_sound(found, figures=len(drawings))
    for where, words in ((where, one["words"]) for where, one in found.items()):
        # No digit of a number is lost.
        for value in (f"leaves {number(scale * 29 / 30)}", f"file {scale:,.0f}"):
            assert value in words, (where, value)


def test_numbers_of_four_digits_and_long_names_stand_in_full(tmp_path: Path) -> None:
    drawing = figures.key_drops(keys(3310.0)[:3], 3310.0)
    found = layout({"keys": page([drawing])}, tmp_path)
    assert_sound(found, figures=1)
    for one in found.values():
        for value in ("−100%, leaves 0", "−97%, leaves 110", "−93%, leaves 221"):
            assert value in one["words"]


def test_widths_are_not_estimated_too_small(tmp_path: Path) -> None:
    """A text takes at most its estimated width, in the widest typeface that this machine has."""
    samples = [
        "The quick brown fox jumps over the lazy dog", "median 62, 95% between 48 and 76",
        "−81%, leaves 110", "123,456,789,012", "WORK_STATUS", "Größe", "r1 ≥ 0.5 (±0.1)",
        *LABELS, *(key.name for key in keys(1.0)),
    ]  # fmt: skip
    canvas = Canvas(4000)
    for kind in ("label", "strong", "tiny", "name"):
        for words in samples:
            canvas.cursor += 30
            canvas.text(2, canvas.cursor, words, "start", kind)
    style = template("style.css.j2").render()
    script = (
        'document.getElementById("found").textContent = JSON.stringify('
        '[...document.querySelectorAll("text")].map(text => text.getComputedTextLength()))'
    )
    outer = tmp_path / "widths.html"
    outer.write_text(
        f'<!DOCTYPE html><meta charset="utf-8"><style>{style}</style>{canvas.svg("unikat-wide")}'
        f'<pre id="found"></pre><script>{script}</script>',
        encoding="utf-8",
    )
    dom = run(tmp_path, "--window-size=1280,800", "--dump-dom", outer.as_uri())
    measured = [float(one) for one in dom.split('<pre id="found">[')[1].split("]")[0].split(",")]
    expected = [
        text_width(w, kind) for kind in ("label", "strong", "tiny", "name") for w in samples
    ]
    assert len(measured) == len(expected) > 100
    assert [pair for pair in zip(measured, expected, strict=True) if pair[0] > pair[1]] == []


@pytest.mark.parametrize("words", ["a b c", "one-long_word:of=many+parts", "x" * 90, "", "1,234"])
@pytest.mark.parametrize("width", [10.0, 60.0, 300.0])
def test_lines_hold_all_characters(words: str, width: float) -> None:
    lines = wrapped(words, width)
    assert "".join(lines).replace(" ", "") == words.replace(" ", "")
    assert all(text_width(line) <= width or len(line) == 1 for line in lines)


def test_a_number_is_broken_nowhere() -> None:
    assert wrapped("leaves 123,456,789,012", 130) == ["leaves", "123,456,789,012"]


def test_names_lose_their_middle() -> None:
    name = "loglinear:" + "x" * 300 + ":interval=bootstrap"
    lines = shortened(name, 200, "name")
    assert len(lines) <= 3
    assert all(text_width(line, "name") <= 200 for line in lines)
    said = "".join(lines)
    assert said.startswith("loglinear:x")
    assert "…" in said
    assert said.endswith("=bootstrap")
    assert shortened("sex", 200, "name") == ["sex"]


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("high", [1.0, 40.0, 1e6, LARGE])
def test_ticks_stand_apart(width: int, high: float) -> None:
    canvas = Canvas(width)
    canvas.x_range = (0.0, high)
    marks = canvas.x_ticks(8)
    assert len(marks) >= 2
    ends = [
        (canvas.x(mark) - text_width(tick_text(mark)) / 2, text_width(tick_text(mark)))
        for mark in marks[1:-1]
    ]
    for (left, wide), (following, _) in pairwise(ends):
        assert left + wide < following


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (0.6, 4.2, [1, 2, 3, 4]), (95, 131, [100, 110, 120, 130])],
)
def test_ticks_are_round(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high, 6) == expected


def test_a_figure_on_a_phone_shows_the_same_numbers() -> None:
    result = summarise(made(table()), spec(), provenance())
    drawing = figures.key_drops(result.keys, result.tau1_expected.mean)
    for key in result.keys:
        assert key.drop is not None
        share = f"−{key.drop / result.tau1_expected.mean:.0%}, leaves"
        for text in (drawing.wide, drawing.narrow, drawing.alt):
            assert share in text


def test_names_and_numbers_are_spoken() -> None:
    drawings: dict[str, Any] = {
        "distribution": figures.distribution(
            np.arange(200.0), summary(np.arange(200.0)), "τ1", "c", "Posterior distribution of τ1"
        ),
        "trace": figures.trace(np.full((2, 40), 52.0), 10, "τ1"),
    }
    assert "Median 100, 95% between 5.0 and 194." in drawings["distribution"].alt
    assert "Means of the chains: 52, 52." in drawings["trace"].alt
