from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from report.estimates import estimate, provenance, spec, summarise
from unikat.datasets import KEYS, Truth, draw_sample, simulate_town, truth
from unikat.errors import DataError
from unikat.jobs.demo import compare


@pytest.fixture(scope="module")
def town() -> pd.DataFrame:
    return simulate_town(20_000, seed=4)


def rows(table: pd.DataFrame) -> list[tuple[str, ...]]:
    return list(zip(*(table[name] for name in KEYS), strict=True))


def test_the_same_seed_gives_the_same_town(town: pd.DataFrame) -> None:
    assert simulate_town(20_000, seed=4).equals(town)
    assert not simulate_town(20_000, seed=5).equals(town)
    assert draw_sample(town, seed=1).equals(draw_sample(town, seed=1))
    assert len(town) == 20_000
    assert set(KEYS) < set(town.columns)
    assert all(town[name].map(type).eq(str).all() for name in town)


def test_the_town_makes_sense(town: pd.DataFrame) -> None:
    people = town.to_dict("records")
    children = [person for person in people if person["age"] == "0-9"]
    assert {person["marital_status"] for person in children} == {"never married"}
    assert {person["occupation"] for person in children} == {"not in work"}
    assert {person["education"] for person in children} == {"primary or none"}
    assert 0.08 < len(children) / len(people) < 0.2
    sexes = Counter(person["sex"] for person in people)
    assert abs(sexes["female"] - sexes["male"]) < 0.05 * len(people)
    farmers = Counter(p["sex"] for p in people if p["occupation"] == "farming and fishing")
    assert farmers["male"] > farmers["female"]


def test_a_sample_is_without_repetition(town: pd.DataFrame) -> None:
    everyone = draw_sample(town, 1.0, seed=2)
    assert Counter(rows(everyone)) == Counter(rows(town))
    assert len(draw_sample(town, 0.02)) == 400


def test_households_are_drawn_whole(town: pd.DataFrame) -> None:
    people = simulate_town(20_000, households=True, seed=4)
    pd.testing.assert_frame_equal(people[town.columns], town)
    of_household = people.groupby("household")["relation"]
    assert (of_household.agg("first") == "head").all()
    assert (of_household.agg(lambda one: (one == "head").sum()) == 1).all()
    assert (of_household.agg(lambda one: (one == "partner").sum()) <= 1).all()
    children = people[people["relation"] == "child"]
    assert set(children["age"]) <= {"0-9", "10-19", "20-29"}
    sample = draw_sample(people, 0.05, household="household", seed=3)
    whole = people[people["household"].isin(sample["household"])]
    pd.testing.assert_frame_equal(sample, whole.reset_index(drop=True))
    assert sample["household"].nunique() == round(0.05 * people["household"].nunique())
    for wrong in ({"fraction": 2.0}, {"household": "hid"}):
        with pytest.raises(DataError, match=r"fraction|households=True"):
            draw_sample(people, **wrong)


def test_the_truth_is_counted(town: pd.DataFrame) -> None:
    sample = draw_sample(town, 0.05, seed=3)
    in_town, in_sample = Counter(rows(town)), Counter(rows(sample))
    uniques = [cell for cell, count in in_sample.items() if count == 1]
    found = truth(town, sample)
    assert found.n_uniques == len(uniques)
    assert found.tau1 == sum(in_town[cell] == 1 for cell in uniques)
    assert found.tau2 == pytest.approx(sum(1 / in_town[cell] for cell in uniques))
    assert 0 < found.tau1 < found.tau2 < found.n_uniques


def known(tau1: int, tau2: float) -> Truth:
    return Truth(n_records=1, population_size=1, n_uniques=1, tau1=tau1, tau2=tau2)


def test_a_missed_truth_is_told() -> None:
    result = summarise(estimate(), spec(), provenance())
    hit = compare(result, known(round(result.tau1.median), result.tau2.median))
    assert hit.count("contains the true value") == 2
    assert "does not contain" not in hit
    miss = compare(result, known(100_000, result.tau2.median))
    assert "The interval of τ1 does not contain the true value in this town." in miss
