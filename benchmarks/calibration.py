"""What is known of the error of latent classes before a file is seen: the prior of `auto`.

    python benchmarks/calibration.py FOLDER --cases 442
    python benchmarks/calibration.py FOLDER --table

Every case is a population of real records (all rows of a file of the shared data, or a part of its
households), four to ten of its columns as keys, and one sample of 200 to 15,000 persons, drawn one
by one or by whole households. Keys have the levels of the sample (in six of ten cases) or of the
population. Latent classes are fitted to the sample; kept are draws of the probability of each cell
that is seen once, twice or three times, and the population counts of the sample uniques. These
give the likelihood of the overdispersion k and the shift d of the fit (`models.calibrated`): counts
above six say no more than that, since what matters is how many are one, and cells that are far more
frequent than the model says would decide everything else. Together with what the rare cells of the
sample itself tell (`studies.rare_cells`) they give the parameters of `studies.calibrate` that make
the truth likely given the sample, each survey counting with the square root of its cases. Printed:
these parameters, all surveys together and without each; and how well tau1 and tau2 are predicted in
the survey left out.
"""

from __future__ import annotations

import argparse
import math
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd
from common import DATA, machine, print_table
from scipy.optimize import minimize

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
SIMULATED = "eusilc"
"""A population made of copies of sampled records. No prior learned from real ones fits it; its
cases are shown and not learned from."""
SWEEPS, WARM_UP, CHAINS, KEPT = 1300, 500, 2, 100
LAST = 6
"""Counts of a cell in the population from here on are one category."""
TRUTH = 0.7
"""Power of the likelihood of the truth: records of one population are not independent."""


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
    from unikat import CellTable, Key, LatentClass
    from unikat.models.base import Stream

    begin = time.monotonic()
    found = drawn(case)
    codes, units = found["codes"], found["sampled"]
    known = units if found["levels"] == "sample" else slice(None)
    levels = [np.unique(codes[known, j]) for j in range(codes.shape[1])]
    seen = [np.searchsorted(level, codes[units, j]) for j, level in enumerate(levels)]
    keys = [
        Key.of_size(name, max(len(level), 2))
        for name, level in zip(found["chosen"], levels, strict=True)
    ]
    table = CellTable.from_codes(np.column_stack(seen), keys, len(codes))
    if table.unique.sum() < 5:
        return f"{case}: too few sample uniques"
    _, where, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    population_counts = np.zeros(table.n_cells, np.int64)
    population_counts[table.record_cell] = counts[where.ravel()[units]]
    groups = [np.flatnonzero(table.counts == times) for times in (1, 2, 3)]
    model, kept = LatentClass(), [[] for _ in groups]
    data = model.prepare(table)
    every = (SWEEPS - WARM_UP) * CHAINS // KEPT
    for chain in range(CHAINS):
        state = model.init(Stream(1, chain, 0), data)
        for sweep in range(1, SWEEPS + 1):
            stream = Stream(1, chain, sweep)
            state, _ = model.step(stream, state, data, 1)
            if sweep > WARM_UP and (sweep - WARM_UP) % every == 0:
                for draws, group in zip(kept, groups, strict=True):
                    draws.append(model.cell_probabilities(stream, state, data, table.cells[group]))
    np.savez(
        folder / f"case-{case}.npz",
        **{name: found[name] for name in ("source", "by_hh", "studied", "levels")},
        n=table.n_records,
        N=len(codes),
        n_levels=np.array(table.n_levels),
        F1=population_counts[groups[0]],
        **{f"p{times}": np.array(p, np.float32) for times, p in zip((1, 2, 3), kept, strict=True)},
    )
    return f"{case} {found['source']}: n {table.n_records}, {time.monotonic() - begin:.0f} s"


