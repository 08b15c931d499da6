"""Samples of whole households: τ1 by three mixtures, with companions as draws and without them.

    python benchmarks/companions.py FOLDER --cases 36
    python benchmarks/companions.py FOLDER --table

Every case is one survey taken as a population, four keys of persons and two or five keys that
members share, or up to six keys of persons alone, and a sample of whole households with 600 to
2,000 members. Latent classes, `hdp` and `gom` are fitted by one chain (400 sweeps, the first half
left out). Printed are the errors of the expected τ1 with all members as draws, and with companions
left out (`kernels.thinning`); then those of each model with the model error of latent classes:
parameters that were learned without the survey (the rows of docs/accuracy.md), and the rare cells
of the model itself.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from common import print_table
from learning import SHARES, Cases, answers, command, scored, shares, survey, tabulated, without
from sampled_households import SOURCES, STUDY, frame

MODELS = ("latent-class", "hdp", "gom")
SHARED = (5, 2, 0)
SURVEYS = ("acs-northeast", "spain-2019", "mexico", "ense", "acs-west", "pakistan")
"""Surveys with five variables that members share; one sample of each for every number of these."""
FEWER = {"pakistan": "eph"}
"""Stands in for it with fewer than five."""
OWN, SWEEPS, KEPT, LEAST = 4, 400, 40, 20


def run_case(case: int, folder: Path) -> str:
    """Fit the three models to the sample of a case, and keep their τ1."""
    from unikat.data.companions import companions_of
    from unikat.data.shared_keys import sharing
    from unikat.kernels.overdispersion import FALL
    from unikat.models.base import Stream
    from unikat.models.calibrated import OVERDISPERSION, SHIFTS
    from unikat.models.catalogue import MODELS as CATALOGUE
    from unikat.models.catalogue import build
    from unikat.risk.by_class import Look
    from unikat.risk.exposure import exposure_of
    from unikat.studies.rare_cells import RareCells

    rng = np.random.default_rng([31, case])
    n_shared, source = SHARED[case // len(SURVEYS) % 3], SURVEYS[case % len(SURVEYS)]
    if n_shared < 5:
        source = FEWER.get(source, source)
    data, home = frame(source)
    persons, shared = (SOURCES[source][part].split() for part in (2, 3))
    # Four keys of persons alone leave next to nobody unique.
    n_own = OWN if n_shared else min(OWN + 2, len(persons))
    chosen = [persons[0], *rng.choice(persons[1:], n_own - 1, replace=False).tolist()]
    chosen += rng.choice(shared, n_shared, replace=False).tolist()
    n = int(np.exp(rng.uniform(np.log(600), np.log(2000))))
    order = rng.permutation(home.max() + 1)
    enough = np.searchsorted(np.cumsum(np.bincount(home)[order]), n) + 1
    sampled = np.flatnonzero(np.isin(home, order[:enough]))
    table, counts = tabulated(data[chosen].to_numpy(), sampled, chosen, sampled)
    households = np.unique(home[sampled], return_inverse=True)[1]
    table = replace(table, households=households.astype(np.int32))
    cells, true = np.ascontiguousarray(table.cells[table.unique]), counts[table.unique]
    companions, exposure, ones = companions_of(table, cells), exposure_of(table), np.ones(len(true))
    found, seconds = np.zeros((len(MODELS), 2)), np.zeros((len(MODELS), 3))
    size, rare = float(table.n_units), RareCells.of(table)
    told = np.zeros((len(MODELS), 4, len(OVERDISPERSION), len(SHIFTS)))
    evidence = np.zeros((len(MODELS), *told.shape[2:]))
    for m, name in enumerate(MODELS):
        model = build(name, {}, CATALOGUE)
        given = model.prepare(table)
        state = model.init(Stream(1, 0, 0), given)
        totals, kept = rare.start(), []
        for sweep in range(1, SWEEPS + 1):
            stream, begin = Stream(1, 0, sweep), time.process_time()
            state, _ = model.step(stream, state, given, 1)
            seconds[m, 0] += (time.process_time() - begin) / SWEEPS
            if sweep <= SWEEPS // 2 or sweep % (SWEEPS // 2 // KEPT):
                continue
            persons = state._replace(homes=()), given._replace(homes=None)
            for place, fitted in enumerate((persons, (state, given))):
                left_out, begin = (None, companions)[place], time.process_time()
                chances = exposure.chances(Look(stream, model, *fitted), cells, left_out)
                seconds[m, 1 + place] += (time.process_time() - begin) / KEPT
                found[m, place] += exposure.risk(chances, ones, False)[0].sum() / KEPT
            kept.append(exposure.probabilities(chances))
            rare.observe(stream, model, state, given, totals)
        answers(np.array(kept)[:: KEPT // 10], float(table.n_records), size, OVERDISPERSION, SHIFTS,
                FALL, told[m])  # fmt: skip
        evidence[m] = rare.log_likelihood(totals)
    np.savez(
        folder / f"case-{case}.npz", source=source, n_shared=n_shared, n=table.n_records,
        N=table.n_units, uniques=len(true), true1=int((true == 1).sum()),
        true2=float((1.0 / true).sum()), n_keys=table.n_keys, sharing=sharing(table), found=found,
        seconds=seconds, answers=told, evidence=evidence,
    )  # fmt: skip
    said = ", ".join(f"{a:.0f} -> {b:.0f}" for a, b in found)
    return (
        f"{case} {source}: n {table.n_records}, {n_shared} shared, true {(true == 1).sum()}, {said}"
    )


def read_case(path: Path) -> dict[str, Any]:
    """Read a case as it was kept."""
    with np.load(path) as file:
        return {name: file[name][()] for name in file.files}


def tables(cases: list[dict[str, Any]]) -> None:
    """Print the errors of every sample, and their means by the number of shared keys."""
    heads = [f"{name} {how}" for name in MODELS for how in ("all members", "at both levels")]
    rows: list[list[object]] = []
    for case in cases:
        errors = case["found"] / case["true1"] - 1.0
        rows.append([case["n_shared"], case["source"], case["n"], case["true1"],
                     *(f"{100 * e:+.0f}%" for e in errors.ravel())])  # fmt: skip
    print_table(["shared keys", "survey", "records", "true τ1", *heads], rows)
    print()
    rows = []
    for n_shared in SHARED:
        part = [case for case in cases if case["n_shared"] == n_shared and case["true1"] >= LEAST]
        if part:
            errors = np.array([case["found"] / case["true1"] - 1.0 for case in part])
            means, sizes = errors.mean(axis=0).ravel(), np.abs(errors).mean(axis=0).ravel()
            rows.append([n_shared, len(part), sum(case["true1"] for case in part) // len(part),
                         *(f"{100 * mean:+.1f}% ({100 * size:.1f}%)"
                         for mean, size in zip(means, sizes, strict=True))])  # fmt: skip
    print_table(["shared keys", "samples", "true τ1", *heads], rows)
    print(f"\nMean error, and mean absolute error in brackets; true τ1 of {LEAST} or more.\n")
    with_error(cases)
    print()
    # A case of each model compiles its kernels in its first call.
    seconds = np.median([case["seconds"] for case in cases], axis=0)
    rows = [[name, *(f"{1e3 * s:.1f}" for s in times)]
            for name, times in zip(MODELS, seconds, strict=True)]  # fmt: skip
    print_table(["ms of", "a sweep", "probabilities", "these without companions"], rows)


def with_error(cases: list[dict[str, Any]]) -> None:
    """Print the errors with the model error, learned without the survey of each case."""
    of = {name: SimpleNamespace(**without("households", name)) for name in set(map(survey, cases))}
    rows: list[list[object]] = []
    for m, name in enumerate(MODELS):
        errors = {}
        for number, case in enumerate(cases):
            mine = {**case, "answers": case["answers"][m], "evidence": case["evidence"][m]}
            group = Cases([{**mine, "truth": np.zeros(1)}], STUDY)
            errors[number] = scored(mine, group.weights(of[survey(case)])[0])
        for n_shared in (*SHARED, None):
            part = np.array([errors[number] for number, case in enumerate(cases)
                             if n_shared in (None, case["n_shared"]) and case["true1"] >= LEAST]
                            )  # fmt: skip
            if len(part):
                label = "any" if n_shared is None else n_shared
                rows.append([name, label, len(part), *shares(part)])
    print_table(["model", "shared keys", "samples", *SHARES], rows)


def main() -> None:
    """Run and print."""
    command(__doc__, run_case, 36, tables, read=read_case)


if __name__ == "__main__":
    main()
