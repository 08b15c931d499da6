"""Data for examples, made here and offline: a simulated town whose risk is known.

The town is built person by person from households, not drawn from any model of this package:
households have a type, the type decides who lives there, and schooling, work, marriage and
origin follow from age, sex, neighbourhood and one another. The numbers are invented; only their
order of magnitude is taken from life. The same seed gives the same town.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from unikat._typing import AnyArray, Int64
from unikat.errors import DataError

__all__ = ["KEYS", "Truth", "draw_sample", "simulate_town", "truth", "write_examples"]

KEYS = (
    "age",
    "sex",
    "marital_status",
    "education",
    "occupation",
    "birth_region",
    "tenure",
)
"""Key variables of the town; the neighbourhood is in the file, but not a key."""

SEXES = ("female", "male")
MARITAL = ("never married", "married", "divorced", "widowed")
EDUCATION = ("primary or none", "lower secondary", "upper secondary", "vocational", "higher")
OCCUPATIONS = (
    "not in work",
    "managers and professionals",
    "technicians and clerks",
    "services and sales",
    "craft and machines",
    "farming and fishing",
    "elementary",
)
REGIONS = (
    "this country",
    "neighbouring countries",
    "rest of Europe",
    "Asia",
    "Africa",
    "America and Oceania",
)
TENURES = ("owned", "private rent", "social rent", "institution")
NEIGHBOURHOODS = ("Old Town", "Harbour", "Riverside", "Northfield", "Southgate", "Hillcrest")
RELATIONS = ("head", "partner", "child", "other")
AGE_WIDTH, OLDEST = 10, 90

# Household types, by neighbourhood in the columns; rows need not sum to one.
SINGLE, COUPLE, FAMILY, LONE_PARENT, FLAT_SHARE, PENSIONERS, INSTITUTION = range(7)
_SHARE_OF_PLACE = (0.12, 0.11, 0.17, 0.24, 0.24, 0.12)
_TYPE_BY_PLACE = np.array(
    [
        [0.46, 0.40, 0.24, 0.20, 0.22, 0.14],
        [0.20, 0.20, 0.18, 0.18, 0.18, 0.18],
        [0.08, 0.12, 0.28, 0.32, 0.30, 0.38],
        [0.04, 0.09, 0.08, 0.10, 0.11, 0.04],
        [0.16, 0.09, 0.05, 0.02, 0.02, 0.01],
        [0.09, 0.10, 0.18, 0.17, 0.16, 0.24],
        [0.0008, 0.0008, 0.0008, 0.0008, 0.0008, 0.0008],
    ]
)
_FOREIGN_BY_PLACE = (0.14, 0.24, 0.09, 0.10, 0.15, 0.06)
_ORIGIN = (0.30, 0.34, 0.19, 0.12, 0.05)


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is true of a sample of a known population."""

    n_records: int
    population_size: int
    n_uniques: int
    """Records that are alone in their cell in the sample."""
    tau1: int
    """Of these, those that are alone in their cell in the population."""
    tau2: float
    """Sum of 1/F over the sample uniques, F the population count of the record's cell."""


