"""Households that hide different keys, lack some, or have a head apart: against loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from protection.test_suppressed_households import homes, sets_of, shown_of
from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.protection.perturbed import correct_matches
from unikat.protection.recoding import parse_recoding
from unikat.protection.release import suppressed_values
from unikat.protection.suppression import KAnonymity, suppress_households
from unikat.protection.what_if import Posterior
from unikat.spec.limits import Limit


def census_of(layout: HouseholdLayout, rows: Any) -> Posterior:
    """A file that is the whole population, so that all is counted."""
    return Posterior.without_model(
        CellTable.from_codes(rows, layout.columns, len(rows), layout=layout)
    )


@pytest.mark.parametrize("seed", range(6))
def test_matches_with_households_that_hide_different_keys(seed: int) -> None:
    """Who is alone, with true values of others behind theirs; k by what both show."""
    rng = np.random.default_rng(seed)
    layout, rows = homes(rng, 25)
    sets = sets_of(3)
    hidden = np.array([sets[k] for k in rng.choice(len(sets), len(rows), p=[0.65] + [0.05] * 7)])
    published = layout.hiding(rows, hidden)
    posterior = census_of(layout, rows)
    whole = parse_recoding(posterior.table, {})
    found = correct_matches(posterior, whole, published, 0.95, unsuppressed=rows)
    alike = [
        sum(shown_of(layout, other, mine) == shown_of(layout, row, mine) for other in rows)
        for row, mine in zip(rows, hidden, strict=True)
    ]
    both = [
        sum(
            shown_of(layout, other, mine | theirs) == shown_of(layout, row, mine | theirs)
            for other, theirs in zip(rows, hidden, strict=True)
        )
        for row, mine in zip(rows, hidden, strict=True)
    ]
    assert found.n_uniques == found.n_true == found.tau1.mean == sum(n == 1 for n in alike)
    assert found.tau2.mean == found.tau1.mean
    assert found.smallest == min(both)
    assert found.n_uniques > 0


def with_heads(rng: np.random.Generator, n: int) -> tuple[HouseholdLayout, Any]:
    """Households of two or three, whose heads have a key of two that is theirs apart."""
    age, sex = Key.of_size("age", 3), Key.of_size("sex", 2)
    layout = HouseholdLayout(
        household_keys=(Key.of_size("size", 3), Key.of_size("head.sex", 2)),
        person_keys=(age, sex),
        n_slots=2,
        head_apart=True,
    )
    sizes = rng.integers(0, 3, n)
    persons = np.column_stack((rng.integers(0, 3, sizes.sum()), rng.integers(0, 2, sizes.sum())))
    return layout, layout.pack(np.column_stack((sizes, rng.integers(0, 2, n))), persons)


def test_a_key_that_the_head_has_apart_is_hidden_of_the_head_too() -> None:
    layout, rows = with_heads(np.random.default_rng(3), 40)
    assert [layout.name_of(key) for key in layout.variables] == ["sex", "age", "sex"]
    posterior = census_of(layout, rows)
    whole = parse_recoding(posterior.table, {})
    names = [one.name for one in whole.keys]
    hidden = suppressed_values(
        Limit.of("households.k >= 3"), posterior, whole, rows, [1.0] * len(names), ()
    )
    of_key = np.array([[name == "sex", name == "age", name == "sex"] for name in names])
    assert hidden[:, names.index("sex")].any()
    for row, mine in zip(rows, hidden, strict=True):
        costs = []
        for some in sets_of(len(names)):
            seen = shown_of(layout, row, some @ of_key)
            if sum(shown_of(layout, other, some @ of_key) == seen for other in rows) >= 3:
                costs.append(int(some.sum()))
        assert int(mine.sum()) == min(costs)


def cheapest(layout: HouseholdLayout, rows: Any, of_key: Any, k: int) -> Iterator[set[int]]:
    """Numbers of keys that may be hidden of each household, those that it lacks among them."""
    lacks = (layout.unknown(rows)[:, None] & of_key).any(axis=2)
    for row, mine in zip(rows, lacks, strict=True):
        found = set()
        for some in sets_of(len(of_key)):
            if (mine & ~some).any():
                continue
            seen = shown_of(layout, row, some @ of_key)
            others = (
                shown_of(layout, other, some @ of_key) == seen and not (theirs & ~some).any()
                for other, theirs in zip(rows, lacks, strict=True)
            )
            if sum(others) >= k:
                found.add(int(some.sum()))
        yield found


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_households_that_lack_keys_are_matched_by_those_that_lack_them_no_less(
    apart: bool, seed: int
) -> None:
    """One that lacks what is shown is nobody's twin; what it lacks is hidden of its head too."""
    rng = np.random.default_rng(seed)
    layout, rows = (with_heads if apart else homes)(rng, 30)
    n_own = len(layout.household_keys)
    of_key = np.eye(3, dtype=bool)
    if apart:
        of_key = np.array([[True, False, True], [False, True, False]])
    missing = np.zeros((len(rows), 3), bool)
    missing[:4, 0], missing[4:7, 1] = True, True
    rows = layout.hiding(rows, missing)
    if not apart:
        # The age of one member alone is not known.
        some = np.flatnonzero((rows[:, 0] == 1) & (rows[:, n_own] >= 0))[0]
        rows[some, n_own] = -1
        rows = layout.canonical(rows)
    try:
        found = suppress_households(rows, layout, of_key, KAnonymity(2), np.ones(len(of_key)))
    except SpecError:
        assert any(not one for one in cheapest(layout, rows, of_key, 2))
        return
    lacks = (layout.unknown(rows)[:, None] & of_key).any(axis=2)
    assert found[lacks].all()
    assert lacks.any(axis=1).sum() >= 4
    whole = layout.hiding(rows, lacks @ of_key)
    for mine, costs in zip(found, cheapest(layout, whole, of_key, 2), strict=True):
        assert int(mine.sum()) == min(costs)
