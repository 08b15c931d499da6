"""Risk of two releases together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.inference.plan import Plan, StopRule
from unikat.models.mixtures.latent_class import LatentClass
from unikat.protection.cumulative import cumulative
from unikat.protection.what_if import Posterior
from unikat.studies.fit import fit

KEYS = [Key.of_size("a", 6), Key.of_size("b", 5), Key.of_size("c", 4)]
PLAN = Plan(n_chains=2, stop=StopRule(max_sweeps=400))
HOW: dict[str, Any] = {
    "keys": ["sex", "age", "town"],
    "release_keys": "work,pet",
    "model": "latent-class",
    "chains": 2,
    "max_sweeps": 200,
    "workers": 1,
}


def codes(n: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, key.n_levels, n) for key in KEYS])


def test_of_a_whole_population_links_alone_are_left_to_chance() -> None:
    table = CellTable.from_codes(codes(60, 1), KEYS, 60)
    alone = table.unique[table.record_cell]
    posterior = Posterior.without_model(table)
    every = cumulative(posterior, np.ones(60), 0.95, 1)
    assert every is not None
    assert every.tau1.lower == every.tau1.upper == every.tau2.mean == alone.sum()
    none = cumulative(posterior, np.zeros(60), 0.95, 1)
    assert none is not None
    assert none.tau1.upper == none.tau2.upper == 0.0
    right = np.where(np.arange(60) % 2 == 0, 0.3, 0.0)
    some = cumulative(posterior, right, 0.95, 1)
    assert some is not None
    assert some.tau1.mean == pytest.approx(right[alone].sum(), abs=0.35)
    assert some.tau1.lower < right[alone].sum() < some.tau1.upper


def test_means_are_the_risks_of_records_times_their_links() -> None:
    table = CellTable.from_codes(codes(150, 2), KEYS, 250)
    fitted = fit(LatentClass(), table, seed=3, plan=PLAN)
    right = np.random.default_rng(5).random(150)
    found = cumulative(Posterior.of(fitted), right, 0.95, 3)
    assert found is not None
    records = fitted.estimate(0.95).records
    for told, risk in ((found.tau1, records.r1), (found.tau2, records.r2)):
        by_record = np.where(table.unique, np.nan_to_num(risk), 0.0)[table.record_cell]
        assert told.mean == pytest.approx((right * by_record).sum(), rel=0.1)
        # A planted bug, links that are all taken for right, gives another number.
        assert told.mean < 0.8 * by_record.sum()


def releases(n: int = 120, seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    whole = pd.DataFrame(
        {
            "who": [f"p{i}" for i in range(n)],
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(20, 50, n),
            "town": rng.choice(["A", "B", "C"], n),
            "work": rng.choice(["none", "part", "full"], n),
            "pet": rng.choice(["cat", "dog", "no"], n),
        }
    )
    second = whole.drop(columns="town").sample(frac=1.0, random_state=3)
    return whole.drop(columns=["work", "pet"]), second


def test_two_releases_from_files(tmp_path: Path) -> None:
    first, second = releases()
    first.to_csv(tmp_path / "first.csv", index=False)
    second.to_csv(tmp_path / "second.csv", index=False)
    found = unikat.assess(
        tmp_path / "first.csv",
        **HOW,
        population_size=1_000,
        release=tmp_path / "second.csv",
        release_id="who",
        out=tmp_path / "out",
    )
    release = found.result.release
    assert release is not None
    assert release.shared == ("sex", "age")
    assert release.further == ("work", "pet")
    assert [key.name for key in found.result.keys] == ["sex", "age", "town", "work", "pet"]
    counts = first.groupby(["sex", "age"])["who"].transform("size")
    assert release.n_certain == (counts == 1).sum()
    assert release.links == pytest.approx((1.0 / counts).sum())
    assert (release.n_both, release.n_wrong, release.n_records) == (120, 0, 120)
    assert release.tau1 is not None
    assert release.tau2 is not None
    assert release.tau1.upper <= release.tau2.upper <= found.tau2.upper
    written = json.loads((tmp_path / "out" / "result.json").read_text())["release"]
    assert written["tau1"]["mean"] == release.tau1.mean
    assert written["data"] == "second.csv"
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Two releases together" in page
    assert unikat.load(tmp_path / "out").result.release == release
    # What was written repeats the run.
    again = unikat.assess(
        tmp_path / "out" / "assessment.toml", out=tmp_path / "again", trust_spec=True
    )
    assert again.result.release == release


def test_without_an_id_pairs_of_one_are_linked() -> None:
    first, second = releases()
    known = unikat.assess(first, **HOW, population_size=1_000, release=second, release_id="who")
    told = unikat.assess(first, **HOW, population_size=1_000, release=second)
    one, other = known.result.release, told.result.release
    assert one is not None
    assert other is not None
    assert other.n_both is other.n_wrong is None
    assert other.links == other.n_certain == one.n_certain
    assert told.result.sample.n_uniques < known.result.sample.n_uniques
    assert "not known who is who" in told.result.sentences["release"]


def test_errors_in_shared_keys_make_wrong_links() -> None:
    first, second = releases()
    second = second.assign(age=np.where(np.arange(120) % 4 == 0, 20, second["age"]))
    found = unikat.assess(first, **HOW, population_size=1_000, release=second, release_id="who")
    release = found.result.release
    assert release is not None
    both = first.merge(second, on="who", suffixes=("", "2"))
    there = second.groupby(["sex", "age"]).size()
    right = sum(1.0 / there[row.sex, row.age] for row in both.itertuples() if row.age == row.age2)
    assert release.links == pytest.approx(right)
    with pytest.raises(DataError, match="have no counterpart"):
        unikat.assess(first, **HOW, population_size=1_000, release=second)


def test_a_key_of_both_can_be_one_that_the_other_adds() -> None:
    """A second wave may have another value of the same key, which is then no link."""
    first, second = releases()
    second = second.assign(town="A")
    second.loc[second.index[:60], "town"] = "B"
    how = {**HOW, "release_keys": "town,pet"}
    found = unikat.assess(first, **how, population_size=1_000, release=second, release_id="who")
    release = found.result.release
    assert release is not None
    assert release.further == ("release.town", "pet")
    assert release.shared == ("sex", "age")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"release_keys": None}, "release-keys|release_keys"),
        ({"shared": "income"}, "is no key"),
        ({"shared": "town"}, "town"),
        ({"missing": "wildcard"}, "about one file"),
        ({"keep_states": True}, "about one file"),
        ({"model": "loglinear"}, "loglinear"),
    ],
)
def test_what_cannot_be_linked_is_refused(changes: dict[str, Any], said: str) -> None:
    first, second = releases()
    how = {**HOW, "population_size": 1_000, "release": second, "release_id": "who", **changes}
    with pytest.raises((SpecError, DataError), match=said):
        unikat.assess(first, **how)


def test_a_person_is_in_a_release_once() -> None:
    first, second = releases()
    second = pd.concat([second, second[:1]])
    with pytest.raises(DataError, match="1 person"):
        unikat.assess(first, **HOW, population_size=1_000, release=second, release_id="who")
    second = second.rename(columns={"sex": "SEX", "age": "AGE"})
    with pytest.raises(SpecError, match="share no key"):
        unikat.assess(first, **HOW, population_size=1_000, release=second)
