"""What is known of the error of the model of households before a file is seen: its prior.

    python benchmarks/household_calibration.py FOLDER --cases 208
    python benchmarks/household_calibration.py FOLDER --cases 208 --composition
    python benchmarks/household_calibration.py FOLDER --table [--composition]

As calibration.py does for persons, with households in their place. Every case is a population of
real households (all of a file of the shared data, or a part of them), two to seven key variables
of households and persons with ages in groups, in some of the cases with the head's keys apart, and
a sample of 200 to 3,000 households, at most 12% of them. The size is always known. Sets of keys by
which more than nine in ten sampled households are unique are drawn again: hardly any such household
has a twin, whatever the model says. With --composition the relation to the head is one of the keys
in every case, and the model takes the composition by role in place of the size; surveys that do not
tell the relation are left out. Parameters have weak priors around those of persons; `slope` is 0,
since with few surveys its sign follows one of them. A case whose truth is unlike all others counts
no more than 8 nats. Nothing is learned from two of the surveys
(`APART`), which the tables show as they do a survey left out.
"""

from __future__ import annotations

import math
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from common import DATA, print_table
from learning import (
    POSITIVE,
    SHARES,
    START,
    Cases,
    Study,
    by_chance,
    command,
    experience,
    fit_case,
    learned,
    print_scores,
    read_case,
    scored_without,
    shares,
    survey,
)


class Source(NamedTuple):
    """A file of persons with households."""

    file: str
    household: list[str]
    """Columns that identify a household."""
    shared: str
    """Keys of households."""
    own: str
    """Keys of persons."""
    age: str
    head: tuple[str, int]
    """Column that tells the head, and the head's value."""
    relation: str = ""
    """Column that tells the relation to the head."""
    rows: str = ""
    """Rows that are taken."""
    homes: str = ""
    """File of households, with further keys."""


ACS = Source(
    "acs2024_persons_northeast", ["HH"], "ST TEN BLD HHL MULTG",
    "AGEP SEX RAC1P HISP MAR SCHL ESR CIT DIS", "AGEP", ("SPORDER", 1),
    rows="GQ != 1", homes="acs2024_households_northeast",
)  # fmt: skip
SPAIN = Source(
    "es_ecv2011", ["HH"], "REGION URBAN DWELL TENURE ROOMS INCDEC",
    "AGE SEX REL MARST EDUC ACTIVITY COB HEALTH", "AGE", ("REL", 1), "REL",
)  # fmt: skip
SOURCES = {
    "acs-northeast": ACS,
    "acs-west": ACS._replace(
        file="acs2024_persons_west", homes="acs2024_households_west"
    ),
    "acs-seattle": Source(
        "acs2016_seattle_relp", ["HH"], "PUMA", "RELP AGEP SEX ESR RAC1P HISP", "AGEP", ("RELP", 0),
        "RELP", "RELP < 16",
    ),
    "bolivia": Source(
        "bo_census1976_pando", ["HH"], "PROV CANTON AREA V03 V05 V10",
        "AGE SEX REL MARST LANG LITER ACTIVITY EMPSTAT", "AGE", ("REL", 1), "REL",
    ),
    "chile": Source(
        "chile_census2024_sample25k", ["id_vivienda", "id_hogar"], "region area",
        "parentesco sexo edad p23_est_civil p28_autoid_pueblo p31_religion discapacidad "
        "p33_edu_asiste cine11 sit_fuerza_trabajo", "edad", ("parentesco", 1),
        "parentesco",
    ),
    "colombia": Source(
        "co_geih2018_bogota", ["HH"], "STRATUM INCDEC",
        "AGE SEX REL EDUC ACTIVITY EMPSTAT FIRMSIZE PENSION", "AGE", ("REL", 1), "REL",
    ),
    "ense": Source(
        "es_ense2017", ["HH"], "REGION STRATUM ROOMS INCGRP CLASSPR",
        "AGE SEX REL EDUC ACTIVITY", "AGE", ("REL", 1), "REL",
    ),
    "eph": Source(
        "eph_argentina_4_quarters", ["YQ", "HH"], "REGION AGLOMERADO",
        "CH03 CH04 CH06 CH07 NIVEL_ED ESTADO CAT_OCUP", "CH06", ("CH03", 1), "CH03",
    ),
    "mexico": Source(
        "mx_enut2019", ["HH"], "REGION LOCSIZE ROOMS WATER FUEL CAR",
        "AGE SEX REL HEALTHINS ATTEND NURSERY", "AGE", ("REL", 1), "REL",
    ),
    "pakistan": Source(
        "pk_pslm2015", ["HH"], "REGION URBAN TENURE ROOMS WATER TOILET",
        "AGE SEX REL MARST EDUC WORK EMPSTAT READ", "AGE", ("REL", 6), "REL",
    ),
    "spain-2011": SPAIN,
    "spain-2019": SPAIN._replace(file="es_ecv2019"),
}  # fmt: skip
APART = ("mexico", "colombia")
"""Surveys that nothing is learned from, named before any of their samples was fitted."""
TURNS = (
    "acs-northeast", "eph", "chile", "pakistan", "spain-2011", "ense", "bolivia", "mexico",
    "acs-west", "eph", "chile", "pakistan", "spain-2019", "ense", "bolivia", "colombia",
)  # fmt: skip
"""Populations of the cases, in turn. With the relation, Seattle takes the place of the regions."""
COARSE = 160
"""From this case on every second turn has few and coarse keys, and so a small τ1."""
LARGEST = 12
"""Persons of a household; larger ones are left out of the population."""
WARM_UP, SWEEPS = 200, 600
LEVELS = 0.06
"""Scale of d between populations: little more than a step of the values that are tried. Learned, it
is next to none, and the level would be known for certain."""
SO_UNIQUE = 0.9
"""Sets of keys by which a larger part of the sample is unique are drawn again."""
HEADS = 0.35
"""Part of the cases in which the head's keys are the household's."""


