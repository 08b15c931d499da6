"""Plans that perturb or suppress values instead of joining more levels."""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unikat
from protection.test_subsample import crowd, options, posterior_of
from unikat.errors import SpecError
from unikat.protection.hierarchies import choices
from unikat.protection.lost import information_lost
from unikat.protection.recoding import Recoding, parse_recoding
from unikat.protection.release import Releases
from unikat.protection.released_plans import ReleasedPlans
from unikat.protection.search import Frontier, Plan, Search, Value, frontier
from unikat.protection.what_if import Posterior
from unikat.spec.limits import Limit
from unikat.spec.protection import ProtectionSpec

AUTO = "auto:candidates=latent-class"


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    whole = unikat.Design(population_size=6_000)
    return posterior_of(unikat.read(crowd(), ["sex", "age", "area"], whole).tabulate())


def limit_of(posterior: Posterior, measure: str) -> Limit:
    if measure == "k":
        return Limit.of("k >= 2")
    recoding, one = parse_recoding(posterior.table, {}), Limit.of(f"{measure} <= 1")
    return Limit.of(f"{measure} <= {0.3 * posterior.measured(recoding, one, 0.95):.4f}")


def releases_of(posterior: Posterior, **more: Any) -> Releases:
    table = posterior.table
    how: dict[str, Any] = {"weights": [1.0] * 3, "level": 0.95, "seed": 1}
    return Releases(
        posterior=posterior,
        codes=table.cells[table.record_cell],
        assessed=np.arange(table.n_records),
        **(how | more),
    )


def frontier_of(posterior: Posterior, target: Limit, **more: Any) -> Frontier:

    def evaluate(recoding: Recoding) -> Value:
        return posterior.value(recoding, target, 0.95)

    search = Search.of(choices(posterior.table, **more), evaluate)
    return frontier(search, target, posterior.tau1)


def planned(posterior: Posterior, target: Limit, weight: float) -> tuple[ReleasedPlans, Frontier]:
    releases = releases_of(posterior, weight_of_suppressed=weight)
    return ReleasedPlans(releases=releases, target=target), frontier_of(posterior, target)


@pytest.mark.parametrize("measure", ["tau1_estimate", "tau2_estimate", "k"])
def test_the_cheapest_plan_suppresses_where_that_costs_less(
    posterior: Posterior, measure: str
) -> None:
    limit = limit_of(posterior, measure)
    plans, found = planned(posterior, limit, 1.0)
    assert found.reached is not None
    best = plans.best(found.plans, found.reached.cost)
    assert best is not None
    assert best.cost < found.reached.cost
    assert best.release.suppressed is not None
    assert best.release.suppressed.any()
    value = best.matches.measured.value(limit)
    assert value is not None
    assert limit.met(value)
    # What is known of every plan of the frontier.
    each = [plans._looked_at(plan, {}) for plan in found.plans]
    assert best.cost <= min(one.cost for one in each if one is not None) + 0.02


def test_a_plan_whose_keys_left_out_cost_more_is_not_taken(posterior: Posterior) -> None:
    limit = limit_of(posterior, "tau1_estimate")
    plans, found = planned(posterior, limit, 1.0)
    best = plans.best(found.plans, 1.0)
    assert best is not None
    dear = [replace(plan, more=0.5) if plan is best.release.plan else plan for plan in found.plans]
    plans, _ = planned(posterior, limit, 1.0)
    other = plans.best(dear, math.inf)
    assert other is not None
    assert other.release.plan.recoding is not best.release.plan.recoding
    assert other.cost < best.cost + 0.5


def test_a_suppressed_value_counts_as_often_as_is_asked(posterior: Posterior) -> None:
    n_values, limit = [], limit_of(posterior, "tau1_estimate")
    for weight in (1.0, 50.0):
        plans, found = planned(posterior, limit, weight)
        best = plans.best(found.plans, found.reached.cost)
        n_values.append(0 if best is None else int((best.release.visible < 0).sum()))
    assert n_values[0] > n_values[1]
    assert planned(posterior, limit, 1.0)[0].best([], 1.0) is None


@pytest.mark.slow
def test_a_protection_carries_out_the_plan() -> None:
    asked = options(target="k >= 3", weight_of_suppressed=1.0)
    whole = unikat.protect(crowd(), **asked).summary
    made = unikat.protect(crowd(), **asked, suppress="search")
    found = made.summary
    assert found.verdict == whole.verdict == "met"
    assert found.lost < whole.lost
    assert found.suppression is not None
    assert found.suppression.rule == "k >= 3"
    assert found.suppression.n_values == made.frame[["sex", "age", "area"]].isna().sum().sum()
    assert len([plan for plan in found.plans if plan.suppress]) > 1
    assert found.chosen.suppress is None
    assert found.after.smallest >= 3


