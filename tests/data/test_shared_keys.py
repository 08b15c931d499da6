"""Keys that members of a household share, and the warning of an interval that is too narrow."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from data.test_clues import sampled
from unikat.data import Design, read
from unikat.data.checks import table_warnings
from unikat.data.shared_keys import LEAST_HOUSEHOLDS, MOST_TRIED, shared_keys
from unikat.inference.progress import Watcher
from unikat.jobs.households import read_households
from unikat.jobs.inputs import read_table
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs

SHARED = Path(__file__).parents[3] / "shared" / "data"
SAYS = "Members of a household share"
ACS = ["ST", "TEN", "BLD", "HHT", "NP"]
"""Of a household, in another file."""
PEOPLE = ["AGEP:width(5)", "SEX", "MAR", "ESR", "RAC1P", "HISP", "CIT"]


@cache
def real(name: str) -> pd.DataFrame:
    """Return a survey; persons of the ACS with what their households have."""
    path = SHARED / f"{name}.parquet"
    if not path.exists():
        pytest.skip(f"{path.name} is absent")
    frame = pd.read_parquet(path)
    if name == "acs2024_persons_west":
        homes = SHARED / "acs2024_households_west.parquet"
        if not homes.exists():
            pytest.skip(f"{homes.name} is absent")
        frame = frame.merge(pd.read_parquet(homes)[["HH", *ACS[1:]]], on="HH")
    return frame


def homes(n: int = 300, seed: int = 1) -> pd.DataFrame:
    """Persons of households: seven keys of these, and others of their own, one much alike."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, n)
    home = np.repeat(np.arange(n), size)
    race = rng.integers(0, 4, n)[home]
    alone = rng.random(len(home)) < 0.15
    return pd.DataFrame(
        {
            "HID": home,
            **{
                name: rng.integers(0, 5, n)[home]
                for name in ("REGION", "TENURE", "ROOMS", "WATER", "FUEL", "PHONE")
            },
            "HHSIZE": size[home],
            "AGE": rng.integers(0, 80, len(home)),
            "SEX": rng.integers(0, 2, len(home)),
            "RACE": np.where(alone, rng.integers(0, 4, len(home)), race),
        }
    )


def found(frame: Any, keys: list[str], by: list[str], missing: Any = "integrate") -> list[str]:
    design = Design(population_size=10**7, household=by)
    table = read(frame, keys, design, missing=missing, missing_values=-1).tabulate()
    return [key.name for key in shared_keys(table)]


def warned(frame: Any, keys: list[str], **design: Any) -> list[str]:
    table = read(frame, keys, Design(population_size=10**7, **design)).tabulate()
    return [text for text in table_warnings(table) if SAYS in text]


def test_keys_of_households_are_found_and_those_of_persons_are_not() -> None:
    keys = ["REGION", "AGE", "TENURE", "SEX", "RACE", "HHSIZE"]
    assert found(homes(), keys, ["HID"]) == ["REGION", "TENURE", "HHSIZE"]
    # Whatever the order of the rows; and not where records were drawn one by one.
    mixed = homes().sample(frac=1.0, random_state=1)
    assert found(mixed, keys, ["HID"]) == ["REGION", "TENURE", "HHSIZE"]
    assert warned(homes(), keys) == []


def test_errors_of_coding_and_missing_values_do_not_hide_a_shared_key() -> None:
    frame, rng = homes(), np.random.default_rng(2)
    wrong = rng.random(len(frame)) < 0.02
    frame["REGION"] = np.where(wrong, rng.integers(0, 5, len(frame)), frame["REGION"])
    frame["TENURE"] = np.where(rng.random(len(frame)) < 0.2, -1, frame["TENURE"])
    for missing in ("integrate", "level"):
        assert found(frame, ["REGION", "TENURE", "SEX"], ["HID"], missing) == ["REGION", "TENURE"]


def test_a_level_that_nearly_all_have_is_no_shared_key() -> None:
    frame = homes(60)
    frame["RARE"] = 0
    frame.loc[0, "RARE"] = 1
    assert "RARE" not in found(frame, ["RARE", "REGION"], ["HID"])


