"""Generators of households side by side: scores against twins that count member by member."""

from __future__ import annotations

import itertools
import pickle
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unikat
from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.plan import Plan, StopRule
from unikat.studies.designs import Population
from unikat.synthesis import household_generators as module
from unikat.synthesis.generators import Training, independence
from unikat.synthesis.household_generators import Flat, WideCart, measured, pair_shares

LAYOUT = HouseholdLayout(
    household_keys=(Key.of_size("size", 3), Key.of_size("REGION", 2)),
    person_keys=(Key.of_size("AGE", 4), Key.of_size("SEX", 2)),
    n_slots=3,
)
PLAN = Plan(n_chains=2, stop=StopRule(max_sweeps=40))


def rows(n: int, seed: int) -> Any:
    """Households whose members have one age, and of which the region tells the first sex."""
    rng = np.random.default_rng(seed)
    sizes, region = rng.integers(0, 3, n), rng.integers(0, 2, n)
    age = rng.integers(0, 4, n)
    members = np.stack((np.tile(age[:, None], 3), rng.integers(0, 2, (n, 3))), axis=2)
    return LAYOUT.joined(np.column_stack((sizes, region)), members.astype(np.int32))


def population(n: int = 300, seed: int = 1) -> Population:
    codes = rows(n, seed)
    keys = LAYOUT.columns
    table = CellTable.from_codes(codes, keys, population_size=n)
    return Population.of(replace(table, layout=LAYOUT))


def persons(codes: Any) -> list[tuple[int, list[tuple[int, ...]]]]:
    """Region and members of each household, from the codes."""
    found = []
    for row in codes.tolist():
        members = [tuple(row[2 + 2 * i : 4 + 2 * i]) for i in range(row[0] + 1)]
        found.append((row[1], members))
    return found


def pairs_twin(codes: Any, key: int) -> dict[tuple[int, int], float]:
    """Law of the values of two members, household by household."""
    law: dict[tuple[int, int], float] = defaultdict(float)
    several = [members for _, members in persons(codes) if len(members) > 1]
    for members in several:
        both = list(itertools.permutations(members, 2))
        for one, other in both:
            law[one[key], other[key]] += 1.0 / len(both) / len(several)
    return law


def test_pairs_and_margins_are_what_a_slow_twin_counts() -> None:
    whole, made = population(), rows(40, 5)
    everybody = whole.table.cells[whole.table.record_cell]
    scorer = measured([], whole)["second-sample"]
    tables = [[pairs_twin(codes, key) for key in (0, 1)] for codes in (everybody, made)]
    wanted = np.mean(
        [
            0.5 * sum(abs(one[c] - other[c]) for c in {*one, *other})
            for one, other in zip(*tables, strict=True)
        ]
    )
    assert scorer.apart(made) == pytest.approx(wanted)
    one_way = []
    for of in (
        lambda region, members, me: len(members) - 1,
        lambda region, members, me: region,
        lambda region, members, me: me[0],
        lambda region, members, me: me[1],
    ):
        shares = []
        for codes in (everybody, made):
            values = [of(r, m, me) for r, m in persons(codes) for me in m]
            shares.append(np.bincount(values, minlength=4) / len(values))
        one_way.append(0.5 * np.abs(shares[0] - shares[1]).sum())
    assert scorer.distances(made, whole.table)[0] == pytest.approx(np.mean(one_way))
    assert pair_shares(rows(9, 1)[:0], np.empty(0), LAYOUT) is None


def training(n: int = 150) -> Training:
    tables = []
    for seed in (2, 3):
        table = CellTable.from_codes(rows(n, seed), LAYOUT.columns, population_size=n)
        tables.append(replace(table, layout=LAYOUT))
    return Training(tables[0], tables[1], 7, PLAN, 1)


def ages_agree(codes: Any) -> float:
    several = [members for _, members in persons(codes) if len(members) > 1]
    return float(np.mean([len({age for age, _ in members}) == 1 for members in several]))


def test_flat_households_have_the_sizes_and_lose_what_joins_members() -> None:
    asked = training()
    made = Flat(independence, LAYOUT)(asked).codes
    assert (made[:, 0] == asked.codes[:, 0]).all()
    assert (LAYOUT.canonical(made) == made).all()
    assert ages_agree(asked.codes) == 1.0
    assert ages_agree(made) < 0.4


def test_trees_of_rows_keep_what_joins_members(monkeypatch: Any) -> None:
    pytest.importorskip("sklearn")
    asked = training(600)
    made = WideCart(LAYOUT)(asked).codes
    assert (made[:, 0] == asked.codes[:, 0]).all()
    assert (LAYOUT.canonical(made) == made).all()
    assert ages_agree(made) > 0.95

    # Planted: values of all households, whatever the leaf.
    def from_all(known: Any, values: Any, wanted: Any, rng: Any) -> Any:
        return rng.choice(values, len(wanted))

    monkeypatch.setattr(module, "cart_values", from_all)
    assert ages_agree(WideCart(LAYOUT)(asked).codes) < 0.4


def test_who_makes_households() -> None:
    whole = population()
    found = measured(["households", "hdp", "independence"], whole)
    kinds = [type(one.make).__name__ for one in found.values()]
    assert kinds == ["ByModel", "Flat", "Flat", "function"]
    pickle.dumps(found)
    apart = HouseholdLayout(
        household_keys=LAYOUT.household_keys,
        person_keys=LAYOUT.person_keys,
        n_slots=2,
        head_apart=True,
    )
    with pytest.raises(SpecError, match="leave --head-keys out"):
        module._of_households(independence, "independence", apart)


def test_a_study_of_households(tmp_path: Path) -> None:
    import pandas as pd

    lines = [
        {"hid": i, "REGION": region, "AGE": age, "SEX": sex}
        for i, (region, members) in enumerate(persons(rows(120, 4)))
        for age, sex in members
    ]
    asked: dict[str, Any] = {
        "keys": "REGION,AGE,SEX",
        "household": "hid",
        "household_keys": "REGION",
        "n": 30,
        "repeats": 2,
        "chains": 2,
        "max_sweeps": 40,
        "workers": 1,
        "progress": False,
    }
    frame = pd.DataFrame(lines)
    found = unikat.evaluate(frame, synthesizers="households,independence", **asked)
    ours, other, second = found.summary.synthesizers
    assert (ours.n_failed, other.n_failed, second.n_failed) == (0, 0, 0)
    assert second.apart is not None
    assert other.apart is not None
    assert other.apart.mean > second.apart.mean
    found.save(tmp_path / "study")
    page = (tmp_path / "study" / "evaluation.html").read_text()
    assert "pairs of members" in page
    assert "keys inferred" not in page.split("Generators of synthetic files")[-1].split("<p")[0]
    with pytest.raises(SpecError, match="equal chances"):
        unikat.evaluate(frame, synthesizers="households", **asked, design="households")
    with pytest.raises(SpecError, match="of records, not of households"):
        unikat.evaluate(frame, synthesizers="households", **asked, synthetic="made.csv")