def simulate_town(
    n_population: int = 200_000, *, households: bool = False, seed: int = 1
) -> pd.DataFrame:
    """Simulate a town, with a row per inhabitant.

    Parameters
    ----------
    n_population
        Inhabitants.
    households
        Add who lives together (`household`, a number) and as what (`relation`). People and the
        order of the rows are the same.
    seed
        Of the town.

    Returns
    -------
    DataFrame
        A text column per name in `KEYS`, and the neighbourhood. People of a household stand
        together, its head first.

    Examples
    --------
    >>> town = simulate_town(1_000)
    >>> town.shape, list(town.columns)[:3]
    ((1000, 8), ['age', 'sex', 'marital_status'])
    >>> people = simulate_town(1_000, households=True)
    >>> people["household"].nunique() == len(people[people["relation"] == "head"])
    True
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    household, kind, place = _households(rng, n_population)
    role = _roles(household)
    sex = rng.integers(0, 2, n_population)
    age = _ages(rng, household, kind, role, sex)
    abroad = _origins(rng, household, place, age)
    marital = _marriages(rng, kind, role, age, sex)
    schooling = _education(rng, kind, place, age, abroad)
    work = _occupations(rng, kind, place, age, sex, schooling)
    tenure = _tenures(rng, household, kind, place, role, age)
    band = np.minimum(age, OLDEST) // AGE_WIDTH
    columns: dict[str, AnyArray] = {
        "age": _labels(band, _age_labels()),
        "sex": _labels(sex, SEXES),
        "marital_status": _labels(marital, MARITAL),
        "education": _labels(schooling, EDUCATION),
        "occupation": _labels(work, OCCUPATIONS),
        "birth_region": _labels(abroad, REGIONS),
        "tenure": _labels(tenure, TENURES),
        "neighbourhood": _labels(place, NEIGHBOURHOODS),
    }
    if households:
        relation = _labels(_relations(kind, role), RELATIONS)
        columns = {"household": household + 1, "relation": relation, **columns}
    return pd.DataFrame(columns)


def draw_sample(
    town: pd.DataFrame, fraction: float = 0.02, *, household: str | None = None, seed: int = 1
) -> pd.DataFrame:
    """Draw a simple random sample without replacement, of rows or of whole households.

    Parameters
    ----------
    town
        The population, a row for each person.
    fraction
        Share of the rows, or of the households, above 0 and at most 1.
    household
        Column that tells households apart: whole households are drawn, and their members stay
        together. None: persons are drawn, in random order.
    seed
        Of the sample.

    Raises
    ------
    DataError
        If the fraction is none, or there is no such column.

    Examples
    --------
    >>> town = simulate_town(1_000, households=True)
    >>> len(draw_sample(town, 0.05))
    50
    >>> sample = draw_sample(town, 0.1, household="household")
    >>> bool(town["household"].isin(sample["household"]).sum() == len(sample))
    True
    """
    if not 0 < fraction <= 1:
        raise DataError("The fraction of a sample is above 0 and at most 1, such as 0.02.")
    if household is None:
        rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
        rows = rng.choice(len(town), round(len(town) * fraction), replace=False)
        return town.iloc[rows].reset_index(drop=True)
    if household not in town:
        raise DataError(
            "The population has no such column of households; simulate_town(households=True) has "
            "one, named 'household'."
        )
    rng = np.random.default_rng(np.random.SeedSequence([seed, 3]))
    every = town[household].unique()
    drawn = rng.choice(every, round(len(every) * fraction), replace=False)
    return town[town[household].isin(drawn)].reset_index(drop=True)


def truth(town: pd.DataFrame, sample: pd.DataFrame, keys: Sequence[str] = KEYS) -> Truth:
    """Count what only the owner of the whole population can know: true τ1 and τ2 of a sample.

    Examples
    --------
    >>> town = simulate_town(1_000)
    >>> known = truth(town, draw_sample(town, 0.1))
    >>> known.tau1 <= known.tau2 <= known.n_uniques <= known.n_records == 100
    True
    """
    names = list(keys)
    in_sample = sample.groupby(names).size()
    uniques = in_sample[in_sample == 1]
    counts = town.groupby(names).size().reindex(uniques.index).to_numpy()
    return Truth(
        n_records=len(sample),
        population_size=len(town),
        n_uniques=len(uniques),
        tau1=int(np.count_nonzero(counts == 1)),
        tau2=float(np.sum(1.0 / counts)),
    )


def write_examples(folder: str | os.PathLike[str] = ".") -> None:
    """Write the files that the commands of the documentation read, all of them simulated.

    Parameters
    ----------
    folder
        Where to write `survey.csv`, `census.parquet` and the others; made if it does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_examples(folder)
    ...     print(len(pd.read_csv(f"{folder}/survey.csv")))
    250
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(1)
    town = simulate_town(3_000, seed=1)
    people = town.rename(columns={"neighbourhood": "region"})
    people["age"] = people["age"].str.extract(r"^(\d+)")[0].astype(int) + generator.integers(
        0, 10, len(people)
    )
    people["REGION"] = np.where(people["region"] == "Old Town", "north", "south")
    people["hid"] = np.arange(len(people)) // 3
    people["income"] = generator.gamma(2.0, 800.0, len(people)).round(2)
    people["illness"] = generator.choice(["none", "asthma", "diabetes"], len(people))
    people["household_size"] = people.groupby("hid")["hid"].transform("size")
    people.to_parquet(folder / "census.parquet")
    survey = people.sample(250, random_state=1).sort_index()
    survey["WEIGHT"] = 712_174 / len(survey)
    survey.to_csv(folder / "survey.csv", index=False)
    survey.to_csv(folder / "survey-commas.csv", sep=";", decimal=",", index=False)
    kept_apart = people.drop(survey.index).sample(250, random_state=3)
    kept_apart.to_csv(folder / "control.csv", index=False)
    # A generator that copies records and draws a quarter of the values again.
    redrawn = np.random.default_rng(2)
    made = survey.sample(250, random_state=4, replace=True).reset_index(drop=True)
    for column in ("age", "sex", "education", "occupation", "region"):
        drawn = survey[column].sample(len(made), random_state=5).to_numpy()
        made[column] = np.where(redrawn.random(len(made)) < 0.25, drawn, made[column])
    made.to_csv(folder / "synthetic.csv", index=False)
    register = people.sample(60, random_state=2)
    register[["age", "sex", "education", "region"]].to_csv(folder / "patients.csv", index=False)
    sizes = people["REGION"].value_counts() * 200
    sizes.rename_axis("REGION").rename("units").to_csv(folder / "sizes.csv")
    counts = people.groupby(["sex", "education"]).size().rename("people") * 200
    counts.iloc[0] += 712_174 - counts.sum()
    counts.to_csv(folder / "census-table.csv")
    simulate_homes(generator, 150).to_csv(folder / "homes.csv", index=False)
    firms = pd.DataFrame(
        {
            "branch": generator.choice(list("ABCDEF"), 2_000),
            "region": generator.choice(["north", "south"], 2_000),
            "legal_form": generator.choice(["sole", "limited", "other"], 2_000),
            "staff": generator.integers(1, 200, 2_000),
        }
    )
    firms.to_parquet(folder / "firms.parquet")


