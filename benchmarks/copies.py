"""Households that look like copies, in samples of households of real and of simulated files.

    python benchmarks/copies.py --repeats 40

Every file of households in ../shared/data is taken as a population. Samples of whole households are
drawn; how many bring the warning of copies and the note on households, and the largest share of
copies among the pairs of households that agree in all but one value at most (with 30 pairs or more,
over all columns that are tried).
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow.parquet as pq
from common import data_file, machine, print_table

from unikat.data import clues

FILES = {
    "eusilcP_population": ["hid"],
    "eusilcS_sample": ["db030"],
    "acs2024_persons_northeast": ["HH"],
    "acs2024_persons_west": ["HH"],
    "eph_argentina_4_quarters": ["YQ", "HH"],
    "chile_census2024_sample25k": ["id_vivienda"],
    "acs2016_seattle_relp": ["HH"],
    "nestedcateg_origdata_newFormat": ["Hhindex"],
    "sdcmicro_testdata": ["ori_hid"],
}
"""Columns that identify the household; those of the first two files were simulated."""
SIZES = (300, 500, 750, 1500, 3000, 8000)
LEAST_PAIRS = 30


def rows_of(name: str, repeats: int) -> list[list[str]]:
    """Draw the samples of a file, of each size."""
    table = pq.read_table(data_file(name))
    coded = {column: clues.codes_of_column(table[column]) for column in table.column_names}
    columns = {column: codes for column, codes in coded.items() if codes is not None}
    home = clues.joined([columns[column] for column in FILES[name]])
    total = int(home.max()) + 1
    rng = np.random.default_rng(8)
    rows = []
    for size in [*(size for size in SIZES if size < total), total]:
        noted = warned = 0
        largest = 0.0
        number = 1 if size == total else repeats
        for _ in range(number):
            chosen = np.flatnonzero(np.isin(home, rng.choice(total, size, replace=False)))
            chosen = chosen[: clues.MOST_ROWS]
            sample = {column: codes[chosen] for column, codes in columns.items()}
            noted += FILES[name][-1] in clues.household_columns(sample, list(sample))
            others = {column: c for column, c in sample.items() if column not in FILES[name]}
            for _, redundant, _, near in clues.agreements(home[chosen], others):
                if redundant + near >= LEAST_PAIRS:
                    largest = max(largest, redundant / (redundant + near))
            warned += clues.find_copies(home[chosen], others) is not None
        rows.append(
            [name, f"{size:,}", str(number), str(noted), str(warned), f"{100 * largest:.0f}%"]
        )
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40)
    options = parser.parse_args()
    print(machine(), end="\n\n")
    print_table(
        ["file", "households", "samples", "noted", "warned", "largest share"],
        [row for name in FILES for row in rows_of(name, options.repeats)],
    )


if __name__ == "__main__":
    main()
