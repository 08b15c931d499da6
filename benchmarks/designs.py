"""Unequal chances: risk by stratum against the truth, for models with and without the design.

    python benchmarks/designs.py FOLDER --repeats 10
    python benchmarks/designs.py FOLDER --table

Draws stratified samples from the ACS persons of nine northeastern states, as many persons from
each state, so that of Vermont thirty times as large a share is drawn as of New York; paper 5 has
Val d'Aosta in place of Vermont. Two sets of keys: one like paper 5's (17,100 cells), one richer
(about a fifth of the records unique). Every model is told the same weights or strata, and is held
against the whole file. One line of JSON per sample and model is kept in FOLDER; an interrupted
study goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from common import data_file, machine, print_table

KEYS = {
    "like paper 5": ("ST", "SEX", "AGEP:width(5)", "COW", "MAR"),
    "richer": ("ST", "SEX", "AGEP:width(2)", "RAC1P", "MAR", "SCHL"),
}
N_STATES = 9
PER_STATE = 600
SMALL = 25_000
"""A state with fewer persons counts as small: Maine, New Hampshire, Rhode Island, Vermont."""
UNSAFE = 0.05
"""Cells of greater risk E(1/F) are unsafe (paper 5, tables 1 and 2)."""
SWEEPS = 1500
REGISTERED = 8000
"""Persons of a registry, ten times as often of 60 and more years as younger."""


@cache
def population(keys: tuple[str, ...]) -> Any:
    """Read the population and the state of each of its units."""
    from unikat import Design, read
    from unikat.studies.designs import Population

    path = data_file("acs2024_persons_northeast")
    # The size is that of the file, which is not known before it is read.
    table = read(path, list(keys), Design(population_size=2**40), missing="level").tabulate()
    states = table.cells[table.record_cell, 0]
    return Population.of(table), states.astype(np.int32)


def models() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Models by label: how the table is told the design, and the model."""
    from unikat import (
        HDP,
        GoM,
        IndividualRisk,
        LatentClass,
        LogLinear,
        Superpopulation1,
        Superpopulation2,
    )

    return {
        "individual-risk": ("strata", IndividualRisk),
        "superpopulation-1, elicited": (
            "strata",
            lambda: Superpopulation1(alpha=0.92, a=0.86, b=80.0),
        ),
        "superpopulation-1": ("strata", Superpopulation1),
        "superpopulation-2, elicited": (
            "strata",
            lambda: Superpopulation2(alpha=0.1, a=80.0, gamma=0.7),
        ),
        "superpopulation-2": ("strata", Superpopulation2),
        "latent-class": ("strata", LatentClass),
        "hdp": ("strata", HDP),
        "gom": ("strata", GoM),
        "latent-class, weights alone": ("weights", LatentClass),
        "latent-class, no design": ("none", LatentClass),
        "loglinear, two-way": ("strata", lambda: LogLinear(terms="two-way")),
        "loglinear, no design": ("none", lambda: LogLinear(terms="two-way")),
    }


def draw(keys: tuple[str, ...], repeat: int) -> tuple[Any, dict[str, Any], Any]:
    """Draw a sample: with the truth, its sampling by what is told of it, and which are small."""
    from unikat.data.design import Sampling
    from unikat.data.sampling import sampling_of

    everybody, states = population(keys)
    rng = np.random.default_rng([5, repeat])
    units = np.sort(
        np.concatenate(
            [
                rng.choice(np.flatnonzero(states == h), PER_STATE, replace=False)
                for h in range(N_STATES)
            ]
        )
    )
    strata = states[units]
    sizes = np.bincount(states, minlength=N_STATES).astype(np.float64)
    weights = sizes[strata] / PER_STATE
    told = {
        "strata": Sampling(weights=weights, strata=strata, sizes=sizes, from_weights=False),
        "weights": sampling_of(weights, len(states)),
        "none": None,
    }
    return everybody.sample(units), told, sizes < SMALL


def assess_sample(label: str, keys: tuple[str, ...], repeat: int) -> dict[str, Any]:
    """Assess a sample by a model, and set it beside the truth."""
    from unikat import fit
    from unikat.inference.plan import Plan, StopRule

    how, make = models()[label]
    drawn, told, is_small = draw(keys, repeat)
    table = replace(drawn.table, sampling=told[how])
    model = make()
    begun = time.perf_counter()
    chains = label.partition(",")[0] in ("latent-class", "hdp", "gom")
    stop = StopRule(max_sweeps=SWEEPS) if chains else StopRule()
    estimate = fit(model, table, seed=repeat, plan=Plan(n_chains=2, stop=stop)).estimate()
    seconds = time.perf_counter() - begun
    truth = drawn.population_counts
    small = is_small[table.cells[:, 0]]
    unique = table.unique
    found: dict[str, Any] = {
        "model": label,
        "repeat": repeat,
        "seconds": seconds,
        "converged": estimate.converged,
        "uniques": int(unique.sum()),
    }
    for name in ("tau1", "tau2"):
        summary = getattr(estimate, name)
        found[name] = [getattr(drawn, name), summary.mean, summary.lower, summary.upper]
    for where, chosen in (("small", unique & small), ("large", unique & ~small)):
        found[where] = {
            "tau1": [int((truth[chosen] == 1).sum()), float(estimate.records.r1[chosen].sum())],
            "tau2": [float((1.0 / truth[chosen]).sum()), float(estimate.records.r2[chosen].sum())],
        }
        cells = small if where == "small" else ~small
        risk, exact = estimate.records.r2[cells], 1.0 / truth[cells]
        pairs = np.bincount(2 * (risk > UNSAFE) + (exact > UNSAFE), minlength=4)
        found[where]["cells"] = pairs.tolist()
        found[where]["error"] = float(np.sqrt(np.mean((risk - exact) ** 2)))
    return found


