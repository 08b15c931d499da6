"""What is known of the error of latent classes before a file is seen: the prior of `auto`.

    python benchmarks/calibration.py FOLDER --cases 612
    python benchmarks/calibration.py FOLDER --table

Every one of the first 442 cases is a population of real records (all rows of a file of the shared
data, or a part of its households), four to ten of its columns as keys, and one sample of 200 to
15,000 persons, drawn one by one (samples of whole households: sampled_households.py). Cases 442 to
581 are of six further surveys, and from 582 on samples of less than 0.3% of large files. Keys have
the levels of the sample (in six of ten cases) or of the population. Latent classes are fitted to
the sample; kept are draws of the probability of each cell that is seen once, twice or three times,
and the population counts of the sample uniques. These give the likelihood of the overdispersion k
and the shift d of the fit (`models.calibrated`): counts above six say no more than that, since what
matters is how many are one, and cells that are far more frequent than the model says would decide
everything else. Together with what the rare cells of the sample itself tell (`studies.rare_cells`)
they give the parameters of `studies.calibrate` that make the truth likely given the sample, each
survey counting with the square root of its cases. Printed: these parameters, all surveys together
and without each; and how well tau1 and tau2 are predicted in the survey left out.
"""

from __future__ import annotations

import math
import time
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import sampled_households
from common import DATA, print_table
from learning import (
    PERSONS,
    SHARES,
    SIMULATED,
    Scored,
    by_chance,
    command,
    experience,
    fit_case,
    learned,
    print_scores,
    scored_by,
    shares,
    survey,
    tabulated,
    write_cases,
    write_deciles,
)

ACS = "AGEP AGE5 SEX RAC1P MAR SCHL ESR CIT DIS LANX MIL HISP COW JWTRNS IND OCC ST PUMA"
CHILE = (
    "region provincia area parentesco sexo edad edad_quinquenal p23_est_civil "
    "p25_lug_nacimiento_rec p28_autoid_pueblo p31_religion discapacidad p33_edu_asiste cine11 "
    "sit_fuerza_trabajo cod_ciuo cod_caenes"
)
ADULT = (
    "age sex race marital_status education occupation workclass relationship hours_per_week "
    "native_country income"
)
NIST = (
    "PUMA AGEP SEX MSP RAC1P HISP NOC NPF HOUSING_TYPE OWN_RENT EDU INDP_CAT PINCP_DECILE DVET "
    "DREM DPHY"
)
EPH = "REGION CH03 CH04 CH06 CH07 NIVEL_ED ESTADO CAT_OCUP"
NE, WEST = "acs2024_persons_northeast", "acs2024_persons_west"
SOURCES: dict[str, tuple[str, str, list[str], str]] = {
    "acs-northeast": (NE, ACS, ["HH"], ""),
    "acs-west": (WEST, ACS, ["HH"], ""),
    "acs-adults-ne": (NE, ACS, ["HH"], "AGEP >= 18"),
    "acs-adults-w": (WEST, ACS, ["HH"], "AGEP >= 18"),
    "households": (
        "acs2024_households_northeast", "ST NP BLD TEN HHT HHL MULTG TYPEHUGQ", [], ""
    ),
    "eph": ("eph_argentina_4_quarters", EPH, ["YQ", "HH"], ""),
    "eph-quarter": ("eph_argentina_4_quarters", EPH, ["YQ", "HH"], "YQ == YQ.min()"),
    "adult": ("adult_48842", ADULT, [], ""),
    "nist": ("nist_excerpt_ma", NIST, [], ""),
    "chile": ("chile_census2024_sample25k", CHILE, ["id_vivienda", "id_hogar"], ""),
    "eusilc": ("eusilcP_population", "region hsize age gender ecoStat citizenship", ["hid"], ""),
    "uk": ("uk2011_teaching_srs_10k", "", [], ""),
    "ny": ("nyexample_X", "", [], ""),
}  # fmt: skip
"""File, key variables (none named: all columns), columns of the household, rows that are taken."""
FURTHER, FEW = 442, 582
"""First cases of the surveys of sampled_households.py, and of samples of few persons."""
SAME = (("AGEP", "AGE5"), ("edad", "edad_quinquenal"), ("region", "provincia"), ("ST", "PUMA"))
"""Pairs of which a case has one."""
SIX, TEN = "AGEP SEX RAC1P MAR SCHL ESR", "AGE5 SEX RAC1P MAR SCHL ESR CIT DIS LANX MIL"
STUDIED = {
    "acs-adults-ne": [SIX, TEN],
    "acs-adults-w": [SIX, TEN],
    "acs-northeast": ["ST AGEP SEX RAC1P HISP MAR SCHL"],
    "acs-west": ["ST AGEP SEX RAC1P HISP MAR SCHL"],
    "eph": [EPH],
    "adult": ["age sex race marital_status education occupation workclass"],
    "nist": ["PUMA AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU INDP_CAT"],
}
"""Whole populations and sets of keys of half of the cases, those of accuracy.py among them."""


