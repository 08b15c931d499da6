"""Plans that suppress values instead of joining more levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unikat
from protection.test_subsample import crowd, options, posterior_of
from unikat.errors import SpecError
from unikat.protection.hierarchies import choices
from unikat.protection.lost import information_lost
from unikat.protection.recoding import Recoding, parse_recoding
from unikat.protection.search import Search, Value, frontier
from unikat.protection.suppressed_plans import SuppressedPlans
from unikat.protection.what_if import Posterior
from unikat.spec.limits import Limit

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


def planned(posterior: Posterior, target: Limit, weight: float) -> tuple[SuppressedPlans, Any]:

    def evaluate(recoding: Recoding) -> Value:
        return posterior.value(recoding, target, 0.95)

    search = Search.of(choices(posterior.table), evaluate)
    found = frontier(search, target, posterior.tau1)
    plans = SuppressedPlans(
        posterior=posterior,
        target=target,
        level=0.95,
        weights=[1.0] * 3,
        weight_of_suppressed=weight,
    )
    return plans, found


@pytest.mark.parametrize("measure", ["tau1_estimate", "tau2_estimate", "k"])
def test_the_cheapest_plan_suppresses_where_that_costs_less(
    posterior: Posterior, measure: str
) -> None:
    limit = limit_of(posterior, measure)
    plans, found = planned(posterior, limit, 1.0)
    assert found.reached is not None
    best = plans.best(found.plans, found.reached.lost)
    assert best is not None
    assert best.lost < found.reached.lost
    assert best.suppressed.any()
    value = best.matches.measured.value(limit)
    assert value is not None
    assert limit.met(value)
    # What is known of every plan of the frontier.
    each = [plans._looked_at(plan, 1.0) for plan in found.plans]
    assert best.lost <= min(one.lost for one in each if one is not None) + 0.02


def test_a_suppressed_value_counts_as_often_as_is_asked(posterior: Posterior) -> None:
    n_values, limit = [], limit_of(posterior, "tau1_estimate")
    for weight in (1.0, 50.0):
        plans, found = planned(posterior, limit, weight)
        best = plans.best(found.plans, found.reached.lost)
        n_values.append(0 if best is None else int(best.suppressed.sum()))
    assert n_values[0] > n_values[1]
    assert planned(posterior, limit, 1.0)[0].best([], 1.0) is None


@pytest.mark.slow
def test_a_protection_carries_out_the_plan() -> None:
    asked = options(target="k >= 3", weight_of_suppressed=2.0)
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
            {"target": "tau1 <= 5", "pram": {"sex": 0.9}, "model": AUTO},
            "--pram and --swap change them",
        ),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.protect(crowd(), **options(suppress="search", **more))
    assert said in str(caught.value)