def test_the_loss_of_suppressed_values_is_a_multiple() -> None:
    from unikat.data.keys import Key
    from unikat.protection.recoding import Recoding, unchanged

    codes = np.arange(4)[:, None]
    recoding = Recoding(keys=(unchanged(Key.of_size("a", 4)),))
    for weight in (1.0, 3.0):
        lost = information_lost(
            codes, recoding, [1.0], suppressed=codes == 0, weight_of_suppressed=weight
        )
        assert lost == pytest.approx(weight / 4.0)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"target": "tau1 <= 5"}, "which latent-class alone understates"),
        (
            {"target": "r1 <= 0.1", "model": AUTO},
            "is for targets of tau1, tau2 or k, not 'r1 <= 0.1'",
        ),
        ({"recode": "age: width(10)"}, "looks for the plan that reaches one --target"),
        (
            {"target": "tau1 <= 5", "swap": "sex", "model": AUTO},
            "--swap is done after it",
        ),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.protect(crowd(), **options(suppress="search", **more))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"target": "r1 <= 0.1"}, "is for targets of tau1, tau2 or k"),
        ({}, "looks for the plan that reaches one --target"),
        ({"target": "tau1 <= 5", "swap": "sex"}, "--swap is done after it"),
        ({"target": "tau1 <= 5", "pram": "area: 0.8, 0.8"}, "must be different ones"),
        ({"target": "tau1 <= 5", "pram": "area: 0.8, 1.5"}, "less than or equal to 1"),
        ({"target": "tau1 <= 5", "pram": "area: 0.8, b.csv"}, "cannot be read"),
        ({"target": "tau1 <= 5", "pram": "area: 1"}, "from 0 to below 1"),
        (
            {"target": "tau1 <= 5", "pram": {"area": [i / 80 for i in range(80)]}},
            "80 combinations of the probabilities",
        ),
    ],
)
def test_what_cannot_be_perturbed_by_search(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.protect(crowd(), **options(**({"pram": "area: 0.5, 0.9"} | more)))
    assert said in str(caught.value)


def test_several_probabilities_are_read_and_written(tmp_path: Path) -> None:
    spec = ProtectionSpec.parse(
        {"keys": "a,b,c", "target": "tau1 <= 5", "pram": "a: 0.8, 1; b: .5; c: 0.9, 0.7"}
    )
    assert spec.pram == {"a": (0.8, 1.0), "b": 0.5, "c": (0.9, 0.7)}
    assert spec.perturbations == (
        {"b": 0.5, "c": 0.9},
        {"a": 0.8, "b": 0.5, "c": 0.9},
        {"b": 0.5, "c": 0.7},
        {"a": 0.8, "b": 0.5, "c": 0.7},
    )
    # The weakest first, by what is redrawn in all.
    redrawn = [sum(1.0 - one for one in some.values()) for some in spec.perturbations]
    assert redrawn == sorted(redrawn)
    assert ProtectionSpec.parse(tomllib.loads(spec.to_toml(tmp_path))).pram == spec.pram


PRAM = ({"area": 0.9}, {"area": 0.6}, {"age": 0.7, "area": 0.6}, {"age": 0.3, "area": 0.2})


@pytest.mark.parametrize("measure", ["tau1_estimate", "tau2_estimate"])
def test_the_cheapest_perturbation_is_that_of_an_enumeration(
    posterior: Posterior, measure: str
) -> None:
    limit = limit_of(posterior, measure)
    found = frontier_of(posterior, limit, there=["area", "age"])
    # Redrawn areas cost nearly nothing.
    releases = releases_of(posterior, weights=[1.0, 1.0, 0.01])
    plans = ReleasedPlans(releases=releases, target=limit, perturbations=PRAM, suppress=False)
    best = plans.best(found.plans, 1.0)
    assert best is not None
    value = best.matches.measured.value(limit)
    assert value is not None
    assert limit.met(value)
    reached = []
    for plan in found.plans:
        for pram in PRAM:
            release = releases.of(plan, pram, None)
            of_file = releases.matches(release).measured.value(limit)
            if of_file is not None and limit.met(of_file):
                reached.append(release.lost + plan.more)
    assert best.cost <= min(reached) + 0.02
    # The search looks at what is written: the same records, by the same seed.
    again = releases.of(best.release.plan, best.release.pram, None)
    np.testing.assert_array_equal(again.visible, best.release.visible)
    assert releases.matches(again) == best.matches
    assert again.lost == information_lost(
        releases.codes,
        again.plan.recoding,
        releases.weights,
        perturbed=again.visible,
    )


def test_a_plan_that_misses_by_all_states_is_not_taken(
    posterior: Posterior, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = limit_of(posterior, "tau1_estimate")
    found = frontier_of(posterior, limit, there=["area"])
    releases = releases_of(posterior)

    def plans() -> ReleasedPlans:
        some = ({"area": 0.9}, {"area": 0.5})
        return ReleasedPlans(releases=releases, target=limit, perturbations=some, suppress=False)

    first = plans().best(found.plans, 1.0)
    assert first is not None
    looked_at, rejected = Releases.matches, first.release

    def strict(self: Releases, release: Any, known: Any = None, n_states: int = 400) -> Any:
        one = looked_at(self, release, known, n_states)
        same = release.plan is rejected.plan and release.pram == rejected.pram
        if same and n_states >= 400:
            return replace(one, tau1=replace(one.tau1, mean=limit.bound + 1.0))
        return one

    monkeypatch.setattr(Releases, "matches", strict)
    second = plans().best(found.plans, 1.0)
    assert second is not None
    assert (second.release.plan, second.release.pram) != (first.release.plan, first.release.pram)
    assert second.cost >= first.cost
    value = second.matches.measured.value(limit)
    assert value is not None
    assert limit.met(value)


def test_a_key_that_a_plan_leaves_out_is_not_perturbed(posterior: Posterior) -> None:
    releases = releases_of(posterior)
    plans = ReleasedPlans(
        releases=releases, target=Limit.of("k >= 1"), perturbations=PRAM, suppress=False
    )
    without, kept = (
        Plan(recoding=parse_recoding(posterior.table, rules), lost=0.1, value=Value(0, 0))
        for rules in ({"area": None}, {})
    )
    assert plans.best([without], 1.0) is None
    assert not plans.seen
    found = plans.best([without, kept], 1.0)
    assert found is not None
    assert found.release.plan is kept
    plans.seen.clear()
    # A plan that loses more than what there is already is not looked at.
    assert plans.best([without, kept], 0.11) is None
    assert plans.dear == set(plans.seen)


def test_suppression_by_risk_looks_at_true_values(posterior: Posterior) -> None:
    releases = releases_of(posterior)
    plan = Plan(recoding=parse_recoding(posterior.table, {}), lost=0.0, value=Value(0, 0))
    alone = releases.of(plan, {}, "r1 <= 0.1")
    both = releases.of(plan, {"area": 0.5}, "r1 <= 0.1")
    np.testing.assert_array_equal(both.suppressed, alone.suppressed)
    assert both.perturbed is not None
    assert (both.visible != alone.visible).any()
    assert both.lost > alone.lost


@pytest.mark.slow
def test_a_protection_carries_out_the_perturbation(tmp_path: Path) -> None:
    frame = crowd()
    asked = options(target="tau1_estimate <= 8", perturbation_seed=3)
    asked |= {"pram": "area: 0.8, 0.3, 1", "keep": ["sex"], "weights_of_keys": {"area": 0.01}}
    # To recode the area costs nothing either.
    asked |= {"recodings": {"area": []}}
    own = ("pram", "perturbation_seed")
    whole = unikat.protect(frame, **{k: v for k, v in asked.items() if k not in own}).summary
    made = unikat.protect(frame, **asked, out=tmp_path / "made")
    found = made.summary
    assert found.verdict == "met"
    assert found.perturbation is not None
    assert found.lost < whole.lost
    assert found.target is not None
    # What is judged is the file that was written.
    assert found.target.value == found.perturbation.tau1.mean <= 8.0
    (area,) = found.perturbation.keys
    if "area" not in found.chosen.recodings:
        assert area.n_changed == int((made.frame["area"].to_numpy() != frame["area"]).sum())
    perturbed = [plan.perturb for plan in found.plans if plan.perturb]
    assert set(perturbed) <= {"area: 0.8", "area: 0.3"}
    assert perturbed
    assert set(made.plans["perturb"].dropna()) == set(perturbed)
    written = json.loads((tmp_path / "made" / "protect.json").read_text())
    assert [one["perturb"] for one in written["plans"] if one["perturb"]] == perturbed
    # All that was to choose from stands in the specification, so that it repeats the run.
    assert made.spec.pram == {"area": (0.8, 0.3, 1.0)}
    assert "perturbed" in made.plan.also
