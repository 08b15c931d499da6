"""Risk, loss and heading of a file as it is released: recoded, suppressed and perturbed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unikat
from protection.test_protect import KEYS, people
from protection.test_search import GIVEN, sample_of
from unikat.protection.hierarchies import choices
from unikat.protection.lost import information_lost, told_after
from unikat.protection.search import Search, Value

GIVEN_TO_ALL: dict[str, Any] = {
    "keys": KEYS, "population_size": 8000, "model": "latent-class", "max_sweeps": 150, "chains": 2,
    "workers": 1, "progress": False, "target": "k >= 1",
}  # fmt: skip


def by_records(codes: Any, true: Any, shown: Any, weights: list[float]) -> float:
    """The definition, value by value, without perturbation."""
    lost = gone = 0.0
    for j, weight in enumerate(weights):
        whole = told = hidden = 0.0
        known = [i for i in range(len(codes)) if codes[i, j] >= 0]
        for i in known:
            alike = sum(codes[h, j] == codes[i, j] for h in known)
            whole -= math.log2(alike / len(known))
            alike = sum(true[h, j] == true[i, j] for h in known)
            told -= math.log2(alike / len(known))
            hidden -= 0.0 if shown[i, j] else math.log2(alike / len(known))
        lost += weight * (1.0 - told / whole) ** 2
        gone += weight * hidden / whole
    return math.sqrt(lost / sum(weights)) + gone / sum(weights)


def test_information_lost_is_its_definition() -> None:
    table = sample_of(2)
    codes = table.cells[table.record_cell].copy()
    rng = np.random.default_rng(1)
    codes[rng.random(codes.shape) < 0.1] = -1
    weights = [1.0, 0.5, 2.0]
    search = Search.of(choices(table, given=GIVEN), lambda _: Value(0.0, 0.0), weights)
    recoding = search.recoding((2, 1, 0))
    true, hidden = recoding.codes(codes), rng.random(codes.shape) < 0.3
    found = information_lost(codes, recoding, weights, suppressed=hidden)
    assert found == pytest.approx(by_records(codes, true, ~hidden, weights), rel=1e-12)
    assert found > information_lost(codes, recoding, weights)
    assert information_lost(codes, recoding, weights, suppressed=np.ones_like(hidden)) == 1.0


def test_of_a_recoded_file_it_is_what_the_search_minimises() -> None:
    table = sample_of(3)
    codes, weights = table.cells[table.record_cell], [1.0, 0.5, 2.0]
    search = Search.of(choices(table, given=GIVEN), lambda _: Value(0.0, 0.0), weights)
    for place in np.ndindex(search.lost.shape):
        if place == search.nothing:
            continue
        found = information_lost(codes, search.recoding(place), weights)
        assert found == pytest.approx(float(search.lost[place]), abs=1e-12), place


@pytest.mark.parametrize("r", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_perturbed_values_tell_their_mutual_information(r: float) -> None:
    shares = np.array([0.5, 0.3, 0.15, 0.05])
    joint = (1.0 - r) * np.diag(shares) + r * np.outer(shares, shares)
    entropy = -(shares * np.log2(shares)).sum()
    logs = np.log2(np.where(joint > 0.0, joint, 1.0) / np.outer(shares, shares))
    changed = 1.0 - np.trace(joint)
    assert told_after(shares, changed) == pytest.approx((joint * logs).sum() / entropy, abs=1e-12)


def test_suppression_counts_in_risk_loss_and_heading(tmp_path: Path) -> None:
    frame, out = people(250), tmp_path / "out"
    found = unikat.protect(frame, **GIVEN_TO_ALL, suppress="r1 <= 0.02", out=out)
    what = found.summary
    assert what.suppression is not None
    assert what.suppression.n_values > 20
    assert what.chosen.recodings == {}
    # By the plan alone nothing falls and nothing is lost: that is not the released file.
    assert what.chosen.lost == 0.0
    assert what.chosen.risk.tau1 == what.before.tau1
    assert what.released is not None
    assert what.released.tau1.upper < what.before.tau1.lower
    assert what.after.tau1.upper == max(what.released.tau1.upper, what.refit.tau1.upper)
    shown = found.frame.notna()
    rows = {name: what.columns[j].n_suppressed for j, name in enumerate(KEYS.split(","))}
    assert sum(rows.values()) == what.suppression.n_values
    assert what.lost > 0.01
    # Sets of keys whose risk this fit says to be small are those of which it says too little.
    assert "about twice its estimate" in what.sentences["suppression"]
    answer = what.sentences["answer"]
    answer = answer.removeprefix("Provisional, not converged: ")
    assert answer.startswith("τ1 falls from ")
    assert "0% of the information" not in answer.replace("10%", "").replace("20%", "")
    assert (~shown[list(rows)]).sum().sum() == what.suppression.n_values
    numbers = json.loads((out / "protect.json").read_text())
    assert numbers["after"]["tau1"]["upper"] == what.after.tau1.upper
    assert numbers["lost"] == what.lost
    assert answer in repr(found)
    assert answer in (out / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [{"pram": {"age": 0.6}}, {"swap": "region: r1 > 0.01", "set": {"swap_match": ["sex"]}}],
    ids=["pram", "swap"],
)
def test_perturbation_counts_in_risk_loss_and_heading(how: dict[str, Any]) -> None:
    found = unikat.protect(people(250), **GIVEN_TO_ALL, **how, perturbation_seed=3)
    what = found.summary
    assert what.perturbation is not None
    assert what.after.tau1 == what.perturbation.tau1
    assert what.released is not None
    assert what.after.tau1.mean < what.before.tau1.mean
    assert what.lost > 0.0
    assert "τ1 falls from" in what.sentences["answer"]
    # Nothing was recoded, so nothing was fitted again, and all numbers are by the same states.
    assert what.refit.tau1 == what.before.tau1 == what.chosen.risk.tau1


@pytest.mark.slow
def test_a_plan_has_one_upper_end() -> None:
    """The search, what-if and the page: to the digit."""
    frame = people(250)
    given = {**GIVEN_TO_ALL, "target": "tau1 <= 4"}
    found = unikat.protect(frame, **given).summary
    del given["target"]
    result = unikat.assess(frame, **given)
    rules = {
        name: None if text == "left out" else text for name, text in found.chosen.recodings.items()
    }
    assert found.chosen.risk.tau1 == result.what_if(rules).tau1
    assert found.by_plan == found.chosen.risk.tau1.upper <= 4.0
    assert found.plans[0].risk.tau1 == found.before.tau1 == result.what_if({}).tau1
