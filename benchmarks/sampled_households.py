"""Samples of whole households: what is known of the error of latent classes beforehand.

    python benchmarks/sampled_households.py FOLDER --cases 236
    python benchmarks/sampled_households.py FOLDER --table
    python benchmarks/sampled_households.py OTHER_FOLDER --cases 44 --hdp    (or --gom)

As calibration.py does for persons. Every case is a population (a survey of households, or a part of
its households), zero to six keys that members share, three to six of persons, and one sample of
whole households with 200 to 3,000 members, from case 212 on with up to 8,000. Latent classes are
fitted, shared keys have a law of their own and companions are left out of the probabilities
(`models.mixtures.homes`), and kept is what the sample tells of the error, and what the population
does; also τ1 with all members as draws. Printed: the parameters of
`studies.calibrate`, all surveys together and without each, and how well τ1 and τ2 are predicted in
the survey left out, by the number of shared keys.
"""

from __future__ import annotations

import time
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from common import DATA, print_table
from learning import (
    SHARES,
    Study,
    by_chance,
    command,
    experience,
    learned,
    scored_by,
    shares,
    survey,
    tabulated,
    write_cases,
    write_deciles,
)

SOURCES: dict[str, tuple[str, str, str, str]] = {
    "acs-northeast": ("acs2024_persons_northeast", "HH",
                      "AGEP SEX RAC1P MAR SCHL ESR HISP CIT COW DIS", "ST TEN NP HHT BLD HHL"),
    "acs-west": ("acs2024_persons_west", "HH",
                 "AGEP SEX RAC1P MAR SCHL ESR HISP CIT COW DIS", "ST TEN NP HHT BLD HHL"),
    "eph": ("eph_argentina_4_quarters", "YQ HH",
            "CH06 CH04 CH03 CH07 NIVEL_ED ESTADO CAT_OCUP CH08", "REGION AGLOMERADO SIZE"),
    "chile": ("chile_census2024_sample25k", "id_vivienda id_hogar",
              "edad sexo parentesco p23_est_civil p31_religion cine11 sit_fuerza_trabajo "
              "cod_caenes", "region area tipo_operativo SIZE"),
    "pakistan": ("pk_pslm2015", "HH", "AGE SEX REL MARST EDUC WORK EMPSTAT READ",
                 "REGION URBAN TENURE ROOMS WATER TOILET DRAIN SIZE"),
    "mexico": ("mx_enut2019", "HH", "AGE SEX REL HEALTHINS ATTEND NURSERY",
               "REGION LOCSIZE ROOMS WATER FUEL CAR HHSIZE PAYTV"),
    "spain-2011": ("es_ecv2011", "HH", "AGE SEX REL MARST EDUC ACTIVITY COB HEALTH",
                   "REGION URBAN DWELL TENURE ROOMS HHTYPE INCDEC ENDSMEET"),
    "spain-2019": ("es_ecv2019", "HH", "AGE SEX REL MARST EDUC ACTIVITY COB HEALTH",
                   "REGION URBAN DWELL TENURE ROOMS HHTYPE INCDEC ENDSMEET"),
    "ense": ("es_ense2017", "HH", "AGE SEX REL EDUC ACTIVITY",
             "REGION STRATUM HHTYPE ROOMS INCGRP CLASSPR NOISE"),
    "colombia": ("co_geih2018_bogota", "HH", "AGE SEX REL EDUC ACTIVITY EMPSTAT FIRMSIZE PENSION",
                 "MONTH STRATUM INCDEC SIZE"),
    "bolivia": ("bo_census1976_pando", "HH", "AGE SEX REL MARST LANG LITER ACTIVITY EMPSTAT",
                "PROV CANTON AREA V03 V05 V10 SIZE"),
}  # fmt: skip
"""File, columns of the household, keys of persons, keys that members share; the first of the keys
of persons is the age. SIZE: members of the household."""
Kind = Literal["households", "persons", "few"]
WARM_UP, SWEEPS, CHAINS, KEPT = 500, 1300, 2, 100
NEW = ("pakistan", "mexico", "spain-2011", "spain-2019", "ense", "colombia", "bolivia")
"""Files whose persons are drawn one by one, for calibration.py."""
LARGE = ("acs-northeast", "acs-west", "eph", "pakistan")
"""Files of many persons, of which few are drawn."""
FIRST_LARGE = 212
"""From this case on samples of 3,000 to 8,000 persons of these files."""
FEWER = 300, 700
"""Sweeps left out, and all, of the other mixtures."""
STUDY = Study(keys=(3, 12), records=(200, 8000))


