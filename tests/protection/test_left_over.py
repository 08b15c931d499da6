"""The risk with columns that are left beside the keys, from the states of one fit."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat._typing import Int32
from unikat.data import Design, read
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.models.named import build_model
from unikat.protection.left_over import Known, Share, known
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior
from unikat.studies.fit import Execution, fit

ALONE = Execution(workers=Workers(n_workers=1))
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def test_the_share_of_a_cell_has_the_law_of_the_most_probable_prior() -> None:
    rng = np.random.default_rng(5)
    cell = rng.integers(0, 40, 300)
    chances = rng.dirichlet(np.array([1.2, 0.6, 0.2]), 40)
    values = np.array([rng.choice(3, p=chances[c]) for c in cell])
    share = Share.of(values, [cell])
    counts = np.zeros((40, 3))
    np.add.at(counts, (cell, values), 1)
    total = counts.sum(axis=0)
    outside = total - counts
    base = (outside + 0.5) / (outside.sum(axis=1, keepdims=True) + 1.5)

    def likelihood(alpha: float) -> float:
        """Of the records of each cell one after the other, by the urn of the prior."""
        found = 0.0
        for c, own in itertools.product(range(40), [counts]):
            seen = np.zeros(3)
            for v in range(3):
                for _ in range(int(own[c, v])):
                    found += math.log((alpha * base[c, v] + seen[v]) / (alpha + seen.sum()))
                    seen[v] += 1
        return found

    n = counts.sum(axis=1)
    alpha = (share.ours - counts[cell, values]) / base[cell, values]
    assert alpha == pytest.approx(np.full(300, alpha[0]), rel=1e-9)
    assert share.ours + share.rest == pytest.approx(n[cell] + alpha[0], rel=1e-9)
    best = likelihood(alpha[0])
    assert best > likelihood(0.9 * alpha[0])
    assert best > likelihood(1.1 * alpha[0])


def risks(
    population: pd.DataFrame,
    rows: np.ndarray[Any, Any],
    keys: list[str],
    rules: dict[str, Any],
    columns: list[str],
) -> tuple[dict[str | None, Known], dict[str | None, int], list[np.ndarray[Any, Any]]]:
    """Tell the risk of a sample of a population, and count the truth."""
    sample = population.iloc[rows].reset_index(drop=True)
    table = read(sample, keys, Design(population_size=len(population))).tabulate()
    model, plan = build_model("latent-class", {}), Plan(n_chains=2, stop=StopRule(max_sweeps=400))
    posterior = Posterior.of(fit(model, table, plan=plan, execution=ALONE), n_states=100)
    recoding = parse_recoding(table, rules)
    numbers = {name: pd.factorize(population[name])[0].astype(np.int32) for name in columns}
    found = known(
        posterior,
        recoding,
        recoding.codes(table.cells[table.record_cell]),
        {name: one[rows] for name, one in numbers.items()},
        0.95,
    )
    groups = []
    for key, one in zip(table.keys, recoding.keys, strict=True):
        group_of = {level: int(g) for level, g in zip(key.levels, one.groups, strict=True)}
        groups.append(population[key.name].map(group_of).fillna(10_000).to_numpy())
    truth: dict[str | None, int] = {}
    for name in found:
        more = columns if name is None else [name] if name else []
        both = np.column_stack([*groups, *(numbers[one] for one in more)])
        place = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        truth[name] = int((np.bincount(place)[place][rows] == 1).sum())
    return found, truth, groups


def population(n: int = 20_000) -> pd.DataFrame:
    """Columns that are independent of the keys, follow one of them, and depend on two."""
    rng = np.random.default_rng(12)
    age, sex = rng.integers(0, 60, n), rng.choice(["f", "m"], n)
    area = rng.choice(120, n, p=rng.dirichlet(np.full(120, 0.4)))
    of_area = rng.dirichlet(np.full(14, 0.3), (120, 2))
    job = (of_area[area, (sex == "f") * 1].cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return pd.DataFrame(
        {
            "age": age, "area": area, "sex": sex, "same": "x",
            "free": rng.choice(8, n, p=np.arange(1, 9) / 36), "county": area // 3, "job": job,
        }
    )  # fmt: skip


def test_what_a_column_adds_is_what_it_adds_in_the_population() -> None:
    everyone = population()
    told: dict[str | None, list[float]] = {}
    true: dict[str | None, list[int]] = {}
    for seed in range(3):
        rows = np.sort(np.random.default_rng(seed).choice(len(everyone), 1500, replace=False))
        columns = ["same", "free", "county", "job"]
        found, truth, _ = risks(
            everyone, rows, ["age", "area", "sex"], {"age": "width(10)"}, columns
        )
        alone = found[""].tau1
        same, county = found["same"].tau1, found["county"].tau1
        assert alone is not None
        assert same is not None
        assert county is not None
        # What tells nothing adds nothing, and so does what the keys tell.
        assert found["same"].n_uniques == found["county"].n_uniques == found[""].n_uniques
        assert same.mean == pytest.approx(alone.mean, rel=0.02, abs=0.2)
        assert county.mean == pytest.approx(alone.mean, rel=0.05, abs=0.5)
        for name, one in found.items():
            assert one.tau1 is not None
            told.setdefault(name, []).append(one.tau1.mean)
            true.setdefault(name, []).append(truth[name])
    for name in told:
        expected, counted = sum(told[name]), sum(true[name])
        # Four standard errors of the count, and a tenth of it.
        assert abs(expected - counted) < 4.0 * math.sqrt(counted) + 0.1 * counted, name
    assert sum(true[None]) > 3 * sum(true[""]) > 20


@pytest.mark.parametrize(
    ("file", "keys", "rules", "columns", "n"),
    [
        (
            "es_ecv2019", ["REGION", "SEX", "AGE", "MARST", "EDUC"], {"AGE": "width(15)"},
            ["TENURE", "HHTYPE", "COB", "ACTIVITY", "OCC", "HEALTH"], 4000,
        ),
        (
            "bo_census1976_pando", ["PROV", "SEX", "AGE", "MARST", "AREA"], {"AGE": "width(10)"},
            ["REL", "LANG", "ACTIVITY", "OCC1", "GRADE", "V03"], 3000,
        ),
    ],
)  # fmt: skip
def test_left_columns_of_real_populations(
    file: str, keys: list[str], rules: dict[str, Any], columns: list[str], n: int
) -> None:
    path = SHARED / f"{file}.parquet"
    if not path.is_file():
        pytest.skip(f"the real data are not there ({path})")
    everyone = pd.read_parquet(path).dropna(subset=keys).reset_index(drop=True)
    rows = np.sort(np.random.default_rng(1).choice(len(everyone), n, replace=False))
    found, truth, _ = risks(everyone, rows, keys, rules, columns)
    for name in columns:
        tau1 = found[name].tau1
        assert tau1 is not None
        # Four standard errors of the count, and a third of it.
        room = 4.0 * math.sqrt(truth[name]) + 0.33 * truth[name]
        assert abs(tau1.mean - truth[name]) < room, (name, tau1.mean, truth[name])


def people(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 80, n), "sex": rng.choice(["f", "m"], n),
            "job": rng.integers(0, 60, n), "health": rng.integers(0, 3, n), "one": 1,
            "income": np.round(rng.gamma(3.0, 900.0, n), 2), "w": rng.choice([1.0, 2.0], n),
        }
    )  # fmt: skip


def test_a_protection_says_what_is_left() -> None:
    options: Any = {
        "keys": ["age", "sex"], "population_size": 6000, "recode": {"age": "width(20)"},
        "model": "latent-class", "max_sweeps": 60, "chains": 2, "workers": 1,
        "columns": "w: weight",
    }  # fmt: skip
    found = unikat.protect(people(), **options).summary
    risk = {one.name: one.risk for one in found.other_columns}
    assert {name for name, one in risk.items() if one is not None} == {"job", "health", "income"}
    job, income, left = risk["job"], risk["income"], found.left_over
    assert job is not None
    assert income is not None
    assert left is not None
    assert job.tau1 is not None
    assert left.without.tau1 is not None
    assert left.together is not None
    assert left.together.tau1 is not None
    # What the file shows of an exact measurement is counted.
    assert income.tau1 is None
    assert income.n_uniques >= 590
    assert left.n_columns == 2
    assert left.without.tau1.mean == pytest.approx(found.refit.tau1.mean, abs=1.0)
    assert left.without.tau1.mean < job.tau1.mean < left.together.tau1.mean
    assert f"with job {job.tau1.mean:.0f}" in found.sentences["left_over"]
    assert "income" in found.sentences["columns"]
    # Nobody is unobserved: each sample unique is one of the population.
    whole = unikat.protect(people(), **{**options, "population_size": 600}).summary
    for one in whole.other_columns:
        if one.risk is not None and one.risk.tau1 is not None:
            assert one.risk.tau1.mean == one.risk.n_uniques


def test_codes_of_columns_may_be_missing() -> None:
    frame = people()
    frame["job"] = frame["job"].where(frame["job"] > 5)
    codes: Int32 = frame["job"].fillna(-1).to_numpy().astype(np.int32)
    assert (codes == -1).any()
    table = read(frame, ["age", "sex"], Design(population_size=6000)).tabulate()
    model, plan = build_model("latent-class", {}), Plan(n_chains=2, stop=StopRule(max_sweeps=60))
    posterior = Posterior.of(fit(model, table, plan=plan, execution=ALONE), n_states=20)
    recoding = parse_recoding(table, {"age": "width(20)"})
    visible = recoding.codes(table.cells[table.record_cell])
    visible[::5, 0] = -1
    found = known(posterior, recoding, visible, {"job": codes}, 0.95, ["job"])
    assert found["job"].tau1 is None
    assert None not in found
    expected = pd.DataFrame({"a": visible[:, 0], "s": visible[:, 1], "j": codes})
    expected = expected[expected["a"] >= 0]
    assert found["job"].n_uniques == (~expected.duplicated(keep=False)).sum()
