"""What columns that are no keys tell: whole households were sampled, or were copied."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unikat.data import Design, clues, read
from unikat.data.checks import table_warnings
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs import assess
from unikat.jobs.households import read_households
from unikat.jobs.inputs import read_table
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs

SHARED = Path(__file__).parents[3] / "shared" / "data"
SAYS = "looks like the number of a household"
REAL = {
    "acs2024_persons_northeast": (["HH"], "AGEP,SEX,RAC1P"),
    "acs2024_persons_west": (["HH"], "AGEP,SEX,RAC1P"),
    "acs2016_seattle_relp": (["HH"], "AGEP,SEX,RAC1P"),
    "eph_argentina_4_quarters": (["YQ", "HH"], "CH06,CH04,REGION"),
    "chile_census2024_sample25k": (["id_vivienda"], "edad,sexo,region"),
}
SIMULATED = {
    "eusilcP_population": (["hid"], "age,gender,region"),
    "eusilcS_sample": (["db030"], "age,rb090,db040"),
}
"""Files whose households were copied, by the program that simulated them."""


@cache
def shared(name: str) -> pd.DataFrame:
    """Return the first 100,000 records of a file, of which a run looks at 20,000."""
    path = SHARED / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is absent")
    return pq.read_table(path).slice(0, 100_000).to_pandas()


def people(n_homes: int = 400, seed: int = 1, *, distinct: int | None = None) -> pd.DataFrame:
    """Persons of households; `distinct` households were made, of which the others are copies."""
    rng = np.random.default_rng(seed)
    size = rng.choice([1, 2, 3, 4, 5], n_homes, p=[0.3, 0.3, 0.15, 0.15, 0.1])
    region = rng.integers(0, 6, n_homes)
    parent = rng.integers(20, 90, n_homes)
    made = [
        pd.DataFrame(
            {
                "AGE": [
                    max(0, int(parent[home] + rng.normal(0, 5) - (28 if j > 1 else 0)))
                    for j in range(size[home])
                ],
                "SEX": rng.integers(1, 3, size[home]),
                "REGION": region[home],
                "EDU": rng.integers(0, 8, size[home]),
            }
        )
        for home in range(n_homes if distinct is None else distinct)
    ]
    drawn = range(n_homes) if distinct is None else rng.integers(0, distinct, n_homes)
    homes = [made[home].assign(HID=1000 + 3 * number) for number, home in enumerate(drawn)]
    frame = pd.concat(homes, ignore_index=True)
    # What a simulation draws anew for copies too.
    return frame.assign(EDU=rng.integers(0, 8, len(frame)))


def found(frame: Any, keys: str = "AGE,SEX,REGION", **options: Any) -> tuple[str, ...]:
    return read(frame, keys, Design(population_size=10**7, **options)).clues()


def sampled(frame: pd.DataFrame, by: list[str], n_homes: int, seed: int) -> pd.DataFrame:
    """Return the records of some households, in their order."""
    home = frame.groupby(by, sort=False).ngroup().to_numpy()
    rng = np.random.default_rng(seed)
    total = int(home.max()) + 1
    return frame[np.isin(home, rng.choice(total, min(n_homes, total), replace=False))]


def test_a_number_of_a_household_is_told_of() -> None:
    (said,) = found(people())
    assert said.startswith(f"HID {SAYS}. If whole households were sampled, say so: --household HID")
    assert "too narrow and too low" in said
    assert not any(character.isdigit() for character in said)


def test_as_text_or_with_missing_numbers_too() -> None:
    frame = people()
    for column in (
        "h" + frame["HID"].astype(str),
        frame["HID"].where(np.arange(len(frame)) % 20 > 0),
        frame["HID"].astype(str).astype("category"),
    ):
        assert any(SAYS in said for said in found(frame.assign(HID=column)))


def test_not_where_it_is_named_or_a_key() -> None:
    assert found(people(), household=("HID",)) == ()
    assert found(people(), keys="AGE,SEX,HID") == ()


def test_several_are_named_together() -> None:
    (said,) = found(people().assign(DWELLING=lambda frame: frame["HID"] // 3))
    assert said.startswith("HID and DWELLING look like numbers of households.")


def test_what_is_no_household_is_not_told_of() -> None:
    rng = np.random.default_rng(2)
    n = 3_000
    income = np.round(np.exp(rng.normal(10, 0.8, n)), -2).astype(int)
    frame = pd.DataFrame(
        {
            "AGE": rng.integers(0, 90, n),
            "SEX": rng.integers(1, 3, n),
            "REGION": np.sort(rng.integers(0, 12, n)),
            "INCOME": income,
            "MEASURED": rng.normal(size=n),
            "CODE": rng.integers(0, 900, n),
            "ID": np.arange(n),
            "DAY": np.arange(n) // 60,
        }
    )
    assert found(frame) == ()
    # Sorted by an income, by a code, by both: values of neighbours are alike without households.
    frame = frame.assign(BRACKET=income // 5_000, TAX=(0.31 * income).astype(int))
    for by in (["INCOME"], ["CODE"], ["REGION", "INCOME"], ["REGION", "AGE"], ["SEX", "CODE"]):
        assert found(frame.sort_values(by)) == (), by


def test_shuffled_or_few_records_tell_nothing() -> None:
    frame = people()
    assert found(frame.sample(frac=1.0, random_state=3)) == ()
    assert found(frame.head(clues.LEAST_ROWS - 1)) == ()


@pytest.mark.parametrize("name", [*REAL, *SIMULATED])
def test_real_files_and_samples_of_their_households(name: str) -> None:
    frame, (home, keys) = shared(name), (REAL | SIMULATED)[name]
    for n_homes in (10**9, 300, 2_000):
        said = found(sampled(frame, home, n_homes, seed=n_homes), keys)
        assert said[0].startswith((f"{home[-1]} {SAYS}", f"{home[-1]} and ")), n_homes


@pytest.mark.parametrize(
    ("name", "keys"),
    [("adult_48842", "age,sex,race"), ("nist_excerpt_ma", "AGEP,SEX,RAC1P"),
     ("uk2011_teaching_srs_10k", "age,sex,region")],
)  # fmt: skip
def test_files_without_households(name: str, keys: str) -> None:
    frame = shared(name)
    assert found(frame, keys) == ()
    assert found(frame.sort_values(keys.split(",")), keys) == ()
    assert found(frame.sample(2_000, random_state=1), keys) == ()


@pytest.mark.statistical
@pytest.mark.parametrize("name", list(REAL))
def test_real_households_are_no_copies(name: str) -> None:
    """A false alarm has a chance of at most 1 in 10,000 if 15% of the pairs agree; here 6% do."""
    frame, (home, keys) = shared(name), REAL[name]
    for n_homes in (10**9, 500, 1_000, 4_000):
        sample = sampled(frame, home, n_homes, seed=n_homes)
        assert found(sample, keys, household=tuple(home)) == (), n_homes
        assert not any("copies" in said for said in found(sample, keys))


@pytest.mark.statistical
@pytest.mark.parametrize("name", list(SIMULATED))
def test_copied_households_are_found(name: str) -> None:
    """In 40 of 40 samples of 1,000 households or more each."""
    frame, (home, keys) = shared(name), SIMULATED[name]
    for n_homes in (10**9, 1_000, 4_000):
        sample = sampled(frame, home, n_homes, seed=n_homes)
        (said,) = found(sample, keys, household=tuple(home))
        assert said.startswith("The file seems to hold copies of households")
        assert "copies" in found(sample, keys)[1]


def test_simulated_copies_are_found_and_others_are_not() -> None:
    assert len(found(people(1_500))) == 1
    first, second = found(people(1_500, distinct=300))
    assert SAYS in first
    assert "members, but for one AGE at most" in second
    assert found(people(1_500, distinct=300), household=("HID",)) == (second,)
    # Without a household nothing is compared.
    assert found(people(1_500, distinct=300).drop(columns="HID")) == ()


def test_pairs_are_counted_as_by_hand() -> None:
    def pairs(homes: list[list[tuple[int, int]]]) -> tuple[int, int, int]:
        home = np.repeat(np.arange(len(homes)), [len(one) for one in homes])
        values = np.array([member for one in homes for member in one])
        return clues._pairs(home, values[:, 0], values[:, 1])

    a = [(30, 1), (32, 2), (5, 1)]
    near, far = [(30, 1), (32, 2), (6, 1)], [(30, 1), (33, 2), (6, 1)]
    other = [(30, 1), (32, 2), (5, 2)]
    twins = [(40, 1), (8, 1), (8, 1)]
    assert pairs([a, a[::-1], a]) == (2, 3, 0)
    # One age apart: a and near, near and far; a and far are two apart, other has another sex.
    assert pairs([a, near, far, other]) == (0, 0, 2)
    assert pairs([a, a, near]) == (1, 1, 2)
    assert pairs([twins, twins, [(40, 1), (8, 1), (9, 1)]]) == (1, 1, 2)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "sqlite", "latin"])
def test_every_kind_of_file_is_looked_at(suffix: str, tmp_path: Path) -> None:
    frame, path, options = people().assign(NOTE="é"), tmp_path / f"people.{suffix}", {}
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "latin":
        frame.to_csv(path, index=False, encoding="latin-1")
        options = {"format": "csv", "encoding": "latin-1"}
    elif suffix == "parquet":
        frame.to_parquet(path)
    elif suffix == "arrow":
        frame.to_feather(path)
    else:
        connection = sqlite3.connect(path)
        frame.to_sql("people", connection, index=False)
        connection.close()
    design = Design(population_size=10**7)
    microdata = read(path, "AGE,SEX,REGION", design, **options)
    (said,) = microdata.clues()
    assert f"HID {SAYS}" in said
    # The rest is as without.
    plain = read(path, "AGE,SEX,REGION", design, **options).tabulate()
    assert microdata.tabulate().fingerprint == plain.fingerprint
    path.unlink()
    assert microdata.clues() == ()


def test_what_cannot_be_read_tells_nothing() -> None:
    frame = people()
    mixed = frame.assign(MIXED=[1 if number % 2 else "a" for number in range(len(frame))])
    assert len(found(mixed)) == 1
    nested = pa.Table.from_pandas(frame).append_column(
        "LIST", [pa.array([[1]] * len(frame), pa.list_(pa.int64()))]
    )
    assert len(found(nested)) == 1


def test_a_run_tells_the_watcher_and_the_warnings() -> None:
    frame = people()
    notes: list[str] = []
    told = Watcher(note=notes.append)
    spec = AssessmentSpec.parse({"keys": ["AGE", "SEX"], "population_size": 10**6})
    _, table, _ = read_table(spec, Design(population_size=10**6), Inputs(data=frame), told)
    assert any(note.startswith(f"Warning: HID {SAYS}") for note in notes)
    assert any(SAYS in warning for warning in table_warnings(table))
    assert (
        table.fingerprint
        == read(frame, "AGE,SEX", Design(population_size=10**6)).tabulate().fingerprint
    )
    # A file that is the population is known exactly.
    _, table, _ = read_table(spec, Design(population_size=len(frame)), Inputs(data=frame), told)
    assert not any(SAYS in warning for warning in table_warnings(table))


def of_households(frame: pd.DataFrame, keys: list[str], household: str) -> AssessmentSpec:
    return AssessmentSpec.parse(
        {
            "keys": keys,
            "model": "households",
            "design": {"household": [household]},
            "households": {"population": 10**6, "scattered": True},
        }
    )


def test_copies_of_households_are_told_of_where_households_are_the_units() -> None:
    """Before sampling, in the table's warnings, and not where there are none."""
    copied = people(600, distinct=120)
    spec = of_households(copied, ["AGE", "SEX", "EDU"], "HID")
    notes: list[str] = []
    asked = assess.load_and_check(spec, Inputs(data=copied), Watcher(note=notes.append))
    (said,) = [text for text in table_warnings(asked.table) if "copies of households" in text]
    assert asked.table.layout is not None
    assert f"Warning: {said}" in notes
    real = people(600)
    table = read_households(spec, real, SILENT)[1].table
    assert not any("copies" in text for text in table_warnings(table))
    # They add nothing to what the run is known by.
    assert replace(asked.table, clues=()).fingerprint == asked.table.fingerprint


@pytest.mark.parametrize(("name", "by", "keys"), [
    ("eusilcP_population", "hid", ["age", "gender", "region", "ecoStat"]),
    ("acs2016_seattle_relp", "HH", ["AGEP", "SEX", "RELP"]),
])  # fmt: skip
def test_copies_in_real_files_of_households(name: str, by: str, keys: list[str]) -> None:
    frame = sampled(shared(name), [by], 4000, 1)
    table = read_households(of_households(frame, keys, by), frame, SILENT)[1].table
    told = any("copies of households" in text for text in table_warnings(table))
    assert told is (name in SIMULATED)