def simulate_homes(generator: np.random.Generator, n: int) -> pd.DataFrame:
    """Simulate households with a head, often a spouse, and children."""
    lines = []
    for home in range(n):
        age = int(generator.integers(20, 80))
        people = [("head", age)]
        if generator.random() < 0.6:
            people.append(("spouse", int(np.clip(age + generator.integers(-6, 7), 18, 90))))
        children = generator.integers(0, 4) if age < 60 else 0
        people += [("child", int(generator.integers(0, max(age - 18, 1)))) for _ in range(children)]
        tenure, region = generator.choice(["owner", "tenant"]), generator.choice(["north", "south"])
        for relation, years in people:
            sex = generator.choice(["f", "m"])
            lines.append((home, relation, years, sex, tenure, region))
    return pd.DataFrame(lines, columns=["hid", "relation", "age", "sex", "tenure", "region"])


def _labels(codes: Int64, labels: Sequence[str]) -> AnyArray:
    written: AnyArray = np.array(labels, dtype=object)
    return written[codes]


def _age_labels() -> list[str]:
    young = [f"{low}-{low + AGE_WIDTH - 1}" for low in range(0, OLDEST, AGE_WIDTH)]
    return [*young, f"{OLDEST}+"]


def _pick(rng: np.random.Generator, weights: AnyArray) -> Int64:
    """Draw one column per row, in proportion to the row's weights."""
    edges = np.cumsum(weights, axis=1)
    picked: Int64 = (rng.random(len(edges))[:, None] * edges[:, -1:] > edges).sum(axis=1)
    return picked


