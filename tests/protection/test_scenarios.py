"""Scenarios: the search against all plans, intruders who know the sample against counting."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import KEYS, QUICK, people
from protection.test_what_if import ALONE, SHORT, sample_of
from unikat.cli.main import main
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.named import build_model
from unikat.protection.hierarchies import choices
from unikat.protection.recoding import parse_recoding
from unikat.protection.scenarios import Scenario, Scenarios
from unikat.protection.search import Search, frontier
from unikat.protection.what_if import Posterior
from unikat.report.facts.protection import ScenarioFacts
from unikat.report.text.protection import scenario_rows, verdict_of
from unikat.risk.limits import judge, together
from unikat.spec.limits import Limit
from unikat.spec.protection import ProtectionSpec
from unikat.spec.scenarios import ScenarioSpec
from unikat.spec.trust import SHOWN
from unikat.studies.fit import fit

GIVEN: dict[str, list[Any]] = {
    "A": [[[0, 1]], [[0, 1], [2, 3]], None],
    "B": [[[1, 2]], None],
    "C": [None],
    "D": [[[0, 1]], [[1, 2]], None],
}
SETS: list[list[tuple[str, str, bool]]] = [
    [("AB", "tau1_estimate <= 0.02", False), ("BCD", "r1 <= 0.2", False), ("AD", "k >= 4", True)],
    [("ABCD", "tau1_estimate <= 6", True), ("ABC", "tau2_estimate <= 0.5", False)],
    [("ACD", "tau1 <= 1", False), ("B", "k >= 60", False), ("BD", "r1 <= 0", True)],
]


def posterior_of(table: CellTable, n_states: int = 20) -> Posterior:
    found = fit(build_model("latent-class", {}), table, plan=SHORT, execution=ALONE)
    return Posterior.of(found, n_states=n_states, n_threads=1)


def scenario(table: CellTable, keys: str, target: str, in_sample: bool) -> Scenario:
    (found,) = Scenario.of(keys, tuple(keys), [target], table, in_sample=in_sample)
    return found


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return posterior_of(sample_of(100))


@pytest.mark.parametrize("asked", SETS)
def test_the_plan_is_the_cheapest_of_all_that_reach_every_target(
    posterior: Posterior, asked: list[tuple[str, str, bool]]
) -> None:
    table = posterior.table
    parts = choices(table, given=GIVEN)
    both = Scenarios(
        posterior=posterior, scenarios=[scenario(table, *one) for one in asked], level=0.95
    )
    search = Search.of(parts, both.evaluate, [1.0, 0.7, 1.3, 0.9])
    census = replace(table, population_size=table.n_records)
    known = Posterior(table=census, fitted=census, model=posterior.model, data=None, states=())
    good, n_plans = [], 0
    for place in itertools.product(*(range(len(part.recodings)) for part in parts)):
        whole = search.recoding(place)
        if not whole.kept:
            continue
        n_plans += 1
        reached = True
        for one, (keys, text, in_sample) in zip(both.scenarios, asked, strict=True):
            target = Limit.of(text)
            own = [key for key in whole.keys if key.name in keys and key.key is not None]
            if not own:
                value = float(table.n_records) if target.measure == "k" else 0.0
            else:
                # By the rules of each key, as a single run with the keys of the scenario has them.
                rules = {
                    key.name: [np.flatnonzero(key.groups == g).tolist() for g in set(key.groups)]
                    for key in own
                }
                margin = parse_recoding(table, {name: rules.get(name) for name in "ABCD"})
                of = known if in_sample else posterior
                value = of.value(margin, target, 0.95).measure
            assert both.measure(one, whole, quickly=True) == pytest.approx(value)
            reached &= target.met(value)
        if reached:
            good.append(float(search.lost[place]))
    assert 0 < len(good) < n_plans

    found = frontier(search, both, posterior.tau1)
    assert found.reached is not None
    assert found.reached.lost == pytest.approx(min(good))
    assert found.plans[0].value.tau1 == posterior.tau1(search.recoding((0, 0, 0, 0)))
    # Each margin is looked at once, and most not at all.
    looks = [len({tuple(map(id, own)) for own, _ in seen}) for seen in both._found.values()]
    assert looks == [len(seen) for seen in both._found.values()]
    assert sum(looks) < n_plans


def test_one_who_knows_the_sample_identifies_its_uniques() -> None:
    rng = np.random.default_rng(4)
    whole = sample_of(80)
    codes = whole.cells[whole.record_cell]
    holes = np.where(rng.random(codes.shape) < 0.1, -1, codes).astype(np.int32)
    wildcard = CellTable.from_codes(holes, whole.keys, 960, "wildcard")
    for table in (whole, wildcard):
        posterior = Posterior(
            table=table, fitted=table, model=build_model("hdp", {}), data=None, states=()
        )
        recoding = parse_recoding(table, {"A": [[0, 1]], "D": [[1, 2]]})
        for keys in ("AB", "BCD", "ABCD"):
            places = ["ABCD".index(name) for name in keys]
            rows = recoding.codes(table.cells)[table.record_cell][:, places]
            alike = ((rows[:, None] == rows) | (rows[:, None] < 0) | (rows < 0)).all(axis=2)
            f = alike.sum(axis=1)
            expected = {
                "tau1_estimate <= 1": (f == 1).sum(), "tau2 <= 1": (f == 1).sum(),
                "k >= 2": f.min(), "tau1 <= 1": (f == 1).sum(), "r1 <= 0.1": float((f == 1).any()),
                "records(r1 > 0.2) <= 1": (f == 1).sum(), "population_k >= 2": f.min(),
            }  # fmt: skip
            for text, number in expected.items():
                one = scenario(table, keys, text, True)
                both = Scenarios(posterior=posterior, scenarios=[one], level=0.95)
                assert both.measure(one, recoding, quickly=True) == number, (keys, text)
                assert both.measure(one, recoding) == number, (keys, text)


def test_with_missing_keys_the_sample_is_a_population_of_its_records() -> None:
    """A fit has the same states whatever N is, so that a single run with N = n has the numbers."""
    table = sample_of(80, missing=0.1)
    census = replace(table, population_size=table.n_records)
    one, other = posterior_of(table), posterior_of(census)
    for text in ("tau1 <= 1", "r1 <= 0.1", "records(r1 > 0.5) <= 1"):
        asked = scenario(table, "ABD", text, True)
        both = Scenarios(posterior=one, scenarios=[asked], level=0.95)
        found = both.measure(asked, parse_recoding(table, {}), quickly=True)
        margin = parse_recoding(census, {"C": None})
        assert found == other.value(margin, asked.target, 0.95).measure > 0.0


@pytest.mark.slow
def test_a_scenario_and_a_single_run_have_the_same_numbers(tmp_path: Path) -> None:
    frame = people(200)
    source = tmp_path / "people.csv"
    frame.to_csv(source, index=False)
    (tmp_path / "three.toml").write_text(
        '[[scenario]]\nname = "neighbour"\nkeys = ["sex", "age"]\nin_sample = true\n'
        'target = "tau1 <= 3"\n'
        '[[scenario]]\nname = "employer"\nkeys = "education,age"\ntarget = ["k >= 2", "r1 <= 0.9"]'
    )
    command = ["protect", str(source), "--keys", KEYS, "--population-size", "8000",
               *QUICK, "--max-sweeps", "60",
               "--recodings", "age: width(5), width(20), left out", "--keep", "region",
               "--scenarios", str(tmp_path / "three.toml"), "--target", "tau1 <= 6"]  # fmt: skip
    # Not converged, so that nothing is known of the limits.
    assert main([*command, "--suppress", "k >= 2", "--out", str(tmp_path / "out")]) == 3
    found = json.loads((tmp_path / "out" / "protect.json").read_text())
    rows = {(one["name"], one["target"]["limit"]): one for one in found["scenarios"]}
    assert list(rows) == [
        ("all keys", "tau1 <= 6"), ("neighbour", "tau1 <= 3"), ("employer", "k >= 2"),
        ("employer", "r1 <= 0.9"),
    ]  # fmt: skip
    single = unikat.assess(frame, keys=["sex", "age"], population_size=len(frame))
    assert rows["neighbour", "tau1 <= 3"]["before"] == single.tau1.mean
    counts = Counter(zip(frame["education"], frame["age"], strict=True))
    assert rows["employer", "k >= 2"]["before"] == min(counts.values())
    # After by the plan, before values are suppressed: the records as the plan recodes them.
    plan, again = tmp_path / "out" / "plan.toml", tmp_path / "again.csv"
    assert main(["apply", str(plan), str(source), "--out", str(again)]) == 0
    after = pd.read_csv(again, dtype=str)
    seen = [name for name in ("sex", "age") if name in after]
    n_alone = (after.groupby(seen).size() == 1).sum() if seen else 0
    assert rows["neighbour", "tau1 <= 3"]["after"] == n_alone <= 3
    assert rows["all keys", "tau1 <= 6"]["refit"] == found["refit"]["tau1"]["upper"]
    judged = []
    for (_, text), one in rows.items():
        assert Limit.of(text).met(one["after"])
        # The plan knows nothing of suppressed values; and the run has not converged.
        judged.append(judge(text, [one["refit"]], "not converged"))
        assert one["target"] == asdict(judged[-1])
    assert found["verdict"] == together(judged)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "education, age" in page or "age, education" in page
    # protect.toml repeats it.
    spec = ProtectionSpec.read(tmp_path / "out" / "protect.toml", SHOWN)
    assert [one.name for one in spec.scenarios] == ["neighbour", "employer"]
    assert spec.target == "tau1 <= 6"


@pytest.mark.parametrize(
    ("scenarios", "said"),
    [
        ([{"name": "x", "keys": "agee", "target": "k >= 2"}], "'agee' is none of the keys"),
        ([{"name": "x", "keys": "age", "target": "k > 2"}], "is no limit"),
        ([{"name": "x", "keys": "age", "target": []}], "has no target"),
        ([{"name": "x", "target": "k >= 2"}] * 2, "two scenarios have the same name"),
        ([{"name": "x", "target": "k >= 2", "knows": "age"}], "knows: no such name"),
        ([{"name": "boss", "keys": "sex", "target": "k >= 999"}], "of the scenario 'boss'; the be"),
    ],
)
def test_scenarios_that_cannot_be_used_are_refused(scenarios: list[Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        unikat.protect(
            people(60), keys=KEYS, population_size=900, scenarios=scenarios, keep="sex",
            model="latent-class", max_sweeps=60, chains=2, workers=1,
        )  # fmt: skip


def test_a_file_of_scenarios_holds_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    for text, said in (("", "has to hold"), ("keys = 'a'\nscenario = []", "it has 'keys'")):
        path.write_text(text)
        with pytest.raises(SpecError, match=said):
            unikat.protect(people(60), keys=KEYS, population_size=900, scenarios=path)


def test_a_target_that_the_new_fit_misses_is_a_missed_one() -> None:
    table = sample_of(60)
    one = scenario(table, "AB", "r1 <= 0.2", False)
    rows = tuple(
        ScenarioFacts.of(one, 0.5, 0.1, refit, judge(one.target, [0.1, refit]))
        for refit in (0.15, 0.25)
    )
    summary: Any = SimpleNamespace(
        scenarios=rows,
        told=False,
        target=None,
        perturbation=None,
        verdict=together(row.target for row in rows),
    )
    assert [row[-1] for row in scenario_rows(summary)] == ["verdict", "met", "not met"]
    said = verdict_of(summary)
    assert said is not None
    assert (said.verdict, said.title) == ("not met", "Limits not met: 1 of 2.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "\\u001b[31mred"\ntarget = "k >= 2"', "holds control characters"),
        (f'name = "{"x" * 201}"\ntarget = "k >= 2"', "more than 200"),
        ("name = 'all'\ntarget = [" + "'k >= 2'," * 201 + "]", "201 targets"),
        ('name = "all"\ntarget = 5', "scenario.0.target is 5; it must be"),
        ('name = 5\ntarget = "k >= 2"', "scenario.0.name is 5; it must be text"),
    ],
)
def test_scenarios_of_others_are_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    """A name was written into the page as it was, and messages were those of a library."""
    path = tmp_path / "scenarios.toml"
    path.write_text(f"[[scenario]]\n{text}\n")
    frame = pd.DataFrame({"a": [1, 2, 2, 1], "b": [1, 1, 2, 2]})
    with pytest.raises(SpecError, match=re.escape(said)):
        unikat.protect(frame, keys=["a", "b"], population_size=40, scenarios=path)


def test_a_name_of_a_scenario_is_one_line() -> None:
    assert ScenarioSpec(name=" two\nlines ", target="k >= 2").name == "two lines"