@cache
def frame(source: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Read a file and code its columns; also the household of each row."""
    name, household, persons, shared = SOURCES[source]
    data = pd.read_parquet(DATA / f"{name}.parquet")
    if name.startswith("acs2024"):
        homes = pd.read_parquet(DATA / f"{name.replace('persons', 'households')}.parquet")
        data = data.merge(homes[["HH", "TEN", "NP", "HHT", "BLD", "HHL"]], on="HH")
    home = pd.factorize(pd.MultiIndex.from_frame(data[household.split()]))[0]
    data = data.assign(SIZE=np.bincount(home)[home])
    data = data[[*persons.split(), *shared.split()]]
    age = data.columns[0]
    data = data.assign(FIVE=pd.to_numeric(data[age], errors="coerce").fillna(-5) // 5)
    coded = data.apply(
        lambda column: pd.factorize(column.astype(object).where(column.notna(), "NA"))[0]
    )
    return coded.astype(np.int32), home


def drawn(case: int, kind: Kind = "households") -> dict[str, Any]:
    """Draw the population, the keys and the sample of a case.

    kind: of whole households; of persons; of few persons of a whole large file.
    """
    large = kind == "households" and case >= FIRST_LARGE
    sources = {"households": tuple(SOURCES), "persons": NEW, "few": LARGE}[kind]
    sources = LARGE if large else sources
    rng = np.random.default_rng([{"households": 12, "persons": 13, "few": 14}[kind], case])
    source = sources[case % len(sources)]
    data, home = frame(source)
    persons, shared = (SOURCES[source][part].split() for part in (2, 3))
    n_shared = int(rng.integers(0, min(6, len(shared)) + 1))
    n_own = int(rng.integers(3, min(6, len(persons)) + 1))
    own = ["FIVE" if rng.random() < 0.4 else persons[0]]
    own += rng.choice(persons[1:], n_own - 1, replace=False).tolist()
    chosen = [*own, *rng.choice(shared, n_shared, replace=False).tolist()]
    size = int(np.exp(rng.uniform(np.log(10_000), np.log(len(data)))))
    size = len(data) if kind == "few" or large else size
    rank = np.argsort(rng.permutation(home.max() + 1))
    units = np.argsort(rank[home], kind="stable")[:size]
    household = np.unique(home[units], return_inverse=True)[1]
    least, most = max(200, 0.003 * size), min(3000, 0.12 * size)
    if kind == "few":
        least, most = 200, 0.003 * size
    elif large:
        least, most = 3_000, 8_000
    n = int(np.exp(rng.uniform(np.log(least), np.log(max(most, 1.2 * least)))))
    if kind != "households":
        sampled = np.sort(rng.choice(size, n, replace=False))
    else:
        order = rng.permutation(household.max() + 1)
        enough = np.searchsorted(np.cumsum(np.bincount(household)[order]), n) + 1
        sampled = np.flatnonzero(np.isin(household, order[:enough]))
    return {
        "source": source,
        "chosen": chosen,
        "n_shared": n_shared,
        "codes": data[chosen].to_numpy()[units],
        "sampled": sampled,
        "household": np.unique(household[sampled], return_inverse=True)[1],
    }


def run_case(
    case: int,
    folder: Path,
    model: Any = None,
    sweeps: tuple[int, int] = (WARM_UP, SWEEPS),
    kind: Kind = "households",
    number: int | None = None,
) -> str:
    """Fit a case, and keep what is learned from it, as of this number.

    model: instead of latent classes.
    """
    from dataclasses import replace

    from learning import LAST, answers, of_truth

    from unikat import LatentClass
    from unikat.data.companions import companions_of
    from unikat.data.shared_keys import sharing
    from unikat.kernels.overdispersion import FALL
    from unikat.models.base import Stream
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS
    from unikat.risk.by_class import Look
    from unikat.risk.exposure import exposure_of
    from unikat.studies.rare_cells import RareCells

    begin = time.monotonic()
    found = drawn(case, kind)
    codes, units = found["codes"], found["sampled"]
    table, population_counts = tabulated(codes, units, found["chosen"], units)
    if kind == "households":
        table = replace(table, households=found["household"].astype(np.int32))
    if table.unique.sum() < 5:
        return f"{case}: too few sample uniques"
    truth_of = population_counts[table.unique]
    uniques = np.ascontiguousarray(table.cells[table.unique])
    model = LatentClass() if model is None else model
    exposure, rare = exposure_of(table), RareCells.of(table)
    companions, data = companions_of(table, uniques), model.prepare(table)
    kept, before, totals = [], [], rare.start()
    warm_up, last = sweeps
    every = (last - warm_up) * CHAINS // KEPT
    for chain in range(CHAINS):
        state = model.init(Stream(1, chain, 0), data)
        for sweep in range(1, last + 1):
            stream = Stream(1, chain, sweep)
            state, _ = model.step(stream, state, data, 1)
            if sweep > warm_up and (sweep - warm_up) % every == 0:
                kept.append(exposure.chances(Look(stream, model, state, data), uniques, companions))
                persons = state._replace(homes=()), data._replace(homes=None)
                before.append(model.cell_probabilities(stream, *persons, uniques))
                rare.observe(stream, model, state, data, totals)
    n, size = float(table.n_records), float(table.n_units)
    p = np.array(kept)
    step = -(-p.shape[1] // 1500)
    shape = (len(OVERDISPERSION), len(SHIFTS))
    truth, answered = np.zeros(shape), np.zeros((4, *shape))
    grids = (OVERDISPERSION, SHIFTS, FALL)
    few = np.ascontiguousarray(p[::10, ::step])
    of_truth(np.ascontiguousarray(p[::5, ::step]), truth_of[::step], n, size - n, size, *grids,
             LAST, truth)  # fmt: skip
    answers(few, n, size, *grids, answered)
    rest = size - n
    alone = [float(((1.0 - np.minimum(q, 1.0)) ** rest).sum(axis=1).mean())
             for q in (np.array(before), p)]  # fmt: skip
    np.savez(
        folder / f"case-{case if number is None else number}.npz",
        source=found["source"], by_hh=kind == "households", studied=False, levels="sample", n=n,
        N=size, n_keys=table.n_keys, n_shared=found["n_shared"], sharing=sharing(table),
        households=len(np.unique(found["household"])), uniques=len(truth_of),
        true1=int((truth_of == 1).sum()), true2=float((1.0 / truth_of).sum()),
        truth=step * truth, evidence=rare.log_likelihood(totals), answers=step * answered,
        alone=np.array(alone), few=few.astype(np.float32), counts=truth_of[::step], step=step,
    )  # fmt: skip
    return (
        f"{case} {found['source']}: n {table.n_records}, {found['n_shared']} shared, "
        f"true {int((truth_of == 1).sum())}, {alone[0]:.0f} -> {alone[1]:.0f}, "
        f"{time.monotonic() - begin:.0f} s"
    )


def run_hdp(case: int, folder: Path) -> str:
    """Fit a case by the hierarchical Dirichlet process."""
    from unikat import HDP

    return run_case(case, folder, HDP(), FEWER)


def run_gom(case: int, folder: Path) -> str:
    """Fit a case by grade of membership."""
    from unikat import GoM

    return run_case(case, folder, GoM(), FEWER)


def read_case(path: Path) -> dict[str, Any]:
    """Read a case as it was kept."""
    with np.load(path) as file:
        return {name: file[name][()] for name in file.files}


def tables(cases: list[dict[str, Any]]) -> None:
    """Print the parameters, and how well the truth is predicted in the survey left out."""
    without = learned(cases, STUDY, "households")
    of = {name: experience(values, STUDY) for name, values in without.items()}
    found = scored_by(cases, of, STUDY, least=0)
    groups: dict[tuple[str, str], Any] = {}
    for low, high in ((0, 0), (1, 2), (3, 4), (5, 6)):
        groups[f"{low} to {high} shared", "all"] = partial(_is, low, high, "")
        for name in of:
            groups[f"{low} to {high} shared", name] = partial(_is, low, high, name)
    for name in of:
        groups["any", name] = partial(_is, 0, 99, name)
    groups["any", "true τ1 below 20"] = lambda c: c["true1"] < 20
    groups["any", "true τ1 of 20 or more"] = lambda c: c["true1"] >= 20
    for low, high in ((200, 400), (400, 1000), (1000, 3001)):
        groups["any", f"{low:,} to {high:,} records"] = lambda c, low=low, high=high: (
            low <= c["n"] < high
        )
    groups["any", "all"] = lambda c: True
    for kind, rows_of in found.items():
        rows: list[list[object]] = []
        for (name, what), member in groups.items():
            part = np.array([row for case, row in rows_of if member(case)])
            if len(part):
                rows.append([name, what, len(part), *shares(part)])
        print(f"{kind}\n")
        print_table(["keys", "samples of", "samples", *SHARES], rows)
        print()
    write_cases("households", cases, of, STUDY)
    write_deciles("households", cases, of, STUDY)
    by_chance(cases)


def _is(low: int, high: int, name: str, case: dict[str, Any]) -> bool:
    return low <= case["n_shared"] <= high and name in ("", survey(case))


def main() -> None:
    """Run and print."""
    command(
        __doc__,
        run_case,
        236,
        tables,
        read=read_case,
        hdp=run_hdp,
        gom=run_gom,
    )


if __name__ == "__main__":
    main()
