"""The table of trials agrees with docs/accuracy.md, and each model is told its own figures."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from report.estimates import estimate, provenance, spec, summarise
from test_accuracy_tables import MADE
from unikat.models.catalogue import MODELS
from unikat.models.named import build_model
from unikat.report.facts.result import Result
from unikat.report.text import limits
from unikat.report.text.track_record import (
    TRIALS,
    TrackRecord,
    Trials,
    of_label,
    of_result,
    track_record,
)

ROOT = Path(__file__).parents[3]
DOCS = "\n" + (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8").replace("−", "-")
Numbers = tuple[int, int, float, float, float]
"""Samples, covered, mean error, lowest, highest."""


def tables(section: str) -> list[list[dict[str, list[str]]]]:
    """The tables of a section, each a list of rows: cells by the title of their column."""
    text = DOCS.partition(f"\n{section}\n")[2]
    text = re.split(r"\n## ", text)[0]
    found, rows, head = [], [], None
    for line in [*text.splitlines(), ""]:
        if not line.startswith("|"):
            if rows:
                found.append(rows)
            rows, head = [], None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if head is None:
            head = cells
        elif not set(line) <= set("|- "):
            row: dict[str, list[str]] = {}
            for title, cell in zip(head, cells, strict=True):
                row.setdefault(title.strip("`"), []).append(cell)
            rows.append(row)
    return found


def percent(text: str) -> float:
    return float(text.rstrip("%")) / 100


def learned(name: str) -> Numbers:
    """The first tables: all samples together, and coverage."""
    row = next(row for row in tables("# Accuracy on real populations")[0] if row["model"] == [name])
    low, high = row["90% of errors"][0].split(" to ")
    by_size = [one[name][0] for one in tables("# Accuracy on real populations")[1]]
    covered = sum(int(re.search(r"(\d+)/10", cell)[1]) for cell in by_size)  # type: ignore[index]
    samples = int(row["fits"][0])
    assert f"{100 * covered / samples:.0f}%" == row["contained"][0]
    return samples, covered, percent(row["τ1: bias"][0]), percent(low), percent(high)


def of_auto() -> Numbers:
    found = MADE.trials_of_auto()
    return tuple(found[name] for name in ("samples", "covered", "error", "lowest", "highest"))


def by_size(section: str, title: str) -> Numbers:
    """Tables with cells such as "-43% 0/5"; the first column of a name is that of τ1."""
    cells = [row[title][0].split() for row in tables(section)[0]]
    errors = [percent(error) for error, _ in cells]
    covered = [[int(part) for part in share.split("/")] for _, share in cells]
    return (
        sum(n for _, n in covered), sum(k for k, _ in covered), mean(errors), min(errors),
        max(errors),
    )  # fmt: skip


def dense(name: str) -> Numbers:
    """Paper 3's kind of table: the summaries of both sizes, relative to the true means."""
    section = "## Mixed effects on paper 3's kind of table"
    found = tables(section)
    truth = [[int(n) for n in row["τ1"][0].split(" (")[0].split(", ")]
             for row in found[0] if row[""][0].startswith("here")]  # fmt: skip
    summaries = [table for table in found if "error" in table[0] and "RMSE" in table[0]]
    errors, covered, samples = [], 0, 0
    for table, true in zip(summaries, truth, strict=True):
        row = next(row for row in table if row["model"] == [name])
        errors.append(float(row["error"][0]) / mean(true))
        k, n = row["contained"][0].split("/")
        covered, samples = covered + int(k), samples + int(n)
    return samples, covered, mean(errors), min(errors), max(errors)


def unequal(name: str) -> Numbers:
    """Samples with unequal chances: small and large states together, ten samples of each."""
    errors, covered, samples = [], 0, 0
    for table in tables("## Unequal chances")[:2]:
        row = next(row for row in table if row["model"] == [name])
        parts = [row[f"τ1, {size}"][0].strip("*") for size in ("small states", "large")]
        told = [[float(n) for n in re.findall(r"[\d.]+", part)] for part in parts]
        errors.append(sum(one for one, _ in told) / sum(true for _, true in told) - 1.0)
        covered, samples = covered + int(row["τ1 contained"][0].split()[0]), samples + 10
    return samples, covered, mean(errors), min(errors), max(errors)


def of_households(calibrated: str) -> Numbers:
    """All samples, and the surveys' errors."""
    rows = [row for row in tables("## Households")[0] if row["calibrated"] == [calibrated]]
    errors = [percent(row["bias"][0]) for row in rows]
    covered, samples = rows[0]["contained"][0].split("/")
    return int(samples), int(covered), errors[0], min(errors[1:]), max(errors[1:])


