"""Plans that suppress values instead of joining more levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import unikat
from protection.test_subsample import crowd, options
from unikat.errors import SpecError
from unikat.protection.lost import information_lost
from unikat.spec.limits import Limit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "more"),
    [
        ("tau1 <= 5", {}),
        ("k >= 3", {"weight_of_suppressed": 2.0}),
        ("tau1 <= 4", {"subsample": "0.5,1", "perturbation_seed": 4}),
    ],
)
def test_the_cheapest_plan_suppresses_where_that_costs_less(
    target: str, more: dict[str, Any]
) -> None:
    frame = crowd()
    whole = unikat.protect(frame, **options(target=target, **more)).summary
    found = unikat.protect(frame, **options(target=target, suppress="search", **more)).summary
    assert found.verdict == whole.verdict == "met"
    assert found.lost < whole.lost
    assert found.suppression is not None
    assert found.suppression.n_values > 0
    variants = [plan for plan in found.plans if plan.suppress]
    assert len(variants) > 1
    # It is the cheapest of those that were looked at by few states, or nearly.
    assert found.lost <= min(plan.lost for plan in variants) + 0.02
    assert found.chosen.suppress is None
    assert found.released is not None
    assert Limit.of(target).met(
        {"tau1": found.after.tau1.upper, "k": found.after.smallest}[target[: target.index(" ")]]
    )


@pytest.mark.slow
def test_a_suppressed_value_counts_as_often_as_is_asked() -> None:
    frame = crowd()
    lost = [
        unikat.protect(
            frame, **options(target="tau1 <= 5", suppress="search", weight_of_suppressed=weight)
        ).summary
        for weight in (1.0, 20.0)
    ]
    values = [0 if one.suppression is None else one.suppression.n_values for one in lost]
    assert values[0] > values[1]
    assert lost[0].lost < lost[1].lost


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
        ({"target": "r1 <= 0.1"}, "is for targets of tau1, tau2 or k, not 'r1 <= 0.1'"),
        ({"recode": "age: width(10)"}, "looks for the plan that reaches one --target"),
        ({"target": "tau1 <= 5", "pram": {"sex": 0.9}}, "--pram and --swap change them"),
    ],
)
def test_what_cannot_be_asked(more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        unikat.protect(crowd(), **options(suppress="search", **more))
    assert said in str(caught.value)
