"""What is known of the error of latent classes before a file is seen: the prior of `auto`.

    python benchmarks/calibration.py FOLDER --cases 220
    python benchmarks/calibration.py FOLDER --table

Every case is a population of real records (all rows of a file of the shared data, or a part), four
to ten of its columns as keys, and one sample of 500 to 25,000; a fifth are samples of the
populations of accuracy.py. Latent classes are fitted to the sample and to half of it. The counts of
the sample uniques in the population give the likelihood of the overdispersion k and the shift d of
the fit (`models.calibrated`); an EM algorithm over the cases gives their prior (`Experience` in
`risk.calibrate`), each survey counting with the square root of its cases. Printed: the prior, all
surveys together and without each; and how well tau1 and tau2 are predicted in the survey left out
by the model alone, with the prior, and with each kind of evidence that a sample has of itself.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accuracy import LEAST, POPULATIONS, SHARES, prepare
from common import DATA, machine, print_table

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
SOURCES = {
    "acs-northeast": ("acs2024_persons_northeast", ACS),
    "acs-west": ("acs2024_persons_west", ACS),
    "households": ("acs2024_households_northeast", "ST NP BLD TEN HHT HHL MULTG TYPEHUGQ"),
    "eph": ("eph_argentina_4_quarters", "REGION CH03 CH04 CH06 CH07 NIVEL_ED ESTADO CAT_OCUP"),
    "adult": ("adult_48842", ADULT),
    "nist": ("nist_excerpt_ma", NIST),
    "chile": ("chile_census2024_sample25k", CHILE),
    "eusilc": ("eusilcP_population", "region hsize age gender ecoStat citizenship"),
    "uk": ("uk2011_teaching_srs_10k", ""),
    "ny": ("nyexample_X", ""),
}
"""File and key variables; none named: all columns."""
SAME = (("AGEP", "AGE5"), ("edad", "edad_quinquenal"), ("region", "provincia"), ("ST", "PUMA"))
"""Pairs of which a case has one."""
SIMULATED = "eusilc"
"""A population made of copies of sampled records. No prior learned from real ones fits it; its
cases are shown and not learned from."""
STUDIED = 5
"""Every so many cases one is a sample of the populations of accuracy.py."""
SWEEPS, WARM_UP, KEPT = 2500, 900, 16
MOST = 60


@cache
def frame(source: str) -> pd.DataFrame:
    """Read a file and code its columns."""
    name, _ = SOURCES[source]
    data = pd.read_parquet(DATA / f"{name}.parquet")
    if "AGEP" in data:
        data["AGE5"] = data["AGEP"] // 5
    data = data[[column for column in data if data[column].nunique() > 1]]
    return data.apply(
        lambda column: pd.factorize(column.astype(object).where(column.notna(), "NA"))[0]
    ).astype(np.int32)


def sample_of(case: int, folder: Path) -> tuple[Any, np.ndarray, str]:
    """Return a sample, the population count of each of its cells, and the name of the source."""
    from unikat import CellTable, Design, Key, read
    from unikat.studies.designs import Population, draw_units

    if case % STUDIED == STUDIED - 1:
        number = case // STUDIED
        name = list(POPULATIONS)[number // 2 % len(POPULATIONS)]
        path, size = prepare(name, folder)
        keys = POPULATIONS[name][1].split(",")
        table = read(path, keys, Design(population_size=size), missing="level").tabulate()
        n = sorted({max(LEAST, round(share * size)) for share in SHARES})[number % 2]
        population = Population.of(table)
        # Not the seed of the study that tests what is learned here.
        drawn = population.sample(draw_units(population, n, 1 + number // 14, seed=77))
        return drawn.table, drawn.population_counts, name
    rng = np.random.default_rng([7, case])
    # Cases between those of accuracy.py, in turn from each source.
    source = list(SOURCES)[(case - (case + 1) // STUDIED) % len(SOURCES)]
    data = frame(source)
    named = SOURCES[source][1].split() or list(data)
    columns = [column for column in named if column in data]
    n_keys = int(rng.integers(min(4, len(columns)), min(10, len(columns)) + 1))
    chosen = list(rng.choice(columns, n_keys, replace=False))
    for kept, other in SAME:
        if kept in chosen and other in chosen:
            chosen.remove(other)
    size = int(np.exp(rng.uniform(np.log(min(len(data), 10_000)), np.log(len(data)))))
    codes = data[chosen].to_numpy()[rng.choice(len(data), size, replace=False)]
    least, most = max(500, 0.004 * size), min(25_000, 0.12 * size)
    n = int(np.exp(rng.uniform(np.log(least), np.log(max(most, 1.2 * least)))))
    units = np.sort(rng.choice(size, n, replace=False))
    # Levels are those of the sample: an owner without a codebook knows no others.
    levels = [np.unique(codes[units, j]) for j in range(len(chosen))]
    seen = np.column_stack(
        [np.searchsorted(level, codes[units, j]) for j, level in enumerate(levels)]
    )
    sizes = [
        Key.of_size(name, max(len(level), 2)) for name, level in zip(chosen, levels, strict=True)
    ]
    table = CellTable.from_codes(seen, sizes, size)
    _, where, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    population_counts = np.zeros(table.n_cells, np.int64)
    population_counts[table.record_cell] = counts[where.ravel()[units]]
    return table, population_counts, source


def states(table: Any, cells: np.ndarray, seed: int, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Fit latent classes; return probabilities of the cells and expected counts of counts."""
    from unikat import CellTable, LatentClass
    from unikat.models.base import Stream

    model, found, sizes = LatentClass(), [], []
    data = model.prepare(table)
    every = (SWEEPS - WARM_UP) * chains // KEPT
    for chain in range(chains):
        state = model.init(Stream(seed, chain, 0), data)
        for sweep in range(1, SWEEPS + 1):
            stream = Stream(seed, chain, sweep)
            state, _ = model.step(stream, state, data, 1)
            if sweep > WARM_UP and (sweep - WARM_UP) % every == 0:
                found.append(model.cell_probabilities(stream, state, data, cells))
                codes = model.simulate(stream, state, data, table.n_records)
                drawn = CellTable.from_codes(codes, table.keys, table.population_size)
                p = model.cell_probabilities(stream, state, data, drawn.cells)
                sizes.append(expected_sizes(p, drawn.counts, table))
    return np.array(found), np.mean(sizes, axis=0)