LOG_LINEAR, COMBINATIONS = "## Log-linear models", "## Models of combinations"
_PRIORS, _PAPER = "with the fixed priors of the papers", "with the hyperparameters of the paper"
_DEFAULT = "with the default options"
SOURCES: dict[tuple[str, str, bool], Callable[[], Numbers]] = {
    ("auto", _DEFAULT, False): of_auto,
    ("households", _DEFAULT, False): lambda: of_households("yes"),
    ("households", "with calibrate=false", False): lambda: of_households("no"),
    **{
        (name, label, False): lambda name=name, kind=kind: learned(f"{name}, {kind}")  # type: ignore[misc]
        for name in ("latent-class", "hdp", "gom")
        for label, kind in ((_DEFAULT, "learned"), (_PRIORS, "paper"))
    },
    ("loglinear", _DEFAULT, False): lambda: by_size(LOG_LINEAR, "loglinear` (two-way)"),
    ("loglinear", "with terms=select", False): lambda: by_size(
        LOG_LINEAR, "loglinear:terms=select"
    ),
    **{
        (name, _DEFAULT, False): lambda name=name: by_size(LOG_LINEAR, name)  # type: ignore[misc]
        for name in ("skinner-holmes", "elamir-skinner")
    },
    **{
        (name, _DEFAULT, False): lambda name=name: by_size(COMBINATIONS, name)  # type: ignore[misc]
        for name in ("individual-risk", "superpopulation-1", "superpopulation-2")
    },
    ("dirichlet-multinomial", _DEFAULT, False): lambda: by_size(
        "## Dirichlet-multinomial on sparse tables", "dirichlet-multinomial"
    ),
    **{
        (name, _PAPER, False): lambda name=name: unequal(f"`{name}`, elicited")  # type: ignore[misc]
        for name in ("superpopulation-1", "superpopulation-2")
    },
    **{
        (name, label, True): lambda row=row: dense(row)  # type: ignore[misc]
        for name, label, row in (
            ("latent-class", _DEFAULT, "latent-class"),
            ("hdp", _DEFAULT, "hdp"),
            ("loglinear", _DEFAULT, "log-linear II"),
            ("loglinear", "with terms=select", "log-linear selected"),
            ("loglinear", "with terms=independence", "log-linear I"),
            ("skinner-holmes", _DEFAULT, "Skinner-Holmes I"),
            ("elamir-skinner", _DEFAULT, "Elamir-Skinner I"),
            ("mixed-effects", _DEFAULT, "NP ZM & I"),
            ("mixed-effects", "with random=none and fixed=two-way", "P & II"),
            ("mixed-effects", "with random=none", "P & I"),
            ("mixed-effects", "with random=gamma-dp", "gamma NP & I"),
            ("dirichlet-multinomial", _DEFAULT, "Dirichlet I"),
            ("dirichlet-multinomial", "with terms=none", "Dirichlet O"),
            ("dirichlet-multinomial", "with terms=two-way", "Dirichlet II"),
        )
    },
}


@pytest.mark.parametrize(
    "trials", TRIALS, ids=lambda one: f"{one.model}, {one.called}, {one.dense}"
)
def test_the_table_is_that_of_the_documentation(trials: Trials) -> None:
    samples, covered, error, lowest, highest = SOURCES[trials.model, trials.called, trials.dense]()
    assert (trials.samples, trials.covered) == (samples, covered)
    # To the rounding of the table here, in tenths of a percent.
    ours = (trials.error, trials.lowest, trials.highest)
    assert ours == pytest.approx((error, lowest, highest), abs=0.00051)


def text_of(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="utf-8").replace("**", "").split())


def test_the_figures_of_the_default_are_those_of_the_trials_wherever_they_stand() -> None:
    """With the true τ1 that counts, and with what is known of the side of the misses."""
    (auto,) = (one for one in TRIALS if one.model == "auto")
    found = MADE.trials_of_auto()
    share = f"{auto.covered} of {auto.samples} samples"
    missed = auto.samples - auto.covered
    readme = text_of("README.md")
    assert f"{share} with a true τ1 of {auto.least} or more" in readme
    sides = (
        f"above the interval in {auto.above} of the other {missed}, and below it in {auto.below}"
    )
    assert sides in readme
    assert "(true τ1 20 or more)" in track_record("auto", {}, dense=False).sentence
    assert (auto.above, auto.below) == (found["above"], found["below"])
    by_situation = text_of("docs/explanation/accuracy-by-situation.md")
    for one in TRIALS:
        if one.model == "households":
            assert f"{one.covered} of {one.samples} " in by_situation
        if one.model in ("auto", "households"):
            assert one.least == 20
    assert "a true τ1 of 20 or more" in by_situation