@numba.njit(cache=True)
def of_truth(p, counts, n, rest, population_size, overdispersion, shifts, fall, most, last, out):
    """Add the log-probability of each population count to `out` (m, s); p (draws, cells)."""
    part = np.empty(out.shape)
    for i in range(p.shape[1]):
        part[:] = 0.0
        for draw in range(p.shape[0]):
            for s in range(shifts.shape[0]):
                q = max(math.exp(shifts[s]) * p[draw, i], 1e-300)
                relative = max(population_size * q, 1e-30) ** -fall
                for m in range(overdispersion.shape[0]):
                    rate = 1.0 / min(overdispersion[m] * relative, most)
                    odds = rest * q / (rate + n * q)
                    term = math.exp(-(rate + 1.0) * math.log1p(odds))
                    below = 0.0
                    for others in range(min(counts[i], last) - 1):
                        below += term
                        term *= odds / (1.0 + odds) * (rate + 1.0 + others) / (others + 1.0)
                    part[m, s] += max(1.0 - below, 1e-12) if counts[i] >= last else term
        out += np.log(np.maximum(part / p.shape[0], 1e-300))


@numba.njit(cache=True)
def answers(p, n, population_size, overdispersion, shifts, fall, most, out):
    """Expected tau1 and tau2 and their variance given each (k, d) into `out` (4, m, s)."""
    rest = population_size - n
    for m in range(overdispersion.shape[0]):
        for s in range(shifts.shape[0]):
            square1, square2 = 0.0, 0.0
            for draw in range(p.shape[0]):
                sum1, sum2, within1, within2 = 0.0, 0.0, 0.0, 0.0
                for i in range(p.shape[1]):
                    q = max(math.exp(shifts[s]) * p[draw, i], 1e-300)
                    k = min(overdispersion[m] * (population_size * q) ** -fall, most)
                    # F - 1 is negative binomial of shape 1 / k + 1 and success chance `none`.
                    none = 1.0 / (1.0 + k * rest * q / (1.0 + k * n * q))
                    r1 = none ** (1.0 / k + 1.0)
                    r2 = min(k * (none - r1) / max(1.0 - none, 1e-12), 1.0)
                    sum1 += r1
                    sum2 += r2
                    within1 += r1 * (1.0 - r1)
                    # E[1 / F^2] lies between r1 + (r2 - r1) / 2 and r1.
                    within2 += max(r1 + 0.33 * (r2 - r1) - r2 * r2, 0.0)
                out[0, m, s] += sum1 / p.shape[0]
                out[1, m, s] += within1 / p.shape[0]
                out[2, m, s] += sum2 / p.shape[0]
                out[3, m, s] += within2 / p.shape[0]
                square1 += sum1 * sum1 / p.shape[0]
                square2 += sum2 * sum2 / p.shape[0]
            out[1, m, s] += max(square1 - out[0, m, s] ** 2, 0.0)
            out[3, m, s] += max(square2 - out[2, m, s] ** 2, 0.0)


