"""What is said agrees with what is known, in the report and in the documentation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.estimates import estimate, provenance, spec, summarise, summary, table
from report.text.test_selection import traces
from unikat.cli._output import show
from unikat.data import CellTable, Key
from unikat.models.mixtures import new_record
from unikat.report.facts.result import Result
from unikat.report.pages.assessment import render
from unikat.report.text import limits, sentences
from unikat.report.text.track_record import track_record

ROOT = Path(__file__).parents[3]


def result(**choices: Any) -> Result:
    return summarise(estimate(**choices), spec(), provenance())


def few_complete_uniques() -> CellTable:
    """Return 5 complete records, all unique, and 500 incomplete ones."""
    codes = np.zeros((505, 2), np.int64)
    codes[:5, 1] = np.arange(5)
    codes[5:] = np.column_stack([np.full(500, -1), np.arange(500) + 5])
    keys = [Key.of_size("A", 2), Key.of_size("B", 505)]
    return CellTable.from_codes(codes, keys, 50_000)


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("README.md", ("latent-class",)),
        ("docs/assumptions-and-limits.md", ("latent-class", "hdp", "gom")),
    ],
)
def test_the_error_of_the_model_is_said_in_the_same_words(name: str, models: Any) -> None:
    text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
    for model in models:
        assert track_record(model, {}, dense=False).sentence in text
    assert "safe side" not in text
    assert "if the model is right" in text


def test_the_report_says_the_error_of_the_model() -> None:
    said = dict(limits.limits(result()))["The answer depends on the model"]
    for words in ("140 samples", "4% too high on average", "in 98 of the 140 samples"):
        assert words in said


def test_intervals_are_said_to_depend_on_the_model() -> None:
    said = result().sentences
    assert "If the model is right" in said["lower, upper, level"]
    assert said["condition"] in said["tau1"]
    known = result(cells=table(population_size=3000), known=True).sentences
    assert known["condition"] == ""
    assert known["tau1"] == known["answer"] + " " + sentences.share(
        result(cells=table(population_size=3000), known=True)
    )


def test_incomplete_records_count_among_those_that_may_be_unique() -> None:
    cells = few_complete_uniques()
    found = estimate(cells)
    found = replace(found, tau1=summary(np.linspace(150.0, 420.0, 500)))
    facts = summarise(found, spec(), provenance())
    assert (facts.sample.n_uniques, facts.records.n_judged) == (5, 505)
    words = "5 sample uniques and 500 incomplete records in this file"
    for text in (facts.sentences["answer"], facts.sentences["tau2"]):
        assert words in text
    shares = [float(share) for share in re.findall(r"([0-9.]+)%", sentences.share(facts))]
    assert len(shares) == 4
    assert max(shares) <= 100
    assert "sample uniques" not in sentences.share(facts)
    assert facts.sample.n_at_risk == facts.records.n_judged


def test_complete_records_are_unique_without_a_may() -> None:
    facts = result()
    words = f"{facts.sample.n_uniques:,} sample uniques in this file"
    assert words in facts.sentences["answer"]
    assert words in facts.sentences["tau2"]


SEVERAL = r"\b1 (records|values|fits|samples|times|combinations|chains|rows)\b"


def one_of_each(missing: str = "integrate") -> Result:
    """One record that may be unique, with the one value that is missing."""
    codes = [[0, -1], [0, 0], [0, 0], [1, 1], [1, 1]]
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    cells = CellTable.from_codes(codes, keys, 900)
    found = replace(estimate(cells), tau1=summary(np.ones(9)), tau2=summary(np.ones(9)))
    facts = summarise(found, spec(), provenance())
    return replace(facts, sample=replace(facts.sample, missing=missing))


def test_one_is_no_several() -> None:
    facts = one_of_each()
    assert (facts.records.n_judged, facts.sample.n_incomplete) == (1, 1)
    said = sentences.sentences(facts)
    assert not re.search(SEVERAL, " ".join(said.values()))
    assert said["answer"].startswith(
        "About 1 of the 1 incomplete record in this file (100%) is unique "
    )
    assert "matches the 1 incomplete record in this file to" in said["tau2"]
    assert "would be correct about 1 time (95% interval 1 to 1)." in said["tau2"]
    assert "1 record has a missing key (1 value);" in said["sample.n_incomplete"]
    said = sentences.sentences(one_of_each("level"))
    assert not re.search(SEVERAL, " ".join(said.values()))
    assert "1 value is missing;" in said["sample.n_incomplete"]


def test_one_unique_record_in_a_known_population() -> None:
    codes = [[0, 0], [0, 0], [1, 1]]
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    found = estimate(CellTable.from_codes(codes, keys, 3), known=True)
    facts = summarise(replace(found, tau2=summary(np.ones(9))), spec(), provenance())
    assert "so the 1 sample unique is unique in the population" in facts.sentences["answer"]
    assert facts.sentences["tau2"].endswith("would be correct 1 time.")
    assert facts.sentences["sample.n_uniques"].startswith("1 sample unique: a record that is alone")


def test_an_unconverged_answer_begins_with_that() -> None:
    good, bad = result(), result(converged=False)
    assert bad.sentences["answer"].startswith("Provisional, not converged: about ")
    assert bad.sentences["tau1"].startswith("Provisional, not converged: ")
    assert good.sentences["answer"].startswith("About ")


def test_the_terminal_says_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    show(result(converged=False), Path("out"))
    told = " ".join(capsys.readouterr().out.split())
    assert told.startswith("Provisional, not converged: about ")
    assert f". {result().sentences['condition']} That is " in told


def test_the_terminal_and_the_report_say_that_households_were_sampled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = estimate()
    homes = (np.arange(found.table.n_records) // 3).astype(np.int32)
    found = replace(found, table=replace(found.table, households=homes))
    made = summarise(found, spec(), provenance())
    said = "Whole households were sampled: 1,000 households with 3,000 records."
    show(made, Path("out"))
    assert f"Design: {said}" in " ".join(capsys.readouterr().out.split())
    html = " ".join(render(made, traces()).split())
    assert said in html
    assert "The households are a simple random sample of those in the population." in html


def test_the_r_hat_that_counts_is_that_of_the_counts() -> None:
    said = result().sentences["rhat"]
    assert "For τ1 and τ2, above 1.01 the run is too short" in said
    assert "above 1.05" in said


@pytest.mark.parametrize(
    ("rhat", "ess", "words", "silent"),
    [
        (
            0.987,
            38.0,
            "the effective sample size is down to 38 (target: at least 400).",
            "R-hat",
        ),
        (1.234, 900.0, "R-hat is up to 1.234 (target: at most 1.01).", "effective"),
        (1.234, 38.0, "1.01) and the effective sample size is down to 38", "agree"),
    ],
)
def test_the_verdict_names_what_fell_short(
    rhat: float, ess: float, words: str, silent: str
) -> None:
    facts = result(converged=False)
    tau = replace(facts.tau1, rhat=rhat, ess_bulk=ess, ess_tail=ess)
    said = sentences.verdict(replace(facts, tau1=tau, tau2=tau))
    assert said.startswith("The chains have not converged: ")
    assert words in said
    assert silent not in said


def test_a_key_left_out_is_a_margin_and_no_refit() -> None:
    assert "the model is not refitted" in result().sentences["keys.tau1_without"]


def test_many_keys_are_a_limit() -> None:
    facts = result()
    assert "Many keys" not in dict(limits.limits(facts))
    many = replace(facts, sample=replace(facts.sample, n_keys=new_record.EXACT_KEYS + 1))
    assert "very slightly too high" in dict(limits.limits(many))["Many keys"]


def test_drops_that_were_not_computed_are_told_from_small_ones() -> None:
    assert all(record.reasons_computed for record in result().records.top)
    found = estimate(few_complete_uniques())
    found.records.key_drop[found.table.incomplete] = np.nan
    top = summarise(found, spec(), provenance()).records.top
    unknown = [record for record in top if not record.reasons_computed]
    assert unknown
    assert not any(record.reasons for record in unknown)


def test_the_documentation_says_what_differs_from_the_paper() -> None:
    text = (ROOT / "docs" / "assumptions-and-limits.md").read_text(encoding="utf-8")
    flat = " ".join(text.split())
    assert "Two things differ" not in flat
    assert "the estimate is right" not in flat
    differences = flat[flat.index("differ from the paper:") :]
    assert differences.index("one concentration α is shared") < differences.index("table counts")
    for words in (
        "--set alpha=per-record",
        "latent class",
        "block moves",
        "split-merge",
        "[40, 63]",
        "[62, 89]",
    ):
        assert words in differences, words
    assert "all of one kind, many pure classes" in flat


def test_the_documentation_says_how_fine_record_risks_are() -> None:
    flat = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    for words in ("64 bins", "100,000 patterns", "12 or more", "between 0 and the record's r1"):
        assert words in flat, words
