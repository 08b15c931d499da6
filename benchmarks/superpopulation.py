"""Model II of Polettini and Stander on a table like theirs: time to converged risks.

    python benchmarks/superpopulation.py
    python benchmarks/superpopulation.py --calibrated    # as many sampling rates as cells

K = 20,384 cells of five keys, four regions with sampling rates of 0.0034 and 0.028, N = 15,142,320;
of the combinations of the other keys two fifths are impossible, so that about 3,000 cells have
records. The population is drawn from neither model: its cells are lognormal.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
from common import machine, print_table

from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.inference.diagnostics import diagnose
from unikat.models.base import Stream
from unikat.models.named import build_model
from unikat.studies.fit import fit
from unikat.studies.scores import classification

LEVELS = {"sex": 2, "age": 14, "region": 4, "position": 14, "relation": 13}
N = 15_142_320
REGIONS = np.array([0.371, 0.339, 0.0077, 0.2823])
RATES = np.array([0.0034, 0.0034, 0.028, 0.0034])
CHAINS = 4


def survey(calibrated: bool) -> tuple[CellTable, np.ndarray]:
    """Draw a population and a sample; return the table and F of its cells."""
    rng = np.random.default_rng(1)
    shape = tuple(LEVELS.values())
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    _, others = np.unique(cells[:, [0, 1, 3, 4]], axis=0, return_inverse=True)
    n_others = others.max() + 1
    size = np.exp(2.6 * rng.standard_normal(n_others)) * (rng.random(n_others) < 0.6)
    means = (
        REGIONS[cells[:, 2]] * size[others.ravel()] * np.exp(0.3 * rng.standard_normal(len(cells)))
    )
    population = rng.poisson(N * means / means.sum())
    counts = rng.binomial(population, RATES[cells[:, 2]])
    weights = np.repeat(1.0 / RATES[cells[:, 2]], counts)
    if calibrated:
        weights *= np.exp(0.2 * rng.standard_normal(len(weights)))
    weights *= N / weights.sum()
    keys = [Key.of_size(name, n) for name, n in LEVELS.items()]
    table = CellTable.from_codes(np.repeat(cells, counts, axis=0), keys, population_size=N)
    strata = np.repeat((cells[:, 2] == 2).astype(np.int32), counts)
    sampling = Sampling(
        weights=weights, strata=strata, sizes=np.bincount(strata, weights), from_weights=True
    )
    return replace(table, sampling=sampling), population[counts > 0]


def integrated(model: Any, table: CellTable, n_sweeps: int) -> tuple[list[object], np.ndarray]:
    """Four chains in this process, all E(1/F | f) in every sweep; half of the sweeps are used."""
    started = time.perf_counter()
    data = model.prepare(table)
    prepared = time.perf_counter() - started
    counts = table.counts.astype(np.float64)
    taus = np.empty((2, CHAINS, n_sweeps))
    risk = np.zeros(table.n_cells)
    for chain in range(CHAINS):
        state = model.init(Stream(1, chain, 0), data)
        for sweep in range(1, n_sweeps + 1):
            stream = Stream(1, chain, sweep)
            state, _ = model.step(stream, state, data, 1)
            r1, r2 = model.integrated_risk(stream, state, data, table.cells, counts)
            taus[:, chain, sweep - 1] = r1[table.unique].sum(), r2[table.unique].sum()
            risk += r2 * (sweep > n_sweeps // 2)
    seconds = time.perf_counter() - started
    found = [diagnose(values[:, n_sweeps // 2 :]) for values in taus]
    rhat = max(one.rhat for one in found)
    ess = min(one.ess_bulk for one in found)
    tau1, tau2 = taus[:, :, n_sweeps // 2 :].mean(axis=(1, 2))
    return (
        [f"{prepared:.2f} s", f"{seconds:.2f} s", n_sweeps, f"{rhat:.3f}", f"{ess:.0f}",
         f"{tau1:.1f}", f"{tau2:.1f}"],
        risk / (CHAINS * (n_sweeps - n_sweeps // 2)),
    )  # fmt: skip


def main() -> None:
    """Time both ways."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibrated", action="store_true")
    parser.add_argument("--sweeps", type=int, default=128)
    options = parser.parse_args()
    print(machine())
    table, population = survey(options.calibrated)
    unique = table.unique
    print(
        f"n = {table.n_records:,}, {table.n_cells:,} of {np.prod(list(LEVELS.values())):,} cells "
        f"with records, {table.n_uniques} sample uniques; true tau1 "
        f"{int((population[unique] == 1).sum())}, tau2 {(1.0 / population[unique]).sum():.1f}"
    )
    rows, tables = [], []
    for name in ("superpopulation-1", "superpopulation-2"):
        model = build_model(name, {})
        model.compile()
        integrated(model, table, 2)
        row, risk = integrated(model, table, options.sweeps)
        rows.append([name, "in this process, rates integrated out", *row])
        tables.append((name, classification(risk[unique], 1.0 / population[unique], 0.05)))
        started = time.perf_counter()
        fitted = fit(model, table, seed=1)
        seconds = time.perf_counter() - started
        draws, estimate = fitted.draws, fitted.estimate()
        tau1, tau2 = estimate.tau1, estimate.tau2
        rows.append([
            name, f"fit(), {draws.stop_reason}", "-", f"{seconds:.2f} s", draws.n_sweeps,
            f"{max(tau1.rhat, tau2.rhat):.3f}", f"{min(tau1.ess_bulk, tau2.ess_bulk):.0f}",
            f"{tau1.mean:.1f} [{tau1.lower:.0f}, {tau1.upper:.0f}]",
            f"{tau2.mean:.1f} [{tau2.lower:.1f}, {tau2.upper:.1f}]",
        ])  # fmt: skip
    head = ["model", "how", "prepare", "in all", "sweeps", "R-hat", "ESS", "tau1", "tau2"]
    print_table(head, rows)
    for name, found in tables:
        (safe, missed), (false_alarm, right) = found.tolist()
        print(
            f"{name}, sample uniques with r2 above 0.05: {right} of {right + missed} unsafe ones "
            f"found, {false_alarm} of {safe + false_alarm} safe ones called unsafe"
        )


if __name__ == "__main__":
    main()
