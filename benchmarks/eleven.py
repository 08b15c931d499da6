"""The eleven models of paper 3 on tables like the paper's, cut from the ACS, beside the truth.

    python benchmarks/eleven.py FOLDER --samples 1 2 3 --seconds 40
    python benchmarks/eleven.py FOLDER --table
    python benchmarks/eleven.py FOLDER --time 'NP UM & I'

Population: ACS 2024 adults of the Northeast (494,856), 10% sampled. Keys as in section 4 of Carota
et al. (2015): area 4, sex 2, age 6 or 11, race 5, activity 9. The groupings were chosen for their
numbers of sample and population uniques, before any model was fitted. Every fit is kept in FOLDER,
so that a study that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from common import data_file, machine, print_table

from unikat.data.keys import Key
from unikat.data.patterns import pattern_ids
from unikat.data.table import CellTable
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.diagnostics import diagnose, worst_ess, worst_rhat
from unikat.inference.draws import Observer
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.models.named import build_model
from unikat.risk.estimate import assess
from unikat.risk.measures import TAUS, RiskMeasures, RiskTotals
from unikat.spec.model import ModelSpec

AGES = {
    6: [25, 35, 45, 55, 65],
    11: [25, 30, 35, 40, 45, 50, 55, 60, 65, 75],
}
"""First year of each age band but the first, which begins at 18."""
AREAS = {36: 0, 34: 1, 42: 2}
"""New York, New Jersey, Pennsylvania; New England is the fourth."""
RACES = {2: 1, 6: 2, 3: 3, 4: 3, 5: 3, 7: 4}
"""Black, Asian, American Indian and Alaska Native, Pacific Islander; all others come first."""
ACTIVITIES = [
    [1, 2], [3, 5], [4], [6, 7, 8, 15], [9, 10, 11], [12, 13, 14], [16], [17, 18], [-1, 19],
]  # fmt: skip
"""Groups of IND: farming and mining, industry, building, trade and transport and hospitality,
information and finance and professions, education and health and social work, other services,
public and military, no work in five years."""
PAPER = {
    "P & O": "random=none:fixed=none",
    "P & I": "random=none:fixed=independence",
    "P & II": "random=none:fixed=two-way",
    "NP Emp UM & I": "random=dp:mean=unknown:fixed=independence:empirical=true",
    "NP Emp UM & II": "random=dp:mean=unknown:fixed=two-way:empirical=true",
    "NP ZM & noF": "random=dp:mean=zero:fixed=none",
    "NP ZM & I": "random=dp:mean=zero:fixed=independence",
    "NP ZM & II": "random=dp:mean=zero:fixed=two-way",
    "NP UM & noF": "random=dp:mean=unknown:fixed=none",
    "NP UM & I": "random=dp:mean=unknown:fixed=independence",
    "NP UM & II": "random=dp:mean=unknown:fixed=two-way",
    "gamma NP & I": "random=gamma-dp:fixed=independence",
    "gamma NP & II": "random=gamma-dp:fixed=two-way",
    "gamma NP Emp & I": "random=gamma-dp:fixed=independence:empirical=true",
    "normal & O": "random=normal:fixed=none",
    "normal & I": "random=normal:fixed=independence",
    "normal & II": "random=normal:fixed=two-way",
}
"""Paper 3's eleven models, the gamma effects of its section 2 (with Emp: a Dirichlet process over
Elamir and Skinner), and its rows P with the normal effects that its text gives them."""
OTHERS = {
    "log-linear I": "loglinear:terms=independence",
    "log-linear II": "loglinear:terms=two-way",
    "log-linear selected": "loglinear:terms=select",
    "Skinner-Holmes I": "skinner-holmes:terms=independence",
    "Skinner-Holmes II": "skinner-holmes:terms=two-way",
    "Skinner-Holmes I, median": "skinner-holmes:terms=independence:centre=median",
    "Skinner-Holmes II, median": "skinner-holmes:terms=two-way:centre=median",
    "Elamir-Skinner I": "elamir-skinner:terms=independence",
    "hdp": "hdp",
    "latent-class": "latent-class",
    "Dirichlet O": "dirichlet-multinomial:terms=none",
    "Dirichlet I": "dirichlet-multinomial:terms=independence",
    "Dirichlet II": "dirichlet-multinomial:terms=two-way",
}
"""Eq. 4 of the paper is Skinner-Holmes with the fit as the median."""
MODELS = {label: f"mixed-effects:{options}" for label, options in PAPER.items()} | OTHERS
MEASURES = ("tau1", "tau2", "tau1_expected", "tau2_expected")
PARAMETERS = ("n_clusters", "mass", "sigma2", "mean")


class AllMeasures(RiskMeasures):
    """Risk measures of which the expected ones are monitored too."""

    @property
    def monitored(self) -> tuple[str, ...]:
        return MEASURES


def codes(n_ages: int) -> tuple[np.ndarray, list[Key]]:
    """Keys of the whole population, (N, 5)."""
    columns = ["ST", "SEX", "AGEP", "RAC1P", "IND"]
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=columns)
    people = people[people["AGEP"] >= 18]
    activity = {level: group for group, levels in enumerate(ACTIVITIES) for level in levels}
    coded = np.stack(
        [
            people["ST"].map(AREAS).fillna(3).to_numpy(np.int64),
            people["SEX"].to_numpy(np.int64) - 1,
            np.digitize(people["AGEP"], AGES[n_ages]),
            people["RAC1P"].map(RACES).fillna(0).to_numpy(np.int64),
            people["IND"].map(activity).to_numpy(np.int64),
        ],
        axis=1,
    )
    sizes = {"area": 4, "sex": 2, "age": n_ages, "race": 5, "activity": len(ACTIVITIES)}
    return coded, [Key.of_size(name, size) for name, size in sizes.items()]


def draw(n_ages: int, number: int) -> tuple[CellTable, np.ndarray]:
    """Table of a sample, the same persons for both tables, and F of its sample uniques."""
    population, keys = codes(n_ages)
    n_units = len(population)
    generator = np.random.default_rng(number)
    chosen = generator.choice(n_units, round(0.1 * n_units), replace=False)
    table = CellTable.from_codes(population[chosen], keys, n_units)
    levels = [key.n_levels for key in keys]
    ids = pattern_ids(np.concatenate((table.cells[table.unique], population)), levels)
    cells, counts = np.unique(ids[table.n_uniques :], return_counts=True)
    return table, counts[np.searchsorted(cells, ids[: table.n_uniques])]


def fit(label: str, n_ages: int, number: int, seconds: float, ess: float) -> dict[str, Any]:
    """Fit one model to one sample."""
    table, frequencies = draw(n_ages, number)
    spec = ModelSpec.of(MODELS[label])
    plan = Plan(n_chains=4, stop=StopRule(rhat=1.02, ess=ess, max_seconds=seconds))
    observer = AllMeasures.of(table)
    draws = sample(
        build_model(spec.name, spec.options), table, observer, seed=number, plan=plan,
        workers=Workers(n_workers=1, n_threads=1),
    )  # fmt: skip
    totals = draws.totals
    estimate = assess(draws, table)
    unique = table.unique
    means = np.stack([totals.r1[unique], totals.r2[unique]]) / totals.n_draws
    result: dict[str, Any] = {
        "model": label, "ages": n_ages, "sample": number, "cells": int(np.prod(table.n_levels)),
        "n": table.n_records, "N": table.population_size, "uniques": table.n_uniques,
        "converged": draws.converged, "stopped": draws.stop_reason, "sweeps": draws.n_sweeps,
        "thin": draws.thin, "seconds": draws.seconds, "rhat": worst_rhat(draws.diagnostics),
        "ess": worst_ess(draws.diagnostics),
        "true": {"tau1": int((frequencies == 1).sum()), "tau2": float((1 / frequencies).sum())},
        "facts": {k: v for k, v in draws.facts.values.items() if isinstance(v, (int, float, str))},
        "warnings": list(estimate.warnings),
    }  # fmt: skip
    for name in MEASURES:
        summary = getattr(estimate, name)
        kept = draws.retained(name)
        result[name] = {
            "mean": summary.mean, "sd": float(kept.std()), "lower": summary.lower,
            "upper": summary.upper, "rhat": summary.rhat, "ess": summary.ess_bulk,
            "chains": kept.mean(axis=1).tolist(),
        }  # fmt: skip
    for name in PARAMETERS:
        if name in draws.scalars:
            kept = draws.retained(name)
            found = diagnose(kept)
            result[name] = {
                "mean": float(kept.mean()), "rhat": found.rhat, "ess": found.ess_bulk,
                "chains": kept.mean(axis=1).tolist(),
            }  # fmt: skip
    # Eq. 15-18 over the sample uniques: B cancels in C.
    for i, tau in enumerate(("tau1", "tau2")):
        parts = getattr(estimate, f"{tau}_variance")
        b = float((means[i] ** 2).sum() - means[i].sum() ** 2 / table.n_uniques)
        result[tau] |= {"A": parts.records, "B": b, "C": parts.covariances - b}
    error = means[1] - 1.0 / frequencies
    result["errors"] = {
        name: [float(e.sum()), float(np.abs(e).sum()), float((e**2).sum())]
        for name, e in (
            ("all", error), ("many", error[frequencies > 10]), ("few", error[frequencies <= 10])
        )
    }  # fmt: skip
    alone = frequencies == 1
    result["r1"] = [float(means[0][alone].mean()), float(means[0][~alone].mean())]
    return result


def place(folder: Path, label: str, n_ages: int, number: int) -> Path:
    name = "".join(letter if letter.isalnum() else "-" for letter in label)
    return folder / f"{name}.{n_ages}.{number}.json"


def run(options: argparse.Namespace) -> None:
    """Fit what is missing, two fits at a time."""
    wanted = [
        (label, n_ages, number)
        for number in options.samples
        for n_ages in options.ages
        for label in options.models
        if not place(options.folder, label, n_ages, number).exists()
    ]
    with ProcessPoolExecutor(options.processes) as pool:
        futures = {pool.submit(fit, *what, options.seconds, options.ess): what for what in wanted}
        for future in as_completed(futures):
            result = future.result()
            path = place(options.folder, *futures[future])
            path.write_text(json.dumps(result), encoding="utf-8")
            print(
                f"{result['model']}, {result['cells']} cells, sample {result['sample']}: "
                f"{result['tau1']['mean']:.1f} of {result['true']['tau1']}, "
                f"R-hat {result['rhat']:.3f}, ESS {result['ess']:.0f}, {result['seconds']:.0f} s",
                flush=True,
            )


def load(folder: Path, n_ages: int, samples: Iterable[int], label: str) -> list[dict[str, Any]]:
    paths = [place(folder, label, n_ages, number) for number in samples]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]


def show(options: argparse.Namespace) -> None:
    """Print the tables of what there is."""
    for n_ages in options.ages:
        for number in options.samples:
            rows = [
                row_of(fit)
                for label in options.models
                for fit in load(options.folder, n_ages, [number], label)
            ]
            if rows:
                some = load(options.folder, n_ages, [number], rows[0][0])[0]
                print(
                    f"\n{some['cells']} cells, sample {number}: {some['uniques']} sample uniques, "
                    f"true τ1 {some['true']['tau1']}, τ2 {some['true']['tau2']:.1f}\n"
                )
                print_table(
                    ["model", "τ1 (s.e.)", "95%", "held", "τ1* (s.e.)", "τ2 (s.e.)", "95%",
                     "held", "τ2* (s.e.)", "R-hat", "ESS", "sweeps", "seconds"],
                    rows,
                )  # fmt: skip
        together(options, n_ages)


def row_of(fit: Mapping[str, Any]) -> list[str]:
    row = [fit["model"]]
    for tau, digits in (("tau1", 0), ("tau2", 1)):
        found, expected = fit[tau], fit[f"{tau}_expected"]
        held = found["lower"] <= fit["true"][tau] <= found["upper"]
        row += [
            f"{found['mean']:.1f} ({found['sd']:.1f})",
            f"{found['lower']:.{digits}f}–{found['upper']:.{digits}f}",
            "yes" if held else "no",
            f"{expected['mean']:.1f} ({expected['sd']:.2f})",
        ]
    seconds = f"{fit['seconds']:.0f}" + ("" if fit["converged"] else ", stopped")
    return [*row, f"{fit['rhat']:.3f}", f"{fit['ess']:.0f}", str(fit["sweeps"]), seconds]


def together(options: argparse.Namespace, n_ages: int) -> None:
    """Means over the samples: errors, their coverage, the variance's parts, errors of records."""
    fits = {label: load(options.folder, n_ages, options.samples, label) for label in options.models}
    fits = {label: some for label, some in fits.items() if some}
    if not fits:
        return
    first = next(iter(fits.values()))
    print(
        f"\nAges in {n_ages} bands, {first[0]['cells']} cells, means over samples; true τ1 "
        f"{np.mean([f['true']['tau1'] for f in first]):.1f}, τ2 "
        f"{np.mean([f['true']['tau2'] for f in first]):.1f}\n"
    )
    rows = []
    for label, some in fits.items():
        row: list[str] = [label, str(len(some))]
        for tau in ("tau1", "tau2"):
            truth = np.array([f["true"][tau] for f in some])
            error = np.array([f[tau]["mean"] for f in some]) - truth
            held = [f[tau]["lower"] <= f["true"][tau] <= f[tau]["upper"] for f in some]
            row += [
                f"{(error + truth).mean():.1f}", f"{error.mean():+.1f}",
                f"{(error**2).mean() ** 0.5:.1f}", f"{np.mean([f[tau]['sd'] for f in some]):.1f}",
                f"{np.mean([f[f'{tau}_expected']['sd'] for f in some]):.2f}",
                f"{sum(held)}/{len(held)}",
            ]  # fmt: skip
        row.append(f"{max(f['rhat'] for f in some):.3f}")
        row.append(f"{min(f['ess'] for f in some):.0f}")
        row.append(str(sum(f["converged"] for f in some)))
        row.append(f"{np.median([f['seconds'] for f in some]):.0f}")
        clusters = [f["n_clusters"]["mean"] for f in some if "n_clusters" in f]
        row.append(f"{np.mean(clusters):.1f}" if clusters else "–")
        rows.append(row)
    print_table(
        ["model", "samples", "τ1", "error", "RMSE", "s.e.", "s.e.*", "held", "τ2", "error", "RMSE",
         "s.e.", "s.e.*", "held", "R-hat", "ESS", "converged", "seconds", "clusters"],
        rows,
    )  # fmt: skip
    print("\nParts of the variance of τ1* and of τ2*, and the sum of covariances B + C\n")
    rows = [
        [label]
        + [
            f"{np.mean(parts):.3f}"
            for tau in ("tau1", "tau2")
            for parts in (
                [f[tau]["A"] for f in some], [f[tau]["B"] for f in some],
                [f[tau]["C"] for f in some], [f[tau]["B"] + f[tau]["C"] for f in some],
            )
        ]
        for label, some in fits.items()
    ]  # fmt: skip
    print_table(["model", *["A", "B", "C", "B + C"] * 2], rows)
    print("\nErrors of the records' τ2*: signed, absolute, squared; and mean r1\n")
    rows = [
        [
            label,
            *[
                f"{np.mean([f['errors'][group][i] for f in some]):.1f}"
                for group in ("all", "many", "few")
                for i in range(3)
            ],
            *[f"{np.mean([f['r1'][i] for f in some]):.3f}" for i in range(2)],
        ]
        for label, some in fits.items()
    ]
    print_table(
        ["model", "all", "abs.", "sq.", "F > 10", "abs.", "sq.", "F ≤ 10", "abs.", "sq.",
         "r1 if F = 1", "r1 if not"],
        rows,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class ClockedMeasures(Observer):
    """Risk measures with the processor time that the worker has used."""

    measures: RiskMeasures
    monitored: ClassVar[tuple[str, ...]] = TAUS

    def compile(self) -> None:
        self.measures.compile()

    def start(self) -> RiskTotals:
        return self.measures.start()

    def observe(
        self, stream: Stream, model: Any, state: Any, data: Any, totals: RiskTotals
    ) -> Mapping[str, float]:
        scalars = self.measures.observe(stream, model, state, data, totals)
        return {**scalars, "processor": time.process_time()}

    def cost(self, model: Any, data: Any) -> float:
        return self.measures.cost(model, data)


def timed(label: str) -> None:
    """Ten chains of 10,000 sweeps on the larger table, on two processes."""
    table, frequencies = draw(11, 1)
    spec = ModelSpec.of(MODELS[label])
    plan = Plan(n_chains=10, stop=StopRule(rhat=1.0 + 1e-9, ess=1e9, max_sweeps=10_000))
    load, begin = os.getloadavg()[0], time.perf_counter()
    draws = sample(
        build_model(spec.name, spec.options), table,
        ClockedMeasures(measures=RiskMeasures.of(table)), seed=1, plan=plan,
        workers=Workers(n_workers=2, n_threads=1),
    )  # fmt: skip
    seconds = time.perf_counter() - begin
    found = {name: diagnose(draws.retained(name)) for name in PARAMETERS if name in draws.scalars}
    print(
        f"{label}: {draws.n_chains} chains of {draws.n_sweeps} sweeps in {seconds:.0f} s, "
        f"{draws.scalars['processor'].max():.0f} s of processor time in the busier process, load "
        f"{load:.1f} before and {os.getloadavg()[0]:.1f} after; τ1 "
        f"{draws.retained('tau1').mean():.2f} (true {(frequencies == 1).sum()}), R-hat "
        f"{worst_rhat(draws.diagnostics):.3f}, ESS {worst_ess(draws.diagnostics):.0f}; R-hat of "
        + ", ".join(f"{name} {some.rhat:.3f}" for name, some in found.items()),
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--ages", nargs="+", type=int, choices=sorted(AGES), default=[6, 11])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seconds", type=float, default=40.0, help="for each fit")
    parser.add_argument("--ess", type=float, default=200.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--time", choices=MODELS, help="time a model, such as 'NP UM & I', and end")
    options = parser.parse_args(arguments)
    print(machine(), end="\n\n")
    if options.time:
        timed(options.time)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        run(options)
    show(options)


if __name__ == "__main__":
    main()