def test_the_side_of_the_misses_is_told_where_it_is_known() -> None:
    trials = replace(TRIALS[0], samples=10, covered=7, above=2, below=1)
    said = TrackRecord(model="auto", trials=trials, same_options=True, same_density=True).sentence
    assert said.endswith("It lay above the interval in 2 and below it in 1.")
    for one in TRIALS:
        assert (one.above is None) == (one.below is None)
        if one.above is not None and one.below is not None:
            assert one.above + one.below == one.samples - one.covered
    none = replace(TRIALS[0], samples=10, covered=10)
    said = TrackRecord(model="auto", trials=none, same_options=True, same_density=True).sentence
    assert said.endswith("in 10 of the 10 samples.")


def test_what_is_in_sample_is_called_so() -> None:
    for name in ("docs/design/protect.md", "benchmarks/README.md"):
        text = text_of(name)
        assert "49 of 50" in text
        place = text.index("49 of 50")
        assert "in-sample" in text[place - 500 : place + 200]


def test_every_row_has_a_source_and_options_that_the_model_takes() -> None:
    assert len(SOURCES) == len(TRIALS)
    for trials in TRIALS:
        build_model(trials.model, trials.options)
        found = track_record(trials.model, trials.options, dense=trials.dense)
        assert found.trials is trials
        assert found.same_options


def result(**changes: Any) -> Result:
    return replace(summarise(estimate(), spec(), provenance()), **changes)


@pytest.mark.parametrize("name", MODELS)
def test_each_model_is_told_its_own_figures(name: str) -> None:
    """No model quotes another one; of one without trials it is said that there are none."""
    facts = result(model=name, model_options={})
    said = dict(limits.limits(facts))["The answer depends on the model"]
    record = of_result(facts)
    assert record.trials is not None
    own = f"{record.trials.covered} of the {record.trials.samples} samples"
    assert own in said
    assert f"τ1 by {name} " in said
    for other in MODELS:
        assert other == name or f"τ1 by {other} " not in said


def test_other_options_than_those_tried_are_told() -> None:
    said = track_record("gom", {"components": 3}, dense=False).sentence
    assert said.startswith(
        "This run used options with which gom was not tried; these are the figures of the default "
        "options. In trials on 140 "
    )
    assert "with the default options" in said
    said = track_record("mixed-effects", {}, dense=False).sentence
    assert "no trials of mixed-effects on files with fewer records than combinations" in said
    # Without its own error `auto` is the model that it chose.
    facts = result(model="auto", model_options={"calibrate": False}, fit={"chosen": "gom"})
    assert of_result(facts).model == "gom"
    assert of_result(replace(facts, uncertainty="calibrated")).model == "auto"


def test_files_with_more_records_than_combinations_are_told_of_such_files() -> None:
    sparse = result(model="loglinear", model_options={})
    assert sparse.sample.n_combinations == 18 * 2 * 9 * 12 * 4
    assert of_label("loglinear", sparse.sample).unreliable
    dense_sample = replace(sparse.sample, n_combinations=3000.0)
    assert not of_label("loglinear", dense_sample).unreliable
    # Dense tables acquit no options of a model that fails where cells are sparse.
    independence = "loglinear:terms=independence"
    assert of_label(independence, sparse.sample).unreliable
    assert " with its default options " in of_label(independence, sparse.sample).warning
    assert not of_label(independence, dense_sample).unreliable
    # It was not in the trials with dense tables.
    found = of_label("individual-risk", dense_sample)
    assert found.unreliable
    assert not found.same_density
    assert "on other files" in found.warning


def test_who_is_unreliable_is_decided_by_the_trials() -> None:
    for trials in TRIALS:
        found = track_record(trials.model, trials.options, dense=trials.dense)
        assert found.unreliable == (trials.covered / trials.samples <= 0.5)
        assert bool(found.warning) == found.unreliable
    unreliable = {one for one in MODELS if track_record(one, {}, dense=False).unreliable}
    assert unreliable == {
        "loglinear", "skinner-holmes", "elamir-skinner", "individual-risk", "superpopulation-1",
        "superpopulation-2", "dirichlet-multinomial",
    }  # fmt: skip
