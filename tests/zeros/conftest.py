"""Keys of several kinds, made people, and the New York example."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unikat.data import CellTable, Design, Key, read

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
NY_KEYS = "OWNERSHP,MORTGAGE,AGE,SEX,MARST,RACESING,EDUC,EMPSTAT,DISABWRK,VETSTAT"
"""In the order of the published disjoint conditions."""


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real data."""
    if not SHARED.is_dir():
        pytest.skip(f"the real data are not there ({SHARED})")
    return SHARED


@pytest.fixture(scope="session")
def new_york(shared_data: Path) -> CellTable:
    """The New York example: ten keys, some missing."""
    design = Design(population_size=1_000_000)
    return read(shared_data / "nyexample_X.parquet", NY_KEYS, design).tabulate()


@pytest.fixture
def keys() -> tuple[Key, ...]:
    """Numbers, texts with labels, bins, intervals of a producer, dates, missing as a level."""
    return (
        Key.of_size("AGE", 90),
        Key(name="SEX", levels=(1, 2), labels=("male", "female")),
        Key(name="EDUC", levels=("0", "1", "2", "10"), labels=("none", "low", "mid", "high")),
        Key(
            name="INCOME",
            levels=("< 0", "0-999", "1000-4999", ">= 5000"),
            labels=("< 0", "0-999", "1000-4999", ">= 5000"),
            binning="cut(0,1000,5000)",
        ),
        Key(
            name="AGEG",
            levels=("15", "<15", ">70", "[16,24]", "[25,70]"),
            labels=("15", "<15", ">70", "[16,24]", "[25,70]"),
        ),
        Key(
            name="years married",
            levels=(0, 1, 5, 40, None),
            labels=("0", "1", "5", "40", "missing"),
        ),
        Key(name="CODE", levels=(1, 2, 3), labels=("3", "2", "1")),
        Key(
            name="WEIGHT",
            levels=("[0, 2.5)", "[2.5, 5)"),
            labels=("[0, 2.5)", "[2.5, 5)"),
            binning="width(2.5)",
        ),
    )


@pytest.fixture
def people() -> pd.DataFrame:
    """2,000 people of whom the young are neither married nor educated."""
    rng = np.random.default_rng(5)
    age = rng.integers(0, 90, 2_000)
    frame = pd.DataFrame({"AGE": age, "SEX": rng.choice(["f", "m"], 2_000)})
    frame["MARST"] = np.where(
        age < 16, "single", rng.choice(["single", "married", "widowed"], 2_000)
    )
    frame["EDUC"] = np.where(age < 12, 0, rng.integers(0, 4, 2_000))
    return frame
