"""What a result says of impossible combinations and of chains that disagree."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from report.estimates import estimate, provenance, spec, summarise, table, write
from unikat.report.facts.result import Result, spec_of
from unikat.report.facts.zeros import MASS, MOST_LISTED, zeros_facts
from unikat.report.folders.assessment import load
from unikat.report.pages.assessment import render
from unikat.report.text.sentences import chain_means
from unikat.report.text.zeros import conflicts_sentence, mass_sentence, shown_rules
from unikat.risk.estimate import RiskEstimate
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.rules import ZerosSpec
from unikat.spec.trust import SHOWN
from unikat.zeros import Zeros
from unikat.zeros.conflicts import Handled, apply_zeros

RULE = "AGE > 14 and SEX == 1 and REGION < 6"


def handled(policy: str = "drop", rules: list[str] | None = None) -> Handled:
    cells = table()
    zeros = Zeros.of([RULE] if rules is None else rules, cells.keys)
    return apply_zeros(cells, zeros, policy)  # type: ignore[arg-type]


def with_mass(found: RiskEstimate, draws: np.ndarray) -> RiskEstimate:
    assert found.draws is not None
    return replace(found, draws=replace(found.draws, scalars={**found.draws.scalars, MASS: draws}))


def result_of(made: Handled, found: RiskEstimate | None = None) -> Result:
    found = estimate(made.table) if found is None else found
    return summarise(found, spec(), provenance(), made)


def test_the_share_that_the_rules_take_away_is_told_where_the_model_kept_it() -> None:
    made = handled()
    draws = np.tile(np.linspace(0.2, 0.4, 400), (4, 1))
    np.random.default_rng(1).permuted(draws[:, 133:], axis=1, out=draws[:, 133:])
    told = result_of(made, with_mass(estimate(made.table), draws))
    assert told.zeros is not None
    mass = told.zeros.impossible_mass
    assert mass is not None
    assert mass.mean == pytest.approx(draws[:, 133:].mean())
    assert mass.lower < mass.median < mass.upper
    said = told.sentences["zeros.impossible_mass"]
    assert "The rules cut off 33% (27% to 40%)" in said
    assert "A model fitted without the rules often gives these combinations much less" in said
    assert "provisional" not in said
    assert said in render(told, {})
    untold = result_of(made)
    assert untold.zeros is not None
    assert untold.zeros.impossible_mass is None
    assert "zeros.impossible_mass" not in untold.sentences
    assert "the rules cut off" not in render(untold, {})


def test_a_share_on_which_the_chains_disagree_is_provisional() -> None:
    made = handled()
    apart = np.tile(np.linspace(0.2, 0.4, 400), (4, 1)) + 0.1 * np.arange(4)[:, None]
    told = result_of(made, with_mass(estimate(made.table), apart))
    assert "so its interval is provisional" in told.sentences["zeros.impossible_mass"]
    assert told.zeros is not None
    mass = told.zeros.impossible_mass
    assert mass is not None
    for unknown in (None, float("nan")):
        few = replace(told.zeros, impossible_mass=replace(mass, rhat=unknown))
        assert "too few draws to tell whether the chains agree" in mass_sentence(few)


@pytest.mark.parametrize(
    ("policy", "rules", "words"),
    [
        ("drop", None, "rows of the file break a rule and were left out"),
        ("missing", None, "the keys of the broken rules were set missing in them"),
        ("stop", ["AGE == 17 and SEX == 1 and REGION == 11"], "No row of the file breaks a rule."),
    ],
)
def test_the_report_says_what_was_done(policy: str, rules: list[str] | None, words: str) -> None:
    made = handled(policy, rules)
    told = result_of(made)
    page = render(told, {})
    assert words in page
    assert told.sentences["zeros"] in page
    assert "combinations of the keys were declared impossible" in told.sentences["zeros"]
    n = made.n_dropped
    assert (f"{3000:,} records; {n} with an" in told.sentences["sample.n_records"]) == bool(n)
    assert ('<th scope="row">Left out</th>' in page) == bool(n)


def test_many_rows_that_break_a_rule_are_a_warning() -> None:
    facts = zeros_facts(handled("drop"))
    assert facts is not None
    few = replace(facts, n_conflicts=3, n_dropped=3, n_rows=3000)
    assert conflicts_sentence(few) == (
        "3 rows of the file break a rule and were left out, 0.1% of it: no number here includes "
        "them."
    )
    for policy in ({"n_dropped": 40}, {"n_dropped": 0, "n_set_missing": 40}):
        many = conflicts_sentence(replace(facts, n_conflicts=40, n_rows=3000, **policy))
        assert "1.3% of it" in many
        assert "These are many: check the rules" in many
    old = conflicts_sentence(replace(facts, n_rows=None))
    assert "%" not in old
    assert "These are many" not in old


def test_rules_are_escaped_and_long_lists_are_cut() -> None:
    rules = [f"AGE < {age} and SEX == 1 and REGION == {r}" for age in range(1, 6) for r in range(8)]
    facts = zeros_facts(handled("drop", rules))
    assert facts is not None
    shown = shown_rules(facts)
    assert len(shown) == MOST_LISTED < len(facts.rules)
    # Rules that rows break come first.
    broken = [rule.n_records > 0 for rule in shown]
    assert broken == sorted(broken, reverse=True)
    page = render(result_of(handled("drop", rules)), {})
    n_more = len(facts.rules) - MOST_LISTED
    assert f"and {n_more} more rules; all are in <code>result.json</code>" in page
    assert "AGE &lt; 1" in page


def test_a_result_with_zeros_is_read_back(tmp_path: Path) -> None:
    made = handled()
    written = write(estimate(made.table), tmp_path / "a", spec(), provenance(), made)
    read = load(tmp_path / "a")
    assert read.result == written
    assert read.spec.zeros is not None
    assert [rule.rule for rule in read.spec.zeros.rules] == [RULE]
    assert read.spec.zeros.on_conflict == "drop"


def test_a_result_of_before_is_read(tmp_path: Path) -> None:
    write(estimate(), tmp_path / "a", spec(), provenance())
    path = tmp_path / "a" / "result.json"
    values = json.loads(path.read_text())
    assert values.pop("zeros") is None
    assert values.pop("chains") == []
    from pydantic import TypeAdapter

    assert TypeAdapter(Result).validate_json(json.dumps(values)).zeros is None


def test_tables_become_rules_where_no_specification_names_them() -> None:
    cells = table()
    conditions = pd.DataFrame({"AGE": ["AGE-v17", None], "SEX": ["1", "1"], "REGION": ["11", "10"]})
    zeros = Zeros.of([("old", "AGE > 15 and REGION == 11")], cells.keys, tables=[conditions])
    made = apply_zeros(cells, zeros, "drop")
    full = spec_of(estimate(made.table), None, made)
    assert full.zeros is not None
    pairs = [(rule.name, rule.rule) for rule in full.zeros.rules]
    assert pairs[0] == ("old", "AGE > 15 and REGION == 11")
    again = Zeros.of(pairs, cells.keys)
    assert again.n_impossible == zeros.n_impossible
    assert np.array_equal(again.forbids(cells.cells), zeros.forbids(cells.cells))
    assert full.zeros.on_conflict == "drop"


def test_chains_are_shown_only_where_they_do_not_agree() -> None:
    converged = summarise(estimate(), spec(), provenance())
    assert converged.chains == ()
    assert chain_means(converged) == ""
    assert "τ1 by chain" not in render(converged, {})
    found = estimate(converged=False)
    assert found.draws is not None
    told = summarise(found, spec(), provenance())
    tau1 = found.draws.scalars["tau1"][:, 133:]
    assert [chain.chain for chain in told.chains] == [1, 2, 3, 4]
    assert [chain.tau1 for chain in told.chains] == pytest.approx(tau1.mean(axis=1))
    for chain, draws in zip(told.chains, tau1, strict=True):
        assert np.mean((draws >= chain.lower) & (draws <= chain.upper)) >= 0.95
        assert chain.share == pytest.approx(chain.tau1 / told.records.n_judged)
    assert told.sentences["chains"]
    page = render(told, {})
    assert "τ1 by chain. Estimate from each chain alone." in page
    assert chain_means(told).startswith("Mean of τ1 by chain: ")


def test_chains_are_shown_where_the_expected_measures_disagree() -> None:
    found = estimate()
    apart = replace(found, tau1_expected=replace(found.tau1_expected, rhat=1.2))
    assert len(summarise(apart, spec(), provenance()).chains) == 4


def test_the_table_of_a_specification(tmp_path: Path) -> None:
    assert AssessmentSpec.parse({"keys": "A,B"}).zeros is None
    values = {"rules": ["A == 1", {"rule": "B == 2", "name": "two"}], "tables": ["deep/t.csv"]}
    parsed = AssessmentSpec.parse({"zeros": values}, folder=tmp_path)
    assert parsed.zeros is not None
    assert parsed.zeros.tables == (tmp_path / "deep" / "t.csv",)
    text = parsed.to_toml(tmp_path / "deep")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.toml").write_text(text)
    again = AssessmentSpec.read(tmp_path / "deep" / "a.toml", SHOWN)
    assert again.zeros is not None
    assert again.zeros.model_dump() == parsed.zeros.model_dump()
    assert tomllib.loads(text)["zeros"]["rules"] == ["A == 1", {"rule": "B == 2", "name": "two"}]
    (tmp_path / "zeros.toml").write_text("rules = ['A == 1']\non_conflict = 'missing'\n")
    assert ZerosSpec.read(tmp_path / "zeros.toml").on_conflict == "missing"
    overruled = ZerosSpec.read(tmp_path / "zeros.toml", "drop")
    assert (overruled.on_conflict, overruled.source) == ("drop", str(tmp_path / "zeros.toml"))
    assert ZerosSpec.read(tmp_path / "t.parquet").tables == (tmp_path / "t.parquet",)
