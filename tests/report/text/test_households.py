"""The words of a report about households; names of files, keys and levels stay as they are."""

from __future__ import annotations

import html
import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import unikat
from unikat.cli.main import main
from unikat.datasets import simulate_homes
from unikat.report.facts.columns import ColumnFacts
from unikat.report.text.columns import columns_sentence
from unikat.report.text.listed import listed

FILE, KEY, BANDS = "census records.csv", "records of a person", "record"
NAMES = (FILE, KEY, f"{BANDS} of people", "records-at-risk", "records.parquet", ".records")
SAID = (
    "120 households",
    "incomplete households in this file",
    "to a household of the population with the same key values",
    "of these households",
    "of all 120 households",
    "A sample unique is a household that shares its combination of key values with no other.",
    "anyone who knows these values of a household can find it in the file.",
    "The households are a simple random sample of the population.",
    "With more keys, more households are unique.",
    "were filled in by the model, many times.",
    "larger than their share of the households.",
    "Households in the file",
    "of the households.",
    "Incomplete households",
    "Households at risk",
    "are the households at risk, which τ1 and τ2 count.",
    "complete households that are alone in the file with their combination of keys",
    "Households, sample uniques and expected population uniques by level of each variable.",
    "Levels with fewer than 10 households are summed up",
    "r1 is the probability that a household is unique in the population.",
    "Every other household shares its combination with another household of the file.",
    "Households by r1. Highlighted bars: r1 is 0.5 or more.",
    "Number of households by r1",
    "r1, probability that the household is unique in the population",
    "Expected population uniques by group of households",
    "Households with the highest risk, by the row in which they begin",
    "r1 of single households includes model uncertainty.",
    "may be larger for some households.",
    "This report shows no values of single households",
    "households.parquet lists all households with their risk, records.parquet all persons.",
    "coefficient of variation at one expected household",
    "A household of the file is more likely in a cell",
    "of the households at risk are unique in the population",
    "know every key of every household exactly as in the file",
    "The 120 households are assumed to be a simple random sample of the 9,000 units",
)  # fmt: skip
"""What every such report says."""


class Run(NamedTuple):
    """What a run about households wrote."""

    page: str
    """Its report, as one reads it."""
    terminal: str
    folder: Path


def read(text: str) -> str:
    """Return the text of a page on one line."""
    bare = re.sub(r"<style.*?</style>|<(?:rect|line|path|circle)[^>]*>", " ", text, flags=re.S)
    return " ".join(html.unescape(re.sub(r"</?(?:code|strong|span)[^>]*>", "", bare)).split())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("homes")
    homes = simulate_homes(np.random.default_rng(5), 120)
    homes.loc[np.random.default_rng(1).random(len(homes)) < 0.05, "age"] = np.nan
    homes["region"] = homes["region"].map({"north": f"{BANDS} of people", "south": "south"})
    homes.rename(columns={"region": KEY}).to_csv(folder / FILE, index=False)
    asked = ["--model", "households", "--keys", "relation,age:width(10),sex", "--household", "hid"]
    asked += ["--household-keys", KEY, "--population-households", "9000"]
    asked += ["--chains", "2", "--max-sweeps", "60", "--workers", "1", "--allow-unconverged"]
    out = folder / "out"
    with redirect_stdout(io.StringIO()) as said:
        assert main(["assess", str(folder / FILE), "--out", str(out), *asked]) == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    return Run(page=read(page), terminal=" ".join(said.getvalue().split()), folder=out)


@pytest.mark.parametrize("sentence", SAID)
def test_sentences_are_about_households(run: Run, sentence: str):
    text = re.sub(r"<[^>]*>", " ", run.page)
    assert sentence in " ".join(text.split())


def test_names_of_files_keys_and_levels_stay(run: Run):
    result = unikat.load(run.folder)
    said = " ".join(result.result.sentences.values())
    assert f"Disclosure risk of {FILE}" in run.page
    assert f"{FILE} holds 120 households" in run.page
    assert f"region {KEY}" not in run.page
    assert f"its size and {KEY}, and of every member" in run.page
    assert f"its size and {KEY}, and of every member" in said
    assert f"its size and {KEY}, and of every member" in run.terminal
    assert f">{BANDS} of people<" in run.page
    assert f"Assessment of {FILE}: 120 households, 4 keys" in repr(result)
    assert ".records " in repr(result)


def test_nothing_else_is_about_records(run: Run):
    """Neither the page, nor the sentences of the numbers, nor the terminal, nor a notebook."""
    result = unikat.load(run.folder)
    said = [*result.result.sentences.values(), *result.warnings, repr(result)]
    shown = [result._repr_html_(), result.plot.records().alt, result.plot.records().svg]
    for text in (run.page, run.terminal, *said, *map(read, shown)):
        rest = " ".join(re.sub(r"<[^>]*>", " ", text).split())
        for name in NAMES:
            rest = rest.replace(name, "")
        assert not re.findall(r".{20}\b[Rr]ecords?\b.{20}", rest)


def test_a_list_of_runs_counts_households(run: Run):
    found = listed("assess", json.loads((run.folder / "result.json").read_text()))
    assert found is not None
    figures = found.figures
    assert figures["Households"] == "120"
    assert "Records" not in figures


def test_the_other_members_are_in_the_numbers_of_households_alone() -> None:
    column = ColumnFacts(
        name="hid", role="household", reason="name", action="renumbered", n_values=120
    )
    said = {homes: columns_sentence([column], homes=homes) for homes in (False, True)}
    assert "other members is not in these numbers." in said[False]
    assert said[True].endswith("which records are of one household.")
