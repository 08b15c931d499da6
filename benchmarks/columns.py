"""Columns that are no keys: time to find roles and links among many, and the risk that they add.

    python benchmarks/columns.py                     # both
    python benchmarks/columns.py --only time         # 100 columns of 100,000 records, made up
    python benchmarks/columns.py --only truth        # samples of real populations, from shared/data

*truth* takes samples of whole populations, recodes the keys, and compares τ1 with each column that
is left to the number of sample uniques that are alone in the population: by the states of one fit
of the keys as they were.
"""

from __future__ import annotations

import argparse
import time

from common import data_file, machine, print_table

POPULATIONS = {
    "es_ecv2019": (
        ["REGION", "SEX", "AGE", "MARST", "EDUC"], {"AGE": "width(15)"}, 4000,
        ["TENURE", "ROOMS", "CAR", "HHSIZE", "HHTYPE", "INCDEC", "COB", "ACTIVITY", "OCC",
         "CONTRACT", "HEALTH", "EMPSTAT"],
    ),
    "acs2024_persons_west": (
        ["PUMA", "AGEP", "SEX", "RAC1P", "MAR"], {"AGEP": "width(20)", "RAC1P": "rare(0.1)"}, 4000,
        ["HISP", "CIT", "SCHL", "ESR", "COW", "MIL", "DIS", "LANX", "JWTRNS", "IND", "OCC"],
    ),
    "bo_census1976_pando": (
        ["PROV", "SEX", "AGE", "MARST", "AREA"], {"AGE": "width(10)"}, 3000,
        ["REL", "BIRTH", "LANG", "LITER", "ATTEND", "GRADE", "ACTIVITY", "OCC1", "IND1", "EMPSTAT",
         "V01", "V02", "V03"],
    ),
}  # fmt: skip
"""Keys, recoding, records of a sample, and columns that are left."""


def timed() -> None:
    """Find roles and links of 100 columns with eight keys, and the risk with each of 20."""
    import numpy as np

    from unikat.data.roles import proposed
    from unikat.protection.left_over import Share, contexts
    from unikat.protection.linked import links

    rng = np.random.default_rng(1)
    n = 100_000
    levels = (2, 90, 20, 300, 8, 5, 9, 50)
    codes = np.stack([rng.integers(0, k, n) for k in levels], axis=1).astype(np.int32)
    columns = {}
    for number in range(100):
        key, many = codes[:, number % 8], (2, 5, 20, 100, 1_000, 30_000)[number % 6]
        kinds = (rng.integers(0, many, n), key // 3, key * 7 + rng.integers(0, 7, n))
        columns[f"V{number}"] = kinds[number % 3].astype(np.int32)
    coded = {name: (one, list(range(int(one.max()) + 1))) for name, one in columns.items()}
    begun = time.perf_counter()
    proposed(coded)
    roles = time.perf_counter() - begun
    n_linked = sum(bool(links(one, codes)) for one in columns.values())
    linked = time.perf_counter() - begun - roles
    begun = time.perf_counter()
    keys = [one.astype(np.int64) for one in codes.T[:4]]
    for one in list(columns.values())[:20]:
        Share.of(one.astype(np.int64), contexts(one.astype(np.int64), keys))
    shares = time.perf_counter() - begun
    print_table(
        ["what", "columns", "seconds"],
        [["roles", 100, f"{roles:.1f}"], [f"links ({n_linked} linked)", 100, f"{linked:.1f}"],
         ["shares within cells of four keys", 20, f"{shares:.1f}"]],
    )  # fmt: skip


def truth(name: str, seed: int) -> list[list[object]]:
    """Compare τ1 with each column to the population."""
    import numpy as np
    import pandas as pd

    from unikat.data import Design, read
    from unikat.models.named import build_model
    from unikat.protection.left_over import known
    from unikat.protection.recoding import parse_recoding
    from unikat.protection.what_if import Posterior
    from unikat.studies.fit import fit

    keys, rules, n, columns = POPULATIONS[name]
    population = pd.read_parquet(data_file(name)).dropna(subset=keys)
    if name.startswith("acs"):
        population = population[population["ST"] == population["ST"].value_counts().index[2]]
    population = population.reset_index(drop=True)
    rows = np.sort(np.random.default_rng(seed).choice(len(population), n, replace=False))
    sample = population.iloc[rows].reset_index(drop=True)
    table = read(sample, keys, Design(population_size=len(population))).tabulate()
    fitted = fit(build_model("latent-class", {}), table, seed=seed)
    posterior, recoding = Posterior.of(fitted), parse_recoding(table, rules)
    groups = []
    for key, one in zip(table.keys, recoding.keys, strict=True):
        group_of = {level: int(g) for level, g in zip(key.levels, one.groups, strict=True)}
        groups.append(population[key.name].map(group_of).fillna(-1).to_numpy())
    numbers = {column: pd.factorize(population[column])[0].astype(np.int32) for column in columns}
    begun = time.perf_counter()
    visible = recoding.codes(table.cells[table.record_cell])
    found = known(posterior, recoding, visible, {c: x[rows] for c, x in numbers.items()}, 0.95)
    seconds = time.perf_counter() - begun
    shown: list[list[object]] = []
    for column, one in found.items():
        more = columns if column is None else [column] if column else []
        both = np.column_stack([*groups, *(numbers[c] for c in more)])
        place = np.unique(both, axis=0, return_inverse=True)[1].ravel()
        true = int((np.bincount(place)[place][rows] == 1).sum())
        tau1 = one.tau1
        assert tau1 is not None
        called = "all" if column is None else column or "the keys alone"
        inside = "yes" if tau1.lower <= true <= tau1.upper else "no"
        interval = f"[{tau1.lower:.0f}, {tau1.upper:.0f}]"
        row = [name, called, one.n_uniques, f"{tau1.mean:.0f}", interval, true, inside]
        shown.append([*row, f"{seconds:.1f}"])
    return shown


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["time", "truth"])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(machine(), end="\n\n")
    if options.only != "truth":
        timed()
    if options.only != "time":
        head = ["file", "with", "sample uniques", "τ1", "95%", "true τ1", "inside", "seconds"]
        print_table(head, [row for name in POPULATIONS for row in truth(name, options.seed)])


if __name__ == "__main__":
    main()
