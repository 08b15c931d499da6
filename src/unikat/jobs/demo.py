"""A simulated town whose risk is known, to show an estimate beside the truth.

The town is built person by person from households, not drawn from any model of this package:
households have a type, the type decides who lives there, and schooling, work, marriage and
origin follow from age, sex, neighbourhood and one another. The numbers are invented; only their
order of magnitude is taken from life.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from unikat._typing import AnyArray, Int64
from unikat.errors import OutputError
from unikat.files.folder import owned
from unikat.files.writing import replace_file
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs.assess import run
from unikat.jobs.job import check_folder
from unikat.report.facts.result import Result
from unikat.report.text.numbers import interval, number
from unikat.risk.estimate import Summary
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import specify
from unikat.spec.kinds import ASSESS
from unikat.spec.models import models_with

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
SAMPLE, TRUTH = "town-sample.csv", "truth.json"
CANDIDATES, EVIDENCE = models_with(candidate=True)[:2], 8.0
"""Fewer candidates than an assessment tries, and less work on them, so that the demo is quick."""
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


def simulate_town(n_population: int = 200_000, *, seed: int = 1) -> pa.Table:
    """Simulate a town, with a row per inhabitant.

    It has a text column per name in `KEYS`, and the neighbourhood.

    Examples
    --------
    >>> simulate_town(1_000, seed=1).num_rows
    1000
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
    return pa.table(
        {
            "age": _labels(band, _age_labels()),
            "sex": _labels(sex, SEXES),
            "marital_status": _labels(marital, MARITAL),
            "education": _labels(schooling, EDUCATION),
            "occupation": _labels(work, OCCUPATIONS),
            "birth_region": _labels(abroad, REGIONS),
            "tenure": _labels(tenure, TENURES),
            "neighbourhood": _labels(place, NEIGHBOURHOODS),
        }
    )


def draw_sample(town: pa.Table, fraction: float = 0.02, *, seed: int = 1) -> pa.Table:
    """Draw a simple random sample of the rows, in random order, without replacement."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    n_records = round(town.num_rows * fraction)
    return town.take(pa.array(rng.choice(town.num_rows, n_records, replace=False)))


def truth(town: pa.Table, sample: pa.Table, keys: Sequence[str] = KEYS) -> Truth:
    """Count what only the owner of the whole population can know: true τ1 and τ2 of a sample."""
    names = list(keys)
    in_sample = sample.group_by(names).aggregate([([], "count_all")])
    in_town = town.group_by(names).aggregate([([], "count_all")])
    uniques = in_sample.filter(pc.equal(in_sample["count_all"], 1)).select(names)
    found = uniques.join(in_town, keys=names, join_type="inner")
    population_counts = found["count_all"].to_numpy()
    return Truth(
        n_records=sample.num_rows,
        population_size=town.num_rows,
        n_uniques=uniques.num_rows,
        tau1=int(np.count_nonzero(population_counts == 1)),
        tau2=float(np.sum(1.0 / population_counts)),
    )


def run_demo(
    folder: Path, *, seed: int = 1, overwrite: bool = False, watcher: Watcher | None = None
) -> tuple[Result, Truth]:
    """Simulate a town, write a sample of it into a folder, and assess it like any other file.

    The folder gets `town-sample.csv`, `truth.json`, and what an assessment writes; the seed is
    that of the town, the sample and the chains.

    Raises
    ------
    Unfinished
        On Ctrl-C before there is an answer.
    """
    watcher = watcher or SILENT
    with owned(folder, (SAMPLE, TRUTH, *ASSESS.files, *ASSESS.work)):
        check_folder(ASSESS, folder, overwrite=overwrite)
        for name in (SAMPLE, TRUTH):
            if (folder / name).exists() and not overwrite:
                raise OutputError(
                    f"{folder / name} is already there; give --overwrite to replace it, or another "
                    "--out. Nothing was written."
                )
        watcher.stage("Simulating a town")
        town = simulate_town(seed=seed)
        sample = draw_sample(town, seed=seed)
        known = truth(town, sample)
        path = folder / SAMPLE
        buffer = io.BytesIO()
        csv.write_csv(sample, buffer)
        replace_file(path, buffer.getvalue())
        replace_file(folder / TRUTH, (json.dumps(asdict(known), indent=2) + "\n").encode())
        options = {
            "keys": list(KEYS),
            "population_size": town.num_rows,
            "set": {"candidates": list(CANDIDATES), "evidence_seconds": EVIDENCE},
            "seed": seed,
        }
        spec, inputs = specify(AssessmentSpec, path, options)
        found = run(spec, inputs, folder, resume=False, overwrite=overwrite, watcher=watcher)
    return found.result, known


def compare(result: Result, known: Truth) -> str:
    """Say how the estimate compares with the true value, whichever way it went."""
    lines = ["The town is simulated, so the truth is known:", ""]
    rows = (("τ1", result.tau1, float(known.tau1)), ("τ2", result.tau2, known.tau2))
    for name, summary, true in rows:
        lines.append(f"  {name}  true {number(true)}, estimated {_beside(summary, true)}")
    missed = [name for name, summary, true in rows if not summary.lower <= true <= summary.upper]
    if missed:
        lines += [
            "",
            f"The interval of {' and '.join(missed)} does not contain the true value in this town.",
        ]
    if "chosen" in result.fit:
        tried, chosen = " and ".join(CANDIDATES), result.fit["chosen"]
        lines += [
            "",
            f"To be quick, the demo tried {tried} alone, for some seconds, and chose {chosen};",
            "unikat assess tries more models, for longer.",
        ]
    return "\n".join(lines)


def _beside(summary: Summary, true: float) -> str:
    contains = "contains" if summary.lower <= true <= summary.upper else "does not contain"
    return f"{number(summary.median)} ({interval(summary)}): the interval {contains} the true value"


def _labels(codes: Int64, labels: Sequence[str]) -> pa.Array:
    return pa.array(np.array(labels, dtype=object)[codes], type=pa.string())


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
    child = (kind == FAMILY) & (role >= 2) | (kind == LONE_PARENT) & (role >= 1)
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
