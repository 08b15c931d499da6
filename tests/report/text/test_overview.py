"""Page one of the report, risk by level, and the threshold."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unikat
from report.estimates import estimate, provenance, spec, summarise, table
from report.pages.test_assessment import Page
from report.text.test_selection import result as selected
from report.text.test_selection import traces
from unikat.cli._output import show
from unikat.errors import SpecError
from unikat.report.facts.breakdown import FEWEST_RECORDS, Column, breakdowns
from unikat.report.facts.supplements import Supplements
from unikat.report.pages.assessment import context, render
from unikat.report.text import breakdown as table_text
from unikat.report.text.numbers import estimated, number
from unikat.report.text.overview import MOST_OF_COLUMN, groups, threshold_sentence
from unikat.risk.limits import judge
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.limits import Limit

MOST_WORDS = 300


def page_one(html: str) -> str:
    """Words of page one, those of the figures left out."""
    part = html[html.index('<section class="overview">') : html.index('<section class="technical"')]
    return Page(re.sub(r"<svg.*?</svg>", "", part, flags=re.DOTALL)).text


@pytest.mark.parametrize("converged", [True, False])
def test_page_one_is_short_and_plain(converged: bool) -> None:
    asked = spec(Path("/data/people.csv"), threshold="tau1 <= 5")
    for html in (
        render(summarise(estimate(converged=converged), asked, provenance()), traces()),
        render(selected(), traces()),
    ):
        words = page_one(html)
        assert len(words.split()) <= MOST_WORDS
        for term in ("R-hat", "nats", "hdp", "latent-class", "loglinear", "auto", "posterior"):
            assert term not in words, term
        assert "simple random sample" in words
        part = html[html.index('<section class="overview">') : html.index('class="technical"')]
        assert part.count("<figure>") <= 3
    assert "good" not in html[: html.index("<body>")]


def test_contents_lead_to_sections() -> None:
    html = render(selected(), traces())
    anchors = re.findall(r'href="#([^"]+)"', html)
    assert len(anchors) >= 8
    for anchor in anchors:
        assert html.count(f'id="{anchor}"') == 1, anchor
    assert html.count("<details") == len(anchors)


@pytest.mark.parametrize("missing", [False, True])
def test_levels_add_up_to_the_file(missing: bool) -> None:
    found = estimate(table(missing=missing))
    r1 = np.nan_to_num(found.records.r1)
    total = float((r1 * found.table.counts).sum())
    for one in breakdowns(found):
        lines = [*one.levels, *([] if one.other is None else [one.other])]
        assert sum(line.n_records for line in lines) == found.table.n_records
        assert sum(line.n_uniques for line in lines) == found.table.n_uniques
        assert sum(line.tau1 for line in lines) == pytest.approx(total)
        assert all(line.n_records >= FEWEST_RECORDS for line in lines)
        risks = [line.tau1 for line in one.levels]
        assert risks == sorted(risks, reverse=True)
        assert ("missing" in [line.label for line in lines]) <= missing


def test_a_level_with_few_records_cannot_be_subtracted() -> None:
    """Where too few records would be summed up, another level joins them."""
    found = estimate()
    n = found.table.n_records
    codes = np.zeros(n, np.int32)
    codes[:3], codes[3:40], codes[40:90] = 1, 2, 3
    column = Column(name="place", codes=codes, labels=("a", "b", "c", "d"))
    (one,) = (x for x in breakdowns(found, [column]) if not x.is_key)
    assert one.variable == "place"
    assert {level.label for level in one.levels} == {"a", "d"}
    assert one.other is not None
    assert (one.n_other, one.other.n_records) == (2, 40)
    (shown,) = (x for x in breakdowns(found, [column], show_all=True) if not x.is_key)
    assert {level.label for level in shown.levels} == {"a", "b", "c", "d"}
    assert shown.other is None


def test_a_column_that_is_a_key_is_broken_down_once() -> None:
    found = estimate()
    codes = np.zeros(found.table.n_records, np.int32)
    column = Column(name=found.table.keys[0].name, codes=codes, labels=("a",))
    assert len(breakdowns(found, [column])) == len(found.table.keys)


def test_further_columns_stand_first() -> None:
    found = estimate()
    codes = np.arange(found.table.n_records, dtype=np.int32) % 8
    column = Column(name="region <i>", codes=codes, labels=tuple("abcdefgh"))
    supplements = Supplements(columns=(column,))
    made = summarise(found, spec(), provenance(), supplements=supplements)
    first = groups(made)[:MOST_OF_COLUMN]
    assert {one.variable for one in first} == {"region <i>"}
    variable, rows = table_text.tables(made.breakdowns)[0]
    assert (variable, len(rows)) == ("region <i>", 8)
    html = render(made, traces())
    assert "region &lt;i&gt;" in html
    assert "<i>" not in html


def test_long_variables_are_cut_in_the_report() -> None:
    made = summarise(estimate(), spec(), provenance())
    age = next(one for one in made.breakdowns if one.variable == "AGE")
    assert len(age.levels) > table_text.MOST_LEVELS
    [(_, rows)] = table_text.tables([age])
    assert len(rows) == table_text.MOST_LEVELS + 1
    n_rest = len(age.levels) - table_text.MOST_LEVELS + age.n_other
    assert rows[-1].label == f"{n_rest} other levels"


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        ("tau1 <= 10000", "met", "The upper end of the 95% interval of τ1 is"),
        ("tau1 <= 1", "not met", "Recode a variable and assess again."),
        ("tau1 <= {median}", "not met", "The upper end of the 95% interval of τ1 is"),
        ("tau1_estimate <= {mean}", "met", "The posterior mean of τ1 is"),
        ("k >= 2", "not met", "The smallest combination of key values has 1 record."),
        ("records(r1 > 0.999) <= 5", "met", "0 records have an r1 above 0.999."),
    ],
)
def test_the_verdict_stands_in_the_title_and_in_the_terminal(
    text: str, verdict: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = estimate()
    text = text.format(median=found.tau1.median, mean=found.tau1.mean)
    made = summarise(found, spec(threshold=text), provenance())
    assert made.threshold is not None
    assert made.verdict == made.threshold.verdict == verdict
    assert words in made.sentences["threshold"]
    html = render(made, traces())
    title = made.sentences["threshold"].partition(". ")[0]
    shown = title.replace(">", "&gt;")
    assert f'<span class="verdict {verdict.replace(" ", "-")}">{shown}.</span>' in html
    assert f"<title>{shown}" in html
    show(made, Path("out"))
    said = " ".join(capsys.readouterr().out.split())
    assert words in said
    assert title in said


def test_the_upper_end_of_the_interval_decides() -> None:
    tau1 = estimate().tau1
    for limit, verdict in (
        (tau1.upper, "met"),
        (tau1.upper - 0.5, "not met"),
        (tau1.lower - 0.5, "not met"),
    ):
        made = summarise(estimate(), spec(threshold=f"tau1 <= {limit}"), provenance())
        assert made.verdict == verdict, limit


def test_an_unfinished_or_unreliable_run_decides_nothing() -> None:
    asked = spec(threshold="tau2 <= 100000")
    unfinished = summarise(estimate(converged=False), asked, provenance())
    assert unfinished.threshold is not None
    assert (unfinished.verdict, unfinished.threshold.reason) == ("not known", "not converged")
    assert "Give it more time." in unfinished.sentences["threshold"]
    # What is counted is known all the same.
    counted = summarise(estimate(converged=False), spec(threshold="k >= 2"), provenance())
    assert counted.verdict == "not met"
    made = summarise(estimate(), asked, provenance())
    assert made.threshold is not None
    assert made.verdict == "met"
    unreliable = judge("tau2 <= 100000", [made.tau2.upper], "unreliable interval")
    assert unreliable.verdict == "not known"
    assert judge("tau2_estimate <= 9", [8.0], "unreliable interval").verdict == "met"
    said = threshold_sentence(replace(made, threshold=unreliable))
    assert "Take the default model." in said


def test_no_threshold_no_verdict() -> None:
    made = summarise(estimate(), spec(), provenance())
    assert made.threshold is made.verdict is None
    assert context(made, {}).overview.verdict is None
    assert 'class="verdict' not in render(made, traces())


def test_matches_uniques_and_the_smallest_combination_stand_beside_the_answer() -> None:
    made = summarise(estimate(), spec(), provenance())
    assert made.sample.smallest == 1
    shown = dict(context(made, {}).overview.beside)
    assert shown["Sample uniques"] == number(made.sample.n_uniques)
    assert shown["Smallest combination, records"] == "1"
    assert shown["Expected correct matches (τ2)"] == estimated(made.tau2.median, made.tau2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tau3 <= 5", "is no limit; write one as in 'tau1 <= 5'"),
        ("tau1 >= 5", "is no limit"),
        ("tau1 <= -1", "is no limit"),
        ("5", "is no limit"),
        ("", "is no limit"),
        ("tau1 <= x", "is no limit"),
        ("tau1_upper <= 5", "write tau1, which is judged by the upper end of its interval"),
        ("population_k >= 5", "known of a plan of protection, not of a file"),
        ("households.tau1 <= 5", "add --model households, or write tau1"),
    ],
)
def test_other_thresholds_are_refused(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=re.escape(said)):
        AssessmentSpec.parse({"keys": ["A"], "report": {"threshold": text}})


def test_thresholds_are_read_as_they_are_written() -> None:
    for text in ("tau1 <= 5", "tau2 <= 12.5", "households.tau1_estimate <= 3", "k >= 3"):
        assert str(Limit.of(text)) == text
    assert Limit.of(" τ1≤1,000 ") == Limit("tau1", 1000.0)
    read = AssessmentSpec.parse({"keys": ["A"], "report": {"threshold": "τ1 ≤ 5", "by": "A, B,A"}})
    assert read.report.threshold == "tau1 <= 5"
    assert read.report.by == ("A", "B")


def test_the_whole_way_from_options_to_the_page(tmp_path: Path) -> None:
    """Columns of `by` follow the records that are assessed, and their missing codes."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({name: rng.integers(0, 7, 300) for name in ("A", "B", "C")})
    frame["REGION"] = rng.choice(["north", "south", "-9"], 300)
    frame["PLACE"] = ["Rumpel", *["town"] * 150, *["village"] * 149]
    found = unikat.assess(
        frame, keys=["A", "B", "C"], population_size=3000, model="latent-class", chains=2,
        max_sweeps=60, workers=1, zeros=["A == 6 and B == 6"], zeros_conflict="drop",
        missing_values=["-9"], by=["REGION", "PLACE", "A"], threshold="tau1 <= 10000",
        out=tmp_path / "out",
    )  # fmt: skip
    kept = frame[~((frame["A"] == 6) & (frame["B"] == 6))]
    assert 0 < len(kept) < 300
    by = {one.variable: one for one in found.result.breakdowns}
    assert list(by) == ["A", "B", "C", "REGION", "PLACE"]
    records = {level.label: level.n_records for level in by["REGION"].levels}
    missing = (kept["REGION"] == "-9").sum()
    assert records == {
        "north": (kept["REGION"] == "north").sum(),
        "south": (kept["REGION"] == "south").sum(),
        "missing": missing,
    }
    for name in ("result.json", "report.html", "records-at-risk.csv"):
        assert "Rumpel" not in (tmp_path / "out" / name).read_text(), name
    assert found.verdict == "not known"
    again = unikat.load(tmp_path / "out")
    assert again.result == found.result
    assert again.spec.report.by == ("REGION", "PLACE", "A")
    again.save(tmp_path / "copy")
    for name in ("records-at-risk.csv", "result.json"):
        first, second = ((tmp_path / place / name).read_bytes() for place in ("out", "copy"))
        assert first == second
