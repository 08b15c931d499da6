"""Count suggested impossible combinations that persons of the population have.

    python benchmarks/suggestions.py [--samples 3]

Simple random samples of real files taken as populations. A suggestion is false if a person of the
population breaks it.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd
from common import data_file, print_table

from unikat import CellTable, Design, read
from unikat.zeros import Rule, suggest

POPULATIONS = {
    "acs2024_persons_west": "AGEP:width(5),SEX,MAR,SCHL,ESR,COW,MIL,HISP",
    "adult_48842": "age:width(5),workclass,education,marital_status,relationship,sex,income",
    "chile_census2024_sample25k": (
        "edad_quinquenal,sexo,parentesco,p23_est_civil,area,sit_fuerza_trabajo,cine11"
    ),
    "uk2011_teaching_srs_10k": (
        "age,sex,marital_status,student,economic_activity,occupation,family_composition"
    ),
    "bo_census1976_pando": "AGE:width(5),SEX,REL,MARST,LITER,ATTEND,ACTIVITY,EMPSTAT",
    "co_geih2018_bogota": "AGE:width(5),SEX,REL,EDUC,ACTIVITY,HEALTHREG,STRATUM",
    "eph_argentina_4_quarters": "CH06:width(5),CH03,CH04,CH07,CH10,NIVEL_ED,ESTADO,CAT_OCUP",
}
"""File, and the keys."""


def study(name: str, keys: str, n: int, options: argparse.Namespace) -> list[object]:
    """Suggestions in samples of n records: how many are false, and for how many persons."""
    frame = pd.read_parquet(data_file(name))
    design = Design(population_size=len(frame) + 1)
    whole = read(frame, keys, design, missing="level").tabulate()
    generator = np.random.default_rng(1)
    n_found, n_false, n_first, persons, seconds = 0, 0, 0, [], 0.0
    for _ in range(options.samples):
        chosen = generator.choice(len(frame), n, replace=False)
        codes = whole.cells[whole.record_cell[chosen]]
        table = CellTable.from_codes(codes, whole.keys, len(frame) + 1, whole.missing)
        started = time.perf_counter()
        found = suggest(table)
        seconds += time.perf_counter() - started
        broken = [
            int(whole.counts[Rule.of(one.rule, whole.keys).forbids(whole.cells)].sum())
            for one in found
        ]
        n_found += len(found)
        n_false += np.count_nonzero(broken)
        n_first += np.count_nonzero(broken[:5])
        persons += [one for one in broken if one]
        if options.list:
            for one, times in zip(found, broken, strict=True):
                print(f"{times:6} {one.expected:9.1f} {one.bound:.0e} {one.rule}")
    return [
        name, len(frame), n, n_found, n_false, n_first,
        int(np.median(persons)) if persons else 0, max(persons, default=0),
        f"{seconds / options.samples:.1f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=3, help="of each size from each file")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 5_000])
    parser.add_argument("--only", nargs="*", default=list(POPULATIONS), help="files")
    parser.add_argument("--list", action="store_true", help="print every suggestion")
    options = parser.parse_args()
    rows = [
        study(name, POPULATIONS[name], n, options) for name in options.only for n in options.sizes
    ]
    total = [sum(int(str(row[column])) for row in rows) for column in (3, 4, 5)]
    head = [
        "population",
        "persons",
        "n",
        "suggested",
        "false",
        "of the first 5",
        "broken by",
        "most",
        "s",
    ]
    print_table(head, [*rows, ["all", "", "", *total, "", "", ""]])


if __name__ == "__main__":
    main()