def _households(rng: np.random.Generator, n: int) -> tuple[Int64, Int64, Int64]:
    """Household number, household type and neighbourhood of every person."""
    place = rng.choice(len(_SHARE_OF_PLACE), n, p=_SHARE_OF_PLACE)
    kind = _pick(rng, _TYPE_BY_PLACE.T[place])
    family = 2 + rng.choice([1, 2, 3, 4], n, p=[0.40, 0.42, 0.14, 0.04])
    lone_parent = 1 + rng.choice([1, 2, 3], n, p=[0.60, 0.31, 0.09])
    pensioners = 1 + (rng.random(n) < 0.55)
    flat_share, institution = rng.integers(2, 6, n), rng.integers(15, 60, n)
    one, two = np.ones(n, dtype=np.int64), np.full(n, 2)
    size = np.choose(kind, [one, two, family, lone_parent, flat_share, pensioners, institution])
    household = np.repeat(np.arange(n), size)[:n]
    return household, kind[household], place[household]


def _roles(household: Int64) -> Int64:
    """Position of every person in the household: 0 is its reference person."""
    return np.arange(len(household)) - _anchors(household)


def _relations(kind: Int64, role: Int64) -> Int64:
    """Position of every person in the household, in the words of a survey (`RELATIONS`)."""
    partner = np.isin(kind, (COUPLE, FAMILY, PENSIONERS)) & (role == 1)
    child = _children(kind, role)
    found: Int64 = np.where(role == 0, 0, np.where(partner, 1, np.where(child, 2, 3)))
    return found


def _children(kind: Int64, role: Int64) -> AnyArray:
    found: AnyArray = (kind == FAMILY) & (role >= 2) | (kind == LONE_PARENT) & (role >= 1)
    return found


def _anchors(household: Int64) -> Int64:
    """Row of the household's reference person, for every person."""
    return np.searchsorted(household, household)


def _ages(
    rng: np.random.Generator, household: Int64, kind: Int64, role: Int64, sex: Int64
) -> Int64:
    noise = rng.standard_normal(len(household))
    centre = np.array([45.0, 43.0, 41.0, 39.0, 25.0, 75.0, 60.0])[kind]
    spread = np.array([16.0, 13.0, 8.0, 8.0, 5.0, 7.5, 28.0])[kind]
    lowest = np.array([18.0, 19.0, 20.0, 18.0, 18.0, 64.0, 5.0])[kind]
    years = np.maximum(centre + spread * noise, lowest + 2 * np.abs(noise))
    reference = years[_anchors(household)]
    partner = np.isin(kind, (COUPLE, FAMILY, PENSIONERS)) & (role == 1)
    years[partner] = np.maximum(reference + 4.5 * noise - 1.5, 18)[partner]
    child = _children(kind, role)
    at_birth = np.maximum(28 + 5 * noise + 2 * role, 16)
    years[child] = np.abs(reference - at_birth)[child] % 30
    years += np.where((sex == 0) & (years > 70), 2.5, 0.0)
    rounded: Int64 = np.clip(years, 0, 104).astype(np.int64)
    return rounded


def _origins(rng: np.random.Generator, household: Int64, place: Int64, age: Int64) -> Int64:
    """Region of birth; people of a household mostly share one."""
    n, anchor = len(household), _anchors(household)
    rate = np.array(_FOREIGN_BY_PLACE)[place] * np.where(age > 70, 0.5, 1.0)
    shared = rng.random(n) < 0.8
    foreign = rng.random(n) < rate
    foreign = np.where(shared, foreign[anchor], foreign)
    foreign &= (age >= 15) | (rng.random(n) < 0.4)
    origin = 1 + rng.choice(len(_ORIGIN), n, p=_ORIGIN)
    return np.where(foreign, np.where(shared, origin[anchor], origin), 0)