def read_case(path: Path) -> dict[str, Any]:
    """Compute what a fitted case tells of the truth, and its answers; kept beside it."""
    from unikat.kernels.overdispersion import FALL, MOST
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS
    from unikat.risk.exposure import EqualChances
    from unikat.studies.rare_cells import BINS, RareCells, RareCellTotals

    kept = path.with_name(path.name.replace("case", "read"))
    if kept.exists():
        with np.load(kept) as file:
            return {name: file[name][()] for name in file.files}
    with np.load(path) as file:
        names = ("source", "by_hh", "studied", "levels", "n", "N", "F1", "p1", "p2", "p3")
        case = {name: file[name][()] for name in names} | {"n_keys": len(file["n_levels"])}
    n, size = float(case["n"]), float(case["N"])
    p, counts = case["p1"].astype(np.float64), case["F1"]
    step = -(-p.shape[1] // 1500)
    shape = (len(OVERDISPERSION), len(SHIFTS))
    truth, found = np.zeros(shape), np.zeros((4, *shape))
    grids = (OVERDISPERSION, SHIFTS, FALL, MOST)
    of_truth(np.ascontiguousarray(p[::5, ::step]), counts[::step], n, size - n, size, *grids, LAST,
             truth)  # fmt: skip
    answers(np.ascontiguousarray(p[::10, ::step]), n, size, *grids, found)
    times = np.repeat([1, 2, 3], [case[f"p{f}"].shape[1] for f in (1, 2, 3)])
    rare = RareCells(
        cells=np.zeros((len(times), 1), np.int32),
        counts=times,
        weights=np.ones(len(times)),
        n_records=int(n),
        population_size=int(size),
        exposure=EqualChances(unobserved=size - n),
    )
    draws = np.concatenate([case[f"p{f}"] for f in (1, 2, 3)], axis=1).T.astype(np.float64)
    places = np.clip((np.log(size * draws + 1e-300) - BINS[0]) / (BINS[1] - BINS[0]), 0, 79)
    binned = np.zeros((len(times), len(BINS) - 1), np.int32)
    np.add.at(binned, (np.arange(len(times))[:, None], places.astype(np.int64)), 1)
    units = size * draws.sum(axis=1)
    totals = RareCellTotals(binned, units, n / size * units)
    result = {
        **{name: case[name] for name in ("source", "by_hh", "studied", "levels", "n", "N")},
        "n_keys": case["n_keys"],
        "uniques": len(counts),
        "true1": int((counts == 1).sum()),
        "true2": float((1.0 / counts).sum()),
        "truth": step * truth,
        "evidence": rare.log_likelihood(totals),
        "answers": step * found,
    }
    np.savez(kept, **result)
    return result


def survey(case: dict[str, Any]) -> str:
    """Survey of a case: populations of one survey are left out together."""
    return str(case["source"]).split("-")[0]


class Cases:
    """Cases with what is learned from, as arrays, and the loss of an `Experience`."""

    def __init__(self, cases: list[dict[str, Any]]) -> None:
        from unikat.studies import calibrate

        self.cases = cases
        surveys = [survey(case) for case in cases]
        weight = np.array([1.0 / math.sqrt(surveys.count(one)) for one in surveys])
        self.weight = weight / weight.mean()
        keys = [np.clip(case["n_keys"], calibrate.FEWEST_KEYS, calibrate.MOST_KEYS) / 8.0
                for case in cases]  # fmt: skip
        records = [np.clip(case["n"], calibrate.FEWEST_RECORDS, calibrate.MOST_RECORDS) / 1800.0
                   for case in cases]  # fmt: skip
        self.log_keys, self.log_records = np.log(keys), np.log(records)
        self.households = np.array([float(case["by_hh"]) for case in cases])
        self.truth = np.array([TRUTH * (case["truth"] - case["truth"].max()) for case in cases])
        self.evidence = np.array([case["evidence"] for case in cases])

    def weights(self, of: Any, kind: str = "rare cells") -> np.ndarray:
        """Probability of each (k, d) given what each sample tells, (cases, m, s)."""
        from unikat.models.calibrated import OVERDISPERSION, SHIFTS
        from unikat.studies.calibrate import TAILS

        if kind == "model alone":
            alone = np.zeros((len(self.cases), len(OVERDISPERSION), len(SHIFTS)))
            alone[:, 0, int(np.argmin(np.abs(SHIFTS)))] = 1.0
            return alone
        log_k, width = np.log(OVERDISPERSION), np.gradient(SHIFTS)
        centre = of.centre + of.slope * self.log_keys
        shift = of.shift + of.households * self.households
        shift += (of.size + of.household_size * self.households) * self.log_records
        e = (log_k - centre[:, None]) / of.deviation
        f = (SHIFTS - shift[:, None]) / of.shift_deviation
        squares = e[:, :, None] ** 2 + f[:, None, :] ** 2
        found = (1.0 + squares / TAILS) ** (-0.5 * (TAILS + 2.0)) * width
        if kind == "rare cells":
            seen = np.exp(of.power * self.evidence)
            by_k = np.exp(-0.5 * ((log_k - log_k[:, None] - of.lag_k) / of.spread_k) ** 2)
            by_d = np.exp(-0.5 * ((SHIFTS - SHIFTS[:, None] - of.lag_d) / of.spread_d) ** 2) * width
            by_k /= by_k.sum(axis=1, keepdims=True)
            by_d /= by_d.sum(axis=1, keepdims=True)
            found = found * np.einsum("ab,nbd,cd->nac", by_k, seen, by_d, optimize=True)
        weights: np.ndarray = found / found.sum(axis=(1, 2), keepdims=True)
        return weights

    def loss(self, values: np.ndarray) -> float:
        """Minus the log-likelihood of the truth, with weak priors of the parameters."""
        weights = self.weights(experience(values))
        logs = np.log(np.maximum((weights * np.exp(self.truth)).sum(axis=(1, 2)), 1e-60))
        off = (values - MIDDLES) / LOOSE
        return float(-(self.weight * logs).sum() + 0.5 * (off**2).sum())


START = {
    "centre": (-1.0, 2.0), "slope": (1.0, 1.0), "deviation": (math.log(0.6), 1.0),
    "shift": (0.0, 0.3), "households": (0.0, 0.3), "size": (0.0, 0.1), "household_size": (0.0, 0.1),
    "shift_deviation": (math.log(0.08), 1.0), "lag_k": (0.4, 0.7), "lag_d": (0.05, 0.1),
    "spread_k": (math.log(0.5), 0.7), "spread_d": (math.log(0.06), 0.7),
    "power": (math.log(0.7), 0.7),
}  # fmt: skip
"""Middle and deviation of the weak prior of each parameter, of its logarithm if `POSITIVE`."""
POSITIVE = ("deviation", "shift_deviation", "spread_k", "spread_d", "power")
MIDDLES, LOOSE = np.array(list(START.values())).T


def experience(values: np.ndarray) -> Any:
    """Make an `Experience` of free parameters."""
    from unikat.studies.calibrate import Experience

    named = dict(zip(START, values.tolist(), strict=True))
    return Experience(**{n: math.exp(v) if n in POSITIVE else v for n, v in named.items()})


def learn(cases: list[dict[str, Any]], start: np.ndarray | None = None) -> np.ndarray:
    """Find the parameters under which the truth is likely given what the samples tell."""
    begin = MIDDLES if start is None else start
    options = {"maxiter": 80 if start is None else 20, "ftol": 1e-7}
    found: np.ndarray = minimize(Cases(cases).loss, begin, method="L-BFGS-B", options=options).x
    return found


def predicted(case: dict[str, Any], weights: np.ndarray, tau: int) -> np.ndarray:
    """Draws of a true tau."""
    rng = np.random.default_rng(0)
    place = rng.choice(weights.size, 3000, p=weights.ravel())
    mean, variance = case["answers"].reshape(4, -1)[2 * tau - 2 : 2 * tau, place]
    least = 0.0 if tau == 1 else 1.0
    return np.clip(mean + rng.normal(size=3000) * np.sqrt(variance), least, float(case["uniques"]))


def scored(case: dict[str, Any], weights: np.ndarray) -> list[float]:
    """Error, coverage, width and log score of tau1 and tau2."""
    row: list[float] = []
    for tau in (1, 2):
        true, draws = float(case[f"true{tau}"]), predicted(case, weights, tau)
        lower, upper = np.quantile(draws, (0.025, 0.975))
        spread = max(draws.std(), 0.5)
        row += [
            draws.mean() / true - 1.0,
            np.floor(lower) <= true <= np.ceil(upper),
            (upper - lower) / true,
            -np.log(spread) - 0.5 * ((true - draws.mean()) / spread) ** 2,
        ]
    return row


def tables(cases: list[dict[str, Any]]) -> None:
    """Print the parameters, and how well the truth is predicted in the survey left out."""
    real = [case for case in cases if case["source"] != SIMULATED]
    surveys = sorted({survey(case) for case in cases})
    everything = learn(real)
    without = {
        name: learn([case for case in real if survey(case) != name], everything) for name in surveys
    }
    rows: list[list[object]] = []
    for name, values in [("all", everything), *without.items()]:
        n = len(real) if name == "all" else sum(survey(case) == name for case in cases)
        label = name if name == "all" else f"without {name}"
        rows.append([label, n, *(f"{x:.3f}" for x in asdict(experience(values)).values())])
    print_table(["surveys", "cases", *START], rows)
    print()
    kinds = ("model alone", "prior", "rare cells")
    found: dict[str, list[tuple[dict[str, Any], list[float]]]] = {kind: [] for kind in kinds}
    for name in surveys:
        left_out = [c for c in cases if survey(c) == name and c["true1"] >= 20]
        if not left_out:
            continue
        group = Cases(left_out)
        for kind in kinds:
            weights = group.weights(experience(without[name]), kind)
            found[kind] += [(c, scored(c, w)) for c, w in zip(left_out, weights, strict=True)]
    groups: dict[str, Any] = {
        "all real": lambda c: c["source"] != SIMULATED,
        "persons": lambda c: c["source"] != SIMULATED and not c["by_hh"],
        "households": lambda c: c["source"] != SIMULATED and c["by_hh"],
        "n below 400": lambda c: c["source"] != SIMULATED and c["n"] < 400,
        "n 400 to 1000": lambda c: c["source"] != SIMULATED and 400 <= c["n"] < 1000,
        "n 1000 to 4000": lambda c: c["source"] != SIMULATED and 1000 <= c["n"] < 4000,
        "n above 4000": lambda c: c["source"] != SIMULATED and c["n"] >= 4000,
    }
    for name in surveys:
        for by in (False, True):
            groups[f"{name}, {'households' if by else 'persons'}"] = partial(_is, name, by)
    rows = []
    for group, member in groups.items():
        for kind in kinds:
            part = np.array([row for case, row in found[kind] if member(case)])
            if not len(part):
                continue
            line: list[object] = [group, len(part), kind]
            for first in (0, 4):
                error, contained, width, score = part[:, first : first + 4].T
                line += [
                    f"{100 * error.mean():+.1f}%", f"{100 * np.abs(error).mean():.1f}%",
                    f"{100 * contained.mean():.0f}%", f"{100 * np.median(width):.0f}%",
                    f"{score.mean():.2f}",
                ]  # fmt: skip
            rows.append(line)
    situations(found["rare cells"])
    columns = ["bias", "abs. error", "contained", "width", "score"]
    heads = [f"{tau} {name}" for tau in ("τ1", "τ2") for name in columns]
    print_table(["survey left out", "cases", "evidence", *heads], rows)
    chance = [
        math.sqrt(2.0 / math.pi * float(c["answers"][1, 12, 12])) / c["true1"]
        for c in real
        if c["true1"] >= 20
    ]
    print(f"\nMean absolute error of τ1 by chance alone: {100 * np.mean(chance):.1f}%")


def situations(found: list[tuple[dict[str, Any], list[float]]]) -> None:
    """Print error and coverage by design, number of records, number of keys, and levels."""
    real = [(case, row) for case, row in found if case["source"] != SIMULATED]
    sizes = {"200 to 400": (0, 400), "400 to 1,000": (400, 1000), "1,000 to 4,000": (1000, 4000),
             "4,000 to 15,000": (4000, math.inf)}  # fmt: skip
    groups: dict[tuple[str, str], Any] = {}
    for name, by in (("persons", False), ("households", True)):
        for size, (low, high) in sizes.items():
            groups[name, size] = lambda c, by=by, low=low, high=high: (
                bool(c["by_hh"]) == by and low <= c["n"] < high
            )
    groups["both", "all"] = lambda c: True
    for size, (low, high) in sizes.items():
        groups["both", size] = lambda c, low=low, high=high: low <= c["n"] < high
    for low, high in ((4, 6), (7, 9), (10, 10)):
        groups["both", f"{low} to {high} keys"] = lambda c, low=low, high=high: (
            low <= c["n_keys"] <= high
        )
    for levels in ("sample", "population"):
        groups["both", f"levels of the {levels}"] = lambda c, levels=levels: c["levels"] == levels
    groups["both", "τ1 of 60 or more"] = lambda c: c["true1"] >= 60
    rows: list[list[object]] = []
    for (name, what), member in groups.items():
        part = np.array([row for case, row in real if member(case)])
        line: list[object] = [name, what, len(part)]
        for first in (0, 4):
            error, contained = part[:, first], part[:, first + 1]
            line += [f"{100 * error.mean():+.1f}%", f"{100 * np.abs(error).mean():.1f}%",
                     f"{int(contained.sum())}/{len(part)}"]  # fmt: skip
        rows.append(line)
    columns = ["bias", "abs. error", "contained"]
    print_table(["sample", "records", "samples", *columns, "τ2", *columns[1:]], rows)
    print()


def _is(name: str, by_household: bool, case: dict[str, Any]) -> bool:
    return survey(case) == name and bool(case["by_hh"]) == by_household


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=442)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what is there, fit nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        todo = [number for number in range(options.cases)
                if not (options.folder / f"case-{number}.npz").exists()]  # fmt: skip
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            for line in pool.map(run_case, todo, [options.folder] * len(todo)):
                print(line, flush=True)
    print(machine(), end="\n\n")
    paths = sorted(options.folder.glob("case-*.npz"), key=lambda path: int(path.stem[5:]))
    tables([read_case(path) for path in paths])


if __name__ == "__main__":
    main()