def expected_sizes(p: np.ndarray, times: np.ndarray, table: Any) -> np.ndarray:
    """Expected numbers of cells seen once, twice, three times under each k, (m, 3).

    p: cells of a sample drawn from the model, `times`: how often each was drawn. The sum over all
    cells of NB(s; n p, k) is the mean over individuals drawn from the model of NB(s; n p, k) / p.
    """
    from unikat.kernels.overdispersion import FALL
    from unikat.kernels.overdispersion import MOST as LARGEST
    from unikat.models.calibrated import OVERDISPERSION

    mean = table.n_records * p
    rows = []
    for one in OVERDISPERSION:
        k = np.minimum(one * (table.population_size * p) ** -FALL, LARGEST)
        step = mean / (1.0 + k * mean)
        once = (1.0 + k * mean) ** (-1.0 / k - 1.0)
        twice = once * step * (1.0 + k) / 2.0
        rows.append([once, twice, twice * step * (1.0 + 2.0 * k) / 3.0])
    return np.array([[float(times @ size) for size in row] for row in rows])


def likelihood(
    p: np.ndarray, matches: np.ndarray, n: int, rest: int, population_size: int
) -> np.ndarray:
    """Log-likelihood of each (k, d) by how many of the rest match each cell; p (draws, cells)."""
    from unikat.kernels.overdispersion import match_likelihood
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS

    # Cells far from unique tell nothing of risk, and are of another kind.
    chosen = np.flatnonzero(p.mean(axis=0) * rest < 8.0)
    step = max(len(chosen) // 1500, 1)
    cells = chosen[::step]
    total = np.zeros((len(cells), len(OVERDISPERSION), len(SHIFTS)))
    for draw in p:
        match_likelihood(
            draw[cells], np.minimum(matches[cells], MOST), float(n), float(rest),
            float(population_size), OVERDISPERSION, SHIFTS, total,
        )  # fmt: skip
    return step * np.log(np.maximum(total / len(p), 1e-300)).sum(axis=0)


def of_half(matches: Any, p: np.ndarray) -> np.ndarray:
    """Log-likelihood of each (k, d) by the matches of half a sample, as `auto` computes it."""
    from unikat.kernels.overdispersion import match_likelihood
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS

    totals = matches.start()
    for draw in p:
        match_likelihood(
            draw, matches.matches, float(matches.n_kept), float(matches.n_left_out),
            float(matches.population_size), OVERDISPERSION, SHIFTS, totals.probability,
        )  # fmt: skip
    totals.n_draws[0] = len(p)
    found: np.ndarray = matches.log_likelihood(totals)
    return found


def answers(p: np.ndarray, n: int, rest: int) -> dict[str, np.ndarray]:
    """Expected tau1 and tau2 and their variance given each (state, k, d)."""
    from unikat.kernels.overdispersion import FALL
    from unikat.kernels.overdispersion import MOST as LARGEST
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS

    shape = (len(p), len(OVERDISPERSION), len(SHIFTS))
    found = {name: np.empty(shape) for name in ("tau1", "variance1", "tau2", "variance2")}
    for i, one in enumerate(OVERDISPERSION):
        for j, d in enumerate(SHIFTS):
            q = p * np.exp(d)
            k = np.minimum(one * ((n + rest) * q) ** -FALL, LARGEST)
            # F - 1 is negative binomial of shape 1 / k + 1 and success chance `none`.
            none = 1.0 / (1.0 + k * rest * q / (1.0 + k * n * q))
            r1 = none ** (1.0 / k + 1.0)
            r2 = np.minimum(k * (none - r1) / np.maximum(1.0 - none, 1e-12), 1.0)
            # E[1 / F^2] lies between r1 + (r2 - r1) / 2 and r1.
            square = r1 + 0.33 * (r2 - r1)
            found["tau1"][:, i, j] = r1.sum(axis=1)
            found["variance1"][:, i, j] = (r1 * (1.0 - r1)).sum(axis=1)
            found["tau2"][:, i, j] = r2.sum(axis=1)
            found["variance2"][:, i, j] = np.maximum(square - r2**2, 0.0).sum(axis=1)
    return found


def run_case(case: int, folder: Path) -> str:
    """Fit a case, and keep what is learned from it."""
    from unikat.data.split import split
    from unikat.studies.matches import Matches

    begin = time.monotonic()
    table, population_counts, source = sample_of(case, folder)
    n, rest = table.n_records, table.population_size - table.n_records
    unique = table.unique
    if unique.sum() < 5:
        return f"{case}: too few sample uniques"
    p, sizes = states(table, table.cells[unique], 1, 2)
    counts = population_counts[unique]
    kept, left_out = split(table, 0.5, case)
    matches = Matches.of(kept, left_out)
    half, _ = states(kept, matches.cells, 2, 1)
    seen = np.array([(table.counts == size).sum() for size in (1, 2, 3)])
    by_sizes = (seen * np.log(sizes) - sizes).sum(axis=1)
    np.savez(
        folder / f"case-{case}.npz",
        source=source, studied=case % STUDIED == STUDIED - 1, n=n, n_keys=table.n_keys,
        uniques=int(unique.sum()),
        true1=int((counts == 1).sum()), true2=float((1.0 / counts).sum()),
        truth=likelihood(p, counts - 1, n, rest, n + rest),
        matches=of_half(matches, half),
        sizes=by_sizes - by_sizes.max(),
        **answers(p[::2], n, rest),
    )  # fmt: skip
    return f"{case} {source}: n {n}, {table.n_keys} keys, {time.monotonic() - begin:.0f} s"


def learn(cases: list[dict[str, Any]], rounds: int = 80) -> Any:
    """Fit the prior to cases by expectation and maximisation."""
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS
    from unikat.studies.calibrate import Experience, prior

    surveys = [survey(case) for case in cases]
    weight = np.array([1.0 / np.sqrt(surveys.count(one)) for one in surveys])
    keys = np.log(np.array([case["n_keys"] for case in cases]) / 8.0)
    design = np.column_stack([np.ones(len(keys)), keys])
    log_k = np.log(OVERDISPERSION)
    found = Experience(
        centre=-1.2, slope=0.7, deviation=0.8, shift=0.0, ridge=0.0, shift_deviation=0.1
    )
    for _ in range(rounds):
        shares = []
        for case in cases:
            # Records of one population are not independent of each other.
            seen = np.exp(0.7 * (case["truth"] - case["truth"].max()))
            joint = prior(int(case["n_keys"]), found) * seen
            shares.append(joint / joint.sum())
        joint = np.array(shares)
        of_k, of_d = joint.sum(axis=2), joint.sum(axis=1)
        k1, k2 = of_k @ log_k, of_k @ log_k**2
        line = np.linalg.solve(design.T @ (weight[:, None] * design), design.T @ (weight * k1))
        mean = design @ line
        # Moments of e = log k - mean and of d, over the cases.
        moments = np.stack(
            [
                k1 - mean,
                of_d @ SHIFTS,
                k2 - 2.0 * mean * k1 + mean**2,
                of_d @ SHIFTS**2,
                np.einsum("ikd,k,d->i", joint, log_k, SHIFTS) - mean * (of_d @ SHIFTS),
            ]
        )
        e, d, ee, dd, ed = np.average(moments, axis=1, weights=weight)
        ridge = (ed - e * d) / (ee - e**2)
        shift = d - ridge * e
        rest = dd - 2.0 * shift * d - 2.0 * ridge * ed + shift**2 + ridge**2 * ee
        rest += 2.0 * shift * ridge * e
        found = Experience(
            centre=float(line[0]),
            slope=float(line[1]),
            deviation=max(float(np.sqrt(ee)), 0.2),
            shift=float(shift),
            ridge=float(ridge),
            shift_deviation=max(float(np.sqrt(rest)), 0.02),
        )
    return found


def survey(case: dict[str, Any]) -> str:
    """Survey of a case: populations of one survey are left out together."""
    return str(case["source"]).split("-")[0]


def predicted(case: dict[str, Any], weights: np.ndarray, tau: str) -> np.ndarray:
    """Draws of a true tau."""
    rng = np.random.default_rng(0)
    pairs = np.unravel_index(rng.choice(weights.size, 2000, p=weights.ravel()), weights.shape)
    state = rng.integers(0, len(case[f"tau{tau}"]), 2000)
    place = (state, *pairs)
    noise = rng.normal(size=2000) * np.sqrt(case[f"variance{tau}"][place])
    return np.minimum(case[f"tau{tau}"][place] + noise, float(case["uniques"]))


def evidence(cases: list[dict[str, Any]], without: dict[str, Any], kind: str) -> list[list[float]]:
    """Errors, coverage, width and log score of tau1 and tau2 with one kind of evidence."""
    from unikat.models.calibrated import SHIFTS
    from unikat.studies.calibrate import posterior, prior

    rows = []
    for case in cases:
        weights = prior(int(case["n_keys"]), without[survey(case)])
        if kind == "matches":
            weights = posterior(weights, case["matches"])
        elif kind == "counts of counts":
            weights = weights * np.exp(0.4 * case["sizes"])[:, None]
        elif kind == "model alone":
            weights = np.zeros_like(weights)
            weights[0, int(np.argmin(np.abs(SHIFTS)))] = 1.0
        row: list[float] = []
        for tau in "12":
            true, drawn = float(case[f"true{tau}"]), predicted(case, weights / weights.sum(), tau)
            lower, upper = np.quantile(drawn, (0.025, 0.975))
            spread = drawn.std()
            row += [
                drawn.mean() / true - 1.0,
                np.floor(lower) <= true <= np.ceil(upper),
                (upper - lower) / true,
                -np.log(spread) - 0.5 * ((true - drawn.mean()) / spread) ** 2,
            ]
        rows.append(row)
    return rows


def tables(cases: list[dict[str, Any]]) -> None:
    """Print the prior, and what each kind of evidence is worth."""
    real = [case for case in cases if case["source"] != SIMULATED]
    surveys = sorted({survey(case) for case in cases})
    without = {name: learn([case for case in real if survey(case) != name]) for name in surveys}
    rows: list[list[object]] = []
    for name, found in [("all", learn(real)), *without.items()]:
        n = len(real) if name == "all" else sum(survey(case) == name for case in cases)
        numbers = asdict(found).values()
        label = name if name == "all" else f"without {name}"
        rows.append([label, n, *(f"{number:.3f}" for number in numbers)])
    print_table(["surveys", "cases", "a", "b", "s", "m", "r", "t"], rows)
    print()
    certain = [case for case in cases if case["true1"] >= 20]
    groups = {
        "accuracy.py": [one for one in certain if one["studied"]],
        "other real": [
            one for one in certain
            if not one["studied"] and one["source"] != SIMULATED
        ],
        "simulated": [one for one in certain if one["source"] == SIMULATED],
    }  # fmt: skip
    rows = []
    for group, members in groups.items():
        for kind in ("model alone", "prior", "matches", "counts of counts"):
            if not members:
                continue
            found = np.array(evidence(members, without, kind))
            names = [survey(case) for case in members]
            weight = np.array([1.0 / np.sqrt(names.count(one)) for one in names])

            def mean(column: np.ndarray, weight: np.ndarray = weight) -> float:
                return float(np.average(column, weights=weight))

            row: list[object] = [group, len(members), kind]
            for first in (0, 4):
                part = found[:, first : first + 4]
                row += [
                    f"{100 * mean(part[:, 0]):+.1f}%", f"{100 * mean(np.abs(part[:, 0])):.1f}%",
                    f"{100 * mean(part[:, 1]):.0f}%", f"{100 * np.median(part[:, 2]):.0f}%",
                    f"{mean(part[:, 3]):.2f}",
                ]  # fmt: skip
            rows.append(row)
    columns = ["bias", "abs. error", "held", "width", "score"]
    print_table(
        ["populations", "cases", "evidence", *(f"τ1 {name}" for name in columns),
         *(f"τ2 {name}" for name in columns)], rows
    )  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=220)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        todo = [number for number in range(options.cases)
                if not (options.folder / f"case-{number}.npz").exists()]  # fmt: skip
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            for line in pool.map(run_case, todo, [options.folder] * len(todo)):
                print(line, flush=True)
    print(machine(), end="\n\n")
    cases = []
    for path in sorted(options.folder.glob("case-*.npz")):
        with np.load(path) as file:
            cases.append(
                {name: file[name] for name in file.files} | {"source": str(file["source"])}
            )
    tables(cases)


if __name__ == "__main__":
    main()
