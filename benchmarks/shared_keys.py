"""Samples of whole households whose members share keys: how far `auto` is off, by their number.

    python benchmarks/shared_keys.py FOLDER --repeats 1

Whole households are drawn from surveys that are taken as populations; four keys of persons, and
three, four or five that are the same for all members of a household. Candidates that are never
selected are left out (`auto:candidates=latent-class`), and the evidence is short. Results are kept
in the folder, a line each, and an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import data_file, machine, print_table

from unikat import Design, read
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule
from unikat.models.auto import Auto
from unikat.studies.auto import Execution
from unikat.studies.designs import Population, draw_sample
from unikat.studies.fit import fit

N, SEED = 600, 20261124
SOURCES: dict[str, tuple[str, list[str], list[str]]] = {
    "ACS": ("acs2024_persons_northeast", ["AGEP", "SEX", "MAR", "ESR"],
            ["ST", "TEN", "NP", "HHT", "BLD"]),
    "Pakistan": ("pk_pslm2015", ["AGE", "SEX", "MARST", "EDUC"],
                 ["REGION", "ROOMS", "TENURE", "WATER", "TOILET"]),
    "Mexico": ("mx_enut2019", ["AGE", "SEX", "REL", "ATTEND"],
               ["REGION", "HHSIZE", "ROOMS", "LOCSIZE", "FLOOR"]),
    "Spain, income": ("es_ecv2019", ["AGE", "SEX", "MARST", "EDUC"],
                      ["REGION", "TENURE", "ROOMS", "INCDEC", "HHTYPE"]),
    "Spain, health": ("es_ense2017", ["AGE", "SEX", "EDUC", "ACTIVITY"],
                      ["REGION", "HHTYPE", "ROOMS", "INCGRP", "STRATUM"]),
}  # fmt: skip
"""File, keys of persons, and keys that members share."""
SHARED = (3, 4, 5)


def population(name: str, n_shared: int) -> Population:
    """Read a survey as a population of households."""
    file, persons, shared = SOURCES[name]
    keys = [*persons, *shared[:n_shared]]
    frame = pd.read_parquet(data_file(file))
    if name == "ACS":
        homes = pd.read_parquet(data_file("acs2024_households_northeast"))
        frame = frame.merge(homes[["HH", "TEN", "NP", "HHT", "BLD"]], on="HH")
    design = Design(population_size=len(frame), household=["HH"])
    return Population.of(read(frame, keys, design, missing="level").tabulate())


def trial(people: Population, repeat: int, seconds: float) -> dict[str, Any]:
    """Draw a sample, and estimate."""
    sample = draw_sample(people, N, repeat, seed=SEED, design="households")
    assert sample is not None
    found = fit(
        Auto(candidates=("latent-class",), evidence_seconds=seconds),
        sample.table,
        plan=Plan(n_chains=2, stop=StopRule(rhat=1.02, ess=400.0, max_sweeps=4000)),
        execution=Execution(workers=Workers(n_workers=1, n_threads=1)),
    )
    told, tau1 = found.model.told, found.estimate().tau1
    return {
        "n": sample.table.n_records, "true": sample.tau1, "alone": told.before.mean,
        "mean": tau1.mean, "lower": tau1.lower, "upper": tau1.upper,
    }  # fmt: skip


def rows(trials: list[dict[str, Any]]) -> list[list[object]]:
    """A row for each survey and number of shared keys, and for each number."""
    frame = pd.DataFrame(trials)
    table = []
    for n_shared, group in frame.groupby("shared"):
        parts = [*group.groupby("survey", sort=False), ("all", group)]
        for survey, part in parts:
            error, alone = (part[name] / part["true"] - 1.0 for name in ("mean", "alone"))
            above, below = part["true"] > part["upper"], part["true"] < part["lower"]
            table.append(
                [n_shared, survey, len(part), f"{part['true'].mean():.0f}", f"{alone.mean():+.1%}",
                 f"{error.mean():+.1%}", int((~above & ~below).sum()), int(above.sum()),
                 int(below.sum())]
            )  # fmt: skip
    return table


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0, help="of the evidence, as counted")
    parser.add_argument("--table", action="store_true", help="of what is there; run nothing")
    options = parser.parse_args()
    on = machine()
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "shared_keys.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(one["survey"], one["shared"], one["repeat"]) for one in found}
    for repeat in np.arange(0 if options.table else options.repeats).tolist():
        for n_shared in sorted(SHARED, reverse=True):
            for survey in SOURCES:
                if (survey, n_shared, repeat) in done:
                    continue
                people = population(survey, n_shared)
                found.append({"survey": survey, "shared": n_shared, "repeat": repeat,
                              **trial(people, repeat, options.seconds)})  # fmt: skip
                with file.open("a") as lines:
                    lines.write(json.dumps(found[-1]) + "\n")
    print_table(
        ["shared keys", "survey", "samples", "true τ1", "model alone", "with its error",
         "contained", "truth above", "truth below"],
        rows(found),
    )  # fmt: skip
    print(on)


if __name__ == "__main__":
    main()
