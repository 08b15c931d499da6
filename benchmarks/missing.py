"""Error and coverage of `auto` where values are missing at random and integrated over.

    python benchmarks/missing.py FOLDER --repeats 4
    python benchmarks/missing.py FOLDER --by-level
    python benchmarks/missing.py FOLDER --table

Every value of a sample is blanked with the same probability, whatever it is: 0%, 2%, 7% and 20%,
the values that are blanked at 2% being among those at 7%. With --by-level the probability depends
on the value, from half of that for the first level of a key to 1.5 times for the last one. Samples
are assessed as in self_check.py, by a prior that does not know the survey. The truth is that of the
complete records: of those whose cell is sample unique, how many are population unique, and how many
of these are incomplete. One line of JSON per fit is kept in FOLDER; an interrupted study goes on
where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import machine, print_table
from self_check import WITHOUT, calibrated_fit, population

SIZES = {"acs-northeast-all-hh": 3000, "adult": 1000}
"""Populations as self_check.py names them, of which persons are drawn, and records of a sample."""
SHARES = (0.0, 0.02, 0.07, 0.2)


def assess_blanked(
    name: str, repeat: int, share: float, by_level: bool, folder: Path
) -> dict[str, Any]:
    """Blank a share of the values of one sample, assess it, and set it beside the truth."""
    from unikat import CellTable
    from unikat.studies.designs import chain_seed, draw_sample

    begin, n = time.monotonic(), SIZES[name]
    drawn = draw_sample(population(name, folder), n, repeat, seed=1, levels="sample")
    whole = drawn.table
    codes = whole.cells[whole.record_cell]
    place = codes / np.maximum(codes.max(axis=0), 1)
    times = 0.5 + place if by_level else 1.0
    blank = np.random.default_rng((1, n, repeat)).random(codes.shape) < share * times
    gap = blank.any(axis=1)
    codes = np.where(blank, -1, codes).astype(np.int32)
    table = CellTable.from_codes(codes, whole.keys, whole.n_units)
    fitted = calibrated_fit(table, WITHOUT[name.split("-")[0]], chain_seed(1, n, repeat))
    estimate = fitted.estimate()
    counts = drawn.population_counts[whole.unique]
    unique = (whole.unique & (drawn.population_counts == 1))[whole.record_cell]
    at_risk = np.flatnonzero(table.incomplete)
    return {
        "population": name, "n": n, "repeat": repeat, "share": share, "by_level": by_level,
        "incomplete": float(gap.mean()), "tau1_incomplete_true": int((unique & gap).sum()),
        "tau1_incomplete": float(estimate.records.r1[at_risk] @ table.counts[at_risk]),
        "tau1_true": int((counts == 1).sum()), "tau2_true": float((1.0 / counts).sum()),
        **{f"{tau}_{what}": getattr(getattr(estimate, tau), what)
           for tau in ("tau1", "tau2") for what in ("mean", "lower", "upper")},
        **{f"alone_{tau}": float(fitted.draws.retained(f"{tau}_model").mean())
           for tau in ("tau1", "tau2")},
        "seconds": round(time.monotonic() - begin, 1),
    }  # fmt: skip


def table_of(found: pd.DataFrame) -> None:
    """Print the table of docs/accuracy.md."""
    rows: list[list[object]] = []
    found = found.fillna({"by_level": False})
    for at, part in found.groupby(["population", "n", "by_level", "share"], sort=True):
        name, n, by_level, share = at
        how = f"{share:.0%}{' by level' if by_level else ''}"
        incomplete = f"{part['incomplete'].mean():.0%}"
        row: list[object] = [name.removesuffix("-hh"), n, how, incomplete, len(part)]
        for tau in ("tau1", "tau2"):
            true = part[f"{tau}_true"]
            contained = (part[f"{tau}_lower"] <= true) & (true <= part[f"{tau}_upper"])
            error = 100.0 * (part[f"{tau}_mean"] - true) / true.mean()
            alone = 100.0 * (part[f"alone_{tau}"] - true) / true.mean()
            row += [f"{true.mean():.0f}", f"{error.mean():+.1f}%",
                    f"{np.sqrt((error**2).mean()):.1f}%", f"{contained.sum()}/{len(part)}",
                    f"{alone.mean():+.1f}%"]  # fmt: skip
        rows.append(row)
    head = ["bias", "RMSE", "contained", "latent-class alone"]
    print_table(["population", "n", "blanked", "incomplete", "samples", "τ1", *head, "τ2", *head],
                rows)  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--by-level", action="store_true", help="blank some levels more often")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    print(machine(), flush=True)
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "missing.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    done = {
        (row["population"], row["repeat"], row["share"], row.get("by_level", False))
        for row in map(json.loads, lines)
    }
    wanted = [
        (name, repeat, share, options.by_level)
        for repeat in range(1, options.repeats + 1)
        for share in SHARES
        for name in SIZES
    ]
    if not options.table:
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            running = [
                pool.submit(assess_blanked, *one, options.folder)
                for one in wanted
                if one not in done
            ]
            for future in running:
                with file.open("a") as out:
                    out.write(json.dumps(future.result()) + "\n")
    table_of(pd.DataFrame([json.loads(line) for line in file.read_text().splitlines()]))


if __name__ == "__main__":
    main()