class Homes(NamedTuple):
    """The persons of a file, household by household."""

    persons: pd.DataFrame
    household: np.ndarray
    """Number of each person's household; ascending."""
    shared: list[str]
    own: list[str]


@cache
def homes_of(source: str) -> Homes:
    """Read a file; households of a likely size that have one head, the head first."""
    of = SOURCES[source]
    data = pd.read_parquet(DATA / f"{of.file}.parquet")
    if of.rows:
        data = data[data.eval(of.rows)]
    if of.homes:
        further = pd.read_parquet(DATA / f"{of.homes}.parquet")
        data = data.merge(further.drop(columns=["ST"]), on=of.household)
    number = data.groupby(of.household, sort=False).ngroup().to_numpy()
    column, value = of.head
    is_head = data[column].to_numpy() == value
    good = (np.bincount(number) <= LARGEST) & (np.bincount(number, is_head) == 1)
    order = np.lexsort((~is_head, number))
    order = order[good[number[order]]]
    household = np.unique(number[order], return_inverse=True)[1]
    return Homes(data.iloc[order].reset_index(drop=True), household, of.shared.split(),
                 of.own.split())  # fmt: skip


class Drawn(NamedTuple):
    """A population with a sample."""

    table: Any
    counts: np.ndarray
    """(n_cells,): households of the population in each cell of the sample."""
    note: dict[str, Any]


def drawn(case: int, composition: bool) -> Drawn:
    """Draw the population, the keys and the sample of a case, until not all are unique."""
    rng = np.random.default_rng([34 if composition else 33, case])
    source = TURNS[case % len(TURNS)]
    if composition and not SOURCES[source].relation:
        source = "acs-seattle"
    relation = SOURCES[source].relation if composition else ""
    found = homes_of(source)
    every = int(found.household[-1]) + 1
    size = int(np.exp(rng.uniform(np.log(min(every, 8_000)), np.log(every))))
    part = np.sort(rng.permutation(every)[:size])
    least, most = max(200, 0.003 * size), min(3_000, 0.12 * size)
    coarse = case >= COARSE and case // len(TURNS) % 2 == 0
    most = 500.0 if coarse else most
    n = int(np.exp(rng.uniform(np.log(least), np.log(max(most, 1.2 * least)))))
    sampled = np.sort(rng.choice(size, n, replace=False))
    levels = "sample" if rng.random() < 0.6 else "population"
    while True:
        n_shared = int(rng.integers(0, min(len(found.shared), 3) + 1))
        n_own = max(int(rng.integers(2, 8)) - n_shared, 2)
        if coarse:
            n_shared, n_own = 0, int(rng.integers(1 + composition, 3))
        own = list(rng.choice(found.own, min(n_own, len(found.own)), replace=False))
        if composition and relation not in own:
            own[0] = relation
        chosen = Wanted(
            shared=list(rng.choice(found.shared, n_shared, replace=False)),
            own=own,
            age=SOURCES[source].age,
            width=40 if coarse else int(rng.choice([5, 10, 20, 40])),
            head=SOURCES[source].head[0] if rng.random() < HEADS else "",
            relation=relation,
        )
        table, counts = tabulated(found, part, sampled, chosen, levels == "sample")
        if table.n_uniques <= SO_UNIQUE * n:
            note = {"source": source, "by_hh": False, "studied": False, "levels": levels}
            return Drawn(table, counts, note)