def _marriages(rng: np.random.Generator, kind: Int64, role: Int64, age: Int64, sex: Int64) -> Int64:
    partnered = np.isin(kind, (COUPLE, FAMILY, PENSIONERS)) & (role <= 1)
    married = np.where(partnered, 0.92 / (1 + np.exp(-(age - 28) / 5)), 0.02)
    single = 1 / (1 + np.exp((age - 41) / 7.5)) + 0.05
    divorced = np.where(partnered, 0.06, 0.32) * np.clip((age - 24) / 25, 0, 1)
    widowed = np.exp((age - 83) / 8.5) * np.where(sex == 0, 1.0, 0.4)
    widowed = np.where(partnered, 0.04, 1.0) * widowed
    weights = np.stack([single, married, divorced, widowed], axis=1)
    weights[age < 18, 1:] = 0.0
    return _pick(rng, weights)


def _education(
    rng: np.random.Generator, kind: Int64, place: Int64, age: Int64, origin: Int64
) -> Int64:
    taste = np.array([0.6, 0.0, 0.2, -0.3, -0.5, 0.7])[place]
    taste = taste + np.array([0.0, 0.2, -0.1, 0.4, -0.5, 0.4])[origin]
    taste = taste - 0.025 * np.clip(age - 45, 0, 45) + 0.4 * (kind == FLAT_SHARE)
    score = taste - 0.9 * (kind == INSTITUTION) + 0.9 * rng.logistic(size=len(age))
    finished = np.searchsorted([-2.6, -1.2, 0.15, 0.85], score)
    attainable = np.searchsorted([13, 17, 19, 21], age, side="right")
    reached: Int64 = np.minimum(finished, attainable)
    return reached


def _occupations(
    rng: np.random.Generator, kind: Int64, place: Int64, age: Int64, sex: Int64, schooling: Int64
) -> Int64:
    by_school = np.array(
        [
            [0.4, 0.6, 2.5, 3.5, 0.8, 4.5],
            [1.0, 2.0, 5.0, 6.0, 0.5, 4.0],
            [2.8, 7.0, 5.0, 4.0, 0.3, 1.6],
            [2.8, 6.0, 3.5, 8.0, 0.4, 0.8],
            [13.0, 5.0, 1.5, 0.5, 0.1, 0.3],
        ]
    )
    male = np.array([1.1, 0.7, 0.55, 6.0, 2.4, 1.0])
    weights = by_school[schooling] * np.where(sex[:, None] == 1, male, 1 / male)
    weights[:, 4] *= np.array([0.1, 2.0, 0.5, 0.7, 0.7, 2.0])[place]
    ages, rates = [14, 16, 24, 35, 55, 64, 68, 80], [0, 0.06, 0.6, 0.85, 0.82, 0.5, 0.1, 0]
    working = np.interp(age, ages, rates)
    working *= np.where((sex == 0) & (kind == FAMILY) & (age < 45), 0.82, 1.0)
    working *= np.choose(kind, [1.0, 1.0, 1.0, 0.9, 0.6, 1.0, 0.25])
    occupation = 1 + _pick(rng, weights)
    return np.where(rng.random(len(age)) < working, occupation, 0)


def _tenures(
    rng: np.random.Generator, household: Int64, kind: Int64, place: Int64, role: Int64, age: Int64
) -> Int64:
    """Tenure, one for the household, by the age of its reference person."""
    head = np.flatnonzero(role == 0)
    years, where, what = age[head], place[head], kind[head]
    owned = np.clip((years - 20) / 30, 0.05, 1.2) * np.where(what == FLAT_SHARE, 0.1, 1.0)
    owned = owned * np.array([0.6, 0.5, 1.3, 1.1, 0.9, 2.2])[where]
    private = np.exp((20 - years) / 25) * np.array([2.0, 1.6, 0.9, 0.7, 0.7, 0.4])[where]
    social = np.array([0.2, 0.6, 0.15, 0.4, 0.5, 0.04])[where]
    social = social * np.where(what == LONE_PARENT, 2.5, 1.0)
    chosen = _pick(rng, np.stack([owned, private, social], axis=1))
    chosen = np.where(what == INSTITUTION, 3, chosen)
    return chosen[np.searchsorted(household[head], household)]