def test_few_households_are_no_evidence() -> None:
    frame = homes()
    several = frame[frame["HHSIZE"] > 1]
    numbers = several["HID"].unique()
    few = several[several["HID"].isin(numbers[: LEAST_HOUSEHOLDS - 1])]
    assert found(few, ["REGION", "SEX"], ["HID"]) == []
    alone = frame[frame["HHSIZE"] == 1]
    assert found(alone, ["REGION", "SEX"], ["HID"]) == []


KEYS = ["SEX", "REGION", "TENURE", "HHSIZE", "ROOMS", "WATER", "FUEL", "PHONE"]


def test_the_warning_names_keys_and_says_what_to_do() -> None:
    assert warned(homes(), KEYS[: 1 + MOST_TRIED], household=["HID"]) == []
    (said,) = warned(homes(), KEYS, household=["HID"])
    assert "share 7 of the 8 keys (REGION, TENURE, HHSIZE, ROOMS, WATER and 2 more)" in said
    assert f"at most {MOST_TRIED}" in said
    assert "--model households" in said


@pytest.mark.parametrize(("name", "by", "shared", "own"), [
    ("acs2024_persons_west", ["HH"], ACS, PEOPLE),
    ("eph_argentina_4_quarters", ["YQ", "HH"], ["REGION", "AGLOMERADO"],
     ["CH03", "CH04", "CH06:width(5)", "CH07", "CH08", "NIVEL_ED", "ESTADO", "CAT_OCUP"]),
    ("eusilcP_population", ["hid"], ["region", "hsize"],
     ["age:width(5)", "gender", "ecoStat", "citizenship"]),
    ("es_ense2017", ["HH"], ["REGION", "STRATUM", "HHTYPE", "ROOMS", "INCGRP"],
     ["REL", "SEX", "AGE:width(5)", "EDUC", "ACTIVITY"]),
])  # fmt: skip
def test_shared_keys_of_real_surveys(
    name: str, by: list[str], shared: list[str], own: list[str]
) -> None:
    """Samples of 300 to 3,000 households: those of the codebook, and no others."""
    for n_homes in (300, 3000):
        frame = sampled(real(name), by, n_homes, n_homes)
        assert found(frame, [*shared, *own], by) == shared
        assert warned(frame, [*shared, *own], household=by) == []


def test_a_run_says_it_before_it_samples_and_on_page_one(tmp_path: Path) -> None:
    frame = homes()
    keys = ["AGE:width(20)", *KEYS]
    notes: list[str] = []
    design = {"household": ["HID"]}
    spec = AssessmentSpec.parse({"keys": keys, "population_size": 9000, "design": design})
    read_table(
        spec,
        Design(population_size=9000, household=["HID"]),
        Inputs(data=frame),
        Watcher(note=notes.append),
    )
    assert any(note.startswith(f"Warning: {SAYS}") for note in notes)
    answer = unikat.assess(
        frame, keys=keys, population_size=9000, household="HID", model="latent-class",
        max_sweeps=30, chains=2, workers=1, out=tmp_path / "out",
    )  # fmt: skip
    (said,) = [text for text in answer.result.warnings if SAYS in text]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert 0 < page.index(said.split("(")[0]) < page.index('id="technical"')


def test_households_as_units_have_no_shared_keys() -> None:
    spec = AssessmentSpec.parse(
        {
            "keys": ["AGE:width(20)", "SEX", "REGION", "TENURE", "ROOMS"],
            "model": "households",
            "design": {"household": ["HID"]},
            "households": {"population": 10**6, "keys": ["REGION", "TENURE", "ROOMS"]},
        }
    )
    table = read_households(spec, homes(), Watcher())[1].table
    assert not any(SAYS in text for text in table_warnings(table))


def test_more_shared_keys_than_in_any_sample_of_the_tables_are_warned_of() -> None:
    found = pd.read_csv(Path(__file__).parents[2] / "benchmarks" / "results" / "households.csv")
    assert found["shared"].max() == MOST_TRIED
    assert (found["shared"] == MOST_TRIED).sum() > 20