class Wanted(NamedTuple):
    """Keys of a case."""

    shared: list[str]
    own: list[str]
    age: str
    width: int
    """Years of a group of ages."""
    head: str
    """Column that tells the head, if the head's keys are the household's."""
    relation: str
    """Key of persons that says who lives in a household; empty if none is to say it."""


def tabulated(
    homes: Homes, part: np.ndarray, sampled: np.ndarray, chosen: Wanted, levels_of_sample: bool
) -> tuple[Any, np.ndarray]:
    """Count a sample of a part of the households, and their cells in that part."""
    from unikat.data.households import HouseholdLayout
    from unikat.data.keys import Key
    from unikat.data.table import CellTable

    here = np.isin(homes.household, part)
    household = np.searchsorted(part, homes.household[here])
    first = np.flatnonzero(np.diff(household, prepend=-1))
    sizes = np.diff(np.append(first, len(household)))
    persons = homes.persons[here]

    def column(name: str) -> np.ndarray:
        values = persons[name].to_numpy()
        return np.clip(values, 0, 84) // chosen.width if name == chosen.age else values

    # The relation says nothing of a head that is apart.
    of_head = [name for name in chosen.own if name != chosen.head] if chosen.head else []
    shared = [column(name)[first] for name in (*chosen.shared, *of_head)]
    own = [column(name) for name in chosen.own]
    known = np.isin(household, sampled) if levels_of_sample else np.ones(len(household), bool)
    member = np.ones(len(household), bool)
    if of_head:
        member[first] = False
    of_sample = sampled if levels_of_sample else np.arange(len(part))

    def coded(values: np.ndarray, taken: np.ndarray) -> tuple[np.ndarray, int]:
        """Codes of the levels that are known; what others have is one more level."""
        levels = np.unique(values[taken])
        place = np.searchsorted(levels, values)
        there = levels[np.minimum(place, len(levels) - 1)] == values
        return np.where(there, place, len(levels)).astype(np.int32), max(len(levels), 2)

    houses = [coded(values, of_sample) for values in shared]
    members = [coded(values, known & member) for values in own]
    largest = max(int(sizes[of_sample].max()), 2)
    keys = (
        Key.of_size("size", largest),
        *(Key.of_size(f"shared{j}", size) for j, (_, size) in enumerate(houses)),
    )
    layout = HouseholdLayout(
        household_keys=keys,
        person_keys=tuple(Key.of_size(f"own{j}", size) for j, (_, size) in enumerate(members)),
        n_slots=largest - int(bool(of_head)),
        head_apart=bool(of_head),
        role=chosen.own.index(chosen.relation) if chosen.relation else -1,
    )
    codes = np.stack([sizes - 1, *(code for code, _ in houses)], axis=1).astype(np.int32)
    # Larger households than the sample's are in none of its cells.
    fits = sizes <= largest
    owned = np.stack([code for code, _ in members], axis=1)[member & fits[household]]
    rows = np.full((len(part), layout.n_columns), -2, np.int64)
    rows[fits] = layout.pack(codes[fits], owned)
    # Equal rows have equal sums, and others practically never.
    factors = np.random.default_rng(1).integers(1, 2**62, layout.n_columns)
    _, where, counts = np.unique(rows @ factors, return_inverse=True, return_counts=True)
    table = CellTable.from_codes(
        rows[sampled].astype(np.int32), layout.columns, len(part), layout=layout
    )
    population = np.zeros(table.n_cells, np.int64)
    population[table.record_cell] = counts[where.ravel()[sampled]]
    return table, population


