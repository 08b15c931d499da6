"""Error, coverage and record risks of `auto` on populations that its prior has not seen.

    python benchmarks/self_check.py FOLDER --repeats 20
    python benchmarks/self_check.py FOLDER --table

Draws samples of persons and of whole households (names that end in "-hh") from populations taken as
a whole, and assesses each as `auto` does where latent-class is the only candidate: a fit whose rare
cells are looked at, then the calibrated fit. The prior of a model's error, and what it makes of the
rare cells, are learned without any population of the same survey (files of calibration.py and
sampled_households.py).
What the model says without its error is set beside. Sweeps are limited, not seconds, so the numbers
do not depend on the machine. One line of JSON per sample is kept in FOLDER; an interrupted study
goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy import LEAST, POPULATIONS, SHARES, prepare
from common import DATA, machine, print_table
from learning import RESULTS

ORIGIN = "ST,AGEP,SEX,RAC1P,HISP,MAR,SCHL"
HOUSEHOLDS = {
    "acs-northeast-all-hh": ("acs2024_persons_northeast", ORIGIN, ("HH",), 0),
    "acs-west-all-hh": ("acs2024_persons_west", ORIGIN, ("HH",), 0),
    "acs-northeast-6-hh": ("acs2024_persons_northeast", POPULATIONS["acs-northeast-6"][1],
                           ("HH",), 18),
    "eph-hh": ("eph_argentina_4_quarters", POPULATIONS["eph"][1], ("YQ", "HH"), 0),
}  # fmt: skip
"""Populations from which whole households are drawn: file, keys, household, lowest age."""
NAMES = [*POPULATIONS, *HOUSEHOLDS]
SMALL = 300
"""Records of a sample as small as surveys of rare groups have."""
SWEEPS = {"evidence": 1200, "calibrated": 1600}
N_DECILES = 10


@cache
def population(name: str, folder: Path) -> Any:
    """Read a population, once in each process."""
    from unikat import Design, read
    from unikat.studies.designs import Population

    if name in HOUSEHOLDS:
        file, keys, household, lowest = HOUSEHOLDS[name]
        frame = pd.read_parquet(DATA / f"{file}.parquet")
        if lowest:
            frame = frame[frame["AGEP"] >= lowest].reset_index(drop=True)
        design = Design(population_size=len(frame), household=household)
        return Population.of(read(frame, keys.split(","), design, missing="level").tabulate())
    path, size = prepare(name, folder)
    keys = POPULATIONS[name][1]
    table = read(path, keys.split(","), Design(population_size=size), missing="level").tabulate()
    return Population.of(table)


def without(study: str, survey: str) -> dict[str, float]:
    """Parameters of the calibration that were learned without a survey."""
    rows = pd.read_csv(RESULTS / f"{study}-parameters.csv", index_col="surveys")
    found: dict[str, float] = rows.loc[f"without {survey}"].drop("cases").to_dict()
    return found


def calibrated_fit(table: Any, experience: dict[str, float], seed: int) -> Any:
    """Fit latent classes to a sample with the error that its rare cells and experience tell."""
    from unikat import LatentClass
    from unikat.inference.backends import Workers
    from unikat.inference.chains import sample
    from unikat.inference.plan import Plan, StopRule
    from unikat.models.auto import Auto
    from unikat.models.calibrated import Calibrated
    from unikat.studies.auto import Execution
    from unikat.studies.calibrate import EXPERIENCE, SAMPLED_HOUSEHOLDS, posterior, prior
    from unikat.studies.fit import fit
    from unikat.studies.predictive import CheckedMeasures
    from unikat.studies.rare_cells import RareCells

    known = SAMPLED_HOUSEHOLDS if table.households is not None else EXPERIENCE
    learned = replace(known, **experience)
    workers = Workers(n_workers=1, n_threads=1)

    def plan(kind: str) -> Plan:
        return Plan(n_chains=2, stop=StopRule(rhat=1.05, ess=200.0, max_sweeps=SWEEPS[kind]))

    rare = RareCells.of(table)
    observer = CheckedMeasures.of(table, rare)
    found = sample(LatentClass(), table, observer, seed=seed, plan=plan("evidence"),
                   workers=workers)  # fmt: skip
    evidence = rare.log_likelihood(found.totals.rare_cells)
    # Its mean without the error, as `auto` knows it.
    alone = float(found.retained("tau1").mean())
    weights = posterior(prior(table, learned, alone), evidence, learned)
    model = Calibrated(wrapped=LatentClass(), weights=tuple(weights.ravel().tolist()), asked=Auto())
    return fit(
        model, table, seed=seed, plan=plan("calibrated"), execution=Execution(workers=workers)
    )


def assess_sample(name: str, n: int, repeat: int, folder: Path) -> dict[str, Any]:
    """Assess one sample and set it beside the truth."""
    from unikat.studies.designs import chain_seed, draw_sample

    begin = time.monotonic()
    how = "households" if name in HOUSEHOLDS else "simple"
    drawn = draw_sample(population(name, folder), n, repeat, seed=1, design=how, levels="sample")
    table = drawn.table
    known = without("households" if name in HOUSEHOLDS else "persons", name.split("-")[0])
    fitted = calibrated_fit(table, known, chain_seed(1, n, repeat))
    draws, estimate = fitted.draws, fitted.estimate()
    unique = table.unique
    r1, counts = estimate.records.r1[unique], drawn.population_counts[unique]
    groups = np.array_split(np.argsort(r1, kind="stable"), N_DECILES)
    return {
        "population": name, "n": n, "repeat": repeat, "uniques": int(unique.sum()),
        "tau1_true": int((counts == 1).sum()), "tau2_true": float((1.0 / counts).sum()),
        **{f"{tau}_{what}": getattr(getattr(estimate, tau), what)
           for tau in ("tau1", "tau2") for what in ("mean", "lower", "upper")},
        **{f"alone_{tau}": float(draws.retained(f"{tau}_model").mean())
           for tau in ("tau1", "tau2")},
        "r1_sum": [float(r1[group].sum()) for group in groups],
        "r1_variance": [float((r1[group] * (1.0 - r1[group])).sum()) for group in groups],
        "r1_true": [int((counts[group] == 1).sum()) for group in groups],
        "converged": draws.converged, "seconds": round(time.monotonic() - begin, 1),
    }  # fmt: skip


def tasks(folder: Path, repeats: int, names: list[str]) -> list[tuple[str, int, int]]:
    """All samples, in an order in which a study that is stopped is balanced."""
    sizes = {}
    for name in names:
        size = population(name, folder).n_units
        sizes[name] = sorted({SMALL, *(max(LEAST, round(share * size)) for share in SHARES)})
    return [
        (name, n, repeat) for repeat in range(1, repeats + 1) for name in names for n in sizes[name]
    ]


def tables(found: pd.DataFrame) -> None:
    """Print the tables of docs/accuracy.md."""
    rows: list[list[object]] = []
    for (name, n), part in found.groupby(["population", "n"], sort=False):
        row: list[object] = [name, n, len(part)]
        for tau in ("tau1", "tau2"):
            true = part[f"{tau}_true"]
            contained = (part[f"{tau}_lower"] <= true) & (true <= part[f"{tau}_upper"])
            error = 100.0 * (part[f"{tau}_mean"] - true) / true.mean()
            row += [f"{true.mean():.0f}", f"{error.mean():+.1f}%",
                    f"{np.sqrt((error**2).mean()):.1f}%",
                    f"{contained.sum()}/{len(part)}"]  # fmt: skip
            other = 100.0 * (part[f"alone_{tau}"] - true) / true.mean()
            row.append(f"{other.mean():+.1f}% ({np.sqrt((other**2).mean()):.1f}%)")
        total = np.sum(part["r1_sum"].tolist(), axis=0)
        spread = np.sqrt(np.sum(part["r1_variance"].tolist(), axis=0))
        truth = np.sum(part["r1_true"].tolist(), axis=0)
        row.append(f"{int((np.abs(total - truth) <= 1.96 * spread).sum())}/10")
        rows.append([*row, f"{part['seconds'].median():.0f}"])
    print_table(
        ["population", "n", "samples", "τ1", "bias", "RMSE", "contained", "latent-class alone",
         "τ2", "bias", "RMSE", "contained", "alone", "deciles", "s"], rows
    )  # fmt: skip
    print()
    for tau in ("tau1", "tau2"):
        true = found[f"{tau}_true"]
        contained = (found[f"{tau}_lower"] <= true) & (true <= found[f"{tau}_upper"])
        ours = 100.0 * (found[f"{tau}_mean"] / true - 1.0)
        other = 100.0 * (found[f"alone_{tau}"] / true - 1.0)
        print(
            f"{tau}: contained {100 * contained.mean():.1f}% of {len(found)}; mean error "
            f"{ours.mean():+.1f}% (alone {other.mean():+.1f}%), mean absolute error "
            f"{ours.abs().mean():.1f}% "
            f"(alone {other.abs().mean():.1f}%)"
        )
    total, spread, truth = (
        np.sum(found[name].tolist(), axis=0) for name in ("r1_sum", "r1_variance", "r1_true")
    )
    print_table(
        ["decile of r1", *map(str, range(1, N_DECILES + 1))],
        [["predicted", *(f"{value:.0f}" for value in total)],
         ["true", *map(str, truth.tolist())],
         ["binomial error", *(f"{value:.0f}" for value in np.sqrt(spread))]],
    )  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--populations", nargs="+", default=NAMES)
    parser.add_argument("--largest", type=int, default=100_000, help="samples of at most so many")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "samples.jsonl"
    lines = kept.read_text().splitlines() if kept.exists() else []
    found = [json.loads(line) for line in lines]
    if not options.table:
        done = {(one["population"], one["n"], one["repeat"]) for one in found}
        todo = [task for task in tasks(options.folder, options.repeats, options.populations)
                if task not in done and task[1] <= options.largest]  # fmt: skip
        with (
            ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool,
            kept.open("a") as file,
        ):
            results = pool.map(
                assess_sample, *zip(*todo, strict=True), [options.folder] * len(todo)
            )
            for result in results:
                found.append(result)
                file.write(json.dumps(result) + "\n")
                file.flush()
    print(machine(), end="\n\n")
    order = {name: i for i, name in enumerate(NAMES)}
    frame = pd.DataFrame(found)
    tables(
        frame.sort_values(
            ["population", "n"], key=lambda v: v.map(order) if v.name == "population" else v
        )
    )


if __name__ == "__main__":
    main()