@cache
def frame(source: str) -> tuple[pd.DataFrame, np.ndarray | None]:
    """Read a file and code its columns; also the household of each row."""
    name, keys, household, rows = SOURCES[source]
    data = pd.read_parquet(DATA / f"{name}.parquet")
    if rows:
        data = data[data.eval(rows)]
    if "AGEP" in data:
        data = data.assign(AGE5=data["AGEP"] // 5)
    homes = None
    if household:
        homes = pd.factorize(pd.MultiIndex.from_frame(data[household]))[0]
    named = keys.split() or list(data)
    data = data[[name for name in named if name in data and data[name].nunique() > 1]]
    coded = data.apply(
        lambda column: pd.factorize(column.astype(object).where(column.notna(), "NA"))[0]
    )
    return coded.astype(np.int32), homes


def drawn(case: int) -> dict[str, Any]:
    """Draw the population, the keys and the sample of a case."""
    rng = np.random.default_rng([11, case])
    turn, place = divmod(case, len(SOURCES))
    source = list(SOURCES)[place]
    data, homes = frame(source)
    by_household = homes is not None and turn % 2 == 1
    studied = turn % 4 >= 2 and source in STUDIED
    if studied:
        sets = STUDIED[source]
        chosen = sets[turn // 4 % len(sets)].split()
        size = len(data)
    else:
        columns = list(data)
        n_keys = int(rng.integers(min(4, len(columns)), min(10, len(columns)) + 1))
        chosen = list(rng.choice(columns, n_keys, replace=False))
        for kept, other in SAME:
            if kept in chosen and other in chosen:
                chosen.remove(other)
        size = int(np.exp(rng.uniform(np.log(min(len(data), 10_000)), np.log(len(data)))))
    if homes is None:
        units, household = rng.choice(len(data), size, replace=False), np.arange(size)
    else:
        rank = np.argsort(rng.permutation(homes.max() + 1))
        units = np.argsort(rank[homes], kind="stable")[:size]
        household = np.unique(homes[units], return_inverse=True)[1]
    least, most = max(200, 0.003 * size), min(15_000, 0.12 * size)
    n = int(np.exp(rng.uniform(np.log(least), np.log(max(most, 1.2 * least)))))
    if by_household:
        order = rng.permutation(household.max() + 1)
        enough = np.searchsorted(np.cumsum(np.bincount(household)[order]), n) + 1
        sampled = np.flatnonzero(np.isin(household, order[:enough]))
    else:
        sampled = np.sort(rng.choice(size, n, replace=False))
    return {
        "source": source,
        "by_hh": by_household,
        "studied": studied,
        "chosen": chosen,
        "codes": data[chosen].to_numpy()[units],
        "sampled": sampled,
        "levels": "sample" if rng.random() < 0.6 else "population",
    }


def run_case(case: int, folder: Path) -> str:
    """Fit a case, and keep what is learned from it."""
    from unikat import LatentClass

    if case >= FEW:
        return sampled_households.run_case(case - FEW, folder, kind="few", number=case)
    if case >= FURTHER:
        return sampled_households.run_case(case - FURTHER, folder, kind="persons", number=case)
    begin = time.monotonic()
    found = drawn(case)
    if found["by_hh"]:
        return f"{case}: a sample of households"
    codes, units = found["codes"], found["sampled"]
    known = units if found["levels"] == "sample" else slice(None)
    table, population_counts = tabulated(codes, units, found["chosen"], known)
    if table.unique.sum() < 5:
        return f"{case}: too few sample uniques"
    note = {name: found[name] for name in ("source", "by_hh", "studied", "levels")}
    fit_case(LatentClass(), table, population_counts, folder / f"case-{case}.npz", note)
    return f"{case} {found['source']}: n {table.n_records}, {time.monotonic() - begin:.0f} s"


def tables(cases: list[dict[str, Any]]) -> None:
    """Print the parameters, and how well the truth is predicted in the survey left out."""
    cases = [case for case in cases if not case["by_hh"]]
    of = {name: experience(v, PERSONS) for name, v in learned(cases, PERSONS, "persons").items()}
    everything = scored_by(cases, of, PERSONS, least=0)
    found = {
        kind: [(case, row) for case, row in scored if case["true1"] >= 20]
        for kind, scored in everything.items()
    }
    groups: dict[str, Any] = {
        "all real": lambda c: c["source"] != SIMULATED,
        "n below 400": lambda c: c["source"] != SIMULATED and c["n"] < 400,
        "n 400 to 1000": lambda c: c["source"] != SIMULATED and 400 <= c["n"] < 1000,
        "n 1000 to 4000": lambda c: c["source"] != SIMULATED and 1000 <= c["n"] < 4000,
        "n above 4000": lambda c: c["source"] != SIMULATED and c["n"] >= 4000,
        "less than 0.3%": lambda c: c["source"] != SIMULATED and c["n"] < 0.003 * c["N"],
    }
    for name in of:
        groups[name] = partial(_is, name)
    situations(found["rare cells"])
    print_scores(found, groups)
    real = [case for case in cases if survey(case) != SIMULATED]
    real = {name: one for name, one in of.items() if name != SIMULATED}
    write_cases("persons", cases, real, PERSONS)
    write_deciles("persons", cases, real, PERSONS)
    by_chance(cases)


def situations(found: Scored) -> None:
    """Print error and coverage by number of records, number of keys, and levels."""
    real = [(case, row) for case, row in found if case["source"] != SIMULATED]
    sizes = {"200 to 400": (0, 400), "400 to 1,000": (400, 1000), "1,000 to 4,000": (1000, 4000),
             "4,000 to 15,000": (4000, math.inf)}  # fmt: skip
    groups: dict[str, Any] = {"all": lambda c: True}
    for size, (low, high) in sizes.items():
        groups[size] = lambda c, low=low, high=high: low <= c["n"] < high
    for low, high in ((4, 6), (7, 9), (10, 10)):
        groups[f"{low} to {high} keys"] = lambda c, low=low, high=high: low <= c["n_keys"] <= high
    for levels in ("sample", "population"):
        groups[f"levels of the {levels}"] = lambda c, levels=levels: c["levels"] == levels
    groups["τ1 of 60 or more"] = lambda c: c["true1"] >= 60
    rows: list[list[object]] = []
    for what, member in groups.items():
        part = np.array([row for case, row in real if member(case)])
        rows.append([what, len(part), *shares(part)])
    print_table(["records", "samples", *SHARES], rows)
    print()


def _is(name: str, case: dict[str, Any]) -> bool:
    return survey(case) == name


def main() -> None:
    """Run and print."""
    command(__doc__, run_case, 612, tables)


if __name__ == "__main__":
    main()