def run_composition(case: int, folder: Path) -> str:
    """As `run_case`, with the composition by role."""
    return run_case(case, folder, composition=True)


def run_case(case: int, folder: Path, composition: bool = False) -> str:
    """Fit a case, and keep what is learned from it."""
    from unikat.models.households.nested import NestedHouseholds

    begin = time.monotonic()
    table, counts, note = drawn(case, composition)
    if table.n_uniques < 5:
        return f"{case}: too few sample uniques"
    path = folder / f"case-{case}.npz"
    model = NestedHouseholds(composition="auto" if composition else "none")
    fit_case(model, table, counts, path, note, (WARM_UP, SWEEPS))
    read_case(path, households=True)
    took = time.monotonic() - begin
    return (
        f"{case} {note['source']}: n {table.n_records} of {table.n_units}, "
        f"{len(table.variables)} keys, {table.n_uniques} uniques, "
        f"{int((counts[table.counts == 1] == 1).sum())} of the population, {took:.0f} s"
    )


def study() -> Study:
    """What is learned: around the values for persons."""
    from unikat.studies.calibrate import EXPERIENCE

    middles = {
        name: math.log(getattr(EXPERIENCE, name)) if name in POSITIVE else getattr(EXPERIENCE, name)
        for name in START
    }
    middles |= {"slope": 0.0, "shift_deviation": math.log(LEVELS)}
    return Study(
        keys=(2, 12),
        records=(200, 3_000),
        middles=np.array(list(middles.values())),
        fixed=("slope", "sharing", "sharing_spread", "shift_deviation"),
        again=40,
        unlike=math.exp(-8.0),
        apart=APART,
    )


def tables(cases: list[dict[str, Any]]) -> None:
    """Print the parameters, and how well the truth is predicted in the survey left out."""
    without = learned(cases, study())
    found = scored_without(cases, without, study(), least=0)
    found, small = (
        {
            kind: [one for one in rows if (one[0]["true1"] < 20) == low]
            for kind, rows in found.items()
        }
        for low in (False, True)
    )
    groups: dict[str, Any] = {
        "all": lambda c: survey(c) not in APART,
        "nothing learned from": lambda c: survey(c) in APART,
    }
    groups |= {name: lambda c, name=name: survey(c) == name for name in without}
    sizes: dict[str, Any] = {
        "n below 600": lambda c: c["n"] < 600,
        "n 600 to 3000": lambda c: c["n"] >= 600,
        "2 to 5 keys": lambda c: c["n_keys"] <= 5,
        "6 keys or more": lambda c: c["n_keys"] > 5,
    }
    rows: list[list[object]] = []
    for name, member in groups.items():
        for label, kind in (("no", "model alone"), ("yes", "rare cells")):
            part = np.array([row for case, row in found[kind] if member(case)])
            rows.append([name, label, len(part), *shares(part)])
    print_table(["survey left out", "calibrated", "samples", *SHARES], rows)
    for label, kind in (("alone", "model alone"), ("calibrated", "rare cells")):
        part = np.array([row for _, row in small[kind]])
        print(f"\nTrue τ1 below 20, {label}: {len(part)} samples, τ1 contained in "
              f"{int(part[:, 1].sum())}, τ2 in {int(part[:, 5].sum())}")  # fmt: skip
    print()
    print_scores(found, groups | sizes)
    print(f"\nPrior and evidence at the last k that is tried: {at_the_end(cases, without)}")
    by_chance(cases)


def at_the_end(cases: list[dict[str, Any]], without: dict[str, np.ndarray]) -> str:
    """Probability of the last k of a case, and in how many it is the median."""
    last, medians = [], 0
    for name, values in without.items():
        group = Cases([case for case in cases if survey(case) == name], study())
        of_k = group.weights(experience(values, study())).sum(axis=2)
        last += of_k[:, -1].tolist()
        medians += int((of_k[:, -1] > 0.5).sum())
    return f"{100 * np.mean(last):.2f}% on average, the median in {medians} of {len(last)} cases"


def read_households(path: Path) -> dict[str, Any]:
    """Read a case of households."""
    return read_case(path, households=True)


def main() -> None:
    """Run and print."""
    command(__doc__, run_case, 208, tables, read_households, composition=run_composition)


if __name__ == "__main__":
    main()