def assess_registry(keys: tuple[str, ...], repeat: int) -> dict[str, Any]:
    """Carry the counts of a sample to a registry of mostly old people, and set both beside it."""
    from unikat import LatentClass, fit
    from unikat.data.table import CellTable
    from unikat.inference.plan import Plan, StopRule
    from unikat.risk.registry import Registry

    everybody, _ = population(keys)
    drawn, told, _ = draw(keys, repeat)
    table = replace(drawn.table, sampling=told["strata"])
    whole = everybody.table
    labels = whole.keys[2].labels
    old = np.array([int(label.split("-")[0]) >= 60 for label in labels])
    chances = np.where(old[whole.cells[whole.record_cell, 2]], 10.0, 1.0)
    rng = np.random.default_rng([6, repeat])
    registered = rng.choice(
        len(chances), REGISTERED, replace=False, p=chances / chances.sum(), shuffle=False
    )
    codes = whole.cells[whole.record_cell[registered]]
    registry = Registry.of(
        CellTable.from_codes(codes, whole.keys, len(chances), whole.missing), table
    )
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=SWEEPS))
    fitted = fit(LatentClass(), table, seed=repeat, plan=plan, registry=registry)
    risk = fitted.registry_risk()
    assert risk is not None
    place = {tuple(cell): count for cell, count in zip(
        whole.cells.tolist(), whole.counts.tolist(), strict=True)}  # fmt: skip
    unique = registry.possible
    truth = np.array([place[tuple(cell)] for cell in registry.cells[unique].tolist()])
    return {
        "repeat": repeat,
        "uniques": int(unique.sum()),
        "tau1": [int((truth == 1).sum()), risk.tau1.mean, risk.tau1.lower, risk.tau1.upper],
        "tau2": [float((1 / truth).sum()), risk.tau2.mean, risk.tau2.lower, risk.tau2.upper],
    }


def registry_table(folder: Path) -> None:
    """Print what was found of registries."""
    path = folder / "registry.jsonl"
    if not path.exists():
        return
    print("\nRegistry, keys like paper 5")
    head = ["repeat", "unique", "true τ1", "τ1", "interval", "true τ2", "τ2", "interval"]
    rows = []
    for line in map(json.loads, path.read_text().splitlines()):
        one, two = line["tau1"], line["tau2"]
        rows.append(
            [line["repeat"], line["uniques"], one[0], f"{one[1]:.0f}", f"{one[2]:.0f}-{one[3]:.0f}",
             f"{two[0]:.0f}", f"{two[1]:.0f}", f"{two[2]:.0f}-{two[3]:.0f}"]
        )  # fmt: skip
    print_table(head, rows)


def table_of(folder: Path) -> None:
    """Print what was found."""
    for name in KEYS:
        path = folder / f"{name.replace(' ', '-')}.jsonl"
        if not path.exists():
            continue
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        print(f"\nKeys {name}: {', '.join(KEYS[name])}")
        header = [
            "model", "samples", "τ1 held", "τ2 held", "τ1 small", "τ1 large", "τ2 small",
            "τ2 large", "false safe", "false unsafe", "error of r2", "seconds",
        ]  # fmt: skip
        rows = []
        for label in models():
            ours = [line for line in lines if line["model"] == label]
            if not ours:
                continue
            row = [label, str(len(ours))]
            for tau in ("tau1", "tau2"):
                held = np.mean([low <= true <= high for true, _, low, high in (
                    line[tau] for line in ours)])  # fmt: skip
                row.append(f"{held:.0%}")
            for tau in ("tau1", "tau2"):
                for where in ("small", "large"):
                    true, mean = np.mean([line[where][tau] for line in ours], axis=0)
                    row.append(f"{mean:.1f} ({true:.1f})")
            pairs = sum(np.array(line[where]["cells"]) for line in ours
                        for where in ("small", "large"))  # fmt: skip
            row.append(f"{pairs[1] / max(pairs[1] + pairs[3], 1):.1%}")
            row.append(f"{pairs[2] / max(pairs[0] + pairs[2], 1):.1%}")
            error = np.mean([line[where]["error"] for line in ours for where in ("small", "large")])
            row += [f"{error:.3f}", f"{np.mean([line['seconds'] for line in ours]):.1f}"]
            rows.append(row)
        print_table(header, rows)


def main() -> None:
    """Run the study, or print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--models", nargs="*", default=None)
    parser.add_argument("--table", action="store_true", help="print what is there")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(machine())
    if not options.table:
        for repeat in range(1, options.repeats + 1):
            for name, keys in KEYS.items():
                path = options.folder / f"{name.replace(' ', '-')}.jsonl"
                done = set()
                if path.exists():
                    lines = map(json.loads, path.read_text().splitlines())
                    done = {(line["model"], line["repeat"]) for line in lines}
                for label in options.models or models():
                    if (label, repeat) in done:
                        continue
                    found = assess_sample(label, keys, repeat)
                    with path.open("a") as file:
                        file.write(json.dumps(found) + "\n")
        for repeat in range(1, options.repeats + 1):
            path = options.folder / "registry.jsonl"
            lines = path.read_text().splitlines() if path.exists() else []
            if any(json.loads(line)["repeat"] == repeat for line in lines):
                continue
            with path.open("a") as file:
                file.write(json.dumps(assess_registry(KEYS["like paper 5"], repeat)) + "\n")
    table_of(options.folder)
    registry_table(options.folder)


if __name__ == "__main__":
    main()
