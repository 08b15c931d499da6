"""What the studies of the error of models share: what is kept of a case, and what is learned.

A case is a population, a sample of it, and a model fitted to that (`fit_case`). Of all cases
together the parameters of `studies.calibrate.Experience` are learned, by the likelihood of the
truth given what each sample tells. See calibration.py.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pandas as pd
from common import machine, print_table
from scipy.optimize import minimize

from unikat.kernels.overdispersion import largest

SIMULATED = "eusilc"
"""A population made of copies of sampled records. No prior learned from real ones fits it; its
cases are shown and not learned from."""
SWEEPS, WARM_UP, CHAINS, KEPT = 1300, 500, 2, 100
LAST = 6
"""Counts of a cell in the population from here on are one category."""
TRUTH = 0.7
"""Power of the likelihood of the truth: records of one population are not independent."""


def tabulated(
    codes: np.ndarray, units: np.ndarray, names: list[str], known: Any
) -> tuple[Any, np.ndarray]:
    """Tabulate a sample of a population's codes (N, n_keys), with the levels of `known` rows.

    Returns the table and the population counts of its cells.
    """
    from unikat import CellTable, Key

    levels = [np.unique(codes[known, j]) for j in range(codes.shape[1])]
    seen = [np.searchsorted(level, codes[units, j]) for j, level in enumerate(levels)]
    keys = [
        Key.of_size(name, max(len(level), 2)) for name, level in zip(names, levels, strict=True)
    ]
    table = CellTable.from_codes(np.column_stack(seen), keys, len(codes))
    _, where, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    population_counts = np.zeros(table.n_cells, np.int64)
    population_counts[table.record_cell] = counts[where.ravel()[units]]
    return table, population_counts


def fit_case(
    model: Any,
    table: Any,
    population_counts: np.ndarray,
    path: Path,
    note: dict[str, Any],
    sweeps: tuple[int, int] = (WARM_UP, SWEEPS),
) -> tuple[Any, Any]:
    """Fit a model and keep the probabilities of the cells seen once, twice and three times.

    population_counts (n_cells,); sweeps: those left out at the start, and all. Returns the last
    state, and what the model made of the table.
    """
    from unikat.models.base import Stream

    groups = [np.flatnonzero(table.counts == times) for times in (1, 2, 3)]
    kept: list[list[np.ndarray]] = [[] for _ in groups]
    data = model.prepare(table)
    warm_up, last = sweeps
    every = (last - warm_up) * CHAINS // KEPT
    for chain in range(CHAINS):
        state = model.init(Stream(1, chain, 0), data)
        for sweep in range(1, last + 1):
            stream = Stream(1, chain, sweep)
            state, _ = model.step(stream, state, data, 1)
            if sweep > warm_up and (sweep - warm_up) % every == 0:
                for draws, group in zip(kept, groups, strict=True):
                    draws.append(model.cell_probabilities(stream, state, data, table.cells[group]))
    np.savez(
        path,
        **note,
        n=table.n_records,
        N=table.n_units,
        n_levels=np.array([key.n_levels for key in table.variables]),
        F1=population_counts[groups[0]],
        **{f"p{times}": np.array(p, np.float32) for times, p in zip((1, 2, 3), kept, strict=True)},
    )
    return state, data


@numba.njit(cache=True)
def of_truth(p, counts, n, rest, population_size, overdispersion, shifts, fall, last, out):
    """Add the log-probability of each population count to `out` (m, s); p (draws, cells)."""
    part = np.empty(out.shape)
    for i in range(p.shape[1]):
        part[:] = 0.0
        for draw in range(p.shape[0]):
            for s in range(shifts.shape[0]):
                q = max(math.exp(shifts[s]) * p[draw, i], 1e-300)
                relative = max(population_size * q, 1e-30) ** -fall
                for m in range(overdispersion.shape[0]):
                    rate = 1.0 / min(overdispersion[m] * relative, largest(overdispersion[m]))
                    odds = rest * q / (rate + n * q)
                    term = math.exp(-(rate + 1.0) * math.log1p(odds))
                    below = 0.0
                    for others in range(min(counts[i], last) - 1):
                        below += term
                        term *= odds / (1.0 + odds) * (rate + 1.0 + others) / (others + 1.0)
                    part[m, s] += max(1.0 - below, 1e-12) if counts[i] >= last else term
        out += np.log(np.maximum(part / p.shape[0], 1e-300))


@numba.njit(cache=True)
def answers(p, n, population_size, overdispersion, shifts, fall, out):
    """Expected tau1 and tau2 and their variance given each (k, d) into `out` (4, m, s)."""
    rest = population_size - n
    for m in range(overdispersion.shape[0]):
        for s in range(shifts.shape[0]):
            square1, square2 = 0.0, 0.0
            for draw in range(p.shape[0]):
                sum1, sum2, within1, within2 = 0.0, 0.0, 0.0, 0.0
                for i in range(p.shape[1]):
                    q = max(math.exp(shifts[s]) * p[draw, i], 1e-300)
                    most = largest(overdispersion[m])
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


def read_case(path: Path, households: bool = False) -> dict[str, Any]:
    """Compute what a fitted case tells of the truth, and its answers; kept beside it.

    households: the units are households.
    """
    from unikat.kernels.overdispersion import FALL
    from unikat.models.calibrated import HOUSEHOLD_OVERDISPERSION, OVERDISPERSION, SHIFTS
    from unikat.risk.exposure import EqualChances
    from unikat.studies.rare_cells import BINS, RareCells, RareCellTotals

    kept = path.with_name(path.name.replace("case", "read"))
    if kept.exists():
        with np.load(kept) as file:
            return {name: file[name][()] for name in file.files}
    with np.load(path) as file:
        if "answers" in file:
            return {name: file[name][()] for name in file.files}
        names = ("source", "by_hh", "studied", "levels", "n", "N", "F1", "p1", "p2", "p3")
        case = {name: file[name][()] for name in names} | {"n_keys": len(file["n_levels"])}
    n, size = float(case["n"]), float(case["N"])
    p, counts = case["p1"].astype(np.float64), case["F1"]
    step = -(-p.shape[1] // 1500)
    tried = HOUSEHOLD_OVERDISPERSION if households else OVERDISPERSION
    shape = (len(tried), len(SHIFTS))
    truth, found = np.zeros(shape), np.zeros((4, *shape))
    grids = (tried, SHIFTS, FALL)
    few = np.ascontiguousarray(p[::10, ::step])
    of_truth(np.ascontiguousarray(p[::5, ::step]), counts[::step], n, size - n, size, *grids, LAST,
             truth)  # fmt: skip
    answers(few, n, size, *grids, found)
    times = np.repeat([1, 2, 3], [case[f"p{f}"].shape[1] for f in (1, 2, 3)])
    rare = RareCells(
        cells=np.zeros((len(times), 1), np.int32),
        counts=times,
        weights=np.ones(len(times)),
        n_records=int(n),
        population_size=int(size),
        exposure=EqualChances(unobserved=size - n),
        overdispersion=tried,
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
        "few": few.astype(np.float32),
        "counts": counts[::step],
        "step": step,
    }
    np.savez(kept, **result)
    return result


def survey(case: dict[str, Any]) -> str:
    """Survey of a case: populations of one survey are left out together."""
    return str(case["source"]).split("-")[0]


def of_case(case: dict[str, Any]) -> float:
    """How rare the model alone says that the sample uniques are: g of `studies.calibrate`."""
    from unikat.models.calibrated import SHIFTS
    from unikat.studies.calibrate import rarity

    return rarity(float(case["answers"][0, 0, int(np.argmin(np.abs(SHIFTS)))]), case["uniques"])


class Cases:
    """Cases with what is learned from, as arrays, and the loss of an `Experience`."""

    def __init__(self, cases: list[dict[str, Any]], study: Study) -> None:
        self.cases, self.study = cases, study
        surveys = [survey(case) for case in cases]
        weight = np.array([1.0 / math.sqrt(surveys.count(one)) for one in surveys])
        self.weight = weight / weight.mean()
        keys = [np.clip(case["n_keys"], *study.keys) / 8.0 for case in cases]
        records = [np.clip(case["n"], *study.records) / 1800.0 for case in cases]
        self.log_keys, self.log_records = np.log(keys), np.log(records)
        self.sharing = np.array([float(case.get("sharing", 0.0)) for case in cases])
        self.rarity = np.array([of_case(case) for case in cases])
        self.truth = np.array([TRUTH * (case["truth"] - case["truth"].max()) for case in cases])
        self.evidence = np.array([case["evidence"] for case in cases])

    def weights(self, of: Any, kind: str = "rare cells") -> np.ndarray:
        """Probability of each (k, d) given what each sample tells, (cases, m, s)."""
        from unikat.models.calibrated import HOUSEHOLD_OVERDISPERSION, SHIFTS
        from unikat.studies.calibrate import TAILS

        if kind == "model alone":
            alone = np.zeros(self.truth.shape)
            alone[:, 0, int(np.argmin(np.abs(SHIFTS)))] = 1.0
            return alone
        log_k = np.log(HOUSEHOLD_OVERDISPERSION[: self.truth.shape[1]])
        width = np.gradient(SHIFTS)
        centre = of.centre + of.slope * self.log_keys
        shift = of.shift + of.sharing * self.sharing * self.rarity + of.size * self.log_records
        wider = np.exp(of.sharing_spread * self.sharing)[:, None]
        e = (log_k - centre[:, None]) / of.deviation
        f = (SHIFTS - shift[:, None]) / (of.shift_deviation * wider)
        squares = e[:, :, None] ** 2 + f[:, None, :] ** 2
        found = (1.0 + squares / TAILS) ** (-0.5 * (TAILS + 2.0)) * width
        if kind == "rare cells":
            seen = np.exp(of.power * self.evidence)
            by_k = np.exp(-0.5 * ((log_k - log_k[:, None] - of.lag_k) / of.spread_k) ** 2)
            by_d = np.exp(-0.5 * ((SHIFTS - SHIFTS[:, None] - of.lag_d) / of.spread_d) ** 2) * width
            by_k /= np.maximum(by_k.sum(axis=1, keepdims=True), 1e-300)
            by_d /= by_d.sum(axis=1, keepdims=True)
            found = found * np.einsum("ab,nbd,cd->nac", by_k, seen, by_d, optimize=True)
        # All 0 where a search looked too far away.
        total = np.maximum(found.sum(axis=(1, 2), keepdims=True), 1e-300)
        weights: np.ndarray = found / total
        return weights

    def loss(self, values: np.ndarray) -> float:
        """Minus the log-likelihood of the truth, with weak priors of the parameters."""
        weights = self.weights(experience(values, self.study))
        likelihood = (weights * np.exp(self.truth)).sum(axis=(1, 2))
        logs = np.log(np.maximum(likelihood, 1e-60) + self.study.unlike)
        off = (values - self.study.middles) / self.study.loose
        return float(-(self.weight * logs).sum() + 0.5 * (off**2).sum())


START = {
    "centre": (-1.0, 2.0), "slope": (1.0, 1.0), "deviation": (math.log(0.6), 1.0),
    "shift": (0.0, 0.3), "size": (0.0, 0.1), "sharing": (0.0, 0.05), "sharing_spread": (0.0, 0.3),
    "shift_deviation": (math.log(0.08), 1.0), "lag_k": (0.4, 0.7), "lag_d": (0.05, 0.1),
    "spread_k": (math.log(0.5), 0.7), "spread_d": (math.log(0.06), 0.7),
    "power": (math.log(0.7), 0.7),
}  # fmt: skip
"""Middle and deviation of the weak prior of each parameter, of its logarithm if `POSITIVE`."""
POSITIVE = ("deviation", "shift_deviation", "spread_k", "spread_d", "power")
MIDDLES, LOOSE = np.array(list(START.values())).T


class Study(NamedTuple):
    """What is learned, and from what."""

    keys: tuple[int, int] = (4, 10)
    """Fewer or more count as so many."""
    records: tuple[int, int] = (200, 20_000)
    middles: np.ndarray = MIDDLES
    """Of the weak prior of each parameter."""
    loose: np.ndarray = LOOSE
    fixed: tuple[str, ...] = ()
    """Parameters that keep their middles."""
    again: int = 20
    """Steps of the search without a survey, which starts from the parameters of all."""
    unlike: float = 0.0
    """Added to the likelihood of a case over its largest, so that none decides by itself."""
    apart: tuple[str, ...] = ()
    """Surveys that nothing is learned from."""


PERSONS = Study(keys=(3, 12), fixed=("sharing", "sharing_spread"))


def experience(values: np.ndarray, study: Study) -> Any:
    """Make an `Experience` of free parameters."""
    from unikat.studies.calibrate import Experience

    named = dict(zip(START, values.tolist(), strict=True))
    return Experience(
        # A search may look far away.
        **{n: math.exp(min(max(v, -20.0), 20.0)) if n in POSITIVE else v for n, v in named.items()},
        keys=study.keys,
        records=study.records,
        learned=study.records,
        fractions=(0.0, 1.0),
        uniques=(0.0, 1.0),
        alike=math.inf,
    )


def learn(
    cases: list[dict[str, Any]], study: Study = PERSONS, start: np.ndarray | None = None
) -> np.ndarray:
    """Find the parameters under which the truth is likely given what the samples tell."""
    begin = study.middles if start is None else start
    bounds = [
        (middle, middle) if name in study.fixed else (None, None)
        for name, middle in zip(START, study.middles, strict=True)
    ]
    options = {"maxiter": 80 if start is None else study.again, "ftol": 1e-7}
    loss = Cases(cases, study).loss
    found: np.ndarray = minimize(loss, begin, method="L-BFGS-B", bounds=bounds, options=options).x
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
            draws.mean() / max(true, 1.0) - 1.0,
            np.floor(lower) <= true <= np.ceil(upper),
            (upper - lower) / max(true, 1.0),
            -np.log(spread) - 0.5 * ((true - draws.mean()) / spread) ** 2,
        ]
    return row


Scored = list[tuple[dict[str, Any], list[float]]]
"""Cases with their errors."""
KINDS = ("model alone", "prior", "rare cells")


def learned(
    cases: list[dict[str, Any]], study: Study, name_of_study: str = ""
) -> dict[str, np.ndarray]:
    """Print the parameters, all surveys together and without each; return the latter.

    name_of_study: write them to `RESULTS`.
    """
    real = [case for case in cases if survey(case) not in (SIMULATED, *study.apart)]
    surveys = sorted({survey(case) for case in cases} - set(study.apart))
    everything = learn(real, study)
    without = {
        name: learn([case for case in real if survey(case) != name], study, everything)
        for name in surveys
    }
    rows: list[list[object]] = []
    for name, values in [("all", everything), *without.items()]:
        n = len(real) if name == "all" else sum(survey(case) == name for case in cases)
        label = name if name == "all" else f"without {name}"
        of = experience(values, study)
        rows.append([label, n, *(f"{getattr(of, name):.3f}" for name in START)])
    print_table(["surveys", "cases", *START], rows)
    print()
    if name_of_study:
        path = RESULTS / f"{name_of_study}-parameters.csv"
        pd.DataFrame(rows, columns=["surveys", "cases", *START]).to_csv(path, index=False)
    return without | dict.fromkeys(study.apart, everything)


def scored_without(
    cases: list[dict[str, Any]], without: dict[str, np.ndarray], study: Study, least: int = 20
) -> dict[str, Scored]:
    """Score every case of a true τ1 of `least` by what was learned without its survey, by kind."""
    of = {name: experience(values, study) for name, values in without.items()}
    return scored_by(cases, of, study, least)


def scored_by(
    cases: list[dict[str, Any]], of: dict[str, Any], study: Study, least: int = 20
) -> dict[str, Scored]:
    """Score every case of a true τ1 of `least` by the `Experience` of its survey, by kind."""
    found: dict[str, Scored] = {kind: [] for kind in KINDS}
    for name, values in of.items():
        left_out = [c for c in cases if survey(c) == name and c["true1"] >= least]
        if not left_out:
            continue
        group = Cases(left_out, study)
        for kind in KINDS:
            weights = group.weights(values, kind)
            found[kind] += [(c, scored(c, w)) for c, w in zip(left_out, weights, strict=True)]
    return found


def print_scores(found: dict[str, Scored], groups: dict[str, Any]) -> None:
    """Print the scores of groups of cases, those that a function tells."""
    rows: list[list[object]] = []
    for group, member in groups.items():
        for kind in KINDS:
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
    columns = ["bias", "abs. error", "contained", "width", "score"]
    heads = [f"{tau} {name}" for tau in ("τ1", "τ2") for name in columns]
    print_table(["survey left out", "cases", "evidence", *heads], rows)


_SHARES = ("abs. error", "contained", "truth above, below")
SHARES = ("bias", *_SHARES, "τ2", *_SHARES)
"""Columns of `shares`: those of τ1, then the same of τ2."""


def shares(rows: np.ndarray) -> list[str]:
    """Error and coverage of cases in words; of how many, too."""
    said: list[str] = []
    for first in (0, 4):
        error, contained = rows[:, first], rows[:, first + 1]
        missed = contained == 0
        # Estimates below the truth miss it on the side that understates the risk.
        above, below = int((missed & (error < 0)).sum()), int((missed & (error > 0)).sum())
        said += [f"{100 * error.mean():+.1f}%", f"{100 * np.abs(error).mean():.1f}%",
                 f"{int(contained.sum())}/{len(rows)}", f"{above}, {below}"]  # fmt: skip
    return said


RESULTS = Path(__file__).parent / "results"
"""What the tables of docs/accuracy.md are made of (accuracy_tables.py)."""


def without(study: str, name: str) -> dict[str, float]:
    """Parameters that were found without a survey, of `RESULTS`."""
    found = pd.read_csv(RESULTS / f"{study}-parameters.csv", index_col="surveys")
    return dict(found.loc[f"without {name}"].drop("cases").to_dict())


def write_cases(
    study_name: str, cases: list[dict[str, Any]], of: dict[str, Any], study: Study
) -> None:
    """Write a row for each case, answered by the `Experience` of its survey, to `RESULTS`."""
    from unikat.models.calibrated import SHIFTS

    rows = []
    zero = int(np.argmin(np.abs(SHIFTS)))
    for name, values in of.items():
        group = Cases([case for case in cases if survey(case) == name], study)
        for case, weights in zip(group.cases, group.weights(values), strict=True):
            model = float(case["answers"][0, 0, zero])
            row = {
                "source": case["source"], "survey": name, "n": int(case["n"]), "N": int(case["N"]),
                "keys": int(case["n_keys"]), "shared": case.get("n_shared", ""),
                "alike": f"{float(case.get('sharing', 0.0)):.2f}", "uniques": case["uniques"],
                "all_members": f"{float(case.get('alone', [model])[0]):.1f}",
                "model": f"{model:.1f}",
                "chance": f"{math.sqrt(2.0 / math.pi * case['answers'][1, 12, 12]):.2f}",
            }  # fmt: skip
            for tau in (1, 2):
                draws = predicted(case, weights, tau)
                lower, upper = np.quantile(draws, (0.025, 0.975))
                row |= {
                    f"true{tau}": f"{case[f'true{tau}']:.1f}", f"mean{tau}": f"{draws.mean():.1f}",
                    f"lower{tau}": int(np.floor(lower)), f"upper{tau}": int(np.ceil(upper)),
                }  # fmt: skip
            rows.append(row)
    RESULTS.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS / f"{study_name}.csv", index=False)


def write_deciles(
    study_name: str, cases: list[dict[str, Any]], of: dict[str, Any], study: Study
) -> None:
    """Write the sum of r1 and the true number of population uniques, by decile of r1."""
    from unikat.kernels.overdispersion import FALL
    from unikat.models.calibrated import HOUSEHOLD_OVERDISPERSION, SHIFTS

    risks, unique, counted = [], [], []
    for name, values in of.items():
        group = Cases([case for case in cases if survey(case) == name], study)
        for case, weights in zip(group.cases, group.weights(values), strict=True):
            p, n = case["few"].astype(np.float64), float(case["n"])
            size, r1 = float(case["N"]), np.zeros(case["few"].shape[1])
            for m, s in np.argwhere(weights > 1e-4):
                q = np.maximum(np.exp(SHIFTS[s]) * p, 1e-300)
                k = HOUSEHOLD_OVERDISPERSION[m]
                k = np.minimum(k * (size * q) ** -FALL, largest(k))
                none = 1.0 / (1.0 + k * (size - n) * q / (1.0 + k * n * q))
                r1 += weights[m, s] * (none ** (1.0 / k + 1.0)).mean(axis=0)
            risks.append(r1)
            unique.append(case["counts"] == 1)
            counted.append(np.full(len(r1), float(case["step"])))
    r1, true, each = (np.concatenate(one) for one in (risks, unique, counted))
    order = np.argsort(r1, kind="stable")
    tenth = np.minimum((10 * np.cumsum(each[order]) / each.sum()).astype(int), 9)
    rows = []
    for decile in range(10):
        part = order[tenth == decile]
        said, there = (each[part] * r1[part]).sum(), (each[part] * true[part]).sum()
        spread = math.sqrt((each[part] ** 2 * r1[part] * (1.0 - r1[part])).sum())
        rows.append(
            {
                "decile": decile + 1, "mean": f"{r1[part].mean():.3f}", "predicted": round(said),
                "true": round(there), "deviation": f"{spread:.1f}",
            }
        )  # fmt: skip
    RESULTS.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(RESULTS / f"{study_name}-deciles.csv", index=False)


def by_chance(cases: list[dict[str, Any]]) -> None:
    """Print how wrong estimates are if only chance makes them so."""
    chance = [
        math.sqrt(2.0 / math.pi * float(c["answers"][1, 12, 12])) / c["true1"]
        for c in cases
        if c["source"] != SIMULATED and c["true1"] >= 20
    ]
    print(f"\nMean absolute error of τ1 by chance alone: {100 * np.mean(chance):.1f}%")


def command(
    doc: str | None,
    run: Callable[[int, Path], str],
    n_cases: int,
    show: Callable[[list[dict[str, Any]]], None],
    read: Callable[[Path], dict[str, Any]] = read_case,
    **variants: Callable[[int, Path], str],
) -> None:
    """Run the cases of a study that are not there yet, each kept at once, and show all.

    variants: what runs instead if the option of that name is given.
    """
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=n_cases)
    parser.set_defaults(run=run)
    for name in variants:
        parser.add_argument(f"--{name}", dest="run", action="store_const", const=variants[name])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print what is there, fit nothing")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if not options.table:
        todo = [number for number in range(options.cases)
                if not (options.folder / f"case-{number}.npz").exists()]  # fmt: skip
        with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
            for line in pool.map(options.run, todo, [options.folder] * len(todo)):
                print(line, flush=True)
    print(machine(), end="\n\n")
    paths = sorted(options.folder.glob("case-*.npz"), key=lambda path: int(path.stem[5:]))
    show([read(path) for path in paths])
