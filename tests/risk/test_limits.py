"""Limits: one string has one verdict at the same numbers, by whatever way it comes in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from report.estimates import estimate, provenance, spec, summarise
from unikat.cli.main import main
from unikat.errors import SpecError
from unikat.jobs.explore import Exploration
from unikat.jobs.protection_target import Stages, explicit_plan, verdicts_of
from unikat.protection.hierarchies import choices
from unikat.protection.recoding import Recoding, unchanged
from unikat.protection.scenarios import Scenario, Scenarios
from unikat.protection.what_if import Posterior
from unikat.report.text.verdict import apart, named, verdict_text
from unikat.report.text.words import changed
from unikat.risk.limits import Judged, Measured, judge, together
from unikat.spec.limits import Limit
from unikat.spec.trust import Trust

COLUMNS = {"keys": ["sex", "age", "education"], "progress": False}


# --- reasons that leave a verdict open ------------------------------------------------------------


def test_each_reason_has_to_allow_the_verdict() -> None:
    # The values of a file before it was perturbed are no bound of τ2 and k, whatever else is known.
    for text, value in [("tau2_estimate <= 20", 10.0), ("k >= 3", 4.0)]:
        for other in ("unreliable interval", "not converged"):
            assert judge(text, [value], [other, "perturbed"]).verdict == "not known"
    # PRAM can publish a combination that few persons have.
    assert judge("population_k >= 5", [6.0], "perturbed").verdict == "not known"
    assert judge("population_k >= 5", [6.0], "unreliable interval").verdict == "not known"
    assert judge("tau1 <= 5", [4.0], "perturbed").verdict == "met"


def test_shared_keys_leave_open_what_a_larger_risk_would_not_meet() -> None:
    for text in ("tau1 <= 5", "tau1_estimate <= 5", "r1 <= 0.2", "population_k >= 5"):
        good, bad = (9.0, 1.0) if ">=" in text else (0.1, 9.0)
        assert judge(text, [good], "shared keys").verdict == "not known"
        assert judge(text, [bad], "shared keys").verdict == "not met"
    assert judge("k >= 3", [4.0], "shared keys").verdict == "met"


def test_copies_leave_open_what_a_smaller_risk_would_meet() -> None:
    for text in ("tau1 <= 5", "tau1_estimate <= 5", "r1 <= 0.2", "population_k >= 5"):
        good, bad = (9.0, 1.0) if ">=" in text else (0.1, 9.0)
        assert judge(text, [good], "copies").verdict == "met"
        assert judge(text, [bad], "copies").verdict == "not known"
        for value in (good, bad):
            assert judge(text, [value], ["shared keys", "copies"]).verdict == "not known"
    assert judge("k >= 3", [4.0], ["shared keys", "copies"]).verdict == "met"


def test_no_limit_is_met_for_a_sample_of_households_that_share_many_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(150), 3)
    frame = pd.DataFrame({f"k{j}": rng.integers(0, 3, 150)[home] for j in range(7)})
    frame["sex"], frame["home"] = rng.integers(0, 2, 450), home
    found = unikat.assess(
        frame,
        keys=[*frame.columns[:8]],
        population_size=30_000,
        household="home",
        model="latent-class",
        max_sweeps=200,
        threshold="tau1_estimate <= 400",
        progress=False,
        seed=1,
    )
    sample = found.result.sample
    assert (sample.n_shared_keys, sample.n_households) == (7, 150)
    assert found.result.threshold is not None
    reason = "shared keys" if found.result.converged else "not converged"
    assert (found.verdict, found.result.threshold.reason) == ("not known", reason)


# --- the grammar ----------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["tau1", "tau2", "households.tau1", "households.tau2"])
def test_the_old_spelling_is_refused_with_the_new_one(end: str) -> None:
    with pytest.raises(ValueError, match=rf"write {end}, which is judged by the upper end"):
        Limit.of(f"{end}_upper <= 5")


def test_every_way_in_refuses_it_by_one_message(tmp_path: Path) -> None:
    frame = people(60)
    scenario = [{"name": "one", "keys": ["sex"], "target": "tau1_upper <= 5"}]
    common: Any = {**COLUMNS, "population_size": 900}
    ways: list[Any] = [
        lambda: unikat.assess(frame, threshold="tau1_upper <= 5", **common),
        lambda: unikat.protect(frame, target="tau1_upper <= 5", **common),
        lambda: unikat.protect(frame, scenarios=scenario, **common),
        lambda: unikat.protect(frame, target="k >= 2", suppress="tau1_upper <= 5", **common),
        lambda: unikat.verify(frame, protected=frame, target="tau1_upper <= 5", **common),
    ]
    for way in ways:
        with pytest.raises(SpecError, match="write tau1, which is judged by the upper end"):
            way()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tau1 <= 5", "τ1 ≤ 5"),
        ("tau2_estimate <= 1,000", "posterior mean of τ2 ≤ 1000"),
        ("households.tau1 <= 2.5", "τ1 of households ≤ 2.5"),
        ("records(r1 > 0.2) <= 3", "records(r1 > 0.2) ≤ 3"),
        ("population_k >= 5", "population k ≥ 5"),
    ],
)
def test_limits_are_read_as_they_are_written(text: str, said: str) -> None:
    limit = Limit.of(text)
    assert Limit.of(str(limit)) == limit
    assert named(str(limit)) == said


# --- the verdict ----------------------------------------------------------------------------------


def test_the_least_favourable_estimate_is_judged() -> None:
    assert judge("tau1 <= 5", [4.0, 5.0]).verdict == "met"
    assert judge("tau1 <= 5", [4.0, 5.0 + 1e-9]).verdict == "not met"
    assert judge("k >= 3", [3.0, 2.0]) == Judged(limit="k >= 3", value=2.0, verdict="not met")
    assert judge("r1 <= 0.2", [None, 0.1]).value == 0.1
    for values in ([], [None], [float("nan")]):
        found = judge("r1 <= 0.2", values)
        assert (found.value, found.verdict, found.reason) == (None, "not known", "not computed")


def test_numbers_that_cannot_be_relied_upon_have_no_verdict() -> None:
    for text, value in (("tau1 <= 5", 1.0), ("tau1 <= 5", 9.0), ("r1 <= 0.1", 0.5)):
        assert judge(text, [value], "not converged").verdict == "not known"
    # What is counted is known all the same, and an interval says nothing of an estimate.
    assert judge("k >= 3", [1.0], "not converged").verdict == "not met"
    assert judge("tau1_estimate <= 5", [4.0], "unreliable interval").verdict == "met"
    assert judge("tau1 <= 5", [4.0], "unreliable interval").verdict == "not known"
    # Perturbation makes no record a population unique; τ2 and k may get worse.
    assert judge("tau1 <= 5", [4.0], "perturbed").verdict == "met"
    assert judge("r1 <= 0.2", [0.3], "perturbed").verdict == "not known"
    for text, value in (("tau2 <= 5", 4.0), ("k >= 2", 9.0)):
        assert judge(text, [value], "perturbed").verdict == "not known"


def test_a_risk_that_no_record_has_is_not_known() -> None:
    found = estimate()
    assert Measured.of(found).value(Limit.of("r1 <= 0.2")) == np.nanmax(found.records.r1)
    none = replace(found, records=replace(found.records, r1=np.full(found.table.n_cells, np.nan)))
    for text in ("r1 <= 0.2", "records(r1 > 0.2) <= 5"):
        assert Measured.of(none).value(Limit.of(text)) is None


def test_all_limits_have_to_be_met() -> None:
    met, not_met = judge("k >= 3", [3.0]), judge("k >= 3", [2.0])
    open_ = judge("tau1 <= 5", [3.0], "not converged")
    assert together([]) is None
    assert together([met, met]) == "met"
    assert together([met, open_]) == "not known"
    assert together([open_, not_met, met]) == "not met"


LIMITS = (
    "tau1 <= {below}", "tau1 <= {upper}", "tau1_estimate <= {below}", "tau1_estimate <= {mean}",
    "tau1_estimate <= {less}", "tau2 <= {tau2}", "tau2 <= {less}", "r1 <= {r1}", "r1 <= 0.5",
    "records(r1 > 0.5) <= 3", "records(r1 > 0.99999) <= 3000", "k >= 1", "k >= 2",
)  # fmt: skip


@pytest.mark.parametrize("template", LIMITS)
def test_one_string_has_one_verdict_at_the_same_numbers(template: str) -> None:
    """Through assess, protect, its scenarios, what-if and the sliders of the workbench."""
    found = estimate()
    r1 = float(np.nanmax(found.records.r1))
    # Between the estimate and the upper end: the two rules of before had two verdicts here.
    below = (found.tau1.mean + found.tau1.upper) / 2.0
    text = template.format(
        below=f"{below:.6f}", upper=f"{found.tau1.upper:.6f}", mean=f"{found.tau1.mean + 1e-6:.6f}",
        less=f"{found.tau1.mean - 1.0:.6f}", tau2=f"{found.tau2.upper + 1e-6:.6f}",
        r1=f"{r1 + 1e-6:.6f}",
    )  # fmt: skip
    limit, table = Limit.of(text), found.table
    posterior = Posterior(
        table=table, fitted=table, model=SimpleNamespace(), data=None, states=()  # type: ignore[arg-type]
    )  # fmt: skip
    whole = Recoding(keys=tuple(map(unchanged, table.keys)))
    asked = Scenario.of("all keys", (), [text], table, in_sample=False)
    scenarios = Scenarios(posterior=posterior, scenarios=asked, level=0.95)
    stages = Stages(found, found, table, lambda: posterior, found, released=None, unknown=())
    parts = choices(table, given={key.name: [] for key in table.keys})
    sliders = Exploration(folder="", posterior=posterior, level=0.95, unknown=None, parts=parts)
    steps = (0,) * table.n_keys
    sliders._seen[steps, ()] = found
    plan = explicit_plan(table, {}, [1.0] * table.n_keys)
    looked = sliders.look(steps, text).judged
    assert looked is not None
    verdicts = {
        "assess": summarise(found, spec(threshold=text), provenance()).threshold,
        "protect": verdicts_of(0.95, scenarios, plan, stages)[0].target,
        "what-if": judge(limit, [posterior.measured(whole, limit, 0.95, found)]),
        "verify": judge(limit, [Measured.of(found).value(limit)]),
        "workbench": looked,
    }
    assert len({str(one) for one in verdicts.values()}) == 1, verdicts
    expected = {
        "tau1 <= {below}": "not met", "tau1_estimate <= {below}": "met", "k >= 2": "not met",
        "tau1 <= {upper}": "met", "tau1_estimate <= {less}": "not met", "r1 <= {r1}": "met",
        "r1 <= 0.5": "not met",
    }  # fmt: skip
    assert looked.verdict == expected.get(template, looked.verdict)


@pytest.mark.parametrize("text", ["tau1 <= 0", "tau1 <= 100", "r1 <= 0.5", "k >= 2", "k >= 1"])
def test_whole_runs_of_one_file_have_one_verdict(tmp_path: Path, text: str) -> None:
    """Of a whole population nothing is estimated, so that all numbers are the same."""
    frame = people(120)
    rules = {"age": "width(20)"}
    grouped = frame.assign(age=[f"{age // 20 * 20}-{age // 20 * 20 + 19}" for age in frame["age"]])
    whole: Any = {**COLUMNS, "population_size": len(frame)}
    assessed = unikat.assess(grouped, threshold=text, **whole)
    protected = unikat.protect(frame, recode=rules, target=text, **whole)
    scenario = unikat.protect(
        frame, recode=rules, scenarios=[{"name": "one", "target": text}], **whole
    )
    verified = unikat.verify(frame, protected=protected.frame, target=text, **whole)
    source = tmp_path / "people.csv"
    grouped.to_csv(source, index=False)
    unikat.assess(source, keep_states=True, out=tmp_path / "run", **whole)
    # Of a fresh assessment, a loaded one, and recoded keys.
    loaded = unikat.load(tmp_path / "run")
    judged = {
        str(one)
        for one in (
            assessed.judge(text), loaded.judge(text),
            unikat.assess(frame, **whole).judge(text, rules),
        )
    }  # fmt: skip
    assert judged == {str(assessed.result.threshold)}
    sliders = Exploration.open(tmp_path / "run", trust=Trust(inside=tmp_path))
    looked = sliders.look([0, 0, 0], text).judged
    assert looked is not None
    verdicts = {
        assessed.verdict, protected.verdict, scenario.verdict, verified.verdict, looked.verdict
    }  # fmt: skip
    assert len(verdicts) == 1
    values = {
        assessed.result.threshold and assessed.result.threshold.value,
        protected.summary.target and protected.summary.target.value,
        scenario.summary.scenarios[0].target.value,
        verified.summary.target and verified.summary.target.value,
        looked.value,
    }
    assert len(values) == 1
    assert verdicts <= {"met", "not met"}


def test_the_exit_code_is_3_if_a_limit_is_not_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = people(80)
    source, safe = tmp_path / "people.csv", tmp_path / "safe.csv"
    frame.to_csv(source, index=False)
    frame.to_csv(safe, index=False)
    keys = ["--keys", "sex,age,education", "--population-size", "80"]
    for text, code, verdict in (("k >= 2", 3, "not met"), ("k >= 1", 0, "met")):
        out = tmp_path / f"out{code}"
        runs = (
            (["assess", str(source), "--threshold", text], "result.json"),
            (["protect", str(source), "--recode", "age: width(5)", "--target", text],
             "protect.json"),
            (["verify", str(source), str(safe), "--target", text], "verify.json"),
        )  # fmt: skip
        for command, file in runs:
            folder = out / file
            assert main([*command, *keys, "--out", str(folder)]) == code, command
            found = json.loads((folder / file).read_text())
            assert found["verdict"] == verdict
            page = (folder / "report.html").read_text()
            assert page.count(f'<span class="verdict {verdict.replace(" ", "-")}">') == 1
            title = f"Limit {verdict}: {named(text)}."
            assert f"<title>{title} " in page
            assert title in " ".join(capsys.readouterr().out.split())


def test_a_run_that_has_not_converged_ends_with_2_and_no_verdict(tmp_path: Path) -> None:
    source = tmp_path / "people.csv"
    people(200).to_csv(source, index=False)
    command = [
        "assess", str(source), "--keys", "sex,age,education", "--population-size", "9000",
        "--model", "latent-class", "--max-sweeps", "20", "--chains", "2", "--workers", "1",
        "--quiet", "--threshold",
    ]  # fmt: skip
    assert main([*command, "tau1 <= 0", "--out", str(tmp_path / "a")]) == 2
    found = json.loads((tmp_path / "a" / "result.json").read_text())
    assert (found["verdict"], found["threshold"]["reason"]) == ("not known", "not converged")
    assert unikat.load(tmp_path / "a").verdict == "not known"
    # What is counted is not met all the same, and the run has not converged all the same.
    assert main([*command, "k >= 2", "--out", str(tmp_path / "b")]) == 2
    assert json.loads((tmp_path / "b" / "result.json").read_text())["verdict"] == "not met"
    again = [
        "assess",
        str(tmp_path / "b" / "assessment.toml"),
        "--allow-unconverged",
        "--quiet",
        "--trust-spec",
    ]
    assert main([*again, "--out", str(tmp_path / "c")]) == 3


# --- the words ------------------------------------------------------------------------------------


def test_the_number_beside_a_limit_is_told_apart_from_it() -> None:
    assert apart(5.0004, 5.0) == "5.0004"
    said = verdict_text(judge("r1 <= 0.2", [0.2000001]), 0.95)
    assert said.title == "Limit not met: r1 ≤ 0.2."
    assert said.sentence == "The largest r1 of a record is 0.2000001."


@pytest.mark.parametrize(
    ("before", "after", "verb"),
    [(11.0, 5.0, "falls"), (10.0, 11.0, "rises"), (10.2, 10.3, "stays"), (7.0, 7.0, "stays")],
)
def test_a_change_is_told_as_the_reader_sees_it(before: float, after: float, verb: str) -> None:
    one, two = (
        SimpleNamespace(mean=mean, lower=mean - 1.0, upper=mean + 1.0) for mean in (before, after)
    )
    assert changed("τ1", one, two).startswith(f"τ1 {verb}")


def test_households_have_limits_of_their_own() -> None:
    rng = np.random.default_rng(5)
    n = 240
    frame = pd.DataFrame(
        {"home": np.arange(n) // 3, "sex": rng.choice(["f", "m"], n), "age": rng.integers(0, 6, n)}
    )
    common: Any = {
        "keys": ["sex", "age"], "household": "home", "population_households": 80,
        "model": "households", "progress": False,
    }  # fmt: skip
    found = unikat.assess(frame, threshold="households.tau1 <= 1", **common)
    assert found.result.households is not None
    assert found.result.threshold == judge(
        "households.tau1 <= 1", [found.result.households.tau1.upper]
    )
    assert "τ1 of households ≤ 1" in found.result.sentences["threshold"]
    with pytest.raises(SpecError, match=r"add --model households, or write tau1"):
        unikat.assess(
            frame, threshold="households.tau1 <= 1", keys=["sex", "age"], population_size=400
        )
    with pytest.raises(SpecError, match="the units here are persons; write tau1"):
        unikat.protect(
            frame, target="households.tau1 <= 1", keys=["sex", "age"], population_size=400
        )
